/* SPDX-License-Identifier: MIT
 * Results of reductions that are kept. A program names a sum of a row outside of the loop over the row's elements; once
 * its names are gone (pass raise), the sum stands inside, and would be computed again for each element. What a
 * reduction gives depends on the ranges around it that it uses, and on memory: of one that reads nothing but inputs,
 * which no statement writes, the results for the last values of those ranges are kept. */
#include "interp/code.h"

enum { ENTRIES = 64 };

struct tg_remembered {
  uint32_t n, slot[TG_REMEMBERED_RANGES], width;
  bool held[ENTRIES];
  tg_value *entry;               /* the ranges' values, then the results */
};

typedef struct {
  tg_interp_compiler *c;
  TG_VEC(const tg_uop *) stack;
  const tg_uop *range[TG_REMEMBERED_RANGES];
  uint32_t n;
} walk;

static void meet(walk *w, const tg_uop *u) {
  if (w->c->walked[u->id] == w->c->walk) return;
  w->c->walked[u->id] = w->c->walk;
  tg_push(&w->c->j->env, &w->stack, u);
}

/* Is the value of the node, its sources given, the same whenever it is computed? Notes ranges and sources. */
static bool steady(walk *w, const tg_uop *u) {
  tg_job *j = w->c->j;
  switch (u->op) {
  case TG_OP_ARG: case TG_OP_SHUFFLE: case TG_OP_MATRIX: case TG_OP_AHEAD: return false;
  case TG_OP_DEFINE: case TG_OP_AFTER: return true;
  case TG_OP_RANGE:
    if (w->n == TG_REMEMBERED_RANGES) return false;
    w->range[w->n++] = u;
    return true;
  case TG_OP_LOAD: {
    const tg_buffer *b = tg_buffer_info(j, u->src[0]);
    if (b->space != TG_SPACE_GLOBAL || b->role != TG_ROLE_IN) return false;
    break;
  }
  default: break;
  }
  uint32_t from, end = tg_interp_sources(u, &from);
  for (uint32_t i = from; i < end; i++) meet(w, tg_interp_source(u, i));
  return true;
}

/* Is the range bound by the reduction, or by one inside of it? No reduction around it has a part in its value. */
static bool bound_inside(const walk *w, const tg_uop *range) {
  return w->c->range_epoch[tg_range_ordinal(range)] == w->c->epoch;
}

/* Of a reduction of the unit being compiled that uses no range of another one's around it; NULL: nothing is kept. */
tg_remembered *tg_remembered_of(tg_interp_compiler *c, const tg_uop *reduce, uint32_t width) {
  walk w = {.c = c};
  c->walk++;
  meet(&w, reduce);
  while (w.stack.n)
    if (!steady(&w, w.stack.data[--w.stack.n])) return NULL;
  tg_remembered *results = tg_new(&c->j->env, tg_remembered, 1);
  for (uint32_t i = 0; i < w.n; i++) {
    if (bound_inside(&w, w.range[i])) continue;
    results->slot[results->n++] = tg_interp_slot_of_range(c, tg_range_ordinal(w.range[i]));
  }
  results->width = width;
  return results;
}

/* Where the results for the ranges' present values stand; *held: they are there already. */
tg_value *tg_remembered_entry(tg_interpreter *m, tg_remembered *results, bool *held) {
  uint64_t hash = 0;
  if (!results->entry) results->entry = tg_new(&m->j->env, tg_value, ENTRIES * (results->n + results->width));
  for (uint32_t i = 0; i < results->n; i++)
    hash = (hash + (uint64_t)m->v[results->slot[i]].i) * UINT64_C(0x9e3779b97f4a7c15);   /* Knuth 3, 6.4: Fibonacci */
  uint32_t at = (uint32_t)(hash >> 58);
  tg_value *entry = results->entry + at * (results->n + results->width);
  *held = results->held[at];
  for (uint32_t i = 0; i < results->n; i++) {
    *held &= entry[i].i == m->v[results->slot[i]].i;
    entry[i] = m->v[results->slot[i]];
  }
  results->held[at] = true;
  return entry + results->n;
}
