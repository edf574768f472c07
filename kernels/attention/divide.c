/* SPDX-License-Identifier: MIT
 * Divides the sequences, heads, queries and keys of a call into runs of a kernel, and counts what these need. */
#include "attention/call.h"

#define smaller tg_attention_smaller
#define larger tg_attention_larger
#define rounded_up tg_attention_rounded_up

int64_t tg_attention_most_parts(int64_t heads, int64_t keys) {
  int64_t pieces = rounded_up(ATTENTION_PIECES, heads), least = rounded_up(keys, ATTENTION_SPLIT),
          parts = larger(least, smaller(pieces, rounded_up(keys, ATTENTION_LEAST)));
  return larger(1, smaller(parts, ATTENTION_MOST_PARTS));
}

/* The keys are divided evenly into whole blocks. */
static void divide_keys(tg_attention_sequence *s) {
  s->most_parts = tg_attention_most_parts(s->heads, s->keys);
  s->part = rounded_up(rounded_up(s->keys, s->most_parts), ATTENTION_BLOCK) * ATTENTION_BLOCK;
  s->parts = s->part ? larger(1, rounded_up(s->keys, s->part)) : 1;
}

tg_attention_sequence tg_attention_sequence_of(const tg_attention_work *w, int64_t i) {
  const tg_attention *a = w->a;
  const tg_attention_call *c = w->call;
  const int32_t *qs = c->query_starts, *ks = c->key_starts;
  tg_attention_sequence s = {.index = i,
                             .queries = qs ? qs[i + 1] - qs[i] : w->queries,
                             .keys = ks ? ks[i + 1] - ks[i] : w->keys,
                             .first_query = qs ? qs[i] : 0,
                             .first_key = ks ? ks[i] : 0};
  if (c->key_lengths) s.keys = c->key_lengths[i];
  bool one = s.queries == 1 && a->causal != TG_CAUSAL_TOP_LEFT && !(a->window && a->causal == TG_CAUSAL_NONE);
  /* keys before the window of the only query; with dropout keys count from the first one */
  if (one && a->window && !a->problem.dropout) s.skipped = larger(0, s.keys - a->window);
  if (one) s.keys -= s.skipped;
  s.heads_are_rows = a->heads_are_rows && one && !(qs && c->lse);
  s.heads = s.heads_are_rows ? a->kv_heads : a->heads;
  s.rows = s.heads_are_rows ? a->heads / a->kv_heads : s.queries;
  s.block = a->lists && s.keys < ATTENTION_BLOCK ? smaller(a->rows, ATTENTION_FEW) : a->rows;
  s.blocks = rounded_up(s.rows, s.block);
  s.parts = s.most_parts = 1, s.part = s.keys;
  if (s.rows <= ATTENTION_FEW && a->merge.kernel) divide_keys(&s);
  return s;
}

int64_t tg_attention_sums_of_head(const tg_attention_work *w, const tg_attention_sequence *s) {
  return s->most_parts > 1 ? s->most_parts * s->rows * (w->a->problem.value_head + 2) : 0;
}

tg_attention_areas tg_attention_count(tg_attention_work *w) {
  const tg_attention *a = w->a;
  int64_t floats = 0, longest = 0;
  bool even = !w->call->query_starts && !w->call->key_starts && !w->call->key_lengths;
  w->runs = w->merges = w->tables = 0;
  for (int64_t i = 0; i < w->batch; i++) {
    tg_attention_sequence s = tg_attention_sequence_of(w, i);
    int64_t times = even ? w->batch : 1;
    floats += times * s.heads * tg_attention_sums_of_head(w, &s);
    w->runs += times * s.heads * s.blocks * s.parts;
    w->merges += s.parts > 1 ? times * s.heads : 0;
    longest = larger(longest, s.rows);
    if (even) break;
  }
  size_t n = tg_kit_needed(&a->plan, w->exec.threads, true);
  tg_attention_areas x = {.sums = (n + TG_KIT_LINE - 1) / TG_KIT_LINE * TG_KIT_LINE};
  x.lists = x.all = x.states = x.sums + (size_t)floats * sizeof(float);
  if (!a->lists || longest <= ATTENTION_FEW || !w->keys) return x;
  w->by_sequence = a->by_batch || !even;
  w->tables = (w->by_sequence ? w->batch : 1) * (a->by_head ? a->heads : 1);
  w->state_rows = rounded_up(longest, a->rows), w->state_keys = rounded_up(w->keys, ATTENTION_BLOCK);
  if (!w->call->blocks) x.lists += (size_t)(w->tables * w->state_rows * w->state_keys);
  x.lists = (x.lists + TG_KIT_LINE - 1) / TG_KIT_LINE * TG_KIT_LINE;
  x.all = x.lists + 2 * sizeof(int32_t) * (size_t)w->state_keys * w->exec.threads;
  return x;
}

size_t tg_attention_workspace_sized(const tg_attention *a, const tg_attention_call *given, size_t call_bytes) {
  tg_attention_call call = {0};
  tg_attention_work w = {.a = a, .call = &call, .batch = 1};
  if (!a) return 0;
  if (a->plan.device) return a->plan.shared;
  if (given && tg_attention_read_sizes(&w, a, given, call_bytes, &call) != TG_OK) return 0;
  if (!given) w.queries = a->queries.hi, w.keys = a->keys.hi, w.exec.threads = a->plan.most;
  if (a->problem.backward) return tg_kit_workspace(tg_attention_backward_workspace(&w));
  if (given) return tg_kit_workspace(tg_attention_count(&w).all);
  size_t most = tg_attention_count(&w).all;
  /* behind that many keys parts grow instead of becoming more */
  w.keys = smaller(w.keys, (int64_t)ATTENTION_SPLIT * ATTENTION_MOST_PARTS);
  for (w.queries = ATTENTION_FEW; w.queries > 0; w.queries--) {   /* few of them may need more */
    size_t all = tg_span_has(a->queries, w.queries) ? tg_attention_count(&w).all : 0;
    if (all > most) most = all;
  }
  return tg_kit_workspace(most);
}

size_t tg_attention_blocks_bytes_sized(const tg_attention *a, const tg_attention_call *given, size_t call_bytes) {
  tg_attention_call copy;
  tg_attention_work w;
  if (!a || tg_attention_read_sizes(&w, a, given, call_bytes, &copy) != TG_OK) return 0;
  tg_attention_count(&w);
  return (size_t)(w.tables * w.state_rows * w.state_keys);
}
