/* SPDX-License-Identifier: MIT
 * What goes wrong around the library: memory that runs out at any moment, and files that cannot be read, written or believed. Each time
 * there is a status with a message, or the kernel is right all the same; nothing is lost, nothing dies.
 *   faults [SCRIPT]      default: all */
#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include "../target.h"
#include "../folder.h"
#include "../test.h"
#include "kit.h"

static const char matmul[] =
  "kernel matmul(M = 17, N = 33, K = 9) { in(A, f32, [M, K]); in(B, f32, [K, N]); out(C, f32, [M, N]);\n"
  "range(i, M) range(j, N) C[i,j] = sum(k : K, A[i,k] * B[k,j]); }\n";
static const char softmax[] =
  "kernel softmax(M = 3, N in 1..50) { in(x, f32, [M, N]); out(y, f32, [M, N]);\n"
  "range(i, M) range(j, N) y[i,j] = exp(x[i,j] - max(k : N, x[i,k])) / sum(k : N, exp(x[i,k] - max(l : N, x[i,l]))); }\n";
static const char threads[] =
  "kernel threads(N = 4096) { in(x, f32, [N]); out(y, f32, [N]); out(s, f32, []); range(i, N) y[i] = x[i] * 2; s = sum(k : N, x[k]);\n"
  "opt(thread i 512); opt(thread k 1024); }\n";

/* ---- an allocator that fails when it is told to, and knows what it gave ---- */

typedef struct { long calls, fail_at, live; long long bytes; bool for_good, mismatch; } budget;
typedef struct { size_t bytes, guard; } head;
static const size_t guard = 0x6a09e667f3bcc908u;

static void *give(void *user, size_t bytes) {
  budget *b = user;
  long n = __atomic_add_fetch(&b->calls, 1, __ATOMIC_RELAXED);
  if (n == b->fail_at || (b->for_good && n > b->fail_at && b->fail_at)) return NULL;
  head *h = malloc(sizeof *h + bytes);
  *h = (head){bytes, guard};
  memset(h + 1, 0xdb, bytes);   /* nobody may count on zeros */
  __atomic_add_fetch(&b->live, 1, __ATOMIC_RELAXED);
  return h + 1;
}

static void take(void *user, void *p, size_t bytes) {
  budget *b = user;
  if (!p) return;
  head *h = (head *)p - 1;
  if (h->guard != guard || h->bytes != bytes) __atomic_store_n(&b->mismatch, true, __ATOMIC_RELAXED);
  h->guard = 0;
  memset(p, 0xdd, h->bytes);
  __atomic_sub_fetch(&b->live, 1, __ATOMIC_RELAXED);
  free(h);
}

/* ---- the script: a kernel's whole life ---- */

static tg_status run_kernel(tg_kernel *k) {
  static float data[3][8192];
  tg_argument a[3];
  int64_t n = 50;
  const tg_kernel_info *info = tg_kernel_describe(k);
  for (int i = 0; i < 8192; i++) data[0][i] = data[1][i] = (float)(i % 5);
  for (int i = 0; i < 3; i++) a[i] = (tg_argument){data[i], sizeof data[i]};
  return tg_kernel_run(k, &(tg_launch){.buffers = a, .buffers_n = info->buffers_n, .params = &n, .params_n = info->params_n, .threads = 2});
}

typedef struct { const char *text, *cache, *stage; } script;

static void ignore(void *user, const char *stage, const char *text) { *(size_t *)user += strlen(stage) + strlen(text); }

static tg_status live(const script *s, budget *b, bool *told) {
  tg_context *c = NULL;
  tg_context_options o = {.allocator = {give, take, b}, .threads = 2, .target = test_target(), .cache = s->cache};
  tg_status status = tg_context_create(&o, &c);
  *told = true;
  if (status != TG_OK) return c ? TG_INTERNAL : status;
  tg_kernel *k = NULL;
  size_t length = 0;
  if (s->stage) status = tg_show_text(c, "fault.tg", s->text, NULL, s->stage, ignore, &length);
  else status = tg_kernel_compile_text(c, "fault.tg", s->text, NULL, &k);
  if (status != TG_OK && k) status = TG_INTERNAL;
  if (k) status = run_kernel(k);
  if (status != TG_OK && !b->for_good) *told = tg_error_message(c)[0] != 0;
  if (status == TG_ENOMEM && !b->for_good) {   /* one failure, and the context is as good as before */
    if (k || tg_kernel_compile_text(c, "fault.tg", s->text, NULL, &k) == TG_OK) {
      if (run_kernel(k) != TG_OK) status = TG_INTERNAL;
    } else status = TG_INTERNAL;
  }
  tg_kernel_free(k);
  tg_context_free(c);
  return status;
}

static void out_of_memory(const char *name, script s, bool for_good) {
  long n, failed = 0, steps = 0;
  budget whole = {0};
  bool told;
  CHECK(live(&s, &whole, &told) == TG_OK && !whole.live, "%s: %ld blocks left over without a fault", name, whole.live);
  for (n = 1; n <= whole.calls; n += whole.calls > 1500 ? whole.calls / 1500 + 1 : 1, steps++) {
    if (s.cache) kit_remove(s.cache);
    budget b = {.fail_at = n, .for_good = for_good};
    tg_status status = live(&s, &b, &told);
    bool right = (status == TG_ENOMEM || (status == TG_OK && !for_good)) && told && !b.live && !b.mismatch;
    if (!right && failed++ < 5)
      CHECK(right, "%s: allocation %ld of %ld%s: %s%s, %ld blocks left over%s", name, n, whole.calls, for_good ? " and all later" : "", tg_status_name(status),
            told ? "" : " without a message", b.live, b.mismatch ? ", freed by another size" : "");
  }
  CHECK(!failed && steps > 5, "%s: %ld of %ld", name, failed, steps);
}

/* ---- the cache's folder ---- */

/* Compiles and runs with this folder; gives whether it came from it. */
static bool with_cache(const char *folder, const char *text, const char *what) {
  tg_context *c = NULL;
  tg_kernel *k = NULL;
  tg_context_options o = {.cache = folder, .target = test_target()};
  CHECK(tg_context_create(&o, &c) == TG_OK, "%s: a context", what);
  if (!c) return false;
  bool compiled = tg_kernel_compile_text(c, "fault.tg", text, NULL, &k) == TG_OK;
  CHECK(compiled, "%s: %s", what, tg_error_message(c));
  bool found = k && tg_kernel_describe(k)->from_cache;
  if (k) {
    static float A[17 * 9], B[9 * 33], C[17 * 33];
    for (int i = 0; i < 17 * 9; i++) A[i] = 1;
    for (int i = 0; i < 9 * 33; i++) B[i] = 2;
    memset(C, 0xff, sizeof C);
    tg_argument a[] = {{A, sizeof A}, {B, sizeof B}, {C, sizeof C}};
    tg_status s = tg_kernel_run(k, &(tg_launch){.buffers = a, .buffers_n = 3});
    CHECK(s == TG_OK && C[0] == 18 && C[17 * 33 - 1] == 18, "%s: %s, %g", what, tg_error_message(c), (double)C[0]);
  }
  tg_kernel_free(k);
  tg_context_free(c);
  return found;
}

static bool entry_of(const char *folder, char *path, size_t n) {
  DIR *d = opendir(folder);
  bool found = false;
  for (struct dirent *e; d && (e = readdir(d));)
    if (e->d_name[0] != '.') found = snprintf(path, n, "%s/%s", folder, e->d_name) > 0;
  if (d) closedir(d);
  return found;
}

static long count_entries(const char *folder) {
  DIR *d = opendir(folder);
  long n = 0;
  for (struct dirent *e; d && (e = readdir(d));) n += e->d_name[0] != '.';
  if (d) closedir(d);
  return n;
}

static void write_file(const char *path, const void *data, size_t n) {
  unlink(path);
  FILE *f = fopen(path, "wb");
  CHECK(f && fwrite(data, 1, n, f) == n, "%s", path);
  if (f) fclose(f);
  chmod(path, 0600);
}

static void damaged_entries(const char *folder) {
  char path[600], aside[700];
  static char entry[1 << 17], changed[1 << 17];
  CHECK(!with_cache(folder, matmul, "an empty folder") && with_cache(folder, matmul, "a good entry"), "written, then found");
  CHECK(entry_of(folder, path, sizeof path), "an entry");
  FILE *f = fopen(path, "rb");
  size_t n = f ? fread(entry, 1, sizeof entry, f) : 0;
  if (f) fclose(f);
  CHECK(n > 1000 && n < sizeof entry, "%zu bytes", n);
  for (int i = 0; i < 60; i++) {   /* the header byte by byte, the rest in steps */
    size_t at = i < 24 ? (size_t)i * 6 : 144 + (size_t)(i - 24) * ((n - 145) / 36);
    memcpy(changed, entry, n);
    changed[at] = (char)(changed[at] ^ 1 << i % 8);
    write_file(path, changed, n);
    bool found = with_cache(folder, matmul, "a damaged entry");
    CHECK(!found, "byte %zu of %zu", at, n);
  }
  for (int i = 0; i < 8; i++) {
    write_file(path, entry, n * (size_t)i / 8);
    CHECK(!with_cache(folder, matmul, "an entry cut short"), "%d of 8", i);
  }
  memcpy(changed, entry, n);
  memset(changed + n, 0, 64);
  write_file(path, changed, n + 64);
  CHECK(!with_cache(folder, matmul, "an entry with a tail"), "too long");
  write_file(path, entry, n);
  chmod(path, 0622);
  CHECK(!with_cache(folder, matmul, "an entry that anyone may write"), "others could have written it");
  write_file(path, entry, n);
  snprintf(aside, sizeof aside, "%s.aside", path);
  CHECK(!rename(path, aside) && !symlink(aside, path), "a link");
  CHECK(!with_cache(folder, matmul, "a link"), "a link");
  unlink(path), unlink(aside);
  CHECK(!mkdir(path, 0700), "a folder");
  CHECK(!with_cache(folder, matmul, "a folder in the place of an entry"), "a folder");
  rmdir(path);
  CHECK(!mkfifo(path, 0600) && !with_cache(folder, matmul, "a pipe in the place of an entry"), "a pipe");
  unlink(path);
  write_file(path, entry, n);
  snprintf(aside, sizeof aside, "%s-link", folder);
  CHECK(!symlink(folder, aside) && !with_cache(aside, matmul, "a link to the folder"), "a link to the folder");
  unlink(aside);
  if (!geteuid()) {
    CHECK(!chown(path, 65534, 65534) && !with_cache(folder, matmul, "an entry of another user's"), "another user's");
    write_file(path, entry, n);
    CHECK(!chown(folder, 65534, 65534) && !with_cache(folder, matmul, "a folder of another user's") && !chown(folder, 0, 0), "another user's");
  }
  CHECK(with_cache(folder, matmul, "the entry again"), "the same bytes are good again");
}

static void full_disk(const char *folder) {
  signal(SIGXFSZ, SIG_DFL);   /* the library keeps it from us */
  struct rlimit none = {600, 600};
  kit_remove(folder);
  CHECK(!mkdir(folder, 0700) && !setrlimit(RLIMIT_FSIZE, &none), "a limit");
  CHECK(!with_cache(folder, matmul, "a full disk") && !with_cache(folder, matmul, "a full disk"), "nothing could be written");
  CHECK(!count_entries(folder), "%ld files are left in the folder", count_entries(folder));
}

static void unwritable(const char *folder) {
  if (!geteuid() && (chown(folder, 65534, 65534) || setgid(65534) || setuid(65534))) return;
  CHECK(!chmod(folder, 0500), "read only");
  CHECK(!with_cache(folder, matmul, "a read-only folder"), "nothing to find");
  CHECK(!with_cache("/proc/tg/cache", matmul, "no place for a folder"), "nothing to find");
  chmod(folder, 0777);
  CHECK(!with_cache(folder, matmul, "a folder that anyone may write") && !with_cache(folder, matmul, "a folder that anyone may write"), "not trusted");
  chmod(folder, 0700);
  CHECK(!with_cache(folder, matmul, "a folder of one's own") && with_cache(folder, matmul, "a folder of one's own"), "found");
}

static void file_as_folder(const char *folder) {
  kit_remove(folder);
  write_file(folder, "x", 1);
  CHECK(!with_cache(folder, matmul, "a file for a folder"), "nothing to find");
  unlink(folder);
  CHECK(!with_cache("", matmul, "an empty name"), "no cache");
  char deep[5000];
  memset(deep, 'a', sizeof deep - 1);
  deep[0] = '/', deep[sizeof deep - 1] = 0;
  CHECK(!with_cache(deep, matmul, "a name too long"), "nothing to find");
}

/* perf's map stands where all may write: what another has put there is left alone. */
static bool map_is_written(const char *path) {
  tg_context *c = NULL;
  tg_kernel *k = NULL;
  struct stat st;
  CHECK(tg_context_create(&(tg_context_options){.flags = TG_CONTEXT_PERF_MAP, .target = test_target()}, &c) == TG_OK, "a context");
  CHECK(tg_kernel_compile_text(c, "fault.tg", matmul, NULL, &k) == TG_OK, "%s", tg_error_message(c));
  tg_kernel_free(k);
  tg_context_free(c);
  return !stat(path, &st) && st.st_size > 20;
}

static void perf_map(const char *folder) {
  char path[64], elsewhere[600];
  snprintf(path, sizeof path, "/tmp/perf-%ld.map", (long)getpid());
  snprintf(elsewhere, sizeof elsewhere, "%s/map", folder);
  alarm(60);   /* nobody reads the pipe */
  unlink(path);
  CHECK(map_is_written(path) && !unlink(path), "written");
  CHECK(!mkfifo(path, 0600) && !map_is_written(path) && !unlink(path), "a pipe");
  int reader = mkfifo(path, 0600) ? -1 : open(path, O_RDONLY | O_NONBLOCK);
  char byte;
  CHECK(reader >= 0 && !map_is_written(path) && read(reader, &byte, 1) <= 0 && !unlink(path) && !close(reader), "a pipe that is read");
  write_file(elsewhere, "", 0);
  CHECK(!symlink(elsewhere, path) && !map_is_written(path) && !unlink(path), "a link");
  CHECK(!link(elsewhere, path) && !map_is_written(path) && !unlink(path), "a file with another name");
  write_file(path, "", 0);
  CHECK(!chmod(path, 0666) && !map_is_written(path) && !unlink(path), "a file that others may write");
}

/* In a process of its own: limits and users do not come back. */
static void apart(const char *name, void (*fn)(const char *folder)) {
  char folder[TEST_PATH] = "tg-faults-XXXXXX";
  fflush(NULL);
  if (!test_folder(folder)) return;
  pid_t child = fork();
  if (!child) {
    test_passed = test_failed = 0;
    fn(folder);
    fflush(NULL);
    _exit(test_failed ? 1 : test_passed ? 0 : 2);
  }
  int status = 0;
  waitpid(child, &status, 0);
  CHECK(WIFEXITED(status) && !WEXITSTATUS(status), "%s: %s %d", name, WIFSIGNALED(status) ? "signal" : "status", WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
  kit_remove(folder);
}

int main(int argc, char **argv) {
  char folder[TEST_PATH] = "tg-faults-XXXXXX";
  CHECK(test_folder(folder) != NULL, "a folder");
  const struct { const char *name; script s; } scripts[] = {
    {"matmul", {matmul, NULL, NULL}}, {"softmax", {softmax, NULL, NULL}}, {"threads", {threads, NULL, NULL}},
    {"cache", {matmul, folder, NULL}}, {"show", {softmax, NULL, "asm"}},
  };
  if (argc < 2) {
    apart("damaged entries", damaged_entries);
    apart("full disk", full_disk);
    apart("unwritable", unwritable);
    apart("file as folder", file_as_folder);
    apart("perf's map", perf_map);
  }
  for (size_t i = 0; i < sizeof scripts / sizeof *scripts; i++)
    for (int for_good = 0; for_good < 2 && (argc < 2 || !strcmp(argv[1], scripts[i].name)); for_good++)
      out_of_memory(scripts[i].name, scripts[i].s, for_good);
  kit_remove(folder);
  return TEST_END();
}
