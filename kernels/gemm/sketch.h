/* SPDX-License-Identifier: MIT
 * What sketches share: words made of numbers, the roles of operands in a tile, and the values of knobs that the first choice picks from. */
#ifndef TG_GEMM_SKETCH_H
#define TG_GEMM_SKETCH_H
#include "gemm/template.h"

enum { GEMM_PLAIN, GEMM_PACKED, GEMM_PANEL };   /* in tg_gemm_sketches */

/* Values of knobs, ascending; 0 ends. */
extern const int64_t tg_gemm_mr[], tg_gemm_panel_kc[], tg_gemm_packed_kc[], tg_gemm_nb[], tg_gemm_mb[];
#endif
