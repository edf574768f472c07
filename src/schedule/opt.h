/* SPDX-License-Identifier: MIT
 * What all schedule words share: the current program, where each range is bound in it (sites), how the text names
 * ranges (axes), and helpers for rewriting. Each word (split, fuse, ..) has a file of its own. */
#ifndef TG_OPT_H
#define TG_OPT_H
#include "dsl/text.h"
#include "schedule/schedule.h"

/* A place where a range is bound: its END, or a REDUCE within a store. */
typedef struct {
  const tg_uop *range, *owner;   /* owner: END or REDUCE */
  const tg_uop *store;           /* if owner is a REDUCE: a statement that contains it; else NULL */
  uint32_t parent;               /* index of the site of the enclosing loop; UINT32_MAX: none */
} tg_site;

typedef struct { const tg_uop *store; uint32_t parent; } tg_store_site;

typedef struct { const tg_site *site; uint32_t n; const tg_store_site *store; uint32_t stores; } tg_sites;

struct tg_matrix_row;
/* A dimension of a register tile that a matrix instruction stores to: rows (0) or columns (1) of its accumulator. */
typedef struct {
  const tg_uop *define;
  uint32_t dim, which;
  const struct tg_matrix_row *row;
  bool interleaved;   /* the columns of several instructions lie between those of a lane and of the next */
  tg_pos pos;
} tg_tile_axis;

/* The one or two ranges that a new range was made from, if it is no part of a single author's range: their ordinals + 1
 * (0: none). Two iterations of the new range differ in at least one of them. */
typedef struct { uint32_t range[2]; } tg_made_of;
/* word: number, from 1, of the last word that made or moved the range; place: hash of the loops around it */
typedef struct { uint32_t word, place; } tg_changed;

/* A copy that holds 0 wherever its reads' condition, in the program now, is false. */
typedef struct { const tg_uop *copy, *condition; } tg_zero_unless;

typedef struct tg_schedule {
  tg_job *j;
  const tg_lowering *l;
  const tg_uop *author;          /* the program that the schedule began with, plain */
  const tg_uop *sink;            /* the program now, plain */
  const tg_uop *sites_of;        /* the program that sites and stores describe */
  TG_VEC(tg_site) sites;         /* in program order, outer before inner */
  TG_VEC(tg_store_site) stores;
  tg_sites *first;               /* sites of the program that the schedule began with; NULL: no word changed it yet */
  /* for that program, by range ordinal (first_ranges of them): ranges that index one dimension of a register tile
   * have equal numbers */
  uint32_t *first_root, first_ranges;
  /* by range ordinal: a representative range of its axis, as ordinal + 1 (union-find); 0: that of the author's range
   * it came from (`from`) */
  TG_VEC(uint32_t) axis;
  /* DEFINEs of ring buffers (stage with a depth): they carry data from one iteration to a later one, which the
   * author's program does not */
  TG_VEC(const tg_uop *) rings;
  /* by range ordinal: equal numbers index one dimension of a register tile; 0: none known */
  TG_VEC(uint32_t) tied;
  /* by range ordinal: the name that it shares with the other parts of a list split; NULL: none */
  TG_VEC(const char *) family;
  /* by range ordinal: the name it would have if no other range needed the same one; NULL: its actual name */
  TG_VEC(const char *) plain;
  TG_VEC(tg_tile_axis) tiles;    /* register tiles stored to by matrix instructions, for tg_finish_tiles */
  bool finishing;                /* words of tg_finish_tiles, behind which the whole program is checked */
  uint32_t digits;               /* names that tg_finish_tiles has made up so far */
  uint32_t author_buffers, author_ranges;   /* counts in the author's program; those made by words follow them */
  struct tg_touched *touched;    /* the accesses of the author's program; NULL: not collected yet */
  TG_VEC(uint8_t *) separates;   /* [ordinal of author's range][buffer]: cached answers of legal.c */
  TG_VEC(tg_made_of) made_of;    /* by range ordinal */
  TG_VEC(tg_zero_unless) zeros;
  TG_VEC(uint32_t) copy_of;      /* by buffer ordinal: ordinal + 1 of the author's buffer it is a copy of; 0: none */
  TG_VEC(tg_opt) words;          /* applied so far */
  TG_VEC(tg_changed) changed;    /* by range ordinal */
  bool moved;                    /* the word being applied puts loops into another order (order.c) */
  bool author_uneven;            /* a reduction's extent differs between the author's own iterations in lockstep */
} tg_schedule;

/* The n ranges that one name means. Those with equal group numbers index one dimension of a register tile; ranges of
 * different groups are copies of one range. */
typedef struct { uint32_t n; const tg_site *site; const uint32_t *group; } tg_axis;

void tg_schedule_begin(tg_schedule *s, tg_job *j, const tg_lowering *l, const tg_uop *plain);
void tg_schedule_sites(tg_schedule *s);
void tg_schedule_apply(tg_schedule *s, const tg_opt *o);   /* fails at o->pos if it is illegal */
/* The ranges that a name means. Fails at the opt if the name is unknown, or ambiguous (with the lines it may mean). */
tg_axis tg_axis_find(tg_schedule *s, const tg_opt *o, const char *name);
void tg_axis_begin(tg_schedule *s);
/* A range inside of `range` whose extent may differ between iterations of `range`, because the extent uses `range` or
 * reads memory that is private to an iteration; NULL: none. */
const tg_uop *tg_extent_following(tg_schedule *s, const tg_uop *range);
/* A new range of the axis that `like` belongs to. */
const tg_uop *tg_axis_range(tg_schedule *s, const tg_uop *like, const char *name, const tg_uop *extent, tg_kind kind);
/* The name that means this range's axis, with a number if others have the name too. Sites must describe the program. */
const char *tg_axis_name(tg_schedule *s, const tg_uop *range);
void tg_axis_tie(tg_schedule *s, const tg_uop *range, const tg_uop *with);   /* one axis from now on */
/* r1.by8 answers to r1 as well. */
void tg_axis_join(tg_schedule *s, const tg_uop *range, const char *family);
/* Default names for the parts of a range: base.suffix, such as i.0 and i.1 for a split of i. If one of these names is
 * taken, base is i_2 (or i_3, ..) and the names are i_2.0 and i_2.1. plain: base without such a number; tg_axis_part
 * lets the parts be found by plain.suffix too. Sites must describe the program before the word. */
typedef struct { const char *base, *plain; } tg_naming;
tg_naming tg_axis_naming(tg_schedule *s, const tg_uop *range, uint32_t n, const char *const *suffix);
/* Lets the range also be found by `plain`: i_2.0 answers to i.0. */
void tg_axis_call_plainly(tg_schedule *s, const tg_uop *range, const char *plain);
/* tg_axis_range with the name base.suffix of tg_axis_naming. */
const tg_uop *tg_axis_part(tg_schedule *s, const tg_uop *like, const tg_naming *names, const char *suffix,
                           const tg_uop *extent, tg_kind kind);
/* The base for names of parts of this range: its family or its own name. */
const char *tg_axis_base(tg_schedule *s, const tg_uop *range);
/* Fails at the opt if a range has this name already. */
void tg_axis_check_name(tg_schedule *s, const tg_opt *o, const char *name);
const char *tg_range_text(tg_schedule *s, const tg_uop *range);   /* "i (line 8)" */
static inline const char *tg_range_name(tg_schedule *s, const tg_uop *r) {
  return s->j->ranges.data[tg_range_ordinal(r)].name;
}
/* Are the iterations of this loop independent, where it stands now and with all loops inside it sequential? The answer
 * must not be reused after the loop is moved, nor for a part of it. why gets the reason if they are not. */
tg_verdict tg_range_verdict(tg_schedule *s, const tg_uop *end, const char **why);
/* Are the loop's iterations independent however its loops are split, moved or parallelised? If so, it may also change
 * places with any loop of a perfect nest. */
bool tg_surely_independent(tg_schedule *s, const tg_uop *end);
/* Notes that `range` was made from a and b (NULL: none): two iterations of it differ in a or in b. */
void tg_axis_made_of(tg_schedule *s, const tg_uop *range, const tg_uop *a, const tg_uop *b);
void tg_buffer_copied(tg_schedule *s, const tg_uop *copy, const tg_uop *from);
/* Fails if the words so far, taken together, break a dependence of the author's program. o: the word that has just
 * set kinds, to be named in the error; NULL: name the last word that made or moved one of the ranges involved. */
void tg_schedule_check(tg_schedule *s, const tg_opt *o);
/* Call after each word, with sites up to date: records which ranges it made or moved. */
void tg_schedule_note(tg_schedule *s, const tg_opt *o);
/* The ring buffer that a statement in u stores to, or NULL. */
const tg_uop *tg_ring_stored(const tg_schedule *s, const tg_uop *u);

/* Statement lists. */
typedef struct { const tg_uop **data; uint32_t n, cap; } tg_statements;
/* The program with the loop over range replaced by the statements that fn appends to out. */
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
/* Simplifies an expression of the program without replacing its range nodes. */
/* The index of o->expr, over parameters and the ranges around the site; else an error of that word. */
const tg_uop *tg_index_around(tg_schedule *s, const tg_opt *o, const char *word, const tg_site *site);
const tg_uop *tg_simplified(tg_schedule *s, const tg_uop *expression);
/* specialize.c: with what the version that the site stands in knows of its parameters. */
const tg_uop *tg_in_version(tg_schedule *s, const tg_site *site, const tg_uop *u);
bool tg_loads_below(tg_job *j, const tg_uop *u);
bool tg_divides(tg_job *j, int64_t n, const tg_uop *a);
const tg_uop *tg_zero(tg_job *j, tg_type t);

/* u with range := value. If cond is not NULL, it becomes a gate of every store, of every load whose subscripts use
 * range, and of every load of a buffer that the loop stores to; accesses of buffers defined inside the loop are not
 * gated. marks: tg_marked_buffers of the loop, or NULL. */
const tg_uop *tg_gated_substitute(tg_schedule *s, const tg_uop *u, const tg_uop *range, const tg_uop *value,
                                  const tg_uop *cond, const uint8_t *marks);
/* By buffer ordinal: marks of the buffers defined inside the loop, and of others that it stores to (rewrite.c). */
uint8_t *tg_marked_buffers(tg_schedule *s, const tg_uop *end);
/* Deep copy of statements, with new loops, reductions and buffers. */
void tg_copy_statements(tg_schedule *s, uint32_t n, const tg_uop *const *list, const tg_uop **out);
/* A reduction with new ranges, and so have those in it that change with these; others, such as the maximum of a row in
 * the sum of its exponentials, stay one with the original's, and are computed once. */
const tg_uop *tg_copy_reduction(tg_schedule *s, const tg_uop *reduce);

/* One of the siblings that a range is cut into, in program order. known: the constant value of tg_cutting.cond in
 * this part; NULL: unknown, cond stays. nothing: the part has no iterations or no effect, and is dropped. */
typedef struct { const char *name; const tg_uop *start, *extent, *known; bool nothing; } tg_part;
/* n parts. made: the new ranges. copied: bit p is set if part p gets a copy of the body (else it takes the original).
 * names.base NULL: part[].name are whole names, not suffixes. */
typedef struct {
  const tg_uop *range, *cond, *made[3];
  tg_part part[3];
  uint32_t n, copied;
  tg_naming names;
} tg_cutting;
void tg_cut_site(tg_schedule *s, const tg_opt *o, const tg_site *site, tg_cutting *c);   /* sets c->made */
void tg_cut_auto(tg_schedule *s, const tg_opt *o);
/* Would `cut r auto` remove iterations or gathers, not only masks? */
bool tg_cut_pays(tg_schedule *s, const tg_site *site);

/* The words: the functions of their rows. Each sets s->sink or fails. */
#define OPT(constant, word, operands, apply, change, meaning) void apply(tg_schedule *s, const tg_opt *o);
#include "schedule/opts.def"
#undef OPT
bool tg_may_fission(tg_schedule *s, const tg_uop *end);
/* `thread` on a loop that carries state; returns false and does nothing if the loop carries none */
bool tg_opt_carry(tg_schedule *s, const tg_opt *o);
/* `thread` on a range of a sum, on a target with warps: its iterations become tasks whose parts a second phase sums */
void tg_sum_in_parts(tg_schedule *s, const tg_opt *o, const tg_axis *axis);
/* Is the loop a scan: sums of its terms so far, each stored (scan.c)? */
bool tg_scan_of(tg_schedule *s, const tg_uop *end);
/* `thread`, `group` on a scan; false, and nothing is done: it is none */
bool tg_scan_in_parts(tg_schedule *s, const tg_opt *o);
bool tg_scan_in_blocks(tg_schedule *s, const tg_opt *o);
/* For contract: what the store to a register tile needs of reductions other than the product goes to tiles of rows,
 * which are filled beside the loop over columns. True: there was some, and the sites are those of the program after
 * it. */
bool tg_rows_apart(tg_schedule *s, const tg_uop *store, const tg_uop *product, const tg_uop *rows,
                   const tg_uop *columns);
/* For contract: a sum in a statement of the loop over rows is stored to a tile that has columns beside them, all
 * alike, of which the statement reads one. tile: made for the first of its copies. */
void tg_give_columns(tg_schedule *s, const tg_site *sum, const tg_uop *rows, uint32_t columns, const tg_uop **tile);
void tg_note_tile(tg_schedule *s, const tg_opt *o, const struct tg_matrix_row *row, const tg_uop *store,
                  const tg_uop *const *range);
/* Which dimension of this instruction's accumulator the axis runs along: 0 rows, 1 columns, -1 neither. */
int tg_tile_dimension(tg_schedule *s, const tg_axis *axis, const struct tg_matrix_row *row);
void tg_finish_tiles(tg_schedule *s);                   /* after the last word */
/* For lane, and for words that replace the reads of a buffer, their first name: fails if `contract` has already made
 * vectors of the accesses. */
void tg_check_contracted(tg_schedule *s, const tg_opt *o);
/* Splits by n. outer, inner: names for the parts, NULL: default names. made, unless NULL: gets the names used. */
void tg_split_range(tg_schedule *s, const tg_opt *o, const char *name, int64_t n, const char *outer, const char *inner,
                    const char **made);
/* Loops that begin earlier: where `r` stood is now `range` - `before`. Tiles of registers along them keep their places
 * by `range` (widen.c). */
typedef struct { const tg_uop *range, *before; } tg_earlier;
void tg_widen_tiles(tg_schedule *s, uint32_t n, const tg_earlier *list);
/* Moves the loop outside of all loops around it, or fails. Sites must describe the program before the word. */
void tg_move_outermost(tg_schedule *s, const tg_opt *o, const tg_site *site);
/* Moves a thread loop outward as far as legal. Only loops of phases (run by the launcher) may remain around it; fails
 * if any other loop would. */
void tg_move_outward(tg_schedule *s, const tg_opt *o, const tg_site *site);
/* Is the extent independent of memory that the kernel writes? If so, the launcher can compute it. */
bool tg_known_before(tg_job *j, const tg_uop *extent);
void tg_order_ranges(tg_schedule *s, const tg_opt *o, uint32_t n, const char *const *names);
/* Makes the reduction's range `name` a loop around `loop`: the sum is then taken in blocks (block.c). */
void tg_block_reduction(tg_schedule *s, const tg_opt *o, const char *name, const char *loop);
#endif
