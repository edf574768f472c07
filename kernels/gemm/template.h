/* SPDX-License-Identifier: MIT
 * GEMM in the language: one body of mathematics, C[i,j] = epilogue(alpha sum_k A[i,k] B[k,j] + beta C[i,j]), and
 * sketches, each of which adds words of a schedule, whose sizes are knobs, to this body. Problems and choices are plain
 * data. */
#ifndef TG_GEMM_TEMPLATE_H
#define TG_GEMM_TEMPLATE_H
#include "kit/plan.h"
#include "target/target.h"

/* How the two subscripts of an operand lie in memory. */
typedef enum tg_gemm_major { TG_GEMM_ROW, TG_GEMM_COLUMN, TG_GEMM_STRIDES } tg_gemm_major;

enum { TG_GEMM_ARGUMENTS = TG_KIT_ARGUMENTS, TG_GEMM_KNOBS = TG_KIT_KNOBS };

/* Everything that the code of a kernel depends on. The bodies get it as tg_user. */
typedef struct tg_gemm_problem {
  tg_type a, b, c, acc;              /* types of the elements, and of the sum */
  uint8_t a_major, b_major, c_major; /* tg_gemm_major */
  /* stride between neighbours in a row (TG_GEMM_COLUMN: in a column); 0 or 1: contiguous. Unused with
   * TG_GEMM_STRIDES */
  int64_t a_step, b_step, c_step;
  bool alpha;                        /* the product is multiplied by alpha[0], an input of type acc; else by 1 */
  bool flush;                        /* subnormal numbers in A, in B and as sums may be treated as zero */
  bool beta;                         /* C is read, and multiplied by beta[0]; else it is written only */
  tg_kit_dim m, n, k, batch;        /* batch: {1, 1} for a single product */
  /* columns in a panel: B is packed as Bp[N/panel, K, panel], the last panel padded with zeros. Then C is row major,
   * and only sketches with panels take the problem. 0: B is not packed */
  uint32_t panel;
  /* 4 or 8: B is quantised to integers q of this many bits, with values scale * (q - zero); scale and zero belong to
   * groups of terms, and b is i8 or u8. 0: B is not quantised */
  uint8_t bits;
  uint8_t group_major;               /* scale and zero are [groups, N], or (TG_GEMM_COLUMN) [N, groups] */
  tg_type scale, zero;               /* their types; zero TG_VOID: there are no zero points */
  int64_t group;                     /* terms in a group; the last may have fewer. 0: one group of all terms */
  /* an expression over acc, m, n and the arguments, which are converted to the type acc. Its value is converted to the
   * type c. NULL: acc itself */
  const char *epilogue;
  tg_kit_argument argument[TG_GEMM_ARGUMENTS];
  uint32_t arguments_n;
} tg_gemm_problem;

/* The body: the declarations and the statement of the product. A sketch that writes the sum differently calls
 * tg_gemm_declare, tg_gemm_term and tg_gemm_store instead. */
void tg_gemm_product(tg_builder *b, const tg_gemm_problem *p);
void tg_gemm_declare(tg_builder *b, const tg_gemm_problem *p);
void tg_gemm_declare_call(tg_builder *b, const tg_gemm_problem *p);   /* a packed B as calls have it, Bp */
void tg_gemm_declare_result(tg_builder *b, const tg_gemm_problem *p);   /* without A and B */
/* The statement C[i,j] = epilogue(alpha * sum + beta * C[i,j]); j: text of the subscript; condition: " if .." or "". */
void tg_gemm_store(tg_builder *b, const tg_gemm_problem *p, const char *j, const char *sum, const char *condition);
/* Writes the text of A[i,k] * B[k,j] in the type of the sum; k: text of the subscript. */
void tg_gemm_term(const tg_gemm_problem *p, const char *k, char *out, size_t size);
/* Writes "f32(A[i,k])"; i, k: texts of the subscripts. */
void tg_gemm_value_of_a(const tg_gemm_problem *p, const char *i, const char *k, char *out, size_t size);

/* Has an operand neighbours that are not known to be contiguous: a step above 1, or TG_GEMM_STRIDES? */
bool tg_gemm_is_strided(const tg_gemm_problem *p);

/* Makes a sketch a kernel of this problem. Its parameters are M, N, K, the leading dimensions lda, ldb, ldc (elements
 * from one row to the next; column major: from one column to the next), and, only if the problem needs them:
 * stepa, stepb, stepc: elements from one column to the next of an operand with TG_GEMM_STRIDES;
 * ld_arg0..: leading dimensions of arguments per element;
 * ld_group: leading dimension of scales and zero points.
 * Its buffers are A, B, C, alpha, beta, scale, zero, arg0... A B of 4-bit elements is a buffer of bytes, and its ldb
 * counts bytes. */
typedef struct { tg_kernel_def def; char params[256]; } tg_gemm_def;
void tg_gemm_kernel_of(const tg_gemm_problem *p, const tg_kernel_def *sketch, tg_gemm_def *out);

/* Strip i of C as a problem for one thread. */
tg_gemm_problem tg_gemm_strip(const tg_gemm_problem *p, const tg_kit_strips *strips, uint32_t i);
/* The strips to divide the product into, if they are faster than the one kernel that tg_gemm_choose gives; else n is 1.
 * open_rows: only strips of columns are allowed. */
tg_kit_strips tg_gemm_choose_strips(const tg_gemm_problem *p, const tg_target *t, uint32_t threads, bool open_rows);

/* Chooses a sketch and its knobs without a search, from the sizes, the caches, the registers and the threads. Takes
 * microseconds and allocates nothing. */
void tg_gemm_choose(const tg_gemm_problem *p, const tg_target *t, uint32_t threads, tg_kit_choice *out);
#endif
