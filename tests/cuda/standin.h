/* SPDX-License-Identifier: MIT
 * A libcuda.so.1 for tests, over the interpreter of PTX, and what a test may ask of it. What it models is a table in
 * docs/devices.md. A program that has opened the file by its path gets it for "libcuda.so.1", too, which is its soname.
 *
 * Work put on a stream runs at the latest moment that the interface allows, when somebody waits for it; what runs
 * between is drawn. Memory that is freed is poisoned, and is not given out again while any work is pending. Every object
 * is counted. What a driver would refuse or what would be undefined is refused, or the context is lost, and fault says
 * why. */
#ifndef TG_TEST_STANDIN_H
#define TG_TEST_STANDIN_H
#include <stdbool.h>
#include <stdint.h>

typedef struct standin {
  /* set by tests, while no call runs */
  uint64_t seed;                /* of the order of work */
  uint64_t fail_at;             /* the call with this number fails with fail_code; 0: none */
  int fail_code;
  uint64_t lose_at;             /* the context is lost when so many operations have run; 0: never */
  uint64_t lose_at_put;         /* .. when so many have been put on streams */
  int version, devices, major[2], minor;
  int cores;                    /* of each device; 0: those of its chip */
  double operation_ms;          /* that an operation takes by the clock */
  bool nothing;                 /* launches and marks return at once, and do nothing: for measuring what comes before */
  bool wrong;                   /* the first byte of each buffer is inverted behind a launch */
  /* told */
  uint64_t calls, put, ran;
  int64_t live;                 /* objects and references that were not given back */
  int lost;                     /* the code that all calls return; 0: none */
  char fault[640];              /* the first thing that a program may not do; "": none */
} standin;

/* Its function "standin_control". Each call starts anew, and forgets what programs have left. */
typedef standin *standin_fn(void);
#endif
