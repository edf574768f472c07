/* SPDX-License-Identifier: MIT
 * The choice among candidates: each a sketch with knobs, priced by the cost model, the cheapest kept for the next time
 * that the same question is asked. */
#ifndef TG_KIT_CHOOSE_H
#define TG_KIT_CHOOSE_H
#include "kit/plan.h"

enum { TG_KIT_CANDIDATES = 16 };

typedef struct tg_kit_candidate { const tg_kernel_def *def; tg_kit_choice choice; } tg_kit_candidate;

/* A knob that the choice may change, and its values in ascending order; 0 ends. Values that a sketch does not have are
 * passed over. */
typedef struct tg_kit_axis { const char *knob; const int64_t *values; } tg_kit_axis;

typedef struct tg_kit_question {
  const char *key;               /* all that the answer depends on beside the machine and tg itself, as text */
  const tg_kit_candidate *candidate;   /* the first is what is taken where prices tell nothing */
  uint32_t candidates_n;
  const tg_kit_axis *axis;       /* from the cheapest candidate on, its knobs are changed one at a time */
  uint32_t axes_n, prices;       /* prices: most candidates to price on that way */
  const tg_binding *binding;     /* of the kernels' parameters, without knobs */
  uint32_t bindings_n;
  const int64_t *params;         /* sizes and leading dimensions of the launch to price for, by ordinal */
  void *user;                    /* passed to the sketches' bodies */
  uint32_t threads;
  bool kept_only;                /* price nothing: what was kept, or the first */
} tg_kit_question;

/* The cheapest that was found. */
void tg_kit_choose(tg_context *c, const tg_kit_question *q, tg_kit_choice *out);
#endif
