/* SPDX-License-Identifier: MIT
 * The corpus on an AMD device through tg/device.h, over the stand-in for libdrm_amdgpu, which runs each dispatch in the
 * interpreter of AMD's machine code (tests/amd): placed in the device's memory, launched by its packets, through the
 * caches of the model, and compared with tg's interpreter at stage linear, bit for bit.
 *   drm_corpus [--chip=NAME] [--every N] [FILE.tg ...]      --every: each N-th program of the corpus; 1 without */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include "../devices/corpus.h"
#include "../test.h"
#include "dispatch.h"

static drm_model *m;

static void begin(const corpus *r) {
  (void)r;
  m->faults = 0, m->trace_n = 0;
}
static const char *fault_of(void) { return m->faults ? m->message : ""; }

int main(int argc, char **argv) {
  static corpus r = {.begin = begin, .fault = fault_of};
  int at = 1, every = 1;
  const char *chip = "gfx1100";
  void *library = dlopen("build/tests/drm/libdrm_amdgpu.so.1", RTLD_NOW | RTLD_GLOBAL);
  if (!library) return printf("%s: %s\n0 passed, 1 failed\n", argv[0], dlerror()), 1;
  drm_model *(*of)(void);
  void *found = dlsym(library, "drm_model_of");
  memcpy(&of, &found, sizeof of);
  m = of();
  for (; at < argc && argv[at][0] == '-'; at++)
    if (!strncmp(argv[at], "--chip=", 7)) chip = argv[at] + 7;
    else if (!strcmp(argv[at], "--every") && at + 1 < argc) every = atoi(argv[++at]);
  m->chip = chip, m->run = drm_dispatch_run, m->seed = 1;
  uint32_t number = 0;
  CHECK(tg_device_named("amd:0", &number) == TG_OK && tg_context_create(NULL, &r.context) == TG_OK && tg_device_open(r.context, number, &r.device) == TG_OK, "%s", tg_error_message(r.context));
  CHECK(kit_path_open(&r.path, chip), "a path");
  static const char *const folders[] = {"tests/corpus"};
  corpus_run(&r, 1, folders, every, argc - at, argv + at);
  printf("%s: %d programs launched, %d ask for what the target lacks; %lld dispatches, %lld copies\n", chip, r.launched, r.lacking, (long long)m->dispatches, (long long)m->copies);
  CHECK(r.launched > 0, "nothing was launched");
  corpus_close(&r);
  tg_context_free(r.context);
  CHECK(!m->live, "%lld objects live", (long long)m->live);
  return TEST_END();
}
