/* SPDX-License-Identifier: MIT
 * What the heuristics know about a nest of loops, and the phrases that their schedules are made of. */
#ifndef TG_NEST_H
#define TG_NEST_H
#include "schedule/opt.h"
#include "choose/heuristic.h"

enum { NEST_MAX = 16 };

/* How much of a nest is scheduled: where the words of a class are refused, the next one is tried, down to the nest
 * as written. */
typedef enum {
  TG_RUNG_ALL,
  TG_RUNG_PLAIN /* no contraction, no rows or blocks of them */,
  TG_RUNG_LOOPS /* vectors and threads along loops alone */,
  TG_RUNG_THREADS /* threads alone */,
  TG_RUNG_NOTHING
} tg_rung;

/* Iterations of a range; -1: they are no constant. */
static inline int64_t tg_iterations(const tg_uop *range) {
  return tg_extent(range)->op == TG_OP_CONST ? tg_extent(range)->arg : -1;
}

/* Has no word given it a kind? */
static inline bool tg_is_free(const tg_uop *range) {
  return tg_range_kind(range) == TG_LOOP || tg_range_kind(range) == TG_REDUCE;
}

/* Does the loop hold stores and nothing else? */
static inline bool tg_stores_only(const tg_uop *end) {
  for (uint32_t i = 1; i < end->n; i++)
    if (end->src[i]->op != TG_OP_STORE) return false;
  return true;
}

typedef struct {
  const tg_uop *end, *range;
  const char *name;               /* what an opt calls it */
  const char *base;               /* prefix for the names of what it is split into */
  int64_t extent;                 /* -1: known at run time only */
  const char *extent_text;        /* NULL: depends on other ranges */
  bool parallel, lockstep;        /* and nothing else happens to it */
  uint32_t members;               /* ranges of its axis */
} tg_nest_loop;

typedef struct {
  const tg_uop *reduce, *store;
  uint32_t at;                    /* which range of it runs contiguously, or the last */
  const tg_uop *range;
  const char *name, *base, *extent_text;
  int64_t extent;
  bool contiguous;
} tg_nest_reduce;

typedef struct {
  tg_job *j;
  const tg_lowering *l;
  tg_schedule s;
  uint32_t lanes, registers;      /* of the widest element that the nest computes with */
  /* one top-level loop, or a statement without loops */
  const tg_uop *top;
  tg_nest_loop loop[NEST_MAX];    /* the perfect nest, outermost first */
  uint32_t depth;
  TG_VEC(const tg_uop *) stores;
  TG_VEC(tg_nest_reduce) reductions;
  TG_VEC(const tg_uop *) loads;
  double work;                    /* operations, roughly */
  bool versioned;                 /* a device's program has versions for some sizes: names are of one nest */
  bool steps;                     /* of a loop are nests of their own, and a word is for all copies: it is applied */
  bool fast;                      /* functions will be instructions: words that say so follow the choice */
  bool threads;                   /* tasks are allowed: the author made none */
  uint32_t copies;                /* of statements, by the kinds that ranges have already */
  uint8_t *done;                  /* by range ordinal: scheduled, as lanes */
  tg_decisions *decisions;        /* given ones, and a record of all; NULL: nobody wants to know */
  uint32_t index;                 /* of the nest in the program */
  TG_VEC(uint32_t) owner;         /* by word: index of the nest that it is for */
  uint32_t sums;                  /* vectors that a sum along memory has side by side; 0: as its class has */
  uint32_t wide;                  /* vectors that a loop among others has side by side; 0: as its class has */
  const uint8_t *rung;            /* by index of a nest: what has been given up for it; NULL: nothing */
  uint32_t rungs;
  struct tg_nest_choice *choice;  /* by index of a nest, rungs of them: what was made for it, and what is tried */
  TG_VEC(const char *) masked;    /* loops to be cut where their conditions become sure, when all else is said */
} tg_nest;

/* What may happen to all the ranges that a name means: register tiles tie several into one axis. */
typedef struct {
  uint32_t members;
  bool lockstep, parallel, cut,
      alike; /* of one extent: a sum over the filled part of a tile has not that of what fills it */
} tg_nest_axis;
tg_nest_axis tg_nest_axis_of(tg_nest *n, const char *name);
tg_axis tg_nest_axis_sites(tg_nest *n, const char *name);
/* As scheduled: nothing else happens to the axis. */
void tg_nest_mark(tg_nest *n, const char *name, bool lanes);

/* A decision: value, unless another one is given. options: what else might be better. Names are unique by the nest's
 * place and a count. */
int64_t tg_nest_choose(tg_nest *n, const char *what, int64_t value, uint32_t count, const int64_t *options);
#define TG_CHOOSE(n, what, value, ...)                                                                                 \
  tg_nest_choose((n), (what), (value), sizeof((const int64_t[]){__VA_ARGS__}) / 8, (const int64_t[]){__VA_ARGS__})
void tg_nest_emit(tg_nest *n, const char *format, ...) TG_PRINTF(2, 3);
void tg_nest_apply(tg_nest *n, uint32_t from);   /* the words from there on, to the program that the heuristic reads */
void tg_nest_choose_all(tg_nest *n, const tg_uop *raised);   /* the words of all nests, to the job */
/* How an access moves with a range. */
typedef enum {
  TG_STILL,
  TG_CONTIGUOUS,
  TG_BACKWARDS /* contiguous, descending */,
  TG_NEAR /* two to four elements apart, up or down: vectors too */,
  TG_STRIDES
} tg_motion;
tg_motion tg_access_motion(tg_job *j, const tg_uop *access, const tg_uop *range);
/* How far apart in memory, in elements, two iterations are; false: that is not known, or differs. */
bool tg_access_distance(tg_job *j, const tg_uop *access, const tg_uop *range, int64_t *distance);
/* Rows shorter than a vector that follow one another in memory become one loop, in the program that is read. */
void tg_nest_join_rows(tg_nest *n);
/* Vectors along a range: blocks of `upcast` vectors without masks, then masked vectors for the rest. The loop over
 * blocks, NULL if there is none. */
const char *tg_nest_vector(tg_nest *n, const char *name, const char *base, int64_t extent, const char *text,
                           uint32_t upcast, bool may_cut);
/* The same along a loop of the nest, whose axis may have ranges of several extents: then vectors are gated. */
const char *tg_nest_loop_vector(tg_nest *n, const tg_nest_loop *l, uint32_t upcast);
/* That loop is cut at the end where conditions in the axis become sure, if it leaves out work. */
void tg_nest_cut_masks(tg_nest *n, const char *name, const char *blocks);
/* One loop that is both what threads share and what vectors run along. */
void tg_nest_flat(tg_nest *n, const tg_nest_loop *l, uint32_t upcast);
tg_nest_loop tg_nest_read_loop(tg_nest *n, const tg_uop *end);
void tg_nest_read(tg_nest *n, const tg_uop *top);   /* all of a nest */
/* Iterations, as work is reckoned: of a size that is open until launch, a thousand. */
static inline double tg_nest_trips(int64_t extent) { return extent < 0 ? 1024 : (double)extent; }
/* The extent's text for a cut, or NULL where whole blocks of vectors may not exist at all. */
const char *tg_nest_cut_text(tg_nest *n, const tg_uop *range, const char *text);
/* May these statements, in the loop, run as vectors along it? */
bool tg_nest_vectorises(tg_nest *n, const tg_nest_loop *l, const tg_uop *const *stores, uint32_t count);
/* vectors at once, beside the copies that are made already */
uint32_t tg_nest_upcast(const tg_nest *n, uint32_t most);
uint32_t tg_nest_class_vectors(const tg_nest *n);   /* that a nest of no special class has */
/* Below a nest that is not perfect, or has no loop of its own for vectors. True: threads are chosen as well. */
bool tg_nest_inner(tg_nest *n);
/* Of a few terms: they become an expression. True if it did. */
/* How many of the innermost ranges of a reduction are `most` terms in all, at most, and may be written out. */
uint32_t tg_nest_small_ranges(tg_nest *n, const tg_uop *reduce, int64_t most);
bool tg_nest_small_reduction(tg_nest *n, const tg_nest_reduce *r);
/* May the sum be taken in blocks that the output keeps? It holds the sum's type, and is read only where the sum is
 * added to it. */
bool tg_nest_keeps_blocks(const tg_nest *n, const tg_nest_reduce *sum);
/* True if the nest is a contraction and was scheduled as one. */
bool tg_nest_contraction(tg_nest *n);
/* True if the nest moves elements from along one loop to along another, and was scheduled so. */
bool tg_nest_movement(tg_nest *n);
/* The first loop from which on the loops of a perfect nest may stand in any order; the depth: there is none. */
uint32_t tg_nest_in_any_order(tg_nest *n);
/* What is kept of sums that are needed more than once, TG_NEST_KEPT of them at most: each makes a buffer and a nest. */
enum { TG_NEST_KEPT = 4 };
void tg_nest_keep(tg_nest *n);
/* Words to begin with, for a nest that is not perfect; they change the program that the classes see. */
/* at: of the nest in the program; authored: buffers that are the author's */
void tg_nest_rows(tg_nest *n, uint32_t at, uint32_t authored);
/* Register tiles that registers cannot hold beside the accumulators of a sum, which are about as many, lie in memory;
 * said so, they tie no ranges, and each statement's may be taken as it likes. least: fewest dimensions. True: there is
 * one. */
bool tg_nest_place_tiles(tg_nest *n, const tg_uop *u, uint32_t least, bool say);
/* A few rows at a time, where some statements of a loop sum along rows and others add them. */
void tg_nest_blocks(tg_nest *n);
const char *tg_nest_base(tg_nest *n, const char *name);
enum { TG_TASK_WORK = 1 << 16, TG_THREAD_WORK = 50000 };
/* Threads over a range of which one iteration costs `each`. */
void tg_nest_thread(tg_nest *n, const char *name, const char *base, int64_t extent, const char *text, double each);
double tg_nest_cycles(const tg_nest *n, const double *by_width);   /* between two of the widest vectors */
/* Elements in four pages of 4 KiB, of which one vector each is read in turn; 0: not on this target. Does this many
 * elements of so many arrays come from memory, and divide into such blocks? The words for one. */
int64_t tg_nest_pages_block(const tg_nest *n);
bool tg_nest_wants_pages(const tg_nest *n, int64_t extent, uint32_t streams);
void tg_nest_page_vectors(tg_nest *n, const char *name, const char *b, int64_t extent, uint32_t upcast, bool loops);
/* Elements along memory for a task, rounded up. */
int64_t tg_nest_whole_pages(const tg_nest *n, int64_t elements);
void tg_nest_device(tg_nest *n);   /* all nests of a program, for a target with warps */
#endif
