/* SPDX-License-Identifier: MIT
 * Part of pass raise: a tile whose elements are all scaled alike, and of which the greatest is subtracted, as scores of
 * attention are, is kept without the scale:
 *
 *   s[i,j] = x * 0.125; .. max(j, s[i,j]) .. exp2(s[i,j] - z)      becomes
 *   s[i,j] = x;         .. max(j, s[i,j]) * 0.125 .. exp2(s[i,j] * 0.125 - z)
 *
 * so that pass fma makes one instruction of the scale and the difference. Rounding is monotone: the greatest of
 * products with a positive number is the product with the greatest, bit for bit, NaN and signs of zeros as well. */
#include <math.h>
#include "lower/sweep.h"

typedef struct {
  const tg_uop *scale;   /* NULL: none yet */
  uint32_t differences, maxima;
  bool other;            /* something else stores or reads it */
} tile;

static bool is_scale(const tg_uop *u) {
  return u->op == TG_OP_CONST && u->type == TG_F32 && tg_const_value(u) > 0 && isfinite(tg_const_value(u));
}

/* The scale of what is stored; -inf, of elements that a mask leaves out, is itself for every scale. */
static const tg_uop *scale_of(const tg_uop *v) {
  if (v->type != TG_F32) return NULL;
  if (v->op == TG_OP_WHERE && v->src[2]->op == TG_OP_CONST && tg_const_value(v->src[2]) == -INFINITY) v = v->src[1];
  if (v->op != TG_OP_MUL) return NULL;
  return is_scale(v->src[1]) ? v->src[1] : is_scale(v->src[0]) ? v->src[0] : NULL;
}

static const tg_uop *unscaled(tg_job *j, const tg_uop *v, const tg_uop *scale) {
  if (v->op == TG_OP_WHERE) return tg_op3(j, TG_OP_WHERE, v->src[0], unscaled(j, v->src[1], scale), v->src[2]);
  return v->src[v->src[0] == scale];
}

static tile *tile_of(tg_job *j, tile *all, const tg_uop *access) {
  return tg_buffer_info(j, access->src[0])->space == TG_SPACE_REG ? &all[tg_buffer_ordinal(access->src[0])] : NULL;
}

static bool is_max(const tg_uop *u) {
  return u->op == TG_OP_REDUCE && !tg_reduce_info(u).generic && tg_reduce_info(u).op == TG_OP_MAX;
}

static bool is_sum(const tg_uop *u) { return u->op == TG_OP_ADD || u->op == TG_OP_SUB; }

static void look(tg_job *j, tile *all, const tg_uop *u) {
  tile *t = u->op == TG_OP_STORE ? tile_of(j, all, u) : NULL;
  const tg_uop *scale = t ? scale_of(tg_stored(u)) : NULL;
  if (t) t->other |= !scale || u->arg & TG_ATOMIC || (t->scale && t->scale != scale), t->scale = scale;
  for (uint32_t i = 0; i < u->n; i++) {
    if (u->src[i]->op != TG_OP_LOAD || !(t = tile_of(j, all, u->src[i]))) continue;
    t->differences += is_sum(u), t->maxima += is_max(u);
    t->other |= tg_gate(u->src[i]) || !(is_sum(u) || (is_max(u) && !i));
  }
}

static const tg_uop *scale_later(tg_job *j, const tg_uop *old, const tg_uop *const *src, void *user) {
  tile *all = user, *t;
  if (old->op == TG_OP_STORE && (t = tile_of(j, all, old)) && !t->other) {
    const tg_uop *now = tg_with_sources(j, old, src);
    return tg_store(j, now->src[0], now->src + 1, unscaled(j, tg_stored(now), t->scale), tg_gate(now),
                    now->arg & ~(int64_t)TG_GATED);
  }
  if (!is_max(old) && !(is_sum(old) && old->type == TG_F32)) return NULL;
  const tg_uop *own[2] = {src[0], is_max(old) ? NULL : src[1]}, *scale = NULL;
  for (uint32_t i = 0; i < 2 && own[i]; i++) {
    if (old->src[i]->op != TG_OP_LOAD || !(t = tile_of(j, all, old->src[i])) || t->other) continue;
    scale = t->scale;
    if (!is_max(old)) own[i] = tg_op2(j, TG_OP_MUL, own[i], scale);
  }
  if (!scale) return NULL;
  return is_max(old) ? tg_op2(j, TG_OP_MUL, tg_with_sources(j, old, src), scale) : tg_with_sources(j, old, own);
}

const tg_uop *tg_scale_later(tg_job *j, const tg_target *target, const tg_uop *plain) {
  if (target && !target->fma) return plain;
  tile *all = tg_new(&j->env, tile, j->buffers.n);
  tg_sweep w = tg_sweep_of(j, plain);
  bool any = false;
  for (uint32_t i = 0; i < w.n; i++) look(j, all, w.u[i]);
  for (uint32_t i = 0; i < j->buffers.n; i++) {
    all[i].other |= !all[i].scale || !all[i].differences || !all[i].maxima;
    any |= !all[i].other;
  }
  return any ? tg_sweep_map(j, plain, scale_later, all) : plain;
}
