/* SPDX-License-Identifier: MIT
 * A good schedule without a search. */
#ifndef TG_HEURISTIC_H
#define TG_HEURISTIC_H
#include "lower/lower.h"

/* Chooses schedule words (opts) for a kernel that has none, and appends them as text to j->opts. raised: the program
 * after pass raise. The list is legal: words that dependences forbid are not proposed, and pass schedule has accepted
 * the list (its result is kept in the job, so the pass is not run twice). If the pass refuses a word, the loop nest
 * that the word is for gets the next simpler choice, down to no words, and l->log gets a message. Deterministic; of l
 * it reads target only. */
void tg_heuristic(tg_job *j, const tg_lowering *l, const tg_uop *raised);

/* Every decision of the heuristic is open to a search: its name, the value chosen, and alternatives to try. */
enum { TG_DECISION_OPTIONS = 10 };
typedef struct tg_decision {
  const char *name;
  int64_t value;
  uint32_t n;                     /* of options: the alternatives */
  int64_t option[TG_DECISION_OPTIONS];
} tg_decision;
typedef struct tg_decisions {
  const char *given;              /* decisions to keep, as "rows@0=8 unroll@0=4"; NULL: none */
  TG_VEC(tg_decision) made;       /* out: the decisions, in order; memory of the job */
  tg_pass_fn *judge;              /* the pass that accepts a list or fails at a word of it; NULL: pass schedule */
} tg_decisions;
/* The same, keeping the decisions in c->given, and recording all in c->made. Given decisions need not be legal: the
 * words then fail when they are applied. */
void tg_heuristic_with(tg_job *j, const tg_lowering *l, const tg_uop *raised, tg_decisions *c);
/* `given` with one decision changed: to the i-th alternative, counted over the whole list of decisions. NULL: the list
 * has fewer alternatives. */
const char *tg_decisions_move(tg_env *env, const char *decisions, const char *given, uint32_t i);
#endif
