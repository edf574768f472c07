/* SPDX-License-Identifier: MIT
 * libcuda.so.1, opened at run time when a device is requested: what it has, its devices, its errors. Nothing is
 * linked, and nothing of the toolkit is opened. */
#include <dlfcn.h>
#include "devices/cuda/cuda.h"

bool tg_cuda_library(cuda_functions *f) {
  static const tg_entry_point points[] = {
#define F(result, name, since, arguments) {#name, offsetof(cuda_functions, name), (since) > TG_CUDA_OLDEST},
#include "devices/cuda/functions.def"
  };
  *f = (cuda_functions){.missing = NULL};
  f->library = tg_library_open("libcuda.so.1", true, points, TG_COUNT(points), f, &f->missing);
  if (!f->library) return false;
  if (f->cuInit && f->cuDeviceGetCount && f->cuDeviceGet && f->cuDeviceGetName && f->cuDriverGetVersion &&
      f->cuDeviceGetAttribute && !f->cuInit(0))
    return true;
  dlclose(f->library);
  return false;
}

int tg_cuda_attribute(const cuda_functions *f, int device, int what) {
  int v = 0;
  return f->cuDeviceGetAttribute(&v, what, device) ? 0 : v;
}

static void find_lacks(const cuda_functions *f, int device, int version, const char *target, tg_device_info *out) {
  int major = tg_cuda_attribute(f, device, CUDA_CAPABILITY_MAJOR),
      minor = tg_cuda_attribute(f, device, CUDA_CAPABILITY_MINOR);
  if (f->missing)
    snprintf(out->lacks, sizeof out->lacks,
             "the driver (of CUDA %d.%d) has no %s; the oldest that tg works with is of CUDA %d.%d", version / 1000,
             version % 1000 / 10, f->missing, TG_CUDA_OLDEST / 1000, TG_CUDA_OLDEST % 1000 / 10);
  else if (!target)
    snprintf(out->lacks, sizeof out->lacks,
             "tg compiles for no chip of compute capability %d.%d with a driver of CUDA %d.%d", major, minor,
             version / 1000, version % 1000 / 10);
  else if (!tg_cuda_attribute(f, device, CUDA_UNIFIED_ADDRESSES))
    snprintf(out->lacks, sizeof out->lacks, "it has not one space of addresses with the host");
}

bool tg_cuda_describe(uint32_t i, tg_device_info *out) {
  cuda_functions f;
  int count = 0, device, version = 0;
  if (!tg_cuda_library(&f)) return false;
  bool there = !f.cuDeviceGetCount(&count) && i < (uint32_t)count && !f.cuDeviceGet(&device, (int)i);
  if (there) {
    size_t memory = 0;
    uint32_t major = (uint32_t)tg_cuda_attribute(&f, device, CUDA_CAPABILITY_MAJOR),
             minor = (uint32_t)tg_cuda_attribute(&f, device, CUDA_CAPABILITY_MINOR);
    f.cuDriverGetVersion(&version);
    const char *target = tg_target_of_nvidia(major, minor, (uint32_t)version);
    if (f.cuDeviceTotalMem_v2) f.cuDeviceTotalMem_v2(&memory, device);
    *out = (tg_device_info){.cores = (uint32_t)tg_cuda_attribute(&f, device, CUDA_CORES), .memory = memory};
    snprintf(out->driver, sizeof out->driver, "cuda");
    snprintf(out->target, sizeof out->target, "%s", target ? target : "");
    snprintf(out->chip, sizeof out->chip, "sm_%u%u", major, minor);
    snprintf(out->version, sizeof out->version, "%d.%d", version / 1000, version % 1000 / 10);
    if (f.cuDeviceGetName(out->name, sizeof out->name, device)) out->name[0] = 0;
    out->name[sizeof out->name - 1] = 0;
    find_lacks(&f, device, version, target, out);
  }
  dlclose(f.library);
  return there;
}

/* Does the context return nothing but this error from now on? CUDA Driver API, CUresult: "the process must be
 * terminated and relaunched", errors of the hardware, and contexts that are gone. */
static bool is_sticky(int code) {
  enum {
    DEINITIALIZED = 4,
    DEVICE_UNAVAILABLE = 46,
    INVALID_CONTEXT = 201,       /* the program has destroyed its own */
    ECC_UNCORRECTABLE = 214,
    NVLINK_UNCORRECTABLE = 220,
    ILLEGAL_ADDRESS = 700,
    LAUNCH_TIMEOUT = 702,
    CONTEXT_IS_DESTROYED = 709,
    ASSERT = 710,
    HARDWARE_STACK_ERROR = 714,
    LAUNCH_FAILED = 719,         /* those between are of instructions and addresses */
    UNKNOWN = 999
  };
  return code == DEINITIALIZED || code == DEVICE_UNAVAILABLE || code == INVALID_CONTEXT || code == ECC_UNCORRECTABLE ||
         code == NVLINK_UNCORRECTABLE || code == ILLEGAL_ADDRESS || code == LAUNCH_TIMEOUT ||
         code == CONTEXT_IS_DESTROYED || code == ASSERT || (code >= HARDWARE_STACK_ERROR && code <= LAUNCH_FAILED) ||
         code == UNKNOWN;
}

tg_status tg_cuda_failure(const cuda_functions *f, char *message, size_t n, const char *what, int code) {
  enum { OUT_OF_MEMORY = 2 };
  const char *text = NULL;
  bool lost = is_sticky(code);
  if (f->cuGetErrorString(code, &text) || !text) text = "an error without a text";
  snprintf(message, n, "CUDA: %s failed: %s (%d)%s", what, text, code,
           lost ? "; the device is lost for this process: end it and start it again, or, where the program has made "
                  "the CUcontext, make another one"
                : "");
  return lost ? TG_LOST : code == OUT_OF_MEMORY ? TG_ENOMEM : TG_EIO;
}
