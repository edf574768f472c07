/* SPDX-License-Identifier: MIT
 * What a lowered program should cost, read off the graph: it orders candidates before any is compiled. */
#ifndef TG_COST_H
#define TG_COST_H
#include "lower/lower.h"

/* What the cost model reads off a lowered program; seconds are its guess. core, memory: cycles of each alone. */
typedef struct tg_cost {
  double seconds, cycles, core, memory, chain, spills, l2_bytes, l3_bytes, memory_bytes, code;
} tg_cost;

/* linear: the program after the last pass, for a CPU. params: by ordinal, or NULL. */
tg_cost tg_cost_of(tg_job *j, const tg_target *target, const tg_uop *linear, const int64_t *params, int threads);
#endif
