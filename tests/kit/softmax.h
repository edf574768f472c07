/* SPDX-License-Identifier: MIT
 * An operation for engines in a few lines over kernels/kit: y[m,n] = epilogue(exp(x[m,n] - max of the row) / sum of the
 * row) of dense f32. */
#ifndef TG_TEST_SOFTMAX_H
#define TG_TEST_SOFTMAX_H
#include "kit/plan.h"

typedef struct softmax_desc {   /* zero means default */
  tg_dim rows, columns;
  const char *epilogue;         /* over acc, m, n and arguments */
  tg_kit_given arg[TG_KIT_ARGUMENTS];
  int32_t threads;
} softmax_desc;

typedef struct softmax_call {
  int64_t rows, columns;        /* where the descriptor has a range */
  const float *x;
  float *y;
  const void *arg[TG_KIT_ARGUMENTS];
  int64_t arg_ld[TG_KIT_ARGUMENTS];
  void *workspace;
  size_t workspace_bytes;
  const tg_exec *exec;
  int32_t threads;
} softmax_call;

typedef struct softmax softmax;
tg_status softmax_plan(tg_context *c, const softmax_desc *d, size_t desc_bytes, softmax **out);
size_t softmax_workspace(const softmax *s, const softmax_call *call);   /* NULL: for any */
tg_status softmax_run(const softmax *s, const softmax_call *call, size_t call_bytes);
void softmax_free(softmax *s);
#endif
