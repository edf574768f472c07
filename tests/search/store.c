/* SPDX-License-Identifier: MIT
 * The store of tuned choices: writers killed at any moment beside readers; every damage, however small, is a miss; full disks, folders that may not be
 * written to or are open to others, entries of another key, format or machine. Arguments: --kills N, --damages N. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include "../folder.h"
#include "../test.h"
#include "store/store.h"

static char folder[TEST_PATH] = "/dev/shm/tg-store-XXXXXX", other[TEST_PATH + 16];   /* memory: 16 processes that sync would wait for a disk */

enum { KEYS = 40, WRITERS = 8, READERS = 8 };

/* What stands under key k, version v: all of it follows from both. */
static tg_tuned sample(tg_env *env, unsigned k, unsigned v) {
  tg_binding *b = tg_new(env, tg_binding, 2);
  b[0] = (tg_binding){"BM", (int64_t)v, (int64_t)v, 1};
  b[1] = (tg_binding){"BN", -(int64_t)v, -(int64_t)v, 1};
  tg_str words = tg_str_new(env);
  for (unsigned i = 0; i < 1 + (k * 7 + v) % 400; i++) tg_str_printf(&words, "split i %u as i%u j%u; ", v, i, i);
  return (tg_tuned){.key = tg_format(env, "tg 0\nkernel %u\nline two\n", k), .kernel = tg_format(env, "k%u", k), .knobs = b, .knobs_n = 2, .words = words.data, .seconds = v * 1e-6,
                    .default_seconds = v * 2e-6, .gain_low = 0.5};
}

static bool equal(const tg_tuned *a, const tg_tuned *b) {
  if (strcmp(a->key, b->key) || strcmp(a->kernel, b->kernel) || !a->words != !b->words || (a->words && strcmp(a->words, b->words)) || a->knobs_n != b->knobs_n) return false;
  for (uint32_t i = 0; i < a->knobs_n; i++)
    if (strcmp(a->knobs[i].name, b->knobs[i].name) || a->knobs[i].lo != b->knobs[i].lo) return false;
  return a->seconds == b->seconds && a->default_seconds == b->default_seconds && a->gain_low == b->gain_low;
}

/* -1: a miss; 0: wrong; 1: some version of the key as it was written. */
static int look(tg_env *env, unsigned k) {
  tg_tuned got, want = sample(env, k, 1);
  if (!tg_store_read(env, NULL, folder, want.key, &got)) return -1;
  want = sample(env, k, (unsigned)(got.seconds * 1e6 + 0.5));
  return equal(&got, &want);
}

/* ---- killed writers ---- */

static void write_forever(void *arg) {
  tg_env *env = arg;
  for (unsigned v = (unsigned)getpid();; v = v * 1664525u + 1013904223u) {
    tg_mark m = tg_mark_get(env);
    tg_tuned t = sample(env, v >> 8 & 31, v % 1000 + 1);
    tg_store_write(env, folder, &t);
    tg_mark_release(env, m);
  }
}

static void read_forever(void *arg) {
  tg_env *env = arg;
  for (unsigned k = 0;; k = (k + 1) % KEYS) {
    tg_mark m = tg_mark_get(env);
    if (!look(env, k)) kill(getpid(), SIGABRT);
    tg_mark_release(env, m);
  }
}

static pid_t begin(void (*run)(void *)) {
  pid_t p = fork();
  if (p) return p;
  tg_env env;
  tg_env_init(&env, NULL);
  tg_protect(&env, run, &env);
  _exit(1);
}

static void test_kills(tg_env *env, int kills) {
  pid_t reader[READERS], writer[WRITERS];
  int wrong = 0, lost = 0;
  for (unsigned k = 32; k < KEYS; k++) { /* nobody writes these again */
    tg_tuned t = sample(env, k, 7);
    CHECK(tg_store_write(env, folder, &t) == 0, "written");
  }
  for (int i = 0; i < READERS; i++) reader[i] = begin(read_forever);
  for (int i = 0; i < WRITERS; i++) writer[i] = begin(write_forever);
  for (int i = 0; i < kills; i++) {
    int w = i % WRITERS;
    struct timespec t = {0, 1000000 + i * 7919 % 4000000};
    nanosleep(&t, NULL);
    kill(writer[w], SIGKILL);
    waitpid(writer[w], NULL, 0);
    writer[w] = begin(write_forever);
  }
  for (int i = 0; i < WRITERS; i++) kill(writer[i], SIGKILL), waitpid(writer[i], NULL, 0);
  for (int i = 0; i < READERS; i++) {
    int status = 0;
    pid_t ended = waitpid(reader[i], &status, WNOHANG);
    if (ended) wrong++;
    else kill(reader[i], SIGKILL), waitpid(reader[i], NULL, 0);
  }
  CHECK(!wrong, "%d readers saw what nobody wrote", wrong);
  for (unsigned k = 0; k < KEYS; k++) {
    int r = look(env, k);
    wrong += r == 0;
    lost += k >= 32 && r != 1;
  }
  CHECK(!wrong && !lost, "%d wrong, %d lost", wrong, lost);
}

/* ---- damage ---- */

static void put(const char *path, const char *data, size_t n) {
  FILE *f = fopen(path, "wb");
  if (!f) return;
  fwrite(data, 1, n, f);
  fclose(f);
  chmod(path, 0600);
}

static const char *file_of(tg_env *env, unsigned k) {   /* the only entry of a folder */
  const char *found = NULL;
  (void)k;
  DIR *d = opendir(folder);
  for (struct dirent *e; (e = readdir(d));)
    if (strstr(e->d_name, ".tgt")) found = tg_format(env, "%s/%s", folder, e->d_name);
  closedir(d);
  return found;
}

static void clean(void) {
  DIR *d = opendir(folder);
  for (struct dirent *e; d && (e = readdir(d));)
    if (e->d_name[0] != '.') unlinkat(dirfd(d), e->d_name, 0);
  if (d) closedir(d);
}

static void test_damage(tg_env *env, long damages) {
  clean();
  tg_tuned t = sample(env, 3, 5);
  CHECK(tg_store_write(env, folder, &t) == 0 && look(env, 3) == 1, "written and read");
  const char *path = file_of(env, 3);
  size_t n;
  char *data = tg_read_file(env, path, &n), *copy = malloc(2 * n + 64);
  long hits = 0;
  unsigned r = 12345;
  for (long i = 0; i < damages; i++) {
    tg_mark m = tg_mark_get(env);
    size_t length = n;
    memcpy(copy, data, n);
    r = r * 1664525u + 1013904223u;
    size_t at = (r >> 4) % n;
    switch (i % 5) {
    case 0: copy[at] = (char)(copy[at] ^ 1 << (r >> 29)); break;
    case 1: length = at; break;
    case 2: memmove(copy + at, copy + at + 1, n - at - 1), length = n - 1; break;
    case 3: memmove(copy + at + 1, copy + at, n - at), length = n + 1; break;
    default: memset(copy + at, 0, n - at < 64 ? n - at : 64); break;
    }
    bool same = length == n && !memcmp(copy, data, n);
    put(path, copy, length);
    if (look(env, 3) != -1 && !same) hits++;
    tg_mark_release(env, m);
  }
  CHECK(!hits, "%ld of %ld damages were taken for an entry", hits, damages);
  put(path, data, n);
  CHECK(look(env, 3) == 1, "whole again");
  /* of another key under this name; of a format to come; with fields that this version does not know */
  tg_tuned foreign = sample(env, 4, 5);
  tg_str s = tg_str_new(env);
  tg_store_print(&s, &foreign);
  put(path, s.data, s.n);
  CHECK(look(env, 3) == -1, "another key's");
  memcpy(copy, data, n);
  memcpy(copy, "tg-tuned 2", 10);
  put(path, copy, n);
  CHECK(look(env, 3) == -1, "a format to come");
  unlink(path);
  CHECK(!mkdir(path, 0700) && look(env, 3) == -1 && tg_store_write(env, folder, &t), "a folder in its place");
  rmdir(path);
  free(copy);
}

/* ---- places ---- */

static void test_places(tg_env *env) {
  clean();
  tg_tuned t = sample(env, 3, 5);
  CHECK(tg_store_write(env, folder, &t) == 0, "written");
  const char *path = file_of(env, 3);
  struct stat st;
  CHECK(!stat(path, &st) && (st.st_mode & 0777) == 0600, "the user's own file");
  chmod(path, 0666);
  CHECK(look(env, 3) == -1, "a file that others may write");
  chmod(path, 0644);
  CHECK(look(env, 3) == 1, "a file that others may read");
  chmod(folder, 0777);
  CHECK(look(env, 3) == -1 && tg_store_write(env, folder, &t) == EPERM, "a folder that others may write");
  chmod(folder, 0755);
  CHECK(look(env, 3) == 1, "a shared folder");
  chmod(folder, 0500);
  CHECK(look(env, 3) == 1 && (!geteuid() || tg_store_write(env, folder, &t)), "a folder that is only read");
  chmod(folder, 0700);
  CHECK(tg_store_write(env, "/dev/null/tuned", &t) != 0 && tg_store_write(env, "", &t) != 0, "no folder can be made");
  tg_tuned got;
  CHECK(!tg_store_read(env, NULL, "/nowhere/tuned", t.key, &got), "no folder");
  snprintf(other, sizeof other, "%s-link", folder);
  CHECK(!symlink(folder, other) && !tg_store_read(env, NULL, other, t.key, &got), "a link to a folder");
  unlink(other);
}

/* A disk that is full after some bytes: what stood there stands. */
static void test_full(tg_env *env) {
  clean();
  tg_tuned t = sample(env, 3, 5), bigger = sample(env, 3, 300);
  CHECK(tg_store_write(env, folder, &t) == 0, "written");
  pid_t p = fork();
  if (!p) {
    struct rlimit small = {512, 512};
    signal(SIGXFSZ, SIG_DFL);
    setrlimit(RLIMIT_FSIZE, &small);
    _exit(tg_store_write(env, folder, &bigger) ? 0 : 1);
  }
  int status = 1;
  waitpid(p, &status, 0);
  CHECK(status == 0, "a write that does not fit fails");
  CHECK(look(env, 3) == 1, "the entry before is there");
  int left = 0;
  DIR *d = opendir(folder);
  for (struct dirent *e; (e = readdir(d));) left += strstr(e->d_name, ".tmp") != NULL;
  closedir(d);
  CHECK(!left, "%d files left behind", left);
}

typedef struct { int good, bad; } counts;
static void count(void *user, const char *path, const tg_tuned *t) {
  counts *c = user;
  (void)path;
  if (t) c->good++;
  else c->bad++;
}

static void test_each(tg_env *env) {
  clean();
  for (unsigned k = 0; k < 10; k++) {
    tg_tuned t = sample(env, k, k + 1);
    tg_store_write(env, folder, &t);
  }
  put(tg_format(env, "%s/0123.tgt", folder), "nothing", 7);
  put(tg_format(env, "%s/other", folder), "nothing", 7);
  counts c = {0, 0};
  CHECK(tg_store_each(env, folder, count, &c) == 0 && c.good == 10 && c.bad == 1, "%d good, %d bad", c.good, c.bad);
  CHECK(tg_store_each(env, "/nowhere", count, &c) != 0, "no folder");
}

typedef struct { tg_env env; int kills; long damages; } all;
static void run(void *arg) {
  all *a = arg;
  test_damage(&a->env, a->damages);
  test_places(&a->env);
  test_full(&a->env);
  test_each(&a->env);
  test_kills(&a->env, a->kills);
}

int main(int argc, char **argv) {
#ifdef TG_SANITIZED   /* the full numbers are for the build that is shipped */
  static all a = {.kills = 40, .damages = 3000};
#else
  static all a = {.kills = 200, .damages = 20000};
#endif
  for (int i = 1; i + 1 < argc; i += 2) {
    if (!strcmp(argv[i], "--kills")) a.kills = atoi(argv[i + 1]);
    if (!strcmp(argv[i], "--damages")) a.damages = atol(argv[i + 1]);
  }
  if (!test_has_room("/dev/shm") || !mkdtemp(folder)) {
    snprintf(folder, sizeof folder, "tg-store-XXXXXX");
    CHECK(test_folder(folder) != NULL, "a folder");
  }
  tg_env_init(&a.env, NULL);
  CHECK(tg_protect(&a.env, run, &a), "%s", a.env.message);
  tg_env_drop(&a.env);
  clean();
  rmdir(folder);
  return TEST_END();
}
