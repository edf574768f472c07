/* SPDX-License-Identifier: MIT
 * Bodies of kernels as text: declarations and words of a schedule made of numbers, knobs, tiles in registers, copies of
 * operands in panels, epilogues. A sketch of an operation is mathematics and calls of these. */
#ifndef TG_KIT_WORDS_H
#define TG_KIT_WORDS_H
#include "kit/problem.h"

void tg_kit_word(tg_builder *b, const char *format, ...) TG_PRINTF(2, 3);
/* "in", "out", "define_local".. */
void tg_kit_declare(tg_builder *b, const char *word, const char *format, ...) TG_PRINTF(3, 4);
/* A knob with the values of a table (0 ends it), the default first. */
void tg_kit_knob(tg_builder *b, const char *name, int64_t first, const int64_t *values);

/* Of a copy of elements of type t that is to have another: " as f32", or "" where they are the same. */
const char *tg_kit_as(tg_type t, tg_type to);
/* "T(x)", or x where it has the type already. */
void tg_kit_cast(char *out, size_t n, tg_type from, tg_type to, const char *x);

/* "{14, 8, 4, 2, 1}": a tile's rows, then powers of two for the rows that are left. */
const char *tg_kit_rows_list(char *text, size_t n, int64_t rows);
/* "{28, 4}": a tile, and what is left as one smaller tile where the size is known. */
const char *tg_kit_tile_and_rest(char *text, size_t n, tg_kit_dim size, int64_t tile);
/* Knob VL: lanes of a vector of sums of this type; of a tile in registers besides, MR rows (of these values) by NU
 * vectors of VL columns, UK terms in a row. */
void tg_kit_lanes(tg_builder *b, tg_type acc);
void tg_kit_tile_knobs(tg_builder *b, tg_type acc, const int64_t *rows);
/* The tile itself, over rows and terms of these names and the columns cv; around: a loop between that goes inside of
 * the tiles' loop, or NULL. */
void tg_kit_tile(tg_builder *b, const char *rows, const char *terms, const char *around);

/* An operand of a sum of products R[row, term] * S[term, column] that is copied into panels, in blocks of KC terms at
 * most. */
typedef struct tg_kit_copy {
  char operand, range, term;     /* its name; its range that is not summed over; the one that is */
  const char *as;                /* tg_kit_as */
  bool along;                    /* terms are what is contiguous in it */
  bool any;                      /* its strides are known at a launch only */
  bool apart;                    /* neighbours are more than one element apart */
  tg_kit_dim terms;
} tg_kit_copy;
/* Copies at the loop `at`: Cp, of the columns' operand in panels of a tile's columns; Rp, of the rows' in panels of a
 * tile's rows. */
void tg_kit_stage_columns(tg_builder *b, const tg_kit_copy *c, const char *at, const char *space);
void tg_kit_stage_rows(tg_builder *b, const tg_kit_copy *c, const char *at);

/* Does the name stand in the expression? */
bool tg_kit_reads(const char *expression, const char *name);

/* An expression of the caller's over acc, two subscripts and arguments, which come converted to the type of acc. */
typedef struct tg_kit_epilogue {
  const char *text, *formals;    /* formals: "acc, m, n", the names of the value and of the subscripts in it */
  tg_type acc;
  const tg_kit_argument *argument;
  uint32_t arguments_n;
} tg_kit_epilogue;
/* Its arguments as the buffers arg0.., of these sizes: "M" rows, "N" columns; those of each element have the parameter
 * ld_arg0.. */
void tg_kit_declare_arguments(tg_builder *b, const tg_kit_epilogue *e, const char *rows, const char *columns);
/* The epilogue as a function, and its call around the value, i and j being the texts of the subscripts. */
void tg_kit_wrap(tg_builder *b, const tg_kit_epilogue *e, const char *i, const char *j, const char *value, char *out,
                 size_t n);
#endif
