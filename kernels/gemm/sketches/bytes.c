/* SPDX-License-Identifier: MIT
 * u8 times i8, on a target with VPDPBUSD. */
#include "gemm/sketch.h"

TG_KERNEL(gemm_bytes, M, N, K, lda, ldb, ldc) {
  const tg_gemm_problem *p = tg_user;
  tg_gemm_dword_knobs(tg_b_);
  tg_gemm_product(tg_b_, p);
  tg_kit_word(tg_b_, "split j %lld as ct cv", (long long)(16 * tg_c(NU)));
  tg_kit_word(tg_b_, "split ct NB clip as cc cb");
  tg_gemm_byte_tiles(tg_b_, p, "cc");
}

const tg_gemm_sketch tg_gemm_bytes = {
  .kernel = &gemm_bytes,
  .takes = tg_gemm_takes_numbers,
  .propose = tg_gemm_propose_panels,
  .bound = tg_gemm_bound_dwords,
};
