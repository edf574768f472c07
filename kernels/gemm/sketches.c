/* SPDX-License-Identifier: MIT
 * The sketches: one body, and for each shape of problem the words that make it fast. */
#include <stdio.h>
#include "gemm/template.h"

/* ---- the mathematics, the same for all ---- */

static const char *type_text(tg_type t) {
  static const char *const text[TG_TYPE__COUNT] = {[TG_I8] = "i8", [TG_U8] = "u8", [TG_I32] = "i32", [TG_F16] = "f16", [TG_BF16] = "bf16", [TG_F32] = "f32", [TG_F64] = "f64"};
  return text[t];
}

static void operand(tg_builder *b, const char *word, const char *name, tg_type t, const char *rows, const char *columns, uint8_t major, const char *ld) {
  char text[160];
  if (major == TG_GEMM_ROW) snprintf(text, sizeof text, "%s, %s, [%s, %s], [%s, 1]", name, type_text(t), rows, columns, ld);
  else snprintf(text, sizeof text, "%s, %s, [%s, %s], [1, %s]", name, type_text(t), rows, columns, ld);
  tg_add_declaration(b, word, text, __FILE__, __LINE__);
}

/* "T(x)", or x where it has the type already. */
static void cast(char *out, size_t n, tg_type from, tg_type to, const char *x) {
  if (from == to) snprintf(out, n, "%s", x);
  else snprintf(out, n, "%s(%s)", type_text(to), x);
}

static void product(tg_builder *tg_b_, const tg_gemm_problem *p) {
  operand(tg_b_, "in", "A", p->a, "M", "K", p->a_major, "lda");
  operand(tg_b_, "in", "B", p->b, "K", "N", p->b_major, "ldb");
  operand(tg_b_, p->beta ? "inout" : "out", "C", p->c, "M", "N", p->c_major, "ldc");
  char a[32], b[32], c[32], sum[192], text[256];
  if (p->alpha) snprintf(text, sizeof text, "alpha, %s, [1]", type_text(p->acc)), tg_add_declaration(tg_b_, "in", text, __FILE__, __LINE__);
  if (p->beta) snprintf(text, sizeof text, "beta, %s, [1]", type_text(p->acc)), tg_add_declaration(tg_b_, "in", text, __FILE__, __LINE__);
  cast(a, sizeof a, p->a, p->acc, "A[i,k]");
  cast(b, sizeof b, p->b, p->acc, "B[k,j]");
  cast(c, sizeof c, p->c, p->acc, "C[i,j]");
  snprintf(sum, sizeof sum, "%s%s%ssum(k : K, %s * %s)", p->beta ? "beta[0] * " : "", p->beta ? c : "", p->beta ? p->alpha ? " + alpha[0] * " : " + " : p->alpha ? "alpha[0] * " : "", a, b);
  if (p->c == p->acc) snprintf(text, sizeof text, "C[i,j] = %s", sum);
  else snprintf(text, sizeof text, "C[i,j] = %s(%s)", type_text(p->c), sum);
  tg_range(i, M) tg_range(j, N)
    tg_add_statement(tg_b_, text, __FILE__, __LINE__);
}

/* No words: the compiler's heuristic chooses. */
TG_KERNEL(gemm_plain, M, N, K, lda, ldb, ldc) { product(tg_b_, tg_user); }

/* Both operands in panels. Blocks of KC terms; B in blocks of NC columns that the second cache holds, in panels of NR; A in panels of MR rows, of which one
 * stays in the first cache while those of B pass; smaller tiles for the rows that are left. */
TG_KERNEL(gemm_packed, M, N, K, lda, ldb, ldc) {
  const tg_gemm_problem *p = tg_user;
  tg_knob(KC, 256, 192, 320, 384, 512);
  tg_knob(NB, 32, 8, 16, 24, 48, 64);            /* panels of B in a block */
  product(tg_b_, p);
  tg_opt(split j 32 as jt jv);
  tg_opt(split jt NB clip as jc jr);
  tg_opt(split k KC clip as kc kr);
  tg_opt(order kc jc i jr jv);
  tg_opt(split jv 16 as ju jl);
  tg_opt(stage A at kc as Ap[i/14, i%14, k] space=team);
  tg_opt(stage B at jc as Bp[j/32, k, j%32]);
  tg_opt(split i {14, 8, 4, 2, 1} as ir iu);
  tg_opt(order jr iu);
  tg_opt(upcast iu);
  tg_opt(upcast ju);
  tg_opt(lane jl);
  tg_opt(lane Bp.2 16);
  tg_opt(upcast Bp.2.0);
  tg_opt(lane Ap.2 16);
}

const tg_kernel_def *const tg_gemm_sketches[] = {&gemm_plain, &gemm_packed, NULL};
