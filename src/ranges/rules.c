/* SPDX-License-Identifier: MIT
 * Text rules: parsed once, typed by their domain, indexed by op, matched without recursion over the graph.
 *
 *     R(name, domain, "pattern -> result")   R(name, domain, "pattern -> result if condition")
 *
 * In a pattern x, y, .. match any node; c and d (also with a digit, as c1) match only a CONST; a name that occurs
 * twice must match the same node. Literals match by bits (0 is not -0.0). T(x) matches a CAST to a type; T, U, V name
 * types. The operators are those of the language; / means what it means for the domain. In a result, literals take the
 * type of their neighbour, and constants are computed: c * d is one CONST, and if it cannot be computed the rule does
 * not apply. Conditions compute with 128-bit integers over c, d, literals and the predicates below; on overflow, or if
 * a value is not known, they are false.
 *
 * Termination: the measure of a side is the sum of the weights of its ops (the table below; a computed constant counts
 * one). In every rule the measure falls from left to right, and no name occurs more often on the right than on the
 * left. So it falls wherever a rule is applied, in any context. tg_rules_check tests every rule for this. */
#include "ranges/rules.h"

static const char *const predicate_name[] = {"lo",
                                             "hi",
                                             "type",
                                             "bits",
                                             "is_const",
                                             "is_float",
                                             "is_signed",
                                             "is_int",
                                             "multiple",
                                             "widens",
                                             "is_power_of_two",
                                             "exponent",
                                             "has_exact_inverse",
                                             "same_type",
                                             "top"};
_Static_assert(TG_COUNT(predicate_name) == P__COUNT, "a name for each predicate");

static const struct { const char *name; uint8_t classes;
} domains[] = {
    {"index", 1 << CLASS_INDEX},
    {"wrap", 1 << CLASS_WRAP},
    {"exact", 1 << CLASS_FLOAT},
    {"bool", 1 << CLASS_BOOL},
    {"int", 1 << CLASS_INDEX | 1 << CLASS_WRAP},
    {"logic", 1 << CLASS_INDEX | 1 << CLASS_WRAP | 1 << CLASS_BOOL},
    {"any", 15},
};

static const tg_rule_text source[] = {
#define R(name, domain, text) {#name, #domain, text, TG_RULES_SIMPLIFY},
#define S(name, domain, text) {#name, #domain, text, TG_RULES_STRENGTH},
#include "ranges/rules.def"
#undef R
#undef S
};

/* ---- parsing ---- */

typedef struct { tg_env *env; const char *at; tg_rule *r; bool condition, float_domain; } parser;

TG_NORETURN static void bad(parser *p, const char *what) {
  tg_bug(p->env, "rule %s: %s at '%s'", p->r->name, what, p->at);
}

static void blanks(parser *p) {
  while (*p->at == ' ' || *p->at == '\n') p->at++;
}

static bool accept(parser *p, const char *s) {
  blanks(p);
  size_t n = strlen(s);
  if (strncmp(p->at, s, n)) return false;
  if (n == 1 && ((strchr("<>=!", *s) && p->at[1] == '=') || (strchr("<>&|", *s) && p->at[1] == *s) ||
                 (*s == '-' && p->at[1] == '>')))
    return false;
  p->at += n;
  return true;
}

static int8_t put(parser *p, tg_rule_term t) {
  if (p->r->n == RULE_TERMS) bad(p, "too long");
  p->r->term[p->r->n] = t;
  return (int8_t)p->r->n++;
}

static int8_t put_op(parser *p, int tag, int8_t a, int8_t b, int8_t c) {
  return put(p, (tg_rule_term){.tag = (uint16_t)tag, .a = a, .b = b, .c = c, .choice = -1});
}

static int8_t expression(parser *p, int floor);

static uint8_t slot_of(parser *p, const char *s, size_t n) {
  tg_rule *r = p->r;
  for (uint8_t i = 0; i < r->names; i++)
    if (strlen(r->letter[i]) == n && !strncmp(r->letter[i], s, n)) return i;
  if (r->names == RULE_NAMES || n > 3) bad(p, "a name too many");
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
  if (n == 1 && *s >= 'T' && *s <= 'V')
    return put(p, (tg_rule_term){
                      .tag = TERM_CONVERT, .which = (uint8_t)(*s - 'T'), .a = arg[0], .b = -1, .c = -1, .choice = -1});
  for (int i = 0; i < P__COUNT; i++)
    if (strlen(predicate_name[i]) == n && !strncmp(predicate_name[i], s, n))
      return put(p, (tg_rule_term){
                        .tag = TERM_PREDICATE, .which = (uint8_t)i, .a = arg[0], .b = arg[1], .c = -1, .choice = -1});
  for (int op = 0; op < TG_OP__COUNT; op++)
    if (tg_ops[op].arity == args && strlen(tg_ops[op].text) == n && !strncmp(tg_ops[op].text, s, n))
      return put_op(p, op, arg[0], arg[1], arg[2]);
  bad(p, "unknown function");
}

static int8_t number(parser *p) {
  tg_rule_term t = {.tag = TERM_LITERAL, .a = -1, .b = -1, .c = -1, .choice = -1};
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
  if (accept(p, "!")) return put_op(p, p->condition ? TERM_NEGATE : TG_OP_NOT, expression(p, 11), -1, -1);
  if (accept(p, "(")) {
    int8_t e = expression(p, 0);
    if (!accept(p, ")")) bad(p, "expected )");
    return e;
  }
  while ((*p->at >= 'a' && *p->at <= 'z') || (*p->at >= 'A' && *p->at <= 'Z') || (*p->at >= '0' && *p->at <= '9') ||
         *p->at == '_')
    p->at++;
  size_t n = (size_t)(p->at - s);
  if (!n) bad(p, "expected an expression");
  if (accept(p, "(")) return call(p, s, n);
  if (n == 4 && !strncmp(s, "true", 4))
    return put(p, (tg_rule_term){
                      .tag = TERM_LITERAL, .a = -1, .b = -1, .c = -1, .choice = -1, .i = 1, .f = 1, .which = TG_BOOL});
  if (n == 5 && !strncmp(s, "false", 5))
    return put(p, (tg_rule_term){.tag = TERM_LITERAL, .a = -1, .b = -1, .c = -1, .choice = -1, .which = TG_BOOL});
  if (n == 1 && *s >= 'T' && *s <= 'V')
    return put(
        p, (tg_rule_term){.tag = TERM_CONVERT, .which = (uint8_t)(*s - 'T'), .a = -1, .b = -1, .c = -1, .choice = -1});
  return put(p, (tg_rule_term){.tag = TERM_NAME, .which = slot_of(p, s, n), .a = -1, .b = -1, .c = -1, .choice = -1});
}

static const struct { const char *text; int level; int tag; bool swap;
} binary[] = {
    {"|", 2, TG_OP_OR, false},   {"^", 3, TG_OP_XOR, false}, {"&", 4, TG_OP_AND, false},  {"==", 5, TG_OP_EQ, false},
    {"!=", 5, TG_OP_NE, false},  {"<=", 6, TG_OP_LE, false}, {">=", 6, TG_OP_LE, true},   {"<<", 7, TG_OP_SHL, false},
    {">>", 7, TG_OP_SHR, false}, {"<", 6, TG_OP_LT, false},  {">", 6, TG_OP_LT, true},    {"+", 8, TG_OP_ADD, false},
    {"-", 8, TG_OP_SUB, false},  {"*", 9, TG_OP_MUL, false}, {"/", 9, TG_OP_IDIV, false}, {"%", 9, TG_OP_MOD, false},
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
    if (p->condition && tag == TG_OP_AND) tag = TERM_AND_ALSO;
    if (p->condition && tag == TG_OP_OR) tag = TERM_OR_ELSE;
    left = binary[i].swap ? put_op(p, tag, right, left, -1) : put_op(p, tag, left, right, -1);
  }
}

static bool constant_term(const tg_rule *r, int8_t t) {
  return r->term[t].tag == TERM_LITERAL || (r->term[t].tag == TERM_NAME && r->constant[r->term[t].which]);
}

/* Commutative ops have their constants last in normal form; without one there are two ways to match. */
static void choose(parser *p, int8_t t) {
  tg_rule *r = p->r;
  tg_rule_term *u = &r->term[t];
  if (u->tag < TG_OP__COUNT && tg_ops[u->tag].flags & TG_OPF_C) {
    if (constant_term(r, u->a)) {
      int8_t x = u->a;
      u->a = u->b, u->b = x;
    }
    bool alike =
        r->term[u->a].tag == TERM_NAME && r->term[u->b].tag == TERM_NAME && r->term[u->a].which == r->term[u->b].which;
    if (!constant_term(r, u->b) && !alike) {
      if (r->choices == RULE_CHOICES) bad(p, "too many commutative choices");
      u->choice = (int8_t)r->choices++;
    }
  }
  if (u->a >= 0) choose(p, u->a);
  if (u->b >= 0) choose(p, u->b);
  if (u->c >= 0) choose(p, u->c);
}

static void compile(tg_env *e, tg_rule *r) {
  parser p = {.env = e, .at = r->text, .r = r, .float_domain = r->classes == 1 << CLASS_FLOAT};
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

int tg_rule_class_of(tg_type t) {
  return t == TG_INDEX    ? CLASS_INDEX
         : t == TG_BOOL   ? CLASS_BOOL
         : tg_is_int(t)   ? CLASS_WRAP
         : tg_is_float(t) ? CLASS_FLOAT
                          : -1;
}

static void index_rules(tg_env *e, tg_rules *rs) {
  uint16_t *list = tg_new(e, uint16_t, rs->n * CLASSES + 1);
  for (int s = 0; s < TG_RULES__COUNT; s++)
    for (int op = 0; op < TG_OP__COUNT; op++)
      for (int k = 0; k < CLASSES; k++) {
        uint16_t *from = list;
        for (uint32_t i = 0; i < rs->n; i++) {
          const tg_rule *r = &rs->rule[i];
          int tag = r->term[r->left].tag == TERM_CONVERT ? TG_OP_CAST : r->term[r->left].tag;
          if (r->set == s && tag == op && r->classes >> k & 1) *list++ = (uint16_t)i;
        }
        rs->at[s][op][k].list = from;
        rs->at[s][op][k].n = (uint32_t)(list - from);
      }
}

const tg_rules *tg_rules_compile_text(tg_env *e, uint32_t n, const tg_rule_text *text) {
  tg_rules *rs = tg_new(e, tg_rules, 1);
  rs->n = n;
  rs->rule = tg_new(e, tg_rule, n + 1);
  for (uint32_t i = 0; i < n; i++) {
    tg_rule *r = &rs->rule[i];
    r->name = text[i].name;
    r->text = text[i].text;
    r->set = (uint8_t)text[i].set;
    for (unsigned d = 0; d < TG_COUNT(domains); d++)
      if (!strcmp(domains[d].name, text[i].domain)) r->classes = domains[d].classes;
    if (!r->classes) tg_bug(e, "rule %s: no domain '%s'", r->name, text[i].domain);
    compile(e, r);
  }
  index_rules(e, rs);
  return rs;
}

const tg_rules *tg_rules_compile(tg_env *e) { return tg_rules_compile_text(e, TG_COUNT(source), source); }

/* ---- the measure ---- */

static const uint8_t weight[TG_RULES__COUNT][TG_OP__COUNT] = {
    [TG_RULES_SIMPLIFY] = {[TG_OP_SUB] = 3,
                           [TG_OP_MUL] = 4,
                           [TG_OP_IDIV] = 5,
                           [TG_OP_FDIV] = 5,
                           [TG_OP_MOD] = 5,
                           [TG_OP_CDIV] = 6,
                           [TG_OP_CMOD] = 6,
                           [TG_OP_SHL] = 8,
                           [TG_OP_SHR] = 8,
                           [TG_OP_WHERE] = 4},
    [TG_RULES_STRENGTH] = {[TG_OP_IDIV] = 8, [TG_OP_MOD] = 8},
};

static bool computes(const tg_rule *r, int8_t at) { /* a constant when the rule is applied */
  const tg_rule_term *t = &r->term[at];
  if (t->tag == TERM_PREDICATE || constant_term(r, at)) return true;
  if (t->tag == TERM_NAME || t->tag == TERM_CONVERT) return false;
  return computes(r, t->a) && (t->b < 0 || computes(r, t->b)) && (t->c < 0 || computes(r, t->c));
}

static int measure(const tg_rule *r, int8_t at, int *uses) {
  const tg_rule_term *t = &r->term[at];
  if (t->tag == TERM_NAME && !r->constant[t->which]) return uses[t->which]++, 1;
  if (computes(r, at)) return 1;
  int w = t->tag == TERM_CONVERT ? 2 : weight[r->set][t->tag];
  if (!w) w = 2;
  if (t->a >= 0) w += measure(r, t->a, uses);
  if (t->b >= 0) w += measure(r, t->b, uses);
  return t->c >= 0 ? w + measure(r, t->c, uses) : w;
}

void tg_rules_check(tg_env *e, const tg_rules *rs) {
  for (uint32_t i = 0; i < rs->n; i++) {
    const tg_rule *r = &rs->rule[i];
    int left[RULE_NAMES] = {0}, right[RULE_NAMES] = {0}, before = measure(r, r->left, left),
        after = measure(r, r->right, right);
    if (after >= before) tg_bug(e, "rule %s: its measure goes from %d to %d: %s", r->name, before, after, r->text);
    for (int k = 0; k < r->names; k++)
      if (right[k] > left[k])
        tg_bug(e, "rule %s: %s is used %d times for %d: %s", r->name, r->letter[k], right[k], left[k], r->text);
  }
}
