/* SPDX-License-Identifier: MIT
 * Claims about figures of a launch, as lists of them say: "A / B at most 2.5, C at most 3". Included by each test of
 * such a list, as ../test.h counts checks by file. */
#ifndef TG_TEST_CLAIMS_H
#define TG_TEST_CLAIMS_H
#include <stdbool.h>
#include <stdlib.h>
#include "../test.h"
#include "../library/kit.h"
#include "tg/tg.h"

enum { CLAIM_SIZES = 8 };

/* "A / B at most 2.5" */
static void claim(const char *where, char *text, bool report, bool (*figure)(const void *, const char *, double *),
                  const void *user) {
  char *most = strstr(text, " at most "), *over = strstr(text, " / ");
  double value = 0, by = 1, limit;
  CHECK(most, "%s: '%s' says no 'at most'", where, text);
  if (!most) return;
  *most = 0;
  limit = atof(most + 9);
  if (over && over < most)
    *over = 0;
  else
    over = NULL;
  const char *mark = over ? " / " : "", *below = over ? over + 3 : "";
  bool known = figure(user, text, &value) && (!over || figure(user, below, &by));
  CHECK(known, "%s: no figure '%s'%s%s", where, text, over ? " or " : "", below);
  if (!known) return;
  if (report) printf("%s: %s%s%s: %.3f, at most %g\n", where, text, mark, below, value / by, limit);
  CHECK(by > 0 && value > 0 && value / by <= limit * 1.0001, "%s: %s%s%s is %.3f, at most %g", where, text, mark, below,
        value / by, limit);
}

/* Checks them all, and writes zeros into the text. figure: false if there is none of that name. */
static void claims_check(const char *where, char *text, bool report,
                         bool (*figure)(const void *, const char *, double *), const void *user) {
  for (char *at = text, *next; at; at = next) {
    next = strstr(at, ", ");
    if (next) *next = 0, next += 2;
    claim(where, at + strspn(at, " "), report, figure, user);
  }
}

/* "M=64 N=32": how many there are. Their names last until the next call. */
static uint32_t claims_sizes(const char *text, tg_binding size[CLAIM_SIZES]) {
  static char name[CLAIM_SIZES][32];
  uint32_t sizes = 0;
  long long v;
  int n;
  for (; sizes < CLAIM_SIZES && sscanf(text, " %31[A-Za-z0-9_]=%lld%n", name[sizes], &v, &n) == 2; text += n) {
    size[sizes] = (tg_binding){name[sizes], v, v, 1};
    sizes++;
  }
  return sizes;
}

/* The program of a file, at these sizes. Its text lasts until the next call. */
static void claims_program(kit_code *code, tg_binding size[CLAIM_SIZES], const char *path, const char *sizes) {
  static char text[1 << 16];
  FILE *f = fopen(path, "rb");
  size_t n = f ? fread(text, 1, sizeof text - 1, f) : 0;
  if (f) fclose(f);
  CHECK(n, "%s cannot be read", path);
  text[n] = 0;
  code->text = text, code->where = path;
  code->size = size, code->sizes = claims_sizes(sizes, size);
}
#endif
