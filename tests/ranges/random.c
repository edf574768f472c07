/* SPDX-License-Identifier: MIT
 * Random expressions: simplified, they have the same value wherever the original has one, lie in the bounds claimed
 * for them, and simplifying again gives the same node. */
#include "evaluate.h"
#include "../test.h"

enum { EXPRESSIONS = 20000, POINTS = 64, PER_JOB = 500 };

typedef struct { tg_job *j; uint64_t seed; const tg_uop *range[4], *param[2]; uint32_t args; } maker;

static const tg_uop *index_leaf(maker *m) {
  switch (below(&m->seed, 8)) {
  case 0: return m->param[below(&m->seed, 2)];
  case 1: case 2: return tg_index(m->j, (int64_t)below(&m->seed, 40) - 12);
  default: return m->range[below(&m->seed, 4)];
  }
}

static const tg_uop *make(maker *m, tg_type t, int depth);

static const tg_uop *make_bool(maker *m, int depth, tg_type operand) {
  static const tg_op compare[] = {TG_OP_LT, TG_OP_LE, TG_OP_EQ, TG_OP_NE}, logic[] = {TG_OP_AND, TG_OP_OR, TG_OP_XOR};
  uint32_t k = depth > 0 ? below(&m->seed, 5) : 4;
  if (k < 2) return tg_op2(m->j, logic[below(&m->seed, 3)], make_bool(m, depth - 1, operand), make_bool(m, depth - 1, operand));
  if (k == 2) return tg_op1(m->j, TG_OP_NOT, make_bool(m, depth - 1, operand));
  return tg_op2(m->j, compare[below(&m->seed, 4)], make(m, operand, depth - 1), make(m, operand, depth - 1));
}

static const tg_uop *make(maker *m, tg_type t, int depth) {
  static const tg_op index[] = {TG_OP_ADD, TG_OP_ADD, TG_OP_SUB, TG_OP_MUL, TG_OP_IDIV, TG_OP_IDIV, TG_OP_MOD, TG_OP_MOD, TG_OP_MAX, TG_OP_MIN, TG_OP_NEG, TG_OP_CDIV, TG_OP_CMOD},
                     wrap[] = {TG_OP_ADD, TG_OP_SUB, TG_OP_MUL, TG_OP_IDIV, TG_OP_MOD, TG_OP_MAX, TG_OP_MIN, TG_OP_NEG, TG_OP_AND, TG_OP_OR, TG_OP_XOR, TG_OP_NOT, TG_OP_SHL, TG_OP_SHR, TG_OP_CDIV, TG_OP_CMOD, TG_OP_ABS},
                     real[] = {TG_OP_ADD, TG_OP_SUB, TG_OP_MUL, TG_OP_FDIV, TG_OP_MAX, TG_OP_MIN, TG_OP_NEG, TG_OP_ABS, TG_OP_FLOOR};
  static const tg_type types[] = {TG_I8, TG_U8, TG_I32, TG_U32, TG_I64, TG_F32, TG_F16, TG_INDEX};
  if (t == TG_BOOL) return make_bool(m, depth, types[below(&m->seed, 8)]);
  if (depth <= 0 || !below(&m->seed, 6)) {
    if (t == TG_INDEX) return index_leaf(m);
    if (!below(&m->seed, 3)) return tg_const_of(m->j, t, boundary(t, &m->seed));
    return tg_cast(m->j, t, tg_make(m->j, TG_OP_ARG, TG_I32 + (int)below(&m->seed, 2), 1, below(&m->seed, 4), 0, NULL));
  }
  if (!below(&m->seed, 9)) return tg_op3(m->j, TG_OP_WHERE, make_bool(m, depth - 2, t), make(m, t, depth - 1), make(m, t, depth - 1));
  if (t != TG_INDEX && !below(&m->seed, 6)) return tg_cast(m->j, t, make(m, types[below(&m->seed, 7)], depth - 1));
  tg_op op = t == TG_INDEX ? index[below(&m->seed, TG_COUNT(index))] : tg_is_float(t) ? real[below(&m->seed, TG_COUNT(real))] : wrap[below(&m->seed, TG_COUNT(wrap))];
  const tg_uop *a = make(m, t, depth - 1);
  if (tg_ops[op].arity == 1) return tg_op1(m->j, op, a);
  bool by_constant = t == TG_INDEX && (op == TG_OP_IDIV || op == TG_OP_MOD) && below(&m->seed, 8);
  return tg_op2(m->j, op, a, by_constant ? tg_index(m->j, (int64_t)below(&m->seed, 24) - 4) : make(m, t, depth - 1));
}

static void point(maker *m, leaves *at) {
  for (int i = 0; i < 4; i++) {
    at->range[i].i = below(&m->seed, (uint32_t)tg_extent(m->range[i])->arg);
    at->arg[i] = boundary(TG_I32, &m->seed);
  }
  at->param[0].i = 1 + below(&m->seed, 100);
  at->param[1].i = 16 * ((int)below(&m->seed, 9) - 4);
}

static bool check(maker *m, const tg_rules *r, const tg_uop *u) {
  tg_job *j = m->j;
  const tg_uop *s = tg_simplify(j, r, u);
  CHECK(tg_simplify(j, r, s) == s, "seed %llu: simplifying twice", (unsigned long long)m->seed);
  program p = program_of(j, u), q = program_of(j, s);
  tg_bounds b = tg_bounds_of(j, u), c = tg_bounds_of(j, s);
  bool same = true;
  for (int k = 0; k < POINTS && same; k++) {
    leaves at = {0};
    tg_value x, y;
    point(m, &at);
    if (!run_program(&p, &at, &x)) continue;
    same = run_program(&q, &at, &y) && same_value(u->type, x, y);
    if (!tg_is_float(u->type)) {
      same = same && x.i >= b.lo && x.i <= b.hi && x.i >= c.lo && x.i <= c.hi;
      same = same && (!b.multiple || tg_floor_mod(x.i - b.offset, b.multiple) == 0) && (!c.multiple || tg_floor_mod(x.i - c.offset, c.multiple) == 0);
    }
    if (!same) fprintf(stderr, "point %d of %s: %lld (%g), then %lld (%g); bounds %lld..%lld and %lld..%lld\n", k, tg_type_name[u->type], (long long)x.i, x.f, (long long)y.i, y.f, (long long)b.lo, (long long)b.hi, (long long)c.lo, (long long)c.hi);
  }
  program_drop(&p);
  program_drop(&q);
  return same;
}

static void dump(const tg_uop *u) {
  if (u->op == TG_OP_CONST) fprintf(stderr, "%lld", (long long)u->arg);
  else if (!u->n || u->op == TG_OP_RANGE) fprintf(stderr, "%c%d", tg_ops[u->op].name[0], (int)(uint32_t)u->arg);
  else {
    fprintf(stderr, "%s:%s(", tg_ops[u->op].name, tg_type_name[u->type]);
    for (uint32_t i = 0; i < u->n; i++) {
      if (i) fprintf(stderr, ", ");
      dump(u->src[i]);
    }
    fprintf(stderr, ")");
  }
}

typedef struct { tg_job *j; uint64_t seed; } work;

static void run_some(void *arg) {
  const work *w = arg;
  tg_job *j = w->j;
  const tg_rules *r = tg_rules_compile(&j->env);
  maker m = {.j = j, .seed = w->seed};
  static const int64_t extent[] = {16, 7, 128, 3};
  static const tg_type types[] = {TG_INDEX, TG_INDEX, TG_INDEX, TG_BOOL, TG_I8, TG_I32, TG_U32, TG_U8, TG_F32, TG_F16, TG_I64};
  for (int i = 0; i < 4; i++) m.range[i] = tg_range_new(j, "r", tg_index(j, extent[i]), TG_LOOP, UINT32_MAX, (tg_pos){0});
  tg_push(&j->env, &j->params, ((tg_param){.name = "M", .lo = 1, .hi = 100, .multiple = 1}));
  tg_push(&j->env, &j->params, ((tg_param){.name = "N", .lo = -64, .hi = 64, .multiple = 16}));
  for (int i = 0; i < 2; i++) m.param[i] = tg_make(j, TG_OP_PARAM, TG_INDEX, 1, i, 0, NULL);
  for (int i = 0; i < PER_JOB; i++) {
    uint64_t seed = m.seed;
    const tg_uop *u = make(&m, types[below(&m.seed, TG_COUNT(types))], 2 + (int)below(&m.seed, 5));
    bool same = check(&m, r, u);
    CHECK(same, "seed %llu", (unsigned long long)seed);
    if (same) continue;
    dump(u);
    fprintf(stderr, "\n  -> ");
    dump(tg_simplify(j, r, u));
    fprintf(stderr, "\n");
  }
}

int main(void) {
  for (int i = 0; i < EXPRESSIONS / PER_JOB; i++) {
    static tg_job j;
    work w = {&j, (uint64_t)i * 1000003 + 17};
    tg_job_init(&j, NULL);
    CHECK(tg_protect(&j.env, run_some, &w), "%s", j.env.message);
    tg_job_drop(&j);
  }
  return TEST_END();
}
