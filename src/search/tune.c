/* SPDX-License-Identifier: MIT
 * The search itself. The default comes first: its result must be right, and every point is measured against it. Random
 * points are lowered next. Then rounds follow. In each, neighbours of the best points so far are lowered too, and the
 * points that the cost model estimates cheapest are built, checked, and timed in alternation with the incumbent. A
 * point replaces the incumbent only if the 95 % interval of the gain lies above 1 % and it passes the checks of its
 * kind. At the end the incumbent is timed against the default once more, in a new process; unless it is faster again,
 * the default stays. */
#include <math.h>
#include <stdio.h>
#include "choose/heuristic.h"
#include "search/tune.h"

enum { BATCH = 6, FRONT = 48, POOL = 4096, CHECKS_LIMIT = 60, TOO_SLOW = 3, FIRST_QUADS = 16 };
enum { SHARED = 3 * BATCH };   /* a round with a spool: the processes wait for the last of each */
/* worth: if a run takes this many seconds, saving one run pays; lasting: if a run takes this many, a slow candidate
 * takes as long as several good ones */
static const double worth = 5e-3, lasting = 0.1;

/* Candidates run on a device in one process after another; compiling for it needs no device. */
static uint32_t side_by_side(const tg_search *s) { return s->o->device ? 1 : UINT32_MAX; }

static uint64_t draw(tg_search *s) {
  s->random = s->random * 6364136223846793005u + 1442695040888963407u;
  return s->random ^ s->random >> 29;
}

/* Was some point timed faster than the default? If not, no time is reserved for a decision between them. */
static bool promising(const tg_search *s) {
  return s->beam_n && s->beam[0] != s->first && s->beam[0]->score < -tg_search_margin;
}

bool tg_search_stop(void *user) {
  tg_search *s = user;
  if (s->spool) tg_spool_renew(s->spool);
  if (s->o->stop && s->o->stop(s->o->user)) s->interrupted = true;
  double now = s->until > 0 ? tg_now() : 0;
  return s->interrupted || (s->until > 0 && now > s->until && (promising(s) || now > s->start + s->o->seconds));
}

static bool over(tg_search *s) { return tg_search_stop(s) || (s->o->candidates && s->r->timed >= s->o->candidates); }

const char *tg_search_knobs(tg_search *s, const tg_point *p) {
  const tg_sketch *k = &s->space.sketch[p->sketch];
  tg_str t = tg_str_new(s->env);
  tg_str_puts(&t, k->name);
  for (uint32_t i = 0; i < k->knobs; i++) tg_str_printf(&t, " %s=%lld", k->knob[i].name, (long long)p->knob[i]);
  return t.data;
}

void tg_search_tell(tg_search *s, int what, const tg_point *p) {
  if (!s->o->progress) return;
  s->r->elapsed = tg_now() - s->start;
  s->r->restarts = tg_crew_restarts(s->crew);
  tg_search_event e = {
      .what = what, .point = p, .knobs = p ? tg_search_knobs(s, p) : NULL, .so_far = s->r, .elapsed = s->r->elapsed};
  s->o->progress(s->o->user, &e);
}

/* ---- lowering ---- */

static bool known(const uint64_t *list, uint32_t n, uint64_t x) {
  for (uint32_t i = 0; i < n; i++)
    if (list[i] == x) return true;
  return false;
}

/* ln of the estimated seconds of a point: the model's estimate, corrected by the model's mean error on the point's
 * sketch. The correction's weight grows with the number of points that were timed. */
static double guess(const tg_search *s, const tg_point *p) {
  const double doubt = 2;
  return log(fmax(p->cost.seconds, 1e-12)) + s->off[p->sketch] / (s->timed_of[p->sketch] + doubt);
}

static bool cheaper(const tg_search *s, const tg_point *a, const tg_point *b) {
  double x = guess(s, a), y = guess(s, b);
  return x != y ? x < y : a->number < b->number;
}

/* Lowers the points. Those that are legal and lower to a new program go to the pool. */
static void lower(tg_search *s, tg_point **points, uint32_t n) {
  tg_task *tasks = tg_new(s->env, tg_task, n ? n : 1);
  for (uint32_t i = 0; i < n; i++)
    tasks[i] = (tg_task){
        .kind = TG_TASK_LOWER, .trial = tg_search_trial(points[i]), .limit = s->build_limit, .work = s->known_limits};
  tg_search_ask(s, tasks, points, n, UINT32_MAX, NULL);
  for (uint32_t i = 0; i < n; i++) {
    tg_point *p = points[i];
    if (tasks[i].outcome == TG_TRIAL_OK && known(s->lowered.data, s->lowered.n, tasks[i].hash))
      tasks[i].outcome = TG_TRIAL_DUPLICATE;
    p->hash = tasks[i].hash;
    p->cost = tasks[i].cost;
    p->used = tasks[i].words && *tasks[i].words ? tasks[i].words : NULL;
    p->decisions = tasks[i].decisions && *tasks[i].decisions ? tasks[i].decisions : NULL;
    if (tasks[i].outcome != TG_TRIAL_OK) tg_search_settle(s, p, &tasks[i]);
    else {
      if (p->given) p->words = p->used;   /* now the words say all: given is no longer needed */
      s->r->lowered++;
      tg_push(s->env, &s->lowered, p->hash);
      tg_push(s->env, &s->pool, p);
    }
  }
  tg_search_tell(s, TG_EVENT_LOWERED, NULL);
}

/* ---- new points ---- */

static void propose(tg_search *s, uint32_t sketch, const int64_t *knob, const char *words, const char *given,
                    tg_point **out, uint32_t *n) {
  tg_point *p = tg_new(s->env, tg_point, 1);
  bool legal = tg_space_point(&s->space, sketch, knob, words, given, p);
  if (known(s->seen.data, s->seen.n, p->id)) return;
  tg_push(s->env, &s->seen, p->id);
  p->number = s->points.n;
  tg_push(s->env, &s->points, p);
  s->r->points++;
  if (legal) out[(*n)++] = p;
  else s->r->outcome[TG_TRIAL_ILLEGAL]++;
}

/* The point with one knob changed, for each knob and each other value of it. */
static void move_knobs(tg_search *s, const tg_point *p, tg_point **out, uint32_t *n) {
  const tg_sketch *k = &s->space.sketch[p->sketch];
  uint64_t from = draw(s);
  for (uint32_t a = 0; a < k->knobs; a++) {
    uint32_t i = (uint32_t)((from + a) % k->knobs);
    for (uint32_t v = 0; v < k->knob[i].n && *n < FRONT; v++) {
      int64_t knob[TG_POINT_KNOBS];
      memcpy(knob, p->knob, sizeof knob);
      if (knob[i] == k->knob[i].values[v]) continue;
      knob[i] = k->knob[i].values[v];
      propose(s, p->sketch, knob, NULL, p->given, out, n);
    }
  }
}

/* The point with one decision of the heuristic changed, for each alternative, starting at a random one. */
static void move_decisions(tg_search *s, const tg_point *p, tg_point **out, uint32_t *n) {
  uint32_t count = 0;
  while (p->decisions && tg_decisions_move(s->env, p->decisions, p->given, count)) count++;
  uint64_t from = draw(s);
  for (uint32_t i = 0; i < count && *n < FRONT; i++)
    propose(s, p->sketch, p->knob, NULL,
            tg_decisions_move(s->env, p->decisions, p->given, (uint32_t)((from + i) % count)),
            out, n);
}

static void move_words(tg_search *s, const tg_point *p, uint32_t draws, tg_point **out, uint32_t *n) {
  for (uint32_t i = 0; i < draws && *n < FRONT && p->used; i++) {
    const char *words = tg_words_mutate(s->env, p->used, draw(s));
    if (words) propose(s, p->sketch, p->knob, words, NULL, out, n);
  }
}

/* Lowers random points of all sketches, for the model to pick from. Takes at most a tenth of a budget in seconds; no
 * more than EACH points for each candidate that may be timed. */
static void explore(tg_search *s) {
  enum { POINTS = 1200, EACH = 40 };
  uint32_t most = s->o->candidates && s->o->candidates < POINTS / EACH ? EACH * s->o->candidates : POINTS;
  double until = s->o->seconds > 0 ? tg_now() + 0.1 * s->o->seconds : INFINITY;
  bool some = false;
  for (uint32_t i = 0; i < s->space.sketches; i++) some |= s->space.sketch[i].knobs > 0;
  for (uint32_t made = 0; some && made < most && tg_now() < until && !over(s); made += FRONT) {
    tg_point *front[FRONT];
    uint32_t n = 0;
    for (uint32_t i = 0; i < FRONT; i++) {
      uint32_t which = (uint32_t)(draw(s) % s->space.sketches);
      const tg_sketch *k = &s->space.sketch[which];
      int64_t knob[TG_POINT_KNOBS] = {0};
      for (uint32_t v = 0; v < k->knobs; v++) knob[v] = k->knob[v].values[draw(s) % k->knob[v].n];
      propose(s, which, knob, NULL, NULL, front, &n);
    }
    if (n) lower(s, front, n);
  }
}

/* Makes neighbours of the points of the beam, from the best on; false: there are no new ones. */
static bool widen(tg_search *s) {
  tg_point *front[FRONT];
  uint32_t n = 0;
  for (uint32_t b = 0; b < s->beam_n && n < FRONT / 2; b++) move_knobs(s, s->beam[b], front, &n);
  for (uint32_t b = 0; b < s->beam_n && n < FRONT * 3 / 4 && !s->o->knobs_only; b++)
    move_decisions(s, s->beam[b], front, &n);
  for (uint32_t b = 0; b < s->beam_n && n < FRONT && !s->o->knobs_only; b++)
    move_words(s, s->beam[b], 1 + (FRONT - n) / (s->beam_n - b), front, &n);
  if (n) lower(s, front, n);
  return n > 0;
}

/* ---- building ---- */

/* A random point of the pool; where a run takes long, not one that the model estimates too slow to be timed. */
static uint32_t any_of_pool(tg_search *s) {
  uint32_t at = (uint32_t)(draw(s) % s->pool.n);
  for (uint32_t i = 0; s->r->default_seconds >= lasting && i < s->pool.n; i++) {
    if (s->pool.data[at]->cost.seconds <= TOO_SLOW * s->first->cost.seconds) break;
    at = (at + 1) % s->pool.n;
  }
  return at;
}

/* Takes from the pool the points that the model estimates cheapest, and a random one of each BATCH. */
static uint32_t take_batch(tg_search *s, tg_point **batch) {
  uint32_t n = 0, most = s->spool ? SHARED : BATCH;
  if (s->o->candidates && s->o->candidates - s->r->timed < most) most = s->o->candidates - s->r->timed;
  while (n < most && s->pool.n) {
    uint32_t best = 0;
    if ((n + 1) % BATCH == 0 || (n + 1 == most && n)) best = any_of_pool(s);
    else
      for (uint32_t i = 1; i < s->pool.n; i++)
        if (cheaper(s, s->pool.data[i], s->pool.data[best])) best = i;
    batch[n++] = s->pool.data[best];
    s->pool.data[best] = s->pool.data[--s->pool.n];
  }
  return n;
}

static void build(tg_search *s, tg_point *const *batch, uint32_t n) {
  tg_task tasks[SHARED] = {{0}};
  for (uint32_t i = 0; i < n; i++)
    tasks[i] = (tg_task){.kind = TG_TASK_BUILD,
                         .trial = tg_search_trial(batch[i]),
                         .limit = s->build_limit,
                         .work = s->known_limits,
                         .give_up = TOO_SLOW * s->build_seconds};
  tg_search_ask(s, tasks, batch, n, side_by_side(s), NULL);
  for (uint32_t i = 0; i < n; i++) {
    batch[i]->built = tasks[i].outcome == TG_TRIAL_OK;
    batch[i]->seconds = tasks[i].seconds;
    s->r->built += tasks[i].outcome != TG_TRIAL_SKIPPED;
    if (batch[i]->built) batch[i]->outcome = TG_TRIAL_OK;
    else tg_search_settle(s, batch[i], &tasks[i]);
    if (tasks[i].outcome != TG_TRIAL_SKIPPED) tg_search_tell(s, TG_EVENT_BUILT, batch[i]);
  }
}

/* ---- timing ---- */

static double patience(const tg_search *s) { return s->o->patience > 0 ? s->o->patience : 3; }

/* Seconds of sampling for one comparison: short, so that many candidates are timed; four times as much for comparisons
 * that decide the search. */
double tg_search_spend(const tg_search *s, uint32_t quads) {
  const double each = s->o->seconds > 0 ? fmin(0.75, s->o->seconds / 240) : 0.75;
  return quads > 16 ? 4 * each : each;
}

/* Seconds until a timing task is killed: enough for a candidate ten times slower than the default, and for preparing
 * both. */
static double time_limit(const tg_search *s, double seconds) {
  return patience(s) + 2 * tg_search_spend(s, TG_QUADS) + 10 * 16 * seconds;
}

static tg_task timing_of(const tg_search *s, const tg_point *p, const tg_point *against, uint32_t quads) {
  return (tg_task){.kind = TG_TASK_TIME,
                   .trial = tg_search_trial(p),
                   .against = tg_search_trial(against),
                   .quads = quads,
                   .spend = tg_search_spend(s, quads),
                   .limit = s->time_limit,
                   .work = s->known_limits};
}

tg_verdict_of_times tg_search_compare(tg_search *s, tg_point *p, const tg_point *against, uint32_t quads, tg_task *t) {
  *t = timing_of(s, p, against, quads);
  tg_search_ask(s, t, &p, 1, 1, against);
  s->r->dropped += t->dropped;
  if (t->outcome == TG_TRIAL_OK && s->r->floor > 0 && fmin(t->seconds, t->against_seconds) < s->r->floor) {
    t->outcome = TG_TRIAL_UNBELIEVABLE;
    t->message = tg_format(s->env, "%.3g s is less than the machine can do: %.3g s", t->seconds, s->r->floor);
  }
  tg_verdict_of_times v = tg_decide(t->gain, t->n, tg_search_margin);
  p->low = v.low, p->high = v.high;
  return v;
}

static void join_beam(tg_search *s, tg_point *p) {
  uint32_t at = s->beam_n;
  while (at && p->score < s->beam[at - 1]->score) at--;
  if (at == s->beam_most) return;
  if (s->beam_n < s->beam_most) s->beam_n++;
  for (uint32_t i = s->beam_n - 1; i > at; i--) s->beam[i] = s->beam[i - 1];
  s->beam[at] = p;
}

/* Does the point pass the checks of its kind? Called only for points that would win: the checks can take longer than
 * the rest of the search. */
bool tg_search_passes(tg_search *s, tg_point *p) {
  if (!s->o->checks || p->passed) return true;
  /* words alone, without given: the form in which a winner is stored */
  tg_task t = {.kind = TG_TASK_CHECKS,
               .trial = {p->text, p->used ? p->used : p->words, NULL},
               .limit = CHECKS_LIMIT,
               .work = true};
  tg_search_ask(s, &t, &p, 1, 1, NULL);
  p->passed = t.outcome == TG_TRIAL_OK;
  if (p->passed || t.outcome == TG_TRIAL_SKIPPED) return p->passed;
  tg_search_settle(s, p, &t);
  s->failed = s->refused = tg_format(s->env, "%s: %s", tg_outcome_name(t.outcome), t.message ? t.message : "");
  return false;
}

/* against: the incumbent, or the one before it, if the point was timed when that still was the incumbent. */
static void time_point(tg_search *s, tg_point *p, tg_point *against) {
  tg_task t;
  tg_assert(s->env, p->built);   /* its results were checked while it was built */
  tg_verdict_of_times v = tg_search_compare(s, p, against, FIRST_QUADS, &t);
  p->outcome = t.outcome;
  p->message = t.message;
  if (t.outcome == TG_TRIAL_SKIPPED) return;
  s->r->timed++;
  bool timed = t.outcome == TG_TRIAL_OK && t.n,
       simpler = fabs(v.gain) < tg_search_even && v.low > -tg_search_margin &&
                 tg_words_count(p->used) < tg_words_count(s->incumbent->used) && s->incumbent != s->first;
  bool latest = against == s->incumbent, wins = timed && latest && (v.faster || simpler);
  if (timed && !latest) wins = v.faster && against->score - v.gain < s->incumbent->score - tg_search_margin;
  if (wins && !tg_search_passes(s, p)) return tg_search_tell(s, TG_EVENT_TIMED, p);
  s->r->outcome[t.outcome]++;
  if (timed) {
    p->timed = true;
    p->seconds = t.seconds;
    p->score = against->score - v.gain;
    s->off[p->sketch] += log(t.seconds / fmax(p->cost.seconds, 1e-12)) - s->model_off;
    s->timed_of[p->sketch]++;
    join_beam(s, p);
    if (wins) {
      s->incumbent = p;
      s->r->seconds = t.seconds;
      s->r->gain = -p->score;
    }
  }
  tg_search_tell(s, TG_EVENT_TIMED, p);
  if (s->incumbent == p) tg_search_tell(s, TG_EVENT_BEST, p);
}

/* ---- the beginning ---- */

/* Without the reference and the default nothing can be found, so these two may take up to a minute even if the budget
 * is less. */
static double left_for_default(const tg_search *s) {
  const double least = 60, forever = 600;
  return s->o->seconds > 0 ? s->start + fmax(least, 1.05 * s->o->seconds) - tg_now() : forever;
}

static TG_NORETURN void fail_default(tg_search *s, const tg_point *p) {
  if (p->outcome == TG_TRIAL_HUNG && left_for_default(s) <= 0)
    tg_fail(s->env, TG_EBACKEND,
            "the budget ended before the kernel under its default was built, checked and timed: it wants more than "
            "%.0f s here",
            tg_now() - s->start);
  tg_fail(s->env, p->outcome == TG_TRIAL_ILLEGAL ? TG_EINVAL : TG_EBACKEND, "the kernel under its default is %s: %s",
          tg_outcome_name(p->outcome), p->message ? p->message : "");
}

static void open_problem(tg_search *s) {
  const tg_search_options *o = s->o;
  tg_task t = {.kind = TG_TASK_OPEN,
               .trial = {s->first->text, NULL, NULL},
               .target = o->target,
               .device = o->device,
               .device_target = o->device_target,
               .machine = o->machine,
               .folder = o->folder,
               .checks = o->checks,
               .roundings = o->roundings,
               .params_n = o->params_n,
               .threads = o->threads ? o->threads : 1,
               .pool = o->pool,
               .seed = o->seed + 1,
               .shared = o->worker ? o->shared : -1,
               .make = true,
               .limit = left_for_default(s)};
  if (o->params_n > TG_TRIAL_PARAMS) tg_fail(s->env, TG_ELIMIT, "over %d parameters", TG_TRIAL_PARAMS);
  if (o->params_n) memcpy(t.params, o->params, o->params_n * sizeof *o->params);
  tg_crew_problem(s->crew, &t);
  if (t.outcome != TG_TRIAL_OK) {
    s->first->outcome = t.outcome;
    s->first->message = t.message;
    fail_default(s, s->first);
  }
  s->r->floor = t.floor;
  s->r->flops = t.flops;
  s->r->bytes = t.bytes;
  s->r->exact = t.exact;
  s->r->in_process = !o->worker;
  s->r->share = o->whole ? o->share : 0;
  s->slowest = t.slowest;
  tg_search_tell(s, TG_EVENT_OPEN, NULL);
}

/* Builds and checks the default, whose result must be right. Its run time is not known yet, so it counts as hung only
 * above the slowest time possible for the problem. Later limits derive from its measured time. */
static void build_default(tg_search *s, tg_point *p) {
  enum { RUNS = 8 };   /* at most this many runs in one check, over all kinds of data */
  const double part = 1.0 / 8;   /* of the budget, for one candidate */
  double t = tg_now(), most = s->build_limit + RUNS * s->slowest;
  s->build_limit = fmax(1, fmin(most, left_for_default(s)));
  build(s, &p, 1);
  if (!p->built) fail_default(s, p);
  s->time_limit = fmax(1, fmin(most, left_for_default(s)));
  /* another process may have built it, and then nothing is known of what it takes here */
  double took = tg_now() - t;
  if (!s->spool || p->here) s->build_limit = patience(s) + 4 * took;
  /* on a device nothing is timed meanwhile */
  if (s->o->device && s->o->seconds > 0) s->build_limit = fmin(s->build_limit, fmax(2 * took, part * s->o->seconds));
  if (p->seconds > worth) s->build_seconds = p->seconds;
}

/* The default of the caller's own sketch, which was just lowered: built and timed first of all, so that its author sees
 * where it stands. */
static void time_beside(tg_search *s) {
  tg_point *p = s->points.data[s->points.n - 1];
  if (p->outcome == TG_TRIAL_ILLEGAL)
    tg_fail(s->env, TG_EINVAL, "%s is illegal here: %s", s->space.sketch[p->sketch].name, p->message ? p->message : "");
  for (uint32_t i = 0; i < s->pool.n; i++)
    if (s->pool.data[i] == p) {
      s->pool.data[i] = s->pool.data[--s->pool.n];
      build(s, &p, 1);
      if (p->built) time_point(s, p, s->incumbent);
      return;
    }
  tg_search_tell(s, TG_EVENT_BUILT, p);   /* it is the same code as another */
}

/* The point where the search starts is the default; the other sketches' defaults join the pool. */
static void begin(tg_search *s) {
  tg_point *p = s->first, *others[POOL / 64];
  uint32_t n = 0;
  lower(s, &p, 1);
  if (p->outcome != TG_TRIAL_OK || !s->pool.n) fail_default(s, p);
  s->pool.n = 0;
  build_default(s, p);
  tg_task task;
  double start = tg_now();
  tg_search_compare(s, p, p, s->build_seconds > 0 ? 2 : 8, &task);
  s->compare_wall = tg_now() - start;
  if (task.outcome != TG_TRIAL_OK) {
    tg_search_settle(s, p, &task);
    fail_default(s, p);
  }
  p->timed = true;
  p->seconds = s->r->default_seconds = s->r->seconds = task.seconds;
  s->time_limit = time_limit(s, task.seconds);
  s->known_limits = true;
  s->incumbent = p;
  s->model_off = log(fmax(task.seconds, 1e-12) / fmax(p->cost.seconds, 1e-12));
  join_beam(s, p);
  tg_search_tell(s, TG_EVENT_TIMED, p);
  for (uint32_t i = 0; i < s->space.sketches && n < TG_COUNT(others); i++)
    if (i != p->sketch) propose(s, i, NULL, NULL, NULL, others, &n);
  lower(s, others, n);
  if (s->o->beside && p->sketch + 1 != s->space.sketches) time_beside(s);   /* else it is the default itself */
}

/* With a spool all that were built are timed against one incumbent, by as many processes as there are; the answers are
 * looked up when their turn comes. */
static void time_together(tg_search *s, tg_point *const *batch, uint32_t n) {
  tg_task tasks[SHARED];
  tg_point *built[SHARED];
  uint32_t m = 0;
  for (uint32_t i = 0; i < n; i++)
    if (batch[i]->built) tasks[m] = timing_of(s, batch[i], s->incumbent, FIRST_QUADS), built[m++] = batch[i];
  if (m && !over(s)) tg_search_ask(s, tasks, built, m, 1, s->incumbent);
}

static void rounds(tg_search *s) {
  while (!over(s)) {
    tg_point *batch[SHARED];
    if ((s->pool.n < 3 * BATCH || s->incumbent != s->widened) && !widen(s) && !s->pool.n) break;
    s->widened = s->incumbent;
    if (!s->pool.n && ++s->draws > 20) break;
    if (s->pool.n) s->draws = 0;
    uint32_t n = take_batch(s, batch);
    bool in_turn = s->o->device && !s->spool;   /* each is timed when it is built, as others are not built beside it */
    if (!in_turn) build(s, batch, n);
    if (s->spool) time_together(s, batch, n);
    tg_point *against = s->incumbent;
    for (uint32_t i = 0; i < n && !over(s); i++) {
      if (in_turn) build(s, &batch[i], 1);
      if (!s->spool) against = s->incumbent;
      if (batch[i]->built) time_point(s, batch[i], against);
    }
  }
}

static void report(tg_search *s) {
  const tg_point *p = s->incumbent;
  const tg_sketch *k = &s->space.sketch[p->sketch];
  tg_search_result *r = s->r;
  tg_assert(s->env, s->interrupted || r->tuned == (p != s->first));   /* what is stored is what was confirmed */
  r->sketch = k->given;
  r->sketch_name = k->name;
  r->words = s->whole ? s->whole->words : p->words || p == s->first ? p->words : p->used;
  r->text = s->whole ? s->whole->text : p->text;
  r->knobs = k->knobs;
  for (uint32_t i = 0; i < k->knobs; i++) r->knob[i] = (tg_binding){k->knob[i].name, p->knob[i], p->knob[i], 1};
  r->elapsed = tg_now() - s->start;
  r->restarts = tg_crew_restarts(s->crew);
  r->reused = tg_journal_reused(s->journal);
  r->interrupted = s->interrupted;
  tg_journal_end(s->journal, r->interrupted, s->o->seconds, s->o->candidates,
                 !r->tuned ? tg_format(s->env, "the default stays: %s", r->why ? r->why : "")
                           : tg_format(s->env, "%s was chosen, %.2f times as fast", tg_search_knobs(s, p),
                                       exp(r->gain)));
  tg_search_tell(s, TG_EVENT_END, p);
}

/* The caller's sketch and values of knobs to start from, otherwise the first one and its defaults. */
static bool first_point(tg_search *s) {
  uint32_t at = s->o->start_sketch ? tg_space_sketch(&s->space, s->o->start_sketch) : 0;
  if (at == s->space.sketches)
    tg_fail(s->env, TG_EINVAL, "the search cannot start at '%s': no kernel of this name can be built here",
            s->o->start_sketch);
  const tg_sketch *k = &s->space.sketch[at];
  int64_t knob[TG_POINT_KNOBS] = {0};
  for (uint32_t i = 0; i < k->knobs; i++) {
    knob[i] = k->knob[i].values[0];
    for (uint32_t b = 0; b < s->o->start_n; b++)
      if (!strcmp(s->o->start[b].name, k->knob[i].name)) knob[i] = s->o->start[b].lo;
  }
  s->r->sketch = k->given;
  s->r->sketch_name = k->name;
  return tg_space_point(&s->space, at, knob, NULL, NULL, s->first);
}

static void open_spool(tg_search *s) {
  const tg_search_options *o = s->o;
  if (o->seconds > 0 || !o->candidates)
    tg_fail(s->env, TG_EINVAL, "a search with a spool is bounded by a number of candidates, not by seconds");
  if (o->journal) tg_fail(s->env, TG_EINVAL, "a search has a spool or a journal, not both");
  uint64_t about = tg_hash(o->spool_about, strlen(o->spool_about), o->candidates),
           key = tg_mix(tg_mix(s->first->id, about), o->seed);
  if (o->checks) key = tg_hash(o->checks, strlen(o->checks), key);
  s->spool = tg_spool_open(s->env, o->spool, key,
                           tg_format(s->env, "%s\n%s\n", s->space.sketch[0].name, o->spool_about), o->lease);
}

static void run(void *arg) {
  tg_search *s = arg;
  const tg_search_options *o = s->o;
  tg_space_open(&s->space, s->env, o->sketch, o->sketches, o->bindings, o->bindings_n);
  s->off = tg_new(s->env, double, s->space.sketches);
  s->timed_of = tg_new(s->env, uint32_t, s->space.sketches);
  s->first = tg_new(s->env, tg_point, 1);
  if (!first_point(s)) fail_default(s, s->first);
  tg_push(s->env, &s->seen, s->first->id);
  tg_push(s->env, &s->points, s->first);
  s->r->points = 1;
  s->journal = tg_journal_open(
      s->env, o->journal, s->space.sketch[0].name,
      tg_mix(o->checks ? tg_hash(o->checks, strlen(o->checks), s->first->id) : s->first->id, o->seed), o->resume);
  s->r->why = tg_journal_ended(s->journal, o->seconds, o->candidates);
  if (s->r->why) {
    s->r->finished = true;
    return tg_search_tell(s, TG_EVENT_END, NULL);
  }
  if (o->spool) open_spool(s);
  open_problem(s);
  begin(s);
  tg_search_keep_back(s);
  explore(s);
  rounds(s);
  if (!s->interrupted) tg_search_confirm(s);
  if (s->r->tuned && o->whole && !s->interrupted) tg_search_check_whole(s);
  report(s);
}

void tg_search_run(tg_env *env, const tg_search_options *o, tg_search_result *out) {
  tg_search *s = tg_new(env, tg_search, 1);
  *out = (tg_search_result){0};
  *s = (tg_search){.env = env,
                .o = o,
                .r = out,
                .random = o->seed * 2 + 1,
                .start = tg_now(),
                .build_limit = 60,
                .beam_most = o->beam ? o->beam < TG_SEARCH_BEAM ? o->beam : TG_SEARCH_BEAM : 4};
  tg_crew_options c = {
      .worker = o->worker, .local = o->local, .workers = o->workers ? o->workers : 2, .stop = tg_search_stop,
      .user = s};
  s->crew = tg_crew_open(env, &c);
  bool ok = tg_protect(env, run, s);
  tg_crew_close(s->crew);
  tg_journal_close(s->journal);
  tg_spool_close(s->spool);
  if (!ok) tg_fail(env, env->status, "%s", env->message);
}
