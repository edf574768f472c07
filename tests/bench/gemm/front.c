/* SPDX-License-Identifier: MIT
 * cblas_sgemm of libtg_blas.so and of other libraries, called from C, in turns on the same operands:
 *   front THREADS SECONDS SHAPES tg=FILE NAME=FILE ..
 * SHAPES: lines of class, M, N, K and transposes, as of tg bench gemm; SECONDS for each. A ratio is the time of the
 * fastest other library over that of the first, by medians; classes have their geometric mean and the least. Results
 * are whole numbers, and compared. front.sh beside it builds this, and says how many threads to each library. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { LIBRARIES = 8, ROUNDS = 31, LEAST = 3, ROWS = 101, AS_IS = 111, TRANSPOSED = 112 };
static const double shortest = 0.002, rest = 0.06;   /* seconds: of a sample; until workers of others sleep */

typedef void (*sgemm)(int, int, int, int, int, int, float, const float *, int, const float *, int, float, float *, int);
typedef void (*sgemm_64)(int, int, int, int64_t, int64_t, int64_t, float, const float *, int64_t, const float *,
                         int64_t, float, float *, int64_t);
typedef int (*dnnl)(char, char, int64_t, int64_t, int64_t, float, const float *, int64_t, const float *, int64_t, float,
                    float *, int64_t);
typedef struct { const char *name; void *plain, *wide, *dnnl; float *c; double sample[ROUNDS]; int repeat; } library;
typedef struct { char class[32], transposes[8]; int m, n, k; float *a, *b; } shape;
typedef struct { char name[32]; double logs, least; int n; } tally;

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int by_size(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static float *numbers(size_t n, uint32_t seed) {
  float *x = aligned_alloc(4096, (n * sizeof *x + 4095) / 4096 * 4096);
  for (size_t i = 0; x && i < n; i++) seed = seed * 1664525u + 1013904223u, x[i] = (float)((int)(seed >> 24) % 7 - 3);
  return x;
}

static bool open_library(library *l, char *argument) {
  char *file = strchr(argument, '=');
  if (!file) return false;
  *file++ = 0;
  void *at = dlopen(file, RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND);
  *l = (library){.name = argument};
  if (!at) return fprintf(stderr, "front: %s\n", dlerror()), false;
  l->dnnl = dlsym(at, "dnnl_sgemm"), l->plain = dlsym(at, "cblas_sgemm");
  if (!l->plain) l->wide = dlsym(at, "scipy_cblas_sgemm64_");
  return l->dnnl || l->plain || l->wide;
}

static void run(const library *l, const shape *s) {
  int ta = s->transposes[0] == 'T', tb = s->transposes[1] == 'T', lda = ta ? s->m : s->k, ldb = tb ? s->k : s->n;
  if (l->plain)
    ((sgemm)(uintptr_t)l->plain)(ROWS, ta ? TRANSPOSED : AS_IS, tb ? TRANSPOSED : AS_IS, s->m, s->n, s->k, 1, s->a, lda,
                                 s->b, ldb, 0, l->c, s->n);
  else if (l->wide)
    ((sgemm_64)(uintptr_t)l->wide)(ROWS, ta ? TRANSPOSED : AS_IS, tb ? TRANSPOSED : AS_IS, s->m, s->n, s->k, 1, s->a,
                                   lda, s->b, ldb, 0, l->c, s->n);
  else ((dnnl)(uintptr_t)l->dnnl)(ta ? 'T' : 'N', tb ? 'T' : 'N', s->m, s->n, s->k, 1, s->a, lda, s->b, ldb, 0, l->c,
                                  s->n);
}

static double time_of(const library *l, const shape *s, int repeat) {
  double begin = now();
  for (int i = 0; i < repeat; i++) run(l, s);
  return (now() - begin) / repeat;
}

/* First calls, which may compile; whether results are the same; how many runs a sample has. */
static bool begin(library *all, int n, const shape *s) {
  size_t size = (size_t)s->m * (size_t)s->n;
  bool same = true;
  for (int l = 0; l < n; l++) {
    all[l].c = numbers(size, 3);
    run(&all[l], s);
    same = same && !memcmp(all[l].c, all[0].c, size * sizeof *all[l].c);
    all[l].repeat = 1;
    for (double t; (t = time_of(&all[l], s, all[l].repeat) * all[l].repeat) < shortest;) all[l].repeat *= 2;
  }
  return same;
}

static double compare(library *all, int n, const shape *s, int threads, double seconds) {
  int rounds = 0;
  double end = now() + seconds, best = INFINITY, median[LIBRARIES] = {0};
  for (; rounds < ROUNDS && (rounds < LEAST || now() < end); rounds++)
    for (int i = 0; i < n; i++) {
      library *l = &all[(i + rounds) % n];
      if (threads > 1) nanosleep(&(struct timespec){.tv_nsec = (long)(rest * 1e9)}, NULL);
      run(l, s);
      l->sample[rounds] = time_of(l, s, l->repeat);
    }
  for (int l = 0; l < n; l++) {
    qsort(all[l].sample, (size_t)rounds, sizeof *all[l].sample, by_size);
    median[l] = all[l].sample[rounds / 2];
    if (l) best = fmin(best, median[l]);
  }
  printf("%-8s %5d %5d %5d %s %10.2f us %7.1f GFLOP/s", s->class, s->m, s->n, s->k, s->transposes, median[0] * 1e6,
         2e-9 * s->m * s->n * s->k / median[0]);
  for (int l = 1; l < n; l++) printf("  %s %.2f", all[l].name, median[l] / median[0]);
  printf("  ratio %.3f\n", best / median[0]);
  return best / median[0];
}

static void sum_up(tally *t) {
  if (t->n) printf("%s: geometric mean %.3f, least %.3f, of %d\n", t->name, exp(t->logs / t->n), t->least, t->n);
  *t = (tally){.least = INFINITY};
}

int main(int argc, char **argv) {
  library all[LIBRARIES];
  tally t = {.least = INFINITY};
  int n = 0, wrong = 0;
  char line[200];
  FILE *file = argc > 5 ? fopen(argv[3], "r") : NULL;
  if (!file) return fprintf(stderr, "front THREADS SECONDS SHAPES tg=FILE NAME=FILE ..\n"), 2;
  for (int i = 4; i < argc && n < LIBRARIES; i++) n += open_library(&all[n], argv[i]);
  while (n > 1 && fgets(line, sizeof line, file)) {
    shape s = {.transposes = "NN"};
    if (*line == '#' || sscanf(line, "%31s %d %d %d %7s", s.class, &s.m, &s.n, &s.k, s.transposes) < 4) continue;
    if (strcmp(s.class, t.name)) sum_up(&t), memcpy(t.name, s.class, sizeof t.name);
    s.a = numbers((size_t)s.m * (size_t)s.k, 1), s.b = numbers((size_t)s.k * (size_t)s.n, 2);
    if (!begin(all, n, &s)) printf("results differ:\n"), wrong = 1;
    double ratio = compare(all, n, &s, atoi(argv[1]), atof(argv[2]));
    t.logs += log(ratio), t.least = fmin(t.least, ratio), t.n++;
    fflush(stdout);
    free(s.a), free(s.b);
    for (int l = 0; l < n; l++) free(all[l].c);
  }
  sum_up(&t);
  fclose(file);
  return wrong || n < 2;
}
