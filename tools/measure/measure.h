/* SPDX-License-Identifier: MIT
 * tg measure: what its groups of probes share. A probe is a piece of code of which it is known how many operations it
 * does. It runs in many short bursts, each behind a chain of dependent additions, which take a cycle each: that chain
 * is
 * the clock, since neither the time stamp counter nor the system's clock counts cycles of the core. */
#ifndef TG_MEASURE_H
#define TG_MEASURE_H
#include <math.h>
#include "base/base.h"
#include "target/processor.h"

enum { MEASURE_L1_BYTES = 16 << 10, MEASURE_LINE = 64, MEASURE_MOST = 160 };
enum { MEASURE_ROUNDS = 3, MEASURE_MOST_ROUNDS = 9 };

typedef struct measure {
  tg_target target;            /* the host, with the row of the tree that is nearest */
  tg_processor processor;
  tg_machine row;              /* NaN: not measured */
  uint32_t rounds;
  double probe;                /* seconds for a probe of the core; those of memory get a few times as many */
  bool vectors[TG_MACHINE_WIDTHS];   /* widths whose instructions the probes of the core may use here */
  uint32_t widest;             /* index of the widest; TG_MACHINE_WIDTHS: the probes of the core cannot run here */
  char *l1;                    /* MEASURE_L1_BYTES, at a page, of floats between 1 and 2 */
  char *memory;                /* larger than the caches, in huge pages where the system has them */
  size_t memory_bytes;         /* a power of two */
  size_t l2_bytes, l3_bytes;   /* parts of `memory` that L2, and L3 but not L2, hold; powers of two */
  /* All probes run in several rounds, in the same order, as other programs and machines on the same processor
   * disturb it for seconds at a time; of each the best round counts. Those of the core go on while a round finds
   * something better, since what they find is rounded to a number that every run should find. */
  double best[MEASURE_MOST];
  bool better;                 /* this round found less than 0.97 of the cycles of the best before it */
  double chain[4];             /* seconds of the chain at its fastest, in each of the last probes */
  uint32_t probes;             /* so far in this round */
} measure;

/* n passes of a probe's loop over the memory. */
typedef void measure_body(int64_t n, void *memory);

/* Cycles of one pass of the body's loop, in a burst when little else ran; n: passes of a burst; 0: as many as take
 * 30 us. */
double measure_cycles(measure *m, double seconds, measure_body *body, void *memory, int64_t n);
/* Cycles per nanosecond at this moment. */
double measure_clock(void);
/* The value below which a share of the samples lies; sorts them. */
double measure_quantile(double *samples, uint32_t n, double share);
/* A result that physics makes a whole number, or a small fraction: rates of ports, latencies. */
double measure_rate(double per_cycle);
double measure_count(double cycles), measure_halves(double cycles);

/* Reads m->memory in sequence, 256 bytes a pass, by the widest vectors. */
measure_body *measure_reader(const measure *m);

/* The groups: each fills its columns of the row. ports and latencies are for x86-64. */
void measure_ports(measure *m), measure_latencies(measure *m), measure_memory(measure *m), measure_threads(measure *m);
#endif
