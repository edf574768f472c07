/* SPDX-License-Identifier: MIT
 * Conversions, correctly rounded on every target. bf16 and the 8-bit floats are represented by their bits. Conversions
 * from wider types to these and to f16 go through an intermediate float type. They round twice, but the first rounding
 * is to odd (the last bit is set if the value is inexact), so that the second gives the correct result. */
#include <float.h>
#include <math.h>
#include "jit/emit.h"

static LLVMValueRef constant(tg_emitter *e, tg_type t, uint32_t lanes, uint64_t bits) {
  return tg_emit_splat(e, tg_emit_bits(e, t, bits), lanes, 0);
}

/* x rounded to odd, given y, which is x rounded to nearest. inexact: y is not equal to x; below: |y| < |x|. If y is
 * inexact and even, the result is the next number from y toward x. */
static LLVMValueRef to_odd(tg_emitter *e, tg_type bits_type, uint32_t lanes, LLVMValueRef y, LLVMValueRef inexact,
                           LLVMValueRef below) {
  LLVMTypeRef bits = tg_emit_type(e, bits_type, lanes), floats = LLVMTypeOf(y);
  LLVMValueRef i = LLVMBuildBitCast(e->b, y, bits, ""), one = constant(e, bits_type, lanes, 1),
               zero = LLVMConstNull(bits);
  LLVMValueRef even = LLVMBuildICmp(e->b, LLVMIntEQ, LLVMBuildAnd(e->b, i, one, ""), zero, "");
  LLVMValueRef step = LLVMBuildSelect(e->b, below, one, LLVMConstAllOnes(bits), ""); /* below: away from zero */
  LLVMValueRef move = LLVMBuildAnd(e->b, inexact, even, "");
  return LLVMBuildBitCast(e->b, LLVMBuildAdd(e->b, i, LLVMBuildSelect(e->b, move, step, zero, ""), ""), floats, "");
}

static LLVMValueRef magnitude(tg_emitter *e, LLVMValueRef v) {
  return tg_emit_call(e, "llvm.fabs", LLVMTypeOf(v), &v, 1);
}

static LLVMValueRef f64_to_f32_odd(tg_emitter *e, uint32_t lanes, LLVMValueRef x) {
  LLVMValueRef y = LLVMBuildFPTrunc(e->b, x, tg_emit_type(e, TG_F32, lanes), ""),
               back = LLVMBuildFPExt(e->b, y, LLVMTypeOf(x), "");
  LLVMValueRef inexact = LLVMBuildFCmp(e->b, LLVMRealONE, back, x, "");
  LLVMValueRef below = LLVMBuildFCmp(e->b, LLVMRealOLT, magnitude(e, back), magnitude(e, x), "");
  return to_odd(e, TG_I32, lanes, y, inexact, below);
}

static LLVMValueRef saturate(tg_emitter *e, tg_type type, uint32_t lanes, LLVMValueRef x);

/* A 64-bit integer to f64, rounded to odd. y is exact if converting it back gives x. That saturates only if x was
 * rounded up to 2^63 or 2^64 (`past`), and then y is inexact and greater than x. */
static LLVMValueRef i64_to_f64_odd(tg_emitter *e, bool is_signed, uint32_t lanes, LLVMValueRef x) {
  LLVMTypeRef wide = tg_emit_type(e, TG_F64, lanes);
  LLVMValueRef y = is_signed ? LLVMBuildSIToFP(e->b, x, wide, "") : LLVMBuildUIToFP(e->b, x, wide, "");
  LLVMValueRef back = saturate(e, is_signed ? TG_I64 : TG_U64, lanes, y);
  LLVMValueRef top = constant(e, TG_F64, lanes, is_signed ? 0x43E0000000000000u : 0x43F0000000000000u); /* 2^63, 2^64 */
  LLVMValueRef past = LLVMBuildFCmp(e->b, LLVMRealOGE, y, top, "");
  LLVMValueRef inexact = LLVMBuildOr(e->b, LLVMBuildICmp(e->b, LLVMIntNE, back, x, ""), past, "");
  LLVMValueRef below = LLVMBuildICmp(e->b, is_signed ? LLVMIntSLT : LLVMIntULT, back, x, "");
  if (is_signed)
    below = LLVMBuildXor(e->b, below, LLVMBuildICmp(e->b, LLVMIntSLT, x, LLVMConstNull(LLVMTypeOf(x)), ""), "");
  below = LLVMBuildAnd(e->b, below, LLVMBuildNot(e->b, past, ""), "");
  return to_odd(e, TG_I64, lanes, y, inexact, below);
}

/* f32 to the bits of bf16, rounded to nearest even; NaN stays NaN. */
static LLVMValueRef f32_to_bf16(tg_emitter *e, uint32_t lanes, LLVMValueRef x) {
  if (e->device && e->target->bf16_convert) {
    LLVMTypeRef brain = LLVMBFloatTypeInContext(e->c);
    return LLVMBuildBitCast(e->b, LLVMBuildFPTrunc(e->b, x, lanes > 1 ? LLVMVectorType(brain, lanes) : brain, ""),
                            tg_emit_type(e, TG_I16, lanes), "");
  }
  LLVMTypeRef words = tg_emit_type(e, TG_I32, lanes), halves = tg_emit_type(e, TG_I16, lanes);
  LLVMValueRef i = LLVMBuildBitCast(e->b, x, words, ""), by = constant(e, TG_I32, lanes, 16);
  LLVMValueRef odd = LLVMBuildAnd(e->b, LLVMBuildLShr(e->b, i, by, ""), constant(e, TG_I32, lanes, 1), "");
  LLVMValueRef r = LLVMBuildAdd(e->b, LLVMBuildAdd(e->b, i, odd, ""), constant(e, TG_I32, lanes, 0x7fff), "");
  LLVMValueRef quiet = LLVMBuildOr(e->b, i, constant(e, TG_I32, lanes, 0x400000), "");
  r = LLVMBuildSelect(e->b, LLVMBuildFCmp(e->b, LLVMRealUNO, x, x, ""), quiet, r, "");
  return LLVMBuildTrunc(e->b, LLVMBuildLShr(e->b, r, by, ""), halves, "");
}

static LLVMValueRef bf16_to_f32(tg_emitter *e, uint32_t lanes, LLVMValueRef x) {
  LLVMValueRef w = LLVMBuildZExt(e->b, x, tg_emit_type(e, TG_I32, lanes), "");
  return LLVMBuildBitCast(e->b, LLVMBuildShl(e->b, w, constant(e, TG_I32, lanes, 16), ""),
                          tg_emit_type(e, TG_F32, lanes), "");
}

/* On NVIDIA's GPUs what was loaded as more than four numbers is no part of one node with the load (docs/llvm.md). */
static LLVMValueRef f32_to_f64(tg_emitter *e, uint32_t lanes, LLVMValueRef x) {
  if (TG_LLVM_WIDE_EXTENSION && e->target->arch == TG_ARCH_NVPTX && lanes > 4) x = LLVMBuildFreeze(e->b, x, "");
  return LLVMBuildFPExt(e->b, x, tg_emit_type(e, TG_F64, lanes), "");
}

static LLVMValueRef float_to_float(tg_emitter *e, tg_type to, tg_type from, uint32_t lanes, LLVMValueRef x) {
  LLVMTypeRef single = tg_emit_type(e, TG_F32, lanes);
  if (from == TG_BF16) x = bf16_to_f32(e, lanes, x);
  if (from == TG_F16) x = LLVMBuildFPExt(e->b, x, single, "");
  if (from == TG_F16 || from == TG_BF16) from = TG_F32;
  if (to == TG_F64) return from == TG_F64 ? x : f32_to_f64(e, lanes, x);
  if (to == TG_F32) return from == TG_F32 ? x : LLVMBuildFPTrunc(e->b, x, single, "");
  if (from == TG_F64) x = f64_to_f32_odd(e, lanes, x);
  return to == TG_BF16 ? f32_to_bf16(e, lanes, x) : LLVMBuildFPTrunc(e->b, x, tg_emit_type(e, TG_F16, lanes), "");
}

static LLVMValueRef integer_to_float(tg_emitter *e, tg_type to, tg_type from, uint32_t lanes, LLVMValueRef x) {
  bool is_signed = tg_is_signed(from);
  LLVMTypeRef type = tg_emit_type(e, to == TG_F32 ? TG_F32 : TG_F64, lanes);
  if (to != TG_F32 && to != TG_F64) {
    LLVMValueRef wide = from == TG_INDEX || tg_type_bits(from) == 64 ? i64_to_f64_odd(e, is_signed, lanes, x)
                        : is_signed ? LLVMBuildSIToFP(e->b, x, type, "") : LLVMBuildUIToFP(e->b, x, type, "");
    return float_to_float(e, to, TG_F64, lanes, wide);
  }
  return is_signed ? LLVMBuildSIToFP(e->b, x, type, "") : LLVMBuildUIToFP(e->b, x, type, "");
}

/* Processors convert to 32 bits; LLVM makes less of a vector one element at a time. What is within the limits already
 * is limited once more: they have instructions that narrow vectors so, and none that cut bits off across halves. */
static LLVMValueRef narrow(tg_emitter *e, LLVMTypeRef to, uint32_t lanes, LLVMValueRef x, bool is_signed, int bits) {
  if (lanes > 1) {
    LLVMValueRef most = constant(e, TG_I32, lanes, ((uint64_t)1 << bits) - 1),
                 least = constant(e, TG_I32, lanes, is_signed ? (uint32_t)-(1 << bits) : 0);
    x = tg_emit_call(e, "llvm.smax", LLVMTypeOf(x), (LLVMValueRef[]){x, least}, 2);
    x = tg_emit_call(e, "llvm.smin", LLVMTypeOf(x), (LLVMValueRef[]){x, most}, 2);
  }
  return LLVMBuildTrunc(e->b, x, to, "");
}

/* With a conversion of numbers that fit alone, so that an optimiser knows what each operation is on any target. Limits
 * that the float has exactly (all of at most 24 bits of f32) are limits before the conversion; at the others what is
 * beyond is chosen behind it. */
static LLVMValueRef saturate_by_parts(tg_emitter *e, tg_type type, uint32_t lanes, LLVMValueRef x, bool nearest) {
  LLVMTypeRef from = LLVMTypeOf(x), real = lanes > 1 ? LLVMGetElementType(from) : from,
              to = tg_emit_type(e, type, lanes), scalar = tg_emit_type(e, type, 1);
  bool is_signed = tg_is_signed(type), wide = LLVMGetTypeKind(real) == LLVMDoubleTypeKind;
  int width = (int)LLVMGetIntTypeWidth(scalar), bits = width - is_signed;   /* of a magnitude */
  LLVMValueRef least = tg_emit_splat(e, LLVMConstReal(real, is_signed ? -ldexp(1, bits) : 0), lanes, 0);
  x = LLVMBuildSelect(e->b, LLVMBuildFCmp(e->b, LLVMRealORD, x, x, ""), x, LLVMConstNull(from), "");
  x = LLVMBuildSelect(e->b, LLVMBuildFCmp(e->b, LLVMRealOGT, x, least, ""), x, least, "");
  if (bits <= (wide ? DBL_MANT_DIG : FLT_MANT_DIG)) {
    LLVMValueRef most = tg_emit_splat(e, LLVMConstReal(real, ldexp(1, bits) - 1), lanes, 0);
    x = LLVMBuildSelect(e->b, LLVMBuildFCmp(e->b, LLVMRealOLT, x, most, ""), x, most, "");
    if (nearest) {
      LLVMTypeRef both[2] = {tg_emit_type(e, TG_I32, lanes), from};
      LLVMValueRef fn = LLVMGetIntrinsicDeclaration(e->m, LLVMLookupIntrinsicID("llvm.lrint", 10), both, 2);
      x = LLVMBuildCall2(e->b, LLVMGlobalGetValueType(fn), fn, &x, 1, "");
      return narrow(e, to, lanes, x, is_signed, bits);
    }
    if (width >= 32) return is_signed ? LLVMBuildFPToSI(e->b, x, to, "") : LLVMBuildFPToUI(e->b, x, to, "");
    return narrow(e, to, lanes, LLVMBuildFPToSI(e->b, x, tg_emit_type(e, TG_I32, lanes), ""), is_signed, bits);
  }
  uint64_t top = bits == 64 ? UINT64_MAX : ((uint64_t)1 << bits) - 1;
  LLVMValueRef end = tg_emit_splat(e, LLVMConstReal(real, ldexp(1, bits)), lanes, 0);
  LLVMValueRef over = LLVMBuildFCmp(e->b, LLVMRealOGE, x, end, "");
  LLVMValueRef inside = LLVMBuildSelect(e->b, over, LLVMConstNull(from), x, "");
  LLVMValueRef r = is_signed ? LLVMBuildFPToSI(e->b, inside, to, "") : LLVMBuildFPToUI(e->b, inside, to, "");
  return LLVMBuildSelect(e->b, over, tg_emit_splat(e, LLVMConstInt(scalar, top, 0), lanes, 0), r, "");
}

/* LLVM's operation is an instruction or two for one number, and goes through a CPU's vector one number after the other.
 * SPIR-V leaves open what comes out of numbers that do not fit. */
static LLVMValueRef saturate(tg_emitter *e, tg_type type, uint32_t lanes, LLVMValueRef x) {
  if (e->tasks || (lanes > 1 && !e->device)) return saturate_by_parts(e, type, lanes, x, false);
  const char *name = tg_is_signed(type) ? "llvm.fptosi.sat" : "llvm.fptoui.sat";
  LLVMTypeRef both[2] = {tg_emit_type(e, type, lanes), LLVMTypeOf(x)};
  unsigned id = LLVMLookupIntrinsicID(name, strlen(name));
  LLVMValueRef fn = LLVMGetIntrinsicDeclaration(e->m, id, both, 2);
  return LLVMBuildCall2(e->b, LLVMGlobalGetValueType(fn), fn, &x, 1, "");
}

/* Is the number rounded first, in vectors of which x86 has an instruction that does both? Limits that are integers may
 * as well come before. */
static bool rounds_and_converts(const tg_emitter *e, const tg_uop *u) {
  return u->src[0]->op == TG_OP_ROUND && u->src[0]->type == TG_F32 && u->lanes > 1 && !e->tasks && !e->device &&
         e->target->arch == TG_ARCH_X86_64 && u->type != TG_INDEX && tg_is_int(u->type) && tg_type_bits(u->type) < 32;
}

LLVMValueRef tg_emit_cast(tg_emitter *e, const tg_uop *u) {
  tg_type to = u->type, from = u->src[0]->type;
  LLVMValueRef x = tg_emit_fields(e, u);
  if (x) return x;
  if (rounds_and_converts(e, u))
    return saturate_by_parts(e, to, u->lanes, tg_emit_get(e, u->src[0]->src[0], u->lanes), true);
  x = tg_emit_get(e, u->src[0], u->lanes);
  LLVMTypeRef type = tg_emit_type(e, to, u->lanes);
  if (to == from) return x;
  if (to == TG_E4M3 || to == TG_E5M2 || from == TG_E4M3 || from == TG_E5M2) return NULL;
  if (tg_is_float(to))
    return tg_is_float(from) ? float_to_float(e, to, from, u->lanes, x) : integer_to_float(e, to, from, u->lanes, x);
  if (tg_is_float(from)) {
    if (from == TG_F16 || from == TG_BF16) x = float_to_float(e, TG_F32, from, u->lanes, x);
    if (to == TG_BOOL) return LLVMBuildFCmp(e->b, LLVMRealUNE, x, LLVMConstNull(LLVMTypeOf(x)), "");
    return saturate(e, to, u->lanes, x);
  }
  if (to == TG_BOOL) return LLVMBuildICmp(e->b, LLVMIntNE, x, LLVMConstNull(LLVMTypeOf(x)), "");
  int bits = to == TG_INDEX ? 64 : tg_type_bits(to), had = from == TG_INDEX ? 64 : tg_type_bits(from);
  if (bits == had) return x;
  if (bits < had) return LLVMBuildTrunc(e->b, x, type, "");
  return tg_is_signed(from) ? LLVMBuildSExt(e->b, x, type, "") : LLVMBuildZExt(e->b, x, type, "");
}

LLVMValueRef tg_emit_bitcast(tg_emitter *e, const tg_uop *u) {
  LLVMValueRef x = tg_emit_get(e, u->src[0], u->lanes);
  LLVMTypeRef type = tg_emit_type(e, u->type, u->lanes);
  return LLVMTypeOf(x) == type ? x : LLVMBuildBitCast(e->b, x, type, "");
}
