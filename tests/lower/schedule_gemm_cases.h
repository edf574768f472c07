/* SPDX-License-Identifier: MIT
 * Programs after the words that matrix products need, and refusals. Included by schedule_gemm.c. */
static const char total_kernel[] =
    "kernel total(N) {\n"
    "  in(x, f32, [N]);\n"
    "  out(y, f32, []);\n"
    "  y = sum(k : N, x[k]);\n"
    "}\n";
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

static const char along_kernel[] =
    "kernel along(M, N, K) {\n"
    "  in(A, f32, [M, K]);\n"
    "  in(B, f32, [N, K]);\n"
    "  out(C, f32, [M, N]);\n"
    "  range(i, M) range(j, N)\n"
    "    C[i,j] = sum(k : K, A[i,k] * B[j,k]);\n"
    "}\n";

static const char spaced_kernel[] =
    "kernel spaced(M, N, K, s in 1..9) {\n"
    "  in(A, f32, [M, K], [3 * K, 3]);\n"
    "  in(B, f32, [K, N], [N * s, s]);\n"
    "  out(C, f32, [M, N], [2 * N, 2]);\n"
    "  range(i, M) range(j, N)\n"
    "    C[i,j] = sum(k : K, A[i,k] * B[k,j]);\n"
    "}\n";

static const char zero_kernel[] =
    "kernel zero(M, N, K) {\n"
    "  in(A, u8, [M, K]);\n"
    "  in(B, i8, [K, N]);\n"
    "  in(z, i32, [1]);\n"
    "  out(C, i32, [M, N]);\n"
    "  range(i, M) range(j, N)\n"
    "    C[i,j] = sum(k : K, i32(A[i,k]) * i32(B[k,j])) - z[0] * sum(q : K, i32(B[q,j]));\n"
    "}\n";

static const char *const blocked_kernels[] = {matmul_kernel, blas_kernel, half_kernel, added_kernel, minus_kernel, product_kernel, bytes_kernel, largest_kernel};

/* Of the cases of lines that are asked for by rows: two tiles of four rows; as many as M has, and single rows. */
#define TWO_TILES "range(kc, 2) {\n" "  range(jo, 2) {\n" "    range(ir, 2) {\n" "      range(iu, 4, upcast) {\n" "        range(ji, 32, lane) {\n" "          let %0 = ir * 4 + iu;\n" "          let %1 = jo * 32 + ji;\n" "          let %2 = kc * 16;\n" "          let %3 = 0 < jo;\n"
#define TWO_TILES_END "        }\n" "      }\n" "    }\n" "  }\n" "}\n"
#define TILES_OF_FOUR "range(jo, 2) {\n" "  range(ir.by4, M / 4) {\n" "    range(iu.by4, 4, upcast) {\n" "      range(ji, 32, lane) {\n" "        let %0 = ir.by4 * 4 + iu.by4;\n" "        let %1 = jo * 32;\n" "        let %2 = %1 + ji;\n"
#define AND_OF_ONE "      }\n" "    }\n" "  }\n" "  range(ir.by1, M % 4) {\n" "    range(ji, 32, lane) {\n"

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
  {matmul_kernel, "M=4 N=32 K=16", "split j 16 as ju jl\nupcast i\nupcast ju\nlane jl\nprefetch B at k ahead 8",
    "range(i, 4, upcast) {\n"
    "  range(ju, 2, upcast) {\n"
    "    range(jl, 16, lane) {\n"
    "      let %0 = ju * 16 + jl;\n"
    "      C[i, %0] = sum(k : 16, let %1 = k + 8; ahead(A[i, k] * B[k, %0], prefetch(B[%1, 0], l1), prefetch(B[%1, 16], l1)));\n"
    "    }\n"
    "  }\n"
    "}\n"},
  {spaced_kernel, "M=4 N=32 K=16 s=1..9", "split i 2 as io ii\nsplit j 16 as jo ji\norder io jo ii ji\nprefetch C at jo ahead 0 rw\nprefetch A at jo ahead 1\nprefetch B at ii ahead 1",   /* elements some apart: a line has fewer; of unknown strides each is asked for */
    "range(io, 2) {\n"
    "  range(jo, 2) {\n"
    "    range(A.fetch.0, 2, unroll) {\n"
    "      range(A.fetch.1, 4, unroll) {\n"
    "        prefetch(A[io * 2 + A.fetch.0, A.fetch.1 * 5], l1);\n"
    "      }\n"
    "    }\n"
    "    range(C.fetch.0, 2, unroll) {\n"
    "      range(C.fetch.1, 2, unroll) {\n"
    "        prefetch(C[io * 2 + C.fetch.0, jo * 16 + C.fetch.1 * 8], l1, rw);\n"
    "      }\n"
    "    }\n"
    "    range(ii, 2) {\n"
    "      range(B.fetch.0, 16) {\n"
    "        range(B.fetch.1, 16) {\n"
    "          prefetch(B[B.fetch.0, jo * 16 + B.fetch.1], l1);\n"
    "        }\n"
    "      }\n"
    "      range(ji, 16) {\n"
    "        let %0 = io * 2 + ii;\n"
    "        let %1 = jo * 16 + ji;\n"
    "        C[%0, %1] = sum(k : 16, A[%0, k] * B[k, %1]);\n"
    "      }\n"
    "    }\n"
    "  }\n"
    "}\n"},
  {matmul_kernel, "M=2 N=32 K=16", "split k 4 as ko ku\nsplit j 32 as jo jv\nstage B at jo as Bp[j/32, k, j%32]\nlane jv\nupcast i\nunroll ku\nprefetch Bp at ko ahead 2\nprefetch A at ko ahead 2 to l2",
    "range(i, 2, upcast) {\n"
    "  define_local(Bp, f32, [1, 16, 32], align 64);\n"
    "  range(Bp.1, 16) {\n"
    "    range(Bp.2, 32) {\n"
    "      Bp[0, Bp.1, Bp.2] = B[Bp.1, Bp.2];\n"
    "    }\n"
    "  }\n"
    "  range(jv, 32, lane) {\n"
    "    C[i, jv] = sum(ko : 4, ku : 4 unroll, let %0 = ko * 4; let %1 = %0 + ku; let %2 = %0 + 8; let %3 = %0 + 9; let %4 = %0 + 10; let %5 = %0 + 11; ahead(ahead(A[i, %1] * Bp[0, %1, jv], prefetch(Bp[0, %2, 0], l1), prefetch(Bp[0, %2, 16], l1), prefetch(Bp[0, %3, 0], l1), prefetch(Bp[0, %3, 16], l1), prefetch(Bp[0, %4, 0], l1), prefetch(Bp[0, %4, 16], l1), prefetch(Bp[0, %5, 0], l1), prefetch(Bp[0, %5, 16], l1)), prefetch(A[0, %2], l2), prefetch(A[1, %2], l2)));\n"
    "  }\n"
    "}\n"},
  {matmul_kernel, "M=4 N=32 K=16", "split k 4 as ko ku\nunroll ku\nprefetch B at ko ahead 1 of i",   /* all 32 lines of B in an iteration of i, 128 turns of ko */
    "range(i, 4) {\n"
    "  range(j, 32) {\n"
    "    C[i, j] = sum(ko : 4, ku : 4 unroll, let %0 = ko * 4 + ku; let %1 = j * 33554436 + ko * 8388609; ahead(A[i, %0] * B[%0, j], prefetch(B[%1 / 67108864, %1 / 33554432 % 2 * 16], l1)));\n"
    "  }\n"
    "}\n"},
  {matmul_kernel, "M=8 N=64 K=32", "split j 32 as jo ji\nsplit k 16 as kc kr\norder kc jo i ji\nsplit i 4 as ir iu\nupcast iu\nlane ji\nprefetch B at kr ahead 1 of jo",   /* each of two tiles one of the two lines of the row that it is at */
    TWO_TILES
    "          C[%0, %1] = sum(kr : 16, let %4 = kr + %2; ahead(A[%0, %4] * B[%4, %1], prefetch(B[where(%3, 1, 0) * 16 + kr + %2, where(%3, jo + -1, jo + 1) * 32 + ir * 16], l1))) + (C[%0, %1] if (0 < kc) else 0.0f);\n"
    TWO_TILES_END},
  {matmul_kernel, "M=8 N=64 K=32", "split j 32 as jo ji\nsplit k 16 as kc kr\norder kc jo i ji\nsplit i 4 as ir iu\nupcast iu\nlane ji\nsplit kr 8 as ko ku\nunroll ku\nprefetch B at ko ahead 1 of jo",   /* each of two tiles half of the rows */
    TWO_TILES
    "          let %4 = where(%3, jo + -1, jo + 1) * 32;\n"
    "          let %5 = %4 + 16;\n"
    "          C[%0, %1] = sum(ko : 2, ku : 8 unroll, let %6 = %2 + ko * 8 + ku; let %7 = where(%3, 1, 0) * 16 + %2 + ir * 8 + ko * 4; let %8 = %7 + 1; let %9 = %7 + 2; let %10 = %7 + 3; ahead(A[%0, %6] * B[%6, %1], prefetch(B[%7, %4], l1), prefetch(B[%7, %5], l1), prefetch(B[%8, %4], l1), prefetch(B[%8, %5], l1), prefetch(B[%9, %4], l1), prefetch(B[%9, %5], l1), prefetch(B[%10, %4], l1), prefetch(B[%10, %5], l1))) + (C[%0, %1] if (0 < kc) else 0.0f);\n"
    TWO_TILES_END},
  {matmul_kernel, "M=1..9 N=64 K=16", "split j 32 as jo ji\norder jo i ji\nsplit i {4, 1} as ir iu\nupcast iu\nlane ji\nprefetch B at k ahead 1 of jo",   /* there may be one tile, of either kind */
    TILES_OF_FOUR
    "        C[%0, %2] = sum(k : 16, ahead(A[%0, k] * B[k, %2], prefetch(B[k, %1 + 32], l1), prefetch(B[k, %1 + 48], l1)));\n"
    AND_OF_ONE
    "      let %3 = M / 4 * 4 + ir.by1;\n"
    "      let %4 = jo * 32;\n"
    "      let %5 = %4 + ji;\n"
    "      C[%3, %5] = sum(k : 16, ahead(A[%3, k] * B[k, %5], prefetch(B[k, %4 + 32], l1), prefetch(B[k, %4 + 48], l1)));\n"
    "    }\n"
    "  }\n"
    "}\n"},
  {matmul_kernel, "M=4..9 N=64 K=16", "split j 32 as jo ji\norder jo i ji\nsplit i {4, 1} as ir iu\nupcast iu\nlane ji\nprefetch B at k ahead 1 of jo",   /* one of the first kind is sure to come, and a second asks again */
    TILES_OF_FOUR
    "        C[%0, %2] = sum(k : 16, ahead(A[%0, k] * B[k, %2], prefetch(B[k, %1 + 32], l1), prefetch(B[k, %1 + 48], l1)));\n"
    AND_OF_ONE
    "      let %3 = M / 4 * 4 + ir.by1;\n"
    "      let %4 = jo * 32 + ji;\n"
    "      C[%3, %4] = sum(k : 16, A[%3, k] * B[k, %4]);\n"
    "    }\n"
    "  }\n"
    "}\n"},
  {matmul_kernel, "M=12..16 N=64 K=16", "split j 32 as jo ji\norder jo i ji\nsplit i {4, 1} as ir iu\nupcast iu\nlane ji\nprefetch B at k ahead 1 of jo",   /* the lines of two columns evenly over the turns of three tiles, which are sure to come */
    TILES_OF_FOUR
    "        let %3 = where(ir.by4 < 2, ir.by4, 2);\n"
    "        C[%0, %2] = sum(k : 16, let %4 = k * 22369621; ahead(A[%0, k] * B[k, %2], prefetch(B[(%3 * 357913936 + %4) / 67108864, (%3 * 22369616 + %4) / 33554432 % 2 * 16 + %1 + 32], l1)));\n"
    AND_OF_ONE
    "      let %5 = M / 4 * 4 + ir.by1;\n"
    "      let %6 = jo * 32 + ji;\n"
    "      C[%5, %6] = sum(k : 16, A[%5, k] * B[k, %6]);\n"
    "    }\n"
    "  }\n"
    "}\n"},
  {along_kernel, "M=8 N=12 K=256", "split j 2 as jo ju\norder jo i ju\nsplit i 4 as ir iu\norder ir ju iu\nupcast iu\nupcast ju\nsplit k 16 as ko kl\nlane kl\nprefetch B at ko ahead 1 of jo",   /* each of two tiles its own place in one of the two rows */
    "range(jo, 6) {\n" "  range(ir, 2) {\n" "    range(ju, 2, upcast) {\n" "      range(iu, 4, upcast) {\n" "        let %0 = ir * 4 + iu;\n" "        let %1 = jo * 2;\n" "        let %2 = %1 + ju;\n"
    "        C[%0, %2] = sum(ko : 16, kl : 16 lane, let %3 = ko * 16; let %4 = %3 + kl; ahead(A[%0, %4] * B[%2, %4], prefetch(B[%1 + ir + 2, %3], l1)));\n"
    "      }\n" "    }\n" "  }\n" "}\n"},
  {matmul_kernel, "M=12 N=64 K=48", "split i 4 as io ii\norder io j ii\nprefetch A at j ahead 1 of io to l2",
    "range(io, 3) {\n"
    "  range(j, 64) {\n"
    "    let %0 = j * 4194305;\n"
    "    prefetch(A[%0 / 67108864 + io * 4 + 4, %0 % 67108864 * 3 / 67108864 * 16], l2);\n"
    "    range(ii, 4) {\n"
    "      let %1 = io * 4 + ii;\n"
    "      C[%1, j] = sum(k : 48, A[%1, k] * B[k, j]);\n"
    "    }\n"
    "  }\n"
    "}\n"},
  {matmul_kernel, "M=8 N=64 K=32", "split j 32 as jo ji\nsplit k 16 as kc kr\norder jo kc i ji\nstage B at kc as Bp[k, j]\nprefetch B at kr ahead 1 of kc",   /* behind the last kc comes the first of the next jo */
    "range(jo, 2) {\n"
    "  range(kc, 2) {\n"
    "    define_local(Bp, f32, [16, 32], align 64);\n"
    "    range(Bp.0, 16) {\n"
    "      range(Bp.1, 32) {\n"
    "        Bp[Bp.0, Bp.1] = B[kc * 16 + Bp.0, jo * 32 + Bp.1];\n"
    "      }\n"
    "    }\n"
    "    range(i, 8) {\n"
    "      range(ji, 32) {\n"
    "        let %0 = jo * 32;\n"
    "        let %1 = %0 + ji;\n"
    "        let %2 = 0 < kc;\n"
    "        let %3 = ji * 4194320;\n"
    "        C[i, %1] = sum(kr : 16, let %4 = kr * 262145; ahead(A[i, kr + kc * 16] * Bp[kr, ji], prefetch(B[where(%2, kc + -1, kc + 1) * 16 + (i * 134218240 + %3 + %4) / 67108864, where(%2, 1, 0) * 32 + (i * 512 + %3 + %4) / 33554432 % 2 * 16 + %0], l1))) + (C[i, %1] if %2 else 0.0f);\n"
    "      }\n"
    "    }\n"
    "  }\n"
    "}\n"},
  {total_kernel, "N=200", "split k 64 as ko ki\nsplit ki 16 as ku kl\nlane kl\nupcast ku\nprefetch x at ko ahead 3",
    "y = sum(ko : 4, ku : 4 upcast, kl : 16 lane, let %0 = ko * 64; let %1 = %0 + ku * 16 + kl; ahead(x[%1] if (%1 < 200) else 0.0f, prefetch(x[%0 + 192], l1), prefetch(x[%0 + 208], l1), prefetch(x[%0 + 224], l1), prefetch(x[%0 + 240], l1)));\n"},
  {matmul_kernel, "M=4 N=32 K=16", "split i 2 as io ii\nprefetch C at io ahead 0 rw",
    "range(io, 2) {\n"
    "  range(C.fetch.0, 2, unroll) {\n"
    "    range(C.fetch.1, 2, unroll) {\n"
    "      prefetch(C[io * 2 + C.fetch.0, C.fetch.1 * 16], l1, rw);\n"
    "    }\n"
    "  }\n"
    "  range(ii, 2) {\n"
    "    range(j, 32) {\n"
    "      let %0 = io * 2 + ii;\n"
    "      C[%0, j] = sum(k : 16, A[%0, k] * B[k, j]);\n"
    "    }\n"
    "  }\n"
    "}\n"},
  {matmul_kernel, "M=4 N=40 K=16", "split j 16 as jo jv\nstage B at i as Bp[j/16, k, j%16] space=packed\nlane jv",
    "range(i, 4) {\n"
    "  range(jo, 3) {\n"
    "    range(jv, 16, lane) {\n"
    "      let %0 = jo * 16 + jv;\n"
    "      C[i, %0] = sum(k : 16, A[i, k] * Bp[jo, k, jv]) if %0 < 40;\n"
    "    }\n"
    "  }\n"
    "}\n"},
  {half_kernel, "M=4 N=1..40 K=1..9", "split j 16 as jo jv\nstage B at i as Bp[j/16, k, j%16] as f32 fill=1 space=packed\nlane jv",
    "range(i, 4) {\n"
    "  range(jo, (N + 15) / 16) {\n"
    "    range(jv, 16, lane) {\n"
    "      let %0 = jo * 16 + jv;\n"
    "      let %1 = %0 < N;\n"
    "      C[i, %0] = f16(sum(k : K, f32(A[i, k]) * (Bp[jo, k, jv] if %1 else 0.0f))) if %1;\n"
    "    }\n"
    "  }\n"
    "}\n"},
  {matmul_kernel, "M=8 N=4 K=4", "thread i 2 as io ii static\ncut j at 2\nlane j.0 2",
    "range(io, 4, thread, static) {\n"
    "  range(ii, 2) {\n"
    "    range(j.0.1, 2, lane) {\n"
    "      let %0 = io * 2 + ii;\n"
    "      C[%0, j.0.1] = sum(k : 4, A[%0, k] * B[k, j.0.1]);\n"
    "    }\n"
    "    range(j.1, 2) {\n"
    "      let %1 = io * 2 + ii;\n"
    "      let %2 = j.1 + 2;\n"
    "      C[%1, %2] = sum(k : 4, A[%1, k] * B[k, %2]);\n"
    "    }\n"
    "  }\n"
    "}\n"},
  {matmul_kernel, "M=8 N=1..9 K=4", "thread i static\nspecialize(N == 8)",
    "range(i.then, where(N == 8, 8, 0), thread, static) {\n"
    "  range(j, 8) {\n"
    "    C[i.then, j] = sum(k : 4, A[i.then, k] * B[k, j]);\n"
    "  }\n"
    "}\n"
    "range(i.else, where(N == 8, 0, 8), thread, static) {\n"
    "  range(j, N) {\n"
    "    C[i.else, j] = sum(k : 4, A[i.else, k] * B[k, j]);\n"
    "  }\n"
    "}\n"},
  {zero_kernel, "M=4 N=20 K=8", "split j 16 as jo jv\nstage B at i as Bp[j/16, d0/4, j%16, d0%4] space=packed with S[j] = sum(k, i32(B[k,j]))\nlane jv",
    "range(i, 4) {\n"
    "  range(jo, 2) {\n"
    "    range(jv, 16, lane) {\n"
    "      let %0 = jo * 16 + jv;\n"
    "      let %1 = %0 < 20;\n"
    "      C[i, %0] = sum(k : 8, i32(A[i, k]) * i32(Bp[jo, k / 4, jv, k % 4])) - z[0] * (S[%0] if %1 else i32(0)) if %1;\n"
    "    }\n"
    "  }\n"
    "}\n"},
  {half_kernel, "M=1..4 N=4 K=1..9", "stage A at i space=packed",
    "range(i, M) {\n"
    "  range(j, 4) {\n"
    "    C[i, j] = f16(sum(k : K, f32(A.packed[i, k]) * f32(B[k, j])));\n"
    "  }\n"
    "}\n"},
};

static const char lowest_kernel[] =
    "kernel lowest(M, N) {\n"
    "  in(x, f32, [N]);\n"
    "  out(y, i32, [M]);\n"
    "  range(i, M) y[i] = argmin(k : N, x[k]);\n"
    "}\n";
static const expectation refusal_cases[] = {
  {zero_kernel, "M=4 N=20 K=8", "stage B at i as Bp with S[j] = sum(k, i32(B[k,j]))",
   "opts:1:1: error: stage B: a reduction is made where an operand is packed ahead: space=packed"},
  {zero_kernel, "M=4 N=20 K=8", "stage B at i space=packed with S[j] = sum(k, i32(B[k,j]) * 2)",
   "opts:1:1: error: stage B with S[j] = sum(k, i32(B[k,j]) * 2): the kernel has no such reduction (it is looked for before its range is split)"},
  {zero_kernel, "M=4 N=20 K=8", "stage B at i space=packed with S[j] = sum(k, i32(B[j,k]))",
   "opts:1:1: error: stage B with S[j] = sum(k, i32(B[j,k])): the kernel has no such reduction (it is looked for before its range is split)"},
  {zero_kernel, "M=4 N=20 K=8", "split q 4\nstage B at i space=packed with S[j] = sum(k, i32(B[k,j]))",
   "opts:2:1: error: stage B with S[j] = sum(k, i32(B[k,j])): the kernel has no such reduction (it is looked for before its range is split)"},
  {zero_kernel, "M=4 N=20 K=8", "stage B at i space=packed with S[j] = sum(k, i32(A[k,j]))",
   "opts:1:1: error: stage B with S[j] = sum(k, i32(A[k,j])): 'A' is none of its names"},
  {zero_kernel, "M=4 N=20 K=8", "stage B at i space=packed with S[j] = mean(k, i32(B[k,j]))",
   "opts:1:1: error: stage B with S[j] = mean(k, i32(B[k,j])): expected sum(, prod(, max( or min("},
  {zero_kernel, "M=4 N=20 K=8", "stage B at i space=packed with S[j] = sum(i32(B[k,j]))",
   "opts:1:1: error: stage B with S[j] = sum(i32(B[k,j])): 'k' is none of its names"},
  {zero_kernel, "M=4 N=20 K=8", "stage B at i space=packed with S[j, k] = sum(i32(B[k,j]))",
   "opts:1:1: error: stage B with S[j, k] = sum(i32(B[k,j])): each dimension of it is a subscript or summed over, and one is summed over at least"},
  {zero_kernel, "M=4 N=20 K=8", "stage B at i space=packed with",
   "opts:1:31: error: expected S[j] = sum(k, ..) at the end of 'stage B at i space=packed with'"},
  {matmul_kernel, "M=4 N=4 K=4", "thread k static",
   "opts:1:1: error: thread k (line 6): static is for loops; the parts of a sum are tasks of one size"},
  {matmul_kernel, "M=4 N=4 K=4", "thread i guided",
   "opts:1:10: error: expected the end of the opt, not 'guided'"},
  {matmul_kernel, "M=4 N=4 K=4", "stage C at i space=packed",
   "opts:1:1: error: stage C: only an input of the kernel can be packed ahead of it"},
  {matmul_kernel, "M=4 N=4 K=4", "stage B at k space=packed",
   "opts:1:1: error: stage B at k: no loop of that name reads it"},
  {matmul_kernel, "M=4 N=4 K=4", "stage B at i as Bp[k, j] space=packed depth=2",
   "opts:1:1: error: stage B: all of it is packed ahead, and depth is of copies in a loop"},
  {matmul_kernel, "M=4 N=4 K=4", "stage B at i as Bp[k, j] align=64 space=packed",
   "opts:1:1: error: stage B: the caller keeps what is packed, and aligns it"},
  {matmul_kernel, "M=4 N=4 K=4", "stage B at i as Bp[k, j] pitch=3 space=packed",
   "opts:1:1: error: stage B: a pitch of 3 is below the 4 elements of a row"},
  {matmul_kernel, "M=4 N=99999999999999 K=4", "stage B at i space=packed",
   "opts:1:1: error: stage B: its dimension 1 has no bound below 2^40"},
  {lowest_kernel, "M=3 N=3", "order k i", "opts:1:1: error: order: the sum over k (line 4) cannot be taken in blocks: it is a general reduction"},
  {matmul_kernel, "M=4 N=32 K=16", "lane k\nprefetch B at k ahead 8",
   "opts:2:1: error: prefetch B at k (line 6): it is lane, and its iterations do not come one after another"},
  {matmul_kernel, "M=4 N=32 K=16", "prefetch C at k ahead 8 rw",
   "opts:1:1: error: prefetch C at k: what is summed does not read it or store to it"},
  {matmul_kernel, "M=4 N=4 K=4", "prefetch B at i ahead 1 of k", "opts:1:1: error: prefetch B at i of k: that is the range of a sum, not a loop"},
  {matmul_kernel, "M=4 N=4 K=4", "prefetch B at i ahead 1 of j", "opts:1:1: error: prefetch B at i of j: there is no i in it, or it does not read B"},
  {matmul_kernel, "M=4 N=4 K=4", "prefetch B at k ahead 1 of", "opts:1:27: error: expected a range at the end of 'prefetch B at k ahead 1 of'"},
  {matmul_kernel, "M=4 N=4 K=4", "lane j\nprefetch B at k ahead 1 of j",
   "opts:2:1: error: prefetch B at k of j (line 5): that is lane, and its iterations do not come one after another"},
  {matmul_kernel, "M=4 N=4096 K=4096", "prefetch B at j ahead 1 of i", "opts:1:1: error: prefetch B at j: an iteration asks for more than 64 lines"},
  {matmul_kernel, "M=4 N=1..9999999999 K=4", "prefetch B at k ahead 1 of i", "opts:1:1: error: prefetch B at k of i: the iterations of j within it have no constant bound"},
  {matmul_kernel, "M=4 N=32 K=512", "split k 256 as ko ku\nprefetch B at ko ahead 1",
   "opts:2:1: error: prefetch B at ko: an iteration reads more than 64 lines"},
  {matmul_kernel, "M=4 N=32 K=16", "stage B at i as Bp\nprefetch Bp at i ahead 1",
   "opts:2:1: error: prefetch Bp at i: it begins anew in each iteration"},
  {half_kernel, "M=4 N=1..9999999999 K=10", "order i k j",
   "opts:1:1: error: order: the sum over k (line 6) cannot be taken in blocks: C cannot hold what was added so far (it has the type f16), and a tile of f32 over the loops inside, down to j (line 5), would have more than 2^26 elements: split them, and leave the outer parts outside of the blocks"},
  {half_kernel, "M=70000 N=70000 K=10", "order k i j",
   "opts:1:1: error: order: the sum over k (line 6) cannot be taken in blocks: C cannot hold what was added so far (it has the type f16), and a tile of f32 over the loops inside, down to j (line 5), would have more than 2^26 elements: split them, and leave the outer parts outside of the blocks"},
  {pair_kernel, "M=4 N=4 K=10", "order k i j",
   "opts:1:1: error: order: the sum over k (line 7) cannot be taken in blocks: `D[i, j] = sum(k : 10, A[i, k] * B[k, j]) + C[i, j]` inside reads C, which is complete in the last block only"},
};
