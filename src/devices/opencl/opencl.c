/* SPDX-License-Identifier: MIT
 * Devices of OpenCL 2.0 and later. A kernel's object is SPIR-V (src/jit/emit_tasks.c) where the device takes it, else
 * source text (src/source); the device's own compiler compiles it when the kernel is loaded. Memory is coarse-grained
 * shared virtual memory: an address is the same on host and device, so the code that checks host memory checks it too.
 * OpenCL 3.0, API specification, and OpenCL C 1.2. */
#include <dlfcn.h>
#include "devices/opencl/opencl.h"

/* ---- the device and its memory ---- */

enum { OWN, IMPORTED };   /* origins of pieces */

static void close_device(tg_device *device) {
  opencl_device *d = (opencl_device *)device;
  tg_allocator a = d->head.allocator;
  if (d->context) d->f.clReleaseContext(d->context);
  dlclose(d->f.library);
  pthread_mutex_destroy(&d->lock);
  a.free(a.user, d, sizeof *d);
}

static void fill_target(opencl_device *d) {
  char name[128], version[64], extensions[4096];
  tg_target *t = &d->target;
  bool spirv = tg_opencl_takes_spirv(&d->f, d->device);
  tg_target_row(t, spirv ? "spirv" : "opencl");
  tg_opencl_text(&d->f, d->device, CL_NAME, name, sizeof name);
  tg_opencl_text(&d->f, d->device, CL_DRIVER_VERSION, version, sizeof version);
  tg_opencl_text(&d->f, d->device, CL_EXTENSIONS, extensions, sizeof extensions);
  const uint64_t all = CL_DENORMALS | CL_NAN_INFINITY | CL_NEAREST;
  bool f64 = (tg_opencl_number(&d->f, d->device, CL_DOUBLE_FLAGS) & all) == all,
       atomics = strstr(extensions, "cl_khr_int64_base_atomics") != NULL;
  snprintf(t->features, sizeof t->features, "%s%s%s", f64 ? "fp64 " : "", atomics ? "int64_atomics" : "",
           spirv ? " spirv" : "");
  /* tuned choices are for a chip and the major version of its driver */
  snprintf(t->silicon, sizeof t->silicon, "%.100s driver %.*s %.40s", name, (int)strcspn(version, ". "), version,
           t->features);
  t->threads = (uint32_t)tg_opencl_number(&d->f, d->device, CL_COMPUTE_UNITS);
}

/* The program's context must have this device. */
static bool takes_context(const opencl_device *d, void *context) {
  enum { MOST = 64 };
  opencl_handle of[MOST];
  size_t bytes = 0;
  if (d->f.clGetContextInfo(context, CL_CONTEXT_DEVICES, sizeof of, of, &bytes)) return false;
  for (size_t i = 0; i < bytes / sizeof *of; i++)
    if (of[i] == d->device) return true;
  return false;
}

static tg_status open_device(const tg_device *head, uint32_t i, tg_device **out, char *message, size_t n) {
  int code = 0;
  opencl_device *d = head->allocator.alloc(head->allocator.user, sizeof *d);
  if (!d) return snprintf(message, n, "out of memory"), TG_ENOMEM;
  *d = (opencl_device){.head = *head};
  d->head.driver = &tg_driver_opencl;
  d->head.target = &d->target;
  if (!tg_opencl_library(&d->f) || !(d->device = tg_opencl_find(&d->f, i))) {
    if (d->f.library) dlclose(d->f.library);
    head->allocator.free(head->allocator.user, d, sizeof *d);
    return snprintf(message, n, "the device is gone"), TG_MISS;
  }
  pthread_mutex_init(&d->lock, NULL);
  fill_target(d);
  d->tasks_alone = (tg_opencl_number(&d->f, d->device, CL_DEVICE_TYPE) & CL_TYPE_CPU) != 0;
  *out = &d->head;
  if (!head->native) d->context = d->f.clCreateContext(NULL, 1, &d->device, NULL, NULL, &code);
  else if (takes_context(d, head->native) && !(code = d->f.clRetainContext(head->native))) d->context = head->native;
  if (d->context) return TG_OK;
  close_device(&d->head);
  if (head->native) return snprintf(message, n, "this is no cl_context with the device"), TG_EINVAL;
  return tg_opencl_failure(message, n, "opening the device", code);
}

static tg_status alloc_memory(tg_device *device, uint32_t kind, tg_piece *p, char *message, size_t n) {
  opencl_device *d = (opencl_device *)device;
  bool host = kind == TG_MEMORY_HOST;
  if (host && !(tg_opencl_number(&d->f, d->device, CL_SVM) & CL_SVM_FINE))
    return snprintf(message, n, "this device has no memory that the host reaches at once (fine-grained SVM)"),
           TG_EINVAL;
  p->at = d->f.clSVMAlloc(d->context, CL_READ_WRITE | (host ? CL_MEM_FINE : 0), p->bytes ? p->bytes : 1, 64);
  p->origin = OWN;
  return p->at ? TG_OK : (snprintf(message, n, "out of memory: %zu bytes of the device's", p->bytes), TG_ENOMEM);
}

static tg_status import_memory(tg_device *device, uint32_t what, tg_piece *p, char *message, size_t n) {
  opencl_device *d = (opencl_device *)device;
  if (what == TG_IMPORT_NATIVE && !device->native)
    return snprintf(message, n, "memory of OpenCL is imported where the device was opened with its cl_context"),
           TG_EINVAL;
  if (what == TG_IMPORT_PAGES && !(tg_opencl_number(&d->f, d->device, CL_SVM) & CL_SVM_SYSTEM))
    return snprintf(message, n, "this device cannot reach memory of the process (SVM of the system)"), TG_EINVAL;
  p->origin = IMPORTED;
  return TG_OK;
}

static void free_memory(tg_device *device, const tg_piece *p) {
  const opencl_device *d = (const opencl_device *)device;
  if (p->origin == OWN) d->f.clSVMFree(d->context, (void *)(uintptr_t)p->at);
}

/* ---- kernels ---- */

typedef struct {
  tg_device_kernel head;
  opencl_handle program, *kernel;     /* phases, then turns of loops */
  size_t items;                /* at a time; each has its part of the workspace, which is behind the shared memory */
} cl_kernel;

static opencl_device *device_of(const cl_kernel *k) { return (opencl_device *)k->head.device; }
static uint32_t kernels_of(const cl_kernel *k) { return k->head.info.phases + k->head.info.loops; }

static void unload(tg_device_kernel *head) {
  cl_kernel *k = (cl_kernel *)head;
  opencl_device *d = device_of(k);
  tg_allocator a = d->head.allocator;
  for (uint32_t i = 0; k->kernel && i < kernels_of(k); i++)
    if (k->kernel[i]) d->f.clReleaseKernel(k->kernel[i]);
  if (k->program) d->f.clReleaseProgram(k->program);
  if (k->kernel) a.free(a.user, k->kernel, kernels_of(k) * sizeof *k->kernel);
  tg_device_kernel_drop(head);
  a.free(a.user, k, sizeof *k);
}

/* Is the list of steps valid? It may come from the cache, which is not trusted: steps must name phases and loops that
 * exist, and end where they should. */
static bool steps_valid(const tg_code_info *info) {
  if (info->launch_n < 1 || info->launch[0] < 0 || (uint64_t)info->launch[0] + 1 + info->phases != info->launch_n)
    return false;
  const int64_t *s = info->launch + 1, *end = s + info->launch[0];
  while (s < end) {   /* steps inside loops are checked too */
    if (*s >= 0 ? *s >= info->phases : ~*s >= info->loops || end - s < 2 || s[1] < 0 || s[1] > end - s - 2)
      return false;
    s += *s >= 0 ? 1 : 2;
  }
  return true;
}

/* Version 2.3 of the SPIR-V specification, section 2.3: the first word. */
static bool is_spirv(const void *data, size_t bytes) {
  const uint32_t magic = 0x07230203;
  return bytes > sizeof magic && bytes % sizeof magic == 0 && !memcmp(data, &magic, sizeof magic);
}

static tg_status build(cl_kernel *k, const tg_device_object *o, char *message, size_t n) {
  opencl_device *d = device_of(k);
  const char *source = o->data;
  size_t length = o->bytes - 1;
  int code;
  bool spirv = is_spirv(o->data, o->bytes);
  if (spirv && !tg_opencl_takes_spirv(&d->f, d->device))
    return snprintf(message, n, "the kernel is SPIR-V, which this device does not take"), TG_EINVAL;
  k->program = spirv ? d->f.clCreateProgramWithIL(d->context, o->data, o->bytes, &code)
                     : d->f.clCreateProgramWithSource(d->context, 1, &source, &length, &code);
  if (!k->program) return tg_opencl_failure(message, n, spirv ? "taking SPIR-V" : "taking the text", code);
  char options[96];
  snprintf(options, sizeof options, "-cl-fp32-correctly-rounded-divide-sqrt%s%s", spirv ? "" : " -cl-std=CL1.2",
           d->tasks_alone && !spirv ? " -DTG_ALONE" : "");
  if ((code = d->f.clBuildProgram(k->program, 1, &d->device, options, NULL, NULL))) {
    int at = snprintf(message, n, "OpenCL: the device's compiler refuses the %s (%d): ", spirv ? "SPIR-V" : "text",
                      code);
    if (at > 0 && (size_t)at < n)
      d->f.clGetProgramBuildInfo(k->program, d->device, CL_BUILD_LOG, n - (size_t)at - 1, message + at, NULL);
    return TG_EBACKEND;
  }
  for (uint32_t i = 0; i < kernels_of(k); i++) {
    char name[32];
    bool phase = i < k->head.info.phases;
    snprintf(name, sizeof name, "tg_%s_%u", phase ? "phase" : "turns", phase ? i : i - k->head.info.phases);
    if (!(k->kernel[i] = d->f.clCreateKernel(k->program, name, &code)))
      return tg_opencl_failure(message, n, "finding a kernel", code);
  }
  enum { MOST_ITEMS = 1024 };
  const size_t most_bytes = (size_t)256 << 20;
  k->items = MOST_ITEMS;
  if (o->info->workspace && k->items > most_bytes / o->info->workspace) k->items = most_bytes / o->info->workspace;
  if (!k->items) k->items = 1;
  /* there is always some: a buffer of no bytes is passed as an address in it */
  k->head.scratch = (size_t)o->info->shared + k->items * (size_t)o->info->workspace;
  if (!k->head.scratch) k->head.scratch = 64;
  return TG_OK;
}

static tg_status fill(tg_device_kernel *head, const tg_device_object *o, char *message, size_t n) {
  cl_kernel *k = (cl_kernel *)head;
  const tg_allocator *a = &head->device->allocator;
  bool code = o->bytes && (is_spirv(o->data, o->bytes) || !((const char *)o->data)[o->bytes - 1]);
  if (!code || !steps_valid(&head->info))
    return snprintf(message, n, "the object is neither text nor SPIR-V of a kernel"), TG_INTERNAL;
  size_t bytes = kernels_of(k) * sizeof *k->kernel;
  if (!(k->kernel = a->alloc(a->user, bytes ? bytes : 1))) return snprintf(message, n, "out of memory"), TG_ENOMEM;
  memset(k->kernel, 0, bytes);
  return build(k, o, message, n);
}

static tg_status load(tg_device *d, const tg_device_object *o, tg_device_kernel **out, tg_env *err) {
  return tg_device_kernel_load(&tg_driver_opencl, d, sizeof(cl_kernel), o, fill, out, err);
}

/* ---- launches ---- */

typedef struct { opencl_handle queue; cl_kernel *k; const tg_work *w; int code; } run;

static void enqueue(run *r, uint32_t kernel, size_t items) {
  cl_kernel *k = r->k;
  opencl_device *d = device_of(k);
  size_t one = 1;
  if (!r->code)
    r->code = d->f.clEnqueueNDRangeKernel(r->queue, k->kernel[kernel], 1, NULL, &items, d->tasks_alone ? &one : NULL, 0,
                                          NULL, NULL);
}

static void take_steps(run *r, const int64_t *s, const int64_t *end, uint32_t depth) {
  cl_kernel *k = r->k;
  opencl_device *d = device_of(k);
  const int64_t *launch = k->head.info.launch, *tasks = launch + 1 + launch[0];
  enum { DAMAGED = -1 };
  for (; s < end && !r->code; s += *s >= 0 ? 1 : 2 + s[1]) {
    if (*s >= 0) {
      size_t most = !tasks[*s] || (uint64_t)tasks[*s] > k->items ? k->items : (size_t)tasks[*s];
      enqueue(r, (uint32_t)*s, most);
      continue;
    }
    int64_t turns = 0, *at = (int64_t *)(void *)r->w->workspace + depth;
    /* no room for the loop's counter: the file in the cache is damaged */
    if (8 * ((uint64_t)depth + 1) > k->head.info.shared) r->code = DAMAGED;
    if (r->code) return;
    enqueue(r, k->head.info.phases + (uint32_t)~*s, 1);
    if (!r->code) r->code = d->f.clEnqueueSVMMemcpy(r->queue, 1, &turns, at, sizeof turns, 0, NULL, NULL);
    for (int64_t i = 0; i < turns && !r->code; i++) {
      r->code = d->f.clEnqueueSVMMemcpy(r->queue, 1, at, &i, sizeof i, 0, NULL, NULL);
      take_steps(r, s + 2, s + 2 + s[1], depth + 1);
    }
  }
}

static void set_arguments(run *r) {
  cl_kernel *k = r->k;
  const opencl_functions *f = &device_of(k)->f;
  uint32_t buffers = k->head.info.buffers;
  char *items = r->w->workspace + k->head.info.shared;   /* their workspaces; the end of the memory if there are none */
  for (uint32_t i = 0; i < kernels_of(k); i++) {
    for (uint32_t b = 0; b < buffers + 2 && !r->code; b++)
      r->code = f->clSetKernelArgSVMPointer(k->kernel[i], b,
                                            b < buffers && r->w->bytes[b] ? r->w->buffers[b]
                                            : b <= buffers                ? r->w->workspace
                                                                          : items);
    for (uint32_t p = 0; p < k->head.info.params && !r->code; p++)
      r->code = f->clSetKernelArg(k->kernel[i], buffers + 2 + p, sizeof(int64_t), &r->w->params[p]);
  }
}

static tg_status launch(tg_queue *q, tg_device_kernel *head, const tg_work *w, char *message, size_t n) {
  run r = {.queue = ((opencl_queue *)q)->queue, .k = (cl_kernel *)head, .w = w};
  opencl_device *d = device_of(r.k);
  tg_status s = tg_device_owns(head, w, message, n);
  if (s != TG_OK) return s;
  pthread_mutex_lock(&d->lock);
  set_arguments(&r);
  const int64_t *steps = head->info.launch + 1;
  if (!r.code) take_steps(&r, steps, steps + steps[-1], 0);
  pthread_mutex_unlock(&d->lock);
  return r.code ? tg_opencl_failure(message, n, "a launch", r.code) : TG_OK;
}

const tg_driver tg_driver_opencl = {.name = "opencl",
                                    .describe = tg_opencl_describe,
                                    .open = open_device,
                                    .close = close_device,
                                    .alloc = alloc_memory,
                                    .import = import_memory,
                                    .free = free_memory,
                                    .load = load,
                                    .unload = unload,
                                    .queue_open = tg_opencl_queue_open,
                                    .queue_close = tg_opencl_queue_close,
                                    .launch = launch,
                                    .copy = tg_opencl_copy,
                                    .after = tg_opencl_after,
                                    .stamp = tg_opencl_stamp,
                                    .submit = tg_opencl_submit,
                                    .wait = tg_opencl_wait,
                                    .stamps = tg_opencl_stamps};
