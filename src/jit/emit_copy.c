/* SPDX-License-Identifier: MIT
 * Asynchronous copies from global to LOCAL memory, and waits for them (PTX ISA, cp.async). One instruction copies 4, 8
 * or 16 bytes per thread, with source and destination aligned to that size; those of 16 bytes bypass L1. With a source
 * size of 0 it reads nothing and writes zeros. If a buffer's alignment is too small for a wide copy, it becomes several
 * narrower ones, or a load and a store through registers. In each case the element has arrived after the wait.
 *
 * A copy is put off until a statement with another effect, so that copies with one gate stand in one branch, where
 * their addresses differ in constants. Nothing before the next wait may depend on them. */
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

enum { MOST_CONDITIONS = 16 };

/* The conditions that `there` joins, but for that of the gate that stands around the copy already; false: too many. */
static bool conditions_of(const tg_uop *there, const tg_uop *gate, const tg_uop **list, uint32_t *n) {
  if (there == gate) return true;
  if (there->op == TG_OP_AND && there->type == TG_BOOL)
    return conditions_of(there->src[0], gate, list, n) && conditions_of(there->src[1], gate, list, n);
  if (*n == MOST_CONDITIONS) return false;
  list[(*n)++] = there;
  return true;
}

static bool is_bound(const tg_uop *u, uint32_t side) {
  return u && u->op == TG_OP_LT && u->lanes == 1 && u->src[side]->op == TG_OP_CONST && tg_is_int(u->src[side]->type);
}

/* lo < x and x < hi in one comparison without a sign: x - (lo + 1) < hi - (lo + 1). NULL: there is no such pair. */
static LLVMValueRef between(tg_emitter *e, const tg_uop **list, uint32_t n, uint32_t i) {
  for (uint32_t k = 0; is_bound(list[i], 0) && k < n; k++) {
    const tg_uop *x = list[i]->src[1];
    int64_t from = list[i]->src[0]->arg + 1;
    if (k == i || !is_bound(list[k], 1) || list[k]->src[0] != x || list[k]->src[1]->arg <= from) continue;
    LLVMTypeRef type = LLVMTypeOf(tg_emit_get(e, x, 1));
    LLVMValueRef at = tg_emit_get(e, x, 1), low = LLVMConstInt(type, (uint64_t)from, 1),
                 size = LLVMConstInt(type, (uint64_t)(list[k]->src[1]->arg - from), 1);
    if (from) at = LLVMBuildSub(e->b, at, low, "");
    list[k] = NULL;
    return LLVMBuildICmp(e->b, LLVMIntULT, at, size, "");
  }
  return NULL;
}

/* What of `there` is not said by the gate that stands around the copy already; NULL: nothing. */
static LLVMValueRef beyond(tg_emitter *e, const tg_uop *there, const tg_uop *gate) {
  const tg_uop *list[MOST_CONDITIONS];
  uint32_t n = 0;
  LLVMValueRef all = NULL, pair[MOST_CONDITIONS];
  if (!there) return NULL;
  if (!conditions_of(there, gate, list, &n)) return tg_emit_get(e, there, 1);
  for (uint32_t i = 0; i < n; i++) pair[i] = list[i] ? between(e, list, n, i) : NULL;
  for (uint32_t i = 0; i < n; i++) {
    LLVMValueRef one = pair[i] ? pair[i] : list[i] ? tg_emit_get(e, list[i], 1) : NULL;
    if (one) all = all ? LLVMBuildAnd(e->b, all, one, "") : one;
  }
  return all;
}

/* The pointer with its constant added here: only in the block of its use does it become part of the instruction. */
static LLVMValueRef constant_here(tg_emitter *e, LLVMValueRef pointer) {
  if (!LLVMIsAGetElementPtrInst(pointer) || LLVMGetNumOperands(pointer) != 2) return pointer;
  LLVMValueRef by = LLVMGetOperand(pointer, 1);
  if (!LLVMIsAConstantInt(by)) return pointer;
  return LLVMBuildGEP2(e->b, LLVMGetGEPSourceElementType(pointer), LLVMGetOperand(pointer, 0), &by, 1, "");
}

void tg_emit_copies(tg_emitter *e) {
  if (!e->copies.n) return;
  LLVMValueRef gate = e->copies.data[0].gate;
  LLVMBasicBlockRef after = gate ? tg_emit_open_gate(e, gate) : NULL;
  for (uint32_t i = 0; i < e->copies.n; i++) {
    const emit_copy *c = &e->copies.data[i];
    LLVMValueRef to = constant_here(e, c->to), from = constant_here(e, c->from);
    for (uint32_t at = 0; at < c->bytes; at += c->piece) copy_piece(e, to, from, c->piece, at, c->size);
  }
  if (after) tg_emit_close_gate(e, after);
  e->copies.n = 0;
}

bool tg_emit_copy(tg_emitter *e, const tg_uop *u) {
  const tg_uop *v = tg_stored(u), *there = tg_gate(v), *gate = tg_gate(u);
  uint32_t lanes = tg_emit_store_lanes(u), bytes = lanes * (uint32_t)tg_type_bytes(v->type), to_align, from_align;
  LLVMValueRef to = tg_emit_contiguous(e, u, lanes, &to_align), from = tg_emit_contiguous(e, v, lanes, &from_align),
               size = NULL;
  uint32_t piece = to_align < from_align ? to_align : from_align;
  if (piece > bytes) piece = bytes;
  if (piece < NARROWEST || !e->target->async_copy) {
    tg_emit_copies(e);
    tg_emit_value_statement(e, v);
    return false;
  }
  LLVMValueRef left = beyond(e, there, gate), all = LLVMConstInt(e->integer[32], piece, 0);
  if (left) size = LLVMBuildSelect(e->b, left, all, LLVMConstNull(e->integer[32]), "");
  LLVMValueRef open = gate ? tg_emit_get(e, gate, 1) : NULL;
  if (e->copies.n && e->copies.data[0].gate != open) tg_emit_copies(e);
  tg_push(&e->j->env, &e->copies, ((emit_copy){to, from, size, open, piece, bytes}));
  return true;
}

void tg_device_wait(tg_emitter *e, const tg_uop *u) {
  int64_t flying = tg_wait_flying(u);
  LLVMValueRef n = LLVMConstInt(e->integer[32], (uint64_t)flying, 0);
  if (!e->target->async_copy) return;
  tg_device_intrinsic(e, "llvm.nvvm.cp.async.commit.group", NULL, 0, NULL, 0);
  if (flying < TG_ALL_FLYING) tg_device_intrinsic(e, "llvm.nvvm.cp.async.wait.group", NULL, 0, &n, 1);
}
