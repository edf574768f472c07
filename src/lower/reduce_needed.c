/* SPDX-License-Identifier: MIT
 * Part of pass reduce: will a reduction be used? The answer is an expression that can be evaluated before the loops
 * around its uses: 1 if the loops around one of its uses run (and for a use inside another reduction, if that one is
 * used), else 0. Works on a versioned program. */
#include "lower/sweep.h"

typedef struct { tg_job *j; const tg_uop *reduce; uint32_t *seen, epoch; } search;
typedef TG_VEC(const tg_uop *) nodes;

/* Do the roots use the reduction directly, not through the value of another reduction? met gets these other
 * reductions. */
static bool used_directly(search *s, uint32_t n, const tg_uop *const *roots, nodes *met) {
  nodes stack = {0};
  s->epoch++;
  for (uint32_t i = 0; i < n; i++) tg_push(&s->j->env, &stack, roots[i]);
  while (stack.n) {
    const tg_uop *u = stack.data[--stack.n];
    if (s->seen[u->id] == s->epoch) continue;
    s->seen[u->id] = s->epoch;
    if (u == s->reduce) return true;
    bool other = u->op == TG_OP_REDUCE;
    if (other) tg_push(&s->j->env, met, u);
    /* of another reduction visit only its ranges */
    uint32_t from = other ? u->n - tg_reduce_info(u).ranges : 0, to = u->op == TG_OP_AFTER ? 1 : u->n;
    for (uint32_t i = from; i < to; i++) tg_push(&s->j->env, &stack, u->src[i]);
  }
  return false;
}

static const tg_uop *both(tg_job *j, const tg_uop *a, const tg_uop *b) {
  return tg_is_const(a, 1) ? b : tg_is_const(b, 1) ? a : tg_op2(j, TG_OP_MIN, a, b);
}

static const tg_uop *either(tg_job *j, const tg_uop *a, const tg_uop *b) {
  if (tg_is_const(a, 0) || tg_is_const(b, 1)) return b;
  return tg_is_const(b, 0) || tg_is_const(a, 1) ? a : tg_op2(j, TG_OP_MAX, a, b);
}

static const tg_uop *runs(tg_job *j, const tg_uop *range) {
  const tg_uop *extent = tg_extent(range);
  if (tg_bounds_of(j, extent).lo >= 1) return tg_index(j, 1);
  return tg_op2(j, TG_OP_MAX, tg_op2(j, TG_OP_MIN, extent, tg_index(j, 1)), tg_index(j, 0));
}

static const tg_uop *needed_by(search *s, uint32_t n, const tg_uop *const *roots) {
  tg_job *j = s->j;
  nodes met = {0};
  const tg_uop *needed = tg_index(j, 0);
  if (used_directly(s, n, roots, &met)) return tg_index(j, 1);
  for (uint32_t i = 0; i < met.n && !tg_is_const(needed, 1); i++) {
    uint32_t ranges = tg_reduce_info(met.data[i]).ranges;
    const tg_uop *inside = needed_by(s, met.data[i]->n - ranges, met.data[i]->src);
    for (uint32_t k = 0; k < ranges && !tg_is_const(inside, 0); k++)
      inside = both(j, inside, runs(j, tg_reduce_ranges(met.data[i])[k]));
    needed = either(j, needed, inside);
  }
  return needed;
}

static const tg_uop *needed_in(search *s, const tg_uop *u) {
  if (u->op != TG_OP_END) return needed_by(s, u->op == TG_OP_DEFINE ? 0 : u->n, u->src);
  const tg_uop *extent = tg_extent(u->src[0]), *needed = needed_by(s, 1, &extent), *inside = tg_index(s->j, 0);
  for (uint32_t i = 1; i < u->n && !tg_is_const(inside, 1); i++) inside = either(s->j, inside, needed_in(s, u->src[i]));
  if (tg_is_const(inside, 0)) return needed;
  return either(s->j, needed, both(s->j, inside, runs(s->j, u->src[0])));
}

const tg_uop *tg_needed(tg_job *j, uint32_t n, const tg_uop *const *statements, const tg_uop *reduce) {
  search s = {.j = j, .reduce = reduce, .seen = tg_new(&j->env, uint32_t, j->uops.n)};
  const tg_uop *needed = tg_index(j, 0);
  for (uint32_t i = 0; i < n; i++) needed = either(j, needed, needed_in(&s, statements[i]));
  return needed;
}
