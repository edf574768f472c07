/* SPDX-License-Identifier: MIT
 * Does a program whose loops have kinds (lanes, threads, ..) keep the order of accesses of a sequential one? (kept.c)
 */
#ifndef TG_KEPT_H
#define TG_KEPT_H
#include "ranges/depend.h"

/* What the caller knows of the order to keep. Either function may be NULL. */
typedef struct {
  /* true: in the order to keep, the range is in lockstep as well */
  bool (*lockstep)(void *user, const tg_uop *range);
  /* true: a and b, under the relations rel and in different iterations of range, never touch one element */
  bool (*separates)(void *user, const tg_uop *range, const tg_access *a, const tg_access *b, uint32_t n,
                    const tg_relation *rel);
  void *user;
} tg_reference;

/* A pair of accesses in the wrong order. range: the loop that causes it; loop, depth: the loops around each access,
 * outermost first; why: both statements and a witness, as text. */
typedef struct { const tg_uop *range; uint32_t depth[2]; const tg_uop *const *loop[2]; const char *why; } tg_reordered;

/* Does the program, run by the kinds of its ranges, access memory in the same order as if every loop were sequential
 * (except those that ref says are in lockstep)? False if it is not proved; out then gets a pair that may be
 * reordered. */
bool tg_order_kept(tg_job *j, const tg_uop *sink, const tg_reference *ref, tg_reordered *out);
#endif
