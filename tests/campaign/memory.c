/* SPDX-License-Identifier: MIT
 * The campaign's memory: buffers by the text's declarations, data by a seed, plain C's result, pages that fault
 * around every operand, and the judgement.
 * Exact kernels must give plain C's numbers (the sign of zero is free: it depends on the order). Others are measured
 * by blocks of 64 elements against plain C in double, and may be off by twice what plain C in float is off by and 2
 * ulp (docs/testing.md, "When is a result right?"), twice that since the C library's functions round better than
 * tg's promise, or by what another order of its operations may give, (2 sqrt(K) + 16) eps: of a single number plain
 * C may be luckily near. */
#define _GNU_SOURCE
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "dsl/value.h"
#include "interp/interp.h"
#include "ranges/ranges.h"
#include "run.h"

enum { CANARY = 0xA5, POISON = 0xff, OTHER_DATA = 3 };

uint64_t campaign_hash(uint64_t seed, uint64_t i) {
  uint64_t x = seed + (i + 1) * 0x9E3779B97F4A7C15u;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}

uint64_t campaign_hash_text(uint64_t seed, const char *text) {
  for (; *text; text++) seed = campaign_hash(seed, (unsigned char)*text);
  return seed;
}

/* ---- layout ---- */

static int64_t number(tg_job *j, const tg_uop *u, const int64_t *size, bool upper) {
  const tg_uop *from[CAMPAIGN_SIZES], *to[CAMPAIGN_SIZES];
  uint32_t n = 0;
  for (; n < j->params.n && n < CAMPAIGN_SIZES; n++) {
    from[n] = tg_make(j, TG_OP_PARAM, TG_INDEX, 1, n, 0, NULL);
    to[n] = tg_index(j, size[n]);
  }
  tg_bounds b = tg_bounds_of(j, tg_substitute(j, u, n, from, to));
  return (int64_t)(upper ? b.hi : b.lo);
}

void campaign_layout(campaign_memory *m, tg_job *j, const int64_t *size) {
  m->n = 0;
  m->sizes = (int)j->params.n;
  for (uint32_t i = 0; i < j->params.n; i++) m->size[i] = size[i];
  for (uint32_t i = 0; i < j->sink->n; i++) {
    const tg_uop *d = j->sink->src[i];
    if (d->op != TG_OP_DEFINE) continue;
    const tg_buffer *info = tg_buffer_info(j, d);
    if (info->role == TG_ROLE_TEMP) continue;
    if (m->n == CAMPAIGN_BUFFERS) tg_fail(&j->env, TG_ELIMIT, "more than %d buffers", CAMPAIGN_BUFFERS);
    campaign_buffer *b = &m->buffer[m->n++];
    *b = (campaign_buffer){
        .type = (tg_type)d->type, .read = info->role != TG_ROLE_OUT, .written = info->role != TG_ROLE_IN, .n = 1};
    snprintf(b->name, sizeof b->name, "%s", info->name);
    for (uint32_t k = 0; k < info->rank; k++) {
      int64_t dim = number(j, d->src[k], size, true);
      b->n *= dim > 0 ? (size_t)dim : 0;
    }
    b->bytes = b->n * (size_t)tg_type_bytes(b->type);
    if ((b->promised = info->lo && info->hi))
      b->lo = number(j, info->lo, size, true), b->hi = number(j, info->hi, size, false);
  }
}

/* ---- data ---- */

static tg_value value_of(const campaign_memory *m, const campaign_buffer *b, uint64_t r) {
  int most = m->entry->most ? m->entry->most : 4;
  bool real = tg_is_float(b->type);
  if (b->promised) {
    int64_t v = b->hi >= b->lo ? b->lo + (int64_t)((r >> 8) % (uint64_t)(b->hi - b->lo + 1)) : b->lo;
    return real ? (tg_value){.f = (double)v} : (tg_value){.i = v};
  }
  if (real && m->entry->fill >= CAMPAIGN_UNIT) {
    double u = (double)(r >> 40) * 0x1p-24;   /* 24 bits: f32 holds them */
    return (tg_value){
        .f = tg_round_to(b->type == TG_F64 ? TG_F32 : b->type, m->entry->fill == CAMPAIGN_UNIT ? 2 * u - 1 : 0.5 + u)};
  }
  if (b->type == TG_BOOL) return (tg_value){.i = (r >> 20) & 1};
  if (!real && m->entry->fill == CAMPAIGN_FULL) return (tg_value){.i = tg_wrap(b->type, (int64_t)r)};
  int64_t low = real || tg_is_signed(b->type) ? -most : 0, v = low + (int64_t)((r >> 8) % (uint64_t)(most - low + 1));
  return real ? (tg_value){.f = (double)v} : (tg_value){.i = v};
}

static void fill(const campaign_memory *m, uint64_t seed, int i, void *data) {
  const campaign_buffer *b = &m->buffer[i];
  size_t size = (size_t)tg_type_bytes(b->type);
  uint64_t from = campaign_hash(seed, (uint64_t)i);
  if (!b->read) memset(data, POISON, b->bytes);
  for (size_t k = 0; b->read && k < b->n; k++) {
    uint64_t bits = tg_value_bits(b->type, value_of(m, b, campaign_hash(from, k)));
    memcpy((char *)data + k * size, &bits, size);
  }
}

static double float_at(tg_type t, const void *data, size_t i) {
  uint64_t bits = 0;
  memcpy(&bits, (const char *)data + i * (size_t)tg_type_bytes(t), (size_t)tg_type_bytes(t));
  return tg_value_from_bits(t, bits).f;
}

/* ---- plain C ---- */

static bool is_real(tg_type t) { return tg_is_float(t) && t != TG_F64; }

static void *as_reals(const campaign_buffer *b, const void *data, bool wide) {
  size_t each = is_real(b->type) ? wide ? 8 : 4 : (size_t)tg_type_bytes(b->type);
  char *p = calloc(1, b->n * each + 64);
  if (!is_real(b->type)) return memcpy(p, data, b->bytes);
  for (size_t i = 0; i < b->n; i++) {
    double v = float_at(b->type, data, i);
    if (wide) ((double *)(void *)p)[i] = v;
    else ((float *)(void *)p)[i] = (float)v;
  }
  return p;
}

/* What the C function leaves in each buffer, allocated. */
static void run_plain(const campaign_memory *m, void *const *start, bool wide, void **out) {
  for (int i = 0; i < m->n; i++) out[i] = as_reals(&m->buffer[i], start[i], wide);
  (wide ? m->wide : m->entry)->run(m->size, out);
}

static double real_at(const campaign_buffer *b, const void *plain, bool wide, size_t i) {
  return b->type == TG_F64 || wide ? ((const double *)plain)[i] : (double)((const float *)plain)[i];
}

static void to_type(const campaign_buffer *b, const void *plain, bool wide, void *out) {
  size_t size = (size_t)tg_type_bytes(b->type);
  if (!is_real(b->type)) memcpy(out, plain, b->bytes);
  for (size_t i = 0; is_real(b->type) && i < b->n; i++) {
    uint64_t bits = tg_value_bits(b->type, (tg_value){.f = tg_round_to(b->type, real_at(b, plain, wide, i))});
    memcpy((char *)out + i * size, &bits, size);
  }
}

/* The error of plain C's float with data of another seed; and with the data that count, which are kept. */
static void measure(campaign_memory *m, uint64_t seed, bool keep) {
  void *start[CAMPAIGN_BUFFERS], *narrow[CAMPAIGN_BUFFERS], *wide[CAMPAIGN_BUFFERS];
  for (int i = 0; i < m->n; i++) fill(m, seed, i, start[i] = malloc(m->buffer[i].bytes + 64));
  run_plain(m, start, false, narrow);
  run_plain(m, start, true, wide);
  for (int i = 0; i < m->n; i++) {
    campaign_buffer *b = &m->buffer[i];
    void *typed = malloc(b->bytes + 64);
    to_type(b, narrow[i], false, typed);
    if (b->written && is_real(b->type)) {
      double e = tg_block_error(b->type, typed, wide[i], b->n);
      if (isfinite(e)) m->own[i] = fmax(m->own[i], e);
    }
    if (keep) m->start[i] = start[i], m->want[i] = typed, m->exactly[i] = wide[i];
    else free(start[i]), free(typed), free(wide[i]);
    free(narrow[i]);
  }
}

bool campaign_reference(campaign_memory *m, char *where, size_t where_n) {
  for (int i = 0; i < m->n; i++) m->own[i] = 0;
  measure(m, m->seed, true);
  for (int d = 1; m->entry->rounds && d < OTHER_DATA; d++)
    measure(m, campaign_hash(m->seed, 1000u + (uint64_t)d), false);
  for (int i = 0; i < m->n && !m->entry->rounds; i++)
    for (size_t k = 0; k < m->buffer[i].n && m->buffer[i].written && is_real(m->buffer[i].type); k++) {
      double narrow = float_at(m->buffer[i].type, m->want[i], k), wide = m->exactly[i][k];
      if (narrow == wide || (narrow != narrow && wide != wide)) continue;
      snprintf(where, where_n, "plain C is not exact: %s[%zu] is %.17g in its type, %.17g in double", m->buffer[i].name,
               k, narrow, wide);
      return false;
    }
  return true;
}

/* ---- pages ---- */

static bool take(tg_guarded *g, size_t bytes, campaign_placement p) {
  if (!tg_guard_take(g, bytes, 0, p != CAMPAIGN_AT_END)) return false;
  memset(g->room, CANARY, g->room_bytes);
  return true;
}

static void drop_pages(campaign_memory *m) {
  for (int i = 0; i < CAMPAIGN_BUFFERS; i++) tg_guard_drop(&m->pages[i]);
}

bool campaign_place(campaign_memory *m, campaign_placement p) {
  drop_pages(m);
  for (int i = 0; i < m->n; i++) {
    if (!take(&m->pages[i], m->buffer[i].bytes, p)) return false;
    memcpy(m->pages[i].data, m->start[i], m->buffer[i].bytes);
    if (!m->buffer[i].written) tg_guard_lock(&m->pages[i], true);
  }
  return true;
}

void campaign_plain(campaign_memory *m) {
  for (int i = 0; i < m->n; i++) {
    if (!m->plain[i]) m->plain[i] = malloc(m->buffer[i].bytes + 64);
    memcpy(m->plain[i], m->start[i], m->buffer[i].bytes);
  }
}

void campaign_drop(campaign_memory *m) {
  drop_pages(m);
  for (int i = 0; i < CAMPAIGN_BUFFERS; i++) {
    free(m->start[i]), free(m->want[i]), free(m->exactly[i]), free(m->plain[i]);
    m->start[i] = m->want[i] = m->plain[i] = NULL;
    m->exactly[i] = NULL;
  }
}

/* ---- judgement ---- */

static bool untouched(const tg_guarded *g) {
  const unsigned char *p = (const unsigned char *)g->room, *end = p + g->room_bytes;
  for (; p < end; p++)
    if ((p < (const unsigned char *)g->data || p >= (const unsigned char *)g->data + g->bytes) && *p != CANARY)
      return false;
  return true;
}

static bool same_element(tg_type t, const void *got, const void *want, size_t i) {
  size_t size = (size_t)tg_type_bytes(t);
  if (!memcmp((const char *)got + i * size, (const char *)want + i * size, size)) return true;
  if (!tg_is_float(t)) return false;
  double g = float_at(t, got, i), w = float_at(t, want, i);
  return g == w || (g != g && w != w);
}

static void tell(const campaign_buffer *b, const void *got, const void *want, size_t first, size_t wrong, char *message,
                 size_t n) {
  size_t size = (size_t)tg_type_bytes(b->type);
  uint64_t g = 0, w = 0;
  memcpy(&g, (const char *)got + first * size, size), memcpy(&w, (const char *)want + first * size, size);
  if (tg_is_float(b->type))
    snprintf(message, n, "%s[%zu] is %.9g instead of %.9g (%zu of %zu)", b->name, first, float_at(b->type, got, first),
             float_at(b->type, want, first), wrong, b->n);
  else
    snprintf(message, n, "%s[%zu] is %#llx instead of %#llx (%zu of %zu)", b->name, first, (unsigned long long)g,
             (unsigned long long)w, wrong, b->n);
}

/* K is at most the product of the sizes: no loop of a kernel that rounds is longer than all of them together. */
static double allowed_error(const campaign_memory *m, int i) {
  double terms = 1, eps = tg_block_bound(m->buffer[i].type, 0) / 4;
  for (int k = 0; k < m->sizes; k++) terms *= (double)m->size[k];
  return fmax(2 * tg_block_bound(m->buffer[i].type, m->own[i]), (2 * sqrt(terms) + 16) * eps);
}

bool campaign_right(const campaign_memory *m, bool pages, char *message, size_t message_n) {
  for (int i = 0; i < m->n; i++) {
    const campaign_buffer *b = &m->buffer[i];
    const void *got = pages ? m->pages[i].data : m->plain[i];
    if (pages && !untouched(&m->pages[i])) return snprintf(message, message_n, "wrote beside %s", b->name), false;
    if (!b->written) continue;
    if (m->entry->rounds && is_real(b->type)) {
      double error = tg_block_error(b->type, got, m->exactly[i], b->n), allowed = allowed_error(m, i);
      if (!(error <= allowed))
        return snprintf(message, message_n, "%s is off by %.3g of the largest value nearby, %.3g is allowed", b->name,
                        error, allowed),
               false;
      continue;
    }
    size_t wrong = 0, first = 0;
    for (size_t k = 0; k < b->n; k++)
      if (!same_element(b->type, got, m->want[i], k) && !wrong++) first = k;
    if (wrong) return tell(b, got, m->want[i], first, wrong, message, message_n), false;
  }
  return true;
}
