/* SPDX-License-Identifier: MIT
 * Running a program. On the CPU one team of threads runs group after group; on a device the steps are a graph, which
 * the first run records with its arguments, and later runs replay with theirs. */
#include <stdio.h>
#include "api/program.h"
#include "devices/team.h"

enum { ALIGN = 64 };

/* area: the planned memory */
typedef struct {
  const tg_program *p;
  const tg_argument *arguments;
  char *area;
  tg_exec exec;
  tg_status status;
  char message[512];
} run;

#define wrong(p, ...) \
  (snprintf(message, sizeof message, __VA_ARGS__), tg_context_fail((p)->context, TG_EINVAL, message))

static void *address(const run *r, const tg_program_pointer *x) {
  if (x->of == TG_FIXED) return (void *)x->value;
  return (x->of == TG_PLANNED ? r->area : (char *)r->arguments[x->of - TG_GIVEN].data) + x->value;
}

/* ---- checks ---- */

static bool share(const void *a, size_t a_bytes, uintptr_t b, size_t b_bytes) {
  return (uintptr_t)a < b + b_bytes && b < (uintptr_t)a + a_bytes;
}

static const tg_program_memory *argument(const tg_program *p, uint32_t number) {
  const tg_program_memory *m = p->memory;
  while (!m->argument || m->number != number) m++;
  return m;
}

static tg_status check_argument(const tg_program *p, const tg_program_call *c, uint32_t i) {
  char message[512];
  const tg_program_memory *m = argument(p, i);
  const tg_argument *a = &c->arguments[i];
  if (a->bytes < m->bytes) return wrong(p, "argument '%s' has %zu bytes, %zu are needed", m->name, a->bytes, m->bytes);
  if (!a->data && m->bytes) return wrong(p, "argument '%s' is NULL", m->name);
  if ((uintptr_t)a->data % m->align)
    return wrong(p, "argument '%s' is not aligned to its elements of %u bytes", m->name, m->align);
  for (uint32_t k = 0; k < p->fixed_n; k++)
    if ((m->written || p->fixed[k].written) && share(a->data, m->bytes, p->fixed[k].at, p->fixed[k].bytes))
      return wrong(p, "argument '%s' overlaps memory that the program uses, and one of both is written", m->name);
  for (uint32_t k = 0; k < p->arguments_n && m->written; k++)
    if (k != i && share(a->data, m->bytes, (uintptr_t)c->arguments[k].data, argument(p, k)->bytes))
      return wrong(p, "argument '%s', which the program writes, overlaps '%s'", m->name, argument(p, k)->name);
  return c->workspace && share(a->data, m->bytes, (uintptr_t)c->workspace, c->workspace_bytes)
             ? wrong(p, "argument '%s' overlaps the workspace", m->name)
             : TG_OK;
}

static tg_status check_call(const tg_program *p, const tg_program_call *c) {
  char message[512];
  size_t workspace = p->planned + p->scratch;
  if (!p->ended) return wrong(p, "the program has not ended: tg_program_end plans it");
  if (c->arguments_n != p->arguments_n || (!c->arguments && c->arguments_n))
    return wrong(p, "the program takes %u arguments, %u are given", p->arguments_n, c->arguments ? c->arguments_n : 0);
  if (p->host && c->queue) return wrong(p, "tg_program_call.queue is given, and the program is for the CPU");
  if (!p->host && (c->workspace || c->exec))
    return wrong(p, "tg_program_call.workspace and exec are for the CPU, and the program is for a device");
  if (!p->host && c->queue && c->queue->device != p->device)
    return wrong(p, "tg_program_call.queue is another device's than the program's");
  if ((uintptr_t)c->workspace % ALIGN) return wrong(p, "tg_program_call.workspace is not aligned to %d bytes", ALIGN);
  if (c->workspace && c->workspace_bytes < workspace)
    return wrong(p, "tg_program_call.workspace has %zu bytes, %zu are needed", c->workspace_bytes, workspace);
  for (uint32_t i = 0; i < p->arguments_n; i++) {
    tg_status s = check_argument(p, c, i);
    if (s != TG_OK) return s;
  }
  return TG_OK;
}

/* ---- on the CPU ---- */

static void call_of(const run *r, const tg_program_step *s, char *copy) {
  memcpy(copy, s->call, s->call_bytes);
  for (uint32_t i = 0; i < s->pointers_n; i++) {
    void *at = address(r, &s->pointers[i]);
    memcpy(copy + s->pointers[i].field, &at, sizeof at);
  }
}

/* queue NULL: with this memory, on the run's threads. */
static tg_status run_operation(run *r, const tg_program_step *s, tg_queue *queue, void *workspace, size_t bytes) {
  _Alignas(16) char call[TG_PROGRAM_CALL];
  const tg_exec *exec = queue ? NULL : &r->exec;
  call_of(r, s, call);
  memcpy(call + s->fields.exec, &exec, sizeof exec);
  memcpy(call + s->fields.queue, &queue, sizeof queue);
  memcpy(call + s->fields.workspace, &workspace, sizeof workspace);
  memcpy(call + s->fields.workspace_bytes, &bytes, sizeof bytes);
  return s->run(s->plan, call);
}

/* The kernels from s on that are in its group. Returns the next step. */
static const tg_program_step *run_kernels(run *r, const tg_program_step *s, char *scratch) {
  tg_device_kernel *kernels[TG_TOGETHER];
  tg_work works[TG_TOGETHER];
  void *buffers[TG_MAX_BUFFERS + TG_TOGETHER];
  uint32_t n = 0, at = 0, group = s->group;
  for (; s && s->group == group; s = s->next, n++) {
    kernels[n] = s->code;
    works[n] = (tg_work){.buffers = &buffers[at],
                         .params = s->params,
                         .workspace = scratch,
                         .threads = (uint32_t)r->exec.threads,
                         .parallel_for = r->exec.parallel_for,
                         .parallel_user = r->exec.user};
    for (uint32_t i = 0; i < s->pointers_n; i++) buffers[at++] = address(r, &s->pointers[i]);
    at++;   /* of the memory that phases share, which launches fill in */
  }
  if (n == 1) tg_device_call(kernels[0], works);
  else tg_device_call_together(kernels, works, n);
  return s;
}

static void run_steps(void *arg, tg_team *team) {
  run *r = arg;
  const tg_program *p = r->p;
  bool several = r->exec.threads > 1;
  r->exec.parallel_for = several ? tg_team_for : NULL, r->exec.user = several ? team : NULL;
  char *scratch = r->area + p->planned;
  for (const tg_program_step *s = p->first; s && r->status == TG_OK;)
    if (s->kernel) s = run_kernels(r, s, scratch);
    else {
      r->status = run_operation(r, s, NULL, scratch, p->scratch);
      if (r->status != TG_OK) snprintf(r->message, sizeof r->message, "%s", tg_error_message(p->context));
      s = s->next;
    }
}

/* The spare workspace, or a new one; give_workspace makes it the spare one again. */
static char *take_workspace(tg_program *p) {
  const tg_allocator *a = &p->context->env.allocator;
  char *w = atomic_exchange_explicit(&p->spare, NULL, memory_order_acquire);
  return w ? w : a->alloc(a->user, p->planned + p->scratch + ALIGN);
}

static void give_workspace(tg_program *p, char *w) {
  const tg_allocator *a = &p->context->env.allocator;
  w = atomic_exchange_explicit(&p->spare, w, memory_order_acq_rel);
  if (w) a->free(a->user, w, p->planned + p->scratch + ALIGN);
}

static tg_status run_here(tg_program *p, const tg_program_call *c) {
  char *own = c->workspace ? NULL : take_workspace(p);
  if (!c->workspace && !own)
    return tg_context_fail(p->context, TG_ENOMEM, "out of memory for the program's workspace");
  run r = {.p = p, .arguments = c->arguments, .area = c->workspace};
  if (own) r.area = own + (ALIGN - (uintptr_t)own % ALIGN) % ALIGN;
  uint32_t threads = p->threads;
  if (c->exec) {
    uint32_t given = c->exec->parallel_for && c->exec->threads > 1 ? (uint32_t)c->exec->threads : 1;
    if (given < threads) threads = given;
  } else threads = tg_pool_asked(p->context->pool, (int)threads);
  r.exec.threads = (int)threads;
  tg_team_run(p->context->pool, c->exec ? c->exec->parallel_for : NULL, c->exec ? c->exec->user : NULL, threads,
              run_steps, &r);
  if (own) give_workspace(p, own);
  return r.status == TG_OK ? TG_OK : tg_context_fail(p->context, r.status, r.message);
}

/* ---- on a device ---- */

static tg_status put_kernel(run *r, const tg_program_step *s) {
  tg_argument a[TG_MAX_BUFFERS];
  for (uint32_t i = 0; i < s->pointers_n; i++) a[i] = (tg_argument){address(r, &s->pointers[i]), s->bytes[i]};
  return tg_queue_launch(r->p->queue, s->kernel, &(tg_launch){.buffers = a,
                                                              .buffers_n = s->pointers_n,
                                                              .params = s->params,
                                                              .params_n = s->params_n});
}

static tg_status record(tg_program *p, const tg_program_call *c) {
  run r = {.p = p, .arguments = c->arguments, .area = p->area};
  tg_graph *graph = NULL;
  tg_status s = tg_queue_record(p->queue);
  if (s != TG_OK) return s;
  for (const tg_program_step *step = p->first; step && s == TG_OK; step = step->next)
    s = step->kernel ? put_kernel(&r, step) : run_operation(&r, step, p->queue, NULL, 0);
  tg_status ended = tg_queue_recorded(p->queue, &graph);
  if (s == TG_OK && ended == TG_OK) {
    for (uint32_t i = 0; i < c->arguments_n; i++) p->recorded[i] = c->arguments[i];
    p->graph = graph;
    return TG_OK;
  }
  tg_graph_drop(graph);
  return s == TG_OK ? ended : s;
}

static tg_status replay(tg_program *p, const tg_program_call *c, tg_queue *q) {
  enum { FEW = 64 };
  const tg_allocator *a = &p->context->env.allocator;
  tg_graph_move few[FEW], *moves = few;
  uint32_t n = 0;
  size_t bytes = p->arguments_n * sizeof *moves;
  if (p->arguments_n > FEW && !(moves = a->alloc(a->user, bytes)))
    return tg_context_fail(p->context, TG_ENOMEM, "out of memory");
  for (uint32_t i = 0; i < p->arguments_n; i++)
    if (argument(p, i)->bytes)
      moves[n++] = (tg_graph_move){p->recorded[i].data, c->arguments[i].data, argument(p, i)->bytes};
  tg_status s = tg_queue_replay(q, p->graph, &(tg_graph_replay){.moves = moves, .moves_n = n});
  if (moves != few) a->free(a->user, moves, bytes);
  return s;
}

static tg_status run_there(tg_program *p, const tg_program_call *c) {
  tg_queue *q = c->queue ? c->queue : p->device->queue;
  tg_queue_mark done;
  pthread_mutex_lock(&p->lock);
  tg_status s = p->graph ? TG_OK : record(p, c);
  pthread_mutex_unlock(&p->lock);
  if (s == TG_OK && p->steps_n) s = replay(p, c, q);
  if (s != TG_OK || c->queue) return s;
  s = tg_queue_submit(q, &done);
  return s == TG_OK ? tg_queue_wait(done, -1) : s;
}

tg_status tg_program_run_sized(tg_program *p, const tg_program_call *call, size_t call_bytes) {
  tg_program_call c;
  if (!p) return TG_EINVAL;
  tg_status s = TG_READ(p->context, tg_program_call, &c, call, call_bytes);
  if (s == TG_OK) s = check_call(p, &c);
  if (s != TG_OK) return s;
  return p->host ? run_here(p, &c) : run_there(p, &c);
}
