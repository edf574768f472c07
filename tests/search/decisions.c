/* SPDX-License-Identifier: MIT
 * The generated sketches: for every program of the corpus each decision of the heuristic is taken otherwise, and words are changed at random. What comes out
 * is a legal schedule or an error that says why, never an internal one; words that the heuristic chose, given by hand, make the same program; the model's
 * costs are numbers. The text that a search prints of a program, of tests/bench/kernels too, is that program by all of its names: the same words are chosen
 * for it, and make the same of both. Lists that are refused are taken back, nest by nest, until one is accepted. Argument: how many changed lists of words for each program. */
#include <math.h>
#include <stdlib.h>
#include "../test.h"
#include "../library/kit.h"
#include "model/cost.h"
#include "choose/heuristic.h"
#include "search/search.h"

typedef struct {
  kit_path *path;
  const kit_program *program;
  const char *words, *given;   /* words NULL: the heuristic's */
  tg_job *job;
  tg_env *env;                 /* of what is kept */
  tg_pass_fn *judge;
  int logged;
  uint64_t hash, tokens;       /* tokens: of the scheduled program's text, in any order */
  const char *used, *decisions;
  tg_cost cost;
} attempt;

typedef struct { tg_env env; kit_path path; const kit_program *program; int mutants, decisions, legal, other, changed, words; } all;

static void push_words(tg_job *j, const char *words) {
  for (const char *w = words; *w; w += *w == ';') {
    w += strspn(w, " ");
    size_t n = strcspn(w, ";");
    if (n) tg_push(&j->env, &j->opts, ((tg_opt_text){tg_strndup(&j->env, w, n), {.file = "words", .text = tg_strndup(&j->env, w, n), .line = 1, .column = 1}}));
    w += n;
  }
}

static void count_line(void *user, const char *message) {
  (void)message;
  ++*(int *)user;
}

/* Which operand of a commutative operation comes first depends on how many ranges a text has that equal others: not counted. */
static uint64_t tokens_of(tg_job *j, const tg_uop *sink) {
  tg_str text = tg_str_new(&j->env);
  uint64_t sum = 0;
  tg_print(j, &text, sink);
  for (const char *t = text.data; *t;) {
    size_t n = strcspn(t, " \n(),;[]");
    if (n && *t != '%') sum += tg_hash(t, n, 0);
    t += n + !n;
  }
  return sum;
}

static void lower(void *arg) {
  attempt *a = arg;
  tg_job *j = a->job;
  tg_lowering l = {.target = &a->path->target, .rules = a->path->rules, .log = count_line, .log_user = &a->logged};
  tg_decisions c = {.given = a->given, .judge = a->judge};
  tg_parse_kernel(j, a->program->path, a->program->text, 0, NULL);
  if (a->words) j->opts.n = 0, push_words(j, a->words);
  j->sink = tg_lower(j, &l, "raise", NULL, NULL);
  if (!a->words) tg_heuristic_with(j, &l, j->sink, &c);
  tg_str words = tg_str_new(a->env), decisions = tg_str_new(a->env);
  for (uint32_t i = 0; i < j->opts.n; i++) tg_str_printf(&words, "%s%s", i ? "; " : "", j->opts.data[i].text);
  for (uint32_t i = 0; i < c.made.n; i++) {
    tg_str_printf(&decisions, "%s%s=%lld", i ? ";" : "", c.made.data[i].name, (long long)c.made.data[i].value);
    for (uint32_t k = 0; k < c.made.data[i].n; k++) tg_str_printf(&decisions, "%s%lld", k ? "," : ":", (long long)c.made.data[i].option[k]);
  }
  a->used = words.data;
  a->decisions = decisions.data;
  j->sink = tg_lower(j, &l, "schedule", NULL, NULL);
  a->tokens = tokens_of(j, j->sink);
  j->sink = tg_lower(j, &l, NULL, NULL, NULL);
  a->hash = tg_structural_hash(j, j->sink);
  a->cost = tg_cost_of(j, &a->path->target, j->sink, NULL, 2);
}

static bool try(attempt *a) {
  static tg_job job;
  tg_job_init(&job, NULL);
  a->job = &job;
  bool ok = tg_protect(&job.env, lower, a);
  CHECK(ok || job.env.status == TG_EINVAL || job.env.status == TG_ELIMIT, "%s\n  words %s\n  given %s\n%s", a->program->path, a->words ? a->words : "-", a->given ? a->given : "-", job.env.message);
  CHECK(!ok || (isfinite(a->cost.seconds) && a->cost.seconds >= 0), "%s: cost %g", a->program->path, a->cost.seconds);
  tg_job_drop(&job);
  return ok;
}

/* ---- the text that a search works on ---- */

static void printed(all *t, const attempt *first) {
  const tg_sketch_source source = {.file = t->program->path, .text = t->program->text};
  kit_program text = {.path = "printed"};
  tg_points s;
  tg_point p;
  tg_space_open(&s, &t->env, &source, 1, NULL, 0);
  CHECK(tg_space_point(&s, 0, NULL, NULL, NULL, &p), "%s: %s", t->program->path, p.message);
  text.text = tg_strdup(&t->env, p.text);
  attempt same = {.path = &t->path, .program = &text, .env = &t->env, .words = first->used}, chosen = same;
  chosen.words = NULL;
  CHECK(try(&same) && same.tokens == first->tokens, "%s: %s\nmake another program of its printed text:\n%s", t->program->path, first->used, text.text);
  if (!p.own_words || p.words) return;
  CHECK(try(&chosen) && !strcmp(chosen.used, first->used), "%s: %s\nand of its printed text\n%s\n%s", t->program->path, first->used, chosen.used, text.text);
}

static void one_text(void *arg) {
  all *t = arg;
  attempt first = {.path = &t->path, .program = t->program, .env = &t->env};
  if (try(&first)) printed(t, &first);
}

/* ---- refusals ---- */

static const tg_uop *without_lanes(tg_job *j, const tg_lowering *l, const tg_uop *sink) {
  for (uint32_t i = 0; i < j->opts.n; i++)
    if (!strncmp(j->opts.data[i].text, "lane ", 5)) tg_fail_at(j, j->opts.data[i].pos, "no lanes today");
  return tg_pass_schedule(j, l, sink);
}

static const tg_uop *nothing(tg_job *j, const tg_lowering *l, const tg_uop *sink) {   /* and says no word */
  (void)l;
  tg_fail_at(j, (tg_pos){0}, "%s", sink ? "nothing today" : "");
}

static const tg_uop *not_of_z(tg_job *j, const tg_lowering *l, const tg_uop *sink) {
  for (uint32_t i = 0; i < j->opts.n; i++)
    if (strstr(j->opts.data[i].text, "z.")) tg_fail_at(j, j->opts.data[i].pos, "nothing of z");
  return tg_pass_schedule(j, l, sink);
}

static void refusals(all *t, const char *used) {
  attempt lanes = {.path = &t->path, .program = t->program, .env = &t->env, .judge = without_lanes}, none = lanes;
  none.judge = nothing;
  CHECK(try(&lanes) && !strstr(lanes.used, "lane ") && !lanes.logged == !strstr(used, "lane "), "%s: %d lines, %s", t->program->path, lanes.logged, lanes.used);
  CHECK(try(&none) && !*none.used && none.logged, "%s: %d lines, %s", t->program->path, none.logged, none.used);
}

/* Only the nest whose word it is changes. */
static void refused_alone(void *arg) {
  all *t = arg;
  const kit_program two = {.path = "two.tg", .text = "kernel two() { in(x, f32, [4096]); out(y, f32, [4096]); out(z, f32, [4096]);\n"
                                                    "range(i, 4096) y[i] = x[i] + 1; range(i, 4096) z[i] = x[i] * 2; }"};
  attempt a = {.path = &t->path, .program = &two, .env = &t->env}, b = a;
  b.judge = not_of_z;
  CHECK(try(&a) && strstr(a.used, "z.i") && strstr(a.used, "y.i"), "%s", a.used);
  CHECK(try(&b) && b.logged && !strstr(b.used, "z.i") && strstr(b.used, "y.i"), "%d lines, %s", b.logged, b.used);
}

static void one_program(void *arg) {
  all *t = arg;
  attempt first = {.path = &t->path, .program = t->program, .env = &t->env};
  if (!try(&first)) return;
  printed(t, &first);
  if (first.decisions && *first.decisions && *first.used) {   /* none of its own */
    attempt again = {.path = &t->path, .program = t->program, .env = &t->env, .words = first.used};
    CHECK(try(&again) && again.hash == first.hash, "%s: the heuristic's words by hand make another program: %s", t->program->path, first.used);
    refusals(t, first.used);
  }
  const char *given;
  for (uint32_t i = 0; first.decisions && (given = tg_decisions_move(&t->env, first.decisions, NULL, i)); i++) {
    attempt other = {.path = &t->path, .program = t->program, .env = &t->env, .given = given};
    t->decisions++;
    if (!try(&other)) continue;
    t->legal++;
    t->other += other.hash != first.hash;
  }
  for (int i = 0; i < t->mutants && first.used && *first.used; i++) {
    attempt other = {.path = &t->path, .program = t->program, .env = &t->env, .words = tg_words_mutate(&t->env, first.used, tg_hash(&i, sizeof i, tg_hash(t->program->path, strlen(t->program->path), 0)))};
    if (!other.words) continue;
    t->changed++;
    t->words += try(&other);
  }
}

/* Large data is read four pages at a time, but for a target whose memory comes fastest in one sequence. */
static void pages(void *arg) {
  all *t = arg;
  const kit_program copy = {.path = "copy.tg", .text = "kernel copy() { in(x, f32, [67108864]); out(y, f32, [67108864]); range(i, 67108864) y[i] = x[i]; }"};
  for (int one = 0; one < 2; one++) {
    t->path.target.one_stream = one;
    attempt a = {.path = &t->path, .program = &copy, .env = &t->env};
    CHECK(try(&a) && one == !strstr(a.used, ".p;") && strstr(a.used, "stream y"), "%s", a.used);
  }
  t->path.target.one_stream = false;
}

int main(int argc, char **argv) {
  static all t;
  int n;
  t.mutants = argc > 1 ? atoi(argv[1]) : 6;
  kit_program *p = kit_programs(&n);
  CHECK(kit_path_open(&t.path, "x86-64-v4"), "no path");
  t.path.target.threads = 2;
  tg_env_init(&t.env, NULL);
  CHECK(tg_protect(&t.env, pages, &t), "%s", t.env.message);
  CHECK(tg_protect(&t.env, refused_alone, &t), "%s", t.env.message);
  tg_env_drop(&t.env);
  for (int i = 0; i < n; i++) {
    t.program = &p[i];
    tg_env_init(&t.env, NULL);
    if (!strstr(p[i].path, "/accept/")) CHECK(tg_protect(&t.env, one_program, &t), "%s", t.env.message);
    tg_env_drop(&t.env);
  }
  static const char *const folder[] = {"tests/bench/kernels"};
  int texts;
  kit_program *k = kit_programs_of(1, folder, &texts);
  for (int i = 0; i < texts; i++) {
    t.program = &k[i];
    tg_env_init(&t.env, NULL);
    CHECK(tg_protect(&t.env, one_text, &t), "%s", t.env.message);
    tg_env_drop(&t.env);
  }
  CHECK(texts > 40, "%d texts of tests/bench/kernels", texts);
  CHECK(t.legal * 10 > t.decisions * 9 && t.other * 3 > t.legal, "of %d decisions %d are legal, %d make another program", t.decisions, t.legal, t.other);
  CHECK(t.words * 5 > t.changed, "of %d changed lists of words %d are legal", t.changed, t.words);
  printf("%d decisions, %d legal, %d other programs; %d changed lists of words, %d legal\n", t.decisions, t.legal, t.other, t.changed, t.words);
  kit_path_close(&t.path);
  kit_programs_free(p, n);
  kit_programs_free(k, texts);
  return TEST_END();
}
