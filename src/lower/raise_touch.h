/* SPDX-License-Identifier: MIT
 * Which memory statements load and store: sets that are too large rather than too small, found once for each node, and
 * exact counts. Of plain programs. */
#ifndef TG_TOUCH_H
#define TG_TOUCH_H
#include "lower/lower.h"

typedef struct { uint64_t loads, stores; } tg_touch_set;   /* bits of buffers' ordinals, modulo 64 */
typedef struct { tg_touch_set set; bool known; } tg_touch_known;
typedef struct { tg_job *job; TG_VEC(tg_touch_known) known; } tg_touching;   /* by id */
typedef struct { uint32_t loads, stores; } tg_touches;

static inline uint64_t tg_touch_bit(uint32_t buffer) { return (uint64_t)1 << buffer % 64; }
tg_touch_set tg_touch_set_of(tg_touching *t, const tg_uop *u);
/* Nodes below u that load, and that store to, the buffer. */
tg_touches tg_touches_of(tg_touching *t, const tg_uop *u, uint32_t buffer);
/* The same, those of each statement by itself. */
tg_touches tg_touches_sum(tg_touching *t, const tg_uop *u, uint32_t buffer);
/* sign (1, -1) times those of each statement by itself, into all, by buffer. */
void tg_touches_add(tg_touching *t, const tg_uop *u, tg_touches *all, int sign);
/* Does u store to a buffer that value loads? */
bool tg_touch_disturbs(tg_touching *t, const tg_uop *u, const tg_uop *value);
#endif
