/* SPDX-License-Identifier: MIT
 * Checks that a candidate for a product must pass before it may be used, or chosen for its time. A candidate is a
 * function that computes the product on given operands. Each operand ends, or begins, at a guard page; leading
 * dimensions are odd; the bytes between rows, and a C that must not be read, are filled with poison. An access outside
 * of an operand raises a signal, so untrusted candidates are checked in a separate process; tg_check_at tells which
 * operand the address of such an access belongs to. */
#ifndef TG_CHECKS_GEMM_H
#define TG_CHECKS_GEMM_H
#include "gemm/template.h"
#include "trial/placed.h"

typedef enum tg_check_kind {
  /* small integers, with enough zeros among them that every partial sum is exact: equal to plain C's result, whatever
   * the order of the sum */
  TG_CHECK_EXACT,
  /* the same data, for large shapes: C x = A (B x) and y C = (y A) B for random vectors x and y of integers
   * (Freivalds' check), and some rows and columns in full */
  TG_CHECK_FREIVALDS,
  TG_CHECK_ROUNDED,     /* C narrower than the sum: one rounding of the exact sum, with ties, subnormals, overflow */
  TG_CHECK_EXTREMES,    /* 8-bit integers of the full range, with runs of the largest and the smallest */
  TG_CHECK_EPILOGUE,    /* exact sums: the same bits as the epilogue alone, compiled as written, gives for them */
  /* random data: within (2 sqrt(K) + 16) eps (|alpha||A||B| + |beta||C|) + 1 ulp of the result in a wider type; for
   * quantised weights |B| is |scale| (|q| + |zero|) */
  TG_CHECK_RANDOM,
  TG_CHECK__COUNT
} tg_check_kind;
const char *tg_check_name(tg_check_kind kind);

/* Operands that a candidate is called with. The bytes of each are those from its first element to its last. */
typedef struct tg_gemm_operands {
  /* values of the parameters of a sketch's kernel (tg_gemm_kernel_of) */
  int64_t m, n, k, lda, ldb, ldc, stepa, stepb, stepc, ld_group, ld_arg[TG_GEMM_ARGUMENTS];
  tg_argument scale, zero;            /* of quantised weights; b is packed if the problem has a panel */
  tg_argument a, b, c, alpha, beta;   /* alpha and beta: one element of type acc each, where the problem has them */
  tg_argument argument[TG_GEMM_ARGUMENTS];
} tg_gemm_operands;

/* Computes the product. If it fails it writes the reason to message, of message_n bytes. */
typedef tg_status tg_gemm_candidate(void *user, const tg_gemm_operands *o, char *message, size_t message_n);

/* `user` of the candidate tg_check_run_kernel, which runs a compiled kernel of a sketch. */
typedef struct tg_check_kernel {
  tg_context *context;
  tg_kernel *kernel;
  int threads;                       /* as in tg_launch */
  tg_parallel_for *parallel_for;     /* likewise */
  void *parallel_user;
} tg_check_kernel;
tg_gemm_candidate tg_check_run_kernel;

/* One check: its kind, the sizes, and the layout of the operands. */
typedef struct tg_check_case {
  tg_check_kind kind;
  int64_t m, n, k;
  /* elements of padding between one row (or column) and the next; with TG_GEMM_STRIDES both strides depend on it */
  int64_t pad_a, pad_b, pad_c;
  double alpha, beta;                /* integers; for a problem without alpha, beta they count as 1, 0 */
  bool poison;                       /* if beta is 0, C holds NaN: a plan must not read it; a kernel alone may */
  /* true: operands begin right after a guard page; false: they end right before one */
  bool front;
  uint64_t seed;
} tg_check_case;

typedef struct tg_checks tg_checks;
/* Prepares checks of one problem, which must exist until tg_checks_close. work: most multiplications for a reference
 * result (0: 2^25); of larger products only some rows and columns are checked. */
tg_status tg_checks_open(tg_context *context, const tg_gemm_problem *problem, double work, tg_checks **out);
void tg_checks_close(tg_checks *);

/* Does the check make sense for this problem? TG_CHECK_EPILOGUE, for example, does only if it has an epilogue. */
bool tg_check_applies(const tg_gemm_problem *p, tg_check_kind check);
/* Runs one check. TG_OK: passed. TG_EINVAL: the result is wrong, and failure says where. Another status: the check
 * could not be made, such as for lack of memory, and failure says why. */
tg_status tg_check_one(tg_checks *, tg_gemm_candidate *run, void *user, const tg_check_case *c,
                       tg_check_failure *failure);
/* Runs every check that applies at each of these sizes: with operands before and after guard pages, with dense and odd
 * leading dimensions, with several alpha and beta; with poison, except for tg_check_run_kernel. */
typedef struct tg_check_size { int64_t m, n, k; } tg_check_size;
tg_status tg_checks_run(tg_checks *, tg_gemm_candidate *run, void *user, const tg_check_size *sizes, uint32_t sizes_n,
                        uint64_t seed, tg_check_failure *failure);

/* Runs the candidate once at this size and checks all of C, with the check that is exact at any size
 * (TG_CHECK_FREIVALDS). seconds: time of the run. */
tg_status tg_checks_run_once(tg_checks *, tg_gemm_candidate *run, void *user, const tg_check_size *size, uint64_t seed,
                             double *seconds, tg_check_failure *failure);

/* Tells tg_checks_run the leading dimensions of A, B, C that the kernel was compiled for; 0: any. */
void tg_checks_leading(tg_checks *, const int64_t ld[3]);

/* Compiles the kernel of a choice and runs every check on it. If the problem's sizes are fixed, it is checked at them,
 * and the same words are also compiled for sizes that vary and checked at the sizes of tiles, one less, one more, and
 * 1. If its sizes vary, it is checked at such sizes within their ranges. words: used instead of the sketch's words;
 * NULL: the sketch's. Words that are not legal for varying sizes are checked at the fixed sizes only. The kernel runs
 * in this process, which a wrong kernel may crash. TG_EINVAL: as in tg_check_one, or the words are illegal. */
tg_status tg_checks_pass(tg_context *context, const tg_gemm_problem *problem, const tg_kit_choice *choice,
                         const char *words, int threads, uint64_t seed, tg_check_failure *failure);

/* A kernel that was compiled for the problem, to be checked at the sizes `at`, and, if it takes sizes at launch, at
 * sizes around the numbers in its words (NULL: it has no words). ld: as in tg_checks_leading. */
typedef struct tg_check_built {
  tg_kernel *kernel;
  const char *words;
  tg_check_size at;
  int64_t ld[3];
  int threads;
} tg_check_built;
tg_status tg_checks_pass_built(tg_context *context, const tg_gemm_problem *problem, const tg_check_built *built,
                               uint64_t seed, tg_check_failure *failure);

/* Runs the kernel once at the sizes `at`, on integers, and checks the whole result: for sizes at which a run takes
 * seconds. seconds: time of the run. */
tg_status tg_checks_pass_once(tg_context *context, const tg_gemm_problem *problem, const tg_check_built *built,
                              uint64_t seed, double *seconds, tg_check_failure *failure);

/* The same for the workers of a search (tg_trial_checks), which get the problem as text. tg_check_about writes this
 * text to out and returns what snprintf returns; at: the sizes that are tuned for. tg_check_trial reads it and checks
 * a kernel. */
size_t tg_check_about(const tg_gemm_problem *p, const tg_check_size *at, const int64_t ld[3], char *out, size_t n);
tg_status tg_check_trial(tg_context *c, const char *about, tg_kernel *k, const char *words, int threads, uint64_t seed,
                         double *whole, char *message, size_t message_n);

/* tg_places_at for the operands of the check: writes which operand an address is in or near. */
bool tg_check_at(const tg_checks *, const void *address, char *out, size_t n);
#endif
