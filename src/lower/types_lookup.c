/* SPDX-License-Identifier: MIT
 * Part of pass types: table look-ups. A float made from four bits of an integer, such as f32((x & 15 ^ 8) - 8), is one
 * of sixteen values. If the vector has 16 lanes and the target can permute them, the float is looked up:
 * SHUFFLE(f32((iota & 15 ^ 8) - 8), 16, x). The index counts modulo the lanes, so the mask is dropped as well. */
#include "lower/types_lookup.h"

enum { STEPS = 8 };

static bool is_constant(const tg_uop *u) { return u->op == TG_OP_CONST && u->type != TG_INDEX; }

/* The operand of u that is no constant; all else that u does is the same in every lane. */
static int varying(const tg_uop *u) {
  if (tg_is_float(u->type) || u->type == TG_INDEX || u->type == TG_BOOL) return -1;
  if (u->op == TG_OP_CAST) return tg_is_float(u->src[0]->type) || u->src[0]->type == TG_INDEX ? -1 : 0;
  if (tg_ops[u->op].arity != 2 || !(tg_ops[u->op].flags & TG_OPF_W)) return -1;
  return is_constant(u->src[1]) ? 0 : is_constant(u->src[0]) ? 1 : -1;
}

/* Is u a 32-bit integer below `lanes`, as x & 15 or the highest bits of an unsigned word? */
static bool is_few(const tg_uop *u, uint32_t lanes) {
  if (tg_type_bits(u->type) != 32 || tg_is_float(u->type) || u->n != 2 || !is_constant(u->src[1])) return false;
  if (u->op == TG_OP_AND) return u->src[1]->arg >= 0 && u->src[1]->arg < lanes;
  return u->op == TG_OP_SHR && u->type == TG_U32 && u->src[1]->arg < 32 && (UINT32_MAX >> u->src[1]->arg) < lanes;
}

const tg_uop *tg_lookup(tg_job *j, const tg_target *t, const tg_uop *cast, const tg_uop *value) {
  const tg_uop *step[STEPS], *u = value, *table;
  uint32_t n = 0, lanes = value->lanes;
  if (cast->type != TG_F32 || lanes == 1 || !tg_target_shuffle(t, lanes)) return NULL;
  for (; !is_few(u, lanes); u = u->src[varying(u)]) {
    if (n == STEPS || varying(u) < 0) return NULL;
    step[n++] = u;
  }
  if (u->lanes != lanes) return NULL;
  table = tg_cast(j, u->type, tg_iota(j, TG_INDEX, lanes));
  if (u->op == TG_OP_AND) table = tg_op2(j, TG_OP_AND, table, u->src[1]), u = u->src[0];
  while (n--) {
    const tg_uop *src[2] = {step[n]->src[0], step[n]->n > 1 ? step[n]->src[1] : NULL};
    src[varying(step[n])] = table;
    table = tg_with_sources(j, step[n], src);
  }
  return tg_shuffle(j, tg_cast(j, TG_F32, table), tg_index(j, lanes), tg_cast(j, TG_I32, u));
}
