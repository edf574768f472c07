/* SPDX-License-Identifier: MIT
 * Pass distribute: puts the statements of one workgroup into device form, on a target with warps. launch.c finds the
 * workgroups; docs/distribute.md explains the terms.
 *
 * Needs a program without REDUCE. Leaves launches one after another, each
 *
 *     END(global .., DEFINE local .., END(local warp, END(lane lane, statements)))
 *
 * in which every statement runs in every thread. The program's local and lane ranges become digits of the thread's
 * number. Since `par t {S1; S2}` is `par t S1; par t S2`, these ranges move inward to each store, and memory defined
 * inside them gains a dimension for each. Then layout.c assigns threads to the ranges, across.c turns reductions over
 * threads into shuffles, exchange.c handles the author's shuffles that lanes cannot do directly, and barrier.c inserts
 * barriers where one thread reads what another wrote.
 *
 * A store to LOCAL or global memory runs in as many threads as it has iterations, a store to REG in all threads. A
 * range with more iterations than there are threads runs in parts, one after another. */
#include "lower/distribute/distribute.h"

/* A parallel range of the program and its par. n: iterations of the par; parts: how many times the par runs, 0:
 * known at run time only; gated: extent < parts * n, so the last part has a gate. */
typedef struct { const tg_uop *range, *extent; int64_t n, parts; bool gated; uint32_t par; } mapped;

typedef struct {
  tg_workgroup w;
  TG_VEC(mapped) map;
  TG_VEC(uint32_t) map_of;        /* by range ordinal, + 1 */
  TG_VEC(const tg_uop *) defines; /* DEFINEs of LOCAL memory, collected for the head of the launch */
  const tg_uop **private;         /* by buffer ordinal: NULL-terminated list of the dimensions that the buffer gained */
  const tg_uop ***path_of;        /* by buffer ordinal: NULL-terminated list of the ranges behind these dimensions */
  uint32_t buffers;
  tg_group_item *item;                  /* the item of the store that is being built */
  const tg_uop *pins;
  const uint8_t *stored;          /* by buffer ordinal */
} state;

enum { RUN_TIME_THREADS = 256, COPIES = 16 };

/* ---- the workgroup's tables ---- */

tg_group_item *tg_item_new(tg_workgroup *w, tg_group_item *outer, const tg_uop *u, tg_pos pos) {
  tg_group_item *i = tg_new(&w->j->env, tg_group_item, 1);
  i->u = u;
  i->outer = outer;
  i->pos = pos;
  return i;
}

void tg_insert_before(tg_workgroup *w, const tg_group_item *at, tg_group_item *item) {
  tg_group_item *outer = at->outer;
  uint32_t i = 0;
  while (outer->list.data[i] != at) i++;
  tg_push(&w->j->env, &outer->list, item);
  memmove(outer->list.data + i + 1, outer->list.data + i, (outer->list.n - 1 - i) * sizeof *outer->list.data);
  outer->list.data[i] = item;
}

tg_tile *tg_tile_of(tg_workgroup *w, const tg_uop *buffer) {
  uint32_t o = tg_buffer_ordinal(buffer);
  while (w->tile.n <= o) tg_push(&w->j->env, &w->tile, (tg_tile){.n = 0});
  w->tile.data[o].define = tg_define_of(buffer);
  return &w->tile.data[o];
}

uint32_t tg_par_new(tg_workgroup *w, const tg_uop *range, int64_t extent, bool lane) {
  uint32_t o = tg_range_ordinal(range), p = w->par.n;
  while (w->par_of.n <= o) tg_push(&w->j->env, &w->par_of, 0);
  w->par_of.data[o] = p + 1;
  tg_push(&w->j->env, &w->par, ((tg_par){.range = range, .extent = extent, .group = p, .lane = lane}));
  return p;
}

bool tg_in_memory(tg_workgroup *w, const tg_uop *buffer) {
  return tg_buffer_info(w->j, buffer)->space != TG_SPACE_REG || tg_tile_of(w, buffer)->shared;
}

bool tg_is_own(tg_workgroup *w, const tg_uop *buffer) {
  return tg_buffer_info(w->j, buffer)->space != TG_SPACE_GLOBAL && !tg_is_outside(w->outside, buffer);
}

const tg_uop **tg_loads_of(tg_workgroup *w, const tg_uop *store, uint32_t *n) {
  uint32_t all, count = 0;
  const tg_uop **order = tg_toposort(w->j, store, &all);
  for (uint32_t i = 0; i < all; i++)
    if (order[i]->op == TG_OP_LOAD) order[count++] = order[i];
  *n = count;
  return order;
}

bool tg_in_extent(const tg_workgroup *w, const tg_uop *load) {
  for (uint32_t i = 0; i < w->counted.n; i++)
    if (w->counted.data[i] == load) return true;
  return false;
}

static void count_extent(tg_workgroup *w, const tg_uop *range) {
  uint32_t n;
  const tg_uop **loads = tg_loads_of(w, range, &n);
  for (uint32_t i = 0; i < n; i++)
    if (!tg_in_extent(w, loads[i])) tg_push(&w->j->env, &w->counted, loads[i]);
}

void tg_touch_item(tg_workgroup *w, tg_group_item *item) {
  uint32_t n = 0;
  const tg_uop **loads = NULL;
  /* across.c handles the loads of a FOLD */
  if (tg_stored(item->u)->op != TG_OP_FOLD) loads = tg_loads_of(w, item->u, &n);
  for (uint32_t i = 0; i <= n; i++) {
    const tg_uop *u = i < n ? loads[i] : item->u;
    if (tg_buffer_info(w->j, u->src[0])->space != TG_SPACE_REG || tg_tile_of(w, u->src[0])->whole) continue;
    tg_push(&w->j->env, &w->touched, ((tg_group_touch){u, item, tg_digits_of(w, u)}));
  }
}

void tg_note_copies(tg_workgroup *w, const tg_group_item *define) {
  tg_tile *t = tg_tile_of(w, define->u);
  for (const tg_group_item *o = define->outer; o && o->u; o = o->outer)
    if (tg_range_kind(o->u) == TG_UPCAST) {
      if (t->copies == TG_DIGITS) tg_fail_at(w->j, define->pos, "over %d upcast ranges around one buffer", TG_DIGITS);
      t->copy[t->copies++] = o->u;
    }
}

static const tg_uop *warp_of(const tg_workgroup *w) { return w->warp ? w->warp : tg_index(w->j, 0); }

const tg_uop *tg_thread_digit(tg_workgroup *w, int64_t stride, int64_t room) {
  tg_job *j = w->j;
  int64_t above;
  const tg_uop *x;
  tg_assert(&j->env, stride > 0 && room > 0);   /* tg_assign_places has given it a place */
  if (stride % w->lanes == 0) {
    x = tg_fold2(j, TG_OP_IDIV, warp_of(w), tg_index(j, stride / w->lanes));
    above = (w->threads + stride - 1) / stride;
  } else if (w->lanes % (stride * room) == 0) {
    x = tg_fold2(j, TG_OP_IDIV, w->lane, tg_index(j, stride));
    above = w->lanes / stride;
  } else {
    x = tg_fold2(j, TG_OP_ADD, tg_fold2(j, TG_OP_MUL, warp_of(w), tg_index(j, w->lanes)), w->lane);
    x = tg_fold2(j, TG_OP_IDIV, x, tg_index(j, stride));
    above = (w->threads + stride - 1) / stride;
  }
  return above > room ? tg_fold2(j, TG_OP_MOD, x, tg_index(j, room)) : x;
}

/* ---- from the tree to items ---- */

static bool is_parallel(const tg_uop *range) {
  tg_kind k = tg_range_kind(range);
  return k == TG_LOCAL || k == TG_LANE || k == TG_GROUP;
}

static mapped *mapped_of(state *s, const tg_uop *range) {
  uint32_t o = tg_range_ordinal(range);
  return o < s->map_of.n && s->map_of.data[o] ? &s->map.data[s->map_of.data[o] - 1] : NULL;
}

static int64_t power_of_two_from(int64_t v) {
  int64_t p = 1;
  while (p < v) p *= 2;
  return p;
}

static int64_t threads_within(state *s, const tg_uop *u);

/* How many threads the range gets if the ranges inside it already take `inner` threads. */
static int64_t plan_range(state *s, const tg_uop *range, int64_t inner) {
  tg_job *j = s->w.j;
  const tg_uop *extent = tg_extent(range);
  tg_bounds b = tg_bounds_of(j, extent);
  bool lane = tg_range_kind(range) == TG_LANE;
  int64_t room = s->w.limit / inner, n = room;
  mapped m = {.range = range, .extent = extent, .parts = 1};
  if (b.hi <= room && (!lane || power_of_two_from((int64_t)b.hi) <= room)) n = b.hi > 1 ? (int64_t)b.hi : 1;
  else {
    while (n & (n - 1)) n &= n - 1;
    if (extent->op != TG_OP_CONST && n > RUN_TIME_THREADS) n = RUN_TIME_THREADS;
    m.parts = extent->op == TG_OP_CONST ? (extent->arg + n - 1) / n : 0;
  }
  m.n = n;
  m.gated = m.parts ? !tg_is_const(extent, m.parts * n) : true;
  if (m.parts == 1 && !m.gated) m.par = tg_par_new(&s->w, range, n, lane);
  else {
    const tg_range_info info = j->ranges.data[tg_range_ordinal(range)];
    m.par = tg_par_new(
        &s->w, tg_range_new(j, info.name, tg_index(j, n), lane ? TG_LANE : TG_LOCAL, info.from, info.pos), n, lane);
  }
  uint32_t o = tg_range_ordinal(range);
  while (s->map_of.n <= o) tg_push(&j->env, &s->map_of, 0);
  tg_push(&j->env, &s->map, m);
  s->map_of.data[o] = s->map.n;
  return (lane ? power_of_two_from(n) : n) * inner;
}

static int64_t threads_within(state *s, const tg_uop *u) {
  int64_t inner = 1;
  for (uint32_t i = 1; i < u->n; i++) {
    int64_t n = u->src[i]->op == TG_OP_END ? threads_within(s, u->src[i]) : 1;
    if (n > inner) inner = n;
  }
  return is_parallel(u->src[0]) ? plan_range(s, u->src[0], inner) : inner;
}

/* Memory defined inside parallel ranges gains a dimension for each of them. */
static void find_private(state *s, const tg_uop *u, const tg_uop **path, uint32_t depth) {
  if (u->op == TG_OP_DEFINE && depth) {
    const tg_uop **kept = tg_new(&s->w.j->env, const tg_uop *, depth + 1);
    memcpy(kept, path, depth * sizeof *kept);
    s->path_of[tg_buffer_ordinal(u)] = kept;
  }
  if (u->op != TG_OP_END) return;
  bool parallel = is_parallel(u->src[0]);
  if (parallel && depth == TG_PARS)
    tg_fail_at(s->w.j, tg_get_pos(s->w.j, u), "parallel ranges nested more than %d deep", TG_PARS);
  if (parallel) path[depth++] = u->src[0];
  for (uint32_t i = 1; i < u->n; i++) find_private(s, u->src[i], path, depth);
}

static const tg_uop *padded(tg_job *j, const mapped *m) {
  if (m->parts) return tg_index(j, m->parts * m->n);
  const tg_uop *n = tg_index(j, m->n);
  return tg_fold2(j, TG_OP_MUL, tg_fold2(j, TG_OP_IDIV, tg_fold2(j, TG_OP_ADD, m->extent, tg_index(j, m->n - 1)), n),
                  n);
}

static const tg_uop *private_node(tg_job *j, const tg_uop *old, const tg_uop *const *src, void *user) {
  state *s = user;
  const tg_uop *now[24 + TG_PARS];
  uint32_t n = 0, k = 0;
  if (old->op != TG_OP_DEFINE && old->op != TG_OP_LOAD && old->op != TG_OP_STORE) return NULL;
  const tg_uop *buffer = old->op == TG_OP_DEFINE ? old : old->src[0];
  const tg_uop **path = tg_buffer_ordinal(buffer) < s->buffers ? s->path_of[tg_buffer_ordinal(buffer)] : NULL;
  if (!path) return NULL;
  if (old->n > 16)
    tg_fail_at(j, tg_buffer_info(j, buffer)->pos, "%s has too many dimensions in lockstep",
               tg_buffer_info(j, buffer)->name);
  if (old->op != TG_OP_DEFINE) now[n++] = src[k++];
  for (uint32_t i = 0; path[i]; i++) {
    mapped *m = mapped_of(s, path[i]);
    now[n++] = old->op == TG_OP_DEFINE ? padded(j, m) : path[i];
  }
  while (k < old->n) now[n++] = src[k++];
  if (old->op != TG_OP_DEFINE) return tg_make(j, old->op, old->type, old->lanes, old->arg, n, now);
  tg_buffer info = *tg_buffer_info(j, old);
  info.rank = (uint8_t)n;
  return tg_define(j, info, old->lanes, now, NULL, false);
}

/* Replaces range by value; accesses that depend on the range get cond as a gate. */
typedef struct { const tg_uop *range, *value, *cond, *extent; } replacement;

static const tg_uop *replaced(tg_job *j, const tg_uop *old, const tg_uop *const *src, void *user) {
  const replacement *r = user;
  if (old == r->range) return r->value;
  if (r->cond && old->op == TG_OP_SHUFFLE && old->src[1] == r->range)
    return tg_shuffle(j, src[0], src[1], tg_op2(j, TG_OP_MOD, src[2], r->extent));
  if (!r->cond || (old->op != TG_OP_LOAD && old->op != TG_OP_STORE)) return NULL;
  bool same = old->op == TG_OP_LOAD;
  for (uint32_t i = 0; i < old->n; i++) same &= src[i] == old->src[i];
  if (same) return NULL;
  const tg_uop *gate = tg_gate(old) ? src[old->n - (old->op == TG_OP_LOAD ? 2 : 1)] : NULL;
  int64_t flags = old->arg & ~(int64_t)TG_GATED;
  gate = tg_and(j, gate, r->cond);
  if (old->op == TG_OP_STORE) return tg_store(j, src[0], src + 1, src[tg_access_rank(old) + 1], gate, flags);
  const tg_uop *zero = tg_is_float(old->type) ? tg_const_float(j, old->type, 0) : tg_const_int(j, old->type, 0);
  return tg_load(j, src[0], src + 1, gate, tg_gate(old) ? src[old->n - 1] : zero, flags);
}

/* The innermost SHUFFLE (sources before users) over a range that runs in parts; NULL: none. */
static const tg_uop *shuffle_in_parts(state *s, const tg_uop *u, const tg_uop *const *path, uint32_t depth) {
  uint32_t n;
  const tg_uop **order = tg_toposort(s->w.j, u, &n);
  for (uint32_t i = 0; i < n; i++)
    for (uint32_t k = 0; k < depth; k++)
      if (order[i]->op == TG_OP_SHUFFLE && order[i]->src[1] == path[k] && mapped_of(s, path[k])->parts != 1)
        return order[i];
  return NULL;
}

static void store_item(state *s, tg_group_item *outer, const tg_uop *u, const tg_uop *const *path, uint32_t depth);

/* All parts store their values to a tile before any thread reads another's. */
static const tg_uop *through_tile(state *s, tg_group_item *outer, const tg_uop *u, const tg_uop *x,
                                  const tg_uop *const *path, uint32_t depth, tg_pos pos) {
  tg_job *j = s->w.j;
  const tg_uop *dim[TG_PARS], *sub[TG_PARS];
  for (uint32_t i = 0; i < depth; i++) dim[i] = padded(j, mapped_of(s, path[i]));
  tg_buffer info = {
      .name = "given", .space = TG_SPACE_REG, .rank = (uint8_t)depth, .type = x->src[0]->type, .pos = pos};
  const tg_uop *tile = tg_define(j, info, x->src[0]->lanes, dim, NULL, true),
               *give = tg_store(j, tile, path, x->src[0], NULL, 0);
  tg_set_pos(j, give, pos);
  tg_push(&j->env, &outer->list, tg_item_new(&s->w, outer, tile, pos));
  store_item(s, outer, give, path, depth);
  for (uint32_t i = 0; i < depth; i++)
    sub[i] = path[i] == x->src[1] ? tg_op2(j, TG_OP_MOD, x->src[2], tg_extent(path[i])) : path[i];
  const tg_uop *got = tg_load(j, tile, sub, NULL, NULL, 0);
  return tg_substitute(j, u, 1, &x, &got);
}

static void store_item(state *s, tg_group_item *outer, const tg_uop *u, const tg_uop *const *path, uint32_t depth) {
  tg_job *j = s->w.j;
  tg_pos pos = tg_get_pos(j, u);
  for (const tg_uop *x; (x = shuffle_in_parts(s, u, path, depth));) u = through_tile(s, outer, u, x, path, depth, pos);
  uint32_t par[TG_PARS];
  for (uint32_t i = 0; i < depth; i++) {
    mapped *m = mapped_of(s, path[i]);
    const tg_uop *p = s->w.par.data[m->par].range, *n = tg_index(j, m->n), *value = p;
    par[i] = m->par;
    if (p == path[i]) continue;
    if (m->parts != 1) {
      const tg_range_info info = j->ranges.data[tg_range_ordinal(path[i])];
      const tg_uop *count = m->parts
                                ? tg_index(j, m->parts)
                                : tg_fold2(j, TG_OP_IDIV, tg_fold2(j, TG_OP_ADD, m->extent, tg_index(j, m->n - 1)), n);
      const tg_uop *part =
          tg_range_new(j, info.name, count, m->parts && m->parts <= COPIES ? TG_UPCAST : TG_LOOP, info.from, info.pos);
      tg_group_item *loop = tg_item_new(&s->w, outer, part, pos);
      loop->parts = true;
      tg_push(&j->env, &outer->list, loop);
      outer = loop;
      value = tg_op2(j, TG_OP_ADD, tg_op2(j, TG_OP_MUL, part, n), p);
    }
    replacement r = {path[i], value, m->gated ? tg_op2(j, TG_OP_LT, value, m->extent) : NULL, m->extent};
    u = tg_map(j, u, replaced, NULL, &r);
  }
  tg_group_item *item = tg_item_new(&s->w, outer, u, pos);
  item->n = depth;
  memcpy(item->par, par, sizeof par);
  tg_push(&j->env, &outer->list, item);
}

static void flatten(state *s, tg_group_item *outer, uint32_t n, const tg_uop *const *list, const tg_uop **path,
                    uint32_t depth) {
  tg_job *j = s->w.j;
  for (uint32_t i = 0; i < n; i++) {
    const tg_uop *u = list[i];
    tg_pos pos = tg_get_pos(j, u);
    if (u->op == TG_OP_STORE) store_item(s, outer, u, path, depth);
    else if (u->op != TG_OP_END) tg_push(&j->env, &outer->list, tg_item_new(&s->w, outer, u, pos));
    else if (is_parallel(u->src[0])) {
      path[depth] = u->src[0];
      flatten(s, outer, u->n - 1, u->src + 1, path, depth + 1);
    } else {
      tg_group_item *loop = tg_item_new(&s->w, outer, u->src[0], pos);
      for (uint32_t k = 0; k < depth; k++)
        if (tg_uses(j, tg_extent(u->src[0]), path[k]))
          tg_fail_at(j, pos, "the extent of %s depends on the %s range %s, but iterations in lockstep run %s together",
                     j->ranges.data[tg_range_ordinal(u->src[0])].name, tg_kind_name[tg_range_kind(path[k])],
                     j->ranges.data[tg_range_ordinal(path[k])].name, j->ranges.data[tg_range_ordinal(u->src[0])].name);
      tg_push(&j->env, &outer->list, loop);
      flatten(s, loop, u->n - 1, u->src + 1, path, depth);
    }
  }
}

/* ---- from items to the program ---- */

/* True in the threads that have an iteration of the store; NULL: in all. */
static const tg_uop *pins_of(tg_workgroup *w, const tg_group_item *item) {
  tg_job *j = w->j;
  const tg_uop *all = NULL;
  int64_t at = 1;
  for (;;) {
    const tg_par *next = NULL;
    for (uint32_t i = 0; i < item->n; i++) {
      const tg_par *p = &w->par.data[item->par[i]];
      if (p->stride >= at && p->stride * p->room > at && (!next || p->stride < next->stride)) next = p;
    }
    int64_t until = next ? next->stride : w->threads;
    if (until > at && at < w->threads) {
      if (at >= w->lanes || until <= w->lanes || w->lanes % at || (next && until % w->lanes))
        all = tg_and(j, all, tg_op2(j, TG_OP_EQ, tg_thread_digit(w, at, (until + at - 1) / at), tg_index(j, 0)));
      else {   /* the remaining lanes and warps: one condition each */
        all = tg_and(j, all, tg_op2(j, TG_OP_EQ, tg_thread_digit(w, at, w->lanes / at), tg_index(j, 0)));
        all = tg_and(
            j, all,
            tg_op2(j, TG_OP_EQ, tg_thread_digit(w, w->lanes, (until + w->lanes - 1) / w->lanes), tg_index(j, 0)));
      }
    }
    if (!next) return all;
    if (next->room > next->extent)
      all =
          tg_and(j, all, tg_op2(j, TG_OP_LT, tg_thread_digit(w, next->stride, next->room), tg_index(j, next->extent)));
    at = next->stride * next->room;
  }
}

static const tg_uop *local_of(state *s, tg_tile *t) {
  tg_job *j = s->w.j;
  tg_buffer info = *tg_buffer_info(j, t->define);
  const tg_uop *dim[16];
  if (t->remade) return t->remade;
  info.space = TG_SPACE_LOCAL;
  info.demand = TG_PLACE_NONE;
  info.rank = (uint8_t)(t->copies + t->define->n);
  if (info.rank > TG_COUNT(dim)) tg_fail_at(j, info.pos, "%s has too many dimensions in lockstep", info.name);
  for (uint32_t i = 0; i < info.rank; i++) {
    const tg_uop *size = i < t->copies ? tg_extent(t->copy[i]) : t->define->src[i - t->copies];
    uint32_t n;
    const tg_uop **order = tg_toposort(j, size, &n);
    dim[i] = size;
    /* the buffer is defined outside of the ranges that the size uses: take the largest size */
    for (uint32_t k = 0; k < n; k++)
      if (order[k]->op == TG_OP_RANGE && tg_range_kind(order[k]) != TG_GLOBAL)
        dim[i] = tg_index(j, (int64_t)tg_bounds_of(j, size).hi);
  }
  return t->remade = tg_define(j, info, t->define->lanes, dim, NULL, false);
}

/* Subscripts in the LOCAL buffer of a tile: the upcast ranges around its definition, then its own. */
static void local_subscripts(const tg_tile *t, const tg_uop **sub, uint32_t rank) {
  memmove(sub + t->copies, sub, rank * sizeof *sub);
  memcpy(sub, t->copy, t->copies * sizeof *sub);
}

static const tg_uop *private_of(state *s, tg_tile *t) {
  tg_job *j = s->w.j;
  const tg_uop *dim[16];
  if (t->remade) return t->remade;
  if (!t->n) return t->remade = t->define;
  uint32_t n = t->define->n;
  for (uint32_t i = 0; i < n; i++) dim[i] = t->define->src[i];
  for (bool more = true; more;) {   /* the heaviest digit of each dimension first */
    int at = -1;
    more = false;
    for (uint32_t k = 0; k < t->n; k++)
      if (!(t->d[k].room & INT64_MIN) && (at < 0 || t->d[k].weight > t->d[at].weight)) at = (int)k;
    if (at < 0) break;
    tg_group_place *d = &t->d[at];
    int64_t span = d->weight * d->extent;
    const tg_uop *blocks =
        tg_fold2(j, TG_OP_IDIV, tg_fold2(j, TG_OP_ADD, dim[d->dim], tg_index(j, span - 1)), tg_index(j, span));
    dim[d->dim] = tg_fold2(j, TG_OP_MUL, blocks, tg_index(j, d->weight));
    d->room |= INT64_MIN;
    more = true;
  }
  for (uint32_t k = 0; k < t->n; k++) t->d[k].room &= INT64_MAX;
  return t->remade = tg_define(j, *tg_buffer_info(j, t->define), t->define->lanes, dim, NULL, false);
}

static const tg_uop *zero_of(tg_job *j, tg_type t) {
  return tg_is_float(t) ? tg_const_float(j, t, 0) : tg_const_int(j, t, 0);
}

static const tg_uop *built_load(state *s, const tg_uop *old, const tg_uop *const *src) {
  tg_job *j = s->w.j;
  const tg_uop *sub[16 + TG_DIGITS], *through = NULL, *gate = tg_gate(old) ? src[old->n - 2] : NULL,
                                     *alt = tg_gate(old) ? src[old->n - 1] : NULL, *buffer = src[0];
  int64_t flags = old->arg & ~(int64_t)TG_GATED;
  memcpy(sub, src + 1, tg_access_rank(old) * sizeof *sub);
  if (tg_in_memory(&s->w, old->src[0])) {
    if (tg_is_own(&s->w, old->src[0])) {
      buffer = local_of(s, tg_tile_of(&s->w, old->src[0]));
      local_subscripts(tg_tile_of(&s->w, old->src[0]), sub, tg_access_rank(old));
    }
    /* threads without an iteration must not read what others may be writing */
    if (s->pins && s->stored[tg_buffer_ordinal(old->src[0])] && !tg_in_extent(&s->w, old)) {
      if (!gate) alt = zero_of(j, old->type);
      gate = tg_and(j, gate, s->pins);
    }
    return tg_load(j, buffer, sub, gate, alt, flags);
  }
  tg_tile *t = tg_tile_of(&s->w, old->src[0]);
  const tg_group_place *asked = NULL;
  if (!t->whole && !tg_private_subscripts(&s->w, t, old, src, sub, &through, &asked))
    tg_bug(&j->env, "pass distribute: %s is private and is not", tg_buffer_info(j, old->src[0])->name);
  buffer = t->whole ? t->define : private_of(s, t);
  if (!through) return tg_load(j, buffer, sub, gate, alt, flags);
  /* The lane read from loads under that part of the gate which is the same in both lanes; this thread's whole gate
   * then chooses between the shuffled value and the alternative. */
  const tg_uop *there = tg_agreed_gate(&s->w, gate, asked);
  const tg_uop *v =
      tg_shuffle(j, tg_load(j, buffer, sub, there, there ? zero_of(j, old->type) : NULL, flags), s->w.lane, through);
  return gate ? tg_op3(j, TG_OP_WHERE, gate, v, alt) : v;
}

/* A SHUFFLE that the author wrote: reads from the lane whose digit equals the index. */
static const tg_uop *built_shuffle(state *s, const tg_uop *old, const tg_uop *const *src) {
  tg_workgroup *w = &s->w;
  tg_job *j = w->j;
  uint32_t o = tg_range_ordinal(old->src[1]);
  if (o >= w->par_of.n || !w->par_of.data[o]) return NULL;
  const tg_par *p = &w->par.data[w->par_of.data[o] - 1];
  if (p->stride * p->room > w->lanes || w->lanes % (p->stride * p->room))
    tg_bug(&j->env, "pass distribute: an exchange between warps");
  const tg_uop *wanted = tg_op2(j, TG_OP_MOD, src[2], tg_index(j, p->extent)), *stride = tg_index(j, p->stride);
  const tg_uop *base =
      tg_op2(j, TG_OP_SUB, w->lane, tg_fold2(j, TG_OP_MUL, tg_thread_digit(w, p->stride, p->room), stride));
  return tg_shuffle(j, src[0], w->lane, tg_op2(j, TG_OP_ADD, base, tg_fold2(j, TG_OP_MUL, wanted, stride)));
}

static const tg_uop *built(tg_job *j, const tg_uop *old, const tg_uop *const *src, void *user) {
  state *s = user;
  if (old->op == TG_OP_LOAD) return built_load(s, old, src);
  if (old->op == TG_OP_SHUFFLE && old->src[1]->op == TG_OP_RANGE) return built_shuffle(s, old, src);
  if (old->op != TG_OP_STORE) return NULL;
  const tg_uop *sub[16 + TG_DIGITS], *through, *buffer = src[0], *gate = tg_gate(old) ? src[old->n - 1] : NULL;
  const tg_group_place *asked;
  memcpy(sub, src + 1, tg_access_rank(old) * sizeof *sub);
  if (tg_in_memory(&s->w, old->src[0])) {
    if (tg_is_own(&s->w, old->src[0])) {
      buffer = local_of(s, tg_tile_of(&s->w, old->src[0]));
      local_subscripts(tg_tile_of(&s->w, old->src[0]), sub, tg_access_rank(old));
    }
    if (s->pins) gate = tg_and(j, gate, s->pins);
  } else {
    tg_tile *t = tg_tile_of(&s->w, old->src[0]);
    if (!t->whole && !tg_private_subscripts(&s->w, t, old, src, sub, &through, &asked))
      tg_bug(&j->env, "pass distribute: a store to %s", tg_buffer_info(j, old->src[0])->name);
    buffer = t->whole ? t->define : private_of(s, t);
  }
  return tg_store(j, buffer, sub, src[tg_access_rank(old) + 1], gate, old->arg & ~(int64_t)TG_GATED);
}

/* The iteration that a thread runs. */
static const tg_uop *decoded(tg_job *j, const tg_uop *old, const tg_uop *const *src, void *user) {
  tg_workgroup *w = &((state *)user)->w;
  (void)src;
  if (old->op != TG_OP_RANGE || tg_range_ordinal(old) >= w->par_of.n || !w->par_of.data[tg_range_ordinal(old)])
    return NULL;
  const tg_par *p = &w->par.data[w->par_of.data[tg_range_ordinal(old)] - 1];
  const tg_uop *x = tg_thread_digit(w, p->stride, p->room);
  return p->room > p->extent ? tg_fold2(j, TG_OP_MOD, x, tg_index(j, p->extent)) : x;
}

static void build_list(state *s, const tg_group_item *list, tg_group_item *out);

static void build_item(state *s, tg_group_item *item, tg_group_item *out) {
  tg_job *j = s->w.j;
  const tg_uop *u = item->u;
  if (u->op == TG_OP_DEFINE) {
    tg_tile *t = tg_tile_of(&s->w, u);
    bool local = tg_in_memory(&s->w, u);
    u = local ? local_of(s, t) : t->whole ? u : private_of(s, t);
    if (local) {
      tg_push(&j->env, &s->defines, u);
      return;
    }
  } else if (u->op == TG_OP_STORE) {
    s->item = item;
    s->pins = tg_in_memory(&s->w, u->src[0]) ? pins_of(&s->w, item) : NULL;
    u = tg_map(j, tg_map(j, u, built, NULL, s), decoded, NULL, s);
  } else if (u->op == TG_OP_RANGE) {
    tg_group_item inner = {0};
    build_list(s, item, &inner);
    if (!inner.list.n) return;
    const tg_uop **list = tg_new(&j->env, const tg_uop *, inner.list.n);
    for (uint32_t i = 0; i < inner.list.n; i++) list[i] = inner.list.data[i]->u;
    u = tg_map(j, u, built, NULL, s);
    const tg_uop *const *body = list;
    tg_kind k = tg_range_kind(u);
    if (k == TG_GLOBAL || k == TG_THREAD) {   /* a global range that is not outermost runs as a sequential loop */
      const tg_uop *loop = tg_range_again(j, u, tg_extent(u), TG_LOOP);
      const tg_uop **again = tg_new(&j->env, const tg_uop *, inner.list.n);
      for (uint32_t i = 0; i < inner.list.n; i++) again[i] = tg_substitute(j, list[i], 1, &u, &loop);
      u = loop;
      body = again;
    }
    u = tg_end(j, u, inner.list.n, body);
  }
  if (item->pos.line) tg_set_pos(j, u, item->pos);
  tg_group_item *made = tg_item_new(&s->w, out, u, item->pos);
  tg_push(&j->env, &out->list, made);
}

static void build_list(state *s, const tg_group_item *list, tg_group_item *out) {
  for (uint32_t i = 0; i < list->list.n; i++) build_item(s, list->list.data[i], out);
}

/* ---- one workgroup ---- */

static void see_stores(state *s, const tg_group_item *at, uint8_t *stored) {
  for (uint32_t i = 0; i < at->list.n; i++) see_stores(s, at->list.data[i], stored);
  if (at->u && at->u->op == TG_OP_STORE) stored[tg_buffer_ordinal(at->u->src[0])] = 1;
}

static void touch_all(tg_workgroup *w, tg_group_item *at) {
  if (at->u && at->u->op == TG_OP_STORE) tg_touch_item(w, at);
  if (at->u && at->u->op == TG_OP_DEFINE) tg_note_copies(w, at);
  if (at->u && at->u->op == TG_OP_RANGE) count_extent(w, at->u);
  for (uint32_t i = 0; i < at->list.n; i++) touch_all(w, at->list.data[i]);
}

static const tg_uop *new_range(tg_job *j, const char *name, int64_t extent, tg_kind kind) {
  return tg_range_new(j, name, tg_index(j, extent), kind, UINT32_MAX, (tg_pos){0});
}

void tg_workgroup_form(tg_job *j, const tg_lowering *l, uint32_t n, const tg_uop *const *list,
                       const tg_outside *outside, tg_form *out) {
  state *s = tg_new(&j->env, state, 1);
  tg_workgroup *w = &s->w;
  const tg_uop *path[TG_PARS + 1], **plain = tg_new(&j->env, const tg_uop *, n + 1);
  s->buffers = j->buffers.n;
  s->path_of = tg_new(&j->env, const tg_uop **, j->buffers.n + 1);
  *w = (tg_workgroup){.j = j, .l = l, .outside = outside, .lanes = l->target->lanes, .limit = l->target->max_threads};
  for (uint32_t i = 0; i < n; i++) {
    if (list[i]->op == TG_OP_END) threads_within(s, list[i]);
    find_private(s, list[i], path, 0);
  }
  const tg_uop *whole = tg_map(j, tg_sink(j, n, list), private_node, NULL, s);
  for (uint32_t i = 0; i < n; i++) plain[i] = whole->src[i];
  w->body = tg_item_new(w, NULL, NULL, (tg_pos){0});
  w->lane = new_range(j, "lane", w->lanes, TG_LANE);
  flatten(s, w->body, n, plain, path, 0);
  touch_all(w, w->body);
  tg_fold_ranges(w);
  tg_assign_places(w);
  if (w->threads > w->lanes) w->warp = new_range(j, "warp", w->threads / w->lanes, TG_LOCAL);
  w->thread = new_range(j, "thread", w->threads, TG_LOCAL);
  uint32_t t = tg_par_new(w, w->thread, w->threads, false);
  w->par.data[t].stride = 1;
  w->par.data[t].room = w->threads;
  tg_fold_across(w);
  tg_assign_layouts(w);
  tg_keep_exchanged(w);
  tg_find_rings(w);
  tg_infer_barriers(w);
  uint8_t *stored = tg_new(&j->env, uint8_t, j->buffers.n + 1);
  see_stores(s, w->body, stored);
  s->stored = stored;
  tg_group_item body = {0};
  build_list(s, w->body, &body);
  for (uint32_t i = 0; i < s->defines.n; i++) tg_push(&j->env, &out->list, s->defines.data[i]);
  if (!body.list.n) return;
  const tg_uop **all = tg_new(&j->env, const tg_uop *, body.list.n), *end;
  for (uint32_t i = 0; i < body.list.n; i++) all[i] = body.list.data[i]->u;
  end = tg_end(j, w->lane, body.list.n, all);
  if (w->warp) end = tg_end(j, w->warp, 1, &end);
  tg_push(&j->env, &out->list, end);
}
