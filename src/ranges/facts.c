/* SPDX-License-Identifier: MIT
 * Facts, and proofs of p <= 0 from them.
 *
 * The proof eliminates atoms from the latest to the earliest: each is replaced by an upper or lower bound, depending
 * on the sign of its coefficient (its extent, the inequality that defines a quotient, a fact that mentions it), until
 * numeric bounds of the remaining polynomial decide. If the sign is unknown, p is linear in the atom, so p is proved
 * at both ends of the atom's range. A budget bounds the search; when it runs out the answer is "not known". */
#include "ranges/polynomial.h"

enum { BUDGET = 600, SIGN_DEPTH = 3, NESTED = 8, DEPTH = 40, NUMERATOR = 8 };
static const tg_poly none = {NULL, -1};

static bool nonpositive(tg_polys *c, tg_poly p, uint64_t used, int depth);

/* Divides by the common factor g of all terms but the constant k: for integers, g*q + k <= 0 iff q + ceil(k / g) <=
 * 0. */
static tg_poly tightened(tg_polys *c, tg_poly p) {
  tg_i128 g = 0;
  for (int i = 0; i < p.n; i++) {
    tg_i128 a = p.t[i].c, b = g;
    if (!p.t[i].degree) continue;
    if (a < 0) a = -a;
    while (a) {
      tg_i128 r = b % a;
      b = a;
      a = r;
    }
    if ((g = b) == 1) return p;
  }
  if (g <= 1) return p;
  tg_poly r = tg_poly_const(c, 0);
  tg_i128 k = tg_poly_constant(p);
  if (!tg_poly_divide(c, tg_poly_plus(c, p, -k), (tg_term){.c = g}, &r)) return p;
  return tg_poly_plus(c, r, -tg_floor_div(-k, g));
}

static int sign_of(tg_polys *c, tg_poly a, uint64_t used, int depth) {
  tg_i128 lo, hi;
  tg_poly_range(c, a, &lo, &hi);
  if (lo >= 0) return 1;
  if (hi <= 0) return -1;
  if (depth > DEPTH - SIGN_DEPTH) return 0;
  if (nonpositive(c, tg_poly_negate(c, a), used, depth + SIGN_DEPTH)) return 1;
  return nonpositive(c, a, used, depth + SIGN_DEPTH) ? -1 : 0;
}

typedef struct { uint32_t v; tg_poly p, linear, rest; int sign; uint64_t used; int depth; } step;

static bool replaced(tg_polys *c, const step *s, tg_poly bound) {   /* v := bound */
  return nonpositive(c, tg_poly_add(c, tg_poly_mul(c, s->linear, bound), s->rest, 1), s->used, s->depth + 1);
}

static bool both_ends(tg_polys *c, const step *s, tg_poly lo, tg_poly hi) {
  return s->sign > 0 ? replaced(c, s, hi) : s->sign < 0 ? replaced(c, s, lo) : replaced(c, s, lo) && replaced(c, s, hi);
}

static tg_poly limit(tg_polys *c, tg_i128 v) { return v >= TG_INF || v <= -TG_INF ? none : tg_poly_const(c, v); }

/* v = x / d and its sibling w = x / f: f = k d gives k w <= v <= k w + k - 1; d = k f gives k v <= w <= k v + k - 1. */
static bool by_sibling(tg_polys *c, const step *s) {
  const tg_atom v = c->atoms[s->v];
  if (!tg_poly_is_const(v.b)) return false;
  tg_i128 d = tg_poly_constant(v.b);
  for (uint32_t i = 0; i < c->n; i++) {
    const tg_atom *w = &c->atoms[i];
    if (i == s->v || w->kind != TG_ATOM_DIV || !tg_poly_is_const(w->b) || !tg_poly_mentions(s->rest, i) || !s->sign)
      continue;
    if (tg_poly_equal(v.b, w->b)) { /* (y + k) / d lies between y / d + k / d, rounded down, and that rounded up */
      tg_poly apart = tg_poly_minus(c, v.a, w->a);
      if (apart.n < 0 || !tg_poly_is_const(apart)) continue;
      tg_i128 by = tg_poly_constant(apart);
      if (replaced(c, s,
                   tg_poly_plus(c, tg_poly_atom(c, i), s->sign > 0 ? -tg_floor_div(-by, d) : tg_floor_div(by, d))))
        return true;
      continue;
    }
    if (!tg_poly_equal(v.a, w->a)) continue;
    tg_i128 f = tg_poly_constant(w->b), k = f % d == 0 ? f / d : d % f == 0 ? d / f : 0;
    tg_poly wp = tg_poly_atom(c, i);
    if (!k) continue;
    if (f % d == 0) {
      wp = tg_poly_plus(c, tg_poly_mul(c, wp, tg_poly_const(c, k)), s->sign > 0 ? k - 1 : 0);
      if (replaced(c, s, wp)) return true;
      continue;
    }
    tg_poly scaled = tg_poly_mul(c, s->rest, tg_poly_const(c, k));
    if (s->sign < 0) wp = tg_poly_plus(c, wp, 1 - k);
    if (nonpositive(c, tg_poly_add(c, tg_poly_mul(c, s->linear, wp), scaled, 1), s->used, s->depth + 1)) return true;
  }
  return false;
}

static tg_poly quotient_with(tg_polys *c, const tg_atom *v, uint32_t atom, tg_poly by) {
  tg_poly x = tg_poly_replace(c, v->a, 1, &atom, &by, 0);
  return tg_poly_div(c, x, v->b);
}

/* Numerator x of the quotient: x <= x - k g for a fact g <= 0, k >= 0 (for a lower bound: x >= x - k g, k <= 0), where
 * k is chosen so that atom r cancels. */
static bool by_numerator_less(tg_polys *c, const step *s, uint32_t r, tg_poly g) {
  const tg_atom v = c->atoms[s->v];
  tg_poly square, linear, rest, gs, gl, gr, k;
  if (!tg_poly_mentions(g, r) || !tg_poly_split(c, v.a, r, &square, &linear, &rest) || square.n ||
      !tg_poly_split(c, g, r, &gs, &gl, &gr) || gs.n || gl.n != 1)
    return false;
  if (!tg_poly_divide(c, linear, gl.t[0], &k) || sign_of(c, k, s->used, s->depth) != (s->sign > 0 ? 1 : -1))
    return false;
  return replaced(c, s, tg_poly_div(c, tg_poly_minus(c, v.a, tg_poly_mul(c, k, g)), v.b));
}

/* A quotient w = y / d within the numerator: d w <= y and y <= d w + d - 1 are facts that may cancel an atom of y. So
 * (y + 2 (y / 6)) / 4, which is what y / 6 * 6 + y % 6 / 4 * 4 comes to, is at least (8 (y / 6)) / 4. */
static bool by_inner_quotient(tg_polys *c, const step *s) {
  const tg_poly x = c->atoms[s->v].a;
  for (int i = 0; i < x.n; i++) {
    uint32_t at = x.t[i].degree == 1 ? x.t[i].atom[0] : UINT32_MAX;
    if (at == UINT32_MAX || c->atoms[at].kind != TG_ATOM_DIV) continue;
    const tg_atom w = c->atoms[at];
    tg_poly less = tg_poly_minus(c, tg_poly_mul(c, w.b, tg_poly_atom(c, at)), w.a),
            more = tg_poly_plus(c, tg_poly_minus(c, tg_poly_negate(c, less), w.b), 1);
    for (int t = 0; t < w.a.n; t++) {
      if (w.a.t[t].degree != 1 || !tg_poly_mentions(x, w.a.t[t].atom[0])) continue;
      if (by_numerator_less(c, s, w.a.t[t].atom[0], less) || by_numerator_less(c, s, w.a.t[t].atom[0], more))
        return true;
    }
  }
  return false;
}

/* x / d with x's latest atom at a bound: floor division rises with x, so the bound may be taken inside. */
static bool by_numerator(tg_polys *c, const step *s) {
  const tg_atom v = c->atoms[s->v];
  bool upper = s->sign > 0;
  tg_poly square, linear, rest;
  uint32_t r = v.a.n > 0 && v.a.t[0].degree ? v.a.t[0].atom[0] : UINT32_MAX;
  if (r == UINT32_MAX || !tg_poly_split(c, v.a, r, &square, &linear, &rest)) return false;
  int sign = sign_of(c, linear.n ? linear : square, s->used, s->depth);
  if (square.n && linear.n && sign_of(c, square, s->used, s->depth) != sign) sign = 0;
  if (!sign || (square.n && c->atoms[r].lo < 0)) return false;
  const tg_atom w = c->atoms[r];
  bool top = (sign > 0) == upper;   /* the side of the atom that bounds the quotient */
  if (w.kind == TG_ATOM_RANGE &&
      replaced(c, s, quotient_with(c, &v, r, top ? tg_poly_plus(c, w.a, -1) : tg_poly_const(c, 0))))
    return true;
  if (w.kind == TG_ATOM_MIN || w.kind == TG_ATOM_MAX || w.kind == TG_ATOM_EITHER) {
    bool any = (w.kind == TG_ATOM_MIN && top) || (w.kind == TG_ATOM_MAX && !top),
         first = replaced(c, s, quotient_with(c, &v, r, w.a));
    if (any ? first || replaced(c, s, quotient_with(c, &v, r, w.b))
            : first && replaced(c, s, quotient_with(c, &v, r, w.b)))
      return true;
  }
  for (uint32_t f = 0; f < c->facts && !square.n; f++) {
    step next = *s;
    next.used |= (uint64_t)1 << f;
    if (!(s->used >> f & 1) && by_numerator_less(c, &next, r, c->fact[f])) return true;
  }
  return by_inner_quotient(c, s);
}

/* The same for atom after atom, before a quotient is made: its normal form would hide which way it goes ((P - r)/3
 * is (P + 2r)/3 - r). */
static bool by_whole_numerator(tg_polys *c, const step *s) {
  const tg_atom v = c->atoms[s->v];
  bool upper = s->sign > 0;
  tg_poly x = v.a;
  for (uint32_t n = 0, last = UINT32_MAX; n < NUMERATOR; n++) {
    uint32_t a = 0;
    bool found = false;
    tg_poly square, linear, rest;
    for (int i = 0; i < x.n; i++)
      for (uint32_t k = 0; k < x.t[i].degree; k++)
        if (x.t[i].atom[k] < last && (!found || x.t[i].atom[k] > a)) a = x.t[i].atom[k], found = true;
    if (!found || !tg_poly_split(c, x, last = a, &square, &linear, &rest) || square.n) return false;
    const tg_atom w = c->atoms[a];
    int sign = sign_of(c, linear, s->used, s->depth);
    bool top = (sign > 0) == upper;
    tg_poly bound = !sign                     ? none
                    : w.kind == TG_ATOM_RANGE ? (top ? tg_poly_plus(c, w.a, -1) : tg_poly_const(c, 0))
                    : top                     ? none
                                              : limit(c, w.lo);
    if (bound.n < 0) continue; /* no bound: the atom stays */
    x = tg_poly_add(c, tg_poly_mul(c, linear, bound), rest, 1);
    if (x.n < 0) return false;
    if (replaced(c, s, tg_poly_div(c, x, v.b))) return true;
  }
  return false;
}

static bool by_quotient(tg_polys *c, const step *s) {
  const tg_atom v = c->atoms[s->v];
  tg_poly k, x = v.a, down = tg_poly_plus(c, tg_poly_minus(c, x, v.b), 1), n;
  if (!s->sign) return false;
  if (tg_poly_divide(c, s->linear, v.b.t[0], &k)) { /* d q <= x, d q >= x - d + 1 */
    n = tg_poly_add(c, tg_poly_mul(c, k, s->sign > 0 ? x : down), s->rest, 1);
    if (nonpositive(c, n, s->used, s->depth + 1)) return true;
  }
  if (by_sibling(c, s)) return true;
  if (by_numerator(c, s) || by_whole_numerator(c, s)) return true;
  if (!tg_poly_is_const(v.b) && tg_poly_divide(c, s->linear, v.b.t[0], &k)) return false;
  n = tg_poly_add(c, tg_poly_mul(c, s->linear, s->sign > 0 ? x : down), tg_poly_mul(c, s->rest, v.b), 1);
  return nonpositive(c, n, s->used, s->depth + 1);
}

/* min(a, b) <= a and <= b, so either serves as an upper bound. The one that leaves fewer terms is tried first, since
 * the other may use up the budget. */
static bool by_extreme(tg_polys *c, const step *s) {
  const tg_atom v = c->atoms[s->v];
  bool any = (v.kind == TG_ATOM_MIN && s->sign > 0) || (v.kind == TG_ATOM_MAX && s->sign < 0);
  if (any) {
    tg_poly left[2] = {tg_poly_add(c, tg_poly_mul(c, s->linear, v.a), s->rest, 1),
                       tg_poly_add(c, tg_poly_mul(c, s->linear, v.b), s->rest, 1)};
    int first = left[1].n < left[0].n;
    return nonpositive(c, left[first], s->used, s->depth + 1) || nonpositive(c, left[!first], s->used, s->depth + 1);
  }
  return replaced(c, s, v.a) && replaced(c, s, v.b);
}

/* A fact g <= 0 that mentions v: p <= 0 follows from k p - m g <= 0, k >= 1, m >= 0, chosen so that v cancels. */
static bool by_fact(tg_polys *c, const step *s, uint32_t f, int pass) {
  tg_poly square, linear, rest, g = c->fact[f], n, k;
  tg_i128 lo, hi;
  if (!tg_poly_mentions(g, s->v) || !tg_poly_split(c, g, s->v, &square, &linear, &rest) || square.n) return false;
  tg_poly_range(c, linear, &lo, &hi);
  if (linear.n == 1 && tg_poly_divide(c, s->linear, linear.t[0], &k)) {
    if (sign_of(c, k, s->used, s->depth) <= 0) return false;
    n = tg_poly_minus(c, s->p, tg_poly_mul(c, k, g));
  } else {
    int sign = lo >= 1 ? 1 : hi <= -1 ? -1 : 0;
    if (!sign || sign != s->sign) return false;
    tg_poly scale = sign > 0 ? linear : tg_poly_negate(c, linear),
            by = sign > 0 ? s->linear : tg_poly_negate(c, s->linear);
    n = tg_poly_minus(c, tg_poly_mul(c, s->p, scale), tg_poly_mul(c, by, g));
  }
  if ((n.n <= s->p.n - 2 ? 0 : n.n < s->p.n ? 1 : 2) != pass) return false;
  return nonpositive(c, n, s->used | (uint64_t)1 << f, s->depth + 1);
}

/* v of degree 2: convex, so the larger of both ends; or falling or rising all along. */
static bool by_ends_of_square(tg_polys *c, const step *s, tg_poly square) {
  const tg_atom v = c->atoms[s->v];
  tg_poly lo = v.kind == TG_ATOM_RANGE ? tg_poly_const(c, 0) : limit(c, v.lo);
  tg_poly hi = v.kind == TG_ATOM_RANGE ? tg_poly_plus(c, v.a, -1) : limit(c, v.hi);
  int a = sign_of(c, square, s->used, s->depth), b = s->linear.n ? sign_of(c, s->linear, s->used, s->depth) : a;
  if (a < 0 && b >= 0 && lo.n >= 0) { /* concave: falling all along if it falls at the start */
    tg_poly slope = tg_poly_add(c, s->linear, tg_poly_mul(c, square, lo), 2);
    if (nonpositive(c, slope, s->used, s->depth + 1)) b = -1;
  }
  tg_poly ends[2] = {lo, hi};
  bool need[2] = {a > 0 || (a < 0 && b < 0 && v.lo >= 0), a > 0};
  if (a > 0 && b > 0 && v.lo >= 0) need[0] = false;
  if (!need[0] && !need[1]) return false;
  for (int i = 0; i < 2; i++) {
    if (!need[i]) continue;
    tg_poly e = ends[i], n = tg_poly_mul(c, square, tg_poly_mul(c, e, e));
    n = tg_poly_add(c, n, tg_poly_add(c, tg_poly_mul(c, s->linear, e), s->rest, 1), 1);
    if (!nonpositive(c, n, s->used, s->depth + 1)) return false;
  }
  return true;
}

/* A fact k v + r <= 0, k = 1 or -1, lowers the degree: from a v^2 the fact a k v (k v + r) <= 0 is taken where a k v
 * >= 0. */
static bool by_fact_on_square(tg_polys *c, const step *s, tg_poly square) {
  if (c->atoms[s->v].lo < 0) return false;
  for (uint32_t f = 0; f < c->facts; f++) {
    tg_poly gs, k, r;
    if (s->used >> f & 1 || !tg_poly_mentions(c->fact[f], s->v) || !tg_poly_split(c, c->fact[f], s->v, &gs, &k, &r) ||
        gs.n || !tg_poly_is_const(k))
      continue;
    tg_i128 one = tg_poly_constant(k);
    if ((one != 1 && one != -1) || sign_of(c, tg_poly_mul(c, square, k), s->used, s->depth) <= 0) continue;
    tg_poly by = tg_poly_mul(c, tg_poly_mul(c, square, k), tg_poly_atom(c, s->v));
    if (nonpositive(c, tg_poly_minus(c, s->p, tg_poly_mul(c, by, c->fact[f])), s->used, s->depth + 1)) return true;
  }
  return false;
}

static bool by_bounds(tg_polys *c, const step *s) {
  const tg_atom v = c->atoms[s->v];
  switch (v.kind) {
  case TG_ATOM_RANGE: return both_ends(c, s, tg_poly_const(c, 0), tg_poly_plus(c, v.a, -1));
  case TG_ATOM_DIV: if (by_quotient(c, s)) return true; break;
  case TG_ATOM_MIN: case TG_ATOM_MAX: case TG_ATOM_EITHER: if (by_extreme(c, s)) return true; break;
  default: break;
  }
  return both_ends(c, s, limit(c, v.lo), limit(c, v.hi));
}

/* Does atom v's definition mention w? */
static bool is_made_of(const tg_polys *c, uint32_t v, uint32_t w, int depth) {
  const tg_poly parts[2] = {c->atoms[v].a, c->atoms[v].b};
  for (int k = 0; k < 2; k++)
    for (int i = 0; i < parts[k].n; i++)
      for (uint32_t d = 0; d < parts[k].t[i].degree; d++) {
        uint32_t x = parts[k].t[i].atom[d];
        if (x == w || (depth && is_made_of(c, x, w, depth - 1))) return true;
      }
  return false;
}

/* Does the bound of a range in p mention w? Then w may cancel against it, and a case of p alone would lose that. */
static bool bounds_a_range(const tg_polys *c, tg_poly p, uint32_t w) {
  for (int i = 0; i < p.n; i++)
    for (uint32_t d = 0; d < p.t[i].degree; d++) {
      uint32_t v = p.t[i].atom[d];
      if (c->atoms[v].kind == TG_ATOM_RANGE && v != w && is_made_of(c, v, w, 2)) return true;
    }
  return false;
}

/* The atom to eliminate: first a minimum that must be proved of both, if no range's bound has it (then a case loses
 * nothing); else the latest of the latest range. */
static uint32_t next_atom(const tg_polys *c, tg_poly p) {
  uint32_t best = p.t[0].atom[0];
  for (int i = 0; i < p.n; i++) {
    tg_atom_kind kind = p.t[i].degree == 1 ? c->atoms[p.t[i].atom[0]].kind : TG_ATOM_PARAM;
    if (kind == TG_ATOM_EITHER ||
        (kind == (p.t[i].c < 0 ? TG_ATOM_MIN : TG_ATOM_MAX) && !bounds_a_range(c, p, p.t[i].atom[0])))
      return p.t[i].atom[0];
  }
  for (int i = 0; i < p.n; i++)
    for (uint32_t k = 0; k < p.t[i].degree; k++) {
      uint32_t v = p.t[i].atom[k];
      if (c->atoms[v].rank > c->atoms[best].rank || (c->atoms[v].rank == c->atoms[best].rank && v > best)) best = v;
    }
  return best;
}

static bool nonpositive_inside(tg_polys *c, tg_poly p, uint64_t used, int depth) {
  tg_i128 lo, hi;
  tg_poly_range(c, p, &lo, &hi);
  if (hi <= 0) return true;
  if (tg_poly_is_const(p)) return false;
  p = tightened(c, p);
  step s = {.v = next_atom(c, p), .p = p, .used = used, .depth = depth};
  tg_poly square;
  if (!tg_poly_split(c, p, s.v, &square, &s.linear, &s.rest)) return false;
  if (square.n) return by_ends_of_square(c, &s, square) || by_fact_on_square(c, &s, square);
  s.sign = sign_of(c, s.linear, used, depth);
  tg_atom_kind kind = c->atoms[s.v].kind;
  /* their bounds lose, facts are near */
  bool facts_first = kind == TG_ATOM_PARAM || kind == TG_ATOM_OPAQUE || kind == TG_ATOM_DIV;
  if (!facts_first && by_bounds(c, &s)) return true;
  for (int pass = 0; pass < 3; pass++) /* first those that leave the fewest terms */
    for (uint32_t f = 0; f < c->facts; f++)
      if (!(used >> f & 1) && by_fact(c, &s, f, pass)) return true;
  return facts_first && by_bounds(c, &s);
}

static bool nonpositive(tg_polys *c, tg_poly p, uint64_t used, int depth) {
  if (p.n < 0 || c->budget <= 0 || depth > DEPTH) return false;
  c->budget--;
  c->depth = depth;
  tg_bump_mark m = tg_scratch_mark(c);
  bool r = nonpositive_inside(c, p, used, depth);
  tg_scratch_release(c, m);
  return r;
}

/* A fact `a or b`: the proof is made under each. */
static bool by_cases(tg_polys *c, tg_poly p) {
  tg_either e = c->either[--c->eithers];
  uint32_t facts = c->facts, knowns = c->knowns, n = c->eithers;
  bool all = true;
  for (int side = 0; side < 2 && all; side++) {
    tg_facts_add(c, e.cond->src[side], e.holds);
    all = c->facts > facts && tg_nonpositive(c, p);
    c->facts = facts;
    c->knowns = knowns;
    c->eithers = n;
  }
  c->either[c->eithers++] = e;
  return all;
}

bool tg_nonpositive(tg_polys *c, tg_poly p) {
  /* called from within a proof (about the remainder of a quotient): shares the remaining budget */
  if (c->asking) return nonpositive(c, p, 0, c->depth + NESTED);
  if (p.n > 0) p = tightened(c, p); /* as facts are */
  /* p <= fact by numeric bounds of their difference */
  for (uint32_t f = 0; p.n >= 0 && f < c->facts; f++) {
    if (c->fact[f].n < p.n - 1 || c->fact[f].n > p.n + 1) continue;
    tg_bump_mark m = tg_scratch_mark(c);
    tg_poly d = tg_poly_minus(c, p, c->fact[f]);
    tg_i128 lo, hi = 1;
    if (d.n >= 0) tg_poly_range(c, d, &lo, &hi);
    tg_scratch_release(c, m);
    if (hi <= 0) return true;
  }
  c->budget = BUDGET;
  c->asking = true;
  bool r = nonpositive(c, p, 0, 0);
  c->asking = false;
  return r || (c->eithers && by_cases(c, p));
}

bool tg_contradictory(tg_polys *c) {
  for (uint32_t f = 0; f < c->facts; f++)
    if (tg_nonpositive(c, tg_poly_plus(c, tg_poly_negate(c, c->fact[f]), 1))) return true;
  return false;
}

/* ---- facts ---- */

static void add_fact(tg_polys *c, tg_poly p) {
  /* a constant above 0 is a contradiction, and kept */
  if (p.n <= 0 || (tg_poly_is_const(p) && tg_poly_constant(p) <= 0) || c->facts == TG_FACTS) return;
  p = tightened(c, p);
  for (uint32_t i = 0; i < c->facts; i++)
    if (tg_poly_equal(c->fact[i], p)) return;
  c->fact[c->facts++] = tg_poly_keep(c, p);
}

/* Adds p <= 0 and what follows from its atoms: max(a, b) + r <= 0 holds for both a and b; a quotient has two
 * defining inequalities. */
void tg_facts_poly(tg_polys *c, tg_poly p) {
  if (p.n < 0) return;
  p = tg_poly_keep(c, p);
  add_fact(c, p);
  for (int i = 0; i < p.n; i++) {
    if (p.t[i].degree != 1) continue;
    const tg_atom v = c->atoms[p.t[i].atom[0]];
    tg_poly rest = tg_poly_add(c, p, tg_poly_mul(c, tg_poly_atom(c, p.t[i].atom[0]), tg_poly_const(c, p.t[i].c)), -1);
    if ((v.kind == TG_ATOM_MAX && p.t[i].c > 0) || (v.kind == TG_ATOM_MIN && p.t[i].c < 0)) {
      add_fact(c, tg_poly_add(c, rest, v.a, p.t[i].c));
      add_fact(c, tg_poly_add(c, rest, v.b, p.t[i].c));
    }
    if (v.kind == TG_ATOM_DIV) {
      tg_poly dq = tg_poly_mul(c, v.b, tg_poly_atom(c, p.t[i].atom[0]));
      add_fact(c, tg_poly_minus(c, dq, v.a));
      add_fact(c, tg_poly_plus(c, tg_poly_minus(c, tg_poly_minus(c, v.a, dq), v.b), 1));
    }
  }
}

static bool is_compare(const tg_uop *u) {
  return u->op == TG_OP_LT || u->op == TG_OP_LE || u->op == TG_OP_EQ || u->op == TG_OP_NE;
}

/* A comparison as one or two polynomials <= 0; NE has none. */
static int compare_polys(tg_polys *c, const tg_uop *u, bool holds, tg_poly out[2]) {
  const tg_uop *a = u->src[0], *b = u->src[1];
  bool order = u->op == TG_OP_LT || u->op == TG_OP_LE;
  if (a->lanes != 1 || b->lanes != 1 || (a->type != TG_INDEX && !tg_is_int(a->type))) return 0;
  tg_poly d = tg_poly_minus(c, tg_poly_of(c, a), tg_poly_of(c, b));
  if (order && holds) return out[0] = u->op == TG_OP_LT ? tg_poly_plus(c, d, 1) : d, 1;
  if (order) return out[0] = tg_poly_plus(c, tg_poly_negate(c, d), u->op == TG_OP_LE), 1;
  if ((u->op == TG_OP_EQ) != holds) return 0;
  out[0] = d;
  out[1] = tg_poly_negate(c, d);
  return 2;
}

typedef struct { const tg_uop *u; bool holds; } literal;

/* The conjuncts of cond (or of its negation); a bool that is none comes as it is. */
static uint32_t conjuncts(tg_polys *c, const tg_uop *cond, bool holds, literal *out, uint32_t max) {
  literal stack[64];
  uint32_t n = 1, count = 0;
  (void)c;
  stack[0] = (literal){cond, holds};
  while (n) {
    literal l = stack[--n];
    if (l.u->op == TG_OP_NOT && l.u->type == TG_BOOL) stack[n++] = (literal){l.u->src[0], !l.holds};
    else if (l.u->op == (l.holds ? TG_OP_AND : TG_OP_OR) && l.u->type == TG_BOOL && n + 2 <= TG_COUNT(stack)) {
      stack[n++] = (literal){l.u->src[1], l.holds};
      stack[n++] = (literal){l.u->src[0], l.holds};
    } else if (count < max) out[count++] = l;
    else return UINT32_MAX;
  }
  return count;
}

/* a != b where a <= b (or b <= a) is known: they are 1 apart. */
static void add_unequal(tg_polys *c, const tg_uop *u, bool holds) {
  const tg_uop *a = u->src[0], *b = u->src[1];
  if ((u->op == TG_OP_NE) != holds || a->lanes != 1 || b->lanes != 1 || (a->type != TG_INDEX && !tg_is_int(a->type)))
    return;
  tg_poly d = tg_poly_keep(c, tg_poly_minus(c, tg_poly_of(c, a), tg_poly_of(c, b)));
  if (tg_nonpositive(c, d)) tg_facts_poly(c, tg_poly_plus(c, d, 1));
  else if (tg_nonpositive(c, tg_poly_negate(c, d))) tg_facts_poly(c, tg_poly_plus(c, tg_poly_negate(c, d), 1));
}

void tg_facts_add(tg_polys *c, const tg_uop *cond, bool holds) {
  literal l[64];
  uint32_t n = conjuncts(c, cond, holds, l, TG_COUNT(l));
  if (n == UINT32_MAX) return; /* fewer facts only prove less */
  for (uint32_t i = 0; i < n; i++) {
    tg_poly p[2];
    int k = is_compare(l[i].u) ? compare_polys(c, l[i].u, l[i].holds, p) : 0;
    for (int q = 0; q < k; q++) tg_facts_poly(c, p[q]);
    if (!k && is_compare(l[i].u)) add_unequal(c, l[i].u, l[i].holds);
    bool disjunction = l[i].u->type == TG_BOOL && l[i].u->op == (l[i].holds ? TG_OP_OR : TG_OP_AND);
    if (disjunction && c->eithers < TG_COUNT(c->either)) c->either[c->eithers++] = (tg_either){l[i].u, l[i].holds};
    if (l[i].holds && c->knowns < TG_FACTS) c->known[c->knowns++] = l[i].u;
  }
}

/* The place that argmax finds among at least one term lies below their number, whatever that is. */
static void add_place(tg_polys *c, uint32_t atom) {
  tg_job *j = c->job;
  const tg_uop *extreme = c->atoms[atom].kind == TG_ATOM_OPAQUE && c->atoms[atom].node && !c->atoms[atom].copy
                              ? tg_extreme_of(j, c->atoms[atom].node)
                              : NULL;
  if (!extreme || tg_reduce_info(extreme).ranges != 1) return;
  const tg_uop *range = tg_reduce_ranges(extreme)[0];
  if (extreme->src[1] != tg_cast(j, TG_I32, range) || tg_bounds_of(j, tg_extent(range)).lo < 1 ||
      tg_bounds_of(j, extreme->src[1]).lo < 0)
    return;
  tg_poly extent = tg_poly_of(c, tg_extent(range));
  tg_facts_poly(c, tg_poly_plus(c, tg_poly_minus(c, tg_poly_atom(c, atom), extent), 1));
}

void tg_facts_basic(tg_polys *c) {
  for (uint32_t i = 0; i < c->job->requires.n; i++) tg_facts_add(c, c->job->requires.data[i], true);
  for (uint32_t i = 0; i < c->n; i++) /* a range that is used is in scope, so its loop runs */
    if (c->atoms[i].kind == TG_ATOM_RANGE && !c->atoms[i].absent &&
        (!tg_poly_is_const(c->atoms[i].a) || tg_poly_constant(c->atoms[i].a) <= 0))
      tg_facts_poly(c, tg_poly_plus(c, tg_poly_negate(c, c->atoms[i].a), 1));
  for (uint32_t i = 0, n = c->n; i < n; i++) add_place(c, i);
}

bool tg_condition_polys(tg_polys *c, const tg_uop *cond, bool holds, tg_poly *out, uint32_t *n, uint32_t max) {
  literal l[64];
  uint32_t count = conjuncts(c, cond, holds, l, TG_COUNT(l));
  if (count == UINT32_MAX) return false;
  for (uint32_t i = 0; i < count; i++) {
    tg_poly p[2];
    int k = is_compare(l[i].u) ? compare_polys(c, l[i].u, l[i].holds, p) : 0;
    if (l[i].u->op == TG_OP_CONST && (l[i].u->arg != 0) == l[i].holds) continue;
    if (!k || *n + (uint32_t)k > max) return false;
    for (int q = 0; q < k; q++) out[(*n)++] = p[q];
  }
  return true;
}

/* ---- conditions ---- */

static bool literal_holds(tg_polys *c, literal l, int depth);

static bool all_hold(tg_polys *c, const tg_uop *cond, bool holds, int depth) {
  literal l[64];
  uint32_t n = conjuncts(c, cond, holds, l, TG_COUNT(l));
  if (n == UINT32_MAX || depth > 8) return false;
  for (uint32_t i = 0; i < n; i++)
    if (!literal_holds(c, l[i], depth)) return false;
  return true;
}

static bool literal_holds(tg_polys *c, literal l, int depth) {
  const tg_uop *u = l.u;
  if (u->op == TG_OP_CONST) return (u->arg != 0) == l.holds;
  for (uint32_t i = 0; l.holds && i < c->knowns; i++)
    if (c->known[i] == u) return true;
  /* a disjunction: one side is proved, or the other under the negation of the first */
  if (u->type == TG_BOOL && (u->op == TG_OP_AND || u->op == TG_OP_OR)) {
    uint32_t facts = c->facts, knowns = c->knowns;
    if (all_hold(c, u->src[0], l.holds, depth + 1) || all_hold(c, u->src[1], l.holds, depth + 1)) return true;
    tg_facts_add(c, u->src[0], !l.holds);
    bool r = c->facts > facts && all_hold(c, u->src[1], l.holds, depth + 1);
    c->facts = facts;
    c->knowns = knowns;
    return r;
  }
  if (!is_compare(u)) return false;
  tg_poly p[2];
  int k = compare_polys(c, u, l.holds, p);
  for (int i = 0; i < k; i++)
    if (!tg_nonpositive(c, p[i])) return false;
  if (k) return true;
  if ((u->op == TG_OP_EQ) == l.holds || (u->src[0]->type != TG_INDEX && !tg_is_int(u->src[0]->type))) return false;
  /* unequal: on one side all along */
  tg_poly d = tg_poly_minus(c, tg_poly_of(c, u->src[0]), tg_poly_of(c, u->src[1]));
  return tg_nonpositive(c, tg_poly_plus(c, d, 1)) || tg_nonpositive(c, tg_poly_plus(c, tg_poly_negate(c, d), 1));
}

bool tg_condition_holds(tg_polys *c, const tg_uop *cond, bool holds) { return all_hold(c, cond, holds, 0); }

bool tg_proves(tg_job *j, const tg_facts *facts, const tg_uop *cond) {
  tg_polys *c = tg_polys_take(j);
  literal l[64];
  uint32_t n = conjuncts(c, cond, true, l, TG_COUNT(l));
  for (uint32_t i = 0; n != UINT32_MAX && i < n; i++)   /* the atoms first: their loops are not empty */
    if (is_compare(l[i].u)) {
      tg_poly p[2];
      compare_polys(c, l[i].u, true, p);
    }
  for (; facts; facts = facts->outer) tg_facts_add(c, facts->fact, true);
  tg_facts_basic(c);
  bool r = tg_condition_holds(c, cond, true);
  tg_polys_give(j, c);
  return r;
}
