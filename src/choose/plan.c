/* SPDX-License-Identifier: MIT
 * Candidates for the first choice of a nest. Each is made from the roles of its axes: along which loops or terms
 * vectors may run, which loop's iterations share what is loaded, which operands would be gathered and can be copied to
 * lie side by side. For each such pair of axes tiles of all sizes are bounded in closed form: what is loaded and
 * computed, by the rates of the machine's row, the registers that the tile takes, and its chain. */
#include <math.h>
#include "choose/plan.h"
#include "model/sizes.h"
#include "model/walk.h"
#include "model/work.h"

enum { AXES = 32, NODES = 512, ROWS_MAX = 16, VECTORS_MAX = 4, SHARED_TILES = 2 };

/* What a statement of the nest consists of: a node, and the axes that it depends on, by bit: the loops, then the ranges
 * of reductions. */
/* kept: a term of a sum uses it, and it is the same for all terms. */
typedef struct { const tg_uop *u; uint32_t axes; bool folded, kept; } node;
typedef struct {
  tg_nest *n;
  const int64_t *params;         /* values of the parameters; NULL: none is open */
  uint32_t from;                 /* loops from here on may stand in any order */
  const tg_uop *axis[AXES];
  double extent[AXES];
  uint32_t loops, axes, nodes;
  node node[NODES];
  uint8_t *seen;                 /* by id: it is one of the nodes */
  const tg_uop *from_range[AXES], *to_range[AXES];   /* of sums of one loop: the range of the first for those of all */
  uint32_t same;
  uint32_t written_out;          /* axes of small sums of several ranges, which may be written out whole, by bit */
} roles;

static double extent_of(const roles *r, const tg_uop *range) {
  const tg_uop *e = tg_with_params(r->n->j, tg_extent(range), r->params);
  tg_bounds b = tg_bounds_of(r->n->j, e);
  return b.lo == b.hi ? (double)b.hi : 1024;
}

static void add_axis(roles *r, const tg_uop *range) {
  for (uint32_t i = 0; i < r->axes; i++)
    if (r->axis[i] == range) return;
  if (r->axes == AXES) return;
  r->axis[r->axes] = range;
  r->extent[r->axes++] = extent_of(r, range);
}

/* A product that is added up is one multiply-add with the sum. */
static void mark_folded(roles *r, const tg_uop *reduce) {
  if (tg_reduce_info(reduce).generic || tg_reduce_info(reduce).op != TG_OP_ADD) return;
  for (uint32_t i = 0; i < r->nodes; i++)
    if (r->node[i].u == reduce->src[0] && r->node[i].u->op == TG_OP_MUL) r->node[i].folded = true;
}

/* The axes of a reduction's ranges. */
static uint32_t axes_of(const roles *r, const tg_uop *reduce) {
  uint32_t axes = 0;
  for (uint32_t k = 0; k < tg_reduce_info(reduce).ranges; k++)
    for (uint32_t a = 0; a < r->axes; a++)
      if (r->axis[a] == tg_reduce_ranges(reduce)[k]) axes |= 1u << a;
  return axes;
}

/* Sums of one loop bind ranges of their own, which run together: here they are one. */
static void find_same(roles *r) {
  const tg_nest *n = r->n;
  const tg_range_info *info = n->j->ranges.data;
  for (uint32_t i = 1; i < n->reductions.n && r->same < AXES; i++) {
    const tg_uop *range = n->reductions.data[i].range;
    uint32_t from = info[tg_range_ordinal(range)].from, k = 0;
    if (!info[from].several || tg_reduce_info(n->reductions.data[i].reduce).ranges != 1) continue;
    while (k < i && info[tg_range_ordinal(n->reductions.data[k].range)].from != from) k++;
    if (k == i || tg_reduce_info(n->reductions.data[k].reduce).ranges != 1) continue;
    r->from_range[r->same] = range, r->to_range[r->same++] = n->reductions.data[k].range;
  }
}

static void add_node(roles *r, const tg_uop *u, uint32_t axes) {
  if (u->type == TG_INDEX || u->op == TG_OP_CONST || u->op == TG_OP_DEFINE || u->op == TG_OP_AFTER) return;
  if (r->nodes == NODES || r->seen[u->id]) return;
  node *v = &r->node[r->nodes++];
  r->seen[u->id] = true;
  *v = (node){.u = u, .axes = axes};
  if (u->op == TG_OP_REDUCE) { /* done once a term, though its value does not depend on the terms */
    v->axes |= axes_of(r, u);
    mark_folded(r, u);
  }
}

static void read_statement(roles *r, const tg_uop *store) {
  uint32_t count;
  const tg_uop **order = tg_toposort(r->n->j, store, &count);
  for (uint32_t i = 0; i < count; i++)
    if (order[i]->op == TG_OP_REDUCE)
      for (uint32_t k = 0; k < tg_reduce_info(order[i]).ranges; k++) add_axis(r, tg_reduce_ranges(order[i])[k]);
  uint32_t *varies = tg_new(&r->n->j->env, uint32_t, r->n->j->uops.n + 1);   /* with axes, outside of sums over them */
  for (uint32_t i = 0; i < count; i++) {
    const tg_uop *u = order[i];
    for (uint32_t k = 0; k < u->n; k++) varies[u->id] |= varies[u->src[k]->id];
    for (uint32_t a = 0; a < r->axes; a++)
      if (r->axis[a] == u) varies[u->id] |= 1u << a;
    if (u->op == TG_OP_REDUCE) varies[u->id] &= ~axes_of(r, u);
  }
  uint8_t *kept = tg_new(&r->n->j->env, uint8_t, r->n->j->uops.n + 1);
  const uint32_t loops = (uint32_t)((UINT64_C(1) << r->loops) - 1);
  for (uint32_t i = 0; i < count; i++)
    for (uint32_t k = 0; k < order[i]->n && varies[order[i]->id] & ~loops; k++)
      kept[order[i]->src[k]->id] |= !(varies[order[i]->src[k]->id] & ~loops);
  for (uint32_t i = 0; i < count; i++) {
    add_node(r, order[i], varies[order[i]->id]);
    if (kept[order[i]->id] && tg_is_float(order[i]->type) && r->nodes && r->node[r->nodes - 1].u == order[i])
      r->node[r->nodes - 1].kept = true;
  }
}

static void read_roles(tg_nest *n, const int64_t *params, roles *r) {
  const tg_uop **store = tg_new(&n->j->env, const tg_uop *, n->stores.n + 1);
  *r = (roles){.n = n, .params = params};
  for (uint32_t k = 0; k < n->depth; k++) add_axis(r, n->loop[k].range);
  r->loops = r->axes;
  find_same(r);
  for (uint32_t i = 0; i < n->stores.n; i++)
    store[i] = tg_substitute(n->j, n->stores.data[i], r->same, r->from_range, r->to_range);
  r->seen = tg_new(&n->j->env, uint8_t, n->j->uops.n + 1);
  for (uint32_t i = 0; i < n->stores.n; i++) read_statement(r, store[i]);
}

/* ---- copies of operands ---- */

uint32_t tg_nest_dimension_along(tg_job *j, const tg_uop *load, const tg_uop *range) {
  uint32_t rank = tg_access_rank(load), found = rank;
  for (uint32_t d = 0; d < rank; d++) {
    tg_linear f;
    if (!tg_uses(j, load->src[1 + d], range)) continue;
    tg_linear_of(j, load->src[1 + d], &f);
    bool next = false;
    for (uint32_t i = 0; i < f.n; i++) next |= f.atom[i] == range && f.coefficient[i] == 1;
    if (found < rank || !next) return rank;
    found = d;
  }
  return found;
}

static bool only_read(tg_nest *n, const tg_uop *load) {
  const tg_uop *define = tg_define_of(load->src[0]);
  if (tg_buffer_info(n->j, define)->role != TG_ROLE_IN) return false;
  uint32_t loads = 0;
  for (uint32_t i = 0; i < n->loads.n; i++) loads += tg_define_of(n->loads.data[i]->src[0]) == define;
  return loads == 1;
}

/* Elements of the copy for each iteration of the loop; 0: not known. */
static double elements_beside(tg_nest *n, const tg_uop *load, uint32_t dimension) {
  const tg_uop *define = tg_define_of(load->src[0]);
  double all = 1;
  for (uint32_t d = 0; d < tg_access_rank(load); d++) {
    if (d == dimension) continue;
    bool outside = true;
    for (uint32_t i = 0; i < n->reductions.n && outside; i++)
      for (uint32_t k = 0; k < tg_reduce_info(n->reductions.data[i].reduce).ranges; k++)
        outside &= !tg_uses(n->j, load->src[1 + d], tg_reduce_ranges(n->reductions.data[i].reduce)[k]);
    if (outside && n->loop[n->depth - 1].end->n == 2) continue;
    if (define->src[d]->op != TG_OP_CONST) return 0;
    all *= (double)define->src[d]->arg;
  }
  return all;
}

bool tg_nest_may_stage(tg_nest *n, const tg_uop *load, const tg_uop *along) {
  uint32_t dimension = tg_nest_dimension_along(n->j, load, along);
  if (dimension == tg_access_rank(load) || !only_read(n, load)) return false;
  double bytes = elements_beside(n, load, dimension) * tg_type_bytes(load->type) * n->lanes;
  return bytes > 0 && bytes <= (double)n->l->target->l2 / 4;
}

/* ---- the bound ---- */

typedef struct { double math, loads, shuffles, instructions; } busy;
/* Sums that run together: their accumulators, and how many sums they are. */
typedef struct { double chains; uint32_t sums; } together;

double tg_nest_cycles(const tg_nest *n, const double *by_width) {
  double cycles = tg_machine_cycles(by_width, n->l->target->vector_bytes);
  return cycles > 0 ? cycles : 1;
}

/* Is what the load reads the same for all rows of a tile, so that it is loaded once for them? Each node is computed as
 * often as the axes that it depends on have iterations, and once a tile along those that it does not depend on. */
static double times_of(const roles *r, const node *v, const tg_plan *p, uint32_t lane_axis) {
  double times = 1;
  for (uint32_t a = 0; a < r->axes; a++) {
    bool uses = v->axes >> a & 1;
    double tile = a == lane_axis ? (double)p->vectors * r->n->lanes : a == p->row && a < r->loops ? p->rows : 1;
    double blocks = ceil(r->extent[a] / tile);
    if (a >= r->loops && !uses) continue;   /* outside of that sum */
    times *= !uses ? blocks : a == lane_axis ? blocks * p->vectors : blocks * tile;
  }
  return times;
}

/* Does a load read what another one of the same nest, which comes before it, reads for a neighbouring row? Then one row
 * of a tile is its own. */
static bool follows(const roles *r, const node *v, uint32_t row) {
  tg_job *j = r->n->j;
  for (const node *w = r->node; w < v; w++) {
    if (w->u->op != TG_OP_LOAD || tg_define_of(w->u->src[0]) != tg_define_of(v->u->src[0])) continue;
    bool shifted = false, same = true;
    for (uint32_t d = 0; d < tg_access_rank(v->u) && same; d++) {
      const tg_uop *x = v->u->src[1 + d], *y = w->u->src[1 + d];
      tg_linear f;
      if (x == y) continue;
      tg_linear_of(j, tg_op2(j, TG_OP_SUB, x, y), &f);
      same = !f.n && tg_uses(j, x, r->axis[row]), shifted = true;
    }
    if (same && shifted) return true;
  }
  return false;
}

/* What a block of rows reads of what its rows read one by one, where all terms of a window are written out: a window
 * that moves on with the row meets again what the rows before have loaded. 1: it does not move along the row. */
static double window(const roles *r, const node *v, uint32_t row, double rows) {
  tg_job *j = r->n->j;
  double part = 1;
  for (uint32_t d = 0; d < tg_access_rank(v->u); d++) {
    const tg_uop *sub = v->u->src[1 + d];
    int64_t step = 0, within = 0;
    double terms = 0;
    tg_linear f;
    if (!tg_uses(j, sub, r->axis[row])) continue;
    tg_linear_of(j, sub, &f);
    for (uint32_t i = 0; i < f.n; i++) {
      if (f.atom[i] == r->axis[row]) step = f.coefficient[i];
      for (uint32_t a = r->loops; a < r->axes; a++)
        if (f.atom[i] == r->axis[a] && r->written_out >> a & 1) within = f.coefficient[i], terms = r->extent[a];
    }
    if (part < 1 || step <= 0 || within <= 0 || step % within) return 1;   /* it moves along two dimensions */
    step /= within;
    part = fmin(1, ((rows - 1) * (double)step + terms) / (rows * terms));
  }
  return part;
}

static void add_load(const roles *r, const node *v, const tg_plan *p, uint32_t lane_axis, busy *b) {
  const tg_machine *m = &r->n->l->target->machine;
  const tg_uop *range = r->axis[lane_axis];
  tg_motion motion = v->axes >> lane_axis & 1 ? tg_access_motion(r->n->j, v->u, range) : TG_STILL;
  bool load = v->u->op == TG_OP_LOAD;
  double cycles = tg_nest_cycles(r->n, load ? m->load : m->store), times = times_of(r, v, p, lane_axis);
  if (load && p->row < r->loops && follows(r, v, p->row)) times /= p->rows;
  else if (load && p->row < r->loops && p->whole) times *= window(r, v, p->row, p->rows);
  if (motion == TG_STRIDES && p->kind == TG_PLAN_COLUMNS && tg_nest_may_stage(r->n, v->u, range))
    motion = TG_CONTIGUOUS;
  if (motion == TG_STRIDES)
    cycles = r->n->lanes * (m->gather_lane < m->insert_lane ? m->gather_lane : m->insert_lane);
  if (motion == TG_STILL) cycles = 1 / (load ? m->load[0] : m->store[0]);   /* one element */
  if (motion == TG_NEAR || motion == TG_BACKWARDS) b->shuffles += times;
  if (motion == TG_NEAR) cycles *= 2;
  b->loads += cycles * times, b->instructions += times;
}

static double blocks_of(const roles *r, const tg_plan *p, uint32_t lane_axis, uint32_t a) {
  if (p->whole && r->written_out >> a & 1) return 1;
  double tile = a == lane_axis ? (double)p->vectors * r->n->lanes : a == p->row && a < r->loops ? p->rows : 1;
  return ceil(r->extent[a] / tile);
}

/* Iterations of the innermost loops, whose ends and counters cost two instructions each: sums that share no range are
 * loops one after another. */
static double iterations_of(const roles *r, const tg_plan *p, uint32_t lane_axis) {
  double outer = 1, all = 0;
  uint32_t seen[NODES], n = 0, loops = (uint32_t)((UINT64_C(1) << r->loops) - 1);
  for (uint32_t a = 0; a < r->loops; a++) outer *= blocks_of(r, p, lane_axis, a);
  for (uint32_t i = 0; i < r->nodes; i++) {
    uint32_t axes = r->node[i].axes & ~loops, k = 0;
    if (r->node[i].u->op != TG_OP_REDUCE) continue;
    while (k < n && seen[k] != axes) k++;
    if (k < n) continue;
    seen[n++] = axes;
    double terms = 1;
    for (uint32_t a = r->loops; a < r->axes; a++)
      if (axes >> a & 1) terms *= blocks_of(r, p, lane_axis, a);
    all += terms;
  }
  return outer * fmax(1, all);
}

/* The outermost of the loops that a sum runs in, which sums inside of one another, or of one loop, have in common. */
static uint32_t loop_of(const roles *r, const node *sum) {
  uint32_t a = r->axes;
  while (a > r->loops && !(sum->axes >> (a - 1) & 1)) a--;
  return a;
}

/* How much longer it takes for want of registers, and of accumulators that the multipliers could go on with. */
static double waits(const tg_nest *n, const tg_plan *p, const together *t, double kept) {
  const tg_machine *m = &n->l->target->machine;
  double math = tg_nest_cycles(n, m->fma), wait = m->fma_latency / (t->chains * math);
  /* what a row loads waits for the next sum that takes it, where there are several */
  double room = t->chains + p->vectors + 1 + kept + (t->sums > 1 ? p->rows : 0), longer = fmax(1, wait);
  /* a register too many is stored and loaded in each iteration */
  if (room > n->registers) longer *= 1 + 2 * tg_nest_cycles(n, m->store) * (room - n->registers) / (t->chains * math);
  return longer;
}

/* Cycles in which copies come from L2, where those for a block of the loop do not fit L1: then each tile reads them
 * from there. */
static double copies_of(const roles *r, const tg_plan *p, uint32_t lane_axis) {
  tg_nest *n = r->n;
  const tg_uop *range = r->axis[lane_axis];
  double held = 0, bytes = 0, width = (double)p->vectors * n->lanes;
  for (uint32_t i = 0; i < r->nodes && p->kind == TG_PLAN_COLUMNS; i++) {
    const node *v = &r->node[i];
    if (v->u->op != TG_OP_LOAD || tg_access_motion(n->j, v->u, range) != TG_STRIDES ||
        !tg_nest_may_stage(n, v->u, range))
      continue;
    double element = tg_type_bytes(v->u->type);
    held += elements_beside(n, v->u, tg_nest_dimension_along(n->j, v->u, range)) * width * element;
    bytes += times_of(r, v, p, lane_axis) * n->lanes * element;
  }
  return held > (double)n->l->target->l1 ? bytes / n->l->target->machine.l2_bandwidth : 0;
}

/* Cycles of the core, for the whole nest. */
static double bound_of(const roles *r, const tg_plan *p, uint32_t lane_axis) {
  const tg_machine *m = &r->n->l->target->machine;
  double math = tg_nest_cycles(r->n, m->fma), add = tg_nest_cycles(r->n, m->add);
  busy b = {0};
  together sums[AXES + 1] = {{0}};
  double kept = 0, longer = 1;
  for (uint32_t i = 0; i < r->nodes; i++) {
    const node *v = &r->node[i];
    double times = times_of(r, v, p, lane_axis);
    if (v->kept) kept += (v->axes >> lane_axis & 1 ? p->vectors : 1) * (v->axes >> p->row & 1 ? p->rows : 1);
    bool sum = v->u->op == TG_OP_REDUCE;
    if (sum) {
      together *t = &sums[loop_of(r, v)];
      t->chains += (v->axes >> lane_axis & 1 ? p->vectors : 1) * p->rows, t->sums++;
    }
    if (v->u->op == TG_OP_LOAD || v->u->op == TG_OP_STORE) add_load(r, v, p, lane_axis, &b);
    else if (!v->folded) b.instructions += times;
    if (v->u->op == TG_OP_LOAD || v->u->op == TG_OP_STORE) continue;
    if (v->u->op == TG_OP_CAST) b.shuffles += times;
    else if (!v->folded) b.math += times * (sum ? math : add);
    if (sum && p->kind == TG_PLAN_TERMS) b.shuffles += 3 * log2(r->n->lanes) * times_of(r, v, p, lane_axis) /
                                                       fmax(1, r->extent[lane_axis] / (r->n->lanes * p->vectors));
  }
  b.instructions += 2 * iterations_of(r, p, lane_axis);
  double core = pow(pow(b.math, 3) + pow(b.loads, 3) + pow(b.shuffles * tg_nest_cycles(r->n, m->shuffle), 3) +
                        pow(b.instructions / m->issue, 3),
                    1.0 / 3);
  for (uint32_t a = 0; a <= r->axes; a++)
    if (sums[a].chains > 0) longer = fmax(longer, waits(r->n, p, &sums[a], kept));
  return pow(pow(core * longer, 4) + pow(copies_of(r, p, lane_axis), 4), 0.25);   /* as the model has them overlap */
}

/* ---- the candidates ---- */

typedef struct { tg_plan *out; uint32_t n; } list;

static void drop(list *l, uint32_t at) {
  for (uint32_t i = at; i + 1 < l->n; i++) l->out[i] = l->out[i + 1];
  l->n--;
}

/* A full list of vectors along one axis gives its last place to vectors along another. */
static void make_room(list *l, const tg_plan *p) {
  for (uint32_t i = l->n; l->n == TG_PLANS && i-- > TG_PLANS / 2;) {
    uint32_t same = 0;
    for (uint32_t k = 0; k < l->n; k++) same += l->out[k].kind == l->out[i].kind && l->out[k].lane == l->out[i].lane;
    if (same > TG_PLANS / 2 && (l->out[i].kind != p->kind || l->out[i].lane != p->lane)) drop(l, i);
  }
}

/* Those with the least bounds; of one pair of axes a few at most, so that other pairs are tried as well. */
static void keep(list *l, const tg_plan *p) {
  uint32_t same = 0, worst = UINT32_MAX, at = 0;
  for (uint32_t i = 0; i < l->n; i++) {
    const tg_plan *q = &l->out[i];
    if (q->kind != p->kind || q->lane != p->lane || q->row != p->row || q->whole != p->whole) continue;
    same++;
    if (worst == UINT32_MAX || q->bound > l->out[worst].bound) worst = i;
  }
  if (same >= SHARED_TILES) {
    if (l->out[worst].bound <= p->bound) return;
    drop(l, worst);
  }
  make_room(l, p);
  while (at < l->n && l->out[at].bound <= p->bound) at++;
  if (at == TG_PLANS) return;
  if (l->n < TG_PLANS) l->n++;
  for (uint32_t i = l->n - 1; i > at; i--) l->out[i] = l->out[i - 1];
  l->out[at] = *p;
}

/* whole: where the terms of small sums are written out. */
static bool shares(const roles *r, uint32_t row, uint32_t lane_axis, bool whole) {
  for (uint32_t i = 0; i < r->nodes; i++)
    if (r->node[i].u->op == TG_OP_LOAD && r->node[i].axes >> lane_axis & 1 &&
        (!(r->node[i].axes >> row & 1) || follows(r, &r->node[i], row) ||
         (whole && window(r, &r->node[i], row, 2) < 1)))
      return true;
  return false;
}

/* All sizes of tiles for this axis of vectors. */
static void tiles(const roles *r, tg_plan_kind kind, uint32_t lane, uint32_t lane_axis, list *l) {
  const tg_nest *n = r->n;
  const uint32_t most = r->written_out && kind == TG_PLAN_COLUMNS ? 2 : 1;
  for (uint32_t row = r->from; row <= r->loops; row++) {
    bool none = row == r->loops;
    if (row == lane_axis || (!none && !n->loop[row].lockstep)) continue;
    uint32_t whole = 0;
    while (!none && whole < most && !shares(r, row, lane_axis, whole)) whole++;
    for (; whole < most; whole++)
      for (uint32_t vectors = 1; vectors <= VECTORS_MAX; vectors++)
        for (uint32_t rows = none ? 1 : 2; rows <= (none ? 1 : ROWS_MAX); rows++) {
          if (vectors > 1 && (double)(vectors * n->lanes) > r->extent[lane_axis]) continue;
          if (!none && rows > r->extent[row]) continue;
          tg_plan p = {.kind = kind, .lane = lane, .row = none ? NEST_MAX : row};
          p.vectors = vectors, p.rows = rows, p.from = r->from, p.whole = whole;
          p.window = !none && whole && row < lane_axis && !shares(r, row, lane_axis, false);
          p.bound = bound_of(r, &p, lane_axis);
          keep(l, &p);
        }
  }
}

static bool is_atomic(const tg_nest *n) {
  for (uint32_t i = 0; i < n->stores.n; i++)
    if (n->stores.data[i]->arg & TG_ATOMIC) return true;
  return false;
}

static bool constant_sizes(const tg_uop *u) {
  if (u->op == TG_OP_DEFINE)
    for (uint32_t d = 0; d < u->n; d++)
      if (u->src[d]->op != TG_OP_CONST) return false;
  for (uint32_t i = 1; u->op == TG_OP_END && i < u->n; i++)
    if (!constant_sizes(u->src[i])) return false;
  return true;
}

bool tg_nest_is_open(const tg_nest *n) {
  bool open = false;
  for (uint32_t k = 0; k < n->depth; k++) open |= n->loop[k].extent < 0;
  return open;
}

/* Nothing but stores in the innermost loop? */
static bool is_perfect(const tg_nest *n) {
  const tg_uop *end = n->loop[n->depth - 1].end;
  for (uint32_t i = 1; i < end->n; i++)
    if (end->src[i]->op != TG_OP_STORE) return false;
  return end->n > 1;
}

/* Is there a sum for each iteration of the loop that is the same for all iterations of a loop inside of it? As the mean
 * of a column that each of its elements is divided by: the loop inside must stay inside, else it is summed for each. */
static bool sums_before(const tg_nest *n, uint32_t k) {
  for (uint32_t i = 0; i < n->reductions.n; i++) {
    const tg_uop *sum = n->reductions.data[i].reduce;
    if (!tg_uses(n->j, sum, n->loop[k].range)) continue;
    for (uint32_t inside = k + 1; inside < n->depth; inside++)
      if (!tg_uses(n->j, sum, n->loop[inside].range)) return true;
  }
  return false;
}

/* The work inside the loop decides how many vectors there may be; which is best, the model says. */
static void around(const roles *r, list *l) {
  tg_nest *n = r->n;
  bool perfect = is_perfect(n) && n->reductions.n;
  if (!constant_sizes(n->top)) return;
  for (uint32_t k = 0; k < n->depth; k++) {
    const tg_nest_loop *loop = &n->loop[k];
    if (perfect && !sums_before(n, k)) continue;
    if (!loop->lockstep || !loop->parallel || loop->members > 1 || r->extent[k] < n->lanes) continue;
    /* more run side by side; of columns far apart, whole lines in a row, as prefetchers want them */
    for (uint32_t vectors = 2 * VECTORS_MAX; vectors > 0; vectors /= 2) {
      if (vectors > 1 && (double)(vectors * n->lanes) > r->extent[k]) continue;
      tg_plan p = {.kind = TG_PLAN_AROUND, .lane = k, .row = NEST_MAX, .vectors = vectors, .rows = 1};
      if (l->n < TG_PLANS) l->out[l->n++] = p;
    }
  }
}

/* Has a sum of the nest terms enough for so many vectors at once? */
static bool sums_that_long(const tg_nest *n, uint32_t vectors) {
  for (uint32_t i = 0; i < n->reductions.n; i++)
    if (n->reductions.data[i].extent < 0 || n->reductions.data[i].extent >= (int64_t)vectors * n->lanes) return true;
  return false;
}

/* Statements of several kinds in a loop: rows side by side, sums with more or fewer accumulators, and each statement as
 * it likes where a tile that no registers hold ties them. */
static void rows(const roles *r, list *l) {
  static const tg_plan some[] = {{.rows = 1, .vectors = 4, .apart = true}, {.rows = 2, .vectors = 4, .apart = true},
                                 {.rows = 2, .vectors = 2}, {.rows = 4, .vectors = 1}, {.rows = 1, .vectors = 8},
                                 {.rows = 2, .vectors = 4, .wide = 4, .apart = true},
                                 {.rows = 1, .vectors = 4, .wide = 8, .apart = true}};
  tg_nest *n = r->n;
  const tg_nest_loop *loop = &n->loop[0];
  bool tied = tg_nest_place_tiles(n, n->top, 1, false);
  if (!n->reductions.n) return;
  for (uint32_t i = 0; i < TG_COUNT(some) && l->n < TG_PLANS; i++) {
    tg_plan p = some[i];
    bool side = loop->lockstep && loop->parallel && loop->members == 1 && loop->extent % p.rows == 0;
    if (p.apart != tied || (p.rows > 1 && (!side || loop->extent < (int64_t)p.rows))) continue;
    if (!p.apart && p.rows < 2 && !sums_that_long(n, p.vectors)) continue;   /* what the class has */
    p.kind = TG_PLAN_ROWS, p.row = NEST_MAX;
    l->out[l->n++] = p;
  }
}

/* Do all reads of the sum's terms jump from one to the next, while they are neighbours along the loop? */
static bool jumps(const tg_nest *n, const tg_nest_reduce *s, const tg_nest_loop *lane) {
  bool any = false;
  for (uint32_t i = 0; i < n->loads.n; i++) {
    const tg_uop *load = n->loads.data[i];
    tg_motion along = tg_access_motion(n->j, load, lane->range);
    if (along != TG_CONTIGUOUS && along != TG_STILL) return false;
    if (along == TG_STILL || !tg_uses(n->j, load, s->range)) continue;
    if (tg_access_motion(n->j, load, s->range) != TG_STRIDES) return false;
    any = true;
  }
  return any;
}

/* A sum of rows: what is read lies in memory as it is added, if some terms of all elements come before others. Between
 * them the output is read and written, the less often the more there are; their rows are as many sequences. */
static void outside(const roles *r, list *l) {
  enum { LEAST = 16, FEWEST = 4, MOST = 16 };
  tg_nest *n = r->n;
  const tg_machine *m = &n->l->target->machine;
  if (n->reductions.n != 1 || n->stores.n != 1 || tg_nest_is_open(n)) return;
  const tg_nest_reduce *s = &n->reductions.data[0];
  tg_reduce_arg a = tg_reduce_info(s->reduce);
  const tg_nest_loop *lane = &n->loop[n->depth - 1];
  if (a.op != TG_OP_ADD || a.generic || a.in_order || s->extent < LEAST || !tg_nest_keeps_blocks(n, s) ||
      tg_nest_axis_of(n, s->name).members != 1 || lane->members != 1 || !lane->lockstep || !lane->parallel ||
      lane->extent < 2 * tg_nest_line(n) || tg_access_motion(n->j, n->stores.data[0], lane->range) != TG_CONTIGUOUS ||
      !jumps(n, s, lane))
    return;
  double vectors = (double)s->extent / n->lanes;
  for (uint32_t k = 0; k < n->depth; k++) vectors *= (double)n->loop[k].extent;
  for (uint32_t terms = FEWEST; terms <= MOST && 2 * terms <= s->extent; terms *= 2) {
    tg_plan p = {.kind = TG_PLAN_OUTSIDE, .lane = n->depth - 1, .row = NEST_MAX, .vectors = 1, .rows = terms};
    double loads = vectors * (1 + 1.0 / terms), stores = vectors / terms;
    p.bound = pow(pow(vectors * tg_nest_cycles(n, m->add), 3) + pow(loads * tg_nest_cycles(n, m->load), 3) +
                      pow(stores * tg_nest_cycles(n, m->store), 3) + pow((vectors + loads + stores) / m->issue, 3),
                  1.0 / 3);
    keep(l, &p);
  }
}

static bool is_subscript(const tg_nest *n, const tg_uop *load) {
  for (uint32_t i = 0; i < n->loads.n + n->stores.n; i++) {
    const tg_uop *access = i < n->loads.n ? n->loads.data[i] : n->stores.data[i - n->loads.n];
    for (uint32_t d = 0; d < tg_access_rank(access); d++)
      if (access != load && tg_uses(n->j, access->src[1 + d], load)) return true;
  }
  return false;
}

const tg_uop *tg_nest_subscript(tg_nest *n) {
  const tg_uop *range = n->loop[n->depth - 1].range;
  for (uint32_t i = 0; i < n->loads.n; i++) {
    const tg_uop *load = n->loads.data[i];
    uint32_t dimension = tg_nest_dimension_along(n->j, load, range);
    if (dimension + 1 == tg_access_rank(load) && tg_buffer_info(n->j, load->src[0])->lo && only_read(n, load) &&
        is_subscript(n, load))
      return load;
  }
  return NULL;
}

/* Elements that are counted where a number from memory says: iterations one by one, whose subscripts are clamped to
 * what is promised of them. A block of them is clamped ahead by vectors. */
static void subscripts(const roles *r, list *l) {
  enum { LEAST = 4, MOST = 16 };
  tg_nest *n = r->n;
  const tg_nest_loop *loop = &n->loop[n->depth - 1];
  if (loop->lockstep || loop->members > 1 || !loop->extent_text || !tg_nest_subscript(n)) return;
  for (uint32_t vectors = LEAST; vectors <= MOST && vectors * n->lanes <= r->extent[n->depth - 1]; vectors *= 2) {
    tg_plan p = {.kind = TG_PLAN_SUBSCRIPTS, .lane = n->depth - 1, .row = NEST_MAX, .vectors = vectors, .rows = 1};
    if (l->n < TG_PLANS) l->out[l->n++] = p;
  }
}

/* One loop without sums: how many vectors at once, other than its class has. */
static void flat(const roles *r, list *l) {
  tg_nest *n = r->n;
  uint32_t own = tg_nest_class_vectors(n);
  while (own > 1 && (double)(own * n->lanes) > r->extent[0]) own /= 2;
  tg_nest_axis axis = tg_nest_axis_of(n, n->loop[0].name);
  if (!axis.cut || !axis.alike || !tg_nest_vectorises(n, &n->loop[0], n->stores.data, n->stores.n)) return;
  for (uint32_t vectors = 2 * VECTORS_MAX; vectors > 0; vectors /= 2) {
    if (vectors == own || (vectors > 1 && (double)(vectors * n->lanes) > r->extent[0])) continue;
    tg_plan p = {.kind = TG_PLAN_FLAT, .lane = 0, .row = NEST_MAX, .vectors = vectors, .rows = 1};
    if (l->n < TG_PLANS) l->out[l->n++] = p;
  }
}

/* Is the reduction the first along its axis, and are all ranges of the axis those of sums of this nest? */
static bool sums_once(tg_nest *n, uint32_t which) {
  tg_nest_axis axis = tg_nest_axis_of(n, n->reductions.data[which].name);
  uint32_t sums = 0;
  for (uint32_t i = 0; i < n->reductions.n; i++) {
    if (strcmp(n->reductions.data[i].name, n->reductions.data[which].name)) continue;
    if (i < which || tg_reduce_info(n->reductions.data[i].reduce).ranges != 1) return axis.members == 1 && i >= which;
    sums++;
  }
  return axis.lockstep && axis.members == sums;
}

/* Ranges of sums of several, which are few terms in all. */
static uint32_t may_write_out(const roles *r) {
  uint32_t axes = 0;
  for (uint32_t i = 0; i < r->n->reductions.n; i++) {
    const tg_uop *sum = r->n->reductions.data[i].reduce;
    uint32_t some = tg_nest_small_ranges(r->n, sum, TG_TERMS_SOME),
             small = tg_nest_small_ranges(r->n, sum, TG_TERMS_MOST);
    for (uint32_t k = 0; small > (some > 1 ? 1 : some) && k < small; k++)
      for (uint32_t a = r->loops; a < r->axes; a++)
        if (r->axis[a] == tg_reduce_ranges(sum)[tg_reduce_info(sum).ranges - 1 - k]) axes |= 1u << a;
  }
  return axes;
}

/* Those of the nest at these values of the parameters. */
static uint32_t plans_at(tg_nest *n, const int64_t *params, tg_plan *out) {
  list l = {.out = out};
  roles *r = tg_new(&n->j->env, roles, 1);
  read_roles(n, params, r);
  if (!is_perfect(n)) {
    rows(r, &l);
    around(r, &l);
    return l.n;
  }
  if (!n->reductions.n) subscripts(r, &l);
  if (n->stores.n > 1 && !n->reductions.n) {
    around(r, &l);
    return l.n;
  }
  if (n->depth == 1 && !n->reductions.n) {
    flat(r, &l);
    return l.n;
  }
  r->from = tg_nest_in_any_order(n);
  r->written_out = may_write_out(r);
  if (n->reductions.n) around(r, &l);
  for (uint32_t k = r->from; k < n->depth; k++)
    if (n->loop[k].lockstep && r->extent[k] >= n->lanes) tiles(r, TG_PLAN_COLUMNS, k, k, &l);
  for (uint32_t i = 0; i < n->reductions.n; i++) {
    const tg_nest_reduce *s = &n->reductions.data[i];
    if (r->from || !s->contiguous || (s->extent >= 0 && s->extent < n->lanes) || !sums_once(n, i)) continue;
    for (uint32_t a = r->loops; a < r->axes; a++)
      if (r->axis[a] == s->range) tiles(r, TG_PLAN_TERMS, i, a, &l);
  }
  if (!r->from) outside(r, &l);
  return l.n;
}

static bool same_plan(const tg_plan *p, const tg_plan *q) {
  return p->kind == q->kind && p->lane == q->lane && p->row == q->row && p->vectors == q->vectors &&
         p->rows == q->rows && p->from == q->from && p->apart == q->apart && p->wide == q->wide &&
         p->whole == q->whole && p->window == q->window;
}

uint32_t tg_nest_plans(tg_nest *n, tg_plan *out) {
  if (!n->depth || n->lanes < 2 || n->copies > 1 || is_atomic(n)) return 0;
  if (!tg_nest_is_open(n) && n->work < TG_THREAD_WORK) return 0;
  tg_sizes at = tg_sizes_of(n->j, n->l->target, n->s.sink);
  if (!at.n) return plans_at(n, NULL, out);
  tg_plan of[TG_SIZES][TG_PLANS];
  uint32_t count[TG_SIZES], made = 0;
  for (uint32_t i = 0; i < at.n; i++) count[i] = plans_at(n, at.params[i], of[i]);
  for (uint32_t k = 0; k < TG_PLANS; k++)   /* of each size those with the least bounds, in turns */
    for (uint32_t i = 0; i < at.n && made < TG_PLANS; i++) {
      bool known = k >= count[i];
      for (uint32_t p = 0; p < made && !known; p++) known = same_plan(&out[p], &of[i][k]);
      if (!known) out[made++] = of[i][k];
    }
  return made;
}
