/* SPDX-License-Identifier: MIT
 * Pass reduce: every REDUCE becomes a register and loops.
 *
 * Needs a versioned program; leaves one without REDUCE and GET. A REDUCE is computed in the innermost statement list
 * that has every range it uses and every store that it reads, before the first statement of that list that uses it. So
 * reductions that do not depend on an inner loop are hoisted, and equal ones (reduce_same.c) are computed once. Sums
 * that were one loop of the author's (raise.c) are one loop again. A reduction also leaves a loop that may not run
 * although its loads are proved in bounds only for iterations of that loop: it is then wrapped in a loop of one
 * iteration, or none if it will not be used (reduce_needed.c).
 *
 * The sequential ranges of a REDUCE are loops around one update. Each combination of its upcast, local and lane ranges
 * has an accumulator, and they are combined afterwards by halving (docs/ir.md has the order; FOLD for lanes, vectors
 * of half the width for lanes of tuples). A thread range stores one partial result per iteration to LOCAL memory at
 * SINK level, and the statements after that loop combine them.
 *
 * On a target with warps the local and lane ranges stay. The accumulators are a tile over them, and the result is a
 * register that holds the FOLD of that tile (tuples are halved in lockstep, one tile per step); pass distribute
 * assigns threads to both. */
#include "lower/reduce.h"

enum { MAX_PREFETCHES = 256, MAX_LEVELS = 64 };

typedef tg_reduce_level level;
typedef tg_reduce_state state;
typedef tg_reduce_plan plan;

typedef struct { const tg_uop *u; uint32_t next; } frame;
typedef TG_VEC(frame) frames;

static level *deeper(level *a, level *b) { return !a ? b : !b || a->depth >= b->depth ? a : b; }

static level *open_level(state *s, level *outer, const tg_uop *old, const tg_uop *range) {
  level *l = tg_new(&s->j->env, level, 1);
  /* a range that is open twice would be taken for one loop's where the other's is meant */
  tg_assert(&s->j->env, !s->to[old->id] || !s->home[old->id]->open);
  *l = (level){.outer = outer,
               .range = range,
               .depth = outer->depth + 1,
               .lane = outer->lane || tg_range_kind(range) == TG_LANE,
               .open = true,
               .runs = tg_bounds_of(s->j, tg_extent(range)).lo >= 1};
  s->to[old->id] = range;
  s->home[old->id] = l;
  return l;
}

void tg_reduce_put(state *s, level *l, const tg_uop *statement) {
  if (s->pos.line && statement->op != TG_OP_DEFINE) tg_set_pos(s->j, statement, s->pos);
  tg_push(&s->j->env, &l->out, statement);
}

/* The new node for u; NULL if it was made in a list that is closed by now. */
static const tg_uop *known(const state *s, const tg_uop *u) {
  const level *h = s->home[u->id];
  return !h || h->open || u->op == TG_OP_RANGE ? s->to[u->id] : NULL;
}

void tg_reduce_close(state *s, level *l) {
  l->open = false;
  if (l->out.n) tg_reduce_put(s, l->outer, tg_end(s->j, l->range, l->out.n, l->out.data));
}

/* ---- where a reduction can stand ---- */

static bool binds(const tg_uop *reduce, const tg_uop *range) {
  uint32_t n = tg_reduce_info(reduce).ranges;
  for (uint32_t i = 0; i < n; i++)
    if (tg_reduce_ranges(reduce)[i] == range) return true;
  return false;
}

static bool in_lockstep(const tg_uop *range) {
  tg_kind k = tg_range_kind(range);
  return k == TG_LANE || k == TG_UPCAST || k == TG_LOCAL || k == TG_GROUP;
}

static bool over_threads(const tg_uop *reduce) {
  for (uint32_t i = 0; i < tg_reduce_info(reduce).ranges; i++)
    if (tg_range_kind(tg_reduce_ranges(reduce)[i]) == TG_THREAD) return true;
  return false;
}

/* Is it a load of an input, in bounds even if no loop around it runs? */
static bool proved_alone(state *s, const tg_uop *load) {
  const tg_buffer *b = tg_buffer_info(s->j, load->src[0]);
  if (b->role != TG_ROLE_IN && b->role != TG_ROLE_INOUT) return false;
  return tg_surely_in_bounds(s->j, load, tg_gate(load));
}

/* Can u be evaluated in list l? It may use ranges around l and memory that nothing stores to. */
static bool known_in(state *s, const level *l, const tg_uop *u) {
  tg_sweep w = tg_sweep_of(s->j, u);
  for (uint32_t i = 0; i < w.n; i++) {
    const tg_uop *x = w.u[i];
    if (x->op == TG_OP_REDUCE || x->op == TG_OP_SHUFFLE || x->op == TG_OP_AFTER) return false;
    if (x->op == TG_OP_LOAD && !proved_alone(s, x)) return false;
    if (x->op != TG_OP_RANGE) continue;
    const level *h = s->to[x->id] ? s->home[x->id] : NULL;
    if (!h || !h->open || h->depth > l->depth || in_lockstep(x)) return false;
  }
  return true;
}

/* Home of a reduction whose loads are legal only where it is used: the outermost list, from h inwards, in which
 * `needed` can be evaluated. */
static level *asked_home(state *s, level *h, level *idle, const tg_uop *reduce, const tg_uop **needed) {
  level *chain[MAX_LEVELS];
  uint32_t n = 0;
  for (level *l = idle->outer; l && l->depth >= h->depth && n < MAX_LEVELS; l = l->outer) chain[n++] = l;
  while (n-- > 0) {
    if (!chain[n]->rest_n) continue;
    *needed = tg_needed(s->j, chain[n]->rest_n, chain[n]->rest, reduce);
    if (known_in(s, chain[n], *needed)) return chain[n];
  }
  *needed = NULL;
  return idle;
}

/* The outermost list in which reduce can be computed: the deepest one that a node below it needs. Ranges of nested
 * reductions do not count. */
static level *home_of(state *s, const tg_uop *reduce, const tg_uop **needed) {
  level *h = s->sink, *idle = s->now;   /* idle: the innermost loop around the use that may not run */
  TG_VEC(const tg_uop *) stack = {0}, loads = {0};
  s->epoch++;
  tg_push(&s->j->env, &stack, reduce);
  while (stack.n) {
    const tg_uop *u = stack.data[--stack.n];
    if (s->seen[u->id] == s->epoch) continue;
    s->seen[u->id] = s->epoch;
    if (u->op == TG_OP_LOAD) tg_push(&s->j->env, &loads, u);
    if (u->op == TG_OP_RANGE && s->to[u->id]) {
      if (!binds(reduce, u) && s->home[u->id]->open) h = deeper(h, s->home[u->id]);
      continue;
    }
    if (known(s, u)) h = deeper(h, s->home[u->id]);
    if (u->op == TG_OP_DEFINE || (known(s, u) && (u->op == TG_OP_REDUCE || u->op == TG_OP_AFTER))) continue;
    uint32_t n = u->n;
    if (u->op == TG_OP_AFTER) {
      h = deeper(h, s->home[u->src[1]->id]);
      n = 1;
    }
    for (uint32_t i = 0; i < n; i++) tg_push(&s->j->env, &stack, u->src[i]);
  }
  while (idle->depth > h->depth && idle->runs) idle = idle->outer;
  bool proved = idle->depth <= h->depth;
  for (uint32_t i = 0; i < loads.n && !proved; i++) {
    if (proved_alone(s, loads.data[i])) continue;
    if (s->device || over_threads(reduce)) return idle;
    return asked_home(s, h, idle, reduce, needed);
  }
  return h;
}

/* ---- one reduction ---- */


static const tg_uop *combined(plan *p, uint32_t i) { return p->reduce->src[2 * p->info.values + i]; }

static const char *name_of(const state *s, const tg_uop *range) {
  return s->j->ranges.data[tg_range_ordinal(range)].name;
}

uint32_t tg_reduce_extent(state *s, const tg_uop *range) {
  const tg_uop *e = tg_extent(range);
  if (e->op != TG_OP_CONST || e->arg > 1 << 16)
    tg_fail_at(s->j, s->pos, "the %s range %s of a reduction needs a constant extent of at most 65536",
               tg_kind_name[tg_range_kind(range)], s->j->ranges.data[tg_range_ordinal(range)].name);
  return e->arg < 0 ? 0 : (uint32_t)e->arg;
}

static void sort_ranges(plan *p, const level *home) {
  const tg_uop *const *r = tg_reduce_ranges(p->reduce), *lanes[TG_REDUCE_RANGES];
  uint32_t nl = 0;
  bool fold = !home->lane;
  for (uint32_t i = 0; i < p->info.ranges; i++) {
    switch (tg_range_kind(r[i])) {
    case TG_LOCAL: case TG_GROUP:
      if (p->s->device) lanes[nl++] = r[i];
      else p->wide[p->nwide++] = r[i];
      break;
    case TG_UPCAST: p->wide[p->nwide++] = r[i]; break;
    case TG_LANE: lanes[nl++] = r[i]; break;
    case TG_THREAD:
      if (p->thread) tg_fail_at(p->s->j, p->s->pos, "a reduction over two thread ranges");
      p->thread = r[i];
      break;
    default: p->sequential[p->nseq++] = r[i];
    }
  }
  /* one lane range is a vector; all others are copies */
  p->nupcast = p->nwide + (p->s->device ? 0 : fold && nl ? nl - 1 : nl);
  for (uint32_t i = 0; i < nl; i++) p->wide[p->nwide++] = lanes[i];
  for (uint32_t i = 0; i < p->nwide; i++) p->extent[i] = tg_reduce_extent(p->s, p->wide[i]);
  for (uint32_t i = 0; i < p->info.ranges; i++)
    for (uint32_t k = 0; k < p->nwide; k++)
      if (tg_extent(r[i])->op != TG_OP_CONST && tg_uses(p->s->j, tg_extent(r[i]), p->wide[k]))
        tg_fail_at(
            p->s->j, p->s->pos,
            "the extent of %s depends on the %s range %s of the same reduction, but its iterations run %s together",
            name_of(p->s, r[i]), tg_kind_name[tg_range_kind(p->wide[k])], name_of(p->s, p->wide[k]),
            name_of(p->s, r[i]));
}

static const tg_uop *range_of(state *s, const tg_uop *old, tg_kind kind) {
  const tg_uop *extent = tg_reduce_rewrite(s, tg_extent(old));
  return extent == tg_extent(old) && kind == tg_range_kind(old) ? old : tg_range_again(s->j, old, extent, kind);
}

static tg_kind wide_kind(const plan *p, uint32_t i) {
  return i < p->nupcast ? TG_UPCAST : p->s->device && tg_range_kind(p->wide[i]) != TG_LANE ? TG_LOCAL : TG_LANE;
}

const tg_uop *tg_reduce_register(plan *p, const char *name, tg_type type, uint32_t lanes, uint32_t nd,
                                 const uint32_t *dim) {
  const tg_uop *d[TG_REDUCE_RANGES];
  for (uint32_t i = 0; i < nd; i++) d[i] = tg_index(p->s->j, dim[i]);
  return tg_define(
      p->s->j,
      (tg_buffer){.name = name, .space = TG_SPACE_REG, .rank = (uint8_t)nd, .type = (uint8_t)type, .pos = p->s->pos},
      lanes, d, NULL, true);
}

/* Opens new loops over the wide ranges from index `from` on, innermost last. */
level *tg_reduce_open_wide(plan *p, level *l, uint32_t from, level **opened, const tg_uop **sub) {
  state *s = p->s;
  for (uint32_t i = from; i < p->nwide; i++) {
    const tg_range_info info = s->j->ranges.data[tg_range_ordinal(p->wide[i])];
    sub[i] = tg_range_new(s->j, info.name, tg_index(s->j, p->extent[i]), wide_kind(p, i), info.from, info.pos);
    opened[i] = tg_new(&s->j->env, level, 1);
    *opened[i] = (level){.outer = l, .range = sub[i], .depth = l->depth + 1};
    l = opened[i];
  }
  return l;
}

static void emit_init(plan *p, level *at) {
  state *s = p->s;
  level *opened[TG_REDUCE_RANGES];
  const tg_uop *sub[TG_REDUCE_RANGES];
  level *l = tg_reduce_open_wide(p, at, 0, opened, sub);
  for (uint32_t v = 0; v < p->info.values; v++) {
    const tg_uop *start = p->info.generic ? tg_reduce_rewrite(s, p->reduce->src[p->info.values + v])
                                          : tg_identity(s->j, p->info.op, p->acc[v]->type);
    if (v && p->first) start = p->first;
    tg_reduce_put(s, l, tg_store(s->j, p->acc[v], sub, start, NULL, 0));
  }
  for (uint32_t i = p->nwide; i-- > 0;) tg_reduce_close(s, opened[i]);
}

/* combined(left, right) of value v. */
const tg_uop *tg_reduce_combine(plan *p, uint32_t v, const tg_uop *const *left, const tg_uop *const *right) {
  tg_job *j = p->s->j;
  uint32_t nv = p->info.values;
  tg_assert(&j->env, left[v]->type == p->acc[v]->type && right[v]->type == p->acc[v]->type);
  if (!p->info.generic) return tg_op2(j, p->info.op, left[0], right[0]);
  const tg_uop *from[2 * TG_REDUCE_VALUES], *to[2 * TG_REDUCE_VALUES];
  for (uint32_t i = 0; i < nv; i++) {
    from[i] = tg_make(j, TG_OP_ARG, p->reduce->src[i]->type, 1, i, 0, NULL);
    from[nv + i] = tg_make(j, TG_OP_ARG, p->reduce->src[i]->type, 1, nv + i, 0, NULL);
    to[i] = left[i];
    to[nv + i] = right[i];
  }
  return tg_substitute(j, combined(p, v), 2 * nv, from, to);
}

static const tg_uop *updated(plan *p, uint32_t v, const tg_uop *const *old, const tg_uop *const *value) {
  if (!p->first) return tg_reduce_combine(p, v, old, value);
  return tg_op3(p->s->j, TG_OP_WHERE, tg_beats(p->s->j, p->largest, old[0], value[0]), value[v], old[v]);
}

/* All new values are computed before the first is stored: the last directly, the others through registers. */
static void emit_update(plan *p, level *l, const tg_uop *const *sub, const tg_uop *const *value) {
  state *s = p->s;
  uint32_t nv = p->info.values;
  const tg_uop *old[TG_REDUCE_VALUES] = {0}, *kept[TG_REDUCE_VALUES] = {0};
  for (uint32_t v = 0; v < nv; v++) old[v] = tg_load(s->j, p->acc[v], sub, NULL, NULL, 0);
  for (uint32_t v = 0; v + 1 < nv; v++) {
    kept[v] = tg_reduce_register(p, "next", p->acc[v]->type, 1, 0, NULL);
    tg_reduce_put(s, l, kept[v]);
    tg_reduce_put(s, l, tg_store(s->j, kept[v], NULL, updated(p, v, old, value), NULL, 0));
  }
  tg_reduce_put(s, l, tg_store(s->j, p->acc[nv - 1], sub, updated(p, nv - 1, old, value), NULL, 0));
  for (uint32_t v = 0; v + 1 < nv; v++)
    tg_reduce_put(s, l, tg_store(s->j, p->acc[v], sub, tg_load(s->j, kept[v], NULL, NULL, NULL, 0), NULL, 0));
}

/* Finds the prefetches in the reduction's values, but not those of nested reductions. */
static uint32_t find_prefetches(plan *p, const tg_uop **found, uint32_t max) {
  state *s = p->s;
  uint32_t n = 0;
  TG_VEC(const tg_uop *) stack = {0};
  s->epoch++;
  for (uint32_t v = 0; v < p->info.values; v++) tg_push(&s->j->env, &stack, p->reduce->src[v]);
  while (stack.n) {
    const tg_uop *u = stack.data[--stack.n];
    if (s->seen[u->id] == s->epoch || u->op == TG_OP_REDUCE || u->op == TG_OP_AFTER) continue;
    s->seen[u->id] = s->epoch;
    if (u->op == TG_OP_PREFETCH && n < max) found[n++] = u;
    for (uint32_t i = u->n; i-- > 0 && u->op != TG_OP_PREFETCH;) tg_push(&s->j->env, &stack, u->src[i]);
  }
  return n;
}

/* Emits the prefetches that use no range inside this one; in the innermost loop, the remaining ones, one per copy. */
static void put_prefetches(plan *p, level *l, uint32_t range, uint32_t n, const tg_uop **prefetch) {
  state *s = p->s;
  level *now = s->now;
  s->now = l;
  for (uint32_t i = 0; i < n; i++) {
    bool here = prefetch[i] != NULL;
    for (uint32_t k = range + 1; k < p->nseq && here; k++) here = !tg_uses(s->j, prefetch[i], p->sequential[k]);
    for (uint32_t k = 0; k < p->nwide && here && range < p->nseq; k++) here = !tg_uses(s->j, prefetch[i], p->wide[k]);
    if (!here) continue;
    tg_reduce_put(s, l, tg_reduce_rewrite(s, prefetch[i]));
    prefetch[i] = NULL;
  }
  s->now = now;
}

/* Opens a loop with one iteration if the reduction will be used, else none. */
static level *open_asked(state *s, level *outer, const tg_uop *needed) {
  tg_job *j = s->j;
  level *l = tg_new(&j->env, level, 1);
  tg_sweep w = tg_sweep_of(j, needed);
  const tg_uop **from = tg_new(&j->env, const tg_uop *, 2 * (size_t)w.n), **to = from + w.n;
  uint32_t n = 0;
  for (uint32_t i = 0; i < w.n; i++)
    if (w.u[i]->op == TG_OP_RANGE) from[n] = w.u[i], to[n++] = s->to[w.u[i]->id];
  const tg_uop *once = tg_substitute(j, needed, n, from, to);
  *l = (level){.outer = outer, .depth = outer->depth + 1, .lane = outer->lane, .open = true};
  l->range = tg_range_new(j, "once", once, TG_LOOP, UINT32_MAX, s->pos);
  return l;
}

/* ---- sums of one loop ---- */

enum { BESIDE = 8 };

static bool one_of_several(const state *s, const tg_uop *reduce) {
  const tg_range_info *ranges = s->j->ranges.data;
  return ranges[ranges[tg_range_ordinal(tg_reduce_ranges(reduce)[0])].from].several;
}

/* Do both bind ranges that were one loop, and are still split alike? */
static bool of_one_loop(const state *s, const tg_uop *a, const tg_uop *b) {
  tg_reduce_arg x = tg_reduce_info(a), y = tg_reduce_info(b);
  if (x.ranges != y.ranges || x.generic || y.generic || x.in_order || y.in_order) return false;
  for (uint32_t i = 0; i < x.ranges; i++) {
    const tg_uop *r = tg_reduce_ranges(a)[i], *q = tg_reduce_ranges(b)[i];
    const tg_range_info *u = &s->j->ranges.data[tg_range_ordinal(r)], *v = &s->j->ranges.data[tg_range_ordinal(q)];
    if (u->from != v->from || strcmp(u->name, v->name) || tg_range_kind(r) != tg_range_kind(q) ||
        tg_extent(r) != tg_extent(q))
      return false;
  }
  return true;
}

/* Can it be computed now: is all known that it needs, other sums among it, and memory as it is when it is used? */
static bool ready(state *s, const tg_uop *reduce) {
  TG_VEC(const tg_uop *) stack = {0};
  s->epoch++;
  tg_push(&s->j->env, &stack, reduce);
  while (stack.n) {
    const tg_uop *u = stack.data[--stack.n];
    if (s->seen[u->id] == s->epoch || u->op == TG_OP_DEFINE) continue;
    s->seen[u->id] = s->epoch;
    if (u->op == TG_OP_RANGE) {
      if (!binds(reduce, u) && !(s->to[u->id] && s->home[u->id]->open)) return false;
      continue;
    }
    if (known(s, u)) continue;
    if (u->op == TG_OP_REDUCE && u != reduce) return false;
    if (u->op == TG_OP_AFTER && !s->home[u->src[1]->id]) return false;
    for (uint32_t i = 0; i < (u->op == TG_OP_AFTER ? 1 : u->n); i++) tg_push(&s->j->env, &stack, u->src[i]);
  }
  return true;
}

/* Others that the list uses and that were one loop with this sum for the author: they will be one again. */
static uint32_t find_beside(state *s, const tg_uop *reduce, const level *home, const tg_uop **found) {
  uint32_t n = 0;
  for (uint32_t i = 0; i < home->rest_n; i++) {
    tg_sweep w = tg_sweep_of(s->j, home->rest[i]);
    for (uint32_t k = 0; k < w.n && n < BESIDE; k++) {
      const tg_uop *u = w.u[k], *needed = NULL;
      bool fresh = u->op == TG_OP_REDUCE && u != reduce && !known(s, u) && of_one_loop(s, reduce, u);
      for (uint32_t q = 0; q < n; q++) fresh &= found[q] != u;
      if (fresh && ready(s, u) && home_of(s, u, &needed) == home && !needed) found[n++] = u;
    }
  }
  return n;
}

/* The same loops, with accumulators of its own. */
static plan plan_beside(const plan *p, const tg_uop *reduce) {
  plan q = *p;
  q.reduce = reduce, q.info = tg_reduce_info(reduce);
  return q;
}

/* Its ranges are those of the loops that are open. */
static void bind_beside(state *s, const tg_uop *reduce, const tg_uop *beside) {
  for (uint32_t i = 0; i < tg_reduce_info(reduce).ranges; i++) {
    const tg_uop *r = tg_reduce_ranges(reduce)[i], *q = tg_reduce_ranges(beside)[i];
    s->to[q->id] = s->to[r->id], s->home[q->id] = s->home[r->id];
  }
}

static void define_accumulators(plan *p, level *base, const tg_uop *const *value) {
  for (uint32_t v = 0; v < p->info.values; v++) {
    if (value[v]->lanes > 1 && (p->nwide || p->thread || p->info.generic))
      tg_fail_at(p->s->j, p->s->pos, "contract has made this a sum of vectors, whose ranges can only be loops");
    p->acc[v] = tg_reduce_register(p, "acc", value[v]->type, value[v]->lanes, p->nwide, p->extent);
    tg_reduce_put(p->s, base, p->acc[v]);
  }
}

/* The results of plans with the same loops. Threads have one loop for all of them. */
static void finish_reduces(plan *const *p, uint32_t n, level *base, level *home) {
  state *s = p[0]->s;
  const tg_uop **result[1 + BESIDE];
  for (uint32_t i = 0; i < n; i++) {
    result[i] = tg_new(&s->j->env, const tg_uop *, p[i]->info.values);
    tg_reduce_results(p[i], base, result[i]);
    if (p[i]->thread) tg_reduce_store_part(p[i], base, result[i]);
  }
  if (p[0]->thread) tg_reduce_close(s, base);
  for (uint32_t i = 0; i < n; i++) {
    if (p[i]->thread) tg_reduce_combine_parts(p[i], result[i]);
    s->home[p[i]->reduce->id] = home;
    s->to[p[i]->reduce->id] = result[i][0];
    s->values[p[i]->reduce->id] = result[i];
  }
}

static void lower_reduce(state *s, const tg_uop *reduce) {
  plan p = {.s = s, .reduce = reduce, .info = tg_reduce_info(reduce)}, other[BESIDE], *all[1 + BESIDE] = {&p};
  const tg_uop *needed = NULL, *beside[BESIDE];
  tg_assert(&s->j->env, p.info.values <= TG_REDUCE_VALUES && p.info.ranges <= TG_REDUCE_RANGES);
  level *home = home_of(s, reduce, &needed), *base = home, *now = s->now, *l;
  tg_assert(&s->j->env, home->open);
  const tg_uop *value[TG_REDUCE_VALUES] = {0}, *term[BESIDE], *sub[TG_REDUCE_RANGES], *prefetch[MAX_PREFETCHES];
  uint32_t prefetches = s->ahead ? find_prefetches(&p, prefetch, MAX_PREFETCHES) : 0;
  sort_ranges(&p, home);
  p.first = tg_first_place(s->j, s->rules, reduce, p.nseq, p.sequential, &p.largest);
  if (p.thread) base = open_level(s, home, p.thread, range_of(s, p.thread, TG_THREAD));
  l = base;
  if (needed && !tg_is_const(needed, 1)) l = open_asked(s, l, needed);
  for (uint32_t i = 0; i < p.nseq; i++) {
    l = open_level(s, l, p.sequential[i], range_of(s, p.sequential[i], tg_range_kind(p.sequential[i])));
    put_prefetches(&p, l, i, prefetches, prefetch);
  }
  for (uint32_t i = 0; i < p.nwide; i++) {
    l = open_level(s, l, p.wide[i], range_of(s, p.wide[i], wide_kind(&p, i)));
    sub[i] = l->range;
  }
  put_prefetches(&p, l, p.nseq, prefetches, prefetch);
  s->now = l;
  for (uint32_t v = 0; v < p.info.values; v++) value[v] = tg_reduce_rewrite(s, reduce->src[v]);
  s->now = now;
  uint32_t others = !s->ahead && !needed && one_of_several(s, reduce) ? find_beside(s, reduce, home, beside) : 0;
  s->now = l;
  for (uint32_t i = 0; i < others; i++) {
    other[i] = plan_beside(&p, beside[i]), all[1 + i] = &other[i];
    bind_beside(s, reduce, beside[i]);
    term[i] = tg_reduce_rewrite(s, beside[i]->src[0]);
  }
  s->now = now;
  define_accumulators(&p, base, value);
  for (uint32_t i = 0; i < others; i++) define_accumulators(&other[i], base, &term[i]);
  emit_init(&p, base);
  for (uint32_t i = 0; i < others; i++) emit_init(&other[i], base);
  emit_update(&p, l, sub, value);
  for (uint32_t i = 0; i < others; i++) emit_update(&other[i], l, sub, &term[i]);
  for (; l != base; l = l->outer) tg_reduce_close(s, l);
  finish_reduces(all, 1 + others, base, home);
}

/* ---- values and statements ---- */

static void finish(state *s, const tg_uop *u) {
  if (u->op == TG_OP_AFTER) {
    s->to[u->id] = s->to[u->src[0]->id];
    s->home[u->id] = deeper(s->home[u->src[0]->id], s->home[u->src[1]->id]);
    return;
  }
  if (u->op == TG_OP_AHEAD) {
    s->to[u->id] = s->to[u->src[0]->id];
    s->home[u->id] = s->home[u->src[0]->id];
    return;
  }
  const tg_uop *few[32], **src = u->n <= TG_COUNT(few) ? few : tg_new(&s->j->env, const tg_uop *, u->n);
  bool same = true;
  level *h = NULL;
  for (uint32_t i = 0; i < u->n; i++) {
    src[i] = s->to[u->src[i]->id];
    same &= src[i] == u->src[i];
    h = deeper(h, s->home[u->src[i]->id]);
  }
  s->home[u->id] = h ? h : s->sink;
  tg_assert(&s->j->env, u->op != TG_OP_GET || (u->src[0]->op == TG_OP_REDUCE && s->values[u->src[0]->id] &&
                                               u->arg < tg_reduce_info(u->src[0]).values));
  s->to[u->id] = u->op == TG_OP_GET ? s->values[u->src[0]->id][u->arg] : same ? u : tg_with_sources(s->j, u, src);
}

const tg_uop *tg_reduce_rewrite(state *s, const tg_uop *root) {
  frames stack = {0};
  if (known(s, root)) return s->to[root->id];
  tg_push(&s->j->env, &stack, ((frame){root, 0}));
  while (stack.n) {
    frame *f = &stack.data[stack.n - 1];
    const tg_uop *u = f->u;
    if (u->op == TG_OP_REDUCE && !known(s, u)) lower_reduce(s, u);
    else if (u->op == TG_OP_RANGE && !known(s, u))
      tg_bug(&s->j->env, "pass reduce: range %s is used outside of its loop",
             s->j->ranges.data[tg_range_ordinal(u)].name);
    uint32_t n = u->op == TG_OP_AFTER || u->op == TG_OP_AHEAD ? 1 : u->n;
    while (!known(s, u) && f->next < n && known(s, u->src[f->next])) f->next++;
    if (!known(s, u) && f->next < n) {
      const tg_uop *next = u->src[f->next++];
      tg_push(&s->j->env, &stack, ((frame){next, 0}));
      continue;
    }
    if (!known(s, u)) finish(s, u);
    stack.n--;
  }
  return s->to[root->id];
}

static void process(state *s, level *l, const tg_uop *u) {
  tg_pos outer = s->pos, pos = tg_get_pos(s->j, u);
  if (pos.line) s->pos = pos;
  s->now = l;
  if (u->op == TG_OP_END) {
    level *body = open_level(s, l, u->src[0], range_of(s, u->src[0], tg_range_kind(u->src[0])));
    for (uint32_t i = 1; i < u->n; i++) {
      body->rest = u->src + i;
      body->rest_n = u->n - i;
      process(s, body, u->src[i]);
    }
    tg_reduce_close(s, body);
    s->now = l;
  } else {
    tg_reduce_put(s, l, tg_reduce_rewrite(s, u));
  }
  s->home[u->id] = l;
  s->pos = outer;
}

static bool has(tg_job *j, const tg_uop *sink, tg_op op) {
  tg_sweep w = tg_sweep_of(j, sink);
  for (uint32_t i = 0; i < w.n; i++)
    if (w.u[i]->op == op) return true;
  return false;
}

const tg_uop *tg_pass_reduce(tg_job *j, const tg_lowering *l, const tg_uop *sink) {
  bool ahead = has(j, sink, TG_OP_AHEAD);   /* also left by a sum of one term, which is no REDUCE any more */
  if (!ahead && !has(j, sink, TG_OP_REDUCE)) return sink;
  sink = tg_extrema_by_bits(j, l->target, tg_dot_products(j, l->target, sink));
  sink = tg_part_twins(j, ahead ? sink : tg_same_reductions(j, sink));
  uint32_t n = j->uops.n;
  level top = {.open = true, .runs = true};
  state s = {.j = j,
             .rules = l->rules,
             .to = tg_new(&j->env, const tg_uop *, n),
             .home = tg_new(&j->env, level *, n),
             .values = tg_new(&j->env, const tg_uop **, n),
             .seen = tg_new(&j->env, uint32_t, n),
             .n = n,
             .sink = &top,
             .device = l->target && l->target->lanes > 1,
             .ahead = ahead};
  for (uint32_t i = 0; i < sink->n; i++) {
    top.rest = sink->src + i;
    top.rest_n = sink->n - i;
    process(&s, &top, sink->src[i]);
  }
  return tg_versioned(j, tg_sink(j, top.out.n, top.out.data));
}
