/* SPDX-License-Identifier: MIT
 * What the checks of any operation are made of. A candidate runs on operands in memory of their own: each ends, or
 * begins, at a page without access; what lies beside it, and between the lines of a result, is a pattern that must
 * stay; inputs must stay as they are. Data come from a seed, sizes lie around what a candidate cuts by, and a failure
 * is told with its place and numbers. */
#ifndef TG_PLACED_H
#define TG_PLACED_H
#include "base/base.h"
#include "base/guard.h"
#include "tg/tg.h"

/* ---- operands ---- */

typedef struct tg_placed { const char *name; tg_guarded in; uint64_t hash; } tg_placed;
enum { TG_PLACED_MOST = 32, TG_PLACED_PERIOD = 1 << 16 };
typedef struct tg_places {
  tg_placed part[TG_PLACED_MOST];        /* an operation knows which is which */
  char pattern[TG_PLACED_PERIOD];
} tg_places;

/* A matrix in an operand: elements from a row to the next, and from a column to the next. */
typedef struct tg_lying { int64_t rows, columns, row, column; } tg_lying;
static inline size_t tg_lying_at(const tg_lying *l, int64_t r, int64_t c) {
  return (size_t)(r * l->row + c * l->column);
}
size_t tg_lying_bytes(const tg_lying *l, tg_type t);

void tg_places_init(tg_places *p);
/* Room for an operand with the pattern in it and around it. front: the page without access comes before it. Fails by
 * unwinding in env. */
char *tg_place_operand(tg_places *p, tg_env *env, uint32_t i, const char *name, size_t bytes, bool front);
/* One that is read: these numbers, row after row, and between them bytes of all ones, which are NaN where there is one.
 */
void tg_place_input(tg_places *p, tg_env *env, uint32_t i, const char *name, tg_type t, const tg_lying *l,
                    const double *x, bool front);
/* One that is written, and (x not NULL) read before: else all ones are its elements. The pattern stays between them. */
void tg_place_result(tg_places *p, tg_env *env, uint32_t i, const char *name, tg_type t, const tg_lying *l,
                     const double *x, bool front);
void tg_places_drop(tg_places *p);
static inline tg_argument tg_placed_argument(const tg_places *p, uint32_t i) {
  return (tg_argument){p->part[i].in.data, p->part[i].in.bytes};
}

/* Before a run: inputs are remembered. Behind it: the name of one that changed, but for the result; NULL: none did. */
void tg_places_seal(tg_places *p);
const char *tg_places_changed(const tg_places *p, uint32_t result);
/* Was something written beside a result or between its elements? These are given up: read them before. */
bool tg_place_disturbed(tg_places *p, uint32_t i, tg_type t, const tg_lying *l, char *text, size_t n);
/* While a candidate runs: "412 bytes behind the end of B", for the address of a fault. False if it lies in none of the
 * operands. Calls nothing that a handler of signals may not call, but for snprintf. */
bool tg_places_at(const tg_places *p, const void *address, char *out, size_t n);

/* Element i of a vector of this type, as a number. */
void tg_number_put(tg_type t, char *at, size_t i, double v);
double tg_number_get(tg_type t, const char *at, size_t i);

/* ---- data ---- */

int tg_significand(tg_type t);           /* bits: whole numbers up to 2^bits are exact */
uint64_t tg_draw(uint64_t *state);
double tg_draw_whole(uint64_t *state, tg_type t, int64_t most); /* of 1..most, of either sign where the type has both */
double tg_draw_unit(uint64_t *state, tg_type t);                  /* from -1 to 1 */

/* ---- sizes ---- */

/* Where tails are: at 1, and at what a kernel's words cut by, one less, one more. */
enum { TG_CUTS = 64, TG_CUT_NUMBERS = 16 };
typedef struct tg_cuts { uint64_t state; int64_t cut[TG_CUTS]; uint32_t n; } tg_cuts;
uint32_t tg_numbers_in(const char *words, int64_t *out,
                       uint32_t most); /* that may be sizes of tiles; words may be NULL */
void tg_cuts_add(tg_cuts *c, const int64_t *numbers, uint32_t n);         /* each, and products of two of them */
int64_t tg_cuts_size(tg_cuts *c, int64_t lo, int64_t hi);

/* ---- what came out ---- */

/* The first fault that was seen. kind: the operation's number of the check. */
typedef struct tg_check_failure {
  int kind;
  int64_t row, column;                   /* -1: no element of the result */
  double got, want;
  char text[1024];                       /* the whole message: check, sizes, where, got, want */
} tg_check_failure;
void tg_check_fail(tg_check_failure *f, const char *which, int64_t row, int64_t column, double got, double want,
                   const char *format, ...) TG_PRINTF(7, 8);
#endif
