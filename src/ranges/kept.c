/* SPDX-License-Identifier: MIT
 * Is the order of accesses kept? A program whose loops have kinds runs in another order than with all loops
 * sequential: tasks run in any order, iterations in lockstep run statement by statement. This is correct if every two
 * accesses of one element, one of them a store, come in the same order both ways.
 *
 * For accesses x and y, let p be the outermost loop around both in which their iterations differ, y in the later one.
 * Sequentially x comes first. By kinds:
 *
 *     p runs in order     x comes first too.
 *     p is tasks          there is no order: x and y must touch different elements.
 *     p is in lockstep    the outermost loop q inside p that is not in lockstep and whose iterations differ decides:
 *                           q runs in order: y comes first if its iteration of q is the earlier one; in that case x and
 *                           y must touch different elements;
 *                           q is tasks: there is no order;
 *                           there is no q: statements come in program order; instances of one statement have no order.
 *
 * The lockstep loops between p and q may be in any iterations. They are asked about together, since each alone may be
 * fine. Memory defined in a loop is different memory in each iteration. If the author gave kinds to loops, the caller
 * says what the order to keep is (tg_reference).
 *
 * Needs a plain or versioned program; changes nothing. Source: Allen and Kennedy, Optimizing Compilers for Modern
 * Architectures, chapters 2 and 5. */
#include "ranges/depend.h"
#include "ranges/kept.h"

typedef enum { IN_ORDER, LOCKSTEP, TASKS } way;

typedef struct {
  tg_touched *t;
  const tg_reference *ref;
  tg_reordered *out;
  uint8_t *ways;             /* by range ordinal: way, + 1; 0: not known yet */
} keeping;

static way way_of(keeping *k, const tg_uop *range) {
  uint8_t *w = &k->ways[tg_range_ordinal(range)];
  if (!*w) {
    tg_kind kind = tg_range_kind(range);
    way v = kind == TG_THREAD || kind == TG_GLOBAL                     ? TASKS
            : kind == TG_LANE || kind == TG_UPCAST || kind == TG_LOCAL ? LOCKSTEP
                                                                       : IN_ORDER;
    if (v != IN_ORDER && tg_bounds_of(k->t->job, tg_extent(range)).hi <= 1) v = IN_ORDER;   /* no two iterations */
    *w = (uint8_t)(v + 1);
  }
  return (way)(*w - 1);
}

static bool was_lockstep(const keeping *k, const tg_uop *range) {
  return k->ref && k->ref->lockstep && k->ref->lockstep(k->ref->user, range);
}

static bool separated(const keeping *k, const tg_uop *range, const tg_access *a, const tg_access *b, uint32_t n,
                      const tg_relation *rel) {
  return k->ref && k->ref->separates && k->ref->separates(k->ref->user, range, a, b, n, rel);
}

static bool apart(keeping *k, const tg_uop *range, const tg_access *a, const tg_access *b, uint32_t n,
                  const tg_relation *rel) {
  if (tg_accesses_apart(k->t, a, b, n, rel)) return true;
  if (k->out)
    *k->out = (tg_reordered){range, {a->depth, b->depth}, {a->loop, b->loop}, tg_conflict_text(k->t, a, b, n, rel)};
  return false;
}

/* The case that loop p is the outermost whose iterations differ and b is in the later one. rel[0..n): relations of
 * the loops around p. */
static bool kept_from(keeping *k, const tg_access *a, const tg_access *b, uint32_t p, uint32_t common, uint32_t n,
                      tg_relation *rel) {
  const tg_uop *range = a->loop[p];
  rel[n++] = (tg_relation){range, TG_LATER};
  if (way_of(k, range) == TASKS) return apart(k, range, a, b, n, rel);
  for (uint32_t q = p + 1; q < common; q++) {
    const tg_uop *inner = a->loop[q];
    way w = way_of(k, inner);
    if (w == LOCKSTEP) continue;
    rel[n] = (tg_relation){inner, TG_EARLIER};
    if (!separated(k, inner, a, b, n, rel)) {
      if (!apart(k, range, a, b, n + 1, rel)) return false;
      rel[n].how = TG_LATER;
      if (w == TASKS && !apart(k, range, a, b, n + 1, rel)) return false;
    }
    rel[n++].how = TG_SAME;
  }
  if (a->order < b->order) return true;
  return apart(k, range, a, b, n, rel);
}

static bool pair_kept(keeping *k, const tg_access *a, const tg_access *b) {
  uint32_t common = tg_common_loops(a, b), n = 0, private_to = k->t->define_depth[a->buffer];
  tg_relation rel[66];
  bool any = false;
  if (common > 64) return apart(k, a->loop[0], a, b, 0, rel);
  for (uint32_t p = private_to; p < common && !any; p++) any = way_of(k, a->loop[p]) != IN_ORDER;
  if (!any) return true;
  for (uint32_t p = 0; p < common; p++) {
    const tg_uop *range = a->loop[p];
    bool lockstep = was_lockstep(k, range);
    if (p >= private_to && !lockstep && way_of(k, range) != IN_ORDER && !separated(k, range, a, b, n, rel) &&
        !kept_from(k, a, b, p, common, n, rel))
      return false;
    if (!lockstep || p < private_to) rel[n++] = (tg_relation){range, TG_SAME};
  }
  return true;
}

/* Does a loop around it, within which its memory lies, not run in order? */
static bool concerned(keeping *k, const tg_access *a) {
  for (uint32_t p = k->t->define_depth[a->buffer]; p < a->depth; p++)
    if (way_of(k, a->loop[p]) != IN_ORDER) return true;
  return false;
}

/* Accesses are compared with those of the same buffer. */
static bool kept(keeping *k) {
  tg_touched *t = k->t;
  /* last access of each buffer, and the one before each access: index + 1; 0: none */
  uint32_t *last = tg_new(&t->job->env, uint32_t, t->job->buffers.n + 1),
           *before = tg_new(&t->job->env, uint32_t, t->all.n + 1);
  for (uint32_t i = 0; i < t->all.n; i++) {
    const tg_access *a = &t->all.data[i];
    if (!t->stored[a->buffer] || !concerned(k, a)) continue;
    before[i] = last[a->buffer];
    last[a->buffer] = i + 1;
    for (uint32_t m = i + 1; m; m = before[m - 1]) {
      const tg_access *b = &t->all.data[m - 1];
      if ((!a->store && !b->store) || (a->atomic && b->atomic)) continue;
      if (!pair_kept(k, a, b) || (a != b && !pair_kept(k, b, a))) return false;
    }
  }
  return true;
}

bool tg_order_kept(tg_job *j, const tg_uop *sink, const tg_reference *ref, tg_reordered *out) {
  keeping k = {tg_touched_by(j, sink, NULL), ref, out, tg_new(&j->env, uint8_t, j->ranges.n + 1)};
  bool yes = kept(&k);
  tg_polys_give(j, k.t->polys);
  return yes;
}
