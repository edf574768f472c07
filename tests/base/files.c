/* SPDX-License-Identifier: MIT
 * What is read as one's own: files and folders of others, open to others, links, pipes; a folder that is exchanged for an open one while it is read; writes past RLIMIT_FSIZE; memory that ends between
 * opening and reading. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include "base/base.h"
#include "../folder.h"
#include "../test.h"

static char home[TEST_PATH] = "tg-files-XXXXXX", ours[TEST_PATH + 16], open_to_all[TEST_PATH + 16], link_to[TEST_PATH + 16], file[TEST_PATH + 32];

typedef struct { tg_env *env; const char *folder, *name; bool root; char *text; } reading;

static void read_it(void *user) {
  reading *r = user;
  r->text = tg_read_private(r->env, r->folder, r->name, r->root, NULL);
}

/* What stands in the file; NULL: nothing that is trusted. */
static const char *text_of(tg_env *env, const char *folder, const char *name, bool root) {
  reading r = {env, folder, name, root, NULL};
  return tg_protect(env, read_it, &r) ? r.text : NULL;
}

static bool reads(tg_env *env, const char *folder, const char *want) {
  const char *text = text_of(env, folder, "entry", false);
  return want ? text && !strcmp(text, want) : !text;
}

static int count_descriptors(void) {
  int n = 0;
  DIR *d = opendir("/proc/self/fd");
  for (struct dirent *e; d && (e = readdir(d));) n += e->d_name[0] != '.';
  if (d) closedir(d);
  return n;
}

static void test_trust(tg_env *env) {
  char other[TEST_PATH + 32];
  CHECK(!tg_write_private(ours, "entry", "ours", 4) && reads(env, ours, "ours"), "written and read");
  CHECK(!tg_write_private(ours, "entry", "again", 5) && reads(env, ours, "again"), "written over");
  CHECK(!chmod(file, 0622) && reads(env, ours, NULL) && !chmod(file, 0604) && reads(env, ours, "again"), "a file that others may write, read");
  CHECK(!chmod(ours, 0770) && reads(env, ours, NULL) && tg_write_private(ours, "entry", "x", 1) == EPERM && !chmod(ours, 0755) && reads(env, ours, "again"), "a folder that a group may write");
  CHECK(!symlink(ours, link_to) && reads(env, link_to, NULL) && tg_write_private(link_to, "entry", "x", 1) != 0, "a link to a folder");
  snprintf(other, sizeof other, "%s/other", ours);
  CHECK(!rename(file, other) && !symlink(other, file) && reads(env, ours, NULL), "a link to a file");
  CHECK(!unlink(file) && !mkfifo(file, 0600) && reads(env, ours, NULL), "a pipe");
  CHECK(!unlink(file) && !mkdir(file, 0700) && reads(env, ours, NULL), "a folder");
  CHECK(!rmdir(file) && reads(env, ours, NULL) && !rename(other, file) && reads(env, ours, "again"), "nothing; the file again");
  if (geteuid()) {
    puts("not root: files of other users are not tried");
    return;
  }
  CHECK(!chown(file, 65534, 65534) && reads(env, ours, NULL) && !text_of(env, ours, "entry", true), "a file of another user's");
  CHECK(!chown(file, 0, 0) && !chown(ours, 65534, 65534) && reads(env, ours, NULL) && tg_write_private(ours, "entry", "x", 1) == EPERM, "a folder of another user's");
  CHECK(!chown(ours, 0, 0), "ours again");
  pid_t child = fork();
  if (!child) {
    if (setgid(65534) || setuid(65534)) _exit(2);
    _exit(text_of(env, ours, "entry", true) && !text_of(env, ours, "entry", false) ? 0 : 1);   /* the system's, for those who trust it */
  }
  int status = 0;
  waitpid(child, &status, 0);
  CHECK(WIFEXITED(status) && !WEXITSTATUS(status), "root's folder, read by another: %d", WEXITSTATUS(status));
}

/* ---- a folder that is exchanged ---- */

static atomic_bool done;

static void *exchange(void *user) {
  char aside[TEST_PATH + 16];
  (void)user;
  snprintf(aside, sizeof aside, "%s/aside", home);
  while (!atomic_load(&done)) {
    rename(ours, aside), rename(open_to_all, ours), rename(ours, open_to_all), rename(aside, ours);
  }
  return NULL;
}

static void test_exchange(tg_env *env) {
  pthread_t t;
  int seen = 0, foreign = 0;
  CHECK(!mkdir(open_to_all, 0700) && !tg_write_private(open_to_all, "entry", "theirs", 6) && !chmod(open_to_all, 0777), "another folder");
  CHECK(!pthread_create(&t, NULL, exchange, NULL), "a thread");
  for (double end = tg_now() + 1; tg_now() < end;) {
    tg_mark m = tg_mark_get(env);
    const char *text = text_of(env, ours, "entry", false);
    seen += text && !strcmp(text, "again"), foreign += text && !strcmp(text, "theirs");
    tg_mark_release(env, m);
  }
  atomic_store(&done, true);
  pthread_join(t, NULL);
  CHECK(!foreign && seen, "%d times ours, %d times what others may write", seen, foreign);
}

/* ---- limits ---- */

static void test_size(tg_env *env) {
  pid_t child = fork();
  if (!child) {
    sigset_t pending;
    signal(SIGXFSZ, SIG_DFL);
    setrlimit(RLIMIT_FSIZE, &(struct rlimit){2, 2});
    int err = tg_write_private(ours, "entry", "longer than that", 16);
    _exit(err != EFBIG ? 1 : sigpending(&pending) || sigismember(&pending, SIGXFSZ) ? 2 : 0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  CHECK(WIFEXITED(status) && !WEXITSTATUS(status), "signal %d, status %d", WIFSIGNALED(status) ? WTERMSIG(status) : 0, WEXITSTATUS(status));
  CHECK(reads(env, ours, "again"), "what stood there stands");
}

/* The program's own SIGXFSZ, that waits while it is blocked, is not ours to take. */
static void test_others_signal(void) {
  pid_t child = fork();
  if (!child) {
    sigset_t set, pending;
    sigemptyset(&set), sigaddset(&set, SIGXFSZ);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    raise(SIGXFSZ);
    setrlimit(RLIMIT_FSIZE, &(struct rlimit){2, 2});
    int err = tg_write_private(ours, "entry", "longer than that", 16);
    _exit(err == EFBIG && !sigpending(&pending) && sigismember(&pending, SIGXFSZ) ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  CHECK(WIFEXITED(status) && !WEXITSTATUS(status), "status %d", WEXITSTATUS(status));
}

static bool fails;
static void *give(void *user, size_t n) { return (void)user, fails && n > 100000 ? NULL : malloc(n); }
static void take(void *user, void *p, size_t n) { (void)user, (void)n, free(p); }

static void test_memory(void) {
  static char large[1 << 20];
  tg_env env;
  tg_env_init(&env, &(tg_allocator){give, take, NULL});
  CHECK(!tg_write_private(ours, "large", large, sizeof large), "written");
  int before = count_descriptors();
  fails = true;
  CHECK(!text_of(&env, ours, "large", false) && env.status == TG_ENOMEM, "no memory");
  CHECK(count_descriptors() == before, "%d descriptors are left open", count_descriptors() - before);
  fails = false;
  tg_env_drop(&env);
}

int main(void) {
  tg_env env;
  char command[TEST_PATH + 16];
  tg_env_init(&env, NULL);
  CHECK(test_folder(home) != NULL && !chmod(home, 0755), "a folder");
  snprintf(ours, sizeof ours, "%s/ours", home), snprintf(open_to_all, sizeof open_to_all, "%s/theirs", home);
  snprintf(link_to, sizeof link_to, "%s/link", home), snprintf(file, sizeof file, "%s/entry", ours);
  test_trust(&env);
  test_exchange(&env);
  test_size(&env);
  test_others_signal();
  test_memory();
  tg_env_drop(&env);
  snprintf(command, sizeof command, "rm -r %s", home);
  CHECK(!system(command), "%s", command);
  return TEST_END();
}
