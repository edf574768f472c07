/* SPDX-License-Identifier: MIT
 * Values of ops on scalars, from the opcode table. Compiled without floating-point contraction. */
#include <math.h>
#include "dsl/value.h"

tg_i128 tg_floor_div(tg_i128 a, tg_i128 b) {
  if (!b) return 0;
  tg_i128 q = a / b;
  return q - (a % b != 0 && (a < 0) != (b < 0));
}

tg_i128 tg_floor_mod(tg_i128 a, tg_i128 b) {
  if (!b) return 0;
  tg_i128 r = a % b;
  return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}

tg_i128 tg_wrap(tg_type t, tg_i128 v) {
  switch (t) {
  case TG_BOOL: return v & 1;
  case TG_I8: return (int8_t)v;
  case TG_I16: return (int16_t)v;
  case TG_I32: return (int32_t)v;
  case TG_I64: return (int64_t)v;
  case TG_U8: return (uint8_t)v;
  case TG_U16: return (uint16_t)v;
  case TG_U32: return (uint32_t)v;
  case TG_U64: return (uint64_t)v;
  default: return v;
  }
}

/* ---- floats below 32 bits: mantissa bits (without the hidden one), exponent range ---- */

static double round_small(double v, int mantissa, int min_exp, int max_exp) {
  int e;
  if (v == 0 || v != v || isinf(v)) return v;
  frexp(v, &e);                       /* |v| = m * 2^e, m in [1/2, 1) */
  if (e - 1 < min_exp) e = min_exp + 1;
  double unit = ldexp(1, e - 1 - mantissa), r = nearbyint(v / unit) * unit;
  return fabs(r) >= ldexp(1, max_exp + 1) ? copysign(INFINITY, v) : r;
}

double tg_round_to(tg_type t, double v) {
  switch (t) {
  case TG_F32: return (float)v;
  case TG_F16: return round_small(v, 10, -14, 15);
  case TG_BF16: return round_small(v, 7, -126, 127);
  case TG_E5M2: return round_small(v, 2, -14, 15);
  case TG_E4M3: { /* no infinity: saturates at 448 */
    double r = round_small(v, 3, -6, 8);
    return fabs(r) > 448 ? copysign(448, v) : r;
  }
  default: return v;
  }
}

/* ---- what the table names ---- */

#define TG_MUL(a, b) multiply((a), (b), bits, &overflow)
static tg_i128 multiply(tg_i128 a, tg_i128 b, int bits, bool *overflow) {
  if (bits) return (tg_i128)((uint64_t)a * (uint64_t)b);   /* wraps; the low 64 bits are right for every width */
  tg_i128 r;
  if (__builtin_mul_overflow(a, b, &r)) *overflow = true;
  return r;
}

static double tg_fmax(double a, double b) {
  if (a != a || b != b) return NAN;
  return a > b || (a == b && !signbit(a)) ? a : b;   /* +0 over -0 */
}

static double tg_fmin(double a, double b) {
  if (a != a || b != b) return NAN;
  return a < b || (a == b && signbit(a)) ? a : b;
}

static tg_i128 tg_shl(tg_i128 a, tg_i128 b, int bits) {
  if (b < 0 || b >= (bits ? bits : TG_INDEX_WIDTH)) return 0;
  return (tg_i128)((unsigned __int128)a << (int)b);
}

static tg_i128 tg_shr(tg_i128 a, tg_i128 b, int bits) {
  if (b < 0 || b >= (bits ? bits : TG_INDEX_WIDTH)) return a < 0 ? -1 : 0;
  return a >> (int)b;
}

static bool on_integers(tg_op op, int bits, tg_i128 a, tg_i128 b, tg_i128 c, tg_i128 *r) {
  bool ok = true, overflow = false;
  (void)bits;
  switch (op) {
#define NO (ok = false, (tg_i128)0)
#define OP(name, text, arity, flags, on_int, on_float) case TG_OP_##name: *r = (on_int); break;
#include "dsl/ops.def"
#undef OP
#undef NO
  default: return false;
  }
  return ok && !overflow;
}

static bool on_floats(tg_op op, double a, double b, double *r) {
  bool ok = true;
  switch (op) {
#define NO (ok = false, 0.0)
#define OP(name, text, arity, flags, on_int, on_float) case TG_OP_##name: *r = (double)(on_float); break;
#include "dsl/ops.def"
#undef OP
#undef NO
  default: return false;
  }
  return ok;
}

/* One rounding: in f32 and f64 by the machine's fma; below, the product is exact in double and the sum is rounded to
 * odd. */
static double fused(tg_type t, double a, double b, double c) {
  if (t == TG_F64) return fma(a, b, c);
  if (t == TG_F32) return fmaf((float)a, (float)b, (float)c);
  double p = a * b, s = p + c, bb = s - p, err = (p - (s - bb)) + (c - bb);
  uint64_t bits;
  memcpy(&bits, &s, sizeof bits);
  if (err != 0 && err == err && !isinf(s) && !(bits & 1)) s = nextafter(s, err > 0 ? INFINITY : -INFINITY);
  return tg_round_to(t, s);
}

bool tg_evaluate(tg_op op, tg_type type, tg_type from, const tg_value *v, tg_value *result) {
  int arity = tg_ops[op].arity;
  if (op == TG_OP_WHERE) {
    *result = v[0].i ? v[1] : v[2];
    return true;
  }
  if (tg_is_float(from)) {
    double r;
    if (op == TG_OP_FMA) r = fused(from, v[0].f, v[1].f, v[2].f);
    else if (!on_floats(op, v[0].f, arity > 1 ? v[1].f : 0, &r)) return false;
    if (type == TG_BOOL) result->i = r != 0;
    else result->f = tg_round_to(type, r);
    return true;
  }
  const tg_i128 far = (tg_i128)1 << 120;
  for (int i = 0; i < arity; i++)
    if (v[i].i > far || v[i].i < -far) return false;
  tg_i128 r;
  if (!on_integers(op, tg_type_bits(from), v[0].i, arity > 1 ? v[1].i : 0, arity > 2 ? v[2].i : 0, &r)) return false;
  result->i = tg_wrap(type, r);
  return true;
}

bool tg_convert(tg_type to, tg_type from, tg_value v, tg_value *result) {
  if (tg_is_float(to)) {
    if (tg_is_float(from)) result->f = tg_round_to(to, v.f);
    else if (to == TG_F32) result->f = (float)v.i;   /* from the integer directly: one rounding */
    else if (to == TG_F64) result->f = (double)v.i;
    else { /* 16 bits and below: to odd in double first, where 64-bit integers do not fit */
      double d = (double)v.i;
      tg_i128 back = (tg_i128)d;
      uint64_t bits;
      memcpy(&bits, &d, sizeof bits);
      if (back != v.i && !(bits & 1)) d = nextafter(d, v.i > back ? INFINITY : -INFINITY);
      result->f = tg_round_to(to, d);
    }
    return true;
  }
  if (!tg_is_float(from)) {
    result->i = to == TG_BOOL ? v.i != 0 : tg_wrap(to, v.i);
    return true;
  }
  if (to == TG_BOOL) {
    result->i = v.f != 0;
    return true;
  }
  int bits = to == TG_INDEX ? 64 : tg_type_bits(to);   /* float to int: truncates, saturates, NaN gives 0 */
  tg_i128 lo = tg_is_signed(to) ? -((tg_i128)1 << (bits - 1)) : 0,
          hi = ((tg_i128)1 << (tg_is_signed(to) ? bits - 1 : bits)) - 1;
  double t = trunc(v.f);
  result->i = t != t ? 0 : t <= (double)lo ? lo : t >= ldexp(1, tg_is_signed(to) ? bits - 1 : bits) ? hi : (tg_i128)t;
  return true;
}

/* ---- bits ---- */

static uint64_t small_bits(double v, int mantissa, int exponent, bool infinity) {
  int bias = (1 << (exponent - 1)) - 1, e;
  uint64_t sign = (uint64_t)(signbit(v) != 0) << (mantissa + exponent), top = (((uint64_t)1 << exponent) - 1)
                                                                              << mantissa;
  if (v != v) return sign | (infinity ? top | (uint64_t)1 << (mantissa - 1) : top | (((uint64_t)1 << mantissa) - 1));
  if (isinf(v)) return sign | top;
  if (v == 0) return sign;
  double m = frexp(fabs(v), &e);
  e += bias - 1;
  if (e <= 0) return sign | (uint64_t)ldexp(m, mantissa + e);
  return sign | (uint64_t)e << mantissa | ((uint64_t)ldexp(m, mantissa + 1) & (((uint64_t)1 << mantissa) - 1));
}

static double small_value(uint64_t b, int mantissa, int exponent, bool infinity) {
  int bias = (1 << (exponent - 1)) - 1, e = (int)(b >> mantissa & (((uint64_t)1 << exponent) - 1));
  uint64_t m = b & (((uint64_t)1 << mantissa) - 1);
  double s = b >> (mantissa + exponent) & 1 ? -1 : 1;
  if (infinity && e == (1 << exponent) - 1) return m ? NAN : s * INFINITY;
  if (!infinity && e == (1 << exponent) - 1 && m == (((uint64_t)1 << mantissa) - 1)) return NAN;
  return e ? s * ldexp((double)(m | (uint64_t)1 << mantissa), e - bias - mantissa)
           : s * ldexp((double)m, 1 - bias - mantissa);
}

uint64_t tg_value_bits(tg_type t, tg_value v) {
  float f;
  uint32_t w;
  uint64_t d;
  switch (t) {
  case TG_F64: memcpy(&d, &v.f, 8); return d;
  case TG_F32: f = (float)v.f; memcpy(&w, &f, 4); return w;
  case TG_F16: return small_bits(v.f, 10, 5, true);
  case TG_BF16: return small_bits(v.f, 7, 8, true);
  case TG_E5M2: return small_bits(v.f, 2, 5, true);
  case TG_E4M3: return small_bits(v.f, 3, 4, false);
  case TG_INDEX: return (uint64_t)v.i;
  default: return (uint64_t)v.i & (tg_type_bits(t) == 64 ? UINT64_MAX : ((uint64_t)1 << tg_type_bits(t)) - 1);
  }
}

tg_value tg_value_from_bits(tg_type t, uint64_t b) {
  tg_value v = {0};
  float f;
  uint32_t w = (uint32_t)b;
  switch (t) {
  case TG_F64: memcpy(&v.f, &b, 8); break;
  case TG_F32: memcpy(&f, &w, 4); v.f = f; break;
  case TG_F16: v.f = small_value(b, 10, 5, true); break;
  case TG_BF16: v.f = small_value(b, 7, 8, true); break;
  case TG_E5M2: v.f = small_value(b, 2, 5, true); break;
  case TG_E4M3: v.f = small_value(b, 3, 4, false); break;
  case TG_INDEX: v.i = (int64_t)b; break;
  default: v.i = tg_wrap(t, (tg_i128)b);
  }
  return v;
}

bool tg_reinterpret(tg_type to, tg_type from, tg_value v, tg_value *result) {
  *result = tg_value_from_bits(to, tg_value_bits(from, v));
  return true;
}

/* ---- constants ---- */

tg_value tg_value_of(const tg_uop *c) {
  tg_value v = {0};
  if (tg_is_float(c->type)) v.f = tg_const_value(c);
  else v.i = c->type == TG_U64 ? (tg_i128)(uint64_t)c->arg : c->arg;
  return v;
}

const tg_uop *tg_const_of(tg_job *j, tg_type t, tg_value v) {
  if (tg_is_float(t)) return tg_const_float(j, t, v.f);
  if (t == TG_INDEX && (v.i > INT64_MAX || v.i < INT64_MIN)) return NULL;
  return tg_const_int(j, t, (int64_t)v.i);
}
