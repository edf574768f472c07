/* SPDX-License-Identifier: MIT
 * The interface of devices: a table of functions (tg_driver) that each kind of device fills (cpu/, opencl/), and the
 * entry points that use it. What is the same for all devices is not in the table but in device.c: checking a launch's
 * arguments against the kernel's signature, and timing launches by the host's clock. docs/adding.md tells how to add
 * a device. */
#ifndef TG_DEVICES_DEVICE_H
#define TG_DEVICES_DEVICE_H
#include "code/code.h"
#include "devices/pool.h"
#include "devices/signature.h"
#include "target/target.h"
#include "tg/device.h"

typedef struct tg_driver tg_driver;
typedef struct tg_device_kernel tg_device_kernel;

/* First member of each driver's own device struct. */
struct tg_device {
  const tg_driver *driver;
  tg_device *next;             /* in the list of its context; NULL: the last */
  tg_context *context;
  uint32_t number;             /* as for tg_device_describe; 0: the host's CPU */
  tg_allocator allocator;
  const tg_target *target;     /* the target its kernels are compiled for */
  tg_pool *pool;               /* the context's pool of host threads */
};

/* First member of each driver's own struct for a loaded kernel. May be launched from several threads at once. */
struct tg_device_kernel {
  const tg_driver *driver;
  tg_device *device;
  const tg_signature *signature;
  tg_code_info info;
  tg_code *code;               /* callable functions; NULL if the device is not the host's CPU */
};

/* A compiled object with its description, fresh from the compiler or from the cache. */
typedef struct tg_device_object {
  const void *data;
  size_t bytes;
  const tg_code_info *info;
  const tg_signature *signature;
  /* the object already linked into this process; NULL: load links it. If load succeeds, the kernel owns it */
  tg_code *code;
  uint32_t flags;              /* TG_JIT_* */
} tg_device_object;

/* A launch whose arguments the caller has already checked. */
typedef struct tg_work {
  void **buffers;              /* with room for one more at the end, which launch fills */
  const int64_t *bytes;        /* required size of each buffer; NULL: host memory, nothing left to check */
  const int64_t *params;
  /* the caller's memory, 64-aligned; NULL: the kernel's own is used. If given, a launch on the CPU takes no lock,
   * allocates nothing and cannot fail */
  char *workspace;
  uint32_t threads;            /* the most threads to use, of the pool or of parallel_for */
  tg_parallel_for *parallel_for;
  void *parallel_user;
} tg_work;

/* If open, alloc, copy, launch or wait fails, message gets the reason (n bytes of room); of load, err does. */
struct tg_driver {
  /* Describes device i of this kind on this machine; false: there are at most i. */
  bool (*describe)(uint32_t i, tg_device_info *out);
  /* head: initial value of the device's first member; its target is the context's, and may be replaced. */
  tg_status (*open)(const tg_device *head, uint32_t i, tg_device **out, char *message, size_t n);
  void (*close)(tg_device *);                                          /* waits; frees memory not freed yet */
  tg_status (*alloc)(tg_device *, size_t bytes, void **out, char *message, size_t n);   /* 64-aligned */
  void (*free)(tg_device *, void *memory);                             /* waits */
  /* runs after all earlier launches; complete when it returns */
  tg_status (*copy)(tg_device *, void *to, const void *from, size_t bytes, char *message, size_t n);
  /* copies all it needs: the object may go afterwards */
  tg_status (*load)(tg_device *, const tg_device_object *, tg_device_kernel **out, tg_env *err);
  void (*unload)(tg_device_kernel *);                                  /* waits */
  /* launches run in order and may be incomplete when this returns; the arrays in tg_work may go then */
  tg_status (*launch)(tg_device_kernel *, const tg_work *, char *message, size_t n);
  tg_status (*wait)(tg_device *, char *message, size_t n);             /* for all launches */
};

extern const tg_driver tg_driver_cpu, tg_driver_opencl;

/* Device `number` of the machine (0: the host's CPU): its driver and its index i there; false: there is none. */
bool tg_device_at(uint32_t number, const tg_driver **driver, uint32_t *i, tg_device_info *out);

static inline tg_status tg_device_call(tg_device_kernel *k, const tg_work *w) {
  return k->driver->launch(k, w, NULL, 0);
}

/* Bytes of workspace that the caller of a launch on `threads` threads must provide; 0: the device uses none. */
size_t tg_device_workspace(const tg_device_kernel *, uint32_t threads);
/* The function of a kernel that always runs as a single task (for all values of its parameters) and needs at most
 * `scratch` bytes of workspace, to be called directly. NULL: it is not such a kernel, or the host cannot call it. */
tg_phase_fn *tg_device_entry(const tg_device_kernel *, size_t scratch);
/* Checks every argument and launches; the device's wait waits for completion. */
tg_status tg_device_start(tg_device_kernel *, const tg_launch *, char *message, size_t n);
tg_status tg_device_run(tg_device_kernel *, const tg_launch *, char *message, size_t n);    /* start, then wait */
tg_status tg_device_time(tg_device_kernel *, const tg_launch *, double seconds, tg_timing *out, char *message,
                         size_t n);
#endif
