/* SPDX-License-Identifier: MIT
 * Types shared by the operations with plans, such as tg/gemm.h: sizes that are fixed or vary from call to call, the
 * caller's own threads, layouts of matrices in memory. */
#ifndef TG_EXEC_H
#define TG_EXEC_H
#include "tg/tg.h"
#ifdef __cplusplus
extern "C" {
#endif

/* A size. hi 0: fixed at lo; else each call gives a value from lo to hi. */
typedef struct tg_dim { int64_t lo, hi; } tg_dim;

/* The caller's threads. parallel_for is called with at most `threads` tasks, which divide the work among themselves.
 * It may run them at the same time, or one after another on one thread, in any order, and returns when all have
 * ended. */
typedef struct tg_exec {
  int threads;
  tg_parallel_for *parallel_for;
  void *user;
} tg_exec;

/* How a matrix lies in memory: row major, column major, or with both strides given at each call. */
enum { TG_ROW_MAJOR = 0, TG_COLUMN_MAJOR = 1, TG_ANY_STRIDES = 2 };

/* How many values an argument of an epilogue has: one, one per row, one per column, or one per element (row major). */
enum { TG_PER_ALL = 0, TG_PER_ROW = 1, TG_PER_COLUMN = 2, TG_PER_ELEMENT = 3 };

#ifdef __cplusplus
}
#endif
#endif
