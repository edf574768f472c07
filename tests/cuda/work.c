/* SPDX-License-Identifier: MIT
 * Work that the stand-in puts off: streams of operations, run when somebody waits, in a drawn order. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "work.h"

enum { POISON = 0xdb };

#define FRESH {.seed = 1, .version = 13000, .devices = 1, .major = {8, 9}, .operation_ms = 1e-3}
static standin control = FRESH;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static stream *streams;
static piece *pieces;
static uint64_t drawn;
static double now;              /* a clock of the stand-in's own, in milliseconds */

standin *standin_lock(void) { return pthread_mutex_lock(&lock), &control; }
standin *standin_lock_held(void) { return &control; }
void standin_unlock(void) { pthread_mutex_unlock(&lock); }

int fault(const char *text) {
  if (!control.fault[0]) snprintf(control.fault, sizeof control.fault, "%s", text);
  return control.lost = ILLEGAL_ADDRESS;
}

int most_local(int device) { return (control.major[device] == 9 ? 227 : 163) << 10; }

/* xorshift64*, from the seed and what was drawn before. */
static uint32_t draw(uint32_t n) {
  uint64_t x = (drawn++ + 1) * 0x9e3779b97f4a7c15u ^ control.seed * 0xbf58476d1ce4e5b9u;
  x ^= x >> 12, x ^= x << 25, x ^= x >> 27;
  return (uint32_t)((x * 0x2545f4914f6cdd1du >> 33) % n);
}

/* ---- modules ---- */

/* How many of the arguments are pointers, as the text says. */
static uint32_t pointers_of(const char *text, const char *name) {
  char entry[160];
  uint32_t n = 0;
  snprintf(entry, sizeof entry, ".entry %s(", name);
  const char *at = strstr(text, entry), *end = at ? strchr(at + strlen(entry), ')') : NULL;
  while (at && (at = strstr(at, ".ptr")) && at < end) n++, at++;
  return n;
}

function *function_of(module *m, const char *name) {
  const ptx_kernel *k = ptx_find(&m->parsed, name);
  for (uint32_t i = 0; i < m->n; i++)
    if (m->function[i].kernel == k) return &m->function[i];
  if (!k || m->n == 32) return NULL;
  m->function[m->n] = (function){k, m, 48 << 10, pointers_of(m->text, name)};
  return &m->function[m->n++];
}

static bool launches(const op *o, const module *m) {
  if (o->kind == OP_LAUNCH) return o->function->of == m;
  for (uint32_t i = 0; o->kind == OP_GRAPH && i < o->graph->n; i++)
    if (launches(o->graph->node[i], m)) return true;
  return false;
}

bool launches_pending(const module *m) {
  for (const stream *s = streams; s; s = s->next)
    for (const op *o = s->first; o; o = o->next)
      if (launches(o, m)) return true;
  return false;
}

/* ---- memory ---- */

/* Memory freed while work was pending is given back once there is none. */
static void purge(void) {
  for (const stream *s = streams; s; s = s->next)
    if (s->first) return;
  for (piece **at = &pieces, *p; (p = *at);)
    if (p->alive) at = &p->next;
    else {
      *at = p->next;
      if (p->kind != PIECE_PAGES) free(p->data);
      free(p);
    }
}

int new_piece(context *of, size_t n, piece_kind kind, void *host, address *out) {
  const size_t most = (size_t)1 << 38;   /* of the card; sanitizers end a process that asks for much more */
  piece *p = n > most ? NULL : malloc(sizeof *p);
  purge();
  if (!p) return OUT_OF_MEMORY;
  *p = (piece){.next = pieces, .data = host ? host : aligned_alloc(256, (n + 255) / 256 * 256), .bytes = n, .of = of, .kind = kind, .alive = true};
  if (!p->data) return free(p), OUT_OF_MEMORY;
  if (!host) memset(p->data, POISON, n);
  pieces = p;
  control.live++;
  *out = (address)(uintptr_t)p->data;
  return 0;
}

static piece *piece_at(address p, bool alive) {
  for (piece *at = pieces; at; at = at->next)
    if (at->alive == alive && p >= (address)(uintptr_t)at->data && p < (address)(uintptr_t)at->data + at->bytes) return at;
  return NULL;
}

piece *find_piece(address p, size_t n) {
  piece *at = piece_at(p, true);
  return at && n <= at->bytes - (size_t)(p - (address)(uintptr_t)at->data) ? at : NULL;
}

int drop_piece(address p, piece_kind kind) {
  piece *at = piece_at(p, true);
  if (!at || (address)(uintptr_t)at->data != p || at->kind != kind) return fault("memory is freed that was not allocated so");
  at->alive = false;
  if (kind != PIECE_PAGES) memset(at->data, POISON, at->bytes);
  control.live--;
  purge();
  return 0;
}

/* May work of this context use the bytes? Memory that the driver does not know is the host's: copies take it. */
static bool reaches(const context *c, address p, size_t n, bool host) {
  const piece *at = find_piece(p, n);
  if (!at) return host && !piece_at(p, true) && !piece_at(p, false);
  return at->kind != PIECE_DEVICE || at->of->device == c->device || c->sees & 1 << at->of->device;
}

/* ---- running ---- */

static int run_launch(const context *c, const op *o) {
  function *f = o->function;
  int64_t param[ARGUMENTS];
  ptx_launch l = {.kernel = f->kernel, .groups = {o->groups[0], o->groups[1], o->groups[2]}, .threads = f->kernel->threads, .local = o->local, .param = param, .seed = control.seed, .drawn = true};
  if (!f->of->alive) return fault("a launch of a module that was unloaded");
  for (uint32_t a = 0; a < f->kernel->params; a++) {
    address v = o->argument[a];
    if (a >= f->buffers) {
      param[l.params++] = (int64_t)v;
      continue;
    }
    const piece *p = piece_at(v, true);
    if (p && !reaches(c, v, 1, false)) return fault("a launch on memory that the context does not reach");
    if (!p && piece_at(v, false)) return fault("a launch on memory that was freed");
    size_t left = p ? p->bytes - (size_t)(v - (address)(uintptr_t)p->data) : 0;   /* a pointer to nothing: of a buffer without elements */
    l.buffer[l.buffers++] = (ptx_buffer){.name = "a buffer", .data = (void *)(uintptr_t)v, .bytes = left, .misaligned = v % 64, .written = true};
  }
  bool ok = ptx_run(&l);
  for (uint32_t b = 0; b < l.buffers && control.wrong; b++)
    if (l.buffer[b].bytes) *(char *)l.buffer[b].data ^= 1;
  if (!ok) fault(l.message);
  ptx_launch_free(&l);
  return ok ? 0 : control.lost;
}

static int run_op(const context *c, op *o);

/* In a drawn order that the graph allows. */
static int run_graph(const context *c, const graph *g) {
  bool ran[NODES] = {false};
  for (uint32_t done = 0; done < g->n;) {
    uint32_t i = draw(g->n);
    while (ran[i] || (g->before[i] && !ran[g->before[i] - 1])) i = (i + 1) % g->n;
    int code = run_op(c, g->node[i]);
    if (code) return code;
    ran[i] = true;
    done++;
  }
  return 0;
}

static int run_op(const context *c, op *o) {
  now += control.operation_ms;
  if (++control.ran == control.lose_at) return fault("the device was to be lost here");
  switch (o->kind) {
  case OP_LAUNCH: return run_launch(c, o);
  case OP_COPY:
    if (!reaches(c, o->to, o->bytes, true) || !reaches(c, o->from, o->bytes, true)) return fault("a copy of memory that the context does not reach");
    memmove((void *)(uintptr_t)o->to, (const void *)(uintptr_t)o->from, o->bytes);
    return 0;
  case OP_RECORD: return o->event->time = now, 0;
  case OP_WAIT: return 0;
  case OP_GRAPH: return run_graph(c, o->graph);
  }
  return 0;
}

static void free_graph(graph *g) {
  for (uint32_t i = 0; i < g->n; i++) free(g->node[i]);
  free(g);
}

static bool blocked(const op *o) { return o->kind == OP_WAIT && o->on->done <= o->at; }

static int run_first(stream *s) {
  op *o = s->first;
  int code = control.lost ? control.lost : run_op(s->of, o);
  if (!(s->first = o->next)) s->last = &s->first;
  s->done++;
  if (o->kind == OP_GRAPH) free_graph(o->graph);
  free(o);
  return code;
}

/* Something of any stream, or nothing. */
static int run_something(void) {
  uint32_t n = 0;
  for (const stream *s = streams; s; s = s->next) n++;
  uint32_t i = n ? draw(n) : 0;
  stream *s = streams;
  while (s && i--) s = s->next;
  return s && s->first && !blocked(s->first) ? run_first(s) : 0;
}

/* Runs a stream up to operation `at`, and of others what it waits for; between, at times, something else. */
static int advance(stream *s, uint64_t at) {
  int code = 0;
  while (s->done <= at && !code) {
    if (!draw(3)) code = run_something();
    if (code || s->done > at) break;
    const op *o = s->first;
    if (blocked(o)) code = advance(o->on, o->at);
    else code = run_first(s);
  }
  return code;
}

/* ---- streams and events ---- */

stream *new_stream(context *of) {
  stream *s = calloc(1, sizeof *s);
  *s = (stream){.next = streams, .of = of, .alive = true};
  s->last = &s->first;
  streams = s;
  control.live++;
  return s;
}

bool is_stream(const stream *s) {
  const stream *at = streams;
  while (at && at != s) at = at->next;
  return at && at->alive;
}

int drop_stream(stream *s) {
  if (!is_stream(s)) return fault("a stream is destroyed twice");
  if (s->first && !control.lost) return fault("a stream is destroyed that has work");
  s->alive = false;
  control.live--;
  return 0;
}

event *new_event(context *of, bool timed) {
  event *e = calloc(1, sizeof *e);
  *e = (event){.of = of, .alive = true, .timed = timed};
  control.live++;
  return e;
}

static bool complete(const event *e) { return !e->recorded || e->on->done > e->at; }

int drop_event(event *e) {
  if (!e->alive) return fault("an event is destroyed twice");
  if (!complete(e) && !control.lost) return fault("an event is destroyed that is not reached");
  e->alive = false;              /* what waits for it has its stream and place; the struct stays, since a record may lie in a graph */
  control.live--;
  return 0;
}

int put(stream *s, const op *o) {
  op *copy = malloc(sizeof *copy);
  if (!is_stream(s)) return free(copy), fault("work is put on a stream that is none");
  if (++control.put == control.lose_at_put) return free(copy), fault("the device was to be lost here");
  *copy = *o;
  copy->next = NULL;
  *s->last = copy;
  s->last = &copy->next;
  s->put++;
  return 0;
}

int put_record(stream *s, event *e) {
  if (!is_stream(s) || !e->alive || e->of != s->of) return INVALID_HANDLE;
  if (control.nothing) return 0;
  int code = put(s, &(op){.kind = OP_RECORD, .event = e});
  if (!code) e->on = s, e->at = s->put - 1, e->recorded = true;
  return code;
}

int put_wait(stream *s, event *e) {
  if (!is_stream(s) || !e->alive) return INVALID_HANDLE;
  return complete(e) ? 0 : put(s, &(op){.kind = OP_WAIT, .on = e->on, .at = e->at});
}

int run_stream(stream *s) { return is_stream(s) ? s->put ? advance(s, s->put - 1) : 0 : INVALID_HANDLE; }

/* Who only looks sees work go on at times. */
int query(event *e) {
  if (!e->alive) return INVALID_HANDLE;
  if (!complete(e) && !draw(4)) {
    int code = advance(e->on, e->on->done);
    if (code) return code;
  }
  return complete(e) ? 0 : NOT_READY;
}

int synchronise(event *e) {
  if (!e->alive) return INVALID_HANDLE;
  return complete(e) ? 0 : advance(e->on, e->at);
}

int elapsed(const event *a, const event *b, float *ms) {
  if (!a->alive || !b->alive || !a->timed || !b->timed || !a->recorded || !b->recorded) return INVALID_HANDLE;
  if (!complete(a) || !complete(b)) return NOT_READY;
  *ms = (float)(b->time - a->time);
  return 0;
}

/* What a program has left is forgotten, with what it had put on streams. */
void forget(void) {
  for (stream *s = streams; s; s = s->next) {
    for (op *o = s->first, *next; o; o = next) {
      next = o->next;
      if (o->kind == OP_GRAPH) free_graph(o->graph);
      free(o);
    }
    s->first = NULL;
    s->last = &s->first;
    s->done = s->put;
  }
  drawn = 0;
  control = (standin)FRESH;
}

/* ---- graphs ---- */

int add_node(graph *g, const op *o, void *const *before, size_t n, void **out) {
  if (!g->alive || g->made || g->n == NODES || n > 1) return INVALID_VALUE;
  op *copy = malloc(sizeof *copy);
  *copy = *o;
  g->before[g->n] = 0;
  for (uint32_t i = 0; n && i < g->n; i++)
    if (g->node[i] == before[0]) g->before[g->n] = 1 + i;
  if (n && !g->before[g->n]) return free(copy), INVALID_VALUE;
  *out = g->node[g->n++] = copy;
  return 0;
}

static graph *copied(const graph *from) {
  graph *g = malloc(sizeof *g);
  *g = *from;
  for (uint32_t i = 0; i < g->n; i++) {
    g->node[i] = malloc(sizeof(op));
    *g->node[i] = *from->node[i];
  }
  return g;
}

graph *instantiate(graph *from) {
  graph *g = copied(from);
  g->made = true;
  g->from = from;
  control.live++;
  return g;
}

int set_node(graph *made, void *node, const op *o) {
  for (uint32_t i = 0; i < made->n && made->made && made->from->alive; i++) {
    if (made->from->node[i] != node) continue;
    if (made->node[i]->kind != o->kind || (o->kind == OP_LAUNCH && made->node[i]->function != o->function)) return INVALID_VALUE;
    *made->node[i] = *o;
    return 0;
  }
  return INVALID_VALUE;
}

int put_graph(graph *made, stream *s) {
  if (!made->made || !made->alive) return INVALID_HANDLE;
  op o = {.kind = OP_GRAPH, .graph = copied(made)};
  int code = put(s, &o);
  if (code) free_graph(o.graph);
  return code;
}

int drop_graph(graph *g) {
  if (!g->alive) return fault("a graph is destroyed twice");
  g->alive = false;
  control.live--;
  free_graph(g);
  return 0;
}
