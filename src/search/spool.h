/* SPDX-License-Identifier: MIT
 * A spool: a folder in which searches of one problem, in several processes or on several machines, share their tasks.
 * All of them run the same search from the same seed. A task that has no answer in the folder is done by the one that
 * gets its lease, and the others wait for its answer; a lease that is not renewed for some time is anybody's. So each
 * task is done once, and all come to the same end. */
#ifndef TG_SPOOL_H
#define TG_SPOOL_H
#include "search/trial.h"

typedef struct tg_spool tg_spool;
/* The folder's part for the problem of this key. about: what the problem is, for people. lease: seconds without renewal
 * after which a lease is anybody's; 0: 20. Fails if the folder cannot be made or written. */
tg_spool *tg_spool_open(tg_env *env, const char *folder, uint64_t key, const char *about, double lease);
void tg_spool_close(tg_spool *);

/* To be called often while tasks are done: renews the leases that are held. */
void tg_spool_renew(tg_spool *);

/* Does these tasks. */
typedef void tg_spool_work(void *user, tg_task *tasks, uint32_t n);
/* Gets answers for n tasks, which do `work` or come from others. name: of each task, the same in all processes.
 * together: so many neighbours have one lease. parallel: as many tasks are done at a time, at most. first: tasks that
 * this process would rather do than others (NULL: none). stop: ends the wait; what has no answer then is
 * TG_TRIAL_SKIPPED. Answers of TG_TRIAL_SKIPPED are not shared. Returns how many came from others. */
typedef struct tg_spool_share {
  tg_task *tasks;
  const uint64_t *name;
  const bool *first;
  bool *here;                  /* out: which were done by this process; NULL: nobody wants to know */
  uint32_t n, together, parallel;
  tg_spool_work *work;
  bool (*stop)(void *user);
  void *user;
} tg_spool_share;
uint32_t tg_spool_run(tg_spool *, const tg_spool_share *);
#endif
