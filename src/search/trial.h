/* SPDX-License-Identifier: MIT
 * Trials: the tasks of a search on a candidate (lower, build, time), the process that does them, and the protocol that
 * carries a task and its answer to a process that the candidate may crash.
 *
 *   search (tune.c) -> crew (crew.c) -> wire -> worker (serve.c) -> bench (api, or a test's)
 *
 * A bench is a table of functions that does the tasks. A crew without workers calls it in its own process. */
#ifndef TG_TRIAL_H
#define TG_TRIAL_H
#include "model/cost.h"

typedef enum tg_outcome {
  TG_TRIAL_OK,
  TG_TRIAL_ILLEGAL,        /* a word, a knob or a requirement is not legal: the message says which */
  TG_TRIAL_DUPLICATE,      /* lowers to a program that was already tried */
  TG_TRIAL_CRASHED,        /* its process ended */
  TG_TRIAL_HUNG,           /* it took longer than its limit */
  TG_TRIAL_WRONG,          /* its result differs from that of the kernel as written */
  TG_TRIAL_LIMIT,          /* out of memory, beyond a limit of tg, or refused by LLVM */
  TG_TRIAL_UNBELIEVABLE,   /* timed faster than the machine can compute */
  TG_TRIAL_SLOW,           /* dropped: its first run was much slower than the best's */
  TG_TRIAL_SKIPPED,        /* the budget ended first */
  TG_TRIAL__COUNT
} tg_outcome;
const char *tg_outcome_name(tg_outcome o);

typedef enum { TG_TASK_OPEN, TG_TASK_LOWER, TG_TASK_BUILD, TG_TASK_TIME, TG_TASK_CHECKS, TG_TASK__COUNT } tg_task_kind;

enum { TG_QUADS = 64, TG_TRIAL_PARAMS = 16 };

/* A program and its schedule. text: the kernel as written, without words. words: separated by ';'; NULL: the heuristic
 * chooses them. given: decisions that the heuristic must keep, as "rows@0=8 unroll@0=4"; NULL: none. */
typedef struct tg_trial { const char *text, *words, *given; } tg_trial;

/* One task and its answer. Strings of the answer are allocated in the env of the function that answers. Fields are for
 * all kinds unless they name one. */
typedef struct tg_task {
  tg_task_kind kind : 8;
  tg_trial trial, against;         /* OPEN: trial.text is the reference. TIME: against: the opponent */
  double limit;                    /* seconds; a worker that takes longer is killed; 0: never */
  /* The limit counts what the task runs, not how long other processes make it wait: the worker ends it when each of its
   * threads may have run for as long, or when it has stopped running (serve.c) */
  bool work;
  /* TIME: at most this many samples; 0: TG_QUADS. A sample is a quad: against, trial, trial, against, or the other way
   * round; if one run takes milliseconds, it is a pair: against, trial, or the other way round */
  uint32_t quads;
  double spend;                    /* TIME: seconds to sample for, once the minimum number is taken; 0: no limit */
  /* BUILD: a first run of more seconds ends the task as TG_TRIAL_SLOW; 0: no limit. CHECKS: above 0: do a single run,
   * timed, and check all of its result */
  double give_up;
  /* OPEN only */
  const char *target;              /* the CPU to compile for; NULL: the host */
  const char *device;              /* where candidates run, as of tg_device_named; NULL: on the CPU */
  /* the bytes of the device's tg_target as hexadecimal digits, for lowering, which need not open it; NULL: unknown */
  const char *device_target;
  const char *machine;             /* a row of the user's own, as tg_machine_file_print has it; NULL: the tree's */
  const char *folder;              /* cache of built objects, shared by the workers; NULL: none */
  const char *checks;              /* the problem as text, for the checks of its kind; NULL: it has none */
  uint64_t roundings;              /* as in tg_tune_kind */
  int64_t params[TG_TRIAL_PARAMS]; /* of the launch that is timed */
  uint32_t params_n, threads;      /* threads: of each launch; told with every task */
  uint32_t pool;                   /* threads that the heuristic schedules for; 0: the same as `threads` */
  uint64_t seed;                   /* of the input data */
  int shared;                      /* descriptor of the file with inputs and expected results; -1: none */
  bool make;                       /* this worker fills the shared file; the others only read it */
  /* the answer */
  tg_outcome outcome : 8;
  const char *message;             /* NULL: nothing to say */
  const char *words;               /* LOWER: the full schedule, whoever chose it */
  /* LOWER: the heuristic's decisions with their alternatives, as "rows@0=14:8,12;unroll@0=2:1,4" */
  const char *decisions;
  uint64_t hash;                   /* LOWER: of the lowered program */
  tg_cost cost;                    /* LOWER */
  /* OPEN: bounds of a run's seconds: below floor the timing is wrong, above slowest the run counts as hung */
  double floor, slowest;
  double flops, bytes;             /* OPEN: of one run, as written */
  bool exact;                      /* OPEN: at least one set of inputs is compared bit for bit */
  double seconds, against_seconds; /* of a run. TIME: medians. BUILD: the shortest. CHECKS: the only one */
  double gain[TG_QUADS];           /* TIME: ln(against's seconds / trial's) of each quad that was kept */
  uint32_t n, dropped;             /* TIME: quads kept; quads dropped because their probe ran slow */
} tg_task;

/* Does the tasks. Its functions are called one at a time. They may fail by unwinding in env; the caller reports that as
 * TG_TRIAL_LIMIT. */
typedef struct tg_bench {
  void *self;
  void (*open)(void *self, tg_env *env, tg_task *t);
  void (*lower)(void *self, tg_env *env, tg_task *t);
  void (*build)(void *self, tg_env *env, tg_task *t);   /* compiles, runs, checks */
  void (*time)(void *self, tg_env *env, tg_task *t);
  void (*checks)(void *self, tg_env *env, tg_task *t);   /* the kind's checks, which a candidate must pass to win */
} tg_bench;

/* ---- wire.c: tasks and answers as bytes. Reads return false on malformed input: an answer comes from a process that
 * ran untrusted code ---- */

typedef struct { uint32_t magic, bytes; uint64_t serial, sum; } tg_wire_header;
void tg_wire_ask(tg_str *out, const tg_task *t, uint64_t serial);
void tg_wire_answer(tg_str *out, const tg_task *t, uint64_t serial);
bool tg_wire_frame(const tg_wire_header *f);                        /* right magic number, and a plausible size? */
bool tg_wire_read_ask(tg_env *env, const tg_wire_header *f, const char *payload, tg_task *t);
bool tg_wire_read_answer(tg_env *env, const tg_wire_header *f, const char *payload, uint64_t serial, tg_task *t);

/* ---- serve.c: a worker ---- */

/* Does tasks until `in` ends. Each task but OPEN is done by a child process, so that what a candidate breaks is gone
 * when the child ends. */
void tg_serve(const tg_bench *bench, int in, int out);
/* Calls the bench's function for t->kind. A failure in env becomes t->outcome. */
void tg_bench_run(const tg_bench *bench, tg_env *env, tg_task *t);

/* ---- crew.c: the search's side of the workers ---- */

typedef struct tg_crew tg_crew;
typedef struct tg_crew_options {
  const char *const *worker;       /* argv of a worker, ending in NULL; NULL: tasks are done in process */
  const tg_bench *local;           /* does them if worker is NULL */
  uint32_t workers;
  bool (*stop)(void *user);        /* polled while waiting: true ends the wait; may be NULL */
  void *user;
} tg_crew_options;
tg_crew *tg_crew_open(tg_env *env, const tg_crew_options *o);   /* memory is the env's */
void tg_crew_close(tg_crew *);                                  /* ends the workers; call it after a failure too */
/* Sets the problem of all later tasks, and fills in the answer from the first worker's OPEN. */
void tg_crew_problem(tg_crew *, tg_task *open);
/* Does all tasks, on at most `parallel` workers at once. On return each task has its outcome. */
void tg_crew_run(tg_crew *, tg_task *tasks, uint32_t n, uint32_t parallel);
void tg_crew_fresh(tg_crew *);                                  /* ends the workers; later tasks start new ones */
uint32_t tg_crew_restarts(const tg_crew *);

/* ---- decide.c: is one faster than the other? ---- */

/* The median of ln(against / trial) and its 95 % interval; above 0 the trial is faster. */
typedef struct { double low, gain, high; bool faster, slower; } tg_verdict_of_times;
/* faster: low > margin. slower: high < margin, so more samples cannot help. Both are false below 6 samples. */
tg_verdict_of_times tg_decide(const double *gain, uint32_t n, double margin);

/* May sampling stop now? True if the trial is faster (at a stricter level than 95 %), slower, or hopeless. */
bool tg_decided(const double *gain, uint32_t n, double margin);
bool tg_hopeless(const double *gain, uint32_t n);   /* it lost every sample clearly; pass dropped ones too */
/* It lost both of two samples by more than the margin, or three and more in their median: no proof, but where a sample
 * takes seconds, the time goes to another candidate. */
bool tg_behind(const double *gain, uint32_t n, double margin);

/* ---- probe.c: how fast is the machine at this moment? ---- */

double tg_thread_now(void);                                     /* CPU seconds of this thread */
/* FLOP/s of 16-byte vectors held in registers, all ports busy; runs for `seconds` by the clock `now` */
double tg_probe_flops(double seconds, double (*now)(void));
double tg_probe_stream(const void *data, size_t bytes, double (*now)(void));   /* bytes/s of reading data */
#endif
