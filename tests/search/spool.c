/* SPDX-License-Identifier: MIT
 * Searches that share a spool, over the bench that runs nothing: processes together come to what one alone comes to;
 * each task is done once, but for what a process had in hand that was killed; one that comes late does nothing again;
 * damaged answers are done again; what a spool cannot have is refused. */
#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include "../folder.h"
#include "../test.h"
#include "fake.h"
#include "search/spool.h"

static char folder[TEST_PATH] = "tg-spool-XXXXXX";
static int journal = -1;   /* what was done, a line for each task but lowering */

/* ---- a bench that says what it does, and takes some time for it ---- */

static const tg_bench *real;

static void say(const tg_task *t, const char *what) {
  char line[128];
  uint64_t a = tg_hash(t->trial.text, strlen(t->trial.text), 0),
           b = t->against.text ? tg_hash(t->against.text, strlen(t->against.text), 0) : 0;
  int n = snprintf(line, sizeof line, "%s %016llx %016llx %u\n", what, (unsigned long long)a, (unsigned long long)b,
                   t->quads);
  if (write(journal, line, (size_t)n) != n) abort();
  usleep(3000);
}

static void open_said(void *self, tg_env *env, tg_task *t) {
  (void)self;
  real->open(real->self, env, t);
}
static void lower_said(void *self, tg_env *env, tg_task *t) {
  (void)self;
  real->lower(real->self, env, t);
}
static void build_said(void *self, tg_env *env, tg_task *t) {
  (void)self;
  say(t, "build");
  real->build(real->self, env, t);
}
static void time_said(void *self, tg_env *env, tg_task *t) {
  (void)self;
  say(t, "time");
  real->time(real->self, env, t);
}
static void checks_said(void *self, tg_env *env, tg_task *t) {
  (void)self;
  say(t, "checks");
  real->checks(real->self, env, t);
}

/* ---- a search, in a process of its own ---- */

/* seconds, within which any process gets a turn; the test waits for as long when one is killed */
enum { LEASE = 8 };
static const tg_binding good = {"P", 0, 0, 1};
static const tg_sketch_source sketch = {.file = "fake.tg", .text = fake_text};

typedef struct { tg_env env; const char *spool, *journal; double seconds; uint64_t seed; tg_search_result r; } search;

static void run(void *arg) {
  search *x = arg;
  static const tg_bench b = {NULL, open_said, lower_said, build_said, time_said, checks_said};
  tg_search_options o = {.sketch = &sketch, .sketches = 1, .bindings = &good, .bindings_n = 1, .local = &b,
                         .candidates = 24, .seed = x->seed, .seconds = x->seconds, .spool = x->spool,
                         .spool_about = "a test", .journal = x->journal, .lease = LEASE, .checks = "checks"};
  real = fake_bench(0);
  tg_search_run(&x->env, &o, &x->r);
}

static long long knob(const tg_search_result *r, const char *name) {
  for (uint32_t i = 0; i < r->knobs; i++)
    if (!strcmp(r->knob[i].name, name)) return (long long)r->knob[i].lo;
  return -1;
}

/* Writes the winner to `out`. */
static pid_t start(const char *spool, int log, int out) {
  pid_t child = fork();
  if (child) return child;
  search x = {.spool = spool, .seed = 7};
  char line[160] = "failed";
  journal = log;
  tg_env_init(&x.env, NULL);
  if (tg_protect(&x.env, run, &x))
    snprintf(line, sizeof line, "S=%lld T=%lld tuned %d, %u built, %u timed, gain %.6g", knob(&x.r, "S"),
             knob(&x.r, "T"), x.r.tuned, x.r.built, x.r.timed, x.r.gain);
  else snprintf(line, sizeof line, "failed: %.120s", x.env.message);
  size_t n = sizeof line;
  if (write(out, line, n) != (ssize_t)n) abort();
  tg_env_drop(&x.env);
  _exit(0);
}

enum { LINE = 160 };

static int open_log(const char *name) {
  char path[TEST_PATH + 64];
  snprintf(path, sizeof path, "%s/%s", folder, name);
  return open(path, O_RDWR | O_CREAT | O_APPEND, 0600);
}

static char *lines_of(int log) {
  struct stat st;
  CHECK(!fstat(log, &st), "a log");
  char *text = calloc(1, (size_t)st.st_size + 1);
  CHECK(pread(log, text, (size_t)st.st_size, 0) == st.st_size, "read");
  return text;
}

static int count_lines(const char *text) {
  int n = 0;
  for (; *text; text++) n += *text == '\n';
  return n;
}

/* Lines that stand there before. */
static int repeated(const char *text) {
  int n = 0;
  for (const char *a = text, *end; (end = strchr(a, '\n')); a = end + 1)
    for (const char *b = text; b < a; b = strchr(b, '\n') + 1)
      if (!strncmp(a, b, (size_t)(end - a) + 1)) {
        n++;
        break;
      }
  return n;
}

/* n searches together; kills the first when `kill_at` tasks have been done. Winners of the others are written to won. */
static void together(const char *spool, int log, int n, int kill_at, char won[][LINE]) {
  pid_t child[8];
  int out[8][2], status;
  for (int i = 0; i < n; i++) {
    CHECK(!pipe2(out[i], O_CLOEXEC), "a pipe");
    child[i] = start(spool, log, out[i][1]);
    close(out[i][1]);
  }
  for (int tries = 0; kill_at && tries < 20000; tries++) {
    char *text = lines_of(log);
    int done = count_lines(text);
    free(text);
    if (done >= kill_at) break;
    usleep(500);
  }
  if (kill_at) kill(child[0], SIGKILL);
  for (int i = 0; i < n; i++) {
    memset(won[i], 0, LINE);
    ssize_t got = read(out[i][0], won[i], LINE);
    CHECK(got == LINE || (!i && kill_at), "%d: no winner", i);
    close(out[i][0]);
    waitpid(child[i], &status, 0);
  }
}

static void test_together(void) {
  char alone[1][LINE], many[3][LINE], late[1][LINE], spool[2][TEST_PATH + 64];
  for (int i = 0; i < 2; i++) snprintf(spool[i], sizeof spool[i], "%s/spool%d", folder, i);
  int log = open_log("alone");
  together(spool[0], log, 1, 0, alone);
  CHECK(strstr(alone[0], "S=5 T=3 tuned 1") != NULL, "%s", alone[0]);
  char *text = lines_of(log);
  int tasks = count_lines(text);
  CHECK(!repeated(text) && tasks > 30, "alone: %d tasks, %d repeated", tasks, repeated(text));
  free(text), close(log);

  log = open_log("many");
  together(spool[1], log, 3, tasks / 3, many);
  text = lines_of(log);
  CHECK(!strcmp(many[1], alone[0]) && !strcmp(many[2], alone[0]), "%s / %s / %s", alone[0], many[1], many[2]);
  CHECK(count_lines(text) - repeated(text) == tasks && repeated(text) <= 1, "%d tasks, %d repeated, alone %d",
        count_lines(text), repeated(text), tasks);
  free(text);
  together(spool[1], log, 1, 0, late);
  text = lines_of(log);
  CHECK(!strcmp(late[0], alone[0]) && count_lines(text) - repeated(text) == tasks && repeated(text) <= 1, "late: %s",
        late[0]);
  free(text), close(log);
}

/* Each answer is cut, or its bytes are changed, and one that comes then comes to the same. */
static void test_damages(void) {
  char spool[TEST_PATH + 64], part[TEST_PATH + 400], file[TEST_PATH + 800], won[1][LINE], again[1][LINE];
  snprintf(spool, sizeof spool, "%s/spool0", folder);
  int log = open_log("damaged"), changed = 0;
  together(spool, log, 1, 0, won);
  DIR *d = opendir(spool);
  for (struct dirent *e; d && (e = readdir(d));)
    if (e->d_name[0] != '.') snprintf(part, sizeof part, "%s/%.250s", spool, e->d_name);
  closedir(d);
  d = opendir(part);
  for (struct dirent *e; d && (e = readdir(d));) {
    struct stat st;
    snprintf(file, sizeof file, "%s/%.250s", part, e->d_name);
    if (!strstr(e->d_name, ".answer") || stat(file, &st)) continue;
    int fd = open(file, O_WRONLY);
    if (changed % 3 == 0) CHECK(!ftruncate(fd, st.st_size / 2), "cut");
    if (changed % 3 == 1) CHECK(pwrite(fd, "!", 1, st.st_size / 2) == 1, "changed");
    if (changed % 3 == 2) CHECK(pwrite(fd, "more", 4, st.st_size) == 4, "longer");
    close(fd), changed++;
  }
  closedir(d);
  CHECK(changed > 10, "%d answers", changed);
  together(spool, log, 1, 0, again);
  CHECK(!strcmp(won[0], again[0]), "%s / %s", won[0], again[0]);
  close(log);
}

static void refused(search x, const char *why) {
  tg_env_init(&x.env, NULL);
  bool ok = tg_protect(&x.env, run, &x);
  CHECK(!ok && strstr(x.env.message, why), "%s: %s", why, ok ? "taken" : x.env.message);
  tg_env_drop(&x.env);
}

static void test_refusals(void) {
  char spool[TEST_PATH + 64], file[TEST_PATH + 64], journal_file[TEST_PATH + 64];
  snprintf(spool, sizeof spool, "%s/refused", folder);
  snprintf(file, sizeof file, "%s/file", folder), snprintf(journal_file, sizeof journal_file, "%s/journal", folder);
  close(open(file, O_WRONLY | O_CREAT, 0600));
  journal = open_log("refused");
  refused((search){.spool = spool, .seconds = 5}, "not by seconds");
  refused((search){.spool = spool, .journal = journal_file}, "not both");
  refused((search){.spool = file}, "cannot be used");
  close(journal);
}

static int drop(const char *path, const struct stat *st, int type, struct FTW *at) {
  (void)st, (void)type, (void)at;
  return remove(path);
}

int main(void) {
  CHECK(test_folder(folder), "a folder");
  signal(SIGPIPE, SIG_IGN);
  test_together();
  test_damages();
  test_refusals();
  nftw(folder, drop, 8, FTW_DEPTH | FTW_PHYS);
  return TEST_END();
}
