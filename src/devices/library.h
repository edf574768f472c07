/* SPDX-License-Identifier: MIT
 * For drivers: libraries that are opened at run time, when a device is requested. Nothing is linked. */
#ifndef TG_DEVICES_LIBRARY_H
#define TG_DEVICES_LIBRARY_H
#include "base/base.h"

/* at: where the function's address goes in the driver's struct of functions */
typedef struct tg_entry_point { const char *name; size_t at; bool optional; } tg_entry_point;

/* NULL: there is no such library. *missing: the first function it lacks that is not optional; else as it was. */
void *tg_library_open(const char *file, const tg_entry_point *, uint32_t n, void *functions, const char **missing);
#endif
