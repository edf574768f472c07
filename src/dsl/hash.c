/* SPDX-License-Identifier: MIT
 * Are two programs the same? Names do not count, nor do the numbers of ranges, buffers and nodes: the loops and buffers
 * of a
 * program are numbered in its order, the ranges of a reduction by the height of the nest of reductions below it, so
 * that equal
 * reductions are equal wherever they stand. Nodes are then made anew over those numbers, in a table that both programs
 * share. */
#include "dsl/text.h"

enum { UNSEEN = UINT32_MAX };
enum { REDUCE_KEPT = 0x3ffffff };   /* the bits of a REDUCE's arg that say what it does */

typedef struct {
  tg_job *j;
  uint32_t n;
  const tg_uop **order;
  uint32_t *height;              /* by id */
  uint32_t *range, *buffer;      /* by ordinal: the number, or UNSEEN */
  uint32_t ranges, buffers;
} numbering;

typedef struct { const tg_uop *u; uint32_t next; } frame;

/* Sources, and behind them the bounds that a buffer promises. */
static const tg_uop *below(const numbering *s, const tg_uop *u, uint32_t i) {
  if (i < u->n) return u->src[i];
  const tg_buffer *b = u->op == TG_OP_DEFINE ? &s->j->buffers.data[tg_buffer_ordinal(u)] : NULL;
  return !b || !b->lo || i > u->n + 1 ? NULL : i == u->n ? b->lo : b->hi;
}

/* All nodes, sources first, once each; roots are the sink and the requirements. */
static void put_in_order(numbering *s, const tg_uop *sink) {
  tg_job *j = s->j;
  TG_VEC(const tg_uop *) order = {0};
  TG_VEC(frame) stack = {0};
  uint8_t *seen = tg_new(&j->env, uint8_t, j->uops.n + 1);
  for (uint32_t r = 0; r <= j->requires.n; r++) {
    const tg_uop *root = r < j->requires.n ? j->requires.data[r] : sink;
    if (!seen[root->id]++) tg_push(&j->env, &stack, ((frame){root, 0}));
    while (stack.n) {
      frame *f = &stack.data[stack.n - 1];
      const tg_uop *u = below(s, f->u, f->next++);
      if (!u) {
        tg_push(&j->env, &order, f->u);
        stack.n--;
      } else if (!seen[u->id]++) tg_push(&j->env, &stack, ((frame){u, 0}));
    }
  }
  s->order = order.data;
  s->n = order.n;
}

static void number_statements(numbering *s, const tg_uop *u) {
  if (u->op == TG_OP_DEFINE && s->buffer[tg_buffer_ordinal(u)] == UNSEEN)
    s->buffer[tg_buffer_ordinal(u)] = s->buffers++;
  if (u->op == TG_OP_END && s->range[tg_range_ordinal(u->src[0])] == UNSEEN)
    s->range[tg_range_ordinal(u->src[0])] = s->ranges++;
  if (u->op == TG_OP_END || u->op == TG_OP_SINK)
    for (uint32_t i = u->op == TG_OP_END; i < u->n; i++) number_statements(s, u->src[i]);
}

/* Heights go through values only: what stands behind a version is another statement. */
static void number_reductions(numbering *s) {
  for (uint32_t i = 0; i < s->n; i++) {
    const tg_uop *u = s->order[i];
    if (u->op == TG_OP_AFTER || u->op == TG_OP_END || u->op == TG_OP_SINK || u->op == TG_OP_RANGE) continue;
    uint32_t h = 0;
    for (uint32_t k = 0; k < u->n; k++)
      if (s->height[u->src[k]->id] > h) h = s->height[u->src[k]->id];
    if (u->op == TG_OP_REDUCE) {
      uint32_t n = tg_reduce_info(u).ranges;
      h++;
      for (uint32_t k = 0; k < n; k++) {
        uint32_t o = tg_range_ordinal(tg_reduce_ranges(u)[k]);
        if (s->range[o] == UNSEEN) s->range[o] = 0x80000000u | h << 8 | k;
      }
    }
    s->height[u->id] = h;
  }
  for (uint32_t i = 0; i < s->n; i++) { /* what no statement binds: fragments */
    const tg_uop *u = s->order[i];
    if (u->op == TG_OP_RANGE && s->range[tg_range_ordinal(u)] == UNSEEN) s->range[tg_range_ordinal(u)] = s->ranges++;
    if (u->op == TG_OP_DEFINE && s->buffer[tg_buffer_ordinal(u)] == UNSEEN)
      s->buffer[tg_buffer_ordinal(u)] = s->buffers++;
  }
}

static numbering numbering_of(tg_job *j, const tg_uop *sink) {
  numbering s = {.j = j};
  put_in_order(&s, sink);
  s.height = tg_new(&j->env, uint32_t, j->uops.n + 1);
  s.range = tg_new(&j->env, uint32_t, j->ranges.n + 1);
  s.buffer = tg_new(&j->env, uint32_t, j->buffers.n + 1);
  memset(s.range, 0xff, sizeof *s.range * j->ranges.n);
  memset(s.buffer, 0xff, sizeof *s.buffer * j->buffers.n);
  number_statements(&s, sink);
  number_reductions(&s);
  return s;
}

/* What a node says beside its sources, on its own and through the tables. */
typedef struct { uint64_t a, b, c, d; } essence;

static essence essence_of(const numbering *s, const tg_uop *u) {
  essence e = {.a = (uint64_t)u->op | (uint64_t)u->type << 16 | (uint64_t)u->lanes << 32, .b = (uint64_t)u->arg};
  if (u->op == TG_OP_BARRIER) e.b = 0;
  else if (u->op == TG_OP_WAIT) e.b = (uint64_t)tg_wait_flying(u);
  else if (u->op == TG_OP_MATRIX) e.b = tg_hash(tg_matrix_name(s->j, u), strlen(tg_matrix_name(s->j, u)), 0);
  else if (u->op == TG_OP_RANGE) e.b = (uint64_t)s->range[tg_range_ordinal(u)] | (uint64_t)(u->arg >> 32) << 32;
  else if (u->op == TG_OP_REDUCE) e.b = (uint64_t)(u->arg & REDUCE_KEPT);
  else if (u->op == TG_OP_PARAM && u->arg < s->j->params.n) {
    const tg_param *p = &s->j->params.data[u->arg];
    e.c = (uint64_t)p->lo ^ (uint64_t)p->multiple << 48;
    e.d = (uint64_t)p->hi;
  } else if (u->op == TG_OP_DEFINE) {
    const tg_buffer *b = &s->j->buffers.data[tg_buffer_ordinal(u)];
    e.b = (uint64_t)s->buffer[tg_buffer_ordinal(u)] | (uint64_t)(u->arg >> 32) << 32;
    uint8_t place = b->space != TG_SPACE_REG ? TG_PLACE_NONE : b->place ? b->place : b->demand;
    e.c = (uint64_t)b->space | (uint64_t)b->role << 8 | (uint64_t)b->partial << 16 | (uint64_t)place << 24 |
          (uint64_t)b->rank << 32 | (uint64_t)(b->lo != NULL) << 40;
    e.d = b->align;
  }
  return e;
}

uint64_t tg_structural_hash(tg_job *j, const tg_uop *sink) {
  tg_mark mark = tg_mark_get(&j->env);
  numbering s = numbering_of(j, sink);
  uint64_t *hash = tg_new(&j->env, uint64_t, j->uops.n + 1), result = 0;
  for (uint32_t i = 0; i < s.n; i++) {
    const tg_uop *u = s.order[i], *v;
    essence e = essence_of(&s, u);
    uint64_t h = tg_hash(&e, sizeof e, 0);
    for (uint32_t k = 0; (v = below(&s, u, k)); k++) h = tg_mix(h, hash[v->id]);
    hash[u->id] = h;
  }
  for (uint32_t i = 0; i < j->requires.n; i++) result = tg_mix(result, hash[j->requires.data[i]->id]);
  result = tg_mix(result, hash[sink->id]);
  tg_mark_release(&j->env, mark);
  return result;
}

/* ---- the common table ---- */

typedef struct { essence e; uint32_t n, first; } entry;   /* sources: classes[first ..] */
typedef struct {
  tg_env *env;
  TG_VEC(entry) entries;
  TG_VEC(uint32_t) sources;
  uint32_t *slots, mask;
} table;

static uint32_t class_of(table *t, const entry *e, uint64_t h) {
  uint32_t at = (uint32_t)(h ^ h >> 32) & t->mask;
  for (; t->slots[at]; at = (at + 1) & t->mask) {
    const entry *x = &t->entries.data[t->slots[at] - 1];
    if (x->n == e->n && !memcmp(&x->e, &e->e, sizeof x->e) &&
        (!x->n || !memcmp(t->sources.data + x->first, t->sources.data + e->first, x->n * sizeof *t->sources.data))) {
      t->sources.n = e->first;
      return t->slots[at] - 1;
    }
  }
  tg_push(t->env, &t->entries, *e);
  t->slots[at] = t->entries.n;
  return t->entries.n - 1;
}

static uint32_t *classes_of(table *t, const numbering *s) {
  uint32_t *class = tg_new(t->env, uint32_t, s->j->uops.n + 1);
  for (uint32_t i = 0; i < s->n; i++) {
    const tg_uop *u = s->order[i], *v;
    entry e = {.e = essence_of(s, u), .first = t->sources.n};
    uint64_t h = tg_hash(&e.e, sizeof e.e, 0);
    for (; (v = below(s, u, e.n)); e.n++) {
      tg_push(t->env, &t->sources, class[v->id]);
      h = tg_mix(h, class[v->id]);
    }
    class[u->id] = class_of(t, &e, h);
  }
  return class;
}

bool tg_same_program(tg_job *ja, const tg_uop *a, tg_job *jb, const tg_uop *b) {
  if (ja->requires.n != jb->requires.n || ja->params.n != jb->params.n) return false;
  numbering sa = numbering_of(ja, a), sb = numbering_of(jb, b);
  table t = {.env = &ja->env, .mask = 15};
  while (t.mask < (sa.n + sb.n) * 2) t.mask = t.mask * 2 + 1;
  t.slots = tg_new(t.env, uint32_t, t.mask + 1);
  const uint32_t *ca = classes_of(&t, &sa), *cb = classes_of(&t, &sb);
  bool same = ca[a->id] == cb[b->id];
  for (uint32_t i = 0; i < ja->requires.n; i++) same &= ca[ja->requires.data[i]->id] == cb[jb->requires.data[i]->id];
  return same;
}
