/* SPDX-License-Identifier: MIT
 * Building blocks for the checks of an operation such as GEMM. Each operand of a candidate is in a mapping of its own,
 * and ends, or begins, at a guard page without access. The memory beside an operand, and the gaps between the rows of a
 * result, hold a pattern that must not change; inputs must not change either. Data come from a seed, sizes are chosen
 * around the tile sizes of the candidate, and a failure's message names the place and the numbers. */
#ifndef TG_PLACED_H
#define TG_PLACED_H
#include "base/base.h"
#include "base/guard.h"
#include "tg/tg.h"

/* ---- operands ---- */

typedef struct tg_placed { const char *name; tg_guarded in; uint64_t hash; } tg_placed;
enum { TG_PLACED_MOST = 32, TG_PLACED_PERIOD = 1 << 16 };
typedef struct tg_places {
  tg_placed part[TG_PLACED_MOST];        /* the operands, numbered by the operation */
  char pattern[TG_PLACED_PERIOD];
} tg_places;

/* The layout of a matrix in an operand. row, column: strides, in elements, from a row and from a column to the next. */
typedef struct tg_lying { int64_t rows, columns, row, column; } tg_lying;
static inline size_t tg_lying_at(const tg_lying *l, int64_t r, int64_t c) {
  return (size_t)(r * l->row + c * l->column);
}
size_t tg_lying_bytes(const tg_lying *l, tg_type t);

void tg_places_init(tg_places *p);
/* Memory for operand i, filled with the pattern, and surrounded by it. front: the guard page is before the operand, not
 * behind it. Fails by unwinding in env. */
char *tg_place_operand(tg_places *p, tg_env *env, uint32_t i, const char *name, size_t bytes, bool front);
/* An operand that is only read. x: its elements, row after row. Gaps are filled with bits of all ones (NaN in
 * floats). */
void tg_place_input(tg_places *p, tg_env *env, uint32_t i, const char *name, tg_type t, const tg_lying *l,
                    const double *x, bool front);
/* An operand that is written. x: its elements if it is read too; NULL: they are bits of all ones. Gaps hold the
 * pattern. */
void tg_place_result(tg_places *p, tg_env *env, uint32_t i, const char *name, tg_type t, const tg_lying *l,
                     const double *x, bool front);
void tg_places_drop(tg_places *p);
static inline tg_argument tg_placed_argument(const tg_places *p, uint32_t i) {
  return (tg_argument){p->part[i].in.data, p->part[i].in.bytes};
}

/* seal: before a run, hashes all operands. changed: after it, the name of one, other than the result, that was
 * modified; NULL: none was. */
void tg_places_seal(tg_places *p);
const char *tg_places_changed(const tg_places *p, uint32_t result);
/* Was something written beside a result or into its gaps? Overwrites the elements: read them before. text: where. */
bool tg_place_disturbed(tg_places *p, uint32_t i, tg_type t, const tg_lying *l, char *text, size_t n);
/* Describes the address of a fault, as "412 bytes behind the end of B". False: it is not near any operand. May be
 * called from a signal handler (snprintf is its only call that is not async-signal-safe). */
bool tg_places_at(const tg_places *p, const void *address, char *out, size_t n);

/* Writes and reads element i of an array of type t. */
void tg_number_put(tg_type t, char *at, size_t i, double v);
double tg_number_get(tg_type t, const char *at, size_t i);

/* ---- data ---- */

int tg_significand(tg_type t);           /* in bits: t represents all integers up to 2^bits */
uint64_t tg_draw(uint64_t *state);
double tg_draw_whole(uint64_t *state, tg_type t, int64_t most); /* 1..most; signed types: or its negative */
double tg_draw_unit(uint64_t *state, tg_type t);                  /* from -1 to 1 */

/* ---- sizes ---- */

/* Sizes at which remainders show: 1, and each tile size in a kernel's words, minus 1, plus 0, plus 1. */
enum { TG_CUTS = 64, TG_CUT_NUMBERS = 16 };
typedef struct tg_cuts { uint64_t state; int64_t cut[TG_CUTS]; uint32_t n; } tg_cuts;
uint32_t tg_numbers_in(const char *words, int64_t *out,
                       uint32_t most); /* numbers that may be tile sizes; words may be NULL */
void tg_cuts_add(tg_cuts *c, const int64_t *numbers, uint32_t n);         /* adds each, and products of two of them */
int64_t tg_cuts_size(tg_cuts *c, int64_t lo, int64_t hi);

/* ---- failures ---- */

/* The first failure of a check. kind: the operation's own number for the check. */
typedef struct tg_check_failure {
  int kind;
  int64_t row, column;                   /* of the wrong element; -1: it is not about one element */
  double got, want;
  char text[1024];                       /* the whole message: check, sizes, where, got, want */
} tg_check_failure;
void tg_check_fail(tg_check_failure *f, const char *which, int64_t row, int64_t column, double got, double want,
                   const char *format, ...) TG_PRINTF(7, 8);
#endif
