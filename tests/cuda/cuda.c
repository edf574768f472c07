/* SPDX-License-Identifier: MIT
 * A CUDA device through tg/device.h, over the stand-in of this folder or over NVIDIA's own driver: each program of the
 * corpus is compiled for it, launched there on memory of its own, and compared with the interpreter at stage linear, bit
 * for bit. Then, over the stand-in, what its control can bring about: faults.c.
 *   cuda_device [--chip=8|9] [--hardware] [PROGRAM.tg ...]        --hardware: libcuda.so.1 as the system finds it */
#include <stdlib.h>
#include "../devices/corpus.h"
#include "cuda.h"

static machine m;
static const char *fault_of(void) { return m.standin ? m.standin->fault : ""; }

static void on(const char *library, int chip, int argc, char **argv) {
  static const char *const folders[] = {"tests/corpus", "tests/ptx/gpu"};
  if (!machine_open(&m, library, chip, NULL)) return;
  corpus r = {.context = m.context, .device = m.device, .beside = true, .rounds = !m.standin, .fault = fault_of};
  CHECK(kit_path_open(&r.path, m.about.target), "a path for %s", m.about.target);
  int tried = corpus_run(&r, 2, folders, 1, argc, argv);
  printf("%s for %s: %d launches compared, %d programs ask for what it lacks\n", m.about.name, m.about.target, r.launched, r.lacking);
  CHECK(r.launched > (argc ? 0 : tried), "%d launches of %d programs", r.launched, tried);
  corpus_close(&r);
  machine_close(&m);
}

int main(int argc, char **argv) {
  char path[256];
  const char *library = path;
  int chip = 0, at = 1;
  standin_path(path, sizeof path, argv[0]);
  for (; at < argc && argv[at][0] == '-'; at++)
    if (!strncmp(argv[at], "--chip=", 7)) chip = atoi(argv[at] + 7);
    else if (!strcmp(argv[at], "--hardware")) library = NULL;
  if (!library || chip) on(library, chip, argc - at, argv + at);
  else
    for (chip = 8; chip < 10; chip++) on(library, chip, argc - at, argv + at);
  return TEST_END();
}
