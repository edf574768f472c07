/* SPDX-License-Identifier: MIT
 * What each pass makes of a small program, to the letter: texts/PASS.tg and texts/PASS.txt. And what is printed after
 * every pass, of these and of larger kernels, parses to the same program. For x86-64-v4, or as the first line says: `// target: sm_80`.
 *
 * `lower_texts --write` takes the present output as expected: look at the difference before it is committed. */
#include <stdlib.h>
#include "dsl/text.h"
#include "compile/pipeline.h"
#include "lower/lower.h"
#include "test.h"

typedef struct {
  tg_job job;
  const char *file, *stage;       /* stage: the one whose text is wanted; NULL: none */
  char *source, *text;            /* text: at that stage */
  const tg_rules *rules;
  tg_target target;
  int stages;
} run;

static char *read_text(const char *name) {
  FILE *f = fopen(name, "rb");
  if (!f) return NULL;
  char *text = calloc(1, 1 << 16);
  size_t n = fread(text, 1, (1 << 16) - 1, f);
  fclose(f);
  text[n] = 0;
  return text;
}

typedef struct { tg_job job; const char *text; } again;

static void parse_again(void *user) {
  again *a = user;
  tg_parse_kernel(&a->job, "printed", a->text, 0, NULL);
  if (a->job.given) tg_take_given(&a->job, a->job.sink, a->job.stage);
}

static void lower_again(void *user) {
  again *a = user;
  tg_target target;
  tg_lowering l = {.target = &target};
  tg_target_named(&target, "x86-64-v4");
  tg_parse_kernel(&a->job, "given", a->text, 0, NULL);
  tg_lower(&a->job, &l, NULL, NULL, NULL);
}

/* Texts of a stage that no pass leaves: an error, before any pass. */
static void refuse_given(void) {
  static const struct { const char *text, *error; } given[] = {
      {"kernel k(N = 12) { stage schedule; in(x, f32, [24]); in(n, i32 in 0..12, [3]); out(z, f32, [3]);\n"
       "  range(i, 3) z[i] = sum(k : min(n[i], 12), x[k * 2]); }", "error: k: this is no program of stage schedule, which only tg writes:\n"},
      {"kernel k(N = 12) { stage linear; in(x, f32, [12]); out(z, f32, [12]); range(i, 12) z[i] = x[i] + 1; }", "no program of stage linear"},
      {"kernel k(N = 12) { stage index; in(x, f32, [3, 4]); out(z, f32, [12]); range(i, 12) z[i] = x[0, i]; }", "subscripts"}};
  for (size_t i = 0; i < TG_COUNT(given); i++) {
    static again a;
    tg_job_init(&a.job, NULL);
    a.text = given[i].text;
    bool ok = tg_protect(&a.job.env, lower_again, &a);
    CHECK(!ok && a.job.env.status == TG_EINVAL && strstr(a.job.env.message, given[i].error), "%s\n%s", a.text, ok ? "accepted" : a.job.env.message);
    tg_job_drop(&a.job);
  }
}

static void seen(void *user, const char *pass, const tg_uop *sink) {
  run *r = user;
  static again a;
  tg_str text = tg_str_new(&r->job.env);
  r->job.stage = pass;
  tg_print(&r->job, &text, sink);
  r->stages++;
  if (r->stage && !strcmp(r->stage, pass)) r->text = strcpy(malloc(text.n + 1), text.data);
  tg_job_init(&a.job, NULL);
  a.text = text.data;
  bool parsed = tg_protect(&a.job.env, parse_again, &a);
  CHECK(parsed, "%s after %s: %s\n%s", r->file, pass, a.job.env.message, text.data);
  if (parsed) CHECK(tg_same_program(&r->job, sink, &a.job, a.job.sink), "%s after %s parses to another program:\n%s", r->file, pass, text.data);
  tg_job_drop(&a.job);
}

static void lower(void *user) {
  run *r = user;
  tg_parse_kernel(&r->job, r->file, r->source, 0, NULL);
  tg_lowering l = {.target = &r->target, .rules = r->rules, .verify = true};
  tg_lower(&r->job, &l, NULL, seen, r);
}

static bool lower_file(run *r, const char *file, const char *stage) {
  r->file = file;
  r->stage = stage;
  r->text = NULL;
  r->stages = 0;
  r->source = read_text(file);
  CHECK(r->source, "%s cannot be read", file);
  if (!r->source) return false;
  char target[32] = "x86-64-v4";
  sscanf(r->source, "// target: %31s", target);
  CHECK(tg_target_named(&r->target, target), "%s: no target %s", file, target);
  tg_job_init(&r->job, NULL);
  bool ok = tg_protect(&r->job.env, lower, r);
  CHECK(ok, "%s: %s", file, r->job.env.message);
  tg_job_drop(&r->job);
  free(r->source);
  return ok;
}

static void one_pass(run *r, const char *pass, const char *name, bool write) {
  char source[64], expected[64];
  snprintf(source, sizeof source, "tests/lower/texts/%s.tg", name);
  snprintf(expected, sizeof expected, "tests/lower/texts/%s.txt", name);
  if (!lower_file(r, source, pass) || !r->text) return;
  if (write) {
    FILE *f = fopen(expected, "wb");
    if (f) fputs(r->text, f), fclose(f);
    CHECK(f, "%s cannot be written", expected);
  }
  char *want = read_text(expected);
  CHECK(want, "%s is missing: each pass has a program and its text", expected);
  if (want) CHECK_TEXT(r->text, want);
  free(want);
  free(r->text);
}

static void compile_rules(void *user) {
  run *r = user;
  r->rules = tg_rules_compile(&r->job.env);
}

int main(int argc, char **argv) {
  refuse_given();
  bool write = argc > 1 && !strcmp(argv[1], "--write");
  static run r, rules;
  int passes = 0;
  tg_job_init(&rules.job, NULL);
  if (!tg_protect(&rules.job.env, compile_rules, &rules)) return 1;
  r.rules = rules.rules;
  for (const tg_pass *p = tg_passes; p->name; p++, passes++) one_pass(&r, p->name, p->name, write);
  static const char *const others[][2] = {   /* other texts of a pass */
    {"expand", "expand_apart"}, {"types", "types_narrow"}, {"coalesce", "coalesce_stores"}, {"coalesce", "coalesce_steps"},
    {"distribute", "distribute_rings"}, {"index", "index_copies"}, {"index", "index_lanes"}, {"coalesce", "coalesce_lanes"},
    {"linear", "linear_tiles"}, {"reduce", "reduce_dots"}, {"reduce", "reduce_extrema"}, {"coalesce", "coalesce_rows"}, {"raise", "raise_arms"}};
  for (size_t i = 0; i < TG_COUNT(others); i++) one_pass(&r, others[i][0], others[i][1], write);
  static const char *const kernels[] = {"attention_flash", "attention_naive", "softmax", "layernorm", "matmul_tiled", "matmul_scheduled", "argmax", "reduce_tuple", "double_buffer", "paged", "schedule_tile", "schedule_place"};
  for (size_t i = 0; i < TG_COUNT(kernels); i++) {
    char file[64];
    snprintf(file, sizeof file, "tests/corpus/%s.tg", kernels[i]);
    if (lower_file(&r, file, NULL)) CHECK(r.stages == passes + 1, "%s: %d stages of %d", file, r.stages, passes + 1);
  }
  tg_job_drop(&rules.job);
  return TEST_END();
}
