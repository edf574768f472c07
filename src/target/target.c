/* SPDX-License-Identifier: MIT
 * The targets by name, a row each, and the machine that this runs on. docs/adding.md tells what a new row takes. */
#define _GNU_SOURCE
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif
#if defined(__x86_64__) && defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif
#include "target/target.h"

/* Linux, Documentation/arch/x86/xstate.rst: ARCH_REQ_XCOMP_PERM for the state of TILEDATA, number 18. */
static bool tiles_allowed(void) {
#if defined(__x86_64__) && defined(__linux__)
  enum { REQUEST = 0x1023, TILEDATA = 18 };
  return syscall(SYS_arch_prctl, REQUEST, TILEDATA) == 0;
#else
  return false;
#endif
}

/* ---- the table ---- */

/* Features beyond what the cpu implies. PTX: the lowest version that has what tg emits for the chip, so that old drivers take it. Sizes of caches and
 * numbers of cores are those of the chip that the architecture is best known by: heuristics read them, legality never does. */
static const tg_target rows[] = {
  {.name = "x86-64-v2", .arch = TG_ARCH_X86_64, .vector_bytes = 16, .vector_registers = 16},
  {.name = "x86-64-v3", .arch = TG_ARCH_X86_64, .vector_bytes = 32, .vector_registers = 16, .fma = true, .f16_convert = true, .masked_access = true},
  {.name = "x86-64-v4", .arch = TG_ARCH_X86_64, .vector_bytes = 64, .vector_registers = 32, .fma = true, .f16_convert = true, .masked_access = true},
  {.name = "sapphirerapids", .arch = TG_ARCH_X86_64, .vector_bytes = 64, .vector_registers = 32, .fma = true, .f16_convert = true, .masked_access = true, .dot_u8s8 = true, .dot_bf16 = true, .tile_i8 = true},
  {.name = "armv8-a", .arch = TG_ARCH_AARCH64, .cpu = "generic", .features = "+neon", .vector_bytes = 16, .vector_registers = 32, .fma = true, .f16_convert = true},
  {.name = "sm_80", .arch = TG_ARCH_NVPTX, .features = "+ptx70", .lanes = 32, .max_threads = 1024, .vector_registers = 255, .access_bytes = 16, .local_bytes = 163 << 10,
   .threads = 108, .l1 = 192 << 10, .l2 = 40 << 20, .bf16_convert = true, .async_copy = true},
  {.name = "sm_90a", .arch = TG_ARCH_NVPTX, .features = "+ptx80", .lanes = 32, .max_threads = 1024, .vector_registers = 255, .access_bytes = 16, .local_bytes = 227 << 10,
   .threads = 132, .l1 = 256 << 10, .l2 = 50 << 20, .bf16_convert = true, .async_copy = true},
  {.name = "gfx1100", .arch = TG_ARCH_AMDGPU, .lanes = 32, .max_threads = 1024, .vector_registers = 256, .access_bytes = 16, .local_bytes = 64 << 10,
   .threads = 96, .l1 = 32 << 10, .l2 = 6 << 20, .l3 = 96 << 20},
  {.name = "gfx1201", .arch = TG_ARCH_AMDGPU, .lanes = 32, .max_threads = 1024, .vector_registers = 256, .access_bytes = 16, .local_bytes = 64 << 10,
   .threads = 64, .l1 = 32 << 10, .l2 = 8 << 20, .l3 = 64 << 20},
  {.name = "gfx90a", .arch = TG_ARCH_AMDGPU, .lanes = 64, .max_threads = 1024, .vector_registers = 512, .access_bytes = 16, .local_bytes = 64 << 10,
   .threads = 104, .l1 = 16 << 10, .l2 = 8 << 20},
  {.name = "gfx942", .arch = TG_ARCH_AMDGPU, .lanes = 64, .max_threads = 1024, .vector_registers = 512, .access_bytes = 16, .local_bytes = 64 << 10,
   .threads = 38, .l1 = 32 << 10, .l2 = 4 << 20, .l3 = 256 << 20},
};

static const char *const triples[] = {
  [TG_ARCH_X86_64] = "x86_64-unknown-linux-gnu", [TG_ARCH_AARCH64] = "aarch64-unknown-linux-gnu",
  [TG_ARCH_NVPTX] = "nvptx64-nvidia-cuda", [TG_ARCH_AMDGPU] = "amdgcn-amd-amdhsa"};

/* What a row leaves out: what all CPUs, or all GPUs, have alike. */
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
  if (t->tile_i8) tiles_allowed();   /* in case its code is to run here */
  t->threads = t->lanes = t->max_threads = 1;
  t->access_bytes = t->vector_bytes;
  t->l1 = 32 << 10;
  t->l2 = 1 << 20;
  t->l3 = 8 << 20;
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

#if defined(__x86_64__)
static uint64_t enabled_state(void) {
  uint32_t lo, hi;
  __asm__ volatile("xgetbv" : "=a"(lo), "=d"(hi) : "c"(0));
  return (uint64_t)hi << 32 | lo;
}

/* The row of the level whose parts the machine has and the system saves. */
static const char *host_row(void) {
  unsigned a, b, c, d, b7 = 0, c7, d7, a7, e1 = 0, lzcnt = 0;
  if (!__get_cpuid(1, &a, &b, &c, &d)) return "x86-64-v2";
  __get_cpuid_count(7, 0, &a7, &b7, &c7, &d7);
  if (__get_cpuid(0x80000001u, &a7, &d7, &e1, &c7)) lzcnt = e1 >> 5 & 1;
  bool saves = (c >> 27 & 1) != 0;
  uint64_t state = saves ? enabled_state() : 0;
  bool avx = (state & 6) == 6, avx512 = (state & 0xe6) == 0xe6;
  bool v3 = avx && (c >> 28 & 1) && (c >> 12 & 1) && (c >> 29 & 1) && (c >> 22 & 1) && (b7 >> 5 & 1) && (b7 >> 3 & 1) && (b7 >> 8 & 1) && lzcnt;
  bool v4 = v3 && avx512 && (b7 >> 16 & 1) && (b7 >> 17 & 1) && (b7 >> 28 & 1) && (b7 >> 30 & 1) && (b7 >> 31 & 1);
  return v4 ? "x86-64-v4" : v3 ? "x86-64-v3" : "x86-64-v2";
}

/* Maker, model, and every word of features: LLVM's name of the processor and its list of features follow from these. */
static void host_silicon(tg_target *t) {
  unsigned a = 0, b = 0, c = 0, d = 0, model = 0, x[8] = {0};
  char maker[13] = "";
  if (__get_cpuid(0, &a, &b, &c, &d)) {
    memcpy(maker, &b, 4);
    memcpy(maker + 4, &d, 4);
    memcpy(maker + 8, &c, 4);
  }
  uint64_t state = 0;
  if (__get_cpuid(1, &model, &b, &x[0], &x[1]) && (x[0] >> 27 & 1)) state = enabled_state();
  __get_cpuid_count(7, 0, &a, &x[2], &x[3], &x[4]);
  __get_cpuid_count(7, 1, &x[5], &b, &c, &d);
  __get_cpuid(0x80000001u, &a, &b, &x[6], &x[7]);
  const unsigned zen4 = 25, family = (model >> 20 & 255) + 15;   /* 3 and 4 */
  t->one_stream = !strcmp(maker, "AuthenticAMD");   /* copies and sums of 256 MiB on Zen 4: one sequence 1.3 to 1.6 times as fast as four pages at a time; copies on Zen 5 1.2 times; on Sapphire Rapids 0.75 times */
  t->gathers_slowly = t->one_stream;   /* measured on Zen 5 */
  t->double_pumped = t->one_stream && t->vector_bytes == 64 && family == zen4;
  t->asking = !t->one_stream ? TG_ASK_SOME : family > zen4 ? TG_ASK_MUCH : TG_ASK_NOTHING;   /* products of few rows: on Zen 5 up to twice as fast */
  /* LLVM's timings of Zen 4 and 5 put the loads of all unrolled terms first, and the accumulators go to the stack: products of 32 cubed took 1.7 times as long. */
  if (t->one_stream && t->vector_bytes == 64) snprintf(t->tune, sizeof t->tune, "sapphirerapids");
  t->dot_u8s8 = t->vector_bytes == 64 && (x[3] >> 11 & 1);
  t->dot_bf16 = t->vector_bytes == 64 && (x[5] >> 5 & 1);
  t->tile_i8 = t->vector_bytes == 64 && (x[4] >> 24 & 1) && (x[4] >> 25 & 1) && (state >> 17 & 3) == 3 && tiles_allowed();
  snprintf(t->silicon, sizeof t->silicon, "%s %08x %08x %08x %08x %08x %08x %08x %08x %08x %llx%s", maker, model, x[0], x[1], x[2], x[3], x[4], x[5], x[6], x[7],
           (unsigned long long)state, t->tile_i8 ? " tiles" : "");
}
#elif defined(__aarch64__)
static const char *host_row(void) { return "armv8-a"; }
static void host_silicon(tg_target *t) { snprintf(t->silicon, sizeof t->silicon, "host"); }
#else
static const char *host_row(void) { return "x86-64-v2"; }
static void host_silicon(tg_target *t) { snprintf(t->silicon, sizeof t->silicon, "host"); }
#endif

void tg_target_host(tg_target *t, uint32_t threads) {
  tg_target_named(t, host_row());
  snprintf(t->name, sizeof t->name, "host");
  t->cpu[0] = 0; /* LLVM names it, with all that it has */
  host_silicon(t);
  t->threads = threads ? threads : usable_cores();
  read_caches(t);
}

/* Intel, Software Developer's Manual 2: VPERMPS, of 512 bits. Four bits of an index count. */
const char *tg_target_shuffle(const tg_target *t, uint32_t lanes) {
  return t->arch == TG_ARCH_X86_64 && t->vector_bytes == 64 && lanes == 16 ? "llvm.x86.avx512.permvar.sf.512" : NULL;
}

const char *tg_target_name(uint32_t i) { return i < TG_COUNT(rows) ? rows[i].name : NULL; }

bool tg_target_named(tg_target *t, const char *name) {
  if (!strcmp(name, "host")) {
    tg_target_host(t, 0);
    return true;
  }
  for (uint32_t i = 0; i < TG_COUNT(rows); i++)
    if (!strcmp(name, rows[i].name)) {
      fill_in(t, &rows[i]);
      return true;
    }
  return false;
}
