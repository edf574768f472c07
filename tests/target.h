/* SPDX-License-Identifier: MIT
 * The target whose code a test program runs: TG_TEST_TARGET, the name of a row, "host" if it is not set. One that there is not, or whose code this machine does not
 * run, is no failure and no pass: a line that says so, and exit status 77, which tools/check counts as skipped. */
#ifndef TG_TEST_TARGET_H
#define TG_TEST_TARGET_H
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "target/target.h"

enum { TEST_SKIPPED = 77 };

/* What may be run here; else the program ends. */
static inline const char *test_target_or(const char *name) {
  tg_target t;
  bool known = tg_target_named(&t, name);
  if (known && tg_target_runs_here(&t)) return name;
  fflush(stdout);
  printf("skipped: TG_TEST_TARGET: %s%s%s\n", name, known ? ": " : " is no target", known ? t.lacks : "");
  exit(TEST_SKIPPED);
}

static inline const char *test_target(void) {
  const char *name = getenv("TG_TEST_TARGET");
  return test_target_or(name && *name ? name : "host");
}

/* A chip of a family that another one stands for: a part of the programs is enough for it. */
static inline bool test_is_another(const tg_target *t) {
  static const char *const names[] = {"sm_86", "sm_89", "sm_100", "gfx1101", "gfx1102", "gfx1150", "gfx1151", "gfx1200"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (!strcmp(names[i], t->name)) return true;
  return false;
}

/* The same as data, of so many cores. */
static inline tg_target test_target_of(uint32_t threads) {
  tg_target t;
  tg_target_named(&t, test_target());
  t.threads = threads;
  return t;
}
#endif
