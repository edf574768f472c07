/* SPDX-License-Identifier: MIT
 * A session of LLVM's ORC, which links objects that have just been compiled into this process. */
#ifndef TG_ORC_H
#define TG_ORC_H
#include "code/code.h"
#include "jit/llvm.h"

typedef struct tg_orc tg_orc;
/* Takes ownership of the target machine. Starts no thread. before: the session inherited over a fork that this one
 * replaces; NULL: none. */
tg_status tg_orc_open(tg_orc **out, const tg_allocator *a, LLVMTargetMachineRef machine, tg_orc *before, char *message,
                      size_t message_n);
/* Call after everything that it linked is unlinked. all: also closes the sessions that it replaced, which other threads
 * may still be reading until then. */
void tg_orc_close(tg_orc *, bool all);
/* Was it created before a fork? Then its locks may be held by threads that do not exist in this process. */
bool tg_orc_is_inherited(const tg_orc *);
/* The two functions of a tg_linker. */
tg_status tg_orc_link(tg_orc *, const void *object, size_t bytes, const char *const *names, uint32_t n,
                      void **addresses, void **linked, char *message, size_t message_n);
void tg_orc_unlink(const tg_allocator *a, void *linked);
#endif
