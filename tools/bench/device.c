/* SPDX-License-Identifier: MIT
 * tg bench gemm, attention and kernels with --device: results are verified as those of the CPU are, times are read by
 * the device's clock. Operands stay in the device's memory; what copies to it take is tg measure --device. */
#define _GNU_SOURCE
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "bench/attention.h"
#include "bench/bench.h"
#include "bench/device.h"
#include "bench/kernels.inc.h"
#include "bench/product.h"
#include "bench/vendor.h"
#include "tg/gemm.h"

/* ---- the device ---- */

int bench_device_open(const tool_args *a, bench_device *d) {
  *d = (bench_device){.args = a};
  if (tg_context_create(&(tg_context_options){.tuned = a->tuned ? a->tuned : "", .cache = a->cache}, &d->context))
    return fprintf(stderr, "tg: no context\n"), TOOL_BROKEN;
  uint32_t i;
  tg_device *cpu;
  int code = !tool_device(a, d->context, &d->device) ? TOOL_USAGE : TOOL_OK;
  if (code == TOOL_OK && !tg_device_named("cpu", &i) && !tg_device_open(d->context, i, &cpu) && cpu == d->device)
    fprintf(stderr, "tg %s: the CPU is measured without --device\n", a->file ? "bench" : "measure"), code = TOOL_USAGE;
  if (code == TOOL_OK && tg_queue_open(d->device, NULL, &d->queue))
    fprintf(stderr, "tg: %s\n", tg_error_message(d->context)), code = TOOL_BROKEN;
  if (code != TOOL_OK) bench_device_close(d);
  return code;
}

void bench_device_close(bench_device *d) {
  tg_queue_free(d->queue);
  tg_context_free(d->context);
}

static bool fine(const bench_device *d, tg_status s) {
  if (s != TG_OK) fprintf(stderr, "tg: %s\n", tg_error_message(d->context));
  return s == TG_OK;
}

void *bench_device_take(const bench_device *d, const void *from, size_t bytes) {
  void *at = NULL;
  if (!fine(d, tg_device_alloc(d->device, bytes, &at))) return NULL;
  if (from && bytes && !fine(d, tg_device_copy(d->device, at, from, bytes))) return tg_device_free(d->device, at), NULL;
  return at;
}

static double sample(const bench_device *d, bench_device_put *put, void *user, int runs) {
  double at[2];
  tg_status s = tg_queue_stamp(d->queue, 0);
  for (int i = 0; i < runs && s == TG_OK; i++) s = put(user, d->queue);
  if (s == TG_OK) s = tg_queue_stamp(d->queue, 1);
  if (s == TG_OK) s = tg_queue_stamps(d->queue, 0, 2, at);
  return fine(d, s) ? (at[1] - at[0]) / runs : -1;
}

enum { SAMPLES = 200, SAMPLES_LEAST = 5 };

/* How many runs take a tenth of a millisecond; 0: it failed. The first run counts for nothing. */
static int runs_of(const bench_device *d, const bench_device_side *s) {
  enum { RUNS = 4096 };
  const double least = 100e-6;
  double first = sample(d, s->put, s->user, 1);
  if (first < 0 || (first = sample(d, s->put, s->user, 1)) < 0) return 0;
  return first < least ? (int)fmin(RUNS, least / fmax(first, 1e-8)) + 1 : 1;
}

double bench_device_time(const bench_device *d, bench_device_put *put, void *user, double seconds) {
  double times[SAMPLES], end = tool_now() + seconds;
  int runs = runs_of(d, &(bench_device_side){put, user}), n = 0;
  if (!runs) return -1;
  while (n < SAMPLES && (n < SAMPLES_LEAST || tool_now() < end))
    if ((times[n++] = sample(d, put, user, runs)) < 0) return -1;
  return tool_median(times, n);
}

bool bench_device_turns(const bench_device *d, const bench_device_side sides[2], double seconds, double times[2]) {
  double all[2][SAMPLES], end = tool_now() + seconds;
  int runs[] = {runs_of(d, &sides[0]), runs_of(d, &sides[1])}, n = 0;
  if (!runs[0] || !runs[1]) return false;
  for (; n < SAMPLES && (n < SAMPLES_LEAST || tool_now() < end); n++)
    for (int turn = 0; turn < 2; turn++) {
      int i = turn ^ (n & 1);
      if ((all[i][n] = sample(d, sides[i].put, sides[i].user, runs[i])) < 0) return false;
    }
  times[0] = tool_median(all[0], n), times[1] = tool_median(all[1], n);
  return true;
}

static double budget(const bench_device *d) { return d->args->seconds > 0 ? d->args->seconds : 1; }

/* ---- products ---- */

typedef struct { tg_gemm *plan; tg_gemm_call call; } product;

static tg_status put_product(void *user, tg_queue *q) {
  product *p = user;
  p->call.queue = q;
  return tg_gemm_run(p->plan, &p->call);
}

static bool make_operands(const bench_device *d, bench_product *x, void *at[3]) {
  size_t mk = (size_t)x->m * (size_t)x->k, kn = (size_t)x->k * (size_t)x->n, mn = (size_t)x->m * (size_t)x->n,
         bytes[] = {mk * bench_bytes(x->type->a), kn * bench_bytes(x->type->b), mn * bench_bytes(x->type->c)};
  void *a = tool_pages(bytes[0]), *b = tool_pages(bytes[1]);
  bench_fill(x->type->a, a, mk, 1), bench_fill(x->type->b, b, kn, 2);
  x->a = a, x->b = b, x->c = tool_pages(bytes[2]);
  bench_poison(x);
  const void *const from[] = {a, b, x->c};
  for (int i = 0; i < 3; i++)
    if (!(at[i] = bench_device_take(d, from[i], bytes[i]))) return false;
  return true;
}

/* One run over a C that is overwritten before: is it right? */
static bool product_right(const bench_device *d, const bench_device_side *side, const bench_product *x,
                          const double *sums, void *c) {
  size_t bytes = (size_t)x->m * (size_t)x->n * bench_bytes(x->type->c);
  bench_poison(x);
  return fine(d, tg_device_copy(d->device, c, x->c, bytes)) && fine(d, side->put(side->user, d->queue)) &&
         fine(d, tg_device_finish(d->device)) && fine(d, tg_device_copy(d->device, x->c, c, bytes)) &&
         bench_verified(x, sums);
}

/* One product: tg's plan, and the vendor's library where one is measured against. */
typedef struct {
  const bench_device *d;
  const char *name;
  product own;
  bench_product x;
  void *at[3];
  double *sums, seconds[2];    /* of tg, of the vendor */
  const char *way;             /* the vendor's fastest; NULL: it does not compute this */
  bool wrong;
} contest;

static bool made(contest *k, const tool_shape *s) {
  const tool_types *t = k->x.type;
  const tg_gemm_desc desc = {.a = (uint8_t)t->a, .b = (uint8_t)t->b, .c = (uint8_t)t->c,
                             .a_major = s->ta ? TG_COLUMN_MAJOR : TG_ROW_MAJOR,
                             .b_major = s->tb ? TG_COLUMN_MAJOR : TG_ROW_MAJOR, .m = {s->m, 0}, .n = {s->n, 0},
                             .k = {s->k, 0}, .device = k->d->device};
  if (!make_operands(k->d, &k->x, k->at) || !(k->sums = bench_sums(&k->x)) ||
      !fine(k->d, tg_gemm_plan(k->d->context, &desc, &k->own.plan))) return false;
  k->own.call = (tg_gemm_call){.a = k->at[0], .b = k->at[1], .c = k->at[2]};
  if (product_right(k->d, &(bench_device_side){put_product, &k->own}, &k->x, k->sums, k->at[2])) return true;
  return fprintf(stderr, "tg bench gemm: %s: wrong result\n", k->name), false;
}

/* The vendor's fastest way whose result is right stays chosen. */
static void choose_way(contest *k, bench_vendor *v) {
  const bench_device_side side = {bench_vendor_put, v};
  double best = INFINITY;
  int chosen = -1;
  for (int i = 0, n = bench_vendor_ways(v, &k->x, k->at); i < n; i++) {
    const char *way = bench_vendor_choose(v, i);
    if (!product_right(k->d, &side, &k->x, k->sums, k->at[2])) {
      fprintf(stderr, "tg bench gemm: %s: %s: wrong result\n", k->name, way), k->wrong = true;
      continue;
    }
    double s = bench_device_time(k->d, bench_vendor_put, v, budget(k->d) / 20);
    if (s > 0 && s < best) best = s, chosen = i;
  }
  if (chosen >= 0) k->way = bench_vendor_choose(v, chosen);
}

static bool timed(contest *k, bench_vendor *v) {
  if (v) choose_way(k, v);
  if (k->way)
    return bench_device_turns(k->d, (const bench_device_side[]){{put_product, &k->own}, {bench_vendor_put, v}},
                              budget(k->d), k->seconds);
  return (k->seconds[0] = bench_device_time(k->d, put_product, &k->own, budget(k->d))) > 0;
}

static void told(const contest *k) {
  const bool json = k->d->args->json;
  double flops = 2.0 * k->x.m * k->x.n * (double)k->x.k, own = k->seconds[0], other = k->seconds[1];
  tool_figure(json, "gemm", k->name, "time", own * 1e6, "us", NULL);
  tool_figure(json, "gemm", k->name, "rate", flops / own * 1e-9, "GFLOP/s", NULL);
  if (tg_gemm_describe(k->own.plan).tuned) tool_figure(json, "gemm", k->name, "tuned", 1, "kernels", NULL);
  if (!k->way) return;
  tool_figure(json, "gemm", k->name, k->way, flops / other * 1e-9, "GFLOP/s", NULL);
  tool_figure(json, "gemm", k->name, "rate of tg", other / own, "ratio", "cublas");
}

/* Of a class and types: rates of tg over the vendor's. */
typedef struct { char name[48]; double log_sum, least; int cases; } tally;
enum { TALLIES = 32 };
typedef struct { tally of[TALLIES]; int n; } tallies;

static void add_ratio(tallies *all, const char *class_of, const char *types, double ratio) {
  char name[48];
  int i = 0;
  snprintf(name, sizeof name, "%.23s %.16s", class_of, types);
  while (i < all->n && strcmp(all->of[i].name, name)) i++;
  if (i == all->n && i == TALLIES) return;
  tally *t = &all->of[i];
  if (i == all->n) *t = (tally){.least = ratio}, memcpy(t->name, name, sizeof name), all->n++;
  t->log_sum += log(ratio), t->least = fmin(t->least, ratio), t->cases++;
}

static int one_product(const bench_device *d, bench_vendor *v, const char *name, const tool_shape *s,
                       const tool_types *t, tallies *all) {
  contest k = {.d = d, .name = name};
  k.x = (bench_product){.type = t, .m = s->m, .n = s->n, .k = s->k, .ta = s->ta, .tb = s->tb, .threads = 1,
                        .lda = s->ta ? s->m : s->k, .ldb = s->tb ? s->k : s->n, .ldc = s->n};
  bool ran = made(&k, s) && timed(&k, v);
  if (ran) told(&k);
  if (ran && k.way) add_ratio(all, s->class_of, t->name, k.seconds[1] / k.seconds[0]);
  tg_gemm_free(k.own.plan);
  for (int i = 0; i < 3; i++) tg_device_free(d->device, k.at[i]);
  free(k.sums), free((void *)(uintptr_t)k.x.a), free((void *)(uintptr_t)k.x.b), free(k.x.c);
  return ran && !k.wrong ? TOOL_OK : TOOL_WRONG;
}

static int products_of(const bench_device *d, bench_vendor *v, const tool_types *t, const tool_shape *shapes, int n,
                       tallies *all, int *ran) {
  int result = TOOL_OK;
  for (int i = 0; i < n; i++) {
    char name[96];
    snprintf(name, sizeof name, "%.23s %dx%dx%d %c%c %s", shapes[i].class_of, shapes[i].m, shapes[i].n, shapes[i].k,
             "NT"[shapes[i].ta], "NT"[shapes[i].tb], t->name);
    if (d->args->cases && !strstr(name, d->args->cases)) continue;
    int r = one_product(d, v, name, &shapes[i], t, all);
    result = r > result ? r : result;
    ++*ran;
  }
  return result;
}

static int products(const bench_device *d, bench_vendor *v) {
  static tallies all;
  const tool_args *a = d->args;
  tool_shape *shapes = NULL;
  char wanted[128], *rest = NULL;
  int result = TOOL_OK, ran = 0, n = tool_read_shapes(a->shapes ? a->shapes : "tests/bench/gemm/shapes.txt", &shapes);
  if (n < 0) return TOOL_USAGE;
  if (v && !a->json) printf("  against cuBLAS %s\n", bench_vendor_version(v));
  snprintf(wanted, sizeof wanted, "%s", a->types ? a->types : "f32");
  for (char *name = strtok_r(wanted, ",", &rest); name; name = strtok_r(NULL, ",", &rest)) {
    const tool_types *t = tool_types_named(name);
    int r = t ? products_of(d, v, t, shapes, n, &all, &ran) : TOOL_USAGE;
    result = r > result ? r : result;
  }
  free(shapes);
  for (int i = 0; i < all.n; i++) {
    const tally *t = &all.of[i];
    tool_figure(a->json, "gemm", t->name, "geometric mean", exp(t->log_sum / t->cases), "ratio", "cublas");
    tool_figure(a->json, "gemm", t->name, "worst case", t->least, "ratio", "cublas");
  }
  if (!ran && result == TOOL_OK)
    return fprintf(stderr, "tg bench gemm: no case contains '%s'\n", a->cases ? a->cases : ""), TOOL_USAGE;
  return result;
}

/* ---- attention ---- */

typedef struct { tg_attention *plan; tg_attention_call call; } attending;

static tg_status put_attention(void *user, tg_queue *q) {
  attending *p = user;
  p->call.queue = q;
  return tg_attention_run(p->plan, &p->call);
}

static double run_attention(const bench_device *d, const char *name, attention_case *c, attending *p) {
  const attention_shape *s = &c->of;
  void *at[5] = {bench_device_take(d, c->q, c->q_bytes), bench_device_take(d, c->k, c->kv_bytes),
                 bench_device_take(d, c->v, c->kv_bytes), bench_device_take(d, NULL, c->q_bytes),
                 s->alibi ? bench_device_take(d, c->slopes, (size_t)s->heads * sizeof(float)) : NULL};
  double seconds = -1;
  p->call = (tg_attention_call){.batch = s->batch, .queries = s->queries, .keys = s->keys, .q = at[0], .k = at[1],
                                .v = at[2], .o = at[3], .slopes = at[4]};
  bool ran = at[0] && at[1] && at[2] && at[3] && fine(d, put_attention(p, d->queue)) &&
             fine(d, tg_device_finish(d->device)) && fine(d, tg_device_copy(d->device, c->o, at[3], c->q_bytes));
  if (ran && !attention_right(c, c->o, s->type)) fprintf(stderr, "tg bench attention: %s: wrong result\n", name);
  else if (ran) seconds = bench_device_time(d, put_attention, p, budget(d));
  for (int i = 0; i < 5; i++) tg_device_free(d->device, at[i]);
  return seconds;
}

static int one_attention(const bench_device *d, const char *name, const attention_shape *s) {
  const tg_attention_desc desc = {.q = (uint8_t)s->type, .heads = s->heads, .kv_heads = s->kv_heads, .head = s->head,
                                  .queries = {s->queries, 0}, .keys = {s->keys, 0}, .window = s->window,
                                  .soft_cap = s->soft_cap, .alibi = s->alibi,
                                  .causal = s->causal ? TG_CAUSAL_BOTTOM_RIGHT : TG_CAUSAL_NONE, .device = d->device};
  attention_case c;
  attending p = {.plan = NULL};
  double seconds = -1;
  if (!attention_case_open(s, 1, 1, &c)) return TOOL_BROKEN;
  if (fine(d, tg_attention_plan(d->context, &desc, &p.plan))) seconds = run_attention(d, name, &c, &p);
  if (seconds > 0) {
    tool_figure(d->args->json, "attention", name, "time", seconds * 1e6, "us", NULL);
    tool_figure(d->args->json, "attention", name, "rate", attention_flops(s) / seconds * 1e-9, "GFLOP/s", NULL);
    tool_figure(d->args->json, "attention", name, "keys and values", 2e-9 * (double)c.kv_bytes / seconds, "GB/s", NULL);
  }
  tg_attention_free(p.plan);
  attention_case_close(&c);
  return seconds > 0 ? TOOL_OK : TOOL_WRONG;
}

static int attentions(const bench_device *d, bench_vendor *none) {
  (void)none;
  const tool_args *a = d->args;
  attention_shape *shapes = NULL;
  int result = TOOL_OK, ran = 0,
      n = attention_read_shapes(a->shapes ? a->shapes : "tests/bench/attention/shapes.txt", &shapes);
  if (n < 0) return TOOL_USAGE;
  for (int i = 0; i < n; i++) {
    char name[128];
    attention_shape_name(&shapes[i], name, sizeof name);
    if (shapes[i].documents || (a->cases && !strstr(name, a->cases))) continue;
    int r = one_attention(d, name, &shapes[i]);
    result = r > result ? r : result;
    ran++;
  }
  free(shapes);
  if (!ran) return fprintf(stderr, "tg bench attention: no case contains '%s'\n", a->cases ? a->cases : ""), TOOL_USAGE;
  return result;
}

/* ---- kernels ---- */

enum { OPERANDS = 4 };
typedef struct { tg_kernel *kernel; tg_launch launch; } launching;

static tg_status put_launch(void *user, tg_queue *q) {
  launching *l = user;
  return tg_queue_launch(q, l->kernel, &l->launch);
}

/* Is what the device wrote what the CPU makes of the same operands, but for what orders of sums and functions leave
 * open? */
static bool same(const float *got, const float *want, size_t n) {
  for (size_t i = 0; i < n; i++)
    if (!(fabsf(got[i] - want[i]) <= 1e-4f * (1 + fabsf(want[i])))) return false;
  return true;
}

static bool verified(const bench_device *d, const tg_kernel_info *info, tg_argument *here, const tg_argument *there,
                     tg_kernel *on_cpu) {
  tg_launch l = {.buffers = here, .buffers_n = info->buffers_n, .threads = 1};
  bool right = fine(d, tg_kernel_run(on_cpu, &l));
  for (uint32_t b = 0; b < info->buffers_n && right; b++) {
    if (!info->buffers[b].written) continue;
    float *got = tool_pages(here[b].bytes);
    right = fine(d, tg_device_copy(d->device, got, there[b].data, here[b].bytes)) &&
            same(got, here[b].data, here[b].bytes / sizeof *got);
    free(got);
  }
  return right;
}

static double run_kernel(const bench_device *d, const char *name, tg_kernel *kernel, tg_kernel *on_cpu) {
  const tg_kernel_info *info = tg_kernel_describe(kernel);
  tg_argument here[OPERANDS] = {{0}}, there[OPERANDS] = {{0}};
  launching l = {kernel, {.buffers = there, .buffers_n = info->buffers_n}};
  bool made = info->buffers_n <= OPERANDS;
  double seconds = -1;
  for (uint32_t b = 0; b < info->buffers_n && made; b++) {
    made = fine(d, tg_kernel_bytes(kernel, NULL, b, &here[b].bytes));
    if (!made) break;
    here[b].data = tool_pages(here[b].bytes), there[b].bytes = here[b].bytes;
    bench_fill(TG_F32, here[b].data, here[b].bytes / sizeof(float), b + 1);
    made = (there[b].data = bench_device_take(d, here[b].data, here[b].bytes)) != NULL;
  }
  bool ran = made && fine(d, put_launch(&l, d->queue)) && fine(d, tg_device_finish(d->device));
  if (ran && !verified(d, info, here, there, on_cpu))
    fprintf(stderr, "tg bench kernels: %s: another result than the CPU's\n", name);
  else if (ran) seconds = bench_device_time(d, put_launch, &l, budget(d));
  for (uint32_t b = 0; b < OPERANDS; b++) free(here[b].data), tg_device_free(d->device, there[b].data);
  return seconds;
}

/* bytes: that the kernel must read and write at least. *copied: the rate of copy, with which others are compared. */
static int one_kernel(const bench_device *d, const char *name, const tg_kernel_def *def, const tg_binding *b,
                      uint32_t n, double bytes, double *copied) {
  tg_kernel *kernel = NULL, *on_cpu = NULL;
  tg_compile_options o = {.bindings = b, .bindings_n = n, .device = d->device}, cpu = o;
  cpu.device = NULL;
  double seconds = -1;
  if (fine(d, tg_kernel_compile(d->context, def, &o, &kernel)) &&
      fine(d, tg_kernel_compile(d->context, def, &cpu, &on_cpu)))
    seconds = run_kernel(d, name, kernel, on_cpu);
  if (seconds > 0) {
    double rate = bytes / seconds * 1e-9;
    tool_figure(d->args->json, "kernels", name, "time", seconds * 1e6, "us", NULL);
    tool_figure(d->args->json, "kernels", name, "bandwidth", rate, "GB/s", NULL);
    if (*copied > 0) tool_figure(d->args->json, "kernels", name, "share", rate / *copied, "ratio", "copy");
    else *copied = rate;
  }
  tg_kernel_free(kernel), tg_kernel_free(on_cpu);
  return seconds > 0 ? TOOL_OK : TOOL_WRONG;
}

static int kernels(const bench_device *d, bench_vendor *none) {
  (void)none;
  enum { ELEMENTS = 1 << 24, ROW = 4096 };
  const struct { const char *name; const tg_kernel_def *def; bool rows; double streams; } all[] = {
      {"copy", &copy, false, 2},
      {"axpy", &axpy, false, 3},
      {"sum", &total, false, 1},
      {"softmax, rows of 4096", &softmax, true, 2},
      {"layernorm, rows of 4096", &layernorm, true, 2}};
  double copied = 0;
  int result = TOOL_OK, ran = 0;
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
    const tg_binding flat[] = {{"N", ELEMENTS, ELEMENTS, 1}},
                     rows[] = {{"R", ELEMENTS / ROW, ELEMENTS / ROW, 1}, {"N", ROW, ROW, 1}};
    if (d->args->cases && !strstr(all[i].name, d->args->cases)) continue;
    int r = one_kernel(d, all[i].name, all[i].def, all[i].rows ? rows : flat, all[i].rows ? 2 : 1,
                       all[i].streams * ELEMENTS * sizeof(float), &copied);
    result = r > result ? r : result;
    ran++;
  }
  if (!ran) return fprintf(stderr, "tg bench kernels: no case contains '%s'\n", d->args->cases), TOOL_USAGE;
  return result;
}

int bench_on_device(const tool_args *a) {
  bench_device d;
  int (*run)(const bench_device *, bench_vendor *) = !strcmp(a->file, "gemm")        ? products
                                     : !strcmp(a->file, "attention") ? attentions
                                     : !strcmp(a->file, "kernels")   ? kernels
                                                                     : NULL;
  if (!run) return fprintf(stderr, "tg bench %s: --device is for gemm, attention and kernels\n", a->file), TOOL_USAGE;
  if ((a->vs && run != products) || a->backward || a->plot || a->sweep || a->expect)
    return fprintf(stderr, "tg bench %s: --device goes with --shapes, --types, --case, --seconds, --tuned, --cache and "
                           "--json alone; gemm with --vs\n", a->file), TOOL_USAGE;
  bench_vendor *v = NULL;
  int code = bench_device_open(a, &d);
  if (code != TOOL_OK) return code;
  if (a->vs && !(v = bench_vendor_open(a->vs, &d))) return TOOL_USAGE;
  code = run(&d, v);
  bench_device_close(&d);
  bench_vendor_close(v);
  return code;
}
