/* SPDX-License-Identifier: MIT
 * Races: two iterations of a parallel loop that touch one element, one of them storing to it.
 *
 * `global` and `thread` iterations are independent: no two accesses of different iterations may touch one element.
 * `local`, `lane` and `upcast` iterations run in lockstep, one statement after another: only accesses within one
 * statement are checked. A sequential loop inside is in the same iteration for both, and its extent must not depend on
 * the parallel range. Atomic adds do not race with each other. Memory defined inside the loop is private. */
#include "dsl/text.h"
#include "ranges/depend.h"

static bool independent_kind(tg_kind k) { return k == TG_GLOBAL || k == TG_THREAD; }
static bool lockstep_kind(tg_kind k) { return k == TG_LOCAL || k == TG_LANE || k == TG_UPCAST; }

static void check_pair(tg_touched *t, const tg_access *a, const tg_access *b) {
  tg_job *j = t->job;
  const tg_uop *range = t->end->src[0];
  bool lockstep = lockstep_kind(tg_range_kind(range));
  tg_relation rel[66] = {{range, TG_LATER}};
  uint32_t n = 1;
  if (lockstep)
    for (uint32_t l = 1; l < a->depth && l < b->depth && a->loop[l] == b->loop[l]; l++)
      if (!lockstep_kind(tg_range_kind(a->loop[l])) && !independent_kind(tg_range_kind(a->loop[l])))
        rel[n++] = (tg_relation){a->loop[l], TG_SAME};
  if (tg_accesses_apart(t, a, b, n, rel)) return;
  const tg_access *at = b->store ? b : a;
  tg_fail_at(j, tg_get_pos(j, at->statement), "iterations of the %s range %s race: %s",
             tg_kind_name[tg_range_kind(range)], j->ranges.data[tg_range_ordinal(range)].name,
             tg_conflict_text(t, a, b, n, rel));
}

static void check_uniform(tg_job *j, const tg_uop *u, const tg_uop *range) {   /* as deep as loops nest */
  for (uint32_t i = 1; i < u->n; i++) {
    const tg_uop *v = u->src[i];
    if (v->op != TG_OP_END) continue;
    if (!lockstep_kind(tg_range_kind(v->src[0])) && !independent_kind(tg_range_kind(v->src[0])) &&
        tg_uses(j, tg_extent(v->src[0]), range))
      tg_fail_at(j, j->ranges.data[tg_range_ordinal(v->src[0])].pos,
                 "the extent of %s depends on %s, whose iterations run in lockstep: use the largest extent and guard "
                 "the statements with `if`",
                 j->ranges.data[tg_range_ordinal(v->src[0])].name, j->ranges.data[tg_range_ordinal(range)].name);
    check_uniform(j, v, range);
  }
}

static void check_loop(tg_job *j, const tg_uop *sink, const tg_uop *end) {
  const tg_uop *range = end->src[0];
  bool lockstep = lockstep_kind(tg_range_kind(range));
  if (!lockstep && !independent_kind(tg_range_kind(range))) return;
  if (lockstep) check_uniform(j, end, range);
  tg_touched *t = tg_touched_by(j, sink, end);
  for (uint32_t i = 0; i < t->all.n; i++) {
    const tg_access *a = &t->all.data[i];
    if (!t->stored[a->buffer] || t->inside[a->buffer]) continue;
    for (uint32_t k = 0; k < t->all.n; k++) {
      const tg_access *b = &t->all.data[k];
      if (b->buffer != a->buffer || (!a->store && !b->store)) continue;
      if (lockstep && a->statement != b->statement) continue;
      bool both_atomic = a->statement->op == TG_OP_STORE && b->statement->op == TG_OP_STORE &&
                         a->statement->arg & b->statement->arg & TG_ATOMIC;
      if (!both_atomic) check_pair(t, a, b);
    }
  }
  tg_polys_give(j, t->polys);
}

static void check_within(tg_job *j, const tg_uop *sink, const tg_uop *u) {   /* as deep as loops nest */
  if (u->op != TG_OP_END && u->op != TG_OP_SINK) return;
  if (u->op == TG_OP_END) check_loop(j, sink, u);
  for (uint32_t i = u->op == TG_OP_END; i < u->n; i++) check_within(j, sink, u->src[i]);
}

void tg_check_races(tg_job *j, const tg_uop *sink) { check_within(j, sink, sink); }
