/* SPDX-License-Identifier: MIT
 * tg bench tune: how good the search and its cost model are, by sweeps of whole spaces. A sweep goes in stages, each of
 * which goes on where it was left:
 *   lower      points at random, without repeats of code, until there are --candidates (20000)
 *   model      the cost model once more over all of them, after a change of it
 *   build      code of those that are to be timed: half of --candidates (2000) the model's best, half at random, into
 *              the folder's cache
 *   time       those, in turns with the first choice of when the sweep began; the best ones longer
 *   first      the first choice in turns with the best of the sweep, and how long it takes to choose
 *   tune       a search of 64 candidates, its choice in turns with the best of the sweep
 *   generated  likewise for the sketch without words and knobs, whose schedule the heuristic's decisions make
 *   report     ranks and regrets
 * Every time's output is compared with the first choice's, bit for bit on whole numbers. */
#define _GNU_SOURCE
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include "bench/bench.h"
#include "bench/sweep.h"
#include "shapes.h"
#include "tg/gemm.h"

enum { FEW = 3, SOME = 10, MANY = 40, FINALISTS = 24 };

static uint64_t draw(uint64_t *state) {
  uint64_t z = *state += 0x9E3779B97F4A7C15u;
  z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
  z = (z ^ z >> 27) * 0x94D049BB133111EBu;
  return z ^ z >> 31;
}

/* ---- a shape's space ---- */

static void fill(float *x, size_t n, uint64_t seed) {
  for (size_t i = 0; i < n; i++) x[i] = (float)((int)(draw(&seed) % 7) - 3);
}

static void open_space(void *arg) {
  sweep *s = arg;
  tg_sketch_source source[GEMM_SKETCHES];
  for (uint32_t i = 0; i < s->gemm.defs_n; i++)
    source[i] = (tg_sketch_source){.def = s->gemm.defs[i], .user = &s->gemm.problem};
  tg_space_open(&s->space, &s->env, source, s->gemm.defs_n, s->gemm.binding, s->gemm.bindings_n);
}

static bool open_sweep(sweep *s, const tool_args *a) {
  int64_t m = s->size[0], n = s->size[1], k = s->size[2];
  tg_gemm_desc d = {.a_major = s->transposed[0] ? TG_COLUMN_MAJOR : TG_ROW_MAJOR,
                    .b_major = s->transposed[1] ? TG_COLUMN_MAJOR : TG_ROW_MAJOR,
                    .m = {m, 0},
                    .n = {n, 0},
                    .k = {k, 0},
                    .threads = 1};
  char code[4200];
  snprintf(s->path, sizeof s->path, "%.3900s/%s.jsonl", a->sweep, s->name);
  snprintf(code, sizeof code, "%.3900s/code", a->sweep);
  tg_env_init(&s->env, NULL);
  if (tg_context_create(&(tg_context_options){.threads = 1, .cache = code}, &s->ctx) ||
      tg_gemm_space_of(s->ctx, &d, 0, 0, 0, &s->gemm))
    return fprintf(stderr, "tg bench tune: %s\n", tg_error_message(s->ctx)), false;
  if (!tg_protect(&s->env, open_space, s)) return fprintf(stderr, "tg bench tune: %s\n", s->env.message), false;
  s->bytes[0] = (size_t)(m * k) * 4, s->bytes[1] = (size_t)(k * n) * 4, s->bytes[2] = (size_t)(m * n) * 4;
  for (int i = 0; i < 3; i++) s->operand[i] = tool_pages(s->bytes[i]);
  s->want = tool_pages(s->bytes[2]);
  fill(s->operand[0], (size_t)(m * k), 1), fill(s->operand[1], (size_t)(k * n), 2);
  s->first = UINT32_MAX;
  return sweep_load(s);
}

static void close_sweep(sweep *s) {
  for (int i = 0; i < 3; i++) free(s->operand[i]);
  free(s->want), free(s->point);
  if (s->file) fclose(s->file);
  tg_trial_bench_free(s->bench);
  tg_env_drop(&s->env);
  tg_context_free(s->ctx);
}

/* The text of a point is made anew each time it is wanted: there are many. */
typedef struct { sweep *s; const sweep_point *p; const char *words; tg_point out; bool legal; } authoring;

static void author(void *arg) {
  authoring *a = arg;
  a->legal = tg_space_point(&a->s->space, a->p->sketch, a->p->knob, a->words, NULL, &a->out);
}

/* ---- lower ---- */

static void point_of(const sweep *s, uint32_t sketch, const tg_kit_choice *c, sweep_point *p) {
  const tg_sketch *k = &s->space.sketch[sketch];
  *p = (sweep_point){.sketch = sketch};
  for (uint32_t i = 0; i < k->knobs; i++) {
    p->knob[i] = k->knob[i].values[0];
    for (uint32_t b = 0; b < c->knobs_n; b++)
      if (!strcmp(c->knob[b].name, k->knob[i].name)) p->knob[i] = c->knob[b].lo;
  }
}

static void first_choice(const sweep *s, sweep_point *p) { point_of(s, 0, s->gemm.choice, p); }

/* What the first choice would be if it had to be this sketch. False: there is none. */
static bool choice_among(const sweep *s, uint32_t sketch, sweep_point *p) {
  tg_kit_choice c;
  for (uint32_t i = 0; tg_gemm_sketches[i]; i++)
    if (!strcmp(tg_gemm_sketches[i]->kernel->name, s->space.sketch[sketch].name))
      return tg_gemm_choose_knobs(&s->gemm.problem, &s->ctx->target, 1, tg_gemm_sketches[i], &c),
             point_of(s, sketch, &c, p), true;
  return false;
}

static void open_bench(void *arg) {
  sweep *s = arg;
  sweep_point p;
  first_choice(s, &p);
  authoring a = {.s = s, .p = &p};
  author(&a);
  tg_task t = {.kind = TG_TASK_OPEN,
               .trial = {a.out.text, NULL, NULL},
               .params_n = s->gemm.params_n,
               .threads = 1,
               .shared = -1,
               .make = true};
  memcpy(t.params, s->gemm.params, s->gemm.params_n * sizeof *t.params);
  s->bench = tg_trial_bench_new(NULL);
  tg_bench_run(s->bench, &s->env, &t);
  if (t.outcome != TG_TRIAL_OK) tg_fail(&s->env, TG_EINVAL, "%s", t.message ? t.message : "no bench");
}

static bool bench_opens(sweep *s) {
  return tg_protect(&s->env, open_bench, s) ||
         (fprintf(stderr, "tg bench tune: %s: %s\n", s->name, s->env.message), false);
}

/* False: it is illegal. */
static bool lower(sweep *s, sweep_point *p) {
  tg_mark mark = tg_mark_get(&s->env);
  tg_env env;
  authoring a = {.s = s, .p = p};
  bool ok = tg_protect(&s->env, author, &a) && a.legal;
  tg_env_init(&env, NULL);
  if (ok) {
    tg_task t = {.kind = TG_TASK_LOWER, .trial = {a.out.text, a.out.words, NULL}};
    tg_bench_run(s->bench, &env, &t);
    ok = t.outcome == TG_TRIAL_OK;
    p->hash = t.hash;
    p->cost = t.cost;
    p->model = t.cost.seconds;
  }
  tg_env_drop(&env);
  tg_mark_release(&s->env, mark);
  return ok;
}

static void lower_points(sweep *s, const tool_args *a) {
  uint32_t want = a->candidates > 0 ? (uint32_t)a->candidates : 20000, known = 0, size = 1 << 18;
  uint64_t state = (uint64_t)a->seed * 1000003 + s->legal, *table = calloc(size, sizeof *table);
  double end = a->seconds > 0 ? tool_now() + a->seconds : INFINITY;
  sweep_point p;
  if (!table || !bench_opens(s)) return;
  for (uint32_t i = 0; i < s->n; i++) table[s->point[i].hash % size] = s->point[i].hash;
  for (uint32_t i = 0; i < s->space.sketches; i++) /* sketch 0 is the first choice's */
    if (choice_among(s, i, &p) && lower(s, &p) && table[p.hash % size] != p.hash)
      sweep_add(s, &p, true), s->legal++, table[p.hash % size] = p.hash;
  while (s->n < want && known < 20000 && tool_now() < end) { /* so many in a row are known: that is all of it */
    p = (sweep_point){.sketch = (uint32_t)(draw(&state) % s->space.sketches)};
    const tg_sketch *k = &s->space.sketch[p.sketch];
    /* of one thread there is no team */
    for (uint32_t i = 0; i < k->knobs; i++)
      p.knob[i] = !strcmp(k->knob[i].name, "TEAM") ? 0 : k->knob[i].values[draw(&state) % k->knob[i].n];
    if (!lower(s, &p)) continue;
    s->legal++;
    if (table[p.hash % size] == p.hash) {
      known++;
      continue;
    }
    table[p.hash % size] = p.hash;
    sweep_add(s, &p, true);
    known = 0;
  }
  sweep_record_legal(s);
  free(table);
}

/* Those with a time first. */
static void model_points(sweep *s, const tool_args *a) {
  double end = a->seconds > 0 ? tool_now() + a->seconds : INFINITY;
  if (!bench_opens(s)) return;
  for (int timed = 1; timed >= 0; timed--)
    for (uint32_t i = 0; i < s->n && (timed || tool_now() < end); i++)
      if (s->point[i].timed == timed && lower(s, &s->point[i])) sweep_record_model(s, i);
}

/* ---- build, time ---- */

static tg_kernel *compile_words(sweep *s, const sweep_point *p, const char *words) {
  tg_mark mark = tg_mark_get(&s->env);
  authoring a = {.s = s, .p = p, .words = words};
  tg_kernel *k = NULL;
  if (tg_protect(&s->env, author, &a) && a.legal) {
    tg_compile_options o = {.opts = a.out.words};
    if (tg_kernel_compile_text(s->ctx, "point", a.out.text, &o, &k)) k = NULL;
  }
  tg_mark_release(&s->env, mark);
  return k;
}

static uint32_t find(const sweep *s, const sweep_point *p) {
  for (uint32_t i = 0; i < s->n; i++)
    if (s->point[i].sketch == p->sketch && !memcmp(s->point[i].knob, p->knob, sizeof p->knob)) return i;
  return UINT32_MAX;
}

/* Numbers of the points that are to be timed: what the first choice would be among those of each sketch, the model's
 * best, then others at random. */
static uint32_t *chosen(const sweep *s, const tool_args *a, uint32_t *n) {
  uint32_t points, want = a->candidates > 0 ? (uint32_t)a->candidates : 2000,
                   *order = sweep_by_model(s, false, &points);
  uint64_t state = (uint64_t)a->seed + 17;
  if (want > s->n) want = s->n;
  for (uint32_t i = want / 2; i < want; i++) {
    /* every other one of the better half */
    uint32_t k = i + (uint32_t)(draw(&state) % ((i % 2 ? s->n : (s->n + i) / 2) - i)), t = order[i];
    order[i] = order[k], order[k] = t;
  }
  for (uint32_t i = 0, at = 0; i < s->space.sketches && at < want; i++) {
    sweep_point p;
    uint32_t own = choice_among(s, i, &p) ? find(s, &p) : UINT32_MAX, k = at;
    if (own == UINT32_MAX) continue;
    while (order[k] != own) k++;
    order[k] = order[at], order[at++] = own;
  }
  *n = want;
  return order;
}

static void build_points(sweep *s, const tool_args *a) {
  uint32_t n, built = 0, *order = chosen(s, a, &n);
  double end = a->seconds > 0 ? tool_now() + a->seconds : INFINITY;
  for (uint32_t i = 0; i < n && tool_now() < end; i++) {
    if (s->point[order[i]].timed) continue;
    tg_kernel_free(compile_words(s, &s->point[order[i]], NULL));
    built++;
  }
  free(order);
}

static double run_for(sweep *s, tg_kernel *k, uint32_t repeat) {
  tg_argument args[3];
  for (int i = 0; i < 3; i++) args[i] = (tg_argument){s->operand[i], s->bytes[i]};
  tg_launch l = {.buffers = args, .buffers_n = 3, .params = s->gemm.params, .params_n = s->gemm.params_n, .threads = 1};
  double t = tg_thread_now();
  for (uint32_t i = 0; i < repeat; i++)
    if (tg_kernel_run(k, &l)) return -1;
  return (tg_thread_now() - t) / repeat;
}

static int by_value(const void *a, const void *b) {
  return (*(const double *)a > *(const double *)b) - (*(const double *)a < *(const double *)b);
}

/* ln(seconds of k / seconds of the other), by quads; it may end early where it is hopelessly above best. */
static double compare(sweep *s, tg_kernel *k, tg_kernel *other, uint32_t quads, double best, uint32_t *taken) {
  double gain[64], one = run_for(s, other, 1), mine = run_for(s, k, 1);
  *taken = 0;
  if (log(mine / one) > best + log(2)) {
    mine = fmin(mine, run_for(s, k, 1));
    if (log(mine / one) > best + log(2)) return log(mine / one);
  }
  uint32_t repeat = (uint32_t)fmax(1, ceil(60e-6 / fmax(mine, 1e-8)));
  while (*taken < quads) {
    bool turned = *taken % 2;
    tg_kernel *outer = turned ? k : other, *inner = turned ? other : k;
    double a = run_for(s, outer, repeat), b = run_for(s, inner, repeat), c = run_for(s, inner, repeat),
           d = run_for(s, outer, repeat);
    gain[(*taken)++] = (turned ? -1 : 1) * log((b + c) / (a + d));
    if (*taken == FEW) {
      double sorted[FEW];
      memcpy(sorted, gain, sizeof sorted);
      qsort(sorted, FEW, sizeof *sorted, by_value);
      if (sorted[FEW / 2] > best + 0.15) break;
    }
  }
  qsort(gain, *taken, sizeof *gain, by_value);
  return *taken % 2 ? gain[*taken / 2] : (gain[*taken / 2 - 1] + gain[*taken / 2]) / 2;
}

static bool right(const sweep *s) { return !memcmp(s->operand[2], s->want, s->bytes[2]); }

static double best_so_far(const sweep *s) {
  double best = 0;
  for (uint32_t i = 0; i < s->n; i++)
    if (s->point[i].timed && !s->point[i].failed && s->point[i].quads && s->point[i].ratio < best)
      best = s->point[i].ratio;
  return best;
}

/* What all times of the sweep are measured against: its first point. */
static tg_kernel *open_incumbent(sweep *s) {
  tg_kernel *k = s->n ? compile_words(s, &s->point[0], NULL) : NULL;
  if (k) run_for(s, k, 3), memcpy(s->want, s->operand[2], s->bytes[2]);
  else fprintf(stderr, "tg bench tune: %s\n", tg_error_message(s->ctx));
  return k;
}

static void time_one(sweep *s, tg_kernel *first, uint32_t i, uint32_t quads, double best) {
  sweep_point *p = &s->point[i];
  tg_kernel *k = compile_words(s, p, NULL);
  memset(s->operand[2], 0xff, s->bytes[2]);
  p->timed = true;
  p->failed = !k || run_for(s, k, 1) < 0 || !right(s);
  p->ratio = p->failed ? 0 : compare(s, k, first, quads, best, &p->quads);
  sweep_record_time(s, i);
  tg_kernel_free(k);
}

static void time_finalists(sweep *s, tg_kernel *first, double end) {
  for (uint32_t f = 0; f < FINALISTS && tool_now() < end; f++) {
    uint32_t best = UINT32_MAX;
    for (uint32_t i = 0; i < s->n; i++)
      if (s->point[i].timed && !s->point[i].failed && s->point[i].quads && s->point[i].quads < MANY &&
          (best == UINT32_MAX || s->point[i].ratio < s->point[best].ratio))
        best = i;
    double least = INFINITY;
    for (uint32_t i = 0; i < s->n; i++)
      if (s->point[i].timed && s->point[i].quads == MANY) least = fmin(least, s->point[i].ratio);
    if (best == UINT32_MAX || s->point[best].ratio > least + 0.02) break;
    time_one(s, first, best, MANY, 1);
  }
}

static void time_points(sweep *s, const tool_args *a) {
  uint32_t n, *order = chosen(s, a, &n), left = 0;
  double end = tool_now() + (a->seconds > 0 ? a->seconds : 45), best = best_so_far(s);
  tg_kernel *first = open_incumbent(s);
  for (uint32_t i = 0; first && i < n; i++) {
    if (s->point[order[i]].timed) continue;
    if (tool_now() > end) {
      left++;
      continue;
    }
    time_one(s, first, order[i], SOME, best);
    if (s->point[order[i]].quads && !s->point[order[i]].failed) best = fmin(best, s->point[order[i]].ratio);
  }
  if (first && !left) time_finalists(s, first, end);
  if (first) tool_figure(a->json, "tune", s->name, "points still to be timed", left, "points", NULL);
  tg_kernel_free(first);
  free(order);
}

/* ---- the first choice against the sweep ---- */

/* Seconds of one choice: the median of some. */
static double choosing(const sweep *s) {
  enum { TIMES = 31 };
  double t[TIMES];
  tg_kit_choice c;
  for (int i = 0; i < TIMES; i++) {
    t[i] = tool_now();
    tg_gemm_choose(&s->gemm.problem, &s->ctx->target, 1, &c);
    t[i] = tool_now() - t[i];
  }
  qsort(t, TIMES, sizeof *t, by_value);
  return t[TIMES / 2];
}

static void first_against(sweep *s, const tool_args *a, sweep_firsts *all) {
  uint32_t best = sweep_best(s), quads;
  sweep_point p;
  if (best == UINT32_MAX || all->n == SWEEP_SHAPES) return;
  first_choice(s, &p);
  tg_kernel *incumbent = open_incumbent(s), *top = compile_words(s, &s->point[best], NULL),
            *mine = compile_words(s, &p, NULL);
  double took = choosing(s), rate = 0;
  memset(s->operand[2], 0xff, s->bytes[2]);
  if (incumbent && top && mine && run_for(s, mine, 1) >= 0 && right(s))
    rate = exp(-compare(s, mine, top, MANY, INFINITY, &quads));
  all->rate[all->n++] = rate;
  all->slowest = fmax(all->slowest, took);
  tool_figure(a->json, "tune", s->name, "first choice, rate", rate, "ratio", "the best of the sweep");
  tool_figure(a->json, "tune", s->name, "chosen in", took * 1e6, "us", NULL);
  if (!a->json) sweep_describe(s, "first choice", &p), sweep_describe(s, "best", &s->point[best]);
  tg_kernel_free(incumbent), tg_kernel_free(top), tg_kernel_free(mine);
}

static void report_firsts(const tool_args *a, sweep_firsts *f) {
  const double near = 1 / 1.1;
  double sum = 0;
  uint32_t within = 0;
  for (uint32_t i = 0; i < f->n; i++) within += f->rate[i] >= near, sum += log(fmax(f->rate[i], 1e-3));
  qsort(f->rate, f->n, sizeof *f->rate, by_value);
  tool_figure(a->json, "tune", "all", "first choices within 10 %", within, "of", "the shapes");
  tool_figure(a->json, "tune", "all", "shapes", f->n, "", NULL);
  tool_figure(a->json, "tune", "all", "first choice, rate, geometric mean", exp(sum / f->n), "ratio",
              "the best of the sweep");
  tool_figure(a->json, "tune", "all", "likewise, the worst of each twenty", f->rate[f->n / 20], "ratio",
              "the best of the sweep");
  tool_figure(a->json, "tune", "all", "chosen in, the slowest", f->slowest * 1e6, "us", NULL);
}

/* ---- the search against the sweep ---- */

static void search_against(sweep *s, const tool_args *a, bool generated) {
  char self[4096];
  ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
  uint32_t best = sweep_best(s), quads;
  if (length < 0 || best == UINT32_MAX) return;
  self[length] = 0;
  const char *const worker[] = {self, "worker", NULL};
  double run = 0;
  tg_kernel *first = open_incumbent(s), *top = compile_words(s, &s->point[best], NULL), *mine = NULL;
  if (!first || !top) return;
  run = run_for(s, first, 5);
  tg_tune_options o = {.bindings = s->gemm.binding,
                       .bindings_n = s->gemm.bindings_n,
                       .user = &s->gemm.problem,
                       .params = s->gemm.params,
                       .params_n = s->gemm.params_n,
                       .start = s->gemm.choice->knob,
                       .start_n = s->gemm.choice->knobs_n,
                       .seconds = 20 + 20 * run,
                       .candidates = 64,
                       .seed = (uint64_t)a->seed,
                       .worker = worker,
                       .flags = TG_TUNE_NOT_KEPT};
  tg_tune_result *r = NULL;
  uint32_t plain = 0;
  while (plain < s->gemm.defs_n && strcmp(s->space.sketch[plain].name, "gemm_plain")) plain++;
  if (generated) o.start_n = 0;
  if (generated ? tg_tune(s->ctx, &s->gemm.defs[plain], 1, &o, &r)
                : tg_tune(s->ctx, s->gemm.defs, s->gemm.defs_n, &o, &r)) {
    fprintf(stderr, "tg bench tune: %s\n", tg_error_message(s->ctx));
    return;
  }
  sweep_point p = {.sketch = generated ? plain : r->sketch};
  for (uint32_t i = 0; i < r->knobs_n; i++) p.knob[i] = r->knobs[i].lo;
  mine = compile_words(s, &p, r->words);
  if (mine) {
    const char *what = generated ? "generated" : "tuned";
    char metric[64];
    memset(s->operand[2], 0xff, s->bytes[2]);
    run_for(s, mine, 1);
    if (!right(s)) fprintf(stderr, "tg bench tune: %s: wrong result\n", s->name);
    double against = compare(s, mine, top, MANY, INFINITY, &quads);
    snprintf(metric, sizeof metric, "%s, rate", what);
    tool_figure(a->json, "tune", s->name, metric, exp(-against), "ratio", "the best of the sweep");
    if (!generated)
      tool_figure(a->json, "tune", s->name, "first choice, rate", r->tuned ? 1 / (1 + r->gain) : 1, "ratio",
                  "what is tuned");
    snprintf(metric, sizeof metric, "%s, timed", what);
    tool_figure(a->json, "tune", s->name, metric, r->timed, "points", NULL);
    snprintf(metric, sizeof metric, "%s, took", what);
    tool_figure(a->json, "tune", s->name, metric, r->elapsed, "s", NULL);
    if (!a->json) {
      printf("    %s", r->kernel);
      for (uint32_t i = 0; i < r->knobs_n; i++) printf(" %s=%lld", r->knobs[i].name, (long long)r->knobs[i].lo);
      printf("  %s\n", r->words && generated ? r->words : "");
    }
  }
  tg_kernel_free(first), tg_kernel_free(top), tg_kernel_free(mine);
  tg_tune_result_free(r);
}

static void find_first(sweep *s) {
  sweep_point p;
  first_choice(s, &p);
  s->first = find(s, &p);
}

static int sweep_shape(sweep *s, const tool_args *a, sweep_firsts *firsts) {
  const char *stage = a->stage ? a->stage : "report";
  int r = TOOL_OK;
  if (!open_sweep(s, a)) return TOOL_WRONG;
  find_first(s);
  if (!strcmp(stage, "lower")) lower_points(s, a);
  else if (!strcmp(stage, "model")) model_points(s, a);
  else if (!strcmp(stage, "build")) build_points(s, a);
  else if (!strcmp(stage, "time")) time_points(s, a);
  else if (!strcmp(stage, "first")) first_against(s, a, firsts);
  else if (!strcmp(stage, "tune") || !strcmp(stage, "generated")) search_against(s, a, *stage == 'g');
  else if (strcmp(stage, "report"))
    r = TOOL_USAGE,
    fprintf(stderr,
            "tg bench tune: no stage '%s'; there are lower, model, build, time, first, tune, generated, report\n",
            stage);
  if (!strcmp(stage, "report") || !strcmp(stage, "model")) r = sweep_report(s, a) ? TOOL_OK : TOOL_WRONG;
  return r;
}

int bench_tune(const tool_args *a) {
  tool_shape *shapes;
  if (!a->sweep) return fputs("tg bench tune wants --sweep DIR\n", stderr), TOOL_USAGE;
  int n = tool_read_shapes(a->shapes ? a->shapes : "tests/bench/gemm/sweep.txt", &shapes),
      result = n < 0 ? TOOL_USAGE : TOOL_OK, ran = 0;
  sweep_firsts firsts = {0};
  for (int i = 0; i < n; i++) {
    const tool_shape *o = &shapes[i];
    sweep *s = calloc(1, sizeof *s);
    if (!s) return free(shapes), TOOL_BROKEN;
    snprintf(s->name, sizeof s->name, "%dx%dx%d_%c%c", o->m, o->n, o->k, "NT"[o->ta], "NT"[o->tb]);
    s->size[0] = o->m, s->size[1] = o->n, s->size[2] = o->k;
    s->transposed[0] = o->ta, s->transposed[1] = o->tb;
    if (!a->cases || strstr(s->name, a->cases)) {
      int r = sweep_shape(s, a, &firsts);
      result = r > result ? r : result;
      close_sweep(s);
      ran++;
    }
    free(s);
  }
  free(shapes);
  if (firsts.n) report_firsts(a, &firsts);
  if (!ran && n >= 0)
    return fprintf(stderr, "tg bench tune: no case contains '%s'\n", a->cases ? a->cases : ""), TOOL_USAGE;
  return result;
}
