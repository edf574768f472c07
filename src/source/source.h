/* SPDX-License-Identifier: MIT
 * A linear program as source text, for devices whose own driver compiles: nothing here needs LLVM. */
#ifndef TG_SOURCE_H
#define TG_SOURCE_H
#include "code/code.h"
#include "target/target.h"

/* OpenCL C 1.2, in the job's arena; the object is the text with its NUL. Fails naming the type or operation that the
 * target's features lack ("fp64", "int64_atomics"). info->launch: the number of words of steps, these as on a host,
 * then for each phase the most tasks that it can have: 0 is not known. Phase p is the kernel tg_phase_p, the number
 * of turns of loop l what the kernel tg_turns_l leaves in the shared memory where the counter of that loop stands.
 * Their arguments: the buffers in order of definition, the shared memory, the workspace, the parameters as long.
 * Work-item w takes tasks w, w + n, .. of n work-items, and info->workspace bytes at w times that in the workspace. */
const char *tg_source_opencl(tg_job *j, const tg_target *t, const tg_uop *linear, tg_code_info *info);
#endif
