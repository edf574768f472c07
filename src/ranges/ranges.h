/* SPDX-License-Identifier: MIT
 * Analysis of indices and ranges: bounds, congruences, polynomials, rewrite rules, proofs, dependences. */
#ifndef TG_RANGES_H
#define TG_RANGES_H
#include "dsl/uop.h"
#include "dsl/value.h"

/* ---- bounds.c: numeric, per node, cached in the job by id while it lives ---- */
#define TG_INF ((tg_i128)1 << 120)
/* lo <= value <= hi, and value = offset (mod multiple); multiple 0: the value is the constant offset */
typedef struct { tg_i128 lo, hi; tg_i128 multiple, offset; } tg_bounds;
/* Of an integer, INDEX or bool node. Ranges are in [0, extent-1], whatever the extent's own bounds say. */
tg_bounds tg_bounds_of(tg_job *j, const tg_uop *u);

/* ---- sum.c: the normal form of INDEX sums ---- */
/* The sum of coefficient[i] * atom[i], plus constant. Atoms are distinct and in the order of order.c; an atom is
 * never a sum, a CONST or a constant multiple. A sum of more than TG_TERMS terms is kept as one atom. */
enum { TG_TERMS = 16 };
typedef struct { uint32_t n; const tg_uop *atom[TG_TERMS]; int64_t coefficient[TG_TERMS]; int64_t constant; } tg_linear;
void tg_linear_of(tg_job *j, const tg_uop *u, tg_linear *out);               /* of any INDEX node; always succeeds */
/* out = a + factor * b; false: too many terms, or overflow of 64 bits */
bool tg_linear_add(tg_job *j, const tg_linear *a, const tg_linear *b, int64_t factor, tg_linear *out);
const tg_uop *tg_linear_build(tg_job *j, const tg_linear *l);               /* in normal form if the atoms are */
tg_bounds tg_linear_bounds(tg_job *j, const tg_linear *l);
int64_t tg_linear_coefficient(const tg_linear *l, const tg_uop *atom);      /* 0: the sum has it not */

/* ---- rewrite.c: rules as text, bounded iterative rewriting, trace ---- */
typedef struct tg_rules tg_rules;   /* compiled, immutable, shared by jobs of a context */
typedef enum { TG_RULES_SIMPLIFY, TG_RULES_STRENGTH, TG_RULES__COUNT } tg_rule_set;
const tg_rules *tg_rules_compile(tg_env *e);   /* all sets, from rules.def, into e's arena */
typedef struct { const char *name, *domain, *text; tg_rule_set set; } tg_rule_text;
/* compiles only these rules; fails on a rule that does not parse */
const tg_rules *tg_rules_compile_text(tg_env *e, uint32_t n, const tg_rule_text *text);
/* Rewrites the graph below root until no rule of the set applies; sums of INDEX then are in normal form. Rewriting
 * the result again returns the same pointer. */
const tg_uop *tg_rewrite(tg_job *j, const tg_rules *r, tg_rule_set set, const tg_uop *root);
/* SIMPLIFY to a fixpoint, gates included */
const tg_uop *tg_simplify(tg_job *j, const tg_rules *r, const tg_uop *root);
/* Applies the first rule of the set that matches u itself, without rewriting its sources; NULL: none matches. */
const tg_uop *tg_rewrite_one(tg_job *j, const tg_rules *r, tg_rule_set set, const tg_uop *u);

/* For tests: internal error unless every rule lowers the measure of rules.c, so that rewriting terminates. */
void tg_rules_check(tg_env *e, const tg_rules *r);
/* The rules (text and C) that fired between begin and end, with the node before and after. tg_trace_begin drops the
 * cache of normal forms, so that rules fire again. */
typedef struct { const char *rule; const tg_uop *before, *after; } tg_fired;
void tg_trace_begin(tg_job *j);
const tg_fired *tg_trace_end(tg_job *j, uint32_t *n);

/* ---- polynomial.c / prove.c: symbolic ---- */
/* A conjunction of facts, as a list from the innermost outwards. job->requires and the parameters' ranges are facts
 * without being listed. */
typedef struct tg_facts { const struct tg_facts *outer; const tg_uop *fact; } tg_facts;
/* True only if cond (a bool) provably holds for all values of ranges and parameters under the facts. */
bool tg_proves(tg_job *j, const tg_facts *facts, const tg_uop *cond);

/* Checks the author's program; fails at the author's line, or returns it with gates that are proved true removed. */
const tg_uop *tg_prove(tg_job *j, const tg_uop *sink);

/* ---- depend.c ---- */
typedef enum { TG_INDEPENDENT, TG_LOCKSTEP, TG_REDUCTION, TG_SEQUENTIAL } tg_verdict;
/* May the iterations of loop `end` run in parallel, in lockstep, as a reduction, or only one after another? Plain or
 * versioned program. Unless INDEPENDENT, why gets the two conflicting statements and a witness as text. */
tg_verdict tg_loop_verdict(tg_job *j, const tg_uop *sink, const tg_uop *end, const char **why);
/* May `inner`, an END nested (perfectly or not) in the END `outer`, be interchanged so that it runs outside? The
 * extent of inner must not depend on outer. */
bool tg_may_swap(tg_job *j, const tg_uop *sink, const tg_uop *outer, const tg_uop *inner, const char **why);
/* May loop `end` be distributed (fissioned) into several loops, one after another? part[i]: the number of the new
 * loop of statement i, i from 1; non-decreasing. */
bool tg_may_part(tg_job *j, const tg_uop *sink, const tg_uop *end, const uint32_t *part, const char **why);
#endif
