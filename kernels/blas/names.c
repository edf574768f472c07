/* SPDX-License-Identifier: MIT
 * Entry points of the BLAS front: sgemm and dgemm for Fortran and C, under each name that BLAS libraries give them.
 * Arguments are checked as in the reference BLAS and in its order; errors go to the xerbla with the same prefix and
 * suffix. The name tells the width of integers: plain names have 32 bits, names with 64_ or _64 have 64; scipy_ is the
 * prefix of the OpenBLAS in PyPI's NumPy and SciPy.
 *
 * A product for which tg has no kernel goes to "the library below", the one that the caller would have called without
 * this one.
 *   TG_BLAS_VERBOSE   lines to stderr: at load, at the first call of each entry point, counts at the end */
#define _GNU_SOURCE
#include <ctype.h>
#include <dlfcn.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/base.h"
#include "blas/front.h"

#define EXPORT __attribute__((visibility("default")))

/* prefix, suffix in Fortran and in C, integer. LAPACK's own API of 64 bits has _64 in C. */
#define CONVENTIONS(X)          \
  X(, _, , int)                 \
  X(, _64_, 64_, int64_t)       \
  X(scipy_, _, , int)           \
  X(scipy_, _64_, 64_, int64_t)
#define C_ALONE(X) X(, _64_, _64, int64_t)

/* These belong to the program or to another BLAS library. The first two tell the reference's xerbla_ whether the caller
 * used C, and whether with row-major matrices. */
extern int CBLAS_CallFromC __attribute__((weak)), RowMajorStrg __attribute__((weak));
typedef void report_narrow(const char *name, const int *info, size_t name_n);
typedef void report_wide(const char *name, const int64_t *info, size_t name_n);
typedef void report_c_narrow(int info, const char *name, const char *format, ...);
typedef void report_c_wide(int64_t info, const char *name, const char *format, ...);
extern report_narrow xerbla_ __attribute__((weak));
extern report_c_narrow cblas_xerbla __attribute__((weak));

/* ---- table of the entry points ---- */

typedef struct {
  const char *name;
  bool wide_integers, c;
  const char *xerbla, *cblas_xerbla;
  atomic_llong calls, by_tg;   /* counted under TG_BLAS_VERBOSE */
  _Atomic(void *) below;
} entry;

#define FORTRAN_ENTRY(P, F, C, I)                                                                      \
  {.name = #P "sgemm" #F, .wide_integers = sizeof(I) > 4, .xerbla = #P "xerbla" #F},                   \
  {.name = #P "dgemm" #F, .wide_integers = sizeof(I) > 4, .xerbla = #P "xerbla" #F},
#define C_ENTRY(P, F, C, I)                                                                            \
  {.name = #P "cblas_sgemm" #C, .wide_integers = sizeof(I) > 4, .c = true, .xerbla = #P "xerbla" #F,   \
   .cblas_xerbla = #P "cblas_xerbla" #C},                                                              \
  {.name = #P "cblas_dgemm" #C, .wide_integers = sizeof(I) > 4, .c = true, .xerbla = #P "xerbla" #F,   \
   .cblas_xerbla = #P "cblas_xerbla" #C},
#define FORTRAN_INDEX(P, F, C, I) AT_##P##sgemm##F, AT_##P##dgemm##F,
#define C_INDEX(P, F, C, I) AT_##P##cblas_sgemm##C, AT_##P##cblas_dgemm##C,

static entry entries[] = {CONVENTIONS(FORTRAN_ENTRY) CONVENTIONS(C_ENTRY) C_ALONE(C_ENTRY)};
enum { CONVENTIONS(FORTRAN_INDEX) CONVENTIONS(C_INDEX) C_ALONE(C_INDEX) ENTRIES };
_Static_assert(sizeof entries / sizeof *entries == ENTRIES, "an index for each");

/* One call: its entry point and its caller. */
typedef struct {
  entry *at;
  const void *caller;          /* an address in the calling code */
  bool wide;                   /* true: f64; false: f32 */
  enum { FORTRAN, C_COLUMNS, C_ROWS } from;
} call;

/* ---- the library below ---- */

static bool is_ours(const void *p) {
  Dl_info here, there;
  return dladdr(entries, &here) && dladdr(p, &there) && here.dli_fbase == there.dli_fbase;
}

static const char *file_of(const void *p) {
  Dl_info i;
  return p && dladdr(p, &i) && i.dli_fname ? i.dli_fname : "?";
}

static void *others(void *found) { return found && !is_ours(found) ? found : NULL; }

/* Finds the symbol that the caller would have without this library: first in the global scope after this library, then
 * in the dependencies of the caller's own library (Python opens a module with its BLAS in a local scope), then in the
 * whole global scope. */
static void *behind(const char *name, const void *caller) {
  Dl_info i;
  void *found = others(dlsym(RTLD_NEXT, name)), *library = NULL;
  if (!found && caller && dladdr(caller, &i) && i.dli_fname) library = dlopen(i.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
  if (library) {
    found = others(dlsym(library, name));
    dlclose(library);   /* it stays loaded, since its code is the caller */
  }
  return found ? found : others(dlsym(RTLD_DEFAULT, name));
}

static void *below(const call *c) {
  void *found = atomic_load_explicit(&c->at->below, memory_order_acquire);
  if (found) return found;
  found = behind(c->at->name, c->caller);
  if (found) atomic_store_explicit(&c->at->below, found, memory_order_release);
  return found;
}

/* ---- messages ---- */

static bool verbose;

/* One write per line, since stderr may be a file to which other processes write. Errors are ignored: the file may be
 * unable to grow. */
void tg_blas_say(const char *format, ...) {
  char line[1024] = "tg_blas: ";
  size_t start = strlen(line);
  va_list ap;
  if (!verbose) return;
  va_start(ap, format);
  int n = vsnprintf(line + start, sizeof line - start - 1, format, ap);
  va_end(ap);
  if (n < 0) return;
  size_t length = strlen(line);
  for (size_t i = 0; i < length; i++)
    if (iscntrl((unsigned char)line[i])) line[i] = '?';   /* names of files may have control characters */
  line[length] = '\n';
  tg_write_all(STDERR_FILENO, line, length + 1);
}

__attribute__((constructor)) static void loaded(void) {
  const char *wish = getenv("TG_BLAS_VERBOSE");
  verbose = wish && *wish && strcmp(wish, "0") != 0;
  if (!verbose) return;
  void *next = dlsym(RTLD_NEXT, "sgemm_");
  if (!next) next = dlsym(RTLD_NEXT, "cblas_sgemm");
  if (next) tg_blas_say("%s is loaded; below it is %s", file_of(entries), file_of(next));
  else tg_blas_say("%s is loaded; no BLAS is below it yet", file_of(entries));
}

__attribute__((destructor)) static void ended(void) {
  for (int e = 0; verbose && e < ENTRIES; e++) {
    long long calls = atomic_load(&entries[e].calls), by_tg = atomic_load(&entries[e].by_tg);
    if (calls) tg_blas_say("[%ld] %s: %lld calls, %lld computed by tg", (long)getpid(), entries[e].name, calls, by_tg);
  }
}

typedef enum { BY_TG, BY_BELOW, BY_LOOPS, REFUSED } outcome;

static void told(const call *c, const tg_blas_product *p, outcome how) {
  if (how == BY_TG) atomic_fetch_add(&c->at->by_tg, 1);
  if (atomic_fetch_add(&c->at->calls, 1)) return;
  void *other = below(c);
  const char *by = how == BY_TG      ? "tg"
                   : how == BY_BELOW ? "the library below"
                   : how == BY_LOOPS ? "plain loops"
                                     : "nobody: a wrong argument";
  tg_blas_say("%s, called by %s: first %c%c %lld x %lld x %lld, computed by %s; below is %s", c->at->name,
              file_of(c->caller), p->ta ? 'T' : 'N', p->tb ? 'T' : 'N', (long long)p->m, (long long)p->n,
              (long long)p->k, by, other ? file_of(other) : "nothing");
}

/* ---- checks, in the reference's order ---- */

static int transposed(char c) {
  switch (c) {
  case 'N': case 'n': return 0;
  case 'T': case 't': case 'C': case 'c': return 1;
  default: return -1;
  }
}

static void report(const call *c, int info) {
  const char *name = c->wide ? "DGEMM " : "SGEMM ";
  bool plain = !strcmp(c->at->xerbla, "xerbla_");
  void *to = plain ? (void *)xerbla_ : NULL;
  if (!to) to = dlsym(RTLD_DEFAULT, c->at->xerbla);
  if (!to) to = behind(c->at->xerbla, c->caller);
  if (plain && &CBLAS_CallFromC) CBLAS_CallFromC = c->from != FORTRAN;
  if (plain && &RowMajorStrg) RowMajorStrg = c->from == C_ROWS;
  if (!to) fprintf(stderr, " ** On entry to %s parameter number %2d had an illegal value\n", name, info);
  else if (c->at->wide_integers) ((report_wide *)to)(name, &(int64_t){info}, 6);
  else ((report_narrow *)to)(name, &info, 6);
  if (plain && &CBLAS_CallFromC) CBLAS_CallFromC = 0;
  if (plain && &RowMajorStrg) RowMajorStrg = 0;
}

static void report_c(const call *c, int info, const char *format, int value) {
  const char *name = c->wide ? "cblas_dgemm" : "cblas_sgemm";
  void *to = !strcmp(c->at->cblas_xerbla, "cblas_xerbla") ? (void *)cblas_xerbla : NULL;
  if (!to) to = dlsym(RTLD_DEFAULT, c->at->cblas_xerbla);
  if (!to) to = behind(c->at->cblas_xerbla, c->caller);
  if (!to) {
    fprintf(stderr, "Parameter %d to routine %s was incorrect\n", info, name);
    fprintf(stderr, format, value);
  } else if (c->at->wide_integers) ((report_c_wide *)to)(info, name, format, value);
  else ((report_c_narrow *)to)(info, name, format, value);
}

static int64_t most(int64_t a, int64_t b) { return a > b ? a : b; }

/* Number of the first wrong argument, in Fortran's order; 0: all are right. */
static int wrong(int ta, int tb, const tg_blas_product *p) {
  return ta < 0 ? 1 : tb < 0 ? 2 : p->m < 0 ? 3 : p->n < 0 ? 4 : p->k < 0 ? 5 : p->lda < most(1, ta ? p->k : p->m) ? 8
       : p->ldb < most(1, tb ? p->n : p->k) ? 10 : p->ldc < most(1, p->m) ? 13 : 0;
}

/* Checks and computes; ta, tb: is the operand transposed, or -1. BY_BELOW: the entry point must call below(c) with the
 * caller's arguments. */
static outcome gemm(const call *c, int ta, int tb, tg_blas_product *p) {
  int info = wrong(ta, tb, p);
  p->ta = ta > 0, p->tb = tb > 0;
  outcome how = REFUSED;
  if (info) report(c, info);
  else if (tg_blas_compute(p)) how = BY_TG;
  else if (below(c)) how = BY_BELOW;
  else {
    tg_blas_loops(p);
    how = BY_LOOPS;
  }
  if (verbose) told(c, p, how);
  return how;
}

/* CBLAS_LAYOUT and CBLAS_TRANSPOSE of cblas.h. */
enum { ROW_MAJOR = 101, COLUMN_MAJOR = 102, NO_TRANS = 111, TRANS = 112, CONJ_TRANS = 113 };

static int transposed_c(int t) { return t == NO_TRANS ? 0 : t == TRANS || t == CONJ_TRANS ? 1 : -1; }

/* p is of the transposes if the layout is row major. */
static outcome gemm_c(call *c, int layout, int ta, int tb, tg_blas_product *p) {
  int x = transposed_c(ta), y = transposed_c(tb);
  bool known = layout == ROW_MAJOR || layout == COLUMN_MAJOR;
  c->from = layout == COLUMN_MAJOR ? C_COLUMNS : C_ROWS;
  if (!known) report_c(c, 1, "Illegal layout setting, %d\n", layout);
  else if (x < 0) report_c(c, 2, "Illegal TransA setting, %d\n", ta);
  else if (y < 0) report_c(c, 3, "Illegal TransB setting, %d\n", tb);
  if (!known || x < 0 || y < 0) {
    if (verbose) told(c, p, REFUSED);
    return REFUSED;
  }
  return layout == COLUMN_MAJOR ? gemm(c, x, y, p) : gemm(c, y, x, p);
}

/* ---- the entry points ---- */

#define CALLED_AS(NAME, T) {.at = &entries[AT_##NAME], .caller = __builtin_return_address(0), .wide = sizeof(T) == 8}

/* Fortran passes the lengths of character arguments after all other arguments. */
#define FORTRAN_ARGUMENTS(T, I)                                                                              \
  const char *ta, const char *tb, const I *m, const I *n, const I *k, const T *alpha, const T *a, const I *lda, \
  const T *b, const I *ldb, const T *beta, T *c, const I *ldc
#define FORTRAN_FUNCTION(NAME, T, I)                                                                         \
  EXPORT void NAME(FORTRAN_ARGUMENTS(T, I));                                                                 \
  void NAME(FORTRAN_ARGUMENTS(T, I)) {                                                                       \
    typedef void function(FORTRAN_ARGUMENTS(T, I), size_t, size_t);                                          \
    call as = CALLED_AS(NAME, T);                                                                            \
    tg_blas_product p = {.wide = sizeof(T) == 8, .m = *m, .n = *n, .k = *k, .lda = *lda, .ldb = *ldb,         \
                         .ldc = *ldc, .alpha = alpha, .a = a, .b = b, .beta = beta, .c = c};                 \
    if (gemm(&as, transposed(*ta), transposed(*tb), &p) == BY_BELOW)                                         \
      (*(function *)below(&as))(ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc, 1, 1);                 \
  }

#define C_ARGUMENTS(T, I)                                                                                    \
  int layout, int ta, int tb, I m, I n, I k, T alpha, const T *a, I lda, const T *b, I ldb, T beta, T *c, I ldc
#define C_FUNCTION(NAME, T, I)                                                                               \
  EXPORT void NAME(C_ARGUMENTS(T, I));                                                                       \
  void NAME(C_ARGUMENTS(T, I)) {                                                                             \
    typedef void function(C_ARGUMENTS(T, I));                                                                \
    call as = CALLED_AS(NAME, T);                                                                            \
    /* a row-major product is computed as the column-major product of the transposes: C^T = B^T A^T */       \
    bool turned = layout == ROW_MAJOR;                                                                       \
    tg_blas_product p = {.wide = sizeof(T) == 8, .m = turned ? n : m, .n = turned ? m : n, .k = k,           \
                         .lda = turned ? ldb : lda, .ldb = turned ? lda : ldb, .ldc = ldc,                   \
                         .a = turned ? b : a, .b = turned ? a : b, .c = c, .alpha = &alpha, .beta = &beta};  \
    if (gemm_c(&as, layout, ta, tb, &p) == BY_BELOW)                                                         \
      (*(function *)below(&as))(layout, ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);               \
  }

#define FORTRAN_FUNCTIONS(P, F, C, I) FORTRAN_FUNCTION(P##sgemm##F, float, I) FORTRAN_FUNCTION(P##dgemm##F, double, I)
#define C_FUNCTIONS(P, F, C, I) C_FUNCTION(P##cblas_sgemm##C, float, I) C_FUNCTION(P##cblas_dgemm##C, double, I)
CONVENTIONS(FORTRAN_FUNCTIONS)
CONVENTIONS(C_FUNCTIONS)
C_ALONE(C_FUNCTIONS)
