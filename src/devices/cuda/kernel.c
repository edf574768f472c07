/* SPDX-License-Identifier: MIT
 * Kernels on NVIDIA's devices: PTX to a module, and a launch's phases, each a launch of the driver's, in order on the
 * queue's stream. */
#include "devices/cuda/cuda.h"

enum { LOCAL_UNASKED = 48 << 10 };   /* bytes of dynamic LOCAL that every function may have */

static cuda_device *device_of(const cuda_kernel *k) { return (cuda_device *)k->head.device; }
static uint32_t functions_of(const cuda_kernel *k) { return 2 * k->head.info.phases; }

void tg_cuda_unload(tg_device_kernel *head) {
  cuda_kernel *k = (cuda_kernel *)head;
  cuda_device *d = device_of(k);
  tg_allocator a = d->head.allocator;
  if (k->module) TG_CUDA_GIVE_BACK(d, d->f.cuModuleUnload(k->module));
  if (k->entry) a.free(a.user, k->entry, (functions_of(k) + 1) * sizeof *k->entry);
  tg_device_kernel_drop(&k->head);
  a.free(a.user, k, sizeof *k);
}

/* The driver's compiler says what it does not like in a log. */
static tg_status load_module(cuda_kernel *k, const char *text, char *message, size_t n) {
  enum { ERROR_LOG = 5, ERROR_LOG_BYTES = 6 };   /* CUjit_option */
  enum { INVALID_IMAGE = 200, NO_BINARY = 209, INVALID_PTX = 218, UNSUPPORTED_PTX = 222 };
  const cuda_functions *f = &device_of(k)->f;
  char log[2048] = "";
  int options[] = {ERROR_LOG, ERROR_LOG_BYTES};
  void *values[] = {log, (void *)(uintptr_t)(sizeof log - 1)};
  int code = f->cuModuleLoadDataEx(&k->module, text, TG_COUNT(options), options, values);
  if (!code) return TG_OK;
  k->module = NULL;
  tg_status s = tg_cuda_failure(f, message, n, "the driver's compiler", code);
  size_t at = strlen(message);
  if (code == UNSUPPORTED_PTX) snprintf(message + at, n - at, "; a newer driver knows this PTX");
  else if (log[0]) snprintf(message + at, n - at, ": %s", log);
  return code == INVALID_IMAGE || code == NO_BINARY || code == INVALID_PTX || code == UNSUPPORTED_PTX ? TG_EBACKEND : s;
}

/* Functions must ask for more dynamic LOCAL than all may have. What is left beside a function's own is requested, which
 * costs nothing: each launch takes what it needs. */
static tg_status ask_for_local(const cuda_device *d, cuda_entry *e, char *message, size_t n) {
  enum { OWN_LOCAL = 1, DYNAMIC_LOCAL = 8 };     /* CUfunction_attribute */
  int own = 0, code = d->f.cuFuncGetAttribute(&own, OWN_LOCAL, e->function);
  e->local = LOCAL_UNASKED - own;
  int most = tg_cuda_attribute(&d->f, d->device, CUDA_LOCAL) - own;
  if (!code && most > e->local) code = d->f.cuFuncSetAttribute(e->function, DYNAMIC_LOCAL, e->local = most);
  return code ? tg_cuda_failure(&d->f, message, n, "asking for LOCAL", code) : TG_OK;
}

/* The object may come from the cache; each launch checks the words of its grid (tg_grid_of). */
static tg_status check(const tg_device_object *o, char *message, size_t n) {
  if (!o->bytes || ((const char *)o->data)[o->bytes - 1])
    return snprintf(message, n, "the object is no text of a kernel"), TG_INTERNAL;
  if ((uint64_t)o->info->buffers + o->info->params < CUDA_ARGUMENTS) return TG_OK;
  return snprintf(message, n, "a kernel of %u buffers and %u parameters: CUDA passes fewer than %d", o->info->buffers,
                  o->info->params, CUDA_ARGUMENTS),
         TG_ELIMIT;
}

static tg_status build(cuda_kernel *k, const tg_device_object *o, char *message, size_t n) {
  cuda_device *d = device_of(k);
  const char *name = tg_signature_strings(k->head.signature) + k->head.signature->name;
  tg_status s = load_module(k, o->data, message, n);
  for (uint32_t i = 0; i < functions_of(k) && s == TG_OK; i++) {
    char function[256];
    bool unaligned = i % 2 && k->head.info.aligned;
    snprintf(function, sizeof function, "%s_%u%s", name, i / 2, unaligned ? "_unaligned" : "");
    int code = d->f.cuModuleGetFunction(&k->entry[i].function, k->module, function);
    if (code) s = tg_cuda_failure(&d->f, message, n, "finding a function of the kernel", code);
    else s = ask_for_local(d, &k->entry[i], message, n);
  }
  k->head.scratch = (size_t)o->info->shared;
  return s;
}

static tg_status fill(tg_device_kernel *head, const tg_device_object *o, char *message, size_t n) {
  cuda_kernel *k = (cuda_kernel *)head;
  cuda_device *d = device_of(k);
  const tg_allocator *a = &head->device->allocator;
  tg_status s = check(o, message, n);
  if (s != TG_OK) return s;
  k->entry = a->alloc(a->user, (functions_of(k) + 1) * sizeof *k->entry);   /* there may be none */
  if (!k->entry) return snprintf(message, n, "out of memory"), TG_ENOMEM;
  int code = tg_cuda_enter(d);
  if (code) return tg_cuda_failure(&d->f, message, n, "reaching the context", code);
  s = build(k, o, message, n);
  tg_cuda_leave(d);
  return s;
}

tg_status tg_cuda_load(tg_device *d, const tg_device_object *o, tg_device_kernel **out, tg_env *err) {
  return tg_device_kernel_load(&tg_driver_cuda, d, sizeof(cuda_kernel), o, fill, out, err);
}

/* ---- launches ---- */

void tg_cuda_arguments(const cuda_kernel *k, const tg_work *w, void *arguments[CUDA_ARGUMENTS]) {
  uint32_t n = 0;
  for (uint32_t b = 0; b < k->head.info.buffers; b++) arguments[n++] = (void *)&w->buffers[b];
  if (k->head.info.shared) arguments[n++] = (void *)&w->workspace;
  for (uint32_t p = 0; p < k->head.info.params; p++) arguments[n++] = (void *)(uintptr_t)&w->params[p];
}

tg_status tg_cuda_shape(const cuda_kernel *k, const tg_work *w, uint32_t phase, cuda_shape *out, bool *empty,
                        char *message, size_t n) {
  uint32_t i = 2 * phase + tg_device_unaligned(&k->head, w);
  const tg_grid_limits most = {.local = (uint64_t)k->entry[i].local, .threads = UINT32_MAX};
  tg_grid g;
  tg_status s = tg_device_kernel_grid(&k->head, w, phase, &most, &g, message, n);
  if (s != TG_OK) return s;
  *out = (cuda_shape){.function = k->entry[i].function, .threads = {g.threads, 1, 1}, .local = (unsigned)g.local};
  *empty = false;
  for (int x = 0; x < 3; x++) *empty |= g.groups[x] == 0, out->groups[x] = (unsigned)g.groups[x];
  return TG_OK;
}

tg_status tg_cuda_launch(tg_queue *head, tg_device_kernel *kernel, const tg_work *w, char *message, size_t n) {
  cuda_queue *q = (cuda_queue *)head;
  cuda_kernel *k = (cuda_kernel *)kernel;
  cuda_device *d = device_of(k);
  void *arguments[CUDA_ARGUMENTS];
  cuda_shape s;
  bool empty;
  tg_status status = tg_device_owns(kernel, w, message, n);
  if (status != TG_OK) return status;
  tg_cuda_arguments(k, w, arguments);
  int code = tg_cuda_enter(d);
  if (code) return tg_cuda_failure(&d->f, message, n, "reaching the context", code);
  for (uint32_t p = 0; p < kernel->info.phases && status == TG_OK; p++) {
    status = tg_cuda_shape(k, w, p, &s, &empty, message, n);
    if (status != TG_OK || empty) continue;
    code = d->f.cuLaunchKernel(s.function, s.groups[0], s.groups[1], s.groups[2], s.threads[0], 1, 1, s.local,
                               q->stream, arguments, NULL);
    if (code) status = tg_cuda_failure(&d->f, message, n, "a launch", code);
  }
  tg_cuda_leave(d);
  return status;
}
