/* SPDX-License-Identifier: MIT
 * What tg bench start and the programs that it starts tell each other. */
#ifndef TG_BENCH_START_H
#define TG_BENCH_START_H

/* The largest M, N and K of a plan; M varies from 1 where rows is set, and the first result has one row then. */
typedef struct start_case { const char *name; int m, n, k, rows; } start_case;
static const start_case start_cases[] = {{"256x256x256", 256, 256, 256, 0},
                                         {"row of 8192, 1024x1024", 8192, 1024, 1024, 1}};

/* Seconds of the monotonic clock, which all processes share. */
typedef struct start_report { double main, context, plan, run; int kernels, from_cache, tuned, wrong; } start_report;
#endif
