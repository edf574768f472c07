/* SPDX-License-Identifier: MIT
 * Candidates for the first choice of a nest, made from the roles of its axes. */
#ifndef TG_PLAN_H
#define TG_PLAN_H
#include "choose/nest.h"

typedef enum {
  TG_PLAN_CLASS /* what the nest's class gets */,
  TG_PLAN_COLUMNS /* vectors along a loop of a perfect nest */,
  TG_PLAN_TERMS /* vectors along the terms of a sum in a perfect nest */,
  TG_PLAN_AROUND /* iterations of a loop around other loops side by side */,
  TG_PLAN_FLAT /* vectors along the one loop of a nest without sums */,
  TG_PLAN_OUTSIDE /* blocks of a sum's terms outside, vectors along a loop inside: the output holds the sum so far */,
  TG_PLAN_SUBSCRIPTS /* one by one, since where to is read from memory: subscripts are clamped ahead, by vectors */,
  TG_PLAN_ROWS /* the class of a nest with statements of several kinds, some of its rows side by side */
} tg_plan_kind;

/* Terms of a sum's innermost range that are always written out, at most; of several ranges, where that pays. */
enum { TG_TERMS_SOME = 4, TG_TERMS_MOST = 32 };
enum { TG_PLANS = 8 };            /* that are lowered and priced, at most, for a nest */

/* lane: the loop that vectors run along, or the index of the reduction; row: the loop whose iterations share what is
 * loaded, `rows` at a time; NEST_MAX: none. vectors: side by side; of rows, of a sum. apart: tiles that no registers
 * hold tie no statements. wide: vectors side by side of the loops inside of rows; 0: as their class has. whole: all
 * terms of small sums are written out, not those of their innermost range alone. window: rows share what a window of
 * such terms meets again; they stay outside of the vectors' blocks. from: the loops before this one stay
 * where they are.
 * bound: cycles that the machine needs at least. */
typedef struct {
  tg_plan_kind kind;
  uint32_t lane, row, vectors, rows, from, wide;
  bool apart, whole, window;
  double bound;
} tg_plan;

/* A nest's candidates, made once (made: are they there?). plan: the one that is tried, counted from 1; 0: its class.
 * taken: that one, or what a search decided instead. */
typedef struct tg_nest_choice {
  bool made;
  uint32_t plans, plan;
  const tg_plan *taken;
  tg_plan plan_of[TG_PLANS];
} tg_nest_choice;

/* The candidates of the nest that n has read, those with the least bounds; at most TG_PLANS. */
uint32_t tg_nest_plans(tg_nest *n, tg_plan *out);
/* Its words. */
void tg_nest_plan(tg_nest *n, const tg_plan *p);
/* The dimension along which the loop's iterations are neighbours, if it moves no other one; the rank: there is none. */
uint32_t tg_nest_dimension_along(tg_job *j, const tg_uop *load, const tg_uop *range);
/* A load along the innermost loop that promises bounds and is a subscript; NULL: there is none. */
const tg_uop *tg_nest_subscript(tg_nest *n);
bool tg_nest_is_open(const tg_nest *n);        /* some extent is known at launch only */
int64_t tg_nest_line(const tg_nest *n);        /* elements of the output that fill whole vectors and whole lines */
/* Is a copy of what the load reads, for a block of the loop's iterations, worth its while, and can it be made? */
bool tg_nest_may_stage(tg_nest *n, const tg_uop *load, const tg_uop *along);
#endif
