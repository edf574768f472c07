/* SPDX-License-Identifier: MIT
 * Prices a kernel without compiling it: all passes, then the cost model. */
#include "compile/price.h"
#include <math.h>
#include "compile/compile.h"
#include "compile/pipeline.h"
#include "dsl/text.h"
#include "model/device.h"

static tg_price price_of(tg_job *j, tg_context *c, const tg_kernel_source *s, const int64_t *params,
                         uint32_t threads) {
  const tg_uop *linear = tg_run_passes(j, c, s, NULL, NULL, NULL);
  return (tg_price){.cost = tg_cost_of(j, tg_target_asked(c, s->options), linear, params, (int)threads),
                    .hash = tg_structural_hash(j, linear)};
}

void tg_compiler_price(tg_job *j, tg_context *c, const tg_kernel_source *s, const tg_launches *launches,
                       double *seconds) {
  const tg_uop *linear = tg_run_passes(j, c, s, NULL, NULL, NULL);
  const tg_target *t = tg_target_asked(c, s->options);
  if (launches->words) *launches->words = 0;
  for (uint32_t i = 0; launches->words && i < j->opts.n; i++)
    *launches->words = tg_hash(j->opts.data[i].text, strlen(j->opts.data[i].text), *launches->words);
  for (uint32_t i = 0; i < launches->n; i++) {
    tg_target part = *t;
    double others = launches->at_once && launches->at_once[i] > 1 ? launches->at_once[i] : 1,
           all = fmax(t->machine.memory_bandwidth, t->machine.memory_bandwidth_all);
    part.machine.memory_bandwidth = fmin(t->machine.memory_bandwidth, all / others);
    if (others > 1) part.machine.memory_bandwidth_all = part.machine.memory_bandwidth;
    seconds[i] = tg_cost_of(j, &part, linear, launches->params[i], (int)launches->threads).seconds;
  }
}

const char *tg_cost_text(tg_job *j, tg_context *c, const tg_kernel_source *s, const int64_t *params, uint32_t threads,
                         tg_cost *cost) {
  const tg_target *t = tg_target_asked(c, s->options);
  if (tg_target_is_source(t)) tg_fail(&j->env, TG_EINVAL, "error: there is no cost of programs for %s", t->name);
  const tg_uop *linear = tg_run_passes(j, c, s, NULL, NULL, NULL);
  if (tg_target_is_device(t)) {
    if (cost) *cost = (tg_cost){.seconds = tg_device_cost_of(j, t, linear, params).seconds};
    return tg_device_cost_report(j, t, linear, params);
  }
  if (cost) *cost = tg_cost_of(j, t, linear, params, (int)threads);
  return tg_cost_report(j, t, linear, params, (int)threads);
}

/* out: on the context's target; seconds: on the n others */
typedef struct {
  tg_compilation work;
  const int64_t *params;
  uint32_t threads, n;
  tg_price *out;
  const tg_target *const *targets;
  double *seconds;
} pricing;

static void price(void *arg) {
  pricing *p = arg;
  tg_job *j = p->work.job;
  tg_kernel_source_check(j, p->work.source);
  tg_kernel_source_read(j, p->work.source);
  if (p->out) *p->out = price_of(j, p->work.context, p->work.source, p->params, p->threads);
  if (!p->n) return;
  const tg_uop *linear = tg_run_passes(j, p->work.context, p->work.source, NULL, NULL, NULL);
  for (uint32_t i = 0; i < p->n; i++)
    p->seconds[i] = tg_cost_of(j, p->targets[i], linear, p->params, (int)p->threads).seconds;
}

void tg_price_raised(tg_job *j, const tg_lowering *l, const tg_uop *raised, uint32_t n, const int64_t *const *params,
                     double *seconds) {
  tg_lowering how = {.target = l->target, .rules = l->rules, .formed = l->formed};
  j->sink = raised;
  j->stage = "raise";
  const tg_uop *linear = tg_lower(j, &how, NULL, NULL, NULL);
  for (uint32_t i = 0; i < n; i++)
    seconds[i] = tg_cost_of(j, l->target, linear, params[i], (int)l->target->threads).seconds;
}

tg_status tg_price_of(tg_context *c, const tg_kernel_source *s, const int64_t *params, uint32_t threads,
                      tg_price *out) {
  pricing p = {.work = {.context = c, .source = s}, .params = params, .threads = threads, .out = out};
  return tg_compilation_run(&p.work, price, &p);
}

tg_status tg_price_on(tg_context *c, const tg_kernel_source *s, const int64_t *params, uint32_t threads,
                      const tg_target *const *targets, uint32_t n, double *seconds) {
  pricing p = {.work = {.context = c, .source = s}, .params = params, .threads = threads, .targets = targets, .n = n,
               .seconds = seconds};
  return tg_compilation_run(&p.work, price, &p);
}
