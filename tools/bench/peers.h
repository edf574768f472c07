/* SPDX-License-Identifier: MIT
 * Libraries that tg's products are measured against, opened at run time where they are installed. Each has entries, the
 * ways in which it
 * can be called; a product is measured at the best of them. */
#ifndef TG_BENCH_PEERS_H
#define TG_BENCH_PEERS_H
#include <stdbool.h>
#include "shapes.h"

/* C = A B, row major; a transposed operand lies in columns. Leading dimensions in elements. step: from an element to
 * its neighbour, 0 is 1; peers take 1 only. */
typedef struct bench_product {
  const tool_types *type;
  int m, n, k, lda, ldb, ldc, step;
  bool late;   /* the step is told by calls only (TG_ANY_STRIDES) */
  bool ta, tb;
  const void *a, *b;
  void *c;
  int threads;
} bench_product;

typedef struct bench_peer bench_peer;
typedef struct bench_entry {
  const char *name;            /* with its configuration, as it is printed */
  /* False: this entry cannot compute this product. What it needs for it is kept in the peer until the next prepare
   * of any entry. */
  bool (*prepare)(bench_peer *, const bench_product *);
  void (*run)(bench_peer *, const bench_product *);
} bench_entry;

enum { BENCH_PEERS = 8, BENCH_ENTRIES = 8 };
struct bench_peer {
  const char *name;
  void *library;
  bench_entry entry[BENCH_ENTRIES];
  int entries;
  void *f32, *f64, *set_threads, *execute, *wait;   /* its functions */
  void *state[8];
  void (*release)(bench_peer *);
  /* no library: a loop that reads the larger operand, for products that are bound by memory */
  bool reads;
  char missing[256];                 /* why it could not be opened */
};

/* vs: "openblas,mkl=/opt/libmkl_rt.so"; NULL: all that are found. Names none of them: the message is printed, -1. */
int bench_peers_open(bench_peer *peers, const char *vs);
void bench_peers_read_loop(bench_peer *);
void bench_peers_threads(bench_peer *, int threads);
#endif
