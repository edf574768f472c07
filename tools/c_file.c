/* SPDX-License-Identifier: MIT
 * Kernels of C files for the commands that take a .tg file: the text of TG_KERNEL (tg/dsl.h) as a .tg file has it, on
 * the same lines, so that errors name those of the C file. The body's C is not run: what is not one of tg's macros is
 * an error, save for tg_let of a number, or of a name that the command line gives a value. */
#define _GNU_SOURCE
#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "tool.h"

typedef struct {
  const char *file, *text, *at;
  const tool_args *args;
  bool *taken;                   /* the bindings that were names of C */
  FILE *out;
  char message[512];             /* "": no error so far */
} reader;

static bool is_name(char c) { return isalnum((unsigned char)c) || c == '_'; }

static int line_of(const reader *r, const char *at) {
  int n = 1;
  for (const char *c = r->text; c < at; c++) n += *c == '\n';
  return n;
}

__attribute__((format(printf, 3, 4))) static bool wrong(reader *r, const char *at, const char *format, ...) {
  va_list args;
  if (*r->message) return false;
  int n = snprintf(r->message, sizeof r->message, "%s:%d: error: ", r->file, line_of(r, at));
  va_start(args, format);
  vsnprintf(r->message + n, sizeof r->message - (size_t)n, format, args);
  va_end(args);
  return false;
}

/* Behind a comment, a string or a character that begins here; else here. */
static const char *past_quoted(const char *c) {
  if (c[0] == '/' && c[1] == '/') return c + strcspn(c, "\n");
  if (c[0] == '/' && c[1] == '*') return (c = strstr(c + 2, "*/")) ? c + 2 : NULL;
  if (*c != '"' && *c != '\'') return c;
  const char quote = *c++;
  while (*c && *c != quote && *c != '\n') c += 1 + (*c == '\\' && c[1]);
  return *c == quote ? c + 1 : NULL;
}

/* From an opening bracket to its closing one; NULL: it has none. */
static const char *closing(const char *open) {
  int depth = 0;
  for (const char *c = open; c && *c;) {
    const char *next = past_quoted(c);
    if (next != c) {
      c = next;
      continue;
    }
    if (strchr("([{", *c)) depth++;
    if (strchr(")]}", *c) && !--depth) return c;
    c++;
  }
  return NULL;
}

static const char *past_blanks(const char *c) {
  while (c && *c && (isspace((unsigned char)*c) || (*c == '/' && (c[1] == '/' || c[1] == '*'))))
    c = isspace((unsigned char)*c) ? c + 1 : past_quoted(c);
  return c;
}

static size_t name_at(const char *c) {
  size_t n = 0;
  while (is_name(c[n])) n++;
  return isdigit((unsigned char)*c) ? 0 : n;
}

static bool is(const char *at, size_t n, const char *word) { return n == strlen(word) && !strncmp(at, word, n); }

/* The lines between two places, and nothing else of them. */
static void put_lines(reader *r, const char *from, const char *to) {
  for (; from < to; from++)
    if (*from == '\n') fputc('\n', r->out);
}

static void put(reader *r, const char *from, const char *to) { fwrite(from, 1, (size_t)(to - from), r->out); }

/* tg_let(NAME, VALUE): a number; else what the command line binds NAME to. */
static bool put_let(reader *r, const char *open, const char *close) {
  const char *name = past_blanks(open + 1), *comma = memchr(open, ',', (size_t)(close - open));
  size_t n = name_at(name);
  if (!n || !comma) return wrong(r, open, "tg_let takes a name and a value");
  const char *value = past_blanks(comma + 1);
  char *end;
  long long whole = strtoll(value, &end, 0);
  if (end > value && end + strspn(end, "lLuU") == close) {
    fprintf(r->out, "let %.*s = %lld", (int)n, name, whole);
    return true;
  }
  (void)strtod(value, &end);
  if (end > value && end + strspn(end, "fF") == close) {
    fprintf(r->out, "let %.*s = %.*s", (int)n, name, (int)(close - value), value);
    return true;
  }
  for (int i = 0; i < r->args->bindings; i++)
    if (is(name, n, r->args->binding[i].name)) {
      fprintf(r->out, "let %.*s = %lld", (int)n, name, (long long)r->args->binding[i].value);
      return r->taken[i] = true;
    }
  return wrong(r, open, "tg_let(%.*s, %.*s) takes a value that only the C program has: give it as %.*s=NUMBER", (int)n,
               name, (int)(close - value), value, (int)n, name);
}

/* One of tg's macros, with what it is called with. */
static bool put_macro(reader *r, const char *at, size_t n) {
  static const char *const words[] = {"tg_in",   "tg_out", "tg_inout", "tg_define_reg", "tg_define_local",
                                      "tg_knob", "tg_opt", "tg_def",   "tg_require",    "tg_barrier",
                                      "tg_range", "tg_if", "tg_carry", "tg_call"};
  const char *open = past_blanks(at + n), *close;
  bool known = false;
  if (is(at, n, "tg_merge")) {
    put(r, at + 3, at + n);
    r->at = at + n;
    return true;
  }
  for (size_t i = 0; i < sizeof words / sizeof *words; i++) known |= is(at, n, words[i]);
  if (!known && !is(at, n, "tg") && !is(at, n, "tg_let"))
    return wrong(r, at,
                 "'%.*s' is C, and the tool does not run the bodies of kernels: it reads tg's macros alone\n"
                 "    tune it from a program: tg_tune of tg/tune.h",
                 (int)n, at);
  if (*open != '(' || !(close = closing(open))) return wrong(r, at, "%.*s(..) is not closed", (int)n, at);
  r->at = close + 1;
  if (is(at, n, "tg_let")) return put_let(r, open, close);
  fprintf(r->out, "%*s", is(at, n, "tg") ? (int)(open + 1 - at) : 3, "");   /* columns stay */
  if (is(at, n, "tg")) put(r, open + 1, close);                             /* the statement itself */
  else put(r, at + 3, close + 1);
  return true;
}

/* The body from its '{' to its '}'. */
static bool put_body(reader *r, const char *open, const char *close) {
  for (r->at = open; r->at <= close;) {
    const char *quoted = past_quoted(r->at);
    size_t n = name_at(r->at);
    if (!quoted) return wrong(r, r->at, "this comment or text does not end");
    if (quoted != r->at && *r->at == '/') {
      put_lines(r, r->at, quoted);
      r->at = quoted;
    } else if (n) {
      if (!put_macro(r, r->at, n)) return false;
    } else if (strchr("{};", *r->at) || isspace((unsigned char)*r->at)) fputc(*r->at++, r->out);
    else return wrong(r, r->at, "'%c' begins no macro of tg's, and the tool runs no C of a kernel's body", *r->at);
  }
  return true;
}

/* TG_KERNEL(name, params) { body }, or TG_PROC: at: behind the word. False: it is none, or has an error. */
static bool put_definition(reader *r, const char *at, const char *word) {
  const char *open = past_blanks(at), *close = open && *open == '(' ? closing(open) : NULL,
             *body = close ? past_blanks(close + 1) : NULL, *end = body && *body == '{' ? closing(body) : NULL;
  if (!close || !body || *body != '{') return false;
  const char *name = past_blanks(open + 1), *rest = name + name_at(name), *comma = past_blanks(rest);
  if (!end) return wrong(r, at, "the body of %.*s is not closed", (int)(rest - name), name);
  fprintf(r->out, "%s ", word);
  put_lines(r, at, name);
  put(r, name, rest);
  fputc('(', r->out);
  if (*comma == ',') put(r, comma + 1, close);
  fputs(") ", r->out);
  put_lines(r, close, body);
  if (!put_body(r, body, end)) return false;
  r->at = end + 1;
  return true;
}

/* Is it the kernel asked for? names: those met, for a message. */
static bool is_wanted(const reader *r, const char *at, bool done, char *names, size_t n) {
  const char *open = past_blanks(at), *name = *open == '(' ? past_blanks(open + 1) : open;
  size_t length = name_at(name), used = strlen(names);
  if (*open != '(' || !length) return false;
  snprintf(names + used, n - used, "%s%.*s", used ? ", " : "", (int)length, name);
  return !done && (!r->args->kernel || is(name, length, r->args->kernel));
}

static bool convert(reader *r, char *names, size_t names_n) {
  bool done = false, fresh = true;   /* fresh: nothing but blanks on this line so far */
  for (const char *c = r->text; *c;) {
    const char *next = past_quoted(c);
    size_t n = name_at(c);
    if (!next) next = c + 1;
    if (next == c && fresh && *c == '#')   /* to the end of the directive */
      for (next = c; *next && (*next != '\n' || next[-1] == '\\');) next++;
    else if (next == c && n) {
      bool kernel = is(c, n, "TG_KERNEL") && is_wanted(r, c + n, done, names, names_n), proc = is(c, n, "TG_PROC");
      if ((kernel || proc) && put_definition(r, c + n, kernel ? "kernel" : "proc")) {
        done |= kernel;
        c = r->at;
        continue;
      }
      if (*r->message) return false;
      next = c + n;
    } else if (next == c) next++;
    put_lines(r, c, next);
    fresh = next[-1] == '\n' || (fresh && isspace((unsigned char)next[-1]));
    c = next;
  }
  return done;
}

bool tool_is_c_file(const char *path) {
  static const char *const ends[] = {".c", ".h", ".cc", ".cpp", ".cxx", ".hpp"};
  size_t n = strlen(path);
  for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
    if (n > strlen(ends[i]) && !strcmp(path + n - strlen(ends[i]), ends[i])) return true;
  return false;
}

char *tool_c_kernel(const tool_args *a, const char *text, bool *taken) {
  char *out = NULL, names[512] = "";
  size_t n;
  reader r = {.file = a->file, .text = text, .args = a, .taken = taken, .out = open_memstream(&out, &n)};
  if (!r.out) return NULL;
  bool ok = convert(&r, names, sizeof names);
  fclose(r.out);
  if (ok) return out;
  if (*r.message) fprintf(stderr, "%s\n", r.message);
  else if (!*names) fprintf(stderr, "tg: %s: there is no TG_KERNEL(name, ..) { .. } in it\n", a->file);
  else fprintf(stderr, "tg: %s: no kernel is named '%s'; there are %s\n", a->file, a->kernel, names);
  free(out);
  return NULL;
}
