/* SPDX-License-Identifier: MIT
 * Ahead of time: a kernel as an object file and a C header, for programs that have no tg in them. Part of libtg_jit.a.
 *
 *   const char *targets[] = {"x86-64-v2", "x86-64-v3", "x86-64-v4"};
 *   tg_built *b;
 *   if (tg_build(ctx, &matmul, &options, targets, 3, &b) == TG_OK) .. write b->object and b->header to files
 *   tg_built_free(b);
 *
 * The object has one global symbol, the kernel's name: a function that checks its arguments as a launch does, picks by
 * CPUID (x86-64) or the auxiliary vector (AArch64) the code of the targets that the processor can run, and runs all
 * tasks of all phases, on the caller's thread or through a function of the caller's. It needs no library of tg's and
 * keeps no state but the number of the target that it picked. A kernel that wants more than 16 KiB of workspace, or
 * memory that its phases share, calls malloc and free; code for AArch64 calls getauxval and, with SVE, prctl.
 *
 * The header declares the function and explains each argument. All bits are those that the same kernel gives when it
 * is compiled for the same target by a context. */
#ifndef TG_BUILD_H
#define TG_BUILD_H
#include "tg/tg.h"
#ifdef __cplusplus
extern "C" {
#endif

typedef struct tg_built {
  const void *object;         /* a relocatable ELF file */
  size_t object_bytes;
  const char *header;         /* C11 and C++, ends with a newline */
  const char *name;           /* of the function */
} tg_built;

/* targets: names as in tg_context_options.target, of one family of processors; of those that a processor can run, the
 * one with the most instruction sets is taken (the last of equals). options as for tg_kernel_compile; may be NULL;
 * pack and device must be 0.
 * TG_EINVAL: no target, an unknown one, a GPU, two families, a kernel whose name is no name of C, or one of
 * tg_kernel_compile's reasons; tg_error_message(context) says which. TG_ELIMIT: a target whose code needs a permission
 * of the system (AMX tiles), or sizes that are not made of integer arithmetic. Everything in *out belongs to it, until
 * tg_built_free. */
TG_API tg_status tg_build(tg_context *context, const tg_kernel_def *def, const tg_compile_options *options,
                          const char *const *targets, uint32_t targets_n, tg_built **out);
/* The same for a text (tg_kernel_compile_text); file is its name in messages. */
TG_API tg_status tg_build_text(tg_context *context, const char *file, const char *text,
                               const tg_compile_options *options, const char *const *targets, uint32_t targets_n,
                               tg_built **out);
TG_API void tg_built_free(tg_built *built);   /* may be NULL */

#ifdef __cplusplus
}
#endif
#endif
