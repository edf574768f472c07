/* SPDX-License-Identifier: MIT
 * The compiler's back end: a linear program to an LLVM module to an object, through LLVM's C API. The rest of tg calls
 * it by the functions of generator/generator.h, which go through the table below: the archive has the table in it, the
 * shared library opens it, and LLVM with it, when first something is compiled. */
#ifndef TG_JIT_H
#define TG_JIT_H
#include "code/object.h"
#include "target/target.h"

typedef struct tg_jit tg_jit;         /* one per context: target, target machines, locks */
typedef struct { void *data; size_t bytes; } tg_object;   /* in the job's arena */

/* What generator/generator.h says of each. */
typedef struct tg_generator {
  /* tg_build_hash of what has the table. First for good: it is read before anything else is known of the table */
  const char *build;
  tg_status (*open)(tg_jit **out, const tg_allocator *a, const tg_target *t, uint32_t flags, tg_env *err);
  void (*close)(tg_jit *);
  const tg_target *(*target)(const tg_jit *);
  tg_object (*compile)(tg_jit *, tg_job *j, const tg_uop *linear, tg_code_info *info, const char **ir_text,
                       const char **asm_text);
  void (*build_module)(tg_jit *, tg_job *j, const tg_uop *linear, tg_code_info *info);
  tg_linker (*linker)(tg_jit *);
  tg_object (*assemble)(tg_job *j, const tg_target *t, const char *const *texts, uint32_t n, const char *around,
                        const char *name);
  const char *(*assembly)(tg_job *j, const tg_target *t, const tg_object *object, const tg_code_info *info);
  const char *(*summary)(tg_job *j, const tg_target *t, const tg_object *object, const tg_code_info *info);
} tg_generator;
/* The table of this room, and the one symbol that libtg_llvm.so.0 exports. */
TG_API const tg_generator *tg_llvm_generator(void);
/* The table, linked in (linked.c) or opened (src/opened). NULL: it cannot be opened, and message says why. message
 * NULL: the table if it is open, and NULL if not: then nothing is opened. Any thread may call it; once the table is
 * open, a call costs nothing. */
const tg_generator *tg_generator_open(char *message, size_t n);

/* The most objects that one jit keeps linked through ORC at a time; beyond, tg's own loader is used. Each takes two of
 * the memory mappings that Linux allows a process (65,530), and LLVM aborts the process when these run out. */
enum { TG_LINKED_MOST = 20480 };

/* What the files of this room have for the table. */
tg_object tg_llvm_assemble(tg_job *j, const tg_target *t, const char *const *texts, uint32_t n, const char *around,
                           const char *name);
const char *tg_llvm_assembly(tg_job *j, const tg_target *t, const tg_object *object, const tg_code_info *info);
const char *tg_llvm_summary(tg_job *j, const tg_target *t, const tg_object *object, const tg_code_info *info);
#endif
