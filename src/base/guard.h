/* SPDX-License-Identifier: MIT
 * Memory between two pages that nobody may touch: an access before it or behind it faults. What runs code that is not
 * trusted yet, trials of a search, checks of operations, and tests, take operands from here. */
#ifndef TG_GUARD_H
#define TG_GUARD_H
#include <stdbool.h>
#include <stddef.h>

/* [page without access][room][page without access]; the data lie at one end of the room. map NULL: none. */
typedef struct { char *map, *room, *data; size_t map_bytes, room_bytes, bytes, page; } tg_guarded;

/* Room for `bytes`, and as many more as `beside` at least, zeroed; the data end where the room does, or (front) begin
 * there. False: there is no memory. */
bool tg_guard_take(tg_guarded *g, size_t bytes, size_t beside, bool front);
/* The same room out of a file, whose whole pages from `at` on hold the data at that end. own: what is written stays
 * here; else it may only be read. */
bool tg_guard_map(tg_guarded *g, size_t bytes, bool front, int file, size_t at, bool own);
/* May the data and what lies beside them be written? Reading stays possible. */
void tg_guard_lock(const tg_guarded *g, bool locked);
void tg_guard_drop(tg_guarded *g);
#endif
