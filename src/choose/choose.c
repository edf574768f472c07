/* SPDX-License-Identifier: MIT
 * The first choice of a program: the words of each nest's class, or of a candidate that the model prices lower. A nest
 * whose words are refused gets the next simpler ones. */
#include "choose/plan.h"
#include "model/sizes.h"
#include "prices/prices.h"

/* ---- a refused word gets its nest a simpler schedule ---- */

typedef struct {
  tg_nest n;
  tg_job *j;
  const tg_lowering *l;
  const tg_uop *raised;
  bool fast;                   /* words that make functions fast will follow */
  bool given;                  /* decisions are given by a search: a refused word is then an error */
  tg_pass_fn *judge;
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
  tg_names_free(j);
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

/* A point: the candidate of each nest (0: its class), the words that this makes, NULL: they are refused, and what the
 * program then costs. */
typedef struct { uint8_t *plan; const char *words; bool priced; double seconds[TG_PRICED]; } point;
typedef struct {
  choosing w;
  tg_sizes at;
  tg_nest_choice *choice;
  const uint8_t *rung;
  uint32_t nests;
  double *seconds;
  const char *words;
  TG_VEC(point) points;
  tg_price_table table;
} pricing;

static tg_nest fresh(const choosing *w, tg_decisions *c, tg_nest_choice *choice, const uint8_t *rung, uint32_t nests) {
  return (tg_nest){.j = w->j, .l = w->l, .decisions = c, .choice = choice, .rung = rung, .rungs = nests,
                   .fast = w->fast};
}

static void choose_and_price(void *arg) {
  pricing *p = arg;
  tg_job *j = p->w.j;
  const int64_t *none = NULL;
  choose_and_try(&p->w);
  tg_str words = tg_str_new(&j->env);
  for (uint32_t i = 0; i < j->opts.n; i++) tg_str_printf(&words, "%s%s", i ? "; " : "", j->opts.data[i].text);
  p->w.l->price(j, p->w.l, p->w.raised, p->at.n ? p->at.n : 1, p->at.n ? p->at.params : &none, p->seconds);
  p->words = words.data ? words.data : "";
}

/* What a trial changes in a job, beside ranges and buffers. */
typedef struct {
  struct tg_known *known;
  struct tg_authored *authored;
  struct tg_taken *taken;
  uint32_t taken_n, taken_mask, seen[3];
  const tg_uop *sink;
  const char *stage;
} kept_state;

/* Without facts and taken names from here on, which are the trial's own. */
static kept_state keep(tg_job *j) {
  kept_state k = {.known = j->known, .authored = j->authored, .taken = j->taken, .taken_n = j->taken_n,
                  .taken_mask = j->taken_mask, .sink = j->sink, .stage = j->stage};
  memcpy(k.seen, j->taken_seen, sizeof k.seen);
  j->known = NULL;
  j->taken = NULL;
  j->taken_n = j->taken_mask = 0;
  memset(j->taken_seen, 0, sizeof j->taken_seen);
  return k;
}

static void give(tg_job *j, const kept_state *k) {
  j->opts.n = 0;
  j->known = k->known, j->authored = k->authored;
  j->taken = k->taken, j->taken_n = k->taken_n, j->taken_mask = k->taken_mask;
  memcpy(j->taken_seen, k->seen, sizeof k->seen);
  j->sink = k->sink, j->stage = k->stage;
}

/* What the program costs with a point's candidates; false: some word is refused. The job is left as it was: names that
 * a trial has taken are free again, and facts are of one trial, since the next one gives numbers of buffers to
 * others. */
static bool price_of(void *user, uint32_t at, double *seconds) {
  pricing *p = user;
  for (uint32_t i = 0; i < at; i++) {
    point *known = &p->points.data[i], *now = &p->points.data[at];
    if (!known->priced || memcmp(known->plan, now->plan, p->nests)) continue;
    memcpy(seconds, known->seconds, sizeof known->seconds);
    return (now->words = known->words) != NULL;
  }
  for (uint32_t i = 0; i < p->nests; i++) p->choice[i].plan = p->points.data[at].plan[i];
  p->w.n = fresh(&p->w, NULL, p->choice, p->rung, p->nests);
  p->seconds = seconds;
  tg_job_trial(p->w.j, choose_and_price, p, &p->words);
  p->points.data[at].priced = true;
  memcpy(p->points.data[at].seconds, seconds, sizeof p->points.data[at].seconds);
  return (p->points.data[at].words = p->words) != NULL;
}

/* The nest's next candidate, the others as they are. */
static int64_t beside(void *user, uint32_t from, uint32_t nest, uint32_t turn) {
  pricing *p = user;
  if (turn >= p->choice[nest].plans) return TG_POINT_END;
  if (p->points.data[from].plan[nest] == turn + 1) return TG_POINT_SKIP;
  point next = {.plan = tg_new(&p->w.j->env, uint8_t, p->nests)};
  memcpy(next.plan, p->points.data[from].plan, p->nests);
  next.plan[nest] = (uint8_t)(turn + 1);
  tg_push(&p->w.j->env, &p->points, next);
  return p->points.n - 1;
}

/* Where sizes are open until the call, and somebody wants to know: the words of each region of sizes whose point is not
 * `own`. */
static void divide(const pricing *p, const tg_region *region, uint32_t n, uint32_t own) {
  tg_division *d = p->w.j->division;
  const char *words = p->points.data[own].words;
  if (d) d->n = 0;
  for (uint32_t i = 0; i < n && d; i++) {
    if (!strcmp(p->points.data[region[i].point].words, words)) continue;
    memcpy(d->part[d->n].size, region[i].size, sizeof region[i].size);
    d->part[d->n++].words = p->points.data[region[i].point].words;
  }
}

/* Nest after nest: the candidate with which the program costs least, the other nests as they are. The point that the
 * sizes' middle gets, or else all, is taken. */
static void price_plans(const choosing *w, tg_nest_choice *choice, const uint8_t *rung, uint32_t nests) {
  tg_job *j = w->j;
  pricing *p = tg_new(&j->env, pricing, 1);
  tg_price_question *q = tg_new(&j->env, tg_price_question, 1);
  tg_region region[TG_REGIONS];
  *p = (pricing){.w = *w, .at = tg_sizes_of(j, w->l->target, w->raised), .choice = choice, .rung = rung,
                 .nests = nests};
  tg_push(&j->env, &p->points, (point){.plan = tg_new(&j->env, uint8_t, nests)});
  *q = (tg_price_question){.price = price_of,
                           .beside = beside,
                           .alternatives = true,
                           .user = p,
                           .launch = w->l->target->machine.launch * 1e-9,
                           .points = 1,
                           .axes = nests,
                           .prices = TG_PLANS * nests,
                           .launches = p->at.n ? p->at.n : 1,
                           .regions = j->division ? TG_REGIONS : 1};
  for (uint32_t d = 0; d < TG_REGION_SIZES && d < j->params.n && p->at.n; d++) {
    q->whole[d] = (tg_span){j->params.data[d].lo, j->params.data[d].hi};
    for (uint32_t i = 0; i < p->at.n; i++) q->size[i][d] = p->at.params[i][d];
  }
  uint32_t n = tg_price_choose(q, &p->table, region), own = 0;
  for (uint32_t i = 0; i < n; i++)
    if (tg_region_has(region[i].size, q->size[0], TG_REGION_SIZES)) own = region[i].point;
  for (uint32_t i = 0; i < nests; i++) choice[i].plan = n ? p->points.data[own].plan[i] : 0;
  if (n) divide(p, region, n, own);
}

/* fast: the program will have fast functions. */
static void choose_words(tg_job *j, const tg_lowering *l, const tg_uop *raised, tg_decisions *c, bool fast) {
  enum { ALONE = 8 };   /* after this many tries all nests get simpler at once, not the refused one alone */
  /* the nests, those that kept sums add, and one for what is said of all */
  uint32_t nests = raised->n + 2 * TG_NEST_KEPT + 1, decisions = c ? c->made.n : 0;
  uint8_t *rung = tg_new(&j->env, uint8_t, nests);
  tg_nest_choice *choice = l->price ? tg_new(&j->env, tg_nest_choice, nests) : NULL;
  choosing w = {
      .j = j, .l = l, .raised = raised, .fast = fast, .given = c && c->given,
      .judge = c && c->judge ? c->judge : tg_pass_schedule};
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

/* ---- words that say what functions may be, and nothing of loops ---- */

static bool of_values(const tg_job *j) {
  for (uint32_t i = 0; i < j->opts.n; i++)
    if (strncmp(j->opts.data[i].text, "fast ", 5)) return false;
  return true;
}

typedef struct {
  tg_job *j;
  const tg_lowering *l;
  const tg_uop *raised;
  tg_decisions *c;
  tg_opt_text *words;
  uint32_t n;
  bool done;
} apart;

static void choose_apart(void *arg) {
  apart *x = arg;
  tg_job *j = x->j;
  choose_words(j, x->l, x->raised, x->c, true);
  x->words = tg_new(&j->env, tg_opt_text, j->opts.n + 1);
  x->n = j->opts.n;
  if (x->n) memcpy(x->words, j->opts.data, x->n * sizeof *x->words);
  x->done = true;
  tg_fail(&j->env, TG_EINVAL, "chosen");   /* what the words made is dropped: they will be applied with others */
}

void tg_heuristic_with(tg_job *j, const tg_lowering *l, const tg_uop *raised, tg_decisions *c) {
  if (!of_values(j)) return;
  uint32_t n = j->opts.n;
  if (!n) {
    choose_words(j, l, raised, c, false);
    return;
  }
  tg_opt_text *own = tg_new(&j->env, tg_opt_text, n);
  memcpy(own, j->opts.data, n * sizeof *own);
  apart x = {.j = j, .l = l, .raised = raised, .c = c};
  const char *message;
  kept_state was = keep(j);
  j->opts.n = 0;
  tg_job_try(j, choose_apart, &x, &message);
  give(j, &was);
  if (!x.done) tg_fail(&j->env, TG_EINVAL, "%s", message);
  for (uint32_t i = 0; i < x.n; i++) tg_push(&j->env, &j->opts, x.words[i]);
  for (uint32_t i = 0; i < n; i++) tg_push(&j->env, &j->opts, own[i]);
  for (uint32_t i = 0; i < n && j->division; i++)
    for (uint32_t d = 0; d < j->division->n; d++)
      j->division->part[d].words = tg_format(&j->env, "%s; %s", j->division->part[d].words, own[i].text);
}
