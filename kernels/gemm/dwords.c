/* SPDX-License-Identifier: MIT
 * Shared by the sketches whose instructions sum a dword of consecutive terms at a time: four bytes (VPDPBUSD) or two
 * bf16 (VDPBF16PS). The columns' operand is packed with these terms contiguous. */
#include "gemm/sketch.h"

void tg_gemm_dword_knobs(tg_builder *tg_b_) {
  tg_knob(NU, 4, 1, 2, 3);
  tg_kit_knob(tg_b_, "MR", 6, tg_gemm_mr);
  tg_kit_knob(tg_b_, "KC", 1024, tg_gemm_panel_kc);
  tg_kit_knob(tg_b_, "NB", 8, tg_gemm_nb);
  tg_kit_knob(tg_b_, "MB", 1024, tg_gemm_mb);
  tg_knob(TEAM, 0, 1, 2);
}

static long long terms_of(const tg_gemm_problem *p) { return p->a == TG_BF16 ? 2 : 4; }

/* Must the rows be copied? Rows of bytes that are not copied are read a dword at a time, so K must be a fixed multiple
 * of 4. With bf16 an odd last term is multiplied alone. */
static bool packs_rows(const tg_gemm_problem *p) {
  return p->a == TG_I8 || p->a_major != TG_GEMM_ROW || p->a_step > 1 ||
         (p->a == TG_U8 && (p->k.lo != p->k.hi || p->k.lo % 4));
}

/* Copies a row-major B. A dword of a panel has `terms` consecutive terms of one column, which lie in `terms` rows of
 * B: these rows are loaded as vectors and their elements interleaved in registers. */
static void interleave(tg_builder *tg_b_, long long terms) {
  long long nu = tg_c(NU);
  /* a vector has a power of two of lanes */
  tg_kit_word(tg_b_, "split Cp.2 %lld as cq cr", terms == 2 ? 16 : nu & (nu - 1) ? 4 : 4 * nu);
  tg_kit_word(tg_b_, "fuse cr Cp.3 as cx");
  tg_kit_word(tg_b_, "lane cx");
  tg_kit_word(tg_b_, "upcast cq");
}

/* Copies a column-major B, whose columns already have the terms of a dword contiguous: blocks of 16 by 16 dwords are
 * transposed in registers. */
static void transpose(tg_builder *tg_b_) {
  tg_kit_word(tg_b_, "split Cp.2 16 as cq cr");
  tg_kit_word(tg_b_, "fuse cr Cp.3 as cx");
  tg_kit_word(tg_b_, "lane cx");
  tg_kit_word(tg_b_, "split Cp.1 {16, 1} as pt pu");
  tg_kit_word(tg_b_, "order cq pt pu");
  tg_kit_word(tg_b_, "unroll pu");
}

/* Copies a column-major A: blocks of 16 by 16 elements are transposed in registers. */
static void transpose_rows(tg_builder *tg_b_) {
  tg_kit_word(tg_b_, "lane Rp.1 16");
  tg_kit_word(tg_b_, "split Rp.0 {16, 1} as rt ru");
  tg_kit_word(tg_b_, "order Rp.1.0 rt ru");
  tg_kit_word(tg_b_, "unroll ru");
}

/* Copies a column-major A of bf16 to panels of 32 rows, with the two terms of a pair contiguous, as in the panels of
 * B: two loads give two vectors. */
static void interleave_rows(tg_builder *tg_b_) {
  tg_kit_word(tg_b_, "stage A at rc as Rp[d0/32, d1/2, d0%%32, d1%%2]");
  tg_kit_word(tg_b_, "split Rp.2 16 as rq rr");
  tg_kit_word(tg_b_, "fuse rr Rp.3 as rx");
  tg_kit_word(tg_b_, "lane rx");
  tg_kit_word(tg_b_, "upcast rq");
  tg_kit_word(tg_b_, "order Rp.1 Rp.0");
}

const char *tg_gemm_team_space(tg_builder *tg_b_) { return tg_c(TEAM) == 1 ? " space=team" : ""; }

void tg_gemm_dword_tiles(tg_builder *tg_b_, const tg_gemm_problem *p, const char *k, const char *at,
                         const char *space) {
  char list[96];
  long long nr = 16 * tg_c(NU), mr = tg_c(MR), terms = terms_of(p);
  tg_kit_word(tg_b_, "split cv 16 as cu cl");
  tg_kit_word(tg_b_, "stage B at %s as Cp[d1/%lld, d0/%lld, d1%%%lld, d0%%%lld]%s", at, nr, terms, nr, terms, space);
  bool turned = terms == 2 && p->a_major == TG_GEMM_COLUMN;
  if (turned) interleave_rows(tg_b_);
  else if (packs_rows(p))
    tg_kit_word(tg_b_, "stage A at rc as Rp[d0, d1]%s pitch=%lld", p->a == TG_I8 ? " as u8 fill=128" : "",
                (long long)tg_c(KC) + 64);
  if (packs_rows(p) && p->a_major == TG_GEMM_ROW) tg_kit_word(tg_b_, "lane Rp.1 %lld", 16 * terms);
  if (!turned && p->a_major == TG_GEMM_COLUMN) transpose_rows(tg_b_);
  tg_kit_word(tg_b_,
              terms == 2 && (p->k.lo != p->k.hi || p->k.lo % 2) ? "split %s {2, 1} as ko ki" : "split %s %lld as ko ki",
              k, terms);
  tg_kit_word(tg_b_, "split rb %s as ir iu", tg_kit_rows_list(list, sizeof list, mr));
  tg_kit_word(tg_b_, "order cb iu");
  tg_kit_word(tg_b_, "upcast iu");
  tg_kit_word(tg_b_, "upcast cu");
  if (p->b_major == TG_GEMM_ROW) interleave(tg_b_, terms);
  if (p->b_major == TG_GEMM_COLUMN) transpose(tg_b_);
}

/* blocks: the loop over blocks of columns. */
void tg_gemm_byte_tiles(tg_builder *tg_b_, const tg_gemm_problem *p, const char *blocks) {
  tg_kit_word(tg_b_, "split k KC clip as kc kr");
  tg_kit_word(tg_b_, "split i %lld clip as rc rb", (long long)(tg_c(MR) * tg_c(MB)));
  tg_kit_word(tg_b_, "order %skc rc rb cb cv", p->a == TG_I8 ? "" : "cc ");
  tg_gemm_dword_tiles(tg_b_, p, "kr", "kc", tg_gemm_team_space(tg_b_));
  tg_kit_word(tg_b_, "contract vpdpbusd n=cl k=ki");
  if (tg_c(TEAM) == 1) tg_kit_word(tg_b_, "thread rc"), tg_kit_word(tg_b_, "thread Cp.0");
  if (tg_c(TEAM) == 2) tg_kit_word(tg_b_, "thread %s", blocks);
}
