/* SPDX-License-Identifier: MIT
 * bf16 times bf16 with a row-major C, on a target with VDPBF16PS, which multiplies pairs of terms. The instruction
 * treats subnormal numbers as zero, so the problem must allow that (flush). */
#include "gemm/sketch.h"

static bool takes(const tg_gemm_problem *p, const tg_target *t) {
  (void)t;
  return !p->bits && p->flush;
}

TG_KERNEL(gemm_pairs, M, N, K, lda, ldb, ldc) {
  const tg_gemm_problem *p = tg_user;
  tg_gemm_dword_knobs(tg_b_);
  if (p->c != p->acc) tg_kit_knob(tg_b_, "GB", 1, tg_gemm_nb);   /* blocks of rows in the buffer of partial sums */
  bool whole = p->k.hi <= tg_c(KC), waits = p->c != p->acc;
  tg_gemm_blocks_kind kind = whole ? GEMM_BLOCKS_WHOLE : waits ? GEMM_BLOCKS_WAITING : GEMM_BLOCKS;
  tg_gemm_product(tg_b_, p);
  tg_gemm_blocks(tg_b_, 'i', 'j', 16 * tg_c(NU), kind);
  tg_gemm_dword_tiles(tg_b_, p, whole ? "k" : "kr", whole ? "cc" : "kc",
                      kind == GEMM_BLOCKS_WAITING ? "" : tg_gemm_team_space(tg_b_));
  /* the last block of terms stores to C instead of the buffer, or applies the epilogue */
  if (!whole && (waits || p->epilogue)) tg_kit_word(tg_b_, "cut kc last");
  tg_gemm_ask(tg_b_, p, kind);
  tg_kit_word(tg_b_, "contract vdpbf16ps n=cl k=ki");
  tg_gemm_share(tg_b_, p, kind);
}

const tg_gemm_sketch tg_gemm_pairs = {
  .kernel = &gemm_pairs,
  .takes = takes,
  .propose = tg_gemm_propose_panels,
  .bound = tg_gemm_bound_dwords,
};
