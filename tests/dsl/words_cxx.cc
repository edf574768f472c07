/* SPDX-License-Identifier: MIT
 * The macros as C++. */
#define static_cast_to_int(p) (static_cast<const int *>(p))
#include "words.h"
extern "C" const tg_kernel_def *const words_of_cxx[3];
const tg_kernel_def *const words_of_cxx[3] = {&words_matmul, &words_values, &words_none};
