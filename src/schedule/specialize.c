/* SPDX-License-Identifier: MIT
 * specialize(p): two versions of the program behind one test of parameters. In the first version p is known to hold,
 * and each parameter is replaced by an equal expression that shows it (N % 16 == 0: N/16*16; N == 4: 4; N >= 64: max(N,
 * 64)), so splits become exact and gates provable. A version of an earlier test that implies p is left as it is. The
 * test is put into the extents of the outermost loops, where(p, E, 0) and where(p, 0, E), so that thread loops stay
 * outermost. */
#include "schedule/opt.h"

typedef struct {
  tg_schedule *s;
  const tg_opt *o;
  const tg_uop *cond, *from[16], *to[16];
  uint32_t facts;
  bool of_version;    /* the test is of a version that was made: what it says beyond what is read here is left out */
  tg_naming *names;   /* by ordinal of a loop */
} special;

static bool is_param(const tg_uop *u) { return u->op == TG_OP_PARAM; }

static void know(special *x, const tg_uop *param, const tg_uop *value) {
  if (x->of_version && x->facts == TG_COUNT(x->from)) return;
  for (uint32_t i = 0; i < x->facts; i++)
    if (x->from[i] == param && x->of_version) return;
    else if (x->from[i] == param)
      tg_fail_at(x->s->j, x->o->pos, "specialize: one fact on each parameter, and there are two on %s",
                 tg_text(x->s->j, param));
  if (x->facts == TG_COUNT(x->from)) tg_fail_at(x->s->j, x->o->pos, "specialize: more than 16 facts");
  x->from[x->facts] = param;
  x->to[x->facts++] = value;
}

/* P / c where P % c is 0: a P that is positive has a quotient that is. */
static const tg_uop *quotient(tg_job *j, const tg_uop *param, const tg_uop *c) {
  int64_t lo = j->params.data[param->arg].lo;
  const tg_uop *q = tg_op2(j, TG_OP_IDIV, param, c);
  return lo > 0 && lo < c->arg ? tg_op2(j, TG_OP_MAX, q, tg_index(j, 1)) : q;
}

/* a `op` b; parameters stand on the left. */
static bool know_compare(special *x, tg_op op, const tg_uop *a, const tg_uop *b) {
  tg_job *j = x->s->j;
  if (op == TG_OP_EQ && a->op == TG_OP_MOD && is_param(a->src[0]) && a->src[1]->op == TG_OP_CONST &&
      a->src[1]->arg > 0 && tg_is_const(b, 0))
    return know(x, a->src[0], tg_op2(j, TG_OP_MUL, quotient(j, a->src[0], a->src[1]), a->src[1])), true;
  if (!is_param(a) || (b->op != TG_OP_CONST && !(op == TG_OP_EQ && is_param(b) && b != a))) return false;
  switch (op) {
  case TG_OP_EQ: know(x, a, b); return true;
  case TG_OP_LE: know(x, a, tg_op2(j, TG_OP_MIN, a, b)); return true;
  case TG_OP_LT: know(x, a, tg_op2(j, TG_OP_MIN, a, tg_index(j, b->arg - 1))); return true;
  default: return false;
  }
}

static void read_facts(special *x) {
  tg_job *j = x->s->j;
  const tg_uop *stack[32];
  uint32_t n = 0;
  stack[n++] = x->cond;
  while (n) {
    const tg_uop *c = stack[--n], *a = c->n == 2 ? c->src[0] : NULL, *b = c->n == 2 ? c->src[1] : NULL;
    if (c->op == TG_OP_AND && n + 2 <= TG_COUNT(stack)) {
      stack[n++] = b;
      stack[n++] = a;
    } else if (a && know_compare(x, c->op, a, b)) continue;
    else if (a && c->op == TG_OP_EQ && know_compare(x, TG_OP_EQ, b, a)) continue;
    else if (a && c->op == TG_OP_LE && is_param(b) && a->op == TG_OP_CONST) know(x, b, tg_op2(j, TG_OP_MAX, b, a));
    else if (a && c->op == TG_OP_LT && is_param(b) && a->op == TG_OP_CONST)
      know(x, b, tg_op2(j, TG_OP_MAX, b, tg_index(j, a->arg + 1)));
    else if (!x->of_version)
      tg_fail_at(
          j, x->o->pos,
          "specialize: a test is P %% c == 0, or compares a parameter with a constant or P == Q; '%s' is neither",
          tg_text(j, c));
  }
}

/* The test that the statement stands behind already; NULL: none. */
static const tg_uop *test_of(const tg_uop *u) {
  if (u->op != TG_OP_END || tg_extent(u->src[0])->op != TG_OP_WHERE) return NULL;
  return tg_is_const(tg_extent(u->src[0])->src[2], 0) ? tg_extent(u->src[0])->src[0] : NULL;
}

const tg_uop *tg_in_version(tg_schedule *s, const tg_site *site, const tg_uop *u) {
  while (site->parent != UINT32_MAX) site = &s->sites.data[site->parent];
  special x = {.s = s, .cond = test_of(site->owner), .of_version = true};
  if (!x.cond) return u;
  read_facts(&x);
  return tg_simplified(s, tg_substitute(s->j, u, x.facts, x.from, x.to));
}

/* Is the statement of a version in which p holds? Then it is of the first of these two as it is. */
static bool holds_there(const special *x, const tg_uop *u) {
  tg_facts test = {NULL, test_of(u)};
  return test.fact && tg_proves(x->s->j, &test, x->cond);
}

/* The statement behind the test: a loop of the extent or of none. */
static const tg_uop *behind(special *x, const tg_uop *u, bool yes) {
  static const char *const parts[] = {"else", "then"};
  tg_schedule *s = x->s;
  tg_job *j = s->j;
  const tg_uop *zero = tg_index(j, 0), *extent = u->op == TG_OP_END ? tg_extent(u->src[0]) : tg_index(j, 1);
  extent = yes ? tg_op3(j, TG_OP_WHERE, x->cond, extent, zero) : tg_op3(j, TG_OP_WHERE, x->cond, zero, extent);
  if (u->op != TG_OP_END)
    return tg_end_like(s, u,
                       tg_range_new(j, tg_sym(j, tg_format(&j->env, "once.%s", parts[yes])), extent, TG_LOOP,
                                    UINT32_MAX, tg_get_pos(j, u)),
                       1, &u);
  tg_naming names = x->names[tg_range_ordinal(u->src[0])];
  names.plain = names.base;   /* i.then is the first test's version alone, not i_2.then as well */
  const tg_uop *r = tg_axis_part(s, u->src[0], &names, parts[yes], extent, tg_range_kind(u->src[0]));
  tg_axis_join(s, r, tg_axis_base(s, u->src[0]));
  const tg_uop **list = tg_new(&j->env, const tg_uop *, u->n);
  for (uint32_t i = 1; i < u->n; i++) list[i - 1] = tg_substitute(j, u->src[i], 1, &u->src[0], &r);
  return tg_end_like(s, u, r, u->n - 1, list);
}

/* Names of both versions of the loop: i.then and i.else, or i_2.then and i_2.else where these are taken. */
static void name_versions(special *x, const tg_uop *u) {
  static const char *const parts[] = {"then", "else"};
  if (u->op == TG_OP_END) x->names[tg_range_ordinal(u->src[0])] = tg_axis_naming(x->s, u->src[0], 2, parts);
}

void tg_opt_specialize(tg_schedule *s, const tg_opt *o) {
  tg_job *j = s->j;
  uint32_t n = 0, most = j->params.n + j->constants.n;
  const char **names = tg_new(&j->env, const char *, most + 1);
  const tg_uop **values = tg_new(&j->env, const tg_uop *, most + 1);
  for (uint32_t i = 0; i < j->params.n; i++)
    names[n] = j->params.data[i].name, values[n++] = tg_make(j, TG_OP_PARAM, TG_INDEX, 1, i, 0, NULL);
  for (uint32_t i = 0; i < j->constants.n; i++)
    names[n] = j->constants.data[i].name, values[n++] = tg_index(j, j->constants.data[i].value);
  special x = {.s = s, .o = o, .cond = tg_simplify(j, s->l->rules, tg_parse_expr(j, o->expr, n, names, values))};
  if (x.cond->type != TG_BOOL) tg_fail_at(j, o->pos, "specialize: '%s' is no condition", o->expr);
  if (x.cond->op == TG_OP_CONST) return;   /* these sizes are of one kind */
  read_facts(&x);
  tg_statements out = {0}, own = {0};
  for (uint32_t i = 0; i < s->sink->n; i++) {
    const tg_uop *u = s->sink->src[i];
    bool global = u->op == TG_OP_DEFINE && tg_buffer_info(j, u)->space == TG_SPACE_GLOBAL;
    tg_push(&j->env, global ? &out : &own, u);
  }
  const tg_uop **copy = tg_new(&j->env, const tg_uop *, own.n + 1);
  tg_copy_statements(s, own.n, own.data, copy);
  x.names = tg_new(&j->env, tg_naming, j->ranges.n + 1);
  for (uint32_t i = 0; i < own.n; i++) name_versions(&x, own.data[i]), name_versions(&x, copy[i]);
  for (uint32_t k = 0; k < 2; k++)
    for (uint32_t i = 0; i < own.n; i++) {
      const tg_uop *u = own.data[i];
      bool there = holds_there(&x, u);
      if (there && k) continue;
      if (k) u = copy[i];
      else if (!there) u = tg_substitute(j, u, x.facts, x.from, x.to);
      tg_push(&j->env, &out, u->op == TG_OP_DEFINE || there ? u : behind(&x, u, !k));
    }
  s->sink = tg_sink(j, out.n, out.data);
}
