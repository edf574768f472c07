/* SPDX-License-Identifier: MIT
 * Pass types: arithmetic on f16, bf16 and the 8-bit floats becomes arithmetic on f32 followed by a rounding. FMA of
 * f32 is computed in f64, and FMA of f64 from its parts, if the target has none. Conversions of the 8-bit floats, and
 * of f16 if the target has none, become integer code on the bits. Left to the code generator: f16 arithmetic if the
 * target has it, selects and bit operations of every type, and conversions among integers, bf16, f16, f32, f64.
 *
 * f32 has more than twice the bits of each small type, so rounding + - * / sqrt to f32 first does not change the
 * result; FMA is computed in f64 and rounded to odd. Every conversion goes through f32 such that double rounding
 * cannot occur: 64-bit integers are first clamped just past the largest value of the type, f64 is rounded to odd. */
#include "lower/sweep.h"
#include "lower/types_lookup.h"

typedef const tg_uop *node;

/* Mantissa bits, exponent bits, the largest magnitude and NaN as bits. e4m3 saturates and has no infinity. */
typedef struct { uint8_t mantissa, exponent; tg_type bits; uint32_t top, nan; } format;
static const format formats[TG_TYPE__COUNT] = {
  [TG_F16]  = {10, 5, TG_U16, 0x7c00, 0x7e00},
  [TG_E4M3] = {3, 4, TG_U8, 0x7e, 0x7f},
  [TG_E5M2] = {2, 5, TG_U8, 0x7c, 0x7e},
};

static node word(tg_job *j, int64_t v) { return tg_const_int(j, TG_U32, v); }
static node single(tg_job *j, double v) { return tg_const_float(j, TG_F32, v); }
static node add(tg_job *j, node a, node b) { return tg_op2(j, TG_OP_ADD, a, b); }
static node sub(tg_job *j, node a, node b) { return tg_op2(j, TG_OP_SUB, a, b); }
static node mul(tg_job *j, node a, node b) { return tg_op2(j, TG_OP_MUL, a, b); }
static node and(tg_job *j, node a, node b) { return tg_op2(j, TG_OP_AND, a, b); }
static node or(tg_job *j, node a, node b) { return tg_op2(j, TG_OP_OR, a, b); }
static node shl(tg_job *j, node a, int by) { return tg_op2(j, TG_OP_SHL, a, word(j, by)); }
static node shr(tg_job *j, node a, int by) { return tg_op2(j, TG_OP_SHR, a, word(j, by)); }
static node less(tg_job *j, node a, node b) { return tg_op2(j, TG_OP_LT, a, b); }
static node where(tg_job *j, node c, node a, node b) { return tg_op3(j, TG_OP_WHERE, c, a, b); }
static double power(int e) { return __builtin_ldexp(1, e); }

/* The bits as those of an f32 with a smaller exponent; one product puts it right, subnormals included. */
static node widen(tg_job *j, tg_type t, node x) {
  const format *f = &formats[t];
  tg_assert(&j->env, f->mantissa && x->type == t);
  int all = f->mantissa + f->exponent, bias = (1 << (f->exponent - 1)) - 1;
  node b = tg_cast(j, TG_U32, tg_bitcast(j, f->bits, x));
  node magnitude = and(j, b, word(j, ((int64_t)1 << all) - 1)),
       sign = shl(j, and(j, b, word(j, (int64_t)1 << all)), 31 - all);
  node moved = shl(j, magnitude, 23 - f->mantissa);
  node v = tg_bitcast(j, TG_U32, mul(j, tg_bitcast(j, TG_F32, moved), single(j, power(127 - bias))));
  if (t == TG_E4M3) v = where(j, tg_op2(j, TG_OP_EQ, magnitude, word(j, f->nan)), word(j, 0x7fc00000), v);
  else v = where(j, less(j, magnitude, word(j, f->top)), v, or(j, moved, word(j, 0x7f800000)));
  return tg_bitcast(j, TG_F32, or(j, v, sign));
}

/* Rounds f32 to type t, to nearest even. Subnormal results: adding a constant whose last bit weighs as much as t's
 * last bit makes the f32 addition do the rounding. */
static node narrow(tg_job *j, tg_type t, node x) {
  const format *f = &formats[t];
  tg_assert(&j->env, f->mantissa && x->type == TG_F32);
  int all = f->mantissa + f->exponent, bias = (1 << (f->exponent - 1)) - 1, drop = 23 - f->mantissa;
  node b = tg_bitcast(j, TG_U32, x), a = and(j, b, word(j, 0x7fffffff));
  node even = add(j, word(j, ((int64_t)1 << (drop - 1)) - 1), and(j, shr(j, a, drop), word(j, 1)));
  node normal = sub(j, shr(j, add(j, a, even), drop), word(j, (int64_t)(127 - bias) << f->mantissa));
  node normals = word(j, (int64_t)(128 - bias) << 23);   /* the bits of the least normal value */
  node unit = single(j, power(1 - bias - f->mantissa + 23));
  node tiny = sub(j, tg_bitcast(j, TG_U32, add(j, tg_bitcast(j, TG_F32, a), unit)), tg_bitcast(j, TG_U32, unit));
  node q = where(j, less(j, a, normals), tiny, tg_op2(j, TG_OP_MIN, normal, word(j, f->top)));
  q = where(j, less(j, word(j, 0x7f800000), a), word(j, f->nan), q);
  q = or(j, q, and(j, shr(j, b, 31 - all), word(j, (int64_t)1 << all)));
  return tg_bitcast(j, t, tg_cast(j, f->bits, q));
}

/* Rounding to odd: y is x rounded to nearest; if that was inexact and y's last bit is even, its neighbour towards x
 * is taken instead. inexact, away: comparisons made in x's type. */
static node to_odd(tg_job *j, tg_type bits, node y, node inexact, node away) {
  tg_assert(&j->env, tg_type_bits(bits) == tg_type_bits(y->type));
  node b = tg_bitcast(j, bits, y), one = tg_const_int(j, bits, 1);
  node even = tg_op2(j, TG_OP_EQ, and(j, b, one), tg_const_int(j, bits, 0));
  node moved = add(j, b, where(j, away, one, tg_const_int(j, bits, -1)));
  return tg_bitcast(j, y->type, where(j, and(j, inexact, even), moved, b));
}

static node f64_to_f32_odd(tg_job *j, node x) {
  node y = tg_cast(j, TG_F32, x), back = tg_cast(j, TG_F64, y);
  node inexact = or(j, less(j, back, x), less(j, x, back));   /* false for NaN */
  return to_odd(j, TG_I32, y, inexact, less(j, tg_op1(j, TG_OP_ABS, back), tg_op1(j, TG_OP_ABS, x)));
}

static node int_to_f32(tg_job *j, node x) {
  tg_type t = x->type;
  if (t == TG_INDEX || tg_type_bits(t) > 16) {
    x = tg_op2(j, TG_OP_MIN, x, tg_const_int(j, t, 1 << 20));
    if (tg_is_signed(t)) x = tg_op2(j, TG_OP_MAX, x, tg_const_int(j, t, -(1 << 20)));
  }
  return tg_cast(j, TG_F32, x);
}

/* Of a * b + c, whose product is exact in f64: the sum rounded to odd, so that rounding it again is right. */
static node fma_odd(tg_job *j, node a, node b, node c) {
  tg_assert(&j->env, a->type == TG_F64 && b->type == TG_F64 && c->type == TG_F64);
  node p = mul(j, a, b), s = add(j, p, c), t = sub(j, s, p);
  node error = add(j, sub(j, p, sub(j, s, t)), sub(j, c, t)), zero = tg_const_float(j, TG_F64, 0);
  node above = less(j, zero, error), inexact = or(j, above, less(j, error, zero));
  return to_odd(j, TG_I64, s, inexact, tg_op2(j, TG_OP_EQ, above, less(j, zero, s)));
}

/* ---- FMA of f64 without one ---- */

enum { F64_DIGITS = 52, F64_BIAS = 1023 };

static node i64(tg_job *j, int64_t v) { return tg_const_int(j, TG_I64, v); }
static node f64(tg_job *j, double v) { return tg_const_float(j, TG_F64, v); }
static node clamp(tg_job *j, node x, int64_t lo, int64_t hi) {
  return tg_op2(j, TG_OP_MIN, tg_op2(j, TG_OP_MAX, x, i64(j, lo)), i64(j, hi));
}
static node power_of(tg_job *j, node e) {
  return tg_bitcast(j, TG_F64, tg_op2(j, TG_OP_SHL, add(j, e, i64(j, F64_BIAS)), i64(j, F64_DIGITS)));
}
static node magnitude_of(tg_job *j, node x) { return tg_op1(j, TG_OP_ABS, x); }

/* x + y rounded to nearest, and the rounding error (Knuth's two-sum). */
typedef struct { node sum, rest; } two;
static two exact_sum(tg_job *j, node x, node y) {
  node s = add(j, x, y), t = sub(j, s, x);
  return (two){s, add(j, sub(j, x, sub(j, s, t)), sub(j, y, t))};
}

static node odd_sum(tg_job *j, node x, node y) {
  two s = exact_sum(j, x, y);
  node zero = f64(j, 0), above = less(j, zero, s.rest);
  return to_odd(j, TG_I64, s.sum, or (j, above, less(j, s.rest, zero)),
                tg_op2(j, TG_OP_EQ, above, less(j, zero, s.sum)));
}

/* Half of the digits each (Veltkamp): products of two such parts are exact. */
static two halves(tg_job *j, node x) {
  node g = mul(j, x, f64(j, 134217729)), high = sub(j, g, sub(j, g, x));
  return (two){high, sub(j, x, high)};
}

static two exact_product(tg_job *j, node x, node y) {
  node p = mul(j, x, y);
  two a = halves(j, x), b = halves(j, y);
  node rest = add(j, add(j, sub(j, mul(j, a.sum, b.sum), p), mul(j, a.sum, b.rest)), mul(j, a.rest, b.sum));
  return (two){p, add(j, rest, mul(j, a.rest, b.rest))};
}

/* x, finite and not 0, as mantissa * 2^exponent with a mantissa of 1 to 2. */
typedef struct { node mantissa, exponent; } parts;
static parts parts_of(tg_job *j, node x) {
  const int64_t field = 0x7ff;
  node tiny = less(j, magnitude_of(j, x), f64(j, 0x1p-1022));
  node b = tg_bitcast(j, TG_I64, where(j, tiny, mul(j, x, f64(j, 0x1p64)), x));
  node e = and(j, tg_op2(j, TG_OP_SHR, b, i64(j, F64_DIGITS)), i64(j, field));
  return (parts){
      tg_bitcast(j, TG_F64, or (j, and(j, b, i64(j, ~(field << F64_DIGITS))), i64(j, (int64_t)F64_BIAS << F64_DIGITS))),
      sub(j, e, where(j, tiny, i64(j, F64_BIAS + 64), i64(j, F64_BIAS)))};
}

/* a * b + c, rounded once (Boldo and Melquiond, Emulation of a FMA and correctly rounded sums: the parts of the
 * product and c are added, the least with rounding to odd), on mantissas, so that nothing overflows or gets lost;
 * then the exponent. Below the least normal value a constant whose last digit is the type's is added before the last
 * rounding, and taken off again. */
static node fma_f64(tg_job *j, node a, node b, node c) {
  /* at a larger distance of exponents the smaller operand only affects the direction of the last rounding */
  const int64_t far = 130;
  parts x = parts_of(j, a), y = parts_of(j, b), z = parts_of(j, c);
  node e = add(j, x.exponent, y.exponent), apart = clamp(j, sub(j, z.exponent, e), -far, far), zero = f64(j, 0),
       infinity = f64(j, __builtin_inf());
  node scale = tg_op2(j, TG_OP_MAX, e, sub(j, z.exponent, i64(j, far)));
  node none = tg_op2(j, TG_OP_EQ, c, zero), added = where(j, none, c, mul(j, z.mantissa, power_of(j, apart)));
  scale = where(j, none, e, scale);
  two u = exact_product(j, x.mantissa, y.mantissa), t = exact_sum(j, added, u.rest), v = exact_sum(j, u.sum, t.sum);
  node low = odd_sum(j, t.rest, v.rest), r = add(j, v.sum, low);
  node least = power_of(j, clamp(j, sub(j, i64(j, 1 - F64_BIAS), scale), -1000, 300)),
       sign = and(j, tg_bitcast(j, TG_I64, r), i64(j, INT64_MIN));
  node unit = tg_bitcast(j, TG_F64, or(j, tg_bitcast(j, TG_I64, least), sign));
  two s = exact_sum(j, unit, v.sum);
  node small = sub(j, add(j, s.sum, odd_sum(j, s.rest, low)), unit);
  small = tg_bitcast(j, TG_F64, or(j, tg_bitcast(j, TG_I64, small), sign));
  r = where(j, less(j, magnitude_of(j, r), least), small, r);
  node quarter = tg_op2(j, TG_OP_SHR, scale, i64(j, 2)), step = power_of(j, quarter),
       last = power_of(j, sub(j, scale, mul(j, quarter, i64(j, 3))));
  r = mul(j, mul(j, mul(j, mul(j, r, step), step), step), last);
  /* With 0, infinity or NaN as a factor a * b + c is computed directly, since the product is exact; if only c is
   * infinite or NaN, the result is c. */
  node plain_a = and(j, less(j, zero, magnitude_of(j, a)), less(j, magnitude_of(j, a), infinity)),
       plain_b = and(j, less(j, zero, magnitude_of(j, b)), less(j, magnitude_of(j, b), infinity));
  node plain_c = less(j, magnitude_of(j, c), infinity);
  return where(j, and(j, plain_a, plain_b), where(j, plain_c, r, c), add(j, mul(j, a, b), c));
}

typedef struct { bool f16_convert, f16_arithmetic, fma; const tg_target *target; } abilities;

static bool by_bits(const abilities *k, tg_type t) {
  return t == TG_E4M3 || t == TG_E5M2 || (t == TG_F16 && !k->f16_convert);
}

static node convert(tg_job *j, const abilities *k, tg_type to, node x) {
  tg_type from = x->type;
  if (from == to) return x;
  if (by_bits(k, from)) {
    x = widen(j, from, x);
    from = TG_F32;
  }
  if (!by_bits(k, to)) return tg_cast(j, to, x);
  if (from == TG_F64) x = f64_to_f32_odd(j, x);
  else if (tg_is_float(from)) x = tg_cast(j, TG_F32, x);
  else x = int_to_f32(j, x);
  return narrow(j, to, x);
}

static node sign_bit(tg_job *j, tg_op op, node x) {
  tg_type bits = tg_type_bits(x->type) == 8 ? TG_U8 : TG_U16;
  int64_t sign = bits == TG_U8 ? 0x80 : 0x8000;
  node b = tg_bitcast(j, bits, x);
  b = op == TG_OP_NEG ? tg_op2(j, TG_OP_XOR, b, tg_const_int(j, bits, sign))
                      : and(j, b, tg_const_int(j, bits, sign - 1));
  return tg_bitcast(j, x->type, b);
}

static node compute(tg_job *j, const abilities *k, node old, node const *src, tg_type t) {
  node wide[3];
  tg_op op = old->op;
  if (op == TG_OP_NEG || op == TG_OP_ABS) return sign_bit(j, op, src[0]);
  for (uint32_t i = 0; i < old->n; i++) wide[i] = convert(j, k, TG_F32, src[i]);
  if (op == TG_OP_FMA) {
    for (int i = 0; i < 3; i++) wide[i] = tg_cast(j, TG_F64, wide[i]);
    return convert(j, k, t, fma_odd(j, wide[0], wide[1], wide[2]));
  }
  node r = tg_make(j, op, old->type == TG_BOOL ? TG_BOOL : TG_F32, old->lanes, old->arg, old->n, wide);
  return old->type == TG_BOOL ? r : convert(j, k, t, r);
}

static node legalize(tg_job *j, node old, node const *src, void *user) {
  const abilities *k = user;
  tg_op op = old->op;
  if (op == TG_OP_CAST && old->type == TG_F32 && !tg_is_float(src[0]->type))
    return tg_lookup(j, k->target, old, src[0]);
  if (op == TG_OP_CAST)
    return by_bits(k, old->type) || by_bits(k, src[0]->type) ? convert(j, k, old->type, src[0]) : NULL;
  bool fold = op == TG_OP_FOLD;
  if ((!fold && !(tg_ops[op].flags & TG_OPF_W)) || op == TG_OP_WHERE || op == TG_OP_BITCAST) return NULL;
  tg_type t = src[0]->type;
  if (op == TG_OP_FMA && t == TG_F32 && !k->fma) {
    node wide[3];
    for (int i = 0; i < 3; i++) wide[i] = tg_cast(j, TG_F64, src[i]);
    return tg_cast(j, TG_F32, fma_odd(j, wide[0], wide[1], wide[2]));
  }
  if (op == TG_OP_FMA && t == TG_F64 && !k->fma) return fma_f64(j, src[0], src[1], src[2]);
  if (!tg_is_float(t) || t == TG_F32 || t == TG_F64 || (t == TG_F16 && k->f16_arithmetic)) return NULL;
  if (fold && old->arg != TG_OP_MAX && old->arg != TG_OP_MIN) {   /* each step of a sum would have to be rounded */
    if (t == TG_F16 && k->f16_convert) return NULL;
    tg_fail(&j->env, TG_EINVAL, "a reduction over %s that is spread over lanes: accumulate in f32", tg_type_name[t]);
  }
  return compute(j, k, old, src, t);
}

const tg_uop *tg_pass_types(tg_job *j, const tg_lowering *l, const tg_uop *sink) {
  abilities k = {l->target->f16_convert || l->target->f16_arithmetic, l->target->f16_arithmetic, l->target->fma,
                 l->target};
  sink = tg_map(j, sink, legalize, NULL, &k);
  return l->target->lanes > 1 ? sink : tg_narrow_integers(j, sink, 2);
}
