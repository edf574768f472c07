/* SPDX-License-Identifier: MIT
 * tg, the command line tool: picks the command. Each command is a file cmd_*.c with its own --help. */
#include <stdio.h>
#include <string.h>
#include "tool.h"

/* args: what stands behind the name; NULL: not shown, it is for programs. */
static const struct { const char *name, *args, *what; int (*run)(int, char **);
} commands[] = {
    {"devices", "", "what kernels can run on here", cmd_devices},
    {"show", "FILE.tg [name=value ...]", "a kernel at any stage: as written, scheduled, lowered, LLVM, machine code",
     cmd_show},
    {"trace", "FILE.tg [name=value ...] -o FILE.html", "all of that as one page for a browser", cmd_trace},
    {"measure", "", "what its operations, caches, memory and threads take here: a row of machines.def", cmd_measure},
    {"run", "FILE.tg [name=value ...]", "compile and run it; --check against the interpreter, --time", cmd_run},
    {"build", "FILE.tg [name=value ...] -o FILE.o --header FILE.h",
     "ahead of time: an object file and a header, for programs without tg", cmd_build},
    {"tune", "FILE.tg [name=value ...]", "search the schedule that makes it fastest here; tg tune gemm: of a product",
     cmd_tune},
    {"store", "list|verify|export|import", "the choices that tg tune has kept", cmd_store},
    {"pack", "FOLDER -o FILE", "compiled kernels and tuned choices of folders in one file, to ship or map", cmd_pack},
    {"bench", NULL, "how fast tg is, against the machine's limits and its peers", cmd_bench},
    {"replay", "[FILE]", "compare the code generated for lists of programs with the hashes checked in", cmd_replay},
    {"demo", "", "kernels in C, checked against plain C, shown and measured", cmd_demo},
    {"worker", NULL, NULL, cmd_worker}, /* what tg tune starts */
};

static void usage(FILE *to) {
  char line[160];
  fputs("tg compiles kernels written in C.\n\n", to);
  for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
    if (!commands[i].what) continue;
    snprintf(line, sizeof line, "tg %s %s", commands[i].name,
             commands[i].run == cmd_bench ? tool_benches() : commands[i].args);
    fprintf(to, strlen(line) > 34 ? "  %s\n  %34s %s\n" : "  %-34s%s %s\n", line, "", commands[i].what);
  }
  fputs("\ntg COMMAND --help tells more. Exit code: 0 well, 1 the kernel or the check is wrong, 2 wrong usage, 3 tg or "
        "the machine is broken.\n",
        to);
}

int main(int argc, char **argv) {
  if (argc < 2 || !strcmp(argv[1], "--help") || !strcmp(argv[1], "-h") || !strcmp(argv[1], "help")) {
    if (argc < 2) fputs("tg: a command is missing\n\n", stderr);
    usage(argc < 2 ? stderr : stdout);
    return argc < 2 ? TOOL_USAGE : TOOL_OK;
  }
  if (!strcmp(argv[1], "--version")) {
    printf("tg %d.%d.%d\n", TG_VERSION_MAJOR, TG_VERSION_MINOR, TG_VERSION_PATCH);
    return TOOL_OK;
  }
  for (size_t i = 0; i < sizeof commands / sizeof *commands; i++)
    if (!strcmp(argv[1], commands[i].name)) return commands[i].run(argc - 2, argv + 2);
  fprintf(stderr, "tg: no command '%s'; tg --help lists them\n", argv[1]);
  return TOOL_USAGE;
}
