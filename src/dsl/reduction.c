/* SPDX-License-Identifier: MIT
 * Reductions as they are written: sum(k : K, value) and its like, argmax, and the general form reduce(..). */
#include "dsl/parse.h"
#include "dsl/value.h"

#define FAIL(p, t, ...) tg_token_fail((p), (t), __VA_ARGS__)

typedef struct { const tg_uop *ranges[8]; uint32_t n, names, notes; } binders;

/* k : K upcast, j : N, .. */
static binders parse_binders(tg_parser *p, const tg_token *t) {
  binders b = {.names = p->b->names.n, .notes = p->b->notes.n};
  while ((p->tok.kind == TK_NAME && p->ahead.kind == ':') && b.n < 8) {
    tg_token at = p->tok;
    const char *name = tg_take_name(p, "a range");
    tg_next(p);
    uint32_t from = p->tok.off;
    const tg_uop *extent = tg_parse_index(p, true);
    tg_kind kind = TG_REDUCE;
    uint32_t end = p->tok.off;
    while (end > from + 1 && strchr(" \t\r\n", p->src->text[end - 1])) end--;
    if (p->tok.kind == TK_NAME) {
      kind = tg_kind_of(p, &p->tok);
      if (kind == TG_KIND__COUNT) tg_kind_unknown(p, &p->tok);
      tg_next(p);
    }
    if (extent->lanes != 1) FAIL(p, &at, "an extent is one number, not a vector");
    tg_pos pos = tg_source_pos(p->j, p->src, at.off, at.len);
    const tg_builder *in = p->b;
    const char *full = tg_called(p->j, name);
    if (in->formals_only && in->prefix) full = tg_format(&p->j->env, "%s.%s", in->prefix, full);
    const tg_uop *r = tg_range_new(p->j, full, extent, kind, UINT32_MAX, pos);
    if (extent->type != TG_INDEX) r = tg_make(p->j, TG_OP_RANGE, extent->type, 1, r->arg, 1, &extent);
    tg_name_add(p->b, name, NAME_RANGE, pos)->u = r;
    tg_note_node(p, r, from, end - from);
    b.ranges[b.n++] = r;
    if (!tg_take(p, ',')) FAIL(p, &p->tok, "',' and what is reduced expected, not %s", tg_token_text(p, &p->tok));
  }
  if (!b.n) FAIL(p, &p->tok, "%.*s(k : K, value): a range expected", (int)t->len, p->src->text + t->off);
  if (p->tok.kind == TK_NAME && p->ahead.kind == ':') FAIL(p, &p->tok, "a reduction takes at most 8 ranges");
  return b;
}

/* Shared nodes may be named at the head of a reduction's body (in printed programs) and of a text given alone. */
void tg_parse_inner_lets(tg_parser *p) {
  while (tg_at_word(p, "let")) {
    tg_next(p);
    tg_pos pos = tg_source_pos(p->j, p->src, p->tok.off, p->tok.len);
    const char *name = tg_take_name(p, "a name");
    tg_expect(p, '=', "'='");
    tg_expr e = tg_parse_expression(p);
    tg_expect(p, ';', "';'");
    tg_name *n = tg_name_add(p->b, name, NAME_VALUE, pos);
    n->value = e;
    n->u = e.u;
  }
}

/* The reduction made first stands for its equals: notes of this one's text follow it to the other's ranges. */
static const tg_uop *make_reduce(tg_parser *p, tg_reduce_arg a, const binders *b, const tg_uop *const *values,
                                 const tg_uop *const *inits, const tg_uop *const *combined) {
  a.ranges = (uint8_t)b->n;
  const tg_uop *r = tg_reduce(p->j, a, values, inits, combined, b->ranges);
  const tg_uop *const *own = tg_reduce_ranges(r);
  if (!p->b->raw && own[0] != b->ranges[0])
    for (uint32_t i = b->notes; i < p->b->notes.n; i++) {
      tg_note *n = &p->b->notes.data[i];
      if (n->node) n->node = tg_substitute(p->j, n->node, b->n, b->ranges, own);
    }
  tg_names_cut(p->b, b->names);
  return r;
}

static tg_expr parse_argument_of_extreme(tg_parser *p, tg_token t, const binders *b, tg_expr e, bool largest) {
  tg_job *j = p->j;
  e.u = tg_settle_alone(p, &e);
  tg_type type = e.u->type;
  if (type == TG_BOOL || type == TG_E4M3 || type == TG_E5M2)
    tg_expr_fail(p, &e, "%.*s of %s", (int)t.len, p->src->text + t.off, tg_type_name[type]);
  const tg_uop *place = b->ranges[0];
  for (uint32_t i = 1; i < b->n; i++)
    place = tg_op2(j, TG_OP_ADD, tg_op2(j, TG_OP_MUL, place, tg_extent(b->ranges[i])), b->ranges[i]);
  const tg_uop *values[2] = {e.u, tg_cast(j, TG_I32, place)}, *inits[2], *combined[2];
  tg_extreme_parts(j, type, largest, inits, combined);
  const tg_uop *r = make_reduce(p, (tg_reduce_arg){.values = 2, .generic = true}, b, values, inits, combined);
  return tg_call_result(p, tg_make(j, TG_OP_GET, TG_I32, 1, 1, 1, &r), &t);
}

typedef struct { const char *name; uint8_t op; bool in_order; int8_t extreme; } reduction;
static const reduction reductions[] = {
    {"sum", TG_OP_ADD, false, 0},          {"sum_in_order", TG_OP_ADD, true, 0}, {"prod", TG_OP_MUL, false, 0},
    {"prod_in_order", TG_OP_MUL, true, 0}, {"max", TG_OP_MAX, false, 0},         {"min", TG_OP_MIN, false, 0},
    {"any", TG_OP_OR, false, 0},           {"all", TG_OP_AND, false, 0},         {"argmax", TG_OP_MAX, false, 1},
    {"argmin", TG_OP_MIN, false, -1},
};

static TG_APART tg_expr parse_of_one(tg_parser *p, tg_token t, const reduction *d) {
  binders b = parse_binders(p, &t);
  tg_parse_inner_lets(p);
  tg_expr e = tg_parse_expression(p);
  tg_close_call(p, &t, 1, 1);
  if (d->extreme) return parse_argument_of_extreme(p, t, &b, e, d->extreme > 0);
  const tg_uop *u = tg_settle_alone(p, &e);
  tg_type type = u->type;
  const char *text = p->src->text + e.off;
  int n = (int)(e.end - e.off);
  bool logic = d->op == TG_OP_AND || d->op == TG_OP_OR, sums = d->op == TG_OP_ADD || d->op == TG_OP_MUL;
  if (logic && type != TG_BOOL && !p->b->raw)
    tg_expr_fail(p, &e, "%s of %s: a bool is expected: compare it", d->name, tg_type_name[type]);
  if (!logic && type == TG_BOOL) tg_expr_fail(p, &e, "%s of a bool: write i32(%.*s)", d->name, n, text);
  if (tg_is_float(type) && (type == TG_E4M3 || type == TG_E5M2 || (sums && !p->b->raw && tg_type_bits(type) < 32)))
    tg_expr_fail(p, &e, "%s over %s loses what it adds: write %s(.., f32(%.*s))", d->name, tg_type_name[type], d->name,
                 n, text);
  return tg_call_result(
      p, make_reduce(p, (tg_reduce_arg){.op = d->op, .values = 1, .in_order = d->in_order}, &b, &u, NULL, NULL), &t);
}

static uint32_t parse_tuple(tg_parser *p, tg_expr *e) {
  if (p->tok.kind != '(') {
    e[0] = tg_parse_expression(p);
    return 1;
  }
  uint32_t n = 0;
  tg_next(p);
  while (p->tok.kind != ')') {
    if (n == 8) FAIL(p, &p->tok, "a reduction has at most 8 values");
    e[n++] = tg_parse_expression(p);
    if (!tg_take(p, ',')) break;
  }
  tg_expect(p, ')', "')'");
  return n;
}

static uint32_t parse_names(tg_parser *p, tg_token *at, uint32_t max) {
  uint32_t n = 0;
  bool one = p->tok.kind != '(';
  if (!one) tg_next(p);
  do {
    if (n == max) FAIL(p, &p->tok, "a reduction has at most 8 values");
    at[n++] = p->tok;
    tg_take_name(p, "a name");
  } while (!one && tg_take(p, ','));
  if (!one) tg_expect(p, ')', "')'");
  return n;
}

static void want_count(tg_parser *p, const tg_token *at, uint32_t got, uint32_t want, const char *what) {
  if (got != want)
    FAIL(p, at, "this reduction has %u value%s, but %u %s%s", want, want == 1 ? "" : "s", got, what,
         got == 1 ? "" : "s");
}

/* reduce(k : K, (m, l) = (-inf, 0), (s[k], 1), (a, b), (c, d) -> (max(a, c), b + d)) */
static TG_APART tg_expr parse_reduce(tg_parser *p, tg_token t) {
  tg_job *j = p->j;
  binders b = parse_binders(p, &t);
  tg_token names[8], left[8], right[8], at = p->tok;
  tg_expr init[8], value[8], combined[8];
  const tg_uop *values[8], *inits[8], *parts[8];
  uint32_t nv = parse_names(p, names, 8);
  tg_expect(p, '=', "'=' and the first values");
  at = p->tok;
  want_count(p, &at, parse_tuple(p, init), nv, "first value");
  tg_expect(p, ',', "','");
  tg_parse_inner_lets(p);
  at = p->tok;
  want_count(p, &at, parse_tuple(p, value), nv, "term");
  for (uint32_t i = 0; i < nv; i++) {
    if (init[i].lit || value[i].lit || init[i].u->type != value[i].u->type)
      tg_unify(p, &value[i], &init[i], "a first value and a term");
    values[i] = tg_settle_alone(p, &value[i]);
    inits[i] = tg_settle(p, &init[i], values[i]->type);
  }
  tg_expect(p, ',', "','");
  at = p->tok;
  want_count(p, &at, parse_names(p, left, 8), nv, "name");
  tg_expect(p, ',', "','");
  at = p->tok;
  want_count(p, &at, parse_names(p, right, 8), nv, "name");
  tg_expect(p, TK2('-', '>'), "'->'");
  for (uint32_t i = 0; i < 2 * nv; i++) {
    const tg_token *n = i < nv ? &left[i] : &right[i - nv];
    tg_name *e = tg_name_add(p->b, tg_symbol(j, p->src->text + n->off, n->len), NAME_VALUE,
                             tg_source_pos(j, p->src, n->off, n->len));
    e->u = tg_make(j, TG_OP_ARG, values[i % nv]->type, values[i % nv]->lanes, i, 0, NULL);
    e->value = (tg_expr){.u = e->u};
  }
  at = p->tok;
  tg_parse_inner_lets(p);
  want_count(p, &at, parse_tuple(p, combined), nv, "result");
  for (uint32_t i = 0; i < nv; i++) parts[i] = tg_settle(p, &combined[i], values[i]->type);
  tg_close_call(p, &t, 1, 1);
  const tg_uop *u = make_reduce(p, (tg_reduce_arg){.values = (uint8_t)nv, .generic = true}, &b, values, inits, parts);
  return tg_call_result(p, u, &t);
}

/* max and min of numbers are functions: ranges tell. */
bool tg_parse_reduction(tg_parser *p, tg_token t, tg_expr *e) {
  const reduction *r = NULL;
  if (tg_token_is(p, &t, "reduce")) return *e = parse_reduce(p, t), true;
  for (unsigned i = 0; i < TG_COUNT(reductions); i++)
    if (tg_token_is(p, &t, reductions[i].name)) r = &reductions[i];
  bool has_range = p->tok.kind == TK_NAME && p->ahead.kind == ':';
  if (!r || (!has_range && !r->extreme && (r->op == TG_OP_MAX || r->op == TG_OP_MIN))) return false;
  return *e = parse_of_one(p, t, r), true;
}
