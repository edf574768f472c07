/* SPDX-License-Identifier: MIT
 * Matrix products for engines: C[m,n] = epilogue(alpha sum_k A[m,k] B[k,n] + beta C[m,n]), on the caller's memory and
 * threads.
 *
 * A descriptor says what is fixed (fields that are 0 have their defaults); a plan is compiled from it once; calls give
 * pointers, strides and the sizes that vary.
 *
 *     tg_context_options where = {0};
 *     where.cache = cache_folder;                        // compiled kernels: the next start compiles nothing
 *     tg_context *context;
 *     if (tg_context_create(&where, &context)) return 1;
 *
 *     tg_gemm_desc d = {0};                              // f32, row major, dense
 *     d.m.lo = 1, d.m.hi = 8192;                         // tokens: any number of them at each call
 *     d.n.lo = 4096, d.k.lo = 4096;                      // fixed
 *     d.b_major = TG_COLUMN_MAJOR;                             // weights as [n][k]
 *     d.threads = 4;                                     // threads that calls will use
 *     d.epilogue = "max(acc + bias, 0)";
 *     d.arg[0].name = "bias", d.arg[0].per = TG_PER_COLUMN;
 *     tg_gemm *g;
 *     if (tg_gemm_plan(context, &d, &g)) puts(tg_error_message(context));
 *
 *     tg_exec exec = {4, my_parallel_for, my_pool};      // the engine's own threads; none are made here
 *     size_t bytes = tg_gemm_workspace(g, NULL);         // once, for the largest call
 *     void *workspace = malloc(bytes);
 *
 *     tg_gemm_call call = {0};
 *     call.m = tokens;
 *     call.a = x, call.b = weights, call.c = y, call.arg[0] = bias;
 *     call.workspace = workspace, call.workspace_bytes = bytes, call.exec = &exec;
 *     if (tg_gemm_run(g, &call)) puts(tg_error_message(context));
 *
 *     tg_gemm_free(g), tg_context_free(context);
 *
 * Weights of four or eight bits in groups: d.b_bits, b_scale, b_zero and b_group below; examples/weights.c quantises a
 * layer, packs it and runs it.
 *
 * A run takes no lock, allocates nothing and compiles nothing; it checks sizes, strides, pointers and overlap first,
 * and then cannot fail. A plan is immutable: any number of threads may run it at a time, each call with its own
 * workspace. The bits of a result do not depend on the number of threads, nor on which thread runs which task. With
 * libtg.a alone (tg_context_create_runtime) a plan takes its kernels from the cache; if one is missing there,
 * tg_gemm_plan returns TG_MISS.
 */
#ifndef TG_GEMM_H
#define TG_GEMM_H
#include "tg/device.h"
#include "tg/exec.h"
#include "tg/program.h"
#include "tg/tune.h"
#ifdef __cplusplus
extern "C" {
#endif

enum { TG_GEMM_ARGS = 8, TG_GEMM_LIKELY = 6 };

enum {                          /* tg_gemm_desc.flags */
  TG_GEMM_NO_COMPILE = 1,       /* TG_MISS if a kernel is not in the cache, instead of a pause to compile it */
  /* the bits of a row of C depend only on that row of A and on B, not on m or on the row's index. This holds within
   * one plan, and between plans that differ only in their m, if that is above 64 */
  TG_GEMM_BATCH_INVARIANT = 2,
  /* calls do not check whether C overlaps A or B: for operands that interleave in memory, where the check takes long */
  TG_GEMM_OVERLAP_UNCHECKED = 4,
  /* bf16 times bf16 only: subnormal numbers (below 2^-126) in A, in B and as sums may be treated as zero. Processors
   * with AVX512_BF16 then multiply twice as fast (VDPBF16PS); elsewhere the flag changes nothing */
  TG_GEMM_FLUSH_SUBNORMALS = 8,
  /* one kernel serves all sizes of the plan's ranges, so that its bare code (tg_gemm_function) may be called for any of
   * them; else a range of rows is divided into parts where other kernels are faster */
  TG_GEMM_ONE_KERNEL = 16,
  /* in no call k, alpha or, if the plan has a beta, beta is 0 (TG_EINVAL): no kernels are made for such calls */
  TG_GEMM_NOT_ZERO = 32
};

/* How B is packed before the calls: in panels of `panel` columns, each panel with all k rows; the last panel is padded
 * with zero columns. This struct and the bytes that tg_gemm_pack writes are plain data, which may be kept in a file
 * and mapped. One packing serves every m. */
typedef struct tg_gemm_packing {
  /* 1: whole elements; 2: 4-bit elements, eight of one column in a 32-bit word, the lowest k in the lowest bits */
  uint32_t format;
  uint8_t type;                 /* tg_type of B's elements */
  uint32_t panel;               /* columns in a panel */
  int64_t n, k;
  size_t bytes;                 /* size of the packed B */
} tg_gemm_packing;

typedef struct tg_gemm_desc {   /* zero means default; fields are only ever appended */
  /* tg_type of the elements. 0 means for a: f32; for b: as a; for c: i32 if a is an integer type, else as a */
  uint8_t a, b, c;
  /* tg_type of the sum, of alpha and of beta. 0: f64 for products of f64, i32 for those of integers, else f32 */
  uint8_t acc;
  uint8_t a_major, b_major, c_major;   /* TG_ROW_MAJOR.. */
  uint8_t alpha;                /* 1: each call multiplies the product by *alpha. 0: the product is not scaled */
  uint8_t beta;                 /* 1: each call adds *beta times C. 0: C is never read */
  tg_dim m, n, k;               /* A is m by k, B k by n, C m by n; 0..2^31 */
  /* leading dimension: elements from one row to the next (column major: from one column to the next). It is fixed at
   * lo; lo 0: each call gives it */
  tg_dim a_ld, b_ld, c_ld;
  /* an expression of the language over acc, the arguments, and the subscripts m and n; its value is converted to type
   * c. NULL: acc */
  const char *epilogue;
  /* arguments of the epilogue. name NULL: there is no such argument. type 0: as acc; per: TG_PER_ALL.. */
  struct { const char *name; uint8_t type, per; } arg[TG_GEMM_ARGS];
  /* threads that calls run on. Calls without exec: 0 or 1: only the calling thread; n: at most n of the context's
   * pool; -1: the whole pool */
  int32_t threads;
  uint32_t flags;
  /* B is packed by this packing: n and k are those of the packing, C is row major, and b_major, b_ld and b_step are
   * ignored. NULL: B is not packed and lies as b_major says */
  const tg_gemm_packing *packing;
  /* Quantised B: B[k,n] = scale[g,n] * (q[k,n] - zero[g,n]), g = k / b_group, each operation rounded to f32 or
   * computed more exactly; then the product is computed as in f32. q is an integer, signed if b is TG_I8 (the
   * default), unsigned if it is TG_U8. a is f32, f16 or bf16. */
  /* bits of q. 8: q has type b. 4: q is -8..7 or 0..15, and a byte holds two neighbours, the first in the low bits;
   * each row (column major: each column) begins at a whole byte, so b_ld, still in elements, is even, and b_major is
   * not TG_ANY_STRIDES. 0: B is not quantised */
  uint8_t b_bits;
  uint8_t b_scale;              /* tg_type of the scales: f32, f16 or bf16. 0: f32 */
  uint8_t b_zero;               /* tg_type of the zero points: i8, u8, f32, f16 or bf16. 0: every zero point is 0 */
  uint8_t b_group_major;        /* of scales and zero points. TG_ROW_MAJOR: [groups][n]; TG_COLUMN_MAJOR: [n][groups] */
  /* values of k in a group. There are ceil(k / b_group) groups, and the last may be shorter. 0: one group for all of
   * k */
  int64_t b_group;
  /* stride, in elements, between neighbours in a row (column major: in a column). 0 or 1: contiguous; 2: every other
   * element, such as the real parts of complex numbers. Strides of 2 to 4 that are given here are loaded as vectors;
   * with TG_ANY_STRIDES elements are gathered one by one. b_step must be 0 or 1 if b_bits is set */
  int64_t a_step, b_step, c_step;
  /* device of the context on which calls run. Kernels have a tuned choice for the device
   * (tg_gemm_tune), else a first one. All operands of calls, alpha, beta and arguments of the epilogue too, are memory
   * of the device (tg/device.h). NULL: the host's CPU */
  tg_device *device;
  /* a call that is to come, if sizes vary: m, n, k, and the leading dimensions of A, B, C (0: dense). Kernels are
   * compared for this call, too, which weighs as much as all other sizes together. 0: none is known */
  int64_t likely[TG_GEMM_LIKELY];
  /* as in tg_compile_options (tg.h): once it is not 0, the planning ends with TG_CANCELLED. NULL: none */
  const int *cancel;
  /* of m, n and k the sizes that calls mostly have, within their ranges, if several are ranges: kernels are compared
   * for these alone, and take all sizes as ever. So plans for different parts of a range have the same code where their
   * choice is the same. {0, 0}: all */
  tg_dim mostly[3];
} tg_gemm_desc;

typedef struct tg_gemm_call {   /* zero means default; fields are only ever appended */
  int64_t m, n, k;              /* used where the descriptor has a range; else 0, or the fixed size */
  const void *a, *b;
  void *c;
  /* strides in elements: from one row to the next, from one column to the next. {0, 0}: dense. The stride that the
   * descriptor fixes (1, or a_step) may be left 0. No stride may be negative, and those of C must give every element
   * its own address */
  int64_t a_strides[2], b_strides[2], c_strides[2];
  /* one value of type acc each. NULL: alpha is 1, beta is 0. If *beta is 0, C is not read; if *alpha is 0, neither A
   * nor B is read */
  const void *alpha, *beta;
  const void *arg[TG_GEMM_ARGS];
  int64_t arg_ld[TG_GEMM_ARGS]; /* TG_PER_ELEMENT arguments: elements from one row to the next; 0: n */
  int64_t batch;                /* number of products, each with its own operands; 0: one product */
  /* three strides in elements: from one product's A, B, C to the next one's; a stride of 0: all products share that
   * operand. NULL: each product's operands follow the previous one's without a gap */
  const int64_t *batch_strides;
  const void *const *a_list;    /* instead of strides: a_list[i] is A of product i; likewise b_list and c_list */
  const void *const *b_list;
  void *const *c_list;
  /* product i has group_m[i] rows; in A and in C the rows of one product follow those of the previous one (unless
   * a_list or c_list is given). NULL: all products have m rows */
  const int64_t *group_m;
  void *workspace;              /* at least tg_gemm_workspace bytes; any alignment */
  size_t workspace_bytes;
  const tg_exec *exec;          /* NULL: the context's pool, with the descriptor's number of threads */
  int32_t threads;              /* upper bound on the threads that this call uses; 0: no bound */
  /* scales and zero points, if the descriptor has b_bits (and b_zero); then batch is 1 and group_m is NULL */
  const void *b_scale, *b_zero;
  /* leading dimension of both: elements from one row to the next (column major: from one column to the next); 0:
   * dense */
  int64_t b_group_ld;
  /* Only for a plan with a device: the queue on which the product is put, so that it runs behind what was put there
   * before, or is recorded (tg_queue_record); submitting and waiting are the caller's. NULL: the device's default
   * queue, as with tg_kernel_start. The plan must live until the product has run. workspace is memory of the device,
   * aligned to 64 bytes; NULL: the queue's own. exec and threads are not used. Since alpha and beta are not read by the
   * host, A, B and C are read also if these are 0 */
  tg_queue *queue;
} tg_gemm_call;

typedef struct tg_gemm tg_gemm;

/* Chooses and compiles (or finds in the cache) all kernels that calls will need. TG_EINVAL: the message says what is
 * wrong in the descriptor; for an epilogue it has line and column, and a caret under the mistake. */
TG_API tg_status tg_gemm_plan_sized(tg_context *, const tg_gemm_desc *, size_t desc_bytes, tg_gemm **out);
static inline tg_status tg_gemm_plan(tg_context *context, const tg_gemm_desc *desc, tg_gemm **out) {
  return tg_gemm_plan_sized(context, desc, sizeof *desc, out);
}
TG_API void tg_gemm_free(tg_gemm *);   /* before its context; after its last run */

/* Bytes of workspace for this call, or (call NULL) enough for every call on the descriptor's threads. Often 0. */
TG_API size_t tg_gemm_workspace_sized(const tg_gemm *, const tg_gemm_call *, size_t call_bytes);
static inline size_t tg_gemm_workspace(const tg_gemm *gemm, const tg_gemm_call *call) {
  return tg_gemm_workspace_sized(gemm, call, sizeof *call);
}

/* Computes. TG_EINVAL: the message says which field of the call is wrong, and nothing was written. */
TG_API tg_status tg_gemm_run_sized(const tg_gemm *, const tg_gemm_call *, size_t call_bytes);
static inline tg_status tg_gemm_run(const tg_gemm *gemm, const tg_gemm_call *call) {
  return tg_gemm_run_sized(gemm, call, sizeof *call);
}

/* Puts the call into a program (tg/program.h) as a step, checked as for a run. Workspace, exec, threads and queue of
 * the call are 0: the program brings them. On the CPU *alpha and *beta are read now. TG_EINVAL: also, lists, groups, or
 * a plan of another device than the program's. The plan must live until the program is freed. */
TG_API tg_status tg_gemm_put_sized(tg_program *, const tg_gemm *, const tg_gemm_call *, size_t call_bytes);
static inline tg_status tg_gemm_put(tg_program *program, const tg_gemm *gemm, const tg_gemm_call *call) {
  return tg_gemm_put_sized(program, gemm, call, sizeof *call);
}

/* Chooses one packing of a matrix B for all these descriptors that use it. Their n and k are fixed; n, k, the type of b
 * and the device are the same in all. For a device the host packs, and the program copies the bytes to the device. */
TG_API tg_status tg_gemm_packing_choose_sized(tg_context *, const tg_gemm_desc *uses, uint32_t uses_n,
                                              size_t desc_bytes, tg_gemm_packing *out);
static inline tg_status tg_gemm_packing_choose(tg_context *context, const tg_gemm_desc *uses, uint32_t uses_n,
                                               tg_gemm_packing *out) {
  return tg_gemm_packing_choose_sized(context, uses, uses_n, sizeof *uses, out);
}
/* Writes the packed form of b, packing->bytes bytes. strides, in elements: from one row (value of k) of b to the next,
 * and from one column (value of n) to the next; {0, 0}: dense, row major (for 4-bit elements: n must be even). 4-bit
 * element e is in byte e / 2 of b. Scales and zero points are not packed. TG_EINVAL: a pointer is NULL, a stride is
 * negative, or the packing does not come from tg_gemm_packing_choose. */
TG_API tg_status tg_gemm_pack(const tg_gemm_packing *packing, const void *b, const int64_t strides[2], void *out);

/* The machine code itself, for products so small that the checks of tg_gemm_run take a noticeable part of the time.
 * operands: A, B, C, then alpha and beta if the descriptor has them, then the epilogue's arguments.
 * sizes: those of m, n, k, lda, ldb, ldc that the descriptor does not fix, in this order and within its ranges, m, n
 * and k above 0 (NULL if all are fixed).
 * scratch: TG_GEMM_SCRATCH bytes aligned to 64, which the code may overwrite.
 * zero: 0.
 * Nothing is checked, and C is read even if beta is 0: beta must not be 0 if C may hold NaN. Returns NULL unless the
 * plan is one kernel that runs as one task. */
enum { TG_GEMM_SCRATCH = 20480 };
typedef void tg_gemm_code(void *const *operands, const int64_t *sizes, void *scratch, int64_t zero);
TG_API tg_gemm_code *tg_gemm_function(const tg_gemm *);

/* Figures about a plan, for people to read. */
typedef struct tg_gemm_info {
  uint32_t kernels, from_cache;   /* kernels of the plan; how many of them were found in the cache */
  size_t workspace;               /* bytes for each thread */
  uint32_t tuned;                 /* how many of the kernels were compiled with a tuned choice */
} tg_gemm_info;
/* All 0 for NULL. */
TG_API void tg_gemm_describe_sized(const tg_gemm *, tg_gemm_info *out, size_t info_bytes);
static inline tg_gemm_info tg_gemm_describe(const tg_gemm *gemm) {
  tg_gemm_info info;
  tg_gemm_describe_sized(gemm, &info, sizeof info);
  return info;
}

/* Only in libtg_jit.a: tunes the kernel that a plan of this descriptor runs for m, n, k (0 where the descriptor fixes
 * a size) and dense operands. The choice is kept in the context's folder of tuned choices
 * (tg_context_options.tuned); plans use it if their contexts have that folder and the same number of threads. The
 * options' bindings, user and params are overwritten, and so is start if it and start_kernel are NULL. A product that
 * several threads compute in strips is tuned as one strip, on one thread (tg_tune_result.strips). TG_EINVAL: the
 * descriptor or a size is wrong, or the descriptor has TG_ANY_STRIDES or a packed B (a quantised B is tuned in its
 * unpacked form). */
TG_API tg_status tg_gemm_tune_sized(tg_context *, const tg_gemm_desc *, size_t desc_bytes, int64_t m, int64_t n,
                                    int64_t k, const tg_tune_options *, size_t options_bytes, tg_tune_result **out);
static inline tg_status tg_gemm_tune(tg_context *context, const tg_gemm_desc *desc, int64_t m, int64_t n, int64_t k,
                                     const tg_tune_options *options, tg_tune_result **out) {
  return tg_gemm_tune_sized(context, desc, sizeof *desc, m, n, k, options, sizeof *options, out);
}

#ifdef __cplusplus
}
#endif
#endif
