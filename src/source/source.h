/* SPDX-License-Identifier: MIT
 * Emits a linear program as source text, for devices whose driver has a compiler. Nothing here needs LLVM. */
#ifndef TG_SOURCE_H
#define TG_SOURCE_H
#include "code/code.h"
#include "target/target.h"

/* Returns OpenCL C 1.2 in the job's arena; the object is this text with its NUL. Fails, naming the type or operation,
 * if the target's features lack one that is needed ("fp64", "int64_atomics").
 *
 * Phase p is the kernel tg_phase_p. The kernel tg_turns_l computes the number of iterations of loop l and stores it to
 * the shared memory, in the place of that loop's counter. Arguments of both: the buffers in order of definition, the
 * shared memory, the workspace, the parameters as long. Of n work-items, work-item w runs tasks w, w + n, w + 2n, ..
 * and uses the info->workspace bytes of the workspace that begin at w * info->workspace.
 *
 * info->launch: the number of words of steps, the steps (as on a host, see tg_code_info), then for each phase an upper
 * bound of its number of tasks, 0 if unknown. */
const char *tg_source_opencl(tg_job *j, const tg_target *t, const tg_uop *linear, tg_code_info *info);
#endif
