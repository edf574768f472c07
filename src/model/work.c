/* SPDX-License-Identifier: MIT
 * How much a program computes, and on which data its float results are exact: integers so small that every partial sum,
 * in any order, stays within the range in which its type represents all integers (2^24 for f32). Only sums, products,
 * maxima, minima and choices turn integers into integers. */
#include <math.h>
#include "dsl/functions.h"
#include "model/work.h"

typedef struct { tg_job *j; const int64_t *params; double *most; double *held; } walk;

static double extent_of(const tg_uop *range, tg_job *j) {
  tg_bounds b = tg_bounds_of(j, tg_extent(range));
  return b.hi < 0 ? 0 : b.hi > ((tg_i128)1 << 60) ? 1e18 : (double)b.hi;
}

static double limit_of(tg_type t) {
  switch (t) {
  case TG_F64: return 0x1p53;
  case TG_F32: return 0x1p24;
  case TG_F16: return 0x1p11;
  case TG_BF16: return 0x1p8;
  case TG_E4M3: return 16;
  case TG_E5M2: return 8;
  default: return INFINITY;   /* integers wrap, the same in any order */
  }
}

/* ---- operations ---- */

static bool counts(const tg_uop *u) {
  if (u->type == TG_INDEX || u->type == TG_VOID || u->type == TG_BOOL || !u->n) return false;
  return u->op != TG_OP_LOAD && u->op != TG_OP_CAST && u->op != TG_OP_AFTER && u->op != TG_OP_DEFINE &&
         u->op != TG_OP_GET && u->op != TG_OP_REDUCE && u->op != TG_OP_WHERE;
}

/* Counts each value once for each combination of the ranges that it depends on, as if loop-invariant values were
 * hoisted. A load depends on the ranges around the stores to its buffer. sure: count a lower bound; then it does not,
 * as each iteration may store the same value. */
static double ops_of(tg_job *j, const tg_uop *const *order, uint32_t n, bool sure, bool *conditional) {
  enum { RANGES = 64 };
  uint64_t *free = tg_new(&j->env, uint64_t, j->uops.n + 1);
  const tg_uop *range[RANGES];
  uint32_t ranges = 0;
  double ops = 0;
  for (uint32_t i = 0; i < n; i++) {
    const tg_uop *u = order[i];
    uint64_t mask = 0, bound = 0;
    for (uint32_t k = 0; k < u->n; k++)
      if (u->op != TG_OP_AFTER || !k || u->src[k]->op == TG_OP_RANGE || !sure) mask |= free[u->src[k]->id];
    if (u->op == TG_OP_RANGE) {
      if (ranges == RANGES) return *conditional = true, 0;
      *conditional |= tg_extent(u)->op != TG_OP_CONST;
      range[ranges] = u;
      mask |= (uint64_t)1 << ranges++;
    }
    for (uint32_t k = 0; u->op == TG_OP_REDUCE && k < tg_reduce_info(u).ranges; k++)
      bound |= free[tg_reduce_ranges(u)[k]->id];
    if (u->op == TG_OP_END) bound |= free[u->src[0]->id];
    *conditional |= u->op == TG_OP_WHERE || ((u->op == TG_OP_LOAD || u->op == TG_OP_STORE) && tg_gate(u));
    free[u->id] = mask & ~bound;
    if (!counts(u) && u->op != TG_OP_REDUCE) continue;
    double times = 1;
    if (u->op == TG_OP_REDUCE) mask = free[u->src[0]->id] | bound;
    for (uint32_t k = 0; k < ranges; k++)
      if (mask >> k & 1) times *= extent_of(range[k], j);
    ops += times;
  }
  return ops;
}

/* ---- exactness ---- */

/* Is this the buffer's version at the start of a loop that stores to it? Then its contents depend on earlier
 * iterations. */
static bool carried(const tg_uop *version) {
  for (; version->op == TG_OP_AFTER; version = version->src[0])
    if (version->src[1]->op == TG_OP_RANGE) return true;
  return false;
}

static double reduce_most(const walk *w, const tg_uop *u) {
  tg_reduce_arg a = tg_reduce_info(u);
  if (a.generic) return INFINITY;
  double m = w->most[u->src[0]->id];
  if (a.op == TG_OP_MAX || a.op == TG_OP_MIN) return m;
  if (a.op != TG_OP_ADD) return tg_is_float(u->type) ? INFINITY : m;
  for (uint32_t i = 0; i < a.ranges; i++) m *= extent_of(tg_reduce_ranges(u)[i], w->j);
  return m;
}

static double most_of(const walk *w, const tg_uop *u, double span) {
  double a = u->n ? w->most[u->src[0]->id] : 0, b = u->n > 1 ? w->most[u->src[1]->id] : 0,
         c = u->n > 2 ? w->most[u->src[2]->id] : 0;
  bool f = tg_is_float(u->type);
  switch (u->op) {
  case TG_OP_CONST:
    if (!f) return u->type == TG_INDEX || tg_is_int(u->type) ? fabs((double)u->arg) : 1;
    if (isinf(tg_const_value(u))) return 0;   /* the initial value of a maximum, or a mask */
    return tg_const_value(u) == rint(tg_const_value(u)) ? fabs(tg_const_value(u)) : INFINITY;
  case TG_OP_RANGE: return extent_of(u, w->j);
  case TG_OP_PARAM:
    return w->params ? fabs((double)w->params[u->arg])
                     : fmax(fabs((double)w->j->params.data[u->arg].lo), fabs((double)w->j->params.data[u->arg].hi));
  case TG_OP_LOAD: {
    const tg_buffer *info = tg_buffer_info(w->j, u->src[0]);
    if (carried(u->src[0]) && f) return INFINITY;
    double held = w->held[tg_buffer_ordinal(u->src[0])];
    if (info->role == TG_ROLE_IN || info->role == TG_ROLE_INOUT) held = fmax(held, info->lo ? 0x1p31 : span);
    return tg_gate(u) ? fmax(held, w->most[u->src[u->n - 1]->id]) : held;
  }
  case TG_OP_ADD: case TG_OP_SUB: return a + b;
  case TG_OP_MUL: return a * b;
  case TG_OP_MAX: case TG_OP_MIN: return fmax(a, b);
  case TG_OP_NEG: return a;
  case TG_OP_CAST: return a;
  case TG_OP_WHERE: return fmax(b, c);
  case TG_OP_REDUCE: return reduce_most(w, u);
  default:
    return f                    ? INFINITY
           : u->type == TG_BOOL ? 1
           : tg_is_int(u->type) ? ldexp(1, tg_type_bits(u->type))
                                : fmax(a, fmax(b, c));
  }
}

static bool exact_at(walk *w, const tg_uop *const *order, uint32_t n, double span) {
  memset(w->held, 0, sizeof *w->held * (w->j->buffers.n + 1));
  for (uint32_t i = 0; i < n; i++) {
    const tg_uop *u = order[i];
    if (u->op == TG_OP_STORE) {
      double *held = &w->held[tg_buffer_ordinal(u->src[0])], m = w->most[tg_stored(u)->id];
      *held = fmax(*held, m);
      continue;
    }
    if (u->op == TG_OP_AFTER || u->op == TG_OP_END || u->op == TG_OP_SINK || u->op == TG_OP_DEFINE ||
        u->type == TG_VOID)
      continue;
    double m = most_of(w, u, span);
    if (tg_is_float(u->type) && !(m <= limit_of(u->type))) return false;
    if (tg_is_int(u->type)) m = fmin(m, ldexp(1, tg_type_bits(u->type)));
    w->most[u->id] = m;
  }
  return true;
}

/* Does the operation give the same bits under every schedule? Not so: reductions of floats, whose order may change;
 * a product in a sum, which may be fused to one multiply-add; functions, whose implementation may change. */
static bool is_single(const tg_uop *u) {
  if (!tg_is_float(u->type)) return true;
  if (u->op == TG_OP_REDUCE)
    return !tg_reduce_info(u).generic && (tg_reduce_info(u).op == TG_OP_MAX || tg_reduce_info(u).op == TG_OP_MIN);
  if (u->op == TG_OP_LOAD) return !carried(u->src[0]);
  for (uint32_t i = 0; i < u->n && (u->op == TG_OP_ADD || u->op == TG_OP_SUB); i++)
    if (u->src[i]->op == TG_OP_MUL || u->src[i]->op == TG_OP_NEG) return false;
  return !tg_is_function(u->op);
}

const tg_uop *tg_with_params(tg_job *j, const tg_uop *u, const int64_t *params) {
  uint32_t n, m = 0;
  if (!params || !j->params.n) return u;
  const tg_uop **order = tg_toposort(j, u, &n), **from = tg_new(&j->env, const tg_uop *, n),
               **to = tg_new(&j->env, const tg_uop *, n);
  for (uint32_t i = 0; i < n; i++) {
    if (order[i]->op != TG_OP_PARAM || order[i]->arg >= j->params.n) continue;
    from[m] = order[i];
    to[m++] = tg_const_int(j, order[i]->type, params[order[i]->arg]);
  }
  return m ? tg_substitute(j, u, m, from, to) : u;
}

tg_work_size tg_work_of(tg_job *j, const tg_uop *sink, const int64_t *params) {
  tg_work_size s = {.integers = true, .single = true, .least_bytes = 8};
  uint32_t n;
  sink = tg_with_params(j, sink, params);
  const tg_uop **order = tg_toposort(j, sink, &n);
  s.ops = ops_of(j, order, n, false, &s.conditional);
  s.least_ops = ops_of(j, order, n, true, &s.conditional);
  for (uint32_t i = 0; i < n; i++) {
    s.integers &= !tg_is_float(order[i]->type);
    s.single &= is_single(order[i]);
    if (order[i]->op == TG_OP_LOAD && tg_type_bytes(order[i]->type) < s.least_bytes)
      s.least_bytes = tg_type_bytes(order[i]->type);
  }
  if (s.integers) return s;
  walk w = {.j = j,
            .params = params,
            .most = tg_new(&j->env, double, j->uops.n + 1),
            .held = tg_new(&j->env, double, j->buffers.n + 1)};
  for (double span = 3; span >= 1 && s.span == 0; span--)
    if (exact_at(&w, order, n, span)) s.span = span;
  return s;
}
