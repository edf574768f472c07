/* SPDX-License-Identifier: MIT
 * Variants of attention on devices, and its gradients: sinks, pages, appending, dropout, masks of blocks, K and V in integers, rotary embedding, unequal heads, and several of these at once. Each result is compared with that of the host's plan of
 * the same descriptor, which has tests of its own, and each launch with the interpreter, bit for bit (shadow.h). Operations of tg/nn.h likewise.
 * Without arguments on the first device of each driver that can be used, then on the stand-ins; each takes a fifth of the cases.
 *   devices_variants [--all] [DEVICE ...]            as devices_operations
 *   devices_variants --drawn N SEED [DEVICE ...]     N drawn plans of attention on each device, against the host's */
#define _GNU_SOURCE
#include <math.h>
#include <stdlib.h>
#include "../fine.h"
#include "each_device.h"
#include "dsl/value.h"
#include "trial/placed.h"
#include "shadow.h"
#include "tg/attention.h"
#include "tg/nn.h"

enum { PARTS = 5 };
static int drawn_n;   /* plans to be drawn; 0: the cases of the tables */
static uint64_t drawn_seed = 1;
typedef struct { tg_context *context; tg_device *device; const char *name; uint64_t state; uint32_t turn; bool all; } run;

static bool has_turn(const run *r, size_t i) { return r->all || i % PARTS == r->turn % PARTS; }
static uint32_t draw(run *r) { return (uint32_t)((r->state = r->state * 6364136223846793005u + 1442695040888963407u) >> 33); }
static double unit(run *r) { return (double)(int32_t)(draw(r) << 1) * 0x1p-31; }

/* ---- operands, here and there ---- */

enum { MOST = 24 };
typedef struct { void *here, *there; size_t bytes; } twin;
typedef struct { twin of[MOST]; uint32_t n; } twins;

static twin *both(run *r, twins *all, size_t bytes) {
  twin *t = &all->of[all->n++];
  *t = (twin){.here = calloc(1, bytes + 1), .bytes = bytes};
  FINE(tg_device_alloc(r->device, bytes, &t->there));
  return t;
}

static twin *numbers(run *r, twins *all, tg_type type, size_t n, double size) {
  twin *t = both(r, all, n * (size_t)tg_type_bytes(type));
  for (size_t i = 0; i < n; i++) {
    double v = tg_is_float(type) ? size * unit(r) : (double)(int8_t)draw(r);
    tg_number_put(type, t->here, i, tg_is_float(type) ? tg_round_to(type, v) : v);
  }
  return t;
}

static void send(run *r, const twins *all) {
  for (uint32_t i = 0; i < all->n; i++) FINE(tg_device_copy(r->device, all->of[i].there, all->of[i].here, all->of[i].bytes));
}

static void drop(run *r, twins *all) {
  for (uint32_t i = 0; i < all->n; i++) free(all->of[i].here), tg_device_free(r->device, all->of[i].there);
  all->n = 0;
}

/* The largest difference of a result, once that of the device is fetched. */
static double apart(run *r, tg_type type, const twin *t, double *most) {
  void *got = malloc(t->bytes + 1);
  double worst = 0;
  *most = 0;
  FINE(tg_device_copy(r->device, got, t->there, t->bytes));
  for (size_t i = 0; i < t->bytes / (size_t)tg_type_bytes(type); i++) {
    double x = tg_number_get(type, got, i), y = tg_number_get(type, t->here, i);
    *most = fmax(*most, fabs(y));
    if (!(x == y)) worst = fmax(worst, isnan(x) || isnan(y) ? INFINITY : fabs(x - y));
  }
  free(got);
  return worst;
}

/* ---- attention ---- */

/* lengths: sequences of different ones, by key_lengths or (PACKED) behind one another. */
enum { PACKED = 2 };
typedef struct { const char *name; int64_t batch, queries, keys; tg_attention_desc d; int lengths; bool own_v; } variant;

#define SIZES .queries = {1, 64}, .keys = {1, 64}
static const variant variants[] = {
  {"sinks", 2, 5, 17, {.heads = 4, .kv_heads = 2, .head = 16, SIZES, .sinks = 1, .lse = 1, .causal = TG_CAUSAL_BOTTOM_RIGHT}, false, false},
  {"sinks, f16", 1, 17, 33, {.q = TG_F16, .heads = 2, .kv_heads = 1, .head = 32, SIZES, .sinks = 1, .causal = TG_CAUSAL_TOP_LEFT, .window = 9}, false, false},
  {"unequal heads", 1, 3, 21, {.heads = 2, .kv_heads = 1, .head = 24, .value_head = 8, SIZES}, false, false},
  {"unequal heads, bf16", 1, 18, 32, {.q = TG_BF16, .heads = 2, .kv_heads = 1, .head = 48, .value_head = 32, SIZES, .causal = TG_CAUSAL_BOTTOM_RIGHT}, false, false},
  {"heads of latent attention", 1, 1, 19, {.heads = 4, .kv_heads = 1, .head = 192, .value_head = 128, SIZES}, false, true},
  {"fewer keys than a block has, bf16", 1, 5, 6, {.q = TG_BF16, .heads = 2, .kv_heads = 1, .head = 32, .queries = {1, 64}, .keys = {1, 6}}, false, false},
  {"pages of 4", 2, 3, 22, {.heads = 4, .kv_heads = 2, .head = 16, SIZES, .page_size = 4, .causal = TG_CAUSAL_BOTTOM_RIGHT}, true, false},
  {"pages of 16, f16", 2, 17, 40, {.q = TG_F16, .heads = 2, .kv_heads = 1, .head = 32, SIZES, .page_size = 16, .lse = 1, .causal = TG_CAUSAL_BOTTOM_RIGHT}, false, false},
  {"append", 2, 2, 14, {.heads = 4, .kv_heads = 2, .head = 16, .value_head = 8, SIZES, .append = 1, .causal = TG_CAUSAL_BOTTOM_RIGHT}, true, false},
  {"append, room for 20 keys", 2, 1, 20, {.heads = 2, .kv_heads = 1, .head = 8, .queries = {1, 0}, .keys = {20, 0}, .append = 1, .causal = TG_CAUSAL_BOTTOM_RIGHT}, true, false},
  {"append to pages of 3", 2, 5, 20, {.heads = 2, .kv_heads = 2, .head = 8, SIZES, .append = 1, .page_size = 3, .causal = TG_CAUSAL_BOTTOM_RIGHT}, true, false},
  {"append, V in K", 1, 2, 9, {.heads = 2, .kv_heads = 1, .head = 24, .value_head = 16, SIZES, .append = 1}, false, true},
  {"dropout", 2, 9, 25, {.heads = 2, .kv_heads = 1, .head = 16, SIZES, .dropout = 0.25f, .lse = 1}, false, false},
  {"dropout, f16", 1, 20, 33, {.q = TG_F16, .heads = 2, .kv_heads = 2, .head = 32, SIZES, .dropout = 0.5f, .causal = TG_CAUSAL_TOP_LEFT}, false, false},
  {"mask of blocks", 2, 30, 37, {.heads = 2, .kv_heads = 1, .head = 16, SIZES, .block_rows = 8, .block_keys = 5, .block_per = TG_PER_HEAD, .lse = 1}, false, false},
  {"mask of blocks, f16", 2, 30, 48, {.q = TG_F16, .heads = 2, .kv_heads = 1, .head = 32, SIZES, .block_rows = 16, .block_keys = 16, .block_per = TG_PER_BATCH, .causal = TG_CAUSAL_BOTTOM_RIGHT}, false, false},
  {"mask of blocks, window", 1, 20, 40, {.heads = 2, .kv_heads = 1, .head = 8, SIZES, .block_rows = 7, .block_keys = 9, .window = 8}, false, false},
  {"K and V of 8 bits", 2, 3, 20, {.heads = 4, .kv_heads = 2, .head = 16, .value_head = 8, SIZES, .kv_bits = 8}, false, false},
  {"K and V of 8 bits in groups, pages", 2, 7, 20, {.q = TG_F16, .heads = 2, .kv_heads = 2, .head = 32, SIZES, .kv_bits = 8, .kv_group = 8, .kv_scale = TG_F16, .page_size = 8}, false, false},
  {"K and V of 4 bits in groups", 1, 9, 33, {.heads = 4, .kv_heads = 2, .head = 16, SIZES, .kv_bits = 4, .kv_group = 4, .causal = TG_CAUSAL_BOTTOM_RIGHT}, false, false},
  {"K and V of 4 bits, pages", 2, 1, 17, {.heads = 2, .kv_heads = 1, .head = 8, SIZES, .kv_bits = 4, .page_size = 2, .sinks = 1}, true, false},
  {"rotary", 2, 6, 15, {.heads = 2, .kv_heads = 1, .head = 16, SIZES, .rotary = 16, .causal = TG_CAUSAL_BOTTOM_RIGHT}, false, false},
  {"rotary of neighbours, pages, append", 1, 3, 18, {.heads = 2, .kv_heads = 1, .head = 16, SIZES, .rotary = 8, .rotary_neighbours = 1, .page_size = 4, .append = 1, .causal = TG_CAUSAL_BOTTOM_RIGHT}, false, false},
  {"rotary, f16, top left", 1, 9, 9, {.q = TG_F16, .heads = 2, .kv_heads = 2, .head = 32, SIZES, .rotary = 32, .causal = TG_CAUSAL_TOP_LEFT}, false, false},
  {"packed, a mask that is added, LSE", 3, 19, 33, {.heads = 4, .kv_heads = 2, .head = 16, .value_head = 8, SIZES, .mask = TG_F32, .mask_per = TG_PER_BATCH | TG_PER_HEAD | TG_PER_QUERY | TG_PER_KEY, .lse = 1, .causal = TG_CAUSAL_BOTTOM_RIGHT}, PACKED, false},
  {"packed, f16, arguments", 3, 18, 30, {.q = TG_F16, .heads = 2, .kv_heads = 1, .head = 32, SIZES, .score_mod = "score + by * f32(b + 1)", .mask_mod = "on != 0 | k == 0", .arg = {{"by", TG_F32, TG_PER_HEAD | TG_PER_KEY}, {"on", TG_I8, TG_PER_BATCH | TG_PER_QUERY}}, .lse = 1}, PACKED, false},
  {"packed, mask of blocks", 2, 30, 37, {.heads = 2, .kv_heads = 1, .head = 16, SIZES, .block_rows = 8, .block_keys = 5, .block_per = TG_PER_BATCH | TG_PER_HEAD, .window = 20}, PACKED, false},
  {"lengths, mask, texts, LSE", 3, 5, 40, {.heads = 2, .kv_heads = 1, .head = 8, SIZES, .mask = TG_BOOL, .mask_per = TG_PER_BATCH | TG_PER_KEY, .mask_mod = "(k + b) % 4 != 1", .lse = 1}, true, false},
  {"gradients", 2, 17, 23, {.heads = 4, .kv_heads = 2, .head = 16, .value_head = 8, SIZES, .lse = 1, .causal = TG_CAUSAL_BOTTOM_RIGHT, .backward = 1}, false, false},
  {"gradients, heads of 64 and 128", 1, 3, 18, {.q = TG_F16, .heads = 2, .kv_heads = 1, .head = 64, .value_head = 128, SIZES, .lse = 1, .backward = 1}, false, false},
  {"gradients, heads of 128", 1, 3, 18, {.heads = 2, .kv_heads = 1, .head = 128, SIZES, .lse = 1, .causal = TG_CAUSAL_BOTTOM_RIGHT, .backward = 1}, false, false},
  {"gradients, window", 1, 33, 33, {.heads = 2, .kv_heads = 1, .head = 8, SIZES, .lse = 1, .window = 6, .soft_cap = 2, .backward = 1}, false, false},
  {"gradients, f16, ALiBi, sinks", 1, 19, 19, {.q = TG_F16, .heads = 2, .kv_heads = 2, .head = 32, SIZES, .lse = 1, .alibi = 1, .sinks = 1, .causal = TG_CAUSAL_TOP_LEFT, .backward = 1}, false, false},
  {"gradients, dropout", 2, 20, 25, {.heads = 2, .kv_heads = 1, .head = 16, SIZES, .lse = 1, .dropout = 0.25f, .backward = 1}, false, false},
  {"gradients, blocks", 2, 20, 25, {.heads = 2, .kv_heads = 1, .head = 16, SIZES, .lse = 1, .block_rows = 4, .block_keys = 8, .block_per = TG_PER_HEAD, .backward = 1}, false, false},
  {"gradients, score_mod, mask_mod", 1, 9, 30, {.heads = 3, .kv_heads = 1, .head = 16, SIZES, .lse = 1, .base2 = 1, .score_mod = "score + sin(score) * f32(h + 1)", .mask_mod = "(q + k) % 3 != 0", .backward = 1}, false, false},
};

/* What stands for a call, here or there. */
static const void *at(const twin *t, bool there) { return !t ? NULL : there ? t->there : t->here; }

typedef struct { twin *q, *k, *v, *o, *lse, *slopes, *sinks, *table, *k_new, *v_new, *blocks, *k_scale, *v_scale, *cos, *sin, *d[4], *mask, *arg[2]; int32_t lengths[4], query_starts[5], key_starts[5]; } operands;

static tg_type type_of(const tg_attention_desc *d, bool keys) { return keys && d->kv_bits ? TG_I8 : d->q ? (tg_type)d->q : TG_F32; }

/* A mask, or an argument: booleans, of which a third is 0; small integers; floats within 1. */
static twin *dense(run *r, twins *all, const variant *v, tg_type t, uint8_t per) {
  size_t n = (size_t)((per & TG_PER_BATCH ? v->batch : 1) * (per & TG_PER_HEAD ? v->d.heads : 1) * (per & TG_PER_QUERY ? v->queries : 1) * (per & TG_PER_KEY ? v->keys : 1));
  twin *x = tg_is_float(t) ? numbers(r, all, t, n, 1) : both(r, all, n * (size_t)tg_type_bytes(t));
  for (size_t i = 0; i < n && !tg_is_float(t); i++) tg_number_put(t, x->here, i, draw(r) % 3 != 0);
  return x;
}

static void make(run *r, const variant *v, twins *all, operands *x) {
  const tg_attention_desc *d = &v->d;
  tg_type t = type_of(d, false), kt = type_of(d, true);
  int64_t value = d->value_head ? d->value_head : d->head, heads = d->heads * v->batch, kv = d->kv_heads, pages = d->page_size ? (v->keys + d->page_size - 1) / d->page_size : 0,
          keys = d->page_size ? (pages * v->batch + 2) * d->page_size * kv : v->batch * kv * v->keys, half = d->kv_bits == 4 ? 2 : 1, fresh = v->batch * kv * v->queries;
  x->q = numbers(r, all, t, (size_t)(heads * v->queries * d->head), 1), x->o = numbers(r, all, t, (size_t)(heads * v->queries * value), 1);
  x->k = numbers(r, all, kt, (size_t)(keys * d->head / half), 1), x->v = v->own_v ? x->k : numbers(r, all, kt, (size_t)(keys * value / half), 1);
  x->lse = d->lse ? numbers(r, all, TG_F32, (size_t)(heads * v->queries), 1) : NULL;
  if (d->alibi) x->slopes = numbers(r, all, TG_F32, (size_t)d->heads, 0.2);
  if (d->sinks && !d->backward) x->sinks = numbers(r, all, TG_F32, (size_t)d->heads, 1);
  if (d->append) x->k_new = numbers(r, all, kt, (size_t)(fresh * d->head), 1), x->v_new = v->own_v ? NULL : numbers(r, all, kt, (size_t)(fresh * value), 1);
  int64_t groups = d->kv_group ? d->head / d->kv_group : 1, v_groups = d->kv_group ? value / d->kv_group : 1;
  tg_type scale = d->kv_scale ? (tg_type)d->kv_scale : TG_F32;
  if (d->kv_bits) x->k_scale = numbers(r, all, scale, (size_t)(keys * groups), 0.02), x->v_scale = numbers(r, all, scale, (size_t)(keys * v_groups), 0.02);
  if (d->rotary) x->cos = numbers(r, all, TG_F32, (size_t)(64 * d->rotary / 2), 1), x->sin = numbers(r, all, TG_F32, (size_t)(64 * d->rotary / 2), 1);
  for (int i = 0; d->backward && i < 4; i++) {
    const twin *like = i == 0 ? x->o : i == 1 ? x->q : i == 2 ? x->k : x->v;
    x->d[i] = numbers(r, all, t, like->bytes / (size_t)tg_type_bytes(t), 1);
  }
  if (pages) {   /* each sequence has every n-th page, from the last on */
    x->table = both(r, all, (size_t)(v->batch * pages) * 4);
    for (int64_t i = 0; i < v->batch * pages; i++) ((int32_t *)x->table->here)[i] = (int32_t)(v->batch * pages + 1 - i);
  }
  if (d->block_rows) {
    int64_t rows = (v->queries + d->block_rows - 1) / d->block_rows, columns = (v->keys + d->block_keys - 1) / d->block_keys;
    x->blocks = both(r, all, (size_t)((d->block_per & TG_PER_BATCH ? v->batch : 1) * (d->block_per & TG_PER_HEAD ? d->heads : 1) * rows * columns));
    for (size_t i = 0; i < x->blocks->bytes; i++) ((uint8_t *)x->blocks->here)[i] = draw(r) % 3 != 0;
  }
  if (d->mask) x->mask = dense(r, all, v, (tg_type)d->mask, d->mask_per);
  for (int i = 0; i < 2 && d->arg[i].name; i++) x->arg[i] = dense(r, all, v, d->arg[i].type ? (tg_type)d->arg[i].type : TG_F32, d->arg[i].per);
  for (int64_t b = 0; b < v->batch; b++) {
    x->lengths[b] = (int32_t)(v->lengths ? v->keys - b * 3 : v->keys);
    x->query_starts[b + 1] = x->query_starts[b] + (int32_t)(v->queries > b ? v->queries - b : 1), x->key_starts[b + 1] = x->key_starts[b] + x->lengths[b];
  }
}

static tg_attention_call call_of(const variant *v, const operands *x, bool there) {
  const tg_attention_desc *d = &v->d;
  tg_attention_call c = {.batch = v->batch, .queries = v->queries, .keys = v->keys, .q = at(x->q, there), .k = at(x->k, there), .v = at(x->v, there), .o = (void *)(uintptr_t)at(x->o, there), .lse = (float *)(uintptr_t)at(x->lse, there), .slopes = at(x->slopes, there),
                         .sinks = at(x->sinks, there), .page_table = at(x->table, there), .k_new = at(x->k_new, there), .v_new = at(x->v_new, there), .block_mask = at(x->blocks, there), .k_scale = at(x->k_scale, there), .v_scale = at(x->v_scale, there), .cos = at(x->cos, there), .sin = at(x->sin, there)};
  c.d_o = at(x->d[0], there), c.d_q = (void *)(uintptr_t)at(x->d[1], there), c.d_k = (void *)(uintptr_t)at(x->d[2], there), c.d_v = (void *)(uintptr_t)at(x->d[3], there);
  c.mask = at(x->mask, there), c.arg[0] = at(x->arg[0], there), c.arg[1] = at(x->arg[1], there);
  if (d->page_size) c.pages = (v->keys + d->page_size - 1) / d->page_size * v->batch + 2;
  if (d->dropout > 0) c.seed = 0x123456789abcdef, c.offset = 5;
  if (d->rotary) c.positions = 64;
  if (v->lengths == PACKED) c.query_starts = x->query_starts, c.key_starts = x->key_starts, c.queries = c.keys = 0;
  else if (v->lengths) c.key_lengths = x->lengths;
  if (v->own_v) c.k_strides[2] = c.v_strides[2] = d->head, c.k_strides[1] = c.v_strides[1] = v->keys * d->head, c.k_strides[0] = c.v_strides[0] = d->kv_heads * v->keys * d->head;
  return c;
}

/* On the host, with the workspace that it needs. */
static void here(run *r, const tg_attention_desc *d, tg_attention_call c) {
  tg_attention *a = NULL;
  FINE(tg_attention_plan(r->context, d, &a));
  c.workspace_bytes = tg_attention_workspace(a, &c), c.workspace = malloc(c.workspace_bytes + 1);
  FINE(tg_attention_run(a, &c));
  free(c.workspace), tg_attention_free(a);
}

static void there(run *r, const tg_attention_desc *of, tg_attention_call c) {
  tg_attention_desc d = *of;
  tg_attention *a = NULL;
  d.device = r->device;
  FINE(tg_attention_plan(r->context, &d, &a));
  if (a) FINE(tg_attention_run(a, &c));
  FINE(tg_device_finish(r->device));
  tg_attention_free(a);
}

static double allowed(tg_type t) { return t == TG_BF16 ? 4e-2 : t == TG_F16 ? 6e-3 : 3e-5; }

static void one(run *r, const variant *v) {
  twins all = {.n = 0};
  operands x = {0};
  const tg_attention_desc *d = &v->d;
  tg_type t = type_of(d, false);
  make(r, v, &all, &x);
  if (d->backward) {   /* O and LSE, of the forward plan */
    tg_attention_desc forward = *d;
    tg_attention_call c = call_of(v, &x, false);
    forward.backward = 0, c.d_o = NULL, c.d_q = c.d_k = c.d_v = NULL;
    if (d->sinks) forward.sinks = 0;
    here(r, &forward, c);
  }
  send(r, &all);
  here(r, d, call_of(v, &x, false));
  there(r, d, call_of(v, &x, true));
  const struct { const char *name; const twin *of; tg_type type; } results[] = {{"O", d->backward ? NULL : x.o, t}, {"LSE", d->backward ? NULL : x.lse, TG_F32}, {"K", d->append ? x.k : NULL, t}, {"V", d->append ? x.v : NULL, t},
                                                                             {"dQ", d->backward ? x.d[1] : NULL, t}, {"dK", d->backward ? x.d[2] : NULL, t}, {"dV", d->backward ? x.d[3] : NULL, t}};
  for (size_t i = 0; i < TG_COUNT(results); i++) {
    double most, off;
    if (!results[i].of) continue;
    off = apart(r, results[i].type, results[i].of, &most);
    bool exact = i == 2 || i == 3;
    CHECK((most > 0 || drawn_n) && off <= (exact ? 0 : allowed(t) * (1 + most)), "%s: %s: %s is off by %g, of %g", r->name, v->name, results[i].name, off, most);
  }
  drop(r, &all);
}

static void all_variants(run *r) {
  bool plain = !strcmp(r->device->driver->name, "opencl");   /* PoCL has no f16 */
  for (size_t i = 0; i < TG_COUNT(variants); i++)
    if (has_turn(r, i) && (!plain || !variants[i].d.q) && (!plain || !variants[i].d.kv_scale)) one(r, &variants[i]);
}

/* ---- drawn plans ---- */

static const struct { const char *score, *mask; struct { const char *name; uint8_t type, per; } arg[2]; } mods[] = {
  {"score - abs(by) * f32(q)", NULL, {{"by", TG_F32, TG_PER_HEAD | TG_PER_KEY}}},
  {"where(score > x, score, x + sin(score - x))", NULL, {{"x", TG_F32, TG_PER_BATCH}}},
  {"max(score, by) * f32(h + 1)", "k % 5 != 2 | q == 1", {{"by", TG_F32, TG_PER_QUERY}}},
  {NULL, "a == z", {{"a", TG_I32, TG_PER_QUERY}, {"z", TG_I32, TG_PER_KEY | TG_PER_BATCH}}},
  {NULL, "k <= q + h + b", {{0}}},
  {"score * score + y", "on != 0", {{"on", TG_I8, TG_PER_HEAD | TG_PER_KEY}, {"y", TG_F32, TG_PER_QUERY | TG_PER_KEY}}},
};
static int64_t below(run *r, int64_t n) { return draw(r) % n; }
static bool often(run *r, int percent) { return below(r, 100) < percent; }

static void draw_scores(run *r, tg_attention_desc *d) {
  if (often(r, 25)) d->soft_cap = 2;
  if (often(r, 20)) d->alibi = 1;
  if (often(r, 20)) d->sinks = 1;
  if (often(r, 40)) d->causal = (uint8_t)(1 + below(r, 2));
  if (often(r, 25)) d->window = 1 + below(r, 20);
  d->base2 = often(r, 25);
  d->lse = d->backward || often(r, 40);
  if (often(r, 25)) d->mask = often(r, 50) ? TG_BOOL : TG_F32, d->mask_per = (uint8_t)below(r, 16);
  if (often(r, 30)) {
    size_t m = (size_t)below(r, TG_COUNT(mods));
    d->score_mod = mods[m].score, d->mask_mod = mods[m].mask;
    for (int i = 0; i < 2; i++) d->arg[i].name = mods[m].arg[i].name, d->arg[i].type = mods[m].arg[i].type, d->arg[i].per = mods[m].arg[i].per;
  }
  if (often(r, 20)) d->dropout = 0.25f;
  if (often(r, 20)) d->block_rows = (int32_t)(1 + below(r, 16)), d->block_keys = (int32_t)(1 + below(r, 24)), d->block_per = (uint8_t)(below(r, 4) * TG_PER_HEAD);
}

static void draw_operands(run *r, variant *v, bool floats) {
  static const int32_t heads[] = {8, 16, 24, 32, 64};
  tg_attention_desc *d = &v->d;
  if (floats && often(r, 60)) d->q = often(r, 60) ? TG_F16 : TG_BF16;
  d->kv_heads = (int32_t)(1 + below(r, 2)), d->heads = d->kv_heads * (int32_t)(1 + below(r, 3));
  d->head = heads[below(r, 5)];
  if (often(r, 30)) d->value_head = heads[below(r, 5)];
  v->batch = 1 + below(r, 3), v->queries = often(r, 30) ? 1 : 1 + below(r, 40), v->keys = 1 + below(r, 64);
  d->queries = often(r, 30) ? (tg_dim){v->queries, 0} : (tg_dim){1, 64}, d->keys = often(r, 30) ? (tg_dim){v->keys, 0} : (tg_dim){1, 64};
  if (d->backward) return;
  if (often(r, 25)) d->page_size = 1 + below(r, 17);
  if (often(r, 25)) d->kv_bits = often(r, 50) ? 8 : 4;
  else if (often(r, 30) && v->queries <= v->keys) d->append = 1;
  if (d->kv_bits && often(r, 50)) d->kv_group = 8;
  if (!d->kv_bits && v->queries <= v->keys && often(r, 30)) d->rotary = d->head / (often(r, 30) ? 4 : 1) / 2 * 2, d->rotary_neighbours = often(r, 50);
}

static void drawn_variants(run *r, int n) {
  bool floats = strcmp(r->device->driver->name, "opencl") != 0;
  for (int i = 0; i < n; i++) {
    char name[600];
    variant v = {.name = name};
    tg_attention_desc *d = &v.d;
    uint64_t state = r->state;
    d->backward = often(r, 25);
    draw_operands(r, &v, floats), draw_scores(r, d);
    v.lengths = v.keys > 7 && v.queries < v.keys - 6 && !d->backward && often(r, 50);
    if (v.lengths && !d->page_size && d->queries.hi && d->keys.hi && often(r, 50)) v.lengths = PACKED;
    snprintf(name, sizeof name, "drawn, seed %llu: %s, %d heads of %d and %d, %d of K and V, %lld sequences of %lld and %lld%s%s%s, causal %d, window %lld, cap %g, alibi %d, sinks %d, lse %d, base2 %d, mask %s per %d, %s, %s, dropout %g, blocks %d x %d per %d, pages %lld, bits %d in %d, append %d, rotary %d.%d%s",
             (unsigned long long)state, tg_type_name[type_of(d, false)], d->heads, d->head, d->value_head, d->kv_heads, (long long)v.batch, (long long)v.queries, (long long)v.keys, d->queries.hi ? "" : ", queries fixed", d->keys.hi ? "" : ", keys fixed", v.lengths == PACKED ? ", packed" : v.lengths ? ", lengths" : "", d->causal,
             (long long)d->window, (double)d->soft_cap, d->alibi, d->sinks, d->lse, d->base2, tg_type_name[d->mask], d->mask_per, d->score_mod ? d->score_mod : "-", d->mask_mod ? d->mask_mod : "-", (double)d->dropout, d->block_rows, d->block_keys, d->block_per, (long long)d->page_size, d->kv_bits, d->kv_group,
             d->append, d->rotary, d->rotary_neighbours, d->backward ? ", gradients" : "");
    one(r, &v);
  }
}

/* ---- the operations of tg/nn.h ---- */

/* has: operands, by letters: x, g(ate), y, d(y), X (dx), G (dgate), w(eight), b(ias), W, B (their gradients), m(ean), r(std), l(se), t(arget), L(oss), D (dloss), p(osition, with the tables of angles). results: which of them are. */
typedef struct { const char *name, *has, *results; tg_nn_desc d; } row_operation;
enum { NN_ROWS = 7, NN_COLUMNS = 24, NN_POSITIONS = 9 };
#define NN_SIZES .rows = {1, 64}, .columns = {NN_COLUMNS, 0}
static const row_operation row_operations[] = {
  {"softmax", "xy", "y", {.op = TG_NN_SOFTMAX, NN_SIZES}},
  {"softmax's gradient", "ydX", "X", {.op = TG_NN_SOFTMAX, .backward = 1, NN_SIZES}},
  {"log softmax", "xy", "y", {.op = TG_NN_LOG_SOFTMAX, NN_SIZES}},
  {"log softmax's gradient", "ydX", "X", {.op = TG_NN_LOG_SOFTMAX, .backward = 1, NN_SIZES}},
  {"layernorm", "xywbmr", "ymr", {.op = TG_NN_LAYERNORM, .weight = TG_F32, .bias = TG_F32, .statistics = 1, NN_SIZES}},
  {"layernorm's gradient", "xdXwWBmr", "XWB", {.op = TG_NN_LAYERNORM, .backward = 1, .weight = TG_F32, .bias = TG_F32, NN_SIZES}},
  {"rmsnorm", "xywr", "yr", {.op = TG_NN_RMSNORM, .weight = TG_F32, .statistics = 1, NN_SIZES}},
  {"rmsnorm's gradient", "xdXwWr", "XW", {.op = TG_NN_RMSNORM, .backward = 1, .weight = TG_F32, NN_SIZES}},
  {"rotary embedding", "xyp", "y", {.op = TG_NN_ROPE, .head = 8, NN_SIZES}},
  {"rotary embedding's gradient", "dXp", "X", {.op = TG_NN_ROPE, .backward = 1, .head = 8, .rotary = 4, .flags = TG_NN_INTERLEAVED, NN_SIZES}},
  {"cross-entropy", "xtLl", "Ll", {.op = TG_NN_CROSS_ENTROPY, .statistics = 1, NN_SIZES}},
  {"cross-entropy's gradient", "xtlDX", "X", {.op = TG_NN_CROSS_ENTROPY, .backward = 1, NN_SIZES}},
  {"gelu", "xy", "y", {.op = TG_NN_ACTIVATION, .activation = TG_NN_GELU, NN_SIZES}},
  {"silu's gradient", "xdX", "X", {.op = TG_NN_ACTIVATION, .activation = TG_NN_SILU, .backward = 1, NN_SIZES}},
  {"a gate", "xgy", "y", {.op = TG_NN_GATE, .activation = TG_NN_GELU_TANH, NN_SIZES}},
  {"a gate's gradient", "xgdXG", "XG", {.op = TG_NN_GATE, .activation = TG_NN_SIGMOID, .backward = 1, NN_SIZES}},
};

static void one_of_rows(run *r, const row_operation *v) {
  static const char matrices[] = "xgydXG", vectors[] = "wbWB", statistics[] = "mrlLD";
  twins all = {.n = 0};
  twin *of[128] = {NULL};
  for (const char *c = v->has; *c; c++) {
    size_t n = strchr(matrices, *c) ? NN_ROWS * NN_COLUMNS : strchr(vectors, *c) ? NN_COLUMNS : strchr(statistics, *c) ? NN_ROWS : 0;
    if (n) of[(int)*c] = numbers(r, &all, TG_F32, n, 1);
    else of[(int)*c] = both(r, &all, NN_ROWS * sizeof(int32_t));
    for (int i = 0; !n && i < NN_ROWS; i++) ((int32_t *)of[(int)*c]->here)[i] = (int32_t)(draw(r) % (*c == 'p' ? NN_POSITIONS : NN_COLUMNS));
  }
  int pairs = v->d.rotary ? v->d.rotary / 2 : v->d.head / 2;
  twin *cosine = strchr(v->has, 'p') ? numbers(r, &all, TG_F32, (size_t)(NN_POSITIONS * pairs), 1) : NULL, *sine = cosine ? numbers(r, &all, TG_F32, (size_t)(NN_POSITIONS * pairs), 1) : NULL;
  send(r, &all);
  for (int there = 0; there < 2; there++) {
    tg_nn_desc d = v->d;
    tg_nn *nn = NULL;
#define AT(letter) (void *)(uintptr_t)at(of[letter], there)
    tg_nn_call c = {.rows = NN_ROWS, .x = AT('x'), .gate = AT('g'), .y = AT('y'), .dy = AT('d'), .dx = AT('X'), .dgate = AT('G'), .weight = AT('w'), .bias = AT('b'), .dweight = AT('W'), .dbias = AT('B'), .mean = AT('m'), .rstd = AT('r'), .lse = AT('l'), .target = AT('t'), .loss = AT('L'), .dloss = AT('D'),
                    .position = AT('p'), .cosine = at(cosine, there), .sine = at(sine, there), .positions = cosine ? NN_POSITIONS : 0};
#undef AT
    if (there) d.device = r->device;
    FINE(tg_nn_plan(r->context, &d, &nn));
    c.workspace_bytes = there ? 0 : tg_nn_workspace(nn, &c), c.workspace = there ? NULL : malloc(c.workspace_bytes + 1);
    FINE(tg_nn_run(nn, &c));
    if (there) FINE(tg_device_finish(r->device));
    free(c.workspace), tg_nn_free(nn);
  }
  for (const char *c = v->results; *c; c++) {
    double most, off = apart(r, TG_F32, of[(int)*c], &most);
    CHECK(most > 0 && off <= 1e-5 * (1 + most), "%s: %s: result %c is off by %g, of %g", r->name, v->name, *c, off, most);
  }
  drop(r, &all);
}

static void all_row_operations(run *r) {
  for (size_t i = 0; i < TG_COUNT(row_operations); i++)
    if (has_turn(r, i)) one_of_rows(r, &row_operations[i]);
}

/* ---- who runs ---- */

static void on(const char *name, uint32_t i, bool all) {
  static uint32_t turns;
  run whole = {.name = name, .state = drawn_seed, .turn = turns++, .all = all}, *r = &whole;
  CHECK(!tg_context_create(NULL, &r->context) && !tg_device_open(r->context, i, &r->device), "%s: %s", name, why(r));
  if (r->device && drawn_n) drawn_variants(r, drawn_n);
  else if (r->device) {
    shadow_begin(r->context, r->device, name);
    all_variants(r), all_row_operations(r);
    printf("%s: %ld launches compared with the interpreter\n", name, shadow_end());
  }
  tg_context_free(r->context);
}

int main(int argc, char **argv) {
  static const char *const targets[] = {"sm_80", "sm_90a", "gfx1100", "gfx90a"};
  int own = 1;
  if (argc > 3 && !strcmp(argv[1], "--drawn")) {
    drawn_n = atoi(argv[2]), drawn_seed = strtoull(argv[3], NULL, 10);
    own = 4;
  }
  each_device(argv[0], argc - own, argv + own, targets, TG_COUNT(targets), on);
  return TEST_END();
}
