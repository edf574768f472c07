/* SPDX-License-Identifier: MIT
 * tg devices: what kernels can run on here, as tg sees it. */
#include <stdio.h>
#include "bench/machine.h"
#include "target/target.h"
#include "tool.h"

static const char usage[] = "tg devices [--json]\n\nThe devices that tg can compile for and run on here, with what the heuristic reads of them.\n";

int cmd_devices(int argc, char **argv) {
  tool_args a;
  if (!tool_parse(argc, argv, &a, usage)) return TOOL_USAGE;
  if (a.help) return fputs(usage, stdout), TOOL_OK;
  tg_target t;
  tg_target_host(&t, 0);
  double peak = bench_fma_peak(0.1) * 1e-9;
  if (a.json)
    printf("{\"device\":\"cpu\",\"name\":\"%s\",\"vector_bytes\":%u,\"vector_registers\":%u,\"threads\":%u,\"l1\":%llu,\"l2\":%llu,\"l3\":%llu,\"fma_peak_gflops\":%.4g}\n", t.name,
           t.vector_bytes, t.vector_registers, t.threads, (unsigned long long)t.l1, (unsigned long long)t.l2, (unsigned long long)t.l3, peak);
  else
    printf("cpu   %s, %u threads, vectors of %u bytes (%u registers), L1 %llu KiB, L2 %llu KiB, L3 %llu KiB; %.4g GFLOP/s f32 FMA on one core\n", t.name, t.threads,
           t.vector_bytes, t.vector_registers, (unsigned long long)t.l1 >> 10, (unsigned long long)t.l2 >> 10, (unsigned long long)t.l3 >> 10, peak);
  return TOOL_OK;
}
