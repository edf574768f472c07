/* SPDX-License-Identifier: MIT
 * libOpenCL, opened at run time, when a device is requested; nothing is linked. Its devices, and what they lack. */
#include <dlfcn.h>
#include "devices/opencl/opencl.h"

static const opencl_bits all_types = 0xffffffff;

bool tg_opencl_library(opencl_functions *f) {
  static const tg_entry_point points[] = {
#define F(result, name, since, arguments) {#name, offsetof(opencl_functions, name), (since) > 20},
#include "devices/opencl/functions.def"
  };
  const char *missing = NULL;
  *f = (opencl_functions){.library = NULL};
  f->library = tg_library_open("libOpenCL.so.1", true, points, TG_COUNT(points), f, &missing);
  if (missing) dlclose(f->library), f->library = NULL;
  return f->library != NULL;
}

/* Device i over all platforms. */
opencl_handle tg_opencl_find(const opencl_functions *f, uint32_t i) {
  enum { MOST = 16 };
  opencl_handle platform[MOST], device[MOST];
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
uint64_t tg_opencl_number(const opencl_functions *f, opencl_handle d, unsigned what) {
  uint64_t v = 0;
  /* numbers have 32 or 64 opencl_bits; a narrower one fills the low bytes, as these machines are little endian */
  return f->clGetDeviceInfo(d, what, sizeof v, &v, NULL) ? 0 : v;
}

void tg_opencl_text(const opencl_functions *f, opencl_handle d, unsigned what, char *out, size_t n) {
  if (f->clGetDeviceInfo(d, what, n, out, NULL)) out[0] = 0;
  out[n - 1] = 0;
}

/* A list of intermediate languages and versions, such as "SPIR-V_1.0 SPIR-V_1.2". A device that takes a version of
 * SPIR-V takes those before it. */
bool tg_opencl_takes_spirv(const opencl_functions *f, opencl_handle d) {
  char languages[256];
  tg_opencl_text(f, d, CL_IL_VERSION, languages, sizeof languages);
  return f->clCreateProgramWithIL && strstr(languages, "SPIR-V_1.");
}

static void find_lacks(const opencl_functions *f, opencl_handle d, char *out, size_t n) {
  const uint64_t flags = tg_opencl_number(f, d, CL_SINGLE_FLAGS);
  const struct { bool there; const char *what;
  } needs[] = {{tg_opencl_number(f, d, CL_COMPILER), "a compiler for OpenCL C"},
               {tg_opencl_number(f, d, CL_ADDRESS_BITS) == 64, "addresses of 64 opencl_bits"},
               {tg_opencl_number(f, d, CL_LITTLE_ENDIAN), "the order of bytes that tg has"},
               {tg_opencl_number(f, d, CL_SVM) & CL_SVM_COARSE, "shared virtual memory"},
               {(flags & (CL_NAN_INFINITY | CL_NEAREST)) == (CL_NAN_INFINITY | CL_NEAREST),
                "infinities, NaN and rounding to nearest in f32"},
               {flags & CL_DENORMALS, "subnormal numbers in f32"},
               {flags & CL_DIVIDE_SQRT, "correctly rounded quotients and square roots in f32"}};
  out[0] = 0;
  for (uint32_t i = 0; i < TG_COUNT(needs) && !out[0]; i++)
    if (!needs[i].there) snprintf(out, n, "it lacks %s", needs[i].what);
}

bool tg_opencl_describe(uint32_t i, tg_device_info *out) {
  opencl_functions f;
  if (!tg_opencl_library(&f)) return false;
  opencl_handle d = tg_opencl_find(&f, i);
  if (d) {
    *out = (tg_device_info){.cores = (uint32_t)tg_opencl_number(&f, d, CL_COMPUTE_UNITS),
                            .memory = tg_opencl_number(&f, d, CL_GLOBAL_BYTES)};
    snprintf(out->driver, sizeof out->driver, "opencl");
    snprintf(out->target, sizeof out->target, tg_opencl_takes_spirv(&f, d) ? "spirv" : "opencl");
    tg_opencl_text(&f, d, CL_NAME, out->name, sizeof out->name);
    snprintf(out->chip, sizeof out->chip, "%.63s", out->name);
    tg_opencl_text(&f, d, CL_DRIVER_VERSION, out->version, sizeof out->version);
    find_lacks(&f, d, out->lacks, sizeof out->lacks);
  }
  dlclose(f.library);
  return d != NULL;
}

tg_status tg_opencl_failure(char *message, size_t n, const char *what, int code) {
  enum { NOT_AVAILABLE = -2 };
  snprintf(message, n, "OpenCL: %s failed: %d", what, code);
  return code == NOT_AVAILABLE ? TG_LOST : TG_EIO;
}
