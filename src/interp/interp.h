/* SPDX-License-Identifier: MIT
 * The interpreter: runs a program of any stage, slowly and simply. It is the truth. */
#ifndef TG_INTERP_H
#define TG_INTERP_H
#include "dsl/uop.h"
#include "dsl/value.h"

typedef struct { void *data; size_t bytes; } tg_interp_buffer;   /* element count is taken from bytes */

typedef struct tg_interp {
  const tg_interp_buffer *buffers;   /* the in, out and inout buffers, in order of definition */
  const int64_t *params;             /* by ordinal of job->params */
  uint64_t step_limit;               /* 0: none. Past it: TG_ELIMIT */
  bool check_uninitialised;          /* out, local and reg start unwritten; reading one is an error */
  bool check_races;                  /* parallel iterations that touch one element, one of them writing */
  bool check_contracts;              /* an input outside of its contract is an error (else it is clamped as the code does) */
  bool reverse_parallel;             /* global and thread iterations in descending order: the result must not change */
} tg_interp;

/* Runs j->sink (or sink, a program of j). Fails with an error that names the statement: out of bounds, race, ... */
void tg_interpret(tg_job *j, const tg_uop *sink, const tg_interp *in);
/* The value of a closed expression over ARGs: for definitions of functions, rules and tests. False if it has none. */
bool tg_interpret_expr(tg_job *j, const tg_uop *u, uint32_t nargs, const tg_value *args, tg_value *result);
#endif
