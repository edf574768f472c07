/* SPDX-License-Identifier: MIT
 * Places in the source, and the errors that show them. Text of a .tg file is exact. A macro's text has lost its blanks
 * and its
 * columns, and compilers disagree about the line of a statement over several lines; so the source file is read
 * when an error is made, and the statement's tokens are searched around the line that the compiler gave. Where the
 * file cannot be read, the statement as the preprocessor left it is shown. */
#include <stdio.h>
#include "dsl/parse.h"

/* The line of an offset. Those requested come mostly in order; procs and functions, which are parsed again, are far
 * behind or ahead. */
static tg_line *line_of(tg_job *j, tg_source *s, uint32_t off) {
  if (!s->lines.n) tg_push(&j->env, &s->lines, (tg_line){0});
  while (s->lines.data[s->lines.n - 1].start <= off) {   /* one line further than off, or the end of the text */
    const char *from = s->text + s->lines.data[s->lines.n - 1].start, *end = strchr(from, '\n');
    if (!end) break;
    tg_push(&j->env, &s->lines, ((tg_line){.start = (uint32_t)(end + 1 - s->text)}));
  }
  uint32_t low = 0, high = s->lines.n;
  if (s->lines.data[s->at].start <= off) low = s->at;
  if (s->at + 2 < high && s->lines.data[s->at + 2].start > off) high = s->at + 2;
  while (high - low > 1) {
    uint32_t middle = low + (high - low) / 2;
    if (s->lines.data[middle].start <= off) low = middle;
    else high = middle;
  }
  s->at = low;
  tg_line *line = &s->lines.data[low];
  if (!line->text) line->text = tg_strndup(&j->env, s->text + line->start, strcspn(s->text + line->start, "\r\n"));
  return line;
}

tg_pos tg_source_pos(tg_job *j, tg_source *s, uint32_t off, uint32_t len) {
  if (s->macro)
    return (tg_pos){.file = s->file,
                    .text = s->text,
                    .line = s->line,
                    .column = (int)off + 1,
                    .length = len ? (int)len : 1,
                    .macro = true};
  const tg_line *line = line_of(j, s, off);
  uint32_t width = 0;   /* as far as the line goes */
  while (width < len && s->text[off + width] && s->text[off + width] != '\n' && s->text[off + width] != '\r') width++;
  return (tg_pos){.file = s->file,
                  .text = line->text,
                  .line = s->line + (int)(line - s->lines.data),
                  .column = (int)(off - line->start) + 1,
                  .length = width ? (int)width : 1};
}

/* ---- a macro's statement in its file ---- */

typedef struct { uint32_t off, len; int line; } word;
typedef struct { const char *text; uint32_t at; int line; } reader;

static bool is_name(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

/* The next token of C, roughly: names and numbers, strings, single characters. */
static bool read_word(reader *r, word *w) {
  const char *s = r->text;
  for (;; r->at++) {
    char c = s[r->at];
    if (!c) return false;
    if (c == '\n') r->line++;
    if (c == ' ' || c == '\t' || c == '\n' || c == '\r' ||
        (c == '\\' && (s[r->at + 1] == '\n' || s[r->at + 1] == '\r')))
      continue;
    if (c == '/' && s[r->at + 1] == '/') {
      while (s[r->at + 1] && s[r->at + 1] != '\n') r->at++;
    } else if (c == '/' && s[r->at + 1] == '*') {
      for (r->at += 2; s[r->at] && (s[r->at] != '*' || s[r->at + 1] != '/'); r->at++) r->line += s[r->at] == '\n';
      if (!s[r->at]) return false;
      r->at++;
    } else break;
  }
  *w = (word){.off = r->at, .line = r->line};
  char c = s[r->at];
  if (c == '"' || c == '\'') {
    for (r->at++; s[r->at] && s[r->at] != c && s[r->at] != '\n'; r->at++)
      if (s[r->at] == '\\' && s[r->at + 1]) r->at++;
    r->at += s[r->at] == c;
  } else if (is_name(c)) {
    while (is_name(s[r->at]) || (s[r->at] == '.' && is_name(s[r->at + 1]))) r->at++;
  } else r->at++;
  w->len = r->at - w->off;
  return true;
}

typedef TG_VEC(word) words;

static words split(tg_job *j, const char *text, int line) {
  words v = {0};
  reader r = {text, 0, line};
  word w;
  while (read_word(&r, &w)) tg_push(&j->env, &v, w);
  return v;
}

static bool matches(const char *a, const word *x, const char *b, const word *y) {
  return x->len == y->len && !memcmp(a + x->off, b + y->off, x->len);
}

/* The statement's first token in the file: the place nearest to the line, as far as 100 lines off. */
static int64_t find_statement(const char *file, const words *f, const char *text, const words *t, int line) {
  int64_t best = -1;
  int best_distance = 100;
  for (uint32_t i = 0; t->n && i + t->n <= f->n; i++) {
    int first = f->data[i].line, last = f->data[i + t->n - 1].line;
    int distance = line < first ? first - line : line > last ? line - last : 0;
    if (distance >= best_distance) continue;
    uint32_t k = 0;
    while (k < t->n && matches(file, &f->data[i + k], text, &t->data[k])) k++;
    if (k < t->n) continue;
    best = i;
    best_distance = distance;
  }
  return best;
}

static bool find_in_file(tg_job *j, tg_pos *p) {
  size_t bytes;
  const char *file = tg_read_file(&j->env, p->file, &bytes);
  if (!file || !p->text) return false;
  words f = split(j, file, 1), t = split(j, p->text, 1);
  int64_t at = find_statement(file, &f, p->text, &t, p->line);
  if (at < 0) return false;
  uint32_t k = 0, from = (uint32_t)(p->column > 0 ? p->column - 1 : 0);
  while (k + 1 < t.n && t.data[k].off + t.data[k].len <= from) k++;
  uint32_t end = k, stop = from + (uint32_t)p->length;
  while (end + 1 < t.n && t.data[end + 1].off < stop) end++;
  if (stop > t.data[end].off + t.data[end].len) stop = t.data[end].off + t.data[end].len;
  const word *w = &f.data[(uint32_t)at + k], *last = &f.data[(uint32_t)at + end];
  uint32_t skip = from > t.data[k].off ? from - t.data[k].off : 0, start = w->off + skip;
  while (start && file[start - 1] != '\n') start--;
  p->line = w->line;
  p->column = (int)(w->off + skip - start) + 1;
  p->text = tg_strndup(&j->env, file + start, strcspn(file + start, "\r\n"));
  p->length = last->line == w->line ? (int)(last->off + (stop - t.data[end].off) - w->off - skip)
                                    : (int)strlen(p->text) - p->column + 1;
  if (p->length < 1) p->length = 1;
  p->macro = false;
  return true;
}

/* The line and a caret below; of a long line what stands around the caret. */
static void put_caret(tg_str *s, const tg_pos *p) {
  enum { BEFORE = 100, WIDEST = 240 };
  const char *text = p->text;
  int skip = (int)strspn(text, " \t"), column = p->column - 1, length = (int)strlen(text);
  if (column < skip) skip = column < 0 ? 0 : column;
  int from = length - skip > WIDEST && column - skip > BEFORE ? column - BEFORE : skip,
      to = length - from > WIDEST ? from + WIDEST : length;
  while (from > skip && ((unsigned char)text[from] & 0xc0) == 0x80) from--;   /* characters of UTF-8 are not cut */
  while (to < length && ((unsigned char)text[to] & 0xc0) == 0x80) to++;
  const char *before = from > skip ? ".. " : "";
  tg_str_printf(s, "\n    %s%.*s%s", before, to - from, text + from, to < length ? " .." : "");
  if (p->column <= 0) return;
  tg_str_printf(s, "\n    %*s", (int)strlen(before), "");
  for (int i = from; i < column; i++) tg_str_puts(s, text[i] == '\t' ? "\t" : " ");
  tg_str_puts(s, "^");
  for (int i = 1; i < p->length && column + i < to; i++) tg_str_puts(s, "~");
}

void tg_fail_at(tg_job *j, tg_pos p, const char *format, ...) {
  j->refused = p;
  tg_str message = tg_str_new(&j->env), s = tg_str_new(&j->env);
  va_list ap;
  va_start(ap, format);
  tg_str_vprintf(&message, format, ap);
  va_end(ap);
  bool exact = p.line > 0 && (!p.macro || find_in_file(j, &p));
  if (p.line > 0) tg_str_printf(&s, "%s:%d:", p.file ? p.file : "?", p.line);
  if (exact && p.column > 0) tg_str_printf(&s, "%d:", p.column);
  size_t first = strcspn(message.data, "\n");
  tg_str_printf(&s, "%serror: %.*s", s.n ? " " : "", (int)first, message.data);
  if (p.line > 0 && p.text) put_caret(&s, &p);
  for (const char *m = message.data + first; *m;) {
    size_t n = strcspn(++m, "\n");
    tg_str_printf(&s, "\n    %.*s", (int)n, m);
    m += n;
  }
  tg_fail(&j->env, TG_EINVAL, "%s", s.data);
}
