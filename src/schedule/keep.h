/* SPDX-License-Identifier: MIT
 * Reductions, and other values, that are computed more often than they differ: what word `keep` keeps, and what a first
 * choice asks for. */
#ifndef TG_KEEP_H
#define TG_KEEP_H
#include "schedule/opt.h"

enum { TG_KEEP_RANK = 8 };

/* A value: a reduction, or what is computed around a load (core); where it is used; its ranges in the order of those of
 * the first that is alike; how often it is computed. */
typedef struct {
  const tg_uop *core, *value, *store, *range[TG_KEEP_RANK];
  double times;
} tg_repeated_use;

/* Values that differ in the names of ranges alone. Where all uses go on alike, with no other ranges, it is what they
 * make of it that is kept: max(sum(..), 0). */
typedef struct {
  const tg_uop *core, *first;           /* the reduction or the load; the value that is kept */
  const tg_uop *range[TG_KEEP_RANK];    /* of the scope, that it changes with, outermost first */
  uint32_t rank;
  TG_VEC(tg_repeated_use) uses;
  double times, once;                   /* how often it is computed now; how many values it has */
  double tiled;                         /* how often, where a product stands beside it: in all loops of the product */
  bool again;                           /* some use is in a loop or sum that it does not change with */
} tg_repeated;

typedef struct {
  tg_schedule *s;
  const tg_uop *around;                 /* SINK or END: what is kept lasts for all of it, or for an iteration */
  uint8_t *inside;                      /* by range ordinal: it is bound there */
  uint32_t ranges;
  bool loads;                           /* of values around loads, not of reductions */
  TG_VEC(tg_repeated) all;
} tg_repeats;

/* Sites must describe the program. */
tg_repeats tg_repeats_in(tg_schedule *s, const tg_uop *around, bool loads);
double tg_repeats_trips(tg_job *j, const tg_uop *range);   /* iterations, as far as they are known */
/* Why it may not be kept; NULL: it may. */
const char *tg_keep_hindrance(const tg_repeats *g, const tg_repeated *k);
#endif
