/* SPDX-License-Identifier: MIT
 * Runs a call of a plan: checks every field, divides the sequences, heads, queries and keys into runs of a kernel, and
 * gives these to the threads. Takes no lock, allocates nothing, and cannot fail once the checks are passed. */
#include <math.h>
#include <stdatomic.h>
#include "attention/plan.h"
#include "kit/operands.h"

enum { Q, K, V, O, TENSORS, ALIGN = 64 };
static const char *const names[TENSORS] = {"q", "k", "v", "o"};

typedef struct {
  const tg_attention *a;
  const tg_attention_call *call;
  int64_t batch, queries, keys;            /* of the call; with packed sequences their most */
  int64_t step[TENSORS][3];                /* elements from one sequence, head, token to the next */
  uint32_t size[TENSORS];                  /* bytes of an element */
  int64_t mask_step[1 + TG_ATTENTION_ARGS][4];   /* of the mask, then of the arguments, as mask_strides */
  bool partial;                            /* is there a run whose keys are divided? */
  int64_t total;                           /* tokens of all packed queries */
  int64_t runs;
  tg_kit_exec exec;
  char *workspace;
  float *sums;                             /* partial results, behind the threads' workspaces */
  /* states of blocks of keys, of `tables` tables of state_rows by state_keys: of each sequence, or of all, and of each
   * head, or of all; then the lists of each thread. NULL: no run has lists */
  uint8_t *states;
  int32_t *lists;
  int64_t tables, state_rows, state_keys;
  bool by_sequence;
  _Alignas(ALIGN) atomic_llong taken;      /* runs that threads have taken */
  _Alignas(ALIGN) atomic_llong merged, stated;
} run;

static int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t larger(int64_t a, int64_t b) { return a > b ? a : b; }
static int64_t rounded_up(int64_t a, int64_t b) { return (a + b - 1) / b; }

#define wrong(a, ...) tg_kit_fail((a)->plan.context, TG_EINVAL, __VA_ARGS__)

/* ---- a sequence ---- */

/* What one sequence of a batch consists of: `rows` queries against `keys` keys. Runs: for each of `heads` heads, for
 * each block of `block` rows, for each of `parts` parts of `part` keys. */
typedef struct {
  int64_t index, queries, keys, first_query, first_key, skipped;
  int64_t heads, rows, block, blocks, parts, part;
  bool heads_are_rows;
} sequence;

/* The keys are divided evenly into whole blocks, in a way that depends on nothing but their number. */
static void divide_keys(sequence *s) {
  s->parts = s->keys > ATTENTION_SPLIT ? rounded_up(s->keys, ATTENTION_SPLIT) : 1;
  if (s->parts > ATTENTION_MOST_PARTS) s->parts = ATTENTION_MOST_PARTS;
  s->part = rounded_up(rounded_up(s->keys, s->parts), ATTENTION_BLOCK) * ATTENTION_BLOCK;
  s->parts = s->part ? larger(1, rounded_up(s->keys, s->part)) : 1;
}

static sequence sequence_of(const run *r, int64_t i) {
  const tg_attention *a = r->a;
  const tg_attention_call *c = r->call;
  const int32_t *qs = c->query_starts, *ks = c->key_starts;
  sequence s = {.index = i,
                .queries = qs ? qs[i + 1] - qs[i] : r->queries,
                .keys = ks ? ks[i + 1] - ks[i] : r->keys,
                .first_query = qs ? qs[i] : 0,
                .first_key = ks ? ks[i] : 0};
  if (c->key_lengths) s.keys = c->key_lengths[i];
  bool one = s.queries == 1 && a->causal != TG_CAUSAL_TOP_LEFT && !(a->window && a->causal == TG_CAUSAL_NONE);
  if (one && a->window) s.skipped = larger(0, s.keys - a->window);   /* keys before the window of the only query */
  if (one) s.keys -= s.skipped;
  s.heads_are_rows = a->heads_are_rows && one && !(qs && c->lse);
  s.heads = s.heads_are_rows ? a->kv_heads : a->heads;
  s.rows = s.heads_are_rows ? a->heads / a->kv_heads : s.queries;
  s.block = a->states.kernel && s.keys < ATTENTION_BLOCK ? smaller(a->rows, ATTENTION_FEW) : a->rows;
  s.blocks = rounded_up(s.rows, s.block);
  s.parts = 1, s.part = s.keys;
  if (s.rows <= ATTENTION_FEW && a->merge.kernel) divide_keys(&s);
  return s;
}

static int64_t runs_of(const sequence *s) { return s->heads * s->blocks * s->parts; }

/* Floats of the partial results of one head: O, then m, then l of each part. */
static int64_t sums_of_head(const run *r, const sequence *s) {
  return s->parts > 1 ? s->parts * s->rows * (r->a->problem.value_head + 2) : 0;
}

/* ---- checks ---- */

static tg_status read_sizes(run *r) {
  const tg_attention *a = r->a;
  const tg_attention_call *c = r->call;
  const struct { const char *name; tg_kit_dim d; int64_t given, *to; const int32_t *starts; } dims[] = {
      {"queries", a->queries, c->queries, &r->queries, c->query_starts},
      {"keys", a->keys, c->keys, &r->keys, c->key_starts}};
  r->batch = c->batch ? c->batch : 1;
  if (r->batch < 0 || r->batch > (int64_t)1 << 31)
    return wrong(a, "tg_attention_call.batch = %lld is no number of sequences", (long long)c->batch);
  for (uint32_t i = 0; i < TG_COUNT(dims); i++) {
    const int32_t *starts = dims[i].starts;
    tg_kit_dim d = dims[i].d;
    if (!starts && !tg_kit_read_size(d, dims[i].given, dims[i].to))
      return wrong(a, "tg_attention_call.%s = %lld, but the plan is for %lld..%lld", dims[i].name,
                   (long long)dims[i].given, (long long)d.lo, (long long)d.hi);
    if (!starts) continue;
    *dims[i].to = 0;
    for (int64_t b = 0; b < r->batch; b++) {
      int64_t n = (int64_t)starts[b + 1] - starts[b];
      if (starts[b] < 0 || n < 0 || (n && !tg_kit_has(d, n)))
        return wrong(a,
                     "tg_attention_call.%s_starts: sequence %lld from %d to %d, but the plan is for %lld..%lld tokens",
                     i ? "key" : "query", (long long)b, starts[b], starts[b + 1], (long long)d.lo, (long long)d.hi);
      *dims[i].to = larger(*dims[i].to, n);
    }
  }
  for (int64_t b = 0; c->key_lengths && b < r->batch; b++) {
    int64_t n = c->key_starts ? c->key_starts[b + 1] - c->key_starts[b] : r->keys;
    if (c->key_lengths[b] < 0 || c->key_lengths[b] > n)
      return wrong(a, "tg_attention_call.key_lengths[%lld] = %d is not within 0..%lld", (long long)b,
                   c->key_lengths[b], (long long)n);
  }
  return TG_OK;
}

/* Bytes from the first element to behind the last one; false: too many. */
static bool reach(const int64_t *extent, const int64_t *step, uint32_t n, int64_t width, uint32_t size,
                  int64_t *bytes) {
  int64_t all = width - 1, x;
  *bytes = 0;
  for (uint32_t i = 0; i < n; i++) {
    if (!extent[i]) return true;
    if (__builtin_mul_overflow(extent[i] - 1, step[i], &x) || __builtin_add_overflow(all, x, &all)) return false;
  }
  if (all >= ((int64_t)1 << 62) / size) return false;
  *bytes = (all + 1) * size;
  return true;
}

/* Has each row of O an address of its own? Each step must be beyond what the smaller ones reach. */
static bool is_apart(const int64_t extent[3], const int64_t step[3], int64_t width) {
  int64_t span = width;
  bool used[3] = {extent[0] <= 1, extent[1] <= 1, extent[2] <= 1};
  if (!extent[0] || !extent[1] || !extent[2]) return true;
  for (uint32_t round = 0; round < 3; round++) {
    uint32_t least = 3;
    for (uint32_t i = 0; i < 3; i++)
      if (!used[i] && (least == 3 || step[i] < step[least])) least = i;
    if (least == 3) return true;
    if (step[least] < span) return false;
    span += (extent[least] - 1) * step[least];
    used[least] = true;
  }
  return true;
}

typedef struct { const char *name; uintptr_t from, to; } span;

static tg_status read_tensor(run *r, uint32_t t, const void *p, const int64_t given[3], span *out) {
  const tg_attention *a = r->a;
  const tg_attention_call *c = r->call;
  const tg_attention_problem *q = &a->problem;
  const tg_type type[TENSORS] = {q->q, q->k, q->v, q->o};
  bool of_keys = t == K || t == V;
  const int32_t *starts = of_keys ? c->key_starts : c->query_starts;
  int64_t width = t == Q || t == K ? q->head : q->value_head, heads = of_keys ? a->kv_heads : a->heads,
          tokens = starts ? starts[r->batch] : of_keys ? r->keys : r->queries, bytes,
          extent[3] = {starts ? 1 : r->batch, heads, tokens}, *step = r->step[t];
  bool dense = !given[0] && !given[1] && !given[2];
  r->size[t] = (uint32_t)tg_type_bytes(type[t]);
  for (uint32_t i = 0; i < 3; i++) step[i] = given[i];
  if (dense) step[2] = width, step[1] = starts ? width : tokens * width, step[0] = heads * tokens * width;
  if (dense && starts) step[2] = heads * width;   /* [tokens][heads][head] */
  for (uint32_t i = 0; i < 3; i++)
    if (step[i] < 0 || (step[i] > (int64_t)1 << 40 && extent[i] > 1))
      return wrong(a, "tg_attention_call.%s_strides[%u] = %lld is negative or past 2^40", names[t], i,
                   (long long)given[i]);
  if (!reach(extent, step, 3, width, r->size[t], &bytes))
    return wrong(a, "tg_attention_call.%s reaches over more than 2^62 bytes", names[t]);
  if (!p && bytes) return wrong(a, "tg_attention_call.%s is NULL", names[t]);
  if ((uintptr_t)p & (r->size[t] - 1))
    return wrong(a, "tg_attention_call.%s is not aligned to its elements of %u bytes", names[t], r->size[t]);
  if (t == O && !is_apart(extent, step, width))
    return wrong(a, "tg_attention_call.o_strides = {%lld, %lld, %lld} lay two elements on one place",
                 (long long)given[0], (long long)given[1], (long long)given[2]);
  if (step[2] < 1) step[2] = 1;   /* of a single token, or of tokens that are all the same one */
  *out = (span){names[t], (uintptr_t)p, (uintptr_t)p + (uintptr_t)bytes};
  return TG_OK;
}

/* The mask (a 0) or argument a - 1. */
static tg_status read_argument(run *r, uint32_t a, const void *p, const int64_t given[4], span *out) {
  const tg_attention_problem *q = &r->a->problem;
  uint8_t per = a ? q->argument[a - 1].per : q->mask_per;
  uint32_t size = (uint32_t)tg_type_bytes(a ? q->argument[a - 1].type : q->mask);
  static const uint8_t bit[4] = {TG_PER_BATCH, TG_PER_HEAD, TG_PER_QUERY, TG_PER_KEY};
  int64_t extent[4] = {r->batch, r->a->heads, r->queries, r->keys}, *step = r->mask_step[a], bytes, dense = 1;
  bool any = given[0] || given[1] || given[2] || given[3];
  char name[16] = "mask";
  if (a) name[0] = 'a', name[1] = 'r', name[2] = 'g', name[3] = '[', name[4] = (char)('0' + a - 1), name[5] = ']';
  for (uint32_t i = 4; i-- > 0;) {
    if (!(per & bit[i])) extent[i] = extent[i] ? 1 : 0;
    step[i] = !(per & bit[i]) ? 0 : any ? given[i] : dense;
    if (per & bit[i] && extent[i] && __builtin_mul_overflow(dense, extent[i], &dense)) dense = (int64_t)1 << 62;
    if (step[i] < 0 || (step[i] > (int64_t)1 << 40 && extent[i] > 1))
      return wrong(r->a, "tg_attention_call.%s: stride %u, %lld, is negative or past 2^40", name, i,
                   (long long)given[i]);
  }
  if (!reach(extent, step, 4, 1, size, &bytes))
    return wrong(r->a, "tg_attention_call.%s reaches over more than 2^62 bytes", name);
  if (!p && bytes) return wrong(r->a, "tg_attention_call.%s is NULL", name);
  if ((uintptr_t)p & (size - 1))
    return wrong(r->a, "tg_attention_call.%s is not aligned to its elements of %u bytes", name, size);
  *out = (span){"a mask or an argument", (uintptr_t)p, (uintptr_t)p + (uintptr_t)bytes};
  return TG_OK;
}

/* Operands of a call that the plan does not read: without this check a forgotten field of the descriptor would be a
 * wrong result. */
static tg_status refuse_unread(const run *r) {
  const tg_attention_call *c = r->call;
  const tg_attention *a = r->a;
  if (c->lse && !a->problem.lse)
    return wrong(a, "tg_attention_call.lse is given, and the plan does not compute it: tg_attention_desc.lse = 1");
  if (c->slopes && !a->problem.alibi)
    return wrong(a, "tg_attention_call.slopes is given, and the plan has none: tg_attention_desc.alibi = 1");
  if (c->mask && !a->problem.mask)
    return wrong(a, "tg_attention_call.mask is given, and the plan has none: tg_attention_desc.mask is its type");
  for (uint32_t i = a->problem.arguments_n; i < TG_ATTENTION_ARGS; i++)
    if (c->arg[i])
      return wrong(a, "tg_attention_call.arg[%u] is given, and the plan has %u: tg_attention_desc.arg names them", i,
                   a->problem.arguments_n);
  return TG_OK;
}

/* The slopes or LSE: n floats side by side. */
static tg_status read_floats(const run *r, const char *name, const float *p, int64_t n, span *out) {
  if ((uintptr_t)p & (sizeof *p - 1))
    return wrong(r->a, "tg_attention_call.%s is not aligned to its elements of %zu bytes", name, sizeof *p);
  *out = (span){name, (uintptr_t)p, (uintptr_t)p + (p ? (uintptr_t)n * sizeof *p : 0)};
  return TG_OK;
}

/* The mask and the arguments; their spans go to `of` (may be NULL) from *n on. */
static tg_status read_arguments(run *r, span *of, uint32_t *n) {
  const tg_attention_call *c = r->call;
  span ignored;
  for (uint32_t i = 0; i <= r->a->problem.arguments_n; i++) {
    if (!i && !r->a->problem.mask) continue;
    tg_status s = read_argument(r, i, i ? c->arg[i - 1] : c->mask, i ? c->arg_strides[i - 1] : c->mask_strides,
                                of ? &of[*n] : &ignored);
    if (s != TG_OK) return s;
    ++*n;
  }
  return TG_OK;
}

static tg_status read_operands(run *r) {
  const tg_attention_call *c = r->call;
  const tg_attention *a = r->a;
  const void *p[TENSORS] = {c->q, c->k, c->v, c->o};
  const int64_t *given[TENSORS] = {c->q_strides, c->k_strides, c->v_strides, c->o_strides};
  enum { SLOPES = TENSORS, LSE };
  span of[LSE + 2 + TG_ATTENTION_ARGS];
  uint32_t n = 0;
  tg_status s = refuse_unread(r);
  if (s != TG_OK) return s;
  if (a->problem.alibi && !c->slopes) return wrong(a, "tg_attention_call.slopes is NULL");
  for (uint32_t t = 0; t < TENSORS; t++)
    if ((s = read_tensor(r, t, p[t], given[t], &of[n++])) != TG_OK) return s;
  /* the rows of O do not overlap, so their number is far below 2^62 */
  int64_t rows = a->heads * (c->query_starts ? c->query_starts[r->batch] : r->batch * r->queries);
  if ((s = read_floats(r, "slopes", c->slopes, a->heads, &of[n++])) != TG_OK) return s;
  if ((s = read_floats(r, "lse", c->lse, rows, &of[n++])) != TG_OK) return s;
  if ((s = read_arguments(r, of, &n)) != TG_OK) return s;
  for (uint32_t i = 0; i < n && !(a->flags & TG_ATTENTION_OVERLAP_UNCHECKED); i++)
    for (uint32_t w = O; w <= LSE; w += LSE - O)
      if (i != w && of[w].from < of[i].to && of[i].from < of[w].to)
        return wrong(a, "tg_attention_call.%s overlaps %s", of[w].name, of[i].name);
  return TG_OK;
}

/* ---- running ---- */

static void *moved(const void *p, int64_t elements, uint32_t size) {
  return tg_kit_behind((void *)(uintptr_t)p, elements * size);
}

/* Which kernel operands and values a run has, apart from the place of its partial results. */
static void gather(const run *r, const sequence *s, int64_t head, int64_t block, int64_t part, void **operand,
                   int64_t *value) {
  const tg_attention *a = r->a;
  const tg_attention_problem *p = &a->problem;
  const tg_attention_call *c = r->call;
  int64_t group = a->heads / a->kv_heads, kv_head = s->heads_are_rows ? head : head / group,
          q_head = s->heads_are_rows ? head * group : head, from = block * s->block,
          first_query = s->heads_are_rows ? 0 : from, first_key = s->skipped + part * s->part;
  const void *at[TENSORS] = {c->q, c->k, c->v, c->o};
  for (uint32_t t = 0; t < TENSORS; t++) {
    bool keys = t == K || t == V;
    bool packed = keys ? c->key_starts != NULL : c->query_starts != NULL;
    int64_t token = keys ? s->first_key + first_key : s->first_query + first_query;
    operand[t] = moved(at[t], (packed ? 0 : s->index * r->step[t][0]) + (keys ? kv_head : q_head) * r->step[t][1] +
                                  token * r->step[t][2],
                       r->size[t]);
    value[ATTENTION_LDQ + t] = s->heads_are_rows && !keys ? larger(1, r->step[t][1]) : r->step[t][2];
  }
  value[ATTENTION_ROWS] = smaller(s->rows - from, s->block);
  value[ATTENTION_KEYS] = larger(0, smaller(s->keys - part * s->part, s->part));
  int64_t stands = a->causal == TG_CAUSAL_BOTTOM_RIGHT ? s->skipped + s->keys - s->queries : 0;
  value[ATTENTION_AT] = stands + first_query - first_key;
  value[ATTENTION_WINDOW] = a->window;
  if (s->skipped || s->heads_are_rows) { /* the only query sees all that is left */
    value[ATTENTION_AT] = s->keys;
    value[ATTENTION_WINDOW] = (int64_t)1 << 31;
  }
  value[ATTENTION_QUERY0] = first_query, value[ATTENTION_KEY0] = first_key;
  value[ATTENTION_BATCH] = s->index, value[ATTENTION_HEAD] = q_head;
  operand[ATTENTION_SCALE] = (void *)(uintptr_t)&a->scale, operand[ATTENTION_CAP] = (void *)(uintptr_t)&a->cap;
  operand[ATTENTION_SLOPE] = (void *)(uintptr_t)(c->slopes ? c->slopes + q_head : NULL);
  for (uint32_t i = 0; i <= p->arguments_n; i++) {
    if (!i && !p->mask) continue;
    const int64_t *step = r->mask_step[i];
    operand[ATTENTION_MASK + i] =
        moved(i ? c->arg[i - 1] : c->mask,
              s->index * step[0] + q_head * step[1] + first_query * step[2] + first_key * step[3],
              (uint32_t)tg_type_bytes(i ? p->argument[i - 1].type : p->mask));
    value[ATTENTION_STEPS + 2 * i] = step[2], value[ATTENTION_STEPS + 2 * i + 1] = step[3];
  }
}

/* Where the LSE of a row lies: [batch][heads][queries], or of packed sequences [heads][all tokens]. */
static float *lse_at(const run *r, const sequence *s, int64_t head, int64_t query, float *otherwise) {
  int64_t q_head = s->heads_are_rows ? head * (r->a->heads / r->a->kv_heads) : head;
  if (!r->call->lse) return otherwise;
  if (r->call->query_starts) return r->call->lse + q_head * r->total + s->first_query + query;
  return r->call->lse + (s->index * r->a->heads + q_head) * r->queries + query;
}

static void call_kernel(const run *r, const tg_kit_kernel *k, void *const *operand, const int64_t *value,
                        char *workspace) {
  void *buffers[ATTENTION_OPERANDS];
  int64_t values[ATTENTION_VALUES];
  tg_kit_take(k, operand, value, buffers, values);
  tg_kit_launch(&r->exec, 1, k, buffers, values, workspace);
}

/* ---- which blocks are seen ---- */

static uint8_t *states_of(const run *r, const sequence *s, int64_t head, int64_t block) {
  int64_t table = r->a->by_head ? s->heads_are_rows ? 0 : head : 0;
  if (r->by_sequence) table += s->index * (r->a->by_head ? r->a->heads : 1);
  return r->states + (table * r->state_rows + block) * r->state_keys;
}

static void find_states(const run *r, int64_t x, char *workspace) {
  int64_t block = x % r->state_rows, table = x / r->state_rows, heads = r->a->by_head ? r->a->heads : 1,
          value[ATTENTION_VALUES];
  void *operand[ATTENTION_OPERANDS] = {0};
  sequence s = sequence_of(r, table / heads);
  if (block >= s.blocks || s.rows <= ATTENTION_FEW || s.keys < ATTENTION_BLOCK) return;
  gather(r, &s, table % heads, block, 0, operand, value);
  operand[ATTENTION_STATES] = states_of(r, &s, table % heads, block);
  call_kernel(r, &r->a->states, operand, value, workspace);
}

/* Makes the lists of a run from the states of its row of blocks. */
static void list_blocks(const run *r, const sequence *s, int64_t head, int64_t block, uint32_t worker, void **operand,
                        int64_t *value) {
  const uint8_t *state = states_of(r, s, head, block);
  int64_t n = rounded_up(value[ATTENTION_KEYS], ATTENTION_BLOCK), full = 0, cut = 0;
  int32_t *lists[2] = {r->lists + 2 * worker * r->state_keys, r->lists + (2 * worker + 1) * r->state_keys};
  for (int64_t k = 0; k < n; k++) {
    if (state[k] == ATTENTION_SEEN_AS_A_WHOLE) lists[0][full++] = (int32_t)k;
    if (state[k] == ATTENTION_SEEN_IN_PART) lists[1][cut++] = (int32_t)k;
  }
  operand[ATTENTION_FULL] = lists[0], operand[ATTENTION_CUT] = lists[1];
  value[ATTENTION_FULL_N] = full, value[ATTENTION_CUT_N] = cut;
}

/* ---- runs ---- */

/* The rows of a run without keys. */
static void fill_zeros(const run *r, const int64_t *value, void *o, float *lse) {
  for (int64_t i = 0; i < value[ATTENTION_ROWS]; i++) {
    memset(moved(o, i * value[ATTENTION_LDO], r->size[O]), 0, (size_t)r->a->problem.value_head * r->size[O]);
    lse[i] = -INFINITY;
  }
}

/* Run x of a sequence; sums: the partial results of the sequence. */
static void compute(const run *r, const sequence *s, int64_t x, float *sums, uint32_t worker, char *workspace) {
  const tg_attention *a = r->a;
  int64_t part = x % s->parts, head = x / s->parts / s->blocks, block = s->blocks - 1 - x / s->parts % s->blocks,
          rows, value[ATTENTION_VALUES], e = a->problem.value_head;
  void *operand[ATTENTION_OPERANDS] = {0};
  float unused[256];
  gather(r, s, head, block, part, operand, value);
  rows = value[ATTENTION_ROWS];
  const tg_kit_part *by = tg_kit_part_for(a->part, a->parts_n, &rows, 1);
  if (r->states && rows > ATTENTION_FEW) list_blocks(r, s, head, block, worker, operand, value);
  if (s->parts > 1) {
    float *mine = sums + head * sums_of_head(r, s), *m = mine + s->parts * s->rows * e, *l = m + s->parts * s->rows;
    operand[ATTENTION_O] = mine + part * rows * e;
    operand[ATTENTION_M] = m + part * rows, operand[ATTENTION_L] = l + part * rows;
    call_kernel(r, &by->kernel[ATTENTION_PARTIAL], operand, value, workspace);
    return;
  }
  operand[ATTENTION_LSE] = lse_at(r, s, head, block * s->block, unused);
  if (value[ATTENTION_KEYS]) call_kernel(r, &by->kernel[ATTENTION_WHOLE], operand, value, workspace);
  else fill_zeros(r, value, operand[ATTENTION_O], operand[ATTENTION_LSE]);
}

/* Merges the parts of one head. */
static void merge(const run *r, const sequence *s, int64_t head, float *sums, char *workspace) {
  const tg_attention *a = r->a;
  int64_t value[ATTENTION_VALUES], e = a->problem.value_head;
  void *operand[ATTENTION_OPERANDS] = {0};
  float unused[ATTENTION_FEW], *mine = sums + head * sums_of_head(r, s), *m = mine + s->parts * s->rows * e;
  gather(r, s, head, 0, 0, operand, value);
  operand[ATTENTION_Q] = mine;
  operand[ATTENTION_M] = m, operand[ATTENTION_L] = m + s->parts * s->rows;
  operand[ATTENTION_LSE] = lse_at(r, s, head, 0, unused);
  value[ATTENTION_PARTS] = s->parts;
  call_kernel(r, &a->merge, operand, value, workspace);
}

/* The tasks of a thread: it takes runs one by one, and finds each one's sequence by going on from the last one's. */
static void take_runs(run *r, uint32_t worker, char *workspace, bool merging) {
  atomic_llong *taken = merging ? &r->merged : &r->taken;
  int64_t first = 0, index = 0, before = 0, n = 0;   /* runs and floats before sequence `index` */
  sequence s = {0};
  for (int64_t x; index < r->batch;) {
    x = atomic_fetch_add_explicit(taken, 1, memory_order_relaxed);
    for (;; index++) {
      if (!n && index < r->batch) {
        s = sequence_of(r, index);
        n = !merging ? runs_of(&s) : s.parts > 1 ? s.heads : 0;
      }
      if (index == r->batch || x < first + n) break;
      first += n, before += s.heads * sums_of_head(r, &s), n = 0;
    }
    if (index == r->batch) return;
    if (merging) merge(r, &s, x - first, r->sums + before, workspace);
    else compute(r, &s, x - first, r->sums + before, worker, workspace);
  }
}

static char *workspace_of(const run *r, uint32_t worker) {
  return r->workspace + (size_t)worker * (r->a->plan.per_thread + r->a->plan.shared);
}

static void compute_task(void *arg, int64_t task, uint32_t worker) {
  (void)task;
  take_runs(arg, worker, workspace_of(arg, worker), false);
}

static void merge_task(void *arg, int64_t task, uint32_t worker) {
  (void)task;
  take_runs(arg, worker, workspace_of(arg, worker), true);
}

static void states_task(void *arg, int64_t task, uint32_t worker) {
  run *r = arg;
  (void)task;
  for (int64_t x; (x = atomic_fetch_add_explicit(&r->stated, 1, memory_order_relaxed)) < r->tables * r->state_rows;)
    find_states(r, x, workspace_of(r, worker));
}

/* ---- calls ---- */

/* Where the parts of a call's workspace begin, and its size: the threads' own, partial results, states, lists. */
typedef struct { size_t sums, states, lists, all; } areas;

/* Counts runs and what they need. */
static areas count(run *r) {
  const tg_attention *a = r->a;
  int64_t floats = 0, longest = 0;
  bool even = !r->call->query_starts && !r->call->key_starts && !r->call->key_lengths;
  r->runs = 0;
  for (int64_t i = 0; i < r->batch; i++) {
    sequence s = sequence_of(r, i);
    int64_t times = even ? r->batch : 1;
    floats += times * s.heads * sums_of_head(r, &s), r->runs += times * runs_of(&s);
    longest = larger(longest, s.rows);
    if (even) break;
  }
  size_t n = r->exec.threads * (a->plan.per_thread + a->plan.shared);
  areas x = {.sums = (n + ALIGN - 1) / ALIGN * ALIGN};
  x.lists = x.all = x.states = x.sums + (size_t)floats * sizeof(float);
  r->partial = floats != 0, r->tables = 0;
  if (!a->states.kernel || longest <= ATTENTION_FEW || !r->keys) return x;
  r->by_sequence = a->by_batch || !even;
  r->tables = (r->by_sequence ? r->batch : 1) * (a->by_head ? a->heads : 1);
  r->state_rows = rounded_up(longest, a->rows), r->state_keys = rounded_up(r->keys, ATTENTION_BLOCK);
  if (!r->call->blocks) x.lists += (size_t)(r->tables * r->state_rows * r->state_keys);
  x.lists = (x.lists + ALIGN - 1) / ALIGN * ALIGN;
  x.all = x.lists + 2 * sizeof(int32_t) * (size_t)r->state_keys * r->exec.threads;
  return x;
}

size_t tg_attention_workspace_sized(const tg_attention *a, const tg_attention_call *given, size_t call_bytes) {
  tg_attention_call call = {0};
  size_t most = 0;
  if (!a) return 0;
  if (given) tg_kit_read_struct(&call, sizeof call, given, call_bytes);
  run r = {.a = a, .call = &call, .batch = 1, .queries = a->queries.hi, .keys = a->keys.hi};
  r.exec = given ? tg_kit_exec_of(&a->plan, call.exec, call.threads) : (tg_kit_exec){.threads = a->plan.most};
  if (given) return read_sizes(&r) == TG_OK ? tg_kit_workspace(count(&r).all) : 0;
  most = count(&r).all;
  for (r.queries = ATTENTION_FEW; r.queries > 0; r.queries--)   /* few of them may need more */
    if (tg_kit_has(a->queries, r.queries) && count(&r).all > most) most = count(&r).all;
  return tg_kit_workspace(most);
}

typedef struct { run *r; areas at; bool only_states; } running;

static void run_all(void *arg, char *workspace) {
  const running *x = arg;
  run *r = x->r;
  uint32_t threads = (uint32_t)smaller(r->exec.threads, larger(r->runs, 1));
  r->workspace = workspace;
  r->sums = (float *)(void *)(workspace + x->at.sums);
  r->lists = (int32_t *)(void *)(workspace + x->at.lists);
  if (!x->only_states)
    r->states = !r->tables          ? NULL
                : r->call->blocks ? (uint8_t *)(uintptr_t)r->call->blocks
                                  : (uint8_t *)workspace + x->at.states;
  atomic_init(&r->taken, 0), atomic_init(&r->merged, 0), atomic_init(&r->stated, 0);
  if (r->tables && (x->only_states || !r->call->blocks)) tg_kit_tasks(&r->exec, threads, states_task, r);
  if (x->only_states) return;
  tg_kit_tasks(&r->exec, threads, compute_task, r);
  if (r->partial) tg_kit_tasks(&r->exec, threads, merge_task, r);
}

static const char call_name[] = "tg_attention_call";

static tg_status check_call(const tg_attention *a, const tg_attention_call **call, size_t call_bytes,
                            tg_attention_call *copy, run *r) {
  if (!*call) return wrong(a, "no call is given");
  if (call_bytes < sizeof *copy) {   /* of a program built against an older header */
    tg_kit_read_struct(copy, sizeof *copy, *call, call_bytes);
    *call = copy;
  }
  *r = (run){.a = a, .call = *call};
  tg_status s = read_sizes(r);
  if (s != TG_OK) return s;
  r->total = (*call)->query_starts ? (*call)->query_starts[r->batch] : 0;
  r->exec = tg_kit_exec_of(&a->plan, (*call)->exec, (*call)->threads);
  return TG_OK;
}

tg_status tg_attention_run_sized(const tg_attention *a, const tg_attention_call *call, size_t call_bytes) {
  tg_attention_call copy;
  run r;
  if (!a) return TG_EINVAL;
  tg_status s = check_call(a, &call, call_bytes, &copy, &r);
  if (s == TG_OK) s = read_operands(&r);
  if (s != TG_OK) return s;
  running x = {&r, count(&r), false};
  if (!r.runs) return TG_OK;
  return tg_kit_run_in(&a->plan, call_name, x.at.all, call->workspace, call->workspace_bytes, r.exec.threads, run_all,
                       &x);
}

size_t tg_attention_blocks_bytes_sized(const tg_attention *a, const tg_attention_call *given, size_t call_bytes) {
  tg_attention_call copy;
  run r;
  if (!a || check_call(a, &given, call_bytes, &copy, &r) != TG_OK) return 0;
  count(&r);
  return (size_t)(r.tables * r.state_rows * r.state_keys);
}

tg_status tg_attention_blocks_sized(const tg_attention *a, const tg_attention_call *call, size_t call_bytes,
                                    uint8_t *out) {
  tg_attention_call copy;
  run r;
  if (!a) return TG_EINVAL;
  tg_status s = check_call(a, &call, call_bytes, &copy, &r);
  if (s == TG_OK) s = read_arguments(&r, NULL, &(uint32_t){0});
  if (s != TG_OK) return s;
  running x = {&r, count(&r), true};
  if (!r.tables) return TG_OK;
  if (!out) return wrong(a, "tg_attention_blocks: out is NULL");
  r.states = out;
  return tg_kit_run_in(&a->plan, call_name, x.at.all, call->workspace, call->workspace_bytes, r.exec.threads, run_all,
                       &x);
}

/* ---- merging ---- */

/* The operands of a merge: `rows` rows each. */
static tg_status read_merged(const tg_attention *a, const tg_attention_merge_call *c, int64_t rows) {
  enum { WRITTEN = 4, ALL = 6 };
  const struct { const char *name; const void *p; bool lse; } given[ALL] = {
      {"first", c->first, false},        {"second", c->second, false}, {"first_lse", c->first_lse, true},
      {"second_lse", c->second_lse, true}, {"o", c->o, false},         {"lse", c->lse, true}};
  span of[ALL];
  for (uint32_t i = 0; i < ALL; i++) {
    uintptr_t size = given[i].lse ? sizeof(float) : (uintptr_t)tg_type_bytes(a->problem.o),
              at = (uintptr_t)given[i].p, width = given[i].lse ? 1 : (uintptr_t)a->problem.value_head;
    if (!at) return wrong(a, "tg_attention_merge_call.%s is NULL", given[i].name);
    if (at & (size - 1))
      return wrong(a, "tg_attention_merge_call.%s is not aligned to its elements of %u bytes", given[i].name,
                   (unsigned)size);
    of[i] = (span){given[i].name, at, at + (uintptr_t)rows * width * size};
  }
  for (uint32_t w = WRITTEN; w < ALL; w++)
    for (uint32_t i = 0; i < ALL; i++)
      if (i != w && of[w].from < of[i].to && of[i].from < of[w].to)
        return wrong(a, "tg_attention_merge_call.%s overlaps %s", of[w].name, of[i].name);
  return TG_OK;
}

tg_status tg_attention_merge_sized(const tg_attention *a, const tg_attention_merge_call *given, size_t call_bytes) {
  tg_attention_merge_call c;
  if (!a) return TG_EINVAL;
  if (!given) return wrong(a, "no call is given");
  tg_kit_read_struct(&c, sizeof c, given, call_bytes);
  if (!a->join.kernel) return wrong(a, "tg_attention_merge: the plan has no LSE: tg_attention_desc.lse = 1");
  int64_t batch = c.batch ? c.batch : 1, queries, rows;
  if (!tg_kit_read_size(a->queries, c.queries, &queries) || batch < 0 ||
      __builtin_mul_overflow(batch * a->heads, queries, &rows))
    return wrong(a, "tg_attention_merge_call: %lld queries of %lld sequences, but the plan is for %lld..%lld queries",
                 (long long)c.queries, (long long)batch, (long long)a->queries.lo, (long long)a->queries.hi);
  if (!rows) return TG_OK;
  tg_status s = read_merged(a, &c, rows);
  if (s != TG_OK) return s;
  int64_t value[ATTENTION_VALUES] = {[ATTENTION_ROWS] = rows};
  void *operand[ATTENTION_OPERANDS] = {[ATTENTION_Q] = (void *)(uintptr_t)c.first,
                                       [ATTENTION_M] = (void *)(uintptr_t)c.first_lse,
                                       [ATTENTION_OTHER] = (void *)(uintptr_t)c.second,
                                       [ATTENTION_OTHER_LSE] = (void *)(uintptr_t)c.second_lse,
                                       [ATTENTION_O] = c.o,
                                       [ATTENTION_LSE] = c.lse};
  const run r = {.a = a, .exec = tg_kit_exec_of(&a->plan, NULL, 1)};
  _Alignas(ALIGN) char workspace[4096];
  call_kernel(&r, &a->join, operand, value, workspace);
  return TG_OK;
}
