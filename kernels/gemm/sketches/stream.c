/* SPDX-License-Identifier: MIT
 * Few rows: the large operand is read once and in place, at the speed of memory; vectors run along its contiguous
 * dimension. */
#include <stdio.h>
#include "gemm/sketch.h"

/* Tiles of columns whose number is known, or that are not C's contiguous ones: of one width, the last one gated. */
static void known_columns(tg_builder *tg_b_, const tg_gemm_problem *p, const tg_gemm_roles *o) {
  tg_kit_dim rows = o->r == 'i' ? p->m : p->n, columns = o->r == 'i' ? p->n : p->m;
  char list[96];
  tg_kit_word(tg_b_, "split %c %lld as ct cv", o->c, (long long)(tg_c(VL) * tg_c(NU)));
  tg_kit_word(tg_b_, "split ct NB clip as cc cb");
  if (!o->scattered) tg_kit_word(tg_b_, "split k KC clip as kc kr");
  tg_kit_word(tg_b_, o->scattered ? "order cc cb %c cv" : "order cc kc cb %c cv", o->r);
  tg_kit_word(tg_b_, "split cv VL as cu cl");
  tg_kit_word(tg_b_, "split %c %s as ir iu", o->r,
              tg_c(KC) < TG_GEMM_SHARED_KC ? tg_kit_rows_list(list, sizeof list, tg_c(MR))
                                           : tg_gemm_rows_tiles(list, sizeof list, p, rows, columns, tg_c(MR)));
  tg_kit_word(tg_b_, "upcast iu");
  tg_kit_word(tg_b_, "upcast cu");
  tg_kit_word(tg_b_, "lane cl");
}

/* The columns' operand is the large one. KC of its rows (k) are read at the same time, each from end to end; partial
 * sums are kept in C, which stays in a cache. Of columns whose number is open only the last vector is gated: gates cost
 * more than the product where stores have no masks of their own. */
TG_KERNEL(gemm_stream, M, N, K, lda, ldb, ldc) {
  const tg_gemm_problem *p = tg_user;
  tg_gemm_roles o = tg_gemm_thin_roles_of(p);
  tg_kit_dim rows = o.r == 'i' ? p->m : p->n, columns = o.r == 'i' ? p->n : p->m;
  char list[96];
  tg_kit_lanes(tg_b_, p->acc);
  tg_knob(NU, 8, 1, 2, 3, 4, 6);
  tg_kit_knob(tg_b_, "MR", 1, tg_gemm_mr);
  tg_knob(KC, 8, 4, 16, 32, 64, 128, 256);
  tg_knob(UK, 8, 1, 2, 4);   /* most terms to unroll by */
  tg_kit_knob(tg_b_, "NB", 64, tg_gemm_stream_nb);
  tg_knob(AHEAD, 0, 1, 2, 4);
  tg_knob(TEAM, 0, 2);
  long long wide = tg_c(VL) * tg_c(NU);
  bool open = columns.lo < columns.hi && !o.scattered && !o.column_k;
  tg_gemm_product(tg_b_, p);
  if (open) {
    tg_kit_word(tg_b_, "split %c %lld clip as cc cb", o.c, wide * (long long)tg_c(NB));
    tg_kit_word(tg_b_, "split k KC clip as kc kr");
    tg_kit_word(tg_b_, "order cc kc cb %c", o.r);
    tg_gemm_open_columns all = tg_gemm_split_open_columns(tg_b_, p, &o, "cb", wide);
    tg_gemm_tile_open_columns(tg_b_, p, &o, rows, &all);
  } else known_columns(tg_b_, p, &o);
  /* terms to unroll by; if the columns' operand is contiguous along k: VL terms, which are transposed together, and the
   * remainder */
  int64_t terms = !o.column_k                          ? tg_c(KC) < tg_c(UK) ? tg_c(KC) : tg_c(UK)
                                           : o.scattered || tg_c(VL) < tg_c(KC) ? tg_c(VL)
                                                       : tg_c(KC);
  if (o.column_k && p->k.lo == p->k.hi && (o.scattered || p->k.lo <= tg_c(KC)))
    tg_kit_tile_and_rest(list, sizeof list, p->k, terms < p->k.lo ? terms : p->k.lo);
  else snprintf(list, sizeof list, "{%lld, 1}", (long long)terms);
  const char *all = o.scattered ? "k" : "kr", *in = terms > 1 ? "ko" : all;
  if (terms > 1) tg_kit_word(tg_b_, "split %s %s as ko ku", all, list), tg_kit_word(tg_b_, "unroll ku");
  if (tg_c(TEAM)) tg_kit_word(tg_b_, "thread cc");
  if (tg_c(AHEAD) && open)
    tg_kit_word(tg_b_, "prefetch %c at ct.by%lld.%s ahead AHEAD of ct.by%lld", o.column, wide, in, wide);
  else if (tg_c(AHEAD)) tg_kit_word(tg_b_, "prefetch %c at %s ahead AHEAD of cb", o.column, in);
}

const tg_gemm_sketch tg_gemm_stream = {
  .kernel = &gemm_stream,
  .takes = tg_gemm_takes_numbers,
  .propose = tg_gemm_propose_stream,
  .bound = tg_gemm_bound_stream,
};
