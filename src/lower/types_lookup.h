/* SPDX-License-Identifier: MIT */
#ifndef TG_LOWER_LOOKUP_H
#define TG_LOWER_LOOKUP_H
#include "lower/lower.h"
/* A conversion of this value (the sources of `cast` as they are by now) as a look-up; NULL: it is none, or the
 * target has no instruction for it. */
const tg_uop *tg_lookup(tg_job *j, const tg_target *t, const tg_uop *cast, const tg_uop *value);
#endif
