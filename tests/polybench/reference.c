/* SPDX-License-Identifier: MIT
 * One table of the plain C kernels. POLYBENCH_TABLE names it; POLYBENCH_MEDIUM chooses the suite's MEDIUM sizes.
 * The pointers are restrict, since tg's launches refuse buffers that overlap: the compiler knows as much as tg does. Each kernel is a
 * function of its own that the compiler may specialise for its sizes, which are constants. */
#include <math.h>
#include <string.h>
#include "polybench.h"

#ifdef POLYBENCH_MEDIUM
#define PICK(small, medium) medium
#else
#define PICK(small, medium) small
#endif
#define KERNEL static __attribute__((noinline)) void
#define EACH(i, n) for (int i = 0; i < (n); i++)
#define READ(T, n) {POLYBENCH_READ, T, n}
#define WRITTEN(T, n) {POLYBENCH_WRITTEN, T, n}
#define SCRATCH(T, n) {POLYBENCH_SCRATCH, T, n}

static inline double scalar(const void *p) { return *(const double *)p; }
static inline float scalar32(const void *p) { return *(const float *)p; }
static inline void put(void *p, double v) { *(double *)p = v; }

#include "linear.inc.h"
#include "solvers.inc.h"
#include "stencils.inc.h"

#define TEXT_(x) #x
#define TEXT(x) TEXT_(x)
#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)
#ifdef __clang__
const char JOIN(POLYBENCH_TABLE, _compiler)[] = "clang " TEXT(__clang_major__) "." TEXT(__clang_minor__);
#else
const char JOIN(POLYBENCH_TABLE, _compiler)[] = "gcc " TEXT(__GNUC__) "." TEXT(__GNUC_MINOR__);
#endif
const polybench_case POLYBENCH_TABLE[] = {LINEAR_CASES SOLVER_CASES STENCIL_CASES {.name = NULL}};
