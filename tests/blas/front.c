/* SPDX-License-Identifier: MIT
 * The BLAS front as a linked library: classes of size beyond what netlib's programs reach, blocks of one larger matrix, wrong arguments in the reference's
 * order, several threads at a time, fork. Kernels must have come from tg: its folder grows with each class. */
#define _GNU_SOURCE
#include <dirent.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
#include "../folder.h"
#include "../test.h"

void sgemm_(const char *, const char *, const int *, const int *, const int *, const float *, const float *, const int *, const float *, const int *, const float *, float *, const int *);
void dgemm_(const char *, const char *, const int *, const int *, const int *, const double *, const double *, const int *, const double *, const int *, const double *, double *, const int *);
void cblas_sgemm(int, int, int, int, int, int, float, const float *, int, const float *, int, float, float *, int);
void cblas_dgemm(int, int, int, int, int, int, double, const double *, int, const double *, int, double, double *, int);
#define SEEN __attribute__((visibility("default")))   /* by the library */
SEEN void xerbla_(const char *name, const int *info, size_t n);
SEEN void cblas_xerbla(int info, const char *name, const char *format, ...);

static char told[64];
void xerbla_(const char *name, const int *info, size_t n) { snprintf(told, sizeof told, "%.*s%d", (int)n, name, *info); }
void cblas_xerbla(int info, const char *name, const char *format, ...) { (void)format, snprintf(told, sizeof told, "%s %d", name, info); }

static char folder[TEST_PATH] = "tg-blas-XXXXXX";

static int count_kernels(void) {
  DIR *d = opendir(folder);
  int n = 0;
  for (struct dirent *e; d && (e = readdir(d));) n += strstr(e->d_name, ".tgo") != NULL;
  if (d) closedir(d);
  return n;
}

/* ---- products against plain loops, on integers: row major, as C has it ---- */

#define DEFINE(T, NAME, GEMM)                                                                                                                  \
  static int NAME(int ta, int tb, int m, int n, int k, T alpha, T beta, int pad) {                                                             \
    int lda = (ta ? m : k) + pad, ldb = (tb ? k : n) + pad, ldc = n + pad, wrong = 0;                                                          \
    size_t an = (size_t)(ta ? k : m) * (size_t)lda, bn = (size_t)(tb ? n : k) * (size_t)ldb, cn = (size_t)m * (size_t)ldc;                     \
    T *a = malloc(an * sizeof *a), *b = malloc(bn * sizeof *b), *c = malloc(cn * sizeof *c), *before = malloc(cn * sizeof *c);                 \
    for (size_t i = 0; i < an; i++) a[i] = (T)((int)(i * 7919 >> 3) % 7 - 3);                                                                  \
    for (size_t i = 0; i < bn; i++) b[i] = (T)((int)(i * 104729 >> 5) % 5 - 2);                                                                \
    for (size_t i = 0; i < cn; i++) before[i] = c[i] = (T)((int)i % 11);                                                                       \
    GEMM(101, ta ? 112 : 111, tb ? 112 : 111, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);                                                   \
    for (int i = 0; i < m; i += m > 60 ? 13 : 1)                                                                                               \
      for (int j = 0; j < ldc; j++) {                                                                                                          \
        T s = 0;                                                                                                                               \
        for (int q = 0; q < k && j < n; q++) s += (ta ? a[q * lda + i] : a[i * lda + q]) * (tb ? b[j * ldb + q] : b[q * ldb + j]);             \
        wrong += c[i * ldc + j] != (j < n ? alpha * s + beta * before[i * ldc + j] : before[i * ldc + j]);                                     \
      }                                                                                                                                        \
    free(a), free(b), free(c), free(before);                                                                                                   \
    return wrong;                                                                                                                              \
  }
DEFINE(float, try_f32, cblas_sgemm)
DEFINE(double, try_f64, cblas_dgemm)

static void classes(void) {
  static const int sizes[][3] = {{1, 300, 300}, {300, 1, 300}, {6, 300, 700}, {300, 7, 700}, {140, 150, 20}, {140, 300, 400}, {60, 200, 300}, {6, 4, 70000}};
  for (unsigned s = 0; s < sizeof sizes / sizeof *sizes; s++) {
    int before = count_kernels(), x = s % 2, y = s / 2 % 2, pad = (int)s % 3;
    const int *d = sizes[s];
    CHECK(!try_f32(x, y, d[0], d[1], d[2], 1, 0, pad), "f32 %d %d %d", d[0], d[1], d[2]);
    CHECK(count_kernels() > before, "%d %d %d: no kernel was compiled", d[0], d[1], d[2]);
    CHECK(!try_f32(x, y, d[0], d[1], d[2], -2, 1, 1), "f32 %d %d %d, alpha and beta", d[0], d[1], d[2]);
    before = count_kernels();
    CHECK(!try_f32(x, y, d[0] > 2 ? d[0] - 1 : d[0], d[1] > 2 ? d[1] - 1 : d[1], d[2] - 1, 1, 0, pad), "other sizes of the class");
    CHECK(count_kernels() == before, "%d %d %d: other sizes of the class are compiled again", d[0], d[1], d[2]);
    if (s % 3 == 2) CHECK(!try_f64(y, x, d[0], d[1], d[2], 1, 0, 0), "f64 %d %d %d", d[0], d[1], d[2]);
  }
}

/* As factorisations do it: C, A and B are blocks of one matrix. */
static void blocks(void) {
  enum { N = 64, LD = 80 };
  static double x[LD * LD], y[LD * LD];
  for (int i = 0; i < LD * LD; i++) x[i] = y[i] = i % 7 - 3;
  const int m = 30, n = 25, k = 20, ld = LD;
  const double minus = -1, one = 1;
  dgemm_("N", "N", &m, &n, &k, &minus, x + k, &ld, x + k * LD, &ld, &one, x + k * LD + k, &ld);   /* C to the right of A, below B */
  int wrong = 0;
  for (int j = 0; j < LD; j++)
    for (int i = 0; i < LD; i++) {
      double want = y[j * LD + i];
      if (i >= k && i < k + m && j >= k && j < k + n)
        for (int q = 0; q < k; q++) want -= y[q * LD + i] * y[j * LD + q];
      wrong += x[j * LD + i] != want;
    }
  CHECK(!wrong, "%d elements", wrong);
}

static void expect(const char *text) {
  CHECK(!strcmp(told, text), "'%s', not '%s'", told, text);
  *told = 0;
}

static void refusals(void) {
  float x[16] = {0}, one = 1;
  int good = 4, small = 3, minus = -1;
  sgemm_("X", "Y", &minus, &good, &good, &one, x, &good, x, &good, &one, x, &good), expect("SGEMM 1");
  sgemm_("n", "Y", &minus, &good, &good, &one, x, &good, x, &good, &one, x, &good), expect("SGEMM 2");
  sgemm_("n", "c", &minus, &minus, &good, &one, x, &good, x, &good, &one, x, &good), expect("SGEMM 3");
  sgemm_("T", "t", &good, &minus, &minus, &one, x, &good, x, &good, &one, x, &good), expect("SGEMM 4");
  sgemm_("T", "t", &good, &good, &minus, &one, x, &small, x, &good, &one, x, &good), expect("SGEMM 5");
  sgemm_("T", "t", &good, &good, &good, &one, x, &small, x, &small, &one, x, &good), expect("SGEMM 8");
  sgemm_("T", "t", &good, &good, &good, &one, x, &good, x, &small, &one, x, &small), expect("SGEMM 10");
  sgemm_("T", "t", &good, &good, &good, &one, x, &good, x, &good, &one, x, &small), expect("SGEMM 13");
  cblas_sgemm(7, 111, 111, 4, 4, 4, 1, x, 4, x, 4, 1, x, 4), expect("cblas_sgemm 1");
  cblas_dgemm(101, 7, 111, 4, 4, 4, 1, NULL, 4, NULL, 4, 1, NULL, 4), expect("cblas_dgemm 2");
  cblas_sgemm(102, 111, 7, 4, 4, 4, 1, x, 4, x, 4, 1, x, 4), expect("cblas_sgemm 3");
  cblas_sgemm(101, 111, 111, 4, 4, 4, 1, x, 3, x, 4, 1, x, 4), expect("SGEMM 10");   /* of the transposes: A is the second */
  cblas_sgemm(101, 111, 111, 0, 4, 4, 1, NULL, 4, NULL, 4, 1, NULL, 4), expect("");
}

static void *work(void *arg) {
  for (int i = 0; i < 30; i++)
    if (try_f32(i % 2, 0, 150 + i, 60, 300, 1, 0, 0)) *(int *)arg += 1;
  return NULL;
}

/* Processes are made while threads are at it; children compute, and compile. */
static void threads_and_forks(void) {
  pthread_t threads[3];
  int wrong[3] = {0}, bad = 0;
  for (int i = 0; i < 3; i++) pthread_create(&threads[i], NULL, work, &wrong[i]);
  for (int i = 0; i < 6; i++) {
    pid_t child = fork();
    if (!child) {
      alarm(60);
      _exit(try_f32(0, 0, 200, 200, 200, 1, 0, 0) || try_f64(i % 2, i / 2 % 2, 20, 20, 20, 3, 0, 0) ? 1 : 0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    bad += !WIFEXITED(status) || WEXITSTATUS(status);
  }
  for (int i = 0; i < 3; i++) pthread_join(threads[i], NULL);
  CHECK(!bad && !wrong[0] && !wrong[1] && !wrong[2], "%d children, %d %d %d calls", bad, wrong[0], wrong[1], wrong[2]);
}

/* Classes share a plan until their calls have taken as long as compiling takes. */
static void shared(void) {
  CHECK(!try_f32(0, 1, 150, 40, 200, 1, 0, 0), "the first call of a kind");
  int before = count_kernels(), wrong = 0, calls = 0;
  CHECK(before, "no kernel was compiled");
  CHECK(!try_f32(0, 1, 300, 7, 90, 1, 0, 0) && !try_f32(0, 1, 9, 600, 40, 1, 0, 1), "other classes of the kind");
  CHECK(count_kernels() == before, "a class's own plan is compiled at its first call");
  for (time_t end = time(NULL) + 120; count_kernels() == before && time(NULL) < end; calls++)
    wrong += try_f32(0, 1, 150 + calls % 50, 40, 200, 1, 0, 0);
  CHECK(count_kernels() > before && calls > 1, "%d calls, and no plan of the class's own", calls);
  CHECK(!wrong && !try_f32(0, 1, 150, 40, 200, 1, 0, 0), "%d calls of %d", wrong, calls);
}

/* In a process of its own: what the library reads from the environment is read once. */
static int in_child(const char *compile, void (*run)(void)) {
  pid_t child = fork();
  if (!child) {
    if (compile ? setenv("TG_BLAS_COMPILE", compile, 1) : unsetenv("TG_BLAS_COMPILE")) _exit(1);
    run();
    exit(TEST_END());
  }
  int status = 1;
  return waitpid(child, &status, 0) == child && WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

int main(void) {
  char command[TEST_PATH + 32];
  CHECK(test_folder(folder) && !setenv("TG_BLAS_CACHE", folder, 1) && !setenv("TG_BLAS_THREADS", "3", 1), "a folder");
  CHECK(!in_child(NULL, shared) && !setenv("TG_BLAS_COMPILE", "first", 1), "shared plans");
  refusals();
  classes();
  blocks();
  threads_and_forks();
  snprintf(command, sizeof command, "rm -r %s", folder);
  CHECK(!system(command), "%s", command);
  return TEST_END();
}
