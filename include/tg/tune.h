/* SPDX-License-Identifier: MIT
 * Tuning: a search for the knobs and the words of a schedule that make a kernel fastest here. Part of libtg_jit.a.
 *
 *   tg_tune_result *r;
 *   tg_tune_options o = {.bindings = sizes, .bindings_n = 3, .seconds = 20, .worker = (const char
 *   *const[]){"/usr/bin/tg", "worker", NULL}};
 *   if (tg_tune(ctx, &def, 1, &o, &r) == TG_OK) printf("%.2f times as fast\n", r->default_seconds / r->seconds);
 *   tg_tune_result_free(r);
 *
 * Every candidate runs in a process of its own, on memory between guard pages, and must give what the kernel as written
 * gives, before it is timed. What is
 * chosen was faster than the default outside of the noise, twice, in two processes; else the default stays. With a
 * folder for tuned choices in the
 * context (tg_context_options.tuned) the choice is kept there, and TG_COMPILE_TUNED and tg_kernel_compile_tuned find it
 * again. docs/tuning.md has the whole. */
#ifndef TG_TUNE_H
#define TG_TUNE_H
#include "tg/tg.h"
#ifdef __cplusplus
extern "C" {
#endif

/* What became of a candidate. */
typedef enum tg_tune_class {
  TG_TUNE_RIGHT,         /* it was built, checked, and timed if its turn came */
  TG_TUNE_ILLEGAL,       /* a word, a knob or a requirement does not hold */
  TG_TUNE_DUPLICATE,     /* it lowers to a program that was tried */
  TG_TUNE_CRASHED, TG_TUNE_HUNG,
  TG_TUNE_WRONG,         /* another result than the kernel as written */
  TG_TUNE_LIMIT,         /* no memory, a limit of tg, LLVM's refusal */
  TG_TUNE_UNBELIEVABLE,  /* timed as faster than the machine can be */
  TG_TUNE_SLOW,          /* its first run took so much longer than the best's that nothing more was asked */
  TG_TUNE_SKIPPED,       /* the budget ended first */
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
  const char *kernel;              /* of the sketch chosen */
  uint32_t sketch;
  const tg_binding *knobs;         /* and its knobs */
  uint32_t knobs_n;
  const char *words;               /* the words in use, separated by "; "; NULL: what the heuristic chooses */
  int tuned;                       /* 0: the default stays */
  int kept;                        /* in the folder of tuned choices */
  const char *file;                /* there; NULL: it is not kept */
  double seconds, default_seconds; /* of a run */
  /* default_seconds / seconds - 1: the median of pairs, and the lower end of its 95 % interval */
  double gain, gain_low;
  double flops, bytes;             /* of a run, as written */
  double floor;                    /* seconds: the roofline, with room */
  double elapsed;
  uint32_t points, lowered, built, timed;
  uint32_t classes[TG_TUNE_CLASSES];
  uint32_t dropped;                /* samples beside which the machine was slower than it can be */
  uint32_t restarts;               /* of workers */
  uint32_t reused;                 /* answers that the journal had */
  int in_process;                  /* no worker was given: a candidate that crashes ends the program */
  int exact;                       /* results were compared bit for bit as well */
  /* the journal is of this very search, which came to its end: nothing was asked. why says how it ended */
  int finished;
  int interrupted;                 /* by stop: what stands here was the best so far, and was not confirmed */
  /* above 0: a run takes so long that candidates were timed on such a share of the problem; seconds,
   * default_seconds, flops are what all of it comes to by that */
  double share;
  /* then: of the one run of all of it, by the choice and by the default; 0: there was no time for it */
  double whole_seconds, whole_default_seconds;
  const char *why;                 /* the default stays; NULL: it does not */
  /* of tg_gemm_tune: so many strips of C make up the product, a thread for each, and a kernel of one of them is what
   * was tuned; 0: of all of it */
  uint32_t strips;
} tg_tune_result;

typedef struct tg_tune_progress {
  tg_tune_what what;
  const tg_tune_result *so_far;    /* its kernel, knobs and words are set at the end only */
  const char *candidate;           /* NULL, or "kernel KNOB=value .." */
  const char *words;               /* of the candidate, NULL: none */
  /* what it has other than its kernel says: decisions of the heuristic, or words; NULL: nothing but its knobs */
  const char *change;
  tg_tune_class outcome;
  const char *message;             /* why not, or NULL */
  double seconds, score;           /* TIMED: of a run; ln(seconds / seconds of the default) */
  double elapsed;
} tg_tune_progress;

enum {                             /* tg_tune_options.flags */
  TG_TUNE_KNOBS_ONLY = 1,          /* words stay as they are */
  /* answers in the journal are used again; a search that was finished there goes on only with more seconds or
   * candidates than it had */
  TG_TUNE_RESUME = 2,
  TG_TUNE_NOT_KEPT = 4             /* the choice is reported only */
};

typedef struct tg_tune_options {   /* zero means default */
  const tg_binding *bindings;      /* as for compiling */
  uint32_t bindings_n;
  void *user;                      /* for the kernels' bodies */
  const char *kernel;              /* of a text with several: the one to take */
  /* knobs of the first kernel that the search starts from, and that count as its default; NULL: their first values */
  const tg_binding *start;
  uint32_t start_n;
  /* of the launch that is timed, where sizes are known at launch only: as many as the kernel has; NULL: the largest */
  const int64_t *params;
  uint32_t params_n;
  double seconds;                  /* of it all: 20. Reference and default come on top where they alone take longer */
  uint32_t candidates;             /* timed at most; none */
  uint64_t seed;
  uint32_t beam;                   /* points that the next are made from: 4 */
  /* program and arguments, NULL behind the last: one that calls tg_tune_worker, such as {"tg", "worker"}. NULL: in
   * process */
  const char *const *worker;
  uint32_t workers;                /* at a time while nothing is timed: all cores */
  const char *journal;             /* a file: every answer is appended to it */
  uint32_t flags;
  /* asked often; not 0: end now. The journal has what was found */
  int (*stop)(void *callback_user);
  void (*progress)(void *callback_user, const tg_tune_progress *);
  void *callback_user;
  uint32_t threads;                /* that a launch may use; 0: all of the context's */
} tg_tune_options;

/* Kernels are compiled as this context does, and launches are timed with as many threads as the options say. A
 * choice is found again by contexts with as many threads as this one (tg_context_options.threads), and by those with
 * as many as the launches had. One problem, n kernels for it with the same buffers and results; the first under its
 * default is the default. */
TG_API tg_status tg_tune(tg_context *, const tg_kernel_def *const *defs, uint32_t n, const tg_tune_options *,
                         tg_tune_result **out);
TG_API tg_status tg_tune_text(tg_context *, const char *file, const char *text, const tg_tune_options *,
                              tg_tune_result **out);
TG_API void tg_tune_result_free(tg_tune_result *);
TG_API const char *tg_tune_class_name(tg_tune_class);

/* The main of a worker program: reads questions from `in` until it ends, writes answers to `out`. It forks: call it
 * before any thread is started. */
TG_API void tg_tune_worker(int in, int out);

#ifdef __cplusplus
}
#endif
#endif
