/* SPDX-License-Identifier: MIT
 * Transposes on GPUs: a perfect nest of one store whose neighbours in memory lie along one loop, with loads whose
 * neighbours lie along another. Read where they are, lanes would each take a sector for an element of it. So blocks of
 * both loops pass LOCAL memory: lanes copy along the load's neighbours, and store along the store's.
 *
 *   for i, j { y[i,j] = x[j,i]; }      for i.o, j.o { x.tile[j.t,i.t] = x[j,i];  y[i,j] = x.tile[j.t,i.t]; }
 *
 * Rows of the copy are a bank longer than they are, so that lanes down a column are in banks of their own. */
#include "choose/device.h"

enum {
  BANK = 4,     /* bytes */
  WARPS = 8,    /* of a workgroup */
  MOST_LOADS = 4
};

typedef struct {
  tg_nest *n;
  const tg_uop *store, *along, *across;   /* loops along which the store's neighbours lie, and the loads' */
  const tg_uop *load[MOST_LOADS];
  uint32_t loads_n;
} transpose;

static int64_t extent_of(const tg_uop *range) {
  return tg_extent(range)->op == TG_OP_CONST ? tg_extent(range)->arg : -1;
}

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
  int64_t extent = extent_of(range);
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

static void write_words(const transpose *t, tg_words *w, uint32_t depth, const tg_uop *const *chain) {
  tg_nest *n = t->n;
  const char *along = tg_device_name(n, t->along), *across = tg_device_name(n, t->across), *order = "",
             *a = tg_nest_base(n, along), *b = tg_nest_base(n, across);
  int64_t run = run_of(t->store), edge = n->l->target->lanes * run;
  for (uint32_t d = 0; d < depth; d++)
    if (chain[d]->src[0] != t->along && chain[d]->src[0] != t->across)
      order = tg_format(w->env, "%s %s", order, tg_device_name(n, chain[d]->src[0]));
  tg_say(w, "split %s %lld as %s.o %s.t", along, (long long)edge, a, a);
  tg_say(w, "split %s %lld as %s.o %s.t", across, (long long)edge, b, b);
  tg_say(w, "order%s %s.o %s.o %s.t %s.t", order, b, a, b, a);
  for (uint32_t i = 0; i < t->loads_n; i++) {
    const tg_uop *load = t->load[i];
    const char *name = tg_buffer_info(n->j, load->src[0])->name;
    tg_say(w, "stage %s at %s.o as %s.tile[d%u, d%u] pitch=%lld", name, a, name, dimension_of(t, load, t->along),
           dimension_of(t, load, t->across), (long long)(edge + run));
    by_threads(t, w, tg_format(w->env, "%s.tile.0", name), tg_format(w->env, "%s.tile.1", name), edge);
  }
  by_threads(t, w, tg_format(w->env, "%s.t", b), tg_format(w->env, "%s.t", a), edge);
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
