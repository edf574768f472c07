/* SPDX-License-Identifier: MIT
 * libtg_jit.so.0 maps LLVM's library when first something is compiled, and not before: kernels and plans out of a folder and
 * out of a pack leave it unmapped. Threads that compile first at once, and children of forks before it and in its middle.
 * Without libtg_llvm.so.0, and with that of another build or none of tg's: what is compiled fails and names the file, what is
 * kept runs. Each case is a process of its own. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <sys/wait.h>
#include "../folder.h"
#include "../pack.h"
#include "../test.h"
#include "tg/dsl.h"
#include "tg/gemm.h"

enum { N = 24, THREADS = 6 };
#if defined __has_feature && !defined __SANITIZE_THREAD__
#if __has_feature(thread_sanitizer)
#define __SANITIZE_THREAD__ 1
#endif
#endif
#ifdef __SANITIZE_THREAD__   /* its own locks are, in a child of a process with threads, as they were in the parent */
enum { TURNS = 0 };
#else
enum { TURNS = 8 };
#endif
static char libraries[3000], folder[TEST_PATH] = "tg-opened-XXXXXX";

TG_KERNEL(shifted, M) {
  tg_in(x, f32, [M]);
  tg_out(y, f32, [M]);
  tg_range(i, M) tg(y[i] = x[i] + 3);
}

static int is_mapped(const char *name) {
  char line[5000];
  int mapped = 0;
  FILE *f = fopen("/proc/self/maps", "r");
  while (f && fgets(line, sizeof line, f)) mapped |= strstr(line, name) != NULL;
  if (f) fclose(f);
  return f ? mapped : -1;
}

static bool runs(tg_kernel *k, float times, float plus) {
  float x[N], y[N];
  for (int i = 0; i < N; i++) x[i] = (float)i, y[i] = -1;
  tg_argument a[] = {{x, sizeof x}, {y, sizeof y}};
  bool good = tg_kernel_run(k, &(tg_launch){.buffers = a, .buffers_n = 2, .params = (int64_t[]){N}, .params_n = 1}) == TG_OK;
  for (int i = 0; i < N; i++) good &= y[i] == times * x[i] + plus;
  return good;
}

/* A kernel of the text by its number: each thread compiles one that no other does. */
static bool text_runs(tg_context *c, int number) {
  char text[200];
  tg_kernel *k;
  snprintf(text, sizeof text, "kernel scaled%d(M in 1..100) { in(x, f32, [M]); out(y, f32, [M]); range(i, M) y[i] = x[i] * %d; }", number, number);
  if (tg_kernel_compile_text(c, "k.tg", text, NULL, &k) != TG_OK) return false;
  bool good = runs(k, (float)number, 0);
  tg_kernel_free(k);
  return good;
}

static bool def_runs(tg_context *c) {
  tg_binding size = {"M", 1, 100, 1};
  tg_kernel *k;
  if (tg_kernel_compile(c, &shifted, &(tg_compile_options){.bindings = &size, .bindings_n = 1}, &k) != TG_OK) return false;
  bool good = runs(k, 1, 3);
  tg_kernel_free(k);
  return good;
}

static bool product_runs(tg_context *c) {
  static float a[N * N], b[N * N], r[N * N], work[1 << 16];
  const tg_gemm_desc d = {.m = {1, N}, .n = {N, 0}, .k = {N, 0}};
  tg_gemm *g;
  if (tg_gemm_plan(c, &d, &g) != TG_OK) return false;
  for (int i = 0; i < N * N; i++) a[i] = (float)(i % 5 - 2), b[i] = (float)(i / N == i % N);
  tg_gemm_call call = {.m = N, .a = a, .b = b, .c = r, .workspace = work, .workspace_bytes = sizeof work};
  bool good = tg_gemm_workspace(g, &call) <= sizeof work && tg_gemm_run(g, &call) == TG_OK && !memcmp(a, r, sizeof a);
  tg_gemm_free(g);
  return good;
}

static tg_context *context(const char *cache, const void *pack, size_t bytes) {
  tg_context *c = NULL;
  tg_context_options o = {.threads = 1, .cache = cache, .pack = pack, .pack_bytes = bytes};
  if (tg_context_create(&o, &c) == TG_OK) return c;   /* from any thread, so it counts nothing */
  fputs("no context\n", stderr);
  exit(3);
}

static const char *in_folder(const char *name) {
  static char path[2][TEST_PATH + 32];
  static int turn;
  snprintf(path[turn ^= 1], sizeof path[0], "%s/%s", folder, name);
  return path[turn];
}

/* ---- the cases ---- */

static void first_compile(void) {
  tg_context *c = context(in_folder("cache"), NULL, 0);
  CHECK(!is_mapped("libLLVM") && !is_mapped("libtg_llvm"), "before the first compile");
  CHECK(text_runs(c, 2), "%s", tg_error_message(c));
  CHECK(is_mapped("libLLVM") == 1 && is_mapped("libtg_llvm") == 1, "behind it");
  CHECK(def_runs(c) && product_runs(c), "%s", tg_error_message(c));
  tg_context_free(c);
}

static void kept_runs(tg_context *c, const char *where) {
  CHECK(text_runs(c, 2) && def_runs(c) && product_runs(c), "%s: %s", where, tg_error_message(c));
  CHECK(!is_mapped("libLLVM") && !is_mapped("libtg_llvm"), "%s: nothing is compiled, and LLVM is mapped", where);
}

static void from_the_folder(void) {
  tg_context *c = context(in_folder("cache"), NULL, 0);
  kept_runs(c, "the folder");
  CHECK(text_runs(c, 9) && is_mapped("libLLVM") == 1, "what is not there is compiled: %s", tg_error_message(c));
  tg_context_free(c);
}

static void from_a_pack(void) {
  size_t bytes;
  tg_env env;
  tg_env_init(&env, NULL);
  const char *pack = test_pack_of(&env, in_folder("cache"), &bytes);
  tg_context *c = context(NULL, pack, bytes);
  kept_runs(c, "a pack");
  tg_context_free(c);
  tg_env_drop(&env);
}

static void loaded_early(void) {
  tg_context *c = context(NULL, NULL, 0), *runtime;
  CHECK(tg_compiler_load(c) == TG_OK && is_mapped("libLLVM") == 1, "%s", tg_error_message(c));
  CHECK(tg_compiler_load(NULL) == TG_EINVAL, "no context");
  CHECK(tg_context_create_runtime(NULL, &runtime) == TG_OK && tg_compiler_load(runtime) == TG_EINVAL && strstr(tg_error_message(runtime), "no compiler"), "a context without compiler");
  tg_context_free(runtime);
  CHECK(text_runs(c, 3), "%s", tg_error_message(c));
  tg_context_free(c);
}

static void *one_thread(void *user) {
  tg_context *c = context(NULL, NULL, 0);
  bool good = text_runs(c, 1 + *(int *)user) && def_runs(c);
  if (!good) fprintf(stderr, "%s\n", tg_error_message(c));
  tg_context_free(c);
  return good ? NULL : user;
}

static void start_threads(pthread_t *thread, int *number) {
  for (int i = 0; i < THREADS; i++) {
    number[i] = i;
    CHECK(!pthread_create(&thread[i], NULL, one_thread, &number[i]), "thread %d", i);
  }
}

static void end_threads(pthread_t *thread) {
  for (int i = 0; i < THREADS; i++) {
    void *failed;
    pthread_join(thread[i], &failed);
    CHECK(!failed, "thread %d", i);
  }
}

static void from_threads(void) {
  pthread_t thread[THREADS];
  int number[THREADS];
  start_threads(thread, number);
  end_threads(thread);
  CHECK(is_mapped("libLLVM") == 1, "LLVM");
}

static bool child_is_good(void (*run)(void), const char *what) {
  fflush(NULL);
  pid_t child = fork();
  if (!child) {
    alarm(300);   /* a machine with other work */
    test_failed = 0;
    run();
    fflush(NULL);
    _exit(test_failed != 0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  bool good = WIFEXITED(status) && !WEXITSTATUS(status);
  if (!good) fprintf(stderr, "%s: signal %d, status %d\n", what, WIFSIGNALED(status) ? WTERMSIG(status) : 0, WEXITSTATUS(status));
  return good;
}

static void only_load(void) {
  tg_context *c = context(NULL, NULL, 0);
  CHECK(tg_compiler_load(c) == TG_OK && is_mapped("libLLVM") == 1, "in the child: %s", tg_error_message(c));
  tg_context_free(c);
}

static void *load_here(void *user) {
  tg_context *c = context(NULL, NULL, 0);
  bool good = tg_compiler_load(c) == TG_OK;
  (void)user;
  tg_context_free(c);
  return good ? NULL : &test_failed;
}

/* The child is made while another thread is opening, at a moment that the system draws. */
static void child_in_the_middle(void) {
  pthread_t thread;
  void *failed = NULL;
  CHECK(!pthread_create(&thread, NULL, load_here, NULL), "a thread");
  CHECK(child_is_good(only_load, "forked while another thread opens"), "the child");
  pthread_join(thread, &failed);
  CHECK(!failed, "the parent's");
}

static void children(void) {
  CHECK(child_is_good(loaded_early, "forked before") && !is_mapped("libLLVM"), "before");
  for (int i = 0; i < (test_part() ? TURNS / 4 : TURNS); i++) CHECK(child_is_good(child_in_the_middle, "with a thread"), "turn %d", i);
  tg_context *c = context(NULL, NULL, 0);
  CHECK(text_runs(c, 4), "%s", tg_error_message(c));
  CHECK(child_is_good(loaded_early, "forked behind"), "behind");
  tg_context_free(c);
}

/* ---- another libtg_llvm.so.0, or none: run again with a folder of libraries of its own ---- */

static void refuses(const char *why) {
  tg_context *c = context(in_folder("cache"), NULL, 0), *alone = context(NULL, NULL, 0);
  kept_runs(c, "the folder");
  CHECK(!text_runs(alone, 5) && strstr(tg_error_message(alone), why) && strstr(tg_error_message(alone), "libtg_llvm.so.0"),
        "%s in: %s", why, tg_error_message(alone));
  CHECK(!def_runs(alone) && strstr(tg_error_message(alone), why), "again: %s", tg_error_message(alone));
  CHECK(!product_runs(alone) && strstr(tg_error_message(alone), why), "a plan: %s", tg_error_message(alone));
  CHECK(tg_compiler_load(alone) == TG_EBACKEND && strstr(tg_error_message(alone), why), "tg_compiler_load: %s", tg_error_message(alone));
  CHECK(!is_mapped("libLLVM"), "LLVM is mapped");
  tg_context_free(alone);
  tg_context_free(c);
}

static void link_as(const char *from, const char *of, const char *name) {
  char path[3100];
  snprintf(path, sizeof path, "%s/%s", from, of);
  unlink(in_folder(name));
  CHECK(!symlink(path, in_folder(name)), "%s", name);
}

static void again(const char *program, const char *other, const char *why) {
  link_as(libraries, "libtg_jit.so.0", "libtg_jit.so.0");
  if (other) link_as(libraries, other, "libtg_llvm.so.0");
  fflush(NULL);
  pid_t child = fork();
  if (!child) {
    alarm(300);
    setenv("LD_LIBRARY_PATH", folder, 1);
    execl(program, program, folder, why, (char *)NULL);
    _exit(9);
  }
  int status = 0;
  waitpid(child, &status, 0);
  CHECK(WIFEXITED(status) && !WEXITSTATUS(status), "%s: signal %d, status %d", other ? other : "no file", WIFSIGNALED(status) ? WTERMSIG(status) : 0, WEXITSTATUS(status));
}

int main(int argc, char **argv) {
  char program[3000];
  ssize_t n = readlink("/proc/self/exe", program, sizeof program - 1);
  if (argc == 3) {
    snprintf(folder, sizeof folder, "%s", argv[1]);
    refuses(argv[2]);
    return test_failed != 0;
  }
  if (n < 0 || !test_folder(folder)) {
    CHECK(false, "no folder");
    return TEST_END();
  }
  program[n] = 0;
  strcpy(libraries, program);
  for (int i = 0; i < 2; i++) *strrchr(libraries, '/') = 0;   /* BUILD/tests/this */
  static const struct { void (*run)(void); const char *what; } cases[] = {
    {first_compile, "the first compile"}, {from_the_folder, "out of the folder"}, {from_a_pack, "out of a pack"},
    {loaded_early, "loaded early"}, {from_threads, "threads"}, {children, "children"}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) CHECK(child_is_good(cases[i].run, cases[i].what), "%s", cases[i].what);
#ifndef TG_SANITIZED   /* a sanitizer's dlopen is the program's, and looks where the program does */
  again(program, NULL, "cannot be loaded");
#endif
  again(program, "tests/library/opened_other.so", "of another build");
  again(program, "libtg.so.0", "of another build");
  char command[TEST_PATH + 16];
  snprintf(command, sizeof command, "rm -rf %s", folder);
  CHECK(!system(command), "%s", command);
  return TEST_END();
}
