/* SPDX-License-Identifier: MIT
 * What the commands share. */
#define _GNU_SOURCE
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>
#include "store/store.h"
#include "tg/device.h"
#include "tool.h"

double tool_now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int by_value(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

double tool_median(double *samples, int n) {
  qsort(samples, (size_t)n, sizeof *samples, by_value);
  return n % 2 ? samples[n / 2] : (samples[n / 2 - 1] + samples[n / 2]) / 2;
}

void *tool_pages(size_t bytes) {
  size_t size = (bytes + (2u << 20) - 1) & ~(size_t)((2u << 20) - 1);
  void *p = aligned_alloc(2u << 20, size ? size : 2u << 20);
  if (!p) {
    fprintf(stderr, "tg: no memory for %zu bytes\n", bytes);
    exit(TOOL_BROKEN);
  }
  madvise(p, size, MADV_HUGEPAGE); /* the same for every contestant: they share the buffers */
  memset(p, 0, bytes);
  return p;
}

char *tool_read(const char *path, size_t *n) {
  FILE *f = fopen(path, "rb");
  if (!f) return NULL;
  size_t cap = 1 << 16, len = 0;
  char *p = malloc(cap + 1);
  for (size_t k; p && (k = fread(p + len, 1, cap - len, f)) > 0;)
    if ((len += k) == cap) {
      char *wider = realloc(p, 2 * cap + 1);
      if (!wider) free(p);
      p = wider;
      cap *= 2;
    }
  int err = ferror(f) ? errno : p ? 0 : ENOMEM;
  fclose(f);
  if (err) {
    free(p);
    errno = err;
    return NULL;
  }
  p[len] = 0;
  if (n) *n = len;
  return p;
}

void (*tool_figure_heard)(const char *name, const char *metric, double value, const char *unit, const char *of);

void tool_figure(bool json, const char *bench, const char *name, const char *metric, double value, const char *unit,
                 const char *of) {
  if (tool_figure_heard) tool_figure_heard(name, metric, value, unit, of);
  if (json) {
    printf("{\"bench\":\"%s\",\"case\":\"%s\",\"metric\":\"%s\",\"value\":%.6g,\"unit\":\"%s\"", bench, name, metric,
           value, unit);
    if (of) printf(",\"of\":\"%s\"", of);
    puts("}");
  } else printf("  %-28s %-34s %12.5g %-10s %s%s\n", name, metric, value, unit, of ? "of " : "", of ? of : "");
  fflush(stdout);
}

/* ---- arguments ---- */

int tool_missing(const char *command, const char *what) {
  fprintf(stderr, "%s: %s is missing; %s --help tells more\n", command, what, command);
  return TOOL_USAGE;
}

/* NAME=VALUE, or a range of values that are known at launch: NAME=LEAST..MOST, NAME=LEAST..MOST%MULTIPLE. */
static bool binding(char *text, tool_args *a) {
  char *eq = strchr(text, '='), *end;
  if (!eq) return false;
  errno = 0;
  long long v = strtoll(eq + 1, &end, 0), most = v, multiple = 1;
  if (end == eq + 1) return false;
  if (!strncmp(end, "..", 2)) {
    char *from = end + 2;
    most = strtoll(from, &end, 0);
    if (end == from || most < v) return false;
    if (*end == '%') {
      from = end + 1;
      multiple = strtoll(from, &end, 0);
      if (end == from || multiple < 1) return false;
    }
  }
  if (*end || errno) return false;
  *eq = 0;
  a->binding[a->bindings++] = (tool_binding){text, v, most, multiple};
  return true;
}

typedef struct { const char *name; bool *flag; const char **text; int *number; double *real; int least; } option;

/* What is wrong with the value, or NULL. */
static const char *take(const option *o, const char *value) {
  char *end;
  if (o->text) return *o->text = value, NULL;
  double real = strtod(value, &end);
  if (end == value || *end || !isfinite(real)) return "a number is wanted";
  if (o->real) *o->real = real;
  else {
    errno = 0;
    long number = strtol(value, &end, 10);
    if (*end || errno || number > INT_MAX || number < INT_MIN) return "a whole number of 32 bits is wanted";
    *o->number = (int)number;
  }
  return real < o->least ? o->least ? "-1 is the least" : "0 is the least" : NULL;
}

/* An option's value: behind '=' or the next argument. */
static bool match(const option *o, int argc, char **argv, int *i, tool_args *a, const char **given,
                  const char **wrong) {
  const char *arg = argv[*i];
  size_t n = strlen(o->name);
  if (strncmp(arg, o->name, n) || (arg[n] && arg[n] != '=')) return false;
  if (o->flag) {
    if (arg[n]) *wrong = "takes no value";
    else *o->flag = true;
    return true;
  }
  const char *value = arg[n] ? arg + n + 1 : *i + 1 < argc ? argv[++*i] : NULL;
  if (!value) *wrong = "wants a value";
  else if (!strcmp(o->name, "--opt")) {
    if (a->opts == (int)(sizeof a->opt / sizeof *a->opt)) *wrong = "given too often";
    else a->opt[a->opts++] = value;
  } else *given = value, *wrong = take(o, value);
  return true;
}

static bool refuse(const char *given, const tool_args *a) {
  if (given[0] != '-' && strchr(given, '='))
    fprintf(stderr,
            "tg: '%s': NAME=INTEGER binds a parameter or a knob, NAME=LEAST..MOST a parameter that launches give\n",
            given);
  else if (given[0] != '-') fprintf(stderr, "tg: '%s': one file is enough, '%s' is given already\n", given, a->file);
  else fprintf(stderr, "tg: '%s' is no option of this command; --help lists them\n", given);
  return false;
}

/* One word of the command line: an option of this command, a binding, or the file. */
static bool take_word(const option *options, size_t n, int argc, char **argv, int *i, tool_args *a, const char *usage) {
  const char *wrong = NULL, *given = NULL;
  char *word = argv[*i];
  bool known = false;
  for (size_t k = 0; word[0] == '-' && k < n && !known; k++) {
    known = match(&options[k], argc, argv, i, a, &given, &wrong);
    /* an option that this command's usage does not speak of is no option of it */
    const char *spoken = strcmp(options[k].name, "-o") ? options[k].name : "-o FILE";
    if (known && options[k].flag != &a->help && !strstr(usage, spoken)) known = false;
  }
  if (known && wrong && given) fprintf(stderr, "tg: %.*s %s: %s\n", (int)strcspn(word, "="), word, given, wrong);
  else if (known && wrong) fprintf(stderr, "tg: %s %s\n", word, wrong);
  if (known) return !wrong;
  if (word[0] != '-' && a->file && !strcmp(a->file, "attention") && strstr(usage, "[WORD ..]") &&
      a->words < (int)(sizeof a->word / sizeof *a->word))
    return a->word[a->words++] = word, true;
  if (word[0] != '-' && strchr(word, '=') && a->bindings == (int)(sizeof a->binding / sizeof *a->binding))
    return fprintf(stderr, "tg: %s: no more than %d bindings are taken\n", word, a->bindings), false;
  if (word[0] != '-' && strchr(word, '=') && binding(word, a)) return true;
  if (word[0] == '-' || strchr(word, '=') || a->file) return refuse(word, a);
  a->file = word;
  return true;
}

/* FILE:NAME is the kernel NAME of FILE. */
static void split_file(tool_args *a) {
  char *colon = a->file ? strrchr(a->file, ':') : NULL;
  if (!colon || a->kernel || !access(a->file, F_OK)) return;
  *colon = 0;
  if (!access(a->file, F_OK)) a->kernel = colon + 1;
  else *colon = ':';
}

bool tool_parse(int argc, char **argv, tool_args *a, const char *usage) {
  *a = (tool_args){.threads = 1, .workers = -1};
  const option options[] = {
      {.name = "--opt"},
      {.name = "--kernel", .text = &a->kernel},
      {.name = "--stage", .text = &a->stage},
      {.name = "--pass", .text = &a->pass},
      {.name = "--pack", .text = &a->pack},
      {.name = "--target", .text = &a->target},
      {.name = "--device", .text = &a->device},
      {.name = "--cache", .text = &a->cache},
      {.name = "--case", .text = &a->cases},
      {.name = "--vs", .text = &a->vs},
      {.name = "--shapes", .text = &a->shapes},
      {.name = "--types", .text = &a->types},
      {.name = "--transposes", .text = &a->transposes},
      {.name = "--expect", .text = &a->expect},
      {.name = "--check", .flag = &a->check},
      {.name = "--time", .flag = &a->time},
      {.name = "--cost", .flag = &a->cost},
      {.name = "--counters", .flag = &a->counters},
      {.name = "--json", .flag = &a->json},
      {.name = "--rows", .flag = &a->rows},
      {.name = "--save", .flag = &a->save},
      {.name = "--explain", .flag = &a->explain},
      {.name = "--backward", .flag = &a->backward},
      {.name = "--help", .flag = &a->help},
      {.name = "-h", .flag = &a->help},
      {.name = "--rules", .flag = &a->rules},
      {.name = "--diff", .flag = &a->diff},
      {.name = "--update", .flag = &a->update},
      {.name = "--threads", .number = &a->threads, .least = -1},
      {.name = "--seconds", .real = &a->seconds, .least = -1},
      {.name = "--budget", .real = &a->budget},
      {.name = "--candidates", .number = &a->candidates},
      {.name = "--seed", .number = &a->seed},
      {.name = "--beam", .number = &a->beam},
      {.name = "--workers", .number = &a->workers, .least = -1},
      {.name = "--journal", .text = &a->journal},
      {.name = "--spool", .text = &a->spool},
      {.name = "--tuned", .text = &a->tuned},
      {.name = "--csv", .text = &a->csv},
      {.name = "--sweep", .text = &a->sweep},
      {.name = "--with", .text = &a->with},
      {.name = "--sketch", .text = &a->sketch},
      {.name = "--plot", .text = &a->plot},
      {.name = "-o", .text = &a->object},
      {.name = "--header", .text = &a->header},
      {.name = "--knobs", .flag = &a->knobs},
      {.name = "--resume", .flag = &a->resume},
      {.name = "--causal", .flag = &a->causal},
  };
  for (int i = 0; i < argc; i++)
    if (!take_word(options, sizeof options / sizeof *options, argc, argv, &i, a, usage)) return false;
  split_file(a);
  return true;
}

/* ---- devices ---- */

bool tool_device(const tool_args *a, tg_context *c, tg_device **out) {
  uint32_t i;
  *out = NULL;
  if (!a->device) return true;
  tg_status s = tg_device_named(a->device, &i);
  if (s == TG_OK && tg_device_open(c, i, out) == TG_OK) return true;
  if (s == TG_OK) fprintf(stderr, "tg: --device %s: %s\n", a->device, tg_error_message(c));
  else if (s == TG_MISS)
    fprintf(stderr, "tg: --device %s: there is no such device; tg devices lists them\n", a->device);
  else fprintf(stderr, "tg: --device %s: a driver and a number are wanted, such as opencl:0\n", a->device);
  return false;
}

/* ---- programs ---- */

bool tool_load(const tool_args *a, tool_program *p) {
  memset(p, 0, sizeof *p);
  bool taken[sizeof a->binding / sizeof *a->binding] = {false};
  size_t bytes;
  p->text = tool_read(a->file, &bytes);
  if (!p->text) {
    fprintf(stderr, "tg: %s: %s\n", a->file, strerror(errno));
    return false;
  }
  if (strlen(p->text) != bytes) {
    fprintf(stderr, "tg: %s: a NUL byte behind %zu others: this is no text\n", a->file, strlen(p->text));
    free(p->text);
    return false;
  }
  if (tool_is_c_file(a->file)) {
    char *text = tool_c_kernel(a, p->text, taken);
    free(p->text);
    if (!(p->text = text)) return false;
  }
  size_t n = 1;
  for (int i = 0; i < a->opts; i++) n += strlen(a->opt[i]) + 2;
  p->opts = calloc(n, 1);
  for (int i = 0; p->opts && i < a->opts; i++) strcat(strcat(p->opts, a->opt[i]), "; ");
  uint32_t bindings_n = 0;
  for (int i = 0; i < a->bindings; i++)
    if (!taken[i])
      p->bindings[bindings_n++] = (tg_binding){a->binding[i].name, a->binding[i].value, a->binding[i].most,
                                             a->binding[i].multiple};
  p->options = (tg_compile_options){.bindings = p->bindings,
                                    .bindings_n = bindings_n,
                                    .opts = a->opts ? p->opts : NULL,
                                    .kernel = a->kernel,
                                    .pack = a->pack};
  return true;
}

void tool_unload(tool_program *p) {
  free(p->text);
  free(p->opts);
}

const char *tool_tuned(const tool_args *a, char *buffer, size_t n) {
  const char *given = a->tuned ? a->tuned : getenv("TG_TUNED");
  if (given) return *given ? given : NULL;
  return tg_store_default(buffer, n);
}
