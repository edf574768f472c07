/* SPDX-License-Identifier: MIT
 * An AMD device: what the files of this folder share. Memory, kernels and the table of functions are in amd.c, queues
 * in queue.c, recorded graphs in graph.c. */
#ifndef TG_DEVICES_AMD_AMD_H
#define TG_DEVICES_AMD_AMD_H
#include <pthread.h>
#include "devices/amd/chip.h"
#include "devices/amd/drm.h"
#include "devices/amd/pm4.h"
#include "devices/kernel.h"

/* Memory that the device reaches. Device memory lies in the upper half of addresses, which no pointer of the process
 * has; memory of the host has the same address for both. */
typedef struct tg_amd_memory {
  tg_drm_handle buffer, range;
  uint64_t address, bytes;     /* as the device sees it */
  char *host;                  /* NULL: the host cannot reach it */
  bool mapped, host_mapped;    /* into the device's memory; by amdgpu_bo_cpu_map */
} tg_amd_memory;

typedef struct tg_amd_queue tg_amd_queue;

typedef struct tg_amd_device {
  tg_device head;
  tg_drm f;
  tg_target target;
  const tg_amd_chip *chip;
  int node;
  tg_drm_handle device;
  double clock_hertz;
  pthread_mutex_t lock;        /* guards queues */
  pthread_mutex_t upload_lock; /* guards upload */
  tg_amd_queue *upload;        /* brings code to the card */
  tg_amd_queue *queues;        /* all; guarded by lock */
} tg_amd_device;

/* One entry of a kernel: the code of a phase. */
typedef struct { uint64_t entry; uint32_t rsrc1, rsrc2, rsrc3, local, arguments; uint16_t properties; } tg_amd_entry;

typedef struct tg_amd_code {
  tg_device_kernel head;
  tg_amd_memory code;
  tg_amd_entry *entry;         /* phases, then phases for buffers that are not aligned, if there are any */
  uint32_t entries;
} tg_amd_code;

enum { TG_AMD_SLOTS = 16, TG_AMD_SLOT_BYTES = 64 << 10 };

/* What a submission reads: words from the beginning, arguments of kernels from the end. */
typedef struct tg_amd_block {
  tg_amd_stream stream;
  uint64_t address;
  uint32_t bytes, arguments;   /* in all; that arguments take */
  bool busy;                   /* there is work in the stream that the next has to wait for */
} tg_amd_block;

/* The words of the latest submissions, for the report of one that hangs. */
typedef struct { const uint32_t *words; uint32_t n, ring; } tg_amd_sent;

/* A queue is a line of submissions, each to one of two rings: the compute ring, and a copy engine. Points of its
 * timeline are numbered as they are submitted; a submission to the other ring waits for the point before. Words and
 * arguments of a submission lie in a slot until its point is reached, those of a recorded graph in its own memory. */
struct tg_amd_queue {
  tg_queue head;
  tg_drm_handle context;
  uint32_t timeline;           /* a syncobj */
  _Atomic uint64_t submitted;  /* points so far */
  tg_amd_queue *next;          /* in the device's list */
  uint32_t ring, last_ring;    /* of the stream under way, if open, else of the next one; of the last submission */
  tg_amd_memory slots, stamps, staging;
  tg_amd_sent sent[TG_AMD_SLOTS];   /* point p has slot (p - 1) % TG_AMD_SLOTS; guarded by the device's lock */
  uint64_t staging_point[2];   /* at which each half of the staging memory is free */
  uint32_t half;               /* of the last copy */
  bool open;                   /* block is under way, in a slot */
  tg_amd_block block;
  tg_drm_point waits[16];      /* of the next submission */
  uint32_t waits_n;
  _Atomic uint64_t reported;   /* the highest point whose delay has been reported */
};

/* flags and heap as in drm.h. memory->host is set if host. address 0: any */
tg_status tg_amd_allocate(tg_amd_device *, uint64_t bytes, uint32_t heap, uint64_t flags, bool host, tg_amd_memory *,
                          char *message, size_t n);
void tg_amd_release(tg_amd_device *, tg_amd_memory *);   /* of zeros: does nothing */
/* Memory is about to go, and all work should have ended; but if the call that waited for it has failed, that is not
 * known. Looks again, and waits; a call that fails again and again ends it. */
void tg_amd_settle(tg_amd_device *);
/* What a negative errno of the driver's means. */
tg_status tg_amd_failure(const char *what, int code, char *message, size_t n);

tg_status tg_amd_queue_open(const tg_queue *head, tg_queue **out, char *message, size_t n);
void tg_amd_queue_close(tg_queue *);
tg_status tg_amd_queue_launch(tg_queue *, tg_device_kernel *, const tg_work *, char *message, size_t n);
tg_status tg_amd_queue_copy(tg_queue *, void *to, const void *from, size_t bytes, char *message, size_t n);
/* Copies from memory of the host, which may change afterwards, to an address of the device. */
tg_status tg_amd_queue_copy_in(tg_amd_queue *, uint64_t to, const char *from, uint64_t bytes, char *message, size_t n);
tg_status tg_amd_queue_after(tg_queue *, tg_queue *of, uint64_t value, char *message, size_t n);
tg_status tg_amd_queue_stamp(tg_queue *, uint32_t slot, char *message, size_t n);
tg_status tg_amd_queue_submit(tg_queue *, uint64_t *value, char *message, size_t n);
tg_status tg_amd_queue_wait(tg_queue *, uint64_t value, int64_t nanoseconds, char *message, size_t n);
tg_status tg_amd_queue_stamps(tg_queue *, uint32_t first, uint32_t n, double *seconds, char *message,
                              size_t message_n);
/* Puts a kernel's phases into the block, for which the queue makes room; NULL: it has tg_amd_room for each launch. */
tg_status tg_amd_put(tg_amd_block *, tg_amd_queue *, const tg_device_kernel *, const tg_work *, char *message,
                     size_t n);
uint64_t tg_amd_room(const tg_device_kernel *);
void tg_amd_block_begin(tg_amd_block *, uint32_t ring);
void tg_amd_block_end(tg_amd_block *, uint32_t ring);
/* Submits a block for the compute ring that is not the queue's own, and stays as it is until its work has ended. */
tg_status tg_amd_queue_replay(tg_queue *, const tg_amd_block *, char *message, size_t n);
void tg_amd_forget(tg_amd_device *, const tg_amd_block *);   /* its memory is about to go */

tg_status tg_amd_graph_make(tg_device *, const tg_graph_step *, uint32_t steps_n, void **out, char *message, size_t n);
tg_status tg_amd_graph_put(tg_queue *, void *graph, const tg_graph_step *, uint32_t steps_n, const bool *changed,
                           char *message, size_t n);
void tg_amd_graph_drop(tg_device *, void *graph);
#endif
