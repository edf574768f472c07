/* SPDX-License-Identifier: MIT
 * Devices of NVIDIA, through the driver alone: opening, memory, peers. A kernel's object is PTX, which the driver's own
 * compiler translates when the kernel is loaded (kernel.c). An address is the same on host and device, since the driver
 * keeps one space of addresses. CUDA Driver API Reference Manual. */
#include <dlfcn.h>
#include "devices/cuda/cuda.h"

/* ---- the device ---- */

/* Call with the context current. */
static void give_back(const cuda_device *d, const tg_piece *p) {
  if (p->origin == CUDA_OWN) d->f.cuMemFree_v2((cuda_address)(uintptr_t)p->at);
  if (p->origin == CUDA_PINNED) d->f.cuMemFreeHost((void *)(uintptr_t)p->at);
  if (p->origin == CUDA_PAGES) d->f.cuMemHostUnregister(p->own);
}

static void give_all_back(cuda_device *d) {
  for (size_t i = 0; i < d->pieces.n; i++) give_back(d, &d->pieces.piece[i]);
  if (d->zero) d->f.cuEventDestroy_v2(d->zero);
}

static void close_device(tg_device *device) {
  cuda_device *d = (cuda_device *)device;
  tg_allocator a = d->head.allocator;
  if (d->context) TG_CUDA_GIVE_BACK(d, give_all_back(d));
  for (cuda_peer *p = d->peers, *next; p; p = next) next = p->next, a.free(a.user, p, sizeof *p);
  tg_pieces_close(&d->pieces, &a);
  if (d->context && !device->native) d->f.cuDevicePrimaryCtxRelease_v2(d->device);
  dlclose(d->f.library);
  pthread_mutex_destroy(&d->lock);
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
  pthread_mutex_init(&d->lock, NULL);
  tg_pieces_open(&d->pieces);
  tg_status s = begin(d, head->native, message, n);
  if (s == TG_OK) *out = &d->head;
  else close_device(&d->head);
  return s;
}

/* ---- memory ---- */

static tg_status keep_piece(cuda_device *d, tg_piece piece, void **out, char *message, size_t n) {
  if (tg_pieces_add(&d->pieces, &d->head.allocator, piece, message, n))
    return *out = (void *)(uintptr_t)piece.at, TG_OK;
  give_back(d, &piece);
  return TG_ENOMEM;
}

enum { PORTABLE = 1, DEVICEMAP = 2 };   /* CU_MEMHOSTALLOC_, CU_MEMHOSTREGISTER_ */

tg_status tg_cuda_alloc(tg_device *device, size_t bytes, uint32_t kind, void **out, char *message, size_t n) {
  cuda_device *d = (cuda_device *)device;
  tg_piece piece = {.bytes = bytes, .origin = kind == TG_MEMORY_HOST ? CUDA_PINNED : CUDA_OWN};
  cuda_address at = 0;
  void *host = NULL;
  int code = tg_cuda_enter(d);
  if (code) return tg_cuda_failure(&d->f, message, n, "reaching the context", code);
  if (kind == TG_MEMORY_HOST) code = d->f.cuMemHostAlloc(&host, bytes ? bytes : 1, PORTABLE | DEVICEMAP);
  else code = d->f.cuMemAlloc_v2(&at, bytes ? bytes : 1);
  piece.at = kind == TG_MEMORY_HOST ? host : (char *)(uintptr_t)at;
  tg_status s = code ? tg_cuda_failure(&d->f, message, n, "allocating memory", code)
                     : keep_piece(d, piece, out, message, n);
  tg_cuda_leave(d);
  return s;
}

static tg_status import_native(cuda_device *d, void *memory, size_t bytes, void **out, char *message, size_t n) {
  enum { DEVICE_ORDINAL = 9 };
  int ordinal = -1;
  if (d->f.cuPointerGetAttribute(&ordinal, DEVICE_ORDINAL, (cuda_address)(uintptr_t)memory) || ordinal != d->device)
    return snprintf(message, n, "this is no memory of CUDA on the device"), TG_EINVAL;
  return keep_piece(d, (tg_piece){.at = memory, .bytes = bytes, .origin = CUDA_NATIVE}, out, message, n);
}

static tg_status import_pages(cuda_device *d, void *memory, size_t bytes, void **out, char *message, size_t n) {
  enum { INVALID_VALUE = 1, ALREADY_REGISTERED = 712, NOT_SUPPORTED = 801 };
  cuda_address at = 0;
  int code = d->f.cuMemHostRegister_v2(memory, bytes, PORTABLE | DEVICEMAP);
  if (code == INVALID_VALUE || code == ALREADY_REGISTERED || code == NOT_SUPPORTED) {
    tg_cuda_failure(&d->f, message, n, "importing pages", code);
    return TG_EINVAL;
  }
  if (!code && (code = d->f.cuMemHostGetDevicePointer_v2(&at, memory, 0))) d->f.cuMemHostUnregister(memory);
  if (code) return tg_cuda_failure(&d->f, message, n, "importing pages", code);
  tg_piece piece = {.at = (char *)(uintptr_t)at, .bytes = bytes, .own = memory, .origin = CUDA_PAGES};
  return keep_piece(d, piece, out, message, n);
}

tg_status tg_cuda_import(tg_device *device, uint32_t what, void *memory, size_t bytes, void **out, char *message,
                         size_t n) {
  cuda_device *d = (cuda_device *)device;
  int code = tg_cuda_enter(d);
  if (code) return tg_cuda_failure(&d->f, message, n, "reaching the context", code);
  tg_status s = what == TG_IMPORT_NATIVE ? import_native(d, memory, bytes, out, message, n)
                                         : import_pages(d, memory, bytes, out, message, n);
  tg_cuda_leave(d);
  return s;
}

void tg_cuda_free(tg_device *device, void *memory) {
  cuda_device *d = (cuda_device *)device;
  tg_piece piece;
  if (tg_pieces_take(&d->pieces, memory, &piece)) TG_CUDA_GIVE_BACK(d, give_back(d, &piece));
}

/* In memory of the device or of its peers? */
static bool has(void *device, const void *memory, size_t bytes) {
  cuda_device *d = device;
  if (tg_pieces_have(&d->pieces, memory, bytes)) return true;
  pthread_mutex_lock(&d->lock);
  const cuda_peer *p = d->peers;
  pthread_mutex_unlock(&d->lock);   /* peers are only added, at the front */
  while (p && !tg_pieces_have(&((cuda_device *)p->device)->pieces, memory, bytes)) p = p->next;
  return p != NULL;
}

tg_status tg_cuda_owned(cuda_device *d, const cuda_kernel *k, const tg_work *w, char *message, size_t n) {
  return tg_device_owns(&k->head, w, has, d, message, n);
}

/* ---- peers ---- */

static bool is_peer(cuda_device *d, const tg_device *other) {
  pthread_mutex_lock(&d->lock);
  const cuda_peer *p = d->peers;
  while (p && p->device != other) p = p->next;
  pthread_mutex_unlock(&d->lock);
  return p != NULL;
}

/* Of one chip, contexts of two devices of tg see each other's memory at once. */
tg_status tg_cuda_peer(tg_device *device, tg_device *other, char *message, size_t n) {
  enum { ALREADY_ENABLED = 704 };
  cuda_device *d = (cuda_device *)device, *o = (cuda_device *)other;
  const tg_allocator *a = &device->allocator;
  int can = 0, code = 0;
  if (is_peer(d, other)) return TG_OK;
  if (d->device != o->device) {
    code = d->f.cuDeviceCanAccessPeer(&can, d->device, o->device);
    if (!code && !can) return snprintf(message, n, "the driver knows no way between these two devices"), TG_EINVAL;
    if (!code && !(code = tg_cuda_enter(d))) {
      code = d->f.cuCtxEnablePeerAccess(o->context, 0);
      tg_cuda_leave(d);
    }
    if (code && code != ALREADY_ENABLED) return tg_cuda_failure(&d->f, message, n, "reaching the other device", code);
  }
  cuda_peer *p = a->alloc(a->user, sizeof *p);
  if (!p) return snprintf(message, n, "out of memory"), TG_ENOMEM;
  p->device = other;
  pthread_mutex_lock(&d->lock);
  p->next = d->peers;
  d->peers = p;
  pthread_mutex_unlock(&d->lock);
  return TG_OK;
}

const tg_driver tg_driver_cuda = {.name = "cuda",
                                  .describe = tg_cuda_describe,
                                  .open = open_device,
                                  .close = close_device,
                                  .alloc = tg_cuda_alloc,
                                  .import = tg_cuda_import,
                                  .free = tg_cuda_free,
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
                                  .peer = tg_cuda_peer,
                                  .graph_make = tg_cuda_graph_make,
                                  .graph_put = tg_cuda_graph_put,
                                  .graph_drop = tg_cuda_graph_drop};
