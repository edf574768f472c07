/* SPDX-License-Identifier: MIT
 * The builder: scopes, the statement lists in them, and the program that they become. Its exported functions are called
 * from the author's C and C++ frames, so nothing unwinds through them: each holds its own trap, the first error
 * sticks, and what is called later does nothing. */
#include "dsl/parse.h"

void tg_builder_start(tg_builder *b, tg_job *j, uint32_t n, const tg_binding *bindings) {
  *b = (tg_builder){.job = j, .n = n, .bindings = bindings};
  b->used = tg_new(&j->env, bool, n + 1);
  for (uint32_t i = 0; i < j->buffers.n; i++) tg_push(&j->env, &b->stores, 0);
  tg_frame_push(b, FRAME_KERNEL, (tg_pos){0});
}

const tg_binding *tg_binding_find(tg_builder *b, const char *name) {
  for (uint32_t i = 0; i < b->n; i++)
    if (!strcmp(b->bindings[i].name, name)) {
      b->used[i] = true;
      return &b->bindings[i];
    }
  return NULL;
}

/* ---- scopes ---- */

tg_frame *tg_frame_push(tg_builder *b, tg_frame_kind kind, tg_pos pos) {
  tg_frame f = {.kind = (uint8_t)kind,
                .pos = pos,
                .names = b->names.n,
                .id = ++b->scopes,
                .barrier = b->barrier,
                .prefix = b->prefix};
  b->depth += kind == FRAME_RANGE || kind == FRAME_MERGE;
  tg_push(&b->job->env, &b->frames, f);
  return &b->frames.data[b->frames.n - 1];
}

void tg_step(tg_parser *p, const tg_token *t) {
  static const char ending[] =
      "is this in a loop of C that does not end, or in functions that each call another many times?";
  if (++p->b->steps > TG_MOST_STATEMENTS)
    tg_token_fail(p, t, "a kernel of over %d statements, scopes and calls\n%s", TG_MOST_STATEMENTS, ending);
  if (p->j->uops.n > TG_MOST_NODES) tg_token_fail(p, t, "a kernel of over %d nodes\n%s", TG_MOST_NODES, ending);
}

/* The list that statements go to here; `if` and procs have none of their own. */
tg_frame *tg_list_frame(tg_builder *b, uint32_t *index) {
  uint32_t i = b->frames.n - 1;
  while (b->frames.data[i].kind == FRAME_IF || b->frames.data[i].kind == FRAME_PROC ||
         b->frames.data[i].kind == FRAME_CARRY)
    i--;
  if (index) *index = i;
  return &b->frames.data[i];
}

void tg_emit(tg_builder *b, const tg_uop *statement, tg_pos pos, uint32_t notes) {
  tg_frame *f = tg_list_frame(b, NULL);
  tg_push(&b->job->env, &f->items,
          ((tg_item){.node = statement, .pos = pos, .notes = notes, .notes_n = b->notes.n - notes}));
}

/* Drops the places that were reserved and not needed; gives the nodes. */
static const tg_uop **settle_items(tg_builder *b, tg_item *items, uint32_t *n) {
  const tg_uop **nodes = tg_new(&b->job->env, const tg_uop *, *n + 1);
  uint32_t k = 0;
  for (uint32_t i = 0; i < *n; i++) {
    if (!items[i].node) continue;
    nodes[k] = items[i].node;
    items[k++] = items[i];
  }
  *n = k;
  return nodes;
}

void tg_frame_pop(tg_builder *b) {
  tg_job *j = b->job;
  tg_frame f = b->frames.data[--b->frames.n];
  tg_names_cut(b, f.names);
  if (f.kind == FRAME_PROC) {
    b->barrier = f.barrier;
    b->prefix = f.prefix;
    if (f.macro) f.macro->active = false;
  }
  if (f.kind == FRAME_CARRY) tg_carry_close(b, &f);
  if (f.kind != FRAME_RANGE && f.kind != FRAME_MERGE) return;
  b->depth--;
  uint32_t n = f.items.n;
  const tg_uop **nodes = settle_items(b, f.items.data, &n);
  f.items.n = n;
  if (f.kind == FRAME_MERGE) tg_merge_close(b, &f);
  else if (f.carry && n && !tg_is_merge(f.items.data[n - 1].node))
    tg_fail_at(j, f.items.data[n - 1].pos, "a carry is the whole of its loop's body: nothing stands behind it");
  const tg_uop *end = tg_end(j, f.range, n, nodes);
  tg_frame *list = tg_list_frame(b, NULL);
  tg_push(
      &j->env, &list->items,
      ((tg_item){.node = end, .pos = f.pos, .notes = f.notes, .notes_n = f.notes_n, .children = f.items.data, .n = n}));
}

/* ---- from statements to the versioned program, with places ---- */

typedef struct { const tg_uop *plain, *final; } pair;
typedef struct {
  tg_builder *b;
  uint32_t *stamp, *seen, epoch, seen_cap;   /* by plain node; by serial of a value */
  const tg_uop **final;
  TG_VEC(pair) stack;
  TG_VEC(const tg_note *) open;
} placing;

/* Final nodes for the plain ones below a pair: both have one shape, save for versions. */
static void match(placing *s, const tg_uop *plain, const tg_uop *final) {
  tg_job *j = s->b->job;
  tg_push(&j->env, &s->stack, ((pair){plain, final}));
  while (s->stack.n) {
    pair x = s->stack.data[--s->stack.n];
    if (s->stamp[x.plain->id] == s->epoch || x.plain->op == TG_OP_DEFINE) continue;
    s->stamp[x.plain->id] = s->epoch;
    s->final[x.plain->id] = x.final;
    if (x.plain == x.final || x.plain->n != x.final->n) continue;
    for (uint32_t i = 0; i < x.plain->n; i++) tg_push(&j->env, &s->stack, ((pair){x.plain->src[i], x.final->src[i]}));
  }
}

static void place_notes(placing *s, const tg_note *notes, uint32_t n, const tg_uop *statement) {
  tg_builder *b = s->b;
  tg_job *j = b->job;
  for (uint32_t i = n; i-- > 0;) tg_push(&j->env, &s->open, &notes[i]);
  while (s->open.n) {
    const tg_note *x = s->open.data[--s->open.n];
    if (x->node) {
      uint32_t id = x->node->id;
      const tg_uop *node = id < s->seen_cap && s->stamp[id] == s->epoch ? s->final[id] : x->node;
      tg_push(&j->env, &j->occurrences, ((tg_occurrence){node, statement, x->pos}));
      continue;
    }
    if (s->seen[x->serial] == s->epoch) continue;
    s->seen[x->serial] = s->epoch;
    for (uint32_t i = x->n; i-- > 0;) tg_push(&j->env, &s->open, &b->notes.data[x->first + i]);
  }
}

static void place_items(placing *s, const tg_item *items, uint32_t n, const tg_uop *const *final) {
  for (uint32_t i = 0; i < n; i++) {
    const tg_item *x = &items[i];
    tg_set_pos(s->b->job, final[i], x->pos);
    if (x->notes_n) {
      s->epoch++;
      if (x->node->op == TG_OP_END) match(s, x->node->src[0], final[i]->src[0]);
      else match(s, x->node, final[i]);
      place_notes(s, s->b->notes.data + x->notes, x->notes_n, final[i]);
    }
    if (x->node->op == TG_OP_END) place_items(s, x->children, x->n, final[i]->src + 1);
  }
}

static TG_NORETURN void fail_open_scope(tg_builder *b) {
  const tg_frame *f = &b->frames.data[b->frames.n - 1];
  static const char *const scopes[] = {"kernel", "range", "if", "proc", "carry", "merge"};
  if (f->kind == FRAME_RANGE)
    tg_fail_at(b->job, f->pos, "the scope of range '%s' is left by break, return or goto", f->name);
  tg_fail_at(b->job, f->pos, "the scope of this %s is left by break, return or goto", scopes[f->kind]);
}

static TG_NORETURN void fail_unknown_binding(tg_builder *b, const char *name) {
  tg_job *j = b->job;
  TG_VEC(const char *) there = {0};
  for (uint32_t i = 0; i < j->params.n; i++) tg_push(&j->env, &there, j->params.data[i].name);
  for (uint32_t i = 0; i < j->constants.n; i++) tg_push(&j->env, &there, j->constants.data[i].name);
  tg_push(&j->env, &there, NULL);
  tg_str list = tg_str_new(&j->env);
  for (uint32_t i = 0; i + 1 < there.n; i++) tg_str_printf(&list, "%s%s", i ? ", " : "", there.data[i]);
  const char *near = tg_nearest(name, there.data);
  if (there.n == 1) tg_fail(&j->env, TG_EINVAL, "%s has no parameter or knob '%s': it has none", j->name, name);
  tg_fail(&j->env, TG_EINVAL, "%s has no parameter or knob '%s': there %s %s%s", j->name, name,
          there.n == 2 ? "is" : "are", list.data, near ? tg_format(&j->env, "; did you mean '%s'?", near) : "");
}

void tg_builder_finish(tg_builder *b) {
  tg_job *j = b->job;
  if (b->frames.n > 1) fail_open_scope(b);
  for (uint32_t i = 0; i < b->n; i++)
    if (!b->used[i]) {
      for (uint32_t k = 0; k < i; k++)
        if (!strcmp(b->bindings[k].name, b->bindings[i].name))
          tg_fail(&j->env, TG_EINVAL, "%s: '%s' is bound twice", j->name, b->bindings[i].name);
      fail_unknown_binding(b, b->bindings[i].name);
    }
  TG_VEC(tg_item) items = {0};
  tg_frame *kernel = &b->frames.data[0];
  for (uint32_t i = 0; i < b->globals.n; i++) tg_push(&j->env, &items, b->globals.data[i]);
  for (uint32_t i = 0; i < kernel->items.n; i++) tg_push(&j->env, &items, kernel->items.data[i]);
  uint32_t n = items.n;
  const tg_uop **nodes = settle_items(b, items.data, &n);
  const tg_uop *plain = tg_sink(j, n, nodes);
  uint32_t size = j->uops.n;
  j->sink = tg_versioned(j, plain);
  placing s = {.b = b, .seen_cap = size};
  s.stamp = tg_new(&j->env, uint32_t, size);
  s.final = tg_new(&j->env, const tg_uop *, size);
  s.seen = tg_new(&j->env, uint32_t, b->serial + 1);
  place_items(&s, items.data, n, j->sink->src);
}

/* ---- the exported builder ---- */

typedef struct {
  tg_builder *b;
  const char *word, *text, *file, *extra;
  int line;
  tg_scope *scope;
  const tg_proc_def *proc;
  tg_expr literal;
  int64_t result;
} request;

/* A body that has failed runs on to its end, so that its frames unwind as they like to. One that never ends (a loop
 * of C around statements) is left by a jump to whoever runs the kernel, over frames whose destructors, in C++, do
 * not run. */
static void guard(tg_builder *b, void (*fn)(void *), request *r) {
  if (b->failed) {
    if (++b->idle > TG_MOST_STATEMENTS) tg_fail(&b->job->env, b->job->env.status, "%s", b->job->env.message);
    return;
  }
  r->b = b;
  if (!tg_protect(&b->job->env, fn, r)) b->failed = true;
}

static tg_source *source_of(const request *r) {
  tg_job *j = r->b->job;
  if (!r->text)
    tg_fail(&j->env, TG_EINVAL, "%s:%d: error: the builder is given no text", r->file ? r->file : "?", r->line);
  return tg_source_new(j, r->file, tg_strdup(&j->env, r->text), r->line, true);
}

/* The text of a call, read as far as its first tokens; calls are counted here. */
static void start(const request *r, tg_parser *p) {
  tg_parser_init(p, r->b, source_of(r), 0);
  tg_step(p, &p->tok);
}

static void expect_end(tg_parser *p) {
  bool ended = tg_take(p, ';');
  if (!p->tok.kind) return;
  bool statement = ended || (p->tok.kind == TK_NAME && (p->ahead.kind == '[' || p->ahead.kind == '='));
  tg_token_fail(p, &p->tok, "an operator or the end expected, not %s%s", tg_token_text(p, &p->tok),
                statement ? "\none statement in each tg(..)" : "");
}

/* What the body said, as a .tg file has it, for those who want to go on from it. */
TG_PRINTF(2, 3) static void keep_written(const tg_builder *b, const char *format, ...) {
  tg_str *out = b->job->written;
  if (!out) return;
  tg_str_printf(out, "%*s", (int)(2 * b->frames.n), "");
  va_list args;
  va_start(args, format);
  tg_str_vprintf(out, format, args);
  va_end(args);
  tg_str_puts(out, "\n");
}

static void run_statement(void *user) {
  tg_parser p;
  start(user, &p);
  if (p.tok.kind) tg_parse_simple(&p);
  expect_end(&p);
  keep_written(p.b, "%s;", p.src->text);
}

void tg_add_statement(tg_builder *b, const char *text, const char *file, int line) {
  request r = {.text = text, .file = file, .line = line};
  guard(b, run_statement, &r);
}

static void run_declaration(void *user) {
  request *r = user;
  tg_parser p;
  start(r, &p);
  tg_parse_declaration(&p, r->word);
  expect_end(&p);
  keep_written(p.b, "%s(%s);", r->word, p.src->text);
}

void tg_add_declaration(tg_builder *b, const char *word, const char *text, const char *file, int line) {
  request r = {.word = word ? word : "", .text = text, .file = file, .line = line};
  guard(b, run_declaration, &r);
}

static void run_open(void *user) {
  request *r = user;
  tg_parser p;
  start(r, &p);
  keep_written(p.b, *r->text ? "%s(%s) {" : "%s {", r->word, r->text);
  if (!strcmp(r->word, "range")) tg_parse_range(&p, 0);
  else if (!strcmp(r->word, "if")) tg_parse_if(&p, 0);
  else if (!strcmp(r->word, "carry")) tg_parse_carry(&p, 0);
  else if (!strcmp(r->word, "merge")) tg_parse_merge(&p, 0);
  else tg_fail_at(r->b->job, tg_source_pos(p.j, p.src, 0, 1), "unknown scope '%s'", r->word);
  expect_end(&p);
  tg_frame *f = &r->b->frames.data[r->b->frames.n - 1];
  f->line = r->line;
  if (r->scope) *r->scope = (tg_scope){r->b, 1, f->id};
}

tg_scope tg_scope_open(tg_builder *b, const char *word, const char *text, const char *file, int line) {
  tg_scope s = {b, 0, 0};
  request r = {.word = word ? word : "", .text = text, .file = file, .line = line, .scope = &s};
  guard(b, run_open, &r);
  return s;
}

static void run_close(void *user) {
  request *r = user;
  tg_builder *b = r->b;
  uint32_t i = b->frames.n - 1;
  while (i && b->frames.data[i].id != r->scope->id) i--;
  if (!i) tg_fail(&b->job->env, TG_EINVAL, "error: a scope is closed that is not open; each is closed once");
  if (i != b->frames.n - 1) fail_open_scope(b);
  tg_frame_pop(b);
  keep_written(b, "}");
}

void tg_scope_close(tg_scope *s) {
  request r = {.scope = s};
  if (!s || !s->builder) return;
  s->live = 0;
  guard(s->builder, run_close, &r);
}

static void run_let(void *user) {
  request *r = user;
  tg_job *j = r->b->job;
  tg_source *s = source_of(r);   /* fails without a name */
  tg_name *n = tg_name_add(r->b, tg_sym(j, r->text), NAME_VALUE, tg_source_pos(j, s, 0, (uint32_t)strlen(r->text)));
  n->value = r->literal;
  if (r->literal.lit == LIT_INT) keep_written(r->b, "knob(%s, %lld);", n->name, (long long)r->literal.i);
  else keep_written(r->b, "let %s = %.17g;", n->name, r->literal.f);
}

void tg_let_integer(tg_builder *b, const char *name, int64_t value, const char *file, int line) {
  request r = {.text = name, .file = file, .line = line, .literal = {.lit = LIT_INT, .i = value}};
  guard(b, run_let, &r);
}

void tg_let_unsigned(tg_builder *b, const char *name, uint64_t value, const char *file, int line) {
  request r = {.text = name, .file = file, .line = line, .literal = {.lit = LIT_INT, .i = value}};
  guard(b, run_let, &r);
}

void tg_let_double(tg_builder *b, const char *name, double value, const char *file, int line) {
  request r = {.text = name, .file = file, .line = line, .literal = {.lit = LIT_FLOAT, .f = value}};
  guard(b, run_let, &r);
}

void tg_scope_begin(tg_builder *b, const char *word, const char *text, const char *file, int line) {
  request r = {.word = word ? word : "", .text = text, .file = file, .line = line};
  guard(b, run_open, &r);
}

static void run_next(void *user) {
  request *r = user;
  tg_builder *b = r->b;
  tg_frame *f = &b->frames.data[b->frames.n - 1];
  if (b->frames.n == 1 || f->kind == FRAME_PROC)
    tg_fail(&b->job->env, TG_EINVAL, "error: a scope is closed that is not open; each is closed once");
  if (f->line != r->line) fail_open_scope(b);
  if (f->entered) tg_frame_pop(b), keep_written(b, "}");
  else r->result = f->entered = true;
}

int tg_scope_next(tg_builder *b, int line) {
  request r = {.line = line};
  guard(b, run_next, &r);
  return r.result != 0 && !b->failed;
}

static void run_constant(void *user) {
  request *r = user;
  tg_parser p;
  start(r, &p);
  const tg_uop *u = tg_parse_index(&p, true);
  expect_end(&p);
  tg_i128 v;
  if (!tg_constant_value(p.j, u, &v) || v != (int64_t)v)
    tg_parse_fail(&p, 0, (uint32_t)strlen(p.src->text),
                  "tg_c(%s): no constant; its value is known when the kernel runs", p.src->text);
  r->result = (int64_t)v;
}

int64_t tg_constant_of(tg_builder *b, const char *text, const char *file, int line) {
  request r = {.text = text, .file = file, .line = line, .result = 1};
  guard(b, run_constant, &r);
  return r.result;
}

static void run_splice(void *user) {
  request *r = user;
  tg_job *j = r->b->job;
  tg_parser p;
  const char *name = tg_sym(j, r->word);
  tg_source *s = source_of(r);
  if (!r->extra) r->extra = "";
  const char *arrow = strstr(r->extra, "->");   /* the value's type stands behind it */
  int n = arrow ? (int)(arrow - r->extra) : (int)strlen(r->extra);
  const char *formals = tg_format(&j->env, "(%.*s) %s", n, r->extra, arrow ? arrow + 2 : "");
  tg_parser_init(&p, r->b, tg_source_new(j, r->file, formals, r->line, true), 0);
  tg_macro *m = tg_parse_formals(&p, name, true);
  uint32_t lanes = 1;
  if (arrow && (!tg_parse_type(&p, &m->type, &lanes) || lanes != 1 || p.tok.kind))
    tg_token_fail(&p, &p.tok, "the type of the value of '%s' expected behind ->", name);
  m->source = tg_source_new(j, tg_format(&j->env, "<%s>", name), s->text, 1, false);
  m->source->text = s->text;
  tg_name_add(r->b, name, NAME_DEF,
              tg_source_pos(j, tg_source_new(j, r->file, name, r->line, true), 0, (uint32_t)strlen(name)))
      ->macro = m;
}

void tg_add_splice(tg_builder *b, const char *name, const char *text, const char *formals, const char *file, int line) {
  request r = {.word = name, .text = text ? text : "", .extra = formals, .file = file, .line = line};
  guard(b, run_splice, &r);
}

void *tg_builder_user(tg_builder *b) { return b->user; }

static void run_enter(void *user) {
  request *r = user;
  tg_builder *b = r->b;
  tg_parser p, f;
  tg_job *j = b->job;
  const char *text = tg_format(&j->env, "%s, %s", r->proc->name, r->text),
             *formals = tg_format(&j->env, "(%s)", r->proc->formals);
  tg_parser_init(&p, b, tg_source_new(j, r->file, text, r->line, true), 0);
  tg_next(&p);
  tg_next(&p);
  tg_parser_init(&f, b, tg_source_new(j, r->proc->file, formals, r->proc->line, true), 0);
  tg_macro *m = tg_parse_formals(&f, tg_sym(j, r->proc->name), false);
  if (b->calls == TG_DEEPEST_CALL)
    tg_token_fail(&p, &p.tok, "procs call each other over %d deep: '%s'", TG_DEEPEST_CALL, m->name);
  tg_step(&p, &p.tok);
  tg_enter_proc(&p, m, tg_source_pos(j, p.src, 0, (uint32_t)strlen(r->proc->name)));
  b->calls++;
  r->result = (int64_t)b->frames.data[b->frames.n - 1].id;
}

static void run_leave(void *user) {
  request *r = user;
  tg_builder *b = r->b;
  if ((int64_t)b->frames.data[b->frames.n - 1].id != r->result) fail_open_scope(b);
  b->calls--;
  tg_frame_pop(b);
}

void tg_call_proc(tg_builder *b, const tg_proc_def *proc, const char *arguments, const char *file, int line) {
  request r = {.text = arguments, .file = file, .line = line, .proc = proc};
  guard(b, run_enter, &r);
  if (b->failed) return;
  proc->body(b, b->user);
  guard(b, run_leave, &r);
}

void tg_author(tg_job *j, const tg_kernel_def *k, uint32_t n, const tg_binding *bindings, void *user) {
  tg_builder *b = tg_new(&j->env, tg_builder, 1);
  tg_parser p;
  tg_builder_start(b, j, n, bindings);
  b->user = user;
  j->name = tg_sym(j, k->name);
  j->stage = "author";
  tg_parser_init(
      &p, b,
      tg_source_new(j, k->file, tg_format(&j->env, "%s, %s", k->name, k->params ? k->params : ""), k->line, true), 0);
  tg_next(&p);
  tg_next(&p);
  tg_parse_parameters(&p);
  expect_end(&p);
  k->body(b, user);
  if (b->failed) tg_fail(&j->env, j->env.status, "%s", j->env.message);
  tg_builder_finish(b);
}
