/* SPDX-License-Identifier: MIT
 * The interpreter: runs a program of any stage, slowly and simply. Its result is by definition the right one. */
#ifndef TG_INTERP_H
#define TG_INTERP_H
#include "dsl/uop.h"
#include "dsl/value.h"

typedef struct { void *data; size_t bytes; } tg_interp_buffer;   /* the number of elements follows from bytes */

/* Numbers of scalar operations that were run. The first three are the kernel's own work; integers and moves are
 * overhead that depends on the form the program has at this stage. An iteration counts as masked if it is of a
 * statement whose gate is false, or of a reduction and loads nothing because its gates are false. */
typedef struct tg_interp_counts {
  /* float arithmetic and comparisons; a multiply-add counts as two, each value that a reduction takes in as one */
  uint64_t floats;
  uint64_t functions;                /* calls of exp, sin, ..; 0 once a pass has replaced them by their definitions */
  uint64_t loads;                    /* elements loaded from in, out and inout buffers */
  uint64_t masked;                   /* such operations of masked iterations, not counted above: wasted work */
  /* integers: operations on subscripts, extents and gates; moves: selections, conversions, exchanges, stores, accesses
   * of local and reg memory */
  uint64_t integers, moves;
} tg_interp_counts;

typedef struct tg_interp {
  const tg_interp_buffer *buffers;   /* the in, out and inout buffers, in order of definition */
  const int64_t *params;             /* by ordinal of job->params */
  uint64_t step_limit;               /* the most steps; beyond: TG_ELIMIT. 0: no limit */
  /* the most bytes of local and reg memory, including what the checks keep about all memory; beyond: TG_ELIMIT.
   * 0: no limit */
  uint64_t memory_limit;
  bool check_uninitialised;          /* reading an element of out, local or reg memory before it is written fails */
  /* two parallel iterations that access one element, at least one of them writing, fail; the error names both
   * statements */
  bool check_races;
  /* device form: two threads of a workgroup that access one element of LOCAL or GLOBAL memory, at least one of them
   * writing, with no BARRIER in between, fail */
  bool check_barriers;
  /* an input value outside of its promised range fails (otherwise it is clamped, as compiled code does) */
  bool check_promises;
  /* a loop with a merge is also run in parts; the parts, merged in either order, must give the result of the whole */
  bool check_merges;
  /* compute exp, sin, .. with the C library in f64, rounded once, instead of by their definitions in the language: an
   * independent reference for these definitions */
  bool host_functions;
  tg_interp_counts *counts;          /* what this run does is added to it; NULL: nothing is counted */
  /* seed of the order in which global and thread iterations run (equal seeds: equal order). The result must not
   * depend on it */
  uint64_t order;
} tg_interp;

/* Runs `sink`, a program of job j. Fails with an error that names the statement: out of bounds, race, .. */
void tg_interpret(tg_job *j, const tg_uop *sink, const tg_interp *in);
/* An expression over ARG 0 .. nargs-1, compiled once for many calls; lives as long as the job's memory. */
typedef struct tg_interp_function tg_interp_function;
tg_interp_function *tg_interpret_prepare(tg_job *j, const tg_uop *u, uint32_t nargs);
tg_value tg_interpret_call(tg_interp_function *f, const tg_value *args);
/* Evaluates an expression over ARGs, without memory or ranges: for definitions of functions, rules and tests. False if
 * it has no value. */
bool tg_interpret_expr(tg_job *j, const tg_uop *u, uint32_t nargs, const tg_value *args, tg_value *result);

/* ---- compare.c ---- */

/* Compares two buffers of n elements. exact: equal bits, but any NaN equals any NaN. Otherwise each element must be
 * within the rounding error of a sum taken in another order:
 *   |got - want| <= (2 sqrt(terms) + 16) eps magnitude + 1 ulp of want
 * eps is that of got's type. magnitude gives, for each element, the sum of the absolute values that were added
 * (|A||B| for a product); NULL: |want|. A NaN must match a NaN, and an infinity the same infinity. want may have a
 * wider type than got. */
typedef struct tg_comparison {
  tg_type type, want_type;       /* of got; of want (TG_VOID: the same) */
  size_t n;
  const void *got, *want;
  bool exact;
  double terms;                  /* number of values that are summed up for each element */
  const double *magnitude;
} tg_comparison;
typedef struct tg_difference {
  size_t wrong, worst;           /* number of elements beyond their bound; index of that with the largest ratio */
  double got, want, error, bound, ratio;   /* of the worst; ratio = error / bound, infinity if bound is 0 */
} tg_difference;
/* True if all elements agree. report may be NULL. */
bool tg_compare(const tg_comparison *c, tg_difference *report);
/* "3 of 64 differ; worst at 17: 1.5 instead of 1.25 (error .., allowed ..)"; returns the length like snprintf. */
int tg_difference_text(const tg_difference *d, size_t n, char *out, size_t bytes);
/* The relative error of got, taken by blocks of 64 elements: the maximum over all blocks of (largest difference in the
 * block) / (largest |want| in it). Infinity if a NaN does not match a NaN, or an infinity a value that rounds to it. */
double tg_block_error(tg_type type, const void *got, const double *want, size_t n);
/* The error allowed for a scheduled program: twice that of the unscheduled program in its own types, plus 2 ulp. */
double tg_block_bound(tg_type type, double unscheduled);

/* ---- widen.c ---- */

/* The program with f64 in place of every float type, in buffers too; NULL if it uses the bits of floats. */
const tg_uop *tg_widen(tg_job *j, const tg_uop *sink);
const tg_uop *tg_narrow(tg_job *j, const tg_uop *sink);   /* likewise with f32 */
#endif
