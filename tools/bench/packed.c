/* SPDX-License-Identifier: MIT
 * tg bench kernels: the packed matrix product as a schedule, and its innermost tile alone, against the FMA peak and
 * OpenBLAS on one core.
 * Each figure is the median of ratios between neighbours: a burst of FMAs, the kernel, and a burst again. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "bench/bench.h"
#include "bench/machine.h"
#include "bench/packed.inc.h"

enum { ROUNDS_MAX = 1000 };

typedef void (*sgemm_fn)(int, int, int, int, int, int, float, const float *, int, const float *, int, float, float *,
                         int);

static void fill(float *x, size_t n, uint32_t seed) {
  for (size_t i = 0; i < n; i++) {
    seed = seed * 1664525u + 1013904223u;
    x[i] = (float)((int32_t)(seed >> 16 & 7) - 3);
  }
}

static tg_kernel *compile(tg_context *ctx, const tg_kernel_def *def, uint32_t n, const tg_binding *b) {
  tg_kernel *k = NULL;
  tg_compile_options o = {.bindings = b, .bindings_n = n};
  if (tg_kernel_compile(ctx, def, &o, &k)) fprintf(stderr, "%s\n", tg_error_message(ctx));
  return k;
}

/* Of this thread's own: on a machine with other work a run of 0.1 s is interrupted, a burst of FMAs is not. */
static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static double seconds_of(tg_context *ctx, tg_kernel *k, const tg_argument *buffers, uint32_t times) {
  tg_launch l = {.buffers = buffers, .buffers_n = 3, .threads = 1};
  double t = now();
  for (uint32_t i = 0; i < times; i++)
    if (tg_kernel_run(k, &l)) {
      fprintf(stderr, "%s\n", tg_error_message(ctx));
      return 0;
    }
  return now() - t;
}

/* Small integers: every sum is exact, so any order of summation gives the same. Rows of a few columns are checked in
 * full. */
static bool product_is_right(const float *a, const float *b, const float *c, int m, int n, int k) {
  for (int i = 0; i < m; i += 1 + m / 97)
    for (int j = 0; j < n; j += 1 + n / 89) {
      float want = 0;
      for (int t = 0; t < k; t++) want += a[(size_t)i * (size_t)k + (size_t)t] * b[(size_t)t * (size_t)n + (size_t)j];
      if (c[(size_t)i * (size_t)n + (size_t)j] != want) return false;
    }
  return true;
}

typedef struct { double peak[ROUNDS_MAX], rate[ROUNDS_MAX], of_peak[ROUNDS_MAX], of_blas[ROUNDS_MAX]; int n; } figures;

static void report(const tool_args *args, const char *name, figures *f, bool blas) {
  tool_figure(args->json, "kernels", name, "FMA peak, one core", tool_median(f->peak, f->n), "GFLOP/s", NULL);
  tool_figure(args->json, "kernels", name, "one core", tool_median(f->rate, f->n), "GFLOP/s", NULL);
  tool_figure(args->json, "kernels", name, "one core", tool_median(f->of_peak, f->n), "ratio", "FMA peak");
  if (blas) tool_figure(args->json, "kernels", name, "one core", tool_median(f->of_blas, f->n), "ratio", "OpenBLAS");
}

static void note(figures *f, double peak, double flops, double seconds, double peer) {
  f->peak[f->n] = peak * 1e-9;
  f->rate[f->n] = flops / seconds * 1e-9;
  f->of_peak[f->n] = flops / seconds / peak;
  f->of_blas[f->n++] = peer / seconds;
}

static double larger(double a, double b) { return a > b ? a : b; }

int bench_sgemm_packed(tg_context *ctx, const tool_args *args, int m, int n, int k) {
  char name[64];
  snprintf(name, sizeof name, "sgemm_packed %dx%dx%d", m, n, k);
  size_t mk = (size_t)m * (size_t)k, kn = (size_t)k * (size_t)n, mn = (size_t)m * (size_t)n;
  float *a = tool_pages(mk * 4), *b = tool_pages(kn * 4), *c = tool_pages(mn * 4);
  fill(a, mk, 1), fill(b, kn, 2), memset(c, 0xff, mn * 4);
  tg_binding bind[] = {{"M", m, m, 1}, {"N", n, n, 1}, {"K", k, k, 1}};
  tg_argument buffers[] = {{a, mk * 4}, {b, kn * 4}, {c, mn * 4}};
  tg_kernel *kernel = compile(ctx, &sgemm_packed, 3, bind);
  if (!kernel || !(seconds_of(ctx, kernel, buffers, 1) > 0)) return TOOL_WRONG;
  if (!product_is_right(a, b, c, m, n, k)) {
    fprintf(stderr, "tg: %s: wrong result\n", name);
    return TOOL_WRONG;
  }
  void *h = dlopen("libopenblas.so.0", RTLD_NOW | RTLD_LOCAL);
  sgemm_fn sgemm = NULL;
  void (*threads)(int) = NULL;
  if (h) *(void **)&sgemm = dlsym(h, "cblas_sgemm"), *(void **)&threads = dlsym(h, "openblas_set_num_threads");
  if (threads) threads(1);
  figures *f = calloc(1, sizeof *f);
  double end = tool_now() + (args->seconds > 0 ? args->seconds : 4), flops = 2.0 * m * n * (double)k;
  while (f->n < ROUNDS_MAX && (f->n < 7 || tool_now() < end)) {
    double peak = bench_fma_peak(0.02), s = seconds_of(ctx, kernel, buffers, 1), t = 0;
    peak = larger(peak, bench_fma_peak(0.02));
    if (sgemm) {
      t = now();
      sgemm(101, 111, 111, m, n, k, 1, a, k, b, n, 0, c, n);
      t = now() - t;
    }
    note(f, peak, flops, s, t);
  }
  report(args, name, f, sgemm != NULL);
  tg_kernel_free(kernel);
  free(f), free(a), free(b), free(c);
  return TOOL_OK;
}

/* K = 384: the panel of A is 21 KiB and stays in the first cache, the 16 panels of B are 768 KiB and stay in the
 * second. */
int bench_microkernel(tg_context *ctx, const tool_args *args) {
  enum { P = 16, K = 384, ROWS = 14, COLUMNS = 32 };
  float *a = tool_pages(sizeof *a * K * ROWS), *b = tool_pages(sizeof *b * P * K * COLUMNS),
        *c = tool_pages(sizeof *c * P * ROWS * COLUMNS);
  fill(a, K * ROWS, 1), fill(b, P * K * COLUMNS, 2);
  tg_binding bind[] = {{"P", P, P, 1}, {"K", K, K, 1}};
  tg_argument buffers[] = {
      {a, sizeof *a * K * ROWS}, {b, sizeof *b * P * K * COLUMNS}, {c, sizeof *c * P * ROWS * COLUMNS}};
  tg_kernel *kernel = compile(ctx, &microkernel, 2, bind);
  if (!kernel || !(seconds_of(ctx, kernel, buffers, 1) > 0)) return TOOL_WRONG;
  for (int p = 0; p < P; p++)
    for (int i = 0; i < ROWS; i++)
      for (int j = 0; j < COLUMNS; j++) {
        float want = 0;
        for (int t = 0; t < K; t++) want += a[t * ROWS + i] * b[(p * K + t) * COLUMNS + j];
        if (c[(p * ROWS + i) * COLUMNS + j] == want) continue;
        fprintf(stderr, "tg: microkernel: wrong result\n");
        return TOOL_WRONG;
      }
  figures *f = calloc(1, sizeof *f);
  double end = tool_now() + (args->seconds > 0 ? args->seconds : 2);
  while (f->n < ROUNDS_MAX && (f->n < 7 || tool_now() < end)) {
    double peak = bench_fma_peak(0.001), s = seconds_of(ctx, kernel, buffers, 40);
    peak = larger(peak, bench_fma_peak(0.001));
    note(f, peak, 40 * 2.0 * P * K * ROWS * COLUMNS, s, 0);
  }
  report(args, "microkernel 14x32, K = 384", f, false);
  tg_kernel_free(kernel);
  free(f), free(a), free(b), free(c);
  return TOOL_OK;
}
