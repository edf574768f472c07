/* SPDX-License-Identifier: MIT
 * The interpreter of PTX by itself: small kernels written by hand, with what they must compute, or the fault that must
 * be reported, and counts. Values are from the document's definitions, worked out by hand. */
#define _GNU_SOURCE
#include <stdlib.h>
#include "../test.h"
#include "ptx.h"

enum { WORDS = 256, LOCAL = 1024 };

/* A kernel of two buffers of 256 words, `out`, and `in`, which may only be read and holds its index; %r1 is the thread,
 * %rd1 and %rd2 where its word of `out` and `in` lies, %rd3 LOCAL, %rd4 and %rd5 the buffers. */
static const char before[] =
    ".version 8.0\n.target sm_80\n.address_size 64\n.extern .shared .align 1024 .b8 local[];\n"
    ".visible .entry k(\n .param .u64 .ptr .global .align 1 k_param_0,\n .param .u64 k_param_1\n)\n{\n"
    ".reg .pred %p<8>;\n.reg .b16 %rs<8>;\n.reg .b32 %r<40>;\n.reg .b64 %rd<16>;\n"
    "ld.param.b64 %rd4, [k_param_0];\nld.param.b64 %rd5, [k_param_1];\nmov.u32 %r1, %tid.x;\nmul.wide.u32 %rd6, %r1, 4;\n"
    "add.s64 %rd1, %rd4, %rd6;\nadd.s64 %rd2, %rd5, %rd6;\nmov.b64 %rd3, local;\nadd.s64 %rd7, %rd3, %rd6;\n";

typedef struct { ptx_module m; ptx_launch l; uint32_t out[WORDS], in[WORDS]; char text[8192]; } bench;

static bool run(bench *b, const char *body, uint32_t threads, uint32_t groups, bool drawn, uint64_t seed) {
  ptx_launch_free(&b->l);
  ptx_module_free(&b->m);
  snprintf(b->text, sizeof b->text, "%s%s\nret;\n}\n", before, body);
  for (uint32_t i = 0; i < WORDS; i++) b->in[i] = i, b->out[i] = 0xdddddddd;
  b->l = (ptx_launch){.threads = threads, .groups = {groups, 1, 1}, .buffers = 2, .local = LOCAL, .seed = seed, .drawn = drawn, .limit = 100000};
  b->l.buffer[0] = (ptx_buffer){.name = "out", .data = b->out, .bytes = sizeof b->out, .written = true};
  b->l.buffer[1] = (ptx_buffer){.name = "in", .data = b->in, .bytes = sizeof b->in};
  if (!ptx_parse(&b->m, b->text)) {
    memcpy(b->l.message, b->m.message, PTX_MESSAGE);
    return false;
  }
  b->l.kernel = ptx_find(&b->m, "k");
  return ptx_run(&b->l);
}

/* ---- one value of one instruction ---- */

/* The text puts its result into %r10 (of 64 bits: %rd10, both halves are looked at). */
static const struct { const char *text; uint64_t want; bool wide; } values[] = {
  {"mov.b32 %r2, 0f40490FDB; cvt.rzi.s32.f32 %r10, %r2;", 3, false},
  {"mov.b32 %r2, 0fC0200000; cvt.rni.s32.f32 %r10, %r2;", 0xfffffffe, false},
  {"mov.b32 %r2, 0f7F800000; cvt.rzi.s32.f32 %r10, %r2;", 0x7fffffff, false},
  {"mov.b32 %r2, 0f7FC00000; cvt.rzi.u32.f32 %r10, %r2;", 0, false},
  {"mov.b32 %r2, 0fBF800000; cvt.rzi.u32.f32 %r10, %r2;", 0, false},
  {"mov.b32 %r2, 16777217; cvt.rn.f32.s32 %r10, %r2;", 0x4b800000, false},
  {"mov.b32 %r2, 16777219; cvt.rn.f32.u32 %r10, %r2;", 0x4b800002, false},
  {"mov.b32 %r2, 0f477FF000; cvt.rn.f16.f32 %rs1, %r2; cvt.u32.u16 %r10, %rs1;", 0x7c00, false},
  {"mov.b32 %r2, 0f477FEFFF; cvt.rn.f16.f32 %rs1, %r2; cvt.u32.u16 %r10, %rs1;", 0x7bff, false},
  {"mov.b32 %r2, 0f33000001; cvt.rn.f16.f32 %rs1, %r2; cvt.u32.u16 %r10, %rs1;", 1, false},
  {"mov.b32 %r2, 0f33000000; cvt.rn.f16.f32 %rs1, %r2; cvt.u32.u16 %r10, %rs1;", 0, false},
  {"mov.b32 %r2, 0f3F808000; cvt.rn.bf16.f32 %rs1, %r2; cvt.u32.u16 %r10, %rs1;", 0x3f80, false},
  {"mov.b32 %r2, 0f3F818000; cvt.rn.bf16.f32 %rs1, %r2; cvt.u32.u16 %r10, %rs1;", 0x3f82, false},
  {"mov.b32 %r2, 0f3F800000; mov.b32 %r3, 0fC0000000; cvt.rn.f16x2.f32 %r10, %r2, %r3;", 0x3c00c000, false},
  {"mov.b16 %rs1, 0x3555; cvt.f32.f16 %r10, %rs1;", 0x3eaaa000, false},
  {"mov.b16 %rs1, 0x0001; cvt.f32.f16 %r10, %rs1;", 0x33800000, false},
  {"mov.b16 %rs1, 0x1001; mov.b16 %rs2, 0x3c00; add.rn.f16 %rs3, %rs1, %rs2; cvt.u32.u16 %r10, %rs3;", 0x3c01, false},
  {"mov.b16 %rs1, 0x1000; mov.b16 %rs2, 0x3c00; add.rn.f16 %rs3, %rs1, %rs2; cvt.u32.u16 %r10, %rs3;", 0x3c00, false},
  {"mov.b32 %r2, 0f00000000; mov.b32 %r3, 0f80000000; min.f32 %r10, %r2, %r3;", 0x80000000, false},
  {"mov.b32 %r2, 0f7FC00000; mov.b32 %r3, 0f3F800000; max.f32 %r10, %r2, %r3;", 0x3f800000, false},
  {"mov.b32 %r2, 0f7FC00000; mov.b32 %r3, 0f3F800000; max.NaN.f32 %r10, %r2, %r3;", 0x7fffffff, false},
  {"mov.b32 %r2, 0f3F800001; fma.rn.f32 %r10, %r2, %r2, 0fBF800002;", 0x28800000, false},
  {"mov.b32 %r2, 0f40400000; rcp.rn.f32 %r10, %r2;", 0x3eaaaaab, false},
  {"mov.b32 %r2, 0x80000000; div.s32 %r10, %r2, -1;", 0x80000000, false},
  {"mov.b32 %r2, -7; div.s32 %r10, %r2, 2;", 0xfffffffd, false},
  {"mov.b32 %r2, -7; rem.s32 %r10, %r2, 4;", 0xfffffffd, false},
  {"mov.b32 %r2, -1; mul.hi.u32 %r10, %r2, %r2;", 0xfffffffe, false},
  {"mov.b32 %r2, -1; mul.hi.s32 %r10, %r2, %r2;", 0, false},
  {"mov.b32 %r2, -3; mul.wide.s32 %rd10, %r2, 5;", 0xfffffffffffffff1, true},
  {"mov.b32 %r2, -3; mul.wide.u32 %rd10, %r2, 5;", 0x4fffffff1, true},
  {"mov.b64 %rd8, -1; mul.hi.u64 %rd10, %rd8, %rd8;", 0xfffffffffffffffe, true},
  {"mov.b32 %r2, -3; mov.b64 %rd8, 7; mad.wide.s32 %rd10, %r2, 5, %rd8;", 0xfffffffffffffff8, true},
  {"mov.b32 %r2, 1; shl.b32 %r10, %r2, 32;", 0, false},
  {"mov.b32 %r2, -8; shr.s32 %r10, %r2, 40;", 0xffffffff, false},
  {"mov.b32 %r2, -8; shr.u32 %r10, %r2, 28;", 0xf, false},
  {"mov.b32 %r2, 0x12345678; mov.b32 %r3, 0x9abcdef0; shf.l.wrap.b32 %r10, %r2, %r3, 36;", 0xabcdef01, false},
  {"mov.b32 %r2, 0x12345678; mov.b32 %r3, 0x9abcdef0; shf.r.clamp.b32 %r10, %r2, %r3, 36;", 0x9abcdef0, false},
  {"mov.b32 %r2, 0x12345678; mov.b32 %r3, 0x9abcdef0; prmt.b32 %r10, %r2, %r3, 0x7c51;", 0x9affde56, false},
  {"mov.b32 %r2, 0x12345678; mov.b32 %r3, 0x9abcdef0; prmt.b32.f4e %r10, %r2, %r3, 0xfe;", 0xdef01234, false},
  {"mov.b32 %r2, 0x80ff0102; mov.b32 %r3, 0x7f03ff80; mov.b32 %r4, 0x7fffffff; dp4a.s32.s32 %r10, %r2, %r3, %r4;", 0x7fffbf7b, false},
  {"mov.b32 %r2, 0x80ff0102; mov.b32 %r3, 0x7f03ff80; mov.b32 %r4, 1; dp4a.u32.s32 %r10, %r2, %r3, %r4;", 0x417d, false},
  {"mov.b32 %r2, 0x80ff0102; mov.b32 %r3, 0x7f03ff80; mov.b32 %r4, 1; dp4a.u32.u32 %r10, %r2, %r3, %r4;", 0x447d, false},
  {"mov.b32 %r2, 0x0000ff00; bfe.s32 %r10, %r2, 8, 4;", 0xffffffff, false},
  {"mov.b32 %r2, 0x0000ff00; bfe.u32 %r10, %r2, 12, 8;", 0xf, false},
  {"mov.b32 %r2, 5; mov.b32 %r3, -1; bfi.b32 %r10, %r2, %r3, 4, 4;", 0xffffff5f, false},
  {"mov.b32 %r2, 0xf0; mov.b32 %r3, 0xcc; mov.b32 %r4, 0xaa; lop3.b32 %r10, %r2, %r3, %r4, 0x96;", 0x96, false},
  {"mov.b32 %r2, 0x00010000; clz.b32 %r10, %r2;", 15, false},
  {"mov.b32 %r2, 0x00010003; popc.b32 %r10, %r2;", 3, false},
  {"mov.b32 %r2, 0x00000003; brev.b32 %r10, %r2;", 0xc0000000, false},
  {"mov.b32 %r2, -5; mov.b32 %r3, -9; max.relu.s32 %r10, %r2, %r3;", 0, false},
  {"mov.b32 %r2, 0x89abcdef; mov.b32 {%rs1, %rs2}, %r2; mov.b32 %r10, {%rs2, %rs1};", 0xcdef89ab, false},
  {"mov.b16 %rs1, -2; cvt.s32.s16 %r10, %rs1;", 0xfffffffe, false},
  {"mov.b16 %rs1, 0x1f0; cvt.s32.s8 %r10, %rs1;", 0xfffffff0, false},
  {"mov.b32 %r2, 0f7FC00000; setp.neu.f32 %p1, %r2, %r2; selp.b32 %r10, 1, 2, %p1;", 1, false},
  {"mov.b32 %r2, 0f7FC00000; setp.ne.f32 %p1, %r2, %r2; selp.b32 %r10, 1, 2, %p1;", 2, false},
  {"mov.b32 %r2, -1; setp.lt.u32 %p1, %r2, 1; selp.b32 %r10, 1, 2, %p1;", 2, false},
  {"mov.b32 %r2, -1; setp.lt.s32 %p1, %r2, 1; @!%p1 mov.b32 %r2, 9; selp.b32 %r10, %r2, 2, %p1;", 0xffffffff, false},
};

static void check_values(bench *b) {
  char body[512];
  for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
    snprintf(body, sizeof body, "%s st.global.b%s", values[i].text, values[i].wide ? "64 [%rd4], %rd10;" : "32 [%rd4], %r10;");
    bool ok = run(b, body, 1, 1, false, 1);
    uint64_t got = b->out[0] | (values[i].wide ? (uint64_t)b->out[1] << 32 : 0);
    CHECK(ok && got == values[i].want, "%s: %s: %llx and not %llx", values[i].text, b->l.message, (unsigned long long)got, (unsigned long long)values[i].want);
  }
}

/* ---- what must be reported ---- */

typedef struct { const char *what, *body, *message; uint32_t threads, groups; } fault;

static const fault faults[] = {
  {"an instruction that is not known", "frob.b32 %r2, %r1;", "unknown instruction 'frob.b32'", 32, 1},
  {"a word that is not known", "add.cc.s32 %r2, %r1, 1;", "unknown instruction 'add.cc.s32': '.cc'", 32, 1},
  {"an instruction without a meaning", "sqrt.rn.u32 %r2, %r1;", "no meaning", 32, 1},
  {"a register that there is not", "mov.b32 %r40, 1;", "no register '%r40'", 32, 1},
  {"a label that there is not", "bra.uni $L9;", "no label '$L9'", 32, 1},
  {"beyond a buffer", "st.global.b32 [%rd1+1000], %r1;", "out of bounds: 4 bytes at byte 1024 of out, which has 1024", 32, 1},
  {"before a buffer", "st.global.b32 [%rd1+-4], %r1;", "out of bounds: 4 bytes at byte -4 of out", 32, 1},
  {"in no buffer", "ld.global.b32 %r2, [%rd3];", "is in no buffer", 32, 1},
  {"beyond LOCAL", "st.shared.b32 [%rd7+1020], %r1;", "out of bounds: 4 bytes at byte 1024 of LOCAL", 32, 1},
  {"unaligned", "st.global.b32 [%rd1+2], %r1;", "unaligned: 4 bytes at byte 2 of out", 32, 1},
  {"a vector beyond a buffer", "mov.b32 %r5, 0; ld.global.v2.b32 {%r2, %r3}, [%rd5+1024]; add.s32 %r5, %r2, %r3;", "out of bounds: 4 bytes at byte 1024 of in", 1, 1},
  {"an unaligned vector", "ld.global.v4.b32 {%r2, %r3, %r4, %r5}, [%rd2+4];", "unaligned: 16 bytes at byte 4 of in", 32, 1},
  {"a write to what is only read", "st.global.b32 [%rd2], %r1;", "writes to in, which is only read", 32, 1},
  {"LOCAL never written", "ld.shared.b32 %r2, [%rd7];", "byte 0 of LOCAL was never written", 32, 1},
  {"two writers", "st.shared.b32 [%rd3], %r1;", "race at byte 0 of LOCAL: it writes what a thread (such as 0 of group 0", 32, 1},
  {"two writers of global memory", "st.global.b32 [%rd4], %r1;", "race at byte 0 of out", 32, 1},
  {"two groups", "setp.ne.s32 %p1, %r1, 0; @%p1 bra $L1; st.global.b32 [%rd4], %r1;\n$L1:", "race at byte 0 of out", 32, 2},
  {"no barrier before a read", "st.shared.b32 [%rd7], %r1; ld.shared.b32 %r2, [%rd7+4];", "race", 64, 1},
  {"no barrier before a write", "st.shared.b32 [%rd7], %r1; bar.sync 0; xor.b32 %r2, %r1, 32; mul.wide.u32 %rd8, %r2, 4; add.s64 %rd8, %rd8, %rd3;"
   "ld.shared.b32 %r3, [%rd8]; st.shared.b32 [%rd7], %r3;", "race", 64, 1},
  {"a warp's barrier between warps", "st.shared.b32 [%rd7], %r1; bar.warp.sync -1; xor.b32 %r2, %r1, 32; mul.wide.u32 %rd8, %r2, 4; add.s64 %rd8, %rd8, %rd3;"
   "ld.shared.b32 %r3, [%rd8];", "", 64, 1},
  {"an atomic beside a read", "ld.global.b32 %r2, [%rd4]; atom.global.add.u32 %r3, [%rd4], 1;", "race at byte 0 of out", 32, 1},
  {"a copy not waited for", "cp.async.ca.shared.global [%rd7], [%rd2], 4; cp.async.commit_group; ld.shared.b32 %r2, [%rd7];", "has not been waited for", 32, 1},
  {"a copy not committed", "cp.async.ca.shared.global [%rd7], [%rd2], 4; cp.async.wait_group 0; ld.shared.b32 %r2, [%rd7];", "has not been waited for", 32, 1},
  {"a wait for too few", "cp.async.ca.shared.global [%rd7], [%rd2], 4; cp.async.commit_group; cp.async.wait_group 1; ld.shared.b32 %r2, [%rd7];", "has not been waited for", 32, 1},
  {"a copy over a copy", "cp.async.ca.shared.global [%rd7], [%rd2], 4; cp.async.ca.shared.global [%rd7], [%rd2], 4;", "has not been waited for", 32, 1},
  {"another thread's copy without a barrier", "cp.async.ca.shared.global [%rd7], [%rd2], 4; cp.async.wait_all; xor.b32 %r2, %r1, 32; mul.wide.u32 %rd8, %r2, 4;"
   "add.s64 %rd8, %rd8, %rd3; ld.shared.b32 %r3, [%rd8];", "", 64, 1},
  {"a copy whose source changes", "cp.async.ca.shared.global [%rd7], [%rd1], 4; st.global.b32 [%rd1], %r1; cp.async.wait_all;", "was written while it was in flight", 32, 1},
  {"a copy of 16 bytes to an odd place", "cp.async.cg.shared.global [%rd7], [%rd5], 16;", "unaligned: 16 bytes at byte 4 of LOCAL", 32, 1},
  {"a barrier that some do not reach", "setp.lt.s32 %p1, %r1, 40; @%p1 bra $L1; ret;\n$L1: bar.sync 0;", "40 threads wait at the barrier, and 24 have ended", 64, 1},
  {"lanes that do not come", "setp.lt.s32 %p1, %r1, 20; @%p1 bra $L1; bar.sync 0;\n$L1: bar.warp.sync -1;", "waits for lanes of its warp that wait elsewhere", 32, 1},
  {"lanes that have ended", "setp.lt.s32 %p1, %r1, 20; @%p1 bra $L1; ret;\n$L1: bar.warp.sync -1;", "waits for lanes ", 32, 1},
  {"a shuffle from a lane outside", "setp.lt.s32 %p1, %r1, 16; @!%p1 bra $L1; shfl.sync.bfly.b32 %r2, %r1, 16, 31, 65535;\n$L1:", "reads lane 16, which does not take part", 32, 1},
  {"a loop without end", "$L1: bra.uni $L1;", "more than 100000 warp instructions", 32, 1},
  {"a matrix instruction that there is not", "mma.sync.aligned.m16n8k4.row.col.f32.f16.f16.f32 {%r2, %r3, %r4, %r5}, {%r2, %r3}, {%r2}, {%r2, %r3, %r4, %r5};", "no such matrix instruction", 32, 1},
};

static void check_faults(bench *b) {
  for (size_t i = 0; i < sizeof faults / sizeof *faults; i++)
    for (uint64_t seed = 0; seed < 4; seed++) {
      bool ok = run(b, faults[i].body, faults[i].threads, faults[i].groups, seed > 0, seed);
      char expected[PTX_MESSAGE];   /* in a drawn order the thread that comes first, and so the place, is another */
      snprintf(expected, sizeof expected, "%.*s", (int)(seed ? strcspn(faults[i].message, "0123456789") : strlen(faults[i].message)), faults[i].message);
      CHECK(!ok && strstr(b->l.message, expected), "%s, seed %d: %s", faults[i].what, (int)seed, ok ? "nothing reported" : b->l.message);
    }
}

/* ---- threads ---- */

/* Each thread takes its own number of turns, and the lanes meet behind; a butterfly and a ballot; LOCAL across warps; a ring of copies; atomics. */
static const struct { const char *what, *body; uint32_t threads, of[4]; } programs[] = {
  {"turns", "and.b32 %r2, %r1, 7; mov.b32 %r3, 0;\n$L1: add.s32 %r3, %r3, 3; add.s32 %r2, %r2, -1; setp.ge.s32 %p1, %r2, 0; @%p1 bra $L1; bar.warp.sync -1; st.global.b32 [%rd1], %r3;",
   32, {3, 6, 9, 12}},
  {"butterfly", "shfl.sync.bfly.b32 %r2|%p1, %r1, 3, 31, -1; selp.b32 %r3, %r2, 99, %p1; st.global.b32 [%rd1], %r3;", 32, {3, 2, 1, 0}},
  {"down", "shfl.sync.down.b32 %r2|%p1, %r1, 30, 31, -1; selp.b32 %r3, %r2, 99, %p1; st.global.b32 [%rd1], %r3;", 32, {30, 31, 99, 99}},
  {"segments", "shfl.sync.idx.b32 %r2, %r1, 5, 7199, -1; st.global.b32 [%rd1], %r2;", 32, {1, 1, 1, 1}},
  {"ballot", "setp.lt.s32 %p1, %r1, 2; vote.sync.ballot.b32 %r2, %p1, -1; st.global.b32 [%rd1], %r2;", 32, {3, 3, 3, 3}},
  {"across warps", "st.shared.b32 [%rd7], %r1; bar.sync 0; xor.b32 %r2, %r1, 33; mul.wide.u32 %rd8, %r2, 4; add.s64 %rd8, %rd8, %rd3;"
   "ld.shared.b32 %r3, [%rd8]; st.global.b32 [%rd1], %r3;", 64, {33, 32, 35, 34}},
  {"a copy with its wait and barrier", "cp.async.ca.shared.global [%rd7], [%rd2], 4; cp.async.commit_group; cp.async.wait_group 0; bar.sync 0; xor.b32 %r2, %r1, 33;"
   "mul.wide.u32 %rd8, %r2, 4; add.s64 %rd8, %rd8, %rd3; ld.shared.b32 %r3, [%rd8]; st.global.b32 [%rd1], %r3;", 64, {33, 32, 35, 34}},
  {"copies of nothing are zeros", "setp.lt.s32 %p1, %r1, 2; selp.b32 %r2, 4, 0, %p1; add.s32 %r4, %r1, 1; cp.async.ca.shared.global [%rd7], [%rd2+4], 4, %r2; cp.async.wait_all;"
   "ld.shared.b32 %r3, [%rd7]; st.global.b32 [%rd1], %r3;", 64, {1, 2, 0, 0}},
  {"atomics", "mov.b32 %r2, 0; setp.ne.s32 %p1, %r1, 0; @%p1 bra $L1; st.shared.b32 [%rd3], %r2;\n$L1: bar.sync 0; atom.shared.add.u32 %r3, [%rd3], 2; bar.sync 0;"
   "ld.shared.b32 %r4, [%rd3]; st.global.b32 [%rd1], %r4;", 64, {128, 128, 128, 128}},
  {"vectors", "shl.b32 %r2, %r1, 4; cvt.u64.u32 %rd8, %r2; add.s64 %rd9, %rd5, %rd8; add.s64 %rd10, %rd4, %rd8; ld.global.nc.v4.b32 {%r3, %r4, %r5, %r6}, [%rd9];"
   "st.global.v4.b32 [%rd10], {%r6, %r5, %r4, %r3};", 32, {3, 2, 1, 0}},
  {"a gap in a vector", "st.shared.b32 [%rd7], %r1; bar.sync 0; ld.shared.v4.b32 {%r2, %r3, %r4, %r5}, [%rd3+112]; add.s32 %r6, %r2, %r3; st.global.b32 [%rd1], %r6;",
   30, {57, 57, 57, 57}},
  {"rows of a matrix", "shl.b32 %r2, %r1, 4; cvt.u64.u32 %rd8, %r2; add.s64 %rd9, %rd3, %rd8; st.shared.v4.b32 [%rd9], {%r1, 1, 2, 3}; bar.warp.sync -1;"
   "ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%r3, %r4}, [%rd9]; st.global.b32 [%rd1], %r3;", 32, {0, 1, 2, 3}},
  {"columns of a matrix", "mad.lo.s32 %r6, %r1, 65536, %r1; shl.b32 %r2, %r1, 4; cvt.u64.u32 %rd8, %r2; add.s64 %rd9, %rd3, %rd8; st.shared.v4.b32 [%rd9], {%r6, 1, 2, 3}; bar.warp.sync -1;"
   "ldmatrix.sync.aligned.m8n8.x1.trans.shared.b16 {%r3}, [%rd9]; st.global.b32 [%rd1], %r3;", 32, {0x00010000, 0x00030002, 0x00050004, 0x00070006}},
};

static void check_programs(bench *b) {
  for (size_t i = 0; i < sizeof programs / sizeof *programs; i++)
    for (uint64_t seed = 0; seed < 8; seed++) {
      bool ok = run(b, programs[i].body, programs[i].threads, 1, seed > 0, seed);
      CHECK(ok && !memcmp(b->out, programs[i].of, sizeof programs[i].of), "%s, seed %d: %s: %x %x %x %x", programs[i].what, (int)seed, b->l.message, b->out[0], b->out[1], b->out[2], b->out[3]);
    }
}

/* ---- counts ---- */

static const struct { const char *what, *body; uint64_t wavefronts, fewest, sectors, sectors_fewest; } counted[] = {
  {"in a row", "st.shared.b32 [%rd7], %r1;", 1, 1, 0, 0},
  {"two to a bank", "shl.b32 %r2, %r1, 3; cvt.u64.u32 %rd8, %r2; add.s64 %rd9, %rd3, %rd8; st.shared.b32 [%rd9], %r1;", 2, 1, 0, 0},
  {"16 bytes a lane", "shl.b32 %r2, %r1, 4; cvt.u64.u32 %rd8, %r2; add.s64 %rd9, %rd3, %rd8; st.shared.v4.b32 [%rd9], {%r1, %r1, %r1, %r1};", 4, 4, 0, 0},
  {"one word for all", "setp.ne.s32 %p1, %r1, 0; @%p1 bra $L1; st.shared.b32 [%rd3], %r1;\n$L1: bar.warp.sync -1; ld.shared.b32 %r2, [%rd3];", 2, 2, 0, 0},
  {"sectors in a row", "ld.global.b32 %r2, [%rd2];", 0, 0, 4, 4},
  {"each its own sector", "and.b32 %r2, %r1, 31; shl.b32 %r2, %r2, 5; cvt.u64.u32 %rd8, %r2; add.s64 %rd9, %rd5, %rd8; ld.global.b32 %r2, [%rd9];", 0, 0, 32, 4},
  {"one element for all", "ld.global.b32 %r2, [%rd5];", 0, 0, 1, 1},
};

static void check_counts(bench *b) {
  for (size_t i = 0; i < sizeof counted / sizeof *counted; i++) {
    bool ok = run(b, counted[i].body, 32, 1, false, 1);
    ptx_summary s = {.matrix = 0};
    if (ok) s = ptx_summarise(&b->l, 0);
    CHECK(ok && s.all.wavefronts == counted[i].wavefronts && s.all.wavefronts_fewest == counted[i].fewest && s.all.sectors == counted[i].sectors && s.all.sectors_fewest == counted[i].sectors_fewest,
          "%s: %s: wavefronts %d of %d, sectors %d of %d", counted[i].what, b->l.message, (int)s.all.wavefronts, (int)s.all.wavefronts_fewest, (int)s.all.sectors, (int)s.all.sectors_fewest);
  }
  bool ok = run(b, "mov.b32 %r2, 0;\n$LOOP: ld.global.b32 %r3, [%rd2]; add.s32 %r2, %r2, 1; setp.lt.s32 %p1, %r2, 5; @%p1 bra $LOOP;", 64, 1, false, 1);
  ptx_summary s = {.matrix = 0};
  if (ok && b->l.kernel->loops == 1) s = ptx_summarise(&b->l, 1);
  CHECK(ok && s.all.warps == 2 * 5 * 4 && s.all.sectors == 2 * 5 * 4 && s.diverged == 0, "a loop: %s: %d warp instructions, %d sectors", b->l.message, (int)s.all.warps, (int)s.all.sectors);
  CHECK(ok && b->l.traffic[1].sectors_read == 40 && b->l.traffic[1].distinct_read == 8, "%d sectors read, %d different", (int)b->l.traffic[1].sectors_read, (int)b->l.traffic[1].distinct_read);
}

int main(void) {
  static bench b;
  check_values(&b);
  check_faults(&b);
  check_programs(&b);
  check_counts(&b);
  ptx_launch_free(&b.l);
  ptx_module_free(&b.m);
  return TEST_END();
}
