/* SPDX-License-Identifier: MIT
 * Tasks of a search: answered by the journal, or by others with the same spool, if they can, else by the crew. */
#include "search/tune.h"

tg_trial tg_search_trial(const tg_point *p) { return (tg_trial){p->text, p->words, p->given}; }

typedef struct { tg_search *s; uint32_t parallel; } doing;

static void do_tasks(void *user, tg_task *tasks, uint32_t n) {
  doing *d = user;
  tg_crew_run(d->s->crew, tasks, n, d->parallel);
}

static bool stops(void *user) { return tg_search_stop(((doing *)user)->s); }

/* Tasks of points by the spool. A point is timed by the process that has built it, if that one is free, since it has
 * its code. */
static void share(tg_search *s, tg_task *tasks, tg_point *const *points, const uint32_t *which, uint32_t n,
                  uint32_t parallel, uint64_t against) {
  enum { TOGETHER = 8 /* points that are lowered, which takes milliseconds */ };
  uint64_t *name = tg_new(s->env, uint64_t, n);
  bool *first = tg_new(s->env, bool, n), *here = tg_new(s->env, bool, n), lowers = tasks[0].kind == TG_TASK_LOWER;
  uint32_t workers = !s->o->worker ? 1 : s->o->workers ? s->o->workers : 2,
           most = parallel < workers ? parallel : workers;
  doing d = {s, parallel};
  for (uint32_t i = 0; i < n; i++) {
    name[i] = tg_mix(tg_mix(tasks[i].kind + 1, points[which[i]]->id), against);
    first[i] = points[which[i]]->here;
  }
  s->r->reused += tg_spool_run(s->spool, &(tg_spool_share){.tasks = tasks, .name = name, .n = n, .first = first,
                                                           .here = here, .together = lowers ? TOGETHER : 1,
                                                           .parallel = lowers ? TOGETHER * most : most,
                                                           .work = do_tasks, .stop = stops, .user = &d});
  for (uint32_t i = 0; i < n; i++) points[which[i]]->here |= here[i] && tasks[i].kind == TG_TASK_BUILD;
}

void tg_search_ask(tg_search *s, tg_task *tasks, tg_point *const *points, uint32_t n, uint32_t parallel,
                const tg_point *against) {
  tg_task *open = tg_new(s->env, tg_task, n ? n : 1);
  uint32_t *which = tg_new(s->env, uint32_t, n ? n : 1), m = 0;
  uint64_t other = against ? tg_mix(against->id, tasks[0].quads) : 0;
  for (uint32_t i = 0; i < n; i++)
    if (!tg_journal_find(s->journal, tasks[i].kind, points[i]->id, other, &tasks[i]))
      which[m] = i, open[m++] = tasks[i];
  if (s->spool && m) share(s, open, points, which, m, parallel, other);
  else tg_crew_run(s->crew, open, m, parallel);
  for (uint32_t i = 0; i < m; i++) {
    tasks[which[i]] = open[i];
    tg_journal_put(s->journal, &open[i], points[which[i]], other, tg_search_knobs(s, points[which[i]]));
  }
}

void tg_search_settle(tg_search *s, tg_point *p, const tg_task *t) {
  tg_assert(s->env, t->outcome < TG_TRIAL__COUNT);
  p->outcome = t->outcome;
  p->message = t->message;
  s->r->outcome[p->outcome]++;
}
