/* SPDX-License-Identifier: MIT
 * For tests of plans that are built ahead of time: an object as a library that is opened, and calls of its functions,
 * whose arguments are words. */
#ifndef TG_TESTS_AHEAD_OBJECT_H
#define TG_TESTS_AHEAD_OBJECT_H
#include <stdbool.h>
#include <stdint.h>
#include "tg/build.h"

enum { OBJECT_WORDS = 80, OBJECT_LEVELS = 8 };

/* Arguments in order; as all are integers or pointers, each takes a word in a register or on the stack. */
typedef struct { int64_t word[OBJECT_WORDS]; uint32_t n; } object_call;
typedef int object_function(void);
void object_word(object_call *c, int64_t word);
void object_pointer(object_call *c, const void *p);
void object_buffer(object_call *c, const void *p, size_t bytes);
int object_run(object_function *f, const object_call *c);

/* The library of an object, made by the system's compiler with no other library; NULL: a check has failed. what: for
 * messages. */
void *object_open(const tg_built *b, const char *what);
void object_close(void *library);   /* before the next is opened; NULL: does nothing */
object_function *object_find(void *library, const char *name);
/* The levels of x86-64 whose code runs here, the lowest first. */
uint32_t object_levels(const char *level[OBJECT_LEVELS]);
bool object_begin(void);             /* a folder of the test's own */
void object_end(void);
/* Gives tasks to no thread, but in another order. */
void object_last_first(void *user, int64_t n, void (*task)(void *, int64_t), void *argument);
#endif
