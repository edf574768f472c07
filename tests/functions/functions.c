/* SPDX-License-Identifier: MIT
 * The functions against libm in f64 and MPFR, and their bits against dsl/value.h. `functions all` walks every f32. */
#include <float.h>
#include <math.h>
#include <mpfr.h>
#include "batch.h"
#include "dsl/functions.h"
#include "interp/interp.h"
#include "test.h"

typedef int mpfr_function(mpfr_t, const mpfr_t, mpfr_rnd_t);
static int reciprocal_sqrt(mpfr_t r, const mpfr_t x, mpfr_rnd_t m) { return mpfr_rec_sqrt(r, x, m); }
static double rsqrt(double x) { return 1 / sqrt(x); }

static const struct { tg_op op; double (*libm)(double); mpfr_function *exact; double bound32, bound64; bool flushes; } functions[] = {
  {TG_OP_RSQRT, rsqrt, reciprocal_sqrt, 1.5, 1.5, false}, {TG_OP_EXP, exp, mpfr_exp, 1, 1, true},   {TG_OP_EXP2, exp2, mpfr_exp2, 1, 1, true},
  {TG_OP_LOG, log, mpfr_log, 1, 1, false},                {TG_OP_LOG2, log2, mpfr_log2, 1, 1, false}, {TG_OP_SIN, sin, mpfr_sin, 0.51, 1.25, false},
  {TG_OP_COS, cos, mpfr_cos, 0.51, 1.25, false},             {TG_OP_TANH, tanh, mpfr_tanh, 1.6, 2, false}, {TG_OP_ERF, erf, mpfr_erf, 1.3, 2, false},
};
static tg_job job;

static uint64_t random_bits(uint64_t *s) {
  *s += 0x9E3779B97F4A7C15u;
  uint64_t z = (*s ^ *s >> 30) * 0xBF58476D1CE4E5B9u;
  z = (z ^ z >> 27) * 0x94D049BB133111EBu;
  return z ^ z >> 31;
}

static float float_of(uint32_t b) {
  float f;
  memcpy(&f, &b, 4);
  return f;
}

static double double_of(uint64_t b) {
  double d;
  memcpy(&d, &b, 8);
  return d;
}

static bool same_value(double a, double b) { return (a != a && b != b) || (a == b && !!signbit(a) == !!signbit(b)); }

/* The distance of got from want in units of want's last place; want as a double stands for the exact value. */
static double ulps32(float got, double want, bool flushes) {
  if (want != want || got != got) return want != want && got != got ? 0 : INFINITY;
  float near = (float)want;
  if (isinf(near) || isinf(got)) return near == got || fabs(want) > (double)FLT_MAX * (1 - 0x1p-26) ? 0 : INFINITY;
  if (flushes && fabs(want) < 0x1p-126 && (got == 0 || fabs(got - want) <= 0x1p-149)) return 0;
  int e = want == 0 ? -126 : ilogb(want);
  return fabs((double)got - want) / ldexp(1, (e < -126 ? -126 : e) - 23);
}

static double ulps64(double got, const mpfr_t want, bool flushes) {
  if (mpfr_nan_p(want) || got != got) return mpfr_nan_p(want) && got != got ? 0 : INFINITY;
  double near = mpfr_get_d(want, MPFR_RNDN);
  if (isinf(near) || isinf(got)) return near == got || fabs(near) == DBL_MAX ? 0 : INFINITY;
  if (flushes && fabs(near) <= DBL_MIN && (got == 0 || got == DBL_MIN)) return 0;
  mpfr_t d;
  mpfr_init2(d, 200);
  mpfr_sub_d(d, want, got, MPFR_RNDN);
  int e = near == 0 ? -1022 : ilogb(near);
  mpfr_mul_2si(d, d, 52 - (e < -1022 ? -1022 : e), MPFR_RNDN);
  double r = fabs(mpfr_get_d(d, MPFR_RNDN));
  mpfr_clear(d);
  return r;
}

static void dense_f32(size_t k, uint64_t stride) {
  batch_program p = batch_prepare(&job, tg_function_definition(&job, functions[k].op, TG_F32));
  batch_value x[BATCH];
  const batch_value *args[1] = {x}, *y;
  double worst = 0;
  float at = 0;
  for (uint64_t b = 0; b < (uint64_t)1 << 32;) {
    int n = 0;
    for (; n < BATCH && b < (uint64_t)1 << 32; n++, b += stride) x[n].f = float_of((uint32_t)b);
    if (!(y = batch_run(&p, args, n))) { CHECK(false, "%s: an op without a meaning", tg_ops[functions[k].op].text); return; }
    for (int i = 0; i < n; i++) {
      double u = ulps32(y[i].f, functions[k].libm((double)x[i].f), functions[k].flushes);
      if (u > worst) worst = u, at = x[i].f;
    }
  }
  printf("%-6s f32 %.3f ulp at %a\n", tg_ops[functions[k].op].text, worst, (double)at);
  CHECK(worst <= functions[k].bound32, "%s f32: %.3f ulp at %a", tg_ops[functions[k].op].text, worst, (double)at);
}

/* libm's own error is no excuse: some points against MPFR, and the same points through the interpreter, bit by bit. */
static void exact_f32(size_t k) {
  const tg_uop *d = tg_function_definition(&job, functions[k].op, TG_F32);
  batch_program p = batch_prepare(&job, d);
  uint64_t seed = 1 + k;
  mpfr_t m;
  mpfr_init2(m, 120);
  for (int i = 0; i < 4000; i++) {
    batch_value x = {.f = float_of((uint32_t)random_bits(&seed))};
    if (i & 1) x.f = (float)ldexp((double)(int64_t)random_bits(&seed), (int)(random_bits(&seed) % 16) - 71);
    const batch_value *args[1] = {&x}, *y = batch_run(&p, args, 1);
    tg_value v = {.f = (double)x.f}, r = {.f = 0};
    bool known = tg_interpret_expr(&job, d, 1, &v, &r);
    CHECK(known && same_value(r.f, (double)y->f), "%s(%a) is %a by the interpreter, %a here", tg_ops[functions[k].op].text, v.f, r.f, (double)y->f);
    mpfr_set_d(m, v.f, MPFR_RNDN);
    functions[k].exact(m, m, MPFR_RNDN);
    double u = ulps32(y->f, mpfr_get_d(m, MPFR_RNDN), functions[k].flushes);
    if (isinf(v.f)) continue;   /* special_values */
    CHECK(u <= functions[k].bound32, "%s(%a) = %a, %.3f ulp off", tg_ops[functions[k].op].text, v.f, (double)y->f, u);
  }
  mpfr_clear(m);
}

static double sample_f64(int i, uint64_t *seed) {
  uint64_t r = random_bits(seed);
  if (i == 0) return 6381956970095103.0 * 0x1p797;                    /* of all doubles the closest to a multiple of pi / 2 */
  if (i % 7 == 3) {   /* where exponentials leave the normal numbers, at both ends, and close by */
    static const double ends[] = {-708.39641853226408, 709.782712893384, -1022, 1024};
    return ends[r % 4] + ldexp((double)(int64_t)random_bits(seed), -63 - (int)(r >> 59));
  }
  if (i % 7 == 1) return rint(ldexp((double)(r >> 40), -14)) * 1.5707963267948966;   /* and close ones */
  switch (i & 3) {
  case 0: return double_of(r);
  case 1: return ldexp((double)(int64_t)r, (int)(random_bits(seed) % 24) - 76);
  case 2: return ldexp((double)(int64_t)r, -63) * 800;
  default: return 1 + ldexp((double)(int64_t)r, -63 - (int)(random_bits(seed) % 50));
  }
}

static void dense_f64(size_t k, int points) {
  const tg_uop *d = tg_function_definition(&job, functions[k].op, TG_F64);
  CHECK(d, "%s has no definition on f64", tg_ops[functions[k].op].text);
  if (!d) return;
  batch_program p = batch_prepare(&job, d);
  uint64_t seed = 77 + k;
  double worst = 0, at = 0;
  mpfr_t m;
  mpfr_init2(m, 200);
  for (int i = 0; i < points; i++) {
    batch_value x = {.d = sample_f64(i, &seed)};
    const batch_value *args[1] = {&x}, *y = batch_run(&p, args, 1);
    if (!y) { CHECK(false, "%s: an op without a meaning", tg_ops[functions[k].op].text); return; }
    if (isinf(x.d)) continue;
    mpfr_set_d(m, x.d, MPFR_RNDN);
    functions[k].exact(m, m, MPFR_RNDN);
    double u = ulps64(y->d, m, functions[k].flushes);
    if (u > worst) worst = u, at = x.d;
    tg_value v = {.f = x.d}, r = {.f = 0};
    if (i % 16 == 0) CHECK(tg_interpret_expr(&job, d, 1, &v, &r) && same_value(r.f, y->d), "%s(%a) by the interpreter", tg_ops[functions[k].op].text, x.d);
  }
  mpfr_clear(m);
  printf("%-6s f64 %.3f ulp at %a\n", tg_ops[functions[k].op].text, worst, at);
  CHECK(worst <= functions[k].bound64, "%s f64: %.3f ulp at %a", tg_ops[functions[k].op].text, worst, at);
}

/* Every f16 and bf16: f32's result, rounded. */
static void every_small(size_t k, tg_type t) {
  batch_program narrow = batch_prepare(&job, tg_function_definition(&job, functions[k].op, t));
  batch_program wide = batch_prepare(&job, tg_function_definition(&job, functions[k].op, TG_F32));
  int wrong = 0;
  for (uint32_t b = 0; b < 65536; b++) {
    batch_value x = {.u = b}, f = {.f = (float)batch_decode(t, b)};
    const batch_value *a[1] = {&x}, *c[1] = {&f};
    double got = batch_decode(t, (uint32_t)batch_run(&narrow, a, 1)->u), want = batch_decode(t, batch_encode(t, batch_run(&wide, c, 1)->f));
    wrong += !same_value(got, want);
  }
  CHECK(!wrong, "%s %s: %d values", tg_ops[functions[k].op].text, tg_type_name[t], wrong);
}

/* The texts for f16 alone: the same bits, for f32 of all sizes, and every one about each f16 of a row of them. */
static void to_half(size_t k) {
  const tg_uop *arg = tg_make(&job, TG_OP_ARG, TG_F32, 1, 0, 0, NULL), *half = tg_function_to_half(&job, functions[k].op, arg);
  if (!half) return;
  batch_program narrow = batch_prepare(&job, half), wide = batch_prepare(&job, tg_function_definition(&job, functions[k].op, TG_F32));
  int wrong = 0;
  for (uint64_t i = 0; i < 1u << 21; i++) {
    uint32_t bits = i & 1 ? (uint32_t)(i * 2047) : (0x41c80000u + (uint32_t)i) | (i & 2 ? 0x80000000u : 0);   /* 25 and more */
    batch_value x = {.f = 0};
    memcpy(&x.f, &bits, sizeof bits);
    const batch_value *a[1] = {&x};
    double got = batch_decode(TG_F16, (uint32_t)batch_run(&narrow, a, 1)->u), want = batch_decode(TG_F16, batch_encode(TG_F16, batch_run(&wide, a, 1)->f));
    wrong += !same_value(got, want);
  }
  CHECK(!wrong, "f16 of %s: %d values", tg_ops[functions[k].op].text, wrong);
}

static const struct { tg_op op; double x, y, want; } special[] = {
  {TG_OP_EXP, -INFINITY, 0, 0}, {TG_OP_EXP, INFINITY, 0, INFINITY}, {TG_OP_EXP, 0, 0, 1}, {TG_OP_EXP, -0.0, 0, 1}, {TG_OP_EXP, 1e5, 0, INFINITY}, {TG_OP_EXP, -1e5, 0, 0},
  {TG_OP_EXP2, -INFINITY, 0, 0}, {TG_OP_EXP2, INFINITY, 0, INFINITY}, {TG_OP_EXP2, 1e30, 0, INFINITY}, {TG_OP_EXP2, -1e30, 0, 0},
  {TG_OP_LOG, 0, 0, -INFINITY}, {TG_OP_LOG, -0.0, 0, -INFINITY}, {TG_OP_LOG, -1, 0, NAN}, {TG_OP_LOG, INFINITY, 0, INFINITY}, {TG_OP_LOG, 1, 0, 0}, {TG_OP_LOG, -INFINITY, 0, NAN},
  {TG_OP_LOG2, 0, 0, -INFINITY}, {TG_OP_LOG2, -3, 0, NAN}, {TG_OP_LOG2, INFINITY, 0, INFINITY}, {TG_OP_LOG2, 1, 0, 0}, {TG_OP_LOG2, 8, 0, 3}, {TG_OP_LOG2, 0.25, 0, -2},
  {TG_OP_SIN, 0, 0, 0}, {TG_OP_SIN, -0.0, 0, -0.0}, {TG_OP_SIN, INFINITY, 0, NAN}, {TG_OP_SIN, -INFINITY, 0, NAN}, {TG_OP_COS, 0, 0, 1}, {TG_OP_COS, INFINITY, 0, NAN},
  {TG_OP_TANH, 0, 0, 0}, {TG_OP_TANH, -0.0, 0, -0.0}, {TG_OP_TANH, INFINITY, 0, 1}, {TG_OP_TANH, -INFINITY, 0, -1}, {TG_OP_TANH, 30, 0, 1}, {TG_OP_TANH, -1e30, 0, -1},
  {TG_OP_ERF, 0, 0, 0}, {TG_OP_ERF, -0.0, 0, -0.0}, {TG_OP_ERF, INFINITY, 0, 1}, {TG_OP_ERF, -INFINITY, 0, -1}, {TG_OP_ERF, 7, 0, 1}, {TG_OP_ERF, -1e30, 0, -1},
  {TG_OP_RSQRT, 0, 0, INFINITY}, {TG_OP_RSQRT, INFINITY, 0, 0}, {TG_OP_RSQRT, -1, 0, NAN}, {TG_OP_RSQRT, 4, 0, 0.5},
};

static double call(tg_op op, tg_type t, double x, double y) {
  batch_value v[2] = {{.d = x}, {.d = y}};
  if (t == TG_F32) v[0].f = (float)x, v[1].f = (float)y;
  const batch_value *args[2] = {&v[0], &v[1]};
  batch_program p = batch_prepare(&job, tg_function_definition(&job, op, t));
  const batch_value *r = batch_run(&p, args, 1);
  return t == TG_F32 ? (double)r->f : r->d;
}

static void special_values(tg_type t) {
  for (size_t i = 0; i < TG_COUNT(special); i++) {
    double got = call(special[i].op, t, special[i].x, 0);
    CHECK(same_value(got, special[i].want), "%s %s(%g) = %g, not %g", tg_type_name[t], tg_ops[special[i].op].text, special[i].x, got, special[i].want);
  }
  for (size_t k = 0; k < TG_COUNT(functions); k++) {
    static const uint32_t nans[] = {0x7fc00000, 0xffc00000, 0x7f800001, 0x7fc000ff, 0x7fffffff, 0xff8001ff};
    for (size_t i = 0; i < TG_COUNT(nans); i++) {
      double got = call(functions[k].op, t, (double)float_of(nans[i]), 0);
      CHECK(got != got, "%s of NaN %x = %g", tg_ops[functions[k].op].text, nans[i], got);
    }
  }
  int least = t == TG_F32 ? -126 : -1022;
  for (int n = least; n < -least + 2; n++) CHECK(call(TG_OP_EXP2, t, n, 0) == ldexp(1, n), "exp2(%d) of %s", n, tg_type_name[t]);
}

static void power(tg_type t, int points, double bound) {
  static const double values[] = {0, -0.0, 1, -1, 2, -2, 3, -3, 0.5, -0.5, INFINITY, -INFINITY, NAN, 1e-30, -1e-30, 1e30, -1e30, 3.5, 16777215, 16777216, 1e9, -7};
  batch_program p = batch_prepare(&job, tg_function_definition(&job, TG_OP_POW, t));
  double worst = 0, ax = 0, ay = 0;
  uint64_t seed = 5;
  mpfr_t a, b;
  mpfr_inits2(200, a, b, (mpfr_ptr)0);
  for (int i = 0; i < points; i++) {
    double x, y;
    size_t n = TG_COUNT(values);
    if ((size_t)i < n * n) x = values[(size_t)i / n], y = values[(size_t)i % n];
    else {
      x = t == TG_F32 ? (double)float_of((uint32_t)random_bits(&seed)) : sample_f64(i, &seed);
      if (i & 1) x = 1 + ldexp((double)(int64_t)random_bits(&seed), -63 - (int)(random_bits(&seed) % 24));
      y = ldexp((double)(int64_t)random_bits(&seed), (int)(random_bits(&seed) % 20) - 68);
      if (i % 5 == 0) y = rint(y);
      if (i & 2) x = fabs(x), y = log(t == TG_F32 ? 1e38 : 1e308) / log(x) * ldexp((double)(int64_t)random_bits(&seed), -63);
    }
    batch_value v[2] = {{.d = x}, {.d = y}};
    if (t == TG_F32) {
      v[0].f = (float)x, v[1].f = (float)y;
      x = (double)v[0].f, y = (double)v[1].f;
    }
    const batch_value *args[2] = {&v[0], &v[1]}, *r = batch_run(&p, args, 1);
    mpfr_set_d(a, x, MPFR_RNDN);
    mpfr_set_d(b, y, MPFR_RNDN);
    mpfr_pow(a, a, b, MPFR_RNDN);
    double u = t == TG_F32 ? ulps32(r->f, mpfr_get_d(a, MPFR_RNDN), false) : ulps64(r->d, a, true), got = t == TG_F32 ? (double)r->f : r->d;
    if ((size_t)i < n * n && (got == 0 || isinf(got))) CHECK(!!signbit(got) == !!mpfr_signbit(a), "the sign of pow(%a, %a)", x, y);
    if (u > worst) worst = u, ax = x, ay = y;
  }
  mpfr_clears(a, b, (mpfr_ptr)0);
  printf("pow    %s %.3f ulp at %a, %a\n", tg_type_name[t], worst, ax, ay);
  CHECK(worst <= bound, "pow %s: %.3f ulp at %a, %a", tg_type_name[t], worst, ax, ay);
}

static void run(void *all) {
  for (size_t k = 0; k < TG_COUNT(functions); k++) {
    dense_f32(k, *(bool *)all ? 1 : 2039);
    exact_f32(k);
    every_small(k, TG_F16);
    to_half(k);
    every_small(k, TG_BF16);
  }
  special_values(TG_F32);
  power(TG_F32, 100000, 0.51);
  for (size_t k = 0; k < TG_COUNT(functions); k++) dense_f64(k, *(bool *)all ? 2000000 : 20000);
  if (test_failed) return;
  special_values(TG_F64);
  power(TG_F64, 40000, 1);
}

int main(int argc, char **argv) {
  bool all = argc > 1 && !strcmp(argv[1], "all");
  tg_job_init(&job, NULL);
  bool ok = tg_protect(&job.env, run, &all);
  CHECK(ok, "%s", job.env.message);
  tg_job_drop(&job);
  return TEST_END();
}
