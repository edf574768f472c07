/* SPDX-License-Identifier: MIT
 * Part of pass reduce: the greatest of floats whose sign bit is clear, such as absolute values, is the greatest of
 * their bits: integers order them alike, NaN above infinity. That is one instruction, where a maximum of floats that
 * keeps NaN is three to six.
 *
 * And argmax and argmin whose terms come in the order of their positions: a term whose place is behind all before it
 * never wins a tie, so that positions need no comparison. An accumulator begins with the lowest place of all, which is
 * the result where no term is greater than -inf. */
#include <math.h>
#include "lower/reduce.h"

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

/* ---- argmax and argmin in order ---- */

/* Is it the combination of an argmax (largest) or argmin of the type, as simplification leaves it? */
static bool finds_extreme(tg_job *j, const tg_rules *rules, const tg_uop *reduce, bool largest) {
  const tg_uop *parts[4];
  tg_extreme_parts(j, reduce->src[0]->type, largest, parts, parts + 2);
  for (int i = 0; i < 4; i++)
    if (reduce->src[2 + i] != parts[i] && reduce->src[2 + i] != tg_simplify(j, rules, parts[i])) return false;
  return true;
}

/* Do places grow from each iteration of the loops, outermost first, to the next? */
static bool grows(tg_job *j, const tg_linear *place, uint32_t n, const tg_uop *const *loop) {
  tg_i128 inside = 0;
  for (uint32_t i = n; i-- > 0;) {
    int64_t step = tg_linear_coefficient(place, loop[i]);
    if (step <= inside) return false;
    if (i) inside += (tg_i128)step * (tg_bounds_of(j, tg_extent(loop[i])).hi - 1);
    if (inside > INT32_MAX) return false;
  }
  return true;
}

/* The term's place, and the condition under which it is one; NULL: it is no such place. */
static const tg_uop *place_of(const tg_uop *value, const tg_uop **gate) {
  if (value->op == TG_OP_WHERE && tg_is_const(value->src[2], INT32_MAX)) *gate = value->src[0], value = value->src[1];
  return value->op == TG_OP_CAST && value->type == TG_I32 && value->src[0]->type == TG_INDEX ? value->src[0] : NULL;
}

const tg_uop *tg_first_place(tg_job *j, const tg_rules *rules, const tg_uop *reduce, uint32_t n,
                             const tg_uop *const *loop, bool *largest) {
  tg_reduce_arg a = tg_reduce_info(reduce);
  const tg_uop *gate = NULL, *zero[TG_REDUCE_RANGES], *place;
  tg_linear l;
  if (!rules || !a.generic || a.values != 2 || reduce->src[1]->type != TG_I32) return NULL;
  /* indices are taken not to wrap, but lanes beyond an end have the greatest there is: a <= b is a < b + 1 to them */
  if (reduce->src[0]->type == TG_INDEX) return NULL;
  *largest = finds_extreme(j, rules, reduce, true);
  if ((!*largest && !finds_extreme(j, rules, reduce, false)) || !has_a_term(j, reduce)) return NULL;
  if (!(place = place_of(reduce->src[1], &gate))) return NULL;
  tg_linear_of(j, place, &l);
  for (uint32_t i = 0; i < l.n; i++) {
    bool own = false;
    for (uint32_t k = 0; k < a.ranges; k++) own |= l.atom[i] == tg_reduce_ranges(reduce)[k];
    if (!own || l.coefficient[i] < 0) return NULL;
  }
  if (l.constant < 0 || tg_linear_bounds(j, &l).hi > INT32_MAX || !grows(j, &l, n, loop)) return NULL;
  for (uint32_t k = 0; k < a.ranges; k++) zero[k] = tg_index(j, 0);
  if (gate && !tg_proves(j, NULL, tg_substitute(j, gate, a.ranges, tg_reduce_ranges(reduce), zero))) return NULL;
  return tg_const_int(j, TG_I32, l.constant);
}

/* Does a term that stands behind the one found so far take its place? */
const tg_uop *tg_beats(tg_job *j, bool largest, const tg_uop *found, const tg_uop *term) {
  const tg_uop *less = largest ? tg_op2(j, TG_OP_LE, term, found) : tg_op2(j, TG_OP_LE, found, term);
  const tg_uop *beats = tg_op1(j, TG_OP_NOT, less);   /* of NaN too, unless NaN was found */
  return tg_is_float(term->type) ? tg_op2(j, TG_OP_AND, beats, tg_op2(j, TG_OP_EQ, found, found)) : beats;
}
