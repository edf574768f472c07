/* SPDX-License-Identifier: MIT
 * tg bench engine: products as sides of a contest, figures, and the list of bars. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "bench/engine.h"

static const tool_types f32 = {"f32", TG_F32, TG_F32, TG_F32, 1, 0};

bool engine_wants(engine *e, const char *name) {
  bool wanted = !e->args->cases || strstr(name, e->args->cases);
  e->ran += wanted;
  return wanted;
}

bool engine_wrong(engine *e, const char *name, const char *what) {
  fprintf(stderr, "tg bench engine: %s: %s\n", name, what);
  e->result = TOOL_WRONG;
  return false;
}

/* ---- figures ---- */

/* A bar is missed where the whole interval lies beyond it. */
static const char *verdict(engine_bar bar, const bench_ratio *r) {
  if (bar.at_most > 0 && r->least > bar.at_most) return "   missed";
  if (bar.at_least > 0 && r->most < bar.at_least) return "   missed";
  return "";
}

static void report(engine *e, const char *name, const char *what, const char *of, int threads, engine_bar bar,
                   const bench_ratio *r) {
  char metric[128], limit[32] = "";
  const struct {
    const char *text;
    double value;
  } json[] = {{"", r->ratio}, {", at least", r->least}, {", at most", r->most}};
  if (bar.at_most > 0) snprintf(limit, sizeof limit, "   bar <= %.2f", bar.at_most);
  if (bar.at_least > 0) snprintf(limit, sizeof limit, "   bar >= %.2f", bar.at_least);
  if (!e->args->json) {
    printf("  %-34s %d thread%s  %-28s %10.2f us   %6.3f (%.3f .. %.3f) of %-24s %d pairs, %d quiet, %d dropped%s%s\n",
           name, threads, threads > 1 ? "s" : " ", what, r->seconds[0] * 1e6, r->ratio, r->least, r->most, of, r->kept,
           r->quiet, r->dropped, limit, verdict(bar, r));
    fflush(stdout);
    return;
  }
  for (size_t i = 0; i < sizeof json / sizeof *json; i++) {
    snprintf(metric, sizeof metric, "%d thread%s, %s%s", threads, threads > 1 ? "s" : "", what, json[i].text);
    tool_figure(true, "engine", name, metric, json[i].value, "ratio", of);
  }
  snprintf(metric, sizeof metric, "%d thread%s, %s, pairs dropped", threads, threads > 1 ? "s" : "", what);
  tool_figure(true, "engine", name, metric, r->dropped, "pairs", of);
  snprintf(metric, sizeof metric, "%d thread%s, %s, pairs not quiet", threads, threads > 1 ? "s" : "", what);
  tool_figure(true, "engine", name, metric, r->kept - r->quiet, "pairs", of);
}

bool engine_contest(engine *e, const char *name, const char *what, const char *of, bench_side a, bench_side b,
                    int threads, engine_bar bar, bench_ratio *out) {
  bench_ratio mine;
  if (!out) out = &mine;
  if (!e->peak[threads])
    for (int i = 0; i < 200; i++) {
      double burst = bench_probe(threads);
      if (burst > e->peak[threads]) e->peak[threads] = burst;
    }
  if (!bench_turns(a, b, threads, e->args->seconds > 0 ? e->args->seconds : 2, &e->peak[threads], out))
    return engine_wrong(e, name, tg_error_message(e->ctx));
  report(e, name, what, of, threads, bar, out);
  return true;
}

/* ---- products ---- */

static bool run_plan(void *user) {
  engine_product *p = user;
  return tg_gemm_run(p->plan, &p->call) == TG_OK;
}

static bool run_bare(void *user) {
  engine_product *p = user;
  void *operands[] = {(void *)(uintptr_t)p->x.a, (void *)(uintptr_t)p->x.b, p->x.c};
  p->code(operands, NULL, p->scratch, 0);
  return true;
}

bench_side engine_run(engine_product *p) { return (bench_side){run_plan, p}; }
bench_side engine_bare(engine_product *p) { return (bench_side){run_bare, p}; }

static int lines_of(int rows, int columns, bool turned) { return turned ? columns : rows; }

static void *memory(int rows, int columns, bool turned, int ld, uint32_t seed) {
  size_t n = (size_t)lines_of(rows, columns, turned) * (size_t)ld;
  void *x = tool_pages(n * 4 + 64);
  bench_fill(TG_F32, x, n, seed);
  return x;
}

static uint8_t major_of(const bench_product *x, bool turned) {
  return x->late ? TG_ANY_STRIDES : turned ? TG_COLUMN_MAJOR : TG_ROW_MAJOR;
}

static void strides_of(const bench_product *x, int ld, bool turned, int64_t out[2]) {
  out[turned] = ld;
  out[!turned] = x->step ? x->step : 1;
}

bool engine_open(engine *e, const char *name, const bench_product *x, const tg_gemm_desc *desc, engine_product *p) {
  tg_gemm_desc d = desc ? *desc : (tg_gemm_desc){0};
  memset(p, 0, sizeof *p);
  p->e = e, p->x = *x;
  bench_product *y = &p->x;
  int step = y->step ? y->step : 1;
  y->type = &f32;
  if (!y->lda) y->lda = (y->ta ? y->m : y->k) * step;
  if (!y->ldb) y->ldb = (y->tb ? y->k : y->n) * step;
  if (!y->ldc) y->ldc = y->n * step;
  p->owner = !y->a;
  if (p->owner)
    y->a = memory(y->m, y->k, y->ta, y->lda, 1), y->b = memory(y->k, y->n, y->tb, y->ldb, 2),
    y->c = memory(y->m, y->n, false, y->ldc, 3);
  if (!d.m.hi) d.m.lo = y->m;
  if (!d.n.hi) d.n.lo = y->n;
  if (!d.k.hi) d.k.lo = y->k;
  d.a_major = major_of(y, y->ta), d.b_major = d.packing ? TG_ROW_MAJOR : major_of(y, y->tb),
  d.c_major = major_of(y, false);
  d.threads = y->threads;
  bool fixed = !desc && !y->late;
  if (!y->late) d.a_step = d.b_step = d.c_step = step;
  if (fixed) d.a_ld.lo = y->lda, d.b_ld.lo = y->ldb, d.c_ld.lo = y->ldc;
  if (tg_gemm_plan(e->ctx, &d, &p->plan)) return engine_wrong(e, name, tg_error_message(e->ctx));
  p->call = (tg_gemm_call){.m = y->m, .n = y->n, .k = y->k, .a = y->a, .b = y->b, .c = y->c};
  strides_of(y, y->lda, y->ta, p->call.a_strides);
  if (!d.packing) strides_of(y, y->ldb, y->tb, p->call.b_strides);
  strides_of(y, y->ldc, false, p->call.c_strides);
  p->call.workspace_bytes = tg_gemm_workspace(p->plan, NULL);
  p->call.workspace = tool_pages(p->call.workspace_bytes + 64);
  p->code = tg_gemm_function(p->plan);
  if (d.epilogue) return true;
  if (!d.packing) p->sums = bench_sums(y);
  bench_poison(y);
  if (!run_plan(p)) return engine_wrong(e, name, tg_error_message(e->ctx));
  return d.packing || bench_verified(y, p->sums) || engine_wrong(e, name, "wrong result");
}

void engine_close(engine_product *p) {
  tg_gemm_free(p->plan);
  free(p->call.workspace), free(p->sums);
  if (p->owner) free((void *)(uintptr_t)p->x.a), free((void *)(uintptr_t)p->x.b), free(p->x.c);
  memset(p, 0, sizeof *p);
}

/* ---- all ---- */

int bench_engine(const tool_args *a) {
  engine e = {.args = a};
  if (tg_context_create(&(tg_context_options){.threads = ENGINE_THREADS, .cache = a->cache}, &e.ctx))
    return TOOL_BROKEN;
  engine_epilogues(&e);
  engine_rows(&e);
  engine_packings(&e);
  engine_strides(&e);
  engine_long(&e);
  engine_batches(&e);
  engine_weights(&e);
  tg_context_free(e.ctx);
  if (!e.ran) return fprintf(stderr, "tg bench engine: no case contains '%s'\n", a->cases ? a->cases : ""), TOOL_USAGE;
  return e.result;
}
