/* SPDX-License-Identifier: MIT
 * Differentiation of an expression by rules, one for each op: what derivative(e, x) stands for in a program. It goes
 * from the leaves up, so that what e shares its derivative shares too.
 *
 * Where a function has a corner or a step, the derivative is what automatic differentiation elsewhere gives: abs at 0
 * has 0, max and min of equal values half of each, floor, ceil, round and trunc have 0 everywhere, where(c, a, b) that
 * of the arm that is taken, and what is computed in integers has 0. Of bitcasts, shuffles, folds, matrix instructions
 * and reductions other than sums there is none. */
#include "dsl/derivative.h"

typedef struct { const tg_uop *x, *none; } differentiation;

static const tg_uop *number(tg_job *j, const tg_uop *like, double v) { return tg_const_float(j, like->type, v); }
static bool is_number(const tg_uop *u, double v) {
  return u->op == TG_OP_CONST && tg_is_float(u->type) && tg_const_value(u) == v;
}
static bool is_zero(const tg_uop *u) { return is_number(u, 0); }

static const tg_uop *sum(tg_job *j, const tg_uop *a, const tg_uop *b) {
  return is_zero(a) ? b : is_zero(b) ? a : tg_op2(j, TG_OP_ADD, a, b);
}
static const tg_uop *product(tg_job *j, const tg_uop *a, const tg_uop *b) {
  if (is_zero(a) || is_number(b, 1)) return a;
  return is_zero(b) || is_number(a, 1) ? b : tg_op2(j, TG_OP_MUL, a, b);
}
static const tg_uop *scaled(tg_job *j, double v, const tg_uop *a) { return product(j, number(j, a, v), a); }
static const tg_uop *negative(tg_job *j, const tg_uop *a) {
  if (is_zero(a)) return a;
  return a->op == TG_OP_CONST ? number(j, a, -tg_const_value(a)) : tg_op1(j, TG_OP_NEG, a);
}
static const tg_uop *square(tg_job *j, const tg_uop *a) { return tg_op2(j, TG_OP_MUL, a, a); }
static const tg_uop *choice(tg_job *j, const tg_uop *c, const tg_uop *a, const tg_uop *b) {
  return is_zero(a) && is_zero(b) ? a : tg_op3(j, TG_OP_WHERE, c, a, b);
}

bool tg_may_lack_derivative(const tg_uop *u) {
  switch (u->op) {
  case TG_OP_BITCAST: case TG_OP_SHUFFLE: case TG_OP_FOLD: case TG_OP_MATRIX: case TG_OP_GET: case TG_OP_AHEAD:
    return true;
  case TG_OP_REDUCE: return tg_reduce_info(u).generic || tg_reduce_info(u).op != TG_OP_ADD;
  default: return false;
  }
}

/* What is no function of x, or none that has a derivative, is not looked into. */
static const tg_uop *enter(tg_job *j, const tg_uop *u, void *user) {
  differentiation *d = user;
  if (u == d->x) return number(j, u, 1);
  if (!tg_is_float(u->type)) return tg_const_float(j, TG_F32, 0);   /* integers and conditions: nobody uses it */
  if (tg_may_lack_derivative(u)) {
    if (!d->none && tg_uses(j, u, d->x)) d->none = u;
    return number(j, u, 0);
  }
  return u->n && u->op != TG_OP_DEFINE ? NULL : number(j, u, 0);
}

/* ---- the rules ---- */

/* f'(a) for u = f(a). NULL: no function of one argument. */
static const tg_uop *slope_of(tg_job *j, const tg_uop *u, const tg_uop *a) {
  switch (u->op) {
  case TG_OP_ABS: {
    const tg_uop *zero = number(j, a, 0), *below = tg_op2(j, TG_OP_LT, a, zero);
    return choice(j, tg_op2(j, TG_OP_LT, zero, a), number(j, a, 1), choice(j, below, number(j, a, -1), zero));
  }
  case TG_OP_FLOOR: case TG_OP_CEIL: case TG_OP_ROUND: case TG_OP_TRUNC: return number(j, a, 0);
  case TG_OP_SQRT: return tg_op2(j, TG_OP_FDIV, number(j, a, 0.5), u);
  case TG_OP_RSQRT: case TG_OP_FAST_RSQRT: return scaled(j, -0.5, tg_op2(j, TG_OP_MUL, square(j, u), u));
  case TG_OP_FAST_RCP: return negative(j, square(j, u));
  case TG_OP_EXP: return u;
  case TG_OP_EXP2: case TG_OP_FAST_EXP2: return scaled(j, 0.6931471805599453, u);
  case TG_OP_LOG: return tg_op2(j, TG_OP_FDIV, number(j, a, 1), a);
  case TG_OP_LOG2: return tg_op2(j, TG_OP_FDIV, number(j, a, 1.4426950408889634), a);
  case TG_OP_SIN: return tg_op1(j, TG_OP_COS, a);
  case TG_OP_COS: return negative(j, tg_op1(j, TG_OP_SIN, a));
  case TG_OP_TANH: case TG_OP_FAST_TANH: return tg_op2(j, TG_OP_SUB, number(j, a, 1), square(j, u));
  case TG_OP_ERF:
    return scaled(j, 1.1283791670955126, tg_op1(j, TG_OP_EXP, tg_op1(j, TG_OP_NEG, square(j, a))));
  default: return NULL;
  }
}

/* b a^(b - 1), where a to the power 0 is a constant. */
static const tg_uop *power_slope(tg_job *j, const tg_uop *a, const tg_uop *b) {
  const tg_uop *zero = number(j, b, 0), *one = number(j, b, 1);
  bool known = b->op == TG_OP_CONST;
  if (is_zero(b)) return zero;
  const tg_uop *less = known ? number(j, b, tg_const_value(b) - 1) : tg_op2(j, TG_OP_SUB, b, one);
  const tg_uop *slope = product(j, b, is_number(less, 1) ? a : tg_op2(j, TG_OP_POW, a, less));
  return known ? slope : choice(j, tg_op2(j, TG_OP_EQ, b, zero), zero, slope);
}

/* a^b: b a^(b - 1) da + log(a) a^b db, where 0 to the power 0 is a constant, as is 0 to any power above. */
static const tg_uop *power(tg_job *j, const tg_uop *u, const tg_uop *da, const tg_uop *db) {
  const tg_uop *a = u->src[0], *b = u->src[1], *zero = number(j, u, 0), *by_a = zero, *by_b = zero;
  if (!is_zero(da)) by_a = power_slope(j, a, b);
  if (!is_zero(db)) {
    const tg_uop *none = tg_and(j, tg_op2(j, TG_OP_EQ, a, zero), tg_op2(j, TG_OP_LE, zero, b));
    by_b = choice(j, none, zero, tg_op2(j, TG_OP_MUL, u, tg_op1(j, TG_OP_LOG, a)));
  }
  return sum(j, product(j, by_a, da), product(j, by_b, db));
}

static const tg_uop *extreme(tg_job *j, const tg_uop *u, const tg_uop *da, const tg_uop *db) {
  bool largest = u->op == TG_OP_MAX;
  const tg_uop *first = u->src[largest], *second = u->src[!largest];   /* first < second: that of source 0 is taken */
  const tg_uop *both = scaled(j, 0.5, sum(j, da, db));
  return choice(j, tg_op2(j, TG_OP_LT, first, second), da, choice(j, tg_op2(j, TG_OP_LT, second, first), db, both));
}

/* A sum over ranges of its own, since two sums of one range would be read as one loop. */
static const tg_uop *sum_over(tg_job *j, const tg_uop *u, const tg_uop *term) {
  const tg_uop *range[8];
  tg_reduce_arg info = tg_reduce_info(u);
  const tg_uop *const *own = tg_reduce_ranges(u);
  if (is_zero(term)) return number(j, u, 0);
  for (uint32_t i = 0; i < info.ranges; i++) {
    const tg_range_info *r = &j->ranges.data[tg_range_ordinal(own[i])];
    const tg_uop *extent = tg_substitute(j, tg_extent(own[i]), i, own, range);
    range[i] = tg_range_new(j, r->name, extent, tg_range_kind(own[i]), UINT32_MAX, r->pos);
  }
  term = tg_substitute(j, term, info.ranges, own, range);
  return tg_reduce(j, info, &term, NULL, NULL, range);
}

/* d: the derivatives of the sources. */
static const tg_uop *rule(tg_job *j, const tg_uop *u, const tg_uop *const *d, void *user) {
  (void)user;
  const tg_uop *a = u->src[0], *b = u->n > 1 ? u->src[1] : NULL, *slope;
  switch (u->op) {
  case TG_OP_ADD: return sum(j, d[0], d[1]);
  case TG_OP_SUB:
    if (is_zero(d[0]) || is_zero(d[1])) return sum(j, d[0], negative(j, d[1]));
    return tg_op2(j, u->op, d[0], d[1]);
  case TG_OP_NEG: return negative(j, d[0]);
  case TG_OP_MUL: return sum(j, product(j, d[0], b), product(j, a, d[1]));
  case TG_OP_FMA: return sum(j, sum(j, product(j, d[0], b), product(j, a, d[1])), d[2]);
  case TG_OP_FDIV: {
    const tg_uop *over = sum(j, d[0], negative(j, product(j, u, d[1])));
    return is_zero(over) ? over : tg_op2(j, TG_OP_FDIV, over, b);
  }
  case TG_OP_MAX: case TG_OP_MIN: return is_zero(d[0]) && is_zero(d[1]) ? d[0] : extreme(j, u, d[0], d[1]);
  case TG_OP_WHERE: return choice(j, a, d[1], d[2]);
  case TG_OP_POW: return power(j, u, d[0], d[1]);
  case TG_OP_CAST:   /* of a number: a number, as in a text, in which no conversion of one stands */
    if (!tg_is_float(a->type) || is_zero(d[0])) return number(j, u, 0);
    return d[0]->op == TG_OP_CONST ? number(j, u, tg_const_value(d[0])) : tg_cast(j, u->type, d[0]);
  case TG_OP_LOAD:   /* what a gate leaves out has its alternative instead */
    return u->arg & TG_GATED ? choice(j, u->src[u->n - 2], number(j, u, 0), d[u->n - 1]) : number(j, u, 0);
  case TG_OP_REDUCE: return sum_over(j, u, d[0]);
  default:
    if (is_zero(d[0])) return number(j, u, 0);
    slope = slope_of(j, u, a);
    if (!slope) tg_bug(&j->env, "%s has no rule in dsl/derivative.c", tg_ops[u->op].name);
    return product(j, slope, d[0]);
  }
}

const tg_uop *tg_derivative(tg_job *j, const tg_uop *e, const tg_uop *x, const tg_uop **none) {
  differentiation d = {.x = x};
  const tg_uop *v = tg_map(j, e, rule, enter, &d);
  *none = d.none;
  return v;
}
