/* SPDX-License-Identifier: MIT
 * What a sweep says of the cost model: ranks against times, and how much slower the best of the model's first few is
 * than the best of all. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include "bench/sweep.h"

static const sweep_point *sorted;   /* of the sort below */

static int by_model(const void *a, const void *b) {
  double x = sorted[*(const uint32_t *)a].model, y = sorted[*(const uint32_t *)b].model;
  return x != y ? (x > y) - (x < y)
                : (*(const uint32_t *)a > *(const uint32_t *)b) - (*(const uint32_t *)a < *(const uint32_t *)b);
}

static int by_ratio(const void *a, const void *b) {
  double x = sorted[*(const uint32_t *)a].ratio, y = sorted[*(const uint32_t *)b].ratio;
  return (x > y) - (x < y);
}

static bool counts(const sweep_point *p) { return p->timed && !p->failed; }

uint32_t *sweep_by_model(const sweep *s, bool timed, uint32_t *n) {
  uint32_t *list = calloc(s->n + 1, sizeof *list);
  if (!list) exit(TOOL_BROKEN);
  *n = 0;
  for (uint32_t i = 0; i < s->n; i++)
    if (!timed || counts(&s->point[i])) list[(*n)++] = i;
  sorted = s->point;
  qsort(list, *n, sizeof *list, by_model);
  return list;
}

uint32_t sweep_best(const sweep *s) {
  uint32_t best = UINT32_MAX, most = 0;
  for (uint32_t i = 0; i < s->n; i++)
    if (counts(&s->point[i]) && s->point[i].quads > most) most = s->point[i].quads;
  for (uint32_t i = 0; i < s->n; i++)
    if (counts(&s->point[i]) && s->point[i].quads * 2 > most &&
        (best == UINT32_MAX || s->point[i].ratio < s->point[best].ratio))
      best = i;
  return best;
}

/* Spearman's, of the points within `within` of the best. */
static double rank_correlation(const sweep *s, double best, double within) {
  uint32_t all, n = 0, *order = sweep_by_model(s, true, &all);
  double *rank = calloc(s->n + 1, sizeof *rank), sum = 0;
  if (!rank) exit(TOOL_BROKEN);
  for (uint32_t i = 0; i < all; i++)
    if (s->point[order[i]].ratio <= best + within) rank[order[i]] = n, order[n++] = order[i];
  qsort(order, n, sizeof *order, by_ratio);
  for (uint32_t i = 0; i < n; i++) sum += (rank[order[i]] - i) * (rank[order[i]] - i);
  free(order), free(rank);
  return n > 2 ? 1 - 6 * sum / (n * ((double)n * n - 1)) : 0;
}

void sweep_describe(const sweep *s, const char *what, const sweep_point *p) {
  const tg_sketch *k = &s->space.sketch[p->sketch];
  printf("    %-14s %s", what, k->name);
  for (uint32_t a = 0; a < k->knobs; a++) printf(" %s=%lld", k->knob[a].name, (long long)p->knob[a]);
  puts("");
}

static void describe(const sweep *s, const char *what, uint32_t i, double best) {
  char text[96];
  snprintf(text, sizeof text, "%-14s %+6.1f %%  model %8.4g us", what, 100 * (exp(s->point[i].ratio - best) - 1),
           s->point[i].model * 1e6);
  sweep_describe(s, text, &s->point[i]);
}

bool sweep_report(const sweep *s, const tool_args *a) {
  static const uint32_t tops[] = {1, 8, 64};
  uint32_t at = sweep_best(s), timed = 0, failed = 0, points;
  for (uint32_t i = 0; i < s->n; i++) timed += s->point[i].timed, failed += s->point[i].failed;
  if (at == UINT32_MAX) return fprintf(stderr, "tg bench tune: %s: nothing was timed yet\n", s->name), false;
  double best = s->point[at].ratio, all = rank_correlation(s, best, INFINITY), near = rank_correlation(s, best, log(2));
  tool_figure(a->json, "tune", s->name, "points, legal", s->legal, "points", NULL);
  tool_figure(a->json, "tune", s->name, "points, of different code", s->n, "points", NULL);
  tool_figure(a->json, "tune", s->name, "timed", timed, "points", NULL);
  if (failed) tool_figure(a->json, "tune", s->name, "failed", failed, "points", NULL);
  tool_figure(a->json, "tune", s->name, "rank correlation of the model", all, "", NULL);
  tool_figure(a->json, "tune", s->name, "likewise, within 2x of the best", near, "", NULL);
  uint32_t *order = sweep_by_model(s, false, &points), untimed = 0, n = 0;
  double regret = INFINITY;
  for (size_t t = 0; t < sizeof tops / sizeof *tops; t++) {
    char metric[64];
    for (; n < tops[t] && n < points; n++) {
      const sweep_point *p = &s->point[order[n]];
      untimed += !p->timed;
      if (counts(p) && p->ratio - best < regret) regret = p->ratio - best;
    }
    snprintf(metric, sizeof metric, "best of the model's first %u", tops[t]);
    if (!a->json && regret < INFINITY)
      printf("  %-28s %-34s %+11.1f %% of the best%s\n", s->name, metric, 100 * (exp(regret) - 1),
             untimed ? "; not all were timed" : "");
    if (a->json) tool_figure(true, "tune", s->name, metric, exp(regret), "ratio", "the best");
  }
  if (!a->json) {
    if (s->first != UINT32_MAX) describe(s, "first choice", s->first, best);
    describe(s, "best", at, best);
    for (uint32_t i = 0; i < 8 && i < points; i++)
      describe(s, s->point[order[i]].timed ? "model's" : "model's, untimed", order[i], best);
  }
  free(order);
  return true;
}
