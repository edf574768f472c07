/* SPDX-License-Identifier: MIT
 * Trials: what a search asks of a candidate, who does it, and how the question and its answer travel to a process that
 * may not survive it.
 *
 *   search (tune.c) -> crew (crew.c) -> wire -> worker (serve.c) -> bench (api, or a test's)
 *
 * A bench is one table of functions. A crew without workers calls it in process. */
#ifndef TG_TRIAL_H
#define TG_TRIAL_H
#include "model/cost.h"

typedef enum tg_outcome {
  TG_TRIAL_OK,
  TG_TRIAL_ILLEGAL,        /* a word, a knob or a requirement does not hold: the message says which */
  TG_TRIAL_DUPLICATE,      /* lowers to a program that was tried */
  TG_TRIAL_CRASHED,        /* its process ended */
  TG_TRIAL_HUNG,           /* it took longer than its limit */
  TG_TRIAL_WRONG,          /* another result than the kernel as written */
  TG_TRIAL_LIMIT,          /* no memory, a limit of tg, LLVM's refusal */
  TG_TRIAL_UNBELIEVABLE,   /* faster than the machine can be */
  TG_TRIAL_SLOW,           /* its first run took so much longer than the best's that nothing more was asked */
  TG_TRIAL_SKIPPED,        /* the budget ended first */
  TG_TRIAL__COUNT
} tg_outcome;
const char *tg_outcome_name(tg_outcome o);

typedef enum { TG_TASK_OPEN, TG_TASK_LOWER, TG_TASK_BUILD, TG_TASK_TIME, TG_TASK_CHECKS, TG_TASK__COUNT } tg_task_kind;

enum { TG_QUADS = 64, TG_TRIAL_PARAMS = 16 };

/* A program and its schedule: the author's form without words, then words separated by ';'. Without words the
 * heuristic chooses; given is what it takes as decided ("rows@0=8 unroll@0=4"). */
typedef struct tg_trial { const char *text, *words, *given; } tg_trial;

/* One question, and its answer. Memory of answers is the env's that is given to the function that answers. */
typedef struct tg_task {
  tg_task_kind kind : 8;
  tg_trial trial, against;         /* OPEN: trial.text is the reference; TIME: against whom */
  double limit;                    /* seconds; 0: none */
  /* TIME: at most so many; each is against, trial, trial, against, or a pair where a run is long */
  uint32_t quads;
  double spend;                    /* TIME: seconds of samples, beyond the least that tell anything; 0: none */
  /* BUILD: a first run that takes longer ends it; 0: none does. CHECKS: above 0, one run that is checked whole and
   * timed */
  double give_up;
  /* OPEN only */
  const char *target;              /* whose code it is; NULL: the host */
  const char *folder;              /* of built objects, shared by the workers; NULL: none */
  const char *checks;               /* what the kernel is, for the checks that its kind has; NULL: none */
  int64_t params[TG_TRIAL_PARAMS]; /* of the launch that counts */
  uint32_t params_n, threads;      /* threads: of a launch */
  uint32_t pool;                   /* threads of the context that compiles, which its heuristic counts on; 0: as many */
  uint64_t seed;
  int shared;                      /* file that the reference's results are kept in; -1: none */
  bool make;                       /* and this one is to make them */
  /* the answer */
  tg_outcome outcome : 8;
  const char *message;             /* NULL: nothing to say */
  const char *words;               /* LOWER: the schedule in use, the heuristic's as well */
  /* LOWER: the heuristic's decisions and what else is worth a try: "rows@0=14:8,12;unroll@0=2:1,4" */
  const char *choices;
  uint64_t hash;                   /* LOWER: of the lowered program */
  tg_cost cost;                    /* LOWER */
  double floor, slowest;           /* OPEN: no run takes less, in seconds; none takes longer unless it hangs */
  double flops, bytes;             /* OPEN: of one run, as written */
  bool exact;                      /* OPEN: results are compared bit for bit as well */
  double seconds, against_seconds; /* TIME: medians of a run. BUILD: the shortest. CHECKS: of the one run */
  double gain[TG_QUADS];           /* TIME: ln(against / trial) of each quad that counts */
  uint32_t n, dropped;             /* TIME: quads that count, quads whose probe dipped */
} tg_task;

/* Who answers. Called one at a time; may fail by unwinding in env, which the caller takes for TG_TRIAL_LIMIT. */
typedef struct tg_bench {
  void *self;
  void (*open)(void *self, tg_env *env, tg_task *t);
  void (*lower)(void *self, tg_env *env, tg_task *t);
  void (*build)(void *self, tg_env *env, tg_task *t);   /* compiles, runs, checks */
  void (*time)(void *self, tg_env *env, tg_task *t);
  void (*checks)(void *self, tg_env *env, tg_task *t);   /* what a candidate must pass besides before it may win */
} tg_bench;

/* ---- wire.c: questions and answers as bytes. What cannot be read is false: an answer comes from a process that ran
 * anything ---- */

typedef struct { uint32_t magic, bytes; uint64_t serial, sum; } tg_wire_header;
void tg_wire_ask(tg_str *out, const tg_task *t, uint64_t serial);
void tg_wire_answer(tg_str *out, const tg_task *t, uint64_t serial);
bool tg_wire_frame(const tg_wire_header *f);                        /* is it one, and of a size to be believed? */
bool tg_wire_read_ask(tg_env *env, const tg_wire_header *f, const char *payload, tg_task *t);
bool tg_wire_read_answer(tg_env *env, const tg_wire_header *f, const char *payload, uint64_t serial, tg_task *t);

/* ---- serve.c: a worker ---- */

/* Answers until `in` ends. Each question but OPEN is answered by a child process, so whatever a candidate does ends
 * with it. */
void tg_serve(const tg_bench *bench, int in, int out);
/* Calls the bench's function for t->kind; an error of the env becomes the outcome. */
void tg_bench_run(const tg_bench *bench, tg_env *env, tg_task *t);

/* ---- crew.c: workers from the side of the search ---- */

typedef struct tg_crew tg_crew;
typedef struct tg_crew_options {
  const char *const *worker;       /* program and arguments, NULL behind the last; NULL: in process */
  const tg_bench *local;           /* who answers then */
  uint32_t workers;
  bool (*stop)(void *user);        /* asked while waiting: true ends it; may be NULL */
  void *user;
} tg_crew_options;
tg_crew *tg_crew_open(tg_env *env, const tg_crew_options *o);   /* memory is the env's */
void tg_crew_close(tg_crew *);                                  /* ends the workers; call it whatever happened */
/* The problem that all that follows is about: fills in the answer of the first worker's OPEN. */
void tg_crew_problem(tg_crew *, tg_task *open);
/* All tasks, on at most `parallel` workers; each has its outcome afterwards. */
void tg_crew_run(tg_crew *, tg_task *tasks, uint32_t n, uint32_t parallel);
void tg_crew_fresh(tg_crew *);                                  /* new workers from here on */
uint32_t tg_crew_restarts(const tg_crew *);

/* ---- decide.c: is one faster than the other? ---- */

/* ln(against / trial): an interval of 95 %, and its middle */
typedef struct { double low, gain, high; bool faster, slower; } tg_verdict_of_times;
/* faster: low is above margin. slower: high is below it, so more samples cannot help. Neither from less than 6. */
tg_verdict_of_times tg_decide(const double *gain, uint32_t n, double margin);

/* May sampling end here? Almost sure of faster, sure of slower, or hopeless from the start. */
bool tg_decided(const double *gain, uint32_t n, double margin);
bool tg_hopeless(const double *gain, uint32_t n);   /* it loses every time; quads of busy moments say so as well */

/* ---- probe.c: how fast is the machine at this moment? ---- */

double tg_thread_now(void);                                     /* seconds that this thread has run */
/* FLOP/s of narrow vectors in registers, all ports busy */
double tg_probe_flops(double seconds, double (*now)(void));
double tg_probe_stream(const void *data, size_t bytes, double (*now)(void));   /* bytes/s of reading it */
#endif
