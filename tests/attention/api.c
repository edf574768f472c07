/* SPDX-License-Identifier: MIT
 * Plans and calls of tg/attention.h: each wrong field of a descriptor and of a call, told by its name, with nothing written; structs of older and newer headers; workspaces; merges; the caller's threads in any order,
 * with the same bits for any number of them and for a sequence by itself; plans from the cache and without a compiler; a plan that several threads run at a time; little memory. */
#define _GNU_SOURCE
#include <math.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include "../target.h"
#include "../folder.h"
#include "../test.h"
#include "base/guard.h"
#include "tg/attention.h"

static uint64_t state = 7;
static uint32_t draw(void) { return (uint32_t)((state = state * 6364136223846793005u + 1442695040888963407u) >> 33); }
static float unit(void) { return (float)((double)draw() * 0x1p-30 - 1); }

static float *floats(int64_t n) {
  float *x = malloc((size_t)(n + 1) * sizeof *x);
  for (int64_t i = 0; i < n; i++) x[i] = unit();
  return x;
}

static tg_attention *plan_of(tg_context *c, const tg_attention_desc *d) {
  tg_attention *a = NULL;
  CHECK(tg_attention_plan(c, d, &a) == TG_OK, "%s", tg_error_message(c));
  return a;
}

static tg_status run(const tg_attention *a, tg_attention_call call) {
  call.workspace_bytes = tg_attention_workspace(a, &call);
  call.workspace = malloc(call.workspace_bytes + 1);
  tg_status s = tg_attention_run(a, &call);
  free(call.workspace);
  return s;
}

/* ---- descriptors ---- */

static void refused(tg_context *c, const tg_attention_desc *d, const char *word, const char *what) {
  tg_attention *a = (tg_attention *)(void *)&c;
  tg_status s = tg_attention_plan(c, d, &a);
  CHECK(s == TG_EINVAL && !a && strstr(tg_error_message(c), word), "%s: %s, %s", what, tg_status_name(s), tg_error_message(c));
}

static void descriptors(tg_context *c) {
  const tg_attention_desc good = {.head = 8, .queries = {1, 0}, .keys = {4, 0}};
#define WRONG(word, ...) do { tg_attention_desc d = good; __VA_ARGS__; refused(c, &d, word, #__VA_ARGS__); } while (0)
  WRONG("tg_attention_desc.q:", d.q = TG_I8);
  WRONG("tg_attention_desc.k:", d.k = TG_F64);
  WRONG("tg_attention_desc.v:", d.v = 200);
  WRONG("tg_attention_desc.o:", d.o = TG_BOOL);
  WRONG("causal", d.causal = 3);
  WRONG("lse", d.lse = 2);
  WRONG("base2", d.base2 = 2);
  WRONG("alibi", d.alibi = 255);
  WRONG("tg_attention_desc.mask:", d.mask = TG_I8);
  WRONG("mask_per", d.mask_per = TG_PER_KEY);
  WRONG("mask_per", d.mask = TG_BOOL; d.mask_per = 32);
  WRONG("heads", d.heads = -1);
  WRONG("heads", d.heads = 3; d.kv_heads = 2);
  WRONG("heads", d.kv_heads = -1);
  WRONG("heads", d.kv_heads = 2);
  WRONG("heads", d.heads = 1 << 21);
  WRONG("tg_attention_desc.head:", d.head = 0);
  WRONG("tg_attention_desc.head:", d.head = -8);
  WRONG("tg_attention_desc.head:", d.head = 577);
  WRONG("value_head", d.value_head = 577);
  WRONG("value_head", d.value_head = -1);
  WRONG("tg_attention_desc.queries:", d.queries.lo = -1);
  WRONG("tg_attention_desc.queries:", d.queries = ((tg_dim){5, 3}));
  WRONG("tg_attention_desc.queries:", d.queries.hi = ((int64_t)1 << 31) + 1);
  WRONG("tg_attention_desc.keys:", d.keys.lo = INT64_MIN);
  WRONG("tg_attention_desc.keys:", d.keys = ((tg_dim){5, 3}));
  WRONG("tg_attention_desc.keys:", d.keys.hi = INT64_MAX);
  WRONG("window", d.window = -1);
  WRONG("window", d.window = ((int64_t)1 << 31) + 1);
  WRONG("soft_cap", d.soft_cap = -1);
  WRONG("soft_cap", d.soft_cap = NAN);
  WRONG("soft_cap", d.soft_cap = INFINITY);
  WRONG("<score_mod>:1:9", d.score_mod = "score + missing");
  WRONG("<mask_mod>:1:", d.mask_mod = "k <");
  WRONG("^", d.mask_mod = "k <= \n nothing");
  WRONG("tg_attention_desc.arg[0]:", d.arg[0].name = "x");
  WRONG("tg_attention_desc.arg[1]:", d.score_mod = "score"; d.arg[1].name = "x");
  WRONG("tg_attention_desc.arg[0]:", d.score_mod = "score"; d.arg[0].name = "q");
  WRONG("tg_attention_desc.arg[0]:", d.score_mod = "score"; d.arg[0].name = "2x");
  WRONG("tg_attention_desc.arg[1]:", d.score_mod = "score"; d.arg[0].name = d.arg[1].name = "x");
  WRONG("tg_attention_desc.arg[0].type", d.score_mod = "score"; d.arg[0].name = "x"; d.arg[0].type = TG_BOOL);
  WRONG("tg_attention_desc.arg[0].per", d.score_mod = "score"; d.arg[0].name = "x"; d.arg[0].per = 32);
  WRONG("flags", d.flags = 1u << 31);
#undef WRONG
  tg_attention *a = NULL;
  CHECK(tg_attention_plan(c, NULL, &a) == TG_EINVAL && !a, "no descriptor");
  CHECK(tg_attention_plan(NULL, &good, &a) == TG_EINVAL && !a, "no context");
  CHECK(tg_attention_plan(c, &good, NULL) == TG_EINVAL, "nowhere to put it");
  CHECK(tg_attention_plan_sized(c, &good, offsetof(tg_attention_desc, head), &a) == TG_EINVAL && strstr(tg_error_message(c), "head"), "a descriptor that ends before head");
  tg_attention_free(NULL);
  CHECK(!tg_attention_describe(NULL).kernels && !tg_attention_workspace(NULL, NULL), "figures about nothing");
}

/* ---- calls ---- */

enum { B = 2, H = 4, G = 2, T = 5, N = 7, D = 8 };
typedef struct { float q[B * H * T * D], k[B * G * N * D], v[B * G * N * D], mask[T * N], slopes[H], by[N], o[B * H * T * D], lse[B * H * T]; char before[sizeof(float) * B * H * T * (D + 1)]; } room;

static void refuses(tg_context *c, const tg_attention *a, const tg_attention_call *call, room *r, const char *word, const char *what) {
  memset(r->o, 0x5a, sizeof r->o), memset(r->lse, 0x5a, sizeof r->lse), memset(r->before, 0x5a, sizeof r->before);
  tg_status s = tg_attention_run(a, call);
  CHECK(s == TG_EINVAL && strstr(tg_error_message(c), word), "%s: %s, %s", what, tg_status_name(s), tg_error_message(c));
  CHECK(!memcmp(r->o, r->before, sizeof r->o) && !memcmp(r->lse, r->before, sizeof r->lse), "%s: something was written", what);
}

static tg_attention_call call_of(room *r) {
  return (tg_attention_call){.batch = B, .queries = T, .keys = N, .q = r->q, .k = r->k, .v = r->v, .o = r->o, .lse = r->lse, .slopes = r->slopes, .mask = r->mask, .arg = {r->by}};
}

static const tg_attention_desc described = {.head = D, .heads = H, .kv_heads = G, .queries = {1, 6}, .keys = {2, 8}, .lse = 1, .alibi = 1, .mask = TG_F32, .mask_per = TG_PER_QUERY | TG_PER_KEY, .score_mod = "score * by", .arg = {{"by", 0, TG_PER_KEY}}};

static void calls(tg_context *c) {
  static room r;
  static const int32_t down[] = {0, 4, 2}, negative[] = {-1, 3, 5}, long_one[] = {0, 1, 8}, right_q[] = {0, 2, 5}, many[] = {0, 8}, short_key[] = {0, 1, 5}, less[] = {-1, 3};
  const tg_attention_desc d = described;
  tg_attention *a = plan_of(c, &d);
  if (!a) return;
  for (size_t i = 0; i < sizeof r.q / sizeof *r.q; i++) r.q[i] = unit();
#define WRONG(word, ...) do { tg_attention_call x = call_of(&r); __VA_ARGS__; refuses(c, a, &x, &r, word, #__VA_ARGS__); } while (0)
  WRONG("batch", x.batch = -1);
  WRONG("batch", x.batch = INT64_MAX);
  WRONG("queries", x.queries = 0);
  WRONG("queries", x.queries = 7);
  WRONG("queries", x.queries = -1);
  WRONG("keys", x.keys = 1);
  WRONG("keys", x.keys = INT64_MAX);
  WRONG("tg_attention_call.q ", x.q = NULL);
  WRONG("tg_attention_call.k ", x.k = NULL);
  WRONG("tg_attention_call.v ", x.v = NULL);
  WRONG("tg_attention_call.o ", x.o = NULL);
  WRONG("tg_attention_call.q ", x.q = (char *)r.q + 2);
  WRONG("tg_attention_call.k ", x.k = (char *)r.k + 1);
  WRONG("tg_attention_call.v ", x.v = (char *)r.v + 3);
  WRONG("tg_attention_call.o ", x.o = (char *)r.o + 2);
  WRONG("tg_attention_call.lse", x.lse = (float *)(void *)((char *)r.lse + 2));
  WRONG("q_strides[0]", x.q_strides[0] = -1);
  WRONG("k_strides[1]", x.k_strides[1] = -D);
  WRONG("v_strides[2]", x.v_strides[2] = INT64_MIN);
  WRONG("o_strides[2]", x.o_strides[2] = -1);
  WRONG("q_strides[2]", x.q_strides[2] = INT64_MAX);
  WRONG("k_strides[0]", x.k_strides[0] = ((int64_t)1 << 40) + 1);
  WRONG("o_strides", x.o_strides[0] = H * T * D; x.o_strides[1] = T * D; x.o_strides[2] = D - 1);
  WRONG("o_strides", x.o_strides[0] = H * T * D; x.o_strides[1] = 0; x.o_strides[2] = D);
  WRONG("o_strides", x.o_strides[0] = T * D; x.o_strides[1] = T * D; x.o_strides[2] = D);
  WRONG("query_starts", x.query_starts = down);
  WRONG("query_starts", x.query_starts = negative);
  WRONG("query_starts", x.query_starts = long_one);
  WRONG("key_starts", x.query_starts = right_q; x.key_starts = down);
  WRONG("key_starts", x.key_starts = short_key);
  WRONG("key_lengths[1]", x.key_lengths = many);
  WRONG("key_lengths[0]", x.key_lengths = less);
  WRONG("slopes", x.slopes = NULL);
  WRONG("tg_attention_call.mask ", x.mask = NULL);
  WRONG("tg_attention_call.mask ", x.mask = (char *)r.mask + 1);
  WRONG("tg_attention_call.mask_strides[3] =", x.mask_strides[3] = -1);
  WRONG("tg_attention_call.mask_strides[2] =", x.mask_strides[2] = INT64_MAX);
  WRONG("tg_attention_call.arg[0] ", x.arg[0] = NULL);
  WRONG("tg_attention_call.arg[0] ", x.arg[0] = (char *)r.by + 1);
  WRONG("tg_attention_call.arg_strides[0][3] =", x.arg_strides[0][3] = -4);
  WRONG("overlaps", x.q = r.o);
  WRONG("overlaps", x.k = r.o + 3);
  WRONG("overlaps", x.v = r.o + B * H * T * D - 1; r.k[0] = 1);
  WRONG("overlaps", x.mask = r.o + 11);
  WRONG("overlaps", x.arg[0] = r.o);
  WRONG("overlaps", x.lse = r.o);
  WRONG("overlaps", x.q = r.lse);
#undef WRONG
  CHECK(tg_attention_run(a, NULL) == TG_EINVAL && tg_attention_run(NULL, &(tg_attention_call){0}) == TG_EINVAL, "no call, no plan");
  tg_attention_call x = call_of(&r);
  CHECK(run(a, x) == TG_OK, "%s", tg_error_message(c));
  tg_attention_free(a);
  tg_attention_desc plain = described;
  plain.lse = 0, plain.flags = TG_ATTENTION_OVERLAP_UNCHECKED;
  a = plan_of(c, &plain);
  refuses(c, a, &x, &r, "tg_attention_call.lse", "lse of a plan without");
  x.lse = NULL, x.mask = r.o;   /* the caller has said that it does not matter */
  CHECK(run(a, x) == TG_OK, "%s", tg_error_message(c));
  tg_attention_free(a);
}

/* Structs that end earlier, and later, than this header's. */
static void other_headers(tg_context *c) {
  static room r;
  struct { tg_attention_desc d; char more[64]; } newer = {.d = {.head = D, .heads = H, .kv_heads = G, .queries = {1, 2}, .keys = {2, 8}}};   /* no workspace: a call of before has none */
  struct { tg_attention_call c; char more[64]; } call = {.c = call_of(&r)};
  float *want = floats(B * H * T * D);
  tg_attention *a = NULL, *b = NULL;
  for (size_t i = 0; i < sizeof r.q / sizeof *r.q; i++) r.q[i] = unit();
  for (size_t i = 0; i < sizeof r.k / sizeof *r.k; i++) r.k[i] = unit(), r.v[i] = unit();
  newer.more[3] = call.more[3] = 1;   /* a field that this library does not know is refused if it is set */
  CHECK(tg_attention_plan_sized(c, &newer.d, sizeof newer, &a) == TG_EINVAL && strstr(tg_error_message(c), "tg_attention_desc:"), "%s", tg_error_message(c));
  newer.more[3] = 0;
  CHECK(tg_attention_plan_sized(c, &newer.d, sizeof newer, &a) == TG_OK, "%s", tg_error_message(c));
  call.c.lse = NULL, call.c.slopes = NULL, call.c.mask = NULL, call.c.arg[0] = NULL, call.c.o = want, call.c.queries = 2;
  CHECK(tg_attention_run_sized(a, &call.c, sizeof call) == TG_EINVAL && strstr(tg_error_message(c), "tg_attention_call:"), "%s", tg_error_message(c));
  call.more[3] = 0;
  CHECK(tg_attention_run_sized(a, &call.c, sizeof call) == TG_OK, "%s", tg_error_message(c));
  tg_attention_desc older = newer.d;
  memset((char *)&older + offsetof(tg_attention_desc, window), 0x77, sizeof older - offsetof(tg_attention_desc, window));
  CHECK(tg_attention_plan_sized(c, &older, offsetof(tg_attention_desc, window), &b) == TG_OK, "%s", tg_error_message(c));
  tg_attention_call short_call = call.c;
  short_call.o = r.o;
  memset((char *)&short_call + offsetof(tg_attention_call, q_strides), 0x77, sizeof short_call - offsetof(tg_attention_call, q_strides));
  CHECK(b && tg_attention_workspace_sized(b, &short_call, offsetof(tg_attention_call, q_strides)) == tg_attention_workspace(a, &call.c), "workspace of an older call");
  CHECK(b && tg_attention_run_sized(b, &short_call, offsetof(tg_attention_call, q_strides)) == TG_OK, "%s", tg_error_message(c));
  CHECK(!memcmp(want, r.o, sizeof r.o / T * 2), "structs of an older header");
  tg_attention_free(a), tg_attention_free(b), free(want);
}

/* ---- workspaces ---- */

static void workspaces(tg_context *c) {
  enum { KEYS = 3000, HEADS = 4 };
  tg_attention_desc d = {.head = 16, .heads = HEADS, .kv_heads = 2, .queries = {1, 40}, .keys = {0, KEYS}, .threads = 3, .lse = 1};
  static const int64_t sizes[][3] = {{1, 1, 5}, {1, 1, KEYS}, {1, 16, KEYS}, {1, 17, KEYS}, {1, 40, 100}, {4, 3, 2000}, {1, 16, 1025}};
  tg_attention *a = plan_of(c, &d);
  float *q = floats(4 * HEADS * 40 * 16), *k = floats(4 * 2 * KEYS * 16), *o = floats(4 * HEADS * 40 * 16), *want = floats(4 * HEADS * 40 * 16);
  size_t any = tg_attention_workspace(a, NULL);
  for (size_t i = 0; a && i < sizeof sizes / sizeof *sizes; i++) {
    size_t n = (size_t)(sizes[i][0] * HEADS * sizes[i][1] * 16) * sizeof *o;
    tg_attention_call x = {.batch = sizes[i][0], .queries = sizes[i][1], .keys = sizes[i][2], .q = q, .k = k, .v = k, .o = want};
    size_t bytes = tg_attention_workspace(a, &x);
    CHECK(sizes[i][0] > 1 || bytes <= any, "call %d needs %zu bytes, any call %zu", (int)i, bytes, any);
    tg_guarded page;
    if (!tg_guard_take(&page, bytes + 1, 0, false)) abort();
    for (size_t shift = 0; shift < 2; shift++) {
      x.workspace = page.data + 1 - shift, x.workspace_bytes = bytes, x.o = shift ? o : want;   /* of any alignment, to the end of a page */
      CHECK(tg_attention_run(a, &x) == TG_OK, "call %d: %s", (int)i, tg_error_message(c));
    }
    CHECK(!memcmp(o, want, n), "call %d: other bits in another workspace", (int)i);
    memset(o, 0x5a, n);
    char first = 0x5a;
    x.workspace_bytes = bytes - 1;
    if (bytes) CHECK(tg_attention_run(a, &x) == TG_EINVAL && strstr(tg_error_message(c), "workspace") && !memcmp(o, &first, 1), "call %d: a byte too few", (int)i);
    x.workspace = NULL, x.workspace_bytes = bytes;
    if (bytes) CHECK(tg_attention_run(a, &x) == TG_EINVAL && strstr(tg_error_message(c), "workspace"), "call %d: no workspace", (int)i);
    tg_guard_drop(&page);
  }
  tg_attention_info info = tg_attention_describe(a);
  CHECK(info.kernels > 0 && !info.tuned, "figures");
  tg_attention_free(a);
  free(q), free(k), free(o), free(want);
}

/* ---- blocks of keys that a mask leaves ---- */

static void blocks(tg_context *c) {
  enum { TOKENS = 300, HEAD = 8, BATCH = 2 };
  tg_attention_desc d = {.head = HEAD, .heads = 2, .queries = {1, TOKENS}, .keys = {1, TOKENS}, .threads = 2, .mask_mod = "doc_q == doc_k", .arg = {{"doc_q", TG_I32, TG_PER_QUERY}, {"doc_k", TG_I32, TG_PER_KEY}}};
  static int32_t doc[TOKENS], other[TOKENS];
  for (int i = 0; i < TOKENS; i++) doc[i] = i / 90;
  tg_attention *a = plan_of(c, &d);
  int64_t n = BATCH * 2 * TOKENS * HEAD;
  float *q = floats(n), *k = floats(n), *want = floats(n), *o = floats(n);
  tg_attention_call x = {.batch = BATCH, .queries = TOKENS, .keys = TOKENS, .q = q, .k = k, .v = k, .o = want, .arg = {doc, doc}};
  CHECK(a && run(a, x) == TG_OK, "%s", tg_error_message(c));
  size_t bytes = tg_attention_blocks_bytes(a, &x), needed = tg_attention_workspace(a, &x);
  tg_guarded page;
  CHECK(bytes > 0, "blocks of a mask_mod take no room");
  if (!tg_guard_take(&page, bytes, 0, false)) abort();
  x.workspace = malloc(needed + 1), x.workspace_bytes = needed, x.q = x.k = x.v = x.o = NULL;
  CHECK(tg_attention_blocks(a, &x, (uint8_t *)page.data) == TG_OK, "%s", tg_error_message(c));
  CHECK(tg_attention_blocks(a, &x, NULL) == TG_EINVAL && strstr(tg_error_message(c), "out"), "blocks to nowhere: %s", tg_error_message(c));
  CHECK(tg_attention_blocks(a, NULL, (uint8_t *)page.data) == TG_EINVAL && tg_attention_blocks(NULL, &x, (uint8_t *)page.data) == TG_EINVAL, "no call, no plan");
  free(x.workspace);
  tg_attention_call wrong = x;
  wrong.queries = TOKENS + 1;
  CHECK(tg_attention_blocks(a, &wrong, (uint8_t *)page.data) == TG_EINVAL && strstr(tg_error_message(c), "queries") && !tg_attention_blocks_bytes(a, &wrong), "%s", tg_error_message(c));
  wrong = x, wrong.arg[1] = NULL, wrong.workspace = NULL;
  CHECK(tg_attention_blocks(a, &wrong, (uint8_t *)page.data) == TG_EINVAL && strstr(tg_error_message(c), "arg[1]"), "%s", tg_error_message(c));
  x.q = q, x.k = x.v = k, x.o = o, x.blocks = (const uint8_t *)page.data;
  CHECK(run(a, x) == TG_OK && !memcmp(o, want, (size_t)n * sizeof *o), "blocks found ahead: %s", tg_error_message(c));
  CHECK(tg_attention_workspace(a, &x) <= needed, "a call with blocks needs more");
  x.blocks = NULL, x.arg[1] = other;   /* another mask of the same plan */
  CHECK(run(a, x) == TG_OK && memcmp(o, want, (size_t)n * sizeof *o), "the mask of the call before: %s", tg_error_message(c));
  tg_guard_drop(&page);
  tg_attention_free(a);
  d.mask_mod = NULL, d.arg[0].name = d.arg[1].name = NULL;
  a = plan_of(c, &d);
  CHECK(!tg_attention_blocks_bytes(a, &x) && !tg_attention_blocks_bytes(NULL, &x), "blocks without a mask");
  tg_attention_free(a);
  free(q), free(k), free(want), free(o);
}

/* ---- threads ---- */

static void in_reverse(void *user, int64_t n, void (*task)(void *, int64_t), void *arg) {
  (void)user;
  for (int64_t i = n; i-- > 0;) task(arg, i);
}

static void odd_ones_first(void *user, int64_t n, void (*task)(void *, int64_t), void *arg) {
  (void)user;
  for (int64_t i = 1; i < n; i += 2) task(arg, i);
  for (int64_t i = 0; i < n; i += 2) task(arg, i);
}

typedef struct { void (*task)(void *, int64_t); void *arg; int64_t i; } one_task;

static void *run_task(void *x) {
  one_task *t = x;
  t->task(t->arg, t->i);
  return NULL;
}

static void at_once(void *user, int64_t n, void (*task)(void *, int64_t), void *arg) {
  pthread_t thread[16];
  one_task t[16];
  (void)user;
  for (int64_t i = 0; i < n; i++) t[i] = (one_task){task, arg, i}, pthread_create(&thread[i], NULL, run_task, &t[i]);
  for (int64_t i = 0; i < n; i++) pthread_join(thread[i], NULL);
}

/* The same bits for any number of threads in any order, and for each sequence by itself. */
static void same_bits(tg_context *c, const char *what, tg_attention_desc d, int64_t queries, int64_t keys, bool packed) {
  static const tg_exec execs[] = {{1, in_reverse, NULL}, {2, in_reverse, NULL}, {3, odd_ones_first, NULL}, {7, in_reverse, NULL}, {7, at_once, NULL}, {2, at_once, NULL}};
  enum { SEQUENCES = 3 };
  int64_t E = d.head, per_q = d.heads * E, per_k = d.kv_heads * E;
  d.lse = 1;
  int32_t qs[SEQUENCES + 1] = {0, (int32_t)queries, (int32_t)queries + 1, 2 * (int32_t)queries + 1}, ks[SEQUENCES + 1] = {0, (int32_t)keys, (int32_t)keys, 2 * (int32_t)keys};
  tg_attention *a = plan_of(c, &d);
  float *q = floats(SEQUENCES * queries * per_q), *k = floats(SEQUENCES * keys * per_k), *v = floats(SEQUENCES * keys * per_k), *want = floats(SEQUENCES * queries * per_q), *o = floats(SEQUENCES * queries * per_q),
        *lse = floats(SEQUENCES * queries * d.heads), *want_lse = floats(SEQUENCES * queries * d.heads);
  size_t n = (size_t)((packed ? qs[SEQUENCES] : SEQUENCES * queries) * per_q) * sizeof *o, n_lse = n / (size_t)E;
  tg_attention_call x = {.batch = SEQUENCES, .queries = queries, .keys = keys, .q = q, .k = k, .v = v, .o = want, .lse = want_lse};
  if (packed) x.query_starts = qs, x.key_starts = ks;
  CHECK(a && run(a, x) == TG_OK, "%s: %s", what, tg_error_message(c));
  x.o = o, x.lse = lse;
  for (size_t e = 0; a && e < sizeof execs / sizeof *execs + 2; e++) {
    memset(o, 0xff, n), memset(lse, 0xff, n_lse);
    x.exec = e < sizeof execs / sizeof *execs ? &execs[e] : NULL, x.threads = e == sizeof execs / sizeof *execs;
    CHECK(run(a, x) == TG_OK && !memcmp(o, want, n) && !memcmp(lse, want_lse, n_lse), "%s: other bits, way %d: %s", what, (int)e, tg_error_message(c));
  }
  for (int b = 0; a && b < SEQUENCES; b++) {
    tg_attention_call alone = {.queries = queries, .keys = keys, .q = q + b * queries * per_q, .k = k + b * keys * per_k, .v = v + b * keys * per_k, .o = o, .lse = lse};
    const float *to = want + b * queries * per_q;
    int64_t tokens = packed ? qs[b + 1] - qs[b] : queries;
    if (packed) alone.query_starts = qs + b, alone.key_starts = ks + b, alone.q = q, alone.k = k, alone.v = v, to = want + qs[b] * per_q;
    CHECK(run(a, alone) == TG_OK && !memcmp(packed ? o + qs[b] * per_q : o, to, (size_t)(tokens * per_q) * sizeof *o), "%s: sequence %d by itself: %s", what, b, tg_error_message(c));
  }
  tg_attention_free(a);
  free(q), free(k), free(v), free(want), free(o), free(lse), free(want_lse);
}

/* Arguments that are packed as Q and K are: each sequence gives the bits that it gives alone, from its own tokens on. */
static void packed_arguments(tg_context *c) {
  enum { SEQUENCES = 3, TOKENS = 200, HEAD = 8, HEADS = 2 };
  static const int32_t qs[SEQUENCES + 1] = {0, 70, 75, 175}, ks[SEQUENCES + 1] = {0, 90, 97, 200};
  tg_attention_desc d = {.head = HEAD,
                         .heads = HEADS,
                         .queries = {1, 100},
                         .keys = {1, 110},
                         .score_mod = "score + bias",
                         .mask_mod = "part_q == part_k",
                         .arg = {{"bias", TG_F32, TG_PER_HEAD | TG_PER_KEY | TG_PACKED},
                                 {"part_q", TG_I32, TG_PER_QUERY | TG_PACKED},
                                 {"part_k", TG_I32, TG_PER_KEY | TG_PACKED}}};
  static int32_t part[TOKENS];
  for (int i = 0; i < TOKENS; i++) part[i] = i * 7 % 40 / 13;
  float *q = floats(TOKENS * HEADS * HEAD), *k = floats(TOKENS * HEADS * HEAD), *bias = floats(HEADS * TOKENS),
        *want = floats(TOKENS * HEADS * HEAD), *o = floats(TOKENS * HEADS * HEAD);
  tg_attention *a = plan_of(c, &d);
  const int64_t strides[3] = {0, HEAD, HEADS * HEAD};
  tg_attention_call x = {.batch = SEQUENCES, .q = q, .k = k, .v = k, .o = o, .query_starts = qs, .key_starts = ks,
                         .arg = {bias, part, part}};
  CHECK(a && run(a, x) == TG_OK, "%s", tg_error_message(c));
  for (int b = 0; a && b < SEQUENCES; b++) {
    int64_t from = qs[b] * HEADS * HEAD, keys = ks[b] * HEADS * HEAD, n = qs[b + 1] - qs[b];
    tg_attention_call alone = {.queries = n, .keys = ks[b + 1] - ks[b], .q = q + from, .k = k + keys, .v = k + keys,
                               .o = want + from, .arg = {bias + ks[b], part + qs[b], part + ks[b]},
                               .arg_strides = {{0, ks[SEQUENCES], 0, 1}, {0, 0, 1, 0}, {0, 0, 0, 1}}};
    int64_t *const all[] = {alone.q_strides, alone.k_strides, alone.v_strides, alone.o_strides};
    for (int i = 0; i < 4; i++) memcpy(all[i], strides, sizeof strides);
    CHECK(run(a, alone) == TG_OK, "%s", tg_error_message(c));
    CHECK(!memcmp(o + from, want + from, (size_t)(n * HEADS * HEAD) * sizeof *o), "sequence %d has other arguments", b);
  }
  tg_attention_free(a);
  free(q), free(k), free(bias), free(want), free(o);
}

static void threads(tg_context *c) {
  tg_attention_desc d = {.head = 24, .heads = 4, .kv_heads = 2, .queries = {1, 130}, .keys = {0, 3000}, .causal = TG_CAUSAL_BOTTOM_RIGHT, .threads = 3};
  same_bits(c, "many queries", d, 130, 200, false);
  same_bits(c, "packed", d, 97, 120, true);
  d.queries.hi = 5;
  same_bits(c, "parts of keys", d, 5, 2500, false);
  same_bits(c, "packed parts", d, 3, 2000, true);
  same_bits(c, "one query", d, 1, 1500, false);
  d.window = 30;
  same_bits(c, "a window", d, 1, 1500, false);
}

typedef struct { const tg_attention *a; tg_attention_call call; const float *want; size_t bytes; int wrong; } user;

static void *use(void *x) {
  user *u = x;
  for (int i = 0; i < 30; i++) {
    memset(u->call.o, 0xff, u->bytes);
    u->wrong += run(u->a, u->call) != TG_OK || memcmp(u->call.o, u->want, u->bytes);
  }
  return NULL;
}

static void several_users(tg_context *c) {
  enum { USERS = 4, QUERIES = 20, KEYS = 1200 };
  tg_attention_desc d = {.head = 16, .heads = 2, .queries = {1, QUERIES}, .keys = {0, KEYS}, .threads = 2};
  tg_attention *a = plan_of(c, &d);
  float *q = floats(2 * QUERIES * 16), *k = floats(2 * KEYS * 16);
  user u[USERS];
  pthread_t thread[USERS];
  for (int i = 0; i < USERS; i++) {
    int64_t queries = i % 2 ? QUERIES : 1 + i;
    u[i] = (user){.a = a, .bytes = (size_t)(2 * queries * 16) * sizeof(float), .want = floats(2 * queries * 16)};
    u[i].call = (tg_attention_call){.queries = queries, .keys = KEYS - i, .q = q, .k = k, .v = k, .o = (void *)(uintptr_t)u[i].want};
    CHECK(a && run(a, u[i].call) == TG_OK, "%s", tg_error_message(c));
    u[i].call.o = floats(2 * queries * 16);
  }
  for (int i = 0; i < USERS; i++) pthread_create(&thread[i], NULL, use, &u[i]);
  for (int i = 0; i < USERS; i++) {
    pthread_join(thread[i], NULL);
    CHECK(!u[i].wrong, "user %d: %d runs", i, u[i].wrong);
    free(u[i].call.o), free((void *)(uintptr_t)u[i].want);
  }
  tg_attention_free(a);
  free(q), free(k);
}

/* ---- merges ---- */

static void merges(tg_context *c) {
  enum { KEYS = 60, HEADS = 3, QUERIES = 9, E = 16, ROWS = 2 * HEADS * QUERIES };
  for (int way = 0; way < 4; way++) {
    uint8_t o_type = way == 3 ? TG_F16 : 0;
    tg_attention_desc d = {.head = E, .heads = HEADS, .queries = {0, 20}, .keys = {0, KEYS}, .lse = 1, .base2 = way & 1, .o = o_type};
    tg_attention *a = plan_of(c, &d);
    size_t size = o_type ? 2 : 4;
    float *q = floats(ROWS * E), *k = floats(2 * HEADS * KEYS * E), *v = floats(2 * HEADS * KEYS * E), *o[4], *lse[4];
    for (int i = 0; i < 4; i++) o[i] = floats(ROWS * E), lse[i] = floats(ROWS);
    static const int cuts[] = {0, 1, 31, KEYS};
    for (size_t i = 0; a && i < sizeof cuts / sizeof *cuts; i++) {
      const int64_t step[3] = {HEADS * KEYS * E, KEYS * E, E};
      int64_t from[] = {0, 0, cuts[i]}, n[] = {KEYS, cuts[i], KEYS - cuts[i]};
      for (int p = 0; p < 3; p++) {
        tg_attention_call x = {.batch = 2, .queries = QUERIES, .keys = n[p], .q = q, .k = k + from[p] * E, .v = v + from[p] * E, .o = o[p], .lse = lse[p]};
        memcpy(x.k_strides, step, sizeof step), memcpy(x.v_strides, step, sizeof step);
        CHECK(run(a, x) == TG_OK, "%s", tg_error_message(c));
      }
      tg_attention_merge_call m = {.batch = 2, .queries = QUERIES, .first = o[1], .first_lse = lse[1], .second = o[2], .second_lse = lse[2], .o = o[3], .lse = lse[3]};
      CHECK(tg_attention_merge(a, &m) == TG_OK, "%s", tg_error_message(c));
      int wrong = 0, other = 0;
      for (int r = 0; r < ROWS; r++) wrong += !(fabsf(lse[3][r] - lse[0][r]) < 1e-5f);
      for (int e = 0; e < ROWS * E && size == 4; e++) wrong += !(fabsf(o[3][e] - o[0][e]) < 1e-5f);
      other = memcmp(o[3], o[cuts[i] ? 1 : 2], ROWS * E * size) || memcmp(lse[3], lse[cuts[i] ? 1 : 2], ROWS * sizeof(float));
      CHECK(!wrong, "way %d, cut at %d: %d are wrong", way, cuts[i], wrong);
      if (d.base2 && (n[1] == 0 || n[2] == 0)) CHECK(!other, "way %d, cut at %d: a part without keys changes the other's bits", way, cuts[i]);
      if (cuts[i]) continue;
      m.second = o[1], m.second_lse = lse[1];   /* both without keys */
      CHECK(tg_attention_merge(a, &m) == TG_OK, "%s", tg_error_message(c));
      for (int r = 0; r < ROWS; r++) wrong += !(isinf(lse[3][r]) && lse[3][r] < 0);
      for (size_t e = 0; e < ROWS * E * size; e++) wrong += ((char *)o[3])[e] != 0;
      CHECK(!wrong, "way %d: two parts without keys: %d", way, wrong);
    }
    tg_attention_merge_call m = {.batch = 2, .queries = QUERIES, .first = o[1], .first_lse = lse[1], .second = o[2], .second_lse = lse[2], .o = o[3], .lse = lse[3]}, x = m;
#define WRONG(...) do { x = m; __VA_ARGS__; CHECK(tg_attention_merge(a, &x) == TG_EINVAL && strstr(tg_error_message(c), "tg_attention_merge_call"), "%s: %s", #__VA_ARGS__, tg_error_message(c)); } while (0)
    WRONG(x.batch = -1);
    WRONG(x.batch = INT64_MAX / 2);
    WRONG(x.queries = 21);
    WRONG(x.queries = -1);
    WRONG(x.first = NULL);
    WRONG(x.first_lse = NULL);
    WRONG(x.second = NULL);
    WRONG(x.second_lse = NULL);
    WRONG(x.o = NULL);
    WRONG(x.lse = NULL);
#undef WRONG
    x = m, x.queries = 0, x.first = NULL;
    CHECK(tg_attention_merge(a, &x) == TG_OK, "a merge of nothing");
    CHECK(tg_attention_merge(a, NULL) == TG_EINVAL && tg_attention_merge(NULL, &m) == TG_EINVAL, "no call, no plan");
    tg_attention_free(a);
    d.lse = 0;
    if (!way) {
      a = plan_of(c, &d);
      CHECK(tg_attention_merge(a, &m) == TG_EINVAL && strstr(tg_error_message(c), "lse"), "a merge without LSE");
      tg_attention_free(a);
    }
    free(q), free(k), free(v);
    for (int i = 0; i < 4; i++) free(o[i]), free(lse[i]);
  }
}

/* ---- caches ---- */

static void caches(void) {
  char folder[TEST_PATH] = "tg-attention-XXXXXX", command[TEST_PATH + 32];
  static room r;
  CHECK(test_folder(folder) != NULL, "a folder");
  tg_context_options o = {.target = test_target(), .cache = folder, .threads = 2};
  tg_context *c = NULL, *runtime = NULL;
  char *score = strdup("score * by");   /* the texts may go with the call of tg_attention_plan */
  tg_attention_desc d = described;
  float *want = floats(B * H * T * D);
  d.score_mod = score;
  for (size_t i = 0; i < sizeof r.q / sizeof *r.q; i++) r.q[i] = unit();
  for (size_t i = 0; i < sizeof r.k / sizeof *r.k; i++) r.k[i] = unit(), r.v[i] = unit();
  for (int i = 0; i < N; i++) r.by[i] = unit();
  CHECK(tg_context_create(&o, &c) == TG_OK, "a context");
  tg_attention *a = plan_of(c, &d);
  memset(score, '!', strlen(score));
  tg_attention_call x = call_of(&r);
  x.o = want;
  CHECK(a && run(a, x) == TG_OK, "%s", tg_error_message(c));
  CHECK(!tg_attention_describe(a).from_cache, "an empty cache");
  tg_attention_free(a);
  memcpy(score, "score * by", strlen(score));
  x.o = r.o;
  CHECK(tg_context_create_runtime(&o, &runtime) == TG_OK, "a context without a compiler");
  for (int way = 0; way < 4; way++) {
    tg_context *in = way & 1 ? runtime : c;
    d.flags = way & 2 ? TG_ATTENTION_NO_COMPILE : 0;
    a = plan_of(in, &d);
    tg_attention_info info = tg_attention_describe(a);
    CHECK(a && info.kernels && info.from_cache == info.kernels, "way %d: %u of %u from the cache", way, info.from_cache, info.kernels);
    memset(r.o, 0xff, sizeof r.o);
    CHECK(a && run(a, x) == TG_OK && !memcmp(want, r.o, sizeof r.o), "way %d: other bits: %s", way, tg_error_message(in));
    tg_attention_free(a);
  }
  d.head = 9;
  CHECK(tg_attention_plan(runtime, &d, &a) == TG_MISS && !a, "a kernel that is not there");
  CHECK(tg_attention_plan(c, &d, &a) == TG_MISS && !a, "a kernel that is not there, and must not be compiled");
  tg_context_free(runtime);
  tg_context_free(c);
  free(score), free(want);
  snprintf(command, sizeof command, "rm -r %s", folder);
  CHECK(!system(command), "%s", command);
}

/* ---- little memory: each allocation of a plan fails once; a run makes none ---- */

typedef struct { long calls, fail_at, live; } budget;

static void *count_alloc(void *user_, size_t bytes) {
  budget *b = user_;
  if (++b->calls == b->fail_at) return NULL;
  b->live++;
  return malloc(bytes ? bytes : 1);
}

static void count_free(void *user_, void *p, size_t bytes) {
  (void)bytes;
  ((budget *)user_)->live -= p != NULL;
  free(p);
}

static tg_status live(budget *b) {
  tg_context_options o = {.allocator = {count_alloc, count_free, b}, .target = test_target(), .threads = 1};
  tg_context *c = NULL;
  tg_attention *a = NULL;
  static float x[3000 * 8];
  tg_status s = tg_context_create(&o, &c);
  if (s != TG_OK) return s;
  s = tg_attention_plan(c, &(tg_attention_desc){.head = 8, .queries = {1, 0}, .keys = {0, 2000}, .lse = 1}, &a);
  if (s == TG_OK) {
    long before = b->calls;
    static char memory[1 << 16];
    tg_attention_call call = {.keys = 2000, .q = x, .k = x + 8, .v = x + 8, .o = x + 8 * 2001, .workspace = memory, .workspace_bytes = sizeof memory};
    s = tg_attention_run(a, &call);
    CHECK(s == TG_OK && b->calls == before, "a run allocated %ld times: %s", b->calls - before, tg_error_message(c));
  } else CHECK(!a && strstr(tg_error_message(c), "memory"), "%s", tg_error_message(c));
  tg_attention_free(a);
  tg_context_free(c);
  return s;
}

static void out_of_memory(void) {
  budget whole = {0};
  int wrong = 0;
  CHECK(live(&whole) == TG_OK && !whole.live, "%ld blocks left over", whole.live);
  for (long n = 1; n <= whole.calls; n += whole.calls / 40 + 1) {
    budget b = {.fail_at = n};
    tg_status s = live(&b);
    wrong += (s != TG_OK && s != TG_ENOMEM) || b.live;
  }
  CHECK(!wrong, "%d of %ld", wrong, whole.calls);
}

int main(void) {
  tg_context *c = NULL;
  CHECK(tg_context_create(&(tg_context_options){.target = test_target(), .threads = 3}, &c) == TG_OK, "a context");
  descriptors(c);
  calls(c);
  other_headers(c);
  workspaces(c);
  blocks(c);
  threads(c);
  packed_arguments(c);
  several_users(c);
  merges(c);
  tg_context_free(c);
  caches();
  out_of_memory();
  return TEST_END();
}
