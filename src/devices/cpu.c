/* SPDX-License-Identifier: MIT
 * Launches on the CPU. The tasks of a phase are fixed by the kernel, so the result does not depend on who runs them. A launch checks
 * its arguments, takes workspaces from the kernel's own and gives them back: it takes no lock, and in its first runs only it allocates. With the
 * caller's workspace it never does. */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include "devices/devices.h"

enum { SLOTS = 64, MAX_BUFFERS = 255, ALIGN = 64 };

typedef struct { atomic_bool busy; char *memory, *block; } slot;   /* memory: 64-aligned, in block; made when first used */

struct tg_cpu_kernel {
  tg_allocator allocator;
  tg_code *code;
  tg_code_info info;
  slot workspaces[SLOTS], shared[SLOTS];
  tg_spec spec;                /* the rest of it behind */
};

tg_cpu_kernel *tg_cpu_kernel_new(const tg_allocator *a, tg_code *code, const tg_code_info *info, const tg_spec *spec) {
  size_t bytes = offsetof(tg_cpu_kernel, spec) + spec->bytes;
  tg_cpu_kernel *k = a->alloc(a->user, bytes);
  if (!k) return NULL;
  memset(k, 0, offsetof(tg_cpu_kernel, spec));
  memcpy(&k->spec, spec, spec->bytes);
  k->allocator = *a;
  k->code = code;
  k->info = *info;
  k->info.launch = NULL;       /* the code has its own */
  return k;
}

void tg_cpu_kernel_free(tg_cpu_kernel *k) {
  if (!k) return;
  tg_allocator a = k->allocator;
  for (uint32_t i = 0; i < SLOTS; i++) {
    if (k->workspaces[i].block) a.free(a.user, k->workspaces[i].block, k->info.workspace + ALIGN);
    if (k->shared[i].block) a.free(a.user, k->shared[i].block, k->info.shared + ALIGN);
  }
  tg_code_unload(k->code);
  a.free(a.user, k, offsetof(tg_cpu_kernel, spec) + k->spec.bytes);
}

const tg_spec *tg_cpu_kernel_spec(const tg_cpu_kernel *k) { return &k->spec; }
const tg_code_info *tg_cpu_kernel_info(const tg_cpu_kernel *k) { return &k->info; }

/* ---- workspaces ---- */

static bool fill_slot(tg_cpu_kernel *k, slot *s, uint64_t bytes) {
  s->block = k->allocator.alloc(k->allocator.user, bytes + ALIGN);
  if (!s->block) return false;
  s->memory = s->block + (ALIGN - (uintptr_t)s->block % ALIGN) % ALIGN;
  return true;
}

/* A free one, or `own`, made for this launch alone when all are taken. NULL: out of memory. */
static slot *take(tg_cpu_kernel *k, slot *list, slot *own, uint64_t bytes) {
  for (uint32_t i = 0; i < SLOTS; i++) {
    slot *s = &list[i];
    if (atomic_load_explicit(&s->busy, memory_order_relaxed) || atomic_exchange_explicit(&s->busy, true, memory_order_acquire)) continue;
    if (s->memory || fill_slot(k, s, bytes)) return s;
    atomic_store_explicit(&s->busy, false, memory_order_release);
    return NULL;
  }
  *own = (slot){.block = NULL};
  return fill_slot(k, own, bytes) ? own : NULL;
}

static void give(tg_cpu_kernel *k, slot *s, const slot *own, uint64_t bytes) {
  if (s == own) k->allocator.free(k->allocator.user, s->block, bytes + ALIGN);
  else if (s) atomic_store_explicit(&s->busy, false, memory_order_release);
}

/* ---- running ---- */

typedef struct {
  tg_cpu_kernel *k;
  tg_parallel_for *parallel_for;
  void *parallel_user;
  void **buffers;
  const int64_t *params;
  tg_phase_fn *entry;
  tg_pool *pool;
  uint32_t threads;
  bool unaligned;
  slot **workspace;            /* by worker of the pool */
  char *given;                 /* or the caller's: worker after worker */
  atomic_bool failed;
  int64_t tasks, shares;       /* of the phase; shares: what is dealt out are that many contiguous parts of the tasks; 0: the tasks */
  atomic_llong next;
} run;

static void pool_task(void *arg, int64_t i, uint32_t worker) {
  run *r = arg;
  r->entry(r->buffers, r->params, r->given ? r->given + worker * r->k->info.workspace : r->workspace[worker]->memory, i);
}

/* What is dealt out: a task, or a share of them. */
static void deal(void *arg, int64_t i, uint32_t worker) {
  run *r = arg;
  int64_t each = r->shares ? r->tasks / r->shares : 1, more = r->shares ? r->tasks % r->shares : 0;
  int64_t from = i * each + (i < more ? i : more), n = each + (i < more);
  for (int64_t to = from + TG_MUTANT("cpu: last task of a share", n, n - (n > 1)); from < to; from++) pool_task(r, from, worker);
}

/* One of as many as there are workspaces: takes what tasks are left. Run one after another, the first does it all. */
static void team_task(void *arg, int64_t worker) {
  run *r = arg;
  int64_t n = r->shares ? r->shares : r->tasks;
  for (int64_t i; (i = atomic_fetch_add_explicit(&r->next, 1, memory_order_relaxed)) < n;) deal(r, i, (uint32_t)worker);
}

static void caller_task(void *arg, int64_t i) {
  run *r = arg;
  slot own, *s = take(r->k, r->k->workspaces, &own, r->k->info.workspace);
  if (!s) atomic_store(&r->failed, true);
  else r->entry(r->buffers, r->params, s->memory, i);
  give(r->k, s, &own, r->k->info.workspace);
}

static void run_phase(void *arg, uint32_t p) {
  run *r = arg;
  if (TG_MUTANT("cpu: last phase", false, p + 1 == r->k->info.phases)) return;
  int64_t n = tg_code_tasks(r->k->code, p, r->buffers, r->params);
  r->entry = tg_code_entry(r->k->code, p, r->unaligned);
  r->tasks = n;
  r->shares = p < 64 && r->k->info.in_shares >> p & 1 && r->threads > 1 && n > (int64_t)r->threads ? r->threads : 0;
  if (n > 1 && r->given && r->parallel_for) {
    r->tasks = TG_MUTANT("cpu: last task of a team", n, n - 1);
    atomic_store_explicit(&r->next, 0, memory_order_relaxed);
    r->parallel_for(r->parallel_user, n < (int64_t)r->threads ? n : (int64_t)r->threads, team_task, r);
  } else if (n > 1 && r->parallel_for) r->parallel_for(r->parallel_user, TG_MUTANT("cpu: last task of a caller", n, n - 1), caller_task, r);
  else if (n > 1 && r->threads > 1) tg_pool_run(r->pool, r->threads, r->shares ? r->shares : n, deal, r);
  else
    for (int64_t i = 0; i < TG_MUTANT("cpu: last task", n, n - 1); i++) pool_task(r, i, 0);
}

/* With a workspace for each thread that may come. */
static bool run_with_workspaces(run *r) {
  enum { FEW = 16 };
  slot own_few[FEW], *held_few[FEW], *own = own_few, **held = held_few;
  tg_cpu_kernel *k = r->k;
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
  while (n < threads && (held[n] = take(k, k->workspaces, &own[n], k->info.workspace))) n++;
  r->workspace = held;
  if (n == threads) tg_code_walk(k->code, r->buffers, r->params, run_phase, r);
  for (uint32_t i = 0; i < n; i++) give(k, held[i], &own[i], k->info.workspace);
  if (block) k->allocator.free(k->allocator.user, block, bytes);
  return n == threads;
}

/* ---- checks ---- */

static tg_status wrong(char *message, size_t n, const char *format, ...) TG_PRINTF(3, 4);
static tg_status wrong(char *message, size_t n, const char *format, ...) {
  va_list ap;
  va_start(ap, format);
  vsnprintf(message, n, format, ap);
  va_end(ap);
  return TG_EINVAL;
}

static tg_status check_overlaps(const tg_spec *s, const tg_launch *l, const int64_t *bytes, char *message, size_t message_n) {
  const tg_spec_buffer *b = tg_spec_buffers(s);
  for (uint32_t i = 0; i < s->buffers_n; i++) {
    if (b[i].role == TG_ROLE_IN) continue;
    uintptr_t from = (uintptr_t)l->buffers[i].data, to = from + (uintptr_t)bytes[i];
    for (uint32_t k = 0; k < s->buffers_n; k++) {
      uintptr_t other = (uintptr_t)l->buffers[k].data;
      if (k == i || (k < i && b[k].role != TG_ROLE_IN) || TG_MUTANT("cpu: buffers side by side", other >= to, other > to) || from >= other + (uintptr_t)bytes[k]) continue;
      return wrong(message, message_n, "'%s', which the kernel writes, overlaps '%s'", tg_spec_strings(s) + b[i].name, tg_spec_strings(s) + b[k].name);
    }
  }
  return TG_OK;
}

static tg_status check(const tg_cpu_kernel *k, const tg_launch *l, void **buffers, bool *unaligned, char *message, size_t message_n) {
  const tg_spec *s = &k->spec;
  const tg_spec_buffer *b = tg_spec_buffers(s);
  const char *names = tg_spec_strings(s);
  int64_t bytes[MAX_BUFFERS];
  if (l->buffers_n != s->buffers_n) return wrong(message, message_n, "kernel '%s' takes %u buffers, %u are given", names + s->name, s->buffers_n, l->buffers_n);
  if (l->params_n != s->params_n) return wrong(message, message_n, "kernel '%s' takes %u parameters, %u are given", names + s->name, s->params_n, l->params_n);
  if (s->params_n && tg_spec_check_params(s, l->params, message, message_n)) return TG_EINVAL;
  for (uint32_t i = 0; i < s->buffers_n; i++) {
    uintptr_t at = (uintptr_t)l->buffers[i].data;
    if (tg_spec_bytes(s, i, l->params, &bytes[i], message, message_n)) return TG_EINVAL;
    if (b[i].strided && b[i].role != TG_ROLE_IN && b[i].bytes < 0 && !tg_spec_apart(s, i, l->params))
      return wrong(message, message_n, "the strides of '%s', which the kernel writes, lay two elements on one place", names + b[i].name);
    if (TG_MUTANT("cpu: buffers too small", l->buffers[i].bytes < (uint64_t)bytes[i], l->buffers[i].bytes + 1 < (uint64_t)bytes[i]))
      return wrong(message, message_n, "'%s' has %zu bytes, %lld are needed", names + b[i].name, l->buffers[i].bytes, (long long)bytes[i]);
    if (!at && bytes[i]) return wrong(message, message_n, "'%s' is NULL", names + b[i].name);
    if (TG_MUTANT("cpu: elements unaligned", at % (unsigned)tg_type_bytes(b[i].type), false)) return wrong(message, message_n, "'%s' is not aligned to its elements of %d bytes", names + b[i].name, tg_type_bytes(b[i].type));
    if (i < 64 && k->info.aligned >> i & 1 && at % ALIGN) *unaligned = TG_MUTANT("cpu: unaligned buffers", true, false);
    buffers[i] = l->buffers[i].data;
  }
  return check_overlaps(s, l, bytes, message, message_n);
}

/* ---- without checks ---- */

size_t tg_cpu_workspace(const tg_cpu_kernel *k, uint32_t threads) { return (size_t)threads * k->info.workspace + k->info.shared; }

uint32_t tg_cpu_threads(const tg_pool *pool, int threads) {
  uint32_t asked = threads < 0 ? UINT32_MAX : threads ? (uint32_t)threads : 1, most = pool ? tg_pool_threads(pool) : 1;
  return asked < most ? asked : most;
}

void tg_cpu_call(tg_cpu_kernel *k, const tg_cpu_launch *l) {
  run r = {.k = k, .parallel_for = l->parallel_for, .parallel_user = l->parallel_user, .buffers = l->buffers, .params = l->params, .pool = l->pool, .threads = l->threads, .given = l->workspace};
  for (uint64_t left = k->info.aligned; left; left &= left - 1)
    if ((uintptr_t)l->buffers[__builtin_ctzll(left)] % ALIGN) r.unaligned = true;
  l->buffers[k->spec.buffers_n] = l->workspace + l->threads * k->info.workspace;
  tg_code_walk(k->code, l->buffers, l->params, run_phase, &r);
}

tg_phase_fn *tg_cpu_code(const tg_cpu_kernel *k, size_t scratch) {
  enum { MAX_PARAMS = 32 };
  void *none[MAX_BUFFERS + 1] = {NULL};
  int64_t least[MAX_PARAMS], most[MAX_PARAMS];
  const tg_spec_param *p = tg_spec_params(&k->spec);
  if (k->info.phases != 1 || k->info.loops || k->info.shared || k->info.aligned || k->info.workspace > scratch || k->spec.params_n > MAX_PARAMS || k->spec.buffers_n > MAX_BUFFERS) return NULL;
  for (uint32_t i = 0; i < k->spec.params_n; i++) least[i] = p[i].lo, most[i] = p[i].hi;
  return tg_code_tasks(k->code, 0, none, least) == 1 && tg_code_tasks(k->code, 0, none, most) == 1 ? tg_code_entry(k->code, 0, false) : NULL;
}

static tg_status run_in_given(tg_cpu_kernel *k, tg_pool *pool, const tg_launch *l, void **buffers, char *message, size_t message_n) {
  uint32_t threads = l->parallel_for && l->threads > 0 ? (uint32_t)l->threads : l->parallel_for ? 1 : tg_cpu_threads(pool, l->threads);
  size_t needed = tg_cpu_workspace(k, threads);
  if ((uintptr_t)l->workspace % ALIGN) return wrong(message, message_n, "the workspace is not aligned to %d bytes", ALIGN);
  if (l->workspace_bytes < needed) return wrong(message, message_n, "the workspace has %zu bytes, %zu are needed on %u threads", l->workspace_bytes, needed, threads);
  tg_cpu_call(k, &(tg_cpu_launch){buffers, l->params, l->workspace, pool, threads, l->parallel_for, l->parallel_user});
  return TG_OK;
}

tg_status tg_cpu_run(tg_cpu_kernel *k, tg_pool *pool, const tg_launch *launch, char *message, size_t message_n) {
  void *buffers[MAX_BUFFERS + 1];
  bool unaligned = false;
  if (k->spec.buffers_n > MAX_BUFFERS) return wrong(message, message_n, "a kernel of over %d buffers", MAX_BUFFERS);
  tg_status s = check(k, launch, buffers, &unaligned, message, message_n);
  if (s != TG_OK) return s;
  uint32_t threads = tg_cpu_threads(pool, launch->threads);
  if (launch->workspace) return run_in_given(k, pool, launch, buffers, message, message_n);
  run r = {.k = k, .parallel_for = launch->parallel_for, .parallel_user = launch->parallel_user, .buffers = buffers, .params = launch->params, .pool = pool, .threads = threads, .unaligned = unaligned};
  slot own, *shared = NULL;
  if (k->info.shared && !(shared = take(k, k->shared, &own, k->info.shared))) s = TG_ENOMEM;
  buffers[k->spec.buffers_n] = shared ? shared->memory : NULL;
  if (s == TG_OK && (!run_with_workspaces(&r) || atomic_load(&r.failed))) s = TG_ENOMEM;
  give(k, shared, &own, k->info.shared);
  if (s == TG_ENOMEM) snprintf(message, message_n, "out of memory for the workspace of a launch");
  return s;
}

/* ---- time ---- */

static int by_value(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

tg_status tg_cpu_time(tg_cpu_kernel *k, tg_pool *pool, const tg_launch *launch, double seconds, tg_timing *out, char *message, size_t message_n) {
  enum { MOST = 1000 };
  double times[MOST], start = tg_now();
  uint32_t n = 0, inner = 1;
  tg_status s = tg_cpu_run(k, pool, launch, message, message_n);
  double first = tg_now() - start;
  if (first < 20e-6) inner = (uint32_t)(20e-6 / (first > 1e-8 ? first : 1e-8)) + 1; /* longer than the clock's own cost */
  for (start = tg_now(); s == TG_OK && n < MOST && (n < 3 || tg_now() - start < seconds); n++) {
    double t = tg_now();
    for (uint32_t i = 0; i < inner && s == TG_OK; i++) s = tg_cpu_run(k, pool, launch, message, message_n);
    times[n] = (tg_now() - t) / inner;
  }
  if (s != TG_OK) return s;
  qsort(times, n, sizeof *times, by_value);
  *out = (tg_timing){times[0], times[n / 2], n};
  return TG_OK;
}
