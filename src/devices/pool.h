/* SPDX-License-Identifier: MIT
 * A context's pool of worker threads. They are created by the first tg_pool_run. */
#ifndef TG_POOL_H
#define TG_POOL_H
#include "base/base.h"

typedef struct tg_pool tg_pool;
typedef void tg_pool_task(void *arg, int64_t i, uint32_t worker);   /* worker: 0 is the caller */
tg_pool *tg_pool_open(const tg_allocator *a, uint32_t threads);     /* counting the caller; NULL: out of memory */
void tg_pool_close(tg_pool *);
uint32_t tg_pool_threads(const tg_pool *);
/* The number of threads that tg_launch.threads = asked stands for; without a pool (NULL): 1. */
uint32_t tg_pool_asked(const tg_pool *, int asked);
/* Runs task(arg, i, worker) for i = 0..n-1 on at most `threads` threads; returns when all are done. If another launch
 * is using the pool, or it was inherited over a fork, the caller runs all tasks itself. */
void tg_pool_run(tg_pool *, uint32_t threads, int64_t n, tg_pool_task *task, void *arg);
#endif
