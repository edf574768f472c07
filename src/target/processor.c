/* SPDX-License-Identifier: MIT
 * Reads what the processor says about itself, and derives the target "host" from such data. */
#define _GNU_SOURCE
#include <stdio.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif
#if defined(__x86_64__) && defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif
#if defined(__aarch64__) && defined(__linux__)
#include <stdlib.h>
#include <sys/auxv.h>
#include <sys/prctl.h>
#endif
#include "target/processor.h"

static const tg_feature x86_features[] = {
#define X86(id, name, word, bit, state) {name, word, bit, state},
#define ARM(id, name, word, bit)
#include "target/feature.def"
#undef X86
#undef ARM
};
static const tg_feature arm_features[] = {
#define X86(id, name, word, bit, state)
#define ARM(id, name, word, bit) {name, word, bit, 0},
#include "target/feature.def"
#undef X86
#undef ARM
};
_Static_assert(TG_COUNT(x86_features) <= 64 && TG_COUNT(arm_features) <= 64, "a set of features is a word");

const tg_feature *tg_feature_at(tg_arch arch, uint32_t i) {
  if (arch == TG_ARCH_X86_64) return i < TG_COUNT(x86_features) ? &x86_features[i] : NULL;
  return arch == TG_ARCH_AARCH64 && i < TG_COUNT(arm_features) ? &arm_features[i] : NULL;
}

/* ---- as it tells itself ---- */

#if defined(__x86_64__)
/* Linux, Documentation/arch/x86/xstate.rst: ARCH_REQ_XCOMP_PERM for the state of TILEDATA, number 18. */
static bool tiles_allowed(void) {
#if defined(__linux__)
  enum { REQUEST = 0x1023, TILEDATA = 18 };
  return syscall(SYS_arch_prctl, REQUEST, TILEDATA) == 0;
#else
  return false;
#endif
}

static uint64_t saved_state(void) {
  uint32_t lo, hi;
  __asm__ volatile("xgetbv" : "=a"(lo), "=d"(hi) : "c"(0));
  return (uint64_t)hi << 32 | lo;
}

void tg_processor_read(tg_processor *p, bool ask) {
  enum { OSXSAVE = 27 };
  unsigned a = 0, b = 0, c = 0, d = 0;
  memset(p, 0, sizeof *p);
  p->arch = TG_ARCH_X86_64;
  if (__get_cpuid(0, &a, &b, &c, &d)) {
    memcpy(p->maker, &b, 4);
    memcpy(p->maker + 4, &d, 4);
    memcpy(p->maker + 8, &c, 4);
  }
  if (__get_cpuid(1, &p->model, &b, &p->word[TG_CPUID_1_C], &p->word[TG_CPUID_1_D]) &&
      (p->word[TG_CPUID_1_C] >> OSXSAVE & 1))
    p->state = saved_state();
  __get_cpuid_count(7, 0, &a, &p->word[TG_CPUID_7_B], &p->word[TG_CPUID_7_C], &p->word[TG_CPUID_7_D]);
  __get_cpuid_count(7, 1, &p->word[TG_CPUID_71_A], &b, &c, &d);
  __get_cpuid(0x80000001u, &a, &b, &p->word[TG_CPUID_EXT_C], &p->word[TG_CPUID_EXT_D]);
  p->tiles = ask && (tg_processor_features(p) >> TG_X86_AMX_TILE & 1) && tiles_allowed();
}
#elif defined(__aarch64__) && defined(__linux__)
/* MIDR_EL1 of each core, from the files of the system; without these, that of the current core, read as a register if
 * the system allows it (HWCAP_CPUID). */
static void read_kinds(tg_processor *p) {
  enum { MOST_CORES = 1024, HWCAP_ID_REGISTERS = 11 };
  for (int i = 0; i < MOST_CORES; i++) {
    char path[128], text[32] = "";
    snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/regs/identification/midr_el1", i);
    FILE *f = fopen(path, "re");
    if (!f) break;
    uint64_t midr = fgets(text, sizeof text, f) ? strtoull(text, NULL, 16) : 0;
    uint32_t k = 0;
    fclose(f);
    while (k < p->kinds && p->midr[k] != midr) k++;
    if (k == p->kinds && k < TG_PROCESSOR_KINDS) p->midr[p->kinds++] = midr;
  }
  if (!p->kinds && (p->hwcap[0] >> HWCAP_ID_REGISTERS & 1)) {
    __asm__("mrs %0, midr_el1" : "=r"(p->midr[0]));
    p->kinds = 1;
  }
}

void tg_processor_read(tg_processor *p, bool ask) {
  enum { GET_SVE_LENGTH = 51, LENGTH = 0xffff };   /* PR_SVE_GET_VL, PR_SVE_VL_LEN_MASK */
  (void)ask;
  memset(p, 0, sizeof *p);
  p->arch = TG_ARCH_AARCH64;
  p->hwcap[0] = getauxval(AT_HWCAP);
  p->hwcap[1] = getauxval(AT_HWCAP2);
  int length = tg_processor_features(p) >> TG_ARM_SVE & 1 ? prctl(GET_SVE_LENGTH) : 0;
  p->sve_bytes = length > 0 ? (uint32_t)length & LENGTH : 0;
  read_kinds(p);
}
#else
void tg_processor_read(tg_processor *p, bool ask) {
  (void)ask;
  memset(p, 0, sizeof *p);
#if defined(__aarch64__)
  p->arch = TG_ARCH_AARCH64;
#endif
}
#endif

/* ---- as data ---- */

uint64_t tg_processor_features(const tg_processor *p) {
  uint64_t set = 0;
  for (uint32_t i = 0; tg_feature_at(p->arch, i); i++) {
    const tg_feature *f = tg_feature_at(p->arch, i);
    uint64_t word = p->arch == TG_ARCH_X86_64 ? p->word[f->word] : p->hwcap[f->word];
    bool saved = (p->state & f->state) == f->state;
    if ((word >> f->bit & 1) && saved) set |= (uint64_t)1 << i;
  }
  return set;
}

void tg_target_judge(tg_target *t, const tg_processor *p) {
  static const char *const families[] = {[TG_ARCH_X86_64] = "x86-64",
                                         [TG_ARCH_AARCH64] = "AArch64",
                                         [TG_ARCH_NVPTX] = "NVIDIA",
                                         [TG_ARCH_AMDGPU] = "AMD's graphics"};
  t->lacks[0] = 0;
  if (t->arch != p->arch) {
    snprintf(t->lacks, sizeof t->lacks, "this machine's processor is of the family %s, not %s", families[p->arch],
             families[t->arch]);
    return;
  }
  uint64_t missing = t->needs & ~tg_processor_features(p);
  size_t n = 0;
  const tg_feature *f;
  for (uint32_t i = 0; (f = tg_feature_at(p->arch, i)); i++)
    if (missing >> i & 1 && n < sizeof t->lacks)
      n += (size_t)snprintf(t->lacks + n, sizeof t->lacks - n, "%s%s",
                            n ? ", " : "this machine's processor, or its system, has no ", f->name);
  if (n) return;
  if (t->arch == TG_ARCH_X86_64 && (t->needs >> TG_X86_AMX_TILE & 1) && !p->tiles)
    snprintf(t->lacks, sizeof t->lacks, "this process may not use the registers of amx-tile");
  if (t->sve_bytes > p->sve_bytes)
    snprintf(t->lacks, sizeof t->lacks, "registers of SVE are %u bytes long here, not %u", p->sve_bytes, t->sve_bytes);
}

/* Text with everything that determines LLVM's name of the processor and its features. On AArch64: the kinds of cores
 * and the capabilities that the system reports. */
static void put_silicon(tg_target *t, const tg_processor *p) {
  const uint32_t *x = p->word;
  if (p->arch == TG_ARCH_X86_64) {
    snprintf(t->silicon, sizeof t->silicon, "%s %08x %08x %08x %08x %08x %08x %08x %08x %08x %llx%s", p->maker,
             p->model, x[TG_CPUID_1_C], x[TG_CPUID_1_D], x[TG_CPUID_7_B], x[TG_CPUID_7_C], x[TG_CPUID_7_D],
             x[TG_CPUID_71_A], x[TG_CPUID_EXT_C], x[TG_CPUID_EXT_D], (unsigned long long)p->state,
             t->tile_i8 ? " tiles" : "");
    return;
  }
  size_t n = (size_t)snprintf(t->silicon, sizeof t->silicon, "aarch64 %llx %llx sve %u",
                              (unsigned long long)p->hwcap[0], (unsigned long long)p->hwcap[1], p->sve_bytes);
  for (uint32_t k = 0; k < p->kinds; k++)
    n += (size_t)snprintf(t->silicon + n, sizeof t->silicon - n, " %llx", (unsigned long long)p->midr[k]);
}

/* The row of the highest x86-64 level all of whose features it has, or of the lowest; on AArch64 the base row. Tried in
 * place: a target is large for the stack of a thread that opens a context. */
static void take_level(tg_target *t, const tg_processor *p) {
  static const char *const levels[] = {"x86-64-v4", "x86-64-v3", "x86-64-v2"};
  if (p->arch != TG_ARCH_X86_64) {
    tg_target_row(t, "armv8-a");
    return;
  }
  for (uint32_t i = 0; i < TG_COUNT(levels); i++) {
    tg_target_row(t, levels[i]);
    if (!(t->needs & ~tg_processor_features(p))) return;
  }
}

void tg_target_of(tg_target *t, const tg_processor *p) {
  take_level(t, p);
  snprintf(t->name, sizeof t->name, "host");
  t->cpu[0] = 0;   /* filled in later, by LLVM */
  t->needs = tg_processor_features(p);
  /* and nothing else of AMX is made use of */
  if (p->arch == TG_ARCH_X86_64 && !p->tiles) t->needs &= ~((uint64_t)1 << TG_X86_AMX_TILE);
  t->sve_bytes = p->sve_bytes;
  tg_target_derive(t);   /* how wide its vectors are */
  t->machine = *tg_machine_of(p, t->vector_bytes);
  tg_target_derive(t);   /* and what follows from the machine */
  put_silicon(t, p);
  tg_target_judge(t, p);
}
