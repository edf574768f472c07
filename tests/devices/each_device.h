/* SPDX-License-Identifier: MIT
 * The devices that a test of operations runs on. Without arguments: the first device of each driver that can be used,
 * then the stand-ins for `targets`, each with a part of the cases; --all: these with all cases; else the devices named,
 * with all cases: names of tg's (opencl:0), or targets (sm_80, gfx1100), for the stand-in of their driver. */
#ifndef TG_TEST_EACH_DEVICE_H
#define TG_TEST_EACH_DEVICE_H
#include <stdlib.h>
#include "../folder.h"
#include "../library/kit.h"
#include "../test.h"
#include "stand_in.h"
#include "tg/device.h"

/* i: the device's number; all: all cases. */
typedef void each_test(const char *name, uint32_t i, bool all);

static void each_stand_in(const char *target, const char *program, bool all, each_test *on) {
  uint32_t i;
  if (!stand_in_begin(target, program, 1, &i)) return;
  on(target, i, all);
  stand_in_end(false);
}

static void each_without_names(const char *program, bool all, const char *const *targets, size_t n, each_test *on) {
  tg_device_info about, seen = {.driver = "cpu"};
  for (uint32_t i = 1; tg_device_describe(i, &about) == TG_OK; i++) {
    if (about.lacks[0] || !strcmp(about.driver, seen.driver)) continue;
    seen = about;
    printf("%s: %s\n", about.driver, about.name);
    on(about.driver, i, all);
  }
  for (size_t t = 0; t < n; t++) each_stand_in(targets[t], program, all, on);
}

/* arguments: those behind the program's name and the test's own options. */
static void each_device(const char *program, int n, char **arguments, const char *const *targets, size_t targets_n,
                        each_test *on) {
  char folder[TEST_PATH] = "tg-devices-XXXXXX";
  CHECK(test_folder(folder), "a folder");
  setenv("POCL_CACHE_DIR", folder, 1);
  bool all = n > 0 && !strcmp(arguments[0], "--all");
  if (!n || all) each_without_names(program, all, targets, targets_n, on);
  for (int k = all; k < n; k++) {
    uint32_t i = 0;
    if (!strncmp(arguments[k], "sm_", 3) || !strncmp(arguments[k], "gfx", 3)) {
      each_stand_in(arguments[k], program, true, on);
      continue;
    }
    CHECK(tg_device_named(arguments[k], &i) == TG_OK, "%s: there is no such device", arguments[k]);
    on(arguments[k], i, true);
  }
  kit_remove(folder);
}
#endif
