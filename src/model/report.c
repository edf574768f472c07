/* SPDX-License-Identifier: MIT
 * Where the time goes, as the cost model sees it, line by line. */
#include <math.h>
#include "dsl/text.h"
#include "model/walk.h"

/* What keeps a loop's iteration: the largest of its parts. */
static const char *busiest(const tg_cost_walk *w, const tg_cost_line *l) {
  const tg_cost_ports *p = &l->ports;
  const struct { const char *name; double cycles; } part[] = {{"arithmetic", p->math},
                                                               {"loads", p->loads},
                                                               {"stores", p->stores},
                                                               {"shuffles", p->shuffles},
                                                               {"instructions", p->instructions / w->machine->issue},
                                                               {"latency", l->chain},
                                                               {"divisions", p->alone}};
  uint32_t most = 0;
  for (uint32_t i = 1; i < TG_COUNT(part); i++)
    if (part[i].cycles > part[most].cycles) most = i;
  return part[most].cycles > 0 ? part[most].name : "-";
}

static void put_loops(const tg_cost_walk *w, tg_str *out) {
  double runs[TG_COST_DEPTH + 2] = {1}, all = 0;
  for (uint32_t i = 0; i < w->lines->n; i++) {
    const tg_cost_line *l = &w->lines->data[i];
    uint32_t d = l->depth < TG_COST_DEPTH ? l->depth : TG_COST_DEPTH;
    runs[d] = (d ? runs[d - 1] : 1) * l->trips;
    all += runs[d] * l->cycles;
  }
  tg_str_printf(out, "%-28s %10s %9s %6s %6s %6s %6s %6s %6s %6s %6s  %s\n", "loop", "runs", "cycles", "part", "arith",
                "loads", "stores", "shuff", "instr", "chain", "spills", "busiest");
  for (uint32_t i = 0; i < w->lines->n; i++) {
    const tg_cost_line *l = &w->lines->data[i];
    uint32_t d = l->depth < TG_COST_DEPTH ? l->depth : TG_COST_DEPTH;
    runs[d] = (d ? runs[d - 1] : 1) * l->trips;
    const char *name = l->range ? tg_text(w->j, l->range) : "(all)";
    tg_str_printf(out, "%*s%-*s %10.0f %9.1f %5.1f%% %6.1f %6.1f %6.1f %6.1f %6.0f %6.1f %6.1f  %s\n", (int)d, "",
                  28 - (int)d, name, runs[d], l->cycles, all > 0 ? 100 * runs[d] * l->cycles / all : 0, l->ports.math,
                  l->ports.loads, l->ports.stores, l->ports.shuffles, l->ports.instructions, l->chain, l->spilled,
                  busiest(w, l));
  }
}

static void put_accesses(const tg_cost_walk *w, tg_str *out) {
  tg_str_printf(out, "%-28s %10s %10s %10s\n", "access", "from L2", "from L3", "memory");
  for (uint32_t i = 0; i < w->loops->access.n; i++) {
    const tg_cost_access_info *a = &w->loops->access.data[i];
    const tg_uop *define = tg_define_of(a->access->src[0]);
    tg_str_printf(out, "%-5s %-22s %8.0f K %8.0f K %8.0f K\n", a->access->op == TG_OP_STORE ? "store" : "load",
                  tg_buffer_info(w->j, define)->name, a->missed[0] / 1024, a->missed[1] / 1024, a->missed[2] / 1024);
  }
}

const char *tg_cost_report(tg_job *j, const tg_target *target, const tg_uop *linear, const int64_t *params,
                           int threads) {
  tg_cost_lines lines = {0};
  tg_cost_loops loops = {0};
  tg_cost_walk w = {.j = j, .target = target, .loops = &loops, .lines = &lines, .threads = threads};
  tg_cost c = tg_cost_walked(&w, linear, params);
  tg_str out = tg_str_new(&j->env);
  tg_str_printf(&out, "%.4g us on %s (%.0f MHz): core %.4g cycles, memory %.4g cycles, of which the longer counts, and "
                      "some of the other; waiting for memory %.4g cycles\n",
                c.seconds * 1e6, target->machine.name, target->machine.clock, c.core, c.memory, c.waits);
  put_loops(&w, &out);
  put_accesses(&w, &out);
  return out.data;
}
