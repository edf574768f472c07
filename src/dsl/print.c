/* SPDX-License-Identifier: MIT
 * A program as text in the language, such that parsing it gives the same program. Statements print in order,
 * expressions
 * as print_expr.c does.
 *
 * Names. Parameters and constants come first; ranges and buffers are named where they are bound, and one whose name
 * is taken there is told apart by a number, i#2, which is no part of its name. Nodes used more than once within a
 * statement are named by `let` right before it, or, where they use ranges of a reduction, at the start of the innermost
 * such reduction's body. Values that are statements (linear form) print as `do %n = ..;`, and as %n from there on. */
#include "dsl/print.h"

enum { ONE_LINE = 1 << 16 };   /* bytes after which an expression in a message is cut */

static void new_line(tg_printer *p) {
  for (uint32_t i = 0; i < p->indent; i++) tg_str_puts(p->out, "  ");
}

/* The shared nodes of a statement that use no range of a reduction, one a line. */
static void put_lets(tg_printer *p, const tg_uop *root) {
  tg_print_survey(p, root);
  for (uint32_t i = 0; i < p->order.n; i++) {
    const tg_uop *u = p->order.data[i];
    if (u == root || p->notes[u->id].bound || !tg_print_wants_let(p, u)) continue;
    uint32_t number = p->names++;
    new_line(p);
    tg_str_printf(p->out, "let %%%u = ", number);
    tg_print_put_whole(p, u);
    tg_str_puts(p->out, ";\n");
    p->notes[u->id].name = number + 1;
  }
}

static void forget_lets(tg_printer *p) {
  for (uint32_t i = 0; i < p->order.n; i++) p->notes[p->order.data[i]->id].name = 0;
  tg_print_forget(p);
}

static void put_store(tg_printer *p, const tg_uop *u) {
  const tg_uop *gate = tg_gate(u);
  if (u->arg & TG_ATOMIC) tg_str_puts(p->out, "atomic ");
  if (u->arg & TG_ASYNC) tg_str_puts(p->out, "async ");
  tg_str_puts(p->out, tg_print_buffer_name(p, u->src[0]));
  if (tg_access_rank(u)) tg_print_put_list(p, u->src + 1, tg_access_rank(u), "[", "]");
  tg_str_puts(p->out, u->arg & TG_ATOMIC ? " += " : " = ");
  tg_print_put(p, tg_stored(u), gate || u->arg & TG_STREAM ? P_OR : P_GATED);
  if (u->arg & TG_STREAM) tg_str_puts(p->out, " stream");
  if (gate) {
    tg_str_puts(p->out, " if ");
    tg_print_put(p, gate, P_OR);
  }
}

static void put_wait(tg_str *out, const tg_uop *u) {
  if (tg_wait_flying(u) == TG_ALL_FLYING) tg_str_puts(out, "commit()");
  else tg_str_printf(out, "wait(%lld)", (long long)tg_wait_flying(u));
}

static void put_prefetch(tg_printer *p, const tg_uop *u) {
  tg_str_printf(p->out, "prefetch(%s", tg_print_buffer_name(p, u->src[0]));
  if (tg_access_rank(u)) tg_print_put_list(p, u->src + 1, tg_access_rank(u), "[", "]");
  tg_str_printf(p->out, ", %s%s)", u->arg & TG_PREFETCH_L2 ? "l2" : "l1", u->arg & TG_PREFETCH_WRITE ? ", rw" : "");
}

static void put_define(tg_printer *p, const tg_uop *u) {
  uint32_t o = tg_buffer_ordinal(u);
  const tg_buffer *b = &p->j->buffers.data[o];
  static const char *const roles[] = {"define_global", "in", "out", "inout"};
  const char *word = b->space == TG_SPACE_REG     ? "define_reg"
                     : b->space == TG_SPACE_LOCAL ? "define_local"
                                                  : roles[b->role];
  if (p->lets) p->buffer_name[o] = tg_print_bind_buffer(p, u);
  tg_str_printf(p->out, "%s(%s, %s", word, tg_print_buffer_name(p, u), tg_type_name[u->type]);
  if (u->lanes > 1) tg_str_printf(p->out, "[%u]", u->lanes);
  if (b->lo) {
    tg_str_puts(p->out, " in ");
    tg_print_put(p, b->lo, P_OR);
    tg_str_puts(p->out, "..");
    tg_print_put(p, b->hi, P_OR);
  }
  tg_print_put_list(p, u->src, b->rank, ", [", "]");
  if (u->arg >> 32 & TG_STRIDED) tg_print_put_list(p, u->src + b->rank, b->rank, ", [", "]");
  if (b->partial) tg_str_puts(p->out, ", partial");
  uint8_t place = b->space != TG_SPACE_REG ? TG_PLACE_NONE : b->place ? b->place : b->demand;
  if (place)
    tg_str_puts(p->out, place == TG_PLACE_SSA ? ", ssa" : place == TG_PLACE_MEMORY ? ", memory" : ", windowed");
  if (b->align) tg_str_printf(p->out, ", align %u", b->align);
  tg_str_puts(p->out, ")");
}

static void put_statement(tg_printer *p, const tg_uop *u);

static void put_loop(tg_printer *p, const tg_uop *u) {
  const tg_uop *r = u->src[0];
  uint32_t o = tg_range_ordinal(r), scope = p->scope.n, done = p->done.n;
  put_lets(p, u);
  new_line(p);
  size_t at = p->out->n;   /* the extent is outside of the range's own scope */
  tg_print_put(p, tg_extent(r), P_GATED);
  const char *extent = tg_strdup(&p->j->env, p->out->data + at);
  p->out->n = at;
  p->out->data[at] = 0;
  forget_lets(p);
  p->range_name[o] = tg_print_bind_range(p, r);
  tg_str_printf(p->out, "range(%s, %s", p->range_name[o], extent);
  if (tg_range_kind(r) != TG_LOOP) tg_str_printf(p->out, ", %s", tg_kind_name[tg_range_kind(r)]);
  if (tg_range_static(r)) tg_str_puts(p->out, ", static");
  tg_str_puts(p->out, ") {\n");
  p->indent++;
  for (uint32_t i = 1; i < u->n; i++) put_statement(p, u->src[i]);
  p->indent--;
  new_line(p);
  tg_str_puts(p->out, "}\n");
  tg_print_unbind(p, scope);
  for (; p->done.n > done; p->done.n--)
    p->notes[p->done.data[p->done.n - 1].u->id].name = p->done.data[p->done.n - 1].name;
}

static void put_statement(tg_printer *p, const tg_uop *u) {
  if (u->op == TG_OP_END) {
    put_loop(p, u);
    return;
  }
  put_lets(p, u);
  new_line(p);
  if (u->op == TG_OP_STORE) put_store(p, u);
  else if (u->op == TG_OP_DEFINE) put_define(p, u);
  else if (u->op == TG_OP_BARRIER) tg_str_puts(p->out, "barrier()");
  else if (u->op == TG_OP_WAIT) put_wait(p->out, u);
  else if (u->op == TG_OP_PREFETCH) put_prefetch(p, u);
  else {
    uint32_t number = p->names++;
    /* a phase may compute again what one before it did */
    tg_push(&p->j->env, &p->done, ((tg_print_done){u, p->notes[u->id].name}));
    tg_str_printf(p->out, "do %%%u = ", number);
    tg_print_put_whole(p, u);
    forget_lets(p);
    p->notes[u->id].name = number + 1;
    tg_str_puts(p->out, ";\n");
    return;
  }
  tg_str_puts(p->out, ";\n");
  forget_lets(p);
}

/* ---- entry points ---- */

/* a0, b12, v3: as the values of a GENERIC reduction are called. */
static bool like_value(const char *name) {
  if (!name || (*name != 'a' && *name != 'b' && *name != 'v') || !name[1]) return false;
  for (name++; *name >= '0' && *name <= '9'; name++) {}
  return !*name;
}

static const char *own_names(const tg_job *j) {
  bool taken = false;
  for (uint32_t i = 0; i < j->buffers.n; i++) taken |= like_value(j->buffers.data[i].name);
  for (uint32_t i = 0; i < j->ranges.n; i++) taken |= like_value(j->ranges.data[i].name);
  for (uint32_t i = 0; i < j->params.n; i++) taken |= like_value(j->params.data[i].name);
  return taken ? "reduce." : "";
}

static tg_printer printer_new(tg_job *j, tg_str *out, bool lets) {
  tg_printer p = {.j = j, .out = out, .own = own_names(j), .lets = lets, .limit = lets ? 0 : out->n + ONE_LINE};
  p.range_name = tg_new(&j->env, const char *, j->ranges.n + 1);
  p.buffer_name = tg_new(&j->env, const char *, j->buffers.n + 1);
  if (!lets) return p;
  p.notes = tg_new(&j->env, tg_print_note, j->uops.n + 1);
  p.range_height = tg_new(&j->env, uint32_t, j->ranges.n + 1);
  return p;
}

static void put_header(tg_printer *p) {
  const tg_job *j = p->j;
  tg_str_printf(p->out, "kernel %s(", j->name ? j->name : "kernel");
  const char *comma = "";
  for (uint32_t i = 0; i < j->constants.n; i++, comma = ", ") {
    tg_str_printf(p->out, "%s%s = %lld", comma, j->constants.data[i].name, (long long)j->constants.data[i].value);
    tg_print_bind_as(p, tg_sym(p->j, j->constants.data[i].name));
  }
  for (uint32_t i = 0; i < j->params.n; i++, comma = ", ") {
    const tg_param *a = &j->params.data[i];
    tg_str_printf(p->out, "%s%s in %lld..%lld", comma, a->name, (long long)a->lo, (long long)a->hi);
    if (a->multiple > 1) tg_str_printf(p->out, " %% %lld", (long long)a->multiple);
    tg_print_bind_as(p, tg_sym(p->j, a->name));
  }
  tg_str_puts(p->out, ") {\n");
}

static bool has_opts_ahead(const char *stage) {
  return !strcmp(stage, "author") || !strcmp(stage, "prove") || !strcmp(stage, "raise");
}

void tg_print(tg_job *j, tg_str *out, const tg_uop *sink) {
  tg_assert(&j->env, sink->op == TG_OP_SINK);
  tg_printer p = printer_new(j, out, true);
  p.sink = sink;
  put_header(&p);
  p.indent = 1;
  tg_str_printf(out, "  stage %s;\n", j->stage);   /* behind it nothing is implied: the text is the program */
  for (uint32_t i = 0; i < j->requires.n; i++) {
    put_lets(&p, j->requires.data[i]);
    tg_str_puts(out, "  require(");
    tg_print_put(&p, j->requires.data[i], P_GATED);
    tg_str_puts(out, ");\n");
    forget_lets(&p);
  }
  if (has_opts_ahead(j->stage))
    for (uint32_t i = 0; i < j->opts.n; i++) tg_str_printf(out, "  opt(%s);\n", j->opts.data[i].text);
  for (uint32_t i = 0; i < sink->n; i++) put_statement(&p, sink->src[i]);
  tg_str_puts(out, "}\n");
}

void tg_print_expr(tg_job *j, tg_str *out, const tg_uop *u) {
  tg_printer p = printer_new(j, out, false);
  tg_print_put(&p, u, P_GATED);
}

static const char *text_of(tg_job *j, const tg_uop *u, size_t limit) {
  tg_str out = tg_str_new(&j->env);
  tg_printer p = printer_new(j, &out, false);
  p.limit = limit;
  switch (u->op) {
  case TG_OP_STORE: put_store(&p, u); break;
  case TG_OP_DEFINE: put_define(&p, u); break;
  case TG_OP_BARRIER: tg_str_puts(&out, "barrier()"); break;
  case TG_OP_WAIT: put_wait(&out, u); break;
  case TG_OP_PREFETCH: put_prefetch(&p, u); break;
  case TG_OP_END:
    tg_str_printf(&out, "range(%s, ", tg_print_range_name(&p, u->src[0]));
    tg_print_put(&p, tg_extent(u->src[0]), P_GATED);
    if (tg_range_kind(u->src[0]) != TG_LOOP) tg_str_printf(&out, ", %s", tg_kind_name[tg_range_kind(u->src[0])]);
    tg_str_puts(&out, tg_range_static(u->src[0]) ? ", static)" : ")");
    break;
  case TG_OP_SINK: tg_str_printf(&out, "kernel %s", j->name ? j->name : "kernel"); break;
  default: tg_print_put(&p, u, P_GATED);
  }
  return out.data ? out.data : "";
}

const char *tg_text(tg_job *j, const tg_uop *u) { return text_of(j, u, 0); }

const char *tg_brief_text(tg_job *j, const char *text) {
  return strlen(text) <= TG_BRIEF ? text : tg_format(&j->env, "%.*s..", TG_BRIEF - 2, text);
}

const char *tg_brief(tg_job *j, const tg_uop *u) { return tg_brief_text(j, text_of(j, u, 2 * TG_BRIEF)); }
