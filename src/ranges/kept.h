/* SPDX-License-Identifier: MIT
 * Whether a program whose loops have kinds keeps the order of another one (kept.c). */
#ifndef TG_KEPT_H
#define TG_KEPT_H
#include "ranges/depend.h"

/* What is known of the order that is to be kept. Both may be NULL. */
typedef struct {
  bool (*lockstep)(void *user, const tg_uop *range);   /* this range's iterations are in lockstep in that order too */
  /* instances of these two of which rel holds and that differ in this range never meet */
  bool (*separates)(void *user, const tg_uop *range, const tg_access *a, const tg_access *b, uint32_t n,
                    const tg_relation *rel);
  void *user;
} tg_reference;

/* Two accesses that come in another order: because of which range, the loops around each from the outside, both
 * statements with a witness as text. */
typedef struct { const tg_uop *range; uint32_t depth[2]; const tg_uop *const *loop[2]; const char *why; } tg_reordered;

/* Does the program, by the kinds of its ranges, keep the order that it has where each loop runs one iteration after
 * another (but those that ref says are in lockstep)? Unknown is no. out gets, for no, what is reordered. */
bool tg_order_kept(tg_job *j, const tg_uop *sink, const tg_reference *ref, tg_reordered *out);
#endif
