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
  return (place){tg_attention_key_at(r, t, s->index, s->first_key, head, key), x->step[2], false};
}

static void fill_zeros(void *at, int64_t rows, int64_t step_bytes, int64_t bytes) {
  for (int64_t i = 0; i < rows; i++) memset(tg_kit_behind(at, i * step_bytes), 0, (size_t)bytes);
}

/* The gradients of `n` keys from `key` on that no query sees. */
static void zero_keys(const work *r, const sequence *s, uint32_t t, int64_t head, int64_t key, int64_t n) {
  const tg_kit_tensor *x = &r->of[t];
  if (n > 0)
    fill_zeros(tg_attention_key_at(r, t, s->index, s->first_key, head, key), n, x->step[2] * x->size,
               x->extent[3] * x->size);
}

/* Rounds n sums to the type of the result. */
static void round_keys(const work *r, const sequence *s, uint32_t t, uint32_t sum, const place *from, int64_t head,
                       int64_t key, int64_t n, char *workspace) {
  const tg_kit_tensor *x = &r->of[t];
  int64_t value[ATTENTION_VALUES];
  void *operand[ATTENTION_OPERANDS] = {0};
  if (!from->apart || !n) return;
  operand[ATTENTION_Q] = from->at;
  operand[ATTENTION_DQ] = tg_attention_key_at(r, t, s->index, s->first_key, head, key);
  value[ATTENTION_ROWS] = n, value[ATTENTION_PARTS] = 1, value[ATTENTION_LDDQ] = x->step[2];
  tg_kit_launch_of(&r->exec, &r->a->sum[sum], operand, value, workspace);
}

/* Where the parts of dQ of a block are, from the sequence's first float on. */
static float *parts_of(const work *r, const sequence *s, float *sums, int64_t head, int64_t block) {
  return sums + (head * s->rows + block * s->block) * s->parts * r->a->problem.head;
}

static void *d_q_of(const work *r, const sequence *s, int64_t head, int64_t query) {
  int64_t index = r->call->query_starts ? 0 : s->index;
  return tg_attention_element(&r->of[ATTENTION_DQ], index, head, s->first_query + query, 0);
}

static void one_run(const work *r, const sequence *s, int64_t head, int64_t block, int64_t part, const place to[2],
                    float *sums, char *workspace) {
  const tg_attention *a = r->a;
  int64_t value[ATTENTION_VALUES];
  void *operand[ATTENTION_OPERANDS] = {0};
  tg_attention_gather(r, s, head, block, part, operand, value);
  operand[ATTENTION_DK] = to[0].at, operand[ATTENTION_DV] = to[1].at;
  value[ATTENTION_LDDK] = to[0].step, value[ATTENTION_LDDV] = to[1].step;
  if (s->parts > 1)
    operand[ATTENTION_DQ] = parts_of(r, s, sums, head, block) + part * value[ATTENTION_ROWS] * a->problem.head;
  tg_kit_launch_of(&r->exec, &a->part[0].kernel[s->parts > 1 ? ATTENTION_PARTIAL : ATTENTION_WHOLE], operand, value,
                   workspace);
}

void tg_attention_run_backward(const work *r, const sequence *s, int64_t x, float *sums, uint32_t worker,
                               char *workspace) {
  const tg_attention *a = r->a;
  int64_t head = x % s->heads, part = x / s->heads, key = part * s->part, n = smaller(s->part, s->keys - key),
          group = a->heads / a->kv_heads;
  const int32_t *starts = r->call->key_starts;
  float *own = (float *)(void *)(r->workspace + r->area.own + r->area.own_bytes * worker);
  int64_t room = starts ? starts[s->index + 1] - starts[s->index] : r->keys;   /* with keys behind key_lengths */
  const place to[2] = {place_of(r, s, ATTENTION_DK, head, key, &own, n),
                       place_of(r, s, ATTENTION_DV, head, key, &own, n)};
  for (uint32_t t = 0; t < 2; t++) {
    int64_t width = r->of[ATTENTION_DK + t].extent[3];
    if (n > 0) fill_zeros(to[t].at, n, to[t].step * (int64_t)sizeof(float), width * (int64_t)sizeof(float));
    if (part == s->parts - 1) zero_keys(r, s, ATTENTION_DK + t, head, s->keys, room - s->keys);
  }
  for (int64_t h = head * group; h < (head + 1) * group; h++)
    for (int64_t block = 0; block < s->blocks; block++) {
      if (n > 0) one_run(r, s, h, block, part, to, sums, workspace);
      else
        fill_zeros(d_q_of(r, s, h, block * s->block), smaller(s->block, s->rows - block * s->block),
                   r->of[ATTENTION_DQ].step[2] * r->of[ATTENTION_DQ].size, a->problem.head * r->of[ATTENTION_DQ].size);
    }
  if (n <= 0) return;
  round_keys(r, s, ATTENTION_DK, SUM_DK, &to[0], head, key, n, workspace);
  round_keys(r, s, ATTENTION_DV, SUM_DV, &to[1], head, key, n, workspace);
}

void tg_attention_sum_backward(const work *r, const sequence *s, int64_t x, float *sums, uint32_t worker,
                               char *workspace) {
  (void)worker;
  int64_t value[ATTENTION_VALUES], head = x / s->blocks, block = x % s->blocks;
  void *operand[ATTENTION_OPERANDS] = {0};
  operand[ATTENTION_Q] = parts_of(r, s, sums, head, block);
  operand[ATTENTION_DQ] = d_q_of(r, s, head, block * s->block);
  value[ATTENTION_ROWS] = smaller(s->block, s->rows - block * s->block);
  value[ATTENTION_PARTS] = s->parts, value[ATTENTION_LDDQ] = r->of[ATTENTION_DQ].step[2];
  tg_kit_launch_of(&r->exec, &r->a->sum[SUM_DQ], operand, value, workspace);
}
