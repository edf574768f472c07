/* SPDX-License-Identifier: MIT
 * The compiler's back end: a linear program to an LLVM module to an object, through LLVM's C API. */
#ifndef TG_JIT_H
#define TG_JIT_H
#include "code/object.h"
#include "target/target.h"

typedef struct tg_jit tg_jit;         /* one per context: target, target machines, locks */
/* Cheap: of LLVM it uses at most the query for the host's CPU name and features, if the target has none. */
tg_status tg_jit_open(tg_jit **out, const tg_allocator *a, const tg_target *t, uint32_t flags, tg_env *err);
void tg_jit_close(tg_jit *);
const tg_target *tg_jit_target(const tg_jit *);   /* with cpu and features filled in */
bool tg_jit_knows(const tg_target *t);            /* false: this LLVM is too old for the processor */
typedef struct { void *data; size_t bytes; } tg_object;   /* in the job's arena */
/* Builds the module and emits the object: position independent, with no undefined symbol and no writable data; for
 * NVPTX it is PTX text. Equal programs give equal bytes. ir_text and asm_text, if not NULL, get the LLVM IR and the
 * assembly (for tg show). */
tg_object tg_jit_compile(tg_jit *, tg_job *j, const tg_uop *linear, tg_code_info *info, const char **ir_text,
                         const char **asm_text);
/* orc.c: a linker for tg_code_link that uses LLVM's ORC, for host objects. ORC is opened at the first link. The jit
 * must outlive everything that it linked. */
tg_linker tg_jit_linker(tg_jit *);
/* The most objects that one jit keeps linked through ORC at a time; beyond, tg's own loader is used. Each takes two of
 * the memory mappings that Linux allows a process (65,530), and LLVM aborts the process when these run out. */
enum { TG_LINKED_MOST = 20480 };
/* assemble.c. One object of several modules: of the n texts, whose functions F become F.tN, and of the text `around`,
 * which may call them, and whose functions alone are global unless they are internal. name: for messages. t: of the
 * base that code without attributes of its own is for. */
tg_object tg_jit_assemble(tg_job *j, const tg_target *t, const char *const *texts, uint32_t n, const char *around,
                          const char *name);
/* Text for people. assembly: disassembly of an AMD code object; NULL for other targets, whose asm_text has it.
 * summary: sections, symbols, descriptors, launches. */
const char *tg_object_assembly(tg_job *j, const tg_target *t, const tg_object *object, const tg_code_info *info);
const char *tg_object_summary(tg_job *j, const tg_target *t, const tg_object *object, const tg_code_info *info);
/* Builds only the LLVM module: for timing what comes before LLVM's own work. */
void tg_jit_build(tg_jit *, tg_job *j, const tg_uop *linear, tg_code_info *info);
/* object_text.c. One line per instruction; false if some bytes cannot be decoded. */
bool tg_amdgpu_disassemble(tg_env *env, const tg_target *t, const tg_amdgpu_kernel *k, tg_str *out,
                           uint32_t *instructions);
#endif
