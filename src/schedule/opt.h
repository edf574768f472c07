/* SPDX-License-Identifier: MIT
 * What the words of a schedule share: the program as it stands, the places of its ranges, and the way to name them. */
#ifndef TG_OPT_H
#define TG_OPT_H
#include "dsl/text.h"
#include "schedule/schedule.h"

/* A place where a range is bound: its END, or a REDUCE within a store. */
typedef struct {
  const tg_uop *range, *owner;   /* owner: END or REDUCE */
  const tg_uop *store;           /* of a REDUCE: a statement that it stands in */
  uint32_t parent;               /* site of the END around, UINT32_MAX: none */
} tg_site;

typedef struct { const tg_uop *store; uint32_t parent; } tg_store_site;

typedef struct { const tg_site *site; uint32_t n; const tg_store_site *store; uint32_t stores; } tg_sites;

struct tg_matrix_row;
/* A dimension of a register tile that a matrix instruction stores to: rows (0) or columns (1) of its accumulator. */
typedef struct { const tg_uop *define; uint32_t dim, which; const struct tg_matrix_row *row; tg_pos pos; } tg_tile_axis;

/* A range that is no part of one of the author's: where its iterations differ, so do those of one of these, + 1 (0:
 * none). apart: its iterations never meet. */
typedef struct { uint32_t range[2]; bool apart; } tg_made_of;
/* the last word that made or moved the range, from 1; what stands around it */
typedef struct { uint32_t word, place; } tg_changed;

typedef struct tg_schedule {
  tg_job *j;
  const tg_lowering *l;
  const tg_uop *author;          /* the program that the schedule began with, plain */
  const tg_uop *sink;            /* the program now, plain */
  const tg_uop *sites_of;        /* the program that sites and stores describe */
  TG_VEC(tg_site) sites;         /* in program order, outer before inner */
  TG_VEC(tg_store_site) stores;
  tg_sites *first;               /* those of the program that the schedule began with; NULL: it has not changed */
  uint32_t *first_root, first_ranges;   /* which of its ranges register tiles tied: equal numbers, by ordinal */
  TG_VEC(uint32_t) axis;         /* by range ordinal: the axis, named by one ordinal, + 1; 0: the range's `from` */
  /* DEFINEs of copies made ahead: they carry data between iterations that the author's program does not */
  TG_VEC(const tg_uop *) rings;
  /* by range ordinal: equal numbers index one dimension of a register tile; 0: none known */
  TG_VEC(uint32_t) tied;
  /* by range ordinal: the name that it shares with the other parts of a list split; NULL: none */
  TG_VEC(const char *) family;
  /* by range ordinal: the name that it would have if it were the only one of it; NULL: the one that it has */
  TG_VEC(const char *) plain;
  TG_VEC(tg_tile_axis) tiles;    /* what contract has left for tg_finish_tiles */
  uint32_t digits;               /* names made there */
  uint32_t author_buffers, author_ranges;   /* how many there were: what words make comes behind */
  struct tg_touched *touched;    /* what the author's program touches; NULL: not asked yet */
  TG_VEC(uint8_t *) separates;   /* by ordinal of the author's range, by buffer: legal.c */
  TG_VEC(tg_made_of) made_of;    /* by range ordinal */
  TG_VEC(uint32_t) copy_of;      /* by buffer ordinal: the author's that it is a copy of, + 1; 0: none */
  TG_VEC(tg_opt) words;          /* those applied */
  TG_VEC(tg_changed) changed;    /* by range ordinal */
  bool author_uneven;            /* a reduction's extent differs between the author's own iterations in lockstep */
} tg_schedule;

/* Distinct ranges. group: members of one group are tied by register tiles; the others are copies of one range. */
typedef struct { uint32_t n; const tg_site *site; const uint32_t *group; } tg_axis;

void tg_schedule_begin(tg_schedule *s, tg_job *j, const tg_lowering *l, const tg_uop *plain);
void tg_schedule_sites(tg_schedule *s);
void tg_schedule_apply(tg_schedule *s, const tg_opt *o);   /* fails at o->pos if it is illegal */
/* The ranges that a name means, or an error at the opt: unknown, or ambiguous with the lines. */
tg_axis tg_axis_find(tg_schedule *s, const tg_opt *o, const char *name);
void tg_axis_begin(tg_schedule *s);
/* A range whose extent differs between the iterations of `range`, since it uses it or reads memory that each of them
 * has of its own; NULL: none. */
const tg_uop *tg_extent_following(tg_schedule *s, const tg_uop *range);
/* A new range of the axis that `like` belongs to. */
const tg_uop *tg_axis_range(tg_schedule *s, const tg_uop *like, const char *name, const tg_uop *extent, tg_kind kind);
/* The name that means this range's axis, with a number if others have the name too. Sites must describe the program. */
const char *tg_axis_name(tg_schedule *s, const tg_uop *range);
void tg_axis_tie(tg_schedule *s, const tg_uop *range, const tg_uop *with);   /* one axis from now on */
/* r1.by8 answers to r1 as well. */
void tg_axis_join(tg_schedule *s, const tg_uop *range, const char *family);
/* What the parts of a range are called where a word does not say: the first of base, base_2, base_3, .. of which no
 * range has one of the names `base.suffix` now. Sites must describe the program before the word. */
typedef struct { const char *base, *plain; } tg_naming;
tg_naming tg_axis_naming(tg_schedule *s, const tg_uop *range, uint32_t n, const char *const *suffix);
/* The range answers to what it would be called if no other had the name. */
void tg_axis_call_plainly(tg_schedule *s, const tg_uop *range, const char *plain);
/* tg_axis_range, called by that. */
const tg_uop *tg_axis_part(tg_schedule *s, const tg_uop *like, const tg_naming *names, const char *suffix,
                           const tg_uop *extent, tg_kind kind);
/* What new ranges made of this one are named after: its family or its own name. */
const char *tg_axis_base(tg_schedule *s, const tg_uop *range);
/* The site's name is free for a new range, or an error at the opt. */
void tg_axis_check_name(tg_schedule *s, const tg_opt *o, const char *name);
const char *tg_range_text(tg_schedule *s, const tg_uop *range);   /* "i (line 8)" */
static inline const char *tg_range_name(tg_schedule *s, const tg_uop *r) {
  return s->j->ranges.data[tg_range_ordinal(r)].name;
}
/* Of the loop as it stands now, the loops inside running one iteration after another. It holds for no other place,
 * and for no part of the loop. */
tg_verdict tg_range_verdict(tg_schedule *s, const tg_uop *end, const char **why);
/* Are its iterations independent for a reason that no word can take away? Then it may also change places with any
 * loop of a perfect nest. */
bool tg_surely_independent(tg_schedule *s, const tg_uop *end);
/* Where a new range's iterations differ, those of a differ, or those of b (NULL: none). */
void tg_axis_made_of(tg_schedule *s, const tg_uop *range, const tg_uop *a, const tg_uop *b);
/* Each of a new range's iterations has elements of its own, by the way its word made it. */
void tg_axis_apart(tg_schedule *s, const tg_uop *range);
void tg_buffer_copied(tg_schedule *s, const tg_uop *copy, const tg_uop *from);
/* Fails if the words so far, taken together, do not keep the order of the program: at o, which has just set kinds,
 * or, o being NULL, at the last word that made or moved a range concerned. */
void tg_schedule_check(tg_schedule *s, const tg_opt *o);
void tg_schedule_note(tg_schedule *s, const tg_opt *o);   /* behind each word, sites up to date */
/* The copy made ahead that a statement in u fills, or NULL: its data pass from iteration to iteration. */
const tg_uop *tg_ring_stored(const tg_schedule *s, const tg_uop *u);

/* Statement lists. */
typedef struct { const tg_uop **data; uint32_t n, cap; } tg_statements;
/* Puts what fn appends in the place of the loop over range. */
typedef void tg_replace_fn(tg_schedule *s, const tg_uop *end, tg_statements *out, void *user);
const tg_uop *tg_replace_end(tg_schedule *s, const tg_uop *sink, const tg_uop *range, tg_replace_fn *fn, void *user);
const tg_uop *tg_end_like(tg_schedule *s, const tg_uop *like, const tg_uop *range, uint32_t n,
                          const tg_uop *const *list);

/* Index arithmetic with the folding that keeps printed programs short. */
const tg_uop *tg_idx_add(tg_job *j, const tg_uop *a, const tg_uop *b);
const tg_uop *tg_idx_sub(tg_job *j, const tg_uop *a, const tg_uop *b);
const tg_uop *tg_idx_mul(tg_job *j, const tg_uop *a, int64_t c);
const tg_uop *tg_idx_div(tg_job *j, const tg_uop *a, int64_t c);
const tg_uop *tg_idx_mod(tg_job *j, const tg_uop *a, int64_t c);
const tg_uop *tg_idx_ceildiv(tg_job *j, const tg_uop *a, int64_t c);
const tg_uop *tg_idx_not_negative(tg_job *j, const tg_uop *a);   /* max(a, 0) */
const tg_uop *tg_idx_min(tg_job *j, const tg_uop *a, const tg_uop *b);
/* an expression of the program; its ranges stay the nodes that they are */
const tg_uop *tg_simplified(tg_schedule *s, const tg_uop *expression);
bool tg_loads_below(tg_job *j, const tg_uop *u);
bool tg_divides(tg_job *j, int64_t n, const tg_uop *a);
const tg_uop *tg_zero(tg_job *j, tg_type t);

/* u with range := value; where cond is not NULL the stores of statements, and every load that reads through range,
 * get it as a gate, and so does every load of a buffer that the loop stores to. Buffers born inside the loop stay
 * ungated. marks: of the loop, or NULL. */
const tg_uop *tg_gated_substitute(tg_schedule *s, const tg_uop *u, const tg_uop *range, const tg_uop *value,
                                  const tg_uop *cond, const uint8_t *marks);
/* By ordinal: which buffers are defined within a loop, which others it stores to. */
uint8_t *tg_marked_buffers(tg_schedule *s, const tg_uop *end);
/* The statements again, with loops, reductions and buffers of their own. */
void tg_copy_statements(tg_schedule *s, uint32_t n, const tg_uop *const *list, const tg_uop **out);

/* One range becomes siblings, in this order. known: what cond is in a part; NULL: cond stays as it is there.
 * nothing: the part has no iterations, or does nothing in them, and is left out. */
typedef struct { const char *name; const tg_uop *start, *extent, *known; bool nothing; } tg_part;
/* copied: bits of the parts that get copies. names.base NULL: parts have whole names */
typedef struct {
  const tg_uop *range, *cond, *made[3];
  tg_part part[3];
  uint32_t n, copied;
  tg_naming names;
} tg_cutting;
void tg_cut_site(tg_schedule *s, const tg_opt *o, const tg_site *site, tg_cutting *c);   /* made gets the ranges */
void tg_cut_auto(tg_schedule *s, const tg_opt *o);
bool tg_cut_pays(tg_schedule *s, const tg_site *site);   /* does a cut r auto leave out work, and not just masks? */

/* The words. Each sets s->sink or fails. */
void tg_opt_split(tg_schedule *s, const tg_opt *o);
void tg_opt_tile(tg_schedule *s, const tg_opt *o);
void tg_opt_pad(tg_schedule *s, const tg_opt *o);
void tg_opt_fuse(tg_schedule *s, const tg_opt *o);
void tg_opt_fission(tg_schedule *s, const tg_opt *o);
bool tg_may_fission(tg_schedule *s, const tg_uop *end);
void tg_opt_order(tg_schedule *s, const tg_opt *o);
void tg_opt_swap(tg_schedule *s, const tg_opt *o);
void tg_opt_kind(tg_schedule *s, const tg_opt *o);
/* thread, of a loop that carries; false, and nothing done, if the loop does not */
bool tg_opt_carry(tg_schedule *s, const tg_opt *o);
void tg_opt_cut(tg_schedule *s, const tg_opt *o);
void tg_opt_stage(tg_schedule *s, const tg_opt *o);
void tg_opt_access(tg_schedule *s, const tg_opt *o);    /* stream, place */
void tg_opt_specialize(tg_schedule *s, const tg_opt *o);
void tg_opt_prefetch(tg_schedule *s, const tg_opt *o);
void tg_opt_contract(tg_schedule *s, const tg_opt *o);
void tg_note_tile(tg_schedule *s, const tg_opt *o, const struct tg_matrix_row *row, const tg_uop *store,
                  const tg_uop *const *range);
/* What the ranges of an axis are in an accumulator of that instruction that they run along: 0 rows, 1 columns, -1
 * neither. */
int tg_tile_dimension(tg_schedule *s, const tg_axis *axis, const struct tg_matrix_row *row);
void tg_finish_tiles(tg_schedule *s);                   /* behind the last word */
/* lane, stage, prefetch: fails where accesses are vectors already */
void tg_check_contracted(tg_schedule *s, const tg_opt *o);
/* made, unless NULL: gets the names of the two parts, which outer and inner are where they are given. */
void tg_split_range(tg_schedule *s, const tg_opt *o, const char *name, int64_t n, const char *outer, const char *inner,
                    const char **made);
/* Moves the loop of a site around the loops that it stands in, or fails. The sites are those of the program before. */
void tg_move_outermost(tg_schedule *s, const tg_opt *o, const tg_site *site);
/* As far as its nest lets it: loops that stay outside are loops of phases. Fails if something else would. */
void tg_move_outward(tg_schedule *s, const tg_opt *o, const tg_site *site);
/* Does what the kernel writes not decide it? Then the launcher may ask for it. */
bool tg_known_before(tg_job *j, const tg_uop *extent);
void tg_order_ranges(tg_schedule *s, const tg_opt *o, uint32_t n, const char *const *names);
/* The reduction's range becomes a loop around the loop: its sum is taken in blocks. */
void tg_block_reduction(tg_schedule *s, const tg_opt *o, const char *name, const char *loop);
#endif
