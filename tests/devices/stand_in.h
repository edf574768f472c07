/* SPDX-License-Identifier: MIT
 * A GPU that is not there: the stand-in for its driver's library (tests/cuda, tests/drm), over an interpreter of its
 * machine code, opened so that tg finds it by the library's name. */
#ifndef TG_TEST_STAND_IN_H
#define TG_TEST_STAND_IN_H
#include <stdbool.h>
#include <stdint.h>

/* A chip of this target ("sm_80", "gfx1100") is device *number from now on; what was there before is forgotten. Returns
 * its name ("cuda:0"); NULL: there is none, and a failure says why. program: argv[0], beside which the library lies. */
const char *stand_in_begin(const char *target, const char *program, uint64_t seed, uint32_t *number);
/* The next work that the device is given loses it. */
void stand_in_lose(void);
/* The call of the driver's with this number fails, from stand_in_begin on; codes differ. Call before the device is opened. */
void stand_in_fail(uint64_t call);
uint64_t stand_in_calls(void);   /* so far */
/* Behind the context's end: failures if objects are left, or if anything was done that no driver may do. lost: the
 * driver said that the device is lost, after which nobody waits for its work. */
void stand_in_end(bool lost);
/* The first such thing so far; "": none. */
const char *stand_in_fault(void);
#endif
