/* SPDX-License-Identifier: MIT
 * Worker threads for launches. A thread without work spins for 200 us (part of what it takes to wake a thread of a
 * virtual machine), so that successive launches start at once; then it sleeps on a futex. A scheduler may wake a worker
 * on the launcher's processor, where it would not run before the job is done; so sleeping workers have that processor
 * excluded from their affinity.
 *
 * A job is open while `state` has the OPEN bit; the low bits of `state` count the workers inside and the places still
 * free. The launcher opens the job, works too, closes it when no task remains, and waits for the workers inside. A
 * worker that wakes late finds it closed and does nothing. A job's fields change only while it is closed and empty.
 *
 * The child of a fork inherits the pool's memory but no workers; its first launch reinitializes the pool, whatever
 * state the parent was in. */
#define _GNU_SOURCE
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <unistd.h>
#include "devices/pool.h"

enum { OPEN = 1 << 30, WAITED = 1 << 29, PLACE = 1 << 12, INSIDE = PLACE - 1, MOST = INSIDE, LINE = 64 };
static const double spin_seconds = 200e-6;

struct tg_pool {
  tg_allocator allocator;
  void *block;                 /* as allocated; the pool begins at a cache line in it */
  uint32_t threads, started;   /* threads: with the caller; started: workers created so far */
  _Atomic(pid_t) owner;        /* whose workers these are; -p: a thread of a forked child p is taking the pool over */
  pthread_mutex_t lock;        /* one launch at a time */
  int away_from;               /* the processor that workers keep away from; -1: none */
  tg_pool_task *task;
  void *arg;
  int64_t n;
  _Alignas(LINE) atomic_uint generation;
  atomic_uint sleeping;
  atomic_bool quit;
  _Alignas(LINE) atomic_uint state;
  _Alignas(LINE) atomic_llong next;
  pthread_t thread[];
};

static void futex_wait(atomic_uint *at, unsigned seen) {
  syscall(SYS_futex, at, FUTEX_WAIT_PRIVATE, seen, NULL, NULL, 0);
}
static void futex_wake(atomic_uint *at, int n) { syscall(SYS_futex, at, FUTEX_WAKE_PRIVATE, n, NULL, NULL, 0); }

static inline void relax(void) {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

/* Spins until *at differs from `seen`, or the spin time is over. */
static bool spin_while(atomic_uint *at, unsigned seen) {
  double until = 0;
  for (unsigned i = 1;; i++) {
    if (atomic_load_explicit(at, memory_order_acquire) != seen) return true;
    relax();
    if (i % 32) continue;
    double now = tg_now();
    if (until == 0) until = now + spin_seconds;
    else if (now > until) return false;
  }
}

static void work(tg_pool *p, uint32_t index) {
  for (;;) {
    int64_t i = atomic_fetch_add_explicit(&p->next, 1, memory_order_relaxed);
    if (i >= p->n) return;
    p->task(p->arg, i, index);
  }
}

/* Enters the job. Returns the worker's number in it, from 1 on; 0: the job needs no more workers. One word says whether
 * a job is open and how many places are free, so a worker that has seen an earlier job cannot take a place in this one
 * by that job's number. */
static uint32_t enter(tg_pool *p) {
  unsigned s = atomic_load_explicit(&p->state, memory_order_acquire), left;
  do {
    left = (s & ~(unsigned)(OPEN | WAITED)) / PLACE;
    if (!(s & OPEN) || !left) return 0;
  } while (
      !atomic_compare_exchange_weak_explicit(&p->state, &s, s - PLACE + 1, memory_order_acquire, memory_order_acquire));
  return left;
}

static void leave(tg_pool *p) {
  unsigned s = atomic_fetch_sub_explicit(&p->state, 1, memory_order_acq_rel);
  if ((s & WAITED) && (s & INSIDE) == 1) futex_wake(&p->state, 1);
}

static void *run_worker(void *arg) {
  tg_pool *p = arg;
  unsigned seen = 0;
  for (;;) {
    if (!spin_while(&p->generation, seen)) {
      atomic_fetch_add(&p->sleeping, 1);
      while (atomic_load(&p->generation) == seen) futex_wait(&p->generation, seen);
      atomic_fetch_sub(&p->sleeping, 1);
    }
    seen = atomic_load(&p->generation);
    if (atomic_load(&p->quit)) return NULL;
    uint32_t number = enter(p);
    if (!number) continue;
    work(p, number);
    leave(p);
  }
}

static size_t block_bytes(uint32_t threads) { return sizeof(tg_pool) + LINE + threads * sizeof(pthread_t); }

tg_pool *tg_pool_open(const tg_allocator *a, uint32_t threads) {
  if (threads < 1) threads = 1;
  if (threads > MOST) threads = MOST;
  char *block = a->alloc(a->user, block_bytes(threads));
  if (!block) return NULL;
  memset(block, 0, block_bytes(threads));
  tg_pool *p = (tg_pool *)(block + (LINE - (uintptr_t)block % LINE) % LINE); /* allocators align to 16 bytes only */
  p->block = block;
  p->allocator = *a;
  p->threads = threads;
  atomic_init(&p->owner, getpid());
  p->away_from = -1;
  pthread_mutex_init(&p->lock, NULL);
  return p;
}

uint32_t tg_pool_threads(const tg_pool *p) { return p->threads; }

uint32_t tg_pool_asked(const tg_pool *p, int asked) {
  uint32_t n = asked < 0 ? UINT32_MAX : asked ? (uint32_t)asked : 1, most = p ? p->threads : 1;
  return n < most ? n : most;
}

/* Signals are blocked in workers: the program's threads handle them. If a worker cannot be created, there are fewer. */
static void start(tg_pool *p, uint32_t wanted) {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  while (p->started < wanted) {
    if (pthread_create(&p->thread[p->started], NULL, run_worker, p)) break;
    p->started++;
  }
  pthread_sigmask(SIG_SETMASK, &before, NULL);
}

/* Does the pool belong to this process? After a fork one thread of the child takes it over; meanwhile other threads run
 * their launches without it. A child of that child, forked meanwhile, takes it over as well. */
static bool is_own(tg_pool *p) {
  pid_t here = getpid(), owner = atomic_load_explicit(&p->owner, memory_order_acquire);
  if (owner == here) return true;
  if (owner == -here || !atomic_compare_exchange_strong(&p->owner, &owner, -here)) return false;
  pthread_mutex_init(&p->lock, NULL);   /* a thread of the parent may have held it */
  p->started = 0;
  p->away_from = -1;
  atomic_store(&p->generation, 0);
  atomic_store(&p->sleeping, 0);
  atomic_store(&p->state, 0);
  atomic_store_explicit(&p->owner, here, memory_order_release);
  return true;
}

/* Lets workers run on the processors that the launching thread may use, but not on the one it is on now. If that one is
 * unknown, or the only one, nothing is changed. */
static void keep_away(tg_pool *p) {
  cpu_set_t may;
  int here = sched_getcpu();
  if (here < 0 || here >= CPU_SETSIZE || here == p->away_from || sched_getaffinity(0, sizeof may, &may)) return;
  CPU_CLR((size_t)here, &may);
  if (!CPU_COUNT(&may)) return;
  for (uint32_t i = 0; i < p->started; i++) pthread_setaffinity_np(p->thread[i], sizeof may, &may);
  p->away_from = here;
}

static void wait_for_workers(tg_pool *p) {
  unsigned s = atomic_fetch_and_explicit(&p->state, ~(unsigned)OPEN, memory_order_acq_rel) & ~(unsigned)OPEN;
  while (s & INSIDE) {
    if (spin_while(&p->state, s)) {
      s = atomic_load_explicit(&p->state, memory_order_acquire);
      continue;
    }
    s = atomic_fetch_or(&p->state, WAITED) | WAITED;
    if (s & INSIDE) futex_wait(&p->state, s);
    s = atomic_load_explicit(&p->state, memory_order_acquire);
  }
  atomic_store_explicit(&p->state, 0, memory_order_relaxed);
}

void tg_pool_run(tg_pool *p, uint32_t threads, int64_t n, tg_pool_task *task, void *arg) {
  if (threads > p->threads) threads = p->threads;
  if ((int64_t)threads > n) threads = n > 0 ? (uint32_t)n : 1;
  if (threads <= 1 || !is_own(p) || pthread_mutex_trylock(&p->lock)) {
    for (int64_t i = 0; i < n; i++) task(arg, i, 0);
    return;
  }
  if (p->started < threads - 1) start(p, threads - 1), p->away_from = -1;
  if (atomic_load(&p->sleeping)) keep_away(p);
  p->task = task;
  p->arg = arg;
  p->n = n;
  atomic_store_explicit(&p->next, 0, memory_order_relaxed);
  atomic_store_explicit(&p->state, OPEN | (threads - 1) * PLACE, memory_order_release);
  atomic_fetch_add(&p->generation, 1);
  if (atomic_load(&p->sleeping)) futex_wake(&p->generation, (int)threads - 1);
  work(p, 0);
  wait_for_workers(p);
  pthread_mutex_unlock(&p->lock);
}

void tg_pool_close(tg_pool *p) {
  if (!p) return;
  if (p->owner == getpid()) {
    atomic_store(&p->quit, true);
    atomic_fetch_add(&p->generation, 1);
    futex_wake(&p->generation, INT_MAX);
    for (uint32_t i = 0; i < p->started; i++) pthread_join(p->thread[i], NULL);
  }
  pthread_mutex_destroy(&p->lock);
  tg_allocator a = p->allocator;
  a.free(a.user, p->block, block_bytes(p->threads));
}
