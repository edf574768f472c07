/* SPDX-License-Identifier: MIT
 * The functions that the language defines in itself: RSQRT, EXP, EXP2, LOG, LOG2, SIN, COS, TANH, ERF, POW. */
#ifndef TG_FUNCTIONS_H
#define TG_FUNCTIONS_H
#include "dsl/uop.h"

static inline bool tg_is_function(tg_op op) { return op >= TG_OP_RSQRT && op <= TG_OP_POW; }

/* The expression over ARG 0 (and ARG 1 for POW) of the type which defines op; parsed once a job. NULL if op is not
 * defined in the language, or not on that type. Its ops are exact or rounded once, and none is a function. */
const tg_uop *tg_function_definition(tg_job *j, tg_op op, tg_type type);
/* The definition over operands of any width. */
const tg_uop *tg_function_expand(tg_job *j, tg_op op, tg_type type, const tg_uop *const *operands);
#endif
