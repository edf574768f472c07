/* SPDX-License-Identifier: MIT
 * The greater and the less of two floats: NaN if an operand is NaN, and +0 is greater than -0. AArch64 and GPUs have
 * the instruction. x86's gives its second operand where the two are equal or one is NaN, so the sign of 0 and NaN take
 * four more instructions, or two with AVX-512.
 *
 * Of more than two vectors, a maximum of maxima, it is cheaper to keep three things apart: the greatest as the
 * instruction has it, the signs of all, and whether any is NaN, which one comparison tells of two operands. The
 * greatest has a sign only if all have, so its own bits and those of the signs are the result, once for all. */
#include <math.h>
#include "dsl/value.h"
#include "jit/emit.h"

/* One instruction, which gives b if the operands are unordered or equal. */
static LLVMValueRef pick(tg_emitter *e, LLVMRealPredicate p, LLVMValueRef a, LLVMValueRef b) {
  return LLVMBuildSelect(e->b, LLVMBuildFCmp(e->b, p, a, b, ""), a, b, "");
}

static LLVMRealPredicate wins(tg_op op) { return op == TG_OP_MAX ? LLVMRealOGT : LLVMRealOLT; }

LLVMValueRef tg_emit_extremum_constant(tg_emitter *e, tg_op op, LLVMValueRef a, const tg_uop *c, LLVMValueRef k) {
  double v = tg_const_value(c);
  bool negative = __builtin_signbit(v) != 0;
  if (v != v || (v == 0 && negative && op == TG_OP_MIN)) return NULL;
  LLVMValueRef r = pick(e, wins(op), k, a);
  /* the addition turns -0 into +0 */
  if (v == 0 && !negative && op == TG_OP_MAX) r = LLVMBuildFAdd(e->b, r, LLVMConstNull(LLVMTypeOf(a)), "");
  return r;
}

/* The least of all values below which a maximum cannot fall, and with which reductions begin; of a minimum the
 * greatest. Constants are equal if they are the same. */
static bool is_identity(tg_emitter *e, tg_op op, tg_type t, uint32_t lanes, LLVMValueRef v) {
  uint64_t bits = tg_value_bits(t, (tg_value){.f = op == TG_OP_MAX ? -INFINITY : INFINITY});
  return LLVMIsConstant(v) && v == tg_emit_splat(e, tg_emit_bits(e, t, bits), lanes, 0);
}

/* ---- of two ---- */

/* The target's instruction that knows the signs of 0, and gives the number where one operand is NaN. */
static LLVMValueRef ranged(tg_emitter *e, const char *name, tg_op op, uint32_t lanes, LLVMValueRef a, LLVMValueRef b) {
  enum { LESS = 4, GREATER = 5, CURRENT_ROUNDING = 4 };
  LLVMTypeRef word = e->integer[32];
  LLVMValueRef fn = LLVMGetIntrinsicDeclaration(e->m, LLVMLookupIntrinsicID(name, strlen(name)), NULL, 0);
  LLVMValueRef args[6] = {a, b, LLVMConstInt(word, op == TG_OP_MAX ? GREATER : LESS, 0), LLVMGetPoison(LLVMTypeOf(a)),
                          LLVMConstAllOnes(LLVMIntTypeInContext(e->c, lanes)), LLVMConstInt(word, CURRENT_ROUNDING, 0)};
  return LLVMBuildCall2(e->b, LLVMGlobalGetValueType(fn), fn, args, 6, "");
}

static LLVMTypeRef bits_of(tg_emitter *e, tg_type t, uint32_t lanes) {
  return tg_emit_type(e, t == TG_F64 ? TG_I64 : t == TG_F32 ? TG_I32 : TG_I16, lanes);
}

static LLVMValueRef unordered(tg_emitter *e, LLVMValueRef a, LLVMValueRef b) {
  return LLVMBuildFCmp(e->b, LLVMRealUNO, a, b, "");
}

/* The floats of these bits, and NaN where the mask says so: all bits set. A scalar's mask is no number of a register of
 * floats, so that one chooses. */
static LLVMValueRef or_nan(tg_emitter *e, LLVMTypeRef floats, LLVMValueRef mask, LLVMValueRef bits) {
  LLVMTypeRef type = LLVMTypeOf(bits);
  if (LLVMGetTypeKind(type) == LLVMVectorTypeKind)
    return LLVMBuildBitCast(e->b, LLVMBuildOr(e->b, LLVMBuildSExt(e->b, mask, type, ""), bits, ""), floats, "");
  LLVMValueRef v = LLVMBuildBitCast(e->b, bits, floats, "");
  return LLVMBuildSelect(e->b, mask, LLVMConstReal(floats, NAN), v, "");
}

/* The operands both ways round. Their bits together are NaN if one is NaN, and -0 if they are zeros of different signs;
 * the bits that both have are +0 there. */
static LLVMValueRef both_ways(tg_emitter *e, tg_op op, tg_type t, uint32_t lanes, LLVMValueRef a, LLVMValueRef b) {
  LLVMTypeRef bits = bits_of(e, t, lanes);
  LLVMValueRef x = LLVMBuildBitCast(e->b, pick(e, wins(op), a, b), bits, ""),
               y = LLVMBuildBitCast(e->b, pick(e, wins(op), b, a), bits, "");
  if (op == TG_OP_MIN) return LLVMBuildBitCast(e->b, LLVMBuildOr(e->b, x, y, ""), LLVMTypeOf(a), "");
  return or_nan(e, LLVMTypeOf(a), unordered(e, a, b), LLVMBuildAnd(e->b, x, y, ""));
}

/* ---- of several ---- */

/* A maximum of vectors (by the instruction that knows signs a minimum, too) that is not put together yet. single: an
 * operand that was not asked whether it is NaN; signs NULL: the instruction knows them. The parts of a value are kept
 * beside it (tg_emit_memo_get); those that no further maximum asks for, LLVM drops. */
typedef struct { LLVMValueRef greatest, signs, nan, single; } greatest_parts;
static const char parts_of[4];

static bool find_parts(tg_emitter *e, tg_type t, uint32_t lanes, bool signs, LLVMValueRef v, greatest_parts *p) {
  /* what an outer loop computed is put together there, once */
  bool here = LLVMIsAInstruction(v) && LLVMGetInstructionParent(v) == LLVMGetInsertBlock(e->b);
  LLVMValueRef known = here ? tg_emit_memo_get(e, v, &parts_of[0]) : NULL;
  if (known) {
    *p = (greatest_parts){known, signs ? tg_emit_memo_get(e, v, &parts_of[1]) : NULL,
                          tg_emit_memo_get(e, v, &parts_of[2]), tg_emit_memo_get(e, v, &parts_of[3])};
    return true;
  }
  *p = (greatest_parts){v, signs ? LLVMBuildBitCast(e->b, v, bits_of(e, t, lanes), "") : NULL, NULL, v};
  return false;
}

static void keep_parts(tg_emitter *e, LLVMValueRef v, greatest_parts p) {
  LLVMValueRef part[] = {p.greatest, p.signs, p.nan, p.single};
  for (uint32_t i = 0; i < 4; i++)
    if (part[i]) tg_emit_memo_set(e, v, &parts_of[i], part[i], e->depth);
}

static LLVMValueRef either(tg_emitter *e, LLVMValueRef a, LLVMValueRef b) {
  return !a ? b : !b ? a : LLVMBuildOr(e->b, a, b, "");
}

static greatest_parts join(tg_emitter *e, const char *range, uint32_t lanes, greatest_parts a, greatest_parts b) {
  greatest_parts r = {.nan = either(e, a.nan, b.nan)};
  r.greatest = range ? ranged(e, range, TG_OP_MAX, lanes, a.greatest, b.greatest)
                     : pick(e, LLVMRealOGT, a.greatest, b.greatest);
  if (!range) r.signs = LLVMBuildAnd(e->b, a.signs, b.signs, "");
  if (a.single && b.single) r.nan = either(e, r.nan, unordered(e, a.single, b.single));
  else r.single = a.single ? a.single : b.single;
  return r;
}

static LLVMValueRef put_together(tg_emitter *e, tg_type t, uint32_t lanes, greatest_parts p) {
  LLVMTypeRef floats = LLVMTypeOf(p.greatest);
  LLVMValueRef nan = p.single ? either(e, p.nan, unordered(e, p.single, p.single)) : p.nan;
  if (!p.signs)
    return LLVMBuildSelect(e->b, nan, tg_emit_splat(e, LLVMConstReal(LLVMGetElementType(floats), NAN), lanes, 0),
                           p.greatest, "");
  LLVMTypeRef bits = bits_of(e, t, lanes);
  uint64_t magnitude = (UINT64_C(1) << (tg_type_bits(t) - 1)) - 1;
  LLVMValueRef all = tg_emit_splat(e, LLVMConstInt(LLVMGetElementType(bits), magnitude, 0), lanes, 0);
  LLVMValueRef r = LLVMBuildAnd(e->b, LLVMBuildBitCast(e->b, p.greatest, bits, ""),
                                LLVMBuildOr(e->b, p.signs, all, ""), "");
  return or_nan(e, floats, nan, r);
}

static LLVMValueRef greater(tg_emitter *e, tg_type t, uint32_t lanes, LLVMValueRef a, LLVMValueRef b) {
  const char *range = tg_target_extremum(e->target, (uint32_t)tg_type_bits(t), lanes);
  greatest_parts x, y;
  bool several = find_parts(e, t, lanes, !range, a, &x);
  several |= find_parts(e, t, lanes, !range, b, &y);
  greatest_parts p = join(e, range, lanes, x, y);
  LLVMValueRef r = several || range ? put_together(e, t, lanes, p) : both_ways(e, TG_OP_MAX, t, lanes, a, b);
  keep_parts(e, r, p);
  return r;
}

LLVMValueRef tg_emit_extremum(tg_emitter *e, tg_op op, tg_type t, uint32_t lanes, LLVMValueRef a, LLVMValueRef b) {
  if (is_identity(e, op, t, lanes, a)) return b;
  if (is_identity(e, op, t, lanes, b)) return a;
  if (tg_target_has_extremum(e->target)) {
    LLVMValueRef args[2] = {a, b};
    return tg_emit_call(e, op == TG_OP_MAX ? "llvm.maximum" : "llvm.minimum", LLVMTypeOf(a), args, 2);
  }
  const char *range = tg_target_extremum(e->target, (uint32_t)tg_type_bits(t), lanes);
  if (op == TG_OP_MAX && lanes > 1) return greater(e, t, lanes, a, b);
  if (!range) return both_ways(e, op, t, lanes, a, b);
  return put_together(e, t, lanes, (greatest_parts){ranged(e, range, op, lanes, a, b), NULL, unordered(e, a, b), NULL});
}
