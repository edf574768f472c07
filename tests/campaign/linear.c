/* SPDX-License-Identifier: MIT
 * Linear algebra, and integers of every width. See reference.h for the form, linear.tg for the texts. */
#include "reference.h"


/* products and updates of vectors and matrices */
KERNEL(gemv) {
  SIZE(M, 0); SIZE(N, 1); TABLE(real, A, 0, N); ARRAY(real, x, 1); ARRAY(real, y, 2);
  EACH(i, M) { real t = 0; EACH(j, N) t += A[i][j] * x[j]; y[i] = t; }
}
KERNEL(gemv_transposed) {
  SIZE(M, 0); SIZE(N, 1); TABLE(real, A, 0, N); ARRAY(real, x, 1); ARRAY(real, y, 2);
  EACH(j, N) { real t = 0; EACH(i, M) t += A[i][j] * x[i]; y[j] = t; }
}
KERNEL(ger) {
  SIZE(M, 0); SIZE(N, 1); TABLE(real, A, 0, N); ARRAY(real, x, 1); ARRAY(real, y, 2); ARRAY(real, s, 3);
  EACH(i, M) EACH(j, N) A[i][j] += s[0] * x[i] * y[j];
}
KERNEL(gemm_nn) {
  SIZE(M, 0); SIZE(N, 1); SIZE(K, 2); TABLE(real, A, 0, K); TABLE(real, B, 1, N); TABLE(real, C, 2, N);
  EACH(i, M) EACH(j, N) EACH(k, K) C[i][j] += A[i][k] * B[k][j];
}
KERNEL(gemm_nt) {
  SIZE(M, 0); SIZE(N, 1); SIZE(K, 2); TABLE(real, A, 0, K); TABLE(real, B, 1, K); TABLE(real, C, 2, N);
  EACH(i, M) EACH(j, N) { real t = 0; EACH(k, K) t += A[i][k] * B[j][k]; C[i][j] = t; }
}
KERNEL(gemm_tn) {
  SIZE(M, 0); SIZE(N, 1); SIZE(K, 2); TABLE(real, A, 0, M); TABLE(real, B, 1, N); TABLE(real, C, 2, N);
  EACH(i, M) EACH(j, N) { real t = 0; EACH(k, K) t += A[k][i] * B[k][j]; C[i][j] = t; }
}
KERNEL(gemm_f64) {
  SIZE(M, 0); SIZE(N, 1); SIZE(K, 2); TABLE(double, A, 0, K); TABLE(double, B, 1, N); TABLE(double, C, 2, N);
  EACH(i, M) EACH(j, N) { double t = 0; EACH(k, K) t += A[i][k] * B[k][j]; C[i][j] = t; }
}
KERNEL(gemm_i64) {
  SIZE(M, 0); SIZE(N, 1); SIZE(K, 2); TABLE(long long, A, 0, K); TABLE(long long, B, 1, N);
  TABLE(long long, C, 2, N);
  EACH(i, M) EACH(j, N) { long long t = 0; EACH(k, K) t += A[i][k] * B[k][j]; C[i][j] = t; }
}
KERNEL(two_products) {
  SIZE(M, 0); SIZE(N, 1); SIZE(K, 2); TABLE(real, A, 0, K); TABLE(real, B, 1, N); TABLE(real, C, 2, K);
  TABLE(real, D, 3, K);
  EACH(i, M) EACH(k, K) D[i][k] = 0;
  EACH(i, M) EACH(j, N) { real t = 0; EACH(k, K) t += A[i][k] * B[k][j]; EACH(k, K) D[i][k] += t * C[j][k]; }
}
KERNEL(syrk) {
  SIZE(N, 0); SIZE(K, 1); TABLE(real, A, 0, K); TABLE(real, C, 1, N);
  EACH(i, N) EACH(j, i + 1) EACH(k, K) C[i][j] += A[i][k] * A[j][k];
}
KERNEL(syr2k) {
  SIZE(N, 0); SIZE(K, 1); TABLE(real, A, 0, K); TABLE(real, B, 1, K); TABLE(real, C, 2, N);
  EACH(i, N) EACH(j, i + 1) EACH(k, K) C[i][j] += A[j][k] * B[i][k] + B[j][k] * A[i][k];
}
KERNEL(trmv) {
  SIZE(N, 0); TABLE(int, A, 0, N); ARRAY(int, x, 1);
  EACH(i, N) for (int j = i + 1; j < N; j++) x[i] += A[i][j] * x[j];
}
KERNEL(trsv_unit) { SIZE(N, 0); TABLE(int, L, 0, N); ARRAY(int, x, 1); EACH(i, N) EACH(j, i) x[i] -= L[i][j] * x[j]; }
KERNEL(trsv_columns) {
  SIZE(N, 0); TABLE(int, L, 0, N); ARRAY(int, x, 1);
  EACH(j, N) for (int i = j + 1; i < N; i++) x[i] -= L[i][j] * x[j];
}
KERNEL(trsm_unit) {
  SIZE(N, 0); SIZE(M, 1); TABLE(int, L, 0, N); TABLE(int, B, 1, M);
  EACH(j, M) EACH(i, N) EACH(k, i) B[i][j] -= L[i][k] * B[k][j];
}
KERNEL(trmm) {
  SIZE(N, 0); SIZE(M, 1); TABLE(int, A, 0, N); TABLE(int, B, 1, M);
  EACH(i, N) EACH(j, M) for (int k = i + 1; k < N; k++) B[i][j] += A[k][i] * B[k][j];
}
KERNEL(symv) {
  SIZE(N, 0); TABLE(real, A, 0, N); ARRAY(real, x, 1); ARRAY(real, y, 2);
  EACH(i, N) { real t = 0; EACH(j, N) t += (j <= i ? A[i][j] : A[j][i]) * x[j]; y[i] = t; }
}
KERNEL(banded) {
  SIZE(N, 0); SIZE(W, 1); TABLE(real, A, 0, 2*W+1); ARRAY(real, x, 1); ARRAY(real, y, 2);
  EACH(i, N) {
    real t = 0;
    for (int d = -W; d <= W; d++) if (i + d >= 0 && i + d < N) t += A[i][d+W] * x[i+d];
    y[i] = t;
  }
}
KERNEL(toeplitz) {
  SIZE(N, 0); ARRAY(real, c, 0); ARRAY(real, x, 1); ARRAY(real, y, 2);
  EACH(i, N) { real t = 0; EACH(j, N) t += c[i-j+N-1] * x[j]; y[i] = t; }
}
KERNEL(circulant) {
  SIZE(N, 0); ARRAY(real, c, 0); ARRAY(real, x, 1); ARRAY(real, y, 2);
  EACH(i, N) { real t = 0; EACH(j, N) t += c[(i+N-j)%N] * x[j]; y[i] = t; }
}
KERNEL(kronecker) {
  SIZE(N, 0); SIZE(M, 1); TABLE(real, A, 0, N); TABLE(real, B, 1, M); TABLE(real, C, 2, N*M);
  EACH(r, N * M) EACH(s, N * M) C[r][s] = A[r/M][s/M] * B[r%M][s%M];
}
KERNEL(rotate_rows) {
  SIZE(N, 0); ARRAY(real, x, 0); ARRAY(real, y, 1); ARRAY(real, c, 2); ARRAY(real, s, 3);
  EACH(i, N) { real t = c[0] * x[i] + s[0] * y[i]; y[i] = c[0] * y[i] - s[0] * x[i]; x[i] = t; }
}
KERNEL(swap_vectors) {
  SIZE(N, 0); ARRAY(real, x, 0); ARRAY(real, y, 1);
  EACH(i, N) { real t = x[i]; x[i] = y[i]; y[i] = t; }
}
KERNEL(reverse_in_place) {
  SIZE(N, 0); ARRAY(real, x, 0);
  for (int i = 0, j = 2 * N - 1; i < j; i++, j--) { real t = x[i]; x[i] = x[j]; x[j] = t; }
}
KERNEL(transpose_in_place) {
  SIZE(N, 0); TABLE(real, A, 0, N);
  EACH(i, N) EACH(j, i) { real t = A[i][j]; A[i][j] = A[j][i]; A[j][i] = t; }
}
KERNEL(horner) {
  SIZE(N, 0); SIZE(K, 1); ARRAY(int, p, 0); ARRAY(int, x, 1); ARRAY(int, y, 2);
  EACH(i, N) { int t = 0; for (int k = K - 1; k >= 0; k--) t = t * x[i] + p[k]; y[i] = t; }
}
KERNEL(vandermonde) {
  SIZE(N, 0); SIZE(K, 1); ARRAY(int, x, 0); TABLE(int, V, 1, K);
  EACH(i, N) EACH(k, K) V[i][k] = k ? V[i][k-1] * x[i] : 1;
}
KERNEL(block_diagonal) {
  SIZE(B, 0); SIZE(N, 1); CUBE(real, A, 0, N, N); ARRAY(real, x, 1); ARRAY(real, y, 2);
  EACH(b, B) EACH(i, N) { real t = 0; EACH(j, N) t += A[b][i][j] * x[b*N+j]; y[b*N+i] = t; }
}
KERNEL(batched_small) {
  SIZE(B, 0); CUBE(real, A, 0, 3, 3); CUBE(real, X, 1, 3, 5); CUBE(real, C, 2, 3, 5);
  EACH(b, B) EACH(i, 3) EACH(j, 5) { real t = 0; EACH(k, 3) t += A[b][i][k] * X[b][k][j]; C[b][i][j] = t; }
}
KERNEL(trace_of_product) {
  SIZE(N, 0); TABLE(real, A, 0, N); TABLE(real, B, 1, N); ARRAY(real, t, 2);
  real s = 0;
  EACH(i, N) EACH(k, N) s += A[i][k] * B[k][i];
  t[0] = s;
}
KERNEL(row_norms) {
  SIZE(M, 0); SIZE(N, 1); TABLE(real, A, 0, N); ARRAY(real, one, 1); ARRAY(real, top, 2); ARRAY(real, low, 3);
  EACH(i, M) {
    one[i] = 0;
    top[i] = low[i] = A[i][0];
    EACH(j, N) { one[i] += rabs(A[i][j]); top[i] = rmax(top[i], A[i][j]); low[i] = rmin(low[i], A[i][j]); }
  }
}
KERNEL(column_sums) {
  SIZE(M, 0); SIZE(N, 1); TABLE(real, A, 0, N); ARRAY(real, s, 1);
  EACH(j, N) { real t = 0; EACH(i, M) t += A[i][j]; s[j] = t; }
}
KERNEL(complex_product) {
  SIZE(N, 0); TABLE(real, x, 0, 2); TABLE(real, y, 1, 2); TABLE(real, z, 2, 2);
  EACH(i, N) { z[i][0] = x[i][0] * y[i][0] - x[i][1] * y[i][1]; z[i][1] = x[i][0] * y[i][1] + x[i][1] * y[i][0]; }
}
KERNEL(jacobi_solve) {
  SIZE(N, 0); SIZE(T, 1); TABLE(real, A, 0, N); ARRAY(real, b, 1); ARRAY(real, x, 2);
  real y[32];
  EACH(t, T) {
    EACH(i, N) { real s = 0; EACH(j, N) if (j != i) s += A[i][j] * x[j]; y[i] = (b[i] - s) / (A[i][i] + 8); }
    EACH(i, N) x[i] = y[i];
  }
}
KERNEL(cholesky) {
  SIZE(N, 0); TABLE(real, A, 0, N);
  EACH(i, N) A[i][i] += 20;
  EACH(i, N) {
    EACH(j, i) { EACH(k, j) A[i][j] -= A[i][k] * A[j][k]; A[i][j] /= A[j][j]; }
    EACH(k, i) A[i][i] -= A[i][k] * A[i][k];
    A[i][i] = R1(sqrt, A[i][i]);
  }
}
KERNEL(gram_schmidt_step) {
  SIZE(M, 0); SIZE(N, 1); TABLE(real, A, 0, N); ARRAY(real, q, 1); ARRAY(real, r, 2);
  EACH(j, N) { real t = 0; EACH(i, M) t += q[i] * A[i][j]; r[j] = t; EACH(i, M) A[i][j] -= q[i] * r[j]; }
}
KERNEL(householder) {
  SIZE(M, 0); SIZE(N, 1); TABLE(real, A, 0, N); ARRAY(real, v, 1); ARRAY(real, b, 2);
  real w[16];
  EACH(j, N) { w[j] = 0; EACH(i, M) w[j] += v[i] * A[i][j]; w[j] *= b[0]; }
  EACH(i, M) EACH(j, N) A[i][j] -= v[i] * w[j];
}
KERNEL(doitgen) {
  SIZE(R, 0); SIZE(Q, 1); SIZE(P, 2); CUBE(real, A, 0, Q, P); TABLE(real, C, 1, P);
  real s[8];
  EACH(r, R) EACH(q, Q) {
    EACH(p, P) { s[p] = 0; EACH(t, P) s[p] += A[r][q][t] * C[t][p]; }
    EACH(p, P) A[r][q][p] = s[p];
  }
}

/* integers and odd types */
KERNEL(saturate) {
  SIZE(N, 0); ARRAY(int, x, 0); ARRAY(signed char, y, 1);
  EACH(i, N) y[i] = (signed char)imax(imin(x[i], 127), -128);
}
KERNEL(average_bytes) {
  SIZE(N, 0); ARRAY(unsigned char, x, 0); ARRAY(unsigned char, y, 1); ARRAY(unsigned char, z, 2);
  EACH(i, N) z[i] = (unsigned char)((x[i] + y[i] + 1) >> 1);
}
KERNEL(absolute_differences) {
  SIZE(N, 0); ARRAY(unsigned char, x, 0); ARRAY(unsigned char, y, 1); ARRAY(unsigned, s, 2);
  unsigned t = 0;
  EACH(i, N) t += (unsigned)(x[i] > y[i] ? x[i] - y[i] : y[i] - x[i]);
  s[0] = t;
}
KERNEL(floor_division) {
  SIZE(N, 0); ARRAY(int, x, 0); ARRAY(int, y, 1); ARRAY(int, q, 2); ARRAY(int, r, 3);
  EACH(i, N) { q[i] = fdiv(x[i], y[i]); r[i] = fmod_(x[i], y[i]); }
}
KERNEL(shifts) {
  SIZE(N, 0); ARRAY(unsigned, x, 0); ARRAY(unsigned, s, 1); ARRAY(unsigned, y, 2);
  EACH(i, N) { unsigned k = s[i] & 31; y[i] = x[i] << k | (k ? x[i] >> (32 - k) : 0); }
}
KERNEL(xorshift) {
  SIZE(N, 0); ARRAY(unsigned, x, 0);
  EACH(i, N) { unsigned t = x[i]; t ^= t << 13; t ^= t >> 17; t ^= t << 5; x[i] = t; }
}
KERNEL(checksum) {
  SIZE(N, 0); ARRAY(unsigned char, x, 0); ARRAY(unsigned, a, 1); ARRAY(unsigned, b, 2);
  unsigned p = 1, q = 0;
  EACH(i, N) { p = (p + x[i]) % 65521; q = (q + p) % 65521; }
  a[0] = p;
  b[0] = q;
}
KERNEL(hash_rolling) {
  SIZE(N, 0); ARRAY(unsigned char, x, 0); ARRAY(unsigned, h, 1);
  unsigned t = 5381;
  EACH(i, N) { t = t * 33 + x[i]; h[i] = t; }
}
KERNEL(popcount) {
  SIZE(N, 0); ARRAY(unsigned, x, 0); ARRAY(unsigned, c, 1);
  EACH(i, N) { unsigned t = 0; EACH(b, 32) t += x[i] >> b & 1; c[i] = t; }
}
KERNEL(mixed_widths) {
  SIZE(N, 0); ARRAY(signed char, a, 0); ARRAY(short, b, 1); ARRAY(int, c, 2); ARRAY(long long, d, 3);
  ARRAY(long long, y, 4);
  EACH(i, N) y[i] = (long long)a[i] * b[i] + c[i] - d[i];
}
KERNEL(any_all) {
  SIZE(N, 0); ARRAY(unsigned char, x, 0); ARRAY(unsigned char, y, 1); ARRAY(unsigned char, p, 2);
  ARRAY(unsigned char, q, 3); ARRAY(int, n, 4);
  int a = 0, b = 1, t = 0;
  EACH(i, N) { a |= x[i] & y[i]; b &= x[i] | y[i]; t += x[i]; }
  p[0] = (unsigned char)a;
  q[0] = (unsigned char)b;
  n[0] = t;
}

FAMILY(linear) = {
  EXACT(gemv), EXACT(gemv_transposed), EXACT(ger), EXACT(gemm_nn), EXACT(gemm_nt), EXACT(gemm_tn), EXACT(gemm_f64),
  BYTES(gemm_i64), EXACT(two_products), EXACT(syrk), EXACT(syr2k), EXACT(trmv), EXACT(trsv_unit),
  EXACT(trsv_columns), EXACT(trsm_unit), EXACT(trmm), EXACT(symv), EXACT(banded), EXACT(toeplitz), EXACT(circulant),
  EXACT(kronecker), EXACT(rotate_rows), EXACT(swap_vectors), EXACT(reverse_in_place), EXACT(transpose_in_place),
  EXACT(horner), EXACT(vandermonde), EXACT(block_diagonal), EXACT(batched_small), EXACT(trace_of_product),
  EXACT(row_norms), EXACT(column_sums), EXACT(complex_product), ROUNDS(jacobi_solve, UNIT), ROUNDS(cholesky, UNIT),
  EXACT(gram_schmidt_step), SMALL(householder, 2), EXACT(doitgen), BYTES(saturate), BYTES(average_bytes),
  BYTES(absolute_differences), EXACT(floor_division), BYTES(shifts), BYTES(xorshift), BYTES(checksum),
  BYTES(hash_rolling), BYTES(popcount), BYTES(mixed_widths), EXACT(any_all), END,
};
