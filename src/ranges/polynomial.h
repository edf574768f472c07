/* SPDX-License-Identifier: MIT
 * Polynomials over atoms, used only by the prover and the dependence tests.
 *
 * A context (tg_polys) holds the atoms of one question: ranges, parameters, quotients, minima, and nodes of which only
 * numeric bounds are known. The polynomials inside an atom mention earlier atoms only, so elimination from the last
 * atom to the first terminates. Terms are sorted, the term with the latest atom first. */
#ifndef TG_POLYNOMIAL_H
#define TG_POLYNOMIAL_H
#include "ranges/ranges.h"

enum { TG_POLY_DEGREE = 6, TG_POLY_TERMS = 80, TG_ATOMS = 1024, TG_FACTS = 60 };

/* c * atom[0] * .. * atom[degree - 1]; atoms in descending order, repeated for powers */
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
  /* RANGE, PARAM, OPAQUE: the node that it stands for; NULL: an unknown made for this question */
  const tg_uop *node;
  uint32_t copy;         /* 0: the node itself; else the number of another iteration of it */
  tg_poly a, b;          /* RANGE: a = extent; DIV: a / b, b >= 1, one term; MIN, MAX, EITHER: of a and b */
  tg_i128 lo, hi;        /* numeric bounds of its value */
  /* RANGE: its loop or reduction is not around the expression in question, so it may have no iteration */
  bool absent;
  /* 1 + the latest range atom that its polynomials depend on; 0: none. Atoms of the highest rank are eliminated
   * first */
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
  tg_poly fact[TG_FACTS];                            /* facts of the question: each polynomial is <= 0 */
  uint32_t facts;
  const tg_uop *known[TG_FACTS];                     /* facts that are no polynomial: bool nodes that are true */
  uint32_t knowns;
  /* disjunctive facts: an OR that is true, or an AND that is false (holds: which) */
  tg_either either[3];
  uint32_t eithers;
  int budget, depth;
  bool asking, taken;
} tg_polys;

tg_polys *tg_polys_new(tg_job *j);
tg_polys *tg_polys_take(tg_job *j);        /* the job's own context, emptied; a new one while that is in use */
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
/* p / d for one term d; false if it does not divide exactly */
bool tg_poly_divide(tg_polys *c, tg_poly p, tg_term d, tg_poly *quotient);
void tg_poly_range(const tg_polys *c, tg_poly p, tg_i128 *lo, tg_i128 *hi); /* numeric, saturating at TG_INF */

tg_poly tg_poly_of(tg_polys *c, const tg_uop *u);                     /* of an integer expression */
tg_poly tg_poly_div(tg_polys *c, tg_poly x, tg_poly d);               /* floor; unknown unless d is one positive term */
/* MIN or MAX of a and b; EITHER: a value that is a or b, it is not known which. */
tg_poly tg_poly_extreme(tg_polys *c, tg_atom_kind kind, const tg_uop *node, uint32_t copy, tg_poly a, tg_poly b);
tg_poly tg_poly_copy(tg_polys *c, uint32_t opaque_atom, uint32_t copy);
uint32_t tg_atom_symbol(tg_polys *c, tg_atom a);                      /* a new atom, equal to no other */
/* p with atom from[i] replaced by to[i], also inside quotients, minima and the like. Opaque nodes that use a
 * replaced range become new unknowns of this copy. */
tg_poly tg_poly_replace(tg_polys *c, tg_poly p, uint32_t n, const uint32_t *from, const tg_poly *to, uint32_t copy);
uint32_t tg_atom_of(tg_polys *c, const tg_uop *range_or_param);       /* of a RANGE or PARAM node */
const char *tg_poly_text(tg_polys *c, tg_poly p);

/* facts.c */
/* from now on cond is true (holds) or false */
void tg_facts_add(tg_polys *c, const tg_uop *cond, bool holds);
void tg_facts_poly(tg_polys *c, tg_poly p);                           /* p <= 0 is a fact */
/* adds job->requires, and extent >= 1 for the ranges met so far */
void tg_facts_basic(tg_polys *c);
bool tg_nonpositive(tg_polys *c, tg_poly p);                          /* is p <= 0 proved? */
/* the facts contradict each other: the case in question never happens */
bool tg_contradictory(tg_polys *c);
bool tg_condition_holds(tg_polys *c, const tg_uop *cond, bool holds); /* is cond (holds) or its negation proved? */
/* Appends to out (at most max in all) polynomials p with: cond is true iff all p <= 0. False: cond is no such
 * conjunction. */
bool tg_condition_polys(tg_polys *c, const tg_uop *cond, bool holds, tg_poly *out, uint32_t *n, uint32_t max);

/* witness.c: searches values of ranges, parameters and loads for which all conditions hold, by trying corner values.
 * False: none was found, which proves nothing. */
typedef struct { const tg_uop *node; tg_i128 value; } tg_bound_value;
typedef struct { uint32_t n; tg_bound_value *value; } tg_witness;
bool tg_witness_find(tg_job *j, uint32_t n, const tg_uop *const *conditions, tg_witness *w);
bool tg_witness_value(tg_job *j, const tg_witness *w, const tg_uop *u, tg_i128 *v);
const char *tg_integer_text(tg_job *j, tg_i128 v);
const char *tg_witness_text(tg_job *j, const tg_witness *w);          /* "i = 511, M = 512" */

/* Text that names an element of an output which no store writes, found by running the stores for small parameters;
 * NULL: none found. */
const char *tg_unwritten_element(tg_job *j, const tg_uop *sink, const tg_uop *define);
/* prove.c: source position of a node within a statement, as exact as it is known. */
tg_pos tg_position_of(tg_job *j, const tg_uop *node, const tg_uop *statement);
/* cover.c */
void tg_check_written(tg_job *j, const tg_uop *sink);
/* depend.c */
void tg_check_races(tg_job *j, const tg_uop *sink);
#endif
