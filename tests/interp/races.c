/* SPDX-License-Identifier: MIT
 * Tasks in a shuffled order under the interpreter: two that touch one element are named, with both statements; what phases, private memory and
 * lockstep order is not. And the operations that were run, as they are counted. */
#include "build.h"

static int32_t a[64], b[64], c[64];

static bool run_ordered(const char *text, bool check, uint64_t order) {
  begin();
  j->name = NULL;
  parse_of x = {j, text};
  if (!tg_protect(&j->env, parse_it, &x)) return false;
  tg_interp_buffer buffers[] = {{a, sizeof a}, {b, sizeof b}, {c, sizeof c}};
  for (int i = 0; i < 64; i++) a[i] = i * i % 29, b[i] = c[i] = -1;
  return interpret(j->sink, (tg_interp){.buffers = buffers, .check_races = check, .check_merges = true, .order = order});
}

static void runs(const char *text, int line) {
  for (uint64_t order = 0; order < 8; order++) {
    bool ok = run_ordered(text, true, order);
    CHECK(ok, "(line %d) %s", line, j->env.message);
    tg_job_drop(j);
  }
}

/* In every order; part: what the message says whatever the order is. */
static void fails(const char *text, const char *part, const char *other, int line) {
  for (uint64_t order = 0; order < 8; order++) {
    bool ok = run_ordered(text, true, order);
    CHECK(!ok && strstr(j->env.message, "race: ") && strstr(j->env.message, part) && strstr(j->env.message, other), "(line %d) %s", line, ok ? "no error" : j->env.message);
    tg_job_drop(j);
  }
  bool ok = run_ordered(text, false, 0);
  CHECK(ok, "(line %d) without the check: %s", line, j->env.message);
  tg_job_drop(j);
}

#define HEAD "kernel k() { stage reduce; inout(A, i32, [8, 8]); inout(B, i32, [64], partial); inout(C, i32, [64], partial); "
#define RUNS(text) runs(HEAD text "}", __LINE__)
#define FAILS(text, part, other) fails(HEAD text "}", (part), (other), __LINE__)

static void test_tasks(void) {
  FAILS("range(j, 7, thread) range(i, 7) A[i+1, j+1] = A[i, j] + 1;", "nothing orders the iterations of j", "and ");
  FAILS("range(i, 7, global) range(j, 8) A[i, j] = A[i+1, j];", "is ", "'A[i, j] = A[i + 1, j]'");
  FAILS("range(i, 8, thread) B[i / 2] = 1;", "written by 'B[i / 2] = i32(1)' (line 1) at i = ", " and written by 'B[i / 2] = i32(1)' (line 1) at i = ");
  FAILS("range(i, 8, thread) { B[i] = 1; C[i] = B[7 - i]; }", "'B[i] = i32(1)'", "'C[i] = B[7 - i]'");
  FAILS("range(i, 2, thread) range(j, 2, thread) range(k, 2, global) range(l, 2, global) range(m, 2, thread) B[i*8 + j*4 + k*2 + l] = 1;", "nothing orders the iterations of m", "l = ");
  FAILS("range(i, 2, thread) range(j, 2, thread) range(k, 2, global) range(l, 2, global) B[j*4 + k*2 + l] = 1;", "nothing orders the iterations of i", "i = 0");
  FAILS("range(n, 3) range(i, 4, thread) { B[0] = i32(i) if n == 2; }", "B[0]", "n = 2");
  RUNS("range(i, 8, thread) range(j, 8) A[i, j] = A[i, 7 - j] + 1;");
  RUNS("range(n, 3) { range(i, 8, thread) B[i] = 1; range(i, 8, thread) C[i] = B[7 - i]; }");
  RUNS("range(i, 8, thread) B[i] = 1; range(i, 8) B[i / 2] = 2; range(i, 8, global) C[i] = B[i / 2];");
}

/* Whichever comes first; what comes between must not hide the two. */
static void test_hidden(void) {
  FAILS("range(i, 2, thread) { C[i] = B[0] if i == 0; B[0] = 1 if i == 1; }", "B[0] is ", "nothing orders the iterations of i");
  FAILS("range(i, 3, thread) { C[i] = B[0]; range(l, 4, lane) C[16 + i*4 + l] = B[0]; range(l, 4, lane) C[32 + i*4 + l] = B[0]; B[0] = 1 if i == 1; }", "B[0] is ", "'B[0] = i32(1)");
  FAILS("range(i, 3, thread) { range(k, 2, thread) C[2*i + k] = B[0]; B[0] = 1 if i == 1; }", "nothing orders the iterations of i", "'B[0] = i32(1)");
  FAILS("range(i, 3, thread) { B[0] = 1 if i == 1; range(k, 4) C[4*i + k] = B[0]; }", "nothing orders the iterations of i", "at i = 1");
}

static void test_private(void) {
  RUNS("range(i, 8, thread) { define_reg(x, i32, [2]); x[0] = i32(i); x[1] = x[0]; B[i] = x[1]; }");
  RUNS("range(i, 8, thread) { define_local(x, i32, [8]); range(l, 8, local) x[l] = i32(l); range(l, 8, local) C[8*i + l] = x[7 - l]; }");
  RUNS("define_local(t, i32, [8]); range(n, 2) { range(i, 8, thread) t[i] = i32(i); range(i, 8, thread) B[i] = t[7 - i]; }");   /* a team's */
  FAILS("define_local(t, i32, [8]); range(n, 2) range(i, 8, thread) { t[i] = i32(i); B[i] = t[7 - i]; }", "'t[i] = i32(i)'", "'B[i] = t[7 - i]'");
  FAILS("define_reg(t, i32, [1]); t[0] = 0; range(i, 4, thread) t[0] = t[0] + 1; B[0] = t[0];", "t[0] is ", "nothing orders the iterations of i");
  FAILS("range(i, 2, thread) { define_local(x, i32, [8]); x[0] = 0; range(k, 4, thread) x[0] = x[0] + 1; B[i] = x[0]; }", "nothing orders the iterations of k", "i = ");
  RUNS("define_local(p, i32, [4]); range(t, 4, thread) p[t] = sum(k : 16, B[16*t + k]); C[0] = sum(t : 4, p[t]);");   /* partial sums */
}

static void test_lockstep(void) {
  FAILS("range(l, 8, lane) B[l / 2] = i32(l);", "written by", "in one statement of iterations in lockstep");
  FAILS("range(w, 2, local) range(l, 8, lane) B[l] = i32(w);", "w = 0, l = 0", "w = 1, l = 0");
  FAILS("range(l, 8, upcast) B[l] = B[7 - l];", "in one statement of iterations in lockstep", "l = ");
  FAILS("range(i, 2, thread) range(l, 4, upcast) C[i] = i32(l);", "i = ", "in one statement of iterations in lockstep");
  RUNS("range(l, 8, lane) { B[l] = 1; C[l] = B[7 - l]; B[l] = 2; }");
  RUNS("range(l, 8, lane) { define_reg(x, i32, [1]); x[0] = B[l]; B[l] = shuffle(x[0], l, 7 - l); }");
  FAILS("range(l, 4, lane) { define_reg(x, i32, [1]); x[0] = 1; B[l / 3] = shuffle(x[0], l, 3 - l) + B[8]; }", "in one statement", "B[0]");
  RUNS("B[iota(8) * 2 + 1] = i32(iota(8));");
  RUNS("B[7 - iota(8)] = i32(iota(8));");
  FAILS("B[iota(8) / 2] = i32(iota(8));", "lanes 0 and 1 of", "both write B[0]");
  RUNS("B[iota(8) / 2] = i32(iota(8)) if iota(8) % 2 == 1;");
}

static void test_atomic(void) {
  RUNS("B[0] = 0; range(i, 8, thread) atomic B[0] += 1; C[0] = B[0];");
  FAILS("B[0] = 0; range(i, 8, thread) { atomic B[0] += 1; C[i] = B[0]; }", "B[0] is ", "added to by");
  FAILS("B[0] = 0; range(i, 8, thread) { atomic B[0] += 1; B[0] = 1 if i == 3; }", "B[0] is ", "added to by");
}

/* What depends on the order of tasks does so at once, the same way each time; another number gives another order. */
static void test_order(void) {
  static const char text[] = HEAD "B[0] = 0; range(i, 64, thread) { C[i] = B[0]; B[0] = i32(i) + 1; } }";
  static const uint64_t orders[] = {0, 0, 1};
  int32_t got[3][64];
  int ascending = 0, again = 0, other = 0, met[65] = {0};
  for (int turn = 0; turn < 3; turn++) {
    CHECK(run_ordered(text, false, orders[turn]), "%s", j->env.message);
    memcpy(got[turn], c, sizeof c);
    tg_job_drop(j);
  }
  for (int i = 0; i < 64; i++) {
    ascending += got[0][i] == i;
    again += got[1][i] == got[0][i];
    other += got[2][i] == got[0][i];
    if (got[0][i] >= 0 && got[0][i] <= 64) met[got[0][i]]++;
  }
  int once = 0;
  for (int i = 0; i < 65; i++) once += met[i] == 1;
  CHECK(met[0] == 1 && once == 64, "%d of 64 tasks but the last come before another", once);
  CHECK(again == 64 && ascending < 16 && other < 16, "%d the same again, %d as they stand, %d the same in another order", again, ascending, other);
}

/* ---- operations that were run ---- */

static tg_interp_counts counted(const char *text) {
  tg_interp_counts n = {0};
  static float x[64], y[64];
  begin();
  j->name = NULL;
  parse_of p = {j, text};
  tg_interp_buffer buffers[] = {{x, sizeof x}, {y, sizeof y}};
  bool ok = tg_protect(&j->env, parse_it, &p) && interpret(j->sink, (tg_interp){.buffers = buffers, .counts = &n});
  CHECK(ok, "%s", j->env.message);
  tg_job_drop(j);
  return n;
}

static void takes(const char *text, tg_interp_counts want, int line) {
  tg_interp_counts n = counted(text);
  CHECK(n.floats == want.floats && n.functions == want.functions && n.loads == want.loads && n.masked == want.masked, "(line %d) %llu floats, %llu functions, %llu loads, %llu masked", line,
        (unsigned long long)n.floats, (unsigned long long)n.functions, (unsigned long long)n.loads, (unsigned long long)n.masked);
}

#define FLOATS "kernel k() { stage schedule; in(X, f32, [64]); out(Y, f32, [64], partial); "
#define TAKES(text, ...) takes(FLOATS text "}", (tg_interp_counts){__VA_ARGS__}, __LINE__)

static void test_counts(void) {
  TAKES("range(i, 10) Y[i] = exp(X[i]) * 2 + 1;", .floats = 20, .functions = 10, .loads = 10);
  TAKES("range(i, 16, upcast) Y[i] = exp(X[i] if i < 10 else 0) * 2 + 1 if i < 10;", .floats = 20, .functions = 10, .loads = 10, .masked = 18);
  TAKES("Y[iota(16)] = X[iota(16)] * 2 if iota(16) < 10;", .floats = 10, .loads = 10, .masked = 12);
  TAKES("range(i, 10) Y[i] = sum(k : 6, X[k] * X[6*i + k]);", .floats = 120, .loads = 120);
  TAKES("range(i, 10) Y[i] = sum(k : 8, (X[k] if k < 6 else 0) * (X[6*i + k] if k < 6 else 0));", .floats = 120, .loads = 120, .masked = 40);
  TAKES("range(i, 10) { define_reg(t, f32, [1]); t[0] = X[i]; Y[i] = fma(t[0], t[0], t[0]); }", .floats = 20, .loads = 10);
  TAKES("range(i, 8) Y[i] = where(X[i] < X[i + 1], X[i], X[2*i]);", .floats = 8, .loads = 24);
  tg_interp_counts n = counted(FLOATS "range(i, 8) Y[i] = X[2*i + 1]; }");
  CHECK(n.integers == 16 && n.moves == 8 && !n.floats, "%llu of subscripts, %llu moves", (unsigned long long)n.integers, (unsigned long long)n.moves);
}

int main(void) {
  test_tasks();
  test_hidden();
  test_private();
  test_lockstep();
  test_atomic();
  test_order();
  test_counts();
  return TEST_END();
}
