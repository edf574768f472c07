/* SPDX-License-Identifier: MIT
 * Devices: the processors of this machine that can run kernels, their memory, and asynchronous work on queues.
 *
 *   uint32_t i;
 *   tg_device_named("opencl:0", &i);                                            "cpu" is device 0
 *   tg_device *device;
 *   tg_device_open(context, i, &device);                                        the context closes it
 *   tg_compile_options o = {.device = device};
 *   tg_kernel_compile(context, &kernel_def, &o, &kernel);
 *   tg_device_alloc(device, bytes, &x);
 *   tg_device_copy(device, x, mine, bytes);
 *   tg_kernel_start(kernel, &launch);                                           buffers: memory of tg_device_alloc
 *   tg_device_finish(device);
 *
 * These calls use the device's default queue. Work that is to overlap stands on queues of its own:
 *
 *   tg_queue *compute, *copies;
 *   tg_queue_open(device, NULL, &compute);
 *   tg_queue_open(device, &(tg_queue_options){.kind = TG_QUEUE_COPY}, &copies);
 *   tg_queue_mark copied, done;
 *   tg_queue_copy(copies, x, pinned, bytes), tg_queue_submit(copies, &copied);
 *   tg_queue_after(compute, copied);                                            waits on the device, not here
 *   tg_queue_launch(compute, kernel, &launch), tg_queue_submit(compute, &done);
 *   tg_queue_wait(done, 1000000000);                                            a second; TG_TIMEOUT
 *
 * A context holds any number of devices. A kernel, an allocation and a queue belong to one device. Calls that take no
 * device use the host's CPU, whose kernels take any memory of the process. All functions here may be called from
 * several threads at a time. tg_error_message of the device's context gives the message of a failure.
 *
 * A device may be lost: reset by the system after a fault or a hang, or removed. The call that notices returns TG_LOST,
 * and so does each later call for this device that can fail. Its memory, queues and kernels are useless, and are freed
 * as always; then close the context, and open the device in a new one. The CPU is never lost. */
#ifndef TG_DEVICE_H
#define TG_DEVICE_H
#include "tg/tg.h"
#ifdef __cplusplus
extern "C" {
#endif

/* ---- devices ---- */

typedef struct tg_device_info {
  char driver[16];            /* "cpu", "opencl", .. */
  char name[128];             /* the maker's name of it */
  /* name of the target that kernels are compiled for, as in tg_context_options.target and tg show --target */
  char target[32];
  char lacks[256];            /* why tg cannot use this device; "": tg can use it */
  uint32_t cores;             /* CPU: hardware threads that this process may use; other devices: compute units */
  uint64_t memory;            /* bytes of the device's own memory; 0: unknown */
  int host_memory;            /* 1: launches take any memory of the process; 0: only memory of tg_device_alloc */
  uint32_t index;             /* number among the devices of its driver: this is device "driver:index" */
  char chip[64];              /* the silicon, as tuned choices are keyed by it: "gfx1100", "sm_90", a model's name */
  char version[64];           /* of the driver, as it names itself; "": it has none */
} tg_device_info;

/* Describes device i of this machine. Device 0 is the host's CPU. The order stays the same until hardware or a driver
 * is added or removed. TG_MISS: there is no device i. TG_EINVAL: out is NULL. info_bytes: sizeof *out of the caller. */
TG_API tg_status tg_device_describe_sized(uint32_t i, tg_device_info *out, size_t info_bytes);
static inline tg_status tg_device_describe(uint32_t i, tg_device_info *out) {
  return tg_device_describe_sized(i, out, sizeof *out);
}

/* The number of the device with this name: a driver, a colon, and the index among its devices ("opencl:0"); a driver
 * alone stands for its first. TG_MISS: there is no such device, TG_EINVAL: that is no name of a device. */
TG_API tg_status tg_device_named(const char *name, uint32_t *i);

/* Opens device i in this context; each call for the same i returns the same pointer. tg_context_free closes it.
 * TG_MISS: there is no device i. TG_EIO: the device cannot be used; the message says what it lacks. */
TG_API tg_status tg_device_open(tg_context *, uint32_t i, tg_device **out);
/* The same beside the program's own use of the device. native: the context of the driver's interface that the program
 * has made for it (cl_context, CUcontext), which must live until tg_context_free; memory and queues of this context
 * can be imported (tg_device_import, tg_queue_options.native). Each `native` is a device of its own. TG_EINVAL: native
 * is NULL, or is no context of this device, or the driver has no such thing (the CPU). */
TG_API tg_status tg_device_open_native(tg_context *, uint32_t i, void *native, tg_device **out);

/* Loads a kernel that was built for a device ahead of time (build.h): `bytes` bytes at `data`, of any alignment, which
 * may go afterwards. It needs no compiler. TG_EINVAL: the data is damaged, or is for a target that the device is not;
 * the message says which. The device's driver may refuse it, too. */
TG_API tg_status tg_device_load(tg_device *, const void *data, size_t bytes, tg_kernel **out);

/* From now on the queues of `device` take memory and marks of `other`, a device of the same context. TG_OK if they do
 * so already, such as the CPU and itself. TG_EINVAL: these two cannot; the message says why. */
TG_API tg_status tg_device_peers(tg_device *device, tg_device *other);

/* ---- memory ---- */

enum {                        /* kinds of memory */
  TG_MEMORY_DEVICE = 0,       /* the device's own. The host may use it only if host_memory is 1 */
  /* memory of the host that the device reads and writes in place, and copies from and to fastest (pinned): at the same
   * address for both. The host sees what a launch wrote once its mark is reached */
  TG_MEMORY_HOST = 1
};
enum {                        /* what is imported */
  TG_IMPORT_NATIVE = 0,       /* memory of the driver's interface: a pointer of clSVMAlloc, a CUdeviceptr */
  TG_IMPORT_PAGES = 1         /* memory of the process, whole pages: address and bytes are multiples of a page */
};

/* Allocates memory of the device, aligned to 64 bytes. Launches and copies take this address and addresses inside the
 * allocation. TG_ENOMEM: the device has not enough memory. TG_EINVAL: no such kind, or the device has none of it. bytes
 * may be 0. On the CPU both kinds are the process's memory. */
TG_API tg_status tg_device_alloc_kind(tg_device *, size_t bytes, uint32_t kind, void **out);
static inline tg_status tg_device_alloc(tg_device *device, size_t bytes, void **out) {
  return tg_device_alloc_kind(device, bytes, TG_MEMORY_DEVICE, out);
}
/* Makes memory that the program has known to the device, so that launches take it, at the address *out (the same one,
 * or the device's own for the same bytes). It remains the program's; tg_device_free ends only the import. TG_EINVAL:
 * the device cannot import such memory; the message says why. On the CPU: any memory, and *out is its address. */
TG_API tg_status tg_device_import(tg_device *, uint32_t what, void *memory, size_t bytes, void **out);
/* Waits for all work that was started on the device, then frees. memory NULL: does nothing. tg_context_free frees
 * whatever has not been freed. */
TG_API void tg_device_free(tg_device *, void *memory);

/* ---- the default queue ---- */

/* Copies bytes; `to` and `from` may each be memory of the device or of the host, and must not overlap. The copy runs
 * after all work started on the default queue, and has finished when the call returns. TG_EINVAL: a pointer is NULL.
 * TG_EIO: the device failed. */
TG_API tg_status tg_device_copy(tg_device *, void *to, const void *from, size_t bytes);

/* tg_kernel_run (tg.h) without waiting for the end: launches on the default queue run in the order in which they were
 * started. The arrays that the launch points to may be freed when this returns; the buffers themselves not before
 * tg_device_finish, tg_device_copy or tg_device_free has returned. On the CPU the launch has finished when this
 * returns. threads and parallel_for are used by the CPU only; a workspace is memory of the device
 * (tg_kernel_workspace bytes, 64-aligned). tg_kernel_run is this call followed by a wait; tg_kernel_time measures
 * launches by the device's clock, or the host's on the CPU. */
TG_API tg_status tg_kernel_start_sized(tg_kernel *, const tg_launch *, size_t launch_bytes);
static inline tg_status tg_kernel_start(tg_kernel *kernel, const tg_launch *launch) {
  return tg_kernel_start_sized(kernel, launch, sizeof *launch);
}
/* Waits for all work that was started on the device, on any queue. TG_EIO: some of that work failed. */
TG_API tg_status tg_device_finish(tg_device *);

/* ---- queues ---- */

typedef struct tg_queue tg_queue;
typedef struct tg_graph tg_graph;

/* A point on a queue's timeline: it is reached when all work submitted up to it has finished. The value only grows, and
 * a reached value means that all lower ones are. queue NULL: is reached. Must not be used after tg_queue_free. */
typedef struct tg_queue_mark { tg_queue *queue; uint64_t value; } tg_queue_mark;

enum { TG_QUEUE_COMPUTE = 0, TG_QUEUE_COPY = 1 };   /* kinds: COPY: for copies alone, by the device's copy engine */
enum { TG_QUEUE_STAMPS = 64 };                      /* slots of a queue for times */

typedef struct tg_queue_options {   /* zero means default */
  uint32_t kind;
  /* a queue that the program has made in the driver's interface (cl_command_queue, in order; CUstream), in the context
   * of tg_device_open_native or in the driver's primary one: work of tg stands on it in order with the program's own.
   * It must live until tg_queue_free. NULL: tg makes a queue */
  void *native;
} tg_queue_options;

/* Makes a queue: its work runs in order, beside that of other queues. options may be NULL. tg_context_free frees what
 * has not been freed. TG_EINVAL: the options are wrong, or the driver has no queues that can be imported.
 * On the CPU: each call on a queue does its work at once, on the calling thread and the pool, and returns when it is
 * done; so all marks are reached, and tg_queue_after has nothing to wait for. */
TG_API tg_status tg_queue_open_sized(tg_device *, const tg_queue_options *options, size_t options_bytes,
                                     tg_queue **out);
static inline tg_status tg_queue_open(tg_device *device, const tg_queue_options *options, tg_queue **out) {
  return tg_queue_open_sized(device, options, sizeof *options, out);
}
/* Waits for the queue's work, then frees it. NULL: does nothing. */
TG_API void tg_queue_free(tg_queue *);

/* Puts a launch on the queue, as tg_kernel_start does on the default queue. Work may begin before tg_queue_submit, but
 * need not. TG_EINVAL: also, a queue of kind COPY, or the kernel is another device's. */
TG_API tg_status tg_queue_launch_sized(tg_queue *, tg_kernel *, const tg_launch *, size_t launch_bytes);
static inline tg_status tg_queue_launch(tg_queue *queue, tg_kernel *kernel, const tg_launch *launch) {
  return tg_queue_launch_sized(queue, kernel, launch, sizeof *launch);
}
/* Puts a copy on the queue. Memory of the host must stay as it is until the copy is done; only that of TG_MEMORY_HOST
 * or TG_IMPORT_PAGES is sure to be copied beside other work of the host. */
TG_API tg_status tg_queue_copy(tg_queue *, void *to, const void *from, size_t bytes);
/* What is put on the queue from now on begins when the mark is reached. A mark of another device: its peers wait on the
 * device; for others this call waits on the host. */
TG_API tg_status tg_queue_after(tg_queue *, tg_queue_mark);
/* The device's clock is read into slot (below TG_QUEUE_STAMPS) when all work before it has finished. TG_EINVAL: there
 * is no such slot, or a queue of the program's has no clock (an OpenCL queue without profiling). */
TG_API tg_status tg_queue_stamp(tg_queue *, uint32_t slot);
/* Hands all work put on the queue to the device. mark, unless NULL: the point behind it. */
TG_API tg_status tg_queue_submit(tg_queue *, tg_queue_mark *mark);
/* Waits until the mark is reached; nanoseconds negative: for as long as it takes; 0: only looks. TG_TIMEOUT: it is not
 * reached yet, and the work goes on. TG_EIO: some of the work failed. TG_LOST: the device was lost. */
TG_API tg_status tg_queue_wait(tg_queue_mark, int64_t nanoseconds);
/* The times in slots first .. first + n - 1, in seconds by the device's clock, whose zero is the device's own: only
 * differences mean something. Submits, and waits for the stamps. TG_EINVAL: a slot was never stamped. */
TG_API tg_status tg_queue_stamps(tg_queue *, uint32_t first, uint32_t n, double *seconds);

/* ---- graphs: work that is recorded once and replayed ---- */

/* From now on launches and copies that are put on this queue are checked and kept, but not run. Other calls on the
 * queue are refused (TG_EINVAL) until tg_queue_recorded. */
TG_API tg_status tg_queue_record(tg_queue *);
/* Ends the recording. The graph belongs to the queue's device; its kernels must not be freed before it. Steps are
 * numbered from 0 in the order in which they were put. */
TG_API tg_status tg_queue_recorded(tg_queue *, tg_graph **out);

/* Every pointer of the recording into the `bytes` from `recorded` on is moved to the same place from `now` on. */
typedef struct tg_graph_move { const void *recorded; void *now; size_t bytes; } tg_graph_move;
typedef struct tg_graph_param { uint32_t step, param; int64_t value; } tg_graph_param;   /* of a launch */
typedef struct tg_graph_replay {      /* zero: all as it was recorded */
  const tg_graph_move *moves;
  const tg_graph_param *params;
  uint32_t moves_n, params_n;
} tg_graph_replay;

/* Puts all steps on the queue, as one launch. The changes hold for this replay alone, and are checked like arguments of
 * a launch. replay may be NULL. A replay begins when the graph's earlier one has ended. On the CPU: all steps run, and
 * have finished when this returns. */
TG_API tg_status tg_queue_replay_sized(tg_queue *, tg_graph *, const tg_graph_replay *, size_t replay_bytes);
static inline tg_status tg_queue_replay(tg_queue *queue, tg_graph *graph, const tg_graph_replay *replay) {
  return tg_queue_replay_sized(queue, graph, replay, sizeof *replay);
}
TG_API uint32_t tg_graph_steps(const tg_graph *);
/* Waits for its replays, then frees it. NULL: does nothing. tg_context_free does not free it. */
TG_API void tg_graph_free(tg_graph *);

#ifdef __cplusplus
}
#endif
#endif
