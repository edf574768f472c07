/* SPDX-License-Identifier: MIT
 * The choice of a kernel by price: each sketch as the first choice would have it, priced by the cost model. */
#include <stdio.h>
#include "gemm/plan.h"
#include "gemm/sketch.h"
#include "kit/choose.h"

/* Does the sketch have its vectors along the dimension that its large operand has contiguous? The other one would
 * gather, or transpose a few terms at a time. */
static bool suits(const tg_gemm_problem *p, const tg_gemm_sketch *s) {
  enum { THIN = 160 };   /* most rows of a thin operand */
  tg_gemm_roles o = tg_gemm_thin_roles_of(p);
  int64_t least = p->m.hi < p->n.hi ? p->m.hi : p->n.hi;
  if (s == &tg_gemm_stream) return least <= THIN && (!o.column_k || o.scattered);
  return s != &tg_gemm_dot || (least <= THIN && o.column_k);
}

/* Knobs that the choice by price may change: the tile, its unrolling, the blocks. */
static const int64_t few[] = {1, 2, 3, 4, 6, 8, 0}, powers[] = {1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 0};
static const tg_kit_axis axes[] = {
    {"MR", tg_gemm_mr}, {"NU", few}, {"NC", few}, {"UK", powers}, {"KC", powers}};

/* What a problem may be computed with, at most TG_KIT_CANDIDATES: first what tg_gemm_choose says for one thread, then
 * what it would say if it had to be each of the other sketches. Returns their number. */
static uint32_t candidates_of(const tg_gemm_problem *p, const tg_target *t, tg_kit_choice *out) {
  uint32_t n = 0;
  tg_gemm_choose(p, t, 1, &out[n++]);
  for (uint32_t i = 0; tg_gemm_sketches[i] && n < TG_KIT_CANDIDATES; i++) {
    const tg_gemm_sketch *s = tg_gemm_sketches[i];
    if ((!s->cycles && s != &tg_gemm_plain) || !suits(p, s)) continue;
    tg_gemm_choose_knobs(p, t, 1, s, &out[n]);
    n += !tg_kit_same_choice(&out[0], &out[n]);
  }
  return n;
}

/* ---- the question ---- */

enum { KEY = 512 };

/* Which of the candidates computes the problem fastest, as text. */
static void put_question(const tg_gemm *g, const tg_gemm_problem *whole, const tg_gemm_problem *q, char out[KEY]) {
  uint64_t epilogue = q->epilogue ? tg_hash(q->epilogue, strlen(q->epilogue), 0) : 0;
  for (uint32_t i = 0; i < q->arguments_n; i++)
    epilogue = tg_mix(epilogue, (uint64_t)q->argument[i].type << 8 | q->argument[i].per);
  snprintf(out, KEY,
           "gemm %d %d %d %d majors %d %d %d size %lld %lld %lld of %lld %lld ld %lld %lld %lld alpha %d flush %d "
           "beta %d epilogue %016llx",
           (int)q->a, (int)q->b, (int)q->c, (int)q->acc, q->a_major, q->b_major, q->c_major, (long long)q->m.lo,
           (long long)q->n.lo, (long long)q->k.lo, (long long)whole->m.hi, (long long)whole->n.hi,
           (long long)g->ld[0].lo, (long long)g->ld[1].lo, (long long)g->ld[2].lo, q->alpha, q->flush, q->beta,
           (unsigned long long)epilogue);
}

/* On the heap: threads of callers may have small stacks. */
typedef struct {
  tg_kit_choice choice[TG_KIT_CANDIDATES];
  tg_gemm_def def[TG_KIT_CANDIDATES];
  tg_kit_candidate candidate[TG_KIT_CANDIDATES];
  tg_binding binding[GEMM_VALUES];
  int64_t params[GEMM_VALUES];
  char key[KEY];
} choosing;

static void choose(choosing *r, const tg_gemm *g, const tg_gemm_problem *whole, const tg_gemm_problem *q,
                   tg_kit_choice *out) {
  enum { PRICES = 24 };
  tg_context *c = g->plan.context;
  uint32_t n = candidates_of(q, &c->target, r->choice), bindings = tg_gemm_bind(g, q, r->binding);
  for (uint32_t i = 0; i < n; i++) {
    tg_gemm_kernel_of(q, r->choice[i].sketch, &r->def[i]);
    r->candidate[i] = (tg_kit_candidate){&r->def[i].def, r->choice[i]};
  }
  tg_gemm_params(q, (int64_t[]){whole->m.hi, whole->n.hi, whole->k.hi}, r->binding, bindings, r->params);
  put_question(g, whole, q, r->key);
  const tg_kit_question question = {.key = r->key,
                                    .candidate = r->candidate,
                                    .candidates_n = n,
                                    .axis = axes,
                                    .axes_n = TG_COUNT(axes),
                                    .prices = PRICES,
                                    .binding = r->binding,
                                    .bindings_n = bindings,
                                    .params = r->params,
                                    .user = (void *)(uintptr_t)q,
                                    .threads = 1,
                                    .kept_only = g->flags & TG_GEMM_NO_COMPILE};
  tg_kit_choose(c, &question, out);
}

void tg_gemm_choose_kernel(const tg_gemm *g, const tg_gemm_problem *whole, const tg_gemm_problem *q, uint32_t threads,
                           tg_kit_choice *out) {
  const tg_allocator *a = &g->plan.context->env.allocator;
  choosing *r = threads == 1 && tg_gemm_is_estimated(q) ? a->alloc(a->user, sizeof *r) : NULL;
  if (r) choose(r, g, whole, q, out);
  else tg_gemm_choose(q, &g->plan.context->target, threads, out);
  if (r) a->free(a->user, r, sizeof *r);
}
