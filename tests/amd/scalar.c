/* SPDX-License-Identifier: MIT
 * Scalar registers, constants, and instructions on them ("Scalar ALU Operations"). Each result has its unknown bits: exact
 * for moves and logic, all of them for what computes with an operand that has one. */
#include <math.h>
#include <string.h>
#include "machine.h"

/* ---- operands ---- */

static uint64_t constant(const amd_machine *m, const amd_operand *o, uint32_t words) {
  static const double value[] = {0.5, -0.5, 1, -1, 2, -2, 4, -4, 0.15915494309189532};
  uint32_t c = o->code;
  if (c >= 128 && c <= 192) return c - 128;
  if (c >= 193 && c <= 208) return (uint64_t)((int64_t)192 - (int64_t)c);
  if (c == AMD_LITERAL) return o->type == 'd' ? (uint64_t)m->i->literal << 32 : m->i->literal;
  if (o->type == 'h' || o->type == 'w') return amd_round_half(value[c - 240], 0, false);
  return words == 2 ? amd_double_bits(value[c - 240]) : amd_single_bits((float)value[c - 240]);
}

uint64_t amd_scalar(amd_machine *m, const amd_operand *o, uint32_t words, uint64_t *unknown) {
  amd_wave *w = m->w;
  uint32_t c = o->code;
  *unknown = 0;
  if (!amd_rdna(m) && c == AMD_NULL) c = AMD_M0;
  else if (c == AMD_NULL) return 0;
  if (c == AMD_SCC) return *unknown = w->scc_unknown, w->scc;
  if (c == 251 || c == 252) return c == 252 ? !amd_exec(m) : !(w->s[AMD_VCC] | (m->lanes == 64 ? w->s[AMD_VCC + 1] : 0));
  if ((c >= 128 && c <= 208) || (c >= 240 && c <= 248) || c == AMD_LITERAL) return constant(m, o, words);
  if (c >= 128 || c + words > 128 || (words == 2 && c & 1)) amd_fault(m, "operand %u is no scalar register", c);
  if (w->s_flying[c] || (words == 2 && w->s_flying[c + 1])) amd_fault(m, "s%u is read while a load into it is in flight", c);
  *unknown = w->s_unknown[c] | (words == 2 ? (uint64_t)w->s_unknown[c + 1] << 32 : 0);
  return w->s[c] | (words == 2 ? (uint64_t)w->s[c + 1] << 32 : 0);
}

void amd_scalar_write(amd_machine *m, uint32_t code, uint32_t words, uint64_t v, uint64_t unknown) {
  amd_wave *w = m->w;
  if (!amd_rdna(m) && code == AMD_NULL) code = AMD_M0;
  else if (code == AMD_NULL) return;
  if (code + words > 128 || (words == 2 && code & 1)) amd_fault(m, "operand %u is no scalar register", code);
  for (uint32_t k = 0; k < words; k++) {
    if (w->s_flying[code + k]) amd_fault(m, "s%u is written while a load into it is in flight", code + k);
    w->s[code + k] = (uint32_t)(v >> 32 * k), w->s_unknown[code + k] = (uint32_t)(unknown >> 32 * k);
  }
}

/* ---- what instructions do ---- */

typedef struct { uint64_t a, b, c, ua, ub, uc, d, ud; bool sets, scc, scc_unknown; } op;

static uint64_t low(uint32_t n) { return n >= 64 ? ~(uint64_t)0 : ((uint64_t)1 << n) - 1; }
static float f(uint64_t v) { return amd_single((uint32_t)v); }
static uint64_t fb(float v) { return amd_single_bits(v); }

static bool logic(amd_machine *m, op *o, uint64_t ones) {
  uint64_t a = o->a, b = o->b, u = o->ua | o->ub, all_and = u & (a | o->ua) & (b | o->ub), nb = ~b;
  switch (m->i->operation) {
  case AMD_S_AND_B32: case AMD_S_AND_B64: o->d = a & b, o->ud = all_and; break;
  case AMD_S_NAND_B32: case AMD_S_NAND_B64: o->d = ~(a & b), o->ud = all_and; break;
  case AMD_S_OR_B32: case AMD_S_OR_B64: o->d = a | b, o->ud = u & ~(a & ~o->ua) & ~(b & ~o->ub); break;
  case AMD_S_NOR_B32: case AMD_S_NOR_B64: o->d = ~(a | b), o->ud = u & ~(a & ~o->ua) & ~(b & ~o->ub); break;
  case AMD_S_XOR_B32: case AMD_S_XOR_B64: o->d = a ^ b, o->ud = u; break;
  case AMD_S_XNOR_B32: case AMD_S_XNOR_B64: o->d = ~(a ^ b), o->ud = u; break;
  case AMD_S_AND_NOT1_B32: case AMD_S_AND_NOT1_B64: o->d = a & nb, o->ud = u & (a | o->ua) & (nb | o->ub); break;
  case AMD_S_OR_NOT1_B32: case AMD_S_OR_NOT1_B64: o->d = a | nb, o->ud = u & ~(a & ~o->ua) & ~(nb & ~o->ub); break;
  case AMD_S_NOT_B32: case AMD_S_NOT_B64: o->d = ~a, o->ud = o->ua; break;
  default: return false;
  }
  o->d &= ones, o->ud &= ones;
  o->sets = true, o->scc = o->d != 0, o->scc_unknown = o->ud && !(o->d & ~o->ud);
  return true;
}

static void sum(op *o, uint64_t b, bool carry, bool with_sign) {
  uint64_t a = o->a & 0xffffffffu, r = a + b + carry;
  o->d = r & 0xffffffffu, o->sets = true;
  o->scc = with_sign ? (~(a ^ b) & (a ^ r)) >> 31 & 1 : r >> 32 & 1;
}
static void difference(op *o, bool borrow, bool with_sign) {
  uint64_t a = o->a & 0xffffffffu, b = o->b & 0xffffffffu, r = a - b - borrow;
  o->d = r & 0xffffffffu, o->sets = true;
  o->scc = with_sign ? ((a ^ b) & (a ^ r)) >> 31 & 1 : r >> 63;
}
static void result(op *o, uint64_t d) { o->d = d, o->sets = true, o->scc = d != 0; }
static void wanted(op *o, uint64_t a, uint64_t b, bool first) { o->d = first ? a : b, o->sets = true, o->scc = first; }

static uint64_t field(op *o, uint32_t width, bool sign) {
  uint32_t at = (uint32_t)o->b & (width - 1), n = (uint32_t)o->b >> 16 & 127;
  if (n > width - at) n = width - at;
  uint64_t v = o->a >> at & low(n);
  return sign && n && v >> (n - 1) & 1 ? v | ~low(n) : v;
}
static int64_t leading(int64_t v, int bits) {     /* bits like the sign's, from the top */
  int n = 1;
  while (n < bits && (v >> (bits - 1 - n) & 1) == (v >> (bits - 1) & 1)) n++;
  return n == bits ? -1 : n;
}
static uint64_t reversed(uint64_t v, int bits) {
  uint64_t d = 0;
  for (int k = 0; k < bits; k++) d |= (v >> k & 1) << (bits - 1 - k);
  return d;
}

static bool integers(amd_machine *m, op *o) {
  int32_t a = (int32_t)o->a, b = (int32_t)o->b;
  uint32_t ua = (uint32_t)o->a, ub = (uint32_t)o->b;
  switch (m->i->operation) {
  case AMD_S_ADD_U32: sum(o, ub, false, false); return true;
  case AMD_S_ADD_I32: sum(o, ub, false, true); return true;
  case AMD_S_ADDC_U32: sum(o, ub, m->w->scc, false); return true;
  case AMD_S_SUB_U32: difference(o, false, false); return true;
  case AMD_S_SUB_I32: difference(o, false, true); return true;
  case AMD_S_SUBB_U32: difference(o, m->w->scc, false); return true;
  case AMD_S_MIN_I32: wanted(o, ua, ub, a < b); return true;
  case AMD_S_MAX_I32: wanted(o, ua, ub, a >= b); return true;
  case AMD_S_MIN_U32: wanted(o, ua, ub, ua < ub); return true;
  case AMD_S_MAX_U32: wanted(o, ua, ub, ua >= ub); return true;
  case AMD_S_LSHL_B32: result(o, (uint32_t)(ua << (ub & 31))); return true;
  case AMD_S_LSHR_B32: result(o, ua >> (ub & 31)); return true;
  case AMD_S_ASHR_I32: result(o, (uint32_t)(a >> (ub & 31))); return true;
  case AMD_S_LSHL_B64: result(o, o->a << (ub & 63)); return true;
  case AMD_S_LSHR_B64: result(o, o->a >> (ub & 63)); return true;
  case AMD_S_ASHR_I64: result(o, (uint64_t)((int64_t)o->a >> (ub & 63))); return true;
  case AMD_S_BFM_B32: o->d = (uint32_t)(low(ua & 31) << (ub & 31)); return true;
  case AMD_S_BFM_B64: o->d = low(ua & 63) << (ub & 63); return true;
  case AMD_S_MUL_I32: o->d = (uint32_t)(ua * ub); return true;
  case AMD_S_MUL_HI_U32: o->d = (uint64_t)ua * ub >> 32; return true;
  case AMD_S_MUL_HI_I32: o->d = (uint32_t)((uint64_t)((int64_t)a * b) >> 32); return true;
  case AMD_S_BFE_U32: result(o, field(o, 32, false)); return true;
  case AMD_S_BFE_I32: result(o, (uint32_t)field(o, 32, true)); return true;
  case AMD_S_BFE_U64: result(o, field(o, 64, false)); return true;
  case AMD_S_BFE_I64: result(o, field(o, 64, true)); return true;
  case AMD_S_LSHL1_ADD_U32: case AMD_S_LSHL2_ADD_U32: case AMD_S_LSHL3_ADD_U32: case AMD_S_LSHL4_ADD_U32: {
    uint64_t r = ((uint64_t)ua << (m->i->operation - AMD_S_LSHL1_ADD_U32 + 1)) + ub;
    o->d = r & 0xffffffffu, o->sets = true, o->scc = r >> 32 != 0;
    return true;
  }
  case AMD_S_PACK_LL_B32_B16: o->d = (ua & 0xffff) | ub << 16; return true;
  case AMD_S_PACK_LH_B32_B16: o->d = (ua & 0xffff) | (ub & 0xffff0000u); return true;
  case AMD_S_PACK_HH_B32_B16: o->d = ua >> 16 | (ub & 0xffff0000u); return true;
  case AMD_S_PACK_HL_B32_B16: o->d = ua >> 16 | ub << 16; return true;
  case AMD_S_ABSDIFF_I32: result(o, (uint32_t)(a > b ? ua - ub : ub - ua)); return true;
  case AMD_S_ADD_NC_U64: o->d = o->a + o->b; return true;
  case AMD_S_SUB_NC_U64: o->d = o->a - o->b; return true;
  case AMD_S_MUL_U64: o->d = o->a * o->b; return true;
  default: return false;
  }
}

static bool single(amd_machine *m, op *o) {
  int32_t a = (int32_t)o->a;
  uint32_t ua = (uint32_t)o->a;
  switch (m->i->operation) {
  case AMD_S_BREV_B32: o->d = reversed(ua, 32); return true;
  case AMD_S_BREV_B64: o->d = reversed(o->a, 64); return true;
  case AMD_S_BCNT0_I32_B32: result(o, 32 - (uint32_t)__builtin_popcount(ua)); return true;
  case AMD_S_BCNT1_I32_B32: result(o, (uint32_t)__builtin_popcount(ua)); return true;
  case AMD_S_BCNT0_I32_B64: result(o, 64 - (uint32_t)__builtin_popcountll(o->a)); return true;
  case AMD_S_BCNT1_I32_B64: result(o, (uint32_t)__builtin_popcountll(o->a)); return true;
  case AMD_S_CTZ_B32: o->d = ua ? (uint32_t)__builtin_ctz(ua) : ~0u; return true;
  case AMD_S_CTZ_B64: o->d = o->a ? (uint32_t)__builtin_ctzll(o->a) : ~0u; return true;
  case AMD_S_CLZ_U32: o->d = ua ? (uint32_t)__builtin_clz(ua) : ~0u; return true;
  case AMD_S_CLZ_U64: o->d = o->a ? (uint32_t)__builtin_clzll(o->a) : ~0u; return true;
  case AMD_S_CLS_I32: o->d = (uint32_t)leading(a, 32); return true;
  case AMD_S_CLS_I64: o->d = (uint32_t)leading((int64_t)o->a, 64); return true;
  case AMD_S_SEXT_I8: o->d = (uint32_t)(int8_t)a; return true;
  case AMD_S_SEXT_I16: o->d = (uint32_t)(int16_t)a; return true;
  case AMD_S_ABS_I32: result(o, a < 0 ? 0u - ua : ua); return true;
  case AMD_S_BITSET0: o->d = o->c & ~((uint64_t)1 << (ua & 31)), o->ud |= o->uc; return true;
  case AMD_S_BITSET1: o->d = o->c | (uint64_t)1 << (ua & 31), o->ud |= o->uc; return true;
  case AMD_S_CVT_F32_I32: o->d = fb((float)a); return true;
  case AMD_S_CVT_F32_U32: o->d = fb((float)ua); return true;
  case AMD_S_CVT_I32_F32: o->d = (uint32_t)(f(ua) != f(ua) ? 0 : f(ua) >= 0x1p31f ? 0x7fffffff : f(ua) < -0x1p31f ? (int32_t)0x80000000 : (int32_t)f(ua)); return true;
  case AMD_S_CVT_U32_F32: o->d = !(f(ua) > 0) ? 0 : f(ua) >= 0x1p32f ? ~0u : (uint32_t)f(ua); return true;
  case AMD_S_CEIL_F32: o->d = fb(ceilf(f(ua))); return true;
  case AMD_S_FLOOR_F32: o->d = fb(floorf(f(ua))); return true;
  case AMD_S_TRUNC_F32: o->d = fb(truncf(f(ua))); return true;
  case AMD_S_RNDNE_F32: o->d = fb(rintf(f(ua))); return true;
  case AMD_S_CVT_F16_F32: o->d = amd_round_half((double)f(ua), 0, false); return true;
  case AMD_S_CVT_F32_F16: o->d = fb((float)amd_half(ua & 0xffff)); return true;
  default: return false;
  }
}

static float extreme(float a, float b, bool least, bool nan_wins) {
  if (a != a || b != b) return nan_wins ? NAN : a != a ? b : a;
  bool less = a < b || (a == b && signbit(a) && !signbit(b));
  return less == least ? a : b;
}

static bool floats(amd_machine *m, op *o) {
  float a = f(o->a), b = f(o->b);
  switch (m->i->operation) {
  case AMD_S_ADD_F32: o->d = fb(a + b); return true;
  case AMD_S_SUB_F32: o->d = fb(a - b); return true;
  case AMD_S_MUL_F32: o->d = fb(a * b); return true;
  case AMD_S_MIN_NUM_F32: o->d = fb(extreme(a, b, true, false)); return true;
  case AMD_S_MAX_NUM_F32: o->d = fb(extreme(a, b, false, false)); return true;
  case AMD_S_MINIMUM_F32: o->d = fb(extreme(a, b, true, true)); return true;
  case AMD_S_MAXIMUM_F32: o->d = fb(extreme(a, b, false, true)); return true;
  case AMD_S_FMAC_F32: case AMD_S_FMA_F32: o->d = fb(fmaf(a, b, f(o->c))), o->ud |= o->uc ? ~0u : 0; return true;
  default: return false;
  }
}

static bool compares(amd_machine *m, op *o) {
  int32_t a = (int32_t)o->a, b = (int32_t)o->b;
  uint32_t ua = (uint32_t)o->a, ub = (uint32_t)o->b;
  float x = f(o->a), y = f(o->b);
  bool r;
  switch (m->i->operation) {
  case AMD_S_CMP_EQ_I32: case AMD_S_CMP_EQ_U32: r = ua == ub; break;
  case AMD_S_CMP_LG_I32: case AMD_S_CMP_LG_U32: r = ua != ub; break;
  case AMD_S_CMP_GT_I32: r = a > b; break;
  case AMD_S_CMP_GE_I32: r = a >= b; break;
  case AMD_S_CMP_LT_I32: r = a < b; break;
  case AMD_S_CMP_LE_I32: r = a <= b; break;
  case AMD_S_CMP_GT_U32: r = ua > ub; break;
  case AMD_S_CMP_GE_U32: r = ua >= ub; break;
  case AMD_S_CMP_LT_U32: r = ua < ub; break;
  case AMD_S_CMP_LE_U32: r = ua <= ub; break;
  case AMD_S_CMP_EQ_U64: r = o->a == o->b; break;
  case AMD_S_CMP_LG_U64: r = o->a != o->b; break;
  case AMD_S_BITCMP0_B32: r = !(ua >> (ub & 31) & 1); break;
  case AMD_S_BITCMP1_B32: r = ua >> (ub & 31) & 1; break;
  case AMD_S_BITCMP0_B64: r = !(o->a >> (ub & 63) & 1); break;
  case AMD_S_BITCMP1_B64: r = o->a >> (ub & 63) & 1; break;
  case AMD_S_CMP_LT_F32: r = x < y; break;
  case AMD_S_CMP_EQ_F32: r = x == y; break;
  case AMD_S_CMP_LE_F32: r = x <= y; break;
  case AMD_S_CMP_GT_F32: r = x > y; break;
  case AMD_S_CMP_LG_F32: r = x < y || x > y; break;
  case AMD_S_CMP_GE_F32: r = x >= y; break;
  case AMD_S_CMP_O_F32: r = x == x && y == y; break;
  case AMD_S_CMP_U_F32: r = x != x || y != y; break;
  case AMD_S_CMP_NGE_F32: r = !(x >= y); break;
  case AMD_S_CMP_NLG_F32: r = !(x < y || x > y); break;
  case AMD_S_CMP_NGT_F32: r = !(x > y); break;
  case AMD_S_CMP_NLE_F32: r = !(x <= y); break;
  case AMD_S_CMP_NEQ_F32: r = x != y; break;
  case AMD_S_CMP_NLT_F32: r = !(x < y); break;
  default: return false;
  }
  o->sets = true, o->scc = r;
  o->scc_unknown = (o->ua | o->ub) != 0;
  switch (m->i->operation) {   /* of one bit, which the others do not change */
  case AMD_S_BITCMP0_B32: case AMD_S_BITCMP1_B32: o->scc_unknown = o->ub & 31 || o->ua >> (ub & 31) & 1; break;
  case AMD_S_BITCMP0_B64: case AMD_S_BITCMP1_B64: o->scc_unknown = o->ub & 63 || o->ua >> (ub & 63) & 1; break;
  default: break;
  }
  return true;
}

static bool saves(amd_machine *m, op *o, uint32_t words) {
  uint64_t e = amd_exec(m), all = m->lanes == 64 ? ~(uint64_t)0 : 0xffffffffu, d, u;
  switch (m->i->operation) {
  case AMD_S_AND_SAVEEXEC: d = e & o->a, u = e & o->ua; break;
  case AMD_S_OR_SAVEEXEC: d = e | o->a, u = ~e & o->ua; break;
  case AMD_S_XOR_SAVEEXEC: d = e ^ o->a, u = o->ua; break;
  case AMD_S_AND_NOT1_SAVEEXEC: d = o->a & ~e, u = o->ua & ~e; break;
  case AMD_S_OR_NOT1_SAVEEXEC: d = o->a | ~e, u = o->ua & e; break;
  default: return false;
  }
  amd_scalar_write(m, m->i->result[0].code, words, e, 0);
  amd_scalar_write(m, AMD_EXEC, words, d & all, u & all);
  m->w->scc = (d & all) != 0, m->w->scc_unknown = 0;
  return true;
}

static uint32_t words_of(char type) { return type == 'q' || type == 'd' ? 2 : 1; }

bool amd_execute_scalar(amd_machine *m) {
  const amd_instruction *i = m->i;
  amd_wave *w = m->w;
  uint32_t words = i->results ? words_of(i->result[0].type) : 1;
  uint64_t ones = words == 2 ? ~(uint64_t)0 : 0xffffffffu;
  op o = {0};
  if (i->operation == AMD_S_GETPC) {
    uint64_t pc = m->d->code + 4 * (uint64_t)(w->pc + i->words);
    return amd_scalar_write(m, i->result[0].code, 2, pc, 0), true;
  }
  if (i->sources > 0) o.a = amd_scalar(m, &i->source[0], words_of(i->source[0].type), &o.ua);
  if (i->sources > 1) o.b = amd_scalar(m, &i->source[1], words_of(i->source[1].type), &o.ub);
  if (i->sources > 2) o.c = amd_scalar(m, &i->source[2], 1, &o.uc);
  if (i->keep) {
    amd_operand old = i->result[0];
    o.c = amd_scalar(m, &old, words, &o.uc);
    if (i->row->format == AMD_SOPK) o.b = o.a, o.ub = o.ua, o.a = o.c, o.ua = o.uc;
  }
  if (saves(m, &o, words)) return true;
  if (i->operation == AMD_S_MOV_B32 || i->operation == AMD_S_MOV_B64) o.d = o.a, o.ud = o.ua;
  else if (i->operation == AMD_S_CSELECT_B32 || i->operation == AMD_S_CSELECT_B64 || i->operation == AMD_S_CMOV_B32 || i->operation == AMD_S_CMOV_B64) {
    bool moves = i->operation == AMD_S_CMOV_B32 || i->operation == AMD_S_CMOV_B64;
    if (moves && i->row->format == AMD_SOPK) o.a = o.b, o.ua = o.ub;
    o.d = w->scc ? o.a : moves ? o.c : o.b, o.ud = w->scc_unknown ? ~(uint64_t)0 : w->scc ? o.ua : moves ? o.uc : o.ub;
  } else if (!logic(m, &o, ones)) {
    bool carries = i->operation == AMD_S_ADDC_U32 || i->operation == AMD_S_SUBB_U32;
    o.ud = o.ua || o.ub || (carries && w->scc_unknown) ? ~(uint64_t)0 : 0;
    if (!compares(m, &o)) {
      if (!integers(m, &o) && !single(m, &o) && !floats(m, &o)) return false;
      o.scc_unknown = o.ud != 0;
      if (i->operation == AMD_S_MUL_I32 || i->operation == AMD_S_MUL_U64 || i->operation == AMD_S_ADD_NC_U64 || i->operation == AMD_S_SUB_NC_U64) o.ud = amd_upward(o.ua | o.ub);
      if ((i->operation == AMD_S_LSHL_B64 || i->operation == AMD_S_LSHL_B32) && !o.ub) o.ud = o.ua << (o.b & (words * 32 - 1));
    }
  }
  if (i->operation == AMD_S_ADD_I32 && i->row->format == AMD_SOPK) o.sets = true;
  if (i->results) amd_scalar_write(m, i->result[0].code, words, o.d & ones, o.ud & ones);
  if (o.sets) w->scc = o.scc, w->scc_unknown = o.scc_unknown;
  return true;
}
