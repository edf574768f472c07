/* SPDX-License-Identifier: MIT
 * The rows of machines.def, and which processor takes which of them. */
#include <stddef.h>
#include "target/machine.h"
#include "target/processor.h"

static const tg_machine rows[] = {
#define M(row, ...) {row, __VA_ARGS__},
#include "target/machines.def"
#undef M
};

static const tg_machine_column columns[] = {
#define C(name, unit, what) {#name, unit, what, offsetof(tg_machine, name), 1},
#define W(name, unit, what) {#name, unit, what, offsetof(tg_machine, name), TG_MACHINE_WIDTHS},
#include "target/columns.def"
#undef C
#undef W
};

const tg_machine_column *tg_machine_column_at(uint32_t i) { return i < TG_COUNT(columns) ? &columns[i] : NULL; }

const tg_machine *tg_machine_at(uint32_t i) { return i < TG_COUNT(rows) ? &rows[i] : NULL; }

const tg_machine *tg_machine_row(const char *name) {
  for (uint32_t i = 0; i < TG_COUNT(rows); i++)
    if (!strcmp(rows[i].name, name)) return &rows[i];
  return NULL;
}

uint64_t tg_machine_hash(const tg_machine *m) {
  uint64_t h = 0;
  for (uint32_t i = 0; i < TG_COUNT(columns); i++)
    h = tg_hash((const char *)m + columns[i].at, columns[i].widths * sizeof(double), h);
  return h;
}

/* ---- of a processor ---- */

/* x86-64: maker, family and models as CPUID says them. AArch64: implementer and part of MIDR_EL1. */
static const struct { const char *row, *maker; uint32_t family, from, to; } known[] = {
    {"haswell", "GenuineIntel", 6, 0x3c, 0x3d},       {"haswell", "GenuineIntel", 6, 0x3f, 0x3f},
    {"haswell", "GenuineIntel", 6, 0x45, 0x47},       {"haswell", "GenuineIntel", 6, 0x4f, 0x4f},
    {"skylake", "GenuineIntel", 6, 0x4e, 0x4e},       {"skylake", "GenuineIntel", 6, 0x5e, 0x5e},
    {"skylake", "GenuineIntel", 6, 0x8e, 0x8e},       {"skylake", "GenuineIntel", 6, 0x9e, 0x9e},
    {"skylake-avx512", "GenuineIntel", 6, 0x55, 0x55}, {"icelake-server", "GenuineIntel", 6, 0x6a, 0x6c},
    {"icelake-server", "GenuineIntel", 6, 0x7d, 0x7e}, {"sapphirerapids", "GenuineIntel", 6, 0x8f, 0x8f},
    {"sapphirerapids", "GenuineIntel", 6, 0xcf, 0xcf}, {"znver2", "AuthenticAMD", 0x17, 0x30, 0xff},
    {"znver3", "AuthenticAMD", 0x19, 0x00, 0x0f},     {"znver3", "AuthenticAMD", 0x19, 0x20, 0x5f},
    {"znver4", "AuthenticAMD", 0x19, 0x10, 0x1f},     {"znver4", "AuthenticAMD", 0x19, 0x60, 0xff},
    {"znver5", "AuthenticAMD", 0x1a, 0x00, 0xff},     {"neoverse-n1", "", 0x41, 0xd0c, 0xd0c},
    {"neoverse-v1", "", 0x41, 0xd40, 0xd40},          {"neoverse-v2", "", 0x41, 0xd49, 0xd4f},
};

static uint32_t widest(const tg_machine *m) { return m->fma[2] > 0 ? 64 : m->fma[1] > 0 ? 32 : 16; }

static bool is_arm(const tg_machine *m) { return !strncmp(m->name, "neoverse", 8); }

/* The nearest row: of the architecture, of the target's width of vectors rather than another, of the maker rather than
 * another, and then the last in the table, which is the newest. */
const tg_machine *tg_machine_nearest(tg_arch arch, uint32_t vector_bytes, const char *maker) {
  const tg_machine *best = NULL;
  int least = 0;
  for (uint32_t i = 0; i < TG_COUNT(rows); i++) {
    if (is_arm(&rows[i]) != (arch == TG_ARCH_AARCH64)) continue;
    bool same = false;
    for (uint32_t k = 0; k < TG_COUNT(known); k++)
      same |= !strcmp(known[k].row, rows[i].name) && !strcmp(known[k].maker, maker);
    uint32_t w = widest(&rows[i]);
    int apart = (w == vector_bytes ? 0 : w == 2 * vector_bytes || 2 * w == vector_bytes ? 2 : 4) + !same;
    if (!best || apart <= least) best = &rows[i], least = apart;
  }
  return best;
}

const tg_machine *tg_machine_of(const tg_processor *p, uint32_t vector_bytes) {
  uint32_t family = p->model >> 8 & 15, model = (p->model >> 4 & 15) | (p->model >> 12 & 0xf0);
  if (family == 15) family += p->model >> 20 & 255;
  if (p->arch == TG_ARCH_AARCH64 && p->kinds) family = p->midr[0] >> 24 & 0xff, model = p->midr[0] >> 4 & 0xfff;
  for (uint32_t i = 0; i < TG_COUNT(known); i++)
    if (!strcmp(known[i].maker, p->maker) && known[i].family == family && model >= known[i].from &&
        model <= known[i].to)
      return tg_machine_row(known[i].row);
  return tg_machine_nearest(p->arch, vector_bytes, p->maker);
}
