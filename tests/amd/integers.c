/* SPDX-License-Identifier: MIT
 * Integers of one lane ("Vector ALU Operations", the instructions' pseudo code). */
#include "arithmetic.h"

static int32_t s24(uint64_t v) { return (int32_t)((uint32_t)v << 8) >> 8; }
static uint32_t u24(uint64_t v) { return v & 0xffffff; }

static uint64_t sum(amd_lane *x, uint64_t a, uint64_t b, uint64_t carry) {
  uint64_t r = (a & 0xffffffffu) + (b & 0xffffffffu) + carry;
  x->carry = r >> 32 & 1;
  return x->i->clamp && x->carry ? 0xffffffffu : r & 0xffffffffu;
}
static uint64_t difference(amd_lane *x, uint64_t a, uint64_t b, uint64_t borrow) {
  uint64_t r = (a & 0xffffffffu) - (b & 0xffffffffu) - borrow;
  x->carry = r >> 63;
  return x->i->clamp && x->carry ? 0 : r & 0xffffffffu;
}

static uint64_t permuted(uint64_t a, uint64_t b, uint64_t c) {
  uint64_t both = (a & 0xffffffffu) << 32 | (b & 0xffffffffu), d = 0;
  for (uint32_t k = 0; k < 4; k++) {
    uint32_t pick = c >> 8 * k & 255, byte = 0;
    if (pick < 8) byte = both >> 8 * pick & 255;
    else if (pick < 12) byte = both >> (16 * (pick - 8) + 15) & 1 ? 255 : 0;
    else if (pick >= 13) byte = 255;
    d |= (uint64_t)byte << 8 * k;
  }
  return d;
}

static uint64_t reversed(uint32_t v) {
  uint64_t d = 0;
  for (int k = 0; k < 32; k++) d |= (uint64_t)(v >> k & 1) << (31 - k);
  return d;
}

static int32_t least(int32_t a, int32_t b) { return a < b ? a : b; }
static int32_t most(int32_t a, int32_t b) { return a > b ? a : b; }
static uint32_t uleast(uint32_t a, uint32_t b) { return a < b ? a : b; }
static uint32_t umost(uint32_t a, uint32_t b) { return a > b ? a : b; }

static bool sums(amd_lane *x) {
  uint64_t a = x->v[0], b = x->v[1], c = x->v[2];
  switch (x->i->operation) {
  case AMD_V_ADD_U32: x->d = sum(x, a, b, 0); return true;
  case AMD_V_SUB_U32: x->d = difference(x, a, b, 0); return true;
  case AMD_V_SUBREV_U32: x->d = difference(x, b, a, 0); return true;
  case AMD_V_ADD_CO: x->d = sum(x, a, b, 0); return true;
  case AMD_V_SUB_CO: x->d = difference(x, a, b, 0); return true;
  case AMD_V_SUBREV_CO: x->d = difference(x, b, a, 0); return true;
  case AMD_V_ADD_CO_CI: x->d = sum(x, a, b, c); return true;
  case AMD_V_SUB_CO_CI: x->d = difference(x, a, b, c); return true;
  case AMD_V_SUBREV_CO_CI: x->d = difference(x, b, a, c); return true;
  case AMD_V_ADD3_U32: x->d = a + b + c; return true;
  case AMD_V_ADD_U16: x->d = a + b; return true;
  case AMD_V_SUB_U16: x->d = a - b; return true;
  case AMD_V_MUL_I32_I24: x->d = (uint32_t)(s24(a) * (int64_t)s24(b)); return true;
  case AMD_V_MUL_U32_U24: x->d = (uint32_t)((uint64_t)u24(a) * u24(b)); return true;
  case AMD_V_MUL_HI_I32_I24: x->d = (uint32_t)((uint64_t)((int64_t)s24(a) * s24(b)) >> 32); return true;
  case AMD_V_MUL_HI_U32_U24: x->d = (uint64_t)u24(a) * u24(b) >> 32; return true;
  case AMD_V_MAD_I32_I24: x->d = (uint64_t)((int64_t)s24(a) * s24(b)) + c; return true;
  case AMD_V_MAD_U32_U24: x->d = (uint64_t)u24(a) * u24(b) + c; return true;
  case AMD_V_MUL_LO_U32: x->d = (uint32_t)(a * b); return true;
  case AMD_V_MUL_HI_U32: x->d = (a & 0xffffffffu) * (b & 0xffffffffu) >> 32; return true;
  case AMD_V_MUL_HI_I32: x->d = (uint64_t)((int64_t)(int32_t)a * (int32_t)b) >> 32; return true;
  case AMD_V_MUL_LO_U16: x->d = a * b; return true;
  case AMD_V_MAD_U16: x->d = a * b + c; return true;
  case AMD_V_MAD_U64_U32: x->d = (a & 0xffffffffu) * (b & 0xffffffffu) + c, x->carry = x->d < c; return true;
  case AMD_V_MAD_I64_I32: x->d = (uint64_t)((int64_t)(int32_t)a * (int32_t)b) + c; return true;
  case AMD_V_LSHL_ADD_U32: x->d = (a << (b & 31)) + c; return true;
  case AMD_V_ADD_LSHL_U32: x->d = (a + b) << (c & 31); return true;
  case AMD_V_LSHL_ADD_U64: x->d = (a << (b & 7)) + c; return true;
  case AMD_V_XAD_U32: x->d = (a ^ b) + c; return true;
  case AMD_V_SAD_U8:
    x->d = c;
    for (int k = 0; k < 32; k += 8) x->d += umost(a >> k & 255, b >> k & 255) - uleast(a >> k & 255, b >> k & 255);
    return true;
  default: return false;
  }
}

static bool orders(amd_lane *x) {
  int32_t a = (int32_t)x->v[0], b = (int32_t)x->v[1], c = (int32_t)x->v[2];
  uint32_t ua = (uint32_t)a, ub = (uint32_t)b, uc = (uint32_t)c;
  switch (x->i->operation) {
  case AMD_V_MIN_I32: x->d = (uint32_t)least(a, b); return true;
  case AMD_V_MAX_I32: x->d = (uint32_t)most(a, b); return true;
  case AMD_V_MIN_U32: x->d = uleast(ua, ub); return true;
  case AMD_V_MAX_U32: x->d = umost(ua, ub); return true;
  case AMD_V_MIN_I16: x->d = (uint32_t)least((int16_t)a, (int16_t)b); return true;
  case AMD_V_MAX_I16: x->d = (uint32_t)most((int16_t)a, (int16_t)b); return true;
  case AMD_V_MIN_U16: x->d = uleast(ua & 0xffff, ub & 0xffff); return true;
  case AMD_V_MAX_U16: x->d = umost(ua & 0xffff, ub & 0xffff); return true;
  case AMD_V_MIN3_I32: x->d = (uint32_t)least(least(a, b), c); return true;
  case AMD_V_MAX3_I32: x->d = (uint32_t)most(most(a, b), c); return true;
  case AMD_V_MIN3_U32: x->d = uleast(uleast(ua, ub), uc); return true;
  case AMD_V_MAX3_U32: x->d = umost(umost(ua, ub), uc); return true;
  case AMD_V_MED3_I32: x->d = (uint32_t)most(least(a, b), least(most(a, b), c)); return true;
  case AMD_V_MED3_U32: x->d = umost(uleast(ua, ub), uleast(umost(ua, ub), uc)); return true;
  case AMD_V_MAXMIN_I32: x->d = (uint32_t)least(most(a, b), c); return true;
  case AMD_V_MINMAX_I32: x->d = (uint32_t)most(least(a, b), c); return true;
  case AMD_V_MAXMIN_U32: x->d = uleast(umost(ua, ub), uc); return true;
  case AMD_V_MINMAX_U32: x->d = umost(uleast(ua, ub), uc); return true;
  default: return false;
  }
}

static bool bits(amd_lane *x) {
  uint64_t a = x->v[0], b = x->v[1], c = x->v[2];
  uint32_t ua = (uint32_t)a, ub = (uint32_t)b, uc = (uint32_t)c;
  switch (x->i->operation) {
  case AMD_V_MOV_B32: case AMD_V_MOV_B16: case AMD_V_MOV_B64: case AMD_ACC_READ: case AMD_ACC_WRITE: case AMD_ACC_MOV: x->d = a; return true;
  case AMD_V_NOT_B32: case AMD_V_NOT_B16: x->d = ~a; return true;
  case AMD_V_AND_B32: case AMD_V_AND_B16: x->d = a & b; return true;
  case AMD_V_OR_B32: case AMD_V_OR_B16: x->d = a | b; return true;
  case AMD_V_XOR_B32: case AMD_V_XOR_B16: x->d = a ^ b; return true;
  case AMD_V_XNOR_B32: x->d = ~(a ^ b); return true;
  case AMD_V_AND_OR_B32: x->d = (a & b) | c; return true;
  case AMD_V_OR3_B32: x->d = a | b | c; return true;
  case AMD_V_XOR3_B32: x->d = a ^ b ^ c; return true;
  case AMD_V_LSHL_OR_B32: x->d = a << (b & 31) | c; return true;
  case AMD_V_BFI_B32: x->d = (a & b) | (~a & c); return true;
  case AMD_V_CNDMASK_B32: case AMD_V_CNDMASK_B16: x->d = c ? b : a; return true;
  case AMD_V_BFREV_B32: x->d = reversed(ua); return true;
  case AMD_V_LSHLREV_B32: x->d = b << (a & 31); return true;
  case AMD_V_LSHRREV_B32: x->d = ub >> (a & 31); return true;
  case AMD_V_ASHRREV_I32: x->d = (uint32_t)((int32_t)ub >> (a & 31)); return true;
  case AMD_V_LSHLREV_B64: x->d = b << (a & 63); return true;
  case AMD_V_LSHRREV_B64: x->d = b >> (a & 63); return true;
  case AMD_V_ASHRREV_I64: x->d = (uint64_t)((int64_t)b >> (a & 63)); return true;
  case AMD_V_LSHLREV_B16: x->d = b << (a & 15); return true;
  case AMD_V_LSHRREV_B16: x->d = (b & 0xffff) >> (a & 15); return true;
  case AMD_V_ASHRREV_I16: x->d = (uint32_t)((int16_t)b >> (a & 15)); return true;
  case AMD_V_BFE_U32: x->d = ua >> (b & 31) & (((uint32_t)1 << (c & 31)) - 1); return true;
  case AMD_V_BFE_I32: {
    uint32_t n = uc & 31, v = ua >> (b & 31) & (((uint32_t)1 << n) - 1);
    x->d = n && v >> (n - 1) & 1 ? v | ~(((uint32_t)1 << n) - 1) : v;
    return true;
  }
  case AMD_V_BFM_B32: x->d = (((uint32_t)1 << (a & 31)) - 1) << (b & 31); return true;
  case AMD_V_ALIGNBIT_B32: x->d = (uint32_t)(((uint64_t)ua << 32 | ub) >> (c & 31)); return true;
  case AMD_V_ALIGNBYTE_B32: x->d = (uint32_t)(((uint64_t)ua << 32 | ub) >> 8 * (c & 3)); return true;
  case AMD_V_PERM_B32: x->d = permuted(a, b, c); return true;
  case AMD_V_PACK_B32_F16: x->d = (a & 0xffff) | (b & 0xffff) << 16; return true;
  case AMD_V_CTZ_B32: x->d = ua ? (uint32_t)__builtin_ctz(ua) : ~0u; return true;
  case AMD_V_CLZ_U32: x->d = ua ? (uint32_t)__builtin_clz(ua) : ~0u; return true;
  case AMD_V_CLS_I32: {
    uint32_t other = (int32_t)ua < 0 ? ~ua : ua;
    x->d = other ? (uint32_t)__builtin_clz(other) : ~0u;
    return true;
  }
  case AMD_V_BCNT_U32_B32: x->d = (uint32_t)__builtin_popcount(ua) + ub; return true;
  case AMD_V_MBCNT_LO: x->d = (uint32_t)__builtin_popcountll(ua & (x->lane < 32 ? ((uint64_t)1 << x->lane) - 1 : 0xffffffffu)) + ub; return true;
  case AMD_V_MBCNT_HI: x->d = (uint32_t)__builtin_popcountll(ua & (x->lane < 32 ? 0 : ((uint64_t)1 << (x->lane - 32)) - 1)) + ub; return true;
  default: return false;
  }
}

bool amd_integers(amd_lane *x) { return sums(x) || orders(x) || bits(x); }
