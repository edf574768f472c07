/* SPDX-License-Identifier: MIT
 * What a caller can get wrong: each is a status with a message that names the culprit, and nothing is written. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/mman.h>
#include "../target.h"
#include "../test.h"
#include "tg/dsl.h"

static tg_context *context;

static tg_kernel *compile(const char *text) {
  tg_kernel *k = NULL;
  CHECK(tg_kernel_compile_text(context, "launch.tg", text, NULL, &k) == TG_OK, "%s", tg_error_message(context));
  return k;
}

static void refuse(tg_kernel *k, const tg_launch *l, const char *text) {
  tg_status s = tg_kernel_run(k, l);
  CHECK(s == TG_EINVAL && strstr(tg_error_message(context), text), "%s: '%s', wanted '%s'", tg_status_name(s), tg_error_message(context), text);
}

static void accept(tg_kernel *k, const tg_launch *l) {
  tg_status s = tg_kernel_run(k, l);
  CHECK(s == TG_OK, "%s: %s", tg_status_name(s), tg_error_message(context));
}

static const char scale[] = "kernel scale(N in 4..96 % 4) { in(x, f32, [N]); out(y, f32, [N]); range(i, N) y[i] = x[i] * 2 + 1; }";

static void buffers(void) {
  _Alignas(64) static float data[512];
  tg_kernel *k = compile(scale);
  int64_t n = 96;
  tg_argument a[4] = {{data, 384}, {data + 128, 384}, {data + 256, 384}, {data, 4}};
  tg_launch l = {.buffers = a, .buffers_n = 2, .params = &n, .params_n = 1};
  accept(k, &l);
  for (int i = 0; i < 512; i++) data[i] = -7;
  for (uint32_t wrong = 0; wrong < 5; wrong++) {
    l.buffers_n = wrong;
    if (wrong != 2) refuse(k, &l, "takes 2 buffers");
  }
  l.buffers_n = 2;
  l.buffers = NULL;
  refuse(k, &l, "lacks its buffers");
  l.buffers = a;
  for (int b = 0; b < 2; b++) {
    tg_argument good = a[b];
    const char *name = b ? "'y'" : "'x'";
    a[b].bytes = 383;
    refuse(k, &l, name);
    a[b] = (tg_argument){NULL, 384};
    refuse(k, &l, name);
    a[b] = (tg_argument){(char *)good.data + 2, 384};
    refuse(k, &l, name);
    refuse(k, &l, "not aligned");
    a[b] = (tg_argument){good.data, 0};
    refuse(k, &l, name);
    a[b] = good;
  }
  for (int shift = -95; shift <= 95; shift += 19) {
    a[1].data = (float *)a[0].data + shift + (shift < 0 ? 128 : 0);
    a[0].data = shift < 0 ? data + 128 : data;
    refuse(k, &l, "overlaps");
    a[0].data = data;
  }
  for (int i = 0; i < 512; i++)
    if (data[i] != -7) CHECK(data[i] == -7, "element %d was written", i);
  for (int before = 0; before < 2; before++) {   /* side by side */
    a[0] = (tg_argument){data + 96, 384};
    a[1] = (tg_argument){data + (before ? 0 : 192), 384};
    accept(k, &l);
    a[1].data = data + (before ? 1 : 191);
    refuse(k, &l, "overlaps");
  }
  CHECK(tg_kernel_run(k, NULL) == TG_EINVAL, "no launch");
  tg_kernel_free(k);
}

/* Indices outside of the range that they promise are clamped to it, also those that are no i64. */
static void promises(void) {
  static const uint64_t wrong[16] = {3, 8, UINT64_MAX, UINT64_C(1) << 63, 7, 1, (UINT64_C(1) << 63) + 2, UINT64_C(1) << 32, 2, 0, 5, 6, 4, UINT64_MAX - 7, UINT64_C(1) << 31, 12};
  float table[8], y[16];
  for (int i = 0; i < 8; i++) table[i] = (float)i + 10;
  tg_kernel *k = compile("kernel pick() { in(x, u64 in 0..7, [16]); in(t, f32, [8]); out(y, f32, [16]); range(i, 16) y[i] = t[x[i]]; }");
  tg_argument a[3] = {{(void *)(uintptr_t)wrong, sizeof wrong}, {table, sizeof table}, {y, sizeof y}};
  tg_launch l = {.buffers = a, .buffers_n = 3};
  if (!k) return;
  accept(k, &l);
  for (int i = 0; i < 16; i++) CHECK(y[i] == table[wrong[i] < 8 ? wrong[i] : 7], "element %llu is taken for %g", (unsigned long long)wrong[i], (double)y[i]);
  tg_kernel_free(k);
}

/* Elements beyond 2^31, in lanes and one by one; of the buffer only the pages that are touched exist. */
static void far_away(void) {
  size_t bytes = (size_t)3 << 30;
  signed char *x = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0), y[40];
  tg_kernel *k = compile("kernel far() { in(x, i8, [3221225472]); out(y, i8, [40]); opt(split i 8 as io il); opt(lane il); range(i, 40) y[i] = x[i * 82595523 + 7]; }");
  if (x == MAP_FAILED) return;   /* as little as that is too much here */
  for (int64_t i = 0; i < 40; i++) x[i * 82595523 + 7] = (signed char)(i + 1);
  tg_argument a[2] = {{x, bytes}, {y, sizeof y}};
  tg_launch l = {.buffers = a, .buffers_n = 2};
  if (k) accept(k, &l);
  for (int i = 0; i < 40 && k; i++) CHECK(y[i] == i + 1, "element %lld is %d", i * 82595523LL + 7, y[i]);
  tg_kernel_free(k);
  munmap(x, bytes);
}

/* Streamed stores want aligned vectors; a buffer need only be aligned to its elements. */
static void anywhere(void) {
  _Alignas(64) static float data[2][512];
  tg_kernel *k = compile("kernel copy(N in 64..192 % 64) { in(x, f32, [N]); out(y, f32, [N]); opt(split i 16 as io il); opt(lane il); opt(stream y); range(i, N) y[i] = x[i]; }");
  int64_t n = 192;
  for (int i = 0; i < 512; i++) data[0][i] = (float)i;
  for (int shift = 0; shift < 32 && k; shift += 1 + shift / 4) {
    tg_argument a[2] = {{data[0] + shift, 768}, {data[1] + 31 - shift, 768}};
    tg_launch l = {.buffers = a, .buffers_n = 2, .params = &n, .params_n = 1};
    memset(data[1], 0, sizeof data[1]);
    accept(k, &l);
    CHECK(!memcmp(a[0].data, a[1].data, 768) && !data[1][31 - shift + 192] && (shift == 31 || !data[1][30 - shift]), "%d elements from an aligned place", 31 - shift);
  }
  tg_kernel_free(k);
}

static void params(void) {
  static float data[2][128];
  tg_kernel *k = compile(scale);
  tg_argument a[] = {{data[0], 512}, {data[1], 512}};
  tg_launch l = {.buffers = a, .buffers_n = 2};
  static const struct { int64_t n; const char *text; } wrong[] = {
    {0, "N"}, {3, "N"}, {-4, "N"}, {97, "N"}, {100, "N"}, {6, "multiples of 4"}, {95, "multiples of 4"}, {INT64_MAX, "N"}, {INT64_MIN, "N"}, {INT64_C(1) << 32 | 8, "N"}};
  int64_t n[2] = {8, 8};
  size_t bytes;
  refuse(k, &l, "takes 1 parameters");
  l.params_n = 1;
  refuse(k, &l, "lacks");
  l.params = n;
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    n[0] = wrong[i].n;
    refuse(k, &l, wrong[i].text);
    CHECK(tg_kernel_bytes(k, n, 0, &bytes) == TG_EINVAL && !bytes, "%lld", (long long)n[0]);
  }
  n[0] = 8;
  l.params_n = 2;
  refuse(k, &l, "takes 1 parameters");
  CHECK(tg_kernel_bytes(k, n, 2, &bytes) == TG_EINVAL && tg_kernel_bytes(k, NULL, 0, &bytes) == TG_EINVAL, "no such buffer, no parameters");
  CHECK(tg_kernel_bytes(k, n, 1, &bytes) == TG_OK && bytes == 32, "%zu", bytes);
  tg_timing t;
  CHECK(tg_kernel_time(k, &l, 0.001, &t) == TG_EINVAL && tg_kernel_time(k, NULL, 0.001, &t) == TG_EINVAL, "timing checks too");
  tg_kernel_free(k);
  k = compile("kernel needs(M in 1..100, N in 1..100) { require(M % N == 0); in(x, f32, [M]); out(y, f32, [M / N]); range(i, M / N) y[i] = sum(j : N, x[i*N + j]); }");
  l.params_n = 2;
  if (k) {
    n[0] = 10, n[1] = 3;
    refuse(k, &l, "M % N == 0");
    n[1] = 5;
    accept(k, &l);
  }
  tg_kernel_free(k);
  k = compile("kernel views(M in 0..10, lda in 1..1000) { in(x, f32, [M, 8], [lda, 1]); out(y, f32, [M, 8]); range(i, M) range(j, 8) y[i,j] = x[i,j]; }");
  if (k) {
    n[0] = 10, n[1] = 20;   /* 9 * 20 + 8 elements */
    refuse(k, &l, "'x' has 512 bytes, 752 are needed");
    n[0] = 5;
    accept(k, &l);
  }
  tg_kernel_free(k);
}

/* Sizes below 0 are refused, at the launch too; 0 is nothing to do. */
static void below_nothing(void) {
  tg_kernel *k = compile("kernel less(N in -5..5, S in -2..9) { in(x, f32, [N, 2], [S, 1]); out(y, f32, [N]); range(i, N) y[i] = x[i,0]; }");
  float x[64] = {0}, y[5] = {0};
  int64_t n[2] = {-5, 2};
  tg_argument a[] = {{x, sizeof x}, {y, sizeof y}};
  tg_launch l = {.buffers = a, .buffers_n = 2, .params = n, .params_n = 2};
  size_t bytes;
  if (!k) return;
  refuse(k, &l, "'x' has the size -5 in dimension 0, counted from 0; a size is 0 or more");
  CHECK(tg_kernel_bytes(k, n, 1, &bytes) == TG_EINVAL && strstr(tg_error_message(context), "'y' has the size -5"), "%s", tg_error_message(context));
  n[0] = 0;
  accept(k, &l);
  n[0] = 5, n[1] = -1;
  accept(k, &l);
  n[1] = 0;
  accept(k, &l);
  tg_kernel_free(k);
}

static void nothing_to_do(void) {
  tg_kernel *k = compile("kernel none(M in 0..10, K in 0..10) { in(x, f32, [M, K]); out(y, f32, [M]); range(i, M) y[i] = sum(j : K, x[i,j]); }");
  float y[10];
  int64_t n[2] = {0, 0};
  tg_argument a[] = {{NULL, 0}, {NULL, 0}};
  tg_launch l = {.buffers = a, .buffers_n = 2, .params = n, .params_n = 2};
  if (!k) return;
  for (int threads = -1; threads < 4; threads++) {
    l.threads = threads;
    accept(k, &l);
  }
  n[0] = 10;   /* sums of nothing */
  refuse(k, &l, "'y'");
  memset(y, 0xff, sizeof y);
  a[1] = (tg_argument){y, sizeof y};
  accept(k, &l);
  for (int i = 0; i < 10; i++) CHECK(y[i] == 0, "%g", (double)y[i]);
  tg_kernel_free(k);
}

static void huge(void) {
  tg_kernel *k = compile("kernel huge(N in 1..4000000000000000000) { in(x, f64, [N]); out(y, f64, [N]); range(i, N) y[i] = x[i]; }");
  double d[2] = {0};
  tg_argument a[] = {{d, sizeof *d}, {d + 1, sizeof *d}};
  int64_t n = 4000000000000000000;
  tg_launch l = {.buffers = a, .buffers_n = 2, .params = &n, .params_n = 1};
  size_t bytes;
  if (!k) return;
  refuse(k, &l, "out of range");
  CHECK(tg_kernel_bytes(k, &n, 0, &bytes) == TG_EINVAL, "%zu bytes", bytes);
  n = INT64_C(1) << 59;
  refuse(k, &l, "bytes");
  a[0] = (tg_argument){d, SIZE_MAX}, a[1] = (tg_argument){d + 1, SIZE_MAX};   /* a size that passes the end of memory still overlaps */
  refuse(k, &l, "overlaps");
  tg_kernel_free(k);
}

/* A kernel keeps to the context that made it: errors are told there, whatever other contexts do. */
static void two_contexts(void) {
  tg_context *other = NULL;
  tg_kernel *k = NULL;
  CHECK(tg_context_create(&(tg_context_options){.target = test_target(), .threads = 1}, &other) == TG_OK, "another context");
  CHECK(tg_kernel_compile_text(other, "launch.tg", scale, NULL, &k) == TG_OK, "%s", tg_error_message(other));
  tg_launch l = {.buffers_n = 0};
  CHECK(tg_kernel_compile_text(context, "launch.tg", "kernel", NULL, &(tg_kernel *){NULL}) == TG_EINVAL, "an error of this context");
  CHECK(k && tg_kernel_run(k, &l) == TG_EINVAL && strstr(tg_error_message(other), "buffers") && !strstr(tg_error_message(context), "buffers"), "'%s', '%s'",
        tg_error_message(other), tg_error_message(context));
  tg_kernel_free(k);
  tg_context_free(other);
}

static void show_nothing(void *user, const char *stage, const char *text) { (void)user, (void)stage, (void)text; }
static void keep_line(void *user, const char *message) { snprintf(user, 1024, "%s", message); }

static void odd_calls(void) {
  tg_kernel *k = NULL;
  tg_context *c = NULL;
  tg_context_free(NULL), tg_kernel_free(NULL);
  CHECK(tg_kernel_compile_text(NULL, "x.tg", scale, NULL, &k) == TG_EINVAL && tg_kernel_compile_text(context, "x.tg", scale, NULL, NULL) == TG_EINVAL, "NULL");
  CHECK(tg_kernel_compile_text(context, NULL, "", NULL, &k) == TG_EINVAL && !k && tg_error_message(context)[0], "an empty text");
  CHECK(tg_kernel_compile(context, NULL, NULL, &k) == TG_EINVAL, "no kernel");
  CHECK(strstr(tg_error_message(context), "no kernel is given") != NULL, "%s", tg_error_message(context));
  CHECK(tg_show_text(context, NULL, scale, NULL, NULL, NULL, NULL) == TG_EINVAL && strstr(tg_error_message(context), "no function"), "nobody to show to");
  CHECK(tg_show_text(NULL, NULL, scale, NULL, NULL, show_nothing, NULL) == TG_EINVAL, "no context to show in");
  CHECK(tg_kernel_compile_text(context, "x.tg", scale, NULL, NULL) == TG_EINVAL && strstr(tg_error_message(context), "no place is given for the kernel"), "%s", tg_error_message(context));
  static const tg_kernel_def hollow = {.name = "hollow"}, *const hollow_defs[] = {&hollow}, *const null_defs[] = {NULL};
  CHECK(tg_kernel_compile(context, &hollow, NULL, &k) == TG_EINVAL && strstr(tg_error_message(context), "without a name or a body"), "%s", tg_error_message(context));
  for (int i = 0; i < 4; i++) {
    const tg_kernel_def *const *defs = i == 0 ? NULL : i == 1 ? null_defs : hollow_defs;
    CHECK(tg_kernel_compile_tuned(context, defs, i < 3, NULL, &k) == TG_EINVAL && strstr(tg_error_message(context), "no kernel is given"), "%d: %s", i, tg_error_message(context));
  }
  CHECK(tg_kernel_compile_tuned(NULL, null_defs, 1, NULL, &k) == TG_EINVAL && tg_kernel_compile(NULL, &hollow, NULL, &k) == TG_EINVAL, "no context");
  tg_timing t;
  size_t bytes = 7;
  CHECK(tg_kernel_run(NULL, &(tg_launch){0}) == TG_EINVAL && tg_kernel_time(NULL, &(tg_launch){0}, 0.1, &t) == TG_EINVAL && !tg_kernel_describe(NULL), "no kernel to run");
  CHECK(tg_kernel_bytes(NULL, NULL, 0, &bytes) == TG_EINVAL && !tg_kernel_workspace(NULL, 1), "no kernel to ask");
  if ((k = compile(scale))) {
    CHECK(tg_kernel_time(k, &(tg_launch){0}, 0.1, NULL) == TG_EINVAL && strstr(tg_error_message(context), "the timing"), "%s", tg_error_message(context));
    CHECK(tg_kernel_bytes(k, NULL, 0, NULL) == TG_EINVAL && strstr(tg_error_message(context), "the bytes"), "%s", tg_error_message(context));
    tg_kernel_free(k);
    k = NULL;
  }
  char told[1024] = "";
  CHECK(tg_context_create(&(tg_context_options){.target = "pdp-11", .log = keep_line, .log_user = told}, &c) == TG_EINVAL && !c, "an unknown target");
  CHECK(strstr(told, "no target is named 'pdp-11'; there are host, x86-64-v2") != NULL, "told: %s", told);
  tg_binding b[] = {{"N", 8, 4, 1}, {NULL, 1, 1, 1}, {"Q", 1, 1, 1}, {"N", 4, 8, -4}, {"N", 4, 4000, 4}};
  for (int i = 0; i < 4; i++) {
    tg_status s = tg_kernel_compile_text(context, "x.tg", scale, &(tg_compile_options){.bindings = &b[i], .bindings_n = 1}, &k);
    CHECK(s == TG_EINVAL && tg_error_message(context)[0], "binding %d: %s %s", i, tg_status_name(s), tg_error_message(context));
    tg_kernel_free(k);
  }
  CHECK(tg_kernel_compile_text(context, "x.tg", scale, &(tg_compile_options){.opts = "lane q; nonsense"}, &k) == TG_EINVAL, "a schedule that is none");
  CHECK(tg_kernel_compile_text(context, "x.tg", scale, &(tg_compile_options){.kernel = "other"}, &k) == TG_EINVAL && strstr(tg_error_message(context), "other"), "no such kernel: %s", tg_error_message(context));
  CHECK(tg_context_create(&(tg_context_options){.threads = -5}, &c) == TG_OK && c, "as many threads as there are");
  tg_context_free(c);
  CHECK(!strcmp(tg_status_name((tg_status)99), "unknown status") && tg_error_message(NULL)[0], "asked for nothing");
}

/* ---- threads of the caller's that do not run all tasks ---- */

typedef struct { int64_t skip, twice, called; } dealing;

static void deal(void *user, int64_t n, void (*task)(void *, int64_t), void *argument) {
  dealing *d = user;
  d->called = n;
  for (int64_t i = 0; i < n - d->skip; i++) task(argument, i);
  for (int64_t i = 0; i < d->twice; i++) task(argument, i);
}

static void left_out(void) {
  static float x[64], y[64];
  _Alignas(64) static char memory[1 << 16];
  tg_kernel *k = compile("kernel doubled() { in(x, f32, [64]); out(y, f32, [64]); range(i, 64, thread) y[i] = x[i] * 2 + 1; }");
  const tg_argument a[] = {{x, sizeof x}, {y, sizeof y}};
  dealing d = {0, 0, 0};
  tg_launch l = {.buffers = a, .buffers_n = 2, .parallel_for = deal, .parallel_user = &d};
  accept(k, &l);
  CHECK(d.called > 2 && y[63] == 1, "%d tasks, %g", (int)d.called, (double)y[63]);
  int64_t tasks = d.called;
  char text[64];
  for (d.skip = 1; d.skip <= tasks; d.skip += tasks / 2) {
    snprintf(text, sizeof text, "when %d of %d tasks had ended", (int)(tasks - d.skip), (int)tasks);
    refuse(k, &l, text);
  }
  d.skip = 0, d.twice = 1;
  snprintf(text, sizeof text, "when %d of %d tasks had ended", (int)tasks + 1, (int)tasks);
  refuse(k, &l, text);
  /* with a workspace tasks take work from one another: some of them are enough, none is not */
  l.workspace = memory, l.workspace_bytes = sizeof memory, l.threads = 2;
  CHECK(tg_kernel_workspace(k, 2) <= sizeof memory, "%zu bytes", tg_kernel_workspace(k, 2));
  accept(k, &l);
  d.twice = 0, d.skip = 1;
  accept(k, &l);
  d.skip = 2;
  refuse(k, &l, "when 0 of");
  tg_kernel_free(k);
}

int main(void) {
  CHECK(tg_context_create(&(tg_context_options){.target = test_target(), .threads = 3}, &context) == TG_OK, "a context");
  buffers();
  anywhere();
  promises();
  far_away();
  params();
  nothing_to_do();
  below_nothing();
  huge();
  two_contexts();
  odd_calls();
  left_out();
  tg_context_free(context);
  return TEST_END();
}
