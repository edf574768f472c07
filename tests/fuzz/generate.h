/* SPDX-License-Identifier: MIT
 * Kernels from a stream of choices: grammar-directed, legal by construction, and shrunk by shrinking the stream. */
#ifndef TG_FUZZ_GENERATE_H
#define TG_FUZZ_GENERATE_H
#include <stdbool.h>
#include <stdint.h>

enum { FUZZ_TEXT = 1 << 15, FUZZ_CHOICES = 2048, FUZZ_BUFFERS = 24 };

typedef struct {
  uint64_t state;                       /* of the generator of fresh choices */
  uint8_t choice[FUZZ_CHOICES];
  int n, at;                            /* choices recorded or to replay; past the end of a replay every choice is 0 */
  bool replay;
} fuzz_source;

typedef enum { FUZZ_EXACT, FUZZ_INTEGER, FUZZ_RANDOM } fuzz_mode;

typedef struct {
  char text[FUZZ_TEXT];                 /* the program, without opts */
  char wide[FUZZ_TEXT];                 /* the same in f64, for RANDOM */
  char opts[1024];                      /* "opt(...); opt(...);", may be illegal */
  fuzz_mode mode;
  const char *type;
  int64_t param[2];                     /* values of P0, P1, for the run */
  int params;
} fuzz_program;

void fuzz_generate(fuzz_source *s, fuzz_program *p);
#endif
