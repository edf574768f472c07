/* SPDX-License-Identifier: MIT
 * The GEMM operation: plans and calls on integer data, exact, against plain C; sizes, majors, strides, alpha and beta, batches, groups, threads of
 * a caller who runs tasks in reverse order, little memory. What lies between the elements of C must stay as it was. */
#define _GNU_SOURCE
#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/mman.h>
#include "../target.h"
#include "../folder.h"
#include "../test.h"
#include "tg/gemm.h"

/* ---- data: a matrix in a block of its own, between values that nobody may touch ---- */

enum { GUARD = 67 };
static const float untouched = -77777;

typedef struct { float *block, *at; int64_t rows, columns, step[2]; size_t n; } matrix;

static matrix new_matrix(int64_t rows, int64_t columns, uint8_t major, int64_t pad) {
  matrix m = {.rows = rows, .columns = columns};
  m.step[0] = major == TG_ROW_MAJOR ? columns + pad : major == TG_COLUMN_MAJOR ? 1 : 2 * (columns + pad) + 1;
  m.step[1] = major == TG_ROW_MAJOR ? 1 : major == TG_COLUMN_MAJOR ? rows + pad : 2;
  if (!m.step[0]) m.step[0] = 1;
  if (!m.step[1]) m.step[1] = 1;
  m.n = (size_t)((rows ? rows - 1 : 0) * m.step[0] + (columns ? columns - 1 : 0) * m.step[1] + 1 + 2 * GUARD);
  m.block = malloc(m.n * sizeof *m.block);
  m.at = m.block + GUARD;
  for (size_t i = 0; i < m.n; i++) m.block[i] = untouched;
  return m;
}

static float *element(const matrix *m, int64_t i, int64_t j) { return &m->at[i * m->step[0] + j * m->step[1]]; }

static void fill(const matrix *m, unsigned seed) {
  for (int64_t i = 0; i < m->rows; i++)
    for (int64_t j = 0; j < m->columns; j++) *element(m, i, j) = (float)((int)((unsigned)(i * 37 + j * 101) * (seed + 7) / 3 % 7) - 3);
}

static void fill_with(const matrix *m, float v) {
  for (int64_t i = 0; i < m->rows; i++)
    for (int64_t j = 0; j < m->columns; j++) *element(m, i, j) = v;
}

static bool is_between(const matrix *m, size_t at) {   /* not an element */
  int64_t d = (int64_t)at - GUARD, big = m->step[0] >= m->step[1] ? 0 : 1, extent[2] = {m->rows, m->columns};
  if (d < 0) return true;
  int64_t x = d / m->step[big], rest = d % m->step[big];
  return x >= extent[big] || rest % m->step[!big] || rest / m->step[!big] >= extent[!big];
}

/* alpha A B + beta C, where C is what it was. */
static bool holds(const matrix *a, const matrix *b, const matrix *c, const float *before, double alpha, double beta) {
  for (size_t i = 0; i < c->n; i++)
    if (is_between(c, i) && memcmp(&c->block[i], &untouched, sizeof untouched)) return fprintf(stderr, "  element %zu outside of C is written\n", i), false;
  for (int64_t i = 0; i < c->rows; i++)
    for (int64_t j = 0; j < c->columns; j++) {
      double s = 0;
      if (alpha != 0)
        for (int64_t k = 0; k < a->columns; k++) s += (double)*element(a, i, k) * (double)*element(b, k, j);
      double want = alpha == 0 ? 0 : alpha * s;
      if (beta != 0) want += beta * (double)before[element(c, i, j) - c->block];
      if ((double)*element(c, i, j) != want) return fprintf(stderr, "  C[%lld,%lld] is %g, not %g\n", (long long)i, (long long)j, (double)*element(c, i, j), want), false;
    }
  return true;
}

static tg_context *open_context(const char *cache) {
  tg_context *c = NULL;
  tg_context_options o = {.target = test_target(), .cache = cache, .threads = 3};
  CHECK(tg_context_create(&o, &c) == TG_OK, "a context");
  return c;
}

static void in_reverse(void *user, int64_t n, void (*task)(void *, int64_t), void *arg) {
  *(int64_t *)user += n;
  for (int64_t i = n; i-- > 0;) task(arg, i);
}

/* ---- one product, every way of threads ---- */

typedef struct { int64_t m, n, k, pad; uint8_t a_major, b_major, c_major; } shape;

static void one(tg_context *ctx, const tg_gemm *g, const shape *x, int64_t m, const double *alpha, const double *beta, int threads) {
  matrix a = new_matrix(m, x->k, x->a_major, x->pad), b = new_matrix(x->k, x->n, x->b_major, x->pad), c = new_matrix(m, x->n, x->c_major, x->pad);
  float al = alpha ? (float)*alpha : 1, be = beta ? (float)*beta : 0;
  fill(&a, 1), fill(&b, 2);
  if (al == 0) fill_with(&a, NAN), fill_with(&b, INFINITY);
  if (be == 0) fill_with(&c, NAN);
  else fill(&c, 3);
  float *before = malloc(c.n * sizeof *before);
  memcpy(before, c.block, c.n * sizeof *before);
  int64_t tasks = 0;
  tg_exec exec = {threads, in_reverse, &tasks};
  tg_gemm_call call = {.m = m, .n = x->n, .k = x->k, .a = a.at, .b = b.at, .c = c.at, .alpha = alpha ? &al : NULL, .beta = beta ? &be : NULL, .exec = threads ? &exec : NULL};
  memcpy(call.a_strides, a.step, sizeof a.step);
  memcpy(call.b_strides, b.step, sizeof b.step);
  memcpy(call.c_strides, c.step, sizeof c.step);
  call.workspace_bytes = tg_gemm_workspace(g, &call);
  call.workspace = malloc(call.workspace_bytes + 1);
  CHECK(tg_gemm_run(g, &call) == TG_OK, "%s", tg_error_message(ctx));
  CHECK(holds(&a, &b, &c, before, (double)al, (double)be), "%lldx%lldx%lld, majors %d%d%d, alpha %g, beta %g, threads %d", (long long)m, (long long)x->n, (long long)x->k, x->a_major, x->b_major, x->c_major, (double)al, (double)be, threads);
  free(call.workspace), free(before), free(a.block), free(b.block), free(c.block);
}

static tg_gemm *plan(tg_context *ctx, const tg_gemm_desc *d) {
  tg_gemm *g = NULL;
  CHECK(tg_gemm_plan(ctx, d, &g) == TG_OK, "%s", tg_error_message(ctx));
  return g;
}

static const double zero = 0, minus_two = -2, unit = 1, half = 0.5;

#define SOME (test_part() > 0)   /* of layouts, strips, epilogues and failures a part: most of the time is LLVM's, which is not instrumented */

/* Plans of any size: rows and columns in each combination, and each operand alone with strides that a call gives, beside others in rows. all: beside all others. */
static void any_size(tg_context *ctx, bool all) {
  static const int64_t sizes[][3] = {{1, 1, 1}, {1, 33, 7}, {17, 1, 5}, {2, 3, 0}, {5, 16, 64}, {65, 17, 31}, {3, 130, 257}, {0, 5, 5}, {5, 0, 5}, {300, 40, 9}, {40, 300, 2}};
  for (int majors = 0; majors < 27; majors++) {
    shape x = {.a_major = (uint8_t)(majors % 3), .b_major = (uint8_t)(majors / 3 % 3), .c_major = (uint8_t)(majors / 9)};
    if (majors != 26 && (x.a_major == TG_ANY_STRIDES) + (x.b_major == TG_ANY_STRIDES) + (x.c_major == TG_ANY_STRIDES) > 1) continue;
    if (SOME && majors % 7) continue;
    if (!all && majors != 26 && majors % 3 + majors / 3 % 3 + majors / 9 > 2 && (majors % 3 == 2 || majors / 3 % 3 == 2 || majors / 9 == 2)) continue;
    tg_gemm_desc d = {.m = {0, 4096}, .n = {0, 4096}, .k = {0, 4096}, .alpha = 1, .beta = 1, .a_major = x.a_major, .b_major = x.b_major, .c_major = x.c_major};
    tg_gemm *g = plan(ctx, &d);
    for (unsigned i = 0; g && i < sizeof sizes / sizeof *sizes; i++) {
      x.n = sizes[i][1], x.k = sizes[i][2], x.pad = i % 3;
      static const double *const scalars[][2] = {{NULL, NULL}, {&minus_two, &zero}, {&half, &unit}, {&zero, &minus_two}, {&zero, NULL}, {NULL, &half}};
      for (unsigned v = 0; v < 6; v++) one(ctx, g, &x, sizes[i][0], scalars[v][0], scalars[v][1], (int)(v % 3) * 2);
    }
    tg_gemm_free(g);
  }
}

/* A range of rows, fixed columns: what an engine has. The same results as plans for one size, at the edges of the plan's parts. */
static void range_of_rows(tg_context *ctx) {
  tg_gemm_desc d = {.m = {1, 700}, .n = {40, 0}, .k = {50, 0}, .b_major = TG_COLUMN_MAJOR, .threads = 3};
  tg_gemm *g = plan(ctx, &d);
  static const int64_t rows[] = {1, 2, 4, 5, 15, 16, 17, 64, 65, 256, 257, 700};
  for (unsigned i = 0; g && i < sizeof rows / sizeof *rows; i++)
    for (int threads = 0; threads < 6; threads += 5) one(ctx, g, &(shape){.n = 40, .k = 50, .pad = i % 2, .b_major = TG_COLUMN_MAJOR}, rows[i], NULL, NULL, threads);
  tg_gemm_free(g);
}

/* Strips of C on several threads: rows or columns, the last one smaller, with alpha and beta; on more threads than strips, and fewer. */
static void strips(tg_context *ctx) {
  static const int64_t sizes[][3] = {{301, 37, 80}, {64, 517, 90}, {131, 129, 127}, {33, 400, 201}};
  for (int way = 0; way < 32; way += SOME ? 11 : 5) {   /* each value of each, and most pairs */
    const int64_t *z = sizes[way % 4];
    shape x = {.n = z[1], .k = z[2], .pad = way / 3 % 3, .a_major = (uint8_t)(way / 4 % 2), .b_major = (uint8_t)(way / 8 % 2), .c_major = (uint8_t)(way / 16 % 2)};
    tg_gemm *g = plan(ctx, &(tg_gemm_desc){.m = {way % 5 == 4 ? 1 : z[0], z[0]}, .n = {z[1], 0}, .k = {z[2], 0}, .a_major = x.a_major, .b_major = x.b_major, .c_major = x.c_major, .alpha = 1, .beta = 1, .threads = 2 + way % 4});
    for (int threads = 0; g && threads < 7; threads++) one(ctx, g, &x, z[0], threads % 2 ? &minus_two : NULL, threads % 3 ? &half : NULL, threads);
    tg_gemm_free(g);
  }
}

/* ---- several products at a time ---- */

enum { BATCH = 9, BM = 5, BN = 18, BK = 11 };

static float product(const float *a, const float *b, int i, int j, int k, int n) {
  float s = 0;
  for (int q = 0; q < k; q++) s += a[i * k + q] * b[q * n + j];
  return s;
}

static void batches(tg_context *ctx) {
  static float a[BATCH][BM][BK], b[BATCH][BK][BN], c[BATCH + 1][BM][BN];
  for (int i = 0; i < BATCH * BM * BK; i++) a[i / (BM * BK)][i / BK % BM][i % BK] = (float)(i % 7 - 3);
  for (int i = 0; i < BATCH * BK * BN; i++) b[i / (BK * BN)][i / BN % BK][i % BN] = (float)(i % 5 - 2);
  tg_gemm *g = plan(ctx, &(tg_gemm_desc){.m = {1, BM}, .n = {BN, 0}, .k = {BK, 0}, .threads = 3});
  const void *a_list[BATCH], *b_list[BATCH];
  void *c_list[BATCH];
  for (int i = 0; i < BATCH; i++) a_list[i] = a[BATCH - 1 - i], b_list[i] = b[i / 2], c_list[i] = c[BATCH - i];
  static const int64_t shared_b[3] = {BM * BK, 0, BM * BN};
  for (int how = 0; how < 9 && g; how++) {
    int64_t tasks = 0;
    tg_exec exec = {how / 3 == 2 ? 20 : 4, in_reverse, &tasks};   /* with more threads than products, and fewer */
    tg_gemm_call call = {.m = BM, .a = a, .b = b, .c = c, .batch = BATCH, .exec = how / 3 ? &exec : NULL};
    if (how % 3 == 1) call.batch_strides = shared_b;
    if (how % 3 == 2) call.a = call.b = NULL, call.c = NULL, call.a_list = a_list, call.b_list = b_list, call.c_list = c_list;
    memset(c, 0x7f, sizeof c);
    call.workspace_bytes = tg_gemm_workspace(g, &call), call.workspace = malloc(call.workspace_bytes + 1);
    CHECK(tg_gemm_run(g, &call) == TG_OK, "%s", tg_error_message(ctx));
    int wrong = 0;
    for (int p = 0; p < BATCH; p++)
      for (int i = 0; i < BM; i++)
        for (int j = 0; j < BN; j++)
          wrong += how % 3 == 2 ? c[BATCH - p][i][j] != product(a_list[p], b_list[p], i, j, BK, BN) : c[p][i][j] != product(a[p][0], how % 3 ? b[0][0] : b[p][0], i, j, BK, BN);
    unsigned char *edge = (unsigned char *)c[how % 3 == 2 ? 0 : BATCH];
    for (size_t i = 0; i < sizeof c[0]; i++) wrong += edge[i] != 0x7f;
    CHECK(!wrong, "way %d: %d elements", how, wrong);
    free(call.workspace);
  }
  tg_gemm_free(g);
}

/* Rows in groups, each with weights of its own; some have none. */
static void groups(tg_context *ctx) {
  enum { GROUPS = 8, N = 20, K = 12 };
  static const int64_t rows[GROUPS] = {3, 0, 70, 1, 0, 17, 200, 9};
  static float a[300][K], b[GROUPS][N][K], c[301][N];
  for (int i = 0; i < 300 * K; i++) a[i / K][i % K] = (float)(i % 7 - 3);
  for (int i = 0; i < GROUPS * N * K; i++) b[i / (N * K)][i / K % N][i % K] = (float)(i % 5 - 2);
  tg_gemm *g = plan(ctx, &(tg_gemm_desc){.m = {0, 4096}, .n = {N, 0}, .k = {K, 0}, .b_major = TG_COLUMN_MAJOR});
  for (int threads = 0; g && threads < 12; threads += 3) {
    int64_t tasks = 0;
    tg_exec exec = {threads, in_reverse, &tasks};
    tg_gemm_call call = {.a = a, .b = b, .c = c, .batch = GROUPS, .group_m = rows, .exec = threads ? &exec : NULL};
    memset(c, 0x7f, sizeof c);
    call.workspace_bytes = tg_gemm_workspace(g, &call), call.workspace = malloc(call.workspace_bytes + 1);
    CHECK(tg_gemm_run(g, &call) == TG_OK, "%s", tg_error_message(ctx));
    int wrong = 0, at = 0;
    for (int p = 0; p < GROUPS; p++)
      for (int64_t i = 0; i < rows[p]; i++, at++)
        for (int j = 0; j < N; j++) {
          float s = 0;
          for (int q = 0; q < K; q++) s += a[at][q] * b[p][j][q];
          wrong += c[at][j] != s;
        }
    for (size_t i = 0; i < sizeof c[0]; i++) wrong += ((unsigned char *)c[at])[i] != 0x7f;
    CHECK(at == 300 && !wrong, "%d threads: %d elements", threads, wrong);
    free(call.workspace);
  }
  tg_gemm_free(g);
}

/* ---- epilogues ---- */

/* places: it reads the subscripts themselves. Large enough, and without them, it is shared out in strips. */
static void epilogue(tg_context *ctx, int m, int n, int k, bool places) {
  float *a = malloc((size_t)(m * k) * sizeof *a), *b = malloc((size_t)(k * n) * sizeof *b), *c = malloc((size_t)(m * n) * sizeof *c), *bias = malloc((size_t)n * sizeof *bias), *scale = malloc((size_t)m * sizeof *scale),
        *residual = malloc((size_t)(m * (n + 5)) * sizeof *residual);
  for (int i = 0; i < m * k; i++) a[i] = (float)(i % 7 - 3);
  for (int i = 0; i < k * n; i++) b[i] = (float)(i % 5 - 2);
  for (int j = 0; j < n; j++) bias[j] = (float)(j - 4);
  for (int i = 0; i < m; i++) scale[i] = (float)(i % 3);
  for (int i = 0; i < m * (n + 5); i++) residual[i] = (float)(i % 11);
  static const float factor = 3;
  for (int way = 0; way < 8; way++) {
    if (places ? way % 2 : way != 0 && way != 3 && way != 5 && way != 6) continue;   /* each two of the three bits in each combination */
    bool range = places ? way & 4 : way & 1;
    tg_gemm_desc d = {.m = {range ? 0 : m, range ? 2 * m : 0}, .n = {n, 0}, .k = {k, 0}, .threads = way & 4 ? 3 : 2,
                      .epilogue = places ? "max(acc + bias, 0) * scale + by * residual + where(m == n, 1, 0)" : "max(acc + bias, 0) * scale + by * residual",
                      .arg = {{"bias", 0, TG_PER_COLUMN}, {"scale", 0, TG_PER_ROW}, {"by", 0, TG_PER_ALL}, {"residual", 0, TG_PER_ELEMENT}}};
    if (way & 2) d.c_major = TG_COLUMN_MAJOR;
    tg_gemm *g = plan(ctx, &d);
    if (!g) continue;
    tg_gemm_call call = {.m = m, .a = a, .b = b, .c = c, .arg = {bias, scale, &factor, residual}, .arg_ld = {0, 0, 0, n + 5}};
    call.workspace_bytes = tg_gemm_workspace(g, &call), call.workspace = malloc(call.workspace_bytes + 1);
    CHECK(tg_gemm_run(g, &call) == TG_OK, "%s", tg_error_message(ctx));
    int wrong = 0;
    for (int i = 0; i < m; i++)
      for (int j = 0; j < n; j++) {
        float s = product(a, b, i, j, k, n) + bias[j];
        float want = (s > 0 ? s : 0) * scale[i] + factor * residual[i * (n + 5) + j] + (places && i == j ? 1 : 0);
        wrong += c[way & 2 ? j * m + i : i * n + j] != want;
      }
    CHECK(!wrong, "%d x %d x %d, way %d: %d elements", m, n, k, way, wrong);
    free(call.workspace);
    tg_gemm_free(g);
  }
  free(a), free(b), free(c), free(bias), free(scale), free(residual);
}

static void epilogues(tg_context *ctx, bool all) {
  epilogue(ctx, 37, 21, 19, true);
  epilogue(ctx, 259, 67, 90, false);
  if (SOME) return;
  if (all) epilogue(ctx, 137, 261, 119, true);
  epilogue(ctx, 137, 261, 119, false);
}

/* ---- the bare code ---- */

static void functions(tg_context *ctx) {
  static float a[8][8], b[8][8], c[8][8];
  _Alignas(64) static char scratch[TG_GEMM_SCRATCH];
  for (int i = 0; i < 64; i++) a[i / 8][i % 8] = (float)(i % 7 - 3), b[i / 8][i % 8] = (float)(i % 5 - 2);
  for (int n = 1; n <= 8; n++) {
    tg_dim size = {n, 0}, ld = {8, 0};
    tg_gemm_desc d = {.m = size, .n = size, .k = size, .a_ld = ld, .b_ld = ld, .c_ld = ld, .alpha = 1};
    tg_gemm *g = plan(ctx, &d);
    tg_gemm_code *code = tg_gemm_function(g);
    CHECK(code, "size %d has no bare code", n);
    static const float two = 2;
    void *operands[] = {a, b, c, (void *)(uintptr_t)&two};
    for (int i = 0; i < 64; i++) c[i / 8][i % 8] = untouched;
    if (code) code(operands, NULL, scratch, 0);
    int wrong = 0;
    for (int i = 0; i < 8; i++)
      for (int j = 0; j < 8; j++) {
        float sum = 0;
        for (int q = 0; q < n; q++) sum += 2 * a[i][q] * b[q][j];
        wrong += c[i][j] != (i < n && j < n ? sum : untouched);
      }
    CHECK(!wrong, "size %d: %d elements", n, wrong);
    tg_gemm_free(g);
  }
  CHECK(!tg_gemm_function(NULL), "no plan has bare code");
}

/* Sizes and leading dimensions come beside the operands: those that the descriptor leaves open, in order. */
static void open_functions(tg_context *ctx) {
  enum { M = 21, N = 35, K = 19, LDA = 70, LDB = 71, LDC = 72 };
  static double a[M * LDA], b[K * LDB], c[M * LDC];
  _Alignas(64) static char scratch[TG_GEMM_SCRATCH];
  static const int64_t all[] = {M, N, K, LDA, LDB, LDC};
  for (int i = 0; i < M * LDA; i++) a[i] = i % 7 - 3;
  for (int i = 0; i < K * LDB; i++) b[i] = i % 5 - 2;
  for (int fixed = 0; fixed < 64; fixed += fixed == 32 ? 31 : fixed ? fixed : 1) {   /* none, each, all */
    tg_dim range = {2, 64};
    tg_gemm_desc d = {.a = TG_F64, .m = range, .n = range, .k = range, .flags = TG_GEMM_BATCH_INVARIANT};
    tg_dim *const place[] = {&d.m, &d.n, &d.k, &d.a_ld, &d.b_ld, &d.c_ld};
    int64_t sizes[6];
    int n = 0, wrong = 0;
    for (int i = 0; i < 6; i++)
      if (fixed >> i & 1) *place[i] = (tg_dim){all[i], 0};
      else sizes[n++] = all[i];
    tg_gemm *g = plan(ctx, &d);
    tg_gemm_code *code = tg_gemm_function(g);
    void *operands[] = {a, b, c};
    for (int i = 0; i < M * LDC; i++) c[i] = untouched;
    CHECK(code, "fixed %d: no bare code", fixed);
    if (code) code(operands, sizes, scratch, 0);
    for (int i = 0; i < M; i++)
      for (int j = 0; j < LDC; j++) {
        double sum = 0;
        for (int q = 0; q < K && j < N; q++) sum += a[i * LDA + q] * b[q * LDB + j];
        wrong += c[i * LDC + j] != (j < N ? sum : untouched);
      }
    CHECK(!wrong, "fixed %d: %d elements", fixed, wrong);
    tg_gemm_free(g);
  }
  tg_gemm *g = plan(ctx, &(tg_gemm_desc){.m = {1, 4096}, .n = {4096, 0}, .k = {4096, 0}});
  CHECK(!tg_gemm_function(g), "several kernels have no bare code");
  tg_gemm_free(g);
}

/* ---- types ---- */

static void integers(tg_context *ctx, bool ahead) {
  enum { M = 19, N = 35, K = 70 };
  static uint8_t a[M][K];
  static int8_t b[K][N];
  static int32_t c[M][N];
  for (int i = 0; i < M * K; i++) a[i / K][i % K] = (uint8_t)(i * 37);
  for (int i = 0; i < K * N; i++) b[i / N][i % N] = (int8_t)(i * 91);
  tg_gemm_desc d = {.a = TG_U8, .b = TG_I8, .m = {1, 64}, .n = {N, 0}, .k = {K, 0}};
  tg_gemm_packing packing = {0};
  char *packed = NULL;
  if (ahead) {
    CHECK(tg_gemm_packing_choose(ctx, &d, 1, &packing) == TG_OK, "%s", tg_error_message(ctx));
    packed = malloc(packing.bytes);
    CHECK(tg_gemm_pack(&packing, b, NULL, packed) == TG_OK, "packing");
    d.packing = &packing;
  }
  tg_gemm *g = plan(ctx, &d);
  tg_gemm_call call = {.m = M, .a = a, .b = ahead ? (const void *)packed : b, .c = c};
  memset(c, 0x55, sizeof c);
  call.workspace_bytes = tg_gemm_workspace(g, &call), call.workspace = malloc(call.workspace_bytes + 1);
  CHECK(g && tg_gemm_run(g, &call) == TG_OK, "%s", tg_error_message(ctx));
  int wrong = 0;
  for (int i = 0; i < M; i++)
    for (int j = 0; j < N; j++) {
      int32_t s = 0;
      for (int q = 0; q < K; q++) s += a[i][q] * b[q][j];
      wrong += c[i][j] != s;
    }
  CHECK(!wrong, "%d elements", wrong);
  free(call.workspace), free(packed);
  tg_gemm_free(g);
}

/* ---- weights packed ahead: one copy for one row and for hundreds, with groups and an epilogue ---- */

static void packings(tg_context *ctx) {
  enum { K = 75, EXPERTS = 3 };
  static const int64_t columns[] = {1, 31, 33, 100, 700};   /* the last: strips of whole panels, for many rows */
  for (unsigned w = 0; w < sizeof columns / sizeof *columns; w++) {
    int64_t n = columns[w], rows[EXPERTS] = {1, 0, 130};
    tg_gemm_desc uses[] = {{.m = {1, 0}, .n = {n, 0}, .k = {K, 0}}, {.m = {1, 500}, .n = {n, 0}, .k = {K, 0}, .b_major = TG_COLUMN_MAJOR}};
    tg_gemm_packing packing;
    CHECK(tg_gemm_packing_choose(ctx, uses, 2, &packing) == TG_OK, "%s", tg_error_message(ctx));
    CHECK(packing.bytes >= (size_t)(n * K) * 4 && packing.panel && packing.n == n && packing.k == K, "%zu bytes", packing.bytes);
    float *a = malloc(500 * K * sizeof *a), *b = malloc((size_t)(EXPERTS * n * K) * sizeof *b), *c = malloc((size_t)(500 * n) * sizeof *c), *bias = malloc((size_t)n * sizeof *bias);
    char *packed = malloc(EXPERTS * packing.bytes + 8);
    for (int i = 0; i < 500 * K; i++) a[i] = (float)(i % 7 - 3);
    for (int64_t i = 0; i < EXPERTS * n * K; i++) b[i] = (float)(i % 5 - 2);
    for (int64_t j = 0; j < n; j++) bias[j] = (float)(j % 3);
    memset(packed, 0x7f, EXPERTS * packing.bytes + 8);
    for (size_t e = 0; e < EXPERTS; e++) {   /* the last one lies in columns */
      const int64_t strides[2] = {e == 2 ? 1 : n, e == 2 ? K : 1};
      CHECK(tg_gemm_pack(&packing, b + e * (size_t)(n * K), strides, packed + e * packing.bytes) == TG_OK, "expert %zu", e);
    }
    CHECK(packed[EXPERTS * packing.bytes] == 0x7f, "written past the end");
    for (int how = 0; how < 4; how++) {
      tg_gemm_desc d = uses[how & 1];
      d.packing = &packing, d.threads = 3, d.epilogue = "acc + bias", d.arg[0].name = "bias", d.arg[0].per = TG_PER_COLUMN;
      if (how == 3) d.m.lo = 0;
      tg_gemm *g = plan(ctx, &d);
      if (!g) continue;
      int64_t m = how & 1 ? 131 : 1;
      tg_gemm_call call = {.m = m, .a = a, .b = packed, .c = c, .arg = {bias}};
      if (how == 2) call.b = packed + 2 * packing.bytes;
      if (how == 3) call.m = 0, call.batch = EXPERTS, call.group_m = rows;
      memset(c, 0x7f, (size_t)(500 * n) * sizeof *c);
      call.workspace_bytes = tg_gemm_workspace(g, &call), call.workspace = malloc(call.workspace_bytes + 1);
      CHECK(tg_gemm_run(g, &call) == TG_OK, "%s", tg_error_message(ctx));
      int wrong = 0;
      for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++) {
          float s = bias[j];
          bool third = how == 2 || (how == 3 && i);
          for (int q = 0; q < K; q++) s += a[i * K + q] * (third ? b[2 * n * K + j * K + q] : b[q * n + j]);
          wrong += c[i * n + j] != s;
        }
      for (size_t i = 0; i < (size_t)n * 4; i++) wrong += ((char *)(c + m * n))[i] != 0x7f;
      CHECK(!wrong, "%lld columns, way %d: %d elements", (long long)n, how, wrong);
      free(call.workspace);
      tg_gemm_free(g);
    }
    if (w == 2) {
      tg_gemm_desc d = {.m = {4, 0}, .n = {n, 0}, .k = {K + 1, 0}, .packing = &packing};
      tg_gemm *g = NULL;
      CHECK(tg_gemm_plan(ctx, &d, &g) == TG_EINVAL && strstr(tg_error_message(ctx), "packing is of 33 columns and 75 terms"), "%s", tg_error_message(ctx));
      d.k.lo = K, d.c_major = TG_COLUMN_MAJOR;
      CHECK(tg_gemm_plan(ctx, &d, &g) == TG_EINVAL && strstr(tg_error_message(ctx), "C is row major"), "%s", tg_error_message(ctx));
      d.c_major = 0, d.a = TG_F64;
      CHECK(tg_gemm_plan(ctx, &d, &g) == TG_EINVAL && strstr(tg_error_message(ctx), "of another type than b"), "%s", tg_error_message(ctx));
      packing.bytes++;
      d.a = 0;
      CHECK(tg_gemm_plan(ctx, &d, &g) == TG_EINVAL && strstr(tg_error_message(ctx), "is not what tg_gemm_packing_choose makes") && tg_gemm_pack(&packing, b, NULL, packed) == TG_EINVAL, "%s", tg_error_message(ctx));
      uses[1].n.lo = 34;
      CHECK(tg_gemm_packing_choose(ctx, uses, 2, &packing) == TG_EINVAL && strstr(tg_error_message(ctx), "use 1 has another n, k or type of b"), "%s", tg_error_message(ctx));
      uses[1].n = (tg_dim){1, 34};
      CHECK(tg_gemm_packing_choose(ctx, uses, 2, &packing) == TG_EINVAL && strstr(tg_error_message(ctx), "use 1 has a range for n or k"), "%s", tg_error_message(ctx));
    }
    free(a), free(b), free(c), free(bias), free(packed);
  }
}

/* ---- memory ---- */

/* Large products want a workspace. */
static void workspaces(tg_context *ctx) {
  enum { N = 700 };
  float *x = calloc(3 * N * N, sizeof *x);
  tg_gemm *g = plan(ctx, &(tg_gemm_desc){.m = {N, 0}, .n = {N, 0}, .k = {N, 0}, .b_major = TG_COLUMN_MAJOR, .threads = 3});
  tg_gemm_call call = {.a = x, .b = x + N * N, .c = x + 2 * N * N};
  size_t bytes = tg_gemm_workspace(g, &call);
  CHECK(bytes > 4096 && tg_gemm_workspace(g, NULL) >= bytes, "%zu bytes", bytes);
  CHECK(tg_gemm_run(g, &call) == TG_EINVAL && strstr(tg_error_message(ctx), "tg_gemm_call.workspace has 0 bytes"), "%s", tg_error_message(ctx));
  char *memory = malloc(bytes + 1);
  call.workspace = memory + 1, call.workspace_bytes = bytes - 1;
  CHECK(tg_gemm_run(g, &call) == TG_EINVAL && strstr(tg_error_message(ctx), "are needed on 3 threads"), "%s", tg_error_message(ctx));
  call.workspace_bytes = bytes;
  memory[0] = 77;
  CHECK(tg_gemm_run(g, &call) == TG_OK && memory[0] == 77, "%s", tg_error_message(ctx));
  free(memory), free(x);
  tg_gemm_free(g);
}

/* Elements further than 2^31 from the first, in every operand: few rows, far from each other, in memory that is not there until it is touched. */
static void far_apart(tg_context *ctx) {
  enum { M = 3, N = 17, K = 4 };
  const int64_t ld = ((int64_t)1 << 30) + 12345;
  const size_t bytes = (size_t)(3 * ld + N) * sizeof(float);
  float *p[3];
  for (int i = 0; i < 3; i++) {
    p[i] = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    CHECK(p[i] != MAP_FAILED, "%zu bytes of addresses", bytes);
    if (p[i] == MAP_FAILED) return;
  }
  for (int64_t i = 0; i < M; i++)
    for (int64_t k = 0; k < K; k++) p[0][i * ld + k] = (float)(i * 3 + k - 4);
  for (int64_t k = 0; k < K; k++)
    for (int64_t j = 0; j < N; j++) p[1][k * ld + j] = (float)(k * 5 - j);
  for (int fixed = 0; fixed < 2; fixed++) {
    tg_dim any = {1, 1 << 20}, far = {fixed ? ld : 0, 0};
    tg_gemm *g = plan(ctx, &(tg_gemm_desc){.m = fixed ? (tg_dim){M, 0} : any, .n = fixed ? (tg_dim){N, 0} : any, .k = fixed ? (tg_dim){K, 0} : any, .a_ld = far, .b_ld = far, .c_ld = far});
    tg_gemm_call call = {.m = fixed ? 0 : M, .n = fixed ? 0 : N, .k = fixed ? 0 : K, .a = p[0], .b = p[1], .c = p[2], .a_strides = {ld, 1}, .b_strides = {ld, 1}, .c_strides = {ld, 1}};
    call.workspace_bytes = tg_gemm_workspace(g, &call), call.workspace = malloc(call.workspace_bytes + 1);
    for (int64_t i = 0; i < M; i++)
      for (int64_t j = 0; j < N; j++) p[2][i * ld + j] = untouched;
    CHECK(g && tg_gemm_run(g, &call) == TG_OK, "%s", tg_error_message(ctx));
    int wrong = 0;
    for (int64_t i = 0; i < M; i++)
      for (int64_t j = 0; j < N; j++) {
        float s = 0;
        for (int64_t k = 0; k < K; k++) s += p[0][i * ld + k] * p[1][k * ld + j];
        wrong += p[2][i * ld + j] != s;
      }
    CHECK(!wrong, "%d elements", wrong);
    free(call.workspace);
    tg_gemm_free(g);
  }
  for (int i = 0; i < 3; i++) munmap(p[i], bytes);
}

/* ---- one row's bits ---- */

static void invariant(tg_context *ctx) {
  enum { M = 70, N = 48, K = 333 };
  float *a = malloc(M * K * sizeof *a), *b = malloc(K * N * sizeof *b), *c = malloc(M * N * sizeof *c), *one_row = malloc(N * sizeof *c);
  unsigned seed = 1;
  for (int i = 0; i < M * K; i++) a[i] = (float)((seed = seed * 1664525 + 1013904223) >> 8) / (1 << 23) - 1;
  for (int i = 0; i < K * N; i++) b[i] = (float)((seed = seed * 1664525 + 1013904223) >> 8) / (1 << 23) - 1;
  tg_gemm *all = plan(ctx, &(tg_gemm_desc){.m = {1, 4096}, .n = {N, 0}, .k = {K, 0}, .flags = TG_GEMM_BATCH_INVARIANT});
  tg_gemm *fixed = plan(ctx, &(tg_gemm_desc){.m = {M, 0}, .n = {N, 0}, .k = {K, 0}, .flags = TG_GEMM_BATCH_INVARIANT});
  tg_gemm_call call = {.m = M, .a = a, .b = b, .c = c, .workspace = malloc(1 << 24), .workspace_bytes = 1 << 24};
  CHECK(fixed && tg_gemm_run(fixed, &call) == TG_OK, "%s", tg_error_message(ctx));
  int wrong = 0;
  for (int64_t rows = 1; rows < 40 && all; rows += 3)
    for (int64_t at = 0; at + rows <= M; at += 11) {
      float part[40 * N];
      tg_gemm_call some = call;
      some.m = rows, some.a = a + at * K, some.c = part;
      if (tg_gemm_run(all, &some)) wrong++;
      wrong += memcmp(part, c + at * N, (size_t)rows * N * sizeof *c) != 0;
    }
  CHECK(!wrong, "%d pieces have other bits", wrong);
  free(call.workspace), free(a), free(b), free(c), free(one_row);
  tg_gemm_free(all), tg_gemm_free(fixed);
}

/* ---- the cache, and nothing to compile with ---- */

static void caches(void) {
  char folder[TEST_PATH] = "tg-gemm-XXXXXX", command[TEST_PATH + 32];
  if (!test_folder(folder)) return;
  tg_gemm_desc d = {.m = {1, 100}, .n = {20, 0}, .k = {30, 0}, .flags = TG_GEMM_NO_COMPILE};
  tg_context *c = open_context(folder), *runtime = NULL;
  tg_gemm *g = NULL;
  CHECK(tg_gemm_plan(c, &d, &g) == TG_MISS && !g && strstr(tg_error_message(c), "not in the cache"), "%s", tg_error_message(c));
  d.flags = 0;
  g = plan(c, &d);
  CHECK(tg_gemm_describe(g).kernels && !tg_gemm_describe(g).from_cache, "compiled");
  tg_gemm_free(g);
  d.flags = TG_GEMM_NO_COMPILE;
  g = plan(c, &d);
  CHECK(tg_gemm_describe(g).kernels && tg_gemm_describe(g).from_cache == tg_gemm_describe(g).kernels, "found");
  tg_gemm_free(g);
  tg_context_options o = {.target = test_target(), .cache = folder, .threads = 3};
  CHECK(tg_context_create_runtime(&o, &runtime) == TG_OK, "a context without a compiler");
  d.flags = 0;
  g = plan(runtime, &d);
  one(runtime, g, &(shape){.n = 20, .k = 30}, 33, NULL, NULL, 0);
  tg_gemm_free(g);
  d.k.lo = 31;
  CHECK(tg_gemm_plan(runtime, &d, &g) == TG_MISS && !g && strstr(tg_error_message(runtime), "no compiler"), "%s", tg_error_message(runtime));
  tg_context_free(runtime);
  tg_context_free(c);
  snprintf(command, sizeof command, "rm -r %s", folder);
  CHECK(!system(command), "%s", command);
}

/* ---- little memory: each allocation of a plan fails once; a run makes none ---- */

typedef struct { long calls, fail_at, live; } budget;

static void *count_alloc(void *user, size_t bytes) {
  budget *b = user;
  if (++b->calls == b->fail_at) return NULL;
  b->live++;
  return malloc(bytes ? bytes : 1);
}

static void count_free(void *user, void *p, size_t bytes) {
  (void)bytes;
  ((budget *)user)->live -= p != NULL;
  free(p);
}

static tg_status live(budget *b) {
  tg_context_options o = {.allocator = {count_alloc, count_free, b}, .target = test_target(), .threads = 1};
  tg_context *c = NULL;
  tg_gemm *g = NULL;
  static float x[3 * 64];
  tg_status s = tg_context_create(&o, &c);
  if (s != TG_OK) return s;
  s = tg_gemm_plan(c, &(tg_gemm_desc){.m = {0, 8}, .n = {8, 0}, .k = {8, 0}, .alpha = 1, .beta = 1}, &g);
  if (s == TG_OK) {
    long before = b->calls;
    s = tg_gemm_run(g, &(tg_gemm_call){.m = 8, .a = x, .b = x + 64, .c = x + 128});
    CHECK(s == TG_OK && b->calls == before, "a run allocated %ld times", b->calls - before);
  } else CHECK(!g && strstr(tg_error_message(c), "memory"), "%s", tg_error_message(c));
  tg_gemm_free(g);
  tg_context_free(c);
  return s;
}

static void out_of_memory(bool all) {
  budget whole = {0};
  int wrong = 0;
  CHECK(live(&whole) == TG_OK && !whole.live, "%ld blocks left over", whole.live);
  for (long n = 1; n <= whole.calls; n += whole.calls / (all ? 150 : SOME ? 25 : 50) + 1) {
    budget b = {.fail_at = n};
    tg_status s = live(&b);
    wrong += (s != TG_OK && s != TG_ENOMEM) || b.live;
  }
  CHECK(!wrong, "%d of %ld", wrong, whole.calls);
}

#ifdef __has_feature   /* clang says it in words of its own */
#if __has_feature(thread_sanitizer)
#define __SANITIZE_THREAD__ 1
#endif
#endif
#ifdef __SANITIZE_THREAD__
enum { THREADS_ONLY = 1 };   /* slow, and its faults are those of threads */
#else
enum { THREADS_ONLY = 0 };
#endif

/*   gemm_api [all] */
int main(int argc, char **argv) {
  bool all = argc > 1 && !strcmp(argv[1], "all");
  tg_context *ctx = open_context(NULL);
  any_size(ctx, all);
  batches(ctx);
  groups(ctx);
  integers(ctx, false);
  packings(ctx);
  workspaces(ctx);
  invariant(ctx);
  if (!THREADS_ONLY) {
    strips(ctx);
    range_of_rows(ctx);
    epilogues(ctx, all);
    functions(ctx);
    open_functions(ctx);
    integers(ctx, true);
    far_apart(ctx);
  }
  tg_context_free(ctx);
  if (!THREADS_ONLY) {
    caches();
    out_of_memory(all);
  }
  return TEST_END();
}
