/* SPDX-License-Identifier: MIT
 * What the files of this folder share: the part of OpenCL's interface that is used, the device, its queues. */
#ifndef TG_OPENCL_H
#define TG_OPENCL_H
#include <pthread.h>
#include <stdio.h>
#include "devices/kernel.h"
#include "devices/library.h"
#include "devices/marks.h"

/* ---- what is used of CL/cl.h ---- */

typedef void *opencl_handle;
typedef uint64_t opencl_bits;
enum {
  CL_DEVICE_TYPE = 0x1000,
  CL_COMPUTE_UNITS = 0x1002,
  CL_SINGLE_FLAGS = 0x101b,
  CL_GLOBAL_BYTES = 0x101f,
  CL_LITTLE_ENDIAN = 0x1026,
  CL_COMPILER = 0x1028,
  CL_NAME = 0x102b,
  CL_DRIVER_VERSION = 0x102d,
  CL_EXTENSIONS = 0x1030,
  CL_DOUBLE_FLAGS = 0x1032,
  CL_ADDRESS_BITS = 0x100d,
  CL_SVM = 0x1053,
  CL_IL_VERSION = 0x105b,
  CL_BUILD_LOG = 0x1183,
  CL_VENDOR = 0x102c,
  CL_CONTEXT_DEVICES = 0x1081,
  CL_QUEUE_CONTEXT = 0x1090,
  CL_QUEUE_DEVICE = 0x1091,
  CL_QUEUE_PROPERTIES = 0x1093,
  CL_EXECUTION_STATUS = 0x11d3,
  CL_COMMAND_END = 0x1283
};
enum {
  CL_TYPE_CPU = 1 << 1,
  CL_SVM_COARSE = 1,
  CL_SVM_FINE = 2,
  CL_SVM_SYSTEM = 4,
  CL_OUT_OF_ORDER = 1,
  CL_PROFILING = 2,
  CL_DENORMALS = 1,
  CL_NAN_INFINITY = 2,
  CL_NEAREST = 4,
  CL_DIVIDE_SQRT = 1 << 7,
  CL_READ_WRITE = 1,
  CL_MEM_FINE = 1 << 10
};
typedef struct {
  void *library;
#define F(result, name, since, arguments) result(*name) arguments;
#include "devices/opencl/functions.def"
} opencl_functions;

/* ---- library.c ---- */

bool tg_opencl_library(opencl_functions *f);   /* opens libOpenCL; false: there is none, or one older than 2.0 */
opencl_handle tg_opencl_find(const opencl_functions *f, uint32_t i);   /* device i over all platforms */
uint64_t tg_opencl_number(const opencl_functions *f, opencl_handle d, unsigned what);
void tg_opencl_text(const opencl_functions *f, opencl_handle d, unsigned what, char *out, size_t n);
bool tg_opencl_describe(uint32_t i, tg_device_info *out);
bool tg_opencl_takes_spirv(const opencl_functions *f, opencl_handle d);
tg_status tg_opencl_failure(char *message, size_t n, const char *what, int code);

/* ---- opencl.c, queue.c ---- */


typedef struct {
  tg_device head;
  opencl_functions f;
  tg_target target;
  opencl_handle device, context;
  bool tasks_alone;            /* workgroups have one work-item, which runs whole tasks: on CPUs */
  pthread_mutex_t lock;        /* held while arguments are set and the kernel is started */
} opencl_device;

typedef struct {
  tg_queue head;
  opencl_handle queue;
  bool clock;                  /* its events have times */
  tg_marks marks;
  opencl_handle stamp[TG_QUEUE_STAMPS];   /* guarded by the marks' lock */
} opencl_queue;

tg_status tg_opencl_queue_open(const tg_queue *head, tg_queue **out, char *message, size_t n);
void tg_opencl_queue_close(tg_queue *);
tg_status tg_opencl_copy(tg_queue *, void *to, const void *from, size_t bytes, char *message, size_t n);
tg_status tg_opencl_after(tg_queue *, tg_queue *of, uint64_t value, char *message, size_t n);
tg_status tg_opencl_stamp(tg_queue *, uint32_t slot, char *message, size_t n);
tg_status tg_opencl_submit(tg_queue *, uint64_t *value, char *message, size_t n);
tg_status tg_opencl_wait(tg_queue *, uint64_t value, int64_t nanoseconds, char *message, size_t n);
tg_status tg_opencl_stamps(tg_queue *, uint32_t first, uint32_t slots, double *seconds, char *message, size_t n);
#endif
