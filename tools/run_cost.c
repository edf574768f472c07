/* SPDX-License-Identifier: MIT
 * tg run --time --cost: where the time goes as the cost model sees it, beside what was measured. */
#include <stdio.h>
#include "compile/price.h"
#include "tool.h"

typedef struct {
  tg_compilation work;
  const tool_cost *asked;
  tg_context *context;
  tg_cost cost;
} pricing;

static void price(void *arg) {
  pricing *p = arg;
  tg_job *j = p->work.job;
  tg_kernel_source_check(j, p->work.source);
  tg_kernel_source_read(j, p->work.source);
  fputs(tg_cost_text(j, p->context, p->work.source, NULL, p->asked->threads, &p->cost), stdout);
}

static tg_status price_source(void *user, const tg_kernel_source *s, bool tuned, const char *near_miss) {
  pricing *p = user;
  (void)tuned, (void)near_miss;
  p->work = (tg_compilation){.context = p->context, .source = s};
  return tg_compilation_run(&p->work, price, p);
}

int tool_run_cost(tg_context *c, const tool_cost *asked) {
  pricing p = {.asked = asked, .context = c};
  tg_kernel_source s = {.file = asked->file, .text = asked->program->text, .options = &asked->program->options};
  if (tg_with_choice(c, &s, NULL, 0, price_source, &p)) {
    fprintf(stderr, "%s\n", tg_error_message(c));
    return TOOL_WRONG;
  }
  double hertz = p.cost.seconds > 0 ? p.cost.cycles / p.cost.seconds : 0;
  printf("%-16s %12.4g us\n", "the model", p.cost.seconds * 1e6);
  if (hertz > 0)
    printf("%-16s %12.4g us\n%-16s %12.4g us\n", "  the core alone", p.cost.core / hertz * 1e6, "  memory alone",
           p.cost.memory / hertz * 1e6);
  printf("%-16s %12.4g us, %.3g times the model's\n", "measured", asked->seconds * 1e6,
         asked->seconds / p.cost.seconds);
  return TOOL_OK;
}
