/* SPDX-License-Identifier: MIT
 * The fake bench: deterministic times with noise, drift and spikes; planted crashes, hangs, lies. */
#define _GNU_SOURCE
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include "fake.h"

const char fake_text[] =
  "kernel fake() {\n"
  "  knob(P, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14);\n"
  "  knob(S, 1, 2, 3, 4, 5, 6, 7, 8);\n"
  "  knob(T, 1, 2, 3, 4);\n"
  "  require(S * T < 32);\n"
  "  in(x, f32, [8]); out(y, f32, [8]);\n"
  "  range(i, 8) y[i] = x[i];\n"
  "}\n";

const char fake_part[] =
  "kernel fake(R) {\n"
  "  knob(P, 0, 17, 18);\n"
  "  knob(S, 1, 5);\n"
  "  in(x, f32, [R]); out(y, f32, [R]);\n"
  "  range(i, R) y[i] = x[i];\n"
  "}\n";

typedef struct { double noise; uint64_t random; } fake;

static long knob(const char *text, const char *name) {
  char want[16];
  snprintf(want, sizeof want, "%s = ", name);
  const char *p = strstr(text, want);
  return p ? strtol(p + strlen(want), NULL, 10) : 0;
}

double fake_seconds(const char *text) {
  long s = knob(text, "S"), t = knob(text, "T");
  double slow = knob(text, "P") == SPILLS ? 50 : knob(text, "P") >= CRASH_CHECKS ? 0.5 : 1;
  if (knob(text, "P") == SLOW_BEYOND && knob(text, "R") > FAKE_PART) slow = 20;
  return 1e-3 * slow * (1 + 0.1 * fabs((double)(s - 5)) + 0.07 * fabs((double)(t - 3)));
}

static void hang(void) {
  for (;;) pause();
}

static void crash(void) { raise(SIGSEGV); }

/* Over every descriptor and over memory that is not its own. */
static void scribble(void) {
  char junk[256];
  memset(junk, 0x5a, sizeof junk);
  for (int fd = 4; fd < 64; fd++)
    if (write(fd, junk, sizeof junk) < 0) continue;
}

static void misbehave(const char *text, tg_env *env, int when, tg_task *t) {
  switch (knob(text, "P")) {
  case CRASH_LOWER: if (when == TG_TASK_LOWER) crash(); break;
  case CRASH_BUILD: if (when == TG_TASK_BUILD) crash(); break;
  case CRASH_TIME: if (when == TG_TASK_TIME) crash(); break;
  case HANG_LOWER: if (when == TG_TASK_LOWER) hang(); break;
  case HANG_BUILD: if (when == TG_TASK_BUILD) hang(); break;
  case HANG_TIME: if (when == TG_TASK_TIME) hang(); break;
  case ENDS: if (when == TG_TASK_BUILD) exit(0); break;
  case SCRIBBLES: if (when == TG_TASK_BUILD) scribble(); break;
  case WRITES_WILDLY: if (when == TG_TASK_BUILD) memset((void *)((uintptr_t)t & ~(uintptr_t)0xfff), 0xff, 1 << 20); break;
  case WRONG: if (when == TG_TASK_BUILD) t->outcome = TG_TRIAL_WRONG; break;
  case EATS_MEMORY: if (when == TG_TASK_BUILD) tg_alloc(env, (size_t)1 << 50); break;
  case CRASH_CHECKS: if (when == TG_TASK_CHECKS) crash(); break;
  case WRONG_CHECKS: if (when == TG_TASK_CHECKS) t->outcome = TG_TRIAL_WRONG; break;
  case WRONG_BEYOND: if (when == TG_TASK_CHECKS && knob(text, "R") > FAKE_PART) t->outcome = TG_TRIAL_WRONG; break;
  case FAILS: if (when == TG_TASK_BUILD) tg_fail(env, TG_EBACKEND, "LLVM refuses"); break;
  default: break;
  }
}

static void open_fake(void *self, tg_env *env, tg_task *t) {
  (void)self, (void)env;
  t->floor = 1e-4;
  t->slowest = 1;
}

static void lower_fake(void *self, tg_env *env, tg_task *t) {
  (void)self;
  misbehave(t->trial.text, env, TG_TASK_LOWER, t);
  if (knob(t->trial.text, "T") == 2) t->outcome = TG_TRIAL_OK;
  t->hash = tg_hash(t->trial.text, strlen(t->trial.text), 1);
  t->cost.seconds = fake_seconds(t->trial.text) * (1 + 0.2 * (double)(t->hash % 5));   /* a model that is often wrong */
}

/* What runs for long is not asked for more: so short runs as these count as long ones here. */
static void build_fake(void *self, tg_env *env, tg_task *t) {
  (void)self;
  misbehave(t->trial.text, env, TG_TASK_BUILD, t);
  t->seconds = 10 * fake_seconds(t->trial.text);
  if (t->give_up > 0 && t->seconds > t->give_up && t->outcome == TG_TRIAL_OK) t->outcome = TG_TRIAL_SLOW;
}

static double uniform(fake *f) {
  f->random = f->random * 6364136223846793005u + 1442695040888963407u;
  return (double)(f->random >> 11) * 0x1p-53;
}

static double noise(fake *f) {
  double sum = -6;
  for (int i = 0; i < 12; i++) sum += uniform(f);
  double spike = uniform(f) < 0.05 ? uniform(f) : 0;
  return f->noise * sum + (f->noise > 0 ? spike : 0);
}

static void time_fake(void *self, tg_env *env, tg_task *t) {
  fake *f = self;
  double a = fake_seconds(t->against.text), b = fake_seconds(t->trial.text), drift = 0;
  misbehave(t->trial.text, env, TG_TASK_TIME, t);
  if (knob(t->trial.text, "P") == LATE && !strcmp(t->trial.text, t->against.text)) usleep(700000);
  f->random ^= t->seed ^ tg_hash(t->trial.text, strlen(t->trial.text), tg_hash(t->against.text, strlen(t->against.text), 7));
  if (knob(t->trial.text, "P") == LIES) b = 1e-6;
  for (t->n = 0; t->n < t->quads && !tg_decided(t->gain, t->n, 0.01); t->n++) {
    drift += 0.02 * (uniform(f) - 0.5);   /* of the machine: the same for neighbours */
    double a1 = a * exp(drift + noise(f)), b1 = b * exp(drift + noise(f)), b2 = b * exp(drift + noise(f)), a2 = a * exp(drift + noise(f));
    t->gain[t->n] = log((a1 + a2) / (b1 + b2));
  }
  t->seconds = b;
  t->against_seconds = a;
}

static void checks_fake(void *self, tg_env *env, tg_task *t) {
  (void)self;
  misbehave(t->trial.text, env, TG_TASK_CHECKS, t);
  if (t->give_up > 0) t->seconds = fake_seconds(t->trial.text);
}

const tg_bench *fake_bench(double level) {
  static fake f;
  static tg_bench b = {&f, open_fake, lower_fake, build_fake, time_fake, checks_fake};
  f.noise = level;
  f.random = 12345;
  return &b;
}
