/* SPDX-License-Identifier: MIT
 * The BLAS front under drawn environments: each turn is a process with TG_BLAS_*, OMP_NUM_THREADS, HOME and XDG_CACHE_HOME set to numbers,
 * words, bytes, folders good and bad, with limits, with a cache whose entries are damaged, links, pipes. Every product must be right and nothing may crash or hang.
 *   fuzz_environment [--seconds S] [--seed N] [--from T] [COUNT]     default 120 turns, seed 1, from turn 0; with --seconds as many as there is time for */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include "../folder.h"
#include "../test.h"

static uint64_t state;
static uint32_t draw(uint32_t n) {
  state ^= state << 13, state ^= state >> 7, state ^= state << 17;
  return (uint32_t)(state >> 33) % n;
}

static char home[TEST_PATH] = "tg-environment-XXXXXX", library[4096];

static const char *in_home(const char *name) {
  static char path[8][256];
  static int turn;
  char *p = path[turn++ % 8];
  snprintf(p, sizeof path[0], "%s/%s", home, name);
  return p;
}

/* ---- places ---- */

static void copy_entries(const char *folder, bool damaged) {
  char good[256], to[256], from[600], path[600];
  static char bytes[1 << 18];
  snprintf(good, sizeof good, "%s/good", home), snprintf(to, sizeof to, "%s/%s", home, folder);   /* in_home keeps the last few only */
  DIR *d = opendir(good);
  for (struct dirent *e; d && (e = readdir(d));) {
    if (!strstr(e->d_name, ".tgo") || (damaged && !draw(4))) continue;
    snprintf(from, sizeof from, "%s/%s", good, e->d_name), snprintf(path, sizeof path, "%s/%s", to, e->d_name);
    unlink(path);
    int how = damaged ? (int)draw(6) : 0, in = open(from, O_RDONLY);
    ssize_t n = in < 0 ? 0 : read(in, bytes, sizeof bytes);
    if (in >= 0) close(in);
    if (how == 1 && n > 0) for (uint32_t i = draw(8); i < 9; i++) bytes[draw((uint32_t)n)] ^= (char)(1 << draw(8));
    if (how == 2 && n > 0) n = (ssize_t)draw((uint32_t)n);
    if (how == 3 && !symlink(from, path)) continue;
    if (how == 4 && !mkfifo(path, 0600)) continue;
    int out = open(path, O_WRONLY | O_CREAT | O_TRUNC, how == 5 ? 0666 : 0600);
    if (out < 0) continue;
    if (write(out, bytes, (size_t)n) != n) unlink(path);
    if (how == 5) fchmod(out, 0666);
    close(out);
  }
  if (d) closedir(d);
}

static const char *draw_place(void) {
  char command[600];
  switch (draw(12)) {
  case 0: return in_home("good");
  case 1: snprintf(command, sizeof command, "rm -rf %s", in_home("new")); return system(command) ? "" : in_home("new/er/and/er");
  case 2: return in_home("file");
  case 3: return in_home("pipe");
  case 4: return in_home("dangling");
  case 5: return in_home("link");
  case 6: chmod(in_home("read only"), 0500); return in_home("read only");
  case 7: copy_entries("open", false), chmod(in_home("open"), 0777); return in_home("open");
  case 8: copy_entries("damaged", true); return in_home("damaged");
  case 9: return "relative/../relative";
  case 10: copy_entries("another's", false); return chown(in_home("another's"), 65534, 65534) ? "" : in_home("another's");
  default: return "/proc/self/fd";
  }
}

/* ---- values ---- */

static const char *draw_word(void) {
  static const char *const words[] = {
    "", " ", "0", "1", "2", "3", "7", "-1", "+2", "007", "2147483647", "2147483648", "4294967297", "-2147483648", "100000000000", "99999999999999999999999", "1e3", "0x10", "3 threads", "4,2",
    "yes", "no", "host", "x86-64", "x86-64-v2", "x86-64-v3", "x86-64-v4", "haswell", "znver3", "znver5", "aarch64", "sm_90", "nvptx", "gfx942", "HOST", "host ", "%s%s%n%99999d", "/", "//", ".", "..", "/dev/null",
    "/dev/zero", "/dev/full", "\xff\xfe\x80", "~", "$HOME", "a\nb", "a\tb"};
  return words[draw(sizeof words / sizeof *words)];
}

static const char *draw_bytes(void) {
  static char text[120000];
  size_t n = draw(3) ? draw(40) : draw(2) ? 3900 + draw(400) : draw(sizeof text - 1);
  for (size_t i = 0; i < n; i++) text[i] = (char)(draw(5) ? 'a' + draw(26) : draw(2) ? '/' : 1 + draw(255));
  text[n] = 0;
  if (n && draw(2)) text[0] = '/';
  return text;
}

static void set_variables(void) {
  static const char *const names[] = {"TG_BLAS_CACHE", "TG_BLAS_THREADS", "TG_BLAS_TARGET", "TG_BLAS_COMPILE", "TG_BLAS_VERBOSE", "OMP_NUM_THREADS", "HOME", "XDG_CACHE_HOME"};
  for (unsigned i = 0; i < sizeof names / sizeof *names; i++) {
    bool place = !strcmp(names[i], "TG_BLAS_CACHE") || !strcmp(names[i], "HOME") || !strcmp(names[i], "XDG_CACHE_HOME");
    switch (draw(6)) {
    case 0: case 1: unsetenv(names[i]); break;
    case 2: setenv(names[i], draw_bytes(), 1); break;
    case 3: setenv(names[i], draw_word(), 1); break;
    default: setenv(names[i], place ? draw_place() : draw_word(), 1);
    }
  }
}

static void set_limits(void) {
  rlim_t n;
  switch (draw(8)) {
  case 0: n = draw(3) * 2000, setrlimit(RLIMIT_FSIZE, &(struct rlimit){n, n}); break;
  case 1: n = 3 + draw(6), setrlimit(RLIMIT_NOFILE, &(struct rlimit){n, n}); break;
  case 2: n = 0, setrlimit(RLIMIT_CORE, &(struct rlimit){n, n}); break;
  default: break;
  }
  if (!draw(4)) umask(draw(512));
}

/* ---- products ---- */

typedef void gemm(const char *, const char *, const int *, const int *, const int *, const float *, const float *, const int *, const float *, const int *, const float *, float *, const int *);

static int multiply(gemm *f, int m, int n, int k) {
  float *a = malloc(sizeof *a * (size_t)(m * k)), *b = malloc(sizeof *b * (size_t)(k * n)), *c = malloc(sizeof *c * (size_t)(m * n)), one = 1, zero = 0;
  int wrong = 0;
  for (int i = 0; i < m * k; i++) a[i] = (float)(i * 7 % 5 - 2);
  for (int i = 0; i < k * n; i++) b[i] = (float)(i * 3 % 7 - 3);
  f("N", "N", &m, &n, &k, &one, a, &m, b, &k, &zero, c, &m);
  for (int j = 0; j < n; j += 5)
    for (int i = 0; i < m; i += 7) {
      float s = 0;
      for (int q = 0; q < k; q++) s += a[q * m + i] * b[j * k + q];
      wrong += c[j * m + i] != s;
    }
  free(a), free(b), free(c);
  return wrong;
}

static void *products(void *user) {
  static const int sizes[][3] = {{4, 5, 6}, {60, 50, 40}, {200, 150, 130}, {1, 90, 70}};
  void *l = dlopen(library, RTLD_NOW);
  gemm *f = l ? (gemm *)dlsym(l, "sgemm_") : NULL;
  if (!f) fprintf(stderr, "%s\n", dlerror()), _exit(3);
  for (uint32_t i = 1 + draw(3); i; i--) {
    const int *s = sizes[draw(4)];
    *(int *)user += multiply(f, s[0], s[1], s[2]);
  }
  return NULL;
}

/* A process with the environment of this seed. */
static int run_turn(uint64_t seed, bool plain) {
  fflush(NULL);
  pid_t child = fork();
  if (!child) {
    int wrong = 0, null = open("/dev/null", O_WRONLY), told = dup(2);
    alarm(120);
    state = seed * 0x9E3779B97F4A7C15u + 1;
    if (plain) setenv("TG_BLAS_CACHE", in_home("good"), 1);
    else set_variables();
    const char *verbose = getenv("TG_BLAS_VERBOSE");
    if (verbose && *verbose && !draw(3)) dup2(null, 2);
    if (chdir(in_home("work"))) _exit(4);
    void *l = dlopen(library, RTLD_NOW);   /* the linker needs files of its own */
    if (!l) _exit(3);
    if (!plain) set_limits();
    for (int i = 0; i < (plain ? 40 : 1); i++) products(&wrong);
    dup2(told, 2);
    _exit(wrong != 0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return status;
}

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void make_places(void) {
  static const char *const folders[] = {"good", "work", "read only", "open", "damaged", "another's"};
  for (unsigned i = 0; i < sizeof folders / sizeof *folders; i++) CHECK(!mkdir(in_home(folders[i]), 0700), "%s", folders[i]);
  int f = open(in_home("file"), O_WRONLY | O_CREAT, 0600);
  if (f >= 0) close(f);
  CHECK(f >= 0 && !mkfifo(in_home("pipe"), 0600) && !symlink("/nowhere/at/all", in_home("dangling")) && !symlink(in_home("good"), in_home("link")), "places");
}

int main(int n, char **arguments) {
  double seconds = 0, end;
  uint64_t seed = 1, from = 0, turns = 0, count = test_part() ? 40 : 60, crashed = 0;
  char here[3000] = {0}, command[400];
  for (int i = 1; i < n; i++) {
    if (!strcmp(arguments[i], "--seconds") && i + 1 < n) seconds = strtod(arguments[++i], NULL);
    else if (!strcmp(arguments[i], "--seed") && i + 1 < n) seed = strtoull(arguments[++i], NULL, 10);
    else if (!strcmp(arguments[i], "--from") && i + 1 < n) from = strtoull(arguments[++i], NULL, 10);
    else count = strtoull(arguments[i], NULL, 10);
  }
  if (readlink("/proc/self/exe", here, sizeof here - 1) < 0 || !strrchr(here, '/')) return 1;
  *strrchr(here, '/') = 0;
  snprintf(library, sizeof library, "%s/../libtg_blas.so", here);
  CHECK(test_folder(home) != NULL, "a folder");
  make_places();
  CHECK(!run_turn(seed, true), "no environment to speak of");
  for (end = now() + seconds; seconds > 0 ? now() < end : turns < count; turns++) {
    uint64_t s = seed * 1000003 + from + turns;
    int status = run_turn(s, false);
    if (!WIFEXITED(status) || WEXITSTATUS(status)) crashed++;
    CHECK(WIFEXITED(status) && !WEXITSTATUS(status), "turn %llu of seed %llu: signal %d, status %d", (unsigned long long)(from + turns), (unsigned long long)seed, WIFSIGNALED(status) ? WTERMSIG(status) : 0, WEXITSTATUS(status));
  }
  printf("%llu environments, %llu wrong or crashed\n", (unsigned long long)turns, (unsigned long long)crashed);
  snprintf(command, sizeof command, "chmod -R u+rwX %s; rm -rf %s", home, home);
  CHECK(!system(command), "%s", command);
  return TEST_END();
}
