/* SPDX-License-Identifier: MIT
 * Attributes of accesses and buffers: stream (non-temporal stores), atomic (updates of integers that may meet), place
 * (what a register buffer must become). */
#include "ranges/depend.h"
#include "schedule/opt.h"

static uint32_t buffer_named(tg_schedule *s, const tg_opt *o) {
  for (uint32_t i = 0; i < s->j->buffers.n; i++)
    if (!strcmp(s->j->buffers.data[i].name, o->names[0])) return i;
  tg_fail_at(s->j, o->pos, "no buffer '%s' here", o->names[0]);
}

typedef struct { uint32_t buffer, stores, loads; bool atomic; } streaming;

static const tg_uop *stream_store(tg_job *j, const tg_uop *old, const tg_uop *const *src, void *user) {
  streaming *x = user;
  if (old->op == TG_OP_LOAD && tg_buffer_ordinal(old->src[0]) == x->buffer) x->loads++;
  if (old->op != TG_OP_STORE || tg_buffer_ordinal(old->src[0]) != x->buffer) return NULL;
  x->stores++;
  x->atomic |= (old->arg & TG_ATOMIC) != 0;
  return tg_make(j, TG_OP_STORE, TG_VOID, 1, old->arg | TG_STREAM, old->n, src);
}

static void stream(tg_schedule *s, const tg_opt *o) {
  streaming x = {.buffer = buffer_named(s, o)};
  if (s->j->buffers.data[x.buffer].space != TG_SPACE_GLOBAL)
    tg_fail_at(s->j, o->pos, "stream %s: only stores to global memory go past the caches", o->names[0]);
  s->sink = tg_map(s->j, s->sink, stream_store, NULL, &x);
  if (!x.stores) tg_fail_at(s->j, o->pos, "stream %s: nothing stores to it", o->names[0]);
  if (x.loads) tg_fail_at(s->j, o->pos, "stream %s: the kernel reads it again", o->names[0]);
  if (x.atomic) tg_fail_at(s->j, o->pos, "stream %s: its stores are atomic", o->names[0]);
}

/* ---- atomic ---- */

typedef struct { uint32_t buffer, updates; } updating;

/* x[..] = x[..] + e, as an atomic update by e. Sums of integers are the same in any order. */
static const tg_uop *atomic_store(tg_job *j, const tg_uop *old, const tg_uop *const *src, void *user) {
  updating *x = user;
  if (old->op != TG_OP_STORE || tg_buffer_ordinal(old->src[0]) != x->buffer || old->arg & TG_ATOMIC ||
      tg_accumulates(j, old) != TG_OP_ADD)
    return NULL;
  uint32_t rank = tg_access_rank(old);
  const tg_uop *sum = src[1 + rank], *before = tg_stored(old);
  bool first = before->src[0]->op == TG_OP_LOAD && tg_buffer_ordinal(before->src[0]->src[0]) == x->buffer;
  const tg_uop *changed[20];
  if (old->n > TG_COUNT(changed)) return NULL;
  memcpy(changed, src, old->n * sizeof *src);
  changed[1 + rank] = sum->src[first];
  x->updates++;
  return tg_make(j, TG_OP_STORE, TG_VOID, 1, old->arg | TG_ATOMIC, old->n, changed);
}

static void atomic(tg_schedule *s, const tg_opt *o) {
  updating x = {.buffer = buffer_named(s, o)};
  const tg_buffer *b = &s->j->buffers.data[x.buffer];
  if (b->space == TG_SPACE_REG) tg_fail_at(s->j, o->pos, "atomic %s: it is registers", o->names[0]);
  if (!tg_is_int(b->type) || tg_type_bits(b->type) < 32)
    tg_fail_at(s->j, o->pos,
               "atomic %s: its elements are no integers of 32 or 64 bits: the order of updates could be seen",
               o->names[0]);
  s->sink = tg_map(s->j, s->sink, atomic_store, NULL, &x);
  if (!x.updates) tg_fail_at(s->j, o->pos, "atomic %s: no statement adds to it", o->names[0]);
}

static void place(tg_schedule *s, const tg_opt *o) {
  tg_buffer *b = &s->j->buffers.data[buffer_named(s, o)];
  if (b->space != TG_SPACE_REG) tg_fail_at(s->j, o->pos, "place %s: it is no register buffer", o->names[0]);
  b->demand = o->number[0] ? TG_PLACE_MEMORY : TG_PLACE_SSA;
}

void tg_opt_access(tg_schedule *s, const tg_opt *o) {
  if (o->word == TG_OPT_STREAM) stream(s, o);
  else if (o->word == TG_OPT_ATOMIC) atomic(s, o);
  else place(s, o);
}
