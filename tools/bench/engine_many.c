/* SPDX-License-Identifier: MIT
 * tg bench engine: what is shared out among threads in other ways than one large product is. Few rows and columns with
 * a long sum; many small products; groups of rows. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "bench/engine.h"

/* ---- a long sum ---- */

static void long_case(engine *e, int m, int n, int k, bool ta, bool tb, double least) {
  char name[96];
  snprintf(name, sizeof name, "long %dx%dx%d %c%c", m, n, k, "NT"[ta], "NT"[tb]);
  if (!engine_wants(e, name)) return;
  static engine_product one, two;
  bench_product x = {.m = m, .n = n, .k = k, .ta = ta, .tb = tb, .threads = 1};
  bool good = engine_open(e, name, &x, NULL, &one);
  x = one.x, x.threads = 2;
  good = good && engine_open(e, name, &x, NULL, &two);
  if (good)
    engine_contest(e, name, "one thread", "two threads", engine_run(&one), engine_run(&two), 2,
                   (engine_bar){.at_least = least}, NULL);
  engine_close(&two), engine_close(&one);
}

void engine_long(engine *e) {
  static const struct {
    int m, n, k;
  } sizes[] = {{64, 64, 65536}, {16, 128, 100000}, {4, 64, 262144},
               {33, 47, 50021}, {128, 128, 32768}, {8, 8, 1000003}};
  long_case(e, 1024, 1024, 1024, false, false, 0);   /* what two threads give where there is nothing to merge */
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
    for (int t = 0; t < 4; t++) long_case(e, sizes[i].m, sizes[i].n, sizes[i].k, t & 2, t & 1, 1.7);
}

/* ---- many products ---- */

/* Products of one size side by side in memory; single: the first of them, with its code. */
typedef struct {
  engine_product single, many;
  int batch, each[3];          /* elements from a product's A, B, C to the next's */
  const void **a, **b;
  void **c;
} batch;

static bool run_loop(void *user) {
  batch *s = user;
  for (int i = 0; i < s->batch; i++) {
    void *operands[] = {(void *)(uintptr_t)s->a[i], (void *)(uintptr_t)s->b[i], s->c[i]};
    s->single.code(operands, NULL, s->single.scratch, 0);
  }
  return true;
}

static bool batch_verified(batch *s) {
  for (int i = 0; i < s->batch; i++) {
    bench_product x = s->single.x;
    x.a = s->a[i], x.b = s->b[i], x.c = s->c[i];
    double *sums = bench_sums(&x);
    bool good = bench_verified(&x, sums);
    free(sums);
    if (!good) return false;
  }
  return true;
}

static void batch_case(engine *e, int count, int n, bool lists) {
  char name[96];
  snprintf(name, sizeof name, "batch %d of %d cubed, %s", count, n, lists ? "pointers" : "strides");
  if (!engine_wants(e, name)) return;
  static batch s;
  s = (batch){.batch = count, .each = {n * n, n * n, n * n}};
  size_t each = (size_t)n * (size_t)n, all = each * (size_t)count;
  float *a = tool_pages(all * 4), *b = tool_pages(all * 4), *c = tool_pages(all * 4);
  s.a = calloc((size_t)count, sizeof *s.a), s.b = calloc((size_t)count, sizeof *s.b),
  s.c = calloc((size_t)count, sizeof *s.c);
  bench_fill(TG_F32, a, all, 1), bench_fill(TG_F32, b, all, 2);
  for (int i = 0; i < count; i++)
    s.a[i] = a + (size_t)i * each, s.b[i] = b + (size_t)i * each, s.c[i] = c + (size_t)i * each;
  bench_product x = {.m = n, .n = n, .k = n, .a = a, .b = b, .c = c, .threads = 1};
  bool good = engine_open(e, name, &x, NULL, &s.single);
  if (good && !s.single.code) good = engine_wrong(e, name, "no bare code");
  for (int threads = 1; good && threads <= ENGINE_THREADS; threads++) {
    static const int64_t unused[3] = {0};
    int64_t strides[3] = {s.each[0], s.each[1], s.each[2]};
    x.threads = threads;
    good = engine_open(e, name, &x, NULL, &s.many);
    s.many.call.batch = count, s.many.call.batch_strides = lists ? unused : strides;
    if (lists) s.many.call.a_list = s.a, s.many.call.b_list = s.b, s.many.call.c_list = s.c;
    free(s.many.call.workspace);
    s.many.call.workspace_bytes = tg_gemm_workspace(s.many.plan, &s.many.call);
    s.many.call.workspace = tool_pages(s.many.call.workspace_bytes + 64);
    memset(c, 0xff, all * 4);
    if (good && !engine_run(&s.many).run(&s.many)) good = engine_wrong(e, name, tg_error_message(e->ctx));
    if (good && !batch_verified(&s)) good = engine_wrong(e, name, "wrong result");
    if (good)
      engine_contest(e, name, "rate", "the code in a loop", (bench_side){run_loop, &s}, engine_run(&s.many), threads,
                     (engine_bar){.at_least = threads > 1 ? 1.7 : 0.9}, NULL);
    engine_close(&s.many);
  }
  engine_close(&s.single);
  free(a), free(b), free(c), free(s.a), free(s.b), free(s.c);
}

/* ---- groups of rows, each with a B of its own ---- */

enum { GROUPS = 16 };

typedef struct {
  engine_product single[GROUPS], all;
  int groups;
} experts;

static bool run_each(void *user) {
  experts *s = user;
  for (int i = 0; i < s->groups; i++)
    if (s->single[i].x.m && !engine_run(&s->single[i]).run(&s->single[i])) return false;
  return true;
}

/* Against a plan for each number of rows, one after another. */
static void group_case(engine *e, int n, int k, const char *text, const int64_t *rows) {
  char name[96];
  snprintf(name, sizeof name, "groups %s, %dx%d", text, n, k);
  if (!engine_wants(e, name)) return;
  static experts s;
  int m = 0;
  size_t kn = (size_t)k * (size_t)n, at = 0;
  for (int i = 0; i < GROUPS; i++) m += (int)rows[i];
  float *a = tool_pages((size_t)m * (size_t)k * 4), *b = tool_pages(kn * GROUPS * 4),
        *c = tool_pages((size_t)m * (size_t)n * 4);
  bench_fill(TG_F32, a, (size_t)m * (size_t)k, 1), bench_fill(TG_F32, b, kn * GROUPS, 2);
  s.groups = GROUPS;
  bool good = true;
  for (int i = 0; i < GROUPS && good; at += (size_t)rows[i++]) {
    bench_product x = {.m = (int)rows[i],
                       .n = n,
                       .k = k,
                       .tb = true,
                       .a = a + at * (size_t)k,
                       .b = b + kn * (size_t)i,
                       .c = c + at * (size_t)n,
                       .threads = 1};
    if (rows[i]) good = engine_open(e, name, &x, NULL, &s.single[i]);
  }
  for (int threads = 1; good && threads <= ENGINE_THREADS; threads++) {
    bench_product x = {.m = (int)rows[0], .n = n, .k = k, .tb = true, .a = a, .b = b, .c = c, .threads = threads};
    tg_gemm_desc d = {.m = {1, 8192}};
    good = engine_open(e, name, &x, &d, &s.all);
    if (!good) break;
    s.all.call.m = 0, s.all.call.batch = GROUPS, s.all.call.group_m = rows;
    free(s.all.call.workspace);
    s.all.call.workspace_bytes = tg_gemm_workspace(s.all.plan, &s.all.call);
    s.all.call.workspace = tool_pages(s.all.call.workspace_bytes + 64);
    memset(c, 0xff, (size_t)m * (size_t)n * 4);
    if (!engine_run(&s.all).run(&s.all)) good = engine_wrong(e, name, tg_error_message(e->ctx));
    for (int i = 0; i < GROUPS && good; i++)
      if (rows[i] && !bench_verified(&s.single[i].x, s.single[i].sums)) good = engine_wrong(e, name, "wrong result");
    if (good)
      engine_contest(e, name, "rate", "a plan for each", (bench_side){run_each, &s}, engine_run(&s.all), threads,
                     (engine_bar){.at_least = threads > 1 ? 1.7 : 0.9}, NULL);
    engine_close(&s.all);
  }
  for (int i = 0; i < GROUPS; i++) engine_close(&s.single[i]);
  free(a), free(b), free(c);
}

void engine_batches(engine *e) {
  static const struct { int count, n; } sizes[] = {{1024, 8}, {512, 16}, {64, 32}, {256, 23}, {64, 64}, {16, 100}};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
    for (int lists = 0; lists < 2; lists++) batch_case(e, sizes[i].count, sizes[i].n, lists);
  static const int64_t even[GROUPS] = {16, 16, 16, 16, 16, 16, 16, 16, 16, 16, 16, 16, 16, 16, 16, 16},
                       uneven[GROUPS] = {3, 0, 17, 64, 1, 40, 128, 9, 0, 2, 5, 31, 77, 1, 8, 12};
  group_case(e, 64, 64, "even", even);
  group_case(e, 64, 64, "uneven", uneven);
  group_case(e, 512, 256, "even", even);
  group_case(e, 512, 256, "uneven", uneven);
}
