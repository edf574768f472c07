/* SPDX-License-Identifier: MIT
 * Conversions of one lane, and comparisons. */
#include <math.h>
#include "arithmetic.h"

static int32_t to_int(double v) { return v != v ? 0 : v >= 0x1p31 ? 0x7fffffff : v <= -0x1p31 ? (int32_t)0x80000000 : (int32_t)v; }
static uint32_t to_uint(double v) { return !(v > 0) ? 0 : v >= 0x1p32 ? ~0u : (uint32_t)v; }

/* A double to half precision: by way of a float the hardware rounds what it has, which is a float already. */
bool amd_conversions(amd_lane *x) {
  uint32_t a = (uint32_t)x->v[0];
  float f = amd_single(a);
  double d = amd_double(x->v[0]);
  switch (x->i->operation) {
  case AMD_V_CVT_F16_F32: x->d = amd_round_half((double)f, 0, false); return true;
  case AMD_V_CVT_F32_F16: x->d = amd_single_bits((float)amd_half(a)); return true;
  case AMD_V_CVT_F32_F64: x->d = amd_single_bits((float)d); return true;
  case AMD_V_CVT_F64_F32: x->d = amd_double_bits((double)f); return true;
  case AMD_V_CVT_F32_I32: x->d = amd_single_bits((float)(int32_t)a); return true;
  case AMD_V_CVT_F32_U32: x->d = amd_single_bits((float)a); return true;
  case AMD_V_CVT_F64_I32: x->d = amd_double_bits((double)(int32_t)a); return true;
  case AMD_V_CVT_F64_U32: x->d = amd_double_bits((double)a); return true;
  case AMD_V_CVT_I32_F32: x->d = (uint32_t)to_int((double)f); return true;
  case AMD_V_CVT_U32_F32: x->d = to_uint((double)f); return true;
  case AMD_V_CVT_I32_F64: x->d = (uint32_t)to_int(d); return true;
  case AMD_V_CVT_U32_F64: x->d = to_uint(d); return true;
  case AMD_V_CVT_F32_UBYTE0: x->d = amd_single_bits((float)(a & 255)); return true;
  case AMD_V_CVT_F32_UBYTE1: x->d = amd_single_bits((float)(a >> 8 & 255)); return true;
  case AMD_V_CVT_F32_UBYTE2: x->d = amd_single_bits((float)(a >> 16 & 255)); return true;
  case AMD_V_CVT_F32_UBYTE3: x->d = amd_single_bits((float)(a >> 24)); return true;
  case AMD_V_CVT_F16_I16: x->d = amd_round_half((int16_t)a, 0, false); return true;
  case AMD_V_CVT_F16_U16: x->d = amd_round_half(a & 0xffff, 0, false); return true;
  case AMD_V_CVT_I16_F16: {
    double v = amd_half(a);
    x->d = (uint32_t)(v != v ? 0 : v >= 32767 ? 32767 : v <= -32768 ? -32768 : (int)v);
    return true;
  }
  case AMD_V_CVT_U16_F16: {
    double v = amd_half(a);
    x->d = !(v > 0) ? 0 : v >= 65535 ? 65535 : (uint32_t)v;
    return true;
  }
  case AMD_V_CVT_I32_I16: x->d = (uint32_t)(int16_t)a; return true;
  case AMD_V_CVT_U32_U16: x->d = a & 0xffff; return true;
  case AMD_V_CVT_PK_RTZ_F16_F32: x->d = amd_round_half((double)f, 0, true) | amd_round_half((double)amd_single((uint32_t)x->v[1]), 0, true) << 16; return true;
  default: return false;
  }
}

/* ---- comparisons ---- */

static double number(const amd_lane *x, int k) {
  char t = x->i->source[0].type;
  return t == 'd' ? amd_double(x->v[k]) : t == 'h' ? amd_half((uint32_t)x->v[k]) : (double)amd_single((uint32_t)x->v[k]);
}

/* "V_CMP_CLASS": bits 0 to 9: signaling NaN, quiet NaN, -inf, -normal, -subnormal, -0, +0, +subnormal, +normal, +inf. */
static bool in_class(const amd_lane *x) {
  char t = x->i->source[0].type;
  uint64_t v = x->v[0];
  uint32_t bits = t == 'd' ? 64 : t == 'h' ? 16 : 32, mantissa = t == 'd' ? 52 : t == 'h' ? 10 : 23, exponent = bits - 1 - mantissa;
  uint64_t f = v & (((uint64_t)1 << mantissa) - 1), e = v >> mantissa & (((uint64_t)1 << exponent) - 1), top = ((uint64_t)1 << exponent) - 1;
  bool negative = v >> (bits - 1) & 1;
  uint32_t c = e == top ? f ? (f >> (mantissa - 1) & 1) : negative ? 2 : 9 : e ? negative ? 3 : 8 : f ? negative ? 4 : 7 : negative ? 5 : 6;
  return x->v[1] >> c & 1;
}

static bool order(uint32_t relation, bool less, bool equal) {
  return (relation & 1 && less) || (relation & 2 && equal) || (relation & 4 && !less && !equal);
}

bool amd_compare(amd_lane *x) {
  uint32_t r = x->i->relation;
  if (x->i->operation == AMD_V_CMP_CLASS) return in_class(x);
  if (x->i->operation == AMD_V_CMP_FLOAT || x->i->operation == AMD_V_CMPX_FLOAT) {
    double a = number(x, 0), b = number(x, 1);
    bool apart = a != a || b != b;
    if (r == 7) return !apart;
    if (r == 8) return apart;
    if (r == 0 || r == 15) return r == 15;
    if (r < 7) return !apart && order(r, a < b, a == b);
    return apart || !order(15 - r, a < b, a == b);         /* nge is 9, 15 - 9 is ge, and so on */
  }
  char t = x->i->source[0].type;
  bool sign = x->i->operation == AMD_V_CMP_INT || x->i->operation == AMD_V_CMPX_INT;
  uint32_t shift = t == 'q' ? 0 : t == 'w' ? 48 : 32;
  uint64_t a = x->v[0] << shift, b = x->v[1] << shift;
  return order(r, sign ? (int64_t)a < (int64_t)b : a < b, a == b);
}
