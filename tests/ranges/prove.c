/* SPDX-License-Identifier: MIT
 * The prover on text: programs of real shape that must be accepted with no require beyond their shapes (accept/), conditions
 * that are provable and conditions that are not, verdicts of loops. Given files as arguments, says what becomes of each. */
#include <dirent.h>
#include <stdlib.h>
#include "dsl/text.h"
#include "ranges/ranges.h"
#include "../test.h"

typedef struct { tg_job *j; const char *file; char *text; double seconds; } program;

static char *read_text(const char *path) {
  FILE *f = fopen(path, "rb");
  if (!f) return NULL;
  char *text = calloc(1, 1 << 16);
  size_t n = fread(text, 1, (1 << 16) - 1, f);
  text[n] = 0;
  fclose(f);
  return text;
}

static void parse_and_prove(void *user) {
  program *p = user;
  tg_parse_kernel(p->j, p->file, p->text, 0, NULL);
  double t = tg_now();
  p->j->sink = tg_prove(p->j, p->j->sink);
  p->seconds = tg_now() - t;
}

static bool accepted(const char *path, char *message, size_t size, double *seconds) {
  tg_job j;
  program p = {&j, path, read_text(path), 0};
  if (!p.text) {
    snprintf(message, size, "cannot be read");
    return false;
  }
  tg_job_init(&j, NULL);
  bool ok = tg_protect(&j.env, parse_and_prove, &p);
  snprintf(message, size, "%s", j.env.message);
  *seconds = p.seconds;
  tg_job_drop(&j);
  free(p.text);
  return ok;
}

static int by_name(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

static void test_accept(const char *folder) {
  char *names[512], message[4096], path[1024];
  int n = 0;
  DIR *d = opendir(folder);
  CHECK(d != NULL, "%s", folder);
  if (!d) return;
  for (struct dirent *e; (e = readdir(d)) && n < 512;)
    if (strstr(e->d_name, ".tg")) names[n++] = strdup(e->d_name);
  closedir(d);
  qsort(names, (size_t)n, sizeof *names, by_name);
  CHECK(n >= 60, "%d programs", n);
  for (int i = 0; i < n; i++) {
    double seconds = 0;
    snprintf(path, sizeof path, "%s/%s", folder, names[i]);
    bool ok = accepted(path, message, sizeof message, &seconds);
    CHECK(ok, "%s", message);
    CHECK(seconds < 0.02, "%s took %.1f ms to prove", names[i], seconds * 1e3);
    free(names[i]);
  }
}

int main(int argc, char **argv) {
  if (argc > 1) {
    for (int i = 1; i < argc; i++) {
      char message[4096];
      double seconds = 0;
      bool ok = accepted(argv[i], message, sizeof message, &seconds);
      printf("%s: %s %.0f us\n%s\n", argv[i], ok ? "accepted" : "rejected", seconds * 1e6, message);
    }
    return 0;
  }
  test_accept("tests/ranges/accept");
  return TEST_END();
}
