/* SPDX-License-Identifier: MIT
 * End of pass index: fits the asynchronous copies of rings.c to the instruction. It copies 4, 8 or 16 bytes per
 * thread, aligned to that size on both sides, and writes zeros if the source is gated off. So copies of adjacent
 * elements under the same gates are joined, and copies that are too narrow, or no longer plain copies, become ordinary
 * stores. (Bases are assumed to be 16-byte aligned: LOCAL memory is, and the entry point uses narrower copies for
 * global buffers that are not.)
 *
 * Elements of a row that begins anywhere become vectors of a unit, which are loads and stores through registers. What
 * is copied need not be there before the next wait, so their stores stand behind the computation that the copy runs
 * beside, and their loads ahead of it. */
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

/* Does v copy the element at a distance of `by` elements after that of u, whether or not the source has it? */
static bool is_beside(tg_job *j, const tg_uop *u, const tg_uop *v, int64_t by) {
  if (!is_copy(j, v) || v->src[0] != u->src[0] || tg_stored(v)->src[0] != tg_stored(u)->src[0]) return false;
  if (tg_gate(u) != tg_gate(v) || !tg_gate(tg_stored(u)) != !tg_gate(tg_stored(v))) return false;
  place to = place_of(u->src[1]), from = place_of(tg_stored(u)->src[1]), to2 = place_of(v->src[1]),
        from2 = place_of(tg_stored(v)->src[1]);
  return to.base == to2.base && from.base == from2.base && to2.constant - to.constant == by &&
         from2.constant - from.constant == by;
}

static bool follows(tg_job *j, const tg_uop *u, const tg_uop *v, int64_t by) {
  return is_beside(j, u, v, by) && tg_gate(tg_stored(u)) == tg_gate(tg_stored(v));
}

static const tg_uop *lanes_from(tg_job *j, const tg_uop *offset, uint32_t n) {
  return n == 1 ? offset : tg_op2(j, TG_OP_ADD, offset, tg_iota(j, offset->type, n));
}

/* The copy of n elements from u on, whose gates together are `gate`. */
static const tg_uop *copy_of(tg_job *j, const tg_uop *u, uint32_t n, const tg_uop *gate, int64_t flags) {
  const tg_uop *v = tg_stored(u), *from = lanes_from(j, v->src[1], n), *to = lanes_from(j, u->src[1], n);
  v = tg_load(j, v->src[0], &from, gate, tg_alternative(v), v->arg & ~(int64_t)TG_GATED);
  const tg_uop *made = tg_store(j, u->src[0], &to, v, tg_gate(u), flags & ~(int64_t)TG_GATED);
  tg_set_pos(j, made, tg_get_pos(j, u));
  return made;
}

static const tg_uop *widened(tg_job *j, const tg_uop *u, uint32_t n) {
  int64_t bytes = n * (int64_t)tg_type_bytes(tg_stored(u)->type);
  tg_assert(&j->env, bytes == 4 || bytes == 8 || bytes == 16);   /* what the instruction copies */
  return copy_of(j, u, n, tg_gate(tg_stored(u)), u->arg);
}

/* ---- rows that begin anywhere ---- */

/* Constants, or sums with them, in arithmetic progression: first + (0, 1, ..) * step; NULL: they are not. */
static const tg_uop *progression(tg_job *j, const tg_uop *const *one, uint32_t n) {
  place first = place_of(one[0]);
  int64_t step = place_of(one[1]).constant - first.constant;
  if (one[1] == one[0]) step = 0;
  for (uint32_t i = 1; i < n; i++) {
    place p = place_of(one[i]);
    if (step ? p.base != first.base || p.constant - first.constant != i * step : one[i] != one[0]) return NULL;
  }
  if (!step) return one[0];
  const tg_uop *by = tg_iota(j, one[0]->type, n), *base = tg_const_int(j, by->type, first.constant);
  if (step != 1) by = tg_op2(j, TG_OP_MUL, by, tg_const_int(j, by->type, step));
  return tg_op2(j, TG_OP_ADD, first.base ? tg_op2(j, TG_OP_ADD, first.base, base) : base, by);
}

/* x < c + 1 in the first lanes and x < c in the others is what rules make of n x + lane < n c + first lanes. c < x
 * likewise. NULL: it is something else. */
static const tg_uop *of_divided(tg_job *j, const tg_uop *const *one, uint32_t n) {
  const bool upper = one[0]->src[1]->op == TG_OP_CONST;
  const tg_uop *x = one[0]->src[!upper];
  int64_t high = one[0]->src[upper]->arg;
  uint32_t first = 0;
  if (one[0]->src[upper]->op != TG_OP_CONST) return NULL;
  while (first < n && one[first] == one[0]) first++;
  for (uint32_t i = first; i < n; i++)
    if (one[i]->src[!upper] != x || one[i]->src[upper]->op != TG_OP_CONST || one[i]->src[upper]->arg != high - 1)
      return NULL;
  const tg_uop *size = tg_const_int(j, x->type, n), *lane = tg_iota(j, x->type, n);
  const tg_uop *at = tg_op2(j, TG_OP_ADD, tg_op2(j, TG_OP_MUL, x, size), lane);
  const tg_uop *end = tg_const_int(j, x->type, upper ? n * (high - 1) + first : n * high + first - 1);
  return upper ? tg_op2(j, TG_OP_LT, at, end) : tg_op2(j, TG_OP_LT, end, at);
}

/* One comparison of n lanes for n scalar ones of the same; NULL: they are not. */
static const tg_uop *comparison(tg_job *j, const tg_uop *const *one, uint32_t n) {
  const tg_uop *side[2][WIDEST], *part[2];
  for (uint32_t s = 0; s < 2; s++) {
    for (uint32_t i = 0; i < n; i++) side[s][i] = one[i]->src[s];
    part[s] = progression(j, side[s], n);
  }
  return part[0] && part[1] ? tg_op2(j, TG_OP_LT, part[0], part[1]) : of_divided(j, one, n);
}

enum { MOST_CONDITIONS = 8 };

typedef struct { const tg_uop *u[MOST_CONDITIONS]; uint32_t n; } conditions;

static bool add_conditions(const tg_uop *gate, conditions *c) {
  if (gate->op == TG_OP_AND) return add_conditions(gate->src[0], c) && add_conditions(gate->src[1], c);
  if (c->n == MOST_CONDITIONS) return false;
  c->u[c->n++] = gate;
  return true;
}

/* Takes the condition that is u, or compares the same, out of the list; NULL: there is none. */
static const tg_uop *take(conditions *c, const tg_uop *u) {
  for (uint32_t same = 2; same-- > 0;)
    for (uint32_t i = 0; i < c->n; i++) {
      const tg_uop *v = c->u[i];
      bool alike = v->op == TG_OP_LT && u->op == TG_OP_LT && tg_is_int(v->src[0]->type) &&
                   place_of(v->src[0]).base == place_of(u->src[0]).base &&
                   place_of(v->src[1]).base == place_of(u->src[1]).base;
      if (same ? v != u : !alike) continue;
      c->u[i] = c->u[--c->n];
      return v;
    }
  return NULL;
}

/* One gate of n lanes for n scalar ones whose conditions are alike; NULL: they are not. */
static const tg_uop *together(tg_job *j, const tg_uop *const *gate, uint32_t n) {
  conditions all[WIDEST] = {{.n = 0}};
  const tg_uop *joined = NULL, *one[WIDEST];
  for (uint32_t i = 0; i < n; i++)
    if (!add_conditions(gate[i], &all[i]) || all[i].n != all[0].n) return NULL;
  conditions first = all[0];
  for (uint32_t k = 0; k < first.n; k++) {
    bool same = true;
    for (uint32_t i = 0; i < n; i++) {
      if (!(one[i] = take(&all[i], first.u[k]))) return NULL;
      same &= one[i] == one[0];
    }
    const tg_uop *v = same ? one[0] : comparison(j, one, n);
    if (!v) return NULL;
    joined = joined ? tg_op2(j, TG_OP_AND, joined, v) : v;
  }
  return joined;
}

/* The store of n elements, a whole unit of LOCAL memory, from one vector of the source, of which some may be missing;
 * NULL: they are no such unit. */
static const tg_uop *of_unit(tg_job *j, const tg_uop *const *u, uint32_t n) {
  const tg_uop *gate[WIDEST], *all = NULL;
  for (uint32_t i = 0; i < n; i++) {
    if (!is_beside(j, u[0], u[i], i)) return NULL;
    gate[i] = tg_gate(tg_stored(u[i]));
  }
  if (!aligned(j, place_of(u[0]->src[1]), n) || (gate[0] && !(all = together(j, gate, n)))) return NULL;
  return copy_of(j, u[0], n, all, u[0]->arg & ~(int64_t)TG_ASYNC);
}

static const tg_uop *as_store(tg_job *j, const tg_uop *u) {
  const tg_uop *made = tg_make(j, TG_OP_STORE, TG_VOID, 1, u->arg & ~(int64_t)TG_ASYNC, u->n, u->src);
  tg_set_pos(j, made, tg_get_pos(j, u));
  return made;
}

static const tg_uop *widen(tg_job *j, const tg_uop *u) {
  const tg_uop **list = tg_new(&j->env, const tg_uop *, u->n + 1), **last = tg_new(&j->env, const tg_uop *, u->n + 1);
  bool loop = u->op == TG_OP_END;
  uint32_t n = 0, late = 0, waits = 0;   /* waits: place behind the last wait, or 0 */
  for (uint32_t i = loop; i < u->n; i++)
    if (u->src[i]->op == TG_OP_WAIT) waits = i + 1;
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
      const tg_uop *unit = step || bytes >= NARROWEST || i + WIDEST / bytes > u->n
                               ? NULL : of_unit(j, u->src + i, WIDEST / bytes);
      if (unit) {
        step = WIDEST / bytes;
        if (waits && waits <= i) {
          last[late++] = unit;
          continue;
        }
      }
      x = unit ? unit : step ? widened(j, x, step) : as_store(j, x);
      if (!step) step = 1;
    }
    list[n++] = x;
  }
  if (late) memcpy(list + n, last, late * sizeof *last);
  n += late;
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
