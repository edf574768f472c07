/* SPDX-License-Identifier: MIT
 * Polynomials over atoms, for the prover and the dependence tests alone.
 *
 * A context (tg_polys) holds the atoms of one question: ranges, parameters, quotients, minima, and nodes about
 * which only numeric bounds are known. An atom's own polynomials mention earlier atoms only, so elimination from the
 * last to the first comes to
 * an end. Terms are sorted, the one with the latest atom first. */
#ifndef TG_POLYNOMIAL_H
#define TG_POLYNOMIAL_H
#include "ranges/ranges.h"

enum { TG_POLY_DEGREE = 6, TG_POLY_TERMS = 80, TG_ATOMS = 1024, TG_FACTS = 60 };

/* atoms descending, with repetition */
typedef struct { tg_i128 c; uint32_t degree; uint16_t atom[TG_POLY_DEGREE]; } tg_term;
typedef struct { const tg_term *t; int32_t n; } tg_poly;                            /* n < 0: unknown */

typedef enum {
  TG_ATOM_RANGE,
  TG_ATOM_PARAM,
  TG_ATOM_DIV,
  TG_ATOM_MIN,
  TG_ATOM_MAX,
  TG_ATOM_EITHER,
  TG_ATOM_OPAQUE
} tg_atom_kind;
typedef struct {
  tg_atom_kind kind;
  const tg_uop *node;    /* RANGE, PARAM, OPAQUE: what it stands for; NULL: a symbol of the question */
  uint32_t copy;         /* 0; else which iteration of the node it stands for */
  tg_poly a, b;          /* RANGE: a = extent; DIV: a / b, b >= 1, one term; MIN, MAX, EITHER: of a and b */
  tg_i128 lo, hi;        /* numeric */
  bool absent;           /* RANGE: of a loop or a reduction that what is asked about is no part of: it need not run */
  /* 1 + the latest range it depends on, as far as polynomials show; 0: none. The highest is eliminated first */
  uint32_t rank;
} tg_atom;

typedef struct { char **block; uint32_t blocks, cap, at_block; size_t at; } tg_bump;
typedef struct { uint32_t block; size_t at; } tg_bump_mark;

typedef struct { const tg_uop *cond; bool holds; } tg_either;

typedef struct tg_polys {
  tg_job *job;
  tg_bump scratch, keep;
  tg_atom *atoms;
  uint32_t n, cap, copies;
  struct { uint32_t id, epoch; tg_poly p; } *memo;   /* by node id: the polynomial of a node */
  uint32_t memo_n, memo_mask, epoch;
  tg_poly fact[TG_FACTS];                            /* each <= 0 */
  uint32_t facts;
  const tg_uop *known[TG_FACTS];                     /* bools that hold as they are */
  uint32_t knowns;
  tg_either either[3];                               /* disjunctions that hold: OR, or AND that does not */
  uint32_t eithers;
  int budget, depth;
  bool asking, taken;
} tg_polys;

tg_polys *tg_polys_new(tg_job *j);
tg_polys *tg_polys_take(tg_job *j);        /* the job's own, empty; or a new one while that is in use */
void tg_polys_give(tg_job *j, tg_polys *c);
void tg_polys_reset(tg_polys *c);          /* forgets atoms, facts and polynomials */

tg_bump_mark tg_scratch_mark(const tg_polys *c);
void tg_scratch_release(tg_polys *c, tg_bump_mark m);

tg_poly tg_poly_const(tg_polys *c, tg_i128 v);
tg_poly tg_poly_atom(tg_polys *c, uint32_t atom);
tg_poly tg_poly_add(tg_polys *c, tg_poly p, tg_poly q, tg_i128 k);   /* p + k q */
tg_poly tg_poly_mul(tg_polys *c, tg_poly p, tg_poly q);
tg_poly tg_poly_keep(tg_polys *c, tg_poly p);                        /* a copy that lives until reset */
bool tg_poly_equal(tg_poly p, tg_poly q);
static inline bool tg_poly_is_const(tg_poly p) { return p.n == 0 || (p.n == 1 && !p.t[0].degree); }
static inline tg_i128 tg_poly_constant(tg_poly p) { return p.n > 0 && !p.t[p.n - 1].degree ? p.t[p.n - 1].c : 0; }
static inline tg_poly tg_poly_minus(tg_polys *c, tg_poly p, tg_poly q) { return tg_poly_add(c, p, q, -1); }
static inline tg_poly tg_poly_plus(tg_polys *c, tg_poly p, tg_i128 v) {
  return tg_poly_add(c, p, tg_poly_const(c, v), 1);
}
static inline tg_poly tg_poly_negate(tg_polys *c, tg_poly p) { return tg_poly_add(c, tg_poly_const(c, 0), p, -1); }
bool tg_poly_mentions(tg_poly p, uint32_t atom);
/* p = square * v^2 + linear * v + rest; false where v has a higher power. */
bool tg_poly_split(tg_polys *c, tg_poly p, uint32_t v, tg_poly *square, tg_poly *linear, tg_poly *rest);
bool tg_poly_divide(tg_polys *c, tg_poly p, tg_term d, tg_poly *quotient);  /* exact, by one term */
void tg_poly_range(const tg_polys *c, tg_poly p, tg_i128 *lo, tg_i128 *hi); /* numeric, saturating at TG_INF */

tg_poly tg_poly_of(tg_polys *c, const tg_uop *u);                     /* of an integer expression */
tg_poly tg_poly_div(tg_polys *c, tg_poly x, tg_poly d);               /* floor; unknown unless d is one positive term */
/* MIN, MAX; EITHER: node's value is one of the two. */
tg_poly tg_poly_extreme(tg_polys *c, tg_atom_kind kind, const tg_uop *node, uint32_t copy, tg_poly a, tg_poly b);
tg_poly tg_poly_copy(tg_polys *c, uint32_t opaque_atom, uint32_t copy);
uint32_t tg_atom_symbol(tg_polys *c, tg_atom a);                      /* a new atom, equal to no other */
/* p with to[i] for atom from[i], inside quotients and the like too; nodes that use a renamed range become new
 * unknowns of this copy. */
tg_poly tg_poly_replace(tg_polys *c, tg_poly p, uint32_t n, const uint32_t *from, const tg_poly *to, uint32_t copy);
uint32_t tg_atom_of(tg_polys *c, const tg_uop *range_or_param);       /* of a RANGE or PARAM node */
const char *tg_poly_text(tg_polys *c, tg_poly p);

/* facts.c */
/* cond, or its negation, is a fact from here on */
void tg_facts_add(tg_polys *c, const tg_uop *cond, bool holds);
void tg_facts_poly(tg_polys *c, tg_poly p);                           /* p <= 0 is a fact */
/* job->requires; non-empty extents of the ranges met so far */
void tg_facts_basic(tg_polys *c);
bool tg_nonpositive(tg_polys *c, tg_poly p);                          /* p <= 0 for certain */
/* the facts cannot all hold: what is asked about never happens */
bool tg_contradictory(tg_polys *c);
bool tg_condition_holds(tg_polys *c, const tg_uop *cond, bool holds); /* under the facts */
/* cond as a conjunction of p <= 0, appended to out (at most max in all): false where it is none. */
bool tg_condition_polys(tg_polys *c, const tg_uop *cond, bool holds, tg_poly *out, uint32_t *n, uint32_t max);

/* witness.c: values of ranges, parameters and loads under which all conditions hold, by trial of corners; NULL if
 * none was found. */
typedef struct { const tg_uop *node; tg_i128 value; } tg_bound_value;
typedef struct { uint32_t n; tg_bound_value *value; } tg_witness;
bool tg_witness_find(tg_job *j, uint32_t n, const tg_uop *const *conditions, tg_witness *w);
bool tg_witness_value(tg_job *j, const tg_witness *w, const tg_uop *u, tg_i128 *v);
const char *tg_integer_text(tg_job *j, tg_i128 v);
const char *tg_witness_text(tg_job *j, const tg_witness *w);          /* "i = 511, M = 512" */

/* An element of an output that no store writes for some small parameters, as text, found by running the stores; NULL
 * if none was. */
const char *tg_unwritten_element(tg_job *j, const tg_uop *sink, const tg_uop *define);
/* prove.c: of a node within a statement, as well as it is known. */
tg_pos tg_position_of(tg_job *j, const tg_uop *node, const tg_uop *statement);
/* cover.c */
void tg_check_written(tg_job *j, const tg_uop *sink);
/* depend.c */
void tg_check_races(tg_job *j, const tg_uop *sink);
#endif
