/* SPDX-License-Identifier: MIT
 * A good schedule without a search. */
#ifndef TG_HEURISTIC_H
#define TG_HEURISTIC_H
#include "lower/lower.h"

/* Appends opts, as text, to j->opts for a kernel that has none of its own. raised: the program after pass raise. The
 * list is legal: what dependences forbid is not proposed, and pass schedule has accepted it (its result is kept in
 * the job, so that costs nothing). Where it has refused one, the nest that the word is for gets the next simpler
 * choice, down to none, and l->log is told. Deterministic; reads l->target only. */
void tg_heuristic(tg_job *j, const tg_lowering *l, const tg_uop *raised);

/* Every decision of the heuristic is a knob for a search: its name, what was chosen, and what else is worth a try. */
enum { TG_CHOICE_OPTIONS = 10 };
typedef struct tg_choice { const char *name; int64_t value; uint32_t n; int64_t option[TG_CHOICE_OPTIONS]; } tg_choice;
typedef struct tg_choices {
  const char *given;              /* "rows@0=8 unroll@0=4": these are taken as given; NULL: none */
  TG_VEC(tg_choice) made;         /* in order, memory of the job */
  tg_pass_fn *judge;              /* accepts lists, or fails at one of the words; NULL: pass schedule */
} tg_choices;
/* The same, with decisions given and recorded. What is given need not be legal: the words then fail where they are
 * applied. */
void tg_heuristic_with(tg_job *j, const tg_lowering *l, const tg_uop *raised, tg_choices *c);
/* The i-th other decision of a list of choices, put into what was given before; NULL: there are not so many. */
const char *tg_choices_move(tg_env *env, const char *choices, const char *given, uint32_t i);
#endif
