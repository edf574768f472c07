/* SPDX-License-Identifier: MIT
 * Tuning attention: which kernel of a plan is searched, and what its candidates have to pass. */
#ifndef TG_CHECKS_ATTENTION_TUNE_H
#define TG_CHECKS_ATTENTION_TUNE_H
#include "attention/plan.h"
#include "trial/trial.h"

/* The kernel that a plan of a descriptor runs for so many queries and keys. */
typedef struct tg_attention_space {
  tg_attention plan;                     /* without kernels */
  tg_attention_problem problem;
  const tg_kit_choice *choice;           /* the plan's own */
  tg_binding binding[ATTENTION_VALUES];
  uint32_t bindings_n;
  int64_t params[ATTENTION_VALUES];      /* of the run that is timed */
  uint32_t params_n;
  /* as in tg_tune_kind: each key is added, and what was added before rescaled; gradients: roundings_of */
  uint64_t roundings;
  tg_attention_def def[ATTENTION_SKETCHES];
  const tg_kernel_def *defs[ATTENTION_SKETCHES];
  uint32_t defs_n;
} tg_attention_space;
/* The descriptor's texts must exist as long as the space. */
tg_status tg_attention_space_of(tg_context *c, const tg_attention_desc *d, int64_t queries, int64_t keys,
                                tg_attention_space *out);

/* tg_trial_checks of it: a plan whose kernel is the candidate passes the checks of checks/attention.h, at sizes around
 * the numbers in the candidate's words. tg_attention_about writes the text and returns what snprintf returns. */
size_t tg_attention_about(const tg_attention_desc *d, const tg_attention_problem *kernel, char *out, size_t n);
tg_status tg_attention_trial(tg_context *c, const char *about, tg_kernel *k, const char *words, int threads,
                             uint64_t seed, double *whole, char *message, size_t message_n);
#endif
