/* SPDX-License-Identifier: MIT
 * The sketches: one body (problem.c), and for each shape of problem the words that make it fast. */
#include <stdarg.h>
#include <stdio.h>
#include "gemm/template.h"

/* No words: the compiler's heuristic chooses. */
TG_KERNEL(gemm_plain, M, N, K, lda, ldb, ldc) { tg_gemm_product(tg_b_, tg_user); }

/* ---- words made of numbers ---- */

static void word(tg_builder *b, const char *format, ...) TG_PRINTF(2, 3);
static void word(tg_builder *b, const char *format, ...) {
  char text[192];
  va_list ap;
  va_start(ap, format);
  vsnprintf(text, sizeof text, format, ap);
  va_end(ap);
  tg_add_declaration(b, "opt", text, __FILE__, __LINE__);
}

/* The roles of a product in a tile: vectors run along C's contiguous dimension, its rows are the other one. */
typedef struct {
  char r, c;                     /* ranges: rows of the tile, columns of its vectors */
  char row, column;              /* operands that they read: R[r,k], S[k,c] */
  bool row_k, column_k;          /* is k what is contiguous in it? */
} roles;

static roles roles_of(const tg_gemm_problem *p) {
  if (p->c_major == TG_GEMM_COLUMN) return (roles){'j', 'i', 'B', 'A', p->b_major == TG_GEMM_COLUMN, p->a_major == TG_GEMM_ROW};
  return (roles){'i', 'j', 'A', 'B', p->a_major == TG_GEMM_ROW, p->b_major == TG_GEMM_COLUMN};
}

/* "{14, 8, 4, 2, 1}": the tile, then powers of two for the rows that are left. */
static const char *rows_list(char *text, size_t n, int64_t rows) {
  size_t at = (size_t)snprintf(text, n, "{%lld", (long long)rows);
  int64_t power = 1;
  while (power * 2 < rows) power *= 2;
  for (; power >= 1 && power < rows; power /= 2) at += (size_t)snprintf(text + at, n - at, ", %lld", (long long)power);
  snprintf(text + at, n - at, "}");
  return text;
}

/* Knobs of a tile in registers: MR rows by NU vectors of VL columns. */
static void tile_knobs(tg_builder *tg_b_, const tg_gemm_problem *p) {
  tg_add_declaration(tg_b_, "knob", p->acc == TG_F64 ? "VL, 8, 4, 2" : "VL, 16, 8, 4", __FILE__, __LINE__);
  tg_knob(NU, 2, 1, 3, 4);
  tg_knob(MR, 14, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 15, 16, 24, 28);
}

/* Both operands in panels. Blocks of columns (NB panels) and of terms (KC): the panels of the column operand, for all rows; then blocks of rows (MB panels),
 * of which one panel stays in the first cache while those of the columns pass, from the second. Smaller tiles for the rows that are left. */
TG_KERNEL(gemm_packed, M, N, K, lda, ldb, ldc) {
  const tg_gemm_problem *p = tg_user;
  roles o = roles_of(p);
  char list[96];
  tile_knobs(tg_b_, p);
  tg_knob(KC, 256, 64, 96, 128, 160, 192, 224, 320, 384, 512);
  tg_knob(MB, 16, 1, 2, 4, 8, 32, 64);           /* panels of rows in a block */
  tg_knob(NB, 32, 1, 2, 4, 8, 16, 24, 48, 64);   /* panels of columns in a block */
  tg_knob(TEAM, 0, 1, 2);                        /* threads: none; blocks of rows, that share the columns' panels; blocks of columns */
  int64_t vl = tg_c(VL), mr = tg_c(MR), nr = vl * tg_c(NU);
  tg_gemm_product(tg_b_, p);
  word(tg_b_, "split %c %lld as ct cv", o.c, (long long)nr);
  word(tg_b_, "split ct NB clip as cc cb");
  word(tg_b_, "split k KC clip as kc kr");
  word(tg_b_, "split %c %lld clip as rc rb", o.r, (long long)(mr * tg_c(MB)));
  word(tg_b_, "order cc kc rc rb cb cv");
  word(tg_b_, "split cv VL as cu cl");
  word(tg_b_, "stage %c at kc as Cp[%c/%lld, k, %c%%%lld]%s", o.column, o.c, (long long)nr, o.c, (long long)nr, tg_c(TEAM) == 1 ? " space=team" : "");
  if (o.row_k) word(tg_b_, "stage %c at rc as Rp[%c/%lld, %c%%%lld, k] pitch=%lld", o.row, o.r, (long long)mr, o.r, (long long)mr, (long long)(tg_c(KC) + vl));
  else word(tg_b_, "stage %c at rc as Rp[%c/%lld, k, %c%%%lld]", o.row, o.r, (long long)mr, o.r, (long long)mr);
  word(tg_b_, "split rb %s as ir iu", rows_list(list, sizeof list, mr));
  word(tg_b_, "order cb iu");
  word(tg_b_, "upcast iu");
  word(tg_b_, "upcast cu");
  word(tg_b_, "lane cl");
  word(tg_b_, "lane Cp.2 VL");
  if (nr > vl) word(tg_b_, "upcast Cp.2.0");
  if (o.row_k) word(tg_b_, "lane Rp.2 VL");
  else word(tg_b_, "lane Rp.2");
  if (tg_c(TEAM) == 1) word(tg_b_, "thread rc"), word(tg_b_, "thread Cp.0");
  if (tg_c(TEAM) == 2) word(tg_b_, "thread cc");
}

const tg_kernel_def *const tg_gemm_sketches[] = {&gemm_plain, &gemm_packed, NULL};
