/* SPDX-License-Identifier: MIT
 * What stands for libtg_llvm.so.0 of another build: a table that says so (tests/library/opened.c). */
#include "jit/jit.h"

__attribute__((visibility("default"))) const tg_generator *tg_llvm_generator(void) {
  static const tg_generator other = {.build = "0123456789abcdef0123456789abcdef"};
  return &other;
}
