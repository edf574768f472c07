/* SPDX-License-Identifier: MIT
 * Start of pass place: if all vectors of a register tile run along one dimension that is not the last, the dimensions
 * are permuted so that it becomes the last. The vectors are then contiguous in memory, or whole registers, instead of
 * gathers. Private memory has no layout that anything else could see. */
#include "lower/sweep.h"

enum { NONE = -1, MIXED = -2 };

typedef struct { int along; const tg_uop *define, *turned; } tile;
typedef struct { tile *tiles; } state;

static bool along(tg_job *j, const tg_uop *sub) {
  tg_linear t;
  if (sub->op == TG_OP_IOTA) return true;
  tg_linear_of(j, sub, &t);
  uint32_t vectors = 0;
  for (uint32_t i = 0; i < t.n; i++)
    if (t.atom[i]->lanes > 1) vectors += t.atom[i]->op == TG_OP_IOTA && t.coefficient[i] == 1 ? 1 : 2;
  return vectors == 1;
}

static void see(tg_job *j, tile *t, const tg_uop *access) {
  for (uint32_t d = 0; d < tg_access_rank(access); d++) {
    const tg_uop *sub = access->src[1 + d];
    if (sub->lanes == 1) continue;
    t->along = (t->along == NONE || t->along == (int)d) && along(j, sub) ? (int)d : MIXED;
  }
}

static uint32_t turn(uint32_t rank, uint32_t d, const tg_uop *const *from, const tg_uop **to) {
  uint32_t n = 0;
  for (uint32_t i = 0; i < rank; i++)
    if (i != d) to[n++] = from[i];
  to[n++] = from[d];
  return n;
}

static const tg_uop *replace(tg_job *j, const tg_uop *old, const tg_uop *const *src, void *user) {
  const state *s = user;
  if (old->op == TG_OP_DEFINE) return s->tiles[tg_buffer_ordinal(old)].turned;
  if (old->op == TG_OP_AFTER) return tg_make(j, TG_OP_AFTER, src[0]->type, src[0]->lanes, 0, 3, src);
  if (old->op != TG_OP_LOAD && old->op != TG_OP_STORE) return NULL;
  const tile *t = &s->tiles[tg_buffer_ordinal(old->src[0])];
  if (!t->turned) return NULL;
  const tg_uop *sub[16], *gate = old->arg & TG_GATED ? src[old->n - (old->op == TG_OP_LOAD ? 2 : 1)] : NULL;
  tg_assert(&j->env, tg_access_rank(old) == t->define->n);
  uint32_t rank = turn(tg_access_rank(old), (uint32_t)t->along, src + 1, sub);
  int64_t flags = old->arg & ~(int64_t)TG_GATED;
  return old->op == TG_OP_LOAD ? tg_load(j, src[0], sub, gate, gate ? src[old->n - 1] : NULL, flags)
                               : tg_store(j, src[0], sub, src[rank + 1], gate, flags);
}

const tg_uop *tg_place_turned(tg_job *j, const tg_uop *sink) {
  state s = {tg_new(&j->env, tile, j->buffers.n + 1)};
  bool any = false;
  uint32_t n = j->buffers.n;
  tg_sweep w = tg_sweep_of(j, sink);
  for (uint32_t i = 0; i < n; i++) s.tiles[i].along = NONE;
  for (uint32_t i = 0; i < w.n; i++) {
    const tg_uop *u = w.u[i];
    if (u->op != TG_OP_DEFINE && u->op != TG_OP_LOAD && u->op != TG_OP_STORE) continue;
    uint32_t b = tg_buffer_ordinal(u->op == TG_OP_DEFINE ? u : u->src[0]);
    if (j->buffers.data[b].space != TG_SPACE_REG || j->buffers.data[b].rank < 2) continue;
    if (u->op == TG_OP_DEFINE) s.tiles[b].define = u;
    else see(j, &s.tiles[b], u);
  }
  for (uint32_t b = 0; b < n; b++) {
    tile *t = &s.tiles[b];
    const tg_uop *dims[16];
    if (!t->define || t->along < 0 || t->define->lanes > 1 || t->along + 1 == (int)j->buffers.data[b].rank) continue;
    turn(j->buffers.data[b].rank, (uint32_t)t->along, t->define->src, dims);
    t->turned = tg_define(j, j->buffers.data[b], 1, dims, NULL, false);
    any = true;
  }
  return any ? tg_sweep_map(j, sink, replace, &s) : sink;
}
