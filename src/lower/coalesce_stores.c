/* SPDX-License-Identifier: MIT
 * Part of pass coalesce: stores whose lanes lie a few elements apart, where others fill the places between, such as the
 * real and the imaginary parts of complex numbers. As many as a lane is wide become contiguous stores, whose vectors
 * are picked lane by lane from the values in turns:
 *
 *   y[b + 2 iota] = p;  y[b + 2 iota + 1] = q       y[b + iota] = p0 q0 p1 q1 ..;  y[b + n + iota] = .. of upper lanes
 *
 * Stores take part that stand side by side in one list, and of which none computes with what another one of these
 * stores: so it does not matter which of them comes first. */
#include "lower/sweep.h"

enum { LANES = 64 };

/* Lane l is element constant + step * l of a place that several stores share. along: the dimension that lanes run
 * along, the last one, or the one before it, if `step` is the size of the last one. group: its first store's index. */
typedef struct { const tg_uop *rest; int64_t constant; uint32_t along, step, group, part; } strided;

static uint32_t lanes_of(const tg_uop *store) {
  uint32_t lanes = 1;
  for (uint32_t d = 1; d <= tg_access_rank(store); d++)
    if (store->src[d]->lanes > lanes) lanes = store->src[d]->lanes;
  return lanes;
}

static bool read_strided(tg_job *j, const tg_uop *u, strided *s) {
  uint32_t rank = u->op == TG_OP_STORE ? tg_access_rank(u) : 0;
  const tg_uop *define = rank ? tg_define_of(u->src[0]) : NULL, *gate = rank ? tg_gate(u) : NULL;
  tg_linear t;
  *s = (strided){.group = UINT32_MAX};
  if (!rank || lanes_of(u) < 2 || lanes_of(u) > LANES || define->lanes > 1 || u->arg & TG_ATOMIC ||
      define->arg >> 32 & TG_STRIDED || (gate && gate->lanes > 1))
    return false;
  s->along = rank;
  if (rank > 1 && u->src[rank]->op == TG_OP_CONST && define->src[rank - 1]->op == TG_OP_CONST) s->along--;
  for (uint32_t d = 1; d <= rank; d++)
    if (u->src[d]->lanes > 1 && d != s->along) return false;
  tg_linear_of(j, u->src[s->along], &t);
  const tg_uop *rest = tg_index(j, 0);
  int64_t step = 0, size = s->along < rank ? define->src[rank - 1]->arg : 1;
  for (uint32_t i = 0; i < t.n; i++) {
    if (t.atom[i]->op == TG_OP_IOTA) step = t.coefficient[i];
    else if (t.atom[i]->lanes > 1) return false;
    else rest = tg_fold2(j, TG_OP_ADD, rest, tg_fold2(j, TG_OP_MUL, t.atom[i], tg_index(j, t.coefficient[i])));
  }
  if (s->along < rank && step == 1) step = size;
  else if (s->along < rank) return false;
  if (step < 2 || step > TG_MOST_STEP) return false;
  s->rest = rest, s->step = (uint32_t)step;
  s->constant = s->along < rank ? t.constant * size + u->src[rank]->arg : t.constant;
  return true;
}

/* The same but for the constant, and under the same gate? */
static bool alike(const tg_uop *a, const strided *x, const tg_uop *b, const strided *y) {
  uint32_t rank = tg_access_rank(a);
  bool same = b->op == TG_OP_STORE && a->src[0] == b->src[0] && a->arg == b->arg && tg_gate(a) == tg_gate(b) &&
              tg_access_rank(b) == rank && x->along == y->along && x->rest == y->rest && x->step == y->step &&
              lanes_of(a) == lanes_of(b);
  for (uint32_t d = 1; d < x->along && same; d++) same = a->src[d] == b->src[d];
  return same;
}

static bool computes_with(tg_job *j, const tg_uop *store, const tg_uop *buffer) {
  uint32_t n;
  const tg_uop **order = tg_toposort(j, store, &n);
  for (uint32_t i = 0; i < n; i++)
    if (order[i]->op == TG_OP_LOAD && tg_buffer_ordinal(order[i]->src[0]) == tg_buffer_ordinal(buffer)) return true;
  return false;
}

/* Of the stores list[from..to): do none of them read what one of them writes? */
static bool in_any_order(tg_job *j, const tg_uop *const *list, uint32_t from, uint32_t to) {
  for (uint32_t i = from; i < to; i++)
    for (uint32_t k = from; k < to; k++)
      if ((k == from || list[k]->src[0] != list[k - 1]->src[0]) && computes_with(j, list[i], list[k]->src[0]))
        return false;
  return true;
}

/* Does each store to the buffer of list[at] have its group, and no two groups an element in common? */
static bool all_apart(const tg_uop *const *list, const strided *s, uint32_t from, uint32_t to, uint32_t at) {
  for (uint32_t i = from; i < to; i++) {
    if (list[i]->src[0] != list[at]->src[0]) continue;
    if (s[i].group == UINT32_MAX || !alike(list[at], &s[at], list[i], &s[i])) return false;
    int64_t apart = s[s[i].group].constant - s[s[at].group].constant,
            length = (int64_t)s[at].step * lanes_of(list[at]);
    if (s[i].group != s[at].group && apart > -length && apart < length) return false;
  }
  return true;
}

/* The stores that fill the places from that of list[first] on make a group with it. */
static void find_group(const tg_uop *const *list, strided *s, uint32_t from, uint32_t to, uint32_t first) {
  uint32_t member[TG_MOST_STEP], n = 1;
  member[0] = first;
  for (; n < s[first].step; n++) {
    uint32_t k = from;
    while (k < to && !(s[k].step && s[k].group == UINT32_MAX && alike(list[first], &s[first], list[k], &s[k]) &&
                       s[k].constant == s[first].constant + n))
      k++;
    if (k == to) return;
    member[n] = k;
  }
  for (uint32_t i = 0; i < n; i++) s[member[i]].group = first, s[member[i]].part = i;
}

/* Lane i of part p is lane (p * lanes + i) / step of value (p * lanes + i) % step. */
static const tg_uop *in_turns(tg_job *j, const tg_uop *const *value, uint32_t step, uint32_t part, uint32_t lanes) {
  const tg_uop *n = tg_const_int(j, TG_I32, step), *count = tg_index(j, lanes), *made = NULL,
               *begin = tg_const_int(j, TG_I32, (int64_t)part * lanes),
               *place = tg_fold2(j, TG_OP_ADD, tg_iota(j, TG_I32, lanes), begin),
               *turn = tg_op2(j, TG_OP_MOD, place, n), *at = tg_op2(j, TG_OP_IDIV, place, n);
  for (uint32_t r = 0; r < step; r++) {
    const tg_uop *v = value[r]->lanes > 1 ? tg_shuffle(j, value[r], count, at) : value[r];
    made = made ? tg_op3(j, TG_OP_WHERE, tg_op2(j, TG_OP_EQ, turn, tg_const_int(j, TG_I32, r)), v, made) : v;
  }
  return made;
}

static const tg_uop *store_of(tg_job *j, const tg_uop *const *list, const strided *s, uint32_t from, uint32_t to,
                              uint32_t at) {
  const tg_uop *value[TG_MOST_STEP] = {0}, *now[16 + 4], *first = list[s[at].group];
  uint32_t rank = tg_access_rank(first), lanes = lanes_of(first), gated = first->arg & TG_GATED ? 1 : 0;
  for (uint32_t k = from; k < to; k++)
    if (s[k].group == s[at].group) value[s[k].part] = tg_stored(list[k]);
  for (uint32_t i = 0; i < first->n; i++) now[i] = first->src[i];
  int64_t begin = s[s[at].group].constant + (int64_t)s[at].part * lanes, n = s[at].step;
  const tg_uop *iota = tg_iota(j, TG_INDEX, lanes), *size = tg_index(j, n);
  if (s[at].along == rank) {
    now[rank] = tg_fold2(j, TG_OP_ADD, tg_fold2(j, TG_OP_ADD, s[at].rest, tg_index(j, begin)), iota);
  } else {
    const tg_uop *whole = tg_index(j, (begin - tg_floor_mod(begin, n)) / n),
                 *place = tg_fold2(j, TG_OP_ADD, iota, tg_index(j, tg_floor_mod(begin, n)));
    now[rank - 1] =
        tg_fold2(j, TG_OP_ADD, tg_fold2(j, TG_OP_ADD, s[at].rest, whole), tg_op2(j, TG_OP_IDIV, place, size));
    now[rank] = tg_op2(j, TG_OP_MOD, place, size);
  }
  now[first->n - 1 - gated] = in_turns(j, value, s[at].step, s[at].part, lanes);
  const tg_uop *made = tg_with_sources(j, first, now);
  tg_set_pos(j, made, tg_get_pos(j, list[at]));
  return made;
}

/* The stores list[from..to), which stand side by side. */
static void interleave(tg_job *j, const tg_uop **list, uint32_t from, uint32_t to) {
  strided *s = tg_new(&j->env, strided, to);
  const tg_uop **made = tg_new(&j->env, const tg_uop *, to);
  uint32_t some = 0;
  for (uint32_t i = from; i < to; i++) some += read_strided(j, list[i], &s[i]);
  if (some < 2) return;
  for (uint32_t i = from; i < to; i++)   /* one before which the place is not filled as well begins a group */
    if (s[i].step && s[i].group == UINT32_MAX) {
      uint32_t before = from;
      while (before < to && !(s[before].step && s[before].group == UINT32_MAX &&
                              alike(list[i], &s[i], list[before], &s[before]) &&
                              s[before].constant == s[i].constant - 1))
        before++;
      if (before == to) find_group(list, s, from, to, i);
    }
  bool any = false;
  for (uint32_t i = from; i < to; i++) any |= s[i].group != UINT32_MAX;
  if (!any || !in_any_order(j, list, from, to)) return;
  for (uint32_t i = from; i < to; i++)
    made[i] = s[i].group != UINT32_MAX && all_apart(list, s, from, to, i) ? store_of(j, list, s, from, to, i) : list[i];
  for (uint32_t i = from; i < to; i++) list[i] = made[i];
}

static const tg_uop *walk(tg_job *j, const tg_uop *u) {
  uint32_t first = u->op == TG_OP_END, n = 0;
  if (u->op != TG_OP_END && u->op != TG_OP_SINK) return u;
  const tg_uop **list = tg_new(&j->env, const tg_uop *, u->n + 1);
  bool same = true;
  for (uint32_t i = first; i < u->n; i++) list[n++] = walk(j, u->src[i]);
  for (uint32_t from = 0, to; from < n; from = to + (to == from)) {
    for (to = from; to < n && list[to]->op == TG_OP_STORE;) to++;
    if (to > from + 1) interleave(j, list, from, to);
  }
  for (uint32_t i = 0; i < n; i++) same &= list[i] == u->src[first + i];
  if (same) return u;
  const tg_uop *made = first ? tg_end(j, u->src[0], n, list) : tg_sink(j, n, list);
  if (first) tg_set_pos(j, made, tg_get_pos(j, u));
  return made;
}

const tg_uop *tg_interleave_stores(tg_job *j, const tg_uop *sink) {
  tg_sweep w = tg_sweep_of(j, sink);
  uint32_t some = 0;
  strided s;
  for (uint32_t i = 0; i < w.n; i++) some += read_strided(j, w.u[i], &s);
  if (some < 2) return sink;
  const tg_uop *plain = tg_plain(j, sink), *made = walk(j, plain);
  return made == plain ? sink : tg_versioned(j, made);
}
