/* SPDX-License-Identifier: MIT
 * The reference for kernels that round: the author's program with f64 in place of every float, in buffers too. The
 * caller passes f64 where the program has floats. A program that uses the bits of floats has no such reference.
 * Programs of f64 cannot be widened; narrowing them to f32 shows how much they round. */
#include "interp/interp.h"

typedef struct { tg_type to; bool none; } retyping;

static const tg_uop *node_of_type(tg_job *j, const tg_uop *old, const tg_uop *const *src, void *user) {
  retyping *r = user;
  bool from = old->n && tg_is_float(old->src[0]->type), to = tg_is_float(old->type);
  if (old->op == TG_OP_BITCAST && (from || to)) r->none = true;
  if (old->op == TG_OP_BITCAST || !to) return NULL;
  if (old->op == TG_OP_CONST) return tg_const_float(j, r->to, tg_const_value(old));
  if (old->op == TG_OP_CAST && from) return src[0];
  const tg_uop *like = tg_with_sources(j, old, src);
  return tg_make(j, like->op, r->to, like->lanes, like->arg, like->n, like->src);
}

static const tg_uop *retyped(tg_job *j, const tg_uop *sink, tg_type to) {
  retyping r = {to, false};
  const tg_uop *other = tg_map(j, sink, node_of_type, NULL, &r);
  return r.none ? NULL : other;
}

const tg_uop *tg_widen(tg_job *j, const tg_uop *sink) { return retyped(j, sink, TG_F64); }
const tg_uop *tg_narrow(tg_job *j, const tg_uop *sink) { return retyped(j, sink, TG_F32); }
