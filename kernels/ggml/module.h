/* SPDX-License-Identifier: MIT
 * A back end of ggml: its operations on tensors that lie in ggml's own CPU buffers, computed by tg. What the files of
 * this module share; backend.c says what the module is to ggml. */
#ifndef TG_GGML_MODULE_H
#define TG_GGML_MODULE_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <ggml-backend-impl.h>
#include <ggml-impl.h>
#include <ggml.h>
#include "tg/attention.h"
#include "tg/gemm.h"
#include "tg/tg.h"

/* ---- one back end of ggml: its threads, and memory that its operations reuse ---- */

enum {
  GGML_WORKSPACE, GGML_PANEL, GGML_ROWS, GGML_RESULT, GGML_LISTS, GGML_TABLE, GGML_SEEN, GGML_BLOCKS, GGML_SCRATCHES
};

typedef struct tg_ggml_session {
  int threads;
  struct { void *at; size_t bytes; } scratch[GGML_SCRATCHES];
  uint64_t graph;              /* counts the graphs that were computed */
  /* the last mask that was looked at (attention.c), in which graph, and whether it says only which keys are seen */
  struct { const struct ggml_tensor *of; uint64_t graph; bool says_seen; const tg_attention *blocks_of; } mask;
} tg_ggml_session;

/* At least `bytes` of that scratch, aligned to 64; what was there is lost. NULL: out of memory. */
void *tg_ggml_scratch(tg_ggml_session *, int which, size_t bytes);

/* ---- plans of the process (plans.c): one context, and each plan is made once ---- */

bool tg_ggml_start(void);   /* false: there is no context */
/* NULL: it cannot be made, and the log of ggml says why. */
tg_gemm *tg_ggml_gemm(const tg_gemm_desc *);   /* without pointers */
tg_kernel *tg_ggml_kernel(const char *text);
/* texts of the descriptor are string constants */
tg_attention *tg_ggml_attention(const tg_attention_desc *, float scale);
/* After a failed call of tg: says so in the log of ggml; false. */
bool tg_ggml_failed(const char *what);

/* ---- operations ---- */

/* supports: whether run computes this node, whose data is not looked at. run: false, and the log of ggml says why. */
typedef struct tg_ggml_operation {
  enum ggml_op op;
  const char *name;            /* ggml_op_name of it, in the ggml that this module is for */
  bool (*supports)(const struct ggml_tensor *);
  bool (*run)(tg_ggml_session *, struct ggml_tensor *);
} tg_ggml_operation;

bool tg_ggml_product_supports(const struct ggml_tensor *);
bool tg_ggml_product(tg_ggml_session *, struct ggml_tensor *);
bool tg_ggml_experts_supports(const struct ggml_tensor *);
bool tg_ggml_experts(tg_ggml_session *, struct ggml_tensor *);
bool tg_ggml_attend_supports(const struct ggml_tensor *);
bool tg_ggml_attend(tg_ggml_session *, struct ggml_tensor *);
bool tg_ggml_rope_supports(const struct ggml_tensor *);
bool tg_ggml_rope(tg_ggml_session *, struct ggml_tensor *);
bool tg_ggml_rows_supports(const struct ggml_tensor *);
bool tg_ggml_rows(tg_ggml_session *, struct ggml_tensor *);

/* Slopes of heads (ALiBi), in GGML_TABLE; max_bias 0: 1. NULL: out of memory. */
const float *tg_ggml_slopes(tg_ggml_session *, int64_t heads, float max_bias);

/* ---- types ---- */

tg_type tg_ggml_type(enum ggml_type);   /* f32, f16, bf16, i32; TG_VOID: another one */
static inline bool tg_ggml_is_float(enum ggml_type t) {
  tg_type type = tg_ggml_type(t);
  return type == TG_F32 || type == TG_F16 || type == TG_BF16;
}

/* ---- block-quantised rows (blocks.c) ---- */

bool tg_ggml_has_blocks(enum ggml_type);   /* Q8_0, Q4_0, Q4_K, Q6_K */
/* rows of `columns` values, `bytes` apart, as f32 to out, dense. */
bool tg_ggml_unpack(tg_ggml_session *, enum ggml_type, const void *rows, size_t bytes, int64_t rows_n, int64_t columns,
                    float *out);

/* ---- kernels over rows (loops.c) ---- */

/* A tensor of up to four dimensions, the innermost first, as in ggml: sizes, and bytes from one to the next. */
typedef struct tg_ggml_operand {
  void *data;
  tg_type type;
  int64_t ne[4];
  size_t nb[4];
  bool read, written;
} tg_ggml_operand;

enum { TG_GGML_OPERANDS = 8 };
/* A loop nest over rows: `body` is text of the language for one row of N elements, in which $3[e] reads element e of
 * that row of operand 3 as f32, and @3[e] = value; writes it. An operand with fewer rows than ne is repeated. */
typedef struct tg_ggml_loops {
  const char *name, *body;
  int64_t ne[4];
  bool fixed;                  /* N is a constant of the kernel */
  uint32_t operands_n;
  tg_ggml_operand operand[TG_GGML_OPERANDS];
} tg_ggml_loops;

tg_ggml_operand tg_ggml_reads(const struct ggml_tensor *);
tg_ggml_operand tg_ggml_writes(const struct ggml_tensor *);
/* One number for all rows. */
tg_ggml_operand tg_ggml_number(const float *);
/* One number for each i of dimension 2. */
tg_ggml_operand tg_ggml_numbers(const float *, int64_t n);
bool tg_ggml_run_loops(tg_ggml_session *, const tg_ggml_loops *);

#endif
