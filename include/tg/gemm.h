/* SPDX-License-Identifier: MIT
 * Matrix products for engines: C[m,n] = epilogue(alpha sum_k A[m,k] B[k,n] + beta C[m,n]), on the caller's memory and
 * threads.
 *
 * A descriptor says what is fixed, and zero means default; a plan is compiled from it once; calls bring pointers,
 * strides and what varies.
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
 *     d.threads = 4;                                     // that calls will bring
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
 * and then cannot fail. A plan is
 * immutable: any number of threads may run it at a time, each call with a workspace of its own. The bits of a result do
 * not depend on the number
 * of threads, nor on who runs which task. With libtg.a alone (tg_context_create_runtime) a plan takes its kernels from
 * the cache, or is TG_MISS.
 */
#ifndef TG_GEMM_H
#define TG_GEMM_H
#include "tg/exec.h"
#include "tg/tune.h"
#ifdef __cplusplus
extern "C" {
#endif

enum { TG_GEMM_ARGS = 8 };

enum {                          /* tg_gemm_desc.flags */
  TG_GEMM_NO_COMPILE = 1,       /* TG_MISS where a kernel is not in the cache: no stall in the middle of a token */
  /* the bits of a row of C depend on that row of A and on B only, not on m or on the row's place: in one plan, and
   * in plans for m above 64 that are alike but for it */
  TG_GEMM_BATCH_INVARIANT = 2,
  /* a C that overlaps A or B is the caller's matter: their blocks may lie between each other in ways that cost time
   * to tell */
  TG_GEMM_OVERLAP_UNCHECKED = 4,
  /* of bf16 by bf16: subnormal numbers, below 2^-126, may count as zero, those of A and B and those that the sum
   * comes to. Processors with AVX512_BF16 multiply twice as fast then (VDPBF16PS); others do as without it */
  TG_GEMM_FLUSH_SUBNORMALS = 8
};

/* How B is packed ahead: panels of so many columns, each with all of k, zeros behind n. Plain data, and so is what
 * tg_gemm_pack writes: both may be kept in a file and mapped. One packing serves every m. */
typedef struct tg_gemm_packing {
  /* 1: elements; 2: of four bits, eight of a column in 32, the lowest k in the lowest bits */
  uint32_t format;
  uint8_t type;                 /* of B's elements */
  uint32_t panel;               /* columns */
  int64_t n, k;
  size_t bytes;                 /* of a packed B */
} tg_gemm_packing;

typedef struct tg_gemm_desc {   /* zero means default; fields are only ever appended */
  uint8_t a, b, c;              /* tg_type of the elements. a: f32; b: as a; c: i32 of integers, else as a */
  uint8_t acc;                  /* of the sum, of alpha and of beta: f64 of f64, i32 of integers, else f32 */
  uint8_t a_major, b_major, c_major;   /* TG_ROW_MAJOR.. */
  uint8_t alpha;                /* 1: each call multiplies by *alpha. 0: by nothing */
  uint8_t beta;                 /* 1: each call adds *beta times C. 0: C is never read */
  tg_dim m, n, k;               /* A is m by k, B k by n, C m by n; 0..2^31 */
  /* elements from a row to the next (from a column, where column major): fixed at lo; lo 0: given by each call */
  tg_dim a_ld, b_ld, c_ld;
  /* an expression of the language over acc, the arguments, and the subscripts m and n. NULL: acc. Converted to c */
  const char *epilogue;
  /* name NULL: there is none. type: as acc; per: TG_PER_ALL.. */
  struct { const char *name; uint8_t type, per; } arg[TG_GEMM_ARGS];
  /* that calls run on. Without exec: 0, 1: the caller's alone; n: at most n of the context's pool; -1: all of it */
  int32_t threads;
  uint32_t flags;
  /* B comes packed by it: n and k are its own, C is row major; b_major, b_ld and b_step count for nothing. NULL: B
   * lies as b_major says */
  const tg_gemm_packing *packing;
  /* Weights of few bits. B[k,n] = scale[g,n] * (q[k,n] - zero[g,n]), g = k / b_group, each operation rounded to f32
   * or done more exactly; then the product is as of f32. q is a whole number, b says whether signed: TG_I8 (the
   * default) or TG_U8. a is f32, f16 or bf16. */
  /* 8: q is b's. 4: -8..7 or 0..15, two a byte, of two neighbours the first in the low bits; rows (columns, where
   * column major) begin at whole bytes, so b_ld, still in elements, is even, and b_major is not TG_ANY_STRIDES. 0: B
   * is no such thing */
  uint8_t b_bits;
  uint8_t b_scale;              /* type of the scales: f32, f16 or bf16. f32 */
  uint8_t b_zero;               /* type of the zero points: i8, u8, f32, f16 or bf16. 0: there are none, each is 0 */
  uint8_t b_group_major;        /* of scales and zero points. TG_ROW_MAJOR: [groups][n]; TG_COLUMN_MAJOR: [n][groups] */
  /* terms in a group, from 1; groups are ceil(k / b_group), of which the last may have fewer. 0: one group, all of k */
  int64_t b_group;
  /* elements from one to the next of a row (of a column, where column major): every other one, the real parts of
   * complex numbers. 0, 1: side by side. Known here, 2 to 4 are loaded as vectors; what TG_ANY_STRIDES leaves to
   * each call is gathered one by one. b_step: not with b_bits */
  int64_t a_step, b_step, c_step;
} tg_gemm_desc;

typedef struct tg_gemm_call {   /* zero means default; fields are only ever appended */
  int64_t m, n, k;              /* where the descriptor has a range */
  const void *a, *b;
  void *c;
  /* elements from a row to the next, from a column to the next; {0, 0}: dense. The one that the descriptor fixes (1,
   * or a_step) may be left 0. None is negative; those of C lay no two elements on one place */
  int64_t a_strides[2], b_strides[2], c_strides[2];
  /* of type acc; NULL: 1 and 0. Where beta is 0, C is not read; where alpha is 0, neither A nor B */
  const void *alpha, *beta;
  const void *arg[TG_GEMM_ARGS];
  int64_t arg_ld[TG_GEMM_ARGS]; /* of arguments per element: elements from a row to the next; 0: n */
  int64_t batch;                /* so many products, each with operands of its own; 0: 1 */
  /* elements from one product's A, B, C to the next's; 0: the same for all. NULL: dense, one behind the other */
  const int64_t *batch_strides;
  const void *const *a_list;    /* or pointers: a_list[i] in the place of a for product i; likewise b_list and c_list */
  const void *const *b_list;
  void *const *c_list;
  /* group_m[i] rows for product i; the rows of A and of C lie one group behind the other (unless a list says where) */
  const int64_t *group_m;
  void *workspace;              /* tg_gemm_workspace bytes; any alignment */
  size_t workspace_bytes;
  const tg_exec *exec;          /* NULL: the context's pool, as the descriptor says */
  int32_t threads;              /* at most so many, where there are more; 0: no such bound */
  /* where the descriptor has b_bits (and b_zero); with them batch is 1 and there are no groups of rows */
  const void *b_scale, *b_zero;
  /* of both: elements from a row to the next (from a column, where column major); 0: dense */
  int64_t b_group_ld;
} tg_gemm_call;

typedef struct tg_gemm tg_gemm;

/* Chooses and compiles (or finds in the cache) all that calls will need. TG_EINVAL: the message says what is wrong
 * in the descriptor, with place and caret for an epilogue. */
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

/* TG_EINVAL, with nothing written: the message says which field is wrong. */
TG_API tg_status tg_gemm_run_sized(const tg_gemm *, const tg_gemm_call *, size_t call_bytes);
static inline tg_status tg_gemm_run(const tg_gemm *gemm, const tg_gemm_call *call) {
  return tg_gemm_run_sized(gemm, call, sizeof *call);
}

/* A packing for these uses of one B, good for each: their n and k are fixed, and the same, as is the type of b. */
TG_API tg_status tg_gemm_packing_choose_sized(tg_context *, const tg_gemm_desc *uses, uint32_t uses_n,
                                              size_t desc_bytes, tg_gemm_packing *out);
static inline tg_status tg_gemm_packing_choose(tg_context *context, const tg_gemm_desc *uses, uint32_t uses_n,
                                               tg_gemm_packing *out) {
  return tg_gemm_packing_choose_sized(context, uses, uses_n, sizeof *uses, out);
}
/* Writes packing->bytes of the packed form of b, whose strides go from a row (of k) to the next and from a column
 * (of n) to the next; {0, 0}: dense, row major (of four bits, with rows of an even length). Element e of four bits
 * is in byte e / 2. Scales and zero points are not packed. TG_EINVAL: a NULL, a packing that no
 * tg_gemm_packing_choose made, a negative stride. */
TG_API tg_status tg_gemm_pack(const tg_gemm_packing *packing, const void *b, const int64_t strides[2], void *out);

/* The bare code, for tiny products where a call's checks would count: operands are A, B, C, then alpha and beta
 * where the descriptor has them, then the arguments; sizes are those of m, n, k, lda, ldb, ldc that the descriptor
 * does not fix, in this order (NULL: it fixes all), within its ranges, m, n and k above 0; scratch is
 * TG_GEMM_SCRATCH bytes aligned to 64, which it may overwrite; the last is 0. Nothing is checked: beta must not be 0
 * if C may hold NaN. NULL where the plan has no such form: it wants one kernel and one task. */
enum { TG_GEMM_SCRATCH = 20480 };
typedef void tg_gemm_code(void *const *operands, const int64_t *sizes, void *scratch, int64_t zero);
TG_API tg_gemm_code *tg_gemm_function(const tg_gemm *);

/* What a plan holds, for people: a line for each kernel. */
typedef struct tg_gemm_info {
  uint32_t kernels, from_cache;   /* compiled for it; of them, found in the cache */
  size_t workspace;               /* bytes for each thread */
  uint32_t tuned;                 /* of the kernels: compiled with a tuned choice */
} tg_gemm_info;
TG_API tg_gemm_info tg_gemm_describe(const tg_gemm *);

/* Of libtg_jit.a: tunes the kernel that a plan of this descriptor runs for m, n, k (dense operands; 0 where the
 * descriptor fixes a size). The choice is kept in the context's folder of tuned choices (tg_context_options.tuned),
 * and plans made in contexts with that folder and as many threads use it. bindings, user, start and params of the
 * options are set here, start only where it is NULL. A product that several threads compute in strips is tuned as
 * one strip, on one thread (tg_tune_result.strips). TG_EINVAL: the descriptor or a size is wrong, has
 * TG_ANY_STRIDES, or B packed ahead: weights of few bits are tuned as they lie. */
TG_API tg_status tg_gemm_tune_sized(tg_context *, const tg_gemm_desc *, size_t desc_bytes, int64_t m, int64_t n,
                                    int64_t k, const tg_tune_options *, tg_tune_result **out);
static inline tg_status tg_gemm_tune(tg_context *context, const tg_gemm_desc *desc, int64_t m, int64_t n, int64_t k,
                                     const tg_tune_options *options, tg_tune_result **out) {
  return tg_gemm_tune_sized(context, desc, sizeof *desc, m, n, k, options, out);
}

#ifdef __cplusplus
}
#endif
#endif
