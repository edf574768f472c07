/* SPDX-License-Identifier: MIT
 * Candidates on a device that is not the host's CPU: where they run, in memory of the device between two guard regions.
 * The device is opened when a task first needs it. That is in the child process that does the task, so that a fault, a
 * hang or a lost device ends with the child, and the worker, which is forked again, has never seen its driver. */
#include "trial/trial.h"

tg_device *tg_trial_device(tg_trial_state *s, tg_env *env) {
  uint32_t i;
  if (!s->device || s->opened) return s->opened;
  tg_status st = tg_device_named(s->device, &i);
  if (st != TG_OK) tg_fail(env, st == TG_MISS ? TG_EIO : st, "there is no device %s", s->device);
  tg_trial_expect(s, env, tg_device_open(s->ctx, i, &s->opened));
  return s->opened;
}

tg_kernel *tg_trial_candidate(tg_trial_state *s, tg_env *env, const tg_trial *t) {
  tg_kernel *k = NULL;
  tg_compile_options o = {.opts = t->words, .device = tg_trial_device(s, env)};
  tg_trial_expect(s, env, tg_kernel_compile_text(s->ctx, "candidate", t->text, &o, &k));
  return k;
}

/* ---- memory ---- */

void tg_trial_there_open(tg_trial_state *s, tg_env *env, const tg_argument *here, tg_there *t) {
  tg_trial_expect(s, env, tg_there_open(s->opened, here, s->n, t));
}

const char *tg_trial_there_fetch(tg_trial_state *s, tg_env *env, const tg_there *t, const tg_argument *here) {
  bool written[TRIAL_BUFFERS], beside;
  uint32_t wrong;
  for (uint32_t b = 0; b < s->n; b++) written[b] = s->op[b].written;
  tg_trial_expect(s, env, tg_there_fetch(t, here, written, &wrong, &beside));
  if (wrong == t->n) return NULL;
  return tg_format(env, beside ? "writes beside %s" : "writes to %s, which it only reads", s->op[wrong].name);
}

/* ---- running ---- */

double tg_trial_there_run(tg_trial_state *s, tg_env *env, tg_kernel *k, const tg_argument *args, uint32_t inner) {
  double at[2];
  tg_launch l = {.buffers = args, .buffers_n = s->n, .params = s->params, .params_n = s->params_n};
  if (!s->queue) tg_trial_expect(s, env, tg_queue_open(s->opened, NULL, &s->queue));
  tg_trial_expect(s, env, tg_queue_stamp(s->queue, 0));
  for (uint32_t i = 0; i < inner; i++) tg_trial_expect(s, env, tg_queue_launch(s->queue, k, &l));
  tg_trial_expect(s, env, tg_queue_stamp(s->queue, 1));
  tg_trial_expect(s, env, tg_queue_stamps(s->queue, 0, 2, at));
  return (at[1] - at[0]) / inner;
}

typedef struct {
  tg_trial_state *s;
  tg_env *env;
  tg_kernel *k;
  const tg_argument *here;
  tg_there there;
} checked;

static void run_between(void *arg) {
  checked *c = arg;
  tg_trial_there_open(c->s, c->env, c->here, &c->there);
  c->s->run_seconds = tg_trial_there_run(c->s, c->env, c->k, c->there.args, 1);
  c->s->beside = tg_trial_there_fetch(c->s, c->env, &c->there, c->here);
  if (c->s->warm == c->k) return;
  /* drivers compile or load a kernel when it first runs: then a second run, whose results nobody reads, is timed */
  double again = tg_trial_there_run(c->s, c->env, c->k, c->there.args, 1);
  if (again < c->s->run_seconds) c->s->run_seconds = again;
  c->s->warm = c->k;
}

void tg_trial_there_guarded(tg_trial_state *s, tg_env *env, tg_kernel *k, const tg_argument *here) {
  checked *c = tg_new(env, checked, 1);
  *c = (checked){.s = s, .env = env, .k = k, .here = here};
  bool ok = tg_protect(env, run_between, c);
  tg_there_close(&c->there);
  if (!ok) tg_fail(env, env->status, "%s", env->message);
}
