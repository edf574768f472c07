/* SPDX-License-Identifier: MIT
 * The small operations of neural networks, on rows of a matrix: softmax, layer normalisation, rotary embedding,
 * cross-entropy, activations and gates, with their gradients; on the caller's memory and threads.
 *
 * A descriptor says what is fixed (fields that are 0 have their defaults); a plan is compiled from it once; calls give
 * pointers, strides and the sizes that vary.
 *
 *     tg_nn_desc d = {0};                                // f32
 *     d.op = TG_NN_LAYERNORM;
 *     d.rows.lo = 1, d.rows.hi = 8192;                   // tokens: any number of them at each call
 *     d.columns.lo = 384;
 *     d.weight = d.bias = TG_F32;
 *     tg_nn *norm;
 *     if (tg_nn_plan(context, &d, &norm)) puts(tg_error_message(context));
 *
 *     tg_nn_call call = {0};
 *     call.rows = tokens;
 *     call.x = x, call.weight = gain, call.bias = offset, call.y = y;
 *     call.workspace = workspace, call.workspace_bytes = bytes;       // tg_nn_workspace(norm, NULL)
 *     if (tg_nn_run(norm, &call)) puts(tg_error_message(context));
 *
 * The operations, for each row; x and all other operands are converted to f32, what is computed is f32, and each result
 * is rounded once to its type. Sums may be in any order, which does not depend on the number of threads.
 *
 * TG_NN_SOFTMAX        y = exp(x - max x) / sum exp(x - max x). A row whose elements are all -inf gives zeros.
 * TG_NN_LOG_SOFTMAX    the logarithm of that: x - max x - log sum exp(x - max x). All -inf: -inf.
 * TG_NN_LAYERNORM      y = (x - mean) rstd weight + bias, rstd = 1 / sqrt(mean of (x - mean)^2 + epsilon)
 *                      (Ba et al. 2016)
 * TG_NN_RMSNORM        y = x rstd weight, rstd = 1 / sqrt(mean of x^2 + epsilon) (Zhang and Sennrich 2019)
 * TG_NN_ROPE           turns pairs (a, b) of each head to (a c - b s, b c + a s), with c and s of the row's position
 *                      and of the pair (Su et al. 2021). Elements behind the first `rotary` of a head are copied.
 * TG_NN_CROSS_ENTROPY  loss = lse - x[target], lse = log sum exp(x); computed with the largest x taken out. A target
 *                      below 0 has no loss: 0. One past the last column gives NaN.
 * TG_NN_ACTIVATION     y = act(x), one of TG_NN_GELU..
 * TG_NN_GATE           y = act(x) gate
 *
 * Infinities and NaN do what they do in these formulas: a row of softmax with a NaN or +inf is NaN, silu(-inf) is NaN.
 * Exponentials below 2^-126 may be 0.
 *
 * With `backward` the plan computes gradients instead: from dy, the gradient of a loss by y, those by x, gate, weight
 * and bias: dx, dgate, dweight, dbias. tg_nn_call says what each operation reads.
 *
 * A run takes no lock, allocates nothing and compiles nothing; it checks sizes, strides, pointers and overlap first,
 * and then cannot fail. A plan is immutable: any number of threads may run it at a time, each call with its own
 * workspace. With libtg.a alone (tg_context_create_runtime) a plan takes its kernels from the cache; if one is missing
 * there, tg_nn_plan returns TG_MISS.
 */
#ifndef TG_NN_H
#define TG_NN_H
#include "tg/device.h"
#include "tg/exec.h"
#include "tg/program.h"
#ifdef __cplusplus
extern "C" {
#endif

enum {                          /* tg_nn_desc.op */
  TG_NN_SOFTMAX = 1,
  TG_NN_LOG_SOFTMAX,
  TG_NN_LAYERNORM,
  TG_NN_RMSNORM,
  TG_NN_ROPE,
  TG_NN_CROSS_ENTROPY,
  TG_NN_ACTIVATION,
  TG_NN_GATE
};

enum {                          /* tg_nn_desc.activation */
  TG_NN_GELU = 0,               /* x (1 + erf(x / sqrt(2))) / 2 */
  TG_NN_GELU_TANH,              /* x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) / 2 */
  TG_NN_SILU,                   /* x / (1 + exp(-x)) */
  TG_NN_SIGMOID,                /* 1 / (1 + exp(-x)) */
  TG_NN_RELU                    /* max(x, 0) */
};

enum {                          /* tg_nn_desc.flags */
  TG_NN_NO_COMPILE = 1,         /* TG_MISS if a kernel is not in the cache, instead of a pause to compile it */
  /* the result takes the place of an operand, which calls leave NULL: y that of x; with `backward` dx that of dy, of
   * TG_NN_CROSS_ENTROPY that of x. They have one type */
  TG_NN_IN_PLACE = 2,
  TG_NN_INTERLEAVED = 4         /* TG_NN_ROPE: pair k is the elements 2k and 2k + 1; else k and k + rotary / 2 */
};

typedef struct tg_nn_desc {     /* zero means default; fields are only ever appended */
  uint8_t op;                   /* TG_NN_SOFTMAX.. */
  uint8_t backward;             /* 1: gradients */
  uint8_t activation;           /* of TG_NN_ACTIVATION and TG_NN_GATE: TG_NN_GELU.. */
  /* tg_type of the elements, f32, f16 or bf16: x that of x, gate, dx and dgate; y that of y and dy. 0: f32; y as x */
  uint8_t x, y;
  /* of norms: tg_type of weight and dweight, of bias and dbias. 0: there is none: weights are 1, a bias is 0 */
  uint8_t weight, bias;
  /* 1: what `backward` needs is a result, too: mean and rstd of TG_NN_LAYERNORM, rstd of TG_NN_RMSNORM, lse of
   * TG_NN_CROSS_ENTROPY */
  uint8_t statistics;
  tg_dim rows, columns;         /* 0..2^31. columns of TG_NN_ROPE are fixed */
  /* of TG_NN_ROPE: elements of a head, a divisor of the columns (0: one head); how many of them are turned, an even
   * number (0: all) */
  int32_t head, rotary;
  const float *epsilon;         /* of norms, read while planning. NULL: 1e-5 */
  /* threads that calls run on. Calls without exec: 0 or 1: only the calling thread; n: at most n of the context's
   * pool; -1: the whole pool */
  int32_t threads;
  uint32_t flags;
  /* device of the context on which calls run. All operands of calls are memory of the device (tg/device.h). NULL: the
   * host's CPU */
  tg_device *device;
  /* as in tg_compile_options (tg.h): once it is not 0, the planning ends with TG_CANCELLED. NULL: none */
  const int *cancel;
} tg_nn_desc;

/* Operands of matrices are [rows][columns]; ..._ld: elements from one row to the next, 0: dense. An operand that the
 * plan does not have must be NULL. */
typedef struct tg_nn_call {     /* zero means default; fields are only ever appended */
  int64_t rows, columns;        /* used where the descriptor has a range; else 0, or the fixed size */
  const void *x;                /* read by all; not by the gradients of softmax and its logarithm, and of TG_NN_ROPE */
  const void *gate;             /* of TG_NN_GATE */
  void *y;                      /* the result; read by the gradients of softmax and its logarithm */
  const void *dy;               /* gradients read dy, but those of TG_NN_CROSS_ENTROPY, which read dloss */
  void *dx, *dgate;             /* results of gradients */
  int64_t x_ld, gate_ld, y_ld, dy_ld, dx_ld, dgate_ld;
  const void *weight, *bias;    /* of norms: [columns] */
  void *dweight, *dbias;        /* [columns]: sums over all rows, in f32 */
  float *mean, *rstd, *lse;     /* [rows]: statistics; gradients read them */
  const int32_t *target;        /* of TG_NN_CROSS_ENTROPY: [rows] */
  float *loss;                  /* [rows] */
  const float *dloss;           /* [rows] */
  /* of TG_NN_ROPE: [rows], each within 0..positions - 1 (others stand for the nearest of these) */
  const int32_t *position;
  const float *cosine, *sine;   /* [positions][rotary / 2], dense */
  int64_t positions;            /* rows of these tables, 1..2^31 */
  void *workspace;              /* at least tg_nn_workspace bytes; any alignment */
  size_t workspace_bytes;
  const tg_exec *exec;          /* NULL: the context's pool, with the descriptor's number of threads */
  int32_t threads;              /* upper bound on the threads that this call uses; 0: no bound */
  /* only for a plan with a device: the queue on which the call is put, as in tg_gemm_call (gemm.h), with the workspace
   * in memory of the device, aligned to 64 bytes, or NULL */
  tg_queue *queue;
} tg_nn_call;

typedef struct tg_nn tg_nn;

/* Compiles (or finds in the cache) the kernels that calls will need. TG_EINVAL: the message says what is wrong in the
 * descriptor. */
TG_API tg_status tg_nn_plan_sized(tg_context *, const tg_nn_desc *, size_t desc_bytes, tg_nn **out);
static inline tg_status tg_nn_plan(tg_context *context, const tg_nn_desc *desc, tg_nn **out) {
  return tg_nn_plan_sized(context, desc, sizeof *desc, out);
}
TG_API void tg_nn_free(tg_nn *);   /* before its context; after its last run */

/* Bytes of workspace for this call, of which exec and threads matter; or (call NULL) enough for every call on the
 * descriptor's threads. Often 0. */
TG_API size_t tg_nn_workspace_sized(const tg_nn *, const tg_nn_call *, size_t call_bytes);
static inline size_t tg_nn_workspace(const tg_nn *nn, const tg_nn_call *call) {
  return tg_nn_workspace_sized(nn, call, sizeof *call);
}

/* Computes. TG_EINVAL: the message says which field of the call is wrong, and nothing was written. */
TG_API tg_status tg_nn_run_sized(const tg_nn *, const tg_nn_call *, size_t call_bytes);
static inline tg_status tg_nn_run(const tg_nn *nn, const tg_nn_call *call) {
  return tg_nn_run_sized(nn, call, sizeof *call);
}

/* Puts the call into a program (tg/program.h) as a step, checked as for a run. Workspace, exec, threads and queue of
 * the call are 0: the program brings them. TG_EINVAL: also, a plan of another device than the program's. The plan must
 * live until the program is freed. */
TG_API tg_status tg_nn_put_sized(tg_program *, const tg_nn *, const tg_nn_call *, size_t call_bytes);
static inline tg_status tg_nn_put(tg_program *program, const tg_nn *nn, const tg_nn_call *call) {
  return tg_nn_put_sized(program, nn, call, sizeof *call);
}

/* The kernels of the plan as text of the language, one behind the other, for people to read: tg show takes it. Valid
 * as long as the plan; never NULL. */
TG_API const char *tg_nn_text(const tg_nn *);

/* Figures about a plan, for people to read. */
typedef struct tg_nn_info {
  uint32_t kernels, from_cache;   /* kernels of the plan; how many of them were found in the cache */
  size_t workspace;               /* bytes for each thread */
  uint32_t tuned;                 /* how many of the kernels were compiled with a tuned choice */
} tg_nn_info;
/* All 0 for NULL. */
TG_API void tg_nn_describe_sized(const tg_nn *, tg_nn_info *out, size_t info_bytes);
static inline tg_nn_info tg_nn_describe(const tg_nn *nn) {
  tg_nn_info info;
  tg_nn_describe_sized(nn, &info, sizeof info);
  return info;
}

#ifdef __cplusplus
}
#endif
#endif
