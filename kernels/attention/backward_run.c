/* SPDX-License-Identifier: MIT
 * Runs a call for gradients. A piece of work is a part of the keys of one head of K and V: all queries of all heads
 * that share it go over it, one block of rows after the other, so its dK and dV are sums in one order. dQ of several
 * parts is kept apart, in f32, and summed up in a second round. How many parts there are depends on sizes and heads
 * alone, so the bits depend neither on threads nor on their order. */
#include "attention/call.h"

typedef tg_attention_work work;
typedef tg_attention_sequence sequence;

#define smaller tg_attention_smaller
#define larger tg_attention_larger
#define rounded_up tg_attention_rounded_up

enum { SUM_DQ, SUM_DK, SUM_DV };

int64_t tg_attention_backward_parts(int64_t kv_heads, int64_t keys) {
  return larger(1, smaller(rounded_up(ATTENTION_PIECES, kv_heads), rounded_up(keys, ATTENTION_LEAST)));
}

/* ---- what there is to do ---- */

static sequence sequence_of(const work *w, int64_t i) {
  const tg_attention *a = w->a;
  const tg_attention_call *c = w->call;
  const int32_t *qs = c->query_starts, *ks = c->key_starts;
  sequence s = {.index = i,
                .queries = qs ? qs[i + 1] - qs[i] : w->queries,
                .keys = ks ? ks[i + 1] - ks[i] : w->keys,
                .first_query = qs ? qs[i] : 0,
                .first_key = ks ? ks[i] : 0,
                .heads = a->kv_heads,
                .block = a->rows};
  if (c->key_lengths) s.keys = c->key_lengths[i];
  s.rows = s.queries, s.blocks = a->rows ? rounded_up(s.rows, a->rows) : 0;
  s.most_parts = tg_attention_backward_parts(a->kv_heads, s.keys);
  s.part = larger(1, rounded_up(rounded_up(s.keys, s.most_parts), ATTENTION_BLOCK)) * ATTENTION_BLOCK;
  s.parts = larger(1, rounded_up(s.keys, s.part));
  return s;
}

/* Floats of the parts of dQ of a sequence: of each head of Q, block and part. It never falls as keys grow. */
static int64_t floats_of(const work *w, const sequence *s) {
  return s->most_parts > 1 ? w->a->heads * s->most_parts * s->rows * w->a->problem.head : 0;
}

typedef struct areas { size_t sums, own, all, own_bytes; } areas;

/* Behind the threads' parts of the kernels: dQ of parts; then for each thread dK and dV that are not f32. */
static areas count(work *w) {
  const tg_attention *a = w->a;
  const tg_attention_problem *p = &a->problem;
  int64_t floats = 0, longest = 0, width = (p->k == TG_F32 ? 0 : p->head) + (p->v == TG_F32 ? 0 : p->value_head);
  w->runs = w->merges = 0;
  for (int64_t i = 0; i < w->batch; i++) {
    sequence s = sequence_of(w, i);
    floats += floats_of(w, &s);
    w->runs += s.heads * s.parts;
    w->merges += s.parts > 1 ? a->heads * s.blocks : 0;
    longest = larger(longest, smaller(larger(s.part, ATTENTION_LEAST), s.keys));   /* so that it never falls, too */
  }
  size_t n = tg_kit_needed(&a->plan, w->exec.threads, true), own = (size_t)(longest * width) * sizeof(float);
  areas x = {.sums = (n + TG_KIT_LINE - 1) / TG_KIT_LINE * TG_KIT_LINE,
             .own_bytes = (own + TG_KIT_LINE - 1) / TG_KIT_LINE * TG_KIT_LINE};
  x.own = (x.sums + (size_t)floats * sizeof(float) + TG_KIT_LINE - 1) / TG_KIT_LINE * TG_KIT_LINE;
  x.all = x.own + x.own_bytes * w->exec.threads;
  return x;
}

size_t tg_attention_backward_workspace(work *w) { return count(w).all; }

/* ---- pieces ---- */

typedef struct running { work *r; areas at; } running;

/* dK or dV of a part: where its sums of f32 are, and the step from one key to the next. */
typedef struct place { float *at; int64_t step; bool apart; } place;

static place place_of(const work *r, const sequence *s, uint32_t t, int64_t head, int64_t key, float **own, int64_t n) {
  const tg_kit_tensor *x = &r->of[t];
  int64_t width = x->extent[3];
  if (x->size != sizeof(float)) {
    place p = {*own, width, true};
    *own += n * width;
    return p;
  }
  bool packed = r->call->key_starts != NULL;
  return (place){tg_attention_element(x, packed ? 0 : s->index, head, s->first_key + key, 0), x->step[2], false};
}

static void fill_zeros(void *at, int64_t rows, int64_t step_bytes, int64_t bytes) {
  for (int64_t i = 0; i < rows; i++) memset(tg_kit_behind(at, i * step_bytes), 0, (size_t)bytes);
}

/* The gradients of `n` keys from `key` on that no query sees. */
static void zero_keys(const work *r, const sequence *s, uint32_t t, int64_t head, int64_t key, int64_t n) {
  const tg_kit_tensor *x = &r->of[t];
  if (n > 0)
    fill_zeros(tg_attention_element(x, r->call->key_starts ? 0 : s->index, head, s->first_key + key, 0), n,
               x->step[2] * x->size, x->extent[3] * x->size);
}

/* Rounds n sums to the type of the result. */
static void round_keys(const work *r, const sequence *s, uint32_t t, uint32_t sum, const place *from, int64_t head,
                       int64_t key, int64_t n, char *workspace) {
  const tg_kit_tensor *x = &r->of[t];
  int64_t value[ATTENTION_VALUES];
  void *operand[ATTENTION_OPERANDS] = {0};
  if (!from->apart || !n) return;
  operand[ATTENTION_Q] = from->at;
  operand[ATTENTION_DQ] = tg_attention_element(x, r->call->key_starts ? 0 : s->index, head, s->first_key + key, 0);
  value[ATTENTION_ROWS] = n, value[ATTENTION_PARTS] = 1, value[ATTENTION_LDDQ] = x->step[2];
  tg_kit_launch_of(&r->exec, &r->a->sum[sum], operand, value, workspace);
}

/* Where the parts of dQ of a block are, from the sequence's first float on. */
static float *parts_of(const work *r, const sequence *s, float *sums, int64_t head, int64_t block) {
  return sums + (head * s->rows + block * s->block) * s->parts * r->a->problem.head;
}

static void *d_q_of(const work *r, const sequence *s, int64_t head, int64_t query) {
  return tg_attention_element(&r->of[OF_DQ], r->call->query_starts ? 0 : s->index, head, s->first_query + query, 0);
}

static void one_run(const work *r, const sequence *s, int64_t head, int64_t block, int64_t part, const place to[2],
                    float *sums, char *workspace) {
  const tg_attention *a = r->a;
  int64_t value[ATTENTION_VALUES];
  void *operand[ATTENTION_OPERANDS] = {0};
  tg_attention_gather(r, s, head, block, part, operand, value);
  const tg_kit_tensor *o = &r->of[OF_DO];
  int64_t rows = value[ATTENTION_ROWS], query = block * s->block;
  operand[ATTENTION_DO] =
      tg_attention_element(o, r->call->query_starts ? 0 : s->index, head, s->first_query + query, 0);
  operand[ATTENTION_LSE] = tg_attention_lse_at(r, s, head, query, NULL);
  operand[ATTENTION_CHANGE] = (void *)(uintptr_t)&a->change;
  operand[ATTENTION_DK] = to[0].at, operand[ATTENTION_DV] = to[1].at;
  operand[ATTENTION_DQ] = d_q_of(r, s, head, query);
  value[ATTENTION_LDDO] = o->step[2], value[ATTENTION_LDDQ] = r->of[OF_DQ].step[2];
  value[ATTENTION_LDDK] = to[0].step, value[ATTENTION_LDDV] = to[1].step;
  if (s->parts > 1) operand[ATTENTION_DQ] = parts_of(r, s, sums, head, block) + part * rows * a->problem.head;
  tg_kit_launch_of(&r->exec, &a->part[0].kernel[s->parts > 1 ? ATTENTION_PARTIAL : ATTENTION_WHOLE], operand, value,
                   workspace);
}

/* Piece x of a sequence: a part of the keys of a head of K and V. */
static void compute(const work *r, const sequence *s, int64_t x, float *sums, float *own, char *workspace) {
  const tg_attention *a = r->a;
  int64_t head = x % s->heads, part = x / s->heads, key = part * s->part, n = smaller(s->part, s->keys - key),
          group = a->heads / a->kv_heads;
  const int32_t *starts = r->call->key_starts;
  int64_t room = starts ? starts[s->index + 1] - starts[s->index] : r->keys;   /* with keys behind key_lengths */
  const place to[2] = {place_of(r, s, OF_DK, head, key, &own, n), place_of(r, s, OF_DV, head, key, &own, n)};
  for (uint32_t t = 0; t < 2; t++) {
    int64_t width = r->of[OF_DK + t].extent[3];
    if (n > 0) fill_zeros(to[t].at, n, to[t].step * (int64_t)sizeof(float), width * (int64_t)sizeof(float));
    if (part == s->parts - 1) zero_keys(r, s, OF_DK + t, head, s->keys, room - s->keys);
  }
  for (int64_t h = head * group; h < (head + 1) * group; h++)
    for (int64_t block = 0; block < s->blocks; block++) {
      if (n > 0) one_run(r, s, h, block, part, to, sums, workspace);
      else
        fill_zeros(d_q_of(r, s, h, block * s->block), smaller(s->block, s->rows - block * s->block),
                   r->of[OF_DQ].step[2] * r->of[OF_DQ].size, a->problem.head * r->of[OF_DQ].size);
    }
  if (n <= 0) return;
  round_keys(r, s, OF_DK, SUM_DK, &to[0], head, key, n, workspace);
  round_keys(r, s, OF_DV, SUM_DV, &to[1], head, key, n, workspace);
}

/* Sums up the parts of dQ of one block of a head. */
static void sum_parts(const work *r, const sequence *s, int64_t x, float *sums, char *workspace) {
  int64_t value[ATTENTION_VALUES], head = x / s->blocks, block = x % s->blocks;
  void *operand[ATTENTION_OPERANDS] = {0};
  operand[ATTENTION_Q] = parts_of(r, s, sums, head, block);
  operand[ATTENTION_DQ] = d_q_of(r, s, head, block * s->block);
  value[ATTENTION_ROWS] = smaller(s->block, s->rows - block * s->block);
  value[ATTENTION_PARTS] = s->parts, value[ATTENTION_LDDQ] = r->of[OF_DQ].step[2];
  tg_kit_launch_of(&r->exec, &r->a->sum[SUM_DQ], operand, value, workspace);
}

/* ---- threads ---- */

/* The pieces, or the sums, that a thread takes; each one's sequence is found by going on from the last one's. */
static void take(running *x, uint32_t worker, bool summing) {
  work *r = x->r;
  int64_t first = 0, index = 0, before = 0, n = 0;   /* pieces and floats before sequence `index`, and its pieces */
  sequence s = {0};
  char *workspace = tg_kit_own(&r->a->plan, r->workspace, worker);
  float *own = (float *)(void *)(r->workspace + x->at.own + x->at.own_bytes * worker),
        *sums = (float *)(void *)(r->workspace + x->at.sums);
  for (tg_kit_hand hand = {.worker = worker}; tg_kit_deal_next(&r->deal, &hand);) {
    for (;; index++) {
      if (!n) {
        s = sequence_of(r, index);
        n = !summing ? s.heads * s.parts : s.parts > 1 ? r->a->heads * s.blocks : 0;
      }
      if (hand.from < first + n) break;
      first += n, before += floats_of(r, &s), n = 0;
    }
    if (summing) sum_parts(r, &s, hand.from - first, sums + before, workspace);
    else compute(r, &s, hand.from - first, sums + before, own, workspace);
  }
}

static void compute_task(void *arg, int64_t task, uint32_t worker) {
  (void)task;
  take(arg, worker, false);
}

static void sum_task(void *arg, int64_t task, uint32_t worker) {
  (void)task;
  take(arg, worker, true);
}

static void deal_out(running *x, int64_t n, tg_pool_task *task) {
  tg_kit_deal_open(&x->r->deal, n, 1, 1);
  if (n) tg_kit_tasks(&x->r->exec, (uint32_t)smaller(x->r->exec.threads, n), task, x);
}

static void run_all(void *arg, char *workspace) {
  running *x = arg;
  x->r->workspace = workspace;
  deal_out(x, x->r->runs, compute_task);
  deal_out(x, x->r->merges, sum_task);
}

tg_status tg_attention_run_backward(work *r) {
  running x = {r, count(r)};
  return tg_kit_run_in(&r->a->plan, "tg_attention_call", x.at.all, r->call->workspace, r->call->workspace_bytes,
                       r->exec.threads, run_all, &x);
}
