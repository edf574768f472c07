/* SPDX-License-Identifier: MIT
 * Blocks of arenas between their uses: the next environment takes them, what is kept is bounded, nothing is left over,
 * and threads may share them. */
#include <pthread.h>
#include <stdlib.h>
#include "base/base.h"
#include "test.h"

typedef struct { long made, live; long long bytes; } count;

static void *counted_alloc(void *user, size_t n) {
  count *c = user;
  __atomic_add_fetch(&c->made, 1, __ATOMIC_RELAXED);
  __atomic_add_fetch(&c->live, 1, __ATOMIC_RELAXED);
  __atomic_add_fetch(&c->bytes, (long long)n, __ATOMIC_RELAXED);
  return malloc(n);
}

static void counted_free(void *user, void *p, size_t n) {
  count *c = user;
  __atomic_sub_fetch(&c->live, 1, __ATOMIC_RELAXED);
  __atomic_sub_fetch(&c->bytes, (long long)n, __ATOMIC_RELAXED);
  free(p);
}

typedef struct { tg_env *env; size_t bytes, piece; bool zeroed; } filling;

static void fill(void *user) {
  filling *f = user;
  f->zeroed = true;
  for (size_t done = 0; done < f->bytes; done += f->piece) {
    unsigned char *p = tg_alloc(f->env, f->piece);
    for (size_t i = 0; i < f->piece; i++) f->zeroed &= !p[i];
    memset(p, 0xa5, f->piece);
  }
}

/* One environment's life; true if its memory was zero throughout. */
static bool live(tg_blocks *b, size_t bytes, size_t piece) {
  tg_env e;
  tg_env_init(&e, &b->allocator);
  e.blocks = b;
  filling f = {&e, bytes, piece, false};
  bool ok = tg_protect(&e, fill, &f) && f.zeroed;
  tg_env_drop(&e);
  return ok;
}

static void one_after_another(void) {
  count c = {0};
  tg_blocks b;
  tg_blocks_init(&b, &(tg_allocator){counted_alloc, counted_free, &c});
  CHECK(live(&b, 1 << 20, 1000), "memory that was not zero");
  long made = c.made;
  CHECK(made >= 4 && c.live == made, "%ld blocks made, %ld kept", made, c.live);
  for (int i = 0; i < 10; i++) CHECK(live(&b, 1 << 20, 1000), "used memory was given out as it was");
  CHECK(c.made == made, "%ld blocks made where %ld were kept", c.made - made, made);
  tg_blocks_drop(&b);
  CHECK(!c.live && !c.bytes, "%ld blocks left over, %lld bytes", c.live, c.bytes);
}

static void bounded(void) {
  count c = {0};
  tg_blocks b;
  tg_blocks_init(&b, &(tg_allocator){counted_alloc, counted_free, &c});
  CHECK(live(&b, 64 << 20, 4096), "memory that was not zero");
  CHECK(c.bytes > 0 && c.bytes <= (16 << 20) + (1 << 16), "%lld bytes kept", c.bytes);
  long long kept = c.bytes;
  CHECK(live(&b, 20000000, 20000000), "memory that was not zero");   /* one block of a size of its own */
  CHECK(c.bytes <= kept, "%lld bytes kept after %lld", c.bytes, kept);
  tg_blocks_drop(&b);
  CHECK(!c.live && !c.bytes, "%ld blocks left over, %lld bytes", c.live, c.bytes);
}

static void *many(void *user) {
  bool ok = true;
  for (int i = 0; i < 100; i++) ok &= live(user, 40000u << i % 5, 512);
  return ok ? user : NULL;
}

static void shared(void) {
  count c = {0};
  tg_blocks b;
  tg_blocks_init(&b, &(tg_allocator){counted_alloc, counted_free, &c});
  pthread_t t[4];
  for (int i = 0; i < 4; i++) pthread_create(&t[i], NULL, many, &b);
  for (int i = 0; i < 4; i++) {
    void *ok;
    pthread_join(t[i], &ok);
    CHECK(ok, "thread %d was given memory that was not zero", i);
  }
  tg_blocks_drop(&b);
  CHECK(!c.live && !c.bytes, "%ld blocks left over, %lld bytes", c.live, c.bytes);
}

int main(void) {
  one_after_another();
  bounded();
  shared();
  return TEST_END();
}
