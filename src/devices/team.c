/* SPDX-License-Identifier: MIT
 * A team of threads. The first to arrive leads: it runs the body. The others wait for loops and take tasks of them,
 * until the body has ended. So everything is done even if tasks of the caller's parallel_for run one after another: the
 * first does all the work, and the others find nothing left.
 *
 * `state` holds the number of the loop in its upper half; below it the OPEN bit and the number of helpers inside. The
 * fields of a loop change only while it is closed and no helper is inside. A helper that has left a loop does not enter
 * it again. */
#include <sched.h>
#include <stdatomic.h>
#include "devices/team.h"

enum { LINE = 64, SPINS = 4096 };
#define OPEN (1ull << 31)
#define INSIDE (OPEN - 1)
#define LOOP (1ull << 32)

struct tg_team {
  void (*body)(void *arg, tg_team *team);
  void *body_arg;
  void (*task)(void *arg, int64_t i);
  void *arg;
  int64_t n;
  _Alignas(LINE) atomic_bool led;
  _Alignas(LINE) atomic_ullong state;
  atomic_bool ended;
  _Alignas(LINE) atomic_llong next;
};

/* Waiting costs little while the others run, and lets them run if there are fewer processors than threads. */
static void relax(uint32_t *spins) {
  if (++*spins >= SPINS) {
    *spins = 0;
    sched_yield();
    return;
  }
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

static void take_tasks(tg_team *t) {
  for (int64_t i; (i = atomic_fetch_add_explicit(&t->next, 1, memory_order_relaxed)) < t->n;) t->task(t->arg, i);
}

void tg_team_for(void *team, int64_t n, void (*task)(void *arg, int64_t i), void *arg) {
  tg_team *t = team;
  uint32_t spins = 0;
  if (n < 2) {
    if (n == 1) task(arg, 0);
    return;
  }
  t->task = task, t->arg = arg, t->n = n;
  atomic_store_explicit(&t->next, 0, memory_order_relaxed);
  unsigned long long loop = (atomic_load_explicit(&t->state, memory_order_relaxed) & ~(LOOP - 1)) + LOOP;
  atomic_store_explicit(&t->state, loop | OPEN, memory_order_release);
  take_tasks(t);
  atomic_fetch_and_explicit(&t->state, ~OPEN, memory_order_relaxed);
  while (atomic_load_explicit(&t->state, memory_order_acquire) & INSIDE) relax(&spins);
}

static void help(tg_team *t) {
  unsigned long long done = 0, s;
  uint32_t spins = 0;
  while (!atomic_load_explicit(&t->ended, memory_order_acquire)) {
    s = atomic_load_explicit(&t->state, memory_order_relaxed);
    if (!(s & OPEN) || s / LOOP == done ||
        !atomic_compare_exchange_weak_explicit(&t->state, &s, s + 1, memory_order_acquire, memory_order_relaxed)) {
      relax(&spins);
      continue;
    }
    done = s / LOOP;
    take_tasks(t);
    atomic_fetch_sub_explicit(&t->state, 1, memory_order_release);
  }
}

static void member(void *arg, int64_t i) {
  tg_team *t = arg;
  (void)i;
  if (atomic_exchange_explicit(&t->led, true, memory_order_relaxed)) {
    help(t);
    return;
  }
  t->body(t->body_arg, t);
  atomic_store_explicit(&t->ended, true, memory_order_release);
}

static void pool_member(void *arg, int64_t i, uint32_t worker) {
  (void)worker;
  member(arg, i);
}

void tg_team_run(tg_pool *pool, tg_parallel_for *parallel_for, void *user, uint32_t threads,
                 void (*body)(void *arg, tg_team *team), void *arg) {
  tg_team t = {.body = body, .body_arg = arg};
  if (threads < 2) member(&t, 0);
  else if (parallel_for) parallel_for(user, threads, member, &t);
  else tg_pool_run(pool, threads, threads, pool_member, &t);
}
