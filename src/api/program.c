/* SPDX-License-Identifier: MIT
 * Recording a program: its memory, and its steps with what each reads and writes. Arguments and temporaries are address
 * ranges that the process keeps free, so that steps are checked as any launch is, and pointers into them are found
 * again. */
#define _GNU_SOURCE
#include <stdio.h>
#include <sys/mman.h>
#include "api/program.h"
#include "devices/team.h"

enum { PAGE = 4096, ALIGN = 64 };

static tg_status fail(tg_program *p, tg_status s, const char *format, ...) TG_PRINTF(3, 4);
static tg_status fail(tg_program *p, tg_status s, const char *format, ...) {
  char message[512];
  va_list ap;
  va_start(ap, format);
  vsnprintf(message, sizeof message, format, ap);
  va_end(ap);
  return tg_context_fail(p->context, s, message);
}

void *tg_program_take(tg_program *p, size_t bytes) {
  const tg_allocator *a = &p->context->env.allocator;
  size_t all = sizeof(tg_program_block) + bytes;
  tg_program_block *b = a->alloc(a->user, all);
  if (!b) return fail(p, TG_ENOMEM, "out of memory: %zu bytes", all), NULL;
  memset(b, 0, all);
  *b = (tg_program_block){p->blocks, all};
  p->blocks = b;
  return b + 1;
}

/* ---- life ---- */

tg_status tg_program_begin_sized(tg_context *c, const tg_program_options *options, size_t options_bytes,
                                 tg_program **out) {
  tg_program_options o;
  if (!c) return TG_EINVAL;
  if (!out) return tg_context_fail(c, TG_EINVAL, "no place is given for the program");
  *out = NULL;
  if (TG_READ(c, tg_program_options, &o, options, options_bytes) != TG_OK) return TG_EINVAL;
  if (o.threads < -1) return tg_context_fail(c, TG_EINVAL, "tg_program_options.threads is below -1");
  if (o.flags & ~(uint64_t)TG_PROGRAM_SEPARATE)
    return tg_context_fail(c, TG_EINVAL, "tg_program_options.flags: unknown bits");
  if (o.device && o.device->context != c)
    return tg_context_fail(c, TG_EINVAL, "tg_program_options.device is another context's");
  tg_program *p = c->env.allocator.alloc(c->env.allocator.user, sizeof *p);
  if (!p) return tg_context_fail(c, TG_ENOMEM, "out of memory");
  memset(p, 0, sizeof *p);
  p->context = c;
  p->device = o.device ? o.device : c->devices;
  p->host = p->device->driver == &tg_driver_cpu;
  p->threads = !p->host ? 1 : o.threads < 0 ? tg_pool_asked(c->pool, -1) : o.threads ? (uint32_t)o.threads : 1;
  p->fuses = p->host && c->compiler && c->compiler->fuse && !(o.flags & TG_PROGRAM_SEPARATE);
  p->last = &p->first;
  pthread_mutex_init(&p->lock, NULL);
  *out = p;
  return TG_OK;
}

static void give_back(tg_program *p) {   /* the addresses that stand for memory */
  for (uint32_t i = 0; i < p->memory_n; i++)
    if (p->memory[i].at) munmap(p->memory[i].at, p->memory[i].reserved), p->memory[i].at = NULL;
}

void tg_program_free(tg_program *p) {
  if (!p) return;
  tg_allocator a = p->context->env.allocator;
  char *spare = atomic_load(&p->spare);
  tg_graph_drop(p->graph);
  if (p->queue) tg_queue_drop(p->queue);
  tg_device_free(p->device, p->area);
  if (spare) a.free(a.user, spare, p->planned + p->scratch + ALIGN);
  give_back(p);
  for (tg_program_fused *f = p->fused; f; f = f->next) tg_kernel_free(f->kernel);
  for (tg_program_extended *x = p->extended; x; x = x->next)
    if (x->extended) x->ends->drop(x->extended);
  for (tg_program_block *b = p->blocks, *next; b; b = next) next = b->next, a.free(a.user, b, b->bytes);
  pthread_mutex_destroy(&p->lock);
  a.free(a.user, p, sizeof *p);
}

uint32_t tg_program_threads(const tg_program *p) { return p->threads; }

/* ---- memory ---- */

static tg_status still_open(tg_program *p) {
  return p->ended ? fail(p, TG_EINVAL, "the program has ended: nothing more can be put into it") : TG_OK;
}

static tg_status add_memory(tg_program *p, const char *name, size_t bytes, bool argument, void **out) {
  if (!p) return TG_EINVAL;
  if (still_open(p) != TG_OK) return TG_EINVAL;
  if (!name || !out) return fail(p, TG_EINVAL, "memory of a program wants a name, and a place for its address");
  *out = NULL;
  if (bytes > (size_t)1 << 46) return fail(p, TG_EINVAL, "'%s' of %zu bytes is past 2^46", name, bytes);
  for (uint32_t i = 0; i < p->memory_n; i++)
    if (!strcmp(p->memory[i].name, name)) return fail(p, TG_EINVAL, "the program has a '%s' already", name);
  if (p->memory_n == p->memory_cap) {
    uint32_t cap = p->memory_cap ? 2 * p->memory_cap : 16;
    tg_program_memory *more = tg_program_take(p, cap * sizeof *more);
    if (!more) return TG_ENOMEM;
    if (p->memory_n) memcpy(more, p->memory, p->memory_n * sizeof *more);
    p->memory = more, p->memory_cap = cap;
  }
  char *copy = tg_program_take(p, strlen(name) + 1);
  if (!copy) return TG_ENOMEM;
  strcpy(copy, name);
  /* a page more than its bytes: the end of one is not the beginning of another */
  size_t reserved = (bytes + PAGE - 1) / PAGE * PAGE + PAGE;
  void *at = mmap(NULL, reserved, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (at == MAP_FAILED) return fail(p, TG_ENOMEM, "no addresses are left for '%s' of %zu bytes", name, bytes);
  p->memory[p->memory_n++] = (tg_program_memory){.name = copy,
                                                 .at = at,
                                                 .bytes = bytes,
                                                 .reserved = reserved,
                                                 .argument = argument,
                                                 .number = argument ? p->arguments_n : 0,
                                                 .align = 1,
                                                 .first = UINT32_MAX};
  p->arguments_n += argument;
  *out = at;
  return TG_OK;
}

tg_status tg_program_argument(tg_program *p, const char *name, size_t bytes, void **out) {
  return add_memory(p, name, bytes, true, out);
}

tg_status tg_program_temporary(tg_program *p, const char *name, size_t bytes, void **out) {
  return add_memory(p, name, bytes, false, out);
}

tg_program_memory *tg_program_memory_of(const tg_program *p, uintptr_t at) {
  for (uint32_t i = 0; i < p->memory_n; i++) {
    tg_program_memory *m = &p->memory[i];
    if (at >= (uintptr_t)m->at && at < (uintptr_t)m->at + m->reserved) return m;
  }
  return NULL;
}

bool tg_program_stands_for(const tg_program *p, const void *at) {
  return tg_program_memory_of(p, (uintptr_t)at) != NULL;
}

/* ---- steps ---- */

/* name: of the step, for messages. Nothing is changed before all accesses are right. */
static tg_status check_accesses(tg_program *p, const char *name, const tg_program_access *a, uint32_t n) {
  for (uint32_t i = 0; i < n; i++) {
    const tg_program_memory *m = tg_program_memory_of(p, a[i].at);
    if (!m) continue;
    size_t from = a[i].at - (uintptr_t)m->at;
    if (from > m->bytes || a[i].bytes > m->bytes - from)
      return fail(p, TG_EINVAL, "step %u, %s: uses bytes %zu to %zu of '%s', which has %zu", p->steps_n, name, from,
                  from + a[i].bytes, m->name, m->bytes);
    if (!m->argument && a[i].read && !m->written)
      return fail(p, TG_EINVAL, "step %u, %s: reads '%s', which no step before it writes", p->steps_n, name, m->name);
  }
  for (uint32_t i = 0; i < n; i++) {
    tg_program_memory *m = tg_program_memory_of(p, a[i].at);
    if (!m) continue;
    m->written |= a[i].written;
    if (m->align < a[i].align) m->align = a[i].align;
  }
  return TG_OK;
}

static void append(tg_program *p, tg_program_step *s) {
  *p->last = s;
  p->last = &s->next;
  p->steps_n++;
}

tg_status tg_program_step_of(tg_program *p, tg_kernel *k, const tg_launch *l, tg_program_step **out) {
  void *buffers[TG_MAX_BUFFERS + 1];
  int64_t bytes[TG_MAX_BUFFERS];
  char message[512];
  tg_work w;
  tg_device_kernel *code = tg_kernel_for(k, l->params, l->params_n);
  tg_status s = tg_device_check(code, l, buffers, bytes, &w, message, sizeof message);
  if (s != TG_OK) return fail(p, s, "step %u: %s", p->steps_n, message);
  uint32_t n = l->buffers_n;
  tg_program_step *step = tg_program_take(p, sizeof *step);
  tg_program_pointer *pointers = tg_program_take(p, n * sizeof *pointers);
  tg_program_access *accesses = tg_program_take(p, n * sizeof *accesses);
  int64_t *params = tg_program_take(p, l->params_n * sizeof *params);
  size_t *lengths = tg_program_take(p, n * sizeof *lengths);
  if (!step || !pointers || !accesses || !params || !lengths) return TG_ENOMEM;
  *step = (tg_program_step){.kernel = k,
                            .code = code,
                            .workspace = tg_device_workspace(code, p->threads),
                            .pointers = pointers,
                            .bytes = lengths,
                            .params = params,
                            .accesses = accesses,
                            .pointers_n = n,
                            .params_n = l->params_n};
  for (uint32_t i = 0; i < n; i++) {
    const tg_buffer_desc *b = &k->info.buffers[i];
    pointers[i].value = (uintptr_t)buffers[i];
    lengths[i] = (size_t)bytes[i];
    if (bytes[i])
      accesses[step->accesses_n++] = (tg_program_access){(uintptr_t)buffers[i], (size_t)bytes[i],
                                                         (uint32_t)tg_type_bytes(b->type), b->read, b->written};
  }
  for (uint32_t i = 0; i < l->params_n; i++) params[i] = l->params[i];
  *out = step;
  return TG_OK;
}

tg_status tg_program_launch_sized(tg_program *p, tg_kernel *k, const tg_launch *given, size_t launch_bytes) {
  char message[512];
  if (!p || !k) return TG_EINVAL;
  if (still_open(p) != TG_OK) return TG_EINVAL;
  tg_launch plain, *l = &plain;
  tg_ordered_launch o;
  if (TG_READ(p->context, tg_launch, l, given, launch_bytes) != TG_OK) return TG_EINVAL;
  if (!given || (!l->buffers && l->buffers_n) || (!l->params && l->params_n))
    return fail(p, TG_EINVAL, "step %u, '%s': the launch lacks its buffers or parameters", p->steps_n, k->info.name);
  if (k->loaded->device != p->device)
    return fail(p, TG_EINVAL, "step %u: kernel '%s' was compiled for another device than the program's", p->steps_n,
                k->info.name);
  plain.workspace = NULL;
  tg_status s = tg_launch_order(k, l, &o, message, sizeof message);
  if (s != TG_OK) return fail(p, s, "step %u: %s", p->steps_n, message);
  tg_program_step *step;
  s = tg_program_step_of(p, k, &o.launch, &step);
  if (s == TG_OK) s = check_accesses(p, k->info.name, step->accesses, step->accesses_n);
  if (s == TG_OK) append(p, step);
  return s;
}

static void read_pointer(const char *call, uint16_t offset, void **out) { memcpy(out, call + offset, sizeof *out); }

/* Copies the arrays that the call points to, and lets it point to the copies. */
static bool copy_arrays(tg_program *p, const tg_program_operation *o, char *call) {
  for (uint32_t i = 0; i < o->copies_n; i++) {
    if (!o->copies[i].data) continue;
    void *copy = tg_program_take(p, o->copies[i].bytes);
    if (!copy) return false;
    memcpy(copy, o->copies[i].data, o->copies[i].bytes);
    memcpy(call + o->copies[i].offset, &copy, sizeof copy);
  }
  return true;
}

tg_status tg_program_lend(tg_program *p, tg_program_operation *o) {
  const tg_program_fields *f = &o->fields;
  const struct { uint16_t at; size_t bytes; } given[] = {
      {f->exec, sizeof(void *)}, {f->queue, sizeof(void *)}, {f->workspace, sizeof(void *)},
      {f->threads, sizeof(int32_t)}};
  static const char zero[sizeof(void *)];
  for (uint32_t i = 0; i < TG_COUNT(given); i++)
    if (memcmp((char *)o->call + given[i].at, zero, given[i].bytes))
      return fail(p, TG_EINVAL,
                  "%s: the program brings workspace, threads and queue: exec, threads, workspace and queue of the call "
                  "are 0",
                  o->name);
  const tg_exec *exec = &o->exec;
  o->exec = (tg_exec){.threads = (int)tg_program_threads(p), .parallel_for = tg_team_for};
  memcpy((char *)o->call + f->exec, &exec, sizeof exec);
  return TG_OK;
}

tg_status tg_program_operation_step(tg_program *p, const tg_program_operation *o, tg_program_step **out) {
  if (o->context != p->context || (o->device ? o->device : p->context->devices) != p->device)
    return fail(p, TG_EINVAL, "step %u, %s: the plan is for another device than the program's", p->steps_n, o->name);
  tg_program_step *step = tg_program_take(p, sizeof *step);
  char *call = tg_program_take(p, o->call_bytes);
  tg_program_pointer *pointers = tg_program_take(p, o->pointers_n * sizeof *pointers);
  tg_program_access *accesses = tg_program_take(p, o->accesses_n * sizeof *accesses);
  if (!step || !call || !pointers || !accesses) return TG_ENOMEM;
  *step = (tg_program_step){.plan = o->plan,
                            .run = o->run,
                            .ends = o->ends,
                            .fields = o->fields,
                            .call = call,
                            .call_bytes = o->call_bytes,
                            .workspace = o->workspace,
                            .pointers = pointers,
                            .accesses = accesses};
  memcpy(call, o->call, o->call_bytes);
  memset(call + o->fields.exec, 0, sizeof(void *));
  if (!copy_arrays(p, o, call)) return TG_ENOMEM;
  for (uint32_t i = 0; i < o->pointers_n; i++) {
    void *at;
    read_pointer(call, o->pointers[i], &at);
    if (at) pointers[step->pointers_n++] = (tg_program_pointer){.field = o->pointers[i], .value = (uintptr_t)at};
  }
  for (uint32_t i = 0; i < o->accesses_n; i++)
    if (o->accesses[i].bytes) accesses[step->accesses_n++] = o->accesses[i];
  *out = step;
  return TG_OK;
}

tg_status tg_program_add(tg_program *p, const tg_program_operation *o) {
  tg_program_step *step;
  if (still_open(p) != TG_OK) return TG_EINVAL;
  tg_status s = tg_program_operation_step(p, o, &step);
  if (s == TG_OK) s = check_accesses(p, o->name, step->accesses, step->accesses_n);
  if (s == TG_OK) append(p, step);
  return s;
}

/* ---- the end ---- */

tg_status tg_program_end(tg_program *p) {
  char message[512] = "";
  if (!p) return TG_EINVAL;
  if (still_open(p) != TG_OK) return TG_EINVAL;
  tg_status s = tg_program_plan(p);
  if (s == TG_OK && p->fuses) s = tg_program_fuse(p);
  if (s == TG_OK) s = tg_program_settle(p);
  if (s != TG_OK) return s;
  if (!p->host) {
    p->recorded = tg_program_take(p, p->arguments_n * sizeof *p->recorded);
    if (!p->recorded) return TG_ENOMEM;
    s = tg_queue_make(p->device, &(tg_queue_options){.kind = TG_QUEUE_COMPUTE}, &p->queue, message, sizeof message);
    if (s == TG_OK && p->planned) s = tg_device_alloc(p->device, p->planned, &p->area);
    else if (s != TG_OK) return fail(p, s, "%s", message);
    if (s != TG_OK) return s;
  }
  give_back(p);
  p->ended = true;
  return TG_OK;
}

tg_status tg_program_describe_sized(const tg_program *p, tg_program_info *out, size_t bytes) {
  if (!p) return TG_EINVAL;
  if (!out) return tg_context_fail(p->context, TG_EINVAL, "no place is given for what the program is");
  tg_program_info i = {.steps = p->steps_n,
                       .arguments = p->arguments_n,
                       .temporaries = p->memory_n - p->arguments_n,
                       .groups = p->groups_n,
                       .temporary_bytes = p->all,
                       .live_bytes = p->live,
                       .planned_bytes = p->planned,
                       .scratch_bytes = p->scratch,
                       .workspace = p->host ? p->planned + p->scratch : 0,
                       .fused = p->fused_n};
  tg_sized_write(out, bytes, &i, sizeof i);
  return TG_OK;
}
