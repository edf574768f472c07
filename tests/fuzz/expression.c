/* SPDX-License-Identifier: MIT
 * Expressions: inputs whose dimensions are made to fit the subscripts, earlier outputs, reductions, and all ops. In
 * EXACT programs each result carries a bound; one that could pass what its type holds exactly is taken back. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include "grammar.h"

const char *const type_name[] = {"f32", "f64", "f16", "bf16", "i32", "u8", "i64", "i16", "u32", "i8", "u64", "u16", "bool"};

bool is_float(type t) { return t <= BF16; }

double limit_of(const gen *g, type t) {
  static const double most[] = {1 << 23, 1e15, 1 << 10, 1 << 7};
  return g->p->mode != FUZZ_EXACT ? 1e300 : is_float(t) ? most[t] : 1e9;
}

/* ---- subscripts: an affine expression of one or two open ranges, and a dimension that it cannot leave ---- */

typedef struct { char index[160], dim[48], guard[64]; bool gated; } subscript;

static const range *some_range(gen *g) { return &g->open[g->n_open - 1 - (int)draw(g, (uint32_t)g->n_open)]; }

static void choose_subscript(gen *g, subscript *s, bool plain) {
  const range *r = some_range(g), *q = some_range(g);
  *s = (subscript){0};
  snprintf(s->index, sizeof s->index, "%s", r->name);
  snprintf(s->dim, sizeof s->dim, "%s", r->dim);
  uint32_t k = draw(g, plain ? 8 : 20);
  out o = {s->index, s->index + sizeof s->index}, d = {s->dim, s->dim + sizeof s->dim};
  switch (k) {
  case 3: put(&o, "%s + 2", r->name), put(&d, "%s + 2", r->dim); break;
  case 4: put(&o, "%s - 1 - %s", r->dim, r->name); break;
  case 5: put(&o, "2*%s + 1", r->name), put(&d, "2*%s", r->dim); break;
  case 6:
    if (r == q || r->value + q->value > 70) break;
    has(g, FUZZ_window);
    put(&o, "%s + %s", r->name, q->name), put(&d, "%s + %s", r->dim, q->dim);
    break;
  case 7:
    if (strcmp(r->extent, r->dim)) break; /* the prover does not see that a quotient is monotone in r and the extent at once */
    put(&o, "%s/3", r->name), put(&d, "(%s + 2)/3", r->dim);
    break;
  case 8: case 9: s->gated = true, put(&o, "%s - 1", r->name); break;
  case 10: put(&o, "%s%%4", r->name), put(&d, "4"); break;
  case 11: put(&o, "max(%s - 1, 0)", r->name); break;
  case 12: put(&o, "1"), put(&d, "2"); break;
  case 13:
    if (r == q || r->value * q->value > 600) break;
    has(g, FUZZ_flat);
    put(&o, "%s*%s + %s", r->name, q->dim, q->name), put(&d, "%s*%s", r->dim, q->dim);
    break;
  case 14: snprintf(s->guard, sizeof s->guard, "%s >= 1", r->name), put(&o, "%s - 1", r->name); break;
  case 15: snprintf(s->guard, sizeof s->guard, "%s + 2 < %s", r->name, r->dim), put(&o, "%s + 2", r->name); break;
  case 16: case 17:
    has(g, FUZZ_gather);
    put(&d, k == 16 ? "5" : "9");
    if (!index_load(g, &o, s->dim, true)) put(&o, "2");
    break;
  case 18:
    has(g, FUZZ_unsure_gather);
    s->gated = index_load(g, &o, "", false);
    if (!s->gated) put(&o, "%s", r->name);
    break;
  case 19: s->gated = true, put(&o, "%s + 3", r->name); break;
  }
}

/* ---- loads ---- */

static buffer *input_for(gen *g, type t, int rank, char dims[IN_RANK][48], const char *promise) {
  for (int i = 0; i < g->n_in; i++) {
    buffer *b = &g->in[i];
    bool same = b->rank == rank && b->t == t && !strcmp(b->promise, promise);
    for (int d = 0; d < rank && same; d++) same = !strcmp(b->dims[d], dims[d]);
    if (same) return b;
  }
  if (g->n_in == INS) return NULL;
  buffer *b = &g->in[g->n_in];
  *b = (buffer){.t = t, .rank = rank, .size = 4};
  snprintf(b->name, sizeof b->name, "x%d", g->n_in++);
  snprintf(b->promise, sizeof b->promise, "%s", promise);
  memcpy(b->dims, dims, sizeof *dims * IN_RANK);
  if (rank == 2 && draw(g, 6) == 5) {
    has(g, FUZZ_strided);
    out w = {b->strides, b->strides + sizeof b->strides};
    if (draw(g, 2)) put(&w, ", [1, %s + 1]", b->dims[0]);
    else put(&w, ", [%s + 3, 1]", b->dims[1]);
  }
  return b;
}

bool index_load(gen *g, out *o, const char *dim, bool promised) {
  char dims[IN_RANK][48] = {{0}}, promise[48] = "";
  const range *r = some_range(g);
  snprintf(dims[0], 48, "%s + 1", r->dim);
  if (promised) snprintf(promise, sizeof promise, " in 0..%.30s - 1", dim);
  buffer *b = input_for(g, promised || draw(g, 2) ? I32 : I16, 1, dims, promise);
  if (b) put(o, "%s[%s]", b->name, r->name);
  return b != NULL;
}

static bool load_pool(gen *g, out *o, type t, const buffer *pool, int n, double *size) {
  if (!n) return false;
  const buffer *b = &pool[draw(g, (uint32_t)n)];
  if (b->t != t || b->unread) return false;
  char text[256];
  out w = {text, text + sizeof text};
  put(&w, "%s[", b->name);
  for (int d = 0; d < b->rank; d++) {
    int i = g->n_open - 1;
    while (i >= 0 && strcmp(g->open[i].dim, b->dims[d])) i--;
    if (i < 0) return false;
    put(&w, "%s%s", d ? ", " : "", g->open[i].name);
  }
  if (!b->rank) return false;
  put(o, "%s]", text);
  *size = b->size;
  return true;
}

static double load(gen *g, out *o, type t) {
  double size = 4;
  if (g->threads && load_tile(g, o, t, &size)) return size;
  if (g->threads && load_shuffled(g, o, t, &size)) return size;
  uint32_t what = draw(g, 6);
  if (g->threads && what > 3) what = g->own ? 0 : 4;
  if (what == 4 && load_pool(g, o, t, g->done, g->n_done, &size)) return size;
  if (what == 5 && load_pool(g, o, t, g->tile, g->n_tile, &size)) return size;
  subscript s[3];
  char dims[IN_RANK][48] = {{0}}, guard[IN_RANK][64];
  bool gated = false;
  int rank = 1 + (int)draw(g, 6) / 2, guards = 0;
  for (int d = 0; d < rank; d++) {
    choose_subscript(g, &s[d], d > 1);
    memcpy(dims[d], s[d].dim, 48);
    gated |= s[d].gated;
    if (s[d].guard[0]) strcpy(guard[guards++], s[d].guard);
  }
  const buffer *b = g->n_open ? input_for(g, t, rank, dims, "") : NULL;
  if (!b) {
    if (t == BOOL) put(o, "true");
    else put(o, "%s(%d)", type_name[t], 1 + (int)draw(g, 3));
    return 4;
  }
  if (t == BOOL) has(g, FUZZ_bool_input);
  if (guards) has(g, FUZZ_guarded), put(o, "where(");
  for (int i = 0; i < guards; i++) put(o, "%s%s", i ? " & " : "", guard[i]);
  if (guards) put(o, ", ");
  put(o, gated ? "(%s[" : "%s[", b->name);
  for (int d = 0; d < rank; d++) put(o, "%s%s", d ? ", " : "", s[d].index);
  put(o, "]");
  if (gated) {
    put(o, " else ");
    const range *r = some_range(g);
    bool value = draw(g, 3) == 2 && t != BOOL;
    if (value) has(g, FUZZ_else_value);
    if (value && is_float(t)) put(o, "%s(%s %% 5)", type_name[t], r->name);
    else if (value) put(o, "%s(%s)", type_name[t], r->name);
    else if (t == BOOL) put(o, "false");
    else put(o, "%s(%d)", type_name[t], (int)draw(g, 3));
    put(o, ")");
    size = value ? 64 : 4;
  }
  if (guards && t == BOOL) put(o, ", false)");
  else if (guards) put(o, ", %s(%d))", type_name[t], (int)draw(g, 3));
  return size;
}

/* A value of type t from an input of that type, or of another, converted. */
double leaf(gen *g, out *o, type t) {
  static const type to_float[] = {F32, F16, BF16, F64, I8, I16, I32, BOOL}, to_int[] = {I32, U8, I64, I16, U32, I8, U64, U16, BOOL, F32};
  if (t == BOOL || draw(g, 4) < 3) return load(g, o, t);
  type from = is_float(t) ? to_float[draw(g, 8)] : to_int[draw(g, 10)];
  if (from == t) return load(g, o, t);
  has(g, FUZZ_cast);
  if (from == F64) has(g, FUZZ_f64);
  if (from == F16 || from == BF16) has(g, FUZZ_half);
  if (from == BOOL) {
    put(o, "where("), load(g, o, BOOL), put(o, ", %s(1), %s(0))", type_name[t], type_name[t]);
    return 1;
  }
  put(o, "%s(", type_name[t]);
  double size = load(g, o, from);
  put(o, ")");
  return size;
}

/* ---- reductions ---- */

static void open_reduce(gen *g, out *o) {
  range *r = open_range(g, 'k');
  choose_extent(g, r, true);
  bool uniform = true;
  for (int i = 0; i < g->n_open; i++) uniform &= !g->open[i].lockstep;
  if (draw(g, 8) == 7 && uniform) { /* as many as memory says */
    char text[128];
    out w = {text, text + sizeof text};
    g->n_open--;
    if (g->n_open && index_load(g, &w, r->dim, true) && (size_t)(w.at - text) < sizeof r->extent) {
      has(g, FUZZ_csr);
      g->n_open++;
      strcpy(r->extent, text);
      r->constant = false;
    } else g->n_open++;
  }
  static const char *const kinds[] = {"", "", "", "", "", " upcast", " unroll", " lane"};
  static const char *const thread_kinds[] = {"", "", " local", " lane", " group", " upcast", " lane", " unroll"};
  const char *kind = (g->threads ? thread_kinds : kinds)[draw(g, 8)];
  if (!r->constant) kind = "";
  if (*kind) has(g, FUZZ_reduce_kind);
  r->lockstep = *kind && kind[2] != 'n';
  put(o, "%s : %s%s, ", r->name, r->extent, kind);
}

static int64_t open_reduces(gen *g, out *o) {
  int64_t before = g->work;
  if (g->reduces++) has(g, FUZZ_nested_reduce);
  open_reduce(g, o);
  if (draw(g, 4) == 3) open_reduce(g, o);
  return before > 0 ? g->work / before : g->work;
}

static double reduction(gen *g, out *o, type t) {
  int before = g->n_open;
  int64_t work = g->work;
  double size = 1, times;
  bool half = t == F16 || t == BF16;
  g->depth++;
  switch (draw(g, g->p->mode == FUZZ_INTEGER ? 9 : 8)) {
  case 0: case 1: case 2:
    if (half) put(o, "%s(", type_name[t]);
    put(o, "sum("), times = (double)open_reduces(g, o);
    if (half) put(o, "f32(");
    size = times * expression(g, o, t);
    put(o, half ? ")))" : ")");
    break;
  case 3: put(o, "max("), open_reduces(g, o), size = expression(g, o, t), put(o, ")"); break;
  case 4: put(o, "min("), open_reduces(g, o), size = expression(g, o, t), put(o, ")"); break;
  case 5:
    has(g, FUZZ_in_order);
    if (half) put(o, "%s(", type_name[t]);
    put(o, "sum_in_order("), times = (double)open_reduces(g, o);
    if (half) put(o, "f32(");
    size = times * expression(g, o, t);
    put(o, half ? ")))" : ")");
    break;
  case 6: {
    has(g, FUZZ_argmax);
    put(o, "%s(%s(", type_name[t], draw(g, 2) ? "argmax" : "argmin");
    range *r = open_range(g, 'k');
    choose_extent(g, r, false);
    put(o, "%s : %s, ", r->name, r->extent), leaf(g, o, t), put(o, "))");
    size = 1e10;
    if (r->constant) size = r->value;
    break;
  }
  case 7:
    has(g, FUZZ_any_all);
    put(o, "where(%s(", draw(g, 2) ? "any" : "all"), open_reduces(g, o), condition(g, o);
    put(o, "), %s(2), %s(1))", type_name[t], type_name[t]);
    size = 2;
    break;
  case 8: put(o, "prod("), open_reduces(g, o), expression(g, o, t), put(o, ")"); break;
  }
  g->depth--;
  g->reduces = g->reduces > 0 ? g->reduces - 1 : 0;
  close_ranges(g, before);
  g->work = work;
  return size;
}

/* ---- conditions ---- */

void condition(gen *g, out *o) {
  const range *r = some_range(g);
  has(g, FUZZ_condition);
  switch (draw(g, 9)) {
  case 0: put(o, "%s < %d", r->name, r->value / 2); break;
  case 1: put(o, "%s %% 2 == 0", r->name); break;
  case 2: put(o, "%s + 1 < %s", r->name, r->dim); break;
  case 3: put(o, "!(%s == 1)", r->name); break;
  case 4: put(o, "1 <= %s < %d", r->name, r->value - 1); break;
  case 5: leaf(g, o, BOOL); break;
  case 6: leaf(g, o, BOOL), put(o, draw(g, 2) ? " | " : " & "), put(o, "%s <= 2", r->name); break;
  case 7: leaf(g, o, I16), put(o, draw(g, 2) ? " != " : " < "), leaf(g, o, I16); break;
  default: leaf(g, o, g->main), put(o, " <= "), leaf(g, o, g->main);
  }
}

/* ---- ops ---- */

static double larger(double a, double b) { return a > b ? a : b; }

static double binary(gen *g, out *o, type t, const char *op) {
  put(o, "(");
  double a = expression(g, o, t);
  put(o, " %s ", op);
  a += expression(g, o, t);
  put(o, ")");
  return a;
}

static double call(gen *g, out *o, type t, const char *name, int n) {
  double size = 0;
  put(o, "%s(", name);
  for (int i = 0; i < n; i++) {
    if (i) put(o, ", ");
    size = larger(size, expression(g, o, t));
  }
  put(o, ")");
  return size;
}

static double common(gen *g, out *o, type t) {
  double a, b;
  const range *r = some_range(g);
  switch (draw(g, 16)) {
  default: return leaf(g, o, t);
  case 2: case 3: return binary(g, o, t, "+");
  case 4: case 5:
    put(o, "("), a = leaf(g, o, t), put(o, " * "), b = leaf(g, o, t), put(o, ")");
    return a * b;
  case 6: return binary(g, o, t, "-");
  case 7: return call(g, o, t, draw(g, 2) ? "max" : "min", 2);
  case 8:
    put(o, "where("), condition(g, o), put(o, ", "), a = expression(g, o, t), put(o, ", "), b = expression(g, o, t), put(o, ")");
    return larger(a, b);
  case 9: return call(g, o, t, "abs", 1);
  case 10: case 11: case 12: return g->depth < 4 && g->reduces < 2 && g->work < 3000 ? reduction(g, o, t) : leaf(g, o, t);
  case 13: put(o, "%s(%s)", type_name[t], r->name); return r->value;
  case 14: put(o, "(-"), a = leaf(g, o, t), put(o, ")"); return a;
  }
}

static double convert(gen *g, out *o, type t) {
  static const type via_float[] = {F64, F32, F16, BF16, I32, I8, I64, F64}, via_int[] = {I64, I8, U8, I16, U32, U64, F32, F64};
  type via = is_float(t) ? via_float[draw(g, 8)] : via_int[draw(g, 8)];
  has(g, FUZZ_convert);
  if (via == F64) has(g, FUZZ_f64);
  if (g->p->mode == FUZZ_RANDOM && via != F64) g->p->wide[0] = 1;
  put(o, "%s(%s(", type_name[t], type_name[via]);
  double size = expression(g, o, t);
  put(o, "))");
  return size > (via == I8 ? 127 : limit_of(g, via)) ? 1e300 : size;
}

static double integer_expression(gen *g, out *o, type t) {
  static const char *const ops[] = {"*", "&", "|", "^", "/", "%", "<<", ">>"};   /* the last four take constants too */
  uint32_t k = draw(g, 22);
  switch (k) {
  default: return common(g, o, t);
  case 8: case 9: case 10: case 11: case 12: case 13: return binary(g, o, t, ops[k - 8]);
  case 14: case 15: has(g, FUZZ_shift); return binary(g, o, t, ops[k - 8]);
  case 16: return call(g, o, t, draw(g, 2) ? "cdiv" : "cmod", 2);
  case 17: {
    char text[2048];
    out w = {text, text + sizeof text};
    uint32_t self = draw(g, 5);
    leaf(g, &w, t);
    if (!self) put(o, "(!%s)", text);
    else put(o, "(%s %c %s)", text, "-%/^"[self - 1], text);
    return 1;
  }
  case 18: {
    static const type twin[] = {F64, F32, F16, BF16, U32, I8, U64, U16, I32, U8, I64, I16};
    has(g, FUZZ_bitcast);
    put(o, "bitcast(%s, ", type_name[t]), expression(g, o, twin[t]), put(o, ")");
    return 1;
  }
  case 19:
    has(g, FUZZ_big_constant);
    put(o, "(");
    expression(g, o, t);
    int bits = t == U8 || t == I8 ? 7 : t == I16 || t == U16 ? 15 : t == I32 || t == U32 ? 31 : 63;
    put(o, " %s %s(%llu))", draw(g, 2) ? "+" : "*", type_name[t], ((unsigned long long)1 << bits) - 1 - draw(g, 3));
    return 1;
  case 20: return convert(g, o, t);
  case 21: put(o, "("), expression(g, o, t), put(o, " %s %s(%d))", ops[4 + draw(g, 4)], type_name[t], (int)draw(g, 9)); return 1;
  }
}

static double random_expression(gen *g, out *o, type t) {
  static const char *const any[] = {"sin", "cos", "erf", "floor", "round", "trunc", "ceil", "tanh"};
  uint32_t k = draw(g, 20);
  if (k >= 9) has(g, FUZZ_function);
  switch (k) {
  default: return k > 10 ? (convert(g, o, t)) : common(g, o, t);
  case 8: return binary(g, o, t, "*");
  case 9: put(o, "exp(min("), expression(g, o, t), put(o, ", %s(2)))", type_name[t]); return 1;
  case 10: put(o, "("), expression(g, o, t), put(o, " / (%s(2) + abs(", type_name[t]), leaf(g, o, t), put(o, ")))"); return 1;
  case 11: return call(g, o, t, any[draw(g, 8)], 1);
  case 12: put(o, "sqrt(abs("), expression(g, o, t), put(o, "))"); return 1;
  case 13: return call(g, o, t, "fma", 3);
  case 14: put(o, draw(g, 2) ? "log2(%s(1) + abs(" : "log(%s(1) + abs(", type_name[t]), expression(g, o, t), put(o, "))"); return 1;
  case 15: put(o, "exp2(min("), expression(g, o, t), put(o, ", %s(3)))", type_name[t]); return 1;
  case 16: put(o, "rsqrt(%s(1) + abs(", type_name[t]), expression(g, o, t), put(o, "))"); return 1;
  case 17: put(o, "pow(%s(1) + abs(", type_name[t]), leaf(g, o, t), put(o, "), "), leaf(g, o, t), put(o, ")"); return 1;
  case 18: return binary(g, o, t, "*");
  }
}

double expression(gen *g, out *o, type t) {
  if (g->depth >= 5) return leaf(g, o, t);
  char *mark = o->at;
  double size;
  g->depth++;
  if (g->p->mode == FUZZ_INTEGER) size = integer_expression(g, o, t);
  else if (g->p->mode == FUZZ_RANDOM) size = random_expression(g, o, t);
  else size = draw(g, 12) == 11 ? convert(g, o, t) : common(g, o, t);
  g->depth--;
  if (size <= limit_of(g, t)) return size;
  o->at = mark;
  *mark = 0;
  return leaf(g, o, t);
}
