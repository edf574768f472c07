/* SPDX-License-Identifier: MIT
 * What the room keeps beside a job, and what its files need of each other. Not for other rooms.
 *
 * Side tables are by node id and grow with the job; nodes are immutable, so what is known of one stays true. */
#ifndef TG_RANGES_KNOWN_H
#define TG_RANGES_KNOWN_H
#include "ranges/ranges.h"

typedef struct {
  const tg_uop *u;
  uint32_t next, log;   /* next source to visit; the rewrite that led here (index + 1 into the log) */
  uint32_t steps;       /* rewrites on the way here */
} tg_rewrite_frame;

/* before: index + 1 of the rewrite that led to it */
typedef struct { const char *rule; const tg_uop *node; uint32_t before; } tg_rewrite_log;

struct tg_polys;

typedef struct tg_known {
  struct tg_polys *polys;                  /* of the prover: kept for its memory */
  uint32_t *bounds_at, bounds_cap;         /* index + 1 into bounds */
  TG_VEC(tg_bounds) bounds;
  TG_VEC(const tg_uop *) bounds_stack;
  uint64_t *key;                           /* 0: not computed */
  uint32_t key_cap;
  TG_VEC(const tg_uop *) key_stack;
  struct { const tg_rules *rules; const tg_uop **to; uint32_t cap; } memo[TG_RULES__COUNT];
  tg_rule_set set;                         /* of the rewrite in progress */
  TG_VEC(tg_rewrite_frame) stack;
  TG_VEC(tg_rewrite_log) log;
} tg_known;

tg_known *tg_known_of(tg_job *j);

/* ---- order.c: by structure, never by id ---- */
uint64_t tg_key_of(tg_job *j, const tg_uop *u);
int tg_order(tg_job *j, const tg_uop *a, const tg_uop *b);   /* < 0: a stands first */

/* ---- sum.c ---- */
/* Rules written in C: v's sources are in normal form; NULL if it is already. */
const tg_uop *tg_rewrite_sum(tg_job *j, const tg_uop *v);          /* ADD SUB NEG MUL of INDEX */
/* ---- divmod.c ---- */
const tg_uop *tg_rewrite_divmod(tg_job *j, const tg_uop *v);       /* IDIV, MOD of INDEX by a constant */
const tg_uop *tg_rewrite_compare(tg_job *j, const tg_uop *v);      /* LT LE EQ NE of INDEX */

/* Says that u is in normal form already, in the rewrite in progress. */
void tg_mark_normal(tg_job *j, const tg_uop *u);

/* ---- rules.c ---- */
/* The first rule of the set that applies to v, its sources being in normal form; NULL if none. */
const tg_uop *tg_rules_apply(tg_job *j, const tg_rules *r, tg_rule_set set, const tg_uop *v, const char **name);
#endif
