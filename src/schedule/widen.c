/* SPDX-License-Identifier: MIT
 * Tiles of registers along loops that have come to begin earlier (align):
 *
 *     range(j, N)      e[j] = f(x[i,j])              range(j', N + 7)   e[j' - b] = f(x[i,j' - b]) if ..
 *     range(j, N)      y[i,j] = e[j]                 range(j', N + 7)   y[i,j' - b] = e[j' - b] if ..
 *
 * becomes e[j'] with N + 7 elements: so each iteration keeps the tile's element with its own number, and where the
 * loop's iterations are threads or copies, that element is a register. Only if every access of the tile is such a one,
 * and b is the same for all of them. */
#include "schedule/opt.h"

typedef struct {
  const tg_uop *define;
  uint32_t at;                  /* the dimension */
  const tg_uop *before, *wide;  /* b, and its new extent; NULL: none yet */
  bool other;                   /* an access is no such one, or of another b */
} tile;

typedef struct { tg_schedule *s; const tg_earlier *list; uint32_t n; tile *tiles; } widening;

static const tg_earlier *moved(const widening *w, const tg_uop *subscript) {
  tg_job *j = w->s->j;
  for (uint32_t i = 0; i < w->n; i++)
    if (tg_uses(j, subscript, w->list[i].range) &&
        tg_simplified(w->s, tg_idx_add(j, subscript, w->list[i].before)) == w->list[i].range)
      return &w->list[i];
  return NULL;
}

static void see(const widening *w, const tg_uop *access) {
  tile *t = &w->tiles[tg_buffer_ordinal(access->src[0])];
  const tg_earlier *e = NULL;
  uint32_t at = 0;
  for (uint32_t d = 0; d < tg_access_rank(access) && !e; d++) e = moved(w, access->src[1 + d]), at = d;
  if (!e || (t->before && (t->before != e->before || t->at != at || t->wide != tg_extent(e->range)))) {
    t->other = true;
    return;
  }
  t->before = e->before;
  t->wide = tg_extent(e->range);
  t->at = at;
}

/* Is the tile defined in all the loops that b depends on? Then b does not change while it lives. */
static bool within(tg_job *j, const tg_uop *u, const tile *t, const tg_uop *const *around, uint32_t depth) {
  enum { DEEPEST = 32 };
  const tg_uop *loops[DEEPEST];
  uint32_t count, found = 0, needed = 0;
  if (u == t->define) {
    const tg_uop **order = tg_toposort(j, t->before, &count);
    for (uint32_t i = 0; i < count; i++) {
      if (order[i]->op != TG_OP_RANGE) continue;
      needed++;
      for (uint32_t k = 0; k < depth; k++) found += around[k] == order[i];
    }
    return found == needed;
  }
  if ((u->op != TG_OP_END && u->op != TG_OP_SINK) || depth == DEEPEST) return false;
  for (uint32_t k = 0; k < depth; k++) loops[k] = around[k];
  if (u->op == TG_OP_END) loops[depth] = u->src[0];
  for (uint32_t i = u->op == TG_OP_END; i < u->n; i++)
    if (within(j, u->src[i], t, loops, depth + (u->op == TG_OP_END))) return true;
  return false;
}

static const tg_uop *replace(tg_job *j, const tg_uop *old, const tg_uop *const *src, void *user) {
  const widening *w = user;
  if (old->op != TG_OP_LOAD && old->op != TG_OP_STORE && old->op != TG_OP_DEFINE) return NULL;
  const tile *t = &w->tiles[tg_buffer_ordinal(old->op == TG_OP_DEFINE ? old : old->src[0])];
  if (!t->wide) return NULL;
  uint32_t rank = old->op == TG_OP_DEFINE ? old->n : tg_access_rank(old), first = old->op != TG_OP_DEFINE;
  const tg_uop *sub[16], *gate = old->arg & TG_GATED && first ? src[old->n - (old->op == TG_OP_LOAD ? 2 : 1)] : NULL;
  for (uint32_t d = 0; d < rank; d++) sub[d] = src[first + d];
  if (old->op == TG_OP_DEFINE) {
    sub[t->at] = t->wide;
    return tg_define(j, *tg_buffer_info(j, old), old->lanes, sub, NULL, false);
  }
  sub[t->at] = moved(w, old->src[1 + t->at])->range;
  int64_t flags = old->arg & ~(int64_t)TG_GATED;
  return old->op == TG_OP_LOAD ? tg_load(j, src[0], sub, gate, gate ? src[old->n - 1] : NULL, flags)
                               : tg_store(j, src[0], sub, src[rank + 1], gate, flags);
}

void tg_widen_tiles(tg_schedule *s, uint32_t n, const tg_earlier *list) {
  tg_job *j = s->j;
  uint32_t count, found = 0;
  widening w = {s, list, n, tg_new(&j->env, tile, j->buffers.n + 1)};
  const tg_uop **order = tg_toposort(j, s->sink, &count);
  for (uint32_t i = 0; i < count; i++)
    if (order[i]->op == TG_OP_DEFINE) w.tiles[tg_buffer_ordinal(order[i])].define = order[i];
  for (uint32_t i = 0; i < count; i++)
    if ((order[i]->op == TG_OP_LOAD || order[i]->op == TG_OP_STORE) &&
        tg_buffer_info(j, order[i]->src[0])->space == TG_SPACE_REG)
      see(&w, order[i]);
  for (uint32_t b = 0; b < j->buffers.n; b++) {
    tile *t = &w.tiles[b];
    if (t->other || !t->before || !t->define || !within(j, s->sink, t, NULL, 0)) t->wide = NULL;
    found += t->wide != NULL;
  }
  if (found) s->sink = tg_map(j, s->sink, replace, NULL, &w);
}
