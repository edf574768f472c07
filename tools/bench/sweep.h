/* SPDX-License-Identifier: MIT
 * A sweep: many points of a product's space, what the cost model says of each, and the times of some. It is kept in a
 * file that is only appended to. */
#ifndef TG_BENCH_SWEEP_H
#define TG_BENCH_SWEEP_H
#include "trial/trial.h"
#include "gemm/plan.h"
#include "gemm/sketch.h"
#include "search/search.h"
#include "tool.h"

typedef struct sweep_point {
  uint64_t hash;               /* of the lowered program */
  uint32_t sketch;
  int64_t knob[TG_POINT_KNOBS];
  double model;                /* seconds by the cost model */
  tg_cost cost;                /* its parts, where it was asked in this run */
  double ratio;                /* ln(seconds / seconds of the first choice) */
  uint32_t quads;              /* that the ratio stands on; 0: it was not timed, or so slow that one run was enough */
  bool timed, failed;
} sweep_point;

typedef struct sweep {
  char name[64], path[4096];   /* "256x256x256_NN" */
  int64_t size[3];
  bool transposed[2];
  FILE *file;
  sweep_point *point;
  uint32_t n, cap, legal;      /* legal: with those that lower to a program that is there already */
  uint32_t first;              /* the first choice among the points; UINT32_MAX before it is known */
  tg_context *ctx;
  tg_env env;
  tg_gemm_space gemm;
  tg_points space;
  tg_bench *bench;
  void *operand[3], *want;     /* of whole numbers, and the first choice's C */
  size_t bytes[3];
} sweep;

/* Of all shapes: what the first choice runs at, of the best; 0: it is wrong. Seconds that choosing takes. */
enum { SWEEP_SHAPES = 1000 };
typedef struct { double rate[SWEEP_SHAPES], slowest; uint32_t n; } sweep_firsts;

/* sweep_file.c */
bool sweep_load(sweep *s);                                    /* what the file at path has, and opens it to append */
void sweep_add(sweep *s, const sweep_point *p, bool record);
void sweep_record_model(sweep *s, uint32_t i);
void sweep_record_time(sweep *s, uint32_t i);
void sweep_record_legal(sweep *s);

/* sweep_report.c: ranks and regrets; false: nothing was timed. */
void sweep_describe(const sweep *s, const char *what, const sweep_point *p);   /* its sketch and knobs, a line */
bool sweep_report(const sweep *s, const tool_args *a);
/* numbers of points, or of those with a time, the cheapest first; malloc'd */
uint32_t *sweep_by_model(const sweep *s, bool timed, uint32_t *n);
uint32_t sweep_best(const sweep *s);                          /* of those with most samples; UINT32_MAX: none */
#endif
