/* SPDX-License-Identifier: MIT
 * Programs (tg/program.h): how steps are kept, and how operations (products, attention) add theirs. */
#ifndef TG_API_PROGRAM_H
#define TG_API_PROGRAM_H
#include "api/api.h"
#include "tg/program.h"

/* Memory that a step reads or writes. align: of its elements, in bytes */
typedef struct tg_program_access { uintptr_t at; size_t bytes; uint32_t align; bool read, written; } tg_program_access;

typedef struct tg_program_step tg_program_step;

/* The fields of an operation's call that a program sets in each run, as offsets into its struct. */
typedef struct tg_program_fields { uint16_t exec, threads, queue, workspace, workspace_bytes; } tg_program_fields;
#define TG_PROGRAM_FIELDS(call)                                                                                      \
  { offsetof(call, exec), offsetof(call, threads), offsetof(call, queue), offsetof(call, workspace),                 \
    offsetof(call, workspace_bytes) }

/* What an operation does with its sums in the end, as a kernel that is a map (src/compile/fuse.h): its text, whose
 * first buffer has the sums and whose last one is the result; where the others are; and all that a plan that does more
 * there depends on. */
enum { TG_PROGRAM_ENDING = 8192, TG_PROGRAM_SHAPE = 16, TG_PROGRAM_VALUES = 16 };
typedef struct tg_program_ending {
  char text[TG_PROGRAM_ENDING];
  tg_buffer_desc buffer[TG_PROGRAM_VALUES];
  uintptr_t at[TG_PROGRAM_VALUES];
  uint32_t buffers_n;
  int64_t shape[TG_PROGRAM_SHAPE];
} tg_program_ending;
/* What it is to do there: an expression over acc and a0, a1.., its arguments; another one for sums that are taken in
 * blocks (NULL: there is none). seconds: what that saves elsewhere */
typedef struct tg_program_epilogue {
  const char *text, *in_blocks;
  struct { uint8_t type, per; uintptr_t at; } argument[TG_PROGRAM_VALUES];
  uint32_t arguments_n;
  uintptr_t result;
  uint8_t type;                /* of the result */
  bool adds;                   /* what ends the call now adds to the sums, and does nothing else */
  double seconds;
} tg_program_epilogue;
/* How a map behind an operation becomes its epilogue. ends: false: nothing can be put behind this call. extend: a plan
 * for calls of this shape that ends otherwise, with the same bits before that; NULL: there is none, or it does not pay.
 * step: the call with that plan as a step, which is not put. drop: frees the plan. */
typedef struct tg_program_ends {
  bool (*ends)(const void *plan, const void *call, tg_program_ending *out);
  void *(*extend)(const void *plan, const void *call, const tg_program_epilogue *e);
  tg_status (*step)(tg_program *, const void *extended, const void *call, const tg_program_epilogue *e,
                    tg_program_step **out);
  void (*drop)(void *extended);
} tg_program_ends;

/* A call of an operation as a step. Everything is copied. */
typedef struct tg_program_operation {
  const char *name;            /* of the function that puts it, for messages */
  tg_context *context;
  tg_device *device;           /* NULL: the host's CPU */
  const void *plan;
  void *call;                  /* the operation's struct, with addresses as they were recorded */
  size_t call_bytes;           /* at most TG_PROGRAM_CALL */
  tg_program_fields fields;
  /* offsets of the pointers in it which each run sets to that run's memory; those that are NULL stay so */
  const uint16_t *pointers;
  uint32_t pointers_n, copies_n, accesses_n;
  /* arrays of the caller's that the call points to, at these offsets */
  const struct tg_program_copy { uint16_t offset; const void *data; size_t bytes; } *copies;
  const tg_program_access *accesses;
  size_t workspace;            /* that it needs on tg_program_threads() threads of a tg_exec */
  tg_status (*run)(const void *plan, const void *call);
  const tg_program_ends *ends; /* NULL: no map becomes a part of it */
  tg_exec exec;                /* set by tg_program_lend */
} tg_program_operation;
enum { TG_PROGRAM_CALL = 2048 };

uint32_t tg_program_threads(const tg_program *);
/* Does the address stand for memory of the program, so that nothing can be read there? */
bool tg_program_stands_for(const tg_program *, const void *);
/* lend: refuses a call that has one of the fields itself, and gives it o->exec with the program's threads, for which
 * the operation then finds its workspace. add: adds it, without that. step: makes a step of it, which is not put. */
tg_status tg_program_lend(tg_program *, tg_program_operation *o);
tg_status tg_program_add(tg_program *, const tg_program_operation *o);
tg_status tg_program_operation_step(tg_program *, const tg_program_operation *o, tg_program_step **out);

/* ---- within src/api ---- */

/* An argument or a temporary. at: the address that stands for it, with `reserved` bytes of no memory */
typedef struct tg_program_memory {
  const char *name;
  char *at;
  size_t bytes, reserved;
  bool argument, written;      /* written: by a step so far */
  uint32_t number;             /* of the argument */
  uint32_t align;              /* of the largest elements in it */
  uint32_t first, last;        /* groups that use it; first above last: none does */
  size_t offset;               /* of a temporary, in the planned memory */
} tg_program_memory;

/* A pointer of a step. of: TG_FIXED: the address `value`; TG_PLANNED: that offset in the planned memory; else in the
 * argument of - TG_GIVEN. field: its offset in the call; of a kernel: unused */
enum { TG_FIXED, TG_PLANNED, TG_GIVEN };
typedef struct tg_program_pointer { uint32_t of, field; uintptr_t value; } tg_program_pointer;

struct tg_program_step {
  tg_program_step *next;
  uint32_t group;
  tg_kernel *kernel;           /* NULL: an operation */
  tg_device_kernel *code;      /* of the kernel, for these parameters */
  const void *plan;
  tg_status (*run)(const void *plan, const void *call);
  const tg_program_ends *ends;
  tg_program_fields fields;
  const char *call;
  size_t call_bytes, workspace;
  tg_program_pointer *pointers;   /* of a kernel: its buffers */
  size_t *bytes;                  /* of a kernel's buffers */
  int64_t *params;
  tg_program_access *accesses;
  uint32_t pointers_n, params_n, accesses_n;
};

typedef struct tg_program_block { struct tg_program_block *next; size_t bytes; } tg_program_block;

/* What was asked about two launches, so that equal ones (in each layer of a model) are compiled once. kernel: that does
 * the work of both; NULL: none. The question's texts are gone. */
typedef struct tg_program_fused {
  struct tg_program_fused *next;
  tg_fusion question;
  tg_kernel *kernel;
} tg_program_fused;

/* Likewise of a call of `plan` of this shape and a launch: the buffers and the values of its epilogue are the
 * question's; extended NULL: there is none. */
typedef struct tg_program_extended {
  struct tg_program_extended *next;
  tg_fusion question;
  const void *plan;
  int64_t shape[TG_PROGRAM_SHAPE];
  const tg_program_ends *ends;
  void *extended;
} tg_program_extended;

struct tg_program {
  tg_context *context;
  tg_device *device;
  uint32_t threads;
  bool ended, host, fuses;
  tg_program_block *blocks;    /* all that it has allocated */
  tg_program_memory *memory;
  tg_program_step *first, **last;
  tg_program_fused *fused;
  tg_program_extended *extended;
  uint32_t fused_n;            /* steps that are part of another */
  tg_program_access *fixed;    /* memory of the caller's that steps use */
  uint32_t memory_n, memory_cap, arguments_n, steps_n, groups_n, fixed_n;
  size_t all, live, planned, scratch;
  _Atomic(char *) spare;       /* a workspace that no run uses; CPU only */
  /* on a device: the graph, recorded by the first run with its arguments */
  pthread_mutex_t lock;
  tg_queue *queue;
  tg_graph *graph;
  void *area;
  tg_argument *recorded;
};

void *tg_program_take(tg_program *, size_t bytes);   /* zeroed; NULL, with a message */
/* The argument or temporary that the address is in; NULL: none. */
tg_program_memory *tg_program_memory_of(const tg_program *, uintptr_t at);
/* program.c: a launch, checked, as a step, which is not put. */
tg_status tg_program_step_of(tg_program *, tg_kernel *, const tg_launch *, tg_program_step **out);
/* program_plan.c: groups of steps, when each temporary lives, and where it lies. May be called again for other
 * steps. */
tg_status tg_program_plan(tg_program *);
/* Then, once: the pointers of all steps. */
tg_status tg_program_settle(tg_program *);
/* program_fuse.c: makes one step of two where that pays, and plans again. */
tg_status tg_program_fuse(tg_program *);
/* By buffer of the reader: 1 + which of n addresses it has; 0: none. The memory between both does not count. */
void tg_program_find_same(const tg_program_step *reader, uint32_t between, const uintptr_t *at, uint32_t n,
                          uint8_t same[TG_MAX_BUFFERS]);
bool tg_program_same_question(const tg_fusion *a, const tg_fusion *b);
/* program_epilogue.c: both as one step, the first of which is an operation; NULL: they stay apart. */
tg_program_step *tg_program_extend(tg_program *, tg_program_step *const pair[2], uint32_t between);
#endif
