/* SPDX-License-Identifier: MIT
 * Plain data that the problems of all operations consist of, and the choice of a kernel for a problem. */
#ifndef TG_KIT_PROBLEM_H
#define TG_KIT_PROBLEM_H
#include "base/base.h"
#include "prices/prices.h"
#include "tg/dsl.h"

typedef tg_span tg_kit_dim;   /* a size. lo == hi: fixed; else each launch gives a value from lo to hi */

/* An argument of an epilogue. per: TG_PER_ALL.. of tg/exec.h. */
typedef struct tg_kit_argument { const char *name; tg_type type; uint8_t per; } tg_kit_argument;

enum { TG_KIT_ARGUMENTS = 8, TG_KIT_KNOBS = 16 };

/* One of the kernels that an operation may use: a sketch, and values for its knobs by name. */
typedef struct tg_kit_choice {
  const tg_kernel_def *sketch;
  tg_binding knob[TG_KIT_KNOBS];
  uint32_t knobs_n;
} tg_kit_choice;

/* The value of the knob `name`; `otherwise` if the choice has no such knob. */
int64_t tg_kit_knob_of(const tg_kit_choice *c, const char *name, int64_t otherwise);
bool tg_kit_same_choice(const tg_kit_choice *a, const tg_kit_choice *b);
#endif
