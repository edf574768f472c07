/* SPDX-License-Identifier: MIT
 * Lanes at a small constant stride in memory: every other element, one colour of a picture, the real parts of complex
 * numbers. The range from the first to the last lane is loaded as a few vectors, and the lanes are picked out of these;
 * nothing outside of that range is accessed. Stores use masks, so that elements between the lanes are not changed. */
#include "jit/emit_address.h"

enum { MOST_LANES = 64, NONE = -1 };

uint32_t tg_emit_step(const tg_emitter *e, int64_t distance, uint32_t lanes) {
  int64_t step = distance < 0 ? -distance : distance;
  return !e->device && step > 1 && step <= TG_MOST_STEP && step < lanes && lanes <= MOST_LANES ? (uint32_t)step : 0;
}

/* Where vector number `part` starts. The vectors follow one another; each has as many elements as there are lanes. With
 * a mask the last one may reach past the last lane; without, it is moved back so that it ends there. */
static uint32_t start_of(uint32_t part, uint32_t step, uint32_t lanes, bool under_mask) {
  return part + 1 < step || under_mask ? part * lanes : (lanes - 1) * step + 1 - lanes;
}

/* Lane at[i] of a, or of b (numbers from `lanes` on); NONE: any value. */
static LLVMValueRef pick(tg_emitter *e, LLVMValueRef a, LLVMValueRef b, const int *at, uint32_t n) {
  LLVMValueRef order[MOST_LANES];
  for (uint32_t i = 0; i < n; i++)
    order[i] = at[i] == NONE ? LLVMGetUndef(e->integer[32]) : LLVMConstInt(e->integer[32], (uint64_t)at[i], 0);
  return LLVMBuildShuffleVector(e->b, a, b, LLVMConstVector(order, n), "");
}

/* Puts each lane of v that lies in this part, under a mask, to its place there. Other places get the first lane of
 * `none`, or, if that is NULL, the lane before: with any value there, LLVM takes the lanes for an extension by zeros
 * of a form that it then cannot select (docs/llvm.md, "Places between lanes"). */
static LLVMValueRef spread(tg_emitter *e, LLVMValueRef v, LLVMValueRef none, uint32_t part, uint32_t step,
                           uint32_t lanes) {
  uint32_t start = start_of(part, step, lanes, true);
  int at[MOST_LANES];
  for (uint32_t i = 0; i < lanes; i++)
    at[i] = none && (start + i) % step ? (int)lanes : (int)((start + i) / step);
  return pick(e, v, none ? none : LLVMGetPoison(LLVMTypeOf(v)), at, lanes);
}

static LLVMValueRef ahead(tg_emitter *e, LLVMValueRef pointer, LLVMTypeRef element, uint32_t by) {
  LLVMValueRef at = LLVMConstInt(e->integer[64], by, 0);
  return by ? LLVMBuildGEP2(e->b, element, pointer, &at, 1, "") : pointer;
}

LLVMValueRef tg_emit_load_steps(tg_emitter *e, uint32_t step, LLVMValueRef pointer, LLVMValueRef mask,
                                LLVMValueRef other, uint32_t align) {
  LLVMTypeRef type = LLVMTypeOf(other);
  uint32_t lanes = LLVMGetVectorSize(type);
  LLVMValueRef all = NULL;
  for (uint32_t part = 0; part < step; part++) {
    uint32_t start = start_of(part, step, lanes, mask != NULL);
    int at[MOST_LANES];
    LLVMValueRef p = ahead(e, pointer, LLVMGetElementType(type), start), v;
    if (mask)
      v = tg_emit_masked_load(e, p, spread(e, mask, LLVMConstNull(LLVMTypeOf(mask)), part, step, lanes),
                              LLVMGetPoison(type), align);
    else LLVMSetAlignment(v = LLVMBuildLoad2(e->b, type, p, ""), align);
    for (uint32_t l = 0; l < lanes; l++)
      at[l] = l * step < start           ? part ? (int)l : NONE
              : l * step < start + lanes ? (int)(l * step - start + (part ? lanes : 0))
                                         : NONE;
    all = part ? pick(e, all, v, at, lanes) : pick(e, v, LLVMGetPoison(type), at, lanes);
  }
  return mask ? LLVMBuildSelect(e->b, mask, all, other, "") : all;
}

void tg_emit_store_steps(tg_emitter *e, uint32_t step, LLVMValueRef pointer, LLVMValueRef mask, LLVMValueRef value,
                         uint32_t align) {
  LLVMTypeRef type = LLVMTypeOf(value);
  uint32_t lanes = LLVMGetVectorSize(type);
  LLVMTypeRef bits = LLVMVectorType(e->integer[1], lanes);
  if (!mask) mask = LLVMConstAllOnes(bits);
  for (uint32_t part = 0; part < step; part++) {
    LLVMValueRef open = spread(e, mask, LLVMConstNull(bits), part, step, lanes);
    tg_emit_masked_store(e, ahead(e, pointer, LLVMGetElementType(type), start_of(part, step, lanes, true)), open,
                         spread(e, value, NULL, part, step, lanes), align);
  }
}
