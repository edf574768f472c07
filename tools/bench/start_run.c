/* SPDX-License-Identifier: MIT
 * A program that multiplies once and ends: what tg bench start starts. Built four times: with libtg.a alone, with
 * libtg_jit.so.0 (LLVM is loaded by a compile), with libtg_jit.a (it is loaded with the program), and without tg, which
 * says what a process costs by itself.
 *   start CASE CACHE [TUNED]       kernels come from the folder CACHE, choices from TUNED; a start_report leaves on
 *                                  standard output */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include "bench/start.h"
#ifndef START_BARE
#include <tg/gemm.h>
#endif

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static float *filled(long n, float v) {
  float *x = malloc((size_t)n * sizeof *x);
  for (long i = 0; x && i < n; i++) x[i] = v;
  return x;
}

int main(int argc, char **argv) {
  start_report r = {.main = now()};
  if (argc < 3) return 2;
  const start_case *s = &start_cases[atoi(argv[1])];
  long m = s->rows ? 1 : s->m, n = s->n, k = s->k;
  float *a = filled(m * k, 1), *b = filled(k * n, 2), *c = filled(m * n, -1);
  if (!a || !b || !c) return 1;
#ifndef START_BARE
  double t = now();
  tg_context_options o = {.cache = argv[2], .tuned = argc > 3 ? argv[3] : NULL};
  tg_context *context;
#ifdef START_JIT
  tg_status made = tg_context_create(&o, &context);
#else
  tg_status made = tg_context_create_runtime(&o, &context);
#endif
  r.context = now() - t, t = now();
  tg_gemm_desc d = {
      .m = {s->rows ? 1 : m, s->rows ? s->m : 0}, .n = {n, 0}, .k = {k, 0}, .threads = 1, .flags = TG_GEMM_NO_COMPILE};
  tg_gemm *g;
  if (made || tg_gemm_plan(context, &d, &g))
    return fprintf(stderr, "%s\n", made ? "no context" : tg_error_message(context)), 1;
  r.plan = now() - t, t = now();
  tg_gemm_call call = {.m = m, .a = a, .b = b, .c = c};
  call.workspace_bytes = tg_gemm_workspace(g, &call);
  call.workspace = malloc(call.workspace_bytes + 1);
  if (tg_gemm_run(g, &call)) return fprintf(stderr, "%s\n", tg_error_message(context)), 1;
  r.run = now() - t;
  tg_gemm_info info = tg_gemm_describe(g);
  r.kernels = (int)info.kernels, r.from_cache = (int)info.from_cache, r.tuned = (int)info.tuned;
  for (long i = 0; i < m * n; i++) r.wrong += c[i] != (float)(2 * k);
  tg_gemm_free(g), tg_context_free(context);
#endif
  return fwrite(&r, sizeof r, 1, stdout) != 1;
}
