/* SPDX-License-Identifier: MIT
 * tg trace: a kernel's way through the pipeline as one page of HTML, which needs no network. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "api/api.h"
#include "trace.h"
#include "tune_plot.h"

static const char usage[] =
    "tg trace FILE.tg [name=value ...] -o FILE.html [--kernel NAME] [--opt 'split j 16 as jo jl' ...] [--target NAME] "
    "[--tuned DIR] [--seconds N] [--threads N] [--journal FILE]\n"
    "\n"
    "Writes one page of HTML, under 2 MB, that a browser opens without a network: each stage beside the one before, "
    "with the lines that\n"
    "the pass changed and the rules that fired in it; the schedule as nested tiles; where the time goes by the cost "
    "model, line by line,\n"
    "beside the time measured; how each access moves through memory; and the machine code, by lines of the kernel. "
    "FILE "
    "may be a C file:\n"
    "tg show --help\n"
    "\n"
    "  -o FILE    the page\n"
    "  --seconds  how long it is measured, 0.2 if not given; below 0: not at all. It is not measured for another "
    "--target, nor\n"
    "             while a parameter has a range\n"
    "  --threads  that run it: 1; -1 for all cores\n"
    "  --journal  what tg tune --journal has written: its candidates over time\n"
    "  --opt, --tuned, --kernel: as in tg show\n"
    "Long texts are cut on the page, and tg show --stage prints them whole.\n";

/* ---- what the page is of ---- */

static void take_stage(void *user, const char *name, const char *text) {
  trace *t = user;
  if (t->n == TRACE_STAGES) return;
  trace_stage *s = &t->stage[t->n];
  const char *rules = strstr(text, "\n}\n// ");   /* behind the end of the program, one line each */
  size_t n = rules ? (size_t)(rules - text) + 3 : strlen(text);
  *s = (trace_stage){.name = strdup(name), .text = strndup(text, n), .rules = strdup(text + n)};
  if (s->name && s->text && s->rules) t->n++;
  else free(s->name), free(s->text), free(s->rules);
}

static void take_located(void *user, const char *name, const char *text) {
  trace *t = user;
  if (!strcmp(name, "asm")) free(t->located), t->located = strdup(text);
}

static void complain(void *user, const char *message) {
  (void)user;
  fprintf(stderr, "tg: %s\n", message);
}

static void drop(trace *t) {
  for (int i = 0; i < t->n; i++) free(t->stage[i].name), free(t->stage[i].text), free(t->stage[i].rules);
  free(t->cost), free(t->located);
}

const trace_stage *trace_find(const trace *t, const char *stage) {
  for (int i = 0; i < t->n; i++)
    if (!strcmp(t->stage[i].name, stage)) return &t->stage[i];
  return NULL;
}

static bool open_range(const tool_args *a) {
  for (int i = 0; i < a->bindings; i++)
    if (a->binding[i].most != a->binding[i].value) return true;
  return false;
}

/* ---- the page ---- */

static int put_page(FILE *to, const trace *t) {
  int result = TOOL_OK;
  trace_head(to, t);
  trace_stages(to, t);
  trace_tiles(to, t);
  trace_cost(to, t);
  trace_accesses(to, t);
  trace_code(to, t);
  if (t->args->journal) {
    fputs("<section id=\"search\"><h2>Candidates of the search</h2>\n<div class=\"wide\" tabindex=\"0\">\n", to);
    result = tune_plot(to, t->args->journal, true);
    fputs("</div></section>\n", to);
  }
  trace_foot(to);
  return result;
}

/* Into memory first: a page that fails half-way leaves the file as it was. */
static int write_page(const trace *t) {
  char *page = NULL;
  size_t bytes = 0;
  FILE *memory = open_memstream(&page, &bytes);
  if (!memory) return fprintf(stderr, "tg trace: no memory\n"), TOOL_BROKEN;
  int result = put_page(memory, t);
  if (fclose(memory)) result = TOOL_BROKEN;
  FILE *f = result == TOOL_OK ? fopen(t->args->object, "wb") : NULL;
  if (result == TOOL_OK) {
    bool wrong = !f || fwrite(page, 1, bytes, f) != bytes;
    int error = errno;
    if (f && fclose(f) && !wrong) wrong = true, error = errno;
    if (wrong) fprintf(stderr, "tg trace: %s: %s\n", t->args->object, strerror(error));
    result = wrong ? TOOL_WRONG : TOOL_OK;
  }
  if (result == TOOL_OK) printf("%s: %zu bytes\n", t->args->object, bytes);
  free(page);
  return result;
}

/* The assembly once more, with line tables: these are not in what runs. */
static void locate(const tg_context_options *as, tool_program *p, trace *t) {
  tg_context_options o = *as;
  tg_context *c = NULL;
  o.flags |= TG_CONTEXT_DEBUG, o.log = NULL;
  if (!tg_context_create(&o, &c)) tg_show_text(c, t->args->file, p->text, &p->options, "asm", take_located, t);
  tg_context_free(c);
  t->text = tool_is_c_file(t->args->file) ? NULL : p->text;
}

static int look(tg_context *c, const tg_context_options *as, tool_program *p, trace *t) {
  const tool_args *a = t->args;
  t->target = tg_target_asked(c, &p->options);
  p->options.flags |= TG_COMPILE_SHOW_RULES;
  tg_status st = tg_show_text(c, a->file, p->text, &p->options, NULL, take_stage, t);
  if (st) {
    fprintf(stderr, "%s\n", tg_error_message(c));
    return st == TG_INTERNAL ? TOOL_BROKEN : TOOL_WRONG;
  }
  p->options.flags &= ~(unsigned)TG_COMPILE_SHOW_RULES;
  locate(as, p, t);
  /* the model is of CPUs: for another target the page has no cost, and says so */
  if (!tg_target_is_device(t->target))
    t->cost = tool_cost_report(c, &(tool_cost){.file = a->file, .program = p, .threads = tool_threads(a)}, &t->model);
  if (!a->target && a->seconds >= 0 && !open_range(a)) t->seconds = tool_time(a, p, c);
  return write_page(t);
}

int cmd_trace(int argc, char **argv) {
  tool_args a;
  if (!tool_parse(argc, argv, &a, usage)) return TOOL_USAGE;
  if (a.help) return fputs(usage, stdout), TOOL_OK;
  if (!a.file) return tool_missing("tg trace", "a kernel (FILE.tg)");
  if (!a.object) return tool_missing("tg trace", "where the page goes (-o FILE.html)");
  if (a.seconds == 0) a.seconds = 0.2;
  tool_program p;
  if (!tool_load(&a, &p)) return TOOL_WRONG;
  tg_context_options co = {.target = a.target, .tuned = a.tuned, .log = complain};
  tg_context *c = NULL;
  trace t = {.args = &a};
  int result;
  if (tg_context_create(&co, &c)) {
    fprintf(stderr, "tg: %s\n", c ? tg_error_message(c) : "out of memory");
    result = TOOL_USAGE;
  } else result = look(c, &co, &p, &t);
  drop(&t);
  tg_context_free(c);
  tool_unload(&p);
  return result;
}
