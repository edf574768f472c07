/* SPDX-License-Identifier: MIT
 * An operation that is two files (softmax.h, softmax.c) over kernels/kit and trial/placed: sizes that vary, an epilogue
 * with arguments of every kind, threads of the host and of the pool, workspaces, structs of older headers, what is
 * refused, and a candidate between guard pages. */
#include <math.h>
#include <stdlib.h>
#include "../target.h"
#include "../test.h"
#include "softmax.h"
#include "kit/words.h"
#include "trial/placed.h"

enum { ROWS = 40, COLUMNS = 70, LD = COLUMNS + 3 };

static tg_context *context;
static float x[ROWS * COLUMNS], y[ROWS * COLUMNS], by_row[ROWS], by_column[COLUMNS], by_element[ROWS * LD], one = 0.5f;

static double expected(const float *row, int64_t n, int64_t j) {
  double most = -INFINITY, sum = 0;
  for (int64_t k = 0; k < n; k++) most = fmax(most, row[k]);
  for (int64_t k = 0; k < n; k++) sum += exp(row[k] - most);
  return exp(row[j] - most) / sum;
}

/* The tasks one after another, the last first. */
static int tasks;
static void backwards(void *user, int64_t n, void (*task)(void *, int64_t), void *arg) {
  (void)user;
  for (int64_t i = n; i-- > 0; tasks++) task(arg, i);
}

static softmax *plan(const softmax_desc *d) {
  softmax *s = NULL;
  CHECK(softmax_plan(context, d, sizeof *d, &s) == TG_OK, "%s", tg_error_message(context));
  if (!s) exit(1);
  return s;
}

static void check_sizes(const softmax *s, const tg_exec *exec, void *workspace, size_t bytes, float *out) {
  static const int64_t rows[] = {1, 2, 3, 4, 5, 7, 8, 33, ROWS}, columns[] = {1, 3, 4, 8, 17, COLUMNS};
  for (uint32_t a = 0; a < TG_COUNT(rows); a++)
    for (uint32_t b = 0; b < TG_COUNT(columns); b++) {
      int64_t m = rows[a], n = columns[b], wrong = 0;
      softmax_call c = {.rows = m,
                        .columns = n,
                        .x = x,
                        .y = out,
                        .arg = {&one, by_row, by_column, by_element},
                        .arg_ld = {0, 0, 0, LD},
                        .workspace = workspace,
                        .workspace_bytes = bytes,
                        .exec = exec};
      memset(out, 0xff, sizeof y);
      CHECK(softmax_run(s, &c, sizeof c) == TG_OK, "%s", tg_error_message(context));
      for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++) {
          double want = expected(x + i * n, n, j) * by_row[i] + by_column[j] + by_element[i * LD + j] + one + (double)j;
          wrong += !(fabs(out[i * n + j] - want) <= 1e-5 * (1 + fabs(want)));
        }
      CHECK(!wrong, "%lld of %lld x %lld are wrong", (long long)wrong, (long long)m, (long long)n);
      CHECK(m * n == ROWS * COLUMNS || isnan(out[m * n]), "written behind the result of %lld x %lld", (long long)m,
            (long long)n);
    }
}

static void check_threads(void) {
  static float other[ROWS * COLUMNS];
  softmax_desc d = {
      .rows = {1, ROWS}, .columns = {1, COLUMNS}, .threads = 3, .epilogue = "acc * r + c + e + o + f32(n)"};
  const char *const name[] = {"o", "r", "c", "e"};
  for (uint32_t a = 0; a < TG_COUNT(name); a++) d.arg[a] = (tg_kit_given){.name = name[a], .per = (uint8_t)a};
  softmax *s = plan(&d);
  size_t bytes = softmax_workspace(s, NULL);
  void *workspace = malloc(bytes + 1);
  tg_exec exec = {3, backwards, NULL}, fewer = {2, backwards, NULL};
  check_sizes(s, NULL, workspace, bytes, y);
  check_sizes(s, &exec, workspace, bytes, other);
  CHECK(!memcmp(y, other, sizeof y), "the bits depend on who runs the tasks");
  check_sizes(s, &fewer, workspace, bytes, other);
  CHECK(tasks > 0, "the host's threads were not asked");
  CHECK(!memcmp(y, other, sizeof y), "the bits depend on who runs the tasks");
  free(workspace);
  softmax_free(s);
}

static void refused(const softmax *s, softmax_call c, const char *why) {
  CHECK(softmax_run(s, &c, sizeof c) == TG_EINVAL && strstr(tg_error_message(context), why), "%s: %s", why,
        tg_error_message(context));
}

static void check_refusals(void) {
  softmax_desc d = {.rows = {2, ROWS}, .columns = {1, 9000}, .threads = 1};
  softmax *s = plan(&d), *none;
  softmax_call c = {.rows = 2, .columns = 7, .x = x, .y = y};
  size_t bytes = softmax_workspace(s, NULL);
  CHECK(bytes >= 9000 * sizeof(float), "a row of 9000 is kept in %zu bytes", bytes);
  refused(s, (softmax_call){.rows = 1, .columns = 7, .x = x, .y = y}, "1 x 7");
  refused(s, (softmax_call){.rows = 2, .columns = 7, .x = x, .y = x + 1}, "y overlaps x");
  refused(s, (softmax_call){.rows = 2, .columns = 7, .y = y}, "x is NULL");
  refused(s, (softmax_call){.rows = 2, .columns = 7, .x = (float *)((char *)x + 1), .y = y}, "x is not aligned");
  refused(s, c, "workspace has 0 bytes");
  c.workspace = malloc(bytes), c.workspace_bytes = bytes;
  CHECK(softmax_run(s, &c, sizeof c) == TG_OK, "%s", tg_error_message(context));
  CHECK(softmax_run(s, &c, offsetof(softmax_call, exec)) == TG_OK, "a struct of an older header: %s",
        tg_error_message(context));
  free(c.workspace);
  softmax_free(s);
  softmax_desc bad = {.rows = {4, 0}, .columns = {4, 0}, .epilogue = "acc", .arg = {{.name = "m"}}};
  CHECK(softmax_plan(context, &bad, sizeof bad, &none) == TG_EINVAL &&
            strstr(tg_error_message(context), "softmax_desc.arg[0]: 'm'"),
        "%s", tg_error_message(context));
  bad = (softmax_desc){.rows = {4, 2}, .columns = {4, 0}};
  CHECK(softmax_plan(context, &bad, sizeof bad, &none) == TG_EINVAL && !none, "a range of 4..2 rows");
  bad = (softmax_desc){.rows = {4, 0}, .columns = {4, 0}, .threads = -2};
  CHECK(softmax_plan(context, &bad, sizeof bad, &none) == TG_EINVAL && !none, "-2 threads");
}

/* As checks of an operation are made: sizes around what the words cut by, operands up against pages without access,
 * numbers from a seed. */
static void check_between_pages(void) {
  static tg_places places;
  softmax_desc d = {.rows = {1, ROWS}, .columns = {1, COLUMNS}, .threads = 1};
  softmax *s = plan(&d);
  tg_cuts cuts = {.state = 7};
  int64_t numbers[TG_CUT_NUMBERS];
  tg_env env;
  tg_env_init(&env, NULL);
  tg_places_init(&places);
  tg_cuts_add(&cuts, numbers, tg_numbers_in("split j {8, 1} as jo jl; split i 3 as io il", numbers, TG_CUT_NUMBERS));
  CHECK(cuts.n == 3 && cuts.cut[0] == 8 && cuts.cut[1] == 24 && cuts.cut[2] == 3, "%u numbers", cuts.n);
  for (uint64_t seed = 1; seed <= 24; seed++) {
    int64_t m = tg_cuts_size(&cuts, 1, ROWS), n = tg_cuts_size(&cuts, 1, COLUMNS), wrong = 0;
    uint64_t state = seed;
    double *data = tg_new(&env, double, m * n);
    tg_lying l = {m, n, n, 1};
    char text[160];
    for (int64_t i = 0; i < m * n; i++) data[i] = 4 * tg_draw_unit(&state, TG_F32);
    tg_place_input(&places, &env, 0, "x", TG_F32, &l, data, seed % 2);
    tg_place_result(&places, &env, 1, "y", TG_F32, &l, NULL, seed % 2);
    tg_places_seal(&places);
    const float *in = (const float *)(const void *)places.part[0].in.data;
    const char *out = places.part[1].in.data;
    softmax_call c = {.rows = m, .columns = n, .x = in, .y = (float *)(void *)places.part[1].in.data};
    CHECK(softmax_run(s, &c, sizeof c) == TG_OK, "%s", tg_error_message(context));
    for (int64_t i = 0; i < m * n; i++)
      wrong += !(fabs(tg_number_get(TG_F32, out, (size_t)i) - expected(in + i / n * n, n, i % n)) < 1e-6);
    CHECK(!wrong && !tg_places_changed(&places, 1), "%lld x %lld: %lld wrong", (long long)m, (long long)n,
          (long long)wrong);
    CHECK(!tg_place_disturbed(&places, 1, TG_F32, &l, text, sizeof text), "%s", text);
    if (seed == 24) {
      places.part[1].in.room[seed % 2 ? places.part[1].in.room_bytes - 1 : 0] ^= 1;
      CHECK(tg_place_disturbed(&places, 1, TG_F32, &l, text, sizeof text) && strstr(text, "before y"),
            "a byte beside the result is not noticed");
      places.part[0].in.data[0] ^= 1;
      CHECK(!strcmp(tg_places_changed(&places, 1), "x"), "an input that changed is not noticed");
      CHECK(tg_places_at(&places, out + m * n * 4 + 5, text, sizeof text) &&
                !strcmp(text, "5 bytes behind the end of y"),
            "%s", text);
    }
    tg_places_drop(&places);
  }
  tg_env_drop(&env);
  softmax_free(s);
}

/* Words with names of so many letters: what is too long for one word must not become another by being cut off. */
TG_KERNEL(long_word, N) {
  char name[160] = "";
  memset(name, 'a', *(const size_t *)tg_user);
  tg_in(X, f32, [N]);
  tg_out(Y, f32, [N]);
  tg_range(i, N) tg(Y[i] = X[i]);
  tg_kit_word(tg_b_, "split i 4 as %s b%s", name, name);
}

static void check_long_words(void) {
  static const size_t letters[] = {8, 150};
  for (uint32_t i = 0; i < TG_COUNT(letters); i++) {
    tg_kernel *k = NULL;
    tg_compile_options o = {.bindings = &(tg_binding){"N", 8, 8, 1}, .bindings_n = 1, .user = (void *)&letters[i]};
    tg_status s = tg_kernel_compile(context, &long_word, &o, &k);
    CHECK(s == (i ? TG_EINVAL : TG_OK), "%zu letters: status %d, %s", letters[i], (int)s, tg_error_message(context));
    CHECK(!i || strstr(tg_error_message(context), "(too long)"), "%s", tg_error_message(context));
    if (k) tg_kernel_free(k);
  }
}

int main(void) {
  tg_context_options o = {.threads = 3, .target = test_target()};
  if (tg_context_create(&o, &context)) return 1;
  uint64_t state = 1;
  for (int i = 0; i < ROWS * COLUMNS; i++) x[i] = (float)tg_draw_unit(&state, TG_F32) * 5;
  for (int i = 0; i < ROWS; i++) by_row[i] = (float)tg_draw_unit(&state, TG_F32);
  for (int i = 0; i < COLUMNS; i++) by_column[i] = (float)tg_draw_unit(&state, TG_F32);
  for (int i = 0; i < ROWS * LD; i++) by_element[i] = (float)tg_draw_unit(&state, TG_F32);
  check_threads();
  check_refusals();
  check_long_words();
  check_between_pages();
  tg_context_free(context);
  return TEST_END();
}
