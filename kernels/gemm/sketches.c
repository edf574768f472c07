/* SPDX-License-Identifier: MIT
 * The list of all sketches. The first choice is the first one whose function `first` returns true. */
#include "gemm/sketch.h"

#define ROW(name) &tg_gemm_##name,
const tg_gemm_sketch *const tg_gemm_sketches[] = {TG_GEMM_SKETCHES(ROW) NULL};
