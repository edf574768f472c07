/* SPDX-License-Identifier: MIT
 * Any product, without words: the compiler's heuristic chooses the schedule. */
#include "gemm/sketch.h"

static bool takes(const tg_gemm_problem *p, const tg_target *t) {
  (void)p, (void)t;
  return true;
}

TG_KERNEL(gemm_plain, M, N, K, lda, ldb, ldc) { tg_gemm_product(tg_b_, tg_user); }

const tg_gemm_sketch tg_gemm_plain = {.kernel = &gemm_plain, .takes = takes, .propose = tg_gemm_propose_plain};
