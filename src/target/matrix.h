/* SPDX-License-Identifier: MIT
 * Matrix instructions as data: one row each in matrix.def, which says what the columns mean. */
#ifndef TG_TARGET_MATRIX_H
#define TG_TARGET_MATRIX_H
#include "target/layout.h"
#include "target/target.h"

/* How a row is emitted. PTX: inline assembly with 32-bit registers for a, b, c in order. All others: an LLVM
 * intrinsic. TILE: operands are AMX tile registers of 16 rows of 64 bytes, which can only be loaded, stored and used by
 * these instructions. */
typedef enum {
  TG_MATRIX_PTX,
  TG_MATRIX_WMMA,
  TG_MATRIX_WMMA_INT,
  TG_MATRIX_MFMA,
  TG_MATRIX_DOT,
  TG_MATRIX_TILE
} tg_matrix_form;

typedef struct tg_matrix_row {
  const char *name;              /* as in `contract NAME` and matrix(NAME, ..) */
  const char *targets;           /* names of targets; "sm_80+" means sm_80 and later */
  uint16_t m, n, k;
  tg_type a_type, b_type, c_type;
  const char *meaning;           /* of one element of the result, in the language, over a, b, c, i, j and K */
  const char *a, *b, *c;         /* layouts: A over i, k; B over k, j; C and D over i, j */
  tg_matrix_form form;
  const char *code;              /* the mnemonic or the intrinsic's name */
  const char *operands;          /* how a lane's elements are passed, one code for each operand: see matrix.def */
  const char *source;            /* the vendor's document and section */
} tg_matrix_row;

/* NULL if there is none. */
const tg_matrix_row *tg_matrix_find(const char *name);
const tg_matrix_row *tg_matrix_at(uint32_t i);                        /* NULL behind the last */
bool tg_matrix_on(const tg_matrix_row *r, const tg_target *t);
/* Does it multiply and add what its operands are? Some drop bits of them, or take subnormal numbers as zero. */
bool tg_matrix_is_plain(const tg_matrix_row *r);
/* which: 0, 1, 2 for a, b, c. */
tg_layout tg_matrix_layout(const tg_matrix_row *r, int which);
uint32_t tg_matrix_registers(const tg_matrix_row *r, int which);      /* elements of one lane */
uint32_t tg_matrix_lanes(const tg_matrix_row *r);
tg_type tg_matrix_type(const tg_matrix_row *r, int which);
#endif
