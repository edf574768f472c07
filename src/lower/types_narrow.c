/* SPDX-License-Identifier: MIT
 * Part of pass types: arithmetic on bytes is written in 32 bits, u8((i32(r) * 77 + i32(g) * 150 + i32(b) * 29) >> 8),
 * and much of it needs 16, in which a vector has twice the lanes. Where a vector of integers ends as one of at most 16
 * bits, it is computed in 16:
 *
 *   sums, differences, products, bits and shifts to the left keep the low 16 bits of their result, whatever is above;
 *   quotients, remainders, shifts to the right, extrema and magnitudes need all of their operands, which bounds then
 *   show to lie in an i16 or a u16.
 *
 * What it is computed from must have at most 16 bits. So nothing is rounded or lost: the result is the same. */
#include "lower/lower.h"
#include "lower/sweep.h"

typedef struct {
  const tg_uop **low;   /* by id: a node of type LOW whose bits are the low ones; NULL: there is none */
  uint32_t least;       /* lanes */
} state;

static const tg_type LOW = TG_U16;

static const tg_uop *to(tg_job *j, tg_type t, const tg_uop *u) {
  if (u->type == t) return u;
  if (u->op == TG_OP_CONST) return tg_const_int(j, t, tg_wrap(t, tg_value_of(u).i));
  bool back = u->op == TG_OP_CAST && u->src[0]->type == t && tg_type_bits(t) == tg_type_bits(u->type);
  return back ? u->src[0] : tg_cast(j, t, u);
}

/* ---- bounds at corners ---- */

/* An expression of sums, differences and products in which no value is multiplied by itself is linear in each of its
 * values alone, so it is greatest and least where each of these is: a * x + b * (255 - x) of bytes is at most
 * 255 * 255, where intervals, which take x and 255 - x for two values, say twice that. */
enum { VALUES = 6, DEEPEST = 8, NO_VALUE = -1 };

typedef struct { const tg_uop *value[VALUES]; uint32_t n; } expression;

/* Which values u is made of, as bits; NO_VALUE: it is too much, or one is multiplied by itself. */
static int values_of(expression *e, const tg_uop *u, uint32_t depth) {
  bool product = u->op == TG_OP_MUL;
  if (u->op == TG_OP_CONST) return 0;
  if (depth == DEEPEST) return NO_VALUE;
  if (u->op == TG_OP_NEG) return values_of(e, u->src[0], depth + 1);
  if (u->op == TG_OP_ADD || u->op == TG_OP_SUB || product) {
    int a = values_of(e, u->src[0], depth + 1), b = a == NO_VALUE ? a : values_of(e, u->src[1], depth + 1);
    return b == NO_VALUE || (product && a & b) ? NO_VALUE : a | b;
  }
  uint32_t i = 0;
  while (i < e->n && e->value[i] != u) i++;
  if (i == VALUES) return NO_VALUE;
  if (i == e->n) e->value[e->n++] = u;
  return 1 << i;
}

/* u where value i is at[i]; false: that is no number of 128 bits. */
static bool value_at(const expression *e, const tg_uop *u, const tg_i128 *at, tg_i128 *v) {
  tg_i128 a, b;
  if (u->op == TG_OP_CONST) return *v = tg_value_of(u).i, true;
  for (uint32_t i = 0; i < e->n; i++)
    if (e->value[i] == u) return *v = at[i], true;
  if (!value_at(e, u->src[0], at, &a)) return false;
  if (u->op == TG_OP_NEG) return !__builtin_sub_overflow((tg_i128)0, a, v);
  if (!value_at(e, u->src[1], at, &b)) return false;
  return u->op == TG_OP_MUL   ? !__builtin_mul_overflow(a, b, v)
         : u->op == TG_OP_ADD ? !__builtin_add_overflow(a, b, v)
                              : !__builtin_sub_overflow(a, b, v);
}

static tg_bounds at_corners(tg_job *j, const tg_uop *u, tg_bounds all) {
  expression e = {.n = 0};
  tg_bounds b[VALUES], r = {TG_INF, -TG_INF, 1, 0};
  if (values_of(&e, u, 0) == NO_VALUE) return all;
  for (uint32_t i = 0; i < e.n; i++) b[i] = tg_bounds_of(j, e.value[i]);
  for (uint32_t corner = 0; corner < 1u << e.n; corner++) {
    tg_i128 at[VALUES], v;
    for (uint32_t i = 0; i < e.n; i++) at[i] = corner >> i & 1 ? b[i].hi : b[i].lo;
    if (!value_at(&e, u, at, &v)) return all;
    if (v < r.lo) r.lo = v;
    if (v > r.hi) r.hi = v;
  }
  /* a sum that leaves the type on its way comes back into it, but one that ends outside does not end there */
  return r.lo >= all.lo && r.hi <= all.hi ? r : all;
}

static bool within(tg_bounds b, tg_type t) {
  return t == TG_I16 ? b.lo >= INT16_MIN && b.hi <= INT16_MAX : b.lo >= 0 && b.hi <= UINT16_MAX;
}

/* The type of 16 bits that has all values of both; VOID: none is known. */
static tg_type type_of(tg_job *j, const tg_uop *a, const tg_uop *b) {
  tg_bounds x = tg_bounds_of(j, a), y = tg_bounds_of(j, b);
  if (!within(x, TG_I16) && !within(x, TG_U16)) x = at_corners(j, a, x);
  if (!within(y, TG_I16) && !within(y, TG_U16)) y = at_corners(j, b, y);
  return within(x, TG_U16) && within(y, TG_U16)   ? TG_U16
         : within(x, TG_I16) && within(y, TG_I16) ? TG_I16
                                                  : TG_VOID;
}

/* ---- the low bits of an operation ---- */

static const tg_uop *low_of_exact(tg_job *j, const tg_uop *old, const tg_uop *a, const tg_uop *b) {
  tg_type t = type_of(j, old->src[0], old->n > 1 ? old->src[1] : old->src[0]);
  if (t == TG_VOID) return NULL;
  a = to(j, t, a);
  return to(j, LOW, old->n > 1 ? tg_op2(j, old->op, a, to(j, t, b)) : tg_op1(j, old->op, a));
}

static const tg_uop *low_of(tg_job *j, const state *s, const tg_uop *old, const tg_uop *const *src) {
  const tg_uop *l[3] = {NULL};
  if (old->op == TG_OP_CONST) return tg_const_int(j, LOW, tg_value_of(old).i & UINT16_MAX);
  if (old->op == TG_OP_CAST)
    return tg_is_int(src[0]->type) && tg_type_bits(src[0]->type) <= 16 ? to(j, LOW, src[0]) : NULL;
  if (!(tg_ops[old->op].flags & TG_OPF_W) || !old->n || old->n > 3) return NULL;
  for (uint32_t i = old->op == TG_OP_WHERE; i < old->n; i++)
    if (!(l[i] = s->low[old->src[i]->id])) return NULL;
  const tg_uop *by = old->n == 2 && old->src[1]->op == TG_OP_CONST ? old->src[1] : NULL;
  switch (old->op) {
  case TG_OP_ADD: case TG_OP_SUB: case TG_OP_MUL: case TG_OP_AND: case TG_OP_OR: case TG_OP_XOR:
    return tg_op2(j, old->op, l[0], l[1]);
  case TG_OP_NEG: case TG_OP_NOT: return tg_op1(j, old->op, l[0]);
  case TG_OP_WHERE: return tg_op3(j, TG_OP_WHERE, src[0], l[1], l[2]);
  case TG_OP_SHL: return by && by->arg >= 0 && by->arg < 16 ? tg_op2(j, TG_OP_SHL, l[0], l[1]) : NULL;
  case TG_OP_SHR:
    if (!by || by->arg < 0 || by->arg >= 16) return NULL;
    return low_of_exact(j, old, l[0], l[1]);
  case TG_OP_IDIV: case TG_OP_MOD: case TG_OP_CDIV: case TG_OP_CMOD:
    return by && by->arg > 0 ? low_of_exact(j, old, l[0], l[1]) : NULL;
  case TG_OP_MIN: case TG_OP_MAX: return low_of_exact(j, old, l[0], l[1]);
  case TG_OP_ABS: return low_of_exact(j, old, l[0], NULL);
  default: return NULL;
  }
}

static bool is_wide(tg_type t) { return t == TG_I32 || t == TG_U32; }

/* Is it what an integer of 32 bits ends as? */
static bool ends(const state *s, const tg_uop *u) {
  return u->op == TG_OP_CAST && u->lanes >= s->least && tg_is_int(u->type) && tg_type_bits(u->type) <= 16 &&
         is_wide(u->src[0]->type);
}

static const tg_uop *visit(tg_job *j, const tg_uop *old, const tg_uop *const *src, void *user) {
  state *s = user;
  if (is_wide(old->type)) s->low[old->id] = low_of(j, s, old, src);
  if (!ends(s, old) || old->src[0]->op == TG_OP_CAST) return NULL;
  const tg_uop *low = s->low[old->src[0]->id];
  return low ? to(j, old->type, low) : NULL;
}

const tg_uop *tg_narrow_integers(tg_job *j, const tg_uop *sink, uint32_t least) {
  state s = {.least = least};
  tg_sweep w = tg_sweep_of(j, sink);
  bool any = false;
  for (uint32_t i = 0; i < w.n && !any; i++) any = ends(&s, w.u[i]);
  if (!any) return sink;
  s.low = tg_new(&j->env, const tg_uop *, sink->id + 1);
  return tg_sweep_map(j, sink, visit, &s);
}
