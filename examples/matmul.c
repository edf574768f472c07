/* SPDX-License-Identifier: MIT
 * The smallest whole program: three lines of algebra, compiled for this machine and run on all of its cores. */
#include <stdio.h>
#include <tg/dsl.h>

TG_KERNEL(matmul, M, N, K) {
  tg_in(A, f32, [M, K]);
  tg_in(B, f32, [K, N]);
  tg_out(C, f32, [M, N]);
  tg_range(i, M) tg_range(j, N)
    tg(C[i,j] = sum(k : K, A[i,k] * B[k,j]));
}

enum { M = 64, N = 48, K = 80 };
static float A[M][K], B[K][N], C[M][N];

int main(void) {
  for (int i = 0; i < M; i++)
    for (int k = 0; k < K; k++) A[i][k] = (float)((i + 2 * k) % 7 - 3);
  for (int k = 0; k < K; k++)
    for (int j = 0; j < N; j++) B[k][j] = (float)((3 * k + j) % 5 - 2);

  tg_context *ctx;
  if (tg_context_create(NULL, &ctx)) return 1;
  tg_binding sizes[] = {{"M", M, M, 1}, {"N", N, N, 1}, {"K", K, K, 1}};
  tg_compile_options options = {.bindings = sizes, .bindings_n = 3};
  tg_kernel *kernel;
  if (tg_kernel_compile(ctx, &matmul, &options, &kernel)) {
    fprintf(stderr, "%s\n", tg_error_message(ctx));
    return 1;
  }
  tg_argument args[] = {{A, sizeof A}, {B, sizeof B}, {C, sizeof C}};
  tg_launch launch = {.buffers = args, .buffers_n = 3, .threads = -1};
  if (tg_kernel_run(kernel, &launch)) {
    fprintf(stderr, "%s\n", tg_error_message(ctx));
    return 1;
  }

  int wrong = 0;
  for (int i = 0; i < M; i++)
    for (int j = 0; j < N; j++) {
      float want = 0;
      for (int k = 0; k < K; k++) want += A[i][k] * B[k][j];
      wrong += C[i][j] != want; /* small integers: exact in any order */
    }
  printf("matmul %dx%dx%d: %d wrong\n", M, N, K, wrong);
  tg_kernel_free(kernel);
  tg_context_free(ctx);
  return wrong != 0;
}
