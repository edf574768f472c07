/* SPDX-License-Identifier: MIT
 * What the passes share: walks over the graph in order of node id, and folding of small integer arithmetic.
 *
 * A node is made after its sources, so ids ascend from sources to users. One scan down from the root marks the nodes
 * that it reaches, one scan up visits them. This needs no stack and no hashing. */
#ifndef TG_SWEEP_H
#define TG_SWEEP_H
#include "lower/lower.h"

typedef struct { const tg_uop **u; uint32_t n; } tg_sweep;
/* All nodes reachable from root, sources before users. */
tg_sweep tg_sweep_of(tg_job *j, const tg_uop *root);

/* Like tg_map without `enter`, but walks by id. */
const tg_uop *tg_sweep_map(tg_job *j, const tg_uop *root, tg_map_fn *fn, void *user);

/* u with other sources, simplified: constants, x+0, x*1, x*0, (x+c)+d, true & x, where(c, ..) and constant gates of
 * a LOAD. In sums of INDEX the vector term stays last. Exact for every value; floats are not simplified. */
const tg_uop *tg_fold(tg_job *j, const tg_uop *u, const tg_uop *const *src);
const tg_uop *tg_fold2(tg_job *j, tg_op op, const tg_uop *a, const tg_uop *b);

/* Is the node a statement of its own in linear form? Leaves and versions are not. */
bool tg_is_value(const tg_uop *u);

/* Does u load from the buffer of that ordinal? */
bool tg_loads_from(tg_job *j, const tg_uop *u, uint32_t buffer);

/* Is it a loop around thread ranges? Then its statements are phases, and the launcher runs it (docs/ir.md). */
bool tg_has_phases(const tg_uop *end);

/* Pass raise (raise.c): turns a loop whose only statement is x[..] = x[..] op e, with subscripts of x that do not
 * change in the loop, into x[..] = x[..] op REDUCE(e). NULL: it is no such loop. Needs a plain program. */
const tg_uop *tg_raise_accumulation(tg_job *j, const tg_uop *end);

/* Pass raise (raise_loosen.c): drops the gates of loads of inputs that are not needed for bounds, only decide
 * whether the value is used. Takes and leaves a plain program. */
const tg_uop *tg_loosen_gates(tg_job *j, const tg_uop *plain);
/* Is the load in bounds where the gate (NULL: nothing) is true, whatever else is true there? */
bool tg_surely_in_bounds(tg_job *j, const tg_uop *load, const tg_uop *gate);
/* Pass raise (raise_scales.c): tiles of which the greatest is subtracted are scaled where they are used. Takes and
 * leaves a plain program. */
const tg_uop *tg_scale_later(tg_job *j, const tg_target *target, const tg_uop *plain);
/* Pass reduce (reduce_same.c): makes one node of reductions that are equal up to the names of their ranges and the
 * order of commutative operands. */
const tg_uop *tg_same_reductions(tg_job *j, const tg_uop *sink);
/* Pass reduce (reduce_dots.c): sums of products of bytes take the target's instruction for a dot product. */
const tg_uop *tg_dot_products(tg_job *j, const tg_target *target, const tg_uop *sink);
/* Pass reduce (reduce_extrema.c): maxima of floats without signs become maxima of their bits. */
const tg_uop *tg_extrema_by_bits(tg_job *j, const tg_target *target, const tg_uop *sink);
/* Gives different reductions over the same range ranges of their own. */
const tg_uop *tg_part_twins(tg_job *j, const tg_uop *sink);
/* Pass reduce (reduce_needed.c): an INDEX expression in the extents around the uses of the reduction, > 0 if one of
 * the statements will use it. */
const tg_uop *tg_needed(tg_job *j, uint32_t n, const tg_uop *const *statements, const tg_uop *reduce);
/* Pass coalesce (coalesce_transpose.c): turns n gathers of n lanes, neighbours of each other in memory, into n
 * contiguous loads and a transpose in registers. Needs subscripts in their final forms. */
const tg_uop *tg_transpose_gathers(tg_job *j, const tg_uop *sink);
/* By node id: 1 + id of the END or SINK whose statement list a value is used in; or it is used in none, or in several,
 * and is not at home. */
uint32_t *tg_homes_of(tg_job *j, const tg_sweep *w, const tg_uop *sink);
bool tg_is_home(uint32_t home);
/* coalesce_steps.c: 2 or 3 if that is how long the last dimension is, and the load's lanes are neighbours along the one
 * before it, as of complex numbers or of three colours: then as many contiguous vectors have them. Else 0: of four, a
 * transpose takes fewer shuffles; of three it reads rows under masks. */
int64_t tg_short_rows(tg_job *j, const tg_uop *load);
/* coalesce_steps.c: loads with gaps between their lanes that others take become contiguous ones, of which each picks
 * its lanes. Needs subscripts in their final forms. */
const tg_uop *tg_share_steps(tg_job *j, const tg_target *target, const tg_uop *sink);
/* coalesce_lanes.c: neighbouring elements by which whole vectors are multiplied become lanes of one load. */
const tg_uop *tg_load_lanes(tg_job *j, const tg_target *target, const tg_uop *sink);
/* coalesce_stores.c: stores with gaps between their lanes that fill each other's become contiguous ones. Needs
 * subscripts in their final forms. */
const tg_uop *tg_interleave_stores(tg_job *j, const tg_uop *sink);
/* types_narrow.c, part of pass types on hosts: integers of 32 bits that end as such of at most 16 are computed in 16.
 * Those of fewer lanes than `least` are left. */
const tg_uop *tg_narrow_integers(tg_job *j, const tg_uop *sink, uint32_t least);
/* coalesce_pieces.c, part of pass coalesce on targets with warps */
const tg_uop *tg_pick_pieces(tg_job *j, const tg_uop *sink);
/* linear_gates.c: accesses under one gate become neighbours in their list */
void tg_group_gated(tg_job *j, bool anywhere, uint32_t n, const tg_uop **list);
/* Pass index (index_copies.c): joins asynchronous copies to the widest possible; copies that the instruction cannot
 * do become ordinary stores. Device form. */
const tg_uop *tg_widen_copies(tg_job *j, const tg_uop *sink);
/* Pass place (place_turned.c): permutes the dimensions of tiles so that their vectors run along the last one. */
const tg_uop *tg_place_turned(tg_job *j, const tg_uop *sink);
/* Pass place (place_pieces.c): tiles of which a matrix instruction takes several elements at once are accessed one
 * element at a time. Device form. */
const tg_uop *tg_place_pieces(tg_job *j, const tg_uop *sink);
/* Pass place (place_window.c): tiles in memory that loops can update in registers get windows. wanted: by buffer
 * ordinal, the tiles to try. */
const tg_uop *tg_place_windows(tg_job *j, const tg_target *target, const bool *wanted, const tg_uop *sink);
#endif
