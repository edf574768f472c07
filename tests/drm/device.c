/* SPDX-License-Identifier: MIT
 * AMD devices through tg/device.h over the stand-in for libdrm_amdgpu: memory, copies, launches, queues, times, what
 * cannot be used, calls that fail, devices that are lost, drawn orders, and streams of packets held against the golden
 * ones in tests/drm/golden. What the kernels here do is known to the test, which does it in their place, through the
 * caches of the model, from the arguments that it finds where the registers say.
 *   drm_device [--golden | --orders | --launches]   --golden: writes the golden streams instead of comparing; --orders:
 *                                                   500 seeds; --launches: only what a launch costs on the host */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include "../test.h"
#include "base/base.h"
#include "drm.h"
#include "tg/device.h"

enum { N = 1000, ADD = 0x7a6701, TWICE = 0x7a6702, PAIR = 0x7a6703, LOCAL = 0x7a6704 };

static drm_model *m;
static void (*reset)(void);

static const char add[] = "kernel add(N in 1..1000, D in 0..1000, ID in 8021760..8021776) { in(x, f32, [N]); inout(y, f32, [N]); range(i, N) y[i] = y[i] + x[i] + f32(D); }";
static const char twice[] = "kernel twice(N in 1..1000, ID in 8021760..8021776) { inout(y, f32, [N]); range(i, N) y[i] = y[i] * 2 + 1; }";

/* 300 floats of LOCAL are 1200 bytes, which are given as 1536. */
static const char local[] = "kernel turned(ID in 8021760..8021776) { in(x, f32, [900]); out(y, f32, [900]); range(g, 3, global) { define_local(t, f32, [300]); range(i, 300, local) t[i] = x[g*300 + i];"
                            "range(i, 300, local) y[g*300 + i] = t[299 - i]; } }";

/* ---- kernels, by what they mean ---- */

typedef struct { const drm_dispatch *d; bool ok; } machine;

static float get(machine *k, uint64_t at, uint64_t i) {
  float v = 0;
  k->ok &= k->d->read(at + 4 * i, &v, sizeof v, false);
  return v;
}
static void put(machine *k, uint64_t at, uint64_t i, float v) { k->ok &= k->d->write(at + 4 * i, &v, sizeof v); }

static bool run(void *user, const drm_dispatch *d, char *message, size_t n) {
  (void)user;
  machine k = {d, true};
  uint64_t a[8];
  uint32_t code[4], first = !strcmp(d->chip, "gfx90a") || !strcmp(d->chip, "gfx1030") ? 4 : 0;   /* behind four of scratch memory */
  uint64_t arguments = d->user_data[first] | (uint64_t)d->user_data[first + 1] << 32;
  if (!d->read(arguments, a, sizeof a, false) || !d->read(d->code, code, sizeof code, true)) return snprintf(message, n, "no code, or no arguments"), false;
  if (!code[0] || code[0] == 0xa5a5a5a5) return snprintf(message, n, "the code is old"), false;
  if (a[4] == ADD && a[2] <= N)
    for (uint64_t i = 0; i < a[2] && k.ok; i++) put(&k, a[1], i, get(&k, a[1], i) + get(&k, a[0], i) + (float)a[3]);
  else if (a[2] == TWICE && a[1] <= N)
    for (uint64_t i = 0; i < a[1] && k.ok; i++) put(&k, a[0], i, get(&k, a[0], i) * 2 + 1);
  else if (a[2] == LOCAL) {
    if (d->local_bytes != 1536 || d->groups[0] != 3 || d->groups[1] != 1 || d->groups[2] != 1 || d->threads[0] < 300) return snprintf(message, n, "%u bytes of LOCAL", d->local_bytes), false;
    for (uint64_t i = 0; i < 900 && k.ok; i++) put(&k, a[1], i, get(&k, a[0], i / 300 * 300 + 299 - i % 300));
  } else return snprintf(message, n, "the arguments are old, or another's"), false;
  if (!k.ok) snprintf(message, n, "memory that is not mapped");
  return k.ok;
}

/* ---- programs of a user ---- */

typedef struct {
  tg_context *context;
  tg_device *device;
  tg_kernel *add, *twice;
  float *x, *y;                /* the device's */
  float mine[N], back[N];
  tg_status status;            /* the first that was not TG_OK */
  char why[256], log[4096];
} program;

static void hear(void *user, const char *message) { snprintf(((program *)user)->log, sizeof((program *)user)->log, "%s", message); }

static bool did(program *p, tg_status s) {
  if (s != TG_OK && p->status == TG_OK) {
    p->status = s;
    snprintf(p->why, sizeof p->why, "%s", tg_error_message(p->context));
  }
  return s == TG_OK;
}

static uint32_t number_of(const char *driver) {
  tg_device_info about;
  uint32_t i = 0;
  while (tg_device_describe(i, &about) == TG_OK && strcmp(about.driver, driver)) i++;
  return i;
}

static bool start(program *p) {
  tg_context_options o = {.log = hear, .log_user = p};
  *p = (program){.status = TG_OK};
  if (tg_context_create(&o, &p->context) != TG_OK) return false;
  if (!did(p, tg_device_open(p->context, number_of("amd"), &p->device))) return false;
  tg_compile_options c = {.device = p->device};
  return did(p, tg_kernel_compile_text(p->context, "add", add, &c, &p->add)) && did(p, tg_kernel_compile_text(p->context, "twice", twice, &c, &p->twice)) &&
         did(p, tg_device_alloc(p->device, N * 4, (void **)&p->x)) && did(p, tg_device_alloc(p->device, N * 4, (void **)&p->y));
}

static void end(program *p) {
  tg_kernel_free(p->add), tg_kernel_free(p->twice);
  tg_context_free(p->context);
}

static bool put_add(program *p, tg_queue *q, void *x, void *y, int64_t n, int64_t d) {
  tg_argument a[] = {{x, (size_t)n * 4}, {y, (size_t)n * 4}};
  int64_t params[] = {n, d, ADD};
  tg_launch l = {.buffers = a, .buffers_n = 2, .params = params, .params_n = 3};
  return did(p, q ? tg_queue_launch(q, p->add, &l) : tg_kernel_start(p->add, &l));
}
static bool put_twice(program *p, tg_queue *q, void *y, int64_t n) {
  tg_argument a = {y, (size_t)n * 4};
  int64_t params[] = {n, TWICE};
  tg_launch l = {.buffers = &a, .buffers_n = 1, .params = params, .params_n = 2};
  return did(p, q ? tg_queue_launch(q, p->twice, &l) : tg_kernel_start(p->twice, &l));
}

/* y = ((y + x + 3) * 2 + 1) twice over, by launches that follow one another. */
static bool simple(program *p) {
  for (int i = 0; i < N; i++) p->mine[i] = (float)i;
  bool ok = did(p, tg_device_copy(p->device, p->x, p->mine, sizeof p->mine)) && did(p, tg_device_copy(p->device, p->y, p->mine, sizeof p->mine));
  for (int turn = 0; turn < 2; turn++) ok = ok && put_add(p, NULL, p->x, p->y, N, 3) && put_twice(p, NULL, p->y, N);
  return ok && did(p, tg_device_copy(p->device, p->back, p->y, sizeof p->back));
}

static bool simple_right(const program *p) {
  for (int i = 0; i < N; i++) {
    float x = (float)i, y = x;
    for (int turn = 0; turn < 2; turn++) y = (y + x + 3) * 2 + 1;
    if (p->back[i] != y) return false;
  }
  return true;
}

static void set_up(const char *chip) {
  reset();
  m->chip = chip, m->run = run;
}

#define CLEAN(what) CHECK(!m->faults && !m->live, "%s: %s: %s; %lld objects live", m->chip, what, m->message, (long long)m->live)

/* A wait, a hang's report and lost devices need no clock: the stand-in's waits return at once. */
static void first(const char *chip) {
  program p;
  set_up(chip);
  CHECK(start(&p) && simple(&p) && simple_right(&p), "%s: %s %s", chip, p.why, m->message);
  CHECK(m->dispatches == 4, "%lld dispatches", (long long)m->dispatches);
  end(&p);
  CLEAN("a simple program");
}


/* ---- queues, times, memory of the host ---- */

/* Copies on one queue, launches on another, each behind the other's marks, with times between. */
static bool overlapped(program *p) {
  tg_queue *compute = NULL, *copies = NULL;
  tg_queue_mark copied, done, back;
  float *pinned = NULL;
  double t[2];
  bool ok = did(p, tg_queue_open(p->device, NULL, &compute)) && did(p, tg_queue_open(p->device, &(tg_queue_options){.kind = TG_QUEUE_COPY}, &copies)) &&
            did(p, tg_device_alloc_kind(p->device, 2 * N * 4, TG_MEMORY_HOST, (void **)&pinned));
  for (int i = 0; ok && i < N; i++) pinned[i] = (float)i, pinned[N + i] = -1;
  ok = ok && did(p, tg_queue_copy(copies, p->x, pinned, N * 4)) && did(p, tg_queue_copy(copies, p->y, p->x, N * 4)) && did(p, tg_queue_submit(copies, &copied));
  ok = ok && did(p, tg_queue_after(compute, copied)) && did(p, tg_queue_stamp(compute, 3)) && put_add(p, compute, p->x, p->y, N, 5) && put_twice(p, compute, p->y, N) && did(p, tg_queue_stamp(compute, 4)) &&
       did(p, tg_queue_submit(compute, &done)) && did(p, tg_queue_after(copies, done)) && did(p, tg_queue_copy(copies, pinned + N, p->y, N * 4)) && did(p, tg_queue_stamp(copies, 0)) && did(p, tg_queue_submit(copies, &back));
  tg_status now = ok ? tg_queue_wait(back, 0) : TG_OK;
  if (ok && now != TG_TIMEOUT) ok = did(p, now);
  if (ok) CHECK(now == TG_TIMEOUT && pinned[N + 1] == -1, "%s: the work has been done before anybody waited", m->chip);
  ok = ok && did(p, tg_queue_wait(back, 1000000000)) && did(p, tg_queue_stamps(compute, 3, 2, t));
  for (int i = 0; ok && i < N; i++) p->back[i] = pinned[N + i];
  if (ok) CHECK(t[1] >= t[0] && t[0] > 0 && t[1] < 1e9, "times: %g, %g", t[0], t[1]);
  /* a launch on memory of the host */
  ok = ok && put_twice(p, compute, pinned, N) && did(p, tg_queue_submit(compute, &done)) && did(p, tg_queue_wait(done, -1));
  if (ok) CHECK(pinned[10] == 21, "%s: memory of the host: %g", m->chip, (double)pinned[10]);
  ok = ok && put_twice(p, compute, p->x, N) && did(p, tg_queue_submit(compute, &done));   /* whose end nobody waits for but the free */
  tg_queue_free(compute), tg_queue_free(copies);
  tg_device_free(p->device, pinned);
  return ok;
}

static bool overlapped_right(const program *p) {
  for (int i = 0; i < N; i++)
    if (p->back[i] != (2 * (float)i + 5) * 2 + 1) return false;
  return true;
}

/* Many launches in one submission, and more than the slots hold; a copy of pageable memory larger than staging memory. */
static bool long_queue(program *p) {
  enum { LAUNCHES = 2000, MANY = 5 << 20 };
  static float many[MANY], got[MANY];
  void *big = NULL;
  bool ok = true;
  for (int i = 0; i < N; i++) p->mine[i] = 0;
  ok = did(p, tg_device_copy(p->device, p->x, p->mine, sizeof p->mine)) && did(p, tg_device_copy(p->device, p->y, p->mine, sizeof p->mine));
  for (int i = 0; ok && i < LAUNCHES; i++) ok = put_add(p, NULL, p->x, p->y, 7, 1);
  ok = ok && did(p, tg_device_copy(p->device, p->back, p->y, sizeof p->back));
  if (ok) CHECK(p->back[6] == LAUNCHES && p->back[7] == 0, "%s: %g after %d launches", m->chip, (double)p->back[6], LAUNCHES);
  for (int i = 0; i < MANY; i++) many[i] = (float)i;
  ok = ok && did(p, tg_device_alloc(p->device, sizeof many, &big)) && did(p, tg_device_copy(p->device, big, many, sizeof many)) && did(p, tg_device_copy(p->device, got, big, sizeof got));
  if (ok) CHECK(!memcmp(many, got, sizeof many), "%s: a copy of %zu bytes", m->chip, sizeof many);
  tg_device_free(p->device, big);
  return ok;
}

/* A kernel with LOCAL memory; many marks; a kernel driver that is short of memory for a moment. */
static bool odds(program *p) {
  tg_kernel *turned = NULL;
  tg_queue *q[2] = {NULL, NULL};
  tg_queue_mark done;
  int64_t id = LOCAL;
  tg_argument a[] = {{p->x, 3600}, {p->y, 3600}};
  for (int i = 0; i < N; i++) p->mine[i] = (float)i;
  bool ok = did(p, tg_device_copy(p->device, p->x, p->mine, sizeof p->mine)) &&
            did(p, tg_kernel_compile_text(p->context, "local", local, &(tg_compile_options){.device = p->device, .flags = TG_COMPILE_AS_WRITTEN}, &turned)) &&
            did(p, tg_kernel_run(turned, &(tg_launch){.buffers = a, .buffers_n = 2, .params = &id, .params_n = 1})) && did(p, tg_device_copy(p->device, p->back, p->y, 3600));
  if (ok) CHECK(p->back[0] == 299 && p->back[600] == 899, "%s: LOCAL: %g", m->chip, (double)p->back[0]);
  tg_kernel_free(turned);
  for (int i = 0; i < 2; i++) ok = ok && did(p, tg_queue_open(p->device, NULL, &q[i]));
  for (int i = 0; i < N; i++) p->mine[i] = 0;
  ok = ok && did(p, tg_queue_copy(q[0], p->x, p->mine, sizeof p->mine)) && did(p, tg_queue_copy(q[0], p->y, p->mine, sizeof p->mine));
  for (int i = 0; ok && i < 40; i++)
    ok = put_add(p, q[i % 2], p->x, p->y, 10, 1) && did(p, tg_queue_submit(q[i % 2], &done)) && did(p, tg_queue_after(q[1 - i % 2], done)) && did(p, tg_queue_after(q[1 - i % 2], done));
  for (int i = 0; ok && i < 40; i++) ok = did(p, tg_queue_after(q[0], done));
  for (int i = 0; ok && i < 1000; i++) ok = put_add(p, q[0], p->x, p->y, 10, 1);   /* more than a slot holds */
  m->busy_submits = 3;
  ok = ok && put_add(p, q[0], p->x, p->y, 10, 1) && did(p, tg_queue_copy(q[0], p->back, p->y, 40)) && did(p, tg_queue_submit(q[0], &done)) && did(p, tg_queue_wait(done, -1));
  if (ok) CHECK(p->back[9] == 1041 && !m->busy_submits, "%s: %g after 1041 launches on two queues", m->chip, (double)p->back[9]);
  tg_queue_free(q[0]), tg_queue_free(q[1]);
  return ok;
}

/* Replays as recorded, with another number, with other memory, and as recorded again, all put before any has run; then
 * those of a graph that copies, too. */
static bool graphs(program *p) {
  enum { REPLAYS = 24 /* more than a queue has slots */, STEPS = 100 /* that fill several pages */ };
  tg_queue *q = NULL;
  tg_graph *g = NULL, *copying = NULL, *large = NULL;
  tg_queue_mark done;
  float want = 1, moved = 0;
  for (int i = 0; i < N; i++) p->mine[i] = 1;
  bool ok = did(p, tg_queue_open(p->device, NULL, &q)) && did(p, tg_queue_copy(q, p->x, p->mine, sizeof p->mine)) && did(p, tg_queue_copy(q, p->y, p->mine, sizeof p->mine)) && did(p, tg_queue_record(q)) &&
            put_add(p, q, p->x, p->y, N / 2, 3) && put_add(p, q, p->x, p->y, N / 2, 5) && did(p, tg_queue_recorded(q, &g));
  const tg_graph_param number = {.step = 1, .param = 1, .value = 9};
  const tg_graph_move move = {p->y, p->y + N / 2, N * 2};
  const int64_t before = m->dispatches;
  for (int turn = 0; ok && turn < REPLAYS; turn++) {
    tg_graph_replay how = {0};
    if (turn % 3 == 1) ok = put_add(p, q, p->x, p->y, N / 2, 1), want += 2;   /* in the stream under way */
    if (turn % 6 == 2) how.params = &number, how.params_n = 1;
    if (turn % 6 == 4) how.moves = &move, how.moves_n = 1;
    ok = ok && did(p, tg_queue_replay(q, g, &how));
    if (turn % 6 == 4) moved += 10;
    else want += turn % 6 == 2 ? 14 : 10;
  }
  ok = ok && did(p, tg_queue_copy(q, p->back, p->y, sizeof p->back)) && did(p, tg_queue_submit(q, &done)) && did(p, tg_queue_wait(done, -1));
  if (ok) CHECK(p->back[0] == want && p->back[N / 2 - 1] == want && p->back[N / 2] == 1 + moved && m->dispatches == before + 2 * REPLAYS + REPLAYS / 3, "%s: %g and %g, wanted %g and %g", m->chip, (double)p->back[0], (double)p->back[N - 1], (double)want, (double)(1 + moved));
  ok = ok && did(p, tg_queue_record(q)) && put_twice(p, q, p->x, N) && did(p, tg_queue_copy(q, p->y, p->x, N * 4)) && put_twice(p, q, p->y, N) && did(p, tg_queue_recorded(q, &copying));
  for (int turn = 0; ok && turn < 3; turn++) ok = did(p, tg_queue_replay(q, copying, NULL));
  ok = ok && did(p, tg_queue_copy(q, p->back, p->y, sizeof p->back)) && did(p, tg_queue_submit(q, &done)) && did(p, tg_queue_wait(done, -1));
  if (ok) CHECK(p->back[0] == 31 && p->back[N - 1] == 31, "%s: a graph that copies: %g", m->chip, (double)p->back[0]);
  for (int i = 0; i < N; i++) p->mine[i] = 1;
  ok = ok && did(p, tg_queue_copy(q, p->x, p->mine, sizeof p->mine)) && did(p, tg_queue_copy(q, p->y, p->mine, sizeof p->mine)) && did(p, tg_queue_record(q));
  for (int i = 0; ok && i < STEPS; i++) ok = put_add(p, q, p->x, p->y, 9, i);
  ok = ok && did(p, tg_queue_recorded(q, &large)) && did(p, tg_queue_replay(q, large, NULL)) && did(p, tg_queue_copy(q, p->back, p->y, sizeof p->back)) && did(p, tg_queue_submit(q, &done)) && did(p, tg_queue_wait(done, -1));
  if (ok) CHECK(p->back[8] == 1 + STEPS + STEPS * (STEPS - 1) / 2 && p->back[9] == 1, "%s: %d steps: %g", m->chip, STEPS, (double)p->back[8]);
  ok = ok && did(p, tg_queue_replay(q, g, NULL));   /* whose end nobody waits for but the free */
  tg_graph_free(g), tg_graph_free(copying), tg_graph_free(large);
  tg_queue_free(q);
  return ok;
}

static void others(const char *chip) {
  program p;
  set_up(chip);
  CHECK(start(&p) && overlapped(&p) && overlapped_right(&p), "%s: %s %s", chip, p.why, m->message);
  CHECK(long_queue(&p), "%s: %s %s", chip, p.why, m->message);
  CHECK(odds(&p), "%s: odds: %s %s", chip, p.why, m->message);
  CHECK(graphs(&p), "%s: graphs: %s %s", chip, p.why, m->message);
  end(&p);
  CLEAN("queues");
}

/* ---- what cannot be used ---- */

static void refused(const char *want) {
  program p;
  CHECK(!start(&p) && strstr(p.why, want), "%s: %s", want, p.why);
  end(&p);
  CLEAN(want);
}

static void refusals(void) {
  tg_device_info about;
  program p;
  tg_queue *q;
  void *x = NULL;
  set_up("gfx1100");
  CHECK(tg_device_describe(number_of("amd"), &about) == TG_OK && !strcmp(about.chip, "gfx1100") && !strcmp(about.target, "gfx1100") && about.cores == 4 && !about.lacks[0] && !about.host_memory && about.memory == 1ull << 34, "described");
  m->minor = 31, refused("which has no timelines");
  set_up("gfx1100"), m->family = 110, m->revision = 7, refused("no target for chips of family 110, revision 7");
  set_up("gfx942"), refused("dies (XCC)");
  set_up("gfx1100"), m->without_compute = true, refused("no compute ring");
  set_up("gfx1100"), m->without_dma = true, refused("no copy engine");
  set_up("gfx1100");
  CHECK(start(&p), "%s", p.why);
  tg_argument a[] = {{p.mine, N * 4}, {p.y, N * 4}}, beyond[] = {{(char *)p.x + 4096, N * 4}, {p.y, N * 4}};
  int64_t params[] = {N, 0, ADD};
  tg_launch l = {.buffers = a, .buffers_n = 2, .params = params, .params_n = 3};
  CHECK(tg_kernel_start(p.add, &l) == TG_EINVAL && strstr(tg_error_message(p.context), "'x' does not lie in memory of this device"), "%s", tg_error_message(p.context));
  l.buffers = beyond;
  CHECK(tg_kernel_start(p.add, &l) == TG_EINVAL && strstr(tg_error_message(p.context), "'x' does not lie in memory of this device"), "%s", tg_error_message(p.context));
  CHECK(tg_queue_open(p.device, &(tg_queue_options){.native = &p}, &q) == TG_EINVAL && strstr(tg_error_message(p.context), "no queue of the program's"), "%s", tg_error_message(p.context));
  CHECK(tg_device_import(p.device, TG_IMPORT_NATIVE, &p, 4096, &x) == TG_EINVAL, "native memory");
  m->memory = 1;
  CHECK(tg_device_alloc(p.device, 1 << 20, &x) == TG_ENOMEM && strstr(tg_error_message(p.context), "out of memory: 1048576 bytes"), "%s", tg_error_message(p.context));
  end(&p);
  CLEAN("refusals");
}

/* ---- calls that fail, devices that are lost, hangs ---- */

static bool everything(program *p) { return start(p) && simple(p) && simple_right(p) && overlapped(p) && overlapped_right(p) && graphs(p); }

static void failing_calls(void) {
  program p;
  set_up("gfx1100");
  CHECK(everything(&p), "%s", p.why);
  end(&p);
  int64_t calls = m->calls, submits = m->submits, silent = 0;
  static const int codes[] = {-EIO, -ENOMEM, -EINVAL};
  for (int64_t i = 1; i <= calls; i++) {
    set_up("gfx1100");
    m->fail_call = i, m->fail_code = codes[i % 3];
    bool ok = everything(&p);
    if (ok) silent++;
    end(&p);
    CHECK((ok || p.status != TG_OK) && !m->faults && !m->live, "call %lld of %lld fails with %d: status %d, %s; %s; %lld objects live", (long long)i, (long long)calls, m->fail_code, p.status, p.why, m->message, (long long)m->live);
  }
  /* describing a device twice, a submission without memory and the like are tried again, or do without */
  CHECK(silent * 3 < calls, "%lld of %lld failures were not noticed", (long long)silent, (long long)calls);
  for (int later = 0; later < 2; later++)
    for (int64_t i = 1; i <= submits - later; i++) {   /* what becomes of the last, nobody asks */
      set_up("gfx1100");
      m->lose_submit = i, m->lose_later = later;
      CHECK(!everything(&p) && p.status == TG_LOST, "lost at submission %lld: status %d: %s", (long long)i, p.status, p.why);
      if (p.x) CHECK(tg_device_copy(p.device, p.mine, p.x, 4) == TG_LOST, "a lost device stays lost");
      end(&p);
      CLEAN("lost");
    }
}

static void hangs(void) {
  program p;
  set_up("gfx1100");
  CHECK(start(&p), "%s", p.why);
  m->hang_waits = 3;
  CHECK(simple(&p) && simple_right(&p) && strstr(p.log, "work has not ended after 10 s; the copy ring's packets:\n"), "%s %s", p.why, p.log);
  CHECK(put_add(&p, NULL, p.x, p.y, N, 0), "%s", p.why);
  m->hang_waits = 1;
  CHECK(tg_device_finish(p.device) == TG_OK && strstr(p.log, "the compute ring's packets:\nc0004600 00000407 c0065800") && strstr(p.log, " c0031502 "), "%s", p.log);
  tg_queue *q = NULL;
  tg_graph *g = NULL;
  CHECK(did(&p, tg_queue_open(p.device, NULL, &q)) && did(&p, tg_queue_record(q)) && put_add(&p, q, p.x, p.y, N, 0) && did(&p, tg_queue_recorded(q, &g)) && did(&p, tg_queue_replay(q, g, NULL)), "%s", p.why);
  p.log[0] = 0, m->hang_waits = 1;
  CHECK(tg_device_finish(p.device) == TG_OK && strstr(p.log, "the compute ring's packets:\nc0004600 00000407 c0065800") && strstr(p.log, " c0031502 "), "%s", p.log);
  tg_graph_free(g);
  end(&p);
  CLEAN("hangs");
}

/* ---- drawn orders ---- */

static void orders(uint32_t seeds) {
  program p;
  for (uint32_t seed = 1; seed <= seeds; seed++) {
    set_up(seed % 2 ? "gfx1100" : "gfx90a");
    m->seed = seed;
    CHECK(everything(&p), "seed %u: %s %s", seed, p.why, m->message);
    end(&p);
    CLEAN("orders");
  }
}

/* ---- golden streams ---- */

/* The n-th packet of this kind, its fields alone, is that of the table in docs/devices.md. */
static void in_table(const char *chip, const char *when, const char *stream, const char *packet, int n, const char *docs) {
  char row[256];
  const char *at = stream;
  for (int i = 0; i < n && at; i++) at = strstr(at, packet) ? strstr(at, packet) + strlen(packet) : NULL;
  if (at) snprintf(row, sizeof row, "| %s | %s |%.*s |\n", when, chip, (int)strcspn(at, "\n"), at);
  CHECK(at && strstr(docs, row), "docs/devices.md has no row %s", at ? row : when);
}

static void as_documented(const char *chip, const char *stream) {
  static char docs[1 << 16];
  FILE *f = fopen("docs/devices.md", "r");
  docs[f ? fread(docs, 1, sizeof docs - 1, f) : 0] = 0;
  if (f) fclose(f);
  in_table(chip, "BEGIN", stream, "ACQUIRE_MEM", 1, docs);
  in_table(chip, "BETWEEN", stream, "ACQUIRE_MEM", 2, docs);
  in_table(chip, "END", stream, "RELEASE_MEM", 2, docs);
}

static void golden(const char *chip, bool write) {
  static char want[DRM_MOST_TRACE];
  char path[64];
  program p;
  set_up(chip);
  bool ok = start(&p);
  m->trace_n = 0;
  tg_queue *q = NULL;
  tg_queue_mark done;
  CHECK(ok && did(&p, tg_queue_open(p.device, NULL, &q)) && put_add(&p, q, p.x, p.y, N, 5) && put_twice(&p, q, p.y, N) && did(&p, tg_queue_stamp(q, 0)) && did(&p, tg_queue_copy(q, p.x, p.y, N * 4)) &&
            did(&p, tg_queue_submit(q, &done)) && did(&p, tg_queue_wait(done, -1)), "%s: %s", chip, p.why);
  /* addresses of code and of arguments, and registers that LLVM decides, are not of the stream's order */
  static char got[DRM_MOST_TRACE];
  size_t n = 0;
  for (char *line = strtok(m->trace, "\n"); line; line = strtok(NULL, "\n")) {
    char *of = strstr(line, "COMPUTE_PGM_");
    if (!of) of = strstr(line, "COMPUTE_USER_DATA_");
    if (of) *strrchr(line, ' ') = 0;
    n += (size_t)snprintf(got + n, sizeof got - n, "%s\n", line);
  }
  tg_queue_free(q);
  end(&p);
  CLEAN("golden");
  as_documented(chip, got);
  snprintf(path, sizeof path, "tests/drm/golden/%s.txt", chip);
  FILE *f = fopen(path, write ? "w" : "r");
  CHECK(f, "%s", path);
  if (!f) return;
  if (write) fwrite(got, 1, n, f);
  else {
    size_t r = fread(want, 1, sizeof want - 1, f);
    want[r] = 0;
    CHECK_TEXT(got, want);
  }
  fclose(f);
}

/* ---- what a launch costs, before the driver is called ---- */

static double microseconds(double begin, int n) { return 1e6 * (tg_now() - begin) / n; }

static void launches(void) {
  enum { TIMES = 200000, STEPS = 100, REPLAYS = 5000 };
  program p;
  tg_queue *q = NULL;
  tg_graph *graph = NULL;
  set_up("gfx1100");
  if (!start(&p) || !did(&p, tg_queue_open(p.device, NULL, &q)) || !did(&p, tg_queue_record(q))) return;
  for (int i = 0; i < STEPS; i++) put_twice(&p, q, p.y, N);
  if (!did(&p, tg_queue_recorded(q, &graph))) return;
  m->nothing = true;
  for (int k = 0; k < 3; k++) {
    double begin = tg_now();
    for (int i = 0; i < TIMES; i++) put_twice(&p, q, p.y, N);
    printf("a launch of one buffer: %.3f us", microseconds(begin, TIMES));
    begin = tg_now();
    for (int i = 0; i < REPLAYS; i++) did(&p, tg_queue_replay(q, graph, NULL));
    printf("; a replay of %d launches: %.3f us\n", STEPS, microseconds(begin, REPLAYS));
  }
  printf("%s%lld submissions\n", p.why, (long long)m->submits);
  tg_graph_free(graph), tg_queue_free(q);
  end(&p);
}

int main(int argc, char **argv) {
  void *library = dlopen("build/tests/drm/libdrm_amdgpu.so.1", RTLD_NOW | RTLD_GLOBAL);
  if (!library) return printf("%s: %s\n0 passed, 1 failed\n", argv[0], dlerror()), 1;
  drm_model *(*of)(void);
  void *at = dlsym(library, "drm_model_of"), *forget = dlsym(library, "drm_reset");
  memcpy(&of, &at, sizeof at), memcpy(&reset, &forget, sizeof forget);
  m = of();
  if (argc > 1 && !strcmp(argv[1], "--launches")) return launches(), 0;
  bool write = argc > 1 && !strcmp(argv[1], "--golden"), all = argc > 1 && !strcmp(argv[1], "--orders");
  static const char *const chips[] = {"gfx1100", "gfx1030", "gfx1201", "gfx90a"};
  for (size_t c = 0; c < sizeof chips / sizeof *chips; c++) first(chips[c]), golden(chips[c], write);
  for (size_t c = 0; c < sizeof chips / sizeof *chips; c++) others(chips[c]);
  refusals();
  hangs();
  failing_calls();
  orders(all ? 500 : 20);
  return TEST_END();
}
