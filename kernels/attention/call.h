/* SPDX-License-Identifier: MIT
 * A call of a plan: its operands, and how its work is divided into runs of kernels. */
#ifndef TG_ATTENTION_CALL_H
#define TG_ATTENTION_CALL_H
#include "attention/plan.h"
#include "kit/operands.h"

/* Which element of a tensor is the first of a run: of its sequence and head of Q, and its first query; of its head of K
 * and V, and its first key; of these and its first query, for what is appended; the first of all; of its head; of a
 * mask of blocks, the first of its sequence and head; of other masks, of its first query and key, which count within a
 * sequence, or through all that are packed. */
enum { OF_QUERIES, OF_KEYS, OF_NEW, OF_CALL, OF_HEADS, OF_BLOCKS, OF_PAIRS, OF_PACKED_PAIRS, OF_SIDES };
enum { TENSOR_OF_TOKENS, TENSOR_OF_NUMBERS, TENSOR_OF_MASK };

/* call.c. The operands that are tensors of a call: where their fields are in tg_attention_call. like: ATTENTION_Q..
 * whose type and width it has. step: ATTENTION_LDQ.. that get its steps. */
typedef struct tg_attention_tensor {
  const char *name;
  uint16_t at, strides;
  uint8_t kind, side, like, step[TG_KIT_DIMS];
} tg_attention_tensor;
extern const tg_attention_tensor tg_attention_tensors[ATTENTION_OPERANDS];

/* What a call consists of: one round of pieces after the other, each piece of one sequence. Gradients have runs and
 * merges of their own (backward_run.c). */
enum {
  ATTENTION_APPENDS,
  ATTENTION_FINDS,                      /* of states of blocks */
  ATTENTION_RUNS,
  ATTENTION_MERGES,                     /* of parts of the keys */
  ATTENTION_ROUNDS
};

/* Where the parts of a call's workspace begin, behind the threads' own for their kernels: partial results, states, the
 * lists of each thread, the sums of each thread (own_bytes each); and its size. */
typedef struct tg_attention_areas { size_t sums, states, lists, own, own_bytes, all; } tg_attention_areas;

typedef struct tg_attention_work {
  const tg_attention *a;
  const tg_attention_call *call;
  int64_t batch, queries, keys;        /* of the call; with packed sequences their most */
  int64_t total;                       /* tokens of all packed queries */
  uint32_t philox[3];                  /* of dropout: seed and offset */
  int64_t table_entries;               /* that are read, from the first to the last of them */
  int64_t table_step;                  /* entries of the table of pages from one sequence to the next */
  /* those that the plan has. Their dimensions: sequences, heads, tokens, elements; or (masks) queries and keys */
  tg_kit_tensor of[ATTENTION_OPERANDS];
  tg_kit_exec exec;
  /* counted by tg_attention_count */
  int64_t pieces[ATTENTION_ROUNDS];    /* of all sequences */
  tg_attention_areas area;
  /* states of blocks of keys, of `tables` tables of state_rows by state_keys: of each sequence, or of all, and of each
   * head, or of all. tables 0: no run has lists */
  int64_t tables, state_rows, state_keys;
  bool by_sequence;
  char *workspace;
  uint8_t *states;                     /* the caller's, or in the workspace */
  uint32_t round;                      /* the one that threads are at */
  tg_kit_deal deal;
} tg_attention_work;

#define wrong(a, ...) tg_kit_fail((a)->plan.context, TG_EINVAL, __VA_ARGS__)

/* call.c. read_sizes: reads all of a call but its operands; `copy` is room for a struct of an older header.
 * read_operands: all operands. read_masks: the mask and the arguments only. */
tg_status tg_attention_read_sizes(tg_attention_work *w, const tg_attention *a, const tg_attention_call *call,
                                  size_t call_bytes, tg_attention_call *copy);
tg_status tg_attention_read_operands(tg_attention_work *w);
tg_status tg_attention_read_masks(tg_attention_work *w);

/* divide.c. What one sequence of a batch consists of: `rows` queries against `keys` keys. Runs: for each of `heads`
 * heads, for each block of `block` rows, for each of `parts` parts of `part` keys. floats: partial results of each of
 * the heads: O, then m, then l of each part, or dQ of the parts. */
typedef struct tg_attention_sequence {
  int64_t index, queries, keys, first_query, first_key;
  int64_t skipped;                     /* keys before those, which no query sees */
  int64_t heads, rows, block, blocks, parts, part, floats;
  int64_t lacking;                     /* rows that the first block has fewer than the others; 0: the last one has */
  bool heads_are_rows;
} tg_attention_sequence;
tg_attention_sequence tg_attention_sequence_of(const tg_attention_work *w, int64_t i);
/* The first row of a block, and the one behind its last. */
static inline int64_t tg_attention_first_row(const tg_attention_sequence *s, int64_t block) {
  return block ? block * s->block - s->lacking : 0;
}
static inline int64_t tg_attention_end_of_rows(const tg_attention_sequence *s, int64_t block) {
  int64_t end = (block + 1) * s->block - s->lacking;
  return end < s->rows ? end : s->rows;
}
/* Pieces of a round that a sequence has. tg_attention_count: those of all, and the workspace for them. */
int64_t tg_attention_pieces_of(const tg_attention_work *w, const tg_attention_sequence *s, uint32_t round);
void tg_attention_count(tg_attention_work *w);

/* Where the first element of a key of K (ATTENTION_K), V, or their gradients lies. */
void *tg_attention_key_at(const tg_attention_work *w, uint32_t t, int64_t sequence, int64_t first_key, int64_t head,
                          int64_t key);
bool tg_attention_writes(const tg_attention_work *w, uint32_t t);   /* does the call write this tensor? */

/* run.c. gather: the operands and values of the run of this head, block of rows and part, whose results are those of
 * the call. On a device a run has all heads, of this one and those behind it. */
void tg_attention_gather(const tg_attention_work *w, const tg_attention_sequence *s, int64_t head, int64_t block,
                         int64_t part, void **operand, int64_t *value);
void *tg_attention_element(const tg_kit_tensor *x, int64_t i0, int64_t i1, int64_t i2, int64_t i3);

/* device_run.c. What a plan on a device lacks of a call, beside what the plan refuses; the call, put on its queue. */
tg_status tg_attention_check_on_device(const tg_attention_work *w);
tg_status tg_attention_run_on_device(tg_attention_work *w);

/* Piece x of a sequence in a round. sums: its partial results; worker: the thread, with its part of the workspace. */
typedef void tg_attention_piece(const tg_attention_work *w, const tg_attention_sequence *s, int64_t x, float *sums,
                                uint32_t worker, char *workspace);
/* backward_run.c: a part of the keys of one head of K and V; the sum of the parts of dQ of one block of a head. */
tg_attention_piece tg_attention_run_backward, tg_attention_sum_backward;

static inline int64_t tg_attention_smaller(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t tg_attention_larger(int64_t a, int64_t b) { return a > b ? a : b; }
static inline int64_t tg_attention_rounded_up(int64_t a, int64_t b) { return (a + b - 1) / b; }
#endif
