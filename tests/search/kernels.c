/* SPDX-License-Identifier: MIT
 * The gates of kernels that are no products, on every program of the corpus and of PolyBench: what its words make of it, and what the heuristic does, must pass them;
 * and a kernel that computes something else must not.
 *   kernels [PROGRAM.tg ...] */
#include <stdlib.h>
#include "../library/kit.h"
#include "../test.h"
#include "api/trial.h"

static const char other[] = "kernel other(N = 70) { in(A, f32, [N]); out(B, f32, [N]); range(i, N) B[i] = A[i] + 1; }";
static const char one[] = "kernel one(N = 70) { in(A, f32, [N]); out(B, f32, [N]); range(i, N) B[i] = A[i]; }";

/* The candidate against the reference; exact tells whether bits were compared. */
static tg_task judged(const char *reference, const char *candidate, const char *words, bool *exact) {
  static char message[1024];
  tg_bench *b = tg_trial_bench_new(NULL);
  tg_env env;
  tg_env_init(&env, NULL);
  tg_task open = {.kind = TG_TASK_OPEN, .trial.text = reference, .threads = 2, .seed = 7, .shared = -1, .make = true}, build = {.kind = TG_TASK_BUILD, .trial = {candidate, words, NULL}};
  tg_bench_run(b, &env, &open);
  if (exact) *exact = open.exact;
  if (open.outcome == TG_TRIAL_OK) tg_bench_run(b, &env, &build);
  else build = open;
  snprintf(message, sizeof message, "%s", build.message ? build.message : "");
  build.message = message;
  tg_env_drop(&env);
  tg_trial_bench_free(b);
  return build;
}

/* Those of tests/ranges are there to be proved, and too large to run; packed operands have no gates; and of what durbin and ludcmp solve with
 * random numbers no digit is sure. */
static bool has_gates(const char *path) {
  return strncmp(path, "tests/ranges/", 13) && !strstr(path, "/packed_weights") && !strstr(path, "/durbin") && !strstr(path, "/ludcmp");
}

int main(int argc, char **argv) {
  int n, exact = 0, checked = 0;
  kit_program *p = kit_programs(&n);
  for (int i = 0; i < n; i++) {
    bool wanted = argc < 2, bits;
    for (int k = 1; k < argc; k++) wanted |= !strcmp(argv[k], p[i].path);
    if (!wanted || !has_gates(p[i].path)) continue;
    checked++;
    tg_task t = judged(p[i].text, p[i].text, NULL, &bits);
    CHECK(t.outcome == TG_TRIAL_OK, "%s: %s: %s", p[i].path, tg_outcome_name((tg_outcome)t.outcome), t.message);
    exact += bits;
  }
  CHECK(argc > 1 || exact > checked / 2, "%d of %d programs are compared bit for bit", exact, checked);
  kit_programs_free(p, n);
  tg_task t = judged(one, other, NULL, NULL);
  CHECK(t.outcome == TG_TRIAL_WRONG && strstr(t.message, "B"), "another kernel is %s: %s", tg_outcome_name((tg_outcome)t.outcome), t.message);
  return TEST_END();
}
