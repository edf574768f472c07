/* SPDX-License-Identifier: MIT
 * The BLAS front in programs that it knows nothing of: opened and closed while its threads spin, first called on threads with small stacks, where files may not grow, under every name and with
 * integers of 64 bits, without its compiler and with a library below, with traps and flags of floating-point exceptions looked at. Each case is a process of its own.
 *   blas_world [WORDS]      the cases whose names contain the words */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <fenv.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#include "../folder.h"
#include "../test.h"

static char library[4096], folder[TEST_PATH] = "tg-world-XXXXXX";

#define ARGUMENTS(T, I) const char *, const char *, const I *, const I *, const I *, const T *, const T *, const I *, const T *, const I *, const T *, T *, const I *
#define C_ARGUMENTS(T, I) int, int, int, I, I, I, T, const T *, I, const T *, I, T, T *, I
typedef void sgemm(ARGUMENTS(float, int));
typedef void dgemm(ARGUMENTS(double, int));
typedef void sgemm_64(ARGUMENTS(float, int64_t));
typedef void dgemm_64(ARGUMENTS(double, int64_t));
typedef void c_sgemm(C_ARGUMENTS(float, int));
typedef void c_dgemm(C_ARGUMENTS(double, int));
typedef void c_sgemm_64(C_ARGUMENTS(float, int64_t));
typedef void c_dgemm_64(C_ARGUMENTS(double, int64_t));

/* What the front finds in the program, by name. */
#define SEEN __attribute__((visibility("default"), used))
SEEN void xerbla_(const char *name, const int *info, size_t n);
SEEN void xerbla_64_(const char *name, const int64_t *info, size_t n);
SEEN void scipy_xerbla_(const char *name, const int *info, size_t n);
SEEN void scipy_xerbla_64_(const char *name, const int64_t *info, size_t n);
SEEN void dgemm_(ARGUMENTS(double, int), size_t, size_t);
static int64_t told;
static int below_called;
void xerbla_(const char *name, const int *info, size_t n) { (void)name, (void)n, told = *info; }
void xerbla_64_(const char *name, const int64_t *info, size_t n) { (void)name, (void)n, told = 100 + *info; }
void scipy_xerbla_(const char *name, const int *info, size_t n) { (void)name, (void)n, told = 200 + *info; }
void scipy_xerbla_64_(const char *name, const int64_t *info, size_t n) { (void)name, (void)n, told = 300 + *info; }
void dgemm_(ARGUMENTS(double, int), size_t a_n, size_t b_n) { below_called += a_n == 1 && b_n == 1; }

static void *open_front(void) {
  void *l = dlopen(library, RTLD_NOW | RTLD_LOCAL);
  if (!l) fprintf(stderr, "%s\n", dlerror()), _exit(9);
  return l;
}

static void *find(const char *name) {
  void *f = dlsym(open_front(), name);
  if (!f) fprintf(stderr, "%s is not there\n", name), _exit(8);
  return f;
}

static void in_child(void (*run)(void), const char *what) {
  fflush(NULL);
  pid_t child = fork();
  if (!child) {
    alarm(300);   /* a machine with other work */
    test_failed = 0;
    run();
    _exit(test_failed != 0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  CHECK(WIFEXITED(status) && !WEXITSTATUS(status), "%s: signal %d, status %d", what, WIFSIGNALED(status) ? WTERMSIG(status) : 0, WEXITSTATUS(status));
}

/* A product of whole numbers, right? */
static int product_is_wrong(sgemm *f, int m, int n, int k) {
  float *a = malloc(sizeof *a * (size_t)(m * k)), *b = malloc(sizeof *b * (size_t)(k * n)), *c = malloc(sizeof *c * (size_t)(m * n)), one = 1, zero = 0;
  int wrong = 0;
  for (int i = 0; i < m * k; i++) a[i] = (float)(i * 7 % 5 - 2);
  for (int i = 0; i < k * n; i++) b[i] = (float)(i * 3 % 7 - 3);
  f("N", "N", &m, &n, &k, &one, a, &m, b, &k, &zero, c, &m);
  for (int j = 0; j < n; j += n > 50 ? 17 : 1)
    for (int i = 0; i < m; i += m > 50 ? 13 : 1) {
      float s = 0;
      for (int q = 0; q < k; q++) s += a[q * m + i] * b[j * k + q];
      wrong += c[j * m + i] != s;
    }
  free(a), free(b), free(c);
  return wrong;
}

/* ---- opened and closed ---- */

static int count_threads(void) {
  int n = 0;
  DIR *d = opendir("/proc/self/task");
  for (struct dirent *e; d && (e = readdir(d));) n += e->d_name[0] != '.';
  if (d) closedir(d);
  return n;
}

static void open_and_close(void) {
  int threads = 0;
  for (int turn = 0; turn < 12; turn++) {
    void *l = open_front();
    sgemm *f = (sgemm *)dlsym(l, "sgemm_");
    for (int i = 0; i < 3; i++) CHECK(!product_is_wrong(f, 400, 300, 300), "turn %d", turn);
    if (!turn) threads = count_threads();
    dlclose(l);
    usleep(1000);
  }
  CHECK(threads == 3 && count_threads() <= threads, "%d threads at first, then %d", threads, count_threads());
}

/* ---- small stacks ---- */

static const int shapes[][3] = {{4, 4, 4}, {60, 70, 80}, {300, 300, 300}, {1, 300, 40}, {300, 1, 300}, {5, 200, 2000}};

static void *all_shapes(void *wrong) {
  sgemm *f = (sgemm *)find("sgemm_");
  for (unsigned s = 0; s < sizeof shapes / sizeof *shapes; s++) *(int *)wrong += product_is_wrong(f, shapes[s][0], shapes[s][1], shapes[s][2]);
  return NULL;
}

static void on_stacks_of(size_t bytes) {
  pthread_attr_t a;
  pthread_t t;
  int wrong = 0;
  setenv("TG_BLAS_CACHE", "", 1);   /* each class is compiled */
  pthread_attr_init(&a);
  CHECK(!pthread_attr_setstacksize(&a, bytes) && !pthread_create(&t, &a, all_shapes, &wrong) && !pthread_join(t, NULL) && !wrong, "%zu bytes: %d wrong", bytes, wrong);
}
static void small_stack(void) { on_stacks_of(64 << 10); }
static void smallest_stack(void) { on_stacks_of(16 << 10); }

/* ---- files that may not grow ---- */

static void no_file_may_grow(void) {
  char fresh[4200];
  snprintf(fresh, sizeof fresh, "%s/limited", folder);
  setenv("TG_BLAS_CACHE", fresh, 1);
  signal(SIGXFSZ, SIG_DFL);
  CHECK(!setrlimit(RLIMIT_FSIZE, &(struct rlimit){0, 0}), "a limit");
  CHECK(!product_is_wrong((sgemm *)find("sgemm_"), 40, 50, 60), "under RLIMIT_FSIZE 0");
  sigset_t pending;
  CHECK(!sigpending(&pending) && !sigismember(&pending, SIGXFSZ), "a signal waits that is not the program's");
}

/* ---- names ---- */

/* To be added to a size: 2^32, or what makes it negative. Whose xerbla is told then. */
#define MORE(I) (sizeof(I) > 4 ? (int64_t)1 << 32 : -100)
#define REPORTS(NAME, I) (!strncmp(NAME, "scipy", 5) * 200 + (sizeof(I) > 4) * 100)

#define TRY_NAME(NAME, TYPE, T, I)                                                                           \
  do {                                                                                                       \
    const T a[6] = {1, 2, 3, 4, 5, 6}, b[6] = {1, 0, 2, 1, 1, 3}, alpha = 2, beta = 1;                       \
    T c[4] = {1, 1, 1, 1};                                                                                   \
    const I m = 2, n = 2, k = 3;                                                                             \
    ((TYPE *)find(NAME))("N", "N", &m, &n, &k, &alpha, a, &m, b, &k, &beta, c, &m);                          \
    CHECK(c[0] == 23 && c[1] == 29 && c[2] == 39 && c[3] == 49, "%s", NAME);                                 \
    const I rows = (I)(MORE(I) + 2);   /* 2, if it were cut to 32 bits */                                     \
    told = 0, ((TYPE *)find(NAME))("N", "N", &rows, &n, &k, &alpha, a, &m, b, &k, &beta, c, &m);             \
    CHECK(told == REPORTS(NAME, I) + (sizeof(I) > 4 ? 8 : 3), "%s: %d", NAME, (int)told);                    \
  } while (0)

#define TRY_C_NAME(NAME, TYPE, T, I)                                                                         \
  do {                                                                                                       \
    const T a[6] = {1, 2, 3, 4, 5, 6}, b[6] = {1, 0, 2, 1, 1, 3};                                            \
    T c[4] = {1, 1, 1, 1};                                                                                   \
    ((TYPE *)find(NAME))(102, 111, 111, 2, 2, 3, 2, a, 2, b, 3, 1, c, 2);                                    \
    CHECK(c[0] == 23 && c[1] == 29 && c[2] == 39 && c[3] == 49, "%s", NAME);                                 \
    T r[4] = {1, 1, 1, 1};                                                                                   \
    ((TYPE *)find(NAME))(101, 112, 112, 2, 2, 3, 2, a, 2, b, 3, 1, r, 2);                                    \
    CHECK(r[0] == 23 && r[1] == 39 && r[2] == 29 && r[3] == 49, "%s in rows", NAME);                         \
    told = 0, ((TYPE *)find(NAME))(102, 111, 111, (I)(MORE(I) + 2), 2, 3, 2, a, 2, b, 3, 1, c, 2);           \
    CHECK(told == REPORTS(NAME, I) + (sizeof(I) > 4 ? 8 : 3), "%s: %d", NAME, (int)told);                    \
  } while (0)

static void names(void) {
  TRY_NAME("sgemm_", sgemm, float, int);
  TRY_NAME("dgemm_", dgemm, double, int);
  TRY_NAME("scipy_sgemm_", sgemm, float, int);
  TRY_NAME("scipy_dgemm_", dgemm, double, int);
  TRY_NAME("sgemm_64_", sgemm_64, float, int64_t);
  TRY_NAME("dgemm_64_", dgemm_64, double, int64_t);
  TRY_NAME("scipy_sgemm_64_", sgemm_64, float, int64_t);
  TRY_NAME("scipy_dgemm_64_", dgemm_64, double, int64_t);
  TRY_C_NAME("cblas_sgemm", c_sgemm, float, int);
  TRY_C_NAME("cblas_dgemm", c_dgemm, double, int);
  TRY_C_NAME("scipy_cblas_sgemm", c_sgemm, float, int);
  TRY_C_NAME("scipy_cblas_dgemm", c_dgemm, double, int);
  TRY_C_NAME("cblas_sgemm64_", c_sgemm_64, float, int64_t);
  TRY_C_NAME("cblas_dgemm64_", c_dgemm_64, double, int64_t);
  TRY_C_NAME("cblas_sgemm_64", c_sgemm_64, float, int64_t);
  TRY_C_NAME("cblas_dgemm_64", c_dgemm_64, double, int64_t);
  TRY_C_NAME("scipy_cblas_sgemm64_", c_sgemm_64, float, int64_t);
  TRY_C_NAME("scipy_cblas_dgemm64_", c_dgemm_64, double, int64_t);
}

/* Whatever 32 bits would make of them. */
static void wide_integers(void) {
  sgemm_64 *f = (sgemm_64 *)find("sgemm_64_");
  const float one = 1, zero = 0, twice = 2;
  const int64_t more = ((int64_t)1 << 32) + 4, less = -((int64_t)1 << 32), two = 2, four = 4;
  float x[16] = {0}, c[16];
  told = 0, f("N", "N", &more, &four, &four, &one, x, &four, x, &four, &zero, c, &more);
  CHECK(told == 108, "lda below m: %d", (int)told);
  told = 0, f("N", "N", &less, &four, &four, &one, x, &four, x, &four, &zero, c, &four);
  CHECK(told == 103, "m is negative: %d", (int)told);
  told = 0, f("N", "N", &four, &four, &more, &one, x, &four, x, &four, &zero, c, &four);
  CHECK(told == 110, "ldb below k: %d", (int)told);
  size_t far = sizeof(float) * (size_t)(3 * more);
  float *a = mmap(NULL, far, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (a == MAP_FAILED) {
    puts("no memory can be reserved: rows 16 GiB apart are not tried");
    return;
  }
  for (int i = 0; i < 2; i++)
    for (int q = 0; q < 2; q++) a[q * more + i] = (float)(1 + i + 2 * q), x[q * 2 + i] = (float)(i + q);
  f("N", "N", &two, &two, &two, &one, a, &more, x, &two, &zero, c, &two);
  CHECK(c[0] == 3 && c[1] == 4 && c[2] == 7 && c[3] == 10, "columns 16 GiB apart: %g %g %g %g", (double)c[0], (double)c[1], (double)c[2], (double)c[3]);
  const int64_t terms = ((int64_t)1 << 31) + 5, only = 1;   /* memory that nobody wrote: one page of zeros, again and again */
  madvise(a, far, MADV_DONTNEED);
  float *last = a + terms - 1;
  a[0] = 3, *last = 2;
  c[0] = 5;
  f("T", "N", &only, &only, &terms, &one, a, &terms, a, &terms, &twice, c, &only);
  CHECK(c[0] == 23, "2^31 + 5 terms: %g", (double)c[0]);
  munmap(a, far);
}

/* ---- without the compiler ---- */

static void alone(void) {
  char command[9000];
  snprintf(command, sizeof command, "mkdir %s/alone && cp %s %s/alone/", folder, library, folder);
  CHECK(!system(command), "a copy");
  snprintf(library, sizeof library, "%s/alone/libtg_blas.so", folder);
  setenv("TG_BLAS_CACHE", "", 1);
  double x[4] = {1, 2, 3, 4}, y[4] = {0};
  const double one = 1, zero = 0;
  const int two = 2;
  ((dgemm *)find("dgemm_"))("N", "N", &two, &two, &two, &one, x, &two, x, &two, &zero, y, &two);
  CHECK(below_called == 1, "the library below was called %d times", below_called);
  CHECK(!product_is_wrong((sgemm *)find("sgemm_"), 20, 30, 40), "plain loops, where nothing is below");
}

/* ---- what is told ---- */

/* What a process that computes three products, one of them with a wrong argument, has written to stderr at its end. */
static void hear(const char *wish, char *text, size_t bytes) {
  char path[4200];
  int status = 1;
  snprintf(path, sizeof path, "%s/told", folder);
  fflush(NULL);
  pid_t child = fork();
  if (!child) {
    if (wish) setenv("TG_BLAS_VERBOSE", wish, 1);
    else unsetenv("TG_BLAS_VERBOSE");
    if (!freopen(path, "w", stderr)) _exit(1);
    sgemm *f = (sgemm *)find("sgemm_");
    const int less = -1, two = 2;
    const float one = 1, x[4] = {1, 2, 3, 4};
    float y[4];
    int wrong = product_is_wrong(f, 20, 30, 40) + product_is_wrong(f, 21, 31, 41);
    f("N", "N", &less, &two, &two, &one, x, &two, x, &two, &one, y, &two);
    exit(wrong != 0);   /* the library's last word comes at the end of a process */
  }
  waitpid(child, &status, 0);
  FILE *f = fopen(path, "r");
  size_t n = f ? fread(text, 1, bytes - 1, f) : 0;
  text[n] = 0;
  if (f) fclose(f);
  CHECK(!status && f, "status %d", status);
}

static void what_is_told(void) {
  static const char *const quiet[] = {NULL, "", "0"}, *const lines[] = {"libtg_blas.so is loaded; ", "sgemm_, called by ", ": first NN 20 x 30 x 40, computed by tg; below is nothing\n", "] sgemm_: 3 calls, 2 computed by tg\n"};
  char text[8000];
  for (unsigned i = 0; i < sizeof quiet / sizeof *quiet; i++) {
    hear(quiet[i], text, sizeof text);
    CHECK(!*text, "TG_BLAS_VERBOSE %s: %s", quiet[i] ? quiet[i] : "unset", text);
  }
  hear("1", text, sizeof text);
  for (unsigned i = 0; i < sizeof lines / sizeof *lines; i++) CHECK(strstr(text, lines[i]) != NULL, "'%s' is not in: %s", lines[i], text);
}

/* ---- exceptions ---- */

static const int lengths[] = {1, 2, 3, 5, 7, 8, 9, 15, 16, 17, 18, 31, 33, 48, 63, 65, 100, 120};
enum { LENGTHS = sizeof lengths / sizeof *lengths, LOOKED_AT = FE_INVALID | FE_OVERFLOW | FE_DIVBYZERO };

static uint64_t seed = 88172645463325252u;
static uint32_t draw(uint32_t n) {
  seed ^= seed << 13, seed ^= seed >> 7, seed ^= seed << 17;
  return (uint32_t)(seed >> 33) % n;
}

typedef enum { CLEAN, ONE_INFINITY, INFINITY_BY_ZERO, TWO_INFINITIES, A_NAN, NAN_AND_INFINITY, NAN_AND_TWO, NAN_AND_ZERO, OLD_NAN, OVERFLOWS, DATA } data;
static const char *const data_name[DATA] = {"clean", "one infinity", "infinity by zero", "inf - inf", "NaN", "NaN beside an infinity", "NaN, then inf - inf", "infinity by zero, then NaN", "NaN in C", "overflow"};

/* Operands of one product, in doubles; element i, j of C is where it happens. */
typedef struct { int m, n, k, ta, tb, i, j, at[3]; double *a, *b, *c, beta; } trial;

static double *at_a(trial *t, int q) { return t->a + (t->ta ? t->i * t->k + t->at[q] : t->at[q] * t->m + t->i); }
static double *at_b(trial *t, int q) { return t->b + (t->tb ? t->at[q] * t->n + t->j : t->j * t->k + t->at[q]); }

/* Three terms after one another, if there are so many. */
static trial new_trial(void) {
  trial t = {.m = lengths[draw(LENGTHS)], .n = lengths[draw(LENGTHS)], .k = lengths[draw(LENGTHS)], .ta = (int)draw(2), .tb = (int)draw(2)};
  t.i = (int)draw((uint32_t)t.m), t.j = (int)draw((uint32_t)t.n), t.beta = (int)draw(2);
  for (int x = 0; x < 3 && x < t.k; x++) t.at[x] = x + (int)draw((uint32_t)(t.k - (t.k < 3 ? t.k : 3) + 1));
  for (int x = 1; x < 3 && x < t.k; x++)
    if (t.at[x] <= t.at[x - 1]) t.at[x] = t.at[x - 1] + 1;
  t.a = malloc(sizeof(double) * (size_t)(t.m * t.k)), t.b = malloc(sizeof(double) * (size_t)(t.k * t.n)), t.c = malloc(sizeof(double) * (size_t)(t.m * t.n));
  for (int x = 0; x < t.m * t.k; x++) t.a[x] = 2;
  for (int x = 0; x < t.k * t.n; x++) t.b[x] = 3;
  for (int x = 0; x < t.m * t.n; x++) t.c[x] = 1;
  return t;
}

/* Puts it in; the flags that an ordinary product raises. Where a NaN comes behind what is invalid,
 * another order of terms, or a sum that rounds once, meets the NaN first: either will do, but not always. */
static int put(trial *t, data what, double large) {
  switch (what) {
  case ONE_INFINITY: *(draw(2) ? at_a(t, 0) : at_b(t, 0)) = INFINITY; return 0;
  case INFINITY_BY_ZERO: *at_a(t, 0) = 0, *at_b(t, 0) = INFINITY; return FE_INVALID;
  case TWO_INFINITIES:
    if (t->k < 2) return 0;
    *at_a(t, 0) = INFINITY, *at_a(t, 1) = -INFINITY;
    return FE_INVALID;
  case A_NAN: *at_a(t, 0) = NAN; return 0;
  case NAN_AND_INFINITY:
    if (t->k > 1) *at_b(t, 0) = INFINITY, *at_a(t, 1) = NAN;
    return 0;
  case NAN_AND_TWO: {
    bool first = draw(2);
    if (t->k < 3) return 0;
    *at_a(t, 0) = first ? NAN : INFINITY, *at_a(t, 1) = first ? INFINITY : -INFINITY, *at_a(t, 2) = first ? -INFINITY : NAN;
    return first ? 0 : FE_INVALID;
  }
  case NAN_AND_ZERO:
    if (t->k < 2) return 0;
    *at_a(t, 0) = 0, *at_b(t, 0) = INFINITY, *at_a(t, 1) = NAN;
    return FE_INVALID;
  case OLD_NAN:
    if (t->n > 1) *at_b(t, 0) = INFINITY, t->beta = 1, t->c[(t->j + 1) % t->n * t->m + t->i] = NAN;
    return 0;
  case OVERFLOWS: *at_a(t, 0) = *at_b(t, 0) = large; return FE_OVERFLOW;
  default: return 0;
  }
}

static float *narrow(const double *x, int n) {
  float *y = malloc(sizeof *y * (size_t)n);
  for (int i = 0; i < n; i++) y[i] = (float)x[i];
  return y;
}

/* Computes it, in f32 or f64, and gives what was raised. */
static int raised_by(trial *t, void *f, bool wide) {
  const int lda = t->ta ? t->k : t->m, ldb = t->tb ? t->n : t->k;
  const char *ta = t->ta ? "T" : "N", *tb = t->tb ? "T" : "N";
  const double one = 1;
  const float narrow_one = 1, beta = (float)t->beta;
  float *a = narrow(t->a, t->m * t->k), *b = narrow(t->b, t->k * t->n), *c = narrow(t->c, t->m * t->n);
  feclearexcept(FE_ALL_EXCEPT);
  if (wide) ((dgemm *)f)(ta, tb, &t->m, &t->n, &t->k, &one, t->a, &lda, t->b, &ldb, &t->beta, t->c, &t->m);
  else ((sgemm *)f)(ta, tb, &t->m, &t->n, &t->k, &narrow_one, a, &lda, b, &ldb, &beta, c, &t->m);
  int raised = fetestexcept(LOOKED_AT);
  free(a), free(b), free(c), free(t->a), free(t->b), free(t->c);
  return raised;
}

static int raised_with(trial t, void *f, data what) {
  put(&t, what, 3e38);
  return raised_by(&t, f, false);
}

static void flags(void) {
  setenv("TG_BLAS_THREADS", "1", 1);   /* other threads' flags are theirs */
  void *f[2] = {find("sgemm_"), find("dgemm_")};
  int wrong = 0, invalid = 0, before_nan[2] = {0};
  for (int turn = 0; turn < 10000; turn++) {
    trial t = new_trial();
    data what = (data)(turn % DATA);
    bool wide = draw(2);
    int want = put(&t, what, wide ? 1e308 : 3e38), got = raised_by(&t, f[wide], wide);
    bool either = (what == NAN_AND_TWO || what == NAN_AND_ZERO) && want == FE_INVALID;
    invalid += want == FE_INVALID, before_nan[what == NAN_AND_ZERO] += either && got == FE_INVALID;
    if (got == want || (either && !got) || wrong++ > 5) continue;
    CHECK(got == want, "f%d, %s, %d x %d x %d, transposed %d %d, beta %g: flags %x, not %x", wide ? 64 : 32, data_name[what], t.m, t.n, t.k, t.ta, t.tb, t.beta, got, want);
  }
  CHECK(!wrong && invalid > 500, "%d wrong, %d invalid", wrong, invalid);
  CHECK(before_nan[0] > 100 && before_nan[1] > 100, "%d sums, %d products were invalid before a NaN", before_nan[0], before_nan[1]);
}

static void flags_stay(void) {
  sgemm *f = (sgemm *)find("sgemm_");
  raised_with(new_trial(), (void *)f, CLEAN);
  feraiseexcept(FE_INVALID | FE_DIVBYZERO);
  CHECK(!product_is_wrong(f, 17, 2, 200) && fetestexcept(LOOKED_AT) == (FE_INVALID | FE_DIVBYZERO), "what the program had raised is gone");
}

static void traps_are_for_what_is_true(void) {
  sgemm *f = (sgemm *)find("sgemm_");
  feenableexcept(FE_INVALID | FE_OVERFLOW | FE_DIVBYZERO);
  for (int i = 0; i < 200; i++) raised_with(new_trial(), (void *)f, ONE_INFINITY);
  CHECK(fegetexcept() == (FE_INVALID | FE_OVERFLOW | FE_DIVBYZERO), "the program's traps are not as they were");
}

static void expected(int signal) { _exit(signal == SIGFPE ? 0 : 1); }
static void a_trap_springs(void) {
  sgemm *f = (sgemm *)find("sgemm_");
  signal(SIGFPE, expected);
  feenableexcept(FE_INVALID);
  raised_with(new_trial(), (void *)f, INFINITY_BY_ZERO);
  CHECK(false, "no trap");
}

static const struct { const char *what; void (*run)(void); } cases[] = {
  {"opened and closed", open_and_close}, {"64 KiB of stack", small_stack}, {"16 KiB of stack", smallest_stack},
  {"no file may grow", no_file_may_grow}, {"names", names}, {"integers of 64 bits", wide_integers},
  {"without a compiler", alone}, {"what is told", what_is_told}, {"flags", flags}, {"flags of before", flags_stay},
  {"traps", traps_are_for_what_is_true}, {"a trap", a_trap_springs},
};

int main(int n, char **arguments) {
  char here[3000] = {0}, command[TEST_PATH + 32];
  if (readlink("/proc/self/exe", here, sizeof here - 1) < 0 || !strrchr(here, '/')) return 1;
  *strrchr(here, '/') = 0;
  snprintf(library, sizeof library, "%s/../libtg_blas.so", here);
  CHECK(test_folder(folder) && !setenv("TG_BLAS_CACHE", folder, 1) && !setenv("TG_BLAS_THREADS", "3", 1), "a folder");
  for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++)
    if (n < 2 || strstr(cases[i].what, arguments[1])) in_child(cases[i].run, cases[i].what);
  snprintf(command, sizeof command, "rm -r %s", folder);
  CHECK(!system(command), "%s", command);
  return TEST_END();
}
