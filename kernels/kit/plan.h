/* SPDX-License-Identifier: MIT
 * Plans: compiled kernels, among which a call chooses by its sizes, with the workspace and the threads to run them. */
#ifndef TG_KIT_PLAN_H
#define TG_KIT_PLAN_H
#include <stdatomic.h>
#include "api/api.h"
#include "kit/fields.h"

/* ---- kernels ---- */

/* The names that buffers (operand) and run-time parameters (value: sizes, leading dimensions) of an operation's
 * kernels may have. A call fills one array of operands and one of values in this order, and each kernel takes from
 * them the ones that it has. Each operation has its own lists, of at most TG_KIT_OPERANDS and TG_KIT_VALUES names. */
enum { TG_KIT_OPERANDS = 40, TG_KIT_VALUES = 64 };
typedef struct tg_kit_names { const char *const *operand, *const *value; uint32_t operands_n, values_n; } tg_kit_names;

/* A kernel that is one task, as a function of its buffers, its run-time parameters and its workspace. The last argument
 * is 0. */
typedef void tg_kit_code(void *const *operands, const int64_t *values, void *scratch, int64_t zero);

typedef struct tg_kit_kernel {
  tg_kernel *kernel;                     /* NULL: there is no kernel for this case */
  /* the whole kernel as a function, if it is one task; its scratch is the plan's per_thread bytes. NULL: it has
   * several tasks */
  tg_kit_code *code;
  /* buffer i is the operation's operand number operand[i]; run-time parameter i is its value number value[i] */
  uint8_t operand[TG_KIT_OPERANDS], value[TG_KIT_VALUES];
  uint8_t operands_n, values_n;
  bool requirements;                     /* it has requirements (tg_require) that each call must check */
} tg_kit_kernel;

/* The part of a plan that all operations share; it is the first field of an operation's plan. */
typedef struct tg_kit_plan {
  tg_context *context;
  /* threads: of a call without tg_exec, which runs on the context's pool: the descriptor's number, at most the pool's.
   * most: what kernels are chosen for, and the workspace is computed for: the descriptor's number even if the pool has
   * fewer, since a call with tg_exec brings its own threads */
  uint32_t threads, most;
  size_t per_thread, shared;             /* largest workspace of any kernel: bytes for each thread, bytes for all */
  uint32_t compiled, found, tuned;       /* kernels; how many came from the cache; how many have a tuned choice */
  tg_device *device;                     /* where kernels run; NULL: on the host's CPU */
  const int *cancel;                     /* of the descriptor, while it is planned */
  bool strips;                           /* some calls run as strips, each with its own `shared` bytes */
} tg_kit_plan;
/* threads: the field of the descriptor `desc`: 0 or 1: the calling thread; n: at most n; -1: the whole pool. TG_EINVAL:
 * below -1. */
tg_status tg_kit_plan_open(tg_kit_plan *p, tg_context *c, const char *desc, int32_t threads);
/* Memory of zeros for a plan, by the context's allocator; NULL, with a message, if there is none. */
void *tg_kit_new(tg_context *c, size_t bytes);
void tg_kit_delete(tg_context *c, void *plan, size_t bytes);

typedef struct tg_kit_source {
  const tg_kit_names *names;
  const tg_kernel_def *def;              /* the choice's sketch, as a kernel of the problem */
  const tg_kernel_def *const *others;    /* all sketches that take the problem, the choice's first: a tuned choice may
                                          * have been kept for any of them. NULL: tuned choices are ignored */
  uint32_t others_n;
  const tg_binding *binding;             /* bindings of the kernel's parameters, without knobs */
  uint32_t bindings_n;
  const tg_kit_choice *choice;           /* the knobs, if there is no tuned choice */
  void *user;                            /* passed to the sketches' bodies */
  bool cached_only;                      /* compile nothing: TG_MISS if the kernel is not in the cache */
} tg_kit_source;
/* Compiles a kernel, or takes it from the cache; with the tuned choice if one was kept. Then finds which operand and
 * value each of its buffers and parameters is. */
tg_status tg_kit_compile(tg_kit_plan *p, const tg_kit_source *s, tg_kit_kernel *out);
/* The second of these alone, for k->kernel; the rest of *k is zero. */
tg_status tg_kit_connect(tg_kit_plan *p, const tg_kit_names *names, tg_kit_kernel *k);

/* Fills the arrays that a kernel is called with from the operands and values of a call. */
static inline void tg_kit_take(const tg_kit_kernel *k, void *const *operand, const int64_t *value, void **buffers,
                               int64_t *values) {
  for (uint32_t i = 0; i < k->operands_n; i++) buffers[i] = operand[k->operand[i]];
  for (uint32_t i = 0; i < k->values_n; i++) values[i] = value[k->value[i]];
}

/* ---- parts and strips ---- */

/* A call may be divided into n strips of the result, each computed by one thread: of `size` rows (rows true) or columns
 * each, the last of the remainder. n 1: no strips; one kernel computes all, and its words divide it among threads. */
typedef struct tg_kit_strips { uint32_t n; bool rows; int64_t size; } tg_kit_strips;

enum { TG_KIT_SIZES = TG_REGION_SIZES, TG_KIT_CASES = 2 };

/* The kernels for one box of sizes, such as m in 5..16 with fixed n and k. */
typedef struct tg_kit_part {
  tg_kit_dim size[TG_KIT_SIZES];         /* in the operation's order; unused entries are {0, 0} */
  tg_kit_choice choice;
  tg_kit_kernel kernel[TG_KIT_CASES];    /* one for each case of the operation, such as whether the result is read */
  tg_kit_strips strips;                  /* n above 1: choice and kernel are those of one strip */
  /* the choice is of a kernel of one thread, which computes the pieces that a call is divided into by its sizes; terms:
   * sums are divided as well, and `partial` computes a part of them */
  bool pieces, terms;
  tg_kit_kernel partial;
  tg_kit_choice last_choice;             /* for the last strip, if it is smaller than the others */
  tg_kit_kernel last[TG_KIT_CASES];      /* likewise; kernel NULL: the last strip uses `kernel` */
} tg_kit_part;
/* The part that serves these sizes; NULL: there is none. */
const tg_kit_part *tg_kit_part_for(const tg_kit_part *parts, uint32_t parts_n, const int64_t *size, uint32_t sizes_n);
bool tg_kit_same_choices(const tg_kit_part *a, const tg_kit_part *b);
/* Adds a part behind the last one; or, if it may join and has the same choices, lets that one reach as far in dimension
 * `dim`. */
void tg_kit_add_part(tg_kit_part *parts, uint32_t *parts_n, const tg_kit_part *next, uint32_t dim, bool may_join);
void tg_kit_part_free(tg_kit_part *part);

/* ---- threads ---- */

/* Who runs a call: the caller's parallel_for, or the context's pool. */
typedef struct tg_kit_exec {
  tg_pool *pool;
  tg_parallel_for *parallel_for;
  void *user;
  uint32_t threads;
  struct tg_kit_puts *puts;              /* NULL: kernels run on the host's CPU */
} tg_kit_exec;
/* The threads of a call. exec: the call's, NULL: the context's pool; at_most: upper bound on threads, 0: no bound. */
tg_kit_exec tg_kit_exec_of(const tg_kit_plan *p, const tg_exec *exec, int32_t at_most);
/* Runs task(arg, i, worker) for each i of 0..n-1. worker is below n. On the pool it numbers the thread; with a
 * parallel_for, where threads are unknown, it is i. */
void tg_kit_tasks(const tg_kit_exec *e, uint32_t n, tg_pool_task *task, void *arg);
/* Launches on a device: put on a queue, each with the whole of the workspace, as they run one after another. */
typedef struct tg_kit_puts {
  tg_queue *queue;
  void *workspace;                       /* NULL: the queue's own */
  size_t workspace_bytes;
  tg_status status;                      /* of the first that failed, after which nothing is put; message: why */
  char message[512];
} tg_kit_puts;
/* The queue of a call of the plan, and its workspace. queue NULL: the device's default one. TG_EINVAL: it is no queue
 * of the plan's device. call: as in tg_kit_operand. */
tg_status tg_kit_puts_open(const tg_kit_plan *p, const char *call, tg_queue *queue, void *workspace, size_t bytes,
                           tg_kit_puts *out);
/* The status of all, with its message in the context; on the default queue they are submitted. */
tg_status tg_kit_puts_end(const tg_kit_plan *p, tg_kit_puts *puts);
/* Runs a kernel on `threads` threads of e, or puts it. */
void tg_kit_launch(const tg_kit_exec *e, uint32_t threads, const tg_kit_kernel *k, void **buffers,
                   const int64_t *values, char *workspace);
/* The same on the calling thread, for the operands and values of a call, from which the kernel takes its own. */
void tg_kit_launch_of(const tg_kit_exec *e, const tg_kit_kernel *k, void *const *operand, const int64_t *value,
                      char *workspace);
/* Runs strips 0..n-1. With w workers, worker j runs the strips j, j + w, j + 2w.. in its own part of the workspace. */
typedef void tg_kit_strip(void *arg, uint32_t i, char *workspace);
void tg_kit_run_strips(const tg_kit_plan *p, const tg_kit_exec *e, uint32_t threads, uint32_t n, char *workspace,
                       tg_kit_strip *strip, void *arg);

/* Tasks 0..n-1 that threads take as they get to them, `some` at a time. They are divided into shares: a thread takes
 * from its own first, since it may have their data in its caches from the call before, then what the others left.
 * 1 share: in order. */
enum { TG_KIT_SHARES = 16, TG_KIT_LINE = 64 };
typedef struct tg_kit_deal {
  int64_t n, some;
  uint32_t shares;
  struct { _Alignas(TG_KIT_LINE) atomic_llong n; } taken[TG_KIT_SHARES];
} tg_kit_deal;
void tg_kit_deal_open(tg_kit_deal *d, int64_t n, int64_t some, uint32_t shares);
/* What a thread takes: {.worker = worker} at first; then each tg_kit_deal_next gives it the tasks from..to - 1. False:
 * none is left. */
typedef struct tg_kit_hand { int64_t from, to; uint32_t worker, tried; } tg_kit_hand;
bool tg_kit_deal_next(tg_kit_deal *d, tg_kit_hand *hand);

/* ---- memory ---- */

/* Bytes of workspace for `threads` threads. side_by_side: each thread runs kernels alone, with its own `shared` bytes;
 * else all threads run one kernel and have these bytes in common. */
size_t tg_kit_needed(const tg_kit_plan *p, uint32_t threads, bool side_by_side);
/* The part of a thread in a workspace of threads side by side. */
static inline char *tg_kit_own(const tg_kit_plan *p, char *workspace, uint32_t worker) {
  return workspace + (size_t)worker * (p->per_thread + p->shared);
}
/* Bytes that the caller must provide for it: 0 if it is small enough for the stack. */
size_t tg_kit_workspace(size_t needed);
/* Calls run(arg, workspace) with `needed` bytes aligned to 64, in the caller's memory or on the stack. TG_EINVAL if the
 * caller's memory is too small. call: as in tg_kit_operand. */
tg_status tg_kit_run_in(const tg_kit_plan *p, const char *call, size_t needed, void *given, size_t given_bytes,
                        uint32_t threads, void (*run)(void *arg, char *workspace), void *arg);
#endif
