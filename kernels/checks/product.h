/* SPDX-License-Identifier: MIT
 * Shared by the files of the checks: a product as numbers, its data (gemm_data.c), and its expected results. */
#ifndef TG_CHECKS_PRODUCT_H
#define TG_CHECKS_PRODUCT_H
#include "api/api.h"
#include "dsl/value.h"
#include "checks/gemm.h"

/* The rows and columns of C to compute; NULL: all, in order. */
typedef struct check_block { const int64_t *rows, *columns; int64_t rows_n, columns_n; } check_block;

/* The numbers of a product, all row major, whatever layout the operands have in memory. Each number is exactly
 * representable in its operand's type. */
typedef struct check_product {
  tg_env *env;
  const tg_gemm_problem *problem;
  tg_check_case which;
  double alpha, beta;
  double *a, *b, *c;                           /* M x K, K x N, M x N; c NULL: C is not read */
  /* quantised b = scale * (whole - zero); whole and b_size = |scale| (|whole| + |zero|) are K x N, scale and zero
   * groups x N. NULL: b is not quantised */
  double *whole, *scale, *zero, *b_size;
  int64_t groups;
  double *argument[TG_GEMM_ARGUMENTS];
  int64_t argument_n[TG_GEMM_ARGUMENTS];       /* numbers of values */
  bool endless;                                /* A or B has an infinity or a NaN, so terms with a zero count too */
  uint64_t state;                              /* state of the random number generator */
} check_product;

/* Fills p with data that suit the check p->which; the caller has set env and problem as well. */
void tg_check_fill(check_product *p);
/* gemm_quantised.c: fills the weights so that sums can stay below room (0: no bound). Returns the largest number that A
 * may then have; or, if below 1, the fraction of A's elements that may be nonzero. */
double tg_check_fill_quantised(check_product *p, double room);
/* Writes the weights to out in the problem's layout and returns their bytes. ld: elements from one row (column major:
 * column) to the next. out NULL: only returns the bytes. */
size_t tg_check_lay_weights(const check_product *p, int64_t ld, uint8_t *out);
/* Computes alpha A B + beta C in type acc for a block, by plain C. magnitude (may be NULL) gets
 * |alpha||A||B| + |beta||C|. wide: sums in a type wider than f64. */
void tg_check_sum(const check_product *p, const check_block *block, bool wide, double *sum, double *magnitude);
/* A value of type acc, rounded to type c. */
double tg_check_rounded(const tg_gemm_problem *p, double sum);
/* Freivalds' check of got (M x N integers): false if it is not the product. Then either *row or *column is the index
 * where it is wrong, and the other is -1. */
bool tg_check_freivalds(check_product *p, const double *got, int64_t *row, int64_t *column);
#endif
