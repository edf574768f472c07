/* SPDX-License-Identifier: MIT
 * Devices: what of this machine can run kernels, its memory, and launches that return before they are done.
 *
 *   tg_device_info about;
 *   for (uint32_t i = 0; tg_device_describe(i, &about) == TG_OK; i++) ..        0 is the host's CPU
 *   tg_device *device;
 *   tg_device_open(context, 1, &device);                                        the context closes it
 *   tg_compile_options o = {.device = device};
 *   tg_kernel_compile(context, &kernel_def, &o, &kernel);
 *   tg_device_alloc(device, bytes, &x);
 *   tg_device_copy(device, x, mine, bytes);
 *   tg_kernel_start(kernel, &launch);                                           launch's buffers are x and its kin
 *   tg_device_finish(device);
 *
 * A context holds any number of devices. A kernel and a piece of memory belong to one of them. Calls that name no
 * device mean the host's CPU, whose memory is any of
 * the process's. All of these may be called from many threads. Failures are told by tg_error_message of the device's
 * context.
 */
#ifndef TG_DEVICE_H
#define TG_DEVICE_H
#include "tg/tg.h"
#ifdef __cplusplus
extern "C" {
#endif

typedef struct tg_device_info {
  char driver[16];            /* "cpu", "opencl" */
  char name[128];             /* as its maker says it */
  /* the row of targets that kernels are compiled for: tg_context_options.target, tg show --target */
  char target[32];
  char lacks[256];            /* why tg cannot use it; "": it can */
  uint32_t cores;             /* that work at a time: threads of the CPU that this process may use, compute units */
  uint64_t memory;            /* bytes of its own; 0: not known */
  int host_memory;            /* 1: launches take any memory of the process; 0: that of tg_device_alloc alone */
} tg_device_info;

/* Device i of this machine, counted from 0, the host's CPU; the order is the same each time while nothing is plugged
 * in or installed. TG_MISS: there are no more. TG_EINVAL: no place is given. */
TG_API tg_status tg_device_describe(uint32_t i, tg_device_info *out);

/* Device i in this context: the same each time, until the context goes, which closes it. TG_MISS: there is no such
 * device. TG_EIO: it cannot be used; the message says what it lacks. */
TG_API tg_status tg_device_open(tg_context *, uint32_t i, tg_device **out);

/* Memory of the device, aligned to 64 bytes, named by an address that kernels and tg_device_copy take, and offsets
 * into it too; the host may only touch it where host_memory is 1. TG_ENOMEM: the device has no such amount. bytes
 * may be 0. */
TG_API tg_status tg_device_alloc(tg_device *, size_t bytes, void **out);
/* Waits for what was started on the device. NULL is nothing. Memory that is still there when the context goes is
 * freed then. */
TG_API void tg_device_free(tg_device *, void *memory);
/* Bytes from one place to another, each the device's memory or the host's; they do not overlap. Behind all that was
 * started on the device, and done when it returns. TG_EINVAL: NULL. TG_EIO: the device failed. */
TG_API tg_status tg_device_copy(tg_device *, void *to, const void *from, size_t bytes);

/* tg_kernel_run (tg.h) without waiting for the end: launches on one device run in the order in which they were
 * started. What the launch points to may go when this returns, its buffers may not before tg_device_finish,
 * tg_device_copy or tg_device_free do. On the CPU all is done when this returns. threads, parallel_for are the
 * CPU's; a workspace, of other devices, is TG_EINVAL. tg_kernel_run is this and tg_device_finish; tg_kernel_time
 * takes times of both together, in seconds. */
TG_API tg_status tg_kernel_start(tg_kernel *, const tg_launch *);
/* Waits for all that was started on the device. TG_EIO: something of it failed. */
TG_API tg_status tg_device_finish(tg_device *);

#ifdef __cplusplus
}
#endif
#endif
