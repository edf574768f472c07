/* SPDX-License-Identifier: MIT
 * A search in progress, and what its parts ask of each other: rounds (tune.c), tasks (ask.c), the decision
 * (confirm.c). */
#ifndef TG_SEARCH_TUNE_H
#define TG_SEARCH_TUNE_H
#include "search/search.h"
#include "search/spool.h"

enum { TG_SEARCH_BEAM = 16 };
/* ln of ratios of times */
static const double tg_search_margin = 0.01, tg_search_even = 0.005;

typedef struct tg_search {
  tg_env *env;
  const tg_search_options *o;
  tg_search_result *r;
  tg_crew *crew;
  tg_journal *journal;
  tg_spool *spool;                       /* NULL: this search is alone */
  tg_points space;
  TG_VEC(tg_point *) points;             /* all that were made; index: tg_point.number */
  TG_VEC(tg_point *) pool;               /* lowered, not built yet */
  TG_VEC(uint64_t) seen;                 /* ids of points */
  TG_VEC(uint64_t) lowered;              /* hashes of lowered programs */
  tg_point *beam[TG_SEARCH_BEAM], *incumbent, *first;
  uint32_t beam_n, beam_most, draws;
  tg_point *widened;                     /* the incumbent whose neighbours were made last */
  /* error of the cost model, ln(seconds / estimated seconds). model_off: of the default. off, by sketch: what exceeds
   * model_off, summed over the timed_of points of the sketch that were timed */
  double model_off, *off;
  uint32_t *timed_of;
  uint64_t random;
  double start, until, build_limit, time_limit;
  bool known_limits;                     /* they derive from what the default took: before, the budget bounds them */
  double compare_wall;                   /* wall seconds that timing the default took */
  /* slowest: seconds above which a run counts as hung. build_seconds: the default's shortest run while it was checked;
   * 0 if that was short */
  double slowest, build_seconds;
  const tg_point *whole;                 /* the winner for the whole problem, if a part was timed */
  /* failed: why the last point that looked faster than the default was rejected. refused: the same, if it was the
   * checks of its kind that rejected it */
  const char *failed, *refused;
  bool interrupted;
} tg_search;

/* tune.c */
bool tg_search_stop(void *search);                 /* is the time over, or was the search interrupted? */
void tg_search_tell(tg_search *s, int what, const tg_point *p);
const char *tg_search_knobs(tg_search *s, const tg_point *p);
double tg_search_spend(const tg_search *s, uint32_t quads);
/* Times a point beside another. */
tg_verdict_of_times tg_search_compare(tg_search *s, tg_point *p, const tg_point *against, uint32_t quads, tg_task *t);
bool tg_search_passes(tg_search *s, tg_point *p);

/* ask.c */
tg_trial tg_search_trial(const tg_point *p);
/* Gets the answers to tasks of points, of one kind. against: the opponent in comparisons, otherwise NULL. */
void tg_search_ask(tg_search *s, tg_task *tasks, tg_point *const *points, uint32_t n, uint32_t parallel,
                   const tg_point *against);
void tg_search_settle(tg_search *s, tg_point *p, const tg_task *t);   /* the point gets the outcome */

/* confirm.c */
void tg_search_keep_back(tg_search *s);            /* reserves time for what follows */
void tg_search_confirm(tg_search *s);
void tg_search_check_whole(tg_search *s);
#endif
