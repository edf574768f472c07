/* SPDX-License-Identifier: MIT
 * Mutates a schedule: changes a size in a word, the order of words or of names, leaves a word out, or adds a split. The
 * result need not be legal: the passes judge that. */
#include <stdio.h>
#include <stdlib.h>
#include "schedule/schedule.h"
#include "search/search.h"

/* ---- words ---- */

enum { WORDS = 256 };
typedef struct { tg_env *env; const char *word[WORDS]; size_t length[WORDS]; uint32_t n; uint64_t random; } list;

static uint64_t draw(list *l, uint64_t below) {
  l->random = l->random * 6364136223846793005u + 1442695040888963407u;
  return below ? (l->random >> 33) % below : 0;
}

static bool read_list(list *l, const char *words) {
  for (const char *w = words; *w; w += *w == ';' || *w == '\n') {
    w += strspn(w, " \t");
    size_t n = strcspn(w, ";\n");
    if (n && l->n == WORDS) return false;
    if (n) l->word[l->n] = w, l->length[l->n++] = n;
    w += n;
  }
  return l->n > 0;
}

static const char *join(const list *l) {
  tg_str s = tg_str_new(l->env);
  for (uint32_t i = 0; i < l->n; i++) {
    if (i) tg_str_puts(&s, "; ");
    tg_str_put(&s, l->word[i], l->length[i]);
  }
  return s.data;
}

static bool digit(char c) { return c >= '0' && c <= '9'; }

/* Counts numbers in a word that are sizes, not parts of names (the 16 of "i 16", not the 2 of "i2"); [from, to) is the
 * one with index `want`. */
static uint32_t numbers(const char *w, size_t n, uint32_t want, size_t *from, size_t *to) {
  uint32_t found = 0;
  for (size_t i = 1; i < n; i++) {
    if (!digit(w[i]) || !strchr(" {,=", w[i - 1])) continue;
    size_t k = i;
    while (k < n && digit(w[k])) k++;
    if (k == n || strchr(" },", w[k])) {
      if (found++ == want) *from = i, *to = k;
    }
    i = k;
  }
  return found;
}

static long other_size(list *l, long v) {
  switch (draw(l, 6)) {
  case 0: return v * 2;
  case 1: return v / 2;
  case 2: return v + 1;
  case 3: return v - 1;
  case 4: return v + v / 2;
  default: return v - v / 4;
  }
}

static bool resize(list *l) {
  uint32_t i = (uint32_t)draw(l, l->n);
  for (uint32_t tries = 0; tries < l->n; tries++, i = (i + 1) % l->n) {
    size_t from = 0, to = 0;
    uint32_t count = numbers(l->word[i], l->length[i], UINT32_MAX, &from, &to);
    if (!count) continue;
    numbers(l->word[i], l->length[i], (uint32_t)draw(l, count), &from, &to);
    long v = strtol(l->word[i] + from, NULL, 10), w = other_size(l, v);
    if (w < 1 || w == v || v > 1 << 20) return false;
    const char *text =
        tg_format(l->env, "%.*s%ld%.*s", (int)from, l->word[i], w, (int)(l->length[i] - to), l->word[i] + to);
    l->word[i] = text;
    l->length[i] = strlen(text);
    return true;
  }
  return false;
}

static bool leave_out(list *l) {
  uint32_t i = (uint32_t)draw(l, l->n);
  for (uint32_t k = i; k + 1 < l->n; k++) l->word[k] = l->word[k + 1], l->length[k] = l->length[k + 1];
  return --l->n > 0;
}

static bool exchange(list *l) {
  if (l->n < 2) return false;
  uint32_t i = (uint32_t)draw(l, l->n - 1);
  const char *w = l->word[i];
  size_t n = l->length[i];
  l->word[i] = l->word[i + 1], l->length[i] = l->length[i + 1];
  l->word[i + 1] = w, l->length[i + 1] = n;
  return true;
}

static const char *second(list *l, uint32_t i, size_t *n) {
  const char *w = l->word[i], *end = w + l->length[i];
  while (w < end && *w != ' ') w++;
  while (w < end && *w == ' ') w++;
  const char *from = w;
  while (w < end && *w != ' ') w++;
  *n = (size_t)(w - from);
  return from;
}

static const tg_opt_row *row_of(const char *word) {
  size_t n = strcspn(word, " (;\n");
  for (uint32_t i = 0; i < TG_OPT__COUNT; i++)
    if (strlen(tg_opt_rows[i].word) == n && !memcmp(tg_opt_rows[i].word, word, n)) return &tg_opt_rows[i];
  return NULL;
}

/* Changes a word as its row in tg_opt_rows allows: "<>" swaps its first two names; anything else is another word that
 * takes the same operands. */
static bool rename_word(list *l) {
  uint32_t i = (uint32_t)draw(l, l->n);
  const char *w = l->word[i], *text;
  const tg_opt_row *row = row_of(w);
  size_t n, from = 0;
  if (!row || !*row->change || !strcmp(row->change, "+")) return false;
  if (strcmp(row->change, "<>")) {
    size_t word = strlen(row->word);
    text = tg_format(l->env, "%s%.*s", row->change, (int)(l->length[i] - word), w + word);
  } else {
    const char *a = second(l, i, &n);
    from = (size_t)(a - w) + n;
    size_t m = strcspn(w + from + 1, " ;\n");
    if (from + 1 + m > l->length[i]) return false;
    text = tg_format(l->env, "%s %.*s %.*s%.*s", row->word, (int)m, w + from + 1, (int)n, a,
                     (int)(l->length[i] - from - 1 - m), w + from + 1 + m);
  }
  l->word[i] = text;
  l->length[i] = strlen(text);
  return true;
}

/* Splits the inner part of a split once more, and unrolls the new inner loop. */
static bool add_unroll(list *l) {
  uint32_t i = (uint32_t)draw(l, l->n);
  size_t n;
  const tg_opt_row *row = row_of(l->word[i]);
  if (l->n + 2 > WORDS || !row || strcmp(row->change, "+")) return false;
  const char *as = NULL;
  for (size_t k = 0; k + 4 < l->length[i]; k++)
    if (!strncmp(l->word[i] + k, " as ", 4)) as = l->word[i] + k + 4;
  if (!as) return false;
  n = strcspn(as, " ");
  const char *text =
      tg_format(l->env, "split %.*s %d as %.*s.a %.*s.b", (int)n, as, 2 << draw(l, 2), (int)n, as, (int)n, as);
  l->word[l->n] = text, l->length[l->n++] = strlen(text);
  text = tg_format(l->env, "unroll %.*s.b", (int)n, as);
  l->word[l->n] = text, l->length[l->n++] = strlen(text);
  return true;
}

const char *tg_words_mutate(tg_env *env, const char *words, uint64_t random) {
  list l = {.env = env, .random = random ^ 0x9E3779B97F4A7C15u};
  if (!read_list(&l, words)) return NULL;
  uint64_t kind = draw(&l, 10);
  bool changed = kind < 5   ? resize(&l)
                 : kind < 6 ? leave_out(&l)
                 : kind < 7 ? exchange(&l)
                 : kind < 9 ? rename_word(&l)
                            : add_unroll(&l);
  return changed ? join(&l) : NULL;
}
