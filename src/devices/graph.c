/* SPDX-License-Identifier: MIT
 * Graphs: launches and copies that were put on a queue while it recorded, kept with copies of their arguments, to be
 * put again, as they were or with other pointers and parameters. A driver that has graphs of its own gets the steps
 * once; for others they are put one after another. The graph has its own scratch memory, shared by its steps, which run
 * in order; so do its replays. */
#include <stdio.h>
#include "devices/device.h"

/* What a step was recorded with. of_bytes, offsets: as the caller gave them for the buffers. */
typedef struct {
  void **buffers;
  size_t *of_bytes, *offsets;
  int64_t *params;
  void *to;
  const void *from;
  char *workspace;
} recorded;

typedef struct node {
  struct node *next;
  size_t size;                 /* of this allocation, the arrays included */
  tg_graph_step step;
  recorded was;
  int64_t *bytes, *params;     /* the step's own, which a replay changes */
  size_t workspace_bytes;
  int threads;
  bool changed;                /* by the replay at hand */
  bool dirty;                  /* bytes, or the driver's graph, may have what an earlier replay changed */
} node;

struct tg_graph {
  tg_device *device;
  pthread_mutex_t lock;        /* a replay changes the steps */
  node *first, **last;
  uint32_t n;
  size_t scratch_bytes;
  void *scratch;
  tg_graph_step *steps;              /* for the driver's own graph, and which steps changed; NULL: it has none */
  bool *changed;
  void *made;
  tg_queue_mark end;           /* of the latest replay, on the queue of this identity, which may be gone */
  uint64_t end_identity;
};

static void *make(const tg_graph *g, size_t bytes) {
  void *p = g->device->allocator.alloc(g->device->allocator.user, bytes);
  return p ? memset(p, 0, bytes) : NULL;
}

static void drop(const tg_graph *g, void *p, size_t bytes) {
  if (p) g->device->allocator.free(g->device->allocator.user, p, bytes);
}

static tg_status no_memory(char *message, size_t n) { return snprintf(message, n, "out of memory"), TG_ENOMEM; }

/* ---- recording ---- */

tg_status tg_graph_begin(tg_queue *q, char *message, size_t n) {
  tg_graph *none = NULL, *g = q->device->allocator.alloc(q->device->allocator.user, sizeof *g);
  if (!g) return no_memory(message, n);
  *g = (tg_graph){.device = q->device};
  g->last = &g->first;
  pthread_mutex_init(&g->lock, NULL);
  if (atomic_compare_exchange_strong(&q->recording, &none, g)) return TG_OK;
  tg_graph_drop(g);
  return snprintf(message, n, "the queue is recording already"), TG_EINVAL;
}

static void append(tg_graph *g, node *s) {
  pthread_mutex_lock(&g->lock);
  *g->last = s;
  g->last = &s->next;
  g->n++;
  if (s->step.kernel && !s->was.workspace && s->step.kernel->scratch > g->scratch_bytes)
    g->scratch_bytes = s->step.kernel->scratch;
  pthread_mutex_unlock(&g->lock);
}

tg_status tg_graph_add_launch(tg_graph *g, tg_device_kernel *k, const tg_launch *l, const tg_work *w, char *message,
                              size_t n) {
  const size_t buffers = l->buffers_n, params = l->params_n;
  size_t bytes = sizeof(node) + (2 * buffers + 1) * sizeof(void *) + buffers * (2 * sizeof(size_t) + sizeof(int64_t)) +
                 2 * params * sizeof(int64_t);
  node *s = make(g, bytes);
  if (!s) return no_memory(message, n);
  s->size = bytes;
  s->was.buffers = (void **)(s + 1);
  s->step.work = *w;
  s->step.work.buffers = s->was.buffers + buffers;           /* with room for one more */
  s->was.of_bytes = (size_t *)(s->step.work.buffers + buffers + 1);
  s->was.offsets = s->was.of_bytes + buffers;
  s->bytes = (int64_t *)(s->was.offsets + buffers);
  s->was.params = s->bytes + buffers;
  s->params = s->was.params + params;
  for (size_t i = 0; i < buffers; i++) {
    s->was.buffers[i] = l->buffers[i].data;
    s->step.work.buffers[i] = w->buffers[i];
    s->was.of_bytes[i] = l->buffers[i].bytes;
    s->was.offsets[i] = l->offsets ? l->offsets[i] : 0;
    s->bytes[i] = w->bytes[i];
  }
  for (size_t i = 0; i < params; i++) s->was.params[i] = s->params[i] = l->params[i];
  s->step.kernel = k;
  s->step.work.bytes = s->bytes;
  s->step.work.params = s->params;
  s->was.workspace = w->workspace;
  s->workspace_bytes = l->workspace_bytes;
  s->threads = l->threads;
  append(g, s);
  return TG_OK;
}

tg_status tg_graph_add_copy(tg_graph *g, void *to, const void *from, size_t bytes, char *message, size_t n) {
  node *s = make(g, sizeof *s);
  if (!s) return no_memory(message, n);
  s->size = sizeof *s;
  s->step = (tg_graph_step){.to = to, .from = from, .bytes = bytes};
  s->was.to = to, s->was.from = from;
  append(g, s);
  return TG_OK;
}

/* The driver's own graph, or the scratch memory alone. */
static tg_status finish(tg_graph *g, char *message, size_t n) {
  const tg_driver *f = g->device->driver;
  tg_status s = TG_OK;
  uint32_t i = 0;
  if (g->scratch_bytes) s = tg_memory_alloc(g->device, g->scratch_bytes, TG_MEMORY_DEVICE, &g->scratch, message, n);
  if (s != TG_OK) return s;
  for (node *at = g->first; at; at = at->next)
    if (at->step.kernel && !at->step.kernel->code && !at->was.workspace) at->step.work.workspace = g->scratch;
  if (!f->graph_make || !g->n) return TG_OK;
  g->steps = make(g, g->n * sizeof *g->steps);
  g->changed = make(g, g->n * sizeof *g->changed);
  if (!g->steps || !g->changed) return no_memory(message, n);
  for (node *at = g->first; at; at = at->next) g->steps[i++] = at->step;
  return tg_device_noted(g->device, f->graph_make(g->device, g->steps, g->n, &g->made, message, n));
}

tg_status tg_graph_end(tg_queue *q, tg_graph **out, char *message, size_t n) {
  tg_graph *g = atomic_exchange(&q->recording, NULL);
  if (!g) return snprintf(message, n, "the queue is not recording"), TG_EINVAL;
  tg_status s = tg_device_alive(q->device, message, n);
  if (s == TG_OK) s = finish(g, message, n);
  if (s == TG_OK) *out = g;
  else tg_graph_drop(g);
  return s;
}

void tg_graph_drop(tg_graph *g) {
  char message[256];
  if (!g) return;
  tg_device *d = g->device;
  if (g->end.queue) tg_device_wait_all(d, message, sizeof message);   /* its queue may be gone */
  if (g->made) d->driver->graph_drop(d, g->made);
  if (g->scratch) tg_memory_free(d, g->scratch);
  for (node *s = g->first, *next; s; s = next) next = s->next, drop(g, s, s->size);
  drop(g, g->steps, g->n * sizeof *g->steps);
  drop(g, g->changed, g->n * sizeof *g->changed);
  pthread_mutex_destroy(&g->lock);
  drop(g, g, sizeof *g);
}

uint32_t tg_graph_steps(const tg_graph *g) { return g ? g->n : 0; }

/* ---- replaying ---- */

/* Where the pointer leads in this replay; *bytes: how many of the memory there are known, at most as many as were. */
static void *moved(const tg_graph_replay *r, const void *p, size_t *bytes) {
  for (uint32_t i = 0; i < r->moves_n; i++) {
    const tg_graph_move *m = &r->moves[i];
    size_t at = (uintptr_t)p - (uintptr_t)m->recorded;
    if ((uintptr_t)p < (uintptr_t)m->recorded || at >= m->bytes) continue;
    if (*bytes > m->bytes - at) *bytes = m->bytes - at;
    return (char *)m->now + at;
  }
  return (void *)(uintptr_t)p;
}

/* Sets a step to what this replay wants of it, and checks it if it is not as recorded. */
static tg_status set_launch(const tg_graph_replay *r, uint32_t number, node *s, char *message, size_t n) {
  tg_device_kernel *k = s->step.kernel;
  tg_argument a[TG_MAX_BUFFERS];
  uint32_t buffers_n = k->signature->buffers_n, params_n = k->signature->params_n;
  for (uint32_t i = 0; i < buffers_n; i++) {
    a[i] = (tg_argument){s->was.buffers[i], s->was.of_bytes[i]};
    if (a[i].bytes) a[i].data = moved(r, a[i].data, &a[i].bytes);
    s->changed |= a[i].data != s->was.buffers[i];   /* then the check below sets what the step has */
  }
  for (uint32_t i = 0; i < params_n; i++) s->params[i] = s->was.params[i];
  for (uint32_t i = 0; i < r->params_n; i++)
    if (r->params[i].step == number) s->params[r->params[i].param] = r->params[i].value, s->changed = true;
  size_t bytes = s->workspace_bytes;
  char *workspace = s->was.workspace ? moved(r, s->was.workspace, &bytes) : NULL;
  s->changed |= workspace != s->was.workspace;
  if (workspace) s->step.work.workspace = workspace;
  if (!s->changed && !s->dirty) return TG_OK;
  tg_work checked;
  return tg_device_check(k, &(tg_launch){.buffers = a, .buffers_n = buffers_n, .params = s->params,
                                         .params_n = params_n, .threads = s->threads, .workspace = workspace,
                                         .offsets = s->was.offsets,
                                         .workspace_bytes = bytes, .parallel_for = s->step.work.parallel_for},
                         s->step.work.buffers, s->bytes, &checked, message, n);
}

static tg_status set_copy(const tg_graph_replay *r, node *s, char *message, size_t n) {
  size_t bytes = s->step.bytes;
  s->step.to = moved(r, s->was.to, &bytes);
  s->step.from = moved(r, s->was.from, &bytes);
  s->changed = s->step.to != s->was.to || s->step.from != s->was.from;
  if (bytes == s->step.bytes) return TG_OK;
  return snprintf(message, n, "a copy of %zu bytes leaves the memory that was moved", s->step.bytes), TG_EINVAL;
}

static tg_status check_params(const tg_graph *g, const tg_graph_replay *r, char *message, size_t n) {
  for (uint32_t i = 0; i < r->params_n; i++) {
    uint32_t number = r->params[i].step;
    const node *s = g->first;
    for (uint32_t k = 0; s && k < number; k++) s = s->next;
    if (!s || !s->step.kernel || r->params[i].param >= s->step.kernel->signature->params_n)
      return snprintf(message, n, "step %u has no parameter %u", number, r->params[i].param), TG_EINVAL;
  }
  return TG_OK;
}

/* Sets all steps before any is put: a replay that is refused puts nothing. */
static tg_status set_steps(tg_graph *g, const tg_graph_replay *r, char *message, size_t n) {
  tg_status s = check_params(g, r, message, n);
  uint32_t i = 0;
  for (node *at = g->first; at && s == TG_OK; at = at->next, i++) {
    char why[480];
    at->changed = false;
    s = at->step.kernel ? set_launch(r, i, at, why, sizeof why) : set_copy(r, at, why, sizeof why);
    at->dirty |= at->changed;
    if (s != TG_OK) snprintf(message, n, "step %u: %s", i, why);
    else if (g->made) g->steps[i] = at->step, g->changed[i] = at->dirty;
  }
  return s;
}

static tg_status put_steps(tg_queue *q, tg_graph *g, char *message, size_t n) {
  const tg_driver *f = g->device->driver;
  tg_status s = TG_OK;
  if (g->made) s = f->graph_put(q, g->made, g->steps, g->n, g->changed, message, n);
  for (node *at = g->first; at && s == TG_OK; at = at->next) {
    if (!g->made)
      s = at->step.kernel ? f->launch(q, at->step.kernel, &at->step.work, message, n)
                          : f->copy(q, at->step.to, at->step.from, at->step.bytes, message, n);
    if (s == TG_OK) at->dirty = at->changed;
  }
  return s;
}

/* Puts the steps behind the earlier replay, and notes where they end. The device's lock keeps the queue of the earlier
 * replay from being freed; it comes before a queue's lock. */
static tg_status put_behind(tg_queue *q, tg_graph *g, char *message, size_t n) {
  tg_device *d = g->device;
  const tg_driver *f = d->driver;
  char other[256];
  uint64_t value = 0;
  tg_status s = TG_OK;
  pthread_mutex_lock(&d->lock);
  const tg_queue *earlier = d->queues;
  while (earlier && (earlier != g->end.queue || earlier->identity != g->end_identity)) earlier = earlier->next;
  pthread_mutex_lock(&q->lock);
  if (earlier && earlier != q) s = f->after(q, g->end.queue, g->end.value, message, n);
  pthread_mutex_unlock(&d->lock);
  if (s == TG_OK) {
    s = put_steps(q, g, message, n);
    /* also if a step failed: the ones before it were put */
    tg_status handed = f->submit(q, &value, s == TG_OK ? message : other, s == TG_OK ? n : sizeof other);
    if (handed == TG_OK) g->end = (tg_queue_mark){q, value}, g->end_identity = q->identity;
    if (s == TG_OK) s = handed;
  }
  pthread_mutex_unlock(&q->lock);
  return s;
}

tg_status tg_graph_put(tg_queue *q, tg_graph *g, const tg_graph_replay *r, char *message, size_t n) {
  if (g->device != q->device) return snprintf(message, n, "the graph is another device's"), TG_EINVAL;
  if (atomic_load(&q->recording)) return snprintf(message, n, "a graph cannot be recorded into another"), TG_EINVAL;
  if (q->options.kind == TG_QUEUE_COPY)
    return snprintf(message, n, "a queue of kind COPY takes no graphs"), TG_EINVAL;
  tg_status s = tg_device_alive(g->device, message, n);
  if (s != TG_OK) return s;
  pthread_mutex_lock(&g->lock);
  s = set_steps(g, r, message, n);
  if (s == TG_OK) s = g->device->driver->immediate ? put_steps(q, g, message, n) : put_behind(q, g, message, n);
  pthread_mutex_unlock(&g->lock);
  return tg_device_noted(g->device, s);
}
