/* SPDX-License-Identifier: MIT
 * keep: a sum, or what is computed of an element of a buffer, that is needed more than once is computed once for each
 * value of the ranges that it changes with, into memory, ahead of its uses.
 *
 *   for i { for j { y[i,j] = sum(h, max(sum(k, a[i,k] * b[k,h]), 0) * c[h,j]) } }         keep k as t      becomes
 *
 *   for i { for h { t[i,h] = max(sum(k, a[i,k] * b[k,h]), 0) } }
 *   for i { for j { y[i,j] = sum(h, t[i,h] * c[h,j]) } }
 *
 * Values are the same one if they differ in the names of ranges alone (softmax of a product has three). `at r`
 * keeps what one iteration of loop r needs, in registers or memory of its own; else t has room for all.
 *
 * Legal if nothing of the program, or of an iteration of r, stores to what the sum reads, if the sum's reads are in
 * bounds wherever it is now computed, and if t's size has a bound. The sum itself is as it was, to the bit. */
#include "lower/sweep.h"
#include "schedule/keep.h"

enum { PATIENCE = 4096, OPEN = 1024 };

/* ---- which reductions are the same ---- */

typedef struct {
  const tg_repeats *scope;
  tg_job *j;
  uint32_t steps, n;
  const tg_uop *from[2 * TG_KEEP_RANK], *to[2 * TG_KEEP_RANK];   /* ranges of the one, and of the other */
} matching;

static bool inside(const tg_repeats *g, const tg_uop *range) {
  uint32_t o = tg_range_ordinal(range);
  return o < g->ranges && g->inside[o];
}

static bool alike(matching *m, const tg_uop *a, const tg_uop *b);

static bool alike_ranges(matching *m, const tg_uop *a, const tg_uop *b) {
  if (!inside(m->scope, a) || !inside(m->scope, b)) return a == b;
  for (uint32_t i = 0; i < m->n; i++)
    if (m->from[i] == a || m->to[i] == b) return m->from[i] == a && m->to[i] == b;
  if (m->n == TG_COUNT(m->from) || !alike(m, tg_extent(a), tg_extent(b))) return false;
  m->from[m->n] = a;
  m->to[m->n++] = b;
  return true;
}

static bool alike_sources(matching *m, const tg_uop *a, const tg_uop *b, bool turned) {
  for (uint32_t i = 0; i < a->n; i++)
    if (!alike(m, a->src[i], b->src[turned ? 1 - i : i])) return false;
  return true;
}

/* Equal but for the names of ranges that are bound in the scope. */
static bool alike(matching *m, const tg_uop *a, const tg_uop *b) {
  if (a->op != b->op || a->type != b->type || a->lanes != b->lanes || a->n != b->n) return false;
  if (++m->steps > PATIENCE) return false;
  if (a->op == TG_OP_RANGE) return alike_ranges(m, a, b);
  if (a->arg != b->arg) return false;
  if (a->op == TG_OP_DEFINE || !a->n) return a == b;
  uint32_t known = m->n;
  if (alike_sources(m, a, b, false)) return true;
  m->n = known;
  return a->n == 2 && tg_ops[a->op].flags & TG_OPF_C && alike_sources(m, a, b, true);
}

/* ---- what a reduction changes with, and how often it is computed ---- */

static bool binds(const tg_uop *reduce, const tg_uop *range) {
  for (uint32_t i = 0; i < tg_reduce_info(reduce).ranges; i++)
    if (tg_reduce_ranges(reduce)[i] == range) return true;
  return false;
}

double tg_repeats_trips(tg_job *j, const tg_uop *range) {
  const tg_uop *extent = tg_extent(range);
  if (extent->op == TG_OP_CONST) return (double)extent->arg;
  tg_bounds b = tg_bounds_of(j, extent);
  return b.hi > 0 && b.hi <= OPEN ? (double)b.hi : OPEN;
}

/* The ranges of the scope that u uses and does not bind, outermost first. False: there are too many. */
static bool free_ranges(const tg_repeats *g, const tg_uop *u, const tg_uop **out, uint32_t *n) {
  tg_schedule *s = g->s;
  uint32_t count;
  const tg_uop **order = tg_toposort(s->j, u, &count);
  *n = 0;
  for (uint32_t i = 0; i < s->sites.n; i++) {
    const tg_uop *range = s->sites.data[i].range;
    bool used = inside(g, range) && tg_uses(s->j, u, range), known = false;
    for (uint32_t k = 0; k < count && used; k++) used = order[k]->op != TG_OP_REDUCE || !binds(order[k], range);
    for (uint32_t k = 0; k < *n; k++) known |= out[k] == range;
    if (!used || known) continue;
    if (*n == TG_KEEP_RANK) return false;
    out[(*n)++] = range;
  }
  return true;
}

/* A place in a statement, and whether each range counts as two iterations, as many as it may have. */
typedef struct { const tg_repeats *g; const tg_uop *root; uint32_t parent; bool any; } place;

static double trips(const place *p, const tg_uop *range) {
  return p->any ? 2 : tg_repeats_trips(p->g->s->j, range);
}

/* How often a value is computed that stands in loops of the scope, of which it uses some: in the innermost of these. */
static double times_in_loops(const place *p, const tg_uop *u) {
  const tg_site *sites = p->g->s->sites.data;
  double times = 1;
  bool counts = false;
  for (uint32_t q = p->parent; q != UINT32_MAX && inside(p->g, sites[q].range); q = sites[q].parent) {
    counts |= tg_uses(p->g->s->j, u, sites[q].range);
    if (counts) times *= trips(p, sites[q].range);
  }
  return times;
}

/* Of those below root: in u's own place, or in the reductions around it. */
static double times_of(const place *p, const tg_uop *u) {
  tg_job *j = p->g->s->j;
  uint32_t n;
  const tg_uop **order = tg_toposort(j, p->root, &n);
  double times = 0, around;
  for (uint32_t i = 0; i < n; i++) {
    const tg_uop *v = order[i];
    bool direct = v->op == TG_OP_REDUCE && v != u && tg_uses(j, v, u), uses = false;
    for (uint32_t k = 0; k < n && direct; k++)
      direct = order[k]->op != TG_OP_REDUCE || order[k] == u || order[k] == v || !tg_uses(j, v, order[k]) ||
               !tg_uses(j, order[k], u);
    if (!direct) continue;
    around = 1;
    for (uint32_t k = 0; k < tg_reduce_info(v).ranges; k++) {
      uses |= tg_uses(j, u, tg_reduce_ranges(v)[k]);
      around *= trips(p, tg_reduce_ranges(v)[k]);
    }
    if (uses) times += around * times_of(p, v);
  }
  return times ? times : times_in_loops(p, u);
}

static bool has_reduction(tg_job *j, const tg_uop *u) {
  uint32_t n;
  const tg_uop **order = tg_toposort(j, u->src[0], &n);
  for (uint32_t i = 0; i < n; i++)
    if (order[i]->op == TG_OP_REDUCE) return true;
  return false;
}

/* Does sum u stand beside a sum of products that changes with all loops that u does, and with more? */
static bool beside_product(const place *p, const tg_uop *u) {
  tg_job *j = p->g->s->j;
  const tg_site *sites = p->g->s->sites.data;
  uint32_t n;
  const tg_uop **order = tg_toposort(j, p->root, &n);
  for (uint32_t i = 0; i < n; i++) {
    const tg_uop *v = order[i];
    bool more = false, all = v->op == TG_OP_REDUCE && v != u && v->src[0]->op == TG_OP_MUL && !tg_uses(j, v, u);
    for (uint32_t q = p->parent; q != UINT32_MAX && all; q = sites[q].parent) {
      bool mine = tg_uses(j, u, sites[q].range), its = tg_uses(j, v, sites[q].range);
      all = its || !mine, more |= its && !mine;
    }
    if (all && more) return true;
  }
  return false;
}

/* How often a sum is computed beside a product, as the length of a row beside products of it: tiles of the product take
 * the loops in an order of their own, so the sum is one more in each, and no loop is left that it stands outside of.
 * 0: there is no product, or its loops have other statements as well, and are no tiles. */
static double times_in_tiles(const place *p, const tg_uop *u) {
  const tg_site *sites = p->g->s->sites.data;
  double times = 1;
  if (p->g->around->op == TG_OP_END || u->op != TG_OP_REDUCE || has_reduction(p->g->s->j, u)) return 0;
  for (uint32_t q = p->parent; q != UINT32_MAX; q = sites[q].parent) {
    if (sites[q].owner->op != TG_OP_END || sites[q].owner->n != 2) return 0;
    times *= trips(p, sites[q].range);
  }
  return beside_product(p, u) ? times : 0;
}

/* ---- what there is to keep ---- */

/* Those of the same iterations are computed once already. */
static void add_use(tg_job *j, tg_repeated *k, const tg_repeated_use *use) {
  double most = 0;
  for (uint32_t i = 0; i < k->uses.n; i++) {
    const tg_repeated_use *other = &k->uses.data[i];
    if (!memcmp(other->range, use->range, sizeof use->range) && other->times > most) most = other->times;
  }
  tg_push(&j->env, &k->uses, *use);
  if (use->times > most) k->times += use->times - most;
}

static void note(tg_repeats *g, const place *p, const tg_uop *core, const tg_uop *value) {
  tg_job *j = g->s->j;
  const tg_uop *mine[TG_KEEP_RANK];
  place any = *p;
  uint32_t n;
  if (!free_ranges(g, value, mine, &n)) return;
  any.any = true;
  bool again = times_of(&any, value) > (double)(1u << n);
  tg_repeated_use use = {.core = core, .value = value, .store = p->root, .times = times_of(p, value)};
  double tiled = times_in_tiles(p, value);
  for (uint32_t i = 0; i < g->all.n; i++) {
    tg_repeated *k = &g->all.data[i];
    matching m = {.scope = g, .j = j};
    if (k->rank != n || !alike(&m, k->first, value)) continue;
    for (uint32_t d = 0; d < n; d++)
      for (uint32_t q = 0; q < m.n; q++)
        if (m.from[q] == k->range[d]) use.range[d] = m.to[q];
    add_use(j, k, &use);
    k->again |= again, k->tiled += tiled;
    return;
  }
  tg_repeated k = {.core = core, .first = value, .rank = n, .once = 1, .tiled = tiled, .again = again};
  for (uint32_t d = 0; d < n; d++) {
    use.range[d] = k.range[d] = mine[d];
    k.once *= tg_repeats_trips(j, mine[d]);
  }
  add_use(j, &k, &use);
  tg_push(&j->env, &g->all, k);
}

/* What the statement makes of the value by operations that change with no other range. */
static const tg_uop *widest(const tg_repeats *g, const tg_uop *store, const tg_uop *value) {
  tg_job *j = g->s->j;
  const tg_uop *ranges[TG_KEEP_RANK], *more[TG_KEEP_RANK];
  uint32_t n, rank, now;
  const tg_uop **order = tg_toposort(j, store, &n);
  if (!free_ranges(g, value, ranges, &rank)) return value;
  for (;;) {
    const tg_uop *user = NULL;
    uint32_t users = 0;
    for (uint32_t i = 0; i < n; i++)
      for (uint32_t k = 0; k < order[i]->n; k++)
        if (order[i]->src[k] == value) user = order[i], users++;
    bool goes_on = users == 1 && tg_ops[user->op].flags & TG_OPF_W && user->type != TG_INDEX && user->type != TG_BOOL &&
                   free_ranges(g, user, more, &now) && now == rank;
    if (!goes_on) return value;
    value = user;
  }
}

static void see(tg_repeats *g, const tg_uop *u) {
  if (u->op == TG_OP_END) {
    for (uint32_t i = 1; i < u->n; i++) see(g, u->src[i]);
    return;
  }
  if (u->op != TG_OP_STORE) return;
  tg_schedule *s = g->s;
  uint32_t n;
  place p = {g, u, UINT32_MAX, false};
  for (uint32_t i = 0; i < s->stores.n; i++)
    if (s->stores.data[i].store == u) p.parent = s->stores.data[i].parent;
  const tg_uop **order = tg_toposort(s->j, u, &n);
  for (uint32_t i = 0; i < n; i++) {
    const tg_uop *v = order[i], *wide;
    if (!g->loads && v->op == TG_OP_REDUCE && !tg_reduce_info(v).generic) note(g, &p, v, v);
    if (!g->loads || v->op != TG_OP_LOAD || v->type == TG_INDEX) continue;
    if ((wide = widest(g, u, v)) != v && tg_uses(s->j, tg_stored(u), wide)) note(g, &p, v, wide);
  }
}

/* Where all uses make the same of it, that is what is kept. */
static void widen(tg_repeats *g, tg_repeated *k) {
  tg_repeats wide = *g;
  wide.all.n = 0, wide.all.data = NULL, wide.all.cap = 0;
  for (uint32_t i = 0; i < k->uses.n; i++) {
    const tg_repeated_use *u = &k->uses.data[i];
    place p = {g, u->store, UINT32_MAX, false};
    const tg_uop *value = widest(g, u->store, u->value);
    if (value == u->value) return;
    note(&wide, &p, k->core, value);
  }
  const tg_repeated *w = wide.all.data;
  if (wide.all.n != 1 || w->uses.n != k->uses.n || tg_keep_hindrance(g, w)) return;
  k->first = w->first;
  memcpy(k->range, w->range, sizeof k->range);
  for (uint32_t i = 0; i < k->uses.n; i++) {
    k->uses.data[i].value = w->uses.data[i].value;
    memcpy(k->uses.data[i].range, w->uses.data[i].range, sizeof w->uses.data[i].range);
  }
}

static void mark(tg_repeats *g, const tg_uop *u) {
  uint32_t n;
  const tg_uop **order = tg_toposort(g->s->j, u, &n);
  for (uint32_t i = 0; i < n; i++) {
    const tg_uop *v = order[i];
    if (v->op == TG_OP_END) g->inside[tg_range_ordinal(v->src[0])] = 1;
    for (uint32_t k = 0; v->op == TG_OP_REDUCE && k < tg_reduce_info(v).ranges; k++)
      g->inside[tg_range_ordinal(tg_reduce_ranges(v)[k])] = 1;
  }
}

tg_repeats tg_repeats_in(tg_schedule *s, const tg_uop *around, bool loads) {
  uint32_t from = around->op == TG_OP_END;
  tg_repeats g = {.s = s, .around = around, .loads = loads, .ranges = s->j->ranges.n};
  g.inside = tg_new(&s->j->env, uint8_t, g.ranges + 1);
  for (uint32_t i = from; i < around->n; i++) mark(&g, around->src[i]);
  for (uint32_t i = from; i < around->n; i++) see(&g, around->src[i]);
  for (uint32_t i = 0; i < g.all.n && !loads; i++) widen(&g, &g.all.data[i]);
  return g;
}

/* ---- may it be kept ---- */

static bool stores_to(tg_job *j, const tg_uop *u, const tg_uop *define) {
  if (u->op == TG_OP_DEFINE) return u == define;
  if (u->op == TG_OP_STORE) return tg_define_of(u->src[0]) == define;
  for (uint32_t i = 1; u->op == TG_OP_END && i < u->n; i++)
    if (stores_to(j, u->src[i], define)) return true;
  return false;
}

static const char *bad_kind(const tg_repeats *g, const tg_uop *range) {
  tg_kind k = tg_range_kind(range);
  if (k == TG_LOOP || k == TG_REDUCE || k == TG_GLOBAL || k == TG_THREAD) return NULL;
  return tg_format(&g->s->j->env, "%s is %s already", tg_range_text(g->s, range), tg_kind_name[k]);
}

static bool needs(tg_job *j, const tg_uop *statement, const tg_repeated *k) {
  for (uint32_t i = 0; i < k->uses.n; i++)
    if (tg_uses(j, statement, k->uses.data[i].value)) return true;
  return false;
}

/* Between the place where it is kept and its last use. */
static bool stored_meanwhile(const tg_repeats *g, const tg_repeated *k, const tg_uop *define) {
  uint32_t first = g->around->op == TG_OP_END, last = g->around->n;
  while (first < last && !needs(g->s->j, g->around->src[first], k)) first++;
  while (first < last && !needs(g->s->j, g->around->src[last - 1], k)) last--;
  for (uint32_t i = first; i < last; i++)
    if (stores_to(g->s->j, g->around->src[i], define)) return true;
  return false;
}

const char *tg_keep_hindrance(const tg_repeats *g, const tg_repeated *k) {
  tg_job *j = g->s->j;
  uint32_t n;
  double room = 1;
  const tg_uop **order = tg_toposort(j, k->first, &n);
  for (uint32_t d = 0; d < k->rank; d++) {
    tg_bounds b = tg_bounds_of(j, tg_extent(k->range[d]));
    const char *kind = bad_kind(g, k->range[d]);
    if (kind) return kind;
    for (uint32_t i = 0; i < g->s->sites.n; i++)
      if (inside(g, g->s->sites.data[i].range) && tg_uses(j, tg_extent(k->range[d]), g->s->sites.data[i].range))
        return tg_format(&j->env, "the extent of %s changes", tg_range_text(g->s, k->range[d]));
    if (tg_loads_below(j, tg_extent(k->range[d])))
      return tg_format(&j->env, "the extent of %s is read from memory", tg_range_text(g->s, k->range[d]));
    room *= b.hi > 0 ? (double)b.hi : 1;
  }
  if (room > TG_COPY_MOST) return "it would have more than 2^26 elements";
  for (uint32_t i = 0; i < n; i++) {
    if (order[i]->op == TG_OP_RANGE && inside(g, order[i]) && bad_kind(g, order[i])) return bad_kind(g, order[i]);
    if (order[i]->op != TG_OP_LOAD) continue;
    const char *name = tg_buffer_info(j, order[i]->src[0])->name;
    if (stored_meanwhile(g, k, tg_define_of(order[i]->src[0])))
      return tg_format(&j->env, "%s, which it reads, is stored to", name);
    if (!tg_surely_in_bounds(j, order[i], tg_gate(order[i])))
      return tg_format(&j->env, "whether its read of %s is in bounds depends on where it stands", name);
  }
  return NULL;
}

/* ---- the word ---- */

/* buffer: around whose loads values are kept; UINT32_MAX: reductions over the axis are. */
typedef struct {
  tg_schedule *s;
  const tg_opt *o;
  tg_axis over;
  uint32_t buffer, kept;
  const char *why;
} keeping;

static bool named(const keeping *w, const tg_repeated *k) {
  if (w->buffer != UINT32_MAX) return k->again && tg_loads_from(w->s->j, k->first, w->buffer);
  for (uint32_t i = 0; i < k->uses.n; i++)
    for (uint32_t q = 0; q < w->over.n; q++)
      if (binds(k->uses.data[i].core, w->over.site[q].range)) return true;
  return false;
}

/* The reduction with ranges of its own, stored for all values of them. */
static const tg_uop *filled(keeping *w, const tg_repeated *k, const tg_uop *define) {
  tg_job *j = w->s->j;
  const tg_uop *from[64], *to[64];
  uint32_t n = 0, count;
  for (; n < k->rank; n++) from[n] = k->range[n];
  const tg_uop **order = tg_toposort(j, k->first, &count);
  for (uint32_t i = 0; i < count; i++)
    for (uint32_t q = 0; order[i]->op == TG_OP_REDUCE && q < tg_reduce_info(order[i]).ranges; q++) {
      if (n == TG_COUNT(from)) tg_fail_at(j, w->o->pos, "keep: the reduction has more than 64 ranges");
      from[n++] = tg_reduce_ranges(order[i])[q];
    }
  for (uint32_t i = 0; i < n; i++) {
    const tg_range_info *info = &j->ranges.data[tg_range_ordinal(from[i])];
    const tg_uop *extent = tg_substitute(j, tg_extent(from[i]), i, from, to);
    to[i] = tg_range_new(j, info->name, extent, i < k->rank ? TG_LOOP : TG_REDUCE, UINT32_MAX, info->pos);
  }
  const tg_uop *value = tg_substitute(j, k->first, n, from, to), *u = tg_store(j, define, to, value, NULL, 0);
  tg_set_pos(j, u, w->o->pos);
  for (uint32_t d = k->rank; d-- > 0;) u = tg_end(j, to[d], 1, &u);
  return u;
}

static const tg_uop *room_for(keeping *w, const tg_repeated *k, bool all) {
  tg_job *j = w->s->j;
  const tg_uop *dims[TG_KEEP_RANK];
  for (uint32_t d = 0; d < k->rank; d++) {
    tg_bounds b = tg_bounds_of(j, tg_extent(k->range[d]));
    dims[d] = tg_index(j, b.hi > 0 ? (int64_t)b.hi : 1);
  }
  tg_buffer info = {.name = w->o->names[1],
                    .space = all ? TG_SPACE_LOCAL : TG_SPACE_REG,
                    .role = TG_ROLE_TEMP,
                    .rank = (uint8_t)k->rank,
                    .type = k->first->type,
                    .align = all ? 64 : 0,
                    .pos = w->o->pos};
  return tg_define(j, info, 1, dims, NULL, true);
}

/* The statements of the scope, with what is kept ahead of the first that needs it. */
static tg_statements kept_statements(keeping *w, const tg_repeats *g) {
  tg_job *j = w->s->j;
  bool loop = g->around->op == TG_OP_END;
  tg_statements out = {0};
  TG_VEC(const tg_uop *) from = {0}, to = {0};
  uint8_t *done = tg_new(&j->env, uint8_t, g->all.n + 1);
  for (uint32_t i = loop; i < g->around->n; i++) {
    const tg_uop *u = g->around->src[i];
    for (uint32_t q = 0; q < g->all.n; q++) {
      const tg_repeated *k = &g->all.data[q];
      if (done[q] || !needs(j, u, k) || !named(w, k)) continue;
      const char *why = tg_keep_hindrance(g, k);
      done[q] = 1;
      if (why) {
        w->why = why;
        continue;
      }
      const tg_uop *define = room_for(w, k, !loop);
      tg_push(&j->env, &out, define);
      tg_push(&j->env, &out, filled(w, k, define));
      for (uint32_t p = 0; p < k->uses.n; p++) {
        tg_push(&j->env, &from, k->uses.data[p].value);
        tg_push(&j->env, &to, tg_load(j, define, k->uses.data[p].range, NULL, NULL, 0));
      }
      w->kept++;
    }
    tg_push(&j->env, &out, from.n ? tg_substitute(j, u, from.n, from.data, to.data) : u);
  }
  return out;
}

static void kept_loop(tg_schedule *s, const tg_uop *end, tg_statements *out, void *user) {
  keeping *w = user;
  tg_repeats g = tg_repeats_in(s, end, w->buffer != UINT32_MAX);
  tg_statements list = kept_statements(w, &g);
  tg_push(&s->j->env, out, tg_end_like(s, end, end->src[0], list.n, list.data));
}

/* What is named: a range of a reduction, or a buffer. */
static const char *find_named(keeping *w) {
  tg_schedule *s = w->s;
  const char *name = w->o->names[0];
  w->buffer = 0;
  while (w->buffer < s->j->buffers.n && strcmp(s->j->buffers.data[w->buffer].name, name)) w->buffer++;
  if (w->buffer < s->j->buffers.n) return tg_format(&s->j->env, "what is computed of %s", name);
  w->buffer = UINT32_MAX;
  w->over = tg_axis_find(s, w->o, name);
  const char *range = tg_range_text(s, w->over.site[0].range);
  if (w->over.site[0].owner->op != TG_OP_REDUCE)
    tg_fail_at(s->j, w->o->pos, "keep: %s is no range of a reduction", range);
  return tg_format(&s->j->env, "a reduction over %s", range);
}

void tg_opt_keep(tg_schedule *s, const tg_opt *o) {
  keeping w = {.s = s, .o = o};
  const char *what = find_named(&w);
  if (o->n > 2) {
    tg_axis at = tg_axis_find(s, o, o->names[2]);
    if (at.site[0].owner->op != TG_OP_END)
      tg_fail_at(s->j, o->pos, "keep: %s is a range of a reduction, and no loop", tg_range_text(s, at.site[0].range));
    for (uint32_t i = 0; i < at.n; i++) s->sink = tg_replace_end(s, s->sink, at.site[i].range, kept_loop, &w);
  } else {
    tg_repeats g = tg_repeats_in(s, s->sink, w.buffer != UINT32_MAX);
    tg_statements list = kept_statements(&w, &g);
    s->sink = tg_sink(s->j, list.n, list.data);
  }
  if (w.why) tg_fail_at(s->j, o->pos, "keep: %s cannot be kept: %s", what, w.why);
  if (!w.kept && w.buffer == UINT32_MAX) tg_fail_at(s->j, o->pos, "keep: %s does not stand there", what);
  if (!w.kept)
    tg_fail_at(s->j, o->pos, "keep: %s never stands in a loop, or in a sum, with which it does not change", what);
}
