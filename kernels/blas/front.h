/* SPDX-License-Identifier: MIT
 * What the files of the BLAS front share: names.c (entry points, checks, what is told) stands on blas.c (plans,
 * computing), which stands on flags.c. */
#ifndef TG_BLAS_FRONT_H
#define TG_BLAS_FRONT_H
#include <stdbool.h>
#include <stdint.h>

/* Column major, checked. */
typedef struct {
  bool wide;                   /* f64 */
  bool ta, tb;
  int64_t m, n, k, lda, ldb, ldc;
  const void *alpha, *a, *b, *beta;
  void *c;
} tg_blas_product;

/* Where an element of op(A), of op(B) lies. */
static inline int64_t tg_blas_at_a(const tg_blas_product *p, int64_t i, int64_t k) {
  return p->ta ? i * p->lda + k : k * p->lda + i;
}
static inline int64_t tg_blas_at_b(const tg_blas_product *p, int64_t k, int64_t j) {
  return p->tb ? k * p->ldb + j : j * p->ldb + k;
}

/* ---- blas.c ---- */

/* False, with nothing written: there is no kernel for it. */
bool tg_blas_compute(const tg_blas_product *p);
/* Where nobody else can: plain loops. */
void tg_blas_loops(const tg_blas_product *p);

/* ---- flags.c: the floating-point environment around a product ---- */

typedef struct { int raised; bool traps; char environment[64]; } tg_blas_flags;
void tg_blas_flags_begin(tg_blas_flags *f);
void tg_blas_flags_end(tg_blas_flags *f, const tg_blas_product *p);

/* ---- names.c ---- */

/* A line to stderr under TG_BLAS_VERBOSE. */
void tg_blas_say(const char *format, ...) __attribute__((format(printf, 1, 2)));
#endif
