/* SPDX-License-Identifier: MIT
 * The end of a search: what looked faster is timed again, with more samples and in a new process, and a winner on a
 * part of the problem must be right on the whole of it. */
#include <math.h>
#include "search/tune.h"

/* Estimated seconds of one checked run of the whole problem; 0: what was timed is the whole problem. */
static double whole_seconds(const tg_search *s) {
  enum { RUNS = 6 };   /* runs that timing the default takes, making its data included */
  /* busy: slowdown by other work on the machine */
  double busy = fmin(20, fmax(1, s->compare_wall / (RUNS * s->r->default_seconds)));
  return s->o->whole ? 1.6 * busy * s->r->default_seconds / s->o->share + 1 : 0;
}

/* Reserves time for the deciding comparisons, and for one run of the whole problem if that fits the budget well. */
void tg_search_keep_back(tg_search *s) {
  double budget = s->o->seconds, deciding = fmax(2 * tg_search_spend(s, TG_QUADS), 3 * s->compare_wall) + 1,
         whole = whole_seconds(s);
  if (budget <= 0) return;
  s->until = s->start + fmax(0.4 * budget, budget - fmin(deciding, 0.3 * budget) - (whole <= 0.2 * budget ? whole : 0));
}

static const char *percent_of(tg_search *s, double low, double high) {
  return isfinite(low) && isfinite(high)
             ? tg_format(s->env, "%+.1f to %+.1f %%", 100 * (exp(low) - 1), 100 * (exp(high) - 1))
             : "too few samples";
}

/* Is it faster with 95 % confidence, and does it pass its checks? */
static bool beats(tg_search *s, tg_point *p, const tg_point *other, tg_task *t, tg_verdict_of_times *v) {
  *v = tg_search_compare(s, p, other, TG_QUADS, t);
  if (t->outcome == TG_TRIAL_OK && v->faster) return tg_search_passes(s, p);
  if (t->outcome == TG_TRIAL_OK)
    s->failed = tg_format(s->env, "once more against the %s it was %s", other == s->first ? "default" : "best",
                          percent_of(s, v->low, v->high));
  else if (t->outcome == TG_TRIAL_SKIPPED) s->failed = "no time was left to confirm it";
  else s->failed = tg_format(s->env, "%s: %s", tg_outcome_name(t->outcome), t->message ? t->message : "");
  return false;
}

/* Points that looked faster than the incumbent, but not with 95 % confidence, are timed again with more samples. */
static void finals(tg_search *s) {
  for (uint32_t i = 0; i < s->beam_n && i < 3 && !tg_search_stop(s); i++) {
    tg_point *p = s->beam[i];
    tg_task t;
    tg_verdict_of_times v;
    if (p == s->incumbent || p->score > s->incumbent->score - tg_search_even) continue;
    if (beats(s, p, s->incumbent, &t, &v)) s->incumbent = p;
    else p->out = s->incumbent == s->first;
  }
}

/* Times the incumbent against the default again, in a new process. If it is not faster again it is dropped, and the
 * next best point is tried. */
static bool confirm_one(tg_search *s, tg_point *p) {
  tg_task t;
  tg_verdict_of_times v;
  if (!beats(s, p, s->first, &t, &v)) return false;
  tg_assert(s->env, p->built && (p->passed || !s->o->checks));
  s->incumbent = p;
  s->r->tuned = true;
  s->r->seconds = t.seconds;
  s->r->default_seconds = t.against_seconds;
  s->r->gain = v.gain;
  s->r->gain_low = v.low;
  return true;
}

static void stays(tg_search *s) {
  const tg_point *best = NULL;
  for (uint32_t i = 0; i < s->beam_n && !best; i++)
    if (s->beam[i] != s->first) best = s->beam[i];
  s->incumbent = s->first;
  s->r->tuned = false;
  s->r->seconds = s->r->default_seconds;
  s->r->gain = s->r->gain_low = 0;
  if ((!best || best->score > -tg_search_even) && s->refused)
    s->r->why = tg_format(s->env, "what looked faster is %s", s->refused);
  else if (!best) s->r->why = s->r->built > 1 ? "nothing else could be timed" : "nothing else was built";
  else if (best->score > -tg_search_even)
    s->r->why = tg_format(s->env, "the best of %u others is %.1f %% slower", s->r->timed, 100 * (exp(best->score) - 1));
  else
    s->r->why =
        tg_format(s->env, "the best looked %.1f %% faster, but %s", 100 * (exp(-best->score) - 1),
                  s->failed ? s->failed : tg_format(s->env, "not surely: %s", percent_of(s, best->low, best->high)));
}

void tg_search_confirm(tg_search *s) {
  s->until = s->o->seconds > 0 ? fmax(s->until, s->start + s->o->seconds * 0.8 - whole_seconds(s)) : 0;
  finals(s);
  s->until = s->o->seconds > 0 ? s->start + fmax(s->o->seconds * 1.05, s->o->seconds + 1) : 0;
  tg_search_tell(s, TG_EVENT_CONFIRM, s->incumbent);
  tg_crew_fresh(s->crew);
  bool won = s->incumbent != s->first && confirm_one(s, s->incumbent);
  for (uint32_t i = 0, tried = 1; i < s->beam_n && tried < 3 && !won; i++) {
    tg_point *p = s->beam[i];
    if (p == s->first || p == s->incumbent || p->out || p->score > -tg_search_margin) continue;
    won = confirm_one(s, p);
    tried++;
  }
  if (!won) stays(s);
}

/* ---- the whole problem, if a part was timed ---- */

/* The point as a kernel for the whole problem: the same knobs, by name, and the same words unless they are the
 * sketch's own. */
static bool whole_point(tg_search *s, tg_points *space, const tg_point *p, tg_point *w) {
  const tg_sketch *part = &s->space.sketch[p->sketch];
  uint32_t at = tg_space_sketch(space, part->name);
  int64_t knob[TG_POINT_KNOBS] = {0};
  if (at == space->sketches) return false;
  for (uint32_t i = 0; i < space->sketch[at].knobs; i++) {
    knob[i] = space->sketch[at].knob[i].values[0];
    for (uint32_t k = 0; k < part->knobs; k++)
      if (!strcmp(part->knob[k].name, space->sketch[at].knob[i].name)) knob[i] = p->knob[k];
  }
  return tg_space_point(space, at, knob, p->own_words ? NULL : p->words ? p->words : p->used, NULL, w);
}

/* One run, with all of its result checked. */
static bool run_whole(tg_search *s, tg_points *space, const tg_point *p, tg_point *w, double *seconds) {
  double left = s->until > 0 ? s->until - tg_now() : 10 * whole_seconds(s) + 60;
  if (!whole_point(s, space, p, w)) {
    s->failed = tg_format(s->env, "for all of the problem it is illegal: %s", w->message ? w->message : "");
    return false;
  }
  if (left < 0.7 * whole_seconds(s)) {
    s->failed = tg_format(s->env, "no time was left to check it on all of the problem, about %.0f s", whole_seconds(s));
    return false;
  }
  tg_task t = {.kind = TG_TASK_CHECKS,
               .trial = {w->text, w->words, NULL},
               .checks = s->o->whole_checks,
               .give_up = 1,
               .limit = fmax(left, 1)};
  tg_search_ask(s, &t, &w, 1, 1, NULL);
  *seconds = t.seconds;
  if (t.outcome == TG_TRIAL_OK) return true;
  s->failed = t.outcome == TG_TRIAL_SKIPPED || t.outcome == TG_TRIAL_HUNG
                  ? "no time was left to check it on all of the problem"
                  : tg_format(s->env, "on all of the problem it is %s: %s", tg_outcome_name(t.outcome),
                              t.message ? t.message : "");
  if (t.outcome != TG_TRIAL_SKIPPED) s->r->outcome[t.outcome]++;
  return false;
}

/* The winner on a part must pass one checked run on the whole problem. Then the default is run there too, if there is
 * time. The words stored are those lowered for the whole problem. */
void tg_search_check_whole(tg_search *s) {
  tg_points space;
  tg_point *w = tg_new(s->env, tg_point, 2);
  double other = 0;
  tg_space_open(&space, s->env, s->o->whole, s->o->sketches, s->o->whole_bindings, s->o->bindings_n);
  if (!run_whole(s, &space, s->incumbent, &w[0], &s->r->whole_seconds)) return stays(s);
  if (!tg_search_stop(s) && run_whole(s, &space, s->first, &w[1], &other)) s->r->whole_default_seconds = other;
  if (other > 0 && other < s->r->whole_seconds) {
    s->failed = tg_format(s->env, "all of the problem takes %.4g s with it, %.4g s with the default",
                          s->r->whole_seconds, other);
    return stays(s);
  }
  s->whole = &w[0];
}
