/* SPDX-License-Identifier: MIT
 * What the files share that choose schedules for targets with warps. */
#ifndef TG_CHOOSE_DEVICE_H
#define TG_CHOOSE_DEVICE_H
#include "choose/block.h"
#include "choose/nest.h"

/* Adds all the words to the list if they are legal together, else none. The program that the heuristic reads stays as
 * it was before them. */
bool tg_device_try(tg_nest *n, const tg_words *words);
/* The name, with a number where a nest before (two products of the same weights) has one that is called so. */
const char *tg_device_new_name(tg_job *j, const char *name);
/* Adds the word to the schedule, and the program that the heuristic reads becomes what it makes, if it is legal. */
bool tg_device_word(tg_nest *n, const char *format, ...) TG_PRINTF(2, 3);
/* The words that `words` adds by tg_device_word, if it returns true; else none: the program is as it was. */
bool tg_device_all(tg_nest *n, bool (*words)(void *), void *user);
/* The range's END in the current program; NULL: there is none, since a word has split it. */
const tg_uop *tg_nest_loop_of(const tg_nest *n, const tg_uop *range);
/* What the word calls the range in the nest n->top: versions of one nest have ranges of the same names. */
const char *tg_device_name(tg_nest *n, const tg_uop *range);
/* Divides a program that is one product whose sizes are open into versions: those whose rows lie at whole vectors, and
 * classes of sizes, each with tiles of its own. chain: of the only nest. */
void tg_device_versions(tg_nest *n, uint32_t depth, const tg_uop *const *chain);
/* True if a sum of the perfect nest, whose only statement is the store, is taken in parts: the program has one more
 * nest then. */
bool tg_device_parts(tg_nest *n, uint32_t depth, const tg_uop *const *chain, const tg_uop *store);
/* True if the nest is a scan, alone in loops around it, and was scheduled as one: in parts the program has one more. */
bool tg_device_scan(tg_nest *n, const tg_uop *top);
/* True if the nest is a loop of steps, one needing the one before, and each is a launch now: the program has a nest for
 * each step, of which words for one are for all. */
bool tg_device_steps(tg_nest *n, const tg_uop *top);
/* True if the perfect nest has sums of a length that each iteration has for itself, and threads have their terms. */
bool tg_device_lengths(tg_nest *n, uint32_t depth, const tg_uop *const *chain);
/* True if each iteration of the nest keeps a few states over steps in order, and lanes have these. */
bool tg_device_states(tg_nest *n, uint32_t depth, const tg_uop *const *chain);
bool tg_device_terms(tg_nest *n, const tg_uop *body);
/* True if the perfect nest is a contraction that a matrix instruction computes, and was scheduled as one. chain: its
 * ENDs, outermost first. */
bool tg_device_contraction(tg_nest *n, uint32_t depth, const tg_uop *const *chain);
/* The same where several loops are its rows or its columns, or several ranges its terms, as in a convolution. */
bool tg_device_windows(tg_nest *n, uint32_t depth, const tg_uop *const *chain);
/* True if the perfect nest is a few rows times weights of four bits, in groups with a scale, which a matrix instruction
 * computes, and was scheduled so. */
bool tg_device_weights(tg_nest *n, uint32_t depth, const tg_uop *const *chain);
/* True if the perfect nest adds atomically to places that are read from memory, and was scheduled so. */
bool tg_device_sums(tg_nest *n, uint32_t depth, const tg_uop *const *chain);
/* Splits a range into threads: warps of lanes. warps: the word for these. outer: name of the loop over the iterations
 * beyond; NULL: none. */
bool tg_device_spread(tg_nest *n, const tg_uop *range, const char *warps, const char **outer);
/* For each reduction in a loop, one of its ranges in which some load is contiguous, if there is one. along: of those
 * only that are the same in all iterations of this loop, so that what runs these in threads can share them. */
uint32_t tg_device_contiguous(tg_nest *n, const tg_uop *in, const tg_uop *along, const tg_uop **ranges);
/* True if a loop of the perfect nest has the threads, that in which stores lie side by side, or closest, and the others
 * are the grid. */
bool tg_device_plain(tg_nest *n, uint32_t depth, const tg_uop *const *chain);
/* Gives threads of a perfect nest several iterations of its loops, but of that which has the threads, if what they load
 * then serves several products of a sum. groups: workgroups along that loop. */
void tg_device_reuse(tg_nest *n, uint32_t depth, const tg_uop *const *chain, const tg_uop *threads, double groups);
/* True if the perfect nest stores along one loop what lies along another, and was scheduled through LOCAL memory. */
bool tg_device_transpose(tg_nest *n, uint32_t depth, const tg_uop *const *chain);
/* A block of an operand that moves with columns, copied to LOCAL memory by the threads of `warps` warps. */
typedef struct {
  const tg_uop *load, *loop, *sum;       /* its own loop, and that of the terms */
  const struct tg_matrix_row *row;       /* the instruction that reads the copy */
  uint32_t own, terms, warps, stages;    /* extents of the block; blocks in a ring */
  const char *at;                        /* the loop over blocks */
} tg_device_tile;
bool tg_device_stage(tg_nest *n, tg_words *w, const tg_device_tile *t);   /* its words; false: it lies unfitly */
/* True if the list has a loop over blocks of keys with the two products of attention, and was scheduled so. */
bool tg_device_attention(tg_nest *n, const tg_uop *innermost);
/* The same by multiplications and additions of threads. */
bool tg_device_scores(tg_nest *n, const tg_uop *innermost);
/* Terms of each part in which the sum of such a contraction is best taken: all of them where one part is; 0 if it is no
 * contraction. sum: its range; terms: all of them, as they count. */
int64_t tg_device_product_part(tg_nest *n, uint32_t depth, const tg_uop *const *chain, const tg_uop **sum,
                               int64_t *terms);
/* Cycles of a core from the end of one launch to the work of the next. */
static inline double tg_device_launch_cycles(const tg_target *t) { return t->launch_ns * (double)t->clock / 1000; }
/* True if the perfect nest stores along rows what depends on reductions over them, or results of each row, and was
 * scheduled so. top: the nest, or a store without loops (depth 0). */
bool tg_device_rows(tg_nest *n, uint32_t depth, const tg_uop *const *chain, const tg_uop *top);
/* True if the loops inside of the nest's innermost one are such a row, what the first find kept in tiles of registers
 * for those that follow, and it was scheduled so. */
bool tg_device_rows_in_tiles(tg_nest *n, uint32_t depth, const tg_uop *const *chain);
/* Would it keep such rows in registers, so that memory is read once? */
bool tg_device_keeps_rows(tg_nest *n, uint32_t depth, const tg_uop *const *chain, const tg_uop *top);
#endif
