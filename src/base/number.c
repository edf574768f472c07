/* SPDX-License-Identifier: MIT
 * Numbers as text in the C locale, whatever locale the program has set: others have a decimal comma, and would read 1.5
 * as 1. */
#define _GNU_SOURCE
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include "base/base.h"

/* The C locale, in use by this thread until give_back. plain NULL: no memory; the thread keeps its locale. */
typedef struct { locale_t plain, before; } borrowed;

static borrowed plain_locale(void) {
  borrowed b = {.plain = newlocale(LC_ALL_MASK, "C", (locale_t)0)};
  if (b.plain) b.before = uselocale(b.plain);
  return b;
}

static void give_back(borrowed b) {
  if (!b.plain) return;
  uselocale(b.before);
  freelocale(b.plain);
}

double tg_read_double(const char *text, char **end) {
  borrowed b = plain_locale();
  double v = strtod(text, end);
  give_back(b);
  return v;
}

int tg_print_double(char *out, size_t bytes, int digits, double v) {
  borrowed b = plain_locale();
  int n = snprintf(out, bytes, "%.*g", digits, v);
  give_back(b);
  return n;
}
