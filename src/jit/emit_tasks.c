/* SPDX-License-Identifier: MIT
 * What is specific to SPIR-V: the kernels of a program whose tasks are work-items.
 *
 * The form of the program is a CPU's (docs/ir.md), and kernels and their launch are those that src/source/source.h
 * describes for OpenCL C, so one driver launches both. A phase becomes a function tg_task_p, which runs one task, and a
 * kernel tg_phase_p, which calls it for the tasks of its work-item. Arguments of both: the global buffers in order of
 * definition, the shared memory, the workspace, the parameters as i64; of tg_task_p also the task, and its workspace is
 * that of the work-item alone.
 *
 * SPIR-V has vectors of at most 16 elements and none of pointers, and LLVM's back end for it selects few instructions
 * for vectors, so LLVM makes every operation one of scalars before that (tg_tasks_scalars). */
#include <llvm-c/Transforms/PassBuilder.h>
#include "jit/emit.h"

enum { SPIR_FUNCTION = 75, SPIR_KERNEL = 76 };   /* of LLVM's CallingConv.h: spir_func, spir_kernel */

static bool takes(const tg_emitter *e, const char *feature) { return strstr(e->target->features, feature) != NULL; }

/* ---- functions ---- */

LLVMValueRef tg_tasks_param(tg_emitter *e, uint32_t param) { return LLVMGetParam(e->fn, e->globals + 2 + param); }

/* Begins a function of that name; task: it gets one as its last argument, and no host calls it. */
static void begin(tg_emitter *e, const char *name, bool task) {
  uint32_t pointers = e->globals + 2, n = pointers + e->j->params.n + task;
  LLVMTypeRef *types = tg_new(&e->j->env, LLVMTypeRef, n);
  for (uint32_t i = 0; i < n; i++) types[i] = i < pointers ? e->ptr : e->integer[64];
  LLVMValueRef fn = LLVMAddFunction(e->m, name, LLVMFunctionType(LLVMVoidTypeInContext(e->c), types, n, 0));
  LLVMSetFunctionCallConv(fn, task ? SPIR_FUNCTION : SPIR_KERNEL);
  if (task) LLVMSetLinkage(fn, LLVMInternalLinkage);
  tg_emit_begin(e, fn, name);
  e->workspace_arg = LLVMGetParam(fn, e->globals + 1);
  e->task_arg = task ? LLVMGetParam(fn, n - 1) : NULL;
}

void tg_tasks_begin_task(tg_emitter *e, uint32_t p) { begin(e, tg_format(&e->j->env, "tg_task_%u", p), true); }

void tg_tasks_begin_kernel(tg_emitter *e, const char *kind, uint32_t i) {
  begin(e, tg_format(&e->j->env, "tg_%s_%u", kind, i), false);
}

/* The number of this work-item, or of all: a built-in function of OpenCL's, of dimension 0. */
static LLVMValueRef item(tg_emitter *e, const char *mangled) {
  LLVMTypeRef type = LLVMFunctionType(e->integer[64], &e->integer[32], 1, 0);
  LLVMValueRef fn = LLVMGetNamedFunction(e->m, mangled), zero = LLVMConstNull(e->integer[32]);
  if (!fn) {
    fn = LLVMAddFunction(e->m, mangled, type);
    LLVMSetFunctionCallConv(fn, SPIR_FUNCTION);
  }
  LLVMValueRef call = LLVMBuildCall2(e->b, type, fn, &zero, 1, "");
  LLVMSetInstructionCallConv(call, SPIR_FUNCTION);
  return call;
}

/* Calls tg_task_p for the tasks i, i + n, i + 2n, .. below `tasks`, where i is the work-item and n their number. */
void tg_tasks_run(tg_emitter *e, uint32_t p, LLVMValueRef tasks, uint64_t workspace) {
  uint32_t n = LLVMCountParams(e->fn);
  LLVMValueRef body = LLVMGetNamedFunction(e->m, tg_format(&e->j->env, "tg_task_%u", p)),
               *args = tg_new(&e->j->env, LLVMValueRef, n + 1);
  LLVMValueRef first = item(e, "_Z13get_global_idj"), step = item(e, "_Z15get_global_sizej"),
               at = LLVMBuildMul(e->b, first, LLVMConstInt(e->integer[64], workspace, 0), "");
  for (uint32_t i = 0; i < n; i++) args[i] = LLVMGetParam(e->fn, i);
  args[e->globals + 1] = LLVMBuildGEP2(e->b, e->integer[8], args[e->globals + 1], &at, 1, "");
  LLVMBasicBlockRef before = LLVMGetInsertBlock(e->b), head = LLVMAppendBasicBlockInContext(e->c, e->fn, "head"),
                    run = LLVMAppendBasicBlockInContext(e->c, e->fn, "run"),
                    end = LLVMAppendBasicBlockInContext(e->c, e->fn, "end");
  LLVMBuildBr(e->b, head);
  LLVMPositionBuilderAtEnd(e->b, head);
  LLVMValueRef task = args[n] = LLVMBuildPhi(e->b, e->integer[64], "task");
  LLVMBuildCondBr(e->b, LLVMBuildICmp(e->b, LLVMIntSLT, task, tasks, ""), run, end);
  LLVMPositionBuilderAtEnd(e->b, run);
  LLVMSetInstructionCallConv(LLVMBuildCall2(e->b, LLVMGlobalGetValueType(body), body, args, n + 1, ""), SPIR_FUNCTION);
  LLVMValueRef in[2] = {first, LLVMBuildAdd(e->b, task, step, "")};
  LLVMBasicBlockRef from[2] = {before, run};
  LLVMBuildBr(e->b, head);
  LLVMAddIncoming(task, in, from, 2);
  LLVMPositionBuilderAtEnd(e->b, end);
}

/* ---- operations ---- */

void tg_tasks_need_f64(const tg_emitter *e) {
  if (!takes(e, "fp64"))
    tg_fail(&e->j->env, TG_EINVAL, "error: %s computes in f64: this target has no f64", e->j->name);
}

static void to_device(tg_emitter *e, LLVMValueRef atomic) {
#if TG_LLVM_SCOPES
  LLVMSetAtomicSyncScopeID(atomic, LLVMGetSyncScopeID(e->c, "device", 6));
#else
  (void)e, (void)atomic;
#endif
}

/* Adds of floats: compare and swap until nobody came between, as no OpenCL device need have another. */
static void add_float(tg_emitter *e, tg_type t, LLVMValueRef p, LLVMValueRef v) {
  LLVMTypeRef bits = e->integer[tg_type_bits(t)], type = LLVMTypeOf(v);
  LLVMBasicBlockRef before = LLVMGetInsertBlock(e->b), head = LLVMAppendBasicBlockInContext(e->c, e->fn, ""),
                    after = LLVMAppendBasicBlockInContext(e->c, e->fn, "");
  LLVMValueRef old = LLVMBuildLoad2(e->b, bits, p, "");
  LLVMBuildBr(e->b, head);
  LLVMPositionBuilderAtEnd(e->b, head);
  LLVMValueRef seen = LLVMBuildPhi(e->b, bits, ""),
               sum = LLVMBuildFAdd(e->b, LLVMBuildBitCast(e->b, seen, type, ""), v, "");
  LLVMValueRef swap = LLVMBuildAtomicCmpXchg(e->b, p, seen, LLVMBuildBitCast(e->b, sum, bits, ""),
                                             LLVMAtomicOrderingMonotonic, LLVMAtomicOrderingMonotonic, 0);
  to_device(e, swap);
  LLVMValueRef now = LLVMBuildExtractValue(e->b, swap, 0, "");
  LLVMBuildCondBr(e->b, LLVMBuildICmp(e->b, LLVMIntEQ, now, seen, ""), after, head);
  LLVMValueRef in[2] = {old, now};
  LLVMBasicBlockRef from[2] = {before, head};
  LLVMAddIncoming(seen, in, from, 2);
  LLVMPositionBuilderAtEnd(e->b, after);
}

void tg_tasks_add(tg_emitter *e, const tg_uop *store, LLVMValueRef p, LLVMValueRef v) {
  tg_type t = store->src[0]->type;
  const emit_buffer *b = &e->buffers[tg_buffer_ordinal(store->src[0])];
  if (b->memory == MEMORY_PRIVATE) {   /* no other task has it */
    LLVMValueRef old = LLVMBuildLoad2(e->b, LLVMTypeOf(v), p, "");
    LLVMBuildStore(e->b, tg_emit_op2(e, TG_OP_ADD, t, 1, old, v), p);
  } else if (t == TG_F32 || (t == TG_F64 && takes(e, "int64_atomics"))) add_float(e, t, p, v);
  else if (t == TG_I32 || t == TG_U32 || ((t == TG_I64 || t == TG_U64) && takes(e, "int64_atomics")))
    to_device(e, LLVMBuildAtomicRMW(e->b, LLVMAtomicRMWBinOpAdd, p, v, LLVMAtomicOrderingMonotonic, 0));
  else tg_fail_at(e->j, tg_get_pos(e->j, store), "this target has no atomic add to %s", tg_type_name[t]);
}

LLVMValueRef tg_tasks_reduce(tg_emitter *e, bool all, LLVMValueRef mask) {
  LLVMValueRef r = NULL;
  for (unsigned i = 0; i < LLVMGetVectorSize(LLVMTypeOf(mask)); i++) {
    LLVMValueRef bit = LLVMBuildExtractElement(e->b, mask, LLVMConstInt(e->integer[32], i, 0), "");
    r = !r ? bit : all ? LLVMBuildAnd(e->b, r, bit, "") : LLVMBuildOr(e->b, r, bit, "");
  }
  return r;
}

/* Each lane's access in a branch. */
LLVMValueRef tg_tasks_masked(tg_emitter *e, bool store, LLVMValueRef pointer, LLVMValueRef mask, LLVMValueRef value,
                             uint32_t align) {
  LLVMTypeRef type = LLVMGetElementType(LLVMTypeOf(value));
  bool apart = LLVMGetTypeKind(LLVMTypeOf(pointer)) == LLVMVectorTypeKind;
  unsigned lanes = LLVMGetVectorSize(LLVMTypeOf(value)), bytes = LLVMGetTypeKind(type) == LLVMIntegerTypeKind
                                                                     ? LLVMGetIntTypeWidth(type) / 8
                                                                 : type == e->twice ? 8 : 4;
  LLVMValueRef result = value;
  for (unsigned i = 0; i < lanes; i++) {
    LLVMValueRef at = LLVMConstInt(e->integer[32], i, 0), by = LLVMConstInt(e->integer[64], i, 0),
                 open = LLVMBuildExtractElement(e->b, mask, at, "");
    if (LLVMIsAConstantInt(open) && !LLVMConstIntGetZExtValue(open)) continue;
    LLVMValueRef p = apart ? LLVMBuildExtractElement(e->b, pointer, at, "")
                           : LLVMBuildGEP2(e->b, type, pointer, &by, 1, "");
    LLVMValueRef one = store ? LLVMBuildExtractElement(e->b, value, at, "") : NULL, in[2] = {result, NULL};
    LLVMBasicBlockRef from[2] = {LLVMGetInsertBlock(e->b), NULL}, after = tg_emit_open_gate(e, open);
    one = store ? LLVMBuildStore(e->b, one, p) : LLVMBuildLoad2(e->b, type, p, "");
    LLVMSetAlignment(one, apart ? align : align < bytes ? align : bytes);
    if (!store) in[1] = LLVMBuildInsertElement(e->b, result, one, at, "");
    from[1] = LLVMGetInsertBlock(e->b);
    tg_emit_close_gate(e, after);
    if (store) continue;
    result = LLVMBuildPhi(e->b, LLVMTypeOf(value), "");
    LLVMAddIncoming(result, in, from, 2);
  }
  return result;
}

/* ---- the module ---- */

void tg_tasks_launch(tg_emitter *e, tg_code_info *info) {
  int64_t *launch = tg_new(&e->j->env, int64_t, 1 + e->steps.n + e->phases.n);
  launch[0] = e->steps.n;
  for (uint32_t i = 0; i < e->steps.n; i++) launch[1 + i] = e->steps.data[i];
  for (uint32_t p = 0; p < e->phases.n; p++) {
    const tg_uop *extent = e->phases.data[p].thread ? tg_extent(e->phases.data[p].thread->src[0]) : NULL;
    launch[1 + e->steps.n + p] = !extent ? 1 : extent->op != TG_OP_CONST ? 0 : extent->arg < 1 ? 1 : extent->arg;
  }
  info->launch = launch;
  info->launch_n = 1 + e->steps.n + e->phases.n;
  info->in_shares = 0;         /* work-items take tasks in turn */
}

char *tg_tasks_scalars(LLVMModuleRef m, LLVMTargetMachineRef machine) {
  LLVMPassBuilderOptionsRef o = LLVMCreatePassBuilderOptions();
  LLVMErrorRef error = LLVMRunPasses(m,
                                     "function(scalarizer<load-store;variable-insert-extract>,dce)", machine, o);
  LLVMDisposePassBuilderOptions(o);
  return error ? LLVMGetErrorMessage(error) : NULL;
}
