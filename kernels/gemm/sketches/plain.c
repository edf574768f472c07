/* SPDX-License-Identifier: MIT
 * Any product, without words: the compiler's heuristic chooses the schedule. */
#include <stdio.h>
#include "gemm/sketch.h"

static bool takes(const tg_gemm_problem *p, const tg_target *t) {
  (void)p, (void)t;
  return true;
}

/* A packed B on a device with warps: a loop over panels, so that the compiler sees a product in each. */
static void product_of_panels(tg_builder *tg_b_, const tg_gemm_problem *p) {
  char a[128], b[96], sum[TG_GEMM_TEXT];
  bool whole = p->n.lo == p->n.hi && p->n.lo % p->panel == 0;
  tg_gemm_declare_call(tg_b_, p);
  tg_gemm_value_of_a(p, "i", "k", a, sizeof a);
  tg_kit_cast(b, sizeof b, p->b, p->acc, "Bp[jp,k,jj]");
  snprintf(sum, sizeof sum, "sum(k : K, %s * %s)", a, b);
  tg_range(jp, ceildiv(N, PANEL)) tg_range(i, M) tg_range(jj, PANEL)
    tg_gemm_store(tg_b_, p, "jp*PANEL + jj", sum, whole ? "" : " if jp*PANEL + jj < N");
}

TG_KERNEL(gemm_plain, M, N, K, lda, ldb, ldc) {
  const tg_gemm_problem *p = tg_user;
  if (p->panel && !p->bits) product_of_panels(tg_b_, p);
  else tg_gemm_product(tg_b_, p);
}

const tg_gemm_sketch tg_gemm_plain = {.kernel = &gemm_plain, .takes = takes, .propose = tg_gemm_propose_plain};
