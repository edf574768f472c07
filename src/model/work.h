/* SPDX-License-Identifier: MIT
 * The work in a program as written (number of operations), and how exactly its results can be checked. */
#ifndef TG_WORK_H
#define TG_WORK_H
#include "ranges/ranges.h"

typedef struct tg_work_size {
  /* operations on values, with loop-invariant ones hoisted and counted once, and loops at their maximum length */
  double ops;
  double least_ops;      /* lower bound: operations that no compiler can remove */
  bool conditional;      /* some operations may not happen, so ops is an upper bound */
  bool integers;         /* no floats: results do not depend on the order of evaluation */
  /* if every float input is an integer of at most this magnitude, every float result is exact in any order of
   * summation; 0: no magnitude ensures that */
  double span;
  /* each float operation is rounded by itself under every schedule, so results are the same bits: there are no
   * reductions, no multiply-adds that could be fused, and no functions such as exp */
  bool single;
  int least_bytes;       /* of the narrowest type that is loaded */
} tg_work_size;

/* u with its parameters replaced by constants of the parameters' types. params NULL: u itself. */
const tg_uop *tg_with_params(tg_job *j, const tg_uop *u, const int64_t *params);
/* sink: the program after pass raise. params: values by ordinal, or NULL: at their maximum. */
tg_work_size tg_work_of(tg_job *j, const tg_uop *sink, const int64_t *params);
#endif
