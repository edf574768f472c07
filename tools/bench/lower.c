/* SPDX-License-Identifier: MIT
 * tg bench lower: what compiling costs, for the three-line matmul at 512^3 with the heuristic's schedule. From the
 * author's C to LLVM IR; to code that can be called; and the same from the object cache. Medians. */
#define _GNU_SOURCE
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
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
  double lower_samples[ROUNDS], samples[ROUNDS], choosing[ROUNDS];
  tool_source s = {.def = &matmul, .bindings = sizes, .bindings_n = 3, .unpriced = true};
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
    s.unpriced = false;
    t = tool_now();
    if (!path_lower(&p, &s)) fprintf(stderr, "%s\n", p.job.env.message);
    choosing[i] = tool_now() - t;
    tg_job_drop(&p.job);
    s.unpriced = true;
  }
  path_close(&p);
  tool_figure(args->json, "lower", "matmul 512^3", "nodes made", nodes, "nodes", NULL);
  tool_figure(args->json, "lower", "matmul 512^3", "author to linear form", tool_median(lower_samples, ROUNDS) * 1e3,
              "ms", NULL);
  tool_figure(args->json, "lower", "matmul 512^3", "author to linear form, candidates priced",
              tool_median(choosing, ROUNDS) * 1e3, "ms", NULL);
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
    if (!flags && i > 0 && !tg_kernel_describe(k)->from_cache)
      return fprintf(stderr, "tg: not from the cache\n"), TOOL_BROKEN;
    tg_kernel_free(k);
  }
  tool_figure(args->json, "lower", "matmul 512^3", metric, tool_median(samples, rounds) * 1e3, "ms", NULL);
  return TOOL_OK;
}

/* ---- rewriting ---- */

enum { SMALLEST = 1 << 16, SIZES = 5, REWRITES = 11 };   /* to 1 M nodes */

typedef struct { tg_job *j; uint32_t n; bool tree; double seconds; } rewriting;

static const tg_uop *leaf(tg_job *j, uint32_t i) { return tg_make(j, TG_OP_ARG, TG_F32, 1, i, 0, NULL); }

static const tg_uop *join(tg_job *j, const tg_uop *a, const tg_uop *b, uint32_t i) {
  static const tg_op ops[] = {TG_OP_ADD, TG_OP_MAX, TG_OP_MUL, TG_OP_SUB, TG_OP_MIN};
  return tg_op2(j, ops[i % 5], a, i % 7 ? b : tg_op1(j, TG_OP_NEG, tg_op1(j, TG_OP_NEG, b)));
}

static const tg_uop *chain_of(tg_job *j, uint32_t n) {
  const tg_uop *u = leaf(j, 0);
  for (uint32_t i = 1; j->uops.n < n; i++) u = join(j, u, leaf(j, i), i);
  return u;
}

static const tg_uop *tree_of(tg_job *j, uint32_t n) {
  uint32_t m = n * 7 / 16;   /* leaves: each join makes 1 node, one in seven makes two more */
  const tg_uop **level = tg_new(&j->env, const tg_uop *, m);
  for (uint32_t i = 0; i < m; i++) level[i] = leaf(j, i);
  for (; m > 1; m -= m / 2)
    for (uint32_t i = 0; i < m - m / 2; i++)
      level[i] = 2 * i + 1 < m ? join(j, level[2 * i], level[2 * i + 1], i) : level[2 * i];
  return level[0];
}

static double processor_time(void) {
  struct timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void rewrite(void *user) {
  rewriting *r = user;
  const tg_rules *rules = tg_rules_compile(&r->j->env);
  const tg_uop *u = (r->tree ? tree_of : chain_of)(r->j, r->n);
  double t = processor_time();
  tg_simplify(r->j, rules, u);
  r->seconds = processor_time() - t;
}

/* Round by round over all sizes, so that a ratio is of neighbours in time. */
static int rewriting_grows(const tool_args *args, bool tree) {
  static tg_job j;
  static double seconds[SIZES][REWRITES], ratio[SIZES][REWRITES];
  for (int i = -1; i < REWRITES; i++)   /* the first round warms the heap and is dropped */
    for (int k = 0; k < SIZES; k++) {
      rewriting r = {&j, SMALLEST << k, tree, 0};
      tg_job_init(&j, NULL);
      bool ok = tg_protect(&j.env, rewrite, &r);
      if (!ok) fprintf(stderr, "%s\n", j.env.message);
      tg_job_drop(&j);
      if (!ok) return TOOL_BROKEN;
      if (i < 0) continue;
      seconds[k][i] = r.seconds;
      if (k) ratio[k][i] = r.seconds / seconds[k - 1][i];
    }
  char name[64], before[64] = "";
  for (int k = 0; k < SIZES; k++) {
    snprintf(name, sizeof name, "rewrite %s %u", tree ? "tree" : "chain", (unsigned)SMALLEST << k);
    tool_figure(args->json, "lower", name, "time", tool_median(seconds[k], REWRITES) * 1e3, "ms", NULL);
    if (k) tool_figure(args->json, "lower", name, "t(2n)/t(n)", tool_median(ratio[k], REWRITES), "ratio", before);
    snprintf(before, sizeof before, "%s", name);
  }
  return TOOL_OK;
}

/* The heap is kept from run to run: what is measured is the rewriter, not the kernel's first touch of a page. */
static int rewriting_alone(const tool_args *args) {
  mallopt(M_MMAP_MAX, 0);
  mallopt(M_TRIM_THRESHOLD, INT32_MAX);
  int r = rewriting_grows(args, false);
  return r ? r : rewriting_grows(args, true);
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
  return r ? r : rewriting_alone(args);
}
