/* SPDX-License-Identifier: MIT
 * Programs for threads under the interpreter: barriers that are missing are found, those that stand suffice; lanes read
 * each other's registers as they were before the statement; in linear form every thread has values of its own. */
#include "build.h"

static float a[64], b[64], c[64];

static bool run_text(const char *text, bool check) {
  begin();
  j->name = NULL;
  parse_of x = {j, text};
  if (!tg_protect(&j->env, parse_it, &x)) return false;
  tg_interp_buffer buffers[] = {{a, sizeof a}, {b, sizeof b}, {c, sizeof c}};
  for (int i = 0; i < 64; i++) a[i] = (float)(i * i % 29), b[i] = c[i] = -1;
  return interpret(j->sink, (tg_interp){.buffers = buffers, .check_uninitialised = true, .check_races = true, .check_barriers = check});
}

#define HEAD "kernel k() { stage reduce; in(A, f32, [64]); out(B, f32, [64], partial); out(C, f32, [64], partial);"
#define THREADS "range(w, 2, local) range(l, 32, lane) {"

static void runs(const char *text, float want(int), int line) {
  bool ok = run_text(text, true);
  int wrong = 0;
  for (int i = 0; ok && i < 64; i++) wrong += b[i] != want(i);
  CHECK(ok && !wrong, "(line %d) %s, %d wrong", line, ok ? "ran" : j->env.message, wrong);
  tg_job_drop(j);
}

static void fails(const char *text, const char *part, const char *other, int line) {
  bool ok = run_text(text, true);
  CHECK(!ok && strstr(j->env.message, part) && strstr(j->env.message, other), "(line %d) %s", line, ok ? "no error" : j->env.message);
  tg_job_drop(j);
  ok = run_text(text, false);
  CHECK(ok, "(line %d) without the check: %s", line, j->env.message);
  tg_job_drop(j);
}

#define RUNS(text, want) runs((text), (want), __LINE__)
#define FAILS(text, part, other) fails((text), (part), (other), __LINE__)

static float reversed(int i) { return a[63 - i]; }
static float same(int i) { return a[i]; }
static float swapped(int i) { return a[i ^ 1]; }
static float lane_sum(int i) {
  float s = 0;
  for (int k = 0; k < 32; k++) s += a[i / 32 * 32 + k];
  return s;
}
static float thrice(int i) { return a[i] + 3; }

static void test_barriers(void) {
  static const char write_read[] = HEAD "define_local(t, f32, [64]);" THREADS "t[w*32 + l] = A[w*32 + l]; %s B[w*32 + l] = t[63 - (w*32 + l)]; } }";
  static const char back_edge[] = HEAD "define_local(t, f32, [64]);" THREADS "define_reg(x, f32, []); x = A[w*32 + l];"
                                       "range(k, 3) { t[w*32 + l] = x; barrier(); x = t[63 - (w*32 + l)] + 1.0f; %s } B[63 - (w*32 + l)] = x; } }";
  static const char workgroups[] = HEAD "range(g, 2, global) { define_local(t, f32, [32]); range(l, 32, lane) { t[l] = A[g*32 + l]; barrier(); B[g*32 + l] = t[31 - l]; } } }";
  static const char through_global[] = HEAD THREADS "C[w*32 + l] = A[w*32 + l]; %s B[w*32 + l] = C[63 - (w*32 + l)]; } }";
  char text[1024];
  for (int with = 0; with < 2; with++) {
    const char *word = with ? "barrier();" : "";
    snprintf(text, sizeof text, write_read, word);
    if (with) RUNS(text, reversed);
    else FAILS(text, "no barrier between 't[w * 32 + l] = A[w * 32 + l]'", "and 'B[");
    snprintf(text, sizeof text, back_edge, word);
    if (with) RUNS(text, thrice);
    else FAILS(text, "no barrier between 'x = t[", "and 't[w * 32 + l] = x'");
    snprintf(text, sizeof text, through_global, word);
    if (with) RUNS(text, reversed);
    else FAILS(text, "no barrier between 'C[", "and 'B[");
  }
  bool ok = run_text(workgroups, true);
  CHECK(ok && b[0] == a[31] && b[63] == a[32], "workgroups share nothing: %s", j->env.message);
  tg_job_drop(j);
  RUNS(HEAD "define_local(t, f32, [64]);" THREADS "t[w*32 + l] = A[w*32 + l]; B[w*32 + l] = t[w*32 + l]; } }", same);
}

/* A copy is in memory from its wait on: before, its element is not to be touched; behind, only by the thread that copied until there is a barrier. */
static void test_copies(void) {
  static const char ring[] = HEAD "define_local(t, f32, [3, 32]);" "range(l, 32, lane) {"
                             "range(f, 2) { %s async t[f, l] = A[f*32 + l]; }"
                             "range(k, 2) { wait(%d); %s B[k*32 + l] = t[k, %s]; } } }";
  static const struct { const char *commit, *barrier, *at, *part; int flying; } cases[] = {
    {"commit();", "barrier();", "l ^ 1", NULL, 1}, {"commit();", "barrier();", "l ^ 1", NULL, 0}, {"commit();", "", "l", NULL, 1}, {"", "barrier();", "l ^ 1", NULL, 0},
    {"commit();", "", "l ^ 1", "no barrier between 'async t[f, l] = A", 1},
    {"commit();", "barrier();", "l ^ 1", "element 1 of t is read while a copy to it is on its way", 2},
    {"", "barrier();", "l ^ 1", "is read while a copy to it is on its way", 1},
  };
  char text[1024];
  for (size_t i = 0; i < TG_COUNT(cases); i++) {
    snprintf(text, sizeof text, ring, cases[i].commit, cases[i].flying, cases[i].barrier, cases[i].at);
    bool ok = run_text(text, true);
    const char *part = cases[i].part;
    int other = !strcmp(cases[i].at, "l") ? 0 : 1, wrong = 0;
    for (int k = 0; ok && k < 64; k++) wrong += b[k] != a[k ^ other];
    CHECK(part ? !ok && strstr(j->env.message, part) : ok && !wrong, "(case %zu) %s, %d wrong", i, ok ? "ran" : j->env.message, wrong);
    tg_job_drop(j);
  }
  static const char *const bad[][2] = {
    {"async t[l] = A[l]; t[l] = A[l + 1]; wait(0);", "element 0 of t is written while a copy to it is on its way"},
    {"async t[l] = A[l]; async t[l] = A[l]; wait(0);", "element 0 of t is written while a copy to it is on its way"},
    {"async t[l] = A[l];", "a copy to t is never waited for"},
    {"async t[l] = A[l]; commit();", "a copy to t is never waited for"},
    {"B[l] = t[l ^ 1]; async t[l] = A[l]; wait(0);", "no barrier between 'B[l] = t[l ^ 1]'"},
  };
  for (size_t i = 0; i < TG_COUNT(bad); i++) {
    snprintf(text, sizeof text, HEAD "define_local(t, f32, [32]); range(l, 32, lane) { t[l] = A[l]; barrier(); %s } }", bad[i][0]);
    bool ok = run_text(text, true);
    CHECK(!ok && strstr(j->env.message, bad[i][1]), "%s: %s", bad[i][0], ok ? "no error" : j->env.message);
    tg_job_drop(j);
  }
}

static void test_shuffles(void) {
  RUNS(HEAD THREADS "define_reg(x, f32, []); x = A[w*32 + l]; x = shuffle(x, l, l ^ 1); B[w*32 + l] = x; } }", swapped);
  RUNS(HEAD THREADS "define_reg(x, f32, []); x = A[w*32 + l]; x = x + shuffle(x, l, l ^ 16); x = x + shuffle(x, l, l ^ 8); x = x + shuffle(x, l, l ^ 4);"
            "x = x + shuffle(x, l, l ^ 2); x = x + shuffle(x, l, l ^ 1); B[w*32 + l] = x; } }", lane_sum);
  /* a thread whose own element nothing has written gives one that shows where it is asked for */
  RUNS(HEAD THREADS "define_reg(x, f32, []); x = A[w*32 + l] if l != 5; B[w*32 + l] = where((l ^ 1) != 5, shuffle(x, l, l ^ 1), A[w*32 + 5]); } }", swapped);
  bool ok = run_text(HEAD THREADS "define_reg(x, f32, []); x = A[w*32 + l] if l != 5; B[w*32 + l] = shuffle(x, l, l ^ 1); } }", true);
  CHECK(ok && b[4] != b[4] && b[5] == a[4] && b[7] == a[6], "%s", j->env.message);
  tg_job_drop(j);
  RUNS(HEAD THREADS "define_reg(x, f32, []); x = A[w*32 + l]; B[w*32 + l] = shuffle(shuffle(x, l, l + 31), l, (l ^ 1) + 1); } }", swapped);
}

/* Values that are statements: each thread's own, also where a shuffle reads another's. */
static void test_linear(void) {
  RUNS("kernel k() { stage linear; in(A, f32, [i64(64)]); out(B, f32, [i64(64)], partial); out(C, f32, [i64(64)], partial);"
       "range(w, i64(2), local) { range(l, i64(32), lane) { do %0 = w * 32; do %1 = %0 + l; do %2 = A[%1]; do %3 = l ^ 1; do %4 = shuffle(%2, l, %3); B[%1] = %4; } } }", swapped);
}

int main(void) {
  test_barriers();
  test_copies();
  test_shuffles();
  test_linear();
  return TEST_END();
}
