/* SPDX-License-Identifier: MIT
 * Kernels of other people's suites, written in the language from their published definitions, under random legal
 * words against plain C.
 *   campaign_kernels [--seed S] [--kernels N] [--schedules K] [--seconds T] [--only NAME[,NAME..]] [--threads 1,3]
 *     [--target ROW] [--verbose]
 *   campaign_kernels --only NAME --sizes 33,20 --words 'split i 4; lane j' [--constant] [--seed S] [--threads 1]
 *     (one point: what a fault prints)
 *   campaign_kernels --list
 * Default: seed 1, all kernels, 3 schedules each, one thread and three, the host (or the row that TG_TEST_TARGET
 * names). A seed stands for the same points everywhere. Each kernel runs in a child: one that touches a page that is
 * not its own, or hangs, is told and counted, and its next point goes on. */
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#include "../target.h"
#include "run.h"

enum { KERNELS = 1024, TEXT = 1 << 18 };

typedef struct { const campaign_entry *entry, *wide; const char *text; } campaign_kernel;
static campaign_kernel kernel[KERNELS];
static int kernels;

static char *read_text(const char *path) {
  FILE *f = fopen(path, "rb");
  char *text = calloc(1, TEXT);
  if (f) text[fread(text, 1, TEXT - 1, f)] = 0, fclose(f);
  return text;
}

static void add_family(const char *name, const campaign_entry *narrow, const campaign_entry *wide) {
  char path[256];
  snprintf(path, sizeof path, "tests/campaign/%s.tg", name);
  char *text = read_text(path);
  for (int i = 0; narrow[i].name && kernels < KERNELS; i++)
    kernel[kernels++] = (campaign_kernel){&narrow[i], &wide[i], text};
}

static bool wanted(const char *only, const char *name) {
  size_t n = strlen(name);
  for (const char *at = only; at && *at; at += strcspn(at, ","), at += *at == ',')
    if (strcspn(at, ",") == n && !strncmp(at, name, n)) return true;
  return !only;
}

static int numbers(const char *text, int64_t *out, int most) {
  int n = 0;
  for (const char *at = text; *at && n < most; at += *at == ',') {
    char *end;
    out[n++] = strtoll(at, &end, 0);
    if (end == at) return 0;
    at = end;
  }
  return n;
}

/* The child has ended by itself; its report tells at what. */
static void died(campaign_report *r, const char *name, int status) {
  const char *at = r->doing == 'r'   ? "running"
                   : r->doing == 'c' ? "compiling"
                   : r->doing == 'i' ? "interpreting"
                                     : "trying words";
  int number = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
  bool hang = number == SIGPROF || number == SIGALRM;
  *(hang ? &r->hangs : &r->crashes) += 1;
  printf("%s: %s while %s (%s %d)\n  %s\n", name, hang ? "HANG" : "CRASH", at, number ? "signal" : "status",
         number ? number : WEXITSTATUS(status), r->line);
  fflush(stdout);
}

static long faults(const campaign_report *r) { return r->races + r->wrong + r->crashes + r->hangs + r->other; }

static void run_kernel(const campaign_options *o, const campaign_kernel *k, campaign_report *r) {
  long before = faults(r);
  r->next = 0;
  r->kernels++;
  while (r->next < o->schedules && (!o->until || campaign_clock() < o->until)) {
    int status = 0, from = r->next;
    fflush(stdout);
    pid_t child = fork();
    if (child < 0) break;
    if (!child) {
      alarm(600);   /* of the clock, for what waits without end */
      campaign_points(o, k->entry, k->wide, k->text, r);
      fflush(stdout);
      _exit(0);
    }
    while (waitpid(child, &status, 0) < 0) {}
    if (WIFEXITED(status) && !WEXITSTATUS(status)) break;
    died(r, k->entry->name, status);
    if (r->next == from) r->next++;
  }
  r->failed_kernels += faults(r) > before;
  if (o->verbose) printf("%-24s %ld faults\n", k->entry->name, faults(r) - before);
}

static int usage(void) {
  fprintf(stderr, "campaign_kernels [--seed S] [--kernels N] [--schedules K] [--seconds T] [--only NAME,..] [--threads "
                  "1,3] [--target ROW] [--words W --sizes A,B [--constant]] [--list] [--verbose]\n");
  return 2;
}

static bool parse_options(int argc, char **argv, campaign_options *o, const char **only, int *count, bool *list) {
  int64_t n[CAMPAIGN_THREADS];
  for (int i = 1; i < argc; i++) {
    const char *a = argv[i], *v = i + 1 < argc ? argv[i + 1] : NULL;
    if (!strcmp(a, "--constant")) o->constant = true;
    else if (!strcmp(a, "--list")) *list = true;
    else if (!strcmp(a, "--verbose")) o->verbose = true;
    else if (!v) return false;
    else {
      i++;
      if (!strcmp(a, "--seed")) o->seed = strtoull(v, NULL, 0);
      else if (!strcmp(a, "--kernels")) *count = atoi(v);
      else if (!strcmp(a, "--schedules")) o->schedules = atoi(v);
      else if (!strcmp(a, "--seconds")) o->until = campaign_clock() + atof(v);
      else if (!strcmp(a, "--only")) *only = v;
      else if (!strcmp(a, "--target")) o->target = v;
      else if (!strcmp(a, "--words")) o->words = v, o->schedules = 1;
      else if (!strcmp(a, "--sizes")) o->sizes = numbers(v, o->size, CAMPAIGN_SIZES);
      else if (!strcmp(a, "--threads") && (o->threads_n = numbers(v, n, CAMPAIGN_THREADS)) > 0) {
        for (int t = 0; t < o->threads_n; t++) o->threads[t] = (int)n[t];
      } else return false;
    }
  }
  return true;
}

int main(int argc, char **argv) {
  campaign_options o = {
      .seed = 1, .schedules = 3, .threads = {1, 3}, .threads_n = 2, .target = test_target()};
  const char *only = NULL;
  int count = KERNELS;
  bool list = false;
  if (!parse_options(argc, argv, &o, &only, &count, &list)) return usage();
#define F(name) add_family(#name, campaign_##name##_float, campaign_##name##_double);
  CAMPAIGN_FAMILIES(F)
#undef F
  campaign_report *r = mmap(NULL, sizeof *r, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (r == MAP_FAILED) return 1;
  int first = (int)(campaign_hash(o.seed, 3) % (uint64_t)(kernels ? kernels : 1));
  if (count >= kernels) first = 0;
  for (int i = 0; i < kernels && r->kernels < count; i++) {
    const campaign_kernel *k = &kernel[(first + i) % kernels];
    if (!wanted(only, k->entry->name)) continue;
    if (list) printf("%s%s\n", k->entry->name, k->entry->rounds ? " (rounds)" : ""), r->kernels++;
    else if (!o.until || campaign_clock() < o.until) run_kernel(&o, k, r);
  }
  if (list) return 0;
  printf("campaign: seed %llu, %s: %ld kernels, %ld compiled points, %ld runs, %ld points in the interpreter, %ld "
         "words drawn, %ld refused, %ld too large, %ld races by the interpreter, %ld wrong, %ld crashes, %ld hangs, "
         "%ld other faults\n",
         (unsigned long long)o.seed, o.target ? o.target : "host", r->kernels, r->points, r->runs, r->interpreted,
         r->words, r->refused, r->large, r->races, r->wrong, r->crashes, r->hangs, r->other);
  long failed = faults(r);
  if (!r->kernels) failed = 1;
  printf("%ld passed, %ld failed\n", r->kernels - r->failed_kernels, failed);
  return failed != 0;
}
