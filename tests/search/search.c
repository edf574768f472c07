/* SPDX-License-Identifier: MIT
 * The search over a fake bench, in process and with workers that crash, hang, end and lie for real: it finds the best, keeps to its budget,
 * keeps nothing that misbehaved, resumes where it stopped, and does not call equals different. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>
#include "../folder.h"
#include "../test.h"
#include "fake.h"

static char self[4096], journal[TEST_PATH] = "tg-journal-XXXXXX";
static const double quiet = 0.002;

typedef struct { tg_search_options o; tg_search_result r; tg_env env; bool ok; } attempt;
static tg_sketch_source all_of_it;

static void run(void *arg) {
  attempt *a = arg;
  tg_search_run(&a->env, &a->o, &a->r);
}

static const char *const *worker_of(const char *noise) {
  static const char *argv[4];
  argv[0] = self, argv[1] = "worker", argv[2] = noise, argv[3] = NULL;
  return argv;
}

static attempt *search(tg_search_options o, const char *text) {
  static attempt a;
  static tg_sketch_source s;
  s = (tg_sketch_source){.file = "fake.tg", .text = text};
  a = (attempt){.o = o};
  a.o.sketch = &s;
  a.o.sketches = 1;
  a.o.shared = -1;
  a.o.patience = 0.4;
  tg_env_init(&a.env, NULL);
  a.ok = tg_protect(&a.env, run, &a);
  return &a;
}

static long best(const attempt *a, const char *name) {
  for (uint32_t i = 0; i < a->r.knobs; i++)
    if (!strcmp(a->r.knob[i].name, name)) return (long)a->r.knob[i].lo;
  return -1;
}

static void test_finds(void) {
  const tg_binding good = {"P", 0, 0, 1};
  for (uint64_t seed = 0; seed < 5; seed++) {
    attempt *a = search((tg_search_options){.local = fake_bench(quiet), .bindings = &good, .bindings_n = 1, .seconds = 20, .seed = seed}, fake_text);
    CHECK(a->ok && a->r.tuned && best(a, "S") == 5 && best(a, "T") == 3, "seed %d: %s S=%ld T=%ld", (int)seed, a->env.message, best(a, "S"), best(a, "T"));
    CHECK(a->r.in_process && a->r.outcome[TG_TRIAL_ILLEGAL] == 0 + (a->r.points > 30), "%u illegal of %u", a->r.outcome[TG_TRIAL_ILLEGAL], a->r.points);
    CHECK(fabs(a->r.gain - log(1.54)) < 0.05, "gain %.3f", a->r.gain);
    tg_env_drop(&a->env);
  }
}

/* On a device a candidate that was built is timed before another is built: one worker has the device, and a search that is short has its times. */
typedef struct { uint32_t built, most, timed; } turns;

static void follow(void *user, const tg_search_event *e) {
  turns *t = user;
  if (e->what == TG_EVENT_BUILT && e->point->built && ++t->built > t->most) t->most = t->built;
  if (e->what == TG_EVENT_TIMED) t->built = 0, t->timed++;
}

static void test_turns(void) {
  for (int device = 0; device < 2; device++) {
    turns t = {0};
    attempt *a = search((tg_search_options){.local = fake_bench(quiet), .bindings = (tg_binding[]){{"P", 0, 0, 1}}, .bindings_n = 1, .candidates = 12, .seed = 1, .device = device ? "a device" : NULL, .progress = follow, .user = &t}, fake_text);
    CHECK(a->ok && t.timed >= 12 && (device ? t.most == 1 : t.most > 1), "%s: %u built before one was timed; %u timed", device ? "a device" : "the CPU", t.most, t.timed);
    tg_env_drop(&a->env);
  }
}

/* Every kind of misbehaviour is among the candidates. Ones that hang are waited for, and a build with sanitizers is slow. */
#ifdef TG_SANITIZED
enum { PLANTED_SECONDS = 75, EACH_SECONDS = 30 };
#else
enum { PLANTED_SECONDS = 30, EACH_SECONDS = 10 };
#endif

static void test_planted(void) {
  double start = tg_now();
  attempt *a = search((tg_search_options){.worker = worker_of("0.002"), .workers = 2, .seconds = PLANTED_SECONDS, .seed = 1}, fake_text);
  CHECK(a->ok && a->r.tuned, "%s", a->env.message);
  double load = 0, spent = tg_now() - start;
  if (spent >= PLANTED_SECONDS + 3 && getloadavg(&load, 1) == 1 && load > (double)sysconf(_SC_NPROCESSORS_ONLN))
    printf("whether the budget of a search is kept is not judged: the machine is busy (%.1f s; load %.1f)\n", spent, load);
  else CHECK(spent < PLANTED_SECONDS + 3, "the budget is kept: %.1f s", spent);
  long p = best(a, "P");
  CHECK(p == GOOD || p == SCRIBBLES, "P=%ld is kept", p);
  CHECK(best(a, "S") == 5 && best(a, "T") == 3, "S=%ld T=%ld", best(a, "S"), best(a, "T"));
  CHECK(a->r.outcome[TG_TRIAL_CRASHED] >= 3 && a->r.outcome[TG_TRIAL_HUNG] >= 1 && a->r.outcome[TG_TRIAL_WRONG] >= 1 && a->r.outcome[TG_TRIAL_LIMIT] >= 1 && a->r.outcome[TG_TRIAL_UNBELIEVABLE] >= 1,
        "crashed %u hung %u wrong %u limit %u unbelievable %u", a->r.outcome[TG_TRIAL_CRASHED], a->r.outcome[TG_TRIAL_HUNG], a->r.outcome[TG_TRIAL_WRONG], a->r.outcome[TG_TRIAL_LIMIT],
        a->r.outcome[TG_TRIAL_UNBELIEVABLE]);
  tg_env_drop(&a->env);
}

/* Each alone: what it costs, and that it is never the answer. */
static void test_each(void) {
  static const tg_outcome want[BEHAVIOURS] = {[CRASH_LOWER] = TG_TRIAL_CRASHED, [CRASH_BUILD] = TG_TRIAL_CRASHED, [CRASH_TIME] = TG_TRIAL_CRASHED, [HANG_LOWER] = TG_TRIAL_HUNG, [HANG_BUILD] = TG_TRIAL_HUNG, [HANG_TIME] = TG_TRIAL_HUNG,
                                              [ENDS] = TG_TRIAL_CRASHED, [WRITES_WILDLY] = TG_TRIAL_CRASHED, [WRONG] = TG_TRIAL_WRONG, [LIES] = TG_TRIAL_UNBELIEVABLE, [EATS_MEMORY] = TG_TRIAL_LIMIT, [FAILS] = TG_TRIAL_LIMIT};
#ifdef TG_SANITIZED
  enum { NO_MEMORY = TG_TRIAL_CRASHED };   /* that allocator ends the program */
#else
  enum { NO_MEMORY = TG_TRIAL_LIMIT };
#endif
  for (int p = 1; p < BEHAVIOURS; p++) {
    tg_outcome wanted = p == EATS_MEMORY ? (tg_outcome)NO_MEMORY : want[p];
    if (!want[p]) continue;
    char text[512];
    snprintf(text, sizeof text, "kernel fake() { knob(P, 0, %d); knob(S, 5); knob(T, 3); in(x, f32, [8]); out(y, f32, [8]); range(i, 8) y[i] = x[i]; }", p);
    attempt *a = search((tg_search_options){.worker = worker_of("0"), .workers = 2, .seconds = EACH_SECONDS}, text);
    CHECK(a->ok && !a->r.tuned && best(a, "P") == 0, "P=%d: %s", p, a->env.message);
    CHECK(a->r.outcome[wanted] == 1, "P=%d: %u %s", p, a->r.outcome[wanted], tg_outcome_name(wanted));
    tg_env_drop(&a->env);
  }
}

/* The fastest, which the checks of its kind do not let pass: it wins only where nobody asks them. */
static void test_checks(void) {
  for (int p = CRASH_CHECKS; p <= WRONG_CHECKS; p++)
    for (int asked = 0; asked < 2; asked++) {
      tg_outcome wanted = p == CRASH_CHECKS ? TG_TRIAL_CRASHED : TG_TRIAL_WRONG;
      char text[512];
      snprintf(text, sizeof text, "kernel fake() { knob(P, 0, %d); knob(S, 1, 5); knob(T, 3); in(x, f32, [8]); out(y, f32, [8]); range(i, 8) y[i] = x[i]; }", p);
      attempt *a = search((tg_search_options){.worker = worker_of("0"), .workers = 2, .seconds = 10, .checks = asked ? "a fake" : NULL}, text);
      CHECK(a->ok && a->r.tuned && best(a, "S") == 5 && best(a, "P") == (asked ? 0 : p), "P=%ld S=%ld: %s", best(a, "P"), best(a, "S"), a->env.message);
      CHECK((a->r.outcome[wanted] > 0) == asked, "P=%d: %u %s", p, a->r.outcome[wanted], tg_outcome_name(wanted));
      tg_env_drop(&a->env);
    }
}

static void test_default_wrong(void) {
  attempt *a = search((tg_search_options){.worker = worker_of("0"), .workers = 1, .seconds = 5}, "kernel fake() { knob(P, 10); in(x, f32, [8]); out(y, f32, [8]); range(i, 8) y[i] = x[i]; }");
  CHECK(!a->ok && strstr(a->env.message, "wrong"), "%s", a->env.message);
  tg_env_drop(&a->env);
  static const char *const nothing[] = {"/nowhere/tg", "worker", NULL};
  a = search((tg_search_options){.worker = nothing, .workers = 1, .seconds = 5}, fake_text);
  CHECK(!a->ok && strstr(a->env.message, "could not be started"), "%s", a->env.message);
  tg_env_drop(&a->env);
}

/* 200 times the default against itself, at three levels of noise. */
static void test_equals(void) {
  static const double levels[] = {0.002, 0.02, 0.08};
  for (size_t l = 0; l < TG_COUNT(levels); l++) {
    const tg_bench *b = fake_bench(levels[l]);
    int different = 0;
    tg_env env;
    tg_env_init(&env, NULL);
    for (uint64_t i = 0; i < 200; i++) {
      tg_task t = {.kind = TG_TASK_TIME, .trial = {fake_text, NULL, NULL}, .against = {fake_text, NULL, NULL}, .quads = TG_QUADS, .seed = i * 77};
      tg_bench_run(b, &env, &t);
      different += tg_decide(t.gain, t.n, 0.01).faster;
    }
    CHECK(different <= 2, "noise %.3f: %d of 200 called different", levels[l], different);
    tg_env_drop(&env);
  }
}

/* Of 1.03 and 0.97 the first is seen where noise allows. */
static void test_decide(void) {
  double gain[TG_QUADS];
  for (int i = 0; i < TG_QUADS; i++) gain[i] = 0.03 + 0.001 * (i % 7 - 3);
  CHECK(!tg_decide(gain, 5, 0.01).faster && tg_decide(gain, 8, 0.01).faster && tg_decide(gain, TG_QUADS, 0.01).faster, "faster");
  CHECK(tg_decide(gain, 8, 0.05).slower && !tg_decide(gain, 3, 0.05).slower, "slower");
  gain[0] = -5, gain[1] = 9;
  CHECK(tg_decide(gain, 32, 0.01).faster, "two samples spoilt");
  for (int i = 0; i < TG_QUADS; i++) gain[i] = i % 2 ? 0.1 : -0.06;
  CHECK(!tg_decide(gain, 32, 0.01).faster && !tg_decide(gain, 32, 0.01).slower, "both ways");
  const double losses[] = {-0.03, -0.05, -0.021, -0.04}, once[] = {-0.03, -0.05, -0.019, -0.04}, far[] = {-0.5, -0.41};
  CHECK(tg_hopeless(losses, 4) && !tg_hopeless(losses, 3) && !tg_hopeless(once, 4), "four losses by 2 %% end it");
  CHECK(tg_hopeless(far, 2) && !tg_hopeless(far, 1) && tg_decided(far, 2, 0.01), "two losses by far");
  CHECK(tg_behind(losses, 2, 0.01) && !tg_behind(losses, 1, 0.01) && !tg_behind(once, 2, 0.04) && tg_behind(once, 3, 0.04), "two losses by 1 %%, or three in the median");
  CHECK(tg_behind(gain, 3, 0.01) && !tg_behind(gain + 1, 3, 0.01), "two of three");
}

static size_t file_size(const char *path) {
  struct stat st;
  return stat(path, &st) ? 0 : (size_t)st.st_size;
}

static bool count_down(void *user) { return --*(int *)user < 0; }

/* An answer of each kind comes back as that kind, and as no other. */
static void test_journal(void) {
  static char path[TEST_PATH] = "tg-journal-XXXXXX";
  tg_env env;
  tg_env_init(&env, NULL);
  test_place(path);
  int fd = mkstemp(path);
  CHECK(fd >= 0, "a file");
  close(fd);
  tg_journal *j = tg_journal_open(&env, path, "k", 7, false);
  for (uint8_t k = 0; k < TG_TASK__COUNT; k++) tg_journal_put(j, &(tg_task){.kind = k, .outcome = TG_TRIAL_OK}, &(tg_point){.id = 100 + k}, 0, "k A=1");
  tg_journal_close(j);
  j = tg_journal_open(&env, path, "k", 7, true);
  for (uint8_t k = 0; k < TG_TASK__COUNT; k++)
    for (uint8_t other = 0; other < TG_TASK__COUNT; other++) {
      tg_task got = {.kind = k};
      CHECK(tg_journal_find(j, k, 100 + other, 0, &got) == (k == other), "an answer of kind %d, asked for as %d", other, k);
    }
  tg_journal_close(j);
  tg_env_drop(&env);
  unlink(path);
}

/* Stopped at any moment, and a line cut short: the rest is asked, and the answer is the same. */
static void test_resume(void) {
  const tg_binding good = {"P", 0, 0, 1};
  test_place(journal);
  int fd = mkstemp(journal);
  CHECK(fd >= 0, "a file");
  close(fd);
  tg_search_options o = {.local = fake_bench(0), .bindings = &good, .bindings_n = 1, .seconds = 20, .seed = 3, .journal = journal};
  attempt *a = search(o, fake_text);
  size_t whole = file_size(journal);
  uint32_t built = a->r.built;
  CHECK(a->ok && a->r.reused == 0 && whole > 1000, "%s", a->env.message);
  tg_env_drop(&a->env);
  for (int left = 20; left < 200; left += 30) {
    int count = left;
    tg_search_options cut = o;
    cut.stop = count_down, cut.user = &count;
    a = search(cut, fake_text);
    bool interrupted = a->r.interrupted || !a->ok;
    tg_env_drop(&a->env);
    size_t n = file_size(journal);
    if (n > 200) CHECK(!truncate(journal, (off_t)(n - 7)), "cut");
    cut = o;
    cut.resume = true;
    a = search(cut, fake_text);
    CHECK(a->ok && best(a, "S") == 5 && best(a, "T") == 3, "resumed: %s S=%ld T=%ld", a->env.message, best(a, "S"), best(a, "T"));
    CHECK(!interrupted || a->r.reused > 0 || n < 400, "nothing was used again of %zu bytes", n);
    tg_env_drop(&a->env);
  }
  o.resume = true;
  a = search(o, fake_text);
  CHECK(a->ok && a->r.finished && !a->r.built && a->r.why && strstr(a->r.why, "S=5 T=3 was chosen"), "a finished search: %s", a->r.why ? a->r.why : "goes on");
  tg_env_drop(&a->env);
  o.seconds = 21;
  a = search(o, fake_text);
  CHECK(a->ok && !a->r.finished && a->r.reused > built, "with more seconds: %u answers used again", a->r.reused);
  tg_env_drop(&a->env);
  o.seed = 4;
  a = search(o, fake_text);
  CHECK(a->ok && a->r.reused == 0, "another seed is another journal");
  tg_env_drop(&a->env);
  unlink(journal);
}

/* ---- a part of the problem ---- */

static attempt *search_part(int p, double share, double seconds) {
  static tg_binding of_part[2], of_all[2];
  of_part[0] = (tg_binding){"R", FAKE_PART, FAKE_PART, 1}, of_all[0] = (tg_binding){"R", 8 * FAKE_PART, 8 * FAKE_PART, 1};
  of_part[1] = of_all[1] = (tg_binding){"P", p, p, 1};
  all_of_it = (tg_sketch_source){.file = "fake.tg", .text = fake_part};
  return search((tg_search_options){.local = fake_bench(0), .bindings = of_part, .bindings_n = 2, .whole = &all_of_it, .whole_bindings = of_all, .whole_checks = "all of it", .checks = "a part", .share = share, .seconds = seconds}, fake_part);
}

/* What wins on a part is run on all of the problem, with the words that it has there; what is wrong or slower there does not win, nor what there is no time for. */
static void test_parts(void) {
  attempt *a = search_part(GOOD, 0.125, 20);
  CHECK(a->ok && a->r.tuned && best(a, "S") == 5 && a->r.whole_seconds > 0 && a->r.whole_default_seconds > a->r.whole_seconds && a->r.share == 0.125, "%s", a->env.message);
  CHECK(a->r.text && strstr(a->r.text, "R = 64"), "the choice is for all of the problem: %s", a->r.text);
  tg_env_drop(&a->env);
  a = search_part(WRONG_BEYOND, 0.125, 20);
  CHECK(a->ok && !a->r.tuned && a->r.why && strstr(a->r.why, "on all of the problem it is wrong") && a->r.outcome[TG_TRIAL_WRONG] == 1, "wrong beyond the part: %s", a->r.why ? a->r.why : "wins");
  tg_env_drop(&a->env);
  a = search_part(GOOD, 1e-5, 3);
  CHECK(a->ok && !a->r.tuned && a->r.why && strstr(a->r.why, "no time was left to check it on all of the problem"), "no time for all of it: %s", a->r.why ? a->r.why : "wins");
  tg_env_drop(&a->env);
  static const char slower[] = "kernel fake(R) { knob(P, 0, 18); knob(S, 5); in(x, f32, [R]); out(y, f32, [R]); range(i, R) y[i] = x[i]; }";
  tg_binding of_part = {"R", FAKE_PART, FAKE_PART, 1}, of_all = {"R", 8 * FAKE_PART, 8 * FAKE_PART, 1};
  all_of_it = (tg_sketch_source){.file = "fake.tg", .text = slower};
  a = search((tg_search_options){.local = fake_bench(0), .bindings = &of_part, .bindings_n = 1, .whole = &all_of_it, .whole_bindings = &of_all, .whole_checks = "all of it", .share = 0.125, .seconds = 20}, slower);
  CHECK(a->ok && !a->r.tuned && a->r.why && strstr(a->r.why, "all of the problem takes"), "slower beyond the part: %s", a->r.why ? a->r.why : "wins");
  tg_env_drop(&a->env);
}

/* ---- what takes long ---- */

/* A default that takes longer than the patience that candidates are met with is no hung one; what is far behind is run once. */
static void test_long(void) {
  attempt *a = search((tg_search_options){.worker = worker_of("0"), .workers = 1, .seconds = 5}, "kernel fake() { knob(P, 19); knob(S, 1, 5); in(x, f32, [8]); out(y, f32, [8]); range(i, 8) y[i] = x[i]; }");
  CHECK(a->ok && a->r.default_seconds > 0, "a default that takes long: %s", a->env.message);
  tg_env_drop(&a->env);
  a = search((tg_search_options){.local = fake_bench(0), .seconds = 5}, "kernel fake() { knob(P, 0, 12); knob(S, 1, 5); in(x, f32, [8]); out(y, f32, [8]); range(i, 8) y[i] = x[i]; }");
  CHECK(a->ok && a->r.tuned && a->r.outcome[TG_TRIAL_SLOW] == 2, "%u are slow", a->r.outcome[TG_TRIAL_SLOW]);
  tg_env_drop(&a->env);
}

/* Why nothing was chosen is said. */
static void test_why(void) {
  attempt *a = search((tg_search_options){.local = fake_bench(0), .seconds = 5}, "kernel fake() { knob(S, 5, 4, 6); knob(T, 3); in(x, f32, [8]); out(y, f32, [8]); range(i, 8) y[i] = x[i]; }");
  CHECK(a->ok && !a->r.tuned && a->r.why && strstr(a->r.why, "others is 10.0 % slower"), "%s", a->r.why ? a->r.why : "");
  tg_env_drop(&a->env);
  a = search((tg_search_options){.local = fake_bench(0), .seconds = 5}, "kernel fake() { knob(S, 5); in(x, f32, [8]); out(y, f32, [8]); range(i, 8) y[i] = x[i]; }");
  CHECK(a->ok && !a->r.tuned && a->r.why && strstr(a->r.why, "nothing else was built"), "%s", a->r.why ? a->r.why : "");
  tg_env_drop(&a->env);
  a = search((tg_search_options){.worker = worker_of("0"), .workers = 1, .seconds = 5, .checks = "a fake"}, "kernel fake() { knob(P, 0, 16); in(x, f32, [8]); out(y, f32, [8]); range(i, 8) y[i] = x[i]; }");
  CHECK(a->ok && !a->r.tuned && a->r.why && strstr(a->r.why, "wrong"), "what the checks do not let pass: %s", a->r.why ? a->r.why : "");
  tg_env_drop(&a->env);
}

static void test_budget(void) {
  const tg_binding good = {"P", 0, 0, 1};
  attempt *a = search((tg_search_options){.local = fake_bench(quiet), .bindings = &good, .bindings_n = 1, .candidates = 7}, fake_text);
  CHECK(a->ok && a->r.timed <= 7, "%u timed", a->r.timed);
  tg_env_drop(&a->env);
}

int main(int argc, char **argv) {
  if (argc > 2 && !strcmp(argv[1], "worker")) {
    int in = fcntl(0, F_DUPFD_CLOEXEC, 10), out = fcntl(1, F_DUPFD_CLOEXEC, 10);
    tg_serve(fake_bench(atof(argv[2])), in, out);
    return 0;
  }
#ifdef TG_SANITIZED
  setenv("ASAN_OPTIONS", "symbolize=0", 0);   /* a worker that is meant to crash: naming its frames takes seconds */
#endif
  ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
  self[n > 0 ? n : 0] = 0;
  test_decide();
  test_equals();
  test_turns();
  test_finds();
  test_budget();
  test_journal();
  test_resume();
  test_parts();
  test_long();
  test_why();
  test_default_wrong();
  test_each();
  test_checks();
  test_planted();
  return TEST_END();
}
