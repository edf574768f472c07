/* SPDX-License-Identifier: MIT
 * The programs after each word and after raising, and the text of every refusal. Included by schedule.c. */
static const char copy_kernel[] =
    "kernel copy(N) {\n"
    "  in(x, f32, [N]);\n"
    "  out(y, f32, [N]);\n"
    "  range(i, N) y[i] = x[i] * 2;\n"
    "}\n";
static const char total_kernel[] =
    "kernel total(N) {\n"
    "  in(x, f32, [N]);\n"
    "  out(y, f32, []);\n"
    "  y = sum(k : N, x[k]);\n"
    "}\n";
static const char tile_kernel[] =
    "kernel tile() {\n"
    "  in(x, f32, [12, 6]);\n"
    "  out(y, f32, [12]);\n"
    "  range(b, 3) {\n"
    "    define_reg(acc, f32, [4]);\n"
    "    range(i, 4) acc[i] = 1;\n"
    "    range(k, 6) {\n"
    "      range(i, 4) acc[i] = acc[i] * x[b*4 + i, k] + 1;\n"
    "    }\n"
    "    range(m, 4) y[b*4 + m] = acc[m];\n"
    "  }\n"
    "}\n";
static const char twice_kernel[] =
    "kernel twice(N) {\n"
    "  in(x, f32, [N]);\n"
    "  out(y, f32, [N]);\n"
    "  out(z, f32, [N]);\n"
    "  range(i, N) y[i] = x[i] + 1;\n"
    "  range(i, N) z[i] = x[i] * 2;\n"
    "}\n";
static const char scan_kernel[] =
    "kernel scan(N) {\n"
    "  in(x, f32, [N]);\n"
    "  out(y, f32, [N]);\n"
    "  y[0] = x[0];\n"
    "  range(i, N - 1) y[i + 1] = y[i] + x[i + 1];\n"
    "}\n";
static const char inorder_kernel[] =
    "kernel inorder(N) {\n"
    "  in(x, f32, [N]);\n"
    "  out(y, f32, []);\n"
    "  y = sum_in_order(k : N, x[k]);\n"
    "}\n";
static const char uneven_kernel[] =
    "kernel uneven(N) {\n"
    "  in(a, f32, [N, 3]);\n"
    "  in(n, i32 in 0..2, [3]);\n"
    "  out(y, f32, [N, 3]);\n"
    "  range(i, N) {\n"
    "    define_reg(t, f32, [3]);\n"
    "    range(j, 3) t[j] = a[i,j] * a[i,j] + a[i,0] * 2 - a[i,1];\n"
    "    range(j, 3)\n"
    "      y[i,j] = where(t[j] <= t[0], 1, sum(k : n[j], a[i,k]));\n"
    "  }\n"
    "}\n";
static const char counted_kernel[] =
    "kernel counted(N) {\n"
    "  in(a, f32, [N, 3]);\n"
    "  in(n, i32 in 0..2, [3]);\n"
    "  out(y, f32, [N, 3]);\n"
    "  range(i, N) range(j, 3)\n"
    "    y[i,j] = sum(k : n[j], a[i,k]);\n"
    "}\n";
static const char imperfect_kernel[] =
    "kernel imperfect(N) {\n"
    "  in(x, f32, [N, N]);\n"
    "  out(y, f32, [N, N]);\n"
    "  out(z, f32, [N]);\n"
    "  range(i, N) {\n"
    "    z[i] = x[i, 0];\n"
    "    range(j, N) y[i,j] = x[i,j];\n"
    "  }\n"
    "}\n";
static const char skew_kernel[] =
    "kernel skew(N) {\n"
    "  in(x, f32, [N]);\n"
    "  inout(y, f32, [N + 2, N + 2]);\n"
    "  range(a, N) range(b, N) y[a + 1, b] = y[a, b + 1] + x[b];\n"
    "}\n";
static const char triangle_kernel[] =
    "kernel triangle(N) {\n"
    "  in(x, f32, [N, N]);\n"
    "  inout(y, f32, [N, N]);\n"
    "  range(i, N) range(j, i + 1) y[i,j] = x[i,j];\n"
    "}\n";
static const char causal_kernel[] =
    "kernel causal(N) {\n"
    "  in(x, f32, [N, N]);\n"
    "  out(y, f32, [N, N]);\n"
    "  range(i, N) range(j, N) y[i,j] = where(j <= i, x[i,j] * 2, -inf);\n"
    "}\n";
static const char window_kernel[] =
    "kernel window(N) {\n"
    "  in(x, f32, [N, N]);\n"
    "  out(y, f32, [N]);\n"
    "  range(i, N) y[i] = sum(j : N, where(j <= i & i - 5 < j, x[i,j], 0));\n"
    "}\n";
static const char launch_kernel[] =
    "kernel launch(N) {\n"
    "  in(x, f32, [N, N]);\n"
    "  out(y, f32, [N, N]);\n"
    "  range(b, N, global) range(c, N, global) y[b,c] = x[c,b];\n"
    "}\n";
static const char inplace_kernel[] =
    "kernel inplace(N) {\n"
    "  in(x, f32, [N]);\n"
    "  inout(y, f32, [N]);\n"
    "  range(i, N) y[i] = y[i] + x[i];\n"
    "}\n";
static const char r1_kernel[] =
    "kernel r1(N) {\n"
    "  in(x, f32, [N]);\n"
    "  out(y, f32, []);\n"
    "  define_reg(s, f32, []);\n"
    "  s = 0;\n"
    "  range(k, N) s += x[k];\n"
    "  y = s;\n"
    "}\n";
static const char r2_kernel[] =
    "kernel r2(N) {\n"
    "  in(a, f32, [N, 3]);\n"
    "  in(b, f32, [3, N]);\n"
    "  out(y, f32, [N, N]);\n"
    "  range(i, N) {\n"
    "    range(j, N) y[i,j] = 0;\n"
    "    range(k, 3) range(j, N) y[i,j] += a[i,k] * b[k,j];\n"
    "  }\n"
    "}\n";
static const char r3_kernel[] =
    "kernel r3(N) {\n"
    "  in(x, f32, [N, N]);\n"
    "  out(y, f32, [N]);\n"
    "  range(i, N) {\n"
    "    define_reg(m, f32, []);\n"
    "    m = x[i,0];\n"
    "    range(k, N) m = max(m, x[i,k]);\n"
    "    y[i] = m;\n"
    "  }\n"
    "}\n";
static const char r4_kernel[] =
    "kernel r4(N) {\n"
    "  in(x, f32, [N]);\n"
    "  out(y, f32, [N]);\n"
    "  define_reg(t, f32, [N]);\n"
    "  range(i, N) t[i] = x[i] + 1;\n"
    "  range(i, N) y[i] = t[i] * 2;\n"
    "}\n";
static const char r5_kernel[] =
    "kernel r5(N) {\n"
    "  in(x, f32, [N]);\n"
    "  out(y, f32, [N]);\n"
    "  define_reg(t, f32, [N]);\n"
    "  range(i, N) t[i] = exp(x[i]);\n"
    "  range(i, N) y[i] = t[i] + sum(k : N, t[k]);\n"
    "}\n";
static const char r6_kernel[] =
    "kernel r6(N) {\n"
    "  in(x, f32, [N, N]);\n"
    "  out(y, f32, [N]);\n"
    "  range(i, N) {\n"
    "    define_reg(s, f32, []);\n"
    "    s = 0;\n"
    "    range(k, N) s = s * 2 + x[i,k];\n"
    "    y[i] = s;\n"
    "  }\n"
    "}\n";
static const char r7_kernel[] =
    "kernel r7(N) {\n"
    "  in(a, f32, [4, 5]);\n"
    "  in(b, f32, [5, N]);\n"
    "  out(y, f32, [4, N]);\n"
    "  define_reg(acc, f32, [4, N]);\n"
    "  range(i, 4) range(j, N) acc[i,j] = 0;\n"
    "  range(k, 5) range(i, 4) range(j, N) acc[i,j] += a[i,k] * b[k,j];\n"
    "  range(i, 4) range(j, N) y[i,j] = acc[i,j];\n"
    "}\n";
static const char r8_kernel[] =
    "kernel r8(N) {\n"
    "  inout(y, f32, [N]);\n"
    "  out(z, f32, [N]);\n"
    "  define_reg(s, f32, []);\n"
    "  range(i, N) {\n"
    "    s = y[i];\n"
    "    y[i] = y[i] + 1;\n"
    "    z[i] = s;\n"
    "  }\n"
    "}\n";
static const char r9_kernel[] =
    "kernel r9(N) {\n"
    "  in(x, i32, [N]);\n"
    "  out(y, i32, [N]);\n"
    "  range(i, N) {\n"
    "    define_reg(s, i32, []);\n"
    "    s = 1;\n"
    "    range(k, N) if (x[k] > 1) s += x[k];\n"
    "    y[i] = s + i32(i);\n"
    "  }\n"
    "}\n";

static const char lookup_kernel[] =
    "kernel lookup(N) {\n"
    "  in(n, i32, [8]);\n"
    "  in(x, f32, [N + 4]);\n"
    "  out(y, f32, [N, 8]);\n"
    "  range(o, N) range(i, 8) y[o,i] = x[o + index(n[i])] else 0;\n"
    "}\n";


static const char bytes_kernel[] =
    "kernel bytes(M, N, K) {\n"
    "  in(A, u8, [M, K]);\n"
    "  in(B, i8, [K, N]);\n"
    "  out(C, i32, [M, N]);\n"
    "  range(i, M) range(j, N)\n"
    "    C[i,j] = sum(k : K, i32(A[i,k]) * i32(B[k,j])) + 1;\n"
    "}\n";
static const expectation word_cases[] = {
  {bytes_kernel, "M=2 N=32 K=8", "split j 16 as jo jr\nsplit k 4 as ko ki\ncontract vpdpbusd n=jr k=ki",
    "range(i, 2) {\n"
    "  range(jo, 2) {\n"
    "    define_reg(acc, i32[16], []);\n"
    "    acc = i32(1);\n"
    "    range(ko, 2) {\n"
    "      let %0 = ko * 4;\n"
    "      acc = matrix(vpdpbusd, A[i, %0 + iota(4)], B[iota(64) % 4 + %0, iota(64) / 4 + jo * 16], acc, 1);\n"
    "    }\n"
    "    C[i, jo * 16 + iota(16)] = acc;\n"
    "  }\n"
    "}\n"},
  {bytes_kernel, "M=3 N=16 K=6", "split i {2, 1} as io ii\nsplit k 4 as ko ki\ncontract vpdpbusd n=j k=ki",   /* copies of a statement, a sum with a rest */
    "range(ii.by2, 2) {\n"
    "  define_reg(acc, i32[16], []);\n"
    "  acc = i32(1);\n"
    "  range(ko, 2) {\n"
    "    let %0 = ko * 4;\n"
    "    let %1 = %0 + iota(4);\n"
    "    let %2 = iota(64) % 4 + %0;\n"
    "    acc = matrix(vpdpbusd, A[ii.by2, %1] if (%1 < 6) else u8(0), B[%2, iota(64) / 4] if (%2 < 6) else i8(0), acc, 1);\n"
    "  }\n"
    "  C[ii.by2, iota(16)] = acc;\n"
    "}\n"
    "define_reg(acc.1, i32[16], []);\n"
    "acc.1 = i32(1);\n"
    "range(ko, 2) {\n"
    "  let %3 = ko * 4;\n"
    "  let %4 = %3 + iota(4);\n"
    "  let %5 = iota(64) % 4 + %3;\n"
    "  acc.1 = matrix(vpdpbusd, A[2, %4] if (%4 < 6) else u8(0), B[%5, iota(64) / 4] if (%5 < 6) else i8(0), acc.1, 1);\n"
    "}\n"
    "C[2, iota(16)] = acc.1;\n"},
  {lookup_kernel, "N=2", "stage x at o as xs",   /* no subscript from memory reads outside of x */
    "range(o, 2) {\n"
    "  define_local(xs, f32, [7], align 64);\n"
    "  range(xs.0, 7) {\n"
    "    let %0 = o + xs.0;\n"
    "    xs[xs.0] = x[%0 + -1] if (0 < %0 & %0 < 7) else 0.0f;\n"
    "  }\n"
    "  range(i, 8) {\n"
    "    let %1 = index(n[i]);\n"
    "    let %2 = %1 + o;\n"
    "    y[o, i] = xs[%1 + 1] if (%2 < 6 & -1 < %2) else 0.0f;\n"
    "  }\n"
    "}\n"},
  {matmul_kernel, "M=12 N=16 K=6", "split i 4 as io ir",
    "range(io, 3) {\n"
    "  range(ir, 4) {\n"
    "    range(j, 16) {\n"
    "      let %0 = io * 4 + ir;\n"
    "      C[%0, j] = sum(k : 6, A[%0, k] * B[k, j]);\n"
    "    }\n"
    "  }\n"
    "}\n"},
  {matmul_kernel, "M=10 N=16 K=6", "split i 4",
    "range(i.0, 3) {\n"
    "  range(i.1, 4) {\n"
    "    range(j, 16) {\n"
    "      let %0 = i.0 * 4 + i.1;\n"
    "      let %1 = %0 < 10;\n"
    "      C[%0, j] = sum(k : 6, (A[%0, k] if %1 else 0.0f) * B[k, j]) if %1;\n"
    "    }\n"
    "  }\n"
    "}\n"},
  {matmul_kernel, "M=12 N=16 K=6", "order j i",
    "range(j, 16) {\n"
    "  range(i, 12) {\n"
    "    C[i, j] = sum(k : 6, A[i, k] * B[k, j]);\n"
    "  }\n"
    "}\n"},
  {matmul_kernel, "M=12 N=16 K=6", "tile i 4 j 8",
    "range(i.0, 3) {\n"
    "  range(j.0, 2) {\n"
    "    range(i.1, 4) {\n"
    "      range(j.1, 8) {\n"
    "        let %0 = i.0 * 4 + i.1;\n"
    "        let %1 = j.0 * 8 + j.1;\n"
    "        C[%0, %1] = sum(k : 6, A[%0, k] * B[k, %1]);\n"
    "      }\n"
    "    }\n"
    "  }\n"
    "}\n"},
  {matmul_kernel, "M=12 N=16 K=6", "split k 4\norder k.1 k.0",
    "range(i, 12) {\n"
    "  range(j, 16) {\n"
    "    C[i, j] = sum(k.1 : 4, k.0 : 2, let %0 = k.0 * 4 + k.1; let %1 = %0 < 6; where(%1, (A[i, %0] if %1 else 0.0f) * (B[%0, j] if %1 else 0.0f), 0.0f));\n"
    "  }\n"
    "}\n"},
  {matmul_kernel, "M=12 N=16 K=8", "split k 4\nunroll k.1\nupcast k.0",
    "range(i, 12) {\n"
    "  range(j, 16) {\n"
    "    C[i, j] = sum(k.0 : 2 upcast, k.1 : 4 unroll, let %0 = k.0 * 4 + k.1; A[i, %0] * B[%0, j]);\n"
    "  }\n"
    "}\n"},
  {matmul_kernel, "M=12 N=16 K=6", "upcast i 4",
    "range(i.0, 3) {\n"
    "  range(i.1, 4, upcast) {\n"
    "    range(j, 16) {\n"
    "      let %0 = i.0 * 4 + i.1;\n"
    "      C[%0, j] = sum(k : 6, A[%0, k] * B[k, j]);\n"
    "    }\n"
    "  }\n"
    "}\n"},
  {matmul_kernel, "M=12 N=16 K=6", "lane j 8\nupcast i",
    "range(i, 12, upcast) {\n"
    "  range(j.0, 2) {\n"
    "    range(j.1, 8, lane) {\n"
    "      let %0 = j.0 * 8 + j.1;\n"
    "      C[i, %0] = sum(k : 6, A[i, k] * B[k, %0]);\n"
    "    }\n"
    "  }\n"
    "}\n"},
  {matmul_kernel, "M=12 N=16 K=6", "thread j 8",
    "range(j.0, 2, thread) {\n"
    "  range(i, 12) {\n"
    "    range(j.1, 8) {\n"
    "      let %0 = j.0 * 8 + j.1;\n"
    "      C[i, %0] = sum(k : 6, A[i, k] * B[k, %0]);\n"
    "    }\n"
    "  }\n"
    "}\n"},
  {imperfect_kernel, "N=8", "thread j",
    "range(i, 8) {\n"
    "  z[i] = x[i, 0];\n"
    "  range(j, 8, thread) {\n"
    "    y[i, j] = x[i, j];\n"
    "  }\n"
    "}\n"},
  {skew_kernel, "N=8", "thread b 4",
    "range(a, 8) {\n"
    "  range(b.0, 2, thread) {\n"
    "    range(b.1, 4) {\n"
    "      let %0 = b.0 * 4 + b.1;\n"
    "      y[a + 1, %0] = x[%0] + y[a, %0 + 1];\n"
    "    }\n"
    "  }\n"
    "}\n"},
  {matmul_kernel, "M=12 N=16 K=6", "local j 4",
    "range(i, 12) {\n"
    "  range(j.0, 4) {\n"
    "    range(j.1, 4, local) {\n"
    "      let %0 = j.0 * 4 + j.1;\n"
    "      C[i, %0] = sum(k : 6, A[i, k] * B[k, %0]);\n"
    "    }\n"
    "  }\n"
    "}\n"},
  {matmul_kernel, "M=10 N=16 K=6", "pad i 4",
    "range(i, 12) {\n"
    "  range(j, 16) {\n"
    "    let %0 = i < 10;\n"
    "    C[i, j] = sum(k : 6, (A[i, k] if %0 else 0.0f) * B[k, j]) if %0;\n"
    "  }\n"
    "}\n"},
  {matmul_kernel, "M=12 N=16 K=6", "cut i first",
    "range(j, 16) {\n"
    "  C[0, j] = sum(k : 6, A[0, k] * B[k, j]);\n"
    "}\n"
    "range(i.main, 11) {\n"
    "  range(j, 16) {\n"
    "    let %0 = i.main + 1;\n"
    "    C[%0, j] = sum(k : 6, A[%0, k] * B[k, j]);\n"
    "  }\n"
    "}\n"},
  {matmul_kernel, "M=10 N=16 K=6", "split i 4\ncut i.0 last",
    "range(i.0.main, 2) {\n"
    "  range(i.1, 4) {\n"
    "    range(j, 16) {\n"
    "      let %0 = i.1 + i.0.main * 4;\n"
    "      C[%0, j] = sum(k : 6, A[%0, k] * B[k, j]);\n"
    "    }\n"
    "  }\n"
    "}\n"
    "range(i.1, 4) {\n"
    "  range(j, 16) {\n"
    "    let %1 = i.1 + 8;\n"
    "    let %2 = i.1 < 2;\n"
    "    C[%1, j] = sum(k : 6, (A[%1, k] if %2 else 0.0f) * B[k, j]) if %2;\n"
    "  }\n"
    "}\n"},
  {matmul_kernel, "M=17 N=16 K=6", "split i {14, 2, 1} as io ii\nupcast ii.by2\nunroll ii.by14",
    "range(ii.by14, 14, unroll) {\n"
    "  range(j, 16) {\n"
    "    C[ii.by14, j] = sum(k : 6, A[ii.by14, k] * B[k, j]);\n"
    "  }\n"
    "}\n"
    "range(ii.by2, 2, upcast) {\n"
    "  range(j, 16) {\n"
    "    let %0 = ii.by2 + 14;\n"
    "    C[%0, j] = sum(k : 6, A[%0, k] * B[k, j]);\n"
    "  }\n"
    "}\n"
    "range(j, 16) {\n"
    "  C[16, j] = sum(k : 6, A[16, k] * B[k, j]);\n"
    "}\n"},
  {matmul_kernel, "M=1..99 N=16 K=6", "split i {14, 4} as io ii\nupcast ii",
    "range(io.by14, M / 14) {\n"
    "  range(ii.by14, 14, upcast) {\n"
    "    range(j, 16) {\n"
    "      let %0 = io.by14 * 14 + ii.by14;\n"
    "      C[%0, j] = sum(k : 6, A[%0, k] * B[k, j]);\n"
    "    }\n"
    "  }\n"
    "}\n"
    "range(io.by4, (M % 14 + 3) / 4) {\n"
    "  range(ii.by4, 4, upcast) {\n"
    "    range(j, 16) {\n"
    "      let %1 = M / 14 * 14 + io.by4 * 4 + ii.by4;\n"
    "      let %2 = %1 < M;\n"
    "      C[%1, j] = sum(k : 6, (A[%1, k] if %2 else 0.0f) * B[k, j]) if %2;\n"
    "    }\n"
    "  }\n"
    "}\n"},
  {total_kernel, "N=20", "split k {16, 3}",
    "y = sum(k.1.by16 : 16, x[k.1.by16]) + sum(k.0.by3 : 2, k.1.by3 : 3, let %0 = k.0.by3 * 3 + k.1.by3; let %1 = %0 < 4; where(%1, x[%0 + 16] if %1 else 0.0f, 0.0f));\n"},
  {matmul_kernel, "M=12 N=16 K=6", "fuse i j as e\nsplit e 8\nlane e.1",
    "range(e.0, 24) {\n"
    "  range(e.1, 8, lane) {\n"
    "    let %0 = e.0 / 2;\n"
    "    let %1 = e.0 % 2 * 8 + e.1;\n"
    "    C[%0, %1] = sum(k : 6, A[%0, k] * B[k, %1]);\n"
    "  }\n"
    "}\n"},
  {matmul_kernel, "M=1..12 N=1..16 K=6", "fuse i j as e",
    "range(e, M * N) {\n"
    "  let %0 = e / N;\n"
    "  let %1 = e % N;\n"
    "  C[%0, %1] = sum(k : 6, A[%0, k] * B[k, %1]);\n"
    "}\n"},
  {matmul_kernel, "M=12 N=16 K=6", "split k 2 as ko ki\nfuse ko ki as q",
    "range(i, 12) {\n"
    "  range(j, 16) {\n"
    "    C[i, j] = sum(q : 6, A[i, q] * B[q, j]);\n"
    "  }\n"
    "}\n"},
  {launch_kernel, "N=8", "swap b c",
    "range(c, 8, global) {\n"
    "  range(b, 8, global) {\n"
    "    y[b, c] = x[c, b];\n"
    "  }\n"
    "}\n"},
  {causal_kernel, "N=8", "cut j auto",
    "range(i, 8) {\n"
    "  range(j.main, i + 1) {\n"
    "    y[i, j.main] = x[i, j.main] * 2.0f;\n"
    "  }\n"
    "  range(j.none, i * -1 + 7) {\n"
    "    y[i, i + j.none + 1] = f32(-inf);\n"
    "  }\n"
    "}\n"},
  {causal_kernel, "N=1..8", "split j 4 as jo ji\ncut jo auto",
    "range(i, N) {\n"
    "  range(jo.main, (i + 1) / 4) {\n"
    "    range(ji, 4) {\n"
    "      let %0 = ji + jo.main * 4;\n"
    "      y[i, %0] = x[i, %0] * 2.0f;\n"
    "    }\n"
    "  }\n"
    "  range(jo.last, min(N / 4, i / 4 + 1) + (i + 1) / 4 * -1) {\n"
    "    range(ji, 4) {\n"
    "      let %1 = i + 1;\n"
    "      let %2 = %1 / 4 * 4 + jo.last * 4 + ji;\n"
    "      y[i, %2] = where(%2 < %1, x[i, %2] * 2.0f, f32(-inf));\n"
    "    }\n"
    "  }\n"
    "  let %3 = N / 4;\n"
    "  range(jo.none, min(%3, i / 4 + 1) * -1 + %3) {\n"
    "    range(ji, 4) {\n"
    "      y[i, min(N / 4, i / 4 + 1) * 4 + jo.none * 4 + ji] = f32(-inf);\n"
    "    }\n"
    "  }\n"
    "  range(jo.last, N / 4 * -1 + (N + 3) / 4) {\n"
    "    range(ji, 4) {\n"
    "      let %4 = N / 4 * 4 + jo.last * 4 + ji;\n"
    "      let %5 = %4 < N;\n"
    "      y[i, %4] = where(%4 < i + 1, (x[i, %4] if %5 else 0.0f) * 2.0f, f32(-inf)) if %5;\n"
    "    }\n"
    "  }\n"
    "}\n"},
  {"kernel narrow(N) {\n  in(x, u64, [N]);\n  out(y, u64, [N]);\n  range(i, N) y[i] = u64(i8(x[i])) * 3;\n}\n", "N=4", "stage x at i",
    "range(i, 4) {\n"
    "  define_local(x.copy, u64, [1], align 64);\n"
    "  x.copy[0] = x[i];\n"
    "  y[i] = u64(i8(x.copy[0])) * 3;\n"
    "}\n"},
  {window_kernel, "N=8", "split j 4 as jo ji\ncut jo auto",
    "range(i, 8) {\n"
    "  let %0 = max((i + 3) / 4 + -1, 0);\n"
    "  let %1 = i + 1;\n"
    "  let %2 = %1 / 4;\n"
    "  y[i] = sum(jo.main : %0 * -1 + %2, ji : 4, x[i, %0 * 4 + ji + jo.main * 4]) + sum(jo.first : %0, ji : 4, where(i < ji + 5, x[i, ji], 0.0f)) + sum(jo.last : %2 * -1 + i / 4 + 1, ji : 4, let %3 = %2 * 4 + jo.last * 4 + ji; where(%3 < %1 & i < %3 + 5, x[i, %3], 0.0f));\n"
    "}\n"},
  {copy_kernel, "N=1..99", "split i 8\ncut i.0 auto\nlane i.0.main.i.1",
    "range(i.0.main, N / 8) {\n"
    "  range(i.1, 8, lane) {\n"
    "    let %0 = i.1 + i.0.main * 8;\n"
    "    y[%0] = x[%0] * 2.0f;\n"
    "  }\n"
    "}\n"
    "range(i.0.last, (N + 7) / 8 + N / 8 * -1) {\n"
    "  range(i.1, 8) {\n"
    "    let %1 = N / 8 * 8 + i.0.last * 8 + i.1;\n"
    "    let %2 = %1 < N;\n"
    "    y[%1] = (x[%1] if %2 else 0.0f) * 2.0f if %2;\n"
    "  }\n"
    "}\n"},
  {copy_kernel, "N=16", "cut i auto\nlane i.main",
    "range(i.main, 16, lane) {\n"
    "  y[i.main] = x[i.main] * 2.0f;\n"
    "}\n"},
  {matmul_kernel, "M=12 N=16 K=6", "cut j at N/2 as ja jb",
    "range(i, 12) {\n"
    "  range(ja, 8) {\n"
    "    C[i, ja] = sum(k : 6, A[i, k] * B[k, ja]);\n"
    "  }\n"
    "  range(jb, 8) {\n"
    "    let %0 = jb + 8;\n"
    "    C[i, %0] = sum(k : 6, A[i, k] * B[k, %0]);\n"
    "  }\n"
    "}\n"},
  {matmul_kernel, "M=12 N=16 K=6", "cut k at 4",
    "range(i, 12) {\n"
    "  range(j, 16) {\n"
    "    C[i, j] = sum(k.1 : 2, let %0 = k.1 + 4; A[i, %0] * B[%0, j]) + sum(k.0 : 4, A[i, k.0] * B[k.0, j]);\n"
    "  }\n"
    "}\n"},
  {matmul_kernel, "M=12 N=16 K=6", "split k 4 clip as kc kr\norder j kc i",
    "range(j, 16) {\n"
    "  range(kc, 2) {\n"
    "    range(i, 12) {\n"
    "      C[i, j] = sum(kr : min(kc * -4 + 6, 4), let %0 = kr + kc * 4; A[i, %0] * B[%0, j]) + (C[i, j] if (0 < kc) else 0.0f);\n"
    "    }\n"
    "  }\n"
    "}\n"},
  {matmul_kernel, "M=12 N=16 K=6", "split j 8\norder j.0 i j.1\nstage B at j.0 as Bp",
    "range(j.0, 2) {\n"
    "  define_local(Bp, f32, [6, 8], align 64);\n"
    "  range(Bp.0, 6) {\n"
    "    range(Bp.1, 8) {\n"
    "      Bp[Bp.0, Bp.1] = B[Bp.0, j.0 * 8 + Bp.1];\n"
    "    }\n"
    "  }\n"
    "  range(i, 12) {\n"
    "    range(j.1, 8) {\n"
    "      C[i, j.0 * 8 + j.1] = sum(k : 6, A[i, k] * Bp[k, j.1]);\n"
    "    }\n"
    "  }\n"
    "}\n"},
  {matmul_kernel, "M=12 N=16 K=6", "stage A at i as row space=reg pitch=8",
    "range(i, 12) {\n"
    "  define_reg(row, f32, [1, 8]);\n"
    "  range(row.1, 6) {\n"
    "    row[0, row.1] = A[i, row.1];\n"
    "  }\n"
    "  range(j, 16) {\n"
    "    C[i, j] = sum(k : 6, B[k, j] * row[0, k]);\n"
    "  }\n"
    "}\n"},
  {matmul_kernel, "M=6 N=10 K=6", "split i 4\nsplit j 4\norder j.0 i.0 i.1 j.1\nstage B at j.0 as Bp[j/4, k/2, j%4, k%2] pitch=3 fill=0\nstage A at i.0 as Ap[k, i] align=32 space=thread",
    "range(j.0, 3) {\n"
    "  define_local(Bp, f32, [1, 3, 4, 3], align 64);\n"
    "  range(Bp.1, 3) {\n"
    "    range(Bp.2, 4) {\n"
    "      range(Bp.3, 2) {\n"
    "        let %0 = j.0 * 4 + Bp.2;\n"
    "        Bp[0, Bp.1, Bp.2, Bp.3] = B[Bp.1 * 2 + Bp.3, %0] if (%0 < 10) else 0.0f;\n"
    "      }\n"
    "    }\n"
    "  }\n"
    "  range(i.0, 2) {\n"
    "    define_local(Ap, f32, [6, 4], align 32);\n"
    "    range(Ap.0, 6) {\n"
    "      range(Ap.1, 4) {\n"
    "        let %1 = i.0 * 4 + Ap.1;\n"
    "        Ap[Ap.0, Ap.1] = A[%1, Ap.0] if (%1 < 6) else 0.0f;\n"
    "      }\n"
    "    }\n"
    "    range(i.1, 4) {\n"
    "      range(j.1, 4) {\n"
    "        let %2 = i.0 * 4 + i.1;\n"
    "        let %3 = j.0 * 4 + j.1;\n"
    "        C[%2, %3] = sum(k : 6, Bp[0, k / 2, j.1, k % 2] * Ap[k, i.1]) if %2 < 6 & %3 < 10;\n"
    "      }\n"
    "    }\n"
    "  }\n"
    "}\n"},
  {matmul_kernel, "M=6 N=10 K=6", "split j 4\norder j.0 i j.1\nstage B at j.0 as Bp[j, k] as f64 depth=3",
    "define_local(Bp, f64, [3, 4, 6], align 64);\n"
    "range(Bp.first, 2) {\n"
    "  range(Bp.0, 4) {\n"
    "    range(Bp.1, 6) {\n"
    "      Bp[Bp.first, Bp.0, Bp.1] = f64(B[Bp.1, Bp.0 + Bp.first * 4]);\n"
    "    }\n"
    "  }\n"
    "}\n"
    "range(j.0, 3) {\n"
    "  range(Bp.0, 4) {\n"
    "    range(Bp.1, 6) {\n"
    "      let %0 = j.0 * 4 + Bp.0;\n"
    "      let %1 = j.0 < 1;\n"
    "      Bp[(j.0 + 2) % 3, Bp.0, Bp.1] = f64(B[Bp.1, %0 + 8] if (%0 < 2 & %1) else 0.0f) if %1;\n"
    "    }\n"
    "  }\n"
    "  range(i, 6) {\n"
    "    range(j.1, 4) {\n"
    "      let %2 = j.0 * 4 + j.1;\n"
    "      C[i, %2] = sum(k : 6, f32(Bp[j.0, j.1, k]) * A[i, k]) if %2 < 10;\n"
    "    }\n"
    "  }\n"
    "}\n"},
  {matmul_kernel, "M=12 N=16 K=20", "split i 4 as io ii\nprefetch A at io ahead 1 to l2\nprefetch C at j ahead 3 rw",
    "range(io, 3) {\n"
    "  range(A.fetch.0, 4, unroll) {\n"
    "    range(A.fetch.1, 2, unroll) {\n"
    "      prefetch(A[io * 4 + A.fetch.0 + 4, A.fetch.1 * 16], l2);\n"
    "    }\n"
    "  }\n"
    "  range(ii, 4) {\n"
    "    range(j, 16) {\n"
    "      prefetch(C[io * 4 + ii, j + 3], l1, rw);\n"
    "      let %0 = io * 4 + ii;\n"
    "      C[%0, j] = sum(k : 20, A[%0, k] * B[k, j]);\n"
    "    }\n"
    "  }\n"
    "}\n"},
  {matmul_kernel, "M=12 N=1..16 K=6", "lane i 4\nprefetch B at j ahead 1",
    "range(i.0, 3) {\n"
    "  range(i.1, 4, lane) {\n"
    "    range(j, N) {\n"
    "      range(B.fetch.0, 6, unroll) {\n"
    "        prefetch(B[B.fetch.0, j + 1], l1);\n"
    "      }\n"
    "      let %0 = i.0 * 4 + i.1;\n"
    "      C[%0, j] = sum(k : 6, A[%0, k] * B[k, j]);\n"
    "    }\n"
    "  }\n"
    "}\n"},
  {copy_kernel, "N=1..99", "specialize(N % 16 == 0)\nlane i 16",
    "range(i.0, where(N % 16 == 0, N / 16 * 16, 0) / 16) {\n"
    "  range(i.1, 16, lane) {\n"
    "    let %0 = i.0 * 16 + i.1;\n"
    "    y[%0] = x[%0] * 2.0f;\n"
    "  }\n"
    "}\n"
    "range(i.0, (where(N % 16 == 0, 0, N) + 15) / 16) {\n"
    "  range(i.1, 16, lane) {\n"
    "    let %1 = i.0 * 16 + i.1;\n"
    "    let %2 = %1 < where(N % 16 == 0, 0, N);\n"
    "    y[%1] = (x[%1] if %2 else 0.0f) * 2.0f if %2;\n"
    "  }\n"
    "}\n"},
  {total_kernel, "N=1..99", "specialize(N == 4)",
    "range(once.then, where(N == 4, 1, 0)) {\n"
    "  y = sum(k : 4, x[k]);\n"
    "}\n"
    "range(once.else, where(N == 4, 0, 1)) {\n"
    "  y = sum(k : N, x[k]);\n"
    "}\n"},
  {copy_kernel, "N=20", "stream y",
    "range(i, 20) {\n"
    "  y[i] = x[i] * 2.0f stream;\n"
    "}\n"},
  {copy_kernel, "N=20", "lane i 8\ncut i.0 last",
    "range(i.0.main, 2) {\n"
    "  range(i.1, 8, lane) {\n"
    "    let %0 = i.1 + i.0.main * 8;\n"
    "    y[%0] = x[%0] * 2.0f;\n"
    "  }\n"
    "}\n"
    "range(i.1, 8, lane) {\n"
    "  let %1 = i.1 + 16;\n"
    "  let %2 = i.1 < 4;\n"
    "  y[%1] = (x[%1] if %2 else 0.0f) * 2.0f if %2;\n"
    "}\n"},
  {total_kernel, "N=20", "split k 4\nthread k.0",
    "y = sum(k.0 : 5 thread, k.1 : 4, x[k.0 * 4 + k.1]);\n"},
  {tile_kernel, "", "split acc.i 2\nupcast acc.i.1",
    "range(b, 3) {\n"
    "  define_reg(acc, f32, [4]);\n"
    "  range(i.0, 2) {\n"
    "    range(i.1, 2, upcast) {\n"
    "      acc[i.0 * 2 + i.1] = 1.0f;\n"
    "    }\n"
    "  }\n"
    "  range(k, 6) {\n"
    "    range(i.0, 2) {\n"
    "      range(i.1, 2, upcast) {\n"
    "        let %0 = i.0 * 2;\n"
    "        let %1 = %0 + i.1;\n"
    "        acc[%1] = x[b * 4 + %0 + i.1, k] * acc[%1] + 1.0f;\n"
    "      }\n"
    "    }\n"
    "  }\n"
    "  range(m.0, 2) {\n"
    "    range(m.1, 2, upcast) {\n"
    "      let %2 = m.0 * 2;\n"
    "      y[b * 4 + %2 + m.1] = acc[%2 + m.1];\n"
    "    }\n"
    "  }\n"
    "}\n"},
  {tile_kernel, "", "split m 2\nupcast m.1",
    "range(b, 3) {\n"
    "  define_reg(acc, f32, [4]);\n"
    "  range(i.0, 2) {\n"
    "    range(i.1, 2, upcast) {\n"
    "      acc[i.0 * 2 + i.1] = 1.0f;\n"
    "    }\n"
    "  }\n"
    "  range(k, 6) {\n"
    "    range(i.0, 2) {\n"
    "      range(i.1, 2, upcast) {\n"
    "        let %0 = i.0 * 2;\n"
    "        let %1 = %0 + i.1;\n"
    "        acc[%1] = x[b * 4 + %0 + i.1, k] * acc[%1] + 1.0f;\n"
    "      }\n"
    "    }\n"
    "  }\n"
    "  range(m.0, 2) {\n"
    "    range(m.1, 2, upcast) {\n"
    "      let %2 = m.0 * 2;\n"
    "      y[b * 4 + %2 + m.1] = acc[%2 + m.1];\n"
    "    }\n"
    "  }\n"
    "}\n"},
  {twice_kernel, "N=8", "split z.i 4\nsplit i#1 2",
    "range(i.0, 4) {\n"
    "  range(i.1, 2) {\n"
    "    let %0 = i.0 * 2 + i.1;\n"
    "    y[%0] = x[%0] + 1.0f;\n"
    "  }\n"
    "}\n"
    "range(i.0, 2) {\n"
    "  range(i.1, 4) {\n"
    "    let %1 = i.0 * 4 + i.1;\n"
    "    z[%1] = x[%1] * 2.0f;\n"
    "  }\n"
    "}\n"},
};

static const char carried_kernel[] =
    "kernel carried(M, N) {\n"
    "  in(x, f32, [M, N]);\n"
    "  out(y, f32, [M]);\n"
    "  range(i, M) {\n"
    "    define_reg(s, f32, []);\n"
    "    s = 0;\n"
    "    range(k, N) carry(s) {\n"
    "      s = max(s, x[i,k]);\n"
    "      merge { s = max(a.s, b.s); }\n"
    "    }\n"
    "    y[i] = s;\n"
    "  }\n"
    "}\n";

static const char bytes_turned_kernel[] =
    "kernel bytes(M, N, K) {\n"
    "  in(A, i8, [M, K]);\n"
    "  in(B, u8, [K, N]);\n"
    "  out(C, i32, [M, N]);\n"
    "  range(i, M) range(j, N)\n"
    "    C[i,j] = sum(k : K, i32(A[i,k]) * i32(B[k,j]));\n"
    "}\n";
static const char bytes_in_order_kernel[] =
    "kernel bytes(N, K) {\n"
    "  in(A, u8, [K]);\n"
    "  in(B, i8, [K, N]);\n"
    "  out(C, i32, [N]);\n"
    "  range(j, N) C[j] = sum_in_order(k : K, i32(A[k]) * i32(B[k,j]));\n"
    "}\n";

static const expectation refusal_cases[] = {
  {bytes_kernel, "M=4 N=16 K=8", "contract vpdpbus j=j k=k", "opts:1:1: error: contract: no instruction is named vpdpbus"},
  {bytes_kernel, "M=4 N=16 K=8", "contract mma.m16n8k32.s8 i=i j=j k=k", "opts:1:1: error: contract: mma.m16n8k32.s8 is an instruction of sm_80+, not of test"},
  {bytes_kernel, "M=4 N=16 K=6", "contract vpdpbusd j=j k=k", "opts:1:1: error: contract: k (line 6) has 6 iterations, and k of vpdpbusd is 4 (split it first)"},
  {bytes_kernel, "M=4 N=16 K=8", "contract vpdpbusd i=i j=j k=k", "opts:1:1: error: contract: vpdpbusd has no i"},
  {bytes_kernel, "M=4 N=16 K=8", "contract vpdpbusd j=j", "opts:1:1: error: contract: k= is missing"},
  {bytes_kernel, "M=4 N=16 K=4", "contract vpdpbusd k=k", "opts:1:1: error: contract: j= is missing"},
  {bytes_kernel, "M=4 N=16 K=4", "contract vpdpbusd j=j q=k", "opts:1:23: error: expected i=, j= or k=, not 'q'"},
  {bytes_kernel, "M=4 N=16 K=4", "contract vpdpbusd j=j n=i", "opts:1:23: error: expected each of i=, j=, k= once, not 'n'"},
  {bytes_kernel, "M=4 N=16 K=4", "contract vpdpbusd j=k k=j", "opts:1:1: error: contract: j (line 5) is not summed over"},
  {bytes_kernel, "M=16 N=4 K=4", "contract vpdpbusd j=i k=k", "opts:1:1: error: contract: i must stand directly around the statement, and alone (order them)"},
  {bytes_kernel, "M=4 N=16 K=4", "lane j\ncontract vpdpbusd j=j k=k", "opts:2:1: error: contract: j (line 5) is lane already"},
  {bytes_kernel, "M=4 N=16 K=4", "contract vpdpbusd j=j k=k\nlane i", "opts:2:1: error: lane i (line 5): a matrix instruction stands within, whose lanes are all in use"},
  {bytes_kernel, "M=4 N=16 K=4", "contract vpdpbusd j=j k=k\nstage A at i", "opts:2:1: error: A: contract has made its loads vectors; stage it before"},
  {bytes_turned_kernel, "M=4 N=16 K=4", "contract vpdpbusd j=j k=k",
   "opts:1:1: error: contract: vpdpbusd sums products i32(a[i,k]) * i32(b[k,j]) of u8 and i8, and this is the sum of i32(A[i, k]) * i32(B[k, j])"},
  {bytes_in_order_kernel, "N=16 K=4", "contract vpdpbusd j=j k=k", "opts:1:1: error: contract: a sum_in_order keeps the order of its terms"},
  {carried_kernel, "M=4 N=1..9", "thread k", "opts:1:1: error: thread k (line 7): its extent is N, so say how many parts: thread k 2"},
  {carried_kernel, "M=1..4 N=9", "thread k 2", "opts:1:1: error: thread k (line 7): the extent of i (line 4) around it is M, and the states of its parts need memory whose size is known"},
  {carried_kernel, "M=4 N=9", "thread i\nthread k 2", "opts:2:1: error: thread k (line 7): it stands inside i (line 4), which is thread already"},
  {carried_kernel, "M=4 N=9", "cut k last\nthread k.last", "opts:2:1: error: thread k.last (line 7): s does not begin as its merge says: another part of the loop stands before"},
  {carried_kernel, "M=4 N=9", "thread k 2000", "opts:1:1: error: thread k (line 7): 2000 parts, over the limit of 1024"},
  {bytes_kernel, "M=4 N=16 K=4", "split i 2 as io ii\norder io j ii\ncontract vpdpbusd j=j k=k", "opts:3:1: error: contract: j must stand directly around the statement, and alone (order them)"},
  {matmul_kernel, "M=4 N=4 K=4", "splat i 4",
   "opts:1:1: error: expected a word of a schedule (split, fuse, order, swap, tile, upcast, unroll, lane, thread, local, stage, pad, cut, stream, prefetch, specialize, place, contract), not 'splat'"},
  {matmul_kernel, "M=4 N=4 K=4", "split i", "opts:1:8: error: expected a size at the end of 'split i'"},
  {matmul_kernel, "M=4 N=4 K=4", "split i x", "opts:1:9: error: expected a size, not 'x'"},
  {matmul_kernel, "M=4 N=4 K=4", "split i 4 as a",
   "opts:1:15: error: expected a name for a range at the end of 'split i 4 as a'"},
  {matmul_kernel, "M=4 N=4 K=4", "split i 4 4", "opts:1:11: error: expected the end of the opt, not '4'"},
  {matmul_kernel, "M=4 N=4 K=4", "split q 4",
   "opts:1:1: error: no range 'q' here; there are: i (line 5), j (line 5), k (line 6)"},
  {matmul_kernel, "M=4 N=4 K=4", "split C.q 4",
   "opts:1:1: error: no range 'C.q' here; there are: i (line 5), j (line 5), k (line 6)"},
  {matmul_kernel, "M=4 N=4 K=4", "split i 2 as j q", "opts:1:1: error: the name 'j' is taken by a range"},
  {matmul_kernel, "M=4 N=4 K=4", "split i 2 as q q", "opts:1:1: error: the name 'q' is given twice"},
  {matmul_kernel, "M=4 N=4 K=4", "upcast i\nsplit i 2", "opts:2:1: error: split i (line 5): it is upcast already"},
  {matmul_kernel, "M=4 N=4 K=4", "upcast i\nlane i", "opts:2:1: error: lane i (line 5): it is upcast already"},
  {matmul_kernel, "M=4 N=4 K=4", "order i k",
   "opts:1:1: error: order: k is a reduction's, and stands inside all loops anyway"},
  {matmul_kernel, "M=4 N=4 K=4", "order i k",
   "opts:1:1: error: order: k is a reduction's, and stands inside all loops anyway"},
  {matmul_kernel, "M=4 N=4 K=4", "thread j\norder k j",
   "opts:2:1: error: order: the sum over k (line 6) cannot be taken in blocks: j (line 5) is a thread range, and its tasks would begin anew for each block"},
  {matmul_kernel, "M=4 N=4 K=4", "stage B at i\norder k i",
   "opts:2:1: error: order: the sum over k (line 6) cannot be taken in blocks: a buffer is defined inside: stage after the order"},
  {matmul_kernel, "M=4 N=4 K=0..9", "order k i", "opts:1:1: error: order: the sum over k (line 6) cannot be taken in blocks: it may have no iteration, and then nothing would be stored"},
  {"kernel nested(N) {\n  in(x, f32, [N]);\n  out(y, f32, [N]);\n  range(i, N) y[i] = max(k : N, x[k] * sum(m : N, x[m] + x[k]));\n}\n", "N=5", "order m i",
   "opts:1:1: error: order: the sum over m (line 4) cannot be taken in blocks: it stands inside another reduction"},
  {matmul_kernel, "M=4 N=4 K=4", "order i i", "opts:1:1: error: order: i is named twice"},
  {matmul_kernel, "M=4 N=4 K=4", "order i",
   "opts:1:8: error: expected two ranges or more at the end of 'order i'"},
  {matmul_kernel, "M=4 N=4 K=4", "lane i\nlane j",
   "opts:2:1: error: lane j (line 5): it stands inside i (line 5), which is lane already"},
  {matmul_kernel, "M=4 N=4 K=4", "cut i middle", "opts:1:7: error: expected first, last, auto, or 'at' and an index, not 'middle'"},
  {matmul_kernel, "M=4 N=4 K=4", "split i {4, 8}", "opts:1:13: error: expected a size below the one before, not '8'"},
  {matmul_kernel, "M=4 N=4 K=4", "split i {4 2}", "opts:1:12: error: expected ',' or '}', not '2'"},
  {matmul_kernel, "M=4 N=4 K=4", "split i {4, 2", "opts:1:14: error: expected ',' or '}' at the end of 'split i {4, 2'"},
  {matmul_kernel, "M=4 N=4 K=4", "lane j\ncut j auto", "opts:2:1: error: cut j (line 5): it is lane already"},
  {inorder_kernel, "N=8", "cut k auto", "opts:1:1: error: cut k (line 4): a sum_in_order keeps the order of its terms"},
  {inorder_kernel, "N=8", "split k {5, 1}",
   "opts:1:1: error: split k (line 4): a sum_in_order keeps the order of its terms"},
  {matmul_kernel, "M=4 N=4 K=4", "fuse i j", "opts:1:9: error: expected 'as' and a name for the range at the end of 'fuse i j'"},
  {matmul_kernel, "M=4 N=4 K=4", "fuse j i as r", "opts:1:1: error: fuse: i does not stand directly inside j (line 5), and alone"},
  {matmul_kernel, "M=4 N=4 K=4", "fuse i k as r", "opts:1:1: error: fuse: k does not stand directly inside i (line 5), and alone"},
  {matmul_kernel, "M=4 N=4 K=4", "fuse i i as r", "opts:1:1: error: fuse: i is named twice"},
  {matmul_kernel, "M=4 N=4 K=4", "fuse i j as k", "opts:1:1: error: the name 'k' is taken by a range"},
  {matmul_kernel, "M=4 N=4 K=4", "lane j\nfuse i j as r", "opts:2:1: error: fuse: j (line 5) is lane already"},
  {matmul_kernel, "M=4 N=4 K=4", "thread i\nfuse i j as r", "opts:2:1: error: fuse: i (line 5) is thread already, and j (line 5) is not"},
  {imperfect_kernel, "N=8", "fuse i j as r", "opts:1:1: error: fuse: j does not stand directly inside i (line 5), and alone"},
  {triangle_kernel, "N=8", "fuse i j as r", "opts:1:1: error: fuse: the extent of j (line 4) depends on i (line 4)"},
  {matmul_kernel, "M=4 N=4 K=4", "swap i j",
   "opts:1:1: error: swap: i (line 5) is of kind loop, and not of the launch (global or thread): see order"},
  {launch_kernel, "N=8", "thread b\nswap b c", "opts:2:1: error: swap: the thread range b (line 4) must stay outermost"},
  {matmul_kernel, "M=4 N=4 K=4", "cut i at",
   "opts:1:9: error: expected an index at the end of 'cut i at'"},
  {matmul_kernel, "M=4 N=4 K=4", "cut i at Q",
   "opts:1:1: error: cut i: 'Q' is no parameter, knob or range around it"},
  {matmul_kernel, "M=4 N=4 K=4", "stage C at i", "opts:1:1: error: stage C at i: the loop stores to it"},
  {matmul_kernel, "M=4 N=4 K=4", "stage Q at i", "opts:1:1: error: no buffer 'Q' here"},
  {"kernel s(N) { in(x, f32, [N, 8]); out(y, f32, [N, 8]); range(i, N) range(l, 8, lane) y[i, l] = shuffle(x[i, l], l, l + 1); }", "N=3", "stage x at i",
   "opts:1:1: error: stage x at i: a shuffle between lanes reads it, and the copy would be memory that they share"},
  {matmul_kernel, "M=4 N=4 K=4", "stage A at k",
   "opts:1:1: error: stage A at k: a copy stands in a loop, not in a reduction"},
  {matmul_kernel, "M=4 N=4 K=4", "stage A at j pitch=1",
   "opts:1:1: error: stage A: a pitch of 1 is below the 4 elements of a row"},
  {matmul_kernel, "M=4 N=4 K=4", "stage B at i as p[k]",
   "opts:1:1: error: stage B: the layout has room for 1 of the 4 elements in dimension 1"},
  {matmul_kernel, "M=4 N=4 K=4", "stage B at i as p[j, q]",
   "opts:1:1: error: stage B: 'q' names no dimension of it; there are: k, j, d0, d1"},
  {matmul_kernel, "M=4 N=4 K=4", "stage B at i as p[k, j/2, j%3]",
   "opts:1:1: error: stage B: the layout has room for 3 of the 4 elements in dimension 1"},
  {matmul_kernel, "M=4 N=4 K=4", "stage B at i as p[k, j/3, j%2]",
   "opts:1:1: error: stage B: no digit of dimension 1 counts in steps of 2"},
  {matmul_kernel, "M=4 N=4 K=4", "stage B at i as p[k, j/2, j%1]",
   "opts:1:1: error: stage B: no digit of dimension 1 counts in steps of 1"},
  {matmul_kernel, "M=4 N=4 K=4", "stage B at i as p[k, j, j%2]",
   "opts:1:1: error: stage B: two digits hold the same part of dimension 1"},
  {matmul_kernel, "M=4 N=4 K=4", "stage B at i as p[k, j+1]",
   "opts:1:1: error: stage B: 'j+1' is no digit of an offset: d, d / c, d % m or d / c % m"},
  {matmul_kernel, "M=4 N=4 K=4", "stage B at i as Bp space=gpu", "opts:1:26: error: expected local, reg, thread, team or packed, not 'gpu'"},
  {matmul_kernel, "M=4 N=4 K=4", "stage B at i as Bp as f16",
   "opts:1:1: error: stage B: f16 does not hold every value of f32: a rounding has to be a statement of the kernel"},
  {matmul_kernel, "M=4 N=4 K=4", "stage B at i as Bp as float", "opts:1:1: error: stage B: no type is named 'float'"},
  {matmul_kernel, "M=4 N=4 K=4", "stage B at i fill=x", "opts:1:1: error: stage B: fill=x is no value of f32"},
  {matmul_kernel, "M=4 N=4 K=4", "stage B at i fill=", "opts:1:19: error: expected a number at the end of 'stage B at i fill='"},
  {matmul_kernel, "M=4 N=4 K=4", "stage B at i align=48", "opts:1:1: error: stage B: align=48: 1, 2, 4, .. 64 bytes"},
  {matmul_kernel, "M=4 N=4 K=4", "stage B at i depth=17", "opts:1:1: error: stage B: depth=17: at most 16"},
  {matmul_kernel, "M=4 N=4 K=4", "thread i\nstage B at i space=team",
   "opts:2:1: error: stage B at i: the copy would be one task's own: a team's stands outside of its thread range"},
  {matmul_kernel, "M=4 N=4 K=4", "thread i\nstage B at i depth=2",
   "opts:2:1: error: stage B at i: depth=2 needs iterations one after another, and i is thread"},
  {matmul_kernel, "M=4 N=4 K=4", "stage A at i as Ap depth=2\nthread i",
   "opts:2:1: error: thread i (line 5): its iterations depend on one another: `Ap[(i + 1) % 2, Ap.0, Ap.1] = (A[i + 1 + Ap.0, Ap.1] if (i + 1 < 4) else 0.0f) if i + 1 < 4` (line 1) stores Ap[1, 0, 3], and stores it in another iteration, when i = 0, i' = 2, Ap.0 = 0, Ap.0' = 0, Ap.1 = 3, Ap.1' = 3"},
  {matmul_kernel, "M=4 N=4 K=4", "stream A", "opts:1:1: error: stream A: nothing stores to it"},
  {matmul_kernel, "M=4 N=4 K=4", "stream Q", "opts:1:1: error: no buffer 'Q' here"},
  {matmul_kernel, "M=4 N=4 K=4", "place C ssa", "opts:1:1: error: place C: it is no register buffer"},
  {copy_kernel, "N=1..9", "specialize N == 4", "opts:1:12: error: expected '(' and a condition, not 'N'"},
  {copy_kernel, "N=1..9", "specialize(N == 4", "opts:1:18: error: expected ')' at the end of 'specialize(N == 4'"},
  {copy_kernel, "N=1..9", "specialize(N + 1)", "opts:1:1: error: specialize: 'N + 1' is no condition"},
  {copy_kernel, "N=1..9", "specialize(N != 4)",
   "opts:1:1: error: specialize: a test is P % c == 0, or compares a parameter with a constant or P == Q; 'N != 4' is neither"},
  {copy_kernel, "N=1..99", "specialize(N >= 4 & N % 8 == 0)", "opts:1:1: error: specialize: one fact on each parameter, and there are two on N"},
  {matmul_kernel, "M=4 N=4 K=4", "prefetch C at i ahead 2", "opts:1:1: error: prefetch C at i: the loop does not read it"},
  {matmul_kernel, "M=4 N=4 K=4", "prefetch Q at i ahead 2", "opts:1:1: error: prefetch Q: no buffer in memory has that name"},
  {matmul_kernel, "M=4 N=4 K=4", "prefetch A at i", "opts:1:16: error: expected 'ahead' and a number at the end of 'prefetch A at i'"},
  {matmul_kernel, "M=4 N=4 K=4", "prefetch A at i ahead 2 to l3", "opts:1:28: error: expected l1 or l2, not 'l3'"},
  {matmul_kernel, "M=4 N=4 K=4", "lane j\nprefetch B at j ahead 2",
   "opts:2:1: error: prefetch B at j (line 5): it is lane, and its iterations do not come one after another"},
  {matmul_kernel, "M=4 N=4 K=1..99999999999999", "prefetch A at i ahead 2",
   "opts:1:1: error: prefetch A at i: the part read in dimension 1 has no constant bound: k"},
  {total_kernel, "N=9", "prefetch y at k ahead 2", "opts:1:1: error: prefetch y: it is one element"},
  {matmul_kernel, "M=1..9 N=4 K=4", "upcast i",
   "opts:1:1: error: upcast i (line 5): its extent is M, and a constant is needed (split it first)"},
  {matmul_kernel, "M=1..9 N=4 K=4", "unroll i",
   "opts:1:1: error: unroll i (line 5): its extent is M, and a constant is needed (split it first)"},
  {copy_kernel, "N=8192", "upcast i",
   "opts:1:1: error: upcast i (line 4): 8192 copies are too many (split it first)"},
  {twice_kernel, "N=8", "split i 2",
   "opts:1:1: error: 'i' may mean the ranges of lines 5, 6: say which with BUFFER.i or i#1, i#2, .."},
  {twice_kernel, "N=8", "split i#3 2", "opts:1:1: error: 'i#3': only 2 such ranges are here"},
  {scan_kernel, "N=8", "upcast i",
   "opts:1:1: error: upcast i (line 5): its iterations depend on one another: `y[i + 1] = x[i + 1] + y[i]` (line 5) stores y[1], and reads it in another iteration, when i = 0, i' = 1"},
  {scan_kernel, "N=8", "lane i",
   "opts:1:1: error: lane i (line 5): its iterations depend on one another: `y[i + 1] = x[i + 1] + y[i]` (line 5) stores y[1], and reads it in another iteration, when i = 0, i' = 1"},
  {scan_kernel, "N=8", "thread i",
   "opts:1:1: error: thread i (line 5): its iterations depend on one another: `y[i + 1] = x[i + 1] + y[i]` (line 5) stores y[1], and reads it in another iteration, when i = 0, i' = 1"},
  {scan_kernel, "N=8", "local i",
   "opts:1:1: error: local i (line 5): its iterations depend on one another: `y[i + 1] = x[i + 1] + y[i]` (line 5) stores y[1], and reads it in another iteration, when i = 0, i' = 1"},
  {inorder_kernel, "N=8", "upcast k",
   "opts:1:1: error: upcast k (line 4): a sum_in_order keeps the order of its terms"},
  {inorder_kernel, "N=8", "cut k at 4",
   "opts:1:1: error: cut k (line 4): a sum_in_order keeps the order of its terms"},
  {inorder_kernel, "N=8", "split k 4\norder k.1 k.0",
   "opts:2:1: error: order: a sum_in_order keeps the order of its ranges"},
  {imperfect_kernel, "N=8", "order i j",
   "opts:1:1: error: order: i (line 5), j (line 7) are no perfect nest: a statement stands between them, or one is not there"},
  {skew_kernel, "N=8", "order b a",
   "opts:1:1: error: order: b (line 4) may not run outside a (line 4): `y[a + 1, b] = x[b] + y[a, b + 1]` (line 4) stores y[1, 1], and reads it in another iteration, when a = 0, a' = 1, b' = 0, b = 1"},
  {triangle_kernel, "N=8", "order j i",
   "opts:1:1: error: order: the extent of j (line 4) depends on i (line 4)"},
  {imperfect_kernel, "N=8", "global j",
   "opts:1:1: error: order: j (line 7), i (line 5) are no perfect nest: a statement stands between them, or one is not there"},
  {imperfect_kernel, "N=8", "global i\nthread j",
   "opts:2:1: error: thread: j (line 7), i (line 5) are no perfect nest: a statement stands between them, or one is not there"},
  {scan_kernel, "N=8", "stage y at i", "opts:1:1: error: stage y at i: the loop stores to it"},
  {inplace_kernel, "N=8", "stream y", "opts:1:1: error: stream y: the kernel reads it again"},
  {uneven_kernel, "N=8", "upcast i", "opts:1:1: error: upcast i (line 5): the extent of k (line 9) depends on it"},
  {counted_kernel, "N=8", "upcast i\nstage n at i", "opts:2:1: error: the extent of k (line 6) would depend on the upcast range i (line 5)"},
  {counted_kernel, "N=8", "lane i\ncut k at i", "opts:2:1: error: the extent of k.1 (line 6) would depend on the lane range i (line 5)"},
};

static const expectation raise_cases[] = {
  {r1_kernel, "N=5", "",
    "y = sum(k : 5, x[k]);\n"},
  {r2_kernel, "N=5", "",
    "range(i, 5) {\n"
    "  range(j, 5) {\n"
    "    y[i, j] = sum(k : 3, a[i, k] * b[k, j]);\n"
    "  }\n"
    "}\n"},
  {r3_kernel, "N=5", "",
    "range(i, 5) {\n"
    "  y[i] = max(max(k : 5, x[i, k]), x[i, 0]);\n"
    "}\n"},
  {r4_kernel, "N=5", "",
    "range(i, 5) {\n"
    "  y[i] = (x[i] + 1.0f) * 2.0f;\n"
    "}\n"},
  {r5_kernel, "N=5", "",
    "define_reg(t, f32, [5]);\n"
    "range(i, 5) {\n"
    "  t[i] = exp(x[i]);\n"
    "}\n"
    "range(i, 5) {\n"
    "  y[i] = sum(k : 5, t[k]) + t[i];\n"
    "}\n"},
  {r6_kernel, "N=5", "",
    "range(i, 5) {\n"
    "  define_reg(s, f32, []);\n"
    "  s = 0.0f;\n"
    "  range(k, 5) {\n"
    "    s = s * 2.0f + x[i, k];\n"
    "  }\n"
    "  y[i] = s;\n"
    "}\n"},
  {r7_kernel, "N=5", "",
    "range(i, 4) {\n"
    "  range(j, 5) {\n"
    "    y[i, j] = sum(k : 5, a[i, k] * b[k, j]);\n"
    "  }\n"
    "}\n"},
  {r8_kernel, "N=5", "",
    "define_reg(s, f32, []);\n"
    "range(i, 5) {\n"
    "  s = y[i];\n"
    "  y[i] = y[i] + 1.0f;\n"
    "  z[i] = s;\n"
    "}\n"},
  {r9_kernel, "N=5", "",
    "range(i, 5) {\n"
    "  y[i] = sum(k : 5, let %0 = x[k]; where(1 < %0, %0, i32(0))) + 1 + i32(i);\n"
    "}\n"},
};

