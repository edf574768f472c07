/* SPDX-License-Identifier: MIT
 * Host and device together. First a file of weights goes through two pinned buffers to the device, which works on one
 * part while the host reads the next. Then parameters are trained: the device makes gradients from a bf16 copy of them,
 * and the CPU, which has the f32 parameters and both moments, does Adam's step on one part while others are copied.
 *   offload [DEVICE [MIB]]     the device, and the size of the file: cpu, 8; 64 and more measure memory, not caches */
#define _GNU_SOURCE
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <tg/device.h>
#include <tg/dsl.h>

enum { ROWS = 512, COLUMNS = 1024, PART = ROWS * COLUMNS, STEPS = 3, REPEATS = 7 };   /* a part: 1 MiB of bf16 */

/* ---- on the device ---- */

TG_KERNEL(product, R, C) {
  tg_in(w, bf16, [R, C]);
  tg_in(x, f32, [C]);
  tg_out(y, f32, [R]);
  tg_range(r, R) tg(y[r] = sum(c : C, f32(w[r,c]) * x[c]));
}

TG_KERNEL(slope, N) {           /* of half the square of the distance to the goal */
  tg_in(h, bf16, [N]);
  tg_in(goal, f32, [N]);
  tg_out(g, f32, [N]);
  tg_range(i, N) tg(g[i] = f32(h[i]) - goal[i]);
}

/* ---- on the CPU: every operation is written out, so that plain C has the same bits ---- */

TG_KERNEL(adam, N) {
  tg_in(g, f32, [N]);
  tg_in(rate, f32, [2]);        /* of this step: the learning rate over 1 - 0.9^t, and 1 / (1 - 0.999^t) */
  tg_out(h, bf16, [N]);
  tg_inout(p, f32, [N]);
  tg_inout(m, f32, [N]);
  tg_inout(v, f32, [N]);
  tg_range(i, N) {
    tg(let m1 = fma(m[i], 0.9, g[i] * 0.1));
    tg(let v1 = fma(v[i], 0.999, g[i] * g[i] * 0.001));
    tg(let p1 = p[i] - m1 * rate[0] / (sqrt(v1 * rate[1]) + 0.00000001));
    tg(m[i] = m1);
    tg(v[i] = v1);
    tg(p[i] = p1);
    tg(h[i] = bf16(p1));
  }
}

TG_KERNEL(stream, N) {          /* what memory gives: three reads and a write */
  tg_in(x, f32, [N]);
  tg_in(y, f32, [N]);
  tg_inout(z, f32, [N]);
  tg_range(i, N) tg(z[i] = fma(x[i], y[i], z[i]));
}

/* ---- help ---- */

static tg_context *context;
static tg_device *device;
static tg_kernel *products, *slopes, *adams, *streams;
static tg_queue *compute, *up, *down;

static void must(tg_status s) {
  if (s == TG_OK) return;
  fprintf(stderr, "%s: %s\n", tg_status_name(s), tg_error_message(context));
  exit(1);
}

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void *memory(uint32_t kind, size_t bytes) {
  void *p;
  must(tg_device_alloc_kind(device, bytes, kind, &p));
  return p;
}

static void *host(size_t bytes) {
  void *p = aligned_alloc(64, bytes);
  if (!p) fprintf(stderr, "no memory for %zu bytes\n", bytes), exit(1);
  return memset(p, 0, bytes);
}

static uint16_t bf16_of(float f) {            /* to nearest, ties to even; f is a number */
  uint32_t u;
  memcpy(&u, &f, 4);
  return (uint16_t)((u + 0x7fff + (u >> 16 & 1)) >> 16);
}

static float float_of(uint16_t h) {
  uint32_t u = (uint32_t)h << 16;
  float f;
  memcpy(&f, &u, 4);
  return f;
}

static int weight_of(size_t i) { return (int)(i * 2654435761u >> 7 & 15) - 8; }   /* sums of such are exact in f32 */
static float x_of(int c) { return (float)(c % 7 - 3); }
static float goal_of(size_t i) { return (float)(i * 40503u >> 5 & 1023) / 512 - 1; }

static tg_kernel *compile(const tg_kernel_def *def, tg_device *on) {
  tg_kernel *k;
  /* whole parts: no remainder in the loops */
  tg_binding sizes[] = {{"N", PART, INT32_MAX / PART * PART, PART}};
  tg_binding shape[] = {{"R", ROWS, ROWS, 1}, {"C", COLUMNS, COLUMNS, 1}};
  int is_product = def == &product;
  tg_compile_options o = {
    .bindings = is_product ? shape : sizes, .bindings_n = is_product ? 2 : 1, .device = on};
  must(tg_kernel_compile(context, def, &o, &k));
  return k;
}

/* ---- a file through two pinned buffers ---- */

static void read_part(int file, size_t part, void *to) {
  size_t got = 0, bytes = 2 * PART;
  while (got < bytes) {
    ssize_t n = pread(file, (char *)to + got, bytes - got, (off_t)(part * bytes + got));
    if (n <= 0) perror("weights"), exit(1);
    got += (size_t)n;
  }
}

static int write_weights(size_t parts) {
  char path[] = "/tmp/tg-offload-XXXXXX";
  int file = mkstemp(path);
  uint16_t *w = host(2 * PART);
  if (file < 0) perror(path), exit(1);
  unlink(path);                                /* gone when the program ends */
  for (size_t part = 0; part < parts; part++) {
    for (size_t i = 0; i < PART; i++) w[i] = bf16_of((float)weight_of(part * PART + i));
    for (size_t put = 0; put < 2 * PART;) {
      ssize_t n = write(file, (char *)w + put, 2 * PART - put);
      if (n <= 0) perror("weights"), exit(1);
      put += (size_t)n;
    }
  }
  free(w);
  return file;
}

static int read_and_multiply(size_t parts) {
  enum { SLOTS = 2 };
  int file = write_weights(parts), wrong = 0;
  void *pinned[SLOTS], *weights[SLOTS];
  tg_queue_mark copied[SLOTS] = {{0}}, done[SLOTS] = {{0}};   /* marks of no queue: reached */
  for (int s = 0; s < SLOTS; s++) {
    pinned[s] = memory(TG_MEMORY_HOST, 2 * PART);
    weights[s] = memory(TG_MEMORY_DEVICE, 2 * PART);
  }
  float *x = memory(TG_MEMORY_DEVICE, COLUMNS * 4), *y = memory(TG_MEMORY_DEVICE, parts * ROWS * 4);
  float *mine = host(parts * ROWS * 4), vector[COLUMNS];
  for (int c = 0; c < COLUMNS; c++) vector[c] = x_of(c);
  must(tg_device_copy(device, x, vector, sizeof vector));

  double start = now(), reading = 0;
  for (size_t part = 0; part < parts; part++) {
    size_t s = part % SLOTS;
    must(tg_queue_wait(copied[s], -1));        /* the host waits for the pinned buffer alone */
    double t = now();
    read_part(file, part, pinned[s]);
    reading += now() - t;
    must(tg_queue_after(up, done[s]));         /* the copy waits on the device until this slot's weights are used */
    must(tg_queue_copy(up, weights[s], pinned[s], 2 * PART));
    must(tg_queue_submit(up, &copied[s]));
    tg_argument a[] = {{weights[s], 2 * PART}, {x, sizeof vector}, {y + part * ROWS, ROWS * 4}};
    must(tg_queue_after(compute, copied[s]));
    must(tg_queue_launch(compute, products, &(tg_launch){.buffers = a, .buffers_n = 3, .threads = -1}));
    must(tg_queue_submit(compute, &done[s]));
  }
  must(tg_device_finish(device));
  double seconds = now() - start;
  must(tg_device_copy(device, mine, y, parts * ROWS * 4));
  for (size_t r = 0; r < parts * ROWS; r++) {
    int want = 0;
    for (int c = 0; c < COLUMNS; c++) want += weight_of(r * COLUMNS + (size_t)c) * (c % 7 - 3);
    wrong |= mine[r] != (float)want;
  }
  printf("file: %zu MiB in %.1f ms, of which the host read for %.1f ms: %s\n", parts, seconds * 1e3, reading * 1e3,
         wrong ? "wrong" : "right");
  for (int s = 0; s < SLOTS; s++) tg_device_free(device, pinned[s]), tg_device_free(device, weights[s]);
  tg_device_free(device, x), tg_device_free(device, y);
  free(mine), close(file);
  return wrong;
}

/* ---- Adam on the CPU, gradients on the device ---- */

typedef struct {
  size_t n;
  float *p, *m, *v;             /* the host's */
  float *g; uint16_t *h;        /* pinned */
  float *device_g, *goal; uint16_t *device_h;
} model;

static void rates(int step, float rate[2]) {
  rate[0] = (float)(0.01 / (1 - pow(0.9, step))), rate[1] = (float)(1 / (1 - pow(0.999, step)));
}

static void adam_step(const model *o, size_t at, size_t n, float rate[2]) {
  tg_argument a[] = {{o->g + at, n * 4}, {rate, 8}, {o->h + at, n * 2},
                     {o->p + at, n * 4}, {o->m + at, n * 4}, {o->v + at, n * 4}};
  int64_t size = (int64_t)n;
  tg_launch launch = {.buffers = a, .buffers_n = 6, .params = &size, .params_n = 1, .threads = -1};
  must(tg_kernel_run(adams, &launch));
}

/* Puts the gradient of a part behind the copy of its parameters, and its way to the host behind that. */
static tg_queue_mark put_gradient(const model *o, size_t at, tg_queue_mark sent) {
  tg_queue_mark made, fetched;
  tg_argument a[] = {{o->device_h + at, PART * 2}, {o->goal + at, PART * 4}, {o->device_g + at, PART * 4}};
  int64_t n = PART;
  tg_launch launch = {.buffers = a, .buffers_n = 3, .params = &n, .params_n = 1, .threads = -1};
  must(tg_queue_after(compute, sent));
  must(tg_queue_launch(compute, slopes, &launch));
  must(tg_queue_submit(compute, &made));
  must(tg_queue_after(down, made));
  must(tg_queue_copy(down, o->g + at, o->device_g + at, PART * 4));
  must(tg_queue_submit(down, &fetched));
  return fetched;
}

/* Returns the seconds in Adam's kernel. */
static double train(const model *o) {
  size_t parts = o->n / PART;
  tg_queue_mark *fetched = host((parts * sizeof *fetched + 63) / 64 * 64), sent;
  double seconds = 0;
  must(tg_device_copy(device, o->device_h, o->h, o->n * 2));
  for (size_t part = 0; part < parts; part++) fetched[part] = put_gradient(o, part * PART, (tg_queue_mark){0});
  for (int step = 1; step <= STEPS; step++) {
    float rate[2];
    rates(step, rate);
    for (size_t part = 0; part < parts; part++) {
      size_t at = part * PART;
      must(tg_queue_wait(fetched[part], -1));
      double t = now();
      adam_step(o, at, PART, rate);
      seconds += now() - t;
      must(tg_queue_copy(up, o->device_h + at, o->h + at, PART * 2));
      must(tg_queue_submit(up, &sent));
      if (step < STEPS) fetched[part] = put_gradient(o, at, sent);
    }
  }
  must(tg_device_finish(device));
  free(fetched);
  return seconds;
}

/* One after another, in plain C: are all bits the same? */
static int is_wrong(const model *o, const uint16_t *on_device) {
  for (size_t i = 0; i < o->n; i++) {
    float p = goal_of(i + 1), m = 0, v = 0;
    for (int step = 1; step <= STEPS; step++) {
      float rate[2], g = float_of(bf16_of(p)) - goal_of(i);
      rates(step, rate);
      m = fmaf(m, 0.9f, g * 0.1f);
      v = fmaf(v, 0.999f, g * g * 0.001f);
      p = p - m * rate[0] / (sqrtf(v * rate[1]) + 0.00000001f);
    }
    if (p != o->p[i] || m != o->m[i] || v != o->v[i] || bf16_of(p) != o->h[i] || on_device[i] != o->h[i]) return 1;
  }
  return 0;
}

/* ---- against what memory gives ---- */

static void measure(const model *o, double beside) {
  double copy[3] = {1e9, 1e9, 1e9};           /* memcpy, to the device, to the host */
  float rate[2];
  for (int i = 0; i < REPEATS; i++) {         /* in turns: a clock that drifts drifts for all */
    double t = now();
    memcpy(o->v, o->g, o->n * 4);
    copy[0] = fmin(copy[0], now() - t), t = now();
    must(tg_device_copy(device, o->device_g, o->g, o->n * 4));
    copy[1] = fmin(copy[1], now() - t), t = now();
    must(tg_device_copy(device, o->g, o->device_g, o->n * 4));
    copy[2] = fmin(copy[2], now() - t);
  }
  double bytes = (double)o->n * 4, least[2] = {1e9, 1e9};
  printf("copies: memcpy %.1f GB/s; to the device %.1f (%.0f %% of it), to the host %.1f (%.0f %%)\n",
         bytes / copy[0] / 1e9, bytes / copy[1] / 1e9, 100 * copy[0] / copy[1], bytes / copy[2] / 1e9,
         100 * copy[0] / copy[2]);
  rates(STEPS, rate);
  tg_argument a[] = {{o->p, o->n * 4}, {o->m, o->n * 4}, {o->v, o->n * 4}};
  int64_t n = (int64_t)o->n;
  tg_launch launch = {.buffers = a, .buffers_n = 3, .params = &n, .params_n = 1, .threads = -1};
  for (int i = 0; i < REPEATS; i++) {
    double t = now();
    must(tg_kernel_run(streams, &launch));
    least[0] = fmin(least[0], now() - t), t = now();
    adam_step(o, 0, o->n, rate);
    least[1] = fmin(least[1], now() - t);
  }
  double stream_rate = 16 * (double)n / least[0], adam_rate = 30 * (double)n / least[1];
  double beside_rate = 30 * (double)n * STEPS / beside;
  printf("Adam: memory reads and writes %.1f GB/s; the step alone %.1f (%.0f %% of it), beside copies %.1f (%.0f %%)\n",
         stream_rate / 1e9, adam_rate / 1e9, 100 * adam_rate / stream_rate, beside_rate / 1e9,
         100 * beside_rate / stream_rate);
}

static int train_and_measure(size_t n) {
  model o = {.n = n, .p = host(n * 4), .m = host(n * 4), .v = host(n * 4)};
  o.g = memory(TG_MEMORY_HOST, n * 4), o.h = memory(TG_MEMORY_HOST, n * 2);
  o.device_g = memory(TG_MEMORY_DEVICE, n * 4), o.goal = memory(TG_MEMORY_DEVICE, n * 4);
  o.device_h = memory(TG_MEMORY_DEVICE, n * 2);
  for (size_t i = 0; i < n; i++) o.p[i] = goal_of(i + 1), o.h[i] = bf16_of(o.p[i]), o.g[i] = goal_of(i);
  must(tg_device_copy(device, o.goal, o.g, n * 4));
  double seconds = train(&o);
  uint16_t *on_device = host(n * 2);
  must(tg_device_copy(device, on_device, o.device_h, n * 2));
  int wrong = is_wrong(&o, on_device);
  printf("training: %d steps of %zu parameters: %s\n", STEPS, n, wrong ? "wrong" : "the bits of plain C");
  measure(&o, seconds);
  free(o.p), free(o.m), free(o.v), free(on_device);
  return wrong;                                /* the device's memory goes with the context */
}

int main(int n, char **args) {
  const char *name = n > 1 ? args[1] : "cpu";
  long mib = n > 2 ? strtol(args[2], NULL, 10) : 8;
  uint32_t i;
  if (n > 3 || mib < 1 || mib > 4000) return fprintf(stderr, "offload [DEVICE [MIB]]: 1 to 4000 MiB\n"), 2;
  if (tg_context_create(NULL, &context)) return 1;
  if (tg_device_named(name, &i)) return fprintf(stderr, "there is no device %s; tg devices lists them\n", name), 2;
  must(tg_device_open(context, i, &device));
  must(tg_queue_open(device, NULL, &compute));
  must(tg_queue_open(device, &(tg_queue_options){.kind = TG_QUEUE_COPY}, &up));
  must(tg_queue_open(device, &(tg_queue_options){.kind = TG_QUEUE_COPY}, &down));
  products = compile(&product, device), slopes = compile(&slope, device);
  adams = compile(&adam, NULL), streams = compile(&stream, NULL);
  int wrong = read_and_multiply((size_t)mib);
  wrong |= train_and_measure((size_t)mib * PART);
  tg_kernel_free(products), tg_kernel_free(slopes), tg_kernel_free(adams), tg_kernel_free(streams);
  tg_context_free(context);
  return wrong;
}
