/* SPDX-License-Identifier: MIT
 * The CPU as a device: threads, and launches of loaded kernels with every argument checked. */
#ifndef TG_DEVICES_H
#define TG_DEVICES_H
#include "code/code.h"

/* ---- pool.c: threads that a context owns. None runs before the first tg_pool_run. ---- */

typedef struct tg_pool tg_pool;
typedef void tg_pool_task(void *arg, int64_t i, uint32_t worker);   /* worker: 0 is the caller */
tg_pool *tg_pool_open(const tg_allocator *a, uint32_t threads);     /* the caller among them; NULL: out of memory */
void tg_pool_close(tg_pool *);
uint32_t tg_pool_threads(const tg_pool *);
/* Runs task(arg, i, worker) for i of 0..n-1 on at most `threads` threads and returns after all. A pool in use by another
 * launch, or inherited over a fork, leaves all to the caller. */
void tg_pool_run(tg_pool *, uint32_t threads, int64_t n, tg_pool_task *task, void *arg);

/* ---- spec.c: what a launch must satisfy, as flat data (it is stored with the code) ---- */

typedef struct { uint32_t name, first, rank; uint8_t type, role, strided, unused; int64_t bytes; } tg_spec_buffer;  /* bytes: -1 where dims need parameters */
typedef struct { uint32_t name, unused; int64_t lo, hi, multiple; } tg_spec_param;
typedef struct { uint32_t start, n, text, unused; } tg_spec_expr;   /* postfix in code; text of a require */
typedef struct { uint16_t op; uint8_t type, from; uint32_t arity; int64_t arg; } tg_spec_code;

typedef struct tg_spec {
  uint32_t bytes;              /* of it all */
  uint32_t buffers_n, params_n, exprs_n, requires_n, code_n, strings_n, name;   /* the last requires_n of the exprs are requirements */
  /* then: buffers, params, exprs, code, strings */
} tg_spec;

const tg_spec *tg_spec_build(tg_job *j);                            /* of the author's program; in the job's arena */
bool tg_spec_valid(const tg_spec *s, size_t bytes);                 /* of data from elsewhere: every reference lies inside */
static inline const tg_spec_buffer *tg_spec_buffers(const tg_spec *s) { return (const tg_spec_buffer *)(s + 1); }
static inline const tg_spec_param *tg_spec_params(const tg_spec *s) { return (const tg_spec_param *)(tg_spec_buffers(s) + s->buffers_n); }
static inline const tg_spec_expr *tg_spec_exprs(const tg_spec *s) { return (const tg_spec_expr *)(tg_spec_params(s) + s->params_n); }
static inline const tg_spec_code *tg_spec_codes(const tg_spec *s) { return (const tg_spec_code *)(tg_spec_exprs(s) + s->exprs_n); }
static inline const char *tg_spec_strings(const tg_spec *s) { return (const char *)(tg_spec_codes(s) + s->code_n); }
/* Bytes of buffer b: NULL, or what is wrong, in out: a size or a stride below 0, bytes past 2^62. */
const char *tg_spec_bytes(const tg_spec *s, uint32_t b, const int64_t *params, int64_t *bytes, char *out, size_t n);
/* False if the strides of buffer b may lay two elements on one place (which no written buffer may). After tg_spec_bytes. */
bool tg_spec_apart(const tg_spec *s, uint32_t b, const int64_t *params);
/* Parameters in their class, and requirements: NULL, or what is wrong, in out. */
const char *tg_spec_check_params(const tg_spec *s, const int64_t *params, char *out, size_t n);

/* ---- cpu.c ---- */

typedef struct tg_cpu_kernel tg_cpu_kernel;
/* Takes over code, copies the spec. NULL: out of memory (code is then still the caller's). */
tg_cpu_kernel *tg_cpu_kernel_new(const tg_allocator *a, tg_code *code, const tg_code_info *info, const tg_spec *spec);
void tg_cpu_kernel_free(tg_cpu_kernel *);
const tg_spec *tg_cpu_kernel_spec(const tg_cpu_kernel *);
const tg_code_info *tg_cpu_kernel_info(const tg_cpu_kernel *);
/* Bytes that a launch on so many threads works in. */
size_t tg_cpu_workspace(const tg_cpu_kernel *, uint32_t threads);
/* What tg_launch.threads means. */
uint32_t tg_cpu_threads(const tg_pool *pool, int threads);
/* A launch whose arguments were checked by whoever makes it. No lock, no memory, no failure. */
typedef struct tg_cpu_launch {
  void **buffers;              /* and room for one more behind them */
  const int64_t *params;
  char *workspace;             /* tg_cpu_workspace, 64-aligned */
  tg_pool *pool;
  uint32_t threads;            /* of the pool, or that parallel_for may run at a time */
  tg_parallel_for *parallel_for;
  void *parallel_user;
} tg_cpu_launch;
void tg_cpu_call(tg_cpu_kernel *, const tg_cpu_launch *);
/* The code of a kernel that is one task, for the least and the largest parameters, in at most so many bytes of workspace; else NULL. */
tg_phase_fn *tg_cpu_code(const tg_cpu_kernel *, size_t scratch);
/* message gets the text of a failure. pool may be NULL where launch asks for no threads. */
tg_status tg_cpu_run(tg_cpu_kernel *, tg_pool *pool, const tg_launch *launch, char *message, size_t message_n);
tg_status tg_cpu_time(tg_cpu_kernel *, tg_pool *pool, const tg_launch *launch, double seconds, tg_timing *out, char *message, size_t message_n);
#endif
