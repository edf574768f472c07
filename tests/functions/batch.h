/* SPDX-License-Identifier: MIT
 * Expressions over ARG, evaluated for many points at once with the C compiler's own arithmetic: a second opinion on dsl/value.h.
 * f32 is held as float, f64 as double, integers wrapped to 64 bits, the smaller floats as their bits. */
#ifndef TG_TESTS_BATCH_H
#define TG_TESTS_BATCH_H
#include "dsl/uop.h"

enum { BATCH = 256 };
typedef union { float f; double d; int64_t i; uint64_t u; } batch_value;

typedef struct { const tg_uop *root, **order; batch_value **at; uint32_t n; } batch_program;
batch_program batch_prepare(tg_job *j, const tg_uop *root);
/* args[position][point], n <= BATCH points. NULL if a node has no meaning here. Valid until the next run. */
const batch_value *batch_run(const batch_program *b, const batch_value *const *args, int n);

/* The small floats, apart from the library: value of bits, and nearest (ties to even) to a double, as bits. */
double batch_decode(tg_type t, uint32_t bits);
uint32_t batch_encode(tg_type t, double v);
#endif
