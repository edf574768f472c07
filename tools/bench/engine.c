/* SPDX-License-Identifier: MIT
 * tg bench engine: what an engine uses of tg/gemm.h beside the plain product. An epilogue in the product against a pass
 * behind it; one plan for any number of rows; one
 * packing for one row and for thousands; strides; long sums on several threads; many small products. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "bench/engine.h"
#include "tg/dsl.h"

/* ---- bias, gelu and a residual: in the product, or behind it ---- */

TG_KERNEL(bias_gelu_residual, M, N) {
  tg_in(bias, f32, [N]);
  tg_in(residual, f32, [M, N]);
  tg_inout(C, f32, [M, N]);
  tg_def(gelu(x) = 0.5f * x * (1 + erf(x * 0.70710678f)));
  tg_range(i, M) tg_range(j, N) tg(C[i,j] = gelu(C[i,j] + bias[j]) + residual[i,j]);
}
static const char *const gelu_text = "0.5f * (acc + bias) * (1 + erf((acc + bias) * 0.70710678f)) + residual";

typedef struct { engine_product *product; tg_kernel *pass; tg_launch launch; } two_passes;

static bool run_two(void *user) {
  two_passes *t = user;
  return engine_run(t->product).run(t->product) && tg_kernel_run(t->pass, &t->launch) == TG_OK;
}

static bool quarter(engine_product *p) {   /* sums of a size at which gelu is neither 0 nor its argument */
  float *a = (float *)(uintptr_t)p->x.a, *b = (float *)(uintptr_t)p->x.b;
  for (size_t i = 0; i < (size_t)p->x.m * (size_t)p->x.k; i++) a[i] = (a[i] - 0.5f) * 0.125f;
  for (size_t i = 0; i < (size_t)p->x.k * (size_t)p->x.n; i++) b[i] = (b[i] - 0.5f) * 0.125f;
  return true;
}

static void epilogue_case(engine *e, int m, int n, int k, int threads, double most) {
  char name[96];
  snprintf(name, sizeof name, "epilogue %dx%dx%d", m, n, k);
  if (!engine_wants(e, name)) return;
  static engine_product plain, fused;
  size_t mn = (size_t)m * (size_t)n;
  float *bias = tool_pages((size_t)n * 4), *residual = tool_pages(mn * 4), *c = tool_pages(mn * 4);
  bench_fill(TG_F32, bias, (size_t)n, 5), bench_fill(TG_F32, residual, mn, 6);
  bench_product x = {.m = m, .n = n, .k = k, .threads = threads};
  tg_gemm_desc d = {.epilogue = gelu_text, .arg = {{"bias", 0, TG_PER_COLUMN}, {"residual", 0, TG_PER_ELEMENT}}};
  tg_binding bind[] = {{"M", m, m, 1}, {"N", n, n, 1}};
  tg_compile_options o = {.bindings = bind, .bindings_n = 2};
  two_passes two = {.product = &plain};
  bool good = engine_open(e, name, &x, NULL, &plain);
  x = plain.x, x.c = c;
  good = good && quarter(&plain) && engine_open(e, name, &x, &d, &fused);
  if (good && tg_kernel_compile(e->ctx, &bias_gelu_residual, &o, &two.pass))
    good = engine_wrong(e, name, tg_error_message(e->ctx));
  if (good) {
    fused.call.arg[0] = bias, fused.call.arg[1] = residual;
    tg_argument buffers[] = {{bias, (size_t)n * 4}, {residual, mn * 4}, {plain.x.c, mn * 4}};
    two.launch = (tg_launch){.buffers = buffers, .buffers_n = 3, .threads = threads};
    memset(c, 0xff, mn * 4);
    good = run_two(&two) && engine_run(&fused).run(&fused);
    if (!good) engine_wrong(e, name, tg_error_message(e->ctx));
    else if (memcmp(c, plain.x.c, mn * 4))
      good = engine_wrong(e, name, "the epilogue in the product and the pass behind it give different bits");
    if (good)
      engine_contest(e, name, "bias, gelu, residual", "the plain product", engine_run(&fused), engine_run(&plain),
                     threads, (engine_bar){.at_most = most}, NULL);
    if (good)
      engine_contest(e, name, "bias, gelu, residual", "the product and a pass", engine_run(&fused),
                     (bench_side){run_two, &two}, threads, (engine_bar){.at_most = 0.85}, NULL);
  }
  tg_kernel_free(two.pass);
  engine_close(&fused), engine_close(&plain);
  free(bias), free(residual), free(c);
}

void engine_epilogues(engine *e) {
  for (int threads = 1; threads <= ENGINE_THREADS; threads++) {
    epilogue_case(e, 1024, 1024, 1024, threads, 1.06);
    epilogue_case(e, 1024, 1024, 4096, threads, 1.02);
    epilogue_case(e, 1024, 1024, 128, threads, 0);
  }
}

/* ---- any number of rows ---- */

static void rows_case(engine *e, int m, int n, int k, bool tb, int threads) {
  char name[96];
  snprintf(name, sizeof name, "rows %d of 1..8192, %dx%d N%c", m, n, k, "NT"[tb]);
  if (!engine_wants(e, name)) return;
  static engine_product fixed, range;
  bench_product x = {.m = m, .n = n, .k = k, .tb = tb, .threads = threads};
  tg_gemm_desc d = {.m = {1, 8192}};
  bool good = engine_open(e, name, &x, NULL, &fixed) && engine_open(e, name, &fixed.x, &d, &range);
  if (good)
    engine_contest(e, name, "one plan for all", "a plan for these", engine_run(&range), engine_run(&fixed), threads,
                   (engine_bar){.at_most = 1.05}, NULL);
  engine_close(&range), engine_close(&fixed);
}

/* What a run costs beside the code that it runs: a product that takes next to no time. */
static void overhead_case(engine *e, int threads) {
  char name[96];
  snprintf(name, sizeof name, "overhead of a run, 1 of 1..8192");
  if (!engine_wants(e, name)) return;
  static engine_product fixed, range;
  bench_ratio r;
  bench_product x = {.m = 1, .n = 16, .k = 16, .threads = 1};
  tg_gemm_desc d = {.m = {1, 8192}};
  bool good = engine_open(e, name, &x, NULL, &fixed);
  x = fixed.x, x.threads = threads;
  good = good && engine_open(e, name, &x, &d, &range);
  if (good && !fixed.code) good = engine_wrong(e, name, "no bare code");
  if (good && engine_contest(e, name, "tg_gemm_run", "the code alone", engine_run(&range), engine_bare(&fixed), threads,
                             (engine_bar){0}, &r))
    tool_figure(e->args->json, "engine", name, threads > 1 ? "2 threads, beside the code" : "1 thread, beside the code",
                (r.seconds[0] - r.seconds[1]) * 1e9, "ns", NULL);
  engine_close(&range), engine_close(&fixed);
}

void engine_rows(engine *e) {
  static const int rows[] = {1, 2, 3, 4, 5, 8, 13, 16, 24, 32, 48, 64, 100, 128, 197, 256, 333, 512, 1000, 2048};
  static const int sizes[][2] = {{1024, 1024}, {4096, 1024}};
  for (int threads = 1; threads <= ENGINE_THREADS; threads++) overhead_case(e, threads);
  for (size_t s = 0; s < 2; s++)
    for (int tb = 1; tb >= 0; tb--)
      for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) rows_case(e, rows[i], sizes[s][0], sizes[s][1], tb, 1);
}

/* ---- one packing ---- */

static bool pack_for(engine *e, const char *name, const tg_gemm_packing *k, const bench_product *x, void **out) {
  int64_t strides[2];
  strides[x->tb] = x->ldb, strides[!x->tb] = 1;
  *out = tool_pages(k->bytes + 64);
  return !tg_gemm_pack(k, x->b, strides, *out) || engine_wrong(e, name, "tg_gemm_pack");
}

/* Against the product whose B lies in rows, in columns, and against every other panel. */
static void packing_case(engine *e, int m, int n, int k, int threads) {
  char name[96], of[48];
  snprintf(name, sizeof name, "packing %dx%dx%d", m, n, k);
  if (!engine_wants(e, name)) return;
  static engine_product rows, columns, ahead, other;
  bench_product x = {.m = m, .n = n, .k = k, .threads = threads};
  tg_gemm_packing chosen, panel;
  tg_gemm_desc uses[] = {{.m = {1, 0}, .n = {n, 0}, .k = {k, 0}, .threads = threads},
                         {.m = {2048, 0}, .n = {n, 0}, .k = {k, 0}, .threads = threads}};
  void *packed = NULL;
  bool good = engine_open(e, name, &x, NULL, &rows);
  x.tb = true;
  good = good && engine_open(e, name, &x, NULL, &columns);
  if (good && tg_gemm_packing_choose(e->ctx, uses, 2, &chosen)) good = engine_wrong(e, name, tg_error_message(e->ctx));
  good = good && pack_for(e, name, &chosen, &rows.x, &packed);
  x = rows.x, x.b = packed;
  tg_gemm_desc d = {.packing = &chosen};
  good = good && engine_open(e, name, &x, &d, &ahead);
  if (good && !bench_verified(&rows.x, rows.sums)) good = engine_wrong(e, name, "wrong result");
  if (good)
    engine_contest(e, name, "one packing", "B in rows", engine_run(&ahead), engine_run(&rows), threads,
                   (engine_bar){.at_most = 1.05}, NULL);
  if (good)
    engine_contest(e, name, "one packing", "B in columns", engine_run(&ahead), engine_run(&columns), threads,
                   (engine_bar){.at_most = 1.05}, NULL);
  for (uint32_t vectors = 1; good && vectors <= 4; vectors++) {
    void *again = NULL;
    panel = chosen, panel.panel = 16 * vectors,
    panel.bytes = (size_t)((n + panel.panel - 1) / panel.panel) * panel.panel * (size_t)k * 4;
    if (panel.panel == chosen.panel) continue;
    good = pack_for(e, name, &panel, &rows.x, &again);
    x.b = again, d.packing = &panel;
    good = good && engine_open(e, name, &x, &d, &other);
    snprintf(of, sizeof of, "panels of %u, not %u", panel.panel, chosen.panel);
    if (good)
      engine_contest(e, name, "one packing", of, engine_run(&ahead), engine_run(&other), threads,
                     (engine_bar){.at_most = 1.05}, NULL);
    engine_close(&other);
    free(again);
  }
  engine_close(&ahead), engine_close(&columns), engine_close(&rows);
  free(packed);
}

void engine_packings(engine *e) {
  static const int sizes[][2] = {{1024, 1024}, {4096, 1024}, {4096, 4096}};
  for (size_t s = 0; s < 3; s++)
    for (int m = 1; m <= 2048; m *= 2048) packing_case(e, m, sizes[s][0], sizes[s][1], 1);
}

/* ---- strides ---- */

typedef struct { const char *text; bool ta, tb; int pad, step; bool late; } lying;

static void strides_case(engine *e, int n, const lying *how, int threads) {
  char name[96];
  snprintf(name, sizeof name, "strides %d, %s", n, how->text);
  if (!engine_wants(e, name)) return;
  static engine_product dense, other;
  int step = how->step ? how->step : 1, ld = n * step + how->pad;
  bench_product x = {.m = n, .n = n, .k = n, .threads = threads}, y = {.m = n,
                                                                       .n = n,
                                                                       .k = n,
                                                                       .ta = how->ta,
                                                                       .tb = how->tb,
                                                                       .lda = ld,
                                                                       .ldb = ld,
                                                                       .ldc = ld,
                                                                       .step = step,
                                                                       .late = how->late,
                                                                       .threads = threads};
  bool good = engine_open(e, name, &x, NULL, &dense) && engine_open(e, name, &y, NULL, &other);
  if (good)
    engine_contest(e, name, "rate", "dense NN", engine_run(&dense), engine_run(&other), threads,
                   (engine_bar){.at_least = 0.93}, NULL);
  engine_close(&other), engine_close(&dense);
}

void engine_strides(engine *e) {
  static const lying ways[] = {
      {.text = "NN, lines 1 longer", .pad = 1},
      {.text = "NN, lines 1024 longer", .pad = 1024},
      {.text = "NT", .tb = true},
      {.text = "NT, lines 3 longer", .tb = true, .pad = 3},
      {.text = "TN", .ta = true},
      {.text = "TN, lines 1 longer", .ta = true, .pad = 1},
      {.text = "TT", .ta = true, .tb = true},
      {.text = "TT, lines 7 longer", .ta = true, .tb = true, .pad = 7},
      {.text = "NN, every other", .step = 2},
      {.text = "NT, every third", .tb = true, .pad = 1, .step = 3},
      {.text = "NN, every other, told by calls", .step = 2, .late = true},
      {.text = "NT, every third, told by calls", .tb = true, .pad = 1, .step = 3, .late = true}};
  static const int sizes[] = {512, 1000, 1024, 2048};
  for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) strides_case(e, sizes[s], &ways[i], 1);
}
