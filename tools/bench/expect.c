/* SPDX-License-Identifier: MIT
 * What peers are known to reach on a class of machine, as parts of what the machine can do, both measured in one run: a
 * run in which a peer is below 0.9 of that measures
 * one that is badly built or badly placed, and is void. The table is text: PEER | CASE | THREADS | PART, a line each;
 * '#' begins a comment. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "bench/bench.h"

static void key_of(const char *peer, const char *name, int threads, char *out, size_t n) {
  snprintf(out, n, "%s | %s | %d | ", peer, name, threads);
}

double bench_expected(const char *path, const char *peer, const char *name, int threads) {
  char key[160];
  double part = 0;
  char *text = tool_read(path, NULL);
  key_of(peer, name, threads, key, sizeof key);
  for (char *line = text; line && *line && part <= 0; line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL)
    if (strncmp(line, key, strlen(key)) || sscanf(line + strlen(key), "%lf", &part) != 1) part = 0;
  free(text);
  return part;
}

void bench_expect(const char *path, const char *peer, const char *name, int threads, double part) {
  char key[160];
  FILE *f = fopen(path, "a");
  key_of(peer, name, threads, key, sizeof key);
  if (!f || fprintf(f, "%s%.3f\n", key, part) < 0) fprintf(stderr, "tg bench gemm: %s: cannot be written\n", path);
  if (f) fclose(f);
}
