/* SPDX-License-Identifier: MIT
 * The cost model: estimates a lowered program's run time from its graph, to order candidates before compiling any. */
#ifndef TG_COST_H
#define TG_COST_H
#include "lower/lower.h"

typedef struct tg_cost {
  /* seconds, cycles: the estimate. core, memory: cycles of the core and of the memory system, each on its own; starts:
   * of runs that L2 and L3 serve; waits: cycles in which neither does anything for the other. chain: cycles of an
   * iteration's longest loop-carried dependence. spills: vector registers too many, summed over innermost loops.
   * l2_bytes, l3_bytes, memory_bytes: bytes that miss L1, L2, L3. code: instructions, roughly */
  double seconds, cycles, core, memory, waits, starts, chain, spills, l2_bytes, l3_bytes, memory_bytes, code;
} tg_cost;

/* linear: the program after the last pass, for a CPU. params: values by ordinal; NULL: unknown. */
tg_cost tg_cost_of(tg_job *j, const tg_target *target, const tg_uop *linear, const int64_t *params, int threads);
/* The same as a text for people: a line a loop, with what keeps its iterations busy, and a line an access, with where
 * its bytes come from. */
const char *tg_cost_report(tg_job *j, const tg_target *target, const tg_uop *linear, const int64_t *params,
                           int threads);
#endif
