/* SPDX-License-Identifier: MIT
 * Operands of a call in memory: strides and what they reach over, pointers that are aligned, results that share nothing
 * with what is read. */
#ifndef TG_KIT_OPERANDS_H
#define TG_KIT_OPERANDS_H
#include "kit/fields.h"

/* Elements from a row to the next, from a column to the next; bytes of one. */
typedef struct tg_kit_layout { int64_t step[2]; uint32_t size; } tg_kit_layout;

/* What a plan knows of an operand whose strides a call gives: call and name are those of the field, "tg_gemm_call" and
 * "a". */
typedef struct tg_kit_operand {
  const char *call, *name;
  uint8_t major;                 /* TG_ROW_MAJOR.. */
  bool written;                  /* its rows (columns) may not overlap */
  int64_t step, fixed; /* elements between neighbours, 0 and 1: side by side; the leading dimension, 0: the call's */
  int64_t rows, columns;
} tg_kit_operand;
/* Strides: defaults ({0, 0}: dense), and what the plan fixes. ld: from a line of neighbours to the next; next: from a
 * neighbour to the next. */
tg_status tg_kit_read_layout(tg_context *c, const tg_kit_operand *o, const int64_t given[2], tg_kit_layout *out,
                             int64_t *ld, int64_t *next);

/* Bytes that the elements of a matrix reach over; false: past 2^62. */
bool tg_kit_reach(const tg_kit_layout *o, int64_t rows, int64_t columns, int64_t *bytes);
/* Each element on a place of its own: the longer step beyond all that the shorter one reaches. */
bool tg_kit_is_apart(const tg_kit_layout *o, int64_t rows, int64_t columns);

/* A matrix as bytes: lines of `width`, each `pitch` behind the last; pitch 0: it has no such form. name: its field in
 * the call, of a result. */
typedef struct tg_kit_lines { const char *name; uintptr_t at; int64_t bytes, width, pitch; } tg_kit_lines;
tg_kit_lines tg_kit_lines_of(const void *p, const tg_kit_layout *o, int64_t rows, int64_t columns);
/* Do they share no byte? Blocks of one larger matrix may lie between each other's lines. */
bool tg_kit_is_disjoint(const tg_kit_lines *x, const tg_kit_lines *y);

/* Is an operand that is read there, aligned, and beside the result (NULL: there is none to be beside)? at: of a
 * field that is an array, which element this is; else below 0. */
tg_status tg_kit_check_read(tg_context *c, const char *call, const char *name, int at, const void *p,
                            const tg_kit_layout *o, int64_t rows, int64_t columns, const tg_kit_lines *result);
/* An argument of an epilogue for a result of m by n, as tg_kit_check_read; ld: as the call gives it, and as it is. */
tg_status tg_kit_check_argument(tg_context *c, const char *call, uint32_t a, const tg_kit_argument *x, const void *p,
                                int64_t m, int64_t n, const tg_kit_lines *result, int64_t *ld);

/* An operand of no elements may have no address, and then nothing lies behind it. */
static inline void *tg_kit_behind(void *p, int64_t bytes) { return bytes ? (char *)p + bytes : p; }
#endif
