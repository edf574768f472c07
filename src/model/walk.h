/* SPDX-License-Identifier: MIT
 * What the parts of the cost model share: the program that is priced, and the resources that a list of statements
 * takes. */
#ifndef TG_COST_WALK_H
#define TG_COST_WALK_H
#include "model/cost.h"
#include "model/cost_memory.h"

enum { TG_COST_ADDRESSES = 12 };   /* general registers that hold addresses */

/* Cycles that each kind of unit is busy. alone: nothing else is done at that time. instructions: their number. chosen:
 * the number of loads whose address a gate chooses. */
typedef struct { double math, loads, stores, shuffles, alone, instructions, chosen; } tg_cost_ports;

/* For a report: one execution of the statements of a loop. range: NULL: of the program itself. cycles: without the
 * loops inside. */
typedef struct {
  const tg_uop *range;
  uint32_t depth;
  double trips, cycles, chain, spilled;
  tg_cost_ports ports;
} tg_cost_line;
typedef TG_VEC(tg_cost_line) tg_cost_lines;

/* Of a value in a list: its first user, how many it has, the place of the first use, its number among values that take
 * registers, from 1, and whether it is of the list or was counted. */
typedef struct tg_cost_place { const tg_uop *user; uint32_t uses, late, value; bool inside; } tg_cost_place;

/* Side tables by node id. They grow with the job, and no walk clears them: a job prices hundreds of programs, and has
 * tens of times as many nodes as one of them. divisor and fixed are facts about nodes, which are immutable; the others
 * are scratch. */
typedef struct tg_cost_tables {
  uint32_t cap;
  bool dirty;                  /* a walk ended in an error, so scratch may not be zero */
  double *depth;               /* latency from the start of the iteration; zero between lists */
  tg_cost_place *place;        /* registers.c; zero between its calls */
  double *stride;              /* cost_memory.c; written before it is read */
  bool *needed;                /* cost_memory.c; zero between its calls */
  double *divisor;             /* largest known power of two that divides the value; 0: not computed yet */
  uint8_t *fixed;              /* 1: a constant vector; 2: not; 0: not computed yet */
} tg_cost_tables;
/* The job's tables, with room for all of its nodes. */
tg_cost_tables *tg_cost_tables_of(tg_job *j);

typedef struct {
  tg_job *j;
  tg_cost_lines *lines;        /* NULL: no report */
  const tg_target *target;
  const tg_machine *machine;
  tg_cost_loops *loops;
  tg_cost_tables *by_id;
  double spills, code, chain;
  int threads;
} tg_cost_walk;

double tg_cost_pieces(const tg_cost_walk *w, const tg_uop *u);   /* registers that a value takes */
bool tg_cost_in_register(const tg_cost_walk *w, const tg_uop *access);
/* A lane of a vector that multiply-adds take as it is; it costs nothing. */
bool tg_cost_is_lane(const tg_cost_walk *w, const tg_uop *u);
/* A constant vector: of constants and IOTA alone. It costs nothing. */
bool tg_cost_is_fixed(tg_cost_walk *w, const tg_uop *u);
/* ports.c: adds what u takes. list, i: its place among the statements, for what is done together with its
 * neighbours. */
void tg_cost_count(tg_cost_walk *w, tg_cost_ports *p, const tg_uop *const *list, uint32_t n, uint32_t i);
double tg_cost_latency(const tg_cost_walk *w, const tg_uop *u);
/* cost.c: the walk over a program whose loops, accesses and lines are kept. */
tg_cost tg_cost_walked(tg_cost_walk *w, const tg_uop *linear, const int64_t *params);

/* registers.c: vectors that one iteration of an innermost loop stores and loads since there are too few registers.
 * forwarded: some element that is updated in each iteration has none, so that its chain goes through memory. */
typedef struct { double stores, loads; bool forwarded; } tg_cost_spills;
tg_cost_spills tg_cost_spilled(tg_cost_walk *w, const tg_uop *const *list, uint32_t n);
#endif
