/* SPDX-License-Identifier: MIT
 * derivative(e, x): each rule against central differences in f64, against its form as a text, at corners and steps, and of f32;
 * what has no derivative, at its place; sums over ranges, loads with alternatives, and its use in a kernel. */
#include <math.h>
#include <stdlib.h>
#include "dsl/text.h"
#include "interp/interp.h"
#include "../test.h"

static tg_job job;

static uint64_t state = 5;
static double draw(double lo, double hi) {
  state = state * 6364136223846793005u + 1442695040888963407u;
  return lo + (hi - lo) * (double)(state >> 11) * 0x1p-53;
}

static const tg_uop *parse(const char *text, tg_type type) {
  static const char *const names[] = {"x", "y", "n"};
  const tg_uop *args[3];
  for (int i = 0; i < 3; i++) args[i] = tg_make(&job, TG_OP_ARG, i < 2 ? type : TG_I32, 1, i, 0, NULL);
  return tg_parse_expr(&job, text, 3, names, args);
}

static double value(const tg_uop *u, double x, double y, int n) {
  tg_value v[3] = {{.f = x}, {.f = y}, {.i = n}}, r = {.f = NAN};
  CHECK(tg_interpret_expr(&job, u, 3, v, &r), "an expression without a value");
  return r.f;
}

/* Smooth within lo and hi. */
static const struct { const char *text; double lo, hi; } smooth[] = {
  {"x + y * x - 3.0 * x", -2, 2},      {"x * x * y", -2, 2},           {"x / (2.5 + x * y)", -1, 1},         {"y / (3.0 + x)", -2, 2},
  {"-x * fma(x, y, x)", -2, 2},        {"fma(x, x, x * y)", -2, 2},    {"abs(x) * x", 0.1, 2},               {"abs(x)", -3, -0.1},
  {"sqrt(x) + y", 0.3, 4},             {"rsqrt(x * 2.0)", 0.3, 4},     {"exp(x * y)", -2, 2},                {"exp2(x - y)", -2, 2},
  {"log(x) * y", 0.3, 4},              {"log2(x + 1.0)", 0.3, 4},      {"sin(x) * cos(x * 2.0)", -3, 3},     {"tanh(x * 1.5)", -2, 2},
  {"3.0 * tanh(x / 3.0)", -6, 6},      {"erf(x)", -2, 2},              {"pow(x, 2.5)", 0.3, 3},              {"pow(1.7, x)", -2, 2},
  {"pow(x, x)", 0.4, 3},               {"pow(x, y) * x", 0.3, 3},      {"fast_exp2(x)", -2, 2},              {"fast_rcp(x)", 0.4, 3},
  {"fast_rsqrt(x)", 0.4, 3},           {"fast_tanh(x)", -2, 2},        {"max(x, 1.0) * x", 1.2, 3},          {"max(x * x, y + 9.0)", -2, 2},
  {"min(x, 9.0) * x", -2, 2},          {"where(n < 3, x * x, sin(x))", -2, 2},
  {"where(x < 9.0, x * y, 0.0)", -2, 2}, {"f64(f32(1.5)) * x", -2, 2}, {"f64(n) * x * x", -2, 2},            {"floor(x) * x", 0.1, 0.9},
  {"ceil(x) * x", 0.1, 0.9},           {"round(x) * x", 0.1, 0.4},     {"trunc(x) * x", 1.1, 1.9},           {"f64(i32(x * 10.0)) * 0.0 + x", 0, 1},
  {"derivative(x * x * x, x) * x", -2, 2}, {"sum(k : 5, x * f64(k) * x)", -2, 2}, {"sum(k : 4, j : k + 1, sin(x * f64(j)))", -2, 2},
  {"exp(-x * x) / (1.0 + exp(-x))", -2, 2}, {"let t = x * y; t * t + t", -2, 2},
};

static void against_differences(void) {
  for (size_t k = 0; k < TG_COUNT(smooth); k++) {
    char text[200];
    const char *body = strstr(smooth[k].text, "; ");   /* names stand before all */
    int head = body ? (int)(body + 2 - smooth[k].text) : 0;
    snprintf(text, sizeof text, "%.*sderivative(%s, x)", head, smooth[k].text, smooth[k].text + head);
    const tg_uop *f = parse(smooth[k].text, TG_F64), *d = parse(text, TG_F64);
    CHECK(d->type == TG_F64, "%s has another type", text);
    for (int i = 0; i < 50; i++) {
      double x = draw(smooth[k].lo, smooth[k].hi), y = draw(-1, 1), h = 1e-5;
      int n = i % 6;
      double want = (value(f, x + h, y, n) - value(f, x - h, y, n)) / (2 * h), got = value(d, x, y, n);
      CHECK(fabs(got - want) <= 2e-8 * (1 + fabs(want) + fabs(value(f, x, y, n))), "%s at %g, %g, %d is %.12g, differences say %.12g", text, x, y, n, got, want);
    }
  }
}

/* At corners and steps, what others take. */
static void corners(void) {
  static const struct { const char *text; double x, want; } rows[] = {
    {"abs(x)", 0, 0},          {"max(x, 2.0)", 2, 0.5},     {"min(x, 2.0)", 2, 0.5},      {"max(x, -x)", 0, 0},  {"min(x, 2.0)", 3, 0},
    {"floor(x)", 1, 0},        {"round(x)", 0.5, 0},        {"where(x > 0.0, x, 0.0)", 0, 0}, {"pow(x, 0.0)", 0, 0}, {"pow(0.0, x)", 2, 0},
    {"pow(x, 2.0)", 0, 0},     {"pow(x, 2.0)", -3, -6},     {"sqrt(x)", 0, INFINITY},     {"log(x)", 0, INFINITY}, {"f64(i32(x))", 3, 0},
    {"f64(x > 0.0)", 1, 0},    {"f64(bitcast(i64, x) & 1)", 3, 0}, {"y", 3, 0},           {"1.0", 3, 0},           {"bitcast(f64, bitcast(i64, y)) * x", 3, 0.25},
  };
  for (size_t k = 0; k < TG_COUNT(rows); k++) {
    char text[200];
    snprintf(text, sizeof text, "derivative(%s, x)", rows[k].text);
    double got = value(parse(text, TG_F64), rows[k].x, 0.25, 0);
    CHECK(got == rows[k].want, "%s at %g is %g, not %g", text, rows[k].x, got, rows[k].want);
  }
}

/* One program, by the text and by hand: what is constant leaves nothing behind, and x may be more than a name. */
static void forms(void) {
  static const char *const rows[][2] = {
    {"derivative(x * y, x)", "y"},                 {"derivative(x + y, x)", "1.0f"},           {"derivative(y, x)", "0.0f"},
    {"derivative(sin(x * y), x * y)", "cos(x * y)"}, {"derivative(x * f32(n), x)", "f32(n)"}, {"derivative(where(n < 3, x, y), x)", "where(n < 3, 1.0f, 0.0f)"},
    {"derivative(y - x, x)", "-1.0f"},      {"derivative(f32(f16(x)) * y, x)", "y"},
    {"derivative(pow(x, 3.0f), x)", "3.0f * pow(x, 2.0f)"}, {"derivative(pow(x, 2.0f), x)", "2.0f * x"}, {"derivative(pow(x, 0.0f), x)", "0.0f"},
  };
  for (size_t k = 0; k < TG_COUNT(rows); k++)
    CHECK(parse(rows[k][0], TG_F32) == parse(rows[k][1], TG_F32), "%s is not %s", rows[k][0], rows[k][1]);
}

/* ---- in a kernel ---- */

typedef struct { const char *text; } attempt;
static void parse_kernel(void *user) {
  const attempt *a = user;
  tg_parse_kernel(&job, "k.tg", a->text, 0, NULL);
}

static const struct { const char *body, *message; } wrong[] = {
  {"o[i] = derivative(bitcast(f32, bitcast(u32, a[i]) + 1), a[i]);", "k.tg:2:34: error: bitcast has no derivative"},
  {"o[i] = derivative(max(k : 3, a[i] * f32(k)), a[i]);", "k.tg:2:34: error: a reduction that is no sum has no derivative"},
  {"o[i] = derivative(a[i], 2.0);", "x is a number"},
  {"o[i] = derivative(a[i]);", "derivative takes 2 arguments, and 1 is given"},
  {"o[i] = derivative(a[i], i);", "derivative of index"},
  {"def(derivative(x) = x); o[i] = derivative(a[i]);", "is a function of the language"},
};

static void refusals(void) {
  for (size_t k = 0; k < TG_COUNT(wrong); k++) {
    char text[300];
    tg_job_drop(&job), tg_job_init(&job, NULL);
    snprintf(text, sizeof text, "kernel k() { in(a, f32, [8]); out(o, f32, [8]);\n range(i, 8) { %s } }", wrong[k].body);
    attempt a = {text};
    bool ok = tg_protect(&job.env, parse_kernel, &a);
    CHECK(!ok && strstr(job.env.message, wrong[k].message), "%s: %s", wrong[k].body, ok ? "accepted" : job.env.message);
  }
}

static void expressions(void *user) {
  (void)user;
  against_differences(), corners(), forms();
}

int main(void) {
  tg_job_init(&job, NULL);
  if (!tg_protect(&job.env, expressions, NULL)) CHECK(false, "%s", job.env.message);
  refusals();
  tg_job_drop(&job);
  return TEST_END();
}
