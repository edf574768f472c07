/* SPDX-License-Identifier: MIT
 * tg bench model: recorded points of the cost model, and how well it ranks them. A point is a product, a sketch with
 * its knobs, and the time that it took on a machine; --record times new ones and appends them to a file, else the
 * points of a file are lowered and priced again. */
#define _GNU_SOURCE
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "bench/bench.h"
#include "bench/columns.h"
#include "bench/turns.h"
#include "compile/price.h"
#include "gemm/plan.h"
#include "gemm/sketch.h"
#include "shapes.h"

enum { POINTS = 256, ROUNDS = 7 };
static const double shortest = 0.0008;   /* seconds of a sample */

typedef struct {
  tg_kit_choice choice;
  char names[TG_KIT_KNOBS][8];
  const tg_kernel_def *def;
  tg_kernel *kernel;
  tg_price price;
  double seconds;              /* the least of its samples */
} point;

typedef struct {
  tg_context *ctx;
  const tool_types *types;
  tool_shape shape;
  tg_gemm_space space;
  void *operand[3];
  size_t bytes[3];
  point p[POINTS];
  uint32_t n;
} set;

static uint64_t draw(uint64_t *state) {
  uint64_t z = *state += 0x9E3779B97F4A7C15u;
  z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
  z = (z ^ z >> 27) * 0x94D049BB133111EBu;
  return z ^ z >> 31;
}

static bool open_set_for(set *s, int threads) {
  const tool_shape *d = &s->shape;
  tg_gemm_desc desc = {.a = s->types->a,
                       .b = s->types->b,
                       .c = s->types->c,
                       .a_major = d->ta ? TG_COLUMN_MAJOR : TG_ROW_MAJOR,
                       .b_major = d->tb ? TG_COLUMN_MAJOR : TG_ROW_MAJOR,
                       .m = {d->m, 0},
                       .n = {d->n, 0},
                       .k = {d->k, 0},
                       .threads = threads};
  if (tg_gemm_space_of(s->ctx, &desc, 0, 0, 0, &s->space))
    return fprintf(stderr, "tg bench model: %s\n", tg_error_message(s->ctx)), false;
  return true;
}

static bool open_set(set *s) { return open_set_for(s, 1); }

static tg_compile_options options_of(set *s, const point *p, tg_binding *b) {
  uint32_t n = s->space.bindings_n;
  memcpy(b, s->space.binding, n * sizeof *b);
  for (uint32_t i = 0; i < p->choice.knobs_n; i++) b[n++] = p->choice.knob[i];
  return (tg_compile_options){
      .bindings = b, .bindings_n = n, .user = &s->space.problem, .flags = TG_COMPILE_UNTUNED};
}

static const tg_kernel_def *def_of(const set *s, const char *name) {
  for (uint32_t i = 0; i < s->space.defs_n; i++)
    if (!strcmp(s->space.defs[i]->name, name)) return s->space.defs[i];
  return NULL;
}

/* Lowers and prices a point. False: it is illegal, or its code is that of another point. */
static bool price(set *s, point *p) {
  tg_binding b[TG_KIT_VALUES + TG_KIT_KNOBS];
  tg_compile_options o = options_of(s, p, b);
  tg_kernel_source src = {.def = p->def, .options = &o};
  if (tg_price_of(s->ctx, &src, s->space.params_n ? s->space.params : NULL, 1, &p->price)) return false;
  for (uint32_t i = 0; i < s->n; i++)
    if (&s->p[i] != p && s->p[i].price.hash == p->price.hash) return false;
  return true;
}

/* ---- recording ---- */

static void set_knob(tg_kit_choice *c, const char *name, int64_t value) {
  for (uint32_t i = 0; i < c->knobs_n; i++)
    if (!strcmp(c->knob[i].name, name)) c->knob[i].lo = c->knob[i].hi = value;
}

/* Each sketch with the knobs that the first choice would give it, then changes of these at random. */
static void draw_points(set *s, int candidates, uint64_t seed) {
  static const char *const knobs[] = {"MR", "NU", "NC",      "KC",   "NB",    "UK",
                                      "MB", "VL", "GROUPED", "NEXT", "AHEAD", "SUMS"};
  static const int64_t mr[] = {1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14}, nu[] = {1, 2, 3, 4}, nc[] = {1, 2, 3, 4, 6},
                       kc[] = {64, 128, 256, 384, 512, 1024, 2048}, nb[] = {1, 2, 4, 8, 16, 32, 64},
                       uk[] = {1, 2, 4, 8}, mb[] = {4, 8, 16, 32, 64, 1024}, vl[] = {4, 8, 16}, two[] = {0, 1},
                       ahead[] = {0, 1, 2, 8}, sums[] = {1, 2, 4};
  static const struct { const int64_t *v; uint32_t n;
  } values[] = {{mr, TG_COUNT(mr)}, {nu, TG_COUNT(nu)}, {nc, TG_COUNT(nc)},       {kc, TG_COUNT(kc)},
                {nb, TG_COUNT(nb)}, {uk, TG_COUNT(uk)}, {mb, TG_COUNT(mb)},       {vl, TG_COUNT(vl)},
                {two, 2},           {two, 2},           {ahead, TG_COUNT(ahead)}, {sums, TG_COUNT(sums)}};
  const tg_gemm_problem *q = &s->space.problem;
  const tg_target *t = &s->ctx->target;
  uint32_t first = 0;
  s->p[0] = (point){.def = def_of(s, s->space.choice->sketch->name), .choice = *s->space.choice};
  s->n = s->p[0].def && price(s, &s->p[0]);
  for (uint32_t i = 0; tg_gemm_sketches[i] && s->n < POINTS; i++) {
    point *p = &s->p[s->n];
    *p = (point){0};
    p->def = def_of(s, tg_gemm_sketches[i]->kernel->name);
    if (!p->def) continue;
    /* the words of the plain one are the heuristic's, which are no part of a point */
    if (!tg_gemm_sketches[i]->takes(q, t) || tg_gemm_sketches[i] == &tg_gemm_plain) continue;
    tg_gemm_choose_knobs(q, t, 1, tg_gemm_sketches[i], &p->choice);
    if (price(s, p)) s->n++;
  }
  first = s->n;
  for (int tries = 0; first && tries < candidates * 8 && s->n < (uint32_t)candidates; tries++) {
    point *p = &s->p[s->n];
    *p = s->p[draw(&seed) % first];
    for (uint64_t k = 1 + draw(&seed) % 2; k; k--) {
      uint64_t which = draw(&seed) % TG_COUNT(knobs);
      set_knob(&p->choice, knobs[which], values[which].v[draw(&seed) % values[which].n]);
    }
    /* what the model says is five times as slow as the best so far need not be timed */
    double best = s->p[0].price.cost.seconds;
    for (uint32_t i = 1; i < s->n; i++) best = fmin(best, s->p[i].price.cost.seconds);
    if (price(s, p) && p->price.cost.seconds < 5 * best) s->n++;
  }
}

static double run_once(const set *s, const point *p, int repeats) {
  tg_argument buffers[3] = {{0}};
  const tg_kernel_info *info = tg_kernel_describe(p->kernel);
  for (uint32_t i = 0; i < info->buffers_n && i < 3; i++) {
    int which = strcmp(info->buffers[i].name, "A") ? strcmp(info->buffers[i].name, "B") ? 2 : 1 : 0;
    buffers[i] = (tg_argument){s->operand[which], s->bytes[which]};
  }
  double t = bench_clock(1);
  tg_launch launch = {.buffers = buffers,
                      .buffers_n = info->buffers_n,
                      .params = s->space.params,
                      .params_n = s->space.params_n,
                      .threads = 1};
  for (int i = 0; i < repeats; i++)
    if (tg_kernel_run(p->kernel, &launch) != TG_OK) return INFINITY;
  return (bench_clock(1) - t) / repeats;
}

/* Names that were read from a file stand in the point itself, which moves. */
static void own_names(point *p) {
  for (uint32_t k = 0; k < p->choice.knobs_n; k++)
    if (p->names[k][0]) p->choice.knob[k].name = p->names[k];
}

static bool time_points(set *s) {
  const tool_shape *d = &s->shape;
  size_t size = s->types->a == TG_F64 ? 8 : s->types->a == TG_BF16 || s->types->a == TG_F16 ? 2 : 4;
  const size_t bytes[] = {(size_t)d->m * (size_t)d->k * size, (size_t)d->k * (size_t)d->n * size,
                          (size_t)d->m * (size_t)d->n * size};
  for (int i = 0; i < 3; i++)
    s->bytes[i] = bytes[i], s->operand[i] = tool_pages(bytes[i]), memset(s->operand[i], 0, bytes[i]);
  uint32_t kept = 0;
  for (uint32_t i = 0; i < s->n; i++) {
    tg_binding b[TG_KIT_VALUES + TG_KIT_KNOBS];
    point *p = &s->p[kept];
    *p = s->p[i];
    own_names(p);
    tg_compile_options o = options_of(s, p, b);
    if (tg_kernel_compile(s->ctx, p->def, &o, &p->kernel) == TG_OK && tg_kernel_describe(p->kernel)->buffers_n == 3)
      kept++;
  }
  s->n = kept;
  int repeats[POINTS];
  for (uint32_t i = 0; i < s->n; i++) {
    run_once(s, &s->p[i], 1);
    double once = run_once(s, &s->p[i], 1);
    repeats[i] = once > 0 ? (int)fmin(1e5, fmax(1, shortest / once)) : 1000;
    s->p[i].seconds = INFINITY;
  }
  for (int r = 0; r < ROUNDS; r++)
    for (uint32_t i = 0; i < s->n; i++) s->p[i].seconds = fmin(s->p[i].seconds, run_once(s, &s->p[i], repeats[i]));
  for (uint32_t i = 0; i < s->n; i++) tg_kernel_free(s->p[i].kernel);
  for (int i = 0; i < 3; i++) free(s->operand[i]);
  return s->n > 0;
}

static void put_points(const set *s, FILE *f) {
  const tool_shape *d = &s->shape;
  for (uint32_t i = 0; i < s->n; i++) {
    const point *p = &s->p[i];
    fprintf(f, "gemm %s %d %d %d %c%c | %s", s->types->name, d->m, d->n, d->k, "NT"[d->ta], "NT"[d->tb], p->def->name);
    for (uint32_t k = 0; k < p->choice.knobs_n; k++)
      fprintf(f, " %s=%lld", p->choice.knob[k].name, (long long)p->choice.knob[k].lo);
    fprintf(f, " | %.4g us\n", p->seconds * 1e6);
  }
  fflush(f);
}

/* Does the file have points of this product? */
static bool is_recorded(const char *text, const tool_types *types, const tool_shape *d) {
  char begin[80];
  size_t n = (size_t)snprintf(begin, sizeof begin, "gemm %s %d %d %d %c%c |", types->name, d->m, d->n, d->k,
                              "NT"[d->ta], "NT"[d->tb]);
  for (const char *at = text; at && *at; at = strchr(at, '\n'), at += at != NULL)
    if (!strncmp(at, begin, n)) return true;
  return false;
}

/* Compiles the points into the cache's folder, so that recording them only loads them. */
static void build_points(set *s) {
  for (uint32_t i = 0; i < s->n; i++) {
    tg_binding b[TG_KIT_VALUES + TG_KIT_KNOBS];
    tg_compile_options o = options_of(s, &s->p[i], b);
    if (tg_kernel_compile(s->ctx, s->p[i].def, &o, &s->p[i].kernel) == TG_OK) tg_kernel_free(s->p[i].kernel);
  }
}

/* Points of the products that the file does not have yet; in --seconds as many as there is time for. */
static int record(tg_context *ctx, const tool_args *a) {
  tool_shape *shapes = NULL;
  bool build = a->stage && !strcmp(a->stage, "build");
  double end = a->seconds > 0 ? bench_clock(1) + a->seconds : INFINITY;
  int n = tool_read_shapes(a->shapes ? a->shapes : "tests/bench/gemm/random.txt", &shapes);
  char *before = tool_read(a->sweep, NULL);
  FILE *f = n > 0 ? fopen(build ? "/dev/null" : a->sweep, "a") : NULL;
  set *s = calloc(1, sizeof *s);
  if (!f || !s) return perror("tg bench model"), free(s), free(shapes), free(before), TOOL_BROKEN;
  for (int i = 0; i < n && bench_clock(1) < end; i++) {
    memset(s, 0, sizeof *s);
    s->ctx = ctx, s->types = tool_types_named(a->types ? a->types : "f32"), s->shape = shapes[i];
    if (!s->types || is_recorded(before, s->types, &s->shape) || !open_set(s)) continue;
    draw_points(s, a->candidates ? a->candidates : 24, (uint64_t)a->seed + (uint64_t)i);
    if (build) build_points(s);
    else if (time_points(s)) put_points(s, f);
    fprintf(stderr, "%d of %d: %u points\n", i + 1, n, s->n);
  }
  fclose(f), free(s), free(shapes), free(before);
  return TOOL_OK;
}

/* ---- pricing again ---- */

/* Reads a line into the set; false: it begins another set, or is none. */
static bool read_point(set *s, char *line) {
  char types[16], trans[4], name[32];
  tool_shape d = {0};
  double us;
  char *bar = strchr(line, '|'), *last = strrchr(line, '|');
  if (!bar || last == bar || sscanf(line, "gemm %15s %d %d %d %3s", types, &d.m, &d.n, &d.k, trans) != 5) return false;
  if (sscanf(last, "| %lf us", &us) != 1) return false;
  d.ta = trans[0] == 'T', d.tb = trans[1] == 'T';
  bool same = s->n && !strcmp(types, s->types->name) && d.m == s->shape.m && d.n == s->shape.n && d.k == s->shape.k &&
              d.ta == s->shape.ta && d.tb == s->shape.tb;
  if (s->n && !same) return false;
  if (!s->n) {
    s->types = tool_types_named(types), s->shape = d;
    if (!s->types || !open_set(s)) return false;
  }
  point *p = &s->p[s->n];
  *p = (point){.seconds = us * 1e-6};
  *last = 0;
  int at = 0;
  sscanf(bar, "| %31s%n", name, &at);
  p->def = def_of(s, name);
  for (char *w = bar + at; p->def && (w = strchr(w, ' ')) && w[1];) {
    long long v;
    int end = 0;
    w++;
    if (sscanf(w, "%7[A-Z0-9]=%lld%n", p->names[p->choice.knobs_n], &v, &end) != 2) break;
    p->choice.knob[p->choice.knobs_n] = (tg_binding){NULL, v, v, 1};
    p->choice.knobs_n++, w += end;
  }
  for (uint32_t i = 0; i < p->choice.knobs_n; i++) p->choice.knob[i].name = p->names[i];
  if (p->def && s->n + 1 < POINTS) s->n++;
  return true;
}

/* Of how many sets the model's first, and what plans choose, are how far from the best. */
typedef struct { double log_sum, worst; int sets, near; } totals;

static void add(totals *t, double ratio) {
  t->log_sum += log(ratio), t->worst = fmax(t->worst, ratio), t->sets++, t->near += ratio <= 1.1;
}

/* A bound in closed form that is above the price of its point, by more than rounding, may cost the first choice its
 * best candidate. */
typedef struct { int above, all; double worst; } bounds;

static const tg_gemm_sketch *sketch_of(const char *name) {
  for (uint32_t i = 0; tg_gemm_sketches[i]; i++)
    if (!strcmp(tg_gemm_sketches[i]->kernel->name, name)) return tg_gemm_sketches[i];
  return NULL;
}

static void put_totals(const char *what, const totals *t) {
  if (t->sets)
    printf("%s: %.3f of the best (geometric mean) of %d sets, within 10 %% on %d, least %.2f\n", what,
           exp(-t->log_sum / t->sets), t->sets, t->near, 1 / t->worst);
}

/* What a plan chooses, as a point; seconds: of the recorded point with the same code, 0: there is none. */
static bool find_choice(set *s, point *out) {
  tg_binding b[TG_KIT_VALUES + TG_KIT_KNOBS];
  *out = (point){.choice = *s->space.choice, .def = def_of(s, s->space.choice->sketch->name)};
  if (!out->def) return false;
  tg_compile_options o = options_of(s, out, b);
  tg_kernel_source src = {.def = out->def, .options = &o};
  if (tg_price_of(s->ctx, &src, s->space.params_n ? s->space.params : NULL, 1, &out->price)) return false;
  for (uint32_t i = 0; i < s->n; i++)
    if (s->p[i].price.hash == out->price.hash) out->seconds = s->p[i].seconds;
  return true;
}

/* Times a choice that was not recorded in turns with the best recorded point, whose time of then it is given by, and
 * appends it. */
static void time_choice(set *s, uint32_t best, point *c, FILE *f) {
  set *two = calloc(1, sizeof *two);
  if (!two) return;
  *two = *s;
  two->p[0] = s->p[best], two->p[1] = *c, two->n = 2;
  if (time_points(two) && two->n == 2) {
    c->seconds = s->p[best].seconds * two->p[1].seconds / two->p[0].seconds;
    two->p[0] = *c, two->p[0].seconds = c->seconds, two->n = 1;
    if (strcmp(c->def->name, "gemm_plain")) put_points(two, f);   /* its words are no part of a point */
  }
  free(two);
}

static int by_seconds(const void *a, const void *b) {
  const point *const *x = a, *const *y = b;
  return ((*x)->seconds > (*y)->seconds) - ((*x)->seconds < (*y)->seconds);
}

/* Times a choice in turns with the best recorded points: those of hundreds that were lucky once are not again. Returns
 * what part of the choice's time the best of them all takes; 0: it cannot be timed. */
static double confirm_choice(set *s, const point *c) {
  enum { BEST = 8 };
  set *few = calloc(1, sizeof *few);
  point *order[POINTS];
  double part = 0;
  if (!few) return 0;
  *few = *s, few->n = 0;
  for (uint32_t i = 0; i < s->n; i++) order[i] = &s->p[i];
  qsort(order, s->n, sizeof *order, by_seconds);
  for (uint32_t i = 0; i < s->n && i < BEST; i++) few->p[few->n++] = *order[i];
  few->p[few->n++] = *c;
  uint32_t all = few->n;
  if (time_points(few) && few->n == all) {
    double least = INFINITY, chosen = few->p[all - 1].seconds;
    for (uint32_t i = 0; i < all; i++) {
      least = fmin(least, few->p[i].seconds);
      if (few->p[i].price.hash == c->price.hash) chosen = fmin(chosen, few->p[i].seconds);
    }
    part = least / chosen;
  }
  free(few);
  return part;
}

static void put_point(const point *p, const char *mark) {
  const tg_cost *c = &p->price.cost;
  printf("   %-2s %9.4g us, priced %9.4g: core %.3g memory %.3g spills %.3g L2 %.3g L3 %.3g mem %.3g code %.3g %s",
         mark, p->seconds * 1e6, c->seconds * 1e6, c->core, c->memory, c->spills, c->l2_bytes, c->l3_bytes,
         c->memory_bytes, c->code, p->def->name);
  for (uint32_t k = 0; k < p->choice.knobs_n; k++) printf(" %s=%lld", p->names[k], (long long)p->choice.knob[k].lo);
  printf("\n");
}

static void compare_bound(const set *s, const point *p, bounds *b) {
  const double rounding = 1.001;
  const tg_gemm_sketch *sketch = sketch_of(p->def->name);
  tg_gemm_view v;
  if (!sketch || !sketch->bound || !(p->price.cost.cycles > 0)) return;
  tg_gemm_look(&s->space.problem, &s->ctx->target, NULL, sketch == &tg_gemm_stream || sketch == &tg_gemm_dot, &v);
  double part = sketch->bound(&v, &p->choice) / p->price.cost.cycles;
  b->all++, b->above += part > rounding, b->worst = fmax(b->worst, part);
  if (part <= rounding) return;
  printf("%s %d %d %d: a bound of %.3f of the price\n", s->types->name, s->shape.m, s->shape.n, s->shape.k, part);
  put_point(p, "");
}

static void judge(set *s, const tool_args *a, FILE *f, totals *model, totals *first, bounds *bound) {
  uint32_t best = 0, least = 0;
  for (uint32_t i = 0; i < s->n; i++) {
    tg_binding b[TG_KIT_VALUES + TG_KIT_KNOBS];
    point *p = &s->p[i];
    for (uint32_t k = 0; k < p->choice.knobs_n; k++) p->choice.knob[k].name = p->names[k];
    tg_compile_options o = options_of(s, p, b);
    tg_kernel_source src = {.def = p->def, .options = &o};
    if (tg_price_of(s->ctx, &src, s->space.params_n ? s->space.params : NULL, 1, &p->price))
      p->price.cost.seconds = INFINITY;
    else compare_bound(s, p, bound);
    if (p->seconds < s->p[best].seconds) best = i;
    if (p->price.cost.seconds < s->p[least].price.cost.seconds) least = i;
  }
  const tool_shape *d = &s->shape;
  point plan;
  bool known = find_choice(s, &plan);
  if (known && plan.seconds == 0 && f) time_choice(s, best, &plan, f);
  bool confirm = a->stage && !strcmp(a->stage, "confirm");
  double ratio = s->p[least].seconds / s->p[best].seconds, part = known && confirm ? confirm_choice(s, &plan) : 0;
  double now = part > 0 ? 1 / part : known && !confirm ? plan.seconds / s->p[best].seconds : 0;
  printf("%-5s %5d %5d %5d %c%c  model %4.2f  plan %4.2f  (best %.4g us)  %s, best %s\n", s->types->name, d->m, d->n,
         d->k, "NT"[d->ta], "NT"[d->tb], ratio, now, s -> p[best].seconds * 1e6, s->p[least].def->name,
         s->p[best].def->name);
  for (uint32_t i = 0; i < s->n && a->knobs; i++)
    put_point(&s->p[i], i == best && i == least ? "*<" : i == best ? "*" : i == least ? "<" : "");
  if (a->knobs && known) {
    for (uint32_t k = 0; k < plan.choice.knobs_n; k++) snprintf(plan.names[k], 8, "%s", plan.choice.knob[k].name);
    put_point(&plan, "P");
  }
  add(model, ratio);
  if (now > 0) add(first, now);
}

/* Ends of a line's product, "gemm f32 64 96 80 NT |". */
static size_t product_of(const char *line) { return strcspn(line, "|"); }

/* The lines from `at` on that are of its product, as a set; each line is taken once. */
static void read_set(set *s, char **line, bool *taken, int at, int n) {
  size_t product = product_of(line[at]);
  char first[128];
  snprintf(first, sizeof first, "%.*s", (int)(product < 127 ? product : 127), line[at]);
  for (int i = at; i < n; i++) {
    if (taken[i] || strncmp(line[i], first, strlen(first)) || !read_point(s, line[i])) continue;
    taken[i] = true;
  }
}

/* Times the recorded points on this machine, and prints them as they are recorded: after a change of the code that tg
 * makes, whose times are no longer those of the file. */
static void time_again(set *s) {
  for (uint32_t i = 0; i < s->n; i++)
    for (uint32_t k = 0; k < s->p[i].choice.knobs_n; k++) s->p[i].choice.knob[k].name = s->p[i].names[k];
  if (time_points(s)) put_points(s, stdout);
}

/* What the point that the model prices least on each target took: points with equal times are no other choice. */
static bool least_priced(void *user, const tg_target *const *on, uint32_t n, uint64_t *choice) {
  set *s = user;
  const tg_target *own = &s->ctx->target;
  double seconds[2 * COLUMNS_MOST], least[2 * COLUMNS_MOST];
  if (!on) on = &own, n = 1;
  for (uint32_t i = 0; i < n; i++) least[i] = INFINITY, choice[i] = 0;
  for (uint32_t p = 0; p < s->n; p++) {
    tg_binding b[TG_KIT_VALUES + TG_KIT_KNOBS];
    for (uint32_t k = 0; k < s->p[p].choice.knobs_n; k++) s->p[p].choice.knob[k].name = s->p[p].names[k];
    tg_compile_options o = options_of(s, &s->p[p], b);
    tg_kernel_source src = {.def = s->p[p].def, .options = &o};
    if (tg_price_on(s->ctx, &src, s->space.params_n ? s->space.params : NULL, 1, on, n, seconds)) continue;
    for (uint32_t i = 0; i < n; i++)
      if (seconds[i] < least[i]) least[i] = seconds[i], memcpy(&choice[i], &s->p[p].seconds, sizeof choice[i]);
  }
  return isfinite(least[0]);
}

typedef struct { const set *of; int threads; } planned;

/* What a plan for so many threads chooses on each target. */
static bool plans(void *user, const tg_target *const *on, uint32_t n, uint64_t *choice) {
  const planned *p = user;
  const tg_target own = p->of->ctx->target;
  bool known = true;
  set *s = calloc(1, sizeof *s);
  for (uint32_t i = 0; s && i < (on ? n : 1) && known; i++) {
    memset(s, 0, sizeof *s);
    s->ctx = p->of->ctx, s->types = p->of->types, s->shape = p->of->shape;
    s->ctx->target = on ? *on[i] : own, s->ctx->target.threads = (uint32_t)p->threads;
    known = open_set_for(s, p->threads);
    const tg_kit_choice *c = s->space.choice;
    choice[i] = known ? tg_hash(c->sketch->name, strlen(c->sketch->name), s->space.strips) : 0;
    for (uint32_t k = 0; known && k < c->knobs_n; k++)
      choice[i] = tg_hash(&c->knob[k].lo, sizeof c->knob[k].lo, choice[i]);
  }
  p->of->ctx->target = own;
  free(s);
  return known && s;
}

/* The plans of one product are for one thread, those of the next for several, in turns. */
static void move_columns(set *s, columns *c) {
  enum { SEVERAL = 8 };
  char name[80], with[100];
  const tool_shape *d = &s->shape;
  bool mine = columns_mine(c);
  planned p = {.of = s, .threads = c->turn % 2 ? 1 : SEVERAL};
  if (!mine) return;
  snprintf(name, sizeof name, "%s %d %d %d %c%c", s->types->name, d->m, d->n, d->k, "NT"[d->ta], "NT"[d->tb]);
  snprintf(with, sizeof with, "plan %s on %d", name, p.threads);
  columns_ask(c, COLUMNS_SETS, name, least_priced, s);
  columns_ask(c, COLUMNS_PLANS, with, plans, &p);
}

static int replay(tg_context *ctx, const tool_args *a) {
  enum { LINES = 1 << 17 };
  char *text = tool_read(a->sweep, NULL), *rest = text, **line = calloc(LINES, sizeof *line);
  bool *taken = calloc(LINES, sizeof *taken), first_choices = a->stage && !strcmp(a->stage, "first"),
       again = a->stage && !strcmp(a->stage, "again");
  columns *moved = a->stage && !strcmp(a->stage, "columns") ? calloc(1, sizeof *moved) : NULL;
  double end = a->seconds > 0 ? bench_clock(1) + a->seconds : INFINITY;
  FILE *f = first_choices ? fopen(a->sweep, "a") : NULL;
  set *s = calloc(1, sizeof *s);
  totals model = {0}, first = {0};
  bounds bound = {0};
  int n = 0;
  if (!text || !line || !taken || !s || (first_choices && !f)) return perror("tg bench model"), TOOL_BROKEN;
  if (moved && !columns_open(moved, &ctx->target)) return perror("tg bench model"), TOOL_BROKEN;
  for (char *l; n < LINES && (l = strsep(&rest, "\n"));)
    if (!strncmp(l, "gemm ", 5)) line[n++] = l;
  if (moved) columns_divide(moved, a->workers);
  for (int i = 0; i < n && bench_clock(1) < end; i++) {
    if (taken[i]) continue;
    memset(s, 0, sizeof *s);
    s->ctx = ctx;
    read_set(s, line, taken, i, n);
    if (s->n && moved) move_columns(s, moved);
    else if (s->n && again) time_again(s);
    else if (s->n) judge(s, a, f, &model, &first, &bound);
  }
  if (f) fclose(f);
  free(text), free(line), free(taken), free(s);
  if (moved) {
    columns_texts(moved, a->target, "tests/bench/kernels");
    columns_texts(moved, a->target, "tests/polybench");
    if (columns_join(moved)) columns_report(moved);
    free(moved);
    return TOOL_OK;
  }
  if (again) return TOOL_OK;
  put_totals("the model's first", &model);
  bool confirmed = a->stage && !strcmp(a->stage, "confirm");
  put_totals(confirmed ? "what a plan chooses, in turns with the best" : "what a plan chooses, where it was recorded",
             &first);
  printf("bounds above their price: %d of %d, at most %.2f of it\n", bound.above, bound.all, bound.worst);
  return model.sets ? TOOL_OK : TOOL_WRONG;
}

static bool is_one_of(const char *stage, const char *const *names) {
  while (*names && strcmp(stage, *names)) names++;
  return *names != NULL;
}

/* Does the stage time points of the file? */
static bool is_timed(const char *stage) {
  return stage && is_one_of(stage, (const char *const[]){"again", "first", "confirm", NULL});
}

int bench_model(const tool_args *a) {
  tg_context *ctx;
  if (!a->sweep) return fprintf(stderr, "tg bench model: --sweep FILE names the file of points\n"), TOOL_USAGE;
  if (a->stage && !is_timed(a->stage) && !is_one_of(a->stage, (const char *const[]){"build", "columns", NULL}))
    return fprintf(stderr, "tg bench model: there is no stage '%s': build, again, first, confirm or columns\n",
                   a->stage),
           TOOL_USAGE;
  if (tg_context_create(&(tg_context_options){.target = a->target, .cache = a->cache, .threads = 1}, &ctx))
    return fprintf(stderr, "tg bench model: no context for '%s'\n", a->target ? a->target : "host"), TOOL_USAGE;
  if ((a->seed || is_timed(a->stage)) && !tg_target_runs_here(&ctx->target))
    return fprintf(stderr, "tg bench model: times are of this machine, which cannot run code for %s\n", a->target),
           tg_context_free(ctx), TOOL_USAGE;
  int r = a->seed ? record(ctx, a) : replay(ctx, a);
  tg_context_free(ctx);
  return r;
}
