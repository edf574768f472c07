/* SPDX-License-Identifier: MIT
 * Small products: everything stays in L1, and nothing is packed. */
#include <stdio.h>
#include "gemm/sketch.h"

/* Returns the range of a tile's terms. */
static const char *unroll_terms(tg_builder *tg_b_, const tg_gemm_problem *p) {
  int64_t uk = tg_c(UK);
  char list[96];
  if (tg_c(SUMS) > 1)
    tg_kit_word(tg_b_, "split k {SUMS, 1} as ko ku"), tg_kit_word(tg_b_, "upcast ku.by%lld", (long long)tg_c(SUMS));
  else if (p->k.lo == p->k.hi && (!uk || uk >= p->k.lo)) {
    tg_kit_word(tg_b_, "unroll k");
    return "k";
  } else if (uk <= 1) return "k";
  else {
    if (p->k.lo == p->k.hi)
      tg_kit_word(tg_b_, "split k %s as ko ku", tg_kit_tile_and_rest(list, sizeof list, p->k, uk));
    else tg_kit_word(tg_b_, "split k {UK, 1} as ko ku");
    tg_kit_word(tg_b_, "unroll ku");
  }
  return "ko";
}

/* Both operands are read in place, tile by tile: all rows of some columns, then the next columns, or (ROWS) all columns
 * of some rows. AHEAD: with ROWS, the rows of the next tile are prefetched term by term. SUMS accumulators per element,
 * used by consecutive terms in turn, hide the latency of multiply-adds in small tiles. The remainder of a known size is
 * one tile; of other sizes, tiles of powers of two rows and of single vectors (tg_gemm_split_open_columns). */
TG_KERNEL(gemm_direct, M, N, K, lda, ldb, ldc) {
  const tg_gemm_problem *p = tg_user;
  tg_gemm_roles o = tg_gemm_roles_of(p);
  tg_kit_dim rows = o.r == 'i' ? p->m : p->n, columns = o.r == 'i' ? p->n : p->m;
  char list[96], rows_list[96];
  tg_kit_lanes(tg_b_, p->acc);
  tg_knob(NU, 4, 1, 2, 3);
  tg_kit_knob(tg_b_, "MR", 6, tg_gemm_mr);
  /* terms to unroll by; 0: all, if their number is known */
  tg_knob(UK, 8, 0, 1, 2, 3, 4, 5, 6, 7, 9, 10, 11, 12, 13, 14, 15, 16);
  tg_knob(ROWS, 0, 1);
  tg_knob(SUMS, 1, 2, 4, 8);
  tg_knob(AHEAD, 0, 1);
  int64_t vl = tg_c(VL), wide = vl * tg_c(NU), mr = tg_c(MR);
  if (columns.hi < wide) wide = (columns.hi + vl - 1) / vl * vl;
  tg_gemm_product(tg_b_, p);
  const char *tiles = tg_gemm_rows_tiles(rows_list, sizeof rows_list, p, rows, columns, mr);
  bool rows_outside = tg_c(ROWS) && !o.column_k, open = columns.lo < columns.hi && !rows_outside;
  if (rows_outside) {
    tg_kit_word(tg_b_, "order %c %c", o.r, o.c);
    tg_kit_word(tg_b_, "split %c %s as ir iu", o.r, tiles);
    tg_kit_word(tg_b_, "order ir %c iu", o.c);
  } else tg_kit_word(tg_b_, "order %c %c", o.c, o.r);
  tg_gemm_open_columns all = {0};
  if (open) all = tg_gemm_split_open_columns(tg_b_, p, &o, (char[]){o.c, 0}, wide);
  else if (columns.lo == columns.hi)
    tg_kit_word(tg_b_, "split %c %s as ct cv", o.c, tg_kit_tile_and_rest(list, sizeof list, columns, wide));
  else if (wide > vl) tg_kit_word(tg_b_, "split %c {%lld, VL} as ct cv", o.c, (long long)wide);
  else tg_kit_word(tg_b_, "split %c VL as ct cv", o.c);
  if (rows_outside) tg_kit_word(tg_b_, "order iu cv");
  else if (!open) tg_kit_word(tg_b_, "order %c cv", o.r);
  if (o.column_k) {
    tg_kit_word(tg_b_, "stage %c at ct as Cp[k, %c]", o.column, o.c);
    tg_kit_word(tg_b_, "lane Cp.1 VL");
    /* vectors are loaded along k and transposed in registers; the remainder of a known number of terms is one smaller
     * block */
    if (columns.lo == columns.hi) {
      const char *around = columns.lo > vl && wide > vl ? "Cp.1.0 " : "";
      bool short_ = p->k.lo == p->k.hi && p->k.lo <= vl;
      if (!short_)
        tg_kit_word(tg_b_, "split Cp.0 %s as pt pu",
                    p->k.lo == p->k.hi ? tg_kit_tile_and_rest(list, sizeof list, p->k, vl) : "{VL, 1}");
      if (*around || !short_) tg_kit_word(tg_b_, "order %s%s", around, short_ ? "Cp.0" : "pt pu");
      tg_kit_word(tg_b_, "unroll %s", short_ ? "Cp.0" : "pu");
    }
  }
  if (open) tg_gemm_tile_open_columns(tg_b_, p, &o, rows, &all);
  else {
    tg_kit_word(tg_b_, "split cv VL as cu cl");
    if (!rows_outside) tg_kit_word(tg_b_, "split %c %s as ir iu", o.r, tiles);
    tg_kit_word(tg_b_, "upcast iu");
    tg_kit_word(tg_b_, "upcast cu");
    tg_kit_word(tg_b_, "lane cl");
  }
  const char *terms = unroll_terms(tg_b_, p);
  if (rows_outside && tg_c(AHEAD)) tg_kit_word(tg_b_, "prefetch %c at %s ahead 1 of ir", o.row, terms);
}

const tg_gemm_sketch tg_gemm_direct = {
  .kernel = &gemm_direct,
  .takes = tg_gemm_takes_numbers,
  .propose = tg_gemm_propose_direct,
  .bound = tg_gemm_bound_direct,
};
