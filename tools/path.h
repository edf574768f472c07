/* SPDX-License-Identifier: MIT
 * The path from a program to code, step by step, for the commands that look at the steps themselves. */
#ifndef TG_PATH_H
#define TG_PATH_H
#include "dsl/text.h"
#include "generator/generator.h"
#include "compile/pipeline.h"
#include "tg/dsl.h"

typedef struct tool_path {
  tg_target target;
  tg_jit *jit;
  tg_job tables;                /* owns the rules */
  const tg_rules *rules;
  tg_blocks blocks;             /* of the jobs before */
  tg_job job;                   /* the program at hand */
} tool_path;

/* One program of a corpus, or a kernel in C. */
typedef struct {
  const char *file, *text, *kernel;
  const tg_kernel_def *def;
  const tg_binding *bindings;
  uint32_t bindings_n;
  bool unpriced;                /* the first choice is by rules alone: no candidates are lowered and priced */
} tool_source;

bool path_open(tool_path *p, const char *target);   /* says on stderr why not */
void path_close(tool_path *p);
/* Author to linear form in p->job (the caller drops it); false with p->job.env.message. */
bool path_lower(tool_path *p, const tool_source *s);
#endif
