/* SPDX-License-Identifier: MIT
 * Memory by lifetime: blocks from the caller's allocator, given out in order, freed together. */
#include <stdlib.h>
#include "base/base.h"

struct tg_arena_block { tg_arena_block *next; size_t size; _Alignas(16) char data[]; };

enum { FIRST_BLOCK = 32 << 10, LARGEST_BLOCK = 8 << 20 };

static void *default_alloc(void *user, size_t n) { (void)user; return malloc(n); }
static void default_free(void *user, void *p, size_t n) { (void)user; (void)n; free(p); }
tg_allocator tg_allocator_default(void) { return (tg_allocator){default_alloc, default_free, NULL}; }

void tg_env_init(tg_env *e, const tg_allocator *a) {
  memset(e, 0, offsetof(tg_env, message));
  e->message[0] = 0;
  e->allocator = a && a->alloc && a->free ? *a : tg_allocator_default();
}

static void free_blocks(tg_env *e, tg_arena_block *until) {
  while (e->arena.blocks != until) {
    tg_arena_block *b = e->arena.blocks;
    e->arena.blocks = b->next;
    e->arena.total -= b->size;
    e->allocator.free(e->allocator.user, b, sizeof *b + b->size);
  }
}

void tg_env_drop(tg_env *e) {
  free_blocks(e, NULL);
  e->arena.at = e->arena.end = NULL;
}

void *tg_alloc(tg_env *e, size_t bytes) {
  tg_arena *a = &e->arena;
  if (bytes > PTRDIFF_MAX / 2) tg_fail(e, TG_ENOMEM, "out of memory: %zu bytes asked for", bytes);
  bytes = (bytes + 15) & ~(size_t)15;
  if ((size_t)(a->end - a->at) < bytes) {
    size_t size = a->blocks ? a->blocks->size * 2 : FIRST_BLOCK;
    if (size > LARGEST_BLOCK) size = LARGEST_BLOCK;
    if (size < bytes) size = bytes;
    tg_arena_block *b = e->allocator.alloc(e->allocator.user, sizeof *b + size);
    if (!b) tg_fail(e, TG_ENOMEM, "out of memory");
    *b = (tg_arena_block){.next = a->blocks, .size = size};
    a->blocks = b;
    a->total += size;
    a->at = b->data;
    a->end = b->data + size;
  }
  void *p = a->at;
  a->at += bytes;
  return memset(p, 0, bytes);
}

tg_mark tg_mark_get(tg_env *e) { return (tg_mark){e->arena.blocks, e->arena.at}; }

void tg_mark_release(tg_env *e, tg_mark m) {
  free_blocks(e, m.block);
  e->arena.at = m.at;
  e->arena.end = m.block ? m.block->data + m.block->size : NULL;
}

void *tg_grow_(tg_env *e, void *data, uint32_t n, uint32_t *cap, size_t size) {
  if (*cap > UINT32_MAX / 2) tg_fail(e, TG_ENOMEM, "out of memory: an array of over 2^31 items");
  uint32_t wider = *cap ? *cap * 2 : 8;
  void *p = tg_alloc(e, size * wider);
  if (n) memcpy(p, data, size * n);
  *cap = wider;
  return p;
}

char *tg_strndup(tg_env *e, const char *s, size_t n) {
  char *p = tg_alloc(e, n + 1);
  memcpy(p, s, n);
  return p;
}

char *tg_strdup(tg_env *e, const char *s) { return tg_strndup(e, s, strlen(s)); }
