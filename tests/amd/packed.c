/* SPDX-License-Identifier: MIT
 * Two halves at once, products that mix precisions, dot products ("Packed Math", "VOP3P"). op_sel says which half of an
 * operand the low result takes, op_sel_hi which the high one. */
#include <math.h>
#include "arithmetic.h"

static uint32_t part(const amd_lane *x, int k, int high) {
  const amd_instruction *i = x->i;
  uint32_t pick = (high ? i->high_sources : i->low_sources) >> k & 1;
  uint32_t v = (uint32_t)x->v[k] >> 16 * pick & 0xffff;
  return i->source[k].code < AMD_V0 && i->source[k].code != AMD_LITERAL && i->source[k].code >= 240 && i->source[k].code <= 248 ? (pick ? 0 : (uint32_t)x->v[k] & 0xffff) : v;
}
static double half(const amd_lane *x, int k, int high) {
  double v = amd_half(part(x, k, high));
  return (high ? x->i->source[k].negate_high : x->i->source[k].negate) ? -v : v;
}

static uint32_t float_part(const amd_lane *x, int high, bool *ok) {
  double a = half(x, 0, high), b = half(x, 1, high);
  switch (x->i->operation) {
  case AMD_V_PK_ADD_F16: return amd_round_half(a + b, 0, false);
  case AMD_V_PK_MUL_F16: return amd_round_half(a * b, 0, false);
  case AMD_V_PK_MIN_F16: return amd_round_half(fmin(a, b), 0, false);
  case AMD_V_PK_MAX_F16: return amd_round_half(fmax(a, b), 0, false);
  case AMD_V_PK_FMA_F16: {
    double c = half(x, 2, high), product = a * b, sum = product + c, p = sum - product, lost = (product - (sum - p)) + (c - p);
    return amd_round_half(sum, lost == 0 || lost != lost || isinf(sum) ? 0 : (lost > 0) == (sum > 0) ? 1 : -1, false);
  }
  default: return *ok = false, 0;
  }
}

static uint32_t integer_part(const amd_lane *x, int high, bool *ok) {
  uint32_t a = part(x, 0, high), b = part(x, 1, high), c = x->i->sources > 2 ? part(x, 2, high) : 0;
  int16_t sa = (int16_t)a, sb = (int16_t)b;
  switch (x->i->operation) {
  case AMD_V_PK_ADD_U16: case AMD_V_PK_ADD_I16: return (a + b) & 0xffff;
  case AMD_V_PK_SUB_U16: case AMD_V_PK_SUB_I16: return (a - b) & 0xffff;
  case AMD_V_PK_MUL_LO_U16: return a * b & 0xffff;
  case AMD_V_PK_MAD_U16: case AMD_V_PK_MAD_I16: return (a * b + c) & 0xffff;
  case AMD_V_PK_MIN_I16: return (uint16_t)(sa < sb ? sa : sb);
  case AMD_V_PK_MAX_I16: return (uint16_t)(sa > sb ? sa : sb);
  case AMD_V_PK_MIN_U16: return a < b ? a : b;
  case AMD_V_PK_MAX_U16: return a > b ? a : b;
  case AMD_V_PK_LSHLREV_B16: return b << (a & 15) & 0xffff;
  case AMD_V_PK_LSHRREV_B16: return b >> (a & 15);
  case AMD_V_PK_ASHRREV_I16: return (uint16_t)(sb >> (a & 15));
  default: return *ok = false, 0;
  }
}

/* An operand of v_fma_mix: op_sel_hi: it is a half, and op_sel says which; else f32. negate_high: its magnitude. */
static float mixed(const amd_lane *x, int k) {
  const amd_instruction *i = x->i;
  uint32_t v = (uint32_t)x->v[k];
  float f;
  if (i->row->types[0] == 'f' && i->source[k].negate && i->source[k].type == 'f') v ^= 0x80000000u;
  f = i->high_sources >> k & 1 ? (float)amd_half(v >> (i->low_sources >> k & 1 ? 16 : 0) & 0xffff) : amd_single(v);
  if (i->source[k].negate_high) f = fabsf(f);
  return i->source[k].negate ? -f : f;
}

static bool mixes(amd_lane *x) {
  float f;
  switch (x->i->operation) {
  case AMD_V_FMA_MIX_F32: case AMD_V_FMA_MIXLO_F16: case AMD_V_FMA_MIXHI_F16: f = fmaf(mixed(x, 0), mixed(x, 1), mixed(x, 2)); break;
  default: return false;
  }
  uint32_t old = (uint32_t)x->v[3];
  if (x->i->operation == AMD_V_FMA_MIX_F32) x->d = amd_single_bits(f);
  else if (x->i->operation == AMD_V_FMA_MIXLO_F16) x->d = amd_round_half((double)f, 0, false) | (old & 0xffff0000u), x->u[3] &= 0xffff0000u;
  else x->d = amd_round_half((double)f, 0, false) << 16 | (old & 0xffff), x->u[3] &= 0xffff;
  return true;
}

static int64_t byte_of(const amd_lane *x, int k, int n, bool sign) {
  uint32_t b = (uint32_t)x->v[k] >> 8 * n & 255;
  return sign ? (int8_t)b : (int64_t)b;
}

static bool dots(amd_lane *x) {
  int64_t sum = 0;
  const amd_instruction *i = x->i;
  bool mixed_signs = i->operation == AMD_V_DOT4_I32_IU8, sign = i->operation == AMD_V_DOT4_I32_I8 || i->operation == AMD_V_DOT4C_I32_I8;
  switch (i->operation) {
  case AMD_V_DOT4_I32_IU8: case AMD_V_DOT4_I32_I8: case AMD_V_DOT4C_I32_I8: case AMD_V_DOT4_U32_U8:
    for (int n = 0; n < 4; n++) sum += byte_of(x, 0, n, sign || (mixed_signs && i->source[0].negate)) * byte_of(x, 1, n, sign || (mixed_signs && i->source[1].negate));
    x->d = (uint32_t)(sum + (int32_t)x->v[2]);
    return true;
  case AMD_V_DOT2_F32_F16:
    x->d = amd_single_bits((float)(half(x, 0, 0) * half(x, 1, 0) + half(x, 0, 1) * half(x, 1, 1) + (double)amd_single((uint32_t)x->v[2])));
    return true;
  case AMD_V_DOT2C_F32_F16:
    x->d = amd_single_bits((float)(amd_half(x->v[0] & 0xffff) * amd_half(x->v[1] & 0xffff) + amd_half(x->v[0] >> 16 & 0xffff) * amd_half(x->v[1] >> 16 & 0xffff) + (double)amd_single((uint32_t)x->v[2])));
    return true;
  case AMD_V_DOT2_F32_BF16: {
    double v = (double)amd_single((uint32_t)x->v[2]);
    for (int n = 0; n < 2; n++) v += amd_small('b', part(x, 0, n)) * amd_small('b', part(x, 1, n));
    x->d = amd_single_bits((float)v);
    return true;
  }
  default: return false;
  }
}

/* Pairs of f32: op_sel picks the word of an operand for the low result, op_sel_hi for the high one. */
static bool pairs(amd_lane *x) {
  const amd_instruction *i = x->i;
  if (i->operation == AMD_V_PK_MOV_B32) {
    uint32_t a = (uint32_t)(x->v[0] >> (i->low_sources & 1 ? 32 : 0)), b = (uint32_t)(x->v[1] >> (i->low_sources & 2 ? 32 : 0));
    x->d = a | (uint64_t)b << 32;
    return true;
  }
  if (i->operation != AMD_V_PK_ADD_F32 && i->operation != AMD_V_PK_MUL_F32 && i->operation != AMD_V_PK_FMA_F32) return false;
  x->d = 0;
  for (int high = 0; high < 2; high++) {
    float v[3];
    for (uint32_t k = 0; k < i->sources; k++) {
      v[k] = amd_single((uint32_t)(x->v[k] >> ((high ? i->high_sources : i->low_sources) >> k & 1 ? 32 : 0)));
      if (high ? i->source[k].negate_high : i->source[k].negate) v[k] = -v[k];
    }
    float r = i->operation == AMD_V_PK_ADD_F32 ? v[0] + v[1] : i->operation == AMD_V_PK_MUL_F32 ? v[0] * v[1] : fmaf(v[0], v[1], v[2]);
    x->d |= (uint64_t)amd_single_bits(r) << 32 * high;
  }
  return true;
}

bool amd_packed(amd_lane *x) {
  bool ok = true;
  if (mixes(x) || dots(x) || pairs(x)) return true;
  if (x->i->row->format != AMD_VOP3P) return false;
  x->d = float_part(x, 0, &ok) | float_part(x, 1, &ok) << 16;
  if (ok) return true;
  ok = true;
  x->d = integer_part(x, 0, &ok) | integer_part(x, 1, &ok) << 16;
  return ok;
}
