/* SPDX-License-Identifier: MIT
 * What an access of a warp costs, counted as the hardware does it: LOCAL has 32 banks of 4 bytes, and a wavefront takes
 * one word from each; lanes that want the same word share it. Accesses of 8 bytes go by halves of a warp, of 16 by
 * quarters. Global memory moves in sectors of 32 bytes. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include "machine.h"

enum { BANKS = 32, SECTOR = 32 };

static int by_value(const void *a, const void *b) {
  uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
  return (x > y) - (x < y);
}

/* Distinct ones of n values, which are sorted. */
static uint32_t distinct(uint64_t *v, uint32_t n) {
  uint32_t kept = 0;
  for (uint32_t i = 1; i < n; i++)
    if (v[i] < v[i - 1]) {
      qsort(v, n, sizeof *v, by_value);
      break;
    }
  for (uint32_t i = 0; i < n; i++)
    if (!i || v[i] != v[kept - 1]) v[kept++] = v[i];
  return kept;
}

static void local_access(ptx_count *c, const uint64_t *address, uint32_t bytes, uint32_t on) {
  uint32_t at_once = bytes <= 4 ? PTX_LANES : PTX_LANES * 4 / bytes;
  for (uint32_t first = 0; first < PTX_LANES; first += at_once) {
    uint64_t word[PTX_LANES * 2];
    uint32_t n = 0, in_bank[BANKS] = {0}, most = 0;
    for (uint32_t lane = first; lane < first + at_once; lane++)
      for (uint32_t b = 0; on >> lane & 1 && b < bytes; b += 4) word[n++] = (address[lane] + b) / 4;
    n = distinct(word, n);
    for (uint32_t i = 0; i < n; i++)
      if (++in_bank[word[i] % BANKS] > most) most = in_bank[word[i] % BANKS];
    c->wavefronts += most;
    c->wavefronts_fewest += (n + BANKS - 1) / BANKS;
  }
}

static uint32_t global_access(ptx_count *c, const uint64_t *address, uint32_t bytes, uint32_t on) {
  uint64_t sector[PTX_LANES], own[PTX_LANES];
  uint32_t n = 0, all = 0;
  PTX_EACH(on, lane) sector[n] = address[lane] / SECTOR, own[n++] = address[lane];
  all = distinct(own, n) * bytes;
  n = distinct(sector, n);
  c->sectors += n;
  c->sectors_fewest += (all + SECTOR - 1) / SECTOR;
  return n;
}

void ptx_count_access(ptx_machine *m, const ptx_instruction *i, uint32_t space, const uint64_t *address, uint32_t bytes, uint32_t on, bool writes) {
  ptx_count *c = &m->l->count[i - m->k->instruction];
  if (!on) return;
  if (space == SPACE_SHARED) {
    local_access(c, address, bytes, on);
    return;
  }
  uint32_t sectors = global_access(c, address, bytes, on);
  uint64_t buffer = address[__builtin_ctz(on)] >> 40;
  if (!buffer || buffer > m->l->buffers) return;   /* the access itself will say so */
  if (writes) m->l->traffic[buffer - 1].sectors_written += sectors;
  else m->l->traffic[buffer - 1].sectors_read += sectors;
}

/* ---- sums ---- */

static void add(ptx_count *to, const ptx_count *c) {
  to->warps += c->warps, to->lanes += c->lanes;
  to->wavefronts += c->wavefronts, to->wavefronts_fewest += c->wavefronts_fewest;
  to->sectors += c->sectors, to->sectors_fewest += c->sectors_fewest;
}

ptx_summary ptx_summarise(const ptx_launch *l, uint32_t loop) {
  const ptx_kernel *k = l->kernel;
  ptx_summary s = {.matrix = 0};
  uint32_t first = loop ? k->loop[loop - 1].first : 0, end = loop ? k->loop[loop - 1].last + 1 : k->instructions;
  for (uint32_t i = first; i < end; i++) {
    const ptx_count *c = &l->count[i];
    add(&s.all, c);
    if (c->wavefronts) add(&s.local, c);
    if (c->sectors) add(&s.global, c);
    if (k->instruction[i].op == PTX_MMA) s.matrix += c->warps;
    if (c->warps * PTX_LANES != c->lanes) s.diverged += c->warps;
  }
  return s;
}

static size_t put(char *text, size_t n, size_t at, const char *format, ...) {
  va_list list;
  va_start(list, format);
  at += (size_t)vsnprintf(at < n ? text + at : NULL, at < n ? n - at : 0, format, list);
  va_end(list);
  return at;
}

static size_t line(char *text, size_t n, size_t at, const char *name, const ptx_summary *s) {
  const ptx_count *c = &s->all;
  at = put(text, n, at, "%-16s %9llu warp instructions, %llu with lanes off", name, (unsigned long long)c->warps, (unsigned long long)s->diverged);
  if (c->wavefronts) at = put(text, n, at, "; LOCAL %llu wavefronts, fewest %llu", (unsigned long long)c->wavefronts, (unsigned long long)c->wavefronts_fewest);
  if (c->sectors) at = put(text, n, at, "; global %llu sectors, fewest %llu", (unsigned long long)c->sectors, (unsigned long long)c->sectors_fewest);
  if (s->matrix) at = put(text, n, at, "; %llu mma, of each %.2f instructions, %.2f wavefronts", (unsigned long long)s->matrix, (double)c->warps / (double)s->matrix, (double)c->wavefronts / (double)s->matrix);
  return put(text, n, at, "\n");
}

size_t ptx_report(const ptx_launch *l, char *text, size_t n) {
  ptx_summary s = ptx_summarise(l, 0);
  size_t at = line(text, n, 0, l->kernel->name, &s);
  for (uint32_t i = 0; i < l->kernel->loops; i++) {
    s = ptx_summarise(l, i + 1);
    at = line(text, n, at, l->kernel->loop[i].label, &s);
  }
  for (uint32_t b = 0; b < l->buffers; b++) {
    const ptx_traffic *t = &l->traffic[b];
    at = put(text, n, at, "%-16s sectors read %llu (%llu different), written %llu (%llu different)\n", l->buffer[b].name,
                           (unsigned long long)t->sectors_read, (unsigned long long)t->distinct_read, (unsigned long long)t->sectors_written, (unsigned long long)t->distinct_written);
  }
  return at;
}
