/* SPDX-License-Identifier: MIT
 * Memory between two inaccessible guard pages, so that an access outside of it faults. Used for the operands of code
 * that is not trusted yet: trials of a search, checks of operations, tests. */
#ifndef TG_GUARD_H
#define TG_GUARD_H
#include <stdbool.h>
#include <stddef.h>

/* [guard page][room][guard page]; the data lie at one end of the room. map NULL: nothing allocated. */
typedef struct { char *map, *room, *data; size_t map_bytes, room_bytes, bytes, page; } tg_guarded;

/* Allocates zeroed room for `bytes` of data and at least `beside` more bytes. The data end where the room ends; with
 * front, they begin where it begins. False: out of memory. */
bool tg_guard_take(tg_guarded *g, size_t bytes, size_t beside, bool front);
/* Likewise, but the room is mapped from a file, from offset `at` on, in whole pages with the data at that end. own: a
 * private, writable copy; else read-only. */
bool tg_guard_map(tg_guarded *g, size_t bytes, bool front, int file, size_t at, bool own);
/* Makes the room read-only (locked) or writable. */
void tg_guard_lock(const tg_guarded *g, bool locked);
void tg_guard_drop(tg_guarded *g);
#endif
