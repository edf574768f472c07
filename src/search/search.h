/* SPDX-License-Identifier: MIT
 * The search: the best knobs and words for a kernel, found by trials on a bench.
 *
 * A point is a sketch (a kernel with knobs and, perhaps, schedule words), values for its knobs, and the words in use.
 * Each point is lowered first. Illegal points, and points that lower to a program that was already tried, are dropped;
 * the cost model orders the others. The most promising are built and checked, then each is timed in alternation with
 * the best so far (the incumbent). If the kernel's kind has checks of its own (GEMM has), a candidate must pass them
 * before it can become the incumbent. */
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
  uint32_t given;              /* its index among the sources: those that cannot be read are left out */
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
  const char *text;            /* the kernel as written, with these knobs put in and without schedule words */
  const char *words;           /* the schedule; NULL: the heuristic chooses one */
  const char *given;           /* decisions fixed for the heuristic, as in tg_decisions.given; NULL: none */
  const char *used;            /* after lowering: the full schedule, whoever chose it */
  const char *decisions;       /* after lowering: the heuristic's alternatives; NULL: the heuristic did not run */
  uint64_t id;                 /* hash of text, words and given */
  tg_outcome outcome;
  const char *message;
  uint64_t hash;               /* of the lowered program */
  tg_cost cost;
  double score;                /* ln(seconds / seconds of the default), so below 0 is faster; 0 until it is timed */
  double low, high;            /* 95 % interval of ln(opponent's seconds / its seconds), from its last timing */
  double seconds;              /* of one run, from the same timing as low and high */
  bool built, timed, passed;   /* passed: the checks of the kernel's kind */
  bool here;                   /* of a search with a spool: this process has built it */
  bool out;                    /* timed against the default a second time and not found faster */
  bool own_words;              /* words are the sketch's own, or the heuristic's with nothing given */
} tg_point;

/* ---- space.c ---- */

/* Runs each sketch once, with default knobs. Fails with the author's error if the first sketch is illegal; other
 * sketches whose requirements do not hold are left out. */
void tg_space_open(tg_points *s, tg_env *env, const tg_sketch_source *source, uint32_t n, const tg_binding *bindings,
                   uint32_t bindings_n);
uint32_t tg_space_sketch(const tg_points *s, const char *name);   /* its index; s->sketches: there is none */
/* Fills in the point's text and words by running the sketch's body with these knobs. words, if not NULL, replace the
 * sketch's own. False: a requirement of the sketch does not hold; p->message says which. */
bool tg_space_point(tg_points *s, uint32_t sketch, const int64_t *knob, const char *words, const char *given,
                    tg_point *p);
uint32_t tg_words_count(const char *words);

/* ---- mutate.c ---- */

/* A schedule that differs from this one in one or two words, picked by `random`; NULL: this number leads to none. */
const char *tg_words_mutate(tg_env *env, const char *words, uint64_t random);

/* ---- journal.c: an append-only file with one line for each answered task ---- */

typedef struct tg_journal tg_journal;
/* resume: if the file's key is the same, its answers are reused. Otherwise, and without resume, the journal starts
 * empty. path NULL: no journal is kept. Fails if the file cannot be written. */
tg_journal *tg_journal_open(tg_env *env, const char *path, const char *title, uint64_t key, bool resume);
void tg_journal_close(tg_journal *);
/* Looks up the task of this kind for point `id`, timed against point `against`. True: its answer has been put in t. */
bool tg_journal_find(tg_journal *, uint8_t kind, uint64_t id, uint64_t against, tg_task *t);
void tg_journal_put(tg_journal *, const tg_task *t, const tg_point *p, uint64_t against, const char *knobs);
/* Records that the search ended, its budget (seconds, candidates; 0: unlimited), and its result as text. */
void tg_journal_end(tg_journal *, bool interrupted, double seconds, uint32_t candidates, const char *text);
/* The recorded result, if the search ended with at least this budget; otherwise NULL. */
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
  const char *sketch_name, *words, *text;      /* words NULL: the sketch's own, or the heuristic's */
  tg_binding knob[TG_POINT_KNOBS];
  uint32_t knobs;
  double seconds, default_seconds, gain_low, gain;   /* gain: ln(default / best), 0 if the default stays */
  /* share: fraction of the problem that was timed; 0: all of it. whole_*: seconds of one run of the whole problem, by
   * the winner and by the default; 0: not run, for lack of time */
  double share, whole_seconds, whole_default_seconds;
  const char *why;                                   /* why the default stays; NULL: it does not */
  double flops, bytes, floor, elapsed;
  uint32_t points, lowered, built, timed, dropped, restarts, reused;
  uint32_t outcome[TG_TRIAL__COUNT];
  bool in_process, exact, tuned, interrupted, finished;
} tg_search_result;

typedef struct tg_search_options {
  const tg_sketch_source *sketch;
  uint32_t sketches;
  bool beside;                     /* the last sketch is the caller's own: its default is timed first */
  const tg_binding *bindings;
  uint32_t bindings_n;
  /* If one run of the problem takes too long for a search, `sketch` and `bindings` describe a part of it, and `whole`
   * all of it: the winner on the part is then run once, and checked, on the whole problem. */
  const tg_sketch_source *whole;   /* NULL: sketch and bindings describe the whole problem */
  const tg_binding *whole_bindings;
  const char *whole_checks;
  double share;                    /* the part's fraction of the whole problem */
  const char *start_sketch;        /* name of the sketch to start from; NULL: the first */
  const tg_binding *start;         /* its knobs to start from */
  uint32_t start_n;
  const int64_t *params;
  uint32_t params_n, threads, pool;   /* as in tg_task */
  double seconds;                  /* budget of the whole search; 0: unlimited */
  uint32_t candidates;             /* at most this many are timed; 0: unlimited */
  uint64_t seed;
  uint32_t beam;                   /* number of best points whose neighbours are tried; 0: 4 */
  double patience;                 /* seconds added to every time limit of a task; 0: 3 */
  bool knobs_only;                 /* vary knobs alone, never words */
  const char *const *worker;       /* as in tg_crew_options */
  uint32_t workers;                /* 0: one for each hardware thread */
  const tg_bench *local;           /* as in tg_crew_options */
  const char *target;              /* the CPU to compile for; NULL: the host */
  const char *device;              /* where candidates run, as of tg_device_named; NULL: on the CPU */
  const char *device_target, *machine;   /* as in tg_task */
  const char *folder, *journal;    /* of built objects; path of the journal. NULL: none */
  /* a spool (search/spool.h), for searches with `candidates` and no `seconds`. about: what else answers depend on.
   * NULL: the search is alone */
  const char *spool, *spool_about;
  double lease;                    /* as in tg_spool_open */
  const char *checks;              /* the problem as text, for the checks of its kind; NULL: it has none */
  uint64_t roundings;              /* as in tg_tune_kind */
  bool resume;                     /* as in tg_journal_open */
  int shared;                      /* as in tg_task */
  bool (*stop)(void *user);
  void (*progress)(void *user, const tg_search_event *e);
  void *user;
} tg_search_options;

/* Fails by unwinding in env only if the default itself cannot be built or is wrong. */
void tg_search_run(tg_env *env, const tg_search_options *o, tg_search_result *out);
#endif
