/* SPDX-License-Identifier: MIT
 * The same kernel, schedule and target give the same linear text and the same object bytes: in another process that goes
 * through the programs in another order, and in eight threads at a time, each with an order of its own.
 *   determinism --hashes TARGET N    prints a line for each of the first N programs, last first */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>
#include "../test.h"
#include "kit.h"

enum { THREADS = 8, SHARE = 3 /* of the programs, each thread compiles one in so many: each program is compiled by two threads or more */ };

typedef struct { uint64_t linear; tg_hash128 object; bool compiled; } code_hash;
typedef struct { kit_path *path; const kit_program *program; tg_job *job; code_hash hash; } work;

static void compile(void *user) {
  work *w = user;
  tg_job *j = w->job;
  tg_parse_kernel(j, w->program->path, w->program->text, 0, NULL);
  kit_lower(w->path, j, false, NULL, NULL);
  tg_str text = tg_str_new(&j->env);
  tg_print(j, &text, j->sink);
  tg_code_info info;
  tg_object o = tg_jit_compile(w->path->jit, j, j->sink, &info, NULL, NULL);
  w->hash = (code_hash){tg_hash(text.data, text.n, 0), tg_hash_wide(o.data, o.bytes), true};
}

static code_hash hash_of(kit_path *path, const kit_program *program, bool say) {
  work w = {.path = path, .program = program, .job = malloc(sizeof *w.job)};
  tg_job_init(w.job, NULL);
  if (!tg_protect(&w.job->env, compile, &w)) {
    w.hash = (code_hash){.linear = tg_hash(w.job->env.message, strlen(w.job->env.message), 0)};
    if (say) fprintf(stderr, "%s: %s\n", program->path, w.job->env.message);
  }
  tg_job_drop(w.job);
  free(w.job);
  return w.hash;
}

static bool equal(code_hash a, code_hash b) {
  return a.compiled == b.compiled && a.linear == b.linear && a.object.lo == b.object.lo && a.object.hi == b.object.hi;
}

/* ---- in another process ---- */

static int print_hashes(const char *target, const kit_program *p, int n) {
  kit_path path;
  if (!kit_path_open(&path, target)) return 1;
  for (int i = n; i-- > 0;) {
    code_hash h = hash_of(&path, &p[i], false);
    printf("%d %d %llx %llx %llx\n", i, h.compiled, (unsigned long long)h.linear, (unsigned long long)h.object.lo, (unsigned long long)h.object.hi);
  }
  kit_path_close(&path);
  return 0;
}

static void other_process(const char *self, const char *target, const kit_program *p, int n, const code_hash *want) {
  char command[600];
  snprintf(command, sizeof command, "%s --hashes %s %d", self, target, n);
  FILE *f = popen(command, "r");
  int i, compiled, seen = 0;
  unsigned long long linear, lo, hi;
  while (f && fscanf(f, "%d %d %llx %llx %llx", &i, &compiled, &linear, &lo, &hi) == 5) {
    seen++;
    CHECK(i >= 0 && i < n && equal(want[i], (code_hash){linear, {lo, hi}, compiled}), "%s for %s: other code in another process", p[i].path, target);
  }
  CHECK(f && !pclose(f) && seen == n, "%d of %d programs came back", seen, n);
}

/* ---- in threads ---- */

typedef struct { kit_path *path; const kit_program *programs; const code_hash *want; int n, index, wrong; const char *first; } worker;

static void *run_worker(void *arg) {
  worker *w = arg;
  for (int k = 0; k < w->n / SHARE; k++) {
    int i = (k + w->index * w->n / THREADS) % w->n;
    if (w->index % 2) i = w->n - 1 - i;
    if (equal(hash_of(w->path, &w->programs[i], false), w->want[i])) continue;
    if (!w->wrong++) w->first = w->programs[i].path;
  }
  return NULL;
}

static void eight_threads(kit_path *path, const kit_program *p, int n, const code_hash *want) {
  pthread_t t[THREADS];
  worker w[THREADS];
  for (int i = 0; i < THREADS; i++) {
    w[i] = (worker){path, p, want, n, i, 0, ""};
    pthread_create(&t[i], NULL, run_worker, &w[i]);
  }
  for (int i = 0; i < THREADS; i++) {
    pthread_join(t[i], NULL);
    CHECK(!w[i].wrong, "thread %d: other code for %d of %d programs, %s the first", i, w[i].wrong, n, w[i].first);
  }
}

int main(int argc, char **argv) {
  int n;
  kit_program *p = kit_programs(&n);
  if (argc == 4 && !strcmp(argv[1], "--hashes")) {
    int result = print_hashes(argv[2], p, atoi(argv[3]) < n ? atoi(argv[3]) : n);
    kit_programs_free(p, n);
    return result;
  }
  static const char *const targets[] = {"x86-64-v4", "x86-64-v3", "spirv"};
  tg_target spirv;
  tg_target_row(&spirv, targets[2]);
  CHECK(n > 100, "%d programs", n);
  int all = n;
  for (int t = 0; t < (tg_jit_knows(&spirv) ? 3 : 2); t++) {
    kit_path path;
    code_hash *want = calloc((size_t)n, sizeof *want);
    CHECK(kit_path_open(&path, targets[t]), "%s", targets[t]);
    for (int i = 0; i < n; i++) {
      want[i] = hash_of(&path, &p[i], true);
      CHECK(want[i].compiled, "%s for %s does not compile", p[i].path, targets[t]);
    }
    other_process(argv[0], targets[t], p, n, want);
    while (!t && n > 0 && strstr(p[n - 1].path, "/accept/")) n--; /* the corpus alone in threads, and for the other */
    if (t != 1) eight_threads(&path, p, n / 2, want);   /* all eight meet in each: half are enough */
    if (!t) n /= 3;   /* passes know no other way for the other target: some are enough */
    kit_path_close(&path);
    free(want);
  }
  kit_programs_free(p, all);
  return TEST_END();
}
