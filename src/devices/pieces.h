/* SPDX-License-Identifier: MIT
 * A device's memory that a program has: pieces by address, which drivers allocate, import and give back. Imports may
 * overlap other pieces. Peers' pieces count, too. Any thread may call. */
#ifndef TG_DEVICES_PIECES_H
#define TG_DEVICES_PIECES_H
#include <pthread.h>
#include "base/base.h"

/* own, origin: the driver's: what it gives back, and how */
typedef struct tg_piece { const char *at; size_t bytes; void *own; uint32_t origin; } tg_piece;
typedef struct tg_joined { struct tg_joined *next; struct tg_pieces *pieces; } tg_joined;
typedef struct tg_pieces { pthread_mutex_t lock; tg_piece *piece; size_t n, room; tg_joined *joined; } tg_pieces;

void tg_pieces_open(tg_pieces *);
/* All that are left have been given back. */
void tg_pieces_close(tg_pieces *, const tg_allocator *);
/* False, and a message: no memory for the table. */
bool tg_pieces_add(tg_pieces *, const tg_allocator *, tg_piece, char *message, size_t n);
/* The piece that begins there is taken out of the table. False: there is none. */
bool tg_pieces_take(tg_pieces *, const void *at, tg_piece *out);
/* Those of a peer, which lives as long, count from now on. False: no memory. */
bool tg_pieces_join(tg_pieces *, const tg_allocator *, tg_pieces *of);
bool tg_pieces_joined(tg_pieces *, const tg_pieces *of);
/* Do these bytes lie in one piece? */
bool tg_pieces_have(tg_pieces *, const void *at, size_t bytes);
#endif
