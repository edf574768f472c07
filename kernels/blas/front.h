/* SPDX-License-Identifier: MIT
 * Shared by the files of the BLAS front: names.c (entry points, checks of arguments, messages) calls blas.c (plans,
 * computing), which calls flags.c (floating-point exceptions). */
#ifndef TG_BLAS_FRONT_H
#define TG_BLAS_FRONT_H
#include <stdbool.h>
#include <stdint.h>
#if defined(__SSE2__)
#include <immintrin.h>
#else
#define _GNU_SOURCE
#include <fenv.h>
#endif

/* A product with checked arguments; all matrices are column major. Sizes and operands lie as bare code takes them
 * (tg_gemm_code), so that a call copies nothing: a copy of two numbers at a time would wait until both are written. */
typedef struct {
  bool wide;                   /* true: f64; false: f32 */
  bool ta, tb;
  union {
    struct { int64_t m, n, k, lda, ldb, ldc; };
    int64_t sizes[6];
  };
  union {
    struct {
      const void *a, *b;
      void *c;
      const void *alpha, *beta;
    };
    void *operands[5];
  };
} tg_blas_product;

/* Index of an element of op(A), of op(B) in memory. */
static inline int64_t tg_blas_at_a(const tg_blas_product *p, int64_t i, int64_t k) {
  return p->ta ? i * p->lda + k : k * p->lda + i;
}
static inline int64_t tg_blas_at_b(const tg_blas_product *p, int64_t k, int64_t j) {
  return p->tb ? k * p->ldb + j : j * p->ldb + k;
}

/* ---- blas.c ---- */

/* Computes the product by tg. False: tg has no kernel for it, and nothing was written. */
bool tg_blas_compute(const tg_blas_product *p);
/* Computes the product by plain loops, if neither tg nor another library can. */
void tg_blas_loops(const tg_blas_product *p);

/* ---- flags.c: the floating-point environment around a product ---- */

/* raised: exceptions that were raised before; traps: the program has enabled some. The two functions around a product
 * are here, since the smallest products take no longer than a call. */
typedef struct { int raised; bool traps; char environment[64]; } tg_blas_flags;
void tg_blas_flags_hold(tg_blas_flags *f);   /* of a program with traps: disables them, and clears what was raised */
void tg_blas_flags_settle(tg_blas_flags *f, const tg_blas_product *p, int fresh);   /* fresh: raised by the product */

#if defined(__SSE2__)
enum { TG_BLAS_INVALID = _MM_EXCEPT_INVALID };
static inline int tg_blas_raised(void) { return (int)(_mm_getcsr() & _MM_EXCEPT_MASK); }
static inline void tg_blas_flags_begin(tg_blas_flags *f) {
  unsigned word = _mm_getcsr();
  f->raised = (int)(word & _MM_EXCEPT_MASK);
  f->traps = (word & _MM_MASK_MASK) != _MM_MASK_MASK;
  if (f->traps) tg_blas_flags_hold(f);
}
#else
enum { TG_BLAS_INVALID = FE_INVALID };
static inline int tg_blas_raised(void) { return fetestexcept(FE_ALL_EXCEPT); }
static inline void tg_blas_flags_begin(tg_blas_flags *f) {
  f->raised = tg_blas_raised();
  f->traps = fegetexcept() > 0;
  if (f->traps) tg_blas_flags_hold(f);
}
#endif
static inline void tg_blas_flags_end(tg_blas_flags *f, const tg_blas_product *p) {
  int fresh = tg_blas_raised() & ~f->raised;
  if (f->traps || fresh & TG_BLAS_INVALID) tg_blas_flags_settle(f, p, fresh);
}

/* ---- names.c ---- */

/* Writes a line to stderr if TG_BLAS_VERBOSE is set. */
void tg_blas_say(const char *format, ...) __attribute__((format(printf, 1, 2)));
#endif
