/* SPDX-License-Identifier: MIT
 * A program that has chosen its user's locale, where a number's point is a comma: kernels, schedules, what is printed and what is kept stay what they are.
 *   api_locale NAME ..    those locales (tests/api/locale.sh makes some); without, those that are tried here, and a line if the system has none */
#define _GNU_SOURCE
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <tg/gemm.h>
#include <tg/tg.h>
#include <unistd.h>
#include "../folder.h"
#include "../target.h"
#include "../test.h"
#include "search/search.h"
#include "store/store.h"
#include "search/trial.h"

static const char text[] =
  "kernel k(N = 10) { in(x, f32, [N]); out(y, f32, [N]); range(i, N) y[i] = (x[i + 1] else 0.25) * 1.5 + 2.5e-1f;\n"
  "  opt(split i 5 as io ii); opt(stage x at io as xs[d0] fill=0.25); }";

typedef struct { char all[1 << 18]; size_t n; } kept_text;

static void keep(void *user, const char *stage, const char *what) {
  kept_text *k = user;
  int n = snprintf(k->all + k->n, sizeof k->all - k->n, "%s\n%s\n", stage, what);
  if (n > 0 && k->n + (size_t)n < sizeof k->all) k->n += (size_t)n;
}

/* A search's journal as it lies on the disk, and read again. */
static void journal(kept_text *k, tg_env *env, const char *where) {
  char folder[TEST_PATH] = "tg-locale-XXXXXX", path[TEST_PATH + 16];
  if (!test_folder(folder)) abort();
  snprintf(path, sizeof path, "%s/journal", folder);
  static const uint8_t asked[] = {TG_TASK_LOWER, TG_TASK_BUILD, TG_TASK_TIME};
  tg_point p = {.id = 5, .score = -0.75};
  tg_journal *j = tg_journal_open(env, path, "k", 1, false);
  for (size_t i = 0; i < sizeof asked; i++) {
    tg_task t = {.kind = asked[i], .cost.seconds = 1.5e-6, .seconds = 2.5e-6, .against_seconds = 3.5e-6, .gain = {0.125, -0.25}, .n = 2};
    tg_journal_put(j, &t, &p, 7, NULL);
  }
  tg_journal_end(j, false, 2.5, 12, "why");
  tg_journal_close(j);
  char *lines = tg_read_file(env, path, NULL);
  CHECK(lines != NULL, "%s: a journal", where);
  keep(k, "journal", lines ? lines : "");
  j = tg_journal_open(env, path, "k", 1, true);
  tg_task t = {0};
  CHECK(tg_journal_find(j, TG_TASK_TIME, 5, 7, &t) && t.seconds == 2.5e-6 && t.n == 2 && t.gain[0] == 0.125 && t.gain[1] == -0.25, "%s: a journal read again", where);
  CHECK(tg_journal_ended(j, 2.25, 12) && !tg_journal_ended(j, 2.75, 12), "%s: the budget that it ended with", where);
  tg_journal_close(j);
  unlink(path), rmdir(folder);
}

/* All stages but machine code, the epilogue of a product, a tuned choice as it is kept. */
static void everything(kept_text *k, const char *where) {
  static const char *const stages[] = {"author", "schedule", "linear"};
  tg_context *c = NULL;
  tg_compile_options o = {.flags = TG_COMPILE_NO_CACHE};
  tg_kernel *kernel = NULL;
  float x[10], y[10];
  k->n = 0, k->all[0] = 0;
  CHECK(tg_context_create(&(tg_context_options){.target = test_target()}, &c) == TG_OK, "%s: a context", where);
  for (size_t i = 0; i < sizeof stages / sizeof *stages; i++) CHECK(tg_show_text(c, "locale.tg", text, &o, stages[i], keep, k) == TG_OK, "%s: %s", where, tg_error_message(c));
  CHECK(tg_kernel_compile_text(c, "locale.tg", text, &o, &kernel) == TG_OK, "%s: %s", where, tg_error_message(c));
  for (int i = 0; i < 10; i++) x[i] = (float)i;
  tg_argument args[] = {{x, sizeof x}, {y, sizeof y}};
  CHECK(kernel && tg_kernel_run(kernel, &(tg_launch){.buffers = args, .buffers_n = 2}) == TG_OK, "%s: %s", where, tg_error_message(c));
  for (int i = 0; i < 10; i++) CHECK(y[i] == (i < 9 ? (float)(i + 1) : 0.25f) * 1.5f + 0.25f, "%s: %d: %g", where, i, (double)y[i]);
  tg_kernel_free(kernel);

  tg_gemm *g = NULL;
  float a[4] = {1, 2, 3, 4}, b[4] = {1, 0, 0, 1}, got[4];
  const tg_gemm_desc d = {.m = {2, 0}, .n = {2, 0}, .k = {2, 0}, .epilogue = "acc * 0.5 + 0.25"};
  CHECK(tg_gemm_plan(c, &d, &g) == TG_OK, "%s: %s", where, tg_error_message(c));
  tg_gemm_call call = {.a = a, .b = b, .c = got, .workspace_bytes = g ? tg_gemm_workspace(g, NULL) : 0};
  call.workspace = malloc(call.workspace_bytes + 1);
  CHECK(g && tg_gemm_run(g, &call) == TG_OK, "%s: %s", where, tg_error_message(c));
  for (int i = 0; i < 4; i++) CHECK(got[i] == a[i] * 0.5f + 0.25f, "%s: product %d: %g", where, i, (double)got[i]);
  tg_gemm_free(g);
  free(call.workspace);
  tg_context_free(c);

  tg_env env;
  tg_env_init(&env, NULL);
  tg_str s = tg_str_new(&env);
  tg_tuned t = {.key = "key\n", .kernel = "k", .words = "", .seconds = 1.5e-6, .default_seconds = 2.25e-6, .gain_low = 0.375};
  tg_store_print(&s, &t);
  keep(k, "store", s.data);
  journal(k, &env, where);
  tg_env_drop(&env);
}

static kept_text plain, foreign;

static bool in(const char *name) {
  if (!setlocale(LC_ALL, name)) return false;
  printf("%s: one and a half is %.1f\n", name, 1.5);
  everything(&foreign, name);
  CHECK(foreign.n == plain.n && !memcmp(foreign.all, plain.all, plain.n), "%s: what is printed differs", name);
  setlocale(LC_ALL, "C");
  return true;
}

int main(int argc, char **argv) {
  static const char *const tried[] = {"de_DE.UTF-8", "de_DE.utf8", "fr_FR.UTF-8", "tr_TR.UTF-8", "tr_TR.ISO-8859-9", "ru_RU.UTF-8"};
  int met = 0;
  everything(&plain, "C");
  CHECK(strstr(plain.all, "0.25") && strstr(plain.all, "1.5"), "%s", plain.all);
  for (int i = 1; i < argc; i++) CHECK(in(argv[i]), "there is no locale %s", argv[i]);
  for (size_t i = 0; argc < 2 && i < sizeof tried / sizeof *tried; i++) met += in(tried[i]);
  if (argc < 2 && !met) printf("the system has no locale with a decimal comma: tests/api/locale.sh makes one\n");
  return TEST_END();
}
