/* SPDX-License-Identifier: MIT
 * The programs that words of a schedule are tried on. Included by schedule.c. */
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
static const char shared_kernel[] =
    "kernel shared(N) {\n"
    "  in(x, f32, [N]);\n"
    "  out(y, f32, [N]);\n"
    "  define_reg(e, f32, [N]);\n"
    "  range(i, N) e[i] = exp(x[i]);\n"
    "  range(j, N) y[j] = e[j] + sum(k : N, e[k]);\n"
    "}\n";
static const char twice_kernel[] =
    "kernel twice(N) {\n"
    "  in(x, f32, [N]);\n"
    "  out(y, f32, [N]);\n"
    "  out(z, f32, [N]);\n"
    "  range(i, N) y[i] = x[i] + 1;\n"
    "  range(i, N) z[i] = x[i] * 2;\n"
    "}\n";
static const char same_kernel[] =   /* one name for every range: y.j is a loop, the maximum in its statement, and another loop */
    "kernel same(N) {\n"
    "  in(x, f32, [N, N]);\n"
    "  out(y, f32, [N, N]);\n"
    "  range(i, N) {\n"
    "    let m = max(j : N, x[i,j]);\n"
    "    range(j, N) y[i,j] = x[i,j] - m;\n"
    "    let s = sum(j : N, y[i,j]);\n"
    "    range(j, N) y[i,j] = y[i,j] / s;\n"
    "  }\n"
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
static const char pair_kernel[] =   /* what bicg of PolyBench does */
    "kernel pair(M, N) {\n"
    "  in(A, f32, [M, N]);\n"
    "  in(p, f32, [N]);\n"
    "  in(r, f32, [M]);\n"
    "  out(q, f32, [M]);\n"
    "  inout(s, f32, [N]);\n"
    "  range(i, M) {\n"
    "    q[i] = sum(j : N, A[i,j] * p[j]);\n"
    "    range(k, N) s[k] += A[i,k] * r[i];\n"
    "  }\n"
    "}\n";
static const char apart_kernel[] =   /* b of an iteration is read in the next one */
    "kernel apart(N) {\n"
    "  in(x, f32, [N]);\n"
    "  out(a, f32, [N]);\n"
    "  inout(b, f32, [N + 1]);\n"
    "  range(i, N) {\n"
    "    a[i] = b[i] + x[i];\n"
    "    b[i + 1] = x[i] * 2;\n"
    "  }\n"
    "}\n";
static const char together_kernel[] =   /* t belongs to the first two stores */
    "kernel together(N) {\n"
    "  in(x, f32, [N, N]);\n"
    "  out(y, f32, [N, N]);\n"
    "  out(z, f32, [N, N]);\n"
    "  range(i, N) {\n"
    "    define_local(t, f32, [N]);\n"
    "    range(j, N) t[j] = x[i,j] * 2;\n"
    "    range(j, N) y[i,j] = t[N-1-j];\n"
    "    range(j, N) z[i,j] = x[j,i] + 1;\n"
    "  }\n"
    "  range(l, N) {\n"
    "    define_local(u, f32, [N]);\n"
    "    range(j, N) u[j] = y[l,j] + z[l,j];\n"
    "    range(j, N) y[l,j] = u[N-1-j] * 3;\n"
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
static const char barred_kernel[] =
    "kernel barred(N) {\n"
    "  in(x, f32, [N]);\n"
    "  out(y, f32, [N]);\n"
    "  range(i, N) {\n"
    "    define_local(t, f32, [4]);\n"
    "    range(k, 4, local) t[k] = x[i];\n"
    "    barrier();\n"
    "    y[i] = t[3];\n"
    "  }\n"
    "}\n";
/* a sum of its own length in each element: not in lanes */
static const char r10_kernel[] =
    "kernel r10(N) {\n"
    "  in(n, i32 in 0..3, [N]);\n"
    "  in(x, f32, [3]);\n"
    "  out(y, f32, [N]);\n"
    "  define_reg(t, f32, [N]);\n"
    "  range(i, N) t[i] = sum(k : n[i], x[k]);\n"
    "  range(i, N, lane) y[i] = t[i];\n"
    "}\n";
/* one length for all, and read under a condition */
static const char r11_kernel[] =
    "kernel r11(N) {\n"
    "  in(n, i32 in 0..3, [N]);\n"
    "  in(x, f32, [3]);\n"
    "  out(y, f32, [N]);\n"
    "  define_reg(t, f32, [N]);\n"
    "  range(i, N) t[i] = sum(k : n[0], x[k]);\n"
    "  range(i, N, lane) y[i] = (t[i - 1] else 0.0f);\n"
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


static const char flipped_kernel[] =
    "kernel flipped(M, N, K) {\n"
    "  in(A, i8, [M, K]);\n"
    "  out(C, u8, [M, N]);\n"
    "  range(i, M) range(j, N)\n"
    "    C[i,j] = u8(3) + sum(k : K, u8(A[i,k] ^ -128)) * u8(A[i,0] ^ -128);\n"
    "}\n";
static const char pairs_kernel[] =
    "kernel pairs(M, N, K) {\n"
    "  in(A, bf16, [M, K]);\n"
    "  in(B, bf16, [K, N]);\n"
    "  out(C, bf16, [M, N]);\n"
    "  range(i, M) range(j, N)\n"
    "    C[i,j] = bf16(sum(k : K, f32(A[i,k]) * f32(B[k,j])));\n"
    "}\n";
static const char bytes_kernel[] =
    "kernel bytes(M, N, K) {\n"
    "  in(A, u8, [M, K]);\n"
    "  in(B, i8, [K, N]);\n"
    "  out(C, i32, [M, N]);\n"
    "  range(i, M) range(j, N)\n"
    "    C[i,j] = sum(k : K, i32(A[i,k]) * i32(B[k,j])) + 1;\n"
    "}\n";
