/* SPDX-License-Identifier: MIT
 * Attention in the language: one body of mathematics for the rows of one head, whose variants are expressions in it,
 * and two sets of words for it. Problems and choices are plain data. */
#ifndef TG_ATTENTION_TEMPLATE_H
#define TG_ATTENTION_TEMPLATE_H
#include "kit/plan.h"
#include "target/target.h"
#include "tg/attention.h"

enum { ATTENTION_ARGUMENTS = TG_KIT_ARGUMENTS, ATTENTION_MOST_PARTS = 256 };

/* Everything that the code of a kernel depends on. The bodies get it as tg_user. */
typedef struct tg_attention_problem {
  tg_type q, k, v, o;            /* types of the elements; sums are f32 */
  int64_t head, value_head;
  tg_kit_dim rows, keys;         /* of one run of the kernel */
  /* the kernel writes sums instead of results: O is f32 and not divided by l, beside the row's maximum m and sum l, so
   * that parts over other keys can be merged */
  bool partial;
  bool backward;                 /* gradients, for which O and LSE are read */
  bool lse, base2, causal, window, cap, alibi, sinks;
  /* the kernel is told which blocks of keys to compute: those that all its rows see as a whole, and those that some see
   * in part. For masks that are not known when it is compiled */
  bool lists;
  int64_t page;                  /* tokens of a page of K and V, which a table names; 0: they lie in one piece */
  /* K and V are integers of 8 or 4 bits, with a scale for each kv_group elements of a key; 0: they are floats */
  uint8_t kv_bits;
  tg_type kv_scale;
  int64_t k_group, v_group;
  int64_t rotary;                /* elements of Q and K that are turned by the angles of their positions; 0: none */
  bool neighbours;               /* pairs are neighbours; else halves of those elements */
  int64_t block_rows, block_keys;   /* of a mask of blocks: rows and keys that an element stands for; 0: none */
  uint8_t block_per;             /* what it has blocks for each of: TG_PER_BATCH, TG_PER_HEAD */
  uint32_t dropout;              /* of 2^16 weights so many are left out; 0: none */
  tg_type mask;                  /* added to the scores, or (TG_BOOL) a condition; TG_VOID: none */
  uint8_t mask_per;              /* TG_PER_QUERY.. of tg/attention.h, of which a kernel sees queries and keys */
  const char *score_mod, *mask_mod;
  tg_kit_argument argument[ATTENTION_ARGUMENTS];
  uint32_t arguments_n;
  /* for GPUs: one kernel for all sequences and heads, `group` of which share a head of K and V; masks and arguments are
   * dense. matrix: the instruction of src/target/matrix.def for both products, of f16 or bf16, whose workgroups have
   * `warps` warps, blocks of `keys_of_block` keys, and rings of so many blocks in LOCAL memory (0: K and V are read
   * where they lie) */
  bool grid;
  int64_t group;
  const char *matrix;
  uint32_t warps, keys_of_block, stages;
  bool loads_matrices;           /* the target has ldmatrix */
  bool keeps_queries;            /* Q stays in registers for all blocks */
  /* so many heads that share a head of K and V are rows of a workgroup, so that K and V are read once for all of these:
   * row r is head r % row_heads of them, of query r / row_heads of the workgroup's. 0 or 1: rows are queries */
  int64_t row_heads;
  uint32_t groups_of_core;       /* such workgroups that a core has room for */
  /* not 0: keys are divided into parts, each of a workgroup of its own, which a second launch merges; there are at most
   * so many workgroups, each with a place for its sums */
  uint32_t slots;
} tg_attention_problem;

/* Runs begin at whole blocks of keys, but behind those that a window leaves out: in a page at multiples of this, of
 * which a page and a block have a whole number. */
int64_t tg_attention_page_unit(const tg_attention_problem *);

/* Is there a mask that is known only when a call comes? Bounds say nothing of it. */
static inline bool tg_attention_is_masked(const tg_attention_problem *p) {
  return p->mask_mod || p->mask == TG_BOOL || p->block_rows;
}

/* Buffers and run-time parameters: ATTENTION_Q.. and ATTENTION_ROWS.. */
enum {
#define OPERAND(name, text) ATTENTION_##name,
#include "attention/names.def"
  ATTENTION_OPERANDS
};
enum {
#define VALUE(name, text, has, least, most) ATTENTION_##name,
#include "attention/names.def"
  ATTENTION_VALUES
};
extern const tg_kit_names tg_attention_names;

/* Type and dimensions of the operand ATTENTION_BLOCKS, ATTENTION_MASK, or an argument: ATTENTION_ARG0 on. */
static inline tg_kit_argument tg_attention_mask(const tg_attention_problem *p, uint32_t t) {
  if (t > ATTENTION_MASK) return p->argument[t - ATTENTION_ARG0];
  if (t == ATTENTION_MASK) return (tg_kit_argument){.type = p->mask, .per = p->mask_per};
  return (tg_kit_argument){.type = TG_BOOL, .per = p->block_per | TG_PER_QUERY | TG_PER_KEY};
}

/* The sets of words for the body. prefill: rows are lanes; decode: elements of a head are, for few rows; device: blocks
 * of queries are workgroups, and both products matrix instructions. */
extern const tg_kernel_def *const tg_attention_prefill, *const tg_attention_decode, *const tg_attention_device;
/* Of a grid. append: writes k_new to the last keys of K. backward_device.c: dQ, a task for each query; dK and dV, a
 * task for each key of each head of K and V. */
extern const tg_kernel_def *const tg_attention_device_append, *const tg_attention_device_dq,
    *const tg_attention_device_dkv;
/* backward.c: gradients of one run's rows and keys; and the sum of `parts` results [M][value_head] of f32 in type o,
 * with parameters M, parts, lddq. */
extern const tg_kernel_def *const tg_attention_backward, *const tg_attention_sum;
/* rows of a sequence whose keys may be divided (plan.h), which one run has therefore */
enum { ATTENTION_FEW = 16 };
enum { ATTENTION_DECODE_ROWS = 8 };    /* most rows that the decode words take: the largest value of their knob BQ */

/* choose.c: chooses words and knobs for p->rows.hi rows from the registers and the caches. Returns the most rows that
 * one run of the kernel may take; more are divided among runs. */
int64_t tg_attention_choose(const tg_attention_problem *p, const tg_target *t, tg_kit_choice *out);

/* Chooses the matrix instruction for these types and sizes of heads, one that takes its operands as they are and whose
 * sizes divide them, and the tiles of a workgroup; NULL in `matrix`: the target has none. */
void tg_attention_device_tiles(const tg_target *t, tg_attention_problem *p);

/* Makes a sketch a kernel of this problem, whose parameters are those that the problem needs. Bindings: writes those of
 * the parameters to b, of ATTENTION_VALUES, and returns their number. */
typedef struct { tg_kernel_def def; char params[512]; } tg_attention_def;
void tg_attention_kernel_of(const tg_attention_problem *p, const tg_kernel_def *sketch, tg_attention_def *out);
uint32_t tg_attention_bind(const tg_attention_problem *p, const tg_kernel_def *sketch, tg_binding *b);

/* states[k] of the blocks of ATTENTION_BLOCK keys: does no row see any key of it, some see some, or all see all? */
enum { ATTENTION_BLOCK = 64, ATTENTION_UNSEEN = 0, ATTENTION_SEEN_IN_PART, ATTENTION_SEEN_AS_A_WHOLE };
extern const tg_kernel_def *const tg_attention_states;

/* Kernels that merge results over parts of the keys; they get the problem as tg_user. merge_parts: of 1 to
 * ATTENTION_MOST_PARTS partial results, with parameters M, parts, ldo. join: of O and LSE over two sets of keys, with
 * parameter M. */
extern const tg_kernel_def *const tg_attention_merge_parts, *const tg_attention_join;
#endif
