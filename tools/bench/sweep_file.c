/* SPDX-License-Identifier: MIT
 * The file of a sweep: a line of JSON for each point that was lowered, for each new word of the model on it, and for
 * each time. Later lines count. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include "bench/sweep.h"

void sweep_add(sweep *s, const sweep_point *p, bool record) {
  if (s->n == s->cap) {
    s->cap = s->cap ? 2 * s->cap : 1024;
    s->point = realloc(s->point, s->cap * sizeof *s->point);
    if (!s->point) exit(TOOL_BROKEN);
  }
  s->point[s->n++] = *p;
  if (!record) return;
  const tg_sketch *k = &s->space.sketch[p->sketch];
  fprintf(s->file, "{\"point\":%u,\"hash\":\"%016llx\",\"model\":%.6g,\"sketch\":\"%s\",\"knobs\":[", s->n - 1,
          (unsigned long long)p->hash, p->model, k->name);
  for (uint32_t i = 0; i < k->knobs; i++) fprintf(s->file, "%s%lld", i ? "," : "", (long long)p->knob[i]);
  fputs("]}\n", s->file);
}

void sweep_record_model(sweep *s, uint32_t i) {
  const tg_cost *c = &s->point[i].cost;
  fprintf(s->file, "{\"point\":%u,\"model\":%.6g,\"core\":%.6g,\"memory\":%.6g,\"chain\":%.6g,\"spills\":%.6g,", i,
          c->seconds, c->core, c->memory, c->chain, c->spills);
  fprintf(s->file, "\"bytes\":[%.6g,%.6g,%.6g],\"code\":%.6g}\n", c->l2_bytes, c->l3_bytes, c->memory_bytes, c->code);
}

void sweep_record_time(sweep *s, uint32_t i) {
  const sweep_point *p = &s->point[i];
  fprintf(s->file, "{\"point\":%u,\"ratio\":%.6g,\"quads\":%u,\"failed\":%d}\n", i, p->ratio, p->quads, p->failed);
}

void sweep_record_legal(sweep *s) { fprintf(s->file, "{\"legal\":%u}\n", s->legal); }

/* A line of a point: its sketch by name, its knobs in order. */
static bool read_point(const sweep *s, const char *line, sweep_point *p) {
  unsigned n;
  unsigned long long hash;
  char name[64];
  int at = 0;
  *p = (sweep_point){0};
  if (sscanf(line, "{\"point\":%u,\"hash\":\"%llx\",\"model\":%lf,\"sketch\":\"%63[^\"]\",\"knobs\":[%n", &n, &hash,
             &p->model, name, &at) != 4 ||
      !at || n != s->n)
    return false;
  p->hash = hash;
  while (p->sketch < s->space.sketches && strcmp(s->space.sketch[p->sketch].name, name)) p->sketch++;
  if (p->sketch == s->space.sketches) return false;
  for (uint32_t i = 0; i < s->space.sketch[p->sketch].knobs; i++) {
    char *end;
    p->knob[i] = strtoll(line + at, &end, 10);
    if (end == line + at) return false;
    at = (int)(end - line) + 1;
  }
  return true;
}

bool sweep_load(sweep *s) {
  FILE *f = fopen(s->path, "r");
  char line[1024] = "\n";
  for (int at = 1; f && fgets(line, sizeof line, f); at++) {
    sweep_point p;
    unsigned i, quads;
    int failed;
    double x;
    if (read_point(s, line, &p)) sweep_add(s, &p, false);
    else if (sscanf(line, "{\"point\":%u,\"model\":%lf", &i, &x) == 2 && i < s->n) s->point[i].model = x;
    else if (sscanf(line, "{\"point\":%u,\"ratio\":%lf,\"quads\":%u,\"failed\":%d", &i, &x, &quads, &failed) == 4 &&
             i < s->n) {
      sweep_point *t = &s->point[i];
      t->timed = true, t->ratio = x, t->quads = quads, t->failed = failed;
    } else if (sscanf(line, "{\"legal\":%u", &i) == 1) s->legal = i;
    else fprintf(stderr, "tg bench tune: %s:%d is not understood and left out\n", s->path, at);
  }
  if (f) fclose(f);
  s->file = fopen(s->path, "a");
  if (s->file && !strchr(line, '\n')) fputc('\n', s->file);   /* whoever wrote it was stopped */
  if (!s->file) fprintf(stderr, "tg bench tune: %s cannot be written: %s\n", s->path, strerror(errno));
  return s->file != NULL;
}
