/* SPDX-License-Identifier: MIT
 * The generator. A program is one to three nests; each stores an output of its own completely, reads inputs whose
 * dimensions are made to fit the subscripts, and earlier outputs. Choice 0 is always the simplest, so cutting and
 * zeroing choices shrinks the program. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include "generate.h"

typedef struct { char *at, *end; } out;
typedef struct { char name[16], extent[16]; int value; bool reduce; } range; /* value: of the extent, at run time */
typedef struct { char name[16]; char dims[3][48]; int rank; } buffer;

typedef struct {
  fuzz_source *s;
  fuzz_program *p;
  range open[12];
  int n_open, n_names, n_opt_names;
  char opt_names[24][16];
  buffer in[FUZZ_BUFFERS], done[4], tile[4];
  int n_in, n_done, n_tile;
  int depth;
} gen;

static uint32_t draw(gen *g, uint32_t limit) {
  fuzz_source *s = g->s;
  if (limit <= 1) return 0;
  if (s->replay) return s->at < s->n ? s->choice[s->at++] % limit : 0;
  s->state ^= s->state << 13, s->state ^= s->state >> 7, s->state ^= s->state << 17;
  uint32_t v = (uint32_t)(s->state >> 33) % limit;
  if (s->n < FUZZ_CHOICES) s->choice[s->n++] = (uint8_t)v;
  s->at = s->n;
  return s->n < FUZZ_CHOICES ? v : 0;
}

__attribute__((format(printf, 2, 3))) static void put(out *o, const char *format, ...) {
  va_list ap;
  va_start(ap, format);
  int n = vsnprintf(o->at, (size_t)(o->end - o->at), format, ap);
  va_end(ap);
  o->at += n < o->end - o->at ? n : o->end - o->at - 1;
}

static void fresh(gen *g, char *name, char letter) { snprintf(name, 16, "%c%d", letter, g->n_names++); }

/* ---- ranges ---- */

static void choose_extent(gen *g, range *r) {
  static const int sizes[] = {3, 1, 2, 4, 5, 7, 8, 13, 16, 17, 19, 33};
  uint32_t k = draw(g, 16);
  if (k >= 14 && g->p->params) {
    int q = (int)draw(g, (uint32_t)g->p->params);
    snprintf(r->extent, sizeof r->extent, "P%d", q);
    r->value = (int)g->p->param[q];
  } else {
    r->value = sizes[k % 12];
    snprintf(r->extent, sizeof r->extent, "%d", r->value);
  }
}

static range *open_range(gen *g, bool reduce) {
  range *r = &g->open[g->n_open++];
  fresh(g, r->name, reduce ? 'k' : 'r');
  r->reduce = reduce;
  choose_extent(g, r);
  if (g->n_opt_names < 24) strcpy(g->opt_names[g->n_opt_names++], r->name);
  return r;
}

/* ---- subscripts: an affine expression of one open range, and a dimension that it cannot leave ---- */

static void subscript(gen *g, char *index, char *dim, size_t size, bool *gated) {
  const range *r = &g->open[g->n_open - 1 - (int)draw(g, (uint32_t)g->n_open)];
  const range *q = &g->open[g->n_open - 1 - (int)draw(g, (uint32_t)g->n_open)];
  switch (draw(g, 9)) {
  default: snprintf(index, size, "%s", r->name), snprintf(dim, 48, "%s", r->extent); break;
  case 3: snprintf(index, size, "%s + 2", r->name), snprintf(dim, 48, "%s + 2", r->extent); break;
  case 4: snprintf(index, size, "%s - 1 - %s", r->extent, r->name), snprintf(dim, 48, "%s", r->extent); break;
  case 5: snprintf(index, size, "2*%s + 1", r->name), snprintf(dim, 48, "2*%s", r->extent); break;
  case 6:
    if (r == q) snprintf(index, size, "%s", r->name), snprintf(dim, 48, "%s", r->extent);
    else snprintf(index, size, "%s + %s", r->name, q->name), snprintf(dim, 48, "%s + %s - 1", r->extent, q->extent);
    break;
  case 7: snprintf(index, size, "%s/3", r->name), snprintf(dim, 48, "(%s + 2)/3", r->extent); break;
  case 8: *gated = true, snprintf(index, size, "%s - 1", r->name), snprintf(dim, 48, "%s", r->extent); break;
  }
}

static const buffer *input_for(gen *g, int rank, char dims[3][48]) {
  for (int i = 0; i < g->n_in; i++) {
    buffer *b = &g->in[i];
    bool same = b->rank == rank;
    for (int d = 0; d < rank && same; d++) same = !strcmp(b->dims[d], dims[d]);
    if (same) return b;
  }
  if (g->n_in == 8) return NULL;
  buffer *b = &g->in[g->n_in];
  snprintf(b->name, sizeof b->name, "x%d", g->n_in++);
  b->rank = rank;
  memcpy(b->dims, dims, sizeof b->dims);
  return b;
}

static void load(gen *g, out *o) {
  char index[3][64], dims[3][48] = {{0}};
  bool gated = false;
  /* an earlier output or tile, read at full ranges of the same extents */
  uint32_t what = draw(g, 6);
  const buffer *pool = what == 4 ? g->done : g->tile;
  int n = what == 4 ? g->n_done : what == 5 ? g->n_tile : 0;
  if (n) {
    const buffer *b = &pool[draw(g, (uint32_t)n)];
    char text[256];
    out t = {text, text + sizeof text};
    put(&t, "%s[", b->name);
    bool ok = true;
    for (int d = 0; d < b->rank && ok; d++) {
      ok = false;
      for (int i = g->n_open - 1; i >= 0 && !ok; i--)
        if (!strcmp(g->open[i].extent, b->dims[d])) ok = true, put(&t, "%s%s", d ? ", " : "", g->open[i].name);
    }
    if (ok && b->rank) {
      put(o, "%s]", text);
      return;
    }
  }
  int rank = 1 + (int)draw(g, 3);
  for (int d = 0; d < rank; d++) subscript(g, index[d], dims[d], sizeof index[d], &gated);
  const buffer *b = input_for(g, rank, dims);
  if (!b) {
    put(o, "%s(%d)", g->p->type, 1 + (int)draw(g, 3));
    return;
  }
  put(o, gated ? "(%s[" : "%s[", b->name);
  for (int d = 0; d < rank; d++) put(o, "%s%s", d ? ", " : "", index[d]);
  put(o, gated ? "] else %s(%d))" : "]", g->p->type, (int)draw(g, 3));
}

/* ---- expressions ---- */

static void expression(gen *g, out *o);

static void condition(gen *g, out *o) {
  const range *r = &g->open[g->n_open - 1 - (int)draw(g, (uint32_t)g->n_open)];
  switch (draw(g, 4)) {
  case 0: put(o, "%s < %d", r->name, r->value / 2); break;
  case 1: put(o, "%s %% 2 == 0", r->name); break;
  case 2: put(o, "%s + 1 < %s", r->name, r->extent); break;
  default: load(g, o), put(o, " <= "), load(g, o);
  }
}

static void reduction(gen *g, out *o) {
  static const char *const any[] = {"sum", "max", "min", "prod"};
  uint32_t kind = draw(g, g->p->mode == FUZZ_INTEGER ? 4 : 3), two = draw(g, 4) == 3;
  put(o, "%s(", any[kind]);
  int before = g->n_open;
  for (uint32_t i = 0; i <= two; i++) {
    range *r = open_range(g, true);
    put(o, "%s : %s, ", r->name, r->extent);
  }
  g->depth++;
  expression(g, o);
  g->depth--;
  put(o, ")");
  g->n_open = before;
}

static void binary(gen *g, out *o, const char *op) {
  put(o, "(");
  expression(g, o);
  put(o, " %s ", op);
  expression(g, o);
  put(o, ")");
}

static void call(gen *g, out *o, const char *name, int n) {
  put(o, "%s(", name);
  for (int i = 0; i < n; i++) {
    if (i) put(o, ", ");
    expression(g, o);
  }
  put(o, ")");
}

/* Small integers stay exact in f32: products are of inputs only, and nests are shallow. */
static void exact_expression(gen *g, out *o) {
  switch (draw(g, 9)) {
  default: load(g, o); break;
  case 2: binary(g, o, "+"); break;
  case 3: put(o, "("), load(g, o), put(o, " * "), load(g, o), put(o, ")"); break;
  case 4: binary(g, o, "-"); break;
  case 5: call(g, o, draw(g, 2) ? "max" : "min", 2); break;
  case 6: put(o, "where("), condition(g, o), put(o, ", "), expression(g, o), put(o, ", "), expression(g, o), put(o, ")"); break;
  case 7: call(g, o, "abs", 1); break;
  case 8:
    if (g->depth < 2) reduction(g, o);
    else load(g, o);
  }
}

static void integer_expression(gen *g, out *o) {
  static const char *const ops[] = {"+", "-", "*", "&", "|", "^", "/", "%", "<<", ">>"};
  uint32_t k = draw(g, 14);
  if (k < 10 && k > 0) binary(g, o, ops[k]);
  else if (k == 10) binary(g, o, "+");
  else if (k == 11) call(g, o, draw(g, 2) ? "cdiv" : "cmod", 2);
  else exact_expression(g, o);
}

static void random_expression(gen *g, out *o) {
  switch (draw(g, 12)) {
  default: exact_expression(g, o); break;
  case 6: binary(g, o, "*"); break;
  case 7: put(o, "exp(min("), expression(g, o), put(o, ", %s(2)))", g->p->type); break;
  case 8: put(o, "("), expression(g, o), put(o, " / (%s(2) + abs(", g->p->type), load(g, o), put(o, ")))"); break;
  case 9: call(g, o, "tanh", 1); break;
  case 10: put(o, "sqrt(abs("), expression(g, o), put(o, "))"); break;
  case 11: call(g, o, "fma", 3); break;
  }
}

static void expression(gen *g, out *o) {
  if (g->depth >= 4) {
    load(g, o);
    return;
  }
  g->depth++;
  if (g->p->mode == FUZZ_EXACT) exact_expression(g, o);
  else if (g->p->mode == FUZZ_INTEGER) integer_expression(g, o);
  else random_expression(g, o);
  g->depth--;
}

/* ---- nests ---- */

static void open_loops(gen *g, out *o, int n) {
  static const char *const kinds[] = {"", "", "", "", "", ", global", ", upcast", ", thread"};
  for (int i = 0; i < n; i++) {
    range *r = open_range(g, false);
    const char *kind = kinds[draw(g, 8)];
    if (r->extent[0] == 'P' && strstr(kind, "upcast")) kind = "";
    if (i && strstr(kind, "thread")) kind = "";
    put(o, "range(%s, %s%s) ", r->name, r->extent, kind);
  }
}

static void nest(gen *g, out *o) {
  int before = g->n_open, tiles = g->n_tile;
  buffer *b = &g->done[g->n_done];
  snprintf(b->name, sizeof b->name, "y%d", g->n_done);
  b->rank = 1 + (int)draw(g, 3);
  bool flip = draw(g, 6) == 5;
  uint32_t form = draw(g, 5);
  int outer = form == 1 && b->rank > 1 ? b->rank - 1 : b->rank;
  put(o, "  ");
  open_loops(g, o, outer);
  put(o, "{\n");
  if (form == 1 && b->rank > 1) { /* a private tile, then the row */
    buffer *t = &g->tile[g->n_tile];
    fresh(g, t->name, 't');
    t->rank = 1;
    range *r = open_range(g, false);
    strcpy(t->dims[0], r->extent);
    put(o, "    define_reg(%s, %s, [%s]);\n    range(%s, %s) %s[%s] = ", t->name, g->p->type, r->extent, r->name, r->extent, t->name, r->name);
    expression(g, o);
    put(o, ";\n");
    g->n_tile++;
    range again = *r;
    fresh(g, again.name, 'r');
    g->open[g->n_open - 1] = again;
    if (g->n_opt_names < 24) strcpy(g->opt_names[g->n_opt_names++], again.name);
    put(o, "    range(%s, %s) ", again.name, again.extent);
  } else if (form == 2) { /* an accumulation in statements */
    char acc[16];
    fresh(g, acc, 'a');
    put(o, "    define_reg(%s, %s, []);\n    %s = ", acc, g->p->type, acc);
    load(g, o);
    int mark = g->n_open;
    range *r = open_range(g, false);
    put(o, ";\n    range(%s, %s) %s += ", r->name, r->extent, acc);
    g->depth = 2;
    expression(g, o);
    g->depth = 0;
    g->n_open = mark;
    put(o, ";\n    ");
    put(o, "let v%d = %s;\n    ", g->n_names, acc);
  } else put(o, "    ");
  char store[128];
  out t = {store, store + sizeof store};
  put(&t, "%s[", b->name);
  for (int d = 0; d < b->rank; d++) {
    const range *r = &g->open[before + d];
    strcpy(b->dims[d], r->extent);
    if (flip && d == b->rank - 1) put(&t, "%s%s - 1 - %s", d ? ", " : "", r->extent, r->name);
    else put(&t, "%s%s", d ? ", " : "", r->name);
  }
  put(o, "%s] = ", store);
  if (form == 2) put(o, "v%d + ", g->n_names++);
  expression(g, o);
  put(o, ";\n");
  if (form == 3) put(o, "    %s] += %s(1);\n", store, g->p->type);
  put(o, "  }\n");
  g->n_open = before;
  g->n_tile = tiles;
  g->n_done++;
}

static void choose_opts(gen *g, out *o) {
  int n = (int)draw(g, 5);
  for (int i = 0; i < n && g->n_opt_names && g->n_opt_names < 23; i++) {
    char r[16], a[16], b[16];
    strcpy(r, g->opt_names[draw(g, (uint32_t)g->n_opt_names)]);
    switch (draw(g, 10)) {
    case 0: case 1: case 2:
      fresh(g, a, 's'), fresh(g, b, 's');
      put(o, "opt(split %s %d as %s %s); ", r, 2 + (int)draw(g, 7), a, b);
      strcpy(g->opt_names[g->n_opt_names++], a);
      if (g->n_opt_names < 24) strcpy(g->opt_names[g->n_opt_names++], b);
      break;
    case 3: put(o, "opt(upcast %s); ", r); break;
    case 4: put(o, "opt(lane %s); ", r); break;
    case 5: put(o, "opt(unroll %s); ", r); break;
    case 6: put(o, "opt(thread %s); ", r); break;
    case 7: put(o, "opt(peel %s %s); ", r, draw(g, 2) ? "first" : "last"); break;
    case 8: put(o, "opt(order %s %s); ", r, g->opt_names[draw(g, (uint32_t)g->n_opt_names)]); break;
    case 9: fresh(g, a, 'S'), put(o, "opt(stage x%d at %s as %s); ", (int)draw(g, 3), r, a); break;
    }
  }
}

static void declare(gen *g, out *o, const char *word, const buffer *b) {
  put(o, "  %s(%s, %s, [", word, b->name, g->p->type);
  for (int d = 0; d < b->rank; d++) put(o, "%s%s", d ? ", " : "", b->dims[d]);
  put(o, "]);\n");
}

/* "f32" becomes "f64", so that the wide program is the same one. */
static void widen(const char *from, char *to, const char *type) {
  size_t n = strlen(type);
  while (*from) {
    if (!strncmp(from, type, n)) memcpy(to, "f64", 3), to += 3, from += n;
    else *to++ = *from++;
  }
  *to = 0;
}

void fuzz_generate(fuzz_source *s, fuzz_program *p) {
  static const char *const floats[] = {"f32", "f32", "f64"}, *const ints[] = {"i32", "u8", "i64", "i16", "u32", "i8", "u64", "u16"};
  gen g = {.s = s, .p = p};
  if (s->replay) s->at = 0;
  else s->n = 0;
  memset(p, 0, sizeof *p);
  p->mode = (fuzz_mode)draw(&g, 3);
  p->type = p->mode == FUZZ_INTEGER ? ints[draw(&g, 8)] : p->mode == FUZZ_EXACT ? floats[draw(&g, 3)] : "f32";
  p->params = (int)draw(&g, 3);
  for (int i = 0; i < p->params; i++) p->param[i] = 1 + (int64_t)draw(&g, 24);
  static _Thread_local char body[FUZZ_TEXT];
  out o = {body, body + sizeof body};
  int nests = 1 + (int)draw(&g, 3);
  for (int i = 0; i < nests; i++) nest(&g, &o);
  out t = {p->text, p->text + sizeof p->text};
  put(&t, "kernel fuzz(");
  for (int i = 0; i < p->params; i++) put(&t, "%sP%d in 1..64", i ? ", " : "", i);
  put(&t, ") {\n");
  for (int i = 0; i < g.n_in; i++) declare(&g, &t, "in", &g.in[i]);
  for (int i = 0; i < g.n_done; i++) declare(&g, &t, "out", &g.done[i]);
  put(&t, "%s}\n", body);
  widen(p->text, p->wide, p->type);
  out q = {p->opts, p->opts + sizeof p->opts};
  put(&q, "%s", "");
  choose_opts(&g, &q);
}
