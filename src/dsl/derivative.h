/* SPDX-License-Identifier: MIT
 * derivative(e, x) of the language. */
#ifndef TG_DERIVATIVE_H
#define TG_DERIVATIVE_H
#include "dsl/uop.h"

/* The derivative of e by x, both floats, of e's type. x is one node: wherever it stands in e, and in no other form; all
 * other values that e reads are constants, and so are integers and conditions, whatever they are computed from.
 * *none is set to the first node below e that depends on x and has no derivative, else to NULL; then the result means
 * nothing. e is in plain form (LOADs name their DEFINE). */
const tg_uop *tg_derivative(tg_job *j, const tg_uop *e, const tg_uop *x, const tg_uop **none);
/* May a node of this op lack one? */
bool tg_may_lack_derivative(const tg_uop *u);
#endif
