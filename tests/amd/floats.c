/* SPDX-License-Identifier: MIT
 * Floats of one lane. Results are rounded to nearest even; a NaN that comes of numbers is the positive quiet one. What the
 * documents give within an error (reciprocals, square roots) is off by as much as they allow where it is not exact, so
 * that no program relies on more; v_log is rounded; in it and in v_exp subnormal numbers count as zero. */
#include <math.h>
#include "arithmetic.h"

static float flushed(const amd_lane *x, float f) { return x->m->flush && fabsf(f) < 0x1p-126f ? copysignf(0, f) : f; }
static float in(const amd_lane *x, int k) { return flushed(x, amd_single((uint32_t)x->v[k])); }
static double twice(const amd_lane *x, int k) { return amd_double(x->v[k]); }
static double half(const amd_lane *x, int k) { return amd_half((uint32_t)x->v[k] & 0xffff); }
static bool set(amd_lane *x, float f) { return x->d = amd_single_bits(flushed(x, f)), true; }
static bool set_double(amd_lane *x, double f) { return x->d = amd_double_bits(f), true; }
static bool set_half(amd_lane *x, double f) { return x->d = amd_round_half(f, 0, false), true; }

static double extreme(double a, double b, bool least, bool nan_wins) {
  if (a != a || b != b) return nan_wins ? (double)NAN : a != a ? b : a;
  bool less = a < b || (a == b && signbit(a) && !signbit(b));
  return less == least ? a : b;
}

/* Less than one unit of the last place away, as the documents say: one of the two floats around the value, by the bits of the
 * operand which. LLVM's division of integers is wrong for some divisors (30 is one) if a reciprocal is further away. */
static float about(double exact, uint64_t operand) {
  float f = (float)exact;
  if ((double)f == exact || f != f || isinf(f)) return f;
  return operand * 0x9e3779b97f4a7c15u >> 63 ? f : nextafterf(f, (double)f < exact ? INFINITY : -INFINITY);
}
/* "V_RCP_F64", "V_RSQ_F64", "V_SQRT_F64": to about 2^-24 of the value. */
static double roughly(double v) {
  int e;
  if (v == 0 || v != v || isinf(v)) return v;
  double m = frexp(v, &e);
  return ldexp((double)(float)m, e);
}

static bool singles(amd_lane *x) {
  float a = in(x, 0), b = in(x, 1), c = in(x, 2);
  switch (x->i->operation) {
  case AMD_V_ADD_F32: return set(x, a + b);
  case AMD_V_SUB_F32: return set(x, a - b);
  case AMD_V_SUBREV_F32: return set(x, b - a);
  case AMD_V_MUL_F32: return set(x, a * b);
  case AMD_V_FMA_F32: case AMD_V_FMAC_F32: return set(x, fmaf(a, b, c));
  case AMD_V_MAD_F32: return set(x, a * b + c);
  case AMD_V_MIN_F32: return set(x, (float)extreme((double)a, (double)b, true, false));
  case AMD_V_MAX_F32: return set(x, (float)extreme((double)a, (double)b, false, false));
  case AMD_V_MINIMUM_F32: return set(x, (float)extreme((double)a, (double)b, true, true));
  case AMD_V_MAXIMUM_F32: return set(x, (float)extreme((double)a, (double)b, false, true));
  case AMD_V_MIN3_F32: return set(x, (float)extreme(extreme((double)a, (double)b, true, false), (double)c, true, false));
  case AMD_V_MAX3_F32: return set(x, (float)extreme(extreme((double)a, (double)b, false, false), (double)c, false, false));
  case AMD_V_MINIMUM3_F32: return set(x, (float)extreme(extreme((double)a, (double)b, true, true), (double)c, true, true));
  case AMD_V_MAXIMUM3_F32: return set(x, (float)extreme(extreme((double)a, (double)b, false, true), (double)c, false, true));
  case AMD_V_MAXMIN_F32: return set(x, (float)extreme(extreme((double)a, (double)b, false, false), (double)c, true, false));
  case AMD_V_MINMAX_F32: return set(x, (float)extreme(extreme((double)a, (double)b, true, false), (double)c, false, false));
  case AMD_V_MAXIMUMMINIMUM_F32: return set(x, (float)extreme(extreme((double)a, (double)b, false, true), (double)c, true, true));
  case AMD_V_MINIMUMMAXIMUM_F32: return set(x, (float)extreme(extreme((double)a, (double)b, true, true), (double)c, false, true));
  case AMD_V_MED3_F32: {
    if (a != a || b != b || c != c) return set(x, (float)extreme(extreme((double)a, (double)b, true, false), (double)c, true, false));
    double low = extreme((double)a, (double)b, true, false), high = extreme((double)a, (double)b, false, false);
    return set(x, (float)extreme(low, extreme(high, (double)c, true, false), false, false));
  }
  case AMD_V_CEIL_F32: return set(x, ceilf(a));
  case AMD_V_FLOOR_F32: return set(x, floorf(a));
  case AMD_V_TRUNC_F32: return set(x, truncf(a));
  case AMD_V_RNDNE_F32: return set(x, rintf(a));
  case AMD_V_FRACT_F32: return set(x, a - floorf(a) >= 1 ? 0x1.fffffep-1f : a - floorf(a));
  case AMD_V_RCP_F32: case AMD_V_S_RCP_F32: return set(x, about(1 / (double)a, x->v[0]));
  case AMD_V_RSQ_F32: case AMD_V_S_RSQ_F32: return set(x, about(1 / sqrt((double)a), x->v[0]));
  case AMD_V_SQRT_F32: case AMD_V_S_SQRT_F32: return set(x, about(sqrt((double)a), x->v[0]));
  case AMD_V_EXP_F32: case AMD_V_S_EXP_F32: a = about(exp2((double)a), x->v[0]); return set(x, fabsf(a) < 0x1p-126f ? 0 : a);
  case AMD_V_LOG_F32: case AMD_V_S_LOG_F32: return set(x, log2f(fabsf(a) < 0x1p-126f ? copysignf(0, a) : a));
  case AMD_V_LDEXP_F32: return set(x, ldexpf(a, (int32_t)x->v[1]));
  case AMD_V_FREXP_MANT_F32: { int e; return set(x, isinf(a) || a != a ? a : frexpf(a, &e)); }
  case AMD_V_FREXP_EXP_I32_F32: { int e = 0; if (!isinf(a) && a == a) frexpf(a, &e); x->d = (uint32_t)e; return true; }
  default: return false;
  }
}

static bool doubles(amd_lane *x) {
  double a = twice(x, 0), b = twice(x, 1), c = twice(x, 2);
  switch (x->i->operation) {
  case AMD_V_ADD_F64: return set_double(x, a + b);
  case AMD_V_MUL_F64: return set_double(x, a * b);
  case AMD_V_FMA_F64: case AMD_V_FMAC_F64: return set_double(x, fma(a, b, c));
  case AMD_V_MIN_F64: return set_double(x, extreme(a, b, true, false));
  case AMD_V_MAX_F64: return set_double(x, extreme(a, b, false, false));
  case AMD_V_MINIMUM_F64: return set_double(x, extreme(a, b, true, true));
  case AMD_V_MAXIMUM_F64: return set_double(x, extreme(a, b, false, true));
  case AMD_V_CEIL_F64: return set_double(x, ceil(a));
  case AMD_V_FLOOR_F64: return set_double(x, floor(a));
  case AMD_V_TRUNC_F64: return set_double(x, trunc(a));
  case AMD_V_RNDNE_F64: return set_double(x, rint(a));
  case AMD_V_FRACT_F64: return set_double(x, a - floor(a) >= 1 ? 0x1.fffffffffffffp-1 : a - floor(a));
  case AMD_V_RCP_F64: return set_double(x, roughly(1 / a));
  case AMD_V_RSQ_F64: return set_double(x, roughly(1 / sqrt(a)));
  case AMD_V_SQRT_F64: return set_double(x, roughly(sqrt(a)));
  case AMD_V_LDEXP_F64: return set_double(x, ldexp(a, (int32_t)x->v[1]));
  case AMD_V_FREXP_MANT_F64: { int e; return set_double(x, isinf(a) || a != a ? a : frexp(a, &e)); }
  case AMD_V_FREXP_EXP_I32_F64: { int e = 0; if (!isinf(a) && a == a) frexp(a, &e); x->d = (uint32_t)e; return true; }
  default: return false;
  }
}

/* The sum of an exact product and c, rounded once: what double precision loses is kept as a hint. */
static uint32_t half_fma(double a, double b, double c) {
  double product = a * b, sum = product + c, part = sum - product, lost = (product - (sum - part)) + (c - part);
  int hint = lost == 0 || lost != lost || isinf(sum) ? 0 : (lost > 0) == (sum > 0) ? 1 : -1;
  return amd_round_half(sum, hint, false);
}

static bool halves(amd_lane *x) {
  double a = half(x, 0), b = half(x, 1);
  switch (x->i->operation) {
  case AMD_V_ADD_F16: return set_half(x, a + b);
  case AMD_V_SUB_F16: return set_half(x, a - b);
  case AMD_V_SUBREV_F16: return set_half(x, b - a);
  case AMD_V_MUL_F16: return set_half(x, a * b);
  case AMD_V_FMA_F16: case AMD_V_FMAC_F16: return x->d = half_fma(a, b, half(x, 2)), true;
  case AMD_V_MIN_F16: return set_half(x, extreme(a, b, true, false));
  case AMD_V_MAX_F16: return set_half(x, extreme(a, b, false, false));
  case AMD_V_MINIMUM_F16: return set_half(x, extreme(a, b, true, true));
  case AMD_V_MAXIMUM_F16: return set_half(x, extreme(a, b, false, true));
  case AMD_V_CEIL_F16: return set_half(x, ceil(a));
  case AMD_V_FLOOR_F16: return set_half(x, floor(a));
  case AMD_V_TRUNC_F16: return set_half(x, trunc(a));
  case AMD_V_RNDNE_F16: return set_half(x, rint(a));
  case AMD_V_RCP_F16: return set_half(x, 1 / a);
  case AMD_V_RSQ_F16: return set_half(x, 1 / sqrt(a));
  case AMD_V_SQRT_F16: return set_half(x, sqrt(a));
  case AMD_V_EXP_F16: return set_half(x, exp2(a));
  case AMD_V_LOG_F16: return set_half(x, log2(a));
  case AMD_V_LDEXP_F16: return set_half(x, ldexp(a, (int16_t)x->v[1]));
  default: return false;
  }
}

/* ---- division: "V_DIV_SCALE", "V_DIV_FMAS", "V_DIV_FIXUP" ---- */

typedef struct { int mantissa, far, scale, tiny, least, top; double normal; } division;
static const division single_division = {23, 96, 64, 23, -150, 255, 0x1p-126}, double_division = {52, 768, 128, 53, -1075, 2047, 0x1p-1022};

static int exponent(const division *d, double v) {       /* the field of the number's format */
  int e;
  if (v == 0 || fabs(v) < d->normal) return 0;
  if (isinf(v) || v != v) return d->top;
  frexp(v, &e);
  return e - 1 + d->top / 2;
}
static double rounded(const division *d, double v) { return d->mantissa == 23 ? (double)(float)v : v; }
static bool subnormal(const division *d, double v) { return v != 0 && fabs(v) < d->normal; }

static double scaled(amd_lane *x, const division *d, double a, double den, double num) {
  x->carry = false;
  bool of_den = a == den, of_num = a == num;
  if (num == 0 || den == 0) return (double)NAN;
  if (exponent(d, num) - exponent(d, den) >= d->far) return x->carry = true, of_den ? ldexp(a, d->scale) : a;
  if (subnormal(d, den)) return ldexp(a, d->scale);
  bool inverse = subnormal(d, rounded(d, 1 / den)), quotient = rounded(d, num / den) == 0 || subnormal(d, rounded(d, num / den));
  if (inverse && quotient) return x->carry = true, of_den ? ldexp(a, d->scale) : a;
  if (inverse) return ldexp(a, -d->scale);
  if (quotient) return x->carry = true, of_num ? ldexp(a, d->scale) : a;
  if (exponent(d, num) <= d->tiny) return ldexp(a, d->scale);
  return a;
}

static double fixed(const division *d, double q, double den, double num) {
  bool negative = !signbit(den) != !signbit(num);
  double v;
  if (num != num || den != den || (num == 0 && den == 0) || (isinf(num) && isinf(den))) return (double)NAN;
  if (den == 0 || isinf(num)) v = (double)INFINITY;
  else if (isinf(den) || num == 0) v = 0;
  else if (exponent(d, num) - exponent(d, den) < d->least) v = 0;
  else v = q != q ? (double)INFINITY : fabs(q);
  return negative ? -v : v;
}

static bool divisions(amd_lane *x) {
  switch (x->i->operation) {
  case AMD_V_DIV_SCALE_F32: return set(x, (float)scaled(x, &single_division, (double)in(x, 0), (double)in(x, 1), (double)in(x, 2)));
  case AMD_V_DIV_SCALE_F64: return set_double(x, scaled(x, &double_division, twice(x, 0), twice(x, 1), twice(x, 2)));
  case AMD_V_DIV_FIXUP_F32: return set(x, (float)fixed(&single_division, (double)in(x, 0), (double)in(x, 1), (double)in(x, 2)));
  case AMD_V_DIV_FIXUP_F64: return set_double(x, fixed(&double_division, twice(x, 0), twice(x, 1), twice(x, 2)));
  case AMD_V_DIV_FIXUP_F16: {
    static const division half_division = {10, 0, 0, 0, -1000, 31, 0x1p-14};
    return set_half(x, fixed(&half_division, half(x, 0), half(x, 1), half(x, 2)));
  }
  case AMD_V_DIV_FMAS_F32: {
    float f = fmaf(in(x, 0), in(x, 1), in(x, 2));
    return set(x, x->carry ? ldexpf(f, exponent(&single_division, (double)in(x, 2)) > 127 ? 64 : -64) : f);
  }
  case AMD_V_DIV_FMAS_F64: {
    double f = fma(twice(x, 0), twice(x, 1), twice(x, 2));
    return set_double(x, x->carry ? ldexp(f, exponent(&double_division, twice(x, 2)) > 1023 ? 128 : -128) : f);
  }
  default: return false;
  }
}

bool amd_floats(amd_lane *x) { return singles(x) || doubles(x) || halves(x) || divisions(x); }
