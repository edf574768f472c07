/* SPDX-License-Identifier: MIT
 * Threads that a context owns. None runs before the first tg_pool_run. */
#ifndef TG_POOL_H
#define TG_POOL_H
#include "base/base.h"

typedef struct tg_pool tg_pool;
typedef void tg_pool_task(void *arg, int64_t i, uint32_t worker);   /* worker: 0 is the caller */
tg_pool *tg_pool_open(const tg_allocator *a, uint32_t threads);     /* the caller among them; NULL: out of memory */
void tg_pool_close(tg_pool *);
uint32_t tg_pool_threads(const tg_pool *);
/* How many of them tg_launch.threads = asked means; of no pool: 1. */
uint32_t tg_pool_asked(const tg_pool *, int asked);
/* Runs task(arg, i, worker) for i of 0..n-1 on at most `threads` threads and returns after all. A pool in use by
 * another launch, or inherited over a fork, leaves all to the caller. */
void tg_pool_run(tg_pool *, uint32_t threads, int64_t n, tg_pool_task *task, void *arg);
#endif
