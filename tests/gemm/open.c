/* SPDX-License-Identifier: MIT
 * Plans whose sizes are open until the call: they have few kernels, each size has one of them, calls compile nothing and
 * are right in each part, and what was chosen is found again by another context, with and without the compiler. */
#define _GNU_SOURCE
#include <stdlib.h>
#include "../folder.h"
#include "../target.h"
#include "../test.h"
#include "gemm/plan.h"
#include "gemm/sketch.h"
#include "kit/choose.h"

enum { MOST = 700 };

static const struct { const char *name; tg_gemm_desc d; } plans[] = {
    {"nn", {.m = {1, MOST}, .n = {1, MOST}, .k = {1, MOST}}},
    {"front", {.a_major = TG_ROW_MAJOR, .b_major = TG_COLUMN_MAJOR, .c_major = TG_COLUMN_MAJOR, .m = {17, MOST}, .n = {2, 16}, .k = {129, MOST},
        .likely = {100, 10, 300, 300, 300, 100}}},
    {"two", {.a_major = TG_COLUMN_MAJOR, .m = {33, 0}, .n = {1, MOST}, .k = {1, MOST}, .threads = 2}},
    {"one kernel", {.m = {1, MOST}, .n = {1, MOST}, .k = {1, MOST}, .flags = TG_GEMM_ONE_KERNEL}},
    {"mostly", {.m = {1, MOST}, .n = {1, MOST}, .k = {1, MOST}, .mostly = {{5, 8}, {65, 128}, {0, 0}}, .flags = TG_GEMM_ONE_KERNEL}},
};

static const tg_kit_part *only_part(const tg_gemm *g, const int64_t size[GEMM_SIZES]) {
  const tg_kit_part *found = NULL;
  uint32_t n = 0;
  for (uint32_t i = 0; i < g->parts_n; i++) {
    bool in = true;
    for (uint32_t d = 0; d < GEMM_SIZES; d++) in &= tg_span_has(g->part[i].size[d], size[d]);
    if (in) found = &g->part[i], n++;
  }
  CHECK(n == 1 && found == tg_kit_part_for(g->part, g->parts_n, size, GEMM_SIZES), "%lld x %lld x %lld, %lld: %u parts", (long long)size[0],
        (long long)size[1], (long long)size[2], (long long)size[3], n);
  return found;
}

static int64_t drawn(uint32_t *seed, tg_kit_dim d) {
  *seed = *seed * 1664525 + 1013904223;
  return d.lo + (int64_t)((*seed >> 8) % (uint32_t)(d.hi - d.lo + 1));
}

/* Lines so far apart as the plan's part for aliased ones needs, or one element more. */
static int64_t line(const tg_gemm *g, int64_t least, bool aliased) {
  int64_t way = g->way / 4;
  return aliased && way ? (least + way - 1) / way * way : way && least % way == 0 ? least + 1 : least;
}

static void run(const tg_gemm *g, const tg_gemm_desc *d, const int64_t size[GEMM_SIZES]) {
  int64_t m = size[0], n = size[1], k = size[2];
  bool col_a = d->a_major == TG_COLUMN_MAJOR, col_b = d->b_major == TG_COLUMN_MAJOR, col_c = d->c_major == TG_COLUMN_MAJOR;
  bool b_rows = col_c;   /* the rows' operand is B */
  int64_t lda = line(g, col_a ? m : k, !b_rows && size[3]), ldb = line(g, col_b ? k : n, b_rows && size[3]), ldc = col_c ? m : n;
  float *a = malloc((size_t)(lda * (col_a ? k : m)) * 4), *b = malloc((size_t)(ldb * (col_b ? n : k)) * 4), *c = malloc((size_t)(m * n) * 4);
#define AT(x, col, ld, i, j) (x)[(col) ? (j) * (ld) + (i) : (i) * (ld) + (j)]
  for (int64_t i = 0; i < m; i++)
    for (int64_t q = 0; q < k; q++) AT(a, col_a, lda, i, q) = (float)((i * 7 + q * 3) % 5 - 2);
  for (int64_t q = 0; q < k; q++)
    for (int64_t j = 0; j < n; j++) AT(b, col_b, ldb, q, j) = (float)((q * 5 + j) % 7 - 3);
  tg_gemm_call call = {.m = m, .n = n, .k = k, .a = a, .b = b, .c = c};
  call.a_strides[col_a] = lda, call.b_strides[col_b] = ldb, call.c_strides[col_c] = ldc;
  call.workspace_bytes = tg_gemm_workspace(g, &call);
  void *room = call.workspace = call.workspace_bytes ? malloc(call.workspace_bytes) : NULL;
  CHECK(tg_gemm_run(g, &call) == TG_OK, "%s", tg_error_message(g->plan.context));
  bool right = true;
  for (int64_t i = 0; i < m; i++)
    for (int64_t j = 0; j < n && right; j += 1 + j % 3) {
      double sum = 0;
      for (int64_t q = 0; q < k; q++) sum += (double)AT(a, col_a, lda, i, q) * (double)AT(b, col_b, ldb, q, j);
      right = (double)AT(c, col_c, ldc, i, j) == sum;
    }
  CHECK(right, "%lld x %lld x %lld is wrong", (long long)m, (long long)n, (long long)k);
  free(a), free(b), free(c), free(room);
}

static int compiles;
static void count(void *user, const tg_compile_report *report) {
  (void)user;
  if (report->status == TG_OK && !report->from_cache) compiles++;
}

static void try_plan(const char *folder, uint32_t at) {
  const tg_gemm_desc *d = &plans[at].d;
  tg_context *c = NULL;
  tg_gemm *g = NULL;
  uint32_t seed = 7 + at, kernels;
  CHECK(tg_context_create(&(tg_context_options){.threads = 2, .cache = folder, .compiled = count}, &c) == TG_OK, "no context");
  CHECK(tg_gemm_plan(c, d, &g) == TG_OK, "%s: %s", plans[at].name, tg_error_message(c));
  if (!g) return;
  kernels = g->parts_n;
  CHECK(kernels >= 1 && kernels <= (d->flags & TG_GEMM_ONE_KERNEL ? 1 : TG_REGIONS), "%s: %u kernels", plans[at].name, kernels);
  const tg_kit_dim whole[] = {{d->m.lo, d->m.hi ? d->m.hi : d->m.lo}, {d->n.lo, d->n.hi ? d->n.hi : d->n.lo}, {d->k.lo, d->k.hi ? d->k.hi : d->k.lo}};
  for (int i = 0; i < 2000; i++) {
    const int64_t size[GEMM_SIZES] = {drawn(&seed, whole[0]), drawn(&seed, whole[1]), drawn(&seed, whole[2]), i & 1};
    only_part(g, size);
  }
  int before = compiles;
  for (uint32_t p = 0; p < g->parts_n; p++)
    for (int i = 0; i < 3; i++) {
      int64_t size[GEMM_SIZES];
      for (uint32_t k = 0; k < GEMM_SIZES; k++) size[k] = i < 2 ? drawn(&seed, g->part[p].size[k]) : g->part[p].size[k].lo;
      run(g, d, size);
    }
  CHECK(compiles == before, "%s: calls compile", plans[at].name);
  tg_gemm_free(g);
  tg_context_free(c);
  for (int again = 0; again < 2; again++) {   /* by another context, without the compiler at last */
    tg_gemm_desc other = *d;
    if (again) other.flags |= TG_GEMM_NO_COMPILE;
    if (again) memset(other.likely, 0, sizeof other.likely);   /* which is only likely */
    g = NULL;
    CHECK(tg_context_create(&(tg_context_options){.threads = 2, .cache = folder, .compiled = count}, &c) == TG_OK, "no context");
    before = compiles;
    CHECK(tg_gemm_plan(c, &other, &g) == TG_OK, "%s again: %s", plans[at].name, tg_error_message(c));
    CHECK(compiles == before && g && g->parts_n == kernels, "%s is not found again", plans[at].name);
    tg_gemm_free(g);
    tg_context_free(c);
  }
}

static int files(const char *folder) {
  char command[TEST_PATH + 32];
  int n = -1;
  snprintf(command, sizeof command, "ls %s | wc -l", folder);
  FILE *f = popen(command, "r");
  if (f && fscanf(f, "%d", &n) != 1) n = -1;
  if (f) pclose(f);
  return n;
}

/* The call that is likely is part of the question: with another one, the answer to the first is not taken. */
static void another_likely(const char *folder) {
  for (uint32_t i = 0; i < sizeof plans / sizeof *plans; i++) {
    tg_gemm_desc d = plans[i].d;
    tg_context *c = NULL;
    tg_gemm *g = NULL;
    if (!d.likely[0]) continue;
    for (int again = 0; again < 2; again++) {
      d.likely[0]--;
      int before = files(folder);
      CHECK(tg_context_create(&(tg_context_options){.threads = 2, .cache = folder}, &c) == TG_OK, "no context");
      CHECK(tg_gemm_plan(c, &d, &g) == TG_OK, "%s: %s", plans[i].name, tg_error_message(c));
      CHECK(files(folder) > before, "%s: no answer for another likely call", plans[i].name);
      tg_gemm_free(g), tg_context_free(c);
    }
  }
}

/* Kernels are compared for the sizes that calls mostly have: few rows take another one than many. What is chosen alike is compiled once, and no part of
 * a range is taken for another. */
static void parts_of_ranges(const char *folder) {
  static const struct { tg_dim m, n; } mostly[] = {{{513, 700}, {513, 700}}, {{513, 700}, {513, 699}}, {{1, 2}, {513, 700}}};
  char choice[3][64];
  tg_context *c = NULL;
  CHECK(tg_context_create(&(tg_context_options){.target = "x86-64-v3", .cache = folder, .compiled = count}, &c) == TG_OK, "no context");
  for (uint32_t i = 0; c && i < 3; i++) {
    tg_gemm *g = NULL;
    int before = compiles, kept = files(folder);
    tg_gemm_desc d = {.m = {1, MOST}, .n = {1, MOST}, .k = {1, MOST}, .mostly = {mostly[i].m, mostly[i].n, {129, 512}},
                      .flags = TG_GEMM_ONE_KERNEL | TG_GEMM_NOT_ZERO};
    CHECK(tg_gemm_plan(c, &d, &g) == TG_OK, "%s", tg_error_message(c));
    if (!g) break;
    const tg_kit_choice *k = &g->part[0].choice;
    snprintf(choice[i], sizeof choice[i], "%s MR=%d NU=%d", k->sketch->name, (int)tg_kit_knob_of(k, "MR", 0), (int)tg_kit_knob_of(k, "NU", 0));
    CHECK(compiles - before == (i != 1) && files(folder) > kept, "%u: %d compiled, %d files", i, compiles - before, files(folder) - kept);
    tg_gemm_free(g);
  }
  CHECK(!strcmp(choice[0], choice[1]) && strcmp(choice[0], choice[2]), "%s, %s, %s", choice[0], choice[1], choice[2]);
  tg_context_free(c);
}

/* ---- what is compared ---- */

static bool has(const tg_gemm_points *of, const tg_gemm_sketch *sketch, const char *knob, int64_t value, const char *and, int64_t is) {
  for (uint32_t i = 0; i < of->n; i++)
    if (of->point[i].sketch == sketch && tg_kit_knob_of(&of->point[i].choice, knob, -1) == value &&
        tg_kit_knob_of(&of->point[i].choice, and, -1) == is)
      return true;
  return false;
}

/* C in whole lines where it is the largest; of columns that no L2 holds the next block is prefetched, but not where blocks of columns are tasks. */
static void proposals(void) {
  tg_gemm_problem q = {.a = TG_F32, .b = TG_F32, .c = TG_F32, .acc = TG_F32, .m = {2, 1 << 20}, .n = {2, 1 << 20}, .k = {2, 1 << 16}, .batch = {1, 1}};
  tg_target t;
  tg_gemm_points to;
  CHECK(tg_target_named(&t, "znver3"), "no target");
  tg_gemm_propose(&q, &t, (int64_t[]){1024, 1024, 32}, 1, &tg_gemm_direct, &to);
  CHECK(has(&to, &tg_gemm_direct, "ROWS", 1, "AHEAD", 0), "1024 x 1024 x 32: no tiles of rows one behind another");
  for (uint32_t threads = 1; threads <= 2; threads++) {
    tg_gemm_propose(&q, &t, (int64_t[]){16, 1024, 4096}, threads, &tg_gemm_packed, &to);
    if (threads == 1) CHECK(has(&to, &tg_gemm_packed, "NEXT", 1, "GROUPED", 1), "16 x 1024 x 4096: no next block");
    CHECK(!has(&to, &tg_gemm_packed, "NEXT", 1, "TEAM", 2), "%u threads: the next block of columns is a task", threads);
  }
}

/* ---- pieces ---- */

enum { LONGEST = 20000 };

/* Pieces are calls of the plan, at most as many as threads, and cover the call. */
static void divisions(void) {
  static const struct { int64_t size[3]; uint32_t threads; int terms, all; } calls[] = {   /* terms: are sums divided? all: are there as many pieces as threads? -1: either */
      {{48, 48, 20000}, 2, 1, 1}, {{48, 48, 20000}, 8, 1, 1}, {{128, 128, 128}, 2, 0, 1}, {{16, 4096, 1024}, 2, 0, 1},
      {{2048, 2048, 2048}, 64, 0, 1}, {{4096, 64, 64}, 16, 0, 1}, {{2000, 17, 64}, 4, 0, 1}, {{17, 17, 20000}, 64, 1, -1},
      {{24, 24, 24}, 64, 0, 0}, {{16, 16, 16}, 2, 0, 0}, {{301, 299, 7}, 16, 0, -1}};
  for (uint32_t i = 0; i < sizeof calls / sizeof *calls; i++)
    for (int column = 0; column < 2; column++) {
      tg_context *c = NULL;
      tg_gemm g;
      const int64_t *size = calls[i].size;
      const int threads = (int)calls[i].threads;
      CHECK(tg_context_create(&(tg_context_options){.target = "znver3", .threads = threads}, &c) == TG_OK, "no context");
      tg_gemm_desc d = {.c_major = (uint8_t)column, .m = {2, 1 << 20}, .n = {2, 1 << 20}, .k = {2, 1 << 20}, .threads = threads, .flags = TG_GEMM_NO_COMPILE};
      CHECK(tg_gemm_lay_out(c, &d, &g) == TG_OK, "%s", tg_error_message(c));
      tg_gemm_pieces p = tg_gemm_divide(&g, size, true), whole = tg_gemm_divide(&g, size, false);
      bool fits = true;
      for (uint32_t k = 0; k < 3; k++) fits &= p.size[k] * p.parts[k] >= size[k] && size[k] - p.size[k] * (p.parts[k] - 1) >= 2;
      CHECK(p.n == p.parts[0] * p.parts[1] * p.parts[2] && p.n <= calls[i].threads && fits && whole.parts[2] == 1,
            "%u: %u pieces, %u x %u x %u", i, p.n, p.parts[0], p.parts[1], p.parts[2]);
      CHECK((p.parts[2] > 1) == calls[i].terms && (calls[i].all < 0 || (2 * p.n > calls[i].threads) == calls[i].all),
            "%lld x %lld x %lld on %d threads: %u x %u x %u", (long long)size[0], (long long)size[1], (long long)size[2],
            threads, p.parts[0], p.parts[1], p.parts[2]);
      tg_context_free(c);
    }
}

static void backwards(void *user, int64_t n, void (*task)(void *, int64_t), void *arg) {
  (void)user;
  for (int64_t i = n; i-- > 0;) task(arg, i);
}

/* A part whose calls are divided, whatever the prices of this machine say. */
static bool make_pieces(tg_context *c, const tg_gemm_desc *d, tg_gemm *g, const tg_gemm_sketch *sketch) {
  CHECK(tg_gemm_lay_out(c, d, g) == TG_OK, "%s", tg_error_message(c));
  g->parts_n = 1, g->plan.strips = true;
  g->part[0] = (tg_kit_part){.size = {{1, MOST}, {1, MOST}, {1, LONGEST}, {0, 1}}, .strips = {.n = 1}, .pieces = true, .terms = true};
  tg_gemm_choose_knobs(&g->problem, &c->target, 1, sketch, &g->part[0].choice);
  bool made = tg_gemm_compile_part(g, &g->part[0]) == TG_OK;
  CHECK(made && tg_gemm_is_alone(&g->part[0].choice), "%s: %s", sketch->kernel->name, tg_error_message(c));
  return made;
}

/* Numbers that are no whole ones: the bits are the same on any threads in any order; and near to what the sum is. */
static void divided_calls(void) {
  static const tg_gemm_sketch *const sketches[] = {&tg_gemm_direct, &tg_gemm_panel, &tg_gemm_packed, &tg_gemm_stream, &tg_gemm_dot};
  static const int64_t sizes[][3] = {{300, 200, 100}, {17, 19, 700}, {200, 3, 300}, {5, 600, 300}, {1, 1, 700}, {40, 40, 40}, {17, 19, LONGEST}};
  const tg_exec execs[] = {{1, backwards, NULL}, {2, backwards, NULL}, {3, backwards, NULL}};
  float *a = malloc(MOST * MOST * 4), *b = malloc(MOST * MOST * 4), *x = malloc(MOST * MOST * 4), *c = malloc(MOST * MOST * 4), *first = malloc(MOST * MOST * 4), row[MOST];
  uint32_t seed = 3, divided = 0;
  const float alpha = 0.5f;
  for (uint32_t i = 0; i < MOST * MOST; i++)
    a[i] = (float)((seed = seed * 1664525 + 1013904223) >> 8) * 0x1p-24f, b[i] = a[i] - 0.5f, x[i] = (float)(i % 9);
  for (uint32_t i = 0; i < MOST; i++) row[i] = (float)(i % 5);
  tg_context *ctx = NULL;
  CHECK(tg_context_create(&(tg_context_options){.target = test_target(), .threads = 3}, &ctx) == TG_OK, "no context");
  for (uint32_t s = 0; s < sizeof sketches / sizeof *sketches; s++)
    for (uint8_t column = 0; column < 2; column++) {
      tg_gemm g;
      tg_gemm_desc d = {.c_major = column, .alpha = 1, .m = {1, MOST}, .n = {1, MOST}, .k = {1, LONGEST}, .threads = 3, .epilogue = "max(acc, 0) + r - e",
                        .arg = {{"r", 0, TG_PER_ROW}, {"e", 0, TG_PER_ELEMENT}}};
      if (!make_pieces(ctx, &d, &g, sketches[s])) continue;
      for (uint32_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (uint32_t e = 0; e < 4; e++) {   /* the last on the pool */
          const int64_t m = sizes[i][0], n = sizes[i][1], k = sizes[i][2], ld = column ? m : n;
          for (int64_t j = 0; j < m * n; j++) c[j] = 1;
          tg_gemm_call call = {.m = m, .n = n, .k = k, .a = a, .b = b, .c = c, .alpha = &alpha, .arg = {row, x}, .arg_ld = {0, n}, .exec = e < 3 ? &execs[e] : NULL};
          call.workspace_bytes = tg_gemm_workspace(&g, &call);
          void *room = malloc(call.workspace_bytes + 1);
          call.workspace = room;
          CHECK(tg_gemm_run(&g, &call) == TG_OK, "%s", tg_error_message(ctx));
          divided += tg_gemm_divide(&g, sizes[i], true).parts[2] > 1;
          free(room);
          if (!e) memcpy(first, c, (size_t)(m * n) * 4);
          CHECK(!memcmp(first, c, (size_t)(m * n) * 4), "%s, %u, way %u: other bits", sketches[s]->kernel->name, i, e);
          bool near = true;
          for (int64_t p = 0; p < m && !e; p += 1 + p % 7)
            for (int64_t q = 0; q < n; q++) {
              double sum = 0;
              for (int64_t t = 0; t < k; t++) sum += (double)a[p * k + t] * (double)b[t * n + q];
              sum *= 0.5;
              sum = (sum > 0 ? sum : 0) + (double)row[p] - (double)x[p * n + q];
              double got = (double)c[column ? q * ld + p : p * ld + q];
              near &= got - sum < 1e-6 * (double)k && sum - got < 1e-6 * (double)k;
            }
          CHECK(near, "%s, %u: wrong", sketches[s]->kernel->name, i);
        }
      for (uint32_t i = 0; i < GEMM_CASES; i++) tg_kernel_free(g.merge[i].kernel);
      tg_kit_part_free(&g.part[0]);
    }
  CHECK(divided > 0, "no sum was divided");
  free(a), free(b), free(x), free(c), free(first);
  tg_context_free(ctx);
}

/* Threads that pack a panel together and then share its rows wait for each other twice; one thread does not. */
static void waits(void) {
  tg_context *c = NULL;
  tg_gemm g;
  tg_gemm_desc d = {.m = {64, 0}, .n = {64, 0}, .k = {64, 0}, .threads = 2, .flags = TG_GEMM_NO_COMPILE};
  CHECK(tg_context_create(&(tg_context_options){.target = "znver3", .threads = 2}, &c) == TG_OK, "no context");
  CHECK(tg_gemm_lay_out(c, &d, &g) == TG_OK, "%s", tg_error_message(c));
  tg_binding b[GEMM_VALUES + 8] = {{0}};
  uint32_t n = tg_gemm_bind(&g, &g.problem, b);
  const tg_binding knobs[] = {{"VL", 8, 8, 1}, {"NU", 2, 2, 1}, {"MR", 6, 6, 1}, {"UK", 2, 2, 1}, {"KC", 128, 128, 1}, {"MB", 2, 2, 1}, {"NB", 4, 4, 1}, {"TEAM", 1, 1, 1}};
  memcpy(b + n, knobs, sizeof knobs);
  int64_t params[GEMM_VALUES];
  tg_gemm_params(&g.problem, (int64_t[]){64, 64, 64}, NULL, b, n, params);
  tg_gemm_def own;
  tg_gemm_kernel_of(&g.problem, tg_gemm_panel.kernel, &own);
  tg_compile_options o = {.bindings = b, .bindings_n = n + 8, .user = &g.problem, .flags = TG_COMPILE_UNTUNED};
  const int64_t *const all[] = {params};
  for (uint32_t threads = 1; threads <= 2; threads++) {
    double without = 0, with = 0;
    const tg_launches l = {.params = all, .n = 1, .threads = threads};
    c->target.machine.barrier = 0;
    bool priced = tg_kernel_price(c, &own.def, &o, &l, &without);
    c->target.machine.barrier = 1000;
    priced &= tg_kernel_price(c, &own.def, &o, &l, &with);
    CHECK(priced && (threads == 1 ? with == without : with > without + 1.5e-6), "%u threads: %g s, %g with a barrier of 1 us", threads, without, with);
  }
  tg_context_free(c);
}

int main(void) {
  char folder[TEST_PATH] = "tg-open-XXXXXX", command[TEST_PATH + 32];
  CHECK(test_folder(folder) != NULL, "no folder");
  for (uint32_t i = 0; i < sizeof plans / sizeof *plans; i++) try_plan(folder, i);
  another_likely(folder);
  parts_of_ranges(folder);
  proposals();
  divisions();
  divided_calls();
  waits();
  snprintf(command, sizeof command, "rm -r %s", folder);
  CHECK(!system(command), "%s", command);
  return TEST_END();
}
