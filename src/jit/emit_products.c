/* SPDX-License-Identifier: MIT
 * On AMD: products of f32 that are rounded to f16. LLVM makes one instruction of both, a fused multiply-add
 * (v_fma_mixlo_f16), and gives it +0 to add, which makes +0 of a product that is -0 (docs/llvm.md). Here such a product
 * becomes a fused multiply-add of -0, which changes no product, and which LLVM takes as it is. */
#include "jit/emit.h"

/* The product with -0 added takes its place. It stays, unused: others may still ask for its value. */
static void add_nothing(tg_emitter *e, LLVMValueRef product) {
  LLVMTypeRef type = LLVMTypeOf(product);
  uint32_t lanes = LLVMGetTypeKind(type) == LLVMVectorTypeKind ? LLVMGetVectorSize(type) : 1;
  LLVMValueRef *zero = tg_new(&e->j->env, LLVMValueRef, lanes);
  for (uint32_t i = 0; i < lanes; i++) zero[i] = LLVMConstReal(e->single, -0.0);
  LLVMValueRef args[3] = {LLVMGetOperand(product, 0), LLVMGetOperand(product, 1),
                          type == e->single ? zero[0] : LLVMConstVector(zero, lanes)};
  LLVMPositionBuilderBefore(e->b, product);
  LLVMValueRef sum = tg_emit_call(e, "llvm.fma", type, args, 3);
  LLVMReplaceAllUsesWith(product, sum);
}

/* Products that the value is, but for its sign and for lanes that change places: LLVM looks through these. */
static void find_products(tg_emitter *e, LLVMValueRef v) {
  if (!LLVMIsAInstruction(v)) return;
  switch (LLVMGetInstructionOpcode(v)) {
  case LLVMFMul:
    add_nothing(e, v);
    return;
  case LLVMInsertElement:
  case LLVMShuffleVector:
    find_products(e, LLVMGetOperand(v, 1));
    /* fallthrough */
  case LLVMExtractElement:
  case LLVMFNeg:
    find_products(e, LLVMGetOperand(v, 0));
    return;
  default: return;
  }
}

static bool is_half(const tg_emitter *e, LLVMTypeRef type) {
  return (LLVMGetTypeKind(type) == LLVMVectorTypeKind ? LLVMGetElementType(type) : type) == e->half;
}

void tg_emit_products(tg_emitter *e, LLVMValueRef fn) {
  for (LLVMBasicBlockRef b = LLVMGetFirstBasicBlock(fn); b; b = LLVMGetNextBasicBlock(b))
    for (LLVMValueRef v = LLVMGetFirstInstruction(b); v; v = LLVMGetNextInstruction(v))
      if (LLVMGetInstructionOpcode(v) == LLVMFPTrunc && is_half(e, LLVMTypeOf(v)))
        find_products(e, LLVMGetOperand(v, 0));
}
