/* SPDX-License-Identifier: MIT
 * The sizes that a program is judged at whose parameters are open until the call. */
#ifndef TG_SIZES_H
#define TG_SIZES_H
#include "lower/lower.h"

/* Values of the parameters by ordinal: of the middle first, then of ends and corners. n 0: no parameter is open. */
enum { TG_SIZES = 5 };
typedef struct tg_sizes { uint32_t n; const int64_t *params[TG_SIZES]; } tg_sizes;

/* Lower ends as they are. Upper ends: as large that the program's buffers no longer fit the last cache; behind that
 * little changes. The middle is the geometric one. One open parameter: its ends and the middles of both halves; two:
 * the corners; more: of the corners four, so that each parameter has each of its ends twice. */
tg_sizes tg_sizes_of(tg_job *j, const tg_target *target, const tg_uop *program);
#endif
