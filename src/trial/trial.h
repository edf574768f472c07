/* SPDX-License-Identifier: MIT
 * The bench of a search on this machine's processor: compiles through a context of its own, checks between guard pages,
 * times in turns. */
#ifndef TG_API_TRIAL_H
#define TG_API_TRIAL_H
#include "base/guard.h"
#include "compile/compile.h"
#include "search/trial.h"
#include "model/work.h"
#include "tg/tune.h"

/* Checks of a kind of kernels, in a process that may end by them: is k right wherever it may be launched? about says
 * what it is, as its kind writes it. TG_EINVAL: it is not, and message tells how; anything else but TG_OK: it could
 * not be told. whole, if not NULL: one run alone, at the sizes that count, all of whose result is checked; it gets
 * its seconds. */
typedef tg_status tg_trial_checks(tg_context *c, const char *about, tg_kernel *k, const char *words, int threads,
                                  uint64_t seed, double *whole, char *message, size_t message_n);

/* NULL: out of memory. Of the default allocator. checks (may be NULL): for problems that say what they are. */
tg_bench *tg_trial_bench_new(tg_trial_checks *checks);
void tg_trial_bench_free(tg_bench *);

/* What is known of a kind of kernels that has checks. Workers are programs that know them. */
typedef struct tg_tune_kind {
  tg_trial_checks *checks;
  const char *about;                 /* the problem, for them */
  /* the options' bindings for a part of the problem, which candidates are timed on; NULL: on all of it */
  const tg_binding *part;
  void *part_user;                   /* for the kernels' bodies */
  const char *part_about;
  double share;                      /* of the problem, that the part is */
} tg_tune_kind;
tg_status tg_tune_checked(tg_context *c, const tg_kernel_def *const *defs, uint32_t n, const tg_tune_options *o,
                          const tg_tune_kind *kind, tg_tune_result **out);

/* ---- what its files share ---- */

#define TG_TRIAL_AS_WRITTEN 4e8   /* operations up to which the reference runs without a schedule */

enum { TRIAL_BUFFERS = 64, TRIAL_LAUNCHES = 4 };
typedef enum {
  TRIAL_EXACT,
  TRIAL_ENDLESS /* the same with some numbers infinite or none */,
  TRIAL_RANDOM,
  TRIAL_KINDS
} tg_trial_kind;

typedef struct tg_trial_operand {
  const char *name;
  tg_type type;
  bool read, written;
  size_t bytes, n;
  int64_t lo, hi;              /* whole numbers that may stand in it */
  /* read: where its pages stand in the shared memory, of whole numbers and of real ones; 0: nowhere */
  size_t input[2];
  /* written: where what is expected stands. wide: in f64, of floats under TRIAL_RANDOM */
  size_t want[TRIAL_KINDS], wide;
} tg_trial_operand;

/* Where sizes are known at launch only, what is built for them all is checked at several. */
typedef struct tg_trial_launch {
  int64_t params[TG_TRIAL_PARAMS];
  tg_trial_operand op[TRIAL_BUFFERS];
} tg_trial_launch;

typedef struct tg_trial_state {
  tg_bench bench;
  tg_trial_checks *checks;
  const char *about;           /* NULL: the problem has no checks */
  tg_env env;                  /* as long as the problem */
  bool live;
  tg_context *ctx;
  tg_job *job;                 /* the reference as written */
  const tg_uop *author;        /* its program */
  /* of it; of it with f64, with f32 for each float, of a part of its iterations: NULL if there is no such form */
  const char *text, *wide, *narrow, *slab;
  tg_work_size work;
  bool asked[TRIAL_KINDS];
  tg_trial_launch *launch;     /* the first is the one that counts */
  uint32_t launches, now;      /* which one the next two are of */
  tg_trial_operand *op;
  int64_t *params;
  uint32_t n, params_n;
  int threads;
  uint64_t seed;
  char *shared;                /* a header, what is expected, the inputs */
  size_t shared_bytes, page;
  int file;                    /* that it is mapped from */
  bool own_file;
  uint64_t *table;             /* of values, while inputs are made */
  tg_guarded retyped[TRIAL_BUFFERS];   /* operands of the reference in other types */
  double run_seconds;          /* of the last run between guard pages */
} tg_trial_state;

void tg_trial_use(tg_trial_state *s, uint32_t launch);

/* memory.c: inputs by the seed, what is expected, memory between pages that fault. All fail by unwinding in env. */
/* places for all of it, and the memory: of the file, or its own; the inputs, if t is to make them */
void tg_trial_share(tg_trial_state *s, tg_env *env, const tg_task *t);
void tg_trial_unshare(tg_trial_state *s);
void tg_trial_done(tg_trial_state *s);                                   /* all results are there */
bool tg_trial_made(const tg_trial_state *s);
void tg_trial_fill(const tg_trial_state *s, uint32_t b, tg_trial_kind kind, void *data);
/* where that stands already; NULL: nowhere */
const void *tg_trial_input(const tg_trial_state *s, uint32_t b, tg_trial_kind kind);
/* for an operand in another type, until the next of b */
void *tg_trial_room(tg_trial_state *s, tg_env *env, uint32_t b, size_t bytes);
/* of the kernel as written, in its own types */
double *tg_trial_own_error(const tg_trial_state *s, uint32_t b);
/* Is a launch run under this kind? The first under all; where the kernel takes long, others, which differ from it in
 * how operands lie, under the strictest alone. */
bool tg_trial_asks(const tg_trial_state *s, uint32_t launch, tg_trial_kind kind);
/* One run, each operand right before a page that faults, or right behind one. The caller drops g, whatever happens. */
void tg_trial_run_guarded(tg_trial_state *s, tg_env *env, tg_kernel *k, tg_trial_kind kind, bool at_end, tg_guarded *g);
bool tg_trial_at_end(const tg_trial_state *s, tg_trial_kind kind);        /* where a kind's inputs stand already */
bool tg_trial_untouched(const tg_guarded *g);                      /* what lies around the operand */
void tg_trial_drop(tg_guarded *g, uint32_t n);

/* check.c: results against what is expected */
void tg_trial_make(tg_trial_state *s, tg_env *env);                      /* into the shared memory */
void tg_trial_check(tg_trial_state *s, tg_env *env, tg_kernel *k, tg_task *t);
/* Does what stands in data agree? A message if not. */
const char *tg_trial_judge(const tg_trial_state *s, tg_env *env, uint32_t b, tg_trial_kind kind, const void *data);

/* slab.c: text of the kernel for a share of the iterations of its outermost loop, NULL if it is no single loop of
 * independent ones */
const char *tg_trial_slab(tg_job *j, tg_env *env, const tg_uop *author, double share);
const char *tg_trial_judge_slab(const tg_trial_state *s, tg_env *env, uint32_t b, tg_trial_kind kind, const void *slab);

/* time.c */
void tg_trial_time(tg_trial_state *s, tg_env *env, tg_kernel *trial, tg_kernel *against, tg_task *t);
void tg_trial_bounds(const tg_trial_state *s, tg_task *t);   /* between which a run's time lies */
/* FLOP/s that a thread comes near to, as measured now; elements of so many bytes */
double tg_trial_rate(const tg_target *t, int least_bytes);

/* Fails in env unless st is TG_OK. */
void tg_trial_expect(tg_trial_state *s, tg_env *env, tg_status st);
tg_kernel *tg_trial_compile(tg_trial_state *s, tg_env *env, const char *text, const char *words, uint32_t flags);
#endif
