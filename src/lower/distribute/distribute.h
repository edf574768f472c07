/* SPDX-License-Identifier: MIT
 * What the parts of pass distribute share: the program of one workgroup while threads are found for its ranges.
 *
 * A `par` is a range whose iterations are threads: of constant extent, its iteration is (t / stride) % room of the
 * thread
 * t = warp * lanes + lane. A `digit` is a part of a subscript that such a range decides: (x / weight) % extent is the
 * range's
 * (iteration / step) % extent. A `tile` is a REG buffer and its layout: which digits of its dimensions lie in which
 * threads. */
#ifndef TG_DISTRIBUTE_H
#define TG_DISTRIBUTE_H
#include "lower/sweep.h"

enum { TG_PARS = 12, TG_DIGITS = 8 };   /* around one statement; of one access */

typedef struct {
  const tg_uop *range;
  int64_t extent, room;        /* room: threads set aside, >= extent */
  int64_t stride;              /* 0: no place yet */
  uint32_t group;              /* ranges that one digit of a tile names: union-find */
  bool lane, folded;           /* folded: a FOLD combines its iterations */
} tg_par;

/* A statement, or a loop with its list. par: around it, outermost first. */
typedef struct tg_group_item tg_group_item;
struct tg_group_item {
  const tg_uop *u;             /* STORE, DEFINE, BARRIER; the RANGE of a loop; NULL: the workgroup's list */
  tg_pos pos;
  TG_VEC(tg_group_item *) list;
  tg_group_item *outer;
  /* a loop over parts of one parallel statement: its iterations are not after one another */
  bool parts;
  uint32_t n, par[TG_PARS];
};

typedef struct { uint32_t dim, par; int64_t weight, extent, step; } tg_group_digit;
/* irregular: a par is used in another way too */
typedef struct { uint32_t n; bool irregular; tg_group_digit d[TG_DIGITS]; } tg_group_digits;

/* One digit of a dimension of a tile, and the digit of the thread that it lies in: (t / stride) % room. */
typedef struct { uint32_t dim; int64_t weight, extent, stride, room; } tg_group_place;
typedef struct {
  const tg_uop *define, *remade;
  bool stored, shared;         /* shared: in LOCAL memory */
  bool whole;                  /* made by this pass: private to the thread, no layout */
  uint32_t n;
  tg_group_place d[TG_DIGITS];
  uint32_t copies;
  const tg_uop *copy[TG_DIGITS];   /* upcast ranges around its definition: in LOCAL memory a dimension for each */
} tg_tile;

/* u: LOAD or STORE */
typedef struct { const tg_uop *u; tg_group_item *item; tg_group_digits digits; } tg_group_touch;

typedef struct {
  tg_job *j;
  const tg_lowering *l;
  int64_t lanes, threads, limit;
  const tg_uop *warp, *lane;   /* the ranges; warp NULL: one warp */
  const tg_uop *thread;        /* a par for the thread itself, where a subscript must name it */
  TG_VEC(tg_par) par;
  TG_VEC(uint32_t) par_of;     /* by range ordinal, + 1 */
  TG_VEC(tg_tile) tile;        /* by buffer ordinal */
  TG_VEC(tg_group_touch) touched;    /* of REG, in program order */
  tg_group_item *body;
} tg_workgroup;

/* distribute.c */
typedef struct { TG_VEC(const tg_uop *) list; } tg_form;
/* The statements of one workgroup in device form, appended to out. */
void tg_workgroup_form(tg_job *j, const tg_lowering *l, uint32_t n, const tg_uop *const *list, tg_form *out);
tg_group_item *tg_item_new(tg_workgroup *w, tg_group_item *outer, const tg_uop *u, tg_pos pos);
void tg_insert_before(tg_workgroup *w, const tg_group_item *at, tg_group_item *item);
tg_tile *tg_tile_of(tg_workgroup *w, const tg_uop *buffer);
void tg_note_copies(tg_workgroup *w, const tg_group_item *define);   /* the upcast ranges around it, once */
uint32_t tg_par_new(tg_workgroup *w, const tg_uop *range, int64_t extent, bool lane);
bool tg_in_memory(tg_workgroup *w, const tg_uop *buffer);   /* LOCAL, or global, as things stand */
/* (t / stride) % room over warp and lane */
const tg_uop *tg_thread_digit(tg_workgroup *w, int64_t stride, int64_t room);
const tg_uop **tg_loads_of(tg_workgroup *w, const tg_uop *store, uint32_t *n);
void tg_touch_item(tg_workgroup *w, tg_group_item *item);   /* notes its accesses of REG */

/* layout.c */
bool tg_par_of(const tg_workgroup *w, const tg_uop *u, uint32_t *par);
tg_group_digits tg_digits_of(tg_workgroup *w, const tg_uop *access);
void tg_assign_places(tg_workgroup *w);
void tg_assign_layouts(tg_workgroup *w);
/* The access within the thread that has the element: subscripts without the digits of the tile. through: lane to ask
 * by SHUFFLE, or NULL; asked: the digit that it has and this thread has not. */
bool tg_private_subscripts(tg_workgroup *w, const tg_tile *t, const tg_uop *access, const tg_uop *const *src,
                           const tg_uop **sub, const tg_uop **through, const tg_group_place **asked);
/* What of a gate is the same for all lanes that differ in the digit; NULL: nothing. */
const tg_uop *tg_agreed_gate(tg_workgroup *w, const tg_uop *gate, const tg_group_place *asked);

/* across.c: every FOLD over threads becomes shuffles and LOCAL memory. First it says which ranges are folded; then,
 * places being known, it does. */
void tg_fold_ranges(tg_workgroup *w);
void tg_fold_across(tg_workgroup *w);

/* exchange.c: the author's exchanges that no instruction makes. */
void tg_keep_exchanged(tg_workgroup *w);

/* rings.c: what is copied to LOCAL memory iterations ahead is copied past the registers, where the target can. */
void tg_find_rings(tg_workgroup *w);

/* barrier.c */
/* Do an access in an iteration of the loop and one `later` iterations after it surely touch different elements?
 * shifted: the second one's iteration instead, or NULL. */
bool tg_never_meet(tg_workgroup *w, const tg_uop *a, const tg_uop *b, const tg_group_item *loop, int later,
                   const tg_uop *shifted);
void tg_infer_barriers(tg_workgroup *w);
#endif
