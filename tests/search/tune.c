/* SPDX-License-Identifier: MIT
 * tg_tune over real kernels, with this program as its own worker: the choice is right, kept, found again by a flag, and by a program without a compiler;
 * sketches for one problem; sizes known at launch only; mistakes. Where it matters who wins, times are made up (modelled.h). --equals N: the default against itself on this machine. */
#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include <tg/dsl.h>
#include <tg/tune.h>
#include "store/store.h"
#include "../target.h"
#include "../folder.h"
#include "../test.h"
#include "modelled.h"

static char self[4096], tuned[TEST_PATH] = "tg-tuned-XXXXXX", cache[TEST_PATH] = "tg-cache-XXXXXX";
static const char *const worker[] = {self, "worker", NULL}, *const modelled[] = {self, "modelled", NULL};
enum { PATIENCE = 300 /* seconds: the number of candidates ends a search before */ };

/* The default is as slow as it can be; J of 1 keeps it so. */
TG_KERNEL(product, M, N, K) {
  tg_knob(J, 1, 16);
  tg_knob(I, 1, 4, 6);
  tg_in(A, f32, [M, K]);
  tg_in(B, f32, [K, N]);
  tg_out(C, f32, [M, N]);
  tg_range(i, M) tg_range(j, N) tg(C[i,j] = sum(k : K, A[i,k] * B[k,j]));
  tg_opt(split j J as jo ji);
  if (tg_c(J) > 1) tg_opt(lane ji);
  tg_opt(split i I as io ii);
  tg_opt(order io jo ii ji);
  tg_opt(upcast ii);
}

/* The same mathematics without words. */
TG_KERNEL(product_plain, M, N, K) {
  tg_in(A, f32, [M, K]);
  tg_in(B, f32, [K, N]);
  tg_out(C, f32, [M, N]);
  tg_range(i, M) tg_range(j, N) tg(C[i,j] = sum(k : K, A[i,k] * B[k,j]));
}

/* Other mathematics. */
TG_KERNEL(product_wrong, M, N, K) {
  tg_in(A, f32, [M, K]);
  tg_in(B, f32, [K, N]);
  tg_out(C, f32, [M, N]);
  tg_range(i, M) tg_range(j, N) tg(C[i,j] = sum(k : K, A[i,k] * B[k,j]) + where(i == M - 1 & j == N - 1, 1.0f, 0.0f));
}

static void clean(const char *folder) {
  DIR *d = opendir(folder);
  for (struct dirent *e; d && (e = readdir(d));)
    if (e->d_name[0] != '.') unlinkat(dirfd(d), e->d_name, 0);
  if (d) closedir(d);
  rmdir(folder);
}

static const tg_binding sizes[] = {{"M", 60, 60, 1}, {"N", 96, 96, 1}, {"K", 64, 64, 1}};

static tg_context *open_context(int jit) {
  tg_context *c = NULL;
  tg_context_options o = {.target = test_target(), .tuned = tuned, .cache = cache, .threads = 1};
  tg_status s = jit ? tg_context_create(&o, &c) : tg_context_create_runtime(&o, &c);
  CHECK(s == TG_OK, "a context");
  return c;
}

static void check_product(tg_context *c, tg_kernel *k) {
  static float a[60 * 64], b[64 * 96], got[60 * 96];
  for (int i = 0; i < 60 * 64; i++) a[i] = (float)(i % 7 - 3);
  for (int i = 0; i < 64 * 96; i++) b[i] = (float)(i % 5 - 2);
  tg_argument args[] = {{a, sizeof a}, {b, sizeof b}, {got, sizeof got}};
  tg_launch l = {.buffers = args, .buffers_n = 3};
  int wrong = 0;
  CHECK(tg_kernel_run(k, &l) == TG_OK, "%s", tg_error_message(c));
  for (int i = 0; i < 60; i++)
    for (int j = 0; j < 96; j++) {
      float want = 0;
      for (int n = 0; n < 64; n++) want += a[i * 64 + n] * b[n * 96 + j];
      wrong += got[i * 96 + j] != want;
    }
  CHECK(!wrong, "%d elements differ", wrong);
}

static void test_kept(void) {
  tg_context *c = open_context(1);
  const tg_kernel_def *defs[] = {&product};
  tg_tune_options o = {.bindings = sizes, .bindings_n = 3, .seconds = PATIENCE, .worker = modelled, .workers = 2, .flags = TG_TUNE_KNOBS_ONLY};
  tg_tune_result *r = NULL;
  tg_kernel *k = NULL;
  tg_compile_options co = {.bindings = sizes, .bindings_n = 3, .flags = TG_COMPILE_TUNED};
  CHECK(tg_kernel_compile(c, &product, &co, &k) == TG_OK && !tg_kernel_describe(k)->tuned, "no choice yet: %s", tg_error_message(c));
  tg_kernel_free(k);
  co.flags = TG_COMPILE_TUNED_ONLY;
  CHECK(tg_kernel_compile(c, &product, &co, &k) == TG_MISS && !k, "nothing but a choice");
  CHECK(tg_tune(c, defs, 1, &o, &r) == TG_OK, "%s", tg_error_message(c));
  if (!r) return;
  CHECK(r->tuned && r->kept && r->knobs_n == 2 && r->knobs[0].lo == 16 && r->gain > 1 && !r->in_process && r->exact, "tuned %d kept %d gain %.2f", r->tuned, r->kept, r->gain);
  tg_tune_result_free(r);
  CHECK(tg_kernel_compile(c, &product, &co, &k) == TG_OK && tg_kernel_describe(k)->tuned, "found again: %s", tg_error_message(c));
  check_product(c, k);
  tg_kernel_free(k);
  tg_context_free(c);
  c = open_context(0);
  CHECK(tg_kernel_compile(c, &product, &co, &k) == TG_OK && tg_kernel_describe(k)->tuned && tg_kernel_describe(k)->from_cache, "without a compiler: %s", tg_error_message(c));
  if (k) check_product(c, k);
  tg_kernel_free(k);
  tg_context_free(c);
}

static const char *const texts[] = {
  "kernel soft(M = 7, N = 300) { in(x, f32, [M, N]); out(y, f32, [M, N]); range(i, M) range(j, N) y[i,j] = exp(x[i,j] - max(k : N, x[i,k])) / sum(k : N, exp(x[i,k] - max(n : N, x[i,n]))); }",
  "kernel gather(N in 1..200, V in 1..50) { in(x, f32, [V]); in(n, i32 in 0..V-1, [N]); out(y, f32, [N]); range(i, N) y[i] = x[n[i]] * 2; }",
  "kernel bytes(M = 33, N = 40, K = 70) { in(A, u8, [M, K]); in(B, i8, [K, N]); out(C, i32, [M, N]); range(i, M) range(j, N) C[i,j] = sum(k : K, i32(A[i,k]) * i32(B[k,j])); }",
  "kernel again(N = 1000) { inout(x, f32, [N]); range(i, N) x[i] = x[i] * 2 + 1; }",
  "kernel half(M = 16, N = 64, K = 32) { in(A, f16, [M, K]); in(B, f16, [K, N]); out(C, f16, [M, N]); range(i, M) range(j, N) C[i,j] = f16(sum(k : K, f32(A[i,k]) * f32(B[k,j]))); }",
  "kernel rows(M in 1..90, N in 1..70 % 2) { in(x, f32, [M, N]); out(y, f32, [M]); out(z, f32, [N]); range(i, M) y[i] = sum(k : N, x[i,k]); range(j, N) z[j] = max(k : M, x[k,j]); }",
  "kernel total(N = 5000) { in(x, f64, [N]); out(s, f64, [1]); s[0] = sum(k : N, x[k] * x[k]); }",
};

/* ---- a program finds what was tuned ---- */

static char logged[512], near_miss[512];
static void keep_log(void *user, const char *message) {
  (void)user;
  snprintf(logged, sizeof logged, "%s", message);
}

static void keep_near_miss(void *user, const tg_compile_report *r) {
  (void)user;
  snprintf(near_miss, sizeof near_miss, "%s", r->near_miss ? r->near_miss : "");
}

static int is_tuned_for(const tg_binding *bindings, const char *folder, int threads, uint32_t flags) {
  tg_context *c = NULL;
  tg_kernel *k = NULL;
  tg_context_options o = {.target = test_target(), .tuned = folder, .threads = threads, .log = keep_log, .compiled = keep_near_miss};
  tg_compile_options co = {.bindings = bindings, .bindings_n = 3, .flags = flags};
  logged[0] = near_miss[0] = 0;
  CHECK(tg_context_create(&o, &c) == TG_OK && tg_kernel_compile(c, &product, &co, &k) == TG_OK, "%s", c ? tg_error_message(c) : "no context");
  int found = k && tg_kernel_describe(k)->tuned;
  tg_kernel_free(k);
  tg_context_free(c);
  return found;
}

static int is_tuned(const char *folder, int threads, uint32_t flags) { return is_tuned_for(sizes, folder, threads, flags); }

/* In a process that is told no more than its user's folder. */
static int fresh_is_tuned(void) {
  char command[4200];
  snprintf(command, sizeof command, "%s fresh", self);
  return system(command) == 0;
}

/* Tuned in a context of three threads for launches on one, as launches are unless they say: found by contexts of three and of one, with no flag; others are told. */
static void test_found(void) {
  char folder[TEST_PATH] = "tg-found-XXXXXX";
  tg_context *c = NULL;
  const tg_kernel_def *defs[] = {&product};
  tg_tune_options o = {.bindings = sizes, .bindings_n = 3, .seconds = PATIENCE, .candidates = 8, .threads = 1, .worker = modelled, .workers = 2, .flags = TG_TUNE_KNOBS_ONLY};
  tg_tune_result *r = NULL;
  CHECK(test_folder(folder) && tg_context_create(&(tg_context_options){.target = test_target(), .tuned = folder, .threads = 3}, &c) == TG_OK, "a context");
  CHECK(tg_tune(c, defs, 1, &o, &r) == TG_OK && r->kept && r->file && !strncmp(r->file, folder, strlen(folder)) && !access(r->file, R_OK), "%s", tg_error_message(c));
  tg_tune_result_free(r);
  tg_context_free(c);
  CHECK(is_tuned(folder, 3, 0) && is_tuned(folder, 1, 0) && !*logged, "found where launches have as many threads, or contexts: %s", logged);
  CHECK(!is_tuned(folder, 2, 0) && strstr(near_miss, ", but for threads ") && strstr(near_miss, " (here 2)") && strstr(logged, near_miss), "'%s' '%s'", near_miss, logged);
  tg_binding other[3];
  memcpy(other, sizes, sizeof other);
  other[1].lo = other[1].hi = sizes[1].lo + 32;
  char want[64];
  snprintf(want, sizeof want, ", but for N %d (here %d)", (int)sizes[1].lo, (int)other[1].lo);
  CHECK(!is_tuned_for(other, folder, 3, 0) && strstr(near_miss, want), "'%s', not '%s'", near_miss, want);
  CHECK(!is_tuned(folder, 3, TG_COMPILE_UNTUNED) && !is_tuned(folder, 3, TG_COMPILE_AS_WRITTEN) && !is_tuned(folder, 3, TG_COMPILE_OPTS_ONLY), "what says its schedule itself is not tuned");
  CHECK(!is_tuned(NULL, 3, 0), "no folder is named");
  setenv("TG_TUNED", folder, 1);
  CHECK(is_tuned(NULL, 3, 0) && !is_tuned("", 3, 0) && !is_tuned("/nowhere", 3, 0), "TG_TUNED is for programs that name no folder");
  clean(folder);
}

/* By default a context reads the folder into which the command tg tune writes by default, if it is there. */
static void test_default_folder(void) {
  char data[TEST_PATH] = "tg-data-XXXXXX", folder[TEST_PATH + 16], there[TEST_PATH + 16];
  const tg_kernel_def *defs[] = {&product};
  tg_context *c = NULL;
  tg_tune_options o = {.bindings = sizes, .bindings_n = 3, .seconds = PATIENCE, .candidates = 8, .threads = 1, .worker = modelled, .workers = 2, .flags = TG_TUNE_KNOBS_ONLY};
  tg_tune_result *r = NULL;
  CHECK(test_folder(data) != NULL, "a folder");
  snprintf(folder, sizeof folder, "%s/tg/tuned", data);
  setenv("XDG_DATA_HOME", data, 1);
  unsetenv("TG_TUNED");
  CHECK(tg_store_default(there, sizeof there) && !strcmp(there, folder), "%s, not %s", there, folder);
  CHECK(!is_tuned(NULL, 3, 0) && access(folder, F_OK), "there is no folder, and none is made");
  CHECK(tg_context_create(&(tg_context_options){.target = test_target(), .tuned = there, .threads = 3}, &c) == TG_OK, "a context");
  CHECK(tg_tune(c, defs, 1, &o, &r) == TG_OK && r->kept, "%s", tg_error_message(c));
  tg_tune_result_free(r);
  tg_context_free(c);
  CHECK(is_tuned(NULL, 3, 0) && !is_tuned("", 3, 0), "the user's own folder is for programs that name none");
  CHECK(fresh_is_tuned(), "a fresh process finds it");
  setenv("TG_TUNED", "", 1);
  CHECK(!is_tuned(NULL, 3, 0), "an empty TG_TUNED means no folder");
  clean(folder);
  snprintf(folder, sizeof folder, "%s/tg", data);
  clean(folder);
  clean(data);
}

/* ---- what searches leave behind ---- */

/* The folder of a search that was killed goes with the next; one that somebody has locked stays, and so does what only looks like one. */
static void test_left_behind(void) {
  char base[TEST_PATH] = "tg-base-XXXXXX", path[3][TEST_PATH + 32], file[TEST_PATH + 48];
  static const char *const names[] = {"tg-tune-killed", "tg-tune-living", "tg-tune-of-others"};
  CHECK(test_folder(base) != NULL, "a folder");
  for (int i = 0; i < 3; i++) {
    snprintf(path[i], sizeof path[i], "%s/%s", base, names[i]);
    CHECK(!mkdir(path[i], 0700), "a folder");
  }
  snprintf(file, sizeof file, "%s/object", path[0]);
  FILE *f = fopen(file, "w");
  CHECK(f && !fclose(f), "a file");
  int living = open(path[1], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  CHECK(living >= 0 && !flock(living, LOCK_EX | LOCK_NB), "a lock");
  const char *was = getenv("TMPDIR");
  char kept[4096];
  snprintf(kept, sizeof kept, "%s", was ? was : "");
  setenv("TMPDIR", base, 1);
  tg_context *c = open_context(1);
  tg_tune_options o = {.seconds = PATIENCE, .candidates = 1, .flags = TG_TUNE_NOT_KEPT | TG_TUNE_KNOBS_ONLY};
  tg_tune_result *r = NULL;
  CHECK(tg_tune_text(c, "text", texts[3], &o, &r) == TG_OK, "%s", tg_error_message(c));
  tg_tune_result_free(r);
  tg_context_free(c);
  if (was) setenv("TMPDIR", kept, 1);
  else unsetenv("TMPDIR");
  CHECK(access(path[0], F_OK) && !access(path[1], F_OK) && !access(path[2], F_OK), "killed %d, living %d, other %d", access(path[0], F_OK), access(path[1], F_OK), access(path[2], F_OK));
  int left = 0;
  DIR *d = opendir(base);
  for (struct dirent *e; d && (e = readdir(d));) left += e->d_name[0] != '.';
  if (d) closedir(d);
  CHECK(left == 2, "%d folders are left", left);
  close(living);
  rmdir(path[1]), rmdir(path[2]), rmdir(base);
}

/* The best of several kernels, found by all their names. */
static void test_sketches(void) {
  tg_context *c = open_context(1);
  const tg_kernel_def *defs[] = {&product, &product_wrong, &product_plain};
  const tg_binding slow[] = {sizes[0], sizes[1], sizes[2]};
  tg_tune_options o = {.bindings = slow, .bindings_n = 3, .seconds = PATIENCE, .worker = modelled, .workers = 2, .candidates = 12};
  tg_tune_result *r = NULL;
  CHECK(tg_tune(c, defs, 3, &o, &r) == TG_OK, "%s", tg_error_message(c));
  if (!r) return;
  CHECK(r->tuned && r->classes[TG_TUNE_WRONG] >= 1 && strcmp(r->kernel, "product_wrong"), "%s, %u wrong", r->kernel, r->classes[TG_TUNE_WRONG]);
  char kept[32];
  snprintf(kept, sizeof kept, "%s", r->kernel);
  tg_tune_result_free(r);
  tg_kernel *k = NULL;
  tg_compile_options co = {.bindings = slow, .bindings_n = 3};
  CHECK(tg_kernel_compile_tuned(c, defs, 3, &co, &k) == TG_OK && tg_kernel_describe(k)->tuned, "%s", tg_error_message(c));
  if (k) check_product(c, k);
  tg_kernel_free(k);
  k = NULL;
  co.flags = TG_COMPILE_TUNED_ONLY;   /* whoever does not name the winner does not get its words */
  CHECK(!strcmp(kept, "product") || tg_kernel_compile_tuned(c, defs, 1, &co, &k) == TG_MISS, "the words of %s for another kernel: %s", kept, tg_error_message(c));
  tg_kernel_free(k);
  tg_context_free(c);
}

/* Kernels without knobs or words: whatever the search makes of them, in process and by workers. */
static void test_texts(void) {
  tg_context *c = open_context(1);
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
    tg_tune_options o = {.seconds = PATIENCE, .candidates = 6, .worker = i % 2 ? NULL : worker, .workers = 2, .seed = i, .flags = TG_TUNE_NOT_KEPT | (i % 2 ? TG_TUNE_KNOBS_ONLY : 0)};
    tg_tune_result *r = NULL;
    CHECK(tg_tune_text(c, "text", texts[i], &o, &r) == TG_OK, "%zu: %s", i, tg_error_message(c));
    if (!r) continue;
    CHECK(r->classes[TG_TUNE_WRONG] == 0 && r->default_seconds > 0 && !r->kept && (i % 2 == 0) == !r->in_process, "%zu: %u wrong", i, r->classes[TG_TUNE_WRONG]);
    CHECK(i % 2 || r->lowered > 3, "%zu: %u lowered", i, r->lowered);
    CHECK(r->exact == (i != 0 && i != 3), "%zu: exact %d", i, r->exact);
    tg_tune_result_free(r);
  }
  tg_context_free(c);
}

/* The operations that the rate is made of: two for each term of a sum of products, of both sums of attention, whatever lies between them. */
static void test_operations(void) {
  static const struct { const char *text; double products, besides; } rows[] = {
    {"kernel product(M = 24, N = 40, K = 56) { in(A, f32, [M, K]); in(B, f32, [K, N]); out(C, f32, [M, N]); range(i, M) range(j, N) C[i,j] = sum(k : K, A[i,k] * B[k,j]); }", 2.0 * 24 * 40 * 56, 0},
    {"kernel attention(H = 2, T = 32, D = 16) { in(q, f32, [H, T, D]); in(k, f32, [H, T, D]); in(v, f32, [H, T, D]); out(o, f32, [H, T, D]);"
     "  range(h, H) range(i, T) { define_reg(p, f32, [T]); range(j, T) p[j] = sum(d : D, q[h,i,d] * k[h,j,d]) * 0.25; let m = max(j : T, p[j]);"
     "  range(j, T) p[j] = exp(p[j] - m); let s = sum(j : T, p[j]); range(d, D) o[h,i,d] = sum(j : T, p[j] * v[h,j,d]) / s; } }", 4.0 * 2 * 32 * 32 * 16, 5.0 * 2 * 32 * 32 + 2.0 * 32 * 16},
  };
  tg_context *c = open_context(1);
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    tg_tune_options o = {.seconds = PATIENCE, .candidates = 1, .flags = TG_TUNE_NOT_KEPT | TG_TUNE_KNOBS_ONLY};
    tg_tune_result *r = NULL;
    CHECK(tg_tune_text(c, "text", rows[i].text, &o, &r) == TG_OK, "%s", tg_error_message(c));
    if (r) CHECK(r->flops == rows[i].products + rows[i].besides, "text %zu: %.0f operations, not %.0f and %.0f", i, r->flops, rows[i].products, rows[i].besides);
    tg_tune_result_free(r);
  }
  tg_context_free(c);
}

static void test_mistakes(void) {
  tg_context *c = open_context(1), *runtime = open_context(0);
  tg_tune_options o = {.worker = worker, .seconds = 2};
  tg_tune_result *r = NULL;
  CHECK(tg_tune_text(c, "t.tg", "kernel f(N) { in(x, f32, [N]); }", &o, &r) == TG_EINVAL && !r && strstr(tg_error_message(c), "'N' has no value"), "%s", tg_error_message(c));
  CHECK(tg_tune_text(c, "t.tg", "kernel f() { in(x, f32, [4]); out(y, f32, [4]); range(i, 4) y[i] = x[i]; opt(lane q); }", &o, &r) == TG_EINVAL && !r, "%s", tg_error_message(c));
  CHECK(tg_tune_text(c, "t.tg", NULL, &o, &r) == TG_EINVAL, "no text");
  CHECK(tg_tune(c, NULL, 0, &o, &r) == TG_EINVAL, "no kernel");
  CHECK(tg_tune_text(runtime, "t.tg", texts[0], &o, &r) == TG_EINVAL, "no compiler");
  CHECK(tg_tune_text(NULL, "t.tg", texts[0], &o, &r) == TG_EINVAL, "no context");
  tg_tune_result_free(NULL);
  tg_context_free(runtime);
  tg_context_free(c);
}

/* This machine: the default against itself, n times, as the search compares. */
static int equals(int n) {
  tg_bench *b = tg_trial_bench_new(NULL);
  tg_env env;
  int different = 0;
  uint32_t dropped = 0;
  for (int i = 0; i < n; i++) {
    const char *text = texts[i % 2 ? 2 : 0];
    tg_env_init(&env, NULL);
    tg_task t = {.kind = TG_TASK_OPEN, .target = test_target(), .trial = {text, NULL, NULL}, .make = true, .threads = 1, .shared = -1, .seed = 1};
    if (i < 2 || i % 2 != (i - 1) % 2) tg_bench_run(b, &env, &t);
    CHECK(t.outcome == TG_TRIAL_OK, "%s", t.message);
    t = (tg_task){.kind = TG_TASK_TIME, .trial = {text, NULL, NULL}, .against = {text, NULL, NULL}, .quads = i % 4 < 2 ? 16 : TG_QUADS};
    tg_bench_run(b, &env, &t);
    different += tg_decide(t.gain, t.n, 0.01).faster;
    dropped += t.dropped;
    tg_env_drop(&env);
  }
  tg_trial_bench_free(b);
  CHECK(different <= 2, "the default against itself %d times: called different %d times", n, different);
  printf("%d of %d called different; %u samples dropped\n", different, n, dropped);
  return TEST_END();
}

int main(int argc, char **argv) {
  if (argc > 2 && !strcmp(argv[1], "--equals")) return equals(atoi(argv[2]));
  if (argc > 1 && !strcmp(argv[1], "worker")) {
    int in = fcntl(0, F_DUPFD_CLOEXEC, 10), out = fcntl(1, F_DUPFD_CLOEXEC, 10);
    tg_tune_worker(in, out);
    return 0;
  }
  if (argc > 1 && !strcmp(argv[1], "modelled")) {
    modelled_worker(NULL, 0, 1);
    return 0;
  }
  if (argc > 1 && !strcmp(argv[1], "fresh")) {
    unsetenv("TG_TUNED");
    return !is_tuned(NULL, 3, 0);
  }
  ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
  self[n > 0 ? n : 0] = 0;
  CHECK(test_folder(tuned) && test_folder(cache), "folders");
  test_mistakes();
  test_kept();
  test_found();
  test_default_folder();
  test_left_behind();
  test_sketches();
  test_texts();
  test_operations();
  clean(tuned);
  clean(cache);
  return TEST_END();
}
