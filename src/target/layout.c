/* SPDX-License-Identifier: MIT
 * Operations on layouts. Tiles are small, so relations between two layouts are computed by enumerating all elements. */
#include <stdio.h>
#include "target/layout.h"

/* ---- text ---- */

static const char *skip(const char *s) {
  while (*s == ' ') s++;
  return s;
}

static bool number(const char **s, uint32_t *v) {
  *v = 0;
  if (**s < '0' || **s > '9') return false;
  for (; **s >= '0' && **s <= '9' && *v < 1 << 20; (*s)++) *v = *v * 10 + (uint32_t)(**s - '0');
  return *v > 0;
}

static bool parse_digits(const char **s, tg_dimension *d) {
  static const char places[] = "rlt";
  for (*s = skip(*s); **s && **s != ','; *s = skip(*s)) {
    const char *p = strchr(places, **s);
    tg_layout_digit x = {.place = (uint8_t)(p ? p - places : 0)};
    (*s)++;
    if (!p || d->n == TG_LAYOUT_DIGITS || !number(s, &x.stride) || *(*s)++ != ':' || !number(s, &x.size)) return false;
    if (x.size > 1) d->digit[d->n++] = x;
  }
  return true;
}

bool tg_layout_parse(const char *text, tg_layout *l) {
  memset(l, 0, sizeof *l);
  for (const char *s = skip(text); *s; s = skip(s)) {
    char name = *s++;
    if (name != '*' && l->rank == TG_LAYOUT_DIMS) return false;
    tg_dimension *d = name == '*' ? &l->copies : &l->dim[l->rank++];
    d->name = name;
    s = skip(s);
    if (*s++ != '=' || !parse_digits(&s, d)) return false;
    if (*s == ',') s++;
  }
  return true;
}

static size_t put_dimension(const tg_dimension *d, const char *comma, char *out, size_t bytes, size_t at) {
  size_t n = (size_t)snprintf(at < bytes ? out + at : NULL, at < bytes ? bytes - at : 0, "%s%c =", comma,
                              d->name ? d->name : '*');
  for (uint32_t i = 0; i < d->n; i++)
    n += (size_t)snprintf(at + n < bytes ? out + at + n : NULL, at + n < bytes ? bytes - at - n : 0, " %c%u:%u",
                          "rlt"[d->digit[i].place], d -> digit[i].stride, d->digit[i].size);
  return n;
}

size_t tg_layout_text(const tg_layout *l, char *out, size_t bytes) {
  size_t at = 0;
  if (bytes) *out = 0;
  for (uint32_t i = 0; i < l->rank; i++) at += put_dimension(&l->dim[i], i ? ", " : "", out, bytes, at);
  if (l->copies.n) at += put_dimension(&l->copies, l->rank ? ", " : "", out, bytes, at);
  return at;
}

/* ---- as functions ---- */

static uint32_t size_of(const tg_dimension *d) {
  uint32_t n = 1;
  for (uint32_t i = 0; i < d->n; i++) n *= d->digit[i].size;
  return n;
}

uint32_t tg_layout_size(const tg_layout *l, uint32_t dim) { return size_of(&l->dim[dim]); }
uint32_t tg_layout_copies(const tg_layout *l) { return size_of(&l->copies); }

static const tg_dimension *nth(const tg_layout *l, uint32_t i) { return i < l->rank ? &l->dim[i] : &l->copies; }

uint32_t tg_layout_count(const tg_layout *l, tg_layout_place p) {
  uint32_t last = 0;
  for (uint32_t i = 0; i <= l->rank; i++)
    for (uint32_t k = 0; k < nth(l, i)->n; k++) {
      const tg_layout_digit *d = &nth(l, i)->digit[k];
      if (d->place == p) last += (d->size - 1) * d->stride;
    }
  return last + 1;
}

static void place(const tg_dimension *d, uint32_t x, tg_slot *s) {
  for (uint32_t k = 0; k < d->n; k++) {
    s->at[d->digit[k].place] += x % d->digit[k].size * d->digit[k].stride;
    x /= d->digit[k].size;
  }
}

tg_slot tg_layout_slot(const tg_layout *l, const uint32_t *element, uint32_t copy) {
  tg_slot s = {{0}};
  for (uint32_t i = 0; i < l->rank; i++) place(&l->dim[i], element[i], &s);
  place(&l->copies, copy, &s);
  return s;
}

void tg_layout_element(const tg_layout *l, tg_slot s, uint32_t *element) {
  for (uint32_t i = 0; i < l->rank; i++) {
    uint32_t weight = 1;
    element[i] = 0;
    for (uint32_t k = 0; k < l->dim[i].n; k++) {
      const tg_layout_digit *d = &l->dim[i].digit[k];
      element[i] += s.at[d->place] / d->stride % d->size * weight;
      weight *= d->size;
    }
  }
}

/* The n-th slot, registers first. */
static tg_slot slot_number(const tg_layout *l, uint32_t n) {
  tg_slot s;
  for (int p = 0; p < TG_PLACES; p++) {
    uint32_t count = tg_layout_count(l, (tg_layout_place)p);
    s.at[p] = n % count;
    n /= count;
  }
  return s;
}

static uint32_t slots_of(const tg_layout *l) {
  return tg_layout_count(l, TG_IN_REG) * tg_layout_count(l, TG_IN_LANE) * tg_layout_count(l, TG_IN_THREAD);
}

static uint32_t elements_of(const tg_layout *l) {
  uint32_t n = 1;
  for (uint32_t i = 0; i < l->rank; i++) n *= tg_layout_size(l, i);
  return n;
}

/* The n-th element, the first dimension fastest. */
static void element_number(const tg_layout *l, uint32_t n, uint32_t *element) {
  for (uint32_t i = 0; i < l->rank; i++) {
    element[i] = n % tg_layout_size(l, i);
    n /= tg_layout_size(l, i);
  }
}

/* Checks that there are elements * copies slots, and that each slot maps back to the element stored in it: then no two
 * elements share a slot. */
bool tg_layout_is_whole(const tg_layout *l) {
  uint32_t n = elements_of(l), copies = tg_layout_copies(l);
  if (slots_of(l) != n * copies) return false;
  for (uint32_t i = 0; i < n; i++)
    for (uint32_t c = 0; c < copies; c++) {
      uint32_t e[TG_LAYOUT_DIMS], back[TG_LAYOUT_DIMS];
      element_number(l, i, e);
      tg_layout_element(l, tg_layout_slot(l, e, c), back);
      if (memcmp(e, back, l->rank * sizeof *e)) return false;
    }
  return true;
}

bool tg_layout_equal(const tg_layout *a, const tg_layout *b) {
  if (a->rank != b->rank || slots_of(a) != slots_of(b)) return false;
  for (uint32_t i = 0; i < a->rank; i++)
    if (tg_layout_size(a, i) != tg_layout_size(b, i)) return false;
  for (int p = 0; p < TG_PLACES; p++)
    if (tg_layout_count(a, (tg_layout_place)p) != tg_layout_count(b, (tg_layout_place)p)) return false;
  for (uint32_t n = 0; n < slots_of(a); n++) {
    uint32_t x[TG_LAYOUT_DIMS], y[TG_LAYOUT_DIMS];
    tg_layout_element(a, slot_number(a, n), x);
    tg_layout_element(b, slot_number(a, n), y);
    if (memcmp(x, y, a->rank * sizeof *x)) return false;
  }
  return true;
}

/* ---- made of others ---- */

/* Renumbers registers without gaps, keeping the order of their strides. */
static void close_up(tg_layout *l) {
  uint32_t next = 1, below = 0;
  for (;;) {
    tg_layout_digit *least = NULL;
    for (uint32_t i = 0; i < l->rank; i++)
      for (uint32_t k = 0; k < l->dim[i].n; k++) {
        tg_layout_digit *d = &l->dim[i].digit[k];
        if (d->place == TG_IN_REG && d->stride > below && (!least || d->stride < least->stride)) least = d;
      }
    if (!least) return;
    below = least->stride;
    least->stride = next;       /* never above what it was: gaps only close */
    next *= least->size;
  }
}

tg_layout tg_layout_slice(const tg_layout *l, uint32_t dim) {
  tg_layout r = *l;
  for (uint32_t k = 0; k < l->dim[dim].n; k++)
    if (l->dim[dim].digit[k].place != TG_IN_REG && r.copies.n < TG_LAYOUT_DIGITS)
      r.copies.digit[r.copies.n++] = l->dim[dim].digit[k];
  r.copies.name = '*';
  r.rank--;
  for (uint32_t i = dim; i < r.rank; i++) r.dim[i] = r.dim[i + 1];
  memset(&r.dim[r.rank], 0, sizeof *r.dim);
  close_up(&r);
  return r;
}

tg_layout tg_layout_repeat(const tg_layout *l, uint32_t dim, uint32_t times) {
  tg_layout r = *l;
  if (times > 1 && r.dim[dim].n < TG_LAYOUT_DIGITS)
    r.dim[dim].digit[r.dim[dim].n++] = (tg_layout_digit){TG_IN_REG, tg_layout_count(l, TG_IN_REG), times};
  return r;
}

/* ---- conversions ---- */

/* Among the slots that hold an element, the one nearest to a given slot: in the same lane, else in the same warp. */
static tg_slot source_of(const tg_layout *from, const uint32_t *element, tg_slot want) {
  tg_slot best = tg_layout_slot(from, element, 0);
  for (uint32_t c = 0; c < tg_layout_copies(from); c++) {
    tg_slot s = tg_layout_slot(from, element, c);
    bool thread = s.at[TG_IN_THREAD] == want.at[TG_IN_THREAD], lane = thread && s.at[TG_IN_LANE] == want.at[TG_IN_LANE];
    bool best_thread = best.at[TG_IN_THREAD] == want.at[TG_IN_THREAD],
         best_lane = best_thread && best.at[TG_IN_LANE] == want.at[TG_IN_LANE];
    if (lane > best_lane || (lane == best_lane && thread > best_thread)) best = s;
  }
  return best;
}

enum { SHUFFLE_COST = 4, SELECT_COST = 1, LOCAL_COST = 6, BARRIER_COST = 30 };

tg_conversion tg_layout_convert(const tg_layout *from, const tg_layout *to) {
  tg_conversion c = {.class = TG_CONVERT_IDENTITY};
  uint32_t regs = tg_layout_count(to, TG_IN_REG), lanes = tg_layout_count(to, TG_IN_LANE),
           threads = tg_layout_count(to, TG_IN_THREAD);
  bool renamed = false, across = false, beyond = false;
  for (uint32_t r = 0; r < regs; r++) {
    uint32_t first = 0, distinct = 0, seen[64] = {0};
    bool here = true, one = true;
    for (uint32_t n = 0; n < lanes * threads; n++) {
      tg_slot want = {{r, n % lanes, n / lanes}};
      uint32_t e[TG_LAYOUT_DIMS], k = 0;
      tg_layout_element(to, want, e);
      tg_slot s = source_of(from, e, want);
      beyond |= s.at[TG_IN_THREAD] != want.at[TG_IN_THREAD];
      here &= s.at[TG_IN_LANE] == want.at[TG_IN_LANE];
      if (!n) first = s.at[TG_IN_REG];
      one &= s.at[TG_IN_REG] == first;
      while (k < distinct && seen[k] != s.at[TG_IN_REG]) k++;
      if (k == distinct && distinct < TG_COUNT(seen)) seen[distinct++] = s.at[TG_IN_REG];
    }
    renamed |= here && one && first != r;
    across |= !here || !one;
    if (!here) c.shuffles += distinct;
    c.selects += distinct - 1;
  }
  if (beyond) {
    c = (tg_conversion){.class = TG_CONVERT_LOCAL, .stores = tg_layout_count(from, TG_IN_REG), .loads = regs};
    c.cost = LOCAL_COST * (c.stores + c.loads) + 2 * BARRIER_COST;
  } else if (across) {
    c.class = TG_CONVERT_SHUFFLE;
    c.cost = SHUFFLE_COST * c.shuffles + SELECT_COST * c.selects;
  } else if (renamed) c.class = TG_CONVERT_IN_LANE;
  return c;
}
