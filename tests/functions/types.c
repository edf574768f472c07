/* SPDX-License-Identifier: MIT
 * Pass types: conversions of the small floats to every value and back, arithmetic on them, each against tables of values. */
#include <float.h>
#include <math.h>
#include <mpfr.h>
#include "batch.h"
#include "lower/lower.h"
#include "test.h"

static tg_job job;
static tg_target with, without;   /* f16 conversions */
static const tg_type smalls[] = {TG_F16, TG_BF16, TG_E4M3, TG_E5M2};

static uint64_t random_bits(uint64_t *s) {
  *s += 0x9E3779B97F4A7C15u;
  uint64_t z = (*s ^ *s >> 30) * 0xBF58476D1CE4E5B9u;
  z = (z ^ z >> 27) * 0x94D049BB133111EBu;
  return z ^ z >> 31;
}

static const tg_uop *arg(tg_type t, int i) { return tg_make(&job, TG_OP_ARG, t, 1, i, 0, NULL); }
static const tg_uop *lower(const tg_uop *u, const tg_target *t) { return tg_pass_types(&job, &(tg_lowering){.target = t}, u); }
static int bits_of(tg_type t) { return tg_type_bits(t); }

/* What is left may be done by the emitter alone: no arithmetic on small floats, no conversion that is not its own. */
static void only_legal(const tg_uop *root, const tg_target *k) {
  uint32_t n;
  const tg_uop **order = tg_toposort(&job, root, &n);
  for (uint32_t i = 0; i < n; i++) {
    const tg_uop *u = order[i];
    for (uint32_t s = 0; s <= u->n; s++) {
      tg_type t = (tg_type)(s < u->n ? u->src[s]->type : u->type);
      if (!tg_is_float(t) || t == TG_F32 || t == TG_F64) continue;
      bool fine = u->op == TG_OP_BITCAST || u->op == TG_OP_ARG || (u->op == TG_OP_CAST && (t == TG_BF16 || (t == TG_F16 && k->f16_convert)));
      CHECK(fine, "%s on %s is left", tg_ops[u->op].name, tg_type_name[t]);
    }
  }
}

static void small_to_others(tg_type from, const tg_target *k) {
  static const tg_type others[] = {TG_F32, TG_F64, TG_I32, TG_BOOL, TG_F16, TG_BF16, TG_E4M3, TG_E5M2};
  for (size_t o = 0; o < TG_COUNT(others); o++) {
    tg_type to = others[o];
    if (to == from) continue;
    const tg_uop *u = lower(tg_cast(&job, to, arg(from, 0)), k);
    only_legal(u, k);
    batch_program p = batch_prepare(&job, u);
    int wrong = 0;
    for (uint32_t b = 0; b < 1u << bits_of(from); b++) {
      double v = batch_decode(from, b);
      if (to == TG_I32 && (fabs(v) > 2e9 || isinf(v))) continue;   /* saturation is the emitter's */
      batch_value x = {.u = b};
      const batch_value *a[1] = {&x}, *r = batch_run(&p, a, 1);
      bool ok;
      if (to == TG_F32) ok = v != v ? r->f != r->f : (double)r->f == v && !!signbit(r->f) == !!signbit(v);
      else if (to == TG_F64) ok = v != v ? r->d != r->d : r->d == v && !!signbit(r->d) == !!signbit(v);
      else if (to == TG_I32) ok = r->i == (v != v ? 0 : (int64_t)v);
      else if (to == TG_BOOL) ok = r->i == (v != 0);
      else ok = v != v ? isnan(batch_decode(to, (uint32_t)r->u)) : r->u == batch_encode(to, v);
      wrong += !ok;
    }
    CHECK(!wrong, "%s to %s: %d values", tg_type_name[from], tg_type_name[to], wrong);
  }
}

/* Every value of the type, the points halfway to the next, and their neighbours; then a stride through all f32. */
static uint32_t float_point(tg_type t, uint32_t i, bool *more) {
  uint32_t count = 1u << bits_of(t), b;
  *more = true;
  if (i < 5 * count) {
    double v = batch_decode(t, i / 5), next = batch_decode(t, (i / 5 + 1) & (count - 1));
    float f = (float)(isinf(next) || isnan(next) || i % 5 < 2 ? v : (v + next) / 2);
    memcpy(&b, &f, 4);
    return b + (i % 5 == 3) - (i % 5 == 4) + (i % 5 == 1);
  }
  uint64_t at = (uint64_t)(i - 5 * count) * 9973;
  *more = at <= UINT32_MAX;
  return (uint32_t)at;
}

static void float_to_small(tg_type to, const tg_target *k) {
  const tg_uop *u = lower(tg_cast(&job, to, arg(TG_F32, 0)), k);
  only_legal(u, k);
  batch_program p = batch_prepare(&job, u);
  int wrong = 0;
  bool more = true;
  for (uint32_t i = 0; more;) {
    batch_value x[BATCH];
    int n = 0;
    for (; n < BATCH; n++, i++) {
      uint32_t b = float_point(to, i, &more);
      if (!more) break;
      memcpy(&x[n].f, &b, 4);
    }
    const batch_value *a[1] = {x}, *r = batch_run(&p, a, n);
    for (int q = 0; q < n; q++) wrong += r[q].u != batch_encode(to, (double)x[q].f);
  }
  CHECK(!wrong, "f32 to %s: %d values", tg_type_name[to], wrong);
}

/* Halves that a first rounding to f32 would create or hide. */
static void double_to_small(tg_type to, const tg_target *k) {
  if (to == TG_BF16 || (to == TG_F16 && k->f16_convert)) return;
  batch_program p = batch_prepare(&job, lower(tg_cast(&job, to, arg(TG_F64, 0)), k));
  int wrong = 0;
  for (uint32_t b = 0; b + 1 < 1u << (bits_of(to) - 1); b++)
    for (int i = 0; i < 8; i++) {
      double v = batch_decode(to, b), next = batch_decode(to, b + 1), mid = (v + next) / 2;
      if (isnan(next) || isinf(next)) mid = v * 1.03125;
      double x = i == 0 ? mid : i == 1 ? nextafter(mid, 0) : i == 2 ? nextafter(mid, INFINITY) : i == 3 ? mid * (1 - 0x1p-40) : i == 4 ? mid * (1 + 0x1p-30) : i == 5 ? v : i == 6 ? mid * 1e30 : mid * 1e-200;
      if (b & 1) x = -x;
      batch_value a = {.d = x};
      const batch_value *in[1] = {&a};
      wrong += batch_run(&p, in, 1)->u != batch_encode(to, x);
    }
  CHECK(!wrong, "f64 to %s: %d values", tg_type_name[to], wrong);
}

static void integer_to_small(tg_type from, tg_type to, const tg_target *k) {
  if (to == TG_BF16 || (to == TG_F16 && k->f16_convert)) return;
  batch_program p = batch_prepare(&job, lower(tg_cast(&job, to, arg(from, 0)), k));
  int wrong = 0, bits = bits_of(from);
  uint64_t seed = 3;
  for (int i = 0; i < 20000; i++) {
    uint64_t r = i < 4000 ? (uint64_t)(i * 33) : random_bits(&seed) >> (random_bits(&seed) & 63);
    if (tg_is_signed(from) && (i & 1)) r = 0 - r;
    int64_t v = bits == 64 ? (int64_t)r : tg_is_signed(from) ? (int64_t)(r << (64 - bits)) >> (64 - bits) : (int64_t)(r & (((uint64_t)1 << bits) - 1));
    double d = from == TG_U64 ? (double)(uint64_t)v : (double)v;   /* a rounding here is far above every small type's last place */
    batch_value a = {.i = v};
    const batch_value *in[1] = {&a};
    wrong += batch_run(&p, in, 1)->u != batch_encode(to, d);
  }
  CHECK(!wrong, "%s to %s: %d values", tg_type_name[from], tg_type_name[to], wrong);
}

/* To the nearest, from the exact value. Rounding it to odd in 53 bits first keeps all that matters: the small types have far fewer. */
static uint32_t encode_exact(tg_type t, const mpfr_t v) {
  double d = mpfr_get_d(v, MPFR_RNDZ);
  uint64_t b;
  memcpy(&b, &d, 8);
  if (mpfr_number_p(v) && mpfr_cmp_d(v, d)) b |= 1;
  memcpy(&d, &b, 8);
  return batch_encode(t, d);
}

static void arithmetic(tg_type t, const tg_target *k) {
  static const tg_op ops[] = {TG_OP_ADD, TG_OP_MUL, TG_OP_FDIV, TG_OP_FMA, TG_OP_MAX, TG_OP_LT, TG_OP_NEG, TG_OP_ABS, TG_OP_SQRT};
  mpfr_t x, y, z;
  mpfr_init2(x, 700);
  mpfr_init2(y, 700);
  mpfr_init2(z, 700);
  for (size_t o = 0; o < TG_COUNT(ops); o++) {
    tg_op op = ops[o];
    int arity = tg_ops[op].arity, wrong = 0;
    const tg_uop *u = lower(arity == 1 ? tg_op1(&job, op, arg(t, 0)) : arity == 2 ? tg_op2(&job, op, arg(t, 0), arg(t, 1)) : tg_op3(&job, op, arg(t, 0), arg(t, 1), arg(t, 2)), k);
    only_legal(u, k);
    batch_program p = batch_prepare(&job, u);
    uint64_t seed = 11 + o, mask = ((uint64_t)1 << bits_of(t)) - 1;
    for (int i = 0; i < 40000; i++) {
      batch_value v[3];
      double d[3];
      for (int q = 0; q < 3; q++) d[q] = batch_decode(t, (uint32_t)(v[q].u = random_bits(&seed) & mask));
      if (op == TG_OP_FMA && (i & 1)) d[2] = batch_decode(t, (uint32_t)(v[2].u = batch_encode(t, d[0] * d[1] * ldexp(1, -(int)(random_bits(&seed) % 70)))));
      const batch_value *a[3] = {&v[0], &v[1], &v[2]};
      uint32_t got = (uint32_t)batch_run(&p, a, 1)->u, want;
      mpfr_set_d(x, d[0], MPFR_RNDN);
      mpfr_set_d(y, d[1], MPFR_RNDN);
      mpfr_set_d(z, d[2], MPFR_RNDN);
      switch (op) {
      case TG_OP_ADD: mpfr_add(x, x, y, MPFR_RNDN); break;
      case TG_OP_MUL: mpfr_mul(x, x, y, MPFR_RNDN); break;
      case TG_OP_FDIV: mpfr_div(x, x, y, MPFR_RNDN); break;
      case TG_OP_FMA: mpfr_fma(x, x, y, z, MPFR_RNDN); break;
      case TG_OP_MAX: if (mpfr_nan_p(y) || mpfr_cmp(y, x) > 0 || (d[1] == 0 && d[0] == 0 && !signbit(d[1]))) mpfr_set(x, mpfr_nan_p(x) ? x : y, MPFR_RNDN); break;
      case TG_OP_NEG: mpfr_neg(x, x, MPFR_RNDN); break;
      case TG_OP_ABS: mpfr_abs(x, x, MPFR_RNDN); break;
      case TG_OP_SQRT: mpfr_sqrt(x, x, MPFR_RNDN); break;
      default: break;
      }
      want = op == TG_OP_LT ? d[0] < d[1] : encode_exact(t, x);
      double g = batch_decode(t, got), w = batch_decode(t, want);
      wrong += op == TG_OP_LT ? got != want : !(g != g && w != w) && got != want;
    }
    CHECK(!wrong, "%s on %s: %d of 40000", tg_ops[op].name, tg_type_name[t], wrong);
  }
  mpfr_clear(x);
  mpfr_clear(y);
  mpfr_clear(z);
}

/* Of f64 (and f32) on a target that has no FMA: against the C library's, on values whose sums cancel, lie far apart, overflow, and end below the least normal value. */
static void fma_without(void) {
  const tg_uop *u = lower(tg_op3(&job, TG_OP_FMA, arg(TG_F64, 0), arg(TG_F64, 1), arg(TG_F64, 2)), &without);
  const tg_uop *half = lower(tg_op3(&job, TG_OP_FMA, arg(TG_F32, 0), arg(TG_F32, 1), arg(TG_F32, 2)), &without);
  static const double edges[] = {0, -0.0, 1, -1, INFINITY, -INFINITY, NAN, DBL_MIN, -DBL_MIN, DBL_MAX, -DBL_MAX, 0x1p-1074, -0x1p-1074, 0x1.fffffffffffffp-1023, 0x1.0000000000001p0, 0x1p-537, -0x1p-538, 0x1p512, 3};
  const int all = TG_COUNT(edges) * TG_COUNT(edges) * TG_COUNT(edges), random = 200000;
  uint32_t n, fmas = 0;
  const tg_uop **order = tg_toposort(&job, u, &n);
  for (uint32_t i = 0; i < n; i++) fmas += order[i]->op == TG_OP_FMA;
  order = tg_toposort(&job, half, &n);
  for (uint32_t i = 0; i < n; i++) fmas += order[i]->op == TG_OP_FMA;
  CHECK(!fmas, "%u are left", fmas);
  batch_program p = batch_prepare(&job, u);
  uint64_t seed = 5;
  int wrong = 0;
  for (int i = 0; i < all + random; i++) {
    batch_value v[3];
    if (i < all) v[0].d = edges[i % TG_COUNT(edges)], v[1].d = edges[i / TG_COUNT(edges) % TG_COUNT(edges)], v[2].d = edges[i / (TG_COUNT(edges) * TG_COUNT(edges))];
    for (int q = 0; q < 3 && i >= all; q++) v[q].u = random_bits(&seed);
    if (i >= all && i % 4) {   /* products whose exponent is where something happens, and c about as large, less or more */
      int at = i % 4 == 1 ? 0 : i % 4 == 2 ? -1030 : -1070, e = (int)(random_bits(&seed) % 1000) - 500;
      for (int q = 0; q < 3; q++) v[q].u = (v[q].u & 0x800fffffffffffff) | 0x3ff0000000000000;
      if (i % 3 == 0) v[0].u &= ~(uint64_t)0xffffffff, v[1].u &= ~(uint64_t)0x1fffff;   /* few digits: ties */
      v[0].d = ldexp(v[0].d, e), v[1].d = ldexp(v[1].d, at + (int)(random_bits(&seed) % 60) - e);
      double c = i % 5 ? ldexp(v[2].d, at + (int)(random_bits(&seed) % 240) - 120) : -(v[0].d * v[1].d);
      v[2].d = c;
    }
    const batch_value *a[3] = {&v[0], &v[1], &v[2]};
    double got = batch_run(&p, a, 1)->d, want = fma(v[0].d, v[1].d, v[2].d);
    bool same = want != want ? got != got : got == want && !!signbit(got) == !!signbit(want);
    if (!same && wrong++ < 5) CHECK(same, "fma(%a, %a, %a) is %a, not %a", v[0].d, v[1].d, v[2].d, got, want);
  }
  CHECK(!wrong, "%d of %d", wrong, all + random);
}

/* Functions over vectors: the same definition, its width the operand's, and of f16 and bf16 too. */
static void vectors(void) {
  static const tg_type types[] = {TG_F16, TG_BF16, TG_F32, TG_F64};
  for (int op = TG_OP_RSQRT; op <= TG_OP_POW; op++)
    for (size_t i = 0; i < TG_COUNT(types); i++) {
      const tg_uop *x[2] = {tg_make(&job, TG_OP_ARG, types[i], 16, 7, 0, NULL), arg(types[i], 8)};
      const tg_uop *u = tg_make(&job, (tg_op)op, types[i], 16, 0, (uint32_t)tg_ops[op].arity, x);
      u = lower(tg_pass_functions(&job, &(tg_lowering){.target = &with}, u), &with);
      CHECK(u->lanes == 16 && u->type == types[i], "%s of 16 %s has %u lanes", tg_ops[op].text, tg_type_name[types[i]], u->lanes);
      uint32_t n;
      const tg_uop **order = tg_toposort(&job, u, &n);
      for (uint32_t k = 0; k < n; k++) CHECK(!(order[k]->op >= TG_OP_RSQRT && order[k]->op <= TG_OP_POW), "%s is left", tg_ops[order[k]->op].text);
      only_legal(u, &with);
    }
}

static void run(void *user) {
  (void)user;
  vectors();
  fma_without();
  const tg_target *targets[2] = {&with, &without};
  for (int k = 0; k < 2; k++)
    for (size_t i = 0; i < TG_COUNT(smalls); i++) {
      small_to_others(smalls[i], targets[k]);
      float_to_small(smalls[i], targets[k]);
      double_to_small(smalls[i], targets[k]);
      for (tg_type from = TG_I8; from <= TG_U64; from++) integer_to_small(from, smalls[i], targets[k]);
      arithmetic(smalls[i], targets[k]);
    }
}

int main(void) {
  with.f16_convert = with.fma = true;
  tg_job_init(&job, NULL);
  bool ok = tg_protect(&job.env, run, NULL);
  CHECK(ok, "%s", job.env.message);
  tg_job_drop(&job);
  return TEST_END();
}
