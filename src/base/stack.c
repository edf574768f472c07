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

typedef struct { void (*fn)(void *); void *arg; } errand;

static void *run(void *user) {
  errand *w = user;
  fesetenv(FE_DFL_ENV);
  w->fn(w->arg);
  return NULL;
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

void tg_run_on_own_stack(void (*fn)(void *), void *arg) {
  errand w = {fn, arg};
  pthread_t thread;
  if (start(&thread, &w)) pthread_join(thread, NULL);
  else {   /* no thread can be started: on the caller's stack */
    fenv_t before;
    fegetenv(&before);
    fesetenv(FE_DFL_ENV);
    fn(arg);
    fesetenv(&before);
  }
}

typedef struct { tg_env *env; void (*fn)(void *); void *arg; bool ok; } guarded;

static void protect(void *user) {
  guarded *g = user;
  g->ok = tg_protect(g->env, g->fn, g->arg);
}

void tg_on_own_stack(tg_env *e, void (*fn)(void *), void *arg) {
  guarded g = {e, fn, arg, false};
  tg_run_on_own_stack(protect, &g);
  if (!g.ok) tg_fail(e, e->status, "%s", "the work failed");   /* keeps the message of fn */
}
