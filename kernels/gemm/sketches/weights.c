/* SPDX-License-Identifier: MIT
 * Quantised weights for more rows than gemm_grouped is good for: a panel of weights is converted to floats once, into
 * a buffer that a cache holds. */
#include <stdio.h>
#include "gemm/sketch.h"

static bool takes(const tg_gemm_problem *p, const tg_target *t) {
  (void)t;
  return p->bits != 0;
}

/* A task converts NB panels of columns to floats, then multiplies by them as by any packed operand: blocks of terms,
 * tiles of rows, panels in a cache. Partial sums of a C whose type is not acc are kept in a buffer for one block of
 * rows. */
TG_KERNEL(gemm_weights, M, N, K, lda, ldb, ldc) {
  const tg_gemm_problem *p = tg_user;
  char weight[TG_GEMM_TEXT / 2], text[TG_GEMM_TEXT];
  tg_kit_tile_knobs(tg_b_, p->acc, tg_gemm_mr);
  tg_kit_knob(tg_b_, "KC", 512, tg_gemm_panel_kc);
  tg_kit_knob(tg_b_, "NB", 4, tg_gemm_nb);
  tg_kit_knob(tg_b_, "MB", 16, tg_gemm_mb);
  tg_knob(TEAM, 0, 2);
  int64_t vl = tg_c(VL), mr = tg_c(MR), nr = vl * tg_c(NU), nb = tg_c(NB);
  bool waits = p->c != p->acc, whole = p->n.lo == p->n.hi && p->n.lo % (nr * nb) == 0;
  tg_gemm_declare(tg_b_, p);
  tg_let(NR, nr);
  tg_gemm_weight(p, "kw", "(jp*NB + bw)*NR + jw", weight, sizeof weight);
  snprintf(text, sizeof text, whole ? "W[bw,kw,jw] = %s" : "W[bw,kw,jw] = where((jp*NB + bw)*NR + jw < N, %s, 0)",
           weight);
  tg_range(jp, ceildiv(N, NR*NB)) {
    tg_kit_declare(tg_b_, "define_local", "W, f32, [NB, K, NR]");
    tg_range(bw, NB) tg_range(kw, K) tg_range(jw, NR) tg_add_statement(tg_b_, text, __FILE__, __LINE__);
    tg_gemm_value_of_a(p, "i", "k", weight, sizeof weight);
    snprintf(text, sizeof text, "sum(k : K, %s * W[cb,k,cv])", weight);
    tg_range(i, M) tg_range(cb, NB) tg_range(cv, NR)
        tg_gemm_store(tg_b_, p, "(jp*NB + cb)*NR + cv", text, whole ? "" : " if (jp*NB + cb)*NR + cv < N");
  }
  tg_kit_word(tg_b_, "split kw {8, 1} as wo wi");
  tg_kit_word(tg_b_, "unroll wi");
  tg_kit_word(tg_b_, "split jw VL as wu wl");
  tg_kit_word(tg_b_, "lane wl");
  tg_kit_word(tg_b_, "split k KC clip as kc kr");
  tg_kit_word(tg_b_, "split i %lld clip as rc rb", (long long)(mr * tg_c(MB)));
  tg_kit_word(tg_b_, waits ? "order rc kc rb cb cv" : "order kc rc rb cb cv");
  if (p->a_major != TG_GEMM_ROW || p->a != p->acc) {
    const char *at = waits ? "kc" : "rc", *as = p->a == p->acc ? "" : " as f32";
    if (mr == 1) tg_kit_word(tg_b_, "stage A at %s as Rp[k, i]%s", at, as);
    else tg_kit_word(tg_b_, "stage A at %s as Rp[i/%lld, k, i%%%lld]%s", at, (long long)mr, (long long)mr, as);
  }
  tg_kit_tile(tg_b_, "rb", "kr", "cb");
  if (tg_c(TEAM)) tg_kit_word(tg_b_, "thread jp");
}

const tg_gemm_sketch tg_gemm_weights = {
  .kernel = &gemm_weights,
  .takes = takes,
  .propose = tg_gemm_propose_weights,
};
