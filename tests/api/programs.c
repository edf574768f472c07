/* SPDX-License-Identifier: MIT
 * Programs (tg/program.h) on the CPU, or on the devices named, against the same launches one after another: drawn programs of small
 * kernels, an encoder of products and attention, what is refused, allocations that fail.
 *   api_programs [--seed N] [--count N] [DEVICE ...] */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include "drawn.h"
#include "tg/attention.h"
#include "tg/dsl.h"
#include "tg/gemm.h"

typedef struct { tg_context *context; tg_device *device; const char *name; uint32_t seed; bool host; } run;

/* ---- kernels of which drawn programs are made ---- */

TG_KERNEL(mix, N) {
  tg_in(x, f32, [N]);
  tg_in(z, f32, [N]);
  tg_out(y, f32, [N]);
  tg_range(i, N) tg(y[i] = 0.5 * x[i] + z[i]);
}
TG_KERNEL(bump, N) {
  tg_in(x, f32, [N]);
  tg_inout(y, f32, [N]);
  tg_range(i, N) tg(y[i] = y[i] - 0.25 * x[i]);
}
/* Two phases, and memory that they share: the sum is known to all tasks of the second. */
TG_KERNEL(centre, N) {
  tg_in(x, f32, [N]);
  tg_out(y, f32, [N]);
  tg_define_local(total, f32, [1]);
  tg(total[0] = sum_in_order(i : N, x[i]));
  tg_range(j, N) tg(y[j] = x[j] - total[0]);
  tg_opt(split j 64 as jo ji);
  tg_opt(thread jo);
}
static const tg_kernel_def *const defs[] = {&mix, &bump, &centre};
enum { KINDS = 3, LONGEST = 3000, MOST = 40 };

typedef struct { uint32_t kind, from[2], at[2], to; int64_t n; } drawn_step;
/* Memory 0 and 1 are read, 2 and 3 are written by the caller; those from 4 on are temporaries. */
typedef struct { uint32_t memory_n, steps_n; int64_t bytes[MOST + 4]; drawn_step step[MOST]; bool full[MOST + 4]; } drawn;

static void draw_program(run *r, drawn *d) {
  d->steps_n = 1 + draw(r, MOST), d->memory_n = 4;
  for (uint32_t i = 0; i < 4; i++) d->bytes[i] = LONGEST * 4;
  memset(d->full, 0, sizeof d->full);
  d->full[0] = d->full[1] = true;
  for (uint32_t s = 0; s < d->steps_n; s++) {
    drawn_step *x = &d->step[s];
    x->kind = draw(r, 10) < 6 ? 0 : 1 + draw(r, 2);
    x->n = draw(r, 4) ? 1 + draw(r, LONGEST / 4) : 1 + draw(r, LONGEST);
    for (uint32_t i = 0; i < 2; i++) {
      /* mostly what was written lately, so that lives are short */
      do x->from[i] = draw(r, 3) ? d->memory_n - 1 - draw(r, d->memory_n > 6 ? 6 : d->memory_n) : draw(r, d->memory_n);
      while (!d->full[x->from[i]]);
      if (d->bytes[x->from[i]] / 4 < x->n) x->n = d->bytes[x->from[i]] / 4;
    }
    for (uint32_t i = 0; i < 2; i++) x->at[i] = draw(r, (uint32_t)(d->bytes[x->from[i]] / 4 - x->n + 1));
    if (x->kind == 1) {   /* changes what its second operand is */
      x->to = x->from[1];
      if (x->to < 2 || x->to == x->from[0]) x->kind = 0;
    }
    if (x->kind != 1) {
      if (s + 4 > d->steps_n && d->full[2] + d->full[3] < 2) x->to = d->full[2] ? 3 : 2;
      else x->to = d->memory_n++, d->bytes[x->to] = x->n * 4;
      d->full[x->to] = true;
    }
  }
  for (uint32_t i = 2; i < 4; i++) d->full[i] = true;
}

/* The launch of a step, for memory at these addresses. */
static void launch_of(const drawn_step *x, char *const *at, const int64_t *bytes, tg_argument *a, tg_launch *l) {
  uint32_t n = 0;
  (void)bytes;
  a[n++] = (tg_argument){.data = at[x->from[0]] + 4 * x->at[0], .bytes = (size_t)x->n * 4};
  if (x->kind == 0) a[n++] = (tg_argument){.data = at[x->from[1]] + 4 * x->at[1], .bytes = (size_t)x->n * 4};
  a[n++] = (tg_argument){.data = at[x->to] + (x->kind == 1 ? 4 * x->at[1] : 0), .bytes = (size_t)x->n * 4};
  *l = (tg_launch){.buffers = a, .buffers_n = n, .params = &x->n, .params_n = 1, .threads = -1};
}

/* ---- the peak, found here ---- */

/* Bytes of the temporaries that live at once, from the first step that uses one to the last, if steps run one after another. */
static size_t peak(const drawn *d) {
  size_t most = 0;
  for (uint32_t s = 0; s < d->steps_n; s++) {
    size_t live = 0;
    for (uint32_t m = 4; m < d->memory_n; m++) {
      bool before = false, after = false;
      for (uint32_t k = 0; k < d->steps_n; k++) {
        const drawn_step *x = &d->step[k];
        bool uses = x->to == m || x->from[0] == m || (x->kind < 2 && x->from[1] == m);
        before |= uses && k <= s, after |= uses && k >= s;
      }
      if (before && after) live += (size_t)d->bytes[m];
    }
    if (live > most) most = live;
  }
  return most;
}

/* ---- memory of the device ---- */

static void *numbers(run *r, size_t bytes, const float *from) {
  void *there = NULL;
  FINE(tg_device_alloc(r->device, bytes, &there));
  if (bytes) FINE(tg_device_copy(r->device, there, from, bytes));
  return there;
}

static void backwards(void *user, int64_t n, void (*task)(void *arg, int64_t i), void *arg) {
  (void)user;
  while (n-- > 0) task(arg, n);
}
typedef struct { void (*task)(void *arg, int64_t i); void *arg; int64_t i; } one_task;
static void *run_task(void *p) { return ((one_task *)p)->task(((one_task *)p)->arg, ((one_task *)p)->i), NULL; }
static void on_threads(void *user, int64_t n, void (*task)(void *arg, int64_t i), void *arg) {
  enum { FEW = 16 };
  pthread_t t[FEW];
  one_task each[FEW];
  (void)user;
  for (int64_t i = 0; i < n; i++) each[i] = (one_task){task, arg, i};
  for (int64_t i = 1; i < n; i++) pthread_create(&t[i], NULL, run_task, &each[i]);
  if (n) run_task(&each[0]);
  for (int64_t i = 1; i < n; i++) pthread_join(t[i], NULL);
}

/* ---- drawn programs ---- */

typedef struct { double over_live, over_peak; uint32_t together; } figures;

static void put_drawn(run *r, tg_kernel *const *kernels, const drawn *d, tg_program *p) {
  static const char *const fixed[] = {"in 0", "in 1", "out 2", "out 3"};
  char *at[MOST + 4] = {NULL}, name[32];
  tg_argument a[3];
  tg_launch l;
  for (uint32_t m = 0; m < d->memory_n; m++) {
    snprintf(name, sizeof name, "temporary %u", m);
    if (m < 4) FINE(tg_program_argument(p, fixed[m], (size_t)d->bytes[m], (void **)&at[m]));
    else FINE(tg_program_temporary(p, name, (size_t)d->bytes[m], (void **)&at[m]));
  }
  for (uint32_t s = 0; s < d->steps_n; s++) {
    launch_of(&d->step[s], at, d->bytes, a, &l);
    FINE(tg_program_launch(p, kernels[d->step[s].kind], &l));
  }
  FINE(tg_program_end(p));
}

static void one_program(run *r, tg_kernel *const *kernels, const float *data, figures *f) {
  static const tg_exec execs[] = {{3, backwards, NULL}, {3, on_threads, NULL}, {1, NULL, NULL}};
  drawn d;
  tg_program *p = NULL;
  char *separate[MOST + 4];
  draw_program(r, &d);
  bool apart = draw(r, 2);
  FINE(tg_program_begin(r->context, &(tg_program_options){.device = r->device, .threads = (int)draw(r, 4), .flags = apart ? TG_PROGRAM_SEPARATE : 0}, &p));
  put_drawn(r, kernels, &d, p);
  for (uint32_t m = 0; m < d.memory_n; m++) separate[m] = numbers(r, (size_t)d.bytes[m], data);
  for (uint32_t s = 0; s < d.steps_n; s++) {
    tg_argument a[3];
    tg_launch l;
    launch_of(&d.step[s], separate, d.bytes, a, &l);
    FINE(tg_kernel_run(kernels[d.step[s].kind], &l));
  }
  tg_program_info i;
  FINE(tg_program_describe(p, &i));
  size_t own = peak(&d);
  CHECK((i.fused || i.live_bytes >= own) && i.planned_bytes >= i.live_bytes, "%s: %zu planned, %zu live, %zu by the test", r->name, i.planned_bytes, i.live_bytes, own);
  if (own > 8192 && (double)i.planned_bytes / (double)i.live_bytes > f->over_live) f->over_live = (double)i.planned_bytes / (double)i.live_bytes;
  f->together += i.steps - i.groups;
  for (int round = 0; round < 3; round++) {   /* other memory each time */
    tg_argument a[4] = {{.data = NULL}};
    float *want = malloc(LONGEST * 4), *got = malloc(LONGEST * 4);
    for (int m = 0; m < 4; m++) a[m].data = numbers(r, LONGEST * 4, data), a[m].bytes = LONGEST * 4;
    tg_program_call call = {.arguments = a, .arguments_n = 4};
    if (r->host && draw(r, 2)) call.exec = &execs[draw(r, 3)];
    if (r->host && draw(r, 2)) {
      call.workspace_bytes = i.workspace;
      call.workspace = aligned_alloc(64, i.workspace ? i.workspace : 64);
      memset(call.workspace, 0xff, i.workspace);
    }
    FINE(tg_program_run(p, &call));
    for (int m = 2; m < 4; m++) {
      FINE(tg_device_copy(r->device, want, separate[m], LONGEST * 4));
      FINE(tg_device_copy(r->device, got, a[m].data, LONGEST * 4));
      CHECK(!memcmp(want, got, LONGEST * 4), "%s: seed %u: out %d has other bits", r->name, r->seed, m);
    }
    for (int m = 0; m < 4; m++) tg_device_free(r->device, a[m].data);
    free(want), free(got), free(call.workspace);
  }
  for (uint32_t m = 0; m < d.memory_n; m++) tg_device_free(r->device, separate[m]);
  tg_program_free(p);
}

static void drawn_programs(run *r, int count) {
  tg_binding n = {"N", 1, LONGEST, 1};
  tg_kernel *kernels[KINDS] = {NULL};
  float *data = malloc(LONGEST * 4);
  figures f = {0, 0, 0};
  for (int i = 0; i < LONGEST; i++) data[i] = (float)draw(r, 1000) / 500 - 1;
  for (int k = 0; k < KINDS; k++)
    FINE(tg_kernel_compile(r->context, defs[k], &(tg_compile_options){.bindings = &n, .bindings_n = 1, .device = r->device}, &kernels[k]));
  for (int i = 0; i < count && !test_failed; i++) one_program(r, kernels, data, &f);
  CHECK(!r->host || f.together > 0, "no two steps ran at the same time");
  printf("%s: %d drawn programs: planned over live at most %.3f; %u steps joined others\n", r->name, count, f.over_live, f.together);
  for (int k = 0; k < KINDS; k++) tg_kernel_free(kernels[k]);
  free(data);
}

/* ---- an encoder: products and attention ---- */

enum { WIDTH = 96, HEADS = 3, HEAD = WIDTH / HEADS, INNER = 4 * WIDTH, LAYERS = 3, TOKENS = 21 };

TG_KERNEL(normalise, T) {
  tg_let(W, WIDTH);
  tg_in(x, f32, [T, W]);
  tg_out(y, f32, [T, W]);
  tg_range(t, T) {
    tg(let mean = sum(i : W, x[t,i]) / f32(W));
    tg(let spread = sum(j : W, (x[t,j] - mean) * (x[t,j] - mean)) / f32(W));
    tg_range(k, W) tg(y[t,k] = (x[t,k] - mean) * rsqrt(spread + 1e-12));
  }
}

typedef struct {
  tg_gemm *qkv, *out, *up, *down;
  tg_attention *attention;
  tg_kernel *normal;
  float *weights;              /* of all layers, on the device */
} encoder;

static tg_gemm *product(run *r, int64_t n, int64_t k, const char *epilogue, bool residual) {
  tg_gemm_desc d = {.m = {TOKENS, 0}, .n = {n, 0}, .k = {k, 0}, .epilogue = epilogue, .device = r->host ? NULL : r->device, .threads = 2};
  tg_gemm *g = NULL;
  if (residual) d.arg[0].name = "old", d.arg[0].per = TG_PER_ELEMENT;
  FINE(tg_gemm_plan(r->context, &d, &g));
  return g;
}

static void open_encoder(run *r, encoder *e) {
  size_t n = (size_t)LAYERS * (3 + 1 + 4 + 4) * WIDTH * WIDTH;
  float *w = malloc(n * sizeof *w);
  for (size_t i = 0; i < n; i++) w[i] = ((float)draw(r, 2000) / 1000 - 1) * 0.1f;
  e->weights = numbers(r, n * sizeof *w, w);
  free(w);
  e->qkv = product(r, 3 * WIDTH, WIDTH, NULL, false);
  e->out = product(r, WIDTH, WIDTH, "acc + old", true);
  e->up = product(r, INNER, WIDTH, "max(acc, 0)", false);
  e->down = product(r, WIDTH, INNER, "acc + old", true);
  tg_attention_desc a = {.heads = HEADS, .head = HEAD, .queries = {TOKENS, 0}, .keys = {TOKENS, 0}, .device = r->host ? NULL : r->device, .threads = 2};
  FINE(tg_attention_plan(r->context, &a, &e->attention));
  tg_binding t = {"T", 1, TOKENS, 1};
  FINE(tg_kernel_compile(r->context, &normalise, &(tg_compile_options){.bindings = &t, .bindings_n = 1, .device = r->device}, &e->normal));
}

static void close_encoder(run *r, encoder *e) {
  tg_gemm_free(e->qkv), tg_gemm_free(e->out), tg_gemm_free(e->up), tg_gemm_free(e->down), tg_attention_free(e->attention), tg_kernel_free(e->normal);
  tg_device_free(r->device, e->weights);
}

/* Where steps go: into a program, or (NULL) they run at once. fresh: the number of temporaries so far, and their bytes by the step that
 * writes each and the last that reads it. */
typedef struct { run *r; tg_program *p; float *at[8 * LAYERS]; size_t bytes[8 * LAYERS]; uint32_t first[8 * LAYERS], last[8 * LAYERS], fresh, step; char *workspace; } sink;

static float *fresh(sink *s, int64_t columns) {
  char name[32];
  void *at = NULL;
  run *r = s->r;
  snprintf(name, sizeof name, "t%u", s->fresh);
  s->bytes[s->fresh] = (size_t)(TOKENS * columns) * 4, s->first[s->fresh] = s->step, s->last[s->fresh] = s->step;
  if (s->p) FINE(tg_program_temporary(s->p, name, s->bytes[s->fresh], &at));
  else FINE(tg_device_alloc(r->device, s->bytes[s->fresh], &at));
  return s->at[s->fresh++] = at;
}

static void used(sink *s, const float *at) {
  for (uint32_t i = 0; i < s->fresh; i++)
    if (at >= s->at[i] && at < s->at[i] + s->bytes[i] / 4) s->last[i] = s->step;
}

static void multiply(sink *s, const tg_gemm *g, const float *a, const float *b, const float *old, float *c) {
  run *r = s->r;
  tg_gemm_call call = {.m = TOKENS, .a = a, .b = b, .c = c, .arg = {old}};
  used(s, a), used(s, c);
  if (old) used(s, old);
  if (s->p) FINE(tg_gemm_put(s->p, g, &call));
  else {
    if (r->host) call.workspace_bytes = tg_gemm_workspace(g, NULL), call.workspace = s->workspace;
    FINE(tg_gemm_run(g, &call));
  }
  s->step++;
}

static void attend(sink *s, const tg_attention *a, const float *qkv, float *o) {
  run *r = s->r;
  tg_attention_call call = {.queries = TOKENS, .keys = TOKENS, .q = qkv, .k = qkv + WIDTH, .v = qkv + 2 * WIDTH, .o = o,
                            .q_strides = {0, HEAD, 3 * WIDTH}, .k_strides = {0, HEAD, 3 * WIDTH}, .v_strides = {0, HEAD, 3 * WIDTH}, .o_strides = {0, HEAD, WIDTH}};
  used(s, qkv), used(s, o);
  if (s->p) FINE(tg_attention_put(s->p, a, &call));
  else {
    if (r->host) call.workspace_bytes = tg_attention_workspace(a, &call), call.workspace = s->workspace;
    FINE(tg_attention_run(a, &call));
  }
  s->step++;
}

static void launch(sink *s, tg_kernel *k, float *from, float *to) {
  run *r = s->r;
  int64_t t = TOKENS;
  tg_argument a[] = {{.data = from, .bytes = TOKENS * WIDTH * 4}, {.data = to, .bytes = TOKENS * WIDTH * 4}};
  tg_launch l = {.buffers = a, .buffers_n = 2, .params = &t, .params_n = 1, .threads = 2};
  used(s, from), used(s, to);
  if (s->p) FINE(tg_program_launch(s->p, k, &l));
  else FINE(tg_kernel_run(k, &l));
  s->step++;
}

static void encode(sink *s, const encoder *e, float *x, float *y) {
  const float *w = e->weights;
  for (int layer = 0; layer < LAYERS; layer++) {
    float *qkv = fresh(s, 3 * WIDTH);
    multiply(s, e->qkv, x, w, NULL, qkv), w += 3 * WIDTH * WIDTH;
    float *o = fresh(s, WIDTH);
    attend(s, e->attention, qkv, o);
    float *sum = fresh(s, WIDTH);
    multiply(s, e->out, o, w, x, sum), w += WIDTH * WIDTH;
    float *mid = fresh(s, WIDTH);
    launch(s, e->normal, sum, mid);
    float *inner = fresh(s, INNER);
    multiply(s, e->up, mid, w, NULL, inner), w += WIDTH * INNER;
    float *whole = fresh(s, WIDTH);
    multiply(s, e->down, inner, w, mid, whole), w += WIDTH * INNER;
    float *next = layer + 1 < LAYERS ? fresh(s, WIDTH) : y;
    launch(s, e->normal, whole, next);
    x = next;
  }
}

static void encoders(run *r) {
  enum { BYTES = TOKENS * WIDTH * 4, WORK = 1 << 22 };
  encoder e = {0};
  float *x = malloc(BYTES), *want = malloc(BYTES), *got = malloc(BYTES);
  for (int i = 0; i < TOKENS * WIDTH; i++) x[i] = (float)draw(r, 2000) / 1000 - 1;
  open_encoder(r, &e);
  float *mine = numbers(r, BYTES, x), *out = numbers(r, BYTES, x), *at, *to;
  sink s = {.r = r, .workspace = malloc(WORK)};
  encode(&s, &e, mine, out);
  FINE(tg_device_finish(r->device));
  FINE(tg_device_copy(r->device, want, out, BYTES));
  for (uint32_t i = 0; i < s.fresh; i++) tg_device_free(r->device, s.at[i]);
  for (int threads = 1; threads < 4; threads++) {
    sink q = {.r = r};
    tg_program_info info;
    FINE(tg_program_begin(r->context, &(tg_program_options){.device = r->device, .threads = threads}, &q.p));
    FINE(tg_program_argument(q.p, "x", BYTES, (void **)&at));
    FINE(tg_program_argument(q.p, "y", BYTES, (void **)&to));
    encode(&q, &e, at, to);
    FINE(tg_program_end(q.p));
    FINE(tg_program_describe(q.p, &info));
    size_t most = 0;
    for (uint32_t k = 0; k < q.step; k++) {
      size_t live = 0;
      for (uint32_t i = 0; i < q.fresh; i++) live += q.first[i] <= k && k <= q.last[i] ? q.bytes[i] : 0;
      if (live > most) most = live;
    }
    CHECK((double)info.planned_bytes <= 1.10 * (double)most && info.live_bytes == most, "%s: %zu bytes for temporaries of which %zu live at once", r->name, info.planned_bytes, most);
    tg_argument a[2] = {{.data = mine, .bytes = BYTES}, {.data = numbers(r, BYTES, x), .bytes = BYTES}};
    FINE(tg_program_run(q.p, &(tg_program_call){.arguments = a, .arguments_n = 2}));
    FINE(tg_device_copy(r->device, got, a[1].data, BYTES));
    CHECK(!memcmp(want, got, BYTES), "%s: the encoder on %d threads has other bits", r->name, threads);
    if (threads == 1) printf("%s: an encoder of %u steps: %zu bytes of temporaries, %zu live at once, %zu planned\n", r->name, info.steps, info.temporary_bytes, most, info.planned_bytes);
    tg_device_free(r->device, a[1].data);
    tg_program_free(q.p);
  }
  tg_device_free(r->device, mine), tg_device_free(r->device, out);
  close_encoder(r, &e);
  free(x), free(want), free(got), free(s.workspace);
}

/* ---- what is refused ---- */

static void refusals(run *r) {
  enum { N = 100, BYTES = 4 * N };
  static float x[2 * N], y[2 * N], z[N];
  int64_t n = N;
  tg_binding b = {"N", 1, N, 1};
  tg_kernel *k = NULL;
  tg_program *p = NULL;
  void *in, *out, *t, *no;
  FINE(tg_kernel_compile(r->context, &bump, &(tg_compile_options){.bindings = &b, .bindings_n = 1}, &k));
  CHECK(tg_program_begin(NULL, NULL, &p) == TG_EINVAL && tg_program_run(NULL, NULL) == TG_EINVAL && tg_program_end(NULL) == TG_EINVAL, "NULL");
  REFUSED(tg_program_begin(r->context, &(tg_program_options){.threads = -2}, &p), "below -1");
  REFUSED(tg_program_begin(r->context, &(tg_program_options){.flags = 2}, &p), "unknown bits");
  FINE(tg_program_begin(r->context, NULL, &p));
  FINE(tg_program_argument(p, "in", BYTES, &in));
  FINE(tg_program_argument(p, "out", BYTES, &out));
  FINE(tg_program_temporary(p, "t", BYTES, &t));
  REFUSED(tg_program_temporary(p, "t", 1, &no), "has a 't' already");
  REFUSED(tg_program_temporary(p, NULL, 1, &no), "wants a name");
  REFUSED(tg_program_run(p, NULL), "has not ended");
  tg_argument a[2] = {{.data = in, .bytes = BYTES}, {.data = t, .bytes = BYTES}};
  tg_launch l = {.buffers = a, .buffers_n = 2, .params = &n, .params_n = 1};
  REFUSED(tg_program_launch(p, k, &l), "step 0, bump: reads 't', which no step before it writes");
  a[1].data = (char *)out + 4;
  REFUSED(tg_program_launch(p, k, &l), "uses bytes 4 to 404 of 'out', which has 400");
  a[1].data = out, a[0].data = out;
  REFUSED(tg_program_launch(p, k, &l), "overlaps");
  a[0].data = in, a[0].bytes = BYTES - 1;
  REFUSED(tg_program_launch(p, k, &l), "'x' has 399 bytes, 400 are needed");
  a[0].bytes = BYTES, l.params_n = 0;
  REFUSED(tg_program_launch(p, k, &l), "step 0: kernel 'bump' takes 1 parameters, 0 are given");
  l.params_n = 1;
  FINE(tg_program_launch(p, k, &l));
  a[0].data = z;   /* memory of the caller's own */
  FINE(tg_program_launch(p, k, &l));
  FINE(tg_program_end(p));
  REFUSED(tg_program_end(p), "has ended");
  REFUSED(tg_program_launch(p, k, &l), "has ended");
  REFUSED(tg_program_argument(p, "late", 1, &no), "has ended");
  tg_argument given[2] = {{.data = x, .bytes = BYTES}, {.data = y, .bytes = BYTES}};
  tg_program_call c = {.arguments = given, .arguments_n = 1};
  REFUSED(tg_program_run(p, &c), "takes 2 arguments, 1 are given");
  c.arguments_n = 2, given[1].bytes = 396;
  REFUSED(tg_program_run(p, &c), "argument 'out' has 396 bytes, 400 are needed");
  given[1].bytes = BYTES, given[1].data = (char *)y + 2;
  REFUSED(tg_program_run(p, &c), "argument 'out' is not aligned to its elements of 4 bytes");
  given[1].data = NULL;
  REFUSED(tg_program_run(p, &c), "argument 'out' is NULL");
  given[1].data = x + 50, given[1].bytes = BYTES;
  REFUSED(tg_program_run(p, &c), "argument 'out', which the program writes, overlaps 'in'");
  given[1].data = z;
  REFUSED(tg_program_run(p, &c), "argument 'out' overlaps memory that the program uses");
  given[1].data = y;
  c.workspace = y + 128, c.workspace_bytes = 1;
  c.workspace = (void *)(((uintptr_t)y + 127) / 64 * 64);
  REFUSED(tg_program_run(p, &c), "tg_program_call.workspace has 1 bytes");
  c.workspace = NULL;
  for (int i = 0; i < N; i++) x[i] = 4, y[i] = 1, z[i] = 8;
  FINE(tg_program_run(p, &c));
  CHECK(y[0] == -2 && y[N - 1] == -2, "%g %g", (double)y[0], (double)y[N - 1]);
  tg_program_free(p);
  FINE(tg_program_begin(r->context, NULL, &p));   /* nothing in it */
  FINE(tg_program_end(p));
  FINE(tg_program_run(p, NULL));
  tg_program_free(p), tg_program_free(NULL);
  tg_kernel_free(k);
}

/* ---- allocations that fail ---- */

typedef struct { int64_t left; } failing;
static void *fail_alloc(void *user, size_t bytes) { return ((failing *)user)->left-- == 0 ? NULL : aligned_alloc(16, (bytes + 15) / 16 * 16); }
static void fail_free(void *user, void *p, size_t bytes) { (void)user, (void)bytes, free(p); }

static void allocations(void) {
  failing f = {-1};
  tg_context *c = NULL;
  tg_context_options o = {.allocator = {fail_alloc, fail_free, &f}, .threads = 1};
  tg_kernel *k = NULL;
  tg_binding b = {"N", 100, 100, 1};
  static float x[100], y[100];
  if (tg_context_create(&o, &c) || tg_kernel_compile(c, &mix, &(tg_compile_options){.bindings = &b, .bindings_n = 1}, &k)) { CHECK(0, "no kernel"); return; }
  bool done = false;
  int refused = 0;
  for (int64_t n = 0; !done && n < 3000; n++) {
    tg_program *p = NULL;
    void *in, *out, *t;
    f.left = n;
    tg_status s = tg_program_begin(c, NULL, &p);
    if (s == TG_OK) s = tg_program_argument(p, "in", 400, &in);
    if (s == TG_OK) s = tg_program_argument(p, "out", 400, &out);
    if (s == TG_OK) s = tg_program_temporary(p, "t", 400, &t);
    if (s == TG_OK) s = tg_program_launch(p, k, &(tg_launch){.buffers = (tg_argument[]){{.data = in, .bytes = 400}, {.data = in, .bytes = 400}, {.data = t, .bytes = 400}}, .buffers_n = 3});
    if (s == TG_OK) s = tg_program_launch(p, k, &(tg_launch){.buffers = (tg_argument[]){{.data = t, .bytes = 400}, {.data = in, .bytes = 400}, {.data = out, .bytes = 400}}, .buffers_n = 3});
    if (s == TG_OK) s = tg_program_end(p);
    if (s == TG_OK) s = tg_program_run(p, &(tg_program_call){.arguments = (tg_argument[]){{.data = x, .bytes = 400}, {.data = y, .bytes = 400}}, .arguments_n = 2});
    CHECK(s == TG_OK || s == TG_ENOMEM, "call %d: %s: %s", (int)n, tg_status_name(s), tg_error_message(c));
    refused += s == TG_ENOMEM;
    done = s == TG_OK && f.left >= 0;   /* else a kernel that would have joined both was not made */
    f.left = -1;
    tg_program_free(p);
  }
  CHECK(done && refused > 10, "%d calls failed", refused);
  tg_kernel_free(k), tg_context_free(c);
}

static void on_device(const char *name, int count, uint32_t seed) {
  uint32_t i;
  run own = {.name = name, .seed = seed, .host = !strcmp(name, "cpu")}, *r = &own;
  if (tg_device_named(name, &i) || tg_context_create(&(tg_context_options){.threads = 3}, &r->context)) { printf("skipped %s: it is not here\n", name); return; }
  FINE(tg_device_open(r->context, i, &r->device));
  if (r->device) drawn_programs(r, count), encoders(r);
  if (r->host) refusals(r);
  tg_context_free(r->context);
}

int main(int argc, char **argv) {
  int count = test_part() ? 10 : 40, named = 0;
  uint32_t seed = 1;
  for (int i = 1; i < argc; i++) {
    if (!strcmp(argv[i], "--seed") && i + 1 < argc) seed = (uint32_t)strtoul(argv[++i], NULL, 10);
    else if (!strcmp(argv[i], "--count") && i + 1 < argc) count = atoi(argv[++i]);
    else on_device(argv[i], count, seed), named++;
  }
  if (!named) {
    on_device("cpu", count, seed), allocations();
#ifndef TG_SANITIZED   /* drivers have faults of their own */
    on_device("opencl:0", count / 10, seed);
#endif
  }
  return TEST_END();
}
