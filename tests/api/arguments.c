/* SPDX-License-Identifier: MIT
 * What a launch is given: arguments by name, offsets, strides that go down, values that break a promise; and calls that
 * a flag ends. */
#define _GNU_SOURCE
#include <stdbool.h>
#include <stdlib.h>
#include <unistd.h>
#include "../target.h"
#include "../folder.h"
#include "../test.h"
#include "tg/build.h"

static tg_context *open_context(uint32_t flags) {
  tg_context *c = NULL;
  tg_context_options o = {.target = test_target(), .flags = TG_CONTEXT_VERIFY | flags, .threads = 2};
  CHECK(tg_context_create(&o, &c) == TG_OK, "a context");
  return c;
}

static tg_kernel *compile(tg_context *c, const char *text) {
  tg_kernel *k = NULL;
  CHECK(tg_kernel_compile_text(c, "arguments.tg", text, NULL, &k) == TG_OK, "%s: %s", text, tg_error_message(c));
  return k;
}

static void refused(tg_context *c, tg_kernel *k, const tg_launch *l, const char *message) {
  tg_status s = tg_kernel_run(k, l);
  CHECK(s == TG_EINVAL && strstr(tg_error_message(c), message), "'%s' is not in: %s", message,
        s == TG_OK ? "success" : tg_error_message(c));
}

/* ---- names ---- */

static void names(tg_context *c) {
  tg_kernel *k = compile(c, "kernel f(M in 1..8, N in 1..8) { in(a, f32, [M]); in(b, f32, [N]); out(y, f32, [M, N]); "
                            "range(i, M) range(j, N) y[i,j] = a[i] - b[j]; }");
  float a[3] = {1, 2, 3}, b[2] = {10, 20}, y[6];
  int64_t values[] = {2, 3};
  const char *params[] = {"N", "M"};
  const char *buffers[] = {"y", "b", "a"};
  tg_argument given[3] = {{y, sizeof y}, {b, sizeof b}, {a, sizeof a}};
  tg_launch l = {.buffers = given, .buffers_n = 3, .params = values, .params_n = 2, .param_names = params,
                 .buffer_names = buffers};
  if (!k) return;
  CHECK(tg_kernel_run(k, &l) == TG_OK, "%s", tg_error_message(c));
  for (int i = 0; i < 6; i++) CHECK(y[i] == a[i / 2] - b[i % 2], "y[%d]", i);
  buffers[1] = "q";
  refused(c, k, &l, "kernel 'f' has no buffer 'q'; it has a, b, y");
  buffers[1] = "a";
  refused(c, k, &l, "buffer 'a' is given twice");
  buffers[1] = NULL;
  refused(c, k, &l, "buffer 1 of the launch has no name");
  buffers[1] = "b";
  l.buffers_n = 2;
  refused(c, k, &l, "buffer 'a' is missing");
  l.buffers_n = 3;
  params[1] = "N";
  refused(c, k, &l, "parameter 'N' is given twice");
  params[1] = "L";
  refused(c, k, &l, "kernel 'f' has no parameter 'L'; it has M, N");
  l.params_n = 1;
  refused(c, k, &l, "parameter 'M' is missing");
  l.params_n = 2, params[1] = "M";
  tg_timing t;
  CHECK(tg_kernel_time(k, &l, 1e-5, &t) == TG_OK && t.runs >= 3, "%s", tg_error_message(c));
  tg_program *p;
  CHECK(tg_program_begin(c, NULL, &p) == TG_OK, "%s", tg_error_message(c));
  memset(y, 0, sizeof y);
  CHECK(tg_program_launch(p, k, &l) == TG_OK && tg_program_end(p) == TG_OK, "%s", tg_error_message(c));
  CHECK(tg_program_run(p, &(tg_program_call){.arguments_n = 0}) == TG_OK && y[5] == 3 - 20, "%s", tg_error_message(c));
  tg_program_free(p);
  tg_kernel_free(k);
}

/* ---- strides that go down ---- */

enum { ROOM = 4096, MIDDLE = 2048 };
static float from[ROOM], to[ROOM];

/* y[i,j] = x[i,j] through views of both; `to` is untouched elsewhere. */
static void copied(tg_context *c, tg_kernel *k, const int64_t *p, bool with_offset) {
  int64_t n = p[0], m = p[1], s = p[2], t = p[3], u = p[4], v = p[5];
  int64_t reach = (n - 1) * llabs(s) + (m - 1) * llabs(t), down = (s < 0 ? (n - 1) * -s : 0) + (t < 0 ? (m - 1) * -t : 0);
  int64_t reach_y = (n - 1) * llabs(u) + (m - 1) * llabs(v), down_y = (u < 0 ? (n - 1) * -u : 0) + (v < 0 ? (m - 1) * -v : 0);
  for (int i = 0; i < ROOM; i++) from[i] = (float)i, to[i] = -1;
  tg_argument a[2];
  if (with_offset) {
    a[0] = (tg_argument){from, sizeof from};
    a[1] = (tg_argument){to, sizeof to};
  } else {   /* from the first element in memory on, with no byte more than is needed */
    a[0] = (tg_argument){from + MIDDLE - down, (size_t)(reach + 1) * 4};
    a[1] = (tg_argument){to + MIDDLE - down_y, (size_t)(reach_y + 1) * 4};
  }
  size_t bytes, offsets[] = {MIDDLE * 4, MIDDLE * 4};
  tg_launch l = {.buffers = a, .buffers_n = 2, .params = p, .params_n = 6, .threads = 2,
                 .offsets = with_offset ? offsets : NULL};
  CHECK(tg_kernel_bytes(k, p, 0, &bytes) == TG_OK && bytes == (size_t)(reach + 1) * 4, "%zu bytes", bytes);
  tg_status status = tg_kernel_run(k, &l);
  CHECK(status == TG_OK, "%s", tg_error_message(c));
  for (int64_t i = 0; i < n && status == TG_OK; i++)
    for (int64_t j = 0; j < m; j++) {
      float *at = &to[MIDDLE + i * u + j * v];
      if (*at != (float)(MIDDLE + i * s + j * t)) CHECK(0, "element %d, %d is %g", (int)i, (int)j, *at);
      *at = -1;
    }
  int wrong = 0;
  for (int i = 0; i < ROOM; i++) wrong += to[i] != -1;
  CHECK(!wrong, "%d elements beside the view were written", wrong);
  if (with_offset) return;
  a[0].bytes -= 4;
  refused(c, k, &l, "'x' has");
  a[0].bytes += 4, l.offsets = offsets, offsets[0] = (size_t)down * 4 + 4, offsets[1] = 0;
  refused(c, k, &l, "'x' has");
  offsets[0] = (size_t)down * 4 - 4;
  if (down > 1) refused(c, k, &l, "before its element of subscripts 0");
}

static void views(tg_context *c) {
  tg_kernel *k = compile(c, "kernel f(N in 1..40, M in 1..40, S in -90..90, T in -90..90, U in -90..90, V in -90..90) "
                            "{ in(x, f32, [N, M], [S, T]); out(y, f32, [N, M], [U, V]); "
                            "range(i, N) range(j, M) y[i,j] = x[i,j]; }");
  static const int64_t of[][6] = {
      {7, 33, 40, -1, 33, 1},   {7, 33, -40, 1, -33, -1}, {33, 7, -1, 33, -1, -40}, {1, 40, -9, -2, -90, -1},
      {20, 20, 0, -1, 21, -1},  {20, 3, -3, -1, 3, 1},    {40, 40, -45, -1, 1, -41}, {1, 1, -1, -1, -1, -1},
  };
  for (size_t i = 0; k && i < sizeof of / sizeof *of; i++) copied(c, k, of[i], false), copied(c, k, of[i], true);
  if (k) {
    size_t offsets[] = {4, 0};
    tg_argument a[2] = {{from, sizeof from}, {to, sizeof to}};
    tg_launch l = {.buffers = a, .buffers_n = 2, .params = (const int64_t[]){4, 4, -9, 1, 9, 1}, .params_n = 6,
                   .offsets = offsets};
    refused(c, k, &l, "'x' reaches 108 bytes before its element of subscripts 0, whose offset is 4");
    l.params = (const int64_t[]){4, 4, -9, 1, 1, -1};
    refused(c, k, &l, "'x' reaches");
    l.offsets = NULL;
    refused(c, k, &l, "the strides of 'y', which the kernel writes, lay two elements on one place");
  }
  tg_kernel_free(k);
  /* constants; sums; recorded and replayed */
  static const char *const texts[] = {
      "kernel f() { in(x, f32, [37], [-1]); out(y, f32, [37]); range(i, 37) y[i] = x[i]; }",
      "kernel f() { in(x, f32, [37]); out(y, f32, [37], [-1]); range(i, 37) y[i] = x[i]; }",
      "kernel f(N = 37) { in(x, f32, [N], [-1]); out(y, f32, [N]); opt(split i 8 as io ii); opt(lane ii); range(i, N) y[i] = x[i]; }",
      "kernel f() { in(x, f32, [37], [-3]); out(y, f32, [37], [3]); range(i, 37) y[i] = x[i]; }",
  };
  static const int in_step[] = {-1, 1, -1, -3}, out_step[] = {1, -1, 1, 3};
  for (int i = 0; i < 4; i++) {
    if (!(k = compile(c, texts[i]))) continue;
    const size_t offsets[] = {MIDDLE * 4, MIDDLE * 4};
    tg_argument a[2] = {{from, sizeof from}, {to, sizeof to}};
    tg_launch l = {.buffers = a, .buffers_n = 2, .offsets = offsets};
    tg_device *d;
    tg_queue *q = NULL;
    tg_graph *g = NULL;
    CHECK(tg_kernel_run(k, &l) == TG_OK, "%s", tg_error_message(c));
    for (int e = 0; e < 37; e++)
      CHECK(to[MIDDLE + out_step[i] * e] == (float)(MIDDLE + in_step[i] * e), "%s: element %d", texts[i], e);
    memset(to, 0, sizeof to);
    CHECK(!tg_device_open(c, 0, &d) && !tg_queue_open(d, NULL, &q) && !tg_queue_record(q) && !tg_queue_launch(q, k, &l) &&
              !tg_queue_recorded(q, &g), "%s", tg_error_message(c));
    tg_graph_move move = {from, to, sizeof from};   /* onto what is written: refused */
    CHECK(tg_queue_replay(q, g, &(tg_graph_replay){.moves = &move, .moves_n = 1}) == TG_EINVAL, "an overlap");
    CHECK(tg_queue_replay(q, g, NULL) == TG_OK && to[MIDDLE + out_step[i] * 36] == (float)(MIDDLE + in_step[i] * 36),
          "%s", tg_error_message(c));
    tg_graph_free(g);
    tg_queue_free(q);
    tg_kernel_free(k);
  }
  if ((k = compile(c, "kernel f(S in -40..-1, T in -9..9) { in(a, f32, [9, 30], [S, T]); in(b, f32, [30, 17], [-17, -1]); "
                      "out(y, f32, [9, 17]); range(i, 9) range(j, 17) y[i,j] = sum(k : 30, a[i,k] * b[k,j]); }"))) {
    const int64_t p[] = {-30, -1};
    for (int i = 0; i < ROOM; i++) from[i] = (float)(i % 7 - 3);
    const size_t offsets[] = {MIDDLE * 4, MIDDLE * 4, 0};
    tg_argument a[3] = {{from, sizeof from}, {from, sizeof from}, {to, sizeof to}};
    tg_launch l = {.buffers = a, .buffers_n = 3, .params = p, .params_n = 2, .threads = 2,
                   .offsets = offsets};
    CHECK(tg_kernel_run(k, &l) == TG_OK, "%s", tg_error_message(c));
    for (int i = 0; i < 9; i++)
      for (int j = 0; j < 17; j++) {
        float sum = 0;
        for (int e = 0; e < 30; e++) sum += from[MIDDLE - 30 * i - e] * from[MIDDLE - 17 * e - j];
        if (to[17 * i + j] != sum) CHECK(0, "the product's element %d, %d", i, j);
      }
    test_passed++;
    tg_kernel_free(k);
  }
  tg_built *b;
  const char *target = "x86-64-v2";
  CHECK(tg_build_text(c, "f", texts[0], NULL, &target, 1, &b) == TG_ELIMIT && strstr(tg_error_message(c), "negative stride"),
        "%s", tg_error_message(c));
  tg_built_free(b);
}

/* ---- promises ---- */

static void promises(void) {
  static const char text[] = "kernel f(N in 1..64, V in 1..99) {\n  in(x, f32, [V]);\n  in(idx, i32 in 0..V-1, [2, N], [-N, 1]);\n"
                             "  out(y, f32, [2, N]);\n  range(r, 2) range(i, N) y[r,i] = x[idx[r,i]];\n}\n";
  for (int checked = 0; checked < 2; checked++) {
    tg_context *c = open_context(checked ? TG_CONTEXT_CHECK_PROMISES : 0);
    tg_kernel *k = compile(c, text);
    float x[9], y[40];
    int32_t idx[40];
    for (int i = 0; i < 9; i++) x[i] = (float)i;
    for (int i = 0; i < 40; i++) idx[i] = i % 9;
    const int64_t p[] = {20, 9};
    tg_argument a[] = {{x, sizeof x}, {idx, sizeof idx}, {y, sizeof y}};
    tg_launch l = {.buffers = a, .buffers_n = 3, .params = p, .params_n = 2, .threads = 2};
    if (!k) continue;
    CHECK(tg_kernel_run(k, &l) == TG_OK, "%s", tg_error_message(c));
    for (int i = 0; i < 40; i++) CHECK(y[i] == x[idx[(1 - i / 20) * 20 + i % 20]], "y[%d]", i);
    idx[7] = 999, idx[3] = -4;   /* of row 1, which lies first */
    if (checked) {
      refused(c, k, &l, "arguments.tg:3: 'idx' promises values of 0..8, and idx[1, 3] is -4");
      idx[20 + 13] = 9;
      refused(c, k, &l, "idx[0, 13] is 9");
    } else CHECK(tg_kernel_run(k, &l) == TG_OK && y[27] == 8 && y[23] == 0, "a value outside is not clamped");
    tg_kernel_free(k);
    tg_context_free(c);
  }
}

/* ---- cancellation ---- */

typedef struct { long left, live; int flag; } budget;

static void *count_alloc(void *user, size_t n) {
  budget *b = user;
  if (!--b->left) __atomic_store_n(&b->flag, 1, __ATOMIC_RELAXED);
  __atomic_fetch_add(&b->live, 1, __ATOMIC_RELAXED);
  return malloc(n);
}

static void count_free(void *user, void *p, size_t n) {
  (void)n;
  if (p) __atomic_fetch_sub(&((budget *)user)->live, 1, __ATOMIC_RELAXED);
  free(p);
}

static int files_in(const char *folder) {
  char command[600];
  int n = 0;
  snprintf(command, sizeof command, "ls '%s' 2> /dev/null | wc -l", folder);
  FILE *f = popen(command, "r");
  if (!f || fscanf(f, "%d", &n) != 1) n = -1;
  if (f) pclose(f);
  return n;
}

static void remove_all(const char *folder) {
  char command[600];
  snprintf(command, sizeof command, "rm -r '%s'", folder);
  if (system(command)) CHECK(0, "%s", command);
}

typedef tg_status cancelled_call(tg_context *c, const int *flag);

static tg_status one_kernel(tg_context *c, const int *flag) {
  tg_compile_options o = {.cancel = flag};
  tg_kernel *k = NULL;
  tg_status s = tg_kernel_compile_text(c, "f", "kernel f(N in 1..4000) { in(x, f32, [N]); out(y, f32, [N]); range(i, N) y[i] = exp(x[i]); }", &o, &k);
  CHECK((s == TG_OK) == (k != NULL), "a kernel of a call that failed");
  tg_kernel_free(k);
  return s;
}

static tg_status one_object(tg_context *c, const int *flag) {
  tg_compile_options o = {.cancel = flag};
  const char *targets[] = {"x86-64-v2", "x86-64-v3"};
  tg_built *b = NULL;
  tg_status s = tg_build_text(c, "f", "kernel f(N in 1..4000) { in(x, f32, [N]); out(y, f32, [N]); range(i, N) y[i] = x[i] * 2; }", &o, targets, 2, &b);
  CHECK((s == TG_OK) == (b != NULL), "an object of a call that failed");
  tg_built_free(b);
  return s;
}

static tg_status one_plan(tg_context *c, const int *flag) {
  tg_gemm_desc d = {.m = {1, 40}, .n = {64, 0}, .k = {64, 0}, .cancel = flag};
  tg_gemm *g = NULL;
  tg_status s = tg_gemm_plan(c, &d, &g);
  CHECK((s == TG_OK) == (g != NULL), "a plan of a call that failed");
  tg_gemm_free(g);
  return s;
}

/* A plan of several kernels: one for few queries, with its parts and their merge, one for many, and one that joins. */
static tg_status attention_plan(tg_context *c, const int *flag) {
  tg_attention_desc d = {.lse = 1, .heads = 4, .head = 32, .queries = {1, 100}, .keys = {1, 4096}, .cancel = flag};
  tg_attention *a = NULL;
  tg_status s = tg_attention_plan(c, &d, &a);
  CHECK((s == TG_OK) == (a != NULL), "a plan of a call that failed");
  tg_attention_free(a);
  return s;
}

/* The flag is set by the n-th allocation, for some n up to where the call succeeds. */
static void cancelled(const char *what, cancelled_call *call) {
  char folder[TEST_PATH] = "tg-arguments-XXXXXX", cache[TEST_PATH + 8];
  CHECK(test_folder(folder) != NULL, "a folder");
  snprintf(cache, sizeof cache, "%s/cache", folder);
  int ended = 0, done = 0;
  for (long n = 1; n < 100000 && !done; n += n / 3 + 1) {
    budget b = {.left = n};
    tg_context *c = NULL;
    tg_context_options o = {.allocator = {count_alloc, count_free, &b}, .target = test_target(), .cache = cache, .threads = 1};
    CHECK(tg_context_create(&o, &c) == TG_OK, "a context");
    tg_status s = call(c, &b.flag);
    CHECK(s == TG_OK || (s == TG_CANCELLED && !strcmp(tg_error_message(c), "cancelled")), "%s: %s: %s", what, tg_status_name(s), tg_error_message(c));
    ended += s == TG_CANCELLED;
    done = s == TG_OK && !b.flag;
    if (call == one_kernel && s == TG_CANCELLED) CHECK(files_in(cache) <= 2, "%s: kept", what);
    tg_context_free(c);
    CHECK(!b.live, "%s: %ld allocations left over", what, b.live);
  }
  CHECK(ended > 2 && done, "%s: cancelled %d times, done %d", what, ended, done);
  remove_all(folder);
}

static int tune_flag;
static void on_progress(void *user, const tg_tune_progress *p) {
  (void)user;
  if (p->what == TG_TUNE_BUILT) __atomic_store_n(&tune_flag, 1, __ATOMIC_RELAXED);
}

static void tuning(void) {
  char folder[TEST_PATH] = "tg-arguments-XXXXXX";
  CHECK(test_folder(folder) != NULL, "a folder");
  budget b = {.left = -1};
  tg_context *c = NULL;
  tg_context_options o = {.allocator = {count_alloc, count_free, &b}, .target = test_target(), .tuned = folder, .threads = 1};
  CHECK(tg_context_create(&o, &c) == TG_OK, "a context");
  tg_tune_options t = {.seconds = 5, .progress = on_progress, .cancel = &tune_flag};
  tg_tune_result *r = NULL;
  tg_status s = tg_tune_text(c, "f", "kernel f() { in(x, f32, [4096]); out(y, f32, [4096]); range(i, 4096) y[i] = x[i] * 2; }", &t, &r);
  CHECK(s == TG_CANCELLED && !r, "%s: %s", tg_status_name(s), tg_error_message(c));
  tg_context_free(c);
  CHECK(!b.live && !files_in(folder), "%ld allocations, %d files left over", b.live, files_in(folder));
  remove_all(folder);
}

int main(void) {
  tg_context *c = open_context(0);
  names(c);
  views(c);
  tg_context_free(c);
  promises();
  cancelled("a kernel", one_kernel);
  cancelled("an object", one_object);
  cancelled("a plan", one_plan);
  cancelled("a plan of attention", attention_plan);
  if (!strcmp(test_target(), "host")) tuning();
  return TEST_END();
}
