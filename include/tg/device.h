/* SPDX-License-Identifier: MIT
 * Devices: the processors of this machine that can run kernels, their memory, and asynchronous launches.
 *
 *   tg_device_info about;
 *   for (uint32_t i = 0; tg_device_describe(i, &about) == TG_OK; i++) ..        0 is the host's CPU
 *   tg_device *device;
 *   tg_device_open(context, 1, &device);                                        the context closes it
 *   tg_compile_options o = {.device = device};
 *   tg_kernel_compile(context, &kernel_def, &o, &kernel);
 *   tg_device_alloc(device, bytes, &x);
 *   tg_device_copy(device, x, mine, bytes);
 *   tg_kernel_start(kernel, &launch);                                           buffers: memory of tg_device_alloc
 *   tg_device_finish(device);
 *
 * A context holds any number of devices. A kernel, and an allocation, belong to one device. Calls that take no
 * device use the host's CPU, whose kernels take any memory of the process. All functions here may be called from
 * several threads at a time. tg_error_message of the device's context gives the message of a failure.
 */
#ifndef TG_DEVICE_H
#define TG_DEVICE_H
#include "tg/tg.h"
#ifdef __cplusplus
extern "C" {
#endif

typedef struct tg_device_info {
  char driver[16];            /* "cpu", "opencl" */
  char name[128];             /* the maker's name of it */
  /* name of the target that kernels are compiled for, as in tg_context_options.target and tg show --target */
  char target[32];
  char lacks[256];            /* why tg cannot use this device; "": tg can use it */
  uint32_t cores;             /* CPU: hardware threads that this process may use; other devices: compute units */
  uint64_t memory;            /* bytes of the device's own memory; 0: unknown */
  int host_memory;            /* 1: launches take any memory of the process; 0: only memory of tg_device_alloc */
} tg_device_info;

/* Describes device i of this machine. Device 0 is the host's CPU. The order stays the same until hardware or a driver
 * is added or removed. TG_MISS: there is no device i. TG_EINVAL: out is NULL. */
TG_API tg_status tg_device_describe(uint32_t i, tg_device_info *out);

/* Opens device i in this context; each call for the same i returns the same pointer. tg_context_free closes it.
 * TG_MISS: there is no device i. TG_EIO: the device cannot be used; the message says what it lacks. */
TG_API tg_status tg_device_open(tg_context *, uint32_t i, tg_device **out);

/* Allocates memory of the device, aligned to 64 bytes. Launches and tg_device_copy take this address and addresses
 * inside the allocation. The host may read and write it only if host_memory is 1. TG_ENOMEM: the device has not
 * enough memory. bytes may be 0. */
TG_API tg_status tg_device_alloc(tg_device *, size_t bytes, void **out);
/* Waits for all work that was started on the device, then frees. memory NULL: does nothing. tg_context_free frees
 * whatever has not been freed. */
TG_API void tg_device_free(tg_device *, void *memory);
/* Copies bytes; `to` and `from` may each be memory of the device or of the host, and must not overlap. The copy runs
 * after all work started on the device, and has finished when the call returns. TG_EINVAL: a pointer is NULL.
 * TG_EIO: the device failed. */
TG_API tg_status tg_device_copy(tg_device *, void *to, const void *from, size_t bytes);

/* tg_kernel_run (tg.h) without waiting for the end: launches on one device run in the order in which they were
 * started. The arrays that the launch points to may be freed when this returns; the buffers themselves not before
 * tg_device_finish, tg_device_copy or tg_device_free has returned. On the CPU the launch has finished when this
 * returns. threads and parallel_for are used by the CPU only; a workspace on any other device is TG_EINVAL.
 * tg_kernel_run is this call followed by tg_device_finish; tg_kernel_time measures both together, in seconds. */
TG_API tg_status tg_kernel_start(tg_kernel *, const tg_launch *);
/* Waits for all work that was started on the device. TG_EIO: some of that work failed. */
TG_API tg_status tg_device_finish(tg_device *);

#ifdef __cplusplus
}
#endif
#endif
