/* SPDX-License-Identifier: MIT
 * The pipeline: all passes in order, each with what holds for the program that it leaves. See docs/ir.md. */
#include "compile/pipeline.h"

const tg_pass tg_passes[] = {
    {"prove", tg_pass_prove, "every access in bounds, outputs covered, no races; gates proved true vanish"},
    {"raise", tg_pass_raise, "register tiles assigned once are expressions; += loops are REDUCE"},
    {"schedule", tg_pass_schedule, "opts applied: ranges split, ordered, given kinds; tiles staged; loops cut"},
    {"reduce", tg_pass_reduce, "no REDUCE: registers, loops, FOLD"},
    {"distribute", tg_pass_distribute,
     "targets with lanes: threads for local and lane ranges, shuffles, LOCAL memory, barriers; others: unchanged"},
    {"fma", tg_pass_fma, "FMA formed from a * b + c"},
    {"expand", tg_pass_expand, "no upcast, unroll, lane, local ranges: copies and vectors"},
    {"place", tg_pass_place, "every define_reg is ssa or memory; simplified"},
    {"functions", tg_pass_functions, "no exp, log, sin, ..: their definitions"},
    {"types", tg_pass_types,
     "only types that the target computes in; conversions that it lacks are integer code; floats of few bits are "
     "look-ups"},
    {"coalesce", tg_pass_coalesce,
     "vector subscripts are base + iota, base, or a general vector; blocks of gathers transposed"},
    {"index", tg_pass_index, "one offset per access; i32 and i64 instead of INDEX; machine division"},
    {"linear", tg_pass_linear,
     "every value a statement, before its first use, outside of the loops that it does not depend on"},
    {0},
};

/* The first pass to run: the one after the job's stage. A program may be lowered in several calls, or be read from text
 * at any stage. */
static const tg_pass *first_pass(tg_job *j) {
  int i = tg_stage_index(j->stage);
  if (i < 0) tg_fail(&j->env, TG_EINVAL, "no pass is named '%s'", j->stage);
  return tg_passes + i;
}

const tg_uop *tg_lower(tg_job *j, const tg_lowering *l, const char *until, tg_stage_fn *seen, void *user) {
  const tg_pass *p = first_pass(j);
  const tg_uop *sink = j->sink;
  const int schedule = tg_stage_index("schedule");
  if (j->given) {
    j->given = false;
    tg_take_given(j, sink, j->stage);
  }
  if (l->verify && (!j->authored || tg_stage_index(j->stage) < schedule))
    j->authored = tg_authored_of(j, sink, j->stage);
  if (p == tg_passes) {
    if (l->verify) tg_verify(j, sink, "author", NULL);
    if (seen) seen(user, "author", sink);
  }
  if (until && !strcmp(until, j->stage)) return sink;
  for (; p->name; p++) {
    tg_job_go_on(j);
    sink = p->run(j, l, sink);
    j->sink = sink;
    j->stage = p->name;
    if (l->verify && p + 1 == tg_passes + schedule) tg_authored_scheduled(j, j->authored, sink, l->unjudged);
    if (l->verify) tg_verify(j, sink, p->name, j->authored);
    if (seen) seen(user, p->name, sink);
    if (until && !strcmp(until, p->name)) return sink;
  }
  if (until) tg_fail(&j->env, TG_EINVAL, "no pass is named '%s' after the present stage", until);
  return sink;
}
