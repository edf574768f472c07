/* SPDX-License-Identifier: MIT
 * The part of the surface that compiles: every pass, LLVM behind them. */
#ifndef TG_COMPILE_H
#define TG_COMPILE_H
#include "api/api.h"
#include "compile/pipeline.h"

/* Every pass that the program's stage leaves to do, the heuristic after raise if there are no opts; until: NULL or a
 * pass. */
const tg_uop *tg_run_passes(tg_job *j, tg_context *c, const tg_kernel_source *s, const char *until, tg_stage_fn *seen,
                            void *user);
#endif
