/* SPDX-License-Identifier: MIT
 * tg bench kernels: matmul against the FMA peak and OpenBLAS, streaming kernels against plain C loops on the same
 * buffers. Every figure of a case comes from one run: contestants take turns, ratios are of neighbours, medians count.
 * Each result is checked against plain C before it is timed. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "bench/bench.h"
#include "bench/kernels.inc.h"
#include "bench/machine.h"

enum { ROUNDS_MAX = 64 };

static void fill(float *x, size_t n, uint32_t seed) {
  for (size_t i = 0; i < n; i++) {
    seed = seed * 1664525u + 1013904223u;
    x[i] = (float)((int32_t)(seed >> 16 & 255) - 128) / 64.0f;
  }
}

static tg_kernel *compile(tg_context *ctx, const tg_kernel_def *def, uint32_t n, const tg_binding *b) {
  tg_kernel *k = NULL;
  tg_compile_options o = {.bindings = b, .bindings_n = n};
  if (tg_kernel_compile(ctx, def, &o, &k)) fprintf(stderr, "%s\n", tg_error_message(ctx));
  return k;
}

static bool launch(tg_context *ctx, tg_kernel *k, const tg_argument *a, uint32_t n, int threads) {
  tg_launch l = {.buffers = a, .buffers_n = n, .threads = threads};
  if (!tg_kernel_run(k, &l)) return true;
  fprintf(stderr, "%s\n", tg_error_message(ctx));
  return false;
}

/* ---- matmul ---- */

typedef void (*sgemm_fn)(int, int, int, int, int, int, float, const float *, int, const float *, int, float, float *,
                         int);

typedef struct { sgemm_fn sgemm; void (*threads)(int); } blas;

static blas blas_open(void) {
  void *h = dlopen("libopenblas.so.0", RTLD_NOW | RTLD_LOCAL);
  blas b = {0};
  if (!h) return b;
  *(void **)&b.sgemm = dlsym(h, "cblas_sgemm");
  *(void **)&b.threads = dlsym(h, "openblas_set_num_threads");
  return b;
}

static double one_sgemm(const blas *b, int threads, int n, const float *x, const float *y, float *z) {
  if (b->threads) b->threads(threads);
  double t = tool_now();
  b->sgemm(101, 111, 111, n, n, n, 1, x, n, y, n, 0, z, n);
  return tool_now() - t;
}

static double one_launch(tg_context *ctx, tg_kernel *k, const tg_argument *buffers, int threads) {
  double t = tool_now();
  launch(ctx, k, buffers, 3, threads);
  return tool_now() - t;
}

/* Freivalds: C r = A (B r) within rounding, for a vector of small integers. */
static bool product_is_right(int n, const float *a, const float *b, const float *c) {
  double *r = malloc(sizeof *r * 2 * (size_t)n), *br = r + n, worst = 0;
  for (int i = 0; i < n; i++) r[i] = (i * 7 + 3) % 5 - 2;
  for (int k = 0; k < n; k++) {
    br[k] = 0;
    for (int j = 0; j < n; j++) br[k] += (double)b[(size_t)k * (size_t)n + (size_t)j] * r[j];
  }
  for (int i = 0; i < n; i++) {
    double want = 0, got = 0, size = 0;
    for (int k = 0; k < n; k++) {
      double t = (double)a[(size_t)i * (size_t)n + (size_t)k] * br[k];
      want += t;
      size += fabs(t);
    }
    for (int j = 0; j < n; j++) got += (double)c[(size_t)i * (size_t)n + (size_t)j] * r[j];
    double e = fabs(got - want) / (size + 1e-30);
    worst = e > worst ? e : worst;
  }
  free(r);
  return worst < 1e-5;
}

int bench_matmul(tg_context *ctx, const tool_args *args, int n) {
  char name[32];
  snprintf(name, sizeof name, "matmul %d^3 f32", n);
  size_t bytes = sizeof(float) * (size_t)n * (size_t)n;
  float *a = tool_pages(bytes), *b = tool_pages(bytes), *c = tool_pages(bytes), *d = tool_pages(bytes);
  fill(a, (size_t)n * (size_t)n, 1), fill(b, (size_t)n * (size_t)n, 2);
  tg_binding bind[] = {{"M", n, n, 1}, {"N", n, n, 1}, {"K", n, n, 1}};
  tg_kernel *k = compile(ctx, &matmul, 3, bind);
  tg_argument buffers[] = {{a, bytes}, {b, bytes}, {c, bytes}};
  memset(c, 0xff, bytes);
  if (!k || !launch(ctx, k, buffers, 3, 1)) return TOOL_WRONG;
  if (!product_is_right(n, a, b, c)) {
    fprintf(stderr, "tg: %s: wrong result\n", name);
    return TOOL_WRONG;
  }
  blas ob = blas_open();
  double flops = 2.0 * n * n * (double)n, peak[ROUNDS_MAX], single[ROUNDS_MAX], two[ROUNDS_MAX], vs[ROUNDS_MAX],
         vs2[ROUNDS_MAX], of_peak[ROUNDS_MAX], scaling[ROUNDS_MAX], open1[ROUNDS_MAX];
  double budget = args->seconds > 0 ? args->seconds : 4, end = tool_now() + budget;
  int rounds = 0;
  for (; rounds < ROUNDS_MAX && (rounds < 7 || tool_now() < end); rounds++) {
    int i = rounds;
    peak[i] = bench_fma_peak(0.02);
    double s1 = one_launch(ctx, k, buffers, 1), s2, b1 = 0, b2 = 0;
    launch(ctx, k, buffers, 3, 2); /* the pool wakes outside of the clock, as the peer's does below */
    s2 = one_launch(ctx, k, buffers, 2);
    if (ob.sgemm) {
      b1 = one_sgemm(&ob, 1, n, a, b, d);
      one_sgemm(&ob, 2, n, a, b, d);
      b2 = one_sgemm(&ob, 2, n, a, b, d);
      /* its threads spin for a while: not into the next round */
      nanosleep(&(struct timespec){.tv_nsec = 60000000}, NULL);
    }
    double peak_after = bench_fma_peak(0.02);
    if (peak_after > peak[i]) peak[i] = peak_after;
    single[i] = flops / s1 * 1e-9, two[i] = flops / s2 * 1e-9, of_peak[i] = flops / s1 / peak[i], scaling[i] = s1 / s2;
    if (ob.sgemm) vs[i] = b1 / s1, vs2[i] = b2 / s2, open1[i] = flops / b1 * 1e-9;
    peak[i] *= 1e-9;
  }
  bool j = args->json;
  tool_figure(j, "kernels", name, "FMA peak, one core", tool_median(peak, rounds), "GFLOP/s", NULL);
  tool_figure(j, "kernels", name, "one core", tool_median(single, rounds), "GFLOP/s", NULL);
  tool_figure(j, "kernels", name, "one core", tool_median(of_peak, rounds), "ratio", "FMA peak");
  tool_figure(j, "kernels", name, "two cores", tool_median(two, rounds), "GFLOP/s", NULL);
  tool_figure(j, "kernels", name, "two cores", tool_median(scaling, rounds), "ratio", "one core");
  if (ob.sgemm) {
    tool_figure(j, "kernels", name, "OpenBLAS, one core", tool_median(open1, rounds), "GFLOP/s", NULL);
    tool_figure(j, "kernels", name, "one core", tool_median(vs, rounds), "ratio", "OpenBLAS");
    tool_figure(j, "kernels", name, "two cores", tool_median(vs2, rounds), "ratio", "OpenBLAS, two cores");
  }
  tg_kernel_free(k);
  free(a), free(b), free(c), free(d);
  return TOOL_OK;
}

/* ---- streams ---- */

typedef struct {
  const char *name;
  const tg_kernel_def *def;
  int streams;                                    /* of memory read or written, for GB/s */
  void (*c)(const bench_arrays *, size_t, size_t, int);
} stream_case;

static void c_sum(const bench_arrays *v, size_t from, size_t to, int streaming) {
  (void)streaming;
  v->y[from ? 16 : 0] = bench_c_sum(v, from, to);
}

typedef struct { const stream_case *k; const bench_arrays *v; size_t from, to; int streaming; } slice;

static void *slice_run(void *p) {
  slice *s = p;
  s->k->c(s->v, s->from, s->to, s->streaming);
  return NULL;
}

static double c_time(const stream_case *k, const bench_arrays *v, int threads, int streaming) {
  size_t rows = v->n / v->row, half = rows / 2 * v->row;
  slice s[2] = {{k, v, 0, threads == 2 ? half : v->n, streaming}, {k, v, half, v->n, streaming}};
  double t = tool_now();
  pthread_t other;
  if (threads == 2) pthread_create(&other, NULL, slice_run, &s[1]);
  slice_run(&s[0]);
  if (threads == 2) pthread_join(other, NULL);
  return tool_now() - t;
}

/* Within tolerance of the largest value: sums that cancel have no relative accuracy of their own. */
static bool close_enough(const float *got, const float *want, size_t n, double tolerance) {
  double scale = 0;
  for (size_t i = 0; i < n; i++) scale = fmax(scale, fabs((double)want[i]));
  for (size_t i = 0; i < n; i++)
    if (!(fabs((double)got[i] - (double)want[i]) <= tolerance * scale)) return false;
  return true;
}

static int stream_run(tg_context *ctx, const tool_args *args, const stream_case *s, size_t n, size_t row) {
  size_t bytes = n * sizeof(float);
  float *x = tool_pages(bytes), *y = tool_pages(bytes), *z = tool_pages(bytes), *w = tool_pages(row * 4),
        *b = tool_pages(row * 4), scale = 1e-6f;
  fill(x, n, 3), fill(w, row, 5), fill(b, row, 6);
  tg_binding flat[] = {{"N", (int64_t)n, (int64_t)n, 1}},
             rows[] = {{"R", (int64_t)(n / row), (int64_t)(n / row), 1}, {"N", (int64_t)row, (int64_t)row, 1}};
  bool by_row = s->def == &softmax || s->def == &layernorm;
  tg_kernel *k = compile(ctx, s->def, by_row ? 2 : 1, by_row ? rows : flat);
  if (!k) return TOOL_WRONG;
  tg_argument a[4] = {{x, bytes}, {y, bytes}};
  uint32_t na = 2;
  if (s->def == &axpy)
    a[0] = (tg_argument){&scale, 4}, a[1] = (tg_argument){x, bytes}, a[2] = (tg_argument){y, bytes}, na = 3;
  if (s->def == &total) a[1].bytes = 4;
  if (s->def == &layernorm)
    a[1] = (tg_argument){w, row * 4}, a[2] = (tg_argument){b, row * 4}, a[3] = (tg_argument){y, bytes}, na = 4;
  bench_arrays v = {.x = x, .w = w, .b = b, .y = z, .n = n, .row = row, .a = scale};
  if (!launch(ctx, k, a, na, 1)) return TOOL_WRONG;
  s->c(&v, 0, n, 0);
  double tolerance = s->def == &total ? 1e-3 : 1e-5;
  if (!close_enough(y, z, s->def == &total ? 1 : n, tolerance)) {
    fprintf(stderr, "tg: %s: wrong result (%g, plain C %g)\n", s->name, (double)y[0], (double)z[0]);
    return TOOL_WRONG;
  }
  v.y = y; /* the very same streams for both */
  for (int threads = 1; threads <= 2; threads++) {
    double ratio[ROUNDS_MAX], rate[ROUNDS_MAX], best_c[ROUNDS_MAX],
        end = tool_now() + (args->seconds > 0 ? args->seconds : 3);
    int rounds = 0;
    for (; rounds < ROUNDS_MAX && (rounds < 7 || tool_now() < end); rounds++) {
      double c0 = c_time(s, &v, threads, 0), c1 = c_time(s, &v, threads, 1), t = tool_now();
      if (!launch(ctx, k, a, na, threads)) return TOOL_WRONG;
      t = tool_now() - t;
      double c = c0 < c1 ? c0 : c1;
      ratio[rounds] = c / t;
      rate[rounds] = s->streams * (double)bytes / t * 1e-9;
      best_c[rounds] = s->streams * (double)bytes / c * 1e-9;
    }
    const char *cores = threads == 1 ? "one core" : "two cores";
    char c_name[48];
    snprintf(c_name, sizeof c_name, "plain C, %s", cores);
    tool_figure(args->json, "kernels", s->name, c_name, tool_median(best_c, rounds), "GB/s", NULL);
    tool_figure(args->json, "kernels", s->name, cores, tool_median(rate, rounds), "GB/s", NULL);
    tool_figure(args->json, "kernels", s->name, cores, tool_median(ratio, rounds), "ratio", "plain C");
  }
  tg_kernel_free(k);
  free(x), free(y), free(z), free(w), free(b);
  return TOOL_OK;
}

int bench_streams(tg_context *ctx, const tool_args *args) {
  const stream_case cases[] = {
      {"copy", &copy, 2, bench_c_copy},
      {"axpy", &axpy, 3, bench_c_axpy},
      {"sum", &total, 1, c_sum},
      {"softmax, rows of 4096", &softmax, 2, bench_c_softmax},
      {"layernorm, rows of 4096", &layernorm, 2, bench_c_layernorm},
  };
  int worst = TOOL_OK;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    if (args->cases && !strstr(cases[i].name, args->cases)) continue;
    int r = stream_run(ctx, args, &cases[i], (size_t)64 << 20, 4096);
    worst = r > worst ? r : worst;
  }
  return worst;
}

/* ---- launches ---- */

int bench_launch(tg_context *ctx, const tool_args *args) {
  static float x[64], y[64];
  tg_binding bind[] = {{"N", 1, 1, 1}};
  tg_kernel *k = compile(ctx, &one, 1, bind);
  if (!k) return TOOL_WRONG;
  tg_argument a[2] = {{x, 4}, {y, 4}};
  tg_launch l = {.buffers = a, .buffers_n = 2, .threads = 1};
  double samples[ROUNDS_MAX];
  for (int r = 0; r < ROUNDS_MAX; r++) {
    double t = tool_now();
    for (int i = 0; i < 1000; i++) tg_kernel_run(k, &l);
    samples[r] = (tool_now() - t) / 1000;
  }
  tool_figure(args->json, "launch", "1 element", "caller's thread", tool_median(samples, ROUNDS_MAX) * 1e6, "us", NULL);
  tg_kernel_free(k);
  /* two tasks for two threads: the pool must wake, take a task and meet the caller again */
  tg_compile_options o = {.bindings = (tg_binding[]){{"N", 2, 2, 1}}, .bindings_n = 1, .opts = "thread i"};
  if (tg_kernel_compile(ctx, &one, &o, &k)) return fprintf(stderr, "%s\n", tg_error_message(ctx)), TOOL_WRONG;
  a[0].bytes = a[1].bytes = 8;
  l.threads = 2;
  enum { N = 4000 };
  static double each[N];
  for (int i = 0; i < N; i++) {
    double t = tool_now();
    tg_kernel_run(k, &l);
    each[i] = tool_now() - t;
  }
  tool_figure(args->json, "launch", "2 elements", "two threads", tool_median(each, N) * 1e6, "us", NULL);
  tg_kernel_free(k);
  return TOOL_OK;
}
