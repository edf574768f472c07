/* SPDX-License-Identifier: MIT
 * The text of every refusal, and the programs after raising. Included by schedule.c. */
static const char wave_kernel[] =
    "kernel wave(N = 33) {\n"
    "  inout(a, f32, [N, N]);\n"
    "  in(b, f32, [N, N]);\n"
    "  range(i, N - 1) range(j, N - 1)\n"
    "    a[i+1,j+1] = a[i,j] + b[i+1,j+1];\n"
    "}\n";

/* i separates what is stored, j does not. */
static const char decay_kernel[] =
    "kernel decay(N = 8) {\n"
    "  inout(y, i32, [N]);\n"
    "  in(a, i32, [N]);\n"
    "  range(i, N) range(j, N) y[i] = y[i] * 3 + a[j];\n"
    "}\n";

/* No iteration of i reads what another stores; a copy of all that lies between the reads of one does. */
static const char between_kernel[] =
    "kernel between(N = 8) {\n"
    "  inout(a, i32, [2*N + 9]);\n"
    "  out(b, i32, [N, 2]);\n"
    "  range(i, N) {\n"
    "    range(u, 2) b[i,u] = sum(k : 4, a[2*i + 2*u + 2*k + 1]);\n"
    "    a[2*i] = b[i,0] + b[i,1];\n"
    "  }\n"
    "}\n";

static const char cube_kernel[] =
    "kernel cube(N = 9) {\n"
    "  inout(a, i32, [N + 1, N + 1, N + 1]);\n"
    "  range(i, N) range(j, N) range(k, N)\n"
    "    a[i+1,j+1,k] = a[i,j,k+1] * 5 + 1;\n"
    "}\n";

static const char anti_kernel[] =
    "kernel anti(N = 40) {\n"
    "  out(b, i32, [N]);\n"
    "  inout(a, i32, [N + 1]);\n"
    "  in(c, i32, [N]);\n"
    "  range(i, N) {\n"
    "    b[i] = a[i+1] + 1;\n"
    "    a[i] = c[i] * b[i];\n"
    "  }\n"
    "}\n";

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

static const char pooling_kernel[] =
    "kernel pooling(C) {\n"
    "  in(x, f32, [C, 15, 21]);\n"
    "  out(y, f32, [C, 8, 11]);\n"
    "  range(c, C) range(i, 8) range(j, 11) y[c,i,j] = max(a : 2, b : 2, x[c, 2*i + a, 2*j + b] else -inf);\n"
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
  {"kernel other(M, N) {\n  in(A, u8, [M, 4]);\n  in(B, i8, [8, N]);\n  out(C, i32, [M, N]);\n  range(i, M) range(j, N)\n    C[i,j] = sum(k : 8, where(k < 6, i32(A[i,k] else 3) * i32(B[k,j]), 0));\n}\n", "M=2 N=16", "split k 4 as ko ki\ncontract vpdpbusd n=j k=ki",
   "opts:2:1: error: contract: terms are left out, and A[i, ko * 4 + ki] if (ko * 4 + ki < 4) else u8(3) is not 0 there"},
  {bytes_kernel, "M=16 N=4 K=4", "contract vpdpbusd j=i k=k", "opts:1:1: error: contract: i must stand directly around the statement, and alone (order them)"},
  {bytes_kernel, "M=4 N=16 K=4", "lane j\ncontract vpdpbusd j=j k=k", "opts:2:1: error: contract: j (line 5) is lane already"},
  {bytes_kernel, "M=16 N=16 K=64", "contract tdpbusd j=j k=k", "opts:1:1: error: contract: i= is missing: tdpbusd has rows"},
  {bytes_kernel, "M=24 N=16 K=64", "contract tdpbusd i=i j=j k=k", "opts:1:1: error: contract: i (line 5) has 24 iterations, and i of tdpbusd is 16 (split it first)"},
  {bytes_kernel, "M=16 N=16 K=64", "contract tdpbssd i=i j=j k=k",
   "opts:1:1: error: contract: tdpbssd sums products i32(a[i,k]) * i32(b[k,j]) of i8 and i8, and this is the sum of i32(B[k, j]) * i32(A[i, k])"},
  {bytes_kernel, "M=4 N=16 K=4", "contract vpdpbusd j=j k=k\nlane i", "opts:2:1: error: lane i (line 5): a matrix instruction stands within, whose lanes are all in use"},
  {bytes_kernel, "M=4 N=16 K=4", "contract vpdpbusd j=j k=k\nstage A at i", "opts:2:1: error: A: contract has made its loads vectors; stage it before"},
  {bytes_turned_kernel, "M=4 N=16 K=4", "contract vpdpbusd j=j k=k",
   "opts:1:1: error: contract: vpdpbusd sums products i32(a[i,k]) * i32(b[k,j]) of u8 and i8, and this is the sum of i32(A[i, k]) * i32(B[k, j])"},
  {bytes_in_order_kernel, "N=16 K=4", "contract vpdpbusd j=j k=k", "opts:1:1: error: contract: a sum_in_order keeps the order of its terms"},
  {carried_kernel, "M=4 N=1..9", "thread k", "opts:1:1: error: thread k (line 7): its extent is N, so say how many parts: thread k 2"},
  {carried_kernel, "M=1..4 N=9", "thread k 2", "opts:1:1: error: thread k (line 7): the extent of i (line 4) around it is M, and the states of its parts need memory whose size is known"},
  {carried_kernel, "M=4 N=9", "stage x at k as S depth=2\nthread k 3",
   "opts:2:1: error: thread k (line 7): each iteration reads what the one before has copied to S, and a part has none before it (stage it afterwards)"},
  {carried_kernel, "M=4 N=9", "thread i\nthread k 2", "opts:2:1: error: thread k (line 7): it stands inside i (line 4), which is thread already"},
  {carried_kernel, "M=4 N=9", "cut k last\nthread k.last", "opts:2:1: error: thread k.last (line 7): s does not begin as its merge says: another part of the loop stands before"},
  {carried_kernel, "M=4 N=9", "thread k 2000", "opts:1:1: error: thread k (line 7): 2000 parts, over the limit of 1024"},
  {bytes_kernel, "M=4 N=16 K=4", "split i 2 as io ii\norder io j ii\ncontract vpdpbusd j=j k=k", "opts:3:1: error: contract: j must stand directly around the statement, and alone (order them)"},
  {matmul_kernel, "M=4 N=4 K=4", "split i 2 as f32 q", "opts:1:14: error: expected a name for a range ('f32' is the name of a type), not 'f32'"},
  {matmul_kernel, "M=4 N=4 K=4", "split i 2 as q inf", "opts:1:16: error: expected a name for a range ('inf' is a word of the language), not 'inf'"},
  {matmul_kernel, "M=4 N=4 K=4", "stage A at i as let", "opts:1:17: error: expected a name for the copy ('let' is a word of the language), not 'let'"},
  {matmul_kernel, "M=4 N=4 K=4", "split i 2 as . q", "opts:1:14: error: expected a name for a range, not '.'"},
  {matmul_kernel, "M=4 N=4 K=4", "split i 2 as a..b q", "opts:1:14: error: expected a name for a range, not 'a..b'"},
  {matmul_kernel, "M=4 N=4 K=4", "split i 2 as q. r", "opts:1:14: error: expected a name for a range, not 'q.'"},
  {pooling_kernel, "C=9223372036854775807", "prefetch x at i ahead 2 of i", "opts:1:1: error: prefetch x at i of i: the iterations of c within it have no constant bound"},
  {matmul_kernel, "M=4 N=4 K=4", "splat i 4",
   "opts:1:1: error: expected a word of a schedule (split, fuse, fission, order, swap, tile, upcast, unroll, lane, thread, local, group, global, stage, pad, cut, stream, prefetch, specialize, place, contract; perhaps split), not 'splat'"},
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
  {decay_kernel, "N=8", "fuse i j as r\nthread r",
   "opts:2:1: error: thread r (line 4): its iterations depend on one another: `y[r / 8] = y[r / 8] * 3 + a[r % 8]` "
   "(line 4) reads y[0], and stores it in another iteration, when r = 0, r' = 1"},
  {between_kernel, "N=8", "stage a at u\nthread i",
   "opts:2:1: error: thread i (line 4): its iterations depend on one another: "
   "`a.copy[a.copy.0] = a[i * 2 + u * 2 + 1 + a.copy.0]` (line 1) reads a[2], `a[i * 2] = b[i, 0] + b[i, 1]` (line 6) "
   "stores it, when i = 0, i' = 1, u = 0, a.copy.0 = 1"},
  {wave_kernel, "", "thread j\nlane i",
   "opts:2:1: error: lane i (line 4): its iterations depend on one another: "
   "`a[i + 1, j + 1] = a[i, j] + b[i + 1, j + 1]` (line 5) stores a[1, 1], and reads it in another iteration, "
   "when i = 0, i' = 1, j = 0, j' = 1"},
  {imperfect_kernel, "N=8", "fuse i j as r", "opts:1:1: error: fuse: j does not stand directly inside i (line 5), and alone"},
  {matmul_kernel, "M=4 N=4 K=4", "fission i", "opts:1:1: error: fission i (line 5): it holds one statement, or several that share memory defined in it"},
  {matmul_kernel, "M=4 N=4 K=4", "fission k", "opts:1:1: error: fission k (line 6): it is a range of a reduction"},
  {together_kernel, "N=4", "fission l", "opts:1:1: error: fission l (line 11): it holds one statement, or several that share memory defined in it"},
  {imperfect_kernel, "N=8", "thread i\nfission i", "opts:2:1: error: fission i (line 5): it is thread already"},
  {apart_kernel, "N=8", "fission i",
   "opts:1:1: error: fission i (line 5): `b[i + 1] = x[i] * 2.0f` (line 7) stores b[1], `a[i] = x[i] + b[i]` (line 6) reads it, when i = 0, i' = 1"},
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
   "opts:1:1: error: stage B: f16 does not hold every value of f32: a rounding has to be a statement of the kernel, or one expression of f16, of it and constants, around all of its reads"},
  {"kernel some(M, K) { in(A, i8, [M, K]); out(C, i32, [M]); range(i, M) C[i] = sum(k : K, i32(u8(A[i,k] ^ -128))) + i32(A[i,0]); }", "M=2 K=3", "stage A at i as Ap as u8",
   "opts:1:1: error: stage A: u8 does not hold every value of i8: a rounding has to be a statement of the kernel, or one expression of u8, of it and constants, around all of its reads"},
  {"kernel two(M, K) { in(A, i8, [M, K]); out(C, i32, [M]); range(i, M) C[i] = sum(k : K, i32(u8(A[i,k] ^ -128))) + i32(u8(A[i,0] ^ 127)); }", "M=2 K=3", "stage A at i as Ap as u8",
   "opts:1:1: error: stage A: u8 does not hold every value of i8: a rounding has to be a statement of the kernel, or one expression of u8, of it and constants, around all of its reads"},
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
  {same_kernel, "N=16", "split y.j#4 8", "opts:1:1: error: 'y.j#4': only 3 such ranges are here"},
  {same_kernel, "N=16", "split y.j#1 8\nlane y.j#1", "opts:2:1: error: 'y.j#1': words before this one have made other ranges of it"},
  {same_kernel, "N=16", "split y.j#0 8", "opts:1:1: error: 'y.j#0': a number from 1 on follows the '#', and ends the name"},
  {same_kernel, "N=16", "lane y.j#3 8\nunroll y.j#3.0", "opts:2:1: error: 'y.j#3.0': a number from 1 on follows the '#', and ends the name"},
  /* two copies of one axis: the first has moved when the second is looked at */
  {"kernel solve(N = 15, T = 2) {\n"
   "  in(A, f32, [N, N]); in(b, f32, [N]); inout(x, f32, [N]);\n"
   "  define_local(y, f32, [N]);\n"
   "  range(t, T) {\n"
   "    range(i, N) y[i] = (b[i] - sum(j : N, where(j == i, 0, A[i,j]) * x[j])) / (A[i,i] + 8);\n"
   "    range(i, N) x[i] = y[i];\n"
   "  }\n"
   "}\n",
   "", "cut j first\nstage A at t as S as f64 pitch=63 depth=3 space=reg\nthread S.1",
   "opts:3:1: error: thread: S.1 (line 4), S.first (line 2), S.0 (line 4) are no perfect nest: a statement stands between them, or one is not there"},
  {same_kernel, "N=16", "split y.j#3 8 as y.j#3.0 b", "opts:1:18: error: expected a name for a range, not 'y.j#3.0'"},
  /* right by itself, and not where it stands, or not beside the others */
  {wave_kernel, "", "global j",
   "opts:1:1: error: global j (line 4): its iterations depend on one another: `a[i + 1, j + 1] = a[i, j] + b[i + 1, j + 1]` (line 5) stores a[1, 1], and reads it in another iteration, when j = 0, j' = 1, i = 0, i' = 1"},
  {wave_kernel, "", "order j i\nthread j",
   "opts:2:1: error: thread j (line 4): its iterations depend on one another: `a[i + 1, j + 1] = a[i, j] + b[i + 1, j + 1]` (line 5) stores a[1, 1], and reads it in another iteration, when j = 0, j' = 1, i = 0, i' = 1"},
  {wave_kernel, "", "lane i 2\nthread j 13",
   "opts:2:1: error: thread j.0 (line 4): its iterations depend on one another: `a[i.0 * 2 + i.1 + 1, j.0 * 13 + j.1 + 1] = (a[i.0 * 2 + i.1, j.0 * 13 + j.1] if (j.0 * 13 + j.1 < 32) else 0.0f) + (b[i.0 * 2 + i.1 + 1, j.0 * 13 + j.1 + 1] if (j.0 * 13 + j.1 < 32) else 0.0f) if j.0 * 13 + j.1 < 32` (line 5) stores a[31, 13], and reads it in another iteration, when j.0 = 0, j.0' = 1, i.0 = 15, i.1 = 0, i.0' = 15, i.1' = 1, j.1 = 12, j.1' = 0"},
  {wave_kernel, "", "split i 4 as z y\nupcast z",
   "opts:2:1: error: upcast z (line 4): its iterations depend on one another: `a[z * 4 + y + 1, j + 1] = a[z * 4 + y, j] + b[z * 4 + y + 1, j + 1]` (line 5) stores a[4, 1], and reads it in another iteration, when z = 0, z' = 1, y' = 0, y = 3, j = 0, j' = 1"},
  {wave_kernel, "", "thread j\norder j i",
   "opts:2:1: error: `order j i`, with the other words, does not keep the order of the program: iterations of the thread range j (line 4) depend on one another: `a[i + 1, j + 1] = a[i, j] + b[i + 1, j + 1]` (line 5) stores a[1, 1], and reads it in another iteration, when j = 0, j' = 1, i = 0, i' = 1"},
  {cube_kernel, "", "upcast i 2\nupcast j 2",
   "opts:2:1: error: upcast i.1 (line 3): its iterations depend on one another: `a[i.0 * 2 + i.1 + 1, j.0 * 2 + j.1 + 1, k] = (a[i.0 * 2 + i.1, j.0 * 2 + j.1, k + 1] if (i.0 * 2 + i.1 < 9 & j.0 * 2 + j.1 < 9) else i32(0)) * 5 + 1 if i.0 * 2 + i.1 < 9 & j.0 * 2 + j.1 < 9` (line 4) stores a[1, 1, 1], and reads it in another iteration, when i.1 = 0, i.1' = 1, k' = 0, k = 1, i.0 = 0, j.0 = 0, j.1 = 0, j.1' = 1"},
  {anti_kernel, "", "split i 4 as z y\nlane z 4",
   "opts:2:1: error: lane z.1 (line 5): its iterations depend on one another: `b[(z.0 * 4 + z.1) * 4 + y] = (a[(z.0 * 4 + z.1) * 4 + y + 1] if (z.0 * 4 + z.1 < 10) else i32(0)) + 1 if z.0 * 4 + z.1 < 10` (line 6) reads a[36], `a[(z.0 * 4 + z.1) * 4 + y] = (b[(z.0 * 4 + z.1) * 4 + y] if (z.0 * 4 + z.1 < 10) else i32(0)) * (c[(z.0 * 4 + z.1) * 4 + y] if (z.0 * 4 + z.1 < 10) else i32(0)) if z.0 * 4 + z.1 < 10` (line 7) stores it, when z.1 = 0, z.1' = 1, y' = 0, y = 3, z.0 = 2"},
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
  {r10_kernel, "N=4", "",
    "define_reg(t, f32, [4]);\n"
    "range(i, 4) {\n"
    "  t[i] = sum(k : min(max(index(n[i]), 0), 3), x[k]);\n"
    "}\n"
    "range(i, 4, lane) {\n"
    "  y[i] = t[i];\n"
    "}\n"},
  {r11_kernel, "N=4", "",
    "range(i, 4, lane) {\n"
    "  y[i] = where(0 < i, sum(k : min(max(index(n[0]), 0), 3), x[k]), 0.0f);\n"
    "}\n"},
};

