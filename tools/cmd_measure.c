/* SPDX-License-Identifier: MIT
 * tg measure: what the operations, caches, memory and threads of this machine take, as a row of machines.def. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "measure/device.h"
#include "measure/measure.h"
#include "tool.h"

static const char usage[] =
    "tg measure [--seconds S] [--save] [--explain] [--tuned DIR]\n"
    "tg measure --device NAME [--seconds S] [--save] [--tuned DIR] [--cache DIR] [--json]\n"
    "\n"
    "Measures this machine in about S seconds (20), and prints it as a row of src/target/machines.def.\n"
    "  --device      a device, as tg devices lists them (opencl:0), instead: its memory, copies, launches and "
    "products; with --tuned by the\n"
    "                choices that tg tune --device left there. Of a GPU also the numbers that choices depend on, "
    "with the "
    "tree's\n"
    "  --explain     prints each column by itself, with its unit, what it is, and the value of the tree's row\n"
    "  --save        keeps the row where tuned choices are kept (--tuned, else $TG_TUNED, else tg/tuned in the user's "
    "data folder);\n"
    "                programs that open a context with that folder choose by it, on this processor, or this chip\n";

enum { PROBES = 130 };   /* shares of the time: a probe of the core takes one, one of memory a few */

/* ---- what the probes need ---- */

static size_t power_within(uint64_t bytes) {
  size_t p = 4096;
  while (2 * p <= bytes) p *= 2;
  return p;
}

/* Sizes that the caches hold, a part of each, as pages may share sets and other cores L3: a quarter of L2; of L3
 * what L2 does not hold and other cores leave. */
static void choose_sizes(measure *m) {
  const uint64_t most = 512u << 20, least = 64u << 20;
  uint64_t l2 = m->target.l2 ? m->target.l2 : 512u << 10, l3 = m->target.l3 ? m->target.l3 : 8 * l2;
  uint64_t some = l3 / 4 < 8 * l2 ? l3 / 4 : 8 * l2, all = 4 * l3;
  if (some < 4 * l2) some = 4 * l2 < l3 / 2 ? 4 * l2 : l3 / 2;
  m->l2_bytes = power_within(l2 / 4);
  m->l3_bytes = power_within(some);
  m->memory_bytes = power_within(all < least ? least : 2 * all - 1 < most ? 2 * all - 1 : most);
}

static void find_widths(measure *m) {
  static const char *const levels[] = {"x86-64-v3", "x86-64-v3", "x86-64-v4"};
  m->widest = TG_MACHINE_WIDTHS;
  for (uint32_t w = 0; m->target.arch == TG_ARCH_X86_64 && w < TG_MACHINE_WIDTHS; w++) {
    tg_target t;
    if (!tg_target_row(&t, levels[w]) || (t.needs & ~m->target.needs)) continue;
    m->vectors[w] = true;
    m->widest = w;
  }
}

/* Floats, the offsets of a gather's lanes, and masks: where tools/measure/ports.c reads them. */
static void fill_l1(char *l1) {
  float *values = (float *)(void *)l1;
  int32_t *offsets = (int32_t *)(void *)(l1 + 12288), *masks = (int32_t *)(void *)(l1 + 12352);
  for (int i = 0; i < MEASURE_L1_BYTES / 4; i++) values[i] = 1 + (float)(i % 31) / 32;
  for (int i = 0; i < 16; i++) offsets[i] = 68 * i, masks[i] = i < 5 ? -1 : 0;
}

static void open_measure(measure *m, double seconds) {
  tg_target_host(&m->target, 0);
  tg_processor_read(&m->processor, false);
  m->rounds = seconds < 5 ? 1 : MEASURE_ROUNDS;
  m->probe = seconds / (PROBES * m->rounds);
  choose_sizes(m);
  find_widths(m);
  m->l1 = tool_pages(MEASURE_L1_BYTES);
  fill_l1(m->l1);
  m->memory = tool_pages(m->memory_bytes);
  m->row = m->target.machine;
  for (uint32_t i = 0; tg_machine_column_at(i); i++)
    for (uint32_t w = 0; w < tg_machine_column_at(i)->widths; w++)
      tg_machine_value(&m->row, tg_machine_column_at(i))[w] = NAN;
}

/* ---- what comes out ---- */

/* Rounds, and takes what was not measured from the row of the tree. */
static void finish(measure *m) {
  int missing = 0;
  for (uint32_t i = 0; tg_machine_column_at(i); i++) {
    const tg_machine_column *c = tg_machine_column_at(i);
    double *v = tg_machine_value(&m->row, c), *tree = tg_machine_value(&m->target.machine, c);
    bool whole = true;
    for (uint32_t w = 0; w < c->widths; w++) {
      if (isnan(v[w])) v[w] = tree[w], whole = false;
      else if (c->widths == 1 && !(v[w] > 0) && strncmp(c->name, "cross_", 6)) v[w] = tree[w];   /* lost in noise */
      else v[w] = tg_machine_round(v[w]);
    }
    if (!whole) printf("%s%s", missing++ ? ", " : "/* not measured, but from the row of the tree: ", c->name);
  }
  if (missing) puts(" */");
}

static void explain(const measure *m) {
  tg_machine row = m->row, tree = m->target.machine;
  printf("%-22s %-20s %-18s %s\n", "column", "measured (the tree's)", "unit", "what");
  for (uint32_t i = 0; tg_machine_column_at(i); i++) {
    const tg_machine_column *c = tg_machine_column_at(i);
    char text[96];
    int n = 0;
    for (uint32_t w = 0; w < c->widths; w++)
      n += snprintf(text + n, sizeof text - (size_t)n, "%s%g", w ? " " : "", tg_machine_value(&row, c)[w]);
    for (uint32_t w = 0; w < c->widths; w++)
      n += snprintf(text + n, sizeof text - (size_t)n, "%s%g", w ? " " : " (", tg_machine_value(&tree, c)[w]);
    printf("%-22s %s)%*s %-18s %s\n", c->name, text, 20 - n, "", c->unit, c->what);
  }
}

/* The row's name and processors: those of the tree's row if it is this processor's, else ones to be filled in. */
static void name_row(measure *m, char processors[64]) {
  const char *maker;
  uint32_t family, model;
  tg_processor_number(&m->processor, &maker, &family, &model);
  if (tg_machine_takes(&m->target.machine, maker, family, model)) return;
  snprintf(processors, 64, "%s %x %x", *maker ? maker : "unknown", family, model);
  snprintf(m->row.name, sizeof m->row.name, "unnamed");
  m->row.processors = processors;
}

static int save(measure *m, tg_env *env, const char *folder) {
  if (!folder) {
    fprintf(stderr, "tg: no folder to keep it in: --tuned, TG_TUNED and HOME are not set\n");
    return TOOL_USAGE;
  }
  int err = tg_machine_file_write(env, folder, &m->row, m->target.silicon);
  if (err) fprintf(stderr, "tg: %s/" TG_MACHINE_FILE ": %s\n", folder, strerror(err));
  else printf("/* kept as %s/" TG_MACHINE_FILE " */\n", folder);
  return err ? TOOL_BROKEN : TOOL_OK;
}

/* True: this round found something better than those before. */
static bool measure_core(measure *m) {
  m->probes = 0;
  m->better = false;
  if (m->widest == TG_MACHINE_WIDTHS) return false;
  measure_ports(m);
  measure_latencies(m);
  return m->better;
}

static void measure_all(measure *m) {
  bool better = false;
  for (uint32_t round = 0; round < m->rounds; round++) {
    better = measure_core(m);
    measure_memory(m);
    measure_threads(m);
  }
  for (uint32_t round = m->rounds; m->rounds > 1 && better && round < MEASURE_MOST_ROUNDS; round++)
    better = measure_core(m);
}

typedef struct { measure *m; const tool_args *a; tg_env *env; int code; } printing;

static void print_all(void *arg) {
  printing *p = arg;
  char folder[4096], processors[64];
  tg_str s = tg_str_new(p->env);
  name_row(p->m, processors);
  if (p->a->explain) explain(p->m);
  else tg_machine_print(&s, &p->m->row), fputs(s.data, stdout);
  if (p->a->save) p->code = save(p->m, p->env, tool_tuned(p->a, folder, sizeof folder));
}

int cmd_measure(int argc, char **argv) {
  tool_args a;
  tg_env env;
  if (!tool_parse(argc, argv, &a, usage)) return TOOL_USAGE;
  if (a.help) return fputs(usage, stdout), TOOL_OK;
  if (a.device && a.explain)
    return fprintf(stderr, "tg measure: --explain is of the CPU, not of a device\n"), TOOL_USAGE;
  if (a.device) return measure_device(&a, a.seconds > 0 ? a.seconds : 20);
  measure *m = calloc(1, sizeof *m);
  if (!m) return TOOL_BROKEN;
  open_measure(m, a.seconds > 0 ? a.seconds : 20);
  measure_all(m);
  finish(m);
  printing p = {m, &a, &env, TOOL_OK};
  tg_env_init(&env, NULL);
  if (!tg_protect(&env, print_all, &p)) fprintf(stderr, "tg: %s\n", env.message), p.code = TOOL_BROKEN;
  tg_env_drop(&env);
  free(m->memory), free(m->l1), free(m);
  return p.code;
}
