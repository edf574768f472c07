/* SPDX-License-Identifier: MIT
 * Operands between guard pages, data from a seed, sizes around tiles. */
#include <stdio.h>
#include <stdlib.h>
#include "dsl/value.h"
#include "trial/placed.h"

/* ---- operands ---- */

static char pattern(size_t at) { return (char)(at * 167 + (at >> 8) * 31 + 13); }

void tg_places_init(tg_places *p) {
  memset(p->part, 0, sizeof p->part);
  for (size_t i = 0; i < TG_PLACED_PERIOD; i++) p->pattern[i] = pattern(i);
}

/* fill writes the pattern to bytes from..to of a room; disturbed finds the first byte that differs from it, or `to`. */
static void fill(const tg_places *p, char *room, size_t from, size_t to) {
  for (size_t n; from < to; from += n) {
    n = TG_PLACED_PERIOD - from % TG_PLACED_PERIOD;
    if (n > to - from) n = to - from;
    memcpy(room + from, p->pattern + from % TG_PLACED_PERIOD, n);
  }
}

static size_t disturbed(const tg_places *p, const char *room, size_t from, size_t to) {
  for (size_t n; from < to; from += n) {
    n = TG_PLACED_PERIOD - from % TG_PLACED_PERIOD;
    if (n > to - from) n = to - from;
    if (!memcmp(room + from, p->pattern + from % TG_PLACED_PERIOD, n)) continue;
    while (room[from] == pattern(from)) from++;
    return from;
  }
  return to;
}

char *tg_place_operand(tg_places *p, tg_env *env, uint32_t i, const char *name, size_t bytes, bool front) {
  tg_placed *x = &p->part[i];
  x->name = name;
  if (!tg_guard_take(&x->in, bytes, 64, front))
    tg_fail(env, TG_ENOMEM, "error: no memory for %zu bytes between two pages without access", bytes);
  fill(p, x->in.room, 0, x->in.room_bytes);
  return x->in.data;
}

size_t tg_lying_bytes(const tg_lying *l, tg_type t) {
  return (tg_lying_at(l, l->rows - 1, l->columns - 1) + 1) * (size_t)tg_type_bytes(t);
}

static void put_all(tg_type t, char *at, const tg_lying *l, const double *x) {
  for (int64_t r = 0; r < l->rows; r++)
    for (int64_t c = 0; c < l->columns; c++) tg_number_put(t, at, tg_lying_at(l, r, c), x[r * l->columns + c]);
}

void tg_place_input(tg_places *p, tg_env *env, uint32_t i, const char *name, tg_type t, const tg_lying *l,
                    const double *x, bool front) {
  char *at = tg_place_operand(p, env, i, name, tg_lying_bytes(l, t), front);
  memset(at, 0xff, p->part[i].in.bytes);
  put_all(t, at, l, x);
}

/* Sets the elements of a result to bits of all ones, or to the pattern (without its gaps). */
static void each_element(tg_places *p, uint32_t part, tg_type t, const tg_lying *l, bool ones) {
  const tg_guarded *in = &p->part[part].in;
  size_t size = (size_t)tg_type_bytes(t), first = (size_t)(in->data - in->room);
  bool turned = l->row < l->column;   /* column-major: go along columns, so that runs are contiguous */
  int64_t lines = turned ? l->columns : l->rows, along = turned ? l->rows : l->columns,
          step = turned ? l->row : l->column;
  for (int64_t i = 0; i < lines; i++)
    for (int64_t k = 0, n = step == 1 ? along : 1; k < along; k += n) {
      size_t at = first + (turned ? tg_lying_at(l, k, i) : tg_lying_at(l, i, k)) * size, bytes = (size_t)n * size;
      if (ones) memset(in->room + at, 0xff, bytes);
      else fill(p, in->room, at, at + bytes);
    }
}

void tg_place_result(tg_places *p, tg_env *env, uint32_t i, const char *name, tg_type t, const tg_lying *l,
                     const double *x, bool front) {
  char *at = tg_place_operand(p, env, i, name, tg_lying_bytes(l, t), front);
  if (x) put_all(t, at, l, x);
  else each_element(p, i, t, l, true);
}

void tg_places_drop(tg_places *p) {
  for (uint32_t i = 0; i < TG_PLACED_MOST; i++) tg_guard_drop(&p->part[i].in);
  memset(p->part, 0, sizeof p->part);
}

void tg_places_seal(tg_places *p) {
  for (uint32_t i = 0; i < TG_PLACED_MOST; i++)
    if (p->part[i].in.map) p->part[i].hash = tg_hash(p->part[i].in.room, p->part[i].in.room_bytes, 0);
}

const char *tg_places_changed(const tg_places *p, uint32_t result) {
  for (uint32_t i = 0; i < TG_PLACED_MOST; i++) {
    const tg_placed *x = &p->part[i];
    if (i != result && x->in.map && tg_hash(x->in.room, x->in.room_bytes, 0) != x->hash) return x->name;
  }
  return NULL;
}

bool tg_place_disturbed(tg_places *p, uint32_t i, tg_type t, const tg_lying *l, char *text, size_t n) {
  const tg_placed *x = &p->part[i];
  size_t size = (size_t)tg_type_bytes(t), first = (size_t)(x->in.data - x->in.room);
  each_element(p, i, t, l, false);
  size_t at = disturbed(p, x->in.room, 0, x->in.room_bytes);
  if (at == x->in.room_bytes) return false;
  if (at < first) snprintf(text, n, "written %zu bytes before %s", first - at, x->name);
  else if (at >= first + x->in.bytes)
    snprintf(text, n, "written %zu bytes behind the end of %s", at - first - x->in.bytes, x->name);
  else {
    int64_t e = (int64_t)((at - first) / size), step = l->row > l->column ? l->row : l->column;
    snprintf(text, n, "written between the elements of %s, %lld elements behind the beginning of %s %lld", x->name,
             (long long)(e % step), l->row >= l->column ? "row" : "column", (long long)(e / step));
  }
  return true;
}

bool tg_places_at(const tg_places *p, const void *address, char *out, size_t n) {
  const char *x = address;
  for (uint32_t i = 0; i < TG_PLACED_MOST; i++) {
    const tg_guarded *in = &p->part[i].in;
    if (!in->map || x < in->map || x >= in->map + in->map_bytes) continue;
    if (x < in->data) snprintf(out, n, "%zu bytes before the beginning of %s", (size_t)(in->data - x), p->part[i].name);
    else if (x < in->data + in->bytes) snprintf(out, n, "in %s", p->part[i].name);
    else snprintf(out, n, "%zu bytes behind the end of %s", (size_t)(x - in->data) - in->bytes, p->part[i].name);
    return true;
  }
  return false;
}

void tg_number_put(tg_type t, char *at, size_t i, double v) {
  tg_value x = {0};
  switch (t) {
  case TG_F32: ((float *)(void *)at)[i] = (float)v; return;
  case TG_F64: ((double *)(void *)at)[i] = v; return;
  case TG_I32: ((int32_t *)(void *)at)[i] = (int32_t)v; return;
  case TG_I8: ((int8_t *)at)[i] = (int8_t)v; return;
  case TG_U8: ((uint8_t *)at)[i] = (uint8_t)v; return;
  default: break;
  }
  if (tg_is_float(t)) x.f = v;
  else x.i = (tg_i128)v;
  uint64_t bits = tg_value_bits(t, x);
  size_t size = (size_t)tg_type_bytes(t);
  memcpy(at + i * size, &bits, size);
}

double tg_number_get(tg_type t, const char *at, size_t i) {
  uint64_t bits = 0;
  switch (t) {
  case TG_F32: return (double)((const float *)(const void *)at)[i];
  case TG_F64: return ((const double *)(const void *)at)[i];
  case TG_I32: return ((const int32_t *)(const void *)at)[i];
  case TG_I8: return ((const int8_t *)at)[i];
  case TG_U8: return ((const uint8_t *)at)[i];
  default: break;
  }
  size_t size = (size_t)tg_type_bytes(t);
  memcpy(&bits, at + i * size, size);
  tg_value v = tg_value_from_bits(t, bits);
  return tg_is_float(t) ? v.f : (double)(int64_t)v.i;
}

/* ---- data ---- */

int tg_significand(tg_type t) {
  switch (t) {
  case TG_BF16: return 8;
  case TG_F16: return 11;
  case TG_F32: return 24;
  case TG_F64: return 53;
  case TG_I8: return 7;
  case TG_U8: return 8;
  default: return tg_type_bits(t) - tg_is_signed(t);
  }
}

uint64_t tg_draw(uint64_t *state) {
  uint64_t z = *state += 0x9E3779B97F4A7C15u;
  z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
  z = (z ^ z >> 27) * 0x94D049BB133111EBu;
  return z ^ z >> 31;
}

double tg_draw_whole(uint64_t *state, tg_type t, int64_t most) {
  uint64_t r = tg_draw(state);
  double v = (double)(1 + (int64_t)((r >> 32) * (uint64_t)most >> 32));
  return (tg_is_float(t) || tg_is_signed(t)) && r & 1 ? -v : v;
}

double tg_draw_unit(uint64_t *state, tg_type t) {
  return tg_round_to(t, (double)(int64_t)(tg_draw(state) >> 11) * 0x1p-52 - 1);
}

/* ---- sizes ---- */

enum { SMALLEST = 2, LARGEST = 600 };   /* range of numbers taken for tile sizes */

void tg_cuts_add(tg_cuts *c, const int64_t *v, uint32_t n) {
  for (uint32_t i = 0; i < n; i++)
    for (uint32_t j = i; j < n; j++) {
      int64_t t = j == i ? v[i] : v[i] * v[j];
      bool known = t < SMALLEST || t > LARGEST;
      for (uint32_t k = 0; k < c->n && !known; k++) known = c->cut[k] == t;
      if (!known && c->n < TG_CUTS) c->cut[c->n++] = t;
    }
}

uint32_t tg_numbers_in(const char *words, int64_t *v, uint32_t most) {
  uint32_t n = 0;
  for (const char *at = words; at && *at && n < most;) {
    if (*at < '0' || *at > '9') {
      at++;
      continue;
    }
    char *end;
    long long x = strtoll(at, &end, 10);
    bool seen = x < SMALLEST || x > LARGEST;
    for (uint32_t i = 0; i < n && !seen; i++) seen = v[i] == x;
    if (!seen) v[n++] = x;
    at = end;
  }
  return n;
}

int64_t tg_cuts_size(tg_cuts *c, int64_t lo, int64_t hi) {
  uint64_t r = (c->state = tg_mix(c->state + 0x9E3779B97F4A7C15u, c->state >> 7)) >> 16;
  int64_t v = r % 8 == 0 || !c->n ? 1 + (int64_t)(r >> 8 & 63) * (r % 8 != 0)
                                  : c->cut[(r >> 8) % c->n] + (int64_t)(r >> 40) % 3 - 1;
  return v < lo ? lo : v > hi ? hi : v;
}

/* ---- failures ---- */

void tg_check_fail(tg_check_failure *f, const char *which, int64_t row, int64_t column, double got, double want,
                   const char *format, ...) {
  f->row = row, f->column = column, f->got = got, f->want = want;
  size_t n = (size_t)snprintf(f->text, sizeof f->text, "%s: ", which);
  va_list v;
  va_start(v, format);
  if (n < sizeof f->text) vsnprintf(f->text + n, sizeof f->text - n, format, v);
  va_end(v);
}
