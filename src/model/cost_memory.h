/* SPDX-License-Identifier: MIT
 * Loops and accesses of a lowered program, and the bytes that miss each cache level. */
#ifndef TG_COST_MEMORY_H
#define TG_COST_MEMORY_H
#include "model/cost.h"

enum { TG_COST_NONE = UINT32_MAX, TG_COST_DEPTH = 24, TG_COST_LEVELS = 3 };

/* outer: index of the enclosing loop, TG_COST_NONE if there is none. trips: iterations. thread: shared by threads. own:
 * the core's cycles of an iteration, without the loops inside. rounds: iterations of the thread that has most. */
typedef struct {
  const tg_uop *range;
  uint32_t outer, depth;
  double trips;
  bool thread;
  double own, rounds;
} tg_cost_loop_info;
/* loop: the innermost loop around the access, or TG_COST_NONE. bytes: of one execution. at: byte offset in the buffer
 * with all ranges 0. size: bytes of the buffer. stride[depth]: elements that one iteration of that loop advances; NAN:
 * not affine. same: number of accesses merged into this one (unrolled copies with the same strides); apart: the
 * smallest distance between two of them, in bytes. threads: how many share its executions. twin: index + 1 of an
 * earlier access in another loop that begins in the same line, 0: none; in twin_loop and the loops around it both have
 * the same strides, so they touch the same data. */
typedef struct {
  const tg_uop *access;
  uint32_t loop, twin, twin_loop;
  double bytes, at, size, same, apart, threads, stride[TG_COST_DEPTH];
  bool asked;                      /* instructions prefetch it */
  uint32_t asker;                  /* the loop that they are in */
  double missed[TG_COST_LEVELS];   /* bytes that come from L2, L3, memory, in the whole program */
  /* cycles in which the memory system works for it; of that, what prefetch instructions move to theirs; starts of runs
   * that pass beside both that and arithmetic */
  double busy, ahead, starts;
} tg_cost_access_info;

typedef struct { const tg_uop *define; uint32_t loop; } tg_cost_asked;   /* a buffer that instructions prefetch */

typedef struct tg_cost_loops {
  tg_job *j;
  struct tg_cost_tables *by_id;   /* walk.h */
  TG_VEC(tg_cost_loop_info) loop;
  TG_VEC(tg_cost_access_info) access;
  TG_VEC(tg_cost_asked) asked;
} tg_cost_loops;

uint32_t tg_cost_loop(tg_cost_loops *l, const tg_uop *range, uint32_t outer, double trips, bool thread);
void tg_cost_access(tg_cost_loops *l, const tg_uop *access, uint32_t loop);
void tg_cost_prefetch(tg_cost_loops *l, const tg_uop *prefetch, uint32_t loop);
/* Cycles of the memory system. Also fills in waits, starts, l2_bytes, l3_bytes and memory_bytes of c, and what each
 * access takes. */
double tg_cost_memory(tg_cost_loops *l, const tg_target *target, const tg_uop *linear, int threads, tg_cost *c);
#endif
