/* SPDX-License-Identifier: MIT
 * The functions that the language defines in itself: RSQRT, EXP, EXP2, LOG, LOG2, SIN, COS, TANH, ERF, POW, and those
 * that a target may compute by an instruction of its own within a bound: FAST_EXP2, FAST_RCP, FAST_RSQRT, FAST_TANH. */
#ifndef TG_FUNCTIONS_H
#define TG_FUNCTIONS_H
#include "dsl/uop.h"

static inline bool tg_is_fast(tg_op op) { return op >= TG_OP_FAST_EXP2 && op <= TG_OP_FAST_TANH; }
static inline bool tg_is_function(tg_op op) { return (op >= TG_OP_RSQRT && op <= TG_OP_POW) || tg_is_fast(op); }

/* The expression over ARG 0 (and ARG 1 for POW) of the type which defines op; parsed once a job. NULL if op is not
 * defined in the language, or not on that type. Its ops are exact or rounded once, and none is a function. */
const tg_uop *tg_function_definition(tg_job *j, tg_op op, tg_type type);
/* The definition over operands of any width. */
const tg_uop *tg_function_expand(tg_job *j, tg_op op, tg_type type, const tg_uop *const *operands);
/* f16(op(x)) of an x in f32, the same bits with fewer steps; NULL: there is no such definition. */
const tg_uop *tg_function_to_half(tg_job *j, tg_op op, const tg_uop *x);
#endif
