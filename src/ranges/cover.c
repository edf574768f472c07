/* SPDX-License-Identifier: MIT
 * Coverage by stores: every element of an output is written, and every element that is read was written before.
 *
 * A store in its loops writes a region. Its subscripts are set equal to a symbolic target element and solved for the
 * ranges of the loops; one subscript may be one range, or a mixed-radix sum r1 * s1 + .. + rk in which each stride is
 * at most the span of the inner terms. This leaves conditions p <= 0 on the target. The target is covered if on its
 * whole domain the conditions of the first region hold, or, where they fail, those of the next region, and so on. A
 * subscript that cannot be solved counts as covering nothing.
 *
 * Needs a versioned program with accesses in bounds; fails at the output's declaration or at the read. */
#include "dsl/text.h"
#include "ranges/depend.h"

enum { CONDITIONS = 48, UNKNOWNS = 32, REGIONS = 24, SPLITS = 200 };

typedef struct { tg_poly p[CONDITIONS]; uint32_t n; } region;

typedef struct {
  tg_polys *c;
  tg_poly equation[16], condition[CONDITIONS], extent[UNKNOWNS];
  uint32_t rank, conditions, unknown[UNKNOWNS], unknowns;
  bool settled[UNKNOWNS], failed;
} solver;

/* ---- solving ---- */

static void require(solver *s, tg_poly p) {
  if (s->conditions == CONDITIONS || p.n < 0) s->failed = true;
  else s->condition[s->conditions++] = tg_poly_keep(s->c, p);
}

static uint32_t add_unknown(solver *s, tg_poly extent, const tg_uop *node, uint32_t copy) {
  tg_i128 lo, hi;
  if (s->unknowns == UNKNOWNS || extent.n < 0) {
    s->failed = true;
    return 0;
  }
  tg_poly_range(s->c, extent, &lo, &hi);
  s->extent[s->unknowns] = tg_poly_keep(s->c, extent);
  s->unknown[s->unknowns] = tg_atom_symbol(s->c, (tg_atom){.kind = TG_ATOM_RANGE,
                                                           .node = node,
                                                           .copy = copy,
                                                           .a = extent,
                                                           .hi = hi >= TG_INF ? TG_INF
                                                                 : hi < 1     ? 0
                                                                              : hi - 1});
  return s->unknowns++;
}

static void substitute(solver *s, uint32_t x, tg_poly value) {
  uint32_t atom = s->unknown[x];
  value = tg_poly_keep(s->c, value);
  s->settled[x] = true;
  for (uint32_t i = 0; i < s->rank; i++)
    s->equation[i] = tg_poly_keep(s->c, tg_poly_replace(s->c, s->equation[i], 1, &atom, &value, 0));
  for (uint32_t i = 0; i < s->conditions; i++)
    s->condition[i] = tg_poly_keep(s->c, tg_poly_replace(s->c, s->condition[i], 1, &atom, &value, 0));
  for (uint32_t i = 0; i < s->unknowns; i++)
    s->extent[i] = tg_poly_keep(s->c, tg_poly_replace(s->c, s->extent[i], 1, &atom, &value, 0));
}

/* x / d and x % d among the subscripts: x = d q + r, with q and r in its place. */
static bool split_digit(solver *s) {
  tg_polys *c = s->c;
  uint32_t best = UINT32_MAX, which = 0;
  for (uint32_t a = 0; a < c->n; a++) {
    const tg_atom *v = &c->atoms[a];
    if (v->kind != TG_ATOM_DIV || v->a.n != 1 || v->a.t[0].degree != 1 || v->a.t[0].c != 1) continue;
    for (uint32_t x = 0; x < s->unknowns; x++) {
      bool here = false;
      for (uint32_t i = 0; i < s->rank; i++) here |= tg_poly_mentions(s->equation[i], a);
      if (!here || s->settled[x] || v->a.t[0].atom[0] != s->unknown[x]) continue;
      if (best != UINT32_MAX && (!tg_poly_is_const(v->b) || !tg_poly_is_const(c->atoms[best].b) ||
                                 tg_poly_constant(v->b) < tg_poly_constant(c->atoms[best].b)))
        continue;
      best = a;
      which = x;
    }
  }
  if (best == UINT32_MAX) return false;
  tg_poly d = c->atoms[best].b, e = s->extent[which];
  uint32_t q = add_unknown(s, tg_poly_div(c, tg_poly_plus(c, tg_poly_add(c, e, d, 1), -1), d), NULL, 0),
           r = add_unknown(s, d, NULL, 0);
  if (s->failed) return false;
  tg_poly x = tg_poly_add(c, tg_poly_mul(c, d, tg_poly_atom(c, s->unknown[q])), tg_poly_atom(c, s->unknown[r]), 1);
  /* whole digits stay below e by their own extents */
  bool whole = tg_poly_is_const(e) && tg_poly_is_const(d) && tg_poly_constant(e) % tg_poly_constant(d) == 0;
  if (!whole) require(s, tg_poly_plus(c, tg_poly_minus(c, x, e), 1));
  substitute(s, which, x);
  return true;
}

static uint32_t unknowns_in(const solver *s, tg_poly p, uint32_t *list) {
  uint32_t n = 0;
  for (uint32_t x = 0; x < s->unknowns; x++)
    if (!s->settled[x] && tg_poly_mentions(p, s->unknown[x])) list[n++] = x;
  return n;
}

static void solve_one(solver *s, tg_poly eq, uint32_t x) {
  tg_polys *c = s->c;
  tg_poly square, k, rest, value;
  tg_i128 lo, hi;
  if (!tg_poly_split(c, eq, s->unknown[x], &square, &k, &rest) || square.n || k.n != 1) {
    s->failed = true;
    return;
  }
  tg_poly_range(c, k, &lo, &hi);
  if ((lo <= 0 && hi >= 0) || !tg_poly_divide(c, rest, k.t[0], &value)) {
    s->failed = true;
    return;
  }
  value = tg_poly_keep(c, tg_poly_negate(c, value));
  require(s, tg_poly_negate(c, value));
  require(s, tg_poly_plus(c, tg_poly_minus(c, value, s->extent[x]), 1));
  substitute(s, x, value);
}

/* Solves sum of stride * range + rest = 0, the ranges being mixed-radix digits, from the range of stride 1 outwards. */
static void solve_radix(solver *s, tg_poly eq, uint32_t n, const uint32_t *list) {
  tg_polys *c = s->c;
  tg_poly stride[UNKNOWNS], square, rest = eq, span = tg_poly_const(c, 1), inner = tg_poly_const(c, 0);
  bool used[UNKNOWNS] = {false};
  uint32_t first = UINT32_MAX;
  for (uint32_t i = 0; i < n; i++) {
    if (!tg_poly_split(c, rest, s->unknown[list[i]], &square, &stride[i], &rest) || square.n) s->failed = true;
    if (s->failed) return;
  }
  for (uint32_t i = 0; i < n; i++) {
    uint32_t junk[UNKNOWNS];
    if (unknowns_in(s, stride[i], junk)) s->failed = true;
  }
  for (uint32_t round = 0; round < n && !s->failed; round++) {
    uint32_t pick = UINT32_MAX;
    for (uint32_t i = 0; i < n && pick == UINT32_MAX; i++) {
      tg_i128 lo, hi;
      if (used[i]) continue;
      tg_poly_range(c, stride[i], &lo, &hi);
      if (lo >= 1 && tg_nonpositive(c, tg_poly_minus(c, stride[i], span))) pick = i;
    }
    if (pick == UINT32_MAX) {
      s->failed = true;
      return;
    }
    used[pick] = true;
    if (!round) first = pick;
    else inner = tg_poly_add(c, inner, tg_poly_mul(c, stride[pick], tg_poly_atom(c, s->unknown[list[pick]])), 1);
    tg_poly last = tg_poly_plus(c, s->extent[list[pick]], -1);
    require(s, tg_poly_negate(c, last));
    span = tg_poly_add(c, span, tg_poly_mul(c, stride[pick], last), 1);
  }
  if (s->failed || first == UINT32_MAX || !tg_poly_equal(stride[first], tg_poly_const(c, 1))) {
    s->failed = true;
    return;
  }
  require(s, rest);
  require(s, tg_poly_plus(c, tg_poly_minus(c, tg_poly_negate(c, rest), span), 1));
  for (uint32_t i = 0; i < n; i++) s->settled[list[i]] = true;   /* the outer ranges may have any of their values */
  substitute(s, list[first], tg_poly_negate(c, tg_poly_add(c, rest, inner, 1)));
}

static void solve(solver *s, int pick) {
  bool done[16] = {false};
  while (!s->failed && split_digit(s)) {}
  for (uint32_t round = 0; round < s->rank && !s->failed; round++) {
    uint32_t best = 0, least = UINT32_MAX, list[UNKNOWNS];
    for (uint32_t d = 0; d < s->rank; d++) {
      uint32_t n = s->equation[d].n < 0 ? UINT32_MAX - 1 : unknowns_in(s, s->equation[d], list);
      if (!done[d] && n < least) {
        least = n;
        best = d;
      }
    }
    done[best] = true;
    tg_poly eq = s->equation[best];
    if (least == UINT32_MAX - 1) s->failed = true;
    else if (unknowns_in(s, eq, list) == 0) {
      if (eq.n) {
        require(s, eq);
        require(s, tg_poly_negate(s->c, eq));
      }
    } else if (least == 1) solve_one(s, eq, list[0]);
    else solve_radix(s, eq, least, list);
    s->equation[best] = tg_poly_const(s->c, 0);
  }
  for (uint32_t x = 0; x < s->unknowns && !s->failed; x++) { /* in no subscript: some iteration will do */
    if (s->settled[x]) continue;
    tg_poly last = tg_poly_plus(s->c, s->extent[x], -1);
    require(s, tg_poly_negate(s->c, last));
    substitute(s, x, pick ? last : tg_poly_const(s->c, 0));
  }
}

/* ---- the region of a store ---- */

/* loops [0, fixed) as the target has them, but for free ones; earlier: the loop in an earlier iteration, or -1 */
typedef struct { const tg_access *store; uint32_t fixed; int earlier; const uint8_t *free; } instance;

/* An extent that is the least of a constant and something else. */
static const tg_atom *below_two(const tg_polys *c, tg_poly extent) {
  if (extent.n != 1 || extent.t[0].degree != 1 || extent.t[0].c != 1) return NULL;
  const tg_atom *a = &c->atoms[extent.t[0].atom[0]];
  return a->kind == TG_ATOM_MIN && (tg_poly_is_const(a->a) || tg_poly_is_const(a->b)) ? a : NULL;
}

static bool region_of(tg_polys *c, const instance *in, uint32_t rank, const tg_poly *target, int pick, region *out) {
  const tg_uop *node = in->store->node, *gate = tg_gate(node);
  solver s = {.c = c, .rank = rank};
  tg_poly gates[16], to[64];
  uint32_t from[64], n = 0, gates_n = 0, copy = ++c->copies, earlier = 0;
  tg_poly before = {NULL, -1};
  for (uint32_t i = 0; i < in->store->depth; i++) tg_poly_of(c, in->store->loop[i]);
  for (uint32_t d = 0; d < rank; d++) s.equation[d] = tg_poly_of(c, node->src[1 + d]);
  if (gate && !tg_condition_polys(c, gate, true, gates, &gates_n, TG_COUNT(gates))) return false;
  for (uint32_t i = 0; i < in->store->depth && !s.failed; i++) {
    uint32_t atom = tg_atom_of(c, in->store->loop[i]);
    if (atom == UINT32_MAX) return false;
    if (i < in->fixed && !(in->free && in->free[i])) continue;
    tg_poly extent = tg_poly_replace(c, c->atoms[atom].a, n, from, to, copy);
    tg_i128 fewest, most;
    tg_poly_range(c, extent, &fewest, &most);
    if (most == 1 && (int)i != in->earlier) { /* one iteration at most: 0, also where the extents inside depend on it */
      if (fewest < 1) require(&s, tg_poly_plus(c, tg_poly_negate(c, extent), 1));
      from[n] = atom;
      to[n++] = tg_poly_const(c, 0);
      continue;
    }
    const tg_atom *least = below_two(c, extent);
    bool clipped = least != NULL, second = clipped && tg_poly_is_const(least->b);
    /* min(n, e): n iterations, those from e on are none */
    tg_poly also = clipped ? second ? least->a : least->b : extent;
    if (clipped) extent = second ? least->b : least->a;
    uint32_t x = add_unknown(&s, extent, in->store->loop[i], copy);
    if (clipped && !s.failed) require(&s, tg_poly_plus(c, tg_poly_minus(c, tg_poly_atom(c, s.unknown[x]), also), 1));
    if (s.failed) return false;
    from[n] = atom;
    to[n++] = tg_poly_keep(c, tg_poly_atom(c, s.unknown[x]));
    if ((int)i != in->earlier) continue;
    require(&s, tg_poly_plus(c, tg_poly_minus(c, tg_poly_atom(c, s.unknown[x]), tg_poly_atom(c, atom)), 1));
    earlier = x;
    before = tg_poly_keep(c, tg_poly_plus(c, tg_poly_atom(c, atom), -1));
  }
  for (uint32_t d = 0; d < rank; d++) {
    tg_poly e = tg_poly_replace(c, s.equation[d], n, from, to, copy);
    s.equation[d] = tg_poly_keep(c, tg_poly_minus(c, e, target[d]));
  }
  for (uint32_t i = 0; i < gates_n; i++) require(&s, tg_poly_replace(c, gates[i], n, from, to, copy));
  if (pick == 2) { /* the iteration just before */
    require(&s, tg_poly_negate(c, before));
    substitute(&s, earlier, before);
  }
  solve(&s, pick == 1);
  if (s.failed) return false;
  out->n = s.conditions;
  memcpy(out->p, s.condition, s.conditions * sizeof *out->p);
  return true;
}

/* ---- covering ---- */

typedef struct { tg_polys *c; region *region; uint32_t n, splits; } cover;

static bool covered(cover *v, uint32_t k) {   /* REGIONS deep at most */
  tg_polys *c = v->c;
  uint32_t outer = c->facts;
  bool all = true;
  if (k == v->n || v->splits == SPLITS) return tg_contradictory(c);
  for (uint32_t i = 0; i < v->region[k].n && all; i++) {
    tg_poly p = v->region[k].p[i];
    if (tg_nonpositive(c, p)) continue;
    uint32_t facts = c->facts;
    v->splits++;
    tg_facts_poly(c, tg_poly_plus(c, tg_poly_negate(c, p), 1));
    all = covered(v, k + 1);
    c->facts = facts;
    tg_facts_poly(c, p);
  }
  c->facts = outer;
  return all;
}

static void add_regions(cover *v, const instance *in, uint32_t rank, const tg_poly *target) {
  uint32_t first = v->n;
  for (int pick = 0; pick < (in->earlier >= 0 ? 3 : 2) && v->n < REGIONS; pick++) {
    region *r = &v->region[v->n];
    if (!region_of(v->c, in, rank, target, pick, r)) continue;
    bool same = v->n > first && r->n == r[-1].n;
    for (uint32_t i = 0; same && i < r->n; i++) same = tg_poly_equal(r->p[i], r[-1].p[i]);
    v->n += !same;
    if (!tg_gate(in->store->node) && in->earlier < 0) return;   /* which iteration it is makes no difference */
  }
}

/* ---- outputs ---- */

/* The stride c of stores to y[c * i + k], for which coverage is proved for each residue modulo c; 1: no such stride. */
static tg_i128 stride_of(tg_touched *t, uint32_t buffer, uint32_t d) {
  tg_polys *c = t->polys;
  tg_i128 stride = 1;
  for (uint32_t i = 0; i < t->all.n; i++) {
    const tg_access *a = &t->all.data[i];
    if (!a->store || a->buffer != buffer) continue;
    tg_poly p = tg_poly_of(c, a->node->src[1 + d]);
    tg_i128 g = 0;
    for (int k = 0; k < p.n; k++) {
      if (!p.t[k].degree) continue;
      tg_i128 x = p.t[k].c < 0 ? -p.t[k].c : p.t[k].c, y = g;
      while (x) {
        tg_i128 r = y % x;
        y = x;
        x = r;
      }
      g = y;
    }
    if (g > stride && g <= 16) stride = g;
  }
  return stride;
}

static bool output_written(tg_touched *t, const tg_uop *define, uint32_t strided, tg_i128 stride, tg_i128 residue) {
  tg_polys *c = t->polys;
  uint32_t buffer = tg_buffer_ordinal(define), rank = tg_buffer_info(t->job, define)->rank;
  tg_poly target[16];
  cover v = {.c = c, .region = tg_new(&t->job->env, region, REGIONS + 1)};
  tg_polys_reset(c);
  for (uint32_t d = 0; d < rank; d++) {
    tg_poly dim = tg_poly_of(c, define->src[d]), extent = dim;
    if (d == strided) extent = tg_poly_div(c, tg_poly_plus(c, dim, stride - 1 - residue), tg_poly_const(c, stride));
    tg_i128 lo, hi;
    tg_poly_range(c, extent, &lo, &hi);
    if (extent.n < 0) return false;
    if (hi <= 0) return true;
    uint32_t atom =
        tg_atom_symbol(c, (tg_atom){.kind = TG_ATOM_RANGE, .a = extent, .hi = hi >= TG_INF ? TG_INF : hi - 1});
    target[d] = tg_poly_atom(c, atom);
    if (d == strided) target[d] = tg_poly_plus(c, tg_poly_mul(c, target[d], tg_poly_const(c, stride)), residue);
    target[d] = tg_poly_keep(c, target[d]);
  }
  tg_facts_basic(c);
  for (uint32_t i = 0; i < t->all.n && v.n < REGIONS; i++) {
    const tg_access *a = &t->all.data[i];
    if (a->store && a->buffer == buffer && !a->atomic)
      add_regions(&v, &(instance){.store = a, .earlier = -1}, rank, target);
  }
  return v.n && covered(&v, 0);
}

static void check_output(tg_touched *t, const tg_uop *sink, const tg_uop *define) {
  tg_job *j = t->job;
  const tg_buffer *info = tg_buffer_info(j, define);
  if (output_written(t, define, UINT32_MAX, 1, 0)) return;
  for (uint32_t d = 0; d < info->rank; d++) {
    tg_polys_reset(t->polys);
    tg_i128 stride = stride_of(t, tg_buffer_ordinal(define), d), r = 0;
    if (stride == 1) continue;
    while (r < stride && output_written(t, define, d, stride, r)) r++;
    if (r == stride) return;
  }
  if (!t->stored[tg_buffer_ordinal(define)]) tg_fail_at(j, info->pos, "nothing writes the output %s", info->name);
  const char *element = tg_unwritten_element(j, sink, define);
  if (element)
    tg_fail_at(j, info->pos,
               "the output %s is not written everywhere: nothing writes %s; write it, or declare %s partial",
               info->name, element, info->name);
  tg_fail_at(j, info->pos,
             "the output %s is not proved to be written everywhere: write all of it, or declare it partial",
             info->name);
}

/* ---- reads ---- */

static bool is_lockstep(const tg_uop *range) {
  tg_kind k = tg_range_kind(range);
  return k == TG_LOCAL || k == TG_LANE || k == TG_UPCAST;
}

/* Is each condition of a among those of b? Conjunctions are looked into to some depth. */
static bool conditions_among(const tg_uop *a, const tg_uop *b, uint32_t depth) {
  if (a == b) return true;
  if (!depth--) return false;
  if (a->op == TG_OP_AND) return conditions_among(a->src[0], b, depth) && conditions_among(a->src[1], b, depth);
  return b->op == TG_OP_AND && (conditions_among(a, b->src[0], depth) || conditions_among(a, b->src[1], depth));
}

/* Stores that are not atomic, buffer by buffer: chains through t->all, of indices + 1. */
typedef struct {
  tg_touched *touched;
  uint32_t *first, *next;      /* all of them, in order: by buffer, by access */
  uint32_t *last, *before;     /* those before the access in hand, the latest first */
} stores_of;

static stores_of find_stores(tg_touched *t) {
  tg_env *e = &t->job->env;
  uint32_t buffers = t->job->buffers.n + 1, n = t->all.n + 1;
  stores_of s = {t, tg_new(e, uint32_t, buffers), tg_new(e, uint32_t, n), tg_new(e, uint32_t, buffers),
                 tg_new(e, uint32_t, n)};
  for (uint32_t i = t->all.n; i-- > 0;) {
    const tg_access *a = &t->all.data[i];
    if (!a->store || a->atomic) continue;
    s.next[i] = s.first[a->buffer];
    s.first[a->buffer] = i + 1;
  }
  return s;
}

/* Fast path for most loads of registers: was the same element stored before in the same iteration, without a gate
 * that the load does not have? */
static bool plainly_written(const stores_of *s, const tg_access *load, uint32_t rank) {
  for (uint32_t i = s->last[load->buffer]; i; i = s->before[i - 1]) {
    const tg_access *a = &s->touched->all.data[i - 1];
    if (a->order < load->order && tg_common_loops(a, load) == a->depth &&
        !memcmp(a->node->src + 1, load->node->src + 1, rank * sizeof *a->node->src) &&
        (!tg_gate(a->node) || (tg_gate(load->node) && conditions_among(tg_gate(a->node), tg_gate(load->node), 8))))
      return true;
  }
  return false;
}

static void add_store(cover *v, tg_touched *t, const tg_access *load, const tg_access *a, uint32_t rank,
                      const tg_poly *target) {
  uint32_t common = tg_common_loops(a, load), inside = t->define_depth[load->buffer];
  uint8_t lockstep[64] = {0};
  for (uint32_t l = inside; l < common && l < 64; l++) lockstep[l] = is_lockstep(a->loop[l]);
  if (a->order < load->order && v->n < REGIONS) add_regions(v, &(instance){a, common, -1, lockstep}, rank, target);
  for (uint32_t l = inside; l < common && v->n < REGIONS; l++) { /* in an earlier iteration of a loop around both */
    tg_kind k = tg_range_kind(a->loop[l]);
    if (lockstep[l] || k == TG_GLOBAL || k == TG_THREAD) continue;
    add_regions(v, &(instance){a, l, (int)l, lockstep}, rank, target);
  }
}

/* Begins the question of what the load reads: its facts, and in `target` the element. */
static void ask_of(tg_polys *c, const tg_access *load, uint32_t rank, tg_poly *target) {
  const tg_uop *node = load->node, *gate = tg_gate(node);
  tg_polys_reset(c);
  for (uint32_t d = 0; d < rank; d++) target[d] = tg_poly_of(c, node->src[1 + d]);
  for (uint32_t i = 0; i < load->depth; i++) tg_poly_of(c, load->loop[i]);
  if (gate) {
    tg_poly p[32];
    uint32_t n = 0;
    tg_condition_polys(c, gate, true, p, &n, TG_COUNT(p));
  }
  tg_facts_basic(c);
  if (gate) tg_facts_add(c, gate, true);
}

static void check_read(const stores_of *s, const tg_access *load) {
  tg_touched *t = s->touched;
  tg_job *j = t->job;
  tg_polys *c = t->polys;
  const tg_uop *node = load->node;
  const tg_buffer *info = tg_buffer_info(j, node->src[0]);
  uint32_t rank = tg_access_rank(node), first = s->first[load->buffer];
  tg_poly target[16];
  if (plainly_written(s, load, rank)) return;
  cover v = {.c = c, .region = tg_new(&j->env, region, REGIONS + 1)};
  ask_of(c, load, rank, target);
  /* the store that fills the buffer may do alone, which spares the cases of all that update it */
  if (first && s->next[first - 1] && t->all.data[first - 1].order < load->order) {
    const tg_access *fill = &t->all.data[first - 1];
    add_regions(&v, &(instance){.store = fill, .fixed = tg_common_loops(fill, load), .earlier = -1}, rank, target);
    if (v.n && covered(&v, 0)) return;
    v.n = v.splits = 0;
    ask_of(c, load, rank, target);
  }
  for (uint32_t i = first; i; i = s->next[i - 1]) add_store(&v, t, load, &t->all.data[i - 1], rank, target);
  if (covered(&v, 0)) return;
  tg_pos at = tg_position_of(j, node, load->statement);
  if (!t->stored[load->buffer]) tg_fail_at(j, at, "%s is read, but nothing writes it", info->name);
  tg_fail_at(j, at, "%s is read before all of it is sure to have been written: %s", info->name,
             v.n ? "the stores before do not cover what is read" : "no store before it is known to write this element");
}

void tg_check_written(tg_job *j, const tg_uop *sink) {
  tg_touched *t = tg_touched_by(j, sink, NULL);
  stores_of s = find_stores(t);
  for (uint32_t i = 0; i < t->all.n; i++) {
    const tg_access *a = &t->all.data[i];
    const tg_buffer *info = tg_buffer_info(j, a->node->src[0]);
    bool reads = !a->store || a->atomic;   /* an atomic store reads what it adds to */
    if (reads && (info->space != TG_SPACE_GLOBAL || info->role == TG_ROLE_OUT)) check_read(&s, a);
    if (reads) continue;
    s.before[i] = s.last[a->buffer];
    s.last[a->buffer] = i + 1;
  }
  for (uint32_t i = 0; i < sink->n; i++) {
    if (sink->src[i]->op != TG_OP_DEFINE) continue;
    const tg_buffer *info = tg_buffer_info(j, sink->src[i]);
    if (info->space == TG_SPACE_GLOBAL && info->role == TG_ROLE_OUT && !info->partial)
      check_output(t, sink, sink->src[i]);
  }
  tg_polys_give(j, t->polys);
}
