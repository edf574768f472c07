/* SPDX-License-Identifier: MIT
 * A sum of products of which one operand moves with rows of the output and the other with its columns, as the first
 * choice for targets with warps sees it: how it is recognised, and the sizes of its tiles. Without a matrix instruction
 * it may be any reduction of anything that is computed of such operands: maxima of sums, squares of differences. */
#ifndef TG_CHOOSE_DEVICE_PRODUCT_H
#define TG_CHOOSE_DEVICE_PRODUCT_H
#include "choose/device.h"
#include "target/matrix.h"

/* SIDE: threads along rows and along columns of a group that multiplies and adds without a matrix instruction */
enum { TG_SIDE = 16, TG_MORE_OPERANDS = 4, TG_MOST_SUMS = 4 };

/* One operand: its load, the loop that it moves with, and how it lies in memory. */
typedef struct tg_device_operand {
  const tg_uop *load, *loop;
  uint32_t own, term;              /* dimensions */
  bool along_terms;                /* contiguous along the sum; else along its own loop */
  const char *name, *copy;
  uint32_t vector;                 /* elements that one copy moves */
  bool iterations;                 /* its copy is `of` its own range and the sum's: dimensions 0 and 1 */
  uint32_t operations;             /* of such a copy, for each vector */
  bool gathered;                   /* its elements lie side by side in no way: one thread copies all terms of a row */
} tg_device_operand;

typedef struct tg_device_product {
  tg_nest *n;
  const tg_matrix_row *row;        /* the instruction; NULL: multiplications and additions */
  const tg_uop *store, *reduce, *sum;
  tg_device_operand a, b;         /* rows, columns */
  /* further reads of these two kinds, where what is summed is not their product */
  tg_device_operand more[TG_MORE_OPERANDS];
  uint32_t mores;
  double around;                   /* iterations of the other loops, of which each has a product of its own */
  bool tasks;                      /* one of these is global already */
  int64_t most_rows, most_columns; /* where only so many count, else 0 */
  /* of ranges that words will have fused: rows, columns, terms; 0: the loops and the sum are as they were */
  int64_t fused[3];
  bool whole, alone;               /* one block has all terms; a core has room for one group alone */
  double cost;                     /* cycles, as tiles were chosen by */
  /* what words call rows, columns and terms, how names of their parts begin, and the loops around both */
  const char *name[3], *base[3], *outer[NEST_MAX];
  uint32_t outers;
  /* sizes: of a warp's tile, or of a thread's without an instruction; terms: of a block; parts: of the sum, each for a
   * group of its own, that cost least */
  /* columns of a lane that lie side by side in several instructions; 0: as one has them */
  uint32_t together;
  uint32_t warp_rows, warp_columns, warps_down, warps_across, terms, stages, parts;
  /* the next sum of the statement, in the same tile, NULL behind the last; and how many they are */
  const struct tg_device_product *next;
  uint32_t sums;
} tg_device_product;

/* How the operand, of which load and loop are given, lies along the terms; false: unfitly. */
bool tg_device_operand_lies(tg_job *j, tg_device_operand *o, const tg_uop *sum, tg_type type);
/* Is the perfect nest one? chain: its ENDs, outermost first. */
bool tg_device_product_find(tg_device_product *c, uint32_t depth, const tg_uop *const *chain);
/* Does the instruction take the types of the sum, and round as the language does? */
bool tg_device_product_fits(const tg_device_product *c, const tg_matrix_row *row);
/* The two factors of what the sum adds, without the condition of a split. */
const tg_uop *tg_device_product_of(const tg_uop *reduce);
/* The same of a statement of several such sums, with equal rows, columns and terms: c has TG_MOST_SUMS, and as many as
 * there are follow one another by `next`. */
bool tg_device_product_several(tg_device_product *c, uint32_t depth, const tg_uop *const *chain);
/* The only store of the nest, of one sum that may be taken in any order, of products; false: it is another nest. */
bool tg_device_product_sum(tg_device_product *c, uint32_t depth, const tg_uop *const *chain);
/* Its words behind those that fuse, if there are any. */
void tg_device_product_words(const tg_device_product *c, tg_words *w);
/* Chooses the sizes with which it costs least: by the instruction, or by multiplications and additions of threads.
 * False: there is no instruction (or there is one), there is no room, or it is not worth it. */
bool tg_device_product_tiles(tg_device_product *c);
bool tg_device_product_elements(tg_device_product *c);
/* Terms of the sum, as they count. */
int64_t tg_device_product_terms(const tg_device_product *c);
/* Chooses sizes as for the contraction itself; false: it is none, or not worth it. */
bool tg_device_product_choose(tg_device_product *c, uint32_t depth, const tg_uop *const *chain);
#endif
