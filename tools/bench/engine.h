/* SPDX-License-Identifier: MIT
 * What the bars of tg bench engine share: products as sides of a contest, and figures. */
#ifndef TG_BENCH_ENGINE_H
#define TG_BENCH_ENGINE_H
#include "bench/bench.h"
#include "bench/product.h"
#include "bench/turns.h"
#include "tg/gemm.h"

enum { ENGINE_THREADS = 2 };

typedef struct engine {
  tg_context *ctx;
  const tool_args *args;
  double peak[ENGINE_THREADS + 1];     /* the largest burst of the run on so many threads */
  int result, ran;
} engine;

/* Is it among the cases that were asked for? It counts as run then. */
bool engine_wants(engine *e, const char *name);
/* False, and the run is wrong. */
bool engine_wrong(engine *e, const char *name, const char *what);

/* What a figure must reach: 0 none; else time ratios at most `at_most`, or at least `at_least`. */
typedef struct engine_bar { double at_least, at_most; } engine_bar;

/* time of a / time of b, printed as `what` of `of`. */
bool engine_contest(engine *e, const char *name, const char *what, const char *of, bench_side a, bench_side b,
                    int threads, engine_bar bar, bench_ratio *out);

/* A product with memory of its own, whole numbers in it, and a plan. */
typedef struct engine_product {
  engine *e;
  bench_product x;
  tg_gemm *plan;
  tg_gemm_call call;
  tg_gemm_code *code;          /* bare, where there is one */
  double *sums;
  bool owner;                  /* of the matrices */
  _Alignas(64) char scratch[TG_GEMM_SCRATCH];
} engine_product;

/* x has sizes, transposes, step, leading dimensions (0: dense) and threads; NULL matrices are made and filled. desc:
 * what the plan has besides, or NULL. Runs and verifies it once (unless it has an epilogue). False: it said why. */
bool engine_open(engine *e, const char *name, const bench_product *x, const tg_gemm_desc *desc, engine_product *out);
void engine_close(engine_product *p);
bench_side engine_run(engine_product *p);        /* through the plan */
bench_side engine_bare(engine_product *p);       /* the code itself */

/* Bars: each its cases. engine.c, engine_many.c, engine_weights.c */
void engine_epilogues(engine *), engine_rows(engine *), engine_packings(engine *), engine_strides(engine *),
    engine_long(engine *), engine_batches(engine *), engine_weights(engine *);
#endif
