/* SPDX-License-Identifier: MIT
 * A bench that runs nothing: its times follow from the knobs of the candidate, and some knobs make it misbehave for real, in its own process. */
#ifndef TG_TEST_FAKE_H
#define TG_TEST_FAKE_H
#include "search/search.h"

/* What the knob P of a candidate does. */
enum { GOOD, CRASH_LOWER, CRASH_BUILD, CRASH_TIME, HANG_LOWER, HANG_BUILD, HANG_TIME, ENDS, SCRIBBLES, WRITES_WILDLY, WRONG, LIES, SPILLS, EATS_MEMORY, FAILS, CRASH_CHECKS, WRONG_CHECKS, WRONG_BEYOND, SLOW_BEYOND, LATE, BEHAVIOURS };

/* S: of two sizes the best are 5 and 3; noise: of each sample, relative. */
const tg_bench *fake_bench(double noise);
extern const char fake_text[];          /* kernel with knobs P, S, T */
extern const char fake_part[];          /* likewise, of R rows: what is wrong or slow beyond a part is so where there are more than FAKE_PART */
enum { FAKE_PART = 8 };
double fake_seconds(const char *text);  /* true ones */
#endif
