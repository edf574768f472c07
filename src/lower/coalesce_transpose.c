/* SPDX-License-Identifier: MIT
 * Part of pass coalesce: blocks of gathers. Copies of a loop (by `unroll` or `upcast`) over the dimension that is
 * contiguous in memory leave n gathers of n lanes each, side by side, such as B[j + iota, k], B[j + iota, k + 1], ..
 * Together they read an n x n block. It is loaded as n contiguous vectors along the other direction, and transposed in
 * registers in log2(n) steps; in each, pairs of vectors exchange halves. Fewer gathers, at least two, are the first
 * columns of a block; masks keep the loads from reading past them.
 *
 * Lanes may come in runs that are contiguous in memory (`B[j + iota / 4, k + iota % 4]`): then runs are transposed
 * instead of elements. Or lanes may take n rows in turns (`B[k + iota % 4, j + iota / 4]`): for n such gathers side by
 * side, n rows are loaded, and each gather picks its lanes from them.
 *
 * Only gathers of one statement list form a block, so each may be loaded wherever another is. */
#include <stdlib.h>
#include "lower/sweep.h"

enum { NOWHERE = 0, MANY = UINT32_MAX };   /* home of a value used in no list, or in several */

/* The gate of a gather whose lanes take `ways` rows in turns, split into a condition on the row, turns (over iota %
 * ways), and a limit of the column: rest + constant < 0, where rest contains iota / ways. For example iota % 4 < m &
 * j + iota / 4 - n < 0. NULL: the gate has no such part. */
typedef struct { const tg_uop *turns, *rest; int64_t constant; } limits;

typedef struct {
  /* load: the LOAD; rest: its subscript in dimension `unit` (contiguous in memory), without the constant */
  const tg_uop *load, *rest;
  /* run: number of lanes that are contiguous in memory (consecutive lanes, or one per turn); 1: none */
  uint32_t unit, home, run;
  uint32_t ways;               /* number of rows that the lanes take in turns; 0: they do not take turns */
  int64_t constant;
  limits at;
} gather;

typedef struct {
  const gather *member, *edge /* one with a gate; of those that take turns */;
  const tg_uop **column;
  uint32_t n;
} block; /* column: made when the first member is met; n: members */

typedef struct {
  TG_VEC(gather) gathers;
  TG_VEC(block) blocks;
  const uint32_t *home;        /* by node id */
  uint32_t *of;                /* by id of a load: index of its block, + 1 */
} state;

/* ---- which statement list a value is used in ---- */

static void used(uint32_t *of, const tg_uop *u, uint32_t home) {
  of[u->id] = of[u->id] == NOWHERE || of[u->id] == home ? home : MANY;
}

bool tg_is_home(uint32_t home) { return home != NOWHERE && home != MANY; }

uint32_t *tg_homes_of(tg_job *j, const tg_sweep *w, const tg_uop *sink) {
  uint32_t *home = tg_new(&j->env, uint32_t, sink->id + 1);
  for (uint32_t i = w->n; i-- > 0;) {
    const tg_uop *u = w->u[i];
    bool list = u->op == TG_OP_END || u->op == TG_OP_SINK,
         access = u->op == TG_OP_LOAD || u->op == TG_OP_STORE || u->op == TG_OP_PREFETCH;
    if (u->op == TG_OP_AFTER || u->op == TG_OP_RANGE || u->op == TG_OP_DEFINE) continue;
    for (uint32_t k = u->op == TG_OP_END || access; k < u->n; k++)
      if (!list || u->src[k]->op != TG_OP_END) used(home, u->src[k], list ? u->id + 1 : home[u->id]);
  }
  return home;
}

/* ---- gathers ---- */

/* Is u computed from iota and scalars only? Then lane l of it is u with l for iota. */
static bool of_lanes(tg_job *j, const tg_uop *u, uint32_t lanes) {
  uint32_t n;
  if (u->lanes == 1) return true;
  const tg_uop **order = tg_toposort(j, u, &n);
  for (uint32_t i = 0; i < n; i++)
    if (order[i]->lanes > 1 && !(tg_ops[order[i]->op].flags & TG_OPF_W) &&
        (order[i]->op != TG_OP_IOTA || order[i]->lanes != lanes))
      return false;
  return true;
}

/* Is u the same in all lanes of a run? It may use iota only as iota / (run * c). */
static bool of_runs(tg_job *j, const tg_uop *u, uint32_t run) {
  uint32_t n;
  if (u->lanes == 1 || run == 1) return true;
  const tg_uop **order = tg_toposort(j, u, &n);
  for (uint32_t i = 0; i < n; i++)
    for (uint32_t k = 0; k < order[i]->n; k++)
      if (order[i]->src[k]->op == TG_OP_IOTA &&
          (order[i]->op != TG_OP_IDIV || k || order[i]->src[1]->op != TG_OP_CONST || order[i]->src[1]->arg <= 0 ||
           order[i]->src[1]->arg % run))
        return false;
  return u->op != TG_OP_IOTA;
}

/* The run of a subscript that is a sum of scalars and iota % run; 1: scalars only; 0: another form. */
static uint32_t run_of(const tg_linear *t, uint32_t lanes) {
  uint32_t run = 1;
  for (uint32_t i = 0; i < t->n; i++) {
    const tg_uop *a = t->atom[i];
    if (a->lanes == 1) continue;
    if (run > 1 || t->coefficient[i] != 1 || a->op != TG_OP_MOD || a->src[0]->op != TG_OP_IOTA ||
        a->src[1]->op != TG_OP_CONST)
      return 0;
    run = (uint32_t)a->src[1]->arg;
    if (a->src[1]->arg < 2 || a->src[1]->arg >= lanes || run & (run - 1)) return 0;
  }
  return run;
}

/* n if the subscript is a sum of scalars and iota / n, so that lanes at distance n are neighbours; 0: another form. */
static uint32_t ways_of(const tg_linear *t, uint32_t lanes) {
  uint32_t ways = 0;
  for (uint32_t i = 0; i < t->n; i++) {
    const tg_uop *a = t->atom[i];
    if (a->lanes == 1) continue;
    if (ways || t->coefficient[i] != 1 || a->op != TG_OP_IDIV || a->src[0]->op != TG_OP_IOTA ||
        a->src[1]->op != TG_OP_CONST || a->src[1]->arg < 2 || a->src[1]->arg >= lanes)
      return 0;
    ways = (uint32_t)a->src[1]->arg;
  }
  return ways & (ways - 1) ? 0 : ways;
}

/* Does u use iota only as iota % ways? */
static bool of_turns(tg_job *j, const tg_uop *u, uint32_t ways) {
  uint32_t n;
  if (u->lanes == 1) return true;
  const tg_uop **order = tg_toposort(j, u, &n);
  for (uint32_t i = 0; i < n; i++)
    for (uint32_t k = 0; k < order[i]->n; k++)
      if (order[i]->src[k]->op == TG_OP_IOTA &&
          (order[i]->op != TG_OP_MOD || k || order[i]->src[1]->op != TG_OP_CONST || order[i]->src[1]->arg != ways))
        return false;
  return u->op != TG_OP_IOTA;
}

/* The dimension along which the buffer is contiguous, or nearly so (lanes a few elements apart are vectors as well);
 * else its rank. */
static uint32_t unit_of(const tg_uop *define, uint32_t rank) {
  if (!(define->arg >> 32 & TG_STRIDED)) return rank - 1;
  uint32_t best = rank;
  for (uint32_t d = 0; d < rank; d++) {
    const tg_uop *by = define->src[rank + d];
    if (by->op == TG_OP_CONST && by->arg > 0 && by->arg <= TG_MOST_STEP &&
        (best == rank || by->arg < define->src[rank + best]->arg))
      best = d;
  }
  return best;
}

static const tg_uop *without_constant(tg_job *j, const tg_linear *t) {
  const tg_uop *sum = tg_index(j, 0);
  for (uint32_t i = 0; i < t->n; i++)
    sum = tg_fold2(j, TG_OP_ADD, sum, tg_fold2(j, TG_OP_MUL, t->atom[i], tg_index(j, t->coefficient[i])));
  return sum;
}

static bool see_edge(tg_job *j, const tg_uop *gate, uint32_t ways, limits *e) {
  tg_linear t;
  if (gate->op == TG_OP_AND && gate->type == TG_BOOL)
    return see_edge(j, gate->src[0], ways, e) && see_edge(j, gate->src[1], ways, e);
  if (of_turns(j, gate, ways)) {
    e->turns = e->turns ? tg_op2(j, TG_OP_AND, e->turns, gate) : gate;
    return true;
  }
  if (e->rest || gate->op != TG_OP_LT || gate->src[1]->lanes > 1) return false;
  tg_linear_of(j, tg_op2(j, TG_OP_SUB, gate->src[0], gate->src[1]), &t);
  if (ways_of(&t, gate->lanes) != ways) return false;
  *e = (limits){e->turns, without_constant(j, &t), t.constant};
  return true;
}

static void see(tg_job *j, state *s, const tg_uop *load) {
  uint32_t rank = tg_access_rank(load), unit = rank ? unit_of(tg_define_of(load->src[0]), rank) : 0;
  bool vector = false, good = true;
  tg_linear t;
  if (load->lanes < 2 || load->lanes & (load->lanes - 1) || tg_define_of(load->src[0])->lanes > 1 || unit == rank)
    return;
  if (!tg_is_home(s->home[load->id]) || tg_short_rows(j, load)) return;
  tg_linear_of(j, load->src[1 + unit], &t);
  uint32_t run = run_of(&t, load->lanes), ways = run ? 0 : ways_of(&t, load->lanes);
  for (uint32_t d = 0; d < rank; d++) vector |= d != unit && load->src[1 + d]->lanes > 1;
  limits e = {0};
  for (uint32_t i = 1; i < load->n && (run || ways); i++) {
    const tg_uop *u = load->src[i];
    good &= of_lanes(j, u, load->lanes) && (i == 1 + unit || (!ways                ? of_runs(j, u, run)
                                                              : u == tg_gate(load) ? see_edge(j, u, ways, &e)
                                                                                   : of_turns(j, u, ways)));
  }
  if (!vector || !good || (!run && !ways)) return;
  gather g = {load, without_constant(j, &t), unit, s->home[load->id], ways ? load->lanes / ways : run, ways, t.constant,
              e};
  tg_push(&j->env, &s->gathers, g);
}

static uint32_t id_of(const tg_uop *u) { return u ? u->id : 0; }

/* By all that neighbours share, then by their places. Those that take turns share the gate of their rows as well,
 * but some may lie within the edge wherever they are, and not ask. */
static int compare(const gather *a, const gather *b, bool places) {
  const tg_uop *x = a->load, *y = b->load;
  uint32_t rank = tg_access_rank(x), n = a->ways ? 1 + rank : x->n;
#define BY(p, q) if ((p) != (q)) return (p) < (q) ? -1 : 1
  BY(a->home, b->home);
  BY(a->unit, b->unit);
  BY(a->run, b->run);
  BY(a->ways, b->ways);
  BY(a->rest->id, b->rest->id);
  BY(x->lanes, y->lanes);
  BY(rank, tg_access_rank(y));
  if (!a->ways) BY(x->arg, y->arg);
  if (!a->ways) BY(x->n, y->n);
  for (uint32_t i = 0; i < n; i++)
    if (i != 1 + a->unit) BY(x->src[i]->id, y->src[i]->id);
  BY(id_of(a->at.turns), id_of(b->at.turns));
  if (!places) return 0;
  BY(a->constant, b->constant);
#undef BY
  return 0;
}

static int in_order(const void *a, const void *b) { return compare(a, b, true); }

/* Those that have an edge have the same. Is it so, and do they read the same beyond it? */
static bool find_edge(block *b, uint32_t n) {
  for (uint32_t i = 0; i < n; i++) {
    const gather *g = &b->member[i], *e = b->edge;
    if (!tg_gate(g->load)) continue;
    if (e && (e->load->src[e->load->n - 1] != g->load->src[g->load->n - 1] ||
              (e->at.rest && g->at.rest &&
               (e->at.rest != g->at.rest || e->at.constant - e->constant != g->at.constant - g->constant))))
      return false;
    if (!e || (!e->at.rest && g->at.rest)) b->edge = g;
  }
  return true;
}

static void find_blocks(tg_job *j, state *s) {
  const gather *g = s->gathers.data;
  for (uint32_t i = 0, n = s->gathers.n; i < n;) {
    uint32_t rows = g[i].load->lanes / g[i].run, k = 1;
    while (k < rows && i + k < n && !compare(&g[i], &g[i + k], false) &&
           g[i + k].constant == g[i].constant + (int64_t)k * g[i].run)
      k++;
    block b = {&g[i], NULL, NULL, k};
    if (k < 2 || (g[i].ways && (k < rows || !find_edge(&b, rows)))) {
      i++;
      continue;
    }
    tg_push(&j->env, &s->blocks, b);
    for (uint32_t m = 0; m < k; m++) s->of[g[i + m].load->id] = s->blocks.n;
    i += k;
  }
}

/* ---- rows and columns ---- */

static const tg_uop *enter_scalar(tg_job *j, const tg_uop *old, void *user) {
  return (void)j, (void)user, old->lanes == 1 ? old : NULL;
}

static const tg_uop *put_lane(tg_job *j, const tg_uop *old, const tg_uop *const *src, void *user) {
  return old->op == TG_OP_IOTA ? tg_const_int(j, old->type, *(const int64_t *)user) : tg_fold(j, old, src);
}

static const tg_uop *at_lane(tg_job *j, const tg_uop *u, int64_t lane) {
  return u->lanes == 1 ? u : tg_map(j, u, put_lane, enter_scalar, &lane);
}

/* The gate of the row of turn `lane`. The row has one column per lane, beginning at the column of the block's first
 * gather. */
static const tg_uop *row_gate(tg_job *j, const gather *edge, int64_t first, int64_t lane) {
  const tg_uop *turn = edge->at.turns ? at_lane(j, edge->at.turns, lane) : NULL;
  if (!edge->at.rest) return turn;
  const tg_uop *begin =
      tg_fold2(j, TG_OP_ADD, at_lane(j, edge->at.rest, 0), tg_index(j, edge->at.constant - (edge->constant - first)));
  const tg_uop *within =
      tg_op2(j, TG_OP_LT, tg_op2(j, TG_OP_ADD, begin, tg_iota(j, TG_INDEX, edge->load->lanes)), tg_index(j, 0));
  return turn ? tg_op2(j, TG_OP_AND, within, turn) : within;
}

/* The load of the row that lane `lane` of all gathers of the block reads. src: sources of the load; begin: first
 * subscript along the contiguous dimension. */
static const tg_uop *row(tg_job *j, const tg_uop *load, const tg_uop *const *src, const block *b, const tg_uop *begin,
                         int64_t lane) {
  const tg_uop *now[16 + 4], *like = b->edge ? b->edge->load : load;
  uint32_t rank = tg_access_rank(load), n = b->member->ways ? 1 + rank : load->n;
  for (uint32_t i = 0; i < n; i++) now[i] = i ? at_lane(j, src[i], lane) : src[0];
  now[1 + b->member->unit] = tg_op2(j, TG_OP_ADD, begin, tg_iota(j, TG_INDEX, load->lanes));
  if (b->edge) {
    now[like->n - 2] = row_gate(j, b->edge, b->member->constant, lane);
    now[like->n - 1] = at_lane(j, like->src[like->n - 1], lane);
  }
  if (b->n * b->member->run == load->lanes || b->member->ways) return tg_fold(j, like, now);
  /* Mask off elements that no gather reads: they may be out of bounds. */
  const tg_uop *within = tg_op2(j, TG_OP_LT, tg_iota(j, TG_INDEX, load->lanes), tg_index(j, b->n * b->member->run)),
               *gate = tg_gate(load) ? tg_op2(j, TG_OP_AND, within, now[n - 2]) : within;
  return tg_load(j, now[0], now + 1, gate, tg_gate(load) ? now[n - 1] : tg_const_of(j, load->type, (tg_value){0}),
                 load->arg & ~(int64_t)TG_GATED);
}

/* A row is a vector, or, if no gather reads any of it, the one value that they have instead. */
static const tg_uop *picked(tg_job *j, const tg_uop *row, const tg_uop *lanes, const tg_uop *at) {
  tg_assert(&j->env, row->lanes == 1 || row->lanes == lanes->arg);
  return tg_shuffle(j, row, lanes, at);
}

/* In a step of size h the vectors r and r + h exchange runs whose number has bit h: of r those that have it, of the
 * other those that do not. */
static void transpose(tg_job *j, const tg_uop **v, uint32_t n, uint32_t run) {
  const tg_uop *iota = tg_iota(j, TG_I32, n * run), *lanes = tg_index(j, n * run);
  tg_assert(&j->env, n > 1 && !(n & (n - 1)));   /* halves are exchanged, down to 1 */
  for (uint32_t h = n / 2; h; h /= 2) {
    const tg_uop *bit = tg_const_int(j, TG_I32, h * run),
                 *low = tg_op2(j, TG_OP_EQ, tg_op2(j, TG_OP_AND, iota, bit), tg_const_int(j, TG_I32, 0)),
                 *other = tg_op2(j, TG_OP_XOR, iota, bit);
    for (uint32_t r = 0; r < n; r++) {
      if (r & h) continue;
      const tg_uop *a = v[r], *b = v[r + h];
      v[r] = tg_op3(j, TG_OP_WHERE, low, a, picked(j, b, lanes, other));
      v[r + h] = tg_op3(j, TG_OP_WHERE, low, picked(j, a, lanes, other), b);
    }
  }
}

/* Vector m of n: of its `count` lanes, lane l is that of row l % n in the column m * count / n + l / n. */
static void take_turns(tg_job *j, const tg_uop **v, uint32_t n, uint32_t count) {
  const tg_uop *row[64], *lanes = tg_index(j, count), *iota = tg_iota(j, TG_I32, count),
                         *turn = tg_op2(j, TG_OP_AND, iota, tg_const_int(j, TG_I32, n - 1)),
                         *column = tg_op2(j, TG_OP_SHR, iota, tg_const_int(j, TG_I32, __builtin_ctz(n)));
  tg_assert(&j->env, n > 1 && n <= TG_COUNT(row) && !(n & (n - 1)) && count % n == 0);   /* a turn is l & (n - 1) */
  memcpy(row, v, n * sizeof *v);
  for (uint32_t m = 0; m < n; m++) {
    const tg_uop *at = tg_op2(j, TG_OP_ADD, column, tg_const_int(j, TG_I32, m * (count / n)));
    v[m] = picked(j, row[0], lanes, at);
    for (uint32_t r = 1; r < n; r++)
      v[m] = tg_op3(j, TG_OP_WHERE, tg_op2(j, TG_OP_EQ, turn, tg_const_int(j, TG_I32, r)),
                    picked(j, row[r], lanes, at), v[m]);
  }
}

static const tg_uop *visit(tg_job *j, const tg_uop *old, const tg_uop *const *src, void *user) {
  state *s = user;
  if (old->op != TG_OP_LOAD || !s->of[old->id]) return NULL;
  block *b = &s->blocks.data[s->of[old->id] - 1];
  uint32_t run = b->member->run, n = old->lanes / run, unit = b->member->unit, me = 0, step = b->member->ways ? 1 : run;
  while (me < b->n && b->member[me].load != old) me++;
  tg_assert(&j->env, me < b->n && n * run == old->lanes && b->n <= n);
  if (!b->column) {
    const tg_uop *begin = tg_fold2(j, TG_OP_ADD, at_lane(j, src[1 + unit], 0), tg_index(j, -(int64_t)me * run));
    b->column = tg_new(&j->env, const tg_uop *, n);
    for (uint32_t l = 0; l < n; l++) b->column[l] = row(j, old, src, b, begin, (int64_t)l * step);
    if (b->member->ways) take_turns(j, b->column, n, old->lanes);
    else transpose(j, b->column, n, run);
  }
  return b->column[me];
}

const tg_uop *tg_transpose_gathers(tg_job *j, const tg_uop *sink) {
  tg_sweep w = tg_sweep_of(j, sink);
  state s = {.home = tg_homes_of(j, &w, sink), .of = tg_new(&j->env, uint32_t, sink->id + 1)};
  for (uint32_t i = 0; i < w.n; i++)
    if (w.u[i]->op == TG_OP_LOAD) see(j, &s, w.u[i]);
  if (!s.gathers.n) return sink;
  qsort(s.gathers.data, s.gathers.n, sizeof *s.gathers.data, in_order);
  find_blocks(j, &s);
  return s.blocks.n ? tg_sweep_map(j, sink, visit, &s) : sink;
}
