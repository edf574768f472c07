/* SPDX-License-Identifier: MIT
 * Text programs: kernels, functions and procs of a .tg file; also single expressions. */
#include "dsl/parse.h"

static void parse_block(tg_parser *p, tg_token open);
static void parse_statement(tg_parser *p);

/* From the present '{' to behind its '}'. */
static void skip_braces(tg_parser *p) {
  tg_token open = p->tok;
  uint32_t depth = 0;
  do {
    if (!p->tok.kind) tg_token_fail(p, &open, "this '{' is not closed");
    if (p->tok.kind == '{') depth++;
    if (p->tok.kind == '}') depth--;
    tg_next(p);
  } while (depth);
}

static void parse_proc(tg_parser *p) {
  tg_token t = p->tok;
  const char *name = tg_take_name(p, "a proc's name");
  tg_macro *m = tg_parse_formals(p, name, false);
  if (p->tok.kind != '{') tg_token_fail(p, &p->tok, "'{' expected, not %s", tg_token_text(p, &p->tok));
  m->body = p->tok.off;
  skip_braces(p);
  tg_name_add(p->b, name, NAME_PROC, tg_source_pos(p->j, p->src, t.off, t.len))->macro = m;
}

/* Arguments are read in the caller's scope: buffers by reference, all else by value. Then the callee's scope begins. */
void tg_enter_proc(tg_parser *p, tg_macro *m, tg_pos pos) {
  tg_builder *b = p->b;
  tg_name args[16];
  uint32_t n = 0;
  tg_token first = p->tok;
  while (p->tok.kind && p->tok.kind != ')') {
    if (n == 16) tg_token_fail(p, &p->tok, "a proc takes at most 16 arguments");
    tg_name *whole = NULL;
    if (p->tok.kind == TK_NAME && (p->ahead.kind == ',' || p->ahead.kind == ')' || !p->ahead.kind))
      whole = tg_name_find(b, tg_symbol(p->j, p->src->text + p->tok.off, p->tok.len));
    args[n] = (tg_name){.kind = NAME_VALUE,
                        .pos = tg_source_pos(p->j, p->src, p->tok.off, p->tok.len),
                        .name = n < m->n ? m->formals[n] : NULL};
    if (whole && whole->kind == NAME_BUFFER) {
      args[n].kind = NAME_BUFFER;
      args[n].u = whole->u;
      tg_next(p);
    } else {
      tg_value_begin(b, &args[n]);
      tg_value_end(b, &args[n], tg_parse_expression(p));
    }
    n++;
    if (!tg_take(p, ',')) break;
  }
  if (n != m->n)
    tg_token_fail(p, &first, "%s takes %u argument%s, and %u %s given", m->name, m->n, m->n == 1 ? "" : "s", n,
                  n == 1 ? "is" : "are");
  tg_frame *f = tg_frame_push(b, FRAME_PROC, pos);
  f->macro = m;
  b->barrier = b->names.n;
  b->prefix = m->name;
  for (uint32_t i = 0; i < n; i++) {
    tg_name *e = tg_name_add(b, m->formals[i], (tg_name_kind)args[i].kind, (tg_pos){0});
    int32_t shadowed = e->shadowed;
    *e = args[i];
    e->pos = (tg_pos){0};
    e->shadowed = shadowed;
  }
}

static void parse_call_statement(tg_parser *p) {
  tg_token t = p->tok;
  const char *name = tg_take_name(p, "a proc");
  tg_name *n = tg_name_find(p->b, name);
  if (!n) tg_name_unknown(p, &t, false);
  if (n->kind != NAME_PROC) tg_token_fail(p, &t, "'%s' is no proc", name);
  tg_macro *m = n->macro;
  if (m->active) tg_token_fail(p, &t, "'%s' calls itself: recursion is not in the language", name);
  if (p->tok.kind != ')') tg_expect(p, ',', "','");
  tg_enter_proc(p, m, tg_source_pos(p->j, p->src, t.off, t.len));
  tg_expect(p, ')', "')'");
  m->active = true;
  tg_parser body;
  tg_parser_init(&body, p->b, m->source, m->body);
  body.depth = p->depth;
  if (p->b->calls++ == TG_DEEPEST_CALL)
    tg_token_fail(p, &t, "procs call each other over %d deep: '%s'", TG_DEEPEST_CALL, name);
  tg_token open = body.tok;
  tg_next(&body);
  parse_block(&body, open);
  p->b->calls--;
  tg_frame_pop(p->b);
}

static void enter_block(tg_parser *p, const tg_token *t) {
  if (++p->depth > TG_DEEPEST_BLOCK) tg_token_fail(p, t, "blocks nested more than %d deep", TG_DEEPEST_BLOCK);
}

static void open_body(tg_parser *p) {
  enter_block(p, &p->tok);
  tg_token open = p->tok;
  if (tg_take(p, '{')) parse_block(p, open);
  else parse_statement(p);
  p->depth--;
  tg_frame_pop(p->b);
}

static void parse_if(tg_parser *p, uint32_t off) {
  tg_builder *b = p->b;
  tg_expect(p, '(', "'('");
  tg_parse_if(p, off);
  tg_expect(p, ')', "')'");
  tg_name condition = b->frames.data[b->frames.n - 1].condition;
  uint32_t at = b->frames.n - 1;
  open_body(p);
  condition = b->frames.data[at].condition;   /* it may live in a register by now */
  if (!tg_take_word(p, "else")) return;
  tg_frame *f = tg_frame_push(b, FRAME_IF, condition.pos);
  f->condition = condition;
  f->negated = true;
  open_body(p);
}

/* A statement that looks like a call: a range, an if, a carry, a call, a declaration. False: it is none of them. */
static bool parse_called(tg_parser *p) {
  tg_token t = p->tok;
  char word[16];
  bool range = tg_at_word(p, "range");
  if (range || tg_at_word(p, "if")) {
    tg_next(p);
    if (!range) {
      parse_if(p, t.off);
      return true;
    }
    tg_next(p);
    tg_parse_range(p, t.off);
    tg_expect(p, ')', "')'");
    open_body(p);
    return true;
  }
  if (tg_at_word(p, "carry") && !tg_name_find(p->b, tg_sym(p->j, "carry"))) {
    tg_next(p);
    tg_next(p);
    tg_parse_carry(p, t.off);
    tg_expect(p, ')', "')'");
    open_body(p);
    return true;
  }
  if (tg_at_word(p, "call")) {
    tg_next(p);
    tg_next(p);
    parse_call_statement(p);
    tg_expect(p, ';', "';'");
    return true;
  }
  if (!tg_is_declaration(p, &t)) return false;
  memcpy(word, p->src->text + t.off, t.len);
  word[t.len] = 0;
  tg_next(p);
  tg_next(p);
  tg_parse_declaration(p, word);
  tg_expect(p, ')', "')'");
  tg_expect(p, ';', "';'");
  return true;
}

static void parse_statement(tg_parser *p) {
  tg_token t = p->tok;
  if (tg_take(p, ';')) return;
  if (!p->b->raw) tg_step(p, &t);   /* what was printed is as long as its text */
  if (p->tok.kind == '{') {
    enter_block(p, &t);
    tg_next(p);
    uint32_t names = p->b->names.n;
    parse_block(p, t);
    tg_names_cut(p->b, names);
    p->depth--;
    return;
  }
  if (p->tok.kind == TK_NAME && p->ahead.kind == '(' && parse_called(p)) return;
  if (tg_at_word(p, "merge") && p->ahead.kind == '{') {
    tg_parse_merge(p, t.off);
    tg_next(p);
    open_body(p);
    return;
  }
  if (tg_at_word(p, "proc") && p->ahead.kind == TK_NAME) {
    tg_next(p);
    parse_proc(p);
    return;
  }
  if (tg_at_word(p, "stage") && p->ahead.kind == TK_NAME) {
    tg_next(p);
    tg_parse_declaration(p, "stage");
  } else tg_parse_simple(p);
  if (p->tok.kind != ';') tg_token_fail(p, &p->tok, "';' expected, not %s", tg_token_text(p, &p->tok));
  tg_next(p);
}

/* Behind the '{' that is given, to behind its '}'. */
static void parse_block(tg_parser *p, tg_token open) {
  while (p->tok.kind != '}') {
    if (!p->tok.kind) tg_token_fail(p, &open, "this '{' is not closed");
    parse_statement(p);
  }
  tg_next(p);
}

static void parse_kernel(tg_parser *p) {
  tg_expect(p, '(', "'('");
  tg_parse_parameters(p);
  tg_expect(p, ')', "')'");
  tg_token open = p->tok;
  tg_expect(p, '{', "'{'");
  parse_block(p, open);
}

void tg_parse_kernel(tg_job *j, const char *file, const char *text, uint32_t n, const tg_binding *bindings) {
  tg_builder *b = tg_new(&j->env, tg_builder, 1);
  tg_parser p;
  const char *pick = j->name;
  bool found = false;
  tg_builder_start(b, j, n, bindings);
  tg_parser_init(&p, b, tg_source_new(j, file, text, 1, false), 0);
  while (p.tok.kind) {
    if (tg_take_word(&p, "kernel")) {
      const char *name = tg_take_name(&p, "a kernel's name");
      if (found || (pick && strcmp(pick, name))) {
        while (p.tok.kind && p.tok.kind != '{') tg_next(&p);
        skip_braces(&p);
        continue;
      }
      j->name = name;
      found = true;
      parse_kernel(&p);
    } else if (tg_at_word(&p, "proc")) {
      tg_next(&p);
      parse_proc(&p);
    } else if (tg_at_word(&p, "def")) parse_statement(&p);
    else if (!tg_take(&p, ';'))
      tg_token_fail(&p, &p.tok, "kernel, def or proc expected, not %s", tg_token_text(&p, &p.tok));
  }
  if (!found) tg_fail(&j->env, TG_EINVAL, pick ? "%s: no kernel '%s'" : "%s: no kernel", file ? file : "?", pick);
  tg_builder_finish(b);
}

const char **tg_kernel_names(tg_job *j, const char *file, const char *text, uint32_t *n) {
  tg_builder *b = tg_new(&j->env, tg_builder, 1);
  TG_VEC(const char *) names = {0};
  tg_parser p;
  b->job = j;
  tg_parser_init(&p, b, tg_source_new(j, file, text, 1, false), 0);
  while (p.tok.kind) {
    if (tg_take_word(&p, "kernel")) tg_push(&j->env, &names, tg_take_name(&p, "a kernel's name"));
    else if (p.tok.kind == '{') skip_braces(&p);
    else tg_next(&p);
  }
  *n = names.n;
  return names.data;
}

uint32_t tg_count_kernels(tg_job *j, const char *file, const char *text) {
  uint32_t n;
  tg_kernel_names(j, file, text, &n);
  return n;
}

const tg_uop *tg_parse_expr(tg_job *j, const char *text, uint32_t n, const char *const *names,
                            const tg_uop *const *values) {
  tg_builder *b = tg_new(&j->env, tg_builder, 1);
  tg_parser p;
  tg_builder_start(b, j, 0, NULL);
  b->raw = true;
  for (uint32_t i = 0; i < n; i++) {
    tg_name *e =
        tg_name_add(b, tg_sym(j, names[i]), values[i]->op == TG_OP_DEFINE ? NAME_BUFFER : NAME_VALUE, (tg_pos){0});
    e->u = values[i];
    e->value = (tg_expr){.u = values[i]};
  }
  tg_parser_init(&p, b, tg_source_new(j, "expression", text, 1, false), 0);
  tg_parse_inner_lets(&p);
  tg_expr e = tg_parse_expression(&p);
  if (p.tok.kind) tg_token_fail(&p, &p.tok, "an operator or the end expected, not %s", tg_token_text(&p, &p.tok));
  return tg_settle_alone(&p, &e);
}
