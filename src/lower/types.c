/* SPDX-License-Identifier: MIT
 * Pass types: arithmetic on f16, bf16 and the 8-bit floats becomes arithmetic on f32 and a rounding, FMA of f32 on f64 where the target has none; conversions of the 8-bit
 * floats, and those of f16 where the target has none, become integer code on the bits. What is left to the emitter: f16
 * arithmetic where the target has it, selections and bits of every type, and conversions among integers, bf16, f16, f32, f64.
 *
 * f32 has more than twice the bits of each of them, so rounding + - * / sqrt to f32 first changes nothing; FMA is computed in
 * f64 and rounded to odd. Every conversion goes through f32, from where no second rounding can go wrong: 64-bit integers are
 * clamped first (past the largest value of the type), f64 is rounded to odd. */
#include "lower/lookup.h"

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
  int all = f->mantissa + f->exponent, bias = (1 << (f->exponent - 1)) - 1;
  node b = tg_cast(j, TG_U32, tg_bitcast(j, f->bits, x));
  node magnitude = and(j, b, word(j, ((int64_t)1 << all) - 1)), sign = shl(j, and(j, b, word(j, (int64_t)1 << all)), 31 - all);
  node moved = shl(j, magnitude, 23 - f->mantissa);
  node v = tg_bitcast(j, TG_U32, mul(j, tg_bitcast(j, TG_F32, moved), single(j, power(TG_MUTANT("types: scale of widening", 127 - bias, 126 - bias)))));
  if (t == TG_E4M3) v = where(j, tg_op2(j, TG_OP_EQ, magnitude, word(j, TG_MUTANT("types: NaN of e4m3", f->nan, f->top))), word(j, 0x7fc00000), v);
  else v = where(j, less(j, magnitude, word(j, f->top)), v, or(j, moved, word(j, 0x7f800000)));
  return tg_bitcast(j, TG_F32, or(j, v, sign));
}

/* From f32, to nearest even. Below the least normal value, adding a constant whose last bit is the type's leaves the rest to f32. */
static node narrow(tg_job *j, tg_type t, node x) {
  const format *f = &formats[t];
  int all = f->mantissa + f->exponent, bias = (1 << (f->exponent - 1)) - 1, drop = 23 - f->mantissa;
  node b = tg_bitcast(j, TG_U32, x), a = and(j, b, word(j, 0x7fffffff));
  node even = add(j, word(j, ((int64_t)1 << (drop - 1)) - TG_MUTANT("types: rounding to even", 1, 0)), and(j, shr(j, a, drop), word(j, 1)));
  node normal = sub(j, shr(j, add(j, a, even), drop), word(j, (int64_t)(127 - bias) << f->mantissa));
  node normals = word(j, (int64_t)(TG_MUTANT("types: least normal value", 128 - bias, 127 - bias)) << 23);   /* the bits of the least normal value */
  node unit = single(j, power(1 - bias - f->mantissa + 23));
  node tiny = sub(j, tg_bitcast(j, TG_U32, add(j, tg_bitcast(j, TG_F32, a), unit)), tg_bitcast(j, TG_U32, unit));
  node q = where(j, less(j, a, normals), tiny, tg_op2(j, TG_OP_MIN, normal, word(j, TG_MUTANT("types: largest value", f->top, f->top - 1))));
  q = where(j, less(j, word(j, 0x7f800000), a), word(j, TG_MUTANT("types: NaN", f->nan, f->top)), q);
  q = or(j, q, and(j, TG_MUTANT("types: sign", shr(j, b, 31 - all), word(j, 0)), word(j, (int64_t)1 << all)));
  return tg_bitcast(j, t, tg_cast(j, f->bits, q));
}

/* y, x to nearest, with the neighbour that has an odd last bit in its place where it is not x. exact and the comparisons in x's type. */
static node to_odd(tg_job *j, tg_type bits, node y, node inexact, node away) {
  node b = tg_bitcast(j, bits, y), one = tg_const_int(j, bits, 1);
  node even = tg_op2(j, TG_OP_EQ, and(j, b, one), tg_const_int(j, bits, 0));
  node moved = add(j, b, where(j, TG_MUTANT("types: direction of rounding to odd", away, tg_op1(j, TG_OP_NOT, away)), one, tg_const_int(j, bits, -1)));
  return tg_bitcast(j, (tg_type)y->type, where(j, and(j, TG_MUTANT("types: rounding to odd", inexact, tg_bool(j, false)), even), moved, b));
}

static node f64_to_f32_odd(tg_job *j, node x) {
  node y = tg_cast(j, TG_F32, x), back = tg_cast(j, TG_F64, y);
  node inexact = or(j, less(j, back, x), less(j, x, back));   /* false for NaN */
  return to_odd(j, TG_I32, y, inexact, less(j, tg_op1(j, TG_OP_ABS, back), tg_op1(j, TG_OP_ABS, x)));
}

static node int_to_f32(tg_job *j, node x) {
  tg_type t = (tg_type)x->type;
  if (t == TG_INDEX || tg_type_bits(t) > 16) {
    x = tg_op2(j, TG_OP_MIN, x, tg_const_int(j, t, TG_MUTANT("types: clamp of large integers", 1 << 20, 1 << 10)));
    if (tg_is_signed(t)) x = tg_op2(j, TG_OP_MAX, x, tg_const_int(j, t, -(1 << 20)));
  }
  return tg_cast(j, TG_F32, x);
}

/* Of a * b + c, whose product is exact in f64: the sum rounded to odd, so that rounding it again is right. */
static node fma_odd(tg_job *j, node a, node b, node c) {
  node p = mul(j, a, b), s = add(j, p, c), t = sub(j, s, p);
  node error = add(j, sub(j, p, sub(j, s, t)), sub(j, c, t)), zero = tg_const_float(j, TG_F64, 0);
  node above = less(j, zero, error), inexact = or(j, above, less(j, error, zero));
  return to_odd(j, TG_I64, s, inexact, tg_op2(j, TG_OP_EQ, above, less(j, zero, s)));
}

typedef struct { bool f16_convert, f16_arithmetic, fma; const tg_target *target; } abilities;

static bool by_bits(const abilities *k, tg_type t) { return t == TG_E4M3 || t == TG_E5M2 || (t == TG_F16 && !k->f16_convert); }

static node convert(tg_job *j, const abilities *k, tg_type to, node x) {
  tg_type from = (tg_type)x->type;
  if (from == to) return x;
  if (by_bits(k, from)) {
    x = widen(j, from, x);
    from = TG_F32;
  }
  if (!by_bits(k, to)) return tg_cast(j, to, x);
  if (from == TG_F64) x = TG_MUTANT("types: f64 rounded twice", f64_to_f32_odd(j, x), tg_cast(j, TG_F32, x));
  else if (tg_is_float(from)) x = tg_cast(j, TG_F32, x);
  else x = int_to_f32(j, x);
  return narrow(j, to, x);
}

static node sign_bit(tg_job *j, tg_op op, node x) {
  tg_type bits = tg_type_bits(x->type) == 8 ? TG_U8 : TG_U16;
  int64_t sign = bits == TG_U8 ? 0x80 : 0x8000;
  node b = tg_bitcast(j, bits, x);
  b = op == TG_OP_NEG ? tg_op2(j, TG_OP_XOR, b, tg_const_int(j, bits, sign)) : and(j, b, tg_const_int(j, bits, sign - 1));
  return tg_bitcast(j, (tg_type)x->type, b);
}

static node compute(tg_job *j, const abilities *k, node old, node const *src, tg_type t) {
  node wide[3];
  tg_op op = (tg_op)old->op;
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
  tg_op op = (tg_op)old->op;
  if (op == TG_OP_CAST && old->type == TG_F32 && !tg_is_float((tg_type)src[0]->type)) return tg_lookup(j, k->target, old, src[0]);
  if (op == TG_OP_CAST) return by_bits(k, (tg_type)old->type) || by_bits(k, (tg_type)src[0]->type) ? convert(j, k, (tg_type)old->type, src[0]) : NULL;
  bool fold = op == TG_OP_FOLD;
  if ((!fold && !(tg_ops[op].flags & TG_OPF_W)) || op == TG_OP_WHERE || op == TG_OP_BITCAST) return NULL;
  tg_type t = (tg_type)src[0]->type;
  if (op == TG_OP_FMA && t == TG_F32 && !k->fma) {
    node wide[3];
    for (int i = 0; i < 3; i++) wide[i] = tg_cast(j, TG_F64, src[i]);
    return tg_cast(j, TG_F32, fma_odd(j, wide[0], wide[1], wide[2]));
  }
  if (!tg_is_float(t) || t == TG_F32 || t == TG_F64 || (t == TG_F16 && k->f16_arithmetic)) return NULL;
  if (fold && old->arg != TG_OP_MAX && old->arg != TG_OP_MIN) {   /* each step of a sum would have to be rounded */
    if (t == TG_F16 && k->f16_convert) return NULL;
    tg_fail(&j->env, TG_EINVAL, "a reduction over %s that is spread over lanes: accumulate in f32", tg_type_name[t]);
  }
  return compute(j, k, old, src, t);
}

const tg_uop *tg_pass_types(tg_job *j, const tg_lowering *l, const tg_uop *sink) {
  abilities k = {l->target->f16_convert || l->target->f16_arithmetic, l->target->f16_arithmetic, l->target->fma, l->target};
  return tg_map(j, sink, legalize, NULL, &k);
}
