/* SPDX-License-Identifier: MIT
 * Tokens. The text is what a macro stringified or a .tg file: C's tokens, names that may hold dots (i.0, acc.1) and
 * end in a number that tells equal ones apart (i#2), `0..V` as three tokens, and // and C comments. Two tokens are in
 * hand: the present one and the one ahead. */
#include <stdlib.h>
#include "dsl/parse.h"

static bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
static bool is_digit(char c) { return c >= '0' && c <= '9'; }
static bool is_hex(char c) { return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'); }

static const char *skip_blanks(tg_parser *p, const char *s) {
  for (;; s++) {
    if (*s == ' ' || *s == '\t' || *s == '\n' || *s == '\r') continue;
    if (s[0] == '/' && s[1] == '/') {
      while (s[1] && s[1] != '\n') s++;
    } else if (s[0] == '/' && s[1] == '*') {
      const char *end = strstr(s + 2, "*/");
      if (!end) tg_parse_fail(p, (uint32_t)(s - p->src->text), 2, "this comment does not end");
      s = end + 1;
    } else return s;
  }
}

static double read_double(tg_parser *p, const char *s, size_t n) {
  return tg_read_double(tg_strndup(&p->j->env, s, n), NULL);
}

static const char *lex_number(tg_parser *p, tg_token *t, const char *s) {
  const char *from = s;
  bool hex = s[0] == '0' && (s[1] == 'x' || s[1] == 'X'), real = false;
  if (hex) s += 2;
  while (hex ? is_hex(*s) : is_digit(*s)) s++;
  if (*s == '.' && s[1] != '.') {
    real = true;
    for (s++; hex ? is_hex(*s) : is_digit(*s);) s++;
  }
  if (hex ? *s == 'p' || *s == 'P' : *s == 'e' || *s == 'E') {
    const char *e = s + 1;
    if (*e == '+' || *e == '-') e++;
    if (is_digit(*e)) {
      real = true;
      for (s = e; is_digit(*s);) s++;
    }
  }
  t->kind = real ? TK_FLOAT : TK_INT;
  size_t n = (size_t)(s - from);
  if (real) {
    t->f = read_double(p, from, n);
    if (__builtin_isinf(t->f))
      tg_parse_fail(p, t->off, (uint32_t)n, "this number does not fit f64; inf is a word of its own");
  } else
    for (const char *d = hex ? from + 2 : from; d < s; d++) {
      int v = is_digit(*d) ? *d - '0' : (*d | 32) - 'a' + 10;
      t->i = t->i * (hex ? 16 : 10) + v;
      if (t->i >> 64) tg_parse_fail(p, t->off, (uint32_t)n, "this integer does not fit 64 bits");
    }
  if ((*s == 'f' || *s == 'F') && !is_letter(s[1]) && !is_digit(s[1]) && !hex) {
    if (!real) t->f = (double)t->i;
    t->kind = TK_F32;
    s++;
  }
  if (is_letter(*s)) {
    while (is_letter(*s) || is_digit(*s)) s++;
    tg_parse_fail(p, t->off, (uint32_t)(s - from), "'%.*s' is not a number", (int)(s - from), from);
  }
  return s;
}

void tg_lex(tg_parser *p, tg_token *t) {
  const char *text = p->src->text, *s = skip_blanks(p, text + p->at), *from = s;
  *t = (tg_token){.off = (uint32_t)(s - text)};
  if (!*s) t->kind = TK_END;
  else if (is_letter(*s) || (*s == '$' && is_digit(s[1]))) {
    t->kind = TK_NAME;
    for (s++; is_letter(*s) || is_digit(*s) || (*s == '.' && (is_letter(s[1]) || is_digit(s[1])));) s++;
    if (*s == '#' && is_digit(s[1]))
      for (s++; is_digit(*s);) s++;
  } else if (is_digit(*s) || (*s == '.' && is_digit(s[1]))) s = lex_number(p, t, s);
  else {
    static const char pairs[][3] = {"<=", ">=", "==", "!=", "<<", ">>", "&&", "||", "..",
                                    "->", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^="};
    t->kind = (unsigned char)*s++;
    /* a character of UTF-8 is named whole */
    while (t->kind >= 0xc0 && t->kind <= 0xff && ((unsigned char)*s & 0xc0) == 0x80) s++;
    for (unsigned i = 0; i < TG_COUNT(pairs); i++)
      if (from[0] == pairs[i][0] && from[1] == pairs[i][1]) {
        t->kind = TK2(from[0], from[1]);
        s++;
        break;
      }
  }
  t->len = (uint32_t)(s - from);
  p->at = (uint32_t)(s - text);
}

void tg_parser_init(tg_parser *p, tg_builder *b, tg_source *src, uint32_t at) {
  *p = (tg_parser){.b = b, .j = b->job, .src = src, .at = at};
  tg_lex(p, &p->tok);
  if (p->tok.kind) tg_lex(p, &p->ahead);
  else p->ahead = p->tok;
}

void tg_next(tg_parser *p) {
  p->tok = p->ahead;
  if (p->tok.kind) tg_lex(p, &p->ahead);
}

bool tg_take(tg_parser *p, int kind) {
  if (p->tok.kind != kind) return false;
  tg_next(p);
  return true;
}

const char *tg_token_text(tg_parser *p, const tg_token *t) {
  if (t->kind == TK_END) return "the end";
  return tg_format(&p->j->env, "'%.*s'", (int)t->len, p->src->text + t->off);
}

void tg_expect(tg_parser *p, int kind, const char *what) {
  if (!tg_take(p, kind)) tg_token_fail(p, &p->tok, "%s expected, not %s", what, tg_token_text(p, &p->tok));
}

bool tg_token_is(const tg_parser *p, const tg_token *t, const char *word) {
  return t->kind == TK_NAME && !strncmp(p->src->text + t->off, word, t->len) && !word[t->len];
}

bool tg_at_word(const tg_parser *p, const char *word) { return tg_token_is(p, &p->tok, word); }

bool tg_take_word(tg_parser *p, const char *word) {
  if (!tg_at_word(p, word)) return false;
  tg_next(p);
  return true;
}

const char *tg_take_name(tg_parser *p, const char *what) {
  tg_token t = p->tok;
  if (t.kind == '%' && p->ahead.kind == TK_INT && p->ahead.off == t.off + 1) {
    tg_next(p);
    t.len = 1 + p->tok.len;
  } else if (t.kind != TK_NAME) tg_token_fail(p, &t, "%s expected, not %s", what, tg_token_text(p, &t));
  tg_next(p);
  return tg_symbol(p->j, p->src->text + t.off, t.len);
}

const char *tg_called(tg_job *j, const char *name) {
  const char *mark = strchr(name, '#');
  return mark ? tg_symbol(j, name, (size_t)(mark - name)) : name;
}

tg_source *tg_source_new(tg_job *j, const char *file, const char *text, int line, bool macro) {
  tg_source *s = tg_new(&j->env, tg_source, 1);
  *s = (tg_source){.file = tg_sym(j, file ? file : "?"), .text = text, .line = line, .macro = macro};
  return s;
}
