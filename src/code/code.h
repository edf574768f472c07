/* SPDX-License-Identifier: MIT
 * Compiled code, without LLVM: the description of an object that a launcher needs, and loading objects into callable
 * code. */
#ifndef TG_CODE_H
#define TG_CODE_H
#include "dsl/uop.h"

/* What a compiled kernel needs to be launched; stored beside the object in the cache. */
typedef struct tg_code_info {
  uint32_t buffers, params, phases;   /* numbers of: global buffers, run-time parameters, phases */
  uint64_t workspace;                 /* bytes for each task in flight, 64-aligned; at least 128 */
  uint64_t shared;                    /* bytes per launch, 64-aligned: memory that phases share */
  /* bit b (b < 64): the normal entry assumes that buffer b is aligned: to 64 bytes on a host, for non-temporal
   * stores; to 16 on a GPU. If one is not, the entry `unaligned` must be called */
  uint64_t aligned;
  /* owned by the job or the cache entry. GPU: data that tg_grid_of reads. Host: NULL if each phase runs once, in
   * order; else a list of steps: p >= 0 is phase p; the pair ~l, n is loop l over the next n words */
  const int64_t *launch;
  uint64_t launch_n;                  /* words in launch */
  uint32_t loops;                     /* number of loops of phases; only on a host */
  /* bit p (p < 64): each thread takes one contiguous share of the tasks of phase p, all of equal size */
  uint64_t in_shares;
} tg_code_info;

/* The grid with which a GPU must launch phase p. groups: workgroups along x, y, z; if one is 0, there is nothing to
 * run. threads: per workgroup. local: bytes of LOCAL memory. False: a dimension would reach 2^31, or the info is
 * damaged. */
typedef struct { int64_t groups[3]; uint32_t threads; uint64_t local; } tg_grid;
enum { TG_GRID_NODES = 1024 };
bool tg_grid_of(const tg_code_info *, uint32_t phase, const int64_t *params, tg_grid *out);
tg_op tg_grid_op(int64_t code);     /* TG_OP__COUNT: there is none */
int tg_grid_code(tg_op op);         /* number that stands for op in the extents of a grid; -1: not supported there */

/* The interface between object and launcher.
 *
 * GPU: the object is PTX text with its NUL, or an AMD code object (object.h). Phase p is the kernel NAME_p (and
 * NAME_p_unaligned). Its arguments are pointers to the info.buffers buffers in order of definition, a pointer to the
 * shared memory if info.shared > 0, then info.params parameters as i64.
 *
 * Host: phase p is the function NAME.p; if info.aligned != 0, NAME.p.unaligned is a second version without
 * non-temporal stores:
 *   void entry(void *const *buffers, const int64_t *params, void *workspace, int64_t task)
 * buffers[info.buffers] points to the shared memory. The number of tasks (the extent of the phase's thread range;
 * below 1: none) is returned by
 *   int64_t NAME.p.tasks(void *const *buffers, const int64_t *params)
 * Phases run in order, each after all tasks of the previous one. Loops of phases are run by the launcher: as loop l
 * begins, it calls
 *   int64_t NAME.l.turns(void *const *buffers, const int64_t *params)
 * for the number of iterations. Before each iteration it stores the loop's counter to the shared memory, as i64 number
 * d, where d is the number of loops of phases around loop l. */
typedef void tg_phase_fn(void *const *buffers, const int64_t *params, void *workspace, int64_t task);
typedef int64_t tg_tasks_fn(void *const *buffers, const int64_t *params);

enum { TG_JIT_DEBUG = 1, TG_JIT_PERF_MAP = 2, TG_JIT_VERIFY = 4 };

/* From identity.c, which the build generates: a hash of the compiler's own code; and one of that and of the rooms that
 * propose what operations for engines are made of, for what they chose. */
extern const char tg_build_hash[], tg_choice_hash[];
const char *tg_llvm_version(void);   /* the LLVM that this build of tg compiles with */

/* A linker to be used in place of tg's own loader. May be called from any thread; must outlive all that it linked. */
typedef struct tg_linker {
  /* Copies the object into executable memory and sets the addresses of the n functions in names. TG_MISS: it declines,
   * so tg's own loader is used. Any other failure is described in message. */
  tg_status (*link)(void *user, const void *object, size_t bytes, const char *const *names, uint32_t n,
                    void **addresses, void **linked, char *message, size_t message_n);
  void (*unlink)(void *user, void *linked);
  void *user;
} tg_linker;

/* Loaded code; never writable and executable at once. Any thread may unload it once no call is running. */
typedef struct tg_code tg_code;
/* Needs no LLVM. The object is copied. A malformed one fails; nothing in it is trusted. */
tg_status tg_code_load(const tg_allocator *a, const void *object, size_t bytes, const char *name, const tg_code_info *,
                       uint32_t flags, tg_code **out, tg_env *err);
/* Likewise through a linker, which trusts the object: only for objects that this process has just compiled. */
tg_status tg_code_link(const tg_allocator *a, const tg_linker *, const void *object, size_t bytes, const char *name,
                       const tg_code_info *, uint32_t flags, tg_code **out, tg_env *err);
tg_phase_fn *tg_code_entry(const tg_code *, uint32_t phase, bool unaligned);
int64_t tg_code_tasks(const tg_code *, uint32_t phase, void *const *buffers, const int64_t *params);
/* Calls fn for each phase in order of execution, loops of phases included; before each call the counters of the loops
 * around the phase are stored to the shared memory. */
typedef void tg_step_fn(void *user, uint32_t phase);
void tg_code_walk(const tg_code *, void *const *buffers, const int64_t *params, tg_step_fn *fn, void *user);
void tg_code_unload(tg_code *);
#endif
