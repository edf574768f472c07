/* SPDX-License-Identifier: MIT
 * The tests' harness: CHECK counts and says where; TEST_END prints the closing line and gives main's result. */
#ifndef TG_TEST_H
#define TG_TEST_H
#include <stdio.h>
#include <string.h>

static int test_passed, test_failed;

#define CHECK(c, ...)                                                                  \
  do {                                                                                 \
    if (c) test_passed++;                                                              \
    else {                                                                             \
      test_failed++;                                                                   \
      fprintf(stderr, "%s:%d: failed: %s: ", __FILE__, __LINE__, #c);                  \
      fprintf(stderr, " " __VA_ARGS__);                                                \
      fputc('\n', stderr);                                                             \
    }                                                                                  \
  } while (0)
#define CHECK_TEXT(got, want) CHECK(!strcmp((got), (want)), "\n--- got\n%s\n--- want\n%s", (got), (want))
#define TEST_END() (printf("%d passed, %d failed\n", test_passed, test_failed), test_failed != 0)
#endif
