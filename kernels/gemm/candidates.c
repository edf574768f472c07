/* SPDX-License-Identifier: MIT
 * The choice of a kernel by price: what was proposed is lowered and priced by the cost model, and the least is
 * taken. */
#include <stdio.h>
#include "gemm/plan.h"
#include "gemm/sketch.h"
#include "kit/choose.h"

/* Knobs that the choice by price may change: the tile, its unrolling, the blocks. */
static const int64_t few[] = {1, 2, 3, 4, 6, 8, 0}, powers[] = {1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 0};
static const tg_kit_axis axes[] = {
    {"MR", tg_gemm_mr}, {"NU", few}, {"NC", few}, {"UK", powers}, {"KC", powers}};

/* ---- the question ---- */

enum { KEY = 640 };

/* Which of the candidates computes the problem fastest, as text: all that prices depend on. */
static void put_question(const tg_gemm *g, const tg_gemm_problem *whole, const tg_gemm_problem *q, uint32_t threads,
                         char out[KEY]) {
  const int64_t value[] = {q->a,      q->b,      q->c,       q->acc,     q->a_major,  q->b_major, q->c_major, q->a_step,
                           q->b_step, q->c_step, q->m.lo,    q->m.hi,    q->n.lo,     q->n.hi,    q->k.lo,    q->k.hi,
                           whole->m.lo, whole->m.hi, whole->n.lo, whole->n.hi, g->ld[0].lo, g->ld[1].lo, g->ld[2].lo,
                           q->alpha,  q->beta,   q->flush,   q->panel,   q->bits,     q->group,   q->scale,   q->zero,
                           q->group_major, q->batch.hi, threads};
  uint64_t epilogue = q->epilogue ? tg_hash(q->epilogue, strlen(q->epilogue), 0) : 0;
  for (uint32_t i = 0; i < q->arguments_n; i++)
    epilogue = tg_mix(epilogue, (uint64_t)q->argument[i].type << 8 | q->argument[i].per);
  int n = snprintf(out, KEY, "gemm %016llx", (unsigned long long)epilogue);
  for (uint32_t i = 0; i < TG_COUNT(value) && n < KEY; i++)
    n += snprintf(out + n, (size_t)(KEY - n), " %lld", (long long)value[i]);
}

/* On the heap: threads of callers may have small stacks. */
typedef struct {
  tg_gemm_points points;
  tg_gemm_def def[TG_KIT_CANDIDATES];
  tg_kit_candidate candidate[TG_KIT_CANDIDATES];
  tg_binding binding[GEMM_VALUES];
  int64_t params[GEMM_VALUES];
  char key[KEY];
} choosing;

static void choose(choosing *r, const tg_gemm *g, const tg_gemm_problem *whole, const tg_gemm_problem *q,
                   uint32_t threads, tg_kit_choice *out) {
  enum { PRICES = 8 };
  tg_context *c = g->plan.context;
  tg_gemm_propose(q, &c->target, threads, NULL, &r->points);
  uint32_t n = r->points.n, bindings = tg_gemm_bind(g, q, r->binding);
  for (uint32_t i = 0; i < n; i++) {
    tg_gemm_kernel_of(q, r->points.point[i].choice.sketch, &r->def[i]);
    r->candidate[i] = (tg_kit_candidate){&r->def[i].def, r->points.point[i].choice};
  }
  const int64_t size[] = {tg_gemm_middle(whole->m), tg_gemm_middle(whole->n), tg_gemm_middle(whole->k)};
  tg_gemm_params(q, size, r->binding, bindings, r->params);
  put_question(g, whole, q, threads, r->key);
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
                                    .threads = threads,
                                    .kept_only = g->flags & TG_GEMM_NO_COMPILE};
  tg_kit_choose(c, &question, out);
}

void tg_gemm_choose_kernel(const tg_gemm *g, const tg_gemm_problem *whole, const tg_gemm_problem *q, uint32_t threads,
                           tg_kit_choice *out) {
  const tg_allocator *a = &g->plan.context->env.allocator;
  choosing *r = a->alloc(a->user, sizeof *r);
  if (r) choose(r, g, whole, q, threads, out);
  else tg_gemm_choose(q, &g->plan.context->target, threads, out);
  if (r) a->free(a->user, r, sizeof *r);
}
