/* SPDX-License-Identifier: MIT
 * The operations with plans on devices, matrix products and attention, on small integers, where every order of a sum
 * gives the same bits as loops in C; attention against f64. Beside that each launch is compared with the interpreter,
 * bit for bit (shadow.h). Without arguments on the first device of each driver that can be used, then on the stand-ins;
 * each takes every other case, the next device the others.
 *   devices_operations --drawn N SEED [DEVICE ...]   N drawn products on each device, against loops in C
 *   devices_operations [--all] [DEVICE ...]      --all, or a DEVICE: all cases. A DEVICE is a name of tg's (opencl:0), or
 *                                                a target (sm_80, gfx1100), for the stand-in of its driver */
#define _GNU_SOURCE
#include <math.h>
#include <stdlib.h>
#include "../fine.h"
#include "each_device.h"
#include "shadow.h"
#include "tg/attention.h"
#include "tg/gemm.h"
#include "tg/program.h"

/* Of the cases those are run whose number is `turn` modulo PARTS; all: all of them. */
enum { PARTS = 2 };
typedef struct { tg_context *context; tg_device *device; const char *name; uint32_t seed, turn; bool all; } run;

static bool has_turn(const run *r, size_t i) { return r->all || i % PARTS == r->turn % PARTS; }

static int small(run *r) { return (int)((r->seed = r->seed * 1664525u + 1013904223u) >> 24) % 7 - 3; }

/* n floats of small integers, here and on the device. */
static float *numbers(run *r, size_t n, void **there) {
  float *x = malloc(n * sizeof *x);
  for (size_t i = 0; i < n; i++) x[i] = (float)small(r);
  FINE(tg_device_alloc(r->device, n * sizeof *x, there));
  FINE(tg_device_copy(r->device, *there, x, n * sizeof *x));
  return x;
}

/* ---- one product, whatever it has ---- */

typedef struct { int64_t m, n, k, batch; bool column, beta, bias; } product;

static float wanted(const product *p, const float *a, const float *b, float c, float bias, int64_t i, int64_t j) {
  float sum = 0;
  for (int64_t k = 0; k < p->k; k++) sum += a[i * p->k + k] * (p->column ? b[j * p->k + k] : b[k * p->n + j]);
  if (p->beta) sum = 2 * c + sum;
  return p->bias ? (sum + bias > 0 ? sum + bias : 0) : sum;
}

static void one(run *r, const product *p, tg_queue *queue) {
  const int64_t mn = p->m * p->n;
  void *at[5] = {NULL};
  float *a = numbers(r, (size_t)(p->batch * p->m * p->k), &at[0]), *b = numbers(r, (size_t)(p->batch * p->k * p->n), &at[1]),
        *c = numbers(r, (size_t)(p->batch * mn), &at[2]), *bias = numbers(r, (size_t)p->n, &at[3]), *beta = numbers(r, 1, &at[4]);
  float two = 2, *got = malloc((size_t)(p->batch * mn) * sizeof *got);
  FINE(tg_device_copy(r->device, at[4], &two, sizeof two));
  tg_gemm_desc d = {.m = {1, 100}, .n = {p->n, 0}, .k = {0, 64}, .b_major = p->column ? TG_COLUMN_MAJOR : TG_ROW_MAJOR, .beta = p->beta, .device = r->device};
  if (p->bias) d.epilogue = "max(acc + bias, 0)", d.arg[0].name = "bias", d.arg[0].per = TG_PER_COLUMN;
  tg_gemm *g = NULL;
  FINE(tg_gemm_plan(r->context, &d, &g));
  tg_gemm_call call = {.m = p->m, .k = p->k, .a = at[0], .b = at[1], .c = at[2], .beta = p->beta ? at[4] : NULL, .arg = {p->bias ? at[3] : NULL}, .batch = p->batch, .queue = queue};
  call.workspace_bytes = tg_gemm_workspace(g, &call);
  if (p->bias && call.workspace_bytes) FINE(tg_device_alloc(r->device, call.workspace_bytes, &call.workspace));
  FINE(tg_gemm_run(g, &call));
  FINE(tg_device_finish(r->device));
  FINE(tg_device_copy(r->device, got, at[2], (size_t)(p->batch * mn) * sizeof *got));
  int wrong = 0;
  for (int64_t x = 0; x < p->batch * mn; x++) {
    int64_t of = x / mn, i = x % mn / p->n, j = x % p->n;
    wrong += got[x] != wanted(p, a + of * p->m * p->k, b + of * p->k * p->n, c[x], bias[j], i, j);
  }
  CHECK(!wrong, "%s: %lld x %lld x %lld: %d of %lld are wrong", r->name, (long long)p->m, (long long)p->n, (long long)p->k, wrong, (long long)(p->batch * mn));
  tg_gemm_free(g);
  for (int i = 0; i < 5; i++) tg_device_free(r->device, at[i]);
  tg_device_free(r->device, call.workspace);
  free(a), free(b), free(c), free(bias), free(beta), free(got);
}

static void products(run *r) {
  static const product all[] = {{5, 7, 9, 1, false, false, false}, {33, 20, 64, 1, true, true, true}, {100, 17, 31, 3, false, true, false}, {1, 64, 48, 1, true, false, true}, {3, 4, 0, 1, false, true, true}};
  tg_queue *q = NULL;
  FINE(tg_queue_open(r->device, NULL, &q));
  for (size_t i = 0; i < sizeof all / sizeof *all; i++)
    if (has_turn(r, i)) one(r, &all[i], i % 2 ? q : NULL);
  tg_queue_free(q);
}

/* ---- products of all types, of fixed sizes, where there are matrix instructions for them ---- */

typedef struct { const char *name; tg_type in, out; int64_t m, n, k; uint8_t a_major, b_major; } typed;

/* The bits of a small integer. */
static uint32_t bits_of(tg_type t, int v) {
  float f = (float)v;
  uint32_t x;
  memcpy(&x, &f, sizeof x);
  if (t == TG_F32) return x;
  if (t == TG_BF16) return x >> 16;
  if (t == TG_F16) return v ? (x >> 16 & 0x8000) | ((x >> 23 & 255) - 112) << 10 | (x >> 13 & 0x3ff) : 0;
  return (uint32_t)v;
}

static void *drawn(run *r, tg_type t, size_t n, int *value, void **there) {
  const size_t size = (size_t)tg_type_bytes(t);
  char *x = malloc(n * size);
  for (size_t i = 0; i < n; i++) {
    uint32_t b = bits_of(t, value[i] = small(r));
    memcpy(x + i * size, &b, size);
  }
  FINE(tg_device_alloc(r->device, n * size, there));
  FINE(tg_device_copy(r->device, *there, x, n * size));
  return x;
}

static void typed_product(run *r, const typed *p) {
  const size_t mk = (size_t)(p->m * p->k), kn = (size_t)(p->k * p->n), mn = (size_t)(p->m * p->n),
               size = (size_t)tg_type_bytes(p->out);
  int *a = malloc(mk * sizeof *a), *b = malloc(kn * sizeof *b), *c = malloc(mn * sizeof *c), wrong = 0;
  void *at[3] = {NULL}, *ax = drawn(r, p->in, mk, a, &at[0]), *bx = drawn(r, p->in, kn, b, &at[1]),
       *cx = drawn(r, p->out, mn, c, &at[2]);
  tg_gemm_desc d = {.a = p->in, .b = p->in, .c = p->out, .m = {p->m, 0}, .n = {p->n, 0}, .k = {p->k, 0},
                    .a_major = p->a_major, .b_major = p->b_major, .device = r->device};
  tg_gemm *g = NULL;
  FINE(tg_gemm_plan(r->context, &d, &g));
  FINE(tg_gemm_run(g, &(tg_gemm_call){.a = at[0], .b = at[1], .c = at[2]}));
  FINE(tg_device_copy(r->device, cx, at[2], mn * size));
  for (int64_t i = 0; i < p->m; i++)
    for (int64_t j = 0; j < p->n; j++) {
      int sum = 0;
      for (int64_t k = 0; k < p->k; k++)
        sum += a[p->a_major ? k * p->m + i : i * p->k + k] * b[p->b_major ? j * p->k + k : k * p->n + j];
      uint32_t want = bits_of(p->out, sum), got = 0;
      memcpy(&got, (char *)cx + (size_t)(i * p->n + j) * size, size);
      wrong += got != (size < 4 ? want & 0xffff : want);
    }
  CHECK(!wrong, "%s: %s, %lld x %lld x %lld: %d are wrong", r->name, p->name, (long long)p->m, (long long)p->n,
        (long long)p->k, wrong);
  tg_gemm_free(g);
  for (int i = 0; i < 3; i++) tg_device_free(r->device, at[i]);
  free(a), free(b), free(c), free(ax), free(bx), free(cx);
}

static void typed_products(run *r) {
  static const typed all[] = {{"f32", TG_F32, TG_F32, 64, 64, 32, 0, 0},     {"f32, TT", TG_F32, TG_F32, 40, 24, 33, 1, 1},
                              {"f16, NT", TG_F16, TG_F16, 128, 128, 64, 0, 1}, {"f16", TG_F16, TG_F32, 64, 48, 32, 0, 0},
                              {"f16, odd", TG_F16, TG_F16, 33, 20, 47, 0, 1},  {"bf16, NT", TG_BF16, TG_F32, 64, 64, 64, 0, 1},
                              {"i8, NT", TG_I8, TG_I32, 64, 64, 64, 0, 1},     {"i8", TG_I8, TG_I32, 17, 40, 96, 0, 0}};
  bool plain = !strcmp(r->device->driver->name, "opencl");   /* PoCL has no f16 */
  for (size_t i = 0; i < sizeof all / sizeof *all; i++)
    if (has_turn(r, i) && (!plain || all[i].in != TG_F16)) typed_product(r, &all[i]);
}

/* The same with B packed: panels without and with padding, and panels that were chosen for another processor. */
typedef struct { const char *name; tg_type in, out; int64_t m, n, k; uint32_t panel; } packed;

static void packed_product(run *r, const packed *p) {
  const size_t mk = (size_t)(p->m * p->k), kn = (size_t)(p->k * p->n), mn = (size_t)(p->m * p->n),
               size = (size_t)tg_type_bytes(p->out);
  int *a = malloc(mk * sizeof *a), *b = malloc(kn * sizeof *b), *c = malloc(mn * sizeof *c), wrong = 0;
  void *at[3] = {NULL}, *ax = drawn(r, p->in, mk, a, &at[0]), *bx = drawn(r, p->in, kn, b, &at[1]),
       *cx = drawn(r, p->out, mn, c, &at[2]), *there = NULL;
  tg_gemm_packing packing;
  tg_gemm_desc d = {.a = p->in, .b = p->in, .c = p->out, .m = {1, 64}, .n = {p->n, 0}, .k = {p->k, 0},
                    .device = r->device};
  tg_gemm *g = NULL;
  FINE(tg_gemm_packing_choose(r->context, &d, 1, &packing));
  if (p->panel) {
    packing.panel = p->panel;
    packing.bytes = (size_t)((p->n + p->panel - 1) / p->panel * p->panel * p->k * tg_type_bytes(p->in));
  }
  char *packed_b = malloc(packing.bytes);
  CHECK(tg_gemm_pack(&packing, bx, NULL, packed_b) == TG_OK, "%s: %s: packed", r->name, p->name);
  FINE(tg_device_alloc(r->device, packing.bytes, &there));
  FINE(tg_device_copy(r->device, there, packed_b, packing.bytes));
  d.packing = &packing;
  FINE(tg_gemm_plan(r->context, &d, &g));
  FINE(tg_gemm_run(g, &(tg_gemm_call){.m = p->m, .a = at[0], .b = there, .c = at[2]}));
  FINE(tg_device_copy(r->device, cx, at[2], mn * size));
  for (int64_t i = 0; i < p->m; i++)
    for (int64_t j = 0; j < p->n; j++) {
      int sum = 0;
      for (int64_t k = 0; k < p->k; k++) sum += a[i * p->k + k] * b[k * p->n + j];
      uint32_t want = bits_of(p->out, sum), got = 0;
      memcpy(&got, (char *)cx + (size_t)(i * p->n + j) * size, size);
      wrong += got != (size < 4 ? want & 0xffff : want);
    }
  CHECK(!wrong, "%s: packed %s, panels of %u: %d are wrong", r->name, p->name, packing.panel, wrong);
  tg_gemm_free(g);
  for (int i = 0; i < 3; i++) tg_device_free(r->device, at[i]);
  tg_device_free(r->device, there);
  free(a), free(b), free(c), free(ax), free(bx), free(cx), free(packed_b);
}

static void packed_products(run *r) {
  static const packed all[] = {{"f32", TG_F32, TG_F32, 5, 128, 24, 0},
                               {"f16", TG_F16, TG_F32, 33, 64, 32, 0},
                               {"f32, odd", TG_F32, TG_F32, 17, 37, 9, 0},
                               {"f16, odd", TG_F16, TG_F16, 16, 40, 48, 0},
                               {"i8", TG_I8, TG_I32, 20, 64, 64, 0},
                               {"f32, of another processor", TG_F32, TG_F32, 9, 100, 16, 48}};
  bool plain = !strcmp(r->device->driver->name, "opencl");
  for (size_t i = 0; i < sizeof all / sizeof *all; i++)
    if (has_turn(r, i) && (!plain || all[i].in != TG_F16)) packed_product(r, &all[i]);
}

/* N products of drawn sizes, types and orders, plain or packed: sizes around those of tiles, and small ones. */
static int up_to(run *r, int most) { return (int)((r->seed = r->seed * 1664525u + 1013904223u) >> 8) % most; }

static int64_t size_of(run *r) {
  static const int edges[] = {1, 4, 8, 16, 32, 48, 64};
  int64_t at = edges[up_to(r, (int)(sizeof edges / sizeof *edges))] + up_to(r, 5) - 2;
  return at > 0 ? at : 1 + up_to(r, 70);
}

static void drawn_products(run *r, int n) {
  static const struct { const char *name; tg_type in, out; } types[] = {
      {"f32", TG_F32, TG_F32}, {"bf16", TG_BF16, TG_F32}, {"i8", TG_I8, TG_I32}, {"f16", TG_F16, TG_F32}};
  int kinds = strcmp(r->device->driver->name, "opencl") ? 4 : 3;   /* PoCL has no f16 */
  for (int i = 0; i < n; i++) {
    char name[96];
    int t = up_to(r, kinds), kind = up_to(r, 4);
    uint32_t seed = r->seed;
    int64_t of[3] = {size_of(r), size_of(r), size_of(r)};
    uint8_t a_major = (uint8_t)up_to(r, 2), b_major = (uint8_t)up_to(r, 2);
    snprintf(name, sizeof name, "drawn, seed %u: %s, majors %d %d", seed, types[t].name, a_major, b_major);
    const product open = {of[0], of[1], of[2] < 64 ? of[2] : 64, 1 + up_to(r, 2), b_major, up_to(r, 2), up_to(r, 2)};
    if (kind == 0) one(r, &open, NULL);
    else if (kind == 1 && of[0] <= 64)
      packed_product(r, &(packed){name, types[t].in, types[t].out, of[0], of[1], of[2], up_to(r, 2) ? 0 : 16});
    else typed_product(r, &(typed){name, types[t].in, types[t].out, of[0], of[1], of[2], a_major, b_major});
  }
}

/* Weights of four bits in groups, as they lie in memory, and packed. */
static void weights(run *r, bool packed_ones) {
  enum { M = 3, N = 8, K = 32, GROUP = 16 };
  void *at[4] = {NULL};
  float *a = numbers(r, M * K, &at[0]), *scale = numbers(r, K / GROUP * N, &at[2]), *c = numbers(r, M * N, &at[3]), got[M * N];
  uint8_t q[K * N / 2];
  for (int i = 0; i < K * N / 2; i++) q[i] = (uint8_t)((small(r) & 15) | (small(r) & 15) << 4);
  tg_gemm *g = NULL;
  tg_gemm_desc d = {.m = {1, 16}, .n = {N, 0}, .k = {K, 0}, .b_bits = 4, .b_group = GROUP, .device = r->device};
  tg_gemm_packing packing = {.bytes = sizeof q};
  if (packed_ones) {
    FINE(tg_gemm_packing_choose(r->context, &d, 1, &packing));
    d.packing = &packing;
  }
  uint8_t *bytes = malloc(packing.bytes);
  if (packed_ones) CHECK(tg_gemm_pack(&packing, q, NULL, bytes) == TG_OK, "%s: weights are packed", r->name);
  else memcpy(bytes, q, sizeof q);
  FINE(tg_device_alloc(r->device, packing.bytes, &at[1]));
  FINE(tg_device_copy(r->device, at[1], bytes, packing.bytes));
  free(bytes);
  FINE(tg_gemm_plan(r->context, &d, &g));
  FINE(tg_gemm_run(g, &(tg_gemm_call){.m = M, .a = at[0], .b = at[1], .b_scale = at[2], .c = at[3]}));
  FINE(tg_device_copy(r->device, got, at[3], sizeof got));
  int wrong = 0;
  for (int i = 0; i < M; i++)
    for (int j = 0; j < N; j++) {
      float sum = 0;
      for (int k = 0; k < K; k++) {
        int e = k * N + j, v = q[e / 2] >> 4 * (e % 2) & 15;
        sum += a[i * K + k] * scale[k / GROUP * N + j] * (float)(v > 7 ? v - 16 : v);
      }
      wrong += got[i * N + j] != sum;
    }
  CHECK(!wrong, "%s: four bits%s: %d are wrong", r->name, packed_ones ? ", packed" : "", wrong);
  tg_gemm_free(g);
  for (int i = 0; i < 4; i++) tg_device_free(r->device, at[i]);
  free(a), free(scale), free(c);
}

/* Two layers, recorded as one graph, and replayed with another x: y = (x W + b)+ V. */
static void recorded(run *r) {
  enum { M = 6, N = 10 };
  void *at[6] = {NULL};
  float *x = numbers(r, M * N, &at[0]), *w = numbers(r, N * N, &at[1]), *h = numbers(r, M * N, &at[2]), *y = numbers(r, M * N, &at[3]), *b = numbers(r, N, &at[4]), *other = numbers(r, M * N, &at[5]), got[M * N];
  tg_gemm *up = NULL, *down = NULL;
  tg_queue *q = NULL;
  tg_graph *graph = NULL;
  tg_gemm_desc d = {.m = {M, 0}, .n = {N, 0}, .k = {N, 0}, .device = r->device};
  FINE(tg_gemm_plan(r->context, &d, &down));
  d.epilogue = "max(acc + bias, 0)", d.arg[0].name = "bias", d.arg[0].per = TG_PER_COLUMN;
  FINE(tg_gemm_plan(r->context, &d, &up));
  FINE(tg_queue_open(r->device, NULL, &q));
  FINE(tg_queue_record(q));
  FINE(tg_gemm_run(up, &(tg_gemm_call){.a = at[0], .b = at[1], .c = at[2], .arg = {at[4]}, .queue = q}));
  FINE(tg_gemm_run(down, &(tg_gemm_call){.a = at[2], .b = at[1], .c = at[3], .queue = q}));
  FINE(tg_queue_recorded(q, &graph));
  CHECK(tg_graph_steps(graph) == 2, "%s: %u steps", r->name, tg_graph_steps(graph));
  for (int pass = 0; pass < 2; pass++) {
    const float *in = pass ? other : x;
    tg_graph_move move = {at[0], at[5], M * N * sizeof *x};
    FINE(tg_queue_replay(q, graph, &(tg_graph_replay){.moves = &move, .moves_n = (uint32_t)pass}));
    FINE(tg_device_finish(r->device));
    FINE(tg_device_copy(r->device, got, at[3], sizeof got));
    int wrong = 0;
    float between[M * N];
    const product layer = {M, N, N, 1, false, false, true}, last = {M, N, N, 1, false, false, false};
    for (int e = 0; e < M * N; e++) between[e] = wanted(&layer, in, w, 0, b[e % N], e / N, e % N);
    for (int e = 0; e < M * N; e++) wrong += got[e] != wanted(&last, between, w, 0, 0, e / N, e % N);
    CHECK(!wrong, "%s: replay %d: %d are wrong", r->name, pass, wrong);
  }
  tg_graph_free(graph), tg_queue_free(q), tg_gemm_free(up), tg_gemm_free(down);
  for (int i = 0; i < 6; i++) tg_device_free(r->device, at[i]);
  free(x), free(w), free(h), free(y), free(b), free(other);
}

/* ---- attention ---- */

typedef struct {
  int32_t heads, kv_heads, head;
  int64_t batch, queries, keys;
  uint8_t causal, lse;
  int64_t window;
  float cap;
  const char *mask_mod;
  bool packed;
  tg_type type;                /* of all operands; 0: f32 */
} attending;

enum { MOST_KEYS = 4096 };

/* One row of the result in f64, and its LSE. */
static double attend(const attending *a, const float *q, const float *k, const float *v, int64_t at, double *o) {
  static double s[MOST_KEYS];
  double most = -INFINITY, sum = 0;
  memset(o, 0, (size_t)a->head * sizeof *o);
  for (int64_t j = 0; j < a->keys; j++) {
    s[j] = 0;
    for (int32_t e = 0; e < a->head; e++) s[j] += (double)q[e] * k[j * a->head + e] / sqrt(a->head);
    if (a->cap > 0) s[j] = (double)a->cap * tanh(s[j] / (double)a->cap);
    if ((a->causal && j > at) || (a->window && llabs(at - j) >= a->window) || (a->mask_mod && j % 3 == 1)) s[j] = -INFINITY;
    most = fmax(most, s[j]);
  }
  for (int64_t j = 0; j < a->keys; j++) {
    double w = most == -INFINITY ? 0 : exp(s[j] - most);
    sum += w;
    for (int32_t e = 0; e < a->head; e++) o[e] += w * (double)v[j * a->head + e];
  }
  for (int32_t e = 0; e < a->head; e++) o[e] = sum > 0 ? o[e] / sum : 0;
  return most + log(sum);
}

/* Small integers as elements of a type, here as floats. */
static float *elements(run *r, tg_type t, size_t n, void **there) {
  int *value = malloc(n * sizeof *value);
  float *x = malloc(n * sizeof *x);
  free(drawn(r, t, n, value, there));
  for (size_t i = 0; i < n; i++) x[i] = (float)value[i];
  free(value);
  return x;
}

static float widened(tg_type t, const void *p) {
  uint32_t x = 0;
  float f;
  memcpy(&x, p, (size_t)tg_type_bytes(t));
  if (t == TG_BF16) x <<= 16;
  if (t == TG_F16) {
    int exponent = (int)(x >> 10 & 31);
    f = ldexpf((float)((x & 0x3ff) | (exponent ? 0x400 : 0)), (exponent ? exponent : 1) - 25);
    return x >> 15 ? -f : f;
  }
  memcpy(&f, &x, sizeof f);
  return f;
}

/* How far results may be off: weights are rounded to the type before they are multiplied and summed. */
static double allowed(tg_type t) { return t == TG_BF16 ? 4e-2 : t == TG_F16 ? 5e-3 : 2e-5; }

typedef struct { const attending *of; const float *q, *k, *v; const char *o; const float *lse; } attended;

static void judge(const run *r, const attended *x) {
  const attending *a = x->of;
  tg_type t = a->type ? a->type : TG_F32;
  const size_t size = (size_t)tg_type_bytes(t), head = (size_t)a->head * sizeof(float);
  double worst = 0, off = 0, want[64];
  for (int64_t b = 0; b < a->batch; b++)
    for (int32_t h = 0; h < a->heads; h++)
      for (int64_t i = 0; i < a->queries; i++) {
        int32_t kv = h / (a->heads / a->kv_heads);
        int64_t row = a->packed ? (b * a->queries + i) * a->heads + h : (b * a->heads + h) * a->queries + i;
        static float keys[MOST_KEYS * 64], values[MOST_KEYS * 64];
        for (int64_t j = 0; j < a->keys; j++) {
          int64_t from = a->packed ? (b * a->keys + j) * a->kv_heads + kv : (b * a->kv_heads + kv) * a->keys + j;
          memcpy(keys + j * a->head, x->k + from * a->head, head);
          memcpy(values + j * a->head, x->v + from * a->head, head);
        }
        int64_t at = a->causal == TG_CAUSAL_BOTTOM_RIGHT ? i + a->keys - a->queries : i;
        double sum = attend(a, x->q + row * a->head, keys, values, at, want);
        for (int32_t e = 0; e < a->head; e++)
          worst = fmax(worst, fabs(want[e] - (double)widened(t, x->o + (size_t)(row * a->head + e) * size)));
        if (a->lse) off = fmax(off, fabs(sum - (double)x->lse[row]));
      }
  CHECK(worst < allowed(t) && off < allowed(t) / 4, "%s: attention of %d heads of %d, %s, %lld x %lld: off by %g, LSE by %g",
        r->name, a->heads, a->head, tg_type_name[t], (long long)a->queries, (long long)a->keys, worst, off);
}

/* Packed: batch sequences of `queries` and `keys` tokens one behind another, heads side by side; else dense. */
static void attention(run *r, const attending *a, bool given) {
  const size_t nq = (size_t)(a->batch * a->heads * a->queries * a->head),
               nk = (size_t)(a->batch * a->kv_heads * a->keys * a->head), nl = nq / (size_t)a->head;
  tg_type t = a->type ? a->type : TG_F32;
  void *at[5] = {NULL}, *workspace = NULL;
  float *q = elements(r, t, nq, &at[0]), *k = elements(r, t, nk, &at[1]), *v = elements(r, t, nk, &at[2]),
        *o = elements(r, t, nq, &at[3]), *lse = numbers(r, nl, &at[4]);
  const tg_attention_desc d = {.q = t, .heads = a->heads, .kv_heads = a->kv_heads, .head = a->head,
                               .queries = {1, 64}, .keys = {1, MOST_KEYS}, .causal = a->causal, .window = a->window,
                               .soft_cap = a->cap, .mask_mod = a->mask_mod, .lse = a->lse, .device = r->device};
  int32_t qs[8], ks[8];
  tg_attention *plan = NULL;
  tg_queue *queue = NULL;
  for (int32_t b = 0; b <= a->batch; b++) qs[b] = b * (int32_t)a->queries, ks[b] = b * (int32_t)a->keys;
  FINE(tg_attention_plan(r->context, &d, &plan));
  FINE(tg_queue_open(r->device, NULL, &queue));
  tg_attention_call c = {.batch = a->batch, .queries = a->queries, .keys = a->keys, .q = at[0], .k = at[1], .v = at[2],
                         .o = at[3], .lse = a->lse ? at[4] : NULL, .queue = queue};
  if (a->packed) c.query_starts = qs, c.key_starts = ks;
  c.workspace_bytes = tg_attention_workspace(plan, &c);
  CHECK(a->keys < 1000 || c.workspace_bytes, "%s: %lld keys are not divided", r->name, (long long)a->keys);
  if (given && c.workspace_bytes) FINE(tg_device_alloc(r->device, c.workspace_bytes, &workspace));
  c.workspace = workspace;
  FINE(tg_attention_run(plan, &c));
  FINE(tg_device_finish(r->device));
  FINE(tg_device_copy(r->device, o, at[3], nq * (size_t)tg_type_bytes(t)));
  FINE(tg_device_copy(r->device, lse, at[4], nl * sizeof *lse));
  judge(r, &(attended){a, q, k, v, (const char *)o, lse});
  tg_attention_free(plan), tg_queue_free(queue);
  for (int i = 0; i < 5; i++) tg_device_free(r->device, at[i]);
  tg_device_free(r->device, workspace);
  free(q), free(k), free(v), free(o), free(lse);
}

static void attentions(run *r) {
  static const attending all[] = {
      {.heads = 4, .kv_heads = 2, .head = 16, .batch = 2, .queries = 7, .keys = 33, .causal = TG_CAUSAL_BOTTOM_RIGHT,
       .lse = 1},
      {.heads = 3, .kv_heads = 3, .head = 24, .batch = 1, .queries = 1, .keys = 50, .cap = 5},
      {.heads = 2, .kv_heads = 1, .head = 8, .batch = 1, .queries = 20, .keys = 20, .causal = TG_CAUSAL_TOP_LEFT,
       .window = 5},
      {.heads = 2, .kv_heads = 2, .head = 8, .batch = 1, .queries = 9, .keys = 17, .mask_mod = "k % 3 != 1"},
      {.heads = 2, .kv_heads = 1, .head = 16, .batch = 3, .queries = 5, .keys = 11, .causal = TG_CAUSAL_BOTTOM_RIGHT,
       .packed = true},
      {.type = TG_F16, .heads = 2, .kv_heads = 1, .head = 64, .batch = 1, .queries = 40, .keys = 64,
       .causal = TG_CAUSAL_BOTTOM_RIGHT, .lse = 1},
      {.type = TG_F16, .heads = 4, .kv_heads = 1, .head = 32, .batch = 2, .queries = 1, .keys = 61},
      /* so many keys are divided among workgroups */
      {.type = TG_F16, .heads = 4, .kv_heads = 1, .head = 32, .batch = 1, .queries = 2, .keys = 4001,
       .causal = TG_CAUSAL_BOTTOM_RIGHT, .lse = 1},
      {.type = TG_F16, .heads = 6, .kv_heads = 2, .head = 32, .batch = 1, .queries = 1, .keys = 3000},
      {.type = TG_F16, .heads = 2, .kv_heads = 2, .head = 24, .batch = 1, .queries = 17, .keys = 19, .window = 6},
      {.type = TG_BF16, .heads = 2, .kv_heads = 1, .head = 32, .batch = 1, .queries = 33, .keys = 48,
       .causal = TG_CAUSAL_TOP_LEFT}};
  bool plain = !strcmp(r->device->driver->name, "opencl");   /* PoCL has no f16, and nothing for bf16 */
  for (size_t i = 0; i < sizeof all / sizeof *all; i++)
    if (has_turn(r, i) && (!plain || !all[i].type)) attention(r, &all[i], i % 2);
}

/* ---- a whole block of a transformer ---- */

enum { TOKENS = 9, WIDE = 16, BLOCK_HEADS = 2 };
enum { X, NORM, QUERIES, KEYS, VALUES, ATTENDED, RESULT, WEIGHTS_OF_QKV, WEIGHTS_OF_O, BLOCK_BUFFERS };
static const char normed[] =
    "kernel normed(T in 1..64) { in(x, f32, [T, 16]); out(y, f32, [T, 16]);"
    " range(t, T) range(j, 16) y[t,j] = x[t,j] * rsqrt(sum(k : 16, x[t,k] * x[t,k]) / 16 + 1e-5f); }";

typedef struct { tg_kernel *norm; tg_gemm *project, *join; tg_attention *attention; void *at[BLOCK_BUFFERS]; } layer;

/* RESULT = X + attention(norm(X) Wq, norm(X) Wk, norm(X) Wv) Wo */
static void put_layer(run *r, const layer *w, tg_queue *q, void *x) {
  static const int32_t starts[] = {0, TOKENS};
  const int64_t tokens = TOKENS;
  const tg_argument norm[] = {{x, TOKENS * WIDE * sizeof(float)}, {w->at[NORM], TOKENS * WIDE * sizeof(float)}};
  FINE(tg_queue_launch(q, w->norm, &(tg_launch){.buffers = norm, .buffers_n = 2, .params = &tokens, .params_n = 1}));
  for (int i = 0; i < 3; i++)
    FINE(tg_gemm_run(w->project, &(tg_gemm_call){.m = TOKENS, .a = w->at[NORM], .c = w->at[QUERIES + i], .queue = q,
                                                 .b = (float *)w->at[WEIGHTS_OF_QKV] + i * WIDE * WIDE}));
  FINE(tg_attention_run(w->attention, &(tg_attention_call){.batch = 1, .queries = TOKENS, .keys = TOKENS,
                                                           .query_starts = starts, .key_starts = starts,
                                                           .q = w->at[QUERIES], .k = w->at[KEYS], .v = w->at[VALUES],
                                                           .o = w->at[ATTENDED], .queue = q}));
  FINE(tg_gemm_run(w->join, &(tg_gemm_call){.m = TOKENS, .a = w->at[ATTENDED], .b = w->at[WEIGHTS_OF_O],
                                            .c = w->at[RESULT], .arg = {x}, .queue = q}));
}

/* Recorded once with X, replayed with it and with other tokens: the bits are those of the same calls made directly. */
static void recorded_layer(run *r) {
  const size_t elements = TOKENS * WIDE, bytes = elements * sizeof(float);
  layer w = {0};
  void *other = NULL;
  for (int i = 0; i < WEIGHTS_OF_QKV; i++) free(numbers(r, elements, &w.at[i]));
  free(numbers(r, elements, &other));
  free(numbers(r, 3 * WIDE * WIDE, &w.at[WEIGHTS_OF_QKV])), free(numbers(r, WIDE * WIDE, &w.at[WEIGHTS_OF_O]));
  tg_gemm_desc d = {.m = {1, 64}, .n = {WIDE, 0}, .k = {WIDE, 0}, .device = r->device};
  FINE(tg_kernel_compile_text(r->context, "normed", normed, &(tg_compile_options){.device = r->device}, &w.norm));
  FINE(tg_gemm_plan(r->context, &d, &w.project));
  d.epilogue = "acc + x", d.arg[0].name = "x", d.arg[0].per = TG_PER_ELEMENT;
  FINE(tg_gemm_plan(r->context, &d, &w.join));
  FINE(tg_attention_plan(r->context, &(tg_attention_desc){.heads = BLOCK_HEADS, .head = WIDE / BLOCK_HEADS,
                                                          .queries = {1, 64}, .keys = {1, 64},
                                                          .causal = TG_CAUSAL_TOP_LEFT, .device = r->device},
                         &w.attention));
  tg_queue *q = NULL;
  tg_graph *graph = NULL;
  float direct[2][TOKENS * WIDE], got[TOKENS * WIDE], none[TOKENS * WIDE] = {0};
  FINE(tg_queue_open(r->device, NULL, &q));
  for (int pass = 0; pass < 2; pass++) {
    put_layer(r, &w, q, pass ? other : w.at[X]);
    FINE(tg_device_finish(r->device));
    FINE(tg_device_copy(r->device, direct[pass], w.at[RESULT], bytes));
  }
  CHECK(memcmp(direct[0], direct[1], bytes), "%s: other tokens, and the same result", r->name);
  FINE(tg_queue_record(q));
  put_layer(r, &w, q, w.at[X]);
  FINE(tg_queue_recorded(q, &graph));
  CHECK(tg_graph_steps(graph) >= 6, "%s: %u steps", r->name, tg_graph_steps(graph));
  for (int pass = 0; pass < 2; pass++) {
    tg_graph_move move = {w.at[X], other, bytes};
    FINE(tg_device_copy(r->device, w.at[RESULT], none, bytes));
    FINE(tg_queue_replay(q, graph, &(tg_graph_replay){.moves = &move, .moves_n = (uint32_t)pass}));
    FINE(tg_device_finish(r->device));
    FINE(tg_device_copy(r->device, got, w.at[RESULT], bytes));
    CHECK(!memcmp(got, direct[pass], bytes), "%s: replay %d of a layer differs from its calls", r->name, pass);
  }
  tg_graph_free(graph), tg_queue_free(q), tg_kernel_free(w.norm), tg_gemm_free(w.project), tg_gemm_free(w.join);
  tg_attention_free(w.attention);
  for (int i = 0; i <= WEIGHTS_OF_O; i++) tg_device_free(r->device, w.at[i]);
  tg_device_free(r->device, other);
}

/* Attention in f16 over whole blocks of keys, which pass LOCAL memory in rings where the device copies aside, and the
 * product behind it, as a program: one graph, whose temporary is planned. The bits of the same calls made directly, with
 * the memory of its first run and with other memory. */
static void program(run *r) {
  enum { HALF_HEADS = 2, HALF_HEAD = 64, ROWS = 96, WHOLE = HALF_HEADS * HALF_HEAD };
  const size_t in = ROWS * 3 * WHOLE, out = ROWS * WHOLE, bytes = out * 2;
  void *x[2], *y[2], *weights, *middle, *argument[2], *temporary;
  char want[ROWS * WHOLE * 2], got[ROWS * WHOLE * 2];
  for (int i = 0; i < 2; i++) free(elements(r, TG_F16, in, &x[i])), free(elements(r, TG_F16, out, &y[i]));
  free(elements(r, TG_F16, WHOLE * WHOLE, &weights)), free(elements(r, TG_F16, out, &middle));
  tg_attention *attention = NULL;
  tg_gemm *join = NULL;
  tg_program *p = NULL;
  FINE(tg_attention_plan(r->context, &(tg_attention_desc){.q = TG_F16, .heads = HALF_HEADS, .head = HALF_HEAD,
                                                          .queries = {ROWS, 0}, .keys = {ROWS, 0}, .device = r->device},
                         &attention));
  FINE(tg_gemm_plan(r->context, &(tg_gemm_desc){.a = TG_F16, .b = TG_F16, .c = TG_F16, .m = {ROWS, 0}, .n = {WHOLE, 0},
                                                .k = {WHOLE, 0}, .device = r->device}, &join));
  tg_attention_call attend = {.queries = ROWS, .keys = ROWS, .q_strides = {0, HALF_HEAD, 3 * WHOLE},
                              .k_strides = {0, HALF_HEAD, 3 * WHOLE}, .v_strides = {0, HALF_HEAD, 3 * WHOLE},
                              .o_strides = {0, HALF_HEAD, WHOLE}};
  tg_gemm_call multiply = {.m = ROWS, .b = weights};
  FINE(tg_program_begin(r->context, &(tg_program_options){.device = r->device}, &p));
  FINE(tg_program_argument(p, "x", in * 2, &argument[0]));
  FINE(tg_program_argument(p, "y", bytes, &argument[1]));
  FINE(tg_program_temporary(p, "attended", bytes, &temporary));
  for (int pass = -1; pass < 2; pass++) {   /* -1: into the program */
    char *from = pass < 0 ? argument[0] : x[pass];
    attend.q = from, attend.k = from + 2 * WHOLE, attend.v = from + 4 * WHOLE;
    attend.o = pass < 0 ? temporary : middle;
    multiply.a = attend.o, multiply.c = pass < 0 ? argument[1] : y[pass];
    if (pass < 0) {
      FINE(tg_attention_put(p, attention, &attend));
      FINE(tg_gemm_put(p, join, &multiply));
      FINE(tg_program_end(p));
      continue;
    }
    FINE(tg_attention_run(attention, &attend));
    FINE(tg_gemm_run(join, &multiply));
    FINE(tg_device_finish(r->device));
    FINE(tg_device_copy(r->device, want, y[pass], bytes));
    memset(got, 0, bytes);
    FINE(tg_device_copy(r->device, y[pass], got, bytes));
    tg_argument a[] = {{.data = x[pass], .bytes = in * 2}, {.data = y[pass], .bytes = bytes}};
    FINE(tg_program_run(p, &(tg_program_call){.arguments = a, .arguments_n = 2}));
    FINE(tg_device_finish(r->device));
    FINE(tg_device_copy(r->device, got, y[pass], bytes));
    CHECK(!memcmp(got, want, bytes), "%s: run %d of a program differs from its calls", r->name, pass);
  }
  tg_program_info about;
  FINE(tg_program_describe(p, &about));
  CHECK(about.steps >= 2 && about.planned_bytes >= bytes, "%s: %u steps, %zu bytes", r->name, about.steps,
        about.planned_bytes);
  tg_program_free(p), tg_attention_free(attention), tg_gemm_free(join);
  for (int i = 0; i < 2; i++) tg_device_free(r->device, x[i]), tg_device_free(r->device, y[i]);
  tg_device_free(r->device, weights), tg_device_free(r->device, middle);
}

static void refusals(run *r) {
  float host[16] = {0};
  void *at = NULL;
  tg_gemm *g = NULL, *cpu = NULL;
  tg_device *first = NULL;
  tg_queue *foreign = NULL;
  tg_gemm_packing packing;
  tg_gemm_desc d = {.m = {4, 0}, .n = {4, 0}, .k = {4, 0}, .device = r->device};
  FINE(tg_device_alloc(r->device, sizeof host, &at));
  FINE(tg_gemm_plan(r->context, &d, &g));
  const tg_gemm_desc uses[] = {d, {.m = {4, 0}, .n = {4, 0}, .k = {4, 0}}};
  REFUSED(tg_gemm_packing_choose(r->context, uses, 2, &packing), "use 1 has another device");
  d.beta = 1, d.device = NULL;
  FINE(tg_device_open(r->context, 0, &first));
  FINE(tg_queue_open(first, NULL, &foreign));
  FINE(tg_gemm_plan(r->context, &d, &cpu));
  REFUSED(tg_gemm_run(g, &(tg_gemm_call){.a = host, .b = at, .c = at}), "overlap");
  REFUSED(tg_gemm_run(g, &(tg_gemm_call){.a = host, .b = host, .c = at}), "does not lie in memory of this device");
  REFUSED(tg_gemm_run(g, &(tg_gemm_call){.a = at, .b = at, .c = host, .queue = foreign}), "another device's");
  REFUSED(tg_gemm_run(cpu, &(tg_gemm_call){.a = host, .b = host, .c = at, .queue = foreign}), "the plan is for the CPU");
  CHECK(!tg_gemm_function(g), "%s: its code is not the host's", r->name);
  tg_queue_free(foreign), tg_gemm_free(g), tg_gemm_free(cpu);
  tg_device_free(r->device, at);
}

/* Packed sequences of which the second has no keys: nothing of the first is computed either. */
static void refused_attention(run *r) {
  enum { HEAD = 8, EACH = 2, OF_FIRST = 3, ALL = 2 * HEAD * OF_FIRST };
  static const int32_t qs[] = {0, EACH, 2 * EACH}, ks[] = {0, OF_FIRST, OF_FIRST};
  void *at[4] = {NULL};
  float *x[4], got[ALL];
  for (int i = 0; i < 4; i++) x[i] = numbers(r, ALL, &at[i]);
  tg_attention *plan = NULL;
  FINE(tg_attention_plan(r->context, &(tg_attention_desc){.head = HEAD, .queries = {1, 8}, .keys = {0, 8},
                                                          .device = r->device}, &plan));
  REFUSED(tg_attention_run(plan, &(tg_attention_call){.batch = 2, .queries = EACH, .keys = OF_FIRST, .q = at[0],
                                                      .k = at[1], .v = at[2], .o = at[3], .query_starts = qs,
                                                      .key_starts = ks}), "sequence 1 has no keys");
  FINE(tg_device_finish(r->device));
  FINE(tg_device_copy(r->device, got, at[3], sizeof got));
  CHECK(!memcmp(got, x[3], sizeof got), "%s: a call that was refused has written", r->name);
  tg_attention_free(plan);
  for (int i = 0; i < 4; i++) tg_device_free(r->device, at[i]), free(x[i]);
}

static int drawn_n;
static uint32_t drawn_seed = 1;

static void on(const char *name, uint32_t i, bool all) {
  static uint32_t turns;
  run whole = {.name = name, .seed = drawn_seed, .turn = turns++, .all = all}, *r = &whole;
  CHECK(!tg_context_create(NULL, &r->context) && !tg_device_open(r->context, i, &r->device), "%s: %s", name, why(r));
  if (r->device && drawn_n) drawn_products(r, drawn_n);
  else if (r->device) {
    shadow_begin(r->context, r->device, name);
    products(r), typed_products(r), attentions(r), refusals(r), refused_attention(r);
    packed_products(r);
    if (has_turn(r, 0)) weights(r, false), recorded(r);
    if (has_turn(r, 1)) weights(r, true), recorded_layer(r);
    if (strcmp(r->device->driver->name, "opencl")) program(r);   /* PoCL has no f16 */
    printf("%s: %ld launches compared with the interpreter\n", name, shadow_end());
  }
  tg_context_free(r->context);
}

int main(int argc, char **argv) {
  static const char *const targets[] = {"sm_80", "sm_90a", "gfx1100", "gfx1201", "gfx90a"};
  int own = 1;
  if (argc > 3 && !strcmp(argv[1], "--drawn")) {
    drawn_n = atoi(argv[2]), drawn_seed = (uint32_t)strtoul(argv[3], NULL, 10);
    own = 4;
  }
  each_device(argv[0], argc - own, argv + own, targets, TG_COUNT(targets), on);
  return TEST_END();
}
