/* SPDX-License-Identifier: MIT
 * Reads and checks every field of a call. */
#include "attention/call.h"

static const char call_name[] = "tg_attention_call";

/* ---- sizes ---- */

/* Sequences that lie behind one another; *most: tokens of the longest. */
static int64_t keys_of(const tg_attention_work *w, int64_t b) {
  const tg_attention_call *c = w->call;
  return c->key_lengths ? c->key_lengths[b] : c->key_starts ? c->key_starts[b + 1] - c->key_starts[b] : w->keys;
}

/* What pages and appending ask for, beside the operands. */
static tg_status check_cache(const tg_attention_work *w) {
  const tg_attention_call *c = w->call;
  const tg_attention *a = w->a;
  if (a->problem.page && c->key_starts)
    return wrong(a, "tg_attention_call.key_starts: the plan has pages, whose keys page_table and key_lengths name");
  if (a->problem.page && (c->pages < 0 || c->pages >= (int64_t)1 << 31 || c->page_table_stride < 0))
    return wrong(a, "tg_attention_call.pages = %lld, page_table_stride = %lld: one is no such number",
                 (long long)c->pages, (long long)c->page_table_stride);
  for (int64_t b = 0; a->append && b < w->batch; b++) {
    int64_t queries = c->query_starts ? c->query_starts[b + 1] - c->query_starts[b] : w->queries;
    if (queries > keys_of(w, b))
      return wrong(a, "tg_attention_call: sequence %lld has %lld keys, of which %lld are to be appended",
                   (long long)b, (long long)keys_of(w, b), (long long)queries);
  }
  return TG_OK;
}

static tg_status read_starts(const tg_attention_work *w, const char *name, const int32_t *starts, tg_kit_dim d,
                             int64_t *most) {
  *most = 0;
  for (int64_t b = 0; b < w->batch; b++) {
    int64_t n = (int64_t)starts[b + 1] - starts[b];
    if (starts[b] < 0 || n < 0 || (n && !tg_span_has(d, n)))
      return wrong(w->a, "tg_attention_call.%s: sequence %lld from %d to %d, but the plan is for %lld..%lld tokens",
                   name, (long long)b, starts[b], starts[b + 1], (long long)d.lo, (long long)d.hi);
    *most = tg_attention_larger(*most, n);
  }
  return TG_OK;
}

tg_status tg_attention_read_sizes(tg_attention_work *w, const tg_attention *a, const tg_attention_call *call,
                                  size_t call_bytes, tg_attention_call *copy) {
  if (!call) return wrong(a, "no call is given");
  tg_status s = TG_WHOLE(a->plan.context, tg_attention_call, copy, &call, call_bytes);
  if (s != TG_OK) return s;
  const tg_attention_call *c = call;
  w->a = a, w->call = c, w->batch = c->batch ? c->batch : 1;
  if (w->batch < 0 || w->batch > (int64_t)1 << 31)
    return wrong(a, "tg_attention_call.batch = %lld is no number of sequences", (long long)c->batch);
  const int32_t *qs = c->query_starts, *ks = c->key_starts;
  tg_context *context = a->plan.context;
  s = qs ? read_starts(w, "query_starts", qs, a->queries, &w->queries)
                   : tg_kit_check_size(context, call_name, "queries", a->queries, c->queries, &w->queries);
  if (s == TG_OK)
    s = ks ? read_starts(w, "key_starts", ks, a->keys, &w->keys)
           : tg_kit_check_size(context, call_name, "keys", a->keys, c->keys, &w->keys);
  if (s != TG_OK) return s;
  for (int64_t b = 0; c->key_lengths && b < w->batch; b++) {
    int64_t n = ks ? ks[b + 1] - ks[b] : w->keys;
    if (c->key_lengths[b] < 0 || c->key_lengths[b] > n)
      return wrong(a, "tg_attention_call.key_lengths[%lld] = %d is not within 0..%lld", (long long)b,
                   c->key_lengths[b], (long long)n);
  }
  if ((s = check_cache(w)) != TG_OK) return s;
  w->total = qs ? qs[w->batch] : 0;
  w->philox[0] = (uint32_t)c->seed, w->philox[1] = (uint32_t)(c->seed >> 32), w->philox[2] = c->offset;
  if (a->problem.dropout && w->batch * a->heads > UINT32_MAX)
    return wrong(a, "tg_attention_call.batch = %lld: dropout has random numbers for 2^32 heads of sequences",
                 (long long)c->batch);
  w->exec = tg_kit_exec_of(&a->plan, c->exec, c->threads);
  return TG_OK;
}

/* ---- operands ---- */

#define AT(field) offsetof(tg_attention_call, field)
const tg_attention_tensor tg_attention_tensors[ATTENTION_OPERANDS] = {
#define TENSOR(name, text, field, side, like, has, sequence, head, token)                                              \
  {#field, AT(field), AT(field##_strides), TENSOR_OF_TOKENS, side, ATTENTION_##like,                                   \
   {ATTENTION_##sequence, ATTENTION_##head, ATTENTION_##token, ATTENTION_NOWHERE}},
#define VECTOR(name, text, field, side, has)                                                                           \
  {#field, AT(field), 0, TENSOR_OF_NUMBERS, side, 0,                                                                   \
   {ATTENTION_NOWHERE, ATTENTION_NOWHERE, ATTENTION_NOWHERE, ATTENTION_NOWHERE}},
#define MASKED(name, text, field, strides, side, has, query, key)                                                      \
  {#field, AT(field), AT(strides), TENSOR_OF_MASK, side, 0,                                                            \
   {ATTENTION_NOWHERE, ATTENTION_NOWHERE, ATTENTION_##query, ATTENTION_##key}},
#include "attention/names.def"
};
#undef AT

void tg_attention_list_tensors(tg_attention *a) {
  const tg_attention_problem *p = &a->problem;
  const bool all[] = {
#define TENSOR(name, text, field, side, like, has, sequence, head, token) has,
#define VECTOR(name, text, field, side, has) has,
#define MASKED(name, text, field, strides, side, has, query, key) has,
#include "attention/names.def"
  };
  for (uint32_t t = 0; t < TG_COUNT(all); t++)
    if (all[t]) a->tensor[a->tensors_n++] = (uint8_t)t;
}

bool tg_attention_writes(const tg_attention_work *w, uint32_t t) {
  if (w->a->problem.backward) return t >= ATTENTION_DQ && t <= ATTENTION_DV;
  return t == ATTENTION_O || (t == ATTENTION_LSE && w->a->problem.lse) ||
         (w->a->append && (t == ATTENTION_K || (t == ATTENTION_V && w->call->v_new)));
}

static const void *pointer_of(const tg_attention_call *c, uint32_t t) {
  const void *p;
  memcpy(&p, (const char *)c + tg_attention_tensors[t].at, sizeof p);
  return p;
}

static const int64_t *strides_of(const tg_attention_call *c, uint32_t t) {
  return (const int64_t *)(const void *)((const char *)c + tg_attention_tensors[t].strides);
}

static tg_status place(tg_attention_work *w, uint32_t t) {
  return tg_kit_place(w->a->plan.context, call_name, &w->of[t], pointer_of(w->call, t));
}

/* Elements of a head, their scales, or bytes of two integers each; size: bytes of one of these. */
static int64_t width_of(const tg_attention_problem *q, uint32_t t, uint32_t *size) {
  const tg_type type[] = {q->q, q->k, q->v, q->o};
  uint32_t as = tg_attention_tensors[t].like;
  int64_t width = as == ATTENTION_Q || as == ATTENTION_K ? q->head : q->value_head;
  bool scales = t == ATTENTION_K_SCALE || t == ATTENTION_V_SCALE, keys = as == ATTENTION_K || as == ATTENTION_V;
  *size = (uint32_t)tg_type_bytes(scales ? q->kv_scale : type[as]);
  return scales ? width / (as == ATTENTION_K ? q->k_group : q->v_group) : keys && q->kv_bits == 4 ? width / 2 : width;
}

static tg_status read_tensor(tg_attention_work *w, uint32_t t) {
  const tg_attention_tensor *of = &tg_attention_tensors[t];
  const int64_t *given = strides_of(w->call, t);
  const tg_attention *a = w->a;
  bool of_keys = of->side == OF_KEYS, dense = !given[0] && !given[1] && !given[2], paged = a->problem.page && of_keys;
  const int32_t *starts = of_keys ? w->call->key_starts : w->call->query_starts;
  tg_kit_tensor *x = &w->of[t];
  uint32_t size;
  int64_t width = width_of(&a->problem, t, &size), heads = of->side == OF_QUERIES ? a->heads : a->kv_heads,
          tokens = paged ? a->problem.page : starts ? starts[w->batch] : of_keys ? w->keys : w->queries,
          sequences = paged ? w->call->pages : starts ? 1 : w->batch;
  *x = (tg_kit_tensor){.name = of->name,
                       .size = size,
                       .extent = {sequences, heads, tokens, width},
                       .step = {given[0], given[1], given[2], 1}};
  if (dense && starts) x->step[1] = width, x->step[2] = heads * width;   /* [tokens][heads][head] */
  else if (dense) x->step[0] = heads * tokens * width, x->step[1] = tokens * width, x->step[2] = width;
  tg_status s = tg_kit_check_strides(a->plan.context, call_name, x);
  if (s == TG_OK) s = place(w, t);
  if (s != TG_OK) return s;
  if (tg_attention_writes(w, t) && !tg_kit_is_apart(x))
    return wrong(a, "tg_attention_call.%s_strides = {%lld, %lld, %lld} lay two elements on one place", x->name,
                 (long long)given[0], (long long)given[1], (long long)given[2]);
  if ((t >= ATTENTION_O || a->plan.device) && x->step[2] < 1) x->step[2] = 1;   /* of a single token */
  return TG_OK;
}

/* A mask or an argument: strides that are all 0 are dense, and a dimension that it has no values for has none. */
static tg_status read_mask(tg_attention_work *w, uint32_t t) {
  static const uint8_t bit[TG_KIT_DIMS] = {TG_PER_BATCH, TG_PER_HEAD, TG_PER_QUERY, TG_PER_KEY};
  const tg_attention_problem *q = &w->a->problem;
  const tg_kit_argument of = tg_attention_mask(q, t);
  const int32_t *qs = of.per & TG_PACKED ? w->call->query_starts : NULL,
                *ks = of.per & TG_PACKED ? w->call->key_starts : NULL;
  int64_t extent[] = {w->batch, w->a->heads, qs ? qs[w->batch] : w->queries, ks ? ks[w->batch] : w->keys}, dense = 1;
  if (t == ATTENTION_BLOCKS) {
    extent[2] = tg_attention_rounded_up(w->queries, q->block_rows);
    extent[3] = tg_attention_rounded_up(w->keys, q->block_keys);
  }
  const int64_t *given = strides_of(w->call, t);
  bool any = given[0] || given[1] || given[2] || given[3];
  tg_kit_tensor *x = &w->of[t];
  *x = (tg_kit_tensor){.name = t > ATTENTION_MASK ? "arg" : tg_attention_tensors[t].name,
                       .nth = t > ATTENTION_MASK ? t - ATTENTION_MASK : 0,
                       .size = (uint32_t)tg_type_bytes(of.type)};
  for (uint32_t i = TG_KIT_DIMS; i-- > 0;) {
    x->extent[i] = of.per & bit[i] ? extent[i] : extent[i] != 0;
    if (!(of.per & bit[i])) continue;
    x->step[i] = any ? given[i] : dense;
    if (x->extent[i] && __builtin_mul_overflow(dense, x->extent[i], &dense)) dense = (int64_t)1 << 62;
  }
  tg_status s = tg_kit_check_strides(w->a->plan.context, call_name, x);
  return s == TG_OK ? place(w, t) : s;
}

/* A tensor of numbers: angles [positions][rotary / 2], one for each head, or LSE [batch][heads][queries], of packed
 * sequences [heads][all tokens]. The rows of O do not overlap, so their number is far below 2^62. */
static tg_status read_numbers(tg_attention_work *w, uint32_t t) {
  const tg_attention *a = w->a;
  const int32_t *qs = w->call->query_starts;
  uint8_t side = tg_attention_tensors[t].side;
  int64_t sequences = 1, heads = a->heads, tokens = 1, width = 1;
  if (side == OF_CALL) heads = 1, tokens = w->call->positions, width = a->problem.rotary / 2;
  if (side == OF_QUERIES) sequences = qs ? 1 : w->batch, tokens = qs ? w->total : w->queries;
  w->of[t] = (tg_kit_tensor){.name = tg_attention_tensors[t].name,
                             .size = sizeof(float),
                             .extent = {sequences, heads, tokens, width},
                             .step = {heads * tokens * width, tokens * width, width, 1}};
  return place(w, t);
}

/* A row for each position that a query or a key has. */
static tg_status check_angles(const tg_attention_work *w) {
  const tg_attention_call *c = w->call;
  int64_t top_left = w->a->causal == TG_CAUSAL_TOP_LEFT, needed = w->keys;
  if (!w->a->problem.rotary) return TG_OK;
  for (int64_t b = 0; b < w->batch; b++) {
    int64_t queries = c->query_starts ? c->query_starts[b + 1] - c->query_starts[b] : w->queries;
    if (top_left) needed = tg_attention_larger(needed, queries);
    if (!top_left && queries > keys_of(w, b))
      return wrong(w->a, "tg_attention_call: sequence %lld has %lld queries at the end of %lld keys",
                   (long long)b, (long long)queries, (long long)keys_of(w, b));
  }
  if (c->positions < needed || c->positions > (int64_t)1 << 31)
    return wrong(w->a, "tg_attention_call.positions = %lld, and %lld are needed", (long long)c->positions,
                 (long long)needed);
  return TG_OK;
}

/* Operands of a call that the plan does not read: without this check a forgotten field of the descriptor would be a
 * wrong result. */
static tg_status refuse_unread(const tg_attention_work *w) {
  const tg_attention_call *c = w->call;
  const tg_attention *a = w->a;
  const tg_attention_problem *q = &a->problem;
  const struct { bool given, read; const char *why; } fields[] = {
      {c->lse, q->lse || q->backward, "lse is given, and the plan does not compute it: tg_attention_desc.lse = 1"},
      {c->slopes, q->alibi, "slopes is given, and the plan has none: tg_attention_desc.alibi = 1"},
      {c->sinks, q->sinks, "sinks is given, and the plan has none: tg_attention_desc.sinks = 1"},
      {c->block_mask, q->block_rows, "block_mask is given, and the plan has none: tg_attention_desc.block_rows"},
      {c->mask, q->mask, "mask is given, and the plan has none: tg_attention_desc.mask is its type"},
      {c->k_new || c->v_new, a->append,
       "k_new or v_new is given, and the plan does not append: tg_attention_desc.append = 1"},
      {c->seed || c->offset, q->dropout,
       "seed or offset is given, and the plan has none: tg_attention_desc.dropout"},
      {c->cos || c->sin || c->positions, q->rotary,
       "cos, sin or positions is given, and the plan has none: tg_attention_desc.rotary"},
      {c->k_scale || c->v_scale, q->kv_bits,
       "k_scale or v_scale is given, and the plan has none: tg_attention_desc.kv_bits"},
      {c->page_table || c->pages, q->page,
       "page_table is given, and the plan has no pages: tg_attention_desc.page_size"},
      {c->d_o || c->d_q || c->d_k || c->d_v, q->backward,
       "d_o, d_q, d_k or d_v is given: they are for a plan with backward = 1"}};
  for (uint32_t i = 0; i < TG_COUNT(fields); i++)
    if (fields[i].given && !fields[i].read) return wrong(a, "tg_attention_call.%s", fields[i].why);
  for (uint32_t i = q->arguments_n; i < TG_ATTENTION_ARGS; i++)
    if (c->arg[i])
      return wrong(a, "tg_attention_call.arg[%u] is given, and the plan has %u: tg_attention_desc.arg names them", i,
                   q->arguments_n);
  return TG_OK;
}

/* The pages that a sequence's keys lie in. */
static tg_status read_table(tg_attention_work *w) {
  const tg_attention_call *c = w->call;
  int64_t page = w->a->problem.page;
  w->table_entries = 0;
  if (!page) return TG_OK;
  w->table_step = c->page_table_stride ? c->page_table_stride : tg_attention_rounded_up(w->keys, page);
  for (int64_t b = 0; b < w->batch; b++) {
    int64_t n = tg_attention_rounded_up(keys_of(w, b), page);
    if (n && !c->page_table) return wrong(w->a, "tg_attention_call.page_table is NULL");
    if (n > w->table_step)
      return wrong(w->a, "tg_attention_call.page_table_stride = %lld, but sequence %lld has %lld pages",
                   (long long)w->table_step, (long long)b, (long long)n);
    if (n) w->table_entries = b * w->table_step + n;
    for (int64_t i = 0; i < n && !w->a->plan.device; i++) {   /* there kernels keep them within the pages */
      int32_t at = c->page_table[b * w->table_step + i];
      if (at < 0 || at >= c->pages)
        return wrong(w->a, "tg_attention_call.page_table: entry %lld of sequence %lld is %d, of %lld pages",
                     (long long)i, (long long)b, at, (long long)c->pages);
    }
  }
  return TG_OK;
}

void *tg_attention_key_at(const tg_attention_work *w, uint32_t t, int64_t sequence, int64_t first_key, int64_t head,
                          int64_t key) {
  int64_t page = w->a->problem.page;
  const tg_kit_tensor *x = &w->of[t];
  if (page)
    return tg_attention_element(x, w->call->page_table[sequence * w->table_step + key / page], head, key % page, 0);
  return tg_attention_element(x, w->call->key_starts ? 0 : sequence, head, first_key + key, 0);
}

/* What is written may overlap nothing else. */
static tg_status check_overlaps(const tg_attention_work *w) {
  static const uint8_t order[] = {ATTENTION_O, ATTENTION_LSE, ATTENTION_K, ATTENTION_V,
                                  ATTENTION_DQ, ATTENTION_DK, ATTENTION_DV};
  const tg_attention *a = w->a;
  tg_status s = TG_OK;
  if (a->flags & TG_ATTENTION_OVERLAP_UNCHECKED) return TG_OK;
  for (uint32_t i = 0; i < TG_COUNT(order); i++)
    for (uint32_t n = 0; tg_attention_writes(w, order[i]) && n < a->tensors_n && s == TG_OK; n++) {
      uint32_t t = a->tensor[n];
      bool in_k = order[i] == ATTENTION_K && t == ATTENTION_V && !w->call->v_new;   /* V may lie in K */
      if (t != order[i] && !in_k) s = tg_kit_check_overlap(a->plan.context, call_name, &w->of[order[i]], &w->of[t]);
    }
  return s;
}

/* The call's tensors of one kind; of those that are not given though the plan has them, only LSE and v_new may be. */
static tg_status read_kind(tg_attention_work *w, uint8_t kind) {
  static tg_status (*const read[])(tg_attention_work *, uint32_t) = {[TENSOR_OF_TOKENS] = read_tensor,
                                                                     [TENSOR_OF_NUMBERS] = read_numbers,
                                                                     [TENSOR_OF_MASK] = read_mask};
  const tg_attention *a = w->a;
  tg_status s = TG_OK;
  for (uint32_t i = 0; i < a->tensors_n && s == TG_OK; i++) {
    uint32_t t = a->tensor[i];
    bool may_lack = t == ATTENTION_V_NEW || (t == ATTENTION_LSE && !a->problem.backward);
    if (tg_attention_tensors[t].kind != kind) continue;
    if (may_lack && !pointer_of(w->call, t)) w->of[t] = (tg_kit_tensor){.name = tg_attention_tensors[t].name};
    else s = read[kind](w, t);
  }
  return s;
}

tg_status tg_attention_read_masks(tg_attention_work *w) { return read_kind(w, TENSOR_OF_MASK); }

tg_status tg_attention_read_operands(tg_attention_work *w) {
  tg_status s = refuse_unread(w);
  if (s == TG_OK) s = read_kind(w, TENSOR_OF_TOKENS);
  if (s == TG_OK) s = read_table(w);
  if (s == TG_OK) s = check_angles(w);
  if (s == TG_OK) s = read_kind(w, TENSOR_OF_NUMBERS);
  if (s == TG_OK) s = read_kind(w, TENSOR_OF_MASK);
  return s == TG_OK ? check_overlaps(w) : s;
}
