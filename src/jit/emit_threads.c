/* SPDX-License-Identifier: MIT
 * Operations of several GPU threads together: BARRIER and SHUFFLE. All threads of the workgroup, or all lanes of the
 * warp, must reach them. */
#include "jit/emit.h"

static LLVMValueRef word(tg_emitter *e, int64_t v) { return LLVMConstInt(e->integer[32], (uint64_t)v, 1); }

/* ---- BARRIER ---- */

static void amd_fence(tg_emitter *e, LLVMAtomicOrdering order) {
  LLVMValueRef f = LLVMBuildFence(e->b, order, 0, "");
#if TG_LLVM_SCOPES
  LLVMSetAtomicSyncScopeID(f, LLVMGetSyncScopeID(e->c, "workgroup", 9));
#else
  (void)f;
#endif
}

/* It also orders accesses to LOCAL and GLOBAL memory; a workgroup of one warp needs only that. */
void tg_device_barrier(tg_emitter *e) {
  bool one_warp = tg_device_warps(e) == 1;
  LLVMValueRef all = word(e, one_warp ? -1 : 0);
  for (uint32_t b = 0; b < e->j->buffers.n; b++) e->buffers[b].unseen = false;
  if (!tg_device_warps(e)) return;
  if (e->target->arch == TG_ARCH_AMDGPU) {
    amd_fence(e, LLVMAtomicOrderingRelease);
    tg_device_intrinsic(e, one_warp ? "llvm.amdgcn.wave.barrier" : "llvm.amdgcn.s.barrier", NULL, 0, NULL, 0);
    amd_fence(e, LLVMAtomicOrderingAcquire);
  } else if (one_warp) tg_device_intrinsic(e, "llvm.nvvm.bar.warp.sync", NULL, 0, &all, 1);
  else if (LLVMLookupIntrinsicID("llvm.nvvm.barrier.cta.sync.aligned.all", 38))
    tg_device_intrinsic(e, "llvm.nvvm.barrier.cta.sync.aligned.all", NULL, 0, &all, 1);
  else tg_device_intrinsic(e, "llvm.nvvm.barrier0", NULL, 0, NULL, 0);
}

/* ---- SHUFFLE: words of 32 bits from lane to lane ---- */

/* c, if the index is (own lane) ^ c with a constant c; else -1. */
static int64_t exchanged(const tg_emitter *e, const tg_uop *lane, const tg_uop *index) {
  if (index->op != TG_OP_XOR) return -1;
  const tg_uop *a = index->src[0], *b = index->src[1];
  if (a->op == TG_OP_CONST) a = index->src[1], b = index->src[0];
  while (a->op == TG_OP_CAST) a = a->src[0];
  return a == lane && b->op == TG_OP_CONST && b->arg > 0 && b->arg < e->target->lanes ? b->arg : -1;
}

/* The word of lane ^ c, without an address. DPP and permlanex16 do not go through local memory's crossbar, but they
 * have only some c: below 4, 7, 15, on RDNA all up to 16. ds_swizzle has all below 32. NULL: c is 32 or more. */
static LLVMValueRef amd_exchange(tg_emitter *e, LLVMValueRef v, int64_t c) {
  enum { ROW_MIRROR = 0x140, ROW_HALF_MIRROR = 0x141, ROW_XMASK = 0x160 };
  LLVMTypeRef type = e->integer[32];
  bool rdna = e->target->lanes == 32;
  int64_t control = c < 4            ? c | (1 ^ c) << 2 | (2 ^ c) << 4 | (3 ^ c) << 6
                    : c == 15        ? ROW_MIRROR
                    : c == 7         ? ROW_HALF_MIRROR
                    : c < 16 && rdna ? ROW_XMASK | c
                                     : -1;
  if (control >= 0) {
    LLVMValueRef args[6] = {v, v, word(e, control), word(e, 15), word(e, 15), LLVMConstInt(e->integer[1], 1, 0)};
    return tg_device_intrinsic(e, "llvm.amdgcn.update.dpp", &type, 1, args, 6);
  }
  if (c == 16 && rdna) {
    LLVMValueRef no = LLVMConstNull(e->integer[1]),
                 args[6] = {v, v, word(e, 0x76543210), word(e, (int64_t)0xfedcba98), no, no};
    return tg_device_intrinsic(e, "llvm.amdgcn.permlanex16", &type, 1, args, 6);
  }
  if (c < 32) {
    LLVMValueRef args[2] = {v, word(e, c << 10 | 0x1f)};
    return tg_device_intrinsic(e, "llvm.amdgcn.ds.swizzle", NULL, 0, args, 2);
  }
  return NULL;
}

static LLVMValueRef word_from(tg_emitter *e, LLVMValueRef v, LLVMValueRef lane, int64_t c) {
  LLVMTypeRef type = e->integer[32];
  if (e->target->arch == TG_ARCH_NVPTX) {
    LLVMValueRef bfly[4] = {word(e, -1), v, c >= 0 ? word(e, c) : lane, word(e, 31)};
    return tg_device_intrinsic(e, c >= 0 ? "llvm.nvvm.shfl.sync.bfly.i32" : "llvm.nvvm.shfl.sync.idx.i32", NULL, 0,
                               bfly, 4);
  }
  LLVMValueRef r = c >= 0 ? amd_exchange(e, v, c) : NULL;
  if (r) return r;
  if (LLVMIsAConstantInt(lane)) {
    LLVMValueRef args[2] = {v, lane};
    return tg_device_intrinsic(e, "llvm.amdgcn.readlane", &type, 1, args, 2);
  }
  LLVMValueRef args[2] = {LLVMBuildShl(e->b, lane, word(e, 2), ""), v};
  return tg_device_intrinsic(e, "llvm.amdgcn.ds.bpermute", NULL, 0, args, 2);
}

static LLVMValueRef element_from(tg_emitter *e, tg_type t, LLVMValueRef v, LLVMValueRef lane, int64_t c) {
  unsigned bits = (unsigned)tg_type_bits(t);
  LLVMTypeRef type = LLVMTypeOf(v), integer = e->integer[bits], half = e->integer[32];
  LLVMValueRef i = type == integer ? v : LLVMBuildBitCast(e->b, v, integer, ""), r;
  if (bits == 64) {
    LLVMValueRef by = LLVMConstInt(integer, 32, 0);
    LLVMValueRef low = word_from(e, LLVMBuildTrunc(e->b, i, half, ""), lane, c),
                 high = word_from(e, LLVMBuildTrunc(e->b, LLVMBuildLShr(e->b, i, by, ""), half, ""), lane, c);
    r = LLVMBuildOr(e->b, LLVMBuildZExt(e->b, low, integer, ""),
                    LLVMBuildShl(e->b, LLVMBuildZExt(e->b, high, integer, ""), by, ""), "");
  } else {
    r = word_from(e, bits == 32 ? i : LLVMBuildZExt(e->b, i, half, ""), lane, c);
    if (bits < 32) r = LLVMBuildTrunc(e->b, r, integer, "");
  }
  return type == integer ? r : LLVMBuildBitCast(e->b, r, type, "");
}

LLVMValueRef tg_device_shuffle(tg_emitter *e, const tg_uop *u) {
  uint32_t n = u->lanes;
  LLVMValueRef v = tg_emit_get(e, u->src[0], n), index = tg_emit_get(e, u->src[2], u->src[2]->lanes),
               all = n > 1 ? LLVMGetPoison(LLVMTypeOf(v)) : NULL;
  int64_t c = exchanged(e, u->src[1], u->src[2]);
  for (uint32_t i = 0; i < n; i++) {
    LLVMValueRef at = word(e, i), one = n > 1 ? LLVMBuildExtractElement(e->b, v, at, "") : v;
    LLVMValueRef lane = u->src[2]->lanes > 1 ? LLVMBuildExtractElement(e->b, index, at, "") : index;
    if (LLVMTypeOf(lane) == e->integer[64]) lane = LLVMBuildTrunc(e->b, lane, e->integer[32], "");
    lane = LLVMBuildAnd(e->b, lane, word(e, e->target->lanes - 1), "");   /* modulo the lanes, a power of two */
    one = element_from(e, u->type, one, lane, c);
    all = n > 1 ? LLVMBuildInsertElement(e->b, all, one, at, "") : one;
  }
  return all;
}
