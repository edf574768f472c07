/* SPDX-License-Identifier: MIT
 * The words of a schedule, parsed and printed; docs/schedules.md explains each. */
#ifndef TG_SCHEDULE_H
#define TG_SCHEDULE_H
#include "lower/lower.h"

typedef enum {
  TG_OPT_SPLIT, TG_OPT_FUSE, TG_OPT_FISSION, TG_OPT_ORDER, TG_OPT_SWAP, TG_OPT_TILE, TG_OPT_UPCAST, TG_OPT_UNROLL, TG_OPT_LANE, TG_OPT_THREAD, TG_OPT_LOCAL, TG_OPT_GROUP, TG_OPT_GLOBAL,
  TG_OPT_STAGE, TG_OPT_PAD, TG_OPT_CUT, TG_OPT_STREAM, TG_OPT_PREFETCH, TG_OPT_SPECIALIZE, TG_OPT_PLACE, TG_OPT_CONTRACT, TG_OPT__COUNT
} tg_opt_word;

enum { TG_CUT_AT, TG_CUT_FIRST, TG_CUT_LAST, TG_CUT_AUTO };   /* number[0] of cut */

typedef struct tg_opt {
  tg_opt_word word;
  tg_pos pos;
  uint32_t n;
  const char *names[16];     /* ranges, buffers, as in the text */
  int64_t number[4];
  uint32_t sizes;            /* of split: of its list, 0 if it has one size */
  int64_t size[8];
  const char *expr;          /* of cut; index text of stage; instruction of contract, whose names are i, j, k, NULL where left out */
  const char *type, *fill, *with;   /* of stage */
} tg_opt;

tg_opt tg_opt_parse(tg_job *j, const char *text, tg_pos pos);   /* fails at pos */
const char *tg_opt_text_of(tg_job *j, const tg_opt *o);
/* Applies one opt to a plain program, or fails with the reason why it is illegal, at o->pos. */
const tg_uop *tg_opt_apply(tg_job *j, const tg_lowering *l, const tg_uop *plain, const tg_opt *o);
#endif
