/* SPDX-License-Identifier: MIT
 * The words of a schedule, parsed and printed; docs/schedules.md explains each. */
#ifndef TG_SCHEDULE_H
#define TG_SCHEDULE_H
#include "lower/lower.h"

typedef enum {
#define OPT(constant, word, operands, apply, change, meaning) TG_OPT_##constant,
#include "schedule/opts.def"
#undef OPT
  TG_OPT__COUNT
} tg_opt_word;

enum { TG_CUT_AT, TG_CUT_FIRST, TG_CUT_LAST, TG_CUT_AUTO };   /* number[0] of cut; order as in opts.def */

enum { TG_STAGE_RANGES = 4 };

typedef struct tg_opt {
  tg_opt_word word;
  tg_pos pos;
  uint32_t n;
  const char *names[16];     /* n ranges and buffers, as in the text; of contract: i, j, k, NULL if left out */
  /* in the order of the row's operands, 0 if left out; of stage: pitch, space, align, depth */
  int64_t number[4];
  uint32_t sizes;            /* of split: length of its list of sizes; 0: it has the one size number[0] */
  int64_t size[8];
  /* cut: the position; specialize: the condition; stage: the subscripts of the copy; contract: the instruction */
  const char *expr;
  const char *type, *fill, *with;   /* of stage; NULL if left out */
  const char *of[TG_STAGE_RANGES];  /* of stage: ranges, of whose iterations it is a copy, up to a NULL */
  const char *tile;                 /* of order: the register tile for a sum in blocks; NULL if left out */
} tg_opt;

struct tg_schedule;
typedef void tg_opt_fn(struct tg_schedule *s, const tg_opt *o);
typedef struct { const char *word, *operands; tg_opt_fn *apply; const char *change, *meaning; } tg_opt_row;
extern const tg_opt_row tg_opt_rows[TG_OPT__COUNT];   /* opts.def */
const char *tg_opt_usage(tg_env *env, tg_opt_word word);   /* "split r n|{n, ..} [clip] [as r0 r1]" */

tg_opt tg_opt_parse(tg_job *j, const char *text, tg_pos pos);   /* fails at pos */
const char *tg_opt_text_of(tg_job *j, const tg_opt *o);
/* Applies one opt to a plain program, or fails with the reason why it is illegal, at o->pos. */
const tg_uop *tg_opt_apply(tg_job *j, const tg_lowering *l, const tg_uop *plain, const tg_opt *o);
#endif
