/* SPDX-License-Identifier: MIT
 * The value of an op on scalars: what the folder, the interpreter and the tests of rules compute with.
 * Integers are held wrapped to their type (INDEX in 128 bits), floats as doubles rounded to their type. */
#ifndef TG_VALUE_H
#define TG_VALUE_H
#include "dsl/uop.h"

typedef union { tg_i128 i; double f; } tg_value;

/* Arithmetic on indices has no width, but shifts need one: by this much or more they give 0 or the sign. 1 << 62 is the
 * largest power of two that the machine's integers hold. */
enum { TG_INDEX_WIDTH = 63 };

tg_i128 tg_floor_div(tg_i128 a, tg_i128 b);   /* x / 0 = 0 */
tg_i128 tg_floor_mod(tg_i128 a, tg_i128 b);   /* x % 0 = 0; the sign of b */
tg_i128 tg_wrap(tg_type t, tg_i128 v);        /* to an integer type or bool; INDEX unchanged */
/* to a float type, to nearest even; e4m3 saturates, e5m2 overflows to inf */
double tg_round_to(tg_type t, double v);

/* False where the table has no meaning (exp and its kin, REDUCE, LOAD, ..) or where INDEX passes 128 bits.
 * type: of the result; from: of the operands (the last operand's, for WHERE). */
bool tg_evaluate(tg_op op, tg_type type, tg_type from, const tg_value *operands, tg_value *result);
bool tg_convert(tg_type to, tg_type from, tg_value v, tg_value *result);      /* CAST */
bool tg_reinterpret(tg_type to, tg_type from, tg_value v, tg_value *result);  /* BITCAST, equal widths */

tg_value tg_value_of(const tg_uop *constant);
const tg_uop *tg_const_of(tg_job *j, tg_type t, tg_value v);   /* INDEX beyond 64 bits: NULL */
uint64_t tg_value_bits(tg_type t, tg_value v);                 /* as stored */
tg_value tg_value_from_bits(tg_type t, uint64_t bits);
#endif
