/* SPDX-License-Identifier: MIT
 * tg, the command line tool: picks the command. Each command is a file cmd_*.c with its own --help. */
#include <stdio.h>
#include <string.h>
#include "tool.h"

static const char usage[] =
  "tg compiles kernels written in C.\n"
  "\n"
  "  tg devices                         what kernels can run on here\n"
  "  tg show FILE.tg [name=value ...]   a kernel at any stage: as written, scheduled, lowered, LLVM, machine code\n"
  "  tg run FILE.tg [name=value ...]    compile and run it; --check against the interpreter, --time\n"
  "  tg tune FILE.tg [name=value ...]   search the schedule that makes it fastest here\n"
  "  tg store list|verify|export|import    the choices that tg tune has kept\n"
  "  tg bench lower|kernels|launch      how fast tg is, against the machine's limits and its peers\n"
  "  tg replay                          compare generated code with the hashes checked in\n"
  "\n"
  "tg COMMAND --help tells more. Exit code: 0 well, 1 the kernel or the check is wrong, 2 wrong usage, 3 tg or the machine is broken.\n";

int main(int argc, char **argv) {
  static const struct { const char *name; int (*run)(int, char **); } commands[] = {
    {"devices", cmd_devices}, {"show", cmd_show}, {"run", cmd_run}, {"replay", cmd_replay}, {"bench", cmd_bench}, {"demo", cmd_demo}, {"tune", cmd_tune}, {"worker", cmd_worker}, {"store", cmd_store},
  };
  if (argc < 2 || !strcmp(argv[1], "--help") || !strcmp(argv[1], "-h") || !strcmp(argv[1], "help")) {
    fputs(usage, argc < 2 ? stderr : stdout);
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
