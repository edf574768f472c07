/* SPDX-License-Identifier: MIT
 * tg bench kernels --case runtime: what it costs that sizes are known at launch only. Each kernel is compiled twice,
 * for the very
 * sizes and for ranges of sizes, and the two take turns on the same buffers: one core, CPU time of the thread, medians
 * of ratios of neighbours. */
#define _GNU_SOURCE
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "bench/bench.h"
#include "bench/kernels.inc.h"

enum { ROUNDS_MAX = 64, BUFFERS_MAX = 4, PARAMS_MAX = 3, LARGEST = 4096 };

TG_KERNEL(argmax_rows, R, N) {
  tg_in(x, f32, [R, N]);
  tg_out(y, i32, [R]);
  tg_range(i, R) tg(y[i] = i32(argmax(k : N, x[i,k])));
}

typedef struct {
  const char *name;
  const tg_kernel_def *def;
  const char *param[PARAMS_MAX];
  int64_t value[PARAMS_MAX], multiple, largest;
} runtime_case;

static double cpu_now(void) {
  struct timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static tg_kernel *compile(tg_context *ctx, const runtime_case *c, bool constants) {
  tg_binding b[PARAMS_MAX];
  tg_compile_options o = {.bindings = b};
  for (; o.bindings_n < PARAMS_MAX && c->param[o.bindings_n]; o.bindings_n++) {
    int64_t v = c->value[o.bindings_n];
    b[o.bindings_n] = constants ? (tg_binding){c->param[o.bindings_n], v, v, 1}
                                : (tg_binding){c->param[o.bindings_n], c->multiple, c->largest, c->multiple};
  }
  tg_kernel *k = NULL;
  if (tg_kernel_compile(ctx, c->def, &o, &k)) fprintf(stderr, "%s\n", tg_error_message(ctx));
  return k;
}

typedef struct {
  tg_kernel *constants, *runtime;
  tg_argument buffer[BUFFERS_MAX];
  tg_launch by_constants, by_params;
  int repeat;                      /* launches in one measurement */
} contest;

static bool open_contest(tg_context *ctx, const runtime_case *c, contest *k) {
  k->constants = compile(ctx, c, true);
  k->runtime = compile(ctx, c, false);
  if (!k->constants || !k->runtime) return false;
  const tg_kernel_info *info = tg_kernel_describe(k->constants);
  for (uint32_t b = 0; b < info->buffers_n; b++) {
    if (tg_kernel_bytes(k->constants, NULL, b, &k->buffer[b].bytes)) return false;
    k->buffer[b].data = tool_pages(k->buffer[b].bytes);
    uint32_t seed = 17 + b;
    for (size_t i = 0; info->buffers[b].read && i < k->buffer[b].bytes / 4; i++) {
      seed = seed * 1664525u + 1013904223u;
      ((float *)k->buffer[b].data)[i] = (float)((int32_t)(seed >> 16 & 7) - 3);
    }
  }
  k->by_constants = (tg_launch){.buffers = k->buffer, .buffers_n = info->buffers_n};
  k->by_params = k->by_constants;
  k->by_params.params = c->value;
  k->by_params.params_n = tg_kernel_describe(k->runtime)->params_n;
  return true;
}

static bool once(tg_context *ctx, tg_kernel *kernel, const tg_launch *l, int repeat, double *seconds) {
  double t = cpu_now();
  for (int i = 0; i < repeat; i++)
    if (tg_kernel_run(kernel, l)) return fprintf(stderr, "%s\n", tg_error_message(ctx)), false;
  *seconds = (cpu_now() - t) / repeat;
  return true;
}

/* Outputs only are compared: inputs stay, and what is updated in place is updated from the same values. */
static bool agree(tg_context *ctx, contest *k) {
  const tg_kernel_info *info = tg_kernel_describe(k->constants);
  void *before[BUFFERS_MAX] = {0}, *first[BUFFERS_MAX] = {0};
  double t;
  bool same = true;
  for (uint32_t b = 0; b < info->buffers_n; b++) {
    before[b] = tool_pages(k->buffer[b].bytes), first[b] = tool_pages(k->buffer[b].bytes);
    memcpy(before[b], k->buffer[b].data, k->buffer[b].bytes);
  }
  same &= once(ctx, k->constants, &k->by_constants, 1, &t);
  for (uint32_t b = 0; b < info->buffers_n; b++) {
    memcpy(first[b], k->buffer[b].data, k->buffer[b].bytes);
    if (info->buffers[b].read) memcpy(k->buffer[b].data, before[b], k->buffer[b].bytes);
    else memset(k->buffer[b].data, 0xff, k->buffer[b].bytes);
  }
  same &= once(ctx, k->runtime, &k->by_params, 1, &t);
  for (uint32_t b = 0; b < info->buffers_n; b++) {
    const float *x = k->buffer[b].data, *y = first[b];
    if (info->buffers[b].type != TG_F32) same &= !memcmp(x, y, k->buffer[b].bytes);
    else
      for (size_t i = 0; i < k->buffer[b].bytes / 4 && same; i++)
        same = fabsf(x[i] - y[i]) <= 1e-5f * (1 + fabsf(y[i]));
    free(before[b]), free(first[b]);
  }
  k->repeat = t > 0 && t < 5e-3 ? (int)(5e-3 / t) + 1 : 1;
  return same;
}

static int contest_run(tg_context *ctx, const tool_args *args, const runtime_case *c) {
  contest k = {0};
  int result = TOOL_WRONG;
  if (!open_contest(ctx, c, &k)) goto done;
  if (!agree(ctx, &k)) {
    fprintf(stderr, "tg: %s: the two kernels differ\n", c->name);
    goto done;
  }
  double ratio[ROUNDS_MAX], time[ROUNDS_MAX], a, b, a2, end = tool_now() + (args->seconds > 0 ? args->seconds : 1.5);
  int rounds = 0;
  for (; rounds < ROUNDS_MAX && (rounds < 7 || tool_now() < end); rounds++) {
    if (!once(ctx, k.constants, &k.by_constants, k.repeat, &a) || !once(ctx, k.runtime, &k.by_params, k.repeat, &b) ||
        !once(ctx, k.constants, &k.by_constants, k.repeat, &a2)) goto done;
    ratio[rounds] = (a + a2) / 2 / b;
    time[rounds] = b;
  }
  tool_figure(args->json, "kernels", c->name, "sizes at launch", tool_median(time, rounds) * 1e6, "us", NULL);
  tool_figure(args->json, "kernels", c->name, "sizes at launch", tool_median(ratio, rounds), "ratio", "constants");
  result = TOOL_OK;
done:
  for (int i = 0; i < BUFFERS_MAX; i++) free(k.buffer[i].data);
  if (k.constants) tg_kernel_free(k.constants);
  if (k.runtime) tg_kernel_free(k.runtime);
  return result;
}

int bench_runtime(tg_context *ctx, const tool_args *args) {
  const runtime_case cases[] = {
    {"matmul_runtime 1024^3", &matmul, {"M", "N", "K"}, {1024, 1024, 1024}, 1, LARGEST},
    {"matmul_runtime 1000x1013x1021", &matmul, {"M", "N", "K"}, {1000, 1013, 1021}, 1, LARGEST},
    {"matmul_runtime 512^3", &matmul, {"M", "N", "K"}, {512, 512, 512}, 1, LARGEST},
    {"matmul_runtime 1024^3, multiples of 16", &matmul, {"M", "N", "K"}, {1024, 1024, 1024}, 16, LARGEST},
    {"matmul_runtime 1024^3, no bound", &matmul, {"M", "N", "K"}, {1024, 1024, 1024}, 1, INT32_MAX},
    {"axpy runtime", &axpy, {"N"}, {100003}, 1, 1 << 30},
    {"sum runtime", &total, {"N"}, {100003}, 1, 1 << 30},
    {"softmax runtime, 64 rows of 1003", &softmax, {"R", "N"}, {64, 1003}, 1, LARGEST},
    {"layernorm runtime, 64 rows of 1003", &layernorm, {"R", "N"}, {64, 1003}, 1, LARGEST},
    {"argmax runtime, 64 rows of 1003", &argmax_rows, {"R", "N"}, {64, 1003}, 1, LARGEST},
  };
  int worst = TOOL_OK;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    if (args->cases && !strstr(cases[i].name, args->cases)) continue;
    int r = contest_run(ctx, args, &cases[i]);
    worst = r > worst ? r : worst;
  }
  return worst;
}
