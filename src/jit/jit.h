/* SPDX-License-Identifier: MIT
 * LLVM, through its C API: a linear program to a module, to an object. */
#ifndef TG_JIT_H
#define TG_JIT_H
#include "code/object.h"
#include "target/target.h"

typedef struct tg_jit tg_jit;         /* one per context: target, target machines, locks */
/* Opens nothing of LLVM but the name and features of the host (where the target has none). */
tg_status tg_jit_open(tg_jit **out, const tg_allocator *a, const tg_target *t, uint32_t flags, tg_env *err);
void tg_jit_close(tg_jit *);
const tg_target *tg_jit_target(const tg_jit *);   /* with cpu and features filled in */
/* Builds the module and emits the object: position independent, with no undefined symbol and no writable data. Equal
 * programs give equal bytes. ir_text and asm_text, if not NULL, get the LLVM IR and the assembly (show). object may
 * be wanted or not. */
typedef struct { void *data; size_t bytes; } tg_object;   /* in the job's arena */
/* NVPTX: PTX text is the object. */
tg_object tg_jit_compile(tg_jit *, tg_job *j, const tg_uop *linear, tg_code_info *info, const char **ir_text,
                         const char **asm_text);
/* orc.c: places host objects through LLVM's ORC, for tg_code_link. Of the jit, which must live until all is
 * unlinked. Opens ORC when it is first used. */
tg_linker tg_jit_linker(tg_jit *);
/* at a time, of one jit: each takes two of the memory maps that Linux gives a process, and LLVM ends the process
 * where there are none. The rest is tg's loader's */
enum { TG_LINKED_MOST = 20480 };
/* For people: machine code of an AMD code object, disassembled (NULL for others: asm_text has it); sections,
 * symbols, descriptors, launches. */
const char *tg_object_assembly(tg_job *j, const tg_target *t, const tg_object *object, const tg_code_info *info);
const char *tg_object_summary(tg_job *j, const tg_target *t, const tg_object *object, const tg_code_info *info);
/* Only to the module: what the author's text costs before LLVM starts. */
void tg_jit_build(tg_jit *, tg_job *j, const tg_uop *linear, tg_code_info *info);
/* object_text.c. A line for each instruction; false where some bytes are none. */
bool tg_amd_disassemble(tg_env *env, const tg_target *t, const tg_amd_kernel *k, tg_str *out, uint32_t *instructions);
#endif
