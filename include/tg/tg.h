/* SPDX-License-Identifier: MIT
 * tg: kernels written in C. The library's surface: context, kernel, launch, errors.
 *
 * No call prints, exits or aborts. A context owns all state; two contexts never touch each other.
 */
#ifndef TG_TG_H
#define TG_TG_H
#include <stddef.h>
#include <stdint.h>
#ifdef __cplusplus
extern "C" {
#endif

#define TG_VERSION_MAJOR 0
#define TG_VERSION_MINOR 1
#define TG_VERSION_PATCH 0

#if defined(__GNUC__)
#define TG_API __attribute__((visibility("default")))
#else
#define TG_API
#endif

typedef enum tg_status {
  TG_OK = 0,
  TG_EINVAL,    /* a kernel, a schedule or an argument is wrong: the message says where and why */
  TG_ENOMEM,    /* out of memory */
  TG_EIO,       /* a file or a device could not be used */
  TG_ELIMIT,    /* a stated limit of tg or of the target was passed */
  TG_EBACKEND,  /* LLVM reported an error */
  TG_INTERNAL,  /* a bug in tg */
  TG_MISS       /* the kernel is not in the cache, and nothing may be compiled here */
} tg_status;

/* Element types. TG_INDEX is the unbounded integer of subscripts and extents; it has no storage. */
typedef enum tg_type {
  TG_VOID = 0, TG_BOOL,
  TG_I8, TG_I16, TG_I32, TG_I64, TG_U8, TG_U16, TG_U32, TG_U64,
  TG_F16, TG_BF16, TG_F32, TG_F64,
  TG_E4M3, TG_E5M2,   /* 8-bit floats: storage only */
  TG_INDEX,
  TG_TYPE__COUNT
} tg_type;

/* Memory for everything the library keeps. alloc returns 16-aligned memory or NULL; free gets the size back. Both
 * are called from threads of tg's own as well: a compile has one, with a stack that suffices, and its caller waits
 * for it. */
typedef struct tg_allocator {
  void *(*alloc)(void *user, size_t bytes);
  void (*free)(void *user, void *p, size_t bytes);
  void *user;
} tg_allocator;

/* A value for a parameter or a knob, by name. lo == hi: a constant of the kernel; else any multiple of multiple
 * (0 stands for 1) from lo to hi, given at each launch. */
typedef struct tg_binding { const char *name; int64_t lo, hi, multiple; } tg_binding;

/* ---- context: owns all state; may be used from many threads ---- */

typedef struct tg_context tg_context;
typedef struct tg_device tg_device;   /* device.h */

enum {                        /* tg_context_options.flags */
  TG_CONTEXT_DEBUG = 1,       /* line tables in the code, registered with gdb */
  TG_CONTEXT_PERF_MAP = 2,    /* kernels are named in /tmp/perf-PID.map */
  TG_CONTEXT_VERIFY = 4       /* LLVM checks each module (tests) */
};

typedef struct tg_context_options {   /* zero means default */
  tg_allocator allocator;     /* malloc */
  /* told what no call returns: why a context cannot be made (an unknown target: with those that there are), a cache
   * that cannot be written, a first choice taken back. Nobody */
  void (*log)(void *user, const char *message);
  void *log_user;
  /* folder of compiled kernels, shared by processes, made with its parents by the first that is kept; none */
  const char *cache;
  const char *target;         /* "host" */
  /* of the pool, the caller's among them; all cores. None is started before a launch asks. Those that sleep are
   * woken on other processors than the launcher's, of those that it may use */
  int threads;
  uint32_t flags;
  /* folder of tuned choices: tg_tune (tune.h) keeps them there, and kernels are compiled with them
   * (TG_COMPILE_TUNED). NULL: $TG_TUNED; none: "" */
  const char *tuned;
} tg_context_options;

/* Of libtg_jit.a: kernels are taken from the cache, or compiled. options may be NULL. */
TG_API tg_status tg_context_create(const tg_context_options *options, tg_context **out);
/* Of libtg.a alone, which needs no LLVM: kernels are taken from the cache; TG_MISS if one is not there. */
TG_API tg_status tg_context_create_runtime(const tg_context_options *options, tg_context **out);
TG_API void tg_context_free(tg_context *context);          /* after its kernels */
/* The last failure of this context on the calling thread; valid until the next. "" if there is none. A call that is
 * given no context (or no kernel) returns TG_EINVAL and has nowhere to say more. */
TG_API const char *tg_error_message(tg_context *context);
TG_API const char *tg_status_name(tg_status status);

/* ---- kernel: compiled, immutable; may be run from many threads at a time ---- */

typedef struct tg_kernel tg_kernel;
typedef struct tg_kernel_def tg_kernel_def;   /* TG_KERNEL of tg/dsl.h makes one */

enum {                        /* tg_compile_options.flags */
  TG_COMPILE_AS_WRITTEN = 1,  /* no heuristic: only the kernel's own words of a schedule, and opts */
  TG_COMPILE_NO_CACHE = 2,
  TG_COMPILE_CACHED_ONLY = 8, /* compile nothing now: TG_MISS if the kernel is not in the cache */
  /* with the knobs and words that tg_tune found for it, if the context's folder of tuned choices has them, and no
   * opts are given: so it is without a flag too, but for TG_COMPILE_AS_WRITTEN, TG_COMPILE_OPTS_ONLY and pack */
  TG_COMPILE_TUNED = 16,
  TG_COMPILE_UNTUNED = 128,   /* without them */
  TG_COMPILE_TUNED_ONLY = 64, /* likewise, and TG_MISS if there is no choice */
  TG_COMPILE_OPTS_ONLY = 32,  /* opts stand in place of the kernel's own words, not behind them */
  TG_COMPILE_SHOW_RULES = 4   /* tg_show: each stage's text ends with the rules that fired, as comments */
};

typedef struct tg_compile_options {   /* zero means default */
  const tg_binding *bindings;
  uint32_t bindings_n;
  /* a schedule, words separated by ';' or new lines, after the kernel's own. None at all: the heuristic chooses */
  const char *opts;
  void *user;                 /* for the kernel's body */
  uint32_t flags;
  const char *kernel;         /* of a text with several: the one to take. NULL: the first */
  /* an operand that the schedule takes packed (stage B at r as Bp[..] space=packed): the kernel that packs it is
   * compiled instead of the kernel itself. It has the buffers B and Bp (and S, of `with S[..] = ..`); the kernel
   * itself has Bp (and S) in the place of B. NULL: none */
  const char *pack;
  /* of the context's, that the kernel is compiled for and belongs to. NULL: the host's CPU */
  tg_device *device;
} tg_compile_options;

TG_API tg_status tg_kernel_compile(tg_context *, const tg_kernel_def *def, const tg_compile_options *, tg_kernel **out);
/* A text program; file is for messages. */
TG_API tg_status tg_kernel_compile_text(tg_context *, const char *file, const char *text, const tg_compile_options *,
                                        tg_kernel **out);
/* One of n kernels for one problem: the one that tg_tune chose of them, with its knobs and words; the first under
 * its default if there is no choice. */
TG_API tg_status tg_kernel_compile_tuned(tg_context *, const tg_kernel_def *const *defs, uint32_t n,
                                         const tg_compile_options *, tg_kernel **out);
TG_API void tg_kernel_free(tg_kernel *);

typedef struct tg_buffer_desc { const char *name; tg_type type; uint8_t read, written; } tg_buffer_desc;
typedef struct tg_param_info { const char *name; int64_t lo, hi, multiple; } tg_param_info;
typedef struct tg_kernel_info {
  const char *name;
  const tg_buffer_desc *buffers;   /* as given to a launch */
  const tg_param_info *params;     /* likewise: those not bound to constants */
  uint32_t buffers_n, params_n, phases;
  size_t workspace;                /* bytes that a launch on one thread uses; tg keeps it */
  int from_cache, tuned;           /* tuned: compiled with a tuned choice */
} tg_kernel_info;
TG_API const tg_kernel_info *tg_kernel_describe(const tg_kernel *);
/* Bytes that buffer b must have under these parameters. */
TG_API tg_status tg_kernel_bytes(const tg_kernel *, const int64_t *params, uint32_t b, size_t *bytes);

typedef struct tg_argument { void *data; size_t bytes; } tg_argument;
/* The caller's threads: runs task(arg, i) for each i of 0..n-1, in any order, at once or one after another, and
 * returns after all. */
typedef void tg_parallel_for(void *user, int64_t n, void (*task)(void *arg, int64_t i), void *arg);

typedef struct tg_launch {
  const tg_argument *buffers;      /* in order of definition: in, out, inout */
  uint32_t buffers_n;
  const int64_t *params;           /* run-time parameters in order of declaration */
  uint32_t params_n;
  /* 0, 1: the caller's; n: at most n of the context's pool, the caller's among them; -1: all */
  int threads;
  tg_parallel_for *parallel_for;   /* if set, runs the tasks instead */
  void *parallel_user;
  /* tg_kernel_workspace bytes of the caller's, aligned to 64: the launch allocates nothing. NULL: tg keeps its own */
  void *workspace;
  /* parallel_for is then called with at most `threads` tasks (0: one), which share out the work */
  size_t workspace_bytes;
} tg_launch;
/* Bytes that a launch with tg_launch.threads = threads (with or without a parallel_for) works in. */
TG_API size_t tg_kernel_workspace(const tg_kernel *, int threads);
TG_API tg_status tg_kernel_run(tg_kernel *, const tg_launch *);

typedef struct tg_timing { double best, median; uint32_t runs; } tg_timing;   /* seconds a run */
/* Runs again and again for about `seconds` (at least 3 times). Inputs that the kernel writes are not restored. */
TG_API tg_status tg_kernel_time(tg_kernel *, const tg_launch *, double seconds, tg_timing *out);

/* ---- looking inside ---- */

/* write is called with the text of each stage: "author", the passes in order, "llvm", "asm"; or of the one named. */
typedef void tg_show_fn(void *user, const char *stage, const char *text);
TG_API tg_status tg_show(tg_context *, const tg_kernel_def *def, const tg_compile_options *,
                         const char *stage /* NULL: all */, tg_show_fn *write, void *user);
TG_API tg_status tg_show_text(tg_context *, const char *file, const char *text, const tg_compile_options *,
                              const char *stage, tg_show_fn *write, void *user);

#ifdef __cplusplus
}
#endif
#endif
