/* SPDX-License-Identifier: MIT
 * Expressions as text, from a stack of pieces, never by recursion, so a chain of a million operations is a long line
 * and
 * no more. What is used more than once and uses ranges of a reduction is named at the start of the innermost such
 * reduction's body; the rest of what is shared is named by the statement (print.c). */
#include <math.h>
#include <stdio.h>
#include "dsl/print.h"
#include "dsl/value.h"

/* ---- names ---- */

/* n: how often the name stands in scope; ranges: how many of that name have a number */
typedef struct tg_print_bound { const char *name; uint32_t n, ranges; } tg_print_bound;

static tg_print_bound *bound_slot(const tg_printer *p, const char *symbol) {
  /* never iterated: addresses decide nothing */
  uint32_t h = (uint32_t)tg_mix(0, (uint64_t)(uintptr_t)symbol) & p->bound_mask;
  while (p->bound[h].name && p->bound[h].name != symbol) h = (h + 1) & p->bound_mask;
  return &p->bound[h];
}

static tg_print_bound *bound_of(tg_printer *p, const char *symbol) {
  if (!p->bound || p->bound_n * 2 > p->bound_mask) {
    tg_print_bound *old = p->bound;
    uint32_t n = old ? p->bound_mask + 1 : 0, size = n ? n * 2 : 64;
    p->bound = tg_new(&p->j->env, tg_print_bound, size);
    p->bound_mask = size - 1;
    for (uint32_t i = 0; i < n; i++)
      if (old[i].name) *bound_slot(p, old[i].name) = old[i];
  }
  tg_print_bound *b = bound_slot(p, symbol);
  p->bound_n += !b->name;
  b->name = symbol;
  return b;
}

void tg_print_bind_as(tg_printer *p, const char *symbol) {
  bound_of(p, symbol)->n++;
  tg_push(&p->j->env, &p->scope, symbol);
}

void tg_print_unbind(tg_printer *p, uint32_t n) {
  while (p->scope.n > n) bound_slot(p, p->scope.data[--p->scope.n])->n--;
}

static void number_range(tg_printer *p, const tg_uop *range) {
  uint32_t *number = &p->range_number[tg_range_ordinal(range)];
  if (!*number) *number = ++bound_of(p, tg_sym(p->j, p->j->ranges.data[tg_range_ordinal(range)].name))->ranges;
}

/* In the order in which words number the ranges of one name (schedule/axis.c): loops as they stand, and what a
 * statement reduces from the statement down. */
static void number_ranges(tg_printer *p, const tg_uop *u) {
  uint32_t n;
  if (u->op == TG_OP_END) number_range(p, u->src[0]);
  if (u->op == TG_OP_END || u->op == TG_OP_SINK)
    for (uint32_t i = u->op == TG_OP_END; i < u->n; i++) number_ranges(p, u->src[i]);
  if (u->op != TG_OP_STORE) return;
  const tg_uop **order = tg_toposort(p->j, u, &n);
  for (uint32_t i = n; i-- > 0;)
    for (uint32_t k = 0; order[i]->op == TG_OP_REDUCE && k < tg_reduce_info(order[i]).ranges; k++)
      number_range(p, tg_reduce_ranges(order[i])[k]);
}

/* The name; where that is in scope already, name#2, .. */
static const char *bind(tg_printer *p, const char *base, uint32_t number) {
  const char *name = base = tg_sym(p->j, base ? base : "r");
  for (; bound_of(p, name)->n; number++) name = tg_sym(p->j, tg_format(&p->j->env, "%s#%u", base, number));
  tg_print_bind_as(p, name);
  return name;
}

const char *tg_print_bind_buffer(tg_printer *p, const tg_uop *define) {
  return bind(p, p->j->buffers.data[tg_buffer_ordinal(define)].name, 2);
}

const char *tg_print_bind_range(tg_printer *p, const tg_uop *range) {
  uint32_t o = tg_range_ordinal(range);
  const char *base = tg_sym(p->j, p->j->ranges.data[o].name);
  if (bound_of(p, base)->n && !p->range_number) {
    p->range_number = tg_new(&p->j->env, uint32_t, p->j->ranges.n + 1);
    number_ranges(p, tg_plain(p->j, p->sink));
  }
  return bind(p, base, p->range_number && p->range_number[o] ? p->range_number[o] : 2);
}

const char *tg_print_range_name(const tg_printer *p, const tg_uop *r) {
  uint32_t o = tg_range_ordinal(r);
  if (o >= p->j->ranges.n) return "?";
  return p->range_name[o] ? p->range_name[o] : p->j->ranges.data[o].name;
}

const char *tg_print_buffer_name(const tg_printer *p, const tg_uop *version) {
  uint32_t o = tg_buffer_ordinal(version);
  return p->buffer_name[o] ? p->buffer_name[o] : p->j->buffers.data[o].name;
}

/* ---- what an expression consists of ---- */

/* `A[i, j] else v`: the gate says that all subscripts are in bounds, dimension by dimension, and nothing else. */
static bool is_in_bounds_gate(const tg_uop *load) {
  const tg_uop *gate = tg_gate(load), *define = tg_define_of(load->src[0]);
  uint32_t rank = tg_access_rank(load);
  if (!gate || !rank) return false;
  for (uint32_t d = rank; d-- > 0;) {
    const tg_uop *pair = gate, *index = load->src[1 + d];
    if (d) {
      if (gate->op != TG_OP_AND) return false;
      pair = gate->src[1];
      gate = gate->src[0];
    }
    if (pair->op != TG_OP_AND) return false;
    const tg_uop *low = pair->src[0], *high = pair->src[1];
    if (low->op != TG_OP_LE || !tg_is_const(low->src[0], 0) || low->src[1] != index) return false;
    if (high->op != TG_OP_LT || high->src[0] != index || high->src[1] != define->src[d]) return false;
  }
  return true;
}

static uint32_t child_count(const tg_uop *u) {
  switch (u->op) {
  case TG_OP_RANGE: case TG_OP_AFTER: case TG_OP_CONST: case TG_OP_PARAM: case TG_OP_ARG: return 0;
  case TG_OP_END: return 1;
  default: return u->n;
  }
}

/* The i-th source as printed: extents for ranges, nothing for versions and for a gate that `else` implies. */
static const tg_uop *child(const tg_uop *u, uint32_t i) {
  const tg_uop *s = u->src[i];
  if ((u->op == TG_OP_LOAD || u->op == TG_OP_STORE || u->op == TG_OP_PREFETCH) && !i) return NULL;
  if (u->op == TG_OP_LOAD && u->arg & TG_GATED && i == u->n - 2 && is_in_bounds_gate(u)) return NULL;
  if ((u->op == TG_OP_REDUCE && i >= u->n - tg_reduce_info(u).ranges) || u->op == TG_OP_END) return tg_extent(s);
  return s;
}

typedef enum { X_TEXT, X_NODE, X_INLINE, X_RANGE, X_LETS, X_NAME, X_ARGS, X_ARGS_END, X_UNBIND } piece_kind;

static bool is_leaf(const tg_uop *u) { return !child_count(u) && u->op != TG_OP_LOAD; }

typedef struct { const tg_uop *u; uint32_t next; } frame;

/* Fills p->order with what the statement's text is made of, and counts uses. A named value is not entered. */
void tg_print_survey(tg_printer *p, const tg_uop *root) {
  tg_job *j = p->j;
  TG_VEC(frame) stack = {0};
  p->epoch++;
  p->order.n = 0;
  tg_push(&j->env, &stack, ((frame){root, 0}));
  p->notes[root->id].stamp = p->epoch;
  p->notes[root->id].uses = 1;
  while (stack.n) {
    frame *f = &stack.data[stack.n - 1];
    if (f->next == child_count(f->u)) {
      tg_push(&j->env, &p->order, f->u);
      stack.n--;
      continue;
    }
    const tg_uop *s = child(f->u, f->next++);
    if (!s) continue;
    tg_print_note *n = &p->notes[s->id];
    if (n->stamp == p->epoch) {
      n->uses++;
      continue;
    }
    *n = (tg_print_note){.stamp = p->epoch, .uses = 1, .name = n->name};
    if (!n->name) tg_push(&j->env, &stack, ((frame){s, 0}));
  }
  for (uint32_t i = 0; i < p->order.n; i++) { /* heights first: a range is met before its reduction */
    const tg_uop *u = p->order.data[i];
    tg_print_note *n = &p->notes[u->id];
    n->height = 0;
    for (uint32_t c = 0; c < child_count(u); c++) {
      const tg_uop *s = child(u, c);
      if (s && p->notes[s->id].height > n->height) n->height = p->notes[s->id].height;
    }
    if (u->op != TG_OP_REDUCE) continue;
    if (n->height < 62) n->height++;
    tg_reduce_arg a = tg_reduce_info(u);
    for (uint32_t r = 0; r < a.ranges; r++) p->range_height[tg_range_ordinal(tg_reduce_ranges(u)[r])] = n->height;
  }
  for (uint32_t i = 0; i < p->order.n; i++) {
    const tg_uop *u = p->order.data[i];
    tg_print_note *n = &p->notes[u->id];
    n->bound = u->op == TG_OP_RANGE ? (uint64_t)1 << p->range_height[tg_range_ordinal(u)] & ~(uint64_t)1
               : u->op == TG_OP_ARG ? (uint64_t)1 << 63
                                    : 0;
    for (uint32_t c = 0; c < child_count(u); c++) {
      const tg_uop *s = child(u, c);
      if (s) n->bound |= p->notes[s->id].bound;
    }
    if (u->op == TG_OP_REDUCE)
      n->bound &= ~((uint64_t)1 << n->height | (tg_reduce_info(u).generic ? (uint64_t)1 << 63 : 0));
  }
}

void tg_print_forget(tg_printer *p) {
  for (uint32_t i = 0; i < p->order.n; i++)
    if (p->order.data[i]->op == TG_OP_RANGE) p->range_height[tg_range_ordinal(p->order.data[i])] = 0;
    else if (p->order.data[i]->op == TG_OP_REDUCE)
      for (uint32_t r = 0; r < tg_reduce_info(p->order.data[i]).ranges; r++)
        p->range_height[tg_range_ordinal(tg_reduce_ranges(p->order.data[i])[r])] = 0;
}

/* ---- literals ---- */

static void put_float(tg_str *out, const tg_uop *c, bool bare) {
  double v = tg_const_value(c);
  char digits[40];
  if (v != v || isinf(v)) {
    tg_str_printf(out, "%s(%s)", tg_type_name[c->type], v != v ? "nan" : v > 0 ? "inf" : "-inf");
    return;
  }
  for (int n = 1; n <= 17; n++) { /* the fewest digits that read back */
    tg_print_double(digits, sizeof digits, n, v);
    double back = tg_read_double(digits, NULL);
    if (back == v) break;
    if (c->type != TG_F64 && tg_round_to(c->type, back) == v) break;
  }
  if (!strpbrk(digits, ".e")) strcat(digits, ".0");
  if (c->type == TG_F32) tg_str_printf(out, "%sf", digits);
  else if (c->type == TG_F64 || bare) tg_str_puts(out, digits);
  else tg_str_printf(out, "%s(%s)", tg_type_name[c->type], digits);
}

static void put_const(tg_str *out, const tg_uop *c, bool bare) {
  if (tg_is_float(c->type)) put_float(out, c, bare);
  else if (c->type == TG_BOOL) tg_str_puts(out, c->arg ? "true" : "false");
  else {
    const char *format = c->type == TG_U64 ? "%llu" : "%lld";
    if (!bare && c->type != TG_INDEX) tg_str_printf(out, "%s(", tg_type_name[c->type]);
    char digits[40];
    snprintf(digits, sizeof digits, format, (long long)c->arg);
    tg_str_puts(out, digits);
    if (!bare && c->type != TG_INDEX) tg_str_puts(out, ")");
  }
}

/* ---- expressions ---- */

static bool is_negative(const tg_uop *c) {
  if (!tg_is_float(c->type)) return c->arg < 0 && c->type != TG_U64 && c->type != TG_BOOL;
  return !isinf(tg_const_value(c)) && signbit(tg_const_value(c));
}

static int precedence(const tg_uop *u) {
  switch (u->op) {
  case TG_OP_OR: return P_OR;
  case TG_OP_XOR: return P_XOR;
  case TG_OP_AND: return P_AND;
  case TG_OP_EQ: case TG_OP_NE: return P_EQUAL;
  case TG_OP_LT: case TG_OP_LE: return P_COMPARE;
  case TG_OP_SHL: case TG_OP_SHR: return P_SHIFT;
  case TG_OP_ADD: case TG_OP_SUB: return P_ADD;
  case TG_OP_MUL: case TG_OP_FDIV: case TG_OP_IDIV: case TG_OP_MOD: return P_MUL;
  case TG_OP_NEG: case TG_OP_NOT: return P_UNARY;
  case TG_OP_LOAD: return u->arg & TG_GATED ? P_GATED : P_ATOM;
  case TG_OP_CONST: return is_negative(u) ? P_UNARY : P_ATOM;
  default: return P_ATOM;
  }
}

static uint32_t derived_lanes(const tg_uop *u) {
  uint32_t w = 1;
  for (uint32_t i = 0; i < u->n; i++) w = u->src[i]->lanes > w ? u->src[i]->lanes : w;
  return w;
}

/* True where no form of the language gives the very node back, so that the generic form must. */
static bool is_irregular(const tg_uop *u) {
  switch (u->op) {
  case TG_OP_CONST: return u->lanes != 1;
  case TG_OP_PARAM: case TG_OP_RANGE: case TG_OP_ARG: case TG_OP_GET: case TG_OP_DEFINE: case TG_OP_AFTER: return false;
  case TG_OP_LOAD: return (u->arg & ~(int64_t)TG_GATED) || u->lanes != derived_lanes(u);
  case TG_OP_REDUCE: return false;
  case TG_OP_IOTA: return u->type != TG_INDEX;
  case TG_OP_FOLD: return u->lanes != 1;
  case TG_OP_SHUFFLE:
    return u->arg || u->type != u->src[0]->type ||
           u->lanes != (u->src[1]->op == TG_OP_RANGE && u->src[0]->lanes > u->src[2]->lanes ? u->src[0]->lanes
                                                                                            : u->src[2]->lanes);
  case TG_OP_PREFETCH: return false;
  case TG_OP_AHEAD: return u->arg || u->type != u->src[0]->type || u->lanes != u->src[0]->lanes;
  case TG_OP_MATRIX: return u->type != u->src[2]->type || u->lanes != u->src[2]->lanes;
  case TG_OP_NEG: case TG_OP_NOT: case TG_OP_CAST: case TG_OP_BITCAST:
    if (u->src[0]->op == TG_OP_CONST && u->src[0]->lanes == 1) return true;   /* would read as a literal */
    if (u->op == TG_OP_CAST && u->type == TG_INDEX && tg_is_float(u->src[0]->type)) return true;
    break;
  case TG_OP_FDIV: case TG_OP_IDIV:   /* one sign for both */
    if (tg_is_float(u->type) != (u->op == TG_OP_FDIV)) return true;
    break;
  default: break;
  }
  if (!(tg_ops[u->op].flags & TG_OPF_W) || u->lanes != derived_lanes(u) || u->arg) return true;
  if (u->op == TG_OP_CAST || u->op == TG_OP_BITCAST) return false;
  if (tg_ops[u->op].flags & TG_OPF_B) return u->type != TG_BOOL;
  return u->type != u->src[u->n - 1]->type;
}

static void later(tg_printer *p, tg_print_piece x) { tg_push(&p->j->env, &p->stack, x); }
static void later_text(tg_printer *p, const char *text) { later(p, (tg_print_piece){.kind = X_TEXT, .text = text}); }
static void later_node(tg_printer *p, const tg_uop *u, int prec) {
  later(p, (tg_print_piece){.kind = X_NODE, .prec = (uint8_t)prec, .u = u});
}

/* Pieces are pushed in the order of the text and turned round at the end of each node. */
static void turn(tg_printer *p, uint32_t from) {
  for (uint32_t a = from, b = p->stack.n; a + 1 < b; a++) {
    tg_print_piece x = p->stack.data[a];
    p->stack.data[a] = p->stack.data[--b];
    p->stack.data[b] = x;
  }
}

static void later_list(tg_printer *p, const tg_uop *const *u, uint32_t n, const char *open, const char *close) {
  later_text(p, open);
  for (uint32_t i = 0; i < n; i++) {
    if (i) later_text(p, ", ");
    later_node(p, u[i], P_GATED);
  }
  later_text(p, close);
}

static void later_reduce(tg_printer *p, const tg_uop *u) {
  tg_reduce_arg a = tg_reduce_info(u);
  const char *name = "reduce";
  if (!a.generic)
    switch (a.op) {
    case TG_OP_ADD: name = a.in_order ? "sum_in_order" : "sum"; break;
    case TG_OP_MUL: name = a.in_order ? "prod_in_order" : "prod"; break;
    case TG_OP_MAX: name = "max"; break;
    case TG_OP_MIN: name = "min"; break;
    case TG_OP_AND: name = "all"; break;
    case TG_OP_OR: name = "any"; break;
    default: tg_bug(&p->j->env, "a reduction by %s", tg_ops[a.op].name);
    }
  later_text(p, name);
  later_text(p, "(");
  for (uint32_t i = 0; i < a.ranges; i++) later(p, (tg_print_piece){.kind = X_RANGE, .u = tg_reduce_ranges(u)[i]});
  if (!a.generic) {
    later(p, (tg_print_piece){.kind = X_LETS, .u = u});
    later_node(p, u->src[0], P_GATED);
  } else {
    uint32_t nv = a.values;
    later_text(p, "(");
    for (uint32_t i = 0; i < nv; i++) later_text(p, tg_format(&p->j->env, "%s%sv%u", i ? ", " : "", p->own, i));
    later_list(p, u->src + nv, nv, ") = (", "), ");
    later(p, (tg_print_piece){.kind = X_LETS, .u = u});
    later_list(p, u->src, nv, "(", "), ");
    later(p, (tg_print_piece){.kind = X_ARGS, .u = u});
    later_list(p, u->src + 2 * nv, nv, "(", ")");
    later(p, (tg_print_piece){.kind = X_ARGS_END, .u = p->combiner});
  }
  later(p, (tg_print_piece){.kind = X_UNBIND, .u = u});
  later_text(p, ")");
}

static void later_access(tg_printer *p, const tg_uop *u) {
  later_text(p, tg_print_buffer_name(p, u->src[0]));
  if (tg_access_rank(u)) later_list(p, u->src + 1, tg_access_rank(u), "[", "]");
}

static void later_load(tg_printer *p, const tg_uop *u) {
  later_access(p, u);
  if (!tg_gate(u)) return;
  if (!is_in_bounds_gate(u)) {
    bool load = tg_gate(u)->op == TG_OP_LOAD; /* the `else` behind it is not its own */
    later_text(p, load ? " if (" : " if ");
    later_node(p, tg_gate(u), P_ATOM);
    if (load) later_text(p, ")");
  }
  later_text(p, " else ");
  later_node(p, tg_alternative(u), P_ATOM);
}

static void later_binary(tg_printer *p, const tg_uop *u, int prec) {
  bool chain = prec == P_COMPARE || prec == P_EQUAL;   /* a < b < c would be a chain */
  for (int i = 0; i < 2; i++) {
    const tg_uop *s = u->src[i], *other = u->src[!i];
    if (i) later_text(p, tg_format(&p->j->env, " %s ", tg_ops[u->op].text));
    bool bare = s->op == TG_OP_CONST && other->op != TG_OP_CONST && s->type == other->type;
    later(p, (tg_print_piece){.kind = X_NODE,
                              .prec = (uint8_t)(prec + (i || chain) + (chain && prec == P_EQUAL)),
                              .bare = bare,
                              .u = s});
  }
}

static void later_generic(tg_printer *p, const tg_uop *u) {
  later_text(p, tg_ops[u->op].name);
  later_list(p, u->src, u->n, "(", ")");
  later_text(p, tg_format(&p->j->env, "{%lld}:%s[%u]", (long long)u->arg, tg_type_name[u->type], u->lanes));
}

static void later_function(tg_printer *p, const tg_uop *u) {
  switch (u->op) {
  case TG_OP_CAST: later_text(p, tg_type_name[u->type]); break;
  case TG_OP_BITCAST:
    later_text(p, tg_format(&p->j->env, "bitcast(%s", tg_type_name[u->type]));
    later_list(p, u->src, 1, ", ", ")");
    return;
  case TG_OP_FOLD: {
    static const char *const names[] = {[TG_OP_ADD] = "add", [TG_OP_MUL] = "mul", [TG_OP_MAX] = "max",
                                        [TG_OP_MIN] = "min", [TG_OP_AND] = "and", [TG_OP_OR] = "or"};
    const char *name = u->arg >= 0 && u->arg < (int64_t)TG_COUNT(names) ? names[u->arg] : NULL;
    tg_assert(&p->j->env, name != NULL);
    later_text(p, tg_format(&p->j->env, "fold(%s", name));
    later_list(p, u->src, 1, ", ", ")");
    return;
  }
  case TG_OP_PREFETCH:
    later_text(p, "prefetch(");
    later_access(p, u);
    later_text(p, u->arg & TG_PREFETCH_L2 ? ", l2" : ", l1");
    later_text(p, u->arg & TG_PREFETCH_WRITE ? ", rw)" : ")");
    return;
  case TG_OP_MATRIX:
    later_text(p, tg_format(&p->j->env, "matrix(%s", tg_matrix_name(p->j, u)));
    later_list(p, u->src, u->n, ", ", ")");
    return;
  default: later_text(p, tg_ops[u->op].text);
  }
  later_list(p, u->src, u->n, "(", ")");
}

static void put_leaf(tg_printer *p, const tg_uop *u, bool bare) {
  tg_str *out = p->out;
  switch (u->op) {
  case TG_OP_CONST: put_const(out, u, bare); break;
  case TG_OP_PARAM:
    tg_str_puts(out, p->j->params.data[u->arg].name);
    if (u->type != TG_INDEX) tg_str_printf(out, ".%s", tg_type_name[u->type]);
    break;
  case TG_OP_RANGE: tg_str_puts(out, tg_print_range_name(p, u)); break;
  case TG_OP_DEFINE: case TG_OP_AFTER: tg_str_puts(out, tg_print_buffer_name(p, u)); break;
  case TG_OP_IOTA: tg_str_printf(out, "iota(%u)", u->lanes); break;
  default: { /* ARG */
    uint32_t nv = p->combiner ? tg_reduce_info(p->combiner).values : 0;
    if (!nv) tg_str_printf(out, "$%lld", (long long)u->arg);
    else
      tg_str_printf(out, u->arg < nv ? "%sa%lld" : "%sb%lld", p->own, (long long)(u->arg < nv ? u->arg : u->arg - nv));
  }
  }
}

static void put_node(tg_printer *p, const tg_print_piece *x) {
  const tg_uop *u = x->u;
  if (p->lets && x->kind == X_NODE && p->notes[u->id].name) {
    tg_str_printf(p->out, "%%%u", p->notes[u->id].name - 1);
    return;
  }
  bool generic = is_irregular(u);
  if (!generic && (is_leaf(u) || u->op == TG_OP_IOTA || u->op == TG_OP_DEFINE)) {
    bool wrap = precedence(u) < x->prec;
    if (wrap) tg_str_puts(p->out, "(");
    put_leaf(p, u, x->bare);
    if (wrap) tg_str_puts(p->out, ")");
    return;
  }
  int prec = generic ? P_ATOM : precedence(u);
  uint32_t from = p->stack.n;
  if (prec < x->prec) later_text(p, "(");
  if (generic) later_generic(p, u);
  else if (u->op == TG_OP_REDUCE) later_reduce(p, u);
  else if (u->op == TG_OP_LOAD) later_load(p, u);
  else if (u->op == TG_OP_GET) {
    later_text(p, "get(");
    later_node(p, u->src[0], P_GATED);
    later_text(p, tg_format(&p->j->env, ", %lld)", (long long)u->arg));
  } else if (prec == P_UNARY) {
    later_text(p, tg_ops[u->op].text);
    later_node(p, u->src[0], P_ATOM);
  } else if (prec != P_ATOM) later_binary(p, u, prec);
  else later_function(p, u);
  if (prec < x->prec) later_text(p, ")");
  turn(p, from);
}

static void put_range(tg_printer *p, const tg_uop *r) {
  uint32_t o = tg_range_ordinal(r), from = p->stack.n;
  if (p->lets) p->range_name[o] = tg_print_bind_range(p, r);
  tg_str_printf(p->out, "%s : ", tg_print_range_name(p, r));
  later_node(p, tg_extent(r), P_GATED);
  if (tg_range_kind(r) != TG_REDUCE) later_text(p, tg_format(&p->j->env, " %s", tg_kind_name[tg_range_kind(r)]));
  later_text(p, ", ");
  turn(p, from);
}


bool tg_print_wants_let(const tg_printer *p, const tg_uop *u) {
  const tg_print_note *n = &p->notes[u->id];
  return n->stamp == p->epoch && n->uses > 1 && !n->name && !is_leaf(u) && u->op != TG_OP_IOTA &&
         u->op != TG_OP_DEFINE && u->type != TG_VOID;
}

/* Shared nodes whose innermost reduction is this one, sources first. Nodes that do not use its ranges cannot hold
 * any. */
static void later_lets(tg_printer *p, const tg_uop *reduce) {
  tg_job *j = p->j;
  uint32_t height = p->notes[reduce->id].height, values = tg_reduce_info(reduce).values, from = p->stack.n;
  uint64_t bit = (uint64_t)1 << height;
  TG_VEC(frame) stack = {0};
  TG_VEC(const tg_uop *) found = {0};
  p->visits++;
  tg_push(&j->env, &p->marks, p->named.n);
  for (uint32_t v = 0; v < values; v++) tg_push(&j->env, &stack, ((frame){reduce->src[values - 1 - v], 0}));
  while (stack.n) {
    frame *f = &stack.data[stack.n - 1];
    tg_print_note *n = &p->notes[f->u->id];
    if (!f->next && (n->name || n->stamp != p->epoch || !(n->bound & bit) || n->visited == p->visits)) {
      stack.n--;
      continue;
    }
    if (f->next < child_count(f->u)) {
      const tg_uop *s = child(f->u, f->next++);
      if (s) tg_push(&j->env, &stack, ((frame){s, 0}));
      continue;
    }
    n->visited = p->visits;
    if ((n->bound & (0 - n->bound)) == bit && tg_print_wants_let(p, f->u)) tg_push(&j->env, &found, f->u);
    stack.n--;
  }
  for (uint32_t i = 0; i < found.n; i++) {
    uint32_t number = p->names++;
    later_text(p, tg_format(&j->env, "let %%%u = ", number));
    later(p, (tg_print_piece){.kind = X_INLINE, .prec = P_GATED, .u = found.data[i]});
    later(p, (tg_print_piece){.kind = X_NAME, .number = number + 1, .u = found.data[i]});
    later_text(p, "; ");
  }
  turn(p, from);
}

static void run(tg_printer *p) {
  while (p->stack.n) {
    if (p->limit && p->out->n > p->limit) {
      tg_str_puts(p->out, "..");
      p->stack.n = 0;
      return;
    }
    tg_print_piece x = p->stack.data[--p->stack.n];
    switch ((piece_kind)x.kind) {
    case X_TEXT: tg_str_puts(p->out, x.text); break;
    case X_NODE: case X_INLINE: put_node(p, &x); break;
    case X_RANGE: put_range(p, x.u); break;
    case X_LETS:
      if (p->lets) later_lets(p, x.u);
      break;
    case X_NAME:
      p->notes[x.u->id].name = x.number;
      tg_push(&p->j->env, &p->named, x.u);
      break;
    case X_ARGS: {
      uint32_t nv = tg_reduce_info(x.u).values;
      for (int side = 0; side < 2; side++) {
        for (uint32_t i = 0; i < nv; i++) tg_str_printf(p->out, "%s%s%c%u", i ? ", " : "(", p->own, "ab"[side], i);
        tg_str_puts(p->out, side ? ") -> " : "), ");
      }
      p->combiner = x.u;
      break;
    }
    case X_ARGS_END: p->combiner = x.u; break;
    case X_UNBIND:
      if (!p->lets) break;
      tg_print_unbind(p, p->scope.n - tg_reduce_info(x.u).ranges);
      for (uint32_t mark = p->marks.data[--p->marks.n]; p->named.n > mark;)
        p->notes[p->named.data[--p->named.n]->id].name = 0;
      break;
    }
  }
}

void tg_print_put(tg_printer *p, const tg_uop *u, int prec) {
  later_node(p, u, prec);
  run(p);
}

void tg_print_put_list(tg_printer *p, const tg_uop *const *u, uint32_t n, const char *open, const char *close) {
  uint32_t from = p->stack.n;
  later_list(p, u, n, open, close);
  turn(p, from);
  run(p);
}

void tg_print_put_whole(tg_printer *p, const tg_uop *u) {
  later(p, (tg_print_piece){.kind = X_INLINE, .prec = P_GATED, .u = u});
  run(p);
}
