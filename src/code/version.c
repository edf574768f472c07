/* SPDX-License-Identifier: MIT
 * The LLVM that this build of tg compiles with: part of the cache's key, so needed where no LLVM is. */
#include <llvm/Config/llvm-config.h>
#include "code/code.h"

const char *tg_llvm_version(void) { return LLVM_VERSION_STRING; }
