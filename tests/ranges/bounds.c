/* SPDX-License-Identifier: MIT
 * Bounds and congruences of every op by itself: operands that are a constant, a range, a multiple and an offset of one, lanes or a parameter, as INDEX and as machine
 * integers that may wrap; every value that they take together is computed from the opcode table, and must lie in what is claimed. Where the values of two operands do
 * not depend on each other, the ends that simple ops claim must be reached as well. */
#include "evaluate.h"
#include "../test.h"

enum { SHAPES = 96, VALUES = 8 };
typedef struct { const tg_uop *u; int64_t value[VALUES]; uint32_t n; bool dense; } operand;   /* dense: without holes */
typedef struct { operand o[SHAPES]; uint32_t n; } operands;

static operand *push(operands *s, const tg_uop *u) {
  s->o[s->n].u = u;
  return &s->o[s->n++];
}

/* lo + step * (0 .. n - 1) */
static void push_progression(tg_job *j, operands *s, const tg_uop *counter, int64_t lo, int64_t step, uint32_t n) {
  const tg_uop *u = counter ? counter : tg_index(j, lo);
  if (counter && step != 1) u = tg_op2(j, TG_OP_MUL, u, tg_index(j, step));
  if (counter && lo) u = tg_op2(j, TG_OP_ADD, u, tg_index(j, lo));
  operand *o = push(s, u);
  for (o->n = 0; o->n < n; o->n++) o->value[o->n] = lo + step * o->n;
  o->dense = step == 1 || step == -1 || n == 1;
}

static void small_operands(tg_job *j, operands *s) {
  static const int64_t at[] = {-9, -8, -4, -1, 0, 1, 2, 3, 6, 7, 12};
  static const struct { int64_t step; uint32_t n; } walks[] = {{1, 2}, {1, 5}, {-1, 4}, {3, 3}, {4, 4}, {-6, 3}};
  const tg_uop *range[8] = {0};
  for (uint32_t n = 2; n < 8; n++) range[n] = tg_range_new(j, "r", tg_index(j, n), TG_LOOP, UINT32_MAX, (tg_pos){0});
  for (uint32_t i = 0; i < TG_COUNT(at); i++) {
    push_progression(j, s, NULL, at[i], 1, 1);
    for (uint32_t w = 0; w < TG_COUNT(walks); w++) push_progression(j, s, range[walks[w].n], at[i], walks[w].step, walks[w].n);
  }
  push_progression(j, s, tg_iota(j, TG_INDEX, 4), 0, 1, 4);
  push_progression(j, s, tg_iota(j, TG_INDEX, 3), -5, 4, 3);
  operand *p = push(s, tg_make(j, TG_OP_PARAM, TG_INDEX, 1, 0, 0, NULL));
  for (p->n = 0; p->n < 5; p->n++) p->value[p->n] = -8 + 4 * (int64_t)p->n;
}

static bool inside(tg_bounds b, tg_i128 v) { return v >= b.lo && v <= b.hi && (b.multiple ? tg_floor_mod(v - b.offset, b.multiple) == 0 : v == b.offset); }

/* Ops whose bounds must be the values' own where operands are dense. */
static bool tight(tg_op op) {
  return op == TG_OP_ADD || op == TG_OP_SUB || op == TG_OP_NEG || op == TG_OP_MIN || op == TG_OP_MAX || op == TG_OP_ABS || op == TG_OP_LT || op == TG_OP_LE;
}

typedef struct { tg_op op; tg_type type, from; uint32_t arity; const operand *a[3]; } one;

/* The operands as values of the type that the op takes; the choice of WHERE is `a < 2`. */
static const tg_uop *in_type(tg_job *j, const one *c, uint32_t k) {
  const tg_uop *u = c->a[k]->u;
  if (c->op == TG_OP_WHERE && !k) return tg_op2(j, TG_OP_LT, u, tg_index(j, 2));
  return c->from == TG_INDEX ? u : tg_cast(j, c->from, u);
}

static tg_value value_in_type(const one *c, uint32_t k, int64_t v) {
  if (c->op == TG_OP_WHERE && !k) return (tg_value){.i = v < 2};
  if (c->from == TG_BOOL) return (tg_value){.i = v != 0};
  return (tg_value){.i = c->from == TG_INDEX ? v : tg_wrap(c->from, v)};
}

static bool check(tg_job *j, const one *c) {
  const tg_uop *src[3];
  tg_i128 lo = 0, hi = 0;
  bool any = false, dense = c->type == TG_INDEX || c->type == TG_BOOL, good = true;
  uint32_t lanes = 1;
  for (uint32_t k = 0; k < c->arity; k++) {
    src[k] = in_type(j, c, k);
    dense &= c->a[k]->dense && c->from == TG_INDEX;
    lanes = src[k]->lanes > lanes ? src[k]->lanes : lanes;
  }
  const tg_uop *u = c->op == TG_OP_CAST ? tg_cast(j, c->type, src[0]) : tg_make(j, c->op, c->type, lanes, 0, c->arity, src);
  tg_bounds b = tg_bounds_of(j, u);
  for (uint32_t x = 0; x < c->a[0]->n; x++)
    for (uint32_t y = 0; y < (c->arity > 1 ? c->a[1]->n : 1); y++)
      for (uint32_t z = 0; z < (c->arity > 2 ? c->a[2]->n : 1); z++) {
        uint32_t at[3] = {x, y, z};
        tg_value v[3], r;
        for (uint32_t k = 0; k < c->arity; k++) v[k] = value_in_type(c, k, c->a[k]->value[at[k]]);
        if (!(c->op == TG_OP_CAST ? tg_convert(c->type, c->from, v[0], &r) : tg_evaluate(c->op, c->type, c->from, v, &r))) return true;
        good &= inside(b, r.i);
        if (!any || r.i < lo) lo = r.i;
        if (!any || r.i > hi) hi = r.i;
        any = true;
      }
  CHECK(good, "%s of %s: [%lld .. %lld], %lld + %lld n: operands %lld .. and %lld .. take it out of that, to %lld or %lld", tg_ops[c->op].name, tg_type_name[c->from], (long long)b.lo,
        (long long)b.hi, (long long)b.offset, (long long)b.multiple, (long long)c->a[0]->value[0], c->arity > 1 ? (long long)c->a[1]->value[0] : 0, (long long)lo, (long long)hi);
  if (good && any && dense && tight(c->op)) {
    good = b.lo == lo && b.hi == hi;
    CHECK(good, "%s: [%lld .. %lld] is claimed, the values are %lld .. %lld", tg_ops[c->op].name, (long long)b.lo, (long long)b.hi, (long long)lo, (long long)hi);
  }
  return good;
}

static void every_op(void *arg) {
  static const tg_type types[] = {TG_INDEX, TG_I8, TG_U8, TG_I32, TG_BOOL};
  tg_job *j = arg;
  operands left = {.n = 0}, right = {.n = 0};   /* of different ranges */
  tg_push(&j->env, &j->params, ((tg_param){.name = "N", .lo = -8, .hi = 8, .multiple = 4}));
  small_operands(j, &left);
  small_operands(j, &right);
  for (uint32_t op = 0; op < TG_OP__COUNT; op++) {
    if (!(tg_ops[op].flags & TG_OPF_W) || op == TG_OP_BITCAST) continue;
    for (uint32_t t = 0; t < TG_COUNT(types); t++) {
      one c = {.op = (tg_op)op, .from = types[t], .type = tg_ops[op].flags & TG_OPF_B ? TG_BOOL : types[t], .arity = (uint32_t)tg_ops[op].arity};
      uint32_t wrong = 0, step = c.arity == 3 ? 5 : 1;
      tg_value probe[3] = {{0}}, r;
      if (op != TG_OP_CAST && !tg_evaluate(c.op, c.type, c.from, probe, &r)) continue;
      for (uint32_t x = 0; x < left.n && wrong < 2; x += step)
        for (uint32_t y = 0; y < (c.arity > 1 ? right.n : 1) && wrong < 2; y += step)
          for (uint32_t z = 0; z < (c.arity > 2 ? right.n : 1) && wrong < 2; z += step) {
            c.a[0] = &left.o[x];
            c.a[1] = &right.o[y];
            c.a[2] = &left.o[(z + y) % left.n];
            if (op != TG_OP_CAST) wrong += !check(j, &c);
            else
              for (uint32_t to = 0; to < TG_COUNT(types); to++) {
                c.type = types[to];
                wrong += !check(j, &c);
              }
          }
    }
  }
}

int main(void) {
  static tg_job j;
  tg_job_init(&j, NULL);
  CHECK(tg_protect(&j.env, every_op, &j), "%s", j.env.message);
  tg_job_drop(&j);
  return TEST_END();
}
