/* SPDX-License-Identifier: MIT
 * Inside the checks of products: one as numbers (gemm_data.c makes it, and knows what must come out). */
#ifndef TG_CHECKS_PRODUCT_H
#define TG_CHECKS_PRODUCT_H
#include "api/api.h"
#include "dsl/value.h"
#include "checks/gemm.h"

/* Rows and columns of C; NULL: all, in order. */
typedef struct check_block { const int64_t *rows, *columns; int64_t rows_n, columns_n; } check_block;

/* The numbers, row after row, whatever their majors in memory are. They are exact in the types of their operands. */
typedef struct check_product {
  tg_env *env;
  const tg_gemm_problem *problem;
  tg_check_case which;
  double alpha, beta;
  double *a, *b, *c;                           /* M x K, K x N, M x N; c NULL: C is not read */
  /* of quantised weights: b = scale * (whole - zero), and |scale| (|whole| + |zero|); groups x N. NULL: b is no such
   * thing */
  double *whole, *scale, *zero, *b_size;
  int64_t groups;
  double *argument[TG_GEMM_ARGUMENTS];
  int64_t argument_n[TG_GEMM_ARGUMENTS];
  bool endless;                                /* infinity or NaN is among A and B, so no term may be left out */
  uint64_t state;                              /* of the random numbers */
} check_product;

/* Data that suit the check; the rest of p is filled in. */
void tg_check_fill(check_product *p);
/* gate_quantised.c: the weights, for sums below room (0: any numbers); the largest number that A may have then, or,
 * below 1, the part of the terms that may be there. */
double tg_check_fill_quantised(check_product *p, double room);
/* As they lie in memory; ld: elements from a row (or column) to the next. NULL out: how many bytes those are. */
size_t tg_check_lay_weights(const check_product *p, int64_t ld, uint8_t *out);
/* alpha A B + beta C in type acc, for a block, by plain C; magnitude (may be NULL): |alpha||A||B| + |beta||C|. wide:
 * in more than f64. */
void tg_check_sum(const check_product *p, const check_block *block, bool wide, double *sum, double *magnitude);
/* A value of type acc as one of type c. */
double tg_check_rounded(const tg_gemm_problem *p, double sum);
/* Do the rows and columns of got (M x N whole numbers) agree with A, B and C? False: row or column (the other -1)
 * tell where not. */
bool tg_check_freivalds(check_product *p, const double *got, int64_t *row, int64_t *column);
#endif
