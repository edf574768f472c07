/* SPDX-License-Identifier: MIT
 * Plants the faults of tests/mutants/faults in a copy of the tree: each becomes a switch that the environment turns on
 * at run time (tests/mutants/mutant.h).
 *   mutants_plant           checks the table: every row fits exactly one place of its file, no two have the same name
 *   mutants_plant --list    the names, behind each a tab and its place
 *   mutants_plant FOLDER    writes each file that the input names to FOLDER, with its faults; what is there already as
 *                           it should be stays untouched
 * The table says what a row looks like. White space of any kind and length is alike, so a row still fits a line that
 * was broken anew. */
#define _GNU_SOURCE
#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/stat.h>
#include "../test.h"

#define TABLE "tests/mutants/faults"
enum { VALUE = 10 };   /* the column at which a value begins */

typedef enum { IN, RIGHT, WRONG, PLANTED, ROW, NTH, FIELDS } field;
static const char *const field_name[FIELDS] = {"in", "right", "wrong", "planted", "row", "nth"};

typedef struct {
  int line;               /* in the table */
  char *file, *name;      /* "" is no name: what the faults of a file need besides */
  char *text[FIELDS];     /* NULL: there is none */
  size_t from, to;        /* the right text in its file */
  int at;                 /* the line where it begins */
} fault;

typedef struct { fault *data; size_t n; } faults;

static void *need(void *p) {
  if (p) return p;
  fprintf(stderr, "mutants_plant: out of memory\n");
  exit(2);
}

/* NULL if there is no such file. */
static char *contents(const char *path, size_t *n) {
  FILE *f = fopen(path, "rb");
  if (!f) return NULL;
  char *text = NULL;
  size_t room = 0, got;
  *n = 0;
  do {
    if (*n + 4096 > room) text = need(realloc(text, (room = 2 * room + 8192)));
    *n += got = fread(text + *n, 1, room - *n - 1, f);
  } while (got);
  text[*n] = 0;
  fclose(f);
  return text;
}

static bool wordy(char c) { return isalnum((unsigned char)c) || c == '_'; }
static bool blank(char c) { return isspace((unsigned char)c); }

/* How much of text the pattern fits, where any white space fits any other; 0: it does not. */
static size_t fits(const char *text, const char *pattern, const char *end) {
  const char *t = text, *p = pattern;
  while (p < end) {
    if (blank(*p)) {
      if (!blank(*t)) return 0;
      while (blank(*t)) t++;
      while (p < end && blank(*p)) p++;
    } else if (*t++ != *p++) return 0;
  }
  return (size_t)(t - text);
}

/* What a row looks for: the right text, and what stands before and behind it. */
typedef struct { const char *before, *before_end, *right, *right_end, *after, *after_end; } wanted;

static const char *strip(const char *from, const char **to) {
  while (from < *to && blank(*from)) from++;
  while (from < *to && blank((*to)[-1])) (*to)--;
  return from;
}

static wanted wanted_of(const fault *f) {
  wanted w = {0};
  w.right_end = f->text[RIGHT] + strlen(f->text[RIGHT]);
  w.right = strip(f->text[RIGHT], &w.right_end);
  const char *in = f->text[IN], *mark = in ? strchr(in, '@') : NULL;
  if (!mark) return w;
  w.before = in, w.before_end = mark, w.after = mark + 1, w.after_end = in + strlen(in);
  return w;
}

/* The number of places that the row fits; the last one's in f. Words are fitted whole. */
static int places(fault *f, const char *text, size_t n) {
  const wanted w = wanted_of(f);
  int count = 0, line = 1;
  for (size_t i = 0; i < n; i++) {
    line += i && text[i - 1] == '\n';
    if (i && wordy(text[i]) && wordy(text[i - 1])) continue;
    size_t before = w.before < w.before_end ? fits(text + i, w.before, w.before_end) : 0;
    if (w.before < w.before_end && !before) continue;
    const char *from = text + i + before;
    size_t right = fits(from, w.right, w.right_end);
    if (!right) continue;
    size_t after = w.after < w.after_end ? fits(from + right, w.after, w.after_end) : 0;
    if (w.after < w.after_end && !after) continue;
    const char *end = from + right + after;
    if (wordy(end[-1]) && wordy(*end)) continue;
    count++;
    f->from = (size_t)(from - text), f->to = f->from + right, f->at = line;
    for (const char *s = text + i; s < from; s++) f->at += *s == '\n';
  }
  return count;
}

static int wrong_table(int line, const char *what) {
  fprintf(stderr, "%s:%d: %s\n", TABLE, line, what);
  printf("0 passed, 1 failed\n");
  exit(1);
}

static char *joined(char *a, const char *b) {
  char *r = NULL;
  if (asprintf(&r, "%s\n%s", a, b) < 0) need(NULL);
  free(a);
  return r;
}

static faults read_table(void) {
  size_t n;
  char *text = contents(TABLE, &n), *next;
  if (!text) wrong_table(0, strerror(errno));
  faults all = {0};
  char **last = NULL;   /* the value that a line may go on with */
  int line = 0;
  for (char *s = text; *s; s = next) {
    line++;
    next = s + strcspn(s, "\n");
    if (*next) *next++ = 0;
    if (!*s || *s == '#') { last = NULL; continue; }
    if (*s != ' ') {
      char *colon = strstr(s, ":");
      if (!colon || (colon[1] && colon[1] != ' ')) wrong_table(line, "'FILE: NAME', or two spaces and a field");
      *colon = 0;
      all.data = need(realloc(all.data, (all.n + 1) * sizeof *all.data));
      all.data[all.n++] = (fault){.line = line, .file = s, .name = colon[1] ? colon + 2 : colon + 1};
      last = NULL;
      continue;
    }
    if (strspn(s, " ") >= VALUE) {
      if (!last) wrong_table(line, "this line goes on with nothing");
      *last = joined(*last, s + VALUE);
      continue;
    }
    int k = 0;
    size_t length = strcspn(s + 2, " ");
    while (k < FIELDS && (strlen(field_name[k]) != length || strncmp(field_name[k], s + 2, length))) k++;
    bool aligned = strlen(s) > VALUE && strspn(s + 2 + length, " ") == VALUE - 2 - length;
    if (!all.n || strspn(s, " ") != 2 || k == FIELDS || !aligned)
      wrong_table(line, "a field is two spaces, in, right, wrong, planted, row or nth, and its text from column 11 on");
    last = &all.data[all.n - 1].text[k];
    if (*last) wrong_table(line, "this field stands there twice");
    *last = need(strdup(s + VALUE));
  }
  for (size_t i = 0; i < all.n; i++) {
    const fault *f = &all.data[i];
    const char *mark = f->text[IN] ? strchr(f->text[IN], '@') : NULL, *planted = f->text[PLANTED];
    const char *why = NULL;
    if (!f->text[RIGHT] || !f->text[WRONG] == !planted) why = "a row has a right text, and a wrong or a planted one";
    else if (f->text[IN] && (!mark || strchr(mark + 1, '@'))) why = "'in' has one @, for the right text";
    else if (!*f->name && (!planted || strstr(planted, "FAULT"))) why = "a fault has a name";
    else if (*f->name && planted && !strstr(planted, "FAULT")) why = "what is planted says with FAULT when it is on";
    else if (strpbrk(f->name, "\"\\\t")) why = "a name has no quotes, backslashes and tabs";
    else if (f->text[ROW] && f->text[NTH]) why = "'row' or 'nth', not both";
    if (why) wrong_table(f->line, why);
  }
  return all;
}

static bool overlap(const fault *a, const fault *b) {
  if (a->to <= b->from || b->to <= a->from) return false;
  bool within = (a->from >= b->from && a->to <= b->to) || (b->from >= a->from && b->to <= a->to);
  return !within || a->text[PLANTED] || b->text[PLANTED];   /* within another's right text: a switch within a switch */
}

static void check(faults all) {
  for (size_t i = 0; i < all.n; i++) {
    fault *f = &all.data[i];
    size_t n = 0;
    char *text = contents(f->file, &n);
    int count = text ? places(f, text, n) : 0;
    CHECK(text, "%s:%d: there is no file %s", TABLE, f->line, f->file);
    CHECK(count == 1, "%s:%d: '%s' fits %d places of %s: it has to be one (a longer 'in' tells places apart)", TABLE,
          f->line, f->name, count, f->file);
    for (size_t k = 0; k < i; k++) {
      const fault *g = &all.data[k];
      if (*f->name)
        CHECK(strcmp(f->name, g->name), "%s:%d: '%s' is the name of line %d, too", TABLE, f->line, f->name, g->line);
      if (!strcmp(f->file, g->file))
        CHECK(!overlap(f, g), "%s:%d: '%s' overlaps '%s' of line %d", TABLE, f->line, f->name, g->name, g->line);
    }
    free(text);
  }
}

/* When the fault is on, as C. */
static void put_switch(FILE *out, const fault *f) {
  const char *row = f->text[ROW], *nth = f->text[NTH];
  fprintf(out, "tg_mutant_on(\"%s\", %s, (long)(%s))", f->name, row ? row : "NULL", nth ? nth : "-1");
}

static void put_planted(FILE *out, const fault *f) {
  const char *s = f->text[PLANTED], *mark;
  for (; (mark = strstr(s, "FAULT")); s = mark + strlen("FAULT")) {
    fwrite(s, 1, (size_t)(mark - s), out);
    put_switch(out, f);
  }
  fputs(s, out);
}

/* In one line: the place may be a macro's. */
static void put_wrong(FILE *out, const fault *f) {
  put_switch(out, f);
  fputs(" ? (", out);
  for (const char *s = f->text[WRONG]; *s; s++) {
    fputc(*s == '\n' ? ' ' : *s, out);
    if (*s == '\n') while (s[1] == ' ') s++;
  }
  fputs(") : (", out);
}

/* Outer ones first. */
static int by_place(const void *x, const void *y) {
  const fault *a = x, *b = y;
  if (a->from != b->from) return a->from < b->from ? -1 : 1;
  if (a->to != b->to) return a->to > b->to ? -1 : 1;
  return a->line - b->line;
}

static char *with_faults(const fault *f, size_t n, const char *text, size_t length, size_t *out_length) {
  char *result = NULL;
  FILE *out = need(open_memstream(&result, out_length));
  size_t next = 0;
  for (size_t i = 0; i <= length; i++) {
    for (size_t k = 0; k < n; k++)
      if (f[k].to == i && !f[k].text[PLANTED]) fputs("))", out);
    for (; next < n && f[next].from == i; next++) {
      if (!f[next].text[PLANTED]) { fputc('(', out); put_wrong(out, &f[next]); continue; }
      put_planted(out, &f[next]);
      i = f[next].to;
    }
    if (i < length) fputc(text[i], out);
  }
  fclose(out);
  return need(result);
}

static bool folder_of(char *path) {
  for (char *s = strchr(path + 1, '/'); s; s = strchr(s + 1, '/')) {
    *s = 0;
    bool ok = !mkdir(path, 0777) || errno == EEXIST;
    *s = '/';
    if (!ok) return false;
  }
  return true;
}

static bool plant(faults all, const char *folder, const char *file) {
  struct stat mode;
  size_t n, old_n = 0, length, here = 0;
  char *text = contents(file, &n), *path = NULL;
  if (!text || stat(file, &mode) || asprintf(&path, "%s/%s", folder, file) < 0) return false;
  fault *f = need(calloc(all.n + 1, sizeof *f));
  for (size_t i = 0; i < all.n; i++) {
    if (strcmp(all.data[i].file, file)) continue;
    f[here] = all.data[i];
    if (places(&f[here++], text, n) == 1) continue;
    const fault *bad = &f[here - 1];
    fprintf(stderr, "%s:%d: '%s' does not fit: build/tests/mutants_plant tells more\n", TABLE, bad->line, bad->name);
    return false;
  }
  qsort(f, here, sizeof *f, by_place);
  char *now = with_faults(f, here, text, n, &length), *old = contents(path, &old_n);
  bool ok = true;
  if (!old || old_n != length || memcmp(old, now, length)) {
    FILE *out = folder_of(path) ? fopen(path, "wb") : NULL;
    ok = out && fwrite(now, 1, length, out) == length;
    if (out) ok &= !fclose(out);
    ok = ok && !chmod(path, mode.st_mode & 0777);
  }
  free(old), free(now), free(f), free(path), free(text);
  return ok;
}

int main(int argc, char **argv) {
  faults all = read_table();
  if (argc == 2 && !strcmp(argv[1], "--list")) {
    for (size_t i = 0; i < all.n; i++) {
      fault *f = &all.data[i];
      size_t n;
      char *text = contents(f->file, &n);
      bool here = *f->name && !f->text[ROW] && !f->text[NTH];   /* what the others are called only their tables tell */
      if (text && here && places(f, text, n) == 1) printf("%s\t%s:%d\n", f->name, f->file, f->at);
      free(text);
    }
    return 0;
  }
  if (argc == 2 && argv[1][0] != '-') {
    char file[4096];
    while (fgets(file, sizeof file, stdin)) {
      file[strcspn(file, "\n")] = 0;
      if (plant(all, argv[1], file)) continue;
      fprintf(stderr, "mutants_plant: cannot write %s to %s\n", file, argv[1]);
      return 1;
    }
    return 0;
  }
  if (argc > 1) return fprintf(stderr, "usage: mutants_plant [--list | FOLDER]\n"), 2;
  check(all);
  return TEST_END();
}
