/* SPDX-License-Identifier: MIT
 * Pass coalesce: brings the subscripts of vector accesses into the three forms that code generation knows: `base +
 * iota` (contiguous in that dimension), `base` (every lane the same element: a scalar load, whose value stands for all
 * lanes), or a general vector split into its scalar part and its lanes' part. Equal loads thereby become one node.
 * Blocks of gathers become contiguous loads and a transpose (coalesce_transpose.c), loads and stores that fill each
 * other's gaps contiguous ones (coalesce_steps.c, coalesce_stores.c), and where multiply-adds take lanes of vectors,
 * neighbouring factors are lanes of one load (coalesce_lanes.c). What lanes of matrix instructions pick from a piece of
 * memory is loaded as a whole (coalesce_pieces.c). On targets with warps neighbours that no limit divides get one
 * gate. */
#include "lower/sweep.h"

static const tg_uop *sum_of(tg_job *j, const tg_linear *t, bool lanes) {
  const tg_uop *sum = NULL;
  for (uint32_t i = 0; i < t->n; i++) {
    const tg_uop *a = t->atom[i];
    if ((a->lanes > 1) != lanes) continue;
    const tg_uop *x = tg_fold2(j, TG_OP_MUL, a, tg_index(j, t->coefficient[i]));
    sum = sum ? tg_op2(j, TG_OP_ADD, sum, x) : x;
  }
  if (lanes) return sum;
  const tg_uop *c = tg_index(j, t->constant);
  return sum ? tg_fold2(j, TG_OP_ADD, sum, c) : c;
}

static const tg_uop *canonical(tg_job *j, const tg_uop *sub) {
  tg_linear t;
  if (sub->lanes == 1 || sub->op == TG_OP_IOTA) return sub;
  if (sub->op == TG_OP_ADD && sub->src[0]->lanes == 1 && sub->src[1]->op == TG_OP_IOTA) return sub;
  tg_linear_of(j, sub, &t);
  const tg_uop *base = sum_of(j, &t, false), *lanes = sum_of(j, &t, true);
  tg_assert(&j->env, base->lanes == 1 && (!lanes || lanes->lanes == sub->lanes));
  return !lanes ? base : tg_is_const(base, 0) ? lanes : tg_op2(j, TG_OP_ADD, base, lanes);
}

/* FOLD of a value that turned out to be the same in all lanes: the same tree over one value. */
static const tg_uop *fold_uniform(tg_job *j, const tg_uop *fold, const tg_uop *value) {
  tg_op op = fold->arg;
  uint32_t n = fold->src[0]->lanes;
  if (op != TG_OP_ADD && op != TG_OP_MUL) return value;
  const tg_uop **v = tg_new(&j->env, const tg_uop *, n);
  for (uint32_t i = 0; i < n; i++) v[i] = value;
  for (; n > 1; n = (n + 1) / 2)
    for (uint32_t i = 0, h = (n + 1) / 2; i + h < n; i++) v[i] = tg_op2(j, op, v[i], v[i + h]);
  return v[0];
}

/* x + c < n, where x is a multiple of m, is x < n - c rounded up to such: neighbours within a multiple have one gate.
 * */
static const tg_uop *rounded(tg_job *j, const tg_uop *sum, const tg_uop *limit) {
  tg_linear t;
  tg_linear_of(j, sum, &t);
  tg_i128 n = (tg_i128)limit->arg - t.constant;
  t.constant = 0;
  const tg_uop *x = t.n ? sum_of(j, &t, false) : NULL;
  if (!x || x->lanes > 1) return NULL;
  tg_bounds b = tg_bounds_of(j, x);
  if (b.multiple < 2 || b.multiple > INT32_MAX || n > INT64_MAX / 2 || n < INT64_MIN / 2) return NULL;
  int64_t m = (int64_t)b.multiple, over = (int64_t)n - (int64_t)b.offset;
  int64_t up = over + tg_floor_mod(-over, m);
  return tg_op2(j, TG_OP_LT, x, tg_index(j, up + (int64_t)b.offset));
}

/* user: not NULL on a target with warps */
static const tg_uop *visit(tg_job *j, const tg_uop *old, const tg_uop *const *src, void *user) {
  if (user && old->op == TG_OP_LT && src[0]->type == TG_INDEX && old->lanes == 1 && src[1]->op == TG_OP_CONST)
    return rounded(j, src[0], src[1]);
  if (old->op == TG_OP_FOLD && src[0]->lanes == 1) return fold_uniform(j, old, src[0]);
  if (old->op == TG_OP_SHUFFLE && old->src[1]->op == TG_OP_CONST && src[0]->lanes == 1) return src[0];
  if (old->op != TG_OP_LOAD && old->op != TG_OP_STORE) return NULL;
  uint32_t rank = tg_access_rank(old);
  const tg_uop *now[16 + 4];
  bool vector = false, same = true;
  for (uint32_t i = 1; i <= rank; i++) vector |= src[i]->lanes > 1;
  if (!vector) return NULL;
  for (uint32_t i = 0; i < old->n; i++) {
    now[i] = i && i <= rank ? canonical(j, src[i]) : src[i];
    same &= now[i] == src[i];
  }
  if (same) return NULL;
  return tg_with_sources(j, old, now);
}

const tg_uop *tg_pass_coalesce(tg_job *j, const tg_lowering *l, const tg_uop *sink) {
  bool device = l->target && l->target->lanes > 1;
  if (device) sink = tg_pick_pieces(j, sink);
  sink = tg_transpose_gathers(j, tg_sweep_map(j, sink, visit, device ? &device : NULL));
  if (device) return sink;
  if (l->target && l->target->lane_bytes) sink = tg_load_lanes(j, l->target, sink);
  return tg_interleave_stores(j, l->target && l->target->vector_bytes ? tg_share_steps(j, l->target, sink) : sink);
}
