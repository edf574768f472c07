/* SPDX-License-Identifier: MIT
 * Pass functions: replaces each function that the language defines in itself by its definition, for operands of any
 * width. Leaves no RSQRT, EXP, EXP2, LOG, LOG2, SIN, COS, TANH, ERF or POW. */
#include "dsl/functions.h"
#include "lower/lower.h"

static const tg_uop *expand(tg_job *j, const tg_uop *old, const tg_uop *const *src, void *user) {
  (void)user;
  return tg_is_function(old->op) ? tg_function_expand(j, old->op, old->type, src) : NULL;
}

const tg_uop *tg_pass_functions(tg_job *j, const tg_lowering *l, const tg_uop *sink) {
  (void)l;
  return tg_map(j, sink, expand, NULL, NULL);
}
