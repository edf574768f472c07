/* SPDX-License-Identifier: MIT
 * Asks for prices of sketches with knobs, and keeps which were taken. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include "kit/choose.h"

enum { STEPS = 8 /* points priced beside others, at most */, POINTS = TG_KIT_CANDIDATES + STEPS, TEXT = 2048 };

/* On the heap: threads of callers may have small stacks. */
typedef struct {
  tg_context *c;
  const tg_kit_question *q;
  tg_kit_candidate point[POINTS];
  uint32_t points, began;      /* began: whose neighbours are wanted */
  double cheapest;             /* of the sums of the logarithms of prices */
  tg_price_table table;
  char text[TEXT];
} choosing;

/* ---- prices ---- */

static bool price(void *user, uint32_t point, double *seconds) {
  choosing *w = user;
  const tg_kit_question *q = w->q;
  const tg_kit_candidate *k = &w->point[point];
  tg_binding b[TG_KIT_VALUES + TG_KIT_KNOBS];
  const int64_t *params[TG_PRICED];
  uint32_t n = q->bindings_n, pieces[TG_PRICED];
  bool alone = q->alone && q->alone(&k->choice);
  if (n > TG_KIT_VALUES) return false;
  if (q->least && q->regions < 2 && q->least(q->of, &k->choice) >= w->cheapest) return false;
  memcpy(b, q->binding, n * sizeof *b);
  for (uint32_t i = 0; i < k->choice.knobs_n; i++) b[n++] = k->choice.knob[i];
  for (uint32_t i = 0; i < q->launches_n; i++) {
    params[i] = alone ? q->launch[i].piece : q->launch[i].params;
    pieces[i] = q->launch[i].pieces;
  }
  tg_compile_options o = {.bindings = b, .bindings_n = n, .user = q->user, .flags = TG_COMPILE_UNTUNED,
                          .cancel = q->cancel};
  const tg_launches launches = {params, q->launches_n, alone ? 1 : q->threads, NULL, alone ? pieces : NULL};
  if (!tg_kernel_price(w->c, k->def, &o, &launches, seconds)) return false;
  double sum = 0;
  for (uint32_t i = 0; i < q->launches_n; i++) {
    /* each piece makes its own copies, whose prices are the least certain */
    if (alone && q->launch[i].pieces > 1) seconds[i] = tg_price_surely_more(seconds[i]);
    seconds[i] += q->launch[i].beside[alone];
  }
  for (uint32_t i = 0; i < q->launches_n; i++)
    sum += tg_price_weight(q->likely, q->launches_n, i) * log(seconds[i]);
  if (sum < w->cheapest) w->cheapest = sum;
  return true;
}

/* The neighbour of a value in a list, below (turn 0) or above (1); 0: there is none. */
static int64_t neighbour(const int64_t *values, int64_t x, uint32_t turn) {
  int64_t below = 0;
  for (; *values; values++) {
    if (*values > x) return turn ? *values : below;
    if (*values < x) below = *values;
  }
  return turn ? 0 : below;
}

/* A point with one knob changed to a neighbouring value. */
static int64_t beside(void *user, uint32_t from, uint32_t axis, uint32_t turn) {
  choosing *w = user;
  const tg_kit_axis *a = &w->q->axis[axis];
  if (!turn) w->began = from;
  if (turn > 1 || from != w->began || w->points == POINTS) return TG_POINT_END;
  tg_kit_candidate next = w->point[from];
  for (uint32_t i = 0; i < next.choice.knobs_n; i++) {
    tg_binding *knob = &next.choice.knob[i];
    if (strcmp(knob->name, a->knob) || knob->lo < 1) continue;
    int64_t to = neighbour(a->values, knob->lo, turn);
    if (!to) return TG_POINT_SKIP;
    knob->lo = knob->hi = to;
    if (w->q->fits && !w->q->fits(&w->c->target, &next.choice)) return TG_POINT_SKIP;
    for (uint32_t k = 0; k < w->points; k++)
      if (tg_kit_same_choice(&w->point[k].choice, &next.choice)) return TG_POINT_SKIP;
    w->point[w->points] = next;
    return w->points++;
  }
  return TG_POINT_END;
}

/* ---- kept answers: a choice is "SKETCH KNOB=VALUE .." ---- */

static bool put_choice(choosing *w, const tg_kit_region *r) {
  char text[TEXT];
  int at = snprintf(text, sizeof text, "%s", r->choice.sketch->name);
  for (uint32_t k = 0; k < r->choice.knobs_n && at < TEXT; k++)
    at += snprintf(text + at, sizeof text - (size_t)at, " %s=%lld", r->choice.knob[k].name,
                   (long long)r->choice.knob[k].lo);
  return at < TEXT && tg_region_put(w->text, sizeof w->text, r->size, text);
}

/* Values for the knobs of a candidate of the sketch that is named. */
static bool get_choice(const char *text, size_t text_n, const tg_kit_question *q, tg_kit_choice *c) {
  const char *last = text + text_n;
  char *end = (char *)(uintptr_t)(text + strcspn(text, " \n"));
  uint32_t at = 0;
  for (; at < q->candidates_n; at++) {
    const char *sketch = q->candidate[at].choice.sketch->name;
    if (strlen(sketch) == (size_t)(end - text) && !memcmp(sketch, text, strlen(sketch))) break;
  }
  if (at == q->candidates_n) return false;
  *c = q->candidate[at].choice;
  for (uint32_t i = 0; i < c->knobs_n; i++) {
    size_t n = strlen(c->knob[i].name);
    if (*end++ != ' ' || strncmp(end, c->knob[i].name, n) || end[n] != '=') return false;
    c->knob[i].lo = c->knob[i].hi = strtoll(end + n + 1, &end, 10);
  }
  return end == last;
}

static uint32_t get_answer(const char *text, const tg_kit_question *q, tg_kit_region *out) {
  const char *choice;
  size_t choice_n;
  uint32_t n = 0;
  for (; *text && n < TG_REGIONS; n++)
    if (!tg_region_get(&text, out[n].size, &choice, &choice_n) || !get_choice(choice, choice_n, q, &out[n].choice))
      return 0;
  return *text ? 0 : n;
}

/* ---- the choice ---- */

static uint32_t kept(choosing *w, const char *key, tg_kit_region *out) {
  return key && tg_kept_read(w->c, key, w->text, sizeof w->text) ? get_answer(w->text, w->q, out) : 0;
}

static uint32_t choose(choosing *w, tg_kit_region *out) {
  const tg_kit_question *q = w->q;
  uint32_t n = kept(w, q->key, out);
  if (n) return n;
  if (q->kept_only || !w->c->compiler) return kept(w, q->any, out);
  tg_price_question ask = {.price = price,
                           .beside = beside,
                           .user = w,
                           .axes = q->axes_n,
                           .prices = q->prices < STEPS ? q->prices : STEPS,
                           .launches = q->launches_n,
                           .likely = q->likely,
                           .regions = q->regions};
  w->cheapest = INFINITY;
  for (; w->points < q->candidates_n && w->points < TG_KIT_CANDIDATES; w->points++)
    w->point[w->points] = q->candidate[w->points];
  ask.points = w->points;
  memcpy(ask.whole, q->whole, sizeof ask.whole);
  for (uint32_t i = 0; i < q->launches_n; i++) memcpy(ask.size[i], q->launch[i].size, sizeof ask.size[i]);
  tg_region by[TG_REGIONS];
  n = tg_price_choose(&ask, &w->table, by);
  bool room = !tg_flag_is_set(q->cancel);   /* else some have no price, and the choice is for nobody to keep */
  w->text[0] = 0;
  for (uint32_t i = 0; i < n; i++) {
    memcpy(out[i].size, by[i].size, sizeof out[i].size);
    out[i].choice = w->point[by[i].point].choice;
    room = room && put_choice(w, &out[i]);
  }
  if (n && room) tg_kept_write(w->c, q->key, w->text);
  if (n && room && q->any) tg_kept_write(w->c, q->any, w->text);
  return n;
}

uint32_t tg_kit_choose(tg_context *c, const tg_kit_question *q, tg_kit_region out[TG_REGIONS]) {
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

bool tg_kit_takes_first(tg_context *c, const tg_kit_question *q) {
  if (!q->kept_only && c->compiler) return false;
  choosing *w = tg_kit_new(c, sizeof *w);
  if (!w) return true;
  bool found = q->key && tg_kept_read(c, q->key, w->text, sizeof w->text);
  found = found || (q->any && tg_kept_read(c, q->any, w->text, sizeof w->text));
  tg_kit_delete(c, w, sizeof *w);
  return !found;
}
