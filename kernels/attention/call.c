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
#define STRIDED(name, like) {#name, AT(name), AT(name##_strides), like}
#define VECTOR(name) {#name, AT(name), 0, 0}
#define ARGUMENT(i) [OF_ARG + i] = {"arg", AT(arg) + i * sizeof(void *), AT(arg_strides) + i * 4 * sizeof(int64_t), 0}
const tg_attention_tensor tg_attention_tensors[TENSORS] = {
    [OF_Q] = STRIDED(q, OF_Q), STRIDED(k, OF_K), STRIDED(v, OF_V), STRIDED(o, OF_O), VECTOR(slopes), VECTOR(lse),
    [OF_MASK] = STRIDED(mask, 0),
    ARGUMENT(0), ARGUMENT(1), ARGUMENT(2), ARGUMENT(3), ARGUMENT(4), ARGUMENT(5), ARGUMENT(6), ARGUMENT(7),
    [OF_DO] = STRIDED(d_o, OF_O), STRIDED(d_q, OF_Q), STRIDED(d_k, OF_K), STRIDED(d_v, OF_V), VECTOR(sinks),
    [OF_K_SCALE] = STRIDED(k_scale, OF_K), STRIDED(v_scale, OF_V), VECTOR(cos), VECTOR(sin),
    [OF_BLOCKS] = STRIDED(block_mask, 0),
    [OF_K_NEW] = STRIDED(k_new, OF_K), STRIDED(v_new, OF_V)};
#undef AT

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

static tg_status read_tensor(tg_attention_work *w, uint32_t t) {
  const int64_t *given = strides_of(w->call, t);
  const tg_attention *a = w->a;
  const tg_attention_problem *q = &a->problem;
  const tg_type type[] = {q->q, q->k, q->v, q->o};
  uint32_t as = tg_attention_tensors[t].like;
  bool of_keys = as == OF_K || as == OF_V, dense = !given[0] && !given[1] && !given[2], fresh = t >= OF_K_NEW,
       paged = q->page && of_keys && !fresh,
       written = q->backward ? t >= OF_DQ : t == OF_O || (a->append && (t == OF_K || (t == OF_V && w->call->v_new)));
  const int32_t *starts = of_keys && !fresh ? w->call->key_starts : w->call->query_starts;
  int64_t width = as == OF_Q || as == OF_K ? q->head : q->value_head, heads = of_keys ? a->kv_heads : a->heads,
          tokens = paged ? q->page : starts ? starts[w->batch] : of_keys && !fresh ? w->keys : w->queries,
          sequences = paged ? w->call->pages : starts ? 1 : w->batch;
  uint32_t size = (uint32_t)tg_type_bytes(t == OF_K_SCALE || t == OF_V_SCALE ? q->kv_scale : type[as]);
  if (t == OF_K_SCALE || t == OF_V_SCALE) width /= as == OF_K ? q->k_group : q->v_group;
  else if (of_keys && q->kv_bits == 4) width /= 2;   /* bytes */
  tg_kit_tensor *x = &w->of[t];
  *x = (tg_kit_tensor){.name = tg_attention_tensors[t].name,
                       .size = size,
                       .extent = {sequences, heads, tokens, width},
                       .step = {given[0], given[1], given[2], 1}};
  if (dense && starts) x->step[1] = width, x->step[2] = heads * width;   /* [tokens][heads][head] */
  else if (dense) x->step[0] = heads * tokens * width, x->step[1] = tokens * width, x->step[2] = width;
  tg_status s = tg_kit_check_strides(a->plan.context, call_name, x);
  if (s == TG_OK) s = place(w, t);
  if (s != TG_OK) return s;
  if (written && !tg_kit_is_apart(x))
    return wrong(a, "tg_attention_call.%s_strides = {%lld, %lld, %lld} lay two elements on one place", x->name,
                 (long long)given[0], (long long)given[1], (long long)given[2]);
  if ((t == OF_O || t >= OF_DO) && x->step[2] < 1) x->step[2] = 1;   /* of a single token */
  return TG_OK;
}

/* A mask or an argument: strides that are all 0 are dense, and a dimension that it has no values for has none. */
static tg_status read_mask(tg_attention_work *w, uint32_t t, tg_type type, uint8_t per, const int64_t extent[4]) {
  static const uint8_t bit[TG_KIT_DIMS] = {TG_PER_BATCH, TG_PER_HEAD, TG_PER_QUERY, TG_PER_KEY};
  const int64_t *given = strides_of(w->call, t);
  bool any = given[0] || given[1] || given[2] || given[3];
  int64_t dense = 1;
  tg_kit_tensor *x = &w->of[t];
  *x = (tg_kit_tensor){.name = tg_attention_tensors[t].name,
                       .nth = t == OF_BLOCKS ? 0 : t - OF_MASK,
                       .size = (uint32_t)tg_type_bytes(type)};
  for (uint32_t i = TG_KIT_DIMS; i-- > 0;) {
    x->extent[i] = per & bit[i] ? extent[i] : extent[i] != 0;
    if (!(per & bit[i])) continue;
    x->step[i] = any ? given[i] : dense;
    if (x->extent[i] && __builtin_mul_overflow(dense, x->extent[i], &dense)) dense = (int64_t)1 << 62;
  }
  tg_status s = tg_kit_check_strides(w->a->plan.context, call_name, x);
  return s == TG_OK ? place(w, t) : s;
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

/* Operands without strides. The rows of O do not overlap, so their number is far below 2^62. */
static tg_status read_vectors(tg_attention_work *w) {
  const tg_attention_call *c = w->call;
  const tg_attention *a = w->a;
  const tg_attention_problem *q = &a->problem;
  int64_t rows = a->heads * (c->query_starts ? w->total : w->batch * w->queries), angles = c->positions * q->rotary / 2;
  const struct { uint32_t t; int64_t n; } vectors[] = {{OF_COS, q->rotary ? angles : 0},
                                                       {OF_SIN, q->rotary ? angles : 0},
                                                       {OF_SLOPES, q->alibi ? a->heads : 0},
                                                       {OF_SINKS, q->sinks && !q->backward ? a->heads : 0},
                                                       {OF_LSE, c->lse || q->backward ? rows : 0}};
  tg_status s = check_angles(w);
  for (uint32_t i = 0; i < TG_COUNT(vectors) && s == TG_OK; i++) {
    w->of[vectors[i].t] = tg_kit_vector(tg_attention_tensors[vectors[i].t].name, vectors[i].n, sizeof(float));
    s = place(w, vectors[i].t);
  }
  return s;
}

tg_status tg_attention_read_masks(tg_attention_work *w) {
  const tg_attention_problem *q = &w->a->problem;
  const tg_attention_call *c = w->call;
  const int64_t blocks[] = {w->batch, w->a->heads,
                            q->block_rows ? tg_attention_rounded_up(w->queries, q->block_rows) : 0,
                            q->block_rows ? tg_attention_rounded_up(w->keys, q->block_keys) : 0};
  tg_status s = TG_OK;
  if (q->block_rows) s = read_mask(w, OF_BLOCKS, TG_U8, w->a->block_per | TG_PER_QUERY | TG_PER_KEY, blocks);
  for (uint32_t i = q->mask ? 0 : 1; i <= q->arguments_n && s == TG_OK; i++) {
    uint8_t per = i ? q->argument[i - 1].per : q->mask_per;
    const int32_t *qs = per & TG_PACKED ? c->query_starts : NULL, *ks = per & TG_PACKED ? c->key_starts : NULL;
    const int64_t extent[] = {w->batch, w->a->heads, qs ? qs[w->batch] : w->queries, ks ? ks[w->batch] : w->keys};
    s = read_mask(w, OF_MASK + i, i ? q->argument[i - 1].type : q->mask, per, extent);
  }
  return s;
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

static tg_status read_tensors(tg_attention_work *w) {
  static const uint8_t strided[] = {OF_Q,  OF_K,  OF_V,       OF_O,       OF_DO,    OF_DQ,
                                    OF_DK, OF_DV, OF_K_SCALE, OF_V_SCALE, OF_K_NEW, OF_V_NEW};
  tg_status s = TG_OK;
  for (uint32_t i = 0; i < TG_COUNT(strided) && s == TG_OK; i++) {
    uint32_t t = strided[i];
    w->of[t].bytes = 0;
    if (tg_attention_has_tensor(w->a, t) && (t != OF_V_NEW || w->call->v_new)) s = read_tensor(w, t);
  }
  return s;
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

bool tg_attention_has_tensor(const tg_attention *a, uint32_t t) {
  const tg_attention_problem *q = &a->problem;
  if (t == OF_MASK) return q->mask;
  if (t >= OF_ARG && t < OF_DO) return t - OF_ARG < q->arguments_n;
  if (t >= OF_K_NEW) return a->append;
  return t < OF_DO || (t == OF_SINKS    ? q->sinks
                       : t == OF_BLOCKS ? q->block_rows
                       : t == OF_COS || t == OF_SIN ? q->rotary != 0
                       : t <= OF_V_SCALE && t >= OF_K_SCALE ? q->kv_bits
                                        : q->backward);
}

/* What is written may overlap nothing else. */
static tg_status check_overlaps(const tg_attention_work *w) {
  const tg_attention *a = w->a;
  static const uint8_t forward[] = {OF_O, OF_LSE, OF_K, OF_V}, backward[] = {OF_DQ, OF_DK, OF_DV};
  const uint8_t *written = a->problem.backward ? backward : forward;
  uint32_t n = a->problem.backward ? 3 : !a->append ? 2 : w->call->v_new ? 4 : 3;
  tg_status s = TG_OK;
  if (a->flags & TG_ATTENTION_OVERLAP_UNCHECKED) return TG_OK;
  for (uint32_t i = 0; i < n; i++)
    for (uint32_t t = 0; t < TENSORS && s == TG_OK; t++)
      if (t != written[i] && tg_attention_has_tensor(a, t) && !(written[i] == OF_K && t == OF_V && n == 3))
        s = tg_kit_check_overlap(a->plan.context, call_name, &w->of[written[i]], &w->of[t]);
  return s;
}

tg_status tg_attention_read_operands(tg_attention_work *w) {
  tg_status s = refuse_unread(w);
  if (s == TG_OK) s = read_tensors(w);
  if (s == TG_OK) s = read_table(w);
  if (s == TG_OK) s = read_vectors(w);
  if (s == TG_OK) s = tg_attention_read_masks(w);
  return s == TG_OK ? check_overlaps(w) : s;
}
