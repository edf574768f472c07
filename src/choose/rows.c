/* SPDX-License-Identifier: MIT
 * What comes before the classes, for nests with statements of several kinds inside: rows that read the same data are
 * taken several at a time, so each element is loaded once for all; and where a sum runs along a register tile whose
 * dimension is vectors elsewhere, while its own vectors run along another loop, it reads a copy of the tile instead. */
#include "choose/nest.h"

static bool innermost_loop(const tg_uop *end) {
  for (uint32_t i = 1; i < end->n; i++)
    if (end->src[i]->op != TG_OP_STORE) return false;
  return end->n > 1;
}

/* Does a reduction of the store read anything from memory that is the same for all iterations of the range? */
static bool shares(tg_nest *n, const tg_uop *store, const tg_uop *range) {
  uint32_t count, inner;
  const tg_uop **order = tg_toposort(n->j, store, &count);
  if (tg_access_motion(n->j, store, range) == TG_CONTIGUOUS) return false;
  for (uint32_t i = 0; i < count; i++) {
    if (order[i]->op != TG_OP_REDUCE || tg_reduce_info(order[i]).generic) continue;
    const tg_uop **all = tg_toposort(n->j, order[i], &inner);
    bool same = false;
    for (uint32_t k = 0; k < inner; k++)
      same |= all[k]->op == TG_OP_LOAD && tg_buffer_info(n->j, all[k]->src[0])->space == TG_SPACE_GLOBAL &&
              tg_access_rank(all[k]) > 1 && !tg_uses(n->j, all[k], range) &&
              tg_uses(n->j, all[k], tg_reduce_ranges(order[i])[0]);
    if (same) return true;
  }
  return false;
}

static uint32_t sharing_stores(tg_nest *n, const tg_uop *u, const tg_uop *range) {
  uint32_t found = 0;
  if (u->op == TG_OP_STORE) return shares(n, u, range);
  if (u->op == TG_OP_END && !tg_is_merge(u))
    for (uint32_t i = 1; i < u->n; i++) found += sharing_stores(n, u->src[i], range);
  return found;
}

/* Over all loops of the axis. */
static uint32_t axis_shares(tg_nest *n, const tg_uop *range) {
  const tg_axis a = tg_nest_axis_sites(n, tg_axis_name(&n->s, range));
  uint32_t found = 0;
  for (uint32_t i = 0; i < a.n; i++)
    if (a.site[i].owner->op == TG_OP_END) found += sharing_stores(n, a.site[i].owner, a.site[i].range);
  return found;
}

/* The deepest loop whose iterations share what several statements read. */
static void find_rows(tg_nest *n, const tg_uop *u, const tg_uop **rows) {
  if (u->op != TG_OP_END || tg_is_merge(u)) return;
  if (!innermost_loop(u) && tg_extent(u->src[0])->op == TG_OP_CONST && sharing_stores(n, u, u->src[0]) &&
      axis_shares(n, u->src[0]) > 1)
    *rows = u;
  for (uint32_t i = 1; i < u->n; i++) find_rows(n, u->src[i], rows);
}

/* A register tile that a sum of the loop's store reads along one of its own ranges, tied to ranges elsewhere. */
static const char *tile_read(tg_nest *n, const tg_uop *loop, uint32_t authored) {
  const tg_uop *store = loop->src[1];
  uint32_t count, inner;
  const tg_uop **order = tg_toposort(n->j, store, &count);
  for (uint32_t i = 0; i < count; i++) {
    if (order[i]->op != TG_OP_REDUCE || tg_reduce_info(order[i]).ranges != 1 || !tg_uses(n->j, order[i], loop->src[0]))
      continue;
    const tg_uop *range = tg_reduce_ranges(order[i])[0], **all = tg_toposort(n->j, order[i], &inner);
    for (uint32_t k = 0; k < inner; k++)
      if (all[k]->op == TG_OP_LOAD && tg_buffer_ordinal(all[k]->src[0]) < authored &&
          tg_buffer_info(n->j, all[k]->src[0])->space == TG_SPACE_REG && tg_access_rank(all[k]) &&
          all[k]->src[tg_access_rank(all[k])] == range)
        return tg_buffer_info(n->j, all[k]->src[0])->name;
  }
  return NULL;
}

/* Gives one loop's sum a copy to read; false: there is none to give. Copies are never copied again. */
static bool copy_tile(tg_nest *n, const tg_uop *u, uint32_t authored) {
  if (u->op != TG_OP_END || tg_is_merge(u)) return false;
  for (uint32_t i = u->n; i-- > 1;)
    if (copy_tile(n, u->src[i], authored)) return true;
  if (u->n != 2 || !innermost_loop(u) || tg_extent(u->src[0])->op != TG_OP_CONST) return false;
  int64_t extent = tg_extent(u->src[0])->arg, width = 2 * (int64_t)n->lanes;
  const char *tile = tile_read(n, u, authored), *name = tg_axis_name(&n->s, u->src[0]);
  if (!tile || extent < n->lanes || tg_access_motion(n->j, u->src[1], u->src[0]) != TG_CONTIGUOUS) return false;
  tg_nest_axis a = tg_nest_axis_of(n, name);
  if (!a.lockstep) return false;
  if (width > extent) width = extent;
  const char *b = tg_nest_base(n, name);
  tg_nest_emit(n, "split %s %lld as %s.o %s.c", name, (long long)width, b, b);
  tg_nest_emit(n, "stage %s at %s.o as %s.copy", tile, b, tile);
  return true;
}

/* A tile of the kernel itself ties loops of several nests; what is said of one here would be said of the others. */
static bool of_this_nest(tg_nest *n, const char *name) {
  const tg_axis a = tg_nest_axis_sites(n, name);
  for (uint32_t i = 0; i < a.n; i++) {
    const tg_site *site = &a.site[i];
    while (site->parent != UINT32_MAX) site = &n->s.sites.data[site->parent];
    if (site->owner != n->top) return false;
  }
  return true;
}

/* ---- rows as lanes ---- */

static void reread(tg_nest *n, uint32_t at, uint32_t *applied) {
  tg_nest_apply(n, *applied);
  *applied = n->j->opts.n;
  n->top = n->s.sink->src[at];
}

bool tg_nest_place_tiles(tg_nest *n, const tg_uop *u, uint32_t least, bool say) {
  bool any = false;
  if (u->op == TG_OP_END && !tg_is_merge(u))
    for (uint32_t i = 1; i < u->n; i++) any |= tg_nest_place_tiles(n, u->src[i], least, say);
  if (u->op != TG_OP_DEFINE) return any;
  const tg_buffer *b = tg_buffer_info(n->j, u);
  int64_t elements = 1;
  if (b->space != TG_SPACE_REG || b->demand || b->rank < least) return false;
  for (uint32_t d = 0; d < b->rank; d++)
    elements *= u->src[d]->op == TG_OP_CONST && u->src[d]->arg < 1 << 20 ? u->src[d]->arg : 1 << 20;
  if (2 * elements <= (int64_t)n->registers * n->lanes) return false;
  if (say) tg_nest_emit(n, "place %s memory", b->name);
  return true;
}

static bool only_loops_in_lockstep(tg_nest *n, const char *name) {
  tg_axis a = tg_nest_axis_sites(n, name);
  const char *why;
  for (uint32_t i = 0; i < a.n; i++) {
    if (a.site[i].owner->op != TG_OP_END) return false;
    tg_verdict v = tg_range_verdict(&n->s, a.site[i].owner, &why);
    if (v != TG_INDEPENDENT && v != TG_LOCKSTEP) return false;
  }
  return true;
}

/* A loop around one sum over vectors of rows: so many of its iterations at once that the accumulators fill the
 * registers, and each vector that is loaded serves them all. False: there is none left. */
static bool block_sum(tg_nest *n, const tg_uop *u, const tg_uop *rows, uint32_t vectors) {
  if (u->op != TG_OP_END || tg_is_merge(u)) return false;
  for (uint32_t i = u->n; i-- > 1;)
    if (block_sum(n, u->src[i], rows, vectors)) return true;
  const tg_uop *r = u->src[0];
  if (u->n != 2 || !innermost_loop(u) || tg_range_kind(r) != TG_LOOP || tg_extent(r)->op != TG_OP_CONST ||
      !shares(n, u->src[1], rows))
    return false;
  const char *name = tg_axis_name(&n->s, r), *b = tg_nest_base(n, name);
  uint32_t block = (uint32_t)TG_CHOOSE(n, "block", 16, 1, 2, 4, 8, 16);
  while (block > 1 && (block * vectors + block / 2 + vectors + 1 > n->registers || tg_extent(r)->arg % block))
    block /= 2;
  if (block == 1 || !only_loops_in_lockstep(n, name)) return false;
  if (tg_extent(r)->arg > block) {
    tg_nest_emit(n, "split %s %u as %s.o %s.c", name, block, b, b);
    tg_nest_emit(n, "upcast %s.c", b);
  } else tg_nest_emit(n, "upcast %s", name);
  return true;
}

static const tg_uop *lanes_of(const tg_uop *u) {
  if (u->op != TG_OP_END) return NULL;
  if (tg_range_kind(u->src[0]) == TG_LANE) return u->src[0];
  const tg_uop *found = NULL;
  for (uint32_t i = 1; i < u->n && !found; i++) found = lanes_of(u->src[i]);
  return found;
}

/* The rows side by side in vectors: what they share is one element for all, and nothing is summed across lanes. */
static bool rows_as_lanes(tg_nest *n, uint32_t at, const tg_uop *rows) {
  int64_t vectors = tg_extent(rows->src[0])->arg / n->lanes;
  uint32_t most = n->registers >= 32 ? 4 : 2, applied = n->j->opts.n;
  if (!vectors || tg_extent(rows->src[0])->arg % n->lanes) return false;
  most = (uint32_t)TG_CHOOSE(n, "lanes", most, 0, 1, 2, 4);
  if (!most) return false;
  while (vectors % most) most /= 2;
  const char *name = tg_axis_name(&n->s, rows->src[0]), *b = tg_nest_base(n, name);
  if (vectors > most) {
    tg_nest_emit(n, "split %s %u as %s.o %s.q", name, most * n->lanes, b, b);
    name = tg_format(&n->j->env, "%s.q", b);
  }
  if (most > 1) {
    tg_nest_emit(n, "split %s %u as %s.u %s.v", name, n->lanes, b, b);
    tg_nest_emit(n, "upcast %s.u", b);
    name = tg_format(&n->j->env, "%s.v", b);
  }
  tg_nest_emit(n, "lane %s", name);
  tg_nest_place_tiles(n, n->top, 2, true);
  do reread(n, at, &applied);
  while (block_sum(n, n->top, lanes_of(n->top), most));
  return true;
}

void tg_nest_rows(tg_nest *n, uint32_t at, uint32_t authored) {
  const tg_uop *rows = NULL;
  if (n->copies > 1 || n->lanes < 2) return;
  find_rows(n, n->top, &rows);
  if (!rows || tg_extent(rows->src[0])->op != TG_OP_CONST) return;
  int64_t extent = tg_extent(rows->src[0])->arg;
  uint32_t group = extent % 8 == 0 ? 8 : extent % 4 == 0 ? 4 : extent % 2 == 0 ? 2 : 1, applied = n->j->opts.n;
  tg_nest_axis a = tg_nest_axis_of(n, tg_axis_name(&n->s, rows->src[0]));
  group = (uint32_t)TG_CHOOSE(n, "group", group, 1, 2, 4, 8);
  if (group <= 1 || extent % group || !a.parallel || !a.lockstep ||
      !of_this_nest(n, tg_axis_name(&n->s, rows->src[0])) || rows_as_lanes(n, at, rows))
    return;
  while (copy_tile(n, n->top, authored)) { /* a copy unties axes: names are read anew after each */
    tg_nest_apply(n, applied);
    applied = n->j->opts.n;
    n->top = n->s.sink->src[at];
  }
  rows = NULL;
  find_rows(n, n->top, &rows);
  if (!rows || tg_extent(rows->src[0])->op != TG_OP_CONST || tg_extent(rows->src[0])->arg != extent) return;
  const char *name = tg_axis_name(&n->s, rows->src[0]), *b = tg_nest_base(n, name);
  if (extent > group) {
    tg_nest_emit(n, "split %s %u as %s.o %s.r", name, group, b, b);
    tg_nest_emit(n, "upcast %s.r", b);
  } else tg_nest_emit(n, "upcast %s", name);
  tg_nest_apply(n, applied);
}
