/* SPDX-License-Identifier: MIT
 * Programs that must be rejected: each .tg file of the folder ends with a comment, "error:" and the exact message that it must give.
 * What the parser accepts goes on to the prover. The folder is the first argument, or tests/dsl/reject. */
#include <dirent.h>
#include <stdlib.h>
#include "dsl/text.h"
#include "ranges/ranges.h"
#include "test.h"

typedef struct { tg_job job; const char *file, *text; } attempt;

static void parse_and_prove(void *user) {
  attempt *a = user;
  tg_parse_kernel(&a->job, a->file, a->text, 0, NULL);
  tg_prove(&a->job, a->job.sink);
}

static void check_file(tg_env *e, const char *folder, const char *name) {
  attempt a = {.file = name};
  size_t bytes;
  char *text = tg_read_file(e, tg_format(e, "%s/%s", folder, name), &bytes), *mark = NULL;
  CHECK(text != NULL, "%s cannot be read", name);
  for (char *m = text; m && (m = strstr(m, "/* error:\n")); m++) mark = m;
  CHECK(mark != NULL, "%s says no error", name);
  if (!mark) return;
  char *want = mark + strlen("/* error:\n"), *end = strstr(want, "\n*/");
  CHECK(end != NULL, "%s: the comment does not end", name);
  if (!end) return;
  *end = 0;
  *mark = 0;
  a.text = text;
  tg_job_init(&a.job, NULL);
  bool ok = tg_protect(&a.job.env, parse_and_prove, &a);
  CHECK(!ok, "%s is accepted", name);
  if (!ok) {
    CHECK(a.job.env.status == TG_EINVAL, "%s: status %d", name, (int)a.job.env.status);
    CHECK_TEXT(a.job.env.message, want);
  }
  tg_job_drop(&a.job);
}

static int by_name(const void *a, const void *b) { return strcmp(*(const char *const *)a, *(const char *const *)b); }

static void check_folder(void *user) {
  struct { tg_env e; const char *folder; } *u = user;
  DIR *d = opendir(u->folder);
  CHECK(d != NULL, "%s cannot be opened", u->folder);
  if (!d) return;
  TG_VEC(const char *) names = {0};
  for (struct dirent *x; (x = readdir(d));)
    if (strlen(x->d_name) > 3 && !strcmp(x->d_name + strlen(x->d_name) - 3, ".tg")) tg_push(&u->e, &names, tg_strdup(&u->e, x->d_name));
  closedir(d);
  CHECK(names.n > 0, "no files in %s", u->folder);
  if (names.n) qsort(names.data, names.n, sizeof *names.data, by_name);
  for (uint32_t i = 0; i < names.n; i++) check_file(&u->e, u->folder, names.data[i]);
}

int main(int argc, char **argv) {
  struct { tg_env e; const char *folder; } u = {.folder = argc > 1 ? argv[1] : "tests/dsl/reject"};
  tg_env_init(&u.e, NULL);
  CHECK(tg_protect(&u.e, check_folder, &u), "%s", u.e.message);
  tg_env_drop(&u.e);
  return TEST_END();
}
