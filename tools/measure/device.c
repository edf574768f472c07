/* SPDX-License-Identifier: MIT
 * tg measure --device: what a device's memory, copies, launches and products take, by its clock; what only the host
 * sees, by the host's. A rate is of the bytes that are read and written, or of a product's multiplications and
 * additions. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "bench/device.h"
#include "bench/product.h"
#include "api/api.h"
#include "measure/chip.h"
#include "measure/device.h"
#include "tg/gemm.h"

static const char copies[] =
    "kernel copies(N in 1..1073741824) { in(x, f32, [N]); out(y, f32, [N]); range(i, N) y[i] = x[i]; }";
static const char sums[] =
    "kernel sums(N in 1..1073741824) { in(x, f32, [N]); out(y, f32, [1]); y[0] = sum(i : N, x[i]); }";

typedef struct { const char *name, *unit, *what; double value; } figure;
enum { FIGURES = 16 };
typedef struct { bench_device d; double seconds; figure figure[FIGURES]; int n; } measuring;

static void add(measuring *m, const char *name, const char *unit, const char *what, double value) {
  if (value > 0 && m->n < FIGURES) m->figure[m->n++] = (figure){name, unit, what, value};
}

static bool fine(const measuring *m, tg_status s) {
  if (s != TG_OK) fprintf(stderr, "tg measure: %s\n", tg_error_message(m->d.context));
  return s == TG_OK;
}

/* ---- kernels on memory ---- */

typedef struct { tg_kernel *kernel; tg_argument at[2]; int64_t n; tg_launch launch; } launching;

static tg_status put_launch(void *user, tg_queue *q) {
  launching *l = user;
  return tg_queue_launch(q, l->kernel, &l->launch);
}

static bool begin(measuring *m, const char *text, size_t n, launching *l) {
  *l = (launching){.n = (int64_t)n};
  tg_compile_options o = {.device = m->d.device};
  if (!fine(m, tg_kernel_compile_text(m->d.context, "measure", text, &o, &l->kernel))) return false;
  l->launch = (tg_launch){.buffers = l->at, .buffers_n = 2, .params = &l->n, .params_n = 1};
  float *zeros = calloc(n, sizeof *zeros);
  for (int b = 0; b < 2; b++)
    l->at[b] = (tg_argument){zeros ? bench_device_take(&m->d, zeros, n * sizeof *zeros) : NULL, n * sizeof *zeros};
  free(zeros);
  return l->at[0].data && l->at[1].data;
}

static void end(measuring *m, launching *l) {
  tg_kernel_free(l->kernel);
  for (int b = 0; b < 2; b++) tg_device_free(m->d.device, l->at[b].data);
}

static double time_of(measuring *m, const char *text, size_t n) {
  launching l;
  double s = begin(m, text, n, &l) ? bench_device_time(&m->d, put_launch, &l, m->seconds) : -1;
  end(m, &l);
  return s;
}

/* Bytes that no cache holds: an eighth of the memory, at most a GiB. */
static size_t large(const measuring *m) {
  tg_device_info about;
  size_t most = (size_t)1 << 30;
  uint32_t i;
  if (tg_device_named(m->d.args->device, &i) || tg_device_describe(i, &about) || !about.memory) return most / 16;
  uint64_t part = (about.memory > most * 8 ? most * 8 : about.memory) / 8;
  return (size_t)part / 4096 * 4096;
}

static void measure_kernels(measuring *m) {
  size_t bytes = large(m), n = bytes / sizeof(float);
  double copied = time_of(m, copies, n), summed = time_of(m, sums, n), one = time_of(m, copies, 1);
  if (copied > 0) add(m, "copy", "GB/s", "a kernel that reads and writes its memory", 2e-9 * (double)bytes / copied);
  if (summed > 0) add(m, "read", "GB/s", "a sum of its memory", 1e-9 * (double)bytes / summed);
  add(m, "launch", "us", "one of many launches of one element, by its clock", one * 1e6);
}

/* ---- what the host waits for ---- */

static double host_time(measuring *m, launching *l, int launches) {
  enum { SAMPLES = 15 };
  double times[SAMPLES];
  for (int i = 0; i < SAMPLES; i++) {
    double start = tool_now();
    for (int k = 0; k < launches; k++)
      if (!fine(m, put_launch(l, m->d.queue))) return -1;
    if (launches > 1) times[i] = (tool_now() - start) / launches;
    if (!fine(m, tg_device_finish(m->d.device))) return -1;
    if (launches == 1) times[i] = tool_now() - start;
  }
  return tool_median(times, SAMPLES);
}

static void measure_launches(measuring *m) {
  launching l;
  if (begin(m, copies, 1, &l) && host_time(m, &l, 1) > 0) {
    add(m, "put", "us", "of the host's time for each launch that is put", host_time(m, &l, 100) * 1e6);
    add(m, "round", "us", "from putting a launch to its end, by the host's clock", host_time(m, &l, 1) * 1e6);
  }
  end(m, &l);
}

typedef struct { void *to; const void *from; size_t bytes; } copying;

static tg_status put_copy(void *user, tg_queue *q) {
  copying *c = user;
  return tg_queue_copy(q, c->to, c->from, c->bytes);
}

/* Both ways, through pinned memory where the device has it. */
static void measure_copies(measuring *m) {
  enum { BYTES = 64 << 20 };
  void *host = NULL, *there = bench_device_take(&m->d, NULL, BYTES);
  bool pinned = tg_device_alloc_kind(m->d.device, BYTES, TG_MEMORY_HOST, &host) == TG_OK;
  if (!pinned) host = tool_pages(BYTES);
  memset(host, 1, BYTES);
  copying to = {there, host, BYTES}, from = {host, there, BYTES};
  double down = there ? bench_device_time(&m->d, put_copy, &to, m->seconds) : -1,
         up = there ? bench_device_time(&m->d, put_copy, &from, m->seconds) : -1;
  const char *what = pinned ? "from pinned memory of the host" : "from memory of the host that is not pinned",
             *back = pinned ? "to pinned memory of the host" : "to memory of the host that is not pinned";
  if (down > 0) add(m, "to device", "GB/s", what, 1e-9 * BYTES / down);
  if (up > 0) add(m, "to host", "GB/s", back, 1e-9 * BYTES / up);
  tg_device_free(m->d.device, there);
  if (pinned) tg_device_free(m->d.device, host);
  else free(host);
}

/* ---- products ---- */

typedef struct { tg_gemm *plan; tg_gemm_call call; } product;

static tg_status put_product(void *user, tg_queue *q) {
  product *p = user;
  p->call.queue = q;
  return tg_gemm_run(p->plan, &p->call);
}

/* The size doubles until a product takes a hundredth of a second, or rates stop to grow. */
static double product_rate(measuring *m, tg_type in, tg_type out) {
  enum { LEAST = 256, MOST = 8192 };
  double best = 0;
  for (int64_t n = LEAST; n <= MOST; n *= 2) {
    const tg_gemm_desc desc = {.a = (uint8_t)in, .b = (uint8_t)in, .c = (uint8_t)out, .m = {n, 0}, .n = {n, 0},
                               .k = {n, 0}, .device = m->d.device};
    product p = {.plan = NULL};
    if (tg_gemm_plan(m->d.context, &desc, &p.plan)) return best;   /* the device has no such type */
    size_t of_in = (size_t)(n * n * (int64_t)bench_bytes(in)), of_out = (size_t)(n * n * (int64_t)bench_bytes(out));
    void *numbers = malloc(of_in);
    if (numbers) bench_fill(in, numbers, (size_t)(n * n), 1);
    void *a = numbers ? bench_device_take(&m->d, numbers, of_in) : NULL,
         *b = numbers ? bench_device_take(&m->d, numbers, of_in) : NULL, *c = bench_device_take(&m->d, NULL, of_out);
    p.call = (tg_gemm_call){.a = a, .b = b, .c = c};
    double s = a && b && c ? bench_device_time(&m->d, put_product, &p, m->seconds) : -1;
    double rate = s > 0 ? 2e-9 * (double)n * (double)n * (double)n / s : 0;
    tg_gemm_free(p.plan);
    tg_device_free(m->d.device, a), tg_device_free(m->d.device, b), tg_device_free(m->d.device, c);
    free(numbers);
    bool ends = rate < 1.1 * best || s > 10e-3;
    if (rate > best) best = rate;
    if (ends) break;
  }
  return best;
}

static void measure_products(measuring *m) {
  add(m, "product f32", "GFLOP/s", "the plan of tg/gemm.h, square", product_rate(m, TG_F32, TG_F32));
  add(m, "product f16", "GFLOP/s", "likewise, sums in f32", product_rate(m, TG_F16, TG_F16));
  add(m, "product bf16", "GFLOP/s", "likewise", product_rate(m, TG_BF16, TG_BF16));
  add(m, "product i8", "GOP/s", "likewise, sums in i32", product_rate(m, TG_I8, TG_I32));
}

/* ---- the chip's row ---- */

static int keep(const bench_device *d, const tool_args *a, const tg_chip *chip) {
  char path[4096];
  const char *folder = tool_tuned(a, path, sizeof path);
  tg_env env;
  if (!folder)
    return fprintf(stderr, "tg: no folder to keep it in: --tuned, TG_TUNED and HOME are not set\n"), TOOL_USAGE;
  tg_env_init(&env, NULL);
  int err = tg_chip_file_write(&env, folder, d->device->target, chip);
  tg_env_drop(&env);
  char name[TG_CHIP_FILE];
  tg_chip_file(d->device->target, name);
  if (err) return fprintf(stderr, "tg: %s/%s: %s\n", folder, name, strerror(err)), TOOL_BROKEN;
  if (!a->json) printf("  kept as %s/%s\n", folder, name);
  return TOOL_OK;
}

/* What choices for this chip depend on, beside the numbers of the tree. The device is opened without what was kept
 * before. */
static int measure_row(const tool_args *a, double seconds) {
  enum { PROBES = 4 };
  tool_args plain = *a;
  bench_device d;
  tg_chip measured;
  plain.tuned = NULL;
  int code = bench_device_open(&plain, &d);
  if (code != TOOL_OK) return code;
  if (!tg_target_is_device(d.device->target)) {
    if (a->save) fprintf(stderr, "tg measure: choices for %s depend on no row\n", a->device), code = TOOL_USAGE;
  } else if (!measure_chip(&d, MEASURE_CHIP(seconds / PROBES), &measured)) code = TOOL_BROKEN;
  else {
    tg_chip tree = tg_chip_of(d.device->target);
    if (!a->json) printf("  the chip's row (the tree's):\n");
    for (uint32_t i = 0; tg_chip_column_at(i); i++) {
      const tg_machine_column *c = tg_chip_column_at(i);
      double v = *(double *)(void *)((char *)&measured + c->at), was = *(double *)(void *)((char *)&tree + c->at);
      if (a->json) tool_figure(true, "measure", a->device, c->name, v, c->unit, NULL);
      else printf("  %-14s %12.4g (%g) %s %s\n", c->name, v, was, c->unit, c->what);
    }
    if (a->save) code = keep(&d, a, &measured);
  }
  bench_device_close(&d);
  return code;
}

int measure_device(const tool_args *a, double seconds) {
  enum { SHARES = 30 };
  static measuring m;
  tg_device_info about;
  uint32_t i;
  int code = bench_device_open(a, &m.d);
  if (code != TOOL_OK) return code;
  m.seconds = seconds / SHARES;
  measure_kernels(&m), measure_launches(&m), measure_copies(&m), measure_products(&m);
  if (!tg_device_named(a->device, &i) && !tg_device_describe(i, &about) && !a->json)
    printf("%s: %s, %s, target %s, %u cores, driver %s\n", a->device, about.name, about.chip, about.target,
           about.cores, about.version);
  for (int k = 0; k < m.n; k++) {
    const figure *f = &m.figure[k];
    if (a->json) tool_figure(true, "measure", a->device, f->name, f->value, f->unit, NULL);
    else printf("  %-14s %12.5g %-8s %s\n", f->name, f->value, f->unit, f->what);
  }
  bench_device_close(&m.d);
  return m.n ? measure_row(a, 4 * m.seconds) : TOOL_BROKEN;
}
