/* SPDX-License-Identifier: MIT
 * What the operations for engines have in common: sizes that are fixed or vary from call to call, the caller's own
 * threads, how matrices lie in memory. */
#ifndef TG_EXEC_H
#define TG_EXEC_H
#include "tg/tg.h"
#ifdef __cplusplus
extern "C" {
#endif

/* A size: hi 0, fixed at lo; else any value from lo to hi at each call. */
typedef struct tg_dim { int64_t lo, hi; } tg_dim;

/* The caller's threads. parallel_for is called with at most `threads` tasks, which share out the work among them; it
 * may run them at once, or one after another on one thread, in any order, and returns after all. */
typedef struct tg_exec {
  int threads;
  tg_parallel_for *parallel_for;
  void *user;
} tg_exec;

/* How a matrix lies in memory: rows one after another, columns one after another, or both subscripts with strides of
 * their own. */
enum { TG_ROW_MAJOR = 0, TG_COLUMN_MAJOR = 1, TG_ANY_STRIDES = 2 };

/* What an argument of an epilogue has a value for: all of the result, each row, each column, each element (row
 * major). */
enum { TG_PER_ALL = 0, TG_PER_ROW = 1, TG_PER_COLUMN = 2, TG_PER_ELEMENT = 3 };

#ifdef __cplusplus
}
#endif
#endif
