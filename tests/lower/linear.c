/* SPDX-License-Identifier: MIT
 * What a long straight text costs: ten times the statements take about ten times the memory from the text to linear form, and ten times the
 * processor's time to author form. Quadratic steps would take a hundred. */
#include <stdlib.h>
#include <time.h>
#include "dsl/text.h"
#include "compile/pipeline.h"
#include "../test.h"

enum { FEW = 500, TIMES = 10, LONG = 20 };   /* author form is timed for LONG times as many */

typedef struct { const char *name, *head, *statement, *tail; } shape;
static const shape shapes[] = {   /* $ is the number of the statement; each stands on a line of its own, but for the first shape */
  {"one line", "inout(y, f32, [8]); ", "y[1] = y[2] + $; ", ""},
  {"one element", "inout(y, f32, [8]);", "\ny[1] = y[2] + $;", ""},
  {"into itself", "inout(y, f32, [8]); range(i, 8) {", "\ny[i] = y[i] + $;", "}"},
  {"loops", "inout(y, f32, [8]);", "\nrange(i, 8) y[i] = y[i] + $;", ""},
  {"registers", "inout(y, f32, [1000000]);", "\ndefine_reg(v$, f32); v$ = y[$+1] * 2; y[$] = v$;", ""},
  {"registers of a name", "inout(y, f32, [1000000]);", "\nrange(k, 1) { define_reg(v, f32); v = y[$+1] * 2; y[$] = v; }", ""},
  {"values", "inout(y, f32, [1000000]);", "\nlet v$ = y[$+1] * 2; y[$] = v$;", ""},
  {"values kept", "inout(y, f32, [1000000]);", "\nlet v$ = y[$] * 2; y[$] = 1; y[$+1] = v$;", ""},
  {"conditions", "inout(y, f32, [1000]); range(i, 8) {", "\nif (i < $ % 7) y[i] = y[i+1] + 1;", "}"},
  {"functions", "def(f(x) = x * 2 + 1); inout(y, f32, [1000000]);", "\ny[$] = f(y[$+1]);", ""},
  {"procs", "proc p(b, n) { b[n] = b[n+1] * 2; } inout(y, f32, [1000000]);", "\ncall(p, y, $);", ""},
};

typedef struct { tg_job job; const char *text, *until; tg_lowering l; double seconds; } attempt;

static void run(void *user) {
  attempt *a = user;
  clock_t from = clock();
  tg_parse_kernel(&a->job, "linear.tg", a->text, 0, NULL);
  tg_str text = tg_str_new(&a->job.env);
  if (a->until) tg_lower(&a->job, &a->l, a->until, NULL, NULL);
  else tg_print(&a->job, &text, a->job.sink);
  a->seconds = (double)(clock() - from) / CLOCKS_PER_SEC;
}

static const char *text_of(tg_env *e, const shape *s, uint32_t n) {
  tg_str t = tg_str_new(e);
  tg_str_printf(&t, "kernel k() { %s", s->head);
  for (uint32_t i = 0; i < n; i++)
    for (const char *c = s->statement; *c; c++)
      if (*c == '$') tg_str_printf(&t, "%u", i);
      else tg_str_put(&t, c, 1);
  tg_str_printf(&t, "%s }\n", s->tail);
  return t.data;
}

static attempt try(const char *text, const char *until, const tg_lowering *l) {
  attempt a = {.text = text, .until = until, .l = *l};
  tg_job_init(&a.job, NULL);
  CHECK(tg_protect(&a.job.env, run, &a), "%s", a.job.env.message);
  return a;
}

typedef struct { tg_env env; tg_lowering l; } tables;

static size_t memory_of(tables *t, const shape *s, uint32_t n) {
  attempt a = try(text_of(&t->env, s, n), "linear", &t->l);
  size_t bytes = a.job.env.arena.total;
  tg_job_drop(&a.job);
  return bytes;
}

static double time_of(tables *t, const shape *s, uint32_t n) {
  const char *text = text_of(&t->env, s, n);
  double best = 1e9;
  for (int i = 0; i < 3; i++) {
    attempt a = try(text, NULL, &t->l);
    if (a.seconds < best) best = a.seconds;
    tg_job_drop(&a.job);
  }
  return best;
}

static void check_all(void *user) {
  tables *t = user;
  t->l.rules = tg_rules_compile(&t->env);
  for (unsigned i = 0; i < TG_COUNT(shapes); i++) {
    size_t few = memory_of(t, &shapes[i], FEW), many = memory_of(t, &shapes[i], FEW * TIMES);
    CHECK(many < few * TIMES * 2, "%s: %zu bytes for %d statements, %zu for %d", shapes[i].name, few, FEW, many, FEW * TIMES);
    double shorter = time_of(t, &shapes[i], FEW * LONG / TIMES), longer = time_of(t, &shapes[i], FEW * LONG);
    CHECK(longer < shorter * TIMES * 4 + 0.1, "%s: %g s for %d statements, %g for %d", shapes[i].name, shorter, FEW * LONG / TIMES, longer, FEW * LONG);
  }
}

int main(void) {
  tg_target target;
  tables t = {.l = {.target = &target}};
  CHECK(tg_target_named(&target, "x86-64-v3"), "a target");
  tg_env_init(&t.env, NULL);
  CHECK(tg_protect(&t.env, check_all, &t), "%s", t.env.message);
  tg_env_drop(&t.env);
  return TEST_END();
}
