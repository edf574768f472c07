/* SPDX-License-Identifier: MIT
 * The sketch for unsigned times signed bytes: an instruction sums four products at a time, so the columns' operand is packed with four terms side by side. */
#include "gemm/sketch.h"

void tg_gemm_bytes(tg_builder *tg_b_, const tg_gemm_problem *p) {
  char list[96];
  tg_knob(NU, 4, 1, 2, 3);
  tg_gemm_knob(tg_b_, "MR", 6, tg_gemm_mr);
  tg_gemm_knob(tg_b_, "KC", 1024, tg_gemm_panel_kc);
  tg_gemm_knob(tg_b_, "NB", 8, tg_gemm_nb);
  tg_gemm_knob(tg_b_, "MB", 1024, tg_gemm_mb);
  tg_knob(TEAM, 0, 1, 2);
  long long nr = 16 * tg_c(NU), mr = tg_c(MR);
  tg_gemm_product(tg_b_, p);
  tg_gemm_word(tg_b_, "split j %lld as ct cv", nr);
  tg_gemm_word(tg_b_, "split ct NB clip as cc cb");
  tg_gemm_word(tg_b_, "split k KC clip as kc kr");
  tg_gemm_word(tg_b_, "split i %lld clip as rc rb", mr * (long long)tg_c(MB));
  tg_gemm_word(tg_b_, "order cc kc rc rb cb cv");
  tg_gemm_word(tg_b_, "split cv 16 as cu cl");
  tg_gemm_word(tg_b_, "split kr 4 as ko ki");
  tg_gemm_word(tg_b_, "stage B at kc as Cp[j/%lld, k/4, j%%%lld, k%%4]%s", nr, nr, tg_c(TEAM) == 1 ? " space=team" : "");
  if (p->a_major != TG_GEMM_ROW) tg_gemm_word(tg_b_, "stage A at rc as Rp[i, k]");
  tg_gemm_word(tg_b_, "split rb %s as ir iu", tg_gemm_rows_list(list, sizeof list, mr));
  tg_gemm_word(tg_b_, "order cb iu");
  tg_gemm_word(tg_b_, "upcast iu");
  tg_gemm_word(tg_b_, "upcast cu");
  if (p->b_major == TG_GEMM_ROW) tg_gemm_word(tg_b_, "lane Cp.2 16");
  tg_gemm_word(tg_b_, "contract vpdpbusd n=cl k=ki");
  if (tg_c(TEAM) == 1) tg_gemm_word(tg_b_, "thread rc"), tg_gemm_word(tg_b_, "thread Cp.0");
  if (tg_c(TEAM) == 2) tg_gemm_word(tg_b_, "thread cc");
}
