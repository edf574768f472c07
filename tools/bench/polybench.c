/* SPDX-License-Identifier: MIT
 * tg bench polybench: the 30 kernels of PolyBench/C 4.2 at MEDIUM, scheduled by the heuristic alone, on one core,
 * against plain C with the
 * published loop orders (tests/polybench), compiled for this machine at -O3, and again with -ffast-math. The three take
 * turns on the same
 * memory, which is made as it was before each turn; medians of the time that the thread itself ran; results are
 * compared before. */
#define _GNU_SOURCE
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "bench/bench.h"
#include "polybench/polybench.h"

enum { TURNS_MAX = 400, TURNS_MIN = 5 };

/* One core for all: what others run on this machine does not count. */
static double thread_time(void) {
  struct timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

typedef struct {
  const polybench_case *plain, *fast;
  tg_context *ctx;
  tg_kernel *kernel;
  polybench_memory initial, now, want;
  tg_argument argument[POLYBENCH_BUFFERS];
  tg_launch launch;
} match;

static bool run_tg(match *m) {
  if (!tg_kernel_run(m->kernel, &m->launch)) return true;
  fprintf(stderr, "%s\n", tg_error_message(m->ctx));
  return false;
}

/* Of tg (0), plain C (1), with -ffast-math (2). */
static double one_turn(match *m, int who) {
  polybench_restore(m->plain, &m->now, &m->initial);
  double start = thread_time();
  if (who == 0) run_tg(m);
  else (who == 1 ? m->plain : m->fast)->run(m->now.data);
  return thread_time() - start;
}

static bool same(match *m, const char *who) {
  if (m->plain->settle) m->plain->settle(m->now.data, m->initial.data);
  for (int i = 0; i < POLYBENCH_BUFFERS && m->plain->buffer[i].role; i++) {
    int64_t where;
    if (m->plain->buffer[i].role != POLYBENCH_WRITTEN) continue;
    if (!polybench_differences(&m->plain->buffer[i], m->now.data[i], m->want.data[i], &where)) continue;
    fprintf(stderr, "tg: %s: %s differs from plain C in buffer %d at element %lld\n", m->plain->name, who, i,
            (long long)where);
    return false;
  }
  return true;
}

static bool prepare(match *m) {
  const polybench_case *c = m->plain;
  if (!polybench_allocate(c, &m->initial) || !polybench_allocate(c, &m->now) || !polybench_allocate(c, &m->want)) {
    fprintf(stderr, "tg: no memory\n");
    return false;
  }
  c->init(m->initial.data);
  tg_binding bind[6];
  uint32_t n = 0;
  for (; n < 6 && c->size[n].name; n++) bind[n] = (tg_binding){c->size[n].name, c->size[n].value, c->size[n].value, 1};
  tg_compile_options o = {.bindings = bind, .bindings_n = n};
  if (tg_kernel_compile_text(m->ctx, c->name, polybench_text_of(c->name), &o, &m->kernel)) {
    fprintf(stderr, "%s\n", tg_error_message(m->ctx));
    return false;
  }
  m->launch = (tg_launch){.buffers = m->argument, .threads = 1};
  for (int i = 0;
       i < POLYBENCH_BUFFERS && (c->buffer[i].role == POLYBENCH_READ || c->buffer[i].role == POLYBENCH_WRITTEN); i++)
    m->argument[m->launch.buffers_n++] = (tg_argument){m->now.data[i], (size_t)polybench_bytes(&c->buffer[i])};
  polybench_restore(c, &m->want, &m->initial);
  c->run(m->want.data);
  if (c->settle) c->settle(m->want.data, m->initial.data);
  polybench_restore(c, &m->now, &m->initial);
  if (!run_tg(m) || !same(m, "tg")) return false;
  one_turn(m, 2);
  return same(m, "plain C with -ffast-math");
}

/* ratio[0]: plain C's time over tg's; ratio[1]: with -ffast-math. */
static bool measure(tg_context *ctx, const tool_args *args, const polybench_case *plain, const polybench_case *fast,
                    double ratio[2]) {
  match m = {.plain = plain, .fast = fast, .ctx = ctx};
  static double sample[3][TURNS_MAX];
  bool right = prepare(&m);
  int turns = 0;
  double end = tool_now() + (args->seconds > 0 ? args->seconds : 0.5);
  for (; right && turns < TURNS_MAX && (turns < TURNS_MIN || tool_now() < end); turns++)
    for (int who = 0; who < 3; who++) sample[who][turns] = one_turn(&m, who);
  if (right) {
    double tg = tool_median(sample[0], turns), c[2] = {tool_median(sample[1], turns), tool_median(sample[2], turns)};
    tool_figure(args->json, "polybench", plain->name, "one core", tg * 1e6, "us", NULL);
    for (int k = 0; k < 2; k++) {
      ratio[k] = c[k] / tg;
      tool_figure(args->json, "polybench", plain->name, "one core", ratio[k], "ratio",
                  k ? "plain C, -ffast-math" : "plain C");
    }
  }
  if (m.kernel) tg_kernel_free(m.kernel);
  polybench_free(&m.initial), polybench_free(&m.now), polybench_free(&m.want);
  return right;
}

typedef struct { double log_all, log_rest, least; int all, rest; } summary;

static void add(summary *s, double ratio, bool blas) {
  s->log_all += log(ratio), s->all++;
  if (!blas) s->log_rest += log(ratio), s->rest++;
  if (s->all == 1 || ratio < s->least) s->least = ratio;
}

int bench_polybench(tg_context *ctx, const tool_args *args) {
  summary sum[2] = {{0}};
  int wrong = 0;
  if (!args->json) printf("plain C: %s -O3 -march=native\n", polybench_medium_compiler);
  for (int i = 0; polybench_medium[i].name; i++) {
    const polybench_case *c = &polybench_medium[i];
    double ratio[2];
    if (args->cases && !strstr(c->name, args->cases)) continue;
    if (!measure(ctx, args, c, &polybench_medium_fast[i], ratio)) wrong++;
    else
      for (int k = 0; k < 2; k++) add(&sum[k], ratio[k], c->blas);
  }
  for (int k = 0; k < 2; k++) {
    const char *of = k ? "plain C, -ffast-math" : "plain C";
    if (!sum[k].all) continue;
    tool_figure(args->json, "polybench", "all", "geometric mean", exp(sum[k].log_all / sum[k].all), "ratio", of);
    if (sum[k].rest)
      tool_figure(args->json, "polybench", "without BLAS-like", "geometric mean", exp(sum[k].log_rest / sum[k].rest),
                  "ratio", of);
    tool_figure(args->json, "polybench", "all", "least", sum[k].least, "ratio", of);
  }
  if (wrong) fprintf(stderr, "tg: %d of the kernels are wrong\n", wrong);
  return wrong ? TOOL_WRONG : TOOL_OK;
}
