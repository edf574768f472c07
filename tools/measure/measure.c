/* SPDX-License-Identifier: MIT
 * The clock of tg measure, its bursts, and how their samples become a figure. */
#include <stdlib.h>
#include "measure/measure.h"

enum { CHAIN = 16, CHAINS = 2500, SAMPLES = 2000, FEWEST = 3 };

/* Dependent additions of registers, n times CHAIN of them. Additions of constants would not do: some processors
 * do several of them at once. */
static void chain(int64_t n) {
  uint64_t x = 1, y = 3;
#define ADD(i) __asm__ volatile("add %1, %0" : "+r"(x) : "r"(y));
#if defined(__aarch64__)
#undef ADD
#define ADD(i) __asm__ volatile("add %0, %0, %1" : "+r"(x) : "r"(y));
#elif !defined(__x86_64__)
#undef ADD
#define ADD(i) x += y; __asm__ volatile("" : "+r"(x));
#endif
  for (; n; n--) {
    ADD(0) ADD(1) ADD(2) ADD(3) ADD(4) ADD(5) ADD(6) ADD(7)
    ADD(8) ADD(9) ADD(10) ADD(11) ADD(12) ADD(13) ADD(14) ADD(15)
  }
#undef ADD
}

static double chain_seconds(void) {
  double t = tg_now();
  chain(CHAINS);
  return tg_now() - t;
}

double measure_clock(void) {
  double samples[9];
  for (uint32_t i = 0; i < TG_COUNT(samples); i++) samples[i] = chain_seconds();
  return CHAIN * CHAINS / (measure_quantile(samples, TG_COUNT(samples), 0.3) * 1e9);
}

static int by_value(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

double measure_quantile(double *samples, uint32_t n, double share) {
  qsort(samples, n, sizeof *samples, by_value);
  return samples[(uint32_t)(share * (n - 1))];
}

/* How many passes take about 30 us. */
static int64_t passes_of(measure_body *body, void *memory) {
  int64_t n = 1;
  for (; n < 1 << 24; n *= 2) {
    double t = tg_now();
    body(n, memory);
    if (tg_now() - t > 30e-6) break;
  }
  return n;
}

/* The best of the rounds so far. */
static double keep(measure *m, double cycles) {
  if (m->probes >= MEASURE_MOST) return cycles;
  double *best = &m->best[m->probes++];
  m->better |= *best > 0 && cycles < 0.97 * *best;
  if (!(*best > 0) || cycles < *best) *best = cycles;
  return *best;
}

/* The chain at its fastest in this probe and the last few: a neighbour on the same core slows additions too, for
 * seconds, and then a body that it does not slow would seem to take fewer cycles than it does. If the clock has
 * become slower since then, the body seems to take more, which another round puts right. */
static double clock_of(measure *m, double fastest) {
  uint32_t slot = m->probes % TG_COUNT(m->chain);
  m->chain[slot] = fastest;
  for (uint32_t i = 0; i < TG_COUNT(m->chain); i++)
    if (m->chain[i] > 0) fastest = fmin(fastest, m->chain[i]);
  return fastest / (CHAIN * CHAINS);
}

double measure_cycles(measure *m, double seconds, measure_body *body, void *memory, int64_t n) {
  double samples[SAMPLES], fastest = INFINITY, end = tg_now() + seconds;
  uint32_t taken = 0;
  if (!n) n = passes_of(body, memory);
  while ((taken < SAMPLES && tg_now() < end) || taken < FEWEST) {
    fastest = fmin(fastest, chain_seconds());
    double t = tg_now();
    body(n, memory);
    samples[taken++] = tg_now() - t;
  }
  return keep(m, measure_quantile(samples, taken, 0.1) / clock_of(m, fastest) / (double)n);
}

/* Above one, halves: a machine does 1.5 per cycle if every other one takes two ports. Below, one in so many cycles. */
double measure_rate(double per_cycle) {
  return per_cycle >= 0.95 ? measure_halves(per_cycle) : 1 / measure_count(1 / per_cycle);
}

double measure_count(double cycles) { return floor(cycles + 0.5); }

double measure_halves(double cycles) { return floor(2 * cycles + 0.5) / 2; }
