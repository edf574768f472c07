/* SPDX-License-Identifier: MIT
 * The parts of the page that tg trace writes. Each writes HTML to a stream; texts of kernels go through trace_text. */
#ifndef TG_TRACE_H
#define TG_TRACE_H
#include <stdio.h>
#include "target/target.h"
#include "tool.h"

enum { TRACE_STAGES = 32, TRACE_SHOWN = 60000 /* bytes of one stage on the page */ };

/* A stage's text without the comments about rules, which stand apart. */
typedef struct { char *name, *text, *rules; } trace_stage;

typedef struct {
  trace_stage stage[TRACE_STAGES];
  int n;
  const char *text;            /* the kernel, if positions are lines of it; NULL: they are of another file */
  char *located;               /* assembly with the lines that instructions come from; NULL: the target has none */
  char *cost;                  /* the report of the cost model; NULL: it has none for this target */
  const tool_args *args;
  const tg_target *target;
  double seconds, model;       /* measured, 0: not; the model's, on as many threads */
} trace;

/* n bytes, with what HTML would read as its own written as entities. */
void trace_text(FILE *to, const char *text, size_t n);
const trace_stage *trace_find(const trace *t, const char *stage);   /* or NULL */

void trace_head(FILE *to, const trace *t);
void trace_stages(FILE *to, const trace *t);
void trace_cost(FILE *to, const trace *t);
void trace_code(FILE *to, const trace *t);
void trace_tiles(FILE *to, const trace *t);
void trace_accesses(FILE *to, const trace *t);
void trace_foot(FILE *to);
#endif
