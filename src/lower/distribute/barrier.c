/* SPDX-License-Identifier: MIT
 * Pass distribute: inserts the fewest barriers that the order of the statements allows.
 *
 * If two threads access one element of LOCAL or global memory and one of the accesses is a store, there must be a
 * barrier on the way from the first access to the second: between two statements of a list, or across the back edge of
 * a loop. Each such pair is an interval of positions in the innermost statement list that holds both; a loop body is a
 * circle, since its end leads back to its start. The fewest positions that hit all intervals get a barrier. Pairs in
 * which each thread touches only its own elements, and pairs whose subscripts never agree, need none. Inner lists come
 * first, since their barriers may also serve the lists around them. */
#include "lower/distribute/distribute.h"

/* An access of shared memory. item: the statement where it counts; owner: the statement with the pars. landing: the
 * arrival, at WAIT `item`, of the asynchronous copies of `owner`. pinned: threads without an iteration are gated
 * off. */
typedef struct {
  const tg_uop *u;
  tg_group_item *item;
  const tg_group_item *owner;
  tg_group_digits digits;
  bool store, atomic, pinned, landing;
} access;
/* Positions from .. to (inclusive) in a list of n statements; position p is before statement p. In a loop body
 * position n is the back edge, and an interval with to < from wraps around it. */
typedef struct { uint32_t from, to; } arc;

typedef struct {
  tg_workgroup *w;
  TG_VEC(access) all;
  /* by range ordinal: a second range that stands for another iteration of it; NULL: not made yet */
  TG_VEC(const tg_uop *) twin;
  TG_VEC(arc) arcs;
} state;

/* ---- accesses ---- */

/* A thread sees its own asynchronous copies after its WAIT, those of other threads after a barrier behind that WAIT.
 * So to the analysis the copy writes at the WAIT. */
static void see_landing(state *s, tg_group_item *wait, const tg_group_item *at) {
  for (uint32_t i = 0; i < at->list.n; i++) see_landing(s, wait, at->list.data[i]);
  if (at->u && at->u->op == TG_OP_STORE && at->u->arg & TG_ASYNC)
    tg_push(&s->w->j->env, &s->all, ((access){at->u, wait, at, tg_digits_of(s->w, at->u), true, false, true, true}));
}

/* All threads count the turns of a loop, each for itself: what its extent loads is read where the loop stands. */
static void see_extent(state *s, tg_group_item *loop, const uint8_t *stored) {
  uint32_t n;
  const tg_uop **loads = tg_loads_of(s->w, loop->u, &n);
  for (uint32_t i = 0; i < n; i++)
    if (tg_in_memory(s->w, loads[i]->src[0]) && stored[tg_buffer_ordinal(loads[i]->src[0])])
      tg_push(&s->w->j->env, &s->all,
              ((access){loads[i], loop, loop, tg_digits_of(s->w, loads[i]), false, false, false, false}));
}

static void see(state *s, tg_group_item *at, const uint8_t *stored) {
  for (uint32_t i = 0; i < at->list.n; i++) see(s, at->list.data[i], stored);
  tg_workgroup *w = s->w;
  if (at->u && at->u->op == TG_OP_RANGE) see_extent(s, at, stored);
  if (at->u && at->u->op == TG_OP_WAIT && tg_wait_flying(at->u) != TG_ALL_FLYING) see_landing(s, at, w->body);
  if (!at->u || at->u->op != TG_OP_STORE) return;
  uint32_t n;
  const tg_uop **loads = tg_loads_of(w, at->u, &n);
  bool pinned = tg_in_memory(w, at->u->src[0]);
  for (uint32_t i = 0; i <= n; i++) {
    const tg_uop *u = i < n ? loads[i] : at->u;
    if (!tg_in_memory(w, u->src[0]) || !stored[tg_buffer_ordinal(u->src[0])]) continue;
    tg_push(&w->j->env, &s->all,
            ((access){u, at, at, tg_digits_of(w, u), i == n, i == n && u->arg & TG_ATOMIC,
                      pinned && !(i < n && tg_in_extent(w, u)), false}));
  }
}

static void see_stores(tg_workgroup *w, tg_group_item *at, uint8_t *stored) {
  for (uint32_t i = 0; i < at->list.n; i++) see_stores(w, at->list.data[i], stored);
  if (at->u && at->u->op == TG_OP_STORE) stored[tg_buffer_ordinal(at->u->src[0])] = 1;
}

/* ---- can they meet? ---- */

typedef struct { uint32_t dim; int64_t weight, extent, stride; } held;

static uint32_t held_by(state *s, const access *a, held *out) {   /* the digits of the access, sorted by stride */
  uint32_t n = 0;
  for (uint32_t i = 0; i < a->digits.n; i++) {
    const tg_group_digit *d = &a->digits.d[i];
    held h = {d->dim, d->weight, d->extent, s->w->par.data[d->par].stride * d->step};
    uint32_t at = n++;
    for (; at && out[at - 1].stride > h.stride; at--) out[at] = out[at - 1];
    out[at] = h;
  }
  return n;
}

/* Do only the threads t with (t / from) % (until / from) == 0 make the access? True if no par of the statement
 * covers these strides, so that a gate shuts out the other threads. */
static bool idle(state *s, const access *a, int64_t from, int64_t until) {
  for (uint32_t i = 0; i < a->owner->n; i++) {
    const tg_par *p = &s->w->par.data[a->owner->par[i]];
    if (p->stride < until && p->stride * p->extent > from) return false;
  }
  return a->pinned;
}

/* Do the subscripts of each access determine its thread, by the same digits in both? Then no element is touched by
 * two threads. Threads shut out by a gate do not count. */
static bool same_thread(state *s, const access *a, const access *b) {
  held p[TG_DIGITS], q[TG_DIGITS];
  uint32_t n = held_by(s, a, p);
  if (a->digits.irregular || b->digits.irregular || n != held_by(s, b, q)) return false;
  int64_t at = 1;
  for (uint32_t i = 0; i < n; i++) {
    if (p[i].dim != q[i].dim || p[i].weight != q[i].weight || p[i].extent != q[i].extent || p[i].stride != q[i].stride)
      return false;
    if (p[i].stride < at || (p[i].stride > at && !(idle(s, a, at, p[i].stride) && idle(s, b, at, p[i].stride))))
      return false;
    at = p[i].stride * p[i].extent;
  }
  return at == s->w->threads || (at < s->w->threads && idle(s, a, at, s->w->threads) && idle(s, b, at, s->w->threads));
}

static const tg_uop *twin_of(state *s, const tg_uop *range, const tg_uop *extent) {
  tg_job *j = s->w->j;
  uint32_t o = tg_range_ordinal(range);
  while (s->twin.n <= o) tg_push(&j->env, &s->twin, NULL);
  if (s->twin.data[o] && tg_extent(s->twin.data[o]) == extent) return s->twin.data[o];
  const tg_range_info info = j->ranges.data[o];
  return s->twin.data[o] = tg_range_new(j, info.name, extent, tg_range_kind(range), info.from, info.pos);
}

/* Is it a sequential loop around `list`, so that both accesses are in the same iteration of it? */
static bool shared_loop(const tg_group_item *list, const tg_uop *range) {
  for (; list && list->u; list = list->outer)
    if (list->u == range) return tg_range_kind(range) != TG_UPCAST && !list->parts;
  return false;
}

/* Is the range a par or a loop of the workgroup? If not it is a global range, which has one value in the workgroup. */
static bool bound_here(const state *s, const tg_uop *range) {
  uint32_t o = tg_range_ordinal(range);
  return (o < s->w->par_of.n && s->w->par_of.data[o]) || tg_range_kind(range) != TG_GLOBAL;
}

/* Rewrites a subscript of the second access in terms of the first's ranges: the second is `later` iterations of
 * `loop` after the first, in any thread. NULL: too many ranges. */
enum { ANY = -1 };   /* any number of iterations later, at least one */
static const tg_uop *elsewhere(state *s, const tg_uop *sub, const tg_group_item *list, const tg_uop *loop, int later) {
  tg_job *j = s->w->j;
  uint32_t n, count = 0;
  const tg_uop **order = tg_toposort(j, sub, &n), *from[64], *to[64];
  for (uint32_t i = 0; i < n && count < 64; i++) {   /* outer ranges first, since extents of inner ones use them */
    const tg_uop *r = order[i];
    if (r->op != TG_OP_RANGE || (r != loop && (shared_loop(list, r) || !bound_here(s, r)))) continue;
    from[count] = r;
    to[count] = r != loop || later == ANY ? twin_of(s, r, tg_substitute(j, tg_extent(r), count, from, to)) : r;
    if (r == loop)
      to[count] = tg_op2(j, TG_OP_ADD, later == ANY ? tg_op2(j, TG_OP_ADD, r, to[count]) : r,
                         tg_index(j, later == ANY ? 1 : later));
    count++;
  }
  return count < 64 ? tg_substitute(j, sub, count, from, to) : NULL;
}

static bool never_zero(tg_job *j, const tg_linear *f) {
  tg_bounds b = tg_linear_bounds(j, f);
  if (b.lo > 0 || b.hi < 0) return true;
  return b.multiple > 1 && tg_floor_mod(b.offset, b.multiple) != 0;
}

/* Does x use a range whose extent depends on another range? Numeric bounds are weak then, so the prover is tried. */
static bool is_triangular(tg_job *j, const tg_uop *x) {
  uint32_t n;
  const tg_uop **order = tg_toposort(j, x, &n);
  for (uint32_t i = 0; i < n; i++)
    if (order[i]->op == TG_OP_LOAD) return false;
  for (uint32_t i = 0; i < n; i++)
    if (order[i]->op == TG_OP_RANGE && tg_extent(order[i])->op != TG_OP_CONST && tg_extent(order[i])->op != TG_OP_PARAM)
      return true;
  return false;
}

/* Does x load memory that may change between two statements, or shuffle? Then the same node can have two values. */
static bool may_change(state *s, const tg_uop *x) {
  uint32_t n;
  if (!x || x->op == TG_OP_CONST || x->op == TG_OP_RANGE) return false;
  const tg_uop **order = tg_toposort(s->w->j, x, &n);
  for (uint32_t i = 0; i < n; i++)
    if (order[i]->op == TG_OP_SHUFFLE ||
        (order[i]->op == TG_OP_LOAD && tg_buffer_info(s->w->j, order[i]->src[0])->role != TG_ROLE_IN))
      return true;
  return false;
}

/* The u with x == u % by; NULL: none. */
static const tg_uop *slot_of(tg_job *j, const tg_uop *x, const tg_uop *by) {
  if (x->op == TG_OP_MOD) return x->src[1] == by ? x->src[0] : NULL;
  tg_bounds b = tg_bounds_of(j, x);
  return b.lo >= 0 && b.hi < by->arg ? x : NULL;
}

static bool differ(tg_job *j, const tg_facts *gates, const tg_uop *x, const tg_uop *y) {
  tg_linear f, g, d;
  tg_linear_of(j, x, &f);
  tg_linear_of(j, y, &g);
  if (!tg_linear_add(j, &f, &g, -1, &d)) return false;
  if (never_zero(j, &d)) return true;
  if ((gates || is_triangular(j, x) || is_triangular(j, y)) &&
      (tg_proves(j, gates, tg_op2(j, TG_OP_LT, x, y)) || tg_proves(j, gates, tg_op2(j, TG_OP_LT, y, x))))
    return true;
  const tg_uop *by = x->op == TG_OP_MOD ? x->src[1] : y->op == TG_OP_MOD ? y->src[1] : NULL;
  if (!by || by->op != TG_OP_CONST || by->arg <= 0 || !(x = slot_of(j, x, by)) || !(y = slot_of(j, y, by)))
    return false;
  tg_linear_of(j, x, &f);   /* such as (i + 1) % 2 and i % 2: the difference is no multiple of 2 */
  tg_linear_of(j, y, &g);
  if (!tg_linear_add(j, &f, &g, -1, &d)) return false;
  for (uint32_t i = 0; i < d.n; i++)
    if (d.coefficient[i] % by->arg) return false;
  return d.constant % by->arg != 0;
}

static bool may_meet(state *s, const access *a, const access *b, const tg_group_item *list, const tg_uop *loop,
                     int later) {
  if (tg_buffer_ordinal(a->u->src[0]) != tg_buffer_ordinal(b->u->src[0]) || (!a->store && !b->store) ||
      (a->atomic && b->atomic))
    return false;
  if (b->landing) return false;   /* earlier accesses are compared with the copy statement itself */
  if (same_thread(s, a, b)) return false;
  if (a->landing) return true;
  const tg_uop *here = may_change(s, tg_gate(a->u)) ? NULL : tg_gate(a->u);
  const tg_uop *there =
      tg_gate(b->u) && !may_change(s, tg_gate(b->u)) ? elsewhere(s, tg_gate(b->u), list, loop, later) : NULL;
  tg_facts first = {NULL, here}, both = {first.fact ? &first : NULL, there};
  const tg_facts *gates = there ? &both : first.fact ? &first : NULL;
  for (uint32_t d = 0; d < tg_access_rank(a->u); d++) {
    if (may_change(s, a->u->src[1 + d]) || may_change(s, b->u->src[1 + d])) continue;
    const tg_uop *y = elsewhere(s, b->u->src[1 + d], list, loop, later);
    if (y && a->u->src[1 + d]->lanes == 1 && y->lanes == 1 && differ(s->w->j, gates, a->u->src[1 + d], y)) return false;
  }
  return true;
}

/* ---- where barriers are ---- */

/* Does every execution of the item pass a barrier? */
static bool is_fence(state *s, const tg_group_item *item) {
  if (!item->u) return false;
  if (item->u->op == TG_OP_BARRIER) return true;
  if (item->u->op != TG_OP_RANGE || tg_bounds_of(s->w->j, tg_extent(item->u)).lo < 1) return false;
  for (uint32_t i = 0; i < item->list.n; i++)
    if (is_fence(s, item->list.data[i])) return true;
  return false;
}

/* Position in `list` of the statement that contains the item. *fenced: there is a barrier between the item and the
 * end of that statement (after), or its beginning (!after). */
static uint32_t child_of(state *s, const tg_group_item *list, const tg_group_item *item, bool after, bool *fenced) {
  *fenced = false;
  for (;; item = item->outer) {
    const tg_group_item *outer = item->outer;
    uint32_t at = 0;
    while (outer->list.data[at] != item) at++;
    if (outer == list) return at;
    for (uint32_t i = after ? at + 1 : 0; i < (after ? outer->list.n : at); i++)
      *fenced |= is_fence(s, outer->list.data[i]);
  }
}

static bool within(const tg_group_item *list, const tg_group_item *item) {
  while (item && item != list) item = item->outer;
  return item != NULL;
}

static bool fence_between(state *s, const tg_group_item *list, uint32_t from, uint32_t to) {
  for (uint32_t i = from; i < to; i++)
    if (is_fence(s, list->list.data[i])) return true;
  return false;
}

static void need(state *s, const tg_group_item *list, const access *a, const access *b, const tg_uop *loop) {
  bool left = false, right = false;
  uint32_t p = child_of(s, list, a->item, true, &left), q = child_of(s, list, b->item, false, &right), n = list->list.n;
  if (left || right) return;
  if (!loop) {
    if (!fence_between(s, list, p + 1, q)) tg_push(&s->w->j->env, &s->arcs, ((arc){p + 1, q}));
    return;
  }
  if (fence_between(s, list, p + 1, n) || fence_between(s, list, 0, q)) return;
  /* positions p+1 .. n and 1 .. q: wraps around the back edge */
  tg_push(&s->w->j->env, &s->arcs, p < q ? ((arc){1, n}) : ((arc){p + 1, q ? q : n}));
}

static bool meets(const arc *a, uint32_t place) {
  return a->from <= a->to ? a->from <= place && place <= a->to : place >= a->from || place <= a->to;
}

/* Greedy choice of the fewest positions that hit all intervals. first: position where the circle is cut, and which
 * is chosen; 0: a plain list, no circle. */
static uint32_t choose(const state *s, uint32_t n, uint32_t first, uint8_t *chosen) {
  uint32_t count = first != 0;
  memset(chosen, 0, n + 1);
  chosen[first] = first != 0;
  /* by ascending right end: an interval that no chosen position hits gets its last position */
  for (uint32_t step = 1; step <= n; step++) {
    uint32_t place = first ? (first + step - 1) % n + 1 : step;
    for (uint32_t i = 0; i < s->arcs.n; i++) {
      const arc *a = &s->arcs.data[i];
      bool met = false;
      if (a->to != place) continue;
      for (uint32_t k = 1; k <= n && !met; k++) met = chosen[k] && meets(a, k);
      if (met) continue;
      chosen[place] = 1;
      count++;
      break;
    }
  }
  return count;
}

/* Each interval has its barrier. */
static void check_arcs(const state *s, uint32_t n, const uint8_t *chosen) {
  for (uint32_t i = 0; i < s->arcs.n; i++) {
    bool met = false;
    for (uint32_t k = 1; k <= n && !met; k++) met = chosen[k] && meets(&s->arcs.data[i], k);
    tg_assert(&s->w->j->env, met);
  }
}

static void insert_barriers(state *s, tg_group_item *list, const uint8_t *chosen) {
  tg_job *j = s->w->j;
  uint32_t n = list->list.n, count = 0;
  tg_group_item **all = tg_new(&j->env, tg_group_item *, 2 * n + 1);
  for (uint32_t i = 0; i <= n; i++) {
    if (chosen[i]) all[count++] = tg_item_new(s->w, list, tg_barrier_new(j), (tg_pos){0});
    if (i < n) all[count++] = list->list.data[i];
  }
  list->list.n = 0;
  for (uint32_t i = 0; i < count; i++) tg_push(&j->env, &list->list, all[i]);
}

static void infer(state *s, tg_group_item *list) {
  bool again = list->u && tg_range_kind(list->u) != TG_UPCAST && !list->parts &&
               tg_bounds_of(s->w->j, tg_extent(list->u)).hi > 1;
  const tg_uop *loop = again ? list->u : NULL;
  for (uint32_t i = 0; i < list->list.n; i++)
    if (list->list.data[i]->list.n) infer(s, list->list.data[i]);
  s->arcs.n = 0;
  uint32_t n = list->list.n;
  bool unused;
  for (uint32_t i = 0; i < s->all.n; i++)
    for (uint32_t k = 0; k < s->all.n; k++) {
      const access *a = &s->all.data[i], *b = &s->all.data[k];
      if (a->item == list || b->item == list || !within(list, a->item) || !within(list, b->item)) continue;
      uint32_t p = child_of(s, list, a->item, true, &unused), q = child_of(s, list, b->item, false, &unused);
      if (p < q && may_meet(s, a, b, list, NULL, 0)) need(s, list, a, b, NULL);
      if (!loop) continue;
      if (may_meet(s, a, b, list->outer, loop, 1)) need(s, list, a, b, loop);
      else if (may_meet(s, a, b, list->outer, loop, ANY) && !fence_between(s, list, 0, n))
        tg_push(&s->w->j->env, &s->arcs, ((arc){1, n}));
    }
  if (!s->arcs.n) return;
  uint8_t *best = tg_new(&s->w->j->env, uint8_t, n + 2), *now = tg_new(&s->w->j->env, uint8_t, n + 2);
  uint32_t fewest = choose(s, n, loop ? n : 0, best);
  for (uint32_t first = n; loop && --first;) {
    uint32_t count = choose(s, n, first, now);
    if (count >= fewest) continue;
    fewest = count;
    memcpy(best, now, n + 1);
  }
  check_arcs(s, n, best);
  insert_barriers(s, list, best);
}

void tg_infer_barriers(tg_workgroup *w) {
  state s = {.w = w};
  uint8_t *stored = tg_new(&w->j->env, uint8_t, w->j->buffers.n + 1);
  see_stores(w, w->body, stored);
  see(&s, w->body, stored);
  if (s.all.n) infer(&s, w->body);
}

bool tg_never_meet(tg_workgroup *w, const tg_uop *a, const tg_uop *b, const tg_group_item *loop, int later,
                   const tg_uop *shifted) {
  state s = {.w = w};
  for (uint32_t d = 0; d < tg_access_rank(a); d++) {
    const tg_uop *x = a->src[1 + d], *y = b->src[1 + d];
    if (x->lanes > 1 || y->lanes > 1 || may_change(&s, x) || may_change(&s, y)) continue;
    y = elsewhere(&s, y, loop->outer, loop->u, later);
    if (y && shifted) y = tg_substitute(w->j, y, 1, &loop->u, &shifted);
    if (y && differ(w->j, NULL, x, y)) return true;
  }
  return false;
}
