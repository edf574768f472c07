/* SPDX-License-Identifier: MIT
 * Pass functions: replaces each function that the language defines in itself by its definition, for operands of any
 * width. Leaves no RSQRT, EXP, EXP2, LOG, LOG2, SIN, COS, TANH, ERF or POW. The fast functions stay, on f32, where the
 * target computes them by an instruction; those of f16 and bf16 are f32's, rounded. On devices, whose maximum
 * keeps NaN in one instruction, exp and exp2 of f32 that are rounded to f16 have definitions of fewer steps, and the
 * same bits. */
#include "dsl/functions.h"
#include "lower/sweep.h"

typedef struct {
  const tg_lowering *l;
  const tg_uop **of;   /* by node id, of functions of f32: what they are of */
} state;

static const tg_uop *to_half(tg_job *j, const tg_uop *old, const tg_uop *const *src, const state *s) {
  bool rounded = old->op == TG_OP_CAST && old->type == TG_F16, own = tg_is_function(old->op) && old->type == TG_F16;
  if (!s->l->target || !tg_target_is_device(s->l->target)) return NULL;
  if (own && !tg_is_fast(old->op)) return tg_function_to_half(j, old->op, tg_cast(j, TG_F32, src[0]));
  return rounded && s->of[old->src[0]->id] ? tg_function_to_half(j, old->src[0]->op, s->of[old->src[0]->id]) : NULL;
}

static const tg_uop *expand(tg_job *j, const tg_uop *old, const tg_uop *const *src, void *user) {
  state *s = user;
  const tg_uop *half = to_half(j, old, src, s);
  if (half) return half;
  if (!tg_is_function(old->op)) return NULL;
  if (old->type == TG_F32) s->of[old->id] = src[0];
  if (!tg_is_fast(old->op) || !tg_fast_functions(s->l->target) || old->type == TG_F64)
    return tg_function_expand(j, old->op, old->type, src);
  return tg_cast(j, old->type, tg_op1(j, old->op, tg_cast(j, TG_F32, src[0])));
}

const tg_uop *tg_pass_functions(tg_job *j, const tg_lowering *l, const tg_uop *sink) {
  state s = {l, tg_new(&j->env, const tg_uop *, sink->id + 1)};
  return tg_map(j, sink, expand, NULL, &s);
}
