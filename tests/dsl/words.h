/* SPDX-License-Identifier: MIT
 * Kernels that use every macro, compiled as C and as C++ in an environment full of macros that other headers define. */
#ifdef __cplusplus
#include <complex>
#else
#include <complex.h>
#include <stdbool.h>
#endif
#include "tg/dsl.h"
#define N 17
#ifndef I
#define I wrong(1.0)
#endif
#undef linux
#define linux 1
#ifndef __cplusplus
#undef bool
#define bool int
#endif
#define min(a, b) ((a) < (b) ? (a) : (b))
#define max(a, b) ((a) > (b) ? (a) : (b))
#define sum wrong
#define f32 float
#define K 3

TG_KERNEL(words_matmul, M, N, K) {
  tg_knob(BM, 16, 8);
  tg_in(A, f32, [M, K]);
  tg_in(B, f32, [K, N]);
  tg_in(idx, i32 in 0..N-1, [N], [1]);
  tg_out(C, f32, [M, N]);
  tg_out(I, f32, [M], partial);
  tg_inout(linux, i32, [N]);
  tg_require(M % BM == 0);
  tg_opt(split j 16 as jo jl);
  tg_def(gelu(x) = 0.5f*x*(1 + erf(x*0.70710678f)));
  tg_range(i, M) tg_range(j, N)
    tg(C[i,j] = gelu(sum(k : K, A[i,k] * B[k,j])));
  tg_range(I2, M) {
    tg_define_reg(min, f32, [4]);
    tg_define_reg(flags, bool, [4]);
    tg_define_local(tile, f16, [BM, 2]);
    tg_if(I2 < 3) tg_if(I2 < 2) {
      tg(min[0] = max(k : K, min(A[I2,k], 1)));
      tg(flags[0] = min[0] < 2);
      tg(I[I2] = min[0]);
    }
    tg_range(q, N, unroll) tg(atomic linux[idx[q]] += 1);
    tg_barrier();
  }
}

TG_PROC(words_fill, dst, v, n) {
  tg_range(i, n) tg(dst[i] = v);
}

TG_KERNEL(words_values, M) {
  const int *user = static_cast_to_int(tg_user);
  tg_out(S, f32, [M]);
  tg_out(T, i64, [M]);
  tg_let(three, *user);
  tg_let(half, 0.5);
  tg_let(quarter, 0.25f);
  tg_let(large, 5000000000LL);
  tg_let(big, 7u);
  tg_splice(score, "s * 2 + b", "s, b");
  tg_call(words_fill, S, half * three, M);
  for (int n = 0; n < 3; n++) tg(S[0] = S[0] + quarter);
  if (tg_c(M) > 4) tg(S[1] = score(S[0], 1.0f));
  tg_range(i, M) tg(T[i] = large + big);
}

TG_KERNEL(words_none, ) {
  tg_out(S, f32, [4]);
  tg_range(i, 4) tg(S[i] = 1);
}
