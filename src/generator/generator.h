/* SPDX-License-Identifier: MIT
 * Code generation: a linear program to an object. What stands behind it calls LLVM (src/jit) and is reached through a
 * table, which is linked in, or in libtg_jit.so.0 opened when it is first needed. */
#ifndef TG_GENERATOR_H
#define TG_GENERATOR_H
#include "jit/jit.h"

/* Opens the table, on the thread that called tg (tg_on_callers_stack); fails if it cannot. Call it without a lock,
 * before the functions below; without, the first of them opens the table on its own thread. */
void tg_generator_need(tg_env *env);
bool tg_jit_knows(const tg_target *t);            /* false: this LLVM is too old for the processor. Opens nothing */
/* Cheap: of LLVM it uses at most the query for the host's CPU name and features, if the target has none. */
tg_status tg_jit_open(tg_jit **out, const tg_allocator *a, const tg_target *t, uint32_t flags, tg_env *err);
void tg_jit_close(tg_jit *);
const tg_target *tg_jit_target(const tg_jit *);   /* with cpu and features filled in */
/* Builds the module and emits the object: position independent, with no undefined symbol and no writable data; for
 * NVPTX it is PTX text. Equal programs give equal bytes. ir_text and asm_text, if not NULL, get the LLVM IR and the
 * assembly (for tg show). */
tg_object tg_jit_compile(tg_jit *, tg_job *j, const tg_uop *linear, tg_code_info *info, const char **ir_text,
                         const char **asm_text);
/* Builds only the LLVM module: for timing what comes before LLVM's own work. */
void tg_jit_build(tg_jit *, tg_job *j, const tg_uop *linear, tg_code_info *info);
/* A linker for tg_code_link that uses LLVM's ORC, for host objects. The first call opens ORC, which needs a stack of
 * tg's own. The jit must outlive everything that it linked. */
tg_linker tg_jit_linker(tg_jit *);
/* One object of several modules: of the n texts, whose functions F become F.tN, and of the text `around`, which may
 * call them, and whose functions alone are global unless they are internal. name: for messages. t: of the base that
 * code without attributes of its own is for. */
tg_object tg_jit_assemble(tg_job *j, const tg_target *t, const char *const *texts, uint32_t n, const char *around,
                          const char *name);
/* Text for people. assembly: disassembly of an AMD code object; NULL for other targets, whose asm_text has it.
 * summary: sections, symbols, descriptors, launches. */
const char *tg_object_assembly(tg_job *j, const tg_target *t, const tg_object *object, const tg_code_info *info);
const char *tg_object_summary(tg_job *j, const tg_target *t, const tg_object *object, const tg_code_info *info);
#endif
