/* SPDX-License-Identifier: MIT
 * A team: threads that stay together over a row of parallel loops, so that the pool, or the caller's parallel_for, is
 * asked once for all of them. */
#ifndef TG_TEAM_H
#define TG_TEAM_H
#include "devices/pool.h"

typedef struct tg_team tg_team;

/* Runs body(arg, team) on one of `threads` threads, while the others help in the loops that it makes by tg_team_for.
 * They come from parallel_for, or (NULL) from the pool. Threads that come late, or not at all, are not waited for. */
void tg_team_run(tg_pool *pool, tg_parallel_for *parallel_for, void *user, uint32_t threads,
                 void (*body)(void *arg, tg_team *team), void *arg);
/* A tg_parallel_for whose user is the team. Only the body calls it, one loop at a time. */
void tg_team_for(void *team, int64_t n, void (*task)(void *arg, int64_t i), void *arg);
#endif
