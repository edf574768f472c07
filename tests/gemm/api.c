/* SPDX-License-Identifier: MIT
 * The GEMM operation: plans and calls on integer data, exact, against plain C; sizes, majors, strides, alpha and beta, batches, groups, threads of
 * a caller who runs tasks in reverse order, wrong arguments, little memory. What lies between the elements of C must stay as it was. */
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
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
  tg_context_options o = {.cache = cache, .threads = 3};
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

/* Plans of any size, of every layout. */
static void any_size(tg_context *ctx) {
  static const int64_t sizes[][3] = {{1, 1, 1}, {1, 33, 7}, {17, 1, 5}, {2, 3, 0}, {5, 16, 64}, {65, 17, 31}, {3, 130, 257}, {0, 5, 5}, {5, 0, 5}, {300, 40, 9}, {40, 300, 2}};
  for (int majors = 0; majors < 27; majors++) {
    shape x = {.a_major = (uint8_t)(majors % 3), .b_major = (uint8_t)(majors / 3 % 3), .c_major = (uint8_t)(majors / 9)};
    if (majors != 26 && (x.a_major == TG_ANY_STRIDES) + (x.b_major == TG_ANY_STRIDES) + (x.c_major == TG_ANY_STRIDES) > 1) continue;
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

int main(void) {
  tg_context *ctx = open_context(NULL);
  any_size(ctx);
  tg_context_free(ctx);
  return TEST_END();
}
