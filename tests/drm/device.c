/* SPDX-License-Identifier: MIT
 * AMD devices through tg/device.h over the stand-in for libdrm_amdgpu: memory, copies, launches, queues, times, what
 * cannot be used, calls that fail, devices that are lost, drawn orders, and streams of packets held against the golden
 * ones in tests/drm/golden. What the kernels here do is known to the test, which does it in their place, through the
 * caches of the model, from the arguments that it finds where the registers say.
 *   drm_device [--golden]      --golden: writes the golden streams instead of comparing */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include "../test.h"
#include "drm.h"
#include "tg/device.h"

enum { N = 1000, ADD = 0x7a6701, TWICE = 0x7a6702, PAIR = 0x7a6703, LOCAL = 0x7a6704 };

static drm_model *m;
static void (*reset)(void);

static const char add[] = "kernel add(N in 1..1000, D in 0..1000, ID in 8021760..8021776) { in(x, f32, [N]); inout(y, f32, [N]); range(i, N) y[i] = y[i] + x[i] + f32(D); }";
static const char twice[] = "kernel twice(N in 1..1000, ID in 8021760..8021776) { inout(y, f32, [N]); range(i, N) y[i] = y[i] * 2 + 1; }";

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
  else return snprintf(message, n, "the arguments are old, or another's"), false;
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

static void first(const char *chip) {
  program p;
  set_up(chip);
  CHECK(start(&p) && simple(&p) && simple_right(&p), "%s: %s %s", chip, p.why, m->message);
  CHECK(m->dispatches == 4, "%lld dispatches", (long long)m->dispatches);
  end(&p);
  CLEAN("a simple program");
}

int main(int argc, char **argv) {
  (void)argc;
  void *library = dlopen("build/tests/drm/libdrm_amdgpu.so.1", RTLD_NOW | RTLD_GLOBAL);
  if (!library) return printf("%s: %s\n0 passed, 1 failed\n", argv[0], dlerror()), 1;
  drm_model *(*of)(void);
  void *at = dlsym(library, "drm_model_of"), *forget = dlsym(library, "drm_reset");
  memcpy(&of, &at, sizeof at), memcpy(&reset, &forget, sizeof forget);
  m = of();
  static const char *const chips[] = {"gfx1100", "gfx1030", "gfx1201", "gfx90a"};
  for (size_t c = 0; c < sizeof chips / sizeof *chips; c++) first(chips[c]);
  return TEST_END();
}
