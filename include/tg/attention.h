/* SPDX-License-Identifier: MIT
 * Attention for engines: for each batch and head O[i] = sum_j softmax_j(score[i,j]) V[j], score[i,j] = scale Q[i].K[j]
 * with masks and modifications, on the caller's memory and threads. Online softmax (Milakov, Gimelshein 2018; Dao et
 * al. 2022): the scores are never in memory as a whole.
 *
 * A descriptor says what is fixed (fields that are 0 have their defaults); a plan is compiled from it once; calls give
 * pointers, strides and the sizes that vary.
 *
 *     tg_context *context;
 *     if (tg_context_create(NULL, &context)) return 1;
 *
 *     tg_attention_desc d = {0};                         // f32, [batch][heads][tokens][head]
 *     d.head = 128, d.heads = 32, d.kv_heads = 8;        // four heads share one head of K and V
 *     d.queries.lo = 1, d.queries.hi = 4096;             // prefill and decode: any number at each call
 *     d.keys.lo = 1, d.keys.hi = 32768;
 *     d.causal = TG_CAUSAL_BOTTOM_RIGHT;
 *     tg_attention *attention;
 *     if (tg_attention_plan(context, &d, &attention)) puts(tg_error_message(context));
 *
 *     tg_attention_call call = {0};
 *     call.queries = 1, call.keys = cached;              // one new token; its own K and V are in the cache already
 *     call.q = q, call.k = k_cache, call.v = v_cache, call.o = o;
 *     call.workspace = workspace, call.workspace_bytes = bytes;   // tg_attention_workspace(attention, NULL)
 *     if (tg_attention_run(attention, &call)) puts(tg_error_message(context));
 *
 * The meaning of a call, to the letter:
 * - A score is scale Q[i].K[j]; then soft_cap, score_mod, alibi and a mask that is added follow, in this order.
 * - A key that the causal mask, the window, mask_mod, a mask of bools or the length excludes is absent: neither its K
 *   nor its V is part of the result, whatever they hold, NaN included.
 * - A query without any key, or whose scores are all -inf, gives a row of zeros, and LSE = -inf. Never NaN.
 * - Otherwise infinities and NaNs in Q, K, V and in masks do what they do in the formula: a score of NaN or +inf makes
 *   its row NaN. Only where a weight is 0, for a score of -inf or one far below the largest, and V holds an infinity or
 *   NaN, the product of both may be NaN or be left out.
 * - Weights below 2^-126 of the largest may be 0. Sums are in f32.
 *
 * A run takes no lock, allocates nothing and compiles nothing; it checks sizes, strides, pointers and overlap first,
 * and then cannot fail. Rows of O may lie between rows of Q, as in one [tokens][q, o][heads][head], where a stride of
 * one of them tells both apart; other operands whose spans overlap are refused, unless the plan has
 * TG_ATTENTION_OVERLAP_UNCHECKED. A plan is immutable: any number of threads may run it at a time, each call with its
 * own workspace. The bits of a result do not depend on the number of threads, nor on the other sequences of the batch.
 * With libtg.a alone (tg_context_create_runtime) a plan takes its kernels from the cache; if one is missing there,
 * tg_attention_plan returns TG_MISS.
 *
 * Gradients: tg_attention_desc.backward.
 */
#ifndef TG_ATTENTION_H
#define TG_ATTENTION_H
#include "tg/device.h"
#include "tg/exec.h"
#include "tg/program.h"
#include "tg/tune.h"
#ifdef __cplusplus
extern "C" {
#endif

enum { TG_ATTENTION_ARGS = 8 };

/* Which keys query i sees, of `queries` queries and `keys` keys. TOP_LEFT: keys 0..i. BOTTOM_RIGHT: keys
 * 0..i + keys - queries, so that the last query sees all: new tokens behind a cache. */
enum { TG_CAUSAL_NONE = 0, TG_CAUSAL_TOP_LEFT = 1, TG_CAUSAL_BOTTOM_RIGHT = 2 };

/* What a mask, or an argument of score_mod or mask_mod, has a value for each of; bits may be combined. 0: one value for
 * all. Dense is [batch][heads][queries][keys] without the dimensions that it lacks. */
enum {
  TG_PER_QUERY = 1,
  TG_PER_KEY = 2,
  TG_PER_HEAD = 4,
  TG_PER_BATCH = 8,
  TG_PACKED = 16   /* beside them: of packed sequences its queries and keys count through all, as those of Q and K */
};

enum {                                  /* tg_attention_desc.flags */
  TG_ATTENTION_NO_COMPILE = 1,          /* TG_MISS if a kernel is not in the cache, instead of a pause to compile it */
  TG_ATTENTION_OVERLAP_UNCHECKED = 2,   /* calls do not check whether O or LSE overlaps another operand */
  TG_ATTENTION_LENGTHS = 4,             /* the function of tg_build_attention takes key_lengths; calls of plans may */
  TG_ATTENTION_QUERY_STARTS = 8,        /* likewise query_starts: packed sequences */
  TG_ATTENTION_KEY_STARTS = 16          /* likewise key_starts */
};

typedef struct tg_attention_desc {      /* zero means default; fields are only ever appended */
  /* tg_type of the elements: f32, f16, bf16. 0 means for q: f32; for k: as q; for v: as k; for o: as q */
  uint8_t q, k, v, o;
  uint8_t causal;                       /* TG_CAUSAL_NONE.. */
  uint8_t lse;                          /* 1: calls may ask for the logarithms of the sums of exponentials */
  /* 1: exponentials, scores and LSE are to the base 2 instead of e: weights are 2^score, LSE a binary logarithm */
  uint8_t base2;
  uint8_t alibi;                        /* 1: each head has a slope: score -= slope |i - j| (Press et al. 2022) */
  /* tg_type of a mask that is added to the scores, f32, f16 or bf16, or bool (bytes of 0 and 1): 0 excludes the key.
   * 0: none */
  uint8_t mask;
  uint8_t mask_per;                     /* what the mask has a value for each of: TG_PER_QUERY.. */
  int32_t heads, kv_heads;              /* of Q and O; of K and V, a divisor of heads. 0: 1; kv_heads 0: as heads */
  int32_t head, value_head;             /* elements of a head: of Q and K; of V and O. 1..576; value_head 0: as head */
  tg_dim queries, keys;                 /* tokens of a sequence, 0..2^31 */
  /* the tokens that a query sees to each side, itself included: it sees key j if |i - j| < window, where a causal mask
   * leaves only one side. i counts as causal says (BOTTOM_RIGHT: the last query stands at the last key). 0: no
   * window */
  int64_t window;
  const float *scale;                   /* read while planning. NULL: 1 / sqrt(head) */
  float soft_cap;                       /* score = soft_cap tanh(score / soft_cap). 0: none */
  /* an expression of the language for the new score, of f32, over score, which it must read, b (batch), h (head),
   * q (query), k (key) and the arguments: "score * f32(k + 1)". b, h, q and k are integers of type index and count from
   * 0 within the call: q and k within their sequence, so q of a single new token is 0 however many keys there are.
   * NULL: none */
  const char *score_mod;
  /* a condition over b, h, q, k and the arguments: which keys a query sees, "doc_q == doc_k". NULL: all */
  const char *mask_mod;
  /* arguments of both. name NULL: there is no such argument. type: i8, u8, i32, f16, bf16, f32, f64; 0: f32. per:
   * TG_PER_QUERY.. Floats of 16 bits are converted to f32, and nothing else is: "score + f32(count)" */
  struct { const char *name; uint8_t type, per; } arg[TG_ATTENTION_ARGS];
  /* threads that calls run on. Calls without exec: 0 or 1: only the calling thread; n: at most n of the context's
   * pool; -1: the whole pool */
  int32_t threads;
  uint32_t flags;
  /* device of the context on which calls run, one kernel for all sequences and heads. All operands of calls but starts
   * and lengths are memory of the device (tg/device.h), the table of pages too, whose entries the host then does not
   * check: one that is no page counts as the nearest one. There masks and arguments are dense, and not TG_PACKED;
   * gradients are of sequences of one length, neither packed nor with key_lengths; a sequence with queries has
   * keys; LSE is given if the plan has it; and there are neither blocks nor merges. NULL: the host's CPU */
  tg_device *device;
  /* 1: calls compute gradients instead of O: they read q, k, v, o, lse and d_o, the gradient by O of what is to be
   * changed, and write its gradients by Q, K and V: d_q, d_k and d_v. All else is as in the descriptor that O and LSE
   * were computed with; of score_mod, the derivative by score is taken */
  uint8_t backward;
  /* K and V lie in pages of so many tokens, [pages][kv_heads][page_size][head], and a table of each call names the
   * pages of each sequence, in the order of its keys (Kwon et al. 2023). Any number up to 2^20. 0: in one piece */
  int64_t page_size;
  /* 1: each head has a sink, a score without a value (Xiao et al. 2024, in the form of gpt-oss): O = sum exp(score) V /
   * (exp(sink) + sum exp(score)), and LSE is of both. A query that sees no key has zeros and LSE = sink. Not with
   * tg_attention_merge */
  uint8_t sinks;
  /* 1: each call first writes K and V of its queries' tokens, k_new and v_new, to the last keys of each sequence, and
   * then computes. keys and key_lengths count them already */
  uint8_t append;
  /* the share of the weights that are left out, at random, where the others are multiplied by 1 / (1 - dropout): in
   * whole parts of 2^16. LSE is of all weights. Which are left out depends on seed, offset, sequence, head, query and
   * key of the call alone, so gradients of a plan with the same dropout, and a call with the same seed and offset,
   * leave out the same ones. Philox4x32-10 (Salmon et al. 2011) of the counter {key / 8, query, sequence * heads +
   * head, offset} and the key {seed, seed >> 32} gives 4 words; key 2 n + h, modulo 8, has the half h of word n, and is
   * left out if that is below dropout * 2^16. 0: none; below 1 */
  float dropout;
  /* a mask of blocks of so many queries and keys, which calls give: queries see the keys of the blocks whose byte is 1,
   * and blocks of 64 keys that none of a run's queries sees are not computed. It costs least where block_rows is 64
   * or 128 and block_keys a multiple of 64. 0: none */
  int32_t block_rows, block_keys;
  /* K and V are integers: the element x of a key is scale[key, x / kv_group] * q[key, x], in f32, with q of so many
   * bits. 8: i8. 4: -8..7, two neighbours in a byte, the first in the low bits. 0: they are floats. k and v are i8 (the
   * default), and their strides are bytes */
  uint8_t kv_bits;
  uint8_t kv_scale;                     /* tg_type of the scales: f32, f16 or bf16. 0: f32 */
  uint8_t block_per;                    /* TG_PER_BATCH, TG_PER_HEAD: it has blocks for each of these. 0: for all */
  int32_t kv_group;                     /* a divisor of head and value_head; 0: a key of a head has one scale */
  /* so many elements of each head of Q and K, an even number, are turned by the angle of their position (Su et al.
   * 2021) where they are loaded: K in memory is not. Pairs (a, b) become (a cos - b sin, b cos + a sin). Key j has the
   * position j, query i has i + keys - queries, or i with TG_CAUSAL_TOP_LEFT. 0: none */
  int32_t rotary;
  uint8_t rotary_neighbours;            /* 1: pairs are elements 2 n and 2 n + 1; 0: n and n + rotary / 2 */
  /* as in tg_compile_options (tg.h): once it is not 0, the planning ends with TG_CANCELLED. NULL: none */
  const int *cancel;
} tg_attention_desc;

typedef struct tg_attention_call {      /* zero means default; fields are only ever appended */
  int64_t batch;                        /* sequences; 0: one */
  int64_t queries, keys;                /* used where the descriptor has a range; else 0, or the fixed size */
  const void *q, *k, *v;
  void *o;
  float *lse;                           /* [batch][heads][queries] if the descriptor has lse; NULL: not written */
  /* strides in elements: from one sequence to the next, from one head to the next, from one token to the next; the
   * elements of a head lie side by side. {0, 0, 0}: dense [batch][heads][tokens][head]. For [batch][tokens][heads]
   * [head]: {tokens * heads * head, head, heads * head}; for Q, K, V packed in one [batch][tokens][3][heads][head]
   * likewise, with pointers to each. None may be negative, and those of O must give every element its own address */
  int64_t q_strides[3], k_strides[3], v_strides[3], o_strides[3];
  /* packed sequences: sequence b has the tokens query_starts[b]..query_starts[b + 1] - 1 of Q and O, key_starts alike
   * of K and V; batch + 1 numbers each, and the strides from one sequence to the next are not used. Dense is then
   * [all tokens][heads][head], and LSE is [heads][all tokens]. A sequence may be empty. Queries and keys of masks
   * and arguments count within a sequence, and dense has as many as the longest one; with TG_PACKED they count through
   * all sequences that are packed. NULL: every sequence has `queries` (`keys`) tokens */
  const int32_t *query_starts, *key_starts;
  const int32_t *key_lengths;           /* sequence b has only its first key_lengths[b] keys. NULL: all */
  const float *slopes;                  /* of alibi: one for each head */
  const void *mask;
  int64_t mask_strides[4];              /* elements from one sequence, head, query, key to the next; all 0: dense */
  const void *arg[TG_ATTENTION_ARGS];
  int64_t arg_strides[TG_ATTENTION_ARGS][4];   /* likewise */
  /* what tg_attention_blocks wrote for a call with these sizes, masks and arguments, for a mask_mod or a mask of bools
   * that many calls share, as the layers of a model do. NULL: each call finds it out */
  const uint8_t *blocks;
  void *workspace;                      /* at least tg_attention_workspace bytes; any alignment */
  size_t workspace_bytes;
  const tg_exec *exec;                  /* NULL: the context's pool, with the descriptor's number of threads */
  int32_t threads;                      /* upper bound on the threads that this call uses; 0: no bound */
  /* only for a plan with a device: the queue on which the call is put, as in tg_gemm_call (gemm.h), with the workspace
   * in memory of the device, aligned to 64 bytes, or NULL */
  tg_queue *queue;
  /* only for a plan with backward. d_o: as o, of its type and layout; d_q, d_k, d_v: as q, k, v, which o and lse were
   * computed from. Strides as above. All elements of d_k and d_v are written: 0 for keys that no query sees. lse is
   * read. The bits depend on sizes and heads alone, not on threads */
  const void *d_o;
  void *d_q, *d_k, *d_v;
  int64_t d_o_strides[3], d_q_strides[3], d_k_strides[3], d_v_strides[3];
  const float *sinks;                   /* of sinks: one for each head, a score as score_mod gives them */
  /* of page_size: k and v are `pages` pages; their strides are from one page, head and token to the next. Sequence b
   * has the pages page_table[b * page_table_stride], .. + 1, ..: as many as its keys need, each within 0..pages - 1.
   * The table is memory of the host, or of the plan's device; page_table_stride 0: as many as `keys` need. key_lengths
   * says how many keys each sequence has, and there are no key_starts */
  const int32_t *page_table;
  int64_t page_table_stride, pages;
  /* of append: of the types of k and v, with the tokens of q: [batch][kv_heads][queries][head], or packed as
   * query_starts says. v_new NULL: only K is written, as V lies in it. A page that is written belongs to one sequence.
   * Where two keys share an address (a stride of 0), nothing can be appended */
  const void *k_new, *v_new;
  int64_t k_new_strides[3], v_new_strides[3];
  uint64_t seed;                        /* of dropout */
  /* of block_rows: bytes of 0 and 1, dense [batch][heads][ceil(queries / block_rows)][ceil(keys / block_keys)], without
   * the dimensions that block_per lacks; queries and keys count within their sequence */
  const uint8_t *block_mask;
  int64_t block_mask_strides[4];        /* as mask_strides, of blocks; all 0: dense */
  /* of kv_bits: [batch][kv_heads][keys][head / kv_group] and likewise value_head, packed or in pages as K and V are */
  const void *k_scale, *v_scale;
  int64_t k_scale_strides[3], v_scale_strides[3];
  /* of rotary: rows of rotary / 2 numbers, a row for each of `positions`, as many as keys and queries have at least */
  const float *cos, *sin;
  int64_t positions;
  uint32_t offset;                      /* the number of the call, of those that share a seed */
} tg_attention_call;

typedef struct tg_attention tg_attention;

/* Chooses and compiles (or finds in the cache) all kernels that calls will need. TG_EINVAL: the message says what is
 * wrong in the descriptor; for score_mod and mask_mod it has line and column, and a caret under the mistake. */
TG_API tg_status tg_attention_plan_sized(tg_context *, const tg_attention_desc *, size_t desc_bytes,
                                         tg_attention **out);
static inline tg_status tg_attention_plan(tg_context *context, const tg_attention_desc *desc, tg_attention **out) {
  return tg_attention_plan_sized(context, desc, sizeof *desc, out);
}
TG_API void tg_attention_free(tg_attention *);   /* before its context; after its last run */

/* Bytes of workspace for this call, of which sizes, starts, lengths, exec and threads matter; or (call NULL) enough for
 * every call of one sequence on the descriptor's threads, without exec. 0 if the call is wrong, with a message; and if
 * none is needed. */
TG_API size_t tg_attention_workspace_sized(const tg_attention *, const tg_attention_call *, size_t call_bytes);
static inline size_t tg_attention_workspace(const tg_attention *attention, const tg_attention_call *call) {
  return tg_attention_workspace_sized(attention, call, sizeof *call);
}

/* Computes. TG_EINVAL: the message says which field of the call is wrong, and nothing was written. An operand that the
 * plan does not read, such as a mask where the descriptor has none, is wrong as well. */
TG_API tg_status tg_attention_run_sized(const tg_attention *, const tg_attention_call *, size_t call_bytes);
static inline tg_status tg_attention_run(const tg_attention *attention, const tg_attention_call *call) {
  return tg_attention_run_sized(attention, call, sizeof *call);
}

/* Puts the call into a program (tg/program.h) as a step, checked as for a run. Workspace, exec, threads and queue of
 * the call are 0: the program brings them. Starts and lengths are read now. TG_EINVAL: also, a plan of another device
 * than the program's, or with backward = 1, which is not recorded. The plan must live until the program is freed. */
TG_API tg_status tg_attention_put_sized(tg_program *, const tg_attention *, const tg_attention_call *,
                                        size_t call_bytes);
static inline tg_status tg_attention_put(tg_program *program, const tg_attention *attention,
                                         const tg_attention_call *call) {
  return tg_attention_put_sized(program, attention, call, sizeof *call);
}

/* Which blocks of keys a mask_mod or a mask of bools leaves to the queries of this call, for tg_attention_call.blocks:
 * tg_attention_blocks_bytes bytes, which are 0 if calls of these sizes need none. Q, K, V and O are not looked at. */
TG_API size_t tg_attention_blocks_bytes_sized(const tg_attention *, const tg_attention_call *, size_t call_bytes);
static inline size_t tg_attention_blocks_bytes(const tg_attention *attention, const tg_attention_call *call) {
  return tg_attention_blocks_bytes_sized(attention, call, sizeof *call);
}
TG_API tg_status tg_attention_blocks_sized(const tg_attention *, const tg_attention_call *, size_t call_bytes,
                                           uint8_t *out);
static inline tg_status tg_attention_blocks(const tg_attention *attention, const tg_attention_call *call,
                                            uint8_t *out) {
  return tg_attention_blocks_sized(attention, call, sizeof *call, out);
}

/* Merges two results over disjoint sets of keys, as the parts of a cache or machines give them, into the result over
 * both. All are dense: [batch][heads][queries][value_head] of the plan's type o, and [batch][heads][queries]. The plan
 * has lse. o and lse overlap none of the others. It runs on the calling thread. */
typedef struct tg_attention_merge_call {   /* zero means default; fields are only ever appended */
  int64_t batch, queries;               /* as in tg_attention_call */
  const void *first, *second;           /* O of each */
  const float *first_lse, *second_lse;
  void *o;
  float *lse;
} tg_attention_merge_call;
TG_API tg_status tg_attention_merge_sized(const tg_attention *, const tg_attention_merge_call *, size_t call_bytes);
static inline tg_status tg_attention_merge(const tg_attention *attention, const tg_attention_merge_call *call) {
  return tg_attention_merge_sized(attention, call, sizeof *call);
}

/* Figures about a plan, for people to read. */
typedef struct tg_attention_info {
  uint32_t kernels, from_cache;         /* kernels of the plan; how many of them were found in the cache */
  size_t workspace;                     /* bytes for each thread */
  uint32_t tuned;                       /* how many of the kernels were compiled with a tuned choice */
} tg_attention_info;
/* All 0 for NULL. */
TG_API void tg_attention_describe_sized(const tg_attention *, tg_attention_info *out, size_t info_bytes);
static inline tg_attention_info tg_attention_describe(const tg_attention *attention) {
  tg_attention_info info;
  tg_attention_describe_sized(attention, &info, sizeof info);
  return info;
}

/* Only in libtg_jit.a: tunes the kernel that a plan of this descriptor runs for so many queries and keys (0 where the
 * descriptor fixes them). It computes some rows of one head, on one thread, so the choice serves any number of heads
 * and threads, and any lengths whose runs have a number of rows in the same range. Of few rows, whose kernel reads K
 * and V from memory, the keys are as many as caches do not hold. The choice is kept in the context's folder of tuned
 * choices (tg_context_options.tuned); plans of descriptors with the same range of rows use it if their contexts have
 * that folder and the same number of threads. The options' bindings, user, params and threads are overwritten, and so
 * is start if it and start_kernel are NULL. A candidate must pass the checks of attention before it is kept. Of a
 * mask_mod or a mask of bools runs of more than 16 rows are timed as if a quarter of their blocks of keys were seen in
 * part and the others as a whole. With backward it tunes the kernel of gradients, one for all numbers of rows: of all
 * keys at once, or, where keys are so many that a plan divides them, of a part; each has a choice of its own.
 * TG_EINVAL: the descriptor or a length is wrong, or it has a device and backward, page_size, append, dropout,
 * block_rows, kv_bits or rotary. */
TG_API tg_status tg_attention_tune_sized(tg_context *, const tg_attention_desc *, size_t desc_bytes, int64_t queries,
                                         int64_t keys, const tg_tune_options *, size_t options_bytes,
                                         tg_tune_result **out);
static inline tg_status tg_attention_tune(tg_context *context, const tg_attention_desc *desc, int64_t queries,
                                          int64_t keys, const tg_tune_options *options, tg_tune_result **out) {
  return tg_attention_tune_sized(context, desc, sizeof *desc, queries, keys, options, sizeof *options, out);
}

#ifdef __cplusplus
}
#endif
#endif
