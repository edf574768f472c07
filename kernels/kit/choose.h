/* SPDX-License-Identifier: MIT
 * The choice among candidates: each a sketch with knobs, priced by the cost model at one or some launches. Where the
 * sizes of launches vary, several kernels may be taken, each for a region of sizes. What was taken is kept for the next
 * time that the same question is asked. */
#ifndef TG_KIT_CHOOSE_H
#define TG_KIT_CHOOSE_H
#include "kit/plan.h"
#include "prices/prices.h"

enum { TG_KIT_CANDIDATES = 16 };

typedef struct tg_kit_candidate { const tg_kernel_def *def; tg_kit_choice choice; } tg_kit_candidate;

/* A knob that the choice may change, and its values in ascending order; 0 ends. Values that a sketch does not have are
 * passed over. */
typedef struct tg_kit_axis { const char *knob; const int64_t *values; } tg_kit_axis;

/* A launch to price for: its sizes, as regions have them, and the kernels' parameters by ordinal. piece: of one of the
 * `pieces` that threads compute side by side, for kernels of one thread; beside: seconds that all threads take beside
 * that, [0] for kernels that they share, [1] for pieces. */
typedef struct tg_kit_priced {
  int64_t size[TG_REGION_SIZES], params[TG_KIT_VALUES], piece[TG_KIT_VALUES];
  uint32_t pieces;
  double beside[2];
} tg_kit_priced;

/* Sizes from lo to hi in each dimension, and the choice for them. */
typedef struct tg_kit_region { tg_span size[TG_REGION_SIZES]; tg_kit_choice choice; } tg_kit_region;

typedef struct tg_kit_question {
  const char *key;               /* all that the answer depends on beside the machine and tg itself, as text */
  /* a key without what is only likely: where nothing can be priced, the last answer to any such question serves. NULL:
   * there is none */
  const char *any;
  const tg_kit_candidate *candidate;   /* the first is what is taken where prices tell nothing */
  uint32_t candidates_n;
  const tg_kit_axis *axis;       /* from the cheapest candidate on, its knobs are changed one at a time */
  uint32_t axes_n, prices;       /* prices: most candidates to price on that way */
  bool (*fits)(const tg_target *t, const tg_kit_choice *c);   /* may a candidate on that way be priced? NULL: any */
  /* The logarithm of the least seconds that a candidate may take, summed over the launches by their weights, in closed
   * form; NULL: none is known. Where one choice is taken for all sizes, what cannot be below the least price so far is
   * not lowered. */
  double (*least)(void *of, const tg_kit_choice *c);
  void *of;
  const tg_binding *binding;     /* of the kernels' parameters, without knobs */
  uint32_t bindings_n;
  const tg_kit_priced *launch;   /* one at least, TG_PRICED at most */
  uint32_t launches_n;
  uint32_t likely;               /* as in tg_price_question */
  tg_span whole[TG_REGION_SIZES];   /* all sizes, which regions divide */
  uint32_t regions;              /* most regions; 0 or 1: one choice for all sizes */
  void *user;                    /* passed to the sketches' bodies */
  uint32_t threads;
  /* Is this choice a kernel of one thread, whose launches are divided into pieces? NULL: none is. */
  bool (*alone)(const tg_kit_choice *c);
  const int *cancel;             /* as in tg_compile_options: an answer that it cut short is not kept */
  bool kept_only;                /* price nothing: what was kept, or the first */
} tg_kit_question;

/* The cheapest that were found, and their number: one for all sizes if it is about as cheap as any other at each
 * launch; else regions that have no size in common, and that have all sizes together. */
uint32_t tg_kit_choose(tg_context *c, const tg_kit_question *q, tg_kit_region out[TG_REGIONS]);

/* Will the answer be the first candidate, whatever others there are, since nothing is kept for the question's keys and
 * nothing can be priced (no compiler, or kept_only)? */
bool tg_kit_takes_first(tg_context *c, const tg_kit_question *q);
#endif
