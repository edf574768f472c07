/* SPDX-License-Identifier: MIT
 * Applying a compiled rule: the pattern against a node, the condition, the result. Recursion is over the rule's own
 * terms, a handful deep. Enter at tg_rules_apply. */
#include "ranges/rules.h"

/* ---- matching ---- */

typedef struct {
  tg_job *j;
  const tg_rule *r;
  const tg_uop *name[RULE_NAMES];
  tg_type type[RULE_TYPES];
  uint8_t types;
  uint32_t choice;
  const tg_uop *root;
} binding;

static bool literal_is(const tg_rule_term *t, const tg_uop *u) {
  if (u->op != TG_OP_CONST) return false;
  if (t->which == TG_BOOL && u->type != TG_BOOL) return false;
  if (!tg_is_float(u->type))
    return !t->is_float && u->arg == (int64_t)tg_wrap(u->type, t->i) && (u->type != TG_BOOL || t->which == TG_BOOL);
  double v = tg_const_value(u);
  return v == t->f && __builtin_signbit(v) == __builtin_signbit(t->f);
}

static bool match(binding *b, int8_t at, const tg_uop *u) {
  const tg_rule_term *t = &b->r->term[at];
  if (t->tag == TERM_NAME) {
    if (b->name[t->which]) return b->name[t->which] == u;
    if (b->r->constant[t->which] && u->op != TG_OP_CONST) return false;
    b->name[t->which] = u;
    return true;
  }
  if (t->tag == TERM_LITERAL) return literal_is(t, u);
  if (t->tag == TERM_CONVERT) {
    if (u->op != TG_OP_CAST || (b->types >> t->which & 1 && b->type[t->which] != u->type)) return false;
    b->type[t->which] = u->type;
    b->types |= (uint8_t)(1 << t->which);
    return match(b, t->a, u->src[0]);
  }
  if (u->op != t->tag) return false;
  bool swap = t->choice >= 0 && b->choice >> t->choice & 1;
  if (t->a >= 0 && !match(b, swap ? t->b : t->a, u->src[0])) return false;
  if (t->b >= 0 && !match(b, swap ? t->a : t->b, u->src[1])) return false;
  return t->c < 0 || match(b, t->c, u->src[2]);
}

/* ---- conditions ---- */

static bool exact_inverse(const tg_uop *c) { /* a power of two whose inverse is normal in the type too */
  int e;
  if (c->op != TG_OP_CONST || !tg_is_float(c->type)) return false;
  double v = tg_const_value(c), m = __builtin_frexp(v, &e);
  int far = c->type == TG_F64 ? 1021 : c->type == TG_F32 || c->type == TG_BF16 ? 125 : 13;
  return (m == 0.5 || m == -0.5) && e - 1 <= far && e - 1 >= -far;
}

static int significand(tg_type t) {
  return t == TG_F64 ? 53 : t == TG_F32 ? 24 : t == TG_F16 ? 11 : t == TG_BF16 ? 8 : t == TG_E4M3 ? 4 : 3;
}

/* Every value of `from` is a value of `to`. */
bool tg_type_widens(tg_type from, tg_type to) {
  if (from == to || from == TG_BOOL) return to != TG_E4M3 && to != TG_E5M2;
  if (tg_is_float(from)) {
    if (from == TG_E5M2) return to == TG_F16 || to == TG_BF16 || to == TG_F32 || to == TG_F64;
    if (from == TG_E4M3) return to == TG_F16 || to == TG_BF16 || to == TG_F32 || to == TG_F64;
    return to == TG_F64 || (to == TG_F32 && from != TG_F64);
  }
  if (from == TG_INDEX) return false;
  int bits = tg_type_bits(from) - tg_is_signed(from);
  if (tg_is_float(to))
    return (to == TG_F32 || to == TG_F64 || to == TG_BF16 || (to == TG_F16 && bits <= 15)) && bits <= significand(to);
  if (to == TG_INDEX) return true;
  if (!tg_is_int(to)) return false;
  return (tg_is_signed(to) || !tg_is_signed(from)) && bits <= tg_type_bits(to) - tg_is_signed(to);
}

/* Every integer from lo to hi is a value of the type. */
bool tg_type_has(tg_type t, tg_i128 lo, tg_i128 hi) {
  int bits = tg_is_float(t) ? significand(t) : tg_type_bits(t) - tg_is_signed(t);
  tg_i128 most = ((tg_i128)1 << bits) - !tg_is_float(t);
  tg_i128 least = tg_is_float(t) ? -most : tg_is_signed(t) ? -most - 1 : 0;
  return (tg_is_float(t) || tg_is_int(t)) && hi <= most && lo >= least;
}

static int type_of_term(const binding *b, int8_t at) {
  const tg_rule_term *t = &b->r->term[at];
  if (t->tag == TERM_NAME) return b->name[t->which]->type;
  if (t->tag == TERM_CONVERT && t->a < 0) return b->type[t->which];
  if (t->tag == TERM_PREDICATE && t->which == P_type) return b->name[b->r->term[t->a].which]->type;
  return TG_VOID;
}

static bool number_of(const binding *b, int8_t at, tg_i128 *out);

static bool predicate(const binding *b, const tg_rule_term *t, tg_i128 *out) {
  const tg_uop *x = b->r->term[t->a].tag == TERM_NAME ? b->name[b->r->term[t->a].which] : NULL;
  int type = type_of_term(b, t->a);
  tg_i128 v;
  switch (t->which) {
  case P_lo: *out = tg_bounds_of(b->j, x).lo; return true;
  case P_hi: *out = tg_bounds_of(b->j, x).hi; return true;
  case P_multiple: { /* the greatest number known to divide x */
    tg_bounds k = tg_bounds_of(b->j, x);
    *out = k.offset ? 1 : k.multiple;
    return true;
  }
  case P_type: *out = type; return true;
  case P_bits: *out = tg_type_bits(type); return true;
  case P_is_const: *out = x && x->op == TG_OP_CONST; return true;
  case P_is_float: *out = tg_is_float(type); return true;
  case P_is_signed: *out = tg_is_signed(type); return true;
  case P_is_int: *out = tg_is_int(type); return true;
  case P_same_type: *out = type == type_of_term(b, t->b); return true;
  case P_widens: *out = tg_type_widens(type, (tg_type)type_of_term(b, t->b)); return true;
  case P_power_of_two: *out = number_of(b, t->a, &v) && v > 0 && !(v & (v - 1)); return true;
  case P_exponent:
    if (!number_of(b, t->a, &v) || v <= 0) return false;
    for (*out = 0; v > 1; v >>= 1) ++*out;
    return true;
  case P_top: /* the greatest value of an integer type */
    if (!tg_is_int(type)) return false;
    *out = ((tg_i128)1 << (tg_type_bits(type) - tg_is_signed(type))) - 1;
    return true;
  case P_exact_inverse: *out = x && exact_inverse(x); return true;
  default: return false;
  }
}

static bool number_of(const binding *b, int8_t at, tg_i128 *out) {
  const tg_rule_term *t = &b->r->term[at];
  tg_i128 x, y;
  if (t->tag == TERM_LITERAL) return *out = t->i, true;
  if (t->tag == TERM_PREDICATE) return predicate(b, t, out);
  if (t->tag == TERM_NAME) {
    const tg_uop *u = b->name[t->which];
    if (u->op != TG_OP_CONST || tg_is_float(u->type)) return false;
    return *out = tg_value_of(u).i, true;
  }
  if (!number_of(b, t->a, &x)) return false;
  if (t->tag == TERM_NEGATE) return *out = !x, true;
  if (t->tag == TERM_AND_ALSO && !x) return *out = 0, true;
  if (t->tag == TERM_OR_ELSE && x) return *out = 1, true;
  if (t->b < 0) return t->tag == TG_OP_NEG ? *out = -x, true : false;
  if (!number_of(b, t->b, &y)) return false;
  switch (t->tag) {
  case TERM_AND_ALSO: case TERM_OR_ELSE: *out = y != 0; return true;
  case TG_OP_ADD: return !__builtin_add_overflow(x, y, out);
  case TG_OP_SUB: return !__builtin_sub_overflow(x, y, out);
  case TG_OP_MUL: return !__builtin_mul_overflow(x, y, out);
  case TG_OP_IDIV: *out = tg_floor_div(x, y); return true;
  case TG_OP_MOD: *out = tg_floor_mod(x, y); return true;
  case TG_OP_LT: *out = x < y; return true;
  case TG_OP_LE: *out = x <= y; return true;
  case TG_OP_EQ: *out = x == y; return true;
  case TG_OP_NE: *out = x != y; return true;
  default: return false;
  }
}

/* ---- results ---- */

static const tg_uop *literal(binding *b, const tg_rule_term *t, tg_type type) {
  if (t->which == TG_BOOL) return tg_bool(b->j, t->i != 0);
  return tg_is_float(type) ? tg_const_float(b->j, type, t->f) : tg_const_int(b->j, type, t->i);
}

static const tg_uop *computed(tg_job *j, tg_op op, tg_type type, uint32_t n, const tg_uop *const *src) {
  tg_value v[3], r;
  for (uint32_t i = 0; i < n; i++) {
    if (src[i]->op != TG_OP_CONST) return NULL;
    v[i] = tg_value_of(src[i]);
  }
  return tg_evaluate(op, type, src[n - 1]->type, v, &r) ? tg_const_of(j, type, r) : NULL;
}

static const tg_uop *build(binding *b, int8_t at, tg_type type) {
  const tg_rule_term *t = &b->r->term[at];
  const int8_t operand[3] = {t->a, t->b, t->c};
  const tg_uop *src[3] = {0};
  uint32_t n = 0;
  bool constants = true;
  tg_i128 v;
  if (t->tag == TERM_NAME) return b->name[t->which];
  if (t->tag == TERM_LITERAL) return literal(b, t, type);
  if (t->tag == TERM_PREDICATE)
    return number_of(b, at, &v) && v <= INT64_MAX ? tg_const_int(b->j, type, (int64_t)v) : NULL;
  if (t->tag == TERM_CONVERT) {
    src[0] = build(b, t->a, type);
    return src[0] ? tg_cast(b->j, b->type[t->which], src[0]) : NULL;
  }
  while (n < 3 && operand[n] >= 0) n++;
  tg_type inner = type;
  uint32_t first = t->tag == TG_OP_WHERE;   /* a condition lends its type to no arm */
  if (tg_ops[t->tag].flags & TG_OPF_B) inner = TG_VOID;
  for (uint32_t i = 0; i < n; i++)
    if (b->r->term[operand[i]].tag != TERM_LITERAL) {
      if (!(src[i] = build(b, operand[i], i < first ? TG_BOOL : inner == TG_VOID ? b->root->src[0]->type : inner)))
        return NULL;
      if (i >= first) inner = src[i]->type;
    }
  for (uint32_t i = 0; i < n; i++) {
    if (!src[i]) src[i] = literal(b, &b->r->term[operand[i]], i < first ? TG_BOOL : inner);
    constants &= src[i]->op == TG_OP_CONST;
  }
  tg_type result = tg_ops[t->tag].flags & TG_OPF_B ? TG_BOOL : src[n - 1]->type;
  if (constants) return computed(b->j, t->tag, result, n, src);
  return n == 1   ? tg_op1(b->j, t->tag, src[0])
         : n == 2 ? tg_op2(b->j, t->tag, src[0], src[1])
                  : tg_op3(b->j, t->tag, src[0], src[1], src[2]);
}

const tg_uop *tg_rule_apply(tg_job *j, const tg_rule *r, const tg_uop *v) {
  for (uint32_t choice = 0; choice < 1u << r->choices; choice++) {
    binding b = {.j = j, .r = r, .choice = choice, .root = v};
    tg_i128 holds = 1;
    if (!match(&b, r->left, v)) continue;
    if (r->condition >= 0 && (!number_of(&b, r->condition, &holds) || !holds)) continue;
    const tg_uop *w = build(&b, r->right, v->type);
    if (w && w != v) return w;
  }
  return NULL;
}

/* Compares belong to the domain of their operands, a CAST to that of its result. */
const tg_uop *tg_rules_apply(tg_job *j, const tg_rules *rs, tg_rule_set set, const tg_uop *v, const char **name) {
  int k = tg_rule_class_of(tg_ops[v->op].flags & TG_OPF_B ? v->src[0]->type : v->type);
  if (k < 0) return NULL;
  for (uint32_t i = 0; i < rs->at[set][v->op][k].n; i++) {
    const tg_rule *r = &rs->rule[rs->at[set][v->op][k].list[i]];
    const tg_uop *w = tg_rule_apply(j, r, v);
    if (!w) continue;
    *name = r->name;
    return w;
  }
  return NULL;
}
