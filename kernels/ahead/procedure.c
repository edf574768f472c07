/* SPDX-License-Identifier: MIT
 * Procedures as IR: one pass over the text, which writes each construct as it is read. Variables are memory of the
 * stack. Operations on numbers are done here, so that what a plan lacks leaves nothing in its function. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include "ahead/procedure.h"

enum { ARGUMENTS = 10, NAME = 40 };

typedef struct { char text[NAME]; } word;

typedef struct {
  tg_wrapper *w;
  const char *at;              /* what is to be read */
  const tg_procedure_constant *constant;
  uint32_t constants_n;
  const char *suffix;
  tg_str head;                 /* memory of this procedure */
  TG_VEC(word) variables;
  uint32_t labels;
} reader;

static tg_ir expression(reader *r);
static void statement(reader *r);

/* ---- words ---- */

static TG_NORETURN void mistake(reader *r, const char *wanted) {
  tg_bug(r->w->env, "a procedure: %s is wanted at '%.40s'", wanted, r->at);
}

static void skip(reader *r) {
  while (isspace((unsigned char)*r->at)) r->at++;
}

static bool is_next(reader *r, const char *sign) {
  skip(r);
  return !strncmp(r->at, sign, strlen(sign));
}

static bool take(reader *r, const char *sign) {
  bool is = is_next(r, sign);
  if (is) r->at += strlen(sign);
  return is;
}

static void want(reader *r, const char *sign) {
  if (!take(r, sign)) mistake(r, sign);
}

static bool is_letter(char c) { return isalnum((unsigned char)c) || c == '_'; }

static word take_name(reader *r) {
  word n = {""};
  uint32_t i = 0;
  skip(r);
  while (is_letter(*r->at) && i + 1 < NAME) n.text[i++] = *r->at++;
  if (!i || isdigit((unsigned char)n.text[0])) mistake(r, "a name");
  return n;
}

/* A word of the syntax, such as "if". */
static bool take_keyword(reader *r, const char *name) {
  skip(r);
  size_t n = strlen(name);
  if (strncmp(r->at, name, n) || is_letter(r->at[n])) return false;
  r->at += n;
  return true;
}

/* ---- values ---- */

static bool number_of(tg_ir v, int64_t *n) {
  char *end;
  *n = 0;
  if (v.text[0] == '%') return false;
  *n = strtoll(v.text, &end, 10);
  return !*end;
}

static tg_ir put(reader *r, const char *op, tg_ir a, tg_ir b) {
  return tg_ir_put(r->w, "%s i64 %s, %s", op, a.text, b.text);
}

static tg_ir wide(reader *r, tg_ir bit) { return tg_ir_put(r->w, "zext i1 %s to i64", bit.text); }

/* i1: is it not 0? */
static tg_ir holds(reader *r, tg_ir v) { return tg_ir_is(r->w, "ne", v, tg_ir_number(0)); }

static tg_ir pointer(reader *r, tg_ir address) { return tg_ir_put(r->w, "inttoptr i64 %s to ptr", address.text); }

static tg_ir element(reader *r, uint32_t bytes, tg_ir address, tg_ir i) {
  tg_ir far = tg_ir_mul(r->w, i, tg_ir_number(bytes));
  return pointer(r, tg_ir_add(r->w, address, far));
}

static tg_ir load(reader *r, uint32_t bytes, tg_ir address, tg_ir i) {
  tg_ir at = element(r, bytes, address, i), v = tg_ir_put(r->w, "load i%u, ptr %s", 8 * bytes, at.text);
  return bytes == 8 ? v : tg_ir_put(r->w, "%s i%u %s to i64", bytes == 1 ? "zext" : "sext", 8 * bytes, v.text);
}

static void store(reader *r, uint32_t bytes, tg_ir address, tg_ir i, tg_ir v) {
  if (bytes < 8) v = tg_ir_put(r->w, "trunc i64 %s to i%u", v.text, 8 * bytes);
  tg_ir at = element(r, bytes, address, i);
  tg_str_printf(&r->w->out, "  store i%u %s, ptr %s\n", 8 * bytes, v.text, at.text);
}

static bool is_variable(const reader *r, const char *name) {
  for (uint32_t i = 0; i < r->variables.n; i++)
    if (!strcmp(r->variables.data[i].text, name)) return true;
  return false;
}

static void assign(reader *r, const char *name, tg_ir v) {
  if (!is_variable(r, name)) {
    word n;
    snprintf(n.text, sizeof n.text, "%s", name);
    tg_push(r->w->env, &r->variables, n);
    tg_str_printf(&r->head, "  %%at.%s = alloca i64\n", name);
  }
  tg_str_printf(&r->w->out, "  store i64 %s, ptr %%at.%s\n", v.text, name);
}

static tg_ir variable(reader *r, const char *name) {
  for (uint32_t i = 0; i < r->constants_n; i++)
    if (!strcmp(r->constant[i].name, name)) return tg_ir_number(r->constant[i].value);
  if (!is_variable(r, name)) mistake(r, tg_format(r->w->env, "a variable, not '%s',", name));
  return tg_ir_put(r->w, "load i64, ptr %%at.%s", name);
}

/* ---- expressions ---- */

typedef struct { const char *sign, *op; bool compares; } operator;
enum { LEVELS = 6, OF_LEVEL = 6 };
/* the loosest first; of signs that begin alike the longer first */
static const operator operators[LEVELS][OF_LEVEL] = {
    {{"||", "or", false}},
    {{"&&", "and", false}},
    {{"==", "eq", true}, {"!=", "ne", true}},
    {{"<=", "sle", true}, {">=", "sge", true}, {"<", "slt", true}, {">", "sgt", true}},
    {{"+", "add", false}, {"-", "sub", false}},
    {{"*", "mul", false}, {"/", "sdiv", false}, {"%", "srem", false}}};

static int64_t computed(char c, char second, int64_t a, int64_t b) {
  switch (c) {
  case '|': return a || b;
  case '&': return a && b;
  case '=': return a == b;
  case '!': return a != b;
  case '<': return second ? a <= b : a < b;
  case '>': return second ? a >= b : a > b;
  case '+': return a + b;
  case '-': return a - b;
  case '*': return a * b;
  case '/': return b ? a / b : 0;
  default: return b ? a % b : 0;
  }
}

static tg_ir apply(reader *r, const operator *o, tg_ir a, tg_ir b) {
  int64_t x = 0, y = 0;
  bool known_a = number_of(a, &x), known_b = number_of(b, &y);
  if (known_a && known_b) return tg_ir_number(computed(o->sign[0], o->sign[1], x, y));
  if (o->compares) return wide(r, tg_ir_is(r->w, o->op, a, b));
  if (o->sign[0] == '&' && ((known_a && !x) || (known_b && !y))) return tg_ir_number(0);
  if (o->sign[0] == '|' && ((known_a && x) || (known_b && y))) return tg_ir_number(1);
  if (o->sign[0] != '&' && o->sign[0] != '|') return put(r, o->op, a, b);
  tg_ir p = holds(r, a), q = holds(r, b);
  return wide(r, tg_ir_put(r->w, "%s i1 %s, %s", o->op, p.text, q.text));
}

static tg_ir choose(reader *r, const char *how, tg_ir a, tg_ir b) {
  int64_t x, y;
  if (number_of(a, &x) && number_of(b, &y)) return tg_ir_number((x < y) == (how[1] == 'l') ? x : y);
  return tg_ir_select(r->w, tg_ir_is(r->w, how, a, b), a, b);
}

static uint32_t width_of(const char *name) { return !strcmp(name, "i32") ? 4 : !strcmp(name, "u8") ? 1 : 0; }

static uint32_t take_arguments(reader *r, tg_ir *a) {
  uint32_t n = 0;
  for (want(r, "("); !take(r, ")"); n++) {
    if (n) want(r, ",");
    if (n == ARGUMENTS) mistake(r, "fewer arguments");
    a[n] = expression(r);
  }
  return n;
}

static tg_ir call_of(reader *r, const char *name) {
  static const operator plus = {"+", "add", false}, minus = {"-", "sub", false}, over = {"/", "sdiv", false};
  tg_ir a[ARGUMENTS], one = tg_ir_number(1);
  int64_t number;
  uint32_t n = take_arguments(r, a);
  if (!strcmp(name, "min")) return choose(r, "slt", a[0], a[1]);
  if (!strcmp(name, "max")) return choose(r, "sgt", a[0], a[1]);
  if (!strcmp(name, "up")) return apply(r, &over, apply(r, &minus, apply(r, &plus, a[0], a[1]), one), a[1]);
  if (!strcmp(name, "room")) {
    tg_ir memory = tg_ir_number(r->w->values++);
    tg_str_printf(&r->head, "  %%room%s = alloca i64, i64 %s\n", memory.text, a[0].text);
    return tg_ir_put(r->w, "ptrtoint ptr %%room%s to i64", memory.text);
  }
  bool copies = !strcmp(name, "copy");
  if (copies || !strcmp(name, "zero")) {
    if (!number_of(a[n - 1], &number)) mistake(r, "a constant number of bytes");
    tg_ir to = pointer(r, a[0]), from = copies ? pointer(r, a[1]) : to;
    if (copies)
      tg_str_printf(&r->w->out, "  call void @llvm.memcpy.inline.p0.p0.i64(ptr %s, ptr %s, i64 %s, i1 false)\n",
                    to.text, from.text, a[2].text);
    else
      tg_str_printf(&r->w->out, "  call void @llvm.memset.inline.p0.i64(ptr %s, i8 0, i64 %s, i1 false)\n", to.text,
                    a[1].text);
    return tg_ir_number(0);
  }
  tg_str list = tg_str_new(r->w->env);
  for (uint32_t i = 0; i < n; i++) tg_str_printf(&list, "%si64 %s", i ? ", " : "", a[i].text);
  return tg_ir_put(r->w, "call i64 @%s%s(%s)", name, r->suffix, n ? list.data : "");
}

/* A name and what follows it. */
static tg_ir named(reader *r, const char *name) {
  uint32_t bytes = width_of(name);
  if (bytes) {
    tg_ir a[ARGUMENTS];
    take_arguments(r, a);
    return load(r, bytes, a[0], a[1]);
  }
  if (is_next(r, "(")) return call_of(r, name);
  tg_ir v = variable(r, name);
  while (take(r, "[")) {
    tg_ir i = expression(r);
    want(r, "]");
    v = load(r, 8, v, i);
  }
  return v;
}

static tg_ir primary(reader *r) {
  static const operator minus = {"-", "sub", false}, equal = {"==", "eq", true};
  tg_ir zero = tg_ir_number(0);
  if (take(r, "(")) {
    tg_ir v = expression(r);
    want(r, ")");
    return v;
  }
  if (take(r, "-")) return apply(r, &minus, zero, primary(r));
  if (!is_next(r, "!=") && take(r, "!")) return apply(r, &equal, primary(r), zero);
  skip(r);
  if (!isdigit((unsigned char)*r->at)) return named(r, take_name(r).text);
  char *end;
  tg_ir v = tg_ir_number(strtoll(r->at, &end, 10));
  r->at = end;
  return v;
}

static tg_ir binary(reader *r, uint32_t level) {
  if (level == LEVELS) return primary(r);
  tg_ir v = binary(r, level + 1);
  for (bool found = true; found;) {
    found = false;
    for (uint32_t i = 0; i < OF_LEVEL && operators[level][i].sign && !found; i++) {
      if (!(found = take(r, operators[level][i].sign))) continue;
      v = apply(r, &operators[level][i], v, binary(r, level + 1));
    }
  }
  return v;
}

/* ---- branches ---- */

/* Writes what `read` reads only if `used`; it is read in any case. */
static void branch(reader *r, bool used, void (*read)(reader *r)) {
  size_t n = r->w->out.n;
  read(r);
  if (!used) r->w->out.n = n;
}

static void into_choice(reader *r) {
  tg_ir v = expression(r);
  assign(r, "chosen", v);
}

/* `first` where v holds, else what stands behind `sign`, if that is there or must be. */
static void either(reader *r, tg_ir v, void (*read)(reader *r), bool (*otherwise)(reader *r)) {
  int64_t known;
  if (number_of(v, &known)) {
    branch(r, known, read);
    if (otherwise(r)) branch(r, !known, read);
    return;
  }
  uint32_t id = r->labels++;
  tg_str_printf(&r->w->out, "  br i1 %s, label %%then%u, label %%else%u\nthen%u:\n", holds(r, v).text, id, id, id);
  read(r);
  tg_str_printf(&r->w->out, "  br label %%end%u\nelse%u:\n", id, id);
  if (otherwise(r)) read(r);
  tg_str_printf(&r->w->out, "  br label %%end%u\nend%u:\n", id, id);
}

static bool take_colon(reader *r) { return want(r, ":"), true; }
static bool take_else(reader *r) { return take_keyword(r, "else"); }

static tg_ir expression(reader *r) {
  int64_t known;
  tg_ir v = binary(r, 0);
  if (!take(r, "?")) return v;
  if (number_of(v, &known)) {   /* the value itself, so that numbers stay numbers */
    size_t n = r->w->out.n;
    tg_ir first = expression(r);
    if (!known) r->w->out.n = n;
    want(r, ":");
    n = r->w->out.n;
    tg_ir second = expression(r);
    if (known) r->w->out.n = n;
    return known ? first : second;
  }
  either(r, v, into_choice, take_colon);
  return variable(r, "chosen");
}

/* ---- statements ---- */

/* What assigns, calls, or nothing, without its end. */
static void simple(reader *r) {
  if (is_next(r, ";") || is_next(r, ")")) return;
  word name = take_name(r);
  uint32_t bytes = width_of(name.text);
  tg_ir a[ARGUMENTS];
  if (!bytes && is_next(r, "(")) {
    call_of(r, name.text);
    return;
  }
  if (bytes) take_arguments(r, a);
  else if (is_next(r, "[")) {
    bytes = 8, a[0] = variable(r, name.text);
    want(r, "["), a[1] = expression(r), want(r, "]");
  }
  bool adds = take(r, "+=");
  if (!adds) want(r, "=");
  tg_ir v = expression(r);
  if (bytes) store(r, bytes, a[0], a[1], adds ? put(r, "add", load(r, bytes, a[0], a[1]), v) : v);
  else assign(r, name.text, adds ? put(r, "add", variable(r, name.text), v) : v);
}

static void loop(reader *r) {
  uint32_t id = r->labels++;
  tg_str *o = &r->w->out;
  want(r, "("), simple(r), want(r, ";");
  tg_str_printf(o, "  br label %%next%u\nnext%u:\n", id, id);
  tg_ir more = holds(r, expression(r));
  tg_str_printf(o, "  br i1 %s, label %%do%u, label %%done%u\nstep%u:\n", more.text, id, id, id);
  want(r, ";"), simple(r), want(r, ")");
  tg_str_printf(o, "  br label %%next%u\ndo%u:\n", id, id);
  statement(r);
  tg_str_printf(o, "  br label %%step%u\ndone%u:\n", id, id);
}

static void statement(reader *r) {
  if (take(r, "{")) {
    while (!take(r, "}")) statement(r);
    return;
  }
  if (take_keyword(r, "if")) {
    want(r, "(");
    tg_ir v = expression(r);
    want(r, ")");
    either(r, v, statement, take_else);
    return;
  }
  if (take_keyword(r, "for")) {
    loop(r);
    return;
  }
  if (take_keyword(r, "return")) {
    tg_ir v = is_next(r, ";") ? tg_ir_number(0) : expression(r);
    tg_str_printf(&r->w->out, "  ret i64 %s\nbehind%u:\n", v.text, r->labels);
    r->labels++;
  } else simple(r);
  want(r, ";");
}

static void procedure(reader *r) {
  tg_wrapper *w = r->w;
  word name = take_name(r);
  tg_str main = w->out;
  r->head = tg_str_new(w->env), r->variables.n = 0, r->labels = 0;
  tg_str_printf(&main, "define internal i64 @%s%s(", name.text, r->suffix);
  w->out = tg_str_new(w->env);
  want(r, "(");
  for (uint32_t i = 0; !take(r, ")"); i++) {
    if (i) want(r, ",");
    word argument = take_name(r);
    tg_ir v;
    tg_str_printf(&main, "%si64 %%in%u", i ? ", " : "", i);
    snprintf(v.text, sizeof v.text, "%%in%u", i);
    assign(r, argument.text, v);
  }
  statement(r);
  tg_str_puts(&main, ") {\n"), tg_str_put(&main, r->head.data, r->head.n), tg_str_put(&main, w->out.data, w->out.n);
  tg_str_puts(&main, "  ret i64 0\n}\n");
  w->out = main;
}

void tg_procedures(tg_wrapper *w, const char *text, const tg_procedure_constant *constants, uint32_t n,
                   const char *suffix) {
  reader r = {.w = w, .at = text, .constant = constants, .constants_n = n, .suffix = suffix};
  for (skip(&r); *r.at; skip(&r)) procedure(&r);
}
