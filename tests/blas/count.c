/* SPDX-License-Identifier: MIT
 * A shim that counts: sgemm and dgemm under every name of the BLAS front, loaded before it (LD_PRELOAD="libcount.so libtg_blas.so"). Each call is counted
 * and handed on to what comes next. At the end of a process "NAME CALLS LIBRARY" is added to the file TG_COUNT_FILE: who was called, so many times. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define EXPORT __attribute__((visibility("default")))
#define FORTRAN_NAMES(X)                                                                                               \
  X(sgemm_, float, int) X(dgemm_, double, int) X(scipy_sgemm_, float, int) X(scipy_dgemm_, double, int)                \
  X(sgemm_64_, float, int64_t) X(dgemm_64_, double, int64_t) X(scipy_sgemm_64_, float, int64_t) X(scipy_dgemm_64_, double, int64_t)
#define C_NAMES(X)                                                                                                     \
  X(cblas_sgemm, float, int) X(cblas_dgemm, double, int) X(scipy_cblas_sgemm, float, int)                              \
  X(scipy_cblas_dgemm, double, int) X(cblas_sgemm64_, float, int64_t) X(cblas_dgemm64_, double, int64_t)               \
  X(cblas_sgemm_64, float, int64_t) X(cblas_dgemm_64, double, int64_t)                                                 \
  X(scipy_cblas_sgemm64_, float, int64_t) X(scipy_cblas_dgemm64_, double, int64_t)

static void tell(const char *name, long long calls, void *next) {
  const char *path = getenv("TG_COUNT_FILE");
  FILE *f = calls && path ? fopen(path, "a") : NULL;
  Dl_info i;
  if (!f) return;
  fprintf(f, "%s %lld %s\n", name, calls, dladdr(next, &i) && i.dli_fname ? i.dli_fname : "?");
  fclose(f);
}

#define COUNTED(NAME)                                                                                                  \
  static long long calls_##NAME;                                                                                       \
  __attribute__((destructor)) static void end_##NAME(void) { tell(#NAME, calls_##NAME, dlsym(RTLD_NEXT, #NAME)); }     \
  static void *next_##NAME(void) {                                                                                     \
    static void *next;                                                                                                 \
    void *f = __atomic_load_n(&next, __ATOMIC_ACQUIRE);                                                                \
    if (!f) __atomic_store_n(&next, f = dlsym(RTLD_NEXT, #NAME), __ATOMIC_RELEASE);                                    \
    if (!f) fprintf(stderr, "count: nothing behind %s\n", #NAME), abort();                                             \
    __atomic_fetch_add(&calls_##NAME, 1, __ATOMIC_RELAXED);                                                            \
    return f;                                                                                                          \
  }

#define FORTRAN(NAME, T, I)                                                                                            \
  COUNTED(NAME)                                                                                                        \
  typedef void type_##NAME(const char *, const char *, const I *, const I *, const I *, const T *, const T *, const I *, \
                           const T *, const I *, const T *, T *, const I *, size_t, size_t);                           \
  EXPORT type_##NAME NAME;                                                                                             \
  void NAME(const char *ta, const char *tb, const I *m, const I *n, const I *k, const T *alpha, const T *a, const I *lda, \
            const T *b, const I *ldb, const T *beta, T *c, const I *ldc, size_t an, size_t bn) {                       \
    ((type_##NAME *)next_##NAME())(ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc, an, bn);                      \
  }
#define C(NAME, T, I)                                                                                                  \
  COUNTED(NAME)                                                                                                        \
  typedef void type_##NAME(int, int, int, I, I, I, T, const T *, I, const T *, I, T, T *, I);                          \
  EXPORT type_##NAME NAME;                                                                                             \
  void NAME(int order, int ta, int tb, I m, I n, I k, T alpha, const T *a, I lda, const T *b, I ldb, T beta, T *c, I ldc) { \
    ((type_##NAME *)next_##NAME())(order, ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);                       \
  }
FORTRAN_NAMES(FORTRAN)
C_NAMES(C)
