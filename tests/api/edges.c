/* SPDX-License-Identifier: MIT
 * What stands at the edges: kernels that do nothing, far offsets, strides of outputs, limits, bodies that misuse C. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/mman.h>
#include <tg/dsl.h>
#include "base/base.h"
#include "../target.h"
#include "../test.h"

static tg_status compile(tg_context *c, const char *text, tg_kernel **k) {
  return tg_kernel_compile_text(c, "edges.tg", text, NULL, k);
}

static void rejected(tg_context *c, const char *text, tg_status status, const char *message) {
  tg_kernel *k;
  tg_status s = compile(c, text, &k);
  CHECK(s == status, "%s: %s", text, tg_status_name(s));
  if (s != TG_OK) CHECK(strstr(tg_error_message(c), message), "'%s' is not in: %s", message, tg_error_message(c));
  if (s == TG_OK) tg_kernel_free(k);
}

/* The greatest absolute value of rows with NaN of either sign, infinities, zeros, and of none. words: some, so that no
 * first choice makes vectors, which have -inf in lanes without a term; or none. */
static void greatest_absolutes(tg_context *c, const char *words) {
  enum { ROWS = 6, MOST = 21 };
  const float inf = __builtin_inff(), nan = __builtin_nanf("");
  const float special[ROWS] = {-nan, nan, -inf, -0.0f, 3, 0};
  tg_kernel *k;
  char text[256];
  snprintf(text, sizeof text, "kernel a(N = 6, M in 0..21) { in(x, f32, [N, 21]); out(y, f32, [N]); out(z, f32, [N]); %s"
           "  range(i, N) { y[i] = max(j : 21, abs(x[i,j])); z[i] = max(j : M, abs(x[i,j])); } }", words);
  if (compile(c, text, &k)) {
    CHECK(0, "%s", tg_error_message(c));
    return;
  }
  for (int64_t m = 0; m <= MOST; m += 7)
    for (int at = 0; at < MOST; at++) {
      float x[ROWS][MOST], y[ROWS], z[ROWS];
      for (int i = 0; i < ROWS; i++)
        for (int j = 0; j < MOST; j++) x[i][j] = j == at ? special[i] : i < 3 ? (float)(j % 5 - 2) : -0.0f;
      tg_argument a[] = {{x, sizeof x}, {y, sizeof y}, {z, sizeof z}};
      tg_launch l = {.buffers = a, .buffers_n = 3, .params = &m, .params_n = 1};
      CHECK(tg_kernel_run(k, &l) == TG_OK, "%s", tg_error_message(c));
      for (int i = 0; i < ROWS; i++) {
        float all = __builtin_fabsf(special[i]), rest = m <= 0 ? -inf : i >= 3 ? 0 : 2;
        bool same_y = all != all ? y[i] != y[i] : y[i] == all && !__builtin_signbit(y[i]);
        float want = at < m && !(all < rest) ? all : rest;
        bool same_z = want != want ? z[i] != z[i] : z[i] == want && !__builtin_signbit(z[i]) == (m > 0);
        CHECK(same_y && same_z, "row %d, %d terms, at %d: %g and %g, not %g and %g", i, (int)m, at, (double)y[i],
              (double)z[i], (double)all, (double)want);
      }
    }
  tg_kernel_free(k);
}

/* Sizes that are 0 leave no statements, no phases and no code; that is a kernel. */
static void nothing_to_do(tg_context *c) {
  static const char *const text[] = {"kernel a() {}", "kernel a(N = 0) { in(x, f32, [N]); out(y, f32, [N]); range(i, N) y[i] = x[i]; }"};
  rejected(c, "kernel a(N = -3) { in(x, f32, [N]); out(y, f32, [N]); range(i, N) y[i] = x[i]; }", TG_EINVAL, "a dimension of -3: a dimension is 0 or more");
  for (size_t i = 0; i < TG_COUNT(text); i++) {
    tg_kernel *k;
    if (compile(c, text[i], &k)) {
      CHECK(0, "%s: %s", text[i], tg_error_message(c));
      continue;
    }
    tg_argument a[2] = {{0}};
    tg_launch l = {.buffers = a, .buffers_n = i ? 2 : 0, .threads = 2};
    CHECK(tg_kernel_run(k, &l) == TG_OK, "%s: %s", text[i], tg_error_message(c));
    tg_kernel_free(k);
  }
}

static void strides(tg_context *c) {
  rejected(c, "kernel a() { out(y, f32, [4], [0]); range(i, 4) y[i] = 1; }", TG_EINVAL, "the strides of 'y', which the kernel writes, lay two elements on one place");
  rejected(c, "kernel a() { out(y, f32, [4, 4], [1, 1]); range(i, 4) range(j, 4) y[i,j] = 1; }", TG_EINVAL, "lay two elements on one place");
  rejected(c, "kernel a() { out(y, f32, [4, 4], [1, -1]); range(i, 4) range(j, 4) y[i,j] = 1; }", TG_EINVAL, "lay two elements on one place");
  tg_kernel *k;
  const char *text = "kernel a(S in 0..9, T in 0..9, N in 1..4) { in(x, f32, [N, 3], [0, 1]); out(y, f32, [N, 3], [S, T]); range(i, N) range(j, 3) y[i,j] = x[i,j]; }";
  if (compile(c, text, &k)) {
    CHECK(0, "%s", tg_error_message(c));
    return;
  }
  static const struct { int64_t p[3]; int good; } launches[] = {{{3, 1, 4}, 1}, {{1, 4, 4}, 1}, {{5, 2, 3}, 1}, {{2, 1, 4}, 0}, {{1, 3, 4}, 0}, {{0, 1, 4}, 0}, {{0, 1, 1}, 1}, {{3, 0, 1}, 0}};
  for (size_t i = 0; i < TG_COUNT(launches); i++) {
    const int64_t *p = launches[i].p;
    float x[3] = {1, 2, 3}, y[64] = {0};
    tg_argument a[] = {{x, sizeof x}, {y, sizeof y}};
    tg_launch l = {.buffers = a, .buffers_n = 2, .params = p, .params_n = 3};
    tg_status s = tg_kernel_run(k, &l);
    CHECK(s == (launches[i].good ? TG_OK : TG_EINVAL), "strides %d and %d of %d rows: %s", (int)p[0], (int)p[1], (int)p[2], tg_status_name(s));
    for (int64_t r = 0; s == TG_OK && r < p[2]; r++)
      for (int64_t j = 0; j < 3; j++) CHECK(y[r * p[0] + j * p[1]] == x[j], "row %d, column %d", (int)r, (int)j);
  }
  tg_kernel_free(k);
}

/* Code that would be larger than LLVM can take is refused at the range. */
static void limits(tg_context *c) {
  rejected(c, "kernel a(N = 100000) { out(y, f32, [N]); range(i, N, lane) y[i] = 1; }", TG_EINVAL, "the lane range i has 100000 iterations, over the limit of 4096");
  rejected(c, "kernel a(N = 100000) { out(y, f32, [N]); range(i, N, unroll) y[i] = 1; }", TG_EINVAL, "the unroll range i has 100000 iterations, over the limit of 65536");
}

/* Rows that start beyond 2^31 elements and 2^32 bytes, in memory of which few pages exist. */
static void far_offsets(tg_context *c) {
  const size_t row = (size_t)1 << 30, rows = 5, bytes = row * rows * sizeof(float);
  float *x = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (x == MAP_FAILED) return; /* a machine without the address space */
  static const char *const text[] = {
    "kernel a(R in 1..5, S in 1..2000000000) { inout(x, f32, [R, 100], [S, 1]); range(i, R) range(j, 100) x[i,j] = x[i,j] * 2 + f32(i); }",
    "kernel a(R = 5, S = 1073741824) { inout(x, f32, [R, 100], [S, 1]); range(i, R) range(j, 100) x[i,j] = x[i,j] * 2 + f32(i); }"};
  for (size_t t = 0; t < TG_COUNT(text); t++)
    for (int as_written = 0; as_written < 2; as_written++) {
      tg_compile_options o = {.flags = as_written ? TG_COMPILE_AS_WRITTEN : 0};
      tg_kernel *k;
      if (tg_kernel_compile_text(c, "far.tg", text[t], &o, &k)) {
        CHECK(0, "%s", tg_error_message(c));
        continue;
      }
      for (size_t i = 0; i < rows; i++)
        for (size_t j = 0; j < 100; j++) x[i * row + j] = (float)(i * 100 + j);
      int64_t p[] = {(int64_t)rows, (int64_t)row};
      tg_argument a = {x, bytes};
      tg_launch l = {.buffers = &a, .buffers_n = 1, .params = t ? NULL : p, .params_n = t ? 0 : 2, .threads = 2};
      CHECK(tg_kernel_run(k, &l) == TG_OK, "%s", tg_error_message(c));
      uint32_t wrong = 0;
      for (size_t i = 0; i < rows; i++)
        for (size_t j = 0; j < 100; j++) wrong += x[i * row + j] != 2 * (float)(i * 100 + j) + (float)i;
      CHECK(!wrong, "%u elements are wrong", wrong);
      tg_kernel_free(k);
    }
  munmap(x, bytes);
}

/* Every pair of 8 bits: rounds up for each sign, and where a + b - 1 would wrap. */
static void rounds_up(tg_context *c) {
  static int8_t x[256], y[256 * 256];
  tg_kernel *k;
  if (compile(c, "kernel a() { in(x, i8, [256]); out(y, i8, [256, 256]); range(i, 256) range(j, 256) y[i,j] = ceildiv(x[i], x[j]); }", &k)) {
    CHECK(0, "%s", tg_error_message(c));
    return;
  }
  for (int i = 0; i < 256; i++) x[i] = (int8_t)(i - 128);
  tg_argument a[] = {{x, sizeof x}, {y, sizeof y}};
  tg_launch l = {.buffers = a, .buffers_n = 2};
  CHECK(tg_kernel_run(k, &l) == TG_OK, "%s", tg_error_message(c));
  uint32_t wrong = 0;
  for (int i = -128; i < 128; i++)
    for (int j = -128; j < 128; j++) {
      int up = j ? i / j + (i % j != 0 && (i < 0) == (j < 0)) : 0;
      wrong += y[(i + 128) * 256 + j + 128] != (int8_t)up;
    }
  CHECK(!wrong, "%u of 65536 are wrong", wrong);
  tg_kernel_free(k);
}

/* ---- bodies ---- */

TG_KERNEL(left_by_break, ) {
  tg_out(y, f32, [4]);
  tg_range(i, 4) {
    tg(y[i] = 1);
    break;
  }
}
TG_KERNEL(left_by_return, ) {
  tg_out(y, f32, [4]);
  tg_range(i, 4) {
    tg(y[i] = 1);
    if (tg_b_) return;
  }
}
TG_KERNEL(left_by_goto, ) {
  tg_out(y, f32, [4]);
  tg_range(i, 4) {
    tg(y[i] = 1);
    goto out;
  }
out:;
}
TG_KERNEL(cut_short, ) {
  tg_out(y, f32, [4]);
  tg_range(i, 4) {
    tg(y[i] = 1);
    if (tg_b_) continue; /* goes on to the closing of the scope: nothing is wrong */
    tg(y[i] = 2);
  }
}
TG_KERNEL(small, ) {
  tg_out(y, f32, [4]);
  tg_range(i, 4) tg(y[i] = 3);
}
TG_KERNEL(compiles_another, ) {
  tg_kernel *inner;
  if (tg_user && !tg_kernel_compile((tg_context *)tg_user, &small, NULL, &inner)) tg_kernel_free(inner);
  tg_out(y, f32, [4]);
  tg_range(i, 4) {
    if (tg_user && !tg_kernel_compile((tg_context *)tg_user, &small, NULL, &inner)) tg_kernel_free(inner);
    tg(y[i] = 4);
  }
}

TG_KERNEL(splice_goes_on, ) {
  tg_out(y, f32, [4]);
  tg_splice(f, "a) + sum(k : 10, 1.0", "a");
  tg_range(i, 4) tg(y[i] = f(1.0));
}
TG_KERNEL(splice_ends, ) {
  tg_out(y, f32, [4]);
  tg_splice(f, "(a) + sum(k : 10, 1.0);", "a");
  tg_range(i, 4) tg(y[i] = f(1.0));
}
TG_KERNEL(closed_twice, ) {
  tg_out(y, f32, [4]);
  tg_scope s = tg_scope_open(tg_b_, "range", "i, 4", __FILE__, __LINE__);
  tg_add_statement(tg_b_, "y[i] = 1", __FILE__, __LINE__);
  tg_scope_close(&s);
  tg_scope_close(&s);
}
TG_KERNEL(no_text, ) {
  tg_add_declaration(tg_b_, NULL, NULL, NULL, 0);
  tg_add_statement(tg_b_, NULL, NULL, 0);
  tg_scope_close(NULL);
}

static void body(tg_context *c, const tg_kernel_def *def, const char *message, float value) {
  tg_kernel *k;
  tg_compile_options o = {.user = c};
  tg_status s = tg_kernel_compile(c, def, &o, &k);
  CHECK((s == TG_OK) == !message, "%s: %s", def->name, tg_status_name(s));
  if (s != TG_OK) {
    if (message) CHECK(strstr(tg_error_message(c), message), "%s: %s", def->name, tg_error_message(c));
    return;
  }
  float y[4] = {0};
  tg_argument a = {y, sizeof y};
  tg_launch l = {.buffers = &a, .buffers_n = 1};
  CHECK(tg_kernel_run(k, &l) == TG_OK, "%s", tg_error_message(c));
  for (int i = 0; i < 4; i++) CHECK(y[i] == value, "%s: y[%d] = %g", def->name, i, (double)y[i]);
  tg_kernel_free(k);
}

static void bodies(tg_context *c) {
  body(c, &left_by_break, "break, return or goto", 0);
  body(c, &left_by_return, "break, return or goto", 0);
  body(c, &left_by_goto, "break, return or goto", 0);
  body(c, &cut_short, NULL, 1);
  body(c, &compiles_another, NULL, 4);
  body(c, &splice_goes_on, "an operator expected, not ')'", 0);
  body(c, &splice_ends, NULL, 11);
  body(c, &closed_twice, "each is closed once", 0);
  body(c, &no_text, "the builder is given no text", 0);
}

static void options(tg_context *c) {
  static const char text[] = "kernel a(N) { out(y, f32, [N]); range(i, N) y[i] = 1; }";
  tg_binding twice[] = {{"N", 1, 7, 1}, {"N", 2, 2, 1}};
  tg_kernel *k;
  CHECK(tg_kernel_compile_text(c, "f", text, &(tg_compile_options){.bindings = twice, .bindings_n = 2}, &k) == TG_EINVAL, "bound twice");
  CHECK(strstr(tg_error_message(c), "'N' is bound twice"), "%s", tg_error_message(c));
  CHECK(tg_context_create(NULL, NULL) == TG_EINVAL, "nowhere to put a context");
  CHECK(tg_kernel_run(NULL, &(tg_launch){0}) == TG_EINVAL, "a kernel that did not compile");
  CHECK(!tg_kernel_describe(NULL), "a kernel that did not compile");
}

/* Vectors of which a constant mask leaves one lane: the element behind it is nobody's to write. (LLVM 22 stores 32 bits for
 * one lane of 16 where the value was narrowed.) */
static void one_lane(tg_context *c) {
  static const char text[] =
    "kernel one() { in(x0, i32 in 0..5 - 1, [18]); in(x1, bf16, [5]); in(x2, bf16, [17]); out(y, bf16, [17, 17], partial);"
    "  range(r, 17) range(q, 17 - r) { let a = x1[x0[q]]; y[r, q] = x2[q]; let b = y[r, q]; y[r, q] += min(a, b) - a; } }";
  static int x0[18];
  static unsigned short x1[5], x2[17], y[17][17];
  tg_kernel *k;
  CHECK(!tg_kernel_compile_text(c, "one", text, NULL, &k), "%s", tg_error_message(c));
  memset(y, 0xa5, sizeof y);
  tg_argument a[] = {{x0, sizeof x0}, {x1, sizeof x1}, {x2, sizeof x2}, {y, sizeof y}};
  CHECK(!tg_kernel_run(k, &(tg_launch){.buffers = a, .buffers_n = 4}), "%s", tg_error_message(c));
  for (int r = 0; r < 17; r++)
    for (int q = 0; q < 17; q++) CHECK(y[r][q] == (q < 17 - r ? 0 : 0xa5a5), "y[%d, %d] is %#x", r, q, y[r][q]);
  tg_kernel_free(k);
}

/* More straight code than LLVM's selection, quadratic in a block, can take (minutes): it goes in short blocks. A loop of such code carries its cells through them. */
static void long_code(tg_context *c) {
  static const char text[] =
    "kernel long() { opt(unroll i); opt(unroll j); in(x, i32, [70, 100]); out(y, i32, [3, 70, 100]); out(z, i32, []);"
    "  define_reg(s, i32, []); s = 0;"
    "  range(t, 3) range(i, 70) range(j, 100) { s = max(s * 3, x[i, j] ^ s) + i32(t); y[t, i, j] = s; } z = s; }";
  static int x[70 * 100], y[3][70 * 100], z;
  tg_kernel *k;
  for (int i = 0; i < 70 * 100; i++) x[i] = i * 26544 >> 3;
  CHECK(!tg_kernel_compile_text(c, "long", text, NULL, &k), "%s", tg_error_message(c));
  tg_argument a[] = {{x, sizeof x}, {y, sizeof y}, {&z, sizeof z}};
  CHECK(!tg_kernel_run(k, &(tg_launch){.buffers = a, .buffers_n = 3}), "%s", tg_error_message(c));
  int wrong = 0;
  unsigned s = 0;
  for (int t = 0; t < 3; t++)
    for (int i = 0; i < 70 * 100; i++) {
      int three = (int)(s * 3), mixed = x[i] ^ (int)s;
      s = (unsigned)(three > mixed ? three : mixed) + (unsigned)t;
      wrong += y[t][i] != (int)s;
    }
  CHECK(!wrong && z == (int)s, "%d of 21000, z is %d", wrong, z);
  tg_kernel_free(k);
}

int main(void) {
  tg_context *c;
  if (tg_context_create(&(tg_context_options){.target = test_target(), .threads = 2}, &c)) return 1;
  nothing_to_do(c);
  greatest_absolutes(c, "");
  greatest_absolutes(c, "opt(thread i);");
  strides(c);
  limits(c);
  far_offsets(c);
  rounds_up(c);
  bodies(c);
  options(c);
  one_lane(c);
  long_code(c);
  tg_context_free(c);
  return TEST_END();
}
