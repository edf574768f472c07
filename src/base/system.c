/* SPDX-License-Identifier: MIT
 * Hashing, the clock, files. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#define XXH_INLINE_ALL
#include <xxhash.h>
#include "base/base.h"

uint64_t tg_hash(const void *data, size_t n, uint64_t seed) { return XXH3_64bits_withSeed(data, n, seed); }

tg_hash128 tg_hash_wide(const void *data, size_t n) {
  XXH128_hash_t h = XXH3_128bits(data, n);
  return (tg_hash128){h.low64, h.high64};
}

double tg_now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static ssize_t read_fully(int fd, char *p, size_t n) {
  size_t done = 0;
  while (done < n) {
    ssize_t k = read(fd, p + done, n - done);
    if (k < 0 && errno == EINTR) continue;
    if (k < 0) return -1;
    if (!k) break;
    done += (size_t)k;
  }
  return (ssize_t)done;
}

char *tg_read_file(tg_env *e, const char *path, size_t *bytes) {
  struct stat st;
  if (stat(path, &st)) return NULL;
  if (!S_ISREG(st.st_mode)) {
    errno = EINVAL;
    return NULL;
  }
  char *p = tg_alloc(e, (size_t)st.st_size + 1); /* before open: an unwinding must not pass over close */
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return NULL;
  ssize_t n = read_fully(fd, p, (size_t)st.st_size);
  close(fd);
  if (n < 0) return NULL;
  p[n] = 0;
  if (bytes) *bytes = (size_t)n;
  return p;
}

/* A file of our own beside path: O_EXCL keeps two writers apart. */
static int open_aside(const char *path, char *aside, size_t size) {
  for (int serial = 0; serial < 1000; serial++) {
    int n = snprintf(aside, size, "%s.%ld.%d.tmp", path, (long)getpid(), serial);
    if (n < 0 || (size_t)n >= size) return errno = ENAMETOOLONG, -1;
    int fd = open(aside, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd >= 0 || errno != EEXIST) return fd;
  }
  return -1;
}

int tg_write_file(const char *path, const void *data, size_t bytes) {
  char aside[4096];
  int fd = open_aside(path, aside, sizeof aside);
  if (fd < 0) return errno;
  int err = 0;
  for (size_t done = 0; done < bytes && !err;) {
    ssize_t k = write(fd, (const char *)data + done, bytes - done);
    if (k > 0) done += (size_t)k;
    else if (k == 0) err = EIO;
    else if (errno != EINTR) err = errno;
  }
  if (!err && fsync(fd)) err = errno;
  if (close(fd) && !err) err = errno;
  if (!err && rename(aside, path)) err = errno;
  if (err) unlink(aside);
  return err;
}

int tg_make_dirs(const char *path, unsigned mode) {
  char buf[4096];
  size_t n = strlen(path);
  if (!n || n >= sizeof buf) return n ? ENAMETOOLONG : EINVAL;
  memcpy(buf, path, n + 1);
  for (size_t i = 1; i <= n; i++) {
    if (buf[i] != '/' && buf[i]) continue;
    char c = buf[i];
    buf[i] = 0;
    if (mkdir(buf, mode) && errno != EEXIST) return errno;
    buf[i] = c;
  }
  return 0;
}

bool tg_is_private(const char *path, bool folder, bool root) {
  struct stat s;
  if (lstat(path, &s) || !(folder ? S_ISDIR(s.st_mode) : S_ISREG(s.st_mode))) return false;
  return (s.st_uid == geteuid() || (root && !s.st_uid)) && TG_MUTANT("cache: file open to others", !(s.st_mode & 022), true);
}

#ifdef TG_MUTANTS
/* TG_MUTANT names the fault that is on; TG_MUTANT_REACHED a file to which the name of each site is added that the program comes by. */
#include <stdlib.h>

static struct { pthread_mutex_t lock; pthread_once_t once; const char *on, *reached; size_t n; char *seen[8192]; } mutants = {.lock = PTHREAD_MUTEX_INITIALIZER, .once = PTHREAD_ONCE_INIT};

static void read_environment(void) {
  mutants.on = getenv("TG_MUTANT");
  mutants.reached = getenv("TG_MUTANT_REACHED");
}

static void reach(const char *name) {
  pthread_mutex_lock(&mutants.lock);
  size_t at = tg_hash(name, strlen(name), 0) % TG_COUNT(mutants.seen);
  while (mutants.seen[at] && strcmp(mutants.seen[at], name)) at = (at + 1) % TG_COUNT(mutants.seen);
  FILE *f = mutants.seen[at] || mutants.n + 1 == TG_COUNT(mutants.seen) ? NULL : fopen(mutants.reached, "a");
  if (f) {
    mutants.seen[at] = strdup(name);
    mutants.n++;
    fprintf(f, "%s\n", name);
    fclose(f);
  }
  pthread_mutex_unlock(&mutants.lock);
}

bool tg_mutant_on(const char *name, const char *row, long n) {
  char full[256];
  pthread_once(&mutants.once, read_environment);
  if (!mutants.on && !mutants.reached) return false;
  if (!mutants.reached && strncmp(mutants.on, name, strlen(name))) return false;
  int length = snprintf(full, sizeof full, "%s%s%s", name, row ? ": " : "", row ? row : "");
  if (n >= 0) snprintf(full + length, sizeof full - (size_t)length, row ? " %ld" : ": %ld", n);
  if (mutants.reached) reach(full);
  return mutants.on && !strcmp(mutants.on, full);
}
#endif
