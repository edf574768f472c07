/* SPDX-License-Identifier: MIT
 * The operations of tg/nn.h in float64, and calls of them in memory: each operand between guard pages, with gaps
 * between its rows that nobody may touch. */
#ifndef TG_NN_REFERENCE_H
#define TG_NN_REFERENCE_H
#include "base/guard.h"
#include "nn/operations.h"

typedef struct {
  bool used, written;
  tg_type type;
  int64_t rows, columns, ld;
  double *value;                 /* what is read; of a result: what must come out */
  double *scale;                 /* of a result: the sum of the terms' absolute values that it is made of */
  tg_guarded at;
} nn_operand;

typedef struct {
  tg_nn_desc d;
  int64_t m, n, positions;
  uint64_t seed;
  double spread;                 /* x is within this of 0, or of `centre` */
  double centre;
  nn_operand of[NN_OPERANDS];
} nn_case;

/* Draws all operands of the case, and computes what must come out. */
void nn_case_make(nn_case *c, bool front);
/* The call, without workspace and threads. */
tg_nn_call nn_case_call(nn_case *c);
/* How many elements of the results are wrong, gaps disturbed and operands changed; worst: the largest error over what
 * is allowed. */
int64_t nn_case_wrong(const nn_case *c, double *worst);
/* Fills results with bits of all ones again, and copies in what they take the place of. */
void nn_case_reset(nn_case *c);
void nn_case_free(nn_case *c);
#endif
