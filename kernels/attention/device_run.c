/* SPDX-License-Identifier: MIT
 * Runs a call of a plan on a device: one kernel for all sequences and heads is put on the queue, for sequences of
 * different lengths one for each; before it, what appends K and V. */
#include "attention/call.h"

typedef tg_attention_work work;

#define larger tg_attention_larger
#define rounded_up tg_attention_rounded_up

tg_status tg_attention_check_on_device(const work *r) {
  const tg_attention *a = r->a;
  const tg_attention_problem *p = &a->problem;
  const tg_attention_call *c = r->call;
  bool strides = false, apart = c->query_starts || c->key_starts || c->key_lengths;
  for (uint32_t k = 0; k < 4; k++) {
    strides |= c->mask_strides[k] != 0 || c->block_mask_strides[k] != 0;
    for (uint32_t i = 0; i < p->arguments_n; i++) strides |= c->arg_strides[i][k] != 0;
  }
  if (strides) return wrong(a, "tg_attention_call: masks and arguments on a device are dense");
  if (apart && (p->mask || p->block_rows || p->arguments_n || p->lse || p->backward))
    return wrong(a, "tg_attention_call: on a device packed sequences and key_lengths go without masks, arguments, "
                    "LSE and gradients");
  if (p->lse && !c->lse)
    return wrong(a, "tg_attention_call.lse is NULL: on a device a plan with LSE writes it");
  if (c->blocks) return wrong(a, "tg_attention_call.blocks: there are none on a device");
  if (p->backward && !r->queries && r->keys)
    return wrong(a, "tg_attention_call.queries = 0: on a device gradients are of a query at least");
  return TG_OK;
}

/* ---- what a kernel gets ---- */

typedef struct { void *operand[ATTENTION_OPERANDS]; int64_t value[ATTENTION_VALUES]; } given;

/* A tensor, from sequence `first` and, of packed ones, token `from` on. */
static void give(const work *r, uint32_t t, int64_t first, const int32_t *starts, given *g, uint32_t operand,
                 uint32_t sequence, uint32_t head, uint32_t row) {
  const tg_kit_tensor *x = &r->of[t];
  g->operand[operand] = tg_attention_element(x, starts ? 0 : first, 0, starts ? starts[first] : 0, 0);
  g->value[sequence] = x->step[0], g->value[head] = x->step[1], g->value[row] = larger(1, x->step[2]);
}

static void give_tensors(const work *r, int64_t first, given *g) {
  const tg_attention_problem *p = &r->a->problem;
  const tg_attention_call *c = r->call;
  for (uint32_t t = OF_Q; t <= OF_O; t++) {
    bool keys = t == OF_K || t == OF_V;
    give(r, t, p->page && keys ? 0 : first, keys ? c->key_starts : c->query_starts, g, t, ATTENTION_FAR + 2 * t,
         ATTENTION_FAR + 2 * t + 1, ATTENTION_LDQ + t);
  }
  for (uint32_t t = 0; t < 2 && p->kv_bits; t++)
    give(r, OF_K_SCALE + t, p->page ? 0 : first, c->key_starts, g, ATTENTION_K_SCALE + t, ATTENTION_KS_PAGE + t,
         ATTENTION_KS_HEAD + t, ATTENTION_LDKS + t);
  for (uint32_t t = 0; t < 4 && p->backward; t++)
    give(r, OF_DO + t, first, NULL, g, ATTENTION_DO + t, ATTENTION_DO_SEQUENCE + 2 * t, ATTENTION_DO_HEAD + 2 * t,
         ATTENTION_LDDO + t);
}

/* What only some plans have. */
static void give_variants(const work *r, int64_t first, given *g) {
  const tg_attention *a = r->a;
  const tg_attention_problem *p = &a->problem;
  const tg_attention_call *c = r->call;
  int64_t *value = g->value, queries = value[ATTENTION_ROWS], keys = value[ATTENTION_KEYS];
  void **operand = g->operand;
  operand[ATTENTION_SINK] = (void *)(uintptr_t)c->sinks;
  operand[ATTENTION_COS] = (void *)(uintptr_t)c->cos, operand[ATTENTION_SIN] = (void *)(uintptr_t)c->sin;
  value[ATTENTION_POSITIONS] = larger(1, c->positions);
  value[ATTENTION_TURN_Q] = a->causal == TG_CAUSAL_TOP_LEFT ? 0 : larger(0, keys - queries);
  if (p->page) {
    operand[ATTENTION_TABLE] = tg_kit_behind((void *)(uintptr_t)c->page_table,
                                             first * r->table_step * (int64_t)sizeof *c->page_table);
    value[ATTENTION_PAGES] = larger(1, c->pages), value[ATTENTION_TABLE_STEP] = r->table_step;
    value[ATTENTION_TABLE_N] = larger(1, rounded_up(keys, p->page));
  }
  if (p->block_rows) {
    operand[ATTENTION_BLOCKS] = (void *)r->of[OF_BLOCKS].at;
    value[ATTENTION_BLOCKS_M] = r->of[OF_BLOCKS].extent[2], value[ATTENTION_BLOCKS_N] = r->of[OF_BLOCKS].extent[3];
  }
  value[ATTENTION_STREAM] = first * a->heads;
  value[ATTENTION_SEED_LOW] = r->philox[0], value[ATTENTION_SEED_HIGH] = r->philox[1];
  value[ATTENTION_OFFSET] = r->philox[2];
}

/* ---- kernels ---- */

static void put_appended(const work *r, int64_t first, const given *all) {
  for (uint32_t t = 0; t < 2; t++) {
    given g = *all;
    if (!r->of[OF_K_NEW + t].bytes) continue;
    give(r, OF_K_NEW + t, first, r->call->query_starts, &g, ATTENTION_NEW, ATTENTION_NEW_SEQUENCE, ATTENTION_NEW_HEAD,
         ATTENTION_LDNEW);
    g.operand[ATTENTION_K] = all->operand[ATTENTION_K + t], g.value[ATTENTION_LDK] = all->value[ATTENTION_LDK + t];
    g.value[ATTENTION_K_SEQUENCE] = all->value[ATTENTION_K_SEQUENCE + 2 * t];
    g.value[ATTENTION_K_HEAD] = all->value[ATTENTION_K_HEAD + 2 * t];
    tg_kit_launch_of(&r->exec, &r->a->put[t], g.operand, g.value, NULL);
  }
}

/* Puts the kernels for sequences `first` to `first + n - 1`, which have the same numbers of queries and keys. */
static tg_status put_sequences(const work *r, int64_t first, int64_t n) {
  const tg_attention *a = r->a;
  const tg_attention_call *c = r->call;
  const int32_t *qs = c->query_starts, *ks = c->key_starts;
  int64_t queries = qs ? qs[first + 1] - qs[first] : r->queries,
          keys = c->key_lengths ? c->key_lengths[first] : ks ? ks[first + 1] - ks[first] : r->keys;
  given g = {{NULL}, {0}};
  if (!queries || !n) return TG_OK;
  if (!keys) return wrong(a, "tg_attention_call: sequence %lld has no keys, as it must on a device", (long long)first);
  give_tensors(r, first, &g);
  g.value[ATTENTION_ROWS] = queries, g.value[ATTENTION_KEYS] = keys;
  g.value[ATTENTION_AT] = a->causal == TG_CAUSAL_BOTTOM_RIGHT ? keys - queries : 0;
  g.value[ATTENTION_WINDOW] = a->window;
  g.value[ATTENTION_SEQUENCES] = n, g.value[ATTENTION_HEADS] = a->heads;
  g.operand[ATTENTION_SCALE] = a->constants, g.operand[ATTENTION_CAP] = (float *)a->constants + 1;
  g.operand[ATTENTION_CHANGE] = (float *)a->constants + 2;
  g.operand[ATTENTION_SLOPE] = (void *)(uintptr_t)c->slopes, g.operand[ATTENTION_LSE] = c->lse;
  for (uint32_t i = 0; i <= a->problem.arguments_n; i++)
    g.operand[ATTENTION_MASK + i] = (void *)(uintptr_t)(i ? c->arg[i - 1] : c->mask);
  give_variants(r, first, &g);
  if (a->append) put_appended(r, first, &g);
  tg_kit_launch_of(&r->exec, &a->part[0].kernel[0], g.operand, g.value, NULL);
  if (a->problem.backward) tg_kit_launch_of(&r->exec, &a->part[0].kernel[1], g.operand, g.value, NULL);
  return TG_OK;
}

tg_status tg_attention_run_on_device(work *r) {
  const tg_attention *a = r->a;
  const tg_attention_call *c = r->call;
  bool apart = c->query_starts || c->key_starts || c->key_lengths;
  tg_kit_puts puts;
  tg_status s = tg_attention_check_on_device(r);
  if (s == TG_OK)
    s = tg_kit_puts_open(&a->plan, "tg_attention_call", c->queue, c->workspace, c->workspace_bytes, &puts);
  if (s != TG_OK) return s;
  r->exec = (tg_kit_exec){.threads = 1, .puts = &puts};
  if (!apart) s = put_sequences(r, 0, r->batch);
  for (int64_t b = 0; apart && b < r->batch && s == TG_OK; b++) s = put_sequences(r, b, 1);
  tg_status ended = tg_kit_puts_end(&a->plan, &puts);
  return s == TG_OK ? ended : s;
}
