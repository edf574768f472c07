/* SPDX-License-Identifier: MIT
 * Statements and declarations, the same for macros and .tg files. */
#include "dsl/parse.h"
#include "dsl/value.h"

#define FAIL(p, t, ...) tg_token_fail((p), (t), __VA_ARGS__)

static uint32_t text_end(const tg_parser *p, uint32_t from) {
  uint32_t end = p->tok.off;
  while (end > from && strchr(" \t\r\n", p->src->text[end - 1])) end--;
  return end;
}

static tg_pos pos_since(tg_parser *p, uint32_t from) {
  return tg_source_pos(p->j, p->src, from, text_end(p, from) - from);
}

static int64_t parse_constant(tg_parser *p, const char *what) {
  uint32_t from = p->tok.off;
  const tg_uop *u = tg_parse_index(p, true);
  tg_i128 v;
  if (!tg_constant_value(p->j, u, &v)) tg_parse_fail(p, from, text_end(p, from) - from, "%s is a constant", what);
  if (v != (int64_t)v) tg_parse_fail(p, from, text_end(p, from) - from, "%s passes 64 bits", what);
  return (int64_t)v;
}

/* ---- parameters and knobs ---- */

static void add_constant(tg_builder *b, const char *name, int64_t value, tg_pos pos) {
  tg_job *j = b->job;
  tg_name_add(b, name, NAME_CONST, pos)->u = tg_index(j, value);
  if (j->constants.n == j->constants.cap)
    j->constants.data =
        tg_grow_(&j->env, j->constants.data, j->constants.n, &j->constants.cap, sizeof *j->constants.data);
  j->constants.data[j->constants.n].name = name;
  j->constants.data[j->constants.n++].value = value;
}

/* Whoever mistyped a name has bound another. */
static TG_NORETURN void fail_unbound(tg_parser *p, const tg_token *t, const char *name) {
  enum { MOST = 8 };
  tg_str bound = tg_str_new(&p->j->env);
  for (uint32_t i = 0; i < p->b->n && i < MOST; i++)
    tg_str_printf(&bound, "%s%s", i ? ", " : "\nbound: ", p->b->bindings[i].name);
  if (p->b->n > MOST) tg_str_printf(&bound, ", ..");
  FAIL(p, t, "the parameter '%s' has no value\nbind it: %s=512, or a run-time value: %s=1..4096%s", name, name, name,
       bound.data ? bound.data : "");
}

static void add_parameter(tg_parser *p, const tg_token *t, const char *name, tg_param given, bool has) {
  tg_job *j = p->j;
  const tg_binding *bound = tg_binding_find(p->b, name);
  if (!bound && !has) fail_unbound(p, t, name);
  tg_param a = has && !bound ? given : (tg_param){.lo = bound->lo, .hi = bound->hi, .multiple = bound->multiple};
  if (a.multiple < 0)
    FAIL(p, t, "'%s' is bound to multiples of %lld; a multiple is 1 or more", name, (long long)a.multiple);
  if (!a.multiple) a.multiple = 1;
  if (has && bound && given.lo != given.hi) {
    if (a.lo < given.lo || a.hi > given.hi)
      FAIL(p, t, "'%s' is declared in %lld..%lld, and is bound to %lld..%lld", name, (long long)given.lo,
           (long long)given.hi, (long long)a.lo, (long long)a.hi);
    if (a.lo != a.hi && given.multiple > 1) {
      if (a.multiple % given.multiple && a.multiple != 1)
        FAIL(p, t, "'%s' is declared a multiple of %lld, and is bound to multiples of %lld", name,
             (long long)given.multiple, (long long)a.multiple);
      if (a.multiple == 1) a.multiple = given.multiple;
    } else if (given.multiple > 1 && a.lo % given.multiple)
      FAIL(p, t, "'%s' is declared a multiple of %lld, and is bound to %lld", name, (long long)given.multiple,
           (long long)a.lo);
  }
  if (a.lo > a.hi) FAIL(p, t, "'%s' has no value: %lld..%lld", name, (long long)a.lo, (long long)a.hi);
  a.name = name;
  a.pos = tg_source_pos(j, p->src, t->off, t->len);
  if (a.lo == a.hi) {
    add_constant(p->b, name, a.lo, a.pos);
    return;
  }
  tg_name_add(p->b, name, NAME_PARAM, a.pos)->u = tg_make(j, TG_OP_PARAM, TG_INDEX, 1, j->params.n, 0, NULL);
  tg_push(&j->env, &j->params, a);
}

void tg_parse_parameters(tg_parser *p) {
  while (p->tok.kind && p->tok.kind != ')') {
    tg_token t = p->tok;
    const char *name = tg_take_name(p, "a parameter");
    tg_param a = {.multiple = 1};
    bool has = true;
    if (tg_take(p, '=')) a.lo = a.hi = parse_constant(p, "a parameter's value");
    else if (tg_take_word(p, "in")) {
      a.lo = parse_constant(p, "a bound");
      tg_expect(p, TK2('.', '.'), "'..'");
      tg_token at = p->tok;
      bool minus = tg_take(p, '-');
      if (p->tok.kind != TK_INT) FAIL(p, &at, "an integer expected, not %s", tg_token_text(p, &at));
      a.hi = (int64_t)(minus ? -p->tok.i : p->tok.i);
      tg_next(p);
      if (tg_take(p, '%')) a.multiple = parse_constant(p, "a multiple");
      if (a.multiple < 1) FAIL(p, &t, "a multiple is 1 or more");
      if (a.lo > a.hi) FAIL(p, &t, "'%s' has no value: %lld..%lld", name, (long long)a.lo, (long long)a.hi);
    } else has = false;
    add_parameter(p, &t, name, a, has);
    if (!tg_take(p, ',')) break;
  }
}

static void parse_knob(tg_parser *p) {
  tg_token t = p->tok;
  const char *name = tg_take_name(p, "a name");
  const tg_binding *bound = tg_binding_find(p->b, name);
  tg_knob k = {.name = name};
  int64_t value = 0;
  bool listed = false;
  TG_VEC(int64_t) values = {0};
  while (tg_take(p, ',')) {
    int64_t v = parse_constant(p, "a knob's value");
    if (!values.n) value = v;
    listed |= bound && bound->lo == v;
    tg_push(&p->j->env, &values, v);
  }
  if (!values.n) FAIL(p, &t, "knob(%s, 64, 32): the values to choose from, the default first", name);
  if (bound && (bound->lo != bound->hi || !listed))
    FAIL(p, &t, "the knob '%s' is bound to %lld, which is none of its values", name, (long long)bound->lo);
  k.value = bound ? bound->lo : value;
  k.values = values.data;
  k.n = values.n;
  tg_push(&p->j->env, &p->j->knobs, k);
  add_constant(p->b, name, k.value, tg_source_pos(p->j, p->src, t.off, t.len));
}

static bool only_parameters(tg_job *j, const tg_uop *u) {
  uint32_t n;
  const tg_uop **order = tg_toposort(j, u, &n);
  for (uint32_t i = 0; i < n; i++)
    if (order[i]->op == TG_OP_RANGE || order[i]->op == TG_OP_LOAD || order[i]->op == TG_OP_REDUCE) return false;
  return true;
}

static void parse_require(tg_parser *p) {
  uint32_t from = p->tok.off;
  p->index = true;
  tg_expr e = tg_parse_expression(p);
  p->index = false;
  uint32_t len = text_end(p, from) - from;
  const tg_uop *u = tg_settle(p, &e, TG_BOOL);
  if (!only_parameters(p->j, u)) tg_parse_fail(p, from, len, "require is about parameters and knobs only");
  tg_i128 v;
  bool known = tg_constant_value(p->j, u, &v);
  if (known && !v) tg_parse_fail(p, from, len, "require(%.*s) does not hold", (int)len, p->src->text + from);
  if (!known || p->b->raw) tg_push(&p->j->env, &p->j->requires, u);
}

/* ---- buffers ---- */

static uint32_t parse_dims(tg_parser *p, const tg_uop **dims, const char *what) {
  uint32_t n = 0;
  tg_expect(p, '[', "'['");
  while (p->tok.kind != ']') {
    uint32_t from = p->tok.off;
    if (n == 16) FAIL(p, &p->tok, "a buffer has at most 16 dimensions");
    dims[n] = tg_parse_index(p, true);
    if (!p->b->raw && !only_parameters(p->j, dims[n]))
      tg_parse_fail(p, from, text_end(p, from) - from, "a %s that cannot be known: it depends on a range or on memory",
                    what);
    tg_i128 v;
    if (!p->b->raw && *what == 'd' && tg_constant_value(p->j, dims[n], &v) && v < 0)
      tg_parse_fail(p, from, text_end(p, from) - from, "a %s of %s: a %s is 0 or more", what,
                    v < INT64_MIN ? "less than -2^63" : tg_format(&p->j->env, "%lld", (long long)v), what);
    n++;
    if (!tg_take(p, ',')) break;
  }
  tg_expect(p, ']', "']'");
  return n;
}

static void parse_promise(tg_parser *p, tg_buffer *info) {
  if (!tg_at_word(p, "in")) return;
  tg_token at = p->tok;
  if (!tg_is_int(info->type)) FAIL(p, &at, "bounds are for integers, not %s", tg_type_name[info->type]);
  if (info->role != TG_ROLE_IN) FAIL(p, &at, "bounds are for inputs: the kernel may write '%s'", info->name);
  tg_next(p);
  info->lo = tg_parse_index(p, true);
  tg_expect(p, TK2('.', '.'), "'..'");
  info->hi = tg_parse_index(p, true);
}

static void parse_buffer_words(tg_parser *p, tg_buffer *info) {
  while (tg_take(p, ',')) {
    tg_token t = p->tok;
    if (tg_take_word(p, "partial")) {
      if (info->role != TG_ROLE_OUT && !p->b->raw) FAIL(p, &t, "partial is for outputs");
      info->partial = true;
    } else if (tg_take_word(p, "ssa") || tg_take_word(p, "memory") || tg_take_word(p, "windowed")) {
      uint8_t place = tg_token_is(p, &t, "ssa")      ? TG_PLACE_SSA
                      : tg_token_is(p, &t, "memory") ? TG_PLACE_MEMORY
                                                     : TG_PLACE_WINDOWED;
      if (info->space != TG_SPACE_REG) FAIL(p, &t, "%.*s is for define_reg", (int)t.len, p->src->text + t.off);
      info->demand = place;
    } else if (tg_take_word(p, "place")) {
      t = p->tok;
      info->place = tg_take_word(p, "ssa") ? TG_PLACE_SSA : tg_take_word(p, "memory") ? TG_PLACE_MEMORY : TG_PLACE_NONE;
      if (!info->place) FAIL(p, &t, "ssa or memory expected, not %s", tg_token_text(p, &t));
    } else if (tg_take_word(p, "align")) {
      info->align = (uint32_t)parse_constant(p, "an alignment");
      if (!info->align || info->align & (info->align - 1)) FAIL(p, &t, "an alignment is a power of two");
    } else FAIL(p, &t, "partial, ssa, memory or align expected, not %s", tg_token_text(p, &t));
  }
}

/* A word that declares something. parse: what stands between its parentheses, for words that declare no buffer. */
typedef struct { const char *word; void (*parse)(tg_parser *p); tg_space space; tg_role role; } declaration;

static void parse_buffer(tg_parser *p, const declaration *d) {
  tg_job *j = p->j;
  tg_builder *b = p->b;
  const char *word = d->word;
  bool global = d->role != TG_ROLE_TEMP;
  tg_buffer info = {.role = d->role, .space = d->space};
  tg_token t = p->tok;
  const char *name = tg_take_name(p, "a buffer's name");
  info.pos = tg_source_pos(j, p->src, t.off, t.len);
  info.name = tg_called(j, name);
  if (global && (b->depth || b->frames.n > 1)) FAIL(p, &t, "%s stands at the top of a kernel, outside of ranges", word);
  tg_expect(p, ',', "',' and a type");
  tg_type type;
  uint32_t lanes, rank = 0;
  tg_token at = p->tok;
  if (!tg_parse_type(p, &type, &lanes)) tg_type_unknown(p, &at);
  if ((type == TG_INDEX || type == TG_VOID) && !b->raw)
    FAIL(p, &at, "%s has no storage: i32 or i64", tg_type_name[type]);
  if (global && lanes != 1) FAIL(p, &at, "elements of %s are scalars", word);
  info.type = (uint8_t)type;
  parse_promise(p, &info);
  const tg_uop *dims[16], *strides[16];
  bool strided = false;
  if (p->tok.kind == ',' && p->ahead.kind == '[') {
    tg_next(p);
    rank = parse_dims(p, dims, "dimension");
  }
  if (p->tok.kind == ',' && p->ahead.kind == '[') {
    tg_next(p);
    at = p->tok;
    uint32_t n = parse_dims(p, strides, "stride");
    if (n != rank)
      FAIL(p, &at, "'%s' has %u dimension%s, and %u stride%s given", name, rank, rank == 1 ? "" : "s", n,
           n == 1 ? " is" : "s are");
    if (!global && !b->raw) FAIL(p, &at, "strides are for in, out and inout");
    strided = true;
  }
  parse_buffer_words(p, &info);
  info.rank = (uint8_t)rank;
  tg_name *entry = tg_name_add(b, name, NAME_BUFFER, info.pos);
  if (b->prefix) info.name = tg_format(&j->env, "%s.%s", b->prefix, info.name);
  entry->u = tg_define(j, info, lanes, dims, strided ? strides : NULL, !b->raw);
  tg_push(&j->env, &b->stores, 0);
  tg_item item = {.node = entry->u, .pos = info.pos, .notes = b->notes.n};
  if (global) tg_push(&j->env, &b->globals, item);
  else tg_emit(b, entry->u, info.pos, b->notes.n);
}

/* ---- other declarations ---- */

/* To the parenthesis that closes the declaration, or the end of a macro's text; gives the text between. */
static const char *take_text(tg_parser *p) {
  uint32_t from = p->tok.off, end = from, open = 0;
  for (; p->tok.kind && !(p->tok.kind == ')' && !open); tg_next(p)) {
    if (p->tok.kind == '(' || p->tok.kind == '[' || p->tok.kind == '{') open++;
    if (p->tok.kind == ')' || p->tok.kind == ']' || p->tok.kind == '}') open--;
    end = p->tok.off + p->tok.len;
  }
  return tg_strndup(&p->j->env, p->src->text + from, end - from);
}

static void parse_def(tg_parser *p) {
  tg_token t = p->tok;
  const char *name = tg_take_name(p, "a function's name");
  if (tg_is_function(name, strlen(name))) FAIL(p, &t, "'%s' is a function of the language", name);
  tg_macro *m = tg_parse_formals(p, name, false);
  tg_expect(p, '=', "'='");
  m->body = p->tok.off;
  take_text(p);
  tg_name_add(p->b, name, NAME_DEF, tg_source_pos(p->j, p->src, t.off, t.len))->macro = m;
}

static void parse_opt(tg_parser *p) {
  uint32_t from = p->tok.off;
  const char *text = take_text(p);
  tg_push(&p->j->env, &p->j->opts,
          ((tg_opt_text){.text = text, .pos = tg_source_pos(p->j, p->src, from, (uint32_t)strlen(text))}));
}

static void parse_stage(tg_parser *p) {
  p->j->stage = tg_take_name(p, "a stage");
  p->j->given = p->b->raw = true;
  for (uint32_t i = 0; i < p->j->params.n; i++) { /* from pass index on they have a type */
    const tg_param *a = &p->j->params.data[i];
    const char *name = tg_sym(p->j, tg_format(&p->j->env, "%s.i64", a->name));
    tg_name_add(p->b, name, NAME_PARAM, a->pos)->u = tg_make(p->j, TG_OP_PARAM, TG_I64, 1, i, 0, NULL);
  }
}

/* `stage` stands before all others in what tg prints, and nowhere else. */
static const declaration declarations[] = {
  {"in", NULL, TG_SPACE_GLOBAL, TG_ROLE_IN},
  {"out", NULL, TG_SPACE_GLOBAL, TG_ROLE_OUT},
  {"inout", NULL, TG_SPACE_GLOBAL, TG_ROLE_INOUT},
  {"define_reg", NULL, TG_SPACE_REG, TG_ROLE_TEMP},
  {"define_local", NULL, TG_SPACE_LOCAL, TG_ROLE_TEMP},
  {"define_global", NULL, TG_SPACE_GLOBAL, TG_ROLE_TEMP},
  {.word = "knob", .parse = parse_knob},
  {.word = "require", .parse = parse_require},
  {.word = "opt", .parse = parse_opt},
  {.word = "def", .parse = parse_def},
  {.word = "stage", .parse = parse_stage},
};

bool tg_is_declaration(const tg_parser *p, const tg_token *t) {
  for (unsigned i = 0; i + 1 < TG_COUNT(declarations); i++)
    if (tg_token_is(p, t, declarations[i].word)) return true;
  return false;
}

void tg_parse_declaration(tg_parser *p, const char *word) {
  const declaration *d = declarations;
  while (d < declarations + TG_COUNT(declarations) && strcmp(word, d->word)) d++;
  if (d == declarations + TG_COUNT(declarations))
    tg_fail_at(p->j, tg_source_pos(p->j, p->src, 0, 1), "unknown declaration '%s'", word);
  if (d->parse) d->parse(p);
  else parse_buffer(p, d);
}

/* ---- scopes ---- */

void tg_parse_range(tg_parser *p, uint32_t off) {
  tg_builder *b = p->b;
  tg_job *j = p->j;
  tg_token t = p->tok;
  const char *name = tg_take_name(p, "a range's name");
  tg_expect(p, ',', "',' and an extent");
  tg_kind kind = TG_LOOP;
  tg_name hold = {0};
  tg_value_begin(b, &hold);
  uint32_t from = p->tok.off;
  const tg_uop *extent = tg_parse_index(p, true);
  uint32_t end = text_end(p, from);
  if (extent->lanes != 1) tg_parse_fail(p, from, end - from, "an extent is one number, not a vector");
  bool in_shares = false;
  while (tg_take(p, ',')) {
    if (kind == TG_THREAD && tg_take_word(p, "static")) {
      in_shares = true;
      continue;
    }
    kind = tg_kind_of(p, &p->tok);
    if (kind == TG_KIND__COUNT) tg_kind_unknown(p, &p->tok);
    tg_next(p);
  }
  if (b->depth == 60) FAIL(p, &t, "ranges nested more than 60 deep");
  tg_pos pos = pos_since(p, off);
  const char *full = tg_called(j, name);
  if (b->prefix) full = tg_format(&j->env, "%s.%s", b->prefix, full);
  const tg_uop *r = tg_range_new(j, full, extent, kind, UINT32_MAX, pos);
  if (extent->type != TG_INDEX) r = tg_make(j, TG_OP_RANGE, extent->type, 1, r->arg, 1, &extent);
  if (in_shares) r = tg_range_dealt(j, r, true);
  tg_note_node(p, r, from, end - from);
  tg_frame *f = tg_frame_push(b, FRAME_RANGE, pos);
  f->range = r;
  f->name = name;
  f->notes = hold.notes;
  f->notes_n = b->notes.n - hold.notes;
  tg_name_add(b, name, NAME_RANGE, tg_source_pos(j, p->src, t.off, t.len))->u = r;
}

void tg_parse_if(tg_parser *p, uint32_t off) {
  tg_builder *b = p->b;
  tg_name hold = {.name = tg_sym(p->j, "condition")};
  tg_value_begin(b, &hold);
  tg_expr e = tg_parse_expression(p);
  if (p->tok.kind == '=') FAIL(p, &p->tok, "an assignment is no condition: write ==");
  e.u = tg_settle(p, &e, TG_BOOL);
  e.lit = LIT_NONE;
  hold.pos = pos_since(p, off);
  tg_value_end(b, &hold, e);
  tg_frame *f = tg_frame_push(b, FRAME_IF, hold.pos);
  f->condition = hold;
}

/* ---- statements ---- */

static void parse_let(tg_parser *p, bool value_statement) {
  tg_builder *b = p->b;
  tg_job *j = p->j;
  tg_token names[8];
  uint32_t n = 0, off = p->tok.off;
  bool tuple = tg_take(p, '(');
  do {
    if (n == 8) FAIL(p, &p->tok, "at most 8 names");
    names[n] = p->tok;
    tg_take_name(p, "a name");
    names[n].len = text_end(p, names[n].off) - names[n].off;
    n++;
  } while (tuple && tg_take(p, ','));
  if (tuple) tg_expect(p, ')', "')'");
  tg_expect(p, '=', "'='");
  tg_name hold = {0};
  tg_value_begin(b, &hold);
  tg_expr e = tg_parse_expression(p);
  tg_pos pos = pos_since(p, off);
  if (p->tok.kind == '=') FAIL(p, &p->tok, "one '=' a statement");
  bool many = !e.lit && e.u->type == TG_VOID && e.u->op == TG_OP_REDUCE;
  if (tuple && !many) tg_parse_fail(p, off, names[n - 1].off + names[n - 1].len + 1 - off, "%u names for one value", n);
  if (tuple && tg_reduce_info(e.u).values != n)
    tg_parse_fail(p, off, names[n - 1].off + names[n - 1].len + 1 - off, "%u names for %u values", n,
                  tg_reduce_info(e.u).values);
  if (many && !tuple && !b->raw)
    FAIL(p, &names[0], "the reduction has %u values: let (x, y) = ..", tg_reduce_info(e.u).values);
  if (value_statement) {
    e.u = tg_settle_alone(p, &e);
    e.lit = LIT_NONE;
    tg_emit(b, e.u, pos, hold.notes);
  }
  for (uint32_t i = 0; i < n; i++) {
    tg_expr part = e;
    if (tuple) part.u = tg_make(j, TG_OP_GET, e.u->src[i]->type, e.u->src[i]->lanes, i, 1, &e.u);
    tg_name *entry = tg_name_add(b, tg_symbol(j, p->src->text + names[i].off, names[i].len), NAME_VALUE,
                                 tg_source_pos(j, p->src, names[i].off, names[i].len));
    uint32_t notes = hold.notes;
    entry->notes = notes;
    tg_value_end(b, entry, part);
  }
}

/* Where the statement's own `if` stands, or NULL in kind: it is read first, since it gates what stands before it. */
static tg_parser find_gate(const tg_parser *p) {
  tg_parser q = *p, found = *p;
  uint32_t open = 0;
  found.tok.kind = TK_END;
  /* raw: {} of generic forms, let within reductions */
  for (; q.tok.kind && (q.tok.kind != ';' || (open && p->b->raw)) && (q.tok.kind != '{' || p->b->raw); tg_next(&q)) {
    int k = q.tok.kind;
    if (k == '(' || k == '[') open++;
    else if (k == ')' || k == ']') {
      if (!open--) break;
    } else if (!open && tg_at_word(&q, "if")) found = q;
    else if (!open && tg_at_word(&q, "else")) found.tok.kind = TK_END;
  }
  return found;
}

static tg_op compound(tg_parser *p, bool *plain) {
  static const struct { int kind; tg_op op; } ops[] = {
    {TK2('+', '='), TG_OP_ADD}, {TK2('-', '='), TG_OP_SUB}, {TK2('*', '='), TG_OP_MUL}, {TK2('/', '='), TG_OP_IDIV},
    {TK2('%', '='), TG_OP_MOD}, {TK2('&', '='), TG_OP_AND}, {TK2('|', '='), TG_OP_OR}, {TK2('^', '='), TG_OP_XOR},
  };
  *plain = false;
  for (unsigned i = 0; i < TG_COUNT(ops); i++)
    if (tg_take(p, ops[i].kind)) return ops[i].op;
  for (int m = 0; m < 2; m++)
    if (tg_at_word(p, m ? "min" : "max") && p->ahead.kind == '=') {
      tg_next(p);
      tg_next(p);
      return m ? TG_OP_MIN : TG_OP_MAX;
    }
  if (p->tok.kind == '+' || p->tok.kind == '-') {
    if (p->ahead.kind == p->tok.kind) FAIL(p, &p->tok, "++ and -- are not in the language: write += 1");
  }
  if (p->tok.kind == TK2('=', '=')) FAIL(p, &p->tok, "a comparison is no statement: write =");
  tg_expect(p, '=', "'='");
  *plain = true;
  return TG_OP_STORE;
}

static tg_name *parse_target(tg_parser *p, const tg_token *t) {
  tg_name *n = tg_name_find(p->b, tg_take_name(p, "a statement"));
  static const char *const what[] = {"a constant", "a parameter", "a range", "", "a value", "a function", "a proc"};
  if (!n) {
    if (p->tok.kind == '(') tg_name_unknown(p, t, true);
    tg_name_unknown(p, t, false);
  }
  if (n->kind != NAME_BUFFER) {
    if (n->kind == NAME_VALUE)
      FAIL(p, t, "'%s' names a value, which does not change: define_reg(%s, ..) does", n->name, n->name);
    FAIL(p, t, "'%s' is %s: only elements of buffers are assigned", n->name, what[n->kind]);
  }
  if (tg_buffer_info(p->j, n->u)->role == TG_ROLE_IN)
    FAIL(p, t, "'%s' is an input and cannot be written: declare it inout", n->name);
  return n;
}

static void parse_store(tg_parser *p, int64_t kind, uint32_t off) {
  tg_builder *b = p->b;
  tg_job *j = p->j;
  const tg_uop *cond = NULL, *idx[16];
  tg_token t = p->tok;
  uint32_t notes = b->notes.n;
  b->reads.n = 0;   /* nobody asks what a store reads */
  tg_parser gate = find_gate(p);
  bool gated = gate.tok.kind != TK_END, plain;
  uint32_t gate_at = gate.tok.off;
  if (gated) {
    tg_next(&gate);
    cond = tg_parse_condition(&gate);
    tg_push(&j->env, &b->arms, cond);
  }
  tg_name *target = parse_target(p, &t);
  tg_name buffer = *target;
  const tg_uop *define = buffer.u;
  tg_parse_subscripts(p, &buffer, &t, idx);
  uint32_t end = text_end(p, t.off);
  tg_token sign = p->tok;
  tg_op op = compound(p, &plain);
  tg_expr value = tg_parse_expression(p);
  if (p->tok.kind == '=') FAIL(p, &p->tok, "one '=' a statement");
  bool atomic = kind == TG_ATOMIC;
  if (kind == TG_ASYNC && (tg_buffer_info(j, define)->space != TG_SPACE_LOCAL || !p->b->raw))
    FAIL(p, &t, "asynchronous copies are what schedules make: opt(stage B at r depth=2)");
  if (atomic && op != TG_OP_ADD) FAIL(p, &sign, "atomic is for +=");
  if (atomic && tg_buffer_info(j, define)->space == TG_SPACE_REG)
    FAIL(p, &t, "atomic is for memory: '%s' is registers", buffer.name);
  if (!plain && !atomic) {
    tg_expr old = tg_load_of(p, define, idx, NULL, NULL, t.off);
    old.end = end;
    tg_note_node(p, old.u, t.off, end - t.off);
    value = tg_combine(p, op, old, value, &sign);
  }
  const tg_uop *u = tg_settle(p, &value, buffer.u->type);
  int64_t flags = kind | (tg_take_word(p, "stream") ? TG_STREAM : 0);
  if (gated) {
    b->arms.n--;
    if (p->tok.off != gate_at) FAIL(p, &p->tok, "an operator or 'if' expected, not %s", tg_token_text(p, &p->tok));
    *p = gate;
  }
  const tg_uop *path = tg_path(b), *store = tg_store(j, define, idx, u, tg_and(j, path, cond), flags);
  tg_note_node(p, store, t.off, end - t.off);
  b->stores.data[(uint32_t)define->arg]++;
  tg_emit(b, store, pos_since(p, off), notes);
}

static void parse_barrier(tg_parser *p) {
  tg_builder *b = p->b;
  tg_token t = p->tok;
  tg_next(p);
  tg_next(p);
  tg_expect(p, ')', "')'");
  for (uint32_t i = 0; i < b->frames.n; i++)
    if (b->frames.data[i].kind == FRAME_IF)
      FAIL(p, &t,
           "a barrier under a condition: all threads of a workgroup come to it or none\nguard the statements around "
           "it, each by itself");
  tg_emit(b, tg_barrier_new(p->j), pos_since(p, t.off), b->notes.n);
}

/* wait(2), commit(): as schedules leave them. */
static void parse_wait(tg_parser *p, bool commit) {
  tg_token t = p->tok;
  int64_t flying = TG_ALL_FLYING;
  tg_next(p);
  tg_next(p);
  if (!p->b->raw) FAIL(p, &t, "asynchronous copies are what schedules make: opt(stage B at r depth=2)");
  if (!commit) {
    if (p->tok.kind != TK_INT || p->tok.i >= TG_ALL_FLYING)
      FAIL(p, &p->tok, "a number of groups expected, not %s", tg_token_text(p, &p->tok));
    flying = (int64_t)p->tok.i;
    tg_next(p);
  }
  tg_expect(p, ')', "')'");
  tg_emit(p->b, tg_wait_new(p->j, flying), pos_since(p, t.off), p->b->notes.n);
}

static void parse_prefetch(tg_parser *p) {
  tg_token t = p->tok;
  const tg_uop *u = tg_parse_prefetch(p);
  tg_emit(p->b, u, pos_since(p, t.off), p->b->notes.n);
}

static void refuse_word(tg_parser *p) {
  static const struct { const char *word, *text;
  } words[] = {
      {"while", "while is not in the language: a range has an extent, and C's own loops run while the kernel is built"},
      {"for", "for is not in the language: write range(i, M), or C's own loop around the statements"},
      {"goto", "goto is not in the language"},
      {"return", "return is not in the language: a kernel runs to its end"},
      {"break", "break is not in the language: gate the statements with if"},
      {"continue", "continue is not in the language: gate the statements with if"},
      {"switch", "switch is not in the language: write if, or where(..)"},
      {"else", "else stands behind an if, or behind an access"},
      {"carry", "carry stands behind a range: range(kb, E) carry(m, l) { ..; merge { .. } }"},
      {"merge", "merge stands at the end of a carry: carry(m, l) { ..; merge { .. } }"},
  };
  for (unsigned i = 0; i < TG_COUNT(words); i++)
    if (tg_at_word(p, words[i].word) && !tg_name_find(p->b, tg_sym(p->j, words[i].word)))
      FAIL(p, &p->tok, "%s", words[i].text);
}

void tg_parse_simple(tg_parser *p) {
  tg_token t = p->tok;
  if (p->tok.kind == '*' || p->tok.kind == '&') FAIL(p, &t, "pointers are not in the language: write A[i] = ..");
  if (p->tok.kind == TK_INT || p->tok.kind == TK_FLOAT)
    FAIL(p, &t, "a statement assigns to an element of a buffer, not to a number");
  refuse_word(p);
  if (tg_take_word(p, "let")) parse_let(p, false);
  else if (tg_at_word(p, "do") && (p->ahead.kind == '%' || p->ahead.kind == TK_NAME)) {
    tg_next(p);
    parse_let(p, true);
  } else if (tg_at_word(p, "barrier") && p->ahead.kind == '(') parse_barrier(p);
  else if (tg_at_word(p, "prefetch") && p->ahead.kind == '(') parse_prefetch(p);
  else if ((tg_at_word(p, "wait") || tg_at_word(p, "commit")) && p->ahead.kind == '(')
    parse_wait(p, tg_at_word(p, "commit"));
  else if (tg_at_word(p, "async") && p->ahead.kind == TK_NAME) {
    tg_next(p);
    parse_store(p, TG_ASYNC, t.off);
  } else if (tg_take_word(p, "atomic")) parse_store(p, TG_ATOMIC, t.off);
  else parse_store(p, 0, t.off);
}
