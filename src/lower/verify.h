/* SPDX-License-Identifier: MIT
 * The spec of order (verify_order.c): what it is told of the author's program, and the faults that it finds. */
#ifndef TG_VERIFY_H
#define TG_VERIFY_H
#include "lower/lower.h"

struct tg_authored {
  const tg_uop *sink;            /* the earliest form of the program that is available */
  /* sink is of stage `index` or later: subscripts are offsets, so strides cannot be told from sizes */
  bool offsets;
  bool unjudged;                 /* the schedule was applied without a check that it keeps the order */
  uint32_t ranges;               /* number of ranges after pass schedule */
  /* by range ordinal: 1 if the range is in lockstep now but was sequential in the author's program */
  uint8_t *reordered;
  /* the last form without a fault; an unchanged program need not be checked again */
  const tg_uop *held;
};

enum { TG_ORDER_FAULTS = 4 };
typedef struct {
  uint32_t n;
  const tg_uop *at[TG_ORDER_FAULTS], *with[TG_ORDER_FAULTS];
  const char *text[TG_ORDER_FAULTS];
} tg_order_faults;

/* author NULL: the order of the form itself is the author's. out: pairs of accesses at[i], with[i] and what is
 * wrong. */
void tg_find_order_faults(tg_job *j, const tg_uop *sink, const char *stage, const tg_authored *author,
                          tg_order_faults *out);
#endif
