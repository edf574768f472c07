/* SPDX-License-Identifier: MIT
 * tg bench lower: what compiling costs, for the three-line matmul at 512^3 with the heuristic's schedule. From the
 * author's C to LLVM IR; to code that can be called; and the same from the object cache. Medians. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "bench/bench.h"
#include "bench/kernels.inc.h"
#include "path.h"

enum { ROUNDS = 200 };

static const tg_binding sizes[] = {{"M", 512, 512, 1}, {"N", 512, 512, 1}, {"K", 512, 512, 1}};

static void build_module(void *user) {
  tool_path *p = user;
  tg_code_info info;
  tg_jit_build(p->jit, &p->job, p->job.sink, &info);
}

static int to_ir(const tool_args *args) {
  static tool_path p;
  double lower_samples[ROUNDS], samples[ROUNDS];
  tool_source s = {.def = &matmul, .bindings = sizes, .bindings_n = 3};
  if (!path_open(&p, "host")) return TOOL_BROKEN;
  uint32_t nodes = 0;
  for (int i = 0; i < ROUNDS; i++) {
    double t = tool_now();
    bool ok = path_lower(&p, &s);
    lower_samples[i] = tool_now() - t;
    ok = ok && tg_protect(&p.job.env, build_module, &p);
    samples[i] = tool_now() - t;
    nodes = p.job.uops.n;
    if (!ok) fprintf(stderr, "%s\n", p.job.env.message);
    tg_job_drop(&p.job);
    if (!ok) return path_close(&p), TOOL_WRONG;
  }
  path_close(&p);
  tool_figure(args->json, "lower", "matmul 512^3", "nodes made", nodes, "nodes", NULL);
  tool_figure(args->json, "lower", "matmul 512^3", "author to linear form", tool_median(lower_samples, ROUNDS) * 1e3, "ms", NULL);
  tool_figure(args->json, "lower", "matmul 512^3", "author to LLVM IR", tool_median(samples, ROUNDS) * 1e3, "ms", NULL);
  return TOOL_OK;
}

static int to_code(tg_context *ctx, const tool_args *args, uint32_t flags, int rounds, const char *metric) {
  double samples[ROUNDS];
  for (int i = 0; i < rounds; i++) {
    tg_compile_options o = {.bindings = sizes, .bindings_n = 3, .flags = flags};
    tg_kernel *k;
    double t = tool_now();
    tg_status st = tg_kernel_compile(ctx, &matmul, &o, &k);
    samples[i] = tool_now() - t;
    if (st) return fprintf(stderr, "%s\n", tg_error_message(ctx)), TOOL_WRONG;
    if (!flags && i > 0 && !tg_kernel_describe(k)->from_cache) return fprintf(stderr, "tg: not from the cache\n"), TOOL_BROKEN;
    tg_kernel_free(k);
  }
  tool_figure(args->json, "lower", "matmul 512^3", metric, tool_median(samples, rounds) * 1e3, "ms", NULL);
  return TOOL_OK;
}

int bench_lower(tg_context *ctx, const tool_args *args) {
  int r = to_ir(args);
  if (r) return r;
  r = to_code(ctx, args, TG_COMPILE_NO_CACHE, 60, "author to callable code, no cache");
  if (r) return r;
  char folder[] = "/tmp/tg-bench-XXXXXX", remove[64];
  if (!mkdtemp(folder)) return perror("tg: /tmp"), TOOL_BROKEN;
  tg_context *cached;
  tg_context_options co = {.cache = folder};
  r = TOOL_BROKEN;
  if (!tg_context_create(&co, &cached)) {
    r = to_code(cached, args, 0, 1, "author to callable code, into the cache");
    if (!r) r = to_code(cached, args, 0, ROUNDS, "author to callable code, from the cache");
  }
  tg_context_free(cached);
  snprintf(remove, sizeof remove, "rm -rf %s", folder);
  if (system(remove)) perror("tg: rm");
  return r;
}
