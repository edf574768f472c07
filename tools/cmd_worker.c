/* SPDX-License-Identifier: MIT
 * tg worker: the disposable half of a search. Questions come on standard input, answers leave on standard output, both
 * in frames that only
 * the search speaks. What is compiled and run here cannot print into them. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <unistd.h>
#include <tg/tune.h>
#include "tool.h"

int cmd_worker(int argc, char **argv) {
  (void)argv;
  if (argc || isatty(0)) {
    fputs("tg worker is started by tg tune, and by programs that call tg_tune\n", stderr);
    return TOOL_USAGE;
  }
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  int in = fcntl(0, F_DUPFD_CLOEXEC, 10), out = fcntl(1, F_DUPFD_CLOEXEC, 10),
      null = open("/dev/null", O_RDWR | O_CLOEXEC);
  if (in < 0 || out < 0 || null < 0) return TOOL_BROKEN;
  dup2(null, 0);
  dup2(null, 1);
  dup2(null, 2);
  tg_tune_worker(in, out);
  return TOOL_OK;
}
