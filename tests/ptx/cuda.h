/* SPDX-License-Identifier: MIT
 * The few functions of NVIDIA's driver that a check needs, opened at run time: no header and no library of its maker. */
#ifndef TG_TEST_PTX_CUDA_H
#define TG_TEST_PTX_CUDA_H
#include "launch.h"

enum { CUDA_LOG = 8192 };

typedef struct cuda cuda;
typedef struct { char name[128]; int driver, major, minor, cores, clock_khz, memory_khz, bus_bits, l2, local; size_t memory; } cuda_device;
/* What the driver's compiler made of a phase. */
typedef struct { int registers, spilled, local, threads; uint64_t groups; } cuda_phase;
typedef struct {
  double compile, seconds;              /* of the driver's compiler; the median of a run of all phases */
  uint32_t runs, phases;
  cuda_phase phase[8];
} cuda_times;

/* library: "libcuda.so.1", or a test's own. NULL: message says why, in one line. */
cuda *cuda_open(const char *library, cuda_device *about, char *message, size_t n);
/* Runs p on memory: copies there, a launch, copies back what is written; looks at 256 bytes before and behind each buffer.
 * measure: then runs it again for about so many seconds. False: message. */
bool cuda_run(cuda *c, const ptx_program *p, kit_memory *memory, double measure, cuda_times *times, char *message, size_t n);
#endif
