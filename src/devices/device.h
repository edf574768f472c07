/* SPDX-License-Identifier: MIT
 * What a device is: a table of functions that each kind of device fills (cpu/, opencl/), and the one way into a launch
 * for all of them. The table has what two of them fill
 * and nothing else: times are taken by the host's clock around launches, and checks of arguments ask a kernel's
 * signature; both are in device.c. docs/adding.md tells how to add one. */
#ifndef TG_DEVICES_DEVICE_H
#define TG_DEVICES_DEVICE_H
#include "code/code.h"
#include "devices/pool.h"
#include "devices/signature.h"
#include "target/target.h"
#include "tg/device.h"

typedef struct tg_driver tg_driver;
typedef struct tg_device_kernel tg_device_kernel;

/* The head of a driver's own struct. */
struct tg_device {
  const tg_driver *driver;
  tg_device *next;             /* of its context */
  tg_context *context;
  uint32_t number;             /* as tg_device_describe counts */
  tg_allocator allocator;
  const tg_target *target;     /* that kernels for it are compiled for */
  tg_pool *pool;               /* the context's: the host's threads */
};

/* Likewise, of a loaded kernel. May be launched from many threads at a time. */
struct tg_device_kernel {
  const tg_driver *driver;
  tg_device *device;
  const tg_signature *signature;
  tg_code_info info;
  tg_code *code;               /* functions of this process; NULL: of another device than its CPU */
};

/* An object and what belongs to it, as compiled or as the cache has it. */
typedef struct tg_device_object {
  const void *data;
  size_t bytes;
  const tg_code_info *info;
  const tg_signature *signature;
  /* of it, linked already: the kernel's from load on, unless that fails. NULL: the object is to be loaded */
  tg_code *code;
  uint32_t flags;              /* TG_JIT_* */
} tg_device_object;

/* A launch whose arguments have been checked by whoever makes it. */
typedef struct tg_work {
  void **buffers;              /* and room for one more behind them */
  const int64_t *bytes;        /* that each must have; NULL: the host's memory, which needs no more checks */
  const int64_t *params;
  /* the caller's, 64-aligned; NULL: the kernel's own. With it a launch on the CPU takes no lock, no memory, and
   * cannot fail */
  char *workspace;
  uint32_t threads;            /* of the pool, or that parallel_for may run at a time */
  tg_parallel_for *parallel_for;
  void *parallel_user;
} tg_work;

/* Failures of launch, alloc, copy and wait are told in message, of load in err. */
struct tg_driver {
  /* Device i of this kind on this machine; false: there are no more. */
  bool (*describe)(uint32_t i, tg_device_info *out);
  /* head: what the device begins with, its target that of the context. */
  tg_status (*open)(const tg_device *head, uint32_t i, tg_device **out, char *message, size_t n);
  void (*close)(tg_device *);                                          /* waits; frees what is left of its memory */
  tg_status (*alloc)(tg_device *, size_t bytes, void **out, char *message, size_t n);   /* 64-aligned */
  void (*free)(tg_device *, void *memory);                             /* waits */
  /* behind all launches before it; done when it returns */
  tg_status (*copy)(tg_device *, void *to, const void *from, size_t bytes, char *message, size_t n);
  /* copies all of it */
  tg_status (*load)(tg_device *, const tg_device_object *, tg_device_kernel **out, tg_env *err);
  void (*unload)(tg_device_kernel *);                                  /* waits */
  /* in order; perhaps not done when it returns. buffers and params may go then */
  tg_status (*launch)(tg_device_kernel *, const tg_work *, char *message, size_t n);
  tg_status (*wait)(tg_device *, char *message, size_t n);             /* for all launches */
};

extern const tg_driver tg_driver_cpu, tg_driver_opencl;

/* Device `number` of the machine, the host's CPU being 0; false: there are no more. */
bool tg_device_at(uint32_t number, const tg_driver **driver, uint32_t *i, tg_device_info *out);

static inline tg_status tg_device_call(tg_device_kernel *k, const tg_work *w) {
  return k->driver->launch(k, w, NULL, 0);
}

/* Bytes of the caller's that a launch on so many threads may work in; 0: this device takes none. */
size_t tg_device_workspace(const tg_device_kernel *, uint32_t threads);
/* The code of a kernel that is one task, for the least and the largest parameters, in at most so many bytes of
 * workspace; else, or where the host cannot call it, NULL. */
tg_phase_fn *tg_device_entry(const tg_device_kernel *, size_t scratch);
/* With every argument checked. Started; wait for it by the device's wait. */
tg_status tg_device_start(tg_device_kernel *, const tg_launch *, char *message, size_t n);
tg_status tg_device_run(tg_device_kernel *, const tg_launch *, char *message, size_t n);    /* and waits */
tg_status tg_device_time(tg_device_kernel *, const tg_launch *, double seconds, tg_timing *out, char *message,
                         size_t n);
#endif
