/* SPDX-License-Identifier: MIT
 * tg tune plot: a journal as a picture. Each candidate that was timed is a dot, in the order of trial and by its time
 * on a scale of logarithms; a line is the
 * best so far; marks below are those that were not right. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "tool.h"
#include "tune_plot.h"

typedef struct { double seconds; int bad; } dot;

static double number(const char *line, const char *name) {
  const char *p = strstr(line, name);
  return p ? strtod(p + strlen(name), NULL) : 0;
}

/* Timed ones, and those that failed when they were built; 0: no memory. */
static size_t read_dots(char *text, dot **out, char *kernel, size_t kernel_n) {
  size_t n = 0, cap = 256;
  dot *d = malloc(cap * sizeof *d);
  for (char *line = strtok(text, "\n"); d && line; line = strtok(NULL, "\n")) {
    bool timed = strstr(line, "{\"event\":\"time\"") == line, built = strstr(line, "{\"event\":\"build\"") == line,
         right = strstr(line, "\"outcome\":\"ok\"") != NULL;
    const char *name = strstr(line, "\"kernel\":\"");
    /* a name has none of these, whatever a file that is no journal may have */
    if (name && !*kernel) snprintf(kernel, kernel_n, "%.*s", (int)strcspn(name + 10, "\"<>&"), name + 10);
    if (!timed && !(built && !right)) continue;
    if (n == cap) {
      dot *more = realloc(d, 2 * cap * sizeof *d);
      if (!more) break;
      d = more, cap *= 2;
    }
    d[n++] = (dot){right ? number(line, "\"seconds\":") : 0, !right};
  }
  *out = d;
  return d ? n : 0;
}

int tune_plot(FILE *to, const char *journal, bool inside) {
  enum { WIDTH = 900, HEIGHT = 420, LEFT = 70, TOP = 40, BOTTOM = 50 };
  size_t bytes;
  char *text = tool_read(journal, &bytes), kernel[128] = "";
  dot *d = NULL;
  double least = INFINITY, most = 0, best = INFINITY;
  if (!text) {
    fprintf(stderr, "tg: %s cannot be read\n", journal);
    return TOOL_WRONG;
  }
  size_t n = read_dots(text, &d, kernel, sizeof kernel);
  free(text);
  for (size_t i = 0; i < n; i++)
    if (d[i].seconds > 0) least = fmin(least, d[i].seconds), most = fmax(most, d[i].seconds);
  if (!(most > 0)) {
    fprintf(stderr, "tg: %s: nothing was timed\n", journal);
    free(d);
    return TOOL_WRONG;
  }
  double low = log(least) - 0.05, high = log(most) + 0.05,
         step = (double)(WIDTH - LEFT - 20) / (double)(n > 1 ? n - 1 : 1);
  fprintf(to, "<svg %swidth=\"%d\" height=\"%d\" font-family=\"sans-serif\" "
         "font-size=\"12\">\n<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n",
          inside ? "" : "xmlns=\"http://www.w3.org/2000/svg\" ", WIDTH, HEIGHT);
  fprintf(to, "<text x=\"%d\" y=\"22\" font-size=\"15\">%s: %.4g us at best, %zu trials</text>\n", LEFT, kernel,
          least * 1e6, n);
  for (int i = 0; i <= 4; i++) {
    double y = TOP + (HEIGHT - TOP - BOTTOM) * i / 4.0, t = exp(high - (high - low) * i / 4);
    fprintf(to, "<line x1=\"%d\" x2=\"%d\" y1=\"%.1f\" y2=\"%.1f\" stroke=\"#ddd\"/><text x=\"%d\" y=\"%.1f\" "
           "text-anchor=\"end\">%.4g us</text>\n",
           LEFT, WIDTH - 20, y, y, LEFT - 6, y + 4, t * 1e6);
  }
  fprintf(to, "<polyline fill=\"none\" stroke=\"#c33\" stroke-width=\"2\" points=\"");
  for (size_t i = 0; i < n; i++) {
    if (d[i].seconds > 0) best = fmin(best, d[i].seconds);
    if (isfinite(best))
      fprintf(to, "%.1f,%.1f ", LEFT + step * (double)i,
              TOP + (HEIGHT - TOP - BOTTOM) * (high - log(best)) / (high - low));
  }
  fprintf(to, "\"/>\n");
  for (size_t i = 0; i < n; i++) {
    double x = LEFT + step * (double)i;
    if (d[i].seconds > 0)
      fprintf(to, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3\" fill=\"#36a\"/>\n", x,
             TOP + (HEIGHT - TOP - BOTTOM) * (high - log(d[i].seconds)) / (high - low));
    else
      fprintf(to, "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\" fill=\"#c33\">x</text>\n", x,
              HEIGHT - BOTTOM + 14);
  }
  fprintf(to,
          "<text x=\"%d\" y=\"%d\">trials in order; line: the best so far; x: not right, or not alive</text>\n"
          "</svg>\n",
          LEFT, HEIGHT - 12);
  free(d);
  return TOOL_OK;
}
