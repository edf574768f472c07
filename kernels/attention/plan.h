/* SPDX-License-Identifier: MIT
 * A plan of attention: its kernels, and what its calls have in common. */
#ifndef TG_ATTENTION_PLAN_H
#define TG_ATTENTION_PLAN_H
#include "attention/template.h"
#include "kit/plan.h"

/* The two kernels of a part: results, and sums to be merged; on a device, results of divided keys. */
enum { ATTENTION_WHOLE, ATTENTION_PARTIAL };
/* Of runs of at most ATTENTION_FEW rows the keys are divided into parts of at most SPLIT, which threads take and a
 * kernel merges; of fewer, but not below LEAST, if a sequence has less than PIECES of them over all its heads. Into
 * how many depends on heads and keys alone, so the bits of the result do too. */
enum {
  ATTENTION_RANGES = 8,
  ATTENTION_GRIDS = 2,                 /* on a device: few rows, and more */
  ATTENTION_SPLIT = 1024,
  ATTENTION_LEAST = 256,
  ATTENTION_PIECES = 8
};
/* divide.c. The most parts that so many keys are divided into, for each of `heads` heads (gradients: of K and V); it
 * never falls as keys grow. */
int64_t tg_attention_most_parts(bool backward, int64_t heads, int64_t keys);
/* The keys of a part: whole blocks, divided evenly. */
int64_t tg_attention_keys_of_part(bool backward, int64_t heads, int64_t keys);

typedef struct tg_attention_factors { float scale, cap, change; } tg_attention_factors;

struct tg_attention {
  tg_kit_plan plan;
  tg_attention_problem problem;
  int32_t heads, kv_heads;
  uint8_t causal;                      /* TG_CAUSAL_NONE.. */
  int64_t window;
  uint32_t flags;
  bool append;                         /* calls write the K and V of their queries' tokens first */
  /* factors in the kernels: of Q, of tanh; and of dS: what a score changes by with Q.K. On a device they are memory */
  tg_attention_factors factors, *on_device;
  uint8_t tensor[ATTENTION_OPERANDS];   /* that its calls have: ATTENTION_Q.., in ascending order */
  uint32_t tensors_n;
  tg_kit_dim queries, keys;
  int64_t rows;                        /* most rows of one run */
  /* one query for each head: the heads that share a head of K and V are the rows of one run */
  bool heads_are_rows;
  tg_kit_part part[ATTENTION_RANGES];   /* their size is rows */
  tg_attention_problem grid[ATTENTION_GRIDS];   /* on a device: of each part */
  uint32_t parts_n;
  tg_kit_kernel merge, join;
  tg_kit_kernel sum[3];                /* of gradients: dQ of parts, and dK and dV of other types than f32 */
  /* of a mask that is not known before: runs of more than ATTENTION_FEW rows have lists of blocks of keys (if the keys
   * fill no block, runs have few rows); which of these are seen, and whether that depends on the sequence, the head */
  tg_kit_kernel states;
  bool lists, by_batch, by_head;
  tg_kit_kernel put[2];                /* and what appends K, V; part[0] has its kernel, of gradients dQ and dK, dV */
};

/* plan.c. Makes the problem that of the kernel for these numbers of rows. */
void tg_attention_narrow(tg_attention_problem *q, tg_kit_dim rows);

/* device_run.c. On a device: into how many parts a launch for `batch` sequences divides its keys; *of_part: keys of
 * one. As many as leave each core all workgroups that it has room for, if that saves more time than another launch
 * costs. */
int64_t tg_attention_parts_of_grid(const tg_attention *a, const tg_attention_problem *q, int64_t batch, int64_t queries,
                                   int64_t keys, int64_t *of_part);

/* call.c. Finds which tensors calls of the plan have. */
void tg_attention_list_tensors(tg_attention *a);

/* variants.c. TG_EINVAL: two fields of the descriptor are not combined; the message says why. */
tg_status tg_attention_check_combination(tg_context *c, const tg_attention_desc *d);

/* plan.c, for tg_attention_tune. lay_out: makes a plan without kernels, which needs no tg_attention_free. sketches_for:
 * writes the sketches that take the problem to def and defs (of ATTENTION_SKETCHES), the choice's first, and returns
 * their number. */
enum { ATTENTION_SKETCHES = 3 };
tg_status tg_attention_lay_out(tg_context *c, const tg_attention_desc *d, tg_attention *out);
uint32_t tg_attention_sketches_for(const tg_attention_problem *q, const tg_kit_choice *choice, tg_attention_def *def,
                                   const tg_kernel_def **defs);
/* Do calls of a plan for a device take packed sequences and key_lengths? */
#endif
