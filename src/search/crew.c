/* SPDX-License-Identifier: MIT
 * The search's side of the workers: starts them, sends them tasks, waits with a time limit, kills and restarts them. A
 * worker that crashes or hangs loses only its own task. Without a worker program, tasks are done in process, one after
 * another. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>
#include "search/trial.h"

/* WAITED: a worker sees by itself when a task of work is over; so many times the limit means that it does not */
enum { WORKERS = 64, SHARED_FD = 3, TRIES = 3, WAITED = 10 };
extern char **environ;

typedef struct {
  pid_t pid;                   /* 0: not running */
  int to, from;
  bool opened;
  tg_task *task;               /* being done; NULL: idle */
  uint64_t serial;
  double deadline;             /* by tg_now(); 0: none */
  char *got;                   /* n bytes of the answer, read so far */
  size_t n, cap;
  uint32_t tries;              /* starts that failed in a row */
} worker;

struct tg_crew {
  tg_env *env;
  tg_crew_options o;
  worker worker[WORKERS];
  uint32_t n, restarts;
  uint64_t serial;
  tg_task open;
};

tg_crew *tg_crew_open(tg_env *env, const tg_crew_options *o) {
  tg_crew *c = tg_new(env, tg_crew, 1);
  c->env = env;
  c->o = *o;
  c->n = o->workers < 1 ? 1 : o->workers > WORKERS ? WORKERS : o->workers;
  c->open.shared = -1;
  return c;
}

/* ---- processes ---- */

static void end_worker(worker *w) {
  if (!w->pid) return;
  kill(-w->pid, SIGKILL);
  kill(w->pid, SIGKILL);
  close(w->to);
  close(w->from);
  while (waitpid(w->pid, NULL, 0) < 0 && errno == EINTR) {}
  w->pid = 0;
  w->opened = false;
  w->n = 0;
}

void tg_crew_close(tg_crew *c) {
  for (uint32_t i = 0; c && i < c->n; i++) end_worker(&c->worker[i]);
}

void tg_crew_fresh(tg_crew *c) { tg_crew_close(c); }
uint32_t tg_crew_restarts(const tg_crew *c) { return c->restarts; }

static bool spawn(tg_crew *c, worker *w, const int to[2], const int from[2]) {
  posix_spawn_file_actions_t fa;
  posix_spawnattr_t attr;
  int err = posix_spawn_file_actions_init(&fa);
  if (err) return false;
  err = posix_spawnattr_init(&attr);
  if (!err) {
    /* the shared file first: its number may be 0 or 1, which the pipes take over next */
    if (c->open.shared >= 0) err = posix_spawn_file_actions_adddup2(&fa, c->open.shared, SHARED_FD);
    if (!err) err = posix_spawn_file_actions_adddup2(&fa, to[0], 0);
    if (!err) err = posix_spawn_file_actions_adddup2(&fa, from[1], 1);
    if (!err) err = posix_spawn_file_actions_addopen(&fa, 2, "/dev/null", O_WRONLY, 0);
    if (!err) err = posix_spawnattr_setpgroup(&attr, 0);
    if (!err) err = posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETPGROUP);
    if (!err) err = posix_spawnp(&w->pid, c->o.worker[0], &fa, &attr, (char *const *)(uintptr_t)c->o.worker, environ);
    posix_spawnattr_destroy(&attr);
  }
  posix_spawn_file_actions_destroy(&fa);
  if (err) w->pid = 0;
  return !err;
}

/* A pipe with descriptors above SHARED_FD, so that dup2 in the worker overwrites none of them. */
static bool pipe_above(int p[2]) {
  if (pipe2(p, O_CLOEXEC)) return false;
  for (int i = 0; i < 2; i++) {
    int high = fcntl(p[i], F_DUPFD_CLOEXEC, SHARED_FD + 1);
    if (high < 0) {
      close(p[0]);
      close(p[1]);
      return false;
    }
    close(p[i]);
    p[i] = high;
  }
  return true;
}

static bool start(tg_crew *c, worker *w) {
  int to[2], from[2];
  if (!pipe_above(to)) return false;
  if (!pipe_above(from)) {
    close(to[0]);
    close(to[1]);
    return false;
  }
  bool ok = spawn(c, w, to, from);
  close(to[0]);
  close(from[1]);
  if (!ok) {
    close(to[1]);
    close(from[0]);
    return false;
  }
  w->to = to[1];
  w->from = from[0];
  fcntl(w->from, F_SETFL, O_NONBLOCK);
  return true;
}

/* ---- talking ---- */

/* Writing to a worker that has ended must not kill the search by SIGPIPE. */
static bool send_all(int fd, const char *p, size_t n) {
  sigset_t pipe_only, before, pending;
  sigemptyset(&pipe_only);
  sigaddset(&pipe_only, SIGPIPE);
  pthread_sigmask(SIG_BLOCK, &pipe_only, &before);
  bool ok = true;
  for (size_t done = 0; ok && done < n;) {
    ssize_t k = write(fd, p + done, n - done);
    if (k > 0) done += (size_t)k;
    else if (k < 0 && errno != EINTR) ok = false;
  }
  struct timespec none = {0, 0};
  if (!ok && !sigpending(&pending) && sigismember(&pending, SIGPIPE)) sigtimedwait(&pipe_only, NULL, &none);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  return ok;
}

static bool ask(tg_crew *c, worker *w, tg_task *t) {
  tg_assert(c->env, !w->task && w->pid);   /* an answer that is waited for would be taken for this task's */
  tg_mark mark = tg_mark_get(c->env);
  tg_str s = tg_str_new(c->env);
  w->serial = ++c->serial;
  t->threads = c->open.threads;
  tg_wire_ask(&s, t, w->serial);
  w->task = t;
  w->deadline = t->limit > 0 ? tg_now() + t->limit * (t->work ? WAITED : 1) : 0;
  w->n = 0;
  bool ok = send_all(w->to, s.data, s.n);
  tg_mark_release(c->env, mark);
  return ok;
}

/* Reads from the worker. 1: the answer is complete; 0: not yet; -1: the worker ended, or sent malformed bytes. */
static int hear(tg_crew *c, worker *w) {
  for (;;) {
    tg_wire_header f;
    size_t want = sizeof f;
    if (w->n >= sizeof f) {
      memcpy(&f, w->got, sizeof f);
      if (!tg_wire_frame(&f)) return -1;
      want += f.bytes;
      if (w->n == want) return tg_wire_read_answer(c->env, &f, w->got + sizeof f, w->serial, w->task) ? 1 : -1;
    }
    if (w->cap < want) {
      char *more = tg_alloc(c->env, want * 2);
      if (w->n) memcpy(more, w->got, w->n);
      w->got = more;
      w->cap = want * 2;
    }
    ssize_t k = read(w->from, w->got + w->n, want - w->n);
    if (k > 0) w->n += (size_t)k;
    else if (k < 0 && errno == EINTR) continue;
    else return k < 0 && (errno == EAGAIN || errno == EWOULDBLOCK) ? 0 : -1;
  }
}

static void give_up(tg_crew *c, worker *w, tg_outcome o, const char *message) {
  if (w->task) {
    w->task->outcome = (uint8_t)o;
    w->task->message = message;
  }
  w->task = NULL;
  end_worker(w);
  c->restarts++;
}

static bool stopped(const tg_crew *c) { return c->o.stop && c->o.stop(c->o.user); }

/* Waits up to 50 ms for busy workers, and settles the tasks that were answered, crashed or ran over their limit. */
static void wait_some(tg_crew *c, uint32_t parallel) {
  struct pollfd fds[WORKERS];
  uint32_t which[WORKERS];
  nfds_t n = 0;
  int wait = 50;
  double now = tg_now();
  for (uint32_t i = 0; i < parallel; i++) {
    worker *w = &c->worker[i];
    if (!w->task) continue;
    which[n] = i;
    fds[n++] = (struct pollfd){.fd = w->from, .events = POLLIN};
    if (w->deadline > 0 && (w->deadline - now) * 1000 < wait)
      wait = w->deadline > now ? (int)((w->deadline - now) * 1000) + 1 : 0;
  }
  poll(fds, n, wait);
  now = tg_now();
  for (nfds_t k = 0; k < n; k++) {
    worker *w = &c->worker[which[k]];
    int heard = fds[k].revents ? hear(c, w) : 0;
    if (heard > 0) w->task = NULL, w->tries = 0;
    else if (heard < 0) give_up(c, w, TG_TRIAL_CRASHED, "the worker ended");
    else if (w->deadline > 0 && now > w->deadline)
      give_up(c, w, TG_TRIAL_HUNG, tg_format(c->env, "more than %.1f s", w->task->limit));
  }
}

/* Starts the worker, if need be, and opens the problem in it. False: that failed TRIES times, or the search stops. */
static bool ready(tg_crew *c, worker *w) {
  while (w->tries < TRIES && (!w->pid || !w->opened)) {
    tg_task open = c->open;
    uint32_t alone = (uint32_t)(w - c->worker);
    w->tries++;
    if (!w->pid && !start(c, w)) continue;
    open.make = false;
    open.shared = c->open.shared >= 0 ? SHARED_FD : -1;
    open.outcome = TG_TRIAL_OK;
    if (!ask(c, w, &open)) give_up(c, w, TG_TRIAL_CRASHED, NULL);
    while (w->task && !stopped(c)) wait_some(c, alone + 1);
    if (w->task) return give_up(c, w, TG_TRIAL_SKIPPED, NULL), false;
    w->opened = w->pid && open.outcome == TG_TRIAL_OK;
    if (!w->opened) end_worker(w);
  }
  return w->pid && w->opened;
}

/* ---- the whole crew ---- */

/* Each task gets an env of its own, which is freed after it. */
static void run_here(tg_crew *c, tg_task *t) {
  tg_env own;
  tg_env_init(&own, &c->env->allocator);
  tg_bench_run(c->o.local, &own, t);
  if (t->message) t->message = tg_strdup(c->env, t->message);
  if (t->decisions) t->decisions = tg_strdup(c->env, t->decisions);
  if (t->words) t->words = tg_strdup(c->env, t->words);
  tg_env_drop(&own);
}

void tg_crew_problem(tg_crew *c, tg_task *open) {
  c->open = *open;
  if (!c->o.worker) {
    run_here(c, open);
    return;
  }
  worker *w = &c->worker[0];
  tg_task first = *open;
  first.shared = open->shared >= 0 ? SHARED_FD : -1;
  if ((!w->pid && !start(c, w)) || !ask(c, w, &first))
    give_up(c, w, TG_TRIAL_CRASHED, "the worker could not be started");
  while (w->task) {
    if (stopped(c)) give_up(c, w, TG_TRIAL_SKIPPED, NULL);
    else wait_some(c, 1);
  }
  if (!w->pid && first.outcome == TG_TRIAL_OK)
    first.outcome = TG_TRIAL_CRASHED, first.message = "the worker could not be started";
  w->opened = w->pid && first.outcome == TG_TRIAL_OK;
  int shared = open->shared;
  *open = first;
  open->shared = shared;
}

void tg_crew_run(tg_crew *c, tg_task *tasks, uint32_t n, uint32_t parallel) {
  for (uint32_t i = 0; i < n; i++) tasks[i].outcome = TG_TRIAL_SKIPPED, tasks[i].message = NULL;
  for (uint32_t i = 0; !c->o.worker && i < n && !stopped(c); i++) run_here(c, &tasks[i]);
  if (!c->o.worker) return;
  if (parallel > c->n) parallel = c->n;
  uint32_t next = 0;
  for (;;) {
    bool busy = false;
    for (uint32_t i = 0; i < parallel; i++) {
      worker *w = &c->worker[i];
      if (!w->task && next < n && !stopped(c) && ready(c, w)) {
        tg_task *t = &tasks[next++];
        if (!ask(c, w, t)) give_up(c, w, TG_TRIAL_CRASHED, "the worker ended");
      }
      busy |= w->task != NULL;
    }
    if (!busy) break;
    if (stopped(c)) {
      for (uint32_t i = 0; i < parallel; i++)
        if (c->worker[i].task) give_up(c, &c->worker[i], TG_TRIAL_SKIPPED, NULL);
    } else wait_some(c, parallel);
  }
}
