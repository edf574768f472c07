/* SPDX-License-Identifier: MIT
 * The rows of CPUs and what processors tell: which rows one runs, what the host is there, and that no two that differ in an instruction have one name in the cache's key. All of it on words
 * that are written here: no test depends on the machine that it runs on, but that it runs its own target. */
#define _DEFAULT_SOURCE
#include "../test.h"
#include "target/processor.h"

enum { ZEN3 = 0x00a20f10, ZEN4 = 0x00a60f12, ZEN5 = 0x00b40f40, SKYLAKE = 0x000506e3, SAPPHIRE = 0x000806f8 };

/* A processor that has just what the row needs, and a system that saves it. */
static tg_processor having(const char *row, const char *maker, uint32_t model) {
  tg_processor p = {.arch = TG_ARCH_X86_64, .model = model, .state = 7};
  tg_target t;
  CHECK(tg_target_row(&t, row), "%s", row);
  snprintf(p.maker, sizeof p.maker, "%s", maker);
  static const struct { uint32_t word, bit; } at[] = {
#define X86(id, name, word, bit, state) {word, bit},
#define ARM(id, name, word, bit)
#include "target/feature.def"
#undef X86
#undef ARM
  };
  for (uint32_t i = 0; i < TG_X86_FEATURES; i++)
    if (t.needs >> i & 1) p.word[at[i].word] |= 1u << at[i].bit;
  if (t.needs >> TG_X86_AVX512F & 1) p.state |= TG_STATE_AVX512;
  if (t.needs >> TG_X86_AMX_TILE & 1) p.state |= TG_STATE_TILES, p.tiles = true;
  return p;
}

static bool runs(const char *row, const tg_processor *p, tg_target *t) {
  CHECK(tg_target_row(t, row), "%s", row);
  tg_target_judge(t, p);
  return tg_target_runs_here(t);
}

static void runs_what_it_has(void) {
  static const struct { const char *row, *maker; uint32_t model; const char *host, *runs, *not; } cases[] = {
    {"x86-64-v2", "GenuineIntel", 0x000106a5, "x86-64-v2", "x86-64-v2", "x86-64-v3 haswell znver2 armv8-a"},
    {"haswell", "GenuineIntel", 0x000306c3, "x86-64-v3", "x86-64-v2 x86-64-v3 haswell", "skylake znver2 x86-64-v4 skylake-avx512"},
    {"skylake", "GenuineIntel", SKYLAKE, "x86-64-v3", "x86-64-v3 haswell skylake", "znver2 znver3 x86-64-v4"},
    {"znver3", "AuthenticAMD", ZEN3, "x86-64-v3", "x86-64-v3 haswell skylake znver2 znver3", "x86-64-v4 znver4 skylake-avx512"},
    {"skylake-avx512", "GenuineIntel", 0x00050654, "x86-64-v4", "x86-64-v4 skylake skylake-avx512", "icelake znver4 sapphirerapids"},
    {"icelake", "GenuineIntel", 0x000606a6, "x86-64-v4", "skylake-avx512 icelake-server", "sapphirerapids znver3 znver4"},
    {"znver4", "AuthenticAMD", ZEN4, "x86-64-v4", "x86-64-v4 skylake-avx512 icelake znver2 znver3 znver4", "znver5 sapphirerapids"},
    {"znver5", "AuthenticAMD", ZEN5, "x86-64-v4", "icelake znver3 znver4 znver5", "sapphirerapids"},
    {"sapphirerapids", "GenuineIntel", SAPPHIRE, "x86-64-v4", "x86-64-v2 haswell skylake-avx512 icelake sapphirerapids", "znver2 znver4"}};
  for (size_t i = 0; i < TG_COUNT(cases); i++) {
    tg_processor p = having(cases[i].row, cases[i].maker, cases[i].model);
    tg_target t, host, level;
    char words[200], *at = words;
    snprintf(words, sizeof words, "%s", cases[i].runs);
    for (char *w; (w = strsep(&at, " "));) CHECK(runs(w, &p, &t), "%s there where %s is: %s", w, cases[i].row, t.lacks);
    snprintf(words, sizeof words, "%s", cases[i].not), at = words;
    for (char *w; (w = strsep(&at, " "));) CHECK(!runs(w, &p, &t) && strlen(t.lacks) > 20, "%s there where %s is", w, cases[i].row);
    tg_target_of(&host, &p);
    CHECK(tg_target_row(&level, cases[i].host) && host.vector_bytes == level.vector_bytes && host.vector_registers == level.vector_registers && host.fma == level.fma &&
              !strcmp(host.name, "host") && tg_target_runs_here(&host), "the host of %s: vectors of %u bytes", cases[i].row, host.vector_bytes);
    bool known = tg_target_row(&t, cases[i].row);
    bool instructions = t.dot_u8s8 == host.dot_u8s8 && t.dot_bf16 == host.dot_bf16 && t.tile_i8 == host.tile_i8;
    bool ways = t.one_stream == host.one_stream && t.gathers_slowly == host.gathers_slowly;
    CHECK(known && instructions && ways && !strcmp(t.tune, host.tune), "%s as a row and as a host", cases[i].row);
  }
}

/* Each row of machines.def has every column; of widths those that its vectors have. */
static void machines(void) {
  for (uint32_t i = 0; tg_machine_at(i); i++) {
    tg_machine m = *tg_machine_at(i);
    CHECK(tg_machine_row(m.name) == tg_machine_at(i), "%s twice", m.name);
    for (uint32_t k = 0; tg_machine_column_at(k); k++) {
      const tg_machine_column *c = tg_machine_column_at(k);
      double *v = tg_machine_value(&m, c);
      for (uint32_t w = 0; w < c->widths; w++)
        CHECK(v[w] > 0 || (w && !v[w] && !m.fma[w]) || (!v[w] && !strncmp(c->name, "cross_", 6)),   /* it may cost nothing */
              "%s: %s %u is %g", m.name, c->name, w, v[w]);
    }
    tg_machine other = m;
    other.divide += 1;
    CHECK(tg_machine_hash(&m) == tg_machine_hash(tg_machine_at(i)) && tg_machine_hash(&m) != tg_machine_hash(&other), "%s: hash", m.name);
  }
}

/* A processor that the tree does not know takes the nearest row: of its vectors' width, then of its maker. */
static void unknown_processors(void) {
  static const struct { const char *row, *maker; uint32_t model; const char *machine; } cases[] = {
    {"znver3", "AuthenticAMD", ZEN3, "znver3"}, {"znver5", "AuthenticAMD", ZEN5, "znver5"},
    {"znver5", "AuthenticAMD", 0x00f00f00 | 0xff << 20, "znver5"}, {"x86-64-v3", "AuthenticAMD", 0x0ff00f00, "znver3"},
    {"sapphirerapids", "GenuineIntel", 0x000f06f0, "sapphirerapids"}, {"x86-64-v3", "GenuineIntel", 0x000f06f0, "skylake"}};
  for (size_t i = 0; i < TG_COUNT(cases); i++) {
    tg_processor p = having(cases[i].row, cases[i].maker, cases[i].model);
    tg_target t;
    tg_target_of(&t, &p);
    CHECK(!strcmp(t.machine.name, cases[i].machine), "%s %s %x: %s", cases[i].maker, cases[i].row, cases[i].model, t.machine.name);
  }
}

/* Registers that the system does not save are no registers, whatever the processor has. */
static void what_is_saved(void) {
  tg_processor p = having("sapphirerapids", "GenuineIntel", SAPPHIRE);
  tg_target t;
  p.tiles = false;
  CHECK(!runs("sapphirerapids", &p, &t) && strstr(t.lacks, "amx-tile") && runs("icelake", &p, &t), "tiles are not given: %s", t.lacks);
  tg_target_of(&t, &p);
  CHECK(!t.tile_i8 && t.dot_u8s8 && tg_target_runs_here(&t), "a host without tiles");
  p.state = TG_STATE_AVX512;
  CHECK(!runs("sapphirerapids", &p, &t) && strstr(t.lacks, "amx-int8") && runs("x86-64-v4", &p, &t), "tiles are not saved: %s", t.lacks);
  p.state = TG_STATE_AVX;
  tg_target_of(&t, &p);
  CHECK(!runs("x86-64-v4", &p, &t) && strstr(t.lacks, "avx512f") && runs("x86-64-v3", &p, &t), "%s", t.lacks);
  tg_target_of(&t, &p);
  CHECK(t.vector_bytes == 32 && t.vector_registers == 16 && !t.dot_u8s8 && !t.tile_i8, "AVX-512 is not saved");
  p.state = 3;
  tg_target_of(&t, &p);
  CHECK(t.vector_bytes == 16 && !t.fma && !t.f16_convert && runs("x86-64-v2", &p, &t) && !runs("x86-64-v3", &p, &t), "AVX is not saved");
  p = having("x86-64-v4", "GenuineIntel", SKYLAKE);
  p.word[TG_CPUID_7_B] &= ~(1u << 30);   /* AVX-512 without its bytes and words */
  tg_target_of(&t, &p);
  CHECK(t.vector_bytes == 32 && !runs("x86-64-v4", &p, &t) && strstr(t.lacks, "avx512bw"), "a part of a level is none: %s", t.lacks);
}

/* Every word that a processor tells changes its name. */
static void names_x86(void) {
  tg_processor p = having("znver4", "AuthenticAMD", ZEN4);
  tg_target a, b;
  tg_target_of(&a, &p);
  for (int i = 0; i < TG_CPUID_WORDS; i++) {
    tg_processor q = p;
    q.word[i] ^= 1u << 9;
    tg_target_of(&b, &q);
    CHECK(strcmp(a.silicon, b.silicon), "word %d", i);
  }
  tg_processor q = p;
  q.model++;
  tg_target_of(&b, &q);
  CHECK(strcmp(a.silicon, b.silicon), "model");
}

/* Code for one AArch64 processor may hold what another lacks: they have names of their own, by implementer and part, by what the system tells, and by the length of SVE's registers. */
static void names_aarch64(void) {
  enum { CORTEX_A72 = 0x410fd083, CORTEX_A53 = 0x410fd034, NEOVERSE_N1 = 0x413fd0c1, NEOVERSE_V1 = 0x411fd401, NEOVERSE_V2 = 0x410fd4f0, A64FX = 0x461f0010, APPLE_M1 = 0x611f0221 };
  const uint64_t base = 0xff, n1 = 0x119fff, v1 = 0xfffffff & ~(uint64_t)0x40000, sve2 = 2 | 1 << 4 | 1 << 7 | 1 << 8 | 1 << 13 | 1 << 14;
  const tg_processor rows[] = {
    {.midr = {CORTEX_A72}, .kinds = 1, .hwcap = {base, 0}},
    {.midr = {CORTEX_A53}, .kinds = 1, .hwcap = {base, 0}},
    {.midr = {CORTEX_A53, CORTEX_A72}, .kinds = 2, .hwcap = {base, 0}},      /* big and small ones */
    {.midr = {NEOVERSE_N1}, .kinds = 1, .hwcap = {n1, 0}},
    {.midr = {NEOVERSE_N1}, .kinds = 1, .hwcap = {base, 0}},                 /* in a virtual machine that hides some */
    {.midr = {NEOVERSE_V1}, .kinds = 1, .hwcap = {v1, 1 << 13 | 1 << 14}, .sve_bytes = 32},
    {.midr = {NEOVERSE_V1}, .kinds = 1, .hwcap = {v1 & ~((uint64_t)1 << 22), 1 << 13 | 1 << 14}},   /* without SVE */
    {.midr = {NEOVERSE_V1}, .kinds = 1, .hwcap = {v1, 1 << 13}, .sve_bytes = 32},
    {.midr = {NEOVERSE_V1}, .kinds = 1, .hwcap = {v1, 1 << 13 | 1 << 14}, .sve_bytes = 16},         /* shorter registers, by prctl */
    {.midr = {NEOVERSE_V2}, .kinds = 1, .hwcap = {v1, sve2}, .sve_bytes = 16},
    {.midr = {A64FX}, .kinds = 1, .hwcap = {0x5001ff | 1 << 22, 0}, .sve_bytes = 64},
    {.midr = {APPLE_M1}, .kinds = 1, .hwcap = {n1, 0}},
    {.kinds = 0, .hwcap = {base, 0}}};
  tg_target host[TG_COUNT(rows)], t;
  for (size_t i = 0; i < TG_COUNT(rows); i++) {
    tg_processor p = rows[i];
    p.arch = TG_ARCH_AARCH64;
    tg_target_of(&host[i], &p);
    CHECK(tg_target_runs_here(&host[i]) && host[i].vector_registers == 32 && host[i].vector_bytes == (p.sve_bytes > 16 ? p.sve_bytes : 16), "row %zu: vectors of %u bytes", i, host[i].vector_bytes);
    for (size_t k = 0; k < i; k++) CHECK(strcmp(host[i].silicon, host[k].silicon), "rows %zu and %zu are both %s", i, k, host[i].silicon);
    CHECK(runs("armv8-a", &p, &t) && !runs("x86-64-v2", &p, &t), "row %zu", i);
    CHECK(runs("neoverse-v1", &p, &t) == (i == 5 || i == 9 ? p.sve_bytes >= 32 : false), "neoverse-v1 on row %zu: %s", i, t.lacks);
    CHECK(runs("neoverse-v2", &p, &t) == (i == 9), "neoverse-v2 on row %zu: %s", i, t.lacks);
    CHECK(runs("neoverse-n1", &p, &t) == (((p.hwcap[0] ^ n1) & 0x109580) == 0), "neoverse-n1 on row %zu: %s", i, t.lacks);
  }
}

static void by_name(void) {
  tg_target a, b;
  int here = 0;
  for (uint32_t i = 0; tg_target_name(i); i++) {
    CHECK(tg_target_named(&a, tg_target_name(i)) && tg_target_row(&b, tg_target_name(i)) && !strcmp(a.name, b.name) && !b.lacks[0], "%s", tg_target_name(i));
    bool device = tg_target_is_device(&a) || tg_target_is_source(&a);
    CHECK(!device || !tg_target_runs_here(&a), "%s", a.name);
    CHECK(device || (a.l1 >= 32 << 10 && a.l2 >= 256 << 10 && a.l3 > a.l2 && a.needs && a.vector_bytes >= 16 && a.access_bytes == a.vector_bytes), "%s", a.name);
    here += tg_target_runs_here(&a);
  }
  CHECK(here >= 1 && tg_target_named(&a, "host") && tg_target_runs_here(&a), "the first row of its family runs on each machine");
  CHECK(tg_target_named(&a, "icelake") && !strcmp(a.name, "icelake-server") && !tg_target_named(&a, "pdp-11") && !tg_target_row(&a, "host"), "other names");
}

int main(void) {
  runs_what_it_has();
  what_is_saved();
  machines();
  unknown_processors();
  names_x86();
  names_aarch64();
  by_name();
  return TEST_END();
}
