/* SPDX-License-Identifier: MIT
 * The pool: every task once, whatever the number of threads; launches at the same time, after a pause, over a fork. */
#define _GNU_SOURCE
#include <dirent.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include "../test.h"
#include "devices/pool.h"

enum { TASKS = 1000 };

typedef struct { atomic_int seen[TASKS]; atomic_int beyond; uint32_t threads; } tally;

static void count(void *arg, int64_t i, uint32_t worker) {
  tally *t = arg;
  if (i < 0 || i >= TASKS || worker >= t->threads) atomic_fetch_add(&t->beyond, 1);
  else atomic_fetch_add(&t->seen[i], 1);
}

static bool once(tg_pool *p, uint32_t threads, int64_t n) {
  tally *t = calloc(1, sizeof *t);
  t->threads = threads;
  tg_pool_run(p, threads, n, count, t);
  bool ok = !t->beyond;
  for (int64_t i = 0; i < TASKS; i++) ok &= t->seen[i] == (i < n);
  free(t);
  return ok;
}

/* Threads that this process has. */
static int threads_alive(void) {
  int n = 0;
  DIR *d = opendir("/proc/self/task");
  for (const struct dirent *e; d && (e = readdir(d));) n += e->d_name[0] != '.';
  if (d) closedir(d);
  return n;
}

/* Tasks that wait until as many are at work as there are threads: then no two of them have one number. They wait as long as the process has so many threads: when each is given
 * a processor is the system's affair, and says nothing of the pool. */
typedef struct { atomic_int there, twice, missed; atomic_int taken[8]; int wanted; } meeting;

static void meet(void *arg, int64_t i, uint32_t worker) {
  meeting *m = arg;
  (void)i;
  if (atomic_fetch_add(&m->taken[worker], 1)) atomic_fetch_add(&m->twice, 1);
  atomic_fetch_add(&m->there, 1);
  while (m->there < m->wanted && !m->missed) {
    usleep(100);
    if (threads_alive() < m->wanted && m->there < m->wanted) atomic_fetch_add(&m->missed, 1);   /* who waits in vain is noticed too */
  }
}

typedef struct { tg_pool *pool; bool ok; } launcher;

static void *launch(void *arg) {
  launcher *l = arg;
  l->ok = true;
  for (int i = 0; i < 300; i++) l->ok &= once(l->pool, 1 + (uint32_t)i % 7, i % 50);
  return NULL;
}

#ifdef TG_SANITIZED
enum { CHILDREN = 0 };   /* in the child of a process with threads one sanitizer lets none start, and another's allocator may be locked for ever */
#else
enum { CHILDREN = 5 };
#endif

/* Children of a process whose pool is at work all the time have workers of their own, and so have theirs. NULL, or what is wrong. A child that hangs ends by its alarm, some day. */
static const char *in_child(tg_pool *p, int depth) {
  enum { MISSED = 1, TWICE, NOT_ONCE, ITS_CHILD };
  pid_t child = fork();
  if (child < 0) return "there can be no child";
  if (!child) {
    meeting m = {.wanted = 3};
    alarm(1200);
    tg_pool_run(p, 3, 3, meet, &m);
    int code = m.missed || m.there != 3 ? MISSED : m.twice ? TWICE : !once(p, 7, 100) ? NOT_ONCE : depth && in_child(p, depth - 1) ? ITS_CHILD : 0;
    tg_pool_close(p);
    _exit(code);
  }
  int status = -1;
  while (waitpid(child, &status, 0) < 0) {}
  if (!WIFEXITED(status)) return WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM ? "it hangs" : "it falls";
  switch (WEXITSTATUS(status)) {
  case 0: return NULL;
  case MISSED: return "it has no workers";
  case TWICE: return "two workers have one number";
  case NOT_ONCE: return "not each task ran once";
  default: return "its own child fails";
  }
}

/* Woken workers may not run on one of the processors that the launcher may: the one it was on. */
typedef struct { atomic_int there, allowed; } places;

/* Of this thread, as the system has it: libraries put in front of a program may forge how many there are. */
static int processors(void) {
  unsigned long may[128] = {0};
  long bytes = syscall(SYS_sched_getaffinity, 0, sizeof may, may);
  int n = 0;
  for (long i = 0; i < bytes / (long)sizeof *may; i++) n += __builtin_popcountl(may[i]);
  return n;
}

static void place(void *arg, int64_t i, uint32_t worker) {
  places *m = arg;
  (void)i;
  if (worker) m->allowed = processors();
  atomic_fetch_add(&m->there, 1);
  while (m->there < 2 && threads_alive() > 1) usleep(100);
}

static void keeps_away(tg_pool *p) {
  int all = processors(), want = all > 1 ? all - 1 : all;
  places m = {0};
  for (int turn = 0; turn < 100 && m.allowed != want; turn++) {   /* who found no time to fall asleep is not woken */
    usleep(20000);
    m = (places){0};
    tg_pool_run(p, 2, 2, place, &m);
  }
  CHECK(m.allowed == want, "a worker may run on %d processors of %d", m.allowed, all);
}

int main(void) {
  tg_allocator a = tg_allocator_default();
  tg_pool *p = tg_pool_open(&a, 7);
  static const uint32_t counts[] = {1, 2, 3, 7};
  CHECK(p && tg_pool_threads(p) == 7, "open");
  for (unsigned c = 0; c < TG_COUNT(counts); c++)
    for (int64_t n = 0; n <= TASKS; n = n * 3 + 1) CHECK(once(p, counts[c], n), "%u threads, %lld tasks", counts[c], (long long)n);
  for (int i = 0; i < 2000; i++)
    if (!once(p, 2, 3)) CHECK(false, "launch %d in a row", i);
  for (int n = 2; n <= 7; n++) {
    meeting m = {.wanted = n};
    tg_pool_run(p, (uint32_t)n, n, meet, &m);
    CHECK(m.there == n && !m.twice, "%d threads at work: %d of %d tasks share a number", n, (int)m.twice, (int)m.there);
  }
  for (int i = 0; i < 20; i++) {
    usleep(500); /* long enough to fall asleep */
    CHECK(once(p, 7, 100), "after a pause");
  }
  keeps_away(p);
  pthread_t thread[4];
  launcher l[4];
  for (int i = 0; i < 4; i++) {
    l[i].pool = p;
    pthread_create(&thread[i], NULL, launch, &l[i]);
  }
  for (int i = 0; i < CHILDREN; i++) {
    const char *wrong = in_child(p, i == 4);
    CHECK(!wrong, "child %d of a fork: %s", i, wrong);
  }
  for (int i = 0; i < 4; i++) {
    pthread_join(thread[i], NULL);
    CHECK(l[i].ok, "launches at the same time");
  }
  tg_pool_close(p);
  p = tg_pool_open(&a, 3);
  tg_pool_close(p);
  return TEST_END();
}
