/* SPDX-License-Identifier: MIT
 * Checks that a plan of attention, and so its kernels, must pass before it may be used. Operands end, or begin, at
 * guard pages; the bytes between rows are poison, and so are K and V of every key that no query sees. A candidate that
 * may crash is checked in a process of its own; tg_attention_check_at tells which operand an address belongs to. */
#ifndef TG_CHECKS_ATTENTION_H
#define TG_CHECKS_ATTENTION_H
#include "attention/plan.h"
#include "tg/attention.h"
#include "trial/placed.h"

typedef enum tg_attention_kind {
  /* Scores are integers in [-9, 0] to the base 2, elements of V small integers: each exponential, rescaling, part and
   * merge is exact. Equal to plain C where the sum of the weights is a power of two, else within 1 ulp of O's type. */
  TG_ATTENTION_EXACT,
  TG_ATTENTION_UNIFORM,        /* likewise, with Q = 0: the mean of the keys that are seen */
  TG_ATTENTION_DOMINANT,       /* likewise, with one key 2^400 times as heavy as the others: its V */
  /* random data against f64: within a bound that follows from sizes and types (attention_data.c), and over the rows of
   * all checks so far not more than twice as far away as a plain loop in f32 is on the same inputs, beyond chance. The
   * only ones of gradients, whose bound is in attention_gradients.c; no plain loop stands beside it */
  TG_ATTENTION_RANDOM,
  /* random data with infinities and NaNs in places that some queries see: as in f64, which leaves other keys out */
  TG_ATTENTION_SPECIAL,
  TG_ATTENTION_KINDS
} tg_attention_kind;
const char *tg_attention_kind_name(tg_attention_kind k);

/* How the operands lie: dense [batch][heads][tokens][head]; [batch][tokens][heads][head]; Q, K and V in one array of
 * tokens (if they have one type, else as before); with gaps everywhere; packed sequences of many lengths. */
typedef enum tg_attention_lie {
  TG_ATTENTION_DENSE,
  TG_ATTENTION_BY_TOKEN,
  TG_ATTENTION_QKV,
  TG_ATTENTION_GAPS,
  TG_ATTENTION_PACKED,
  TG_ATTENTION_LIES
} tg_attention_lie;

typedef struct tg_attention_case {
  tg_attention_kind kind;
  int64_t batch, queries, keys;   /* of packed sequences: the most */
  tg_attention_lie lie;
  bool lengths;                   /* with key_lengths, some of them 0 */
  bool front;                     /* operands begin right after a guard page; else they end right before one */
  uint64_t seed;
} tg_attention_case;

typedef struct tg_attention_checks tg_attention_checks;
/* Computes the call. If it fails it writes the reason to message, of n bytes. */
typedef tg_status tg_attention_candidate(void *user, const tg_attention_call *call, char *message, size_t n);
/* `user` of the candidate tg_attention_check_plan, which runs a plan, its workspace at a guard page. */
typedef struct tg_attention_planned {
  tg_context *context;
  const tg_attention *plan;
  const tg_exec *exec;            /* NULL: the context's pool */
  bool blocks;                    /* the blocks of keys that are seen are found out ahead, where the plan does that */
  /* of a plan on a device: the checks, whose operands are copied there, between guard regions */
  const tg_attention_checks *checks;
} tg_attention_planned;
tg_attention_candidate tg_attention_check_plan;
/* Prepares checks of what the descriptor describes. The descriptor and its texts must exist until they are closed. */
tg_status tg_attention_checks_open(tg_context *context, const tg_attention_desc *desc, tg_attention_checks **out);
void tg_attention_checks_close(tg_attention_checks *);

/* Does the check make sense for the descriptor? The exact ones need base2, a scale of 1 and no soft cap. */
bool tg_attention_check_applies(const tg_attention_desc *d, tg_attention_kind kind);
/* Runs one check. TG_OK: passed. TG_EINVAL: the result is wrong, and failure says where. Another status: the check
 * could not be made, and failure says why. */
tg_status tg_attention_check_one(tg_attention_checks *, tg_attention_candidate *run, void *user,
                                 const tg_attention_case *c, tg_check_failure *failure);
/* tg_places_at for the operands of the check. */
bool tg_attention_check_at(const tg_attention_checks *, const void *address, char *out, size_t n);
#endif
