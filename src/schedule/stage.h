/* SPDX-License-Identifier: MIT
 * What the two ways to stage a buffer share, in a loop (stage.c) and ahead of the kernel (pack.c): spaces, types,
 * layouts. */
#ifndef TG_STAGE_H
#define TG_STAGE_H
#include "schedule/opt.h"

/* as in the text; 0: not said */
enum { TG_STAGE_LOCAL = 1, TG_STAGE_REG, TG_STAGE_THREAD, TG_STAGE_TEAM, TG_STAGE_PACKED };

/* Dimensions of the copy are digits of the offsets into the part: offset / div % mod; mod 0: the highest. by_mod not 0:
 * a swizzled one, whose place is the digit ^ (offset of dimension `by` / by_div % by_mod). */
typedef struct {
  uint32_t dim, by;
  int64_t div, mod, extent, by_div, by_mod;
  bool checked;
} tg_digit;
typedef struct { uint32_t n; tg_digit digit[16]; } tg_digits;
/* subscript: by dimension, whose ranges name it; as in one of the loads that the copy is for */
typedef struct { const tg_uop *const *subscript; uint32_t rank; int64_t extent[16]; } tg_stage_part;
tg_digits tg_digits_parse(tg_schedule *s, const tg_opt *o, const tg_stage_part *part);
/* Where an element lies in the digit's dimension, by the offsets of all dimensions. */
const tg_uop *tg_digits_place(tg_schedule *s, const tg_digit *g, const tg_uop *const *offset);
/* The same from the digit's value. */
const tg_uop *tg_digits_swizzled(tg_schedule *s, const tg_digit *g, const tg_uop *value, const tg_uop *const *offset);

/* The copy's type, and its value outside of the source, or an error at the opt. */
tg_type tg_stage_type(tg_schedule *s, const tg_opt *o, tg_type from);
const tg_uop *tg_stage_fill(tg_schedule *s, const tg_opt *o, tg_type t);
/* through.c: an expression of one load of source and constants, `through`: its load, or NULL; is another one the
 * same but for the load's subscripts; and the expression of x instead of the load (x a constant: its value). */
const tg_uop *tg_through_load(const tg_uop *through, const tg_uop *source);
bool tg_through_same(const tg_uop *a, const tg_uop *b);
const tg_uop *tg_through_apply(tg_job *j, const tg_rules *rules, const tg_uop *through, const tg_uop *x);
/* A load whose value is clamped on its way to a subscript: the load, or NULL; the clamp of an x of the source's type;
 * is another one the same but for the load. */
const tg_uop *tg_clamped_load(tg_job *j, const tg_uop *u, const tg_uop *source);
const tg_uop *tg_clamp_apply(tg_job *j, const tg_uop *clamp, const tg_uop *x);
bool tg_clamp_same(const tg_uop *a, const tg_uop *b);

/* Of a buffer that the loop only adds to (stage_sums.c); false, and nothing is done: it does not. */
bool tg_stage_sums(tg_schedule *s, const tg_opt *o, const tg_uop *source);
void tg_stage_packed(tg_schedule *s, const tg_opt *o, const tg_uop *source);

/* with.c: S[kept..] = op over the summed dimensions of value, an expression over `element`, a load of the source by
 * ARGs. */
typedef struct {
  const tg_uop *source, *value, *element;
  const char *name;
  tg_op op;
  uint32_t rank, kept[16];
  bool summed[16];
} tg_stage_sum;
typedef struct { tg_schedule *s; const tg_stage_sum *sum; const tg_uop *define; uint32_t found; } tg_replaced_sums;
tg_stage_sum tg_stage_sum_parse(tg_schedule *s, const tg_opt *o, const tg_uop *source);
const tg_uop *tg_stage_sum_define(tg_schedule *s, const tg_opt *o, const tg_stage_sum *sum, bool output);
const tg_uop *tg_stage_sum_statement(tg_schedule *s, const tg_opt *o, const tg_stage_sum *sum, const tg_uop *target);
tg_map_fn tg_stage_sum_replace;   /* user: a tg_replaced_sums */
#endif
