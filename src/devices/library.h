/* SPDX-License-Identifier: MIT
 * For drivers: libraries that are opened at run time, when a device is requested. Nothing is linked. */
#ifndef TG_DEVICES_LIBRARY_H
#define TG_DEVICES_LIBRARY_H
#include "base/base.h"

/* at: where the function's address goes in the driver's struct of functions */
typedef struct tg_entry_point { const char *name; size_t at; bool optional; } tg_entry_point;

/* NULL: there is no such library. stays: it has threads that run on after it is closed, so it is never unloaded.
 * *missing: the first function it lacks that is not optional; else as it was. */
void *tg_library_open(const char *file, bool stays, const tg_entry_point *, uint32_t n, void *functions,
                      const char **missing);
#endif
