/* SPDX-License-Identifier: MIT
 * Prices candidates at each launch of a question, divides the sizes among the cheapest, and keeps which they were. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include "kit/choose.h"

/* One that was priced: logarithms of seconds, by launch, so that sums of them compare geometric means. */
typedef struct { tg_kit_candidate of; double cost[TG_KIT_PRICED], sum; } priced;

enum { STEPS = 8 /* of the way downhill, at most */, ROWS = TG_KIT_CANDIDATES + STEPS, TEXT = 2048 };

/* On the heap: threads of callers may have small stacks. */
typedef struct {
  tg_context *c;
  const tg_kit_question *q;
  priced row[ROWS];
  uint32_t rows, left;
  char text[TEXT];
} choosing;

/* ---- prices ---- */

/* Prices a candidate as the next row; false: it cannot be compiled. */
static bool price(choosing *w, const tg_kit_candidate *k) {
  const tg_kit_question *q = w->q;
  tg_binding b[TG_KIT_VALUES + TG_KIT_KNOBS];
  const int64_t *params[TG_KIT_PRICED];
  double seconds[TG_KIT_PRICED];
  uint32_t n = q->bindings_n;
  if (n > TG_KIT_VALUES || w->rows == ROWS) return false;
  memcpy(b, q->binding, n * sizeof *b);
  for (uint32_t i = 0; i < k->choice.knobs_n; i++) b[n++] = k->choice.knob[i];
  for (uint32_t i = 0; i < q->launches_n; i++) params[i] = q->launch[i].params;
  tg_compile_options o = {.bindings = b, .bindings_n = n, .user = q->user, .flags = TG_COMPILE_UNTUNED};
  const tg_launches launches = {params, q->launches_n, q->threads};
  if (!tg_kernel_price(w->c, k->def, &o, &launches, seconds)) return false;
  priced *p = &w->row[w->rows];
  *p = (priced){.of = *k};
  for (uint32_t i = 0; i < q->launches_n; i++) {
    if (!(seconds[i] > 0)) return false;
    p->cost[i] = log(seconds[i]), p->sum += p->cost[i];
  }
  w->rows++;
  return true;
}

/* ---- the way downhill ---- */

/* The neighbours of a value in a list. */
static void beside(const int64_t *values, int64_t x, int64_t out[2]) {
  out[0] = out[1] = 0;
  for (; *values; values++) {
    if (*values < x) out[0] = *values;
    if (*values > x && !out[1]) out[1] = *values;
  }
}

static const double better = 0.97;   /* less is not worth a step */

/* Is the last row cheaper by a step than `best` at some launch? */
static bool serves(const choosing *w, uint32_t best) {
  const priced *now = &w->row[w->rows - 1];
  for (uint32_t l = 0; l < w->q->launches_n; l++)
    if (now->cost[l] < w->row[best].cost[l] + log(better)) return true;
  return false;
}

/* Changes one knob to a neighbouring value, and takes what is cheaper over all launches. */
static bool step(choosing *w, const tg_kit_axis *a, uint32_t *best) {
  bool moved = false;
  for (uint32_t i = 0; i < w->row[*best].of.choice.knobs_n; i++) {
    const tg_binding *knob = &w->row[*best].of.choice.knob[i];
    int64_t to[2];
    if (strcmp(knob->name, a->knob) || knob->lo < 1) continue;
    beside(a->values, knob->lo, to);
    for (uint32_t k = 0; k < 2 && w->left; k++) {
      tg_kit_candidate next = w->row[*best].of;
      if (!to[k]) continue;
      next.choice.knob[i].lo = next.choice.knob[i].hi = to[k];
      w->left--;
      if (!price(w, &next)) continue;
      if (!serves(w, *best)) {
        w->rows--;
        continue;
      }
      if (w->row[w->rows - 1].sum >= w->row[*best].sum + log(better) * w->q->launches_n) continue;
      *best = w->rows - 1, moved = true;
      break;
    }
  }
  return moved;
}

static void descend(choosing *w) {
  uint32_t best = 0;
  for (uint32_t i = 1; i < w->rows; i++)
    if (w->row[i].sum < w->row[best].sum) best = i;
  w->left = w->q->prices < STEPS ? w->q->prices : STEPS;
  for (bool moved = true; moved && w->left;) {
    moved = false;
    for (uint32_t a = 0; a < w->q->axes_n && w->left; a++) moved |= step(w, &w->q->axis[a], &best);
  }
}

/* ---- regions ---- */

/* A box of sizes with the launches that lie in it, by bit. worst: how far the best row is from the cheapest at a
 * launch. */
typedef struct { tg_kit_dim size[TG_KIT_SIZES]; uint32_t in, best; double sum, worst; bool whole; } box;

/* The cheapest row in the box: of those that are nowhere far from the best, if there are some; of equal ones the first,
 * which has the least bound. */
static void judge(const choosing *w, box *b) {
  static const double about = 0.05;   /* prices as near as that are about the same: what the model cannot tell */
  double least[TG_KIT_PRICED];
  bool found = false;
  for (uint32_t l = 0; l < w->q->launches_n; l++) {
    least[l] = INFINITY;
    for (uint32_t i = 0; i < w->rows; i++) least[l] = fmin(least[l], w->row[i].cost[l]);
  }
  for (uint32_t i = 0; i < w->rows; i++) {
    double sum = 0, worst = 0;
    for (uint32_t l = 0; l < w->q->launches_n; l++) {
      if (!(b->in >> l & 1)) continue;
      sum += w->row[i].cost[l], worst = fmax(worst, w->row[i].cost[l] - least[l]);
    }
    bool near = worst <= log1p(about);
    if (found && (b->whole > near || (b->whole == near && sum >= b->sum))) continue;
    b->best = i, b->sum = sum, b->worst = worst, b->whole = near, found = true;
  }
}

/* Divides the box behind `at` in dimension d; false: one side has no launch. */
static bool divide(const choosing *w, const box *b, uint32_t d, int64_t at, box out[2]) {
  out[0] = out[1] = *b;
  out[0].size[d].hi = at, out[1].size[d].lo = at + 1, out[0].in = out[1].in = 0;
  for (uint32_t l = 0; l < w->q->launches_n; l++)
    if (b->in >> l & 1) out[w->q->launch[l].size[d] > at].in |= 1u << l;
  if (!out[0].in || !out[1].in) return false;
  judge(w, &out[0]), judge(w, &out[1]);
  return true;
}

/* A kernel more, which must be compiled, shall make the launches of its box faster by as much, in the mean. */
static const double worth_it = 0.02;

/* The division of a box, between two of its launches, that makes it cheapest; false: none is worth it. */
static bool best_division(const choosing *w, const box *b, box out[2]) {
  double least = b->sum - log1p(worth_it) * __builtin_popcount(b->in);
  bool found = false;
  for (uint32_t d = 0; d < TG_KIT_SIZES; d++)
    for (uint32_t l = 0; l < w->q->launches_n; l++) {
      int64_t from = w->q->launch[l].size[d], to = INT64_MAX;
      for (uint32_t k = 0; k < w->q->launches_n; k++) {
        int64_t x = w->q->launch[k].size[d];
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
static uint32_t regions_of(const choosing *w, box out[TG_KIT_REGIONS]) {
  uint32_t n = 1, most = w->q->regions > 1 ? w->q->regions : 1;
  out[0] = (box){.in = (1u << w->q->launches_n) - 1};
  memcpy(out[0].size, w->q->whole, sizeof out[0].size);
  judge(w, &out[0]);
  while (n < most && n < TG_KIT_REGIONS) {
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

/* ---- kept answers: a region is "LO HI .. SKETCH KNOB=VALUE ..;" ---- */

static void put_answer(char *out, const tg_kit_region *r, uint32_t n) {
  size_t at = 0;
  *out = 0;
#define PUT(...) (at < TEXT ? at += (size_t)snprintf(out + at, TEXT - at, __VA_ARGS__) : 0)
  for (uint32_t i = 0; i < n; i++) {
    for (uint32_t d = 0; d < TG_KIT_SIZES; d++)
      PUT("%lld %lld ", (long long)r[i].size[d].lo, (long long)r[i].size[d].hi);
    PUT("%s", r[i].choice.sketch->name);
    for (uint32_t k = 0; k < r[i].choice.knobs_n; k++)
      PUT(" %s=%lld", r[i].choice.knob[k].name, (long long)r[i].choice.knob[k].lo);
    PUT(";");
  }
#undef PUT
  if (at >= TEXT) *out = 0;
}

/* Values for the knobs of a candidate of the sketch that is named. */
static bool get_choice(char **text, const tg_kit_question *q, tg_kit_choice *c) {
  char *end = *text + strcspn(*text, " ;");
  uint32_t at = 0;
  for (; at < q->candidates_n; at++) {
    const char *sketch = q->candidate[at].choice.sketch->name;
    if (strlen(sketch) == (size_t)(end - *text) && !memcmp(sketch, *text, strlen(sketch))) break;
  }
  if (at == q->candidates_n) return false;
  *c = q->candidate[at].choice;
  for (uint32_t i = 0; i < c->knobs_n; i++) {
    size_t n = strlen(c->knob[i].name);
    if (*end++ != ' ' || strncmp(end, c->knob[i].name, n) || end[n] != '=') return false;
    c->knob[i].lo = c->knob[i].hi = strtoll(end + n + 1, &end, 10);
  }
  if (*end != ';') return false;
  *text = end + 1;
  return true;
}

static uint32_t get_answer(char *text, const tg_kit_question *q, tg_kit_region *out) {
  uint32_t n = 0;
  while (*text && n < TG_KIT_REGIONS) {
    for (uint32_t d = 0; d < TG_KIT_SIZES; d++) {
      out[n].size[d].lo = strtoll(text, &text, 10);
      out[n].size[d].hi = strtoll(text, &text, 10);
    }
    if (*text++ != ' ' || !get_choice(&text, q, &out[n++].choice)) return 0;
  }
  return *text ? 0 : n;
}

/* ---- the choice ---- */

static uint32_t choose(choosing *w, tg_kit_region *out) {
  const tg_kit_question *q = w->q;
  uint32_t n = tg_kept_read(w->c, q->key, w->text, sizeof w->text) ? get_answer(w->text, q, out) : 0;
  if (n || q->kept_only || !w->c->compiler) return n;
  for (uint32_t i = 0; i < q->candidates_n && i < TG_KIT_CANDIDATES; i++) price(w, &q->candidate[i]);
  if (!w->rows) return 0;
  descend(w);
  box by[TG_KIT_REGIONS];
  n = regions_of(w, by);
  for (uint32_t i = 0; i < n; i++) {
    memcpy(out[i].size, by[i].size, sizeof out[i].size);
    out[i].choice = w->row[by[i].best].of.choice;
  }
  put_answer(w->text, out, n);
  if (*w->text) tg_kept_write(w->c, q->key, w->text);
  return n;
}

uint32_t tg_kit_choose(tg_context *c, const tg_kit_question *q, tg_kit_region out[TG_KIT_REGIONS]) {
  bool alone = q->candidates_n < 2;
  choosing *w = alone ? NULL : tg_kit_new(c, sizeof *w);
  uint32_t n = 0;
  if (w) w->c = c, w->q = q, n = choose(w, out);
  if (w) tg_kit_delete(c, w, sizeof *w);
  if (n) return n;
  out[0].choice = q->candidate[0].choice;
  memcpy(out[0].size, q->whole, sizeof out[0].size);
  return 1;
}
