/* SPDX-License-Identifier: MIT
 * What the passes share: walks in order of id, folding of small integer arithmetic.
 *
 * A node is made after its sources, so ids ascend from sources to users: one scan down from the root marks what it
 * reaches, one scan up visits it. No stack, no hashing. */
#ifndef TG_SWEEP_H
#define TG_SWEEP_H
#include "lower/lower.h"

typedef struct { const tg_uop **u; uint32_t n; } tg_sweep;
/* All nodes that root reaches, sources first. */
tg_sweep tg_sweep_of(tg_job *j, const tg_uop *root);

/* tg_map without `enter`, by a sweep. */
const tg_uop *tg_sweep_map(tg_job *j, const tg_uop *root, tg_map_fn *fn, void *user);

/* u over other sources, with constants folded, x+0, x*1, x*0, (x+c)+d, true & x, where(c, ..) and constant
 * gates of a LOAD gone; sums of INDEX keep the lanes' part last. Exact for every value; floats are left alone. */
const tg_uop *tg_fold(tg_job *j, const tg_uop *u, const tg_uop *const *src);
const tg_uop *tg_fold2(tg_job *j, tg_op op, const tg_uop *a, const tg_uop *b);

/* Does the node stand as a statement in linear form? Leaves and versions do not. */
bool tg_is_value(const tg_uop *u);

/* A loop around thread ranges: what stands in it are phases, and the launcher runs it. */
bool tg_has_phases(const tg_uop *end);

/* Of pass raise (raise.c): a loop that does nothing but x[..] = x[..] op e, x where it stands still, as x[..] =
 * x[..] op REDUCE(e); NULL if it is none. Plain programs. */
const tg_uop *tg_raise_accumulation(tg_job *j, const tg_uop *end);

/* Of pass raise (raise_loosen.c): loads of inputs without those conditions that only choose whether they are used.
 * Takes and leaves a plain program. */
const tg_uop *tg_loosen_gates(tg_job *j, const tg_uop *plain);
/* Of pass reduce (reduce_same.c): reductions that are equal but for the names of their ranges and the order of
 * operands are one node. */
const tg_uop *tg_same_reductions(tg_job *j, const tg_uop *sink);
/* those that bind one range and are not the same get ranges of their own */
const tg_uop *tg_part_twins(tg_job *j, const tg_uop *sink);
/* Of pass reduce (reduce_needed.c): above 0 if one of the statements will use the reduction; INDEX, of the extents
 * around its uses. */
const tg_uop *tg_needed(tg_job *j, uint32_t n, const tg_uop *const *statements, const tg_uop *reduce);
/* Of pass coalesce (coalesce_transpose.c): n gathers of n lanes side by side in memory are n contiguous loads,
 * transposed. Subscripts in their final forms. */
const tg_uop *tg_transpose_gathers(tg_job *j, const tg_uop *sink);
/* Of pass index (index_copies.c): asynchronous copies as wide as they can be; those that cannot be are stores like
 * others. Device form. */
const tg_uop *tg_widen_copies(tg_job *j, const tg_uop *sink);
/* Of pass place (place_turned.c): tiles of vectors along another dimension than the last, turned. */
const tg_uop *tg_place_turned(tg_job *j, const tg_uop *sink);
/* Of pass place (place_pieces.c): tiles of which a matrix instruction takes several elements at once, element by
 * element. Device form. */
const tg_uop *tg_place_pieces(tg_job *j, const tg_uop *sink);
/* Of pass place (place_window.c): the tiles that wanted names by ordinal, in memory, are updated in registers where
 * loops allow it. */
const tg_uop *tg_place_windows(tg_job *j, const tg_target *target, const bool *wanted, const tg_uop *sink);
#endif
