/* SPDX-License-Identifier: MIT
 * Rows of machines as text: in the form of machines.def, which the tree has, and as a file of the user's own, which
 * `tg measure --save` writes, as that of a GPU (chip.c). Numbers are printed and read in the C locale. A file is
 * checked when it is read: all columns must be there, each once, with values that its unit can have. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include "target/machine.h"

enum { MOST_COLUMNS = 64, WRAP = 118 };

double tg_machine_round(double v) {
  char text[64];
  tg_print_double(text, sizeof text, 2, v);
  return tg_read_double(text, NULL);
}

static const char *number(char text[64], double v) {
  tg_print_double(text, 64, 15, v);
  return text;
}

/* ---- as machines.def has it ---- */

static const double *value_of(const void *row, const tg_machine_column *c) {
  return (const double *)(const void *)((const char *)row + c->at);
}

/* Without the zeros at the end: widths that the machine does not have. */
static uint32_t widths_of(const tg_machine *m, const tg_machine_column *c) {
  uint32_t n = c->widths;
  while (n > 1 && !(value_of(m, c)[n - 1] > 0)) n--;
  return n;
}

void tg_machine_print(tg_str *out, const tg_machine *m) {
  char piece[160], text[64];
  size_t line = out->n;
  tg_str_printf(out, "M(\"%s\", \"%s\"", m->name, m->processors);
  for (uint32_t i = 0; tg_machine_column_at(i); i++) {
    const tg_machine_column *c = tg_machine_column_at(i);
    int n = snprintf(piece, sizeof piece, ".%s = %s", c->name, c->widths > 1 ? "{" : "");
    for (uint32_t w = 0; w < widths_of(m, c); w++)
      n += snprintf(piece + n, sizeof piece - (size_t)n, "%s%s", w ? ", " : "", number(text, value_of(m, c)[w]));
    if (c->widths > 1) n += snprintf(piece + n, sizeof piece - (size_t)n, "}");
    if (out->n + 2 + (size_t)n - line > WRAP) {
      tg_str_puts(out, ",\n");
      line = out->n;
      tg_str_printf(out, "  %s", piece);
    } else tg_str_printf(out, ", %s", piece);
  }
  tg_str_puts(out, ")\n");
}

/* ---- as a file ---- */

void tg_row_file_print(const tg_row_form *f, tg_str *out, const void *row, const char *silicon) {
  char text[64];
  tg_str_printf(out, "%s\n# %s\nprocessor = %s\n", f->magic, f->about, silicon);
  for (uint32_t i = 0; i < f->columns; i++) {
    const tg_machine_column *c = &f->column[i];
    tg_str_printf(out, "%s =", c->name);
    for (uint32_t w = 0; w < c->widths; w++) tg_str_printf(out, " %s", number(text, value_of(row, c)[w]));
    tg_str_puts(out, "\n");
  }
}

/* Values that a quantity of this unit can have. Below the least is also 0, where that is a possible result. */
static const struct { const char *unit; double least, most; bool zero; } ranges[] = {
    {"MHz", 100, 20000, false},        {"instructions/cycle", 0.01, 32, false}, {"cycles", 0.001, 100000, true},
    {"bytes", 16, 4096, false},        {"ways", 1, 128, false},                 {"bytes/cycle", 0.001, 100000, false},
    {"streams", 1, 1024, false},       {"ratio", 0.01, 100, false},             {"pages", 1, 1e8, false},
    {"ns", 1, 1e9, false},             {"multiplications/cycle", 1, 1e6, false},
};

/* w: the index of the width; wider vectors than 16 bytes may be missing, which is 0. */
static bool possible(const tg_machine_column *c, uint32_t w, double v) {
  for (uint32_t i = 0; i < TG_COUNT(ranges); i++)
    if (!strcmp(c->unit, ranges[i].unit))
      return (v == 0 && (ranges[i].zero || w > 0)) || (v >= ranges[i].least && v <= ranges[i].most);
  return false;
}

static const tg_machine_column *column_named(const tg_row_form *f, const char *name, uint32_t *i) {
  for (*i = 0; *i < f->columns; ++*i)
    if (!strcmp(f->column[*i].name, name)) return &f->column[*i];
  return NULL;
}

/* Reads the values of a column. NULL, or what is wrong. */
static const char *take_values(tg_env *env, const tg_machine_column *c, const char *at, double *values) {
  for (uint32_t w = 0; w < c->widths; w++) {
    char *end;
    double v = tg_read_double(at, &end);
    if (end == at || !isfinite(v))
      return c->widths > 1 ? tg_format(env, "%s wants %u numbers", c->name, c->widths)
                           : tg_format(env, "%s wants a number", c->name);
    if (!possible(c, w, v)) return tg_format(env, "%s of %.6g %s is out of range", c->name, v, c->unit);
    values[w] = v;
    at = end;
  }
  at += strspn(at, " \t\r");
  return *at ? tg_format(env, "'%s' behind the value of %s", at, c->name) : NULL;
}

typedef struct {
  const tg_row_form *form;
  tg_env *env;
  void *row;
  const char *silicon;
  bool seen[MOST_COLUMNS];
} reading;

/* NULL, or what is wrong with the line. */
static const char *take_line(reading *r, char *line) {
  line += strspn(line, " \t\r");
  char *eq = strchr(line, '='), *end = eq;
  uint32_t i;
  if (!*line || *line == '#') return NULL;
  if (!eq) return "not of the form NAME = VALUE";
  while (end > line && strchr(" \t", end[-1])) end--;
  *end = 0;
  const char *value = eq + 1 + strspn(eq + 1, " \t");
  if (!strcmp(line, "processor")) {
    if (r->silicon) return "'processor' is given twice";
    char *text = tg_strdup(r->env, value);
    for (size_t n = strlen(text); n && strchr(" \t\r", text[n - 1]); n--) text[n - 1] = 0;
    r->silicon = text;
    return NULL;
  }
  const tg_machine_column *c = column_named(r->form, line, &i);
  if (!c || i >= MOST_COLUMNS) return tg_format(r->env, "no column is named '%.64s'", line);
  if (r->seen[i]) return tg_format(r->env, "'%s' is given twice", c->name);
  r->seen[i] = true;
  return take_values(r->env, c, value, (double *)(void *)((char *)r->row + c->at));
}

bool tg_row_file_parse(const tg_row_form *f, tg_env *env, const char *text, size_t bytes, void *row,
                       const char **silicon, const char **why) {
  reading r = {.form = f, .env = env, .row = row};
  size_t head = strlen(f->magic);
  *why = "not a file of tg measure, or of another version";
  if (bytes <= head || memcmp(text, f->magic, head) || text[head] != '\n' || memchr(text, 0, bytes)) return false;
  char *at = tg_strndup(env, text + head + 1, bytes - head - 1);
  for (uint32_t n = 2; *at; n++) {
    size_t length = strcspn(at, "\n");
    char *next = at + length + (at[length] == '\n');
    at[length] = 0;
    const char *wrong = take_line(&r, at);
    if (wrong) return *why = tg_format(env, "line %u: %s", n, wrong), false;
    at = next;
  }
  for (uint32_t i = 0; i < f->columns; i++)
    if (!r.seen[i]) return *why = tg_format(env, "there is no line for %s", f->column[i].name), false;
  if (!r.silicon) return *why = "there is no line for processor", false;
  *silicon = r.silicon;
  *why = NULL;
  return true;
}

int tg_row_file_write(const tg_row_form *f, tg_env *env, const char *folder, const char *name, const void *row,
                      const char *silicon) {
  tg_str s = tg_str_new(env);
  tg_row_file_print(f, &s, row, silicon);
  return tg_write_private(folder, name, s.data, s.n);
}

bool tg_row_file_read(const tg_row_form *f, tg_env *env, const char *folder, const char *name, const char *silicon,
                      void *row, const char **why) {
  size_t bytes;
  const char *of;
  *why = NULL;
  char *text = tg_read_private(env, folder, name, true, &bytes);
  if (!text && (errno == ENOENT || errno == ENOTDIR)) return false;
  if (!text) *why = errno == EPERM ? "other users can write it, or its folder" : "it cannot be read";
  else if (tg_row_file_parse(f, env, text, bytes, row, &of, why) && strcmp(of, silicon))
    *why = "it was measured on another processor";
  return !*why;
}

/* ---- that of the host ---- */

static tg_row_form host_form(void) {
  uint32_t n = 0;
  while (tg_machine_column_at(n)) n++;
  return (tg_row_form){.magic = "tg-machine 1",
                       .about = "What tg measured of this machine; docs/model.md says what each line is. It counts on "
                                "the processor below alone.",
                       .column = tg_machine_column_at(0), .columns = n};
}

void tg_machine_file_print(tg_str *out, const tg_machine *m, const char *silicon) {
  const tg_row_form f = host_form();
  tg_row_file_print(&f, out, m, silicon);
}

bool tg_machine_file_parse(tg_env *env, const char *text, size_t bytes, tg_machine *m, const char **silicon,
                           const char **why) {
  const tg_row_form f = host_form();
  tg_machine made = {.name = "measured", .processors = ""};
  if (!tg_row_file_parse(&f, env, text, bytes, &made, silicon, why)) return false;
  *m = made;
  return true;
}

int tg_machine_file_write(tg_env *env, const char *folder, const tg_machine *m, const char *silicon) {
  const tg_row_form f = host_form();
  return tg_row_file_write(&f, env, folder, TG_MACHINE_FILE, m, silicon);
}

bool tg_machine_file_read(tg_env *env, const char *folder, const char *silicon, tg_machine *m, const char **why) {
  const tg_row_form f = host_form();
  tg_machine made = {.name = "measured", .processors = ""};
  if (!tg_row_file_read(&f, env, folder, TG_MACHINE_FILE, silicon, &made, why)) return false;
  *m = made;
  return true;
}
