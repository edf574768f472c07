/* SPDX-License-Identifier: MIT
 * On NVIDIA: two roundings of f32 to f16, one behind the other, are one instruction, whose result is a register of
 * both. Elements of a tile that a matrix instruction takes are computed in that order, and need no packing then. */
#include "jit/emit.h"

static bool is_rounding(const tg_emitter *e, LLVMValueRef v) {
  return LLVMGetInstructionOpcode(v) == LLVMFPTrunc && LLVMTypeOf(v) == e->half &&
         LLVMTypeOf(LLVMGetOperand(v, 0)) == e->single;
}

static bool takes(LLVMValueRef instruction, LLVMValueRef v) {
  for (int i = 0; i < LLVMGetNumOperands(instruction); i++)
    if (LLVMGetOperand(instruction, (unsigned)i) == v) return true;
  return false;
}

/* Both stay, unused. LLVM makes two instructions of a vector's rounding, so this is the intrinsic, whose first operand
 * is the upper half. */
static void join(tg_emitter *e, LLVMValueRef first, LLVMValueRef second) {
  static const char name[] = "llvm.nvvm.ff2f16x2.rn";
  LLVMValueRef of[2] = {first, second}, args[2] = {LLVMGetOperand(second, 0), LLVMGetOperand(first, 0)};
  LLVMValueRef fn = LLVMGetIntrinsicDeclaration(e->m, LLVMLookupIntrinsicID(name, sizeof name - 1), NULL, 0);
  LLVMPositionBuilderBefore(e->b, second);
  LLVMValueRef both = LLVMBuildCall2(e->b, LLVMGlobalGetValueType(fn), fn, args, 2, "");
  for (unsigned i = 0; i < 2; i++)
    LLVMReplaceAllUsesWith(of[i], LLVMBuildExtractElement(e->b, both, LLVMConstInt(e->integer[32], i, 0), ""));
}

void tg_emit_halves(tg_emitter *e, LLVMValueRef fn) {
  for (LLVMBasicBlockRef b = LLVMGetFirstBasicBlock(fn); b; b = LLVMGetNextBasicBlock(b)) {
    LLVMValueRef waits = NULL;   /* a rounding that nothing has taken yet */
    for (LLVMValueRef v = LLVMGetFirstInstruction(b); v; v = LLVMGetNextInstruction(v)) {
      if (waits && takes(v, waits)) waits = NULL;
      if (!is_rounding(e, v)) continue;
      if (waits) join(e, waits, v);
      waits = waits ? NULL : v;
    }
  }
}
