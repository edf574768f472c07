/* SPDX-License-Identifier: MIT
 * What the files of this folder share: the part of NVIDIA's driver interface that is used (CUDA Driver API, by the
 * document's names), the device, its queues. */
#ifndef TG_CUDA_H
#define TG_CUDA_H
#include <pthread.h>
#include <stdio.h>
#include "devices/kernel.h"
#include "devices/library.h"
#include "devices/marks.h"

/* ---- what is used of libcuda.so.1 ---- */

typedef uint64_t cuda_address;                     /* CUdeviceptr */
typedef struct {                                   /* CUDA_KERNEL_NODE_PARAMS, first version */
  void *function;
  unsigned groups[3], threads[3], local;
  void **arguments, **more;
} cuda_shape;
typedef struct { size_t x, y, z, level; unsigned type; void *host; cuda_address device; void *array, *reserved;
  size_t pitch, height;
} cuda_side;
typedef struct { cuda_side from, to; size_t width, height, depth; } cuda_copy;   /* CUDA_MEMCPY3D */

/* The oldest chip that tg compiles for needs a driver of CUDA 11.0, so only later functions may be absent. */
enum { TG_CUDA_OLDEST = 11000 };

typedef struct {
  void *library;
  const char *missing;         /* the first function that the driver should have, and has not; NULL: none */
#define F(result, name, since, arguments) result(*name) arguments;
#include "devices/cuda/functions.def"
} cuda_functions;

enum {                         /* CUdevice_attribute */
  CUDA_CORES = 16,
  CUDA_L2 = 38,
  CUDA_UNIFIED_ADDRESSES = 41,
  CUDA_CAPABILITY_MAJOR = 75,
  CUDA_CAPABILITY_MINOR = 76,
  CUDA_LOCAL = 97              /* bytes of LOCAL that a workgroup may have if its function asks for them */
};

/* ---- library.c ---- */

bool tg_cuda_library(cuda_functions *f);   /* opens libcuda.so.1 and starts it; false: it is not there, or has no GPU */
int tg_cuda_attribute(const cuda_functions *f, int device, int what);   /* 0: unknown */
bool tg_cuda_describe(uint32_t i, tg_device_info *out);
/* The status for an error code, with a message. Codes after which the context cannot be used any more are TG_LOST. */
tg_status tg_cuda_failure(const cuda_functions *f, char *message, size_t n, const char *what, int code);

/* ---- the device ---- */

enum { CUDA_OWN, CUDA_PINNED, CUDA_NATIVE, CUDA_PAGES };   /* origins of pieces; own: the host's pages */

typedef struct {
  tg_device head;
  cuda_functions f;
  tg_target target;
  int device;                  /* CUdevice */
  void *context;               /* CUcontext: the primary one, or the program's */
  void *zero;                  /* the event that times count from, recorded by the first queue */
  bool started;                /* it is */
} cuda_device;

/* local: the most dynamic LOCAL that a launch may have */
typedef struct { void *function; int local; } cuda_entry;
typedef struct {
  tg_device_kernel head;
  void *module;
  cuda_entry *entry;           /* of each phase: the normal one and that for unaligned buffers, or the first twice */
} cuda_kernel;

/* The driver's calls work on the context that is current in the calling thread. These two put the device's there, and
 * the one before back, so that the program's own use of the interface is not disturbed. */
static inline int tg_cuda_enter(const cuda_device *d) { return d->f.cuCtxPushCurrent_v2(d->context); }
static inline void tg_cuda_leave(const cuda_device *d) {
  void *popped;
  d->f.cuCtxPopCurrent_v2(&popped);
}
/* A call that gives something back is made also where the context is lost and cannot be entered. */
#define TG_CUDA_GIVE_BACK(d, calls)       \
  do {                                    \
    int entered_ = tg_cuda_enter(d);      \
    calls;                                \
    if (!entered_) tg_cuda_leave(d);      \
  } while (0)

/* ---- kernel.c ---- */

tg_status tg_cuda_load(tg_device *, const tg_device_object *, tg_device_kernel **out, tg_env *err);
void tg_cuda_unload(tg_device_kernel *);
/* The most arguments of a kernel: 4096 bytes, CUDA C++ Programming Guide, "Function Parameters". */
enum { CUDA_ARGUMENTS = 512 };
/* Fills in the addresses of a launch's arguments; they lie in *w. */
void tg_cuda_arguments(const cuda_kernel *, const tg_work *, void *arguments[CUDA_ARGUMENTS]);
/* How phase `phase` is launched, but for its arguments. *empty: there is nothing to run. */
tg_status tg_cuda_shape(const cuda_kernel *, const tg_work *, uint32_t phase, cuda_shape *out, bool *empty,
                        char *message, size_t n);
tg_status tg_cuda_launch(tg_queue *, tg_device_kernel *, const tg_work *, char *message, size_t n);

/* ---- queue.c ---- */

typedef struct {
  tg_queue head;
  void *stream;                /* CUstream */
  tg_marks marks;
  void *stamp[TG_QUEUE_STAMPS];   /* guarded by the marks' lock */
} cuda_queue;

tg_status tg_cuda_queue_open(const tg_queue *head, tg_queue **out, char *message, size_t n);
void tg_cuda_queue_close(tg_queue *);
tg_status tg_cuda_copy(tg_queue *, void *to, const void *from, size_t bytes, char *message, size_t n);
tg_status tg_cuda_after(tg_queue *, tg_queue *of, uint64_t value, char *message, size_t n);
tg_status tg_cuda_stamp(tg_queue *, uint32_t slot, char *message, size_t n);
tg_status tg_cuda_submit(tg_queue *, uint64_t *value, char *message, size_t n);
tg_status tg_cuda_wait(tg_queue *, uint64_t value, int64_t nanoseconds, char *message, size_t n);
tg_status tg_cuda_stamps(tg_queue *, uint32_t first, uint32_t slots, double *seconds, char *message, size_t n);

/* ---- graph.c ---- */

tg_status tg_cuda_graph_make(tg_device *, const tg_graph_step *, uint32_t steps_n, void **out, char *message, size_t n);
tg_status tg_cuda_graph_put(tg_queue *, void *graph, const tg_graph_step *, uint32_t steps_n, const bool *changed,
                            char *message, size_t n);
void tg_cuda_graph_drop(tg_device *, void *graph);
#endif
