/* SPDX-License-Identifier: MIT
 * Loops and accesses of a lowered program, and the bytes that each cache has to ask the next for. */
#ifndef TG_COST_MEMORY_H
#define TG_COST_MEMORY_H
#include "model/cost.h"

enum { TG_COST_NONE = UINT32_MAX, TG_COST_DEPTH = 24 };

typedef struct { const tg_uop *range; uint32_t outer, depth; double trips; bool thread; } tg_cost_loop_info;
/* at: byte of the buffer where it is with all ranges 0. stride, by depth: elements that an iteration moves; NAN:
 * anywhere. same: accesses like it in the same buffer, the nearest so many bytes apart. twin: another access that
 * begins at the same byte, number and one; from this loop outwards they move together, and touch the same. */
typedef struct {
  const tg_uop *access;
  uint32_t loop, twin, twin_loop;
  double bytes, at, size, same, apart, stride[TG_COST_DEPTH];
} tg_cost_access_info;

typedef struct tg_cost_loops {
  tg_job *j;
  TG_VEC(tg_cost_loop_info) loop;
  TG_VEC(tg_cost_access_info) access;
} tg_cost_loops;

uint32_t tg_cost_loop(tg_cost_loops *l, const tg_uop *range, uint32_t outer, double trips, bool thread);
void tg_cost_access(tg_cost_loops *l, const tg_uop *access, uint32_t loop);
/* Cycles that memory takes; the bytes go to c. */
double tg_cost_memory(tg_cost_loops *l, const tg_target *target, const tg_uop *linear, int threads, tg_cost *c);
#endif
