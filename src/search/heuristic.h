/* SPDX-License-Identifier: MIT
 * A good schedule without a search. */
#ifndef TG_HEURISTIC_H
#define TG_HEURISTIC_H
#include "lower/lower.h"

/* Appends opts, as text, to j->opts for a kernel that has none of its own. raised: the program after pass raise. Every opt is
 * legal: what dependences forbid is not proposed. Deterministic; reads l->target only. */
void tg_heuristic(tg_job *j, const tg_lowering *l, const tg_uop *raised);
#endif
