/* SPDX-License-Identifier: MIT
 * Random words of a schedule. Sizes are odd as often as not, so that rests and gates appear; kinds that run side by
 * side come often, since it is they that must be refused where iterations depend on each other. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include "words.h"

static uint32_t draw(words *w, uint32_t limit) { return w->draw(w->user, limit); }
static bool may(words *w, uint32_t of) { return draw(w, of) == 0; }

__attribute__((format(printf, 2, 3))) static void put(char text[WORDS_TEXT], const char *format, ...) {
  size_t n = strlen(text);
  va_list ap;
  va_start(ap, format);
  vsnprintf(text + n, WORDS_TEXT - n, format, ap);
  va_end(ap);
}

void words_add_range(words *w, const char *name, bool constant) {
  if (w->ranges == WORDS_RANGES) return;
  words_range *r = &w->range[w->ranges++];
  snprintf(r->name, sizeof r->name, "%.23s", name);
  r->constant = constant;
}

void words_add_buffer(char (*list)[WORDS_NAME], int *n, const char *name) {
  if (*n < WORDS_BUFFERS) snprintf(list[(*n)++], WORDS_NAME, "%.23s", name);
}

const char *words_pick(words *w, bool constant) {
  int at = (int)draw(w, (uint32_t)w->ranges);
  for (int i = 0; constant && i < w->ranges && !w->range[at].constant; i++) at = (at + 1) % w->ranges;
  return w->range[at].name;
}

static const char *buffer(words *w, char (*list)[WORDS_NAME], int n) { return n ? list[draw(w, (uint32_t)n)] : "none"; }

/* " as s7 s8", and from now on these are ranges. */
static void parts(words *w, char *text, int first_constant) {
  char name[WORDS_NAME];
  put(text, " as");
  for (int d = 0; d < 2; d++) {
    snprintf(name, sizeof name, "s%d", w->made++);
    put(text, " %s", name);
    words_add_range(w, name, d || first_constant);
  }
}

static int size_of_part(words *w) {
  static const int sizes[] = {4, 2, 3, 5, 7, 8, 16, 13, 6, 32};
  return sizes[draw(w, 10)];
}

static void split(words *w, char *text) {
  static const char *const lists[] = {"{4, 1}", "{5, 2, 1}", "{8, 4, 1}", "{17, 9, 1}",
                                      "{6, 3}", "{4, 2, 1}", "{7, 2}"};
  put(text, "split %s ", words_pick(w, false));
  if (may(w, 4)) put(text, "%s", lists[draw(w, sizeof lists / sizeof *lists)]);
  else put(text, "%d%s", size_of_part(w), may(w, 5) ? " clip" : "");
  parts(w, text, false);
}

static void stage(words *w, char *text) {
  static const char *const layouts[] = {
      "[d0]", "[d0/3, d0%3]", "[d0, d1]", "[d1/4, d0, d1%4]", "[d1, d0]", "[d0%2, d1, d0/4, d0/2%2]"};
  static const char *const spaces[] = {" space=reg", " space=thread", " space=team", " space=local"};
  char name[WORDS_NAME];
  int made = w->made++;
  put(text, "stage %s", w->tiles && may(w, 4) ? buffer(w, w->tile, w->tiles) : buffer(w, w->input, w->inputs));
  put(text, " at %s as S%d", words_pick(w, false), made);
  if (may(w, 2)) put(text, "%s", layouts[draw(w, sizeof layouts / sizeof *layouts)]);
  if (may(w, 6)) put(text, " as %s", may(w, 2) ? "f64" : "i64");
  if (may(w, 4)) put(text, " pitch=%d", 20 + (int)draw(w, 60));
  if (may(w, 4)) put(text, " fill=%d", (int)draw(w, 3));
  if (may(w, 4)) put(text, " depth=%d", 2 + (int)draw(w, 2));
  if (may(w, 2)) put(text, "%s", spaces[draw(w, 4)]);
  for (int d = 0; d < 2; d++) {
    snprintf(name, sizeof name, "S%d.%d", made, d);
    words_add_range(w, name, true);
  }
}

static void prefetch(words *w, char *text) {
  bool write = may(w, 2);
  put(text, "prefetch %s", write ? buffer(w, w->output, w->outputs) : buffer(w, w->input, w->inputs));
  put(text, " at %s", words_pick(w, false));
  put(text, " ahead %d", (int)draw(w, 10));
  if (may(w, 2)) put(text, " of %s", words_pick(w, false));
  put(text, " to l%d%s", 1 + (int)draw(w, 2), write ? " rw" : "");
}

static void cut(words *w, char *text) {
  put(text, "cut %s ", words_pick(w, false));
  switch (draw(w, 6)) {
  case 0: put(text, "first"); return;
  case 1: put(text, "last"); return;
  case 2: case 3: put(text, "auto"); return;
  case 4: put(text, "at %d", 1 + (int)draw(w, 9)); return;
  default: put(text, "at %s/4*4", w->sizes ? buffer(w, w->size, w->sizes) : "9"); return;
  }
}

static void specialize(words *w, char *text) {
  const char *size = w->sizes ? buffer(w, w->size, w->sizes) : "none";
  if (may(w, 2)) put(text, "specialize(%s %% %d == 0)", size, 2 << draw(w, 3));
  else put(text, "specialize(%s %s %d)", size, may(w, 2) ? ">=" : "==", 2 + (int)draw(w, 12));
}

static void order(words *w, char *text) {
  put(text, "order");
  for (uint32_t i = 2 + draw(w, 2); i-- > 0;) put(text, " %s", words_pick(w, false));
}

static void fuse(words *w, char *text) {
  char name[WORDS_NAME];
  snprintf(name, sizeof name, "s%d", w->made++);
  put(text, "fuse %s", words_pick(w, false));
  put(text, " %s as %s", words_pick(w, false), name);
  words_add_range(w, name, true);
}

static void tile(words *w, char *text) {
  put(text, "tile %s %d", words_pick(w, false), size_of_part(w));
  put(text, " %s %d", words_pick(w, false), size_of_part(w));
  parts(w, text, false);
  parts(w, text + strlen(text), false);
}

/* " as" stands once: what the second pair put before its names is taken out. */
static void join_parts(char *text) {
  char *first = strstr(text, " as "), *second = first ? strstr(first + 4, " as ") : NULL;
  if (second) memmove(second, second + 3, strlen(second + 3) + 1);
}

static void kind(words *w, char *text, const char *word, bool constant, bool parted) {
  put(text, "%s %s", word, words_pick(w, constant && !parted));
  if (!parted) return;
  put(text, " %d", size_of_part(w));
  if (may(w, 2)) parts(w, text, false);
}

void words_draw(words *w, char text[WORDS_TEXT]) {
  *text = 0;
  switch (draw(w, 40)) {
  case 0: case 1: case 2: case 3: case 4: split(w, text); return;
  case 5: case 6: kind(w, text, "upcast", true, false); return;
  case 7: case 8: kind(w, text, "lane", true, false); return;
  case 9: case 10: kind(w, text, "upcast", true, true); return;
  case 11: case 12: kind(w, text, "lane", true, true); return;
  case 13: kind(w, text, "local", true, may(w, 2)); return;
  case 14: case 15: kind(w, text, "thread", false, false); return;
  case 16: kind(w, text, "thread", false, true); return;
  case 17: kind(w, text, "unroll", true, false); return;
  case 18: kind(w, text, may(w, 2) ? "global" : "group", true, may(w, 2)); return;
  case 19: case 20: case 21: cut(w, text); return;
  case 22: case 23: case 24: order(w, text); return;
  case 25: case 26: fuse(w, text); return;
  case 27: tile(w, text), join_parts(text); return;
  case 28: put(text, "pad %s %d", words_pick(w, false), size_of_part(w)); return;
  case 29: case 30: case 31: fissioned: put(text, "fission %s", words_pick(w, false)); return;
  case 32: case 33: stage(w, text); return;
  case 34: prefetch(w, text); return;
  case 35: put(text, "swap %s", words_pick(w, false)), put(text, " %s", words_pick(w, false)); return;
  case 36: put(text, "stream %s", buffer(w, w->output, w->outputs)); return;
  case 37: if (!w->sizes) goto fissioned; specialize(w, text); return;
  case 38:
    if (!w->tiles) goto fissioned;
    put(text, "place %s %s", buffer(w, w->tile, w->tiles), may(w, 3) ? "ssa" : "memory");
    return;
  default: kind(w, text, may(w, 2) ? "thread" : "lane", false, true); return;
  }
}
