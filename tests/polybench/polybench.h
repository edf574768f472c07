/* SPDX-License-Identifier: MIT
 * The 30 kernels of PolyBench/C 4.2 in plain C: loop orders, sizes and initial values as published. reference.c is compiled once for
 * each table below, at sizes for tests or at the suite's MEDIUM, with the flags that a contestant gets. */
#ifndef TG_POLYBENCH_H
#define TG_POLYBENCH_H
#include <stdbool.h>
#include <stdint.h>
#include <tg/tg.h>

enum { POLYBENCH_KERNELS = 30, POLYBENCH_BUFFERS = 16 };

/* scratch: of the plain C only. The others stand in the order in which the kernel's text, tests/polybench/NAME.tg, has them. */
typedef enum { POLYBENCH_NONE, POLYBENCH_READ, POLYBENCH_WRITTEN, POLYBENCH_SCRATCH } polybench_role;
typedef struct { polybench_role role; tg_type type; int64_t count; } polybench_buffer;

typedef struct polybench_case {
  const char *name;
  bool blas;                                          /* one of the ten that BLAS would do */
  struct { const char *name; int value; } size[6];    /* the text's parameters */
  polybench_buffer buffer[POLYBENCH_BUFFERS];
  void (*init)(void **buffers);
  void (*run)(void **buffers);
  void (*settle)(void **buffers, void **initial);     /* NULL, or makes comparable what is not: results that rounding alone decides */
} polybench_case;

extern const polybench_case polybench_small[], polybench_medium[], polybench_medium_fast[];   /* each ends with a NULL name */
extern const char polybench_small_compiler[], polybench_medium_compiler[], polybench_medium_fast_compiler[];

typedef struct { const char *name, *text; } polybench_text;
extern const polybench_text polybench_texts[];   /* the kernels, by the names of the cases; ends with a NULL name */

typedef struct { void *data[POLYBENCH_BUFFERS]; } polybench_memory;
bool polybench_allocate(const polybench_case *c, polybench_memory *m);     /* zeros, 64-aligned; false: no memory */
void polybench_restore(const polybench_case *c, polybench_memory *to, const polybench_memory *initial);   /* what a run may change */
void polybench_free(polybench_memory *m);
int64_t polybench_bytes(const polybench_buffer *b);
const char *polybench_text_of(const char *name);
/* Elements of what the kernel wrote that differ by more than rounding does; where: the first. */
int64_t polybench_differences(const polybench_buffer *b, const void *got, const void *want, int64_t *where);
#endif
