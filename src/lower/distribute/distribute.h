/* SPDX-License-Identifier: MIT
 * What the files of pass distribute share: the program of one workgroup while its parallel ranges are mapped to
 * threads. docs/distribute.md explains the terms with a drawing.
 *
 * A `par` is a parallel range of constant extent: each of its iterations is run by a thread. Thread t = warp * lanes +
 * lane runs iteration (t / stride) % room. A `digit` is the part of a subscript that a par decides: (subscript /
 * weight) % extent equals (iteration / step) % extent. A `tile` is a REG buffer with its layout, the list of its
 * dimensions' digits and of the threads that hold them. */
#ifndef TG_DISTRIBUTE_H
#define TG_DISTRIBUTE_H
#include "lower/sweep.h"

/* TG_PARS: at most this many pars around one statement; TG_DIGITS: digits of one access */
enum { TG_PARS = 12, TG_DIGITS = 8 };

typedef struct {
  const tg_uop *range;
  int64_t extent, room;        /* room: threads reserved for it, >= extent; those beyond extent have no iteration */
  int64_t stride;              /* distance in threads between neighbouring iterations; 0: not placed yet */
  uint32_t group;              /* union-find parent: pars that index the same digit of a tile share a place */
  bool lane, folded;           /* lane: must lie within one warp; folded: a FOLD combines its iterations */
} tg_par;

/* A statement, or a loop with the list of its statements. par: indices of the pars around it, outermost first. */
typedef struct tg_group_item tg_group_item;
struct tg_group_item {
  /* STORE, DEFINE, BARRIER, WAIT; for a loop its RANGE; NULL: the list of the whole workgroup */
  const tg_uop *u;
  tg_pos pos;
  TG_VEC(tg_group_item *) list;
  tg_group_item *outer;
  /* true: a loop over the parts of a par that is longer than the threads available; no order among its iterations */
  bool parts;
  uint32_t n, par[TG_PARS];
};

typedef struct { uint32_t dim, par; int64_t weight, extent, step; } tg_group_digit;
/* irregular: some subscript uses a par in a way that is no digit */
typedef struct { uint32_t n; bool irregular; tg_group_digit d[TG_DIGITS]; } tg_group_digits;

/* One digit of a tile's dimension dim, (subscript / weight) % extent; its value x lies in the threads with (t /
 * stride) % room == x. */
typedef struct { uint32_t dim; int64_t weight, extent, stride, room; } tg_group_place;
typedef struct {
  const tg_uop *define, *remade;
  /* stored: a STORE has set the layout; shared: the tile goes to LOCAL memory instead of registers */
  bool stored, shared;
  bool whole;                  /* made by this pass as a private register of each thread; it needs no layout */
  uint32_t n;
  tg_group_place d[TG_DIGITS];
  uint32_t copies;
  /* upcast ranges around its DEFINE; in LOCAL memory the tile gains a dimension for each */
  const tg_uop *copy[TG_DIGITS];
} tg_tile;

/* An access of a REG tile: u is the LOAD or STORE, item the statement that it belongs to. */
typedef struct { const tg_uop *u; tg_group_item *item; tg_group_digits digits; } tg_group_touch;

/* DEFINEs of LOCAL memory that the launches of a kernel share; it is no memory of a workgroup. */
typedef struct { const tg_uop **data; uint32_t n, cap; } tg_outside;
static inline bool tg_is_outside(const tg_outside *o, const tg_uop *buffer) {
  for (uint32_t i = 0; i < o->n; i++)
    if (o->data[i] == tg_define_of(buffer)) return true;
  return false;
}

typedef struct {
  tg_job *j;
  const tg_lowering *l;
  const tg_outside *outside;
  int64_t lanes, threads, limit;     /* lanes per warp; threads in use; most threads of a workgroup */
  const tg_uop *warp, *lane;   /* the two ranges of the threads; warp NULL: the workgroup is one warp */
  /* a par whose iteration is the thread's number, for subscripts that name it; NULL: none yet */
  const tg_uop *thread;
  TG_VEC(tg_par) par;
  TG_VEC(uint32_t) par_of;     /* by range ordinal: index into par, + 1; 0: no par */
  TG_VEC(tg_tile) tile;        /* by buffer ordinal */
  TG_VEC(tg_group_touch) touched;    /* all accesses of REG tiles, in program order */
  TG_VEC(const tg_uop *) counted;    /* loads in extents of loops */
  tg_group_item *body;
} tg_workgroup;

/* distribute.c */
typedef struct { TG_VEC(const tg_uop *) list; } tg_form;
/* Appends the statements `list` of one workgroup to out, in device form. */
void tg_workgroup_form(tg_job *j, const tg_lowering *l, uint32_t n, const tg_uop *const *list,
                       const tg_outside *outside, tg_form *out);
tg_group_item *tg_item_new(tg_workgroup *w, tg_group_item *outer, const tg_uop *u, tg_pos pos);
void tg_insert_before(tg_workgroup *w, const tg_group_item *at, tg_group_item *item);
tg_tile *tg_tile_of(tg_workgroup *w, const tg_uop *buffer);
void tg_note_copies(tg_workgroup *w, const tg_group_item *define);   /* fills copy[] of the tile */
uint32_t tg_par_new(tg_workgroup *w, const tg_uop *range, int64_t extent, bool lane);
/* is it LOCAL or global memory, or a tile that is `shared` by now? */
bool tg_in_memory(tg_workgroup *w, const tg_uop *buffer);
/* is it the workgroup's own: neither global memory nor what launches share? */
bool tg_is_own(tg_workgroup *w, const tg_uop *buffer);
/* the expression (t / stride) % room in terms of warp and lane */
const tg_uop *tg_thread_digit(tg_workgroup *w, int64_t stride, int64_t room);
const tg_uop **tg_loads_of(tg_workgroup *w, const tg_uop *store, uint32_t *n);
bool tg_in_extent(const tg_workgroup *w, const tg_uop *load);   /* of a loop: then all threads run it */
void tg_touch_item(tg_workgroup *w, tg_group_item *item);   /* appends its accesses of REG tiles to `touched` */

/* layout.c */
bool tg_par_of(const tg_workgroup *w, const tg_uop *u, uint32_t *par);
tg_group_digits tg_digits_of(tg_workgroup *w, const tg_uop *access);
void tg_assign_places(tg_workgroup *w);
void tg_assign_layouts(tg_workgroup *w);
/* The subscripts `src` of an access of t, without the digits that say which thread holds the element: into sub, the
 * position among that thread's registers. through: NULL if the thread itself holds it, else the lane to SHUFFLE
 * from, and asked is the digit in which the two lanes differ. False: registers cannot serve the access, so the tile
 * must be in LOCAL memory. */
bool tg_private_subscripts(tg_workgroup *w, const tg_tile *t, const tg_uop *access, const tg_uop *const *src,
                           const tg_uop **sub, const tg_uop **through, const tg_group_place **asked);
/* The conjuncts of a gate that have the same value in all lanes that differ only in the digit; NULL: there are none. */
const tg_uop *tg_agreed_gate(tg_workgroup *w, const tg_uop *gate, const tg_group_place *asked);

/* across.c: every FOLD over threads becomes shuffles and exchanges through LOCAL memory. tg_fold_ranges marks the
 * folded pars before places are assigned; tg_fold_across rewrites the FOLDs afterwards. */
void tg_fold_ranges(tg_workgroup *w);
void tg_fold_across(tg_workgroup *w);

/* exchange.c: the author's SHUFFLEs that no shuffle instruction can do go through LOCAL memory or a register. */
void tg_keep_exchanged(tg_workgroup *w);

/* rings.c: copies to LOCAL memory for later iterations become asynchronous copies if the target has them. */
void tg_find_rings(tg_workgroup *w);

/* barrier.c */
/* Is it proved that access a in one iteration of the loop and access b in the iteration `later` after it touch
 * different elements? shifted: b's iteration as an expression, used instead of `later`; NULL: none. */
bool tg_never_meet(tg_workgroup *w, const tg_uop *a, const tg_uop *b, const tg_group_item *loop, int later,
                   const tg_uop *shifted);
void tg_infer_barriers(tg_workgroup *w);
#endif
