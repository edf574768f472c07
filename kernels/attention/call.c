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

/* The forward tensor whose type, width and tokens a tensor has. */
static uint32_t like(uint32_t t) {
  static const uint8_t of[] = {OF_O, OF_Q, OF_K, OF_V};
  return t < OF_DO ? t : t <= OF_DV ? of[t - OF_DO] : t == OF_K_NEW || t == OF_K_SCALE ? OF_K : OF_V;
}

static tg_status read_tensor(tg_attention_work *w, uint32_t t, const void *p, const int64_t given[3]) {
  static const char *const names[TENSORS] = {
      [OF_Q] = "q",      [OF_K] = "k",      [OF_V] = "v",      [OF_O] = "o",          [OF_DO] = "d_o",
      [OF_DQ] = "d_q",   [OF_DK] = "d_k",   [OF_DV] = "d_v",   [OF_K_NEW] = "k_new",  [OF_V_NEW] = "v_new",
      [OF_K_SCALE] = "k_scale", [OF_V_SCALE] = "v_scale"};
  const tg_attention *a = w->a;
  const tg_attention_problem *q = &a->problem;
  const tg_type type[] = {q->q, q->k, q->v, q->o};
  uint32_t as = like(t);
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
  *x = (tg_kit_tensor){.name = names[t],
                       .size = size,
                       .extent = {sequences, heads, tokens, width},
                       .step = {given[0], given[1], given[2], 1}};
  if (dense && starts) x->step[1] = width, x->step[2] = heads * width;   /* [tokens][heads][head] */
  else if (dense) x->step[0] = heads * tokens * width, x->step[1] = tokens * width, x->step[2] = width;
  tg_status s = tg_kit_check_strides(a->plan.context, call_name, x);
  if (s == TG_OK) s = tg_kit_place(a->plan.context, call_name, x, p);
  if (s != TG_OK) return s;
  if (written && !tg_kit_is_apart(x))
    return wrong(a, "tg_attention_call.%s_strides = {%lld, %lld, %lld} lay two elements on one place", x->name,
                 (long long)given[0], (long long)given[1], (long long)given[2]);
  if ((t == OF_O || t >= OF_DO) && x->step[2] < 1) x->step[2] = 1;   /* of a single token */
  return TG_OK;
}

/* The mask (a 0) or argument a - 1. */
static tg_status read_mask(tg_attention_work *w, uint32_t a, const void *p, const int64_t given[4]) {
  static const uint8_t bit[TG_KIT_DIMS] = {TG_PER_BATCH, TG_PER_HEAD, TG_PER_QUERY, TG_PER_KEY};
  const tg_attention_problem *q = &w->a->problem;
  tg_context *context = w->a->plan.context;
  uint8_t per = a ? q->argument[a - 1].per : q->mask_per;
  bool any = given[0] || given[1] || given[2] || given[3];
  const tg_attention_call *c = w->call;
  const int32_t *qs = per & TG_PACKED ? c->query_starts : NULL, *ks = per & TG_PACKED ? c->key_starts : NULL;
  int64_t dense = 1;
  tg_kit_tensor *x = &w->of[OF_MASK + a];
  *x = (tg_kit_tensor){.name = a ? "arg" : "mask",
                       .nth = a,
                       .size = (uint32_t)tg_type_bytes(a ? q->argument[a - 1].type : q->mask),
                       .extent = {w->batch, w->a->heads, qs ? qs[w->batch] : w->queries,
                                  ks ? ks[w->batch] : w->keys}};
  for (uint32_t i = TG_KIT_DIMS; i-- > 0;) {
    if (!(per & bit[i])) {
      x->extent[i] = x->extent[i] ? 1 : 0;
      continue;
    }
    x->step[i] = any ? given[i] : dense;
    if (x->extent[i] && __builtin_mul_overflow(dense, x->extent[i], &dense)) dense = (int64_t)1 << 62;
  }
  tg_status s = tg_kit_check_strides(context, call_name, x);
  return s == TG_OK ? tg_kit_place(context, call_name, x, p) : s;
}

/* A row for each position that a query or a key has. */
static tg_status read_angles(tg_attention_work *w) {
  const tg_attention_call *c = w->call;
  tg_context *context = w->a->plan.context;
  int64_t half = w->a->problem.rotary / 2, top_left = w->a->causal == TG_CAUSAL_TOP_LEFT, needed = w->keys;
  if (!half) return TG_OK;
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
  w->of[OF_COS] = tg_kit_vector("cos", c->positions * half, sizeof(float));
  w->of[OF_SIN] = tg_kit_vector("sin", c->positions * half, sizeof(float));
  tg_status s = tg_kit_place(context, call_name, &w->of[OF_COS], c->cos);
  return s == TG_OK ? tg_kit_place(context, call_name, &w->of[OF_SIN], c->sin) : s;
}

static tg_status read_blocks(tg_attention_work *w) {
  const tg_attention_problem *q = &w->a->problem;
  const int64_t *given = w->call->block_mask_strides;
  bool any = given[0] || given[1] || given[2] || given[3];
  tg_kit_tensor *x = &w->of[OF_BLOCKS];
  *x = (tg_kit_tensor){.name = "block_mask", .size = 1};
  if (!q->block_rows) return TG_OK;
  const int64_t extent[TG_KIT_DIMS] = {w->a->block_per & TG_PER_BATCH ? w->batch : 1,
                                       w->a->block_per & TG_PER_HEAD ? w->a->heads : 1,
                                       tg_attention_rounded_up(w->queries, q->block_rows),
                                       tg_attention_rounded_up(w->keys, q->block_keys)};
  int64_t dense = 1;
  for (uint32_t i = TG_KIT_DIMS; i-- > 0;) {
    x->extent[i] = extent[i];
    x->step[i] = extent[i] <= 1 && i < 2 ? 0 : any ? given[i] : dense;
    if (extent[i] && __builtin_mul_overflow(dense, extent[i], &dense)) dense = (int64_t)1 << 62;
  }
  tg_status s = tg_kit_check_strides(w->a->plan.context, call_name, x);
  return s == TG_OK ? tg_kit_place(w->a->plan.context, call_name, x, w->call->block_mask) : s;
}

tg_status tg_attention_read_masks(tg_attention_work *w) {
  const tg_attention_call *c = w->call;
  tg_status s = read_blocks(w);
  if (s == TG_OK && w->a->problem.mask) s = read_mask(w, 0, c->mask, c->mask_strides);
  for (uint32_t i = 0; i < w->a->problem.arguments_n && s == TG_OK; i++)
    s = read_mask(w, i + 1, c->arg[i], c->arg_strides[i]);
  return s;
}

/* Operands of a call that the plan does not read: without this check a forgotten field of the descriptor would be a
 * wrong result. */
static tg_status refuse_unread(const tg_attention_work *w) {
  const tg_attention_call *c = w->call;
  const tg_attention *a = w->a;
  if (c->lse && !a->problem.lse && !a->problem.backward)
    return wrong(a, "tg_attention_call.lse is given, and the plan does not compute it: tg_attention_desc.lse = 1");
  if (c->slopes && !a->problem.alibi)
    return wrong(a, "tg_attention_call.slopes is given, and the plan has none: tg_attention_desc.alibi = 1");
  if (c->sinks && !a->problem.sinks)
    return wrong(a, "tg_attention_call.sinks is given, and the plan has none: tg_attention_desc.sinks = 1");
  if (c->block_mask && !a->problem.block_rows)
    return wrong(a, "tg_attention_call.block_mask is given, and the plan has none: tg_attention_desc.block_rows");
  if (c->mask && !a->problem.mask)
    return wrong(a, "tg_attention_call.mask is given, and the plan has none: tg_attention_desc.mask is its type");
  if (!a->append && (c->k_new || c->v_new))
    return wrong(a, "tg_attention_call.k_new or v_new is given, and the plan does not append: "
                    "tg_attention_desc.append = 1");
  if (!a->problem.dropout && (c->seed || c->offset))
    return wrong(a, "tg_attention_call.seed or offset is given, and the plan has none: tg_attention_desc.dropout");
  if (!a->problem.rotary && (c->cos || c->sin || c->positions))
    return wrong(a, "tg_attention_call.cos, sin or positions is given, and the plan has none: "
                    "tg_attention_desc.rotary");
  if (!a->problem.kv_bits && (c->k_scale || c->v_scale))
    return wrong(a, "tg_attention_call.k_scale or v_scale is given, and the plan has none: tg_attention_desc.kv_bits");
  if (!a->problem.page && (c->page_table || c->pages))
    return wrong(a, "tg_attention_call.page_table is given, and the plan has no pages: tg_attention_desc.page_size");
  if (!a->problem.backward && (c->d_o || c->d_q || c->d_k || c->d_v))
    return wrong(a, "tg_attention_call.d_o, d_q, d_k or d_v is given: they are for a plan with backward = 1");
  for (uint32_t i = a->problem.arguments_n; i < TG_ATTENTION_ARGS; i++)
    if (c->arg[i])
      return wrong(a, "tg_attention_call.arg[%u] is given, and the plan has %u: tg_attention_desc.arg names them", i,
                   a->problem.arguments_n);
  return TG_OK;
}

static tg_status read_tensors(tg_attention_work *w) {
  const tg_attention_call *c = w->call;
  const void *p[] = {c->q, c->k, c->v, c->o}, *of_gradients[] = {c->d_o, c->d_q, c->d_k, c->d_v};
  const int64_t *given[] = {c->q_strides, c->k_strides, c->v_strides, c->o_strides},
                *given_too[] = {c->d_o_strides, c->d_q_strides, c->d_k_strides, c->d_v_strides};
  tg_status s = TG_OK;
  for (uint32_t t = OF_Q; t <= OF_O && s == TG_OK; t++) s = read_tensor(w, t, p[t], given[t]);
  for (uint32_t i = 0; i < TG_COUNT(of_gradients) && s == TG_OK; i++) {
    w->of[OF_DO + i].bytes = 0;
    if (w->a->problem.backward) s = read_tensor(w, OF_DO + i, of_gradients[i], given_too[i]);
  }
  if (w->a->problem.kv_bits && s == TG_OK) s = read_tensor(w, OF_K_SCALE, c->k_scale, c->k_scale_strides);
  if (w->a->problem.kv_bits && s == TG_OK) s = read_tensor(w, OF_V_SCALE, c->v_scale, c->v_scale_strides);
  w->of[OF_K_NEW].bytes = w->of[OF_V_NEW].bytes = 0;
  if (w->a->append && s == TG_OK) s = read_tensor(w, OF_K_NEW, c->k_new, c->k_new_strides);
  if (w->a->append && c->v_new && s == TG_OK) s = read_tensor(w, OF_V_NEW, c->v_new, c->v_new_strides);
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
    for (int64_t i = 0; i < n; i++) {
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
  const tg_attention_call *c = w->call;
  const tg_attention *a = w->a;
  tg_context *context = a->plan.context;
  tg_status s = refuse_unread(w);
  if (s == TG_OK) s = read_tensors(w);
  if (s == TG_OK) s = read_table(w);
  if (s == TG_OK) s = read_angles(w);
  if (s != TG_OK) return s;
  /* the rows of O do not overlap, so their number is far below 2^62 */
  int64_t rows = a->heads * (c->query_starts ? w->total : w->batch * w->queries);
  w->of[OF_SLOPES] = tg_kit_vector("slopes", a->problem.alibi ? a->heads : 0, sizeof(float));
  w->of[OF_SINKS] = tg_kit_vector("sinks", a->problem.sinks && !a->problem.backward ? a->heads : 0, sizeof(float));
  w->of[OF_LSE] = tg_kit_vector("lse", c->lse || a->problem.backward ? rows : 0, sizeof(float));
  s = tg_kit_place(context, call_name, &w->of[OF_SLOPES], c->slopes);
  if (s == TG_OK) s = tg_kit_place(context, call_name, &w->of[OF_SINKS], c->sinks);
  if (s == TG_OK) s = tg_kit_place(context, call_name, &w->of[OF_LSE], c->lse);
  if (s == TG_OK) s = tg_attention_read_masks(w);
  return s == TG_OK ? check_overlaps(w) : s;
}
