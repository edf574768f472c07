/* SPDX-License-Identifier: MIT
 * tg measure --device: the numbers of a GPU that choices depend on. */
#ifndef TG_MEASURE_CHIP_H
#define TG_MEASURE_CHIP_H
#include "bench/device.h"
#include "target/chip.h"

/* Probes of so many workgroups a core; loops of at most so many rounds, a multiple of 8. In the tool those of
 * MEASURE_CHIP. */
typedef struct measure_chip_size { uint32_t groups; int64_t rounds; double seconds; } measure_chip_size;
#define MEASURE_CHIP(time) (measure_chip_size){.groups = 16, .rounds = 1 << 20, .seconds = (time)}
/* False, and a line on stderr: a probe failed. A number that the device has no probe for is the row's. */
bool measure_chip(const bench_device *d, measure_chip_size size, tg_chip *out);
#endif
