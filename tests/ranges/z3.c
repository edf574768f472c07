/* SPDX-License-Identifier: MIT
 * Every rule on integers and bools, proved by Z3: over unbounded integers with floor division written out for INDEX, over
 * bit vectors of 8 and 32 bits, signed and not, for what wraps; conversions over 8 to 64 bits. Where bits are worked on or
 * converted, INDEX has 160 of them: more than a value of it may have. The bounds that a
 * condition asks for are any numbers that the value lies between. What Z3 cannot decide is named here and checked over all
 * values of 8 bits instead; wrong rules must be refuted. */
#include <stdlib.h>
#include <z3.h>
#include "../test.h"
#include "exhaustive.h"

enum { FEW_STEPS = 200000, STEPS = 20000000, INDEX_BITS = 160 };   /* what Z3 may spend on a proof: no clock, so a busy machine changes nothing */

static const tg_type types[] = {TG_BOOL, TG_I8, TG_U8, TG_I32, TG_U32, TG_INDEX},
                     conversions[] = {TG_BOOL, TG_I8, TG_U8, TG_I16, TG_U16, TG_I64, TG_U64, TG_INDEX},
                     small[] = {TG_BOOL, TG_I8, TG_U8, TG_INDEX};

/* Rule and type that are checked exhaustively: products of unknowns under a division. */
static const struct { const char *name; tg_type type; } exhaustive[] = {
  {"div_of_constants", TG_I8}, {"div_of_constants", TG_U8}, {"div_of_constants", TG_I32}, {"div_of_constants", TG_U32}, {"mod_of_product", TG_INDEX}, {"mod_of_mod", TG_I32}, {"mod_of_mod", TG_U32},
  {"shl_multiplies", TG_INDEX}, {"shr_divides", TG_INDEX},
};

typedef struct {
  Z3_context z;
  Z3_solver s;
  const typing *t;
  bool vectors;                                /* INDEX is a bit vector too */
  unsigned wide;                               /* bits in which conditions compute; 0: in integers */
  Z3_ast name[RULE_NAMES], lo[RULE_NAMES], hi[RULE_NAMES];
  uint32_t fresh;
  bool beyond, never;                          /* an op that this sort has not; a condition that has no value */
} prover;

typedef Z3_ast ast;

/* ---- sorts ---- */

static unsigned bits_of(tg_type t) { return t == TG_INDEX ? INDEX_BITS : (unsigned)tg_type_bits(t); }
static bool integers(const prover *p, tg_type t) { return t == TG_INDEX && !p->vectors; }
static Z3_sort sort_of(const prover *p, tg_type t) { return integers(p, t) ? Z3_mk_int_sort(p->z) : Z3_mk_bv_sort(p->z, bits_of(t)); }
static ast number(const prover *p, tg_type t, int64_t v) { return Z3_mk_int64(p->z, v, sort_of(p, t)); }
static ast both(const prover *p, ast a, ast b) { ast x[2] = {a, b}; return Z3_mk_and(p->z, 2, x); }
static ast either(const prover *p, ast a, ast b) { ast x[2] = {a, b}; return Z3_mk_or(p->z, 2, x); }
static ast differ(const prover *p, ast a, ast b) { return Z3_mk_not(p->z, Z3_mk_eq(p->z, a, b)); }
static ast as_bit(const prover *p, ast truth) { return Z3_mk_ite(p->z, truth, number(p, TG_BOOL, 1), number(p, TG_BOOL, 0)); }

/* ---- ops on unbounded integers ---- */

static ast minus(const prover *p, ast a) { return Z3_mk_unary_minus(p->z, a); }
static ast twice(const prover *p, tg_op op, ast a, ast b) {
  ast x[2] = {a, b};
  return op == TG_OP_ADD ? Z3_mk_add(p->z, 2, x) : op == TG_OP_SUB ? Z3_mk_sub(p->z, 2, x) : Z3_mk_mul(p->z, 2, x);
}

/* Z3's div floors for a positive divisor. */
static ast quotient(const prover *p, ast a, ast b, bool truncates) {
  ast zero = number(p, TG_INDEX, 0);
  ast q = truncates ? Z3_mk_ite(p->z, Z3_mk_ge(p->z, a, zero), Z3_mk_div(p->z, a, b), minus(p, Z3_mk_div(p->z, minus(p, a), b)))
                    : Z3_mk_ite(p->z, Z3_mk_gt(p->z, b, zero), Z3_mk_div(p->z, a, b), Z3_mk_div(p->z, minus(p, a), minus(p, b)));
  return Z3_mk_ite(p->z, Z3_mk_eq(p->z, b, zero), zero, q);
}

static ast remainder_of(const prover *p, ast a, ast b, bool truncates) {
  ast zero = number(p, TG_INDEX, 0), r;
  if (truncates) r = twice(p, TG_OP_SUB, a, twice(p, TG_OP_MUL, b, quotient(p, a, b, true)));
  else r = Z3_mk_ite(p->z, Z3_mk_gt(p->z, b, zero), Z3_mk_mod(p->z, a, b), minus(p, Z3_mk_mod(p->z, minus(p, a), minus(p, b))));
  return Z3_mk_ite(p->z, Z3_mk_eq(p->z, b, zero), zero, r);
}

static ast on_integers(prover *p, tg_op op, const ast *a) {
  switch (op) {
  case TG_OP_ADD: case TG_OP_SUB: case TG_OP_MUL: return twice(p, op, a[0], a[1]);
  case TG_OP_NEG: return minus(p, a[0]);
  case TG_OP_IDIV: case TG_OP_CDIV: return quotient(p, a[0], a[1], op == TG_OP_CDIV);
  case TG_OP_MOD: case TG_OP_CMOD: return remainder_of(p, a[0], a[1], op == TG_OP_CMOD);
  case TG_OP_MAX: return Z3_mk_ite(p->z, Z3_mk_gt(p->z, a[0], a[1]), a[0], a[1]);
  case TG_OP_MIN: return Z3_mk_ite(p->z, Z3_mk_lt(p->z, a[0], a[1]), a[0], a[1]);
  case TG_OP_NOT: return twice(p, TG_OP_SUB, number(p, TG_INDEX, -1), a[0]);
  case TG_OP_ABS: return Z3_mk_ite(p->z, Z3_mk_lt(p->z, a[0], number(p, TG_INDEX, 0)), minus(p, a[0]), a[0]);
  case TG_OP_FLOOR: case TG_OP_CEIL: case TG_OP_ROUND: case TG_OP_TRUNC: return a[0];
  case TG_OP_LT: return as_bit(p, Z3_mk_lt(p->z, a[0], a[1]));
  case TG_OP_LE: return as_bit(p, Z3_mk_le(p->z, a[0], a[1]));
  default: return p->beyond = true, a[0];
  }
}

/* ---- ops on bit vectors ---- */

static ast below(const prover *p, bool sign, ast a, ast b) { return sign ? Z3_mk_bvslt(p->z, a, b) : Z3_mk_bvult(p->z, a, b); }

static ast divided(const prover *p, tg_op op, tg_type t, ast a, ast b) {
  bool sign = tg_is_signed(t), floors = op == TG_OP_IDIV || op == TG_OP_MOD;
  ast zero = number(p, t, 0), r;
  if (op == TG_OP_IDIV || op == TG_OP_CDIV) {
    r = sign ? Z3_mk_bvsdiv(p->z, a, b) : Z3_mk_bvudiv(p->z, a, b);
    ast rest = Z3_mk_bvsrem(p->z, a, b), apart = Z3_mk_bvslt(p->z, Z3_mk_bvxor(p->z, a, b), zero);
    if (sign && floors) r = Z3_mk_ite(p->z, both(p, differ(p, rest, zero), apart), Z3_mk_bvsub(p->z, r, number(p, t, 1)), r);
  } else r = !sign ? Z3_mk_bvurem(p->z, a, b) : floors ? Z3_mk_bvsmod(p->z, a, b) : Z3_mk_bvsrem(p->z, a, b);
  return Z3_mk_ite(p->z, Z3_mk_eq(p->z, b, zero), zero, r);
}

/* A count that is negative or too large shifts all out; of INDEX from 126 on. */
static ast shifted(const prover *p, tg_op op, tg_type t, ast a, ast b) {
  ast r = op == TG_OP_SHL ? Z3_mk_bvshl(p->z, a, b) : tg_is_signed(t) ? Z3_mk_bvashr(p->z, a, b) : Z3_mk_bvlshr(p->z, a, b);
  if (t != TG_INDEX) return r;
  ast none = op == TG_OP_SHL ? number(p, t, 0) : Z3_mk_bvashr(p->z, a, number(p, t, INDEX_BITS - 1));
  return Z3_mk_ite(p->z, Z3_mk_bvult(p->z, b, number(p, t, 126)), r, none);
}

static ast on_vectors(prover *p, tg_op op, tg_type t, const ast *a) {
  bool sign = tg_is_signed(t);
  switch (op) {
  case TG_OP_ADD: return Z3_mk_bvadd(p->z, a[0], a[1]);
  case TG_OP_SUB: return Z3_mk_bvsub(p->z, a[0], a[1]);
  case TG_OP_MUL: return Z3_mk_bvmul(p->z, a[0], a[1]);
  case TG_OP_NEG: return Z3_mk_bvneg(p->z, a[0]);
  case TG_OP_IDIV: case TG_OP_MOD: case TG_OP_CDIV: case TG_OP_CMOD: return divided(p, op, t, a[0], a[1]);
  case TG_OP_MAX: return Z3_mk_ite(p->z, below(p, sign, a[1], a[0]), a[0], a[1]);
  case TG_OP_MIN: return Z3_mk_ite(p->z, below(p, sign, a[0], a[1]), a[0], a[1]);
  case TG_OP_AND: return Z3_mk_bvand(p->z, a[0], a[1]);
  case TG_OP_OR: return Z3_mk_bvor(p->z, a[0], a[1]);
  case TG_OP_XOR: return Z3_mk_bvxor(p->z, a[0], a[1]);
  case TG_OP_NOT: return Z3_mk_bvnot(p->z, a[0]);
  case TG_OP_SHL: case TG_OP_SHR: return shifted(p, op, t, a[0], a[1]);
  case TG_OP_ABS: return sign ? Z3_mk_ite(p->z, Z3_mk_bvslt(p->z, a[0], number(p, t, 0)), Z3_mk_bvneg(p->z, a[0]), a[0]) : a[0];
  case TG_OP_FLOOR: case TG_OP_CEIL: case TG_OP_ROUND: case TG_OP_TRUNC: return a[0];
  case TG_OP_LT: return as_bit(p, below(p, sign, a[0], a[1]));
  case TG_OP_LE: return as_bit(p, Z3_mk_not(p->z, below(p, sign, a[1], a[0])));
  default: return p->beyond = true, a[0];
  }
}

static ast resized(const prover *p, ast a, unsigned from, unsigned to, bool sign) {
  if (from == to) return a;
  return to < from ? Z3_mk_extract(p->z, to - 1, 0, a) : sign ? Z3_mk_sign_ext(p->z, to - from, a) : Z3_mk_zero_ext(p->z, to - from, a);
}

static ast converted(const prover *p, tg_type to, tg_type from, ast a) {
  if (to == TG_BOOL) return as_bit(p, differ(p, a, number(p, from, 0)));
  return resized(p, a, bits_of(from), bits_of(to), tg_is_signed(from));
}

/* ---- conditions ---- */

/* A value as a number of the condition: wide enough that nothing wraps. */
static ast widened(const prover *p, ast a, tg_type t) { return p->wide ? resized(p, a, bits_of(t), p->wide, tg_is_signed(t)) : a; }
static Z3_sort wide_sort(const prover *p) { return p->wide ? Z3_mk_bv_sort(p->z, p->wide) : Z3_mk_int_sort(p->z); }
static ast wide_number(const prover *p, int64_t v) { return Z3_mk_int64(p->z, v, wide_sort(p)); }
static ast wide_le(const prover *p, ast a, ast b) { return p->wide ? Z3_mk_bvsle(p->z, a, b) : Z3_mk_le(p->z, a, b); }
static ast fresh(prover *p, Z3_sort s) { return Z3_mk_const(p->z, Z3_mk_int_symbol(p->z, (int)(1000 + p->fresh++)), s); }

static ast bound(prover *p, int slot, bool high) {
  ast *at = high ? &p->hi[slot] : &p->lo[slot], v = widened(p, p->name[slot], p->t->name[slot]);
  if (*at) return *at;
  *at = fresh(p, wide_sort(p));
  Z3_solver_assert(p->z, p->s, high ? wide_le(p, v, *at) : wide_le(p, *at, v));
  return *at;
}

static ast quantity(prover *p, int8_t at) {
  const tg_rule_term *u = &p->t->r->term[at];
  if (u->tag == TERM_LITERAL) return wide_number(p, u->i);
  if (u->tag == TERM_NAME) return widened(p, p->name[u->which], p->t->name[u->which]);
  if (u->tag == TERM_PREDICATE) {
    int typed = typed_predicate(p->t, u);
    const tg_rule_term *x = &p->t->r->term[u->a];
    tg_type t = x->tag == TERM_NAME ? p->t->name[x->which] : TG_VOID;
    if (typed >= 0) return wide_number(p, typed);
    if (u->which == P_lo || u->which == P_hi) return bound(p, x->which, u->which == P_hi);
    if (u->which == P_top && !tg_is_int(t)) return p->never = true, wide_number(p, 0);
    if (u->which != P_top) return p->beyond = true, wide_number(p, 0);
    return tg_type_bits(t) == 64 ? (p->beyond = true, wide_number(p, 0)) : wide_number(p, (int64_t)(((tg_i128)1 << (tg_type_bits(t) - tg_is_signed(t))) - 1));
  }
  ast a = quantity(p, u->a), b = u->b >= 0 ? quantity(p, u->b) : NULL;
  if (!p->wide) return twice(p, (tg_op)u->tag, a, b);
  return u->tag == TG_OP_ADD ? Z3_mk_bvadd(p->z, a, b) : u->tag == TG_OP_SUB ? Z3_mk_bvsub(p->z, a, b) : Z3_mk_bvmul(p->z, a, b);
}

static ast truth(prover *p, int8_t at) {
  const tg_rule_term *u = &p->t->r->term[at];
  if (u->tag == TERM_AND_ALSO) return both(p, truth(p, u->a), truth(p, u->b));
  if (u->tag == TERM_OR_ELSE) return either(p, truth(p, u->a), truth(p, u->b));
  if (u->tag == TERM_NEGATE) return Z3_mk_not(p->z, truth(p, u->a));
  if (u->tag == TERM_PREDICATE && u->which == P_power_of_two) {
    ast c = quantity(p, u->a), one;
    if (!p->wide) return p->beyond = true, Z3_mk_true(p->z);
    one = wide_number(p, 1);
    return both(p, Z3_mk_bvsgt(p->z, c, wide_number(p, 0)), Z3_mk_eq(p->z, Z3_mk_bvand(p->z, c, Z3_mk_bvsub(p->z, c, one)), wide_number(p, 0)));
  }
  if (u->tag == TERM_PREDICATE) return typed_predicate(p->t, u) > 0 ? Z3_mk_true(p->z) : typed_predicate(p->t, u) ? (p->beyond = true, Z3_mk_false(p->z)) : Z3_mk_false(p->z);
  ast a = quantity(p, u->a), b = quantity(p, u->b);
  switch (u->tag) {
  case TG_OP_LT: return Z3_mk_not(p->z, wide_le(p, b, a));
  case TG_OP_LE: return wide_le(p, a, b);
  case TG_OP_EQ: return Z3_mk_eq(p->z, a, b);
  case TG_OP_NE: return differ(p, a, b);
  default: return p->beyond = true, Z3_mk_true(p->z);
  }
}

/* ---- values ---- */

/* exponent(c): the number e with 1 << e = c; the condition says that there is one. */
static ast exponent(prover *p, const tg_rule_term *u, tg_type t) {
  ast e = fresh(p, sort_of(p, t)), c = p->name[p->t->r->term[u->a].which];
  if (integers(p, t)) return p->beyond = true, e;
  Z3_solver_assert(p->z, p->s, Z3_mk_eq(p->z, Z3_mk_bvshl(p->z, number(p, t, 1), e), c));
  return e;
}

static ast value(prover *p, int8_t at, tg_type type) {
  const tg_rule_term *u = &p->t->r->term[at];
  const int8_t operand[3] = {u->a, u->b, u->c};
  ast a[3] = {0};
  if (u->tag == TERM_NAME) return p->name[u->which];
  if (u->tag == TERM_LITERAL) return number(p, type, u->i);
  if (u->tag == TERM_PREDICATE) return u->which == P_exponent ? exponent(p, u, type) : (p->beyond = true, number(p, type, 0));
  if (u->tag == TERM_CONVERT) {
    tg_type to = p->t->convert[u->which], from = type_of_right(p->t, u->a);
    a[0] = value(p, u->a, from);
    return from == to ? a[0] : converted(p, to, from, a[0]);
  }
  tg_type inner = type;
  for (int i = 0; i < 3 && operand[i] >= 0; i++) a[i] = value(p, operand[i], inner = operand_type(p->t, u, i, type));
  if (u->tag == TG_OP_WHERE) return Z3_mk_ite(p->z, differ(p, a[0], number(p, TG_BOOL, 0)), a[1], a[2]);
  if (u->tag == TG_OP_EQ) return as_bit(p, Z3_mk_eq(p->z, a[0], a[1]));
  if (u->tag == TG_OP_NE) return as_bit(p, differ(p, a[0], a[1]));
  return integers(p, inner) ? on_integers(p, (tg_op)u->tag, a) : on_vectors(p, (tg_op)u->tag, inner, a);
}

/* ---- the two columns ---- */

typedef struct { Z3_context z; uint32_t typings, proved, refuted, undecided, named; char first[256]; } verdict;

static bool is_named(const char *rule, tg_type t) {
  for (unsigned i = 0; i < TG_COUNT(exhaustive); i++)
    if (!strcmp(exhaustive[i].name, rule) && exhaustive[i].type == t) return true;
  return false;
}

static bool works_on_bits(const tg_rule *r) {
  for (uint32_t i = 0; i < r->n; i++) {
    uint16_t op = r->term[i].tag;
    if (op == TG_OP_AND || op == TG_OP_OR || op == TG_OP_XOR || op == TG_OP_SHL || op == TG_OP_SHR) return true;
  }
  return false;
}

/* Most are decided by a solver that is made at once; one with all its strategies takes twenty times as long to make. */
static Z3_solver solver_of(Z3_context z, bool full) {
  Z3_solver s = full ? Z3_mk_solver(z) : Z3_mk_simple_solver(z);
  Z3_solver_inc_ref(z, s);
  if (full) return s;
  Z3_params few = Z3_mk_params(z);
  Z3_params_inc_ref(z, few);
  Z3_params_set_uint(z, few, Z3_mk_string_symbol(z, "rlimit"), FEW_STEPS);
  Z3_solver_set_params(z, s, few);
  Z3_params_dec_ref(z, few);
  return s;
}

static Z3_lbool decide(verdict *v, const typing *t, bool full) {
  bool convert = false;
  unsigned most = 8;
  for (uint32_t i = 0; i < t->r->n; i++) convert |= t->r->term[i].tag == TERM_CONVERT;
  prover p = {.z = v->z, .s = solver_of(v->z, full), .t = t, .vectors = convert || works_on_bits(t->r)};
  for (int i = 0; i < t->r->names; i++) most = !integers(&p, t->name[i]) && bits_of(t->name[i]) > most ? bits_of(t->name[i]) : most;
  p.wide = 2 * most + 8;
  for (int i = 0; i < t->r->names; i++)
    if (integers(&p, t->name[i])) p.wide = 0;
  if (convert) p.wide = INDEX_BITS;
  for (int i = 0; i < t->r->names; i++) p.name[i] = Z3_mk_const(v->z, Z3_mk_int_symbol(v->z, i), sort_of(&p, t->name[i]));
  if (t->r->condition >= 0) Z3_solver_assert(v->z, p.s, truth(&p, t->r->condition));
  tg_type right = type_of_right(t, t->r->right);
  if (right == TG_VOID || right == t->root) Z3_solver_assert(v->z, p.s, differ(&p, value(&p, t->r->left, t->root), value(&p, t->r->right, t->root)));
  Z3_lbool r = p.never ? Z3_L_FALSE : p.beyond || is_named(t->r->name, t->root) ? Z3_L_UNDEF : Z3_solver_check(v->z, p.s);
  if (r == Z3_L_TRUE && !v->refuted) snprintf(v->first, sizeof v->first, "in %s: %s", tg_type_name[t->root], Z3_model_to_string(v->z, Z3_solver_get_model(v->z, p.s)));
  Z3_solver_dec_ref(v->z, p.s);
  return r;
}

static void of_typing(void *user, const typing *t) {
  verdict *v = user;
  v->typings++;
  Z3_lbool r = decide(v, t, false);
  if (r == Z3_L_UNDEF && !is_named(t->r->name, t->root)) r = decide(v, t, true);
  if (r == Z3_L_FALSE) v->proved++;
  else if (r == Z3_L_TRUE) v->refuted++;
  else {
    v->undecided++;
    v->named += is_named(t->r->name, t->root);
    if (!is_named(t->r->name, t->root)) fprintf(stderr, "rule %s in %s is not decided\n", t->r->name, tg_type_name[t->root]);
  }
}

static bool converts(const tg_rule *r) {
  for (uint32_t i = 0; i < r->n; i++)
    if (r->term[i].tag == TERM_CONVERT) return true;
  return false;
}

static verdict judge(const tg_rule *r) {
  char limit[16];
  Z3_config config = Z3_mk_config();
  snprintf(limit, sizeof limit, "%d", STEPS);
  Z3_set_param_value(config, "rlimit", limit);
  verdict v = {.z = Z3_mk_context(config)};
  Z3_del_config(config);
  if (converts(r)) each_typing(r, conversions, TG_COUNT(conversions), of_typing, &v);
  else each_typing(r, types, TG_COUNT(types), of_typing, &v);
  Z3_del_context(v.z);
  return v;
}


static void over_8_bits(void *user, const typing *t) { check_exhaustively(t, user); }

static const tg_rule_text wrong[] = {
  {"w_add", "int", "x + 1 -> x", 0},
  {"w_div", "wrap", "(x * y) / y -> x", 0},
  {"w_div_index", "index", "(x * y) / y -> x", 0},
  {"w_div_constants", "wrap", "(x / c) / d -> x / (c * d) if c > 0 & d > 0", 0},
  {"w_div_self", "int", "x / x -> 1", 0},
  {"w_mul_minus_one", "wrap", "x * -1 -> x", 0},
  {"w_mod", "index", "x % y -> x if hi(x) < lo(y)", 0},
  {"w_mod_of_mod", "int", "(x % y) % z -> x % y", 0},
  {"w_max", "int", "max(x, y) -> x if lo(x) >= lo(y)", 0},
  {"w_cdiv", "int", "cdiv(x, y) -> x / y if lo(x) >= 0", 0},
  {"w_cmod", "int", "cmod(x, y) -> x % y", 0},
  {"w_mask", "wrap", "x & c -> x if lo(x) >= 0 & hi(x) <= c", 0},
  {"w_absorbs", "bool", "(x | y) & x -> y", 0},
  {"w_where", "any", "where(p, where(q, x, y), y) -> where(p | q, x, y)", 0},
  {"w_widens", "any", "T(U(x)) -> T(x) if same_type(T, x)", 0},
  {"w_narrower", "int", "T(U(x)) -> T(x) if is_int(T) & is_int(U)", 0},
  {"w_shift", "wrap", "x / c -> x >> exponent(c) + 1 if is_power_of_two(c)", TG_RULES_STRENGTH},
  {"w_not", "logic", "!(x == y) -> x == y", 0},
};

static void every_rule(void *user) {
  tg_job *j = user;
  const tg_rules *rs = tg_rules_compile(&j->env), *ws = tg_rules_compile_text(&j->env, TG_COUNT(wrong), wrong);
  uint32_t rules = 0, proved = 0, exhausted = 0, typings = 0, proofs = 0;
  for (uint32_t i = 0; i < rs->n; i++) {
    const tg_rule *r = &rs->rule[i];
    if (r->classes == 1 << CLASS_FLOAT) continue;
    verdict v = judge(r);
    rules++;
    typings += v.typings;
    proofs += v.proved;
    CHECK(v.typings, "rule %s has no typing: %s", r->name, r->text);
    CHECK(!v.refuted, "rule %s: %s is refuted %s", r->name, r->text, v.first);
    CHECK(v.undecided == v.named, "rule %s is undecided in %u types and named for %u: %s", r->name, v.undecided, v.named, r->text);
    if (!v.undecided) proved += !v.refuted;
    else {
      exhaustion x = {0};
      each_typing(r, small, TG_COUNT(small), over_8_bits, &x);
      CHECK(x.met && !x.wrong, "rule %s: %s", r->name, x.first);
      exhausted += x.met && !x.wrong;
    }
  }
  CHECK(proved + exhausted == rules, "%u of %u rules", proved + exhausted, rules);
  for (uint32_t i = 0; i < ws->n; i++) CHECK(judge(&ws->rule[i]).refuted, "the wrong rule %s is not refuted", ws->rule[i].text);
  printf("%u rules on integers: %u proved in every type, %u in some and over all values of 8 bits (%u of %u proofs)\n", rules, proved, exhausted, proofs, typings);
}

int main(void) {
  static tg_job j;
  tg_job_init(&j, NULL);
  CHECK(tg_protect(&j.env, every_rule, &j), "%s", j.env.message);
  tg_job_drop(&j);
  return TEST_END();
}
