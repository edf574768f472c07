/* SPDX-License-Identifier: MIT
 * tg_gemm_tune, with this program as its own worker: what it keeps is what plans of the same descriptor run from then on, and no others. What the search's own data do not
 * tell, the checks do. Times are made up (tests/search/modelled.h). */
#define _GNU_SOURCE
#include <dirent.h>
#include <stdlib.h>
#include <unistd.h>
#include <tg/gemm.h>
#include "../target.h"
#include "../search/modelled.h"
#include "../folder.h"
#include "../test.h"
#include "checks/gemm.h"

static char self[4096], tuned[TEST_PATH] = "tg-tuned-XXXXXX";
static const char *const worker[] = {self, "worker", NULL};
enum { PATIENCE = 300 /* seconds: the number of candidates ends a search before */ };

static tg_context *open_context(const char *folder, int threads) {
  tg_context *c = NULL;
  tg_context_options o = {.target = test_target(), .tuned = folder, .threads = threads};
  CHECK(tg_context_create(&o, &c) == TG_OK, "a context");
  return c;
}

/* Of the kernels of a plan for this, how many are tuned; its product is right. */
static uint32_t tuned_of(tg_context *c, const tg_gemm_desc *d, int64_t m) {
  enum { M = 64, N = 96, K = 80, LD = 101 };
  static float a[M * LD], b[K * LD], got[M * LD];
  tg_gemm *g = NULL;
  for (int i = 0; i < M * LD; i++) a[i] = (float)(i % 7 - 3), got[i] = -1;
  for (int i = 0; i < K * LD; i++) b[i] = (float)(i % 5 - 2);
  CHECK(tg_gemm_plan(c, d, &g) == TG_OK, "%s", tg_error_message(c));
  if (!g) return 0;
  size_t bytes = tg_gemm_workspace(g, NULL);
  void *workspace = malloc(bytes + 1);
  tg_gemm_call call = {.m = m, .a = a, .b = b, .c = got, .a_strides = {LD}, .b_strides = {LD}, .c_strides = {LD}, .workspace = workspace, .workspace_bytes = bytes};
  CHECK(tg_gemm_run(g, &call) == TG_OK, "%s", tg_error_message(c));
  int wrong = 0;
  for (int i = 0; i < M; i++)
    for (int j = 0; j < LD; j++) {
      float want = i < m && j < N ? 0 : -1;
      for (int k = 0; k < K && i < m && j < N; k++) want += a[i * LD + k] * b[k * LD + j];
      wrong += got[i * LD + j] != want;
    }
  CHECK(!wrong, "%d elements are wrong", wrong);
  uint32_t n = tg_gemm_describe(g).tuned;
  tg_gemm_free(g);
  free(workspace);
  return n;
}

/* Likewise for weights of four bits in groups, with scales and zero points. */
static uint32_t tuned_weights_of(tg_context *c, const tg_gemm_desc *d) {
  enum { M = 48, N = 96, K = 128, GROUP = 32 };
  static float a[M * K], got[M * N], scale[K / GROUP * N];
  static uint8_t b[K * N / 2], zero[K / GROUP * N];
  tg_gemm *g = NULL;
  for (int i = 0; i < M * K; i++) a[i] = (float)(i % 7 - 3);
  for (int i = 0; i < K * N / 2; i++) b[i] = (uint8_t)(i * 37 >> 2);
  for (int i = 0; i < K / GROUP * N; i++) scale[i] = i % 3 ? 0.5f : 2, zero[i] = (uint8_t)(i % 16);
  for (int i = 0; i < M * N; i++) got[i] = -1;
  CHECK(tg_gemm_plan(c, d, &g) == TG_OK, "%s", tg_error_message(c));
  if (!g) return 0;
  tg_gemm_call call = {.a = a, .b = b, .c = got, .b_scale = scale, .b_zero = zero, .workspace_bytes = tg_gemm_workspace(g, NULL)};
  call.workspace = malloc(call.workspace_bytes + 1);
  CHECK(tg_gemm_run(g, &call) == TG_OK, "%s", tg_error_message(c));
  int wrong = 0;
  for (int i = 0; i < M; i++)
    for (int j = 0; j < N; j++) {
      float want = 0;
      for (int k = 0; k < K; k++) want += a[i * K + k] * scale[k / GROUP * N + j] * (float)((b[(k * N + j) / 2] >> j % 2 * 4 & 15) - zero[k / GROUP * N + j]);
      wrong += got[i * N + j] != want;
    }
  CHECK(!wrong, "weights of four bits: %d elements are wrong", wrong);
  uint32_t n = tg_gemm_describe(g).tuned;
  tg_gemm_free(g);
  free(call.workspace);
  return n;
}

/* One row of one vector, of a sketch that is named, whatever the first choice is: what wins against it is sure. */
static const tg_binding slow_start[] = {{"NU", 1, 1, 1}, {"MR", 1, 1, 1}};

static void tune(tg_context *c, const tg_gemm_desc *d, int64_t m, uint32_t strips) {
  const char *kernel = d->b_bits ? "gemm_weights" : "gemm_direct";
  tg_tune_options o = {.seconds = PATIENCE, .candidates = 12, .worker = worker, .start_kernel = kernel, .start = slow_start, .start_n = 2, .flags = TG_TUNE_KNOBS_ONLY};
  tg_tune_result *r = NULL;
  tg_status s = tg_gemm_tune(c, d, m, 0, 0, &o, &r);
  CHECK(s == TG_OK, "%s", tg_error_message(c));
  if (!r) return;
  CHECK(r->tuned && r->kept, "nothing was faster than one row of one vector: %u points, %u built, %u timed", r->points, r->built, r->timed);
  CHECK(r->strips == strips, "%u strips", r->strips);
  CHECK(!r->classes[TG_TUNE_WRONG] && !r->classes[TG_TUNE_CRASHED] && !r->classes[TG_TUNE_HUNG], "%u wrong, %u crashed, %u hung", r->classes[TG_TUNE_WRONG], r->classes[TG_TUNE_CRASHED], r->classes[TG_TUNE_HUNG]);
  tg_tune_result_free(r);
}

/* On two threads a strip is tuned, and the plan takes it for both. */
static void tune_strips(void) {
  enum { SIDE = 208 };
  tg_context *c = open_context(tuned, 2);
  const tg_gemm_desc d = {.m = {SIDE, 0}, .n = {SIDE, 0}, .k = {SIDE, 0}, .threads = 2};
  float *x = calloc((size_t)3 * SIDE * SIDE, sizeof *x);
  tg_gemm *g = NULL;
  tune(c, &d, 0, 2);
  for (int i = 0; i < 2 * SIDE * SIDE; i++) x[i] = (float)(i % 5 - 2);
  CHECK(tg_gemm_plan(c, &d, &g) == TG_OK && tg_gemm_describe(g).tuned == 1 && tg_gemm_describe(g).kernels == 1, "the strips of the plan do not use what was tuned");
  tg_gemm_call call = {.a = x, .b = x + SIDE * SIDE, .c = x + 2 * SIDE * SIDE, .workspace_bytes = tg_gemm_workspace(g, NULL)};
  call.workspace = malloc(call.workspace_bytes + 1);
  CHECK(tg_gemm_run(g, &call) == TG_OK, "%s", tg_error_message(c));
  int wrong = 0;
  for (int i = 0; i < SIDE * SIDE; i++) {
    float want = 0;
    for (int k = 0; k < SIDE; k++) want += x[i / SIDE * SIDE + k] * x[SIDE * SIDE + k * SIDE + i % SIDE];
    wrong += x[2 * SIDE * SIDE + i] != want;
  }
  CHECK(!wrong, "strips: %d elements are wrong", wrong);
  free(call.workspace), free(x);
  tg_gemm_free(g);
  tg_context_free(c);
}

static void empty(const char *folder) {
  char path[4600];
  DIR *d = opendir(folder);
  for (struct dirent *e; d && (e = readdir(d));)
    if (e->d_name[0] != '.') snprintf(path, sizeof path, "%s/%s", folder, e->d_name), unlink(path);
  if (d) closedir(d);
  rmdir(folder);
}

/* ---- a kernel of the user's own ---- */

#define OWN(name, params, product, words)                                                                              \
  "kernel " name "(" params ") { in(A, f32, [M, K], [lda, 1]); in(B, f32, [K, N], [ldb, 1]); out(C, f32, [M, N], [ldc, 1]);\n" \
  "range(i, M) range(j, N) C[i,j] = " product "; knob(J, 16); " words " }"
#define SUM "sum(k : K, A[i,k] * B[k,j])"
#define WORDS "opt(split j J as jo ji); opt(split ji 8 as jv jl); opt(lane jl); opt(upcast jv); opt(split i 2 as io ii); opt(order jo io ii jv jl); opt(upcast ii);"

/* Searched beside the sketches: the only candidate that is timed, against a slow start. Its text is kept with the choice, and plans run it. */
static void tune_own(void) {
  char folder[TEST_PATH] = "tg-own-XXXXXX";
  CHECK(test_folder(folder) != NULL, "a folder");
  tg_context *c = open_context(folder, 1);
  const tg_gemm_desc d = {.m = {64, 0}, .n = {96, 0}, .k = {80, 0}};
  tg_tune_options o = {.seconds = PATIENCE, .candidates = 1, .worker = worker, .start_kernel = "gemm_direct", .start = slow_start, .start_n = 2, .flags = TG_TUNE_KNOBS_ONLY, .with_file = "own.tg", .with_text = OWN("own", "M, N, K, lda, ldb, ldc", SUM, WORDS)};
  tg_tune_result *r = NULL;
  CHECK(tuned_of(c, &d, 64) == 0, "tuned before anything was");
  CHECK(tg_gemm_tune(c, &d, 0, 0, 0, &o, &r) == TG_OK, "%s", tg_error_message(c));
  if (r) CHECK(r->tuned && r->kept && !strcmp(r->kernel, "own"), "%s: %s", r->kernel, r->why ? r->why : "");
  tg_tune_result_free(r);
  CHECK(tuned_of(c, &d, 64) == 1, "the plan does not run it: %s", tg_error_message(c));
  static const struct { const char *text, *error; } wrong[] = {
    {OWN("own", "M, N, K, lda, ldb", SUM, WORDS), "unknown name 'ldc'"},
    {OWN("own", "M, N, K, lda, ldb, ldc, more", SUM, WORDS), "'more' has no value"},
    {OWN("own", "M, N, K, lda, ldb, ldc", SUM, "opt(lane nowhere);"), "no range 'nowhere' here"},
    {OWN("gemm_packed", "M, N, K, lda, ldb, ldc", SUM, WORDS), "own.tg: gemm_packed is the name of a kernel that is searched already"},
    {"kernel own(M, N, K, lda, ldb, ldc) { in(A, f64, [M, K], [lda, 1]); in(B, f32, [K, N], [ldb, 1]); out(C, f32, [M, N], [ldc, 1]); range(i, M) range(j, N) C[i,j] = 0; }", "own.tg: own has the buffers in A f64, in B f32, out C f32; those of the problem are in A f32"},
  };
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    o.with_text = wrong[i].text, r = NULL;
    CHECK(tg_gemm_tune(c, &d, 0, 0, 0, &o, &r) == TG_EINVAL && !r && strstr(tg_error_message(c), wrong[i].error), "%zu: %s", i, tg_error_message(c));
    tg_tune_result_free(r);
  }
  /* other mathematics: found to be wrong, and never the choice */
  o.with_text = OWN("own", "M, N, K, lda, ldb, ldc", "1 + " SUM, WORDS), o.candidates = 2, o.flags |= TG_TUNE_NOT_KEPT, r = NULL;
  CHECK(tg_gemm_tune(c, &d, 0, 0, 0, &o, &r) == TG_OK && r && r->classes[TG_TUNE_WRONG] == 1 && strcmp(r->kernel, "own"), "%s", tg_error_message(c));
  tg_tune_result_free(r);
  tg_context_free(c);
  empty(folder);
}

/* ---- candidates that the search's own data do not tell ---- */

static void slow(tg_builder *tg_b_, void *user) {
  tg_gemm_product(tg_b_, user);
  tg_opt(unroll k 1);
}

/* Right wherever N is not one more than a multiple of a vector, of the narrowest target too. */
static void planted(tg_builder *tg_b_, void *user) {
  tg_gemm_product(tg_b_, user);
  tg_range(i, M) tg_if(N > 4 & N % 4 == 1) tg(C[i, N - 1] = 0);
}

static void wrong_at_tails(tg_context *c, bool checked) {
  const tg_gemm_problem p = {.a = TG_F32, .b = TG_F32, .c = TG_F32, .acc = TG_F32, .m = {64, 64}, .n = {20, 100}, .k = {80, 80}, .batch = {1, 1}};
  const tg_kernel_def first = {"slow", "M, N, K, lda, ldb, ldc", __FILE__, __LINE__, slow}, second = {"planted", "M, N, K, lda, ldb, ldc", __FILE__, __LINE__, planted}, *defs[] = {&first, &second};
  const tg_binding b[] = {{"M", 64, 64, 1}, {"N", 20, 100, 1}, {"K", 80, 80, 1}, {"lda", 80, 80, 1}, {"ldb", 1, 1000, 1}, {"ldc", 1, 1000, 1}};
  const int64_t params[] = {96, 96, 96}, ld[] = {80, 0, 0};
  const tg_check_size at = {64, 96, 80};
  tg_tune_options o = {.bindings = b, .bindings_n = 6, .user = (void *)(uintptr_t)&p, .params = params, .params_n = 3, .seconds = PATIENCE, .worker = worker, .flags = TG_TUNE_KNOBS_ONLY | TG_TUNE_NOT_KEPT};
  tg_tune_result *r = NULL;
  char about[256];
  CHECK(tg_check_about(&p, &at, ld, about, sizeof about) < sizeof about, "the text of the problem");
  const tg_tune_kind kind = {.checks = tg_check_trial, .about = about};
  tg_status s = tg_tune_checked(c, defs, 2, &o, checked ? &kind : NULL, &r);
  CHECK(s == TG_OK, "%s", tg_error_message(c));
  if (!r) return;
  if (checked) CHECK(!r->tuned && r->classes[TG_TUNE_WRONG] == 1, "a candidate that is wrong at tails: %s, %u are wrong", r->tuned ? "wins" : "does not win", r->classes[TG_TUNE_WRONG]);
  else CHECK(r->tuned && r->sketch == 1, "without checks it does not win, so the test tells nothing");
  tg_tune_result_free(r);
}

/* Right in the first rows. */
static void beyond(tg_builder *tg_b_, void *user) {
  tg_gemm_product(tg_b_, user);
  tg_range(i, M) tg_if(i == 131) tg(C[i, 7] = 0);
}

static void right(tg_builder *tg_b_, void *user) { tg_gemm_product(tg_b_, user); }

/* Candidates are built, checked and timed on a part of the rows; what wins there is run on all of them. */
static void wrong_beyond_the_part(tg_context *c, bool wrong) {
  enum { ROWS = 192, PART = 48 };
  tg_gemm_problem all = {.a = TG_F32, .b = TG_F32, .c = TG_F32, .acc = TG_F32, .m = {ROWS, ROWS}, .n = {96, 96}, .k = {80, 80}, .batch = {1, 1}}, some = all;
  some.m = (tg_kit_dim){PART, PART};
  const char *params = "M, N, K, lda, ldb, ldc";
  const tg_kernel_def first = {"slow", params, __FILE__, __LINE__, slow}, second = {"second", params, __FILE__, __LINE__, wrong ? beyond : right}, *defs[] = {&first, &second};
  const tg_binding b[] = {{"M", ROWS, ROWS, 1}, {"N", 96, 96, 1}, {"K", 80, 80, 1}, {"lda", 80, 80, 1}, {"ldb", 96, 96, 1}, {"ldc", 96, 96, 1}};
  tg_binding part[6];
  memcpy(part, b, sizeof part);
  part[0].lo = part[0].hi = PART;
  const int64_t ld[] = {80, 96, 96};
  const tg_check_size at = {ROWS, 96, 80}, at_part = {PART, 96, 80};
  tg_tune_options o = {.bindings = b, .bindings_n = 6, .user = &all, .seconds = PATIENCE, .candidates = 6, .worker = worker, .flags = TG_TUNE_KNOBS_ONLY | TG_TUNE_NOT_KEPT};
  tg_tune_result *r = NULL;
  char about[256], part_about[256];
  CHECK(tg_check_about(&all, &at, ld, about, sizeof about) < sizeof about && tg_check_about(&some, &at_part, ld, part_about, sizeof part_about) < sizeof part_about, "the texts of the problems");
  const tg_tune_kind kind = {.checks = tg_check_trial, .about = about, .part = part, .part_user = &some, .part_about = part_about, .share = (double)PART / ROWS};
  CHECK(tg_tune_checked(c, defs, 2, &o, &kind, &r) == TG_OK, "%s", tg_error_message(c));
  if (!r) return;
  if (wrong) CHECK(!r->tuned && r->why && strstr(r->why, "on all of the problem it is wrong: check 'freivalds'"), "a candidate that is wrong beyond the part: %s", r->why ? r->why : "wins");
  else CHECK(r->tuned && r->sketch == 1 && r->whole_seconds > 0 && r->share == 0.25, "the right one does not win: %s", r->why ? r->why : "");
  tg_tune_result_free(r);
}

/* The kernel where a search starts is its default, wherever it stands among those given. */
static void starts_at(tg_context *c, const char *kernel, uint32_t sketch) {
  const tg_gemm_problem p = {.a = TG_F32, .b = TG_F32, .c = TG_F32, .acc = TG_F32, .m = {64, 64}, .n = {96, 96}, .k = {80, 80}, .batch = {1, 1}};
  const tg_kernel_def first = {"slow", "M, N, K, lda, ldb, ldc", __FILE__, __LINE__, slow}, second = {"second", "M, N, K, lda, ldb, ldc", __FILE__, __LINE__, right}, *defs[] = {&first, &second};
  const tg_binding b[] = {{"M", 64, 64, 1}, {"N", 96, 96, 1}, {"K", 80, 80, 1}, {"lda", 80, 80, 1}, {"ldb", 96, 96, 1}, {"ldc", 96, 96, 1}};
  tg_tune_options o = {.bindings = b, .bindings_n = 6, .user = (void *)(uintptr_t)&p, .seconds = PATIENCE, .candidates = 1, .worker = worker, .start_kernel = kernel, .flags = TG_TUNE_KNOBS_ONLY | TG_TUNE_NOT_KEPT};
  tg_tune_result *r = NULL;
  tg_status s = tg_tune_checked(c, defs, 2, &o, NULL, &r);
  if (sketch > 1) CHECK(s == TG_EINVAL && strstr(tg_error_message(c), "the search cannot start at 'none'"), "%s", tg_error_message(c));
  else CHECK(s == TG_OK && r && r->sketch == 1 && r->tuned == !sketch && r->timed == 1, "%s", tg_error_message(c));
  tg_tune_result_free(r);
}

static void mistake(tg_context *c, const tg_gemm_desc *d, int64_t m, const char *want) {
  tg_tune_result *r = NULL;
  CHECK(tg_gemm_tune(c, d, m, 0, 0, NULL, &r) == TG_EINVAL && !r, "accepted: %s", want);
  CHECK(strstr(tg_error_message(c), want) != NULL, "'%s' instead of '%s'", tg_error_message(c), want);
}

int main(int argc, char **argv) {
  if (argc > 1 && !strcmp(argv[1], "worker")) {
    modelled_worker(tg_check_trial, 0, 1);
    return 0;
  }
  ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
  if (n < 0 || !test_folder(tuned)) return 1;
  self[n] = 0;
  tg_gemm_desc fixed = {.m = {64, 0}, .n = {96, 0}, .k = {80, 0}}, range = fixed, other = fixed;
  range.m = (tg_dim){33, 64};
  other.alpha = 1;
  tg_context *c = open_context(tuned, 1), *none = open_context(NULL, 1);
  CHECK(tuned_of(c, &fixed, 64) == 0, "tuned before anything was");
  tune(c, &fixed, 0, 0);
  CHECK(tuned_of(c, &fixed, 64) == 1, "the plan does not use what was tuned");
  CHECK(tuned_of(c, &other, 64) == 0 && tuned_of(c, &range, 50) == 0, "a plan of another kernel uses it");
  CHECK(tuned_of(none, &fixed, 64) == 0, "tuned without a folder");
  tune(c, &range, 60, 0);
  CHECK(tuned_of(c, &range, 50) == 1 && tuned_of(c, &range, 33) == 1, "the plan of a range does not use what was tuned");
  tg_gemm_desc weights = {.m = {48, 0}, .n = {96, 0}, .k = {128, 0}, .b = TG_U8, .b_bits = 4, .b_zero = TG_U8, .b_group = 32};
  CHECK(tuned_weights_of(c, &weights) == 0, "weights that nothing was tuned for");
  tune(c, &weights, 0, 0);
  CHECK(tuned_weights_of(c, &weights) == 1, "the plan with weights of four bits does not use what was tuned");
  tune_strips();
  tune_own();
  wrong_at_tails(none, false), wrong_at_tails(none, true);
  starts_at(none, NULL, 0), starts_at(none, "slow", 0), starts_at(none, "second", 1), starts_at(none, "none", 2);
  wrong_beyond_the_part(none, false), wrong_beyond_the_part(none, true);
  tg_context_free(c);
  c = open_context(tuned, 1);
  CHECK(tuned_of(c, &fixed, 64) == 1, "another context does not find it");
  tg_gemm_desc strides = fixed;
  strides.b_major = TG_ANY_STRIDES;
  mistake(c, &strides, 0, "strides that each call gives");
  mistake(c, &range, 65, "no plan of this descriptor serves 65 x 96 x 80");
  mistake(c, &range, 0, "no plan of this descriptor serves 0 x 96 x 80");
  tg_context_free(c), tg_context_free(none);
  empty(tuned);
  return TEST_END();
}
