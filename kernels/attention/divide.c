/* SPDX-License-Identifier: MIT
 * Divides the sequences, heads, queries and keys of a call into runs of a kernel, and counts what these need. */
#include "attention/call.h"

#define smaller tg_attention_smaller
#define larger tg_attention_larger
#define rounded_up tg_attention_rounded_up

int64_t tg_attention_most_parts(bool backward, int64_t heads, int64_t keys) {
  int64_t pieces = rounded_up(ATTENTION_PIECES, heads), least = backward ? 1 : rounded_up(keys, ATTENTION_SPLIT),
          parts = larger(least, smaller(pieces, rounded_up(keys, ATTENTION_LEAST)));
  return larger(1, smaller(parts, ATTENTION_MOST_PARTS));
}

int64_t tg_attention_keys_of_part(bool backward, int64_t heads, int64_t keys) {
  int64_t most = tg_attention_most_parts(backward, heads, keys);
  return larger(1, rounded_up(rounded_up(keys, most), ATTENTION_BLOCK)) * ATTENTION_BLOCK;
}

static void divide_keys(const tg_attention *a, tg_attention_sequence *s) {
  int64_t most = tg_attention_most_parts(a->problem.backward, s->heads, s->keys),
          of_row = a->problem.backward ? a->heads / a->kv_heads * a->problem.head : a->problem.value_head + 2;
  s->part = tg_attention_keys_of_part(a->problem.backward, s->heads, s->keys);
  s->parts = larger(1, rounded_up(s->keys, s->part));
  s->floats = most > 1 ? most * s->rows * of_row : 0;   /* it never falls as keys grow */
}

tg_attention_sequence tg_attention_sequence_of(const tg_attention_work *w, int64_t i) {
  const tg_attention *a = w->a;
  const tg_attention_call *c = w->call;
  const int32_t *qs = c->query_starts, *ks = c->key_starts;
  bool host = !a->plan.device, backward = host && a->problem.backward;
  tg_attention_sequence s = {.index = i,
                             .queries = qs ? qs[i + 1] - qs[i] : w->queries,
                             .keys = ks ? ks[i + 1] - ks[i] : w->keys,
                             .first_query = qs ? qs[i] : 0,
                             .first_key = ks ? ks[i] : 0};
  if (c->key_lengths) s.keys = c->key_lengths[i];
  bool one = host && s.queries == 1 && a->causal != TG_CAUSAL_TOP_LEFT && !(a->window && a->causal == TG_CAUSAL_NONE) &&
             !backward;
  /* keys before the window of the only query; with dropout keys count from the first one */
  if (one && a->window && !a->problem.dropout) s.skipped = larger(0, s.keys - a->window);
  if (one) s.keys -= s.skipped;
  s.heads_are_rows = a->heads_are_rows && one && !(qs && c->lse);
  s.heads = s.heads_are_rows || backward ? a->kv_heads : a->heads;
  s.rows = s.heads_are_rows ? a->heads / a->kv_heads : s.queries;
  s.block = a->lists && s.keys < ATTENTION_BLOCK ? smaller(a->rows, ATTENTION_FEW) : a->rows;
  s.blocks = rounded_up(s.rows, s.block);
  /* under a causal mask rows that are computed for nothing belong where keys are fewest: into the first block */
  if (host && a->causal && !a->lists && !backward && !s.heads_are_rows) s.lacking = s.blocks * s.block - s.rows;
  s.parts = 1, s.part = s.keys;
  if (backward || (s.rows <= ATTENTION_FEW && a->merge.kernel)) divide_keys(a, &s);
  return s;
}

int64_t tg_attention_pieces_of(const tg_attention_work *w, const tg_attention_sequence *s, uint32_t round) {
  const tg_attention *a = w->a;
  bool backward = a->problem.backward;
  switch (round) {
  case ATTENTION_APPENDS: return a->append ? a->kv_heads : 0;
  case ATTENTION_FINDS: return s->index && !w->by_sequence ? 0 : (a->by_head ? a->heads : 1) * w->state_rows;
  case ATTENTION_RUNS: return s->heads * s->parts * (backward ? 1 : s->blocks);
  default: return s->parts < 2 ? 0 : backward ? a->heads * s->blocks : s->heads;
  }
}

static size_t whole_lines(size_t bytes) { return (bytes + TG_KIT_LINE - 1) / TG_KIT_LINE * TG_KIT_LINE; }

void tg_attention_count(tg_attention_work *w) {
  const tg_attention *a = w->a;
  const tg_attention_problem *p = &a->problem;
  tg_attention_areas *x = &w->area;
  /* width: of the sums of a thread, which are those of dK and dV that are not f32 */
  int64_t floats = 0, longest = 0, keys = 0,
          width = !p->backward ? 0 : (p->k == TG_F32 ? 0 : p->head) + (p->v == TG_F32 ? 0 : p->value_head);
  bool even = !w->call->query_starts && !w->call->key_starts && !w->call->key_lengths;
  w->tables = w->state_rows = w->state_keys = 0, w->by_sequence = a->by_batch || !even;
  memset(w->pieces, 0, sizeof w->pieces);
  for (int64_t i = 0; i < w->batch; i++) {
    tg_attention_sequence s = tg_attention_sequence_of(w, i);
    int64_t times = even ? w->batch : 1;
    floats += times * s.heads * s.floats;
    for (uint32_t r = 0; r < ATTENTION_ROUNDS; r++) w->pieces[r] += times * tg_attention_pieces_of(w, &s, r);
    longest = larger(longest, s.rows);
    keys = larger(keys, smaller(larger(s.part, ATTENTION_LEAST), s.keys));   /* so that it never falls, too */
    if (even) break;
  }
  x->sums = whole_lines(tg_kit_needed(&a->plan, w->exec.threads, true));
  x->states = x->lists = x->own = x->all = x->sums + (size_t)floats * sizeof(float);
  x->own_bytes = whole_lines((size_t)(keys * width) * sizeof(float));
  if (p->backward) x->own = whole_lines(x->own), x->all = x->own + x->own_bytes * w->exec.threads;
  if (!a->lists || longest <= ATTENTION_FEW || !w->keys) return;
  w->tables = (w->by_sequence ? w->batch : 1) * (a->by_head ? a->heads : 1);
  w->state_rows = rounded_up(longest, a->rows), w->state_keys = rounded_up(w->keys, ATTENTION_BLOCK);
  w->pieces[ATTENTION_FINDS] = w->tables * w->state_rows;
  if (!w->call->blocks) x->lists += (size_t)(w->tables * w->state_rows * w->state_keys);
  x->lists = whole_lines(x->lists);
  x->all = x->lists + 2 * sizeof(int32_t) * (size_t)w->state_keys * w->exec.threads;
}

static size_t workspace_of(tg_attention_work *w) {
  tg_attention_count(w);
  return w->area.all;
}

size_t tg_attention_workspace_sized(const tg_attention *a, const tg_attention_call *given, size_t call_bytes) {
  tg_attention_call call = {0};
  tg_attention_work w = {.a = a, .call = &call, .batch = 1};
  if (!a) return 0;
  if (a->plan.device) return a->plan.shared;
  if (given && tg_attention_read_sizes(&w, a, given, call_bytes, &call) != TG_OK) return 0;
  if (!given) w.queries = a->queries.hi, w.keys = a->keys.hi, w.exec.threads = a->plan.most;
  size_t most = workspace_of(&w);
  if (given || a->problem.backward) return tg_kit_workspace(most);
  /* behind that many keys parts grow instead of becoming more */
  w.keys = smaller(w.keys, (int64_t)ATTENTION_SPLIT * ATTENTION_MOST_PARTS);
  for (w.queries = ATTENTION_FEW; w.queries > 0; w.queries--) {   /* few of them may need more */
    size_t all = tg_span_has(a->queries, w.queries) ? workspace_of(&w) : 0;
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
