/* SPDX-License-Identifier: MIT
 * Pass reduce in its two parts: where a reduction stands and its loops (reduce.c), and how its accumulators become the
 * result (reduce_results.c). */
#ifndef TG_REDUCE_H
#define TG_REDUCE_H
#include "lower/sweep.h"

enum { TG_REDUCE_VALUES = 8, TG_REDUCE_RANGES = 8 };

/* A list of statements that is being made. */
typedef struct tg_reduce_level {
  struct tg_reduce_level *outer;
  const tg_uop *range;         /* the loop's range in the new program; NULL: the SINK */
  uint32_t depth;
  bool lane;                   /* within a lane range */
  bool open, runs;             /* runs: proved to have at least one iteration */
  TG_VEC(const tg_uop *) out;
  /* the list's statements in the old program, from the current one on; none for a loop of a reduction */
  const tg_uop *const *rest;
  uint32_t rest_n;
} tg_reduce_level;

typedef struct {
  tg_job *j;
  const tg_rules *rules;
  const tg_uop **to;           /* by old id: the new node, in plain form */
  /* by old id: list in which the value can be computed; for a statement, its list */
  tg_reduce_level **home;
  const tg_uop ***values;      /* by old id of a GENERIC REDUCE: its results */
  uint32_t *seen, epoch, n;
  tg_reduce_level *sink, *now;           /* now: the list of the current statement */
  bool device;                 /* local and lane ranges stay */
  bool ahead;                  /* the program has AHEAD */
  tg_pos pos;                  /* of the current statement */
} tg_reduce_state;

/* A reduction that is being lowered. */
typedef struct {
  tg_reduce_state *s;
  const tg_uop *reduce;
  tg_reduce_arg info;
  /* of the old program; wide: upcast, then lanes */
  const tg_uop *sequential[TG_REDUCE_RANGES], *wide[TG_REDUCE_RANGES], *thread;
  uint32_t nseq, nwide, nupcast;         /* the first nupcast of wide are combined as copies, the others by FOLD */
  uint32_t extent[TG_REDUCE_RANGES];           /* of wide */
  const tg_uop *acc[TG_REDUCE_VALUES];
  const tg_uop *first;         /* of argmax and argmin in the order of places: the lowest; NULL: it is none */
  bool largest;
  const tg_uop *part[TG_REDUCE_VALUES];        /* with threads: memory of one result for each task */
} tg_reduce_plan;

const tg_uop *tg_reduce_rewrite(tg_reduce_state *s, const tg_uop *root);
void tg_reduce_put(tg_reduce_state *s, tg_reduce_level *l, const tg_uop *statement);
void tg_reduce_close(tg_reduce_state *s, tg_reduce_level *l);
/* Of a range whose iterations are done together; an error if it is not constant. */
uint32_t tg_reduce_extent(tg_reduce_state *s, const tg_uop *range);
const tg_uop *tg_reduce_register(tg_reduce_plan *p, const char *name, tg_type type, uint32_t lanes, uint32_t nd,
                                 const uint32_t *dim);
/* Opens new loops over the wide ranges from index `from` on, innermost last. */
tg_reduce_level *tg_reduce_open_wide(tg_reduce_plan *p, tg_reduce_level *l, uint32_t from, tg_reduce_level **opened,
                                     const tg_uop **sub);
/* combined(left, right) of value v. */
const tg_uop *tg_reduce_combine(tg_reduce_plan *p, uint32_t v, const tg_uop *const *left, const tg_uop *const *right);

/* reduce_extrema.c: the lowest place if it is an argmax or argmin, whose terms these loops have in the order of places;
 * else NULL. */
const tg_uop *tg_first_place(tg_job *j, const tg_rules *rules, const tg_uop *reduce, uint32_t n,
                             const tg_uop *const *loop, bool *largest);
const tg_uop *tg_beats(tg_job *j, bool largest, const tg_uop *found, const tg_uop *term);

/* reduce_results.c: combines the accumulators of all upcast copies by halving, first range first, then the lanes by
 * FOLD. */
void tg_reduce_results(tg_reduce_plan *p, tg_reduce_level *l, const tg_uop **result);
/* Of a reduction over a thread range: in its loop, each task stores its result; behind it, they are combined. */
void tg_reduce_store_part(tg_reduce_plan *p, tg_reduce_level *tasks, const tg_uop *const *result);
void tg_reduce_combine_parts(tg_reduce_plan *p, const tg_uop **result);
#endif
