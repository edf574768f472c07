/* SPDX-License-Identifier: MIT
 * File access. Before a file is trusted, above all one with code, its ownership and mode are checked on the open
 * descriptor, never by path: another user might replace the file between a check by path and the opening. A folder is
 * opened without following a link and checked, and its files are opened relative to its descriptor. Then the owners of
 * the folders above do not matter: whoever can move our folder away cannot make one that belongs to us. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include "base/base.h"

/* ---- reading ---- */

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

typedef struct { tg_env *env; size_t bytes; char *data; } room;

static void make_room(void *arg) {
  room *r = arg;
  r->data = tg_alloc(r->env, r->bytes);
}

/* Closes the descriptor, also if there is no memory. */
static char *read_and_close(tg_env *e, int fd, size_t size, size_t *bytes) {
  room r = {e, size + 1, NULL};
  bool made = tg_protect(e, make_room, &r);
  ssize_t n = made ? read_fully(fd, r.data, size) : -1;
  int err = errno;
  close(fd);
  if (!made) tg_fail(e, e->status, "out of memory");
  errno = err;
  if (n < 0) return NULL;
  r.data[n] = 0;
  if (bytes) *bytes = (size_t)n;
  return r.data;
}

/* O_NONBLOCK: if the path is a pipe, opening it must not wait. */
char *tg_read_file(tg_env *e, const char *path, size_t *bytes) {
  struct stat s;
  int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (fd < 0) return NULL;
  if (fstat(fd, &s) || !S_ISREG(s.st_mode)) {
    close(fd);
    errno = EINVAL;
    return NULL;
  }
  return read_and_close(e, fd, (size_t)s.st_size, bytes);
}

/* ---- files that no other user could have written ---- */

bool tg_is_private(int fd, bool root, size_t *bytes) {
  struct stat s;
  if (fstat(fd, &s) || !(S_ISREG(s.st_mode) || S_ISDIR(s.st_mode))) return false;
  if (bytes) *bytes = (size_t)s.st_size;
  if (s.st_uid != geteuid() && !(root && !s.st_uid)) return false;
  return !(s.st_mode & 022);
}

/* -1: there is none, or others may write it (EPERM). */
static int open_folder(const char *path, bool root) {
  int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (fd < 0 || tg_is_private(fd, root, NULL)) return fd;
  close(fd);
  errno = EPERM;
  return -1;
}

char *tg_read_private(tg_env *e, const char *folder, const char *name, bool root, size_t *bytes) {
  size_t size;
  struct stat s;
  int at = open_folder(folder, root);
  if (at < 0) return NULL;
  int fd = openat(at, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
  close(at);
  if (fd < 0) return NULL;
  if (tg_is_private(fd, root, &size) && !fstat(fd, &s) && S_ISREG(s.st_mode)) return read_and_close(e, fd, size, bytes);
  close(fd);
  errno = EPERM;
  return NULL;
}

/* ---- writing ---- */

/* A write past RLIMIT_FSIZE raises SIGXFSZ, which would end the program. Here the signal is blocked and then discarded,
 * so that only the write fails. */
int tg_write_all(int fd, const void *data, size_t bytes) {
  sigset_t exceeds, before, pending;
  int err = 0;
  sigemptyset(&exceeds);
  sigaddset(&exceeds, SIGXFSZ);
  sigpending(&pending);
  bool waits = sigismember(&pending, SIGXFSZ) > 0;   /* it was raised before, for another write: not to be discarded */
  pthread_sigmask(SIG_BLOCK, &exceeds, &before);
  for (size_t done = 0; done < bytes && !err;) {
    ssize_t k = write(fd, (const char *)data + done, bytes - done);
    if (k > 0) done += (size_t)k;
    else if (k == 0) err = EIO;
    else if (errno != EINTR) err = errno;
  }
  if (err == EFBIG && !waits) sigtimedwait(&exceeds, NULL, &(struct timespec){0, 0});
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  return err;
}

/* Creates a temporary file in the same folder; O_EXCL: two writers never get the same one. */
static int open_aside(int folder, const char *name, char *aside, size_t size) {
  for (int serial = 0; serial < 1000; serial++) {
    int n = snprintf(aside, size, "%s.%ld.%d.tmp", name, (long)getpid(), serial);
    if (n < 0 || (size_t)n >= size) return errno = ENAMETOOLONG, -1;
    int fd = openat(folder, aside, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd >= 0 || errno != EEXIST) return fd;
  }
  return -1;
}

static int write_into(int folder, const char *name, const void *data, size_t bytes) {
  char aside[256];
  int fd = open_aside(folder, name, aside, sizeof aside);
  if (fd < 0) return errno;
  int err = tg_write_all(fd, data, bytes);
  if (!err && fsync(fd)) err = errno;
  if (close(fd) && !err) err = errno;
  if (!err && renameat(folder, aside, folder, name)) err = errno;
  if (err) unlinkat(folder, aside, 0);
  return err;
}

/* Like mkdir -p; 0 or an errno. */
static int make_folders(const char *path) {
  char buf[4096];
  size_t n = strlen(path);
  if (!n || n >= sizeof buf) return n ? ENAMETOOLONG : EINVAL;
  memcpy(buf, path, n + 1);
  for (size_t i = 1; i <= n; i++) {
    if (buf[i] != '/' && buf[i]) continue;
    char c = buf[i];
    buf[i] = 0;
    if (mkdir(buf, 0700) && errno != EEXIST) return errno;
    buf[i] = c;
  }
  return 0;
}

int tg_write_private(const char *folder, const char *name, const void *data, size_t bytes) {
  int err = make_folders(folder);
  if (err) return err;
  int at = open_folder(folder, false);
  if (at < 0) return errno;
  err = write_into(at, name, data, bytes);
  close(at);
  return err;
}
