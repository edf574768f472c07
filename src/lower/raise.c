/* SPDX-License-Identifier: MIT
 * Pass raise: turns registers and loops that an author wrote into expressions and reductions, the form that schedules
 * work on.
 *
 *     loop k { x[i] = x[i] op e }               x[i] = x[i] op REDUCE(k: e)        (loops over i may be in between)
 *     loop k { x = x op e; y = y op f }         x = x op REDUCE(k: e); y = y op REDUCE(k: f)        k is one axis
 *     x[i] = v; .. x[i] = f(x[i])               x[i] = f(v)
 *     r[i] = v; .. use(r[e])                    use(v at i := e)                   r a register buffer stored once
 *
 * Needs a proved program; leaves a simplified one. Other forms stay as they are. A tile's value is moved to its use
 * only if it is not computed more often there, or is cheap; a scalar's value always, since invariant values are
 * hoisted later. */
#include "dsl/functions.h"
#include "ranges/depend.h"
#include "lower/sweep.h"
#include "lower/raise_touch.h"

/* NULL entry: a statement that was merged into another */
typedef struct { const tg_uop **data; uint32_t n, cap; } statements;

/* A single store in a perfect nest of loops, each range being one of its subscripts: it writes each element once. */
typedef struct {
  const tg_uop *loop[16], *store;
  uint32_t depth;
} simple;

static bool simple_nest(tg_job *j, const tg_uop *u, simple *s) {
  s->depth = 0;
  for (; u->op == TG_OP_END; u = u->src[1]) {
    if (u->n != 2 || s->depth == TG_COUNT(s->loop)) return false;
    for (uint32_t i = 0; i < s->depth; i++)
      if (tg_uses(j, tg_extent(u->src[0]), s->loop[i]->src[0])) return false;
    s->loop[s->depth++] = u;
  }
  if (u->op != TG_OP_STORE || u->arg & TG_ATOMIC) return false;
  s->store = u;
  for (uint32_t k = 0; k < s->depth; k++) {
    uint32_t plain = 0;
    for (uint32_t d = 0; d < tg_access_rank(u); d++) {
      if (u->src[1 + d] == s->loop[k]->src[0]) plain++;
      else if (tg_uses(j, u->src[1 + d], s->loop[k]->src[0])) return false;
    }
    if (plain != 1) return false;
  }
  return true;
}

static bool same_place(const tg_uop *load, const tg_uop *store) {
  return tg_define_of(load->src[0]) == tg_define_of(store->src[0]) &&
         !memcmp(load->src + 1, store->src + 1, tg_access_rank(store) * sizeof *store->src);
}

static const tg_uop *rebuild(tg_job *j, const simple *s, const tg_uop *store, const tg_uop *like) {
  tg_set_pos(j, store, tg_get_pos(j, like));
  for (uint32_t k = s->depth; k-- > 0;) {
    const tg_uop *end = tg_end(j, s->loop[k]->src[0], 1, &store);
    tg_set_pos(j, end, tg_get_pos(j, s->loop[k]));
    store = end;
  }
  return store;
}

/* ---- loops that accumulate ---- */

static bool reduces(tg_op op) {
  return op == TG_OP_ADD || op == TG_OP_MUL || op == TG_OP_MAX || op == TG_OP_MIN || op == TG_OP_AND || op == TG_OP_OR;
}

static const tg_uop *make_reduce(tg_job *j, tg_op op, const tg_uop *range, const tg_uop *bound, const tg_uop *value) {
  tg_reduce_arg a = {.op = (uint16_t)op, .values = 1, .ranges = 1};
  const tg_uop *ranges[8] = {bound};
  value = tg_substitute(j, value, 1, &range, ranges);
  if (value->op == TG_OP_REDUCE) { /* a sum over k of a sum over l is one sum over both */
    tg_reduce_arg inner = tg_reduce_info(value);
    if (inner.op == op && !inner.generic && !inner.in_order && inner.ranges < 8) {
      memcpy(ranges + 1, tg_reduce_ranges(value), inner.ranges * sizeof *ranges);
      a.ranges = (uint8_t)(inner.ranges + 1);
      value = value->src[0];
    }
  }
  return tg_reduce(j, a, &value, NULL, NULL, ranges);
}

/* A statement of a loop: self, an element that it stores, becomes self op term. */
typedef struct {
  simple nest;
  tg_op op;
  const tg_uop *self, *term, *gate;
} accumulation;

static bool accumulates(tg_job *j, const tg_uop *range, const tg_uop *statement, accumulation *a) {
  simple *s = &a->nest;
  tg_kind kind = tg_range_kind(range);
  if ((kind != TG_LOOP && kind != TG_REDUCE) || !simple_nest(j, statement, s)) return false;
  const tg_uop *store = s->store, *value = tg_stored(store);
  for (uint32_t k = 0; k < s->depth; k++)
    if (tg_uses(j, s->loop[k]->src[0], range)) return false;
  for (uint32_t d = 0; d < tg_access_rank(store); d++)
    if (tg_uses(j, store->src[1 + d], range)) return false;
  if (!reduces(value->op) || value->type == TG_INDEX ||
      (value->type != TG_F32 && value->type != TG_F64 && tg_is_float(value->type)))
    return false;
  a->op = value->op;
  a->self = NULL;
  for (uint32_t i = 0; i < 2 && !a->self; i++)
    if (value->src[i]->op == TG_OP_LOAD && same_place(value->src[i], store))
      a->self = value->src[i], a->term = value->src[1 - i];
  if (!a->self || tg_loads_from(j, a->term, tg_buffer_ordinal(store->src[0]))) return false;
  a->gate = tg_gate(store);
  if (tg_gate(a->self) && tg_gate(a->self) != a->gate) return false;
  if (a->gate && tg_uses(j, a->gate, range)) {
    if (tg_loads_from(j, a->gate, tg_buffer_ordinal(store->src[0]))) return false;
    a->term = tg_op3(j, TG_OP_WHERE, a->gate, a->term, tg_identity(j, value->op, value->type));
    a->gate = NULL;
    a->self = tg_load(j, a->self->src[0], a->self->src + 1, NULL, NULL, 0);
    /* the store may be out of bounds without its gate */
    if (tg_buffer_info(j, a->self->src[0])->space != TG_SPACE_REG) return false;
  }
  return true;
}

/* The statement as one that is done once. bound: the range that its sum binds in the loop's place. */
static const tg_uop *accumulated(tg_job *j, const accumulation *a, const tg_uop *range, const tg_uop *bound) {
  const tg_uop *store = a->nest.store, *sum = tg_op2(j, a->op, a->self, make_reduce(j, a->op, range, bound, a->term));
  return rebuild(j, &a->nest,
                 tg_store(j, store->src[0], store->src + 1, sum, a->gate, store->arg & ~(int64_t)TG_GATED), store);
}

const tg_uop *tg_raise_accumulation(tg_job *j, const tg_uop *end) {
  accumulation a;
  const tg_uop *range = end->src[0];
  if (end->n != 2 || !accumulates(j, range, end->src[1], &a)) return NULL;
  return accumulated(j, &a, range, tg_range_again(j, range, tg_extent(range), TG_REDUCE));
}

/* ---- a value into the next store to its place ---- */

typedef struct { const tg_uop *store, *value; bool other; } replacing;

static const tg_uop *replace_self(tg_job *j, const tg_uop *old, const tg_uop *const *src, void *user) {
  (void)src;
  replacing *r = user;
  if (old->op != TG_OP_LOAD || tg_buffer_ordinal(old->src[0]) != tg_buffer_ordinal(r->store->src[0])) return NULL;
  if (!same_place(old, r->store)) r->other = true;
  const tg_uop *gate = tg_gate(old);
  return gate && gate != tg_gate(r->store) ? tg_op3(j, TG_OP_WHERE, gate, r->value, tg_alternative(old)) : r->value;
}

/* x op v where v is the identity. */
static const tg_uop *fold_identity(tg_job *j, const tg_uop *v) {
  if (v->op >= TG_OP__COUNT || !reduces(v->op) || v->type == TG_INDEX) return v;
  for (uint32_t i = 0; i < 2; i++)
    if (v->src[i]->op == TG_OP_CONST && v->src[1 - i]->op == TG_OP_REDUCE &&
        v->src[i] == tg_identity(j, v->op, v->type))
      return v->src[1 - i];
  return v;
}

/* Does value contain a SHUFFLE over range? Then the range must stay a lane range. */
static bool shuffles_over(tg_job *j, const tg_uop *value, const tg_uop *range) {
  tg_sweep s = tg_sweep_of(j, value);
  for (uint32_t i = 0; i < s.n; i++)
    if (s.u[i]->op == TG_OP_SHUFFLE && s.u[i]->src[1] == range) return true;
  return false;
}

/* Is the loop over range inside a lane loop of the same nest? Then it cannot become a vector itself. */
static bool within_lanes(const simple *s, const tg_uop *range) {
  for (uint32_t k = 0; k < s->depth && s->loop[k]->src[0] != range; k++)
    if (tg_range_kind(s->loop[k]->src[0]) == TG_LANE) return true;
  return false;
}

static bool in_lockstep(const tg_uop *range) {
  tg_kind k = tg_range_kind(range);
  return k == TG_LANE || k == TG_LOCAL || k == TG_UPCAST;
}

/* Does the length of a sum depend on range? Then iterations of the range cannot run the sum in lockstep. */
static bool sums_along(tg_job *j, const tg_uop *value, const tg_uop *range) {
  tg_sweep s = tg_sweep_of(j, value);
  for (uint32_t i = 0; i < s.n; i++)
    for (uint32_t k = 0; s.u[i]->op == TG_OP_REDUCE && k < tg_reduce_info(s.u[i]).ranges; k++) {
      const tg_uop *extent = tg_extent(tg_reduce_ranges(s.u[i])[k]);
      if (extent->op != TG_OP_CONST && tg_uses(j, extent, range)) return true;
    }
  return false;
}

/* Renaming a value's ranges rebuilds it. A value into which this many statements were merged stays in memory
 * instead. */
enum { MOST_RENAMED = 64 };

static const tg_uop *merge(tg_job *j, const tg_uop *first, const tg_uop *second, uint32_t gone_in) {
  simple a, b;
  if (!simple_nest(j, first, &a) || !simple_nest(j, second, &b) || a.depth != b.depth) return NULL;
  if (tg_define_of(a.store->src[0]) != tg_define_of(b.store->src[0]) || tg_gate(a.store)) return NULL;
  if (tg_gate(b.store)) return NULL;
  const tg_uop *from[16], *to[16];
  uint32_t n = 0;
  bool renamed = false;
  for (uint32_t d = 0; d < tg_access_rank(a.store); d++) {
    const tg_uop *x = a.store->src[1 + d], *y = b.store->src[1 + d];
    bool mine = false;
    for (uint32_t k = 0; k < a.depth; k++) mine |= a.loop[k]->src[0] == x;
    if (!mine && x != y) return NULL;
    if (!mine) continue;
    bool theirs = false;
    for (uint32_t k = 0; k < b.depth; k++) theirs |= b.loop[k]->src[0] == y;
    if (!theirs || tg_extent(x) != tg_extent(y)) return NULL;
    bool vector = tg_range_kind(y) == TG_LANE && (!within_lanes(&b, y) || within_lanes(&a, x));
    if (!vector && tg_range_kind(x) == TG_LANE && shuffles_over(j, tg_stored(a.store), x)) return NULL;
    if (in_lockstep(y) && !in_lockstep(x) && sums_along(j, tg_stored(a.store), x)) return NULL;
    renamed |= x != y;
    from[n] = x;
    to[n++] = y;
  }
  if (n != a.depth || (renamed && gone_in >= MOST_RENAMED)) return NULL;
  replacing r = {b.store, tg_substitute(j, tg_stored(a.store), n, from, to), false};
  const tg_uop *value = tg_map(j, tg_stored(b.store), replace_self, NULL, &r);
  if (r.other) return NULL;
  return rebuild(
      j, &b,
      tg_store(j, b.store->src[0], b.store->src + 1, fold_identity(j, value), NULL, b.store->arg & ~(int64_t)TG_GATED),
      b.store);
}

/* ---- a register that is stored once ---- */

static bool cheap(tg_job *j, const tg_uop *value) {
  uint32_t n, ops = 0;
  const tg_uop **order = tg_toposort(j, value, &n);
  for (uint32_t i = 0; i < n; i++) {
    if (order[i]->op == TG_OP_REDUCE || order[i]->op == TG_OP_SQRT || tg_is_function(order[i]->op)) return false;
    ops += order[i]->type != TG_INDEX && order[i]->op != TG_OP_LOAD && order[i]->n > 0;
  }
  return ops <= 3;
}

/* Does each load of the buffer below u read every element at most once, over all iterations of the loops and
 * reductions around it? */
static bool used_once(tg_job *j, const tg_uop *u, uint32_t buffer, uint32_t *loads, const tg_uop **around,
                      uint32_t depth) {
  if (u->op == TG_OP_END) {
    if (depth == 64) return false;
    around[depth] = u->src[0];
    for (uint32_t i = 1; i < u->n; i++)
      if (!used_once(j, u->src[i], buffer, loads, around, depth + 1)) return false;
    return true;
  }
  uint32_t n;
  const tg_uop **order = tg_toposort(j, u, &n);
  for (uint32_t i = 0; i < n; i++) {
    const tg_uop *x = order[i];
    if (x->op == TG_OP_LOAD && tg_buffer_ordinal(x->src[0]) == buffer) {
      (*loads)++;
      for (uint32_t k = 0; k < depth; k++) {
        bool subscript = false;
        for (uint32_t d = 0; d < tg_access_rank(x); d++) subscript |= tg_uses(j, x->src[1 + d], around[k]);
        if (!subscript) return false;
      }
    }
    if (x->op != TG_OP_REDUCE || !tg_loads_from(j, x, buffer)) continue;
    /* the subscripts of a load inside must use every range of the reduction */
    for (uint32_t k = 0; k < tg_reduce_info(x).ranges; k++) {
      for (uint32_t q = 0; q < n; q++) {
        const tg_uop *load = order[q];
        if (load->op != TG_OP_LOAD || tg_buffer_ordinal(load->src[0]) != buffer) continue;
        bool subscript = false;
        for (uint32_t d = 0; d < tg_access_rank(load); d++)
          subscript |= tg_uses(j, load->src[1 + d], tg_reduce_ranges(x)[k]);
        if (!subscript) return false;
      }
    }
  }
  return *loads <= 1;
}

typedef struct { uint32_t buffer, n; const tg_uop *value, *from[16]; uint32_t at[16]; } forwarding;

typedef struct { const forwarding *f; const tg_uop *cond; } condition;

static bool uses_element(tg_job *j, const tg_uop *u, const forwarding *f) {
  bool uses = false;
  for (uint32_t i = 0; i < f->n; i++) uses |= tg_uses(j, u, f->from[i]);
  return uses;
}

/* A tile read under a condition: its value's loads get the condition as a gate if their subscripts depend on the
 * element, since without it they may be out of bounds. */
static const tg_uop *loaded_under(tg_job *j, const tg_uop *old, const tg_uop *const *src, void *user) {
  const condition *c = user;
  if (old->op != TG_OP_LOAD || !uses_element(j, old, c->f)) return NULL;
  const tg_uop *cond = c->cond, *gate = tg_gate(old),
               *zero = tg_is_float(old->type) ? tg_const_float(j, old->type, 0) : tg_const_int(j, old->type, 0);
  return tg_load(j, src[0], src + 1, tg_and(j, gate ? src[old->n - 2] : NULL, cond), gate ? src[old->n - 1] : zero,
                 old->arg & ~(int64_t)TG_GATED);
}

static const tg_uop *forward_load(tg_job *j, const tg_uop *old, const tg_uop *const *src, void *user) {
  const forwarding *f = user;
  const tg_uop *to[16];
  if (old->op != TG_OP_LOAD || tg_buffer_ordinal(old->src[0]) != f->buffer) return NULL;
  for (uint32_t i = 0; i < f->n; i++) to[i] = src[1 + f->at[i]];
  condition c = {f, tg_gate(old) ? src[old->n - 2] : NULL};
  const tg_uop *value =
      tg_substitute(j, c.cond ? tg_map(j, f->value, loaded_under, NULL, &c) : f->value, f->n, f->from, to);
  return c.cond ? tg_op3(j, TG_OP_WHERE, c.cond, value, src[old->n - 1]) : value;
}

static bool covers(const simple *s, forwarding *f) {
  const tg_uop *define = tg_define_of(s->store->src[0]);
  uint32_t rank = tg_access_rank(s->store);
  f->n = 0;
  for (uint32_t d = 0; d < rank; d++) {
    bool loop = false;
    for (uint32_t k = 0; k < s->depth; k++) loop |= s->loop[k]->src[0] == s->store->src[1 + d];
    if (!loop || tg_extent(s->store->src[1 + d]) != define->src[d]) return false;
    f->from[f->n] = s->store->src[1 + d];
    f->at[f->n++] = d;
  }
  return s->depth == rank;
}

/* Does the value contain a SHUFFLE while the tile is read under a condition? All lanes must take part in a SHUFFLE,
 * so nothing in it may be conditional. */
static bool exchanged_under(tg_job *j, const tg_uop *u, const forwarding *f) {
  tg_sweep v = tg_sweep_of(j, f->value);
  bool exchanges = false;
  for (uint32_t i = 0; i < v.n; i++) exchanges |= v.u[i]->op == TG_OP_SHUFFLE;
  if (!exchanges || !f->n) return false;
  tg_sweep s = tg_sweep_of(j, u);
  for (uint32_t i = 0; i < s.n; i++)
    if (s.u[i]->op == TG_OP_LOAD && tg_gate(s.u[i]) && tg_buffer_ordinal(s.u[i]->src[0]) == f->buffer) return true;
  return false;
}

/* Would a SHUFFLE in u then pick among values that load memory shared by lanes? */
static bool exchanged(tg_job *j, const tg_uop *u, const tg_uop *value, uint32_t buffer) {
  tg_sweep v = tg_sweep_of(j, value);
  bool shared = false;
  for (uint32_t i = 0; i < v.n; i++)
    if (v.u[i]->op == TG_OP_LOAD) {
      const tg_buffer *b = tg_buffer_info(j, v.u[i]->src[0]);
      shared |= b->space != TG_SPACE_REG && b->role != TG_ROLE_IN;
    }
  if (!shared) return false;
  tg_sweep s = tg_sweep_of(j, u);
  for (uint32_t i = 0; i < s.n; i++)
    if (s.u[i]->op == TG_OP_SHUFFLE && tg_loads_from(j, s.u[i]->src[0], buffer)) return true;
  return false;
}

/* May u differ between iterations in lockstep? */
static bool varies(tg_job *j, const tg_uop *u) {
  uint32_t n;
  const tg_uop **order = tg_toposort(j, u, &n);
  for (uint32_t i = 0; i < n; i++)
    if (order[i]->op == TG_OP_LOAD || (order[i]->op == TG_OP_RANGE && in_lockstep(order[i]))) return true;
  return false;
}

/* The tile's elements are sums. Would iterations in lockstep run sums of different lengths, because each reads
 * another element or under another condition? */
static bool uneven_in_lockstep(tg_job *j, const tg_uop *u, const forwarding *f) {
  tg_sweep s = tg_sweep_of(j, u);
  for (uint32_t d = 0; d < f->n; d++) {
    if (!sums_along(j, f->value, f->from[d])) continue;
    for (uint32_t i = 0; i < s.n; i++) {
      if (s.u[i]->op != TG_OP_LOAD || tg_buffer_ordinal(s.u[i]->src[0]) != f->buffer) continue;
      if (varies(j, s.u[i]->src[1 + f->at[d]]) || (tg_gate(s.u[i]) && varies(j, tg_gate(s.u[i])))) return true;
    }
  }
  return false;
}

/* all: by buffer, the loads and stores of all statements, kept up to date as they change. */
typedef struct { tg_job *job; tg_touching touching; tg_touches *all; bool changed; } raising;

/* May a register's value be moved to where u reads it? */
static bool moves_into(raising *r, const tg_uop *u, const forwarding *f) {
  tg_job *j = r->job;
  if (tg_touch_disturbs(&r->touching, u, f->value)) return false;
  if (!(tg_touch_set_of(&r->touching, u).loads & tg_touch_bit(f->buffer))) return true;
  return !exchanged(j, u, f->value, f->buffer) && !exchanged_under(j, u, f) && !uneven_in_lockstep(j, u, f);
}

static bool try_forward(raising *r, statements *list, uint32_t at) {
  tg_job *j = r->job;
  const tg_touches *all = r->all;
  simple s;
  if (list->data[at]->op == TG_OP_DEFINE || !simple_nest(j, list->data[at], &s) || tg_gate(s.store)) return false;
  const tg_buffer *b = tg_buffer_info(j, s.store->src[0]);
  forwarding f = {.buffer = tg_buffer_ordinal(s.store->src[0]), .value = tg_stored(s.store)};
  if (b->space != TG_SPACE_REG || b->demand || tg_define_of(s.store->src[0])->lanes > 1 || all[f.buffer].stores != 1)
    return false;
  for (uint32_t k = 0; k < s.depth; k++)
    if (tg_range_kind(s.loop[k]->src[0]) != TG_LOOP) return false;
  if (!covers(&s, &f) || tg_touches_of(&r->touching, f.value, f.buffer).loads) return false;
  uint32_t loads = 0, last = at, uses = 0;
  const tg_uop *around[64];
  bool once = true;
  for (uint32_t i = at + 1; i < list->n && loads < all[f.buffer].loads; i++) {
    uint32_t n = list->data[i] ? tg_touches_sum(&r->touching, list->data[i], f.buffer).loads : 0;
    if (!n) continue;
    loads += n;
    last = i;
    once = once && used_once(j, list->data[i], f.buffer, &uses, around, 0);
  }
  if (loads < all[f.buffer].loads || (f.n && !once && !cheap(j, f.value))) return false;
  for (uint32_t i = at + 1; i <= last; i++)
    if (list->data[i] && !moves_into(r, list->data[i], &f)) return false;
  for (uint32_t i = at + 1; i <= last; i++) {
    if (!list->data[i] || !(tg_touch_set_of(&r->touching, list->data[i]).loads & tg_touch_bit(f.buffer))) continue;
    tg_touches_add(&r->touching, list->data[i], r->all, -1);
    list->data[i] = tg_map(j, list->data[i], forward_load, NULL, &f);
    tg_touches_add(&r->touching, list->data[i], r->all, 1);
  }
  tg_touches_add(&r->touching, list->data[at], r->all, -1);
  list->data[at] = NULL;
  return true;
}

/* ---- lists ---- */

static void close_gaps(statements *list) {
  uint32_t kept = 0;
  for (uint32_t i = 0; i < list->n; i++)
    if (list->data[i]) list->data[kept++] = list->data[i];
  list->n = kept;
}

static const tg_uop *raise_statement(raising *r, const tg_uop *u);

/* Merges statement `at` into the next store to its element. gone_in: how many statements were merged into each. */
static void merge_next(raising *r, statements *list, uint32_t *gone_in, uint32_t at) {
  simple s;
  if (!simple_nest(r->job, list->data[at], &s)) return;
  uint32_t buffer = tg_buffer_ordinal(s.store->src[0]);
  for (uint32_t i = at + 1; i < list->n; i++) {
    tg_touches t = tg_touches_of(&r->touching, list->data[i], buffer);
    if (!t.loads && !t.stores) {
      if (tg_touch_disturbs(&r->touching, list->data[i], tg_stored(s.store))) return;
      continue;
    }
    const tg_uop *both = t.stores == 1 ? merge(r->job, list->data[at], list->data[i], gone_in[at]) : NULL;
    if (!both) return;
    list->data[i] = both;
    list->data[at] = NULL;
    gone_in[i] += gone_in[at] + 1;
    return;
  }
}

/* A loop of several accumulations, none of which touches what another one stores: a sum for each. Each binds a
 * range of its own, since a statement may use several of them; the ranges are one axis to words, and pass reduce
 * computes the sums in one loop again. With loops inside, what an iteration computes once would be computed in each of
 * theirs. */
static bool raise_beside(raising *r, const tg_uop *end, statements *out) {
  enum { MOST = 8 };
  tg_job *j = r->job;
  accumulation a[MOST];
  const tg_uop *range = end->src[0];
  const tg_range_info info = j->ranges.data[tg_range_ordinal(range)];
  uint32_t n = end->n - 1;
  if (n < 2 || n > MOST) return false;
  for (uint32_t i = 0; i < n; i++) {
    const tg_uop *store = end->src[1 + i];
    if (store->op != TG_OP_STORE || tg_accumulates(j, store) == TG_OP_CONST) return false;
    tg_touch_set set = tg_touch_set_of(&r->touching, store);
    for (uint32_t k = 0; k < n; k++)
      if (k != i && (set.loads | set.stores) & tg_touch_set_of(&r->touching, end->src[1 + k]).stores) return false;
    if (!accumulates(j, range, store, &a[i])) return false;
  }
  j->ranges.data[info.from].several = true;
  for (uint32_t i = 0; i < n; i++) {
    const tg_uop *bound = i ? tg_range_new(j, info.name, tg_extent(range), TG_REDUCE, info.from, info.pos)
                            : tg_range_again(j, range, tg_extent(range), TG_REDUCE);
    tg_push(&j->env, out, accumulated(j, &a[i], range, bound));
  }
  return true;
}

/* The first statement is merged into the second, the result into the third, and so on, so that a merged value is
 * moved without being walked again. */
static void raise_list(raising *r, const tg_uop *const *from, uint32_t n, statements *out) {
  for (uint32_t i = 0; i < n; i++) {
    const tg_uop *u = raise_statement(r, from[i]);
    if (u->op != TG_OP_END || tg_is_merge(u) || !raise_beside(r, u, out)) tg_push(&r->job->env, out, u);
  }
  uint32_t *gone_in = tg_new(&r->job->env, uint32_t, out->n + 1);
  for (uint32_t i = 0; i < out->n; i++) merge_next(r, out, gone_in, i);
  close_gaps(out);
}

static const tg_uop *end_of(tg_job *j, const tg_uop *old, const statements *list) {
  /* a range without statements has no list */
  if (list->n == old->n - 1 && (!list->n || !memcmp(list->data, old->src + 1, list->n * sizeof *list->data)))
    return old;
  const tg_uop *end = tg_end(j, old->src[0], list->n, list->data);
  tg_set_pos(j, end, tg_get_pos(j, old));
  return end;
}

static const tg_uop *raise_statement(raising *r, const tg_uop *u) {
  if (u->op != TG_OP_END || tg_is_merge(u)) return u;
  statements list = {0};
  raise_list(r, u->src + 1, u->n - 1, &list);
  u = end_of(r->job, u, &list);
  const tg_uop *reduce = tg_raise_accumulation(r->job, u);
  return reduce ? reduce : u;
}

/* From the last statement to the first, so that a value is at its uses before the values that it uses are moved. */
static void forward_list(raising *r, statements *list) {
  for (uint32_t i = list->n; i-- > 0;) {
    if (try_forward(r, list, i)) {
      r->changed = true;
      continue;
    }
    const tg_uop *u = list->data[i];
    if (u->op != TG_OP_END || tg_is_merge(u)) continue;
    statements inner = {0};
    for (uint32_t k = 1; k < u->n; k++) tg_push(&r->job->env, &inner, u->src[k]);
    forward_list(r, &inner);
    list->data[i] = end_of(r->job, u, &inner);
  }
  close_gaps(list);
}

static void drop_unused(tg_job *j, const tg_touches *all, statements *list) {
  uint32_t kept = 0;
  for (uint32_t i = 0; i < list->n; i++) {
    const tg_uop *u = list->data[i];
    if (u->op == TG_OP_DEFINE && tg_buffer_info(j, u)->space == TG_SPACE_REG && !all[tg_buffer_ordinal(u)].loads &&
        !all[tg_buffer_ordinal(u)].stores)
      continue;
    if (u->op == TG_OP_END && !tg_is_merge(u)) {
      statements inner = {0};
      for (uint32_t k = 1; k < u->n; k++) tg_push(&j->env, &inner, u->src[k]);
      drop_unused(j, all, &inner);
      u = end_of(j, u, &inner);
    }
    list->data[kept++] = u;
  }
  list->n = kept;
}

static bool has_registers(tg_job *j) {
  for (uint32_t i = 0; i < j->buffers.n; i++)
    if (j->buffers.data[i].space == TG_SPACE_REG) return true;
  return false;
}

const tg_uop *tg_pass_raise(tg_job *j, const tg_lowering *l, const tg_uop *sink) {
  statements list = {0};
  raising r = {.job = j, .touching = {.job = j}};
  const tg_uop *plain = tg_plain(j, sink);
  raise_list(&r, plain->src, plain->n, &list);
  if (has_registers(j)) {
    r.all = tg_new(&j->env, tg_touches, j->buffers.n);
    for (uint32_t i = 0; i < list.n; i++) tg_touches_add(&r.touching, list.data[i], r.all, 1);
    do {
      r.changed = false;
      forward_list(&r, &list);
    } while (r.changed);
    drop_unused(j, r.all, &list);
  }
  const tg_uop *raised = tg_loosen_gates(j, tg_sink(j, list.n, list.data));
  raised = tg_scale_later(j, l->target, raised);
  return tg_simplify(j, l->rules, raised == plain ? sink : tg_versioned(j, raised));
}
