/* SPDX-License-Identifier: MIT
 * Targets of the x86-64 family: the psABI's levels by name, and the machine that this runs on. */
#define _GNU_SOURCE
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif
#include "target/target.h"

/* ---- levels ---- */

static void level(tg_target *t, int n) {
  memset(t, 0, sizeof *t);
  t->arch = TG_ARCH_X86_64;
  snprintf(t->name, sizeof t->name, "x86-64-v%d", n);
  snprintf(t->cpu, sizeof t->cpu, "x86-64-v%d", n);
  snprintf(t->triple, sizeof t->triple, "x86_64-unknown-linux-gnu");
  snprintf(t->silicon, sizeof t->silicon, "%s", t->name);
  t->vector_bytes = n >= 4 ? 64 : n >= 3 ? 32 : 16;
  t->vector_registers = n >= 4 ? 32 : 16;
  t->fma = t->f16_convert = n >= 3;
  t->masked_access = n >= 3;
  t->threads = t->lanes = 1;
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

/* The level whose parts the machine has and the system saves. */
static int host_level(void) {
  unsigned a, b, c, d, b7 = 0, c7, d7, a7, e1 = 0, lzcnt = 0;
  if (!__get_cpuid(1, &a, &b, &c, &d)) return 2;
  __get_cpuid_count(7, 0, &a7, &b7, &c7, &d7);
  if (__get_cpuid(0x80000001u, &a7, &d7, &e1, &c7)) lzcnt = e1 >> 5 & 1;
  bool saves = (c >> 27 & 1) != 0;
  uint64_t state = saves ? enabled_state() : 0;
  bool avx = (state & 6) == 6, avx512 = (state & 0xe6) == 0xe6;
  bool v3 = avx && (c >> 28 & 1) && (c >> 12 & 1) && (c >> 29 & 1) && (c >> 22 & 1) && (b7 >> 5 & 1) && (b7 >> 3 & 1) && (b7 >> 8 & 1) && lzcnt;
  bool v4 = v3 && avx512 && (b7 >> 16 & 1) && (b7 >> 17 & 1) && (b7 >> 28 & 1) && (b7 >> 30 & 1) && (b7 >> 31 & 1);
  return v4 ? 4 : v3 ? 3 : 2;
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
  snprintf(t->silicon, sizeof t->silicon, "%s %08x %08x %08x %08x %08x %08x %08x %08x %08x %llx", maker, model, x[0], x[1], x[2], x[3], x[4], x[5], x[6], x[7],
           (unsigned long long)state);
}
#else
static int host_level(void) { return 2; }
static void host_silicon(tg_target *t) { snprintf(t->silicon, sizeof t->silicon, "host"); }
#endif

void tg_target_host(tg_target *t, uint32_t threads) {
  level(t, host_level());
  snprintf(t->name, sizeof t->name, "host");
  t->cpu[0] = 0; /* LLVM names it, with all that it has */
  host_silicon(t);
  t->threads = threads ? threads : usable_cores();
  read_caches(t);
}

bool tg_target_named(tg_target *t, const char *name) {
  if (!strcmp(name, "host")) tg_target_host(t, 0);
  else if (!strcmp(name, "x86-64-v2")) level(t, 2);
  else if (!strcmp(name, "x86-64-v3")) level(t, 3);
  else if (!strcmp(name, "x86-64-v4")) level(t, 4);
  else return false;
  return true;
}
