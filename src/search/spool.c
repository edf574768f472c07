/* SPDX-License-Identifier: MIT
 * The spool. For a task, or some neighbours, there are two files, named by what they are: NAME.lease, which one process
 * has made, and whose time it renews; NAME.answer, which is linked when it is whole, so that the first one stays.
 * Nothing is locked: leases are made by names that must not exist yet, which holds on network file systems, too. Ages
 * are told by the file system's clock, from a file that is touched, so that clocks of machines may differ. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>
#include "search/spool.h"

enum { HELD = 64, NAME = 32, LOOK = 20 /* milliseconds from one look to the next */ };

struct tg_spool {
  tg_env *env;
  int folder;
  double lease, renewed;
  char own[96];                /* name of this process's file, which tells the file system's time */
  char held[HELD][NAME];       /* leases */
  uint32_t held_n;
};

/* ---- the folder ---- */

static int make_folder(int at, const char *path) {
  if (mkdirat(at, path, 0700) && errno != EEXIST) return -1;
  return openat(at, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

tg_spool *tg_spool_open(tg_env *env, const char *folder, uint64_t key, const char *about, double lease) {
  tg_spool *s = tg_new(env, tg_spool, 1);
  char host[64] = "", part[NAME];
  *s = (tg_spool){.env = env, .lease = lease > 0 ? lease : 20};
  gethostname(host, sizeof host - 1);
  snprintf(s->own, sizeof s->own, "%.60s-%ld.alive", host, (long)getpid());
  snprintf(part, sizeof part, "%016llx", (unsigned long long)key);
  int all = make_folder(AT_FDCWD, folder);
  s->folder = all < 0 ? -1 : make_folder(all, part);
  int err = errno;
  if (all >= 0) close(all);
  int fd = s->folder < 0 ? -1 : openat(s->folder, "problem", O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (fd >= 0) tg_write_all(fd, about, strlen(about)), close(fd);
  else if (s->folder >= 0 && errno != EEXIST) err = errno, close(s->folder), s->folder = -1;
  if (s->folder < 0) tg_fail(env, TG_EIO, "the spool %s cannot be used: %s", folder, strerror(err));
  return s;
}

void tg_spool_close(tg_spool *s) {
  if (!s) return;
  for (uint32_t i = 0; i < s->held_n; i++) unlinkat(s->folder, s->held[i], 0);
  unlinkat(s->folder, s->own, 0);
  close(s->folder);
}

/* The file system's time, in seconds. */
static double time_there(tg_spool *s) {
  struct stat st;
  int fd = openat(s->folder, s->own, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  bool told = fd >= 0 && !tg_write_all(fd, ".", 1) && !fstat(fd, &st);
  if (fd >= 0) close(fd);
  return told ? (double)st.st_mtim.tv_sec + 1e-9 * (double)st.st_mtim.tv_nsec : 0;
}

void tg_spool_renew(tg_spool *s) {
  enum { TIMES = 8 };   /* within the time of a lease */
  double now = tg_now();
  if (!s->held_n || now < s->renewed + s->lease / TIMES) return;
  s->renewed = now;
  for (uint32_t i = 0; i < s->held_n; i++) utimensat(s->folder, s->held[i], NULL, 0);
}

/* ---- leases ---- */

static void file_of(char out[NAME], uint64_t name, const char *end) {
  snprintf(out, NAME, "%016llx.%s", (unsigned long long)name, end);
}

static bool make_lease(tg_spool *s, const char *file) {
  int fd = openat(s->folder, file, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (fd < 0) return false;
  tg_write_all(fd, s->own, strlen(s->own));
  close(fd);
  memcpy(s->held[s->held_n++], file, NAME);
  return true;
}

/* A lease that nobody has renewed is taken away: by renaming it, which only one process can. What was renamed may be
 * the lease that another process has got in its place since: that one is put back. */
static bool take_over(tg_spool *s, const char *file) {
  struct stat st, taken;
  char away[NAME + 100];
  if (fstatat(s->folder, file, &st, 0)) return false;   /* given back */
  double age = time_there(s) - ((double)st.st_mtim.tv_sec + 1e-9 * (double)st.st_mtim.tv_nsec);
  if (age < s->lease) return false;
  snprintf(away, sizeof away, "%s.%s", file, s->own);
  if (renameat(s->folder, file, s->folder, away)) return false;
  bool same = !fstatat(s->folder, away, &taken, 0) && taken.st_ino == st.st_ino &&
              taken.st_mtim.tv_sec == st.st_mtim.tv_sec && taken.st_mtim.tv_nsec == st.st_mtim.tv_nsec;
  if (!same) (void)!linkat(s->folder, away, s->folder, file, 0);
  unlinkat(s->folder, away, 0);
  return same && make_lease(s, file);
}

static bool get_lease(tg_spool *s, uint64_t name) {
  char file[NAME];
  if (s->held_n == HELD) return false;
  file_of(file, name, "lease");
  return make_lease(s, file) || (errno == EEXIST && take_over(s, file));
}

static void give_back(tg_spool *s, uint64_t name) {
  char file[NAME];
  file_of(file, name, "lease");
  for (uint32_t i = 0; i < s->held_n; i++)
    if (!strcmp(s->held[i], file)) {
      memcpy(s->held[i], s->held[--s->held_n], NAME);
      unlinkat(s->folder, file, 0);
      return;
    }
}

/* ---- answers ---- */

/* Reads the answers of n neighbours; false: there are none, or they are damaged. */
static bool read_answers(tg_spool *s, uint64_t name, tg_task *tasks, uint32_t n) {
  char file[NAME];
  struct stat st;
  file_of(file, name, "answer");
  int fd = openat(s->folder, file, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return false;
  size_t bytes = fstat(fd, &st) || st.st_size < 0 ? 0 : (size_t)st.st_size, done = 0, at = 0;
  char *data = tg_alloc(s->env, bytes + 1);
  for (ssize_t k; done < bytes && (k = read(fd, data + done, bytes - done)) > 0;) done += (size_t)k;
  close(fd);
  uint32_t i = 0;
  for (tg_wire_header f; i < n && bytes - at >= sizeof f; i++) {
    memcpy(&f, data + at, sizeof f);
    at += sizeof f;
    if (!tg_wire_frame(&f) || f.bytes > bytes - at || !tg_wire_read_answer(s->env, &f, data + at, name, &tasks[i]))
      break;
    at += f.bytes;
  }
  if (i == n && at == bytes) return true;
  unlinkat(s->folder, file, 0);   /* damaged: it is done again */
  return false;
}

static bool is_answered(const tg_spool *s, uint64_t name) {
  char file[NAME];
  file_of(file, name, "answer");
  return !faccessat(s->folder, file, F_OK, 0);
}

static void write_answers(tg_spool *s, uint64_t name, const tg_task *tasks, uint32_t n) {
  char file[NAME], draft[NAME + 100];
  tg_str text = tg_str_new(s->env);
  for (uint32_t i = 0; i < n; i++) {
    if (tasks[i].outcome == TG_TRIAL_SKIPPED) return;
    tg_wire_answer(&text, &tasks[i], name);
  }
  file_of(file, name, "answer");
  snprintf(draft, sizeof draft, "%s.%s", file, s->own);
  int fd = openat(s->folder, draft, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (fd < 0) return;
  bool whole = !tg_write_all(fd, text.data, text.n);
  close(fd);
  if (whole) whole = !linkat(s->folder, draft, s->folder, file, 0);   /* if there is one, that one stays */
  unlinkat(s->folder, draft, 0);
}

/* ---- sharing ---- */

typedef struct { uint64_t name; uint32_t from, n; bool answered, mine; } group;

/* Leases free groups, those that this process would rather do first, and does them. False: none was free. */
static bool do_some(tg_spool *s, const tg_spool_share *a, group *g, uint32_t groups) {
  tg_task *mine = tg_new(s->env, tg_task, a->n);
  uint32_t n = 0;
  for (int pass = a->first ? 0 : 1; pass < 2 && !n; pass++)
    for (uint32_t i = 0; i < groups && (!n || n + g[i].n <= a->parallel); i++) {
      if (g[i].answered || g[i].mine || (!pass && !a->first[g[i].from]) || !get_lease(s, g[i].name)) continue;
      if (is_answered(s, g[i].name)) { /* since the last look, and the lease was given back */
        give_back(s, g[i].name);
        return true;
      }
      g[i].mine = true;
      memcpy(mine + n, a->tasks + g[i].from, g[i].n * sizeof *mine);
      n += g[i].n;
    }
  if (!n) return false;
  a->work(a->user, mine, n);
  for (uint32_t i = 0, at = 0; i < groups; i++) {
    if (!g[i].mine || g[i].answered) continue;
    write_answers(s, g[i].name, mine + at, g[i].n);
    (void)read_answers(s, g[i].name, mine + at, g[i].n);   /* all processes go on with what stands in the folder */
    memcpy(a->tasks + g[i].from, mine + at, g[i].n * sizeof *mine);
    for (uint32_t k = 0; k < g[i].n && a->here; k++) a->here[g[i].from + k] = true;
    give_back(s, g[i].name);
    at += g[i].n;
    g[i].answered = true;
  }
  return true;
}

uint32_t tg_spool_run(tg_spool *s, const tg_spool_share *a) {
  uint32_t groups = 0, left = 0, others = 0;
  group *g = tg_new(s->env, group, a->n + 1);
  for (uint32_t i = 0; i < a->n; i += g[groups++].n) {
    g[groups] = (group){.from = i, .n = a->n - i < a->together ? a->n - i : a->together};
    for (uint32_t k = 0; k < g[groups].n; k++) g[groups].name = tg_mix(g[groups].name, a->name[i + k]);
  }
  for (;;) {
    left = 0;
    for (uint32_t i = 0; i < groups; i++) {
      if (g[i].answered) continue;
      g[i].answered = read_answers(s, g[i].name, a->tasks + g[i].from, g[i].n);
      if (g[i].answered) others += g[i].n;
      left += !g[i].answered;
    }
    if (!left || a->stop(a->user)) break;
    if (!do_some(s, a, g, groups)) poll(NULL, 0, LOOK);
  }
  for (uint32_t i = 0; i < groups && left; i++)
    for (uint32_t k = 0; k < g[i].n && !g[i].answered; k++) {
      tg_task *t = &a->tasks[g[i].from + k];
      t->outcome = TG_TRIAL_SKIPPED, t->message = NULL;
    }
  return others;
}
