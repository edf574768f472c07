/* SPDX-License-Identifier: MIT
 * Polynomials in 128-bit checked coefficients, and the atoms they are over.
 *
 * Needs integer expressions, of any depth; leaves for each a sorted sum of monomials, or unknown where a coefficient
 * overflows or a limit of size is passed. x % d is written x - d (x / d), and quotients are brought to one form
 * ((d q + r) / d = q + r / d), so that what is equal by the laws of floor division cancels. */
#include "ranges/known.h"
#include "ranges/polynomial.h"

static const tg_poly unknown = {NULL, -1};
enum { BLOCK = 16 << 10 };

/* ---- memory of a question ---- */

static void *bump(tg_polys *c, tg_bump *b, size_t bytes) {
  bytes = (bytes + 15) & ~(size_t)15;
  if (!b->blocks || b->at + bytes > BLOCK) {
    if (b->blocks) b->at_block++;
    b->at = 0;
    if (b->at_block >= b->blocks) {
      if (b->blocks == b->cap) b->block = tg_grow_(&c->job->env, b->block, b->blocks, &b->cap, sizeof *b->block);
      b->block[b->blocks++] = tg_alloc(&c->job->env, BLOCK);
      b->at_block = b->blocks - 1;
    }
  }
  void *p = b->block[b->at_block] + b->at;
  b->at += bytes;
  return p;
}

static tg_term *terms(tg_polys *c, int n) { return bump(c, &c->scratch, sizeof(tg_term) * (size_t)(n ? n : 1)); }
/* Frees the unused part of the array allocated last: it had `had` terms, n are used. */
static tg_poly trimmed(tg_polys *c, tg_term *t, int had, int n) {
  c->scratch.at -= sizeof(tg_term) * (size_t)((had ? had : 1) - (n ? n : 1));
  return (tg_poly){t, n};
}
tg_bump_mark tg_scratch_mark(const tg_polys *c) { return (tg_bump_mark){c->scratch.at_block, c->scratch.at}; }
void tg_scratch_release(tg_polys *c, tg_bump_mark m) {
  c->scratch.at_block = m.block;
  c->scratch.at = m.at;
}

tg_polys *tg_polys_new(tg_job *j) {
  tg_polys *c = tg_new(&j->env, tg_polys, 1);
  c->job = j;
  c->cap = 64;
  c->atoms = tg_new(&j->env, tg_atom, c->cap);
  c->memo_mask = 255;
  c->memo = tg_alloc(&j->env, sizeof *c->memo * (c->memo_mask + 1));
  c->epoch = 1;
  return c;
}

tg_polys *tg_polys_take(tg_job *j) {
  tg_known *k = tg_known_of(j);
  if (!k->polys) k->polys = tg_polys_new(j);
  tg_polys *c = k->polys->taken ? tg_polys_new(j) : k->polys;
  c->taken = true;
  tg_polys_reset(c);
  return c;
}

void tg_polys_give(tg_job *j, tg_polys *c) { (void)j, c->taken = false; }

void tg_polys_reset(tg_polys *c) {
  c->n = c->copies = c->facts = c->knowns = c->eithers = c->memo_n = 0;
  c->asking = false;
  c->scratch.at_block = c->keep.at_block = 0;
  c->scratch.at = c->keep.at = 0;
  c->epoch++;
}

/* ---- sums and products ---- */

static int compare(const tg_term *a, const tg_term *b) {
  uint32_t n = a->degree < b->degree ? a->degree : b->degree;
  for (uint32_t i = 0; i < n; i++)
    if (a->atom[i] != b->atom[i]) return a->atom[i] > b->atom[i] ? -1 : 1;
  return a->degree == b->degree ? 0 : a->degree > b->degree ? -1 : 1;
}

tg_poly tg_poly_const(tg_polys *c, tg_i128 v) {
  tg_term *t = terms(c, 1);
  *t = (tg_term){.c = v};
  return (tg_poly){t, v != 0};
}

tg_poly tg_poly_atom(tg_polys *c, uint32_t atom) {
  tg_term *t = terms(c, 1);
  *t = (tg_term){.c = 1, .degree = 1, .atom = {(uint16_t)atom}};
  return (tg_poly){t, 1};
}

tg_poly tg_poly_add(tg_polys *c, tg_poly p, tg_poly q, tg_i128 k) {
  if (p.n < 0 || q.n < 0) return unknown;
  tg_term *t = terms(c, p.n + q.n);
  int n = 0, i = 0, l = 0;
  while (i < p.n || l < q.n) {
    int o = i == p.n ? 1 : l == q.n ? -1 : compare(&p.t[i], &q.t[l]);
    if (o < 0) {
      t[n++] = p.t[i++];
      continue;
    }
    tg_i128 v;
    if (__builtin_mul_overflow(q.t[l].c, k, &v)) return unknown;
    if (o == 0 && __builtin_add_overflow(v, p.t[i++].c, &v)) return unknown;
    t[n] = q.t[l++];
    t[n].c = v;
    n += v != 0;
  }
  return n > TG_POLY_TERMS ? unknown : trimmed(c, t, p.n + q.n, n);
}

static bool multiply_terms(const tg_term *a, const tg_term *b, tg_term *r) {
  if (a->degree + b->degree > TG_POLY_DEGREE || __builtin_mul_overflow(a->c, b->c, &r->c)) return false;
  uint32_t i = 0, l = 0, n = 0;
  uint16_t atom[TG_POLY_DEGREE];
  while (i < a->degree || l < b->degree)
    atom[n++] = i < a->degree && (l == b->degree || a->atom[i] >= b->atom[l]) ? a->atom[i++] : b->atom[l++];
  r->degree = n;
  memcpy(r->atom, atom, sizeof atom);
  return true;
}

static tg_poly times_term(tg_polys *c, tg_poly p, const tg_term *by) {   /* the order of terms is kept by a product */
  tg_term *t = terms(c, p.n);
  for (int i = 0; i < p.n; i++)
    if (!multiply_terms(&p.t[i], by, &t[i])) return unknown;
  return (tg_poly){t, p.n};
}

tg_poly tg_poly_mul(tg_polys *c, tg_poly p, tg_poly q) {
  if (p.n < 0 || q.n < 0) return unknown;
  if (q.n == 1) return times_term(c, p, q.t);
  tg_poly r = tg_poly_const(c, 0);
  for (int i = 0; i < q.n && r.n >= 0; i++) r = tg_poly_add(c, r, times_term(c, p, &q.t[i]), 1);
  return r;
}

tg_poly tg_poly_keep(tg_polys *c, tg_poly p) {
  if (p.n < 0) return p;
  tg_term *t = bump(c, &c->keep, sizeof *t * (size_t)(p.n ? p.n : 1));
  if (p.n) memcpy(t, p.t, sizeof *t * (size_t)p.n);
  return (tg_poly){t, p.n};
}

bool tg_poly_equal(tg_poly p, tg_poly q) {
  if (p.n != q.n || p.n < 0) return false;
  for (int i = 0; i < p.n; i++)
    if (p.t[i].c != q.t[i].c || compare(&p.t[i], &q.t[i])) return false;
  return true;
}

static uint32_t power_of(const tg_term *t, uint32_t v) {
  uint32_t k = 0;
  for (uint32_t i = 0; i < t->degree; i++) k += t->atom[i] == v;
  return k;
}

bool tg_poly_mentions(tg_poly p, uint32_t v) {
  for (int i = 0; i < p.n; i++)
    if (power_of(&p.t[i], v)) return true;
  return false;
}

bool tg_poly_split(tg_polys *c, tg_poly p, uint32_t v, tg_poly *square, tg_poly *linear, tg_poly *rest) {
  tg_term *t[3] = {terms(c, p.n), terms(c, p.n), terms(c, p.n)};
  int n[3] = {0};
  for (int i = 0; i < p.n; i++) {
    uint32_t k = power_of(&p.t[i], v);
    if (k > 2) return false;
    tg_term *o = &t[k][n[k]++];
    *o = (tg_term){.c = p.t[i].c};
    for (uint32_t l = 0; l < p.t[i].degree; l++)
      if (p.t[i].atom[l] != v) o->atom[o->degree++] = p.t[i].atom[l];
  }
  *rest = (tg_poly){t[0], n[0]};
  *linear = (tg_poly){t[1], n[1]};
  *square = (tg_poly){t[2], n[2]};
  return true;
}

/* the monomials; coefficients are the caller's */
static bool divide_term(const tg_term *a, const tg_term *d, tg_term *q) {
  uint32_t l = 0;
  *q = (tg_term){.c = a->c};
  for (uint32_t i = 0; i < a->degree; i++) {
    if (l < d->degree && a->atom[i] == d->atom[l]) l++;
    else q->atom[q->degree++] = a->atom[i];
  }
  return l == d->degree;
}

bool tg_poly_divide(tg_polys *c, tg_poly p, tg_term d, tg_poly *quotient) {
  if (p.n < 0 || !d.c) return false;
  tg_term *t = terms(c, p.n);
  for (int i = 0; i < p.n; i++) {
    if (p.t[i].c % d.c || !divide_term(&p.t[i], &d, &t[i])) return false;
    t[i].c = p.t[i].c / d.c;
  }
  *quotient = (tg_poly){t, p.n};
  return true;
}

static tg_i128 clamp(tg_i128 v) { return v > TG_INF ? TG_INF : v < -TG_INF ? -TG_INF : v; }
static tg_i128 times(tg_i128 a, tg_i128 b) {
  tg_i128 r;
  if (!a || !b) return 0;
  return __builtin_mul_overflow(a, b, &r) ? ((a < 0) == (b < 0) ? TG_INF : -TG_INF) : clamp(r);
}

/* Sums saturate towards the outside: lo never rises from -TG_INF, hi never falls from TG_INF. */
void tg_poly_range(const tg_polys *c, tg_poly p, tg_i128 *lo, tg_i128 *hi) {
  *lo = *hi = 0;
  if (p.n < 0) {
    *lo = -TG_INF;
    *hi = TG_INF;
    return;
  }
  for (int i = 0; i < p.n; i++) {
    tg_i128 a = clamp(p.t[i].c), b = a;
    for (uint32_t l = 0; l < p.t[i].degree; l++) {
      const tg_atom *v = &c->atoms[p.t[i].atom[l]];
      tg_i128 x[4] = {times(a, v->lo), times(a, v->hi), times(b, v->lo), times(b, v->hi)};
      a = b = x[0];
      for (int k = 1; k < 4; k++) {
        if (x[k] < a) a = x[k];
        if (x[k] > b) b = x[k];
      }
    }
    *lo = *lo <= -TG_INF || a <= -TG_INF ? -TG_INF : clamp(*lo + a);
    *hi = *hi >= TG_INF || b >= TG_INF ? TG_INF : clamp(*hi + b);
  }
}

/* ---- atoms ---- */

static uint32_t intern(tg_polys *c, tg_atom a, bool symbol) {
  for (uint32_t i = 0; !symbol && i < c->n; i++) {
    const tg_atom *b = &c->atoms[i];
    if (b->kind != a.kind || b->copy != a.copy || b->node != a.node) continue;
    if (a.kind == TG_ATOM_DIV || a.kind == TG_ATOM_MIN || a.kind == TG_ATOM_MAX
            ? tg_poly_equal(a.a, b->a) && tg_poly_equal(a.b, b->b)
            : a.node != NULL)
      return i;
  }
  if (c->n == TG_ATOMS) return UINT32_MAX;
  if (c->n == c->cap) c->atoms = tg_grow_(&c->job->env, c->atoms, c->n, &c->cap, sizeof *c->atoms);
  a.a = tg_poly_keep(c, a.a);
  a.b = tg_poly_keep(c, a.b);
  a.rank = a.kind == TG_ATOM_RANGE ? c->n + 1 : 0;
  for (int side = 0; side < 2 && a.kind != TG_ATOM_RANGE; side++) {
    tg_poly p = side ? a.b : a.a;
    for (int i = 0; i < p.n; i++)
      for (uint32_t k = 0; k < p.t[i].degree; k++)
        if (c->atoms[p.t[i].atom[k]].rank > a.rank) a.rank = c->atoms[p.t[i].atom[k]].rank;
  }
  c->atoms[c->n] = a;
  return c->n++;
}

static tg_poly poly_of_atom(tg_polys *c, uint32_t i) { return i == UINT32_MAX ? unknown : tg_poly_atom(c, i); }
uint32_t tg_atom_symbol(tg_polys *c, tg_atom a) {
  uint32_t i = intern(c, a, true);
  if (i == UINT32_MAX) tg_fail(&c->job->env, TG_ELIMIT, "a question of over %d atoms to the prover", TG_ATOMS);
  return i;
}

static tg_poly opaque(tg_polys *c, const tg_uop *u) {
  tg_bounds b = {-TG_INF, TG_INF, 1, 0};
  if (!tg_is_float(u->type) && u->type != TG_VOID) b = tg_bounds_of(c->job, u);
  tg_i128 lo = clamp(b.lo), hi = clamp(b.hi);
  if (lo == hi && lo > -TG_INF && hi < TG_INF) return tg_poly_const(c, lo);
  return poly_of_atom(c, intern(c, (tg_atom){.kind = TG_ATOM_OPAQUE, .node = u, .lo = lo, .hi = hi}, false));
}

static tg_poly range_atom(tg_polys *c, const tg_uop *u, tg_poly extent) {
  tg_i128 lo, hi;
  tg_poly_range(c, extent, &lo, &hi);
  return poly_of_atom(c, intern(c,
                                (tg_atom){.kind = TG_ATOM_RANGE,
                                          .node = u,
                                          .a = extent,
                                          .lo = 0,
                                          .hi = hi >= TG_INF ? TG_INF
                                                : hi < 1     ? 0
                                                             : hi - 1},
                                false));
}

/* A parameter that is a multiple of m is m times an atom, so divisibility needs no facts. */
static tg_poly param_atom(tg_polys *c, const tg_uop *u) {
  const tg_param *p = &c->job->params.data[u->arg];
  tg_i128 m = p->multiple > 0 ? p->multiple : 1, lo = -tg_floor_div(-(tg_i128)p->lo, m), hi = tg_floor_div(p->hi, m);
  if (lo == hi) return tg_poly_const(c, lo * m);
  uint32_t i = intern(c, (tg_atom){.kind = TG_ATOM_PARAM, .node = u, .lo = lo, .hi = hi}, false);
  return i == UINT32_MAX ? unknown : tg_poly_mul(c, tg_poly_atom(c, i), tg_poly_const(c, m));
}

tg_poly tg_poly_extreme(tg_polys *c, tg_atom_kind kind, const tg_uop *node, uint32_t copy, tg_poly a, tg_poly b) {
  tg_i128 lo, hi, alo, ahi, blo, bhi;
  if (a.n < 0 || b.n < 0) return unknown;
  tg_poly_range(c, tg_poly_minus(c, a, b), &lo, &hi);
  if (kind != TG_ATOM_EITHER && hi <= 0) return kind == TG_ATOM_MIN ? a : b;
  if (kind != TG_ATOM_EITHER && lo >= 0) return kind == TG_ATOM_MIN ? b : a;
  tg_poly_range(c, a, &alo, &ahi);
  tg_poly_range(c, b, &blo, &bhi);
  bool min = kind == TG_ATOM_MIN, max = kind == TG_ATOM_MAX;
  tg_atom v = {.kind = kind,
               .node = node,
               .copy = copy,
               .a = a,
               .b = b,
               .lo = max == (alo > blo) ? alo : blo,
               .hi = min == (ahi < bhi) ? ahi : bhi};
  return poly_of_atom(c, intern(c, v, false));
}

tg_poly tg_poly_copy(tg_polys *c, uint32_t atom, uint32_t copy) {
  tg_atom v = c->atoms[atom];
  v.copy = copy;
  return poly_of_atom(c, intern(c, v, false));
}

/* ---- quotients ---- */

static bool in_period(tg_polys *c, tg_poly r, tg_poly d, int *floor) {   /* r / d is -1 or 0 */
  tg_i128 lo, hi, below, above, low;
  tg_poly_range(c, r, &lo, &hi);
  tg_poly_range(c, tg_poly_minus(c, r, d), &low, &above);
  if (lo >= 0 && above < 0) return *floor = 0, true;
  tg_poly_range(c, tg_poly_add(c, r, d, 1), &below, &low);
  if (hi < 0 && below >= 0) return *floor = -1, true;
  if (tg_poly_is_const(d)) return false;
  tg_poly up = tg_poly_plus(c, tg_poly_minus(c, r, d), 1);
  if (lo >= 0 && tg_nonpositive(c, up)) return *floor = 0, true;
  return false;
}

static tg_i128 common_factor(tg_poly p, tg_i128 g) {   /* of g and the coefficients of all but the constant */
  for (int i = 0; i < p.n; i++) {
    tg_i128 a = p.t[i].degree ? p.t[i].c : 0, b = g;
    if (a < 0) a = -a;
    while (a) {
      tg_i128 r = b % a;
      b = a;
      a = r;
    }
    g = b;
  }
  return g;
}

static tg_poly floor_all(tg_polys *c, tg_poly p, tg_i128 g) {   /* g divides all but the constant */
  tg_term *t = terms(c, p.n);
  int n = 0;
  for (int i = 0; i < p.n; i++) {
    t[n] = p.t[i];
    t[n].c = tg_floor_div(p.t[i].c, g);
    n += t[n].c != 0;
  }
  return (tg_poly){t, n};
}

tg_poly tg_poly_div(tg_polys *c, tg_poly x, tg_poly d) {
  if (x.n < 0 || d.n < 0) return unknown;
  if (d.n == 0) return tg_poly_const(c, 0);
  tg_i128 dlo, dhi, xlo, xhi;
  tg_poly_range(c, d, &dlo, &dhi);
  if (dhi <= -1) {
    x = tg_poly_negate(c, x);
    d = tg_poly_negate(c, d);
    tg_poly_range(c, d, &dlo, &dhi);
  }
  if (d.n != 1 || dlo < 1) return unknown;
  tg_term by = d.t[0], *q = terms(c, x.n), *r = terms(c, x.n);
  int nq = 0, nr = 0;
  for (int i = 0; i < x.n; i++) {
    tg_term t;
    tg_i128 whole = divide_term(&x.t[i], &by, &t) ? tg_floor_div(x.t[i].c, by.c) : 0;
    if (whole) {
      q[nq] = t;
      q[nq++].c = whole;
    }
    r[nr] = x.t[i];
    r[nr].c -= whole * by.c;
    nr += r[nr].c != 0;
  }
  tg_poly quotient = {q, nq}, rest = {r, nr};
  int floor;
  if (in_period(c, rest, d, &floor)) return floor ? tg_poly_plus(c, quotient, floor) : quotient;
  if (!by.degree) {
    tg_i128 g = common_factor(rest, by.c);
    if (g > 1) {
      rest = floor_all(c, rest, g);
      d = tg_poly_const(c, by.c / g);
      if (by.c == g) return tg_poly_add(c, quotient, rest, 1);
    }
    if (rest.n == 1 && rest.t[0].c == 1 && rest.t[0].degree == 1) { /* (y / a) / b = y / (a b) */
      const tg_atom *v = &c->atoms[rest.t[0].atom[0]];
      if (v->kind == TG_ATOM_DIV && tg_poly_is_const(v->b))
        return tg_poly_add(c, quotient, tg_poly_div(c, v->a, tg_poly_mul(c, v->b, d)), 1);
    }
  }
  tg_poly_range(c, d, &dlo, &dhi);
  tg_poly_range(c, rest, &xlo, &xhi);
  tg_atom v = {.kind = TG_ATOM_DIV,
               .a = rest,
               .b = d,
               .lo = xlo <= -TG_INF ? -TG_INF : tg_floor_div(xlo, xlo >= 0 ? dhi : dlo),
               .hi = xhi >= TG_INF ? TG_INF : tg_floor_div(xhi, xhi >= 0 ? dlo : dhi)};
  return tg_poly_add(c, quotient, poly_of_atom(c, intern(c, v, false)), 1);
}

/* ---- of a node ---- */

static uint32_t memo_slot(const tg_polys *c, uint32_t id) {
  uint32_t h = (id * 0x9E3779B1u >> 8) & c->memo_mask;
  while (c->memo[h].epoch == c->epoch && c->memo[h].id != id) h = (h + 1) & c->memo_mask;
  return h;
}

static const tg_poly *memo_get(const tg_polys *c, const tg_uop *u) {
  uint32_t h = memo_slot(c, u->id);
  return c->memo[h].epoch == c->epoch ? &c->memo[h].p : NULL;
}

static void memo_set(tg_polys *c, const tg_uop *u, tg_poly p) {
  if (c->memo_n * 2 > c->memo_mask) {
    uint32_t old = c->memo_mask;
    __auto_type was = c->memo;
    c->memo = tg_alloc(&c->job->env, sizeof *c->memo * (old + 1) * 2);
    c->memo_mask = old * 2 + 1;
    for (uint32_t i = 0; i <= old; i++)
      if (was[i].epoch == c->epoch) c->memo[memo_slot(c, was[i].id)] = was[i];
  }
  uint32_t h = memo_slot(c, u->id);
  c->memo_n += c->memo[h].epoch != c->epoch;
  c->memo[h].id = u->id;
  c->memo[h].epoch = c->epoch;
  c->memo[h].p = tg_poly_keep(c, p);
}

static bool fits(const tg_polys *c, tg_poly p, tg_type t) {
  if (t == TG_INDEX) return p.n >= 0;
  int bits = tg_type_bits(t);
  tg_i128 lo, hi, one = 1;
  if (p.n < 0 || !tg_is_int(t)) return false;
  tg_poly_range(c, p, &lo, &hi);
  return lo >= (tg_is_signed(t) ? -(one << (bits - 1)) : 0) && hi < one << (tg_is_signed(t) ? bits - 1 : bits);
}

/* How many leading sources the polynomial of u is made of; skip gets the first. 0: a leaf. */
static uint32_t sources_of(const tg_uop *u, uint32_t *skip) {
  *skip = 0;
  if (u->lanes != 1 && u->op != TG_OP_CAST && !(tg_ops[u->op].flags & TG_OPF_W)) return 0;
  if (u->type != TG_INDEX && !tg_is_int(u->type)) return 0;
  switch (u->op) {
  case TG_OP_ADD:
  case TG_OP_SUB:
  case TG_OP_MUL:
  case TG_OP_IDIV:
  case TG_OP_MOD:
  case TG_OP_CDIV:
  case TG_OP_CMOD:
  case TG_OP_MIN:
  case TG_OP_MAX:
  case TG_OP_SHL: case TG_OP_SHR: case TG_OP_AND: return 2;
  case TG_OP_NEG: case TG_OP_RANGE: case TG_OP_ABS: return 1;
  case TG_OP_FMA: return 3;
  case TG_OP_CAST: return u->src[0]->type == TG_INDEX || tg_is_int(u->src[0]->type);
  case TG_OP_WHERE: return *skip = 1, 2;
  default: return 0;
  }
}

static tg_poly shifted(tg_polys *c, tg_op op, tg_poly a, tg_poly b) {
  tg_i128 k = tg_poly_constant(b), one = 1;
  if (op == TG_OP_AND) { /* by a mask of low bits */
    if (!tg_poly_is_const(b) || k < 0 || (k & (k + 1)) || k > TG_INF / 2) return unknown;
    tg_poly d = tg_poly_const(c, k + 1);
    return tg_poly_minus(c, a, tg_poly_mul(c, d, tg_poly_div(c, a, d)));
  }
  if (!tg_poly_is_const(b) || k < 0 || k > 62) return unknown;
  return op == TG_OP_SHL ? tg_poly_mul(c, a, tg_poly_const(c, one << k))
                         : tg_poly_div(c, a, tg_poly_const(c, one << k));
}

static tg_poly divided(tg_polys *c, const tg_uop *u, tg_poly a, tg_poly b) {
  tg_i128 lo, hi;
  if (u->op == TG_OP_CDIV || u->op == TG_OP_CMOD) { /* truncating: the same where nothing is negative */
    tg_poly_range(c, a, &lo, &hi);
    if (lo < 0) return unknown;
    tg_poly_range(c, b, &lo, &hi);
    if (lo < 1) return unknown;
  }
  tg_poly q = tg_poly_div(c, a, b);
  if (u->op == TG_OP_IDIV || u->op == TG_OP_CDIV) return q;
  if (b.n == 0) return b;
  tg_poly_range(c, b, &lo, &hi);
  return lo <= 0 && hi >= 0 ? unknown : tg_poly_minus(c, a, tg_poly_mul(c, b, q));
}

static tg_poly node_poly(tg_polys *c, const tg_uop *u, const tg_poly *s) {
  switch (u->op) {
  case TG_OP_ADD: return tg_poly_add(c, s[0], s[1], 1);
  case TG_OP_SUB: return tg_poly_minus(c, s[0], s[1]);
  case TG_OP_MUL: return tg_poly_mul(c, s[0], s[1]);
  case TG_OP_FMA: return tg_poly_add(c, tg_poly_mul(c, s[0], s[1]), s[2], 1);
  case TG_OP_NEG: return tg_poly_negate(c, s[0]);
  case TG_OP_IDIV: case TG_OP_MOD: case TG_OP_CDIV: case TG_OP_CMOD: return divided(c, u, s[0], s[1]);
  case TG_OP_MIN: return tg_poly_extreme(c, TG_ATOM_MIN, NULL, 0, s[0], s[1]);
  case TG_OP_MAX: return tg_poly_extreme(c, TG_ATOM_MAX, NULL, 0, s[0], s[1]);
  case TG_OP_ABS: return tg_poly_extreme(c, TG_ATOM_MAX, NULL, 0, s[0], tg_poly_negate(c, s[0]));
  case TG_OP_WHERE: return tg_poly_extreme(c, TG_ATOM_EITHER, u, 0, s[0], s[1]);
  case TG_OP_SHL: case TG_OP_SHR: case TG_OP_AND: return shifted(c, u->op, s[0], s[1]);
  case TG_OP_CAST: return s[0];
  case TG_OP_RANGE: return s[0].n < 0 ? unknown : range_atom(c, u, s[0]);
  default: return unknown;
  }
}

static tg_poly leaf_poly(tg_polys *c, const tg_uop *u) {
  if (u->op == TG_OP_CONST && !tg_is_float(u->type)) return tg_poly_const(c, tg_value_of(u).i);
  if (u->op == TG_OP_PARAM && u->type == TG_INDEX) return param_atom(c, u);
  return opaque(c, u);
}

tg_poly tg_poly_of(tg_polys *c, const tg_uop *root) {
  const tg_poly *done = memo_get(c, root);
  if (done) return *done;
  TG_VEC(const tg_uop *) stack = {0};
  const tg_uop *few[32];
  stack.data = few;
  stack.cap = TG_COUNT(few);
  tg_push(&c->job->env, &stack, root);
  while (stack.n) {
    const tg_uop *u = stack.data[stack.n - 1];
    uint32_t skip, n = sources_of(u, &skip), waiting = 0;
    tg_poly s[3] = {unknown, unknown, unknown};
    if (memo_get(c, u)) {
      stack.n--;
      continue;
    }
    for (uint32_t i = 0; i < n; i++) {
      const tg_poly *p = memo_get(c, u->src[skip + i]);
      if (p) s[i] = *p;
      else {
        tg_push(&c->job->env, &stack, u->src[skip + i]);
        waiting++;
      }
    }
    if (waiting) continue;
    tg_bump_mark m = tg_scratch_mark(c);
    tg_poly p = n ? node_poly(c, u, s) : leaf_poly(c, u);
    if (n && !fits(c, p, u->type)) p = opaque(c, u); /* unknown, or it may wrap */
    memo_set(c, u, p);
    tg_scratch_release(c, m);
    stack.n--;
  }
  return *memo_get(c, root);
}

uint32_t tg_atom_of(tg_polys *c, const tg_uop *u) {
  tg_poly p = tg_poly_of(c, u);
  return p.n == 1 && p.t[0].degree == 1 ? p.t[0].atom[0] : UINT32_MAX;
}
