/* SPDX-License-Identifier: MIT
 * tg measure --device. */
#ifndef TG_MEASURE_DEVICE_H
#define TG_MEASURE_DEVICE_H
#include "tool.h"

/* Measures the device that --device names in about so many seconds, and prints what it found. An exit code. */
int measure_device(const tool_args *, double seconds);
#endif
