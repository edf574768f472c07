/* SPDX-License-Identifier: MIT
 * The interface of devices: a table of functions (tg_driver) that each kind of device fills (cpu/, opencl/), and the
 * entry points that use it. What is the same for all devices is not in the table: checking a launch's arguments against
 * the kernel's signature and timing (device.c), queues' locks, scratch memory, the default queue and lost devices
 * (queue.c), graphs (graph.c), which memory there is (memory.c); and what several drivers share: loading kernels and
 * their grids (kernel.c), marks that are events (marks.c), libraries (library.c). docs/adding.md tells how to add a
 * device. */
#ifndef TG_DEVICES_DEVICE_H
#define TG_DEVICES_DEVICE_H
#include <stdatomic.h>
#include "code/code.h"
#include "devices/pieces.h"
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
  void *native;                /* of tg_device_open_native; NULL: the driver has its own context */
  tg_allocator allocator;
  const tg_target *target;     /* the target its kernels are compiled for */
  tg_pool *pool;               /* the context's pool of host threads */
  bool check_promises;         /* launches read what inputs promise: the CPU alone */
  void (*log)(void *user, const char *message);   /* the context's; may be NULL */
  void *log_user;
  struct tg_jit *jit;          /* the compiler's, for a target that is not the context's; NULL: not needed yet */
  /* what follows is device.c's, queue.c's and memory.c's */
  tg_pieces pieces;            /* its memory that the program has */
  pthread_mutex_t lock;        /* guards the list of queues */
  tg_queue *queues;            /* all, the default one last */
  tg_queue *queue;             /* the default one */
  uint64_t identities;         /* given to queues so far */
  atomic_bool lost;            /* a function of the driver has returned TG_LOST */
};

/* First member of each driver's own struct for a queue. */
struct tg_queue {
  tg_device *device;
  tg_queue *next;              /* in the device's list */
  tg_queue_options options;
  /* what follows is queue.c's */
  pthread_mutex_t lock;        /* held while work is put, so that the queue has one order */
  void *scratch;               /* the device's memory for launches whose caller gives no workspace; grows */
  size_t scratch_bytes;
  _Atomic(tg_graph *) recording;
  uint64_t stamped;            /* bit s: slot s was stamped */
  uint64_t identity;           /* no other queue of the device has had it */
};

/* First member of each driver's own struct for a loaded kernel. May be launched from several threads at once. */
struct tg_device_kernel {
  const tg_driver *driver;
  tg_device *device;
  const tg_signature *signature;
  tg_code_info info;
  tg_code *code;               /* callable functions; NULL if the device is not the host's CPU */
  /* bytes of the device's memory that a launch uses beside its buffers; 0: none, or the CPU, whose launches say how
   * many threads they use (tg_device_workspace) */
  size_t scratch;
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

/* A launch whose arguments have been checked. */
typedef struct tg_work {
  void **buffers;              /* with room for one more at the end, which launch fills */
  const int64_t *bytes;        /* required size of each buffer; NULL: host memory, nothing left to check */
  const int64_t *params;
  /* 64-aligned. On the CPU: the caller's memory; NULL: the kernel's own is used. If given, a launch takes no lock,
   * allocates nothing and cannot fail. On other devices: the kernel's scratch bytes of device memory, never NULL if
   * there are any; checked to be given in full, but not to be the device's memory */
  char *workspace;
  uint32_t threads;            /* the most threads to use, of the pool or of parallel_for */
  tg_parallel_for *parallel_for;
  void *parallel_user;
} tg_work;

/* A step of a graph. */
typedef struct tg_graph_step {
  tg_device_kernel *kernel;    /* NULL: a copy */
  tg_work work;
  void *to;
  const void *from;
  size_t bytes;
} tg_graph_step;

/* If a function fails, message gets the reason (n bytes of room); of load, err does. TG_LOST: the device is lost; then
 * only close, free, unload, queue_close and graph_drop are called, which must not wait for work any more.
 *
 * launch, copy, after, stamp, submit and graph_put are called for one queue by one thread at a time (but not on a
 * device that is `immediate`); all else may be called by several threads at once, wait and stamps beside those, too.
 * free and unload are called when all work of the device has finished, queue_close when that of the queue has. Order:
 * what is put on one queue runs in order. Work must run to its end after submit, with no further call of the host. */
struct tg_driver {
  const char *name;            /* "opencl": its devices are opencl:0, opencl:1, .. */
  bool immediate;              /* work has finished when the function that puts it returns */
  /* Describes device i of this kind on this machine; false: there are at most i. */
  bool (*describe)(uint32_t i, tg_device_info *out);
  /* head: initial value of the device's first member; its target is the context's, and may be replaced. head->native:
   * TG_EINVAL if the driver takes none, or not this one */
  tg_status (*open)(const tg_device *head, uint32_t i, tg_device **out, char *message, size_t n);
  void (*close)(tg_device *);
  /* For a piece of given size (0: an address is wanted all the same): at, 64-aligned, own and origin. TG_EINVAL: it
   * has no memory of this kind */
  tg_status (*alloc)(tg_device *, uint32_t kind, tg_piece *, char *message, size_t n);
  /* `at` is the program's address, and becomes the device's. NULL: nothing can be imported */
  tg_status (*import)(tg_device *, uint32_t what, tg_piece *, char *message, size_t n);
  void (*free)(tg_device *, const tg_piece *);                         /* allocated or imported */
  /* copies all it needs: the object may go afterwards */
  tg_status (*load)(tg_device *, const tg_device_object *, tg_device_kernel **out, tg_env *err);
  void (*unload)(tg_device_kernel *);
  /* head: initial value of the queue's first member. options.native: TG_EINVAL if the driver takes none */
  tg_status (*queue_open)(const tg_queue *head, tg_queue **out, char *message, size_t n);
  void (*queue_close)(tg_queue *);
  /* must check that the buffers lie in memory of the device or a peer's (tg_device_owns); the arrays in tg_work may go
   * afterwards */
  tg_status (*launch)(tg_queue *, tg_device_kernel *, const tg_work *, char *message, size_t n);
  tg_status (*copy)(tg_queue *, void *to, const void *from, size_t bytes, char *message, size_t n);   /* bytes > 0 */
  /* `of` belongs to this device or to a peer of the same driver, and has submitted up to value */
  tg_status (*after)(tg_queue *, tg_queue *of, uint64_t value, char *message, size_t n);
  tg_status (*stamp)(tg_queue *, uint32_t slot, char *message, size_t n);
  tg_status (*submit)(tg_queue *, uint64_t *value, char *message, size_t n);   /* values grow */
  /* nanoseconds as in tg_queue_wait; TG_TIMEOUT, TG_EIO, TG_LOST */
  tg_status (*wait)(tg_queue *, uint64_t value, int64_t nanoseconds, char *message, size_t n);
  /* the slots have been stamped, and their work has finished */
  tg_status (*stamps)(tg_queue *, uint32_t first, uint32_t n, double *seconds, char *message, size_t message_n);
  /* NULL: no device has a peer but itself. Both are of this driver; called until it is TG_OK once */
  tg_status (*peer)(tg_device *, tg_device *other, char *message, size_t n);
  /* The three of graphs, all or none. NULL: the steps of a graph are put one after another. graph_make: for steps that
   * have their buffers, parameters and workspaces; *out NULL: these steps are put one after another all the same.
   * graph_put: the same steps again; those with changed[i] have other pointers or parameters than at graph_make or the
   * last graph_put. NULL: none has */
  tg_status (*graph_make)(tg_device *, const tg_graph_step *, uint32_t steps_n, void **out, char *message, size_t n);
  tg_status (*graph_put)(tg_queue *, void *graph, const tg_graph_step *, uint32_t steps_n, const bool *changed,
                         char *message, size_t n);
  void (*graph_drop)(tg_device *, void *graph);
};

extern const tg_driver tg_driver_cpu, tg_driver_cuda, tg_driver_opencl, tg_driver_amd;

/* Device `number` of the machine (0: the host's CPU): its driver and its index i there; false: there is none. */
bool tg_device_at(uint32_t number, const tg_driver **driver, uint32_t *i, tg_device_info *out);

static inline tg_status tg_device_call(tg_device_kernel *k, const tg_work *w) {   /* on the host's CPU */
  return k->driver->launch(k->device->queue, k, w, NULL, 0);
}

/* On the host's CPU: 2 to TG_TOGETHER launches that do not depend on each other, as one. All kernels are single: one
 * phase, and no memory that its tasks share. Threads, workspace and parallel_for are those of the first work, with
 * `threads` times the largest info.workspace of the kernels as its workspace. Takes no lock, and cannot fail. */
enum { TG_TOGETHER = 16 };
bool tg_device_is_single(const tg_device_kernel *);
void tg_device_call_together(tg_device_kernel *const *, const tg_work *, uint32_t n);

/* ---- device.c: kernels and their launches ---- */

/* Bytes of workspace that the caller of a launch on `threads` threads must provide; 0: the device uses none. */
size_t tg_device_workspace(const tg_device_kernel *, uint32_t threads);
/* The function of a kernel that always runs as a single task (for all values of its parameters) and needs at most
 * `scratch` bytes of workspace, to be called directly. NULL: it is not such a kernel, or the host cannot call it. */
tg_phase_fn *tg_device_entry(const tg_device_kernel *, size_t scratch);
enum { TG_MAX_BUFFERS = 255 };
/* Checks every argument, and fills in *w with the arrays buffers (TG_MAX_BUFFERS + 1) and bytes (TG_MAX_BUFFERS). */
tg_status tg_device_check(const tg_device_kernel *, const tg_launch *, void **buffers, int64_t *bytes, tg_work *w,
                          char *message, size_t n);
/* Checks every argument and puts the launch on the queue, or into its recording. */
tg_status tg_device_put(tg_queue *, tg_device_kernel *, const tg_launch *, char *message, size_t n);
/* On the device's default queue; waits. */
tg_status tg_device_run(tg_device_kernel *, const tg_launch *, char *message, size_t n);
tg_status tg_device_time(tg_device_kernel *, const tg_launch *, double seconds, tg_timing *out, char *message,
                         size_t n);
void tg_device_unload(tg_device_kernel *);   /* waits for the device's work */

/* ---- memory.c: pieces of a driver's, kept by address ---- */

tg_status tg_memory_alloc(tg_device *, size_t bytes, uint32_t kind, void **out, char *message, size_t n);
tg_status tg_memory_import(tg_device *, uint32_t what, void *memory, size_t bytes, void **out, char *message, size_t n);
void tg_memory_free(tg_device *, void *memory);   /* of no piece: does nothing */
void tg_memory_close(tg_device *);                /* frees what has not been freed */
/* Do these bytes lie in memory of the device, or of a peer? */
bool tg_memory_has(tg_device *, const void *at, size_t bytes);
/* Makes the other device a peer. */
tg_status tg_memory_join(tg_device *, tg_device *other, char *message, size_t n);

/* ---- queue.c ---- */

/* Opens the driver's device, with its default queue; closes it, with all its queues. */
tg_status tg_device_begin(const tg_device *head, uint32_t i, tg_device **out, char *message, size_t n);
void tg_device_end(tg_device *);
tg_status tg_device_wait_all(tg_device *, char *message, size_t n);   /* submits, and waits for all queues */
/* TG_LOST, with a message, if the device is lost; `s`, noting that it is lost, otherwise. */
tg_status tg_device_alive(const tg_device *, char *message, size_t n);
tg_status tg_device_noted(tg_device *, tg_status s);
tg_status tg_queue_make(tg_device *, const tg_queue_options *, tg_queue **out, char *message, size_t n);
void tg_queue_drop(tg_queue *);
/* Puts a checked launch; without a workspace it gets the queue's scratch memory. */
tg_status tg_queue_put(tg_queue *, tg_device_kernel *, tg_work *, char *message, size_t n);
tg_status tg_queue_put_copy(tg_queue *, void *to, const void *from, size_t bytes, char *message, size_t n);
tg_status tg_queue_put_after(tg_queue *, tg_queue_mark, char *message, size_t n);
tg_status tg_queue_put_stamp(tg_queue *, uint32_t slot, char *message, size_t n);
tg_status tg_queue_hand(tg_queue *, uint64_t *value, char *message, size_t n);   /* submits */
tg_status tg_queue_await(tg_queue *, uint64_t value, int64_t nanoseconds, char *message, size_t n);
tg_status tg_queue_times(tg_queue *, uint32_t first, uint32_t n, double *seconds, char *message, size_t message_n);

/* ---- graph.c ---- */

tg_status tg_graph_begin(tg_queue *, char *message, size_t n);
tg_status tg_graph_end(tg_queue *, tg_graph **out, char *message, size_t n);
tg_status tg_graph_add_launch(tg_graph *, tg_device_kernel *, const tg_launch *, const tg_work *, char *message,
                              size_t n);
tg_status tg_graph_add_copy(tg_graph *, void *to, const void *from, size_t bytes, char *message, size_t n);
tg_status tg_graph_put(tg_queue *, tg_graph *, const tg_graph_replay *, char *message, size_t n);
void tg_graph_drop(tg_graph *);
#endif
