/* SPDX-License-Identifier: MIT
 * Sizes known at launch: one matmul for all M, N, K of 1..130, against plain C to the bit, with every buffer's end at a page that may
 * not be touched; multiples that drop the tails; sums of any length taken in blocks; and which bindings share an entry of the cache.
 * library_runtime --all launches every one of the 130^3 sizes (minutes), else those at which something can change. */
#define _GNU_SOURCE
#include <dirent.h>
#include <stdbool.h>
#include <stdlib.h>
#include <unistd.h>
#include "../target.h"
#include "../folder.h"
#include "../test.h"
#include "api/api.h"
#include "base/guard.h"
#include "tg/tg.h"

enum { LARGEST = 130, FRONT = 64 };

static const char matmul[] =
  "kernel matmul(M, N, K) { in(A, f32, [M, K]); in(B, f32, [K, N]); out(C, f32, [M, N]);\n"
  "range(i, M) range(j, N) C[i,j] = sum(k : K, A[i,k] * B[k,j]); }\n";

static tg_kernel *compile(tg_context *c, const char *text, int64_t lo, int64_t hi, int64_t multiple) {
  tg_binding b[] = {{"M", lo, hi, multiple}, {"N", lo, hi, multiple}, {"K", lo, hi, multiple}};
  tg_compile_options o = {.bindings = b, .bindings_n = 3};
  tg_kernel *k = NULL;
  CHECK(tg_kernel_compile_text(c, "matmul.tg", text, &o, &k) == TG_OK, "%s", tg_error_message(c));
  return k;
}

/* ---- memory that ends at a page without access ---- */

typedef tg_guarded region;

static region region_open(size_t bytes) {
  region r;
  if (!tg_guard_take(&r, bytes, FRONT, false)) abort();
  return r;
}

static void region_close(region r) { tg_guard_drop(&r); }

static float *last(region r, size_t n) { return (float *)(void *)(r.room + r.room_bytes - n * sizeof(float)); }

static float small(uint32_t i, uint32_t seed) { return (float)((int)((i + seed) * 2654435761u >> 20 & 7) - 3); }

/* ---- all sizes ---- */

/* Rows of A and C do not depend on M when elements are numbered: one reference serves every M. */
static void reference(int n, int k, const float *a, const float *b, float *c) {
  for (int i = 0; i < LARGEST; i++) {
    for (int j = 0; j < n; j++) c[i * n + j] = 0;
    for (int q = 0; q < k; q++)
      for (int j = 0; j < n; j++) c[i * n + j] += a[i * k + q] * b[q * n + j];
  }
}

static bool one(tg_kernel *kernel, int m, int n, int k, float *a, float *b, region out, const float *want) {
  size_t bytes = (size_t)(m * n) * sizeof *b;
  float *c = last(out, (size_t)(m * n));
  int64_t params[] = {m, n, k};
  tg_argument buffers[] = {{a, (size_t)(m * k) * sizeof *a}, {b, (size_t)(k * n) * sizeof *b}, {c, bytes}};
  tg_launch l = {.buffers = buffers, .buffers_n = 3, .params = params, .params_n = 3};
  memset((char *)c - FRONT, 0xff, bytes + FRONT);
  if (tg_kernel_run(kernel, &l)) return false;
  for (int i = 1; i <= FRONT; i++)
    if (((unsigned char *)c)[-i] != 0xff) return false;
  for (int i = 0; i < m * n; i++)
    if (c[i] != want[i]) return false;
  return true;
}

/* Sizes around tiles and vectors, and the ends. */
static bool edge(int v) {
  static const int step[] = {6, 8, 14, 16, 48, 64, 128};
  if (v <= 3 || v >= LARGEST - 1) return true;
  for (unsigned i = 3; i < sizeof step / sizeof *step; i++)
    if (abs(v - step[i]) <= 1) return true;
  return v == 5 || v == 7 || v == 11 || v == 32;
}

static bool some(int k) { return k == 1 || k == 2 || k == 17 || k == 64 || k == LARGEST - 1; }

/* Every M and N with some K, every K with the edges of both. */
static bool chosen(int m, int n, int k) { return some(k) || (edge(n) && (edge(m) || k == LARGEST)); }

static void all_sizes(tg_context *c, bool all) {
  tg_kernel *kernel = compile(c, matmul, 1, LARGEST, 1);
  region a[LARGEST + 1], b = region_open(LARGEST * LARGEST * 4), out = region_open(LARGEST * LARGEST * 4);
  float *want = malloc(LARGEST * LARGEST * 4);
  long launches = 0;
  for (int m = 1; m <= LARGEST; m++) a[m] = region_open((size_t)m * LARGEST * 4);
  for (int k = 1; k <= LARGEST && kernel; k++) {
    for (int m = 1; m <= LARGEST; m++)
      for (int i = 0; i < m * k; i++) last(a[m], (size_t)(m * k))[i] = small((uint32_t)i, 7);
    for (int n = 1; n <= LARGEST; n++) {
      if (!all && !some(k) && !edge(n)) continue;
      float *at = last(b, (size_t)(k * n));
      for (int i = 0; i < k * n; i++) at[i] = small((uint32_t)i, 99);
      reference(n, k, last(a[LARGEST], (size_t)(LARGEST * k)), at, want);
      for (int m = 1; m <= LARGEST; m++) {
        if (!all && !chosen(m, n, k)) continue;
        launches++;
        if (!one(kernel, m, n, k, last(a[m], (size_t)(m * k)), at, out, want)) CHECK(false, "%dx%dx%d", m, n, k);
      }
    }
  }
  CHECK(launches > 90000 && (!all || launches == (long)LARGEST * LARGEST * LARGEST), "%ld", launches);
  for (int m = 1; m <= LARGEST; m++) region_close(a[m]);
  region_close(b), region_close(out);
  free(want);
  if (kernel) tg_kernel_free(kernel);
}

/* ---- sums in blocks ---- */

/* Without a bound on K the sum is taken in blocks that the output keeps: below one, one, several and a rest; with something added, and a
 * function of the sum, which is for the last block alone. */
static void any_length(tg_context *c) {
  static const char *const texts[] = {
    matmul,
    "kernel matmul(M, N, K) { in(A, f32, [M, K]); in(B, f32, [K, N]); inout(C, f32, [M, N]);\n"
    "range(i, M) range(j, N) C[i,j] = C[i,j] + sum(k : K, A[i,k] * B[k,j]); }\n",
    "kernel matmul(M, N, K) { in(A, f32, [M, K]); in(B, f32, [K, N]); out(C, f32, [M, N]);\n"
    "range(i, M) range(j, N) C[i,j] = max(sum(k : K, A[i,k] * B[k,j]), 0) * 2 + 1; }\n",
    "kernel matmul(M, N, K) { in(A, f32, [M, K]); in(B, f32, [K, N]); inout(C, f32, [M, N]);\n"
    "range(i, M) range(j, N) C[i,j] = 2 * sum(k : K, A[i,k] * B[k,j]) - C[i,j]; }\n"};
  static const int sizes[][3] = {{29, 83, 5000}, {6, 64, 2048}, {7, 65, 2049}, {33, 49, 4096}, {1, 131, 8200}, {65, 17, 100}, {40, 140, 1}};
  for (unsigned t = 0; t < sizeof texts / sizeof *texts; t++) {
    tg_kernel *kernel = compile(c, texts[t], 1, INT32_MAX, 1);
    for (unsigned s = 0; s < sizeof sizes / sizeof *sizes && kernel; s++) {
      int m = sizes[s][0], n = sizes[s][1], k = sizes[s][2], wrong = 0;
      int64_t params[] = {m, n, k};
      region a = region_open((size_t)(m * k) * 4), b = region_open((size_t)(k * n) * 4), out = region_open((size_t)(m * n) * 4);
      float *x = last(a, (size_t)(m * k)), *y = last(b, (size_t)(k * n)), *z = last(out, (size_t)(m * n));
      for (int i = 0; i < m * k; i++) x[i] = small((uint32_t)i, 7);
      for (int i = 0; i < k * n; i++) y[i] = small((uint32_t)i, 99);
      for (int i = 0; i < m * n; i++) z[i] = small((uint32_t)i, 5);
      tg_argument buffers[] = {{x, (size_t)(m * k) * 4}, {y, (size_t)(k * n) * 4}, {z, (size_t)(m * n) * 4}};
      tg_launch l = {.buffers = buffers, .buffers_n = 3, .params = params, .params_n = 3};
      CHECK(tg_kernel_run(kernel, &l) == TG_OK, "%s", tg_error_message(c));
      for (int i = 0; i < m; i++)
        for (int j = 0; j < n; j++) {
          float sum = 0, old = small((uint32_t)(i * n + j), 5);
          for (int q = 0; q < k; q++) sum += x[i * k + q] * y[q * n + j];
          float want = t == 0 ? sum : t == 1 ? old + sum : t == 2 ? (sum > 0 ? sum : 0) * 2 + 1 : 2 * sum - old;
          wrong += z[i * n + j] != want;
        }
      CHECK(!wrong, "text %u, %dx%dx%d: %d wrong", t, m, n, k, wrong);
      region_close(a), region_close(b), region_close(out);
    }
    if (kernel) tg_kernel_free(kernel);
  }
}

/* ---- multiples ---- */

static void find_gate(void *user, const char *stage, const char *text) {
  (void)stage;
  *(int *)user = strstr(text, " if ") != NULL;
}

/* A multiple that the vectors divide leaves nothing to mask. */
static void multiples(tg_context *c) {
  for (int multiple = 1; multiple <= 64; multiple *= 4) {
    int gates = -1;
    tg_binding b[] = {{"M", multiple, 4096, multiple}, {"N", multiple, 4096, multiple}, {"K", multiple, 4096, multiple}};
    tg_compile_options o = {.bindings = b, .bindings_n = 3};
    CHECK(tg_show_text(c, "matmul.tg", matmul, &o, "schedule", find_gate, &gates) == TG_OK, "%s", tg_error_message(c));
    if (multiple >= 16) CHECK(!gates, "a mask for multiples of %d", multiple);
    if (multiple == 1) CHECK(gates == 1, "sizes of any kind need a mask");
  }
  tg_kernel *k = compile(c, matmul, 16, 4096, 16);
  if (!k) return;
  static float x[64];
  int64_t params[] = {16, 24, 16};
  tg_argument buffers[] = {{x, 4}, {x, 4}, {x, 4}};
  tg_launch l = {.buffers = buffers, .buffers_n = 3, .params = params, .params_n = 3};
  CHECK(tg_kernel_run(k, &l) == TG_EINVAL && strstr(tg_error_message(c), "N"), "%s", tg_error_message(c));
  tg_kernel_free(k);
}

/* ---- entries of the cache ---- */

static int cached(tg_context *c, const char *file, const char *text, tg_binding b) {
  b.name = "N";
  tg_compile_options o = {.bindings = &b, .bindings_n = b.hi ? 1 : 0, .flags = TG_COMPILE_ONE};   /* an entry for each class */
  tg_kernel *k = NULL;
  if (tg_kernel_compile_text(c, file, text, &o, &k)) return -1;
  int hit = tg_kernel_describe(k)->from_cache;
  tg_kernel_free(k);
  return hit;
}

static void buckets(void) {
  static const char text[] = "kernel twice(N) { in(x, f32, [N]); out(y, f32, [N]); range(i, N) y[i] = x[i] * 2; }\n";
  static const char inside[] = "kernel twice(N in 1..4096) { in(x, f32, [N]); out(y, f32, [N]);\n  range(i, N) y[i] = x[i] * 2; }\n";
  static const tg_binding classes[] = {{.lo = 1, .hi = 4096}, {.lo = 1, .hi = 4095}, {.lo = 2, .hi = 4096}, {.lo = 16, .hi = 4096, .multiple = 16},
                                       {.lo = 16, .hi = 4096, .multiple = 8}, {.lo = 4096, .hi = 4096}, {.lo = 16, .hi = 16}};
  char folder[TEST_PATH] = "tg-runtime-XXXXXX", path[600];
  if (!test_folder(folder)) abort();
  tg_context *c = NULL;
  CHECK(tg_context_create(&(tg_context_options){.target = test_target(), .cache = folder}, &c) == TG_OK, "a context");
  unsigned n = sizeof classes / sizeof *classes;
  for (unsigned i = 0; i < n; i++) CHECK(cached(c, "a.tg", text, classes[i]) == 0, "class %u is another's", i);
  for (unsigned i = 0; i < n; i++) CHECK(cached(c, "b.tg", text, classes[i]) == 1, "class %u is not found", i);
  CHECK(cached(c, "a.tg", text, (tg_binding){.lo = 1, .hi = 4096, .multiple = 1}) == 1, "0 stands for 1");
  CHECK(cached(c, "a.tg", inside, (tg_binding){0}) == 1, "the same class, said in the text");
  tg_context_free(c);
  DIR *d = opendir(folder);
  unsigned files = 0;
  for (struct dirent *e; d && (e = readdir(d));) {
    if (e->d_name[0] == '.') continue;
    files++;
    snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
    unlink(path);
  }
  if (d) closedir(d);
  rmdir(folder);
  CHECK(files == n, "%u entries", files);
}

int main(int argc, char **argv) {
  tg_context *c = NULL;
  bool all = argc > 1 && !strcmp(argv[1], "--all");
  CHECK(tg_context_create(&(tg_context_options){.target = test_target(), .flags = TG_CONTEXT_VERIFY}, &c) == TG_OK, "a context");
  multiples(c);
  any_length(c);
  buckets();
  all_sizes(c, all);
  tg_context_free(c);
  return TEST_END();
}
