/* SPDX-License-Identifier: MIT
 * Expressions: a Pratt parser with C's precedence that builds nodes as it reads. Nothing is folded. Literals carry
 * no type until they meet one. Inside [ ] and in extents arithmetic is INDEX: integer values are converted at the
 * leaf, and a load of an input that promises a range (i32 in lo..hi) is clamped to it. Conditions of the arms of a
 * `where` and of enclosing `if`s become gates of loads. */
#include <math.h>
#include "dsl/parse.h"
#include "dsl/value.h"

enum { DEEPEST = 200 };   /* parentheses within each other; what is printed is never as deep */

void tg_note_node(tg_parser *p, const tg_uop *node, uint32_t off, uint32_t len) {
  if (p->b->raw) return;
  tg_push(&p->j->env, &p->b->notes, ((tg_note){.node = node, .pos = tg_source_pos(p->j, p->src, off, len)}));
}

/* ---- literals and types ---- */

static tg_expr typed(const tg_uop *u, uint32_t off, const tg_parser *p) {
  return (tg_expr){.u = u, .off = off, .end = p->tok.off};
}

static tg_type type_alone(const tg_parser *p, const tg_expr *e) {
  if (e->lit == LIT_INT) return p->index || p->b->raw ? TG_INDEX : TG_I32;
  return p->b->raw ? TG_F64 : TG_F32;
}

static uint32_t text_length(const tg_parser *p, const tg_expr *e) {
  uint32_t n = e->end - e->off;
  while (n && strchr(" \t\r\n", p->src->text[e->off + n - 1])) n--;
  return n;
}

#define FAIL(p, e, ...) tg_parse_fail((p), (e)->off, text_length((p), (e)), __VA_ARGS__)

static const tg_uop *settle_literal(tg_parser *p, const tg_expr *e, tg_type t) {
  int n = (int)text_length(p, e);
  const char *text = p->src->text + e->off;
  if (t == TG_BOOL || t == TG_VOID) FAIL(p, e, "a bool is expected, not the number %.*s", n, text);
  if (tg_is_float(t)) {
    double v = e->lit == LIT_INT ? (double)e->i : e->f, r = tg_round_to(t, v);
    if (isinf(r) && !isinf(v)) FAIL(p, e, "%.*s does not fit %s", n, text, tg_type_name[t]);
    if (e->lit == LIT_INT && (r != v || (tg_i128)v != e->i))
      FAIL(p, e, "%.*s has no exact value in %s", n, text, tg_type_name[t]);
    return tg_const_float(p->j, t, v);
  }
  if (e->lit == LIT_FLOAT) FAIL(p, e, "%.*s is no integer, and %s is expected", n, text, tg_type_name[t]);
  if (t == TG_INDEX ? e->i != (int64_t)e->i : tg_wrap(t, e->i) != e->i)
    FAIL(p, e, "%.*s does not fit %s", n, text, tg_type_name[t]);
  return tg_const_int(p->j, t, (int64_t)e->i);
}

static void no_tuple(tg_parser *p, const tg_expr *e) {
  if (!e->lit && e->u->type == TG_VOID)
    FAIL(p, e, "a reduction with several values: take one with get(.., 0), or name them with let (x, y) = ..");
}

const tg_uop *tg_settle(tg_parser *p, const tg_expr *e, tg_type t) {
  if (e->lit) {
    if (e->u && e->u->type == t) return e->u;
    if (e->choice)
      return tg_op3(p->j, TG_OP_WHERE, e->choice->cond, tg_settle(p, &e->choice->yes, t),
                    tg_settle(p, &e->choice->no, t));
    return settle_literal(p, e, t);
  }
  no_tuple(p, e);
  if (e->u->type == t) return e->u;
  if (t == TG_INDEX) FAIL(p, e, "an index is expected, not %s", tg_type_name[e->u->type]);
  if (t == TG_BOOL) FAIL(p, e, "a bool is expected, not %s: compare it", tg_type_name[e->u->type]);
  if (e->u->type == TG_BOOL)
    FAIL(p, e, "%s is expected, not bool: write %s(%.*s) or where(..)", tg_type_name[t], tg_type_name[t],
         (int)text_length(p, e), p->src->text + e->off);
  FAIL(p, e, "%s is expected, not %s, and nothing is converted silently: write %s(%.*s)", tg_type_name[t],
       tg_type_name[e->u->type], tg_type_name[t], (int)text_length(p, e), p->src->text + e->off);
}

const tg_uop *tg_settle_alone(tg_parser *p, const tg_expr *e) {
  no_tuple(p, e);
  return e->lit ? tg_settle(p, e, e->u ? e->u->type : type_alone(p, e)) : e->u;
}

/* Of two types, the one that an author most likely wants the other cast to. */
static tg_type wider(tg_type a, tg_type b) {
  if (a == TG_INDEX || b == TG_INDEX) return a == TG_INDEX ? b : a;
  if (tg_is_float(a) != tg_is_float(b)) return tg_is_float(a) ? a : b;
  if (tg_type_bits(a) != tg_type_bits(b)) return tg_type_bits(a) > tg_type_bits(b) ? a : b;
  return tg_is_float(a) && tg_type_bits(a) == 16 ? TG_F32 : a;
}

void tg_unify(tg_parser *p, tg_expr *a, tg_expr *b, const char *what) {
  no_tuple(p, a);
  no_tuple(p, b);
  if (a->lit && b->lit) {
    tg_expr both = {.lit = a->lit > b->lit ? a->lit : b->lit};
    tg_type t = type_alone(p, &both);
    a->u = tg_settle(p, a, t);
    b->u = tg_settle(p, b, t);
    return;
  }
  if (a->lit) a->u = tg_settle(p, a, b->u->type);
  if (b->lit) b->u = tg_settle(p, b, a->u->type);
  tg_type ta = a->u->type, tb = b->u->type;
  if (ta != tb) {
    tg_type to = wider(ta, tb);
    const tg_expr *x = ta == to ? b : a;
    if (ta == TG_BOOL || tb == TG_BOOL)
      FAIL(p, ta == TG_BOOL ? a : b, "%s of %s and %s", what, tg_type_name[ta], tg_type_name[tb]);
    FAIL(p, x, "%s of %s and %s, and nothing is converted silently: write %s(%.*s)", what, tg_type_name[ta],
         tg_type_name[tb], tg_type_name[to], (int)text_length(p, x), p->src->text + x->off);
  }
  if (a->u->lanes != b->u->lanes && a->u->lanes != 1 && b->u->lanes != 1)
    FAIL(p, b, "%s of %u and %u lanes", what, a->u->lanes, b->u->lanes);
}

tg_type tg_type_of_word(const char *s, size_t n) {
  for (int t = TG_BOOL; t < TG_TYPE__COUNT; t++)
    if (!strncmp(tg_type_name[t], s, n) && !tg_type_name[t][n]) return (tg_type)t;
  return TG_TYPE__COUNT;
}

bool tg_parse_type(tg_parser *p, tg_type *t, uint32_t *lanes) {
  if (p->tok.kind != TK_NAME) return false;
  *lanes = 1;
  if (tg_at_word(p, "type") && p->ahead.kind == '(') {
    tg_next(p);
    tg_next(p);
    tg_token at = p->tok;
    tg_name *n = tg_name_find(p->b, tg_take_name(p, "a buffer"));
    if (!n) tg_name_unknown(p, &at, false);
    if (n->kind != NAME_BUFFER) tg_token_fail(p, &at, "'%s' is no buffer", n->name);
    *t = n->u->type;
    *lanes = n->u->lanes;
    tg_expect(p, ')', "')'");
    return true;
  }
  *t = tg_type_of_word(p->src->text + p->tok.off, p->tok.len);
  if (*t == TG_TYPE__COUNT) {
    if (!tg_at_word(p, "void")) return false;
    *t = TG_VOID;
  }
  tg_next(p);
  if (p->tok.kind == '[' && p->ahead.kind == TK_INT) {
    if (!p->b->raw)
      tg_token_fail(p, &p->tok, "a vector is what schedules make: write a range, and opt(upcast r) or opt(lane r)");
    tg_next(p);
    if (p->tok.i < 1 || p->tok.i > 1024) tg_token_fail(p, &p->tok, "a vector has 1 to 1024 lanes");
    *lanes = (uint32_t)p->tok.i;
    tg_next(p);
    tg_expect(p, ']', "']'");
  }
  return true;
}

/* ---- conditions ---- */

const tg_uop *tg_negate(tg_job *j, const tg_uop *c) {
  bool exact = c->n == 2 && !tg_is_float(c->src[0]->type);
  switch (c->op) {
  case TG_OP_LT: if (exact) return tg_op2(j, TG_OP_LE, c->src[1], c->src[0]); break;
  case TG_OP_LE: if (exact) return tg_op2(j, TG_OP_LT, c->src[1], c->src[0]); break;
  case TG_OP_EQ: return tg_op2(j, TG_OP_NE, c->src[0], c->src[1]);
  case TG_OP_NE: return tg_op2(j, TG_OP_EQ, c->src[0], c->src[1]);
  case TG_OP_NOT: return c->src[0];
  default: break;
  }
  return tg_op1(j, TG_OP_NOT, c);
}

const tg_uop *tg_path(tg_builder *b) {
  const tg_uop *path = NULL;
  if (b->raw) return NULL;
  for (uint32_t i = 0; i < b->frames.n && !b->all_lanes; i++) {
    tg_frame *f = &b->frames.data[i];
    if (f->kind != FRAME_IF) continue;
    const tg_uop *c = tg_value_use(b, &f->condition).u;
    path = tg_and(b->job, path, f->negated ? tg_negate(b->job, c) : c);
  }
  for (uint32_t i = b->first_arm; i < b->arms.n; i++) path = tg_and(b->job, path, b->arms.data[i]);
  return path;
}

const tg_uop *tg_parse_condition(tg_parser *p) {
  tg_expr e = tg_parse_expression(p);
  return tg_settle(p, &e, TG_BOOL);
}

/* ---- leaves ---- */

const tg_uop *tg_to_index(tg_parser *p, const tg_expr *e) {
  const tg_uop *u = e->u;
  tg_job *j = p->j;
  if (u->op != TG_OP_LOAD) {
    if (p->extent)
      FAIL(p, e, "an extent that cannot be known: %.*s is computed from memory", (int)text_length(p, e),
           p->src->text + e->off);
    return tg_cast(j, TG_INDEX, u);
  }
  const tg_buffer *info = tg_buffer_info(j, u->src[0]);
  const tg_uop *v = tg_cast(j, TG_INDEX, u);
  if (!info->lo) {
    if (p->extent)
      FAIL(p, e,
           info->role == TG_ROLE_IN ? "an extent that cannot be known: '%s' is read without bounds\nwrite them where "
                                      "it is declared: in(%s, %s in 0..N, ..)"
                                    : "an extent that cannot be known: '%s' is written by the kernel",
           info->name, info->name, tg_type_name[info->type]);
    return v;
  }
  return tg_op2(j, TG_OP_MIN, tg_op2(j, TG_OP_MAX, v, info->lo), info->hi);
}

/* A value as it stands where it is read. */
static tg_expr leaf(tg_parser *p, tg_expr e) {
  if (p->index && !p->b->raw && !e.lit && tg_is_int(e.u->type)) e.u = tg_to_index(p, &e);
  return e;
}

const tg_uop *tg_parse_index(tg_parser *p, bool extent) {
  bool index = p->index, outer = p->extent;
  p->index = true;
  p->extent = extent;
  tg_expr e = tg_parse_expression(p);
  if (!e.lit && tg_is_float(e.u->type))
    FAIL(p, &e, extent ? "an extent is an integer, not %s" : "a subscript is an integer, not %s",
         tg_type_name[e.u->type]);
  const tg_uop *u = p->b->raw ? tg_settle_alone(p, &e) : tg_settle(p, &e, TG_INDEX);
  p->index = index;
  p->extent = outer;
  return u;
}

uint32_t tg_parse_subscripts(tg_parser *p, const tg_name *buffer, const tg_token *t, const tg_uop **idx) {
  uint32_t rank = p->j->buffers.data[(uint32_t)buffer->u->arg].rank, n = 0;
  const char *name = buffer->name;
  if (p->tok.kind != '[') {
    if (rank)
      tg_token_fail(p, t, "'%s' has %u dimension%s: write %s[%s]", name, rank, rank > 1 ? "s" : "", name,
                    rank == 1   ? "i"
                    : rank == 2 ? "i, j"
                                : "i, j, ..");
    return 0;
  }
  tg_next(p);
  while (p->tok.kind != ']') {
    const tg_uop *u = tg_parse_index(p, false);
    if (n < 16) idx[n] = u;
    n++;
    if (!tg_take(p, ',')) break;
  }
  uint32_t end = p->tok.off + p->tok.len;
  tg_expect(p, ']', "']'");
  const char *hint =
      n < rank && p->tok.kind == '[' ? tg_format(&p->j->env, "\nwrite %s[i, j], not %s[i][j]", name, name) : "";
  if (n != rank)
    tg_parse_fail(p, t->off, end - t->off, "'%s' has %u dimension%s, and %u subscript%s given%s", name, rank,
                  rank == 1 ? "" : "s", n, n == 1 ? " is" : "s are", hint);
  return rank;
}

static const tg_uop *in_bounds(tg_job *j, const tg_uop *define, uint32_t rank, const tg_uop *const *idx) {
  const tg_uop *gate = NULL;
  for (uint32_t d = 0; d < rank; d++) {
    const tg_uop *pair =
        tg_op2(j, TG_OP_AND, tg_op2(j, TG_OP_LE, tg_index(j, 0), idx[d]), tg_op2(j, TG_OP_LT, idx[d], define->src[d]));
    gate = gate ? tg_op2(j, TG_OP_AND, gate, pair) : pair;
  }
  return gate;
}

tg_expr tg_load_of(tg_parser *p, const tg_uop *define, const tg_uop *const *idx, const tg_uop *gate, const tg_uop *alt,
                   uint32_t off) {
  tg_job *j = p->j;
  const tg_uop *path = tg_path(p->b);
  if (path) gate = tg_and(j, path, gate);
  if (gate && !alt)
    alt = tg_is_float(define->type) ? tg_const_float(j, define->type, 0) : tg_const_int(j, define->type, 0);
  tg_expr e = typed(tg_load(j, define, idx, gate, alt, 0), off, p);
  if (!p->b->raw) tg_note_read(p->b, (uint32_t)define->arg);
  return e;
}

/* `A[i] if g else v`, `A[i] else v`, or neither: an `if` with no `else` belongs to the statement. */
static bool gate_follows(tg_parser *p) {
  if (tg_at_word(p, "else")) return true;
  if (!tg_at_word(p, "if")) return false;
  tg_parser ahead = *p;
  uint32_t open = 0;
  for (tg_next(&ahead); ahead.tok.kind && (ahead.tok.kind != ';' || (open && p->b->raw)); tg_next(&ahead)) {
    int k = ahead.tok.kind;
    if (k == '(' || k == '[') open++;
    else if (k == ')' || k == ']') {
      if (!open--) return false;
    } else if (!open && (k == ',' || tg_at_word(&ahead, "if"))) return false;
    else if (!open && tg_at_word(&ahead, "else")) return true;
  }
  return false;
}

static void refuse(tg_parser *p, const tg_token *t) {
  static const struct { int kind; const char *text;
  } what[] = {
      {'?', "?: is not in the language: write where(condition, a, b)"},
      {'*', "pointers are not in the language: write A[i]"},
      {'&', "addresses are not in the language: write A[i]"},
      {TK2('-', '>'), "-> is not in the language: buffers have no fields"},
      {'{', "a block cannot stand here"},
      {'"', "strings are not in the language"},
      {'\'', "characters are not in the language"},
  };
  for (unsigned i = 0; i < TG_COUNT(what); i++)
    if (t->kind == what[i].kind) tg_token_fail(p, t, "%s", what[i].text);
}

tg_expr tg_parse_access(tg_parser *p, tg_name *buffer, const tg_token *t) {
  if (p->tok.kind == TK2('-', '>')) refuse(p, &p->tok);
  const tg_uop *define = buffer->u, *idx[16], *gate = NULL, *alt = NULL;
  uint32_t rank = tg_parse_subscripts(p, buffer, t, idx), end = t->off + t->len;
  if (rank)
    for (end = p->tok.off; end > t->off && p->src->text[end - 1] != ']';) end--;
  if (gate_follows(p)) {
    bool index = p->index, extent = p->extent;
    p->index = p->extent = false;
    if (tg_take_word(p, "if")) {
      tg_expr g = tg_parse_expression(p);
      gate = tg_settle(p, &g, TG_BOOL);
    } else gate = in_bounds(p->j, define, rank, idx);
    if (!tg_take_word(p, "else"))
      tg_token_fail(p, &p->tok, "'else' and a value expected, not %s", tg_token_text(p, &p->tok));
    if (!gate) tg_token_fail(p, t, "'%s' has no dimensions: it cannot be read outside of its bounds", buffer->name);
    tg_expr v = tg_parse_unary(p);
    alt = tg_settle(p, &v, define->type);
    p->index = index;
    p->extent = extent;
  }
  tg_expr e = tg_load_of(p, define, idx, gate, alt, t->off);
  tg_note_node(p, e.u, t->off, end - t->off);
  e.end = alt ? p->tok.off : end;
  return leaf(p, e);
}

static TG_APART tg_expr parse_name(tg_parser *p) {
  tg_token t = p->tok;
  uint32_t end;
  if (t.kind == '%') t.len = 1 + p->ahead.len;
  end = t.off + t.len;
  tg_name *n = tg_name_find(p->b, tg_take_name(p, "a name"));
  if (!n) {
    static const char *const words[] = {"inf", "nan", "true", "false"};
    for (unsigned i = 0; i < 4; i++) {
      if (!tg_token_is(p, &t, words[i])) continue;
      if (i < 2)
        return (tg_expr){.lit = LIT_FLOAT, .f = i ? __builtin_nan("") : __builtin_inf(), .off = t.off, .end = end};
      return (tg_expr){.u = tg_bool(p->j, i == 2), .off = t.off, .end = end};
    }
    if (tg_type_of_word(p->src->text + t.off, t.len) != TG_TYPE__COUNT)
      tg_token_fail(p, &t, "a type stands here: a cast is %.*s(value)", (int)t.len, p->src->text + t.off);
    tg_name_unknown(p, &t, false);
  }
  tg_expr e = {.off = t.off, .end = end};
  switch ((tg_name_kind)n->kind) {
  case NAME_BUFFER: return tg_parse_access(p, n, &t);
  case NAME_VALUE:
    e = tg_value_use(p->b, n);
    e.off = t.off;
    e.end = end;
    if (p->tok.kind == '[' && !p->b->raw) tg_token_fail(p, &t, "'%s' is no buffer: it has no elements", n->name);
    return leaf(p, e);
  case NAME_DEF: tg_token_fail(p, &t, "'%s' is a function: write %s(..)", n->name, n->name);
  case NAME_PROC: tg_token_fail(p, &t, "'%s' is a proc: write call(%s, ..)", n->name, n->name);
  default: e.u = n->u;
  }
  if (p->tok.kind == '[') tg_token_fail(p, &t, "'%s' is no buffer: it has no elements", n->name);
  return leaf(p, e);
}

/* type(A)(value) */
static TG_APART bool at_cast_to_type_of(const tg_parser *p) {
  tg_parser ahead = *p;
  tg_type type;
  uint32_t lanes;
  return tg_at_word(p, "type") && p->ahead.kind == '(' && tg_parse_type(&ahead, &type, &lanes) && ahead.tok.kind == '(';
}

static tg_expr parse_primary(tg_parser *p) {
  tg_token t = p->tok;
  tg_expr e = {.off = t.off, .end = t.off + t.len};
  switch (t.kind) {
  case TK_INT: e.lit = LIT_INT; e.i = t.i; break;
  case TK_FLOAT: e.lit = LIT_FLOAT; e.f = t.f; break;
  case TK_F32: e.u = tg_const_float(p->j, TG_F32, t.f); break;
  case TK_NAME:
    if (at_cast_to_type_of(p) || p->ahead.kind == '(') return leaf(p, tg_parse_call(p));
    return parse_name(p);
  case '%': return parse_name(p);
  case '(':
    tg_next(p);
    e = tg_parse_expression(p);
    if (p->tok.kind == ',') tg_token_fail(p, &p->tok, "a tuple stands only in let (x, y) = .. and in reduce(..)");
    e.off = t.off;
    e.end = p->tok.off + p->tok.len;
    tg_expect(p, ')', "')'");
    return e;
  default:
    refuse(p, &t);
    tg_token_fail(p, &t, "a value expected, not %s", tg_token_text(p, &t));
  }
  tg_next(p);
  return e;
}

/* ---- operators ---- */

static void want_numbers(tg_parser *p, const tg_expr *e, const char *what) {
  tg_type t = e->u->type;
  if (t == TG_BOOL)
    FAIL(p, e, "%s of a bool: write i32(%.*s) or where(..)", what, (int)text_length(p, e), p->src->text + e->off);
  if (t == TG_E4M3 || t == TG_E5M2)
    FAIL(p, e, "%s is for storage only: write f32(%.*s)", tg_type_name[t], (int)text_length(p, e),
         p->src->text + e->off);
}

tg_expr tg_parse_unary(tg_parser *p) {
  tg_token t = p->tok;
  if (t.kind != '-' && t.kind != '!' && t.kind != '~' && t.kind != '+') return parse_primary(p);
  tg_next(p);
  if (++p->depth > DEEPEST) tg_token_fail(p, &t, "an expression nested over %d deep: name its parts with let", DEEPEST);
  bool number = t.kind == '-' && p->tok.kind == TK_F32;
  tg_expr e = tg_parse_unary(p);
  p->depth--;
  e.off = t.off;
  if (number) {
    e.u = tg_const_float(p->j, TG_F32, -tg_const_value(e.u));
    return e;
  }
  if (e.lit && !e.choice && (t.kind == '-' || t.kind == '+')) {
    if (t.kind == '-') {
      e.i = -e.i;
      e.f = -e.f;
      if (e.u) e.u = tg_op1(p->j, TG_OP_NEG, e.u);
    }
    return e;
  }
  e.u = tg_settle_alone(p, &e);
  e.lit = LIT_NONE;
  if (t.kind == '-' || t.kind == '+') {
    want_numbers(p, &e, "a sign");
    if (t.kind == '-') e.u = tg_op1(p->j, TG_OP_NEG, e.u);
  } else {
    if (tg_is_float(e.u->type))
      FAIL(p, &e, "%c of %s: bits are those of integers: bitcast(u32, x)", t.kind, tg_type_name[e.u->type]);
    if (t.kind == '~' && e.u->type == TG_BOOL) FAIL(p, &e, "~ of a bool: write !");
    e.u = tg_op1(p->j, TG_OP_NOT, e.u);
  }
  return e;
}

typedef struct { int kind; uint8_t level; uint8_t op; bool swapped; const char *text; } operator_info;
static const operator_info operators[] = {
    {'*', 10, TG_OP_MUL, false, "*"},
    {'/', 10, TG_OP_IDIV, false, "/"},
    {'%', 10, TG_OP_MOD, false, "%"},
    {'+', 9, TG_OP_ADD, false, "+"},
    {'-', 9, TG_OP_SUB, false, "-"},
    {TK2('<', '<'), 8, TG_OP_SHL, false, "<<"},
    {TK2('>', '>'), 8, TG_OP_SHR, false, ">>"},
    {'<', 7, TG_OP_LT, false, "<"},
    {TK2('<', '='), 7, TG_OP_LE, false, "<="},
    {'>', 7, TG_OP_LT, true, ">"},
    {TK2('>', '='), 7, TG_OP_LE, true, ">="},
    {TK2('=', '='), 6, TG_OP_EQ, false, "=="},
    {TK2('!', '='), 6, TG_OP_NE, false, "!="},
    {'&', 5, TG_OP_AND, false, "&"},
    {'^', 4, TG_OP_XOR, false, "^"},
    {'|', 3, TG_OP_OR, false, "|"},
    {TK2('&', '&'), 2, TG_OP_AND, false, "&&"},
    {TK2('|', '|'), 1, TG_OP_OR, false, "||"},
};

static const operator_info *operator_at(const tg_parser *p) {
  for (unsigned i = 0; i < TG_COUNT(operators); i++)
    if (p->tok.kind == operators[i].kind) return &operators[i];
  return NULL;
}

/* Two literals: their value, for where a type is met later. False where it has none. */
static bool fold_literals(tg_op op, const tg_expr *a, const tg_expr *b, tg_expr *out) {
  bool real = a->lit == LIT_FLOAT || b->lit == LIT_FLOAT;
  if (a->choice || b->choice) return false;
  double x = a->lit == LIT_FLOAT ? a->f : (double)a->i, y = b->lit == LIT_FLOAT ? b->f : (double)b->i;
  out->lit = real ? LIT_FLOAT : LIT_INT;
  switch (op) {
  case TG_OP_ADD: out->f = x + y; out->i = a->i + b->i; break;
  case TG_OP_SUB: out->f = x - y; out->i = a->i - b->i; break;
  case TG_OP_MUL:
    if (!real && __builtin_mul_overflow(a->i, b->i, &out->i)) return false;
    out->f = x * y;
    break;
  case TG_OP_FDIV: out->f = x / y; break;
  case TG_OP_IDIV: out->i = tg_floor_div(a->i, b->i); break;
  case TG_OP_MOD: out->i = tg_floor_mod(a->i, b->i); break;
  case TG_OP_SHL: if (b->i < 0 || b->i > 62 || a->i >> 62) return false; out->i = a->i << (int)b->i; break;
  default: return false;
  }
  return real || (out->i >= -((tg_i128)1 << 100) && out->i <= (tg_i128)1 << 100);
}

/* Two integers that are too big for the type they have alone: only what they meet can tell it. */
static bool wide_literals(const tg_parser *p, const tg_expr *a, const tg_expr *b) {
  if (a->lit != LIT_INT || b->lit != LIT_INT) return false;
  tg_type t = type_alone(p, a);
  return t != TG_INDEX && (tg_wrap(t, a->i) != a->i || tg_wrap(t, b->i) != b->i);
}

tg_expr tg_combine(tg_parser *p, tg_op op, tg_expr a, tg_expr b, const tg_token *at) {
  const char *what = tg_format(&p->j->env, "'%.*s'", (int)at->len, p->src->text + at->off);
  tg_expr e = {.off = a.off, .end = b.end}, la = a, lb = b;
  if (wide_literals(p, &a, &b) && fold_literals(op, &a, &b, &e)) return e;
  tg_unify(p, &a, &b, what);
  tg_type t = a.u->type;
  bool logic = op == TG_OP_AND || op == TG_OP_OR || op == TG_OP_XOR, real = tg_is_float(t);
  if (!logic && op != TG_OP_EQ && op != TG_OP_NE) want_numbers(p, &a, what);
  if (op == TG_OP_EQ || op == TG_OP_NE) {
    if (t == TG_E4M3 || t == TG_E5M2) want_numbers(p, &a, what);
  }
  if (real && (logic || op == TG_OP_SHL || op == TG_OP_SHR))
    FAIL(p, &a, "%s of %s: bits are those of integers: bitcast(u32, x)", what, tg_type_name[t]);
  if (real && op == TG_OP_MOD) FAIL(p, &a, "%s of %s: write x - floor(x / y) * y", what, tg_type_name[t]);
  if (op == TG_OP_IDIV && real) op = TG_OP_FDIV;
  e.u = tg_op2(p->j, op, a.u, b.u);
  if (la.lit && lb.lit && !fold_literals(op, &la, &lb, &e)) e.lit = LIT_NONE;
  return e;
}

static TG_APART tg_expr compare(tg_parser *p, const operator_info *o, tg_expr a, tg_expr b, const tg_token *at) {
  tg_expr e = o->swapped ? tg_combine(p, o->op, b, a, at) : tg_combine(p, o->op, a, b, at);
  e.off = a.off;
  e.end = b.end;
  return e;
}

static tg_expr parse_binary(tg_parser *p, int level) {
  if (++p->depth > DEEPEST)
    tg_token_fail(p, &p->tok, "an expression nested over %d deep: name its parts with let", DEEPEST);
  tg_expr left = tg_parse_unary(p), last = left;
  bool chain = false;
  for (const operator_info *o; (o = operator_at(p)) && o->level >= level; chain = o->level == 7) {
    tg_token at = p->tok;
    tg_next(p);
    bool arm = o->op == TG_OP_AND && !p->b->raw && !left.lit && left.u->type == TG_BOOL;
    if (arm) tg_push(&p->j->env, &p->b->arms, left.u);
    tg_expr right = parse_binary(p, o->level + 1);
    if (arm) p->b->arms.n--;
    if ((o->kind == TK2('&', '&') || o->kind == TK2('|', '|')) && (right.lit || right.u->type != TG_BOOL))
      tg_settle(p, &right, TG_BOOL);
    if (o->level == 7 && chain) {
      tg_expr more = compare(p, o, last, right, &at);
      left.u = tg_op2(p->j, TG_OP_AND, left.u, more.u);
      left.end = right.end;
    } else left = compare(p, o, left, right, &at);
    last = right;
  }
  p->depth--;
  return left;
}

tg_expr tg_parse_expression(tg_parser *p) {
  tg_expr e = parse_binary(p, 1);
  if (p->tok.kind == '?') refuse(p, &p->tok);
  return e;
}

bool tg_constant_value(tg_job *j, const tg_uop *u, tg_i128 *v) {
  uint32_t n;
  const tg_uop **order = tg_toposort(j, u, &n);
  tg_value *values = tg_new(&j->env, tg_value, n), operands[3];
  for (uint32_t i = 0; i < n; i++) {
    const tg_uop *x = order[i];
    if (x->op == TG_OP_CONST) {
      values[i] = tg_value_of(x);
      continue;
    }
    if (x->n > 3 || !x->n || !(tg_ops[x->op].flags & TG_OPF_W)) return false;
    for (uint32_t k = 0; k < x->n; k++)
      for (uint32_t m = 0; m < i; m++)
        if (order[m] == x->src[k]) operands[k] = values[m];
    bool done = x->op == TG_OP_CAST ? tg_convert(x->type, x->src[0]->type, operands[0], &values[i])
                                    : tg_evaluate(x->op, x->type, x->src[x->n - 1]->type, operands, &values[i]);
    if (!done) return false;
  }
  if (tg_is_float(u->type)) return false;
  *v = values[n - 1].i;
  return true;
}
