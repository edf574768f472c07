/* SPDX-License-Identifier: MIT
 * A worker whose builds, checks and checks are real and whose times are made up: what a candidate takes is what the cost model says of it, a thousandfold. So who wins does not
 * hang on the machine, nor on what else runs on it. */
#ifndef TG_TEST_MODELLED_H
#define TG_TEST_MODELLED_H
#include <math.h>
#include "trial/trial.h"

static double modelled_seconds(const tg_bench *real, tg_env *env, tg_trial trial) {
  tg_task x = {.kind = TG_TASK_LOWER, .trial = trial};
  real->lower(real->self, env, &x);
  return x.cost.seconds * 1e3;
}

static void modelled_open(void *self, tg_env *env, tg_task *t) { ((const tg_bench *)self)->open(((const tg_bench *)self)->self, env, t); }
static void modelled_lower(void *self, tg_env *env, tg_task *t) { ((const tg_bench *)self)->lower(((const tg_bench *)self)->self, env, t); }
static void modelled_build(void *self, tg_env *env, tg_task *t) { ((const tg_bench *)self)->build(((const tg_bench *)self)->self, env, t); }
static void modelled_checks(void *self, tg_env *env, tg_task *t) { ((const tg_bench *)self)->checks(((const tg_bench *)self)->self, env, t); }

static void modelled_time(void *self, tg_env *env, tg_task *t) {
  t->seconds = modelled_seconds(self, env, t->trial);
  t->against_seconds = modelled_seconds(self, env, t->against);
  for (t->n = 0; t->n < t->quads && !tg_decided(t->gain, t->n, 0.01); t->n++) t->gain[t->n] = log(t->against_seconds / t->seconds);
}

static inline void modelled_worker(tg_trial_checks *checks, int in, int out) {
  tg_bench *real = tg_trial_bench_new(checks);
  if (!real) return;
  tg_bench b = {real, modelled_open, modelled_lower, modelled_build, modelled_time, modelled_checks};
  tg_serve(&b, in, out);
  tg_trial_bench_free(real);
}
#endif
