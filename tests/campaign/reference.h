/* SPDX-License-Identifier: MIT
 * How the plain C of a family is written: KERNEL(name) { SIZE(N, 0); ARRAY(real, a, 0); .. }. Compiled twice, with
 * CAMPAIGN_REAL as float and as double. Integers wrap, as the language's do: these files are compiled with -fwrapv.
 * */
#ifndef TG_CAMPAIGN_REFERENCE_H
#define TG_CAMPAIGN_REFERENCE_H
#include <math.h>
#include <string.h>
#include "campaign.h"

typedef CAMPAIGN_REAL real;

#define KERNEL(name) static void name(const int64_t *size_, void *const *buffer_)
#define SIZE(name, i) const int name = (int)size_[i]; (void)name
#define ARRAY(type, name, i) type *name = buffer_[i]
#define TABLE(type, name, i, columns) type(*name)[columns] = buffer_[i]                 /* name[row][column] */
#define CUBE(type, name, i, rows, columns) type(*name)[rows][columns] = buffer_[i]
#define EACH(i, n) for (int i = 0; i < (n); i++)

#define JOIN_(a, b, c) a##b##c
#define JOIN(a, b, c) JOIN_(a, b, c)
#define FAMILY(name) const campaign_entry JOIN(campaign_##name, _, CAMPAIGN_REAL)[]
#define EXACT(name) {#name, name, false, CAMPAIGN_WHOLE, 0}
#define SMALL(name, most) {#name, name, false, CAMPAIGN_WHOLE, most}                    /* where products grow */
#define BYTES(name) {#name, name, false, CAMPAIGN_FULL, 0}
#define ROUNDS(name, fill) \
  { #name, name, true, CAMPAIGN_##fill, 0 } /* results of f64 are compared bit for bit even here */

#define END {NULL, NULL, false, CAMPAIGN_WHOLE, 0}

static inline int imin(int a, int b) { return a < b ? a : b; }
static inline int imax(int a, int b) { return a > b ? a : b; }
static inline real rmax(real a, real b) { return a > b ? a : b; }
static inline real rmin(real a, real b) { return a < b ? a : b; }
static inline real rabs(real a) { return a < 0 ? -a : a; }
/* The language's division: towards minus infinity, 0 by 0. */
static inline int fdiv(int a, int b) { return b == 0 ? 0 : a / b - (a % b != 0 && (a < 0) != (b < 0)); }
static inline int fmod_(int a, int b) { return b == 0 ? 0 : a - fdiv(a, b) * b; }
/* Of float or double, as real is. */
#define R1(g, x) ((real)(sizeof(real) == 4 ? g##f((float)(x)) : g((double)(x))))
#endif
