/* SPDX-License-Identifier: MIT
 * The kernel that both programs of this foreign project share, and running it. */
#ifndef SCALE_H
#define SCALE_H
#include <stdio.h>
#include <tg/dsl.h>

TG_KERNEL(scale, N) {
  tg_in(x, f32, [N]);
  tg_out(y, f32, [N]);
  tg_range(i, N) tg(y[i] = 2 * x[i] + 1);
}

/* 0 if the kernel comes from where it should and gives what it should. */
static int run_scale(tg_context *context, int from_cache) {
  enum { N = 37 };
  float x[N], y[N];
  tg_binding size = {"N", 1, 1000, 1};
  tg_compile_options options = {&size, 1, NULL, NULL, 0, NULL};
  tg_kernel *kernel;
  if (tg_kernel_compile(context, &scale, &options, &kernel)) {
    fprintf(stderr, "%s\n", tg_error_message(context));
    return 1;
  }
  for (int i = 0; i < N; i++) x[i] = (float)i;
  int64_t n = N;
  tg_argument buffers[] = {{x, sizeof x}, {y, sizeof y}};
  tg_launch launch = {buffers, 2, &n, 1, 0, NULL, NULL};
  int wrong = tg_kernel_run(kernel, &launch) != TG_OK;
  for (int i = 0; i < N && !wrong; i++) wrong = y[i] != 2 * x[i] + 1;
  if (!tg_kernel_describe(kernel)->from_cache != !from_cache) {
    fprintf(stderr, "the kernel was %s\n", from_cache ? "compiled" : "in the cache");
    wrong = 1;
  }
  tg_kernel_free(kernel);
  return wrong;
}
#endif
