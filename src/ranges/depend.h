/* SPDX-License-Identifier: MIT
 * What a loop touches and whether two of its accesses can meet: for verdicts (depend.c) and races (race.c). */
#ifndef TG_DEPEND_H
#define TG_DEPEND_H
#include "ranges/polynomial.h"

typedef struct {
  const tg_uop *node, *statement;   /* LOAD or STORE; the STORE or END it belongs to */
  uint32_t order, buffer, depth;    /* order: of the statement, in the program's */
  uint32_t part;                    /* which of the statements directly in the loop in question it belongs to, from 1 */
  bool store, atomic;
  const tg_uop *const *loop;        /* ranges of the loops around, from the loop in question inwards */
} tg_access;

typedef struct tg_touched {
  tg_job *job;
  tg_polys *polys;
  const tg_uop *end, *outer[64];
  uint32_t outer_n, order, stamp, part;
  TG_VEC(tg_access) all;
  uint8_t *stored, *inside;         /* by buffer: stored to, defined in the loop */
  uint32_t *define_depth;           /* by buffer: loops around its definition, from the loop in question inwards */
  uint32_t *seen;
} tg_touched;

typedef enum { TG_SAME, TG_LATER, TG_EARLIER } tg_how;
/* the second access's iteration, seen from the first's; ranges not named: any */
typedef struct { const tg_uop *range; tg_how how; } tg_relation;
/* bit of an ordinal: the range in the other iteration */
enum { TG_TWIN = 1 << 30 };

tg_touched *tg_touched_by(tg_job *j, const tg_uop *sink, const tg_uop *end);   /* end NULL: the whole program */
uint32_t tg_common_loops(const tg_access *a, const tg_access *b);
bool tg_accesses_apart(tg_touched *t, const tg_access *a, const tg_access *b, uint32_t n, const tg_relation *rel);
bool tg_conflict_witness(tg_touched *t, const tg_access *a, const tg_access *b, uint32_t n, const tg_relation *rel,
                         tg_witness *w);
const char *tg_conflict_text(tg_touched *t, const tg_access *a, const tg_access *b, uint32_t n, const tg_relation *rel);
tg_op tg_accumulates(tg_job *j, const tg_uop *store);
#endif
