/* SPDX-License-Identifier: MIT
 * i8 times i8, on a target with VPDPBUSD, which wants u8 times i8. An i8 x equals u8(x ^ -128) - 128, so
 * sum(a * b) = sum(u8(a ^ -128) * b) - 128 * sum(b). The rows' operand is packed as u8, and sum(b) of each column is
 * computed beside it. Both sums wrap modulo 2^32 as the product itself does. */
#include "gemm/sketch.h"

/* Words for the sums of a block's columns: 64 columns at a time, or, if B is column major, along each column. */
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
  .propose = tg_gemm_propose_panels,
  .bound = tg_gemm_bound_dwords,
};
