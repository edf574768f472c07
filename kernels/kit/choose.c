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

uint32_t tg_kit_choose(tg_context *c, const tg_kit_question *q) {
  /* The first stands unless another is cheaper by more than this part: prices of kernels that are as fast differ by
   * about as much (docs/model.md) */
  const double surely = 0.9;
  char text[16];
  if (q->candidates_n < 2) return 0;
  if (tg_kept_read(c, q->key, text, sizeof text)) {
    uint32_t kept = (uint32_t)strtoul(text, NULL, 10);
    return kept < q->candidates_n ? kept : 0;
  }
  if (q->kept_only || !c->compiler) return 0;
  uint32_t best = 0;
  double first = price_of(c, q, &q->candidate[0]), least = first < 0 ? HUGE_VAL : first * surely;
  for (uint32_t i = 1; i < q->candidates_n && i < TG_KIT_CANDIDATES; i++) {
    double p = price_of(c, q, &q->candidate[i]);
    if (p >= 0 && p < least) best = i, least = p;
  }
  snprintf(text, sizeof text, "%u", best);
  tg_kept_write(c, q->key, text);
  return best;
}
