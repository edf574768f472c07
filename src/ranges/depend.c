/* SPDX-License-Identifier: MIT
 * Dependences between iterations of a loop: the verdict of a loop, loop interchange, loop distribution.
 *
 * Two accesses of one buffer conflict if one of them stores and their subscripts can be equal in every dimension. The
 * subscripts are compared as polynomials, with the ranges of the second access renamed (to the same iteration, a later
 * one, or any). The accesses are independent if in some dimension the difference is never 0, given the gates and that
 * the other dimensions are equal. Accesses that are not proved independent count as dependent. Needs a plain or
 * versioned program; changes nothing. */
#include "dsl/text.h"
#include "ranges/depend.h"

/* ---- what a loop touches ---- */

static void add_access(tg_touched *t, const tg_uop *node, const tg_uop *statement, uint32_t depth,
                       const tg_uop *const *loops) {
  tg_access a = {.node = node,
                 .statement = statement,
                 .order = t->order,
                 .buffer = tg_buffer_ordinal(node->src[0]),
                 .store = node->op == TG_OP_STORE,
                 .atomic = node->op == TG_OP_STORE && (node->arg & TG_ATOMIC),
                 .depth = depth,
                 .part = t->part,
                 .loop = loops};
  tg_push(&t->job->env, &t->all, a);
  if (a.store) t->stored[a.buffer] = 1;
}

static void touch_expressions(tg_touched *t, const tg_uop *u, uint32_t first, const tg_uop *statement, uint32_t depth,
                              const tg_uop *const *loops) {
  TG_VEC(const tg_uop *) stack = {0};
  uint32_t stamp = ++t->stamp;
  for (uint32_t i = u->n; i-- > first;) tg_push(&t->job->env, &stack, u->src[i]);
  while (stack.n) {
    const tg_uop *v = stack.data[--stack.n];
    if (v->n == 0 || v->op == TG_OP_DEFINE || v->op == TG_OP_AFTER || t->seen[v->id] == stamp) continue;
    t->seen[v->id] = stamp;
    if (v->op == TG_OP_LOAD) add_access(t, v, statement, depth, loops);
    if (v->op == TG_OP_RANGE) {   /* the range of a REDUCE; extents of loops are visited at their own END */
      bool around = false;
      for (uint32_t i = 0; i < depth; i++) around |= loops[i] == v;
      if (around) continue;
    }
    for (uint32_t i = v->n; i-- > 0;) tg_push(&t->job->env, &stack, v->src[i]);
  }
}

/* recursion as deep as the loops nest */
static void touch(tg_touched *t, const tg_uop *u, uint32_t depth, const tg_uop *const *loops) {
  tg_job *j = t->job;
  t->order++;
  if (u->op == TG_OP_DEFINE) {
    t->inside[tg_buffer_ordinal(u)] = 1;
    t->define_depth[tg_buffer_ordinal(u)] = depth;
  }
  if (u->op == TG_OP_STORE) {
    touch_expressions(t, u, 1, u, depth, loops);
    add_access(t, u, u, depth, loops);
  } else if (u->op == TG_OP_END) {
    touch_expressions(t, u->src[0], 0, u, depth, loops);
    const tg_uop **inner = tg_new(&j->env, const tg_uop *, depth + 1);
    if (depth) memcpy(inner, loops, depth * sizeof *loops);
    inner[depth] = u->src[0];
    for (uint32_t i = 1; i < u->n; i++) touch(t, u->src[i], depth + 1, inner);
  } else touch_expressions(t, u, 0, u, depth, loops);
}

/* Finds the loops around `end`; false: it is not in the program. */
static bool path_to(const tg_uop *u, const tg_uop *end, const tg_uop **loops, uint32_t *depth) {
  if (u == end) return true;
  if (u->op != TG_OP_SINK && u->op != TG_OP_END) return false;
  if (u->op == TG_OP_END && *depth < 64) loops[(*depth)++] = u->src[0];
  for (uint32_t i = u->op == TG_OP_END; i < u->n; i++)
    if (path_to(u->src[i], end, loops, depth)) return true;
  if (u->op == TG_OP_END) --*depth;
  return false;
}

tg_touched *tg_touched_by(tg_job *j, const tg_uop *sink, const tg_uop *end) {
  tg_touched *t = tg_new(&j->env, tg_touched, 1);
  t->job = j;
  t->end = end;
  t->polys = tg_polys_take(j);
  t->stored = tg_new(&j->env, uint8_t, j->buffers.n + 1);
  t->inside = tg_new(&j->env, uint8_t, j->buffers.n + 1);
  t->seen = tg_new(&j->env, uint32_t, j->uops.n);
  t->define_depth = tg_new(&j->env, uint32_t, j->buffers.n + 1);
  if (!end) { /* the whole program */
    for (uint32_t i = 0; i < sink->n; i++) touch(t, sink->src[i], 0, NULL);
    return t;
  }
  if (!path_to(sink, end, t->outer, &t->outer_n)) tg_bug(&j->env, "a loop that is not in the program");
  const tg_uop **loops = tg_new(&j->env, const tg_uop *, 1);
  loops[0] = end->src[0];
  for (t->part = 1; t->part < end->n; t->part++) touch(t, end->src[t->part], 1, loops);
  return t;
}

/* ---- are two accesses apart? ---- */

typedef struct { uint32_t n, from[64]; tg_poly to[64]; bool overflow; } renaming;

static bool is_outer(const tg_touched *t, const tg_uop *range) {
  for (uint32_t i = 0; i < t->outer_n; i++)
    if (t->outer[i] == range) return true;
  return false;
}

static uint32_t distance(tg_polys *c, tg_poly extent) {   /* a number of iterations: at least 1 */
  tg_i128 lo, hi;
  tg_poly_range(c, extent, &lo, &hi);
  return tg_atom_symbol(c, (tg_atom){.kind = TG_ATOM_OPAQUE, .lo = 1, .hi = hi >= TG_INF ? TG_INF : hi - 1});
}

static tg_poly image_of_range(tg_touched *t, renaming *r, uint32_t atom, uint32_t n, const tg_relation *rel) {
  tg_polys *c = t->polys;
  const tg_atom v = c->atoms[atom];
  tg_poly self = tg_poly_atom(c, atom), extent = tg_poly_replace(c, v.a, r->n, r->from, r->to, 1);
  for (uint32_t i = 0; i < n; i++) {
    if (rel[i].range != v.node) continue;
    if (rel[i].how == TG_SAME) return self;
    uint32_t d = distance(c, extent);
    tg_poly p = tg_poly_add(c, self, tg_poly_atom(c, d), rel[i].how == TG_LATER ? 1 : -1);
    tg_facts_poly(c, rel[i].how == TG_LATER ? tg_poly_plus(c, tg_poly_minus(c, p, extent), 1) : tg_poly_negate(c, p));
    return p;
  }
  tg_i128 lo, hi;
  tg_poly_range(c, extent, &lo, &hi);
  tg_atom fresh = {.kind = TG_ATOM_RANGE,
                   .node = v.node,
                   .copy = 1,
                   .a = extent,
                   .lo = 0,
                   .hi = hi >= TG_INF ? TG_INF
                         : hi < 1     ? 0
                                      : hi - 1};
  return tg_poly_atom(c, tg_atom_symbol(c, fresh));
}

/* Renames the ranges inside the loop for the second access. In order of atoms, so that extents are renamed first. */
static void rename_ranges(tg_touched *t, renaming *r, uint32_t atoms, uint32_t n, const tg_relation *rel) {
  tg_polys *c = t->polys;
  for (uint32_t i = 0; i < atoms; i++) {
    const tg_atom v = c->atoms[i];
    if (v.kind != TG_ATOM_RANGE || v.copy || is_outer(t, v.node)) continue;
    if (r->n == TG_COUNT(r->from)) {
      r->overflow = true;
      return;
    }
    tg_poly to = tg_poly_keep(c, image_of_range(t, r, i, n, rel));
    r->from[r->n] = i;
    r->to[r->n++] = to;
  }
}

/* Is d never 0, as a part of it is not? So digits of a subscript are told apart that lie between others.
 *
 * Let m >= 2 be a coefficient's size. Every monomial is an integer, so d = rest + m q for an integer q, where rest
 * leaves out the terms whose coefficients m divides and takes the constant modulo m: what is left out is m times an
 * integer. If d = 0, then rest = -m q. If also -m < rest < m, then q = 0 and rest = 0. So where rest lies between -m
 * and m and is not 0 whatever the atoms are, d is not 0 either. The bounds of rest hold for all values of the atoms, of
 * those whose loops run at all: both accesses happen, so all ranges in their subscripts have an iteration. A bound that
 * saturated is none, so m must lie below where they do. */
static bool has_rest(tg_polys *c, tg_poly d) {
  tg_term part[TG_POLY_TERMS];
  for (int i = 0; i < d.n; i++) {
    tg_i128 m = d.t[i].c < 0 ? -d.t[i].c : d.t[i].c, lo, hi;
    tg_poly rest = {part, 0};
    if (!d.t[i].degree || m < 2 || m >= TG_INF) continue;
    for (int k = 0; k < d.n; k++) {
      part[rest.n] = d.t[k];
      part[rest.n].c %= m;
      if (part[rest.n].c && d.t[k].degree) part[rest.n].c = d.t[k].c;
      if (part[rest.n].c) rest.n++;
    }
    tg_poly_range(c, rest, &lo, &hi);
    if (lo > -m && hi < m && (lo > 0 || hi < 0)) return true;
  }
  return false;
}

static bool never_zero(tg_polys *c, tg_poly d) {
  tg_i128 g = 0, k = tg_poly_constant(d);
  if (d.n < 0) return false;
  for (int i = 0; i < d.n; i++) {
    tg_i128 a = d.t[i].degree ? d.t[i].c : 0;
    if (a < 0) a = -a;
    while (a) {
      tg_i128 r = g % a;
      g = a;
      a = r;
    }
  }
  if ((g ? k % g != 0 : k != 0) || has_rest(c, d)) return true;
  return g && (tg_nonpositive(c, tg_poly_plus(c, d, 1)) || tg_nonpositive(c, tg_poly_plus(c, tg_poly_negate(c, d), 1)));
}

static void add_gate(tg_polys *c, const tg_access *a, const renaming *r) {
  const tg_uop *gate = tg_gate(a->node);
  tg_poly p[32];
  uint32_t n = 0;
  if (!gate) return;
  if (!r) tg_facts_add(c, gate, true);
  else if (tg_condition_polys(c, gate, true, p, &n, TG_COUNT(p)))
    for (uint32_t i = 0; i < n; i++) tg_facts_poly(c, tg_poly_replace(c, p[i], r->n, r->from, r->to, 1));
}

/* Is the range that of a loop around the access, or of a REDUCE around it? */
static bool runs_in(const tg_touched *t, const tg_access *a, const tg_uop *range) {
  for (uint32_t i = 0; i < a->depth; i++)
    if (a->loop[i] == range) return true;
  for (uint32_t i = 0; i < tg_access_rank(a->node); i++)
    if (tg_uses(t->job, a->node->src[1 + i], range)) return true;
  return tg_gate(a->node) && tg_uses(t->job, tg_gate(a->node), range);
}

/* Marks ranges of reductions that contain only one of the accesses: they may have no iteration although the other
 * access happens. For example x[i] = sum(j : i, x[j]) stores for i = 0 as well. */
static void note_absent(tg_touched *t, const tg_access *a, const tg_access *b, uint32_t atoms) {
  tg_polys *c = t->polys;
  for (uint32_t i = 0; i < c->n; i++) {
    tg_atom *v = &c->atoms[i];
    if (v->kind != TG_ATOM_RANGE || !v->node || is_outer(t, v->node)) continue;
    v->absent = !runs_in(t, i < atoms ? a : b, v->node);
  }
}

/* ---- swizzled subscripts ---- x ^ (y / div % mod) in one dimension, where y is, up to multiples of div * mod, the
 * subscript of another: of two such accesses that agree in the other dimensions, both are swizzled by one number, so
 * they agree in this one if their x do. */

typedef struct { const tg_uop *value; uint32_t by; int64_t div, mod; } swizzle;

static bool is_multiple(tg_poly p, tg_i128 of) {
  for (int i = 0; i < p.n; i++)
    if (p.t[i].c % of) return false;
  return p.n >= 0;
}

static bool swizzled_by(tg_polys *c, const tg_uop *access, uint32_t d, const tg_uop *y, swizzle *s) {
  tg_bounds b = tg_bounds_of(c->job, y);
  s->div = s->mod = 1;
  if (b.lo < 0 || b.hi > 1 << 20) return false;
  if ((y->op == TG_OP_MOD || y->op == TG_OP_CMOD) && y->src[1]->op == TG_OP_CONST)
    s->mod = y->src[1]->arg, y = y->src[0];
  else
    while (s->mod <= (int64_t)b.hi) s->mod *= 2;
  if ((y->op == TG_OP_IDIV || y->op == TG_OP_CDIV) && y->src[1]->op == TG_OP_CONST)
    s->div = y->src[1]->arg, y = y->src[0];
  if (s->div < 1 || s->mod < 1 || s->div > 1 << 20 || s->mod > 1 << 20 || tg_bounds_of(c->job, y).lo < 0) return false;
  for (s->by = 0; s->by < tg_access_rank(access); s->by++)
    if (s->by != d &&
        is_multiple(tg_poly_minus(c, tg_poly_of(c, y), tg_poly_of(c, access->src[1 + s->by])), s->div * s->mod))
      return true;
  return false;
}

static bool swizzle_of(tg_polys *c, const tg_uop *access, uint32_t d, swizzle *s) {
  const tg_uop *u = access->src[1 + d];
  for (uint32_t k = 0; u->op == TG_OP_XOR && k < 2; k++) {
    s->value = u->src[!k];
    if (swizzled_by(c, access, d, u->src[k], s)) return true;
  }
  return false;
}

/* The subscripts by which two accesses agree or not. */
static void subscripts(tg_polys *c, const tg_uop *a, const tg_uop *b, const tg_uop **of_a, const tg_uop **of_b) {
  for (uint32_t d = 0; d < tg_access_rank(a); d++) {
    swizzle x, y;
    bool both = swizzle_of(c, a, d, &x) && swizzle_of(c, b, d, &y) && x.by == y.by && x.div == y.div && x.mod == y.mod;
    of_a[d] = both ? x.value : a->src[1 + d];
    of_b[d] = both ? y.value : b->src[1 + d];
  }
}

bool tg_accesses_apart(tg_touched *t, const tg_access *a, const tg_access *b, uint32_t n, const tg_relation *rel) {
  tg_polys *c = t->polys;
  uint32_t rank = tg_access_rank(a->node);
  tg_poly difference[16];
  const tg_uop *of_a[16], *of_b[16];
  renaming r = {0};
  tg_polys_reset(c);
  for (uint32_t i = 0; i < n; i++) tg_poly_of(c, rel[i].range);
  subscripts(c, a->node, b->node, of_a, of_b);
  for (uint32_t d = 0; d < rank; d++) {
    tg_poly_of(c, of_a[d]);
    tg_poly_of(c, of_b[d]);
  }
  if (tg_gate(a->node) || tg_gate(b->node)) { /* their atoms, before the ranges are renamed */
    tg_poly p[32];
    uint32_t k = 0;
    if (tg_gate(a->node)) tg_condition_polys(c, tg_gate(a->node), true, p, &k, TG_COUNT(p));
    k = 0;
    if (tg_gate(b->node)) tg_condition_polys(c, tg_gate(b->node), true, p, &k, TG_COUNT(p));
  }
  uint32_t atoms = c->n;
  rename_ranges(t, &r, atoms, n, rel);
  if (r.overflow) return false;
  note_absent(t, a, b, atoms);
  for (uint32_t i = atoms; i < c->n; i++) /* no other iteration */
    if (c->atoms[i].kind == TG_ATOM_OPAQUE && !c->atoms[i].node && c->atoms[i].hi < 1) return true;
  for (uint32_t d = 0; d < rank; d++) {
    tg_poly second = tg_poly_replace(c, tg_poly_of(c, of_b[d]), r.n, r.from, r.to, 1);
    difference[d] = tg_poly_keep(c, tg_poly_minus(c, tg_poly_of(c, of_a[d]), second));
    if (difference[d].n >= 0 && never_zero(c, difference[d])) return true;
  }
  add_gate(c, a, NULL);
  add_gate(c, b, &r);
  for (uint32_t d = 0; d < rank; d++) {
    tg_facts_poly(c, difference[d]);
    tg_facts_poly(c, tg_poly_negate(c, difference[d]));
  }
  tg_facts_basic(c);
  /* All dimensions agree, by the facts: a contradiction shows in any of them. */
  for (uint32_t d = 0; d < rank; d++) {
    uint32_t facts = c->facts;
    if (difference[d].n >= 0 && never_zero(c, difference[d])) return true;
    c->facts = facts;
  }
  return tg_contradictory(c);
}

/* ---- messages ---- */

/* The statement of the second access for messages: ranges inside the loop are replaced by twins, whose names end in
 * '. */
static const tg_uop *twin_of(tg_touched *t, const tg_uop *range) {
  int64_t arg = range->arg | (int64_t)TG_TWIN;
  return tg_make(t->job, TG_OP_RANGE, TG_INDEX, 1, arg, 1, &range->src[0]);
}

bool tg_conflict_witness(tg_touched *t, const tg_access *a, const tg_access *b, uint32_t n, const tg_relation *rel,
                         tg_witness *w) {
  tg_job *j = t->job;
  const tg_uop *from[64], *to[64], *conditions[160];
  uint32_t k = 0, m = 0, count;
  const tg_uop **all = tg_toposort(j, b->node, &count);
  for (uint32_t i = 0; i < count && k < 64; i++) {
    if (all[i]->op != TG_OP_RANGE || is_outer(t, all[i])) continue;
    bool same = false;
    for (uint32_t q = 0; q < n; q++) same |= rel[q].range == all[i] && rel[q].how == TG_SAME;
    if (same) continue;
    from[k] = all[i];
    to[k] = twin_of(t, all[i]);
    k++;
  }
  for (uint32_t q = 0; q < n; q++)
    if (rel[q].how != TG_SAME) {
      const tg_uop *twin = twin_of(t, rel[q].range);
      conditions[m++] =
          rel[q].how == TG_LATER ? tg_op2(j, TG_OP_LT, rel[q].range, twin) : tg_op2(j, TG_OP_LT, twin, rel[q].range);
    }
  for (uint32_t d = 0; d < tg_access_rank(a->node); d++)
    conditions[m++] = tg_op2(j, TG_OP_EQ, a->node->src[1 + d], tg_substitute(j, b->node->src[1 + d], k, from, to));
  if (tg_gate(a->node)) conditions[m++] = tg_gate(a->node);
  if (tg_gate(b->node)) conditions[m++] = tg_substitute(j, tg_gate(b->node), k, from, to);
  for (uint32_t i = 0; i < j->requires.n && m < 160; i++) conditions[m++] = j->requires.data[i];
  return tg_witness_find(j, m, conditions, w);
}

static const char *line_of(tg_job *j, const tg_uop *statement) {
  int line = tg_get_pos(j, statement).line;
  return line ? tg_format(&j->env, " (line %d)", line) : "";
}

static const char *touched_element(tg_touched *t, const tg_access *a, const tg_witness *w) {
  tg_job *j = t->job;
  tg_str s = tg_str_new(&j->env);
  tg_str_printf(&s, "%s[", j->buffers.data[a->buffer].name);
  for (uint32_t d = 0; d < tg_access_rank(a->node); d++) {
    tg_i128 v;
    tg_str_printf(&s, "%s%s", d ? ", " : "",
                  w && tg_witness_value(j, w, a->node->src[1 + d], &v) ? tg_integer_text(j, v)
                                                                       : tg_text(j, a->node->src[1 + d]));
  }
  tg_str_puts(&s, "]");
  return s.data;
}

const char *tg_conflict_text(tg_touched *t, const tg_access *a, const tg_access *b, uint32_t n,
                             const tg_relation *rel) {
  tg_job *j = t->job;
  tg_witness w;
  tg_str s = tg_str_new(&j->env);
  bool found = tg_conflict_witness(t, a, b, n, rel, &w);
  tg_str_printf(&s, "`%s`%s %s %s", tg_text(j, a->statement), line_of(j, a->statement), a->store ? "stores" : "reads",
                touched_element(t, a, found ? &w : NULL));
  if (a->statement == b->statement)
    tg_str_printf(&s, ", and %s it in another iteration", b->store ? "stores" : "reads");
  else
    tg_str_printf(&s, ", `%s`%s %s it", tg_text(j, b->statement), line_of(j, b->statement),
                  b->store ? "stores" : "reads");
  if (found) tg_str_printf(&s, ", when %s", tg_witness_text(j, &w));
  else tg_str_puts(&s, ": they are not known to be apart");
  return s.data;
}

/* ---- verdicts ---- */

static bool reads_elsewhere(tg_job *j, const tg_uop *e, uint32_t buffer) {
  uint32_t n;
  const tg_uop **all = tg_toposort(j, e, &n);
  for (uint32_t i = 0; i < n; i++)
    if (all[i]->op == TG_OP_LOAD && tg_buffer_ordinal(all[i]->src[0]) == buffer) return true;
  return false;
}

/* x[..] = x[..] op e, op associative, e without x: the op, else CONST. */
tg_op tg_accumulates(tg_job *j, const tg_uop *store) {
  const tg_uop *v = tg_stored(store);
  uint32_t buffer = tg_buffer_ordinal(store->src[0]), rank = tg_access_rank(store);
  if (store->arg & TG_ATOMIC) return TG_OP_ADD;
  if (!(tg_ops[v->op].flags & TG_OPF_A)) return TG_OP_CONST;
  for (int side = 0; side < 2; side++) {
    const tg_uop *x = v->src[side], *e = v->src[1 - side];
    if (x->op != TG_OP_LOAD || tg_buffer_ordinal(x->src[0]) != buffer ||
        memcmp(x->src + 1, store->src + 1, rank * sizeof *x->src))
      continue;
    if (tg_gate(x) && tg_gate(x) != tg_gate(store)) continue;
    if (!reads_elsewhere(j, e, buffer)) return v->op;
  }
  return TG_OP_CONST;
}

/* Every access of the buffer in the loop belongs to statements x op= e of one op. */
static bool only_accumulated(tg_touched *t, uint32_t buffer) {
  tg_op op = TG_OP_CONST;
  for (uint32_t i = 0; i < t->all.n; i++) {
    const tg_access *a = &t->all.data[i];
    if (a->buffer != buffer) continue;
    tg_op now = a->statement->op == TG_OP_STORE && tg_buffer_ordinal(a->statement->src[0]) == buffer
                    ? tg_accumulates(t->job, a->statement)
                    : TG_OP_CONST;
    if (now == TG_OP_CONST || (op != TG_OP_CONST && now != op)) return false;
    op = now;
  }
  return true;
}

uint32_t tg_common_loops(const tg_access *a, const tg_access *b) {
  uint32_t n = 0;
  while (n < a->depth && n < b->depth && a->loop[n] == b->loop[n]) n++;
  return n;
}

/* Would running all iterations of each statement before the next one reverse a(t) -> b(later t)? Inner loops stay
 * outside. */
static bool lockstep_keeps(tg_touched *t, const tg_access *a, const tg_access *b) {
  uint32_t common = tg_common_loops(a, b), n = 1;
  tg_relation rel[65] = {{t->end->src[0], TG_LATER}};
  /* b in an earlier iteration of a shared inner loop: lockstep would run it first */
  for (uint32_t l = 1; l < common; l++) {
    rel[n] = (tg_relation){a->loop[l], TG_EARLIER};
    if (!tg_accesses_apart(t, a, b, n + 1, rel)) return false;
    rel[n++].how = TG_SAME;
  }
  return a->order < b->order || tg_accesses_apart(t, a, b, n, rel);
}

tg_verdict tg_loop_verdict(tg_job *j, const tg_uop *sink, const tg_uop *end, const char **why) {
  tg_touched *t = tg_touched_by(j, sink, end);
  const tg_relation later = {end->src[0], TG_LATER};
  tg_verdict worst = TG_INDEPENDENT;
  const tg_access *wa = NULL, *wb = NULL;
  uint8_t *accumulated = NULL;
  for (uint32_t i = 0; i < t->all.n && worst != TG_SEQUENTIAL; i++) {
    const tg_access *a = &t->all.data[i];
    if (!t->stored[a->buffer] || t->inside[a->buffer]) continue;
    for (uint32_t k = 0; k < t->all.n && worst != TG_SEQUENTIAL; k++) {
      const tg_access *b = &t->all.data[k];
      if (b->buffer != a->buffer || (!a->store && !b->store) || (a->atomic && b->atomic)) continue;
      if (tg_accesses_apart(t, a, b, 1, &later)) continue;
      if (!accumulated) accumulated = tg_new(&j->env, uint8_t, j->buffers.n);
      if (!accumulated[a->buffer]) accumulated[a->buffer] = only_accumulated(t, a->buffer) ? 2 : 1;
      tg_verdict now = accumulated[a->buffer] == 2 ? TG_REDUCTION
                       : lockstep_keeps(t, a, b)   ? TG_LOCKSTEP
                                                   : TG_SEQUENTIAL;
      if (worst != TG_INDEPENDENT && worst != now) now = TG_SEQUENTIAL; /* conflicts of both kinds */
      if (now > worst) {
        worst = now;
        wa = a;
        wb = b;
      }
    }
  }
  if (why) *why = wa ? tg_conflict_text(t, wa, wb, 1, &later) : NULL;
  tg_polys_give(j, t->polys);
  return worst;
}

/* ---- swapping ---- */

static const char *swap_hindrance(tg_job *j, tg_touched *t, const tg_uop *outer, const tg_uop *inner) {
  const tg_uop *path[64], *r = inner->src[0];
  uint32_t depth = 0;
  if (!path_to(outer, inner, path, &depth)) return "the one loop does not stand in the other";
  for (uint32_t i = 0; i < t->all.n; i++) {
    const tg_access *a = &t->all.data[i];
    if (!t->stored[a->buffer]) continue;
    bool a_in = a->depth > depth && a->loop[depth] == r;
    for (uint32_t k = 0; k < t->all.n; k++) {
      const tg_access *b = &t->all.data[k];
      if (b->buffer != a->buffer || (!a->store && !b->store)) continue;
      bool b_in = b->depth > depth && b->loop[depth] == r;
      if (t->inside[a->buffer] && a_in != b_in)
        return tg_format(&j->env, "%s is defined between the two loops", j->buffers.data[a->buffer].name);
      if (t->inside[a->buffer] && t->define_depth[a->buffer] > depth) continue;   /* each iteration has its own */
      tg_relation rel[66];
      uint32_t n = 0;
      for (uint32_t l = 0; l < depth; l++) {
        rel[n] = (tg_relation){path[l], TG_LATER};
        if (a_in && b_in) {
          rel[n + 1] = (tg_relation){r, TG_EARLIER};
          if (!tg_accesses_apart(t, a, b, n + 2, rel)) return tg_conflict_text(t, a, b, n + 2, rel);
        } else if (a_in != b_in && a->order > b->order && tg_common_loops(a, b) > l &&
                   !tg_accesses_apart(t, a, b, n + 1, rel))
          return tg_conflict_text(t, a, b, n + 1, rel);
        rel[n++].how = TG_SAME;
      }
    }
  }
  return NULL;
}

bool tg_may_swap(tg_job *j, const tg_uop *sink, const tg_uop *outer, const tg_uop *inner, const char **why) {
  tg_touched *t = tg_touched_by(j, sink, outer);
  const char *hindrance = swap_hindrance(j, t, outer, inner);
  if (why) *why = hindrance;
  tg_polys_give(j, t->polys);
  return !hindrance;
}

/* ---- loops of their own ---- */

static const char *part_hindrance(tg_touched *t, const tg_uop *end, const uint32_t *part) {
  const tg_relation later = {end->src[0], TG_LATER};
  for (uint32_t i = 0; i < t->all.n; i++) {
    const tg_access *a = &t->all.data[i];
    if (!t->stored[a->buffer] || t->inside[a->buffer]) continue;
    for (uint32_t k = 0; k < t->all.n; k++) {
      const tg_access *b = &t->all.data[k];
      if (b->buffer != a->buffer || part[b->part] >= part[a->part] || (!a->store && !b->store) ||
          (a->atomic && b->atomic))
        continue;
      if (!tg_accesses_apart(t, a, b, 1, &later)) return tg_conflict_text(t, a, b, 1, &later);
    }
  }
  return NULL;
}

bool tg_may_part(tg_job *j, const tg_uop *sink, const tg_uop *end, const uint32_t *part, const char **why) {
  tg_touched *t = tg_touched_by(j, sink, end);
  *why = part_hindrance(t, end, part);
  tg_polys_give(j, t->polys);
  return !*why;
}
