/* SPDX-License-Identifier: MIT
 * A matmul whose epilogue is text given at run time: the same kernel, another activation, fused. Run-time M: one
 * compiled kernel serves every number of rows. */
#include <math.h>
#include <stdio.h>
#include <tg/dsl.h>

TG_KERNEL(dense, M, N, K) {
  tg_in(x, f32, [M, K]);
  tg_in(w, f32, [K, N]);
  tg_in(bias, f32, [N]);
  tg_out(y, f32, [M, N]);
  tg_splice(activation, (const char *)tg_builder_user(tg_b_), "a");
  tg_range(i, M) tg_range(j, N)
    tg(y[i,j] = activation(sum(k : K, x[i,k] * w[k,j]) + bias[j]));
}

enum { N = 32, K = 24, MOST = 20 };
static float x[MOST][K], w[K][N], bias[N], y[MOST][N];

static double relu(double a) { return a > 0 ? a : 0; }
static double silu(double a) { return a / (1 + exp(-a)); }

static int try_one(tg_context *ctx, const char *text, double (*reference)(double)) {
  tg_binding sizes[] = {{"M", 1, MOST, 1}, {"N", N, N, 1}, {"K", K, K, 1}};
  tg_compile_options options = {.bindings = sizes, .bindings_n = 3, .user = (void *)text};
  tg_kernel *kernel;
  if (tg_kernel_compile(ctx, &dense, &options, &kernel)) return fprintf(stderr, "%s\n", tg_error_message(ctx)), 1;
  double worst = 0;
  for (int64_t rows = 1; rows <= MOST; rows += 6) {
    size_t r = (size_t)rows;
    tg_argument args[] = {{x, r * sizeof *x}, {w, sizeof w}, {bias, sizeof bias}, {y, r * sizeof *y}};
    tg_launch launch = {.buffers = args, .buffers_n = 4, .params = &rows, .params_n = 1};
    if (tg_kernel_run(kernel, &launch)) return fprintf(stderr, "%s\n", tg_error_message(ctx)), 1;
    for (size_t i = 0; i < r; i++)
      for (int j = 0; j < N; j++) {
        double a = bias[j];
        for (int k = 0; k < K; k++) a += (double)x[i][k] * (double)w[k][j];
        double e = fabs((double)y[i][j] - reference(a));
        worst = e > worst ? e : worst;
      }
  }
  tg_kernel_free(kernel);
  printf("%-24s largest error %.1e\n", text, worst);
  return !(worst < 1e-4);
}

int main(void) {
  for (int i = 0; i < MOST; i++)
    for (int k = 0; k < K; k++) x[i][k] = sinf((float)(i * K + k));
  for (int k = 0; k < K; k++)
    for (int j = 0; j < N; j++) w[k][j] = cosf((float)(k * N + j));
  for (int j = 0; j < N; j++) bias[j] = (float)j / N;
  tg_context *ctx;
  if (tg_context_create(NULL, &ctx)) return 1;
  int wrong = try_one(ctx, "max(a, 0.0f)", relu) + try_one(ctx, "a / (1 + exp(-a))", silu);
  tg_context_free(ctx);
  return wrong != 0;
}
