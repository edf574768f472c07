/* SPDX-License-Identifier: MIT
 * How many lanes a register of a value has: from its type, from what its operands were cut to, and from the accesses
 * that use it. */
#include "jit/emit_registers.h"

enum { TILE_BITS = 8 * 1024 };

uint32_t tg_cut_lanes(LLVMTypeRef t) { return LLVMGetTypeKind(t) == LLVMVectorTypeKind ? LLVMGetVectorSize(t) : 1; }

uint32_t tg_cut_bits(const cutter *c, LLVMTypeRef element) {
  switch (LLVMGetTypeKind(element)) {
  case LLVMIntegerTypeKind: return LLVMGetIntTypeWidth(element);
  case LLVMHalfTypeKind: case LLVMBFloatTypeKind: return 16;
  case LLVMFloatTypeKind: return 32;
  case LLVMDoubleTypeKind: case LLVMPointerTypeKind: return 64;
  default: tg_bug(&c->e->j->env, "a vector of a type that registers do not hold");
  }
}

/* Lanes of a register. A mask has as many as a vector of 32-bit elements, if its uses do not say otherwise. */
uint32_t tg_cut_room(const cutter *c, LLVMTypeRef element) {
  return c->e->target->vector_bytes * 8 / (is_bit(element) ? 32 : tg_cut_bits(c, element));
}

LLVMValueRef tg_cut_splat_scalar(LLVMValueRef v) {
  if (!LLVMIsAShuffleVectorInst(v)) return NULL;
  for (uint32_t i = 0; i < LLVMGetNumMaskElements(v); i++)
    if (LLVMGetMaskValue(v, i) != 0) return NULL;
  LLVMValueRef one = LLVMGetOperand(v, 0);
  if (!LLVMIsAInsertElementInst(one)) return NULL;
  LLVMValueRef at = LLVMGetOperand(one, 2);
  return LLVMIsAConstantInt(at) && !LLVMConstIntGetZExtValue(at) ? LLVMGetOperand(one, 1) : NULL;
}

/* ---- tiles ---- */

bool tg_cut_is_call_of(LLVMValueRef v, const char *prefix) {
  if (!LLVMIsACallInst(v)) return false;
  size_t n;
  const char *name = LLVMGetValueName2(LLVMGetCalledValue(v), &n);
  return n >= strlen(prefix) && !memcmp(name, prefix, strlen(prefix));
}

/* Do all uses of v lead into a tile register? */
static bool feeds_tile(LLVMValueRef v) {
  LLVMUseRef use = LLVMGetFirstUse(v);
  for (; use; use = LLVMGetNextUse(use)) {
    LLVMValueRef u = LLVMGetUser(use);
    if (!tg_cut_is_call_of(u, "llvm.x86.cast.vector.to.tile") && !(LLVMIsABitCastInst(u) && feeds_tile(u))
        && !((LLVMIsAShuffleVectorInst(u) || LLVMIsAInsertElementInst(u)) && feeds_tile(u))) return false;
  }
  return LLVMGetFirstUse(v) != NULL;
}

bool tg_cut_is_tile(const cutter *c, LLVMValueRef v) {
  LLVMTypeRef t = LLVMTypeOf(v);
  if (!c->e->target->tile_i8 || tg_cut_lanes(t) * tg_cut_bits(c, element_of(t)) != TILE_BITS) return false;
  if (tg_cut_is_call_of(v, "llvm.x86.cast.tile.to.vector")) return true;
  if (LLVMIsABitCastInst(v) && tg_cut_is_call_of(LLVMGetOperand(v, 0), "llvm.x86.cast.tile.to.vector")) return true;
  return feeds_tile(v);
}

/* ---- by uses and operands ---- */

uint32_t tg_cut_room_of_addresses(cutter *c, LLVMValueRef v) {
  uint32_t room = UINT32_MAX;
  for (LLVMUseRef use = LLVMGetFirstUse(v); use; use = LLVMGetNextUse(use)) {
    LLVMValueRef u = LLVMGetUser(use);
    masked_access kind = LLVMIsACallInst(u) ? tg_cut_masked_kind(u) : MASKED_NONE;
    if (kind == MASKED_GATHER || kind == MASKED_SCATTER)
      room = least(room, tg_cut_room(c, LLVMGetElementType(tg_cut_masked_type(u, kind))));
  }
  return room == UINT32_MAX ? tg_cut_room(c, c->e->ptr) : room;
}

/* A sign or zero extension of lane offsets that only gathers use becomes part of them: the instructions take narrow
 * offsets. */
static uint32_t room_of_extension(cutter *c, LLVMValueRef v) {
  uint32_t room = UINT32_MAX;
  for (LLVMUseRef use = LLVMGetFirstUse(v); use; use = LLVMGetNextUse(use)) {
    LLVMValueRef u = LLVMGetUser(use);
    if (!LLVMIsAGetElementPtrInst(u) || tg_cut_lanes(LLVMTypeOf(u)) == 1) return 0;
    room = least(room, tg_cut_room_of_addresses(c, u));
  }
  return room == UINT32_MAX ? 0 : least(room, tg_cut_room(c, LLVMGetElementType(LLVMTypeOf(LLVMGetOperand(v, 0)))));
}

uint32_t tg_cut_asked_by_mask(cutter *c, LLVMValueRef v, uint32_t lanes) {
  const registers *t = tg_cut_find(c, v);
  return LLVMIsConstant(v) || tg_cut_splat_scalar(v) || !LLVMIsAInstruction(v) ? UINT32_MAX : t ? t->per : lanes;
}

uint32_t tg_cut_room_of_mask(cutter *c, LLVMValueRef mask, uint32_t depth) {
  enum { DEEPEST = 4 };
  uint32_t room = UINT32_MAX, all = tg_cut_room(c, c->e->integer[1]);
  for (LLVMUseRef use = LLVMGetFirstUse(mask); use && depth < DEEPEST; use = LLVMGetNextUse(use)) {
    LLVMValueRef u = LLVMGetUser(use);
    masked_access kind = LLVMIsACallInst(u) ? tg_cut_masked_kind(u) : MASKED_NONE;
    LLVMTypeRef element = element_of(kind ? tg_cut_masked_type(u, kind) : LLVMTypeOf(u));
    if (kind || LLVMIsASelectInst(u)) room = least(room, is_bit(element) ? room : tg_cut_room(c, element));
    else if (is_bit(element)) room = least(room, tg_cut_room_of_mask(c, u, depth + 1));
  }
  return room == UINT32_MAX ? all : room;
}

uint32_t tg_cut_room_of_lanewise(cutter *c, LLVMValueRef v) {
  LLVMOpcode op = LLVMGetInstructionOpcode(v);
  LLVMTypeRef result = element_of(LLVMTypeOf(v));
  uint32_t lanes = 1, room = is_bit(result) ? UINT32_MAX : tg_cut_room(c, result), by_masks = UINT32_MAX;
  if (op == LLVMGetElementPtr) room = tg_cut_room_of_addresses(c, v);
  if (op == LLVMSExt || op == LLVMZExt) {
    uint32_t extended = room_of_extension(c, v);
    if (extended) return extended;
  }
  for (int i = 0; i < LLVMGetNumOperands(v); i++) {
    LLVMValueRef operand = LLVMGetOperand(v, (unsigned)i);
    LLVMTypeRef type = LLVMTypeOf(operand);
    if (LLVMGetTypeKind(type) != LLVMVectorTypeKind) continue;
    lanes = LLVMGetVectorSize(type);
    if (is_bit(LLVMGetElementType(type))) by_masks = least(by_masks, tg_cut_asked_by_mask(c, operand, lanes));
    else if (op == LLVMGetElementPtr) room = least(room, tg_cut_find(c, operand) ? tg_cut_find(c, operand)->per : room);
    else room = least(room, tg_cut_room(c, LLVMGetElementType(type)));
  }
  if (room == UINT32_MAX) room = by_masks;
  return room == UINT32_MAX ? tg_cut_room_of_mask(c, v, 0) : room;
}

uint32_t tg_cut_room_of_load(cutter *c, LLVMValueRef v, uint32_t lanes) {
  uint32_t room = tg_cut_room(c, LLVMGetElementType(LLVMTypeOf(v))), parts = lanes;
  if (lanes > room) return room;
  for (LLVMUseRef use = LLVMGetFirstUse(v); use; use = LLVMGetNextUse(use)) {
    LLVMValueRef u = LLVMGetUser(use);
    LLVMOpcode op = LLVMIsACastInst(u) ? LLVMGetInstructionOpcode(u) : LLVMLoad;
    if (op != LLVMSExt && op != LLVMZExt && op != LLVMFPExt && op != LLVMSIToFP && op != LLVMUIToFP) return room;
    if (op == LLVMSExt && room_of_extension(c, u)) return room;
    parts = least(parts, tg_cut_room(c, LLVMGetElementType(LLVMTypeOf(u))));
  }
  return parts;
}
