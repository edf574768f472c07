/* SPDX-License-Identifier: MIT
 * What the parts of tg bench attention share: tg as a contestant, figures, and bars. */
#ifndef TG_BENCH_ATTENTION_RUN_H
#define TG_BENCH_ATTENTION_RUN_H
#include "bench/attention.h"
#include "bench/bench.h"
#include "bench/turns.h"

enum { ATTENTION_THREADS = 2, ATTENTION_TALLIES = 48 };

/* What cases of a kind come to: geometric mean and least, and what both have to reach; 0: no bar. */
typedef struct attention_tally {
  char name[80];
  const char *unit;
  int cases;
  double log_sum, least, bar_mean, bar_least;
} attention_tally;

typedef struct attention_bench {
  const tool_args *args;
  tg_context *ctx[ATTENTION_THREADS + 1];
  double peak[ATTENTION_THREADS + 1];   /* the largest burst of the run on so many threads */
  int threads;                          /* most of a case: 1 on a machine of one core */
  bool wide;                            /* vectors of 64 bytes */
  attention_peer peer[ATTENTION_PEERS];
  int peers, result, ran;
  attention_tally tally[ATTENTION_TALLIES];
  int tallies;
} attention_bench;

/* tg: a plan for a case on so many threads, and a run over all copies of K and V. */
typedef struct attention_own {
  attention_bench *of;
  const attention_case *c;
  tg_attention *plan;
  tg_attention_call call;
  void *workspace;
} attention_own;
/* Runs and verifies it once. False: it said why. */
bool attention_own_open(attention_bench *, const attention_case *, int threads, const char *name, attention_own *);
void attention_own_close(attention_own *);
bool attention_own_run(void *own);

bool attention_wants(attention_bench *, const char *name);   /* is it asked for? It counts as run then */
bool attention_wrong(attention_bench *, const char *name, const char *what);
void attention_figure(const attention_bench *, const char *name, const char *metric, double value, const char *unit,
                      const char *of);
/* Two sides, between bursts of 10 ms. False: a side failed. */
bool attention_contest(attention_bench *, const char *name, bench_contest *, bench_ratio *out);
/* The flops of side i, whose name is given, as a part of what the bursts beside would have done. 0: more than all of
 * it, so the figure is refused and the run is wrong. */
double attention_share(attention_bench *, const char *name, const char *whose, double flops, const bench_ratio *,
                       int i);
void attention_count(attention_bench *, const char *name, const char *unit, double value, double bar_mean,
                     double bar_least);

/* attention_bars.c: what tg is compared with itself */
void attention_variants(attention_bench *), attention_launch(attention_bench *), attention_memory(attention_bench *);
#endif
