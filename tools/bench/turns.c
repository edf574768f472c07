/* SPDX-License-Identifier: MIT
 * Two ways to do one thing, timed in turns, and the bursts that tell whether a sample counts. */
#define _GNU_SOURCE
#include "bench/turns.h"
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>
#include "bench/bench.h"
#include "bench/machine.h"

enum { PAIRS_MOST = 200 };
static const double shortest = 0.002;   /* seconds of a sample */

double bench_clock(int threads) {
  struct timespec t;
  clock_gettime(threads == 1 ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void *probe_other(void *peak) {
  *(double *)peak = bench_fma_peak(0.0005);
  return NULL;
}

double bench_probe(int threads) {
  pthread_t id[16];
  double peak[16], least = 0;
  int n = threads < 16 ? threads : 16;
  for (int i = 1; i < n; i++)
    if (pthread_create(&id[i], NULL, probe_other, &peak[i])) n = i;
  peak[0] = bench_fma_peak(0.0005);
  for (int i = 1; i < n; i++) pthread_join(id[i], NULL);
  for (int i = 0; i < n; i++) least = i && least < peak[i] ? least : peak[i];
  return least * threads;
}

/* ---- bursts that begin together ---- */

enum { THREADS_MOST = 16 };
typedef struct { atomic_int *ready; atomic_bool *go; double seconds, peak; } together;

static void *burst_with_others(void *arg) {
  together *t = arg;
  bench_fma_peak(0.002);   /* warm: a core that slept takes a while to reach its clock rate */
  atomic_fetch_add(t->ready, 1);
  while (!atomic_load(t->go)) {
  }
  t->peak = bench_fma_peak(t->seconds);
  return NULL;
}

double bench_peak(int threads, double burst) {
  pthread_t id[THREADS_MOST];
  together each[THREADS_MOST];
  atomic_int ready = 0;
  atomic_bool go = false;
  int n = threads < THREADS_MOST ? threads : THREADS_MOST;
  for (int i = 0; i < n; i++) each[i] = (together){&ready, &go, burst, 0};
  for (int i = 1; i < n; i++)
    if (pthread_create(&id[i], NULL, burst_with_others, &each[i])) n = i;
  bench_fma_peak(0.002);
  while (atomic_load(&ready) < n - 1) {
  }
  atomic_store(&go, true);
  double least = bench_fma_peak(burst);
  for (int i = 1; i < n; i++) {
    pthread_join(id[i], NULL);
    least = fmin(least, each[i].peak);
  }
  return least * threads;
}

double bench_interval(int n) { return n > 1 ? 1.96 + 2.4 / (n - 1) : 12.7; }   /* Student's quantile, near enough */

bool bench_change_sides(const bench_side *side, int threads) {
  static const struct timespec rest = {.tv_nsec = 20000000};
  static const double awake = 0.006;
  if (threads == 1) return true;
  nanosleep(&rest, NULL);
  double start = tool_now();
  for (int i = 0; i < 2 || tool_now() < start + awake; i++)
    if (!side->run(side->user)) return false;
  return true;
}

typedef struct { double seconds, probe; } sample;

typedef struct {
  bench_side side[2];
  const bench_contest *of;
  int repeat[2], threads, n;
  double *peak;
  sample pair[PAIRS_MOST][2];
} turns;

static double probe(const turns *t) {
  return t->of->burst > 0 ? bench_peak(t->threads, t->of->burst) : bench_probe(t->threads);
}

static double time_side(const turns *t, int side) {
  if (t->of->timed[side]) {
    double seconds = t->of->timed[side](t->side[side].user, t->repeat[side]);
    return seconds < 0 ? -1 : seconds / t->repeat[side];
  }
  double start = bench_clock(t->threads);
  for (int i = 0; i < t->repeat[side]; i++)
    if (!t->side[side].run(t->side[side].user)) return -1;
  return (bench_clock(t->threads) - start) / t->repeat[side];
}

/* Between the burst before it, which was made, and one behind it. */
static bool take(turns *t, int side, double *before, sample *out) {
  if (!bench_change_sides(&t->side[side], t->threads)) return false;
  out->seconds = time_side(t, side);
  double behind = probe(t);
  out->probe = behind < *before ? behind : *before;
  *before = behind;
  if (behind > *t->peak) *t->peak = behind;
  return out->seconds > 0;
}

static bool abba(turns *t) {
  double before = probe(t);
  sample *first = t->pair[t->n], *second = t->pair[t->n + 1];
  bool good = take(t, 0, &before, &first[0]) && take(t, 1, &before, &first[1]) && take(t, 1, &before, &second[1]) &&
              take(t, 0, &before, &second[0]);
  t->n += good ? 2 : 0;
  return good;
}

static double burst_of(const sample *p) { return fmin(p[0].probe, p[1].probe); }

static int falling(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x < y) - (x > y);
}

double bench_least_burst(double *bursts, int n, double peak, int *quiet) {
  enum { QUIETEST = 12 };
  static const double dip = 0.03;
  double least = peak * (1 - dip);
  qsort(bursts, (size_t)n, sizeof *bursts, falling);
  for (*quiet = 0; *quiet < n && bursts[*quiet] >= least;) ++*quiet;
  return *quiet >= QUIETEST || !n ? least : fmin(least, bursts[(n < QUIETEST ? n : QUIETEST) - 1]);
}

static void judge(const turns *t, bench_ratio *out) {
  double sum = 0, square = 0, seconds[2][PAIRS_MOST], burst[2][PAIRS_MOST], bursts[PAIRS_MOST];
  *out = (bench_ratio){0};
  for (int i = 0; i < t->n; i++) bursts[i] = burst_of(t->pair[i]);
  double least = bench_least_burst(bursts, t->n, *t->peak, &out->quiet);
  for (int i = 0; i < t->n; i++) {
    const sample *p = t->pair[i];
    if (burst_of(p) < least) continue;
    double l = log(p[0].seconds / p[1].seconds);
    sum += l, square += l * l;
    for (int k = 0; k < 2; k++)
      seconds[k][out->kept] = p[k].seconds, burst[k][out->kept] = p[k].seconds * p[k].probe;
    out->kept++;
  }
  out->dropped = t->n - out->kept;
  if (!out->kept) return;
  double mean = sum / out->kept,
         error = out->kept > 1 ? sqrt(fmax(0, square - sum * mean) / (out->kept - 1) / out->kept) : 1,
         half = bench_interval(out->kept) * error;
  out->ratio = exp(mean), out->least = exp(mean - half), out->most = exp(mean + half);
  for (int i = 0; i < 2; i++) {
    out->seconds[i] = tool_median(seconds[i], out->kept);
    out->burst[i] = tool_median(burst[i], out->kept);
  }
}

bool bench_turns(bench_side a, bench_side b, int threads, double seconds, double *peak, bench_ratio *out) {
  return bench_contest_run(&(bench_contest){.side = {a, b}, .threads = threads, .seconds = seconds}, peak, out);
}

bool bench_contest_run(const bench_contest *c, double *peak, bench_ratio *out) {
  turns t = {.side = {c->side[0], c->side[1]}, .of = c, .repeat = {1, 1}, .threads = c->threads, .peak = peak};
  double end = tool_now() + c->seconds;
  for (int i = 0; i < 2; i++) {
    double once = time_side(&t, i);
    for (once = time_side(&t, i); once >= 0 && once * t.repeat[i] < shortest && t.repeat[i] < 1 << 24;
         once = time_side(&t, i))
      t.repeat[i] *= 2;
    if (once < 0) return false;
  }
  for (*out = (bench_ratio){0}; out->quiet < BENCH_PAIRS_LEAST && t.n + 2 <= PAIRS_MOST && (!t.n || tool_now() < end);
       judge(&t, out))
    if (!abba(&t)) return false;
  return true;
}
