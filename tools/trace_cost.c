/* SPDX-License-Identifier: MIT
 * tg trace: the cost model's report, its loops beside their lines of the program after the last pass. */
#include <stdlib.h>
#include <string.h>
#include "trace.h"

/* A loop of the report: name, and the columns that stand beside its line. */
typedef struct { char name[64], runs[32], cycles[32], part[32], busiest[32]; } loop_cost;
enum { LOOPS = 256 };

/* The rows behind "loop .." up to "access ..": in the order of the program's loops. */
static int read_loops(const char *report, loop_cost *l) {
  int n = 0;
  const char *p = strstr(report, "\nloop ");
  if (!p) return 0;
  for (p += 1 + strcspn(p + 1, "\n"); *p && n < LOOPS; p += strcspn(p, "\n")) {
    if (!*++p || !strncmp(p, "access ", 7)) break;
    loop_cost r = {0};
    char row[512];
    snprintf(row, sizeof row, "%.*s", (int)strcspn(p, "\n"), p);
    if (sscanf(row, " %63s %31s %31s %31s", r.name, r.runs, r.cycles, r.part) < 4) break;
    const char *last = strrchr(row, ' ');
    snprintf(r.busiest, sizeof r.busiest, "%s", last ? last + 1 : "");
    l[n++] = r;
  }
  return n;
}

static void put_row(FILE *to, const char *text, size_t n, const loop_cost *r) {
  double part = r ? strtod(r->part, NULL) : 0;
  fputs("<tr>", to);
  const char *column[] = {r ? r->part : "", r ? r->runs : "", r ? r->cycles : "", r ? r->busiest : ""};
  for (int i = 0; i < 4; i++) {
    fprintf(to, "<td%s", i < 3 ? " class=\"n\"" : "");
    if (!i && part > 0)
      fprintf(to, " style=\"background:linear-gradient(90deg,var(--old) %.0f%%,transparent 0)\"", part);
    fputs(">", to);
    trace_text(to, column[i], strlen(column[i]));
    fputs("</td>", to);
  }
  fputs("<td><pre>", to);
  trace_text(to, text, n);
  fputs("</pre></td></tr>\n", to);
}

/* The loop whose lines begin or go on behind this one: a loop that begins takes the next row of the report, one that
 * ends leaves its lines to the one around it, whose costs stand at its beginning. */
typedef struct { int next, n, depth; bool loop[LOOPS]; } place;

/* Whether a new row begins: at this line (-1), behind it (1), or not (0). */
static int step(place *w, const loop_cost *l, const char *word, size_t length) {
  bool opens = length && word[length - 1] == '{', loop = false;
  if (opens && w->next < w->n && !strncmp(word, "range(", 6)) {
    size_t name_n = strlen(l[w->next].name);
    loop = !strncmp(word + 6, l[w->next].name, name_n) && word[6 + name_n] == ',';
  }
  if (opens && w->depth < LOOPS) w->loop[w->depth++] = loop;
  if (loop) return w->next++, -1;
  return *word == '}' && w->depth && w->loop[--w->depth] ? 1 : 0;
}

static void put_program(FILE *to, const char *text, const loop_cost *l, int n) {
  static place w;
  w = (place){.next = n && !strcmp(l[0].name, "(all)") ? 1 : 0, .n = n};
  const char *end = text + strlen(text), *from = text, *p = text;
  if (end - text > TRACE_SHOWN) end = text + TRACE_SHOWN;
  fputs("<table><tr><th class=\"n\">part</th><th class=\"n\">runs</th><th class=\"n\">cycles a run</th><th>busiest</th>"
        "<th>the program after the last pass</th></tr>\n", to);
  const loop_cost *of = w.next ? &l[0] : NULL;
  while (p < end) {
    const char *word = p + strspn(p, " ");
    size_t length = strcspn(word, "\n");
    int row = step(&w, l, word, length);
    if (row < 0) {
      if (p > from) put_row(to, from, (size_t)(p - from - 1), of);
      of = &l[w.next - 1], from = p;
    }
    p = word + length;
    if (row > 0) put_row(to, from, (size_t)(p - from), of), of = NULL;
    p += *p == '\n';
    if (row > 0) from = p;
  }
  if (end > from) put_row(to, from, (size_t)(end - from), of);
  fputs("</table>\n", to);
  if (*end) fprintf(to, "<p>%zu bytes more: tg show --stage linear</p>\n", strlen(end));
}

void trace_cost(FILE *to, const trace *t) {
  static loop_cost l[LOOPS];
  const trace_stage *linear = trace_find(t, "linear");
  fputs("<section id=\"cost\"><h2>Cost</h2>\n", to);
  if (!t->cost) fputs("<p>The cost model is of CPUs; it has nothing to say of this target.</p>\n", to);
  else {
    fprintf(to, "<table><tr><th>the model, %u thread%s</th><td class=\"n\">%.4g us</td></tr>",
            tool_threads(t->args), tool_threads(t->args) == 1 ? "" : "s", t->model * 1e6);
    if (t->seconds > 0 && t->model > 0)
      fprintf(to, "<tr><th>measured</th><td class=\"n\">%.4g us, %.3g times the model's</td></tr>", t->seconds * 1e6,
              t->seconds / t->model);
    fputs("</table>\n", to);
    if (linear) put_program(to, linear->text, l, read_loops(t->cost, l));
    fputs("<details><summary>The whole report</summary><pre class=\"wide\" tabindex=\"0\">", to);
    trace_text(to, t->cost, strlen(t->cost));
    fputs("</pre></details>\n", to);
  }
  fputs("</section>\n", to);
}
