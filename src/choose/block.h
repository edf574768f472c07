/* SPDX-License-Identifier: MIT
 * The words of a block's copy to LOCAL memory. A header, since attention's text, which is in libtg.a, writes them as
 * the first choice does, which is not. */
#ifndef TG_CHOOSE_BLOCK_H
#define TG_CHOOSE_BLOCK_H
#include <stdarg.h>
#include "base/base.h"

/* UNIT: bytes of the widest copy; LINE: bytes of one wavefront of LOCAL memory; MOST_COPIES: of a thread that are
 * written out, since each has an address; MOST_ALONG: threads along a row */
enum { TG_UNIT = 16, TG_LINE = 128, TG_MOST_COPIES = 16, TG_MOST_ALONG = 64 };

typedef struct {
  const char **data;
  uint32_t n, cap;
  tg_env *env;
} tg_words;

/* The copy of a block of an operand to LOCAL memory, for matrix instructions, as words make it. */
typedef struct tg_device_block {
  const char *name, *copy, *at;          /* the operand, its copy, and the loop around that fills it */
  const char *of;                        /* " of r s": of these ranges' iterations, the part's dimensions; NULL: no */
  uint32_t own, term;                    /* its dimensions: that of its own loop, and that of the terms */
  bool along_terms, loads_matrices;      /* contiguous along the terms; the target has ldmatrix */
  bool anywhere;                         /* rows that begin anywhere are copied in whole units, too */
  bool gathered;                         /* a thread gathers all terms of a row, one by one */
  uint32_t bytes, vector;                /* of an element; elements that one copy moves */
  uint32_t rows, warp, terms;            /* extents of the block; rows that one warp reads */
  uint32_t together;                     /* eight rows of a matrix load lie so far apart; 0: side by side */
  uint32_t threads, stages;              /* that fill it; blocks in a ring */
} tg_device_block;

static inline const char *tg_block_of(const tg_device_block *c) { return c->of ? c->of : ""; }

/* One word more. */
static inline void TG_PRINTF(2, 3) tg_say(tg_words *w, const char *format, ...) {
  va_list ap;
  tg_str t = tg_str_new(w->env);
  va_start(ap, format);
  tg_str_vprintf(&t, format, ap);
  va_end(ap);
  tg_push(w->env, w, t.data);
}

static inline uint32_t tg_block_power_of_two_below(uint32_t v) {
  return v ? 1u << (31 - (uint32_t)__builtin_clz(v)) : 1;
}

/* As tg_block_padded_copy, of an operand that is contiguous along its own loop: loads of 16 bytes, whose elements are
 * stored to a row each. */
static inline void tg_block_padded_across(const tg_device_block *c, tg_words *w) {
  const char *depth = c->stages > 1 ? tg_format(w->env, " depth=%u", c->stages) : "", *b = c->copy;
  uint32_t unit = TG_UNIT / c->bytes, vector = c->vector < unit && !c->anywhere ? c->vector : unit;
  if (vector > c->rows) vector = c->rows;
  uint32_t across = c->rows / vector, threads = tg_block_power_of_two_below(c->threads / across);
  tg_say(w, "stage %s at %s%s as %s[d%u, d%u] pitch=%u%s", c->name, c->at, tg_block_of(c), b, c->own, c->term,
      c->terms + unit, depth);
  tg_say(w, "split %s.0 %u as %s.q %s.v", b, vector, b, b);
  if (vector > 1) tg_say(w, "upcast %s.v", b);
  tg_say(w, "local %s.q", b);
  if (threads < 1) threads = 1;
  if (c->terms <= threads) {
    tg_say(w, "local %s.1", b);
    return;
  }
  tg_say(w, "split %s.1 %u as %s.o %s.i", b, threads, b, b);
  if (threads > 1) tg_say(w, "local %s.i", b);
  tg_say(w, "upcast %s.o", b);
}

/* Elements that lie side by side neither along the terms nor along rows: a thread has all terms of its rows, so that
 * where each lies, and whether it is there, is known but for the row; units of them are stored. */
static inline void tg_block_gathered(const tg_device_block *c, tg_words *w) {
  const char *b = c->copy;
  uint32_t unit = TG_UNIT / c->bytes;
  tg_say(w, "stage %s at %s%s as %s[d%u, d%u] pitch=%u", c->name, c->at, tg_block_of(c), b, c->own, c->term,
         c->terms + unit);
  tg_say(w, "split %s.1 %u as %s.q %s.v", b, unit, b, b);
  tg_say(w, "upcast %s.v", b);
  tg_say(w, "upcast %s.q", b);
  if (c->rows <= c->threads) {
    tg_say(w, "local %s.0", b);
    return;
  }
  tg_say(w, "split %s.0 %u as %s.o %s.i", b, c->threads, b, b);
  tg_say(w, "local %s.i", b);
  tg_say(w, "upcast %s.o", b);
}

/* Where lanes load their own elements, 16 bytes at a time along the terms: rows a unit longer than they are, so that
 * those of a few lanes begin in different banks. */
static inline void tg_block_padded_copy(const tg_device_block *c, tg_words *w) {
  const char *depth = c->stages > 1 ? tg_format(w->env, " depth=%u", c->stages) : "", *b = c->copy;
  uint32_t unit = TG_UNIT / c->bytes, vector = c->vector < unit && !c->anywhere ? c->vector : unit;
  if (!c->along_terms) {
    tg_block_padded_across(c, w);
    return;
  }
  uint32_t along = c->terms / vector, lanes = along;
  if (along > TG_MOST_ALONG)
    for (lanes = TG_MOST_ALONG; along % lanes;) lanes /= 2;
  uint32_t threads = tg_block_power_of_two_below(c->threads / lanes);
  tg_say(w, "stage %s at %s%s as %s[d%u, d%u] pitch=%u%s", c->name, c->at, tg_block_of(c), b, c->own, c->term,
      c->terms + unit, depth);
  tg_say(w, "split %s.1 %u as %s.q %s.v", b, vector, b, b);
  if (vector > 1) tg_say(w, "upcast %s.v", b);
  if (lanes < along) {
    tg_say(w, "split %s.q %u as %s.m %s.n", b, lanes, b, b);
    tg_say(w, "local %s.n", b);
    tg_say(w, "upcast %s.m", b);
  } else tg_say(w, "local %s.q", b);
  if (c->rows <= threads) {
    tg_say(w, "local %s.0", b);
    return;
  }
  tg_say(w, "split %s.0 %u as %s.o %s.i", b, threads, b, b);
  tg_say(w, "local %s.i", b);
  tg_say(w, "upcast %s.o", b);
}

/* Lines of whole units, swizzled, filled by all threads. */
static inline void tg_device_block_words(const tg_device_block *c, tg_words *w) {
  uint32_t unit = TG_UNIT / c->bytes, last, lines, line;
  uint32_t all = c->along_terms ? c->terms : c->warp;
  if (c->gathered) {
    tg_block_gathered(c, w);
    return;
  }
  /* a warp's part is no whole unit, or units are no power of two, so that they cannot change places */
  if (!c->loads_matrices || (!c->along_terms && c->warp < unit) || all % unit || (all / unit & (all / unit - 1))) {
    tg_block_padded_copy(c, w);
    return;
  }
  uint32_t width = c->along_terms ? c->terms : c->warp * c->bytes < TG_LINE ? c->warp : TG_LINE / c->bytes;
  uint32_t units = width / unit;
  uint32_t along = c->along_terms ? c->term : c->own, across = c->along_terms ? c->own : c->term;
  /* panels of lines, lines, units of a line if it has several, and the elements of a unit */
  const bool panels = !c->along_terms && c->rows > width, several = units > 1 || !panels;
  tg_str layout = tg_str_new(w->env);
  if (panels) tg_str_printf(&layout, "d%u/%u, ", along, width);
  line = panels;
  last = line + several + 1;
  tg_str_printf(&layout, "d%u", across);
  if (several) tg_str_printf(&layout, ", d%u/%u", along, unit);
  if (several && panels) tg_str_printf(&layout, "%%%u", units);
  if (units > 1) {
    /* lines of the copy in one of LOCAL memory */
    uint32_t by = units >= TG_LINE / TG_UNIT ? 1 : TG_LINE / TG_UNIT / units;
    tg_str_printf(&layout, " ^ d%u", across);
    if (c->together) by = c->together;   /* eight rows of a matrix load lie so far apart, in pairs */
    if (by > 1) tg_str_printf(&layout, "/%u", by);
    tg_str_printf(&layout, "%%%u", units < TG_LINE / TG_UNIT ? units : TG_LINE / TG_UNIT);
  }
  tg_str_printf(&layout, ", d%u%%%u", along, unit);
  const char *depth = c->stages > 1 ? tg_format(w->env, " depth=%u", c->stages) : "";
  tg_say(w, "stage %s at %s%s as %s[%s]%s", c->name, c->at, tg_block_of(c), c->copy, layout.data, depth);
  uint32_t threads = c->threads / units, vector = c->anywhere && c->vector * c->bytes < 4 ? unit : c->vector;
  if (vector == unit) tg_say(w, "upcast %s.%u", c->copy, last);
  else {
    tg_say(w, "split %s.%u %u as %s.q %s.v", c->copy, last, vector, c->copy, c->copy);
    if (vector > 1) tg_say(w, "upcast %s.v", c->copy);
    tg_say(w, "local %s.q", c->copy);
    threads /= unit / vector;
  }
  if (units > 1) tg_say(w, "local %s.%u", c->copy, last - 1);
  lines = c->along_terms ? c->rows : c->terms;
  if (threads < 1) threads = 1;
  if (lines <= threads) tg_say(w, "local %s.%u", c->copy, line);
  else {
    tg_say(w, "split %s.%u %u as %s.o %s.i", c->copy, line, threads, c->copy, c->copy);
    if (threads > 1) tg_say(w, "local %s.i", c->copy);
    if (lines > threads * TG_MOST_COPIES) {   /* as many loads under way, one lot after the other */
      tg_say(w, "split %s.o %u as %s.l %s.c", c->copy, TG_MOST_COPIES, c->copy, c->copy);
      tg_say(w, "upcast %s.c", c->copy);
    } else tg_say(w, "upcast %s.o", c->copy);
  }
  if (panels) tg_say(w, "upcast %s.0", c->copy);
}
#endif
