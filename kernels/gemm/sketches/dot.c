/* SPDX-License-Identifier: MIT
 * Few rows, or few columns: dot products along the terms, which are contiguous in the large operand. */
#include <stdio.h>
#include "gemm/sketch.h"

tg_gemm_rest tg_gemm_dot_rest(int64_t terms, int64_t vl, int64_t mr, int64_t nc) {
  enum { FEW = 4 };   /* terms */
  if (terms % vl == 0) return GEMM_NO_REST;
  if ((terms + vl - 1) / vl * mr * nc <= TG_GEMM_DOT_WHOLE) return GEMM_REST_UNROLLED;
  return terms % vl > FEW && terms > vl ? GEMM_REST_BEHIND : GEMM_REST_ONE_BY_ONE;
}

/* Copies rows whose terms are not contiguous: blocks of VL rows are transposed in registers. */
static void transpose_rows(tg_builder *tg_b_, tg_kit_dim rows) {
  char list[96];
  bool known = rows.lo == rows.hi, many = !known || rows.lo > tg_c(VL);
  tg_kit_word(tg_b_, "lane Rp.1 VL");
  if (many)
    tg_kit_word(tg_b_, "split Rp.0 %s as qt qu",
                known ? tg_kit_tile_and_rest(list, sizeof list, rows, tg_c(VL)) : "{VL, 1}");
  tg_kit_word(tg_b_, many ? "order Rp.1.0 qt qu" : "order Rp.1.0 Rp.0");
  tg_kit_word(tg_b_, "unroll %s", many ? "qu" : "Rp.0");
}

/* Blocks of KC terms: the rows' part of a block is copied and stays in L1 while NB tiles of columns pass; each tile is
 * multiplied by all rows. Partial sums are kept in C. While a tile is computed, the tile that is AHEAD tiles further
 * on is prefetched. */
static void dot_blocks(tg_builder *tg_b_, const tg_gemm_problem *p, const tg_gemm_roles *o) {
  enum { ROWS = 256 };   /* most rows in a copy */
  tg_kit_dim rows = o->r == 'i' ? p->m : p->n;
  long long mr = tg_c(MR), nc = tg_c(NC), vl = tg_c(VL);
  bool many = rows.hi > ROWS, even = p->k.lo == p->k.hi && p->k.lo % vl == 0;
  char list[96], row[8];
  snprintf(row, sizeof row, many ? "rb" : "%c", o->r);
  if (many) tg_kit_word(tg_b_, "split %c %d clip as rc rb", o->r, ROWS);
  tg_kit_word(tg_b_, "split %c %lld as ct cv", o->c, nc);
  tg_kit_word(tg_b_, "split ct NB clip as cc cb");
  tg_kit_word(tg_b_, "split k KC clip as kc kr");
  tg_kit_word(tg_b_, "order %scc kc cb %s cv", many ? "rc " : "", row);
  tg_kit_word(tg_b_, "stage %c at kc as Rp[%c, k]%s pitch=%lld", o->row, o->r,
              tg_kit_as(o->row == 'A' ? p->a : p->b, p->acc), (long long)tg_c(KC) + vl);
  if (o->row_k) tg_kit_word(tg_b_, "lane Rp.1 VL");
  else transpose_rows(tg_b_, many ? (tg_kit_dim){1, ROWS} : rows);
  tg_kit_word(tg_b_, "split %s %s as ir iu", row, tg_kit_rows_list(list, sizeof list, mr));
  tg_kit_word(tg_b_, "upcast iu");
  tg_kit_word(tg_b_, "upcast cv");
  tg_kit_word(tg_b_, "split kr VL as ko kl");
  if (!even) tg_kit_word(tg_b_, "cut ko last");
  tg_kit_word(tg_b_, "lane kl");
  if (tg_c(AHEAD)) tg_kit_word(tg_b_, "prefetch %c at %s ahead AHEAD of cb", o->column, even ? "ko" : "ko.main");
}

/* The columns' operand is the large one, contiguous along k. Vectors run along k; a tile has MR rows by NC columns of
 * sums, each a vector. */
TG_KERNEL(gemm_dot, M, N, K, lda, ldb, ldc) {
  const tg_gemm_problem *p = tg_user;
  tg_gemm_roles o = tg_gemm_thin_roles_of(p);
  char list[96];
  tg_kit_lanes(tg_b_, p->acc);
  tg_knob(NC, 4, 1, 2, 3, 6, 8);
  tg_kit_knob(tg_b_, "MR", 1, tg_gemm_mr);
  tg_kit_knob(tg_b_, "NB", 64, tg_gemm_stream_nb);
  tg_kit_knob(tg_b_, "KC", 0, tg_gemm_dot_kc);   /* 0: all terms in one block, rows read in place */
  tg_knob(AHEAD, 8, 0, 1, 2, 4, 16, 24);
  tg_knob(TEAM, 0, 2);
  int64_t mr = tg_c(MR), nc = tg_c(NC), vl = tg_c(VL);
  tg_kit_dim rows = o.r == 'i' ? p->m : p->n;
  tg_gemm_product(tg_b_, p);
  if (tg_c(KC)) {
    dot_blocks(tg_b_, p, &o);
    if (tg_c(TEAM)) tg_kit_word(tg_b_, "thread cc");
    return;
  }
  tg_kit_word(tg_b_, "split %c %lld clip as cc cb", o.c, (long long)(tg_c(NB) * nc));
  tg_kit_word(tg_b_, "order cc %c cb", o.r);
  if (!o.row_k) {
    tg_kit_word(tg_b_, "stage %c at cc as Rp[%c, k]", o.row, o.r);
    if (rows.lo == rows.hi && rows.lo > 1 && vl > 1 && p->k.lo >= vl) transpose_rows(tg_b_, rows);
  }
  if (mr > 1)
    tg_kit_word(tg_b_, "split %c %s as ir iu", o.r, tg_kit_rows_list(list, sizeof list, mr)),
        tg_kit_word(tg_b_, "order ir cb iu"), tg_kit_word(tg_b_, "upcast iu");
  if (nc > 1) tg_kit_word(tg_b_, "split cb {%lld, 1} as jo ju", (long long)nc), tg_kit_word(tg_b_, "upcast ju");
  tg_gemm_rest rest = p->k.lo == p->k.hi ? tg_gemm_dot_rest(p->k.lo, vl, mr, nc) : GEMM_REST_ONE_BY_ONE;
  if (rest == GEMM_REST_UNROLLED)
    tg_kit_word(tg_b_, "split k VL as ko kl"), tg_kit_word(tg_b_, "unroll ko"), tg_kit_word(tg_b_, "lane kl");
  else if (rest == GEMM_REST_BEHIND) {
    tg_kit_word(tg_b_, "split k VL as ko kl");
    tg_kit_word(tg_b_, "cut ko last");
    tg_kit_word(tg_b_, "lane kl");
    if (tg_c(AHEAD)) tg_kit_word(tg_b_, "prefetch %c at ko.main ahead AHEAD", o.column);
  } else {
    tg_kit_word(tg_b_, "split k {VL, 1} as ko kl");
    tg_kit_word(tg_b_, "lane kl.by%lld", (long long)vl);
    if (tg_c(AHEAD)) tg_kit_word(tg_b_, "prefetch %c at ko.by%lld ahead AHEAD", o.column, (long long)vl);
  }
  if (tg_c(TEAM)) tg_kit_word(tg_b_, "thread cc");
}

const tg_gemm_sketch tg_gemm_dot = {
  .kernel = &gemm_dot,
  .takes = tg_gemm_takes_numbers,
  .propose = tg_gemm_propose_dot,
  .bound = tg_gemm_bound_dot,
};
