/* SPDX-License-Identifier: MIT
 * Long sums in parts: whole numbers against plain C for every layout, alpha, beta and an epilogue; random numbers, whose bits must not depend on how many threads there are nor on
 * the order in which tasks run; sizes of the sum from nothing on through one plan. */
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include "../target.h"
#include "../test.h"
#include "tg/gemm.h"

enum { MOST = 20000 };

static uint32_t next(uint32_t *s) { return *s = *s * 1664525u + 1013904223u; }

static void in_reverse(void *user, int64_t n, void (*task)(void *, int64_t), void *arg) {
  (void)user;
  for (int64_t i = n; i-- > 0;) task(arg, i);
}

static void in_order(void *user, int64_t n, void (*task)(void *, int64_t), void *arg) {
  (void)user;
  for (int64_t i = 0; i < n; i++) task(arg, i);
}

typedef struct { int m, n; bool ta, tb, tc; } layout;

static float at(const float *x, int64_t i, int64_t j, int64_t rows, int64_t columns, bool turned) { return turned ? x[j * rows + i] : x[i * columns + j]; }

static bool holds(const layout *l, int64_t k, const float *a, const float *b, const float *c, const float *bias) {
  for (int64_t i = 0; i < l->m; i++)
    for (int64_t j = 0; j < l->n; j++) {
      double s = 0;
      for (int64_t t = 0; t < k; t++) s += (double)at(a, i, t, l->m, k, l->ta) * (double)at(b, t, j, k, l->n, l->tb);
      s = 2 * s - 3;   /* alpha, beta times what C was */
      s = (s > 0 ? s : 0) + (double)bias[j];
      if ((double)at(c, i, j, l->m, l->n, l->tc) != s) return fprintf(stderr, "  C[%d,%d] is %g, not %g\n", (int)i, (int)j, (double)at(c, i, j, l->m, l->n, l->tc), s), false;
    }
  return true;
}

static void run(tg_context *ctx, const tg_gemm *g, tg_gemm_call *call, const tg_exec *exec) {
  call->exec = exec;
  call->workspace_bytes = tg_gemm_workspace(g, call);
  call->workspace = malloc(call->workspace_bytes + 1);
  CHECK(tg_gemm_run(g, call) == TG_OK, "%s", tg_error_message(ctx));
  free(call->workspace);
}

static void one(tg_context *ctx, const layout *l) {
  static const int64_t terms[] = {0, 1, 7, 255, 256, 257, 2049, 4096, 8191, MOST};
  size_t mn = (size_t)l->m * (size_t)l->n;
  float *a = malloc((size_t)l->m * MOST * sizeof *a), *b = malloc((size_t)l->n * MOST * sizeof *b), *c = malloc(mn * sizeof *c), *first = malloc(mn * sizeof *c), *bias = malloc((size_t)l->n * sizeof *bias);
  const float alpha = 2, beta = -3;
  uint32_t seed = 5;
  tg_gemm_desc d = {.m = {l->m, 0}, .n = {l->n, 0}, .k = {0, MOST}, .alpha = 1, .beta = 1, .threads = 3, .a_major = l->ta, .b_major = l->tb, .c_major = l->tc, .epilogue = "max(acc, 0) + bias", .arg = {{"bias", 0, TG_PER_COLUMN}}};
  tg_gemm *g = NULL;
  CHECK(tg_gemm_plan(ctx, &d, &g) == TG_OK, "%s", tg_error_message(ctx));
  const tg_exec execs[] = {{1, in_order, NULL}, {2, in_order, NULL}, {3, in_reverse, NULL}};
  for (size_t t = 0; g && t < sizeof terms / sizeof *terms; t++)
    for (int random = 0; random < 2; random++)
      for (size_t e = 0; e < 4; e++) {   /* the last on the pool */
        for (size_t i = 0; !e && i < (size_t)l->m * MOST; i++) a[i] = random ? (float)(next(&seed) >> 8) * 0x1p-20f - 8 : (float)((int)(next(&seed) >> 20 & 7) - 3);
        for (size_t i = 0; !e && i < (size_t)l->n * MOST; i++) b[i] = random ? (float)(next(&seed) >> 8) * 0x1p-20f - 8 : (float)((int)(next(&seed) >> 20 & 7) - 3);
        for (int j = 0; j < l->n; j++) bias[j] = (float)j;
        for (size_t i = 0; i < mn; i++) c[i] = 1;
        tg_gemm_call call = {.k = terms[t], .a = a, .b = b, .c = c, .alpha = &alpha, .beta = &beta, .arg = {bias}};
        run(ctx, g, &call, e < 3 ? &execs[e] : NULL);
        if (!random) CHECK(holds(l, terms[t], a, b, c, bias), "%dx%dx%lld %d%d%d", l->m, l->n, (long long)terms[t], l->ta, l->tb, l->tc);
        if (!e) memcpy(first, c, mn * sizeof *c);
        CHECK(!memcmp(first, c, mn * sizeof *c), "%dx%dx%lld %d%d%d: other bits, way %d", l->m, l->n, (long long)terms[t], l->ta, l->tb, l->tc, (int)e);
      }
  tg_gemm_free(g);
  free(a), free(b), free(c), free(first), free(bias);
}

int main(void) {
  tg_context *ctx = NULL;
  CHECK(tg_context_create(&(tg_context_options){.target = test_target(), .threads = 3}, &ctx) == TG_OK, "a context");
  for (int majors = 0; majors < 8; majors++) one(ctx, &(layout){majors & 1 ? 9 : 19, majors & 2 ? 17 : 35, majors & 1, majors & 2, majors & 4});
  tg_context_free(ctx);
  return TEST_END();
}
