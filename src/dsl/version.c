/* SPDX-License-Identifier: MIT
 * Versions of memory. In a program between passes, LOAD and STORE name the version of the buffer that stands where
 * they do: the DEFINE, or AFTER(version, effect) with the STORE, END or loop entry (RANGE) that made it. The plain
 * form drops them for a pass that moves statements; threading puts them back from the order of the statements.
 *
 * Invariant of every program: each LOAD of a statement is at the version current where the statement stands. (The
 * builder keeps a value that outlives its buffer's next store in a register of its own.) */
#include "dsl/uop.h"

static const tg_uop *plain_node(tg_job *j, const tg_uop *old, const tg_uop *const *src, void *user) {
  (void)j, (void)old, (void)user;
  return old->op == TG_OP_AFTER ? src[0] : NULL;
}

/* Effects are not entered through AFTER: the statement lists hold them already. */
static const tg_uop *plain_enter(tg_job *j, const tg_uop *old, void *user) {
  (void)j, (void)user;
  return old->op == TG_OP_AFTER ? tg_define_of(old) : NULL;
}

const tg_uop *tg_plain(tg_job *j, const tg_uop *sink) { return tg_map(j, sink, plain_node, plain_enter, NULL); }

typedef struct {
  const tg_uop **current;      /* by buffer ordinal */
  uint32_t n, depth;
  const tg_uop *open[64];      /* ranges of the loops around: their extents keep the versions of the loops' entry */
} thread_state;

static const tg_uop *thread_enter(tg_job *j, const tg_uop *old, void *user) {
  (void)j;
  const thread_state *s = user;
  if (old->op == TG_OP_RANGE)
    for (uint32_t i = 0; i < s->depth; i++)
      if (s->open[i] == old) return old;
  return old->op == TG_OP_DEFINE ? s->current[tg_buffer_ordinal(old)] : NULL;
}

static const tg_uop *after(tg_job *j, const tg_uop *version, const tg_uop *effect) {
  const tg_uop *src[2] = {version, effect};
  return tg_make(j, TG_OP_AFTER, version->type, version->lanes, 0, 2, src);
}

static void collect_stored(tg_job *j, const tg_uop *u, uint8_t *stored) {
  if (u->op == TG_OP_STORE) stored[tg_buffer_ordinal(u->src[0])] = 1;
  if (u->op == TG_OP_END || u->op == TG_OP_SINK)
    for (uint32_t i = u->op == TG_OP_END; i < u->n; i++) collect_stored(j, u->src[i], stored);
}

static const tg_uop *thread_statement(tg_job *j, thread_state *s, const tg_uop *u) {
  if (u->op == TG_OP_DEFINE) {
    const tg_uop **dims = tg_new(&j->env, const tg_uop *, u->n + 1); /* dims may hold loads of index inputs */
    for (uint32_t i = 0; i < u->n; i++) dims[i] = tg_map(j, u->src[i], NULL, thread_enter, s);
    const tg_uop *v = tg_make(j, TG_OP_DEFINE, u->type, u->lanes, u->arg, u->n, dims);
    return s->current[tg_buffer_ordinal(u)] = v;
  }
  if (u->op == TG_OP_STORE) {
    uint32_t b = tg_buffer_ordinal(u->src[0]);
    const tg_uop *v = tg_map(j, u, NULL, thread_enter, s);
    s->current[b] = after(j, s->current[b], v);
    return v;
  }
  if (u->op != TG_OP_END) return tg_map(j, u, NULL, thread_enter, s);
  uint8_t *stored = tg_new(&j->env, uint8_t, s->n);
  collect_stored(j, u, stored);
  const tg_uop **before = tg_new(&j->env, const tg_uop *, s->n), **list = tg_new(&j->env, const tg_uop *, u->n);
  const tg_uop *range = tg_map(j, u->src[0], NULL, thread_enter, s);
  memcpy(before, s->current, s->n * sizeof *before);
  for (uint32_t b = 0; b < s->n; b++)
    if (stored[b] && before[b]) s->current[b] = after(j, before[b], range);
  if (s->depth == TG_COUNT(s->open)) tg_fail(&j->env, TG_ELIMIT, "loops nested more than %zu deep", TG_COUNT(s->open));
  s->open[s->depth++] = range;
  for (uint32_t i = 1; i < u->n; i++) { /* the range may have changed: its extent reads memory */
    const tg_uop *body = range == u->src[0] ? u->src[i] : tg_substitute(j, u->src[i], 1, &u->src[0], &range);
    list[i - 1] = thread_statement(j, s, body);
  }
  s->depth--;
  const tg_uop *end = tg_end(j, range, u->n - 1, list);
  tg_set_pos(j, end, tg_get_pos(j, u));
  for (uint32_t b = 0; b < s->n; b++)
    if (stored[b] && before[b]) s->current[b] = after(j, before[b], end);
  return end;
}

const tg_uop *tg_versioned(tg_job *j, const tg_uop *plain) {
  thread_state s = {.current = tg_new(&j->env, const tg_uop *, j->buffers.n + 1), .n = j->buffers.n};
  const tg_uop **list = tg_new(&j->env, const tg_uop *, plain->n + 1);
  for (uint32_t i = 0; i < plain->n; i++) list[i] = thread_statement(j, &s, plain->src[i]);
  return tg_sink(j, plain->n, list);
}
