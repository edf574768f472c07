/* SPDX-License-Identifier: MIT
 * Devices of NVIDIA, through the driver alone: opening, memory, peers. A kernel's object is PTX, which the driver's own
 * compiler translates when the kernel is loaded (kernel.c). An address is the same on host and device, since the driver
 * keeps one space of addresses. CUDA Driver API Reference Manual. */
#include <dlfcn.h>
#include "devices/cuda/cuda.h"

/* ---- the device ---- */

static void close_device(tg_device *device) {
  cuda_device *d = (cuda_device *)device;
  tg_allocator a = d->head.allocator;
  if (d->zero) TG_CUDA_GIVE_BACK(d, d->f.cuEventDestroy_v2(d->zero));
  if (d->context && !device->native) d->f.cuDevicePrimaryCtxRelease_v2(d->device);
  dlclose(d->f.library);
  a.free(a.user, d, sizeof *d);
}

/* The row of the table, with what this chip has. */
static bool fill_target(cuda_device *d) {
  tg_target *t = &d->target;
  int version = 0, major = tg_cuda_attribute(&d->f, d->device, CUDA_CAPABILITY_MAJOR),
      minor = tg_cuda_attribute(&d->f, d->device, CUDA_CAPABILITY_MINOR),
      cores = tg_cuda_attribute(&d->f, d->device, CUDA_CORES), l2 = tg_cuda_attribute(&d->f, d->device, CUDA_L2),
      local = tg_cuda_attribute(&d->f, d->device, CUDA_LOCAL);
  d->f.cuDriverGetVersion(&version);
  const char *name = tg_target_of_nvidia((uint32_t)major, (uint32_t)minor, (uint32_t)version);
  if (!name || !tg_target_row(t, name)) return false;
  if (cores > 0) t->threads = (uint32_t)cores;
  if (l2 > 0) t->l2 = (uint64_t)l2;
  if (local > 0) t->local_bytes = (uint64_t)local;
  snprintf(t->silicon, sizeof t->silicon, "sm_%d%d, %u cores, LOCAL %llu, L2 %llu, for %s", major, minor, t->threads,
           (unsigned long long)t->local_bytes, (unsigned long long)t->l2, name);
  return true;
}

/* Is the program's context one of this device? */
static bool takes_context(const cuda_device *d, void *context) {
  void *popped;
  int device = -1;
  if (d->f.cuCtxPushCurrent_v2(context)) return false;
  bool same = !d->f.cuCtxGetDevice(&device) && device == d->device;
  d->f.cuCtxPopCurrent_v2(&popped);
  return same;
}

static tg_status begin(cuda_device *d, void *native, char *message, size_t n) {
  int code;
  if (native && !takes_context(d, native))
    return snprintf(message, n, "this is no CUcontext of the device"), TG_EINVAL;
  d->context = native;
  if (!native && (code = d->f.cuDevicePrimaryCtxRetain(&d->context, d->device))) {
    d->context = NULL;
    return tg_cuda_failure(&d->f, message, n, "opening the device", code);
  }
  if (!(code = tg_cuda_enter(d))) {
    code = d->f.cuEventCreate(&d->zero, 0);
    tg_cuda_leave(d);
  }
  return code ? tg_cuda_failure(&d->f, message, n, "opening the device", code) : TG_OK;
}

static tg_status open_device(const tg_device *head, uint32_t i, tg_device **out, char *message, size_t n) {
  cuda_device *d = head->allocator.alloc(head->allocator.user, sizeof *d);
  if (!d) return snprintf(message, n, "out of memory"), TG_ENOMEM;
  *d = (cuda_device){.head = *head};
  d->head.driver = &tg_driver_cuda;
  d->head.target = &d->target;
  bool there = tg_cuda_library(&d->f);
  if (!there || d->f.missing || d->f.cuDeviceGet(&d->device, (int)i) || !fill_target(d)) {
    if (there) dlclose(d->f.library);
    head->allocator.free(head->allocator.user, d, sizeof *d);
    return snprintf(message, n, "the device is gone"), TG_MISS;
  }
  tg_status s = begin(d, head->native, message, n);
  if (s == TG_OK) *out = &d->head;
  else close_device(&d->head);
  return s;
}

/* ---- memory ---- */

enum { PORTABLE = 1, DEVICEMAP = 2 };   /* CU_MEMHOSTALLOC_, CU_MEMHOSTREGISTER_ */

static tg_status alloc_memory(tg_device *device, uint32_t kind, tg_piece *p, char *message, size_t n) {
  cuda_device *d = (cuda_device *)device;
  cuda_address at = 0;
  void *host = NULL;
  size_t bytes = p->bytes ? p->bytes : 1;
  int code = tg_cuda_enter(d);
  if (code) return tg_cuda_failure(&d->f, message, n, "reaching the context", code);
  p->origin = kind == TG_MEMORY_HOST ? CUDA_PINNED : CUDA_OWN;
  code = kind == TG_MEMORY_HOST ? d->f.cuMemHostAlloc(&host, bytes, PORTABLE | DEVICEMAP)
                                : d->f.cuMemAlloc_v2(&at, bytes);
  p->at = kind == TG_MEMORY_HOST ? host : (char *)(uintptr_t)at;
  tg_cuda_leave(d);
  return code ? tg_cuda_failure(&d->f, message, n, "allocating memory", code) : TG_OK;
}

static tg_status import_native(const cuda_device *d, tg_piece *p, char *message, size_t n) {
  enum { DEVICE_ORDINAL = 9 };
  int ordinal = -1;
  if (d->f.cuPointerGetAttribute(&ordinal, DEVICE_ORDINAL, (cuda_address)(uintptr_t)p->at) || ordinal != d->device)
    return snprintf(message, n, "this is no memory of CUDA on the device"), TG_EINVAL;
  p->origin = CUDA_NATIVE;
  return TG_OK;
}

static tg_status import_pages(const cuda_device *d, tg_piece *p, char *message, size_t n) {
  enum { INVALID_VALUE = 1, ALREADY_REGISTERED = 712, NOT_SUPPORTED = 801 };
  cuda_address at = 0;
  p->own = (void *)(uintptr_t)p->at, p->origin = CUDA_PAGES;
  int code = d->f.cuMemHostRegister_v2(p->own, p->bytes, PORTABLE | DEVICEMAP);
  if (code == INVALID_VALUE || code == ALREADY_REGISTERED || code == NOT_SUPPORTED) {
    tg_cuda_failure(&d->f, message, n, "importing pages", code);
    return TG_EINVAL;
  }
  if (!code && (code = d->f.cuMemHostGetDevicePointer_v2(&at, p->own, 0))) d->f.cuMemHostUnregister(p->own);
  p->at = (char *)(uintptr_t)at;
  return code ? tg_cuda_failure(&d->f, message, n, "importing pages", code) : TG_OK;
}

static tg_status import_memory(tg_device *device, uint32_t what, tg_piece *p, char *message, size_t n) {
  cuda_device *d = (cuda_device *)device;
  int code = tg_cuda_enter(d);
  if (code) return tg_cuda_failure(&d->f, message, n, "reaching the context", code);
  tg_status s = what == TG_IMPORT_NATIVE ? import_native(d, p, message, n) : import_pages(d, p, message, n);
  tg_cuda_leave(d);
  return s;
}

static void free_memory(tg_device *device, const tg_piece *p) {
  cuda_device *d = (cuda_device *)device;
  if (p->origin == CUDA_OWN) TG_CUDA_GIVE_BACK(d, d->f.cuMemFree_v2((cuda_address)(uintptr_t)p->at));
  if (p->origin == CUDA_PINNED) TG_CUDA_GIVE_BACK(d, d->f.cuMemFreeHost((void *)(uintptr_t)p->at));
  if (p->origin == CUDA_PAGES) TG_CUDA_GIVE_BACK(d, d->f.cuMemHostUnregister(p->own));
}

/* Of one chip, contexts of two devices of tg see each other's memory at once. */
static tg_status make_peer(tg_device *device, tg_device *other, char *message, size_t n) {
  enum { ALREADY_ENABLED = 704 };
  cuda_device *d = (cuda_device *)device, *o = (cuda_device *)other;
  int can = 0;
  if (d->device == o->device) return TG_OK;
  int code = d->f.cuDeviceCanAccessPeer(&can, d->device, o->device);
  if (!code && !can) return snprintf(message, n, "the driver knows no way between these two devices"), TG_EINVAL;
  if (!code && !(code = tg_cuda_enter(d))) {
    code = d->f.cuCtxEnablePeerAccess(o->context, 0);
    tg_cuda_leave(d);
  }
  return code && code != ALREADY_ENABLED ? tg_cuda_failure(&d->f, message, n, "reaching the other device", code)
                                         : TG_OK;
}

const tg_driver tg_driver_cuda = {.name = "cuda",
                                  .describe = tg_cuda_describe,
                                  .open = open_device,
                                  .close = close_device,
                                  .alloc = alloc_memory,
                                  .import = import_memory,
                                  .free = free_memory,
                                  .load = tg_cuda_load,
                                  .unload = tg_cuda_unload,
                                  .queue_open = tg_cuda_queue_open,
                                  .queue_close = tg_cuda_queue_close,
                                  .launch = tg_cuda_launch,
                                  .copy = tg_cuda_copy,
                                  .after = tg_cuda_after,
                                  .stamp = tg_cuda_stamp,
                                  .submit = tg_cuda_submit,
                                  .wait = tg_cuda_wait,
                                  .stamps = tg_cuda_stamps,
                                  .peer = make_peer,
                                  .graph_make = tg_cuda_graph_make,
                                  .graph_put = tg_cuda_graph_put,
                                  .graph_drop = tg_cuda_graph_drop};
