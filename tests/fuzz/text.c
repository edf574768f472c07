/* SPDX-License-Identifier: MIT
 * Texts that nobody would write: programs of the tests, damaged at random, under words of a schedule at random, shown at some stage; and what that printed, read
 * again, whole and damaged. Whatever it is, it is shown or refused with a message: no crash, no bug of tg's own (build it with sanitizers), no endless work.
 *   fuzz_text [--seconds S] [--seed N] [--texts N] [FILE ..]     default 5 seconds, seed 1; FILE: instead of the programs of the tests, as they are first
 * A text is a function of the seed and its number. The one in hand lies in fuzz-text-PID.tg of the folder for temporary files, and stays there if the program ends
 * within it. */
#define _XOPEN_SOURCE 700
#include <dirent.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>
#include "../folder.h"
#include "../test.h"
#include "dsl/text.h"
#include "schedule/schedule.h"
#include "tg/tg.h"

enum { LONGEST = 1 << 16, WORDS = 6, PATIENCE = 120 };
static const size_t MEMORY = (size_t)1 << 30;   /* of one context; more is refused, as it may be */

static uint64_t state;
static uint64_t draw(void) {
  state ^= state << 13;
  state ^= state >> 7;
  state ^= state << 17;
  return state * 0x2545F4914F6CDD1Du >> 11;
}
static size_t pick(size_t n) { return n ? (size_t)(draw() % n) : 0; }

/* ---- memory with an end ---- */

static size_t in_use;
static void *take(void *user, size_t bytes) {
  (void)user;
  if (bytes > MEMORY || in_use + bytes > MEMORY) return NULL;
  void *p = aligned_alloc(16, (bytes + 15) / 16 * 16);
  if (p) in_use += bytes;
  return p;
}
static void give(void *user, void *p, size_t bytes) {
  (void)user;
  in_use -= p ? bytes : 0;
  free(p);
}

/* ---- texts ---- */

typedef struct { char *data; size_t n; } text;
static text *programs;
static size_t programs_n, programs_cap;

static void add_file(const char *path) {
  FILE *f = fopen(path, "rb");
  text t = {malloc(LONGEST / 2), 0};
  if (f && t.data) t.n = fread(t.data, 1, LONGEST / 2 - 1, f);
  if (f) fclose(f);
  if (!t.n) {
    free(t.data);
    return;
  }
  t.data[t.n] = 0;
  if (programs_n == programs_cap) programs = realloc(programs, (programs_cap = programs_cap * 2 + 64) * sizeof *programs);
  programs[programs_n++] = t;
}

static int by_name(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

static void add_folder(const char *folder) {
  char *names[1024], path[2048];
  size_t n = 0;
  DIR *d = opendir(folder);
  for (struct dirent *e; d && (e = readdir(d)) && n < 1024;)
    if (strlen(e->d_name) > 3 && !strcmp(e->d_name + strlen(e->d_name) - 3, ".tg")) names[n++] = strdup(e->d_name);
  if (d) closedir(d);
  qsort(names, n, sizeof *names, by_name);   /* a seed means the same everywhere */
  for (size_t i = 0; i < n; i++) {
    snprintf(path, sizeof path, "%s/%s", folder, names[i]);
    add_file(path);
    free(names[i]);
  }
}

/* What stands at random in place of something. */
static const char *const pieces[] = {
  "0", "1", "-1", "2147483647", "9223372036854775807", "18446744073709551615", "1e308", "0x", "1..", "..", "-", "!", "~", "(", ")", "((((((((", "[", "]", "{", "}", "{{{{{{{{", ",", ";", "=", "==", "+=",
  "let", "if (", "else", "range(", "range(i, ", "sum(k : ", "max(", "argmax(d : ", "reduce(", "where(", "get(", "carry(", "merge {", "atomic ", "barrier();", "call(", "proc ", "def(", "stage ", "knob(",
  "require(", "opt(", "in(", "out(", "inout(", "define_reg(", "define_local(", "f32", "i32", "f16", "bool", "index", "u8", "inf", "nan", "%1", "LOAD(", "fold(add, ", "iota(8)", "shuffle(",
  "thread", "lane", "upcast", "global", "partial", "/*", "*/", "//", "\"", "\\", "\x80", "\xff", ":", "->", "%", "/ 0", "<< 99", "dim(", "type(", "bitcast(", "ceildiv(", "derivative("};
static const char *const schedule_pieces[] = {
  "as", "at", "first", "last", "auto", "{4, 2, 1}", "{", "}", "2", "3", "7", "16", "64", "0", "2147483647", "pitch=3", "fill=0", "align=64", "space=local", "space=reg", "space=packed", "space=team", "depth=2", "with",
  "ahead 2", "of", "to l2", "rw", "static", "ssa", "memory", "clip", "[i, j]", "(N % 4 == 0)", "mma", "vpdpbusd", ".0", ".1", "#1", "#2.0", ".o", ".i", "+ 1", "="};
#define OF(list) (list)[pick(TG_COUNT(list))]

static bool is_word(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.'; }

/* A token of the text: where it begins, and how long it is. */
static size_t token_at(const text *t, size_t *n) {
  size_t at = pick(t->n);
  while (at && is_word(t->data[at]) && is_word(t->data[at - 1])) at--;
  for (*n = 0; at + *n < t->n && is_word(t->data[at + *n]); ++*n) {}
  if (!*n && at < t->n) *n = 1;
  return at;
}

static void replace(text *t, size_t at, size_t n, const char *by, size_t m) {
  if (t->n - n + m + 1 >= LONGEST) return;
  memmove(t->data + at + m, t->data + at + n, t->n - at - n + 1);
  memcpy(t->data + at, by, m);
  t->n += m - n;
}

static void damage(text *t) {
  char copy[512];
  size_t n, m, at = token_at(t, &n), other = token_at(t, &m);
  const text *p = &programs[pick(programs_n)];
  const char *piece = OF(pieces);
  switch (pick(9)) {
  case 0: replace(t, at, n, "", 0); break;
  case 1: replace(t, at, n, piece, strlen(piece)); break;
  case 2: replace(t, at, 0, piece, strlen(piece)); break;
  case 3:   /* one token in the place of another */
    m = m < sizeof copy ? m : sizeof copy;
    memcpy(copy, t->data + other, m);
    replace(t, at, n, copy, m);
    break;
  case 4:   /* a part of another program */
    m = pick(p->n < 300 ? p->n : 300);
    replace(t, at, n, p->data + pick(p->n - m), m);
    break;
  case 5:   /* a part twice, or many times */
    m = pick(t->n - at < 200 ? t->n - at : 200);
    memcpy(copy, t->data + at, m);
    for (size_t i = 1 + pick(pick(8) ? 2 : 60); i-- > 0;) replace(t, at, 0, copy, m);
    break;
  case 6: replace(t, at, pick(t->n - at < 200 ? t->n - at + 1 : 200), "", 0); break;
  case 7: if (t->n) t->data[pick(t->n)] = (char)(1 + pick(255)); break;
  default:   /* a number */
    m = (size_t)snprintf(copy, sizeof copy, "%lld", (long long)(draw() >> pick(60)));
    for (size_t i = 0; i < 20 && !(t->data[at] >= '0' && t->data[at] <= '9'); i++) at = token_at(t, &n);
    replace(t, at, n, copy, m);
  }
}

/* Words over names of the text, or over anything. */
static void add_words(const text *t, char *out, size_t size) {
  size_t used = 0;
  out[0] = 0;
  for (size_t i = pick(WORDS); i-- > 0;) {
    used += (size_t)snprintf(out + used, size - used, "%s", tg_opt_rows[pick(TG_OPT__COUNT)].word);
    for (size_t k = 1 + pick(5); k-- > 0 && used + 80 < size;) {
      size_t n, at = token_at(t, &n);
      if (pick(2)) used += (size_t)snprintf(out + used, size - used, " %.*s", (int)(n < 40 ? n : 40), t->data + at);
      else used += (size_t)snprintf(out + used, size - used, "%s%s", pick(6) ? " " : "", OF(schedule_pieces));
    }
    if (used + 160 >= size) return;
    used += (size_t)snprintf(out + used, size - used, ";");
  }
}

/* ---- one text ---- */

static char current[TEST_PATH];
static const char *telling;

static void too_long(int signal_number) {
  static const char message[] = "a text takes over two minutes; it lies in the folder for temporary files, fuzz-text-PID.tg\n";
  (void)signal_number;
  if (write(2, message, sizeof message - 1) < 0) _exit(3);
  abort();
}

typedef struct { long texts, accepted, refused, limits, stages; } totals;
typedef struct { char *stage[4], *text[4]; int n; } shown;

static void keep(void *user, const char *stage, const char *what) {
  shown *s = user;
  if (s->n == 4) return;
  s->stage[s->n] = strdup(stage);
  s->text[s->n++] = strdup(what);
}

static void forget(shown *s) {
  while (s->n) {
    free(s->stage[--s->n]);
    free(s->text[s->n]);
  }
}

static tg_status attempt(tg_context *c, const text *t, const tg_compile_options *o, const char *stage, shown *s, totals *sum) {
  FILE *f = fopen(current, "wb");
  if (f) fprintf(f, "%s\n// opts: %s\n", t->data, o->opts ? o->opts : "none"), fclose(f);
  alarm(PATIENCE);
  tg_status st = tg_show_text(c, "fuzz.tg", t->data, o, stage, keep, s);
  alarm(0);
  sum->texts++;
  sum->accepted += st == TG_OK;
  sum->refused += st == TG_EINVAL;
  sum->limits += st == TG_ELIMIT || st == TG_ENOMEM;
  bool known = st == TG_OK || st == TG_EINVAL || st == TG_ELIMIT || st == TG_ENOMEM;
  CHECK(known, "%s: %s: %s\n%s\nopts: %s", telling, tg_status_name(st), tg_error_message(c), t->data, o->opts ? o->opts : "none");
  CHECK(st == TG_OK || tg_error_message(c)[0], "%s: refused without a word\n%s", telling, t->data);
  return st;
}

typedef struct { tg_job job; const char *text, *printed; } reading;

static void read_it(void *user) {
  reading *r = user;
  tg_parse_kernel(&r->job, "again.tg", r->text, 0, NULL);
  tg_str out = tg_str_new(&r->job.env);
  tg_print(&r->job, &out, r->job.sink);
  r->printed = out.data;
}

/* The text, and what is printed of it, are one program. (A name may change: a sum that stands in two places is called after the first of them.) */
static void same_again(const char *stage, const char *first) {
  reading r[2] = {{.text = first}};
  bool ok = true;
  for (int i = 0; i < 2; i++) {
    tg_job_init(&r[i].job, NULL);
    if (i) r[i].text = r[0].printed;
    ok = ok && tg_protect(&r[i].job.env, read_it, &r[i]);
    CHECK(ok, "%s: stage %s does not parse again: %s\n%s", telling, stage, r[i].job.env.message, r[i].text ? r[i].text : "");
  }
  if (ok) CHECK(tg_same_program(&r[0].job, r[0].job.sink, &r[1].job, r[1].job.sink), "%s: stage %s is another program when it is read again:\n%s\n%s", telling, stage, first, r[0].printed);
  for (int i = 0; i < 2; i++) tg_job_drop(&r[i].job);
}

/* What a stage printed is read again, to the same program; and, damaged, like any other text. */
static void again(tg_context *c, const shown *s, totals *sum) {
  int i = (int)pick((size_t)s->n);
  shown more = {0};
  char *copy = malloc(LONGEST);
  text t = {copy, strlen(s->text[i])};
  if (t.n + 1 >= LONGEST / 2 || !copy || strstr(s->text[i], "\n  opt(")) {   /* words that nobody has read yet need be none */
    free(copy);
    return;
  }
  memcpy(copy, s->text[i], t.n + 1);
  sum->stages++;
  tg_compile_options o = {.flags = TG_COMPILE_AS_WRITTEN};
  tg_status st = attempt(c, &t, &o, s->stage[i], &more, sum);
  CHECK(st == TG_OK && more.n == 1, "%s: stage %s is not shown again: %s\n%s", telling, s->stage[i], tg_error_message(c), s->text[i]);
  forget(&more);
  same_again(s->stage[i], s->text[i]);
  for (size_t k = 1 + pick(3); k-- > 0;) damage(&t);
  attempt(c, &t, &o, "linear", &more, sum);
  forget(&more);
  free(copy);
}

static void one(uint64_t seed, uint64_t number, totals *sum) {
  char label[96], words[1024];
  state = (seed + 1) * 0x9E3779B97F4A7C15u ^ (number + 1) * 0xD1B54A32D192ED03u;
  for (int i = 0; i < 8; i++) draw();
  snprintf(label, sizeof label, "seed %llu, text %llu", (unsigned long long)seed, (unsigned long long)number);
  telling = label;
  const text *p = &programs[pick(programs_n)];
  text t = {malloc(LONGEST), p->n};
  if (!t.data) return;
  memcpy(t.data, p->data, p->n + 1);
  if (number >= programs_n)
    for (size_t k = pick(4); k-- > 0;) damage(&t);
  words[0] = 0;
  if (pick(2)) add_words(&t, words, sizeof words);
  tg_context *c = NULL;
  shown s = {0};
  tg_context_options co = {.threads = 1, .target = "x86-64-v3", .allocator = {take, give, NULL}};
  CHECK(tg_context_create(&co, &c) == TG_OK, "a context");
  if (c) {
    tg_compile_options o = {.opts = words[0] ? words : NULL, .flags = pick(3) ? 0 : TG_COMPILE_AS_WRITTEN};
    static const char *const stages[] = {"linear", "linear", "author", "raise", "schedule", "schedule", "reduce", "expand", "place", "coalesce", "index"};
    if (attempt(c, &t, &o, OF(stages), &s, sum) == TG_OK && s.n) again(c, &s, sum);
    forget(&s);
  }
  tg_context_free(c);
  CHECK(!in_use, "%s: %zu bytes are left", label, in_use);
  in_use = 0;
  free(t.data);
}

int main(int argc, char **argv) {
  static const char *const folders[] = {"tests/corpus", "tests/ranges/accept", "tests/polybench", "tests/dsl/reject", "examples"};
  double seconds = 5;
  uint64_t seed = 1, most = UINT64_MAX;
  for (int i = 1; i < argc; i++) {
    if (!strcmp(argv[i], "--seconds") && i + 1 < argc) seconds = strtod(argv[++i], NULL);
    else if (!strcmp(argv[i], "--seed") && i + 1 < argc) seed = strtoull(argv[++i], NULL, 10);
    else if (!strcmp(argv[i], "--texts") && i + 1 < argc) most = strtoull(argv[++i], NULL, 10);
    else add_file(argv[i]);
  }
  bool given = programs_n > 0;
  for (unsigned i = 0; !given && i < TG_COUNT(folders); i++) add_folder(folders[i]);
  CHECK(programs_n > 0, "no programs");
  snprintf(current, sizeof current, "fuzz-text-%ld.tg", (long)getpid());
  test_place(current);
  signal(SIGALRM, too_long);
  totals sum = {0};
  uint64_t number = 0;
  for (double end = tg_now() + seconds; programs_n && number < most && tg_now() < end; number++) one(seed, number, &sum);
  unlink(current);
  printf("seed %llu: %ld texts, %ld shown, %ld refused, %ld over a limit, %ld stages read again\n", (unsigned long long)seed, sum.texts, sum.accepted, sum.refused, sum.limits, sum.stages);
  for (size_t i = 0; i < programs_n; i++) free(programs[i].data);
  free(programs);
  return TEST_END();
}
