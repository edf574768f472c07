/* SPDX-License-Identifier: MIT
 * tg show: a kernel at any stage, in the notation that it was written in. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "tool.h"

static const char usage[] =
    "tg show FILE.tg [name=value ...] [--kernel NAME] [--stage STAGE] [--diff] [--rules] [--opt 'split j 16 as jo jl' "
    "...] [--pack BUFFER] [--target NAME] [--tuned DIR] [--cost]\n"
    "tg show --sketch NAME [M=.. N=.. K=..] [--types f32] [--transposes NT] [--target NAME]\n"
    "\n"
    "Prints the kernel after each pass, each as a program that parses again, behind a line == STAGE:\n"
    "  author, prove, raise, schedule, reduce, distribute, fma, expand, place, functions, types, coalesce, index, "
    "linear, llvm, asm, sass, object\n"
    "With --stage, that stage's text and nothing else, so that it can be redirected or piped: a .tg program, LLVM IR, "
    "what an assembler takes.\n"
    "sass is the machine code of a GPU: for sm_80 and its kin through ptxas and nvdisasm (or cuobjdump), where they "
    "are installed; for gfx1100 and its kin as asm.\n"
    "object is a summary of the object file, not the file. --stage cost, or --cost: where the time goes, as the cost "
    "model sees it.\n"
    "\n"
    "FILE may be a C file, and FILE:NAME names one of several kernels: tg show mine.c:matmul M=512 N=512 K=512. The "
    "text of TG_KERNEL is read,\n"
    "C in its body is not run: a name that tg_let takes from the program is given as NAME=VALUE.\n"
    "\n"
    "  --diff     only the lines that each pass changed\n"
    "  --rules    the rewrite rules that fired in each pass, with what they turned into what\n"
    "  --opt      words of a schedule, in order, instead of the heuristic's choice\n"
    "  --tuned    a folder of tuned choices, else $TG_TUNED, else tg/tuned in the user's data folder: with the one "
    "that tg tune found, if it is there; '' for none\n"
    "  --pack     the kernel that packs an operand which the schedule takes packed\n"
    "  --sketch   the text of a sketch of matrix products (kernels/gemm/sketches), as the first choice has it for "
    "these sizes (512): what a\n"
    "             kernel for tg tune gemm --with can start from; an unknown name lists them\n"
    "  name=value binds a parameter or a knob; a parameter left out keeps the range that the file gives it\n";

/* alone: of one stage, which needs no title; kept: nothing is printed, `before` is the text */
typedef struct { char *before; bool diff, alone, kept; } state;

/* Lines that are not in the other text, in order: enough to read a pass's work, with no claim to be minimal. */
static bool has_line(const char *text, const char *line, size_t n) {
  for (const char *p = text; p && *p; p = strchr(p, '\n'), p = p ? p + 1 : NULL)
    if (!strncmp(p, line, n) && (p[n] == '\n' || !p[n])) return true;
  return false;
}

static void print_missing(const char *from, const char *in, char sign) {
  for (const char *p = from; *p;) {
    size_t n = strcspn(p, "\n");
    if (n && !has_line(in, p, n)) printf("%c %.*s\n", sign, (int)n, p);
    p += n + (p[n] == '\n');
  }
}

static void show(void *user, const char *stage, const char *text) {
  state *s = user;
  if (s->kept) {
    free(s->before);
    s->before = strdup(text);
    return;
  }
  if (!s->alone) printf("== %s\n", stage);
  if (s->diff && s->before && strcmp(stage, "llvm") && strcmp(stage, "asm") && strcmp(stage, "object")) {
    print_missing(s->before, text, '-');
    print_missing(text, s->before, '+');
  } else fputs(text, stdout);
  size_t n = strlen(text) + 1;
  free(s->before);
  s->before = malloc(n);
  if (s->before) memcpy(s->before, text, n);
}

/* Does the stage's text take programs of NVIDIA's? -1: the target has no such stage, and stderr says so. */
static int by_others(const tool_args *a) {
  if (!a->stage || strcmp(a->stage, "sass")) return 0;
  if (a->target && !strncmp(a->target, "sm_", 3)) return 1;
  if (a->target && !strncmp(a->target, "gfx", 3)) return 0;   /* LLVM's disassembler, as for asm */
  fprintf(stderr,
          "tg show: --stage sass is a GPU's machine code: with --target sm_80 or gfx1100; for %s see --stage asm\n",
          a->target ? a->target : "the host");
  return -1;
}

static void complain(void *user, const char *message) {
  (void)user;
  fprintf(stderr, "tg: %s\n", message);
}

/* Is the stage one behind all passes? */
static bool is_compiled(const char *stage) {
  return stage && (!strcmp(stage, "asm") || !strcmp(stage, "object"));
}

int cmd_show(int argc, char **argv) {
  tool_args a;
  if (!tool_parse(argc, argv, &a, usage)) return TOOL_USAGE;
  if (a.sketch && !a.help) return tool_show_sketch(&a);
  if (a.help) return fputs(usage, stdout), TOOL_OK;
  if (!a.file) return tool_missing("tg show", "a kernel (FILE.tg)");
  if (a.cost) a.stage = "cost";
  int sass = by_others(&a);
  if (sass < 0) return TOOL_USAGE;
  if (a.stage && !strcmp(a.stage, "sass")) a.stage = "asm";
  tool_program p;
  if (!tool_load(&a, &p)) return TOOL_WRONG;
  /* passes are checked where they are shown; what they are compiled to is made as the library makes it */
  tg_context_options co = {.target = a.target,
                           .tuned = a.tuned,
                           .flags = is_compiled(a.stage) ? 0 : TG_CONTEXT_VERIFY,
                           .log = complain};
  tg_context *ctx = NULL;
  int result = TOOL_OK;
  if (tg_context_create(&co, &ctx)) {
    result = TOOL_USAGE;
  } else {
    state s = {.diff = a.diff, .alone = a.stage != NULL, .kept = sass};
    p.options.flags |= a.rules ? TG_COMPILE_SHOW_RULES : 0;
    tg_status st = tg_show_text(ctx, a.file, p.text, &p.options, a.stage, show, &s);
    if (!st && sass && s.before) result = tool_sass(a.target, s.before);
    free(s.before);
    if (st) {
      fprintf(stderr, "%s\n", tg_error_message(ctx));
      result = st == TG_INTERNAL ? TOOL_BROKEN : TOOL_WRONG;
    }
  }
  tg_context_free(ctx);
  tool_unload(&p);
  return result;
}
