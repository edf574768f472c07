/* SPDX-License-Identifier: MIT
 * The compiling part of the API: all passes, then LLVM. */
#ifndef TG_COMPILE_H
#define TG_COMPILE_H
#include "api/api.h"
#include "compile/pipeline.h"

/* Runs the passes after the program's stage, and the heuristic after raise if there are no opts. until: the last pass
 * to run; NULL: all. seen, user: as in tg_lower. */
const tg_uop *tg_run_passes(tg_job *j, tg_context *c, const tg_kernel_source *s, const char *until, tg_stage_fn *seen,
                            void *user);
/* Compiles the job, which holds the kernel as written, into the entry: tg_compiler.compile. ir, if not NULL, gets the
 * text of LLVM's module. */
void tg_compile_program(tg_job *j, tg_context *c, const tg_kernel_source *s, tg_cache_entry *entry, double *price,
                        const char **ir);
bool tg_compiler_fuse(tg_job *j, tg_context *c, tg_fusion *f);   /* fuse.c: tg_compiler.fuse */
void tg_compiler_close(tg_context *c);   /* tg_compiler.close */
#endif
