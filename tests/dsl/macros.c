/* SPDX-License-Identifier: MIT
 * The macros: the same program from C, C++ and text; errors in macros, with their places in this very file. */
#include <stdlib.h>
#include "dsl/text.h"
#include "tg/dsl.h"
#include "test.h"

extern const tg_kernel_def *const words_of_c[3], *const words_of_cxx[3];

typedef struct { tg_job job; const tg_kernel_def *def; const char *text; const tg_binding *bindings; uint32_t n; const char *printed; } attempt;

static void author(void *user) {
  attempt *a = user;
  int three = 3;
  if (a->def) tg_author(&a->job, a->def, a->n, a->bindings, &three);
  else tg_parse_kernel(&a->job, "words.tg", a->text, a->n, a->bindings);
  tg_str s = tg_str_new(&a->job.env);
  tg_print(&a->job, &s, a->job.sink);
  a->printed = s.data;
}

static const char *const texts[3] = {
  "kernel words_matmul(M, N, K) { knob(BM, 16, 8); in(A, f32, [M, K]); in(B, f32, [K, N]); in(idx, i32 in 0..N-1, [N], [1]); out(C, f32, [M, N]);\n"
  "out(I, f32, [M], partial); inout(linux, i32, [N]); require(M % BM == 0); opt(split j 16 as jo jl); def(gelu(x) = 0.5f*x*(1 + erf(x*0.70710678f)));\n"
  "range(i, M) range(j, N) C[i,j] = gelu(sum(k : K, A[i,k] * B[k,j]));\n"
  "range(I2, M) { define_reg(min, f32, [4]); define_reg(flags, bool, [4]); define_local(tile, f16, [BM, 2]); if (I2 < 3) if (I2 < 2) { min[0] = max(k : K, min(A[I2,k], 1)); flags[0] = min[0] < 2; I[I2] = min[0]; }\n"
  "range(q, N, unroll) atomic linux[idx[q]] += 1; barrier(); } }",
  ("kernel words_values(M) { out(S, f32, [M]); out(T, i64, [M]); def(score(s, b) = s * 2 + b); proc words_fill(dst, v, n) { range(i, n) dst[i] = v; }\n"
  "call(words_fill, S, 0.5 * 3, M); S[0] = S[0] + 0.25; S[0] = S[0] + 0.25; S[0] = S[0] + 0.25; S[1] = score(S[0], 1.0f); range(i, M) T[i] = 5000000000 + 7; }"),
  "kernel words_none() { out(S, f32, [4]); range(i, 4) S[i] = 1; }",
};

static void check_words(void) {
  static const tg_binding three[] = {{"M", 64, 64, 0}, {"N", 1, 4096, 16}, {"K", 32, 32, 0}};
  for (int i = 0; i < 3; i++) {
    attempt a[3] = {{.def = words_of_c[i]}, {.def = words_of_cxx[i]}, {.text = texts[i]}};
    for (int k = 0; k < 3; k++) {
      a[k].bindings = three;
      a[k].n = i == 0 ? 3 : i == 1 ? 1 : 0;
      tg_job_init(&a[k].job, NULL);
      CHECK(tg_protect(&a[k].job.env, author, &a[k]), "%s", a[k].job.env.message);
      if (k && a[0].printed && a[k].printed) CHECK_TEXT(a[k].printed, a[0].printed);
    }
    for (int k = 0; k < 3; k++) tg_job_drop(&a[k].job);
  }
}

/* ---- errors in macros ---- */

TG_KERNEL(bad_name, M) {
  tg_in(A, f32, [M]);   tg_out(C, f32, [M]);
  tg_range(i, M)   tg(C[i] = A[i]   * kk + 1);
}

TG_KERNEL(bad_long, M) {
  tg_out(C, f32, [M]);
  tg_range(i, M)
    tg(C[i] = 1.0f +
       2.0f *   zz
       + 3.0f);
}

TG_KERNEL(bad_break, M) {
  tg_out(C, f32, [M]);
  tg_range(i, M) {
    tg(C[i] = 1);
    if (tg_c(M) > 1) break;
  }
}

TG_KERNEL(bad_inner_break, M) {
  tg_out(C, f32, [M, M]);
  tg_range(i, M) {
    tg_range(j, M) {
      tg(C[i, j] = 1);
      break;
    }
    tg(C[i, 0] = 1);
  }
}

TG_KERNEL(bad_return, M) {
  tg_out(C, f32, [M]);
  tg_if(M < 3) {
    return;
  }
}

TG_KERNEL(bad_if_break, M) {
  tg_out(C, f32, [M]);
  tg_if(M < 3) {
    tg_if(M < 2) {
      break;
    }
  }
}

TG_KERNEL(bad_if_in_one, M) {
  tg_out(C, f32, [M]);
  tg_if(M < 3) { tg_if(M < 2) { break; } }
}

TG_KERNEL(bad_constant, M) {
  tg_out(C, f32, [M]);
  for (int n = 0; n < tg_c(M); n++) tg(C[0] = 1);
}

TG_KERNEL(bad_parameter, M, Q) {
  tg_out(C, f32, [M]);
}

TG_KERNEL(bad_twice, M) {
  tg_out(C, f32, [M]);   tg_out(C, f32, [M]);
  tg_range(i, M) tg(C[i] = unknown);
}

TG_KERNEL(bad_let, M) {
  tg_out(C, i32, [M]);
  tg_let(u, 1.5);
  tg_range(i, M) tg(C[i] = u);
}

TG_PROC(bad_inside, dst, n) {
  tg_range(i, n) tg(dst[i] = C[i]);
}

TG_KERNEL(bad_proc, M) {
  tg_out(C, f32, [M]);
  tg_call(bad_inside, C, M);
}

TG_KERNEL(bad_arguments, M) {
  tg_out(C, f32, [M]);
  tg_call(bad_inside, C);
}

TG_KERNEL(bad_splice, M) {
  tg_out(C, f32, [M]);
  tg_splice(f, "s * 2\n + t", "s");
  tg(C[0] = f(1.0f));
}

TG_KERNEL(bad_splice_index, M) {
  tg_out(C, f32, [M]);
  tg_splice(f, "i + 1", "s, i -> f32");
  tg_range(i, M) tg(C[i] = f(1.0f, i));
}

TG_KERNEL(bad_splice_number, M) {
  tg_out(C, f32, [M]);
  tg_splice(f, "1", "s -> bool");
  tg_range(i, M) tg(C[i] = where(f(1.0f), 1, 2));
}

TG_KERNEL(bad_splice_type, M) {
  tg_out(C, f32, [M]);
  tg_splice(f, "s", "s -> f33");
  tg(C[0] = f(1.0f));
}

TG_KERNEL(bad_binding, M) {
  tg_out(C, f32, [M]);
}

TG_PROC(endless, n) { tg_call(endless, n); }
TG_KERNEL(bad_recursion, M) { tg_call(endless, M); }

enum { MM = 4 };
TG_KERNEL(bad_enum, M) {
  tg_out(C, f32, [M]);
  tg(C[0] = MM);
}

TG_KERNEL(bad_two, M) {
  tg_out(C, f32, [M]);
  tg(C[0] = 1; C[1] = 2);
}

TG_KERNEL(bad_two_without, M) {
  tg_out(C, f32, [M]);
  tg(C[0] = 1 C[1] = 2);
}

TG_KERNEL(bad_many, Rows, Cols, K) {
  tg_knob(BM, 16, 8);
}

/* line: of the error, counted from the kernel's; column 0: anywhere. */
static const struct { const tg_kernel_def *def; int line, column; const char *message; } bad[] = {
  {&bad_name, 2, 39, "unknown name 'kk'\n    tg_range(i, M)   tg(C[i] = A[i]   * kk + 1);\n                                        ^~\n    a value of C is brought in with tg_let(kk, kk)"},
  {&bad_long, 4, 17, "unknown name 'zz'\n    2.0f *   zz\n             ^~\n    a value of C is brought in with tg_let(zz, zz)"},
  {&bad_break, 2, 12, "the scope of range 'i' is left by break, return or goto\n    tg_range(i, M) {\n             ^~~~"},
  {&bad_inner_break, 3, 14, "the scope of range 'j' is left by break, return or goto\n    tg_range(j, M) {\n             ^~~~"},
  {&bad_return, 2, 9, "the scope of this if is left by break, return or goto\n    tg_if(M < 3) {\n          ^~~~~"},
  {&bad_if_break, 3, 11, "the scope of this if is left by break, return or goto\n    tg_if(M < 2) {\n          ^~~~~"},
  {&bad_if_in_one, 2, 9, "the scope of this if is left by break, return or goto\n    tg_if(M < 3) { tg_if(M < 2) { break; } }\n          ^~~~~"},
  {&bad_constant, 2, 28, "tg_c(M): no constant; its value is known when the kernel runs\n    for (int n = 0; n < tg_c(M); n++) tg(C[0] = 1);\n                             ^"},
  {&bad_parameter, 0, 29, "the parameter 'Q' has no value\n    TG_KERNEL(bad_parameter, M, Q) {\n                                ^\n    bind it: Q=512, or a run-time value: Q=1..4096\n    bound: M"},
  {&bad_twice, 1, 10, "'C' is in scope already, since line"},
  {&bad_let, 3, 28, "u is no integer, and i32 is expected"},
  {&bad_proc, -3, 30, "'C' is not seen here: functions and procs see their arguments, parameters and knobs only"},
  {&bad_enum, 2, 13, "unknown name 'MM'\n    tg(C[0] = MM);\n              ^~\n    did you mean 'M'?\n    a value of C is brought in with tg_let(MM, MM)"},
  {&bad_two, 2, 16, "an operator or the end expected, not 'C'\n    tg(C[0] = 1; C[1] = 2);\n                 ^\n    one statement in each tg(..)"},
  {&bad_two_without, 2, 15, "an operator or the end expected, not 'C'\n    tg(C[0] = 1 C[1] = 2);\n                ^\n    one statement in each tg(..)"},
  {&bad_arguments, 2, 23, "bad_inside takes 2 arguments, and 1 is given"},
};

static void check_errors(void) {
  static const tg_binding one[] = {{"M", 4, 64, 0}}, fixed[] = {{"M", 8, 8, 0}};
  for (unsigned i = 0; i < TG_COUNT(bad); i++) {
    attempt a = {.def = bad[i].def, .bindings = bad[i].def == &bad_break ? fixed : one, .n = 1};
    tg_job_init(&a.job, NULL);
    CHECK(!tg_protect(&a.job.env, author, &a), "%s is accepted", bad[i].def->name);
    char want[1024];
    snprintf(want, sizeof want, "%s:%d:%d: error: %s", __FILE__, bad[i].def->line + bad[i].line, bad[i].column, bad[i].message ? bad[i].message : "");
    if (bad[i].message && strchr(bad[i].message, '\n')) CHECK_TEXT(a.job.env.message, want);
    else CHECK(!strncmp(a.job.env.message, want, strlen(want)), "\n--- got\n%s\n--- want\n%s", a.job.env.message, want);
    tg_job_drop(&a.job);
  }
}

/* ---- bodies without an end ---- */

TG_KERNEL(endless_statements) {
  tg_out(C, f32, [4]);
  for (;;) tg(C[0] = 1);
}

TG_KERNEL(endless_scopes) {
  tg_out(C, f32, [4]);
  for (;;) tg_range(i, 4) tg(C[i] = 1);
}

TG_KERNEL(endless_requirements, M) {
  for (;;) tg_require(M > 3);
}

TG_KERNEL(endless_error) {
  for (;;) tg(C[0] = 1);
}

static int ends_run;
TG_KERNEL(ends_late) {
  for (int i = 0; i < 1000; i++) tg(C[0] = 1);
  ends_run++;
}

static void check_endless(void) {
  static const struct { const tg_kernel_def *def; int line; const char *message; } rows[] = {
    {&endless_statements, 2, "a kernel of over 1000000 statements, scopes and calls\n    for (;;) tg(C[0] = 1);\n                ^\n    is this in a loop of C that does not end"},
    {&endless_scopes, 2, "a kernel of over 1000000 statements, scopes and calls"},
    {&endless_requirements, 1, "a kernel of over 1000000 statements, scopes and calls"},
    {&endless_error, 1, "unknown name 'C'"},
    {&ends_late, 1, "unknown name 'C'"},
  };
  static const tg_binding one[] = {{"M", 4, 64, 0}};
  for (unsigned i = 0; i < TG_COUNT(rows); i++) {
    attempt a = {.def = rows[i].def, .bindings = one, .n = rows[i].def == &endless_requirements};
    tg_job_init(&a.job, NULL);
    CHECK(!tg_protect(&a.job.env, author, &a), "%s is accepted", rows[i].def->name);
    CHECK(strstr(a.job.env.message, rows[i].message) != NULL, "%s: %s", rows[i].def->name, a.job.env.message);
    char place[256];
    snprintf(place, sizeof place, "%s:%d:", __FILE__, rows[i].def->line + rows[i].line);
    CHECK(!strncmp(a.job.env.message, place, strlen(place)), "%s: %s", rows[i].def->name, a.job.env.message);
    tg_job_drop(&a.job);
  }
  CHECK(ends_run == 1, "a body that ends is left before its end");
}

static void check_others(void) {
  static const tg_binding two[] = {{"M", 8, 8, 0}, {"R", 1, 1, 0}};
  static const struct { const tg_kernel_def *def; uint32_t n; const char *message; } rows[] = {
    {&bad_splice, 1, "<f>:2:4: error: unknown name 't'\n    + t\n      ^"},
    {&bad_splice_index, 1,
     "<f>:1:1: error: f32 is expected, not index, and nothing is converted silently: write f32(i + 1)\n    i + 1\n    ^~~~~"},
    {&bad_splice_number, 1, "<f>:1:1: error: a bool is expected, not the number 1\n    1\n    ^"},
    {&bad_many, 4, "bad_many has no parameter or knob 'Row': there are Rows, Cols, K, BM; did you mean 'Rows'?"},
    {&bad_binding, 2, "bad_binding has no parameter or knob 'R': there is M"},
  };
  static const tg_binding many[] = {{"Rows", 8, 8, 0}, {"Cols", 8, 8, 0}, {"K", 8, 8, 0}, {"Row", 8, 8, 0}};
  for (unsigned i = 0; i < TG_COUNT(rows); i++) {
    attempt a = {.def = rows[i].def, .bindings = rows[i].n > 2 ? many : two, .n = rows[i].n};
    tg_job_init(&a.job, NULL);
    CHECK(!tg_protect(&a.job.env, author, &a), "%s is accepted", rows[i].def->name);
    CHECK_TEXT(a.job.env.message, rows[i].message);
    tg_job_drop(&a.job);
  }
  attempt typed = {.def = &bad_splice_type, .bindings = two, .n = 1};
  tg_job_init(&typed.job, NULL);
  CHECK(!tg_protect(&typed.job.env, author, &typed), "%s is accepted", typed.def->name);
  CHECK(strstr(typed.job.env.message, "error: the type of the value of 'f' expected behind ->\n"), "%s",
        typed.job.env.message);
  tg_job_drop(&typed.job);
  attempt a = {.def = &bad_recursion, .bindings = two, .n = 1};
  tg_job_init(&a.job, NULL);
  CHECK(!tg_protect(&a.job.env, author, &a), "recursion is accepted");
  CHECK(strstr(a.job.env.message, "procs call each other over 64 deep: 'endless'") != NULL, "%s", a.job.env.message);
  tg_job_drop(&a.job);
  /* without the source: the statement as the preprocessor left it */
  tg_kernel_def away = bad_name;
  away.file = "away.c";
  tg_job_init(&a.job, NULL);
  a.def = &away;
  CHECK(!tg_protect(&a.job.env, author, &a), "accepted");
  tg_job_drop(&a.job);
}

static void generated_body(tg_builder *b, void *user) {
  (void)user;
  tg_add_declaration(b, "out", "C, f32, [4]", "generated.c", 1);
  tg_scope s = tg_scope_open(b, "range", "i, 4", "generated.c", 2);
  if (s.live) tg_add_statement(b, "C[i]   =  2 *  nothing", "generated.c", 3);
  tg_scope_close(&s);
}

static void check_generated(void) {
  const tg_kernel_def def = {"generated", "", "generated.c", 1, generated_body};
  attempt a = {.def = &def};
  tg_job_init(&a.job, NULL);
  CHECK(!tg_protect(&a.job.env, author, &a), "accepted");
  CHECK_TEXT(a.job.env.message, "generated.c:3: error: unknown name 'nothing'\n    C[i]   =  2 *  nothing\n                   ^~~~~~~\n    a value of C is brought in with tg_let(nothing, nothing)");
  tg_job_drop(&a.job);
}

int main(void) {
  check_words();
  check_errors();
  check_endless();
  check_others();
  check_generated();
  return TEST_END();
}
