/* SPDX-License-Identifier: MIT
 * Pass functions: replaces each function that the language defines in itself by its definition, for operands of any
 * width. Leaves no RSQRT, EXP, EXP2, LOG, LOG2, SIN, COS, TANH, ERF or POW. The fast functions stay, on f32, where the
 * target computes them by an instruction; those of f16 and bf16 are f32's, rounded. */
#include "dsl/functions.h"
#include "lower/lower.h"

static const tg_uop *expand(tg_job *j, const tg_uop *old, const tg_uop *const *src, void *user) {
  const tg_lowering *l = user;
  if (!tg_is_function(old->op)) return NULL;
  if (!tg_is_fast(old->op) || !tg_fast_functions(l->target) || old->type == TG_F64)
    return tg_function_expand(j, old->op, old->type, src);
  return tg_cast(j, old->type, tg_op1(j, old->op, tg_cast(j, TG_F32, src[0])));
}

const tg_uop *tg_pass_functions(tg_job *j, const tg_lowering *l, const tg_uop *sink) {
  return tg_map(j, sink, expand, NULL, (void *)l);
}
