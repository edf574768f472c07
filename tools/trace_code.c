/* SPDX-License-Identifier: MIT
 * tg trace: the machine code, with the line of the kernel that each instruction comes from, beside the kernel with how
 * many instructions come from each of its lines. Directives are left out. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>
#include "trace.h"

typedef struct { const char *at; size_t n; } span;   /* a line of text, without its end */

static bool next_line(const char **text, span *out) {
  if (!**text) return false;
  *out = (span){*text, strcspn(*text, "\n")};
  *text += out->n + (out->at[out->n] == '\n');
  return true;
}

static span trimmed(span s) {
  while (s.n && (*s.at == ' ' || *s.at == '\t')) s.at++, s.n--;
  return s;
}

static bool begins(span s, const char *word) { return s.n >= strlen(word) && !strncmp(s.at, word, strlen(word)); }

/* Reads one line of assembly. line: of the kernel, from there on; skips: it is in a section of line tables. */
typedef struct { unsigned line; bool skips; } place;
enum kind { NOTHING, LABEL, INSTRUCTION };
static enum kind read_line(span s, place *p) {
  span t = trimmed(s);
  if (begins(t, ".section") || begins(t, ".text") || begins(t, ".data"))
    p->skips = begins(t, ".section") && memmem(t.at, t.n, "debug", 5) != NULL;
  if (begins(t, ".loc")) {   /* .loc FILE LINE COLUMN */
    char *end;
    strtoul(t.at + 4, &end, 10);
    p->line = (unsigned)strtoul(end, NULL, 10);
  }
  if (p->skips || !t.n || begins(t, "#") || begins(t, "//") || begins(t, ";")) return NOTHING;
  bool label = t.at == s.at && memchr(t.at, ':', t.n);
  if (label) return begins(t, ".Ltmp") || begins(t, "$L__tmp") || begins(t, ".Lfunc") ? NOTHING : LABEL;
  return *t.at == '.' ? NOTHING : INSTRUCTION;
}

static unsigned lines_of(const char *text) {
  unsigned n = 0;
  for (span s; next_line(&text, &s);) n++;
  return n;
}

static void put_kernel(FILE *to, const trace *t) {
  unsigned n = lines_of(t->text), *made = calloc(n + 1, sizeof *made), i = 0;
  place p = {0};
  span s;
  for (const char *at = t->located; made && next_line(&at, &s);)
    if (read_line(s, &p) == INSTRUCTION) made[p.line <= n ? p.line : 0]++;
  fputs("<pre class=\"wide\" aria-label=\"The kernel\">", to);
  for (const char *at = t->text; made && next_line(&at, &s);) {
    i++;
    fprintf(to, made[i] ? "<span class=\"src\" tabindex=\"0\" data-l=\"%u\">" : "<span>", i);
    if (made[i]) fprintf(to, "<i>%6u %4u</i> ", made[i], i);
    else fprintf(to, "<i>       %4u</i> ", i);
    trace_text(to, s.at, s.n);
    fputs("</span>\n", to);
  }
  fputs("</pre>\n", to);
  free(made);
}

/* text: with lines, or the stage. The line stands where it changes. */
static void put_code(FILE *to, const char *text, bool located) {
  place p = {0};
  span s;
  size_t bytes = 0, more = 0;
  unsigned last = 0;
  fputs("<pre class=\"wide\" tabindex=\"0\" aria-label=\"Machine code\">", to);
  while (next_line(&text, &s)) {
    enum kind kind = read_line(s, &p);
    if (kind == NOTHING) continue;
    bytes += s.n + 1;
    if (bytes > TRACE_SHOWN && ++more) continue;
    if (kind == LABEL) {
      fputs("<b>", to), trace_text(to, s.at, s.n), fputs("</b>", to);
      last = 0;
      continue;
    }
    if (!located || !p.line) fputs("<span><i>    </i>", to);
    else if (p.line == last) fprintf(to, "<span data-l=\"%u\"><i>    </i>", p.line);
    else fprintf(to, "<span data-l=\"%u\"><i>%4u</i>", p.line, p.line);
    last = p.line;
    trace_text(to, s.at, s.n);
    fputs("</span>\n", to);
  }
  fputs("</pre>", to);
  if (more) fprintf(to, "<p>%zu lines more: tg show --stage asm</p>\n", more);
}

void trace_code(FILE *to, const trace *t) {
  const trace_stage *s = trace_find(t, "asm");
  fputs("<section id=\"code\"><h2>Machine code</h2>\n", to);
  if (!s) fputs("<p>This target has none as text.</p>\n", to);
  else {
    fputs(t->located ? "<p class=\"note\">In front of an instruction stands the line of the kernel that it comes from"
                     : "<p class=\"note\">Instructions and labels", to);
    fputs(t->located && t->text ? ", in front of a line of the kernel how many do: choose one to see them.</p>\n"
                                : ".</p>\n", to);
    fputs("<div class=\"beside\">\n", to);
    if (t->located && t->text) put_kernel(to, t);
    put_code(to, t->located ? t->located : s->text, t->located != NULL);
    fputs("</div>\n", to);
  }
  fputs("</section>\n", to);
}
