/* SPDX-License-Identifier: MIT
 * Part of pass coalesce: loads whose lanes lie a few elements apart, where others take the places between, as those of
 * the real and the imaginary parts of complex numbers, the colours of a picture, or of the columns that a
 * pooling takes together. As many as a lane is wide become contiguous loads, from whose vectors each picks its lanes:
 *
 *   x[b + 2 iota], x[b + 2 iota + 1]      lanes 0, 2, .. and 1, 3, .. of x[b + iota], x[b + n + iota]
 *
 * Loads of one statement list form such a group, so each may be loaded wherever another is. They fill whole vectors:
 * of narrower ones LLVM makes one wide load again, whose lanes cross its halves. */
#include <stdlib.h>
#include "lower/sweep.h"

enum { LANES = 64 };   /* at most */
enum { LONGEST_ROW = 3 };

/* Lane l is element rest + constant + step * l of the last dimension; or, where that is but `step` long, of the last
 * two, which then are counted as one (last: so it is). */
typedef struct { const tg_uop *load, *rest; uint32_t home, step; int64_t constant; bool last; } strided;
typedef struct { const strided *member; const tg_uop **made; } group;
typedef struct {
  TG_VEC(strided) loads;
  TG_VEC(group) groups;
  uint32_t *of;                /* by id of a load: its group's index + 1 */
} state;

int64_t tg_short_rows(tg_job *j, const tg_uop *load) {
  uint32_t rank = tg_access_rank(load);
  if (load->op != TG_OP_LOAD || rank < 2 || tg_gate(load)) return 0;
  const tg_uop *define = tg_define_of(load->src[0]), *last = define->src[rank - 1];
  tg_linear t;
  bool lanes = false;
  if (define->arg >> 32 & TG_STRIDED || last->op != TG_OP_CONST || last->arg < 2 || last->arg > LONGEST_ROW ||
      load->lanes <= last->arg || load->src[rank]->op != TG_OP_CONST)
    return 0;
  for (uint32_t d = 0; d + 2 < rank; d++)
    if (load->src[1 + d]->lanes > 1) return 0;
  tg_linear_of(j, load->src[rank - 1], &t);
  for (uint32_t i = 0; i < t.n; i++) {
    if (t.atom[i]->lanes == 1) continue;
    if (t.atom[i]->op != TG_OP_IOTA || t.coefficient[i] != 1) return 0;
    lanes = true;
  }
  return lanes ? last->arg : 0;
}

/* What the subscript is in all lanes, without its constant. */
static const tg_uop *same_for_all(tg_job *j, const tg_linear *t) {
  const tg_uop *sum = tg_index(j, 0);
  for (uint32_t i = 0; i < t->n; i++)
    if (t->atom[i]->lanes == 1)
      sum = tg_fold2(j, TG_OP_ADD, sum, tg_fold2(j, TG_OP_MUL, t->atom[i], tg_index(j, t->coefficient[i])));
  return sum;
}

static bool read_strided(tg_job *j, const tg_uop *u, int64_t vector_bytes, strided *s) {
  uint32_t rank = u->op == TG_OP_LOAD ? tg_access_rank(u) : 0;
  const tg_uop *define = rank ? tg_define_of(u->src[0]) : NULL;
  tg_linear t;
  if (!rank || u->lanes > LANES || u->lanes & (u->lanes - 1) || define->lanes > 1 || u->arg ||
      u->lanes * tg_type_bytes(u->type) < vector_bytes || define->arg >> 32 & TG_STRIDED || tg_gate(u))
    return false;
  int64_t elements = tg_short_rows(j, u);
  if (elements) {
    tg_linear_of(j, u->src[rank - 1], &t);
    *s = (strided){u, tg_fold2(j, TG_OP_ADD, same_for_all(j, &t), tg_index(j, t.constant)), 0, (uint32_t)elements,
                   u->src[rank]->arg, true};
    return true;
  }
  for (uint32_t d = 1; d < rank; d++)
    if (u->src[d]->lanes > 1) return false;
  tg_linear_of(j, u->src[rank], &t);
  int64_t step = 0;
  for (uint32_t i = 0; i < t.n; i++) {
    if (t.atom[i]->op == TG_OP_IOTA) step = t.coefficient[i];
    else if (t.atom[i]->lanes > 1) return false;
  }
  if (step < 2 || step > TG_MOST_STEP || step >= u->lanes) return false;
  *s = (strided){u, same_for_all(j, &t), 0, (uint32_t)step, t.constant, false};
  return true;
}

/* By all that neighbours share, then by their places. */
static int compare(const strided *a, const strided *b, bool places) {
  const tg_uop *x = a->load, *y = b->load;
#define BY(p, q) if ((p) != (q)) return (p) < (q) ? -1 : 1
  BY(a->home, b->home);
  BY(a->step, b->step);
  BY(a->rest->id, b->rest->id);
  BY(x->lanes, y->lanes);
  BY(x->n, y->n);
  BY(a->last, b->last);
  for (uint32_t i = 0; i + 1 + a->last < x->n; i++) BY(x->src[i]->id, y->src[i]->id);
  if (places) BY(a->constant, b->constant);
#undef BY
  return 0;
}

static int in_order(const void *a, const void *b) { return compare(a, b, true); }

static void find_groups(tg_job *j, state *s) {
  const strided *l = s->loads.data;
  for (uint32_t i = 0, n = s->loads.n; i < n;) {
    uint32_t k = 1;
    while (k < l[i].step && i + k < n && !compare(&l[i], &l[i + k], false) &&
           l[i + k].constant == l[i].constant + (int64_t)k)
      k++;
    if (k < l[i].step) {
      i++;
      continue;
    }
    tg_push(&j->env, &s->groups, ((group){&l[i], NULL}));
    for (uint32_t m = 0; m < k; m++) s->of[l[i + m].load->id] = s->groups.n;
    i += k;
  }
}

/* Lane l of it is element step * l + part of the vectors. */
static const tg_uop *picked(tg_job *j, const tg_uop *const *from, uint32_t step, uint32_t part, uint32_t lanes) {
  const tg_uop *count = tg_index(j, lanes), *made = NULL,
               *place = tg_op2(j, TG_OP_ADD,
                               tg_op2(j, TG_OP_MUL, tg_iota(j, TG_I32, lanes), tg_const_int(j, TG_I32, step)),
                               tg_const_int(j, TG_I32, part)),
               *at = tg_op2(j, TG_OP_AND, place, tg_const_int(j, TG_I32, lanes - 1)),
               *which = tg_op2(j, TG_OP_SHR, place, tg_const_int(j, TG_I32, __builtin_ctz(lanes)));
  for (uint32_t r = 0; r < step; r++) {
    const tg_uop *v = tg_shuffle(j, from[r], count, at);
    made = made ? tg_op3(j, TG_OP_WHERE, tg_op2(j, TG_OP_EQ, which, tg_const_int(j, TG_I32, r)), v, made) : v;
  }
  return made;
}

static const tg_uop *visit(tg_job *j, const tg_uop *old, const tg_uop *const *src, void *user) {
  state *s = user;
  if (old->op != TG_OP_LOAD || !s->of[old->id]) return NULL;
  group *g = &s->groups.data[s->of[old->id] - 1];
  const strided *first = g->member;
  uint32_t part = 0, rank = tg_access_rank(old);
  while (first[part].load != old) part++;
  if (!g->made) {
    const tg_uop *now[16 + 4], *iota = tg_iota(j, TG_INDEX, old->lanes);
    g->made = tg_new(&j->env, const tg_uop *, first->step);
    for (uint32_t r = 0; r < first->step; r++) {
      int64_t from = first->constant + (int64_t)r * old->lanes;
      for (uint32_t i = 0; i < rank; i++) now[i] = src[i];
      if (first->last) {   /* first->constant is in the first row */
        const tg_uop *step = tg_index(j, first->step), *rows = tg_index(j, from / first->step),
                     *at = tg_fold2(j, TG_OP_ADD, iota, tg_index(j, from % first->step));
        now[rank - 1] = tg_fold2(j, TG_OP_ADD, tg_fold2(j, TG_OP_ADD, first->rest, rows),
                                 tg_fold2(j, TG_OP_IDIV, at, step));
        now[rank] = tg_fold2(j, TG_OP_MOD, at, step);
      } else now[rank] = tg_fold2(j, TG_OP_ADD, tg_fold2(j, TG_OP_ADD, first->rest, tg_index(j, from)), iota);
      g->made[r] = tg_with_sources(j, old, now);
    }
  }
  return picked(j, g->made, first->step, part, old->lanes);
}

const tg_uop *tg_share_steps(tg_job *j, const tg_target *target, const tg_uop *sink) {
  state s = {.of = tg_new(&j->env, uint32_t, sink->id + 1)};
  tg_sweep w = tg_sweep_of(j, sink);
  strided one;
  for (uint32_t i = 0; i < w.n; i++)
    if (read_strided(j, w.u[i], target->vector_bytes, &one)) tg_push(&j->env, &s.loads, one);
  if (s.loads.n < 2) return sink;
  const uint32_t *home = tg_homes_of(j, &w, sink);
  uint32_t kept = 0;
  for (uint32_t i = 0; i < s.loads.n; i++) {
    s.loads.data[i].home = home[s.loads.data[i].load->id];
    if (tg_is_home(s.loads.data[i].home)) s.loads.data[kept++] = s.loads.data[i];
  }
  s.loads.n = kept;
  if (!kept) return sink;
  qsort(s.loads.data, kept, sizeof *s.loads.data, in_order);
  find_groups(j, &s);
  return s.groups.n ? tg_sweep_map(j, sink, visit, &s) : sink;
}
