/* SPDX-License-Identifier: MIT
 * Part of pass reduce: the greatest of floats whose sign bit is clear, such as absolute values, is the greatest of
 * their bits: integers order them alike, NaN above infinity. That is one instruction, where a maximum of floats that
 * keeps NaN is three to six. */
#include <math.h>
#include "lower/sweep.h"

enum { DEEPEST = 16 };

/* Is the sign bit clear for every value, NaN too? */
static bool sign_is_clear(const tg_uop *u, uint32_t depth) {
  if (depth == DEEPEST) return false;
  switch (u->op) {
  case TG_OP_ABS: return true;
  case TG_OP_CONST: return !signbit(tg_const_value(u));
  case TG_OP_MAX: return sign_is_clear(u->src[0], depth + 1) && sign_is_clear(u->src[1], depth + 1);
  case TG_OP_WHERE: return sign_is_clear(u->src[1], depth + 1) && sign_is_clear(u->src[2], depth + 1);
  case TG_OP_CAST:
    if (tg_is_float(u->src[0]->type)) return sign_is_clear(u->src[0], depth + 1);
    return !tg_is_signed(u->src[0]->type) && u->src[0]->type != TG_INDEX;
  default: return false;
  }
}

/* Of no term at all the greatest float is -inf, which no integer of a clear sign bit is. */
static bool has_a_term(tg_job *j, const tg_uop *reduce) {
  for (uint32_t i = 0; i < tg_reduce_info(reduce).ranges; i++)
    if (tg_bounds_of(j, tg_extent(tg_reduce_ranges(reduce)[i])).lo < 1) return false;
  return true;
}

static const tg_uop *by_bits(tg_job *j, const tg_uop *old, const tg_uop *const *src, void *user) {
  (void)user;
  if (old->op != TG_OP_REDUCE || (old->type != TG_F32 && old->type != TG_F64)) return NULL;
  const tg_uop *reduce = tg_with_sources(j, old, src);
  tg_reduce_arg a = tg_reduce_info(reduce);
  if (a.generic || a.op != TG_OP_MAX || !sign_is_clear(reduce->src[0], 0) || !has_a_term(j, reduce)) return reduce;
  const tg_uop *bits = tg_bitcast(j, old->type == TG_F64 ? TG_I64 : TG_I32, reduce->src[0]);
  return tg_bitcast(j, old->type, tg_reduce(j, a, &bits, NULL, NULL, tg_reduce_ranges(reduce)));
}

const tg_uop *tg_extrema_by_bits(tg_job *j, const tg_target *t, const tg_uop *sink) {
  if (!t || tg_target_is_device(t) || tg_target_is_source(t)) return sink;   /* these have the instruction */
  return tg_sweep_map(j, sink, by_bits, NULL);
}
