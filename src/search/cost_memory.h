/* SPDX-License-Identifier: MIT
 * Loops and accesses of a lowered program, and the bytes that each cache has to ask the next for. */
#ifndef TG_COST_MEMORY_H
#define TG_COST_MEMORY_H
#include "search/cost.h"

enum { TG_COST_NONE = UINT32_MAX, TG_COST_DEPTH = 24 };

typedef struct { const tg_uop *range; uint32_t outer, depth; double trips; bool thread; } tg_cost_loop_info;
/* root, at: where it begins, as what varies and bytes from there. stride, by depth: elements that an iteration moves; NAN: anywhere.
 * same: accesses like it, elsewhere in the same buffer. */
typedef struct { const tg_uop *access, *root; uint32_t loop; double bytes, at, size, same, stride[TG_COST_DEPTH]; } tg_cost_access_info;

typedef struct tg_cost_loops {
  tg_job *j;
  TG_VEC(tg_cost_loop_info) loop;
  TG_VEC(tg_cost_access_info) access;
} tg_cost_loops;

/* An address without the constants that are added to it, and they; NULL: there is nothing else. */
const tg_uop *tg_cost_root(const tg_uop *address, double *constant);
uint32_t tg_cost_loop(tg_cost_loops *l, const tg_uop *range, uint32_t outer, double trips, bool thread);
void tg_cost_access(tg_cost_loops *l, const tg_uop *access, uint32_t loop);
/* Cycles that memory takes; the bytes go to c. */
double tg_cost_memory(tg_cost_loops *l, const tg_target *target, const tg_uop *linear, int threads, tg_cost *c);
#endif
