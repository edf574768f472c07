/* SPDX-License-Identifier: MIT
 * Devices of OpenCL 2.0 and later. libOpenCL is opened at run time, when a device is requested; nothing is linked. A
 * kernel's object is source text (src/source), which the device's own compiler compiles when the kernel is loaded.
 * Memory is coarse-grained shared virtual memory: an address is the same on host and device, so the code that checks
 * host memory checks it too. Each device has one in-order queue. OpenCL 3.0, API specification, and OpenCL C 1.2. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include "devices/device.h"

/* ---- what is used of CL/cl.h ---- */

typedef void *handle;
typedef uint64_t bits;
enum {
  DEVICE_TYPE = 0x1000,
  COMPUTE_UNITS = 0x1002,
  SINGLE_FLAGS = 0x101b,
  GLOBAL_BYTES = 0x101f,
  LITTLE_ENDIAN_ = 0x1026,
  COMPILER = 0x1028,
  NAME = 0x102b,
  DRIVER_VERSION = 0x102d,
  EXTENSIONS = 0x1030,
  DOUBLE_FLAGS = 0x1032,
  ADDRESS_BITS = 0x100d,
  SVM = 0x1053,
  BUILD_LOG = 0x1183
};
enum {
  TYPE_CPU = 1 << 1,
  SVM_COARSE = 1,
  DENORMALS = 1,
  NAN_INFINITY = 2,
  NEAREST = 4,
  DIVIDE_SQRT = 1 << 7,
  READ_WRITE = 1
};
static const bits all_types = 0xffffffff;

typedef struct {
  void *library;
  int (*clGetPlatformIDs)(unsigned, handle *, unsigned *);
  int (*clGetDeviceIDs)(handle, bits, unsigned, handle *, unsigned *);
  int (*clGetDeviceInfo)(handle, unsigned, size_t, void *, size_t *);
  handle (*clCreateContext)(const intptr_t *, unsigned, const handle *, void *, void *, int *);
  int (*clReleaseContext)(handle);
  handle (*clCreateCommandQueueWithProperties)(handle, handle, const bits *, int *);
  int (*clReleaseCommandQueue)(handle);
  handle (*clCreateProgramWithSource)(handle, unsigned, const char **, const size_t *, int *);
  int (*clBuildProgram)(handle, unsigned, const handle *, const char *, void *, void *);
  int (*clGetProgramBuildInfo)(handle, handle, unsigned, size_t, void *, size_t *);
  int (*clReleaseProgram)(handle);
  handle (*clCreateKernel)(handle, const char *, int *);
  int (*clReleaseKernel)(handle);
  int (*clSetKernelArg)(handle, unsigned, size_t, const void *);
  int (*clSetKernelArgSVMPointer)(handle, unsigned, const void *);
  int (*clEnqueueNDRangeKernel)(handle, handle, unsigned, const size_t *, const size_t *, const size_t *, unsigned,
                                const handle *, handle *);
  int (*clEnqueueSVMMemcpy)(handle, unsigned, void *, const void *, size_t, unsigned, const handle *, handle *);
  void *(*clSVMAlloc)(handle, bits, size_t, unsigned);
  void (*clSVMFree)(handle, void *);
  int (*clFlush)(handle);
  int (*clFinish)(handle);
} functions;

static bool open_library(functions *f) {
  static const struct { const char *name; size_t at;
  } names[] = {
#define F(name) {#name, offsetof(functions, name)}
      F(clGetPlatformIDs),
      F(clGetDeviceIDs),
      F(clGetDeviceInfo),
      F(clCreateContext),
      F(clReleaseContext),
      F(clCreateCommandQueueWithProperties),
      F(clReleaseCommandQueue),
      F(clCreateProgramWithSource),
      F(clBuildProgram),
      F(clGetProgramBuildInfo),
      F(clReleaseProgram),
      F(clCreateKernel),
      F(clReleaseKernel),
      F(clSetKernelArg),
      F(clSetKernelArgSVMPointer),
      F(clEnqueueNDRangeKernel),
      F(clEnqueueSVMMemcpy),
      F(clSVMAlloc),
      F(clSVMFree),
      F(clFlush),
      F(clFinish)
#undef F
  };
  /* NODELETE: drivers have threads that run on after the library is closed */
  f->library = dlopen("libOpenCL.so.1", RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  for (uint32_t i = 0; f->library && i < TG_COUNT(names); i++) {
    void *at = dlsym(f->library, names[i].name);
    if (!at) {                 /* older than 2.0 */
      dlclose(f->library);
      return false;
    }
    memcpy((char *)f + names[i].at, &at, sizeof at);
  }
  return f->library != NULL;
}

/* Device i over all platforms. */
static handle find(const functions *f, uint32_t i) {
  enum { MOST = 16 };
  handle platform[MOST], device[MOST];
  unsigned platforms = 0, devices;
  if (f->clGetPlatformIDs(MOST, platform, &platforms)) return NULL;
  for (unsigned p = 0; p < platforms && p < MOST; p++) {
    devices = 0;
    if (f->clGetDeviceIDs(platform[p], all_types, MOST, device, &devices)) continue;
    if (devices > MOST) devices = MOST;
    if (i < devices) return device[i];
    i -= devices;
  }
  return NULL;
}

/* A property that is a number; 0: the device does not know it. */
static uint64_t number(const functions *f, handle d, unsigned what) {
  uint64_t v = 0;
  /* numbers have 32 or 64 bits; a narrower one fills the low bytes, as these machines are little endian */
  return f->clGetDeviceInfo(d, what, sizeof v, &v, NULL) ? 0 : v;
}

static void text(const functions *f, handle d, unsigned what, char *out, size_t n) {
  if (f->clGetDeviceInfo(d, what, n, out, NULL)) out[0] = 0;
  out[n - 1] = 0;
}

static void find_lacks(const functions *f, handle d, char *out, size_t n) {
  const uint64_t flags = number(f, d, SINGLE_FLAGS);
  const struct { bool there; const char *what;
  } needs[] = {{number(f, d, COMPILER), "a compiler for OpenCL C"},
               {number(f, d, ADDRESS_BITS) == 64, "addresses of 64 bits"},
               {number(f, d, LITTLE_ENDIAN_), "the order of bytes that tg has"},
               {number(f, d, SVM) & SVM_COARSE, "shared virtual memory"},
               {(flags & (NAN_INFINITY | NEAREST)) == (NAN_INFINITY | NEAREST),
                "infinities, NaN and rounding to nearest in f32"},
               {flags & DENORMALS, "subnormal numbers in f32"},
               {flags & DIVIDE_SQRT, "correctly rounded quotients and square roots in f32"}};
  out[0] = 0;
  for (uint32_t i = 0; i < TG_COUNT(needs) && !out[0]; i++)
    if (!needs[i].there) snprintf(out, n, "it lacks %s", needs[i].what);
}

static bool describe(uint32_t i, tg_device_info *out) {
  functions f;
  if (!open_library(&f)) return false;
  handle d = find(&f, i);
  if (d) {
    *out = (tg_device_info){.cores = (uint32_t)number(&f, d, COMPUTE_UNITS), .memory = number(&f, d, GLOBAL_BYTES)};
    snprintf(out->driver, sizeof out->driver, "opencl");
    snprintf(out->target, sizeof out->target, "opencl");
    text(&f, d, NAME, out->name, sizeof out->name);
    find_lacks(&f, d, out->lacks, sizeof out->lacks);
  }
  dlclose(f.library);
  return d != NULL;
}

/* ---- the device and its memory ---- */

typedef struct piece { struct piece *next; char *memory; size_t bytes; } piece;

typedef struct {
  tg_device head;
  functions f;
  tg_target target;
  handle device, context, queue;
  bool tasks_alone;            /* workgroups have one work-item, which runs whole tasks: on CPUs */
  pthread_mutex_t lock;        /* guards pieces; held while arguments are set and the kernel is started */
  piece *pieces;
} cl;

static tg_status failure(char *message, size_t n, const char *what, int code) {
  return snprintf(message, n, "OpenCL: %s failed: %d", what, code), TG_EIO;
}

static void close_device(tg_device *device) {
  cl *d = (cl *)device;
  tg_allocator a = d->head.allocator;
  if (d->queue) d->f.clFinish(d->queue);
  for (piece *p = d->pieces, *next; p; p = next) {
    next = p->next;
    d->f.clSVMFree(d->context, p->memory);
    a.free(a.user, p, sizeof *p);
  }
  if (d->queue) d->f.clReleaseCommandQueue(d->queue);
  if (d->context) d->f.clReleaseContext(d->context);
  dlclose(d->f.library);
  pthread_mutex_destroy(&d->lock);
  a.free(a.user, d, sizeof *d);
}

static void fill_target(cl *d) {
  char name[128], version[64], extensions[4096];
  tg_target *t = &d->target;
  tg_target_row(t, "opencl");
  text(&d->f, d->device, NAME, name, sizeof name);
  text(&d->f, d->device, DRIVER_VERSION, version, sizeof version);
  text(&d->f, d->device, EXTENSIONS, extensions, sizeof extensions);
  const uint64_t all = DENORMALS | NAN_INFINITY | NEAREST;
  bool f64 = (number(&d->f, d->device, DOUBLE_FLAGS) & all) == all,
       atomics = strstr(extensions, "cl_khr_int64_base_atomics") != NULL;
  snprintf(t->features, sizeof t->features, "%s%s", f64 ? "fp64 " : "", atomics ? "int64_atomics" : "");
  snprintf(t->silicon, sizeof t->silicon, "%.100s %.40s %.40s", name, version, t->features);
  t->threads = (uint32_t)number(&d->f, d->device, COMPUTE_UNITS);
}

static tg_status open_device(const tg_device *head, uint32_t i, tg_device **out, char *message, size_t n) {
  int code = 0;
  cl *d = head->allocator.alloc(head->allocator.user, sizeof *d);
  if (!d) return snprintf(message, n, "out of memory"), TG_ENOMEM;
  *d = (cl){.head = *head};
  d->head.driver = &tg_driver_opencl;
  d->head.target = &d->target;
  pthread_mutex_init(&d->lock, NULL);
  if (!open_library(&d->f) || !(d->device = find(&d->f, i))) {
    if (d->f.library) dlclose(d->f.library);
    head->allocator.free(head->allocator.user, d, sizeof *d);
    return snprintf(message, n, "the device is gone"), TG_MISS;
  }
  fill_target(d);
  d->tasks_alone = (number(&d->f, d->device, DEVICE_TYPE) & TYPE_CPU) != 0;
  d->context = d->f.clCreateContext(NULL, 1, &d->device, NULL, NULL, &code);
  if (d->context) d->queue = d->f.clCreateCommandQueueWithProperties(d->context, d->device, NULL, &code);
  if (d->queue) {
    *out = &d->head;
    return TG_OK;
  }
  close_device(&d->head);
  return failure(message, n, "opening the device", code);
}

static tg_status alloc_memory(tg_device *device, size_t bytes, void **out, char *message, size_t n) {
  cl *d = (cl *)device;
  piece *p = d->head.allocator.alloc(d->head.allocator.user, sizeof *p);
  if (p) *p = (piece){.bytes = bytes, .memory = d->f.clSVMAlloc(d->context, READ_WRITE, bytes ? bytes : 1, 64)};
  if (!p || !p->memory) {
    if (p) d->head.allocator.free(d->head.allocator.user, p, sizeof *p);
    return snprintf(message, n, "out of memory: %zu bytes of the device's", bytes), TG_ENOMEM;
  }
  pthread_mutex_lock(&d->lock);
  p->next = d->pieces;
  d->pieces = p;
  pthread_mutex_unlock(&d->lock);
  *out = p->memory;
  return TG_OK;
}

static void free_memory(tg_device *device, void *memory) {
  cl *d = (cl *)device;
  pthread_mutex_lock(&d->lock);
  piece **at = &d->pieces, *p;
  while ((p = *at) && p->memory != memory) at = &p->next;
  if (p) *at = p->next;
  pthread_mutex_unlock(&d->lock);
  if (!p) return;
  d->f.clFinish(d->queue);
  d->f.clSVMFree(d->context, memory);
  d->head.allocator.free(d->head.allocator.user, p, sizeof *p);
}

static tg_status copy(tg_device *device, void *to, const void *from, size_t bytes, char *message, size_t n) {
  cl *d = (cl *)device;
  int code = bytes ? d->f.clEnqueueSVMMemcpy(d->queue, 1, to, from, bytes, 0, NULL, NULL) : 0;
  return code ? failure(message, n, "a copy", code) : TG_OK;
}

static tg_status wait_for(tg_device *device, char *message, size_t n) {
  cl *d = (cl *)device;
  int code = d->f.clFinish(d->queue);
  return code ? failure(message, n, "waiting", code) : TG_OK;
}

/* ---- kernels ---- */

typedef struct {
  tg_device_kernel head;
  handle program, *kernel;     /* phases, then turns of loops */
  int64_t *launch;
  void *shared, *workspace;    /* of one launch at a time, since the queue is in order */
  size_t items;                /* at a time; each has its part of the workspace */
  tg_signature *signature;
} cl_kernel;

static cl *device_of(const cl_kernel *k) { return (cl *)k->head.device; }
static uint32_t kernels_of(const cl_kernel *k) { return k->head.info.phases + k->head.info.loops; }

static void unload(tg_device_kernel *head) {
  cl_kernel *k = (cl_kernel *)head;
  cl *d = device_of(k);
  tg_allocator a = d->head.allocator;
  d->f.clFinish(d->queue);
  for (uint32_t i = 0; k->kernel && i < kernels_of(k); i++)
    if (k->kernel[i]) d->f.clReleaseKernel(k->kernel[i]);
  if (k->program) d->f.clReleaseProgram(k->program);
  if (k->shared) free_memory(&d->head, k->shared);
  if (k->workspace) free_memory(&d->head, k->workspace);
  if (k->kernel) a.free(a.user, k->kernel, kernels_of(k) * sizeof *k->kernel);
  if (k->launch) a.free(a.user, k->launch, head->info.launch_n * sizeof *k->launch);
  if (k->signature) a.free(a.user, k->signature, head->signature->bytes);
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

static tg_status build(cl_kernel *k, const tg_device_object *o, char *message, size_t n) {
  cl *d = device_of(k);
  const char *source = o->data;
  size_t length = o->bytes - 1;
  int code;
  k->program = d->f.clCreateProgramWithSource(d->context, 1, &source, &length, &code);
  if (!k->program) return failure(message, n, "taking the text", code);
  if ((code = d->f.clBuildProgram(k->program, 1, &d->device, "-cl-std=CL1.2 -cl-fp32-correctly-rounded-divide-sqrt",
                                  NULL, NULL))) {
    int at = snprintf(message, n, "OpenCL: the device's compiler refuses the text (%d): ", code);
    if (at > 0 && (size_t)at < n)
      d->f.clGetProgramBuildInfo(k->program, d->device, BUILD_LOG, n - (size_t)at - 1, message + at, NULL);
    return TG_EBACKEND;
  }
  for (uint32_t i = 0; i < kernels_of(k); i++) {
    char name[32];
    bool phase = i < k->head.info.phases;
    snprintf(name, sizeof name, "tg_%s_%u", phase ? "phase" : "turns", phase ? i : i - k->head.info.phases);
    if (!(k->kernel[i] = d->f.clCreateKernel(k->program, name, &code)))
      return failure(message, n, "finding a kernel", code);
  }
  enum { MOST_ITEMS = 1024 };
  const size_t most_bytes = (size_t)256 << 20;
  k->items = MOST_ITEMS;
  if (o->info->workspace && k->items > most_bytes / o->info->workspace) k->items = most_bytes / o->info->workspace;
  if (!k->items) k->items = 1;
  tg_status s = alloc_memory(&d->head, o->info->shared, &k->shared, message, n);
  return s == TG_OK ? alloc_memory(&d->head, k->items * o->info->workspace, &k->workspace, message, n) : s;
}

static void *copied(const tg_allocator *a, const void *from, size_t bytes) {
  void *p = a->alloc(a->user, bytes);
  return p ? memcpy(p, from, bytes) : NULL;
}

static tg_status load(tg_device *device, const tg_device_object *o, tg_device_kernel **out, tg_env *err) {
  const tg_allocator *a = &device->allocator;
  cl_kernel *k = a->alloc(a->user, sizeof *k);
  tg_status s = TG_ENOMEM;
  snprintf(err->message, sizeof err->message, "out of memory");
  if (k) {
    *k = (cl_kernel){.head = {.driver = &tg_driver_opencl, .device = device, .info = *o->info}};
    bool valid = o->bytes && !((const char *)o->data)[o->bytes - 1] && steps_valid(o->info) &&
                 o->signature->buffers_n == o->info->buffers && o->signature->params_n == o->info->params;
    size_t bytes = kernels_of(k) * sizeof *k->kernel;
    k->head.signature = k->signature = copied(a, o->signature, o->signature->bytes);
    if (valid) k->launch = copied(a, o->info->launch, o->info->launch_n * sizeof *k->launch);
    if (valid) k->kernel = a->alloc(a->user, bytes ? bytes : 1);
    k->head.info.launch = k->launch;
    if (k->kernel) memset(k->kernel, 0, bytes);
    if (!valid) s = TG_INTERNAL, snprintf(err->message, sizeof err->message, "the object is no text of a kernel");
    else if (k->signature && k->launch && k->kernel) s = build(k, o, err->message, sizeof err->message);
    if (s == TG_OK) *out = &k->head;
    else unload(&k->head);
  }
  return err->status = s;
}

/* ---- launches ---- */

typedef struct { cl_kernel *k; const tg_work *w; int code; } run;

static void enqueue(run *r, uint32_t kernel, size_t items) {
  cl_kernel *k = r->k;
  cl *d = device_of(k);
  size_t one = 1;
  if (!r->code)
    r->code = d->f.clEnqueueNDRangeKernel(d->queue, k->kernel[kernel], 1, NULL, &items, d->tasks_alone ? &one : NULL, 0,
                                          NULL, NULL);
}

static void take_steps(run *r, const int64_t *s, const int64_t *end, uint32_t depth) {
  cl_kernel *k = r->k;
  cl *d = device_of(k);
  const int64_t *tasks = k->launch + 1 + k->launch[0];
  enum { DAMAGED = -1 };
  /* no room for the loop's counter: the file in the cache is damaged */
  if (8 * ((uint64_t)depth + 1) > k->head.info.shared) r->code = DAMAGED;
  for (; s < end && !r->code; s += *s >= 0 ? 1 : 2 + s[1]) {
    if (*s >= 0) {
      size_t most = !tasks[*s] || (uint64_t)tasks[*s] > k->items ? k->items : (size_t)tasks[*s];
      enqueue(r, (uint32_t)*s, most);
      continue;
    }
    int64_t turns = 0, *at = (int64_t *)k->shared + depth;
    enqueue(r, k->head.info.phases + (uint32_t)~*s, 1);
    if (!r->code) r->code = d->f.clEnqueueSVMMemcpy(d->queue, 1, &turns, at, sizeof turns, 0, NULL, NULL);
    for (int64_t i = 0; i < turns && !r->code; i++) {
      r->code = d->f.clEnqueueSVMMemcpy(d->queue, 1, at, &i, sizeof i, 0, NULL, NULL);
      take_steps(r, s + 2, s + 2 + s[1], depth + 1);
    }
  }
}

/* Does the buffer lie in memory of this device? Call with the lock held. */
static bool is_own(const cl *d, const void *memory, int64_t bytes) {
  const char *from = memory;
  for (const piece *p = d->pieces; p; p = p->next)
    if (from >= p->memory && from <= p->memory + p->bytes && (uint64_t)bytes <= (uint64_t)(p->memory + p->bytes - from))
      return true;
  return !bytes;
}

static void set_arguments(run *r) {
  cl_kernel *k = r->k;
  const functions *f = &device_of(k)->f;
  uint32_t buffers = k->head.info.buffers;
  for (uint32_t i = 0; i < kernels_of(k); i++) {
    for (uint32_t b = 0; b < buffers + 2 && !r->code; b++)
      r->code = f->clSetKernelArgSVMPointer(k->kernel[i], b,
                                            b < buffers    ? r->w->bytes[b] ? r->w->buffers[b] : k->shared
                                            : b == buffers ? k->shared
                                                           : k->workspace);
    for (uint32_t p = 0; p < k->head.info.params && !r->code; p++)
      r->code = f->clSetKernelArg(k->kernel[i], buffers + 2 + p, sizeof(int64_t), &r->w->params[p]);
  }
}

static tg_status launch(tg_device_kernel *head, const tg_work *w, char *message, size_t n) {
  run r = {.k = (cl_kernel *)head, .w = w};
  cl *d = device_of(r.k);
  uint32_t foreign = UINT32_MAX;
  pthread_mutex_lock(&d->lock);
  for (uint32_t b = 0; b < head->info.buffers && foreign == UINT32_MAX; b++)
    if (!is_own(d, w->buffers[b], w->bytes[b])) foreign = b;
  if (foreign == UINT32_MAX) {
    set_arguments(&r);
    if (!r.code) take_steps(&r, r.k->launch + 1, r.k->launch + 1 + r.k->launch[0], 0);
    if (!r.code) r.code = d->f.clFlush(d->queue);
  }
  pthread_mutex_unlock(&d->lock);
  if (foreign != UINT32_MAX) {
    snprintf(message, n, "'%s' does not lie in memory of this device",
             tg_signature_strings(head->signature) + tg_signature_buffers(head->signature)[foreign].name);
    return TG_EINVAL;
  }
  return r.code ? failure(message, n, "a launch", r.code) : TG_OK;
}

const tg_driver tg_driver_opencl = {describe, open_device, close_device, alloc_memory, free_memory,
                                    copy,     load,        unload,       launch,       wait_for};
