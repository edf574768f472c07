/* SPDX-License-Identifier: MIT
 * Many kernels and many threads: 2,000 kernels compiled and freed leave the process as large as it was; eight threads compile, run,
 * fail and free at once, in one context and in contexts of their own, on one pool, and every result is right.
 *   threads [KERNELS]      default 2000; under sanitizers 200, where memory grows whatever we do */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>
#include "../target.h"
#include "../folder.h"
#include "../test.h"
#include "kit.h"

enum { THREADS = 8 };

static const char *const texts[] = {
  "kernel a(M, N) { in(x, f32, [M, N]); out(y, f32, [M, N]); range(i, M) range(j, N) y[i,j] = x[i,j] * 2 + 1; }",
  "kernel b(M, N) { in(x, f32, [M, N]); out(y, f32, [N, M]); range(i, M) range(j, N) y[j,i] = x[i,j]; opt(thread i); }",
  "kernel c(M, N) { in(x, f32, [M, N]); out(y, f32, [M]); range(i, M) y[i] = sum(j : N, x[i,j]); opt(thread i); }",
  "kernel d(M, N) { in(x, f32, [M, N]); out(y, f32, [M, M]); range(i, M) range(j, M) y[i,j] = sum(k : N, x[i,k] * x[j,k]); }",
};
enum { TEXTS = sizeof texts / sizeof *texts };

static tg_kernel *compile(tg_context *c, int text, int64_t m, int64_t n) {
  tg_binding b[] = {{"M", m, m, 1}, {"N", n, n, 1}};
  tg_compile_options o = {.bindings = b, .bindings_n = 2};
  tg_kernel *k = NULL;
  return tg_kernel_compile_text(c, "many.tg", texts[text], &o, &k) == TG_OK ? k : NULL;
}

static float wanted(int text, const float *x, int m, int n, int at) {
  float s = 0;
  if (text == 0) return x[at] * 2 + 1;
  if (text == 1) return x[at % m * n + at / m];
  for (int k = 0; k < n; k++) s += text == 2 ? x[at * n + k] : x[at / m * n + k] * x[at % m * n + k];
  return s;
}

static bool right(tg_kernel *k, int text, int m, int n, int threads) {
  float x[40 * 40], y[40 * 40];
  tg_argument a[] = {{x, sizeof x}, {y, sizeof y}};
  int out = text == 2 ? m : text == 3 ? m * m : m * n;
  for (int i = 0; i < m * n; i++) x[i] = (float)(i * 7 % 11 - 5);
  for (int i = 0; i < out; i++) y[i] = -1e9f;
  if (tg_kernel_run(k, &(tg_launch){.buffers = a, .buffers_n = 2, .threads = threads}) != TG_OK) return false;
  for (int i = 0; i < out; i++)
    if (y[i] != wanted(text, x, m, n, i)) return false;
  return true;
}

/* ---- one thread, many kernels ---- */

static void many_kernels(int count) {
  tg_context *c = NULL;
  long most[2] = {0};   /* of the first and of the second half: what an allocator keeps goes up and down */
  CHECK(tg_context_create(&(tg_context_options){.target = test_target(), .threads = 2}, &c) == TG_OK, "a context");
  for (int i = 0; i < count; i++) {
    int text = i % TEXTS, m = 3 + i % 29, n = 2 + i % 37;
    tg_kernel *k = compile(c, text, m, n);
    bool good = k && right(k, text, m, n, 2);
    if (!good) CHECK(good, "kernel %d: %s", i, tg_error_message(c));
    tg_kernel_free(k);
    long now = i % (1 + count / 100) ? 0 : kit_resident(), *half = &most[i >= count / 2];
    if (now > *half) *half = now;
  }
  long grown = most[1] - most[0];
#ifndef TG_SANITIZED /* quarantine and shadow grow */
  CHECK(grown <= 2048, "grew by %ld KiB over %d kernels", grown, count / 2);
#endif
  fprintf(stderr, "threads: %d kernels, %ld KiB more in the second half\n", count, grown);
  tg_context_free(c);
}

/* ---- many threads ---- */

typedef struct { tg_context *context; tg_kernel *shared; int index, rounds, wrong; } worker;

static void *work(void *arg) {
  worker *w = arg;
  for (int i = 0; i < w->rounds; i++) {
    int text = (i + w->index) % TEXTS, m = 3 + (i * 5 + w->index) % 20, n = 2 + (i + w->index * 7) % 30;
    tg_context *own = NULL, *c = w->context;
    if (i % 8 == 7 && tg_context_create(&(tg_context_options){.target = test_target(), .threads = 2}, &own) == TG_OK) c = own;
    tg_kernel *k = compile(c, text, m, n), *bad = NULL;
    w->wrong += !k || !right(k, text, m, n, 1 + w->index % 3);
    w->wrong += !right(w->shared, 2, 30, 20, 2);
    char name[32];
    snprintf(name, sizeof name, "bad%d.tg", w->index);
    w->wrong += tg_kernel_compile_text(c, name, "kernel z() { out(y, f32, [4]); range(i, 4) y[i] = q; }", NULL, &bad) != TG_EINVAL;
    w->wrong += strncmp(tg_error_message(c), name, strlen(name)) != 0;   /* one's own error, not another thread's */
    tg_kernel_free(k);
    tg_context_free(own);
  }
  return NULL;
}

static void many_threads(int rounds) {
  pthread_t t[THREADS];
  worker w[THREADS];
  tg_context *c = NULL;
  char folder[TEST_PATH] = "tg-threads-XXXXXX";
  CHECK(test_folder(folder) && tg_context_create(&(tg_context_options){.target = test_target(), .threads = 4, .cache = folder}, &c) == TG_OK, "a context");
  tg_kernel *shared = compile(c, 2, 30, 20);
  CHECK(shared != NULL, "%s", tg_error_message(c));
  for (int i = 0; i < THREADS && shared; i++) {
    w[i] = (worker){c, shared, i, rounds, 0};
    pthread_create(&t[i], NULL, work, &w[i]);
  }
  for (int i = 0; i < THREADS && shared; i++) {
    pthread_join(t[i], NULL);
    CHECK(!w[i].wrong, "thread %d: %d wrong", i, w[i].wrong);
  }
  tg_kernel_free(shared);
  tg_context_free(c);
  kit_remove(folder);
}

int main(int argc, char **argv) {
#ifdef TG_SANITIZED
  enum { KERNELS = 200, ROUNDS = 12 };
#else
  enum { KERNELS = 2000, ROUNDS = 29 };
#endif
  int count = argc > 1 ? atoi(argv[1]) : KERNELS;
  many_threads(argc > 1 ? count / 80 + 4 : ROUNDS);
  many_kernels(count);
  return TEST_END();
}
