/* SPDX-License-Identifier: MIT
 * A plan of attention as a function of an object. */
#ifndef TG_AHEAD_ATTENTION_H
#define TG_AHEAD_ATTENTION_H
#include "attention/plan.h"
#include "compile/wrapper.h"

/* a: the plan of each target, from contexts of compile/ahead.h. Fails with TG_ELIMIT for what functions lack. */
void tg_attention_function(tg_wrapper *w, const tg_attention *const *a, const char *name, uint32_t number,
                           tg_str *header);
#endif
