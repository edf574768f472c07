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

int main(void) {
  char folder[TEST_PATH] = "tg-open-XXXXXX", command[TEST_PATH + 32];
  CHECK(test_folder(folder) != NULL, "no folder");
  for (uint32_t i = 0; i < sizeof plans / sizeof *plans; i++) try_plan(folder, i);
  another_likely(folder);
  parts_of_ranges(folder);
  proposals();
  snprintf(command, sizeof command, "rm -r %s", folder);
  CHECK(!system(command), "%s", command);
  return TEST_END();
}
