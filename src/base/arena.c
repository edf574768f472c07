/* SPDX-License-Identifier: MIT
 * The arena: blocks from the caller's allocator, handed out sequentially, freed together. */
#include <stdlib.h>
#include "base/base.h"

struct tg_arena_block { tg_arena_block *next; size_t size; _Alignas(16) char data[]; };

enum { FIRST_BLOCK = 32 << 10, LARGEST_BLOCK = FIRST_BLOCK << (TG_BLOCK_SIZES - 1), MOST_KEPT = 2 * LARGEST_BLOCK };

static void *default_alloc(void *user, size_t n) { (void)user; return malloc(n); }
static void default_free(void *user, void *p, size_t n) { (void)user; (void)n; free(p); }
tg_allocator tg_allocator_default(void) { return (tg_allocator){default_alloc, default_free, NULL}; }

void tg_env_init(tg_env *e, const tg_allocator *a) {
  memset(e, 0, offsetof(tg_env, message));
  e->message[0] = 0;
  e->allocator = a && a->alloc && a->free ? *a : tg_allocator_default();
}

/* ---- blocks that no arena uses at present ---- */

void tg_blocks_init(tg_blocks *b, const tg_allocator *a) {
  *b = (tg_blocks){.allocator = a && a->alloc && a->free ? *a : tg_allocator_default()};
  pthread_mutex_init(&b->lock, NULL);
}

void tg_blocks_drop(tg_blocks *b) {
  for (int i = 0; i < TG_BLOCK_SIZES; i++)
    for (tg_arena_block *k = b->kept[i], *next; k; k = next) {
      next = k->next;
      b->allocator.free(b->allocator.user, k, sizeof *k + k->size);
    }
  pthread_mutex_destroy(&b->lock);
}

static int size_class(size_t size) {   /* -1: not kept for other arenas */
  for (int i = 0; i < TG_BLOCK_SIZES; i++)
    if (size == (size_t)FIRST_BLOCK << i) return i;
  return -1;
}

static tg_arena_block *take_block(tg_env *e, size_t size) {
  tg_blocks *b = e->blocks;
  int class = b ? size_class(size) : -1;
  tg_arena_block *k = NULL;
  if (class >= 0) {
    pthread_mutex_lock(&b->lock);
    if ((k = b->kept[class])) {
      b->kept[class] = k->next;
      b->bytes -= size;
    }
    pthread_mutex_unlock(&b->lock);
  }
  return k ? k : e->allocator.alloc(e->allocator.user, sizeof *k + size);
}

static void return_block(tg_env *e, tg_arena_block *k) {
  tg_blocks *b = e->blocks;
  int class = b ? size_class(k->size) : -1;
  bool keep = false;
  if (class >= 0) {
    pthread_mutex_lock(&b->lock);
    if ((keep = b->bytes + k->size <= MOST_KEPT)) {
      k->next = b->kept[class];
      b->kept[class] = k;
      b->bytes += k->size;
    }
    pthread_mutex_unlock(&b->lock);
  }
  if (!keep) e->allocator.free(e->allocator.user, k, sizeof *k + k->size);
}

/* ---- arenas ---- */

static void free_blocks(tg_env *e, tg_arena_block *until) {
  while (e->arena.blocks != until) {
    tg_arena_block *b = e->arena.blocks;
    e->arena.blocks = b->next;
    e->arena.total -= b->size;
    return_block(e, b);
  }
}

void tg_env_drop(tg_env *e) {
  free_blocks(e, NULL);
  e->arena.at = e->arena.end = NULL;
}

void *tg_alloc(tg_env *e, size_t bytes) {
  tg_arena *a = &e->arena;
  if (bytes > PTRDIFF_MAX / 2) tg_fail(e, TG_ENOMEM, "out of memory: %zu bytes requested", bytes);
  bytes = (bytes + 15) & ~(size_t)15;
  if ((size_t)(a->end - a->at) < bytes) {
    size_t size = a->blocks ? a->blocks->size * 2 : FIRST_BLOCK;
    if (size > LARGEST_BLOCK) size = LARGEST_BLOCK;
    if (size < bytes) size = bytes;
    tg_arena_block *b = take_block(e, size);
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
