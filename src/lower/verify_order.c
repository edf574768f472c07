/* SPDX-License-Identifier: MIT
 * The spec of order: does a form keep the order of accesses of the author's program? Pass schedule proves this for its
 * words (ranges/kept.c) from what it knows of the author's loops. Later forms have only subscripts, gates, split
 * indices, vectors and offsets, from which the proof often is not possible, and an order that is merely unproved is no
 * fault of a pass. So this file looks for certain faults: two accesses, with values of all ranges and parameters, in
 * bounds and with their gates true, that touch the same element of memory which both share, one of them storing, and
 * that are
 *
 *     of two tasks (iterations of a thread or global range), without the end of a phase between them;
 *     or of two iterations in lockstep that the author's loop runs one after another, if their order is reversed or
 *       they are in one statement;
 *     or of two iterations in lockstep, in one statement, whoever gave the kind;
 *     or of two threads of a workgroup (after pass expand), without a barrier between them;
 *     or two lanes of one store.
 *
 * Which access comes first is defined as in ranges/kept.c, but asked of values instead of polynomials.
 *
 * The subscripts of each access are computed for some iterations (the first ones and the last of each range), and
 * their elements are looked up among those of the other accesses. Then, for each pair, the iteration of the second
 * access that touches the first's element is solved for, with the subscripts read as mixed-radix numbers. Subscripts
 * and gates that depend on memory are skipped. The constants below bound the work for programs of any size; finding no
 * fault proves nothing. */
#include <stdlib.h>
#include "dsl/text.h"
#include "lower/verify.h"
#include "lower/verify_values.h"

enum {
  INSTANCES = 1 << 12,   /* at most, in total, for each choice of parameters */
  SAMPLES = 250,         /* at most this many iterations of one access */
  FEWEST = 24,           /* at least this many */
  VARIABLES = 28,        /* ranges around an access, and those of reductions in its subscripts */
  AT_ONE = 8,            /* instances kept per element */
  ALIKE = 3,             /* of these, from one access in the same parallel iterations */
  KEPT = 3,              /* instances per access against which other accesses are solved */
  SOLVED = 800,          /* pairs that are solved, at most */
  CHOICES = 2,           /* choices of parameters that are tried */
  RANK = 16
};

typedef enum { IN_ORDER, LOCKSTEP, TASKS } way;

typedef struct {
  const tg_uop *node, *statement;      /* LOAD or STORE, and the statement that contains it */
  /* order: position of the statement in the text; depth: number of loops around it */
  uint32_t order, buffer, depth;
  const tg_uop *const *end;            /* the loops around, outermost first */
  const uint32_t *at;                  /* path to it: source index in the SINK, in end[0], .. */
  /* number of outer loops whose every iteration has its own copy of the memory (DEFINE inside them) */
  uint32_t shared;
  uint32_t lanes, rank, vars;
  const tg_uop *var[VARIABLES];        /* RANGEs of the loops around it, then of reductions in it */
  tg_node_program extent[VARIABLES], self;
  uint32_t kept[KEPT], keeps, touched;
} access;

/* One access with values of its ranges. next: index + 1 of another instance at the same element; 0: none */
typedef struct { uint32_t access, lane, next; const int64_t *values; const int64_t *subscripts; } instance;

typedef struct {
  tg_job *j;
  const tg_uop *sink;
  const tg_authored *author;
  bool expanded, linear;               /* the form is after pass expand; after pass linear */
  TG_VEC(access) all;
  uint8_t *stored;                     /* by buffer ordinal */
  uint32_t *define_depth;
  uint8_t *barrier;                    /* by node id: 1 for a BARRIER, and for an END that contains one */
  uint32_t order;
  tg_node_values values;
  TG_VEC(instance) instances;
  /* table: by hash of the element, index + 1 of the last instance there; 0: none */
  uint32_t table[2 * INSTANCES], solved;
  tg_order_faults *faults;
} search;

static way way_of(const tg_uop *range) {
  tg_kind k = tg_range_kind(range);
  return k == TG_THREAD || k == TG_GLOBAL                  ? TASKS
         : k == TG_LANE || k == TG_UPCAST || k == TG_LOCAL ? LOCKSTEP
                                                           : IN_ORDER;
}

/* ---- the author's order ---- */

static const tg_uop *find_end(const tg_uop *u, uint32_t ordinal) {
  if (u->op != TG_OP_END && u->op != TG_OP_SINK) return NULL;
  if (u->op == TG_OP_END && tg_range_ordinal(u->src[0]) == ordinal) return u;
  for (uint32_t i = u->op == TG_OP_END; i < u->n; i++) {
    const tg_uop *e = find_end(u->src[i], ordinal);
    if (e) return e;
  }
  return NULL;
}

tg_authored *tg_authored_of(tg_job *j, const tg_uop *sink, const char *stage) {
  tg_authored *a = tg_new(&j->env, tg_authored, 1);
  a->sink = sink;
  a->offsets = tg_stage_index(stage) >= tg_stage_index("index");
  return a;
}

static void see_scheduled(tg_job *j, tg_authored *a, const tg_uop *u) {
  if (u->op == TG_OP_END && way_of(u->src[0]) == LOCKSTEP) {
    uint32_t ordinal = tg_range_ordinal(u->src[0]), from = j->ranges.data[ordinal].from;
    const tg_uop *end = find_end(a->sink, from);
    a->reordered[ordinal] = !end || way_of(end->src[0]) != LOCKSTEP;
  }
  for (uint32_t i = u->op == TG_OP_END; i < u->n && (u->op == TG_OP_END || u->op == TG_OP_SINK); i++)
    see_scheduled(j, a, u->src[i]);
}

void tg_authored_scheduled(tg_job *j, tg_authored *a, const tg_uop *scheduled, bool unjudged) {
  a->unjudged = unjudged;
  a->ranges = j->ranges.n;
  a->reordered = tg_new(&j->env, uint8_t, j->ranges.n + 1);
  see_scheduled(j, a, scheduled);
}

/* Is it in lockstep where the author's loops run one iteration after another? */
static bool reordered(const search *s, const tg_uop *range) {
  uint32_t ordinal = tg_range_ordinal(range);
  return s->author && ordinal < s->author->ranges && s->author->reordered[ordinal];
}

/* ---- accesses ---- */

static bool extent_of(search *s, const access *a, uint32_t var, int64_t *out) {
  tg_node_run(&s->values, &a->extent[var]);
  return tg_node_read(&s->values, tg_extent(a->var[var]), 0, out);
}

/* Do iterations that have no order of the text's share its memory? Or lanes? */
static bool concerned(const access *a) {
  for (uint32_t p = a->shared; p < a->depth; p++)
    if (way_of(a->end[p]->src[0]) != IN_ORDER) return true;
  return a->node->op == TG_OP_STORE && a->lanes > 1;
}

static bool plan_access(search *s, access *a) {
  const tg_uop *roots[RANK + 1];
  uint32_t n = 0;
  if (a->depth > VARIABLES || a->rank > RANK) return false;
  for (uint32_t i = 0; i < a->rank; i++) roots[n++] = a->node->src[1 + i];
  if (tg_gate(a->node)) roots[n++] = tg_gate(a->node);
  for (uint32_t i = 0; i < n; i++)
    if (roots[i]->lanes > a->lanes) a->lanes = roots[i]->lanes;
  if (!concerned(a) || !tg_node_plan(&s->values, n, roots, &a->self)) return false;
  for (uint32_t i = 0; i < a->depth; i++) a->var[a->vars++] = a->end[i]->src[0];
  for (uint32_t i = 0; i < a->self.n; i++) {   /* of reductions; their extents are made before them */
    const tg_uop *u = a->self.u[i];
    bool around = false;
    for (uint32_t k = 0; k < a->depth; k++)
      around |= tg_range_ordinal(a->var[k]) == tg_range_ordinal(u) && u->op == TG_OP_RANGE;
    if (u->op != TG_OP_RANGE || around) continue;
    if (a->vars == VARIABLES) return false;
    a->var[a->vars++] = u;
  }
  for (uint32_t i = 0; i < a->vars; i++)
    if (!tg_node_plan(&s->values, 1, &a->var[i]->src[0], &a->extent[i])) return false;
  return true;
}

typedef struct { uint32_t depth; const tg_uop *const *end; const uint32_t *at; } standing;

static void add(search *s, const tg_uop *node, const tg_uop *statement, const standing *where) {
  access a = {.node = node,
              .statement = statement,
              .order = s->order,
              .buffer = tg_buffer_ordinal(node->src[0]),
              .depth = where->depth,
              .end = where->end,
              .at = where->at,
              .lanes = 1,
              .rank = tg_access_rank(node)};
  a.shared = s->define_depth[a.buffer];
  if (s->stored[a.buffer] && plan_access(s, &a)) tg_push(&s->j->env, &s->all, a);
}

/* Adds the loads of a statement; after pass expand, of a statement list, since then no loop runs its statements in
 * lockstep, and the versions say what is read. */
static void add_loads(search *s, const tg_uop *statement, uint32_t first, const standing *where, uint32_t *seen,
                      uint32_t stamp) {
  TG_VEC(const tg_uop *) stack = {0};
  for (uint32_t i = statement->n; i-- > first;) tg_push(&s->j->env, &stack, statement->src[i]);
  while (stack.n) {
    const tg_uop *u = stack.data[--stack.n];
    if (!u->n || u->op == TG_OP_DEFINE || u->op == TG_OP_AFTER || u->op == TG_OP_RANGE || seen[u->id] == stamp)
      continue;
    seen[u->id] = stamp;
    if (u->op == TG_OP_LOAD) add(s, u, statement, where);
    for (uint32_t i = u->n; i-- > 0;) tg_push(&s->j->env, &stack, u->src[i]);
  }
}

typedef struct { uint32_t *seen, stamp; } seeing;

/* as deep as loops nest */
static void see(search *s, seeing *v, const tg_uop *u, const standing *where, uint32_t place) {
  bool linear = s->linear;
  standing here = *where;
  uint32_t *at = tg_new(&s->j->env, uint32_t, where->depth + 1);
  if (where->depth) memcpy(at, where->at, where->depth * sizeof *at);
  at[where->depth] = place;
  here.at = at;
  s->order++;
  if (!s->expanded) v->stamp++;
  if (u->op == TG_OP_DEFINE) s->define_depth[tg_buffer_ordinal(u)] = where->depth;
  if (u->op == TG_OP_LOAD && linear) add(s, u, u, &here);
  if (u->op == TG_OP_STORE) {
    if (!linear) add_loads(s, u, 1, &here, v->seen, v->stamp);
    add(s, u, u, &here);
  }
  if (u->op != TG_OP_END || tg_is_merge(u)) return;
  if (!linear) add_loads(s, u->src[0], 0, &here, v->seen, v->stamp);
  const tg_uop **end = tg_new(&s->j->env, const tg_uop *, where->depth + 1);
  if (where->depth) memcpy(end, where->end, where->depth * sizeof *end);
  end[where->depth] = u;
  here = (standing){where->depth + 1, end, at};
  v->stamp++;
  for (uint32_t i = 1; i < u->n; i++) see(s, v, u->src[i], &here, i);
  v->stamp++;
}

/* Finds the buffers that are stored to, and the nodes that contain barriers. */
static bool see_stores(search *s, const tg_uop *u) {
  bool barrier = u->op == TG_OP_BARRIER;
  if (u->op == TG_OP_STORE) s->stored[tg_buffer_ordinal(u->src[0])] = 1;
  for (uint32_t i = u->op == TG_OP_END; i < u->n && (u->op == TG_OP_END || u->op == TG_OP_SINK); i++)
    barrier |= see_stores(s, u->src[i]);
  s->barrier[u->id] = barrier;
  return barrier;
}

static bool any_parallel(const tg_uop *u) {
  bool any = (u->op == TG_OP_END && way_of(u->src[0]) != IN_ORDER) ||
             (u->op == TG_OP_STORE && u->n > 2 && u->src[1]->lanes > 1);
  for (uint32_t i = u->op == TG_OP_END; !any && i < u->n && (u->op == TG_OP_END || u->op == TG_OP_SINK); i++)
    any = any_parallel(u->src[i]);
  return any;
}

/* ---- two instances that meet ---- */

static uint32_t common_loops(const access *a, const access *b) {
  uint32_t d = 0;
  while (d < a->depth && d < b->depth && a->end[d] == b->end[d]) d++;
  return d;
}

static void print_instance(search *s, tg_str *out, const access *a, const int64_t *values) {
  tg_str_printf(out, "`%s`", tg_brief(s->j, a->statement));
  for (uint32_t i = 0; i < a->vars; i++)
    tg_str_printf(out, "%s%s = %lld", i ? ", " : " at ", s->j->ranges.data[tg_range_ordinal(a->var[i])].name,
                  (long long)values[i]);
}

static void report(search *s, const access *a, const instance *x, const access *b, const instance *y, const char *why) {
  tg_order_faults *f = s->faults;
  for (uint32_t i = 0; i < f->n; i++)
    if (f->at[i] == b->statement && f->with[i] == a->statement) return;
  if (f->n == TG_ORDER_FAULTS) return;
  tg_str out = tg_str_new(&s->j->env);
  print_instance(s, &out, a, x->values);
  tg_str_printf(&out, " %s %s[", a->node->op == TG_OP_STORE ? "stores" : "reads", s->j->buffers.data[a->buffer].name);
  for (uint32_t d = 0; d < a->rank; d++) tg_str_printf(&out, "%s%lld", d ? ", " : "", (long long)x->subscripts[d]);
  tg_str_puts(&out, "], ");
  print_instance(s, &out, b, y->values);
  tg_str_printf(&out, " %s it", b->node->op == TG_OP_STORE ? "stores" : "reads");
  for (uint32_t i = 0; i < s->j->params.n; i++)
    tg_str_printf(&out, "%s%s = %lld", i ? ", " : ", when ", s->j->params.data[i].name, (long long)s->values.param[i]);
  tg_str_printf(&out, ": %s", why);
  f->at[f->n] = b->statement;
  f->with[f->n] = a->statement;
  f->text[f->n++] = out.data;
}

/* Is there no barrier on any path from x to y? If some sequential loop around both has different iterations, the
 * path goes around the back edge of the outermost such loop; else it goes forward in the innermost list that holds
 * both. */
static bool no_barrier(const search *s, const access *a, const instance *x, const access *b, const instance *y,
                       uint32_t common) {
  uint32_t level = 0;
  while (level < common && (way_of(a->end[level]->src[0]) != IN_ORDER || x->values[level] == y->values[level])) level++;
  bool round = level < common;
  if (round && x->values[level] > y->values[level]) return no_barrier(s, b, y, a, x, common);
  if (round) level++;
  const tg_uop *list = level ? a->end[level - 1] : s->sink;
  uint32_t from = a->at[level], to = b->at[level];
  if (round && y->values[level - 1] - x->values[level - 1] > 1) from = to = 0;   /* a whole iteration lies between */
  if (!round && from > to) from = b->at[level], to = a->at[level];
  for (uint32_t i = level > 0; i < list->n; i++)
    if (s->barrier[list->src[i]->id] && (round ? i >= from || i <= to : i >= from && i <= to)) return false;
  return true;
}

static const char *named(search *s, const char *format, const access *a, uint32_t p) {
  const tg_uop *range = a->end[p]->src[0];
  return tg_format(&s->j->env, format, tg_kind_name[tg_range_kind(range)],
                   s->j->ranges.data[tg_range_ordinal(range)].name);
}

/* They touch one element of one memory. As in ranges/kept.c: p is the outermost loop whose iterations differ, but
 * for those that the author's order has in lockstep too. */
static void judge(search *s, const access *a, const instance *x, const access *b, const instance *y) {
  if (a->node->op != TG_OP_STORE && b->node->op != TG_OP_STORE) return;
  if (a->node->op == TG_OP_STORE && b->node->op == TG_OP_STORE && a->node->arg & b->node->arg & TG_ATOMIC) return;
  uint32_t common = common_loops(a, b), p = a->shared, differ = common, threads = common;
  bool found = false;
  for (uint32_t i = a->shared; i < common; i++) {
    const tg_uop *range = a->end[i]->src[0];
    if (x->values[i] == y->values[i]) continue;
    if (differ == common) differ = i;
    if (tg_range_kind(range) == TG_LANE || tg_range_kind(range) == TG_LOCAL) threads = i;
    if (!found && (way_of(range) != LOCKSTEP || reordered(s, range))) p = i, found = true;
  }
  if (differ == common) {
    bool lanes = a == b && a->node->op == TG_OP_STORE && x->lane != y->lane;
    if (lanes) report(s, a, x, b, y, tg_format(&s->j->env, "lanes %u and %u of one store", x->lane, y->lane));
    return;
  }
  way w = found ? way_of(a->end[p]->src[0]) : LOCKSTEP;
  if (found && w != IN_ORDER && x->values[p] > y->values[p]) {
    judge(s, b, y, a, x);
    return;
  }
  if (w == TASKS) {
    report(s, a, x, b, y, named(s, "nothing orders the iterations of the %s range %s", a, p));
    return;
  }
  if (w == LOCKSTEP) {
    uint32_t q = found ? p + 1 : common;
    while (q < common && (way_of(a->end[q]->src[0]) == LOCKSTEP || x->values[q] == y->values[q])) q++;
    if (q < common && way_of(a->end[q]->src[0]) == TASKS)
      report(s, a, x, b, y, named(s, "nothing orders the iterations of the %s range %s", a, q));
    else if (q < common ? y->values[q] < x->values[q] : found && a->order > b->order)
      report(s, a, x, b, y,
             named(s, "iterations of the %s range %s, in lockstep, come in another order than the author's", a, p));
    else if (q == common && a->statement == b->statement)
      report(s, a, x, b, y,
             named(s, "one statement of iterations of the %s range %s, in lockstep", a, found ? p : differ));
  }
  if (s->expanded && threads < common && a->statement != b->statement && tg_orders(s->j, a->buffer) &&
      no_barrier(s, a, x, b, y, common))
    report(s, a, x, b, y, named(s, "no barrier stands between iterations of the %s range %s", a, threads));
}

/* ---- some iterations of each access ---- */

static bool same_memory(const access *a, const instance *x, const access *b, const instance *y) {
  if (a->buffer != b->buffer || a->rank != b->rank) return false;
  for (uint32_t d = 0; d < a->rank; d++)
    if (x->subscripts[d] != y->subscripts[d]) return false;
  for (uint32_t i = 0; i < a->shared; i++)
    if (x->values[i] != y->values[i]) return false;
  return true;
}

static bool same_parallel(const access *a, const instance *x, const instance *y) {
  for (uint32_t i = 0; i < a->depth; i++)
    if (x->values[i] != y->values[i] && way_of(a->var[i]) != IN_ORDER) return false;
  return true;
}

/* The instance that the ranges' values make, in memory of this call; false: not known, or its gate is shut. */
static bool take_instance(search *s, const access *a, uint32_t lane, int64_t *values, int64_t *subscripts) {
  int64_t open = 1;
  if (tg_gate(a->node) && (!tg_node_read(&s->values, tg_gate(a->node), lane, &open) || !open)) return false;
  for (uint32_t d = 0; d < a->rank; d++)
    if (!tg_node_read(&s->values, a->node->src[1 + d], lane, &subscripts[d])) return false;
  for (uint32_t i = 0; i < a->vars; i++) values[i] = s->values.range[tg_range_ordinal(a->var[i])];
  return true;
}

static void enter(search *s, uint32_t number, uint32_t lane) {
  access *a = &s->all.data[number];
  int64_t values[VARIABLES], subscripts[RANK];
  if (s->instances.n >= INSTANCES || !take_instance(s, a, lane, values, subscripts)) return;
  instance x = {.access = number, .lane = lane, .values = values, .subscripts = subscripts};
  uint64_t h = tg_mix(a->buffer, a->rank);
  for (uint32_t d = 0; d < a->rank; d++) h = tg_mix(h, (uint64_t)subscripts[d]);
  for (uint32_t i = 0; i < a->shared; i++) h = tg_mix(h, (uint64_t)values[i]);
  uint32_t *head = &s->table[(h ^ h >> 29) % TG_COUNT(s->table)], at_one = 0, alike = 0;
  for (uint32_t at = *head; at; at = s->instances.data[at - 1].next) {
    const instance *y = &s->instances.data[at - 1];
    const access *b = &s->all.data[y->access];
    if (!same_memory(a, &x, b, y)) continue;
    at_one++;
    alike += a == b && same_parallel(a, &x, y);
    judge(s, b, y, a, &x);
  }
  if (at_one >= AT_ONE || alike >= ALIKE) return;
  x.values = memcpy(tg_new(&s->j->env, int64_t, a->vars + 1), values, a->vars * sizeof *values);
  x.subscripts = memcpy(tg_new(&s->j->env, int64_t, a->rank + 1), subscripts, a->rank * sizeof *subscripts);
  x.next = *head;
  tg_push(&s->j->env, &s->instances, x);
  *head = s->instances.n;
  uint32_t count = a->touched++;
  if (count < 2 || (count & (count - 1)) == 0) {   /* an early one, and a late one */
    a->kept[a->keeps < KEPT ? a->keeps : KEPT - 1] = s->instances.n - 1;
    if (a->keeps < KEPT) a->keeps++;
  }
}

static int64_t share_of(int64_t budget, uint32_t levels) {   /* n with n^levels <= budget */
  int64_t n = 1;
  for (;; n++) {
    int64_t power = 1;
    for (uint32_t i = 0; i < levels && power <= budget; i++) power *= n + 1;
    if (power > budget) return n;
  }
}

static void sample(search *s, uint32_t number, uint32_t var, int64_t budget) {   /* one level for each range */
  const access *a = &s->all.data[number];
  int64_t extent;
  if (var == a->vars) {
    tg_node_run(&s->values, &a->self);
    for (uint32_t l = 0; l < s->all.data[number].lanes; l++) enter(s, number, l);
    return;
  }
  if (!extent_of(s, a, var, &extent) || extent <= 0) return;
  bool parallel = var < a->depth && way_of(a->var[var]) != IN_ORDER;
  int64_t n = var < a->shared ? 1 : share_of(budget, a->vars - var);
  if (n < 2 && parallel && var >= a->shared) n = 2;
  if (n > extent) n = extent;
  for (int64_t i = 0; i < n; i++) {   /* the first ones, and the last */
    int64_t at = var < a->shared ? extent / 2 : n > 2 && i == n - 1 ? extent - 1 : i;
    s->values.range[tg_range_ordinal(a->var[var])] = at;
    sample(s, number, var + 1, budget / n > 0 ? budget / n : 1);
  }
}

/* ---- the iteration of one access that touches another's element ---- */

static bool subscripts_now(search *s, const access *a, int64_t *out) {
  tg_node_run(&s->values, &a->self);
  for (uint32_t d = 0; d < a->rank; d++)
    if (!tg_node_read(&s->values, a->node->src[1 + d], 0, &out[d])) return false;
  return true;
}

/* Does b touch x's element in the iteration that the ranges have now? */
static void try_iteration(search *s, const access *a, const instance *x, const access *b) {
  int64_t values[VARIABLES], subscripts[RANK];
  for (uint32_t v = 0; v < b->vars; v++) {
    int64_t extent, at = s->values.range[tg_range_ordinal(b->var[v])];
    if (!extent_of(s, b, v, &extent) || at < 0 || at >= extent) return;
  }
  tg_node_run(&s->values, &b->self);
  for (uint32_t l = 0; l < b->lanes; l++) {
    instance y = {.lane = l, .values = values, .subscripts = subscripts};
    if (!take_instance(s, b, l, values, subscripts) || !same_memory(a, x, b, &y)) continue;
    judge(s, a, x, b, &y);
    return;
  }
}

/* The coefficient of a range is the change of the subscript from iteration 0 to 1. In each dimension, ranges are
 * taken by descending coefficient, and each covers as much of the remaining distance as it can. */
static void solve(search *s, const access *a, const instance *x, const access *b) {
  int64_t base[RANK], now[RANK], coefficient[VARIABLES][RANK], extent[VARIABLES];
  bool given[VARIABLES] = {0}, moves[VARIABLES] = {0};
  uint32_t common = common_loops(a, b);
  for (uint32_t v = 0; v < b->vars; v++) {
    s->values.range[tg_range_ordinal(b->var[v])] = v < b->shared ? x->values[v] : 0;
    if (!extent_of(s, b, v, &extent[v])) return;
    given[v] = v < b->shared;
  }
  if (!subscripts_now(s, b, base)) return;
  for (uint32_t v = b->shared; v < b->vars; v++) {
    int64_t *value = &s->values.range[tg_range_ordinal(b->var[v])];
    *value = 1;
    if (!subscripts_now(s, b, now)) return;
    *value = 0;
    for (uint32_t d = 0; d < b->rank; d++) moves[v] |= (coefficient[v][d] = now[d] - base[d]) != 0;
    if (!moves[v] && v < common) *value = x->values[v];
  }
  for (uint32_t d = 0; d < b->rank; d++) {
    if (!subscripts_now(s, b, now)) return;
    int64_t distance = x->subscripts[d] - now[d];
    for (;;) {
      uint32_t best = b->vars;
      for (uint32_t v = b->shared; v < b->vars; v++)
        if (!given[v] && coefficient[v][d] &&
            (best == b->vars || llabs(coefficient[v][d]) > llabs(coefficient[best][d])))
          best = v;
      if (best == b->vars) break;
      int64_t c = coefficient[best][d], step = (distance > 0) == (c > 0) ? distance / c : 0;
      if (step >= extent[best]) step = extent[best] > 0 ? extent[best] - 1 : 0;
      s->values.range[tg_range_ordinal(b->var[best])] = step;
      distance -= step * c;
      given[best] = true;
    }
  }
  try_iteration(s, a, x, b);
  for (uint32_t v = b->shared; v < common; v++) {   /* ranges that its element does not depend on: another iteration */
    int64_t *value = &s->values.range[tg_range_ordinal(b->var[v])], before = *value;
    if (moves[v] || way_of(b->var[v]) == IN_ORDER) continue;
    *value = before ? 0 : 1;
    try_iteration(s, a, x, b);
    *value = before;
  }
}

static bool share_parallel(const access *a, const access *b) {
  uint32_t common = common_loops(a, b);
  for (uint32_t p = a->shared; p < common; p++)
    if (way_of(a->end[p]->src[0]) != IN_ORDER) return true;
  return false;
}

static void solve_all(search *s) {
  for (uint32_t i = 0; i < s->all.n; i++)
    for (uint32_t k = 0; k < s->all.n && s->solved < SOLVED; k++) {
      const access *a = &s->all.data[i], *b = &s->all.data[k];
      if (a->buffer != b->buffer || a->rank != b->rank || (a->node->op != TG_OP_STORE && b->node->op != TG_OP_STORE) ||
          !share_parallel(a, b))
        continue;
      for (uint32_t m = 0; m < a->keeps; m++, s->solved++) solve(s, a, &s->instances.data[a->kept[m]], b);
    }
}

/* ---- parameters ---- */

/* Do its rows not overlap? Dimensions in the order of their strides. */
static bool dense(search *s, const tg_uop *define) {
  uint32_t rank = define->n / 2;
  int64_t dim[RANK], stride[RANK], last = 0;
  bool used[RANK] = {0};
  if (rank > RANK) return false;
  for (uint32_t i = 0; i < rank; i++)
    if (!tg_node_value(&s->values, define->src[i], &dim[i]) ||
        !tg_node_value(&s->values, define->src[rank + i], &stride[i]) || !stride[i])
      return false;
    else if (stride[i] < 0) stride[i] = -stride[i];
  for (uint32_t k = 0; k < rank; k++) {
    uint32_t least = rank;
    for (uint32_t i = 0; i < rank; i++)
      if (!used[i] && (least == rank || stride[i] < stride[least])) least = i;
    used[least] = true;
    if (dim[least] < 2) continue;
    if (stride[least] <= last) return false;
    last += (dim[least] - 1) * stride[least];
  }
  return true;
}

static bool is_strided(const tg_uop *u) { return u->op == TG_OP_DEFINE && u->arg >> 32 & TG_STRIDED; }

/* A launch is refused whose rows overlap, of what it writes; in a form of offsets nothing else says so. By the role of
 * the author's buffer: pass index makes another of a strided one. */
static bool sound_choice(search *s) {
  int64_t v;
  for (uint32_t i = 0; i < s->j->requires.n; i++)
    if (!tg_node_value(&s->values, s->j->requires.data[i], &v) || !v) return false;
  for (uint32_t i = 0; s->author && i < s->author->sink->n; i++) {
    const tg_uop *u = s->author->sink->src[i];
    if (is_strided(u) && tg_buffer_info(s->j, u)->role != TG_ROLE_IN && !dense(s, u)) return false;
  }
  return true;
}

/* Marks the parameters that are strides: they are chosen larger than the sizes of the inner dimensions. */
static uint8_t *params_of_strides(search *s) {
  uint8_t *stride = tg_new(&s->j->env, uint8_t, s->j->params.n + 1);
  for (uint32_t i = 0; s->author && i < s->author->sink->n; i++) {
    const tg_uop *u = s->author->sink->src[i];
    for (uint32_t k = u->n / 2; is_strided(u) && k < u->n; k++) {
      uint32_t n;
      const tg_uop **all = tg_toposort(s->j, u->src[k], &n);
      for (uint32_t m = 0; m < n; m++)
        if (all[m]->op == TG_OP_PARAM) stride[all[m]->arg] = 1;
    }
  }
  return stride;
}

static void set_params(search *s, int64_t size, const uint8_t *stride) {
  for (uint32_t i = 0; i < s->j->params.n; i++) {
    const tg_param *p = &s->j->params.data[i];
    tg_i128 m = p->multiple > 0 ? p->multiple : 1, v = (stride[i] ? (tg_i128)1 << (12 + i % 8) : size + i) / m * m;
    if (v > p->hi) v = tg_floor_div(p->hi, m) * m;
    if (v < p->lo) v = -tg_floor_div(-(tg_i128)p->lo, m) * m;
    s->values.param[i] = (int64_t)v;
  }
  tg_node_take_params(&s->values);
}

/* ---- */

static void search_once(search *s) {
  int64_t budget = INSTANCES / s->all.n;
  s->instances.n = 0;
  s->solved = 0;
  memset(s->table, 0, sizeof s->table);
  for (uint32_t i = 0; i < s->all.n; i++) {
    access *a = &s->all.data[i];
    int64_t share = budget / a->lanes;
    a->keeps = a->touched = 0;
    sample(s, i, 0, share > SAMPLES ? SAMPLES : share < FEWEST ? FEWEST : share);
  }
  solve_all(s);
}

void tg_find_order_faults(tg_job *j, const tg_uop *sink, const char *stage, const tg_authored *author,
                          tg_order_faults *out) {
  static const int16_t sizes[] = {33, 6, 100, 17, 3, 1};
  int at = tg_stage_index(stage);
  *out = (tg_order_faults){0};
  if (!any_parallel(sink) || (author && author->unjudged) ||
      (j->params.n && at >= tg_stage_index("index") && (!author || author->offsets)))
    return;
  uint32_t n = j->uops.n, choices = 0;
  search *s = tg_new(&j->env, search, 1);
  *s = (search){.j = j,
                .sink = sink,
                .author = author,
                .expanded = at >= tg_stage_index("expand"),
                .linear = at >= tg_stage_index("linear"),
                .stored = tg_new(&j->env, uint8_t, j->buffers.n + 1),
                .define_depth = tg_new(&j->env, uint32_t, j->buffers.n + 1),
                .barrier = tg_new(&j->env, uint8_t, n),
                .values = tg_node_values_of(j),
                .faults = out};
  seeing v = {tg_new(&j->env, uint32_t, n), 1};
  see_stores(s, sink);
  for (uint32_t i = 0; i < sink->n; i++) see(s, &v, sink->src[i], &(standing){0, NULL, NULL}, i);
  const uint8_t *stride = params_of_strides(s);
  for (uint32_t i = 0; s->all.n && i < TG_COUNT(sizes) && choices < CHOICES && !out->n; i++) {
    set_params(s, sizes[i], stride);
    if (!sound_choice(s)) continue;
    choices++;
    search_once(s);
    if (!j->params.n) return;
  }
}
