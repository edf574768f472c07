/* SPDX-License-Identifier: MIT
 * tg bench attention --backward: whether gradients are right. Rows of dQ are compared with plain C in f64 that knows Q,
 * K, V and dO alone; keys of dK and dV with the same from the LSE and O of the forward run, whose O was verified. */
#define _GNU_SOURCE
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "bench/attention.h"
#include "bench/bench.h"

enum { KEYS_CHECKED = 12 };

typedef struct { const attention_case *c; size_t d; double scale; } gradients;

static double product(const gradients *g, const void *a, size_t from, const void *b, size_t other) {
  double sum = 0;
  for (size_t e = 0; e < g->d; e++)
    sum += attention_element(g->c->of.type, a, from + e) * attention_element(g->c->of.type, b, other + e);
  return sum;
}

/* How far `got` may be from `want`: a part of `size`, the sum of the terms' largest elements before dO.V - delta
 * cancels. */
static bool near(const gradients *g, const double *want, double size, const void *got, tg_type type, size_t from) {
  double part = g->c->of.type == TG_F32 ? 1e-5 : g->c->of.type == TG_F16 ? 5e-3 : 3e-2;
  for (size_t e = 0; e < g->d; e++)
    if (!(fabs(attention_element(type, got, from + e) - want[e]) <= part * size)) return false;
  return true;
}

enum { LARGEST = 2 };   /* elements are within -2..2 */

static bool row_right(const gradients *g, int n, const void *dq, tg_type type, double *weight, double *want) {
  const attention_shape *s = &g->c->of;
  attention_row r = attention_row_checked(s, n);
  int64_t behind = s->causal ? r.i + s->keys - s->queries + 1 : s->keys;
  size_t q = ((size_t)(r.b * s->heads + r.h) * (size_t)s->queries + (size_t)r.i) * g->d,
         kv = (size_t)(r.b * s->kv_heads + r.h / (s->heads / s->kv_heads)) * (size_t)s->keys * g->d;
  double largest = -INFINITY, sum = 0, delta = 0, size = 0;
  for (int64_t j = 0; j < behind; j++) {
    weight[j] = g->scale * product(g, g->c->q, q, g->c->k, kv + (size_t)j * g->d);
    largest = fmax(largest, weight[j]);
  }
  for (int64_t j = 0; j < behind; j++) sum += weight[j] = exp(weight[j] - largest);
  for (int64_t j = 0; j < behind; j++)   /* dO.O */
    delta += (weight[j] /= sum) * product(g, g->c->d_o, q, g->c->v, kv + (size_t)j * g->d);
  memset(want, 0, g->d * sizeof *want);
  for (int64_t j = 0; j < behind; j++) {
    size_t key = kv + (size_t)j * g->d;
    double dp = product(g, g->c->d_o, q, g->c->v, key), by = g->scale * weight[j] * (dp - delta);
    size += g->scale * weight[j] * (fabs(dp) + fabs(delta)) * LARGEST;
    for (size_t e = 0; e < g->d; e++) want[e] += by * attention_element(s->type, g->c->k, key + e);
  }
  return near(g, want, size, dq, type, q);
}

/* dK and dV of a key: sums over the queries of all heads that share it. */
static bool key_right(const gradients *g, int n, const void *all, tg_type type, double *dk, double *dv) {
  const attention_shape *s = &g->c->of;
  size_t keys = (size_t)(s->batch * s->kv_heads) * (size_t)s->keys, group = (size_t)(s->heads / s->kv_heads),
         key = n == 1 ? keys - 1 : (size_t)n * 0x9E3779B97F4A7C15u % keys, j = key % (size_t)s->keys,
         head = key / (size_t)s->keys * group, q_elements = g->c->q_elements, kv_elements = keys * g->d;
  double k_size = 0, v_size = 0;
  memset(dk, 0, g->d * sizeof *dk), memset(dv, 0, g->d * sizeof *dv);
  for (size_t row = head * (size_t)s->queries; row < (head + group) * (size_t)s->queries; row++) {
    int64_t i = (int64_t)(row % (size_t)s->queries);
    if (s->causal && (int64_t)j > i + s->keys - s->queries) continue;
    double p = exp(g->scale * product(g, g->c->q, row * g->d, g->c->k, key * g->d) - (double)g->c->lse[row]),
           dp = product(g, g->c->d_o, row * g->d, g->c->v, key * g->d),
           delta = product(g, g->c->d_o, row * g->d, g->c->o, row * g->d), ds = g->scale * p * (dp - delta);
    k_size += g->scale * p * (fabs(dp) + fabs(delta)) * LARGEST, v_size += p * LARGEST;
    for (size_t e = 0; e < g->d; e++) {
      dv[e] += p * attention_element(s->type, g->c->d_o, row * g->d + e);
      dk[e] += ds * attention_element(s->type, g->c->q, row * g->d + e);
    }
  }
  return near(g, dk, k_size, all, type, q_elements + key * g->d) &&
         near(g, dv, v_size, all, type, q_elements + kv_elements + key * g->d);
}

bool attention_gradients_right(const attention_case *c, const void *all, tg_type type) {
  gradients g = {c, (size_t)c->of.head, 1 / sqrt((double)c->of.head)};
  double *want = calloc(2 * g.d + (size_t)c->of.keys, sizeof *want);
  bool good = want;
  if (!good) perror("tg bench attention");
  for (size_t i = 0; good && i < c->results; i++) good = !isnan(attention_element(type, all, i));
  for (int n = 0; good && n < ATTENTION_ROWS_CHECKED; n++) good = row_right(&g, n, all, type, want + g.d, want);
  for (int n = 0; good && n < KEYS_CHECKED; n++) good = key_right(&g, n, all, type, want, want + g.d);
  free(want);
  return good;
}
