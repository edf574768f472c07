/* SPDX-License-Identifier: MIT
 * Tuning: a search for the knobs and the words of a schedule that make a kernel fastest on this machine. Part of
 * libtg_jit.a.
 *
 *   tg_tune_result *r;
 *   tg_tune_options o = {.bindings = sizes, .bindings_n = 3, .seconds = 20,
 *                        .worker = (const char *const[]){"/usr/bin/tg", "worker", NULL}};
 *   if (tg_tune(ctx, &def, 1, &o, &r) == TG_OK) printf("%.2f times as fast\n", r->default_seconds / r->seconds);
 *   tg_tune_result_free(r);
 *
 * Every candidate runs in a separate process, on memory between guard pages, and must give the results of the kernel
 * as written before it is timed. A candidate is chosen only if it was faster than the default by more than the noise,
 * twice, in two processes; else the default stays. If the context has a folder of tuned choices
 * (tg_context_options.tuned) the choice is kept there, and TG_COMPILE_TUNED and tg_kernel_compile_tuned use it.
 * docs/tuning.md describes the search in full. */
#ifndef TG_TUNE_H
#define TG_TUNE_H
#include "tg/tg.h"
#ifdef __cplusplus
extern "C" {
#endif

/* The outcome of a candidate. */
typedef enum tg_tune_class {
  TG_TUNE_RIGHT,         /* it was built and checked, and timed if its turn came */
  TG_TUNE_ILLEGAL,       /* a word or a knob is not legal here, or a tg_require does not hold */
  TG_TUNE_DUPLICATE,     /* it lowers to a program that was tried before */
  TG_TUNE_CRASHED, TG_TUNE_HUNG,
  TG_TUNE_WRONG,         /* its results differ from those of the kernel as written */
  TG_TUNE_LIMIT,         /* out of memory, past a limit of tg, or refused by LLVM */
  TG_TUNE_UNBELIEVABLE,  /* its time is below tg_tune_result.floor, so the measurement must be wrong */
  TG_TUNE_SLOW,          /* its first run took so much longer than the best's that it was not timed further */
  TG_TUNE_SKIPPED,       /* the time or the number of candidates ran out before it */
  TG_TUNE_CLASSES
} tg_tune_class;

typedef enum tg_tune_what {
  TG_TUNE_OPENED,
  TG_TUNE_LOWERED,
  TG_TUNE_BUILT,
  TG_TUNE_TIMED,
  TG_TUNE_BEST,
  TG_TUNE_CONFIRM,
  TG_TUNE_END
} tg_tune_what;

typedef struct tg_tune_result {
  const char *kernel;              /* name of the kernel chosen */
  uint32_t sketch;                 /* its index among the n kernels given */
  const tg_binding *knobs;         /* its knobs */
  uint32_t knobs_n;
  const char *words;               /* the words in use, separated by "; "; NULL: what the heuristic chooses */
  int tuned;                       /* 0: the default stays */
  int kept;                        /* 1: the choice is in the folder of tuned choices */
  const char *file;                /* path of the choice in that folder; NULL: it is not kept */
  double seconds, default_seconds; /* time of one run: of the choice, of the default */
  /* default_seconds / seconds - 1: the median over pairs of runs, and the lower end of its 95 % interval */
  double gain, gain_low;
  /* operations of one run of the kernel as written, and bytes of its operands: each counts once if it is read, and once
   * if it is written */
  double flops, bytes;
  /* seconds: half of the time that the operations of one run take at the machine's peak rate. A shorter time counts as
   * an error of measurement. 0: no bound, since the operations are few or depend on conditions */
  double floor;
  double elapsed;                  /* seconds that the search took */
  uint32_t points, lowered, built, timed;   /* numbers of candidates that reached each step */
  uint32_t classes[TG_TUNE_CLASSES];        /* numbers of candidates by outcome */
  /* samples (pairs of runs, or pairs of pairs) left out because other work slowed the machine down while they were
   * taken */
  uint32_t dropped;
  uint32_t restarts;               /* times that a worker process was started again */
  uint32_t reused;                 /* answers taken from the journal */
  int in_process;                  /* 1: no worker was given, so a candidate that crashes ends the program */
  int exact;                       /* 1: results were also compared bit for bit */
  /* 1: the journal holds this same search, already finished, so no candidate was run. why says how it ended */
  int finished;
  int interrupted;                 /* 1: ended by stop; the choice is the best so far, and was not confirmed */
  /* above 0: a run takes so long that candidates were timed on this fraction of the problem; seconds,
   * default_seconds and flops are extrapolated to the whole problem */
  double share;
  /* if share is above 0: seconds of the one run of the whole problem, by the choice and by the default; 0: there was
   * no time for it */
  double whole_seconds, whole_default_seconds;
  const char *why;                 /* why the default stays; NULL: it does not stay */
  /* tg_gemm_tune: number of strips of C, one per thread, that make up the product; the kernel of one strip was tuned.
   * 0: the kernel of the whole product was tuned */
  uint32_t strips;
} tg_tune_result;

typedef struct tg_tune_progress {
  tg_tune_what what;
  const tg_tune_result *so_far;    /* its kernel, knobs and words are set at the end only */
  const char *candidate;           /* NULL, or "kernel KNOB=value .." */
  const char *words;               /* words of the candidate; NULL: none */
  /* how the candidate differs from its kernel beyond the knobs: changed decisions of the heuristic, or words; NULL: in
   * nothing */
  const char *change;
  tg_tune_class outcome;
  const char *message;             /* reason for the outcome, or NULL */
  double seconds, score;           /* TIMED: time of one run; ln(seconds / seconds of the default) */
  double elapsed;                  /* seconds since the search began */
} tg_tune_progress;

enum {                             /* tg_tune_options.flags */
  TG_TUNE_KNOBS_ONLY = 1,          /* search over knobs only; words stay as they are */
  /* reuse the answers in the journal; a search that is finished there continues only if it is now given more seconds
   * or more candidates */
  TG_TUNE_RESUME = 2,
  TG_TUNE_NOT_KEPT = 4             /* report the choice, but do not keep it in the folder of tuned choices */
};

typedef struct tg_tune_options {   /* zero means default */
  const tg_binding *bindings;      /* as in tg_compile_options */
  uint32_t bindings_n;
  void *user;                      /* passed to the kernels' bodies */
  const char *kernel;              /* name of the kernel to take from a text that has several. NULL: the first */
  /* knobs of the first kernel (of start_kernel, if that is given) where the search starts, and which count as its
   * default; NULL: each knob's first value */
  const tg_binding *start;
  uint32_t start_n;
  /* run-time parameters of the launch that is timed, all that the kernel has; NULL: the largest values */
  const int64_t *params;
  uint32_t params_n;
  double seconds;                  /* time for the whole search, exceeded if reference and default alone need more;
                                    * 0: 20 */
  uint32_t candidates;             /* most candidates to time; 0: no bound */
  uint64_t seed;                   /* of the random numbers */
  uint32_t beam;                   /* points that new candidates are derived from; 0: 4 */
  /* program and arguments, ended by NULL, of a worker: a program that calls tg_tune_worker, such as
   * {"tg", "worker", NULL}. NULL: candidates run in this process */
  const char *const *worker;
  uint32_t workers;                /* workers that run at the same time while nothing is timed; 0: one per core */
  const char *journal;             /* path of a file to which every answer is appended; NULL: no journal */
  uint32_t flags;
  /* called often; if it returns other than 0 the search ends at once. The journal has all that was found. May be
   * NULL */
  int (*stop)(void *callback_user);
  void (*progress)(void *callback_user, const tg_tune_progress *);   /* may be NULL */
  void *callback_user;
  uint32_t threads;                /* threads that a launch may use; 0: all of the context's */
  /* a kernel as text that is searched beside the others, the first one in it: with the same buffers as the first of
   * the others (names, types, order), parameters for all bindings, and a name of its own. It passes the same checks; if
   * it wins, the choice keeps its text. with_file: the name that error messages show. NULL: none */
  const char *with_text, *with_file;
  /* device of the context that candidates are compiled for and timed on, by its own clock, by one worker at a time; the
   * reference is the CPU's. Programs that compile for a device with the same chip and the same major version of its
   * driver find the choice. NULL: the host's CPU */
  tg_device *device;
  /* as in tg_compile_options: once it is not 0, the search ends before its next candidate with TG_CANCELLED, and keeps
   * no choice; the journal has all that was found. NULL: none */
  const int *cancel;
  /* a folder, on a file system that all of them see, in which this search shares its candidates with others of the same
   * problem: the same tune calls of the same program, started on as many machines, of one kind, as there are. Each
   * candidate is built and timed by one of them, a process that ends takes only what it was doing, and all come to the
   * same choice. `candidates` bounds such a search (0: 64), not `seconds`; and it has no journal: the folder is one.
   * NULL: the search is alone */
  const char *spool;
  /* name of the one of the kernels where the search starts, and which counts as the default; a choice is kept for the
   * first kernel all the same. TG_EINVAL: there is none of this name, or it cannot be built here. NULL: the first */
  const char *start_kernel;
} tg_tune_options;

/* Tunes n kernels that solve one problem, with the same buffers and results; the first one with its default schedule is
 * the default. Kernels are compiled as this context compiles them, and launches are timed with options.threads
 * threads. A choice that is kept is used by contexts with as many threads as this one (tg_context_options.threads),
 * and by those with as many threads as the launches had. */
TG_API tg_status tg_tune_sized(tg_context *, const tg_kernel_def *const *defs, uint32_t n, const tg_tune_options *,
                               size_t options_bytes, tg_tune_result **out);
static inline tg_status tg_tune(tg_context *context, const tg_kernel_def *const *defs, uint32_t n,
                                const tg_tune_options *options, tg_tune_result **out) {
  return tg_tune_sized(context, defs, n, options, sizeof *options, out);
}
TG_API tg_status tg_tune_text_sized(tg_context *, const char *file, const char *text, const tg_tune_options *,
                                    size_t options_bytes, tg_tune_result **out);
static inline tg_status tg_tune_text(tg_context *context, const char *file, const char *text,
                                     const tg_tune_options *options, tg_tune_result **out) {
  return tg_tune_text_sized(context, file, text, options, sizeof *options, out);
}
TG_API void tg_tune_result_free(tg_tune_result *);
TG_API const char *tg_tune_class_name(tg_tune_class);

/* The main loop of a worker program: reads requests from the file descriptor `in` until its end, and writes answers to
 * `out`. It forks: call it before any thread is started. */
TG_API void tg_tune_worker(int in, int out);

#ifdef __cplusplus
}
#endif
#endif
