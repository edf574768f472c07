/* SPDX-License-Identifier: MIT
 * The rows of machines.def, and which processor takes which of them. */
#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include "target/machine.h"
#include "target/processor.h"

static const tg_machine rows[] = {
#define M(row, processors, ...) {row, processors, __VA_ARGS__},
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

double tg_machine_cycles(const double rate[TG_MACHINE_WIDTHS], double bytes) {
  double wide = 16;
  uint32_t i = 0;
  for (; i + 1 < TG_MACHINE_WIDTHS && wide < bytes && rate[i + 1] > 0; i++) wide *= 2;
  return rate[i] > 0 ? fmax(1, ceil(bytes / wide)) / rate[i] : 0;
}

uint64_t tg_machine_hash(const tg_machine *m) {
  uint64_t h = 0;
  for (uint32_t i = 0; i < TG_COUNT(columns); i++)
    h = tg_hash((const char *)m + columns[i].at, columns[i].widths * sizeof(double), h);
  return h;
}

/* ---- of a processor ---- */

/* One word behind maker and family: a number, or two with a '-' between them. */
static bool in_range(const char *word, uint32_t model) {
  char *end;
  unsigned long from = strtoul(word, &end, 16), to = *end == '-' ? strtoul(end + 1, NULL, 16) : from;
  return model >= from && model <= to;
}

static bool same_maker(const tg_machine *m, const char *maker) {
  size_t n = strcspn(m->processors, " ");
  return n && strlen(maker) == n && !memcmp(m->processors, maker, n);
}

bool tg_machine_takes(const tg_machine *m, const char *maker, uint32_t family, uint32_t model) {
  const char *at = m->processors + strcspn(m->processors, " ");
  if (!same_maker(m, maker) || !in_range(at, family)) return false;
  for (at += strspn(at, " "); *(at += strcspn(at, " ")); at += strspn(at, " "))
    if (in_range(at, model)) return true;
  return false;
}

static uint32_t widest(const tg_machine *m) { return m->fma[2] > 0 ? 64 : m->fma[1] > 0 ? 32 : 16; }

/* The nearest row: of the architecture, of the target's width of vectors rather than another, of the maker rather than
 * another, and then the last in the table, which is the newest. */
const tg_machine *tg_machine_nearest(tg_arch arch, uint32_t vector_bytes, const char *maker) {
  const tg_machine *best = NULL;
  int least = 0;
  for (uint32_t i = 0; i < TG_COUNT(rows); i++) {
    if (same_maker(&rows[i], "arm") != (arch == TG_ARCH_AARCH64)) continue;
    uint32_t w = widest(&rows[i]);
    int apart = (w == vector_bytes ? 0 : w == 2 * vector_bytes || 2 * w == vector_bytes ? 2 : 4) +
                !same_maker(&rows[i], maker);
    if (!best || apart <= least) best = &rows[i], least = apart;
  }
  return best;
}

void tg_processor_number(const tg_processor *p, const char **maker, uint32_t *family, uint32_t *model) {
  if (p->arch == TG_ARCH_AARCH64) {
    *maker = "arm";
    *family = p->kinds ? p->midr[0] >> 24 & 0xff : 0;
    *model = p->kinds ? p->midr[0] >> 4 & 0xfff : 0;
    return;
  }
  *maker = p->maker;
  *family = p->model >> 8 & 15;
  *model = (p->model >> 4 & 15) | (p->model >> 12 & 0xf0);
  if (*family == 15) *family += p->model >> 20 & 255;
}

const tg_machine *tg_machine_of(const tg_processor *p, uint32_t vector_bytes) {
  const char *maker;
  uint32_t family, model;
  tg_processor_number(p, &maker, &family, &model);
  for (uint32_t i = 0; i < TG_COUNT(rows); i++)
    if (tg_machine_takes(&rows[i], maker, family, model)) return &rows[i];
  return tg_machine_nearest(p->arch, vector_bytes, maker);
}
