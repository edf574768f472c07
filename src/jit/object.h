/* SPDX-License-Identifier: MIT
 * Objects (ELF, x86-64) as LLVM writes them: looked into and placed by our own reader. */
#ifndef TG_OBJECT_H
#define TG_OBJECT_H
#include "jit/jit.h"

/* The first symbol that the object does not define, or NULL. */
const char *tg_object_undefined(const void *object, size_t bytes);
/* gdb and perf (debug.c). The record that tg_debug_register gives goes to tg_debug_unregister. */
void *tg_debug_register(const tg_allocator *a, const void *object, size_t bytes, const uint64_t *section_address, uint32_t sections);
void tg_debug_unregister(const tg_allocator *a, void *record);
void tg_debug_perf_map(const void *code, size_t bytes, const char *name);
#endif
