/* SPDX-License-Identifier: MIT
 * A libcuda.so.1 for tests: the functions that cuda.c opens, over the interpreter of PTX. Memory of the device lies in
 * this process; a launch finds the buffer of each pointer among what was allocated. What a driver would refuse it
 * refuses: more LOCAL than was asked for, other numbers of threads than the kernel's, memory that was freed. */
#include <stdlib.h>
#include <string.h>
#include "ptx.h"

#define EXPORT __attribute__((visibility("default")))
enum { PIECES = 64, BAND = 256, INVALID = 1, NO_MEMORY = 2, BAD_PTX = 218, NOT_FOUND = 500, FAILED = 700 };
typedef uint64_t address;
typedef struct { const ptx_kernel *kernel; int local; } function;
typedef struct { ptx_module module; function function[16]; uint32_t n; } loaded;

static struct { char *data; size_t bytes; } piece[PIECES];
static int events;

EXPORT int cuInit(unsigned flags);
EXPORT int cuDriverGetVersion(int *v);
EXPORT int cuDeviceGet(int *d, int i);
EXPORT int cuDeviceGetName(char *name, int n, int d);
EXPORT int cuDeviceGetAttribute(int *v, int which, int d);
EXPORT int cuDeviceTotalMem_v2(size_t *v, int d);
EXPORT int cuDevicePrimaryCtxRetain(void **c, int d);
EXPORT int cuCtxSetCurrent(void *c);
EXPORT int cuCtxSynchronize(void);
EXPORT int cuModuleLoadDataEx(void **m, const void *text, unsigned n, int *options, void **values);
EXPORT int cuModuleUnload(void *m);
EXPORT int cuModuleGetFunction(void **f, void *m, const char *name);
EXPORT int cuFuncSetAttribute(void *f, int which, int v);
EXPORT int cuFuncGetAttribute(int *v, int which, void *f);
EXPORT int cuMemAlloc_v2(address *p, size_t n);
EXPORT int cuMemFree_v2(address p);
EXPORT int cuMemsetD8_v2(address p, unsigned char v, size_t n);
EXPORT int cuMemcpyHtoD_v2(address to, const void *from, size_t n);
EXPORT int cuMemcpyDtoH_v2(void *to, address from, size_t n);
EXPORT int cuEventCreate(void **e, unsigned flags);
EXPORT int cuEventRecord(void *e, void *stream);
EXPORT int cuEventSynchronize(void *e);
EXPORT int cuEventElapsedTime(float *ms, void *a, void *b);
EXPORT int cuGetErrorString(int status, const char **text);
EXPORT int cuLaunchKernel(void *f, unsigned x, unsigned y, unsigned z, unsigned threads, unsigned ty, unsigned tz, unsigned local, void *stream, void **arguments, void **more);

int cuInit(unsigned flags) { return flags != 0; }
int cuDriverGetVersion(int *v) { return *v = 13000, 0; }
int cuDeviceGet(int *d, int i) { return *d = 0, i != 0; }
int cuDeviceGetName(char *name, int n, int d) { return strncpy(name, "an interpreter of PTX", (size_t)n), d; }
int cuDeviceGetAttribute(int *v, int which, int d) { return *v = which == 75 ? 8 : which == 97 ? 163 << 10 : 0, d; }
int cuDeviceTotalMem_v2(size_t *v, int d) { return *v = 0, d; }
int cuDevicePrimaryCtxRetain(void **c, int d) { return *c = piece, d; }
int cuCtxSetCurrent(void *c) { return c != piece; }
int cuCtxSynchronize(void) { return 0; }

int cuModuleLoadDataEx(void **m, const void *text, unsigned n, int *options, void **values) {
  loaded *l = calloc(1, sizeof *l);
  *m = l;
  if (ptx_parse(&l->module, text)) return 0;
  for (unsigned i = 0; i < n; i++)
    if (options[i] == 5) memcpy(values[i], l->module.message, PTX_MESSAGE);
  return BAD_PTX;
}

int cuModuleUnload(void *m) {
  ptx_module_free(&((loaded *)m)->module);
  free(m);
  return 0;
}

int cuModuleGetFunction(void **f, void *m, const char *name) {
  loaded *l = m;
  const ptx_kernel *k = ptx_find(&l->module, name);
  if (!k || l->n == 16) return NOT_FOUND;
  l->function[l->n] = (function){k, 48 << 10};
  *f = &l->function[l->n++];
  return 0;
}

int cuFuncSetAttribute(void *f, int which, int v) {
  if (which != 8 || v > 163 << 10) return INVALID;
  ((function *)f)->local = v;
  return 0;
}
int cuFuncGetAttribute(int *v, int which, void *f) { return *v = 0, !f || which < 0; }

int cuMemAlloc_v2(address *p, size_t n) {
  for (int i = 0; i < PIECES; i++)
    if (!piece[i].data) {
      piece[i].data = aligned_alloc(256, (n + 255) / 256 * 256);
      piece[i].bytes = n;
      *p = (address)(uintptr_t)piece[i].data;
      return 0;
    }
  return NO_MEMORY;
}

static int find(address p, size_t n) {
  for (int i = 0; i < PIECES; i++)
    if (piece[i].data && p >= (address)(uintptr_t)piece[i].data && p + n <= (address)(uintptr_t)piece[i].data + piece[i].bytes) return i;
  return -1;
}

int cuMemFree_v2(address p) {
  int i = find(p, 0);
  if (i < 0) return INVALID;
  free(piece[i].data);
  piece[i].data = NULL;
  return 0;
}
static int copy(void *to, const void *from, size_t n, address device) { return find(device, n) < 0 ? INVALID : (memcpy(to, from, n), 0); }
int cuMemsetD8_v2(address p, unsigned char v, size_t n) { return find(p, n) < 0 ? INVALID : (memset((void *)(uintptr_t)p, v, n), 0); }
int cuMemcpyHtoD_v2(address to, const void *from, size_t n) { return copy((void *)(uintptr_t)to, from, n, to); }
int cuMemcpyDtoH_v2(void *to, address from, size_t n) { return copy(to, (void *)(uintptr_t)from, n, from); }

int cuEventCreate(void **e, unsigned flags) { return *e = &events, flags != 0; }
int cuEventRecord(void *e, void *stream) { return stream != NULL || !e; }
int cuEventSynchronize(void *e) { return !e; }
int cuEventElapsedTime(float *ms, void *a, void *b) { return *ms = 1, !a || !b; }
int cuGetErrorString(int status, const char **text) { return *text = status == BAD_PTX ? "a PTX JIT compilation failed" : "an error", 0; }

/* A pointer lies BAND bytes behind the beginning of a piece, which has as many behind its end. */
int cuLaunchKernel(void *f, unsigned x, unsigned y, unsigned z, unsigned threads, unsigned ty, unsigned tz, unsigned local, void *stream, void **arguments, void **more) {
  function *fn = f;
  int64_t param[32];
  ptx_launch l = {.kernel = fn->kernel, .groups = {x, y, z}, .threads = threads, .local = local, .param = param, .seed = 3, .drawn = true};
  if (ty != 1 || tz != 1 || stream || more || (int)local > fn->local) return INVALID;
  for (uint32_t a = 0; a < fn->kernel->params; a++) {
    address v = *(const address *)arguments[a];
    int i = find(v, 0);
    if (i >= 0 && l.params == 0) l.buffer[l.buffers++] = (ptx_buffer){.name = "a buffer", .data = (void *)(uintptr_t)v, .bytes = piece[i].bytes - 2 * BAND, .written = true};
    else param[l.params++] = (int64_t)v;
  }
  bool ok = ptx_run(&l);
  for (uint32_t b = 0; b < l.buffers && getenv("TG_TEST_CUDA_WRONG"); b++) *(char *)l.buffer[b].data ^= 1;
  ptx_launch_free(&l);
  return ok ? 0 : FAILED;
}
