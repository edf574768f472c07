/* SPDX-License-Identifier: MIT
 * Runs a call of a plan: gives its runs of kernels to the threads. Takes no lock, allocates nothing, and cannot fail
 * once the checks are passed. */
#include <math.h>
#include "api/program.h"
#include "attention/call.h"

typedef tg_attention_work work;
typedef tg_attention_sequence sequence;

#define smaller tg_attention_smaller
#define larger tg_attention_larger

/* ---- running ---- */

#define element tg_attention_element
#define gather tg_attention_gather

/* The address of an element. */
void *tg_attention_element(const tg_kit_tensor *x, int64_t i0, int64_t i1, int64_t i2, int64_t i3) {
  int64_t n = i0 * x->step[0] + i1 * x->step[1] + i2 * x->step[2] + i3 * x->step[3];
  return tg_kit_behind((void *)x->at, n * x->size);
}

/* What only some plans have, beside their tensors: pages, a mask of blocks, angles, numbers of dropout. */
static void gather_variants(const work *r, const sequence *s, int64_t q_head, int64_t first_query, int64_t first_key,
                            void **operand, int64_t *value) {
  const tg_attention_problem *p = &r->a->problem;
  const tg_attention_call *c = r->call;
  if (p->page && c->page_table) {
    int64_t at = s->index * r->table_step + first_key / p->page;
    operand[ATTENTION_TABLE] = tg_kit_behind((void *)(uintptr_t)c->page_table, at * (int64_t)sizeof *c->page_table);
    value[ATTENTION_PAGES] = larger(1, c->pages);
    value[ATTENTION_PAGE_AT] = first_key % p->page / tg_attention_page_unit(p);
    value[ATTENTION_TABLE_N] =
        larger(1, tg_attention_rounded_up(first_key % p->page + value[ATTENTION_KEYS], p->page));
    value[ATTENTION_TABLE_STEP] = r->table_step;
    value[ATTENTION_K_PAGE] = r->of[ATTENTION_K].step[0], value[ATTENTION_V_PAGE] = r->of[ATTENTION_V].step[0];
  }
  const int64_t *blocks = r->of[ATTENTION_BLOCKS].extent;
  if (p->block_rows) value[ATTENTION_BLOCKS_M] = blocks[2], value[ATTENTION_BLOCKS_N] = blocks[3];
  if (p->rotary) {
    bool top_left = r->a->causal == TG_CAUSAL_TOP_LEFT;
    value[ATTENTION_POSITIONS] = larger(1, c->positions), value[ATTENTION_TURN_K] = first_key;
    value[ATTENTION_TURN_Q] = (top_left ? 0 : s->skipped + s->keys - s->queries) + first_query;
    value[ATTENTION_TURN_STEP] = !s->heads_are_rows;
  }
  operand[ATTENTION_PHILOX] = (void *)(uintptr_t)r->philox;
  value[ATTENTION_STREAM] = s->index * r->a->heads + q_head;
  value[ATTENTION_SEED_LOW] = r->philox[0], value[ATTENTION_SEED_HIGH] = r->philox[1];
  value[ATTENTION_OFFSET] = r->philox[2];
}

void tg_attention_gather(const work *r, const sequence *s, int64_t head, int64_t block, int64_t part, void **operand,
                         int64_t *value) {
  const tg_attention *a = r->a;
  const tg_attention_call *c = r->call;
  int64_t group = a->heads / a->kv_heads, kv_head = s->heads_are_rows ? head : head / group,
          from = tg_attention_first_row(s, block), q_head = s->heads_are_rows ? head * group + from : head,
          query = s->heads_are_rows ? 0 : from, key = s->skipped + part * s->part;
  const int64_t first[OF_SIDES][TG_KIT_DIMS] = {
      [OF_QUERIES] = {c->query_starts ? 0 : s->index, q_head, s->first_query + query},
      [OF_NEW] = {c->query_starts ? 0 : s->index, kv_head, s->first_query + query},
      [OF_KEYS] = {c->key_starts || a->problem.page ? 0 : s->index, kv_head, a->problem.page ? 0 : s->first_key + key},
      [OF_HEADS] = {0, q_head},
      [OF_BLOCKS] = {s->index, q_head},
      [OF_PAIRS] = {s->index, q_head, query, key},
      [OF_PACKED_PAIRS] = {s->index, q_head, s->first_query + query, s->first_key + key}};
  for (uint32_t i = 0; i < a->tensors_n; i++) {
    uint32_t t = a->tensor[i];
    const tg_kit_tensor *x = &r->of[t];
    const tg_attention_tensor *of = &tg_attention_tensors[t];
    bool packed = of->kind == TENSOR_OF_MASK && tg_attention_mask(&a->problem, t).per & TG_PACKED;
    const int64_t *at = first[packed ? OF_PACKED_PAIRS : of->side];
    operand[t] = element(x, at[0], at[1], at[2], at[3]);
    for (uint32_t k = 0; k < TG_KIT_DIMS; k++) value[of->step[k]] = x->step[k];
  }
  value[ATTENTION_ROWS] = tg_attention_end_of_rows(s, block) - from;
  value[ATTENTION_KEYS] = larger(0, smaller(s->keys - part * s->part, s->part));
  int64_t stands = a->causal == TG_CAUSAL_BOTTOM_RIGHT ? s->skipped + s->keys - s->queries : 0;
  value[ATTENTION_AT] = stands + query - key;
  value[ATTENTION_WINDOW] = a->window;
  if (s->heads_are_rows) { /* the only query sees all that is left, whichever row it is */
    value[ATTENTION_AT] = s->keys;
    value[ATTENTION_WINDOW] = (int64_t)1 << 31;
    value[ATTENTION_LDQ] = value[ATTENTION_Q_HEAD], value[ATTENTION_LDO] = larger(1, value[ATTENTION_O_HEAD]);
  }
  value[ATTENTION_SINK_STEP] = s->heads_are_rows;
  value[ATTENTION_QUERY0] = query, value[ATTENTION_KEY0] = key;
  value[ATTENTION_BATCH] = s->index, value[ATTENTION_HEAD] = q_head, value[ATTENTION_HEADS] = a->heads;
  const tg_attention_factors *factors = a->plan.device ? a->on_device : &a->factors;
  operand[ATTENTION_SCALE] = (void *)(uintptr_t)&factors->scale;
  operand[ATTENTION_CAP] = (void *)(uintptr_t)&factors->cap;
  operand[ATTENTION_CHANGE] = (void *)(uintptr_t)&factors->change;
  gather_variants(r, s, q_head, query, key, operand, value);
}

/* ---- appending ---- */

/* The last keys of a sequence, as many as it has queries, get K and V of these. */
static void append(const work *r, const sequence *s, int64_t head, float *sums, uint32_t worker, char *workspace) {
  const int32_t *qs = r->call->query_starts;
  (void)sums, (void)worker, (void)workspace;
  for (uint32_t t = ATTENTION_NEW; t <= ATTENTION_V_NEW; t++) {
    const tg_kit_tensor *from = &r->of[t];
    uint32_t to = tg_attention_tensors[t].like;
    size_t bytes = (size_t)from->extent[3] * from->size;
    for (int64_t i = 0; from->bytes && i < s->queries; i++)
      memcpy(tg_attention_key_at(r, to, s->index, s->first_key, head, s->skipped + s->keys - s->queries + i),
             element(from, qs ? 0 : s->index, head, s->first_query + i, 0), bytes);
  }
}

/* ---- which blocks are seen ---- */

static uint8_t *states_of(const work *r, const sequence *s, int64_t head, int64_t block) {
  int64_t table = r->a->by_head ? s->heads_are_rows ? 0 : head : 0;
  if (r->by_sequence) table += s->index * (r->a->by_head ? r->a->heads : 1);
  return r->states + (table * r->state_rows + block) * r->state_keys;
}

/* What a mask of blocks leaves of a block of keys for `rows` rows, with the causal mask and the window; value: of their
 * run. A block that is seen as a whole is full. */
static uint8_t state_of(const work *r, const int64_t *value, const uint8_t *mask, int64_t from) {
  const tg_attention_problem *p = &r->a->problem;
  int64_t rows = value[ATTENTION_ROWS], last = smaller(from + ATTENTION_BLOCK, value[ATTENTION_KEYS]) - 1,
          at = value[ATTENTION_AT], window = value[ATTENTION_WINDOW], query = value[ATTENTION_QUERY0], seen = 0,
          all = 0;
  bool whole = last == from + ATTENTION_BLOCK - 1, some = true;
  if (p->causal) whole &= last <= at, some &= from <= at + rows - 1;
  if (p->window) whole &= at + rows - 1 - from < window, some &= at - last < window;
  if (p->window && !p->causal) whole &= last - at < window, some &= from - (at + rows - 1) < window;
  for (int64_t i = query / p->block_rows; some && i <= (query + rows - 1) / p->block_rows; i++)
    for (int64_t k = from / p->block_keys; k <= last / p->block_keys; k++, all++)
      seen += mask[i * value[ATTENTION_BLOCKS_Q] + k * value[ATTENTION_BLOCKS_K]] != 0;
  return !seen ? ATTENTION_UNSEEN : whole && seen == all ? ATTENTION_SEEN_AS_A_WHOLE : ATTENTION_SEEN_IN_PART;
}

static void find_states(const work *r, const sequence *s, int64_t x, float *sums, uint32_t worker, char *workspace) {
  int64_t block = x % r->state_rows, head = x / r->state_rows, value[ATTENTION_VALUES];
  void *operand[ATTENTION_OPERANDS] = {0};
  (void)sums, (void)worker;
  if (block >= s->blocks || s->rows <= ATTENTION_FEW || s->keys < ATTENTION_BLOCK) return;
  gather(r, s, head, block, 0, operand, value);
  uint8_t *state = states_of(r, s, head, block);
  operand[ATTENTION_STATES] = state;
  if (r->a->states.kernel) tg_kit_launch_of(&r->exec, &r->a->states, operand, value, workspace);
  for (int64_t k = 0; r->a->problem.block_rows && k * ATTENTION_BLOCK < value[ATTENTION_KEYS]; k++) {
    uint8_t of_blocks = state_of(r, value, operand[ATTENTION_BLOCKS], k * ATTENTION_BLOCK);
    if (!r->a->states.kernel || of_blocks < state[k]) state[k] = of_blocks;
  }
}

/* Makes the lists of a run from the states of its row of blocks. */
static void list_blocks(const work *r, const sequence *s, int64_t head, int64_t block, uint32_t worker, void **operand,
                        int64_t *value) {
  const uint8_t *state = states_of(r, s, head, block);
  int64_t n = tg_attention_rounded_up(value[ATTENTION_KEYS], ATTENTION_BLOCK), full = 0, cut = 0;
  int32_t *both = (int32_t *)(void *)(r->workspace + r->area.lists) + 2 * worker * r->state_keys,
          *lists[2] = {both, both + r->state_keys};
  for (int64_t k = 0; k < n; k++) {
    if (state[k] == ATTENTION_SEEN_AS_A_WHOLE) lists[0][full++] = (int32_t)k;
    if (state[k] == ATTENTION_SEEN_IN_PART) lists[1][cut++] = (int32_t)k;
  }
  operand[ATTENTION_FULL] = lists[0], operand[ATTENTION_CUT] = lists[1];
  value[ATTENTION_FULL_N] = full, value[ATTENTION_CUT_N] = cut;
}

/* ---- runs ---- */

/* The rows of a run without keys. */
static void fill_zeros(const work *r, const int64_t *value, void *o, float *lse, const float *sink) {
  uint32_t size = r->of[ATTENTION_O].size;
  for (int64_t i = 0; i < value[ATTENTION_ROWS]; i++) {
    memset(tg_kit_behind(o, i * value[ATTENTION_LDO] * size), 0, (size_t)r->a->problem.value_head * size);
    lse[i] = sink ? sink[i * value[ATTENTION_SINK_STEP]] : -INFINITY;
  }
}

static void compute(const work *r, const sequence *s, int64_t x, float *sums, uint32_t worker, char *workspace) {
  const tg_attention *a = r->a;
  int64_t part = x % s->parts, head = x / s->parts / s->blocks, block = s->blocks - 1 - x / s->parts % s->blocks,
          rows, value[ATTENTION_VALUES], e = a->problem.value_head;
  void *operand[ATTENTION_OPERANDS] = {0};
  float unused[256];
  gather(r, s, head, block, part, operand, value);
  rows = value[ATTENTION_ROWS];
  const tg_kit_part *by = tg_kit_part_for(a->part, a->parts_n, &rows, 1);
  if (r->tables && rows > ATTENTION_FEW) list_blocks(r, s, head, block, worker, operand, value);
  if (s->parts > 1) {
    float *mine = sums + head * s->floats, *m = mine + s->parts * s->rows * e,
          *l = m + s->parts * s->rows;
    operand[ATTENTION_O] = mine + part * rows * e;
    operand[ATTENTION_M] = m + part * rows, operand[ATTENTION_L] = l + part * rows;
    tg_kit_launch_of(&r->exec, &by->kernel[ATTENTION_PARTIAL], operand, value, workspace);
    return;
  }
  if (!operand[ATTENTION_LSE]) operand[ATTENTION_LSE] = unused;
  if (value[ATTENTION_KEYS]) tg_kit_launch_of(&r->exec, &by->kernel[ATTENTION_WHOLE], operand, value, workspace);
  else fill_zeros(r, value, operand[ATTENTION_O], operand[ATTENTION_LSE], operand[ATTENTION_SINK]);
}

/* Merges the parts of one head. */
static void merge(const work *r, const sequence *s, int64_t head, float *sums, uint32_t worker, char *workspace) {
  const tg_attention *a = r->a;
  (void)worker;
  if (!s->rows) return;   /* a sequence without queries; the kernel is promised a row */
  int64_t value[ATTENTION_VALUES], e = a->problem.value_head;
  void *operand[ATTENTION_OPERANDS] = {0};
  float unused[ATTENTION_FEW], *mine = sums + head * s->floats, *m = mine + s->parts * s->rows * e;
  gather(r, s, head, 0, 0, operand, value);
  operand[ATTENTION_Q] = mine;
  operand[ATTENTION_M] = m, operand[ATTENTION_L] = m + s->parts * s->rows;
  if (!operand[ATTENTION_LSE]) operand[ATTENTION_LSE] = unused;
  value[ATTENTION_PARTS] = s->parts;
  tg_kit_launch_of(&r->exec, &a->merge, operand, value, workspace);
}

/* ---- rounds ---- */

static tg_attention_piece *const forward[ATTENTION_ROUNDS] = {append, find_states, compute, merge},
                          *const backward[ATTENTION_ROUNDS] = {[ATTENTION_RUNS] = tg_attention_run_backward,
                                                               [ATTENTION_MERGES] = tg_attention_sum_backward};

/* The pieces of a round that a thread takes; each one's sequence is found by going on from the last one's. */
static void take(void *arg, int64_t task, uint32_t worker) {
  work *r = arg;
  tg_attention_piece *piece = (r->a->problem.backward ? backward : forward)[r->round];
  (void)task;
  int64_t first = 0, index = 0, before = 0, n = 0;   /* pieces and floats before sequence `index`, and its pieces */
  sequence s = {0};
  char *workspace = tg_kit_own(&r->a->plan, r->workspace, worker);
  float *sums = (float *)(void *)(r->workspace + r->area.sums);
  for (tg_kit_hand hand = {.worker = worker}; tg_kit_deal_next(&r->deal, &hand);) {
    for (;; index++) {
      if (!n) s = tg_attention_sequence_of(r, index), n = tg_attention_pieces_of(r, &s, r->round);
      if (hand.from < first + n) break;
      first += n, before += s.heads * s.floats, n = 0;
    }
    piece(r, &s, hand.from - first, sums + before, worker, workspace);
  }
}

/* ---- calls ---- */

static void run_all(void *arg, char *workspace) {
  work *r = arg;
  const uint8_t *known = r->call->blocks;
  bool only_states = r->states != NULL;
  r->workspace = workspace;
  if (!only_states) r->states = known ? (uint8_t *)(uintptr_t)known : (uint8_t *)workspace + r->area.states;
  for (r->round = 0; r->round < ATTENTION_ROUNDS; r->round++) {
    bool left_out = only_states ? r->round != ATTENTION_FINDS : known && r->round == ATTENTION_FINDS;
    int64_t n = left_out ? 0 : r->pieces[r->round];
    tg_kit_deal_open(&r->deal, n, 1, 1);
    if (n) tg_kit_tasks(&r->exec, (uint32_t)smaller(r->exec.threads, n), take, r);
  }
}

/* states: only these are found, and go there. NULL: the call is computed. */
static tg_status run_in(work *r, uint8_t *states) {
  r->states = states;
  return tg_kit_run_in(&r->a->plan, "tg_attention_call", r->area.all, r->call->workspace, r->call->workspace_bytes,
                       r->exec.threads, run_all, r);
}

/* ---- the calls of tg/attention.h ---- */

tg_status tg_attention_run_sized(const tg_attention *a, const tg_attention_call *call, size_t call_bytes) {
  tg_attention_call copy;
  work r;
  if (!a) return TG_EINVAL;
  tg_status s = tg_attention_read_sizes(&r, a, call, call_bytes, &copy);
  if (s == TG_OK) s = tg_attention_read_operands(&r);
  if (s != TG_OK) return s;
  if (a->plan.device) return tg_attention_run_on_device(&r);
  if (r.call->queue)
    return wrong(a, "tg_attention_call.queue is given, and the plan is for the CPU: tg_attention_desc.device");
  tg_attention_count(&r);
  return r.pieces[ATTENTION_RUNS] ? run_in(&r, NULL) : TG_OK;
}

/* ---- in a program ---- */

static tg_status run_put(const void *plan, const void *call) { return tg_attention_run(plan, call); }

/* What the call reads and writes. out has room for ATTENTION_OPERANDS + 2. */
static uint32_t find_accesses(const work *r, size_t blocks, tg_program_access *out) {
  uint32_t n = 0;
  for (uint32_t i = 0; i < r->a->tensors_n; i++) {
    uint32_t t = r->a->tensor[i];
    const tg_kit_tensor *x = &r->of[t];
    bool result = t == ATTENTION_O || t == ATTENTION_LSE, both = r->a->append && (t == ATTENTION_K || t == ATTENTION_V);
    out[n++] = (tg_program_access){x->at, (size_t)x->bytes, x->size, !result, result || both};
  }
  out[n++] = (tg_program_access){(uintptr_t)r->call->blocks, r->call->blocks ? blocks : 0, 1, true, false};
  if (r->a->plan.device)   /* else it is copied */
    out[n++] = (tg_program_access){(uintptr_t)r->call->page_table, (size_t)r->table_entries * sizeof(int32_t),
                                   sizeof(int32_t), true, false};
  return n;
}

tg_status tg_attention_put_sized(tg_program *program, const tg_attention *a, const tg_attention_call *given,
                                 size_t call_bytes) {
#define AT(field) (uint16_t)offsetof(tg_attention_call, field)
  tg_attention_call c, copy;
  tg_program_access accesses[ATTENTION_OPERANDS + 2];
  uint16_t pointers[ATTENTION_OPERANDS + 2] = {AT(blocks), AT(page_table)};
  work r;
  if (!a || !program) return TG_EINVAL;
  if (!given) return wrong(a, "no call is given");
  if (a->problem.backward)
    return wrong(a, "tg_attention_put: a plan with backward = 1 is run by tg_attention_run alone");
  if (TG_READ(a->plan.context, tg_attention_call, &c, given, call_bytes) != TG_OK) return TG_EINVAL;
  tg_program_operation op = {.name = "tg_attention_put",
                             .context = a->plan.context,
                             .device = a->plan.device,
                             .plan = a,
                             .call = &c,
                             .call_bytes = sizeof c,
                             .fields = TG_PROGRAM_FIELDS(tg_attention_call),
                             .pointers = pointers,
                             .pointers_n = a->tensors_n + 2,
                             .accesses = accesses,
                             .run = run_put};
  tg_status s = tg_program_lend(program, &op);
  if (s != TG_OK) return s;
  bool device = a->plan.device != NULL;
  const int32_t *lists[] = {c.query_starts, c.key_starts, c.key_lengths, device ? NULL : c.page_table};
  for (uint32_t i = 0; i < TG_COUNT(lists); i++)
    if (lists[i] && tg_program_stands_for(program, lists[i]))
      return wrong(a, "tg_attention_put: starts and lengths are read now, and cannot be memory of the program");
  s = tg_attention_read_sizes(&r, a, &c, sizeof c, &copy);
  if (s == TG_OK) s = tg_attention_read_operands(&r);
  if (s == TG_OK && a->plan.device) s = tg_attention_check_on_device(&r);
  if (s != TG_OK) return s;
  for (uint32_t i = 0; i < a->tensors_n; i++) pointers[i + 2] = tg_attention_tensors[a->tensor[i]].at;
  size_t starts = (size_t)(r.batch + 1) * sizeof(int32_t);
  const struct tg_program_copy copies[] = {{AT(query_starts), c.query_starts, starts},
                                           {AT(key_starts), c.key_starts, starts},
                                           {AT(key_lengths), c.key_lengths, starts - sizeof(int32_t)},
                                           {AT(page_table), c.page_table, (size_t)r.table_entries * sizeof(int32_t)}};
  op.copies = copies, op.copies_n = TG_COUNT(copies) - device;   /* on a device the table lies there */
  op.accesses_n = find_accesses(&r, device ? 0 : tg_attention_blocks_bytes(a, &c), accesses);
  op.workspace = device ? 0 : tg_attention_workspace(a, &c);
  return tg_program_add(program, &op);
#undef AT
}

tg_status tg_attention_blocks_sized(const tg_attention *a, const tg_attention_call *call, size_t call_bytes,
                                    uint8_t *out) {
  tg_attention_call copy;
  work r = {0};   /* its other tensors are nowhere */
  if (!a) return TG_EINVAL;
  if (a->plan.device) return wrong(a, "tg_attention_blocks: there are none on a device");
  tg_status s = tg_attention_read_sizes(&r, a, call, call_bytes, &copy);
  if (s == TG_OK) s = tg_attention_read_masks(&r);
  if (s != TG_OK) return s;
  tg_attention_count(&r);
  if (!r.tables) return TG_OK;
  return out ? run_in(&r, out) : wrong(a, "tg_attention_blocks: out is NULL");
}
