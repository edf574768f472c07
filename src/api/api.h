/* SPDX-License-Identifier: MIT
 * The implementation of tg/tg.h: the context, and the steps from a kernel's text to code that can be called. Nothing
 * here needs LLVM: the compiler is a table of functions (src/compile), which a context may lack. */
#ifndef TG_API_H
#define TG_API_H
#include <pthread.h>
#include "devices/device.h"
#include "prices/prices.h"
#include "code/cache.h"
#include "target/target.h"
#include "tg/dsl.h"

enum { MESSAGES = 32 };

/* age: tg_context.age when the message was last used, to find the oldest. */
typedef struct { pthread_t thread; bool used; uint64_t age; char text[4096]; } tg_context_message;

typedef struct tg_kernel_source tg_kernel_source;
/* n launches to price: the parameters of each by ordinal (NULL: at their maximum), and the threads that share it.
 * words: gets a hash of the words of the schedule; NULL: it is not wanted. at_once: of each, how many like it run at
 * the same time and share memory's bandwidth; NULL: one */
typedef struct tg_launches {
  const int64_t *const *params;
  uint32_t n, threads;
  uint64_t *words;
  const uint32_t *at_once;
} tg_launches;
struct tg_jit;
struct tg_answers;
struct tg_near;

/* Two launches as one: the writer's result goes to the reader alone, and never to memory. asks: TG_FUSE_MAPS: only if
 * both are maps. TG_FUSE_EPILOGUE: the writer is what an operation does with its sums in the end, as a map from them,
 * its first buffer, to the result; what is wanted is that map together with the reader's, as an expression. */
enum { TG_WRITER, TG_READER };
enum { TG_FUSE_ANY, TG_FUSE_MAPS, TG_FUSE_EPILOGUE };
typedef struct tg_fusion {
  uint8_t asks;
  const tg_kernel *kernel[2];
  const int64_t *params[2];
  uint32_t between[2];         /* the buffer, of each, that is the memory between them */
  /* by buffer of the reader: 1 + the writer's buffer that has the same address; 0: none */
  uint8_t same[TG_MAX_BUFFERS];
  /* the answer, in memory of the job: the program, its words ("": as written; NULL: those of the first choice), flags
   * of its compile; and of each of its buffers, which one of which kernel it is */
  const char *text, *words;
  uint32_t flags, buffers_n;
  struct { uint8_t of, buffer; } buffer[TG_MAX_BUFFERS];
  bool maps;                   /* both are maps */
  /* TG_FUSE_EPILOGUE: text is the expression, over acc and a0, a1..: the buffers but for the first, the sums, and the
   * last, the result; their types, and for how many elements each value is (TG_PER_ALL..). in_blocks: the text for sums
   * that are taken in blocks; NULL: there is none. adds: the writer adds to its sums, and does nothing else. seconds:
   * what the reader takes apart */
  struct { uint8_t type, per; } value[TG_MAX_BUFFERS];
  const char *in_blocks;
  bool adds;
  double seconds;
} tg_fusion;

static inline tg_compile_options tg_fusion_options(const tg_fusion *f) {
  return (tg_compile_options){
      .opts = f->words && f->words[0] ? f->words : NULL,
      .flags = f->flags | TG_COMPILE_UNTUNED | (f->words && !f->words[0] ? TG_COMPILE_AS_WRITTEN : 0)};
}

/* The compiler. All but close run inside tg_protect(&j->env, ..). */
typedef struct tg_compiler {
  /* Compiles the job, which holds the kernel as written; fills in the entry's object and info, and leaves the words of
   * the schedule in the job. price: the cost model's of a launch with all threads, in seconds; 0: none; NULL: not
   * wanted. */
  void (*compile)(tg_job *j, tg_context *c, const tg_kernel_source *s, tg_cache_entry *entry, double *price);
  /* Links an entry that was just compiled. Entries from the cache are loaded without the compiler. */
  tg_code *(*link)(tg_job *j, tg_context *c, const tg_cache_entry *entry, const char *name);
  /* Seconds that the job's kernel, as written, takes by the cost model in each of some launches. It is lowered once. */
  void (*price)(tg_job *j, tg_context *c, const tg_kernel_source *s, const tg_launches *launches, double *seconds);
  /* Whether both kernels, at these parameters, can be one program with the same bits that the cost model finds cheaper.
   * NULL: none are. */
  bool (*fuse)(tg_job *j, tg_context *c, tg_fusion *f);
  void (*close)(tg_context *c);
} tg_compiler;

struct tg_context {
  tg_env env;                  /* holds what lives as long as the context: rules, the folders' names */
  tg_blocks blocks;            /* memory of finished jobs, for reuse by later ones */
  pthread_mutex_t lock;        /* guards env, jit, messages, and the list of devices */
  tg_target target;            /* the host's CPU, which is device 0 */
  tg_device *devices;          /* list: device 0, then opened ones; grows only, and devices stay until the end */
  uint32_t flags;
  void (*log)(void *user, const char *message);
  void (*compiled)(void *user, const tg_compile_report *report);
  void *log_user;
  const char *cache, *tuned;   /* folders; NULL: none */
  tg_pack pack;                /* looked into before both */
  const struct tg_near *near;  /* keys of the folder of tuned choices; NULL: not looked at yet */
  const tg_compiler *compiler; /* NULL: kernels come from the cache alone */
  const struct tg_rules *rules;   /* the compiler's; NULL until first used */
  struct tg_jit *jit;
  struct tg_answers *kept;        /* choices made before; NULL: none */
  tg_pool *pool;
  tg_context_message *messages[MESSAGES];   /* each thread's last error; the oldest is replaced */
  uint64_t age;
  bool ahead;                  /* kernels are made for other machines, and never run here (compile/ahead.h) */
};

/* What some sizes run instead of a kernel's own code: those whose first parameters, by ordinal, lie in the box. */
typedef struct tg_sized_code {
  tg_span size[TG_REGION_SIZES];
  tg_device_kernel *loaded;
  bool again;                  /* an earlier version has the same code */
} tg_sized_code;

struct tg_kernel {
  tg_context *context;
  tg_device_kernel *loaded;    /* for all sizes that no version has */
  uint32_t versions_n;
  tg_sized_code version[TG_REGIONS];
  tg_kernel_info info;
  /* The program as the author wrote it, for programs that fuse kernels (flags: TG_COMPILE_ONE, _FORMED), with the words
   * it is compiled with (NULL: those of the first choice). text NULL: the caller chose them, or it is a device's */
  char *text;
  const char *words;
  size_t text_bytes;           /* of text and words together */
  uint32_t text_flags;
  size_t bytes;                /* of this allocation */
  /* followed by arrays of tg_buffer_desc and tg_param_info */
};

/* Where a program comes from: either def or text is set. */
struct tg_kernel_source {
  const tg_kernel_def *def;
  const char *file, *text;
  const tg_compile_options *options;   /* never NULL */
};

/* tg_compile_options.flags, of callers inside tg: one code for all sizes; a * b + c stays as it stands, since what is
 * computed with one rounding says fma already. */
enum { TG_COMPILE_ONE = 1 << 16, TG_COMPILE_FORMED = 1 << 17 };

static inline uint32_t tg_jit_flags(const tg_context *c) {
  return (c->flags & TG_CONTEXT_DEBUG ? TG_JIT_DEBUG : 0) | (c->flags & TG_CONTEXT_PERF_MAP ? TG_JIT_PERF_MAP : 0) |
         (c->flags & TG_CONTEXT_VERIFY ? TG_JIT_VERIFY : 0);
}

static inline bool tg_context_keeps(const tg_context *c) { return c->cache || c->pack.data; }
static inline bool tg_context_has_choices(const tg_context *c) { return c->tuned || c->pack.data; }

/* context.c */
/* bytes: size of the caller's struct, which may be an older or a newer one. */
tg_status tg_context_open(const tg_context_options *options, size_t bytes, const tg_compiler *compiler,
                          tg_context **out);
tg_status tg_context_fail(tg_context *c, tg_status s, const char *message);
/* Reads a struct that the program has filled in, of `bytes` bytes there (tg_sized_read). */
tg_status tg_context_read(tg_context *c, const char *type, void *own, size_t own_bytes, const void *given,
                          size_t bytes);
/* Likewise, for a pointer to it, which afterwards points to the copy, unless it has the library's own size or is
 * NULL. */
static inline tg_status tg_context_whole(tg_context *c, const char *type, void *copy, size_t own_bytes,
                                         const void **given, size_t bytes) {
  if (!*given || bytes == own_bytes) return TG_OK;
  tg_status s = tg_context_read(c, type, copy, own_bytes, *given, bytes);
  *given = copy;
  return s;
}
/* Both by the name of the type. */
#define TG_READ(c, T, own, given, bytes) tg_context_read(c, #T, own, sizeof(T), given, bytes)
#define TG_WHOLE(c, T, copy, given, bytes) tg_context_whole(c, #T, copy, sizeof(T), (const void **)(given), bytes)

/* kept.c: choices made before, by this process or by another with the same folder. key: the question, as text; the
 * machine and tg's own code are added to it. Read: false if there is none, or it does not fit. */
bool tg_kept_read(tg_context *c, const char *key, char *out, size_t n);
void tg_kept_write(tg_context *c, const char *key, const char *text);

/* device.c */
/* Opens the driver's device i, and appends it to the context's list. number, native: as of tg_device. */
tg_status tg_device_add(tg_context *c, const tg_driver *driver, uint32_t i, uint32_t number, void *native,
                        tg_device **out, char *message, size_t n);

/* arguments.c: a launch with names, in the kernel's order. */
typedef struct tg_ordered_launch {
  tg_launch launch;
  tg_argument buffer[TG_MAX_BUFFERS];
  size_t offset[TG_MAX_BUFFERS];
  int64_t param[TG_MAX_BUFFERS];
} tg_ordered_launch;
static inline bool tg_launch_has_names(const tg_launch *l) { return l->buffer_names || l->param_names; }
/* TG_EINVAL: a name is unknown, is given twice, or is missing; message says which. */
tg_status tg_launch_order(const tg_kernel *k, const tg_launch *l, tg_ordered_launch *out, char *message, size_t n);

/* kernel.c: what a launch with these parameters runs. */
tg_device_kernel *tg_kernel_for(const tg_kernel *k, const int64_t *params, uint32_t params_n);

/* source.c */
/* NULL: out of memory; then loaded stays the caller's. */
tg_kernel *tg_kernel_new(tg_context *c, tg_device_kernel *loaded, bool from_cache, bool tuned);
/* Keeps a kernel's text and words; false: out of memory. */
bool tg_kernel_keep_text(tg_kernel *k, const char *text, const char *words, uint32_t flags);
void tg_kernel_drop_text(tg_kernel *k);
/* load.c: what the key of a kernel that was built for a device begins with; the target's name follows. */
#define TG_BUILT_KEY "tg built "
static inline const tg_target *tg_target_asked(const tg_context *c, const tg_compile_options *o) {
  return o->device ? o->device->target : &c->target;
}
extern const tg_compile_options tg_no_options;
/* One compile: runs a function with a new job inside tg_protect, then, for a kernel, loads the entry it filled in. */
typedef struct tg_compilation {
  tg_context *context;
  const tg_kernel_source *source;
  tg_job *job;
  tg_cache_entry entry;
  tg_code *code;               /* linked by the compiler; NULL: load the entry's object */
  bool from_cache, tuned;
  const char *near_miss;       /* as in tg_compile_report */
  const char *text;            /* of tg_kernel; memory of the job */
  /* what some sizes get instead, as text of tg_region_put; its memory is the context's allocator's. NULL: nothing */
  char *division;
  double start, price;         /* start: tg_now() when the call began; price: as in tg_compile_report */
} tg_compilation;
tg_status tg_compilation_run(tg_compilation *w, void (*run)(void *), void *arg);
/* What each launch of the kernel would take by the cost model, in seconds; it is not compiled. False: it cannot be
 * compiled, or the context has no compiler. */
bool tg_kernel_price(tg_context *c, const tg_kernel_def *def, const tg_compile_options *o, const tg_launches *launches,
                     double *seconds);
/* Calls `then` with what a compile call compiles: if the options allow it and the context's folder has a tuned choice
 * for the kernel, with that choice in place of s; if not, or if `then` fails with it otherwise than for memory, with s.
 * near_miss: as in tg_compile_report. defs: as in tg_kernel_compile_tuned; n 0: s alone. */
typedef tg_status tg_source_fn(void *user, const tg_kernel_source *s, bool tuned, const char *near_miss);
tg_status tg_with_choice(tg_context *c, const tg_kernel_source *s, const tg_kernel_def *const *defs, uint32_t n,
                         tg_source_fn *then, void *user);
/* versions.c: a kernel whose sizes are open until the call may have several codes. */
enum { TG_DIVISION_TEXT = 8192 };
/* Before a compile: asks the compiler for the division. */
void tg_division_ask(tg_compilation *w);
/* Behind it, with the division that it found (fresh), which is kept; or that was kept when the entry was made. */
void tg_division_take(tg_compilation *w, bool fresh);
/* Compiles one version, of these words, or takes it from the cache. */
typedef tg_status tg_version_fn(void *user, const tg_kernel_source *s, tg_kernel **out);
/* Gives the kernel its versions. One that fails is left out, and told to the log: the kernel's own code serves all
 * sizes. */
void tg_kernel_divide(tg_kernel *k, const tg_kernel_source *s, const char *division, tg_version_fn *compile,
                      void *user);
/* The functions below run inside tg_protect(&j->env, ..). */
/* near.c: writes which tuned choice would be the kernel's if its key were not another, and what differs; false: there
 * is none. key: tg_tuned_key's. */
bool tg_near_miss(tg_job *j, tg_context *c, const char *key, char *out, size_t n);
void tg_kernel_source_check(tg_job *j, const tg_kernel_source *s);                     /* fails on bad arguments */
/* reads the kernel as written into the job, and appends the opts */
void tg_kernel_source_read(tg_job *j, const tg_kernel_source *s);
const char *tg_cache_key(tg_job *j, tg_context *c, const tg_kernel_source *s);
/* The store's key of the kernel's tuned choice. The job holds the kernel as written, with default knobs. o: for
 * which device. threads: of the contexts that the choice is for, on the CPU. */
const char *tg_tuned_key(tg_job *j, tg_context *c, const tg_compile_options *o, uint32_t threads);
#endif
