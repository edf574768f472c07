/* SPDX-License-Identifier: MIT
 * The rewrites that the words of a schedule are made of: replacing a loop, substituting a range under a gate, copying
 * statements, and the small arithmetic of extents. All of them take and leave plain programs. */
#include "schedule/opt.h"

const tg_uop *tg_zero(tg_job *j, tg_type t) { return tg_is_float(t) ? tg_const_float(j, t, 0) : tg_const_int(j, t, 0); }

static bool constant(const tg_uop *u) { return u->op == TG_OP_CONST; }

const tg_uop *tg_idx_add(tg_job *j, const tg_uop *a, const tg_uop *b) {
  if (constant(a) && constant(b)) return tg_index(j, a->arg + b->arg);
  if (tg_is_const(a, 0)) return b;
  return tg_is_const(b, 0) ? a : tg_op2(j, TG_OP_ADD, a, b);
}

const tg_uop *tg_idx_sub(tg_job *j, const tg_uop *a, const tg_uop *b) {
  if (constant(a) && constant(b)) return tg_index(j, a->arg - b->arg);
  if (a == b) return tg_index(j, 0);
  return tg_is_const(b, 0) ? a : tg_op2(j, TG_OP_SUB, a, b);
}

const tg_uop *tg_idx_mul(tg_job *j, const tg_uop *a, int64_t c) {
  int64_t v;
  if (constant(a) && !__builtin_mul_overflow(a->arg, c, &v)) return tg_index(j, v);
  return c == 1 ? a : tg_op2(j, TG_OP_MUL, a, tg_index(j, c));
}

const tg_uop *tg_idx_ceildiv(tg_job *j, const tg_uop *a, int64_t c) {
  if (constant(a)) return tg_index(j, (int64_t)tg_floor_div((tg_i128)a->arg + (c - 1), c));
  if (c == 1) return a;
  return tg_op2(j, TG_OP_IDIV, tg_divides(j, c, a) ? a : tg_idx_add(j, a, tg_index(j, c - 1)), tg_index(j, c));
}

const tg_uop *tg_idx_div(tg_job *j, const tg_uop *a, int64_t c) {
  if (constant(a)) return tg_index(j, (int64_t)tg_floor_div(a->arg, c));
  return c == 1 ? a : tg_op2(j, TG_OP_IDIV, a, tg_index(j, c));
}

const tg_uop *tg_idx_mod(tg_job *j, const tg_uop *a, int64_t c) {
  if (constant(a)) return tg_index(j, (int64_t)tg_floor_mod(a->arg, c));
  return tg_divides(j, c, a) ? tg_index(j, 0) : tg_op2(j, TG_OP_MOD, a, tg_index(j, c));
}

const tg_uop *tg_idx_not_negative(tg_job *j, const tg_uop *a) {
  if (tg_bounds_of(j, a).lo >= 0) return a;
  return constant(a) ? tg_index(j, 0) : tg_op2(j, TG_OP_MAX, a, tg_index(j, 0));
}

const tg_uop *tg_idx_min(tg_job *j, const tg_uop *a, const tg_uop *b) {
  if (constant(a) && constant(b)) return a->arg < b->arg ? a : b;
  return a == b ? a : tg_op2(j, TG_OP_MIN, a, b);
}

bool tg_divides(tg_job *j, int64_t n, const tg_uop *a) {
  tg_bounds b = tg_bounds_of(j, a);
  return b.multiple == 0 ? tg_floor_mod(b.lo, n) == 0
                         : tg_floor_mod(b.multiple, n) == 0 && tg_floor_mod(b.offset, n) == 0;
}

/* Rules simplify the extents of ranges as well, which makes other nodes of them: those that it had are put back, for
 * they are the program's. */
const tg_uop *tg_simplified(tg_schedule *s, const tg_uop *expression) {
  tg_job *j = s->j;
  const tg_uop *u = tg_simplify(j, s->l->rules, expression), *from[32], *to[32];
  uint32_t n, m, count = 0;
  const tg_uop **now = tg_toposort(j, u, &n), **was = tg_toposort(j, expression, &m);
  for (uint32_t i = 0; i < n; i++)
    for (uint32_t k = 0; k < m && now[i]->op == TG_OP_RANGE; k++) {
      if (was[k]->op != TG_OP_RANGE || was[k] == now[i] || tg_range_ordinal(was[k]) != tg_range_ordinal(now[i]))
        continue;
      if (count == TG_COUNT(from)) return expression;
      from[count] = now[i];
      to[count++] = was[k];
    }
  return tg_substitute(j, u, count, from, to);
}

/* ---- loops ---- */

const tg_uop *tg_end_like(tg_schedule *s, const tg_uop *like, const tg_uop *range, uint32_t n,
                          const tg_uop *const *list) {
  const tg_uop *end = tg_end(s->j, range, n, list);
  tg_set_pos(s->j, end, tg_get_pos(s->j, like));
  return end;
}

typedef struct { const tg_uop *range; tg_replace_fn *fn; void *user; } replacement;

static void replace_in(tg_schedule *s, const tg_uop *u, const replacement *r, tg_statements *out) {
  if (u->op == TG_OP_END && u->src[0] == r->range) {
    r->fn(s, u, out, r->user);
    return;
  }
  if (u->op != TG_OP_END) {
    tg_push(&s->j->env, out, u);
    return;
  }
  tg_statements list = {0};
  bool same = true;
  for (uint32_t i = 1; i < u->n; i++) {
    replace_in(s, u->src[i], r, &list);
    same &= list.n == i && list.data[i - 1] == u->src[i];
  }
  tg_push(&s->j->env, out, same ? u : tg_end_like(s, u, u->src[0], list.n, list.data));
}

const tg_uop *tg_replace_end(tg_schedule *s, const tg_uop *sink, const tg_uop *range, tg_replace_fn *fn, void *user) {
  replacement r = {range, fn, user};
  tg_statements list = {0};
  for (uint32_t i = 0; i < sink->n; i++) replace_in(s, sink->src[i], &r, &list);
  return tg_sink(s->j, list.n, list.data);
}

/* ---- substitution under a gate ---- */

/* Of buffers: defined in the loop; stored to in it and defined outside, or where only the loop's own iterations have
 * room. An iteration that is none reads neither and stores to none of the second kind. */
enum { PRIVATE = 1, STORED };

typedef struct { const tg_uop *range, *value, *cond; const uint8_t *marks; bool stores; } gated;

static const tg_uop *gated_enter(tg_job *j, const tg_uop *old, void *user) {
  (void)j;
  const gated *g = user;
  return old == g->range ? g->value : NULL;
}

static const tg_uop *gated_node(tg_job *j, const tg_uop *old, const tg_uop *const *src, void *user) {
  const gated *g = user;
  if (old->op == TG_OP_LOAD && (memcmp(old->src, src, old->n * sizeof *src) ||
                                (g->stores && g->marks[tg_buffer_ordinal(old->src[0])] == STORED))) {
    const tg_uop *gate = tg_gate(old) ? tg_and(j, src[old->n - 2], g->cond) : g->cond;
    const tg_uop *alternative = tg_gate(old) ? src[old->n - 1] : tg_zero(j, old->type);
    return tg_load(j, src[0], src + 1, gate, alternative, old->arg & ~(int64_t)TG_GATED);
  }
  if (old->op == TG_OP_STORE && g->stores && g->marks[tg_buffer_ordinal(old->src[0])] != PRIVATE) {
    uint32_t rank = tg_access_rank(old);
    const tg_uop *gate = tg_gate(old) ? tg_and(j, src[old->n - 1], g->cond) : g->cond;
    return tg_store(j, src[0], src + 1, src[1 + rank], gate, old->arg & ~(int64_t)TG_GATED);
  }
  if (old->op == TG_OP_SHUFFLE && old->src[1] == g->range)   /* among as many lanes as there were */
    return tg_shuffle(j, src[0], src[1], tg_op2(j, TG_OP_MOD, src[2], tg_extent(g->range)));
  return NULL;
}

const tg_uop *tg_gated_substitute(tg_schedule *s, const tg_uop *u, const tg_uop *range, const tg_uop *value,
                                  const tg_uop *cond, const uint8_t *marks) {
  gated g = {range, value, cond, marks, marks != NULL};
  return tg_map(s->j, u, cond ? gated_node : NULL, gated_enter, &g);
}

static void mark_buffers(tg_schedule *s, const tg_uop *range, const tg_uop *u, uint8_t *marks) {
  if (u->op == TG_OP_DEFINE) marks[tg_buffer_ordinal(u)] = PRIVATE;
  if (u->op == TG_OP_STORE)
    for (uint32_t i = 0; i < tg_access_rank(u); i++)
      if (tg_uses(s->j, u->src[1 + i], range)) marks[tg_buffer_ordinal(u->src[0])] = STORED;
  if (u->op == TG_OP_STORE && !marks[tg_buffer_ordinal(u->src[0])]) marks[tg_buffer_ordinal(u->src[0])] = STORED;
  if (u->op == TG_OP_END)
    for (uint32_t i = 1; i < u->n; i++) mark_buffers(s, range, u->src[i], marks);
}

uint8_t *tg_marked_buffers(tg_schedule *s, const tg_uop *end) {
  uint8_t *marks = tg_new(&s->j->env, uint8_t, s->j->buffers.n + 1);
  mark_buffers(s, end->src[0], end, marks);
  return marks;
}

/* ---- copies ---- */

static const tg_uop *copy_enter(tg_job *j, const tg_uop *old, void *user) {
  (void)j;
  const tg_uop *const *fresh = user;
  if (old->op == TG_OP_DEFINE) return fresh[2 * tg_buffer_ordinal(old) + 1];
  return NULL;
}

/* fresh[2 i]: what stands for range i; fresh[2 i + 1]: for buffer i. */
static const tg_uop *copy_node(tg_job *j, const tg_uop *old, const tg_uop *const *src, void *user) {
  const tg_uop *const *fresh = user;
  /* each stands in one place: where it stands is what it says */
  if (old->op == TG_OP_BARRIER) return tg_barrier_new(j);
  if (old->op == TG_OP_WAIT) return tg_wait_new(j, tg_wait_flying(old));
  if (old->op != TG_OP_RANGE || !fresh[2 * tg_range_ordinal(old)]) return NULL;
  return tg_range_again(j, fresh[2 * tg_range_ordinal(old)], src[0], tg_range_kind(old));
}

static void name_ranges(tg_schedule *s, uint32_t n, const tg_uop *const *ranges, const tg_uop **fresh) {
  for (uint32_t k = 0; k < n; k++) {
    uint32_t ordinal = tg_range_ordinal(ranges[k]);
    if (fresh[2 * ordinal]) continue;
    fresh[2 * ordinal] =
        tg_axis_range(s, ranges[k], tg_range_name(s, ranges[k]), tg_extent(ranges[k]), tg_range_kind(ranges[k]));
  }
}

static void name_copies(tg_schedule *s, const tg_uop *u, const tg_uop **fresh) {
  uint32_t n;
  const tg_uop **order = tg_toposort(s->j, u, &n);
  for (uint32_t i = 0; i < n; i++)
    if (order[i]->op == TG_OP_END) name_ranges(s, 1, order[i]->src, fresh);
    else if (order[i]->op == TG_OP_REDUCE)
      name_ranges(s, tg_reduce_info(order[i]).ranges, tg_reduce_ranges(order[i]), fresh);
}

/* Does the reduction change with one of those that are named so far? */
static bool moves_with_copies(tg_schedule *s, const tg_uop *reduce, const tg_uop **fresh) {
  uint32_t n;
  const tg_uop **order = tg_toposort(s->j, reduce, &n);
  for (uint32_t i = 0; i < n; i++)
    if (order[i]->op == TG_OP_RANGE && fresh[2 * tg_range_ordinal(order[i])]) return true;
  return false;
}

static void name_buffers(tg_schedule *s, const tg_uop *u, const tg_uop **fresh) {
  tg_job *j = s->j;
  if (u->op == TG_OP_DEFINE) {
    bool strided = u->arg >> 32 & TG_STRIDED;
    uint32_t rank = tg_buffer_info(j, u)->rank;
    fresh[2 * tg_buffer_ordinal(u) + 1] =
        tg_define(j, *tg_buffer_info(j, u), u->lanes, u->src, strided ? u->src + rank : NULL, true);
    tg_buffer_copied(s, fresh[2 * tg_buffer_ordinal(u) + 1], u);
  }
  if (u->op == TG_OP_END)
    for (uint32_t i = 1; i < u->n; i++) name_buffers(s, u->src[i], fresh);
}

/* Room for what stands for all ranges and buffers. */
static const tg_uop **all_fresh(const tg_schedule *s, uint32_t *most) {
  const tg_job *j = s->j;
  *most = j->ranges.n > j->buffers.n ? j->ranges.n : j->buffers.n;
  return tg_new(&s->j->env, const tg_uop *, 2 * *most + 2);
}

/* Ties among the copies, apart from the originals. */
static void tie_copies(tg_schedule *s, uint32_t most, const tg_uop **fresh) {
  for (uint32_t i = 0; i < s->tied.n && i < most; i++) {
    if (!s->tied.data[i] || !fresh[2 * i]) continue;
    for (uint32_t k = 0; k < i; k++) {
      if (s->tied.data[k] != s->tied.data[i] || !fresh[2 * k]) continue;
      tg_axis_tie(s, fresh[2 * i], fresh[2 * k]);
      break;
    }
  }
}

void tg_copy_statements(tg_schedule *s, uint32_t n, const tg_uop *const *list, const tg_uop **out) {
  uint32_t most;
  const tg_uop **fresh = all_fresh(s, &most);
  for (uint32_t i = 0; i < n; i++) name_buffers(s, list[i], fresh);
  for (uint32_t i = 0; i < n; i++) name_copies(s, list[i], fresh);
  tie_copies(s, most, fresh);
  for (uint32_t i = 0; i < n; i++) out[i] = tg_map(s->j, list[i], copy_node, copy_enter, fresh);
}

const tg_uop *tg_copy_reduction(tg_schedule *s, const tg_uop *reduce) {
  uint32_t most, n;
  const tg_uop **fresh = all_fresh(s, &most), **order = tg_toposort(s->j, reduce, &n);
  while (n-- > 0)   /* from the outside to the inside */
    if (order[n]->op == TG_OP_REDUCE && (order[n] == reduce || moves_with_copies(s, order[n], fresh)))
      name_ranges(s, tg_reduce_info(order[n]).ranges, tg_reduce_ranges(order[n]), fresh);
  tie_copies(s, most, fresh);
  return tg_map(s->j, reduce, copy_node, copy_enter, fresh);
}
