/* SPDX-License-Identifier: MIT
 * GEMM in the language: one body of mathematics, C[i,j] = epilogue(alpha sum_k A[i,k] B[k,j] + beta C[i,j]), and
 * sketches, each the body with
 * words of a schedule whose sizes are knobs. What a problem is, and what a choice for it is, as plain data. */
#ifndef TG_GEMM_TEMPLATE_H
#define TG_GEMM_TEMPLATE_H
#include "kit/plan.h"
#include "target/target.h"

/* How the two subscripts of an operand lie in memory. */
typedef enum tg_gemm_major { TG_GEMM_ROW, TG_GEMM_COLUMN, TG_GEMM_STRIDES } tg_gemm_major;

enum { TG_GEMM_ARGUMENTS = TG_KIT_ARGUMENTS, TG_GEMM_KNOBS = TG_KIT_KNOBS };

/* Everything that the code depends on. It is the `user` of the bodies. */
typedef struct tg_gemm_problem {
  tg_type a, b, c, acc;              /* of the elements, and of the sum */
  uint8_t a_major, b_major, c_major; /* tg_gemm_major */
  /* of TG_GEMM_ROW and TG_GEMM_COLUMN: elements from one to the next of a row, of a column; 0 and 1: they lie side
   * by side */
  int64_t a_step, b_step, c_step;
  bool alpha;                        /* the product is multiplied by alpha[0], an input of type acc; else by 1 */
  bool flush;                        /* subnormal numbers of A, of B and of the sum may count as zero */
  bool beta;                         /* C is read, and multiplied by beta[0]; else it is written only */
  tg_kit_dim m, n, k, batch;        /* batch: {1, 1} for a single product */
  /* B comes packed, as Bp[N/panel, K, panel] with zeros behind N; 0: as it is. C lies in rows then, and the sketch
   * is one that takes panels */
  uint32_t panel;
  /* 4 or 8: B is of whole numbers of so many bits, whose values are scale * (q - zero) by groups of terms; b is i8
   * or u8. 0: B is of b */
  uint8_t bits;
  uint8_t group_major;               /* scale and zero lie as [groups, N], or (TG_GEMM_COLUMN) as [N, groups] */
  tg_type scale, zero;               /* zero TG_VOID: there are none */
  int64_t group;                     /* terms; the last group may have fewer. 0: all of K */
  /* an expression over acc, m, n and the arguments, which come converted to acc; NULL: acc itself. Converted to c */
  const char *epilogue;
  tg_kit_argument argument[TG_GEMM_ARGUMENTS];
  uint32_t arguments_n;
} tg_gemm_problem;

/* Declarations and the statement. In every sketch but those that say the sum in their own way: they call the three
 * below. */
void tg_gemm_product(tg_builder *b, const tg_gemm_problem *p);
void tg_gemm_declare(tg_builder *b, const tg_gemm_problem *p);
/* C[i,j] = what the problem makes of this sum, j being that text; condition: " if .." or "". */
void tg_gemm_store(tg_builder *b, const tg_gemm_problem *p, const char *j, const char *sum, const char *condition);
/* A[i,k] * B[k,j] in the type of the sum, k as the text says. */
void tg_gemm_term(const tg_gemm_problem *p, const char *k, char *out, size_t size);
/* "f32(A[i,k])", i and k being these texts. */
void tg_gemm_value_of_a(const tg_gemm_problem *p, const char *i, const char *k, char *out, size_t size);

/* Have the elements of an operand no neighbours in memory? */
bool tg_gemm_is_strided(const tg_gemm_problem *p);

/* A sketch as the kernel of this problem. It has the parameters M, N, K, the leading dimensions lda, ldb, ldc
 * (elements from a row to the next, from a column where the operand is column major), and those that few problems
 * have: stepa, stepb, stepc (elements from a column to the next, where the major is TG_GEMM_STRIDES and lda.. goes
 * from a row to the next), ld_arg0.. of an argument per element, and ld_group (of scales and zero points, as their
 * major says). The buffers are A, B, C, alpha, beta, scale, zero, arg0... B of four bits is one of bytes, and so is
 * its ldb. */
typedef struct { tg_kernel_def def; char params[256]; } tg_gemm_def;
void tg_gemm_kernel_of(const tg_gemm_problem *p, const tg_kernel_def *sketch, tg_gemm_def *out);

/* A strip of C, of rows or of columns, as a product of one thread. */
tg_gemm_problem tg_gemm_strip(const tg_gemm_problem *p, const tg_kit_strips *strips, uint32_t i);
/* Are strips better than one kernel for all, which tg_gemm_choose gives? open_rows: strips of columns only. */
tg_kit_strips tg_gemm_choose_strips(const tg_gemm_problem *p, const tg_target *t, uint32_t threads, bool open_rows);

/* A good point without a search, from the sizes, the caches, the registers and the threads: microseconds, no memory. */
void tg_gemm_choose(const tg_gemm_problem *p, const tg_target *t, uint32_t threads, tg_kit_choice *out);
#endif
