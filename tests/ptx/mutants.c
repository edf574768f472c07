/* SPDX-License-Identifier: MIT
 * Faults in the text of PTX, one at a time, and how many of them a run notices: a product by tensor cores with rings of
 * cp.async is compiled, its text changed in one place, run, and compared with what the text as it is computes. At least
 * 98 of 100 must be noticed. Kinds: a barrier left out, one more group of copies in flight at a wait, a guard turned
 * round, a bound one off, an address one access off, a digit of a layout (shifts, masks, factors, swizzles), two
 * registers of a matrix instruction exchanged, a gate of a copy turned round.
 *   ptx_mutants [--number N] [--seed N] [--verbose] [PROGRAM.tg ...] */
#define _GNU_SOURCE
#include <ctype.h>
#include <stdlib.h>
#include "../test.h"
#include "launch.h"

enum { LEAST_PERCENT = 98, NUMBER = 200 };
typedef enum { BARRIER, WAIT, GUARD, BOUND, ADDRESS, DIGIT, REGISTERS, GATE, KINDS } kind;
static const char *const kind_name[KINDS] = {"barrier left out", "wait for one group less", "guard turned round", "bound one off", "address one access off",
                                             "digit of a layout", "registers exchanged", "gate turned round"};

/* The text from `at`, `n` characters, is replaced by `with`. */
typedef struct { kind kind; uint32_t at, n, line; char with[160]; } mutant;

typedef struct {
  kit_code code;
  const kit_program *program;
  kit_memory want, got;
  mutant *list;
  uint32_t n, room;
  uint64_t steps;
} run;

/* ---- faults ---- */

static mutant *add(run *r, kind k, uint32_t at, uint32_t n, uint32_t line) {
  if (r->n == r->room) r->list = realloc(r->list, (r->room = r->room ? 2 * r->room : 256) * sizeof *r->list);
  r->list[r->n] = (mutant){.kind = k, .at = at, .n = n, .line = line};
  return &r->list[r->n++];
}

static bool begins(const char *s, const char *with) { return !strncmp(s, with, strlen(with)); }

/* The last operand, if it is a whole number: where it begins. */
static const char *last_number(const char *s, const char *end) {
  const char *at = end;
  while (at > s && at[-1] != ' ' && at[-1] != '\t') at--;
  for (const char *c = at + (*at == '-'); c < end; c++)
    if (!isdigit((unsigned char)*c)) return NULL;
  return at < end ? at : NULL;
}

static void address(run *r, const char *text, const char *s, const char *end, uint32_t line) {
  static const char *const ops[] = {"ld.shared", "st.shared", "ldmatrix", "cp.async.c", "st.global", "ld.global"};
  const char *open = memchr(s, '[', (size_t)(end - s)), *close = memchr(s, ']', (size_t)(end - s)), *plus = NULL;
  bool is = false;
  for (size_t i = 0; i < sizeof ops / sizeof *ops; i++) is |= begins(s, ops[i]);
  if (!is || !open || !close) return;
  int bytes = strstr(s, ".b16") && strstr(s, ".b16") < end ? 2 : 4, vector = strstr(s, ".v4") && strstr(s, ".v4") < end ? 4 : strstr(s, ".v2") && strstr(s, ".v2") < end ? 2 : 1;
  int by = begins(s, "cp.") || begins(s, "ldmatrix") ? 16 : bytes * vector, offset = 0;
  for (const char *c = open; c < close && !plus; c++)
    if (*c == '+') plus = c;
  if (plus) offset = atoi(plus + 1);
  const char *from = plus ? plus : close;
  mutant *m = add(r, ADDRESS, (uint32_t)(from - text), (uint32_t)(close - from), line);
  snprintf(m->with, sizeof m->with, "+%d", offset + by);
}

static void digit(run *r, const char *text, const char *s, const char *end, uint32_t line) {
  static const char *const ops[] = {"shl.b", "shr.", "and.b", "or.b", "xor.b", "mul.", "mad.lo", "bfe."};
  bool is = false;
  for (size_t i = 0; i < sizeof ops / sizeof *ops; i++) is |= begins(s, ops[i]);
  const char *at = is ? last_number(s, end) : NULL;
  /* of a division by a constant the lowest bits of the factor may not count, and no dividend is below 0 */
  if (!at || begins(s, "mul.hi") || (begins(s, "shr.u32") && !memcmp(at, "31;", 3))) return;
  long long v = strtoll(at, NULL, 10), to = begins(s, "sh") || begins(s, "bfe") ? v - 1 : begins(s, "and") ? v / 2 : begins(s, "xor") ? v ^ 16 : v * 2;
  if (to == v) return;
  mutant *m = add(r, DIGIT, (uint32_t)(at - text), (uint32_t)(end - at), line);
  snprintf(m->with, sizeof m->with, "%lld", to);
}

/* {a, b, ..} of an operand of mma: the first two exchanged. */
static void registers(run *r, const char *text, const char *s, const char *end, uint32_t line) {
  for (const char *open = s; (open = memchr(open, '{', (size_t)(end - open))); open++) {
    const char *first = open + 1, *comma = first;
    while (comma < end && *comma != ',' && *comma != '}') comma++;
    if (*comma != ',') continue;
    const char *second = comma + 1, *stop;
    while (*second == ' ') second++;
    for (stop = second; *stop != ',' && *stop != '}';) stop++;
    mutant *m = add(r, REGISTERS, (uint32_t)(first - text), (uint32_t)(stop - first), line);
    snprintf(m->with, sizeof m->with, "%.*s, %.*s", (int)(stop - second), second, (int)(comma - first), first);
  }
}

static void faults_of(run *r, const char *text, const char *s, const char *end, uint32_t line) {
  uint32_t at = (uint32_t)(s - text), n = (uint32_t)(end - s);
  if (begins(s, "bar.")) add(r, BARRIER, at, n + 1, line);
  if (begins(s, "cp.async.wait_group")) {
    const char *v = last_number(s, end);
    mutant *m = add(r, WAIT, (uint32_t)(v - text), (uint32_t)(end - v), line);
    snprintf(m->with, sizeof m->with, "%d", atoi(v) + 1);
  }
  if (*s == '@') {
    mutant *m = add(r, GUARD, at + 1, s[1] == '!', line);
    snprintf(m->with, sizeof m->with, "%s", s[1] == '!' ? "" : "!");
  }
  if (begins(s, "setp.") && last_number(s, end))
    for (int by = -1; by <= 1; by += 2) {
      const char *v = last_number(s, end);
      mutant *m = add(r, BOUND, (uint32_t)(v - text), (uint32_t)(end - v), line);
      snprintf(m->with, sizeof m->with, "%d", atoi(v) + by);
    }
  const char *gate = begins(s, "selp.b32") ? strstr(s, "16, 0") : NULL;
  if (gate && gate < end) memcpy(add(r, GATE, (uint32_t)(gate - text), 5, line)->with, "0, 16", 6);
  address(r, text, s, end, line);
  digit(r, text, s, end, line);
  if (begins(s, "mma.")) registers(r, text, s, end, line);
}

/* Of the entry for aligned buffers: its statements, a line each. */
static void find_faults(run *r, const char *text) {
  uint32_t line = 1;
  bool on = false;
  r->n = 0;
  for (const char *s = text; *s; s += *s == '\n', line++) {
    const char *end = s + strcspn(s, "\n"), *stop;
    if (memmem(s, (size_t)(end - s), ".entry", 6)) on = !memmem(s, (size_t)(end - s), "_unaligned", 10);
    while (s < end && isspace((unsigned char)*s)) s++;
    stop = memchr(s, ';', (size_t)(end - s));
    if (on && stop) faults_of(r, text, s, stop, line);
    s = end;
  }
}

/* ---- runs ---- */

static void count_steps(void *user, const ptx_launch *l) { ((run *)user)->steps += ptx_summarise(l, 0).all.warps; }

static bool computes(run *r, const char *text, uint64_t limit, char *message) {
  ptx_program p = {.job = &r->code.job, .object = &r->code.object, .text = text, .info = &r->code.info, .params = r->code.params, .seed = 7, .limit = limit, .seen = count_steps, .user = r};
  kit_memory_copy(&r->got, &r->code.memory);
  return ptx_program_run(&p, &r->got, message);
}

static bool same(const run *r) {
  for (uint32_t b = 0; b < r->want.n; b++)
    if (memcmp(r->want.data[b], r->got.data[b], r->want.bytes[b])) return false;
  return true;
}

static bool noticed(run *r, const char *text, const mutant *m, bool verbose) {
  size_t n = strlen(text), with = strlen(m->with);
  char *changed = malloc(n + with + 1), message[PTX_MESSAGE] = "another result";
  memcpy(changed, text, m->at);
  memcpy(changed + m->at, m->with, with);
  memcpy(changed + m->at + with, text + m->at + m->n, n - m->at - m->n + 1);
  bool ok = computes(r, changed, 20 * r->steps, message) && same(r);
  free(changed);
  if (verbose || ok) printf("%s line %u, %s '%.*s' -> '%s': %s\n", r->program->path, m->line, kind_name[m->kind], (int)m->n, text + m->at, m->with, ok ? "NOT NOTICED" : message);
  return !ok;
}

static void seen(void *user, const char *pass, const tg_uop *sink) {
  run *r = user;
  if (!strcmp(pass, "schedule") && r->code.job.packings.n) kit_memory_pack(&r->code.job, sink, r->code.params, &r->code.memory);
}

static void one(run *r, const kit_program *p, uint32_t number, uint32_t seed, bool verbose) {
  char message[PTX_MESSAGE];
  uint32_t tried[KINDS] = {0}, missed[KINDS] = {0}, all = 0, found = 0;
  r->program = p;
  r->code.where = p->path, r->code.text = p->text;
  CHECK(kit_compile(&r->code, seen, r), "%s: %s", p->path, r->code.job.env.message);
  const char *text = r->code.object.data;
  if (text && !strstr(text, "mma.sync")) {
    tg_job_drop(&r->code.job);
    return;
  }
  r->steps = 0;
  bool right = text && computes(r, NULL, 0, message);
  CHECK(right, "%s: %s", p->path, message);
  if (right) find_faults(r, text);
  kit_memory_copy(&r->want, &r->got);
  for (uint32_t i = 0; right && i < r->n; i++) {   /* about `number` of them, drawn */
    seed = seed * 1664525u + 1013904223u;
    if (r->n > number && (uint64_t)(seed >> 8) * r->n >> 24 >= number) continue;
    bool found_it = noticed(r, text, &r->list[i], verbose);
    all++, tried[r->list[i].kind]++, found += found_it, missed[r->list[i].kind] += !found_it;
  }
  for (uint32_t k = 0; k < KINDS; k++)
    if (tried[k]) printf("%s: %s: %u of %u noticed\n", p->path, kind_name[k], tried[k] - missed[k], tried[k]);
  printf("%s: %u of %u noticed, of %u that there are\n", p->path, found, all, r->n);
  CHECK(all && found * 100 >= all * LEAST_PERCENT, "%s: %u of %u noticed", p->path, found, all);
  tg_job_drop(&r->code.job);
}

int main(int argc, char **argv) {
  static run r;
  static const char *const folders[] = {"tests/ptx/programs"};
  uint32_t number = NUMBER, seed = 1;
  bool verbose = false;
  int n, at = 1;
  for (; at < argc && argv[at][0] == '-'; at++)
    if (!strcmp(argv[at], "--number") && at + 1 < argc) number = (uint32_t)atoi(argv[++at]);
    else if (!strcmp(argv[at], "--seed") && at + 1 < argc) seed = (uint32_t)atoi(argv[++at]);
    else verbose |= !strcmp(argv[at], "--verbose");
  kit_program *p = kit_programs_of(1, folders, &n);
  CHECK(kit_path_open(&r.code.path, "sm_80"), "a path");
  for (int i = 0; i < n; i++) {
    bool wanted = at == argc;
    for (int k = at; k < argc; k++) wanted |= !strcmp(argv[k], p[i].path);
    if (wanted) one(&r, &p[i], number, seed, verbose);
  }
  free(r.list);
  kit_memory_free(&r.code.memory), kit_memory_free(&r.want), kit_memory_free(&r.got);
  kit_path_close(&r.code.path);
  kit_programs_free(p, n);
  return TEST_END();
}
