/* SPDX-License-Identifier: MIT
 * The text of kernels: declarations and words, the tile in registers, copies of operands, epilogues. */
#include <stdarg.h>
#include <stdio.h>
#include "dsl/parse.h"
#include "dsl/uop.h"
#include "kit/words.h"

/* Text in a fixed buffer. A text that was cut off could mean something else, so the whole becomes one that fails to
 * parse. */
typedef struct { char *at; size_t size, n; } text_of;

static text_of begin(char *buffer, size_t size) {
  *buffer = 0;
  return (text_of){buffer, size, 0};
}

static void put_all(text_of *t, const char *format, va_list ap) {
  int n = t->n < t->size ? vsnprintf(t->at + t->n, t->size - t->n, format, ap) : -1;
  t->n = n < 0 ? t->size : t->n + (size_t)n;
  if (t->n >= t->size) snprintf(t->at, t->size, "(too long)");
}

static void put(text_of *t, const char *format, ...) TG_PRINTF(2, 3);
static void put(text_of *t, const char *format, ...) {
  va_list ap;
  va_start(ap, format);
  put_all(t, format, ap);
  va_end(ap);
}

void tg_kit_word(tg_builder *b, const char *format, ...) {
  char text[192];
  text_of t = begin(text, sizeof text);
  va_list ap;
  va_start(ap, format);
  put_all(&t, format, ap);
  va_end(ap);
  tg_add_declaration(b, "opt", text, __FILE__, __LINE__);
}

void tg_kit_declare(tg_builder *b, const char *word, const char *format, ...) {
  char text[192];
  text_of t = begin(text, sizeof text);
  va_list ap;
  va_start(ap, format);
  put_all(&t, format, ap);
  va_end(ap);
  tg_add_declaration(b, word, text, __FILE__, __LINE__);
}

static const char *text_in(tg_builder *b, const char *format, va_list ap) {
  va_list again;
  va_copy(again, ap);
  int n = vsnprintf(NULL, 0, format, again);
  va_end(again);
  char *text = tg_alloc(&b->job->env, (size_t)n + 1);
  vsnprintf(text, (size_t)n + 1, format, ap);
  return text;
}

const char *tg_kit_text(tg_builder *b, const char *format, ...) {
  va_list ap;
  va_start(ap, format);
  const char *text = text_in(b, format, ap);
  va_end(ap);
  return text;
}

void tg_kit_say(tg_builder *b, const char *format, ...) {
  va_list ap;
  va_start(ap, format);
  tg_add_statement(b, text_in(b, format, ap), __FILE__, __LINE__);
  va_end(ap);
}

void tg_kit_knob(tg_builder *b, const char *name, int64_t first, const int64_t *values) {
  char text[192];
  text_of t = begin(text, sizeof text);
  put(&t, "%s, %lld", name, (long long)first);
  for (; *values; values++)
    if (*values != first) put(&t, ", %lld", (long long)*values);
  tg_add_declaration(b, "knob", text, __FILE__, __LINE__);
}

int64_t tg_kit_knob_of(const tg_kit_choice *c, const char *name, int64_t otherwise) {
  for (uint32_t i = 0; i < c->knobs_n; i++)
    if (!strcmp(c->knob[i].name, name)) return c->knob[i].lo;
  return otherwise;
}

bool tg_kit_same_choice(const tg_kit_choice *a, const tg_kit_choice *b) {
  if (a->sketch != b->sketch || a->knobs_n != b->knobs_n) return false;
  for (uint32_t i = 0; i < a->knobs_n; i++)
    if (strcmp(a->knob[i].name, b->knob[i].name) || a->knob[i].lo != b->knob[i].lo) return false;
  return true;
}

/* ---- types ---- */

const char *tg_kit_as(tg_type t, tg_type to) {
  return t == to ? "" : to == TG_F64 ? " as f64" : to == TG_I32 ? " as i32" : " as f32";
}

void tg_kit_cast(char *out, size_t n, tg_type from, tg_type to, const char *x) {
  text_of t = begin(out, n);
  if (from == to) put(&t, "%s", x);
  else put(&t, "%s(%s)", tg_type_name[to], x);
}

/* ---- the tile ---- */

const char *tg_kit_rows_list(char *text, size_t n, int64_t rows) {
  text_of t = begin(text, n);
  int64_t power = 1;
  put(&t, "{%lld", (long long)rows);
  while (power * 2 < rows) power *= 2;
  for (; power >= 1 && power < rows; power /= 2) put(&t, ", %lld", (long long)power);
  put(&t, "}");
  return text;
}

const char *tg_kit_tile_and_rest(char *text, size_t n, tg_kit_dim size, int64_t tile) {
  int64_t rest = size.lo % tile;
  if (rest && size.lo > tile) snprintf(text, n, "{%lld, %lld}", (long long)tile, (long long)rest);
  else snprintf(text, n, "%lld", (long long)tile);
  return text;
}

void tg_kit_lanes(tg_builder *b, tg_type acc) {
  tg_add_declaration(b, "knob", acc == TG_F64 ? "VL, 8, 4, 2" : "VL, 16, 8, 4", __FILE__, __LINE__);
}

void tg_kit_tile_knobs(tg_builder *tg_b_, tg_type acc, const int64_t *rows) {
  tg_kit_lanes(tg_b_, acc);
  tg_knob(NU, 4, 1, 2, 3);
  tg_kit_knob(tg_b_, "MR", 6, rows);
  tg_knob(UK, 2, 1, 4, 8);
}

void tg_kit_tile(tg_builder *tg_b_, const char *rows, const char *terms, const char *around) {
  char list[96];
  tg_kit_word(tg_b_, "split cv VL as cu cl");
  tg_kit_word(tg_b_, "split %s %s as ir iu", rows, tg_kit_rows_list(list, sizeof list, tg_c(MR)));
  if (around) tg_kit_word(tg_b_, "order %s iu", around);
  tg_kit_word(tg_b_, "upcast iu");
  tg_kit_word(tg_b_, "upcast cu");
  tg_kit_word(tg_b_, "lane cl");
  if (tg_c(UK) == 1) return;
  tg_kit_word(tg_b_, "split %s {UK, 1} as ko ku", terms);
  tg_kit_word(tg_b_, "unroll ku");
}

/* ---- copies ---- */

/* How a copy divides the terms: into blocks of VL terms (the lanes of a vector), which are transposed together. The
 * remainder is one smaller block if the number of terms is known and at most KC; else it is gathered one by one. */
static const char *terms_of_a_block(tg_builder *tg_b_, tg_kit_dim k, char *list, size_t size) {
  int64_t vl = tg_c(VL);
  bool one = k.lo == k.hi && k.lo <= tg_c(KC);
  return one ? tg_kit_tile_and_rest(list, size, k, vl < k.lo ? vl : k.lo) : "{VL, 1}";
}

void tg_kit_stage_columns(tg_builder *tg_b_, const tg_kit_copy *o, const char *at, const char *space) {
  long long vl = tg_c(VL), nr = vl * tg_c(NU);
  char list[96];
  tg_kit_word(tg_b_, "stage %c at %s as Cp[%c/%lld, %c, %c%%%lld]%s%s", o->operand, at, o->range, nr, o->term, o->range,
              nr, o->as, space);
  tg_kit_word(tg_b_, "lane Cp.2 VL");
  if (o->along) { /* vectors are loaded along the terms, and blocks of VL by VL are transposed in registers */
    tg_kit_word(tg_b_, "split Cp.1 %s as pt pu", terms_of_a_block(tg_b_, o->terms, list, sizeof list));
    tg_kit_word(tg_b_, nr > vl ? "order Cp.2.0 pt pu" : "order pt pu");
    tg_kit_word(tg_b_, "unroll pu");
    return;
  }
  if (o->any) {   /* terms or columns may be contiguous: blocks of VL terms by VL columns suit both */
    tg_kit_word(tg_b_, "split Cp.1 VL clip as pt pu");
    tg_kit_word(tg_b_, nr > vl ? "order pt Cp.2.0 pu" : "order pt pu");
    return;
  }
  if (nr > vl) tg_kit_word(tg_b_, "upcast Cp.2.0");
}

/* Rows of a tile side by side, as panels of columns lie: MR is a multiple of VL. */
static void stage_side(tg_builder *tg_b_, const tg_kit_copy *o, const char *at) {
  long long vl = tg_c(VL), mr = tg_c(MR);
  char list[96];
  tg_kit_word(tg_b_, "stage %c at %s as Rp[%c/%lld, %c, %c%%%lld]%s", o->operand, at, o->range, mr, o->term, o->range,
              mr, o->as);
  tg_kit_word(tg_b_, "lane Rp.2 VL");
  if (o->along) {
    tg_kit_word(tg_b_, "split Rp.1 %s as qt qu", terms_of_a_block(tg_b_, o->terms, list, sizeof list));
    tg_kit_word(tg_b_, mr > vl ? "order Rp.2.0 qt qu" : "order qt qu");
    tg_kit_word(tg_b_, "unroll qu");
  } else if (mr > vl) tg_kit_word(tg_b_, "upcast Rp.2.0");
}

/* The copy has the terms of a row contiguous, so tiles may take any number of rows. If rows are contiguous in the
 * operand (not terms), the copy transposes. If strides are known at launch only (any), it goes in blocks of 8 rows by
 * some terms, which is good whichever of them are contiguous. */
void tg_kit_stage_rows(tg_builder *tg_b_, const tg_kit_copy *o, const char *at) {
  long long vl = tg_c(VL), mr = tg_c(MR);
  char rows[48];
  if (o->side) {
    stage_side(tg_b_, o, at);
    return;
  }
  bool by_tiles = mr > 1 && o->along && !o->any;
  snprintf(rows, sizeof rows, !by_tiles ? "%c" : "%c/%lld, %c%%%lld", o->range, mr, o->range, mr);
  tg_kit_word(tg_b_, "stage %c at %s as Rp[%s, %c]%s pitch=%lld", o->operand, at, rows, o->term, o->as,
              (long long)tg_c(KC) + vl);
  tg_kit_word(tg_b_, "lane Rp.%d VL", by_tiles ? 2 : 1);
  if (o->any) {
    tg_kit_word(tg_b_, "split Rp.0 8 clip as qt qu");
    tg_kit_word(tg_b_, "order qt Rp.1.0 qu");
  }
  if (o->along && o->apart)   /* strided rows span more lines than the hardware prefetcher fetches in time */
    tg_kit_word(tg_b_, "prefetch %c at Rp.%d.0 ahead 8", o->operand, by_tiles ? 2 : 1);
  if (o->along) return;
  tg_kit_word(tg_b_, "split Rp.0 {VL, 1} as qt qu");
  tg_kit_word(tg_b_, "order Rp.1.0 qt qu");
  tg_kit_word(tg_b_, "unroll qu");
}

/* ---- epilogues ---- */

bool tg_kit_reads(const char *expression, const char *name) {
  static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_";
  size_t n = strlen(name);
  for (const char *at = expression; *at;) {
    size_t word = strspn(at, letters);
    if (word == n && !memcmp(at, name, n)) return true;
    at += word ? word : 1;
  }
  return false;
}

void tg_kit_declare_arguments(tg_builder *b, const tg_kit_epilogue *e, const char *rows, const char *columns) {
  for (uint32_t a = 0; a < e->arguments_n; a++) {
    const tg_kit_argument *x = &e->argument[a];
    const char *t = tg_type_name[x->type];
    if (x->per == 3) tg_kit_declare(b, "in", "arg%u, %s, [%s, %s], [ld_arg%u, 1]", a, t, rows, columns, a);
    else tg_kit_declare(b, "in", "arg%u, %s, [%s]", a, t, x->per == 1 ? rows : x->per == 2 ? columns : "1");
  }
}

void tg_kit_wrap(tg_builder *b, const tg_kit_epilogue *e, const char *i, const char *j, const char *value, char *out,
                 size_t size) {
  char formals[512], load[192], argument[224];
  text_of f = begin(formals, sizeof formals), n = begin(out, size);
  put(&f, "%s", e->formals);
  put(&n, "epilogue(%s, %s, %s", value, i, j);
  for (uint32_t a = 0; a < e->arguments_n; a++) {
    const tg_kit_argument *x = &e->argument[a];
    text_of l = begin(load, sizeof load);
    put(&f, ", %s", x->name);
    put(&l, "arg%u[%s%s%s]", a, x->per & 1 ? i : x->per ? "" : "0", x->per == 3 ? ", " : "", x->per & 2 ? j : "");
    tg_kit_cast(argument, sizeof argument, x->type, e->acc, load);
    put(&n, ", %s", argument);
  }
  put(&n, ")");
  tg_add_splice(b, "epilogue", e->text, formals, __FILE__, __LINE__);
}
