/* SPDX-License-Identifier: MIT
 * The peers of the benchmarks on this very machine: the FMA peak, and the best plain C loops we know how to write. */
#define _GNU_SOURCE
#include <math.h>
#include <string.h>
#include <time.h>
#include "bench/machine.h"
#if defined(__x86_64__)
#include <immintrin.h>
#endif

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Enough chains to hide the latency of any FMA unit so far, each in a register of its own: asm keeps the compiler
 * from folding them, names keep it from spilling them. */
#if defined(__AVX512F__)
typedef __m512 vec;
#define FMA(a, x, y) __asm__ volatile("vfmadd213ps %2, %1, %0" : "+v"(a) : "v"(x), "v"(y));
#elif defined(__FMA__)
typedef __m256 vec;
#define FMA(a, x, y) __asm__ volatile("vfmadd213ps %2, %1, %0" : "+x"(a) : "x"(x), "x"(y));
#else
typedef float vec __attribute__((vector_size(16)));
#define FMA(a, x, y) a = a * x + y;
#endif
enum { CHAINS = 12, LANES = sizeof(vec) / sizeof(float) };

static double fma_burst(long n) {
  vec x, y, a0, a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11;
  memset(&x, 0, sizeof x);
  y = a0 = a1 = a2 = a3 = a4 = a5 = a6 = a7 = a8 = a9 = a10 = a11 = x;
  double t = now();
  for (long i = 0; i < n; i++) {
    FMA(a0, x, y) FMA(a1, x, y) FMA(a2, x, y) FMA(a3, x, y) FMA(a4, x, y) FMA(a5, x, y)
    FMA(a6, x, y) FMA(a7, x, y) FMA(a8, x, y) FMA(a9, x, y) FMA(a10, x, y) FMA(a11, x, y)
  }
  t = now() - t;
  volatile vec keep = a0 + a1 + a2 + a3 + a4 + a5 + a6 + a7 + a8 + a9 + a10 + a11;
  (void)keep;
  return (double)n * CHAINS * LANES * 2 / t;
}

double bench_fma_peak(double seconds) {
  double best = 0, end = now() + seconds;
  do {
    double g = fma_burst(50000);
    if (g > best) best = g;
  } while (now() < end);
  return best;
}

#if defined(__AVX512F__)
#define STREAM(p, v) _mm512_stream_ps((p), (v))
enum { V = 16 };
#endif

void bench_c_copy(const bench_arrays *v, size_t from, size_t to, int streaming) {
  const float *restrict x = v->x;
  float *restrict y = v->y;
#if defined(__AVX512F__)
  if (streaming) {
    for (size_t i = from; i + V <= to; i += V) STREAM(y + i, _mm512_load_ps(x + i));
    _mm_sfence();
    return;
  }
#endif
  (void)streaming;
  for (size_t i = from; i < to; i++) y[i] = x[i];
}

void bench_c_axpy(const bench_arrays *v, size_t from, size_t to, int streaming) {
  const float *restrict x = v->x;
  float *restrict y = v->y, a = v->a;
#if defined(__AVX512F__)
  if (streaming) {
    for (size_t i = from; i + V <= to; i += V)
      STREAM(y + i, _mm512_fmadd_ps(_mm512_set1_ps(a), _mm512_load_ps(x + i), _mm512_load_ps(y + i)));
    _mm_sfence();
    return;
  }
#endif
  (void)streaming;
  for (size_t i = from; i < to; i++) y[i] += a * x[i];
}

float bench_c_sum(const bench_arrays *v, size_t from, size_t to) {
  const float *restrict x = v->x;
#if defined(__AVX512F__)
  __m512 s[8];
  for (int k = 0; k < 8; k++) s[k] = _mm512_setzero_ps();
  size_t i = from;
  for (; i + 8 * V <= to; i += 8 * V)
    for (int k = 0; k < 8; k++) s[k] = _mm512_add_ps(s[k], _mm512_load_ps(x + i + (size_t)k * V));
  for (int k = 1; k < 8; k++) s[0] = _mm512_add_ps(s[0], s[k]);
  float total = _mm512_reduce_add_ps(s[0]);
#else
  float total = 0;
  size_t i = from;
#endif
  for (; i < to; i++) total += x[i];
  return total;
}

/* Whole vectors of 64 bytes; a rest is not read. */
float bench_read(const float *x, size_t n, int streams, int prefetch) {
  enum { LINE = 16, MOST = 8, AHEAD = 512 };
  typedef float line __attribute__((vector_size(64), aligned(4)));
  line s[MOST];
  memset(s, 0, sizeof s);
  size_t part = n / (size_t)streams / LINE * LINE;
#define READ(N, P)                                                                                      \
  for (size_t i = 0; i < part; i += LINE)                                                               \
    for (int k = 0; k < (N); k++) {                                                                     \
      if (P) __builtin_prefetch(x + (size_t)k * part + i + AHEAD);                                      \
      s[k] += *(const line *)(const void *)(x + (size_t)k * part + i);                                  \
    }
  if (streams == 1 && prefetch) READ(1, 1)
  else if (streams == 1) READ(1, 0)
  else if (streams == 2 && prefetch) READ(2, 1)
  else if (streams == 2) READ(2, 0)
  else if (streams == 4 && prefetch) READ(4, 1)
  else if (streams == 4) READ(4, 0)
  else if (prefetch) READ(8, 1)
  else READ(8, 0)
#undef READ
  for (int k = 1; k < MOST; k++) s[0] += s[k];
  float total = 0;
  for (int i = 0; i < LINE; i++) total += s[0][i];
  return total;
}

static void put_row(float *restrict y, const float *restrict t, size_t n, int streaming) {
  size_t j = 0;
#if defined(__AVX512F__)
  if (streaming)
    for (; j + V <= n; j += V) STREAM(y + j, _mm512_loadu_ps(t + j));
#endif
  (void)streaming;
  for (; j < n; j++) y[j] = t[j];
}

enum { ROW_MAX = 1 << 16 };

void bench_c_softmax(const bench_arrays *v, size_t from, size_t to, int streaming) {
  static _Thread_local float t[ROW_MAX];
  for (size_t i = from; i < to; i += v->row) {
    const float *restrict x = v->x + i;
    float m = -INFINITY, s = 0;
    for (size_t j = 0; j < v->row; j++) m = x[j] > m ? x[j] : m;
    for (size_t j = 0; j < v->row; j++) t[j] = expf(x[j] - m);
    for (size_t j = 0; j < v->row; j++) s += t[j];
    float r = 1 / s;
    for (size_t j = 0; j < v->row; j++) t[j] *= r;
    put_row(v->y + i, t, v->row, streaming);
  }
}

void bench_c_layernorm(const bench_arrays *v, size_t from, size_t to, int streaming) {
  static _Thread_local float t[ROW_MAX];
  for (size_t i = from; i < to; i += v->row) {
    const float *restrict x = v->x + i;
    float s = 0, q = 0, n = (float)v->row;
    for (size_t j = 0; j < v->row; j++) s += x[j];
    float mean = s / n;
    for (size_t j = 0; j < v->row; j++) q += (x[j] - mean) * (x[j] - mean);
    float r = 1 / sqrtf(q / n + 1e-5f);
    for (size_t j = 0; j < v->row; j++) t[j] = (x[j] - mean) * r * v->w[j] + v->b[j];
    put_row(v->y + i, t, v->row, streaming);
  }
}

void bench_c_softmax_row(float *restrict x, size_t seen, size_t n, float scale) {
  float m = -INFINITY, s = 0;
  for (size_t j = 0; j < seen; j++) m = x[j] > m ? x[j] : m;
  for (size_t j = 0; j < seen; j++) x[j] = expf(scale * (x[j] - m));
  for (size_t j = 0; j < seen; j++) s += x[j];
  float r = 1 / s;
  for (size_t j = 0; j < seen; j++) x[j] *= r;
  for (size_t j = seen; j < n; j++) x[j] = 0;
}
