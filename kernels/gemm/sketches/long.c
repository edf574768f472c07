/* SPDX-License-Identifier: MIT
 * The sketch for few rows and columns and a long sum, where only the terms can be divided among threads. The sum is
 * divided into PARTS parts, each with its own partial sums, which are merged in pairs; so the bits do not depend on
 * the number of threads. */
#include <stdio.h>
#include "dsl/uop.h"
#include "gemm/sketch.h"

static int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t up(int64_t x, int64_t n) { return (x + n - 1) / n * n; }

/* most rows, and columns, of a tile of partial sums; larger ones would fit no cache. For larger sizes the kernel does
 * not compile, since subscripts could leave the tile */
enum { SIDE = 512 };

/* Partial sums are a tile beside C; for each block of KC terms the product of packed operands is added to it. */
TG_KERNEL(gemm_long, M, N, K, lda, ldb, ldc) {
  const tg_gemm_problem *p = tg_user;
  tg_gemm_roles o = tg_gemm_roles_of(p);
  char text[TG_GEMM_TEXT + 96], product[TG_GEMM_TEXT];
  tg_kit_tile_knobs(tg_b_, p->acc, tg_gemm_mr);
  tg_kit_knob(tg_b_, "KC", 256, tg_gemm_packed_kc);
  tg_knob(PARTS, 8, 1, 2, 4, 16, 32, 64);
  long long vl = tg_c(VL), nr = vl * tg_c(NU);
  tg_kit_dim rows = o.r == 'i' ? p->m : p->n, columns = o.r == 'i' ? p->n : p->m;
  const char *sums = o.r == 'i' ? "s[i,j]" : "s[j,i]",
             *merged = o.r == 'i' ? "s[i,j] = a.s[i,j] + b.s[i,j]" : "s[j,i] = a.s[j,i] + b.s[j,i]";
  tg_gemm_declare(tg_b_, p);
  long long r = smaller(rows.hi, SIDE), c = up(smaller(columns.hi, SIDE), vl);
  snprintf(text, sizeof text, "s, %s, [%lld, %lld]", tg_type_name[p->acc], r, c);
  tg_add_declaration(tg_b_, "define_reg", text, __FILE__, __LINE__);
  tg_let(sum_rows, o.r == 'i' ? r : c);
  tg_let(sum_columns, o.r == 'i' ? c : r);
  tg_gemm_term(p, "kb*KC + k", product, sizeof product);
  tg_range(i, sum_rows) tg_range(j, sum_columns) {
    snprintf(text, sizeof text, "%s = 0", sums);
    tg_add_statement(tg_b_, text, __FILE__, __LINE__);
  }
  tg_range(kb, ceildiv(K, KC)) tg_carry(s) {
    tg_range(i, M) tg_range(j, N) {
      snprintf(text, sizeof text, "%s += sum(k : min(KC, K - kb*KC), %s)", sums, product);
      tg_add_statement(tg_b_, text, __FILE__, __LINE__);
    }
    tg_merge tg_range(i, sum_rows) tg_range(j, sum_columns) tg_add_statement(tg_b_, merged, __FILE__, __LINE__);
  }
  tg_range(i, M) tg_range(j, N) tg_gemm_store(tg_b_, p, "j", sums, "");
  tg_kit_word(tg_b_, "thread kb PARTS as kp kc");
  tg_kit_word(tg_b_, "split kc.%c %lld as ct cv", o.c, nr);
  tg_kit_word(tg_b_, "order ct kc.%c cv", o.r);
  tg_gemm_stage_columns(tg_b_, p, &o, "kc", "");
  if (!o.row_k || o.row_any || (o.row == 'A' ? p->a : p->b) != p->acc) tg_gemm_stage_rows(tg_b_, p, &o, "kc", false);
  char row[8];
  snprintf(row, sizeof row, "kc.%c", o.r);
  tg_kit_tile(tg_b_, row, "k", NULL);
}

const tg_gemm_sketch tg_gemm_long = {
  .kernel = &gemm_long,
  .takes = tg_gemm_takes_numbers,
  .propose = tg_gemm_propose_long,
};
