/* SPDX-License-Identifier: MIT
 * All sketches, in the order in which they are asked whether they are the first choice. */
#include "gemm/sketch.h"

#define ROW(name) &tg_gemm_##name,
const tg_gemm_sketch *const tg_gemm_sketches[] = {TG_GEMM_SKETCHES(ROW) NULL};
