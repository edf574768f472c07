/* SPDX-License-Identifier: MIT
 * Growable text in the arena. */
#include <stdio.h>
#include "base/base.h"

tg_str tg_str_new(tg_env *e) {
  tg_str s = {.env = e, .cap = 64};
  s.data = tg_alloc(e, s.cap);
  return s;
}

static void reserve(tg_str *s, size_t more) {
  if (s->n + more + 1 <= s->cap) return;
  size_t cap = s->cap * 2;
  while (cap < s->n + more + 1) cap *= 2;
  char *p = tg_alloc(s->env, cap);
  memcpy(p, s->data, s->n);
  s->data = p;
  s->cap = cap;
}

void tg_str_put(tg_str *s, const char *bytes, size_t n) {
  reserve(s, n);
  memcpy(s->data + s->n, bytes, n);
  s->n += n;
  s->data[s->n] = 0;
}

void tg_str_puts(tg_str *s, const char *text) { tg_str_put(s, text, strlen(text)); }

void tg_str_vprintf(tg_str *s, const char *format, va_list ap) {
  va_list again;
  va_copy(again, ap);
  int n = vsnprintf(s->data + s->n, s->cap - s->n, format, ap);
  if (n > 0 && (size_t)n >= s->cap - s->n) {
    reserve(s, (size_t)n);
    vsnprintf(s->data + s->n, s->cap - s->n, format, again);
  }
  va_end(again);
  if (n > 0) s->n += (size_t)n;
}

void tg_str_printf(tg_str *s, const char *format, ...) {
  va_list ap;
  va_start(ap, format);
  tg_str_vprintf(s, format, ap);
  va_end(ap);
}

char *tg_format(tg_env *e, const char *format, ...) {
  tg_str s = tg_str_new(e);
  va_list ap;
  va_start(ap, format);
  tg_str_vprintf(&s, format, ap);
  va_end(ap);
  return s.data;
}
