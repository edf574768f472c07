/* SPDX-License-Identifier: MIT
 * What the campaign's files share: a kernel with its memory (memory.c), a point, which is a kernel under some words
 * at some sizes (point.c), and the report that outlives the child in which points run (kernels.c). */
#ifndef TG_CAMPAIGN_RUN_H
#define TG_CAMPAIGN_RUN_H
#include "campaign.h"
#include "base/guard.h"
#include "dsl/text.h"
#include "compile/pipeline.h"
#include "tg/tg.h"

enum { CAMPAIGN_WORDS = 2048, CAMPAIGN_LINE = 4200, CAMPAIGN_MOST_WORDS = 8, CAMPAIGN_THREADS = 4 };

/* ---- random numbers that need no state ---- */
uint64_t campaign_hash(uint64_t seed, uint64_t i);
uint64_t campaign_hash_text(uint64_t seed, const char *text);

/* ---- memory.c ---- */

typedef struct {
  char name[24];
  tg_type type;
  bool read, written;
  size_t n, bytes;
  bool promised;               /* values stay within lo..hi */
  int64_t lo, hi;
} campaign_buffer;

typedef enum { CAMPAIGN_AT_END, CAMPAIGN_AT_START, CAMPAIGN_PLACEMENTS } campaign_placement;

typedef struct {
  const campaign_entry *entry, *wide;   /* the family's table with real as float, as double */
  uint64_t seed;
  int n, sizes;
  int64_t size[CAMPAIGN_SIZES];
  campaign_buffer buffer[CAMPAIGN_BUFFERS];
  void *start[CAMPAIGN_BUFFERS];        /* what stands in each before a run; garbage in outputs */
  void *want[CAMPAIGN_BUFFERS];         /* plain C's result, as the buffer's type */
  double *exactly[CAMPAIGN_BUFFERS];    /* plain C's result with real as double */
  double own[CAMPAIGN_BUFFERS];         /* what plain C with real as float is off by; the worst of some sets of data */
  tg_guarded pages[CAMPAIGN_BUFFERS];
  void *plain[CAMPAIGN_BUFFERS];        /* for the interpreter */
} campaign_memory;

/* Sizes, types and roles from a program in its author's form. Inside tg_protect. */
void campaign_layout(campaign_memory *m, tg_job *j, const int64_t *size);
/* Data by the seed, and what plain C makes of it. False: plain C rounds where it must not, and where says. */
bool campaign_reference(campaign_memory *m, char *where, size_t where_n);
bool campaign_place(campaign_memory *m, campaign_placement p); /* pages anew, with the data in them; false: no memory */
void campaign_plain(campaign_memory *m);                           /* the data in m->plain */
/* Is what stands there (m->pages or m->plain) the result? A message if it is not. */
bool campaign_right(const campaign_memory *m, bool pages, char *message, size_t message_n);
void campaign_drop(campaign_memory *m);

/* ---- the report: in memory that parent and child share ---- */

typedef struct {
  long kernels, points, runs, words, refused, races, wrong, crashes, hangs, other, interpreted;
  long large;                   /* lists dropped since their code would be too long */
  long failed_kernels;
  int next;                     /* the schedule to begin with: one behind the last that was begun */
  int doing;                    /* a letter that says what the child was at */
  char line[CAMPAIGN_LINE];     /* the reproducer of what runs now */
} campaign_report;

typedef struct {
  uint64_t seed;
  int schedules, threads[CAMPAIGN_THREADS], threads_n;
  const char *target;
  const char *words;            /* NULL: at random */
  int64_t size[CAMPAIGN_SIZES];
  int sizes;                    /* given; 0: at random */
  bool constant;                /* with words: sizes are constants */
  bool verbose;
  double until;                 /* by the clock; 0: no end */
} campaign_options;

double campaign_clock(void);

/* All points of one kernel, from report->next on. In a process of its own, which may end by it. */
void campaign_points(const campaign_options *o, const campaign_entry *entry, const campaign_entry *wide,
                     const char *text, campaign_report *r);
#endif
