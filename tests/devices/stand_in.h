/* SPDX-License-Identifier: MIT
 * A GPU that is not there: the stand-in for its driver's library (tests/cuda, tests/drm), over an interpreter of its
 * machine code, opened so that tg finds it by the library's name. */
#ifndef TG_TEST_STAND_IN_H
#define TG_TEST_STAND_IN_H
#include <stdint.h>

/* A chip of this target ("sm_80", "gfx1100") is device *number from now on; what was there before is forgotten. Returns
 * its name ("cuda:0"); NULL: there is none, and a failure says why. program: argv[0], beside which the library lies. */
const char *stand_in_begin(const char *target, const char *program, uint64_t seed, uint32_t *number);
/* The next work that the device is given loses it. */
void stand_in_lose(void);
/* Behind the context's end: failures if objects are left, or if anything was done that no driver may do. */
void stand_in_end(void);
/* The first such thing so far; "": none. */
const char *stand_in_fault(void);
#endif
