/* SPDX-License-Identifier: MIT
 * tg devices: what kernels can run on here, as tg sees it, and what they can be compiled for. */
#include <stdio.h>
#include <string.h>
#include "bench/machine.h"
#include "target/target.h"
#include "tg/device.h"
#include "tool.h"

static const char usage[] =
    "tg devices [--rows] [--json]\n\nThe devices that tg can compile for and run on here, with what the heuristic "
    "reads of them; then the targets by name, and which of them run here (--rows: these alone).\n";

/* Every target: what it has, and whether its code runs on this machine. */
static void rows(bool json) {
  static const char *const arch[] = {[TG_ARCH_X86_64] = "x86-64",
                                     [TG_ARCH_AARCH64] = "aarch64",
                                     [TG_ARCH_NVPTX] = "nvptx",
                                     [TG_ARCH_AMDGPU] = "amdgpu",
                                     [TG_ARCH_OPENCL] = "opencl"};
  for (uint32_t i = 0; tg_target_name(i); i++) {
    tg_target t;
    tg_target_named(&t, tg_target_name(i));
    if (json) {
      printf("{\"target\":\"%s\",\"arch\":\"%s\",\"runs_here\":%s,\"lacks\":\"%s\",\"vector_bytes\":%u,\"vector_"
             "registers\":%u,\"l1\":%llu,\"l2\":%llu,\"l3\":%llu}\n",
             t.name, arch[t.arch], tg_target_runs_here(&t) ? "true" : "false", t.lacks, t.vector_bytes,
             t.vector_registers, (unsigned long long)t.l1, (unsigned long long)t.l2, (unsigned long long)t.l3);
      continue;
    }
    printf("%-16s ", t.name);
    if (tg_target_is_source(&t))
      printf("%s that a device compiles, a work-item for a task: ", tg_target_takes_spirv(&t) ? "SPIR-V" : "text");
    else if (tg_target_is_device(&t))
      printf("warps of %u lanes, %u registers, L1 %llu KiB, L2 %llu KiB: ", t.lanes, t.vector_registers,
             (unsigned long long)t.l1 >> 10, (unsigned long long)t.l2 >> 10);
    else
      printf("vectors of %2u bytes (%u), L1 %llu KiB, L2 %llu KiB, L3 %llu KiB: ", t.vector_bytes, t.vector_registers,
             (unsigned long long)t.l1 >> 10, (unsigned long long)t.l2 >> 10, (unsigned long long)t.l3 >> 10);
    printf("%s%s\n", tg_target_runs_here(&t) ? "runs here" : "does not run here: ", t.lacks);
  }
}

/* Those behind the host's CPU, by the names that --device takes, and why tg cannot use one. */
static void others(bool json) {
  tg_device_info d;
  for (uint32_t i = 1; tg_device_describe(i, &d) == TG_OK; i++)
    if (json)
      printf("{\"device\":\"%s:%u\",\"number\":%u,\"name\":\"%s\",\"chip\":\"%s\",\"target\":\"%s\",\"version\":\"%s\","
             "\"cores\":%u,\"memory\":%llu,\"lacks\":\"%s\"}\n",
             d.driver, d.index, i, d.name, d.chip, d.target, d.version, d.cores, (unsigned long long)d.memory, d.lacks);
    else
      printf("%s:%u  %s%s%s, target %s, driver %s, %u compute units, %llu MiB%s%s\n", d.driver, d.index, d.name,
             strcmp(d.chip, d.name) ? ", " : "", strcmp(d.chip, d.name) ? d.chip : "", d.target,
             d.version[0] ? d.version : "of no version", d.cores, (unsigned long long)d.memory >> 20,
             d.lacks[0] ? ": cannot be used: " : "", d.lacks);
}

int cmd_devices(int argc, char **argv) {
  tool_args a;
  if (!tool_parse(argc, argv, &a, usage)) return TOOL_USAGE;
  if (a.help) return fputs(usage, stdout), TOOL_OK;
  if (a.rows) return rows(a.json), TOOL_OK;
  tg_target t;
  tg_target_host(&t, 0);
  double peak = bench_fma_peak(0.1) * 1e-9;
  if (a.json)
    printf("{\"device\":\"cpu\",\"name\":\"%s\",\"vector_bytes\":%u,\"vector_registers\":%u,\"threads\":%u,\"l1\":%llu,"
           "\"l2\":%llu,\"l3\":%llu,\"fma_peak_gflops\":%.4g}\n",
           t.name, t.vector_bytes, t.vector_registers, t.threads, (unsigned long long)t.l1, (unsigned long long)t.l2,
           (unsigned long long)t.l3, peak);
  else
    printf("cpu   %s, %u threads, vectors of %u bytes (%u registers), L1 %llu KiB, L2 %llu KiB, L3 %llu KiB; %.4g "
           "GFLOP/s f32 FMA on one core\n",
           t.name, t.threads, t.vector_bytes, t.vector_registers, (unsigned long long)t.l1 >> 10,
           (unsigned long long)t.l2 >> 10, (unsigned long long)t.l3 >> 10, peak);
  others(a.json);
  rows(a.json);
  return TOOL_OK;
}
