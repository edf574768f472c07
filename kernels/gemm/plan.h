/* SPDX-License-Identifier: MIT
 * A plan of a product: its kernels, and how the fields of a call become their operands and parameters. */
#ifndef TG_GEMM_PLAN_H
#define TG_GEMM_PLAN_H
#include "gemm/template.h"
#include "kit/plan.h"
#include "tg/gemm.h"

/* Indices of a call's operands and values (tg_kit_names): each buffer and each parameter of a kernel is found here by
 * its name. GEMM_ARG, GEMM_ROW_STEP and GEMM_COLUMN_STEP are the first of several. */
enum {
  GEMM_A,
  GEMM_B,
  GEMM_C,
  GEMM_ALPHA,
  GEMM_BETA,
  GEMM_SCALE,
  GEMM_ZERO,
  GEMM_ARG,
  GEMM_OPERANDS = GEMM_ARG + TG_GEMM_ARGS
};
enum {
  GEMM_M,
  GEMM_N,
  GEMM_K,
  GEMM_ROW_STEP,
  GEMM_COLUMN_STEP = GEMM_ROW_STEP + 3,
  GEMM_ARG_LD = GEMM_COLUMN_STEP + 3,
  GEMM_GROUP_LD = GEMM_ARG_LD + TG_GEMM_ARGS,
  GEMM_VALUES
};

/* The two kernels of a part: GEMM_FRESH does not read C, GEMM_UPDATE does. */
enum { GEMM_FRESH, GEMM_UPDATE, GEMM_CASES };
_Static_assert((int)GEMM_OPERANDS <= (int)TG_KIT_OPERANDS && (int)GEMM_VALUES <= (int)TG_KIT_VALUES &&
                   (int)GEMM_CASES <= (int)TG_KIT_CASES,
               "more than a plan has room for");

/* A part's last size is 1 if the lines of the rows' operand are a multiple of `way` apart, else 0. */
enum { GEMM_PARTS = 18, GEMM_ALIASED = 3, GEMM_SIZES };

/* plan.c: the target that products on a device (NULL: the CPU) are chosen for. Of text that a device compiles, whose
 * work-items are tasks as threads have them: vectors and registers that any such device has, and what instructions take
 * on the host. */
void tg_gemm_target_of(const tg_context *c, const tg_device *d, tg_target *out);
/* plan.c: the problem that a descriptor describes; or an error, with a message. */
tg_status tg_gemm_problem_of(tg_context *c, const tg_gemm_desc *d, tg_gemm_problem *out);
enum { TG_GEMM_ELEMENTS = 1, TG_GEMM_NIBBLES = 2 };   /* formats of a packing */
/* pack.c: are the fields of the packing consistent, as tg_gemm_packing_choose makes them? */
bool tg_gemm_packing_valid(const tg_gemm_packing *p);

struct tg_gemm {
  tg_kit_plan plan;
  tg_gemm_problem problem;
  size_t packed;                         /* bytes of a packed B, where the problem has panels */
  tg_kit_dim ld[3];                     /* leading dimensions of A, B, C; lo 0: each call gives it */
  /* of a call that comes: sizes, leading dimensions; 0: unknown */
  int64_t likely[TG_GEMM_LIKELY];
  tg_kit_dim mostly[3];                 /* sizes that kernels are compared for; hi 0: all of the problem's */
  /* bytes: lines of an operand that are a multiple of this apart meet in one set of L1 */
  int64_t way;
  bool open;                             /* kernels are for all sizes of the plan, not for those of their part alone */
  bool whole;                            /* calls are not divided into pieces */
  uint32_t flags, parts_n;
  char *texts;                           /* the plan's copy of the problem's texts, of texts_n bytes */
  size_t texts_n;
  tg_kit_kernel nothing[GEMM_CASES];     /* kernels for k = 0 or alpha = 0, which read neither A nor B */
  tg_kit_kernel merge[GEMM_CASES];       /* they add up partial sums (pieces.c); some part divides the terms */
  tg_kit_part part[GEMM_PARTS];          /* their sizes: GEMM_M, GEMM_N, GEMM_K, GEMM_ALIASED */
};

/* A call in n pieces, numbered by rows, then columns, then terms: so many parts of each, of these sizes, the last of
 * the remainder. */
typedef struct tg_gemm_pieces { uint32_t n, parts[3]; int64_t size[3]; } tg_gemm_pieces;
/* pieces.c: those of a call with this m, n and k; terms: may sums be divided as well? */
tg_gemm_pieces tg_gemm_divide(const tg_gemm *g, const int64_t size[3], bool terms);
/* May the plan's calls be divided, and their sums? */
bool tg_gemm_has_pieces(const tg_gemm *g, const tg_gemm_problem *q);
bool tg_gemm_may_divide_terms(const tg_gemm *g, const tg_gemm_problem *q);
/* Is it a kernel of one thread? */
bool tg_gemm_is_alone(const tg_kit_choice *c);
/* Seconds that threads take beside computing the pieces: a launch, and the merging of partial sums. */
double tg_gemm_meeting(const tg_gemm *g, const tg_gemm_pieces *p, const int64_t size[3]);
/* Bytes of the partial sums of a call, and of any. */
size_t tg_gemm_partial(const tg_gemm *g, const tg_gemm_pieces *p, const int64_t size[3]);
size_t tg_gemm_partial_most(const tg_gemm *g);
/* The kernel that adds up partial sums, A[k,i,j], in the order of k, and does with the sum what the problem says. */
extern const tg_kernel_def *const tg_gemm_merge;
/* The problems of partial sums, and of their merging. */
tg_gemm_problem tg_gemm_partial_of(const tg_gemm_problem *q);
tg_gemm_problem tg_gemm_merge_of(const tg_gemm *g, const tg_gemm_problem *q);

/* plan.c: a plan whose calls are not divided into pieces, as functions made ahead of time cannot. */
tg_status tg_gemm_plan_whole(tg_context *c, const tg_gemm_desc *desc, size_t desc_bytes, tg_gemm **out);
/* plan.c, for tg_gemm_tune. tg_gemm_lay_out: makes a plan without kernels. tg_gemm_bind: writes the bindings that
 * kernels are compiled with, without knobs, to b (of GEMM_VALUES), and returns their number. tg_gemm_sketches_for:
 * makes a kernel of the problem of each sketch that takes it, the choice's first, and returns their number. */
enum { GEMM_SKETCHES = 16 };
tg_status tg_gemm_lay_out(tg_context *c, const tg_gemm_desc *d, tg_gemm *out);
const tg_kit_names *tg_gemm_names(const tg_gemm_problem *q);
uint32_t tg_gemm_bind(const tg_gemm *g, const tg_gemm_problem *q, tg_binding *b);
/* Values of a launch of these sizes, by ordinal; returns their number. ld: leading dimensions of A, B, C; NULL, or 0:
 * lines lie one behind another. */
uint32_t tg_gemm_params(const tg_gemm_problem *q, const int64_t size[3], const int64_t ld[3], const tg_binding *b,
                        uint32_t bindings_n, int64_t *params);
/* The leading dimensions of dense operands of these sizes. */
void tg_gemm_lines(const tg_gemm_problem *q, const int64_t size[3], int64_t ld[3]);
/* Copies the problem's texts, which may be the caller's, into the plan. */
tg_status tg_gemm_keep_texts(tg_gemm *g);
/* Compiles the part's kernels with its choice: neither with a tuned one, nor gemm_plain where that fails. */
tg_status tg_gemm_compile_part(tg_gemm *g, tg_kit_part *part);
/* run.c: reads a call of one product; size: its m, n and k; ld: its leading dimensions; the part that serves it. NULL:
 * it is not right, or there is none. */
const tg_kit_part *tg_gemm_part_of(const tg_gemm *g, const tg_gemm_call *c, int64_t size[3], int64_t ld[3]);
/* run.c: puts the call; out not NULL: as a step that the program does not have. */
struct tg_program_step;
tg_status tg_gemm_put_call(tg_program *program, const tg_gemm *g, tg_gemm_call *c, struct tg_program_step **out);
/* extend.c */
extern const struct tg_program_ends tg_gemm_ends;
/* What the kernels of a part compute. */
tg_gemm_problem tg_gemm_of_part(const tg_gemm *g, const tg_kit_part *part);
uint32_t tg_gemm_sketches_for(const tg_gemm *g, const tg_gemm_problem *q, const tg_kit_choice *choice, tg_gemm_def *def,
                              const tg_kernel_def **defs);

/* candidates.c: the cheapest kernel for q by the cost model; whole: the product that q is a strip of, or q itself. */
void tg_gemm_choose_kernel(const tg_gemm *g, const tg_gemm_problem *whole, const tg_gemm_problem *q, uint32_t threads,
                           tg_kit_choice *out);
/* The cheapest kernels for sizes that are open until the call, as parts; returns their number, TG_REGIONS at
 * most. */
uint32_t tg_gemm_choose_parts(const tg_gemm *g, const tg_gemm_problem *q, tg_kit_part *out);

/* tune.c: what tg_gemm_tune searches for a descriptor at given sizes: all sketches, that of the first choice first,
 * with their bindings, and the values of a launch. The struct has pointers into itself, so it must not be copied.
 * Sizes that the descriptor fixes may be given as 0. */
typedef struct tg_gemm_space {
  tg_gemm plan;
  tg_gemm_problem problem;
  int64_t size[3];                     /* m, n, k */
  const tg_kit_choice *choice;
  tg_gemm_def def[GEMM_SKETCHES];
  const tg_kernel_def *defs[GEMM_SKETCHES];
  uint32_t defs_n;
  tg_binding binding[GEMM_VALUES];
  uint32_t bindings_n;
  int64_t params[GEMM_VALUES];
  uint32_t params_n;
  /* number of strips of the product; `problem` is one of them, for one thread. 0: `problem` is the whole product */
  uint32_t strips;
} tg_gemm_space;
tg_status tg_gemm_space_of(tg_context *c, const tg_gemm_desc *d, int64_t m, int64_t n, int64_t k, tg_gemm_space *out);
#endif
