/* SPDX-License-Identifier: MIT
 * What the machine can do at most, measured in the same run as what is compared with it. */
#ifndef TG_BENCH_MACHINE_H
#define TG_BENCH_MACHINE_H
#include <stddef.h>

/* FLOP/s of independent register FMAs in f32, widest vectors, on the calling thread; runs for about `seconds`. */
double bench_fma_peak(double seconds);

/* Reads all of x, in so many streams side by side, asking for what is 2 KiB ahead or not; something of all that was
 * read. */
float bench_read(const float *x, size_t n, int streams, int prefetch);

/* Plain C loops with the streams of the kernels they are compared with, compiled -O3 -march=native -ffast-math.
 * streaming: non-temporal stores. All arrays of floats, 64-byte aligned. rows of `row` elements in [from, to). */
typedef struct { const float *x, *w, *b; float *y; size_t n, row; float a; } bench_arrays;
void bench_c_copy(const bench_arrays *v, size_t from, size_t to, int streaming);
void bench_c_axpy(const bench_arrays *v, size_t from, size_t to, int streaming);
float bench_c_sum(const bench_arrays *v, size_t from, size_t to);
/* elements from..to, whole rows */
void bench_c_softmax(const bench_arrays *v, size_t from, size_t to, int streaming);
void bench_c_layernorm(const bench_arrays *v, size_t from, size_t to, int streaming);

/* softmax of scale * x[0..seen - 1]; 0 from there to n - 1. */
void bench_c_softmax_row(float *x, size_t seen, size_t n, float scale);
#endif
