/* SPDX-License-Identifier: MIT
 * Packed quantised weights for few rows: weights are converted to floats in registers where they are used. The length
 * of a group must divide K. */
#include <stdio.h>
#include "gemm/sketch.h"

static bool takes(const tg_gemm_problem *p, const tg_target *t) {
  (void)t;
  return p->bits && p->panel;
}

static bool is_one(tg_kit_dim d) { return d.lo == 1 && d.hi == 1; }

/* The text of the sum. With one row: over the groups g, scale * (sum of a * q - zero * S[g]), S[g] being the sum of the
 * row's elements in group g; so scale and zero point are applied once per group. With several rows: the sum of
 * a * (scale * (q - zero)), since the value of each weight is used by all rows. */
static void sum_of_groups(const tg_gemm_problem *p, const char *j, char *out, size_t size) {
  const char *g = p->group ? "g" : "0", *k = p->bits == 4 ? "g*TERMS + w*8 + r" : "g*TERMS + r",
             *over = p->bits == 4 ? "w : TERMS/8, r : 8" : "r : TERMS";
  char a[128], x[TG_GEMM_TEXT / 2], scale[160], zero[160];
  tg_gemm_value_of_a(p, "i", k, a, sizeof a);
  if (!is_one(p->m)) {
    tg_gemm_weight(p, k, j, x, sizeof x);
    snprintf(out, size, "sum(g : K/TERMS, %s, %s * %s)", over, a, x);
    return;
  }
  tg_gemm_whole(p, k, j, x, sizeof x);
  tg_gemm_of_group(p, "scale", p->scale, g, j, scale, sizeof scale);
  tg_gemm_of_group(p, "zero", p->zero, g, j, zero, sizeof zero);
  if (p->zero) snprintf(out, size, "sum(g : K/TERMS, %s * (sum(%s, %s * %s) - %s * S[g]))", scale, over, a, x, zero);
  else snprintf(out, size, "sum(g : K/TERMS, %s * sum(%s, %s * %s))", scale, over, a, x);
}

static void sums_of_a(tg_builder *tg_b_, const tg_gemm_problem *p) {
  char a[128], text[160];
  tg_gemm_value_of_a(p, "0", "gs*TERMS + ks", a, sizeof a);
  snprintf(text, sizeof text, "S[gs] = sum(ks : TERMS, %s)", a);
  tg_kit_declare(tg_b_, "define_local", "S, f32, [K/TERMS]");
  tg_range(gs, K/TERMS) tg_add_statement(tg_b_, text, __FILE__, __LINE__);
}

/* A task is a block of NB times NP panels. NP panels are read at the same time, as NP streams from memory, one word of
 * every column in each step, and multiplied by MR rows. */
TG_KERNEL(gemm_grouped, M, N, K, lda, ldb, ldc) {
  const tg_gemm_problem *p = tg_user;
  char list[96], sum[TG_GEMM_TEXT];
  tg_kit_lanes(tg_b_, p->acc);
  tg_kit_knob(tg_b_, "MR", 1, tg_gemm_mr);
  tg_kit_knob(tg_b_, "NB", 8, tg_gemm_nb);
  tg_kit_knob(tg_b_, "NP", 4, tg_gemm_side);
  tg_knob(AHEAD, 8, 0, 4, 16, 24);                    /* prefetch distances: AHEAD words, GROUPS groups */
  tg_kit_knob(tg_b_, "GROUPS", 1, tg_gemm_side);
  tg_knob(TEAM, 0, 2);
  int64_t vl = tg_c(VL), mr = tg_c(MR), np = tg_c(NP), team = tg_c(TEAM);
  bool sums = p->zero && is_one(p->m);
  tg_gemm_declare(tg_b_, p);
  tg_let(TERMS, p->group ? p->group : p->k.lo);
  tg_require(K % TERMS == 0);
  if (sums) sums_of_a(tg_b_, p);
  sum_of_groups(p, "jp*PANEL + jv", sum, sizeof sum);
  tg_range(jp, ceildiv(N, PANEL)) tg_range(i, M) tg_range(jv, PANEL)
    tg_gemm_store(tg_b_, p, "jp*PANEL + jv", sum, p->n.lo % p->panel ? " if jp*PANEL + jv < N" : "");
  tg_kit_word(tg_b_, "split jp %lld clip as jc jd", (long long)(tg_c(NB) * np));
  if (p->a != p->acc || p->a_major != TG_GEMM_ROW)
    tg_kit_word(tg_b_, "stage A at jc as Rp%s", p->a == p->acc ? "" : " as f32");
  if (np > 1) tg_kit_word(tg_b_, "split jd {NP, 1} as jb jn"), tg_kit_word(tg_b_, "order jb i jn");
  tg_kit_word(tg_b_, "split i %s as ir iu", tg_kit_rows_list(list, sizeof list, mr));
  tg_kit_word(tg_b_, "upcast iu");
  if (np > 1) tg_kit_word(tg_b_, "upcast jn");
  tg_kit_word(tg_b_, "split jv VL as ju jl");
  if (p->panel > (uint32_t)vl) tg_kit_word(tg_b_, "upcast ju");
  tg_kit_word(tg_b_, "lane jl");
  if (p->bits == 4) tg_kit_word(tg_b_, "unroll r");
  else tg_kit_word(tg_b_, "split r {8, 1} as ro ru"), tg_kit_word(tg_b_, "unroll ru");
  if (sums) tg_kit_word(tg_b_, "split ks {VL, 1} as ko kl"), tg_kit_word(tg_b_, "lane kl.by%lld", (long long)vl);
  if (p->group_major == TG_GEMM_ROW) {
    tg_kit_word(tg_b_, "prefetch scale at g ahead GROUPS");
    if (p->zero) tg_kit_word(tg_b_, "prefetch zero at g ahead GROUPS");
  }
  if (tg_c(AHEAD)) tg_kit_word(tg_b_, "prefetch Bp at %s ahead AHEAD", p->bits == 4 ? "w" : "ro");
  if (team) tg_kit_word(tg_b_, "thread jc");
}

const tg_gemm_sketch tg_gemm_grouped = {
  .kernel = &gemm_grouped,
  .takes = takes,
  .propose = tg_gemm_propose_grouped,
};
