/* SPDX-License-Identifier: MIT
 * The kernels of this folder in plain C, as one writes them without thought of vectors: what tg bench kernels --sweep
 * compares with. b: the text's buffers in order; n: its constants in order. */
#ifndef BENCH_PLAIN_H
#define BENCH_PLAIN_H
typedef struct { const char *name; void (*run)(void *const *b, const long *n); } bench_plain;
extern const bench_plain bench_plains[];   /* ends with a NULL name */
#endif
