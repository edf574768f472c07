/* SPDX-License-Identifier: MIT
 * The sketches: one body, and for each shape of problem the words that make it fast. */
#include <stdarg.h>
#include <stdio.h>
#include "gemm/template.h"

/* ---- the mathematics, the same for all ---- */

static const char *type_text(tg_type t) {
  static const char *const text[TG_TYPE__COUNT] = {[TG_I8] = "i8", [TG_U8] = "u8", [TG_I32] = "i32", [TG_F16] = "f16", [TG_BF16] = "bf16", [TG_F32] = "f32", [TG_F64] = "f64"};
  return text[t];
}

static void operand(tg_builder *b, const char *word, const char *name, tg_type t, const char *rows, const char *columns, uint8_t major, const char *ld) {
  char text[160];
  if (major == TG_GEMM_ROW) snprintf(text, sizeof text, "%s, %s, [%s, %s], [%s, 1]", name, type_text(t), rows, columns, ld);
  else snprintf(text, sizeof text, "%s, %s, [%s, %s], [1, %s]", name, type_text(t), rows, columns, ld);
  tg_add_declaration(b, word, text, __FILE__, __LINE__);
}

/* "T(x)", or x where it has the type already. */
static void cast(char *out, size_t n, tg_type from, tg_type to, const char *x) {
  if (from == to) snprintf(out, n, "%s", x);
  else snprintf(out, n, "%s(%s)", type_text(to), x);
}

static void product(tg_builder *tg_b_, const tg_gemm_problem *p) {
  operand(tg_b_, "in", "A", p->a, "M", "K", p->a_major, "lda");
  operand(tg_b_, "in", "B", p->b, "K", "N", p->b_major, "ldb");
  operand(tg_b_, p->beta ? "inout" : "out", "C", p->c, "M", "N", p->c_major, "ldc");
  char a[32], b[32], c[32], sum[192], text[256];
  if (p->alpha) snprintf(text, sizeof text, "alpha, %s, [1]", type_text(p->acc)), tg_add_declaration(tg_b_, "in", text, __FILE__, __LINE__);
  if (p->beta) snprintf(text, sizeof text, "beta, %s, [1]", type_text(p->acc)), tg_add_declaration(tg_b_, "in", text, __FILE__, __LINE__);
  cast(a, sizeof a, p->a, p->acc, "A[i,k]");
  cast(b, sizeof b, p->b, p->acc, "B[k,j]");
  cast(c, sizeof c, p->c, p->acc, "C[i,j]");
  snprintf(sum, sizeof sum, "%s%s%ssum(k : K, %s * %s)", p->beta ? "beta[0] * " : "", p->beta ? c : "", p->beta ? p->alpha ? " + alpha[0] * " : " + " : p->alpha ? "alpha[0] * " : "", a, b);
  if (p->c == p->acc) snprintf(text, sizeof text, "C[i,j] = %s", sum);
  else snprintf(text, sizeof text, "C[i,j] = %s(%s)", type_text(p->c), sum);
  tg_range(i, M) tg_range(j, N)
    tg_add_statement(tg_b_, text, __FILE__, __LINE__);
}

/* No words: the compiler's heuristic chooses. */
TG_KERNEL(gemm_plain, M, N, K, lda, ldb, ldc) { product(tg_b_, tg_user); }

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
  product(tg_b_, p);
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
