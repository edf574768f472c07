/* SPDX-License-Identifier: MIT
 * tg build: a kernel ahead of time, as an object file and a C header. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tg/build.h>
#include "tool.h"

static const char usage[] =
    "tg build FILE.tg [name=value ...] -o FILE.o --header FILE.h [--target NAME,NAME,..] [--kernel NAME] [--opt WORDS "
    "...] [--tuned DIR] [--threads N]\n"
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
    "              runs on can run. Without: x86-64-v2,x86-64-v3,x86-64-v4, or armv8-a on such a machine\n"
    "  --threads   that will share the work, for the first choice (this machine's cores)\n"
    "  --opt       words of a schedule, in order, instead of the first choice\n"
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
  printf("%s: %zu bytes, one function: %s; %s declares it\n", a->object, b->object_bytes, b->name, a->header);
  return TOOL_OK;
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
  tool_program p;
  if (!tool_parse(argc, argv, &a, usage)) return TOOL_USAGE;
  if (a.help || !a.file || !a.object || !a.header) {
    fputs(usage, a.help ? stdout : stderr);
    return a.help ? TOOL_OK : TOOL_USAGE;
  }
  if (a.target) snprintf(list, sizeof list, "%s", a.target);
  uint32_t n = targets_of(list, names);
  if (!tool_load(&a, &p)) return TOOL_WRONG;
  tuned = tool_tuned(&a, folder, sizeof folder);
  tg_context_options o = {.tuned = tuned ? tuned : "", .threads = a.threads > 1 ? a.threads : 0, .log = complain};
  tg_context *c = NULL;
  tg_built *b = NULL;
  int result = TOOL_BROKEN;
  if (tg_context_create(&o, &c) == TG_OK) {
    tg_status s = tg_build_text(c, a.file, p.text, &p.options, names, n, &b);
    if (s == TG_OK)
      result = deliver(&a, b);
    else {
      fprintf(stderr, "%s\n", tg_error_message(c));
      result = s == TG_INTERNAL ? TOOL_BROKEN : TOOL_WRONG;
    }
  }
  tg_built_free(b);
  tg_context_free(c);
  tool_unload(&p);
  return result;
}
