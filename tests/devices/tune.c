/* SPDX-License-Identifier: MIT
 * Tuning on devices: PoCL, if it is there, and the stand-ins of both drivers. Results are real and checked on the
 * device; times are made up, so that who wins does not hang on this machine: a kernel beside tg's own takes half as long as
 * theirs. It wins, is kept, and a plan uses it; where it is named for a fault, the worker that builds it has that fault
 * (the device is lost, it hangs, it crashes), and the search ends as if the candidate had never been.
 *   devices_tune [DEVICE ...]      as devices_operations */
#define _GNU_SOURCE
#include <math.h>
#include <stdlib.h>
#include <unistd.h>
#include "../folder.h"
#include "../library/kit.h"
#include "../test.h"
#include "checks/attention_tune.h"
#include "checks/gemm.h"
#include "search/trial.h"
#include "stand_in.h"
#include "tg/attention.h"
#include "tg/gemm.h"

static char self[4096], program[4096];
static const char *const worker[] = {self, "worker", NULL};

#define FINE(call)                                                                                                   \
  do {                                                                                                               \
    tg_status s_ = (call);                                                                                           \
    CHECK(s_ == TG_OK, "%s: %s: %s: %s", name, #call, tg_status_name(s_), context ? tg_error_message(context) : ""); \
  } while (0)

/* ---- the worker ---- */

static bool is_named(const tg_task *t, const char *name) { return t->trial.text && strstr(t->trial.text, name); }

static void open_problem(void *self_, tg_env *env, tg_task *t) {
  const tg_bench *real = self_;
  real->open(real->self, env, t);
}
static void lower(void *self_, tg_env *env, tg_task *t) {
  const tg_bench *real = self_;
  real->lower(real->self, env, t);
}

static void build(void *self_, tg_env *env, tg_task *t) {
  const tg_bench *real = self_;
  if (is_named(t, "beside_lost")) stand_in_lose();
  if (is_named(t, "beside_crash")) abort();
  if (is_named(t, "beside_hang")) pause();
  t->give_up = 0;              /* how long its first run takes here, beside other work, is of no account either */
  real->build(real->self, env, t);
}

/* The real timing runs, and its answer is replaced. */
static void made_up(void *self_, tg_env *env, tg_task *t) {
  const tg_bench *real = self_;
  real->time(real->self, env, t);
  if (t->outcome != TG_TRIAL_OK) return;
  t->seconds = is_named(t, "beside") ? 1e-3 : 2e-3;
  t->against_seconds = t->against.text && strstr(t->against.text, "beside") ? 1e-3 : 2e-3;
  for (t->n = 0; t->n < 12; t->n++) t->gain[t->n] = log(t->against_seconds / t->seconds);
}

static void checks(void *self_, tg_env *env, tg_task *t) {
  const tg_bench *real = self_;
  real->checks(real->self, env, t);
}

static tg_status checks_of(tg_context *c, const char *about, tg_kernel *k, const char *words, int threads,
                           uint64_t seed, double *whole, char *message, size_t n) {
  bool attention = !strncmp(about, "attention", 9);
  return (attention ? tg_attention_trial : tg_check_trial)(c, about, k, words, threads, seed, whole, message, n);
}

static int be_worker(void) {
  const char *target = getenv("TG_TEST_STAND_IN");
  uint32_t i;
  if (target && !stand_in_begin(target, getenv("TG_TEST_PROGRAM"), 1, &i)) return 1;
  tg_bench *real = tg_trial_bench_new(checks_of);
  tg_bench b = {real, open_problem, lower, build, made_up, checks};
  tg_serve(&b, 0, 1);
  tg_trial_bench_free(real);
  return 0;
}

/* ---- the search ---- */

enum { M = 24, N = 40, K = 16 };

static const char beside[] =
    "kernel %s(M, N, K, lda, ldb, ldc) {"
    " in(A, f32, [M, K], [lda, 1]); in(B, f32, [K, N], [ldb, 1]); out(C, f32, [M, N], [ldc, 1]);"
    " range(i, M) range(j, N) C[i,j] = sum(k : K, A[i,k] * B[k,j]); opt(split j 8 as jo jl); opt(lane jl); }";

static void run_plan(tg_context *context, tg_device *device, const char *name, uint32_t tuned) {
  const tg_gemm_desc d = {.m = {M, 0}, .n = {N, 0}, .k = {K, 0}, .device = device};
  float a[M * K], b[K * N], c[M * N] = {0};
  void *at[3] = {NULL};
  tg_gemm *g = NULL;
  int wrong = 0;
  for (int i = 0; i < M * K; i++) a[i] = (float)(i % 5 - 2);
  for (int i = 0; i < K * N; i++) b[i] = (float)(i % 7 - 3);
  FINE(tg_gemm_plan(context, &d, &g));
  CHECK(tg_gemm_describe(g).tuned == tuned, "%s: %u kernels have a tuned choice", name, tg_gemm_describe(g).tuned);
  FINE(tg_device_alloc(device, sizeof a, &at[0]));
  FINE(tg_device_alloc(device, sizeof b, &at[1]));
  FINE(tg_device_alloc(device, sizeof c, &at[2]));
  FINE(tg_device_copy(device, at[0], a, sizeof a));
  FINE(tg_device_copy(device, at[1], b, sizeof b));
  FINE(tg_gemm_run(g, &(tg_gemm_call){.a = at[0], .b = at[1], .c = at[2]}));
  FINE(tg_device_copy(device, c, at[2], sizeof c));
  for (int i = 0; i < M; i++)
    for (int j = 0; j < N; j++) {
      float sum = 0;
      for (int k = 0; k < K; k++) sum += a[i * K + k] * b[k * N + j];
      wrong += c[i * N + j] != sum;
    }
  CHECK(!wrong, "%s: %d elements of the plan's product are wrong", name, wrong);
  for (int i = 0; i < 3; i++) tg_device_free(device, at[i]);
  tg_gemm_free(g);
}

/* A search of one product with a kernel beside tg's, which is named for what becomes of it. */
static void search(tg_context *context, tg_device *device, const char *name, const char *kernel, tg_tune_class want) {
  const tg_gemm_desc d = {.m = {M, 0}, .n = {N, 0}, .k = {K, 0}, .device = device};
  char text[1024];
  tg_tune_result *r = NULL;
  bool wins = want == TG_TUNE_RIGHT;
  snprintf(text, sizeof text, beside, kernel);
  tg_tune_options o = {.seconds = 600, .candidates = 1, .worker = worker, .with_text = text, .with_file = "beside.tg"};
  FINE(tg_gemm_tune(context, &d, 0, 0, 0, &o, &r));
  if (!r) return;
  CHECK(!r->in_process && r->timed >= 1, "%s: %u timed", name, r->timed);
  CHECK(r->tuned == wins && r->kept == wins, "%s: %s: tuned %d, kept %d: %s", name, kernel, r->tuned, r->kept,
        r->why ? r->why : "");
  CHECK(!wins || !strcmp(r->kernel, kernel), "%s: %s won", name, r->kernel);
  CHECK(wins || r->classes[want] == 1, "%s: %s: %u of its class", name, kernel, r->classes[want]);
  tg_tune_result_free(r);
}

/* A stand-in's device is lost, and PoCL, where a worker is real, hangs and crashes. few: what is interpreted slowly. */
static void on(const char *name, uint32_t i, bool stands_in, bool few) {
  char folder[TEST_PATH] = "tg-devices-tuned-XXXXXX";
  tg_context *context = NULL;
  tg_device *device = NULL;
  CHECK(test_folder(folder), "a folder");
  FINE(tg_context_create(&(tg_context_options){.tuned = folder}, &context));
  FINE(tg_device_open(context, i, &device));
  if (device) {
    if (stands_in) search(context, device, name, "beside_lost", TG_TUNE_LIMIT);
    else search(context, device, name, "beside_crash", TG_TUNE_CRASHED);
    if (!stands_in) search(context, device, name, "beside_hang", TG_TUNE_HUNG);
    run_plan(context, device, name, 0);
    if (!few) {
      search(context, device, name, "beside", TG_TUNE_RIGHT);
      run_plan(context, device, name, 1);
    }
  }
  tg_context_free(context);
  kit_remove(folder);
}

static void on_stand_in(const char *target, bool few) {
  uint32_t i;
  if (!stand_in_begin(target, program, 1, &i)) return;
  setenv("TG_TEST_STAND_IN", target, 1);
  on(target, i, true, few);
  unsetenv("TG_TEST_STAND_IN");
  stand_in_end(false);
}

static void on_driver(const char *driver) {
  tg_device_info about;
  for (uint32_t i = 1; tg_device_describe(i, &about) == TG_OK; i++)
    if (!about.lacks[0] && !strcmp(about.driver, driver)) {
      on(driver, i, false, false);
      return;
    }
  printf("skipped: no device of %s\n", driver);
}

int main(int argc, char **argv) {
  char folder[TEST_PATH] = "tg-devices-tune-XXXXXX";
  ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
  if (n > 0) self[n] = 0;
  if (argc > 1 && !strcmp(argv[1], "worker")) return be_worker();
  snprintf(program, sizeof program, "%s", argv[0]);
  setenv("TG_TEST_PROGRAM", program, 1);
  CHECK(test_folder(folder), "a folder");
  setenv("POCL_CACHE_DIR", folder, 1);
  if (argc < 2) on_driver("opencl"), on_stand_in("sm_80", true), on_stand_in("gfx1100", false);
  for (int k = 1; k < argc; k++)
    if (!strncmp(argv[k], "sm_", 3) || !strncmp(argv[k], "gfx", 3)) on_stand_in(argv[k], false);
    else on_driver(argv[k]);
  kit_remove(folder);
  return TEST_END();
}
