/* SPDX-License-Identifier: MIT
 * The checks of kernels that are no products, on every program of the corpus and of PolyBench: what its words make of it, and what the heuristic does, must pass them;
 * and a kernel that computes something else must not. Then kernels at random, with words at random.
 *   kernels [PROGRAM.tg ...]
 *   kernels --random N [SEED]    N kernels at random alone
 *   kernels --tempting [FILE]    the kernels of tests/search/tempting.txt alone, or those of FILE */
#include <stdlib.h>
#include "../fuzz/generate.h"
#include "../library/kit.h"
#include "../target.h"
#include "../test.h"
#include "trial/trial.h"

static const char other[] = "kernel other(N = 70) { in(A, f32, [N]); out(B, f32, [N]); range(i, N) B[i] = A[i] + 1; }";
static const char one[] = "kernel one(N = 70) { in(A, f32, [N]); out(B, f32, [N]); range(i, N) B[i] = A[i]; }";

static const char highest[] = "kernel highest(N = 70) { in(A, u64, [N]); out(B, u64, [N]); range(i, N) B[i] = A[i] >> 63; }";
static const char lowest[] = "kernel lowest(N = 70) { in(A, u64, [N]); out(B, u64, [N]); range(i, N) B[i] = A[i] >> 64; }";

/* Whoever wins, the numbers are the same: only who looks at the tasks sees the race. */
static const char alike[] = "kernel alike() { in(A, f32, [64]); out(B, f32, [32]); range(i, 32) B[i] = A[0] * 0 + 1; }";
static const char raced[] = "kernel raced() { stage schedule; in(A, f32, [64]); out(B, f32, [32]); range(i, 64, thread) B[i / 2] = A[0] * 0 + 1; }";

/* The same sums, one shared out to 128 accumulators, the other in one. */
static const char shared[] = "kernel shared() { in(A, f32, [8, 128, 512]); out(S, f32, [8]); range(i, 8) { define_reg(l, f32, [128]); range(j, 128) l[j] = sum(k : 512, A[i, j, k] * A[i, j, k]); S[i] = sum(j : 128, l[j]); } }";
static const char alone[] = "kernel alone() { in(A, f32, [8, 128, 512]); out(S, f32, [8]); range(i, 8) { define_reg(l, f32, [1]); l[0] = 0; range(j, 128) range(k, 512) l[0] += A[i, j, k] * A[i, j, k]; S[i] = l[0]; } }";
enum { ROUNDINGS = 128 * 512 };

/* The candidate against the reference; exact tells whether bits were compared; roundings: as in tg_tune_kind. */
static tg_task judged_within(const char *reference, const char *candidate, const char *words, bool *exact, uint64_t roundings) {
  static char message[1024];
  tg_bench *b = tg_trial_bench_new(NULL);
  tg_env env;
  tg_env_init(&env, NULL);
  tg_task open = {.kind = TG_TASK_OPEN, .target = test_target(), .trial.text = reference, .threads = 2, .seed = 7, .shared = -1, .make = true, .roundings = roundings}, build = {.kind = TG_TASK_BUILD, .trial = {candidate, words, NULL}};
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

static tg_task judged(const char *reference, const char *candidate, const char *words, bool *exact) {
  return judged_within(reference, candidate, words, exact, 0);
}

/* ---- kernels at random ---- */

/* Words that hold one after another, of "opt(..); opt(..);", some of which do not. Empty: none does. */
static void legal_words(tg_bench *b, tg_env *env, const char *text, char *opts, char *words, size_t size) {
  words[0] = 0;
  for (char *at = strstr(opts, "opt("), *end; at && (end = strstr(at, ");")); at = strstr(end + 1, "opt(")) {
    size_t n = strlen(words);
    *end = 0;
    snprintf(words + n, size - n, "%s%s", n ? "; " : "", at + 4);
    tg_task lower = {.kind = TG_TASK_LOWER, .trial = {text, words, NULL}};
    tg_bench_run(b, env, &lower);
    if (lower.outcome != TG_TRIAL_OK) words[n] = 0;
  }
}

/* A kernel with random words must compute what it does without; those whose reference cannot be had, or whose words do not hold, are left out. */
static void random_kernels(int count, uint64_t seed) {
  static fuzz_program p;
  static char text[2 * FUZZ_TEXT], words[4096];
  int judged = 0, scheduled = 0;
  for (int i = 0; i < count; i++) {
    fuzz_source source = {.state = seed + (uint64_t)i};
    fuzz_generate(&source, &p, false);
    if (p.mode == FUZZ_RANDOM) continue;   /* of what is ill-conditioned no digit is sure: bits alone count here */
    tg_bench *b = tg_trial_bench_new(NULL);
    tg_env env;
    tg_env_init(&env, NULL);
    tg_task open = {.kind = TG_TASK_OPEN, .target = test_target(), .trial.text = p.text, .threads = 2, .seed = 7 + (uint64_t)i, .shared = -1, .make = true, .params_n = (uint32_t)p.params};
    memcpy(open.params, p.param, (size_t)p.params * sizeof *p.param);
    tg_bench_run(b, &env, &open);
    if (open.outcome == TG_TRIAL_OK && open.exact) {
      judged++;
      snprintf(text, sizeof text, "%s", p.text);
      legal_words(b, &env, text, p.opts, words, sizeof words);
      tg_task build = {.kind = TG_TASK_BUILD, .trial = {text, *words ? words : NULL, NULL}};
      tg_bench_run(b, &env, &build);
      scheduled += *words != 0;
      bool unsure = build.outcome == TG_TRIAL_WRONG && build.message && strstr(build.message, " is off by ");   /* what makes integers of random floats jumps */
      CHECK(unsure || build.outcome == TG_TRIAL_OK || build.outcome == TG_TRIAL_ILLEGAL, "random kernel %llu: %s: %s\n%s\n%s", (unsigned long long)seed + (unsigned long long)i, tg_outcome_name((tg_outcome)build.outcome), build.message ? build.message : "", p.text, words);
    }
    tg_env_drop(&env);
    tg_trial_bench_free(b);
  }
  CHECK(judged > count / 8 && scheduled > judged / 4, "%d of %d random kernels judged, %d with words", judged, count, scheduled);
}

/* ---- kernels that a mistaken prover would let through, or fold ---- */

/* Each must compute what its text means, or be refused: for a proof that was wrong, its numbers would be. An empty line stands between two; what is comments alone is none. */
#define TEMPTING "tests/search/tempting.txt"
static void tempting_kernels(const char *path) {
  static char text[1 << 16];
  FILE *f = fopen(path, "rb");
  int computed = 0, refused = 0;
  CHECK(f, "%s cannot be read", path);
  if (!f) return;
  text[fread(text, 1, sizeof text - 1, f)] = 0;
  fclose(f);
  for (char *at = text, *end; at; at = end) {
    if ((end = strstr(at, "\n\n"))) *end = 0, end += 2;
    if (!strstr(at, "kernel k(")) continue;
    tg_task t = judged(at, at, NULL, NULL);
    CHECK(t.outcome == TG_TRIAL_OK || t.outcome == TG_TRIAL_ILLEGAL, "%s: %s\n%s", tg_outcome_name((tg_outcome)t.outcome), t.message, at);
    *(t.outcome == TG_TRIAL_OK ? &computed : &refused) += 1;
  }
  CHECK(strcmp(path, TEMPTING) || (computed > 3 * refused && refused), "%s: %d kernels compute, %d are refused", path, computed, refused);
}

/* Those of tests/ranges are there to be proved, and too large to run; packed operands have no checks; and of what durbin and ludcmp solve with
 * random numbers no digit is sure. */
static bool has_checks(const char *path) {
  return strncmp(path, "tests/ranges/", 13) && !strstr(path, "/packed_weights") && !strstr(path, "/durbin") && !strstr(path, "/ludcmp");
}

int main(int argc, char **argv) {
  int n, exact = 0, checked = 0;
  if (argc > 2 && !strcmp(argv[1], "--random")) {
    random_kernels(atoi(argv[2]), argc > 3 ? (uint64_t)atoll(argv[3]) : 1);
    return TEST_END();
  }
  if (argc > 1 && !strcmp(argv[1], "--tempting")) {
    tempting_kernels(argc > 2 ? argv[2] : TEMPTING);
    return TEST_END();
  }
  kit_program *p = kit_programs(&n);
  for (int i = 0; i < n; i++) {
    bool wanted = argc < 2, bits;
    for (int k = 1; k < argc; k++) wanted |= !strcmp(argv[k], p[i].path);
    if (!wanted || !has_checks(p[i].path)) continue;
    checked++;
    tg_task t = judged(p[i].text, p[i].text, NULL, &bits);
    CHECK(t.outcome == TG_TRIAL_OK, "%s: %s: %s", p[i].path, tg_outcome_name((tg_outcome)t.outcome), t.message);
    exact += bits;
  }
  CHECK(argc > 1 || exact > checked / 2, "%d of %d programs are compared bit for bit", exact, checked);
  kit_programs_free(p, n);
  if (argc < 2) tempting_kernels(TEMPTING), random_kernels(120, 1);
  tg_task t = judged(one, other, NULL, NULL);
  CHECK(t.outcome == TG_TRIAL_WRONG && strstr(t.message, "B"), "another kernel is %s: %s", tg_outcome_name((tg_outcome)t.outcome), t.message);
  t = judged(highest, lowest, NULL, NULL);
  CHECK(t.outcome == TG_TRIAL_WRONG, "no integer without a sign has its highest bit set: %s", tg_outcome_name((tg_outcome)t.outcome));
  t = judged(alike, raced, NULL, NULL);
  CHECK(t.outcome == TG_TRIAL_WRONG && strstr(t.message, "race: B[") && strstr(t.message, "iterations of i"), "tasks that meet in one element: %s: %s", tg_outcome_name((tg_outcome)t.outcome), t.message);
  t = judged(alike, alike, "thread i", NULL);
  CHECK(t.outcome == TG_TRIAL_OK, "tasks that do not: %s: %s", tg_outcome_name((tg_outcome)t.outcome), t.message);
  t = judged_within(shared, alone, "unroll k 1", NULL, 0);
  CHECK(t.outcome == TG_TRIAL_WRONG && strstr(t.message, "S is off by"), "a sum far from the reference's: %s: %s", tg_outcome_name((tg_outcome)t.outcome), t.message);
  t = judged_within(shared, alone, "unroll k 1", NULL, ROUNDINGS);
  CHECK(t.outcome == TG_TRIAL_OK, "a sum in the longest order that is allowed: %s: %s", tg_outcome_name((tg_outcome)t.outcome), t.message);
  return TEST_END();
}
