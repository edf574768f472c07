/* SPDX-License-Identifier: MIT
 * LLVM, through its C API: a linear program to a module, to an object; objects to callable code. */
#ifndef TG_JIT_H
#define TG_JIT_H
#include "dsl/uop.h"
#include "target/target.h"

/* What a compiled kernel needs to be launched; stored beside the object in the cache. */
typedef struct tg_code_info {
  uint32_t buffers, params, phases;
  uint64_t workspace;                 /* bytes per task in flight, 64-aligned */
  bool streams;                       /* a second entry per phase exists for misaligned buffers */
} tg_code_info;

/* The entry of phase p is NAME.p (NAME.p.unaligned without streaming stores):
 *   void entry(void *const *buffers, const int64_t *params, void *workspace, int64_t task)
 * tasks of a phase: its thread range's extent, computed by NAME.p.tasks: int64_t (const int64_t *params). */
typedef void tg_phase_fn(void *const *buffers, const int64_t *params, void *workspace, int64_t task);

typedef struct tg_jit tg_jit;         /* one per context: ORC, target machines per thread, locks */
tg_status tg_jit_open(tg_jit **out, const tg_allocator *a, const tg_target *t, tg_env *err);
void tg_jit_close(tg_jit *);

/* Builds the module and emits the object. text, if not NULL, gets the LLVM IR (show --stage llvm) or assembly. */
typedef struct { void *data; size_t bytes; } tg_object;   /* in the job's arena */
tg_object tg_jit_compile(tg_jit *, tg_job *j, const tg_uop *linear, tg_code_info *info, const char **ir_text, const char **asm_text);
typedef struct tg_code tg_code;       /* loaded, callable; W^X */
tg_status tg_jit_load(tg_jit *, const void *object, size_t bytes, const char *name, const tg_code_info *, tg_code **out, tg_env *err);
tg_phase_fn *tg_code_entry(const tg_code *, uint32_t phase, bool unaligned);
int64_t tg_code_tasks(const tg_code *, uint32_t phase, const int64_t *params);
void tg_code_unload(tg_code *);
#endif
