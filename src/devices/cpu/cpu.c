/* SPDX-License-Identifier: MIT
 * The host's CPU as a device. Device memory is the process's memory, a copy is memcpy, and a launch is complete when it
 * returns: it runs the tasks of each phase on the caller's threads or the context's pool. The kernel determines the
 * tasks of a phase, so the result does not depend on the number of threads. A launch borrows workspaces from the
 * kernel's free list: it takes no lock, and allocates only in a kernel's first runs; with the caller's workspace it
 * never allocates. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include "devices/device.h"

enum { SLOTS = 64, ALIGN = 64 };

/* ---- the device and its memory ---- */

static bool describe(uint32_t i, tg_device_info *out) {
  tg_target t;
  if (i) return false;
  tg_target_host(&t, 0);
  *out = (tg_device_info){.cores = t.threads, .host_memory = 1};
  snprintf(out->driver, sizeof out->driver, "cpu");
  snprintf(out->name, sizeof out->name, "%.127s", t.silicon);
  snprintf(out->target, sizeof out->target, "host");
  snprintf(out->chip, sizeof out->chip, "%.63s", t.silicon);
  return true;
}

static tg_status open_device(const tg_device *head, uint32_t i, tg_device **out, char *message, size_t n) {
  (void)i;
  if (head->native) return snprintf(message, n, "the CPU has no contexts of a driver"), TG_EINVAL;
  tg_device *d = head->allocator.alloc(head->allocator.user, sizeof *d);
  if (!d) return snprintf(message, n, "out of memory"), TG_ENOMEM;
  *d = *head;
  d->driver = &tg_driver_cpu;
  *out = d;
  return TG_OK;
}

static void close_device(tg_device *d) {
  tg_allocator a = d->allocator;
  a.free(a.user, d, sizeof *d);
}

static tg_status alloc_memory(tg_device *d, uint32_t kind, tg_piece *p, char *message, size_t n) {
  (void)kind;                  /* all memory is the host's */
  char *block = p->bytes + ALIGN < p->bytes ? NULL : d->allocator.alloc(d->allocator.user, p->bytes + ALIGN);
  if (!block) return snprintf(message, n, "out of memory: %zu bytes", p->bytes), TG_ENOMEM;
  p->own = block;
  p->at = block + (ALIGN - (uintptr_t)block % ALIGN) % ALIGN;
  return TG_OK;
}

static tg_status import_memory(tg_device *d, uint32_t what, tg_piece *p, char *message, size_t n) {
  (void)d, (void)what, (void)p, (void)message, (void)n;
  return TG_OK;
}

static void free_memory(tg_device *d, const tg_piece *p) {
  if (p->own) d->allocator.free(d->allocator.user, p->own, p->bytes + ALIGN);   /* else imported */
}

/* ---- queues: work is done when it is put ---- */

typedef struct { tg_queue head; atomic_ullong value; double stamp[TG_QUEUE_STAMPS]; } cpu_queue;

static tg_status open_queue(const tg_queue *head, tg_queue **out, char *message, size_t n) {
  const tg_allocator *a = &head->device->allocator;
  if (head->options.native) return snprintf(message, n, "the CPU has no queues of a driver"), TG_EINVAL;
  cpu_queue *q = a->alloc(a->user, sizeof *q);
  if (!q) return snprintf(message, n, "out of memory"), TG_ENOMEM;
  *q = (cpu_queue){.head = *head};
  *out = &q->head;
  return TG_OK;
}

static void close_queue(tg_queue *q) {
  const tg_allocator *a = &q->device->allocator;
  a->free(a->user, q, sizeof(cpu_queue));
}

static tg_status copy(tg_queue *q, void *to, const void *from, size_t bytes, char *message, size_t n) {
  (void)q, (void)message, (void)n;
  memcpy(to, from, bytes);
  return TG_OK;
}

static tg_status after(tg_queue *q, tg_queue *of, uint64_t value, char *message, size_t n) {
  return (void)q, (void)of, (void)value, (void)message, (void)n, TG_OK;
}

static tg_status stamp(tg_queue *q, uint32_t slot, char *message, size_t n) {
  (void)message, (void)n;
  ((cpu_queue *)q)->stamp[slot] = tg_now();
  return TG_OK;
}

static tg_status submit(tg_queue *q, uint64_t *value, char *message, size_t n) {
  (void)message, (void)n;
  *value = atomic_fetch_add_explicit(&((cpu_queue *)q)->value, 1, memory_order_relaxed) + 1;
  return TG_OK;
}

static tg_status wait_for(tg_queue *q, uint64_t value, int64_t nanoseconds, char *message, size_t n) {
  return (void)q, (void)value, (void)nanoseconds, (void)message, (void)n, TG_OK;
}

static tg_status stamps(tg_queue *q, uint32_t first, uint32_t slots, double *seconds, char *message, size_t n) {
  (void)message, (void)n;
  memcpy(seconds, &((cpu_queue *)q)->stamp[first], slots * sizeof *seconds);
  return TG_OK;
}

/* ---- kernels ---- */

/* memory: 64-aligned, in block; allocated when first used */
typedef struct { atomic_bool busy; char *memory, *block; } slot;

typedef struct {
  tg_device_kernel head;
  tg_allocator allocator;
  slot workspaces[SLOTS], shared[SLOTS];
  tg_signature signature;      /* its arrays follow */
} cpu_kernel;

static tg_status load(tg_device *device, const tg_device_object *o, tg_device_kernel **out, tg_env *err) {
  const tg_allocator *a = &device->allocator;
  tg_code *code = o->code;
  tg_status s = code ? TG_OK
                     : tg_code_load(a, o->data, o->bytes, tg_signature_strings(o->signature) + o->signature->name,
                                    o->info, o->flags, &code, err);
  if (s != TG_OK) return s;
  cpu_kernel *k = a->alloc(a->user, offsetof(cpu_kernel, signature) + o->signature->bytes);
  if (!k) {
    if (!o->code) tg_code_unload(code);
    snprintf(err->message, sizeof err->message, "out of memory");
    return err->status = TG_ENOMEM;
  }
  memset(k, 0, offsetof(cpu_kernel, signature));
  memcpy(&k->signature, o->signature, o->signature->bytes);
  k->head = (tg_device_kernel){
      .driver = &tg_driver_cpu, .device = device, .signature = &k->signature, .info = *o->info, .code = code};
  k->head.info.launch = NULL;  /* the code has a copy */
  k->allocator = *a;
  *out = &k->head;
  return TG_OK;
}

static void unload(tg_device_kernel *head) {
  cpu_kernel *k = (cpu_kernel *)head;
  tg_allocator a = k->allocator;
  for (uint32_t i = 0; i < SLOTS; i++) {
    if (k->workspaces[i].block) a.free(a.user, k->workspaces[i].block, head->info.workspace + ALIGN);
    if (k->shared[i].block) a.free(a.user, k->shared[i].block, head->info.shared + ALIGN);
  }
  tg_code_unload(head->code);
  a.free(a.user, k, offsetof(cpu_kernel, signature) + k->signature.bytes);
}

/* ---- workspaces ---- */

static bool fill_slot(cpu_kernel *k, slot *s, uint64_t bytes) {
  s->block = k->allocator.alloc(k->allocator.user, bytes + ALIGN);
  if (!s->block) return false;
  s->memory = s->block + (ALIGN - (uintptr_t)s->block % ALIGN) % ALIGN;
  return true;
}

/* A free slot of the list or, if all are taken, `own`, allocated for this launch alone. NULL: out of memory. */
static slot *take(cpu_kernel *k, slot *list, slot *own, uint64_t bytes) {
  for (uint32_t i = 0; i < SLOTS; i++) {
    slot *s = &list[i];
    if (atomic_load_explicit(&s->busy, memory_order_relaxed) ||
        atomic_exchange_explicit(&s->busy, true, memory_order_acquire))
      continue;
    if (s->memory || fill_slot(k, s, bytes)) return s;
    atomic_store_explicit(&s->busy, false, memory_order_release);
    return NULL;
  }
  *own = (slot){.block = NULL};
  return fill_slot(k, own, bytes) ? own : NULL;
}

static void give(cpu_kernel *k, slot *s, const slot *own, uint64_t bytes) {
  if (s == own) k->allocator.free(k->allocator.user, s->block, bytes + ALIGN);
  else if (s) atomic_store_explicit(&s->busy, false, memory_order_release);
}

/* ---- running ---- */

typedef struct {
  cpu_kernel *k;
  tg_parallel_for *parallel_for;
  void *parallel_user;
  void **buffers;
  const int64_t *params;
  tg_phase_fn *entry;
  uint32_t threads;
  bool unaligned;
  slot **workspace;            /* by number of the worker */
  char *given;                 /* or the caller's workspace: one part of `each` bytes for each worker */
  size_t each;
  atomic_bool failed;
  /* tasks: of the phase; shares: into how many contiguous parts they are divided; 0: each task is handed out alone.
   * Neighbours mostly read on where the one before ended, which memory gives faster than places that threads take in
   * turn; and what is left for one thread at the end is a small part of what each has done. */
  int64_t tasks, shares;
  atomic_llong next;
  /* of the caller's parallel_for: tasks of the phase that have ended; and the phase of which fewer ended than it has,
   * behind which nothing is run; missed 0: all did */
  atomic_llong ended;
  int64_t missed, of;
} run;

static void pool_task(void *arg, int64_t i, uint32_t worker) {
  run *r = arg;
  r->entry(r->buffers, r->params,
           r->given ? r->given + worker * r->each : r->workspace[worker]->memory, i);
}

/* Runs what is handed out: a task, or a share of the tasks. */
static void deal(void *arg, int64_t i, uint32_t worker) {
  run *r = arg;
  int64_t each = r->shares ? r->tasks / r->shares : 1, more = r->shares ? r->tasks % r->shares : 0;
  int64_t from = i * each + (i < more ? i : more), n = each + (i < more);
  for (int64_t to = from + n; from < to; from++) pool_task(r, from, worker);
}

/* With the caller's workspace parallel_for runs as many of these as there are threads. Each takes tasks until none is
 * left; if they run one after another, the first does everything. */
static void team_task(void *arg, int64_t worker) {
  run *r = arg;
  int64_t n = r->shares ? r->shares : r->tasks;
  for (int64_t i; (i = atomic_fetch_add_explicit(&r->next, 1, memory_order_relaxed)) < n;) {
    deal(r, i, (uint32_t)worker);
    atomic_fetch_add_explicit(&r->ended, 1, memory_order_relaxed);
  }
}

static void caller_task(void *arg, int64_t i) {
  run *r = arg;
  slot own, *s = take(r->k, r->k->workspaces, &own, r->k->head.info.workspace);
  if (!s) atomic_store(&r->failed, true);
  else r->entry(r->buffers, r->params, s->memory, i);
  give(r->k, s, &own, r->k->head.info.workspace);
  atomic_fetch_add_explicit(&r->ended, 1, memory_order_relaxed);
}

/* Calls the caller's function, and looks whether all of `units` have ended. */
static void by_caller(run *r, int64_t n, void (*task)(void *, int64_t), int64_t units) {
  atomic_store_explicit(&r->ended, 0, memory_order_relaxed);
  r->parallel_for(r->parallel_user, n, task, r);
  int64_t ended = atomic_load_explicit(&r->ended, memory_order_relaxed);
  if (ended != units) r->missed = units - ended, r->of = units;
}

static int64_t open_phase(run *r, uint32_t p) {
  enum { PARTS = 64 };
  int64_t n = tg_code_tasks(r->k->head.code, p, r->buffers, r->params);
  r->entry = tg_code_entry(r->k->head.code, p, r->unaligned);
  r->tasks = n;
  bool whole = p < 64 && r->k->head.info.in_shares >> p & 1;   /* one share for each thread */
  int64_t shares = whole ? r->threads : (int64_t)r->threads * PARTS;
  r->shares = r->threads > 1 && n > shares ? shares : 0;
  return n;
}

static void run_phase(void *arg, uint32_t p) {
  run *r = arg;
  if (r->missed) return;
  int64_t n = open_phase(r, p);
  if (n > 1 && r->given && r->parallel_for) {
    atomic_store_explicit(&r->next, 0, memory_order_relaxed);
    by_caller(r, n < (int64_t)r->threads ? n : (int64_t)r->threads, team_task, r->shares ? r->shares : n);
  } else if (n > 1 && r->parallel_for) by_caller(r, n, caller_task, n);
  else if (n > 1 && r->threads > 1)
    tg_pool_run(r->k->head.device->pool, r->threads, r->shares ? r->shares : n, deal, r);
  else
    for (int64_t i = 0; i < n; i++) pool_task(r, i, 0);
}

/* Runs the phases with a workspace for each thread that may take part. */
static bool run_with_workspaces(run *r) {
  enum { FEW = 16 };
  slot own_few[FEW], *held_few[FEW], *own = own_few, **held = held_few;
  cpu_kernel *k = r->k;
  uint32_t threads = r->threads;
  size_t bytes = threads * (sizeof *own + sizeof *held);
  char *block = NULL;
  if (threads > FEW) {
    block = k->allocator.alloc(k->allocator.user, bytes);
    if (!block) return false;
    own = (slot *)block;
    held = (slot **)(own + threads);
  }
  uint32_t n = 0;
  while (n < threads && (held[n] = take(k, k->workspaces, &own[n], k->head.info.workspace))) n++;
  r->workspace = held;
  if (n == threads) tg_code_walk(k->head.code, r->buffers, r->params, run_phase, r);
  for (uint32_t i = 0; i < n; i++) give(k, held[i], &own[i], k->head.info.workspace);
  if (block) k->allocator.free(k->allocator.user, block, bytes);
  return n == threads;
}

static bool is_unaligned(const tg_device_kernel *k, const tg_work *w) {
  for (uint64_t left = k->info.aligned; left; left &= left - 1)
    if ((uintptr_t)w->buffers[__builtin_ctzll(left)] % ALIGN) return true;
  return false;
}

static tg_status missed(const run *r, char *message, size_t n) {
  if (!r->missed) return TG_OK;
  snprintf(message, n, "parallel_for returned when %lld of %lld tasks had ended: the results are incomplete",
           (long long)(r->of - r->missed), (long long)r->of);
  return TG_EINVAL;
}

static tg_status launch(tg_queue *q, tg_device_kernel *head, const tg_work *w, char *message, size_t n) {
  (void)q;
  cpu_kernel *k = (cpu_kernel *)head;
  tg_status s = TG_OK;
  run r = {.k = k,
           .parallel_for = w->parallel_for,
           .parallel_user = w->parallel_user,
           .buffers = w->buffers,
           .params = w->params,
           .threads = w->threads,
           .given = w->workspace,
           .each = head->info.workspace,
           .unaligned = is_unaligned(head, w)};
  if (w->workspace) {
    w->buffers[k->signature.buffers_n] = w->workspace + w->threads * head->info.workspace;
    tg_code_walk(head->code, w->buffers, w->params, run_phase, &r);
    return missed(&r, message, n);
  }
  slot own, *shared = NULL;
  if (head->info.shared && !(shared = take(k, k->shared, &own, head->info.shared))) s = TG_ENOMEM;
  w->buffers[k->signature.buffers_n] = shared ? shared->memory : NULL;
  if (s == TG_OK && (!run_with_workspaces(&r) || atomic_load(&r.failed))) s = TG_ENOMEM;
  give(k, shared, &own, head->info.shared);
  if (s == TG_ENOMEM) snprintf(message, n, "out of memory for the workspace of a launch");
  return s == TG_OK ? missed(&r, message, n) : s;
}

/* ---- several launches as one ---- */

/* What is handed out of all of them counts through: launch i has the numbers from end[i - 1] to end[i] - 1. */
typedef struct { run *r; int64_t end[TG_TOGETHER]; uint32_t n; atomic_llong next; } together;

static void take_any(void *arg, int64_t worker) {
  together *t = arg;
  uint32_t at = 0;
  for (int64_t i; (i = atomic_fetch_add_explicit(&t->next, 1, memory_order_relaxed)) < t->end[t->n - 1];) {
    while (i >= t->end[at]) at++;
    deal(&t->r[at], i - (at ? t->end[at - 1] : 0), (uint32_t)worker);
  }
}

bool tg_device_is_single(const tg_device_kernel *k) {
  return k->code && k->info.phases == 1 && !k->info.loops && !k->info.shared;
}

void tg_device_call_together(tg_device_kernel *const *k, const tg_work *w, uint32_t n) {
  run r[TG_TOGETHER];
  together t = {.r = r, .n = n};
  size_t each = 0;
  int64_t all = 0;
  uint32_t threads = w->threads;
  for (uint32_t i = 0; i < n; i++) each = k[i]->info.workspace > each ? k[i]->info.workspace : each;
  for (uint32_t i = 0; i < n; i++) {
    r[i] = (run){.k = (cpu_kernel *)k[i],
                 .buffers = w[i].buffers,
                 .params = w[i].params,
                 .threads = threads,
                 .given = w->workspace,
                 .each = each,
                 .unaligned = is_unaligned(k[i], &w[i])};
    w[i].buffers[k[i]->signature->buffers_n] = NULL;
    int64_t tasks = open_phase(&r[i], 0);
    t.end[i] = all += r[i].shares ? r[i].shares : tasks > 0 ? tasks : 0;
  }
  if (all < (int64_t)threads) threads = (uint32_t)all;
  if (threads > 1 && w->parallel_for) w->parallel_for(w->parallel_user, threads, take_any, &t);
  else if (all) take_any(&t, 0);
}

const tg_driver tg_driver_cpu = {.name = "cpu",
                                 .immediate = true,
                                 .describe = describe,
                                 .open = open_device,
                                 .close = close_device,
                                 .alloc = alloc_memory,
                                 .import = import_memory,
                                 .free = free_memory,
                                 .load = load,
                                 .unload = unload,
                                 .queue_open = open_queue,
                                 .queue_close = close_queue,
                                 .launch = launch,
                                 .copy = copy,
                                 .after = after,
                                 .stamp = stamp,
                                 .submit = submit,
                                 .wait = wait_for,
                                 .stamps = stamps};
