/* SPDX-License-Identifier: MIT
 * Rules from text: parsed once, typed by their domain, indexed by op, matched without recursion over the graph.
 *
 *   R(name, domain, "pattern -> result")   R(name, domain, "pattern -> result if condition")
 *
 * In a pattern x, y, .. match any node, c and d (with a digit or not) a CONST only; the same name twice must be the same
 * node. Literals match by bits (0 is not -0.0). T(x) matches a CAST to a type; T, U, V name types. The operators are the
 * language's; / is what / is in the domain. In a result literals take the type of what they stand beside, and
 * constants compute: c * d is one CONST; if that has no value, the rule does not apply. Conditions compute with 128-bit
 * integers over c, d, literals and the predicates below; past 128 bits, or past what is known, they are false.
 *
 * Measure: of the two sides seen as terms, the weights of their ops are added (a computed constant counts one), and no
 * name stands on the right more often than on the left. The sum falls; where it stays, the first op that differs is
 * cheaper by the same table (Knuth and Bendix's order: it falls wherever the rule is applied, so rewriting ends). */
#include "ranges/known.h"

typedef enum { INDEX, WRAP, FLOAT, BOOL, CLASSES } class_t;
enum { D_index = 1 << INDEX, D_wrap = 1 << WRAP, D_exact = 1 << FLOAT, D_bool = 1 << BOOL,
       D_int = 1 << INDEX | 1 << WRAP, D_logic = 1 << INDEX | 1 << WRAP | 1 << BOOL, D_any = 15 };

enum { NAME = TG_OP__COUNT, LITERAL, CONVERT, PREDICATE, AND_ALSO, OR_ELSE, NEGATE };   /* tags beside ops */
enum { P_lo, P_hi, P_type, P_bits, P_is_const, P_is_float, P_is_signed, P_is_int, P_multiple, P_widens, P_power_of_two, P_exponent, P_exact_inverse, P_same_type, P_top, P__COUNT };
static const char *const predicate_name[P__COUNT] = {"lo", "hi", "type", "bits", "is_const", "is_float", "is_signed", "is_int", "multiple", "widens", "is_power_of_two", "exponent", "has_exact_inverse", "same_type", "top"};

enum { NAMES = 12, TYPES = 3, TERMS = 40, CHOICES = 2 };

typedef struct {
  uint16_t tag;             /* op or one of the above */
  int8_t a, b, c;           /* operands: terms; -1 none */
  uint8_t which;            /* NAME: its slot; CONVERT: slot of the type; PREDICATE: which */
  int8_t choice;            /* commutative: bit of the choice; -1: as written */
  bool is_float;
  int64_t i;
  double f;
} term;

typedef struct {
  const char *name, *text;
  uint8_t classes, choices, set;
  int8_t left, right, condition;   /* roots; condition -1 */
  uint8_t n, names;
  char letter[NAMES][4];
  bool constant[NAMES];
  term term[TERMS];
} rule;

struct tg_rules {
  rule *rule;
  uint32_t n;
  struct { const uint16_t *list; uint32_t n; } at[TG_RULES__COUNT][TG_OP__COUNT][CLASSES];
};

static const struct { const char *name, *text; uint8_t classes, set; } source[] = {
#define R(name, domain, text) {#name, text, D_##domain, TG_RULES_SIMPLIFY},
#define S(name, domain, text) {#name, text, D_##domain, TG_RULES_STRENGTH},
#include "ranges/rules.def"
#undef R
#undef S
};

/* ---- parsing ---- */

typedef struct { tg_env *env; const char *at; rule *r; bool condition, float_domain; } parser;

TG_NORETURN static void bad(parser *p, const char *what) { tg_bug(p->env, "rule %s: %s at '%s'", p->r->name, what, p->at); }

static void blanks(parser *p) {
  while (*p->at == ' ' || *p->at == '\n') p->at++;
}

static bool accept(parser *p, const char *s) {
  blanks(p);
  size_t n = strlen(s);
  if (strncmp(p->at, s, n)) return false;
  if (n == 1 && ((strchr("<>=!", *s) && p->at[1] == '=') || (strchr("<>&|", *s) && p->at[1] == *s) || (*s == '-' && p->at[1] == '>'))) return false;
  p->at += n;
  return true;
}

static int8_t put(parser *p, term t) {
  if (p->r->n == TERMS) bad(p, "too long");
  p->r->term[p->r->n] = t;
  return (int8_t)p->r->n++;
}

static int8_t put_op(parser *p, int tag, int8_t a, int8_t b, int8_t c) { return put(p, (term){.tag = (uint16_t)tag, .a = a, .b = b, .c = c, .choice = -1}); }

static int8_t expression(parser *p, int floor);

static uint8_t slot_of(parser *p, const char *s, size_t n) {
  rule *r = p->r;
  for (uint8_t i = 0; i < r->names; i++)
    if (strlen(r->letter[i]) == n && !strncmp(r->letter[i], s, n)) return i;
  if (r->names == NAMES || n > 3) bad(p, "a name too many");
  memcpy(r->letter[r->names], s, n);
  r->constant[r->names] = *s == 'c' || *s == 'd';
  return r->names++;
}

static int8_t call(parser *p, const char *s, size_t n) {
  int8_t arg[3] = {-1, -1, -1};
  int args = 0;
  do {
    if (args == 3) bad(p, "more than three operands");
    arg[args++] = expression(p, 0);
  } while (accept(p, ","));
  if (!accept(p, ")")) bad(p, "expected )");
  if (n == 1 && *s >= 'T' && *s <= 'V') return put(p, (term){.tag = CONVERT, .which = (uint8_t)(*s - 'T'), .a = arg[0], .b = -1, .c = -1, .choice = -1});
  for (int i = 0; i < P__COUNT; i++)
    if (strlen(predicate_name[i]) == n && !strncmp(predicate_name[i], s, n))
      return put(p, (term){.tag = PREDICATE, .which = (uint8_t)i, .a = arg[0], .b = arg[1], .c = -1, .choice = -1});
  for (int op = 0; op < TG_OP__COUNT; op++)
    if (tg_ops[op].arity == args && strlen(tg_ops[op].text) == n && !strncmp(tg_ops[op].text, s, n)) return put_op(p, op, arg[0], arg[1], arg[2]);
  bad(p, "unknown function");
}

static int8_t number(parser *p) {
  term t = {.tag = LITERAL, .a = -1, .b = -1, .c = -1, .choice = -1};
  bool negative = accept(p, "-");
  double f = 0, unit = 1;
  for (; *p->at >= '0' && *p->at <= '9'; p->at++) t.i = t.i * 10 + (*p->at - '0'), f = f * 10 + (*p->at - '0');
  if (*p->at == '.')
    for (p->at++, t.is_float = true; *p->at >= '0' && *p->at <= '9'; p->at++) f += (unit /= 10) * (*p->at - '0');
  t.f = negative ? -f : f;
  t.i = negative ? -t.i : t.i;
  return put(p, t);
}

static int8_t primary(parser *p) {
  blanks(p);
  const char *s = p->at;
  if ((*s >= '0' && *s <= '9') || (*s == '-' && s[1] >= '0' && s[1] <= '9')) return number(p);
  if (accept(p, "-")) return put_op(p, TG_OP_NEG, expression(p, 11), -1, -1);
  if (accept(p, "!")) return put_op(p, p->condition ? NEGATE : TG_OP_NOT, expression(p, 11), -1, -1);
  if (accept(p, "(")) {
    int8_t e = expression(p, 0);
    if (!accept(p, ")")) bad(p, "expected )");
    return e;
  }
  while ((*p->at >= 'a' && *p->at <= 'z') || (*p->at >= 'A' && *p->at <= 'Z') || (*p->at >= '0' && *p->at <= '9') || *p->at == '_') p->at++;
  size_t n = (size_t)(p->at - s);
  if (!n) bad(p, "expected an expression");
  if (accept(p, "(")) return call(p, s, n);
  if (n == 4 && !strncmp(s, "true", 4)) return put(p, (term){.tag = LITERAL, .a = -1, .b = -1, .c = -1, .choice = -1, .i = 1, .f = 1, .which = TG_BOOL});
  if (n == 5 && !strncmp(s, "false", 5)) return put(p, (term){.tag = LITERAL, .a = -1, .b = -1, .c = -1, .choice = -1, .which = TG_BOOL});
  if (n == 1 && *s >= 'T' && *s <= 'V') return put(p, (term){.tag = CONVERT, .which = (uint8_t)(*s - 'T'), .a = -1, .b = -1, .c = -1, .choice = -1});
  return put(p, (term){.tag = NAME, .which = slot_of(p, s, n), .a = -1, .b = -1, .c = -1, .choice = -1});
}

static const struct { const char *text; int level; int tag; bool swap; } binary[] = {
  {"|", 2, TG_OP_OR, false}, {"^", 3, TG_OP_XOR, false}, {"&", 4, TG_OP_AND, false}, {"==", 5, TG_OP_EQ, false}, {"!=", 5, TG_OP_NE, false},
  {"<=", 6, TG_OP_LE, false}, {">=", 6, TG_OP_LE, true}, {"<<", 7, TG_OP_SHL, false}, {">>", 7, TG_OP_SHR, false}, {"<", 6, TG_OP_LT, false},
  {">", 6, TG_OP_LT, true}, {"+", 8, TG_OP_ADD, false}, {"-", 8, TG_OP_SUB, false}, {"*", 9, TG_OP_MUL, false}, {"/", 9, TG_OP_IDIV, false}, {"%", 9, TG_OP_MOD, false},
};

static int8_t expression(parser *p, int floor) {
  int8_t left = primary(p);
  for (;;) {
    unsigned i = 0;
    blanks(p);
    while (i < TG_COUNT(binary) && (binary[i].level < floor || !accept(p, binary[i].text))) i++;
    if (i == TG_COUNT(binary)) return left;
    int8_t right = expression(p, binary[i].level + 1);
    int tag = binary[i].tag;
    if (tag == TG_OP_IDIV && p->float_domain) tag = TG_OP_FDIV;
    if (p->condition && tag == TG_OP_AND) tag = AND_ALSO;
    if (p->condition && tag == TG_OP_OR) tag = OR_ELSE;
    left = binary[i].swap ? put_op(p, tag, right, left, -1) : put_op(p, tag, left, right, -1);
  }
}

static bool constant_term(const rule *r, int8_t t) { return r->term[t].tag == LITERAL || (r->term[t].tag == NAME && r->constant[r->term[t].which]); }

/* Commutative ops have their constants last in normal form; without one there are two ways to match. */
static void choose(parser *p, int8_t t) {
  rule *r = p->r;
  term *u = &r->term[t];
  if (u->tag < TG_OP__COUNT && tg_ops[u->tag].flags & TG_OPF_C) {
    if (constant_term(r, u->a)) {
      int8_t x = u->a;
      u->a = u->b, u->b = x;
    }
    bool alike = r->term[u->a].tag == NAME && r->term[u->b].tag == NAME && r->term[u->a].which == r->term[u->b].which;
    if (!constant_term(r, u->b) && !alike) {
      if (r->choices == CHOICES) bad(p, "too many commutative choices");
      u->choice = (int8_t)r->choices++;
    }
  }
  if (u->a >= 0) choose(p, u->a);
  if (u->b >= 0) choose(p, u->b);
  if (u->c >= 0) choose(p, u->c);
}

static void compile(tg_env *e, rule *r) {
  parser p = {.env = e, .at = r->text, .r = r, .float_domain = r->classes == 1 << FLOAT};
  r->left = expression(&p, 0);
  if (!accept(&p, "->")) bad(&p, "expected ->");
  uint8_t bound = r->names;
  r->right = expression(&p, 0);
  r->condition = -1;
  if (accept(&p, "if ")) {
    p.condition = true;
    r->condition = expression(&p, 0);
  }
  blanks(&p);
  if (*p.at) bad(&p, "expected the end");
  if (r->names != bound) bad(&p, "a name that the pattern does not bind");
  choose(&p, r->left);
}

static int class_of_type(tg_type t) { return t == TG_INDEX ? INDEX : t == TG_BOOL ? BOOL : tg_is_int(t) ? WRAP : tg_is_float(t) ? FLOAT : -1; }

/* Compares belong to the domain of their operands, a CAST to that of its result. */
static int class_of_node(const tg_uop *u) { return class_of_type(tg_ops[u->op].flags & TG_OPF_B ? u->src[0]->type : u->type); }

static void index_rules(tg_env *e, tg_rules *rs) {
  uint16_t *list = tg_new(e, uint16_t, rs->n * CLASSES + 1);
  for (int s = 0; s < TG_RULES__COUNT; s++)
    for (int op = 0; op < TG_OP__COUNT; op++)
      for (int k = 0; k < CLASSES; k++) {
        uint16_t *from = list;
        for (uint32_t i = 0; i < rs->n; i++) {
          const rule *r = &rs->rule[i];
          int tag = r->term[r->left].tag == CONVERT ? TG_OP_CAST : r->term[r->left].tag;
          if (r->set == s && tag == op && r->classes >> k & 1) *list++ = (uint16_t)i;
        }
        rs->at[s][op][k].list = from;
        rs->at[s][op][k].n = (uint32_t)(list - from);
      }
}

const tg_rules *tg_rules_compile(tg_env *e) {
  tg_rules *rs = tg_new(e, tg_rules, 1);
  rs->n = TG_COUNT(source);
  rs->rule = tg_new(e, rule, rs->n);
  for (uint32_t i = 0; i < rs->n; i++) {
    rule *r = &rs->rule[i];
    r->name = source[i].name;
    r->text = source[i].text;
    r->classes = source[i].classes;
    r->set = source[i].set;
    compile(e, r);
  }
  index_rules(e, rs);
  return rs;
}

/* ---- matching ---- */

typedef struct { tg_job *j; const rule *r; const tg_uop *name[NAMES]; tg_type type[TYPES]; uint8_t types; uint32_t choice; const tg_uop *root; } binding;

static bool literal_is(const term *t, const tg_uop *u) {
  if (u->op != TG_OP_CONST) return false;
  if (t->which == TG_BOOL && u->type != TG_BOOL) return false;
  if (!tg_is_float(u->type)) return !t->is_float && u->arg == (int64_t)tg_wrap(u->type, t->i) && (u->type != TG_BOOL || t->which == TG_BOOL);
  double v = tg_const_value(u);
  return v == t->f && __builtin_signbit(v) == __builtin_signbit(t->f);
}

static bool match(binding *b, int8_t at, const tg_uop *u) {
  const term *t = &b->r->term[at];
  if (t->tag == NAME) {
    if (b->name[t->which]) return b->name[t->which] == u;
    if (b->r->constant[t->which] && u->op != TG_OP_CONST) return false;
    b->name[t->which] = u;
    return true;
  }
  if (t->tag == LITERAL) return literal_is(t, u);
  if (t->tag == CONVERT) {
    if (u->op != TG_OP_CAST || (b->types >> t->which & 1 && b->type[t->which] != u->type)) return false;
    b->type[t->which] = u->type;
    b->types |= (uint8_t)(1 << t->which);
    return match(b, t->a, u->src[0]);
  }
  if (u->op != t->tag) return false;
  bool swap = t->choice >= 0 && b->choice >> t->choice & 1;
  if (t->a >= 0 && !match(b, swap ? t->b : t->a, u->src[0])) return false;
  if (t->b >= 0 && !match(b, swap ? t->a : t->b, u->src[1])) return false;
  return t->c < 0 || match(b, t->c, u->src[2]);
}

/* ---- conditions ---- */

static bool exact_inverse(const tg_uop *c) { /* a power of two whose inverse is normal in the type too */
  int e;
  if (c->op != TG_OP_CONST || !tg_is_float(c->type)) return false;
  double v = tg_const_value(c), m = __builtin_frexp(v, &e);
  int far = c->type == TG_F64 ? 1021 : c->type == TG_F32 || c->type == TG_BF16 ? 125 : 13;
  return (m == 0.5 || m == -0.5) && e - 1 <= far && e - 1 >= -far;
}

static int significand(tg_type t) { return t == TG_F64 ? 53 : t == TG_F32 ? 24 : t == TG_F16 ? 11 : t == TG_BF16 ? 8 : t == TG_E4M3 ? 4 : 3; }

/* Every value of `from` is a value of `to`. */
static bool widens(tg_type from, tg_type to) {
  if (from == to || from == TG_BOOL) return to != TG_E4M3 && to != TG_E5M2;
  if (tg_is_float(from)) {
    if (from == TG_E5M2) return to == TG_F16 || to == TG_BF16 || to == TG_F32 || to == TG_F64;
    if (from == TG_E4M3) return to == TG_F16 || to == TG_BF16 || to == TG_F32 || to == TG_F64;
    return to == TG_F64 || (to == TG_F32 && from != TG_F64);
  }
  if (from == TG_INDEX) return false;
  int bits = tg_type_bits(from) - tg_is_signed(from);
  if (tg_is_float(to)) return (to == TG_F32 || to == TG_F64 || to == TG_BF16 || (to == TG_F16 && bits <= 15)) && bits <= significand(to);
  if (to == TG_INDEX) return true;
  if (!tg_is_int(to)) return false;
  return (tg_is_signed(to) || !tg_is_signed(from)) && bits <= tg_type_bits(to) - tg_is_signed(to);
}

static int type_of_term(const binding *b, int8_t at) {
  const term *t = &b->r->term[at];
  if (t->tag == NAME) return b->name[t->which]->type;
  if (t->tag == CONVERT && t->a < 0) return b->type[t->which];
  if (t->tag == PREDICATE && t->which == P_type) return b->name[b->r->term[t->a].which]->type;
  return TG_VOID;
}

static bool number_of(const binding *b, int8_t at, tg_i128 *out);

static bool predicate(const binding *b, const term *t, tg_i128 *out) {
  const tg_uop *x = b->r->term[t->a].tag == NAME ? b->name[b->r->term[t->a].which] : NULL;
  int type = type_of_term(b, t->a);
  tg_i128 v;
  switch (t->which) {
  case P_lo: *out = tg_bounds_of(b->j, x).lo; return true;
  case P_hi: *out = tg_bounds_of(b->j, x).hi; return true;
  case P_multiple: { /* the greatest number known to divide x */
    tg_bounds k = tg_bounds_of(b->j, x);
    *out = k.offset ? 1 : k.multiple;
    return true;
  }
  case P_type: *out = type; return true;
  case P_bits: *out = tg_type_bits((tg_type)type); return true;
  case P_is_const: *out = x && x->op == TG_OP_CONST; return true;
  case P_is_float: *out = tg_is_float((tg_type)type); return true;
  case P_is_signed: *out = tg_is_signed((tg_type)type); return true;
  case P_is_int: *out = tg_is_int((tg_type)type); return true;
  case P_same_type: *out = type == type_of_term(b, t->b); return true;
  case P_widens: *out = widens((tg_type)type, (tg_type)type_of_term(b, t->b)); return true;
  case P_power_of_two: *out = number_of(b, t->a, &v) && v > 0 && !(v & (v - 1)); return true;
  case P_exponent:
    if (!number_of(b, t->a, &v) || v <= 0) return false;
    for (*out = 0; v > 1; v >>= 1) ++*out;
    return true;
  case P_top: /* the greatest value of an integer type */
    if (!tg_is_int((tg_type)type)) return false;
    *out = ((tg_i128)1 << (tg_type_bits((tg_type)type) - tg_is_signed((tg_type)type))) - 1;
    return true;
  case P_exact_inverse: *out = x && exact_inverse(x); return true;
  default: return false;
  }
}

static bool number_of(const binding *b, int8_t at, tg_i128 *out) {
  const term *t = &b->r->term[at];
  tg_i128 x, y;
  if (t->tag == LITERAL) return *out = t->i, true;
  if (t->tag == PREDICATE) return predicate(b, t, out);
  if (t->tag == NAME) {
    const tg_uop *u = b->name[t->which];
    if (u->op != TG_OP_CONST || tg_is_float(u->type)) return false;
    return *out = tg_value_of(u).i, true;
  }
  if (!number_of(b, t->a, &x)) return false;
  if (t->tag == NEGATE) return *out = !x, true;
  if (t->tag == AND_ALSO && !x) return *out = 0, true;
  if (t->tag == OR_ELSE && x) return *out = 1, true;
  if (t->b < 0) return t->tag == TG_OP_NEG ? *out = -x, true : false;
  if (!number_of(b, t->b, &y)) return false;
  switch (t->tag) {
  case AND_ALSO: case OR_ELSE: *out = y != 0; return true;
  case TG_OP_ADD: return !__builtin_add_overflow(x, y, out);
  case TG_OP_SUB: return !__builtin_sub_overflow(x, y, out);
  case TG_OP_MUL: return !__builtin_mul_overflow(x, y, out);
  case TG_OP_IDIV: *out = tg_floor_div(x, y); return true;
  case TG_OP_MOD: *out = tg_floor_mod(x, y); return true;
  case TG_OP_LT: *out = x < y; return true;
  case TG_OP_LE: *out = x <= y; return true;
  case TG_OP_EQ: *out = x == y; return true;
  case TG_OP_NE: *out = x != y; return true;
  default: return false;
  }
}

/* ---- results ---- */

static const tg_uop *literal(binding *b, const term *t, tg_type type) {
  if (t->which == TG_BOOL) return tg_bool(b->j, t->i != 0);
  return tg_is_float(type) ? tg_const_float(b->j, type, t->f) : tg_const_int(b->j, type, t->i);
}

static const tg_uop *computed(tg_job *j, tg_op op, tg_type type, uint32_t n, const tg_uop *const *src) {
  tg_value v[3], r;
  for (uint32_t i = 0; i < n; i++) {
    if (src[i]->op != TG_OP_CONST) return NULL;
    v[i] = tg_value_of(src[i]);
  }
  return tg_evaluate(op, type, src[n - 1]->type, v, &r) ? tg_const_of(j, type, r) : NULL;
}

static const tg_uop *build(binding *b, int8_t at, tg_type type) {
  const term *t = &b->r->term[at];
  const int8_t operand[3] = {t->a, t->b, t->c};
  const tg_uop *src[3] = {0};
  uint32_t n = 0;
  bool constants = true;
  tg_i128 v;
  if (t->tag == NAME) return b->name[t->which];
  if (t->tag == LITERAL) return literal(b, t, type);
  if (t->tag == PREDICATE) return number_of(b, at, &v) && v <= INT64_MAX ? tg_const_int(b->j, type, (int64_t)v) : NULL;
  if (t->tag == CONVERT) {
    src[0] = build(b, t->a, type);
    return src[0] ? tg_cast(b->j, b->type[t->which], src[0]) : NULL;
  }
  while (n < 3 && operand[n] >= 0) n++;
  tg_type inner = type;
  uint32_t first = t->tag == TG_OP_WHERE;   /* a condition lends its type to no arm */
  if (tg_ops[t->tag].flags & TG_OPF_B) inner = TG_VOID;
  for (uint32_t i = 0; i < n; i++)
    if (b->r->term[operand[i]].tag != LITERAL) {
      if (!(src[i] = build(b, operand[i], i < first ? TG_BOOL : inner == TG_VOID ? (tg_type)b->root->src[0]->type : inner))) return NULL;
      if (i >= first) inner = src[i]->type;
    }
  for (uint32_t i = 0; i < n; i++) {
    if (!src[i]) src[i] = literal(b, &b->r->term[operand[i]], i < first ? TG_BOOL : inner);
    constants &= src[i]->op == TG_OP_CONST;
  }
  tg_type result = tg_ops[t->tag].flags & TG_OPF_B ? TG_BOOL : (tg_type)src[n - 1]->type;
  if (constants) return computed(b->j, (tg_op)t->tag, result, n, src);
  return n == 1 ? tg_op1(b->j, (tg_op)t->tag, src[0]) : n == 2 ? tg_op2(b->j, (tg_op)t->tag, src[0], src[1]) : tg_op3(b->j, (tg_op)t->tag, src[0], src[1], src[2]);
}

const tg_uop *tg_rules_apply(tg_job *j, const tg_rules *rs, tg_rule_set set, const tg_uop *v, const char **name) {
  int k = class_of_node(v);
  if (k < 0) return NULL;
  for (uint32_t i = 0; i < rs->at[set][v->op][k].n; i++) {
    const rule *r = &rs->rule[rs->at[set][v->op][k].list[i]];
    for (uint32_t choice = 0; choice < 1u << r->choices; choice++) {
      binding b = {.j = j, .r = r, .choice = choice, .root = v};
      tg_i128 holds = 1;
      if (!match(&b, r->left, v)) continue;
      if (r->condition >= 0 && (!number_of(&b, r->condition, &holds) || !holds)) continue;
      const tg_uop *w = build(&b, r->right, v->type);
      if (!w || w == v) continue;
      *name = r->name;
      return w;
    }
  }
  return NULL;
}
