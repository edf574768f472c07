/* SPDX-License-Identifier: MIT
 * The first choice of a program: the words of each nest's class, or of a candidate that the model prices lower. A nest
 * whose words are refused gets the next simpler ones. */
#include <math.h>
#include "choose/plan.h"

/* ---- a refused word gets its nest a simpler schedule ---- */

typedef struct {
  tg_nest n;
  tg_job *j;
  const tg_lowering *l;
  const tg_uop *raised;
  bool given;                  /* decisions are given by a search: a refused word is then an error */
  tg_pass_fn *judge;
  double seconds;              /* that it costs */
} choosing;

static void choose_and_try(void *arg) {
  choosing *c = arg;
  tg_job *j = c->j;
  uint32_t ranges = j->ranges.n, buffers = j->buffers.n;
  uint8_t *demand = tg_new(&j->env, uint8_t, buffers + 1);
  for (uint32_t b = 0; b < buffers; b++) demand[b] = j->buffers.data[b].demand;
  tg_nest_choose_all(&c->n, c->raised);
  j->ranges.n = ranges;   /* pass schedule makes these again: the same nodes, with the same names */
  j->buffers.n = buffers;
  for (uint32_t b = 0; b < buffers; b++) j->buffers.data[b].demand = demand[b]; /* choosing changed some */
  if (!c->given && j->opts.n) c->judge(j, c->l, c->raised);
}

/* The nest whose word was refused; UINT32_MAX: the failure names none of the words. */
static uint32_t refused_nest(const tg_nest *n) {
  for (uint32_t i = 0; i < n->j->opts.n && i < n->owner.n; i++)
    if (n->j->opts.data[i].text == n->j->refused.text) return n->owner.data[i];
  return UINT32_MAX;
}

/* The next simpler rung for this nest; for all nests if there is no such nest. */
static void give_up(uint8_t *rung, uint32_t rungs, uint32_t nest) {
  for (uint32_t i = 0; i < rungs; i++)
    if ((nest == i || nest >= rungs) && rung[i] < TG_RUNG_NOTHING) rung[i]++;
}

void tg_heuristic(tg_job *j, const tg_lowering *l, const tg_uop *raised) { tg_heuristic_with(j, l, raised, NULL); }

static void choose_and_price(void *arg) {
  choosing *w = arg;
  choose_and_try(w);
  w->seconds = w->l->price(w->j, w->l, w->raised);
  tg_fail(&w->j->env, TG_EINVAL, "priced");   /* what the words made, and said of buffers, is dropped */
}

/* What the program costs with these candidates; INFINITY: some word is refused. The job is left as it was: names that a
 * trial has taken are free again, and facts are of one trial, since the next one gives numbers of buffers to others. */
static double price_of(choosing *w) {
  tg_job *j = w->j;
  struct tg_known *known = j->known;
  struct tg_authored *authored = j->authored;
  struct tg_taken *taken = j->taken;
  uint32_t taken_n = j->taken_n, taken_mask = j->taken_mask, seen[3];
  const tg_uop *sink = j->sink;
  const char *message, *stage = j->stage;
  w->seconds = INFINITY;
  memcpy(seen, j->taken_seen, sizeof seen);
  j->known = NULL;
  j->taken = NULL;
  j->taken_n = j->taken_mask = 0;
  memset(j->taken_seen, 0, sizeof j->taken_seen);
  tg_job_try(j, choose_and_price, w, &message);
  j->opts.n = 0;
  j->known = known, j->authored = authored;
  j->taken = taken, j->taken_n = taken_n, j->taken_mask = taken_mask;
  memcpy(j->taken_seen, seen, sizeof seen);
  j->sink = sink, j->stage = stage;
  return w->seconds;
}

static tg_nest fresh(const choosing *w, tg_decisions *c, tg_nest_choice *choice, const uint8_t *rung, uint32_t nests) {
  return (tg_nest){.j = w->j, .l = w->l, .decisions = c, .choice = choice, .rung = rung, .rungs = nests};
}

/* Nest after nest: the candidate with which the program costs least, the other nests as they are. Of two that cost
 * about the same the earlier one is taken, the class before all and then the one with the least bound: the model is not
 * that exact. */
static void price_plans(choosing *w, tg_nest_choice *choice, const uint8_t *rung, uint32_t nests) {
  static const double clearly = 0.95;
  w->n = fresh(w, NULL, choice, rung, nests);
  double least = price_of(w);
  for (uint32_t i = 0; i < nests; i++) {
    uint32_t best = 0;
    for (uint32_t k = 1; k <= choice[i].plans; k++) {
      choice[i].plan = k;
      w->n = fresh(w, NULL, choice, rung, nests);
      double seconds = price_of(w);
      if (seconds < clearly * least) least = seconds, best = k;
    }
    choice[i].plan = best;
  }
}

void tg_heuristic_with(tg_job *j, const tg_lowering *l, const tg_uop *raised, tg_decisions *c) {
  enum { ALONE = 8 };   /* after this many tries all nests get simpler at once, not the refused one alone */
  if (j->opts.n) return;
  uint32_t nests = raised->n + 1, decisions = c ? c->made.n : 0;
  uint8_t *rung = tg_new(&j->env, uint8_t, nests);
  tg_nest_choice *choice = l->price ? tg_new(&j->env, tg_nest_choice, nests) : NULL;
  choosing w = {
      .j = j, .l = l, .raised = raised, .given = c && c->given, .judge = c && c->judge ? c->judge : tg_pass_schedule};
  if (choice && !w.given && !tg_target_is_device(l->target) && !tg_target_is_source(l->target))
    price_plans(&w, choice, rung, nests);
  for (uint32_t tries = 0;; tries++) {
    const char *message;
    w.n = fresh(&w, c, choice, rung, nests);
    if (w.given) {
      choose_and_try(&w);
      return;
    }
    if (tg_job_try(j, choose_and_try, &w, &message)) return;
    uint32_t nest = tries < ALONE ? refused_nest(&w.n) : UINT32_MAX;
    if (l->log)
      l->log(l->log_user, tg_format(&j->env, "%s: words of its first choice are taken back: %s",
                                    j->name ? j->name : "kernel", message));
    j->opts.n = 0;
    if (c) c->made.n = decisions;
    give_up(rung, nests, nest);
  }
}
