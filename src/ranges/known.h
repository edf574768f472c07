/* SPDX-License-Identifier: MIT
 * Tables that src/ranges keeps with a job, and functions that its files share. Not for other folders.
 *
 * Side tables are indexed by node id and grow with the job. Nodes are immutable, so what is known of a node stays
 * true. */
#ifndef TG_RANGES_KNOWN_H
#define TG_RANGES_KNOWN_H
#include "ranges/ranges.h"

typedef struct {
  const tg_uop *u;
  uint32_t next, log;   /* next source to visit; the rewrite that led here (index + 1 into the log) */
  uint32_t steps;       /* rewrites on the way here */
} tg_rewrite_frame;

/* before: index + 1 of the rewrite that led to this one; 0: none */
typedef struct { const char *rule; const tg_uop *node; uint32_t before; } tg_rewrite_log;

struct tg_polys;

typedef struct tg_known {
  struct tg_polys *polys;                  /* the prover's context, kept so that its memory is reused */
  uint32_t *bounds_at, bounds_cap;         /* by node id: index into bounds, + 1; 0: not computed */
  TG_VEC(tg_bounds) bounds;
  TG_VEC(const tg_uop *) bounds_stack;
  uint64_t *key;                           /* by node id: its key (order.c); 0: not computed */
  uint32_t key_cap;
  TG_VEC(const tg_uop *) key_stack;
  struct { const tg_rules *rules; const tg_uop **to; uint32_t cap; } memo[TG_RULES__COUNT];
  tg_rule_set set;                         /* rule set of the rewrite in progress */
  TG_VEC(tg_rewrite_frame) stack;
  TG_VEC(tg_rewrite_log) log;
} tg_known;

tg_known *tg_known_of(tg_job *j);

/* ---- order.c: by structure, never by id ---- */
uint64_t tg_key_of(tg_job *j, const tg_uop *u);
int tg_order(tg_job *j, const tg_uop *a, const tg_uop *b);   /* < 0: a comes before b */

/* ---- sum.c ---- */
/* Rules written in C. v's sources must be in normal form; NULL: v is in normal form too. */
const tg_uop *tg_rewrite_sum(tg_job *j, const tg_uop *v);          /* ADD SUB NEG MUL of INDEX */
/* ---- divmod.c ---- */
const tg_uop *tg_rewrite_divmod(tg_job *j, const tg_uop *v);       /* IDIV, MOD of INDEX by a constant */
const tg_uop *tg_rewrite_compare(tg_job *j, const tg_uop *v);      /* LT LE EQ NE of INDEX */

/* Tells the rewrite in progress that u is in normal form. */
void tg_mark_normal(tg_job *j, const tg_uop *u);

/* ---- rules.c ---- */
/* Result of the first rule of the set that applies to v, whose sources are in normal form; NULL: none applies. name
 * gets the rule's name. */
const tg_uop *tg_rules_apply(tg_job *j, const tg_rules *r, tg_rule_set set, const tg_uop *v, const char **name);
#endif
