/* SPDX-License-Identifier: MIT
 * Probes: short bursts of known work before and after each sample. If a probe runs slower than the best one, something
 * disturbed the machine, and the sample next to it is dropped. */
#define _GNU_SOURCE
#include <time.h>
#include "search/trial.h"

typedef float vector __attribute__((vector_size(16)));

/* Ten independent dependence chains, more than are needed to hide the latency of a multiply and an add, so that every
 * port is busy. They are separate variables, not an array, so that they stay in registers. */
static vector burst(uint32_t rounds, vector x) {
  vector m = {0.5f, 0.5f, 0.5f, 0.5f}, a = x, b = x + 1, c = x + 2, d = x + 3, e = x + 4, f = x + 5, g = x + 6,
         h = x + 7, i = x + 8, j = x + 9;
  for (uint32_t r = 0; r < rounds; r++) {
    a = a * m + x, b = b * m + x, c = c * m + x, d = d * m + x, e = e * m + x;
    f = f * m + x, g = g * m + x, h = h * m + x, i = i * m + x, j = j * m + x;
  }
  return a + b + c + d + e + f + g + h + i + j;
}

double tg_thread_now(void) {
  struct timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

double tg_probe_flops(double seconds, double (*now)(void)) {
  enum { ROUNDS = 500 };
  vector x = {1, 1, 1, 1};
  double start = now(), t;
  uint64_t done = 0;
  do {
    x = burst(ROUNDS, x * 0.25f);
    done += ROUNDS;
    t = now() - start;
  } while (t < seconds);
  volatile float kept = x[0];
  (void)kept;
  return (double)done * 10 * 4 * 2 / t;
}

double tg_probe_stream(const void *data, size_t bytes, double (*now)(void)) {
  const vector *p = data;
  vector sum[4] = {{0}};
  double start = now();
  for (size_t i = 0; i + 4 <= bytes / sizeof *p; i += 4)
    for (int k = 0; k < 4; k++) sum[k] += p[i + (size_t)k];
  volatile float kept = sum[0][0] + sum[1][0] + sum[2][0] + sum[3][0];
  (void)kept;
  return (double)bytes / (now() - start);
}
