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
 * Targets of devices (GPUs, OpenCL) put the kernel into the object as data, which the header declares, for
 * tg_device_load (device.h).
 *
 * The header declares the function and explains each argument. All bits are those that the same kernel gives when it
 * is compiled for the same target by a context. */
#ifndef TG_BUILD_H
#define TG_BUILD_H
#include "tg/attention.h"
#include "tg/gemm.h"
#ifdef __cplusplus
extern "C" {
#endif

typedef struct tg_built {
  const void *object;         /* a relocatable ELF file */
  size_t object_bytes;
  const char *header;         /* C11 and C++, ends with a newline */
  const char *name;           /* of the function; of several: "a, b, c" */
} tg_built;

/* targets: names as in tg_context_options.target, of one family of processors, one at least, and of devices; of those
 * that a processor can run, the one with the most instruction sets is taken (the last of equals). options as for
 * tg_kernel_compile; may be NULL; pack and device must be 0.
 * TG_EINVAL: no processor's target, an unknown one, two families, a kernel whose name is no name of C, or one of
 * tg_kernel_compile's reasons; tg_error_message(context) says which. TG_ELIMIT: a target whose code needs a permission
 * of the system (AMX tiles), or sizes that are not made of integer arithmetic. Everything in *out belongs to it, until
 * tg_built_free. */
TG_API tg_status tg_build_sized(tg_context *context, const tg_kernel_def *def, const tg_compile_options *options,
                                size_t options_bytes, const char *const *targets, uint32_t targets_n, tg_built **out);
static inline tg_status tg_build(tg_context *context, const tg_kernel_def *def, const tg_compile_options *options,
                                 const char *const *targets, uint32_t targets_n, tg_built **out) {
  return tg_build_sized(context, def, options, sizeof *options, targets, targets_n, out);
}
/* The same for a text (tg_kernel_compile_text); file is its name in messages. */
TG_API tg_status tg_build_text_sized(tg_context *context, const char *file, const char *text,
                                     const tg_compile_options *options, size_t options_bytes,
                                     const char *const *targets, uint32_t targets_n, tg_built **out);
static inline tg_status tg_build_text(tg_context *context, const char *file, const char *text,
                                      const tg_compile_options *options, const char *const *targets,
                                      uint32_t targets_n, tg_built **out) {
  return tg_build_text_sized(context, file, text, options, sizeof *options, targets, targets_n, out);
}
/* Plans of products (tg/gemm.h) ahead of time: n functions of one object, of these names, for these descriptors (which
 * have no device). Each has all kernels of its plan, for all targets, and takes what a call has: operands with their
 * bytes, the sizes that are open, leading dimensions (0: dense), alpha, beta, arguments of the epilogue; one product a
 * call. It allocates nothing: beside it the object has NAME_workspace, which says how much workspace a call needs. With
 * a packing, it also has NAME_pack. All bits are those of tg_gemm_run with a plan for the same target. */
TG_API tg_status tg_build_gemm_sized(tg_context *context, const char *const *names, const tg_gemm_desc *descs,
                                     size_t desc_bytes, uint32_t n, const char *const *targets, uint32_t targets_n,
                                     tg_built **out);
static inline tg_status tg_build_gemm(tg_context *context, const char *const *names, const tg_gemm_desc *descs,
                                      uint32_t n, const char *const *targets, uint32_t targets_n, tg_built **out) {
  return tg_build_gemm_sized(context, names, descs, sizeof *descs, n, targets, targets_n, out);
}
/* Plans of attention (tg/attention.h) likewise, of every descriptor without a device, with strides (0: dense). A call
 * has sequences of one length, whose keys are fewer with TG_ATTENTION_LENGTHS; with TG_ATTENTION_QUERY_STARTS, or
 * TG_ATTENTION_KEY_STARTS, they are packed, `queries` (`keys`) are the most that one has, and query_tokens (key_tokens)
 * those of all, or more: LSE is [heads][query_tokens]. TG_ELIMIT: keys or queries of 0 alone. TG_EINVAL: also,
 * TG_ATTENTION_KEY_STARTS with pages. With lse, and without sinks, the object has NAME_merge as well, which is
 * tg_attention_merge. NAME_workspace takes the sizes of the call. All bits are those of
 * tg_attention_run. */
TG_API tg_status tg_build_attention_sized(tg_context *context, const char *const *names,
                                          const tg_attention_desc *descs, size_t desc_bytes, uint32_t n,
                                          const char *const *targets, uint32_t targets_n, tg_built **out);
static inline tg_status tg_build_attention(tg_context *context, const char *const *names,
                                           const tg_attention_desc *descs, uint32_t n, const char *const *targets,
                                           uint32_t targets_n, tg_built **out) {
  return tg_build_attention_sized(context, names, descs, sizeof *descs, n, targets, targets_n, out);
}
/* A packing of B, for the descriptor, that the code of all these targets reads: of the last one's choice, or of one's
 * before it, or else one that all can read. TG_EINVAL: there is none; or the reasons of tg_gemm_packing_choose. */
TG_API tg_status tg_build_packing_sized(tg_context *context, const tg_gemm_desc *desc, size_t desc_bytes,
                                        const char *const *targets, uint32_t targets_n, tg_gemm_packing *out);
static inline tg_status tg_build_packing(tg_context *context, const tg_gemm_desc *desc, const char *const *targets,
                                         uint32_t targets_n, tg_gemm_packing *out) {
  return tg_build_packing_sized(context, desc, sizeof *desc, targets, targets_n, out);
}
TG_API void tg_built_free(tg_built *built);   /* may be NULL */

#ifdef __cplusplus
}
#endif
#endif
