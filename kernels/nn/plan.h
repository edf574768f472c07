/* SPDX-License-Identifier: MIT
 * A plan of a small operation: one kernel over rows, and for some gradients one over columns. */
#ifndef TG_NN_PLAN_H
#define TG_NN_PLAN_H
#include "kit/plan.h"
#include "nn/operations.h"

/* Names of run-time parameters: rows, columns, positions, then the leading dimension of each operand. */
enum { NN_M, NN_N, NN_P, NN_LD, NN_VALUES = NN_LD + NN_OPERANDS };
/* The columns' kernel runs first: in place, the rows' kernel overwrites what it reads. */
enum { NN_BY_COLUMNS, NN_BY_ROWS, NN_KERNELS };
enum { NN_TEXT = 4096 };

struct tg_nn {
  tg_kit_plan plan;
  tg_nn_problem problem;
  uint32_t flags;
  uint32_t used, written;        /* operands of calls, one bit for each; those that are written */
  tg_kit_kernel kernel[NN_KERNELS];
  char text[NN_KERNELS * NN_TEXT];
};
#endif
