/* SPDX-License-Identifier: MIT
 * The version of LLVM that this build of tg compiles with. It is part of the cache's key, so a build without LLVM needs
 * it too. */
#include <llvm/Config/llvm-config.h>
#include "code/code.h"

const char *tg_llvm_version(void) { return LLVM_VERSION_STRING; }
