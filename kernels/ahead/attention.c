/* SPDX-License-Identifier: MIT
 * A plan of attention as a function: its arguments and their checks, the words of a call, kernels, and rounds that are
 * dealt to threads. What pieces of rounds do stands in attention_text.c. */
#include <stdio.h>
#include "ahead/attention.h"
#include "ahead/function.h"
#include "ahead/procedure.h"
#include "kit/words.h"

/* The words of a call, which all its pieces get: C_NAME. Then the tensors: T_NAME is the address of operand NAME,
 * behind it are four steps, in elements, the bytes of an element, and 1 for a mask that counts through packed
 * sequences. */
#define CALL_WORDS(X)                                                                                                 \
  X(BATCH) X(QUERIES) X(KEYS) X(PAGES) X(TABLE_STEP) X(POSITIONS) X(PHILOX) X(OFFSET) X(SCALE) X(CAP) X(CHANGE)       \
  X(QUERY_TOKENS) X(KEY_TOKENS) X(MEMORY) X(SUMS) X(FLOATS) X(FIRSTS) X(STATES) X(STATE_ROWS) X(STATE_KEYS)           \
  X(TABLES) X(LISTS) X(OWN) X(OWN_BYTES) X(RUNS_OF) X(MERGES_OF) X(APPENDS) X(FINDS) X(RUNS) X(MERGES) X(TASKS)
/* Those of a sequence: tg_attention_sequence. MOST: parts that its keys, or fewer, may be divided into. SUMS: where its
 * floats are. ROOM: its keys with those behind key_lengths. */
#define SEQUENCE_WORDS(X)                                                                                             \
  X(INDEX) X(QUERIES) X(KEYS) X(SKIPPED) X(HEADS_ARE_ROWS) X(HEADS) X(ROWS) X(BLOCK) X(BLOCKS) X(LACKING) X(MOST)     \
  X(PARTS) X(PART) X(FLOATS) X(SUMS) X(ROOM) X(FIRST_QUERY) X(FIRST_KEY)
/* Those of a sequence in the table of packed ones: what those before it have. */
#define FIRST_WORDS(X) X(RUNS) X(MERGES) X(FLOATS)
enum {
  LENGTHS = ATTENTION_OPERANDS,   /* beside the operands */
  QUERY_STARTS,
  KEY_STARTS,
  TENSORS,
  OF_TENSOR = 7,
  MOST_PARAMS = 96,
  MOST_CONSTANTS = 400
};
enum {
#define WORD(name) C_##name,
  CALL_WORDS(WORD)
#undef WORD
  C_TENSORS,
  C_WORDS = C_TENSORS + TENSORS * OF_TENSOR
};
enum {
#define WORD(name) S_##name,
  SEQUENCE_WORDS(WORD)
#undef WORD
  S_WORDS
};
enum {
#define WORD(name) F_##name,
  FIRST_WORDS(WORD)
#undef WORD
  F_WORDS
};

/* A size of a tensor: a parameter of the function, in parts of `n` rounded up, or (of a list) a text of one; or (param
 * NULL) n. n 0: the tensor has no such dimension. */
typedef struct { const char *param; int64_t n; } extent;
/* step: names behind the stem, NULL: it lies dense; then steps that are all 0 are dense, too. */
typedef struct {
  uint32_t of;
  const char *name, *role, *stem;
  tg_type type;
  const char *const *step;
  uint32_t steps, rank;
  extent extent[TG_KIT_DIMS];
} tensor;

typedef struct {
  tg_function f;
  const tg_attention *const *a;
  const tg_attention_desc *d;
  uint32_t number;
  tensor tensor[TENSORS];
  uint32_t tensors_n;
  tg_binding param[MOST_PARAMS];
  uint32_t params_n;
} attention;

static const tg_ir closure = {"%c"};

static tg_ir n_of(int64_t n) { return tg_ir_number(n); }
static tg_ir word(tg_wrapper *w, uint32_t i) { return tg_ir_load(w, "i64", closure, i); }
static void put_word(tg_wrapper *w, uint32_t i, tg_ir v) { tg_ir_store(w, "i64", v, closure, i); }
static bool has(const attention *p, uint32_t flag) { return p->d->flags & flag; }
static bool has_lengths(const attention *p) { return has(p, TG_ATTENTION_LENGTHS); }
static bool has_starts(const attention *p) { return has(p, TG_ATTENTION_QUERY_STARTS | TG_ATTENTION_KEY_STARTS); }

/* ---- arguments ---- */

static const char *const of_tokens[] = {"batch", "head", "token"}, *const of_pages[] = {"page", "head", "token"},
                  *const of_packed[] = {"batch", "head", "token"},
                  *const of_scores[] = {"batch", "head", "query", "key"};
static const extent none = {NULL, 0}, batch = {"batch", 1}, queries = {"queries", 1}, keys = {"keys", 1},
                    query_tokens = {"query_tokens", 1}, key_tokens = {"key_tokens", 1}, starts = {"batch + 1", 1};

static void add(attention *p, tensor t) {
  while (t.rank < TG_KIT_DIMS && (t.extent[t.rank].n || t.step)) t.rank++;
  p->tensor[p->tensors_n++] = t;
}

/* As Q, K, V or O, whose last elements lie side by side. */
static void add_tokens(attention *p, uint32_t of, const char *name, const char *role, const char *stem, tg_type type,
                       int64_t wide) {
  const tg_attention *a = p->a[0];
  uint8_t side = tg_attention_tensors[of].side;
  bool of_keys = side == OF_KEYS, paged = a->problem.page && of_keys,
       packed = has(p, of_keys ? TG_ATTENTION_KEY_STARTS : TG_ATTENTION_QUERY_STARTS);
  extent tokens = packed ? of_keys ? key_tokens : query_tokens : of_keys ? keys : queries,
         heads = {NULL, side == OF_QUERIES ? a->heads : a->kv_heads}, first = packed ? none : batch;
  if (paged) tokens = (extent){NULL, a->problem.page}, first = (extent){"pages", 1};
  add(p, (tensor){of, name, role, stem, type, paged ? of_pages : packed ? of_packed : of_tokens, 3, 0, {first, heads,
      tokens, {NULL, wide}}});
}

static void add_vector(attention *p, uint32_t of, const char *name, tg_type type, extent rows, int64_t wide) {
  add(p, (tensor){of, name, "in", NULL, type, NULL, 0, 0, {rows, {NULL, wide}}});
}

/* As a mask, of the dimensions that `per` has. */
static void add_mask(attention *p, uint32_t of, const char *name, tg_type type, uint8_t per, extent rows,
                     extent columns) {
  const tg_attention *a = p->a[0];
  if (per & TG_PACKED && has(p, TG_ATTENTION_QUERY_STARTS)) rows = query_tokens;
  if (per & TG_PACKED && has(p, TG_ATTENTION_KEY_STARTS)) columns = key_tokens;
  const extent all[] = {batch, {NULL, a->heads}, rows, columns};
  const uint8_t bit[] = {TG_PER_BATCH, TG_PER_HEAD, TG_PER_QUERY, TG_PER_KEY};
  tensor t = {of, name, "in", name, type, of_scores, TG_KIT_DIMS, 0, {none, none, none, none}};
  for (uint32_t i = 0; i < TG_KIT_DIMS; i++)
    if (per & bit[i]) t.extent[i] = all[i];
  add(p, t);
}

static void add_param(attention *p, const char *name, int64_t lo, int64_t hi) {
  if (p->params_n == MOST_PARAMS) tg_fail(p->f.w->env, TG_ELIMIT, "%s: too many arguments", p->f.w->name);
  p->param[p->params_n++] = (tg_binding){name, lo, hi, 1};
}

static void list_tensors(attention *p) {
  const tg_attention_problem *q = &p->a[0]->problem;
  const tg_attention_desc *d = p->d;
  const bool backward = q->backward, append = p->a[0]->append;
  const int64_t packed = q->kv_bits == 4 ? 2 : 1;
  const char *kept = append ? "inout" : "in";
  add_tokens(p, ATTENTION_Q, "Q", "in", "q", q->q, q->head);
  add_tokens(p, ATTENTION_K, "K", kept, "k", q->k, q->head / packed);
  add_tokens(p, ATTENTION_V, "V", kept, "v", q->v, q->value_head / packed);
  add_tokens(p, ATTENTION_O, "O", backward ? "in" : "out", "o", q->o, q->value_head);
  if (q->lse || backward) {
    const extent heads = {NULL, p->a[0]->heads};
    tensor t = {ATTENTION_LSE, "LSE", backward ? "in" : "out", NULL, TG_F32, NULL, 0, 0, {batch, heads, queries}};
    if (has(p, TG_ATTENTION_QUERY_STARTS)) t.extent[0] = heads, t.extent[1] = query_tokens, t.extent[2] = none;
    add(p, t);
  }
  if (backward) {
    add_tokens(p, ATTENTION_DO, "dO", "in", "do", q->o, q->value_head);
    add_tokens(p, ATTENTION_DQ, "dQ", "out", "dq", q->q, q->head);
    add_tokens(p, ATTENTION_DK, "dK", "out", "dk", q->k, q->head);
    add_tokens(p, ATTENTION_DV, "dV", "out", "dv", q->v, q->value_head);
  }
  if (append) {
    add_tokens(p, ATTENTION_NEW, "K_new", "in", "k_new", q->k, q->head);
    add_tokens(p, ATTENTION_V_NEW, "V_new", "in", "v_new", q->v, q->value_head);
  }
  if (q->alibi) add_vector(p, ATTENTION_SLOPE, "slopes", TG_F32, (extent){NULL, p->a[0]->heads}, 0);
  if (q->sinks && !backward) add_vector(p, ATTENTION_SINK, "sinks", TG_F32, (extent){NULL, p->a[0]->heads}, 0);
  if (q->mask) add_mask(p, ATTENTION_MASK, "mask", q->mask, q->mask_per, queries, keys);
  for (uint32_t i = 0; i < q->arguments_n; i++)
    add_mask(p, ATTENTION_ARG0 + i, d->arg[i].name, q->argument[i].type, q->argument[i].per, queries, keys);
  if (q->block_rows)
    add_mask(p, ATTENTION_BLOCKS, "block_mask", TG_U8, d->block_per | TG_PER_QUERY | TG_PER_KEY,
             (extent){"queries", q->block_rows}, (extent){"keys", q->block_keys});
  if (q->kv_bits) {
    add_tokens(p, ATTENTION_K_SCALE, "K_scale", "in", "k_scale", q->kv_scale, q->head / q->k_group);
    add_tokens(p, ATTENTION_V_SCALE, "V_scale", "in", "v_scale", q->kv_scale, q->value_head / q->v_group);
  }
  if (q->rotary) {
    add_vector(p, ATTENTION_COS, "cosines", TG_F32, (extent){"positions", 1}, q->rotary / 2);
    add_vector(p, ATTENTION_SIN, "sines", TG_F32, (extent){"positions", 1}, q->rotary / 2);
  }
  if (q->page) {
    tensor t = {ATTENTION_TABLE, "page_table", "in", NULL, TG_I32, NULL, 0, 0, {batch, {"table_pages", 1}}};
    add(p, t);
  }
  if (has_lengths(p)) add_vector(p, LENGTHS, "key_lengths", TG_I32, batch, 0);
  if (has(p, TG_ATTENTION_QUERY_STARTS)) add_vector(p, QUERY_STARTS, "query_starts", TG_I32, starts, 0);
  if (has(p, TG_ATTENTION_KEY_STARTS)) add_vector(p, KEY_STARTS, "key_starts", TG_I32, starts, 0);
}

static const char *step_name(const attention *p, const tensor *t, uint32_t i) {
  return tg_format(p->f.w->env, "%s_%s", t->stem, t->step[i]);
}

/* Tokens of a sequence: of packed ones, the most that one has, which may be none. */
static void add_size(attention *p, const char *name, tg_kit_dim size, bool packed) {
  add_param(p, name, packed && size.lo < size.hi ? 0 : size.lo, size.hi);
}

static void list_params(attention *p) {
  const tg_attention *a = p->a[0];
  const tg_attention_problem *q = &a->problem;
  const int64_t far = (int64_t)1 << 40, most = (int64_t)1 << 31, word32 = UINT32_MAX;
  add_param(p, "batch", 0, 1 << 20);
  add_size(p, "queries", a->queries, has(p, TG_ATTENTION_QUERY_STARTS));
  add_size(p, "keys", a->keys, has(p, TG_ATTENTION_KEY_STARTS));
  if (has(p, TG_ATTENTION_QUERY_STARTS)) add_param(p, "query_tokens", 0, most - 1);
  if (has(p, TG_ATTENTION_KEY_STARTS)) add_param(p, "key_tokens", 0, most - 1);
  if (q->page) add_param(p, "pages", 0, most), add_param(p, "table_pages", 0, most);
  if (q->rotary) add_param(p, "positions", 0, most);
  if (q->dropout)
    add_param(p, "seed_low", 0, word32), add_param(p, "seed_high", 0, word32), add_param(p, "offset", 0, word32);
  for (uint32_t i = 0; i < p->tensors_n; i++)
    for (uint32_t k = 0; k < p->tensor[i].steps; k++)
      if (p->tensor[i].extent[k].n) add_param(p, step_name(p, &p->tensor[i], k), 0, far);
}

static void put_list(const attention *p, tg_str *o, const tensor *t, bool steps) {
  const char *comma = "[";
  for (uint32_t i = 0; i < t->rank; i++) {
    const extent *e = &t->extent[i];
    if (!e->n) continue;
    tg_str_puts(o, comma), comma = ", ";
    if (steps) tg_str_puts(o, i < t->steps ? step_name(p, t, i) : "1");
    else if (!e->param) tg_str_printf(o, "%lld", (long long)e->n);
    else if (e->n == 1) tg_str_puts(o, e->param);
    else tg_str_printf(o, "(%s + %lld) / %lld", e->param, (long long)e->n - 1, (long long)e->n);
  }
  tg_str_puts(o, *comma == '[' ? "[1]" : "]");
}

static bool has_dimension(const tensor *t) {
  return t->extent[0].n || t->extent[1].n || t->extent[2].n || t->extent[3].n;
}

static void declare(tg_builder *tg_b_, void *user) {
  const attention *p = user;
  for (uint32_t i = 0; i < p->tensors_n; i++) {
    const tensor *t = &p->tensor[i];
    tg_str o = tg_str_new(p->f.w->env);
    tg_str_printf(&o, "%s, %s, ", t->name, tg_type_name[t->type]);
    put_list(p, &o, t, false);
    if (t->step && has_dimension(t)) tg_str_puts(&o, ", "), put_list(p, &o, t, true);
    tg_kit_declare(tg_b_, t->role, "%s", o.data);
  }
}

static const tg_signature *signature_of(attention *p, const char *name) {
  tg_str names = tg_str_new(p->f.w->env);
  list_tensors(p), list_params(p);
  for (uint32_t i = 0; i < p->params_n; i++) tg_str_printf(&names, "%s%s", i ? ", " : "", p->param[i].name);
  const tg_kernel_def def = {.name = name, .params = names.data, .body = declare, .file = __FILE__, .line = __LINE__};
  return tg_function_signature(p->f.w->env, &def, p->param, p->params_n, p);
}

/* ---- what a call leaves out ---- */

static tg_ir param(const attention *p, const char *name) {
  int64_t constant = !strcmp(name, "queries") ? p->a[0]->queries.lo : !strcmp(name, "keys") ? p->a[0]->keys.lo : 0;
  return tg_function_value(p->f.w, name, constant);
}

static tg_ir extent_of(const attention *p, const extent *e) {
  if (!e->param) return n_of(e->n ? e->n : 1);
  tg_ir n = param(p, e->param);
  return e->n == 1 ? n : tg_ir_divided(p->f.w, tg_ir_add(p->f.w, n, n_of(e->n - 1)), n_of(e->n));
}

/* Gives the steps of a tensor, %aN, their values %pN: if all are 0 they are dense, [tokens][heads][head] if packed. */
static void complete_steps(attention *p, const tensor *t, uint32_t first) {
  tg_wrapper *w = p->f.w;
  tg_ir any = n_of(0), dense = n_of(1), step[TG_KIT_DIMS];
  uint32_t at = first;
  for (uint32_t i = 0; i < t->steps; i++)
    if (t->extent[i].n) any = tg_ir_put(w, "or i64 %s, %%a%u", any.text, at++);
  tg_ir is = tg_ir_is(w, "eq", any, n_of(0));
  for (uint32_t i = t->rank; i-- > 0;) {
    uint32_t k = t->step == of_packed && (i == 1 || i == 2) ? 3 - i : i;
    step[k] = dense, dense = tg_ir_mul(w, dense, extent_of(p, &t->extent[k]));
  }
  at = first;
  for (uint32_t i = 0; i < t->steps; i++) {
    if (!t->extent[i].n) continue;
    tg_ir given = tg_ir_put(w, "add i64 %%a%u, 0", at);
    tg_str_printf(&w->out, "  %%p%u = add i64 %s, 0\n", at++, tg_ir_select(w, is, step[i], given).text);
  }
}

static void complete(attention *p) {
  tg_wrapper *w = p->f.w;
  const tg_signature *s = w->signature;
  uint32_t steps = 0;
  for (uint32_t i = 0; i < p->tensors_n; i++)
    for (uint32_t k = 0; k < p->tensor[i].steps; k++) steps += p->tensor[i].extent[k].n != 0;
  uint32_t at = s->params_n - steps;
  for (uint32_t i = 0; i < at; i++) tg_str_printf(&w->out, "  %%p%u = add i64 %%a%u, 0\n", i, i);
  for (uint32_t i = 0; i < p->tensors_n; i++) {
    complete_steps(p, &p->tensor[i], at);
    for (uint32_t k = 0; k < p->tensor[i].steps; k++) at += p->tensor[i].extent[k].n != 0;
  }
}

/* ---- the words of a call ---- */

/* Does a mask count through all sequences that are packed? */
static bool counts_through(const attention *p, uint32_t of) {
  bool mask = of == ATTENTION_MASK || (of >= ATTENTION_ARG0 && of <= ATTENTION_ARG7);
  return mask && tg_attention_mask(&p->a[0]->problem, of).per & TG_PACKED;
}

static void put_tensor(attention *p, uint32_t buffer) {
  tg_wrapper *w = p->f.w;
  const tensor *t = &p->tensor[buffer];
  uint32_t at = C_TENSORS + t->of * OF_TENSOR;
  bool written = t->of == ATTENTION_O || (t->of >= ATTENTION_DO && t->of <= ATTENTION_DV);
  put_word(w, at, tg_ir_put(w, "ptrtoint ptr %%b%u to i64", buffer));
  put_word(w, at + 5, n_of(tg_type_bytes(t->type)));
  put_word(w, at + 6, n_of(counts_through(p, t->of)));
  for (uint32_t i = 0; t->step && i < t->rank; i++) {
    if (!t->extent[i].n) continue;
    tg_ir step = i < t->steps ? param(p, step_name(p, t, i)) : n_of(1);
    put_word(w, at + 1 + i, written && i == 2 ? tg_ir_larger(w, step, n_of(1)) : step);   /* O of a single token */
  }
}

static void fill_call(attention *p) {
  tg_wrapper *w = p->f.w;
  const struct { uint32_t at; const char *name; } params[] = {
      {C_BATCH, "batch"}, {C_QUERIES, "queries"}, {C_KEYS, "keys"}, {C_PAGES, "pages"}, {C_TABLE_STEP, "table_pages"},
      {C_POSITIONS, "positions"}, {C_OFFSET, "offset"}, {C_QUERY_TOKENS, "query_tokens"},
      {C_KEY_TOKENS, "key_tokens"}};
  for (uint32_t i = 0; i < C_WORDS; i++) put_word(w, i, n_of(0));
  for (uint32_t i = 0; i < TG_COUNT(params); i++) put_word(w, params[i].at, param(p, params[i].name));
  tg_ir high = tg_ir_put(w, "shl i64 %s, 32", param(p, "seed_high").text);
  put_word(w, C_PHILOX, tg_ir_add(w, high, param(p, "seed_low")));
  for (uint32_t i = 0; i < p->tensors_n; i++) put_tensor(p, i);
}

/* ---- procedures ---- */

static uint32_t constants_of(const attention *p, uint32_t t, tg_procedure_constant *out) {
  const tg_attention *a = p->a[t];
  const tg_attention_problem *q = &a->problem;
  const int64_t value = q->value_head + 2, lines = a->heads / a->kv_heads * q->head;
  const bool k_apart = q->backward && q->k != TG_F32, v_apart = q->backward && q->v != TG_F32;
  const tg_procedure_constant all[] = {
#define WORD(name) {"C_" #name, C_##name},
      CALL_WORDS(WORD)
#undef WORD
#define WORD(name) {"S_" #name, S_##name},
      SEQUENCE_WORDS(WORD) WORD(WORDS)
#undef WORD
#define WORD(name) {"F_" #name, F_##name},
      FIRST_WORDS(WORD) WORD(WORDS)
#undef WORD
#define OPERAND(name, text) {"O_" #name, ATTENTION_##name},
#include "attention/names.def"
#define VALUE(name, text, has, least, most) {"V_" #name, ATTENTION_##name},
#include "attention/names.def"
      {"O_WORDS", ATTENTION_OPERANDS}, {"V_WORDS", ATTENTION_VALUES},
#define OPERAND(name, text) {"T_" #name, C_TENSORS + ATTENTION_##name * OF_TENSOR},
#include "attention/names.def"
      {"T_LENGTHS", C_TENSORS + LENGTHS * OF_TENSOR}, {"T_QUERY_STARTS", C_TENSORS + QUERY_STARTS * OF_TENSOR},
      {"T_KEY_STARTS", C_TENSORS + KEY_STARTS * OF_TENSOR}, {"OF_TENSOR", OF_TENSOR},
      {"QUERY_STARTS", has(p, TG_ATTENTION_QUERY_STARTS)}, {"KEY_STARTS", has(p, TG_ATTENTION_KEY_STARTS)},
      {"STARTS", has_starts(p)}, {"LEAST_QUERIES", a->queries.lo}, {"LEAST_KEYS", a->keys.lo},
      {"PIECES", ATTENTION_PIECES}, {"SPLIT", ATTENTION_SPLIT}, {"LEAST", ATTENTION_LEAST}, {"FEW", ATTENTION_FEW},
      {"MOST_PARTS", ATTENTION_MOST_PARTS}, {"BLOCK", ATTENTION_BLOCK}, {"UNSEEN", ATTENTION_UNSEEN},
      {"IN_PART", ATTENTION_SEEN_IN_PART}, {"AS_A_WHOLE", ATTENTION_SEEN_AS_A_WHOLE},
      {"TOP_LEFT", TG_CAUSAL_TOP_LEFT}, {"BOTTOM_RIGHT", TG_CAUSAL_BOTTOM_RIGHT},
      {"MINUS_INFINITY", -0x800000},   /* its bits as f32 */
      {"CAUSAL", a->causal}, {"WINDOW", a->window}, {"DROPOUT", q->dropout}, {"BACKWARD", q->backward},
      {"HEADS", a->heads}, {"KV_HEADS", a->kv_heads}, {"HEAD", q->head}, {"VALUE_HEAD", q->value_head},
      {"HEADS_ARE_ROWS", a->heads_are_rows}, {"MOST_ROWS", a->rows > 0 ? a->rows : 1}, {"LISTS", a->lists},
      {"STATES", a->states.kernel != NULL}, {"BY_BATCH", a->by_batch}, {"BY_HEAD", a->by_head},
      {"MERGES", a->merge.kernel != NULL}, {"FLOATS_OF_ROW", q->backward ? lines : value}, {"APPEND", a->append},
      {"LENGTHS", has_lengths(p)}, {"PAGE", q->page}, {"KV_BITS", q->kv_bits}, {"BLOCK_ROWS", q->block_rows},
      {"BLOCK_KEYS", q->block_keys}, {"PAGE_UNIT", tg_attention_page_unit(q)}, {"ROTARY", q->rotary},
      {"MASK", q->mask}, {"ARGUMENTS", q->arguments_n}, {"LSE", q->lse}, {"SINKS", q->sinks},
      {"K_APART", k_apart}, {"V_APART", v_apart},
      {"OWN_FLOATS", k_apart * q->head + v_apart * q->value_head}, {"K_BYTES", q->head * tg_type_bytes(q->k)},
      {"V_BYTES", q->value_head * tg_type_bytes(q->v)}, {"O_BYTES", tg_type_bytes(q->o)},
      {"Q_SIZE", tg_type_bytes(q->q)}, {"K_SIZE", tg_type_bytes(q->k)}, {"V_SIZE", tg_type_bytes(q->v)}};
  _Static_assert(TG_COUNT(all) <= MOST_CONSTANTS, "room for all");
  memcpy(out, all, sizeof all);
  return TG_COUNT(all);
}

/* launch_NAME(o, v, own): a kernel of the plan, if it has it; k NULL: launch_NAME(o, v, own, rows), the one for so many
 * rows. */
static void put_launch(attention *p, uint32_t t, const char *name, const tg_kit_kernel *k, int which) {
  tg_wrapper *w = p->f.w;
  const tg_attention *a = p->a[t];
  static const char call[] = "  call void @call.t%u(ptr %%o, ptr %%v, ptr %%own, i64 1, ptr null, ptr null)\n"
                             "  ret i64 0\n";
  tg_str_printf(&w->out,
                "define internal i64 @launch_%s.s%u.%u(i64 %%o.at, i64 %%v.at, i64 %%own.at%s) {\n"
                "  %%o = inttoptr i64 %%o.at to ptr\n  %%v = inttoptr i64 %%v.at to ptr\n"
                "  %%own = inttoptr i64 %%own.at to ptr\n",
                name, p->number, t, k ? "" : ", i64 %rows");
  for (uint32_t i = 0; !k && i < a->parts_n; i++) {
    if (!a->part[i].kernel[which].kernel) continue;
    tg_ir fits = tg_ir_is(w, "sle", (tg_ir){"%rows"}, n_of(a->part[i].size[0].hi));
    tg_str_printf(&w->out, "  br i1 %s, label %%rows%u, label %%more%u\nrows%u:\n", fits.text, i, i, i);
    tg_str_printf(&w->out, call, tg_function_add(&p->f, &a->part[i].kernel[which]));
    tg_str_printf(&w->out, "more%u:\n", i);
  }
  if (k && k->kernel) tg_str_printf(&w->out, call, tg_function_add(&p->f, k));
  else tg_str_puts(&w->out, "  ret i64 0\n");
  tg_str_puts(&w->out, "}\n");
}

/* The task of a thread: pieces j, j + tasks, .. of `count`. */
static void put_task(attention *p, const char *what, uint32_t count, uint32_t t) {
  tg_wrapper *w = p->f.w;
  tg_str_printf(&w->out, "define internal void @%s.task.s%u.%u(ptr %%c, i64 %%j) {\nstart:\n", what, p->number, t);
  tg_ir n = word(w, count), by = word(w, C_TASKS), memory = word(w, C_MEMORY);
  tg_str_printf(&w->out,
                "  %%call = ptrtoint ptr %%c to i64\n  %%bytes = call i64 @%s.side()\n  %%far = mul i64 %%j, %%bytes\n"
                "  %%own = add i64 %s, %%far\n  br label %%next\n"
                "next:\n  %%x = phi i64 [ %%j, %%start ], [ %%up, %%run ]\n  %%more = icmp slt i64 %%x, %s\n"
                "  br i1 %%more, label %%run, label %%done\n"
                "run:\n  %%r = call i64 @%s.s%u.%u(i64 %%call, i64 %%x, i64 %%own, i64 %%j)\n"
                "  %%up = add i64 %%x, %s\n  br label %%next\ndone:\n  ret void\n}\n",
                w->name, memory.text, n.text, what, p->number, t, by.text);
}

static void put_procedures(attention *p, uint32_t t) {
  tg_wrapper *w = p->f.w;
  const tg_attention *a = p->a[t];
  const bool backward = a->problem.backward;
  tg_procedure_constant constants[MOST_CONSTANTS];
  uint32_t n = constants_of(p, t, constants);
  const char *suffix = tg_format(w->env, ".s%u.%u", p->number, t);
  const char *const texts[] = {tg_attention_division, tg_attention_gathering, p->a[0]->problem.page || has_lengths(p) ||
      has_starts(p) || a->append || a->problem.rotary ? tg_attention_checks : "",
                               backward ? tg_attention_gradients : tg_attention_forward};
  for (uint32_t i = 0; i < TG_COUNT(texts); i++) tg_procedures(w, texts[i], constants, n, suffix);
  tg_str_printf(&w->out, "define internal i64 @side%s() {\n  %%n = call i64 @%s.side()\n  ret i64 %%n\n}\n", suffix,
                w->name);
  put_launch(p, t, "whole", NULL, ATTENTION_WHOLE), put_launch(p, t, "partial", NULL, ATTENTION_PARTIAL);
  put_launch(p, t, "merge", &a->merge, 0), put_launch(p, t, "states", &a->states, 0);
  put_launch(p, t, "sum_dq", &a->sum[0], 0), put_launch(p, t, "sum_dk", &a->sum[1], 0);
  put_launch(p, t, "sum_dv", &a->sum[2], 0);
  if (a->append) put_task(p, "append", C_APPENDS, t);
  if (a->lists) put_task(p, "find", C_FINDS, t);
  put_task(p, "run", C_RUNS, t), put_task(p, "merge", C_MERGES, t);
}

/* ---- the function ---- */

static void put_round(attention *p, const char *what, uint32_t count, uint32_t t) {
  tg_wrapper *w = p->f.w;
  uint32_t id = w->values++;
  tg_ir n = word(w, count), by = tg_ir_smaller(w, n, (tg_ir){"%t"}), several = tg_ir_is(w, "sgt", by, n_of(1));
  put_word(w, C_TASKS, tg_ir_larger(w, by, n_of(1)));
  tg_str_printf(&w->out,
                "  br i1 %s, label %%many%u, label %%alone%u\n"
                "many%u:\n  call void %%each(ptr %%user, i64 %s, ptr @%s.task.s%u.%u, ptr %%c)\n  br label %%did%u\n"
                "alone%u:\n  call void @%s.task.s%u.%u(ptr %%c, i64 0)\n  br label %%did%u\ndid%u:\n",
                several.text, id, id, id, by.text, what, p->number, t, id, id, what, p->number, t, id, id);
}

/* The call of a procedure with the call's words, and one more. */
static tg_ir of_call(attention *p, const char *name, uint32_t t, const char *more) {
  tg_ir c = tg_ir_put(p->f.w, "ptrtoint ptr %%c to i64");
  return tg_ir_put(p->f.w, "call i64 @%s.s%u.%u(i64 %s%s)", name, p->number, t, c.text, more);
}

static void check_lists(attention *p, uint32_t t) {
  const tg_attention *a = p->a[t];
  const struct { bool is; const char *name, *message; } checks[] = {
      {has(p, TG_ATTENTION_QUERY_STARTS), "query_starts_fit",
       "query_starts: a sequence has more than `queries` tokens, too few, or lies beyond query_tokens"},
      {has(p, TG_ATTENTION_KEY_STARTS), "key_starts_fit",
       "key_starts: a sequence has more than `keys` tokens, too few, or lies beyond key_tokens"},
      {has_lengths(p), "lengths_fit", "a number of key_lengths is not within 0..the keys of its sequence"},
      {a->problem.page, "tables_fit", "page_table has too few entries, or one that is no page"},
      {a->append || (a->problem.rotary && a->causal != TG_CAUSAL_TOP_LEFT), "queries_fit",
       "a sequence has fewer keys than queries, which stand at their end"},
      {a->problem.rotary, "angles_fit", "there are fewer positions than keys or queries"}};
  for (uint32_t i = 0; i < TG_COUNT(checks); i++)
    if (checks[i].is)
      tg_wrapper_check(p->f.w, tg_ir_is(p->f.w, "ne", of_call(p, checks[i].name, t, ""), n_of(0)), checks[i].message);
}

static void put_target(attention *p, uint32_t t) {
  tg_wrapper *w = p->f.w;
  const tg_attention *a = p->a[t];
  const char *const constants[] = {"scale", "cap", "change"};
  tg_str_printf(&w->out, "target%u:\n", t);
  for (uint32_t i = 0; i < TG_COUNT(constants); i++)
    put_word(w, C_SCALE + i, tg_ir_put(w, "ptrtoint ptr @%s.s%u.%u to i64", constants[i], p->number, t));
  check_lists(p, t);
  tg_ir memory = tg_function_workspace(w, of_call(p, "needs", t, ", i64 %t"));
  of_call(p, "place", t, tg_format(w->env, ", i64 %s", memory.text));
  if (a->append) put_round(p, "append", C_APPENDS, t);
  if (a->lists) put_round(p, "find", C_FINDS, t);
  put_round(p, "run", C_RUNS, t), put_round(p, "merge", C_MERGES, t);
  tg_str_puts(&w->out, "  ret i32 0\n");
}

static void put_header(attention *p, tg_str *o) {
  tg_wrapper *w = p->f.w;
  const tg_attention_problem *q = &p->a[0]->problem;
  tg_function_header_begin(w, o, q->backward ? "gradients of attention" : "attention");
  tg_str_printf(o, " *   *_batch, *_head, *_token ..: elements from one of them to the next; all of a tensor 0: "
                "dense%s\n", has_starts(p) ? ", where\n *     packed sequences lie [tokens][heads][head]" : "");
  if (q->page)
    tg_str_puts(o, " *   page_table: the pages of each sequence, in the order of its keys; each within 0..pages - 1\n");
  if (has_lengths(p)) tg_str_puts(o, " *   key_lengths: sequence b has only its first key_lengths[b] keys\n");
  if (has(p, TG_ATTENTION_QUERY_STARTS))
    tg_str_puts(o, " *   query_starts: sequence b has the tokens query_starts[b]..query_starts[b + 1] - 1 of Q and O, "
                   "at most `queries`;\n *     query_tokens: all that there are\n");
  if (has(p, TG_ATTENTION_KEY_STARTS))
    tg_str_puts(o, " *   key_starts: likewise of K and V, at most `keys`; key_tokens: all that there are\n");
  if (p->a[0]->append)
    tg_str_puts(o, " *   K_new, V_new: written to the last keys of each sequence first; keys count them already\n");
  tg_function_header_end(w, o, has(p, TG_ATTENTION_QUERY_STARTS)
                                   ? "int64_t batch, int64_t queries, int64_t keys, int64_t query_tokens, "
                                   : "int64_t batch, int64_t queries, int64_t keys, ");
}

/* NAME_workspace of a call; 0 where no target runs. */
static void put_workspace(attention *p) {
  tg_wrapper *w = p->f.w;
  const bool packed = has(p, TG_ATTENTION_QUERY_STARTS);
  tg_str_printf(&w->out,
                "define i64 @%s_workspace(i64 %%batch, i64 %%queries, i64 %%keys, %si32 %%threads) {\n"
                "  %%c = alloca [%d x i64]\n  %%few = icmp slt i32 %%threads, 1\n"
                "  %%some = select i1 %%few, i32 1, i32 %%threads\n  %%t = zext i32 %%some to i64\n",
                w->name, packed ? "i64 %query_tokens, " : "", C_WORDS);
  put_word(w, C_BATCH, (tg_ir){"%batch"}), put_word(w, C_QUERIES, (tg_ir){"%queries"});
  put_word(w, C_KEYS, (tg_ir){"%keys"});
  if (packed) put_word(w, C_QUERY_TOKENS, (tg_ir){"%query_tokens"});
  tg_str_puts(&w->out, "  %pick = call i32 @tg.pick()\n  switch i32 %pick, label %none [");
  for (uint32_t t = 0; t < w->targets_n; t++) tg_str_printf(&w->out, " i32 %u, label %%target%u", t + 1, t);
  tg_str_puts(&w->out, " ]\nnone:\n  ret i64 0\n");
  for (uint32_t t = 0; t < w->targets_n; t++) {
    tg_str_printf(&w->out, "target%u:\n", t);
    tg_str_printf(&w->out, "  ret i64 %s\n", of_call(p, "needs", t, ", i64 %t").text);
  }
  tg_str_puts(&w->out, "}\n");
}

static void put_targets(attention *p) {
  tg_wrapper *w = p->f.w;
  for (uint32_t t = 0; t < w->targets_n; t++) {
    static const char *const names[] = {"scale", "cap", "change"};
    const float constants[] = {p->a[t]->factors.scale, p->a[t]->factors.cap, p->a[t]->factors.change};
    for (uint32_t i = 0; i < TG_COUNT(names); i++) {
      uint32_t bits;
      memcpy(&bits, &constants[i], sizeof bits);
      tg_str_printf(&w->out, "@%s.s%u.%u = internal constant i32 %u, align 4\n", names[i], p->number, t, bits);
    }
    put_procedures(p, t);
  }
  tg_function_end(&p->f);
}

void tg_attention_function(tg_wrapper *w, const tg_attention *const *a, const tg_attention_desc *d, const char *name,
                           uint32_t number, tg_str *header) {
  attention p = {.f = {.w = w}, .a = a, .d = d, .number = number};
  if (!a[0]->keys.hi || !a[0]->queries.hi)
    tg_fail(w->env, TG_ELIMIT, "%s: keys or queries of 0 alone: functions of attention have some", name);
  if (a[0]->problem.page && has(&p, TG_ATTENTION_KEY_STARTS))
    tg_fail(w->env, TG_EINVAL, "%s: TG_ATTENTION_KEY_STARTS: the plan has pages, whose keys page_table and key_lengths "
            "name", name);
  w->name = name, w->messages = (tg_messages){0}, w->signature = signature_of(&p, name);
  tg_function_open(w);
  tg_str_printf(&w->out, "  %%c = alloca [%d x i64]\n", C_WORDS);
  complete(&p);
  tg_wrapper_check_params(w);
  tg_wrapper_check_buffers(w, !(a[0]->flags & TG_ATTENTION_OVERLAP_UNCHECKED));
  /* without queries the gradients of keys are 0, which is written; of packed sequences all starts are looked at */
  const bool always = a[0]->problem.backward || has(&p, TG_ATTENTION_QUERY_STARTS);
  tg_function_unless_empty(w, param(&p, "batch"), always ? n_of(1) : param(&p, "queries"));
  fill_call(&p);
  tg_function_switch(&p.f);
  for (uint32_t t = 0; t < w->targets_n; t++) put_target(&p, t);
  tg_str_puts(&w->out, "}\n");
  put_workspace(&p);
  put_targets(&p);
  put_header(&p, header);
  if (a[0]->join.kernel && !a[0]->problem.sinks) tg_attention_merge_function(w, a, name, header);
}
