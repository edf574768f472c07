/* SPDX-License-Identifier: MIT
 * tg trace: the schedule as nested tiles, a box for each loop of the program that the schedule leaves. */
#include <string.h>
#include "trace.h"

/* range(NAME, EXTENT[, KIND[, static]]) {: the comma outside of parentheses behind the extent. */
static void open_tile(FILE *to, const char *head, size_t n) {
  size_t name_n = strcspn(head, ","), at = name_n + 1, end;
  int depth = 0;
  while (at < n && head[at] == ' ') at++;
  for (end = at; end < n && (depth || (head[end] != ',' && head[end] != ')')); end++)
    depth += (head[end] == '(') - (head[end] == ')');
  const char *kind = end + 1 < n && head[end] == ',' ? head + end + 2 : "loop";
  size_t kind_n = strspn(kind, "abcdefghijklmnopqrstuvwxyz_");
  fputs("<div class=\"tile k-", to);
  trace_text(to, kind, kind_n);
  fputs("\"><span>", to);
  trace_text(to, head, name_n);
  fputs("</span> ", to);
  trace_text(to, kind, kind_n);
  fputs(", ", to);
  trace_text(to, head + at, end - at);
  fputs("\n", to);
}

void trace_tiles(FILE *to, const trace *t) {
  const trace_stage *s = trace_find(t, "schedule");
  int open = 0, lines = 0;
  fputs("<section id=\"tiles\"><h2>Tiles</h2>\n<p class=\"note\">Loops as the schedule leaves them: name, kind, how "
        "often. Blue: shared out among threads; green: lanes of a vector; amber: unrolled into copies; red: a "
        "reduction.</p>\n", to);
  for (const char *p = s ? s->text : ""; *p; p += *p == '\n') {
    const char *word = p + strspn(p, " ");
    size_t n = strcspn(word, "\n");
    p = word + n;
    bool block = n && word[n - 1] == '{';
    if (++lines > 2000 && !block && *word != '}') continue;
    if (block && !strncmp(word, "range(", 6)) open_tile(to, word + 6, n - 6), open++;
    else if (block && !strncmp(word, "kernel ", 7)) {
      fputs("<div class=\"tile\"><span>", to);
      trace_text(to, word, n - 2);
      fputs("</span>\n", to), open++;
    } else if (block) fputs("<div class=\"tile\"><code>", to), trace_text(to, word, n), fputs("</code>\n", to), open++;
    else if (n && *word == '}') {
      if (open) fputs("</div>\n", to), open--;
    } else if (n && strncmp(word, "stage ", 6)) {
      fputs("<code>", to);
      trace_text(to, word, n < 400 ? n : 400);
      fputs(n > 400 ? " ..</code>" : "</code>", to);
    }
  }
  while (open-- > 0) fputs("</div>\n", to);
  fputs("</section>\n", to);
}
