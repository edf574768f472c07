/* SPDX-License-Identifier: MIT
 * A session of LLVM's ORC: what has just been compiled, linked into this process. */
#ifndef TG_ORC_H
#define TG_ORC_H
#include "code/code.h"
#include "jit/llvm.h"

typedef struct tg_orc tg_orc;
/* Takes the machine over. Starts no thread. before: the one inherited over a fork that this one stands in for, or
 * NULL. */
tg_status tg_orc_open(tg_orc **out, const tg_allocator *a, LLVMTargetMachineRef machine, tg_orc *before, char *message,
                      size_t message_n);
/* After all that it linked is unlinked. With those before it, which other threads may be looking at until then, or
 * alone. */
void tg_orc_close(tg_orc *, bool all);
bool tg_orc_is_inherited(const tg_orc *);   /* over a fork: its locks may be held by threads that are not here */
/* As tg_linker has it. */
tg_status tg_orc_link(tg_orc *, const void *object, size_t bytes, const char *const *names, uint32_t n,
                      void **addresses, void **linked, char *message, size_t message_n);
void tg_orc_unlink(const tg_allocator *a, void *linked);
#endif
