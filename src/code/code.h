/* SPDX-License-Identifier: MIT
 * Compiled code without LLVM: what a kernel's code needs to be launched, objects to callable code. */
#ifndef TG_CODE_H
#define TG_CODE_H
#include "dsl/uop.h"

/* What a compiled kernel needs to be launched; stored beside the object in the cache. */
typedef struct tg_code_info {
  uint32_t buffers, params, phases;   /* of a launch: global buffers, run-time parameters */
  uint64_t workspace;                 /* bytes per task in flight, 64-aligned; at least 128 */
  uint64_t shared;                    /* bytes per launch, 64-aligned: memory that outlives a phase */
  /* bit b: the first entry assumes that buffer b is aligned, to 64 bytes on a host (it streams to it), to 16 on a
   * GPU */
  uint64_t aligned;
  /* in the memory of the job or of the cache's entry. Of a GPU: what tg_grid_of reads. On a host: NULL if phases run
   * once each, in order; else the steps: p >= 0 is phase p; ~l, n is loop l of the next n words */
  const int64_t *launch;
  uint64_t launch_n;                  /* words */
  uint32_t loops;                     /* of phases, on a host */
  /* bit p: tasks of phase p, one of the first 64, go to threads as contiguous equal shares */
  uint64_t in_shares;
} tg_code_info;

/* How a GPU is to launch phase p with these parameters. No groups in one dimension: nothing is to be run. False: a
 * dimension would be 2^31 or more, or the info is damaged. */
typedef struct { int64_t groups[3]; uint32_t threads; uint64_t local; } tg_grid;
enum { TG_GRID_NODES = 1024 };
bool tg_grid_of(const tg_code_info *, uint32_t phase, const int64_t *params, tg_grid *out);
int tg_grid_code(tg_op op);         /* of an operation in an extent; -1: there is none */

/* On a GPU phase p is the kernel NAME_p (and NAME_p_unaligned): pointers to info.buffers buffers in order of
 * definition, to the shared memory if
 * info.shared, then info.params parameters as i64. The object is PTX text with its NUL, or an AMD code object
 * (object.h).
 * On a host the entry of phase p is NAME.p; NAME.p.unaligned, without streaming stores, stands beside it if
 * info.aligned:
 *   void entry(void *const *buffers, const int64_t *params, void *workspace, int64_t task)
 * buffers[info.buffers] is the shared memory. Tasks of a phase, its thread range's extent (below 1: none), are what
 *   int64_t NAME.p.tasks(void *const *buffers, const int64_t *params)
 * gives. Phases run in order, each after all tasks of the one before. Loops of phases are the launcher's: before each
 * turn of one that d others
 * stand around, the i64 number d of the shared memory is its count; there are as many as
 *   int64_t NAME.l.turns(void *const *buffers, const int64_t *params)
 * gives as the loop begins. */
typedef void tg_phase_fn(void *const *buffers, const int64_t *params, void *workspace, int64_t task);
typedef int64_t tg_tasks_fn(void *const *buffers, const int64_t *params);

enum { TG_JIT_DEBUG = 1, TG_JIT_PERF_MAP = 2, TG_JIT_VERIFY = 4 };

const char *tg_llvm_version(void);   /* that this build of tg compiles with */

/* Whoever places objects instead of tg's own loader. Called from any thread; outlives what it linked. */
typedef struct tg_linker {
  /* Places the object, which is copied, and says where each of the functions is. TG_MISS: it would rather not, so
   * tg's own loader does. Else a failure, and what is wrong. */
  tg_status (*link)(void *user, const void *object, size_t bytes, const char *const *names, uint32_t n,
                    void **addresses, void **linked, char *message, size_t message_n);
  void (*unlink)(void *user, void *linked);
  void *user;
} tg_linker;

/* loaded, callable; never writable and executable at once. Freed after the last call returned, by any thread */
typedef struct tg_code tg_code;
/* Needs no LLVM. The object is copied. A malformed one fails; nothing in it is trusted. */
tg_status tg_code_load(const tg_allocator *a, const void *object, size_t bytes, const char *name, const tg_code_info *,
                       uint32_t flags, tg_code **out, tg_env *err);
/* Likewise through a linker, which trusts what tg_code_load would not: of an object that this process has just
 * compiled. */
tg_status tg_code_link(const tg_allocator *a, const tg_linker *, const void *object, size_t bytes, const char *name,
                       const tg_code_info *, uint32_t flags, tg_code **out, tg_env *err);
tg_phase_fn *tg_code_entry(const tg_code *, uint32_t phase, bool unaligned);
int64_t tg_code_tasks(const tg_code *, uint32_t phase, void *const *buffers, const int64_t *params);
/* Calls fn for each phase in turn, with the counters of the loops around it written. */
typedef void tg_step_fn(void *user, uint32_t phase);
void tg_code_walk(const tg_code *, void *const *buffers, const int64_t *params, tg_step_fn *fn, void *user);
void tg_code_unload(tg_code *);
#endif
