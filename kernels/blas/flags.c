/* SPDX-License-Identifier: MIT
 * Floating-point exceptions of a product. Vector lanes beyond the edge of a matrix compute on zeros, and their results
 * are discarded; but if the other factor is an infinity they raise FE_INVALID (0 times inf), which the reference BLAS
 * does not. So if a call has newly raised FE_INVALID, this file finds out whether an operation of the product as
 * written was invalid. Each invalid operation leaves a NaN in C:
 * - C has no NaN: the flag is cleared.
 * - C has a NaN that no NaN in A or B explains: the flag stays.
 * - All NaN in C are explained by NaN in A or B; an invalid operation may have occurred all the same. The operands are
 *   searched for a zero times an infinity, and sums with infinities are repeated in the reference's order, as long as
 *   that costs no more than reading the operands. What is then undecided keeps the flag, so that no flag is lost that
 *   the reference raises.
 * A call that raises nothing new costs two reads of the control word (front.h).
 *
 * Other flags need no care: zero times a finite number is exact. Traps that the program has enabled are disabled
 * during the call, and raised at its end for true exceptions only. */
#define _GNU_SOURCE
#include <fenv.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "blas/front.h"

_Static_assert(sizeof(fenv_t) <= sizeof((tg_blas_flags *)0)->environment, "room for the environment");

/* ---- was an operation invalid? ---- */

static double element(const tg_blas_product *p, const void *x, int64_t at) {
  return p->wide ? ((const double *)x)[at] : (double)((const float *)x)[at];
}

/* Bits that say which values occur in column k of op(A), or in row k of op(B). */
enum { ZERO = 1, INFINITE = 2, NOT_A_NUMBER = 4, SIGNALING = 8 };

static int kind(const tg_blas_product *p, const void *x, int64_t at) {
  bool signals = p->wide ? issignaling(((const double *)x)[at]) : issignaling(((const float *)x)[at]);
  double value = element(p, x, at);
  return value == 0 ? ZERO : isinf(value) ? INFINITE : isnan(value) ? NOT_A_NUMBER | (signals ? SIGNALING : 0) : 0;
}

/* a, b: these bits for each term k; row, column: does a row of op(A), a column of op(B) have a NaN; special: the terms
 * that have an infinity or a NaN; infinite: number of terms that have an infinity. */
typedef struct { unsigned char *a, *b, *row, *column; int64_t *special, specials, infinite; } survey;

static bool take_survey(const tg_blas_product *p, survey *s) {
  size_t k = (size_t)p->k, bytes = 2 * k + (size_t)p->m + (size_t)p->n;
  s->special = malloc(k * sizeof *s->special + bytes);
  if (!s->special) return false;
  s->a = (unsigned char *)(s->special + k), s->b = s->a + k, s->row = s->b + k, s->column = s->row + p->m;
  memset(s->a, 0, bytes);
  for (int64_t q = 0; q < p->k; q++) {
    for (int64_t i = 0; i < p->m; i++) {
      int is = kind(p, p->a, tg_blas_at_a(p, i, q));
      s->a[q] |= (unsigned char)is, s->row[i] |= is & NOT_A_NUMBER;
    }
    for (int64_t j = 0; j < p->n; j++) {
      int is = kind(p, p->b, tg_blas_at_b(p, q, j));
      s->b[q] |= (unsigned char)is, s->column[j] |= is & NOT_A_NUMBER;
    }
    s->infinite += ((s->a[q] | s->b[q]) & INFINITE) != 0;
    if ((s->a[q] | s->b[q]) & (INFINITE | NOT_A_NUMBER)) s->special[s->specials++] = q;
  }
  return true;
}

/* Does the sum of element i, j have an inf - inf before its first NaN? Finite terms are skipped, so a sum that
 * overflows by finite terms is not followed. */
static bool sum_is_invalid(const tg_blas_product *p, const survey *s, int64_t i, int64_t j) {
  double sum = 0;
  for (int64_t x = 0; x < s->specials; x++) {
    int64_t q = s->special[x];
    double a = element(p, p->a, tg_blas_at_a(p, i, q)), b = element(p, p->b, tg_blas_at_b(p, q, j));
    if (isnan(a) || isnan(b)) return false;   /* the sum is NaN from this term on */
    if (!isinf(a) && !isinf(b)) continue;
    bool negative = signbit(a) != signbit(b);
    if (isinf(sum) && (sum < 0) != negative) return true;
    sum = negative ? -INFINITY : INFINITY;
  }
  return isinf(sum) && element(p, p->beta, 0) != 0;   /* and C's lost old value: undecided */
}

static bool some_sum_is_invalid(const tg_blas_product *p, const survey *s) {
  int64_t budget = p->m * p->k + p->k * p->n + p->m * p->n;
  bool update = element(p, p->beta, 0) != 0;
  for (int64_t j = 0; j < p->n; j++)
    for (int64_t i = 0; i < p->m; i++) {
      if (!isnan(element(p, p->c, j * p->ldc + i))) continue;
      if (!s->row[i] && !s->column[j] && !update) return true;
      if (s->infinite < 2 && !update) continue;   /* a single infinite term cannot give inf - inf */
      budget -= s->specials;
      if (budget < 0 || sum_is_invalid(p, s, i, j)) return true;
    }
  return false;
}

static bool has_nan(const tg_blas_product *p) {
  for (int64_t j = 0; j < p->n; j++)
    for (int64_t i = 0; i < p->m; i++)
      if (isnan(element(p, p->c, j * p->ldc + i))) return true;
  return false;
}

static bool was_invalid(const tg_blas_product *p) {
  if (!has_nan(p)) return false;
  double alpha = element(p, p->alpha, 0), beta = element(p, p->beta, 0);
  survey s = {0};
  if (!isfinite(alpha) || !isfinite(beta) || !take_survey(p, &s)) return true;
  bool invalid = !s.infinite;   /* without infinities no lane beyond an edge raised the flag */
  for (int64_t x = 0; x < s.specials && !invalid; x++) {
    int a = s.a[s.special[x]], b = s.b[s.special[x]];
    invalid = (a & ZERO && b & INFINITE) || (a & INFINITE && b & ZERO) || (a | b) & SIGNALING;
  }
  if (!invalid) invalid = some_sum_is_invalid(p, &s);
  free(s.special);
  return invalid;
}

/* ---- around a product ---- */

void tg_blas_flags_hold(tg_blas_flags *f) {
  feholdexcept((fenv_t *)(void *)f->environment);
  f->raised = 0;
}

void tg_blas_flags_settle(tg_blas_flags *f, const tg_blas_product *p, int fresh) {
  if (fresh & FE_INVALID && !was_invalid(p)) fresh &= ~FE_INVALID;
  else if (!f->traps) return;
  if (!f->traps) feclearexcept(FE_INVALID);
  else {
    fesetenv((fenv_t *)(void *)f->environment);
    feraiseexcept(fresh);
  }
}
