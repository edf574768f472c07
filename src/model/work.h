/* SPDX-License-Identifier: MIT
 * What a program as written asks of a machine, and of those who check it. */
#ifndef TG_WORK_H
#define TG_WORK_H
#include "ranges/ranges.h"

typedef struct tg_work_size {
  /* operations on values, none done again where a loop before could have kept it; loops at their most */
  double ops;
  double least_ops;      /* those that no compiler can spare itself */
  bool conditional;      /* some may not happen: ops is an upper bound */
  bool integers;         /* no float anywhere: results do not depend on the order of anything */
  /* whole numbers up to this size in every float input keep each float exact, in any order of its sums; 0: none do */
  double span;
  /* floats are rounded one operation at a time, whatever the schedule: none is summed up, or multiplied and added at
   * once, and no function is computed */
  bool single;
  int least_bytes;       /* of the narrowest type that is loaded */
} tg_work_size;

/* u with these values for parameters, whatever type they have there. params NULL: u itself. */
const tg_uop *tg_with_params(tg_job *j, const tg_uop *u, const int64_t *params);
/* sink: the program after pass raise. params: values by ordinal, or NULL: at their most. */
tg_work_size tg_work_of(tg_job *j, const tg_uop *sink, const int64_t *params);
#endif
