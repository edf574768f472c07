/* SPDX-License-Identifier: MIT
 * What a program costs on a GPU: counts of what its warps do, and which of a core's units bounds it. */
#ifndef TG_MODEL_DEVICE_H
#define TG_MODEL_DEVICE_H
#include "lower/lower.h"

/* Of a whole program. instructions: of warps. macs: multiplications and additions by matrix instructions. fused: of f32
 * without them. wavefronts: cycles of LOCAL memory; sectors: of memory, 32 bytes (AMD: 64). groups, warps: of the
 * launch with the most groups, and of one of its groups; registers: about how many of 32 bits a thread of it has;
 * together: how many of its groups a core has room for at once, 0 where the row does not say. bound: cycles of all
 * cores together that each unit takes at least, 0 where the target's row does not say; cycles: at least, the largest
 * of each launch, on the core with most groups; seconds: with the launches. */
typedef enum { TG_BY_TENSOR, TG_BY_FUSED, TG_BY_ISSUE, TG_BY_LOCAL, TG_BY_OUTSIDE, TG_BOUNDS } tg_device_bound;
typedef struct {
  double launches, groups, warps, registers, together, local_bytes;
  double instructions, matrix, macs, fused, wavefronts, sectors;
  double bound[TG_BOUNDS], cycles, seconds;
} tg_device_cost;

/* linear: the program after the last pass, for a GPU whose code is not a source text. params: values by ordinal; NULL:
 * unknown. */
tg_device_cost tg_device_cost_of(tg_job *j, const tg_target *t, const tg_uop *linear, const int64_t *params);
/* The same as a text for people: a line a loop, a line an access. */
const char *tg_device_cost_report(tg_job *j, const tg_target *t, const tg_uop *linear, const int64_t *params);
/* device_registers.c: 32-bit registers that a thread of a launch has at once, about. top: its outermost loop */
double tg_device_registers(tg_job *j, const tg_uop *top);
#endif
