/* SPDX-License-Identifier: MIT */
#ifndef TG_LOWER_LOOKUP_H
#define TG_LOWER_LOOKUP_H
#include "lower/lower.h"
/* The conversion `cast`, with `value` as its new source, as a table look-up (a SHUFFLE of constants); NULL: it is
 * not of that form, or the target has no instruction for it. */
const tg_uop *tg_lookup(tg_job *j, const tg_target *t, const tg_uop *cast, const tg_uop *value);
#endif
