/* SPDX-License-Identifier: MIT
 * The passes of lowering: from what a kernel computes to how it does. Each file has one pass and exports one function;
 * compile/pipeline.c is the table of them. */
#ifndef TG_LOWER_H
#define TG_LOWER_H
#include "ranges/ranges.h"
#include "target/target.h"

typedef struct tg_lowering {
  const tg_target *target;
  const tg_rules *rules;
  bool verify;                  /* check the spec (verify.c) after every pass */
  bool formed;                  /* pass fma forms none: the program says fma where it means one */
  bool unjudged;                /* for tests: schedule words that break the author's order are not refused */
  /* called for schedule words that the heuristic withdrew; may be NULL */
  void (*log)(void *user, const char *message);
  void *log_user;
  /* Seconds that the program would take with the job's words, lowered whole from stage raise, at n lists of values of
   * the parameters (NULL: there are none); fails where it cannot be lowered. NULL: nothing is priced, and each nest
   * gets what its class has. */
  void (*price)(struct tg_job *j, const struct tg_lowering *l, const tg_uop *raised, uint32_t n,
                const int64_t *const *params, double *seconds);
} tg_lowering;

/* Most threads that one reduction may have along its lane, local and group ranges, on a target with warps. */
enum { TG_REDUCE_THREADS = 4096 };

typedef const tg_uop *tg_pass_fn(tg_job *j, const tg_lowering *l, const tg_uop *sink);
int tg_stage_index(const char *stage);   /* 0: author, 1: the first pass, ..; -1: no stage of that name */

/* verify.c: fails with an internal error that shows every violation inside the printed program. author: the program
 * whose order of accesses this form must keep; NULL: unknown, lockstep ranges are taken to be the author's. */
typedef struct tg_authored tg_authored;
void tg_verify(tg_job *j, const tg_uop *sink, const char *stage, tg_authored *author);
/* A program that was read as text of a stage: what its registers demanded is their place from pass place on, and
 * violations are an error of who wrote the text. */
void tg_take_given(tg_job *j, const tg_uop *sink, const char *stage);
/* Call before pass schedule: records the author's order. */
tg_authored *tg_authored_of(tg_job *j, const tg_uop *sink, const char *stage);
/* Call after pass schedule, with the program that it left. */
void tg_authored_scheduled(tg_job *j, tg_authored *a, const tg_uop *scheduled, bool unjudged);

tg_pass_fn tg_pass_prove, tg_pass_raise, tg_pass_schedule, tg_pass_reduce, tg_pass_distribute, tg_pass_expand,
    tg_pass_fma, tg_pass_place, tg_pass_functions, tg_pass_types, tg_pass_coalesce, tg_pass_index, tg_pass_linear;
#endif
