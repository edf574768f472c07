/* SPDX-License-Identifier: MIT
 * Runs deep recursion on a stack of its own. The recursion depth of passes and LLVM depends on the kernel, and the
 * calling thread may have as little as 64 or 16 KiB of stack (threads of servers, coroutines). So a compile runs on a
 * new thread with a stack of the usual size of main threads, and the caller waits for it. There the floating-point
 * environment is the default one: the caller's traps and rounding are for its own numbers. */
#define _GNU_SOURCE
#include <fenv.h>
#include <signal.h>
#include "base/base.h"

enum { STACK = 8 << 20 };

/* What the new thread is for; and what it asks of the one that waits for it. */
typedef struct tg_errand errand;
struct tg_errand {
  void (*fn)(void *);
  void *arg;
  errand *outer;               /* the one that the waiting thread is for itself */
  pthread_mutex_t lock;        /* guards what follows */
  pthread_cond_t changed;
  void (*asked)(void *);       /* NULL: nothing is asked */
  void *asked_arg;
  bool done;
};

static void *run(void *user) {
  errand *w = user;
  fesetenv(FE_DFL_ENV);
  w->fn(w->arg);
  pthread_mutex_lock(&w->lock);
  w->done = true;
  pthread_cond_broadcast(&w->changed);
  pthread_mutex_unlock(&w->lock);
  return NULL;
}

/* In the default floating-point environment, as on the new thread. */
static void run_here(void (*fn)(void *), void *arg) {
  fenv_t before;
  fegetenv(&before);
  fesetenv(FE_DFL_ENV);
  fn(arg);
  fesetenv(&before);
}

/* Has the thread that waits for the errand run fn, or the one that waits for that one. */
static void ask(errand *w, void (*fn)(void *), void *arg) {
  if (!w) {
    run_here(fn, arg);
    return;
  }
  pthread_mutex_lock(&w->lock);
  w->asked = fn;
  w->asked_arg = arg;
  pthread_cond_broadcast(&w->changed);
  while (w->asked) pthread_cond_wait(&w->changed, &w->lock);
  pthread_mutex_unlock(&w->lock);
}

/* Waits for the errand's end, and does what it asks meanwhile. */
static void serve(errand *w) {
  pthread_mutex_lock(&w->lock);
  while (!w->done)
    if (w->asked) {
      pthread_mutex_unlock(&w->lock);
      ask(w->outer, w->asked, w->asked_arg);
      pthread_mutex_lock(&w->lock);
      w->asked = NULL;
      pthread_cond_broadcast(&w->changed);
    } else pthread_cond_wait(&w->changed, &w->lock);
  pthread_mutex_unlock(&w->lock);
}

/* Signals to the program are blocked in the new thread, so that its own threads handle them; those that a fault of this
 * thread raises are not. */
static bool start(pthread_t *thread, errand *w) {
  static const int own[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT, SIGSYS};
  sigset_t others, before;
  pthread_attr_t a;
  if (pthread_attr_init(&a)) return false;
  sigfillset(&others);
  for (size_t i = 0; i < TG_COUNT(own); i++) sigdelset(&others, own[i]);
  pthread_sigmask(SIG_BLOCK, &others, &before);
  bool started = !pthread_attr_setstacksize(&a, STACK) && !pthread_create(thread, &a, run, w);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  pthread_attr_destroy(&a);
  return started;
}

/* of: where the thread is noted for those who ask; NULL: nobody asks. */
static void run_and_serve(errand **of, void (*fn)(void *), void *arg) {
  errand w = {.fn = fn, .arg = arg, .outer = of ? *of : NULL};
  pthread_t thread;
  pthread_mutex_init(&w.lock, NULL);
  pthread_cond_init(&w.changed, NULL);
  if (of) *of = &w;
  if (start(&thread, &w)) {
    serve(&w);
    pthread_join(thread, NULL);
  } else {   /* no thread can be started: on the caller's stack */
    if (of) *of = w.outer;
    run_here(fn, arg);
  }
  if (of) *of = w.outer;
  pthread_cond_destroy(&w.changed);
  pthread_mutex_destroy(&w.lock);
}

void tg_run_on_own_stack(void (*fn)(void *), void *arg) { run_and_serve(NULL, fn, arg); }

void tg_on_callers_stack(tg_env *e, void (*fn)(void *), void *arg) { ask(e->errand, fn, arg); }

typedef struct { tg_env *env; void (*fn)(void *); void *arg; bool ok; } guarded;

static void protect(void *user) {
  guarded *g = user;
  g->ok = tg_protect(g->env, g->fn, g->arg);
}

void tg_on_own_stack(tg_env *e, void (*fn)(void *), void *arg) {
  guarded g = {e, fn, arg, false};
  run_and_serve(&e->errand, protect, &g);
  if (!g.ok) tg_fail(e, e->status, "%s", "the work failed");   /* keeps the message of fn */
}
