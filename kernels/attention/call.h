/* SPDX-License-Identifier: MIT
 * A call of a plan: its operands, and how its work is divided into runs of kernels. */
#ifndef TG_ATTENTION_CALL_H
#define TG_ATTENTION_CALL_H
#include "attention/plan.h"
#include "kit/operands.h"

/* The tensors of a call; the first four are the first four operands of kernels. */
enum {
  OF_Q,
  OF_K,
  OF_V,
  OF_O,
  OF_SLOPES,
  OF_LSE,
  OF_MASK,
  OF_ARG,
  OF_DO = OF_ARG + TG_ATTENTION_ARGS,   /* of gradients; in the order of their kernel operands */
  OF_DQ,
  OF_DK,
  OF_DV,
  OF_SINKS,
  OF_K_SCALE,                           /* of K and V in integers */
  OF_V_SCALE,
  OF_COS,                               /* of rotary embedding */
  OF_SIN,
  OF_BLOCKS,                            /* a mask of blocks */
  OF_K_NEW,                             /* K and V that are appended */
  OF_V_NEW,
  TENSORS
};

typedef struct tg_attention_work {
  const tg_attention *a;
  const tg_attention_call *call;
  int64_t batch, queries, keys;        /* of the call; with packed sequences their most */
  int64_t total;                       /* tokens of all packed queries */
  uint32_t philox[3];                  /* of dropout: seed and offset */
  int64_t table_entries;               /* that are read, from the first to the last of them */
  int64_t table_step;                  /* entries of the table of pages from one sequence to the next */
  /* those that the plan has. Their dimensions: sequences, heads, tokens, elements; or (masks) queries and keys */
  tg_kit_tensor of[TENSORS];
  tg_kit_exec exec;
  /* counted by tg_attention_count: runs, heads whose parts are merged */
  int64_t runs, merges;
  /* states of blocks of keys, of `tables` tables of state_rows by state_keys: of each sequence, or of all, and of each
   * head, or of all. tables 0: no run has lists */
  int64_t tables, state_rows, state_keys;
  bool by_sequence;
  /* in the workspace: behind the threads' own parts partial results, states, the lists of each thread */
  char *workspace;
  float *sums;
  uint8_t *states;
  int32_t *lists;
  tg_kit_deal deal;
} tg_attention_work;

#define wrong(a, ...) tg_kit_fail((a)->plan.context, TG_EINVAL, __VA_ARGS__)

/* call.c. read_sizes: reads all of a call but its operands; `copy` is room for a struct of an older header.
 * read_operands: all operands. read_masks: the mask and the arguments only. */
tg_status tg_attention_read_sizes(tg_attention_work *w, const tg_attention *a, const tg_attention_call *call,
                                  size_t call_bytes, tg_attention_call *copy);
tg_status tg_attention_read_operands(tg_attention_work *w);
tg_status tg_attention_read_masks(tg_attention_work *w);

/* What one sequence of a batch consists of: `rows` queries against `keys` keys. Runs: for each of `heads` heads, for
 * each block of `block` rows, for each of `parts` parts of `part` keys. */
typedef struct tg_attention_sequence {
  int64_t index, queries, keys, first_query, first_key;
  int64_t skipped;                     /* keys before those, which no query sees */
  int64_t heads, rows, block, blocks, parts, part, most_parts;
  bool heads_are_rows;
} tg_attention_sequence;
tg_attention_sequence tg_attention_sequence_of(const tg_attention_work *w, int64_t i);
/* Floats of the partial results of one head: O, then m, then l of each part. */
int64_t tg_attention_sums_of_head(const tg_attention_work *w, const tg_attention_sequence *s);

/* Where the first element of a key of K (OF_K) or V lies. */
void *tg_attention_key_at(const tg_attention_work *w, uint32_t t, int64_t sequence, int64_t first_key, int64_t head,
                          int64_t key);
bool tg_attention_has_tensor(const tg_attention *a, uint32_t t);   /* is it one of the plan? */

/* run.c. gather: the operands and values of the run of this head, block of rows and part, apart from the places of its
 * results. lse_at: where the LSE of a row lies: [batch][heads][queries], or of packed sequences [heads][all tokens]. */
void tg_attention_gather(const tg_attention_work *w, const tg_attention_sequence *s, int64_t head, int64_t block,
                         int64_t part, void **operand, int64_t *value);
void *tg_attention_element(const tg_kit_tensor *x, int64_t i0, int64_t i1, int64_t i2, int64_t i3);
float *tg_attention_lse_at(const tg_attention_work *w, const tg_attention_sequence *s, int64_t head, int64_t query,
                           float *otherwise);

/* backward_run.c. Computes a call of a plan for gradients; workspace: the bytes that it needs. */
tg_status tg_attention_run_backward(tg_attention_work *w);
size_t tg_attention_backward_workspace(tg_attention_work *w);

/* divide.c. Where the parts of a call's workspace begin, and its size. */
typedef struct tg_attention_areas { size_t sums, states, lists, all; } tg_attention_areas;
tg_attention_areas tg_attention_count(tg_attention_work *w);

static inline int64_t tg_attention_smaller(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t tg_attention_larger(int64_t a, int64_t b) { return a > b ? a : b; }
static inline int64_t tg_attention_rounded_up(int64_t a, int64_t b) { return (a + b - 1) / b; }
#endif
