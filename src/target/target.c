/* SPDX-License-Identifier: MIT
 * The table of targets by name, and the target of the machine this runs on. docs/adding.md tells what a new row
 * needs. */
#define _GNU_SOURCE
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include "target/processor.h"

/* ---- the table ---- */

#define X(f) ((uint64_t)1 << TG_X86_##f)
#define A(f) ((uint64_t)1 << TG_ARM_##f)
/* The levels of the x86-64 psABI without features that no kernel uses, and later additions of the vendors. */
#define V2 (X(SSE3) | X(SSSE3) | X(CX16) | X(SSE41) | X(SSE42) | X(POPCNT) | X(SAHF))
#define V3 (V2 | X(AVX) | X(F16C) | X(FMA) | X(MOVBE) | X(LZCNT) | X(BMI) | X(BMI2) | X(AVX2))
#define V4 (V3 | X(AVX512F) | X(AVX512DQ) | X(AVX512CD) | X(AVX512BW) | X(AVX512VL))
#define SINCE_SKYLAKE (X(ADX) | X(PREFETCHW))
#define SINCE_ICELAKE                                                                                                  \
  (SINCE_SKYLAKE | X(GFNI) | X(AVX512IFMA) | X(AVX512VBMI) | X(AVX512VBMI2) | X(AVX512VNNI) | X(AVX512BITALG) |        \
   X(AVX512VPOPCNTDQ))
#define ZEN2 (V3 | X(ADX) | X(PREFETCHW) | X(SSE4A))
#define ZEN4 (V4 | ZEN2 | SINCE_ICELAKE | X(AVX512BF16))
#define TILES (X(AMX_TILE) | X(AMX_INT8) | X(AMX_BF16))
#define ARM8 (A(FP) | A(NEON))
#define ARM82 (ARM8 | A(CRC) | A(LSE) | A(RDM) | A(FP16) | A(RCPC) | A(DOTPROD))
#define ARM84 (ARM82 | A(JSCVT) | A(COMPLEX) | A(FP16FML) | A(FLAGM) | A(RCPC_IMMO) | A(SVE) | A(I8MM) | A(BF16))
#define ARM90 (ARM84 | A(SVE2) | A(SVE_BITPERM) | A(FLAGM2) | A(FRINT))
#define KiB << 10
#define MiB << 20

/* A CPU row lists the features that LLVM has for that CPU name (checked by tests/jit/rows.c); its other fields follow
 * from these (tg_target_derive). PTX rows name the lowest PTX version that has what tg emits for the chip, so that old
 * drivers accept it. Cache sizes (L1 data, L2, L3) and numbers of cores are the published ones of the chip named beside
 * the row; rows of levels have typical ones. Only heuristics read them: what is legal never depends on them. The rows
 * of GPUs: sm_80 is the A100, sm_86 the RTX 3090, sm_89 the 4090, sm_90a the H100 SXM, sm_100 the B200, sm_120 the RTX
 * 5090; gfx1030 the RX 6900 XT, gfx1100 to gfx1102 the RX 7900 XTX, 7800 XT and 7600, gfx1150 and gfx1151 the graphics
 * of the Ryzen AI 9 HX 370 and AI Max+ 395, gfx1200 and gfx1201 the RX 9060 XT and 9070 XT, gfx90a the MI210, gfx942
 * and gfx950 one die of the MI300X and MI355X. launch_ns is a published figure of the V100, for lack of others
 * (docs/pipeline.md). */
static const tg_target rows[] = {
    {.name = "x86-64-v2", .needs = V2, .l1 = 32 KiB, .l2 = 1 MiB, .l3 = 8 MiB},
    {.name = "x86-64-v3", .needs = V3, .l1 = 32 KiB, .l2 = 1 MiB, .l3 = 8 MiB},
    {.name = "x86-64-v4", .needs = V4, .l1 = 32 KiB, .l2 = 1 MiB, .l3 = 8 MiB},
    /* Core i7-4770 */
    {.name = "haswell", .needs = V3, .l1 = 32 KiB, .l2 = 256 KiB, .l3 = 8 MiB},
    /* Core i7-6700 */
    {.name = "skylake", .needs = V3 | SINCE_SKYLAKE, .l1 = 32 KiB, .l2 = 256 KiB, .l3 = 8 MiB},
    /* Xeon Platinum 8180: 38.5 MiB */
    {.name = "skylake-avx512", .needs = V4 | SINCE_SKYLAKE, .l1 = 32 KiB, .l2 = 1 MiB, .l3 = 39424 KiB},
    /* Xeon Platinum 8380 */
    {.name = "icelake-server", .needs = V4 | SINCE_ICELAKE, .l1 = 48 KiB, .l2 = 1280 KiB, .l3 = 60 MiB},
    /* Xeon Platinum 8480+ */
    {.name = "sapphirerapids",
     .needs = V4 | SINCE_ICELAKE | X(AVX512BF16) | X(AVX512FP16) | X(AVXVNNI) | TILES,
     .l1 = 48 KiB,
     .l2 = 2 MiB,
     .l3 = 105 MiB},
    /* EPYC 7742; L3 of a complex, as for those below */
    {.name = "znver2", .needs = ZEN2, .l1 = 32 KiB, .l2 = 512 KiB, .l3 = 16 MiB},
    /* EPYC 7763 */
    {.name = "znver3", .needs = ZEN2, .l1 = 32 KiB, .l2 = 512 KiB, .l3 = 32 MiB},
    /* EPYC 9654 */
    {.name = "znver4", .needs = ZEN4, .l1 = 32 KiB, .l2 = 1 MiB, .l3 = 32 MiB},
    /* EPYC 9755 */
    {.name = "znver5", .needs = ZEN4 | X(AVXVNNI), .l1 = 48 KiB, .l2 = 1 MiB, .l3 = 32 MiB},
    {.name = "armv8-a",
     .arch = TG_ARCH_AARCH64,
     .cpu = "generic",
     .features = "+neon",
     .needs = ARM8,
     .l1 = 32 KiB,
     .l2 = 1 MiB,
     .l3 = 8 MiB},
    /* Graviton2 */
    {.name = "neoverse-n1", .arch = TG_ARCH_AARCH64, .needs = ARM82, .l1 = 64 KiB, .l2 = 1 MiB, .l3 = 32 MiB},
    /* Graviton3 */
    {.name = "neoverse-v1",
     .arch = TG_ARCH_AARCH64,
     .needs = ARM84 | A(SHA3),
     .sve_bytes = 32,
     .l1 = 64 KiB,
     .l2 = 1 MiB,
     .l3 = 32 MiB},
    /* Graviton4 */
    {.name = "neoverse-v2",
     .arch = TG_ARCH_AARCH64,
     .needs = ARM90,
     .sve_bytes = 16,
     .l1 = 64 KiB,
     .l2 = 2 MiB,
     .l3 = 36 MiB},
    {.name = "sm_80",
     .arch = TG_ARCH_NVPTX,
     .features = "+ptx70",
     .lanes = 32,
     .max_threads = 1024,
     .vector_registers = 255,
     .access_bytes = 16,
     .local_bytes = 163 << 10,
     .core_registers = 65536,
     .matrix_macs = 1024,
     .core_bytes = 48,
     .core_macs = 64,
     .core_issue = 4,
     .clock = 1410,
     .launch_ns = 900,
     .wide_constants = true,
     .threads = 108,
     .l1 = 192 << 10,
     .l2 = 40 << 20,
     .bf16_convert = true,
     .async_copy = true,
     .loads_matrices = true},
    {.name = "sm_86",
     .arch = TG_ARCH_NVPTX,
     .features = "+ptx71",
     .lanes = 32,
     .max_threads = 1024,
     .vector_registers = 255,
     .access_bytes = 16,
     .local_bytes = 99 << 10,
     .core_registers = 65536,
     .matrix_macs = 256,
     .core_bytes = 32,
     .core_macs = 128,
     .core_issue = 4,
     .clock = 1695,
     .launch_ns = 900,
     .wide_constants = true,
     .threads = 82,
     .l1 = 128 << 10,
     .l2 = 6 << 20,
     .bf16_convert = true,
     .async_copy = true,
     .loads_matrices = true},
    {.name = "sm_89",
     .arch = TG_ARCH_NVPTX,
     .features = "+ptx78",
     .lanes = 32,
     .max_threads = 1024,
     .vector_registers = 255,
     .access_bytes = 16,
     .local_bytes = 99 << 10,
     .core_registers = 65536,
     .matrix_macs = 256,
     .core_bytes = 32,
     .core_macs = 128,
     .core_issue = 4,
     .clock = 2520,
     .launch_ns = 900,
     .wide_constants = true,
     .threads = 128,
     .l1 = 128 << 10,
     .l2 = 72 << 20,
     .bf16_convert = true,
     .async_copy = true,
     .loads_matrices = true},
    {.name = "sm_90a",
     .arch = TG_ARCH_NVPTX,
     .features = "+ptx80",
     .lanes = 32,
     .max_threads = 1024,
     .vector_registers = 255,
     .access_bytes = 16,
     .local_bytes = 227 << 10,
     .core_registers = 65536,
     .matrix_macs = 1280,
     .core_bytes = 48,
     .core_macs = 128,
     .core_issue = 4,
     .clock = 1980,
     .launch_ns = 900,
     .wide_constants = true,
     .threads = 132,
     .l1 = 256 << 10,
     .l2 = 50 << 20,
     .bf16_convert = true,
     .async_copy = true,
     .loads_matrices = true},
    {.name = "sm_100",
     .arch = TG_ARCH_NVPTX,
     .features = "+ptx86",
     .lanes = 32,
     .max_threads = 1024,
     .vector_registers = 255,
     .access_bytes = 16,
     .local_bytes = 227 << 10,
     .core_registers = 65536,
     .matrix_macs = 1024,
     .core_bytes = 48,
     .core_macs = 128,
     .core_issue = 4,
     .clock = 1965,
     .launch_ns = 900,
     .wide_constants = true,
     .threads = 148,
     .l1 = 256 << 10,
     .l2 = 126 << 20,
     .bf16_convert = true,
     .async_copy = true,
     .loads_matrices = true},
    {.name = "sm_120",
     .arch = TG_ARCH_NVPTX,
     .features = "+ptx87",
     .lanes = 32,
     .max_threads = 1024,
     .vector_registers = 255,
     .access_bytes = 16,
     .local_bytes = 99 << 10,
     .core_registers = 65536,
     .matrix_macs = 256,
     .core_bytes = 32,
     .core_macs = 128,
     .core_issue = 4,
     .clock = 2407,
     .launch_ns = 900,
     .wide_constants = true,
     .threads = 170,
     .l1 = 128 << 10,
     .l2 = 96 << 20,
     .bf16_convert = true,
     .async_copy = true,
     .loads_matrices = true},
    {.name = "gfx1030",
     .arch = TG_ARCH_AMDGPU,
     .lanes = 32,
     .max_threads = 1024,
     .vector_registers = 256,
     .access_bytes = 16,
     .local_bytes = 64 << 10,
     .core_registers = 65536,
     .core_bytes = 64,
     .core_macs = 64,
     .core_issue = 2,
     .clock = 2250,
     .launch_ns = 900,
     .wide_constants = true,
     .threads = 80,
     .l1 = 16 << 10,
     .l2 = 4 << 20,
     .l3 = 128 << 20},
    {.name = "gfx1100",
     .arch = TG_ARCH_AMDGPU,
     .lanes = 32,
     .max_threads = 1024,
     .vector_registers = 256,
     .access_bytes = 16,
     .local_bytes = 64 << 10,
     .core_registers = 98304,
     .matrix_macs = 256,
     .core_bytes = 64,
     .core_macs = 128,
     .core_issue = 2,
     .clock = 2500,
     .launch_ns = 900,
     .wide_constants = true,
     .threads = 96,
     .l1 = 32 << 10,
     .l2 = 6 << 20,
     .l3 = 96 << 20},
    {.name = "gfx1101",
     .arch = TG_ARCH_AMDGPU,
     .lanes = 32,
     .max_threads = 1024,
     .vector_registers = 256,
     .access_bytes = 16,
     .local_bytes = 64 << 10,
     .core_registers = 98304,
     .matrix_macs = 256,
     .core_bytes = 64,
     .core_macs = 128,
     .core_issue = 2,
     .clock = 2430,
     .launch_ns = 900,
     .wide_constants = true,
     .threads = 60,
     .l1 = 32 << 10,
     .l2 = 4 << 20,
     .l3 = 64 << 20},
    {.name = "gfx1102",
     .arch = TG_ARCH_AMDGPU,
     .lanes = 32,
     .max_threads = 1024,
     .vector_registers = 256,
     .access_bytes = 16,
     .local_bytes = 64 << 10,
     .core_registers = 65536,
     .matrix_macs = 256,
     .core_bytes = 64,
     .core_macs = 128,
     .core_issue = 2,
     .clock = 2625,
     .launch_ns = 900,
     .wide_constants = true,
     .threads = 32,
     .l1 = 32 << 10,
     .l2 = 2 << 20,
     .l3 = 32 << 20},
    {.name = "gfx1150",
     .arch = TG_ARCH_AMDGPU,
     .lanes = 32,
     .max_threads = 1024,
     .vector_registers = 256,
     .access_bytes = 16,
     .local_bytes = 64 << 10,
     .core_registers = 65536,
     .matrix_macs = 256,
     .core_bytes = 64,
     .core_macs = 128,
     .core_issue = 2,
     .clock = 2900,
     .launch_ns = 900,
     .wide_constants = true,
     .threads = 16,
     .l1 = 32 << 10,
     .l2 = 2 << 20},
    {.name = "gfx1151",
     .arch = TG_ARCH_AMDGPU,
     .lanes = 32,
     .max_threads = 1024,
     .vector_registers = 256,
     .access_bytes = 16,
     .local_bytes = 64 << 10,
     .core_registers = 98304,
     .matrix_macs = 256,
     .core_bytes = 64,
     .core_macs = 128,
     .core_issue = 2,
     .clock = 2900,
     .launch_ns = 900,
     .wide_constants = true,
     .threads = 40,
     .l1 = 32 << 10,
     .l2 = 2 << 20,
     .l3 = 32 << 20},
    {.name = "gfx1200",
     .arch = TG_ARCH_AMDGPU,
     .lanes = 32,
     .max_threads = 1024,
     .vector_registers = 256,
     .access_bytes = 16,
     .local_bytes = 64 << 10,
     .core_registers = 98304,
     .matrix_macs = 512,
     .core_bytes = 64,
     .core_macs = 128,
     .core_issue = 2,
     .clock = 3130,
     .launch_ns = 900,
     .wide_constants = true,
     .threads = 32,
     .l1 = 32 << 10,
     .l2 = 4 << 20,
     .l3 = 32 << 20},
    {.name = "gfx1201",
     .arch = TG_ARCH_AMDGPU,
     .lanes = 32,
     .max_threads = 1024,
     .vector_registers = 256,
     .access_bytes = 16,
     .local_bytes = 64 << 10,
     .core_registers = 98304,
     .matrix_macs = 512,
     .core_bytes = 64,
     .core_macs = 128,
     .core_issue = 2,
     .clock = 2970,
     .launch_ns = 900,
     .wide_constants = true,
     .threads = 64,
     .l1 = 32 << 10,
     .l2 = 8 << 20,
     .l3 = 64 << 20},
    {.name = "gfx90a",
     .arch = TG_ARCH_AMDGPU,
     .lanes = 64,
     .max_threads = 1024,
     .vector_registers = 512,
     .access_bytes = 16,
     .local_bytes = 64 << 10,
     .core_registers = 131072,
     .matrix_macs = 512,
     .core_bytes = 64,
     .core_macs = 64,
     .core_issue = 4,
     .clock = 1700,
     .launch_ns = 900,
     .threads = 104,
     .l1 = 16 << 10,
     .l2 = 8 << 20},
    {.name = "gfx942",
     .arch = TG_ARCH_AMDGPU,
     .lanes = 64,
     .max_threads = 1024,
     .vector_registers = 512,
     .access_bytes = 16,
     .local_bytes = 64 << 10,
     .core_registers = 131072,
     .matrix_macs = 1024,
     .core_bytes = 64,
     .core_macs = 128,
     .core_issue = 4,
     .clock = 2100,
     .launch_ns = 900,
     .threads = 38,
     .l1 = 32 << 10,
     .l2 = 4 << 20,
     .l3 = 256 << 20},
    {.name = "gfx950",
     .arch = TG_ARCH_AMDGPU,
     .lanes = 64,
     .max_threads = 1024,
     .vector_registers = 512,
     .access_bytes = 16,
     .local_bytes = 160 << 10,
     .core_registers = 131072,
     .matrix_macs = 2048,
     .core_bytes = 64,
     .core_macs = 128,
     .core_issue = 4,
     .clock = 2400,
     .launch_ns = 900,
     .threads = 32,
     .l1 = 32 << 10,
     .l2 = 4 << 20,
     .l3 = 256 << 20},
    {.name = "opencl", .arch = TG_ARCH_OPENCL, .features = "fp64 int64_atomics", .l1 = 32 << 10, .l2 = 1 << 20},
    {.name = "spirv", .arch = TG_ARCH_OPENCL, .features = "fp64 int64_atomics spirv", .l1 = 32 << 10, .l2 = 1 << 20},
};

static const char *const triples[] = {
  [TG_ARCH_X86_64] = "x86_64-unknown-linux-gnu", [TG_ARCH_AARCH64] = "aarch64-unknown-linux-gnu",
  [TG_ARCH_NVPTX] = "nvptx64-nvidia-cuda", [TG_ARCH_AMDGPU] = "amdgcn-amd-amdhsa",
  [TG_ARCH_OPENCL] = "spirv64v1.0-unknown-unknown"};

void tg_target_derive(tg_target *t) {
  /* only complete levels count: no code is generated for a part of one */
  bool x86 = t->arch == TG_ARCH_X86_64, wide = x86 && (t->needs & V4) == V4, v3 = x86 && (t->needs & V3) == V3;
  t->vector_bytes = wide ? 64 : v3 ? 32 : t->sve_bytes > 16 ? t->sve_bytes : 16;
  t->vector_registers = wide || !x86 ? 32 : 16;
  t->access_bytes = t->vector_bytes;
  t->fma = t->f16_convert = v3 || !x86;
  t->masked_least = wide ? 1 : v3 ? 4 : !x86 && (t->needs & A(SVE)) ? 1 : 0;
  t->lane_bytes = t->arch == TG_ARCH_AARCH64 ? 16 : 0;   /* of SVE's the lanes of each 16 bytes */
  t->dot_u8s8 = wide && (t->needs & X(AVX512VNNI));
  t->dot_bf16 = wide && (t->needs & X(AVX512BF16));
  t->tile_i8 = wide && (t->needs & X(AMX_TILE)) && (t->needs & X(AMX_INT8));
  const tg_machine *m = &t->machine;
  t->one_stream = m->interleave > 0 && m->interleave < 1;
  /* below AVX2 there is no gather: lanes are picked one by one, on whatever machine */
  t->gathers_slowly = (x86 && !v3) || m->gather_lane > m->insert_lane;
  /* With LLVM's scheduling models of other processors with AVX-512 (Zen 4 and 5, Skylake to Ice Lake) loads of unrolled
   * terms come so early that accumulators spill to the stack, though there are registers for all: products of 32x32x32
   * took 1.7 times as long on Zen 5. */
  if (wide) snprintf(t->tune, sizeof t->tune, "sapphirerapids");
}

/* The machine that code for a row is chosen for: the row's own, or the nearest; of x86-64 AMD's alone have SSE4A. */
static const tg_machine *machine_of_row(const tg_target *t) {
  const tg_machine *m = tg_machine_row(t->name);
  const char *maker = t->arch != TG_ARCH_X86_64 ? "" : t->needs & X(SSE4A) ? "AuthenticAMD" : "GenuineIntel";
  return m ? m : tg_machine_nearest(t->arch, t->vector_bytes, maker);
}

/* Copies a row and fills in the fields that rows omit because all CPUs, or all GPUs, have the same. */
static void fill_in(tg_target *t, const tg_target *row) {
  *t = *row;
  snprintf(t->triple, sizeof t->triple, "%s", triples[t->arch]);
  if (!t->cpu[0]) snprintf(t->cpu, sizeof t->cpu, "%s", t->name);
  snprintf(t->silicon, sizeof t->silicon, "%s", t->name);
  if (tg_target_is_device(row)) {
    t->vector_bytes = 4;
    t->fma = t->f16_arithmetic = t->f16_convert = true;
    return;
  }
  /* a task is a work-item; vectorizing is left to the compiler of the text */
  if (tg_target_is_source(row)) {
    t->vector_bytes = t->access_bytes = 1;
    t->vector_registers = 16;
    t->fma = true;
  } else {
    tg_target_derive(t);   /* how wide its vectors are */
    t->machine = *machine_of_row(t);
    tg_target_derive(t);   /* and what follows from the machine */
  }
  t->threads = t->lanes = t->max_threads = 1;
  t->prefer_i64_address = true;
}

/* ---- the host ---- */

static uint64_t read_size(const char *path) {
  char text[64] = "", *end;
  FILE *f = fopen(path, "re");
  if (!f) return 0;
  if (!fgets(text, sizeof text, f)) text[0] = 0;
  fclose(f);
  uint64_t n = strtoull(text, &end, 10);
  return *end == 'K' ? n << 10 : *end == 'M' ? n << 20 : *end == 'G' ? n << 30 : n;
}

static void read_caches(tg_target *t) {
  for (int i = 0; i < 8; i++) {
    char path[128], kind[32] = "";
    snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu0/cache/index%d/type", i);
    FILE *f = fopen(path, "re");
    if (!f) break;
    if (!fgets(kind, sizeof kind, f)) kind[0] = 0;
    fclose(f);
    if (kind[0] == 'I') continue; /* of instructions */
    snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu0/cache/index%d/level", i);
    uint64_t which = read_size(path);
    snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu0/cache/index%d/size", i);
    uint64_t size = read_size(path);
    if (which == 1) t->l1 = size;
    else if (which == 2) t->l2 = size;
    else if (which == 3) t->l3 = size;
  }
}

static uint32_t usable_cores(void) {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set)) return 1;
  int n = CPU_COUNT(&set);
  return n > 0 ? (uint32_t)n : 1;
}

void tg_target_host(tg_target *t, uint32_t threads) {
  tg_processor p;
  tg_processor_read(&p, true);
  tg_target_of(t, &p);
  t->threads = threads ? threads : usable_cores();
  read_caches(t);
}

/* Intel, Software Developer's Manual 2: VPERMPS, of 512 bits. Four bits of an index count. */
const char *tg_target_shuffle(const tg_target *t, uint32_t lanes) {
  return t->arch == TG_ARCH_X86_64 && t->vector_bytes == 64 && lanes == 16 ? "llvm.x86.avx512.permvar.sf.512" : NULL;
}

/* Intel, Software Developer's Manual 2: VRANGEPS, VRANGEPD; every processor with vectors of 64 bytes that a row names
 * has them (AVX512DQ). */
const char *tg_target_extremum(const tg_target *t, uint32_t bits, uint32_t lanes) {
  if (t->arch != TG_ARCH_X86_64 || t->vector_bytes != 64 || bits * lanes != 512) return NULL;
  return bits == 32 ? "llvm.x86.avx512.mask.range.ps.512" : bits == 64 ? "llvm.x86.avx512.mask.range.pd.512" : NULL;
}

const char *tg_target_name(uint32_t i) { return i < TG_COUNT(rows) ? rows[i].name : NULL; }

/* The first driver that takes a version of PTX. PTX ISA, "Release Notes": 7.0 came with CUDA 11.0, and so on with each
 * minor number; after 12.5, versions of CUDA went by that had none of their own. */
static uint32_t driver_of_ptx(uint32_t version) {
  uint32_t minor = version % 10 + (version >= 86 && version < 90);
  return (version / 10 + 4) * 1000 + minor * 10;
}

/* Code for sm_80 runs on all later chips, since it is compiled again there; that for sm_90a on those of 9.0 alone. */
const char *tg_target_of_nvidia(uint32_t major, uint32_t minor, uint32_t driver) {
  const char *best = NULL;
  uint32_t best_chip = 0;
  for (uint32_t i = 0; i < TG_COUNT(rows); i++) {
    uint32_t chip, ptx;
    int end = 0;
    if (rows[i].arch != TG_ARCH_NVPTX || sscanf(rows[i].name, "sm_%u%n", &chip, &end) != 1) continue;
    bool exact = rows[i].name[end] == 'a';
    if (rows[i].name[end + exact] || sscanf(rows[i].features, "+ptx%u", &ptx) != 1 || driver < driver_of_ptx(ptx))
      continue;
    if (exact ? chip != 10 * major + minor : chip > 10 * major + minor) continue;
    if (chip > best_chip || (chip == best_chip && exact)) best = rows[i].name, best_chip = chip;
  }
  return best;
}

bool tg_target_row(tg_target *t, const char *name) {
  static const char *const aliases[][2] = {{"icelake", "icelake-server"}};
  for (uint32_t i = 0; i < TG_COUNT(aliases); i++)
    if (!strcmp(name, aliases[i][0])) name = aliases[i][1];
  for (uint32_t i = 0; i < TG_COUNT(rows); i++)
    if (!strcmp(name, rows[i].name)) {
      fill_in(t, &rows[i]);
      return true;
    }
  return false;
}

bool tg_target_named(tg_target *t, const char *name) {
  tg_processor p;
  if (!strcmp(name, "host")) {
    tg_target_host(t, 0);
    return true;
  }
  if (!tg_target_row(t, name)) return false;
  if (tg_target_is_source(t)) snprintf(t->lacks, sizeof t->lacks, "a device's kernels are launched by tg/device.h");
  else if (tg_target_is_device(t)) snprintf(t->lacks, sizeof t->lacks, "nothing is launched on devices yet");
  else {
    tg_processor_read(&p, t->tile_i8);   /* in case its code is to run here */
    tg_target_judge(t, &p);
  }
  return true;
}
