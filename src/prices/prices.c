/* SPDX-License-Identifier: MIT
 * Compares prices: prices some points, goes downhill from the cheapest, and divides the sizes among the cheapest. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include "prices/prices.h"

/* Prices as near as that are about the same: what the model cannot tell. No step downhill and no kernel more for some
 * sizes is taken for less. */
static const double about = 0.05;

double tg_price_surely_more(double seconds) { return seconds * (1 + 2 * about); }

/* ---- prices ---- */

static double weight(const tg_price_table *w, uint32_t launch) {
  return tg_price_weight(w->q->likely, w->q->launches, launch);
}

/* Of the launches by bit. */
static double weights(const tg_price_table *w, uint32_t in) {
  double sum = 0;
  for (uint32_t l = 0; l < w->q->launches; l++) sum += in >> l & 1 ? weight(w, l) : 0;
  return sum;
}

/* Prices a point as the next row; false: it cannot be made. */
static bool price(tg_price_table *w, uint32_t point) {
  double seconds[TG_PRICED];
  if (w->rows == TG_PRICE_ROWS || !w->q->price(w->q->user, point, seconds)) return false;
  tg_priced *p = &w->row[w->rows];
  *p = (tg_priced){.point = point};
  for (uint32_t i = 0; i < w->q->launches; i++) {
    if (!(seconds[i] > 0 && seconds[i] < INFINITY)) return false;
    p->cost[i] = log(seconds[i] + w->q->launch), p->sum += weight(w, i) * p->cost[i];
  }
  w->rows++;
  return true;
}

/* ---- the way downhill ---- */

/* Is the last row clearly cheaper than `best` at some launch? */
static bool serves(const tg_price_table *w, uint32_t best) {
  const tg_priced *now = &w->row[w->rows - 1];
  for (uint32_t l = 0; l < w->q->launches; l++)
    if (now->cost[l] < w->row[best].cost[l] + log1p(-about)) return true;
  return false;
}

/* Changes one coordinate, and takes what is clearly cheaper over all launches. */
static bool step(tg_price_table *w, uint32_t axis, uint32_t *best) {
  bool moved = false;
  double clearly = log1p(-about) * weights(w, UINT32_MAX);
  for (uint32_t turn = 0; w->left; turn++) {
    int64_t next = w->q->beside(w->q->user, w->row[*best].point, axis, turn);
    if (next == TG_POINT_END) break;
    if (next == TG_POINT_SKIP) continue;
    w->left--;
    if (!price(w, (uint32_t)next)) continue;
    bool cheaper = w->row[w->rows - 1].sum < w->row[*best].sum + clearly;
    if (!cheaper && !serves(w, *best)) {
      w->rows--;
      continue;
    }
    if (!cheaper) continue;
    *best = w->rows - 1, moved = true;
    if (w->q->alternatives) clearly = 0;
  }
  return moved;
}

static void descend(tg_price_table *w) {
  uint32_t best = 0;
  for (uint32_t i = 1; i < w->rows; i++)
    if (w->row[i].sum < w->row[best].sum) best = i;
  w->left = w->q->beside ? w->q->prices : 0;
  for (bool moved = true; moved && w->left;) {
    moved = false;
    for (uint32_t a = 0; a < w->q->axes && w->left; a++) moved |= step(w, a, &best);
    if (w->q->alternatives && w->q->axes == 1) break;   /* all are priced */
  }
}

/* ---- regions ---- */

/* A box of sizes with the launches that lie in it, by bit. worst: how far the best row is from the cheapest at a
 * launch. */
typedef struct { tg_span size[TG_REGION_SIZES]; uint32_t in, best; double sum, worst; bool whole; } box;

/* How far a price is from the least at a launch; below the launch's own cost, which is no better known than that, no
 * distance. */
static double beyond(const tg_price_table *w, double cost, double least) {
  return exp(cost) - exp(least) <= w->q->launch ? 0 : cost - least;
}

/* The cheapest row in the box: of those that are nowhere far from the best, if there are some; of equal ones the first,
 * which has the least bound. */
static void judge(const tg_price_table *w, box *b) {
  double least[TG_PRICED];
  bool found = false;
  for (uint32_t l = 0; l < w->q->launches; l++) {
    least[l] = INFINITY;
    for (uint32_t i = 0; i < w->rows; i++) least[l] = fmin(least[l], w->row[i].cost[l]);
  }
  for (uint32_t i = 0; i < w->rows; i++) {
    double sum = 0, worst = 0;
    for (uint32_t l = 0; l < w->q->launches; l++) {
      if (!(b->in >> l & 1)) continue;
      sum += weight(w, l) * w->row[i].cost[l], worst = fmax(worst, beyond(w, w->row[i].cost[l], least[l]));
    }
    bool near = worst <= log1p(about);
    if (found && (b->whole > near || (b->whole == near && sum >= b->sum))) continue;
    b->best = i, b->sum = sum, b->worst = worst, b->whole = near, found = true;
  }
}

/* Divides the box behind `at` in dimension d; false: one side has no launch. */
static bool divide(const tg_price_table *w, const box *b, uint32_t d, int64_t at, box out[2]) {
  out[0] = out[1] = *b;
  out[0].size[d].hi = at, out[1].size[d].lo = at + 1, out[0].in = out[1].in = 0;
  for (uint32_t l = 0; l < w->q->launches; l++)
    if (b->in >> l & 1) out[w->q->size[l][d] > at].in |= 1u << l;
  if (!out[0].in || !out[1].in) return false;
  judge(w, &out[0]), judge(w, &out[1]);
  return true;
}

/* The division of a box, between two of its launches, that makes it cheapest; false: none is worth it. */
static bool best_division(const tg_price_table *w, const box *b, box out[2]) {
  double least = b->sum - log1p(about) * weights(w, b->in);
  bool found = false;
  for (uint32_t d = 0; d < TG_REGION_SIZES; d++)
    for (uint32_t l = 0; l < w->q->launches; l++) {
      int64_t from = w->q->size[l][d], to = INT64_MAX;
      for (uint32_t k = 0; k < w->q->launches; k++) {
        int64_t x = w->q->size[k][d];
        if (b->in >> k & 1 && x > from && x < to) to = x;
      }
      if (!(b->in >> l & 1) || to == INT64_MAX) continue;
      box two[2];   /* in the geometric middle between the two */
      int64_t at = (int64_t)sqrt((double)from * (double)to);
      if (!divide(w, b, d, at < from ? from : at >= to ? to - 1 : at, two) || two[0].sum + two[1].sum >= least)
        continue;
      least = two[0].sum + two[1].sum, found = true;
      out[0] = two[0], out[1] = two[1];
    }
  return found;
}

/* As long as there is room, the box whose choice is farthest from the cheapest somewhere is divided. */
static uint32_t regions_of(const tg_price_table *w, box out[TG_REGIONS]) {
  uint32_t n = 1, most = w->q->regions > 1 ? w->q->regions : 1;
  out[0] = (box){.in = (1u << w->q->launches) - 1};
  memcpy(out[0].size, w->q->whole, sizeof out[0].size);
  judge(w, &out[0]);
  while (n < most && n < TG_REGIONS) {
    uint32_t far = n;
    box two[2];
    for (uint32_t i = 0; i < n; i++)
      if (!out[i].whole && (far == n || out[i].worst > out[far].worst)) far = i;
    if (far == n) break;
    if (!best_division(w, &out[far], two)) {
      out[far].whole = true;
      continue;
    }
    out[far] = two[0], out[n++] = two[1];
  }
  return n;
}

uint32_t tg_price_choose(const tg_price_question *q, tg_price_table *work, tg_region out[TG_REGIONS]) {
  box by[TG_REGIONS];
  work->q = q;
  for (uint32_t i = 0; i < q->points; i++) price(work, i);
  if (!work->rows) return 0;
  descend(work);
  uint32_t n = regions_of(work, by);
  for (uint32_t i = 0; i < n; i++) {
    memcpy(out[i].size, by[i].size, sizeof out[i].size);
    out[i].point = work->row[by[i].best].point;
  }
  return n;
}

/* ---- regions as text ---- */

bool tg_region_put(char *out, size_t room, const tg_span *size, const char *choice) {
  size_t at = strlen(out);
  for (uint32_t d = 0; d < TG_REGION_SIZES && at < room; d++)
    at += (size_t)snprintf(out + at, room - at, "%lld %lld ", (long long)size[d].lo, (long long)size[d].hi);
  if (at < room) at += (size_t)snprintf(out + at, room - at, "%s\n", choice);
  return at < room;
}

bool tg_region_get(const char **text, tg_span *size, const char **choice, size_t *choice_n) {
  const char *at = *text;
  for (uint32_t d = 0; d < TG_REGION_SIZES; d++) {
    char *end;
    size[d].lo = strtoll(at, &end, 10);
    if (end == at || *end != ' ') return false;
    size[d].hi = strtoll(at = end, &end, 10);
    if (end == at || *end != ' ') return false;
    at = end + 1;
  }
  *choice = at, *choice_n = strcspn(at, "\n");
  if (at[*choice_n] != '\n') return false;
  *text = at + *choice_n + 1;
  return true;
}
