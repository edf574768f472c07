/* SPDX-License-Identifier: MIT
 * Quantised weights of 4 or 8 bits with scales and zero points for groups of terms: their declarations, and the text of
 * the value of one weight. */
#include <stdio.h>
#include "dsl/uop.h"
#include "gemm/sketch.h"

static bool turned(const tg_gemm_problem *p) { return p->b_major == TG_GEMM_COLUMN; }

static void declare_groups(tg_builder *b, const tg_gemm_problem *p, const char *name, tg_type t) {
  const char *groups = p->group ? "ceildiv(K, GROUP)" : "1";
  if (p->group_major == TG_GEMM_COLUMN)
    tg_kit_declare(b, "in", "%s, %s, [N, %s], [ld_group, 1]", name, tg_type_name[t], groups);
  else tg_kit_declare(b, "in", "%s, %s, [%s, N], [ld_group, 1]", name, tg_type_name[t], groups);
}

/* Unpacked, a byte has two 4-bit elements that are neighbours along the contiguous dimension; packed, a u32 has eight
 * that are consecutive along k. */
void tg_gemm_quantised(tg_builder *tg_b_, const tg_gemm_problem *p) {
  const char *type = tg_type_name[p->b];
  tg_let(GROUP, p->group);
  tg_let(PANEL, (int64_t)p->panel);
  if (p->panel && p->bits == 4) tg_kit_declare(tg_b_, "in", "Bp, u32, [ceildiv(N, PANEL), ceildiv(K, 8), PANEL]");
  else if (p->panel) tg_kit_declare(tg_b_, "in", "Bp, %s, [ceildiv(N, PANEL), K, PANEL]", type);
  else if (p->bits == 4)
    tg_kit_declare(tg_b_, "in", "%s",
                   turned(p) ? "B, u8, [ceildiv(K, 2), N], [1, ldb]" : "B, u8, [K, ceildiv(N, 2)], [ldb, 1]");
  else
    tg_kit_declare(tg_b_, "in", "B, %s, [K, N], [%s]", type,
                   turned(p)                   ? "1, ldb"
                   : p->b_major == TG_GEMM_ROW ? "ldb, 1"
                                               : "ldb, stepb");
  declare_groups(tg_b_, p, "scale", p->scale);
  if (p->zero) declare_groups(tg_b_, p, "zero", p->zero);
}

void tg_gemm_whole(const tg_gemm_problem *p, const char *k, const char *j, char *out, size_t size) {
  char bits[256];
  if (p->bits == 8) {
    if (p->panel) snprintf(out, size, "f32(Bp[(%s)/PANEL, %s, (%s)%%PANEL] else 0)", j, k, j);
    else snprintf(out, size, "f32(B[%s, %s])", k, j);
    return;
  }
  if (p->panel)
    snprintf(bits, sizeof bits, "i32((Bp[(%s)/PANEL, (%s)/8, (%s)%%PANEL] else 0) >> u32((%s)%%8*4) & 15)", j, k, j, k);
  else if (turned(p)) snprintf(bits, sizeof bits, "i32(B[(%s)/2, %s] >> u8((%s)%%2*4) & 15)", k, j, k);
  else snprintf(bits, sizeof bits, "i32((B[%s, (%s)/2] else 0) >> u8((%s)%%2*4) & 15)", k, j, j);
  if (p->b == TG_I8) snprintf(out, size, "f32((%s ^ 8) - 8)", bits);
  else snprintf(out, size, "f32(%s)", bits);
}

void tg_gemm_of_group(const tg_gemm_problem *p, const char *name, tg_type t, const char *g, const char *j, char *out,
                      size_t size) {
  bool by_column = p->group_major == TG_GEMM_COLUMN;
  snprintf(out, size, "%s(%s[%s, %s])", t == TG_F32 ? "" : "f32", name, by_column ? j : g, by_column ? g : j);
}

void tg_gemm_weight(const tg_gemm_problem *p, const char *k, const char *j, char *out, size_t size) {
  char g[96] = "0", q[320], scale[160], zero[160];
  if (p->group) snprintf(g, sizeof g, "(%s)/GROUP", k);
  tg_gemm_whole(p, k, j, q, sizeof q);
  tg_gemm_of_group(p, "scale", p->scale, g, j, scale, sizeof scale);
  tg_gemm_of_group(p, "zero", p->zero, g, j, zero, sizeof zero);
  if (p->zero) snprintf(out, size, "(%s * (%s - %s))", scale, q, zero);
  else snprintf(out, size, "(%s * %s)", scale, q);
}
