/* SPDX-License-Identifier: MIT
 * The generator: one to three nests; each stores an output of its own. Choice 0 is always the simplest, so cutting and
 * zeroing choices shrinks the program. Expressions are in expression.c. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include "grammar.h"

uint32_t draw(gen *g, uint32_t limit) {
  fuzz_source *s = g->s;
  if (limit <= 1) return 0;
  if (s->replay) return s->at < s->n ? s->choice[s->at++] % limit : 0;
  s->state ^= s->state << 13, s->state ^= s->state >> 7, s->state ^= s->state << 17;
  uint32_t v = (uint32_t)(s->state >> 33) % limit;
  if (s->n < FUZZ_CHOICES) s->choice[s->n++] = (uint8_t)v;
  s->at = s->n;
  return s->n < FUZZ_CHOICES ? v : 0;
}

void put(out *o, const char *format, ...) {
  va_list ap;
  va_start(ap, format);
  int n = vsnprintf(o->at, (size_t)(o->end - o->at), format, ap);
  va_end(ap);
  o->at += n < o->end - o->at ? n : o->end - o->at - 1;
}

void fresh(gen *g, char *name, char letter) { snprintf(name, 16, "%c%d", letter, g->n_names++); }

void has(gen *g, fuzz_feature f) { g->p->features |= (uint64_t)1 << f; }

/* ---- ranges ---- */

void opt_name(gen *g, const range *r) { words_add_range(&g->words, r->name, r->constant); }

void choose_extent(gen *g, range *r, bool dependent) {
  static const int sizes[] = {3, 1, 2, 4, 5, 7, 8, 13, 16, 17, 19, 33};
  const range *of = g->n_open > 1 ? &g->open[g->n_open - 2 - (int)draw(g, (uint32_t)g->n_open - 1)] : NULL;
  uint32_t k = draw(g, 20);
  r->constant = false;
  if (dependent && of && !of->lockstep && k >= 18) {
    has(g, FUZZ_dependent_extent);
    snprintf(r->extent, sizeof r->extent, k == 18 ? "%.20s + 1" : "%.30s - %.20s", k == 18 ? of->name : of->dim, of->name);
    strcpy(r->dim, of->dim);
    r->value = of->value;
  } else if (k >= 14 && k < 18 && g->p->params && !g->fixed) {
    int q = (int)draw(g, (uint32_t)g->p->params);
    snprintf(r->extent, sizeof r->extent, k == 17 ? "ceildiv(P%d, 4)" : "P%d", q);
    strcpy(r->dim, r->extent);
    r->value = (int)(k == 17 ? (g->p->param[q] + 3) / 4 : g->p->param[q]);
  } else {
    r->value = sizes[k % (g->work > 400 ? 6 : g->work > 60 ? 9 : 12)];
    snprintf(r->extent, sizeof r->extent, "%d", r->value);
    strcpy(r->dim, r->extent);
    r->constant = true;
  }
  g->work *= r->value > 0 ? r->value : 1;
  opt_name(g, r);
}

range *open_range(gen *g, char letter) {
  if (g->n_open == 16) g->n_open--; /* never reached: depth bounds it */
  range *r = &g->open[g->n_open++];
  *r = (range){0};
  fresh(g, r->name, letter);
  return r;
}

void close_ranges(gen *g, int to) { g->n_open = to; }

static const char *const author_kinds[] = {"", "", "", "", "", "", ", global", ", thread", ", upcast", ", lane", ", local", ", unroll"};

/* A loop; in lockstep its body may not hold loops of an extent that depends on it. */
enum { IN_ORDER, ANY_KIND, UNROLLED };

static range *loop(gen *g, out *o, bool dependent, bool outermost, int kinds) {
  range *r = open_range(g, 'r');
  choose_extent(g, r, dependent);
  uint32_t k = draw(g, 12);
  if (kinds == UNROLLED && k < 11) k = 0;
  if (!kinds || (!r->constant && k > 7) || (!outermost && k == 7) || (k >= 8 && r->value > 17)) k = 0;
  if (k >= 6) has(g, FUZZ_author_kind);
  r->lockstep = k >= 8;
  put(o, "range(%s, %s%s) ", r->name, r->extent, author_kinds[k]);
  return r;
}

/* ---- outputs ---- */

buffer *output(gen *g, type t, int rank, int first) {
  buffer *b = &g->done[g->n_done];
  *b = (buffer){.t = t, .rank = rank};
  snprintf(b->name, sizeof b->name, "y%d", g->n_done);
  for (int d = 0; d < rank; d++) strcpy(b->dims[d], g->open[first + d].dim);
  if (rank == 2 && draw(g, 8) == 7) {
    has(g, FUZZ_strided);
    out w = {b->strides, b->strides + sizeof b->strides};
    put(&w, ", [%s + 2, 1]", b->dims[1]);
  }
  return b;
}

void element(gen *g, out *o, const buffer *b, int first, bool flip) {
  put(o, "%s", b->name);
  for (int d = 0; d < b->rank; d++) {
    const range *r = &g->open[first + d];
    if (flip && d == b->rank - 1) put(o, "%s%s - 1 - %s", d ? ", " : "[", r->dim, r->name);
    else put(o, "%s%s", d ? ", " : "[", r->name);
  }
  if (b->rank) put(o, "]");
}

static void let_value(gen *g, out *o, char *name) {
  fresh(g, name, 'v');
  put(o, "    let %s = ", name);
  leaf(g, o, g->main);
  put(o, ";\n");
}

static void store(gen *g, out *o, buffer *b, int first, bool flip) {
  put(o, "    ");
  element(g, o, b, first, flip);
  put(o, " = ");
  b->size = expression(g, o, b->t);
  put(o, ";\n");
}

/* ---- bodies: each is written inside of the loops first .. n_open - 1 ---- */

static void plain(gen *g, out *o, int first, int rank) {
  bool flip = draw(g, 6) == 5;
  char v[16] = "";
  uint32_t form = draw(g, 5);
  if (form == 3) let_value(g, o, v);
  buffer *b = output(g, g->main, rank, first);
  store(g, o, b, first, flip);
  if (form == 2 || form == 3) {
    char w[16] = "";
    if (form == 3) {
      has(g, FUZZ_let_after_store);
      fresh(g, w, 'v');
      put(o, "    let %s = ", w), element(g, o, b, first, flip), put(o, ";\n");
    }
    put(o, "    "), element(g, o, b, first, flip);
    put(o, " %s ", draw(g, 2) ? "max=" : "+=");
    if (form == 3) put(o, "min(%s, %s) - %s", v, w, v);
    else put(o, "%s(1)", type_name[b->t]);
    put(o, ";\n");
    b->size += 64;
    if (form == 3) b->size *= 2;
  }
  g->n_done++;
}

static void tile(gen *g, out *o, int first, int rank, bool local) {
  buffer *t = &g->tile[g->n_tile];
  *t = (buffer){.t = g->main, .rank = 1 + (draw(g, 3) == 2)};
  fresh(g, t->name, 't');
  int mark = g->n_open;
  g->fixed = g->large; /* a tile of a run-time size has room for the largest */
  char inner[128];
  out w = {inner, inner + sizeof inner};
  for (int d = 0; d < t->rank; d++) {
    loop(g, &w, false, false, local && g->n_open > first);
    strcpy(t->dims[d], g->open[mark + d].dim);
  }
  g->fixed = false;
  if (t->rank == 2) has(g, FUZZ_tile2);
  if (local) has(g, FUZZ_local);
  put(o, "    define_%s(%s, %s, [%s%s%s]);\n    %s", local ? "local" : "reg", t->name, type_name[t->t], t->dims[0], t->rank > 1 ? ", " : "", t->rank > 1 ? t->dims[1] : "", inner);
  element(g, o, t, mark, draw(g, 3) == 2);
  put(o, " = ");
  t->size = expression(g, o, t->t);
  put(o, ";\n    ");
  g->n_tile++;
  for (int d = 0; d < t->rank; d++) {
    range *r = &g->open[mark + d];
    fresh(g, r->name, 'r');
    r->lockstep = false;
    opt_name(g, r);
    put(o, "range(%s, %s) ", r->name, r->extent);
  }
  put(o, "{\n");
  rank = rank + t->rank > 3 ? 3 : rank + t->rank;
  plain(g, o, g->n_open - rank, rank);
  put(o, "    }\n");
  (void)first;
}

static void accumulate(gen *g, out *o, int first, int rank) {
  char acc[16];
  fresh(g, acc, 'a');
  put(o, "    define_reg(%s, %s, []);\n    %s = ", acc, type_name[g->main], acc);
  double size = leaf(g, o, g->main);
  int mark = g->n_open, reduces = g->reduces;
  int64_t work = g->work;
  put(o, ";\n    ");
  range *r = loop(g, o, true, false, UNROLLED);
  uint32_t word = draw(g, 4);
  put(o, "%s %s ", acc, word == 2 ? "max=" : word == 3 ? "-=" : "+=");
  g->depth += 2, g->reduces++;
  double value = expression(g, o, g->main);
  size += value * (r->value > 0 ? r->value : 1);
  g->depth -= 2, g->reduces = reduces;
  close_ranges(g, mark);
  g->work = work;
  put(o, ";\n    let v%d = %s;\n    ", g->n_names, acc);
  buffer *b = output(g, g->main, rank, first);
  element(g, o, b, first, false);
  put(o, " = v%d", g->n_names++);
  put(o, " + "), b->size = size + expression(g, o, g->main);
  put(o, ";\n");
  b->unread = b->size > limit_of(g, g->main);
  g->n_done++;
}

/* Lockstep: a statement reads what other iterations of an earlier one wrote. */
static void lockstep(gen *g, out *o, int first, int rank) {
  static const char *const kinds[] = {"", ", lane", ", upcast", ", local"};
  static const int sizes[] = {3, 4, 8, 16, 17};
  has(g, FUZZ_lockstep);
  char name[16];
  int size = sizes[draw(g, 5)];
  bool local = draw(g, 2);
  fresh(g, name, 't');
  put(o, "    define_%s(%s, %s, [%d]);\n    ", local ? "local" : "reg", name, type_name[g->main], size);
  range *r = open_range(g, 'r');
  *r = (range){.value = size, .constant = true, .lockstep = true, .name[0] = 0};
  fresh(g, r->name, 'r');
  snprintf(r->extent, sizeof r->extent, "%d", size);
  strcpy(r->dim, r->extent);
  opt_name(g, r);
  g->work *= size;
  put(o, "range(%s, %s%s) {\n    %s[%s] = ", r->name, r->extent, kinds[1 + draw(g, 3)], name, r->name);
  double value = expression(g, o, g->main);
  put(o, ";\n    ");
  rank = rank < 3 ? rank + 1 : 3;
  (void)first;
  buffer *b = output(g, g->main, rank, g->n_open - rank);
  element(g, o, b, g->n_open - rank, false);
  uint32_t how = draw(g, 3);
  if (how == 0) put(o, " = %s[%d - %s]", name, size - 1, r->name);
  if (how == 1) put(o, " = %s[(%s + 1) %% %d]", name, r->name, size);
  if (how == 2) put(o, " = max(%s[%s], %s[0])", name, r->name, name);
  put(o, " + "), b->size = value + leaf(g, o, g->main), put(o, ";\n");
  if (draw(g, 2)) put(o, "    "), element(g, o, b, g->n_open - rank, false), put(o, " += %s[%s];\n", name, r->name), b->size += value;
  put(o, "    }\n");
  g->n_done++;
}

/* A tuple, a condition, an index: outputs of other types. */
static void others(gen *g, out *o, int first, int rank) {
  int mark = g->n_open;
  int64_t work = g->work;
  uint32_t what = draw(g, 3);
  const char *t = type_name[g->main];
  if (what == 0) {
    has(g, FUZZ_tuple);
    char m[16], l[16];
    fresh(g, m, 'v'), fresh(g, l, 'v');
    range *r = open_range(g, 'k');
    put(o, "    let (%s, %s) = reduce(", m, l);
    choose_extent(g, r, true);
    bool sum = g->main != F16 && g->main != BF16 && g->p->mode != FUZZ_RANDOM;
    put(o, "%s : %s, (m, l) = (%s(%d), %s(0)), (", r->name, r->extent, t, 0, t);
    double size = leaf(g, o, g->main);
    put(o, ", "), size += leaf(g, o, g->main), size *= r->value > 0 ? r->value : 1;
    put(o, sum ? "), (a, b), (c, d) -> (max(a, c), b + d));\n" : "), (a, b), (c, d) -> (max(a, c), min(b, d)));\n");
    close_ranges(g, mark), g->work = work;
    buffer *b = output(g, g->main, rank, first);
    put(o, "    "), element(g, o, b, first, false), put(o, " = max(%s, %s);\n", m, l);
    b->size = size;
  } else if (what == 1) {
    buffer *b = output(g, BOOL, rank, first);
    put(o, "    "), element(g, o, b, first, false), put(o, " = ");
    condition(g, o);
    put(o, ";\n");
  } else {
    has(g, FUZZ_argmax);
    range *r = open_range(g, 'k');
    choose_extent(g, r, false);
    char value[4096];
    out w = {value, value + sizeof value};
    expression(g, &w, g->main);
    const char *name = r->name;
    put(o, "    let v%d = %s(%s : %s, %s);\n", g->n_names, draw(g, 2) ? "argmax" : "argmin", name, r->extent, value);
    close_ranges(g, mark), g->work = work;
    buffer *b = output(g, I32, rank, first);
    put(o, "    "), element(g, o, b, first, false), put(o, " = v%d;\n", g->n_names++);
    b->size = 1e9;
  }
  g->n_done++;
}

/* ---- nests ---- */

static void nest_of(gen *g, out *o, void (*body)(gen *, out *, int, int), bool dependent, int most) {
  int first = g->n_open, rank = 1 + (int)draw(g, 5) / 2;
  if (rank > most) rank = most;
  put(o, "  ");
  for (int i = 0; i < rank; i++) loop(g, o, false, i == 0, !dependent);
  put(o, "{\n");
  body(g, o, first, rank);
  put(o, "  }\n");
}

static void tile_reg(gen *g, out *o, int first, int rank) { tile(g, o, first, rank, false); }
static void tile_local(gen *g, out *o, int first, int rank) { tile(g, o, first, rank, true); }

/* Parts of an output: a triangle, or what a condition leaves; the rest keeps what it had. */
static void partial(gen *g, out *o) {
  int first = g->n_open;
  bool triangle = draw(g, 2);
  has(g, FUZZ_partial);
  put(o, "  ");
  range *r = loop(g, o, false, true, !triangle);
  if (triangle) {
    has(g, FUZZ_triangular);
    range *q = open_range(g, 'r');
    *q = *r;
    fresh(g, q->name, 'r');
    q->constant = false;
    snprintf(q->extent, sizeof q->extent, draw(g, 2) ? "%.20s + 1" : "%.30s - %.20s", r->name, r->name);
    if (strchr(q->extent, '-')) snprintf(q->extent, sizeof q->extent, "%.30s - %.20s", r->dim, r->name);
    g->work *= q->value > 0 ? q->value : 1;
    opt_name(g, q);
    put(o, "range(%s, %s) {\n", q->name, q->extent);
  } else {
    has(g, FUZZ_if_loop);
    put(o, "{\n    if ("), condition(g, o), put(o, ") {\n    ");
    loop(g, o, false, false, true);
    put(o, "{\n");
  }
  plain(g, o, first, 2);
  g->done[g->n_done - 1].role = PARTIAL, g->done[g->n_done - 1].unread = true;
  put(o, triangle ? "  }\n" : "    } }\n  }\n");
}

static void inout(gen *g, out *o, bool scatter) {
  buffer *b = &g->done[g->n_done];
  *b = (buffer){.t = g->main, .rank = 1, .role = INOUT, .unread = true};
  snprintf(b->name, sizeof b->name, "y%d", g->n_done);
  has(g, FUZZ_inout);
  put(o, "  ");
  range *r = loop(g, o, false, true, true);
  put(o, "{\n    ");
  if (scatter && g->p->mode != FUZZ_RANDOM && !(is_float(g->main) && g->main > F64)) {
    char index[64], value[8192];
    out w = {index, index + sizeof index}, x = {value, value + sizeof value};
    has(g, FUZZ_scatter);
    strcpy(b->dims[0], draw(g, 2) ? "7" : "5");
    if (!index_load(g, &w, b->dims[0], true)) put(&w, "%s %% 5", r->name);
    leaf(g, &x, g->main);
    put(o, "atomic %s[%s] += %s;\n", b->name, index, value);
  } else {
    strcpy(b->dims[0], r->dim);
    put(o, "%s[%s] = %s[%s] + ", b->name, r->name, b->name, r->name);
    expression(g, o, g->main);
    put(o, ";\n");
  }
  put(o, "  }\n");
  g->n_done++;
}

static void recurrence(gen *g, out *o) {
  int first = g->n_open;
  has(g, FUZZ_recurrence);
  put(o, "  ");
  range *r = open_range(g, 'r');
  choose_extent(g, r, false);
  put(o, "range(%s, %s) {\n", r->name, r->extent);
  buffer *b = output(g, g->main, 1, first);
  put(o, "    %s[%s] = max(where(%s >= 1, %s[%s - 1], %s(0)), ", b->name, r->name, r->name, b->name, r->name, type_name[b->t]);
  b->size = expression(g, o, b->t);
  put(o, ");\n  }\n");
  g->n_done++;
}

static void nest(gen *g, out *o) {
  g->n_open = 0, g->n_tile = 0, g->work = 1, g->depth = 0, g->reduces = 0;
  switch (draw(g, 17)) {
  default: nest_of(g, o, plain, false, 3); break;
  case 4: case 5: nest_of(g, o, tile_reg, false, 1); break;
  case 6: nest_of(g, o, tile_local, true, 1); break;
  case 7: case 8: nest_of(g, o, accumulate, false, 3); break;
  case 9: nest_of(g, o, lockstep, true, 2); break;
  case 10: case 11: nest_of(g, o, others, false, 3); break;
  case 12: inout(g, o, true); break;
  case 13: inout(g, o, false); break;
  case 14: case 15: partial(g, o); break;
  case 16: recurrence(g, o); break;
  }
}

/* ---- schedules ---- */

static uint32_t draw_word(void *user, uint32_t limit) { return draw(user, limit); }

static void choose_opts(gen *g, out *o) {
  for (int i = 0; i < (g->threads ? 2 : 6) && g->words.ranges && draw(g, 5); i++) {
    char text[WORDS_TEXT];
    words_draw(&g->words, text);
    put(o, "opt(%s); ", text);
  }
}

/* ---- the whole ---- */

static void declare(out *o, const char *word, const buffer *b, const char *more) {
  put(o, "  %s(%s, %s%s, [", word, b->name, type_name[b->t], b->promise);
  for (int d = 0; d < b->rank; d++) put(o, "%s%s", d ? ", " : "", b->dims[d]);
  put(o, "]%s%s);\n", b->strides, more);
}

/* "f32" becomes "f64", so that the wide program is the same one. */
static void widen(const char *from, char *to) {
  while (*from) {
    if (!strncmp(from, "f32", 3)) memcpy(to, "f64", 3), to += 3, from += 3;
    else *to++ = *from++;
  }
  *to = 0;
}

static void choose_params(gen *g, out *o) {
  fuzz_program *p = g->p;
  p->params = (int)draw(g, 3);
  for (int i = 0; i < p->params; i++) {
    uint32_t k = draw(g, 6);
    put(o, "%sP%d in ", i ? ", " : "", i);
    p->param[i] = 1 + (int64_t)draw(g, 24);
    if (k == 3) has(g, FUZZ_multiple), put(o, "4..64 %% 4"), p->param[i] = 4 + p->param[i] / 4 * 4;
    else if (k == 4) has(g, FUZZ_may_be_empty), put(o, "0..64"), p->param[i]--;
    else put(o, k == 5 ? "1..1000000" : "1..64"), g->large |= k == 5;
  }
}

static void name_buffers(gen *g) {
  words *w = &g->words;
  char name[16];
  w->draw = draw_word, w->user = g, w->made = g->n_names;
  for (int i = 0; i < g->n_in; i++) words_add_buffer(w->input, &w->inputs, g->in[i].name);
  for (int i = 0; i < g->n_done; i++) words_add_buffer(w->output, &w->outputs, g->done[i].name);
  for (int i = 0; i < g->n_tile_names; i++) words_add_buffer(w->tile, &w->tiles, g->tile_names[i]);
  for (int i = 0; i < g->p->params; i++) snprintf(name, sizeof name, "P%d", i), words_add_buffer(w->size, &w->sizes, name);
}

void fuzz_generate(fuzz_source *s, fuzz_program *p, bool threads) {
  static const type floats[] = {F32, F32, F32, F64, F16, BF16, F32, F64};
  gen g = {.s = s, .p = p, .threads = threads};
  if (s->replay) s->at = 0;
  else s->n = 0;
  memset(p, 0, sizeof *p);
  p->mode = (fuzz_mode)draw(&g, 3);
  g.main = p->mode == FUZZ_INTEGER ? (type)(I32 + draw(&g, 8)) : floats[draw(&g, 8)];
  if (g.main == F64) has(&g, FUZZ_f64);
  if (g.main == F16 || g.main == BF16) has(&g, FUZZ_half);
  static _Thread_local char body[FUZZ_TEXT];
  out t = {p->text, p->text + sizeof p->text}, o = {body, body + sizeof body};
  put(&t, "kernel fuzz(");
  choose_params(&g, &t);
  put(&t, ") {\n");
  do (threads ? threads_nest : nest)(&g, &o); /* asked after each, so that leaving out the choices of one leaves the others */
  while (g.n_done < (threads ? 2 : 3) && draw(&g, 3));
  for (int i = 0; i < g.n_in; i++) declare(&t, "in", &g.in[i], "");
  for (int i = 0; i < g.n_done; i++) declare(&t, g.done[i].role == INOUT ? "inout" : "out", &g.done[i], g.done[i].role == PARTIAL ? ", partial" : "");
  put(&t, "%s}\n", body);
  bool wide = p->mode == FUZZ_RANDOM && g.main == F32 && !p->wide[0];
  p->wide[0] = 0;
  if (wide) widen(p->text, p->wide);
  out q = {p->opts, p->opts + sizeof p->opts};
  put(&q, "%s", "");
  name_buffers(&g);
  if (threads) threads_opts(&g, &q);
  choose_opts(&g, &q);
}
