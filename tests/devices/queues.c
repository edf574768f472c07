/* SPDX-License-Identifier: MIT
 * Queues, marks, times, graphs and kinds of memory through tg/device.h, on the CPU and on the first device of each driver that can be used, or on those named.
 *   devices_queues [DEVICE ...] */
#define _GNU_SOURCE
#include <stdlib.h>
#include "../folder.h"
#include "../library/kit.h"
#include "../test.h"
#include "tg/device.h"

enum { N = 1000 };

typedef struct {
  tg_context *context;
  tg_device *device;
  const char *name;
  tg_device_info about;
  tg_kernel *add, *twice, *turned;
  float *x, *y;                /* the device's */
  float mine[N];
} run;

static const char add[] = "kernel add(N in 1..1000, D in 0..1000) { in(x, f32, [N]); inout(y, f32, [N]); range(i, N) y[i] = y[i] + x[i] + f32(D); }";
static const char twice[] = "kernel twice(N in 1..1000) { inout(y, f32, [N]); range(i, N) y[i] = y[i] * 2 + 1; }";
static const char turned[] = "kernel turned() { in(x, f32, [37], [-1]); out(y, f32, [37]); range(i, 37) y[i] = x[i]; }";

static const char *why(const run *r) { return tg_error_message(r->context); }

/* Fails with this status, and a message that has the text. */
#define REFUSED(call, status, text)                                                                    \
  do {                                                                                                 \
    tg_status s_ = (call);                                                                             \
    CHECK(s_ == (status) && strstr(why(r), text), "%s: %s: %s: %s", r->name, #call, tg_status_name(s_), why(r)); \
  } while (0)
#define FINE(call)                                                                         \
  do {                                                                                     \
    tg_status s_ = (call);                                                                 \
    CHECK(s_ == TG_OK, "%s: %s: %s: %s", r->name, #call, tg_status_name(s_), why(r)); \
  } while (0)

static void fill(run *r, void *to, float v) {
  for (int i = 0; i < N; i++) r->mine[i] = v;
  FINE(tg_device_copy(r->device, to, r->mine, sizeof r->mine));
}

/* Is every element v? */
static bool all(run *r, const void *from, float v) {
  FINE(tg_device_copy(r->device, r->mine, from, sizeof r->mine));
  for (int i = 0; i < N; i++)
    if (r->mine[i] != v) return false;
  return true;
}

static tg_status put_add(run *r, tg_queue *q, void *x, void *y, int64_t d) {
  const size_t bytes = N * sizeof(float);
  tg_argument a[] = {{x, bytes}, {y, bytes}};
  int64_t params[] = {N, d};
  return tg_queue_launch(q, r->add, &(tg_launch){.buffers = a, .buffers_n = 2, .params = params, .params_n = 2});
}

static tg_status put_twice(run *r, tg_queue *q, void *y) {
  tg_argument a = {y, N * sizeof(float)};
  int64_t n = N;
  return tg_queue_launch(q, r->twice, &(tg_launch){.buffers = &a, .buffers_n = 1, .params = &n, .params_n = 1});
}

/* ---- queues and marks ---- */

static void orders(run *r) {
  tg_queue *copies = NULL, *compute = NULL, *none = NULL;
  tg_queue_mark copied, again, done;
  float host[N];
  REFUSED(tg_queue_open(r->device, &(tg_queue_options){.kind = 7}, &none), TG_EINVAL, "no kind 7");
  REFUSED(tg_queue_open(r->device, NULL, NULL), TG_EINVAL, "no place");
  CHECK(tg_queue_open(NULL, NULL, &none) == TG_EINVAL && !none, "nothing");
  FINE(tg_queue_open(r->device, NULL, &compute));
  FINE(tg_queue_open(r->device, &(tg_queue_options){.kind = TG_QUEUE_COPY}, &copies));
  for (int i = 0; i < N; i++) host[i] = 3;
  fill(r, r->y, 1), fill(r, r->x, 0);
  FINE(tg_queue_copy(copies, r->x, host, sizeof host));
  FINE(tg_queue_submit(copies, &copied));
  FINE(tg_queue_submit(copies, &again));
  CHECK(copied.queue == copies && again.value > copied.value, "%s: values grow: %llu, %llu", r->name, (unsigned long long)copied.value, (unsigned long long)again.value);
  FINE(tg_queue_after(compute, copied));
  FINE(put_add(r, compute, r->x, r->y, 4));
  FINE(put_twice(r, compute, r->y));
  FINE(tg_queue_submit(compute, &done));
  FINE(tg_queue_wait(done, 600000000000));
  FINE(tg_queue_wait(done, 0));
  FINE(tg_queue_wait(copied, 0));
  FINE(tg_queue_wait((tg_queue_mark){NULL, 9}, -1));
  CHECK(all(r, r->y, 17), "%s: %g", r->name, r->mine[0]);
  REFUSED(put_twice(r, copies, r->y), TG_EINVAL, "takes no launches");
  REFUSED(tg_queue_copy(compute, NULL, r->x, 4), TG_EINVAL, "NULL");
  tg_queue_free(copies), tg_queue_free(NULL);   /* compute goes with the context */
}

/* Queues in a ring, each of which goes on with what the one before it made: right only if each waits. */
static void ring(run *r) {
  enum { QUEUES = 4, ROUNDS = 25 };
  tg_queue *q[QUEUES];
  tg_queue_mark mark = {NULL, 0};
  uint32_t want = 5;
  for (int i = 0; i < QUEUES; i++) FINE(tg_queue_open(r->device, NULL, &q[i]));
  fill(r, r->y, 5);
  for (int i = 0; i < ROUNDS * QUEUES; i++) {
    FINE(tg_queue_after(q[i % QUEUES], mark));
    if (i % 16 == 15) {         /* so that numbers stay exact in f32 */
      for (int k = 0; k < N; k++) r->mine[k] = 5;
      FINE(tg_queue_copy(q[i % QUEUES], r->y, r->mine, sizeof r->mine));
      want = 5;
    } else {
      FINE(put_twice(r, q[i % QUEUES], r->y));
      want = 2 * want + 1;
    }
    FINE(tg_queue_submit(q[i % QUEUES], &mark));
  }
  FINE(tg_device_finish(r->device));
  CHECK(all(r, r->y, (float)want), "%s: %g, wanted %u", r->name, r->mine[0], want);
  for (int i = 0; i < QUEUES; i++) tg_queue_free(q[i]);
}

static void times(run *r) {
  tg_queue *q = NULL;
  double at[3] = {0};
  tg_timing t = {0};
  tg_argument a = {r->y, N * sizeof(float)};
  int64_t n = N;
  FINE(tg_queue_open(r->device, NULL, &q));
  FINE(tg_queue_stamp(q, 5));
  FINE(put_twice(r, q, r->y));
  FINE(tg_queue_stamp(q, 6));
  FINE(put_twice(r, q, r->y));
  FINE(tg_queue_stamp(q, 7));
  FINE(tg_queue_stamps(q, 5, 3, at));
  CHECK(at[0] <= at[1] && at[1] <= at[2] && at[2] - at[0] < 60, "%s: %g %g %g", r->name, at[0], at[1], at[2]);
  FINE(tg_queue_stamps(q, 5, 0, NULL));
  REFUSED(tg_queue_stamp(q, TG_QUEUE_STAMPS), TG_EINVAL, "slot 64");
  REFUSED(tg_queue_stamps(q, 4, 2, at), TG_EINVAL, "not all stamped");
  REFUSED(tg_queue_stamps(q, 63, 2, at), TG_EINVAL, "not all stamped");
  REFUSED(tg_queue_stamps(q, 5, 2, NULL), TG_EINVAL, "no place");
  if (!strcmp(r->about.driver, "opencl")) {   /* a clock of this machine: no more passes on it than for who waits */
    double begun = tg_now();
    FINE(tg_queue_stamp(q, 0));
    for (int i = 0; i < 200; i++) FINE(put_twice(r, q, r->y));
    FINE(tg_queue_stamp(q, 1));
    FINE(tg_queue_stamps(q, 0, 2, at));
    CHECK(at[1] - at[0] <= tg_now() - begun, "%s: %g s by the device's clock, %g s by the host's", r->name, at[1] - at[0], tg_now() - begun);
  }
  tg_queue_free(q);
  FINE(tg_kernel_time(r->twice, &(tg_launch){.buffers = &a, .buffers_n = 1, .params = &n, .params_n = 1}, 0.01, &t));
  CHECK(t.runs >= 3 && t.median > 0 && t.best <= t.median, "%s: %u runs, %g s", r->name, t.runs, t.median);
}

/* ---- graphs ---- */

static tg_graph *record(run *r, tg_queue *q) {
  tg_graph *g = NULL;
  tg_queue_mark mark = {q, 1};
  tg_queue *other;
  const size_t bytes = N * sizeof(float);
  REFUSED(tg_queue_recorded(q, &g), TG_EINVAL, "not recording");
  FINE(tg_queue_record(q));
  REFUSED(tg_queue_record(q), TG_EINVAL, "recording already");
  REFUSED(tg_queue_after(q, mark), TG_EINVAL, "is recording");
  REFUSED(tg_queue_stamp(q, 0), TG_EINVAL, "is recording");
  FINE(tg_queue_copy(q, r->y, r->x, bytes));
  FINE(put_add(r, q, r->x, r->y, 1));
  REFUSED(put_add(r, q, r->x, r->y, 1001), TG_EINVAL, "D");
  FINE(put_twice(r, q, r->y));
  FINE(tg_queue_recorded(q, &g));
  FINE(tg_queue_open(r->device, NULL, &other));
  FINE(tg_queue_record(other));
  REFUSED(tg_queue_replay(other, g, NULL), TG_EINVAL, "into another");
  tg_queue_free(other);        /* and its recording */
  return g;
}

/* Replays, and waits; what the graph makes of x is 2 (2 x + D) + 1. */
static tg_status replay(run *r, tg_queue *q, tg_graph *g, const tg_graph_replay *how) {
  tg_status s = tg_queue_replay(q, g, how);
  return s == TG_OK ? tg_device_finish(r->device) : s;
}

static void graphs(run *r) {
  tg_queue *q = NULL, *other = NULL;
  const size_t bytes = N * sizeof(float);
  void *x = NULL, *y = NULL;
  FINE(tg_queue_open(r->device, NULL, &q));
  FINE(tg_queue_open(r->device, NULL, &other));
  FINE(tg_device_alloc(r->device, bytes, &x));
  FINE(tg_device_alloc(r->device, bytes, &y));
  fill(r, r->x, 2), fill(r, r->y, 0), fill(r, x, 10), fill(r, y, 0);
  tg_graph *g = record(r, q);
  CHECK(tg_graph_steps(g) == 3 && tg_graph_steps(NULL) == 0, "%s: %u steps", r->name, tg_graph_steps(g));
  CHECK(all(r, r->y, 0), "%s: recording runs nothing", r->name);
  FINE(replay(r, q, g, NULL));
  CHECK(all(r, r->y, 11), "%s: as recorded: %g", r->name, r->mine[0]);
  tg_graph_move to = {r->y, y, bytes}, both[] = {{r->x, x, bytes}, {r->y, y, bytes}}, small = {r->y, y, bytes - 4}, onto = {r->x, r->y, bytes};
  tg_graph_param d = {1, 1, 100}, wrong = {0, 0, 1}, beyond = {1, 1, 1001}, none = {3, 0, 1};
  FINE(replay(r, other, g, &(tg_graph_replay){.moves = both, .moves_n = 2, .params = &d, .params_n = 1}));
  CHECK(all(r, y, 241) && all(r, r->y, 11), "%s: elsewhere: %g", r->name, r->mine[0]);
  fill(r, r->y, 0);
  REFUSED(replay(r, q, g, &(tg_graph_replay){.moves = &small, .moves_n = 1}), TG_EINVAL, "step 0");
  REFUSED(replay(r, q, g, &(tg_graph_replay){.moves = &onto, .moves_n = 1}), TG_EINVAL, "overlaps");
  REFUSED(replay(r, q, g, &(tg_graph_replay){.params = &beyond, .params_n = 1}), TG_EINVAL, "step 1");
  REFUSED(replay(r, q, g, &(tg_graph_replay){.params = &wrong, .params_n = 1}), TG_EINVAL, "has no parameter");
  REFUSED(replay(r, q, g, &(tg_graph_replay){.params = &none, .params_n = 1}), TG_EINVAL, "has no parameter");
  REFUSED(replay(r, q, g, &(tg_graph_replay){.moves_n = 1}), TG_EINVAL, "lacks");
  CHECK(all(r, r->y, 0), "%s: what is refused runs nothing: %g", r->name, r->mine[0]);
  FINE(replay(r, q, g, NULL));
  CHECK(all(r, r->y, 11), "%s: a change holds once: %g", r->name, r->mine[0]);
  tg_queue_free(other);        /* which has replayed the graph */
  FINE(replay(r, q, g, &(tg_graph_replay){.moves = &to, .moves_n = 1}));
  CHECK(all(r, y, 11), "%s: the result elsewhere: %g", r->name, r->mine[0]);
  tg_graph_free(g), tg_graph_free(NULL);
  FINE(tg_queue_record(q));
  FINE(tg_queue_recorded(q, &g));
  FINE(replay(r, q, g, NULL));   /* of nothing */
  tg_graph_free(g);
  tg_queue_free(q);
}

/* ---- memory ---- */

static void memory(run *r) {
  const size_t bytes = N * sizeof(float);
  void *host = NULL, *in = NULL, *pages = NULL, *none = NULL;
  tg_queue *q = NULL;
  tg_queue_mark done;
  FINE(tg_queue_open(r->device, NULL, &q));
  tg_argument beside = {(char *)r->y + 1, (N - 1) * sizeof(float)};
  int64_t fewer = N - 1;
  REFUSED(tg_queue_launch(q, r->twice, &(tg_launch){.buffers = &beside, .buffers_n = 1, .params = &fewer, .params_n = 1}), TG_EINVAL, "is not aligned to its elements");
  tg_argument small = {r->y, N * sizeof(float) - 1}, down[] = {{r->x, N * sizeof(float)}, {r->y, N * sizeof(float)}};
  int64_t all_of_it = N;
  const size_t little[] = {4, 0}, enough[] = {36 * sizeof(float), 0};
  REFUSED(tg_queue_launch(q, r->twice, &(tg_launch){.buffers = &small, .buffers_n = 1, .params = &all_of_it, .params_n = 1}), TG_EINVAL, "'y' has 3999 bytes, 4000 are needed");
  REFUSED(tg_queue_launch(q, r->turned, &(tg_launch){.buffers = down, .buffers_n = 2, .offsets = little}), TG_EINVAL, "before its element of subscripts 0, whose offset is 4");
  for (int i = 0; i < N; i++) r->mine[i] = (float)i;
  FINE(tg_device_copy(r->device, r->x, r->mine, sizeof r->mine));
  FINE(tg_queue_launch(q, r->turned, &(tg_launch){.buffers = down, .buffers_n = 2, .offsets = enough}));
  FINE(tg_device_finish(r->device));
  FINE(tg_device_copy(r->device, r->mine, r->y, sizeof r->mine));
  CHECK(r->mine[0] == 36 && r->mine[36] == 0, "%s: %g %g", r->name, r->mine[0], r->mine[36]);
  REFUSED(tg_device_alloc_kind(r->device, 4, 9, &none), TG_EINVAL, "no such kind");
  REFUSED(tg_device_import(r->device, 9, r->mine, 4096, &none), TG_EINVAL, "no such kind");
  REFUSED(tg_device_import(r->device, TG_IMPORT_PAGES, NULL, 4096, &none), TG_EINVAL, "no memory");
  tg_status s = tg_device_alloc_kind(r->device, bytes, TG_MEMORY_HOST, &host);
  CHECK(s == TG_OK || (s == TG_EINVAL && strstr(why(r), "no memory that the host reaches")), "%s: %s", r->name, why(r));
  pages = aligned_alloc(4096, 4096);
  tg_status imported = tg_device_import(r->device, TG_IMPORT_PAGES, pages, 4096, &in);
  CHECK(imported == TG_OK || (imported == TG_EINVAL && strstr(why(r), "cannot reach memory of the process")), "%s: %s", r->name, why(r));
  void *place[] = {s == TG_OK ? host : NULL, imported == TG_OK ? pages : NULL};
  void *at[] = {host, in};
  for (int k = 0; k < 2; k++) {
    float *f = place[k];
    if (!f) continue;
    for (int i = 0; i < N; i++) f[i] = 6;
    fill(r, r->x, 1);
    FINE(put_add(r, q, r->x, at[k], 2));
    FINE(tg_queue_submit(q, &done));
    FINE(tg_queue_wait(done, -1));
    CHECK(f[0] == 9 && f[N - 1] == 9, "%s: the host sees it: %g", r->name, f[0]);
  }
  tg_device_free(r->device, host);
  tg_device_free(r->device, in);
  free(pages);
  tg_queue_free(q);
}

/* With memory of the caller's for the kernel's own. */
static void workspace(run *r) {
  size_t bytes = tg_kernel_workspace(r->twice, 1);
  tg_argument a = {r->y, N * sizeof(float)};
  int64_t n = N;
  void *own = NULL;
  tg_launch l = {.buffers = &a, .buffers_n = 1, .params = &n, .params_n = 1};
  if (!bytes) return;
  FINE(tg_device_alloc(r->device, bytes, &own));
  fill(r, r->y, 1);
  l.workspace = own, l.workspace_bytes = bytes;
  FINE(tg_kernel_run(r->twice, &l));
  CHECK(all(r, r->y, 3), "%s: %g", r->name, r->mine[0]);
  l.workspace_bytes = bytes - 1;
  REFUSED(tg_kernel_run(r->twice, &l), TG_EINVAL, "are needed");
  tg_device_free(r->device, own);
}

static long pieces;
static void *counted(void *user, size_t bytes) { return (void)user, __atomic_add_fetch(&pieces, 1, __ATOMIC_RELAXED), malloc(bytes); }
static void returned(void *user, void *p, size_t bytes) { (void)user, (void)bytes, __atomic_sub_fetch(&pieces, 1, __ATOMIC_RELAXED), free(p); }

static void on(const char *name, uint32_t i) {
  run whole = {.name = name}, *r = &whole;
  tg_device *cpu = NULL;
  tg_context_options options = {.allocator = {counted, returned, NULL}, .threads = 2};
  CHECK(!tg_context_create(&options, &r->context) && !tg_device_open(r->context, i, &r->device), "%s: %s", name, why(r));
  if (!r->device) return;
  FINE(tg_device_describe(i, &r->about));
  CHECK(r->about.chip[0] && strstr(name, r->about.driver) == name, "%s: a chip", name);
  FINE(tg_device_open(r->context, 0, &cpu));
  FINE(tg_device_peers(r->device, r->device));
  if (cpu != r->device) CHECK(tg_device_peers(r->device, cpu) == TG_EINVAL, "%s: no peer of the CPU", name);
  REFUSED(tg_device_open_native(r->context, i, NULL, &cpu), TG_EINVAL, "no context");
  FINE(tg_kernel_compile_text(r->context, "add", add, &(tg_compile_options){.device = r->device}, &r->add));
  FINE(tg_kernel_compile_text(r->context, "twice", twice, &(tg_compile_options){.device = r->device}, &r->twice));
  FINE(tg_kernel_compile_text(r->context, "turned", turned, &(tg_compile_options){.device = r->device}, &r->turned));
  FINE(tg_device_alloc(r->device, sizeof r->mine, (void **)&r->x));
  FINE(tg_device_alloc(r->device, sizeof r->mine, (void **)&r->y));
  if (r->add && r->twice && r->turned && r->x && r->y) orders(r), ring(r), times(r), graphs(r), memory(r), workspace(r);
  tg_kernel_free(r->add), tg_kernel_free(r->twice), tg_kernel_free(r->turned);
  tg_context_free(r->context);
  CHECK(pieces == 0, "%s: %ld pieces are left", name, pieces);
}

static void names(void) {
  uint32_t i = 7;
  CHECK(!tg_device_named("cpu", &i) && i == 0 && !tg_device_named("cpu:0", &i) && i == 0, "cpu");
  CHECK(tg_device_named("cpu:1", &i) == TG_MISS && tg_device_named("opencl:9999", &i) == TG_MISS, "as many as there are");
  static const char *const wrong[] = {NULL, "", ":", "0", "cpu:", "cpu:x", "cpu:-1", "cpux", "cp", "cpu:0:0", "opencl: 0", "opencl:99999999999999"};
  for (size_t k = 0; k < sizeof wrong / sizeof *wrong; k++) CHECK(tg_device_named(wrong[k], &i) == TG_EINVAL, "%s is no name", wrong[k] ? wrong[k] : "NULL");
}

int main(int argc, char **argv) {
  char folder[TEST_PATH] = "tg-queues-XXXXXX";
  tg_device_info about, seen = {.driver = ""};
  CHECK(test_folder(folder), "a folder");
  setenv("POCL_CACHE_DIR", folder, 1);
  names();
  for (int k = 1; k < argc; k++) {
    uint32_t i = 0;
    CHECK(tg_device_named(argv[k], &i) == TG_OK, "%s: there is no such device", argv[k]);
    on(argv[k], i);
  }
  for (uint32_t i = 0; argc < 2 && tg_device_describe(i, &about) == TG_OK; i++) {
    if (about.lacks[0] || !strcmp(about.driver, seen.driver)) continue;
    seen = about;
    printf("%s: %s\n", about.driver, about.name);
    on(about.driver, i);
  }
  kit_remove(folder);
  return TEST_END();
}
