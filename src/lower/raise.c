/* SPDX-License-Identifier: MIT
 * Raising: what an author wrote with registers and loops becomes expressions and reductions, the form that schedules work on.
 * Needs a proved program; leaves one simplified. */
#include "lower/lower.h"

const tg_uop *tg_pass_raise(tg_job *j, const tg_lowering *l, const tg_uop *sink) { return tg_simplify(j, l->rules, sink); }
