/* SPDX-License-Identifier: MIT
 * The tests' harness: CHECK counts and says where; TEST_END prints the closing line and gives main's result. */
#ifndef TG_TEST_H
#define TG_TEST_H
#include <stdio.h>
#include <string.h>

/* Weak: one of each in a program, however many of its files check something. */
#ifdef __cplusplus
extern "C" {
#endif
__attribute__((weak)) int test_passed, test_failed;
#ifdef __cplusplus
}
#endif

/* No test depends on what its user has tuned or measured: contexts that name no folder of choices have none. */
#ifndef __cplusplus
extern int setenv(const char *, const char *, int);
__attribute__((constructor)) static void test_alone(void) { setenv("TG_TUNED", "", 1); }
#endif

/* Is this run beside others of the same program, which do the whole: with a sanitizer, with another LLVM, or at a level of
 * x86-64 below the one that the others run for (TG_TEST_PART, set by tools/check)? Then a part of what takes long is
 * enough. The number of parts away from the first, 1 or more; 0: this run is the whole one. */
#ifndef __cplusplus
extern char *getenv(const char *);
static inline unsigned test_part(void) {
#if defined TG_SANITIZED || defined TG_OTHER_LLVM
  return 1;
#else
  const char *part = getenv("TG_TEST_PART");
  return part ? (unsigned)(unsigned char)*part - '0' : 0;
#endif
}
#endif

/* One failure is all that there is to know of a fault. */
#ifdef TG_MUTANTS
#include <stdlib.h>
#define TEST_FAILED() exit(1)
#else
#define TEST_FAILED() test_failed++
#endif

#define CHECK(c, ...)                                                                  \
  do {                                                                                 \
    if (c) test_passed++;                                                              \
    else {                                                                             \
      fprintf(stderr, "%s:%d: failed: %s: ", __FILE__, __LINE__, #c);                  \
      fprintf(stderr, " " __VA_ARGS__);                                                \
      fputc('\n', stderr);                                                             \
      TEST_FAILED();                                                                   \
    }                                                                                  \
  } while (0)
#define CHECK_TEXT(got, want) CHECK(!strcmp((got), (want)), "\n--- got\n%s\n--- want\n%s", (got), (want))
#define TEST_END() (printf("%d passed, %d failed\n", test_passed, test_failed), test_failed != 0)
#endif
