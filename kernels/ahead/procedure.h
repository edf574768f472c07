/* SPDX-License-Identifier: MIT
 * Procedures of a function that is built ahead of time, from text in a part of C:
 *
 *   static const char text[] = TG_PROCEDURE(
 *     sum_of(list, n) {
 *       sum = 0;
 *       for (i = 0; i < n; i += 1) if (i32(list, i) > LEAST) sum += i32(list, i);
 *       return sum;
 *     });
 *
 * All values are words of 64 bits: signed numbers, or addresses. A name that is assigned is a variable of its
 * procedure; names of the table of constants are numbers, and a condition that is one leaves its other branch out.
 * Statements: x = e, x += e, p[i] = e, if, for, return, calls, blocks. Expressions: those of C without side effects, in
 * which && and || compute both sides; a ? b : c computes one. p[i] is word i from address p on, i32(p, i) and u8(p, i)
 * are elements of 32 and of 8 bits (which may be assigned likewise). min(a, b), max(a, b), up(a, b): a / b rounded up;
 * room(n): n words of the procedure; copy(to, from, n), zero(to, n): n bytes, a constant number of them. A call of
 * another name is one of a procedure, of this text or of others with the same suffix. */
#ifndef TG_AHEAD_PROCEDURE_H
#define TG_AHEAD_PROCEDURE_H
#include "compile/wrapper.h"

#define TG_PROCEDURE(...) #__VA_ARGS__
typedef struct tg_procedure_constant { const char *name; int64_t value; } tg_procedure_constant;

/* Writes i64 @NAME<suffix>(i64, ..) for each procedure of the text. A mistake in it is a bug of ours. */
void tg_procedures(tg_wrapper *w, const char *text, const tg_procedure_constant *constants, uint32_t n,
                   const char *suffix);
#endif
