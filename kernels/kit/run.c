/* SPDX-License-Identifier: MIT
 * Running a plan on the caller's threads or the pool's, in the caller's memory or on the stack. Takes no lock,
 * allocates nothing, and cannot fail once the checks are passed. */
#include <stdio.h>
#include "kit/plan.h"

enum { ALIGN = TG_KIT_LINE, SMALL = 4096 };   /* workspaces of at most SMALL bytes are on the stack */

tg_kit_exec tg_kit_exec_of(const tg_kit_plan *p, const tg_exec *exec, int32_t at_most) {
  tg_kit_exec e = {.pool = p->context->pool, .threads = p->threads};
  if (exec) {
    e.parallel_for = exec->parallel_for, e.user = exec->user;
    e.threads = exec->parallel_for && exec->threads > 1 ? (uint32_t)exec->threads : 1;
  }
  if (at_most > 0 && (uint32_t)at_most < e.threads) e.threads = (uint32_t)at_most;
  return e;
}

typedef struct { tg_pool_task *task; void *arg; } forwarded;

static void forward(void *arg, int64_t i) {
  const forwarded *f = arg;
  f->task(f->arg, i, (uint32_t)i);
}

void tg_kit_tasks(const tg_kit_exec *e, uint32_t n, tg_pool_task *task, void *arg) {
  forwarded f = {task, arg};
  if (n < 2) task(arg, 0, 0);
  else if (e->parallel_for) e->parallel_for(e->user, n, forward, &f);
  else tg_pool_run(e->pool, n, n, task, arg);
}

/* ---- launches ---- */

tg_status tg_kit_puts_open(const tg_kit_plan *p, const char *call, tg_queue *queue, void *workspace, size_t bytes,
                           tg_kit_puts *out) {
  *out = (tg_kit_puts){.queue = queue ? queue : p->device->queue, .workspace = workspace, .workspace_bytes = bytes};
  if (out->queue->device == p->device) return TG_OK;
  return tg_kit_fail(p->context, TG_EINVAL, "%s.queue is another device's than the plan's", call);
}

tg_status tg_kit_puts_end(const tg_kit_plan *p, tg_kit_puts *puts) {
  uint64_t value;
  if (puts->status == TG_OK && puts->queue == p->device->queue)
    puts->status = tg_queue_hand(puts->queue, &value, puts->message, sizeof puts->message);
  return puts->status == TG_OK ? TG_OK : tg_context_fail(p->context, puts->status, puts->message);
}

/* The signature of the kernel says how many bytes of each buffer it uses; the operation has checked its operands. */
static void put(tg_kit_puts *p, const tg_kit_kernel *k, void *const *buffers, const int64_t *values) {
  tg_argument a[TG_KIT_OPERANDS];
  if (p->status != TG_OK) return;
  for (uint32_t i = 0; i < k->operands_n; i++) a[i] = (tg_argument){buffers[i], SIZE_MAX / 2};
  tg_launch l = {.buffers = a,
                 .buffers_n = k->operands_n,
                 .params = values,
                 .params_n = k->values_n,
                 .workspace = p->workspace,
                 .workspace_bytes = p->workspace_bytes};
  p->status = tg_device_put(p->queue, k->kernel->loaded, &l, p->message, sizeof p->message);
}

void tg_kit_launch(const tg_kit_exec *e, uint32_t threads, const tg_kit_kernel *k, void **buffers,
                   const int64_t *values, char *workspace) {
  if (e->puts) {
    put(e->puts, k, buffers, values);
    return;
  }
  if (k->code) {
    k->code(buffers, values, workspace, 0);
    return;
  }
  tg_parallel_for *by = threads > 1 ? e->parallel_for : NULL;
  tg_device_call(k->kernel->loaded, &(tg_work){.buffers = buffers, .params = values, .workspace = workspace,
                                               .threads = threads, .parallel_for = by, .parallel_user = e->user});
}

void tg_kit_launch_of(const tg_kit_exec *e, const tg_kit_kernel *k, void *const *operand, const int64_t *value,
                      char *workspace) {
  void *buffers[TG_KIT_OPERANDS];
  int64_t values[TG_KIT_VALUES];
  tg_kit_take(k, operand, value, buffers, values);
  tg_kit_launch(e, 1, k, buffers, values, workspace);
}

/* ---- strips ---- */

typedef struct {
  const tg_kit_plan *plan;
  uint32_t n, workers;
  char *workspace;
  tg_kit_strip *strip;
  void *arg;
} stripping;

static void take_strips(void *arg, int64_t share, uint32_t worker) {
  const stripping *s = arg;
  char *mine = tg_kit_own(s->plan, s->workspace, (uint32_t)share);
  (void)worker;
  for (uint32_t i = (uint32_t)share; i < s->n; i += s->workers) s->strip(s->arg, i, mine);
}

void tg_kit_run_strips(const tg_kit_plan *p, const tg_kit_exec *e, uint32_t threads, uint32_t n, char *workspace,
                       tg_kit_strip *strip, void *arg) {
  stripping s = {p, n, threads < n ? threads : n, workspace, strip, arg};
  tg_kit_tasks(e, s.workers, take_strips, &s);
}

/* ---- dealing out ---- */

void tg_kit_deal_open(tg_kit_deal *d, int64_t n, int64_t some, uint32_t shares) {
  d->n = n, d->some = some;
  d->shares = shares > TG_KIT_SHARES ? TG_KIT_SHARES : shares;
  for (uint32_t i = 0; i < d->shares; i++) atomic_init(&d->taken[i].n, 0);
}

bool tg_kit_deal_next(tg_kit_deal *d, tg_kit_hand *hand) {
  for (; hand->tried < d->shares; hand->tried++) {
    uint32_t i = (hand->worker + hand->tried) % d->shares;
    int64_t n = d->n / d->shares, more = d->n % d->shares, start = i * n + (i < more ? i : more),
            end = start + n + (i < more);
    hand->from = start + atomic_fetch_add_explicit(&d->taken[i].n, d->some, memory_order_relaxed);
    hand->to = hand->from + d->some < end ? hand->from + d->some : end;
    if (hand->from < end) return true;
  }
  return false;
}

/* ---- memory ---- */

size_t tg_kit_needed(const tg_kit_plan *p, uint32_t threads, bool side_by_side) {
  return threads * p->per_thread + (side_by_side || p->strips ? threads : 1) * p->shared;
}

size_t tg_kit_workspace(size_t needed) { return needed <= SMALL ? 0 : needed + ALIGN; }

static tg_status run_at(char *memory, void (*run)(void *, char *), void *arg) {
  run(arg, memory + (ALIGN - (uintptr_t)memory % ALIGN) % ALIGN);
  return TG_OK;
}

static tg_status run_on_stack(void (*run)(void *, char *), void *arg) {
  char memory[SMALL + ALIGN];
  return run_at(memory, run, arg);
}

tg_status tg_kit_run_in(const tg_kit_plan *p, const char *call, size_t needed, void *given, size_t given_bytes,
                        uint32_t threads, void (*run)(void *arg, char *workspace), void *arg) {
  if (needed <= SMALL) return run_on_stack(run, arg);
  if (given && given_bytes >= needed + ALIGN) return run_at(given, run, arg);
  return tg_kit_fail(p->context, TG_EINVAL, "%s.workspace has %zu bytes, %zu are needed on %u threads", call,
                     given ? given_bytes : 0, needed + ALIGN, threads);
}
