/* SPDX-License-Identifier: MIT
 * The library's surface: compile, run on any threads, the cache, errors, many kernels, many threads, little memory. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <dirent.h>
#include <unistd.h>
#include "../target.h"
#include "../folder.h"
#include "../test.h"
#include "compile/pipeline.h"
#include "tg/dsl.h"

TG_KERNEL(scale, N) {
  tg_in(x, f32, [N]);
  tg_out(y, f32, [N]);
  tg_range(i, N) tg(y[i] = x[i] * 2 + 1);
}

static const char matmul[] =
  "kernel matmul(M, N, K) { in(A, f32, [M, K]); in(B, f32, [K, N]); out(C, f32, [M, N]);\n"
  "range(i, M) range(j, N) C[i,j] = sum(k : K, A[i,k] * B[k,j]); }\n";

static tg_context *open_context(const char *cache) {
  tg_context *c = NULL;
  tg_context_options o = {.target = test_target(), .cache = cache, .flags = TG_CONTEXT_VERIFY, .threads = 7};
  CHECK(tg_context_create(&o, &c) == TG_OK, "a context");
  return c;
}

static tg_kernel *compile(tg_context *c, int64_t m, int64_t n, int64_t k) {
  tg_binding b[] = {{"M", m, m, 1}, {"N", n, n, 1}, {"K", k, k, 1}};
  tg_compile_options o = {.bindings = b, .bindings_n = 3};
  tg_kernel *kernel = NULL;
  CHECK(tg_kernel_compile_text(c, "matmul.tg", matmul, &o, &kernel) == TG_OK, "%s", tg_error_message(c));
  return kernel;
}

static void in_sequence(void *user, int64_t n, void (*task)(void *, int64_t), void *arg) {
  (void)user;
  for (int64_t i = n; i-- > 0;) task(arg, i);
}

static void same_bits(tg_context *c) {
  enum { M = 65, N = 130, K = 77 };
  tg_kernel *k = compile(c, M, N, K);
  static float A[M * K], B[K * N], C[M * N], first[M * N];
  for (int i = 0; i < M * K; i++) A[i] = (float)(i % 13) * 0.37f - 1;
  for (int i = 0; i < K * N; i++) B[i] = (float)(i % 7) * 0.11f - 0.3f;
  tg_argument a[] = {{A, sizeof A}, {B, sizeof B}, {C, sizeof C}};
  static const int threads[] = {0, 1, 2, 3, 7, -1, 100};
  for (unsigned t = 0; k && t <= sizeof threads / sizeof *threads; t++) {
    tg_launch l = {.buffers = a, .buffers_n = 3};
    if (t < sizeof threads / sizeof *threads) l.threads = threads[t];
    else l.parallel_for = in_sequence;
    memset(C, 0xff, sizeof C);
    CHECK(tg_kernel_run(k, &l) == TG_OK, "%s", tg_error_message(c));
    if (!t) memcpy(first, C, sizeof C);
    CHECK(!memcmp(first, C, sizeof C), "case %u", t);
  }
  double worst = 0;
  for (int i = 0; i < M; i++)
    for (int j = 0; j < N; j++) {
      double s = 0, e;
      for (int q = 0; q < K; q++) s += (double)A[i * K + q] * (double)B[q * N + j];
      e = s - (double)C[i * N + j];
      if (e < 0) e = -e;
      if (e > worst) worst = e;
    }
  CHECK(worst < 1e-4, "off by %g", worst);
  tg_kernel_free(k);
}

static void expect(tg_context *c, tg_kernel *k, const tg_launch *l, const char *text) {
  CHECK(tg_kernel_run(k, l) == TG_EINVAL && strstr(tg_error_message(c), text), "%s", tg_error_message(c));
}

static void checks(tg_context *c) {
  tg_binding b = {"N", 4, 96, 4};
  tg_compile_options o = {.bindings = &b, .bindings_n = 1};
  tg_kernel *k = NULL;
  CHECK(tg_kernel_compile(c, &scale, &o, &k) == TG_OK, "%s", tg_error_message(c));
  if (!k) return;
  float data[256];
  for (int i = 0; i < 256; i++) data[i] = (float)i;
  tg_argument a[] = {{data, 96 * 4}, {data + 128, 96 * 4}};
  int64_t n = 96;
  size_t bytes;
  tg_launch l = {.buffers = a, .buffers_n = 2, .params = &n, .params_n = 1};
  CHECK(tg_kernel_bytes(k, &n, 0, &bytes) == TG_OK && bytes == 384, "%zu", bytes);
  CHECK(tg_kernel_describe(k)->params_n == 1 && tg_kernel_describe(k)->buffers[1].written && !tg_kernel_describe(k)->buffers[1].read, "described");
  CHECK(tg_kernel_run(k, &l) == TG_OK && data[128 + 95] == 191, "%g", data[128 + 95]);
  n = 97;
  expect(c, k, &l, "compiled for 4..96");
  n = 42;
  expect(c, k, &l, "multiples of 4");
  n = 92;
  a[1].bytes = 4 * 91;
  expect(c, k, &l, "'y' has 364 bytes, 368 are needed");
  a[1] = (tg_argument){data + 90, 400};
  expect(c, k, &l, "overlaps");
  a[1] = (tg_argument){(char *)(data + 128) + 2, 400};
  expect(c, k, &l, "not aligned");
  a[1] = (tg_argument){NULL, 400};
  expect(c, k, &l, "NULL");
  l.buffers_n = 1;
  expect(c, k, &l, "takes 2 buffers");
  tg_kernel_free(k);
}

static void mistakes(tg_context *c) {
  tg_kernel *k = NULL;
  CHECK(tg_kernel_compile_text(c, "bad.tg", "kernel bad() { out(y, f32, [4]); range(i, 4) y[i] = z; }", NULL, &k) == TG_EINVAL && !k, "an unknown name");
  CHECK(strstr(tg_error_message(c), "bad.tg:1:") && strstr(tg_error_message(c), "'z'"), "%s", tg_error_message(c));
  CHECK(tg_kernel_compile(c, &scale, NULL, &k) == TG_EINVAL && strstr(tg_error_message(c), "N"), "%s", tg_error_message(c));
  CHECK(tg_kernel_compile_text(c, NULL, NULL, NULL, &k) == TG_EINVAL, "no text");
  tg_context *none = NULL;
  tg_context_options o = {.target = "pdp-11"};
  CHECK(tg_context_create(&o, &none) == TG_EINVAL && !none, "an unknown target");
}

static void remove_all(const char *folder) {
  DIR *d = opendir(folder);
  char path[600];
  for (struct dirent *e; d && (e = readdir(d));)
    if (e->d_name[0] != '.') {
      snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
      unlink(path);
    }
  if (d) closedir(d);
  rmdir(folder);
}

static void cached(void) {
  char folder[TEST_PATH] = "tg-surface-XXXXXX";
  CHECK(test_folder(folder) != NULL, "a folder");
  for (int i = 0; i < 2; i++) {
    tg_context *c = open_context(folder);
    tg_kernel *k = compile(c, 16, 32, 8), *other = compile(c, 16, 32, 9 + i);
    CHECK(k && tg_kernel_describe(k)->from_cache == i, "round %d", i);
    CHECK(other && !tg_kernel_describe(other)->from_cache, "round %d", i);
    float A[128], B[256], C[512];
    for (int q = 0; q < 256; q++) B[q] = 1, A[q / 2] = 2;
    tg_argument a[] = {{A, sizeof A}, {B, sizeof B}, {C, sizeof C}};
    tg_launch l = {.buffers = a, .buffers_n = 3};
    CHECK(tg_kernel_run(k, &l) == TG_OK && C[0] == 16 && C[511] == 16, "%g", C[511]);
    tg_kernel_free(k);
    tg_kernel_free(other);
    tg_context_free(c);
  }
  remove_all(folder);
}

static void shown(void *user, const char *stage, const char *text) {
  char *stages = user;
  strcat(stages, stage);
  strcat(stages, " ");
  CHECK(*text, "%s has a text", stage);
}

static void show(tg_context *c) {
  char stages[512] = "";
  tg_binding b = {"N", 64, 64, 1};
  tg_compile_options o = {.bindings = &b, .bindings_n = 1};
  CHECK(tg_show(c, &scale, &o, NULL, shown, stages) == TG_OK, "%s", tg_error_message(c));
  char all[512] = "author ";
  for (const tg_pass *p = tg_passes; p->name; p++) strcat(strcat(all, p->name), " ");
  CHECK_TEXT(stages, strcat(all, "llvm asm object "));
  stages[0] = 0;
  CHECK(tg_show(c, &scale, &o, "place", shown, stages) == TG_OK, "%s", tg_error_message(c));
  CHECK_TEXT(stages, "place ");
  CHECK(tg_show(c, &scale, &o, "nowhere", shown, stages) == TG_EINVAL, "no such stage");
}

static void *compile_many(void *arg) {
  for (int i = 0; i < 5; i++) tg_kernel_free(compile(arg, 20, 33, 10 + i));
  return NULL;
}

static long resident(void) {
  long a = 0, b = 0;
  FILE *f = fopen("/proc/self/statm", "r");
  if (fscanf(f, "%ld %ld", &a, &b) != 2) b = 0;
  fclose(f);
  return b * 4;
}

static void many(tg_context *c) {
  pthread_t t[4];
  for (int i = 0; i < 4; i++) pthread_create(&t[i], NULL, compile_many, c);
  for (int i = 0; i < 4; i++) pthread_join(t[i], NULL);
  tg_binding b = {"N", 4, 4, 1};
  tg_compile_options o = {.bindings = &b, .bindings_n = 1, .flags = TG_COMPILE_AS_WRITTEN};
  long before = 0;
  for (int i = 0; i < 600; i++) {
    tg_kernel *k = NULL;
    if (i == 100) before = resident();
    if (tg_kernel_compile(c, &scale, &o, &k) != TG_OK) CHECK(false, "%s", tg_error_message(c));
    tg_kernel_free(k);
  }
  long grown = resident() - before;
#ifdef TG_SANITIZED /* its quarantine grows */
  grown = 0;
#endif
  CHECK(grown <= 4096, "grew by %ld KiB", grown);
}

/* ---- memory that runs out: a status each time, nothing lost ---- */

typedef struct { long left, live; } budget;

static void *count_alloc(void *user, size_t n) {
  budget *b = user;
  if (b->left-- <= 0) return NULL;
  b->live++;
  return malloc(n);
}

static void count_free(void *user, void *p, size_t n) {
  (void)n;
  if (p) ((budget *)user)->live--;
  free(p);
}

static tg_status whole_life(budget *b) {
  tg_context *c = NULL;
  tg_context_options o = {.allocator = {count_alloc, count_free, b}, .target = test_target(), .threads = 2};
  tg_status s = tg_context_create(&o, &c);
  if (s != TG_OK) return s;
  tg_binding n = {"N", 20, 20, 1};
  tg_compile_options co = {.bindings = &n, .bindings_n = 1};
  tg_kernel *k = NULL;
  s = tg_kernel_compile(c, &scale, &co, &k);
  if (s == TG_OK) {
    float x[20] = {0}, y[20];
    tg_argument a[] = {{x, sizeof x}, {y, sizeof y}};
    tg_launch l = {.buffers = a, .buffers_n = 2, .threads = 2};
    s = tg_kernel_run(k, &l);
  }
  tg_kernel_free(k);
  tg_context_free(c);
  return s;
}

static void out_of_memory(void) {
  tg_status s = TG_ENOMEM;
  for (long n = 0; n < 2000 && s != TG_OK; n++) {
    budget b = {n, 0};
    s = whole_life(&b);
    if ((s != TG_OK && s != TG_ENOMEM) || b.live) CHECK(0, "after %ld allocations: %s, %ld left over", n, tg_status_name(s), b.live);
  }
  CHECK(s == TG_OK, "enough memory at last");
}

int main(void) {
  tg_context *c = open_context(NULL);
  same_bits(c);
  checks(c);
  mistakes(c);
  cached();
  show(c);
  many(c);
  out_of_memory();
  tg_context_free(c);
  return TEST_END();
}
