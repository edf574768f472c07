/* SPDX-License-Identifier: MIT
 * What the problems of operations are made of, and what a choice for one is, as plain data. */
#ifndef TG_KIT_PROBLEM_H
#define TG_KIT_PROBLEM_H
#include "base/base.h"
#include "tg/dsl.h"

typedef struct tg_kit_dim {
  int64_t lo, hi;
} tg_kit_dim; /* lo == hi: fixed; else any value in between, at each launch */

static inline bool tg_kit_has(tg_kit_dim d, int64_t x) { return x >= d.lo && x <= d.hi; }

/* An argument of an epilogue. per: 0 one value, 1 a row's, 2 a column's, 3 an element's (TG_PER_ALL.. of tg/gemm.h). */
typedef struct tg_kit_argument { const char *name; tg_type type; uint8_t per; } tg_kit_argument;

enum { TG_KIT_ARGUMENTS = 8, TG_KIT_KNOBS = 16 };

/* A point of the space of an operation's kernels: a sketch and values for its knobs, by name. */
typedef struct tg_kit_choice {
  const tg_kernel_def *sketch;
  tg_binding knob[TG_KIT_KNOBS];
  uint32_t knobs_n;
} tg_kit_choice;

/* The value of a knob; otherwise, if the choice has none of this name. */
int64_t tg_kit_knob_of(const tg_kit_choice *c, const char *name, int64_t otherwise);
bool tg_kit_same_choice(const tg_kit_choice *a, const tg_kit_choice *b);
#endif
