/* SPDX-License-Identifier: MIT
 * What the stand-in can bring about: each call of a program fails once, the device is lost at each operation, work runs
 * in drawn orders and from several threads, drivers and chips are old, and the program has a context of its own.
 *   cuda_faults [--seeds N] [--threads] [--launches]     --threads: those alone, a round a seed; --launches: only
 *                                                        prints what a launch costs before the driver is called */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdlib.h>
#include "../folder.h"
#include "cuda.h"

enum { N = 64, LOST_CODE = 700 };
static char library[TEST_PATH];
static const char add[] = "kernel add(N in 1..1000, D in 0..1000) { in(x, f32, [N]); inout(y, f32, [N]); range(i, N) y[i] = y[i] + x[i] + f32(D); }";
static const char twice[] = "kernel twice(N in 0..1000) { inout(y, f32, [N]); range(i, N) y[i] = y[i] * 2 + 1; }";
static char cache[TEST_PATH] = "tg-cuda-XXXXXX";

/* ---- a program with everything ---- */

typedef struct { tg_kernel *add, *twice; float *x, *y, *pinned; tg_queue *q[2]; tg_graph *graph; float host[N]; } things;

static tg_status put_add(const things *t, tg_queue *q, int64_t d) {
  tg_argument a[] = {{t->x, sizeof t->host}, {t->y, sizeof t->host}};
  int64_t params[] = {N, d};
  return tg_queue_launch(q, t->add, &(tg_launch){.buffers = a, .buffers_n = 2, .params = params, .params_n = 2});
}

static tg_status put_twice(const things *t, tg_queue *q) {
  tg_argument a = {t->y, sizeof t->host};
  int64_t n = N;
  return tg_queue_launch(q, t->twice, &(tg_launch){.buffers = &a, .buffers_n = 1, .params = &n, .params_n = 1});
}

static tg_status compile(machine *m, things *t) {
  tg_compile_options o = {.device = m->device};
  tg_status s = tg_kernel_compile_text(m->context, "add", add, &o, &t->add);
  return s == TG_OK ? tg_kernel_compile_text(m->context, "twice", twice, &o, &t->twice) : s;
}

#define TRY(call) \
  if ((s = (call)) != TG_OK) return s

static tg_status graph(const machine *m, things *t) {
  tg_status s;
  tg_graph_param d = {1, 1, 7};
  TRY(tg_queue_record(t->q[0]));
  TRY(tg_queue_copy(t->q[0], t->y, t->x, sizeof t->host));
  TRY(put_add(t, t->q[0], 1));
  TRY(put_twice(t, t->q[0]));
  TRY(tg_queue_recorded(t->q[0], &t->graph));
  TRY(tg_queue_replay(t->q[0], t->graph, NULL));
  TRY(tg_queue_replay(t->q[0], t->graph, &(tg_graph_replay){.params = &d, .params_n = 1}));
  return tg_device_finish(m->device);
}

/* Leaves 2 (2 * 3 + 7) + 1 = 27 in y. */
static tg_status scenario(machine *m, things *t) {
  tg_status s;
  tg_queue_mark copied, done;
  double seconds[2];
  TRY(compile(m, t));
  TRY(tg_device_alloc(m->device, sizeof t->host, (void **)&t->x));
  TRY(tg_device_alloc(m->device, sizeof t->host, (void **)&t->y));
  TRY(tg_device_alloc_kind(m->device, sizeof t->host, TG_MEMORY_HOST, (void **)&t->pinned));
  for (int i = 0; i < 2; i++) TRY(tg_queue_open(m->device, &(tg_queue_options){.kind = (uint32_t)i}, &t->q[i]));
  for (int i = 0; i < N; i++) t->pinned[i] = 3, t->host[i] = 5;
  TRY(tg_device_copy(m->device, t->y, t->host, sizeof t->host));
  TRY(tg_queue_copy(t->q[1], t->x, t->pinned, sizeof t->host));
  TRY(tg_queue_submit(t->q[1], &copied));
  TRY(tg_queue_after(t->q[0], copied));
  TRY(tg_queue_stamp(t->q[0], 0));
  TRY(put_add(t, t->q[0], 2));
  TRY(tg_queue_stamp(t->q[0], 1));
  TRY(tg_queue_submit(t->q[0], &done));
  TRY(tg_queue_wait(done, 600000000000));
  TRY(tg_queue_stamps(t->q[0], 0, 2, seconds));
  CHECK(seconds[1] > seconds[0] && seconds[1] - seconds[0] < 60, "%g %g", seconds[0], seconds[1]);
  TRY(tg_device_copy(m->device, t->host, t->y, sizeof t->host));
  CHECK(t->host[0] == 10 && t->host[N - 1] == 10, "%g", t->host[0]);
  TRY(graph(m, t));
  TRY(tg_device_copy(m->device, t->host, t->y, sizeof t->host));
  CHECK(t->host[0] == 27 && t->host[N - 1] == 27, "%g", t->host[0]);
  return TG_OK;
}

static void drop(machine *m, things *t) {
  tg_graph_free(t->graph);
  for (int i = 0; i < 2; i++) tg_queue_free(t->q[i]);
  tg_device_free(m->device, t->x), tg_device_free(m->device, t->y), tg_device_free(m->device, t->pinned);
  tg_kernel_free(t->add), tg_kernel_free(t->twice);
}

/* Does the context still work? */
static tg_status again(machine *m) {
  things t = {.add = NULL};
  tg_status s = scenario(m, &t);
  drop(m, &t);
  return s;
}

typedef struct { tg_status status, after; char message[512]; uint64_t calls, put, ran; int64_t live; bool opened; char fault[640]; } outcome;

/* The scenario with the control as `set` says. The context is opened within it. */
static outcome run_with(const standin *set) {
  standin *c = standin_open(library);
  machine m = {.standin = c};
  things t = {.add = NULL};
  outcome o = {.after = TG_OK};
  tg_context_options options = {.cache = cache};
  CHECK(!tg_context_create(&options, &m.context), "a context");
  c->seed = set->seed ? set->seed : 1;
  c->fail_at = set->fail_at, c->fail_code = set->fail_code, c->lose_at = set->lose_at, c->lose_at_put = set->lose_at_put;
  o.status = tg_device_named("cuda:0", &m.number);
  if (o.status == TG_OK) o.status = tg_device_open(m.context, m.number, &m.device);
  if (o.status == TG_OK) o.status = scenario(&m, &t);
  snprintf(o.message, sizeof o.message, "%s", tg_error_message(m.context));
  o.opened = m.device != NULL;
  o.calls = c->calls, o.put = c->put, o.ran = c->ran;
  if (m.device) drop(&m, &t);
  if (m.device && o.status != TG_OK) o.after = again(&m);
  tg_context_free(m.context);
  o.live = c->live;
  snprintf(o.fault, sizeof o.fault, "%s", c->fault);
  return o;
}

/* ---- faults ---- */

static void each_call_fails(void) {
  static const int codes[] = {1, 2, 999};
  outcome whole = run_with(&(standin){0});
  CHECK(whole.status == TG_OK && !whole.live && !whole.fault[0], "%s: %s: %s", tg_status_name(whole.status), whole.message, whole.fault);
  int told = 0;
  for (uint64_t i = 1; i <= whole.calls; i++) {
    outcome o = run_with(&(standin){.fail_at = i, .fail_code = codes[i % 3]});
    CHECK(o.live == 0, "call %llu fails: %lld objects are left", (unsigned long long)i, (long long)o.live);
    CHECK(!o.fault[0] || o.status == TG_LOST, "call %llu fails: %s", (unsigned long long)i, o.fault);
    CHECK(o.status == TG_OK || o.status == TG_MISS || o.message[0], "call %llu fails: no message", (unsigned long long)i);
    CHECK(!o.opened || (o.status == TG_LOST ? o.after == TG_LOST : o.after == TG_OK), "call %llu fails with %s: then %s: %s", (unsigned long long)i, tg_status_name(o.status), tg_status_name(o.after), o.message);
    told += o.status != TG_OK;
  }
  printf("%llu calls, %d failures told\n", (unsigned long long)whole.calls, told);
  CHECK(told * 2 > (int)whole.calls, "%d of %llu", told, (unsigned long long)whole.calls);
}

static void lost(void) {
  outcome whole = run_with(&(standin){0});
  for (uint64_t i = 1; i <= whole.ran + whole.put; i++) {
    outcome o = run_with(i <= whole.ran ? &(standin){.lose_at = i} : &(standin){.lose_at_put = i - whole.ran});
    CHECK(o.status == TG_LOST && (!o.opened || o.after == TG_LOST) && !o.live, "lost at %llu: %s, then %s: %s, %lld left", (unsigned long long)i, tg_status_name(o.status), tg_status_name(o.after), o.message, (long long)o.live);
    CHECK(strstr(o.message, "is lost"), "lost at %llu: %s", (unsigned long long)i, o.message);
  }
}

static void orders(int seeds) {
  for (int i = 2; i < seeds + 2; i++) {
    outcome o = run_with(&(standin){.seed = (uint64_t)i});
    CHECK(o.status == TG_OK && !o.live && !o.fault[0], "seed %d: %s: %s: %s", i, tg_status_name(o.status), o.message, o.fault);
  }
}

/* ---- threads ---- */

enum { THREADS = 8, QUEUES = 4 };
typedef struct { machine *m; tg_kernel *add, *twice; tg_queue *q[QUEUES]; int rounds; } shared;
typedef struct { shared *all; int number; tg_status status; float got; uint32_t want; } worker;

/* Each goes on with memory of its own on one queue after another, so that each step waits for the last one's mark. */
static tg_status work(worker *w) {
  const shared *a = w->all;
  things t = {.add = a->add, .twice = a->twice};
  tg_queue_mark mark = {NULL, 0};
  tg_status s = tg_device_alloc(a->m->device, sizeof t.host, (void **)&t.y);
  if (s == TG_OK) s = tg_device_copy(a->m->device, t.y, t.host, sizeof t.host);
  for (int i = 0; i < a->rounds && s == TG_OK; i++) {
    tg_queue *q = a->q[(w->number + i) % QUEUES];
    if ((s = tg_queue_after(q, mark)) == TG_OK) s = put_twice(&t, q);
    if (s == TG_OK) s = tg_queue_submit(q, &mark);
    w->want = 2 * w->want + 1;
    if (s == TG_OK && i % 3 == 2) s = tg_queue_wait(mark, -1);
  }
  if (s == TG_OK) s = tg_queue_wait(mark, -1);
  if (s == TG_OK) s = tg_device_copy(a->m->device, t.host, t.y, sizeof t.host);
  w->got = t.host[N - 1];
  tg_device_free(a->m->device, t.y);
  return s;
}

static void *begin(void *w) { return ((worker *)w)->status = work(w), NULL; }

static void threads(int repeats) {
  machine m;
  things t = {.add = NULL};
  shared all = {.m = &m, .rounds = 12};
  pthread_t id[THREADS];
  if (!machine_open(&m, library, 8, NULL)) return;
  CHECK(compile(&m, &t) == TG_OK, "%s", tg_error_message(m.context));
  all.add = t.add, all.twice = t.twice;
  for (int i = 0; i < QUEUES; i++) CHECK(!tg_queue_open(m.device, NULL, &all.q[i]), "a queue");
  for (int k = 0; k < repeats; k++) {
    worker w[THREADS];
    m.standin->seed = (uint64_t)k + 1;
    for (int i = 0; i < THREADS; i++) w[i] = (worker){.all = &all, .number = i}, pthread_create(&id[i], NULL, begin, &w[i]);
    for (int i = 0; i < THREADS; i++) pthread_join(id[i], NULL);
    for (int i = 0; i < THREADS; i++) CHECK(w[i].status == TG_OK && w[i].got == (float)w[i].want, "thread %d: %s: %g, not %u", i, tg_status_name(w[i].status), w[i].got, w[i].want);
  }
  tg_kernel_free(t.add), tg_kernel_free(t.twice);
  machine_close(&m);
}

/* ---- old drivers, chips, foreign contexts, peers ---- */

static void described(int major, int minor, int version, const char *target, const char *lacks) {
  standin *c = standin_open(library);
  tg_device_info about;
  uint32_t number = 0;
  c->major[0] = major, c->minor = minor, c->version = version;
  CHECK(!tg_device_named("cuda:0", &number) && !tg_device_describe(number, &about), "there");
  CHECK(!strcmp(about.target, target) && (*lacks ? strstr(about.lacks, lacks) != NULL : !about.lacks[0]), "%d.%d with %d: '%s': %s", major, minor, version, about.target, about.lacks);
}

static void old(void) {
  described(8, 0, 11000, "sm_80", "");
  described(8, 9, 12000, "sm_89", "");
  described(9, 0, 12000, "sm_90a", "");
  described(9, 0, 11080, "sm_89", "");
  described(12, 0, 13000, "sm_120", "");
  described(7, 5, 13000, "", "no chip of compute capability 7.5");
  described(8, 0, 10020, "", "a driver of CUDA 10.2");
  tg_context *c;
  tg_device *d = NULL;
  uint32_t number = 0;
  standin_open(library)->major[0] = 7;
  CHECK(!tg_context_create(NULL, &c) && !tg_device_named("cuda:0", &number), "a context");
  CHECK(tg_device_open(c, number, &d) == TG_EIO && !d && strstr(tg_error_message(c), "cannot be used"), "%s", tg_error_message(c));
  tg_context_free(c);
}

typedef int create_fn(void **, unsigned, int);
typedef int stream_fn(void **, unsigned);
typedef int push_fn(void *);
typedef int pop_fn(void *);
typedef int alloc_fn(uint64_t *, size_t);
typedef int free_fn(uint64_t);

static void foreign(void) {
  standin *c = standin_open(library);
  machine m = {.standin = c};
  things t = {.add = NULL};
  void *context = NULL, *stream = NULL, *other = NULL, *native = NULL;
  tg_queue *q = NULL, *none = NULL;
  create_fn *create;
  stream_fn *make;
  push_fn *push;
  tg_queue_mark done = {NULL, 0};
  *(void **)&create = standin_function("cuCtxCreate_v2"), *(void **)&make = standin_function("cuStreamCreate"), *(void **)&push = standin_function("cuCtxPushCurrent_v2");
  c->devices = 2;
  CHECK(!tg_context_create(NULL, &m.context) && !tg_device_named("cuda:0", &m.number), "a context");
  CHECK(!create(&context, 0, 0) && !create(&other, 0, 1) && !push(context) && !make(&stream, 1), "the program's own");
  CHECK(tg_device_open_native(m.context, m.number, other, &m.device) == TG_EINVAL && strstr(tg_error_message(m.context), "no CUcontext of the device"), "%s", tg_error_message(m.context));
  CHECK(!tg_device_open_native(m.context, m.number, context, &m.device), "%s", tg_error_message(m.context));
  CHECK(!tg_queue_open(m.device, &(tg_queue_options){.native = stream}, &q), "%s", tg_error_message(m.context));
  CHECK(tg_queue_open(m.device, &(tg_queue_options){.native = &done}, &none) == TG_EINVAL && strstr(tg_error_message(m.context), "no CUstream"), "%s", tg_error_message(m.context));
  void *elsewhere = NULL, *popped = NULL;
  pop_fn *pop, *destroy;
  *(void **)&pop = standin_function("cuCtxPopCurrent_v2"), *(void **)&destroy = standin_function("cuStreamDestroy_v2");
  CHECK(!push(other) && !make(&elsewhere, 1) && !pop(&popped), "a stream of another context");
  CHECK(tg_queue_open(m.device, &(tg_queue_options){.native = elsewhere}, &none) == TG_EINVAL && strstr(tg_error_message(m.context), "is not of the CUcontext"), "%s", tg_error_message(m.context));
  CHECK(!destroy(elsewhere), "destroyed");
  CHECK(!compile(&m, &t) && !tg_device_alloc(m.device, sizeof t.host, (void **)&t.y) && !tg_device_copy(m.device, t.y, t.host, sizeof t.host), "%s", tg_error_message(m.context));
  CHECK(!put_twice(&t, q) && !tg_queue_submit(q, &done) && !tg_queue_wait(done, -1) && !tg_device_copy(m.device, t.host, t.y, sizeof t.host) && t.host[3] == 1, "%s", tg_error_message(m.context));
  CHECK(tg_device_import(m.device, TG_IMPORT_NATIVE, t.host, sizeof t.host, &native) == TG_EINVAL && strstr(tg_error_message(m.context), "no memory of CUDA"), "%s", tg_error_message(m.context));
  uint64_t here = 0, there = 0;
  alloc_fn *alloc;
  free_fn *give_back;
  *(void **)&alloc = standin_function("cuMemAlloc_v2"), *(void **)&give_back = standin_function("cuMemFree_v2");
  CHECK(!alloc(&here, 64) && !push(other) && !alloc(&there, 64) && !pop(&popped), "the program's memory, on both devices");
  CHECK(tg_device_import(m.device, TG_IMPORT_NATIVE, (void *)(uintptr_t)there, 64, &native) == TG_EINVAL && strstr(tg_error_message(m.context), "no memory of CUDA on the device"), "%s", tg_error_message(m.context));
  CHECK(!tg_device_import(m.device, TG_IMPORT_NATIVE, (void *)(uintptr_t)here, 64, &native) && native == (void *)(uintptr_t)here, "%s", tg_error_message(m.context));
  tg_device_free(m.device, native);
  CHECK(!give_back(here) && !give_back(there), "freed by the program alone");
  tg_queue_free(q), tg_kernel_free(t.add), tg_kernel_free(t.twice);
  tg_context_free(m.context);
  CHECK(c->live == 1 && !c->fault[0], "the program's stream is left, and nothing else: %lld: %s", (long long)c->live, c->fault);
  CHECK(!destroy(stream), "destroyed");
}

static void peers(void) {
  machine m;
  tg_device *second = NULL;
  things t = {.add = NULL};
  if (!machine_open(&m, library, 8, NULL)) return;
  m.standin->devices = 2;
  m.standin->major[1] = 8;
  CHECK(!tg_device_open(m.context, m.number + 1, &second) && !compile(&m, &t), "%s", tg_error_message(m.context));
  CHECK(!tg_device_alloc(second, sizeof t.host, (void **)&t.y) && !tg_device_copy(second, t.y, t.host, sizeof t.host), "%s", tg_error_message(m.context));
  tg_queue *q = NULL, *far = NULL;
  tg_queue_mark done = {NULL, 0};
  CHECK(!tg_queue_open(m.device, NULL, &q) && !tg_queue_open(second, NULL, &far), "queues");
  CHECK(put_twice(&t, q) == TG_EINVAL && strstr(tg_error_message(m.context), "does not lie in memory of this device"), "%s", tg_error_message(m.context));
  CHECK(!tg_device_peers(m.device, second) && !tg_device_peers(m.device, second), "%s", tg_error_message(m.context));
  t.host[0] = 20;
  CHECK(!tg_queue_copy(far, t.y, t.host, sizeof t.host) && !tg_queue_submit(far, &done), "%s", tg_error_message(m.context));
  CHECK(!tg_queue_after(q, done) && !put_twice(&t, q) && !tg_device_finish(m.device), "%s", tg_error_message(m.context));
  CHECK(!tg_device_copy(second, t.host, t.y, sizeof t.host) && t.host[0] == 41, "%g: %s", t.host[0], tg_error_message(m.context));
  tg_kernel_free(t.add), tg_kernel_free(t.twice);
  machine_close(&m);
}

/* ---- limits ---- */

/* Loops of over 65535 turns, which the second and third axes do not take; 2^31 workgroups; more LOCAL than functions have without being given it. */
static void limits(void) {
  static const char rows[] = "kernel rows(M in 0..100000) { inout(y, u8, [2, M]); range(j, 2, global) range(i, M, global) y[j, i] = y[j, i] + 1; }",
                    columns[] = "kernel columns(M in 0..100000) { inout(y, u8, [M, 3]); range(i, M, global) range(j, 2, global) y[i, j] = y[i, j] + 1; }",
                    many[] = "kernel many(M in 0..100000, N in 0..100000) { inout(y, i32, [1]); range(i, M, global) range(j, N, global) atomic y[0] += 1; }",
                    local[] = "kernel reversed() { in(x, f32, [16384]); out(y, f32, [16384]); range(g, 1, global) { define_local(L, f32, [16384]); range(i, 16384) L[i] = x[i]; "
                              "range(i, 16384) y[i] = L[16383 - i]; } }";
  static const char *const texts[] = {rows, columns};
  enum { BYTES = 210000, N_LOCAL = 16384 };
  static float host[N_LOCAL];
  machine m;
  tg_kernel *k = NULL;
  void *y = NULL, *x = NULL;
  if (!machine_open(&m, library, 8, NULL)) return;
  CHECK(!tg_device_alloc(m.device, BYTES, &y) && !tg_device_alloc(m.device, sizeof host, &x), "%s", tg_error_message(m.context));
  for (int i = 0; i < 2; i++) {
    int64_t n = 70000, none = 0;
    tg_argument a = {y, BYTES};
    tg_launch l = {.buffers = &a, .buffers_n = 1, .params = &n, .params_n = 1};
    CHECK(!tg_kernel_compile_text(m.context, "rows", texts[i], &(tg_compile_options){.device = m.device, .flags = TG_COMPILE_AS_WRITTEN}, &k), "%s", tg_error_message(m.context));
    CHECK(!tg_kernel_start(k, &l), "%s", tg_error_message(m.context));
    l.params = &none;
    CHECK(!tg_kernel_run(k, &l), "nothing to run: %s", tg_error_message(m.context));
    tg_kernel_free(k);
  }
  tg_argument one = {y, 4};
  CHECK(!tg_kernel_compile_text(m.context, "many", many, &(tg_compile_options){.device = m.device, .flags = TG_COMPILE_AS_WRITTEN}, &k), "%s", tg_error_message(m.context));
  tg_status s = tg_kernel_start(k, &(tg_launch){.buffers = &one, .buffers_n = 1, .params = (int64_t[]){70000, 70000}, .params_n = 2});
  CHECK(s == TG_ELIMIT && strstr(tg_error_message(m.context), "phase 0 needs 2^31 workgroups"), "%s: %s", tg_status_name(s), tg_error_message(m.context));
  tg_kernel_free(k);
  for (int i = 0; i < N_LOCAL; i++) host[i] = (float)i;
  tg_argument a[] = {{x, sizeof host}, {y, sizeof host}};
  CHECK(!tg_kernel_compile_text(m.context, "reversed", local, &(tg_compile_options){.device = m.device}, &k) && !tg_device_copy(m.device, x, host, sizeof host), "%s", tg_error_message(m.context));
  CHECK(!tg_kernel_run(k, &(tg_launch){.buffers = a, .buffers_n = 2}) && !tg_device_copy(m.device, host, y, sizeof host) && host[0] == N_LOCAL - 1 && host[N_LOCAL - 1] == 0, "%g: %s", host[0], tg_error_message(m.context));
  tg_kernel_free(k);
  machine_close(&m);
}

/* What one phase leaves in memory that is no buffer of the caller's is all there in the next. */
static void phases(void) {
  enum { N_PHASES = 20000 };
  static const char turn[] = "kernel turn() { in(x, f32, [20000]); out(y, f32, [20000]); define_local(s, f32, [20000]); range(i, 20000, thread) s[i] = x[i]; range(i, 20000, thread) y[i] = s[19999 - i]; }";
  static float host[N_PHASES];
  machine m;
  tg_kernel *k = NULL;
  void *x = NULL, *y = NULL;
  if (!machine_open(&m, library, 8, NULL)) return;
  for (int i = 0; i < N_PHASES; i++) host[i] = (float)i;
  CHECK(!tg_kernel_compile_text(m.context, "turn", turn, &(tg_compile_options){.device = m.device, .flags = TG_COMPILE_AS_WRITTEN}, &k), "%s", tg_error_message(m.context));
  CHECK(!tg_device_alloc(m.device, sizeof host, &x) && !tg_device_alloc(m.device, sizeof host, &y) && !tg_device_copy(m.device, x, host, sizeof host), "%s", tg_error_message(m.context));
  tg_argument a[] = {{x, sizeof host}, {y, sizeof host}};
  CHECK(!tg_kernel_run(k, &(tg_launch){.buffers = a, .buffers_n = 2}) && !tg_device_copy(m.device, host, y, sizeof host), "%s", tg_error_message(m.context));
  for (int i = 0; i < N_PHASES; i++) CHECK(host[i] == (float)(N_PHASES - 1 - i), "%d: %g", i, host[i]);
  tg_kernel_free(k);
  machine_close(&m);
}

/* ---- memory, and what is refused ---- */

static void replays(machine *m, things *t) {
  tg_queue *q = NULL;
  void *elsewhere = NULL;
  const char *why = tg_error_message(m->context);
  CHECK(!tg_queue_open(m->device, NULL, &q) && !tg_device_alloc(m->device, sizeof t->host, &elsewhere), "%s", why);
  CHECK(!tg_queue_record(q) && !tg_queue_copy(q, t->y, t->x, sizeof t->host) && !put_add(t, q, 1) && !put_twice(t, q) && !tg_queue_recorded(q, &t->graph), "%s", tg_error_message(m->context));
  tg_graph_move to = {t->y, elsewhere, sizeof t->host}, away = {t->y, t->host, sizeof t->host};
  for (int i = 0; i < N; i++) t->host[i] = 4;
  CHECK(!tg_device_copy(m->device, t->x, t->host, sizeof t->host), "%s", tg_error_message(m->context));
  for (int i = 0; i < 3; i++) {
    CHECK(!tg_queue_replay(q, t->graph, i == 1 ? &(tg_graph_replay){.moves = &to, .moves_n = 1} : NULL), "%s", tg_error_message(m->context));
    CHECK(!tg_device_finish(m->device) && !tg_device_copy(m->device, t->host, i == 1 ? elsewhere : t->y, sizeof t->host) && t->host[5] == 19, "%d: %g", i, t->host[5]);
    memset(t->host, 0, sizeof t->host);
    CHECK(!tg_device_copy(m->device, t->y, t->host, sizeof t->host), "%s", tg_error_message(m->context));
  }
  CHECK(tg_queue_replay(q, t->graph, &(tg_graph_replay){.moves = &away, .moves_n = 1}) == TG_EINVAL && strstr(tg_error_message(m->context), "does not lie in memory"), "%s", tg_error_message(m->context));
  tg_graph_free(t->graph);
  t->graph = NULL;
}

/* Where the driver has no event for a mark, whose calls fail in turn, its work is waited for; its value grows all the
 * same. */
static void no_events(void) {
  enum { CALLS = 6 };
  int made = 0;
  for (uint64_t i = 1; i <= CALLS; i++) {
    machine m;
    tg_queue *q = NULL;
    tg_queue_mark first, next;
    if (!machine_open(&m, library, 8, NULL)) return;
    CHECK(!tg_queue_open(m.device, NULL, &q) && !tg_queue_submit(q, &first), "%s", tg_error_message(m.context));
    m.standin->fail_at = m.standin->calls + i, m.standin->fail_code = 2;
    tg_status s = tg_queue_submit(q, &next);
    bool failed = m.standin->calls >= m.standin->fail_at;
    m.standin->fail_at = 0;
    made += failed && s == TG_OK;
    if (s == TG_OK) CHECK(next.value > first.value && !tg_queue_wait(next, -1), "call %d fails: %llu behind %llu: %s", (int)i, (unsigned long long)next.value, (unsigned long long)first.value, tg_error_message(m.context));
    machine_close(&m);
  }
  CHECK(made > 0, "no mark was made where a call failed");
}

static void memory(void) {
  machine m;
  things t = {.add = NULL};
  tg_queue *q = NULL;
  tg_queue_mark mark = {NULL, 0};
  void *pages = aligned_alloc(4096, 4096), *in = NULL, *none = NULL;
  if (!machine_open(&m, library, 8, NULL)) return;
  CHECK(!compile(&m, &t) && !tg_queue_open(m.device, NULL, &q), "%s", tg_error_message(m.context));
  CHECK(tg_device_alloc(m.device, (size_t)1 << 62, &none) == TG_ENOMEM && !none, "%s", tg_error_message(m.context));
  CHECK(!tg_device_alloc(m.device, sizeof t.host, (void **)&t.x) && !tg_device_import(m.device, TG_IMPORT_PAGES, pages, 4096, &in), "%s", tg_error_message(m.context));
  CHECK(tg_device_import(m.device, TG_IMPORT_PAGES, pages, 4096, &none) == TG_EINVAL, "imported twice");
  t.y = in;
  for (int i = 0; i < N; i++) t.y[i] = 1;
  for (int i = 0; i < 20; i++) CHECK(!put_twice(&t, q), "%s", tg_error_message(m.context));
  CHECK(!tg_queue_submit(q, &mark) && tg_queue_wait(mark, 0) == TG_TIMEOUT, "work has not begun");
  CHECK(!tg_queue_wait(mark, 600000000000) && t.y[N - 1] == (float)((1 << 21) - 1), "%g", t.y[N - 1]);
  tg_queue_mark next;
  for (int i = 0; i < 20; i++) {
    if (i == 10) CHECK(!tg_queue_submit(q, &mark), "%s", tg_error_message(m.context));
    CHECK(!put_twice(&t, q), "%s", tg_error_message(m.context));
  }
  CHECK(!tg_queue_submit(q, &next) && !tg_queue_wait(mark, -1) && tg_queue_wait(next, 0) == TG_TIMEOUT, "a mark that is reached does not take those behind it along");
  CHECK(!tg_queue_wait(mark, 0), "once it is reached it stays so, whatever is pending behind it: %s", tg_error_message(m.context));
  CHECK(!tg_queue_wait(next, -1), "%s", tg_error_message(m.context));
  int64_t live = m.standin->live;
  for (int i = 0; i < 30; i++) CHECK(!tg_queue_submit(q, &mark) && !tg_queue_wait(mark, -1), "%s", tg_error_message(m.context));
  CHECK(m.standin->live <= live + 1, "marks that are reached leave no events: %lld", (long long)(m.standin->live - live));
  t.y++;                         /* the last element lies behind what 64 reach, within the page */
  CHECK(!put_twice(&t, q) && !tg_device_finish(m.device), "%s", tg_error_message(m.context));
  t.y = in;
  CHECK(tg_queue_launch(q, t.twice, &(tg_launch){.buffers = &(tg_argument){(char *)in + 4000, sizeof t.host}, .buffers_n = 1, .params = (int64_t[]){N}, .params_n = 1}) == TG_EINVAL, "beyond the end");
  replays(&m, &t);
  tg_kernel_free(t.add), tg_kernel_free(t.twice);
  machine_close(&m);             /* which gives back the memory */
  free(pages);
}

/* ---- what a launch costs ---- */

static double microseconds(double start, int n) { return 1e6 * (tg_now() - start) / n; }

static void launches(void) {
  enum { TIMES = 200000, STEPS = 100, REPLAYS = 20000 };
  machine m;
  things t = {.add = NULL};
  tg_queue *q = NULL;
  if (!machine_open(&m, library, 8, NULL) || compile(&m, &t)) return;
  if (tg_device_alloc(m.device, sizeof t.host, (void **)&t.y) || tg_queue_open(m.device, NULL, &q)) return;
  tg_queue_record(q);
  for (int i = 0; i < STEPS; i++) put_twice(&t, q);
  tg_queue_recorded(q, &t.graph);
  m.standin->nothing = true;
  for (int k = 0; k < 3; k++) {
    double start = tg_now();
    for (int i = 0; i < TIMES; i++) put_twice(&t, q);
    printf("a launch of one buffer: %.3f us", microseconds(start, TIMES));
    start = tg_now();
    for (int i = 0; i < REPLAYS; i++) tg_queue_replay(q, t.graph, NULL);
    printf("; a replay of %d launches: %.3f us\n", STEPS, microseconds(start, REPLAYS));
  }
  m.standin->nothing = false;
  tg_graph_free(t.graph);
  tg_kernel_free(t.add), tg_kernel_free(t.twice);
  machine_close(&m);
}

#ifdef TG_SANITIZED
/* The stand-in keeps modules and events that were freed, to tell of a second use, and counts what lives itself. */
const char *__asan_default_options(void);
const char *__asan_default_options(void) { return "detect_leaks=0"; }
#endif

int main(int argc, char **argv) {
  int seeds = 40;
  bool alone = false;
  standin_path(library, sizeof library, argv[0]);
  for (int i = 1; i < argc; i++)
    if (!strcmp(argv[i], "--seeds") && i + 1 < argc) seeds = atoi(argv[++i]);
    else if (!strcmp(argv[i], "--threads")) alone = true;
    else if (!strcmp(argv[i], "--launches")) return launches(), 0;
  CHECK(test_folder(cache), "a folder");
  threads(alone ? seeds : 5);
  if (!alone) orders(seeds), each_call_fails(), lost(), no_events(), old(), foreign(), peers(), limits(), phases(), memory();
  kit_remove(cache);
  return TEST_END();
}
