/* SPDX-License-Identifier: MIT
 * The matrix product in the words of a schedule, for the benchmarks: packed operands, a tile of 14 rows and 32 columns
 * in registers.
 *
 * sgemm_packed: blocks of 384 terms. For each, A in panels of 14 rows; B in blocks of 640 columns that the second cache
 * holds, in panels of 32.
 * A panel of A stays in the first cache while those of B pass, asked for eight terms ahead, and the tile of C while the
 * sum is taken; whole tiles of rows first,
 * then smaller ones for what is left.
 * microkernel: the innermost tile by itself, its operands packed by the caller. */
#include <tg/dsl.h>

TG_KERNEL(sgemm_packed, M, N, K) {
  tg_in(A, f32, [M, K]);
  tg_in(B, f32, [K, N]);
  tg_out(C, f32, [M, N]);
  tg_range(i, M) tg_range(j, N)
    tg(C[i,j] = sum(k : K, A[i,k] * B[k,j]));
  tg_opt(split j 32 as jt jv);
  tg_opt(split jt 20 clip as jc jr);
  tg_opt(split k 384 clip as kc kr);
  tg_opt(order kc jc i jr jv);
  tg_opt(split jv 16 as ju jl);
  tg_opt(stage A at kc as Ap[i/14, i%14, k] space=team);
  tg_opt(stage B at jc as Bp[j/32, k, j%32]);
  tg_opt(split i {14, 8, 4, 2, 1} as ir iu);
  tg_opt(order jr iu);
  tg_opt(upcast iu);
  tg_opt(upcast ju);
  tg_opt(lane jl);
  tg_opt(lane Bp.2 16);
  tg_opt(upcast Bp.2.0);
  tg_opt(lane Ap.2 16);
  tg_opt(split kr {4, 1} as ko ku);
  tg_opt(unroll ku);
  tg_opt(prefetch Bp at ku ahead 8);
  tg_opt(prefetch C at jr ahead 0 rw);
}

TG_KERNEL(microkernel, P, K) {
  tg_in(A, f32, [K, 14]);
  tg_in(B, f32, [P, K, 32]);
  tg_out(C, f32, [P, 14, 32]);
  tg_range(p, P) tg_range(i, 14) tg_range(j, 32)
    tg(C[p,i,j] = sum(k : K, A[k,i] * B[p,k,j]));
  tg_opt(split j 16 as ju jl);
  tg_opt(upcast i);
  tg_opt(upcast ju);
  tg_opt(lane jl);
  tg_opt(split k 4 as ko ku);
  tg_opt(unroll ku);
}
