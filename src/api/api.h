/* SPDX-License-Identifier: MIT
 * What stands behind tg/tg.h: the context, and the way from a kernel's text to code. */
#ifndef TG_API_H
#define TG_API_H
#include <pthread.h>
#include "devices/devices.h"
#include "lower/lower.h"
#include "tg/dsl.h"

enum { MESSAGES = 32 };

typedef struct { pthread_t thread; bool used; uint64_t age; char text[4096]; } tg_context_message;

struct tg_context {
  tg_env env;                  /* what lives as long as the context: rules, the folder's name */
  tg_blocks blocks;            /* of the jobs that have ended */
  pthread_mutex_t lock;        /* of env, jit, messages */
  tg_target target;
  uint32_t flags;
  void (*log)(void *user, const char *message);
  void *log_user;
  const char *cache;           /* NULL: none */
  const tg_rules *rules;
  tg_jit *jit;
  tg_pool *pool;
  tg_context_message *messages[MESSAGES];   /* the last failure of each thread; the oldest makes room */
  uint64_t age;
};

struct tg_kernel {
  tg_context *context;
  tg_cpu_kernel *cpu;
  tg_kernel_info info;
  size_t bytes;                /* of this block */
  /* then: tg_buffer_desc, tg_param_info */
};

/* Where a program comes from: def, or text. */
typedef struct {
  const tg_kernel_def *def;
  const char *file, *text;
  const tg_compile_options *options;
} tg_source;

tg_status tg_context_fail(tg_context *c, tg_status s, const char *message);
/* Opens the jit at the first need. */
tg_status tg_context_jit(tg_context *c, tg_jit **out);
const tg_rules *tg_context_rules(tg_job *j, tg_context *c);

/* compile.c; inside tg_protect(&j->env, ..). */
void tg_read_source(tg_job *j, const tg_source *s);                      /* the author's form, opts appended */
/* Every pass that the program's stage leaves to do, the heuristic after raise if there are no opts; until: NULL or a pass. */
const tg_uop *tg_run_passes(tg_job *j, tg_context *c, const tg_source *s, const char *until, tg_stage_fn *seen, void *user);
const char *tg_cache_key(tg_job *j, tg_context *c, const tg_source *s);
#endif
