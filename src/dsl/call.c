/* SPDX-License-Identifier: MIT
 * What is written name(..): functions, casts, the author's own functions, and the generic form of any op,
 * OP(sources){arg}:type[lanes]. */
#include "dsl/derivative.h"
#include "dsl/parse.h"
#include "dsl/value.h"

#define FAIL(p, t, ...) tg_token_fail((p), (t), __VA_ARGS__)

const char *const tg_function_words[] = {
    "sum",    "sum_in_order", "prod",  "prod_in_order", "max",  "min",   "any",  "all",     "argmax", "argmin",
    "reduce", "get",          "where", "fma",           "pow",  "cdiv",  "cmod", "ceildiv", "fold",   "shuffle",
    "matrix", "iota",         "dim",   "bitcast",       "abs",  "floor", "ceil", "round",   "trunc",  "sqrt",
    "rsqrt",  "exp",          "exp2",  "log",           "log2", "sin",   "cos",  "tanh",    "erf",
    "fast_exp2", "fast_rcp", "fast_rsqrt", "fast_tanh", "derivative", NULL};

bool tg_is_function(const char *s, size_t n) {
  for (const char *const *w = tg_function_words; *w; w++)
    if (!strncmp(*w, s, n) && !(*w)[n]) return true;
  return false;
}

tg_kind tg_kind_of(const tg_parser *p, const tg_token *t) {
  for (int k = 0; k < TG_KIND__COUNT; k++)
    if ((k != TG_MERGE || p->b->raw) && tg_token_is(p, t, tg_kind_name[k])) return (tg_kind)k;
  return TG_KIND__COUNT;
}

static TG_NORETURN void fail_word(tg_parser *p, const tg_token *t, const char *what, const char *hint,
                                  const char *const *words) {
  tg_str list = tg_str_new(&p->j->env);
  const char *name = tg_symbol(p->j, p->src->text + t->off, t->len), *near = hint ? NULL : tg_nearest(name, words);
  for (const char *const *w = words; *w; w++) tg_str_printf(&list, " %s", *w);
  const char *meant = hint   ? tg_format(&p->j->env, "write %s\n", hint)
                      : near ? tg_format(&p->j->env, "did you mean '%s'?\n", near)
                             : "";
  FAIL(p, t, "unknown %s %s%s\n%s%ss:%s", what, tg_token_text(p, t), strcmp(what, "kind") ? "" : " of a range", meant,
       what, list.data);
}

void tg_type_unknown(tg_parser *p, const tg_token *t) {
  const char *words[TG_TYPE__COUNT + 1];
  uint32_t n = 0;
  for (int i = TG_BOOL; i < TG_INDEX; i++) words[n++] = tg_type_name[i];
  words[n] = NULL;
  fail_word(p, t, "type", tg_type_hint(tg_symbol(p->j, p->src->text + t->off, t->len)), words);
}

void tg_kind_unknown(tg_parser *p, const tg_token *t) {
  const char *words[TG_KIND__COUNT + 1];
  uint32_t n = 0;
  for (int i = 0; i < TG_KIND__COUNT; i++)
    if (i != TG_MERGE) words[n++] = tg_kind_name[i];
  words[n] = NULL;
  fail_word(p, t, "kind", NULL, words);
}

/* ---- arguments ---- */

static uint32_t parse_arguments(tg_parser *p, tg_expr *args, uint32_t max) {
  uint32_t n = 0;
  while (p->tok.kind != ')') {
    tg_expr e = tg_parse_expression(p);
    if (n < max) args[n] = e;
    n++;
    if (!tg_take(p, ',')) break;
  }
  return n;
}

void tg_close_call(tg_parser *p, const tg_token *t, uint32_t got, uint32_t want) {
  if (p->tok.kind != ')') FAIL(p, &p->tok, "',' or ')' expected, not %s", tg_token_text(p, &p->tok));
  if (got != want)
    tg_parse_fail(p, t->off, p->tok.off + p->tok.len - t->off, "%.*s takes %u argument%s, and %u %s given", (int)t->len,
                  p->src->text + t->off, want, want == 1 ? "" : "s", got, got == 1 ? "is" : "are");
  tg_next(p);
}

tg_expr tg_call_result(tg_parser *p, const tg_uop *u, const tg_token *t) {
  uint32_t end = p->tok.off;
  const char *s = p->src->text;
  while (end > t->off && strchr(" \t\r\n", s[end - 1])) end--;
  return (tg_expr){.u = u, .off = t->off, .end = end};
}

static const tg_uop *want_float(tg_parser *p, tg_expr *e, const tg_token *f) {
  if (e->lit == LIT_INT && !e->u && !e->choice) e->u = tg_settle(p, e, p->b->raw ? TG_F64 : TG_F32);
  else e->u = tg_settle_alone(p, e);
  tg_type t = e->u->type;
  const char *name = p->src->text + f->off, *text = p->src->text + e->off;
  int n = (int)f->len, m = (int)(e->end - e->off);
  if (t == TG_E4M3 || t == TG_E5M2)
    tg_expr_fail(p, e, "%s is for storage only: write f32(%.*s)", tg_type_name[t], m, text);
  if (!tg_is_float(t))
    tg_expr_fail(p, e, "%.*s of %s: write %.*s(f32(%.*s))", n, name, tg_type_name[t], n, name, m, text);
  return e->u;
}

/* Parsed with plain types, whatever stands around the call. */
static tg_expr parse_plain(tg_parser *p) {
  bool index = p->index, extent = p->extent;
  p->index = p->extent = false;
  tg_expr e = tg_parse_expression(p);
  p->index = index;
  p->extent = extent;
  return e;
}

/* ---- casts ---- */

static TG_APART tg_expr parse_cast(tg_parser *p, tg_token t) {
  tg_type type;
  uint32_t lanes;
  tg_parse_type(p, &type, &lanes);
  if (lanes != 1) FAIL(p, &t, "a cast names the type of an element: %s", tg_type_name[type]);
  tg_expect(p, '(', "'('");
  tg_expr e = parse_plain(p);
  tg_close_call(p, &t, 1, 1);
  if (e.lit && !e.u && !e.choice) {
    if (type == TG_BOOL && e.lit == LIT_INT) return tg_call_result(p, tg_bool(p->j, e.i != 0), &t);
    if (e.lit == LIT_FLOAT && !tg_is_float(type)) {   /* a conversion that the author asks for */
      tg_value v = {.f = e.f}, r;
      if (type == TG_INDEX || !tg_convert(type, TG_F64, v, &r))
        tg_expr_fail(p, &e, "a literal cannot be cast to %s", tg_type_name[type]);
      return tg_call_result(p, tg_const_of(p->j, type, r), &t);
    }
    return tg_call_result(p, tg_settle(p, &e, type), &t);
  }
  const tg_uop *u = tg_settle_alone(p, &e);
  if (type == TG_INDEX && tg_is_float(u->type))
    tg_expr_fail(p, &e, "an index from %s: write index(i32(..)), which says how it is cut", tg_type_name[u->type]);
  /* as in a subscript: within what is promised */
  if (type == TG_INDEX && !p->b->raw && tg_is_int(u->type) && !p->extent) {
    e.u = u;
    return tg_call_result(p, tg_to_index(p, &e), &t);
  }
  return tg_call_result(p, tg_cast(p->j, type, u), &t);
}

static TG_APART tg_expr parse_bitcast(tg_parser *p, tg_token t) {
  tg_type type;
  uint32_t lanes;
  if (!tg_parse_type(p, &type, &lanes))
    FAIL(p, &p->tok, "bitcast(type, value): a type expected, not %s", tg_token_text(p, &p->tok));
  tg_expect(p, ',', "','");
  tg_expr e = parse_plain(p);
  tg_close_call(p, &t, 2, 2);
  const tg_uop *u = tg_settle_alone(p, &e);
  if (tg_type_bits(u->type) != tg_type_bits(type) || !tg_type_bits(type))
    tg_expr_fail(p, &e, "bitcast of %s to %s: their widths differ", tg_type_name[u->type], tg_type_name[type]);
  return tg_call_result(p, tg_bitcast(p->j, type, u), &t);
}

/* ---- functions with forms of their own ---- */

static TG_APART tg_expr parse_where(tg_parser *p, tg_token t) {
  tg_builder *b = p->b;
  tg_expr c = tg_parse_expression(p), yes, no;
  const tg_uop *cond = tg_settle(p, &c, TG_BOOL);
  if (!tg_take(p, ',')) tg_close_call(p, &t, 1, 3);
  tg_push(&p->j->env, &b->arms, cond);
  yes = tg_parse_expression(p);
  b->arms.n--;
  if (!tg_take(p, ',')) tg_close_call(p, &t, 2, 3);
  tg_push(&p->j->env, &b->arms, b->raw ? cond : tg_negate(p->j, cond));
  no = tg_parse_expression(p);
  b->arms.n--;
  uint32_t n = 3;
  for (; tg_take(p, ','); n++) tg_parse_expression(p);
  tg_close_call(p, &t, n, 3);
  if (yes.lit && no.lit && !b->raw) {
    tg_where_literal *choice = tg_new(&p->j->env, tg_where_literal, 1);
    *choice = (tg_where_literal){cond, yes, no,
                                 (yes.choice ? yes.choice->literals : 1) + (no.choice ? no.choice->literals : 1)};
    if (choice->literals > TG_MOST_LITERALS)
      FAIL(p, &t, "a choice between over %d numbers, none of them of a type: write f32(..), or i32(..), about one",
           TG_MOST_LITERALS);
    tg_expr e = tg_call_result(p, NULL, &t);
    e.lit = yes.lit > no.lit ? yes.lit : no.lit;
    e.choice = choice;
    return e;
  }
  tg_unify(p, &yes, &no, "where");
  return tg_call_result(p, tg_op3(p->j, TG_OP_WHERE, cond, yes.u, no.u), &t);
}

static tg_expr parse_iota(tg_parser *p, tg_token t) {
  tg_type type = TG_INDEX;
  uint32_t lanes;
  if (tg_parse_type(p, &type, &lanes)) {
    if (!tg_is_int(type) && type != TG_INDEX) FAIL(p, &t, "iota counts in integers, not %s", tg_type_name[type]);
    tg_expect(p, ',', "','");
  }
  if (!p->b->raw) FAIL(p, &t, "a vector is what schedules make: write a range, and opt(upcast r) or opt(lane r)");
  if (p->tok.kind != TK_INT || p->tok.i < 1 || p->tok.i > 1024)
    FAIL(p, &p->tok, "iota(lanes): 1 to 1024 expected, not %s", tg_token_text(p, &p->tok));
  lanes = (uint32_t)p->tok.i;
  tg_next(p);
  tg_close_call(p, &t, 1, 1);
  return tg_call_result(p, tg_iota(p->j, type, lanes), &t);
}

static TG_APART tg_expr parse_fold(tg_parser *p, tg_token t) {
  static const struct {
    const char *name;
    tg_op op;
  } folds[] = {{"add", TG_OP_ADD}, {"mul", TG_OP_MUL}, {"max", TG_OP_MAX},
               {"min", TG_OP_MIN}, {"and", TG_OP_AND}, {"or", TG_OP_OR}};
  unsigned i = 0;
  while (i < TG_COUNT(folds) && !tg_at_word(p, folds[i].name)) i++;
  if (i == TG_COUNT(folds))
    FAIL(p, &p->tok, "fold(op, vector): op is add, mul, max, min, and, or; not %s", tg_token_text(p, &p->tok));
  tg_next(p);
  tg_expect(p, ',', "','");
  if (!p->b->raw)
    FAIL(p, &t, "fold is of a vector, and schedules make those: write a reduction, such as sum(k : 8, x[k])");
  tg_expr e = tg_parse_expression(p);
  tg_close_call(p, &t, 2, 2);
  const tg_uop *u = tg_settle_alone(p, &e);
  return tg_call_result(p, tg_make(p->j, TG_OP_FOLD, u->type, 1, folds[i].op, 1, &u), &t);
}

/* shuffle(value, l, index): l a lane range, or the number of lanes of a vector. */
static TG_APART tg_expr parse_shuffle(tg_parser *p, tg_token t) {
  bool index = p->index, extent = p->extent, all_lanes = p->b->all_lanes;
  uint32_t first_arm = p->b->first_arm;
  p->index = p->extent = false;
  /* a condition around it is of the lane that asks, not of the one that has the value */
  p->b->all_lanes = true, p->b->first_arm = p->b->arms.n;
  tg_expr value = tg_parse_expression(p);
  p->b->all_lanes = all_lanes, p->b->first_arm = first_arm;
  tg_expect(p, ',', "','");
  tg_token at = p->tok;
  p->index = true;
  tg_expr range = tg_parse_expression(p);
  tg_expect(p, ',', "','");
  tg_expr lane = tg_parse_expression(p);
  p->index = index;
  p->extent = extent;
  tg_close_call(p, &t, 3, 3);
  const tg_uop *v = tg_settle_alone(p, &value), *r = range.lit || !p->b->raw ? tg_settle(p, &range, TG_INDEX) : range.u;
  const tg_uop *i = lane.lit ? tg_settle(p, &lane, TG_INDEX) : lane.u;
  bool ok =
      r->op == TG_OP_RANGE ? tg_range_kind(r) == TG_LANE : r->op == TG_OP_CONST && v->lanes > 1 && r->arg == v->lanes;
  if (!ok && !p->b->raw) FAIL(p, &at, "shuffle(value, l, index): l is a lane range");
  return tg_call_result(p, tg_shuffle(p->j, v, r, i), &t);
}

/* matrix(instruction, a, b, c, l) */
static TG_APART tg_expr parse_matrix(tg_parser *p, tg_token t) {
  const char *name = tg_take_name(p, "a matrix instruction");
  const tg_uop *u[4];
  for (int i = 0; i < 4; i++) {
    tg_expect(p, ',', "','");
    p->index = i == 3;
    tg_expr e = tg_parse_expression(p);
    u[i] = i == 3 && (e.lit || !p->b->raw) ? tg_settle(p, &e, TG_INDEX) : tg_settle_alone(p, &e);
    p->index = false;
  }
  tg_close_call(p, &t, 5, 5);
  return tg_call_result(p, tg_matrix(p->j, name, u[0], u[1], u[2], u[3]), &t);
}

/* prefetch(B[i, j], l1|l2 [, rw]): as schedules leave it. */
TG_APART const tg_uop *tg_parse_prefetch(tg_parser *p) {
  const tg_uop *src[17];
  tg_token t = p->tok;
  tg_next(p);
  tg_expect(p, '(', "'('");
  if (!p->b->raw) FAIL(p, &t, "prefetch is a word of a schedule: opt(prefetch B at r ahead 2)");
  tg_token at = p->tok;
  const tg_name *n = tg_name_find(p->b, tg_take_name(p, "a buffer"));
  if (!n || n->kind != NAME_BUFFER) FAIL(p, &at, "a buffer expected");
  tg_name buffer = *n;
  uint32_t rank = tg_parse_subscripts(p, &buffer, &at, src + 1);
  src[0] = buffer.u;
  tg_expect(p, ',', "','");
  int64_t flags = tg_take_word(p, "l2") ? TG_PREFETCH_L2 : TG_PREFETCH_L1;
  if (flags == TG_PREFETCH_L1 && !tg_take_word(p, "l1")) FAIL(p, &p->tok, "l1 or l2 expected");
  if (tg_take(p, ',')) {
    if (!tg_take_word(p, "rw")) FAIL(p, &p->tok, "rw expected");
    flags |= TG_PREFETCH_WRITE;
  }
  tg_expect(p, ')', "')'");
  return tg_make(p->j, TG_OP_PREFETCH, TG_VOID, 1, flags, 1 + rank, src);
}

/* ahead(value, prefetch(..), ..): as schedules leave it. */
static TG_APART tg_expr parse_ahead(tg_parser *p, tg_token t) {
  const tg_uop *src[65];
  uint32_t n = 1;
  if (!p->b->raw) FAIL(p, &t, "ahead is a word of a schedule: opt(prefetch B at r ahead 2)");
  tg_expr value = tg_parse_expression(p);
  while (tg_take(p, ',')) {
    if (n == TG_COUNT(src) || !tg_at_word(p, "prefetch"))
      FAIL(p, &p->tok, "prefetch(B[..], l1) expected, 64 of them at most");
    src[n++] = tg_parse_prefetch(p);
  }
  tg_expect(p, ')', "')'");
  src[0] = tg_settle_alone(p, &value);
  return tg_call_result(p, tg_make(p->j, TG_OP_AHEAD, src[0]->type, src[0]->lanes, 0, n, src), &t);
}

/* derivative(value, x): x is taken as one thing, however it is written. */
static TG_APART tg_expr parse_derivative(tg_parser *p, tg_token t) {
  tg_expr a[2];
  uint32_t got = 1;
  a[0] = parse_plain(p);
  if (tg_take(p, ',')) a[1] = parse_plain(p), got = 2;
  tg_close_call(p, &t, got, 2);
  if (a[1].lit) tg_expr_fail(p, &a[1], "derivative(value, x): x is a number, and nothing depends on it");
  want_float(p, &a[0], &t), want_float(p, &a[1], &t);
  tg_step(p, &t);
  const tg_uop *none, *d = tg_derivative(p->j, a[0].u, a[1].u, &none);
  if (!none) return tg_call_result(p, d, &t);
  bool reduced = none->op == TG_OP_GET || none->op == TG_OP_REDUCE;
  const char *what = reduced ? "a reduction that is no sum" : tg_ops[none->op].text;
  for (uint32_t i = 0; i < p->b->rough.n; i++)
    if (p->b->rough.data[i].node == none)
      tg_fail_at(p->j, p->b->rough.data[i].pos, "%s has no derivative by what it is made from", what);
  tg_expr_fail(p, &a[0], "%s has no derivative by what it is made from", what);
}

static tg_expr parse_dim(tg_parser *p, tg_token t) {
  tg_token at = p->tok;
  tg_name *n = tg_name_find(p->b, tg_take_name(p, "a buffer"));
  if (!n) tg_name_unknown(p, &at, false);
  if (n->kind != NAME_BUFFER) FAIL(p, &at, "'%s' is no buffer", n->name);
  tg_expect(p, ',', "','");
  uint32_t rank = p->j->buffers.data[(uint32_t)n->u->arg].rank;
  if (p->tok.kind != TK_INT || p->tok.i >= rank)
    FAIL(p, &p->tok, "'%s' has %u dimension%s, counted from 0", n->name, rank, rank == 1 ? "" : "s");
  const tg_uop *u = n->u->src[(uint32_t)p->tok.i];
  tg_next(p);
  tg_close_call(p, &t, 2, 2);
  return tg_call_result(p, u, &t);
}

static tg_expr parse_get(tg_parser *p, tg_token t) {
  tg_expr e = tg_parse_expression(p);
  if (e.lit || e.u->op != TG_OP_REDUCE || e.u->type != TG_VOID)
    tg_expr_fail(p, &e, "get(reduction, n): a reduction with several values expected");
  tg_expect(p, ',', "','");
  uint32_t nv = tg_reduce_info(e.u).values;
  if (p->tok.kind != TK_INT || p->tok.i >= nv) FAIL(p, &p->tok, "this reduction has %u values, counted from 0", nv);
  int64_t i = (int64_t)p->tok.i;
  tg_next(p);
  tg_close_call(p, &t, 2, 2);
  return tg_call_result(p, tg_make(p->j, TG_OP_GET, e.u->src[i]->type, e.u->src[i]->lanes, i, 1, &e.u), &t);
}

/* ---- plain functions ---- */

static TG_APART tg_expr parse_lanewise(tg_parser *p, tg_token t, tg_op op) {
  tg_expr a[4];
  uint32_t want = (uint32_t)tg_ops[op].arity, got = parse_arguments(p, a, 4);
  tg_close_call(p, &t, got, want);
  tg_job *j = p->j;
  const char *name = tg_format(&j->env, "%.*s", (int)t.len, p->src->text + t.off);
  if (want == 1) {
    if (op == TG_OP_ABS) {
      a[0].u = tg_settle_alone(p, &a[0]);
      if (a[0].u->type == TG_BOOL) tg_expr_fail(p, &a[0], "abs of a bool");
      if (a[0].u->type == TG_E4M3 || a[0].u->type == TG_E5M2) want_float(p, &a[0], &t);
    } else if (!p->b->raw || a[0].lit || tg_is_float(a[0].u->type)) want_float(p, &a[0], &t);
    return tg_call_result(p, tg_op1(j, op, a[0].u), &t);
  }
  uint32_t typed = 0;
  while (typed < want && a[typed].lit) typed++;
  for (uint32_t i = 0; i < want && typed < want; i++) /* literals take the first type there is */
    if (a[i].lit) {
      a[i].u = tg_settle(p, &a[i], a[typed].u->type);
      a[i].lit = LIT_NONE;
    }
  tg_unify(p, &a[0], &a[1], name);
  if (want == 3) tg_unify(p, &a[0], &a[2], name);
  tg_type type = a[0].u->type;
  if (type == TG_E4M3 || type == TG_E5M2) want_float(p, &a[0], &t);
  if (type == TG_BOOL) tg_expr_fail(p, &a[0], "%s of a bool", name);
  if (op == TG_OP_POW || (op == TG_OP_FMA && !p->b->raw)) {
    if (!tg_is_float(type)) tg_expr_fail(p, &a[0], "%s of %s: write %s(f32(..), ..)", name, tg_type_name[type], name);
  }
  if ((op == TG_OP_CDIV || op == TG_OP_CMOD) && tg_is_float(type))
    tg_expr_fail(p, &a[0], "%s of %s: it divides integers", name, tg_type_name[type]);
  if (want == 3) return tg_call_result(p, tg_op3(j, op, a[0].u, a[1].u, a[2].u), &t);
  return tg_call_result(p, tg_op2(j, op, a[0].u, a[1].u), &t);
}

/* In an index, which does not wrap, (a + b - 1) / b: the prover knows that form. At a type that wraps, and for a
 * divisor below zero, what the floor leaves over counts: a / b + (a % b != 0). */
static TG_APART tg_expr parse_ceildiv(tg_parser *p, tg_token t) {
  tg_expr a[2];
  tg_job *j = p->j;
  uint32_t got = parse_arguments(p, a, 2);
  tg_close_call(p, &t, got, 2);
  tg_unify(p, &a[0], &a[1], "ceildiv");
  tg_type type = a[0].u->type;
  if (!tg_is_int(type) && type != TG_INDEX)
    tg_expr_fail(p, &a[0], "ceildiv of %s: it divides integers", tg_type_name[type]);
  if (type != TG_INDEX || (a[1].u->op == TG_OP_CONST && a[1].u->arg < 0)) {
    const tg_uop *rest = tg_op2(j, TG_OP_NE, tg_op2(j, TG_OP_MOD, a[0].u, a[1].u), tg_const_int(j, type, 0));
    return tg_call_result(p, tg_op2(j, TG_OP_ADD, tg_op2(j, TG_OP_IDIV, a[0].u, a[1].u), tg_cast(j, type, rest)), &t);
  }
  const tg_uop *u = tg_op2(j, TG_OP_SUB, tg_op2(j, TG_OP_ADD, a[0].u, a[1].u), tg_const_int(j, type, 1));
  return tg_call_result(p, tg_op2(j, TG_OP_IDIV, u, a[1].u), &t);
}

/* ---- the author's functions ---- */

tg_macro *tg_parse_formals(tg_parser *p, const char *name, bool alone) {
  tg_macro *m = tg_new(&p->j->env, tg_macro, 1);
  TG_VEC(const char *) formals = {0};
  tg_expect(p, '(', "'('");
  while (p->tok.kind != ')') {
    tg_token at = p->tok;
    const char *f = tg_take_name(p, "a name");
    for (uint32_t i = 0; i < formals.n; i++)
      if (formals.data[i] == f) FAIL(p, &at, "'%s' is given twice", f);
    tg_push(&p->j->env, &formals, f);
    if (!tg_take(p, ',')) break;
  }
  tg_expect(p, ')', "')'");
  *m = (tg_macro){.name = name, .formals = formals.data, .n = formals.n, .source = p->src, .alone = alone};
  return m;
}

static TG_APART tg_expr call_function(tg_parser *p, tg_token t, tg_macro *m) {
  tg_builder *b = p->b;
  tg_expr args[16];
  uint32_t got = parse_arguments(p, args, 16);
  tg_close_call(p, &t, got, m->n);
  if (m->active) FAIL(p, &t, "'%s' calls itself: recursion is not in the language", m->name);
  if (m->n > 16) FAIL(p, &t, "a function takes at most 16 arguments");
  tg_step(p, &t);
  uint32_t names = b->names.n, barrier = b->barrier;
  bool alone = b->formals_only;
  const char *prefix = b->prefix;
  b->barrier = names;
  b->formals_only = m->alone;
  if (m->alone) b->prefix = m->name;   /* so that words of the kernel do not mean ranges of the text */
  for (uint32_t i = 0; i < m->n; i++) {
    tg_name *n = tg_name_add(b, m->formals[i], NAME_VALUE, (tg_pos){0});
    n->value = args[i];
    n->u = args[i].u;
  }
  tg_parser body;
  tg_parser_init(&body, b, m->source, m->body);
  body.index = p->index;
  body.extent = p->extent;
  body.depth = p->depth + 1;
  m->active = true;
  tg_expr e = tg_parse_expression(&body);
  if (m->alone && body.tok.kind == ';') tg_next(&body);
  if (body.tok.kind && (m->alone || (body.tok.kind != ';' && body.tok.kind != ')')))
    FAIL(&body, &body.tok, "an operator expected, not %s", tg_token_text(&body, &body.tok));
  m->active = false;
  if (m->type) {   /* a wrong value is a mistake in the text, not where it is used */
    e.u = tg_settle(&body, &e, m->type);
    e.lit = 0, e.choice = NULL;
  }
  uint32_t dead = b->dead.n;
  tg_names_cut(b, names);
  b->dead.n = dead;
  b->barrier = barrier;
  b->formals_only = alone;
  b->prefix = prefix;
  tg_expr r = tg_call_result(p, e.u, &t);
  r.lit = e.lit;
  r.i = e.i;
  r.f = e.f;
  r.choice = e.choice;
  return r;
}

/* ---- the generic form ---- */

static tg_op op_of(const tg_parser *p, const tg_token *t) {
  const char *s = p->src->text + t->off;
  for (int op = 0; op < TG_OP__COUNT; op++)
    if (!strncmp(tg_ops[op].name, s, t->len) && !tg_ops[op].name[t->len]) return (tg_op)op;
  return TG_OP__COUNT;
}

static TG_APART tg_expr parse_generic(tg_parser *p, tg_token t, tg_op op) {
  tg_job *j = p->j;
  TG_VEC(tg_expr) src = {0};
  bool index = p->index, extent = p->extent;
  p->index = p->extent = false;
  while (p->tok.kind != ')') {
    tg_name *n = p->tok.kind == TK_NAME && (p->ahead.kind == ',' || p->ahead.kind == ')')
                     ? tg_name_find(p->b, tg_symbol(j, p->src->text + p->tok.off, p->tok.len))
                     : NULL;
    tg_expr e;
    if (op == TG_OP_LOAD && !src.n && n && n->kind == NAME_BUFFER) {
      e = (tg_expr){.u = n->u};
      tg_next(p);
    } else {
      p->index = op == TG_OP_LOAD;
      e = tg_parse_expression(p);
      p->index = false;
    }
    tg_push(&j->env, &src, e);
    if (!tg_take(p, ',')) break;
  }
  p->index = index;
  p->extent = extent;
  tg_expect(p, ')', "')'");
  tg_expect(p, '{', "'{'");
  bool minus = tg_take(p, '-');
  int64_t arg = 0;
  if (p->tok.kind == TK_INT) {
    arg = minus ? (int64_t)(0 - (uint64_t)p->tok.i) : (int64_t)p->tok.i;
    tg_next(p);
  }
  tg_expect(p, '}', "'}'");
  tg_expect(p, ':', "':'");
  tg_type type;
  uint32_t lanes, n = src.n;
  if (!tg_parse_type(p, &type, &lanes)) FAIL(p, &p->tok, "a type expected, not %s", tg_token_text(p, &p->tok));
  if (tg_ops[op].arity >= 0 && (uint32_t)tg_ops[op].arity != n)
    FAIL(p, &t, "%s has %d source%s, and %u %s given", tg_ops[op].name, tg_ops[op].arity,
         tg_ops[op].arity == 1 ? "" : "s", n, n == 1 ? "is" : "are");
  const tg_uop **u = tg_new(&j->env, const tg_uop *, n + 1), *like = NULL;
  for (uint32_t i = 0; i < n && !like; i++)
    if (!src.data[i].lit && !(op == TG_OP_WHERE && !i)) like = src.data[i].u;
  for (uint32_t i = 0; i < n; i++) {
    tg_type want = op == TG_OP_LOAD ? (i + 1 == n && arg & TG_GATED ? type : TG_INDEX) : like ? like->type : TG_VOID;
    u[i] = !src.data[i].lit  ? src.data[i].u
           : want == TG_VOID ? tg_settle_alone(p, &src.data[i])
                             : tg_settle(p, &src.data[i], want);
  }
  if (op == TG_OP_LOAD && (!n || u[0]->op != TG_OP_DEFINE))
    FAIL(p, &t, "LOAD(buffer, subscripts..): a buffer expected first");
  return tg_call_result(p, tg_make(j, op, type, lanes, arg, n, u), &t);
}

/* ---- dispatch ---- */

tg_expr tg_parse_call(tg_parser *p) {
  tg_token t = p->tok;
  const char *s = p->src->text + t.off;
  tg_expr e;
  if (tg_type_of_word(s, t.len) != TG_TYPE__COUNT || tg_at_word(p, "type")) {
    e = parse_cast(p, t);
    return e;
  }
  tg_next(p);
  tg_next(p);
  const tg_name *own = tg_name_find(p->b, tg_symbol(p->j, s, t.len));
  tg_op op = op_of(p, &t);
  if (own && own->kind == NAME_DEF) e = call_function(p, t, own->macro);
  else if (tg_parse_reduction(p, t, &e)) {}
  else if (tg_token_is(p, &t, "where")) e = parse_where(p, t);
  else if (tg_token_is(p, &t, "get")) e = parse_get(p, t);
  else if (tg_token_is(p, &t, "iota")) e = parse_iota(p, t);
  else if (tg_token_is(p, &t, "fold")) e = parse_fold(p, t);
  else if (tg_token_is(p, &t, "shuffle")) e = parse_shuffle(p, t);
  else if (tg_token_is(p, &t, "matrix")) e = parse_matrix(p, t);
  else if (tg_token_is(p, &t, "ahead")) e = parse_ahead(p, t);
  else if (tg_token_is(p, &t, "dim")) e = parse_dim(p, t);
  else if (tg_token_is(p, &t, "bitcast")) e = parse_bitcast(p, t);
  else if (tg_token_is(p, &t, "ceildiv")) e = parse_ceildiv(p, t);
  else if (tg_token_is(p, &t, "derivative")) e = parse_derivative(p, t);
  else if (op != TG_OP__COUNT) e = parse_generic(p, t, op);
  else {
    for (op = TG_OP_CDIV; op < TG_OP__COUNT; op++)
      if ((tg_ops[op].flags & TG_OPF_W) && tg_ops[op].text[0] >= 'a' && tg_token_is(p, &t, tg_ops[op].text)) break;
    if (op == TG_OP__COUNT) {
      if (own) FAIL(p, &t, "'%s' is no function", own->name);
      tg_name_unknown(p, &t, true);
    }
    e = parse_lanewise(p, t, op);
  }
  if (e.u && tg_may_lack_derivative(e.u))
    tg_push(&p->j->env, &p->b->rough, ((tg_note){.node = e.u, .pos = tg_source_pos(p->j, p->src, t.off, t.len)}));
  return e;
}
