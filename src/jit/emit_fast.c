/* SPDX-License-Identifier: MIT
 * Fast functions of f32 as instructions of GPUs. NVIDIA: PTX ISA, "ex2", "rcp", "rsqrt", "tanh", as inline assembly,
 * since the names of LLVM's intrinsics differ between its versions. AMD: "V_EXP_F32", "V_RCP_F32", "V_RSQ_F32"; tanh is
 * made of the first two. What each may be off by is in docs/functions.md. */
#include "dsl/functions.h"
#include "jit/emit.h"

static LLVMValueRef by_assembly(tg_emitter *e, tg_op op, LLVMValueRef a) {
  static const char *const text[] = {"ex2.approx.ftz.f32 $0, $1;", "rcp.approx.ftz.f32 $0, $1;",
                                     "rsqrt.approx.ftz.f32 $0, $1;", "tanh.approx.f32 $0, $1;"};
  const char *s = text[op - TG_OP_FAST_EXP2];
  LLVMTypeRef type = LLVMFunctionType(e->single, &e->single, 1, 0);
  LLVMValueRef fn = LLVMGetInlineAsm(type, (char *)(uintptr_t)s, strlen(s), (char *)(uintptr_t)"=f,f", 4, 0, 0,
                                     LLVMInlineAsmDialectATT, 0);
  return LLVMBuildCall2(e->b, type, fn, &a, 1, "");
}

static LLVMValueRef by_intrinsic(tg_emitter *e, const char *name, LLVMValueRef a) {
  return tg_device_intrinsic(e, name, &e->single, 1, &a, 1);
}

/* 1 - 2 / (2^(2 x log2 e) + 1). Near 0, where that loses all its digits, x. */
static LLVMValueRef tanh_of_exp2(tg_emitter *e, LLVMValueRef a) {
  const double twice_log2_e = 2.8853900817779268, near = 0.02;
  LLVMValueRef one = LLVMConstReal(e->single, 1), size = tg_emit_call(e, "llvm.fabs", e->single, &a, 1);
  LLVMValueRef x = LLVMBuildFMul(e->b, a, LLVMConstReal(e->single, twice_log2_e), "");
  LLVMValueRef p = LLVMBuildFAdd(e->b, by_intrinsic(e, "llvm.amdgcn.exp2", x), one, "");
  LLVMValueRef q = LLVMBuildFMul(e->b, LLVMConstReal(e->single, 2), by_intrinsic(e, "llvm.amdgcn.rcp", p), "");
  LLVMValueRef small = LLVMBuildFCmp(e->b, LLVMRealOLT, size, LLVMConstReal(e->single, near), "");
  return LLVMBuildSelect(e->b, small, a, LLVMBuildFSub(e->b, one, q, ""), "");
}

static LLVMValueRef scalar(tg_emitter *e, tg_op op, LLVMValueRef a) {
  if (e->target->arch == TG_ARCH_NVPTX) return by_assembly(e, op, a);
  switch (op) {
  case TG_OP_FAST_EXP2: return by_intrinsic(e, "llvm.amdgcn.exp2", a);
  case TG_OP_FAST_RCP: return by_intrinsic(e, "llvm.amdgcn.rcp", a);
  case TG_OP_FAST_RSQRT: return by_intrinsic(e, "llvm.amdgcn.rsq", a);
  default: return tanh_of_exp2(e, a);
  }
}

LLVMValueRef tg_emit_fast(tg_emitter *e, const tg_uop *u, LLVMValueRef a) {
  if (!tg_fast_functions(e->target) || u->type != TG_F32) return NULL;
  if (u->lanes == 1) return scalar(e, u->op, a);
  LLVMValueRef all = LLVMGetPoison(LLVMTypeOf(a));
  for (uint32_t i = 0; i < u->lanes; i++) {
    LLVMValueRef at = LLVMConstInt(e->integer[32], i, 0);
    all = LLVMBuildInsertElement(e->b, all, scalar(e, u->op, LLVMBuildExtractElement(e->b, a, at, "")), at, "");
  }
  return all;
}
