/* SPDX-License-Identifier: MIT
 * The bench of a search on this machine's CPU: compiles in a context of its own, checks results on operands between
 * guard pages, and times two kernels in alternation. */
#ifndef TG_API_TRIAL_H
#define TG_API_TRIAL_H
#include "base/guard.h"
#include "compile/compile.h"
#include "devices/device.h"
#include "search/trial.h"
#include "trial/there.h"
#include "model/work.h"
#include "tg/device.h"
#include "tg/tune.h"

/* The checks of a kind of kernels, for all launches that the kind allows; run in a process that a fault may end. about:
 * the problem, in the kind's own text format. TG_EINVAL: k is wrong, and message says how. Any other failure: the
 * checks could not be done. whole not NULL: does a single run instead, at the sizes of the problem, checks all of its
 * result, and stores the run's seconds in *whole. */
typedef tg_status tg_trial_checks(tg_context *c, const char *about, tg_kernel *k, const char *words, int threads,
                                  uint64_t seed, double *whole, char *message, size_t message_n);

/* Returns NULL if out of memory; uses the default allocator. checks: for problems with an `about` text; may be NULL. */
tg_bench *tg_trial_bench_new(tg_trial_checks *checks);
void tg_trial_bench_free(tg_bench *);

/* A kind of kernels with checks of its own. The worker program must have these checks linked in. */
typedef struct tg_tune_kind {
  tg_trial_checks *checks;
  const char *about;                 /* the problem, as text for the checks */
  /* bindings, in place of the options', of the part of the problem that candidates are timed on; NULL: the whole */
  const tg_binding *part;
  void *part_user;                   /* passed to the kernels' bodies for the part */
  const char *part_about;            /* the part, as text for the checks */
  double share;                      /* the part's fraction of the problem */
  /* For kernels whose text shares a sum out to many accumulators, by knobs: the roundings of f32 behind one another in
   * the longest order that a candidate may sum in. The reference as written, itself in one of these orders, says little
   * about the error of another. So their random walk, 2 sqrt(n) u, is allowed beside what the reference's error allows;
   * checks of the kind hold a candidate to a bound of its own. 0: as written is the longest order */
  uint64_t roundings;
} tg_tune_kind;
tg_status tg_tune_checked(tg_context *c, const tg_kernel_def *const *defs, uint32_t n, const tg_tune_options *o,
                          const tg_tune_kind *kind, tg_tune_result **out);

/* ---- internal to src/trial ---- */

#define TG_TRIAL_AS_WRITTEN 4e8   /* up to this many operations the reference is compiled without a schedule */

enum { TRIAL_BUFFERS = 64, TRIAL_LAUNCHES = 4 };
typedef enum {
  TRIAL_EXACT,     /* small integers: results are compared bit for bit */
  TRIAL_ENDLESS /* the same with some infinities and NaNs */,
  TRIAL_RANDOM,    /* random numbers: compared within a tolerance */
  TRIAL_KINDS
} tg_trial_kind;

typedef struct tg_trial_operand {
  const char *name;
  tg_type type;
  bool read, written;
  size_t bytes, n;
  int64_t lo, hi;              /* its integer inputs are in lo..hi */
  /* if read: offsets in the shared memory of its integer and its random data; 0: not stored */
  size_t input[2];
  /* if written: offsets of its expected results, by kind. wide: the same in f64, for floats under TRIAL_RANDOM */
  size_t want[TRIAL_KINDS], wide;
} tg_trial_operand;

/* The parameters of a launch and its operands. A kernel with sizes known only at launch is checked at several. */
typedef struct tg_trial_launch {
  int64_t params[TG_TRIAL_PARAMS];
  tg_trial_operand op[TRIAL_BUFFERS];
} tg_trial_launch;

typedef struct tg_trial_state {
  tg_bench bench;
  tg_trial_checks *checks;
  const char *about;           /* the problem, as text for checks; NULL: it has none */
  uint64_t roundings;          /* as in tg_tune_kind */
  tg_env env;                  /* lives as long as the problem */
  bool live;                   /* a problem is open */
  tg_context *ctx;
  tg_job *job;                 /* holds the reference, as written */
  const tg_uop *author;        /* the reference's program */
  /* the reference as text; with f64, and with f32, for each float; with part of its iterations. NULL: impossible */
  const char *text, *wide, *narrow, *slab;
  tg_work_size work;
  bool asked[TRIAL_KINDS];     /* kinds of data that are checked */
  tg_trial_launch *launch;     /* launch[0] is the one that is timed */
  uint32_t launches, now;      /* now: the current launch, which op and params point into */
  tg_trial_operand *op;
  int64_t *params;
  uint32_t n, params_n;
  int threads;
  uint64_t seed;
  char *shared;                /* the shared memory: a header, expected results, inputs */
  size_t shared_bytes, page;
  int file;                    /* the file mapped at shared */
  bool own_file;               /* this process created the file */
  uint64_t *table;             /* scratch for making inputs: table of values to draw from */
  tg_guarded retyped[TRIAL_BUFFERS];   /* by operand: memory for the reference in f64 or f32 */
  double run_seconds;          /* of the last run between guard pages, or regions */
  const tg_kernel *warm;       /* the kernel that is checked, once it has run on the device */
  /* where candidates run, as of tg_device_named; NULL: on the host's CPU. opened, queue: once a task has needed
   * them */
  const char *device;
  tg_device *opened;
  tg_queue *queue;
  /* what lowering sees of the device, of which no more than the target is there; `closed.target` NULL: unknown */
  tg_target target;
  tg_device closed;
  const char *beside;          /* what the last run between guard regions wrote beside its operands; NULL: nothing */
} tg_trial_state;

void tg_trial_use(tg_trial_state *s, uint32_t launch);

/* memory.c: inputs, expected results, and memory between guard pages. All fail by unwinding in env. */

/* Lays out the shared memory, and maps t->shared, or a file of its own. Makes the inputs if t->make. */
void tg_trial_share(tg_trial_state *s, tg_env *env, const tg_task *t);
void tg_trial_unshare(tg_trial_state *s);
void tg_trial_done(tg_trial_state *s);                                   /* marks the expected results as complete */
bool tg_trial_made(const tg_trial_state *s);                             /* are they complete? */
void tg_trial_fill(const tg_trial_state *s, uint32_t b, tg_trial_kind kind, void *data);
/* the operand's data in the shared memory; NULL: not stored there */
const void *tg_trial_input(const tg_trial_state *s, uint32_t b, tg_trial_kind kind);
/* Memory for operand b in another type; valid until the next call for b. */
void *tg_trial_room(tg_trial_state *s, tg_env *env, uint32_t b, size_t bytes);
/* Where the error of the kernel as written, in its own types, is kept for operand b. */
double *tg_trial_own_error(const tg_trial_state *s, uint32_t b);
/* Is this launch checked with this kind of data? Launch 0 is, with every kind that is asked. So are other launches if
 * the kernel is quick; else they are checked with the strictest kind alone. */
bool tg_trial_asks(const tg_trial_state *s, uint32_t launch, tg_trial_kind kind);
/* One run, with each operand right before a guard page (at_end) or right behind one. The caller drops g, even after a
 * failure. */
void tg_trial_run_guarded(tg_trial_state *s, tg_env *env, tg_kernel *k, tg_trial_kind kind, bool at_end, tg_guarded *g);
bool tg_trial_at_end(const tg_trial_state *s, tg_trial_kind kind);   /* the end at which its shared inputs are */
bool tg_trial_untouched(const tg_guarded *g);                             /* is the memory around it unchanged? */
void tg_trial_drop(tg_guarded *g, uint32_t n);

/* device.c: candidates on a device. candidate: compiles one for it, or for the CPU. device: NULL: the CPU */
tg_device *tg_trial_device(tg_trial_state *s, tg_env *env);
tg_kernel *tg_trial_candidate(tg_trial_state *s, tg_env *env, const tg_trial *t);
/* The operands of the current launch there (trial/there.h). fetch: what was written that must not be, or NULL. */
void tg_trial_there_open(tg_trial_state *s, tg_env *env, const tg_argument *here, tg_there *t);
const char *tg_trial_there_fetch(tg_trial_state *s, tg_env *env, const tg_there *t, const tg_argument *here);
/* Seconds of a launch by the device's clock, as the mean of `inner`. */
double tg_trial_there_run(tg_trial_state *s, tg_env *env, tg_kernel *k, const tg_argument *args, uint32_t inner);
/* One run on copies between guard regions: sets run_seconds and beside. */
void tg_trial_there_guarded(tg_trial_state *s, tg_env *env, tg_kernel *k, const tg_argument *here);

/* check.c: compares results with the expected ones */
void tg_trial_make(tg_trial_state *s, tg_env *env);   /* puts the expected results in shared memory */
void tg_trial_check(tg_trial_state *s, tg_env *env, tg_kernel *k, tg_task *t);
/* Compares data with the expected result of operand b. NULL: it agrees; else a message. */
const char *tg_trial_judge(const tg_trial_state *s, tg_env *env, uint32_t b, tg_trial_kind kind, const void *data);

/* slab.c: the kernel's text with only this share of the iterations of its outermost loop. NULL: the kernel is not one
 * loop with independent iterations. */
const char *tg_trial_slab(tg_job *j, tg_env *env, const tg_uop *author, double share);
const char *tg_trial_judge_slab(const tg_trial_state *s, tg_env *env, uint32_t b, tg_trial_kind kind, const void *slab);

/* time.c */
void tg_trial_time(tg_trial_state *s, tg_env *env, tg_kernel *trial, tg_kernel *against, tg_task *t);
void tg_trial_bounds(const tg_trial_state *s, tg_task *t);   /* sets t->floor and t->slowest */
/* FLOP/s that one thread can nearly reach, measured now. least_bytes: size of the narrowest element type. */
double tg_trial_rate(const tg_target *t, int least_bytes);

/* Fails in env unless st is TG_OK. */
void tg_trial_expect(tg_trial_state *s, tg_env *env, tg_status st);
tg_kernel *tg_trial_compile(tg_trial_state *s, tg_env *env, const char *text, const char *words, uint32_t flags);
#endif
