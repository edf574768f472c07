/* SPDX-License-Identifier: MIT
 * The text of PTX in tokens. */
#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "parse.h"

_Noreturn void ptx_refuse(ptx_lexer *x, const char *format, ...) {
  va_list list;
  int n = snprintf(x->message, PTX_MESSAGE, "line %u: ", x->line);
  va_start(list, format);
  vsnprintf(x->message + n, (size_t)(PTX_MESSAGE - n), format, list);
  va_end(list);
  longjmp(x->trap, 1);
}

static void skip(ptx_lexer *x) {
  for (;; x->at++) {
    if (*x->at == '/' && x->at[1] == '/') {
      while (*x->at && *x->at != '\n') x->at++;
    } else if (*x->at == '/' && x->at[1] == '*') {
      for (x->at += 2; *x->at && (x->at[0] != '*' || x->at[1] != '/'); x->at++) x->here += *x->at == '\n';
      if (*x->at) x->at++;
    }
    if (!isspace((unsigned char)*x->at) && *x->at != '/') return;
    if (*x->at == '\n') x->here++;
    if (!*x->at) return;
  }
}

static bool in_word(const char *c) { return isalnum((unsigned char)*c) || *c == '_' || *c == '.' || *c == '$' || *c == '%'; }

void ptx_next(ptx_lexer *x) {
  skip(x);
  x->token = x->at;
  x->line = x->here;
  if (!*x->at) {
    x->n = 0;
    return;
  }
  if (*x->at == '"') {
    x->at++;
    while (*x->at && *x->at != '"') x->at++;
    if (*x->at) x->at++;
  } else if (in_word(x->at) || (*x->at == '-' && isdigit((unsigned char)x->at[1]))) {
    x->at++;
    while (in_word(x->at) || (x->at[0] == ':' && x->at[1] == ':')) x->at += x->at[0] == ':' ? 2 : 1;
  } else x->at++;
  x->n = (uint32_t)(x->at - x->token);
}

bool ptx_is(const ptx_lexer *x, const char *text) { return strlen(text) == x->n && !memcmp(x->token, text, x->n); }

bool ptx_take(ptx_lexer *x, const char *text) {
  bool is = ptx_is(x, text);
  if (is) ptx_next(x);
  return is;
}

void ptx_expect(ptx_lexer *x, const char *text) {
  if (!ptx_take(x, text)) ptx_refuse(x, "'%.*s' where '%s' should be", (int)x->n, x->token, text);
}

void ptx_copy(const ptx_lexer *x, char *to, size_t room) { snprintf(to, room, "%.*s", (int)x->n, x->token); }

/* PTX ISA, "Integer Constants", "Floating-Point Constants": 0f and 0d with the bits in hexadecimal. */
bool ptx_number(ptx_lexer *x, uint64_t *bits) {
  char text[64], *end;
  bool minus = x->n && x->token[0] == '-';
  if (!x->n || x->n >= sizeof text || !(minus || isdigit((unsigned char)x->token[0]))) return false;
  ptx_copy(x, text, sizeof text);
  const char *from = text + minus;
  bool single = from[0] == '0' && (from[1] == 'f' || from[1] == 'F'), twice = from[0] == '0' && (from[1] == 'd' || from[1] == 'D');
  uint64_t v = single || twice ? strtoull(from + 2, &end, 16) : strtoull(from, &end, 0);
  if (*end == 'U') end++;
  if (*end) return false;
  *bits = minus ? 0 - v : v;
  ptx_next(x);
  return true;
}
