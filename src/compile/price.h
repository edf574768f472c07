/* SPDX-License-Identifier: MIT
 * What a kernel would cost under a schedule: lowered and priced by the model, and not compiled. */
#ifndef TG_PRICE_H
#define TG_PRICE_H
#include "api/api.h"
#include "model/cost.h"

typedef struct tg_price {
  tg_cost cost;
  uint64_t hash;               /* of the lowered program: two points with the same hash have the same code */
} tg_price;

/* params: values of the launch by ordinal, NULL: at their maximum. threads: that share the work. Errors as of a
 * compile. */
tg_status tg_price_of(tg_context *c, const tg_kernel_source *s, const int64_t *params, uint32_t threads, tg_price *out);
/* Seconds on each of n targets that have other numbers than the context's: the program is lowered once, for that. */
tg_status tg_price_on(tg_context *c, const tg_kernel_source *s, const int64_t *params, uint32_t threads,
                      const tg_target *const *targets, uint32_t n, double *seconds);
/* The report of tg_cost_report for the job's kernel, as written so far; cost: what it sums up to; may be NULL. Runs
 * inside tg_protect(&j->env, ..). */
const char *tg_cost_text(tg_job *j, tg_context *c, const tg_kernel_source *s, const int64_t *params, uint32_t threads,
                         tg_cost *cost);
/* tg_lowering.price, for all threads of the target. */
void tg_price_raised(tg_job *j, const tg_lowering *l, const tg_uop *raised, uint32_t n, const int64_t *const *params,
                     double *seconds);
/* The compiler's function of tg_compiler. */
void tg_compiler_price(tg_job *j, tg_context *c, const tg_kernel_source *s, const tg_launches *launches,
                       double *seconds);
#endif
