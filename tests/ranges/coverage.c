/* SPDX-License-Identifier: MIT
 * The rules at work: the corpus and generated kernels go through the whole pipeline with the heuristic's schedule, and
 * every rule of rules.def must fire at least once on the way. Each stage, simplified twice with nothing remembered in
 * between, is one node. With the argument `list`, how often each rule fired is printed. */
#include <dirent.h>
#include <stdlib.h>
#include "../fuzz/generate.h"
#include "dsl/text.h"
#include "ranges/rules.h"
#include "choose/heuristic.h"
#include "compile/pipeline.h"
#include "../test.h"

enum { GENERATED = 300, MOST_RULES = 256 };

typedef struct { const char *name; uint64_t times; } tally;

typedef struct {
  tg_job tables;               /* owns the rules */
  const tg_rules *rules;
  tg_target target;
  tally fired[MOST_RULES];
  uint32_t n, programs, refused;
} corpus;

typedef struct { corpus *c; tg_job *j; const char *file, *text; tg_lowering l; bool schedule; } program;

static void count(corpus *c, const char *rule) {
  uint32_t i = 0;
  while (i < c->n && strcmp(c->fired[i].name, rule)) i++;
  if (i == MOST_RULES) return;
  if (i == c->n) c->fired[c->n++].name = rule;
  c->fired[i].times++;
}

static void take_trace(program *p) {
  uint32_t n;
  const tg_fired *f = tg_trace_end(p->j, &n);
  for (uint32_t i = 0; i < n; i++) count(p->c, f[i].rule);
}

/* Beginning a trace forgets what is normal: what the checks below learn helps no later pass, and they learn it anew. */
static void after_pass(void *user, const char *pass, const tg_uop *sink) {
  program *p = user;
  take_trace(p);
  const tg_uop *once = tg_simplify(p->j, p->l.rules, sink);
  tg_trace_begin(p->j);
  CHECK(tg_simplify(p->j, p->l.rules, once) == once, "%s after pass %s: simplifying twice", p->file, pass);
  tg_trace_begin(p->j);
}

static void lower(void *user) {
  program *p = user;
  tg_job *j = p->j;
  tg_trace_begin(j);
  tg_parse_kernel(j, p->file, p->text, 0, NULL);
  if (!p->schedule) j->opts.n = 0;
  j->sink = tg_lower(j, &p->l, "raise", after_pass, p);
  if (p->schedule && !j->opts.n) tg_heuristic(j, &p->l, j->sink);
  tg_lower(j, &p->l, NULL, after_pass, p);
  take_trace(p);
}

/* As it stands, then with the schedule of its own or the heuristic's, which may be refused: it is not what is tested here. */
static bool lower_text(corpus *c, const char *file, const char *kernel, const char *text) {
  static tg_job j;
  bool plain = false;
  for (int schedule = 0; schedule < 2; schedule++) {
    program p = {c, &j, file, text, {.target = &c->target, .rules = c->rules}, schedule};
    tg_job_init(&j, NULL);
    j.name = kernel;
    bool ok = tg_protect(&j.env, lower, &p);
    if (!schedule) plain = ok;
    CHECK(ok || j.env.status == TG_EINVAL, "%s: %s", file, j.env.message);
    c->programs++;
    c->refused += !ok;
    tg_job_drop(&j);
  }
  return plain;
}

static int by_name(const void *a, const void *b) { return strcmp(*(const char *const *)a, *(const char *const *)b); }

static void lower_file(corpus *c, const char *path, uint32_t *lowered, uint32_t *kernels) {
  tg_job *t = &c->tables;
  size_t bytes;
  uint32_t n;
  const char *text = tg_read_file(&t->env, path, &bytes);
  CHECK(text != NULL, "%s cannot be read", path);
  if (!text) return;
  const char **names = tg_kernel_names(t, path, text, &n);
  *kernels += n;
  for (uint32_t i = 0; i < n; i++) *lowered += lower_text(c, path, names[i], text);
}

static void lower_folder(corpus *c, const char *folder) {
  tg_env *e = &c->tables.env;
  TG_VEC(const char *) names = {0};
  DIR *d = opendir(folder);
  CHECK(d != NULL, "%s cannot be opened", folder);
  if (!d) return;
  for (struct dirent *x; (x = readdir(d));)
    if (strlen(x->d_name) > 3 && !strcmp(x->d_name + strlen(x->d_name) - 3, ".tg")) tg_push(e, &names, tg_strdup(e, x->d_name));
  closedir(d);
  if (names.n) qsort(names.data, names.n, sizeof *names.data, by_name);
  uint32_t lowered = 0, kernels = 0;
  for (uint32_t i = 0; i < names.n; i++) lower_file(c, tg_format(e, "%s/%s", folder, names.data[i]), &lowered, &kernels);
  CHECK(lowered * 10 >= kernels * 9, "of %u kernels in %s %u can be lowered as they stand", kernels, folder, lowered);
}

static void lower_generated(corpus *c) {
  static fuzz_source s;
  static fuzz_program p;
  uint32_t lowered = 0;
  for (uint32_t i = 0; i < GENERATED; i++) {
    memset(&s, 0, sizeof s);
    s.state = i * 7919 + 3;
    fuzz_generate(&s, &p, false);
    lowered += lower_text(c, "generated", NULL, p.text);
  }
  CHECK(lowered > GENERATED / 2, "of %d generated kernels %u are accepted", GENERATED, lowered);
}

static uint64_t times_of(const corpus *c, const char *rule) {
  for (uint32_t i = 0; i < c->n; i++)
    if (!strcmp(c->fired[i].name, rule)) return c->fired[i].times;
  return 0;
}

static bool list;

static void whole_corpus(void *user) {
  static const char *const in_c[] = {"sum", "quotient", "remainder", "comparison", "constant", "bounds", "order", "gate"};
  corpus *c = user;
  c->rules = tg_rules_compile(&c->tables.env);
  CHECK(tg_target_named(&c->target, "x86-64-v3"), "a target");
  lower_folder(c, "examples");
  lower_folder(c, "tests/ranges/accept");
  lower_folder(c, "tests/corpus");
  lower_generated(c);
  for (uint32_t i = 0; i < c->rules->n; i++) {
    const tg_rule *r = &c->rules->rule[i];
    CHECK(times_of(c, r->name), "rule %s fires on nothing: %s", r->name, r->text);
    if (list) printf("%8llu  %-20s %s\n", (unsigned long long)times_of(c, r->name), r->name, r->text);
  }
  for (uint32_t i = 0; i < TG_COUNT(in_c); i++) CHECK(times_of(c, in_c[i]), "%s fires on nothing", in_c[i]);
  printf("%u programs, %u of them refused\n", c->programs, c->refused);
}

int main(int argc, char **argv) {
  static corpus c;
  list = argc > 1 && !strcmp(argv[1], "list");
  tg_job_init(&c.tables, NULL);
  CHECK(tg_protect(&c.tables.env, whole_corpus, &c), "%s", c.tables.env.message);
  tg_job_drop(&c.tables);
  return TEST_END();
}
