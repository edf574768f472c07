/* SPDX-License-Identifier: MIT
 * Trials: work on a job that is taken back whole, nodes and memory too. What a trial makes is of no use to the next,
 * and passes have tables as long as the list of nodes: without this, a hundred candidates' tables would all be as long
 * as the nodes of all hundred, and none of them free before the job ends. */
#include "dsl/uop.h"

/* The contents of tables that a trial may change in place. */
typedef struct {
  tg_job job;   /* all but its env */
  tg_range_info *ranges;
  tg_buffer *buffers;
  tg_param *params;
  const char **symbols;
} saved;

static void *copied(tg_env *e, const void *data, size_t n, size_t size) {
  void *p = tg_alloc(e, n * size + 1);
  return n ? memcpy(p, data, n * size) : p;
}

static saved *save(tg_job *j) {
  saved *s = tg_new(&j->env, saved, 1);
  memcpy((char *)&s->job + sizeof j->env, (char *)j + sizeof j->env, sizeof *j - sizeof j->env);
  s->ranges = copied(&j->env, j->ranges.data, j->ranges.n, sizeof *s->ranges);
  s->buffers = copied(&j->env, j->buffers.data, j->buffers.n, sizeof *s->buffers);
  s->params = copied(&j->env, j->params.data, j->params.n, sizeof *s->params);
  s->symbols = copied(&j->env, j->symbols, j->symbols ? j->symbols_mask + 1 : 0, sizeof *s->symbols);
  return s;
}

/* Facts, the trace and what is kept beside nodes are the trial's own. */
static void begin(tg_job *j) {
  j->known = NULL;
  j->costs = NULL;
  j->trace = NULL;
  j->authored = NULL;
  j->functions = NULL;
  tg_names_free(j);
}

static void restore(tg_job *j, const saved *s) {
  memcpy((char *)j + sizeof j->env, (const char *)&s->job + sizeof j->env, sizeof *j - sizeof j->env);
  if (j->ranges.n) memcpy(j->ranges.data, s->ranges, j->ranges.n * sizeof *s->ranges);
  if (j->buffers.n) memcpy(j->buffers.data, s->buffers, j->buffers.n * sizeof *s->buffers);
  if (j->params.n) memcpy(j->params.data, s->params, j->params.n * sizeof *s->params);
  if (j->symbols) memcpy(j->symbols, s->symbols, (j->symbols_mask + 1) * sizeof *s->symbols);
  for (uint32_t i = 0; j->slots && i <= j->slots_mask; i++)   /* the newest nodes: groups that were full stay so */
    if ((uint32_t)j->slots[i] > j->uops.n) j->slots[i] = 0;
  for (uint32_t i = 0; i < TG_COUNT(j->memos); i++)           /* stamps of the trial's walks are in them */
    if (!j->memos[i].busy) j->memos[i] = (tg_memo){0};
}

/* A text on its way out of the memory that is given back. */
typedef struct { tg_env *env; char *copy; const char **text; } carried;

static char *carry_out(tg_env *e, const char *text) {
  char *p = e->allocator.alloc(e->allocator.user, strlen(text) + 1);
  return p ? strcpy(p, text) : NULL;
}

static void carry_in(void *arg) {
  carried *c = arg;
  *c->text = tg_strdup(c->env, c->copy);
}

bool tg_job_trial(tg_job *j, void (*fn)(void *), void *arg, const char **text) {
  tg_env *e = &j->env;
  saved *s = save(j);
  tg_mark mark = tg_mark_get(e);
  begin(j);
  *text = NULL;
  bool done = tg_protect(e, fn, arg);
  if (!done && e->status != TG_EINVAL && e->status != TG_ELIMIT) tg_fail(e, e->status, "%s", e->message);
  e->status = TG_OK;
  e->message[0] = 0;
  carried c = {e, NULL, text};
  if (*text && !(c.copy = carry_out(e, *text))) tg_fail(e, TG_ENOMEM, "out of memory");
  restore(j, s);
  tg_mark_release(e, mark);
  if (!c.copy) return done;
  bool kept = tg_protect(e, carry_in, &c);
  e->allocator.free(e->allocator.user, c.copy, strlen(c.copy) + 1);
  if (!kept) tg_fail(e, e->status, "%s", e->message);
  return done;
}
