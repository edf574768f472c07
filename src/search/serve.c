/* SPDX-License-Identifier: MIT
 * A worker: reads tasks, and does each in a child process. If the child crashes, overwrites memory or is made to exit
 * by a library, the worker reports that and is unharmed. It ends a child whose task of work is over its limit. Any
 * other task that hangs is killed by the search, together with the worker: both are in one process group. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include "search/trial.h"

typedef struct { const tg_bench *bench; tg_env *env; tg_task *task; } call;

static void run_task(void *arg) {
  call *c = arg;
  const tg_bench *b = c->bench;
  switch (c->task->kind) {
  case TG_TASK_OPEN: b->open(b->self, c->env, c->task); break;
  case TG_TASK_LOWER: b->lower(b->self, c->env, c->task); break;
  case TG_TASK_BUILD: b->build(b->self, c->env, c->task); break;
  case TG_TASK_TIME: b->time(b->self, c->env, c->task); break;
  default: b->checks(b->self, c->env, c->task); break;
  }
}

void tg_bench_run(const tg_bench *bench, tg_env *env, tg_task *t) {
  call c = {bench, env, t};
  t->outcome = TG_TRIAL_OK;
  if (tg_protect(env, run_task, &c)) return;
  t->outcome = env->status == TG_EINVAL ? TG_TRIAL_ILLEGAL : TG_TRIAL_LIMIT;
  t->message = tg_strdup(env, env->message);
  env->status = TG_OK;
}

/* ---- bytes ---- */

static bool read_all(int fd, void *p, size_t n) {
  for (size_t done = 0; done < n;) {
    ssize_t k = read(fd, (char *)p + done, n - done);
    if (k == 0 || (k < 0 && errno != EINTR)) return false;
    if (k > 0) done += (size_t)k;
  }
  return true;
}

static bool write_all(int fd, const void *p, size_t n) {
  for (size_t done = 0; done < n;) {
    ssize_t k = write(fd, (const char *)p + done, n - done);
    if (k < 0 && errno != EINTR) return false;
    if (k > 0) done += (size_t)k;
  }
  return true;
}

/* ---- a task in a child ---- */

static void answer(const tg_bench *bench, tg_env *env, tg_task *t, uint64_t serial, int out) {
  tg_bench_run(bench, env, t);
  tg_str s = tg_str_new(env);
  tg_wire_answer(&s, t, serial);
  write_all(out, s.data, s.n);
}

/* No core dumps, and at most half of the machine's memory, so that a runaway compile fails without harming others. */
static void limit_child(void) {
  struct rlimit none = {0, 0};
  setrlimit(RLIMIT_CORE, &none);
#ifndef TG_SANITIZED
  long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
  rlim_t half = pages > 0 && page > 0 ? (rlim_t)pages / 2 * (rlim_t)page : RLIM_INFINITY;
  struct rlimit memory = {half, half};
  setrlimit(RLIMIT_DATA, &memory);
#endif
  prctl(PR_SET_PDEATHSIG, SIGKILL);
}

/* CPU seconds that the process has used so far; 0: it has ended. */
static double ran(pid_t child) {
  struct timespec t;
  clockid_t clock;
  if (clock_getcpuclockid(child, &clock) || clock_gettime(clock, &t)) return 0;
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Waits until the child says something, or ends. False: first its task of work was over. Looks at the end of the limit,
 * and then again and again: a task that was kept waiting by other processes goes on, one that sleeps does not. */
static bool wait_for(pid_t child, const tg_task *t, int fd) {
  /* in the time of one limit; running less than a hundredth of the time is sleeping */
  enum { LOOKS = 2, SLEEPS = 100 };
  const double step = t->limit / LOOKS, all = t->limit * (t->threads > 1 ? (double)t->threads : 1);
  double now = tg_now(), deadline = now + t->limit, before = 0;
  while (t->work && t->limit > 0) {
    struct pollfd p = {.fd = fd, .events = POLLIN};
    int ready = poll(&p, 1, deadline > now ? (int)(fmin(deadline - now, 1000) * 1000) + 1 : 0);
    if (ready > 0 || (ready < 0 && errno != EINTR)) break;
    if ((now = tg_now()) < deadline) continue;
    double used = ran(child);
    if (used >= all || used - before < step / SLEEPS) return false;
    before = used;
    deadline = now + step;
  }
  return true;
}

/* Reads one frame from the child. Returns its payload, or NULL if the child ended first or the frame is malformed. */
static const char *listen(tg_env *env, int fd, tg_wire_header *f) {
  char *payload = NULL;
  if (read_all(fd, f, sizeof *f) && tg_wire_frame(f)) {
    payload = tg_alloc(env, f->bytes + 1);
    if (!read_all(fd, payload, f->bytes)) payload = NULL;
  }
  return payload;
}

static void say_crashed(tg_env *env, tg_task *t, int status) {
  t->outcome = TG_TRIAL_CRASHED;
  t->message = WIFSIGNALED(status) ? tg_format(env, "ended by signal %d", WTERMSIG(status))
                                   : tg_format(env, "ended by itself, with status %d", WEXITSTATUS(status));
}

static bool answer_apart(const tg_bench *bench, tg_env *env, tg_task *t, uint64_t serial, int out) {
  int pipes[2], status = 0;
  tg_wire_header f;
  if (pipe2(pipes, O_CLOEXEC)) return false;
  pid_t child = fork();
  if (child < 0) {
    close(pipes[0]);
    close(pipes[1]);
    return false;
  }
  if (!child) {
    close(pipes[0]);
    limit_child();
    answer(bench, env, t, serial, pipes[1]);
    kill(getpid(), SIGKILL);   /* SIGKILL, not exit: no exit handler of the host program may run */
  }
  close(pipes[1]);
  bool in_time = wait_for(child, t, pipes[0]);
  const char *payload = in_time ? listen(env, pipes[0], &f) : NULL;
  close(pipes[0]);
  kill(child, SIGKILL);
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {}
  tg_str s = tg_str_new(env);
  tg_task copy = *t;
  if (payload && tg_wire_read_answer(env, &f, payload, serial, &copy)) {
    tg_str_put(&s, (const char *)&f, sizeof f);
    tg_str_put(&s, payload, f.bytes);
  } else {
    if (in_time) say_crashed(env, t, status);
    else t->outcome = TG_TRIAL_HUNG, t->message = tg_format(env, "more than %.1f s", t->limit);
    tg_wire_answer(&s, t, serial);
  }
  return write_all(out, s.data, s.n);
}

typedef struct { const tg_bench *bench; int in, out; bool more; tg_env env; } turn;

static void serve_one(void *arg) {
  turn *w = arg;
  tg_wire_header f;
  tg_task t;
  if (!read_all(w->in, &f, sizeof f) || !tg_wire_frame(&f)) return;
  char *payload = tg_alloc(&w->env, f.bytes + 1);
  if (!read_all(w->in, payload, f.bytes) || !tg_wire_read_ask(&w->env, &f, payload, &t)) return;
  if (t.kind == TG_TASK_OPEN && t.make) {   /* a child fills the shared file, as running the reference may crash */
    w->more = answer_apart(w->bench, &w->env, &t, f.serial, w->out);
    t.make = false;
    tg_bench_run(w->bench, &w->env, &t);
  } else if (t.kind == TG_TASK_OPEN) {
    answer(w->bench, &w->env, &t, f.serial, w->out);
    w->more = true;
  } else w->more = answer_apart(w->bench, &w->env, &t, f.serial, w->out);
}

void tg_serve(const tg_bench *bench, int in, int out) {
  turn w = {.bench = bench, .in = in, .out = out, .more = true};
  while (w.more) {
    w.more = false;
    tg_env_init(&w.env, NULL);
    tg_protect(&w.env, serve_one, &w);
    tg_env_drop(&w.env);
  }
}
