/* SPDX-License-Identifier: MIT
 * Versions of memory. In a program between passes, LOAD and STORE name the version of the buffer that stands where
 * they do: the DEFINE, or AFTER(version, effect) with the STORE, END or loop entry (RANGE) that made it, or the BARRIER
 * that stands between what threads wrote and what others read: it makes a version of all memory that threads share, as
 * a WAIT does, where copies arrive. The plain
 * form drops them for a pass that moves statements; threading puts them back from the order of the statements.
 *
 * Invariant of every program: each LOAD of a statement is at the version current where the statement stands. (The
 * builder keeps a value that outlives its buffer's next store in a register of its own.) */
#include <stdlib.h>
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

/* What stands for a node is kept while the buffers that it reads keep their version, so threading costs what
 * changes. */
/* reads: bits of the buffers' ordinals */
typedef struct { const tg_uop *to; uint64_t reads; uint32_t when; } threaded;

typedef struct {
  const tg_uop **current;      /* by buffer ordinal */
  uint32_t n, depth, clock;
  uint32_t changed[64];        /* when a buffer of that bit got a new version */
  threaded *known;             /* by id of the plain program */
  TG_VEC(const tg_uop *) stack;
  uint32_t *seen, loops;       /* by buffer ordinal: the loop that has found it stored to, last */
} thread_state;

typedef struct { uint32_t buffer; const tg_uop *before; } stored_buffer;   /* by a loop, and its version before that */
typedef TG_VEC(stored_buffer) stored_list;

static const tg_uop *thread_known(const thread_state *s, const tg_uop *u) {
  if (u->op == TG_OP_DEFINE) return s->current[tg_buffer_ordinal(u)] ? s->current[tg_buffer_ordinal(u)] : u;
  const threaded *k = &s->known[u->id];
  for (uint64_t m = k->reads; m; m &= m - 1)
    if (s->changed[__builtin_ctzll(m)] > k->when) return NULL;
  return k->to;
}

static uint64_t thread_reads(const thread_state *s, const tg_uop *u) {
  return u->op == TG_OP_DEFINE ? (uint64_t)1 << tg_buffer_ordinal(u) % 64 : s->known[u->id].reads;
}

static const tg_uop *thread_node(tg_job *j, thread_state *s, const tg_uop *root) {
  const tg_uop *found = thread_known(s, root);
  if (found) return found;
  uint32_t bottom = s->stack.n;
  tg_push(&j->env, &s->stack, root);
  while (s->stack.n > bottom) {
    const tg_uop *u = s->stack.data[s->stack.n - 1], *few[32],
                 **src = u->n <= TG_COUNT(few) ? few : tg_new(&j->env, const tg_uop *, u->n);
    const tg_uop *missing = NULL;
    bool same = true;
    uint64_t reads = 0;
    for (uint32_t i = 0; i < u->n && !missing; i++) {
      if (!(src[i] = thread_known(s, u->src[i]))) missing = u->src[i];
      same &= src[i] == u->src[i];
      reads |= thread_reads(s, u->src[i]);
    }
    if (missing) {
      tg_push(&j->env, &s->stack, missing);
      continue;
    }
    s->stack.n--;
    found = same ? u : tg_with_sources(j, u, src);
    if (!same && u->type == TG_VOID && tg_get_pos(j, u).line) tg_set_pos(j, found, tg_get_pos(j, u));
    s->known[u->id] = (threaded){found, reads, s->clock};
  }
  return found;
}

static void set_version(thread_state *s, uint32_t buffer, const tg_uop *version) {
  s->current[buffer] = version;
  s->changed[buffer % 64] = ++s->clock;
}

static const tg_uop *after(tg_job *j, const tg_uop *version, const tg_uop *effect) {
  const tg_uop *src[3] = {version, effect, tg_define_of(version)};
  return tg_make(j, TG_OP_AFTER, version->type, version->lanes, 0, 3, src);
}

bool tg_orders(const tg_job *j, uint32_t buffer) {
  const tg_buffer *b = &j->buffers.data[buffer];
  return b->space != TG_SPACE_REG && b->role != TG_ROLE_IN;
}

static void note_stored(tg_job *j, thread_state *s, uint32_t buffer, stored_list *list) {
  if (s->seen[buffer] == s->loops || !s->current[buffer]) return;   /* those defined inside have no version yet */
  s->seen[buffer] = s->loops;
  tg_push(&j->env, list, ((stored_buffer){buffer, s->current[buffer]}));
}

static void collect_stored(tg_job *j, thread_state *s, const tg_uop *u, stored_list *list) {
  if (u->op == TG_OP_BARRIER || u->op == TG_OP_WAIT)
    for (uint32_t b = 0; b < s->n; b++)
      if (tg_orders(j, b)) note_stored(j, s, b, list);
  if (u->op == TG_OP_STORE) note_stored(j, s, tg_buffer_ordinal(u->src[0]), list);
  if (u->op == TG_OP_END)
    for (uint32_t i = 1; i < u->n; i++) collect_stored(j, s, u->src[i], list);
}

static int by_ordinal(const void *a, const void *b) {
  uint32_t x = ((const stored_buffer *)a)->buffer, y = ((const stored_buffer *)b)->buffer;
  return (x > y) - (x < y);
}

static const tg_uop *thread_statement(tg_job *j, thread_state *s, const tg_uop *u) {
  if (u->op == TG_OP_DEFINE) {
    const tg_uop **dims = tg_new(&j->env, const tg_uop *, u->n + 1); /* dims may hold loads of index inputs */
    for (uint32_t i = 0; i < u->n; i++) dims[i] = thread_node(j, s, u->src[i]);
    set_version(s, tg_buffer_ordinal(u), tg_make(j, TG_OP_DEFINE, u->type, u->lanes, u->arg, u->n, dims));
    return s->current[tg_buffer_ordinal(u)];
  }
  if (u->op == TG_OP_STORE) {
    uint32_t b = tg_buffer_ordinal(u->src[0]);
    const tg_uop *v = thread_node(j, s, u);
    set_version(s, b, after(j, s->current[b], v));
    return v;
  }
  if (u->op == TG_OP_BARRIER || u->op == TG_OP_WAIT)
    for (uint32_t b = 0; b < s->n; b++)
      if (s->current[b] && tg_orders(j, b)) set_version(s, b, after(j, s->current[b], u));
  if (u->op != TG_OP_END) return thread_node(j, s, u);
  stored_list stored = {0};
  s->loops++;
  collect_stored(j, s, u, &stored);
  /* so that numbers of nodes depend on the program alone */
  if (stored.n) qsort(stored.data, stored.n, sizeof *stored.data, by_ordinal);
  const tg_uop **list = tg_new(&j->env, const tg_uop *, u->n), *range = thread_node(j, s, u->src[0]);
  for (uint32_t i = 0; i < stored.n; i++)
    set_version(s, stored.data[i].buffer, after(j, stored.data[i].before, range));
  if (s->depth++ == 64) tg_fail(&j->env, TG_ELIMIT, "loops nested more than 64 deep");
  s->known[u->src[0]->id].reads = 0; /* inside, the extent keeps the versions of the loop's entry */
  for (uint32_t i = 1; i < u->n; i++) list[i - 1] = thread_statement(j, s, u->src[i]);
  s->depth--;
  const tg_uop *end = tg_end(j, range, u->n - 1, list);
  tg_set_pos(j, end, tg_get_pos(j, u));
  for (uint32_t i = 0; i < stored.n; i++)
    set_version(s, stored.data[i].buffer, after(j, stored.data[i].before, end));
  return end;
}

const tg_uop *tg_versioned(tg_job *j, const tg_uop *plain) {
  thread_state s = {.current = tg_new(&j->env, const tg_uop *, j->buffers.n + 1),
                    .seen = tg_new(&j->env, uint32_t, j->buffers.n + 1),
                    .n = j->buffers.n,
                    .known = tg_new(&j->env, threaded, plain->id + 1)};
  const tg_uop **list = tg_new(&j->env, const tg_uop *, plain->n + 1);
  for (uint32_t i = 0; i < plain->n; i++) list[i] = thread_statement(j, &s, plain->src[i]);
  return tg_sink(j, plain->n, list);
}
