/* SPDX-License-Identifier: MIT
 * Signed bytes by signed ones: x is u8(x ^ -128) - 128, so their sum is that of unsigned bytes, and -128 times the sum
 * of a column beside it;
 * the rows' operand is packed as u8 then. All of it wraps as the sum itself does. */
#include "gemm/sketch.h"

/* The sums of a block's columns, 64 at a time, or along the columns. */
static void sums(tg_builder *tg_b_, const tg_gemm_problem *p) {
  if (p->b_major == TG_GEMM_COLUMN) {
    tg_kit_word(tg_b_, "split q 64 as qo qi");
    tg_kit_word(tg_b_, "split qi 16 as qu ql");
    tg_kit_word(tg_b_, "unroll qu");
    tg_kit_word(tg_b_, "lane ql");
    return;
  }
  tg_kit_word(tg_b_, "split js 64 as jo ji");
  tg_kit_word(tg_b_, "split ji 16 as ju jl");
  tg_kit_word(tg_b_, "upcast ju");
  tg_kit_word(tg_b_, "lane jl");
}

TG_KERNEL(gemm_signed_bytes, M, N, K, lda, ldb, ldc) {
  const tg_gemm_problem *p = tg_user;
  tg_gemm_dword_knobs(tg_b_);
  tg_let(W, 16 * tg_c(NU) * tg_c(NB));
  tg_gemm_declare(tg_b_, p);
  tg_range(jc, ceildiv(N, W)) {
    tg_define_local(shift, i32, [W]);
    tg_range(js, min(W, N - jc*W)) tg(shift[js] = -128 * sum(q : K, i32(B[q, jc*W + js])));
    tg_range(i, M) tg_range(jj, min(W, N - jc * W))
        tg_gemm_store(tg_b_, p, "jc*W + jj",
                      p->alpha ? "sum(k : K, i32(u8(A[i,k] ^ -128)) * i32(B[k, jc*W + jj])) + alpha[0] * shift[jj]"
                               : "sum(k : K, i32(u8(A[i,k] ^ -128)) * i32(B[k, jc*W + jj])) + shift[jj]",
                      "");
  }
  tg_kit_word(tg_b_, "split jj %lld as cb cv", (long long)(16 * tg_c(NU)));
  sums(tg_b_, p);
  tg_gemm_byte_tiles(tg_b_, p, "jc");
}

const tg_gemm_sketch tg_gemm_signed_bytes = {
  .kernel = &gemm_signed_bytes,
  .takes = tg_gemm_takes_numbers,
  .first = tg_gemm_first_signed_bytes,
  .knobs = tg_gemm_knobs_panels,
};
