/* SPDX-License-Identifier: MIT
 * The accesses of a loop, and whether two of them can touch the same element: for verdicts (depend.c), races (race.c)
 * and the order of accesses (kept.c). "The loop" below is the one given to tg_touched_by. */
#ifndef TG_DEPEND_H
#define TG_DEPEND_H
#include "ranges/polynomial.h"

typedef struct {
  const tg_uop *node, *statement;   /* the LOAD or STORE; the STORE, or the END (extents), that it belongs to */
  /* order: position of the statement in program order; depth: number of loops in `loop` */
  uint32_t order, buffer, depth;
  uint32_t part;                    /* which of the loop's direct statements it belongs to, counted from 1 */
  bool store, atomic;
  const tg_uop *const *loop;        /* depth ranges: the loop itself, then the loops inside it down to the access */
} tg_access;

typedef struct tg_touched {
  tg_job *job;
  tg_polys *polys;
  const tg_uop *end, *outer[64];
  uint32_t outer_n, order, stamp, part;
  TG_VEC(tg_access) all;
  uint8_t *stored, *inside;         /* by buffer: 1 if the loop stores to it; 1 if it is defined in the loop */
  uint32_t *define_depth;           /* by buffer: number of loops around its DEFINE, counting from the loop inwards */
  uint32_t *seen;
} tg_touched;

typedef enum { TG_SAME, TG_LATER, TG_EARLIER } tg_how;
/* Assumption about two accesses: the second is in the same, a later or an earlier iteration of range. Ranges without
 * a relation are in any iteration. */
typedef struct { const tg_uop *range; tg_how how; } tg_relation;
/* flag in a range ordinal: the range as the second access sees it */
enum { TG_TWIN = 1 << 30 };

/* all accesses of loop `end`; NULL: of the whole program */
tg_touched *tg_touched_by(tg_job *j, const tg_uop *sink, const tg_uop *end);
uint32_t tg_common_loops(const tg_access *a, const tg_access *b);
bool tg_accesses_apart(tg_touched *t, const tg_access *a, const tg_access *b, uint32_t n, const tg_relation *rel);
bool tg_conflict_witness(tg_touched *t, const tg_access *a, const tg_access *b, uint32_t n, const tg_relation *rel,
                         tg_witness *w);
const char *tg_conflict_text(tg_touched *t, const tg_access *a, const tg_access *b, uint32_t n, const tg_relation *rel);
tg_op tg_accumulates(tg_job *j, const tg_uop *store);
#endif
