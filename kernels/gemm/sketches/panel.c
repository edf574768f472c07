/* SPDX-License-Identifier: MIT
 * Products so large that it pays to pack the columns' operand. */
#include "gemm/sketch.h"

/* Panels of columns stay in L2 while the rows pass, which are read in place: k is contiguous in them. */
TG_KERNEL(gemm_panel, M, N, K, lda, ldb, ldc) {
  const tg_gemm_problem *p = tg_user;
  tg_kit_tile_knobs(tg_b_, p->acc, tg_gemm_mr);
  tg_kit_knob(tg_b_, "KC", 1024, tg_gemm_panel_kc);
  tg_kit_knob(tg_b_, "NB", 2, tg_gemm_nb);         /* panels of columns in a block */
  tg_kit_knob(tg_b_, "MB", 1024, tg_gemm_mb);      /* tiles of rows in a block */
  if (tg_gemm_waits(p)) tg_kit_knob(tg_b_, "GB", 1, tg_gemm_nb);   /* blocks of rows in the buffer of partial sums */
  tg_knob(TEAM, 0, 1, 2);
  tg_knob(NEXT, 0, 1);
  tg_knob(GROUPED, 0, 1);
  tg_knob(AHEAD, 0, 1);
  tg_gemm_panels(tg_b_, p, false);
}

const tg_gemm_sketch tg_gemm_panel = {
  .kernel = &gemm_panel,
  .takes = tg_gemm_takes_numbers,
  .propose = tg_gemm_propose_panels,
  .bound = tg_gemm_bound_panel,
};
