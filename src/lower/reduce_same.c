/* SPDX-License-Identifier: MIT
 * Part of pass reduce: equal reductions become one node. A `let` names an expression, so schedule words that split or
 * copy the loops around its uses copy the reduction too, each copy with ranges of its own; and a rule that sorts
 * operands may sort those of two copies differently. Two reductions are equal if they agree after their ranges are
 * renamed by position, with the operands of commutative ops in any order. The first then replaces the others, and pass
 * reduce computes it once.
 *
 * They are compared by a 128-bit hash, not by building renamed nodes: later passes walk nodes in order of creation,
 * and would see these.
 *
 * Reductions that differ but share a range get ranges of their own. */
#include "lower/sweep.h"

enum { RANGES = 8 };

typedef struct { tg_hash128 reading; const tg_uop *u; } entry;

typedef struct {
  tg_job *j;
  /* by node id: hash of the node within the current reduction; for an INDEX sum, the sum of its terms' hashes, so
   * that their order does not matter */
  tg_hash128 *of;
  /* by range ordinal: number by which a range of the current or a nested reduction is hashed; valid if its epoch is
   * now */
  uint32_t *place, *epoch, now;
  uint32_t *met;                /* by id: when */
  TG_VEC(const tg_uop *) order;
  uint32_t *height;             /* by id of a reduction: depth of the nesting of reductions in it, itself included */
  const tg_uop **first;         /* by id of a reduction: the first equal one */
  const tg_uop **now_is;        /* by id of such a first one: its replacement */
  TG_VEC(entry) entries;
  uint32_t *slots, mask;        /* index + 1 into entries */
} same;

/* A version of memory is compared as a node, not by what made it. */
static bool is_leaf(const tg_uop *u) { return u->op == TG_OP_AFTER || u->op == TG_OP_DEFINE; }
static bool is_sum(const tg_uop *u) { return u->op == TG_OP_ADD && u->type == TG_INDEX && u->lanes == 1; }
static bool before(tg_hash128 a, tg_hash128 b) { return a.hi != b.hi ? a.hi < b.hi : a.lo < b.lo; }

/* The hash of a node from the hashes of its sources. */
static tg_hash128 reading(const same *s, const tg_uop *u) {
  if (is_leaf(u)) return tg_hash_wide(&u->id, sizeof u->id);
  uint64_t few[2 + 2 * 32], *w = u->n <= 32 ? few : tg_new(&s->j->env, uint64_t, 2 + 2 * (size_t)u->n);
  uint32_t o = u->op == TG_OP_RANGE ? tg_range_ordinal(u) : 0;
  bool bound = u->op == TG_OP_RANGE && s->epoch[o] == s->now;
  w[0] = (uint64_t)u->op | (uint64_t)u->type << 16 | (uint64_t)u->lanes << 32;
  w[1] = bound ? (uint64_t)tg_range_kind(u) << 32 | s->place[o] | (uint64_t)1 << 63 : (uint64_t)u->arg;
  bool any = u->n == 2 && tg_ops[u->op].flags & TG_OPF_C && before(s->of[u->src[1]->id], s->of[u->src[0]->id]);
  for (uint32_t i = 0; i < u->n; i++) {
    tg_hash128 h = s->of[u->src[any ? 1 - i : i]->id];
    w[2 + 2 * i] = h.lo;
    w[3 + 2 * i] = h.hi;
  }
  return tg_hash_wide(w, (2 + 2 * (size_t)u->n) * sizeof *w);
}

static tg_hash128 term(const same *s, const tg_uop *u) {
  tg_hash128 h = s->of[u->id];
  return is_sum(u) ? h : tg_hash_wide(&h, sizeof h);
}

static tg_hash128 read_node(const same *s, const tg_uop *u) {
  if (!is_sum(u)) return reading(s, u);
  tg_hash128 a = term(s, u->src[0]), b = term(s, u->src[1]);
  return (tg_hash128){a.lo + b.lo, a.hi + b.hi};
}

typedef struct { const tg_uop *u; uint32_t next; } frame;

/* Lists the nodes of the reduction, sources first; versions of memory are leaves. */
static void list_nodes(same *s, const tg_uop *root) {
  TG_VEC(frame) stack = {0};
  s->order.n = 0;
  s->now++;
  s->met[root->id] = s->now;
  tg_push(&s->j->env, &stack, ((frame){root, 0}));
  while (stack.n) {
    frame *f = &stack.data[stack.n - 1];
    const tg_uop *v = !is_leaf(f->u) && f->next < f->u->n ? f->u->src[f->next++] : NULL;
    if (!v) {
      tg_push(&s->j->env, &s->order, f->u);
      stack.n--;
    } else if (s->met[v->id] != s->now) {
      s->met[v->id] = s->now;
      tg_push(&s->j->env, &stack, ((frame){v, 0}));
    }
  }
}

/* Numbers the ranges by the nesting depth of the reduction that binds them and by their position in it. False: two
 * reductions bind one range, or there are too many ranges. */
static bool call_ranges(same *s) {
  for (uint32_t i = 0; i < s->order.n; i++) {
    const tg_uop *u = s->order.data[i];
    if (u->op != TG_OP_REDUCE) continue;
    uint32_t h = s->height[u->id], ranges = tg_reduce_info(u).ranges;
    if (ranges > RANGES) return false;
    for (uint32_t k = 0; k < ranges; k++) {
      uint32_t o = tg_range_ordinal(tg_reduce_ranges(u)[k]);
      if (s->epoch[o] == s->now && s->place[o] != h * RANGES + k) return false;
      s->epoch[o] = s->now;
      s->place[o] = h * RANGES + k;
    }
  }
  return true;
}

/* The first reduction equal to this one; itself if there is none yet. */
static const tg_uop *find(same *s, const tg_uop *reduce) {
  uint32_t h = 1;
  list_nodes(s, reduce);
  for (uint32_t i = 0; i < s->order.n; i++)
    if (s->order.data[i] != reduce && s->height[s->order.data[i]->id] >= h) h = s->height[s->order.data[i]->id] + 1;
  s->height[reduce->id] = h;
  if (!call_ranges(s)) return reduce;
  for (uint32_t i = 0; i < s->order.n; i++) s->of[s->order.data[i]->id] = read_node(s, s->order.data[i]);
  tg_hash128 r = s->of[reduce->id];
  uint32_t at = (uint32_t)r.lo & s->mask;
  for (; s->slots[at]; at = (at + 1) & s->mask) {
    const entry *e = &s->entries.data[s->slots[at] - 1];
    bool alike = e->reading.lo == r.lo && e->reading.hi == r.hi;
    if (alike) return e->u;
  }
  tg_push(&s->j->env, &s->entries, ((entry){r, reduce}));
  s->slots[at] = s->entries.n;
  return reduce;
}

static const tg_uop *replace(tg_job *j, const tg_uop *old, const tg_uop *const *src, void *user) {
  same *s = user;
  if (old->op != TG_OP_REDUCE) return NULL;
  if (s->first[old->id] != old) return s->now_is[s->first[old->id]->id];
  return s->now_is[old->id] = tg_with_sources(j, old, src);
}

const tg_uop *tg_same_reductions(tg_job *j, const tg_uop *sink) {
  uint32_t n, reductions = 0, nodes = j->uops.n, ranges = j->ranges.n;
  bool any = false;
  const tg_uop **order = tg_toposort(j, sink, &n);
  for (uint32_t i = 0; i < n; i++) reductions += order[i]->op == TG_OP_REDUCE;
  if (reductions < 2) return sink;
  same s = {.j = j, .mask = 15};
  s.of = tg_new(&j->env, tg_hash128, nodes);
  s.met = tg_new(&j->env, uint32_t, nodes);
  s.height = tg_new(&j->env, uint32_t, nodes);
  s.first = tg_new(&j->env, const tg_uop *, nodes);
  s.now_is = tg_new(&j->env, const tg_uop *, nodes);
  s.place = tg_new(&j->env, uint32_t, ranges);
  s.epoch = tg_new(&j->env, uint32_t, ranges);
  while (s.mask < 2 * reductions) s.mask = 2 * s.mask + 1;
  s.slots = tg_new(&j->env, uint32_t, s.mask + 1);
  for (uint32_t i = 0; i < n; i++)
    if (order[i]->op == TG_OP_REDUCE) any |= (s.first[order[i]->id] = find(&s, order[i])) != order[i];
  return any ? tg_map(j, sink, replace, NULL, &s) : sink;
}

/* ---- ranges of their own ---- */

/* A schedule word may change a reduction in one place and not its copy elsewhere. Both then bind the same range and
 * would become two loops over it, so the second gets new ranges. */
typedef struct { const tg_uop **owner; bool shared; } ownership;

static bool claims(ownership *o, const tg_uop *reduce, const tg_uop *range) {
  const tg_uop **owner = &o->owner[tg_range_ordinal(range)];
  if (!*owner) *owner = reduce;
  return *owner == reduce;
}

static const tg_uop *own_ranges(tg_job *j, const tg_uop *old, const tg_uop *const *src, void *user) {
  ownership *o = user;
  if (old->op != TG_OP_REDUCE) return NULL;
  uint32_t n = tg_reduce_info(old).ranges, body = old->n - n, taken = 0;
  const tg_uop *from[RANGES], *to[RANGES], *fresh[3 * 8 + 8];
  memcpy(fresh, src, old->n * sizeof *src);
  for (uint32_t i = 0; i < n; i++) {
    const tg_uop *r = fresh[body + i], *extent = tg_substitute(j, tg_extent(r), taken, from, to);
    if (!claims(o, old, tg_reduce_ranges(old)[i])) {
      const tg_range_info info = j->ranges.data[tg_range_ordinal(r)];
      from[taken] = r;
      fresh[body + i] = to[taken++] = tg_range_new(j, info.name, extent, tg_range_kind(r), info.from, info.pos);
    } else if (extent != tg_extent(r)) {
      from[taken] = r;
      fresh[body + i] = to[taken++] = tg_range_again(j, r, extent, tg_range_kind(r));
    }
  }
  for (uint32_t i = 0; taken && i < body; i++) fresh[i] = tg_substitute(j, fresh[i], taken, from, to);
  return taken ? tg_with_sources(j, old, fresh) : NULL;
}

const tg_uop *tg_part_twins(tg_job *j, const tg_uop *sink) {
  ownership o = {tg_new(&j->env, const tg_uop *, j->ranges.n + 1), false};
  uint32_t n;
  const tg_uop **order = tg_toposort(j, sink, &n);
  for (uint32_t i = 0; i < n; i++)
    for (uint32_t k = 0; order[i]->op == TG_OP_REDUCE && k < tg_reduce_info(order[i]).ranges; k++)
      o.shared |= !claims(&o, order[i], tg_reduce_ranges(order[i])[k]);
  return o.shared ? tg_map(j, sink, own_ranges, NULL, &o) : sink;
}
