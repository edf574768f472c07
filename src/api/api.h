/* SPDX-License-Identifier: MIT
 * What stands behind tg/tg.h: the context, and the way from a kernel's text to code that can be called. Nothing here
 * needs LLVM: what
 * compiles is a table of functions (compile.h) that a context has or has not. */
#ifndef TG_API_H
#define TG_API_H
#include <pthread.h>
#include "devices/device.h"
#include "code/cache.h"
#include "target/target.h"
#include "tg/dsl.h"

enum { MESSAGES = 32 };

typedef struct { pthread_t thread; bool used; uint64_t age; char text[4096]; } tg_context_message;

typedef struct tg_kernel_source tg_kernel_source;
struct tg_jit;

/* What compiles. */
typedef struct tg_compiler {
  /* The job holds the author's form; fills in the entry's object and info. Inside tg_protect(&j->env, ..). */
  void (*compile)(tg_job *j, tg_context *c, const tg_kernel_source *s, tg_cache_entry *entry);
  /* What was just compiled, callable: what comes from the cache is loaded without the compiler. Likewise. */
  tg_code *(*link)(tg_job *j, tg_context *c, const tg_cache_entry *entry, const char *name);
  void (*close)(tg_context *c);
} tg_compiler;

struct tg_context {
  tg_env env;                  /* what lives as long as the context: rules, the folder's name */
  tg_blocks blocks;            /* of the jobs that have ended */
  pthread_mutex_t lock;        /* of env, jit, messages */
  tg_target target;            /* of the host's CPU: device 0 */
  tg_device *devices;          /* device 0, then those that have been opened; only their list grows, under the lock */
  uint32_t flags;
  void (*log)(void *user, const char *message);
  void *log_user;
  const char *cache, *tuned;   /* folders; NULL: none */
  const tg_compiler *compiler; /* NULL: kernels come from the cache alone */
  const struct tg_rules *rules;   /* the compiler's, from its first use on */
  struct tg_jit *jit;
  tg_pool *pool;
  tg_context_message *messages[MESSAGES];   /* the last failure of each thread; the oldest makes room */
  uint64_t age;
};

struct tg_kernel {
  tg_context *context;
  tg_device_kernel *loaded;
  tg_kernel_info info;
  size_t bytes;                /* of this block */
  /* then: tg_buffer_desc, tg_param_info */
};

/* Where a program comes from: def, or text. */
struct tg_kernel_source {
  const tg_kernel_def *def;
  const char *file, *text;
  const tg_compile_options *options;   /* never NULL */
};

static inline uint32_t tg_jit_flags(const tg_context *c) {
  return (c->flags & TG_CONTEXT_DEBUG ? TG_JIT_DEBUG : 0) | (c->flags & TG_CONTEXT_PERF_MAP ? TG_JIT_PERF_MAP : 0) |
         (c->flags & TG_CONTEXT_VERIFY ? TG_JIT_VERIFY : 0);
}

/* context.c */
tg_status tg_context_open(const tg_context_options *options, const tg_compiler *compiler, tg_context **out);
tg_status tg_context_fail(tg_context *c, tg_status s, const char *message);

/* device.c */
/* Opens device i of that kind for the context, number `number` to users, behind those that it has. */
tg_status tg_device_add(tg_context *c, const tg_driver *driver, uint32_t i, uint32_t number, tg_device **out,
                        char *message, size_t n);

/* source.c */
static inline const tg_target *tg_target_asked(const tg_context *c, const tg_compile_options *o) {
  return o->device ? o->device->target : &c->target;
}
extern const tg_compile_options tg_no_options;
/* Runs with a job of its own inside tg_protect, then, if asked to, loads what it left in the entry. */
typedef struct tg_compilation {
  tg_context *context;
  const tg_kernel_source *source;
  tg_job *job;
  tg_cache_entry entry;
  tg_code *code;               /* linked by the compiler; NULL: the entry's object is to be loaded */
  bool from_cache, tuned;
} tg_compilation;
tg_status tg_compilation_run(tg_compilation *w, void (*run)(void *), void *arg);
/* The rest inside tg_protect(&j->env, ..). */
void tg_kernel_source_check(tg_job *j, const tg_kernel_source *s);                     /* the caller's mistakes */
/* the author's form, opts appended */
void tg_kernel_source_read(tg_job *j, const tg_kernel_source *s);
/* identity.c, which the build writes: a hash of the compiler's own code */
extern const char tg_build[];
const char *tg_cache_key(tg_job *j, tg_context *c, const tg_kernel_source *s);
/* What a choice for the kernel is kept under; the job holds the author's form under the default knobs. */
const char *tg_tuned_key(tg_job *j, tg_context *c, uint32_t threads);   /* of the contexts that it is for */
#endif
