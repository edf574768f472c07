/* SPDX-License-Identifier: MIT
 * Which buffers the statements of a plain program load and store: conservative sets (too large, never too small),
 * computed once per node, and exact counts. */
#ifndef TG_TOUCH_H
#define TG_TOUCH_H
#include "lower/lower.h"

typedef struct { uint64_t loads, stores; } tg_touch_set;   /* bit (buffer ordinal % 64) for each buffer */
typedef struct { tg_touch_set set; bool known; } tg_touch_known;
typedef struct { tg_job *job; TG_VEC(tg_touch_known) known; } tg_touching;   /* by node id */
typedef struct { uint32_t loads, stores; } tg_touches;

static inline uint64_t tg_touch_bit(uint32_t buffer) { return (uint64_t)1 << buffer % 64; }
tg_touch_set tg_touch_set_of(tg_touching *t, const tg_uop *u);
/* The number of distinct nodes below u that load the buffer, and that store to it. */
tg_touches tg_touches_of(tg_touching *t, const tg_uop *u, uint32_t buffer);
/* The same, but a node counts once for each statement that it belongs to. */
tg_touches tg_touches_sum(tg_touching *t, const tg_uop *u, uint32_t buffer);
/* Adds sign (1 or -1) times tg_touches_sum of every buffer to all, by buffer ordinal. */
void tg_touches_add(tg_touching *t, const tg_uop *u, tg_touches *all, int sign);
/* Does u store to a buffer that value loads? */
bool tg_touch_disturbs(tg_touching *t, const tg_uop *u, const tg_uop *value);
#endif
