/* SPDX-License-Identifier: MIT
 * A plan: the kernels that calls choose among, and how the caller's words become their operands and parameters. */
#ifndef TG_GEMM_PLAN_H
#define TG_GEMM_PLAN_H
#include "gemm/template.h"
#include "kit/plan.h"
#include "tg/gemm.h"

/* Operands and values of a call, in the places that kernels' buffers and parameters are looked up in, by name. */
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

/* The cases of a part: C is not read, or is. */
enum { GEMM_FRESH, GEMM_UPDATE, GEMM_CASES };
_Static_assert((int)GEMM_OPERANDS <= (int)TG_KIT_OPERANDS && (int)GEMM_VALUES <= (int)TG_KIT_VALUES &&
                   (int)GEMM_CASES <= (int)TG_KIT_CASES,
               "more than a plan has room for");

enum { GEMM_PARTS = 18 };

/* plan.c: the problem that a descriptor says, or the error. */
tg_status tg_gemm_problem_of(tg_context *c, const tg_gemm_desc *d, tg_gemm_problem *out);
enum { TG_GEMM_ELEMENTS = 1, TG_GEMM_NIBBLES = 2 };   /* formats of a packing */
/* pack.c: made by tg_gemm_packing_choose, or as good. */
bool tg_gemm_packing_valid(const tg_gemm_packing *p);

struct tg_gemm {
  tg_kit_plan plan;
  tg_gemm_problem problem;
  size_t packed;                         /* bytes of a packed B, where the problem has panels */
  tg_kit_dim ld[3];                     /* of A, B, C; lo 0: any */
  uint32_t flags, parts_n;
  tg_kit_kernel nothing[GEMM_CASES];     /* for k = 0 or alpha = 0: neither A nor B is read */
  tg_kit_part part[GEMM_PARTS];          /* of sizes m, n, k */
};

/* plan.c, for tg_gemm_tune: a plan without kernels; what a kernel of it is compiled with beside knobs (b has room
 * for GEMM_VALUES); and all sketches as kernels of a problem, the choice's first. They return how many. */
enum { GEMM_SKETCHES = 16 };
tg_status tg_gemm_lay_out(tg_context *c, const tg_gemm_desc *d, tg_gemm *out);
uint32_t tg_gemm_bind(const tg_gemm *g, const tg_gemm_problem *q, tg_binding *b);
uint32_t tg_gemm_sketches_for(const tg_gemm *g, const tg_gemm_problem *q, const tg_kit_choice *choice, tg_gemm_def *def,
                              const tg_kernel_def **defs);

/* tune.c: what is searched for a descriptor at these sizes: all sketches, the first choice's first, what they are
 * bound to, and the values of a launch. It points into itself. Sizes that are fixed may be given as 0. */
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
  /* of which the problem is one, that one thread computes; 0: it is all of the product */
  uint32_t strips;
} tg_gemm_space;
tg_status tg_gemm_space_of(tg_context *c, const tg_gemm_desc *d, int64_t m, int64_t n, int64_t k, tg_gemm_space *out);
#endif
