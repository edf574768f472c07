/* SPDX-License-Identifier: MIT
 * Inside the gates: a product as numbers (data.c makes it, and knows what must come out), and as memory (gates.c). */
#ifndef TG_GEMM_GATE_H
#define TG_GEMM_GATE_H
#include "api/api.h"
#include "dsl/value.h"
#include "gates/gates.h"

/* Rows and columns of C; NULL: all, in order. */
typedef struct gate_block { const int64_t *rows, *columns; int64_t rows_n, columns_n; } gate_block;

/* The numbers, row after row, whatever their majors in memory are. They are exact in the types of their operands. */
typedef struct gate_product {
  tg_env *env;
  const tg_gemm_problem *problem;
  tg_gate_case which;
  double alpha, beta;
  double *a, *b, *c;                           /* M x K, K x N, M x N; c NULL: C is not read */
  double *whole, *scale, *zero, *b_size;       /* of quantised weights: b = scale * (whole - zero), and |scale| (|whole| + |zero|); groups x N. NULL: b is no such thing */
  int64_t groups;
  double *argument[TG_GEMM_ARGUMENTS];
  int64_t argument_n[TG_GEMM_ARGUMENTS];
  bool endless;                                /* infinity or NaN is among A and B, so no term may be left out */
  uint64_t state;                              /* of the random numbers */
} gate_product;

/* Bits of a number's significand: whole numbers up to 2^bits are exact. */
int tg_gate_bits(tg_type t);
uint64_t tg_gate_random(gate_product *p);
/* Data that suit the gate; the rest of p is filled in. */
void tg_gate_fill(gate_product *p);
/* gate_quantised.c: the weights, for sums below room (0: any numbers); the largest number that A may have then, or, below 1, the part of the terms that may be there. */
double tg_gate_fill_quantised(gate_product *p, double room);
/* As they lie in memory; ld: elements from a row (or column) to the next. NULL out: how many bytes those are. */
size_t tg_gate_lay_weights(const gate_product *p, int64_t ld, uint8_t *out);
/* A whole number of 1..most, of either sign where the type has both. */
double tg_gate_whole(gate_product *p, tg_type t, int64_t most);
double tg_gate_unit(gate_product *p, tg_type t);   /* from -1 to 1 */
/* alpha A B + beta C in type acc, for a block, by plain C; magnitude (may be NULL): |alpha||A||B| + |beta||C|. wide: in more than f64. */
void tg_gate_sum(const gate_product *p, const gate_block *block, bool wide, double *sum, double *magnitude);
/* A value of type acc as one of type c. */
double tg_gate_rounded(const tg_gemm_problem *p, double sum);
/* Do the rows and columns of got (M x N whole numbers) agree with A, B and C? False: row or column (the other -1) tell where not. */
bool tg_gate_freivalds(gate_product *p, const double *got, int64_t *row, int64_t *column);
#endif
