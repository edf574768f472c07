/* SPDX-License-Identifier: MIT
 * tg run --time --cost, --counters: where the time goes as the cost model sees it, beside what was measured. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "compile/price.h"
#include "counters.h"
#include "tool.h"

typedef struct {
  tg_compilation work;
  const tool_cost *asked;
  tg_context *context;
  tg_cost cost;
  char *kept;                  /* the report, for tool_cost_report */
} pricing;

static void price(void *arg) {
  pricing *p = arg;
  tg_job *j = p->work.job;
  tg_kernel_source_check(j, p->work.source);
  tg_kernel_source_read(j, p->work.source);
  const char *text = tg_cost_text(j, p->context, p->work.source, NULL, p->asked->threads, &p->cost);
  if (p->asked->report) fputs(text, stdout);
  else p->kept = strdup(text);
}

static tg_status price_source(void *user, const tg_kernel_source *s, bool tuned, const char *near_miss) {
  pricing *p = user;
  (void)tuned, (void)near_miss;
  p->work = (tg_compilation){.context = p->context, .source = s};
  return tg_compilation_run(&p->work, price, p);
}

/* What the model says of an event; below 0: nothing. */
static double by_model(const pricing *p, uint32_t event) {
  switch (event) {
  case COUNT_CYCLES: return p->cost.cycles;
  case COUNT_L1_MISSES: return p->cost.l2_bytes / TG_CACHE_LINE;
  case COUNT_LLC_MISSES: return p->cost.memory_bytes / TG_CACHE_LINE;
  default: return -1;
  }
}

/* A line an event. */
static void put_counters(const pricing *p) {
  const counters *c = p->asked->counted;
  double launches = p->asked->launches, cycles = c->at[COUNT_CYCLES].counted ? c->at[COUNT_CYCLES].value : 0;
  printf("%-18s %12s %12s\n", "counted", "a launch", "the model");
  for (uint32_t e = 0; e < COUNTERS; e++) {
    const counter *at = &c->at[e];
    double model = by_model(p, e);
    printf("%-18s ", counter_name(e));
    if (at->counted) printf("%12.4g ", at->value / launches);
    else printf("%12s ", "-");
    if (model >= 0) printf("%12.4g", model);
    else printf("%12s", "-");
    if (!at->counted) printf("  not counted: %s", at->why);
    else if (e == COUNT_INSTRUCTIONS && cycles > 0) printf("  %.3g a cycle", at->value / cycles);
    if (at->counted && at->part < 1) printf("  scaled: counted in %.3g%% of the time", at->part * 100);
    putchar('\n');
  }
}

char *tool_cost_report(tg_context *c, const tool_cost *asked, double *seconds) {
  pricing p = {.asked = asked, .context = c};
  tg_kernel_source s = {.file = asked->file, .text = asked->program->text, .options = &asked->program->options};
  bool wrong = tg_with_choice(c, &s, NULL, 0, price_source, &p) != TG_OK;
  if (wrong) free(p.kept), p.kept = NULL;
  *seconds = p.cost.seconds;
  return p.kept;
}

int tool_run_cost(tg_context *c, const tool_cost *asked) {
  pricing p = {.asked = asked, .context = c};
  tg_kernel_source s = {.file = asked->file, .text = asked->program->text, .options = &asked->program->options};
  if (tg_with_choice(c, &s, NULL, 0, price_source, &p)) {
    fprintf(stderr, "%s\n", tg_error_message(c));
    return free(p.kept), TOOL_WRONG;
  }
  free(p.kept);
  double hertz = p.cost.seconds > 0 ? p.cost.cycles / p.cost.seconds : 0;
  printf("%-16s %12.4g us\n", "the model", p.cost.seconds * 1e6);
  if (hertz > 0)
    printf("%-16s %12.4g us\n%-16s %12.4g us\n", "  the core alone", p.cost.core / hertz * 1e6, "  memory alone",
           p.cost.memory / hertz * 1e6);
  printf("%-16s %12.4g us, %.3g times the model's\n", "measured", asked->seconds * 1e6,
         asked->seconds / p.cost.seconds);
  if (asked->counted) put_counters(&p);
  return TOOL_OK;
}
