/* SPDX-License-Identifier: MIT
 * What peers are known to reach on a class of machine, as parts of its FMA peak: a run in which one is below 0.9 of that measures a peer that
 * is badly built or badly placed, and is void. The table is text: PEER | CASE | THREADS | PART, a line each; '#' begins a comment. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "bench/bench.h"

static bool line_of(const char *line, const char *key, double *part) {
  size_t n = strlen(key);
  return !strncmp(line, key, n) && sscanf(line + n, "%lf", part) == 1;
}

bool bench_expected(const char *path, bool update, const char *peer, const char *name, int threads, double part) {
  char key[160];
  size_t bytes;
  double known = 0;
  bool found = false;
  snprintf(key, sizeof key, "%s | %s | %d | ", peer, name, threads);
  char *text = tool_read(path, &bytes);
  for (char *line = text; line && *line; line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL) found |= !found && line_of(line, key, &known);
  free(text);
  if (update && !found) {
    FILE *f = fopen(path, "a");
    if (!f || fprintf(f, "%s%.3f\n", key, part) < 0) fprintf(stderr, "tg bench gemm: %s: cannot be written\n", path);
    if (f) fclose(f);
  }
  if (!found || part >= 0.9 * known) return true;
  fprintf(stderr, "tg bench gemm: void: %s reaches %.3f of the FMA peak in %s on %d thread%s, and %.3f is known of it (%s)\n", peer, part, name, threads, threads > 1 ? "s" : "", known, path);
  return false;
}
