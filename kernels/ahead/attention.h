/* SPDX-License-Identifier: MIT
 * A plan of attention as a function of an object. */
#ifndef TG_AHEAD_ATTENTION_H
#define TG_AHEAD_ATTENTION_H
#include "attention/call.h"
#include "compile/wrapper.h"

/* a: the plan of each target, from contexts of compile/ahead.h; d: their descriptor. Fails with TG_ELIMIT for what
 * functions lack. */
void tg_attention_function(tg_wrapper *w, const tg_attention *const *a, const tg_attention_desc *d, const char *name,
                           uint32_t number, tg_str *header);

/* attention_merge.c. NAME_merge, of plans that have LSE without sinks; it changes what the wrapper is writing. */
void tg_attention_merge_function(tg_wrapper *w, const tg_attention *const *a, const char *name, tg_str *header);

/* attention_text.c: how a call is divided, what is checked of it, operands and values of kernels, and the pieces of its
 * rounds: append, find, run, merge; of gradients run, merge. */
extern const char tg_attention_division[], tg_attention_checks[], tg_attention_gathering[], tg_attention_forward[],
    tg_attention_gradients[];
#endif
