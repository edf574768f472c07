/* SPDX-License-Identifier: MIT
 * The interpreter: runs a program of any stage, slowly and simply. It is the truth. */
#ifndef TG_INTERP_H
#define TG_INTERP_H
#include "dsl/uop.h"
#include "dsl/value.h"

typedef struct { void *data; size_t bytes; } tg_interp_buffer;   /* element count is taken from bytes */

/* Operations that were run, by the scalar. Iterations of a statement whose gate is shut, and those of a reduction
 * that load nothing because their gates are shut, are masked. What stands between arithmetic and memory is counted
 * apart: it is the form's, not the kernel's. */
typedef struct tg_interp_counts {
  /* arithmetic and comparisons of floats; a multiply-add is two, of a reduction each value that it takes in is one */
  uint64_t floats;
  uint64_t functions;                /* exp, sin, ..: one each, while they have not become their definitions */
  uint64_t loads;                    /* of elements of in, out and inout buffers */
  uint64_t masked;                   /* of these three: what nobody asked for */
  /* subscripts, extents, gates; selections, conversions, exchanges, accesses of local and reg memory, and stores */
  uint64_t integers, moves;
} tg_interp_counts;

typedef struct tg_interp {
  const tg_interp_buffer *buffers;   /* the in, out and inout buffers, in order of definition */
  const int64_t *params;             /* by ordinal of job->params */
  uint64_t step_limit;               /* 0: none. Past it: TG_ELIMIT */
  /* bytes of local and reg memory, with what the checks keep about all memory; 0: none. Past it: TG_ELIMIT */
  uint64_t memory_limit;
  bool check_uninitialised;          /* out, local and reg start unwritten; reading one is an error */
  /* parallel iterations that touch one element, one of them writing: named with both statements */
  bool check_races;
  /* of a program for threads (device form): an element of LOCAL or GLOBAL that two threads of a workgroup touch, one
   * of them writing, with no BARRIER between */
  bool check_barriers;
  /* an input outside of its contract is an error (else it is clamped as the code does) */
  bool check_contracts;
  /* a loop with a merge: parts of it, merged in either order, must give what the whole does */
  bool check_merges;
  /* exp, sin, .. by the C library in f64, each rounded once, and not by their definitions in the language: a
   * reference that has no fault in common with those */
  bool host_functions;
  tg_interp_counts *counts;          /* NULL: nothing is counted. What is run is added */
  /* global and thread iterations run in a shuffled order, the same each time; another number shuffles them
   * otherwise. The result must not change */
  uint64_t order;
} tg_interp;

/* Runs j->sink (or sink, a program of j). Fails with an error that names the statement: out of bounds, race, ... */
void tg_interpret(tg_job *j, const tg_uop *sink, const tg_interp *in);
/* An expression over ARG 0 .. nargs-1, compiled once for many calls; lives as long as the job's memory. */
typedef struct tg_interp_function tg_interp_function;
tg_interp_function *tg_interpret_prepare(tg_job *j, const tg_uop *u, uint32_t nargs);
tg_value tg_interpret_call(tg_interp_function *f, const tg_value *args);
/* The value of a closed expression over ARGs: for definitions of functions, rules and tests. False if it has none. */
bool tg_interpret_expr(tg_job *j, const tg_uop *u, uint32_t nargs, const tg_value *args, tg_value *result);

/* ---- compare.c ---- */

/* Two buffers of n elements. exact: the same bits, any NaN for any NaN. Else the rounding bound of reordered sums:
 *   |got - want| <= (2 sqrt(terms) + 16) eps magnitude + 1 ulp of want
 * eps of the type of got; magnitude the sum of absolute values of what was added up (|A||B| of a product), by element,
 * or
 * |want| where NULL. NaN must meet NaN, and infinity the same infinity. want may have a wider type. */
typedef struct tg_comparison {
  tg_type type, want_type;       /* of got; of want (TG_VOID: the same) */
  size_t n;
  const void *got, *want;
  bool exact;
  double terms;                  /* how many products or values each element sums */
  const double *magnitude;
} tg_comparison;
typedef struct tg_difference {
  size_t wrong, worst;           /* how many elements differ too much; the one with the largest error by its bound */
  double got, want, error, bound, ratio;   /* of the worst; ratio = error / bound, infinity where there is no bound */
} tg_difference;
/* True if all elements agree. report may be NULL. */
bool tg_compare(const tg_comparison *c, tg_difference *report);
/* "3 of 64 differ; worst at 17: 1.5 instead of 1.25 (error .., allowed ..)"; the length as of snprintf. */
int tg_difference_text(const tg_difference *d, size_t n, char *out, size_t bytes);
/* The largest error of got, against want in f64, by blocks of 64 elements: the largest difference in a block over
 * the largest |want| there. Infinity where NaN does not meet NaN, or infinity what rounds to it. */
double tg_block_error(tg_type type, const void *got, const double *want, size_t n);
/* Twice the error of the unscheduled program in its own types, and 2 ulp: what a scheduled one may have. */
double tg_block_bound(tg_type type, double unscheduled);

/* ---- widen.c ---- */

/* The program with f64 in place of every float, buffers too; NULL if it looks at the bits of floats. */
const tg_uop *tg_widen(tg_job *j, const tg_uop *sink);
const tg_uop *tg_narrow(tg_job *j, const tg_uop *sink);   /* f32 instead */
#endif
