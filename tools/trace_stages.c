/* SPDX-License-Identifier: MIT
 * tg trace: the stages in a row, each beside the one before. A line is compared without its indentation, so that one
 * that a new loop has only moved inwards is the same line. */
#include <stdlib.h>
#include <string.h>
#include "trace.h"

/* made: not in the stage before; gone: not in the next. */
typedef struct { const char *text; size_t n; bool made, gone; } line;
typedef struct { line *at; size_t n; } lines;

static lines split(const char *text) {
  lines l = {0};
  for (const char *p = text; *p; p++) l.n += *p == '\n';
  l.at = calloc(l.n + 1, sizeof *l.at);
  if (!l.at) return (lines){0};
  l.n = 0;
  for (const char *p = text; *p;) {
    size_t k = strcspn(p, "\n");
    l.at[l.n++] = (line){.text = p, .n = k};
    if (!p[k]) break;
    p += k + 1;
  }
  return l;
}

/* "stage NAME;" differs in every stage, and says nothing. */
static bool same(const line *a, const line *b) {
  size_t i = strspn(a->text, " "), k = strspn(b->text, " ");
  if (!strncmp(a->text + i, "stage ", 6) && !strncmp(b->text + k, "stage ", 6)) return true;
  return a->n - i == b->n - k && !memcmp(a->text + i, b->text + k, a->n - i);
}

static bool among(const line *one, const line *all, size_t n) {
  for (size_t i = 0; i < n; i++)
    if (same(one, &all[i])) return true;
  return false;
}

/* The longest common subsequence; where its table would be too large, lines that the other text has anywhere. */
static void compare(lines *a, lines *b) {
  size_t from = 0, n = a->n, m = b->n;
  while (from < n && from < m && same(&a->at[from], &b->at[from])) from++;
  while (n > from && m > from && same(&a->at[n - 1], &b->at[m - 1])) n--, m--;
  line *x = a->at + from, *y = b->at + from;
  n -= from, m -= from;
  unsigned *t = n < 4000 && m < 4000 ? calloc((n + 1) * (m + 1), sizeof *t) : NULL;
  if (!t) {
    for (size_t i = 0; i < n; i++) x[i].gone = !among(&x[i], y, m);
    for (size_t k = 0; k < m; k++) y[k].made = !among(&y[k], x, n);
    return;
  }
  size_t w = m + 1;
  for (size_t i = n; i-- > 0;)
    for (size_t k = m; k-- > 0;) {
      unsigned down = t[(i + 1) * w + k], right = t[i * w + k + 1];
      t[i * w + k] = same(&x[i], &y[k]) ? t[(i + 1) * w + k + 1] + 1 : down > right ? down : right;
    }
  size_t i = 0, k = 0;
  while (i < n || k < m) {
    if (i < n && k < m && same(&x[i], &y[k])) i++, k++;
    else if (k == m || (i < n && t[(i + 1) * w + k] >= t[i * w + k + 1])) x[i++].gone = true;
    else y[k++].made = true;
  }
  free(t);
}

/* llvm, asm, object are other languages: nothing to compare. */
static bool is_program(const trace_stage *s) {
  return strcmp(s->name, "llvm") && strcmp(s->name, "asm") && strcmp(s->name, "object");
}

static void put_lines(FILE *to, const lines *l) {
  size_t bytes = 0, i = 0;
  for (; i < l->n && bytes < TRACE_SHOWN; bytes += l->at[i++].n + 1) {
    const line *at = &l->at[i];
    const char *open = at->made ? at->gone ? "<b class=\"both\">" : "<b>" : at->gone ? "<s>" : "";
    fputs(open, to);
    size_t room = TRACE_SHOWN - bytes;
    trace_text(to, at->text, at->n < room ? at->n : room);
    fputs(at->made ? "</b>" : at->gone ? "</s>" : "\n", to);
  }
  if (i < l->n) fprintf(to, ".. %zu lines more", l->n - i);
}

/* ---- rules ---- */

enum { RULES = 64, RULE_SHOWN = 240 };
typedef struct { const char *name, *first; size_t name_n; unsigned fired; } rule;

static void put_rules(FILE *to, const char *text) {
  rule all[RULES];
  unsigned n = 0, fired = 0;
  for (const char *p = text; (p = strstr(p, "// ")) != NULL; p += strcspn(p, "\n")) {
    size_t name_n = strcspn(p += 3, ":\n");
    unsigned i = 0;
    while (i < n && (all[i].name_n != name_n || memcmp(all[i].name, p, name_n))) i++;
    if (i == RULES) continue;
    if (i == n) all[n++] = (rule){p, p + name_n + (p[name_n] == ':'), name_n, 0};
    all[i].fired++, fired++;
  }
  if (!fired) return;
  fprintf(to, "<details><summary>%u rewrites by %u rules</summary><table><tr><th class=\"n\">times</th><th>rule</th>"
              "<th>its first</th></tr>\n", fired, n);
  for (unsigned i = 0; i < n; i++) {
    size_t k = strcspn(all[i].first, "\n");
    fprintf(to, "<tr><td class=\"n\">%u</td><td>", all[i].fired);
    trace_text(to, all[i].name, all[i].name_n);
    fputs("</td><td><code>", to);
    trace_text(to, all[i].first, k < RULE_SHOWN ? k : RULE_SHOWN);
    fputs(k > RULE_SHOWN ? " ..</code></td></tr>\n" : "</code></td></tr>\n", to);
  }
  fputs("</table></details>\n", to);
}

/* ---- the row ---- */

static void put_stage(FILE *to, const trace *t, const lines *l, int i) {
  const trace_stage *s = &t->stage[i];
  size_t made = 0;
  for (size_t k = 0; k < l->n; k++) made += l->at[k].made;
  fprintf(to, "<article class=\"stage\" id=\"stage-%s\"><h3>%s</h3>\n<p class=\"note\">", s->name, s->name);
  if (!i) fputs("As written.", to);
  else if (!is_program(s)) fprintf(to, "From %s.", i ? t->stage[i - 1].name : "");
  else if (!made) fprintf(to, "Pass %s made no new line.", s->name);
  else fprintf(to, "Pass %s made %zu of %zu lines.", s->name, made, l->n);
  fputs("</p>\n", to);
  put_rules(to, s->rules);
  fprintf(to, "<pre tabindex=\"0\" aria-label=\"%s\">", s->name);
  put_lines(to, l);
  fputs("</pre></article>\n", to);
}

void trace_stages(FILE *to, const trace *t) {
  lines l[TRACE_STAGES];
  for (int i = 0; i < t->n; i++) {
    l[i] = split(t->stage[i].text);
    if (i && is_program(&t->stage[i])) compare(&l[i - 1], &l[i]);
  }
  fputs("<section id=\"stages\"><h2>Stages</h2>\n<p class=\"note\">Each stage beside the one before. "
        "<b>Green</b>: the pass of this stage made the line. <b>Red</b>: the next one replaces it. Arrow keys move the "
        "row.</p>\n<p><button id=\"back\">Back</button><button id=\"on\">On</button> ", to);
  for (int i = 0; i < t->n; i++) fprintf(to, "<a href=\"#stage-%s\">%s</a>\n", t->stage[i].name, t->stage[i].name);
  fputs("</p>\n<div class=\"row\" id=\"row\" tabindex=\"0\" role=\"group\" aria-label=\"Stages\">\n", to);
  for (int i = 0; i < t->n; i++) put_stage(to, t, &l[i], i);
  fputs("</div></section>\n", to);
  for (int i = 0; i < t->n; i++) free(l[i].at);
}
