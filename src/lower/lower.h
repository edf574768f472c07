/* SPDX-License-Identifier: MIT
 * From what to how: the passes. Each file has one pass and exports one function; compile/pipeline.c is the table of
 * them. */
#ifndef TG_LOWER_H
#define TG_LOWER_H
#include "ranges/ranges.h"
#include "target/target.h"

typedef struct tg_lowering {
  const tg_target *target;
  const tg_rules *rules;
  bool verify;                  /* the spec after every pass */
  bool unjudged;                /* for tests: words are not refused for the order that they break */
  void (*log)(void *user, const char *message);   /* told of words that the heuristic took back; NULL: nobody */
  void *log_user;
} tg_lowering;

/* that one reduction may have along lane, local and group ranges, on a target of threads */
enum { TG_REDUCE_THREADS = 4096 };

typedef const tg_uop *tg_pass_fn(tg_job *j, const tg_lowering *l, const tg_uop *sink);
int tg_stage_index(const char *stage);   /* 0: author, 1: the first pass, ..; -1: there is none of that name */

/* verify.c: fails with an internal error that shows every violation inside the printed program. author: whose order
 * the form has to keep, as far as it is the caller's to say (NULL: lockstep ranges were the author's). */
typedef struct tg_authored tg_authored;
void tg_verify(tg_job *j, const tg_uop *sink, const char *stage, tg_authored *author);
/* of the program as it is before pass schedule */
tg_authored *tg_authored_of(tg_job *j, const tg_uop *sink, const char *stage);
void tg_authored_scheduled(tg_job *j, tg_authored *a, const tg_uop *scheduled, bool unjudged);   /* as it leaves it */

tg_pass_fn tg_pass_prove, tg_pass_raise, tg_pass_schedule, tg_pass_reduce, tg_pass_distribute, tg_pass_expand,
    tg_pass_contract, tg_pass_place, tg_pass_functions, tg_pass_types, tg_pass_coalesce, tg_pass_index, tg_pass_linear;
#endif
