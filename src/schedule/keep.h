/* SPDX-License-Identifier: MIT
 * Reductions that are computed more often than they have values: what word `keep` keeps, and what a first choice asks
 * for. */
#ifndef TG_KEEP_H
#define TG_KEEP_H
#include "schedule/opt.h"

enum { TG_KEEP_RANK = 8 };

/* A reduction, its ranges in the order of those of the first that is alike, and how often it is computed. */
typedef struct { const tg_uop *reduce, *range[TG_KEEP_RANK]; double times; } tg_kept_use;

/* Reductions that differ in the names of ranges alone. */
typedef struct {
  const tg_uop *first;
  const tg_uop *range[TG_KEEP_RANK];    /* of the scope, that it changes with, outermost first */
  uint32_t rank;
  TG_VEC(tg_kept_use) uses;
  double times, once, terms;            /* how often it is computed now; how many values it has; terms of each */
} tg_kept;

typedef struct {
  tg_schedule *s;
  const tg_uop *around;                 /* SINK or END: what is kept lasts for all of it, or for an iteration */
  uint8_t *inside;                      /* by range ordinal: it is bound there */
  uint32_t ranges;
  TG_VEC(tg_kept) kept;
} tg_kept_scope;

/* Sites must describe the program. */
tg_kept_scope tg_keep_scope(tg_schedule *s, const tg_uop *around);
/* Why it may not be kept; NULL: it may. */
const char *tg_keep_hindrance(const tg_kept_scope *g, const tg_kept *k);
#endif
