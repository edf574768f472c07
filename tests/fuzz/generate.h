/* SPDX-License-Identifier: MIT
 * Kernels from a stream of choices: grammar-directed, legal by construction, and shrunk by shrinking the stream. */
#ifndef TG_FUZZ_GENERATE_H
#define TG_FUZZ_GENERATE_H
#include <stdbool.h>
#include <stdint.h>

enum { FUZZ_TEXT = 1 << 16, FUZZ_CHOICES = 4096 };

typedef struct {
  uint64_t state;                       /* of the generator of fresh choices */
  uint8_t choice[FUZZ_CHOICES];
  int n, at;                            /* choices recorded or to replay; past the end of a replay every choice is 0 */
  bool replay;
} fuzz_source;

typedef enum { FUZZ_EXACT, FUZZ_INTEGER, FUZZ_RANDOM } fuzz_mode;

/* What a program may have in it; counted by the driver. */
#define FUZZ_FEATURES(F) \
  F(half) F(cast) F(convert) F(f64) F(bool_input) F(condition) F(argmax) F(tuple) F(any_all) F(in_order) F(gather) F(unsure_gather) F(csr) \
  F(scatter) F(inout) F(partial) F(triangular) F(dependent_extent) F(strided) F(tile2) F(local) F(nested_reduce) F(multiple) \
  F(may_be_empty) F(else_value) F(if_loop) F(lockstep) F(guarded) F(let_after_store) F(author_kind) F(reduce_kind) F(shift) \
  F(function) F(big_constant) F(recurrence) F(flat) F(window) F(bitcast) \
  F(shared_tile) F(private_tile) F(tile_in_loop) F(tile_in_lane) F(reversed) F(rotated) F(halo) F(edge) F(exchange) F(tile_update) F(sum_tile) F(barrier) F(carry) F(shuffled)
typedef enum {
#define F(name) FUZZ_##name,
  FUZZ_FEATURES(F)
#undef F
  FUZZ_FEATURES_N
} fuzz_feature;

typedef struct {
  char text[FUZZ_TEXT];                 /* the program, without opts */
  char wide[FUZZ_TEXT];                 /* the same in f64, for RANDOM; empty where that says nothing */
  char opts[1024];                      /* "opt(...); opt(...);", may be illegal */
  fuzz_mode mode;
  int64_t param[2];                     /* values of P0, P1, for the run */
  int params;
  uint64_t features;
} fuzz_program;

/* threads: kernels as an author writes them for threads. */
void fuzz_generate(fuzz_source *s, fuzz_program *p, bool threads);
#endif
