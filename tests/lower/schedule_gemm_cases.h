/* SPDX-License-Identifier: MIT
 * Programs after the words that matrix products need, and refusals. Included by schedule_gemm.c. */
static const char blas_kernel[] =
    "kernel blas(M, N, K) {\n"
    "  in(A, f32, [M, K]);\n"
    "  in(B, f32, [K, N]);\n"
    "  in(s, f32, [2]);\n"
    "  inout(C, f32, [M, N]);\n"
    "  range(i, M) range(j, N)\n"
    "    C[i,j] = max(where(s[1] == 0, 0, s[1] * C[i,j]) + s[0] * sum(k : K, A[i,k] * B[k,j]), 0);\n"
    "}\n";
static const char half_kernel[] =
    "kernel half(M, N, K) {\n"
    "  in(A, f16, [M, K]);\n"
    "  in(B, f16, [K, N]);\n"
    "  out(C, f16, [M, N]);\n"
    "  range(i, M) range(j, N)\n"
    "    C[i,j] = f16(sum(k : K, f32(A[i,k]) * f32(B[k,j])));\n"
    "}\n";
static const char added_kernel[] =
    "kernel added(M, N, K) {\n"
    "  in(A, f32, [M, K]);\n"
    "  in(B, f32, [K, N]);\n"
    "  inout(C, f32, [M, N]);\n"
    "  range(i, M) range(j, N)\n"
    "    C[i,j] += sum(k : K, A[i,k] * B[k,j]);\n"
    "}\n";
static const char minus_kernel[] =   /* -2 * (x - sum) - y reads C in x and y */
    "kernel minus(M, N, K) {\n"
    "  in(A, i32, [M, K]);\n"
    "  in(B, i32, [K, N]);\n"
    "  inout(C, i32, [M, N]);\n"
    "  range(i, M) range(j, N)\n"
    "    C[i,j] = max(-(2 * (C[i,j] - sum(k : K, A[i,k] * B[k,j]))) - C[i,j], 1);\n"
    "}\n";
static const char product_kernel[] =   /* the output is read in another way than as x of x + c * sum */
    "kernel product(M, N, K) {\n"
    "  in(A, f32, [M, K]);\n"
    "  in(B, f32, [K, N]);\n"
    "  inout(C, f32, [M, N]);\n"
    "  range(i, M) range(j, N)\n"
    "    C[i,j] = C[i,j] * sum(k : K, A[i,k] * B[k,j]) + 1;\n"
    "}\n";
static const char bytes_kernel[] =
    "kernel bytes(M, N, K) {\n"
    "  in(A, u8, [M, K]);\n"
    "  in(B, i8, [K, N]);\n"
    "  inout(C, i8, [M, N]);\n"
    "  range(i, M) range(j, N)\n"
    "    C[i,j] = i8(min(max(i32(C[i,j]) + sum(k : K, i32(A[i,k]) * i32(B[k,j])), -128), 127));\n"
    "}\n";
static const char largest_kernel[] =
    "kernel largest(M, N, K) {\n"
    "  in(A, f32, [M, K]);\n"
    "  in(B, f32, [K, N]);\n"
    "  inout(C, f32, [M, N]);\n"
    "  range(i, M) range(j, N)\n"
    "    C[i,j] = max(C[i,j], max(k : K, A[i,k] + B[k,j])) * 2;\n"
    "}\n";
static const char pair_kernel[] =
    "kernel pair(M, N, K) {\n"
    "  in(A, f32, [M, K]);\n"
    "  in(B, f32, [K, N]);\n"
    "  out(C, f32, [M, N]);\n"
    "  out(D, f32, [M, N]);\n"
    "  range(i, M) range(j, N) {\n"
    "    C[i,j] = sum(k : K, A[i,k] * B[k,j]);\n"
    "    D[i,j] = C[i,j] + sum(k : K, A[i,k] * B[k,j]);\n"
    "  }\n"
    "}\n";

static const char *const blocked_kernels[] = {matmul_kernel, blas_kernel, half_kernel, added_kernel, minus_kernel, product_kernel, bytes_kernel, largest_kernel};

static const expectation word_cases[] = {
  {blas_kernel, "M=4 N=4 K=10", "split k 4 clip as kc kr\norder kc i j\ncut kc first\ncut kc.main last",
    "range(i, 4) {\n"
    "  range(j, 4) {\n"
    "    let %0 = s[1];\n"
    "    let %1 = %0 != 0.0f;\n"
    "    C[i, j] = sum(kr : 4, A[i, kr] * B[kr, j]) * s[0] + where(%0 == 0.0f, 0.0f, (s[1] if %1 else 0.0f) * (C[i, j] if %1 else 0.0f));\n"
    "  }\n"
    "}\n"
    "range(i, 4) {\n"
    "  range(j, 4) {\n"
    "    C[i, j] = sum(kr : 4, let %2 = kr + 4; A[i, %2] * B[%2, j]) * s[0] + C[i, j];\n"
    "  }\n"
    "}\n"
    "range(i, 4) {\n"
    "  range(j, 4) {\n"
    "    C[i, j] = max(sum(kr : 2, let %3 = kr + 8; A[i, %3] * B[%3, j]) * s[0] + C[i, j], 0.0f);\n"
    "  }\n"
    "}\n"},
  {added_kernel, "M=4 N=4 K=10", "order k i j",
    "range(k, 10) {\n"
    "  range(i, 4) {\n"
    "    range(j, 4) {\n"
    "      C[i, j] = A[i, k] * B[k, j] + C[i, j];\n"
    "    }\n"
    "  }\n"
    "}\n"},
  {minus_kernel, "M=4 N=4 K=10", "order k i j",
    "range(k, 10) {\n"
    "  range(i, 4) {\n"
    "    range(j, 4) {\n"
    "      let %0 = 0 < k;\n"
    "      let %1 = C[i, j];\n"
    "      let %2 = A[i, k] * B[k, j] * 2 + where(%0, C[i, j] if %0 else i32(0), -(%1 * 2) - %1);\n"
    "      C[i, j] = where(k < 9, %2, max(%2, i32(1)));\n"
    "    }\n"
    "  }\n"
    "}\n"},
  {half_kernel, "M=4 N=4 K=10", "split k 4 clip as kc kr\norder i kc j",
    "range(i, 4) {\n"
    "  define_local(C.sum, f32, [4], align 64);\n"
    "  range(kc, 3) {\n"
    "    range(j, 4) {\n"
    "      C.sum[j] = sum(kr : min(kc * -4 + 10, 4), let %0 = kr + kc * 4; f32(B[%0, j]) * f32(A[i, %0])) + (C.sum[j] if (0 < kc) else 0.0f) if kc < 2;\n"
    "      C[i, j] = f16(sum(kr : min(kc * -4 + 10, 4), let %1 = kr + kc * 4; f32(B[%1, j]) * f32(A[i, %1])) + (C.sum[j] if (0 < kc) else 0.0f)) if 1 < kc;\n"
    "    }\n"
    "  }\n"
    "}\n"},
  {product_kernel, "M=4 N=4 K=10", "order k i j\ncut k last",
    "define_local(C.sum, f32, [4, 4], align 64);\n"
    "range(k.main, 9) {\n"
    "  range(i, 4) {\n"
    "    range(j, 4) {\n"
    "      C.sum[i, j] = A[i, k.main] * B[k.main, j] + (C.sum[i, j] if (0 < k.main) else 0.0f);\n"
    "    }\n"
    "  }\n"
    "}\n"
    "range(i, 4) {\n"
    "  range(j, 4) {\n"
    "    C[i, j] = (A[i, 9] * B[9, j] + C.sum[i, j]) * C[i, j] + 1.0f;\n"
    "  }\n"
    "}\n"},
};

static const expectation refusal_cases[] = {
  {half_kernel, "M=4 N=1..9999999999 K=10", "order i k j",
   "opts:1:1: error: order: the sum over k (line 6) cannot be taken in blocks: C cannot hold what was added so far (it has the type f16), and a tile of f32 over the loops inside, down to j (line 5), would have more than 2^26 elements: split them, and leave the outer parts outside of the blocks"},
  {half_kernel, "M=70000 N=70000 K=10", "order k i j",
   "opts:1:1: error: order: the sum over k (line 6) cannot be taken in blocks: C cannot hold what was added so far (it has the type f16), and a tile of f32 over the loops inside, down to j (line 5), would have more than 2^26 elements: split them, and leave the outer parts outside of the blocks"},
  {pair_kernel, "M=4 N=4 K=10", "order k i j",
   "opts:1:1: error: order: the sum over k (line 7) cannot be taken in blocks: `D[i, j] = sum(k : 10, A[i, k] * B[k, j]) + C[i, j]` inside reads C, which is complete in the last block only"},
};
