/* SPDX-License-Identifier: MIT
 * Lanes at a stride that is not a small constant: rows whose stride is a run-time parameter, columns of a matrix. Each
 * lane is loaded or stored as a scalar on processors whose gathers and scatters are at best equally fast, and whose
 * gathers wait for one lane's L1 miss after another (Zen 5, 16 lanes four elements apart, from beyond L2: gather 20 ns,
 * scalar loads 6; scatter 20, scalar stores 7). */
#include "jit/emit_address.h"

/* lanes addressed from one pointer: 0, 1, 2 and 3 distances from it, of which only the last takes another register */
enum { GROUP = 4 };

/* at: lane 0 of the group; by[i]: from there to lane i; group: to the next group */
typedef struct { tg_emitter *e; LLVMTypeRef element; LLVMValueRef at, by[GROUP], group; } walk;

/* The distance does not change in loops, so LLVM hoists its multiples. */
static walk walk_from(tg_emitter *e, LLVMTypeRef element, LLVMValueRef pointer, LLVMValueRef distance) {
  walk w = {.e = e, .element = element, .at = pointer};
  for (uint32_t i = 1; i <= GROUP; i++)
    *(i < GROUP ? &w.by[i] : &w.group) = LLVMBuildMul(e->b, distance, LLVMConstInt(e->integer[64], i, 0), "");
  return w;
}

/* The address of lane i. Call for i = 0, 1, 2, .. in order. */
static LLVMValueRef place_of(walk *w, uint32_t i) {
  if (i && i % GROUP == 0) w->at = LLVMBuildGEP2(w->e->b, w->element, w->at, &w->group, 1, "");
  return i % GROUP ? LLVMBuildGEP2(w->e->b, w->element, w->at, &w->by[i % GROUP], 1, "") : w->at;
}

static LLVMValueRef lane(tg_emitter *e, uint32_t i) { return LLVMConstInt(e->integer[32], i, 0); }

LLVMValueRef tg_emit_load_apart(tg_emitter *e, LLVMTypeRef type, LLVMValueRef pointer, LLVMValueRef distance,
                                uint32_t align) {
  LLVMValueRef all = LLVMGetPoison(type);
  walk w = walk_from(e, LLVMGetElementType(type), pointer, distance);
  for (uint32_t i = 0; i < LLVMGetVectorSize(type); i++) {
    LLVMValueRef one = LLVMBuildLoad2(e->b, w.element, place_of(&w, i), "");
    LLVMSetAlignment(one, align);
    all = LLVMBuildInsertElement(e->b, all, one, lane(e, i), "");
  }
  return all;
}

void tg_emit_store_apart(tg_emitter *e, LLVMValueRef pointer, LLVMValueRef distance, LLVMValueRef value,
                         uint32_t align) {
  LLVMTypeRef type = LLVMTypeOf(value);
  walk w = walk_from(e, LLVMGetElementType(type), pointer, distance);
  for (uint32_t i = 0; i < LLVMGetVectorSize(type); i++) {
    LLVMValueRef p = place_of(&w, i);
    LLVMSetAlignment(LLVMBuildStore(e->b, LLVMBuildExtractElement(e->b, value, lane(e, i), ""), p), align);
  }
}
