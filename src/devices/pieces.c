/* SPDX-License-Identifier: MIT
 * The table: an array by address, in which a place is found in a few steps; programs have thousands of pieces. */
#include <stdio.h>
#include <string.h>
#include "devices/pieces.h"

void tg_pieces_open(tg_pieces *p) {
  *p = (tg_pieces){.piece = NULL};
  pthread_mutex_init(&p->lock, NULL);
}

void tg_pieces_close(tg_pieces *p, const tg_allocator *a) {
  if (p->piece) a->free(a->user, p->piece, p->room * sizeof *p->piece);
  for (tg_joined *j = p->joined, *next; j; j = next) next = j->next, a->free(a->user, j, sizeof *j);
  pthread_mutex_destroy(&p->lock);
}

/* How many begin at or before p. Call with the lock held. */
static size_t before(const tg_pieces *p, const char *at) {
  size_t from = 0, to = p->n;
  while (from < to) {
    size_t middle = from + (to - from) / 2;
    if ((uintptr_t)p->piece[middle].at <= (uintptr_t)at) from = middle + 1;
    else to = middle;
  }
  return from;
}

static bool widen(tg_pieces *p, const tg_allocator *a) {
  size_t room = p->room ? 2 * p->room : 16;
  tg_piece *wider = a->alloc(a->user, room * sizeof *wider);
  if (!wider) return false;
  if (p->n) memcpy(wider, p->piece, p->n * sizeof *wider);
  if (p->piece) a->free(a->user, p->piece, p->room * sizeof *wider);
  p->piece = wider, p->room = room;
  return true;
}

bool tg_pieces_add(tg_pieces *p, const tg_allocator *a, tg_piece piece, char *message, size_t n) {
  pthread_mutex_lock(&p->lock);
  bool added = p->n < p->room || widen(p, a);
  if (added) {
    size_t at = before(p, piece.at);
    memmove(p->piece + at + 1, p->piece + at, (p->n - at) * sizeof *p->piece);
    p->piece[at] = piece;
    p->n++;
  } else snprintf(message, n, "out of memory");
  pthread_mutex_unlock(&p->lock);
  return added;
}

bool tg_pieces_take(tg_pieces *p, const void *memory, tg_piece *out) {
  pthread_mutex_lock(&p->lock);
  size_t at = before(p, memory);
  bool found = at && p->piece[at - 1].at == memory;
  if (found) {
    *out = p->piece[at - 1];
    memmove(p->piece + at - 1, p->piece + at, (p->n - at) * sizeof *p->piece);
    p->n--;
  }
  pthread_mutex_unlock(&p->lock);
  return found;
}

bool tg_pieces_join(tg_pieces *p, const tg_allocator *a, tg_pieces *of) {
  tg_joined *j = a->alloc(a->user, sizeof *j);
  if (!j) return false;
  pthread_mutex_lock(&p->lock);
  *j = (tg_joined){p->joined, of};
  p->joined = j;
  pthread_mutex_unlock(&p->lock);
  return true;
}

bool tg_pieces_joined(tg_pieces *p, const tg_pieces *of) {
  pthread_mutex_lock(&p->lock);
  const tg_joined *j = p->joined;
  while (j && j->pieces != of) j = j->next;
  pthread_mutex_unlock(&p->lock);
  return j != NULL;
}

/* The nearest piece is not always the one, where imports overlap others. */
static bool have(tg_pieces *p, const void *memory, size_t bytes) {
  bool found = false;
  pthread_mutex_lock(&p->lock);
  for (size_t i = before(p, memory); i-- && !found;) {
    const tg_piece *at = &p->piece[i];
    size_t from = (uintptr_t)memory - (uintptr_t)at->at;
    found = from <= at->bytes && bytes <= at->bytes - from;
  }
  pthread_mutex_unlock(&p->lock);
  return found;
}

bool tg_pieces_have(tg_pieces *p, const void *memory, size_t bytes) {
  if (have(p, memory, bytes)) return true;
  pthread_mutex_lock(&p->lock);
  const tg_joined *j = p->joined;
  pthread_mutex_unlock(&p->lock);   /* they are only added, at the front */
  while (j && !have(j->pieces, memory, bytes)) j = j->next;
  return j != NULL;
}
