/* SPDX-License-Identifier: MIT
 * tg build: a kernel ahead of time, as an object file and a C header. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tg/build.h>
#include "build_shapes.h"
#include "tool.h"

static const char usage[] =
    "tg build FILE.tg [name=value ...] -o FILE.o --header FILE.h [--target NAME,NAME,..] [--kernel NAME] [--opt WORDS "
    "...] [--tuned DIR] [--threads N]\n"
    "tg build gemm --shapes FILE -o FILE.o --header FILE.h | tg build attention --shapes FILE -o FILE.o --header "
    "FILE.h\n"
    "\n"
    "Compiles the kernel into an object file with one function, and writes the header that declares it. A program "
    "links "
    "the object and needs no tg,\n"
    "no LLVM and no folder. The function checks its arguments as a launch does. FILE may be a C file (mine.c:matmul): "
    "tg "
    "show --help\n"
    "  name=value  a parameter or a knob; M=1..4096: a parameter that each call gives; M=8..4096%8: a multiple of 8. A "
    "parameter left out keeps\n"
    "              the range that the file gives it\n"
    "  --target    one or several of a family of processors (tg devices --rows lists them); the function takes the "
    "best "
    "that the processor it\n"
    "              runs on can run. Without: x86-64-v2,x86-64-v3,x86-64-v4, or armv8-a on such a machine. Devices' "
    "targets (sm_80, gfx1100,\n"
    "              opencl) beside them: the kernel for each, as data that tg_device_load takes\n"
    "  --threads   that will share the work, for the first choice (this machine's cores)\n"
    "  --opt       words of a schedule, in order, instead of the first choice\n"
    "  --shapes    plans: a function for each line of the file (docs/deploy.md), NAME M N K [NN|NT|TN|TT] "
    "[types=f32] [packed] ..;\n"
    "              of attention NAME queries=N keys=N head=N [heads=N kv_heads=N causal mask=bool page_size=N "
    "kv_bits=8 "
    "rotary=N backward ..]\n"
    "  --tuned     a folder of tuned choices, else $TG_TUNED, else tg/tuned in the user's data folder; '' for none\n";

enum { MOST = 32 };

static void complain(void *user, const char *message) {
  (void)user;
  fprintf(stderr, "tg: %s\n", message);
}

/* Cuts the list at its commas. */
static uint32_t targets_of(char *list, const char **names) {
  uint32_t n = 0;
  for (char *at = strtok(list, ","); at && n < MOST; at = strtok(NULL, ",")) names[n++] = at;
  return n;
}

/* Writes beside the file and renames, so that nobody reads half of one. */
static bool write_file(const char *path, const void *data, size_t n) {
  char aside[4200];
  if ((size_t)snprintf(aside, sizeof aside, "%s.new", path) >= sizeof aside) return errno = ENAMETOOLONG, false;
  FILE *f = fopen(aside, "wb");
  if (!f) return false;
  bool good = fwrite(data, 1, n, f) == n;
  good = !fclose(f) && good && !rename(aside, path);
  if (!good) {
    int why = errno;
    remove(aside);
    errno = why;
  }
  return good;
}

static int deliver(const tool_args *a, const tg_built *b) {
  if (!write_file(a->object, b->object, b->object_bytes))
    return fprintf(stderr, "tg build: %s: %s\n", a->object, strerror(errno)), TOOL_WRONG;
  if (!write_file(a->header, b->header, strlen(b->header)))
    return fprintf(stderr, "tg build: %s: %s\n", a->header, strerror(errno)), TOOL_WRONG;
  int n = 1;
  for (const char *c = b->name; *c; c++) n += *c == ',';
  printf("%s: %zu bytes, ", a->object, b->object_bytes);
  if (n == 1) printf("one function: %s; %s declares it\n", b->name, a->header);
  else printf("%d functions: %s; %s declares them\n", n, b->name, a->header);
  return TOOL_OK;
}

static tg_status build_plans(tg_context *c, const tool_args *a, const char *const *names, uint32_t n, tg_built **out) {
  tool_plans p;
  bool attention = !strcmp(a->file, "attention");
  tg_status s = tool_read_plans(a->shapes, attention, &p) ? TG_OK : TG_MISS;
  tg_attention_desc *of = calloc((size_t)p.n + 1, sizeof *of);
  if (!of) s = TG_ENOMEM;
  for (int i = 0; i < p.n && of; i++) {
    of[i] = p.attention[i].desc;
    p.gemm[i].threads = of[i].threads = a->threads;
  }
  for (int i = 0; i < p.n && s == TG_OK; i++) {
    if (!p.packed[i]) continue;
    s = tg_build_packing(c, &p.gemm[i], names, n, &p.packing[i]);
    p.gemm[i].packing = &p.packing[i];
  }
  if (s == TG_OK)
    s = attention ? tg_build_attention(c, p.name, of, (uint32_t)p.n, names, n, out)
                  : tg_build_gemm(c, p.name, p.gemm, (uint32_t)p.n, names, n, out);
  free(of);
  tool_plans_free(&p);
  return s;
}

static tg_status build_file(tg_context *c, const tool_args *a, const char *const *names, uint32_t n, tg_built **out) {
  tool_program p;
  if (!tool_load(a, &p)) return TG_MISS;
  tg_status s = tg_build_text(c, a->file, p.text, &p.options, names, n, out);
  tool_unload(&p);
  return s;
}

int cmd_build(int argc, char **argv) {
#if defined(__aarch64__)
  char list[1024] = "armv8-a";
#else
  char list[1024] = "x86-64-v2,x86-64-v3,x86-64-v4";
#endif
  const char *names[MOST], *tuned;
  char folder[4096];
  tool_args a;
  if (!tool_parse(argc, argv, &a, usage)) return TOOL_USAGE;
  bool plans = a.file && (!strcmp(a.file, "gemm") || !strcmp(a.file, "attention"));
  if (a.help) return fputs(usage, stdout), TOOL_OK;
  if (!a.file) return tool_missing("tg build", "what to build (FILE.tg, gemm or attention)");
  if (plans && !a.shapes) return tool_missing("tg build", "the list of plans (--shapes FILE)");
  if (!plans && a.shapes)
    return fprintf(stderr, "tg build: --shapes is for gemm and attention, not for '%s'\n", a.file), TOOL_USAGE;
  if (!a.object) return tool_missing("tg build", "where the object goes (-o FILE.o)");
  if (!a.header) return tool_missing("tg build", "where its declaration goes (--header FILE.h)");
  if (a.target) snprintf(list, sizeof list, "%s", a.target);
  uint32_t n = targets_of(list, names);
  tuned = tool_tuned(&a, folder, sizeof folder);
  tg_context_options o = {.tuned = tuned ? tuned : "", .threads = a.threads > 1 ? a.threads : 0, .log = complain};
  tg_context *c = NULL;
  tg_built *b = NULL;
  int result = TOOL_BROKEN;
  if (tg_context_create(&o, &c) == TG_OK) {
    tg_status s = plans ? build_plans(c, &a, names, n, &b) : build_file(c, &a, names, n, &b);
    if (s == TG_OK) result = deliver(&a, b);
    else {
      if (s != TG_MISS) fprintf(stderr, "%s\n", tg_error_message(c));
      result = s == TG_INTERNAL ? TOOL_BROKEN : TOOL_WRONG;
    }
  }
  tg_built_free(b);
  tg_context_free(c);
  return result;
}
