/* SPDX-License-Identifier: MIT
 * Runs a call of a plan on a device: one kernel for all sequences and heads is put on the queue, for sequences of
 * different lengths one for each; before it, what appends K and V. */
#include "attention/call.h"
#include "target/matrix.h"

typedef tg_attention_work work;

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
  if (apart && p->backward)
    return wrong(a, "tg_attention_call: on a device gradients are of sequences of one length");
  if (p->lse && !c->lse)
    return wrong(a, "tg_attention_call.lse is NULL: on a device a plan with LSE writes it");
  if (c->blocks) return wrong(a, "tg_attention_call.blocks: there are none on a device");
  if (p->backward && !r->queries && r->keys)
    return wrong(a, "tg_attention_call.queries = 0: on a device gradients are of a query at least");
  for (int64_t b = 0; b < (apart ? r->batch : 1); b++) {
    tg_attention_sequence s = tg_attention_sequence_of(r, b);
    if (s.queries && !s.keys)
      return wrong(a, "tg_attention_call: sequence %lld has no keys, as it must on a device", (long long)b);
  }
  return TG_OK;
}

/* Puts the kernels that append K, and V. */
static void put_appended(const work *r, void *const *all, const int64_t *values) {
  void *operand[ATTENTION_OPERANDS];
  int64_t value[ATTENTION_VALUES];
  memcpy(operand, all, sizeof operand), memcpy(value, values, sizeof value);
  if (r->of[ATTENTION_NEW].bytes) tg_kit_launch_of(&r->exec, &r->a->put[0], operand, value, NULL);
  const tg_kit_tensor *v = &r->of[ATTENTION_V], *v_new = &r->of[ATTENTION_V_NEW];
  operand[ATTENTION_K] = all[ATTENTION_V], operand[ATTENTION_NEW] = all[ATTENTION_V_NEW];
  value[ATTENTION_K_SEQUENCE] = v->step[0], value[ATTENTION_K_HEAD] = v->step[1], value[ATTENTION_LDK] = v->step[2];
  value[ATTENTION_NEW_SEQUENCE] = v_new->step[0], value[ATTENTION_NEW_HEAD] = v_new->step[1];
  value[ATTENTION_LDNEW] = v_new->step[2];
  if (v_new->bytes) tg_kit_launch_of(&r->exec, &r->a->put[1], operand, value, NULL);
}

int64_t tg_attention_parts_of_grid(const tg_attention *a, const tg_attention_problem *q, int64_t batch, int64_t queries,
                                   int64_t keys, int64_t *of_part) {
  const tg_target *t = a->plan.device->target;
  *of_part = keys;
  if (!q->matrix || q->backward || tg_attention_is_masked(q)) return 1;
  int64_t heads = q->row_heads > 1 ? q->row_heads : 1, rows = q->warps * tg_matrix_find(q->matrix)->m / heads,
          groups = batch * (a->heads / heads) * tg_attention_rounded_up(queries, rows),
          slots = (int64_t)t->threads * q->groups_of_core,
          most = tg_attention_smaller(ATTENTION_MOST_PARTS, tg_attention_rounded_up(keys, ATTENTION_LEAST)),
          parts = groups ? tg_attention_smaller(slots / groups, most) : 1;
  if (parts < 2) return 1;
  /* in cycles: what a core reads of a workgroup's keys, one behind another where cores are fewer */
  double cores = t->threads, busy = tg_attention_smaller(groups, t->threads),
         bytes = (double)(q->head + q->value_head) * (double)tg_type_bytes(q->k) * (double)keys * (double)groups,
         all = t->core_bytes ? bytes / t->core_bytes : 0, launch = (double)t->launch_ns * t->clock / 1000;
  if (all / busy < all / cores + launch) return 1;
  *of_part = tg_attention_rounded_up(tg_attention_rounded_up(keys, parts), q->keys_of_block) * q->keys_of_block;
  return tg_attention_rounded_up(keys, *of_part);
}

/* Puts the kernels for sequences `first` to `first + n - 1`, which have the same numbers of queries and keys. */
static void put_sequences(const work *r, int64_t first, int64_t n) {
  const tg_attention *a = r->a;
  tg_attention_sequence s = tg_attention_sequence_of(r, first);
  void *operand[ATTENTION_OPERANDS] = {0};
  int64_t value[ATTENTION_VALUES] = {[ATTENTION_SEQUENCES] = n};
  if (!s.queries || !n) return;
  tg_attention_gather(r, &s, 0, 0, 0, operand, value);
  value[ATTENTION_MASK_M] = tg_attention_larger(1, r->queries), value[ATTENTION_MASK_N] = tg_attention_larger(1,
      r->keys);
  value[ATTENTION_LSE_N] = tg_attention_larger(1, r->call->query_starts ? r->total : r->queries);
  value[ATTENTION_FIRST] = first;
  if (a->append) put_appended(r, operand, value);
  const tg_kit_part *part = tg_kit_part_for(a->part, a->parts_n, &s.queries, 1);
  const tg_attention_problem *q = &a->grid[part - a->part];
  value[ATTENTION_PARTS] = part->kernel[ATTENTION_PARTIAL].kernel && !q->backward
                               ? tg_attention_parts_of_grid(a, q, n, s.queries, s.keys, &value[ATTENTION_PART_KEYS])
                               : 1;
  if (value[ATTENTION_PARTS] > 1) {
    tg_kit_launch_of(&r->exec, &part->kernel[ATTENTION_PARTIAL], operand, value, NULL);
    return;
  }
  for (uint32_t k = 0; k <= a->problem.backward; k++)
    tg_kit_launch_of(&r->exec, &part->kernel[k], operand, value, NULL);
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
  if (!apart) put_sequences(r, 0, r->batch);
  for (int64_t b = 0; apart && b < r->batch; b++) put_sequences(r, b, 1);
  return tg_kit_puts_end(&a->plan, &puts);
}
