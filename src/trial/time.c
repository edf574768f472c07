/* SPDX-License-Identifier: MIT
 * Times two kernels in alternation. A sample is a quad: incumbent, candidate, candidate, incumbent, or the other way
 * round, with a probe (a short burst of known work) before and after it. A quad whose probes ran slower than the best
 * probe of this comparison is dropped and counted. The candidate's last output is compared too, so that the code that
 * was timed is known to be correct. */
#define _GNU_SOURCE
#include <math.h>
#include <stdlib.h>
#include <sys/mman.h>
#include "trial/trial.h"

enum { BIG_PAGE = 2 << 20, RUNS = 4096, FEW = 12, TRIES = 2 * TG_QUADS, MAPS = 2 * TRIAL_BUFFERS + 1 };
static const double dip = 0.97, margin = 0.01, least_sample = 100e-6, long_sample = 5e-3,
                    warm_sample = 50e-3 /* seconds next to which a first run's overhead is negligible */;

typedef struct {
  tg_trial_state *s;
  tg_env *env;
  tg_argument args[TRIAL_BUFFERS];
  void *copy[TRIAL_BUFFERS];     /* initial contents of operands both read and written; else NULL */
  void *stream;                  /* memory that the probe reads; NULL: the probe is arithmetic */
  size_t stream_bytes;
  double best_probe;
  tg_kernel *trial, *against;
  tg_there there;          /* copies of args, if the kernels run on a device */
  bool on_device;
  tg_task *task;
  void *map[MAPS];
  size_t size[MAPS];
  uint32_t maps;
} timing;

/* With one thread, that thread's CPU time, so that interruptions by other processes do not count. */
static double now(const timing *t) { return t->s->threads > 1 ? tg_now() : tg_thread_now(); }

static void *pages(timing *t, size_t bytes) {
  size_t size = (bytes + BIG_PAGE - 1) / BIG_PAGE * BIG_PAGE + BIG_PAGE;
  char *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (p == MAP_FAILED) tg_fail(t->env, TG_ENOMEM, "no memory for the operands");
  t->map[t->maps] = p;
  t->size[t->maps++] = size;
  p += (BIG_PAGE - (uintptr_t)p % BIG_PAGE) % BIG_PAGE;
  madvise(p, bytes, MADV_HUGEPAGE);
  return p;
}

static void restore(timing *t) {
  for (uint32_t b = 0; b < t->s->n && t->on_device; b++)
    if (t->copy[b])
      tg_trial_expect(t->s, t->env,
                      tg_device_copy(t->s->opened, t->there.args[b].data, t->copy[b], t->args[b].bytes));
  for (uint32_t b = 0; b < t->s->n && !t->on_device; b++)
    if (t->copy[b]) memcpy(t->args[b].data, t->copy[b], t->args[b].bytes);
}

static bool restores(const timing *t) {
  for (uint32_t b = 0; b < t->s->n; b++)
    if (t->copy[b]) return true;
  return false;
}

static void set_up(timing *t) {
  tg_trial_state *s = t->s;
  double bytes = 0;
  for (uint32_t b = 0; b < s->n; b++) {
    const tg_trial_operand *o = &s->op[b];
    t->args[b] = (tg_argument){pages(t, o->bytes), o->bytes};
    if (o->read) tg_trial_fill(s, b, s->asked[TRIAL_RANDOM] ? TRIAL_RANDOM : TRIAL_EXACT, t->args[b].data);
    else memset(t->args[b].data, 0xff, o->bytes);
    if (o->read && o->written) memcpy(t->copy[b] = pages(t, o->bytes), t->args[b].data, o->bytes);
    bytes += (double)o->bytes;
  }
  if (t->on_device) tg_trial_there_open(s, t->env, t->args, &t->there);
  else if (bytes > 2.0 * (double)s->ctx->target.l2 && s->work.ops < 8 * bytes) { /* memory-bound: so is its probe */
    t->stream_bytes = 4u << 20;
    t->stream = pages(t, t->stream_bytes);
    memset(t->stream, 1, t->stream_bytes);
  }
}

/* A device's clock is watched by the turns that the kernels take, with no probe. */
static double probe(timing *t, double seconds) {
  if (t->on_device) return t->best_probe = 1;
  double (*clock)(void) = t->s->threads > 1 ? tg_now : tg_thread_now;
  /* warm up: the first part, right after other code, runs slower */
  if (!t->stream) tg_probe_flops(seconds / 4, clock);
  double p = t->stream ? tg_probe_stream(t->stream, t->stream_bytes, clock) : tg_probe_flops(seconds, clock);
  if (p > t->best_probe) t->best_probe = p;
  return p;
}

/* Seconds of a run, as the mean of `inner` runs. Inputs that a run changes are restored while the clock is stopped. */
static double sample(timing *t, tg_kernel *k, uint32_t inner) {
  tg_launch l = {.buffers = t->args,
                 .buffers_n = t->s->n,
                 .params = t->s->params,
                 .params_n = t->s->params_n,
                 .threads = t->s->threads};
  double total = 0, start = 0;
  bool each = restores(t);
  if (t->on_device && !each) return tg_trial_there_run(t->s, t->env, k, t->there.args, inner);
  for (uint32_t i = 0; i < inner && t->on_device; i++)
    restore(t), total += tg_trial_there_run(t->s, t->env, k, t->there.args, 1);
  if (t->on_device) return total / inner;
  if (!each) start = now(t);
  for (uint32_t i = 0; i < inner; i++) {
    if (each) restore(t), start = now(t);
    tg_trial_expect(t->s, t->env, tg_kernel_run(k, &l));
    if (each) total += now(t) - start;
  }
  return (each ? total : now(t) - start) / inner;
}

static int by_value(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static double median(double *x, uint32_t n) {
  qsort(x, n, sizeof *x, by_value);
  return n ? x[n / 2] : 0;
}

typedef struct { double gain, probe, mine, other; bool kept; } quad;

static int quieter(const void *a, const void *b) {
  return by_value(&((const quad *)b)->probe, &((const quad *)a)->probe);
}

/* If fewer than FEW quads were kept, as on a machine that is always busy, keeps the FEW with the fastest probes: their
 * ratios are unbiased too, only with more variance. */
static void keep_quietest(quad *q, uint32_t n, tg_task *task) {
  if (task->n >= FEW) return;
  qsort(q, n, sizeof *q, quieter);
  task->n = n < FEW ? n : FEW;
  for (uint32_t i = 0; i < n; i++) q[i].kept = i < FEW;
  for (uint32_t i = 0; i < task->n; i++) task->gain[i] = q[i].gain;
}

/* The samples of a comparison so far: q has all, all their gains, dropped ones included. */
typedef struct { quad *q; double *all; uint32_t n; } quads;

static void add(timing *t, quads *s, tg_task *task, double other, double mine, double probed) {
  quad *q = &s->q[s->n];
  *q = (quad){s->all[s->n] = log(other / mine), probed, mine, other, probed >= dip * t->best_probe};
  if (q->kept) task->gain[task->n++] = q->gain;
  s->n++;
}

/* May sampling stop? Dropped samples may decide that too: their ratios are unbiased, only with more variance. */
static bool settled(const quads *s, const tg_task *task) {
  return tg_decided(task->gain, task->n, margin) || tg_decided(s->all, s->n, margin);
}

/* For long runs, a sample is a pair: one run of each kernel. The order alternates from sample to sample. Once the time
 * for this comparison is spent, a candidate that is behind gets no more samples. */
static void take_pairs(timing *t, quads *s, tg_task *task, uint32_t most, double burst) {
  enum { LEAST = 6 };   /* samples needed for a 95 % interval */
  double end = tg_now() + task->spend;
  while (task->n < most && s->n < TRIES && !(task->spend > 0 && s->n >= LEAST && tg_now() > end)) {
    bool turned = s->n % 2;
    double before = probe(t, burst), x = sample(t, turned ? t->trial : t->against, 1),
           y = sample(t, turned ? t->against : t->trial, 1), behind = probe(t, burst);
    add(t, s, task, turned ? y : x, turned ? x : y, fmin(before, behind));
    if (settled(s, task)) break;
    if (task->spend > 0 && tg_now() > end && tg_behind(s->all, s->n, margin)) break;
  }
}

static void take_quads(timing *t, quads *s, tg_task *task, uint32_t most, uint32_t inner, double burst) {
  double end = tg_now() + task->spend;
  while (task->n < most && s->n < 2 * most && s->n < TRIES && !(task->spend > 0 && s->n >= FEW && tg_now() > end)) {
    bool turned = s->n % 2;   /* alternate, as the first after a probe is at a disadvantage */
    tg_kernel *outer = turned ? t->trial : t->against, *middle = turned ? t->against : t->trial;
    double before = probe(t, burst);
    sample(t, outer, 1 + inner / 8);
    double a1 = sample(t, outer, inner), b1 = sample(t, middle, inner), b2 = sample(t, middle, inner),
           a2 = sample(t, outer, inner), behind = probe(t, burst);
    add(t, s, task, (turned ? b1 + b2 : a1 + a2) / 2, (turned ? a1 + a2 : b1 + b2) / 2, fmin(before, behind));
    if (settled(s, task)) break;
  }
}

static void take_samples(timing *t, tg_task *task) {
  double a[TRIES], b[TRIES], first = sample(t, t->against, 1), mine = sample(t, t->trial, 1);
  uint32_t most = task->quads && task->quads < TG_QUADS ? task->quads : TG_QUADS, kept = 0;
  quads s = {.q = tg_new(t->env, quad, TRIES), .all = tg_new(t->env, double, TRIES)};
  /* the first runs were to warm up */
  if (fmin(first, mine) < warm_sample) first = sample(t, t->against, 1), mine = sample(t, t->trial, 1);
  double shorter = fmin(first, mine);
  uint32_t inner = shorter < least_sample ? (uint32_t)fmin(RUNS, least_sample / fmax(shorter, 1e-8)) + 1 : 1;
  double burst = fmin(2e-3, fmax(50e-6, shorter * inner * 0.1));
  for (int i = 0; i < 3; i++) probe(t, burst);
  if (shorter >= warm_sample) add(t, &s, task, first, mine, t->best_probe);
  if (settled(&s, task)) {
  } else if (shorter >= long_sample) take_pairs(t, &s, task, most, burst);
  else take_quads(t, &s, task, most, inner, burst);
  keep_quietest(s.q, s.n, task);
  for (uint32_t i = 0; i < s.n; i++)
    if (s.q[i].kept) a[kept] = s.q[i].other, b[kept++] = s.q[i].mine;
  task->dropped = s.n - kept;
  task->against_seconds = median(a, kept);
  task->seconds = median(b, kept);
}

static void time_all(void *arg) {
  timing *t = arg;
  tg_trial_state *s = t->s;
  set_up(t);
  take_samples(t, t->task);
  restore(t);
  sample(t, t->trial, 1);
  const char *beside = t->on_device ? tg_trial_there_fetch(s, t->env, &t->there, t->args) : NULL;
  if (beside) t->task->outcome = TG_TRIAL_WRONG, t->task->message = beside;
  for (uint32_t b = 0; b < s->n; b++) {
    const char *message =
        s->op[b].written
            ? tg_trial_judge(s, t->env, b, s->asked[TRIAL_RANDOM] ? TRIAL_RANDOM : TRIAL_EXACT, t->args[b].data)
            : NULL;
    if (message) t->task->outcome = TG_TRIAL_WRONG, t->task->message = message;
  }
}

void tg_trial_time(tg_trial_state *s, tg_env *env, tg_kernel *trial, tg_kernel *against, tg_task *task) {
  timing *t = tg_new(env, timing, 1);
  *t = (timing){.s = s, .env = env, .trial = trial, .against = against, .task = task};
  t->on_device = trial->loaded->device != s->ctx->devices;
  bool ok = tg_protect(env, time_all, t);
  tg_there_close(&t->there);
  for (uint32_t i = 0; i < t->maps; i++) munmap(t->map[i], t->size[i]);
  if (!ok) tg_fail(env, env->status, "%s", env->message);
}

/* Peak FLOP/s of one thread with vectors of four floats. The best of several bursts, as other work may disturb one. */
static double narrow_rate(void) {
  double narrow = 0;
  for (int i = 0; i < 5; i++) narrow = fmax(narrow, tg_probe_flops(200e-6, tg_thread_now));
  return narrow;
}

double tg_trial_rate(const tg_target *t, int least_bytes) {
  double width = t->vector_bytes / 16.0 * (least_bytes < 4 ? 4.0 / least_bytes : least_bytes > 4 ? 0.5 : 1);
  return narrow_rate() * width;
}

/* floor: the seconds of the kernel's least operations at twice the peak rate, with multiply and add fused; a shorter
 * time is an error of measurement. slowest: the seconds of all operations done one after another, one lane at a time at
 * full latency, plus each byte of each operand read once from memory; times ten, as data may be read from memory again,
 * functions take many operations, and other processes use the machine. A longer run counts as hung. */
void tg_trial_bounds(const tg_trial_state *s, tg_task *t) {
  enum { LANES = 4, PORTS = 2, LATENCY = 5, OTHERS = 10 };
  const double memory = 1e9;   /* bytes/s: any machine has more */
  double narrow = narrow_rate(),
         width = s->ctx->target.vector_bytes / 16.0 * (s->work.least_bytes < 4 ? 4.0 / s->work.least_bytes : 1);
  t->floor =
      s->work.conditional || s->work.least_ops < 1e4 ? 0 : s->work.least_ops / (narrow * width * 2 * s->threads * 2);
  if (s->device) t->floor = 0;   /* how fast it can be is not known here */
  t->slowest = OTHERS * (s->work.ops * LANES * PORTS * LATENCY / narrow + t->bytes / memory);
}
