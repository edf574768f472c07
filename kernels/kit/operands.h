/* SPDX-License-Identifier: MIT
 * Checks of a call's operands in memory: their strides, the bytes that they span, their alignment, and that the result
 * does not overlap an operand that is read. */
#ifndef TG_KIT_OPERANDS_H
#define TG_KIT_OPERANDS_H
#include "kit/fields.h"

/* step[0]: elements from one row to the next; step[1]: from one column to the next; size: bytes of an element. */
typedef struct tg_kit_layout { int64_t step[2]; uint32_t size; } tg_kit_layout;

/* What a plan knows of an operand whose strides a call gives. call and name are for messages, such as "tg_gemm_call"
 * and "a". */
typedef struct tg_kit_operand {
  const char *call, *name;
  uint8_t major;                 /* TG_ROW_MAJOR.. */
  bool written;                  /* the operand is written, so its rows (or columns) may not overlap */
  /* step: stride within a row (column major: within a column); 0 or 1: contiguous. fixed: the leading dimension, if
   * the plan fixes it; 0: the call gives it */
  int64_t step, fixed;
  int64_t rows, columns;
} tg_kit_operand;
/* Completes and checks the strides of a call: {0, 0} is dense, and strides that the plan fixes may be 0. *ld: elements
 * from one row to the next (column major: from one column to the next); *next: the other stride. */
tg_status tg_kit_read_layout(tg_context *c, const tg_kit_operand *o, const int64_t given[2], tg_kit_layout *out,
                             int64_t *ld, int64_t *next);

/* Bytes from the first element of a matrix to the end of its last; false: more than 2^62. */
bool tg_kit_reach(const tg_kit_layout *o, int64_t rows, int64_t columns, int64_t *bytes);
/* Has each element an address of its own? Sufficient test: the longer stride is larger than the span of the shorter
 * one. */
bool tg_kit_is_apart(const tg_kit_layout *o, int64_t rows, int64_t columns);

/* A matrix as bytes from address `at`: contiguous lines (rows or columns) of `width` bytes, whose starts are `pitch`
 * bytes apart; pitch 0: its lines are not contiguous, and only the span of `bytes` is known. name: the field of the
 * call, set for a result only. */
typedef struct tg_kit_lines { const char *name; uintptr_t at; int64_t bytes, width, pitch; } tg_kit_lines;
tg_kit_lines tg_kit_lines_of(const void *p, const tg_kit_layout *o, int64_t rows, int64_t columns);
/* Do x and y share no byte? Blocks of one larger matrix may be disjoint although their spans overlap: the lines of one
 * lie between those of the other. False if it cannot be told. */
bool tg_kit_is_disjoint(const tg_kit_lines *x, const tg_kit_lines *y);

/* Checks that an operand that is read is not NULL, is aligned, and does not overlap the result (NULL: this is not
 * checked). at: index into the field if it is an array, for messages; else below 0. */
tg_status tg_kit_check_read(tg_context *c, const char *call, const char *name, int at, const void *p,
                            const tg_kit_layout *o, int64_t rows, int64_t columns, const tg_kit_lines *result);
/* The same for argument a of an epilogue, for a result of m by n. *ld: leading dimension that the call gives; 0 is
 * replaced by the default. */
tg_status tg_kit_check_argument(tg_context *c, const char *call, uint32_t a, const tg_kit_argument *x, const void *p,
                                int64_t m, int64_t n, const tg_kit_lines *result, int64_t *ld);

/* p + bytes. p may be NULL if bytes is 0: adding to NULL is undefined. */
static inline void *tg_kit_behind(void *p, int64_t bytes) { return bytes ? (char *)p + bytes : p; }
#endif
