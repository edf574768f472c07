/* SPDX-License-Identifier: MIT
 * Probes of a GPU, kernels of the language under words of their own:
 *   chains   16 multiplications and additions of f32 a thread, each on the result of the last: what the cores do in a
 *            second is their clock, as the row says how many a core does in a cycle
 *   tiles    matrix instructions on operands that stay in registers, eight sums a warp
 *   reads    words from a quarter of L2, each thread's a whole grid apart, so that no other cache has them
 *   empty    a launch of one element behind another
 * A launch lasts a millisecond, so that its own costs are lost in it. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include "api/api.h"
#include "measure/chip.h"
#include "target/matrix.h"

enum { CHAINS = 16, CHAIN_THREADS = 128, READ_THREADS = 256, UNROLLED = 8, BUFFERS = 3 };

static const char chains[] =
    "kernel chains(N in 1..1073741824, R in 8..1048576) { in(x, f32, [N]); out(y, f32, [N, 16]);\n"
    "  opt(split i 128 as g t); opt(global g); opt(local t); opt(upcast u); opt(split r 8 as ro ri); opt(unroll ri);\n"
    "  range(i, N) { define_reg(a, f32, [16]); range(u, 16) a[u] = x[i] + f32(u);\n"
    "    range(r, R) range(u, 16) a[u] = fma(a[u], 0.5f, x[i]);\n"
    "    range(u, 16) y[i, u] = a[u]; } }";
static const char reads[] =
    "kernel reads(N in 1..1073741824, M in 1..1073741824, R in 8..1048576) { in(x, f32, [M]); out(y, f32, [N]);\n"
    "  opt(split i 256 as g t); opt(global g); opt(local t); opt(split r 8 as ro ri); opt(unroll ri);\n"
    "  range(i, N) y[i] = sum(r : R, x[(r * N + i) % M]); }";
static const char empty[] = "kernel empty(N in 1..8) { in(x, f32, [N]); out(y, f32, [N]); range(i, N) y[i] = x[i]; }";
/* %s: the instruction; %d: its rows and columns, of which a warp has 2 x 4 or 2 x 2, and terms */
static const char tiles[] =
    "kernel tiles(G in 1..1048576, R in 8..1048576) { in(A, f16, [%1$d, %3$d]); in(B, f16, [%2$d, %3$d]);\n"
    "  out(C, f32, [G, %1$d, %2$d]); opt(split k %3$d as ks km); opt(split i %4$d as wi iu); opt(split j %5$d as wj "
    "ju);\n"
    "  opt(order g ks wi wj iu ju in C.sum); opt(local wi); opt(local wj); opt(contract %6$s i=iu j=ju k=km);\n"
    "  opt(global g); range(g, G) range(i, %1$d) range(j, %2$d)\n"
    "    C[g, i, j] = sum(k : %3$d * R, f32(A[i, k %% %3$d]) * f32(B[j, k %% %3$d])); }";

typedef struct {
  const bench_device *d;
  measure_chip_size size;
  tg_kernel *kernel;
  tg_argument at[BUFFERS];
  int64_t rounds;
  tg_launch launch;
} probe;

static bool fine(const bench_device *d, tg_status s) {
  if (s != TG_OK) fprintf(stderr, "tg measure: %s\n", tg_error_message(d->context));
  return s == TG_OK;
}

static tg_status put(void *user, tg_queue *q) {
  probe *p = user;
  return tg_queue_launch(q, p->kernel, &p->launch);
}

/* Operands of small numbers: zeros take a chip less power, and it may run faster. */
static void *operand(const bench_device *d, size_t bytes, bool f16) {
  uint16_t *x = malloc(bytes + 4);
  for (size_t i = 0; x && i < bytes / 2; i++) x[i] = (uint16_t)(f16 ? 0x2c00 + 97 * i % 1024 : i % 2 ? 0x3c00 : 97 * i);
  void *at = x ? bench_device_take(d, x, bytes) : NULL;
  free(x);
  return at;
}

static bool begin(probe *p, const char *name, const char *text, const tg_binding *b, uint32_t n) {
  const tg_compile_options o = {.device = p->d->device, .bindings = b, .bindings_n = n};
  if (!fine(p->d, tg_kernel_compile_text(p->d->context, name, text, &o, &p->kernel))) return false;
  const tg_kernel_info *info = tg_kernel_describe(p->kernel);
  p->launch = (tg_launch){.buffers = p->at, .buffers_n = info->buffers_n, .params = &p->rounds,
                          .params_n = info->params_n};
  p->rounds = p->size.rounds;   /* for the sizes of buffers, which do not depend on it */
  for (uint32_t i = 0; i < info->buffers_n; i++) {
    tg_argument *a = &p->at[i];
    if (!fine(p->d, tg_kernel_bytes(p->kernel, &p->rounds, i, &a->bytes)) ||
        !(a->data = operand(p->d, a->bytes, info->buffers_n == BUFFERS))) return false;
  }
  return true;
}

static void end(probe *p) {
  tg_kernel_free(p->kernel);
  for (int i = 0; i < BUFFERS; i++) tg_device_free(p->d->device, p->at[i].data);
}

/* Seconds of one round, of as many as take a millisecond. */
static double round_of(probe *p) {
  const double enough = 1e-3;
  for (p->rounds = UNROLLED;; p->rounds *= 2) {
    double s = bench_device_time(p->d, put, p, 0);
    if (s < 0) return -1;
    if (s < enough && 2 * p->rounds <= p->size.rounds) continue;
    s = bench_device_time(p->d, put, p, p->size.seconds);
    return s / (double)p->rounds;
  }
}

static double time_probe(const bench_device *d, measure_chip_size size, const char *name, const char *text,
                         const tg_binding *b, uint32_t n, bool rounds) {
  probe p = {.d = d, .size = size};
  double s = -1;
  if (begin(&p, name, text, b, n)) s = rounds ? round_of(&p) : bench_device_time(d, put, &p, size.seconds);
  end(&p);
  return s;
}

/* The instruction that multiplies most of f16, with sums in f32. */
static const tg_matrix_row *instruction(const tg_target *t) {
  const tg_matrix_row *best = NULL, *r;
  for (uint32_t i = 0; (r = tg_matrix_at(i)); i++)
    if (tg_matrix_on(r, t) && r->a_type == TG_F16 && r->c_type == TG_F32 && r->m > 1 && tg_matrix_is_plain(r) &&
        (!best || r->m * r->n * r->k > best->m * best->n * best->k)) best = r;
  return best;
}

/* Multiplications of a core in a second by matrix instructions; 0: it has none; -1: failed. */
static double matrix_rate(const bench_device *d, measure_chip_size size) {
  const tg_target *t = d->device->target;
  const tg_matrix_row *r = instruction(t);
  if (!r) return 0;
  int rows = 2 * r->m, columns = (r->n < 16 ? 4 : 2) * r->n, groups = (int)(size.groups * t->threads);
  const tg_binding b[] = {{"G", groups, groups, 1}, {"R", UNROLLED, size.rounds, UNROLLED}};
  char text[1024];
  snprintf(text, sizeof text, tiles, 2 * rows, 2 * columns, r->k, rows, columns, r->name);
  double s = time_probe(d, size, "tiles", text, b, 2, true);
  return s > 0 ? 4.0 * rows * columns * r->k * size.groups / s : -1;
}

bool measure_chip(const bench_device *d, measure_chip_size size, tg_chip *out) {
  const tg_target *t = d->device->target;
  *out = tg_chip_of(t);
  int64_t chained = (int64_t)size.groups * t->threads * CHAIN_THREADS,
          read = (int64_t)size.groups / 2 * t->threads * READ_THREADS, words = 1 << 16;
  while (8 * words * (int64_t)sizeof(float) <= (int64_t)t->l2) words *= 2;
  const tg_binding rounds = {"R", UNROLLED, size.rounds, UNROLLED}, of_chains[] = {{"N", chained, chained, 1}, rounds},
                   of_reads[] = {{"N", read, read, 1}, {"M", words, words, 1}, rounds}, one[] = {{"N", 1, 1, 1}};
  double chain = time_probe(d, size, "chains", chains, of_chains, 2, true), matrices = matrix_rate(d, size),
         reading = time_probe(d, size, "reads", reads, of_reads, 3, true),
         launched = time_probe(d, size, "empty", empty, one, 1, false);
  if (chain <= 0 || reading <= 0 || launched <= 0 || matrices < 0) return false;
  double macs = (double)CHAINS * (double)chained / t->threads / chain;   /* of a core in a second */
  if (t->core_macs) out->clock = macs / t->core_macs * 1e-6;
  double hertz = out->clock * 1e6;
  if (matrices > 0) out->matrix_macs = matrices / hertz;
  out->core_bytes = sizeof(float) * (double)read / t->threads / reading / hertz;
  out->launch_ns = launched * 1e9;
  return true;
}
