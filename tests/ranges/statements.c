/* SPDX-License-Identifier: MIT
 * Simplifying programs: stores that never happen, gates that always hold, loops of no iteration or of nothing go, and the versions
 * of what is left are those that its statements would have been given; lanes stay where they mean something; the trace says what
 * fired on what. */
#include "../test.h"
#include "dsl/text.h"
#include "ranges/ranges.h"

/* before and after: bodies; after NULL: nothing is left but the buffers. */
typedef struct { const char *before, *after; } row;

#define HEAD "in(x, f32, [64]); in(k, i32, [64]); out(y, f32, [64]); inout(z, f32, [64]);\n"

static const row rows[] = {
  {"range(i, 64) y[i] = x[i] if false;", ""},
  {"range(i, 64) y[i] = x[i] if true;", "range(i, 64) y[i] = x[i];"},
  {"range(i, 64) y[i] = x[i] if i < 64;", "range(i, 64) y[i] = x[i];"},
  {"range(i, 64) y[i] = x[i] if i >= 64;", ""},
  {"range(i, 64) { y[i] = x[i]; z[i] = y[i] if i < 0; }", "range(i, 64) y[i] = x[i];"},
  {"range(i, 0) y[i] = x[i];", ""},
  {"range(i, 64) { y[i] = 1; range(j, 0) z[j] = 2; y[i] = y[i] + 1; }", "range(i, 64) { y[i] = 1; y[i] = y[i] + 1; }"},
  {"range(i, 4) { range(j, 4) { range(k2, 4) y[i + j + k2] = 1 if false; } }", ""},
  {"range(i, 64) z[i] = z[i] + 1; range(i, 0) z[i] = 7; range(i, 64) y[i] = z[i];", "range(i, 64) z[i] = z[i] + 1; range(i, 64) y[i] = z[i];"},
  {"z[0] = 1; z[0] = 2 if false; z[1] = z[0];", "z[0] = 1; z[1] = z[0];"},
  {"range(i, 1) y[i + 3] = x[i];", "range(i, 1) y[3] = x[0];"},
  {"range(i, 64) y[i] = where(true, x[i], 0) + where(i > 100, z[i], 0);", "range(i, 64) y[i] = x[i] + 0;"},
  {"range(i, 64) y[i] = where(i < 32, where(i < 32, x[i], 1), 2);", "range(i, 64) y[i] = where(i < 32, x[i], 2);"},
  {"range(i, 64) atomic z[i] += 1 if false;", ""},
  {"range(i, 8) y[8*i + k[i] % 8 - k[i] % 8] = 1;", "range(i, 8) y[8*i] = 1;"},
};

typedef struct { tg_job *j; const char *text; const tg_uop *sink; const char *name; } parsed;

static void parse(void *user) {
  parsed *p = user;
  tg_parse_kernel(p->j, "rows", tg_format(&p->j->env, "kernel k() { " HEAD "%s }", p->text), 0, NULL);
  const tg_rules *r = tg_rules_compile(&p->j->env);
  const tg_uop *s = p->sink = tg_simplify(p->j, r, p->j->sink);
  CHECK(tg_simplify(p->j, r, s) == s, "%s: simplifying twice", p->text);
  CHECK(tg_versioned(p->j, tg_plain(p->j, s)) == s, "%s: the versions are not those of its statements", p->text);
  const tg_uop *plain = tg_simplify(p->j, r, tg_plain(p->j, p->j->sink));
  CHECK(tg_versioned(p->j, plain) == s, "%s: the plain form gives another program", p->text);
}

static void test_rows(void) {
  static tg_job a, b;
  for (unsigned i = 0; i < TG_COUNT(rows); i++) {
    parsed p = {&a, rows[i].before, NULL, NULL}, q = {&b, rows[i].after, NULL, NULL};
    tg_job_init(&a, NULL);
    tg_job_init(&b, NULL);
    bool ok = tg_protect(&a.env, parse, &p), also = tg_protect(&b.env, parse, &q);
    CHECK(ok, "%s: %s", rows[i].before, a.env.message);
    CHECK(also, "%s: %s", rows[i].after, b.env.message);
    if (ok && also) {
      tg_str s = tg_str_new(&a.env);
      tg_print(&a, &s, p.sink);
      CHECK(tg_same_program(&a, p.sink, &b, q.sink), "%s gives\n%s", rows[i].before, s.data);
    }
    tg_job_drop(&a);
    tg_job_drop(&b);
  }
}

/* ---- lanes ---- */

static const tg_uop *vector(tg_job *j, tg_type t, uint32_t lanes, int64_t i) { return tg_make(j, TG_OP_ARG, t, lanes, i, 0, NULL); }
static const tg_uop *fold(tg_job *j, tg_op op, const tg_uop *v) { return tg_make(j, TG_OP_FOLD, v->type, 1, op, 1, &v); }

static void lanes(void *user) {
  tg_job *j = user;
  const tg_rules *r = tg_rules_compile(&j->env);
  const tg_uop *v = vector(j, TG_F32, 8, 0), *one = vector(j, TG_F32, 1, 1), *bit = vector(j, TG_I32, 8, 2);
  /* 8 lanes that turn out to be one value: max of them is the value, their sum is not */
  const tg_uop *wide = tg_op3(j, TG_OP_WHERE, tg_make(j, TG_OP_LT, TG_BOOL, 8, 0, 2, (const tg_uop *const[]){tg_iota(j, TG_INDEX, 8), tg_index(j, 8)}), one, v);
  CHECK(tg_simplify(j, r, wide) == one, "a choice that every lane makes alike");
  CHECK(tg_simplify(j, r, fold(j, TG_OP_MAX, wide)) == one, "the maximum of one value");
  const tg_uop *sum = tg_simplify(j, r, fold(j, TG_OP_ADD, wide));
  CHECK(sum->op == TG_OP_FOLD && sum->src[0]->lanes == 8, "the sum of eight equal lanes loses them");
  const tg_uop *zero = tg_op2(j, TG_OP_XOR, bit, bit);
  CHECK(tg_simplify(j, r, fold(j, TG_OP_OR, zero)) == tg_const_int(j, TG_I32, 0), "or over lanes of zero");
  sum = tg_simplify(j, r, fold(j, TG_OP_ADD, v));
  CHECK(sum->op == TG_OP_FOLD && sum->src[0] == v, "a sum of lanes stays");

  tg_buffer info = {.name = "y", .role = TG_ROLE_OUT, .rank = 1, .type = TG_F32};
  const tg_uop *dim = tg_index(j, 64), *y = tg_define(j, info, 1, &dim, NULL, true);
  const tg_uop *iota = tg_iota(j, TG_INDEX, 8), *scatter = tg_op2(j, TG_OP_MUL, iota, tg_index(j, 0)), *value = tg_op2(j, TG_OP_ADD, v, v);
  const tg_uop *store = tg_store(j, y, &scatter, value, NULL, 0), *s = tg_simplify(j, r, tg_sink(j, 2, (const tg_uop *const[]){y, store}));
  CHECK(s->src[1]->src[1]->lanes == 8, "a scatter to one place loses its lanes");
  const tg_uop *base = tg_op2(j, TG_OP_ADD, tg_op2(j, TG_OP_MUL, tg_range_new(j, "i", tg_index(j, 1), TG_LOOP, UINT32_MAX, (tg_pos){0}), tg_index(j, 8)), iota);
  CHECK(tg_simplify(j, r, base) == iota, "the only iteration's subscripts");
}

/* ---- sums as they are written, not yet in normal form ---- */

static int64_t coefficient_of(const tg_linear *l, const tg_uop *atom) {
  for (uint32_t i = 0; i < l->n; i++)
    if (l->atom[i] == atom) return l->coefficient[i];
  return 0;
}

static void sums(void *user) {
  tg_job *j = user;
  const tg_uop *x = vector(j, TG_INDEX, 1, 0), *y = vector(j, TG_INDEX, 1, 1), *three = tg_index(j, 3);
  tg_linear l;
  tg_linear_of(j, tg_op2(j, TG_OP_SUB, x, tg_op2(j, TG_OP_MUL, y, three)), &l);
  CHECK(l.n == 2 && coefficient_of(&l, x) == 1 && coefficient_of(&l, y) == -3 && !l.constant, "x - y * 3");
  tg_linear_of(j, tg_op2(j, TG_OP_SUB, three, tg_op2(j, TG_OP_SUB, x, tg_op1(j, TG_OP_NEG, y))), &l);
  CHECK(l.n == 2 && coefficient_of(&l, x) == -1 && coefficient_of(&l, y) == -1 && l.constant == 3, "3 - (x - -y)");
}

/* ---- the trace ---- */

static void trace(void *user) {
  tg_job *j = user;
  const tg_rules *r = tg_rules_compile(&j->env);
  const tg_uop *x = vector(j, TG_I32, 1, 0), *u = tg_op2(j, TG_OP_MUL, tg_op2(j, TG_OP_ADD, x, tg_const_int(j, TG_I32, 0)), tg_const_int(j, TG_I32, 1));
  uint32_t n = 9;
  CHECK(!tg_trace_end(j, &n) && !n, "no trace was begun");
  CHECK(tg_simplify(j, r, u) == x, "(x + 0) * 1");
  tg_trace_begin(j);
  CHECK(tg_simplify(j, r, u) == x, "(x + 0) * 1, again");
  const tg_fired *f = tg_trace_end(j, &n);
  CHECK(n == 2 && !strcmp(f[0].rule, "add_zero") && !strcmp(f[1].rule, "mul_one"), "%u rules fired", n);
  if (n == 2) CHECK(f[0].before == u->src[0] && f[0].after == x && f[1].after == x, "on other nodes");
  tg_trace_begin(j);
  tg_simplify(j, r, x);
  tg_trace_end(j, &n);
  CHECK(!n, "a name alone is rewritten");
  tg_trace_begin(j);
  tg_rewrite_one(j, r, TG_RULES_STRENGTH, tg_op2(j, TG_OP_IDIV, x, tg_const_int(j, TG_I32, 8)));
  f = tg_trace_end(j, &n);
  CHECK(n == 1 && !strcmp(f->rule, "div_by_shift") && f->after->op == TG_OP_SHR, "one node alone");
  CHECK(!tg_rewrite_one(j, r, TG_RULES_STRENGTH, tg_op2(j, TG_OP_IDIV, x, tg_const_int(j, TG_I32, 7))), "7 is no power of two");
}

static void in_a_job(void (*fn)(void *)) {
  static tg_job j;
  tg_job_init(&j, NULL);
  CHECK(tg_protect(&j.env, fn, &j), "%s", j.env.message);
  tg_job_drop(&j);
}

int main(void) {
  test_rows();
  in_a_job(lanes);
  in_a_job(sums);
  in_a_job(trace);
  return TEST_END();
}
