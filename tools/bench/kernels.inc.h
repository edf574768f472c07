/* SPDX-License-Identifier: MIT
 * The kernels that the benchmarks and the demo run, written in the language. Included where they are used: a
 * TG_KERNEL defines a static const. */
#include <tg/dsl.h>

TG_KERNEL(matmul, M, N, K) {
  tg_in(A, f32, [M, K]);
  tg_in(B, f32, [K, N]);
  tg_out(C, f32, [M, N]);
  tg_range(i, M) tg_range(j, N)
    tg(C[i,j] = sum(k : K, A[i,k] * B[k,j]));
}

TG_KERNEL(copy, N) {
  tg_in(x, f32, [N]);
  tg_out(y, f32, [N]);
  tg_range(i, N) tg(y[i] = x[i]);
}

TG_KERNEL(axpy, N) {
  tg_in(a, f32, [1]);
  tg_in(x, f32, [N]);
  tg_inout(y, f32, [N]);
  tg_range(i, N) tg(y[i] += a[0] * x[i]);
}

TG_KERNEL(total, N) {
  tg_in(x, f32, [N]);
  tg_out(s, f32, [1]);
  tg(s[0] = sum(i : N, x[i]));
}

TG_KERNEL(softmax, R, N) {
  tg_in(x, f32, [R, N]);
  tg_out(y, f32, [R, N]);
  tg_range(i, R) {
    tg_define_reg(e, f32, [N]);
    tg_range(j, N) tg(e[j] = exp(x[i,j] - max(k : N, x[i,k])));
    tg_range(j, N) tg(y[i,j] = e[j] / sum(k : N, e[k]));
  }
}

TG_KERNEL(layernorm, R, N) {
  tg_in(x, f32, [R, N]);
  tg_in(w, f32, [N]);
  tg_in(b, f32, [N]);
  tg_out(y, f32, [R, N]);
  tg_range(i, R) {
    tg(let mean = sum(k : N, x[i,k]) / f32(N));
    tg(let var = sum(k : N, (x[i,k] - mean) * (x[i,k] - mean)) / f32(N));
    tg_range(j, N) tg(y[i,j] = (x[i,j] - mean) * rsqrt(var + 1e-5f) * w[j] + b[j]);
  }
}

/* Attention as the definition has it: T x T scores per head, no tiling. */
TG_KERNEL(attention, H, T, D) {
  tg_in(Q, f32, [H, T, D]);
  tg_in(K, f32, [H, T, D]);
  tg_in(V, f32, [H, T, D]);
  tg_out(O, f32, [H, T, D]);
  tg_range(h, H) tg_range(i, T) {
    tg_define_reg(s, f32, [T]);
    tg_define_reg(p, f32, [T]);
    tg_range(j, T) tg(s[j] = sum(d : D, Q[h,i,d] * K[h,j,d]) / sqrt(f32(D)));
    tg_range(j, T) tg(p[j] = exp(s[j] - max(t : T, s[t])));
    tg_range(d, D) tg(O[h,i,d] = sum(j : T, p[j] * V[h,j,d]) / sum(j : T, p[j]));
  }
}

TG_KERNEL(one, N) {
  tg_in(x, f32, [N]);
  tg_out(y, f32, [N]);
  tg_range(i, N) tg(y[i] = x[i] + 1.0f);
}
