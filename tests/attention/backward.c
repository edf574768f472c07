/* SPDX-License-Identifier: MIT
 * Gradients of attention against plain C in f64: types, head dims, layouts, masks, windows, GQA, packed sequences and lengths, drawn at random, within bounds that follow from sizes and types; exact data, for which dV is
 * equal bit for bit; the reference itself against differences of its result; the same bits for any number of threads; calls and descriptors that are refused.
 *   attention_backward [CASES [SEED]]   so many random cases (40) */
#define _GNU_SOURCE
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include "../target.h"
#include "../test.h"
#include "dsl/value.h"
#include "trial/placed.h"
#include "tg/attention.h"
#include "philox.h"

static uint64_t state = 7;
static uint32_t draw(void) { return (uint32_t)((state = state * 6364136223846793005u + 1442695040888963407u) >> 33); }
static int64_t below(int64_t n) { return (int64_t)(draw() % (uint64_t)n); }
static bool often(int percent) { return below(100) < percent; }
static const double u = 0x1p-24;

/* ---- a problem ---- */

typedef struct tensor { tg_type type; int64_t step[3], n; void *at; double *x; } tensor;   /* x: the same as numbers */
enum { Q, K, V, O, DO, DQ, DK, DV, TENSORS };

typedef struct problem {
  tg_attention_desc d;
  tg_attention_call call;
  tensor of[TENSORS];
  int64_t batch, *nq, *nk, *room, *q0, *k0;
  int32_t *query_starts, *key_starts, *key_lengths, *documents;
  float *lse, *slopes, *sinks;
  double *mask, scale;   /* [queries][keys] of the mask as numbers */
  void *mask_at;
  double *want[3], *away[3];
  bool exact;
} problem;

static int64_t at(const problem *p, int t, int64_t b, int64_t h, int64_t i) {
  bool keys = t == K || t == V || t == DK || t == DV;
  const int32_t *starts = keys ? p->key_starts : p->query_starts;
  return (starts ? starts[b] * p->of[t].step[2] : b * p->of[t].step[0]) + h * p->of[t].step[1] + i * p->of[t].step[2];
}

static double element(const problem *p, int t, int64_t b, int64_t h, int64_t i, int64_t e) { return p->of[t].x[at(p, t, b, h, i) + e]; }

static bool sees(const problem *p, int64_t b, int64_t i, int64_t j) {
  const tg_attention_desc *d = &p->d;
  int64_t stands = i + (d->causal == TG_CAUSAL_BOTTOM_RIGHT ? p->nk[b] - p->nq[b] : 0);
  if (d->causal && j > stands) return false;
  if (d->window && (stands - j >= d->window || j - stands >= d->window)) return false;
  if (d->mask == TG_BOOL && p->mask[i * p->call.keys + j] == 0) return false;
  return !d->mask_mod || p->documents[i] == p->documents[j];
}

/* ---- score_mods ---- */

/* A score_mod, its value and its derivative here; steep and curved: bounds of its first and second derivative for scores within 8. rate of a: an argument of each head. */
typedef struct modification { const char *text; bool arg; double (*value)(double s, double rate, int64_t b, int64_t h, int64_t q, int64_t k), (*slope)(double s, double rate, int64_t h, int64_t q, int64_t k); double steep, curved; } modification;
#define MOD(name, x, d) \
  static double name##_value(double s, double r, int64_t b, int64_t h, int64_t q, int64_t k) { (void)s, (void)r, (void)b, (void)h, (void)q, (void)k; return x; } \
  static double name##_slope(double s, double r, int64_t h, int64_t q, int64_t k) { (void)s, (void)r, (void)h, (void)q, (void)k; return d; }
MOD(capped, 2 * tanh(s / 2), 1 - tanh(s / 2) * tanh(s / 2))
MOD(alibi, s - r * fabs((double)(q - k)), 1)
MOD(halved, k > q ? s / 2 : s + 0.25 * (double)(b + h), k > q ? 0.5 : 1)
MOD(squared, s + 0.125 * s * s, 1 + 0.25 * s)
MOD(waved, sin(s) * r + s / (1 + exp(-s)), r * cos(s) + 1 / (1 + exp(-s)) + s * exp(-s) / ((1 + exp(-s)) * (1 + exp(-s))))
MOD(stepped, s + floor(r * (double)q) * 0.01, 1)
MOD(constant, 0 * s + 0.125 * (double)(q % 3), 0)
static const modification mods[] = {
  {"2.0f * tanh(score * 0.5f)", false, capped_value, capped_slope, 1, 1},
  {"score - rate * f32(abs(q - k))", true, alibi_value, alibi_slope, 1, 0},
  {"where(k > q, score * 0.5f, score + 0.25f * f32(b + h))", false, halved_value, halved_slope, 1, 0},
  {"score + score * score * 0.125f", false, squared_value, squared_slope, 3, 0.25},
  {"sin(score) * rate + score / (1.0f + exp(-score))", true, waved_value, waved_slope, 2, 1.5},
  {"score + floor(rate * f32(q)) * 0.01f", true, stepped_value, stepped_slope, 1, 0},
  {"floor(score * 0.0f) + f32(q % 3) * 0.125f", false, constant_value, constant_slope, 0, 0},
};
static const modification *mod_of(const tg_attention_desc *d) {
  for (size_t i = 0; d->score_mod && i < TG_COUNT(mods); i++)
    if (!strcmp(mods[i].text, d->score_mod)) return &mods[i];
  return NULL;
}

/* The score of a query and a key, natural or to the base 2; *slope: its derivative by scale Q.K; *size: the sum of |q k| scale. */
static double score(const problem *p, int64_t b, int64_t h, int64_t i, int64_t j, double *slope, double *size) {
  const tg_attention_desc *d = &p->d;
  double s = 0, all = 0;
  int64_t kv = h / (d->heads / d->kv_heads), stands = i + (d->causal == TG_CAUSAL_BOTTOM_RIGHT ? p->nk[b] - p->nq[b] : 0);
  for (int64_t e = 0; e < d->head; e++) {
    double x = element(p, Q, b, h, i, e) * element(p, K, b, kv, j, e);
    s += x, all += fabs(x);
  }
  s *= p->scale, *size = all * p->scale, *slope = 1;
  if (d->soft_cap > 0) {
    double th = tanh(s / (double)d->soft_cap);
    s = (double)d->soft_cap * th, *slope = 1 - th * th;
  }
  const modification *m = mod_of(d);
  if (m) {
    double was = s, rate = (double)p->slopes[h];
    s = m->value(was, rate, b, h, i, j), *slope *= m->slope(was, rate, h, i, j);
    *size = m->steep * *size + fabs(s - was) + fabs(was) + rate * fabs((double)(i - j));
  }
  if (d->alibi) s -= (double)p->slopes[h] * fabs((double)(stands - j)), *size += (double)p->slopes[h] * fabs((double)(stands - j));
  if (d->mask && d->mask != TG_BOOL) s += p->mask[i * p->call.keys + j], *size += fabs(p->mask[i * p->call.keys + j]);
  return s;
}

static double exponential(const problem *p, double x) { return p->d.base2 ? exp2(x) : exp(x); }

static double kept(const problem *p, int64_t b, int64_t h, int64_t i, int64_t j) {
  return p->d.dropout > 0 ? philox_kept((double)p->d.dropout, p->call.seed, p->call.offset, b * p->d.heads + h, i, j) : 1;
}

/* O and LSE of a query, with scores s. */
static double forward(const problem *p, int64_t b, int64_t h, int64_t i, double *s, double *o) {
  const tg_attention_desc *d = &p->d;
  int64_t kv = h / (d->heads / d->kv_heads), E = d->value_head;
  double sink = d->sinks ? (double)p->sinks[h] : -(double)INFINITY, most = sink, l = 0, slope, size;
  for (int64_t j = 0; j < p->nk[b]; j++) {
    s[j] = sees(p, b, i, j) ? score(p, b, h, i, j, &slope, &size) : -(double)INFINITY;
    if (s[j] > most) most = s[j];
  }
  for (int64_t e = 0; e < E; e++) o[e] = 0;
  if (d->sinks) l = exponential(p, sink - most);
  for (int64_t j = 0; j < p->nk[b] && most > -(double)INFINITY; j++) {
    if (isinf(s[j])) continue;
    double w = exponential(p, s[j] - most);
    l += w, w *= kept(p, b, h, i, j);
    for (int64_t e = 0; e < E; e++) o[e] += w * element(p, V, b, kv, j, e);
  }
  for (int64_t e = 0; e < E; e++) o[e] = l > 0 ? o[e] / l : 0;
  return l > 0 ? most + (d->base2 ? log2(l) : log(l)) : -(double)INFINITY;
}

/* ---- the reference ---- */

/* What one query adds to the gradients, and how far a kernel in f32 may be away: a weight by its score's error (a sum of D products, (2 sqrt(D) + 16) u of their size, and a few u of its own), dP as a sum of E products, sums over keys
 * or queries by (2 sqrt(n) + 24) u of their terms. */
static void backward_row(problem *p, int64_t b, int64_t h, int64_t i, double *s, double *o) {
  const tg_attention_desc *d = &p->d;
  int64_t kv = h / (d->heads / d->kv_heads), E = d->value_head, D = d->head;
  double lse = forward(p, b, h, i, s, o), delta = 0, delta_size = 0, change = p->scale * (d->base2 ? 0.6931471805599453 : 1), log2e = d->base2 ? 1 : 1.4426950408889634;
  if (isinf(lse)) return;
  for (int64_t e = 0; e < E; e++) {
    double x = element(p, DO, b, h, i, e) * element(p, O, b, h, i, e);
    delta += x, delta_size += fabs(x);
  }
  for (int64_t j = 0; j < p->nk[b]; j++) {
    if (isinf(s[j])) continue;
    double slope, size, weight = exponential(p, s[j] - lse), keep = kept(p, b, h, i, j), by = 0, by_size = 0;
    score(p, b, h, i, j, &slope, &size);
    for (int64_t e = 0; e < E; e++) {
      double x = keep * element(p, DO, b, h, i, e) * element(p, V, b, kv, j, e);
      by += x, by_size += fabs(x);
    }
    double off = u * ((2 * sqrt((double)D) + 24) * (size + (double)d->soft_cap) + 4 * (fabs(lse) + fabs(s[j]))) * log2e + 16 * u;
    double terms = (2 * sqrt((double)(p->nq[b] + p->nk[b])) + 24) * u, ds = weight * (by - delta) * slope * change;
    double ds_off = fabs(ds) * (off + terms) + weight * change * ((2 * sqrt((double)E) + 24) * u * (by_size + delta_size)) + weight * change * (fabs(by) + fabs(delta)) * (1 - slope > 0 ? off : 0) * 2;
    if (mod_of(d)) ds_off += weight * change * (fabs(by) + fabs(delta)) * (mod_of(d)->curved * off + 8 * u) * 2;
    for (int64_t e = 0; e < E; e++) {
      int64_t to = at(p, DV, b, kv, j) + e;
      double x = weight * keep * element(p, DO, b, h, i, e);
      p->want[2][to] += x, p->away[2][to] += fabs(x) * (off + terms);
    }
    for (int64_t e = 0; e < D; e++) {
      int64_t to_q = at(p, DQ, b, h, i) + e, to_k = at(p, DK, b, kv, j) + e;
      double q = element(p, Q, b, h, i, e), k = element(p, K, b, kv, j, e);
      p->want[0][to_q] += ds * k, p->away[0][to_q] += ds_off * fabs(k);
      p->want[1][to_k] += ds * q, p->away[1][to_k] += ds_off * fabs(q);
    }
  }
}

static void backward(problem *p) {
  double *s = calloc((size_t)p->call.keys + 1, sizeof *s), *o = calloc((size_t)p->d.value_head + 1, sizeof *o);
  for (int i = 0; i < 3; i++)
    for (int64_t x = 0; x < p->of[DQ + i].n; x++) p->want[i][x] = p->away[i][x] = 0;
  for (int64_t b = 0; b < p->batch; b++)
    for (int64_t h = 0; h < p->d.heads; h++)
      for (int64_t i = 0; i < p->nq[b]; i++) backward_row(p, b, h, i, s, o);
  free(s), free(o);
}

/* ---- data ---- */

static void lay_out(problem *p, int t, int64_t heads, int64_t tokens, int64_t width, tg_type type, bool by_token, int64_t gap) {
  tensor *x = &p->of[t];
  int64_t row = width + gap;
  *x = (tensor){.type = type};
  bool packed = p->query_starts != NULL;
  if (by_token || packed) x->step[1] = row, x->step[2] = heads * row, x->step[0] = tokens * heads * row;
  else x->step[2] = row, x->step[1] = tokens * row, x->step[0] = heads * tokens * row;
  x->n = (packed ? 1 : p->batch) * heads * tokens * row;
  x->at = malloc((size_t)x->n * (size_t)tg_type_bytes(type) + 1), x->x = calloc((size_t)x->n + 1, sizeof *x->x);
}

static void set(tensor *x, int64_t i, double v) {
  v = tg_round_to(x->type, v);
  x->x[i] = v;
  tg_number_put(x->type, x->at, (size_t)i, v);
}

static double value_of(const problem *p, int t) {
  if (!p->exact) return (double)(int32_t)draw() * 0x1p-30 - 1;
  return t == Q ? 0 : (double)(below(9) - 4);
}

static void fill(problem *p) {
  static const int inputs[] = {Q, K, V, DO};
  for (int n = 0; n < 4; n++)
    for (int64_t i = 0; i < p->of[inputs[n]].n; i++) set(&p->of[inputs[n]], i, value_of(p, inputs[n]));
  double *s = calloc((size_t)p->call.keys + 1, sizeof *s), *o = calloc((size_t)p->d.value_head + 1, sizeof *o);
  for (int64_t i = 0; i < p->of[O].n; i++) set(&p->of[O], i, NAN);
  for (int64_t b = 0; b < p->batch; b++) {
    for (int64_t h = 0; h < p->d.kv_heads; h++)   /* keys that no query may look at */
      for (int64_t j = p->nk[b]; j < p->room[b]; j++) {
        for (int64_t e = 0; e < p->d.head; e++) set(&p->of[K], at(p, K, b, h, j) + e, NAN);
        for (int64_t e = 0; e < p->d.value_head; e++) set(&p->of[V], at(p, V, b, h, j) + e, NAN);
      }
    for (int64_t h = 0; h < p->d.heads; h++)
      for (int64_t i = 0; i < p->nq[b]; i++) {
        double lse = forward(p, b, h, i, s, o);
        int64_t to = p->query_starts ? h * p->query_starts[p->batch] + p->query_starts[b] + i : (b * p->d.heads + h) * p->call.queries + i;
        p->lse[to] = (float)lse;
        for (int64_t e = 0; e < p->d.value_head; e++) set(&p->of[O], at(p, O, b, h, i) + e, o[e]);
      }
  }
  free(s), free(o);
}

static void draw_sizes(problem *p, int64_t queries, int64_t keys, bool packed, bool lengths) {
  int64_t n = p->batch, **all[] = {&p->nq, &p->nk, &p->room, &p->q0, &p->k0};
  for (int i = 0; i < 5; i++) *all[i] = calloc((size_t)n + 1, sizeof(int64_t));
  if (packed) p->query_starts = calloc((size_t)n + 1, sizeof(int32_t)), p->key_starts = calloc((size_t)n + 1, sizeof(int32_t));
  if (lengths) p->key_lengths = calloc((size_t)n + 1, sizeof(int32_t));
  for (int64_t b = 0; b < n; b++) {
    p->nq[b] = packed ? below(queries + 1) : queries, p->room[b] = packed ? below(keys + 1) : keys;
    p->nk[b] = lengths ? below(p->room[b] + 1) : p->room[b];
    if (lengths) p->key_lengths[b] = (int32_t)p->nk[b];
    if (packed) p->query_starts[b + 1] = p->query_starts[b] + (int32_t)p->nq[b], p->key_starts[b + 1] = p->key_starts[b] + (int32_t)p->room[b];
  }
  p->call.queries = queries, p->call.keys = keys, p->call.batch = n;
  p->call.query_starts = p->query_starts, p->call.key_starts = p->key_starts, p->call.key_lengths = p->key_lengths;
}

static void draw_problem(problem *p, bool exact) {
  static const tg_type types[] = {TG_F32, TG_F32, TG_F16, TG_BF16};
  static const int heads[] = {8, 16, 40, 64, 80, 128, 1, 7, 33, 100}, groups[][2] = {{1, 1}, {2, 1}, {4, 2}, {3, 3}, {8, 1}, {9, 9}};
  static const float one = 1, small = 0.25f;
  static const int64_t sizes[] = {1, 2, 3, 7, 16, 17, 31, 47, 48, 49, 63, 64, 65, 97, 130, 200};
  int64_t g = below(6), queries = sizes[below(16)], keys = often(15) ? 200 + below(500) : often(50) ? queries : sizes[below(16)];
  tg_attention_desc *d = &p->d;
  *p = (problem){.batch = often(60) ? 1 : 1 + below(3), .exact = exact};
  *d = (tg_attention_desc){.backward = 1, .causal = (uint8_t)below(3), .heads = groups[g][0], .kv_heads = groups[g][1], .head = heads[below(10)], .queries = {0, queries}, .keys = {0, keys}, .base2 = exact || often(30), .lse = often(50)};
  d->value_head = often(20) ? heads[below(10)] : d->head;
  d->q = (uint8_t)types[below(4)], d->k = often(80) ? d->q : (uint8_t)types[below(4)], d->v = often(80) ? d->k : (uint8_t)types[below(4)], d->o = often(80) ? d->q : (uint8_t)types[below(4)];
  d->scale = often(30) ? &small : exact ? &one : NULL;
  p->scale = d->scale ? (double)*d->scale : 1 / sqrt(d->head);
  if (often(25)) d->window = 1 + below(often(50) ? 20 : 150);
  if (!exact && often(20)) d->soft_cap = 2;
  if (!exact && often(15)) d->alibi = 1;
  if (!exact && often(20)) d->sinks = 1;
  if (!exact && often(20)) d->dropout = often(50) ? 0.5f : 0.1f, p->call.seed = (uint64_t)draw() << 32 | draw(), p->call.offset = draw();
  if (often(15)) d->mask = TG_BOOL;
  else if (!exact && often(15)) d->mask = often(50) ? TG_F32 : TG_BF16;
  if (d->mask) d->mask_per = TG_PER_QUERY | TG_PER_KEY;
  if (often(15)) d->mask_mod = "a == z", d->arg[0].name = "a", d->arg[0].type = TG_I32, d->arg[0].per = TG_PER_QUERY, d->arg[1].name = "z", d->arg[1].type = TG_I32, d->arg[1].per = TG_PER_KEY;
  if (!exact && often(30)) {
    const modification *m = &mods[below(TG_COUNT(mods))];
    int n = d->mask_mod ? 2 : 0;
    d->score_mod = m->text;
    if (m->arg) d->arg[n].name = "rate", d->arg[n].per = TG_PER_HEAD;
  }
  if (exact) {   /* every weight is 1 / keys */
    keys = 1 << below(9), d->keys.hi = keys;
    d->causal = 0, d->window = 0, d->mask = 0, d->mask_per = 0, d->mask_mod = NULL, memset(d->arg, 0, sizeof d->arg);
  }
  draw_sizes(p, queries, keys, !exact && often(30), !exact && often(25));
  int64_t most = queries > keys ? queries : keys, tq = p->query_starts ? p->query_starts[p->batch] : queries, tk = p->key_starts ? p->key_starts[p->batch] : keys;
  p->documents = calloc((size_t)most + 1, sizeof(int32_t)), p->slopes = calloc((size_t)d->heads, sizeof(float)), p->sinks = calloc((size_t)d->heads, sizeof(float));
  for (int64_t i = 0; i < most; i++) p->documents[i] = (int32_t)(i / 40);
  for (int64_t i = 0; i < d->heads; i++) p->slopes[i] = 0.5f / (float)(i + 1), p->sinks[i] = (float)(i % 3) - 0.5f;
  if (d->mask) p->mask = calloc((size_t)(queries * keys) + 1, sizeof(double)), p->mask_at = calloc((size_t)(queries * keys) + 1, 4);
  for (int64_t i = 0; d->mask && i < queries * keys; i++) {
    p->mask[i] = d->mask == TG_BOOL ? often(70) : often(10) ? -(double)INFINITY : tg_round_to(d->mask, (double)below(100) / -50);
    tg_number_put(d->mask, p->mask_at, (size_t)i, p->mask[i]);
  }
  const tg_type of[] = {d->q, d->k, d->v, d->o};
  for (int t = 0; t < TENSORS; t++) {
    int as = t < DO ? t : (int[]){O, Q, K, V}[t - DO];
    bool kv = as == K || as == V;
    lay_out(p, t, kv ? d->kv_heads : d->heads, kv ? tk : tq, as == Q || as == K ? d->head : d->value_head, of[as], often(30), often(20) ? 1 + below(9) : 0);
  }
  p->lse = calloc((size_t)(d->heads * p->batch * queries) + 1, sizeof(float));
  for (int i = 0; i < 3; i++) p->want[i] = calloc((size_t)p->of[DQ + i].n + 1, sizeof(double)), p->away[i] = calloc((size_t)p->of[DQ + i].n + 1, sizeof(double));
  tg_attention_call *c = &p->call;
  c->q = p->of[Q].at, c->k = p->of[K].at, c->v = p->of[V].at, c->o = p->of[O].at, c->d_o = p->of[DO].at, c->d_q = p->of[DQ].at, c->d_k = p->of[DK].at, c->d_v = p->of[DV].at;
  c->lse = p->lse, c->slopes = d->alibi ? p->slopes : NULL, c->mask = p->mask_at, c->mask_strides[2] = d->mask ? keys : 0, c->mask_strides[3] = d->mask ? 1 : 0;
  if (d->mask_mod) c->arg[0] = c->arg[1] = p->documents;
  if (d->score_mod && mod_of(d)->arg) c->arg[d->mask_mod ? 2 : 0] = p->slopes;
  int64_t *steps[] = {c->q_strides, c->k_strides, c->v_strides, c->o_strides, c->d_o_strides, c->d_q_strides, c->d_k_strides, c->d_v_strides};
  for (int t = 0; t < TENSORS; t++) memcpy(steps[t], p->of[t].step, sizeof p->of[t].step);
}

static void drop(problem *p) {
  for (int t = 0; t < TENSORS; t++) free(p->of[t].at), free(p->of[t].x);
  for (int i = 0; i < 3; i++) free(p->want[i]), free(p->away[i]);
  free(p->nq), free(p->nk), free(p->room), free(p->q0), free(p->k0), free(p->query_starts), free(p->key_starts), free(p->key_lengths), free(p->documents), free(p->lse), free(p->slopes), free(p->sinks), free(p->mask), free(p->mask_at);
}

/* ---- runs ---- */

static void poison(problem *p) {
  for (int t = DQ; t <= DV; t++) memset(p->of[t].at, 0x7d, (size_t)p->of[t].n * (size_t)tg_type_bytes(p->of[t].type));
}

static tg_status run(tg_context *c, const tg_attention *a, problem *p, const tg_exec *exec, int32_t threads) {
  tg_attention_call call = p->call;
  call.exec = exec, call.threads = threads;
  call.workspace_bytes = tg_attention_workspace(a, &call);
  call.workspace = malloc(call.workspace_bytes + 1);
  poison(p);
  tg_status s = tg_attention_run(a, &call);
  CHECK(s == TG_OK, "%s", tg_error_message(c));
  free(call.workspace);
  return s;
}

static double ulp(tg_type t, double v) {
  int e, least = t == TG_F16 ? -24 : t == TG_BF16 ? -133 : -149;
  frexp(v, &e);
  e -= tg_significand(t);
  return ldexp(1, v == 0 || e < least ? least : e);
}

/* Is every element of a gradient near what it must be, and nothing between them written? */
static bool right(problem *p, int n, char *why, size_t why_n) {
  const tensor *x = &p->of[DQ + n];
  int64_t bytes = tg_type_bytes(x->type), heads = n ? p->d.kv_heads : p->d.heads, width = n == 2 ? p->d.value_head : p->d.head, failed = 0;
  uint8_t *is = calloc((size_t)x->n + 1, 1), *raw = x->at;
  for (int64_t b = 0; b < p->batch; b++)
    for (int64_t h = 0; h < heads; h++)
      for (int64_t i = 0; i < (n ? p->room : p->nq)[b]; i++)
        for (int64_t e = 0; e < width; e++) {
          int64_t to = at(p, DQ + n, b, h, i) + e;
          double got = tg_number_get(x->type, x->at, (size_t)to), want = p->want[n][to], away = p->away[n][to] + ulp(x->type, want) + 0x1p-100;   /* weights below 2^-126 may be 0 */
          is[to] = 1;
          if (p->exact && n == 2) away = 0, want = tg_round_to(x->type, want);
          if (fabs(got - want) <= away) continue;
          if (!failed++) snprintf(why, why_n, "d_%c[%d][%d][%d][%d] is %.9g, not %.9g within %.3g", "qkv"[n], (int)b, (int)h, (int)i, (int)e, got, want, away);
        }
  for (int64_t i = 0; i < x->n; i++)
    for (int64_t k = 0; k < bytes && !is[i]; k++)
      if (raw[i * bytes + k] != 0x7d && !failed++) snprintf(why, why_n, "d_%c: element %d, which belongs to no token, is written", "qkv"[n], (int)i);
  free(is);
  return !failed;
}

static void describe(const problem *p, char *out, size_t n) {
  const tg_attention_desc *d = &p->d;
  snprintf(out, n, "q %s k %s v %s o %s, heads %d/%d of %d and %d, batch %d, queries %d, keys %d%s%s, causal %d, window %d, cap %g, alibi %d, mask %s, mask_mod %s, score_mod %s, base2 %d, exact %d, sinks %d, dropout %g", tg_type_name[d->q], tg_type_name[d->k], tg_type_name[d->v], tg_type_name[d->o], d->heads, d->kv_heads, d->head,
           d->value_head, (int)p->batch, (int)p->call.queries, (int)p->call.keys, p->query_starts ? ", packed" : "", p->key_lengths ? ", lengths" : "", d->causal, (int)d->window, (double)d->soft_cap, d->alibi, tg_type_name[d->mask], d->mask_mod ? d->mask_mod : "-", d->score_mod ? d->score_mod : "-", d->base2, p->exact, d->sinks, (double)d->dropout);
}

static void in_reverse(void *user, int64_t n, void (*task)(void *, int64_t), void *arg) {
  (void)user;
  for (int64_t i = n; i-- > 0;) task(arg, i);
}

static void one_case(tg_context *c, bool exact) {
  static const tg_exec execs[] = {{1, in_reverse, NULL}, {3, in_reverse, NULL}};
  problem p;
  char about[700], why[200];
  uint64_t seed = state;
  draw_problem(&p, exact);
  describe(&p, about, sizeof about);
  fill(&p), backward(&p);
  tg_attention *a = NULL;
  CHECK(tg_attention_plan(c, &p.d, &a) == TG_OK, "%s: %s", about, tg_error_message(c));
  int way = (int)below(3);
  if (a && run(c, a, &p, way < 2 ? &execs[way] : NULL, 0) == TG_OK)
    for (int n = 0; n < 3; n++) CHECK(right(&p, n, why, sizeof why), "%s, from %llu: %s", about, (unsigned long long)seed, why);
  tg_attention_free(a);
  drop(&p);
}

/* ---- the reference against differences of what it is the gradient of, sum dO O ---- */

static double loss(problem *p) {
  double *s = calloc((size_t)p->call.keys + 1, sizeof *s), *o = calloc((size_t)p->d.value_head + 1, sizeof *o), sum = 0;
  for (int64_t b = 0; b < p->batch; b++)
    for (int64_t h = 0; h < p->d.heads; h++)
      for (int64_t i = 0; i < p->nq[b]; i++) {
        forward(p, b, h, i, s, o);
        for (int64_t e = 0; e < p->d.value_head; e++) sum += element(p, DO, b, h, i, e) * o[e];
      }
  free(s), free(o);
  return sum;
}

static void differences(void) {
  for (int n = 0, done = 0; done < 12 && n < 400; n++) {
    problem p;
    draw_problem(&p, false);
    if (p.call.queries * p.call.keys <= 20000 && p.d.o == TG_F32 && !p.key_lengths) {
      done++, fill(&p), backward(&p);
      for (int t = 0; t < 3; t++)
        for (int k = 0; k < 3 && p.of[t].n; k++) {
          int64_t i = below(p.of[t].n);
          double h = 1e-5, old = p.of[t].x[i], more, less, got = p.want[t][i];
          if (memcmp(p.of[t].step, p.of[DQ + t].step, sizeof p.of[t].step)) continue;   /* another place for the same element */
          p.of[t].x[i] = old + h, more = loss(&p), p.of[t].x[i] = old - h, less = loss(&p), p.of[t].x[i] = old;
          CHECK(fabs((more - less) / 2 / h - got) <= 1e-5 * (1 + fabs(got)), "the reference's gradient by element %d of %c is %.9g, differences say %.9g", (int)i, "qkv"[t], got, (more - less) / 2 / h);
        }
    }
    drop(&p);
  }
}

/* ---- bits ---- */

static void same_bits(tg_context *c) {
  problem p;
  static const int threads[] = {1, 2, 3};
  do draw_problem(&p, false);
  while (p.call.keys < 300 || p.call.queries < 60 || p.d.kv_heads > 2 || p.query_starts);
  fill(&p);
  tg_attention *a = NULL;
  p.d.threads = 3;
  CHECK(tg_attention_plan(c, &p.d, &a) == TG_OK, "%s", tg_error_message(c));
  void *first[3] = {NULL, NULL, NULL};
  for (int n = 0; a && n < 3; n++) {
    run(c, a, &p, NULL, threads[n]);
    for (int t = 0; t < 3; t++) {
      size_t bytes = (size_t)p.of[DQ + t].n * (size_t)tg_type_bytes(p.of[DQ + t].type);
      if (!n) first[t] = malloc(bytes), memcpy(first[t], p.of[DQ + t].at, bytes);
      else CHECK(!memcmp(first[t], p.of[DQ + t].at, bytes), "d_%c has other bits on %d threads", "qkv"[t], threads[n]);
    }
  }
  for (int t = 0; t < 3; t++) free(first[t]);
  tg_attention_free(a);
  drop(&p);
}

/* ---- built-in words, and the same as texts ---- */

/* Gradients of soft_cap and alibi are those of their texts, up to the rounding of both: of scores up to 35 in size, 2^-24 of which weights are off by. */
static void words_as_texts(tg_context *c) {
  enum { T = 70, D = 40, H = 2, N = H * T * D };
  static const char *const texts[2] = {"2.0f * tanh(score / 2.0f)", "score - rate * f32(abs(q - k))"};
  static float x[4][N], lse[H * T], d_o[N], got[2][3][N], slopes[H] = {0.5f, 0.125f};
  for (int t = 0; t < 3; t++)
    for (int i = 0; i < N; i++) x[t][i] = (float)(int32_t)draw() * 0x1p-30f, d_o[i] = (float)(int32_t)draw() * 0x1p-31f;
  for (int word = 0; word < 2; word++)
    for (int text = 0; text < 2; text++) {
      tg_attention_desc d = {.heads = H, .head = D, .queries = {T, 0}, .keys = {T, 0}, .lse = 1, .causal = TG_CAUSAL_TOP_LEFT};
      tg_attention_call call = {.q = x[0], .k = x[1], .v = x[2], .o = x[3], .lse = lse};
      if (text) d.score_mod = texts[word];
      else if (word) d.alibi = 1, call.slopes = slopes;
      else d.soft_cap = 2;
      if (text && word) d.arg[0].name = "rate", d.arg[0].per = TG_PER_HEAD, call.arg[0] = slopes;
      for (d.backward = 0; d.backward < 2; d.backward++) {
        tg_attention *a = NULL;
        if (d.backward) call.d_o = d_o, call.d_q = got[text][0], call.d_k = got[text][1], call.d_v = got[text][2];
        CHECK(tg_attention_plan(c, &d, &a) == TG_OK, "%s", tg_error_message(c));
        call.workspace_bytes = tg_attention_workspace(a, &call), call.workspace = malloc(call.workspace_bytes + 1);
        CHECK(tg_attention_run(a, &call) == TG_OK, "%s", tg_error_message(c));
        free(call.workspace), tg_attention_free(a);
      }
      for (int t = 0; text && t < 3; t++) {
        double far = 0, most = 0;
        for (int i = 0; i < N; i++) far = fmax(far, fabs((double)got[0][t][i] - (double)got[1][t][i])), most = fmax(most, fabs((double)got[0][t][i]));
        CHECK(most > 0.001 && far <= 256 * u * most, "d_%c of '%s' is %.3g away from that of the field, of %.3g", "qkv"[t], texts[word], far, most);
      }
    }
}

/* ---- refusals ---- */

static void refusals(tg_context *c) {
  enum { T = 5, N = 7, D = 8 };
  static float x[4][64], g[4][64], lse[T];
  static char workspace[1 << 16];
  tg_attention_desc d = {.head = D, .queries = {T, 0}, .keys = {N, 0}, .backward = 1};
  tg_attention_call good = {.q = x[0], .k = x[1], .v = x[2], .o = x[3], .lse = lse, .d_o = g[0], .d_q = g[1], .d_k = g[2], .d_v = g[3], .workspace = workspace, .workspace_bytes = sizeof workspace};
  tg_attention *a = NULL, *none = NULL;
  CHECK(tg_attention_plan(c, &d, &a) == TG_OK && tg_attention_run(a, &good) == TG_OK, "%s", tg_error_message(c));
#define WRONG(word, ...) do { tg_attention_call call = good; __VA_ARGS__; memset(g, 0x5a, sizeof g); float before; memset(&before, 0x5a, sizeof before); \
    CHECK(tg_attention_run(a, &call) == TG_EINVAL && strstr(tg_error_message(c), word) && !memcmp(&g[1][3], &before, sizeof before), "%s: %s", #__VA_ARGS__, tg_error_message(c)); } while (0)
  WRONG("tg_attention_call.d_o ", call.d_o = NULL);
  WRONG("tg_attention_call.d_q ", call.d_q = NULL);
  WRONG("tg_attention_call.d_k ", call.d_k = (char *)g[2] + 1);
  WRONG("tg_attention_call.d_v ", call.d_v = NULL);
  WRONG("tg_attention_call.lse", call.lse = NULL);
  WRONG("tg_attention_call.o ", call.o = NULL);
  WRONG("d_q_strides", call.d_q_strides[0] = call.d_q_strides[1] = T * D, call.d_q_strides[2] = D - 1);
  WRONG("d_k_strides[2] =", call.d_k_strides[2] = -1);
  WRONG("overlap", call.d_q = x[0]);
  WRONG("overlap", call.d_k = g[1]);
  WRONG("overlap", call.d_v = g[0]);
  WRONG("overlap", call.d_v = lse);
#undef WRONG
  d.backward = 0;
  tg_attention_free(a), a = NULL;
  CHECK(tg_attention_plan(c, &d, &a) == TG_OK && tg_attention_run(a, &good) == TG_EINVAL, "a forward plan takes gradients");
  d.backward = 2;
  CHECK(tg_attention_plan(c, &d, &none) == TG_EINVAL && strstr(tg_error_message(c), "backward"), "%s", tg_error_message(c));
  d.backward = 1, d.score_mod = "score + bitcast(f32, bitcast(u32, score) & 7)";
  CHECK(tg_attention_plan(c, &d, &none) == TG_EINVAL && strstr(tg_error_message(c), "<score_mod>:1:9: error: bitcast has no derivative"), "%s", tg_error_message(c));
  tg_attention_free(a);
}

/* A NaN in a row's query makes that row's dQ NaN, and what the row adds to dK and dV, as in the loops; other rows of dQ stay. */
static void nan_rows(tg_context *c) {
  enum { T = 9, S = 13, D = 8 };
  float q[T * D], k[S * D], v[S * D], o[T * D], lse[T], d_o[T * D], dq[T * D], dk[S * D], dv[S * D];
  for (int i = 0; i < T * D; i++) q[i] = (float)sin(i * 1.3), d_o[i] = (float)cos(i * 0.7);
  for (int i = 0; i < S * D; i++) k[i] = (float)sin(i * 0.37 + 1), v[i] = (float)cos(i * 1.9);
  q[2 * D] = NAN;
  for (uint8_t backward = 0; backward < 2; backward++) {
    tg_attention *a = NULL;
    tg_attention_desc d = {.head = D, .heads = 1, .queries = {T, 0}, .keys = {S, 0}, .lse = 1, .backward = backward};
    CHECK(tg_attention_plan(c, &d, &a) == TG_OK, "%s", tg_error_message(c));
    tg_attention_call call = {.q = q, .k = k, .v = v, .o = o, .lse = lse, .workspace_bytes = tg_attention_workspace(a, NULL)};
    if (backward) call.d_o = d_o, call.d_q = dq, call.d_k = dk, call.d_v = dv;
    call.workspace = malloc(call.workspace_bytes + 64);
    CHECK(tg_attention_run(a, &call) == TG_OK, "%s", tg_error_message(c));
    free(call.workspace);
    tg_attention_free(a);
  }
  for (int i = 0; i < T; i++) CHECK(isnan(dq[i * D]) == (i == 2), "row %d: dQ %g", i, (double)dq[i * D]);
  CHECK(isnan(dk[0]) && isnan(dv[0]), "dK %g, dV %g", (double)dk[0], (double)dv[0]);
}

int main(int argc, char **argv) {
  long cases = argc > 1 ? atol(argv[1]) : 40;
  if (argc > 2) state = strtoull(argv[2], NULL, 10);
  tg_context *c;
  if (tg_context_create(&(tg_context_options){.target = test_target(), .threads = 3}, &c)) return 1;
  refusals(c);
  differences();
  words_as_texts(c);
  nan_rows(c);
  for (long i = 0; i < cases && test_failed < 10; i++) one_case(c, i % 4 == 3);
  for (int i = 0; i < 3; i++) same_bits(c);
  tg_context_free(c);
  return TEST_END();
}
