/* SPDX-License-Identifier: MIT
 * tg bench and tg measure on a device that is not the host's CPU: its memory, and times by its clock. */
#ifndef TG_BENCH_DEVICE_H
#define TG_BENCH_DEVICE_H
#include "tg/device.h"
#include "tool.h"

typedef struct bench_device {
  const tool_args *args;
  tg_context *context;
  tg_device *device;
  tg_queue *queue;
} bench_device;
/* The device that --device names, in a context with --tuned and --cache. An exit code; stderr says what is wrong. */
int bench_device_open(const tool_args *, bench_device *);
void bench_device_close(bench_device *);

/* Memory of the device with a copy of these bytes; from NULL: with whatever is there. NULL, and a line on stderr: there
 * is none. */
void *bench_device_take(const bench_device *, const void *from, size_t bytes);

/* Seconds of what `put` puts on the queue, by the device's clock: the median of samples over about `seconds`, each the
 * mean of as many runs as take a tenth of a millisecond. The first run, in which drivers compile and load, counts for
 * nothing. -1, and a line on stderr: it failed. */
typedef tg_status bench_device_put(void *user, tg_queue *);
double bench_device_time(const bench_device *, bench_device_put *put, void *user, double seconds);
/* The same of two that take turns: a, b, b, a; *times: the medians of both. False: one failed. */
typedef struct bench_device_side { bench_device_put *put; void *user; } bench_device_side;
bool bench_device_turns(const bench_device *, const bench_device_side sides[2], double seconds, double times[2]);

/* Products of a list of shapes, attention of a list of shapes, or copy, axpy, sum, softmax and layernorm: verified on
 * the device, then timed. An exit code. */
int bench_on_device(const tool_args *);
#endif
