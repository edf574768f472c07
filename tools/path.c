/* SPDX-License-Identifier: MIT
 * The path from a program to code, step by step. */
#include <stdio.h>
#include <string.h>
#include "path.h"
#include "choose/heuristic.h"
#include "compile/price.h"

static void compile_rules(void *user) {
  tool_path *p = user;
  p->rules = tg_rules_compile(&p->tables.env);
}

bool path_open(tool_path *p, const char *target) {
  memset(p, 0, sizeof *p);
  tg_job_init(&p->tables, NULL);
  tg_blocks_init(&p->blocks, NULL);
  if (!tg_target_named(&p->target, target)) {
    fprintf(stderr, "tg: no target is named '%s'\n", target);
    return false;
  }
  tg_allocator a = tg_allocator_default();
  if (!tg_protect(&p->tables.env, compile_rules, p) || tg_jit_open(&p->jit, &a, &p->target, 0, &p->tables.env)) {
    fprintf(stderr, "tg: %s\n", p->tables.env.message);
    return false;
  }
  return true;
}

void path_close(tool_path *p) {
  if (p->jit) tg_jit_close(p->jit);
  tg_job_drop(&p->tables);
  tg_blocks_drop(&p->blocks);
}

typedef struct { tool_path *p; const tool_source *s; } step;

static void lower(void *user) {
  tool_path *p = ((step *)user)->p;
  const tool_source *s = ((step *)user)->s;
  tg_job *j = &p->job;
  if (s->def) tg_author(j, s->def, s->bindings_n, s->bindings, NULL);
  else tg_parse_kernel(j, s->file, s->text, s->bindings_n, s->bindings);
  tg_lowering l = {.target = tg_jit_target(p->jit), .rules = p->rules, .price = s->unpriced ? NULL : tg_price_raised};
  j->sink = tg_lower(j, &l, "raise", NULL, NULL);
  if (!j->opts.n) tg_heuristic(j, &l, j->sink);
  j->sink = tg_lower(j, &l, NULL, NULL, NULL);
}

bool path_lower(tool_path *p, const tool_source *s) {
  step st = {p, s};
  tg_job_init(&p->job, NULL);
  p->job.env.blocks = &p->blocks;
  return tg_protect(&p->job.env, lower, &st);
}
