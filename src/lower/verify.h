/* SPDX-License-Identifier: MIT
 * What the spec's part about order (verify_order.c) is told of the author's program, and what it finds. */
#ifndef TG_VERIFY_H
#define TG_VERIFY_H
#include "lower/lower.h"

struct tg_authored {
  const tg_uop *sink;            /* the earliest form at hand */
  bool offsets;                  /* it is of a stage whose subscripts are offsets: nothing is known of strides */
  bool unjudged;                 /* the words that were applied may break the order */
  uint32_t ranges;               /* how many ranges there were when words had been applied */
  /* by ordinal of these: in lockstep now, where the author's iterations run one after another */
  uint8_t *reordered;
  /* the last form in which no fault was found: most passes leave some programs as they are */
  const tg_uop *held;
};

enum { TG_ORDER_FAULTS = 4 };
typedef struct {
  uint32_t n;
  const tg_uop *at[TG_ORDER_FAULTS], *with[TG_ORDER_FAULTS];
  const char *text[TG_ORDER_FAULTS];
} tg_order_faults;

/* author NULL: the form's own order is the author's. */
void tg_find_order_faults(tg_job *j, const tg_uop *sink, const char *stage, const tg_authored *author,
                          tg_order_faults *out);
#endif
