/* SPDX-License-Identifier: MIT
 * Pass distribute: copies to LOCAL memory that are asynchronous.
 *
 * A ring is a LOCAL buffer of several slots that a loop fills for later iterations while it reads the slot of the
 * current one: the schedule word `stage` with a depth makes rings, and authors write them by hand. If the target can
 * copy from global to LOCAL memory without registers, the loop becomes
 *
 *     for i { wait(n); copies; reads }; wait(0)
 *
 * (without the last wait if every copy is read in some iteration). The wait closes the group of copies of the previous
 * iteration and lets the n youngest groups be in flight: n = distance - 1, where `distance` is the least number of
 * iterations from a copy to its read.
 *
 * The loop that fills the ring before the main loop is asynchronous too, if it makes one group per iteration in the
 * order of the reads (it then begins with commit()), or if the wait lets no group be in flight; else it copies through
 * registers. Several rings of one loop share a wait. Their groups are counted together, so a wait may cover more
 * copies than it need, never fewer. barrier.c inserts a barrier between a wait and the reads of other threads.
 *
 * The copy instruction takes 4, 8 or 16 aligned bytes only: index_copies.c decides which copies it can do, and makes
 * the others ordinary stores, to which waits do not matter. */
#include "lower/distribute/distribute.h"

enum { FARTHEST = 16 };

typedef struct { tg_group_item *item; const tg_uop *u; } touch;
typedef TG_VEC(touch) touches;
/* loop: reads the ring; first: the statement of its list before which the wait goes; flying: groups in flight after
 * that wait. settled: every copy arrives within the loop, so no wait(0) follows it */
typedef struct { tg_group_item *loop, *first; int64_t flying; bool settled; } ring;

typedef struct {
  tg_workgroup *w;
  uint32_t buffer;
  touches stores, loads;
  bool other;                  /* some use of the buffer is neither */
  TG_VEC(ring) rings;
} state;

static void see(state *s, tg_group_item *at) {
  tg_job *j = s->w->j;
  for (uint32_t i = 0; i < at->list.n; i++) see(s, at->list.data[i]);
  if (!at->u || at->u->op == TG_OP_DEFINE) return;
  if (at->u->op == TG_OP_STORE && tg_buffer_ordinal(at->u->src[0]) == s->buffer)
    tg_push(&j->env, &s->stores, ((touch){at, at->u}));
  uint32_t n;
  const tg_uop **loads = tg_loads_of(s->w, at->u, &n);
  for (uint32_t i = 0; i < n; i++) {
    if (tg_buffer_ordinal(loads[i]->src[0]) != s->buffer) continue;
    s->other |= at->u->op != TG_OP_STORE;
    tg_push(&j->env, &s->loads, ((touch){at, loads[i]}));
  }
}

static bool copies(const state *s, const tg_uop *store) {
  const tg_uop *v = tg_stored(store);
  if (store->arg & (TG_STREAM | TG_ATOMIC) || v->op != TG_OP_LOAD ||
      tg_buffer_info(s->w->j, v->src[0])->role != TG_ROLE_IN)
    return false;
  return !tg_gate(v) || (tg_alternative(v)->op == TG_OP_CONST && !tg_alternative(v)->arg);
}

static bool within(const tg_group_item *list, const tg_group_item *item) {
  while (item && item != list) item = item->outer;
  return item != NULL;
}

static uint32_t place_of(const tg_group_item *list, const tg_group_item *item) {
  uint32_t at = 0;
  while (item->outer != list) item = item->outer;
  while (list->list.data[at] != item) at++;
  return at;
}

static bool one_after_another(const tg_group_item *loop) {
  tg_kind k = loop->u ? tg_range_kind(loop->u) : TG_GLOBAL;
  return (k == TG_LOOP || k == TG_UNROLL || k == TG_REDUCE) && !loop->parts;
}

/* The innermost loop that contains all loads of the buffer and a store to it by another statement than the reader. */
static tg_group_item *loop_of(const state *s) {
  for (tg_group_item *l = s->loads.data[0].item->outer; l; l = l->outer) {
    bool all = true, fills = false;
    for (uint32_t i = 0; i < s->loads.n; i++) all &= within(l, s->loads.data[i].item);
    for (uint32_t i = 0; i < s->stores.n; i++) fills |= within(l, s->stores.data[i].item);
    if (all && fills) return l->u && one_after_another(l) ? l : NULL;
  }
  return NULL;
}

/* The least number of iterations between a copy and its read; 0: the same iteration, or not known. */
static int distance_of(const state *s, const tg_group_item *loop) {
  for (int k = 0; k <= FARTHEST; k++)
    for (uint32_t i = 0; i < s->stores.n; i++)
      for (uint32_t n = 0; n < s->loads.n && within(loop, s->stores.data[i].item); n++)
        if (!tg_never_meet(s->w, s->stores.data[i].u, s->loads.data[n].u, loop, k, NULL)) return k;
  return 0;
}

/* The loop before it that fills the ring, one slot per iteration in the order of the reads; NULL: none is known to. */
static tg_group_item *filled_by(const state *s, const tg_group_item *loop) {
  tg_group_item *p = NULL;
  for (uint32_t i = 0; i < s->stores.n; i++) {
    const touch *t = &s->stores.data[i];
    if (within(loop, t->item)) continue;
    tg_group_item *at = loop->outer->list.data[place_of(loop->outer, t->item)];
    if ((p && p != at) || at == t->item || !one_after_another(at) || tg_extent(at->u)->op != TG_OP_CONST ||
        tg_extent(at->u)->arg > FARTHEST)
      return NULL;
    p = at;
    for (int64_t k = 1; k < tg_extent(at->u)->arg; k++)
      for (uint32_t n = 0; n < s->loads.n; n++)
        if (!tg_never_meet(s->w, t->u, s->loads.data[n].u, loop, 0,
                           tg_op2(s->w->j, TG_OP_SUB, at->u, tg_index(s->w->j, k))))
          return NULL;
  }
  return p;
}

/* Do its copies arrive before the loop ends? at: the iteration by which they have arrived. */
static bool arrives(const state *s, const tg_uop *store, const tg_uop *at, const tg_group_item *loop) {
  tg_facts gate = {NULL, tg_gate(store)};
  return tg_proves(s->w->j, tg_gate(store) ? &gate : NULL, tg_op2(s->w->j, TG_OP_LT, at, tg_extent(loop->u)));
}

static void make_asynchronous(state *s, touch *t) {
  tg_job *j = s->w->j;
  const tg_uop *u = tg_make(j, TG_OP_STORE, TG_VOID, 1, t->u->arg | TG_ASYNC, t->u->n, t->u->src);
  tg_set_pos(j, u, t->item->pos);
  t->item->u = u;
}

static void note_ring(state *s, tg_group_item *loop, tg_group_item *first, int64_t flying, bool settled) {
  for (uint32_t i = 0; i < s->rings.n; i++) {
    ring *r = &s->rings.data[i];
    if (r->loop != loop) continue;
    if (place_of(loop, first) < place_of(loop, r->first)) r->first = first;
    if (flying < r->flying) r->flying = flying;
    r->settled &= settled;
    return;
  }
  tg_push(&s->w->j->env, &s->rings, ((ring){loop, first, flying, settled}));
}

static void try_buffer(state *s) {
  tg_workgroup *w = s->w;
  bool before = false, all = true;
  s->stores.n = s->loads.n = 0;
  s->other = false;
  see(s, w->body);
  tg_group_item *loop = s->loads.n && s->stores.n && !s->other ? loop_of(s) : NULL;
  if (!loop) return;
  uint32_t here = place_of(loop->outer, loop), first = UINT32_MAX;
  for (uint32_t i = 0; i < s->loads.n; i++) {
    uint32_t at = place_of(loop, s->loads.data[i].item);
    if (at < first) first = at;
  }
  for (uint32_t i = 0; i < s->stores.n; i++) {
    const touch *t = &s->stores.data[i];
    if (!within(loop, t->item)) {
      if (!within(loop->outer, t->item) || place_of(loop->outer, t->item) > here) return;
      before = true;
      all &= copies(s, t->u);
      continue;
    }
    if (!copies(s, t->u)) return;
    uint32_t at = place_of(loop, t->item);
    for (uint32_t n = 0; n < s->loads.n; n++)
      if (place_of(loop, s->loads.data[n].item) == at) return;
    if (at < first) first = at;
  }
  int64_t distance = distance_of(s, loop), flying = distance - 1;
  if (flying < 0) return;
  tg_group_item *fills = before && all ? filled_by(s, loop) : NULL;
  if (fills && tg_extent(fills->u)->arg - 1 < flying) flying = tg_extent(fills->u)->arg - 1;
  if (flying < 0) return;
  bool settled = true;
  for (uint32_t i = 0; i < s->stores.n; i++) {
    touch *t = &s->stores.data[i];
    bool inside = within(loop, t->item);
    if (!inside && !(all && (fills || !flying))) continue;
    settled &= arrives(s, t->u,
                       inside  ? tg_op2(w->j, TG_OP_ADD, loop->u, tg_index(w->j, distance))
                       : fills ? fills->u
                               : tg_index(w->j, 0),
                       loop);
    make_asynchronous(s, t);
  }
  bool closed = fills && fills->list.data[0]->u->op == TG_OP_WAIT;   /* the wait of another ring */
  if (fills && flying && !closed)
    tg_insert_before(w, fills->list.data[0], tg_item_new(w, fills, tg_wait_new(w->j, TG_ALL_FLYING), (tg_pos){0}));
  note_ring(s, loop, loop->list.data[first], flying, settled);
}

static void insert_waits(tg_workgroup *w, const ring *r) {
  tg_job *j = w->j;
  tg_assert(&j->env, r->flying >= 0 && r->first->outer == r->loop);
  const tg_uop *top = tg_wait_new(j, r->flying);
  tg_insert_before(w, r->first, tg_item_new(w, r->loop, top, (tg_pos){0}));
  if (r->settled) return;
  tg_group_item *outer = r->loop->outer, *last = tg_item_new(w, outer, tg_wait_new(j, 0), (tg_pos){0});
  uint32_t at = place_of(outer, r->loop) + 1;
  if (at < outer->list.n) tg_insert_before(w, outer->list.data[at], last);
  else tg_push(&j->env, &outer->list, last);
}

void tg_find_rings(tg_workgroup *w) {
  state s = {.w = w};
  if (!w->l->target->async_copy) return;
  for (uint32_t b = 0; b < w->j->buffers.n; b++) {
    const tg_buffer *info = &w->j->buffers.data[b];
    s.buffer = b;
    bool outside = false;
    for (uint32_t i = 0; i < w->outside->n; i++) outside |= tg_buffer_ordinal(w->outside->data[i]) == b;
    if (info->space == TG_SPACE_LOCAL && !outside && tg_type_bytes(info->type) > 0) try_buffer(&s);
  }
  for (uint32_t i = 0; i < s.rings.n; i++) insert_waits(w, &s.rings.data[i]);
}
