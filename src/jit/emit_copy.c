/* SPDX-License-Identifier: MIT
 * Asynchronous copies from global to LOCAL memory, and waits for them (PTX ISA, cp.async). One instruction copies 4, 8
 * or 16 bytes per thread, with source and destination aligned to that size; those of 16 bytes bypass L1. With a source
 * size of 0 it reads nothing and writes zeros. If a buffer's alignment is too small for a wide copy, it becomes several
 * narrower ones, or a load and a store through registers. In each case the element has arrived after the wait. */
#include "jit/emit.h"

enum { NARROWEST = 4 };

static void copy_piece(tg_emitter *e, LLVMValueRef to, LLVMValueRef from, uint32_t bytes, uint32_t at,
                       LLVMValueRef there) {
  static const char *const names[2][3] = {
      {"llvm.nvvm.cp.async.ca.shared.global.4", "llvm.nvvm.cp.async.ca.shared.global.8",
       "llvm.nvvm.cp.async.cg.shared.global.16"},
      {"llvm.nvvm.cp.async.ca.shared.global.4.s", "llvm.nvvm.cp.async.ca.shared.global.8.s",
       "llvm.nvvm.cp.async.cg.shared.global.16.s"}};
  LLVMValueRef offset = LLVMConstInt(e->integer[32], at, 0), args[3] = {to, from, there};
  for (int i = 0; at && i < 2; i++) args[i] = LLVMBuildGEP2(e->b, e->integer[8], args[i], &offset, 1, "");
  tg_device_intrinsic(e, names[there != NULL][bytes / 8], NULL, 0, args, there ? 3 : 2);
}

bool tg_emit_copy(tg_emitter *e, const tg_uop *u) {
  const tg_uop *v = tg_stored(u), *there = tg_gate(v), *gate = tg_gate(u);
  uint32_t lanes = tg_emit_store_lanes(u), bytes = lanes * (uint32_t)tg_type_bytes(v->type), to_align, from_align;
  LLVMValueRef to = tg_emit_contiguous(e, u, lanes, &to_align), from = tg_emit_contiguous(e, v, lanes, &from_align),
               size = NULL;
  uint32_t piece = to_align < from_align ? to_align : from_align;
  if (piece > bytes) piece = bytes;
  if (piece < NARROWEST || !e->target->async_copy) {
    tg_emit_value_statement(e, v);
    return false;
  }
  if (there) {
    LLVMValueRef all = LLVMConstInt(e->integer[32], piece, 0);
    size = LLVMBuildSelect(e->b, tg_emit_get(e, there, 1), all, LLVMConstNull(e->integer[32]), "");
  }
  LLVMBasicBlockRef after = gate ? tg_emit_open_gate(e, tg_emit_get(e, gate, 1)) : NULL;
  for (uint32_t at = 0; at < bytes; at += piece) copy_piece(e, to, from, piece, at, size);
  if (after) tg_emit_close_gate(e, after);
  return true;
}

void tg_device_wait(tg_emitter *e, const tg_uop *u) {
  int64_t flying = tg_wait_flying(u);
  LLVMValueRef n = LLVMConstInt(e->integer[32], (uint64_t)flying, 0);
  if (!e->target->async_copy) return;
  tg_device_intrinsic(e, "llvm.nvvm.cp.async.commit.group", NULL, 0, NULL, 0);
  if (flying < TG_ALL_FLYING) tg_device_intrinsic(e, "llvm.nvvm.cp.async.wait.group", NULL, 0, &n, 1);
}
