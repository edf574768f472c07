/* SPDX-License-Identifier: MIT
 * tg bench kernels --plot: the ratios of one run as bars, with the machine that they were measured on. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "api/api.h"
#include "bench/bench.h"

enum { MOST = 64, ROW = 22, TOP = 150, LEFT = 360, UNIT = 260, BEYOND = 2 /* longer bars are cut here */ };
typedef struct { char name[96], of[48]; double value; } bar;
static bar bars[MOST];
static int bars_n;

void bench_plot_note(const char *name, const char *metric, double value, const char *unit, const char *of) {
  if (!of || strcmp(unit, "ratio") || !strcmp(of, "one core") || bars_n == MOST) return;
  bar *b = &bars[bars_n++];
  snprintf(b->name, sizeof b->name, "%s, %s", name, metric);
  snprintf(b->of, sizeof b->of, "%s", of);
  b->value = value;
}

/* What colours mean. */
typedef struct { const char *of, *colour, *text; } kind;
static const kind kinds[] = {
    {"FMA peak", "#999999", "speed over the FMA peak: the most that a core's multipliers do, measured in the same run"},
    {"OpenBLAS", "#2a6fbb", "speed over OpenBLAS with as many threads, on the same data, in turns"},
    {"constants", "#c9802f", "of a kernel whose sizes are known at launch only, over one compiled for these sizes"},
    {"plain C", "#3a9a5b", "speed over loops in C, -O3 -march=native -ffast-math, with as many threads, in turns"},
};

static const kind *kind_of(const char *of) {
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
    if (strstr(of, kinds[i].of)) return &kinds[i];
  return &kinds[sizeof kinds / sizeof *kinds - 1];
}

static void put_text(FILE *f, double x, double y, const char *anchor, const char *text) {
  fprintf(f, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\">", x, y, anchor);
  for (const char *c = text; *c; c++) {
    if (*c == '&') fputs("&amp;", f);
    else if (*c == '<') fputs("&lt;", f);
    else fputc(*c, f);
  }
  fputs("</text>\n", f);
}

/* "AMD EPYC, family 25 model 17 (znver4, vectors of 64 bytes), 2 cores": the system's words for it, and tg's. */
static void describe_machine(const tg_context *c, char *out, size_t n) {
  char line[8192], value[256], name[256] = "a processor without a name", family[32] = "", model[32] = "";
  bool virtual = false;
  FILE *f = fopen("/proc/cpuinfo", "r");
  while (f && fgets(line, sizeof line, f) && line[0] != '\n') {
    if (sscanf(line, "%*[^:]: %255[^\n]", value) == 1) {
      if (!strncmp(line, "model name", 10)) snprintf(name, sizeof name, "%s", value);
      else if (!strncmp(line, "cpu family", 10)) snprintf(family, sizeof family, ", family %.20s", value);
      else if (!strncmp(line, "model\t", 6)) snprintf(model, sizeof model, " model %.20s", value);
      else if (!strncmp(line, "flags", 5)) virtual = strstr(line, " hypervisor") != NULL;
    }
  }
  if (f) fclose(f);
  snprintf(out, n, "%s%s%s (%s, vectors of %u bytes), %ld cores%s", name, family, model, c->target.machine.name,
           c->target.vector_bytes, sysconf(_SC_NPROCESSORS_ONLN), virtual ? " of a virtual machine" : "");
}

static void put_legend(FILE *f) {
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
    double y = 58 + 18 * (double)i;
    fprintf(f, "<rect x=\"12\" y=\"%.1f\" width=\"12\" height=\"12\" fill=\"%s\"/>\n", y, kinds[i].colour);
    put_text(f, 30, y + 10, "start", kinds[i].text);
  }
  put_text(f, 12, 58 + 18 * 4 + 10, "start", "Right of the dashed line tg is faster; grey bars cannot pass it.");
}

int bench_plot(const tg_context *c, const char *path) {
  FILE *f = fopen(path, "w");
  char machine[512];
  if (!f) return fprintf(stderr, "tg: %s: %s\n", path, strerror(errno)), TOOL_WRONG;
  describe_machine(c, machine, sizeof machine);
  int height = TOP + bars_n * ROW + 34, width = LEFT + UNIT * BEYOND + 130;
  fprintf(f, "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" font-family=\"sans-serif\" "
             "font-size=\"12\">\n<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n",
          width, height);
  fputs("<g font-size=\"15\" font-weight=\"bold\">", f);
  put_text(f, 12, 24, "start", "tg's speed over that of others, f32 (tg bench kernels)");
  fputs("</g>\n", f);
  put_text(f, 12, 44, "start", machine);
  put_legend(f);
  for (int i = 0; i < bars_n; i++) {
    double y = TOP + i * ROW, v = bars[i].value > BEYOND ? BEYOND : bars[i].value;
    char text[96];
    snprintf(text, sizeof text, "%.2f of %s%s", bars[i].value, bars[i].of, bars[i].value > BEYOND ? " (cut)" : "");
    put_text(f, LEFT - 8, y + 13, "end", bars[i].name);
    fprintf(f, "<rect x=\"%d\" y=\"%.1f\" width=\"%.1f\" height=\"16\" fill=\"%s\"/>\n", LEFT, y, v * UNIT,
            kind_of(bars[i].of)->colour);
    put_text(f, LEFT + v * UNIT + 6, y + 13, "start", text);
  }
  fprintf(f, "<line x1=\"%d\" y1=\"%d\" x2=\"%d\" y2=\"%d\" stroke=\"black\" stroke-dasharray=\"3,3\"/>\n", LEFT + UNIT,
          TOP - 6, LEFT + UNIT, height - 22);
  put_text(f, LEFT + UNIT, height - 8, "middle", "1.0");
  fputs("</svg>\n", f);
  return fclose(f) ? TOOL_WRONG : TOOL_OK;
}
