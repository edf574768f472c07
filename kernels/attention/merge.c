/* SPDX-License-Identifier: MIT
 * Merges two results of calls, over disjoint sets of keys. */
#include "attention/call.h"

/* The operands of a merge: `rows` rows each. */
static tg_status read_merged(const tg_attention *a, const tg_attention_merge_call *c, int64_t rows) {
  static const char call[] = "tg_attention_merge_call";
  enum { WRITTEN = 4, ALL = 6 };
  const struct { const char *name; const void *p; bool lse; } given[ALL] = {
      {"first", c->first, false},          {"second", c->second, false}, {"first_lse", c->first_lse, true},
      {"second_lse", c->second_lse, true}, {"o", c->o, false},           {"lse", c->lse, true}};
  tg_kit_tensor of[ALL];
  tg_context *context = a->plan.context;
  tg_status s = TG_OK;
  for (uint32_t i = 0; i < ALL && s == TG_OK; i++) {
    int64_t width = given[i].lse ? 1 : a->problem.value_head;
    uint32_t size = (uint32_t)tg_type_bytes(given[i].lse ? TG_F32 : a->problem.o);
    of[i] = tg_kit_matrix(given[i].name, &(tg_kit_layout){{width, 1}, size}, rows, width);
    s = tg_kit_place(context, call, &of[i], given[i].p);
  }
  for (uint32_t w = WRITTEN; w < ALL && s == TG_OK; w++)
    for (uint32_t i = 0; i < w && s == TG_OK; i++) s = tg_kit_check_overlap(context, call, &of[w], &of[i]);
  return s;
}

tg_status tg_attention_merge_sized(const tg_attention *a, const tg_attention_merge_call *given, size_t call_bytes) {
  tg_attention_merge_call copy;
  if (!a) return TG_EINVAL;
  if (!given) return wrong(a, "no call is given");
  if (TG_WHOLE(a->plan.context, tg_attention_merge_call, &copy, &given, call_bytes) != TG_OK) return TG_EINVAL;
  const tg_attention_merge_call *c = given;
  if (a->plan.device) return wrong(a, "tg_attention_merge: a plan on a device does not merge");
  if (!a->join.kernel) return wrong(a, "tg_attention_merge: the plan has no LSE: tg_attention_desc.lse = 1");
  if (a->problem.sinks) return wrong(a, "tg_attention_merge: both results have the sinks in them");
  int64_t batch = c->batch ? c->batch : 1, queries, rows;
  if (!tg_kit_read_size(a->queries, c->queries, &queries) || batch < 0 ||
      __builtin_mul_overflow(batch, a->heads, &rows) || __builtin_mul_overflow(rows, queries, &rows))
    return wrong(a, "tg_attention_merge_call: %lld queries of %lld sequences, but the plan is for %lld..%lld queries",
                 (long long)c->queries, (long long)batch, (long long)a->queries.lo, (long long)a->queries.hi);
  if (!rows) return TG_OK;
  tg_status s = read_merged(a, c, rows);
  if (s != TG_OK) return s;
  int64_t value[ATTENTION_VALUES] = {[ATTENTION_ROWS] = rows};
  void *operand[ATTENTION_OPERANDS] = {[ATTENTION_Q] = (void *)(uintptr_t)c->first,
                                       [ATTENTION_M] = (void *)(uintptr_t)c->first_lse,
                                       [ATTENTION_OTHER] = (void *)(uintptr_t)c->second,
                                       [ATTENTION_OTHER_LSE] = (void *)(uintptr_t)c->second_lse,
                                       [ATTENTION_O] = c->o,
                                       [ATTENTION_LSE] = c->lse};
  tg_kit_exec exec = tg_kit_exec_of(&a->plan, NULL, 1);
  _Alignas(TG_KIT_LINE) char workspace[4096];
  tg_kit_launch_of(&exec, &a->join, operand, value, workspace);
  return TG_OK;
}
