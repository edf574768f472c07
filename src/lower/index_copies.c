/* SPDX-License-Identifier: MIT
 * End of pass index: fits the asynchronous copies of rings.c to the instruction. It copies 4, 8 or 16 bytes per
 * thread, aligned to that size on both sides, and writes zeros if the source is gated off. So copies of adjacent
 * elements under the same gates are joined, and copies that are too narrow, or no longer plain copies, become ordinary
 * stores. (Bases are assumed to be 16-byte aligned: LOCAL memory is, and the entry point uses narrower copies for
 * global buffers that are not.) */
#include "lower/sweep.h"

enum { NARROWEST = 4, WIDEST = 16 };

typedef struct { const tg_uop *base; int64_t constant; } place;   /* base NULL: 0 */

static place place_of(const tg_uop *offset) {
  if (offset->op == TG_OP_CONST) return (place){NULL, offset->arg};
  if (offset->op == TG_OP_ADD && offset->src[1]->op == TG_OP_CONST) return (place){offset->src[0], offset->src[1]->arg};
  return (place){offset, 0};
}

static bool aligned(tg_job *j, place p, int64_t to) {
  if (p.constant % to) return false;
  if (!p.base) return true;
  tg_bounds b = tg_bounds_of(j, p.base);
  return b.multiple % to == 0 && tg_floor_mod(b.offset, to) == 0;
}

static bool is_copy(tg_job *j, const tg_uop *u) {
  if (u->op != TG_OP_STORE || !(u->arg & TG_ASYNC)) return false;
  const tg_uop *v = tg_stored(u);
  if (v->op != TG_OP_LOAD || v->lanes != 1 || u->src[1]->lanes != 1 || tg_buffer_info(j, v->src[0])->role != TG_ROLE_IN)
    return false;
  return !tg_gate(v) || (tg_alternative(v)->op == TG_OP_CONST && !tg_alternative(v)->arg);
}

/* Does v copy the element at a distance of `by` elements after that of u? */
static bool follows(tg_job *j, const tg_uop *u, const tg_uop *v, int64_t by) {
  if (!is_copy(j, v) || v->src[0] != u->src[0] || tg_stored(v)->src[0] != tg_stored(u)->src[0]) return false;
  if (tg_gate(u) != tg_gate(v) || tg_gate(tg_stored(u)) != tg_gate(tg_stored(v))) return false;
  place to = place_of(u->src[1]), from = place_of(tg_stored(u)->src[1]), to2 = place_of(v->src[1]),
        from2 = place_of(tg_stored(v)->src[1]);
  return to.base == to2.base && from.base == from2.base && to2.constant - to.constant == by &&
         from2.constant - from.constant == by;
}

static const tg_uop *lanes_from(tg_job *j, const tg_uop *offset, uint32_t n) {
  return n == 1 ? offset : tg_op2(j, TG_OP_ADD, offset, tg_iota(j, offset->type, n));
}

static const tg_uop *widened(tg_job *j, const tg_uop *u, uint32_t n) {
  const tg_uop *v = tg_stored(u), *from = lanes_from(j, v->src[1], n), *to = lanes_from(j, u->src[1], n);
  int64_t bytes = n * (int64_t)tg_type_bytes(v->type);
  tg_assert(&j->env, bytes == 4 || bytes == 8 || bytes == 16);   /* what the instruction copies */
  v = tg_load(j, v->src[0], &from, tg_gate(v), tg_alternative(v), v->arg & ~(int64_t)TG_GATED);
  const tg_uop *made = tg_store(j, u->src[0], &to, v, tg_gate(u), u->arg & ~(int64_t)TG_GATED);
  tg_set_pos(j, made, tg_get_pos(j, u));
  return made;
}

static const tg_uop *as_store(tg_job *j, const tg_uop *u) {
  const tg_uop *made = tg_make(j, TG_OP_STORE, TG_VOID, 1, u->arg & ~(int64_t)TG_ASYNC, u->n, u->src);
  tg_set_pos(j, made, tg_get_pos(j, u));
  return made;
}

static const tg_uop *widen(tg_job *j, const tg_uop *u) {
  const tg_uop **list = tg_new(&j->env, const tg_uop *, u->n + 1);
  bool loop = u->op == TG_OP_END;
  uint32_t n = 0;
  for (uint32_t i = loop, step; i < u->n; i += step) {
    const tg_uop *x = u->src[i];
    step = 1;
    if (x->op == TG_OP_END) x = widen(j, x);
    else if (x->op == TG_OP_STORE && x->arg & TG_ASYNC) {
      uint32_t bytes = (uint32_t)tg_type_bytes(tg_stored(x)->type), most = 0;
      if (is_copy(j, x))
        for (most = 1; most * bytes < WIDEST && i + most < u->n && follows(j, x, u->src[i + most], most);) most++;
      for (step = WIDEST / bytes; step; step /= 2)
        if (step <= most && step * bytes >= NARROWEST && aligned(j, place_of(x->src[1]), step) &&
            aligned(j, place_of(tg_stored(x)->src[1]), step))
          break;
      x = step ? widened(j, x, step) : as_store(j, x);
      if (!step) step = 1;
    }
    list[n++] = x;
  }
  const tg_uop *made = loop ? tg_end(j, u->src[0], n, list) : tg_sink(j, n, list);
  if (loop) tg_set_pos(j, made, tg_get_pos(j, u));
  return made;
}

static bool has_copies(const tg_uop *u) {
  for (uint32_t i = u->op == TG_OP_END; (u->op == TG_OP_END || u->op == TG_OP_SINK) && i < u->n; i++)
    if (has_copies(u->src[i])) return true;
  return u->op == TG_OP_STORE && u->arg & TG_ASYNC;
}

static const tg_uop *without_waits(tg_job *j, const tg_uop *u) {
  if (u->op != TG_OP_END) return u;
  const tg_uop **list = tg_new(&j->env, const tg_uop *, u->n);
  uint32_t n = 0;
  for (uint32_t i = 1; i < u->n; i++)
    if (u->src[i]->op != TG_OP_WAIT) list[n++] = without_waits(j, u->src[i]);
  const tg_uop *made = tg_end(j, u->src[0], n, list);
  tg_set_pos(j, made, tg_get_pos(j, u));
  return made;
}

const tg_uop *tg_widen_copies(tg_job *j, const tg_uop *sink) {
  sink = widen(j, tg_plain(j, sink));
  const tg_uop **launch = tg_new(&j->env, const tg_uop *, sink->n + 1);
  for (uint32_t i = 0; i < sink->n; i++)
    launch[i] = has_copies(sink->src[i]) ? sink->src[i] : without_waits(j, sink->src[i]);
  return tg_versioned(j, tg_sink(j, sink->n, launch));
}
