/* SPDX-License-Identifier: MIT
 * tg bench start: from the start of a process to its first product, kernels and choices on disk among 1,000 entries
 * each. Fresh processes in turns: a program with libtg.a alone, one with libtg_jit.so.0, one with libtg_jit.a, one
 * without tg (start_run.c); nothing may be compiled (TG_GEMM_NO_COMPILE). */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include "bench/bench.h"
#include "bench/start.h"
#include "code/cache.h"
#include "store/store.h"
#include "tg/gemm.h"

extern char **environ;

enum { ENTRIES = 1000, ROUNDS = 200, CASES = sizeof start_cases / sizeof *start_cases };
enum { BARE, RUNTIME, SHARED, JIT, PROGRAMS };
static const char *const programs[PROGRAMS] = {"start_bare", "start", "start_shared", "start_jit"};
static const char *const titles[PROGRAMS] = {"without tg", "libtg.a", "libtg_jit.so.0", "libtg_jit.a"};

typedef struct {
  const tool_args *args;
  char beside[4096], cache[64], tuned[64 + sizeof "/tuned"];   /* folders: of the programs, of kernels, of choices */
  const char *with_tuned;
} starts;

/* ---- the store ---- */

typedef struct { const starts *s; tg_env *env; } filling;

/* Entries as real ones are, under keys that nobody asks for: an object of 20 KB, a choice of a dozen knobs. */
static void fill(void *user) {
  const filling *f = user;
  enum { OBJECT = 20000, KNOBS = 12 };
  char *object = tg_alloc(f->env, OBJECT), key[256];
  tg_binding knobs[KNOBS];
  memset(object, 'o', OBJECT);
  for (int i = 0; i < KNOBS; i++) knobs[i] = (tg_binding){"KNOB", i, i, 1};
  for (int i = 0; i < ENTRIES; i++) {
    int n =
        snprintf(key, sizeof key, "tg bench start: entry %d of %d, of a kernel that no program asks for", i, ENTRIES);
    tg_cache_entry e = {
        .key = key, .key_n = (size_t)n, .signature = object, .signature_n = 1000, .object = object, .object_n = OBJECT};
    int err = tg_cache_write(f->env, f->s->cache, &e);
    if (!err)
      err = tg_store_write(
          f->env, f->s->tuned,
          &(tg_tuned){
              .key = key, .kernel = "none", .knobs = knobs, .knobs_n = KNOBS, .seconds = 1, .default_seconds = 2});
    if (err) tg_fail(f->env, TG_EIO, "%s", strerror(err));
  }
}

static bool fill_folders(const starts *s) {
  tg_env env;
  tg_allocator a = tg_allocator_default();
  tg_env_init(&env, &a);
  bool good = tg_protect(&env, fill, &(filling){s, &env});
  if (!good) fprintf(stderr, "tg bench start: %s\n", env.message);
  tg_env_drop(&env);
  return good;
}

/* What the processes will ask for. */
static bool compile_plans(const starts *s) {
  tg_context *context;
  bool good = !tg_context_create(&(tg_context_options){.cache = s->cache, .tuned = s->tuned}, &context);
  for (int i = 0; good && i < CASES; i++) {
    const start_case *c = &start_cases[i];
    tg_gemm_desc d = {.m = {c->rows ? 1 : c->m, c->rows ? c->m : 0}, .n = {c->n, 0}, .k = {c->k, 0}, .threads = 1};
    tg_gemm *g;
    if (s->args->cases && !strstr(c->name, s->args->cases)) continue;
    if (tg_gemm_plan(context, &d, &g)) good = false, fprintf(stderr, "tg bench start: %s\n", tg_error_message(context));
    else tg_gemm_free(g);
  }
  tg_context_free(context);
  return good;
}

/* ---- processes ---- */

/* Seconds from the start to main, to the first result, to the end; false: it did not do what it should. */
static bool start(const starts *s, int program, int which, start_report *r, double *to_main, double *to_end) {
  char path[4200], number[16];
  int out[2], status = 0;
  pid_t child;
  snprintf(path, sizeof path, "%s/tools/%s", s->beside, programs[program]);
  snprintf(number, sizeof number, "%d", which);
  char *argv[] = {path, number, (char *)(uintptr_t)s->cache, (char *)(uintptr_t)s->with_tuned, NULL};
  posix_spawn_file_actions_t actions;
  if (pipe2(out, O_CLOEXEC)) return perror("tg bench start"), false;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, out[1], 1);
  double t = tool_now();
  int err = posix_spawn(&child, path, &actions, NULL, argv, environ);
  close(out[1]);
  posix_spawn_file_actions_destroy(&actions);
  ssize_t got = err ? -1 : read(out[0], r, sizeof *r);
  close(out[0]);
  if (!err) waitpid(child, &status, 0);
  *to_end = tool_now() - t, *to_main = r->main - t;
  if (!err && !status && got == sizeof *r && !r->wrong && r->from_cache == r->kernels &&
      (program == BARE || r->kernels))
    return true;
  if (err)
    fprintf(stderr, "tg bench start: %s: %s (it is built beside the tool, and not installed)\n", path, strerror(err));
  else
    fprintf(stderr, "tg bench start: %s: status %d, %d elements wrong, %d of %d kernels from the cache\n", path, status,
            got == sizeof *r ? r->wrong : -1, r->from_cache, r->kernels);
  return false;
}

static void report(const starts *s, const char *name, const char *of, const char *what, double *samples, int n) {
  char metric[96];
  snprintf(metric, sizeof metric, "%s, %s", of, what);
  tool_figure(s->args->json, "start", name, metric, tool_median(samples, n) * 1e3, "ms", NULL);
}

/* All programs in turns. */
static bool run_case(const starts *s, int which, const char *choices) {
  static double to_main[PROGRAMS][ROUNDS], run[PROGRAMS][ROUNDS], tg[PROGRAMS][ROUNDS], result[PROGRAMS][ROUNDS],
      end[PROGRAMS][ROUNDS];
  double until = tool_now() + (s->args->seconds > 0 ? s->args->seconds : 3);
  char name[96];
  int n = 0;
  start_report r = {0};
  snprintf(name, sizeof name, "%s%s", start_cases[which].name, choices);
  for (int i = -1; i < ROUNDS && (i < 5 || tool_now() < until); i++)   /* the first round warms the page cache */
    for (int p = 0; p < PROGRAMS; p++) {
      double before, all;
      if (!start(s, p, which, &r, &before, &all)) return false;
      n = i + 1;
      if (i < 0) continue;
      to_main[p][i] = before, run[p][i] = r.run;
      tg[p][i] = r.context + r.plan, end[p][i] = all;
      result[p][i] = before + r.context + r.plan + r.run;
    }
  for (int p = 0; p < PROGRAMS; p++) {
    report(s, name, titles[p], "start to end", end[p], n);
    report(s, name, titles[p], "start to main", to_main[p], n);
    if (p == BARE) continue;
    report(s, name, titles[p], "start to result", result[p], n);
    report(s, name, titles[p], "context and plan", tg[p], n);
    report(s, name, titles[p], "first run", run[p], n);
  }
  tool_figure(s->args->json, "start", name, "kernels of the plan", r.kernels, "kernels", NULL);
  return true;
}

int bench_start(const tool_args *args) {
  starts s = {.args = args, .cache = "/tmp/tg-start-XXXXXX"};
  char remove[160];
  ssize_t n = readlink("/proc/self/exe", s.beside, sizeof s.beside - 1);
  if (n < 0 || !mkdtemp(s.cache)) return perror("tg bench start"), TOOL_BROKEN;
  s.beside[n] = 0;
  *strrchr(s.beside, '/') = 0;
  snprintf(s.tuned, sizeof s.tuned, "%s/tuned", s.cache);
  int ran = 0;
  bool good = fill_folders(&s) && compile_plans(&s);
  for (int i = 0; good && i < CASES; i++) {
    if (args->cases && !strstr(start_cases[i].name, args->cases)) continue;
    s.with_tuned = NULL;
    good = run_case(&s, i, "");
    s.with_tuned = s.tuned;
    good = good && run_case(&s, i, ", choices");
    ran++;
  }
  snprintf(remove, sizeof remove, "rm -rf %s", s.cache);
  if (system(remove)) perror("tg bench start: rm");
  if (good && !ran) return fprintf(stderr, "tg bench start: no case contains '%s'\n", args->cases), TOOL_USAGE;
  return good ? TOOL_OK : TOOL_WRONG;
}
