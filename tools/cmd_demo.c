/* SPDX-License-Identifier: MIT
 * tg demo: the main job from end to end. Three kernels authored in C are compiled and checked against plain C, one is
 * shown going through the stages, and a table sets them beside what this machine can do. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "bench/bench.h"
#include "bench/kernels.inc.h"

static const char usage[] = "tg demo [--seconds N]\n\nAuthors matmul, softmax and attention, checks them against plain "
                            "C, shows the stages, and measures.\n";

static float *random_floats(size_t n, uint32_t seed) {
  float *x = tool_pages(n * sizeof *x);
  for (size_t i = 0; i < n; i++) {
    seed = seed * 1664525u + 1013904223u;
    x[i] = (float)(int32_t)seed / 2147483648.0f;
  }
  return x;
}

/* ---- the references: plain C, in double ---- */

static void c_matmul(const int64_t *s, float **in, float *out) {
  for (int64_t i = 0; i < s[0]; i++)
    for (int64_t j = 0; j < s[1]; j++) {
      double sum = 0;
      for (int64_t k = 0; k < s[2]; k++) sum += (double)in[0][i * s[2] + k] * (double)in[1][k * s[1] + j];
      out[i * s[1] + j] = (float)sum;
    }
}

static void softmax_row(const float *x, double *p, int64_t n) {
  double m = -INFINITY, sum = 0;
  for (int64_t j = 0; j < n; j++) m = fmax(m, (double)x[j]);
  for (int64_t j = 0; j < n; j++) sum += p[j] = exp((double)x[j] - m);
  for (int64_t j = 0; j < n; j++) p[j] /= sum;
}

static void c_softmax(const int64_t *s, float **in, float *out) {
  double *p = malloc(sizeof *p * (size_t)s[1]);
  for (int64_t i = 0; i < s[0]; i++) {
    softmax_row(in[0] + i * s[1], p, s[1]);
    for (int64_t j = 0; j < s[1]; j++) out[i * s[1] + j] = (float)p[j];
  }
  free(p);
}

static void c_attention(const int64_t *n, float **in, float *out) {
  int64_t H = n[0], T = n[1], D = n[2];
  float *s = malloc(sizeof *s * (size_t)T);
  double *p = malloc(sizeof *p * (size_t)T);
  for (int64_t h = 0; h < H; h++)
    for (int64_t i = 0; i < T; i++) {
      const float *q = in[0] + (h * T + i) * D;
      for (int64_t j = 0; j < T; j++) {
        double sum = 0;
        for (int64_t d = 0; d < D; d++) sum += (double)q[d] * (double)in[1][(h * T + j) * D + d];
        s[j] = (float)(sum / sqrt((double)D));
      }
      softmax_row(s, p, T);
      for (int64_t d = 0; d < D; d++) {
        double sum = 0;
        for (int64_t j = 0; j < T; j++) sum += p[j] * (double)in[2][(h * T + j) * D + d];
        out[(h * T + i) * D + d] = (float)sum;
      }
    }
  free(s), free(p);
}

typedef struct {
  const tg_kernel_def *def;
  const char *names[3];
  int64_t sizes[3];
  int n_sizes, inputs;
  size_t in[3], out;
  double flops, tolerance;
  void (*reference)(const int64_t *, float **, float *);
} demo_case;

static int check_case(tg_context *ctx, const demo_case *d) {
  tg_binding bind[3];
  for (int i = 0; i < d->n_sizes; i++) bind[i] = (tg_binding){d->names[i], d->sizes[i], d->sizes[i], 1};
  tg_compile_options o = {.bindings = bind, .bindings_n = (uint32_t)d->n_sizes};
  tg_kernel *k;
  double t = tool_now();
  if (tg_kernel_compile(ctx, d->def, &o, &k)) return fprintf(stderr, "%s\n", tg_error_message(ctx)), TOOL_WRONG;
  t = tool_now() - t;
  float *in[3] = {0}, *out = tool_pages(d->out * 4), *want = tool_pages(d->out * 4);
  tg_argument a[4];
  for (int i = 0; i < d->inputs; i++)
    a[i] = (tg_argument){in[i] = random_floats(d->in[i], 7 + (uint32_t)i), d->in[i] * 4};
  a[d->inputs] = (tg_argument){out, d->out * 4};
  tg_launch l = {.buffers = a, .buffers_n = (uint32_t)d->inputs + 1, .threads = 2};
  int r = TOOL_OK;
  if (tg_kernel_run(k, &l)) fprintf(stderr, "%s\n", tg_error_message(ctx)), r = TOOL_WRONG;
  tg_timing timing = {0};
  tg_kernel_time(k, &l, 0.3, &timing);
  d->reference(d->sizes, in, want);
  double worst = 0;
  for (size_t i = 0; i < d->out; i++) {
    double e = fabs((double)out[i] - (double)want[i]);
    if (!(e <= worst)) worst = e;
  }
  if (!(worst <= d->tolerance)) r = TOOL_WRONG;
  const tg_kernel_info *info = tg_kernel_describe(k);
  printf("  %-10s compiled in %6.2f ms   largest error %.2e, %s   %8.3f ms, %.1f GFLOP/s on two cores\n", info->name,
         t * 1e3, worst, r ? "WRONG" : "right", timing.median * 1e3, d->flops / timing.median * 1e-9);
  tg_kernel_free(k);
  for (int i = 0; i < d->inputs; i++) free(in[i]);
  free(out), free(want);
  return r;
}

static void show_stage(void *user, const char *stage, const char *text) {
  const char **wanted = user;
  for (; *wanted; wanted++)
    if (!strcmp(*wanted, stage)) printf("---- %s\n%s", stage, text);
}

int cmd_demo(int argc, char **argv) {
  tool_args a;
  if (!tool_parse(argc, argv, &a, usage)) return TOOL_USAGE;
  if (a.help) return fputs(usage, stdout), TOOL_OK;
  tg_context *ctx;
  if (tg_context_create(NULL, &ctx)) return fprintf(stderr, "tg: no context\n"), TOOL_BROKEN;
  const demo_case cases[] = {
      {&matmul,
       {"M", "N", "K"},
       {300, 211, 157},
       3,
       2,
       {300 * 157, 157 * 211},
       300 * 211,
       2.0 * 300 * 211 * 157,
       1e-4,
       c_matmul},
      {&softmax, {"R", "N"}, {257, 1000}, 2, 1, {257 * 1000}, 257 * 1000, 5.0 * 257 * 1000, 1e-6, c_softmax},
      {&attention,
       {"H", "T", "D"},
       {4, 256, 64},
       3,
       3,
       {4 * 256 * 64, 4 * 256 * 64, 4 * 256 * 64},
       4 * 256 * 64,
       4.0 * 4 * 256 * 256 * 64,
       1e-5,
       c_attention},
  };
  int r = TOOL_OK;
  puts("Kernels written in C, checked against plain C in double:\n");
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    int c = check_case(ctx, &cases[i]);
    r = c > r ? c : r;
  }
  puts("\nThe three-line matmul, 4 x 32 x 8, going through some of its stages (tg show prints all):\n");
  const char *stages[] = {"author", "schedule", "reduce", "expand", NULL};
  tg_compile_options o = {.bindings = (tg_binding[]){{"M", 4, 4, 1}, {"N", 32, 32, 1}, {"K", 8, 8, 1}},
                          .bindings_n = 3,
                          .opts = "split j 16 as jo jl; lane jl; upcast i"};
  if (tg_show(ctx, &matmul, &o, NULL, show_stage, stages))
    fprintf(stderr, "%s\n", tg_error_message(ctx)), r = TOOL_WRONG;
  puts("\nBeside this machine's limits, OpenBLAS and plain C (medians; contestants take turns):\n");
  if (a.seconds <= 0) a.seconds = 1;
  int b = bench_matmul(ctx, &a, 1024);
  r = b > r ? b : r;
  b = bench_streams(ctx, &a);
  r = b > r ? b : r;
  tg_context_free(ctx);
  return r;
}
