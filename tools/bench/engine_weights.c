/* SPDX-License-Identifier: MIT
 * Weights of 4 bits with scales and zero points by groups, packed ahead: a single row against the best loop that reads
 * as many bytes, and more rows against the
 * product of the same sizes in f32. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "bench/engine.h"

typedef struct { engine *e; tg_gemm *plan; tg_gemm_call call; } weights_run;

static bool run_weights(void *user) {
  weights_run *w = user;
  return tg_gemm_run(w->plan, &w->call) == TG_OK;
}

typedef struct { bench_peer *peer; int entry; bench_product bytes; } reading;

static bool run_reading(void *user) {
  reading *r = user;
  r->peer->entry[r->entry].run(r->peer, &r->bytes);
  return true;
}

/* The fastest loop for these bytes. */
static void choose_loop(reading *r, int threads) {
  double best = INFINITY;
  int chosen = 0;
  for (int i = 0; i < 3 * r->peer->entries; i++) {
    r->entry = i % r->peer->entries;
    double t = bench_clock(threads);
    run_reading(r);
    t = bench_clock(threads) - t;
    if (t < best) best = t, chosen = r->entry;
  }
  r->entry = chosen;
}

enum { ONE = 0x3c00, TWO = 0x4000 };   /* as f16: the scales, so that sums are exact */

/* Some columns of C in plain C, from the panels. */
static bool is_right(const weights_run *w, const tg_gemm_packing *p, int m, int group) {
  const float *a = w->call.a, *c = w->call.c;
  const uint16_t *scale = w->call.b_scale;
  const uint8_t *zero = w->call.b_zero;
  const uint32_t *b = w->call.b;
  int64_t K = p->k, P = p->panel, words = (K + 7) / 8;
  for (int64_t i = 0; i < m; i += 1 + m / 3)
    for (int64_t j = 0; j < p->n; j += 1 + p->n / 17) {
      double sum = 0;
      for (int64_t k = 0; k < K; k++)
        sum += (double)a[i * K + k] * (scale[k / group * p->n + j] == TWO ? 2 : 1) *
               ((double)(b[(j / P * words + k / 8) * P + j % P] >> k % 8 * 4 & 15) - zero[k / group * p->n + j]);
      if ((double)c[i * p->n + j] != sum) return false;
    }
  return true;
}

/* One block: the packed weights, then scales and zero points, all of which a read loop reads. */
static void weights_case(engine *e, int m, int64_t n, int64_t k, int group, int threads, double least) {
  static const tool_types bytes = {"bytes", TG_I8, TG_I8, TG_I32, 1, 0};
  static engine_product floats;
  char name[96];
  snprintf(name, sizeof name, "weights of 4 bits %dx%lldx%lld, groups of %d", m, (long long)n, (long long)k, group);
  if (!engine_wants(e, name)) return;
  tg_gemm_desc d = {.m = {m, 0},
                    .n = {n, 0},
                    .k = {k, 0},
                    .b = TG_U8,
                    .b_bits = 4,
                    .b_scale = TG_F16,
                    .b_zero = TG_U8,
                    .b_group = group,
                    .threads = threads};
  tg_gemm_packing packing;
  weights_run w = {.e = e};
  if (tg_gemm_packing_choose(e->ctx, &d, 1, &packing)) return (void)engine_wrong(e, name, tg_error_message(e->ctx));
  d.packing = &packing;
  if (tg_gemm_plan(e->ctx, &d, &w.plan)) return (void)engine_wrong(e, name, tg_error_message(e->ctx));
  size_t groups = (size_t)(n * (k / group)), all = packing.bytes + groups * 3;
  char *block = tool_pages(all + 64);
  float *a = tool_pages((size_t)m * (size_t)k * 4), *c = tool_pages((size_t)m * (size_t)n * 4);
  uint16_t *scale = (uint16_t *)(void *)(block + packing.bytes);
  uint32_t state = 1;
  bench_fill(TG_F32, a, (size_t)m * (size_t)k, 3);
  for (size_t i = 0; i < packing.bytes / 4; i++)
    ((uint32_t *)(void *)block)[i] = state = state * 1664525u + 1013904223u;
  for (size_t i = 0; i < groups; i++)
    scale[i] = i % 2 ? TWO : ONE, block[packing.bytes + groups * 2 + i] = (char)(i % 15);
  w.call = (tg_gemm_call){.a = a, .b = block, .c = c, .b_scale = scale, .b_zero = block + packing.bytes + groups * 2};
  w.call.workspace_bytes = tg_gemm_workspace(w.plan, &w.call);
  w.call.workspace = tool_pages(w.call.workspace_bytes + 64);
  memset(c, 0xff, (size_t)m * (size_t)n * 4);
  if (!run_weights(&w)) engine_wrong(e, name, tg_error_message(e->ctx));
  else if (!is_right(&w, &packing, m, group)) engine_wrong(e, name, "wrong result");
  else if (m == 1) {
    bench_peer loops;
    bench_peers_read_loop(&loops);
    reading r = {
        .peer = &loops,
        .bytes = {
            .type = &bytes, .m = 1, .n = (int)(all / (size_t)k), .k = (int)k, .a = a, .b = block, .threads = threads}};
    choose_loop(&r, threads);
    engine_contest(e, name, "read loop", "one row, all bytes", (bench_side){run_reading, &r},
                   (bench_side){run_weights, &w}, threads, (engine_bar){.at_least = least}, NULL);
  } else {
    bench_product x = {.m = m, .n = (int)n, .k = (int)k, .threads = threads};
    if (engine_open(e, name, &x, NULL, &floats))
      engine_contest(e, name, "weights of 4 bits", "the product in f32", (bench_side){run_weights, &w},
                     engine_run(&floats), threads, (engine_bar){.at_most = least}, NULL);
    engine_close(&floats);
  }
  tg_gemm_free(w.plan);
  free(block), free(a), free(c), free(w.call.workspace);
}

/* More than four times the last cache; and a layer for more rows. */
void engine_weights(engine *e) {
  for (int threads = 1; threads <= ENGINE_THREADS; threads++) {
    double least = threads == 1 ? 0.75 : 0.8;
    weights_case(e, 1, 262144, 4096, 32, threads, least);
    weights_case(e, 1, 262144, 4096, 128, threads, least);
    weights_case(e, 4, 4096, 4096, 128, threads, 0);
    weights_case(e, 16, 4096, 4096, 128, threads, 0);
    weights_case(e, 512, 4096, 4096, 128, threads, 0);
  }
}
