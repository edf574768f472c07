/* SPDX-License-Identifier: MIT
 * Is one kernel faster than another? Each sample is the logarithm of the ratio of two times taken one right after the
 * other, so slow drift of the clock cancels. The confidence interval is that of the median, by order statistics, so a
 * few samples disturbed by other work do not move it. */
#include <math.h>
#include <stdlib.h>
#include "search/trial.h"

static int by_value(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

/* The largest k such that the true median lies outside of [k-th smallest, k-th largest] of n samples with a probability
 * of at most `tail` on each side; 0: none. */
static uint32_t rank_of(uint32_t n, double tail) {
  double p = pow(0.5, n), below = 0;
  uint32_t k = 0;
  for (; k < n / 2; k++) {
    below += p;                       /* P(at most k samples below the median) */
    if (below > tail) break;
    p = p * (double)(n - k) / (double)(k + 1);
  }
  return k;
}

static tg_verdict_of_times interval(const double *gain, uint32_t n, double margin, double tail) {
  double sorted[TG_QUADS];
  tg_verdict_of_times v = {.low = -INFINITY, .high = INFINITY};
  if (n > TG_QUADS) n = TG_QUADS;
  if (!n) return v;
  memcpy(sorted, gain, n * sizeof *sorted);
  qsort(sorted, n, sizeof *sorted, by_value);
  v.gain = n % 2 ? sorted[n / 2] : (sorted[n / 2 - 1] + sorted[n / 2]) / 2;
  uint32_t k = rank_of(n, tail);
  if (!k) return v;
  v.low = sorted[k - 1];
  v.high = sorted[n - k];
  v.faster = v.low > margin;
  v.slower = v.high < margin;
  return v;
}

tg_verdict_of_times tg_decide(const double *gain, uint32_t n, double margin) {
  return interval(gain, n, margin, 0.025);
}

static bool all_below(const double *gain, uint32_t n, double most) {
  for (uint32_t i = 0; i < n; i++)
    if (gain[i] >= most) return false;
  return true;
}

bool tg_hopeless(const double *gain, uint32_t n) {
  static const double out_of_sight = -1, far = -0.4, behind = -0.02;
  return (n && all_below(gain, n, out_of_sight)) || (n >= 2 && all_below(gain, n, far)) ||
         (n >= 4 && all_below(gain, n, behind));
}

bool tg_behind(const double *gain, uint32_t n, double margin) {
  return (n >= 2 && all_below(gain, n, -margin)) || (n >= 3 && interval(gain, n, margin, 0.5).gain < 0);
}

/* Called after each sample, and repeated tests find false gains more often: so stopping early for a gain needs a much
 * stricter level (0.0001) than the verdict at the end (0.025). */
bool tg_decided(const double *gain, uint32_t n, double margin) {
  return tg_hopeless(gain, n) ||
         (n >= 6 && (interval(gain, n, margin, 0.025).slower || interval(gain, n, margin, 0.0001).faster));
}
