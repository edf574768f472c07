/* SPDX-License-Identifier: MIT
 * Two ways to do one thing, timed in turns: a, b, b, a. Each sample lies between two bursts of FMAs and is dropped, and
 * counted, when one of them is more than 3 % under
 * the largest of the run: the processor was slower, or somebody else's. Where hardly any pair is as quiet, the twelve
 * quietest count. */
#ifndef TG_BENCH_TURNS_H
#define TG_BENCH_TURNS_H
#include <stdbool.h>

/* One thread: its own time, so that what else runs on the machine does not count. More: the clock. */
double bench_clock(int threads);
/* FLOP/s in f32 of so many threads at a time, the slowest counted for all. */
double bench_probe(int threads);
/* Half of a 95 % interval of a mean of n values, in standard errors. */
double bench_interval(int n);

enum { BENCH_PAIRS_LEAST = 15 };   /* quiet ones that a figure wants */
/* The slowest burst beside which a pair counts: within 3 % of the peak; where hardly any pair is, that of the
 * twelfth quietest. Sorts the bursts, the slower of each pair's. */
double bench_least_burst(double *bursts, int n, double peak, int *quiet);

typedef struct bench_side { bool (*run)(void *user); void *user; } bench_side;

/* Before a sample of a side on several threads. The other side's may go on spinning for a while, on a core that this
 * side needs, and its own sleep by then; a core of a virtual machine may take a millisecond to wake: this waits, and
 * has them at work. False: the side failed. */
bool bench_change_sides(const bench_side *side, int threads);

/* time of a / time of b: geometric mean of pairs with its 95 % interval; medians of seconds, and of what the bursts
 * beside would have computed meanwhile, in FLOPs of f32. */
typedef struct bench_ratio {
  double ratio, least, most, seconds[2], burst[2];
  int kept, dropped, quiet; /* of the kept: with no dip beside them */
} bench_ratio;

/* For about so many seconds, or until there are 15 pairs that count. peak: the largest burst of the run so far.
 * False: a side failed. */
bool bench_turns(bench_side a, bench_side b, int threads, double seconds, double *peak, bench_ratio *out);

/* The same with bursts that all threads begin together, warm, and that take `burst` seconds. */
double bench_peak(int threads, double burst);
typedef struct bench_contest {
  bench_side side[2];
  /* seconds of so many runs by the side's own clock, as of a peer in a process of its own; -1: it failed. NULL: the
   * side is timed here */
  double (*timed[2])(void *user, int repeat);
  int threads;
  double seconds, burst;   /* burst 0: those of bench_turns */
} bench_contest;
bool bench_contest_run(const bench_contest *c, double *peak, bench_ratio *out);
#endif
