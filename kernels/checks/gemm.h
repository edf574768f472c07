/* SPDX-License-Identifier: MIT
 * The checks: what a candidate for a product must pass before anyone may use it or time it as a winner. A candidate is
 * a function that is
 * called on operands in memory of its own: each ends, or begins, at a page that may not be touched, leading dimensions
 * are odd, what lies
 * between rows and in a C that is not read is poison. An access outside of an operand raises a signal, so candidates
 * that are not trusted
 * are checked in a process of their own; tg_check_at tells whose page an address is. */
#ifndef TG_CHECKS_GEMM_H
#define TG_CHECKS_GEMM_H
#include "gemm/template.h"
#include "trial/placed.h"

typedef enum tg_check_kind {
  /* small integers, thinned until every partial sum is exact: the numbers of plain C, whatever the order */
  TG_CHECK_EXACT,
  /* the same data, for shapes of any size: C x = A (B x) and y C = (y A) B in integers, and some rows and columns in
   * full */
  TG_CHECK_FREIVALDS,
  TG_CHECK_ROUNDED,     /* C narrower than the sum: one rounding of the exact sum, with ties, subnormals, overflow */
  TG_CHECK_EXTREMES,    /* 8-bit integers of the full range, with runs of the largest and the smallest */
  TG_CHECK_EPILOGUE,    /* exact sums: the bits of the epilogue compiled by itself, as written */
  /* random data within (2 sqrt(K) + 16) eps (|alpha||A||B| + |beta||C|) + 1 ulp of a wider type's result; |B| of
   * weights is |scale| (|q| + |zero|) */
  TG_CHECK_RANDOM,
  TG_CHECK__COUNT
} tg_check_kind;
const char *tg_check_name(tg_check_kind g);

/* Operands as a candidate gets them; bytes reach from the first element to the last. */
typedef struct tg_gemm_operands {
  /* as the parameters of a sketch's kernel */
  int64_t m, n, k, lda, ldb, ldc, stepa, stepb, stepc, ld_group, ld_arg[TG_GEMM_ARGUMENTS];
  tg_argument scale, zero;            /* of weights of few bits; b is packed where the problem says so */
  tg_argument a, b, c, alpha, beta;   /* alpha and beta: one element of type acc each, where the problem has them */
  tg_argument argument[TG_GEMM_ARGUMENTS];
} tg_gemm_operands;

/* Computes the product; message gets the text of a failure. */
typedef tg_status tg_gemm_candidate(void *user, const tg_gemm_operands *o, char *message, size_t message_n);

/* A compiled kernel of a sketch as a candidate: `user` is one of these. */
typedef struct tg_check_kernel {
  tg_context *context;
  tg_kernel *kernel;
  int threads;                       /* as in tg_launch */
  tg_parallel_for *parallel_for;     /* likewise */
  void *parallel_user;
} tg_check_kernel;
tg_gemm_candidate tg_check_run_kernel;

/* One check: its kind, sizes, and how the operands lie. */
typedef struct tg_check_case {
  tg_check_kind kind;
  int64_t m, n, k;
  /* elements between a row (or column) and the next; where both subscripts have strides, they make those */
  int64_t pad_a, pad_b, pad_c;
  double alpha, beta;                /* whole numbers; of a problem without them 1 and 0 are used */
  bool poison;                       /* where beta is 0, C holds NaN: a kernel alone may read it then, a plan may not */
  /* operands begin behind the page that may not be touched; else they end before it */
  bool front;
  uint64_t seed;
} tg_check_case;

typedef struct tg_checks tg_checks;
/* Checks for one problem, which stays the caller's. work: multiplications that a reference may take (0: 2^25);
 * larger products are checked by samples of their rows and columns. */
tg_status tg_checks_open(tg_context *context, const tg_gemm_problem *problem, double work, tg_checks **out);
void tg_checks_close(tg_checks *);

bool tg_check_applies(const tg_gemm_problem *p, tg_check_kind check);
/* TG_OK: passed. TG_EINVAL: wrong, and failure says how. Anything else: could not be decided (no memory, ..), the
 * text says why. */
tg_status tg_check_one(tg_checks *, tg_gemm_candidate *run, void *user, const tg_check_case *c,
                       tg_check_failure *failure);
/* Every check that applies at each of these sizes: with memory that ends and that begins at a page, dense and odd,
 * alpha and beta of all kinds; poison, but for tg_check_run_kernel. */
typedef struct tg_check_size { int64_t m, n, k; } tg_check_size;
tg_status tg_checks_run(tg_checks *, tg_gemm_candidate *run, void *user, const tg_check_size *sizes, uint32_t sizes_n,
                        uint64_t seed, tg_check_failure *failure);

/* One check of all of C at this size, under the check that is exact for any: seconds of its run. */
tg_status tg_checks_run_once(tg_checks *, tg_gemm_candidate *run, void *user, const tg_check_size *size, uint64_t seed,
                             double *seconds, tg_check_failure *failure);

/* Leading dimensions that the kernel was compiled for, which tg_checks_run keeps to; 0: any. */
void tg_checks_leading(tg_checks *, const int64_t ld[3]);

/* The kernel of a choice through every check: of fixed sizes itself, at them, and the same words for any size at
 * tiles, one less, one more, and 1; else at such sizes within its bounds. words (may be NULL): in place of the
 * sketch's; those that are illegal for any size are checked at their own only. In this process: what a choice that
 * was never run may do, it does here. TG_EINVAL as above, or words that are illegal. */
tg_status tg_checks_pass(tg_context *context, const tg_gemm_problem *problem, const tg_kit_choice *choice,
                         const char *words, int threads, uint64_t seed, tg_check_failure *failure);

/* A kernel that was compiled for the problem: at `at`, and, where it takes sizes at launch, around the numbers in
 * its words (may be NULL). ld as in tg_checks_leading. */
typedef struct tg_check_built {
  tg_kernel *kernel;
  const char *words;
  tg_check_size at;
  int64_t ld[3];
  int threads;
} tg_check_built;
tg_status tg_checks_pass_built(tg_context *context, const tg_gemm_problem *problem, const tg_check_built *built,
                               uint64_t seed, tg_check_failure *failure);

/* One run at these sizes alone, of whole numbers, all of whose result is checked: for sizes at which a run takes
 * seconds. seconds: what it took. */
tg_status tg_checks_pass_once(tg_context *context, const tg_gemm_problem *problem, const tg_check_built *built,
                              uint64_t seed, double *seconds, tg_check_failure *failure);

/* The same for the workers of a search (tg_trial_checks), who get the problem as text: tg_check_about puts it there,
 * and returns snprintf's number. The sizes are those that are tuned for. */
size_t tg_check_about(const tg_gemm_problem *p, const tg_check_size *at, const int64_t ld[3], char *out, size_t n);
tg_status tg_check_trial(tg_context *c, const char *about, tg_kernel *k, const char *words, int threads, uint64_t seed,
                         double *whole, char *message, size_t message_n);

/* tg_places_at */
bool tg_check_at(const tg_checks *, const void *address, char *out, size_t n);
#endif
