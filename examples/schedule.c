/* SPDX-License-Identifier: MIT
 * One algorithm, three schedules: as written, by hand, and what the heuristic chooses. The words change the loops and
 * never the result, so on exact data all three give the same bits; the times say what the words are worth. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tg/dsl.h>

TG_KERNEL(matmul, M, N, K) {
  tg_in(A, f32, [M, K]);
  tg_in(B, f32, [K, N]);
  tg_out(C, f32, [M, N]);
  tg_range(i, M) tg_range(j, N)
    tg(C[i,j] = sum(k : K, A[i,k] * B[k,j]));
}

/* Columns in vectors of 16, two of them and six rows side by side: twelve accumulators in registers. Neither 6 nor 32
 * divides the sizes: what is left over is gated. Order stands before upcast and lane, which say what the innermost loops become. */
static const char by_hand[] =
  "split j 32 as jo jr; split jr 16 as ju jl; split i 6 as io ii\n"
  "order jo io ii ju jl\n"
  "upcast ii; upcast ju; lane jl";

enum { M = 250, N = 330, K = 170 };
static float A[M][K], B[K][N], C[M][N], expected[M][N];

static const char *run(tg_context *ctx, const char *opts, uint32_t flags, double *seconds) {
  tg_binding sizes[] = {{"M", M, M, 1}, {"N", N, N, 1}, {"K", K, K, 1}};
  tg_compile_options options = {.bindings = sizes, .bindings_n = 3, .opts = opts, .flags = flags};
  tg_kernel *kernel;
  if (tg_kernel_compile(ctx, &matmul, &options, &kernel)) return tg_error_message(ctx);
  tg_argument args[] = {{A, sizeof A}, {B, sizeof B}, {C, sizeof C}};
  tg_launch launch = {.buffers = args, .buffers_n = 3};
  tg_timing t = {0};
  memset(C, 0xff, sizeof C);
  const char *error = tg_kernel_time(kernel, &launch, 0.05, &t) ? tg_error_message(ctx) : NULL;
  *seconds = t.median;
  tg_kernel_free(kernel);
  return error;
}

int main(void) {
  for (int i = 0; i < M; i++)
    for (int k = 0; k < K; k++) A[i][k] = (float)((i + 2 * k) % 7 - 3);
  for (int k = 0; k < K; k++)
    for (int j = 0; j < N; j++) B[k][j] = (float)((3 * k + j) % 5 - 2);
  for (int i = 0; i < M; i++)
    for (int k = 0; k < K; k++)
      for (int j = 0; j < N; j++) expected[i][j] += A[i][k] * B[k][j];

  tg_context *ctx;
  if (tg_context_create(NULL, &ctx)) return 1;
  const struct { const char *name, *opts; uint32_t flags; } schedules[] = {
    {"as written", NULL, TG_COMPILE_AS_WRITTEN}, {"by hand", by_hand, 0}, {"the heuristic's", NULL, 0}};
  int wrong = 0;
  for (int s = 0; s < 3; s++) {
    double seconds;
    const char *error = run(ctx, schedules[s].opts, schedules[s].flags, &seconds);
    if (error) return fprintf(stderr, "%s: %s\n", schedules[s].name, error), 1;
    int differs = memcmp(C, expected, sizeof C) != 0;   /* small integers: exact in any order */
    wrong += differs;
    printf("%-16s %8.1f us %7.2f GFLOP/s   %s\n", schedules[s].name, seconds * 1e6, 2e-9 * M * N * K / seconds, differs ? "WRONG" : "right");
  }

  /* A word that does not fit the program is refused, and says why. */
  double seconds;
  const char *refused = run(ctx, "stage C at i", 0, &seconds);
  printf("refused, as it must be: %s\n", refused ? refused : "(it was not)");
  tg_context_free(ctx);
  return wrong || !refused;
}
