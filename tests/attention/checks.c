/* SPDX-License-Identifier: MIT
 * The checks of attention pass a right candidate and catch wrong ones: a table of faults, each planted into plain C in blocks of keys with a running maximum, each with a check that is there for it. */
#define _GNU_SOURCE
#include <math.h>
#include <stdlib.h>
#include "../target.h"
#include "../test.h"
#include "checks/attention.h"
#include "dsl/value.h"

typedef enum fault {
  NONE, CAUSAL_LATE, CAUSAL_EARLY, WINDOW_WIDE, WINDOW_NARROW, TAIL_TWICE, LAST_DROPPED, FIRST_DROPPED, RESCALE_O, RESCALE_L, NO_MAXIMUM, BLOCK_MAXIMUM, UNSEEN_TIMES_0, UNSEEN_LENGTH, LENGTH_IGNORED,
  NO_KEY_IS_NAN, NO_KEY_LSE, LSE_BASE, LSE_NOT_WRITTEN, HEADS_DEALT, DENSE_ROWS, DENSE_O, BETWEEN_ROWS, BEHIND_O, WRITES_K, LAST_ELEMENT, TRUNCATED, COARSE_K, COARSE_EXP, COARSE_SCORE, BACKWARDS, NAN_LOST, INFINITY_CUT, FIRST_SEQUENCE, NOTHING, LAST_QUERY,
  FAULTS
} fault;

typedef struct { const tg_attention_desc *d; fault f; } planted;
enum { BLOCK = 16 };

static tg_type type_of(uint8_t t) { return t ? (tg_type)t : TG_F32; }

/* Elements from the first one to a row. */
static int64_t at(const int64_t step[3], int64_t heads, int64_t tokens, int64_t width, const int32_t *starts, int64_t b, int64_t h, int64_t t) {
  bool dense = !step[0] && !step[1] && !step[2];
  int64_t head = !dense ? step[1] : starts ? width : tokens * width, token = !dense ? step[2] : starts ? heads * width : width;
  return (starts ? starts[b] * token : b * (dense ? heads * tokens * width : step[0])) + h * head + t * token;
}

typedef struct { int64_t b, h, kv, i, queries, keys; const tg_attention_call *c; } place;

static double product(const planted *x, const place *p, int64_t j) {
  const tg_attention_desc *d = x->d;
  const tg_attention_call *c = p->c;
  double s = 0;
  int64_t q = at(c->q_strides, d->heads, c->queries, d->head, c->query_starts, p->b, p->h, p->i), k = at(c->k_strides, d->kv_heads, c->keys, d->head, c->key_starts, p->b, p->kv, j);
  if (x->f == DENSE_ROWS && !c->key_starts) k = ((p->b * d->kv_heads + p->kv) * c->keys + j) * d->head;
  for (int64_t n = 0; n < d->head - (x->f == LAST_ELEMENT); n++) {
    int64_t e = x->f == BACKWARDS ? d->head - 1 - n : n;
    double y = tg_number_get(type_of(d->k), c->k, (size_t)(k + e));
    if (x->f == COARSE_K) y = tg_round_to(TG_BF16, y);
    s += tg_number_get(type_of(d->q), c->q, (size_t)(q + e)) * y;
    if (x->f == BACKWARDS) s = (double)(float)s;
  }
  s *= d->scale ? (double)*d->scale : 1 / sqrt(d->head);
  if (x->f == COARSE_SCORE && s != 0) s = ldexp(rint(ldexp(s, 19 - ilogb(s))), ilogb(s) - 19);
  if (x->f == NAN_LOST && isnan(s)) s = -INFINITY;
  if (x->f == INFINITY_CUT && isinf(s)) s = copysign(3e38, s);
  return d->base2 ? s : s * 1.4426950408889634;
}

static bool sees(const planted *x, const place *p, int64_t j) {
  const tg_attention_desc *d = x->d;
  int64_t stands = p->i + (d->causal == TG_CAUSAL_BOTTOM_RIGHT ? p->keys - p->queries : 0), window = d->window + (x->f == WINDOW_WIDE) - (x->f == WINDOW_NARROW);
  if (x->f == FIRST_DROPPED && j == 0 && p->keys > 1) return false;
  if (d->causal && j > stands + (x->f == CAUSAL_LATE) - (x->f == CAUSAL_EARLY)) return false;
  return !d->window || (stands - j < window && j - stands < window);
}

static void row(const planted *x, const place *p, double *o, float *lse) {
  const tg_attention_desc *d = x->d;
  const tg_attention_call *c = p->c;
  int64_t E = d->value_head ? d->value_head : d->head;
  double m = x->f == NO_MAXIMUM ? 0 : -(double)INFINITY, l = 0;
  for (int64_t e = 0; e < E; e++) o[e] = 0;
  for (int64_t first = 0, n = p->keys + (x->f == TAIL_TWICE) - (x->f == LAST_DROPPED && p->keys > 1); first < n; first += BLOCK) {
    double s[BLOCK], most = x->f == BLOCK_MAXIMUM ? -(double)INFINITY : m;
    int64_t block = n - first < BLOCK ? n - first : BLOCK;
    for (int64_t j = 0; j < block; j++) {
      int64_t key = first + j < p->keys ? first + j : p->keys - 1;
      s[j] = sees(x, p, key) ? product(x, p, key) : -INFINITY;
      if (x->f != NO_MAXIMUM && (s[j] > most || isnan(s[j]))) most = s[j];
    }
    double z = isinf(most) && most < 0 ? 0 : most, by = exp2(m - z);
    l *= x->f == RESCALE_L ? 1 : by;
    for (int64_t e = 0; e < E && x->f != RESCALE_O; e++) o[e] *= by;
    for (int64_t j = 0; j < block; j++) {
      int64_t key = first + j < p->keys ? first + j : p->keys - 1, v = at(c->v_strides, d->kv_heads, c->keys, E, c->key_starts, p->b, p->kv, key);
      double w = exp2(s[j] - z);
      if (x->f == COARSE_EXP) w = tg_round_to(TG_F16, w);
      if (x->f == NO_MAXIMUM) w = (double)(float)w;
      l += w;
      for (int64_t e = 0; e < E; e++)
        if (x->f == UNSEEN_TIMES_0 || sees(x, p, key)) o[e] += w * tg_number_get(type_of(d->v), c->v, (size_t)(v + e));
    }
    m = most;
  }
  for (int64_t e = 0; e < E; e++) o[e] = l == 0 && x->f != NO_KEY_IS_NAN ? 0 : o[e] / l;
  *lse = l == 0 ? x->f == NO_KEY_LSE ? 0 : -INFINITY : (float)((m + log2(l)) * (d->base2 != (x->f == LSE_BASE) ? 1 : 0.6931471805599453));
}

static double truncated(tg_type t, double v) {
  double r = tg_round_to(t, v), next = tg_round_to(t, r * (1 - ldexp(1, 1 - tg_significand(t))));
  return fabs(r) > fabs(v) ? next : r;
}

static tg_status candidate(void *user, const tg_attention_call *c, char *message, size_t n) {
  const planted *x = user;
  const tg_attention_desc *d = x->d;
  int64_t E = d->value_head ? d->value_head : d->head;
  double o[64];
  tg_type t = type_of(d->o);
  (void)message, (void)n;
  if (x->f == NOTHING) return TG_OK;
  for (int64_t b = 0; b < c->batch; b++) {
    int64_t from = x->f == FIRST_SEQUENCE ? 0 : b;
    place p = {.b = from, .c = c, .queries = c->query_starts ? c->query_starts[b + 1] - c->query_starts[b] : c->queries, .keys = c->key_starts ? c->key_starts[b + 1] - c->key_starts[b] : c->keys};
    if (c->key_lengths && x->f != LENGTH_IGNORED) p.keys = c->key_lengths[b];
    for (p.h = 0; p.h < d->heads; p.h++)
      for (p.i = 0, p.kv = x->f == HEADS_DEALT ? p.h % d->kv_heads : p.h / (d->heads / d->kv_heads); p.i < p.queries - (x->f == LAST_QUERY && p.queries > 1); p.i++) {
        int64_t to = at(c->o_strides, d->heads, c->queries, E, c->query_starts, b, p.h, p.i);
        if (x->f == DENSE_O && !c->query_starts) to = ((b * d->heads + p.h) * c->queries + p.i) * E;
        float lse;
        row(x, &p, o, &lse);
        for (int64_t e = 0; e < E; e++) tg_number_put(t, c->o, (size_t)(to + e), x->f == TRUNCATED ? truncated(t, o[e]) : tg_round_to(t, o[e]));
        if (x->f == BETWEEN_ROWS && (p.i + 1 < p.queries || p.h + 1 < d->heads) && c->o_strides[2] > E) tg_number_put(t, c->o, (size_t)(to + E), 1);
        if (x->f == BEHIND_O && b == 0 && p.h == 0 && p.i == 0) ((char *)c->o)[-1] ^= 1;
        if (x->f == WRITES_K && p.keys) ((char *)(uintptr_t)c->k)[0] ^= 1;
        if (c->lse && x->f != LSE_NOT_WRITTEN) c->lse[c->query_starts ? p.h * c->query_starts[c->batch] + c->query_starts[b] + p.i : (b * d->heads + p.h) * c->queries + p.i] = lse;
      }
  }
  return TG_OK;
}

/* ---- what must be caught, and what must not ---- */

static const float one = 1;
#define EXACTLY .base2 = 1, .scale = &one, .lse = 1
static const tg_attention_desc descs[] = {
  {.head = 16, .heads = 4, .kv_heads = 2, .queries = {0, 200}, .keys = {0, 200}, .causal = TG_CAUSAL_BOTTOM_RIGHT, EXACTLY},
  {.head = 9, .value_head = 7, .heads = 4, .kv_heads = 2, .queries = {0, 200}, .keys = {0, 200}, .window = 11, .o = TG_BF16, EXACTLY},
  {.head = 24, .heads = 4, .kv_heads = 2, .queries = {0, 200}, .keys = {0, 200}, .causal = TG_CAUSAL_TOP_LEFT, .window = 20, .lse = 1},
  {.v = TG_F16, .head = 65, .value_head = 16, .heads = 1, .kv_heads = 1, .queries = {0, 200}, .keys = {0, 200}, EXACTLY},
};

#define EXACT TG_ATTENTION_EXACT
#define RANDOM TG_ATTENTION_RANDOM
#define SPECIAL TG_ATTENTION_SPECIAL
static const struct { fault f; const char *name; int desc; tg_attention_kind kind; } faults[] = {
  {CAUSAL_LATE, "a causal mask lets one key too many through", 0, EXACT},
  {CAUSAL_LATE, "the same", 2, RANDOM},
  {CAUSAL_EARLY, "a causal mask hides the own key", 0, EXACT},
  {CAUSAL_EARLY, "the same", 0, TG_ATTENTION_UNIFORM},
  {WINDOW_WIDE, "a window is one key too wide", 1, EXACT},
  {WINDOW_NARROW, "a window is one key too narrow", 1, EXACT},
  {WINDOW_NARROW, "the same", 2, RANDOM},
  {TAIL_TWICE, "the last key counts twice", 1, EXACT},
  {TAIL_TWICE, "the same", 1, TG_ATTENTION_UNIFORM},
  {LAST_DROPPED, "the last key is left out", 0, EXACT},
  {FIRST_DROPPED, "the first key is left out", 0, EXACT},
  {RESCALE_O, "the result is not rescaled", 0, EXACT},
  {RESCALE_O, "the same", 0, TG_ATTENTION_DOMINANT},
  {RESCALE_L, "the sum of the weights is not rescaled", 0, EXACT},
  {NO_MAXIMUM, "weights are taken without the largest score", 0, TG_ATTENTION_DOMINANT},
  {BLOCK_MAXIMUM, "the largest score of a block is taken for that of all", 0, TG_ATTENTION_DOMINANT},
  {UNSEEN_TIMES_0, "V of keys that are not seen is multiplied by 0", 1, EXACT},
  {UNSEEN_TIMES_0, "the same", 2, SPECIAL},
  {LENGTH_IGNORED, "key_lengths are ignored", 1, EXACT},
  {NO_KEY_IS_NAN, "a query without a key is 0 / 0", 0, EXACT},
  {NO_KEY_LSE, "LSE without a key is 0", 0, EXACT},
  {LSE_BASE, "LSE is to the other base", 0, EXACT},
  {LSE_BASE, "the same", 2, RANDOM},
  {LSE_NOT_WRITTEN, "LSE is not written", 1, EXACT},
  {HEADS_DEALT, "heads share K and V in turns", 0, EXACT},
  {DENSE_ROWS, "rows of K are taken to be dense", 0, EXACT},
  {DENSE_O, "rows of O are taken to be dense", 0, EXACT},
  {BETWEEN_ROWS, "writes between rows of O", 0, EXACT},
  {BEHIND_O, "writes before O", 1, EXACT},
  {WRITES_K, "writes to K", 0, EXACT},
  {LAST_ELEMENT, "the last element of a head is left out", 1, EXACT},
  {TRUNCATED, "O is rounded towards zero", 1, EXACT},
  {COARSE_K, "K is rounded to bf16", 2, RANDOM},
  {COARSE_EXP, "weights are rounded to f16", 2, RANDOM},
  {COARSE_SCORE, "scores are rounded to 20 bits, within the bound", 2, RANDOM},
  {NAN_LOST, "a NaN score counts as none", 2, SPECIAL},
  {INFINITY_CUT, "an infinite score is cut to the largest number", 2, SPECIAL},
  {FIRST_SEQUENCE, "all sequences have the operands of the first", 0, EXACT},
  {NOTHING, "computes nothing", 1, EXACT},
  {LAST_QUERY, "the last query is left out", 0, EXACT},
};

/* Does the check alone catch it, at one of several sizes and layouts? */
static bool caught(tg_context *c, int desc, tg_attention_kind kind, fault f, tg_check_failure *failure) {
  static const int64_t sizes[][2] = {{40, 50}, {30, 7}, {1, 70}, {64, 33}};
  tg_attention_checks *g = NULL;
  planted x = {&descs[desc], f};
  bool found = false;
  CHECK(tg_attention_checks_open(c, &descs[desc], &g) == TG_OK, "%s", tg_error_message(c));
  for (uint64_t way = 0; g && !found && way < 2 * 4 * TG_ATTENTION_LIES; way++) {
    tg_attention_case w = {.kind = kind, .batch = 1 + (int64_t)way % 3, .queries = sizes[way % 4][0], .keys = sizes[way % 4][1], .lie = (tg_attention_lie)(way / 4 % TG_ATTENTION_LIES), .lengths = way % 3 == 1, .front = way % 2, .seed = 77 + way};
    tg_status s = tg_attention_check_one(g, candidate, &x, &w, failure);
    CHECK(s == TG_OK || s == TG_EINVAL, "%s: %s", tg_status_name(s), failure->text);
    found = s != TG_OK;
  }
  tg_attention_checks_close(g);
  return found;
}

/* A candidate as good as the plain loop, which adds in the other order, is never called worse, although of rows whose
 * scores lie far apart a few have most of the error, which of the two is at times nearer by chance. */
static void as_good(tg_context *c) {
  enum { OBJECTS = 60, CALLS = 6 };
  planted x = {&descs[3], BACKWARDS};
  tg_check_failure f;
  for (uint64_t n = 0; n < OBJECTS; n++) {
    tg_attention_checks *g = NULL;
    CHECK(tg_attention_checks_open(c, x.d, &g) == TG_OK, "%s", tg_error_message(c));
    for (uint64_t way = 0; g && way < CALLS; way++) {
      tg_attention_case w = {.kind = RANDOM, .batch = 1, .queries = 70, .keys = 5 + 20 * (int64_t)(way % 3), .seed = 1000 * n + way};
      CHECK(tg_attention_check_one(g, candidate, &x, &w, &f) == TG_OK, "as good, and refused: %s", f.text);
    }
    tg_attention_checks_close(g);
  }
}

/* ---- gradients: those of a plan, and the same with a fault ---- */

typedef enum spoil { RIGHT, DQ_SCALED, DK_SCALED, DV_SCALED, NO_DELTA, LAST_KEY_LOST, BETWEEN_KEYS, WRITES_DO, SPOILS } spoil;
static const char *const spoils[SPOILS] = {"nothing", "dQ is off by a 1024th", "dK is off by a 1024th", "dV is off by a 1024th", "delta is left out", "dK of the last key is left out", "writes between rows of dK", "writes to dO"};
typedef struct { tg_attention_planned planned; const tg_attention_desc *d; spoil by; } spoiling;

static void scale_all(tg_type t, void *x, int64_t n) {
  for (int64_t i = 0; i < n; i++) tg_number_put(t, x, (size_t)i, tg_number_get(t, x, (size_t)i) * (1 + 0x1p-10));
}

/* Faults are planted into dense operands, and one into rows with gaps. */
static tg_status spoiled(void *user, const tg_attention_call *given, char *message, size_t n) {
  spoiling *x = user;
  const tg_attention_desc *d = x->d;
  tg_attention_call c = *given;
  int64_t E = d->value_head ? d->value_head : d->head, keys = c.batch * d->kv_heads * c.keys;
  void *zeros = calloc((size_t)(c.batch * d->heads * c.queries * E), sizeof(double));
  if (x->by == NO_DELTA) c.o = zeros;
  tg_status s = tg_attention_check_plan(&x->planned, &c, message, n);
  free(zeros);
  if (s != TG_OK) return s;
  if (x->by == DQ_SCALED) scale_all(type_of(d->q), c.d_q, c.batch * d->heads * c.queries * d->head);
  if (x->by == DK_SCALED) scale_all(type_of(d->k), c.d_k, keys * d->head);
  if (x->by == DV_SCALED) scale_all(type_of(d->v), c.d_v, keys * E);
  for (int64_t e = 0; e < d->head && x->by == LAST_KEY_LOST; e++) tg_number_put(type_of(d->k), c.d_k, (size_t)((keys - 1) * d->head + e), 0);
  if (x->by == BETWEEN_KEYS) tg_number_put(type_of(d->k), c.d_k, (size_t)d->head, 1);
  if (x->by == WRITES_DO) ((char *)(uintptr_t)c.d_o)[0] ^= 1;
  return TG_OK;
}

static const tg_attention_desc gradients[] = {
  {.head = 16, .heads = 4, .kv_heads = 2, .queries = {0, 200}, .keys = {0, 200}, .backward = 1},
  {.head = 24, .heads = 2, .kv_heads = 1, .queries = {0, 70}, .keys = {0, 700}, .causal = TG_CAUSAL_BOTTOM_RIGHT, .mask = TG_F32, .mask_per = TG_PER_QUERY | TG_PER_KEY, .backward = 1},
  {.q = TG_F16, .k = TG_BF16, .o = TG_F32, .head = 9, .value_head = 7, .heads = 4, .kv_heads = 2, .queries = {0, 200}, .keys = {0, 200}, .window = 11, .soft_cap = 2, .backward = 1},
  {.head = 16, .heads = 2, .kv_heads = 2, .queries = {0, 200}, .keys = {0, 200}, .base2 = 1, .causal = TG_CAUSAL_TOP_LEFT, .score_mod = "score + bias * score * 0.25f", .mask_mod = "at_q != at_k",
   .arg = {{"bias", TG_F16, TG_PER_KEY}, {"at_q", TG_I32, TG_PER_QUERY}, {"at_k", TG_I32, TG_PER_KEY}}, .backward = 1},
  {.head = 20, .heads = 2, .kv_heads = 2, .queries = {0, 200}, .keys = {0, 200}, .alibi = 1, .sinks = 1, .dropout = 0.25f, .mask = TG_BOOL, .mask_per = TG_PER_KEY, .backward = 1},
};

static void check_gradients(tg_context *c, const tg_attention_desc *d, bool faults_too) {
  static const int64_t sizes[][2] = {{40, 50}, {30, 7}, {1, 70}, {64, 33}, {70, 600}, {3, 0}};
  tg_attention_checks *g = NULL;
  tg_attention *plan = NULL;
  tg_check_failure f;
  CHECK(tg_attention_plan(c, d, &plan) == TG_OK && tg_attention_checks_open(c, d, &g) == TG_OK, "%s", tg_error_message(c));
  if (!plan || !g) return;
  spoiling x = {{.context = c, .plan = plan}, d, RIGHT};
  for (uint64_t way = 0; way < 6 * TG_ATTENTION_LIES; way++) {
    tg_attention_case w = {.kind = RANDOM, .batch = 1 + (int64_t)way % 3, .queries = sizes[way % 6][0], .keys = sizes[way % 6][1], .lie = (tg_attention_lie)(way / 6 % TG_ATTENTION_LIES), .lengths = way % 3 == 1, .front = way % 2, .seed = 177 + way};
    if (w.keys > d->keys.hi) continue;
    CHECK(tg_attention_check_one(g, spoiled, &x, &w, &f) == TG_OK, "right, and refused: %s", f.text);
  }
  for (x.by = RIGHT + 1; x.by < SPOILS && faults_too; x.by++) {
    const tg_attention_case w = {.kind = RANDOM, .batch = 2, .queries = 40, .keys = 50, .lie = x.by == BETWEEN_KEYS ? TG_ATTENTION_GAPS : TG_ATTENTION_DENSE, .seed = 5};
    CHECK(tg_attention_check_one(g, spoiled, &x, &w, &f) == TG_EINVAL, "%s: not caught", spoils[x.by]);
  }
  tg_attention_checks_close(g);
  tg_attention_free(plan);
}

int main(void) {
  tg_context *c = NULL;
  tg_check_failure f;
  CHECK(tg_context_create(&(tg_context_options){.target = test_target()}, &c) == TG_OK, "a context");
  for (int d = 0; d < 3; d++)
    for (int kind = 0; kind < TG_ATTENTION_KINDS; kind++)
      if (tg_attention_check_applies(&descs[d], (tg_attention_kind)kind)) CHECK(!caught(c, d, (tg_attention_kind)kind, NONE, &f), "right, and refused: %s", f.text);
  as_good(c);
  for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) CHECK(caught(c, faults[i].desc, faults[i].kind, faults[i].f, &f), "%s: not caught by '%s'", faults[i].name, tg_attention_kind_name(faults[i].kind));
  CHECK(caught(c, 0, EXACT, LAST_QUERY, &f) && strstr(f.text, "check 'exact', batch") && strstr(f.text, "head 0") && f.row >= 0, "%s", f.text);
  for (size_t i = 0; i < TG_COUNT(gradients); i++) check_gradients(c, &gradients[i], i == 0);
  CHECK(!tg_attention_check_applies(&gradients[0], EXACT) && !tg_attention_check_applies(&gradients[0], SPECIAL), "gradients have checks that are not theirs");
  tg_context_free(c);
  return TEST_END();
}
