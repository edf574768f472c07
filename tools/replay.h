/* SPDX-License-Identifier: MIT
 * What tg replay compiles: a program, a plan of a matrix product, a class of the BLAS front; and the code that comes of
 * it. */
#ifndef TG_REPLAY_H
#define TG_REPLAY_H
#include "compile/compile.h"
#include "tg/gemm.h"

/* The code of one line of a list: of several kernels, one behind the other. */
typedef struct replay_code {
  tg_context *context;
  bool objects; /* they are wanted as well */
  char *text, *object; /* linear forms, printed; objects. malloc'd */
  size_t text_n, object_n;
  tg_status refused, object_refused; /* the last kernel has no linear form; it has one, but no object */
  char message[400];
} replay_code;

/* Compiles one more kernel, as a context does. False: it is refused, at either step, and the message says why. */
bool replay_add(replay_code *r, const tg_kernel_source *s);
/* In place of a kernel's text. */
void replay_note(replay_code *r, const char *text);

/* A context whose target is that row, on any machine, with so many threads; made once in a process. NULL: there is no
 * such row. */
tg_context *replay_context(const char *target, uint32_t threads);

/* replay_gemm.c. name: DESCRIPTOR for all kernels that its plan compiles, or DESCRIPTOR:SKETCH. False: there is no such
 * name. */
bool replay_gemm(replay_code *r, const char *name);
void replay_plan(
    replay_code *r, const tg_gemm_desc *d); /* all kernels of a plan, those that it falls back to as well */
void replay_gemm_list(void); /* prints the names */

/* replay_front.c. name: as in sNTab:16x128x1024, s or d, transposes, - or a and b (alpha, beta), m, n, k. */
enum { REPLAY_THREADS = 4 }; /* of plans of both kinds */
bool replay_front(replay_code *r, const char *name);

/* replay_draw.c. Prints lines of accepted words, so many for each kernel of the text, or for the one named; false, and
 * it says why. */
bool replay_draw(const char *file, const char *text, const char *target, const char *kernel, uint64_t seed, int lists);
#endif
