/* SPDX-License-Identifier: MIT
 * Transposes on GPUs: a perfect nest of one store whose neighbours in memory lie along one loop, with loads whose
 * neighbours lie along another. Read where they are, lanes would each take a sector for an element of it. So blocks of
 * both loops pass LOCAL memory: lanes copy along the load's neighbours, and store along the store's.
 *
 *   for i, j { y[i,j] = x[j,i]; }      for i.o, j.o { x.tile[j.t,i.t] = x[j,i];  y[i,j] = x.tile[j.t,i.t]; }
 *
 * Rows of the copy are a bank longer than they are, so that lanes down a column are in banks of their own. Where rows
 * of 4-byte elements begin at 16 bytes, lanes copy and store as many: eight along a row, and as many rows as a warp has
 * lanes for. Four elements are a unit then, and units of rows four apart change places, so that the eight lanes whose
 * units a warp reads down four columns are in banks of their own, too. */
#include "choose/device.h"
#include "ranges/ranges.h"

enum {
  BANK = 4,     /* bytes */
  WIDE = TG_UNIT / BANK,          /* elements that a lane takes at once, where it can */
  ALONG = TG_LINE / TG_UNIT,      /* lanes along a row then */
  EDGE = 2 * ALONG * WIDE,        /* of a block then: each lane has two units of a row */
  WARPS = 8,    /* of a workgroup */
  MOST_LOADS = 4
};

typedef struct {
  tg_nest *n;
  const tg_uop *store, *along, *across;   /* loops along which the store's neighbours lie, and the loads' */
  const tg_uop *load[MOST_LOADS];
  uint32_t loads_n;
} transpose;

/* Elements that a lane takes at once, so that it copies a bank's bytes. */
static int64_t run_of(const tg_uop *access) {
  int64_t bytes = tg_type_bytes(tg_define_of(access->src[0])->type);
  return bytes < BANK ? BANK / bytes : 1;
}

/* ---- is it one? ---- */

static bool has_reduction(tg_nest *n, const tg_uop *u) {
  uint32_t count;
  const tg_uop **order = tg_toposort(n->j, u, &count);
  for (uint32_t i = 0; i < count; i++)
    if (order[i]->op == TG_OP_REDUCE) return true;
  return false;
}

static bool reads_across(const transpose *t, const tg_uop *load) {
  tg_job *j = t->n->j;
  return load->op == TG_OP_LOAD && tg_buffer_info(j, load->src[0])->role == TG_ROLE_IN && tg_uses(j, load, t->along) &&
         tg_access_motion(j, load, t->across) == TG_CONTIGUOUS;
}

/* The loads whose neighbours lie along the other loop; one of each buffer, since copies are of buffers. */
static bool find_loads(transpose *t) {
  uint32_t count;
  const tg_uop **order = tg_toposort(t->n->j, t->store, &count);
  t->loads_n = 0;
  for (uint32_t i = 0; i < count; i++) {
    if (!reads_across(t, order[i])) continue;
    for (uint32_t k = 0; k < t->loads_n; k++)
      if (t->load[k]->src[0] == order[i]->src[0]) return false;
    if (t->loads_n == MOST_LOADS || run_of(order[i]) != run_of(t->store)) return false;
    t->load[t->loads_n++] = order[i];
  }
  return t->loads_n > 0;
}

/* A loop of which at least a block's half is there, or whose extent is not known. */
static bool is_long(const tg_nest *n, const tg_uop *range) {
  int64_t extent = tg_iterations(range);
  return tg_range_kind(range) == TG_LOOP && (extent < 0 || extent >= n->l->target->lanes);
}

static bool find(transpose *t, uint32_t depth, const tg_uop *const *chain) {
  tg_nest *n = t->n;
  const tg_uop *inner = chain[depth - 1];
  if (inner->n != 2 || inner->src[1]->op != TG_OP_STORE || has_reduction(n, inner)) return false;
  t->store = inner->src[1];
  for (uint32_t a = 0; a < depth; a++) {
    t->along = chain[a]->src[0];
    if (!is_long(n, t->along) || tg_access_motion(n->j, t->store, t->along) != TG_CONTIGUOUS) continue;
    for (uint32_t b = 0; b < depth; b++) {
      t->across = chain[b]->src[0];
      if (b != a && is_long(n, t->across) && find_loads(t)) return true;
    }
  }
  return false;
}

/* ---- words ---- */

static uint32_t dimension_of(const transpose *t, const tg_uop *load, const tg_uop *range) {
  for (uint32_t d = 0; d < tg_access_rank(load); d++)
    if (tg_uses(t->n->j, load->src[1 + d], range)) return d;
  return 0;
}

/* Rows for the warps, as many at a time, and elements for the lanes. */
static void by_threads(const transpose *t, tg_words *w, const char *rows, const char *elements, int64_t edge) {
  int64_t run = edge / t->n->l->target->lanes;
  tg_say(w, "split %s %d as %s.r %s.w", rows, WARPS, rows, rows);
  tg_say(w, "local %s.w", rows);
  tg_say(w, "upcast %s.r", rows);
  if (run > 1) {
    tg_say(w, "split %s %lld as %s.l %s.v", elements, (long long)run, elements, elements);
    tg_say(w, "lane %s.l", elements);
    tg_say(w, "upcast %s.v", elements);
  } else tg_say(w, "lane %s", elements);
}

/* Do rows of the buffer begin at 16 bytes, of elements of 4? */
static bool is_wide(const transpose *t, const tg_uop *access) {
  const tg_uop *define = tg_define_of(access->src[0]);
  uint32_t rank = tg_access_rank(access);
  return tg_type_bytes(define->type) == BANK && !(define->arg >> 32 & TG_STRIDED) && rank > 1 &&
         tg_divides(t->n->j, WIDE, define->src[rank - 1]);
}

static bool all_wide(const transpose *t) {
  bool wide = is_wide(t, t->store) && t->n->l->target->lanes % ALONG == 0;
  for (uint32_t i = 0; i < t->loads_n; i++) wide &= is_wide(t, t->load[i]);
  return wide;
}

/* Rows for the warps, several each, and for groups of lanes. */
static void rows_wide(const transpose *t, tg_words *w, const char *rows) {
  uint32_t each = t->n->l->target->lanes / ALONG;
  tg_say(w, "split %s %u as %s.r %s.w", rows, WARPS * each, rows, rows);
  tg_say(w, "upcast %s.r", rows);
  tg_say(w, "split %s.w %u as %s.g %s.k", rows, each, rows, rows);
  tg_say(w, "lane %s.k", rows);
  tg_say(w, "local %s.g", rows);
}

static void copy_wide(const transpose *t, tg_words *w, const tg_uop *load, const char *at) {
  const char *name = tg_buffer_info(t->n->j, load->src[0])->name;
  uint32_t row = dimension_of(t, load, t->along), element = dimension_of(t, load, t->across);
  const char *copy = tg_device_new_name(t->n->j, tg_format(w->env, "%s.tile", name));
  tg_say(w, "stage %s at %s as %s[d%u, d%u/%u ^ d%u/%u%%%u, d%u%%%u]", name, at, copy, row, element, WIDE, row, WIDE,
         ALONG, element, WIDE);
  tg_say(w, "upcast %s.2", copy);
  tg_say(w, "split %s.1 %u as %s.c %s.l", copy, ALONG, copy, copy);
  tg_say(w, "upcast %s.c", copy);
  tg_say(w, "lane %s.l", copy);
  rows_wide(t, w, tg_format(w->env, "%s.0", copy));
}

static void store_wide(const transpose *t, tg_words *w, const char *rows, const char *elements) {
  tg_say(w, "split %s %u as %s.c %s.w", elements, ALONG * WIDE, elements, elements);
  tg_say(w, "upcast %s.c", elements);
  tg_say(w, "split %s.w %u as %s.l %s.v", elements, WIDE, elements, elements);
  tg_say(w, "upcast %s.v", elements);
  tg_say(w, "lane %s.l", elements);
  rows_wide(t, w, rows);
}

static void write_words(const transpose *t, tg_words *w, uint32_t depth, const tg_uop *const *chain) {
  tg_nest *n = t->n;
  const char *along = tg_device_name(n, t->along), *across = tg_device_name(n, t->across), *order = "",
             *a = tg_nest_base(n, along), *b = tg_nest_base(n, across);
  const bool wide = all_wide(t);
  int64_t run = run_of(t->store), edge = wide ? EDGE : n->l->target->lanes * run;
  for (uint32_t d = 0; d < depth; d++)
    if (chain[d]->src[0] != t->along && chain[d]->src[0] != t->across)
      order = tg_format(w->env, "%s %s", order, tg_device_name(n, chain[d]->src[0]));
  tg_say(w, "split %s %lld as %s.o %s.t", along, (long long)edge, a, a);
  tg_say(w, "split %s %lld as %s.o %s.t", across, (long long)edge, b, b);
  tg_say(w, "order%s %s.o %s.o %s.t %s.t", order, b, a, b, a);
  for (uint32_t i = 0; i < t->loads_n; i++) {
    const tg_uop *load = t->load[i];
    const char *name = tg_buffer_info(n->j, load->src[0])->name;
    if (wide) {
      copy_wide(t, w, load, tg_format(w->env, "%s.o", a));
      continue;
    }
    const char *copy = tg_device_new_name(n->j, tg_format(w->env, "%s.tile", name));
    tg_say(w, "stage %s at %s.o as %s[d%u, d%u] pitch=%lld", name, a, copy, dimension_of(t, load, t->along),
           dimension_of(t, load, t->across), (long long)(edge + run));
    by_threads(t, w, tg_format(w->env, "%s.0", copy), tg_format(w->env, "%s.1", copy), edge);
  }
  if (wide) store_wide(t, w, tg_format(w->env, "%s.t", b), tg_format(w->env, "%s.t", a));
  else by_threads(t, w, tg_format(w->env, "%s.t", b), tg_format(w->env, "%s.t", a), edge);
  for (uint32_t d = 0; d < depth; d++)
    if (chain[d]->src[0] != t->along && chain[d]->src[0] != t->across && tg_range_kind(chain[d]->src[0]) == TG_LOOP)
      tg_say(w, "global %s", tg_device_name(n, chain[d]->src[0]));
  tg_say(w, "global %s.o", a);
  tg_say(w, "global %s.o", b);
}

bool tg_device_transpose(tg_nest *n, uint32_t depth, const tg_uop *const *chain) {
  transpose t = {.n = n};
  tg_words w = {.env = &n->j->env};
  if (n->versioned || depth < 2 || !n->l->target->local_bytes || n->l->target->lanes < 2 || !find(&t, depth, chain))
    return false;
  write_words(&t, &w, depth, chain);
  return tg_device_try(n, &w);
}
