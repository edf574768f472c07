/* SPDX-License-Identifier: MIT
 * Products so large that it pays to pack both operands. */
#include "gemm/sketch.h"

/* Both operands are packed in panels: a panel of rows stays in L1 while panels of columns pass, from L2. */
TG_KERNEL(gemm_packed, M, N, K, lda, ldb, ldc) {
  const tg_gemm_problem *p = tg_user;
  tg_kit_tile_knobs(tg_b_, p->acc, tg_gemm_mr);
  tg_kit_knob(tg_b_, "KC", 256, tg_gemm_packed_kc);
  tg_kit_knob(tg_b_, "NB", 16, tg_gemm_nb);
  tg_kit_knob(tg_b_, "MB", 16, tg_gemm_mb);
  if (tg_gemm_waits(p)) tg_kit_knob(tg_b_, "GB", 1, tg_gemm_nb);   /* blocks of rows in the buffer of partial sums */
  tg_knob(TEAM, 0, 1, 2);
  tg_knob(NEXT, 0, 1);
  tg_knob(GROUPED, 0, 1);
  tg_knob(SIDE, 0, 1);             /* rows of a tile side by side: lanes of a vector, where multiply-adds take those */
  tg_gemm_panels(tg_b_, p, true);
}

const tg_gemm_sketch tg_gemm_packed = {
  .kernel = &gemm_packed,
  .takes = tg_gemm_takes_numbers,
  .propose = tg_gemm_propose_panels,
  .bound = tg_gemm_bound_packed,
};
