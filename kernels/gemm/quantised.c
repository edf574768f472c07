/* SPDX-License-Identifier: MIT
 * Weights of 4 or 8 bits with scales and zero points by groups of terms: how they are declared, what one is worth, and the sketches that read them. Few rows take
 * them as they come, from panels; for more rows a panel is made floats once, in a cache. */
#include <stdio.h>
#include "gemm/sketch.h"

static void declare(tg_builder *b, const char *word, const char *format, ...) TG_PRINTF(3, 4);
static void declare(tg_builder *b, const char *word, const char *format, ...) {
  char text[192];
  va_list ap;
  va_start(ap, format);
  vsnprintf(text, sizeof text, format, ap);
  va_end(ap);
  tg_add_declaration(b, word, text, __FILE__, __LINE__);
}

static bool turned(const tg_gemm_problem *p) { return p->b_major == TG_GEMM_COLUMN; }

static void declare_groups(tg_builder *b, const tg_gemm_problem *p, const char *name, tg_type t) {
  const char *groups = p->group ? "ceildiv(K, GROUP)" : "1";
  if (p->group_major == TG_GEMM_COLUMN) declare(b, "in", "%s, %s, [N, %s], [ld_group, 1]", name, tg_gemm_type(t), groups);
  else declare(b, "in", "%s, %s, [%s, N], [ld_group, 1]", name, tg_gemm_type(t), groups);
}

/* Four bits: two elements a byte, along what is contiguous; in panels eight a word, along k. */
void tg_gemm_quantised(tg_builder *tg_b_, const tg_gemm_problem *p) {
  const char *type = tg_gemm_type(p->b);
  tg_let(GROUP, p->group);
  tg_let(PANEL, (int64_t)p->panel);
  if (p->panel && p->bits == 4) declare(tg_b_, "in", "Bp, u32, [ceildiv(N, PANEL), ceildiv(K, 8), PANEL]");
  else if (p->panel) declare(tg_b_, "in", "Bp, %s, [ceildiv(N, PANEL), K, PANEL]", type);
  else if (p->bits == 4) declare(tg_b_, "in", "%s", turned(p) ? "B, u8, [ceildiv(K, 2), N], [1, ldb]" : "B, u8, [K, ceildiv(N, 2)], [ldb, 1]");
  else declare(tg_b_, "in", "B, %s, [K, N], [%s]", type, turned(p) ? "1, ldb" : p->b_major == TG_GEMM_ROW ? "ldb, 1" : "ldb, stepb");
  declare_groups(tg_b_, p, "scale", p->scale);
  if (p->zero) declare_groups(tg_b_, p, "zero", p->zero);
}

/* The whole number as a float. */
static void number(const tg_gemm_problem *p, const char *k, const char *j, char *out, size_t size) {
  char bits[256];
  if (p->bits == 8) {
    if (p->panel) snprintf(out, size, "f32(Bp[(%s)/PANEL, %s, (%s)%%PANEL] else 0)", j, k, j);
    else snprintf(out, size, "f32(B[%s, %s])", k, j);
    return;
  }
  if (p->panel) snprintf(bits, sizeof bits, "i32((Bp[(%s)/PANEL, (%s)/8, (%s)%%PANEL] else 0) >> u32((%s)%%8*4) & 15)", j, k, j, k);
  else if (turned(p)) snprintf(bits, sizeof bits, "i32(B[(%s)/2, %s] >> u8((%s)%%2*4) & 15)", k, j, k);
  else snprintf(bits, sizeof bits, "i32((B[%s, (%s)/2] else 0) >> u8((%s)%%2*4) & 15)", k, j, j);
  if (p->b == TG_I8) snprintf(out, size, "f32((%s ^ 8) - 8)", bits);
  else snprintf(out, size, "f32(%s)", bits);
}

/* "f32(scale[g,j])" */
static void of_group(const tg_gemm_problem *p, const char *name, tg_type t, const char *g, const char *j, char *out, size_t size) {
  bool by_column = p->group_major == TG_GEMM_COLUMN;
  snprintf(out, size, "%s(%s[%s, %s])", t == TG_F32 ? "" : "f32", name, by_column ? j : g, by_column ? g : j);
}

void tg_gemm_weight(const tg_gemm_problem *p, const char *k, const char *j, char *out, size_t size) {
  char g[96] = "0", q[320], scale[160], zero[160];
  if (p->group) snprintf(g, sizeof g, "(%s)/GROUP", k);
  number(p, k, j, q, sizeof q);
  of_group(p, "scale", p->scale, g, j, scale, sizeof scale);
  of_group(p, "zero", p->zero, g, j, zero, sizeof zero);
  if (p->zero) snprintf(out, size, "(%s * (%s - %s))", scale, q, zero);
  else snprintf(out, size, "(%s * %s)", scale, q);
}

/* ---- few rows ---- */

static bool is_one(tg_gemm_dim d) { return d.lo == 1 && d.hi == 1; }

/* A row alone: the sum of a group is one of whole numbers, scaled behind it, and the zero point is subtracted as often as S[g] says, the sum of that part of the
 * row. Several rows share a weight, which is worth making a float. */
static void sum_of_groups(const tg_gemm_problem *p, const char *j, char *out, size_t size) {
  const char *g = p->group ? "g" : "0", *k = p->bits == 4 ? "g*TERMS + w*8 + r" : "g*TERMS + r", *over = p->bits == 4 ? "w : TERMS/8, r : 8" : "r : TERMS";
  char a[128], x[TG_GEMM_TEXT / 2], scale[160], zero[160];
  tg_gemm_value_of_a(p, "i", k, a, sizeof a);
  if (!is_one(p->m)) {
    tg_gemm_weight(p, k, j, x, sizeof x);
    snprintf(out, size, "sum(g : K/TERMS, %s, %s * %s)", over, a, x);
    return;
  }
  number(p, k, j, x, sizeof x);
  of_group(p, "scale", p->scale, g, j, scale, sizeof scale);
  of_group(p, "zero", p->zero, g, j, zero, sizeof zero);
  if (p->zero) snprintf(out, size, "sum(g : K/TERMS, %s * (sum(%s, %s * %s) - %s * S[g]))", scale, over, a, x, zero);
  else snprintf(out, size, "sum(g : K/TERMS, %s * sum(%s, %s * %s))", scale, over, a, x);
}

static void sums_of_a(tg_builder *tg_b_, const tg_gemm_problem *p) {
  char a[128], text[160];
  tg_gemm_value_of_a(p, "0", "gs*TERMS + ks", a, sizeof a);
  snprintf(text, sizeof text, "S[gs] = sum(ks : TERMS, %s)", a);
  declare(tg_b_, "define_local", "S, f32, [K/TERMS]");
  tg_range(gs, K/TERMS) tg_add_statement(tg_b_, text, __FILE__, __LINE__);
}

/* Tasks are blocks of NB times NP panels; from each of NP panels, which memory is read from side by side, a word of every column at a time, for MR rows. */
void tg_gemm_grouped(tg_builder *tg_b_, const tg_gemm_problem *p) {
  char list[96], sum[TG_GEMM_TEXT];
  tg_gemm_lanes(tg_b_, p);
  tg_gemm_knob(tg_b_, "MR", 1, tg_gemm_mr);
  tg_gemm_knob(tg_b_, "NB", 8, tg_gemm_nb);
  tg_gemm_knob(tg_b_, "NP", 4, tg_gemm_side);
  tg_knob(AHEAD, 8, 0, 4, 16, 24);                    /* words, and groups, that are asked for ahead */
  tg_gemm_knob(tg_b_, "GROUPS", 1, tg_gemm_side);
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
  tg_gemm_word(tg_b_, "split jp %lld clip as jc jd", (long long)(tg_c(NB) * np));
  if (p->a != p->acc || p->a_major != TG_GEMM_ROW) tg_gemm_word(tg_b_, "stage A at jc as Rp%s", p->a == p->acc ? "" : " as f32");
  if (np > 1) tg_gemm_word(tg_b_, "split jd {NP, 1} as jb jn"), tg_gemm_word(tg_b_, "order jb i jn");
  tg_gemm_word(tg_b_, "split i %s as ir iu", tg_gemm_rows_list(list, sizeof list, mr));
  tg_gemm_word(tg_b_, "upcast iu");
  if (np > 1) tg_gemm_word(tg_b_, "upcast jn");
  tg_gemm_word(tg_b_, "split jv VL as ju jl");
  if (p->panel > (uint32_t)vl) tg_gemm_word(tg_b_, "upcast ju");
  tg_gemm_word(tg_b_, "lane jl");
  if (p->bits == 4) tg_gemm_word(tg_b_, "unroll r");
  else tg_gemm_word(tg_b_, "split r {8, 1} as ro ru"), tg_gemm_word(tg_b_, "unroll ru");
  if (sums) tg_gemm_word(tg_b_, "split ks {VL, 1} as ko kl"), tg_gemm_word(tg_b_, "lane kl.by%lld", (long long)vl);
  if (p->group_major == TG_GEMM_ROW) {
    tg_gemm_word(tg_b_, "prefetch scale at g ahead GROUPS");
    if (p->zero) tg_gemm_word(tg_b_, "prefetch zero at g ahead GROUPS");
  }
  if (tg_c(AHEAD)) tg_gemm_word(tg_b_, "prefetch Bp at %s ahead AHEAD", p->bits == 4 ? "w" : "ro");
  if (team) tg_gemm_word(tg_b_, "thread jc");
}

/* ---- more rows ---- */

/* Tasks are NB panels of columns, made floats first; then it is a product with a packed operand: blocks of terms, tiles of rows, whose panels a cache holds. A
 * sum that C cannot hold waits in a tile of one block of rows. */
void tg_gemm_weights(tg_builder *tg_b_, const tg_gemm_problem *p) {
  char weight[TG_GEMM_TEXT / 2], text[TG_GEMM_TEXT];
  tg_gemm_tile_knobs(tg_b_, p);
  tg_gemm_knob(tg_b_, "KC", 512, tg_gemm_panel_kc);
  tg_gemm_knob(tg_b_, "NB", 4, tg_gemm_nb);
  tg_gemm_knob(tg_b_, "MB", 16, tg_gemm_mb);
  tg_knob(TEAM, 0, 2);
  int64_t vl = tg_c(VL), mr = tg_c(MR), nr = vl * tg_c(NU), nb = tg_c(NB);
  bool waits = p->c != p->acc, whole = p->n.lo == p->n.hi && p->n.lo % (nr * nb) == 0;
  tg_gemm_declare(tg_b_, p);
  tg_let(NR, nr);
  tg_gemm_weight(p, "kw", "(jp*NB + bw)*NR + jw", weight, sizeof weight);
  snprintf(text, sizeof text, whole ? "W[bw,kw,jw] = %s" : "W[bw,kw,jw] = where((jp*NB + bw)*NR + jw < N, %s, 0)", weight);
  tg_range(jp, ceildiv(N, NR*NB)) {
    declare(tg_b_, "define_local", "W, f32, [NB, K, NR]");
    tg_range(bw, NB) tg_range(kw, K) tg_range(jw, NR) tg_add_statement(tg_b_, text, __FILE__, __LINE__);
    tg_gemm_value_of_a(p, "i", "k", weight, sizeof weight);
    snprintf(text, sizeof text, "sum(k : K, %s * W[cb,k,cv])", weight);
    tg_range(i, M) tg_range(cb, NB) tg_range(cv, NR) tg_gemm_store(tg_b_, p, "(jp*NB + cb)*NR + cv", text, whole ? "" : " if (jp*NB + cb)*NR + cv < N");
  }
  tg_gemm_word(tg_b_, "split kw {8, 1} as wo wi");
  tg_gemm_word(tg_b_, "unroll wi");
  tg_gemm_word(tg_b_, "split jw VL as wu wl");
  tg_gemm_word(tg_b_, "lane wl");
  tg_gemm_word(tg_b_, "split k KC clip as kc kr");
  tg_gemm_word(tg_b_, "split i %lld clip as rc rb", (long long)(mr * tg_c(MB)));
  tg_gemm_word(tg_b_, waits ? "order rc kc rb cb cv" : "order kc rc rb cb cv");
  if (p->a_major != TG_GEMM_ROW || p->a != p->acc) {
    const char *at = waits ? "kc" : "rc", *as = p->a == p->acc ? "" : " as f32";
    if (mr == 1) tg_gemm_word(tg_b_, "stage A at %s as Rp[k, i]%s", at, as);
    else tg_gemm_word(tg_b_, "stage A at %s as Rp[i/%lld, k, i%%%lld]%s", at, (long long)mr, (long long)mr, as);
  }
  tg_gemm_tile(tg_b_, "rb", "kr", "cb");
  if (tg_c(TEAM)) tg_gemm_word(tg_b_, "thread jp");
}
