/* SPDX-License-Identifier: MIT
 * Plans: the kernels that calls choose among by their sizes, the memory that they work in, and the threads that run
 * them. */
#ifndef TG_KIT_PLAN_H
#define TG_KIT_PLAN_H
#include "api/api.h"
#include "kit/fields.h"

/* ---- kernels ---- */

/* What kernels of an operation may have, by name: a call puts its operands and values (sizes, leading dimensions) in
 * these places. Lists of an operation's own, each of at most so many. */
enum { TG_KIT_OPERANDS = 24, TG_KIT_VALUES = 32 };
typedef struct tg_kit_names { const char *const *operand, *const *value; uint32_t operands_n, values_n; } tg_kit_names;

/* A kernel that is one task, as a function: its buffers, its run-time parameters, memory to work in, 0. */
typedef void tg_kit_code(void *const *operands, const int64_t *values, void *scratch, int64_t zero);

typedef struct tg_kit_kernel {
  tg_kernel *kernel;                     /* NULL: there is none */
  tg_kit_code *code; /* all of it, where it is one task; wants the plan's per_thread bytes; else NULL */
  uint8_t operand[TG_KIT_OPERANDS], value[TG_KIT_VALUES];   /* places of its buffers, of its run-time parameters */
  uint8_t operands_n, values_n;
  bool requirements;                     /* on run-time parameters, to be checked at each call */
} tg_kit_kernel;

/* Of a whole plan; the operation's own struct has it first. */
typedef struct tg_kit_plan {
  tg_context *context;
  uint32_t threads, most; /* of the pool, where a call brings none; with or without a pool of that size */
  size_t per_thread, shared;             /* bytes that the kernels work in, at most */
  uint32_t compiled, found, tuned;       /* kernels; of them, found in the cache, and compiled with a tuned choice */
  bool strips;                           /* some calls are strips of one thread each, and have a shared memory each */
} tg_kit_plan;
void tg_kit_plan_open(tg_kit_plan *p, tg_context *c, int32_t threads);   /* threads: as a descriptor says */

typedef struct tg_kit_source {
  const tg_kit_names *names;
  const tg_kernel_def *def;              /* the choice's sketch as a kernel of the problem */
  const tg_kernel_def *const *others;    /* all sketches that take the problem, the choice's first, for which a tuned
                                          * choice may have been kept;    NULL: none is looked for */
  uint32_t others_n;
  const tg_binding *binding;             /* of its parameters, without knobs */
  uint32_t bindings_n;
  const tg_kit_choice *choice;
  void *user;                            /* of the bodies */
  bool cached_only;
} tg_kit_source;
/* Compiles a kernel, or takes what the cache has, with the choice that was kept for it, if one was, and finds the
 * places of its buffers and parameters. */
tg_status tg_kit_compile(tg_kit_plan *p, const tg_kit_source *s, tg_kit_kernel *out);

/* What such a kernel is called with. */
static inline void tg_kit_take(const tg_kit_kernel *k, void *const *operand, const int64_t *value, void **buffers,
                               int64_t *values) {
  for (uint32_t i = 0; i < k->operands_n; i++) buffers[i] = operand[k->operand[i]];
  for (uint32_t i = 0; i < k->values_n; i++) values[i] = value[k->value[i]];
}

/* ---- parts and strips ---- */

/* A call as calls of one thread each, on strips of the result: n of them, of `size` rows or columns, the last with what
 * is left. n 1: one kernel, which its words share out. */
typedef struct tg_kit_strips { uint32_t n; bool rows; int64_t size; } tg_kit_strips;

enum { TG_KIT_SIZES = 4, TG_KIT_CASES = 2 };

/* The kernels for sizes in a box. */
typedef struct tg_kit_part {
  tg_kit_dim size[TG_KIT_SIZES];         /* in the operation's order; those that it does not have are {0, 0} */
  tg_kit_choice choice;
  tg_kit_kernel kernel[TG_KIT_CASES];    /* of an operation with cases, such as whether the result is read */
  tg_kit_strips strips;                  /* n above 1: choice and kernel are a strip's */
  tg_kit_choice last_choice;             /* of the last strip, where it is smaller than the others */
  tg_kit_kernel last[TG_KIT_CASES];
} tg_kit_part;
/* The part that serves these sizes; NULL: none. */
const tg_kit_part *tg_kit_part_for(const tg_kit_part *parts, uint32_t parts_n, const int64_t *size, uint32_t sizes_n);
bool tg_kit_same_choices(const tg_kit_part *a, const tg_kit_part *b);
void tg_kit_part_free(tg_kit_part *part);

/* ---- threads ---- */

/* Who runs a call: the caller's parallel_for, or the context's pool. */
typedef struct tg_kit_exec { tg_pool *pool; tg_parallel_for *parallel_for; void *user; uint32_t threads; } tg_kit_exec;
/* exec as a call brings it, or NULL; at_most: 0, no such bound. */
tg_kit_exec tg_kit_exec_of(const tg_kit_plan *p, const tg_exec *exec, int32_t at_most);
/* task(arg, i, worker) for each i of 0..n-1. worker: below n; who runs several is one worker, if it can be told. */
void tg_kit_tasks(const tg_kit_exec *e, uint32_t n, tg_pool_task *task, void *arg);
/* A kernel on so many of its threads. */
void tg_kit_launch(const tg_kit_exec *e, uint32_t threads, const tg_kit_kernel *k, void **buffers,
                   const int64_t *values, char *workspace);
/* Strips 0..n-1: every worker has memory of its own, and every so-manieth strip. */
typedef void tg_kit_strip(void *arg, uint32_t i, char *workspace);
void tg_kit_run_strips(const tg_kit_plan *p, const tg_kit_exec *e, uint32_t threads, uint32_t n, char *workspace,
                       tg_kit_strip *strip, void *arg);

/* ---- memory ---- */

/* Bytes for so many threads. side_by_side: they are at calls of their own, each with a shared memory; a team on one
 * call has one. */
size_t tg_kit_needed(const tg_kit_plan *p, uint32_t threads, bool side_by_side);
/* What a caller is told of it: little comes from the stack, and is 0. */
size_t tg_kit_workspace(size_t needed);
/* run(arg, workspace), aligned to 64, in the caller's memory or on the stack; or the error. call: as in tg_kit_operand.
 */
tg_status tg_kit_run_in(const tg_kit_plan *p, const char *call, size_t needed, void *given, size_t given_bytes,
                        uint32_t threads, void (*run)(void *arg, char *workspace), void *arg);
#endif
