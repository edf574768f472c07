/* SPDX-License-Identifier: MIT
 * tg: kernels written in C. The library's surface: context, kernel, launch, errors.
 *
 * No call prints, exits or aborts. A context owns all state; two contexts share nothing.
 *
 * Structs that a program fills in are passed with their size, by functions named _sized that the inline ones call:
 * fields are only ever appended, so a program that was built against an older header runs with a newer library, which
 * takes 0 for what is missing. A program of a newer header fails with TG_EINVAL, and the struct's name in the message,
 * if it sets a field that the library does not know. Structs that stand in arrays or are returned by value
 * (tg_binding, tg_argument, tg_queue_mark, ..) stay as they are.
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
#define TG_VERSION (TG_VERSION_MAJOR * 10000 + TG_VERSION_MINOR * 100 + TG_VERSION_PATCH)

#if defined(__GNUC__)
#define TG_API __attribute__((visibility("default")))
#else
#define TG_API
#endif

typedef enum tg_status {
  TG_OK = 0,
  TG_EINVAL,    /* a kernel, a schedule or an argument is wrong: the message says where and why */
  TG_ENOMEM,    /* out of memory */
  TG_EIO,       /* a file or a device failed, or could not be opened */
  TG_ELIMIT,    /* a stated limit of tg or of the target was passed */
  TG_EBACKEND,  /* LLVM reported an error */
  TG_INTERNAL,  /* a bug in tg */
  TG_MISS,      /* the kernel is not in the cache, and nothing may be compiled here */
  TG_TIMEOUT,   /* what was waited for has not happened within the time given */
  TG_LOST,      /* the device was reset or removed (device.h says what to do) */
  TG_CANCELLED  /* the caller's flag ended the call (tg_compile_options.cancel) */
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

/* Allocator for all memory that the library keeps. alloc returns memory aligned to 16 bytes, or NULL; free gets the
 * size that alloc was called with. Both are also called from tg's own threads: a compile runs on a thread of its own
 * with a large enough stack, and its caller waits for it. */
typedef struct tg_allocator {
  void *(*alloc)(void *user, size_t bytes);
  void (*free)(void *user, void *p, size_t bytes);
  void *user;
} tg_allocator;

/* A value for a parameter or a knob, by name. lo == hi: a constant of the kernel. Else each launch gives a value from
 * lo to hi that is divisible by `multiple` (0: 1). */
typedef struct tg_binding { const char *name; int64_t lo, hi, multiple; } tg_binding;

/* ---- context: owns all state; may be used from many threads ---- */

typedef struct tg_context tg_context;
typedef struct tg_device tg_device;   /* device.h */

enum {                        /* tg_context_options.flags */
  TG_CONTEXT_DEBUG = 1,       /* compiled code has line tables and is registered with gdb */
  TG_CONTEXT_PERF_MAP = 2,    /* kernels' addresses and names are written to /tmp/perf-PID.map, for perf */
  TG_CONTEXT_VERIFY = 4,      /* LLVM checks each module (tests) */
  /* each launch on the CPU first reads all of the inputs that promise a range of values (in(idx, i32 in 0..99, ..)),
   * and fails with TG_EINVAL if a value is outside of it: the message has the first one, its place and the line of the
   * promise. Without the flag such a value is clamped. Launches in programs and graphs are not checked */
  TG_CONTEXT_CHECK_PROMISES = 8
};

/* What a call that compiles a kernel did. Texts are valid while the hook runs. */
typedef struct tg_compile_report {
  const char *kernel;         /* its name; "": it could not be read */
  tg_status status;           /* of the call */
  const char *message;        /* of a call that failed; NULL: it did not */
  double seconds;             /* that the call took */
  int from_cache, tuned;      /* as in tg_kernel_info */
  /* words of its schedule, separated by "; ", whoever chose them; "": it is compiled as written. NULL: not known,
   * since the call failed, or since the kernel is from the cache, which does not keep the words of the first choice */
  const char *words;
  /* seconds that a launch takes by the cost model, on all threads of the context, with the largest parameters. 0: there
   * is none, for a kernel of the cache or of a device */
  double price;
  /* a tuned choice that the context's folder has for the same kernel, but that is not used, and what differs: the
   * threads, a size, tg's build, .. (at most 4096 choices are looked at, when the context first misses one) NULL: there
   * is none */
  const char *near_miss;
} tg_compile_report;

typedef struct tg_context_options {   /* zero means default */
  tg_allocator allocator;     /* alloc NULL: malloc */
  /* receives messages that no call returns: why a context cannot be created (for an unknown target: with a list of
   * the known ones), a cache that cannot be written, a first choice that was taken back, a near miss of a tuned choice.
   * NULL: no messages */
  void (*log)(void *user, const char *message);
  void *log_user;
  /* folder of compiled kernels, which several processes may share. It and its parents are created when the first
   * kernel is kept. NULL: compiled kernels are not kept */
  const char *cache;
  const char *target;         /* name of the target that kernels are compiled for. NULL: "host" */
  /* threads of the pool, the caller's included. 0: one per usable core. They start when a launch needs them. A sleeping
   * thread is woken on another core than the launching thread's, among those that the process may use */
  int threads;
  uint32_t flags;
  /* folder of tuned choices: tg_tune (tune.h) keeps them there, and kernels are compiled with them
   * (TG_COMPILE_TUNED). NULL: $TG_TUNED, or else the folder in which the command tg tune keeps them, tg/tuned in
   * $XDG_DATA_HOME or ~/.local/share, if it is there; "": no folder */
  const char *tuned;
  /* hears, with log_user, of each call that compiles a kernel: tg_kernel_compile and its kin, and plans (gemm.h,
   * attention.h) for each of their kernels. On the calling thread, at the end of the call. NULL: nobody does */
  void (*compiled)(void *user, const tg_compile_report *report);
  /* a pack: compiled kernels and tuned choices of folders in one block of memory, which `tg pack` makes. It is looked
   * into before the folders, for kernels of this context's target, machine and build of tg. The memory, which may be
   * mapped for reading alone, stays the caller's until tg_context_free. NULL: none. A block that is no whole pack fails
   * with TG_EINVAL; a damaged kernel in it is a miss */
  const void *pack;
  size_t pack_bytes;
} tg_context_options;

/* Only in libtg_jit.a: kernels are taken from the cache, or compiled. options may be NULL. */
TG_API tg_status tg_context_create_sized(const tg_context_options *options, size_t options_bytes, tg_context **out);
static inline tg_status tg_context_create(const tg_context_options *options, tg_context **out) {
  return tg_context_create_sized(options, sizeof *options, out);
}
/* Only in libtg_jit.a. In libtg_jit.so, loads what compiles, LLVM among it, which else the first compile does, in some
 * 10 ms: for programs that choose the time themselves. TG_EBACKEND: it is not there, or it is another build's; the
 * message says which. */
TG_API tg_status tg_compiler_load(tg_context *context);
/* For programs with libtg.a alone, which needs no LLVM: kernels are only taken from the cache. Compile calls return
 * TG_MISS if the kernel is not there. */
TG_API tg_status tg_context_create_runtime_sized(const tg_context_options *options, size_t options_bytes,
                                                 tg_context **out);
static inline tg_status tg_context_create_runtime(const tg_context_options *options, tg_context **out) {
  return tg_context_create_runtime_sized(options, sizeof *options, out);
}
TG_API void tg_context_free(tg_context *context);          /* its kernels must have been freed before */
/* Message of this context's last failure on the calling thread, valid until the next failure; "" if there is none.
 * A call with a NULL context (or kernel) returns TG_EINVAL without a message. */
TG_API const char *tg_error_message(tg_context *context);
TG_API const char *tg_status_name(tg_status status);
/* TG_VERSION of the library that runs, which may be a newer one than the header's. */
TG_API int tg_version(void);

/* ---- kernel: compiled, immutable; may be run from many threads at a time ---- */

typedef struct tg_kernel tg_kernel;
typedef struct tg_kernel_def tg_kernel_def;   /* TG_KERNEL of tg/dsl.h makes one */

enum {                        /* tg_compile_options.flags */
  TG_COMPILE_AS_WRITTEN = 1,  /* no heuristic: the schedule is only the kernel's own words, and opts */
  TG_COMPILE_NO_CACHE = 2,    /* the cache is neither read nor written */
  TG_COMPILE_CACHED_ONLY = 8, /* compile nothing now: TG_MISS if the kernel is not in the cache */
  /* use the knobs and words that tg_tune found, if the context's folder of tuned choices has them and opts is NULL.
   * This is the default, except with TG_COMPILE_AS_WRITTEN, TG_COMPILE_OPTS_ONLY or pack */
  TG_COMPILE_TUNED = 16,
  TG_COMPILE_UNTUNED = 128,   /* ignore tuned choices */
  TG_COMPILE_TUNED_ONLY = 64, /* as TG_COMPILE_TUNED, but TG_MISS if there is no tuned choice */
  TG_COMPILE_OPTS_ONLY = 32,  /* opts replace the kernel's own words instead of following them */
  TG_COMPILE_SHOW_RULES = 4   /* tg_show: each stage's text ends with the rules that fired, as comments */
};

typedef struct tg_compile_options {   /* zero means default */
  const tg_binding *bindings;
  uint32_t bindings_n;
  /* words of a schedule, separated by ';' or new lines, which follow the kernel's own words. NULL, and the kernel has
   * no words of its own: the heuristic chooses. Where sizes are open until the launch, it may choose up to four
   * schedules for parts of their range; all are compiled by this call, and a launch runs the one of its sizes */
  const char *opts;
  void *user;                 /* passed to the kernel's body */
  uint32_t flags;
  const char *kernel;         /* name of the kernel to take from a text that has several. NULL: the first */
  /* name of an operand that the schedule takes packed, such as "B" with `stage B at r as Bp[..] space=packed`: compile
   * the kernel that packs it instead of the kernel itself. The packing kernel has the buffers B and Bp (and S, if the
   * word ends with `with S[..] = ..`); the kernel itself has Bp (and S) in place of B. NULL: compile the kernel
   * itself */
  const char *pack;
  /* device of this context that the kernel is compiled for and belongs to. NULL: the host's CPU */
  tg_device *device;
  /* a flag of the caller's, which any thread may set while the call runs: once it is not 0, the call ends with
   * TG_CANCELLED before its next pass, and before LLVM makes code, and keeps nothing in the cache. (LLVM's own work on
   * one kernel is not interrupted.) NULL: none */
  const int *cancel;
} tg_compile_options;

/* options may be NULL. */
TG_API tg_status tg_kernel_compile_sized(tg_context *, const tg_kernel_def *def, const tg_compile_options *,
                                         size_t options_bytes, tg_kernel **out);
static inline tg_status tg_kernel_compile(tg_context *context, const tg_kernel_def *def,
                                          const tg_compile_options *options, tg_kernel **out) {
  return tg_kernel_compile_sized(context, def, options, sizeof *options, out);
}
/* The same for a kernel given as text; file is the name that error messages show. */
TG_API tg_status tg_kernel_compile_text_sized(tg_context *, const char *file, const char *text,
                                              const tg_compile_options *, size_t options_bytes, tg_kernel **out);
static inline tg_status tg_kernel_compile_text(tg_context *context, const char *file, const char *text,
                                               const tg_compile_options *options, tg_kernel **out) {
  return tg_kernel_compile_text_sized(context, file, text, options, sizeof *options, out);
}
/* Compiles one of n kernels that solve the same problem: the one that tg_tune chose, with the chosen knobs and words;
 * if there is no tuned choice, the first one with its default schedule. */
TG_API tg_status tg_kernel_compile_tuned_sized(tg_context *, const tg_kernel_def *const *defs, uint32_t n,
                                               const tg_compile_options *, size_t options_bytes, tg_kernel **out);
static inline tg_status tg_kernel_compile_tuned(tg_context *context, const tg_kernel_def *const *defs, uint32_t n,
                                                const tg_compile_options *options, tg_kernel **out) {
  return tg_kernel_compile_tuned_sized(context, defs, n, options, sizeof *options, out);
}
TG_API void tg_kernel_free(tg_kernel *);

typedef struct tg_buffer_desc { const char *name; tg_type type; uint8_t read, written; } tg_buffer_desc;
typedef struct tg_param_info { const char *name; int64_t lo, hi, multiple; } tg_param_info;
typedef struct tg_kernel_info {
  const char *name;
  const tg_buffer_desc *buffers;   /* in the order of tg_launch.buffers */
  const tg_param_info *params;     /* in the order of tg_launch.params: parameters that are not bound to constants */
  uint32_t buffers_n, params_n, phases;
  size_t workspace;                /* bytes that a launch on one thread uses; tg allocates them */
  int from_cache, tuned;           /* tuned: compiled with a tuned choice */
} tg_kernel_info;
TG_API const tg_kernel_info *tg_kernel_describe(const tg_kernel *);
/* Bytes that buffer b must have if a launch has these parameters: from its first element in memory to its last. */
TG_API tg_status tg_kernel_bytes(const tg_kernel *, const int64_t *params, uint32_t b, size_t *bytes);

typedef struct tg_argument { void *data; size_t bytes; } tg_argument;
/* The caller's threads: runs task(arg, i) for each i of 0..n-1, in any order, at the same time or one after another,
 * and returns when all have ended. */
typedef void tg_parallel_for(void *user, int64_t n, void (*task)(void *arg, int64_t i), void *arg);

typedef struct tg_launch {
  const tg_argument *buffers;      /* in order of definition: in, out, inout */
  uint32_t buffers_n;
  const int64_t *params;           /* run-time parameters in order of declaration */
  uint32_t params_n;
  /* 0 or 1: only the calling thread; n: at most n threads of the context's pool, the caller's included; -1: all */
  int threads;
  /* if not NULL, runs the tasks in place of the pool. If it returns when not each of them has ended once, the launch
   * runs no further phase and fails with TG_EINVAL: what it writes is then incomplete */
  tg_parallel_for *parallel_for;
  void *parallel_user;
  /* tg_kernel_workspace bytes of the caller's, aligned to 64: then the launch allocates nothing, and parallel_for is
   * called with at most `threads` tasks (0: one), which divide the work among themselves. On another device than the
   * CPU: memory of that device. NULL: tg allocates */
  void *workspace;
  size_t workspace_bytes;          /* size of workspace */
  /* names of `buffers` and of `params`, each of the kernel's once; then their order does not matter. NULL: they are in
   * the order above */
  const char *const *buffer_names, *const *param_names;
  /* of each buffer: bytes from `data` to its element of subscripts 0. 0: the least that its strides allow, so that its
   * first element in memory (with a negative stride another than that of subscripts 0) is at `data`. NULL: all 0 */
  const size_t *offsets;
} tg_launch;
/* Bytes of workspace for a launch with tg_launch.threads = threads, with or without a parallel_for. */
TG_API size_t tg_kernel_workspace(const tg_kernel *, int threads);
TG_API tg_status tg_kernel_run_sized(tg_kernel *, const tg_launch *, size_t launch_bytes);
static inline tg_status tg_kernel_run(tg_kernel *kernel, const tg_launch *launch) {
  return tg_kernel_run_sized(kernel, launch, sizeof *launch);
}

typedef struct tg_timing { double best, median; uint32_t runs; } tg_timing;   /* seconds a run */
/* Repeats the launch for about `seconds`, but at least 3 times. Buffers that the kernel both reads and writes are not
 * restored between runs. */
TG_API tg_status tg_kernel_time_sized(tg_kernel *, const tg_launch *, size_t launch_bytes, double seconds,
                                      tg_timing *out, size_t out_bytes);
static inline tg_status tg_kernel_time(tg_kernel *kernel, const tg_launch *launch, double seconds, tg_timing *out) {
  return tg_kernel_time_sized(kernel, launch, sizeof *launch, seconds, out, sizeof *out);
}

/* ---- looking inside ---- */

/* write is called with the text of each stage ("author", the passes in order, "llvm", "asm"), or only with that of the
 * stage named. */
typedef void tg_show_fn(void *user, const char *stage, const char *text);
TG_API tg_status tg_show_sized(tg_context *, const tg_kernel_def *def, const tg_compile_options *,
                               size_t options_bytes, const char *stage /* NULL: all */, tg_show_fn *write, void *user);
static inline tg_status tg_show(tg_context *context, const tg_kernel_def *def, const tg_compile_options *options,
                                const char *stage, tg_show_fn *write, void *user) {
  return tg_show_sized(context, def, options, sizeof *options, stage, write, user);
}
TG_API tg_status tg_show_text_sized(tg_context *, const char *file, const char *text, const tg_compile_options *,
                                    size_t options_bytes, const char *stage, tg_show_fn *write, void *user);
static inline tg_status tg_show_text(tg_context *context, const char *file, const char *text,
                                     const tg_compile_options *options, const char *stage, tg_show_fn *write,
                                     void *user) {
  return tg_show_text_sized(context, file, text, options, sizeof *options, stage, write, user);
}

#ifdef __cplusplus
}
#endif
#endif
