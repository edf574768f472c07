/* SPDX-License-Identifier: MIT
 * The reference for kernels that round: the author's program with f64 in place of every float, its buffers too. The caller gives and gets
 * f64 where the program has floats. A program that looks at the bits of floats has none. */
#include "interp/interp.h"

static const tg_uop *wide_node(tg_job *j, const tg_uop *old, const tg_uop *const *src, void *user) {
  bool *none = user;
  bool from = old->n && tg_is_float((tg_type)old->src[0]->type), to = tg_is_float((tg_type)old->type);
  if (old->op == TG_OP_BITCAST && (from || to)) *none = true;
  if (old->op == TG_OP_BITCAST || !to) return NULL;
  if (old->op == TG_OP_CONST) return tg_const_float(j, TG_F64, tg_const_value(old));
  if (old->op == TG_OP_CAST && from) return src[0];
  const tg_uop *like = tg_with_sources(j, old, src);
  return tg_make(j, like->op, TG_F64, like->lanes, like->arg, like->n, like->src);
}

const tg_uop *tg_widen(tg_job *j, const tg_uop *sink) {
  bool none = false;
  const tg_uop *wide = tg_map(j, sink, wide_node, NULL, &none);
  return none ? NULL : wide;
}
