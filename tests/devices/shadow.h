/* SPDX-License-Identifier: MIT
 * A device whose work is checked: what each launch and each replay of a graph leaves in memory is compared, bit for bit,
 * with what the interpreter makes of the same programs, at stage linear, from the same memory. It stands between tg and
 * the device's driver, so that a test of plans or of queues needs nothing of its own to have all its kernels checked. */
#ifndef TG_TEST_SHADOW_H
#define TG_TEST_SHADOW_H
#include "api/api.h"

/* From now on, for kernels that this context compiles for this device; one device at a time, used by one thread.
 * Differences are failures of the test, with `name`. */
void shadow_begin(tg_context *c, tg_device *d, const char *name);
/* Before the context is closed. Returns how many launches were compared. */
long shadow_end(void);
#endif
