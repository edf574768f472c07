/* SPDX-License-Identifier: MIT
 * A rule against all values of 8 bits: every value of two names, of further ones the ends of the type, of the small
 * numbers and of the powers of two. INDEX takes the values of i8 and more. Bounds that a condition asks for are taken as
 * tight as they can be, as loose, and one off. */
#ifndef TG_TEST_EXHAUSTIVE_H
#define TG_TEST_EXHAUSTIVE_H
#include "typing.h"

typedef struct { uint64_t points, met; bool wrong; char first[256]; } exhaustion;

typedef struct { const typing *t; tg_i128 v[RULE_NAMES], lo[RULE_NAMES], hi[RULE_NAMES]; } concrete;

static inline bool concrete_number(const concrete *c, int8_t at, tg_i128 *out);

static inline bool concrete_predicate(const concrete *c, const tg_rule_term *p, tg_i128 *out) {
  const tg_rule_term *x = &c->t->r->term[p->a];
  int typed = typed_predicate(c->t, p);
  tg_i128 v;
  if (typed >= 0) return *out = typed, true;
  switch (p->which) {
  case P_lo: *out = c->lo[x->which]; return true;
  case P_hi: *out = c->hi[x->which]; return true;
  case P_power_of_two: return *out = concrete_number(c, p->a, &v) && v > 0 && !(v & (v - 1)), true;
  case P_exponent:
    if (!concrete_number(c, p->a, &v) || v <= 0) return false;
    for (*out = 0; v > 1; v >>= 1) ++*out;
    return true;
  case P_top: {
    tg_type type = c->t->name[x->which];
    if (!tg_is_int(type)) return false;
    return *out = ((tg_i128)1 << (tg_type_bits(type) - tg_is_signed(type))) - 1, true;
  }
  default: return false;
  }
}

static inline bool concrete_number(const concrete *c, int8_t at, tg_i128 *out) {
  const tg_rule_term *p = &c->t->r->term[at];
  tg_i128 x, y;
  if (p->tag == TERM_LITERAL) return *out = p->i, true;
  if (p->tag == TERM_NAME) return *out = c->v[p->which], true;
  if (p->tag == TERM_PREDICATE) return concrete_predicate(c, p, out);
  if (!concrete_number(c, p->a, &x)) return false;
  if (p->tag == TERM_NEGATE) return *out = !x, true;
  if (p->tag == TERM_AND_ALSO && !x) return *out = 0, true;
  if (p->tag == TERM_OR_ELSE && x) return *out = 1, true;
  if (!concrete_number(c, p->b, &y)) return false;
  switch (p->tag) {
  case TERM_AND_ALSO: case TERM_OR_ELSE: *out = y != 0; return true;
  case TG_OP_ADD: *out = x + y; return true;
  case TG_OP_SUB: *out = x - y; return true;
  case TG_OP_MUL: *out = x * y; return true;
  case TG_OP_LT: *out = x < y; return true;
  case TG_OP_LE: *out = x <= y; return true;
  case TG_OP_EQ: *out = x == y; return true;
  case TG_OP_NE: *out = x != y; return true;
  default: return false;
  }
}

/* False if an op has no value: then the rule does not apply. */
static inline bool concrete_value(const concrete *c, int8_t at, tg_type type, tg_value *out) {
  const tg_rule_term *p = &c->t->r->term[at];
  const int8_t operand[3] = {p->a, p->b, p->c};
  tg_value a[3] = {{0}, {0}, {0}};
  tg_i128 e;
  if (p->tag == TERM_NAME) return out->i = c->v[p->which], true;
  if (p->tag == TERM_LITERAL) return out->i = tg_wrap(type, p->i), true;
  if (p->tag == TERM_PREDICATE) return concrete_predicate(c, p, &e) ? out->i = tg_wrap(type, e), true : false;
  if (p->tag == TERM_CONVERT) {
    tg_type to = c->t->convert[p->which], from = type_of_right(c->t, p->a);
    return concrete_value(c, p->a, from, &a[0]) && (from == to ? *out = a[0], true : tg_convert(to, from, a[0], out));
  }
  tg_type inner = type;
  for (int i = 0; i < 3 && operand[i] >= 0; i++) {
    inner = operand_type(c->t, p, i, type);
    if (!concrete_value(c, operand[i], inner, &a[i])) return false;
  }
  return tg_evaluate((tg_op)p->tag, type, inner, a, out);
}

static inline void check_concrete(const concrete *c, exhaustion *x) {
  const tg_rule *r = c->t->r;
  tg_i128 holds = 1;
  tg_value a, b;
  x->points++;
  if (r->condition >= 0 && (!concrete_number(c, r->condition, &holds) || !holds)) return;
  if (!concrete_value(c, r->left, c->t->root, &a) || !concrete_value(c, r->right, c->t->root, &b)) return;
  tg_type right = type_of_right(c->t, r->right);
  x->met++;
  if ((a.i == b.i && (right == TG_VOID || right == c->t->root)) || x->wrong) return;
  x->wrong = true;
  snprintf(x->first, sizeof x->first, "%s in %s: %s = %lld, %s = %lld: %lld instead of %lld", r->text, tg_type_name[c->t->root], r->letter[0], (long long)c->v[0],
           r->names > 1 ? r->letter[1] : "", r->names > 1 ? (long long)c->v[1] : 0, (long long)b.i, (long long)a.i);
}

static inline uint32_t values_of(tg_type t, bool all, int16_t *out) {
  static const int16_t some[] = {0, 1, -1, 2, -2, 3, 4, 5, -5, 7, 8, -8, 15, 16, 63, 64, -64, 85, 126, 127, -127, -128, 200, 254, 255};
  uint32_t n = 0;
  int bits = tg_type_bits(t) > 8 ? 8 : tg_type_bits(t);
  int lo = t == TG_INDEX ? -300 : tg_is_signed(t) ? -(1 << (bits - 1)) : 0, hi = t == TG_INDEX ? 300 : tg_is_signed(t) ? (1 << (bits - 1)) - 1 : (1 << bits) - 1;
  for (int v = lo; all && v <= hi; v++) out[n++] = (int16_t)v;
  for (uint32_t i = 0; !all && i < TG_COUNT(some); i++)
    if (some[i] >= lo && some[i] <= hi) out[n++] = some[i];
  return n;
}

static inline void check_bounds_of(concrete *c, bool bounded, exhaustion *x) {
  static const int off[][2] = {{0, 0}, {1, 0}, {0, 1}, {1, 1}, {600, 0}, {0, 600}, {600, 600}};
  uint32_t names = bounded ? c->t->r->names : 0, ways = 1;
  if (names > 2) names = 2;
  for (uint32_t i = 0; i < names; i++) ways *= TG_COUNT(off);
  for (uint32_t w = 0; w < ways; w++) {
    for (uint32_t i = 0, k = w; i < names; i++, k /= TG_COUNT(off)) {
      c->lo[i] = c->v[i] - off[k % TG_COUNT(off)][0];
      c->hi[i] = c->v[i] + off[k % TG_COUNT(off)][1];
    }
    check_concrete(c, x);
  }
}

/* All values of 8 bits of the names of t, in the types of t. */
static inline void check_exhaustively(const typing *t, exhaustion *x) {
  static int16_t value[RULE_NAMES][1024];
  uint32_t n[RULE_NAMES], at[RULE_NAMES] = {0}, names = t->r->names, wide = 0;
  bool bounded = false;
  for (uint32_t i = 0; i < t->r->n; i++) bounded |= t->r->term[i].tag == TERM_PREDICATE && (t->r->term[i].which == P_lo || t->r->term[i].which == P_hi);
  for (uint32_t i = 0; i < names; i++) {
    bool all = t->name[i] == TG_BOOL || wide++ < (t->name[i] == TG_INDEX && bounded ? 1u : names > 2 ? 1u : 2u);
    n[i] = values_of(t->name[i], all, value[i]);
  }
  concrete c = {.t = t};
  for (;;) {
    for (uint32_t i = 0; i < names; i++) c.v[i] = c.lo[i] = c.hi[i] = value[i][at[i]];
    check_bounds_of(&c, bounded, x);
    uint32_t i = 0;
    while (i < names && ++at[i] == n[i]) at[i++] = 0;
    if (i == names) return;
  }
}
#endif
