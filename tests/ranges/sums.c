/* SPDX-License-Identifier: MIT
 * The C functions of sums, quotients, remainders and comparisons: random instances of each shape that they treat, compared
 * with the original at every point of the ranges, small enough to be enumerated. Each function must change many of
 * them; what it gives must lie in the bounds claimed, and must be left alone the second time. */
#include "evaluate.h"
#include "../test.h"

enum { SHAPES = 12, INSTANCES = 500 * SHAPES, PER_JOB = 500, RANGES = 3 };

typedef struct { tg_job *j; const tg_rules *r; uint64_t seed; const tg_uop *range[RANGES], *param; uint32_t changed[SHAPES]; } maker;

static int64_t number(maker *m, int lo, int hi) { return lo + (int)below(&m->seed, (uint32_t)(hi - lo + 1)); }
static const tg_uop *sum2(maker *m, const tg_uop *a, const tg_uop *b) { return tg_op2(m->j, TG_OP_ADD, a, b); }
static const tg_uop *times(maker *m, const tg_uop *a, int64_t c) { return tg_op2(m->j, TG_OP_MUL, a, tg_index(m->j, c)); }

/* c0 + c1 * r1 + .., coefficients that share factors with `near`. */
static const tg_uop *sum_of(maker *m, int64_t near) {
  const tg_uop *u = tg_index(m->j, number(m, -20, 20));
  for (int i = 0; i < RANGES; i++) {
    int64_t c = below(&m->seed, 3) ? number(m, -6, 6) : near * number(m, -2, 2);
    if (!below(&m->seed, 4)) continue;
    const tg_uop *t = times(m, m->range[i], c);
    u = below(&m->seed, 4) ? sum2(m, u, t) : tg_op2(m->j, TG_OP_SUB, t, u);
  }
  if (!below(&m->seed, 5)) u = sum2(m, u, times(m, m->param, near * number(m, -1, 1)));
  return below(&m->seed, 8) ? u : tg_op1(m->j, TG_OP_NEG, u);
}

static const tg_uop *divided(maker *m, tg_op op, const tg_uop *u, int64_t c) { return tg_op2(m->j, op, u, tg_index(m->j, c)); }

/* The shapes: what each C function was written for. */
static const tg_uop *shape(maker *m, uint32_t which) {
  static const tg_op compare[] = {TG_OP_LT, TG_OP_LE, TG_OP_EQ, TG_OP_NE};
  int64_t c = number(m, 1, 12), d = number(m, 1, 6), n = number(m, -9, 9);
  const tg_uop *x = sum_of(m, c), *y = sum_of(m, d);
  switch (which) {
  case 0: return sum2(m, x, times(m, y, n));                                                                          /* merging */
  case 1: return tg_op2(m->j, TG_OP_MUL, tg_op2(m->j, TG_OP_MUL, times(m, m->range[0], d), m->param), times(m, m->range[1], n));   /* products */
  case 2: return sum2(m, times(m, divided(m, TG_OP_MOD, x, c), d), times(m, divided(m, TG_OP_IDIV, x, below(&m->seed, 3) ? c : d), c * d));    /* recombined, or nearly */
  case 3: return divided(m, TG_OP_IDIV, x, below(&m->seed, 8) ? c : n);
  case 4: return divided(m, TG_OP_MOD, x, below(&m->seed, 8) ? c : n);
  case 5: return divided(m, below(&m->seed, 2) ? TG_OP_IDIV : TG_OP_MOD, sum2(m, divided(m, below(&m->seed, 2) ? TG_OP_IDIV : TG_OP_MOD, x, c * d), tg_index(m->j, n)), c); /* digits */
  case 6: return tg_op2(m->j, compare[below(&m->seed, 4)], x, y);
  case 7: return tg_op2(m->j, compare[below(&m->seed, 4)], times(m, x, d), times(m, sum2(m, y, tg_index(m->j, n)), d));
  case 8: { /* a digit and what is above it, or nearly: of another digit, by another divisor, times something else */
    bool alone = below(&m->seed, 2);
    int64_t a = number(m, 2, 4);
    if (alone) x = sum2(m, m->range[0], times(m, m->range[1], tg_extent(m->range[0])->arg)), a = 2, c = number(m, 2, 4);
    int64_t above = below(&m->seed, 2) ? c * a : c * number(m, 1, 4), by = d * (below(&m->seed, 2) ? c : c + 1);
    return sum2(m, times(m, divided(m, TG_OP_MOD, divided(m, TG_OP_IDIV, x, a), c), d), times(m, divided(m, TG_OP_IDIV, x, above), by));
  }
  case 9: return divided(m, TG_OP_IDIV, divided(m, TG_OP_MOD, x, c * d + number(m, 0, 1)), c);   /* a digit, or nearly */
  case 10: return divided(m, TG_OP_MOD, sum2(m, times(m, divided(m, TG_OP_MOD, x, c * d), number(m, 1, 3)), divided(m, TG_OP_MOD, y, c + number(m, 0, 1))), c);
  default: { /* a multiple, and a part that is no multiple and never below some number */
    const tg_uop *part = tg_op2(m->j, TG_OP_MAX, m->range[below(&m->seed, RANGES)], tg_index(m->j, number(m, 5, 12)));
    int64_t g = number(m, 2, 6);
    return divided(m, below(&m->seed, 2) ? TG_OP_IDIV : TG_OP_MOD, sum2(m, times(m, y, g), sum2(m, part, tg_index(m->j, n))), g * d);
  }
  }
}

static bool inside(tg_bounds b, tg_i128 v) { return v >= b.lo && v <= b.hi && (b.multiple ? tg_floor_mod(v - b.offset, b.multiple) == 0 : v == b.offset); }

static bool same_everywhere(maker *m, const tg_uop *u, const tg_uop *s) {
  program p = program_of(m->j, u), q = program_of(m->j, s);
  tg_bounds b = tg_bounds_of(m->j, u), c = tg_bounds_of(m->j, s);
  bool same = true;
  leaves at = {0};
  int64_t n[RANGES];
  for (int i = 0; i < RANGES; i++) n[i] = tg_extent(m->range[i])->arg;
  for (at.range[0].i = 0; at.range[0].i < n[0] && same; at.range[0].i++)
    for (at.range[1].i = 0; at.range[1].i < n[1] && same; at.range[1].i++)
      for (at.range[2].i = 0; at.range[2].i < n[2] && same; at.range[2].i++)
        for (at.param[0].i = -8; at.param[0].i <= 8 && same; at.param[0].i += 4) {
          tg_value x, y;
          same = run_program(&p, &at, &x) && run_program(&q, &at, &y) && x.i == y.i && inside(b, x.i) && inside(c, x.i);
        }
  program_drop(&p);
  program_drop(&q);
  return same;
}

static void run_some(void *arg) {
  maker *m = arg;
  tg_job *j = m->j;
  m->r = tg_rules_compile(&j->env);
  for (int i = 0; i < RANGES; i++) m->range[i] = tg_range_new(j, "r", tg_index(j, 2 + (int)below(&m->seed, 11)), TG_LOOP, UINT32_MAX, (tg_pos){0});
  tg_push(&j->env, &j->params, ((tg_param){.name = "N", .lo = -8, .hi = 8, .multiple = 4}));
  m->param = tg_make(j, TG_OP_PARAM, TG_INDEX, 1, 0, 0, NULL);
  for (uint32_t i = 0; i < PER_JOB; i++) {
    uint64_t seed = m->seed;
    const tg_uop *u = shape(m, i % SHAPES), *s = tg_simplify(j, m->r, u);
    m->changed[i % SHAPES] += s != u;
    CHECK(same_everywhere(m, u, s), "shape %u, seed %llu: another value, or out of its bounds", i % SHAPES, (unsigned long long)seed);
    CHECK(tg_simplify(j, m->r, s) == s, "shape %u, seed %llu: simplifying twice", i % SHAPES, (unsigned long long)seed);
  }
}

/* A sum, taken apart and built again, in any order of its terms, is one node. */
static void one_form(void *arg) {
  maker *m = arg;
  tg_job *j = m->j;
  const tg_rules *r = tg_rules_compile(&j->env);
  const tg_uop *a[6], *minus[6];   /* terms, and the same negated */
  for (int i = 0; i < 6; i++) {
    const tg_uop *range = tg_range_new(j, "r", tg_index(j, 9), TG_LOOP, UINT32_MAX, (tg_pos){0});
    a[i] = times(m, range, i - 3);
    minus[i] = times(m, range, 3 - i);
  }
  const tg_uop *first = NULL;
  for (int k = 0; k < 200; k++) {
    const tg_uop *u = tg_index(j, 5);
    for (int i = 5; i > 0; i--) {
      uint32_t o = below(&m->seed, (uint32_t)i + 1);
      const tg_uop *t = a[i], *n = minus[i];
      a[i] = a[o], a[o] = t;
      minus[i] = minus[o], minus[o] = n;
    }
    for (int i = 0; i < 6; i++)
      switch (below(&m->seed, 3)) {
      case 0: u = sum2(m, u, a[i]); break;
      case 1: u = sum2(m, a[i], u); break;
      default: u = tg_op2(j, TG_OP_SUB, u, minus[i]);
      }
    const tg_uop *s = tg_simplify(j, r, u);
    if (!first) first = s;
    CHECK(s == first, "sums of the same terms are two nodes");
    tg_linear l;
    tg_linear_of(j, u, &l);
    CHECK(tg_linear_build(j, &l) == s, "the linear form builds another node");
  }
}

int main(void) {
  static tg_job j;
  maker m = {.j = &j, .seed = 5};
  for (int i = 0; i < INSTANCES / PER_JOB; i++) {
    tg_job_init(&j, NULL);
    CHECK(tg_protect(&j.env, run_some, &m), "%s", j.env.message);
    tg_job_drop(&j);
  }
  for (int i = 0; i < SHAPES; i++) CHECK(m.changed[i] > INSTANCES / SHAPES / 2, "of shape %d only %u are changed", i, m.changed[i]);
  tg_job_init(&j, NULL);
  CHECK(tg_protect(&j.env, one_form, &m), "%s", j.env.message);
  tg_job_drop(&j);
  return TEST_END();
}
