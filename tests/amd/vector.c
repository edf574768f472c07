/* SPDX-License-Identifier: MIT
 * Vector arithmetic, lane by lane ("Vector ALU Operations"). Bits that nobody wrote pass through moves, logic and shifts
 * by known amounts one by one; any other result that depends on one is unknown as a whole. */
#include <math.h>
#include <string.h>
#include "arithmetic.h"

uint32_t amd_vector_part(amd_machine *m, uint32_t code, uint32_t halves) {
  uint32_t r = code - AMD_V0, a = r - (AMD_A0 - AMD_V0);
  if (code < AMD_V0) amd_fault(m, "operand %u is no vector register", code);
  if (code < AMD_A0 ? r >= m->vectors : a >= m->accumulators) amd_fault(m, "%c%u is beyond the %u that the descriptor asks for", code < AMD_A0 ? 'v' : 'a', code < AMD_A0 ? r : a, code < AMD_A0 ? m->vectors : m->accumulators);
  if ((halves & 1 && m->w->v_flying[r][0]) || (halves & 2 && m->w->v_flying[r][1])) amd_fault(m, "%c%u is used while a load into it is in flight", code < AMD_A0 ? 'v' : 'a', code < AMD_A0 ? r : a);
  return r;
}

static bool wide(char type) { return type == 'd' || type == 'q'; }
static bool small(char type) { return type == 'h' || type == 'w'; }

/* SDWA: a byte or a word of the register. */
static uint64_t taken(const amd_operand *o, uint64_t v, uint64_t *u) {
  uint32_t shift = o->take < 4 ? 8 * o->take : 16 * (o->take - 4u), bits = o->take < 4 ? 8 : 16;
  uint64_t mask = ((uint64_t)1 << bits) - 1, r = v >> shift & mask;
  if (o->take >= 6) return v;
  *u = *u >> shift & mask ? ~(uint64_t)0 : 0;
  return o->sign && r >> (bits - 1) & 1 ? (r | ~mask) & 0xffffffffu : r;
}

/* The halves of its register that an operand of 16 bits stands for. */
static uint32_t halves_of(const amd_machine *m, const amd_operand *o) { return small(o->type) && amd_rdna(m) ? 1u + o->high : 3; }

static uint64_t source(amd_machine *m, const amd_instruction *i, uint32_t k, uint64_t l, uint64_t on, uint64_t *u) {
  const amd_operand *o = &i->source[k];
  uint64_t v;
  *u = 0;
  if (o->type == 'm') {
    uint64_t mask = amd_scalar(m, o, m->lanes == 64 ? 2 : 1, u);
    *u = *u >> l & 1;
    return mask >> l & 1;
  }
  if (o->code >= AMD_V0) {
    uint32_t r = amd_vector_part(m, o->code, halves_of(m, o)), from = (uint32_t)l;
    if (!k && i->dpp) from = amd_dpp_lane(m, i, (uint32_t)l, on);
    if (from >= AMD_LANES) return 0;
    v = m->w->v[r][from], *u = m->w->v_unknown[r][from];
    if (wide(o->type)) {
      uint32_t next = amd_vector(m, o->code + 1u);
      v |= (uint64_t)m->w->v[next][from] << 32, *u |= (uint64_t)m->w->v_unknown[next][from] << 32;
    }
  } else v = amd_scalar(m, o, wide(o->type) ? 2 : 1, u);
  v = taken(o, v, u);
  if (small(o->type)) v = v >> (o->high ? 16 : 0) & 0xffff, *u = *u >> (o->high ? 16 : 0) & 0xffff;
  uint64_t sign = o->type == 'f' ? 0x80000000u : o->type == 'h' ? 0x8000 : o->type == 'd' ? (uint64_t)1 << 63 : 0;
  if ((i->row->format == AMD_VOP3P && i->row->types[0] != 'f') || o->type == 'P') return v;
  if (!sign && (o->negate || o->absolute)) {
    if (i->operation == AMD_V_CNDMASK_B32 || i->operation == AMD_V_MOV_B32) sign = 0x80000000u;
    else if (i->operation == AMD_V_CNDMASK_B16) sign = 0x8000;
    else if (i->row->format != AMD_VOP3P) amd_fault(m, "a sign changed of an operand that is no float");
  }
  if (o->absolute) v &= ~sign;
  if (o->negate) v ^= sign;
  return v;
}

static uint64_t old_result(amd_machine *m, const amd_instruction *i, uint64_t l, uint64_t *u) {
  const amd_operand *o = &i->result[0];
  uint32_t r = amd_vector_part(m, o->code, halves_of(m, o));
  uint64_t v = m->w->v[r][l];
  *u = m->w->v_unknown[r][l];
  if (wide(o->type)) v |= (uint64_t)m->w->v[amd_vector(m, o->code + 1u)][l] << 32, *u |= (uint64_t)m->w->v_unknown[amd_vector(m, o->code + 1u)][l] << 32;
  if (small(o->type)) v = v >> (o->high ? 16 : 0) & 0xffff, *u = *u >> (o->high ? 16 : 0) & 0xffff;
  return v;
}

/* Output modifiers: a factor, and a clamp. */
static uint64_t modified(amd_machine *m, const amd_instruction *i, uint64_t v) {
  static const float factor[] = {1, 2, 4, 0.5f};
  char t = i->result[0].type;
  if (!i->clamp && !i->scale) return v;
  if (t == 'f') {
    float f = amd_single((uint32_t)v) * factor[i->scale];
    if (i->clamp) f = !(f > 0) ? 0 : f > 1 ? 1 : f;
    return amd_single_bits(f);
  }
  if (t == 'd') {
    double f = amd_double(v) * (double)factor[i->scale];
    if (i->clamp) f = !(f > 0) ? 0 : f > 1 ? 1 : f;
    return amd_double_bits(f);
  }
  if (t == 'h') {
    double f = amd_half((uint32_t)v) * (double)factor[i->scale];
    if (i->clamp) f = !(f > 0) ? 0 : f > 1 ? 1 : f;
    return amd_round_half(f, 0, false);
  }
  if (i->operation == AMD_V_ADD_U32 || i->operation == AMD_V_SUB_U32 || i->operation == AMD_V_SUBREV_U32) return v;   /* clamped where it is computed */
  amd_fault(m, "a clamp of this result is not written yet");
}

/* What a 16-bit result, or a part under SDWA, leaves of its register. */
static void write_lane(amd_machine *m, const amd_instruction *i, uint64_t l, uint64_t v, uint64_t u) {
  const amd_operand *o = &i->result[0];
  uint32_t r = amd_vector_part(m, o->code, halves_of(m, o)), mask = ~0u, shift = 0;
  if (wide(o->type)) {
    uint32_t next = amd_vector(m, o->code + 1u);
    m->w->v[next][l] = (uint32_t)(v >> 32), m->w->v_unknown[next][l] = (uint32_t)(u >> 32);
  }
  bool keeps = amd_rdna(m) || (i->row->format == AMD_VOP3 && i->sources == 3);
  if (small(o->type) && o->take == 6) {
    v &= 0xffff, u &= 0xffff;
    if (keeps) mask = 0xffff, shift = o->high ? 16 : 0;
  }
  if (o->take < 6) {
    shift = o->take < 4 ? 8 * o->take : 16 * (o->take - 4u);
    mask = o->take < 4 ? 0xff : 0xffff;
    if (u & mask) u = mask;
    if (o->sign == 1) amd_fault(m, "SDWA that extends its result by the sign");
    if (o->sign == 0) v = (v & mask) << shift, u = (u & mask) << shift, mask = ~0u, shift = 0;
  }
  mask <<= shift;
  m->w->v[r][l] = (m->w->v[r][l] & ~mask) | ((uint32_t)v << shift & mask);
  m->w->v_unknown[r][l] = (m->w->v_unknown[r][l] & ~mask) | ((uint32_t)u << shift & mask);
}

static uint64_t spread(uint64_t u) { return u ? ~(uint64_t)0 : 0; }

/* Unknown bits of the result, where operands have some. */
static uint64_t unknown_of(const amd_lane *x) {
  uint64_t a = x->v[0], b = x->v[1], c = x->v[2], ua = x->u[0], ub = x->u[1], uc = x->u[2];
  switch (x->i->operation) {
  case AMD_V_MOV_B32: case AMD_V_MOV_B16: case AMD_V_MOV_B64: case AMD_V_NOT_B32: case AMD_V_NOT_B16: case AMD_ACC_READ: case AMD_ACC_WRITE: case AMD_ACC_MOV: return ua;
  case AMD_V_CNDMASK_B32: case AMD_V_CNDMASK_B16: return uc ? ~(uint64_t)0 : c ? ub : ua;
  case AMD_V_AND_B32: case AMD_V_AND_B16: return (ua | ub) & (a | ua) & (b | ub);
  case AMD_V_OR_B32: case AMD_V_OR_B16: return (ua | ub) & ~(a & ~ua) & ~(b & ~ub);
  case AMD_V_XOR_B32: case AMD_V_XOR_B16: return ua | ub;
  case AMD_V_AND_OR_B32: return ((ua | ub) & (a | ua) & (b | ub)) | uc;
  case AMD_V_OR3_B32: case AMD_V_XOR3_B32: return ua | ub | uc;
  case AMD_V_LSHLREV_B32: return ua ? ~(uint64_t)0 : ub << (a & 31);
  case AMD_V_LSHRREV_B32: return ua ? ~(uint64_t)0 : ub >> (a & 31);
  case AMD_V_LSHLREV_B64: return ua ? ~(uint64_t)0 : ub << (a & 63);
  case AMD_V_LSHRREV_B64: return ua ? ~(uint64_t)0 : ub >> (a & 63);
  case AMD_V_LSHL_OR_B32: return ub ? ~(uint64_t)0 : ua << (b & 31) | uc;
  case AMD_V_BFE_U32: return ub || uc ? ~(uint64_t)0 : ua >> (b & 31) & (((uint64_t)1 << (c & 31)) - 1);
  case AMD_V_ADD_U32: case AMD_V_SUB_U32: case AMD_V_SUBREV_U32: case AMD_V_ADD_CO: case AMD_V_SUB_CO: case AMD_V_SUBREV_CO: case AMD_V_ADD3_U32:
  case AMD_V_MUL_LO_U32: case AMD_V_MAD_U64_U32: case AMD_V_MAD_I64_I32: case AMD_V_ADD_U16: case AMD_V_SUB_U16: case AMD_V_MUL_LO_U16: return amd_upward(ua | ub | uc);
  case AMD_V_BFE_I32: return ub || uc ? ~(uint64_t)0 : spread(ua >> (b & 31) & (((uint64_t)1 << (c & 31)) - 1));
  case AMD_V_CVT_F32_UBYTE0: case AMD_V_CVT_F32_UBYTE1: case AMD_V_CVT_F32_UBYTE2: case AMD_V_CVT_F32_UBYTE3:
    return spread(ua >> 8 * (x->i->operation - AMD_V_CVT_F32_UBYTE0) & 255);
  case AMD_V_MUL_I32_I24: case AMD_V_MUL_U32_U24: return amd_upward((ua | ub) & 0xffffff);
  case AMD_V_FMA_MIXLO_F16: return (spread(ua | ub | uc) & 0xffff) | x->u[3];   /* u[3]: of the half that stays */
  case AMD_V_FMA_MIXHI_F16: return (spread(ua | ub | uc) & 0xffff0000) | x->u[3];
  case AMD_V_PACK_B32_F16: return (ua & 0xffff) | ub << 16;
  case AMD_V_ALIGNBIT_B32: return uc ? ~(uint64_t)0 : ((ua & 0xffffffffu) << 32 | (ub & 0xffffffffu)) >> (c & 31);
  case AMD_V_PERM_B32: {
    uint64_t d = 0, both = (ua & 0xffffffffu) << 32 | (ub & 0xffffffffu);
    for (uint32_t k = 0; k < 4; k++) {
      uint32_t pick = c >> 8 * k & 255;
      if (pick < 8) d |= (both >> 8 * pick & 255) << 8 * k;
      else if (pick < 12) d |= (both >> (16 * (pick - 8) + 15) & 1 ? 255u : 0u) << 8 * k;
    }
    return uc ? ~(uint64_t)0 : d;
  }
  default: return ~(uint64_t)0;
  }
}

static bool compute(amd_machine *m, amd_lane *x) {
  (void)m;
  return amd_floats(x) || amd_integers(x) || amd_conversions(x) || amd_packed(x);
}

/* Comparisons: a bit for each lane that is on, 0 for the others. */
static void compare(amd_machine *m, const amd_instruction *i) {
  uint64_t on = amd_exec(m), d = 0, u = 0;
  AMD_EACH(on, l) {
    amd_lane x = {.m = m, .i = i, .lane = (uint32_t)l};
    for (uint32_t k = 0; k < 2; k++) x.v[k] = source(m, i, k, l, on, &x.u[k]);
    if (amd_compare(&x)) d |= (uint64_t)1 << l;
    if (x.u[0] | x.u[1]) u |= (uint64_t)1 << l;
  }
  bool exec = i->operation == AMD_V_CMPX_FLOAT || i->operation == AMD_V_CMPX_INT || i->operation == AMD_V_CMPX_UINT;
  uint32_t words = m->lanes / 32;
  if (!exec || !amd_rdna(m)) amd_scalar_write(m, i->result[0].code, words, d, u);
  if (exec) amd_scalar_write(m, AMD_EXEC, words, d, u);
}

typedef struct { uint64_t on, v[AMD_LANES], u[AMD_LANES], carry, carry_unknown; } results;

static void lanes(amd_machine *m, const amd_instruction *i, results *r) {
  uint64_t on = amd_exec(m);
  r->on = 0;
  bool once = !strncmp(i->name, "v_s_", 4);
  AMD_EACH(on, l) {
    amd_lane x = {.m = m, .i = i, .lane = (uint32_t)l};
    if (i->dpp && amd_dpp_lane(m, i, (uint32_t)l, on) > AMD_LANES) continue;
    for (uint32_t k = 0; k < i->sources; k++) x.v[k] = source(m, i, k, l, on, &x.u[k]);
    if (i->operation == AMD_V_FMA_MIX_F32 || i->operation == AMD_V_FMA_MIXLO_F16 || i->operation == AMD_V_FMA_MIXHI_F16)
      for (uint32_t k = 0; k < 3; k++)  /* an operand that is a half */
        if (i->high_sources >> k & 1) x.u[k] = x.u[k] >> (i->low_sources >> k & 1 ? 16 : 0) & 0xffff;
    if (i->keep) x.v[i->sources] = old_result(m, i, l, &x.u[i->sources]);
    if (i->operation == AMD_V_DIV_FMAS_F32 || i->operation == AMD_V_DIV_FMAS_F64) {
      amd_operand vcc = {.code = AMD_VCC};
      x.carry = amd_scalar(m, &vcc, m->lanes / 32, &x.u[3]) >> l & 1, x.u[3] = x.u[3] >> l & 1;
    }
    if (!compute(m, &x)) amd_fault(m, "what this instruction does is not written yet");
    r->on |= (uint64_t)1 << l;
    r->v[l] = modified(m, i, x.d);
    uint64_t any = x.u[0] | x.u[1] | x.u[2] | x.u[3];
    r->u[l] = any ? unknown_of(&x) : 0;
    if (x.carry) r->carry |= (uint64_t)1 << l;
    if (any) r->carry_unknown |= (uint64_t)1 << l;
    if (once) break;
  }
}

static void write(amd_machine *m, const amd_instruction *i, const results *r) {
  if (i->result[0].code < AMD_V0) {
    uint64_t l = r->on ? (uint64_t)__builtin_ctzll(r->on) : 0;
    amd_scalar_write(m, i->result[0].code, 1, r->v[l], spread(r->u[l]) & 0xffffffffu);
    return;
  }
  AMD_EACH(r->on, l) write_lane(m, i, l, r->v[l], r->u[l]);
  if (i->results > 1) amd_scalar_write(m, i->result[1].code, m->lanes / 32, r->carry, r->carry_unknown);
}

bool amd_execute_vector(amd_machine *m) {
  const amd_instruction *i = m->i;
  results first = {0}, second = {0};
  if (i->row->format < AMD_VOP1 || i->row->format > AMD_VOPD) return false;
  if (i->result[0].type == 'm' && i->results == 1) return compare(m, i), true;
  lanes(m, i, &first);
  if (i->second) m->i = i->second, lanes(m, i->second, &second), m->i = i;
  write(m, i, &first);
  if (i->second) write(m, i->second, &second), m->d->count.instructions++;
  return true;
}
