/* SPDX-License-Identifier: MIT
 * What library_aarch64 writes for the program that it runs under qemu: for each kernel this head, the object, every buffer before, every buffer after. */
#ifndef TG_TEST_AARCH64_H
#define TG_TEST_AARCH64_H
#include <stdint.h>

enum { AARCH64_BUFFERS = 16, AARCH64_PARAMS = 32, AARCH64_STEPS = 256 };
typedef struct {
  char path[256], name[64];
  uint32_t phases, buffers, params, loops;
  uint64_t workspace, shared, object, steps_n;
  int64_t steps[AARCH64_STEPS];
  int64_t value[AARCH64_PARAMS];
  uint64_t bytes[AARCH64_BUFFERS];
  uint32_t type[AARCH64_BUFFERS];
} aarch64_kernel;
#endif
