/* SPDX-License-Identifier: MIT
 * Prices candidates, and keeps which was the cheapest. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include "kit/choose.h"

static double price_of(tg_context *c, const tg_kit_question *q, const tg_kit_candidate *k) {
  tg_binding b[TG_KIT_VALUES + TG_KIT_KNOBS];
  uint32_t n = q->bindings_n;
  if (n > TG_KIT_VALUES) return -1;
  memcpy(b, q->binding, n * sizeof *b);
  for (uint32_t i = 0; i < k->choice.knobs_n; i++) b[n++] = k->choice.knob[i];
  tg_compile_options o = {.bindings = b, .bindings_n = n, .user = q->user, .flags = TG_COMPILE_UNTUNED};
  return tg_kernel_price(c, k->def, &o, q->params, q->threads);
}

/* ---- kept answers: "SKETCH KNOB=VALUE .." ---- */

static void put_answer(char *out, size_t size, const tg_kit_choice *c) {
  int n = snprintf(out, size, "%s", c->sketch->name);
  for (uint32_t i = 0; i < c->knobs_n && n > 0 && (size_t)n < size; i++)
    n += snprintf(out + n, size - (size_t)n, " %s=%lld", c->knob[i].name, (long long)c->knob[i].lo);
}

/* The answer as values for the knobs of a candidate of that sketch. */
static bool get_answer(const char *text, const tg_kit_question *q, tg_kit_choice *out) {
  size_t name = strcspn(text, " ");
  uint32_t index = 0;
  for (; index < q->candidates_n; index++) {
    const char *sketch = q->candidate[index].choice.sketch->name;
    if (strlen(sketch) == name && !memcmp(sketch, text, name)) break;
  }
  if (index == q->candidates_n) return false;
  tg_kit_choice c = q->candidate[index].choice;
  char *end = (char *)(uintptr_t)text + name;
  for (uint32_t i = 0; i < c.knobs_n; i++) {
    size_t n = strlen(c.knob[i].name);
    if (*end++ != ' ' || strncmp(end, c.knob[i].name, n) || end[n] != '=') return false;
    c.knob[i].lo = c.knob[i].hi = strtoll(end + n + 1, &end, 10);
  }
  if (*end) return false;
  *out = c;
  return true;
}

/* ---- the way downhill ---- */

typedef struct { tg_context *c; const tg_kit_question *q; tg_kit_candidate best; double least; uint32_t left; } walk;

/* The neighbours of a value in a list. */
static void beside(const int64_t *values, int64_t x, int64_t out[2]) {
  out[0] = out[1] = 0;
  for (; *values; values++) {
    if (*values < x) out[0] = *values;
    if (*values > x && !out[1]) out[1] = *values;
  }
}

/* Changes one knob to a neighbouring value, and takes what is cheaper. */
static bool step(walk *w, const tg_kit_axis *a) {
  const double better = 0.97;   /* less is not worth a step */
  bool moved = false;
  for (uint32_t i = 0; i < w->best.choice.knobs_n; i++) {
    int64_t to[2];
    if (strcmp(w->best.choice.knob[i].name, a->knob) || w->best.choice.knob[i].lo < 1) continue;
    beside(a->values, w->best.choice.knob[i].lo, to);
    for (uint32_t k = 0; k < 2 && w->left; k++) {
      tg_kit_candidate next = w->best;
      if (!to[k]) continue;
      next.choice.knob[i].lo = next.choice.knob[i].hi = to[k];
      double p = price_of(w->c, w->q, &next);
      w->left--;
      if (p < 0 || p >= w->least * better) continue;
      w->least = p, w->best = next, moved = true;
      break;
    }
  }
  return moved;
}

static void descend(walk *w) {
  for (bool moved = true; moved && w->left;) {
    moved = false;
    for (uint32_t a = 0; a < w->q->axes_n && w->left; a++) moved |= step(w, &w->q->axis[a]);
  }
}

void tg_kit_choose(tg_context *c, const tg_kit_question *q, tg_kit_choice *out) {
  char text[256];
  *out = q->candidate[0].choice;
  if (q->candidates_n < 2) return;
  if (tg_kept_read(c, q->key, text, sizeof text) && get_answer(text, q, out)) return;
  if (q->kept_only || !c->compiler) return;
  double first = price_of(c, q, &q->candidate[0]);
  walk w = {c, q, q->candidate[0], first < 0 ? HUGE_VAL : first, q->prices};
  for (uint32_t i = 1; i < q->candidates_n && i < TG_KIT_CANDIDATES; i++) {
    double p = price_of(c, q, &q->candidate[i]);
    if (p >= 0 && p < w.least) w.best = q->candidate[i], w.least = p;
  }
  descend(&w);
  *out = w.best.choice;
  put_answer(text, sizeof text, out);
  tg_kept_write(c, q->key, text);
}
