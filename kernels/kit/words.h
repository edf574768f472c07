/* SPDX-License-Identifier: MIT
 * Functions that write bodies of kernels as text: declarations, words of a schedule, knobs, tiles in registers, copies
 * of operands into panels, epilogues. A sketch of an operation is its mathematics and calls of these functions. */
#ifndef TG_KIT_WORDS_H
#define TG_KIT_WORDS_H
#include "kit/problem.h"

/* Adds a word of the schedule, such as "split j 64 as ct cv". */
void tg_kit_word(tg_builder *b, const char *format, ...) TG_PRINTF(2, 3);
/* Adds a declaration. word: "in", "out", "define_local" and so on, as in tg_add_declaration. */
void tg_kit_declare(tg_builder *b, const char *word, const char *format, ...) TG_PRINTF(3, 4);
/* Adds a statement. */
void tg_kit_say(tg_builder *b, const char *format, ...) TG_PRINTF(2, 3);
/* A text that lives as long as the kernel is being built. */
const char *tg_kit_text(tg_builder *b, const char *format, ...) TG_PRINTF(2, 3);
/* TG_KIT_RANGE(name, text) { .. }: tg_range whose name and extent are a text, "i, M". */
#define TG_KIT_RANGE(name, text)                                                                                       \
  for (tg_scope scope_##name = tg_scope_open(tg_b_, "range", (text), __FILE__, __LINE__); scope_##name.live;           \
       tg_scope_close(&scope_##name))
/* Declares a knob whose default is `first`, and whose values are those of a table that 0 ends. */
void tg_kit_knob(tg_builder *b, const char *name, int64_t first, const int64_t *values);

/* The end of a `stage` word that copies elements of type t as type `to`: " as f32", or "" if the types are equal. */
const char *tg_kit_as(tg_type t, tg_type to);
/* Writes "T(x)", T being the type `to`; or only x if it has that type already. */
void tg_kit_cast(char *out, size_t n, tg_type from, tg_type to, const char *x);

/* For 14 rows "{14, 8, 4, 2, 1}": sizes to split by, the rows of a tile, then powers of two for the remainder. */
const char *tg_kit_rows_list(char *text, size_t n, int64_t rows);
/* For size 60 and tile 28 "{28, 4}": a tile, and the remainder as one smaller tile; or "28" if there is no remainder.
 * The size must be fixed. */
const char *tg_kit_tile_and_rest(char *text, size_t n, tg_kit_dim size, int64_t tile);
/* tg_kit_lanes declares the knob VL, the lanes of a vector of type acc. tg_kit_tile_knobs declares VL and the other
 * knobs of a tile in registers: MR rows (one of the values `rows`) by NU vectors of VL columns, with the loop over
 * terms unrolled UK times. */
void tg_kit_lanes(tg_builder *b, tg_type acc);
void tg_kit_tile_knobs(tg_builder *b, tg_type acc, const int64_t *rows);
/* Words for the tile over the ranges `rows`, `terms` and the columns cv. around: a range to be moved inside the loop
 * over tiles, or NULL. */
void tg_kit_tile(tg_builder *b, const char *rows, const char *terms, const char *around);

/* An operand R or S of a sum of products R[row, term] * S[term, column] that is copied into panels, at most KC terms at
 * a time. */
typedef struct tg_kit_copy {
  char operand, range, term;     /* its name; its range of rows or columns; the range of terms */
  const char *as;                /* text of tg_kit_as: conversion of the copy */
  bool along;                    /* its terms are contiguous in memory */
  bool any;                      /* its strides are known at launch only */
  bool side;                     /* rows of a tile lie side by side, term by term */
  bool apart;                    /* its smaller stride is more than one element */
  tg_kit_dim terms;
} tg_kit_copy;
/* Words that copy an operand at the loop `at`: tg_kit_stage_columns copies S into Cp, panels of a tile's columns, with
 * `space` at the end of the word, such as " space=team"; tg_kit_stage_rows copies R into Rp, panels of a tile's
 * rows. */
void tg_kit_stage_columns(tg_builder *b, const tg_kit_copy *c, const char *at, const char *space);
void tg_kit_stage_rows(tg_builder *b, const tg_kit_copy *c, const char *at);

/* Does the expression use the identifier `name`? */
bool tg_kit_reads(const char *expression, const char *name);

/* The caller's expression over acc, two subscripts and arguments; the arguments are converted to the type of acc. */
typedef struct tg_kit_epilogue {
  const char *text, *formals;    /* formals: "acc, m, n", the names of the value and of the subscripts in it */
  tg_type acc;
  const tg_kit_argument *argument;
  uint32_t arguments_n;
} tg_kit_epilogue;
/* Declares the arguments as buffers arg0, arg1.. for a result of `rows` ("M") by `columns` ("N"). Argument i, if it has
 * a value per element, has the parameter ld_arg<i> as its leading dimension. */
void tg_kit_declare_arguments(tg_builder *b, const tg_kit_epilogue *e, const char *rows, const char *columns);
/* Declares the epilogue as a function, and writes its call on `value` to out; i and j are the texts of the
 * subscripts. */
void tg_kit_wrap(tg_builder *b, const tg_kit_epilogue *e, const char *i, const char *j, const char *value, char *out,
                 size_t n);
#endif
