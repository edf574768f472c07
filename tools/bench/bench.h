/* SPDX-License-Identifier: MIT
 * The benchmarks behind tg bench and tg demo. Each prints figures and gives an exit code. */
#ifndef TG_BENCH_H
#define TG_BENCH_H
#include "tool.h"

int bench_matmul(tg_context *, const tool_args *, int n);   /* n^3, one and two cores */
/* a schedule with packed operands, one core */
int bench_sgemm_packed(tg_context *, const tool_args *, int m, int n, int k);
int bench_microkernel(tg_context *, const tool_args *);     /* its register tile alone */
int bench_streams(tg_context *, const tool_args *);         /* 256 MiB a stream, one and two cores */
int bench_choices(tg_context *, const tool_args *);         /* first choices of a folder's texts, one core */
/* sizes known at launch against the same sizes as constants, one core */
int bench_runtime(tg_context *, const tool_args *);
/* Keeps a figure, if it is a ratio; writes those that were kept to path as an SVG. */
void bench_plot_note(const char *name, const char *metric, double value, const char *unit, const char *of);
int bench_plot(const tg_context *, const char *path);
int bench_launch(tg_context *, const tool_args *);
int bench_lower(tg_context *, const tool_args *);           /* author to LLVM IR, to callable code, from the cache */
int bench_model(const tool_args *);                         /* points of the cost model against their times */
int bench_polybench(tg_context *, const tool_args *);       /* 30 kernels, one core, against plain C */
int bench_gemm(const tool_args *);                          /* lists of shapes against libraries */
int bench_attention(const tool_args *);                     /* a list of shapes against libraries; variants, memory */
int bench_nn(const tool_args *);                            /* small operations on rows against PyTorch */
int bench_engine(const tool_args *);                        /* what engines use of tg/gemm.h beside the plain product */
int bench_start(const tool_args *);                         /* a fresh process to its first product */
int bench_tune(const tool_args *);                          /* sweeps of spaces: the search and its cost model */
/* What the table at path knows of a peer in a case, as a part of the machine's best; 0: nothing. And a new line of
 * it. */
double bench_expected(const char *path, const char *peer, const char *name, int threads);
void bench_expect(const char *path, const char *peer, const char *name, int threads, double part);
#endif
