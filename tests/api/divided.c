/* SPDX-License-Identifier: MIT
 * Kernels whose sizes are open until the call may have a code for each part of the range: results are those of plain C
 * on both sides of each boundary, whichever code runs; a part that cannot be made is served by the kernel's own code;
 * and another context finds the parts in the folder, with nothing compiled. */
#define _GNU_SOURCE
#include <math.h>
#include <stdlib.h>
#include "../folder.h"
#include "../target.h"
#include "../test.h"
#include "api/api.h"

enum { MOST = 600 };
static const char *const text[] = {
    "kernel sums(R in 1..4096, D in 1..4096) { in(x, f32, [R, D]); out(y, f32, [R]);\n"
    "  range(r, R) y[r] = sum(d : D, x[r,d]); }",
    "kernel largest(R in 1..4096, D in 1..4096) { in(x, f32, [R, D]); out(y, f32, [R]);\n"
    "  range(r, R) y[r] = max(d : D, x[r,d]); }",
    "kernel columns(R in 1..4096, D in 1..4096) { in(x, f32, [R, D]); out(y, f32, [D]);\n"
    "  range(d, D) y[d] = sum(r : R, x[r,d]); }"};
enum { TEXTS = sizeof text / sizeof *text };
static float x[MOST * MOST], y[MOST + 1];

static float expected(int which, int64_t rows, int64_t columns, int64_t at) {
  float s = which == 1 ? -INFINITY : 0;
  for (int64_t i = 0; i < (which == 2 ? rows : columns); i++) {
    float v = which == 2 ? x[i * columns + at] : x[at * columns + i];
    s = which == 1 ? fmaxf(s, v) : s + v;   /* small integers: sums in any order are the same */
  }
  return s;
}

static void check_at(tg_kernel *k, int which, int64_t rows, int64_t columns) {
  if (rows < 1 || columns < 1 || rows > MOST || columns > MOST) return;
  int64_t n = which == 2 ? columns : rows, params[] = {rows, columns}, wrong = 0;
  tg_argument a[] = {{x, (size_t)(rows * columns) * sizeof *x}, {y, (size_t)n * sizeof *y}};
  for (int64_t i = 0; i <= n; i++) y[i] = -1000;
  tg_launch l = {.buffers = a, .buffers_n = 2, .params = params, .params_n = 2, .threads = -1};
  CHECK(tg_kernel_run(k, &l) == TG_OK, "%s", tg_error_message(k->context));
  for (int64_t i = 0; i < n; i++) wrong += y[i] != expected(which, rows, columns, i);
  CHECK(!wrong && y[n] == -1000, "%s: %lld of %lld are wrong at %lld x %lld", k->info.name, (long long)wrong,
        (long long)n, (long long)rows, (long long)columns);
}

/* Around each end of each part. */
static void check(tg_kernel *k, int which) {
  int64_t at[2][4 * TG_REGIONS + 4] = {{1, 7, 100, MOST}, {1, 7, 100, MOST}};
  uint32_t n = 4;
  for (uint32_t i = 0; i < k->versions_n; i++, n += 4)
    for (uint32_t d = 0; d < 2; d++) {
      const tg_span *s = &k->version[i].size[d];
      at[d][n] = s->lo - 1, at[d][n + 1] = s->lo, at[d][n + 2] = s->hi, at[d][n + 3] = s->hi + 1;
    }
  for (uint32_t i = 0; i < n; i++)
    for (uint32_t j = 0; j < n; j++) check_at(k, which, at[0][i], at[1][j]);
}

static tg_kernel *compiled(tg_context *c, int which, uint32_t flags) {
  tg_compile_options o = {.flags = flags};
  tg_kernel *k = NULL;
  CHECK(tg_kernel_compile_text(c, "open", text[which], &o, &k) == TG_OK, "%s", tg_error_message(c));
  return k;
}

static tg_status refuse(void *user, const tg_kernel_source *s, tg_kernel **out) {
  (void)s, (void)out, ++*(int *)user;
  return TG_EINVAL;
}

static tg_status again(void *user, const tg_kernel_source *s, tg_kernel **out) {
  tg_compile_options o = *s->options;
  o.flags |= TG_COMPILE_NO_CACHE;
  return tg_kernel_compile_text(user, s->file, s->text, &o, out);
}

/* Parts that are given: words that are good, the same ones again, and words that nothing has. */
static void given_parts(tg_context *c) {
  static const char division[] = "1 4 1 4096 0 0 0 0 split d 4 as p q; unroll q\n"
                                 "5 9 3 20 0 0 0 0 \n"
                                 "5 9 100 4096 0 0 0 0 split d 4 as p q; unroll q\n";
  static const char text_of_wrong[] = "1 4 1 4096 0 0 0 0 split nothing 4\n";
  tg_compile_options o = {0};
  tg_kernel_source s = {.file = "open", .text = text[0], .options = &o};
  int asked = 0;
  tg_kernel *k = compiled(c, 0, TG_COMPILE_ONE | TG_COMPILE_NO_CACHE);
  CHECK(!k->versions_n, "one code was asked for");
  tg_kernel_divide(k, &s, division, again, c);
  CHECK(k->versions_n == 3 && k->version[2].again && k->version[2].loaded == k->version[0].loaded, "%u parts",
        k->versions_n);
  const int64_t in_first[] = {4, 500}, in_third[] = {9, 100}, in_none[] = {10, 500}, negative[] = {-1, 3};
  CHECK(tg_kernel_for(k, in_first, 2) == k->version[0].loaded &&
            tg_kernel_for(k, in_third, 2) == k->version[0].loaded &&
            tg_kernel_for(k, in_none, 2) == k->loaded && tg_kernel_for(k, negative, 2) == k->loaded &&
            tg_kernel_for(k, in_first, 1) == k->loaded,
        "another code");
  check(k, 0);
  tg_kernel_free(k);
  k = compiled(c, 0, TG_COMPILE_ONE | TG_COMPILE_NO_CACHE);
  tg_kernel_divide(k, &s, text_of_wrong, again, c);
  CHECK(!k->versions_n, "words that nothing has");
  tg_kernel_divide(k, &s, division, refuse, &asked);
  CHECK(!k->versions_n && asked == 1, "a part that was refused");
  check(k, 0);
  tg_kernel_free(k);
}

int main(void) {
  char folder[TEST_PATH] = "tg-divided-XXXXXX", command[TEST_PATH + 32];
  CHECK(test_folder(folder) != NULL, "no folder");
  tg_context *c = NULL, *reader = NULL;
  tg_context_options o = {.target = test_target(), .threads = 2, .cache = folder, .tuned = ""};
  uint32_t parts = 0;
  for (int i = 0; i < MOST * MOST; i++) x[i] = (float)(i % 7 - 3);
  CHECK(tg_context_create(&o, &c) == TG_OK && tg_context_create_runtime(&o, &reader) == TG_OK, "no context");
  for (int t = 0; t < TEXTS; t++) {
    tg_kernel *k = compiled(c, t, 0), *found = compiled(reader, t, 0);
    check(k, t), check(found, t);
    CHECK(found->versions_n == k->versions_n, "%u parts of %u are found", found->versions_n, k->versions_n);
    for (uint32_t i = 0; i < k->versions_n && i < found->versions_n; i++)
      CHECK(!memcmp(found->version[i].size, k->version[i].size, sizeof k->version[i].size), "part %u", i);
    parts += k->versions_n;
    tg_kernel_free(k), tg_kernel_free(found);
  }
  CHECK(parts, "no kernel was divided");
  given_parts(c);
  tg_context_free(c), tg_context_free(reader);
  snprintf(command, sizeof command, "rm -rf '%s'", folder);
  CHECK(!system(command), "the folder stays");
  return TEST_END();
}
