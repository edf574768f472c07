/* SPDX-License-Identifier: MIT
 * Part of pass coalesce, for targets whose multiply-adds take one lane of a vector as a factor (FMLA by element):
 * neighbouring elements by which one vector is multiplied, as by rows that lie side by side, are loaded as a vector, of
 * which each factor is a lane.
 *
 *   x[b] * v, x[b + 1] * v, ..      lanes 0, 1, .. of x[b + iota], times v
 *
 * Those that multiply different vectors, as the terms of one row, are left: each row would keep a register until its
 * last term, and a tile of 6 x 16 of f32 then spills in each of them.
 * Loads of one statement list form such a group, so each may be loaded wherever another is. */
#include <stdlib.h>
#include "lower/sweep.h"

/* The load of element rest + constant of the last dimension; by: id of the first vector that it multiplies. */
typedef struct { const tg_uop *load, *rest; uint32_t home, by; int64_t constant; } single;
typedef struct { const single *first; const tg_uop *made; uint32_t n; } group;
typedef struct {
  TG_VEC(single) loads;
  TG_VEC(group) groups;
  uint32_t *of;                /* by id of a load: its group's index + 1 */
} state;

/* Do neighbours of the last dimension lie side by side? */
static bool is_dense(const tg_uop *define, uint32_t rank) {
  return !(define->arg >> 32 & TG_STRIDED) || tg_is_const(define->src[2 * rank - 1], 1);
}

static bool read_single(tg_job *j, const tg_uop *u, single *s) {
  uint32_t rank = u->op == TG_OP_LOAD && u->lanes == 1 ? tg_access_rank(u) : 0;
  const tg_uop *define = rank ? tg_define_of(u->src[0]) : NULL, *rest = tg_index(j, 0);
  tg_linear t;
  if (!rank || define->lanes > 1 || u->arg || tg_gate(u) || !tg_is_float(u->type) || !is_dense(define, rank) ||
      tg_buffer_info(j, define)->space == TG_SPACE_REG)
    return false;
  tg_linear_of(j, u->src[rank], &t);
  for (uint32_t i = 0; i < t.n; i++)
    rest = tg_fold2(j, TG_OP_ADD, rest, tg_fold2(j, TG_OP_MUL, t.atom[i], tg_index(j, t.coefficient[i])));
  *s = (single){u, rest, 0, 0, t.constant};
  return true;
}

/* By all that neighbours share, then by their places. */
static int compare(const single *a, const single *b, bool places) {
  const tg_uop *x = a->load, *y = b->load;
#define BY(p, q) if ((p) != (q)) return (p) < (q) ? -1 : 1
  BY(a->home, b->home);
  BY(a->by, b->by);
  BY(a->rest->id, b->rest->id);
  BY(x->type, y->type);
  BY(x->n, y->n);
  for (uint32_t i = 0; i + 1 < x->n; i++) BY(x->src[i]->id, y->src[i]->id);
  if (places) BY(a->constant, b->constant);
#undef BY
  return 0;
}

static int in_order(const void *a, const void *b) { return compare(a, b, true); }

/* Whole vectors, and halves of one of what is left. */
static void find_groups(tg_job *j, state *s, int64_t bytes) {
  const single *l = s->loads.data;
  for (uint32_t i = 0, n = s->loads.n; i < n;) {
    uint32_t most = (uint32_t)(bytes / tg_type_bytes(l[i].load->type)), k = 1, m = 1;
    while (k < most && i + k < n && !compare(&l[i], &l[i + k], false) &&
           l[i + k].constant == l[i].constant + (int64_t)k)
      k++;
    while (2 * m <= k) m *= 2;
    if (m > 1) {
      tg_push(&j->env, &s->groups, ((group){&l[i], NULL, m}));
      for (uint32_t r = 0; r < m; r++) s->of[l[i + r].load->id] = s->groups.n;
    }
    i += m;
  }
}

static const tg_uop *visit(tg_job *j, const tg_uop *old, const tg_uop *const *src, void *user) {
  state *s = user;
  if (old->op != TG_OP_LOAD || !s->of[old->id]) return NULL;
  group *g = &s->groups.data[s->of[old->id] - 1];
  uint32_t lane = 0, rank = tg_access_rank(old);
  while (g->first[lane].load != old) lane++;
  if (!g->made) {
    const tg_uop *now[16 + 4], *from = tg_fold2(j, TG_OP_ADD, g->first->rest, tg_index(j, g->first->constant));
    for (uint32_t i = 0; i < rank; i++) now[i] = src[i];
    now[rank] = tg_fold2(j, TG_OP_ADD, from, tg_iota(j, TG_INDEX, g->n));
    g->made = tg_with_sources(j, old, now);
  }
  return tg_shuffle(j, g->made, tg_index(j, g->n), tg_const_int(j, TG_I32, lane));
}

/* By id: the first vector by which a value is multiplied; 0: none, or it is used otherwise, too. */
static uint32_t *find_factors(tg_job *j, const tg_sweep *w, const tg_uop *sink, int64_t bytes) {
  uint32_t *by = tg_new(&j->env, uint32_t, sink->id + 1);
  bool *other = tg_new(&j->env, bool, sink->id + 1);
  for (uint32_t i = 0; i < w->n; i++) {
    const tg_uop *u = w->u[i];
    bool whole = u->op == TG_OP_FMA && u->lanes * tg_type_bytes(u->type) == bytes;
    for (uint32_t k = 0; k < u->n; k++) {
      uint32_t id = u->src[k]->id, with = whole && k < 2 ? u->src[1 - k]->id : 0;
      if (!with) other[id] = true;
      else if (!by[id] || with < by[id]) by[id] = with;
    }
  }
  for (uint32_t id = 0; id <= sink->id; id++)
    if (other[id]) by[id] = 0;
  return by;
}

const tg_uop *tg_load_lanes(tg_job *j, const tg_target *target, const tg_uop *sink) {
  state s = {.of = tg_new(&j->env, uint32_t, sink->id + 1)};
  tg_sweep w = tg_sweep_of(j, sink);
  const uint32_t *by = find_factors(j, &w, sink, target->lane_bytes);
  single one;
  for (uint32_t i = 0; i < w.n; i++)
    if (by[w.u[i]->id] && read_single(j, w.u[i], &one)) {
      one.by = by[w.u[i]->id];
      tg_push(&j->env, &s.loads, one);
    }
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
  find_groups(j, &s, target->lane_bytes);
  return s.groups.n ? tg_sweep_map(j, sink, visit, &s) : sink;
}
