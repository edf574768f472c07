/* SPDX-License-Identifier: MIT
 * A plan of a product as a function of an object. */
#ifndef TG_AHEAD_PRODUCT_H
#define TG_AHEAD_PRODUCT_H
#include "compile/wrapper.h"
#include "gemm/plan.h"

/* g: the plan of each target, from contexts of compile/ahead.h. q: its problem, with all texts. number: of the function
 * in its object, below 1000. */
void tg_product_function(tg_wrapper *w, const tg_gemm *const *g, const tg_gemm_problem *q, const char *name,
                         uint32_t number, tg_str *header);
/* The function NAME_pack, which packs B for it. */
void tg_packing_function(tg_wrapper *w, const tg_gemm_packing *p, const char *name, tg_str *header);
#endif
