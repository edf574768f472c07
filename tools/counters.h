/* SPDX-License-Identifier: MIT
 * The processor's own counters around some work of this process and of the threads that it starts later: cycles,
 * instructions, misses. Linux's perf_event_open, user mode alone; elsewhere, and where the kernel or the machine has
 * none or forbids it, each counter says why it was not counted. */
#ifndef TG_COUNTERS_H
#define TG_COUNTERS_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { COUNTERS = 8 };
enum { COUNT_CYCLES, COUNT_INSTRUCTIONS, COUNT_L1_MISSES, COUNT_LLC_MISSES, COUNT_BRANCHES, COUNT_BRANCH_MISSES,
       COUNT_STALLED_FRONT, COUNT_STALLED_BACK };

/* value: events. part: of the time in which the event was to be counted, the part in which it was; below 1, where a
 * processor has fewer counters than events and they take turns, value is scaled up by it. why: if not counted. */
typedef struct { bool counted; double value, part; char why[120]; } counter;

/* The system's calls, which a test replaces. open: a file for the event (COUNT_*), else minus an errno. control: starts
 * or stops, 0 or minus an errno. read: bytes, or minus an errno. */
typedef struct {
  int (*open)(void *user, uint32_t event);
  int (*control)(void *user, int file, bool on);
  long (*read)(void *user, int file, void *to, size_t bytes);
  void (*close)(void *user, int file);
  void *user;
} counters_calls;

typedef struct counters { counter at[COUNTERS]; int file[COUNTERS]; const counters_calls *calls; } counters;

const char *counter_name(uint32_t event);
/* Before the process starts the threads that are to be counted. calls: NULL: the system's own. */
void counters_open(counters *c, const counters_calls *calls);
void counters_start(counters *c);
/* Stops, and fills c->at. */
void counters_stop(counters *c);
void counters_close(counters *c);

/* What a read of `bytes` gave, as perf_event_open(2) lays it out: the count, ns enabled, ns running. */
void counter_decode(counter *c, const uint64_t read[3], long bytes);
#endif
