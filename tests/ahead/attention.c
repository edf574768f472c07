/* SPDX-License-Identifier: MIT
 * Plans of attention that are built ahead of time (tg_build_attention): for each level of x86-64 that this machine runs
 * the functions give the bits of tg_attention_run with a plan for that level, in one task and dealt to several, dense
 * and with strides, with every variant; what is wrong is refused with nothing written. The object calls nothing: it is
 * linked with no library at all. */
#include <math.h>
#include <stdlib.h>
#include "../test.h"
#include "object.h"

/* The tensors of a call, in the order of the functions' arguments. Those up to V_SCALE have steps. */
enum {
  Q, K, V, O, LSE, DO, DQ, DK, DV, K_NEW, V_NEW, SLOPES, SINKS, MASK, ARG, ARG1, BLOCKS, K_SCALE, V_SCALE, COS, SIN,
  TABLE, LENGTHS, QUERY_STARTS, KEY_STARTS, TENSORS
};
enum { SIZES = 4, BATCH = 2, PACKED = 6, ROOM = 1 << 20, POSITIONS = 2100 };

typedef struct { const char *name; tg_attention_desc d; int64_t size[SIZES][2]; } one_case;

#define BOTTOM .causal = TG_CAUSAL_BOTTOM_RIGHT
#define BOTH TG_ATTENTION_QUERY_STARTS | TG_ATTENTION_KEY_STARTS
static const one_case cases[] = {
    {"plain", {.head = 32, .heads = 2, .queries = {1, 70}, .keys = {1, 200}}, {{1, 7}, {33, 200}, {70, 64}}},
    {"decode", {.head = 40, .heads = 8, .kv_heads = 2, .queries = {1, 9}, .keys = {1, 1500}, BOTTOM},
     {{1, 1500}, {9, 700}, {1, 3}, {2, 300}}},
    {"sinks", {.head = 16, .heads = 4, .kv_heads = 2, .queries = {1, 40}, .keys = {0, 2000}, .sinks = 1, .lse = 1,
               BOTTOM}, {{1, 9}, {1, 1500}, {17, 40}, {3, 0}}},
    {"documents", {.head = 16, .heads = 2, .kv_heads = 1, .queries = {1, 200}, .keys = {1, 300},
                   .mask_mod = "doc_q == doc_k || k < h", .arg = {{"doc_q", TG_I32, TG_PER_QUERY | TG_PER_BATCH},
                                                                 {"doc_k", TG_I32, TG_PER_KEY | TG_PER_BATCH}}},
     {{200, 200}, {1, 300}, {130, 300}}},
    {"bools", {.head = 16, .heads = 2, .queries = {1, 150}, .keys = {1, 300}, .mask = TG_BOOL, BOTTOM, .lse = 1,
               .mask_per = TG_PER_BATCH | TG_PER_QUERY | TG_PER_KEY, .flags = TG_ATTENTION_LENGTHS},
     {{3, 300}, {150, 300}, {20, 50}}},
    {"blocks", {.head = 16, .heads = 2, .queries = {1, 200}, .keys = {1, 300}, .block_rows = 64, .block_keys = 64,
                .block_per = TG_PER_HEAD, BOTTOM, .window = 120}, {{200, 300}, {70, 64}, {2, 200}}},
    {"cache", {.head = 16, .value_head = 24, .heads = 4, .kv_heads = 2, .queries = {1, 20}, .keys = {20, 900}, BOTTOM,
               .page_size = 12, .append = 1, .q = TG_F32, .k = TG_F16}, {{1, 900}, {20, 77}, {7, 300}}},
    {"nibbles", {.head = 64, .heads = 4, .kv_heads = 2, .queries = {1, 20}, .keys = {1, 1100}, BOTTOM, .kv_bits = 4,
                 .kv_group = 32, .kv_scale = TG_F16, .page_size = 32}, {{1, 1100}, {20, 77}}},
    {"turned", {.head = 32, .heads = 4, .kv_heads = 2, .queries = {1, 30}, .keys = {30, 700}, BOTTOM, .rotary = 16},
     {{1, 700}, {30, 77}}},
    {"gradients", {.head = 16, .value_head = 24, .heads = 4, .kv_heads = 2, .queries = {0, 50}, .keys = {0, 300},
                   BOTTOM, .backward = 1}, {{50, 50}, {40, 300}, {0, 9}, {3, 0}}},
    {"rounded", {.head = 16, .heads = 2, .queries = {1, 60}, .keys = {1, 300}, .q = TG_BF16, .backward = 1, .alibi = 1,
                 .flags = TG_ATTENTION_LENGTHS}, {{60, 300}, {2, 40}}},
    {"masked", {.head = 16, .heads = 2, .queries = {1, 60}, .keys = {1, 300}, .backward = 1, .dropout = 0.1f,
                .mask = TG_F32, .mask_per = TG_PER_QUERY | TG_PER_KEY}, {{60, 300}, {2, 40}}},
    {"behind", {.head = 16, .heads = 4, .kv_heads = 2, .queries = {1, 40}, .keys = {1, 900}, BOTTOM, .flags = BOTH},
     {{40, 900}, {1, 700}, {3, 64}}},
    {"through", {.head = 16, .heads = 2, .queries = {1, 150}, .keys = {1, 200}, .lse = 1, .flags = BOTH,
                 .mask_mod = "doc_q == doc_k || k == q",
                 .arg = {{"doc_q", TG_I32, TG_PER_QUERY | TG_PACKED}, {"doc_k", TG_I32, TG_PER_KEY | TG_PACKED}}},
     {{150, 200}, {20, 70}, {1, 200}}},
    {"served", {.head = 16, .value_head = 24, .heads = 4, .kv_heads = 1, .queries = {1, 20}, .keys = {20, 700}, BOTTOM,
                .page_size = 12, .append = 1, .lse = 1, .k = TG_F16,
                .flags = TG_ATTENTION_QUERY_STARTS | TG_ATTENTION_LENGTHS}, {{20, 700}, {1, 300}}},
    {"trained", {.head = 16, .value_head = 24, .heads = 4, .kv_heads = 2, .queries = {1, 50}, .keys = {1, 300}, BOTTOM,
                 .backward = 1, .flags = BOTH}, {{50, 300}, {7, 9}}},
    /* those that stand alone for what the ones before have beside other things: only with "all" */
    {"window", {.head = 16, .heads = 4, .kv_heads = 4, .queries = {1, 80}, .keys = {1, 400}, BOTTOM, .window = 90,
                .lse = 1}, {{1, 400}, {80, 90}, {5, 300}}},
    {"alibi", {.head = 24, .value_head = 20, .heads = 3, .queries = {50}, .keys = {60}, .alibi = 1, .lse = 1},
     {{50, 60}}},
    {"rule", {.head = 16, .heads = 2, .queries = {1, 20}, .keys = {1, 100}, .soft_cap = 20,
              .score_mod = "score * f32(h + 1) - f32(k % 3)"}, {{1, 100}, {20, 31}}},
    {"top", {.head = 16, .heads = 2, .queries = {40}, .keys = {1, 64}, .causal = TG_CAUSAL_TOP_LEFT, .threads = 2},
     {{40, 64}, {40, 9}}},
    {"added", {.head = 16, .heads = 2, .queries = {1, 70}, .keys = {1, 200}, .mask = TG_BF16,
               .mask_per = TG_PER_HEAD | TG_PER_QUERY | TG_PER_KEY}, {{1, 200}, {70, 130}}},
    {"biased", {.head = 16, .heads = 2, .queries = {1, 40}, .keys = {1, 90}, .score_mod = "score + bias * f32(step)",
                .arg = {{"bias", TG_F16, TG_PER_HEAD | TG_PER_KEY}, {"step", TG_U8, 0}}}, {{40, 90}, {1, 33}}},
    {"both", {.head = 16, .heads = 2, .queries = {1, 200}, .keys = {1, 300}, .block_rows = 32, .block_keys = 96,
              .mask_mod = "(q + k) % 5 > 0"}, {{200, 300}, {100, 90}}},
    {"pages", {.head = 16, .heads = 4, .kv_heads = 2, .queries = {1, 40}, .keys = {1, 1200}, .page_size = 16, BOTTOM,
               .flags = TG_ATTENTION_LENGTHS}, {{1, 1200}, {40, 77}, {5, 500}}},
    {"grown", {.head = 16, .heads = 2, .queries = {1, 20}, .keys = {20, 900}, BOTTOM, .append = 1, .window = 50},
     {{1, 900}, {20, 77}}},
    {"bytes", {.head = 32, .heads = 4, .kv_heads = 2, .queries = {1, 20}, .keys = {1, 1100}, BOTTOM, .kv_bits = 8},
     {{1, 1100}, {20, 77}}},
    {"left", {.head = 32, .heads = 2, .queries = {40}, .keys = {1, 70}, .causal = TG_CAUSAL_TOP_LEFT, .rotary = 32,
              .rotary_neighbours = 1}, {{40, 70}, {40, 20}}},
    {"dropped", {.head = 16, .heads = 2, .queries = {1, 60}, .keys = {1, 200}, .dropout = 0.25f}, {{60, 200}, {1, 50}}},
    {"halves", {.head = 64, .heads = 4, .kv_heads = 1, .queries = {1, 60}, .keys = {1, 600}, .q = TG_BF16, .base2 = 1,
                BOTTOM, .lse = 1}, {{60, 200}, {1, 600}}},
    {"keys", {.head = 32, .heads = 4, .kv_heads = 2, .queries = {1, 20}, .keys = {1, 700}, BOTTOM, .kv_bits = 8,
              .flags = TG_ATTENTION_KEY_STARTS | TG_ATTENTION_LENGTHS}, {{1, 700}, {20, 77}}},
    {"queries", {.head = 16, .heads = 6, .kv_heads = 2, .queries = {1, 20}, .keys = {20, 400}, BOTTOM, .append = 1,
                 .window = 50, .sinks = 1, .flags = TG_ATTENTION_QUERY_STARTS}, {{20, 400}, {1, 77}}},
    {"angles", {.head = 32, .heads = 4, .kv_heads = 2, .queries = {1, 30}, .keys = {30, 300}, BOTTOM, .rotary = 16,
                .append = 1, .flags = BOTH}, {{30, 300}, {1, 40}}},
    {"rows", {.head = 16, .heads = 40, .kv_heads = 2, .queries = {1, 4}, .keys = {1, 300}, BOTTOM, .flags = BOTH},
     {{4, 300}, {1, 300}}},
    {"within", {.head = 16, .heads = 2, .queries = {1, 150}, .keys = {1, 200}, .mask = TG_BOOL, .flags = BOTH,
                .mask_per = TG_PER_BATCH | TG_PER_QUERY | TG_PER_KEY, .block_rows = 64, .block_keys = 64,
                .block_per = TG_PER_BATCH | TG_PER_HEAD}, {{150, 200}, {30, 64}}},
    {"added_through", {.head = 16, .heads = 2, .queries = {1, 40}, .keys = {1, 90}, .mask = TG_F32, .dropout = 0.2f,
                       .mask_per = TG_PER_HEAD | TG_PER_KEY | TG_PACKED, .alibi = 1, .lse = 1, .flags = BOTH},
     {{40, 90}, {1, 33}}},
    {"learned", {.head = 16, .heads = 2, .queries = {3, 60}, .keys = {1, 300}, .q = TG_BF16, .backward = 1,
                 .flags = BOTH | TG_ATTENTION_LENGTHS, .dropout = 0.1f}, {{60, 300}, {3, 40}}},
    {"fixed", {.head = 16, .heads = 2, .queries = {9}, .keys = {70}, .causal = TG_CAUSAL_TOP_LEFT, .lse = 1,
               .flags = BOTH}, {{9, 70}}},
};
enum { CASES = sizeof cases / sizeof *cases, USUAL = 16 };

/* The memory of a call, of which there are three: the plan's, the function's, and what both are before. */
typedef struct { char *at[TENSORS]; } memory;
enum { PLANS, FUNCTIONS, BEFORE, MEMORIES };

static uint32_t next_random(void) {
  static uint32_t state = 1;
  return state = state * 1664525u + 1013904223u, state >> 8;
}

static tg_type type_of(const tg_attention_desc *d, int t) {
  const tg_type q = d->q ? d->q : TG_F32, k = d->k ? d->k : d->kv_bits ? TG_I8 : q;
  switch (t) {
  case K: case V: case DK: case DV: case K_NEW: case V_NEW: return k;
  case Q: case O: case DO: case DQ: return q;
  case MASK: return d->mask;
  case ARG: case ARG1: return d->arg[t - ARG].type;
  case BLOCKS: return TG_BOOL;
  case K_SCALE: case V_SCALE: return d->kv_scale ? d->kv_scale : TG_F32;
  case TABLE: case LENGTHS: case QUERY_STARTS: case KEY_STARTS: return TG_I32;
  default: return TG_F32;
  }
}

static bool has(const tg_attention_desc *d, int t) {
  switch (t) {
  case LSE: return d->lse || d->backward;
  case DO: case DQ: case DK: case DV: return d->backward;
  case K_NEW: case V_NEW: return d->append;
  case SLOPES: return d->alibi;
  case SINKS: return d->sinks;
  case MASK: return d->mask;
  case ARG: case ARG1: return d->arg[t - ARG].name;
  case BLOCKS: return d->block_rows;
  case K_SCALE: case V_SCALE: return d->kv_bits;
  case COS: case SIN: return d->rotary;
  case TABLE: return d->page_size;
  case LENGTHS: return d->flags & TG_ATTENTION_LENGTHS;
  case QUERY_STARTS: return d->flags & TG_ATTENTION_QUERY_STARTS;
  case KEY_STARTS: return d->flags & TG_ATTENTION_KEY_STARTS;
  default: return true;
  }
}

/* Numbers within -1/2..1/2; documents, bools and bytes; what pages and lengths are is set for a call. */
static void fill(const tg_attention_desc *d, int t, char *at) {
  tg_type type = type_of(d, t);
  float x[1];
  for (int i = 0; i < ROOM / 4; i++) {
    uint32_t r = next_random(), bits;
    x[0] = (float)(r & 4095) / 4096 - 0.5f;
    memcpy(&bits, x, 4);
    if (type == TG_F32) memcpy(at + 4 * i, x, 4);
    else if (type == TG_BF16) memcpy(at + 2 * i, (uint16_t[]){(uint16_t)(bits >> 16)}, 2);
    else if (type == TG_F16) memcpy(at + 2 * i, (uint16_t[]){(uint16_t)((r & 0x8000) | 0x3400 | (r & 511))}, 2);
    else if (type == TG_I32) memcpy(at + 4 * i, (int32_t[]){(int32_t)(i / 60)}, 4);
    else if (type == TG_BOOL) at[i] = r % 8 > 1 || i % 7 == 0;
    else at[i] = (char)r;
  }
}

static int64_t sequences_of(const tg_attention_desc *d) {
  return has(d, QUERY_STARTS) || has(d, KEY_STARTS) ? PACKED : BATCH;
}

static bool is_keys(int t) { return t == K || t == V || t == DK || t == DV || t == K_SCALE || t == V_SCALE; }

/* Is it among what lies packed? */
static bool is_packed(const tg_attention_desc *d, int t) {
  return has(d, is_keys(t) ? KEY_STARTS : QUERY_STARTS);
}

/* Starts of sequences of 1..most tokens, or none; the first has the most, the second the fewest, the third none. least:
 * NULL, or starts of sequences, none of which is longer. Returns all tokens. */
static int32_t draw_starts(char *at, tg_dim size, int64_t most, const int32_t *least) {
  int32_t starts[PACKED + 1] = {3}, low = size.hi ? (int32_t)size.lo : (int32_t)most;
  for (int b = 0; b < PACKED; b++) {
    int32_t drawn = low + (int32_t)(next_random() % (uint32_t)(most - low + 1)), n = b == 0 ? (int32_t)most : drawn;
    if (b == 1) n = low;
    if (b == 2) n = 0;
    if (least && n < least[b + 1] - least[b]) n = least[b + 1] - least[b];
    starts[b + 1] = starts[b] + n;
  }
  memcpy(at, starts, sizeof starts);
  return starts[PACKED];
}

/* Draws what is packed and how long sequences are. */
static void draw_lists(const tg_attention_desc *d, const memory *m, tg_attention_call *x, int64_t queries,
                       int64_t keys) {
  int64_t batch = sequences_of(d);
  if (has(d, QUERY_STARTS)) {
    x->query_starts = (int32_t *)(void *)m->at[QUERY_STARTS];
    draw_starts(m->at[QUERY_STARTS], d->queries, queries, NULL);
  }
  if (has(d, KEY_STARTS)) {
    x->key_starts = (int32_t *)(void *)m->at[KEY_STARTS];
    draw_starts(m->at[KEY_STARTS], d->keys, keys, d->append || d->rotary ? x->query_starts : NULL);
  }
  int32_t lengths[PACKED];
  if (!has(d, LENGTHS)) return;
  for (int64_t b = 0; b < batch; b++) {
    int32_t all = x->key_starts ? x->key_starts[b + 1] - x->key_starts[b] : (int32_t)keys;
    int32_t n = x->query_starts && d->append ? x->query_starts[b + 1] - x->query_starts[b] : 0;
    lengths[b] = all - (b ? all / 3 : 0);
    if (lengths[b] < n) lengths[b] = n;
  }
  memcpy(m->at[LENGTHS], lengths, (size_t)batch * sizeof *lengths);
  x->key_lengths = (int32_t *)(void *)m->at[LENGTHS];
}

static void steps_of(int64_t s[3], int64_t heads, int64_t tokens, int64_t wide, bool by_token) {
  s[0] = by_token ? heads * tokens * wide : 0, s[1] = by_token ? wide : 0, s[2] = by_token ? heads * wide : 0;
}

static int64_t *steps_in(tg_attention_call *x, int t) {
  switch (t) {
  case Q: return x->q_strides;
  case K: return x->k_strides;
  case V: return x->v_strides;
  case O: return x->o_strides;
  case DO: return x->d_o_strides;
  case DQ: return x->d_q_strides;
  case DK: return x->d_k_strides;
  case DV: return x->d_v_strides;
  case K_NEW: return x->k_new_strides;
  case V_NEW: return x->v_new_strides;
  case K_SCALE: return x->k_scale_strides;
  case V_SCALE: return x->v_scale_strides;
  default: return NULL;
  }
}

/* The call of the plan on its memory. */
static tg_attention_call call_of(const one_case *c, const memory *m, int64_t queries, int64_t keys, bool by_token) {
  const tg_attention_desc *d = &c->d;
  int64_t heads = d->heads, kv = d->kv_heads ? d->kv_heads : heads, e = d->value_head ? d->value_head : d->head,
          tokens = d->page_size ? d->page_size : keys, packed = d->kv_bits == 4 ? 2 : 1,
          k_groups = d->kv_group ? d->head / d->kv_group : 1, v_groups = d->kv_group ? e / d->kv_group : 1;
  tg_attention_call x = {.batch = sequences_of(d), .q = m->at[Q], .k = m->at[K], .v = m->at[V], .o = m->at[O]};
  x.queries = d->queries.hi ? queries : 0, x.keys = d->keys.hi ? keys : 0;
  if (has(d, LSE)) x.lse = (float *)(void *)m->at[LSE];
  if (d->backward) x.d_o = m->at[DO], x.d_q = m->at[DQ], x.d_k = m->at[DK], x.d_v = m->at[DV];
  if (d->append) x.k_new = m->at[K_NEW], x.v_new = m->at[V_NEW];
  if (d->alibi) x.slopes = (float *)(void *)m->at[SLOPES];
  if (d->sinks) x.sinks = (float *)(void *)m->at[SINKS];
  if (d->mask) x.mask = m->at[MASK];
  for (int i = 0; i < 2; i++)
    if (d->arg[i].name) x.arg[i] = m->at[ARG + i];
  if (d->block_rows) x.block_mask = (uint8_t *)m->at[BLOCKS];
  if (d->kv_bits) x.k_scale = m->at[K_SCALE], x.v_scale = m->at[V_SCALE];
  if (d->rotary) x.cos = (float *)(void *)m->at[COS], x.sin = (float *)(void *)m->at[SIN], x.positions = POSITIONS;
  if (d->dropout > 0) x.seed = 0x123456789abcdefu, x.offset = 7;
  if (d->page_size) {
    x.page_table = (int32_t *)(void *)m->at[TABLE];
    x.page_table_stride = (keys + d->page_size - 1) / d->page_size + 1, x.pages = x.batch * x.page_table_stride;
    for (int32_t i = 0; i < x.pages; i++) {
      int32_t page = i * 2 < x.pages ? 2 * i : (int32_t)(2 * (x.pages - 1 - i) + 1);   /* each once */
      memcpy(m->at[TABLE] + 4 * i, &page, 4);
    }
  }
  draw_lists(d, m, &x, queries, keys);
  const int64_t wide[] = {d->head / 1, d->head / packed, e / packed, e};
  steps_of(x.q_strides, heads, queries, wide[0], by_token), steps_of(x.o_strides, heads, queries, wide[3], by_token);
  steps_of(x.k_strides, kv, tokens, wide[1], by_token), steps_of(x.v_strides, kv, tokens, wide[2], by_token);
  if (d->backward) {
    steps_of(x.d_q_strides, heads, queries, d->head, by_token), steps_of(x.d_o_strides, heads, queries, e, by_token);
    steps_of(x.d_k_strides, kv, keys, d->head, by_token), steps_of(x.d_v_strides, kv, keys, e, by_token);
  }
  if (d->append) {
    steps_of(x.k_new_strides, kv, queries, d->head, by_token), steps_of(x.v_new_strides, kv, queries, e, by_token);
  }
  if (d->kv_bits) {
    steps_of(x.k_scale_strides, kv, tokens, k_groups, by_token);
    steps_of(x.v_scale_strides, kv, tokens, v_groups, by_token);
  }
  /* what is packed is dense by token, and else by head: as the steps say, which leave room for all tokens */
  for (int t = 0; t < TENSORS && by_token; t++) {
    int64_t *s = steps_in(&x, t), of_head = s ? s[1] : 0;
    if (of_head && is_packed(d, t))
      s[0] = 0, s[1] = (PACKED * (is_keys(t) ? keys : queries) + 3) * of_head, s[2] = of_head;
  }
  return x;
}

static int bits_in(uint8_t per) { return !!(per & 1) + !!(per & 2) + !!(per & 4) + !!(per & 8); }

static int64_t tokens_of(const tg_attention_call *x) { return x->query_starts ? x->query_starts[x->batch] : 0; }

/* The same as the function's arguments. */
static object_call words_of(const one_case *c, const memory *m, tg_attention_call *x, void *workspace, size_t bytes,
                            int threads, int64_t *dealt) {
  const tg_attention_desc *d = &c->d;
  object_call w = {.n = 0};
  for (int t = 0; t < TENSORS; t++)
    if (has(d, t)) object_buffer(&w, m->at[t], ROOM);
  object_word(&w, x->batch);
  if (d->queries.hi) object_word(&w, x->queries);
  if (d->keys.hi) object_word(&w, x->keys);
  if (x->query_starts) object_word(&w, tokens_of(x));
  if (x->key_starts) object_word(&w, x->key_starts[x->batch]);
  if (d->page_size) object_word(&w, x->pages), object_word(&w, x->page_table_stride);
  if (d->rotary) object_word(&w, x->positions);
  if (d->dropout > 0)
    object_word(&w, (int64_t)(uint32_t)x->seed), object_word(&w, (int64_t)(x->seed >> 32)), object_word(&w, x->offset);
  for (int t = 0; t < TENSORS; t++) {
    const int64_t *s = steps_in(x, t);
    int n = s ? 3 : t == MASK ? bits_in(d->mask_per) : t == ARG || t == ARG1 ? bits_in(d->arg[t - ARG].per)
            : t == BLOCKS ? 2 + bits_in(d->block_per) : 0;
    for (int i = s && is_packed(d, t); i < n && has(d, t); i++) object_word(&w, s ? s[i] : 0);
  }
  object_buffer(&w, workspace, bytes);
  object_word(&w, threads), object_pointer(&w, threads > 1 ? (void *)object_last_first : NULL);
  object_pointer(&w, dealt);
  return w;
}

static void fill_all(const one_case *c, memory m[MEMORIES]) {
  for (int t = 0; t < TENSORS; t++) {
    char *at = m[BEFORE].at[t];
    if (!has(&c->d, t)) continue;
    if (t == O || t == DQ || t == DK || t == DV || t == LSE) memset(at, 0x5a, ROOM);
    else fill(&c->d, t, at);
    if (t == BLOCKS) memset(at, 1, 3), at[1] = 0;
  }
}

static void copy_all(const one_case *c, memory m[MEMORIES], int to, int from) {
  for (int t = 0; t < TENSORS; t++)
    if (has(&c->d, t)) memcpy(m[to].at[t], m[from].at[t], ROOM);
}

static int differs(const one_case *c, const memory m[MEMORIES]) {
  for (int t = 0; t < TENSORS; t++)
    if (has(&c->d, t) && memcmp(m[PLANS].at[t], m[FUNCTIONS].at[t], ROOM)) return t;
  return -1;
}

/* The plan of O and LSE of which gradients are computed; NULL: c is of none. */
static tg_attention *forward_of(tg_context *context, const one_case *c) {
  tg_attention_desc d = c->d;
  tg_attention *a = NULL;
  if (!d.backward) return NULL;
  d.backward = 0, d.lse = 1;
  CHECK(tg_attention_plan(context, &d, &a) == TG_OK, "%s: forward: %s", c->name, tg_error_message(context));
  return a;
}

static void run_forward(const tg_attention *a, const one_case *c, const tg_attention_call *x, void *workspace) {
  tg_attention_call f = *x;
  f.d_o = NULL, f.d_q = f.d_k = f.d_v = NULL, f.workspace = workspace, f.workspace_bytes = ROOM;
  CHECK(tg_attention_run(a, &f) == TG_OK, "%s: forward", c->name);
}

typedef struct { const tg_attention *plan, *forward; object_function *f, *workspace; const char *level; } pair;

static void compare(tg_context *context, const one_case *c, memory m[MEMORIES], const pair *p, const int64_t size[2],
                    bool by_token) {
  char *room = aligned_alloc(64, ROOM);
  for (int threads = 1; threads <= 3; threads++) {
    int64_t dealt = 0;
    copy_all(c, m, PLANS, BEFORE);
    tg_attention_call x = call_of(c, &m[PLANS], size[0], size[1], by_token);
    if (p->forward) run_forward(p->forward, c, &x, room);
    copy_all(c, m, FUNCTIONS, PLANS);
    x.workspace = room, x.workspace_bytes = ROOM;
    object_call sizes = {.n = 5, .word = {x.batch, size[0], size[1], x.query_starts ? tokens_of(&x) : threads, threads}};
    size_t bytes = (size_t)(unsigned)object_run(p->workspace, &sizes);
    if (bytes && threads == 1) {
      object_call less = words_of(c, &m[FUNCTIONS], &x, room, bytes - 1, threads, &dealt);
      int got = object_run(p->f, &less);
      CHECK((got > 0 || !size[0]) && differs(c, m) < 0, "%s: a byte less of workspace: %d", c->name, got);
    }
    for (uint32_t i = 0; i < 8 && size[0] && size[1] && threads == 1; i++) {
      object_call bad = words_of(c, &m[FUNCTIONS], &x, room, bytes, threads, &dealt);
      bad.word[i] = i % 2 ? 3 : 0;   /* too few bytes; NULL */
      CHECK(object_run(p->f, &bad) > 0 && differs(c, m) < 0, "%s: word %u", c->name, i);
    }
    tg_status s = tg_attention_run(p->plan, &x);
    memset(room, 0x5a, ROOM);
    object_call w = words_of(c, &m[FUNCTIONS], &x, room, bytes, threads, &dealt);
    int got = object_run(p->f, &w), other = differs(c, m);
    CHECK(s == TG_OK && !got && other < 0, "%s, %s: %d queries, %d keys, by token %d, threads %d: plan %d (%s), "
          "function %d, tensor %d differs", c->name, p->level, (int)size[0], (int)size[1], by_token, threads, (int)s,
          s == TG_OK ? "" : tg_error_message(context), got, other);
    for (size_t i = bytes; i < ROOM; i++)
      if (room[i] != 0x5a) { CHECK(false, "%s: byte %zu behind the workspace", c->name, i - bytes); break; }
  }
  free(room);
}

/* What only some calls can have wrong: lengths, pages, positions. */
static void wrong_lists(const one_case *c, memory m[MEMORIES], const pair *p, const int64_t size[2]) {
  char *room = aligned_alloc(64, ROOM);
  const int list[] = {LENGTHS, TABLE, QUERY_STARTS, KEY_STARTS};
  object_function *f = p->f;
  copy_all(c, m, PLANS, BEFORE);
  tg_attention_call x = call_of(c, &m[PLANS], size[0], size[1], false);
  for (int k = 0; k < 4; k++)
    for (int32_t bad = -1; bad < 1 << 20 && has(&c->d, list[k]); bad += 1 << 20) {
      copy_all(c, m, FUNCTIONS, PLANS);
      memcpy(m[FUNCTIONS].at[list[k]] + 4, &bad, 4), memcpy(m[PLANS].at[list[k]] + 4, &bad, 4);
      object_call w = words_of(c, &m[FUNCTIONS], &x, room, ROOM, 1, NULL);
      x.workspace = room, x.workspace_bytes = ROOM;
      tg_status s = tg_attention_run(p->plan, &x);
      CHECK(object_run(f, &w) > 0 && s == TG_EINVAL && differs(c, m) < 0, "%s: list %d has %d", c->name, k, (int)bad);
      x = call_of(c, &m[PLANS], size[0], size[1], false);
    }
  if (c->d.rotary) {
    x.positions = size[1] - 1, copy_all(c, m, FUNCTIONS, PLANS);
    object_call w = words_of(c, &m[FUNCTIONS], &x, room, ROOM, 1, NULL);
    CHECK(object_run(f, &w) > 0 && differs(c, m) < 0, "%s: %d positions", c->name, (int)x.positions);
  }
  free(room);
}

/* Merges of results that are drawn, with rows of -inf among them, against those of the plan; what is wrong, too. */
static void compare_merges(const one_case *c, memory m[MEMORIES], const tg_attention *a, object_function *f,
                           int64_t queries) {
  enum { PARTS = 6 };
  static const int part[PARTS] = {Q, LSE, K, SLOPES, O, SINKS};   /* memory for: first, second, O, and LSE of each */
  const tg_attention_desc *d = &c->d;
  const int64_t rows = BATCH * (d->heads ? d->heads : 1) * queries, wide = d->value_head ? d->value_head : d->head;
  const size_t bytes[2] = {(size_t)(rows * wide * (type_of(d, O) == TG_F32 ? 4 : 2)), (size_t)rows * sizeof(float)};
  for (int i = 0; i < PARTS; i++) {
    char *at = m[PLANS].at[part[i]];
    fill(d, i % 2 ? LSE : O, at);
    for (int64_t r = 0; r < rows && i % 2; r++)   /* each alone, and both */
      if ((r >> (i / 2)) % 8 == 0) memcpy(at + 4 * r, (float[]){-INFINITY}, 4);
    memcpy(m[FUNCTIONS].at[part[i]], at, ROOM);
  }
  tg_attention_merge_call x = {.batch = BATCH, .queries = d->queries.hi ? queries : 0,
                               .first = m[PLANS].at[Q], .second = m[PLANS].at[K], .o = m[PLANS].at[O],
                               .first_lse = (float *)(void *)m[PLANS].at[LSE],
                               .second_lse = (float *)(void *)m[PLANS].at[SLOPES],
                               .lse = (float *)(void *)m[PLANS].at[SINKS]};
  for (int wrong = PARTS + 1; wrong >= 0; wrong--) {   /* an operand has too few bytes; O lies in the first; none */
    object_call w = {.n = 0};
    for (int i = 0; i < PARTS; i++)
      object_buffer(&w, m[FUNCTIONS].at[wrong == PARTS + 1 && i == 4 ? Q : part[i]], bytes[i % 2] - (wrong == i + 1));
    object_word(&w, BATCH);
    if (d->queries.hi) object_word(&w, queries);
    int got = object_run(f, &w), differ = 0;
    if (!wrong) CHECK(tg_attention_merge(a, &x) == TG_OK, "%s: a merge", c->name);
    for (int i = 0; i < PARTS; i++) differ += memcmp(m[PLANS].at[part[i]], m[FUNCTIONS].at[part[i]], ROOM) != 0;
    CHECK((got > 0) == (wrong > 0) && !differ, "%s: merge of %d queries, wrong %d: function %d, %d differ", c->name,
          (int)queries, wrong, got, differ);
  }
}

static void one(const one_case *c, memory m[MEMORIES], const char *const *levels, uint32_t n) {
  const char *level = levels[n - 1];
  char name[64];
  tg_context *x = NULL;
  tg_attention *a = NULL;
  tg_built *b = NULL;
  CHECK(tg_context_create(&(tg_context_options){.target = level, .threads = 3}, &x) == TG_OK, "%s", level);
  CHECK(tg_attention_plan(x, &c->d, &a) == TG_OK, "%s: %s", c->name, tg_error_message(x));
  CHECK(tg_build_attention(x, &c->name, &c->d, 1, levels, n, &b) == TG_OK, "%s: %s", c->name, tg_error_message(x));
  void *library = b ? object_open(b, c->name) : NULL;
  snprintf(name, sizeof name, "%s_workspace", c->name);
  object_function *f = library ? object_find(library, c->name) : NULL;
  object_function *workspace = library ? object_find(library, name) : NULL;
  CHECK(f && workspace, "%s: its functions", c->name);
  snprintf(name, sizeof name, "%s_merge", c->name);
  object_function *merge = library ? object_find(library, name) : NULL;
  CHECK(!merge == !(c->d.lse && !c->d.sinks), "%s: has it a merge?", c->name);
  for (int i = 0; i < SIZES && c->size[i][0] && merge && a; i++) compare_merges(c, m, a, merge, c->size[i][0]);
  tg_attention *forward = forward_of(x, c);
  const pair p = {a, forward, f, workspace, level};
  fill_all(c, m);
  for (int i = 0; i < SIZES && (i == 0 || c->size[i][0] || c->size[i][1]) && f && workspace && a; i++) {
    for (int by_token = 0; by_token < 2; by_token++)
      compare(x, c, m, &p, c->size[i], by_token);
    if (!i) wrong_lists(c, m, &p, c->size[i]);
  }
  object_close(library);
  tg_built_free(b);
  tg_attention_free(a), tg_attention_free(forward);
  tg_context_free(x);
}

static void refusals(const char *const *levels, uint32_t n) {
  const tg_attention_desc wrong = {.head = 0, .queries = {4}, .keys = {8}}, none = {.head = 16, .queries = {4}};
  const char *name = "a";
  tg_context *c = NULL;
  tg_built *b = NULL;
  CHECK(tg_context_create(NULL, &c) == TG_OK, "a context");
  CHECK(tg_build_attention(c, &name, &none, 1, levels, n, &b) == TG_ELIMIT && !b, "%s", tg_error_message(c));
  CHECK(tg_build_attention(c, &name, &wrong, 1, levels, n, &b) == TG_EINVAL &&
            strstr(tg_error_message(c), "a: tg_attention_desc.head"), "%s", tg_error_message(c));
  tg_context_free(c);
}

int main(int argc, char **argv) {
  const char *level[OBJECT_LEVELS];
  uint32_t levels = object_levels(level);
  memory m[MEMORIES];
  for (int t = 0; t < MEMORIES * TENSORS; t++) m[t / TENSORS].at[t % TENSORS] = aligned_alloc(64, ROOM);
  CHECK(object_begin(), "a folder");
  if (!levels) return printf("skipped: no level of x86-64 runs here\n"), TEST_END();
  refusals(level, levels);
  /* the first case with code for all levels, the others for one, each level in its turn; "all": all for all */
  const bool all = argc > 1 && !strcmp(argv[1], "all");
  for (int i = 0; i < CASES; i++) {
    if (argc > 1 ? !all && strcmp(argv[1], cases[i].name) : i >= USUAL) continue;
    if (!i || all) one(&cases[i], m, level, levels);
    else one(&cases[i], m, &level[(uint32_t)i % levels], 1);
    for (uint32_t k = 0; k + 1 < levels && all; k++) one(&cases[i], m, &level[k], 1);
  }
  for (int t = 0; t < MEMORIES * TENSORS; t++) free(m[t / TENSORS].at[t % TENSORS]);
  object_end();
  return TEST_END();
}
