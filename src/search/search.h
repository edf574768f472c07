/* SPDX-License-Identifier: MIT
 * The search: the best knobs and words for a kernel, found by trials on a bench.
 *
 * A point is a sketch (a kernel with knobs and, perhaps, words), values for its knobs, and the words in use. It is
 * lowered first: what is illegal, or
 * lowers to a program that was tried, goes no further, and the cost model orders the rest. The most promising are built
 * and checked, then
 * each is timed in turns with the best so far. Where the kernel's kind has checks of its own, a candidate passes them
 * before it may be the best. */
#ifndef TG_SEARCH_H
#define TG_SEARCH_H
#include "search/trial.h"
#include "tg/dsl.h"

enum { TG_POINT_KNOBS = 24 };

typedef struct tg_sketch_source {
  const tg_kernel_def *def;
  const char *file, *text, *kernel;
  void *user;
} tg_sketch_source;

typedef struct tg_space_knob { const char *name; const int64_t *values; uint32_t n; } tg_space_knob;
typedef struct tg_sketch {
  tg_sketch_source source;
  const char *name;
  tg_space_knob knob[TG_POINT_KNOBS];
  uint32_t knobs;
} tg_sketch;

typedef struct tg_points {
  tg_env *env;
  const tg_binding *bindings;
  uint32_t bindings_n;
  tg_sketch *sketch;
  uint32_t sketches;
} tg_points;

typedef struct tg_point {
  uint32_t sketch, number;
  int64_t knob[TG_POINT_KNOBS];
  const char *text;            /* the author's form under these knobs, without words */
  const char *words;           /* NULL: the heuristic's */
  const char *given;           /* decisions that the heuristic is to take; NULL: none */
  const char *used;            /* after lowering: the words in use, the heuristic's as well */
  const char *choices;         /* after lowering: what else the heuristic may decide; NULL: it was not asked */
  uint64_t id;                 /* of text, words and what is given */
  tg_outcome outcome;
  const char *message;
  uint64_t hash;
  tg_cost cost;
  double score;                /* ln(seconds / seconds of the default); 0 before it is timed */
  double low, high;            /* what it may be faster by than whom it was timed against, ln: 95 % */
  double seconds;              /* as timed beside the incumbent of then */
  bool built, timed, passed;   /* passed: the checks of its kind */
  bool out;                    /* it met the default twice, and was not faster */
  bool own_words;              /* as its sketch says them, or the heuristic's choice with nothing given */
} tg_point;

/* ---- space.c ---- */

/* Runs each sketch once. Fails with the author's error if the first one's default is illegal; other sketches that do
 * not apply are left out. */
void tg_space_open(tg_points *s, tg_env *env, const tg_sketch_source *source, uint32_t n, const tg_binding *bindings,
                   uint32_t bindings_n);
/* Text and words of the point, by running the sketch's body; words, if not NULL, in place of its own. False: the
 * requirements do not hold; message says why. */
bool tg_space_point(tg_points *s, uint32_t sketch, const int64_t *knob, const char *words, const char *given,
                    tg_point *p);
uint32_t tg_words_count(const char *words);

/* ---- mutate.c ---- */

/* Another list of words near this one, by the random number; NULL: this draw has none. */
const char *tg_words_mutate(tg_env *env, const char *words, uint64_t random);

/* ---- journal.c: what was asked and answered, one line each, appended ---- */

typedef struct tg_journal tg_journal;
/* resume: answers of a journal with the same key are used again; else it begins anew. NULL path: none. Fails if it
 * cannot be written. */
tg_journal *tg_journal_open(tg_env *env, const char *path, const char *title, uint64_t key, bool resume);
void tg_journal_close(tg_journal *);
/* True: the answer is in t already. */
bool tg_journal_find(tg_journal *, uint8_t kind, uint64_t id, uint64_t against, tg_task *t);
void tg_journal_put(tg_journal *, const tg_task *t, const tg_point *p, uint64_t against, const char *knobs);
/* The search ended: with so many seconds and candidates allowed (0: any number), this came out. */
void tg_journal_end(tg_journal *, bool interrupted, double seconds, uint32_t candidates, const char *text);
/* What came out, if it ended with no less allowed than this; NULL. */
const char *tg_journal_ended(tg_journal *, double seconds, uint32_t candidates);
uint32_t tg_journal_reused(const tg_journal *);

/* ---- tune.c ---- */

typedef struct tg_search_event {
  enum {
    TG_EVENT_OPEN,
    TG_EVENT_LOWERED,
    TG_EVENT_BUILT,
    TG_EVENT_TIMED,
    TG_EVENT_BEST,
    TG_EVENT_CONFIRM,
    TG_EVENT_END
  } what;
  const tg_point *point;
  const char *knobs;
  const struct tg_search_result *so_far;
  double elapsed;
} tg_search_event;

typedef struct tg_search_result {
  uint32_t sketch;
  const char *sketch_name, *words, *text;      /* words: as chosen; NULL: the sketch's own or the heuristic's */
  tg_binding knob[TG_POINT_KNOBS];
  uint32_t knobs;
  double seconds, default_seconds, gain_low, gain;   /* gain: ln(default / best), 0 if the default stays */
  /* what was timed is so small a share of the problem; 0: all of it. Of a run of all, where there was time for it */
  double share, whole_seconds, whole_default_seconds;
  const char *why;                                   /* the default stays, or NULL */
  double flops, bytes, floor, elapsed;
  uint32_t points, lowered, built, timed, dropped, restarts, reused;
  uint32_t outcome[TG_TRIAL__COUNT];
  bool in_process, exact, tuned, interrupted, finished;
} tg_search_result;

typedef struct tg_search_options {
  const tg_sketch_source *sketch;
  uint32_t sketches;
  const tg_binding *bindings;
  uint32_t bindings_n;
  /* Where a run takes too long for a search, sketches and bindings are of a part of the problem, and here is all of
   * it: its winner is run there once, under its checks. */
  const tg_sketch_source *whole;   /* NULL: sketches and bindings are all of it */
  const tg_binding *whole_bindings;
  const char *whole_checks;
  double share;                    /* of the part */
  const tg_binding *start;         /* knobs of the first sketch */
  uint32_t start_n;
  const int64_t *params;
  uint32_t params_n, threads, pool;   /* as in tg_task */
  double seconds;                  /* of it all; 0: none */
  uint32_t candidates;             /* that are timed; 0: none */
  uint64_t seed;
  uint32_t beam;                   /* 0: 4 */
  double patience;                 /* seconds that lowering or building may take at least; 0: 3 */
  bool knobs_only;                 /* words stay as they are */
  const char *const *worker;
  uint32_t workers;                /* 0: as many as threads of the machine */
  const tg_bench *local;
  const char *target;              /* whose code they are; NULL: the host */
  const char *folder, *journal;
  const char *checks;               /* what the kernels are, for the checks of their kind; NULL: there are none */
  bool resume;
  int shared;
  bool (*stop)(void *user);
  void (*progress)(void *user, const tg_search_event *e);
  void *user;
} tg_search_options;

/* Fails by unwinding in env only if the default itself cannot be built or is wrong. */
void tg_search_run(tg_env *env, const tg_search_options *o, tg_search_result *out);
#endif
